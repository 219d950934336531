"""The data card and the Croissant metadata, from facts: sizes, licences, defaults, order."""

import json
import time
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
import yaml

from jobs.errors import InputError
from jobs.releasing.card import MOST_LICENCES, CardFacts, CardSettings, check, croissant, data_card
from jobs.releasing.released_files import Column, ReleasedFile
from tests.cases import check_cases

FILES = [
    ReleasedFile("pictures", "a picture", {"image_url": Column("its link", "url")}, 1200, 34567, "abc"),
    ReleasedFile(
        "annotations", "the answers", {"n": Column("a number", "integer"), "ok": Column("whether", "boolean"),
                                       "why": Column("the reason")}, 7, 89, "def",
    ),
]  # fmt: skip


def facts(pictures: int = 3, **more: Any) -> CardFacts:
    defaults: dict[str, Any] = {"licences": {}, "people": 0, "models": [], "left_out": ["Bytes."], "sources": [],
                                "is_sensitive": False}  # fmt: skip
    return CardFacts(pictures, **{"linked": pictures, **defaults, **more})


def card(settings: Mapping[str, Any], described: CardFacts, files: Sequence[ReleasedFile] = FILES) -> tuple[Any, str]:
    """Return the metadata and the text of a card."""
    _, metadata, text = data_card(CardSettings(**{"licence": "mit", **settings}), files, described).split("---\n", 2)
    return yaml.safe_load(metadata), text


def test_sizes_of_the_hub() -> None:
    def check_size(pictures: int, size: str) -> None:
        assert card({}, facts(pictures))[0]["size_categories"] == [size]

    cases = [
        (0, "n<1K"), (999, "n<1K"), (1000, "1K<n<10K"), (9_999, "1K<n<10K"), (10_000, "10K<n<100K"),
        (99_999, "10K<n<100K"), (100_000, "100K<n<1M"), (999_999, "100K<n<1M"), (1_000_000, "1M<n<10M"),
        (9_999_999, "1M<n<10M"), (10_000_000, "10M<n<100M"),
    ]  # fmt: skip
    check_cases(check_size, cases)


def test_the_card_warns_of_pictures_that_a_rubric_calls_sensitive() -> None:
    assert "may be disturbing" in card({}, facts(is_sensitive=True))[1]
    assert "disturbing" not in card({}, facts())[1]


def test_pictures_without_links_are_names_of_files() -> None:
    assert "The 3 pictures are links to their sources" in card({}, facts())[1]
    assert "The 3 pictures are not included: 1 are links to their sources, the others" in card({}, facts(linked=1))[1]
    assert "not included: the column `file` has the names of their files. Each" in card({}, facts(linked=0))[1]


def test_the_metadata_has_one_default_configuration() -> None:
    metadata, text = card({"title": "Ü", "tags": ["history"], "languages": ["en", "de"]}, facts())
    assert list(metadata) == ["pretty_name", "license", "language", "tags", "size_categories", "configs"]
    assert (metadata["pretty_name"], metadata["license"], metadata["language"]) == ("Ü", "mit", ["en", "de"])
    assert metadata["tags"] == ["croissant", "history"]
    assert metadata["configs"] == [
        {"config_name": "pictures", "data_files": "data/pictures.csv", "default": True},
        {"config_name": "annotations", "data_files": "data/annotations.csv"},
    ]
    assert "| `data/pictures.csv` | 1,200 | a picture |\n| `data/annotations.csv` | 7 | the answers |" in text
    assert 'load_dataset("PATH_OR_NAME", "pictures", split="train")' in text
    assert "## Columns of data/annotations.csv\n\n| column | contents |\n|---|---|\n| `n` | a number |" in text


def test_the_most_frequent_licences_are_listed_and_the_rest_is_summed() -> None:
    many = {f"L{n:02}": 1 for n in reversed(range(MOST_LICENCES + 1))} | {"CC0": 5000, "": 7}
    _, text = card({}, facts(9999, licences=many))
    lines = text.split("|---|---|\n", 1)[1].split("pictures |\n|---|---|\n")[-1].split("\n\n")[0].splitlines()
    expected = ["| CC0 | 5,000 |", "| unknown | 7 |", *(f"| L{n:02} | 1 |" for n in range(MOST_LICENCES - 2))]
    assert lines == [*expected, "| others | 3 |"]
    exactly = {f"L{n:02}": 1 for n in range(MOST_LICENCES)}
    assert "others" not in card({}, facts(licences=exactly))[1]
    assert "The 9,999 pictures are links" in text
    assert "the data set's licence (mit) does not change" in text


def test_texts_of_data_stay_in_their_cell() -> None:
    """A question's text may have several lines, and licences of a picture may be separated by a bar."""
    columns = {"rating.a|b": Column("First line.\n  Second | third.\n")}
    file = ReleasedFile("pictures", "a | b", columns, 1, 1, "abc")
    _, text = card({}, facts(licences={"CC BY-SA 3.0 | GFDL": 1}), [file])
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert rows == [
        "| file | rows | one row is |", r"| `data/pictures.csv` | 1 | a \| b |",
        "| licence according to the source | pictures |", r"| CC BY-SA 3.0 \| GFDL | 1 |",
        "| column | contents |", r"| `rating.a\|b` | First line. Second \| third. |",
    ]  # fmt: skip


def test_people_and_models_are_named_if_there_are_any() -> None:
    nobody, people = card({}, facts())[1], card({}, facts(people=1234))[1]
    models = card({}, facts(models=["a@1", "b@2"]))[1]
    assert ("people rated" in nobody, "Models:" in nobody) == (False, False)
    assert ("1,234 people rated" in people, "Models:" in people) == (True, False)
    assert ("people rated" in models, "Models: a@1, b@2." in models) == (False, True)


def test_sections_are_in_order_and_optional_ones_need_a_text() -> None:
    def sections(text: str) -> list[str]:
        return [line for line in text.splitlines() if line.startswith("#")]

    described = facts(left_out=["One.", "Two."], sources=[("records", "12ab"), ("ratings", "34cd")])
    _, plain = card({}, described)
    columns = [f"## Columns of data/{name}.csv" for name in ("pictures", "annotations")]
    first = ["# Pictures with annotations", "## Pictures", "## Annotations", "## What is not included", *columns]
    assert sections(plain) == [*first, "## Provenance"]
    assert "## What is not included\n\n- One.\n- Two.\n\n" in plain
    assert plain.endswith("tables:\n\n- records: identity 12ab\n- ratings: identity 34cd\n")
    _, cited = card({"citation": " @x{y}\n", "description": "About."}, described)
    assert sections(cited) == [*first, "## Citation", "## Provenance"]
    assert "## Citation\n\n```\n@x{y}\n```\n\n" in cited
    assert "# Pictures with annotations\n\nAbout.\n\n| file |" in cited
    assert "# Pictures with annotations\n\n| file |" in plain


def test_licences_of_the_hub() -> None:
    for licence in ("cc-by-4.0", "mit", "other", "0bsd", "gpl-3.0+"):
        assert check(CardSettings(licence=licence)) == licence
    for licence in ("CC-BY-4.0", "", "-mit", "cc by", "mit\n"):
        with pytest.raises(InputError, match=r"(?s)card\.licence=.*must be a licence"):
            check(CardSettings(licence=licence))
    with pytest.raises(InputError, match=r"card\.licence=: required"):
        check(CardSettings())


def test_croissant_describes_each_file_and_column() -> None:
    metadata = json.loads(croissant(CardSettings(licence="mit", date="2025-11-23"), FILES))
    assert [(file["@id"], file["contentSize"], file["sha256"]) for file in metadata["distribution"]] == [
        ("data/pictures.csv", "34567 B", "abc"), ("data/annotations.csv", "89 B", "def"),
    ]  # fmt: skip
    first, second = metadata["recordSet"]
    assert (first["@id"], first["description"], second["name"]) == ("pictures", "a picture", "annotations")
    assert first["field"] == [
        {
            "@type": "cr:Field",
            "@id": "pictures/image_url",
            "name": "image_url",
            "description": "its link",
            "dataType": "sc:URL",
            "source": {"fileObject": {"@id": "data/pictures.csv"}, "extract": {"column": "image_url"}},
        }
    ]
    assert [field["dataType"] for field in second["field"]] == ["sc:Integer", "sc:Boolean", "sc:Text"]
    assert metadata["license"] == "https://choosealicense.com/licenses/mit/"


def test_what_croissant_says_without_optional_keys() -> None:
    plain = json.loads(croissant(CardSettings(licence="mit"), FILES))
    assert (plain["name"], plain["description"]) == ("Pictures with annotations",) * 2
    assert time.strptime(plain["datePublished"], "%Y-%m-%d")
    assert (plain["version"], plain["inLanguage"], plain["keywords"]) == ("1.0.0", ["en"], [])
    assert not {"url", "citeAs", "creator"} & set(plain)
    settings = CardSettings(
        title="T", description="D", licence="mit", languages=["de"], creators=["A", "B"], citation="C", url="https://u",
        version="2", date="2025-11-23", tags=["t"],
    )  # fmt: skip
    full = json.loads(croissant(settings, FILES))
    assert (full["name"], full["description"], full["url"], full["citeAs"]) == ("T", "D", "https://u", "C")
    assert (full["version"], full["datePublished"], full["inLanguage"], full["keywords"]) == (
        "2", "2025-11-23", ["de"], ["t"],
    )  # fmt: skip
    assert [creator["name"] for creator in full["creator"]] == ["A", "B"]
