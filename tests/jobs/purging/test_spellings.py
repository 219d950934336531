"""Forms in which files name a picture: each is found by `verify exclusions=`, or its file is named as not read."""

import gzip
import html
import io
import json
import zipfile
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from actors.ids import content_id
from jobs.purging.matching import Gone
from jobs.purging.mentions import FileNames, Mentions, plain_texts
from jobs.purging.needles import Needles
from jobs.runtime.command_line import cli
from jobs.runtime.selection.exclusions import marks_of
from tests.factories import picture, write_table

NAME = "Café_O'Hara_&_Brücke_(1900).jpg"
URL = f"https://upload.wikimedia.org/wikipedia/commons/1/1f/{quote(NAME, safe='()')}"
PLAIN = f"https://upload.wikimedia.org/wikipedia/commons/1/1f/{NAME}"
OTHER_URL = "https://upload.wikimedia.org/wikipedia/commons/1/1f/Other_picture.jpg"
ID, OTHER = content_id(URL), content_id(OTHER_URL)
Z = "\u200b"


def parquet(column: Any, *, name: str = "x", metadata: dict[str, str] | None = None) -> bytes:
    out = io.BytesIO()
    table = pa.table({name: column})
    pq.write_table(table.replace_schema_metadata(metadata) if metadata else table, out)
    return out.getvalue()


def jpeg(comment: str) -> bytes:
    out = io.BytesIO()
    Image.effect_noise((64, 64), 90).save(out, "JPEG", comment=comment.encode())
    return out.getvalue()


def archive(name: str, text: str) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        file.writestr(name, text)
    return out.getvalue()


TEXTS = {
    "plain": "see {}",
    "json": json.dumps({"a": "{}"}),
    "markdown": "[x]({})",
    "html": '<a href="{}">x</a>',
    "csv": "a,b\n{},2\n",
}
SPELLINGS = {
    "id": ID,
    "ID": ID.upper(),
    "x_id_y": f"x_{ID}_y",
    "iD": ID[:16].upper() + ID[16:],
    "url": URL,
    "plain": PLAIN,
    "http": URL.replace("https", "http"),
    "ftp": URL.replace("https", "ftp"),
    "HTTPS": URL.replace("https://upload", "HTTPS://UPLOAD"),
    "no scheme": URL.removeprefix("https:"),
    "thumb": URL.replace("/commons/", "/commons/thumb/") + f"/120px-{quote(NAME)}",
    "page": f"https://commons.wikimedia.org/wiki/File:{quote(NAME)}",
    "archive": f"https://web.archive.org/web/2020/{URL}",
    "archive, one slash": f"https://web.archive.org/web/2020/{URL.replace('://', ':/')}",
    "parameter": f"https://h.example/?u={quote(URL, safe='')}&w=1",
    "double parameter": f"https://h.example/?u={quote(quote(URL, safe=''), safe='')}",
    "%2F": URL[:30] + quote(URL[30:], safe="%"),
    "%2f": URL[:30] + quote(URL[30:], safe="%").replace("%2F", "%2f"),
    "zero width": URL[:30] + Z + URL[30:],
    "soft hyphen": f"{ID[:8]}\u00ad{ID[8:]}",
    "json escapes": json.dumps(PLAIN)[1:-1],
    "json slashes": json.dumps(PLAIN)[1:-1].replace("/", "\\/"),
    "html": html.escape(PLAIN),
    "html numbers": "".join(f"&#{ord(sign)};" if sign in "/'&ü" else sign for sign in PLAIN),
    "html hexadecimal": "".join(f"&#x{ord(sign):x};" if sign in "/'&ü" else sign for sign in PLAIN),
    "xml": PLAIN.replace("&", "&amp;").replace("'", "&apos;"),
    "yaml quotes": PLAIN.replace("'", "''"),
    "title": f"[[File:{NAME.replace('_', ' ')}|thumb]]",
    "bare name": NAME,
}
COLUMNS: dict[str, Any] = {
    "large_string": pa.array([ID], pa.large_string()),
    "string_view": pa.array([ID], pa.string_view()),
    "dictionary": pa.array([URL]).dictionary_encode(),
    "struct": pa.array([{"a": {"b": URL}}]),
    "structs": pa.array([[{"a": ID}]]),
    "large_list": pa.array([[ID]], pa.large_list(pa.string())),
    "fixed_list": pa.array([[ID, "x"]], pa.list_(pa.string(), 2)),
    "keys": pa.array([[(ID, 1)]], pa.map_(pa.string(), pa.int64())),
    "values": pa.array([[("a", [URL])]], pa.map_(pa.string(), pa.list_(pa.large_string()))),
    "binary": pa.array([ID.encode()]),
    "large_binary": pa.array([jpeg(URL)], pa.large_binary()),
    "fixed_binary": pa.array([ID.encode()], pa.binary(32)),
    "escaped": pa.array([json.dumps(PLAIN)], pa.large_string()),
    "name": pa.array([f"of {NAME}"]),
}
FILES: dict[str, bytes] = {
    **{f"columns/{name}.parquet": parquet(column) for name, column in COLUMNS.items()},
    **{f"ids/{kind}.parquet": parquet(column, name="image_id") for kind, column in {
        "large": COLUMNS["large_string"], "upper": pa.array([ID.upper()]),
        "dictionary": pa.array([ID]).dictionary_encode()}.items()},
    "column_name.parquet": parquet(pa.array([1]), name=f"score of {ID}"),
    "metadata.parquet": parquet(pa.array([1]), metadata={"source": URL}),
    "latin-1.txt": f"see {PLAIN}".encode("latin-1"),
    "latin-1.csv": f"a;b\n{NAME};2\n".encode("latin-1"),
    f"{ID.upper()}.JPG": jpeg("x"),
    f"{ID}.txt": b"x",
    f"{ID}/a.txt": b"x",
    f"{ID}_thumb.webp": b"RIFF",
    f"thumb_{ID}.txt": b"x",
    f"names/{NAME}": jpeg("x"),
    f"names/{quote(NAME)}": jpeg("x"),
    f"names/120px-{NAME}": jpeg("x"),
    "comment.jpg": jpeg(f"from {URL}"),
    "comment_of_name.jpg": jpeg(f"from {PLAIN}"),
    "packed.gz": gzip.compress(ID.upper().encode()),
    "rows.jsonl": json.dumps({"a": PLAIN}).encode() + b"\n",
    "notebook.ipynb": json.dumps({"cells": [{"source": [f"![x]({PLAIN})"]}]}).encode(),
}  # fmt: skip
UNREAD: dict[str, bytes] = {
    "a.zip": archive("a.txt", URL),
    "utf-16.txt": f"see {URL}".encode("utf-16"),
    "cut.parquet": parquet(pa.array([URL]))[:-9],
    "database.sqlite": b"SQLite format 3\0" + URL.encode(),
}
HARMLESS = {
    "other.txt": OTHER_URL.encode(),
    "longer.txt": f"{ID}0 a{ID} {ID}{ID}".encode(),
    f"{OTHER}.jpg": jpeg(OTHER_URL),
    "Other_picture.jpg": jpeg("x"),
    "other.parquet": parquet(pa.array([OTHER]).dictionary_encode(), metadata={"source": OTHER_URL}),
    "escaped.json": json.dumps({"a": f"{OTHER_URL}?u={quote(OTHER_URL, safe='')} &amp; é"}).encode(),
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with a table of other pictures."""
    write_table(tmp_path / "R" / "images", "images", [picture(number) for number in range(2)])
    return tmp_path / "R"


def verified(root: Path, capsys: pytest.CaptureFixture[str], entry: str) -> tuple[int, str]:
    (root.parent / "list.txt").write_text(entry + "\n")
    code = cli.main("verify", [f"input={root}", f"exclusions={root.parent}/list.txt"])
    printed = capsys.readouterr()
    return code, printed.out + printed.err


def planted(root: Path, files: dict[str, bytes]) -> None:
    for name, data in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(data)


def test_every_file_that_names_it_is_found_or_named_as_not_read(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jobs.verify.FAULTS_SHOWN", 1000)
    planted(root, {**FILES, **UNREAD, **HARMLESS})
    code, printed = verified(root, capsys, URL)
    assert code == 1
    assert [name for name in FILES if f"{root}/{name}: mentions a picture" not in printed] == []
    not_read = next(line for line in printed.splitlines() if "not checked" in line)  # although there are faults
    assert [name for name in UNREAD if f"{root}/{name}" not in not_read] == []
    assert [name for name in HARMLESS if f"{root}/{name}" in printed] == []


def test_the_names_of_files_that_hold_nothing_are_not_mentions(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    planted(root, HARMLESS)
    assert verified(root, capsys, URL)[0] == 0
    assert verified(root, capsys, "https://h.example/picture.jpg")[0] == 0


def test_every_spelling_in_every_kind_of_text_is_found() -> None:
    needles = Needles(Gone(set(marks_of(URL)), pictures={ID}))
    missed = [
        (kind, spelling)
        for kind, form in TEXTS.items()
        for spelling, text in SPELLINGS.items()
        if not needles.in_text(form.replace("{}", text))
    ]
    assert missed == []
    for text in HARMLESS.values():
        assert not needles.in_text(text.decode("utf-8", "surrogateescape"))


def test_every_spelling_of_an_id_or_address_leaves_the_texts_of_tables() -> None:
    mentions = Mentions(Gone(set(marks_of(URL)), pictures={ID}))
    promised = {name: text for name, text in SPELLINGS.items() if name not in ("title", "bare name")}
    for form in ("{}", "A house: {} (seen)", '{"a": "{}", "b": 1}'):
        texts = pa.table({"text": [form.replace("{}", text) for text in promised.values()]})
        missed = [name for name, hit in zip(promised, mentions.mask(texts, ["text"]), strict=True) if not hit]
        assert missed == [], form
        kept = mentions.without(texts, ["text"])
        assert not mentions.mask(kept, ["text"]).any(), form
        if form.startswith("A house"):
            assert all("A house" in text for text in kept["text"].to_pylist())
    other = pa.table({"text": [text.decode("utf-8", "replace") for text in HARMLESS.values()]})
    assert mentions.without(other, ["text"]).equals(other)


def test_plain_texts_are_other_texts_and_end() -> None:
    for text in ("", "a", "%", "%%%", "&&amp;", "\\u00zz", "%25" * 1000, "&amp;" * 1000, "//" * 1000, "\udcff" * 9):
        forms = list(plain_texts(text))
        assert text not in forms
        assert len(forms) == len(set(forms)) < 12


def test_only_distinctive_names_of_files_count() -> None:
    names = FileNames([URL, "https://h.example/picture.jpg", "https://h.example/DSC_0012345.jpg", "https://[", "x"])
    assert [names.is_name(name) for name in (NAME, NAME.lower(), "picture.jpg", "dsc_0012345.jpg", "x")] == [
        True, True, False, True, False
    ]  # fmt: skip
    assert not names.in_text("a picture.jpg")
    assert names.in_text(f"a {NAME.replace('_', ' ')}!")
    assert not FileNames([])
