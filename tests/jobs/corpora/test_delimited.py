"""Every reader of delimited text accepts the same odd files, and refuses the same ones with their line and column."""

import csv
import gzip
import io
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs.analysis.gold_answers import GoldColumns, read_gold
from jobs.annotation import tabular
from jobs.annotation.assignment import read_raters
from jobs.annotation.reading import RatingColumns, Reading
from jobs.choose import ChooseConfig
from jobs.choose import execute as choose
from jobs.corpora import delimited, user_tables
from jobs.corpora.knowledge_base import KnowledgeBaseConfig, NodeColumns, entries, find_files
from jobs.corpora.terms import TermsConfig, read_terms
from jobs.errors import InputError
from jobs.page.picture_sheets import COLUMNS as CHOOSE_COLUMNS
from jobs.store.reading import open_table
from jobs.store.writer import Reject
from tests.cases import check_cases

Pairs = list[tuple[str, str]]
PAIRS = [("1", "x, y; z"), ("2", "first\nsecond"), ("zoë", "é")]


def by_rows(uri: str, encoding: str | None) -> Pairs:
    dialect = delimited.read_dialect(uri, encoding=encoding)
    return [(row["a"], row["b"]) for _, row in delimited.records(uri, dialect, ["a", "b"])]


def by_batches(uri: str, encoding: str | None) -> Pairs:
    tables = delimited.text_batches(uri, delimited.read_dialect(uri, encoding=encoding), ["a", "b"])
    return [(row["a"] or "", row["b"] or "") for table in tables for row in table.to_pylist()]


def analyze(uri: str, encoding: str | None) -> Pairs:
    tables = user_tables.batches(uri, ["a", "b"], encoding=encoding)
    selected = [user_tables.select_columns(uri, rows, {"a": ["a"], "b": ["b"]}, {}) for rows in tables]
    return [(row["a"] or "", row["b"] or "") for table in selected for row in table.to_pylist()]


def import_ratings(uri: str, encoding: str | None) -> Pairs:
    """Here a row that cannot be read is a reject."""
    columns = RatingColumns(item_id="a", value="b")
    reading = Reading("ratings", columns, None, question="q", rater="me", encoding=encoding)
    rejects: list[Reject] = []
    tables = list(tabular.read_csv(uri, reading, rejects.append))
    if rejects:
        delimited.refuse(rejects[0])
    return [(row["item_id"], row["answer"]) for table in tables for row in table.to_pylist()]


def annotate(uri: str, encoding: str | None) -> Pairs:
    return [(rater.name, rater.group) for rater in read_raters(uri, group="b", limit=None, encoding=encoding)]


def terms(uri: str, encoding: str | None) -> Pairs:
    return [(term, source) for term, (source,) in read_terms(TermsConfig(uri, encoding=encoding)).items()]


def knowledge_base(uri: str, encoding: str | None) -> Pairs:
    config = KnowledgeBaseConfig(name="k", path=uri, columns=NodeColumns(node="a", gloss="b"), encoding=encoding)
    (file,) = find_files(config)
    return [(entry.node_id, entry.gloss) for entry in entries(file.uri, config)]  # type: ignore[union-attr]


def evaluate(uri: str, encoding: str | None) -> Pairs:
    gold = read_gold(uri, GoldColumns(query="a", answer="b"), None, encoding=encoding)
    return [(query, answer) for query, answers in gold.right.items() for answer in answers]


def choose_items(uri: str, encoding: str | None) -> Pairs:
    out = f"{uri}.items"
    choose(ChooseConfig(out=out, chosen=uri, encoding=encoding))
    items = pa.concat_tables(list(open_table(out).batches())).to_pylist()
    return [(dict(item["attributes"])["prompt"], item["image_ids"][0]) for item in items]


class Reader(NamedTuple):
    """A reader, and how a file for it names and fills its columns."""

    read: Callable[[str, str | None], Pairs]
    header: Sequence[str] = ("a", "b")
    fields: Callable[[str, str], Sequence[str]] = lambda a, b: (a, b)


READERS = [
    *(Reader(f) for f in (by_rows, by_batches, analyze, import_ratings, knowledge_base, evaluate)),
    Reader(annotate, ("rater", "b")),
    Reader(terms, ("term", "source")),
    Reader(choose_items, CHOOSE_COLUMNS, lambda a, b: (a, a, "{}", "1", b, "0.5", "", "x")),
]


def text_of(reader: Reader, *, delimiter: str = ",", end: str = "\n", more: Sequence[str] = ()) -> str:
    """Return the file of `PAIRS`; `more` names further, empty columns."""
    quoted = [['"' + field.replace('"', '""') + '"' for field in reader.fields(*pair)] for pair in PAIRS]
    lines = [[*reader.header, *more], *([*line, *("" for _ in more)] for line in quoted)]
    return "".join(delimiter.join(line) + end for line in lines)


def accepted_files(reader: Reader) -> Iterator[tuple[str, bytes, str | None]]:
    """What is odd about a file, its bytes, and the encoding that is given."""
    plain = text_of(reader)
    semicolons = text_of(reader, delimiter=";", end="\r\n")
    header, rest = plain.split("\n", 1)
    commas = "," * (len(reader.header) - 1)
    yield "nothing", plain.encode(), None
    yield "byte-order mark", plain.encode("utf-8-sig"), None
    yield "UTF-16", plain.encode("utf-16"), None
    yield "UTF-16, big-endian", b"\xfe\xff" + plain.encode("utf-16-be"), None
    yield "UTF-16 without a mark", plain.encode("utf-16-le"), "utf-16-le"
    yield "UTF-32", plain.encode("utf-32"), None
    yield "cp1252", plain.encode("cp1252"), "cp1252"
    yield "a mark of another encoding than the key", plain.encode("utf-8-sig"), "cp1252"
    yield "semicolons", semicolons.encode(), None
    yield "tabs", text_of(reader, delimiter="\t").encode(), None
    yield "carriage returns", text_of(reader, end="\r").encode(), None
    yield "sep=;", ("sep=;\r\n" + semicolons).encode(), None
    yield "sep=; after a mark", ("sep=;\r\n" + semicolons).encode("utf-16"), None
    yield "no line break at the end", plain.removesuffix("\n").encode(), None
    yield "empty lines", f"\n\n{header}\n\n{rest}\n{commas}\n   \n".encode(), None
    yield "duplicate columns that are not read", text_of(reader, more=["note", "note", "", ""]).encode(), None


def refused_files(reader: Reader) -> Iterator[tuple[str, bytes, Sequence[str]]]:
    """What is wrong with a file, its bytes, and what the message must name."""
    header = ",".join(reader.header)
    row = ",".join(reader.fields("1", "x"))
    last = reader.header[-1]
    fields = len(reader.header)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("a.csv", f"{header}\n{row}\n")
    table = io.BytesIO()
    pq.write_table(pa.table({name: ["x"] for name in reader.header}), table)
    yield "row too short", f"{header}\n{row}\n1\n".encode(), ["line 3", "1 fields", f"header has {fields}"]
    yield "row over lines", f'{header}\n{row},"x\ny"\n'.encode(), ["line 2", f"{fields + 1} fields over 2 lines"]
    yield "row too long", f"{header}\n{row}\n\n{row},x\n".encode(), ["line 4", f"{fields + 1} fields", "quotes"]
    quoted = ",".join(f'"{field}\n"' for field in reader.fields("1", "x"))
    yield "after quoted line breaks", f"{header}\n{quoted}\n1\n".encode(), [f"line {3 + fields}", "1 fields"]
    yield "open quote", f'{header}\n{row}\n{row[:-1]}"{row[-1]}'.encode(), ["line 3", f"column {last}", "quote"]
    yield "open quote, more lines", f'{header}\n{row[:-1]}"x\n{row}\n'.encode(), ["line 2", f"column {last}", "quote"]
    yield "open quote in a column too many", f'{header}\n{row},"x\n'.encode(), ["line 2", f"column {fields + 1}: a q"]
    yield "NUL", f"{header}\n{row}\n{row}\0\n".encode(), ["line 3", f"column {last}", "NUL"]
    yield "NUL in UTF-16", f"{header}\n{row}\0\n".encode("utf-16"), ["line 2", f"column {last}", "NUL"]
    yield "UTF-16 without a mark", f"{header}\n{row}\n".encode("utf-16-le"), ["line 1", "NUL", "encoding="]
    yield "NUL in the header after empty lines", f"\n \n\0{header}\n".encode(), ["line 3", "NUL"]
    yield "NUL in the header after sep=", f"sep=,\n\n\0{header}\n".encode(), ["line 3", "NUL"]
    yield "latin-1", f"{header}\n{row}\n{row}".encode() + b"\xe9\n", ["byte ", "UTF-8", "encoding="]
    late = f"{header}\n{row}\n" * 1 + f"{row}\n" * (delimited.HEAD_BYTES // len(row)) + row
    lines = late.count("\n") + 1
    yield "latin-1, late", late.encode() + b"\xe9\n", [f"line {lines}", f"column {last}", "UTF-8"]
    yield "duplicate column", f"{header},{header}\n{row},{row}\n".encode(), ["duplicate column", reader.header[0]]
    yield "no such column", b"x,y\n1,2\n", ["no column", "x, y"]
    yield "empty", b"", ["empty"]
    yield "empty lines", b"\n \n", ["empty"]
    yield "Parquet", table.getvalue(), ["Parquet", ".parquet"]
    yield "zip", buffer.getvalue(), ["zip"]
    yield "gzip", gzip.compress(b"a,b"), ["gzip", ".gz"]


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.read.__name__)
def test_every_reader_accepts_the_same_odd_files(tmp_path: Path, reader: Reader) -> None:
    wrong = []
    for number, (name, data, encoding) in enumerate(accepted_files(reader)):
        path = tmp_path / f"{number}.csv"
        path.write_bytes(data)
        try:
            pairs = sorted(reader.read(str(path), encoding))
        except InputError as error:
            wrong.append((name, str(error)))
            continue
        if pairs != sorted(PAIRS):
            wrong.append((name, str(pairs)))
    assert wrong == []


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.read.__name__)
def test_every_reader_refuses_the_same_files_by_line_and_column(tmp_path: Path, reader: Reader) -> None:
    wrong = []
    for number, (name, data, words) in enumerate(refused_files(reader)):
        path = tmp_path / f"{number}.csv"
        path.write_bytes(data)
        try:
            wrong.append((name, str(reader.read(str(path), None))[:200]))
        except InputError as error:
            wrong += [(name, str(error))] if any(word not in str(error) for word in (path.name, *words)) else []
    assert wrong == []


def test_a_file_of_tabs_keeps_the_commas_of_its_only_column(tmp_path: Path) -> None:
    path = tmp_path / "x.tsv"
    path.write_text("term\nLima, Peru\nCusco, Peru\n")
    assert sorted(read_terms(TermsConfig(str(path)))) == ["cusco, peru", "lima, peru"]


def test_python_reads_on_where_arrow_cannot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a row longer than a block, and after it; every row once, whichever of the two has read it."""
    monkeypatch.setattr(delimited, "BLOCK_BYTES", 1 << 10)
    rows = [(str(n), "x" * (5000 if n == 300 else 5)) for n in range(400)]
    path = tmp_path / "x.csv"
    path.write_text("a,b\n,\n" + "".join(f"{a},{b}\n" for a, b in rows))
    assert by_batches(str(path), None) == rows


def test_batches_have_the_columns_in_the_order_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("a,b,c,c\n1,2,3,4\n,,5,6\n")
    dialect = delimited.read_dialect(str(path))
    (table,) = delimited.text_batches(str(path), dialect, ["b", "a", "b"])
    assert table.to_pydict() == {"b": ["2", None], "a": ["1", None]}
    (table,) = delimited.text_batches(str(path), dialect)
    assert table.column_names == ["a", "b", "c", "c"]
    for columns, message in ((["a", "d"], r"x\.csv: no column d; there are a, b, c"), (["c"], "duplicate column c")):
        with pytest.raises(InputError, match=message):
            list(delimited.text_batches(str(path), dialect, columns))


def test_a_field_may_end_with_a_line_break(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text('a,b\n1,"x\n"\n')
    assert by_batches(str(path), None) == [("1", "x\n")]


@pytest.mark.parametrize(("before", "line"), [("", 2), ("\n", 3), ("sep=,\n\n", 4)])
def test_rows_have_the_line_of_the_file_in_which_they_begin(tmp_path: Path, before: str, line: int) -> None:
    path = tmp_path / "x.csv"
    path.write_text(f'{before}a,b\n1,2\n\n3,"4\n5"\n6,7\n8\n')
    dialect = delimited.read_dialect(str(path))
    rejects: list[Reject] = []
    rows = delimited.rows(str(path), dialect, reject=rejects.append)
    assert [row for row, _ in rows] == [line, line + 2, line + 4]
    list(delimited.rows(str(path), dialect, reject=rejects.append, private=True))
    assert [(reject.position, reject.raw) for reject in rejects] == [(line + 5, "8"), (line + 5, "")]


def test_a_row_that_is_cut_off_does_not_choose_the_delimiter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.csv"
    path.write_text("a;b,x;c\n1;2,x;3\n4,x;5;6\n")
    for cut in (len("a;b,x;c\n1;2,x;3\n4,"), delimited.HEAD_BYTES):
        monkeypatch.setattr(delimited, "HEAD_BYTES", cut)
        assert delimited.read_dialect(str(path)).header == ("a", "b,x", "c")


def test_the_key_has_precedence_over_the_files_first_line(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("sep=;\na,b;c\n")
    for delimiter, header in ((None, ("a,b", "c")), (",", ("a", "b;c"))):
        dialect = delimited.read_dialect(str(path), delimiter=delimiter)
        assert (dialect.delimiter, dialect.header) == (delimiter or ";", header)


def test_a_line_of_a_form_feed_before_the_header_is_one_line(tmp_path: Path) -> None:
    """Python's `str.splitlines` also ends a line at a form feed, and readers of CSV files do not."""
    path = tmp_path / "x.csv"
    for blank in ("\f", "\x85", "\u2028"):
        path.write_text(f"{blank}\na,b\n1,2\n3,4\n", encoding="utf-8")
        assert by_rows(str(path), None) == by_batches(str(path), None) == [("1", "2"), ("3", "4")]


def test_a_character_may_lie_on_the_border_of_what_is_read_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.csv"
    path.write_text("a,b\né,1\n", encoding="utf-8")
    monkeypatch.setattr(delimited, "HEAD_BYTES", 5)
    assert by_rows(str(path), None) == [("é", "1")]
    path.write_bytes(path.read_bytes()[:5])
    monkeypatch.setattr(delimited, "HEAD_BYTES", 6)
    with pytest.raises(InputError, match=r"byte 4 is not UTF-8"):
        delimited.read_dialect(str(path))


def test_a_long_field_is_read_whatever_the_limit_of_the_process(tmp_path: Path) -> None:
    """Python's own limit, 128 KiB, is smaller than the part by which the delimiter is chosen."""
    path, article = tmp_path / "x.csv", "word " * 30_000
    path.write_text(f"a,b\n1,{article}\n")
    limit = csv.field_size_limit(1 << 17)
    try:
        assert by_rows(str(path), None) == [("1", article)]
    finally:
        csv.field_size_limit(limit)


def test_the_delimiter_is_that_of_most_rows(tmp_path: Path) -> None:
    cases = {
        "a.csv": ("a,b\tx\n1,2\ty\n3,4\tz\n", ("a", "b\tx")),  # the comma and the tab divide all rows
        "b.csv": ("a;b\n1;2\n3\n4;5\n6;7\n", ("a", "b")),  # a column without a delimiter is none
        "c.csv": ("a|b\n", ("a", "b")),
        "d.tsv": ("a\tb, c\n1, 2\n3, 4\n5, 6\n", ("a", "b, c")),
        "e.tsv": ("a,b\n1,2\n", ("a", "b")),
        "f.tsv": ("a\tb\n", ("a", "b")),
        "g.tsv": ("a\n1\t2\n", ("a",)),
    }

    def check(name: str) -> None:
        (tmp_path / name).write_text(cases[name][0])
        assert delimited.read_dialect(str(tmp_path / name)).header == cases[name][1]

    check_cases(check, list(cases))


def test_line_ends_within_a_field_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(b'a,b\r\n1,"x\r\ny"\r\n2,"x\ry"\r\n')
    assert by_rows(str(path), None) == by_batches(str(path), None) == [("1", "x\r\ny"), ("2", "x\ry")]


def test_bytes_outside_an_encoding_that_is_set_cost_their_row(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(b"a,b\n1,x\n2,\xe9\n3,y\n")
    rejects: list[Reject] = []
    dialect = delimited.read_dialect(str(path), encoding="utf8")
    rows = delimited.rows(str(path), dialect, reject=rejects.append)
    assert [row for _, row in rows] == [["1", "x"], ["3", "y"]]
    assert [(reject.position, reject.reason, reject.message) for reject in rejects] == [
        (3, "bad_encoding", "column b: bytes that are not UTF-8")
    ]


def test_the_header_again_is_not_a_row(tmp_path: Path) -> None:
    path = tmp_path / "joined.csv"
    path.write_text("a,b\n1,2\n\na, b \n3,4\n", encoding="utf-8")
    rejects: list[Reject] = []
    dialect = delimited.read_dialect(str(path))
    assert [row for _, row in delimited.rows(str(path), dialect, reject=rejects.append)] == [["1", "2"], ["3", "4"]]
    assert [(reject.position, reject.reason) for reject in rejects] == [(4, "repeated_header")]
    for read in (by_rows, by_batches):
        with pytest.raises(InputError, match=r"joined\.csv: line 4: the header again"):
            read(str(path), None)
    path.write_text("a\n1\na\n")
    assert [row for _, row in delimited.rows(str(path), delimited.read_dialect(str(path)), reject=print)] == [
        ["1"],
        ["a"],
    ]
