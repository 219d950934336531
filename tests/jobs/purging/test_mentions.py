"""Mentions of pictures in texts, lists and maps are recognised and removed; other rows stay as they are."""

from typing import Any

import pyarrow as pa
import pytest

from actors.ids import content_id
from jobs.purging.matching import Gone
from jobs.purging.mentions import Mentions, columns_of_texts
from jobs.runtime.selection.exclusions import marks_of
from jobs.tables import TABLES

ID, URL, PLAIN = content_id("a picture"), "https://h.example/p.jpg", "https://h.example/picture?id=7"
FILE = "https://upload.wikimedia.org/wikipedia/commons/a/a9/Example.jpg"
OTHERS = ("https://h.example/another.png", "https://h.example/ANOTHER.PNG")
SPACED = 'https://h.example/a "b" c.jpg'
COMMA = "https://h.example/a,b's.jpg"
BRACKETS, ENDS = "https://h.example/a_(b).jpg", "https://h.example/picture?name=a_(b)"
GONE = Gone(
    {*marks_of(ID), *marks_of(FILE), "7", *map(content_id, OTHERS)}, {URL, PLAIN, COMMA, SPACED, BRACKETS, ENDS},
    pictures={ID, *map(content_id, OTHERS)},
)  # fmt: skip
MENTIONS = Mentions(GONE)


def cleaned(values: list[Any], kind: pa.DataType) -> list[Any]:
    parts = (values[:2], values[2:3], values[3:])
    rows = pa.table({"text": pa.chunked_array([pa.array(part, kind) for part in parts])})
    mask = MENTIONS.mask(rows, ["text"])
    kept = MENTIONS.without(rows, ["text"])["text"]
    assert kept.type == kind
    assert mask.tolist() == [old != new for old, new in zip(values, kept.to_pylist(), strict=True)]
    assert not MENTIONS.mask(pa.table({"text": kept}), ["text"]).any()
    return list(kept.to_pylist())


def test_a_text_loses_its_mentions_and_no_more() -> None:
    texts = {
        ID: "",
        URL: "",
        PLAIN: "",
        f"see {ID}, {URL}.": "see , .",
        f"<img src='{URL}'>": "<img src=''>",
        f'{{"a":"{ID}","b":1}}': '{"a":"","b":1}',
        "https://commons.wikimedia.org/wiki/File:Example.jpg": "",  # by what it names
        **{f"of {other}": "of " for other in OTHERS},  # by their hashes, where the list has the ids
        COMMA: "",
        SPACED: "",
        f"see {COMMA}, '{COMMA}' and {URL}": "see , '' and ",
        f"[text]({URL}), [text]({COMMA})": "[text](), [text]()",
        f"{URL},{URL}": ",",
        f"[a]({URL})[b]({URL})": "[a]()[b]()",
        f"|{URL}|{URL}|x|": "|||x|",
        f"{URL};{PLAIN}": ";",
        f"見{URL}です。": "見です。",
        f"見て {COMMA}。": "見て 。",
        f"見{FILE.replace('https', 'http')}": "見",
        f"see {BRACKETS} here": "see  here",
        f"{BRACKETS},{BRACKETS}": ",",
        ENDS: "",
        f"see {ENDS}": "see )",
        f'{{"a":"{{\\"b\\":\\"{URL}\\"}}"}}': '{"a":"{\\"b\\":\\"\\"}"}',  # JSON in JSON
        f"見{ID}é": "見é",  # letters of other scripts are no part of an id
    }
    same = [None, "", "7", f"{ID}0", f"a{ID}", "https://h.example/q.jpg", "https://h.example/picture?id=8", "//"]
    same += [COMMA.replace("b", "c"), f"see {COMMA}.png"]
    assert cleaned([*texts, *same], pa.string()) == [*texts.values(), *same]


def test_addresses_of_every_picture_format_are_compared_by_what_they_name() -> None:
    suffixes = "jpg jpeg png gif webp tif tiff bmp avif jp2 ppm svg djvu pdf".split()
    urls = [f"https://h.example/a{end}" for suffix in suffixes for end in (f".{suffix}", f".{suffix.upper()}?w=1")]
    mentions = Mentions(Gone(set(map(content_id, urls)), set(), pictures=set(map(content_id, urls))))
    rows = pa.table({"text": [f"of {url}" for url in [*urls, "https://h.example/b.jpg"]]})
    assert mentions.mask(rows, ["text"]).tolist() == [True] * len(urls) + [False]
    assert mentions.without(rows, ["text"])["text"].to_pylist()[:-1] == ["of "] * len(urls)


def test_signs_around_an_address_stay() -> None:
    for signs in ("()", "[]", "{}", ";;", "::", "!!", "??", "\\\\", "''", ",,", "..", "||", "<>", '""'):
        for text in (f"at {signs[0]}%s{signs[1]}", f"at {signs[0]}%s{signs[1]} and"):
            assert cleaned([text % URL], pa.string()) == [text % ""]


@pytest.mark.timeout(60)
def test_a_long_word_does_not_take_the_square_of_its_length() -> None:
    for word in ("a" * 300_000, "/" * 300_000, "a//b," * 3_000, "https" * 60_000):
        assert cleaned([f"{word} {URL}"], pa.string()) == [f"{word} "]


def test_lists_and_maps_lose_them_too() -> None:
    strings = pa.list_(pa.string())
    assert cleaned([["a"], None, [], ["b", f"x {URL}", None], [ID]], strings) == [
        ["a"],
        None,
        [],
        ["b", "x ", None],
        [""],
    ]
    maps = [[("a", "b")], None, [], [("p", URL), ("q", None)], [("r", "s"), ("p", ID)]]
    kept = [*maps[:3], [("p", ""), ("q", None)], [("r", "s"), ("p", "")]]
    assert cleaned(maps, pa.map_(pa.string(), pa.string())) == kept
    sliced = pa.array(maps, pa.map_(pa.string(), pa.string())).slice(2, 2)
    assert MENTIONS.mask(pa.table({"text": sliced}), ["text"]).tolist() == [False, True]


def test_columns_of_texts() -> None:
    columns = {name: columns_of_texts(table.schema()) for name, table in TABLES.items()}
    assert "attributes" in columns["items"]
    assert {"text", "source"} <= set(columns["texts"])
    assert not {"bytes", "sha256", "phash", "image_id", "source_url"} & set(columns["images"])
    assert columns["nodes"] == ["node_id", "lemmas", "titles", "glosses", "article_text_ids"]
