"""Search terms from a table or a file of a user's; what cannot be read is named."""

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from actors.titles import Fold
from jobs.corpora.terms import FoldConfig, TermsConfig, fingerprint, fold_of, pack, read_phrases, read_terms, unpack
from jobs.errors import InputError
from jobs.store.runs.table_run import open_run
from jobs.store.table_plan import TablePlan
from jobs.store.units import Unit
from jobs.store.writer import UnitWriter
from jobs.tables import TABLES
from tests.cases import check_cases
from tests.factories import write_table


def terms(tmp_path: Path, content: str | bytes, name: str = "list.csv", **keys: str) -> dict[str, tuple[str, ...]]:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_terms(TermsConfig(path=str(path), **keys))


def test_terms_are_folded_counted_once_and_credited(tmp_path: Path) -> None:
    actual = terms(tmp_path, '\ufeffid,term\r\n1, World War II \r\n2,world war ii\r\n3,\r\n4,"a, b"\r\n5,ÉTÉ\r\n')
    assert actual == {"a, b": ("list",), "world war ii": ("list",), "été": ("list",)}


def test_a_column_of_sources_is_kept_and_can_be_overruled(tmp_path: Path) -> None:
    content = "term,source\nwar,graph\nwar, model\npeace, \n"
    assert terms(tmp_path, content) == {"peace": ("list",), "war": ("graph", "model")}
    assert terms(tmp_path, content, source="me") == {"peace": ("me",), "war": ("me",)}


def test_files_of_several_kinds(tmp_path: Path) -> None:
    cases = [
        ("x.csv", "phrase\nwar\n"),
        ("x.tsv", "a\tterms\n1\twar\n"),
        ("x.txt", "war\n\n War\n"),
        ("x.csv", "Term\nwar\n"),
        ("x.csv", "id,PHRASE\n1,war\n"),
        ("x.csv", "term,source\nwar,\n"),
        ("x.csv", "Term;note\nwar;1\n"),
        ("x.csv", "sep=;\r\nterm;note\r\nwar;a, b\r\n"),
        ("x.csv", "term\tnote\nwar\t1\n".encode("utf-16")),
        ("x.csv", "term\nwar\n"),
    ]

    def check(name: str, content: str | bytes) -> None:
        assert terms(tmp_path, content, name) == {"war": ("x",)}

    check_cases(check, cases)


def test_a_parquet_file_and_a_column_by_name(tmp_path: Path) -> None:
    pq.write_table(pa.table({"label": ["War", None], "n": [0, 2]}), tmp_path / "t.parquet")
    path = str(tmp_path / "t.parquet")
    assert read_terms(TermsConfig(path=path, column="label")) == {"war": ("t",)}
    with pytest.raises(InputError, match="column n has int, not text"):
        read_terms(TermsConfig(path=path, column="n"))
    pq.write_table(pa.table({"term": ["War", "Peace", "war"], "source": ["graph", None, "model"]}), path)
    assert read_terms(TermsConfig(path=path)) == {"peace": ("t",), "war": ("graph", "model")}


def test_the_source_is_the_name_of_the_file_up_to_its_first_dot(tmp_path: Path) -> None:
    (tmp_path / "wars.2024.txt").write_text("war\n")
    assert read_terms(TermsConfig(path=str(tmp_path / "wars.2024.txt"))) == {"war": ("wars",)}


def test_a_table_of_terms(tmp_path: Path) -> None:
    out = str(tmp_path / "terms")
    units = [Unit(name, ()) for name in ("u1", "u2")]
    run = open_run(TablePlan(out, "terms", {}, units, {}, {}, derived=False), resume=True, overwrite=False, retry=[])
    for task, source in zip(run.todo, ("graph", "model"), strict=True):
        with UnitWriter(run.target, task) as writer:
            writer.counts.rows_in = 1
            row = {"term": "War", "source": source, "concept": "", "entity_id": "", "response_id": ""}
            writer.write(pa.Table.from_pylist([row], schema=TABLES["terms"].schema()))
    run.finish()
    assert read_terms(TermsConfig(path=out)) == {"war": ("graph", "model")}
    assert read_terms(TermsConfig(path=out, source="me")) == {"war": ("me",)}
    (tmp_path / "hand.txt").write_text("WAR\npeace\n")
    both = read_terms(TermsConfig(path=[out, str(tmp_path / "hand.txt")]))
    assert both == {"war": ("graph", "hand", "model"), "peace": ("hand",)}


def test_one_of_several_tables_may_be_empty(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty, hand = write_table(tmp_path / "empty", "terms", []), str(tmp_path / "hand.txt")
    (tmp_path / "hand.txt").write_text("peace\n")
    assert read_terms(TermsConfig(path=[empty, hand])) == {"peace": ("hand",)}
    assert f"terms.path={empty}: has no terms" in capsys.readouterr().out
    (tmp_path / "hand.txt").write_text("\n")
    second = write_table(tmp_path / "second", "terms", [])
    for path in (empty, [empty], [empty, hand], [empty, second]):
        with pytest.raises(InputError, match="no terms"):
            read_terms(TermsConfig(path=path))


def test_phrases_are_as_written_and_at_least_one(tmp_path: Path) -> None:
    path = tmp_path / "hand.txt"
    path.write_text(" World War II \n\n\nPeace\n")
    assert read_phrases(str(path)) == {"World War II", "Peace"}
    path.write_text(" \n\n")
    with pytest.raises(InputError, match=f"terms={path}: has no terms"):
        read_phrases(str(path))


def test_paths_of_terms_are_texts() -> None:
    def check(path: object) -> None:
        with pytest.raises(InputError, match="a list of them"):
            read_terms(TermsConfig(path=path))

    check_cases(check, [[], [""], ["a.txt", ""], ["a.txt", 3], 3, {"a": "b"}])


REFUSED = [
    ("x.csv", b"", "empty"),
    ("x.csv", b"a,b\n1,2\n", "no column term or terms or phrase or page_title; there are a, b"),
    ("x.csv", b"war\npeace\n", "there are war .*; a list without a header is a .txt file"),
    ("x.csv", b"term,term\nwar,peace\n", "duplicate column term"),
    ("x.csv", b"Term,TERM\nwar,peace\n", "columns Term and TERM differ only in case, .*; rename .* terms.column="),
    ("x.csv", b"term\nwar\nLima, Peru\n", "line 3: 2 fields"),
    ("x.csv", b"term,note\nwar,a,b,c\n", "line 2: 4 fields"),
    ("x.csv", b'term\n"war\npeace\n', "line 2: column term: a quote"),
    ("x.csv.gz", b"\x1f\x8b", "must be a .csv, .tsv, .txt, .parquet file"),
    ("x.xlsx", b"PK\x03\x04", "must be a .csv"),
    ("x.csv", b"term\n \n", "has no terms"),
    ("x.csv", b"term\n", "has no terms"),
    ("x.csv", b"term\n\xe9t\xe9\n", "byte 5 is not UTF-8.*terms.encoding="),
    ("x.csv", b"term\n" + b"x" * (1 << 25) + b"\n", "line 2: not delimited text"),
    ("x.txt", b"war\n\xe9t\xe9\n", "byte 4 is not UTF-8.*terms.encoding="),
    ("x.parquet", b"no parquet", "not a readable Parquet file"),
]


def test_a_file_without_terms_is_refused_by_name(tmp_path: Path) -> None:
    missed = []
    for name, content, message in REFUSED:
        with pytest.raises(InputError) as raised:
            terms(tmp_path, content, name)
        if not re.search(message, str(raised.value)) or str(tmp_path / name) not in str(raised.value):
            missed.append((message, str(raised.value)))
    assert missed == []


def test_places_without_one_file_are_refused(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.csv").write_text("term\nwar\n")
    with pytest.raises(InputError, match="2 files; name one file or a table"):
        read_terms(TermsConfig(path=str(tmp_path)))
    with pytest.raises(InputError, match=r"none\.csv: does not exist"):
        read_terms(TermsConfig(path=str(tmp_path / "none.csv")))
    (tmp_path / "a.txt").write_bytes(b"caf\xe9\n")
    assert list(read_terms(TermsConfig(path=str(tmp_path / "a.txt"), encoding="cp1252"))) == ["café"]
    (tmp_path / "marked.txt").write_bytes("war\n".encode("utf-16"))
    assert list(read_terms(TermsConfig(path=str(tmp_path / "marked.txt")))) == ["war"]
    for name in ("a.csv", "a.txt"):
        with pytest.raises(InputError, match="encoding=latin-99: unknown encoding"):
            read_terms(TermsConfig(path=str(tmp_path / name), encoding="latin-99"))
    with pytest.raises(InputError, match="no column other"):
        read_terms(TermsConfig(path=str(tmp_path / "a.csv"), column="other"))


def test_hidden_files_next_to_a_file_do_not_count(tmp_path: Path) -> None:
    (tmp_path / "war.txt").write_text("war\n")
    for name in (".DS_Store", "_SUCCESS"):
        (tmp_path / name).write_bytes(b"\0\1")
    assert read_terms(TermsConfig(path=str(tmp_path))) == {"war": ("war",)}


def test_the_fingerprint_is_of_terms_and_sources() -> None:
    prints = {
        fingerprint(t) for t in ({"a": ("x",)}, {"a": ("y",)}, {"b": ("x",)}, {"a": ("x", "y")}, {"a": ("x",), "y": ()})
    }
    assert len(prints) == 5
    assert fingerprint({"a": ("x",)}) == fingerprint({"a": ("x",)})


def test_terms_are_folded_as_asked(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text("Straße\nSTRASSE\n1914–18\n1914-18\ne\u0301t\u00e9\n")
    assert len(read_terms(TermsConfig(path=str(path)))) == 5
    fold = fold_of(FoldConfig(case="casefold", compose="NFC", dashes=True))
    assert list(read_terms(TermsConfig(path=str(path)), fold)) == ["1914-18", "strasse", "\u00e9t\u00e9"]
    assert fold == Fold(case="casefold", compose="NFC", dashes=True)


@pytest.mark.parametrize("config", [FoldConfig(case="x"), FoldConfig(compose="x")])
def test_an_unknown_fold_is_refused(config: FoldConfig) -> None:
    with pytest.raises(InputError, match=r"fold\.(case|compose)=x: must be one of (lower|NFC), "):
        fold_of(config)


def test_terms_travel_packed() -> None:
    terms = {"a": ("x",), "b": ("x", "y"), "é": ("x",)}
    assert unpack(pack(terms)) == terms


def test_a_single_empty_table_is_refused_and_a_path_is_read_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = write_table(tmp_path / "empty", "terms", [])
    with pytest.raises(InputError, match=rf"^terms\.path={empty}: has no terms; at least one is required$"):
        read_terms(TermsConfig(path=empty))
    (tmp_path / "a.txt").write_text("war\n")
    paths = [empty, f"{tmp_path}/a.txt", empty]
    assert read_terms(TermsConfig(path=paths)) == {"war": ("a",)}
    assert capsys.readouterr().out.count("has no terms") == 1


def test_lines_of_a_list_end_at_line_ends_alone(tmp_path: Path) -> None:
    path = tmp_path / "t.txt"
    path.write_text("Boston\u2028Marathon\r\n\x0cFall\x85of Saigon\rplain\n\x1c\n", encoding="utf-8")
    assert set(read_terms(TermsConfig(path=str(path)))) == {"boston marathon", "fall of saigon", "plain"}


def test_terms_that_are_too_long_are_refused_with_their_line(tmp_path: Path) -> None:
    for name, text in (("t.txt", "a\n{}\n"), ("t.csv", "term\n{}\n")):
        path = tmp_path / name
        path.write_text(text.format("x" * 1000))
        assert "x" * 1000 in read_terms(TermsConfig(path=str(path)))
        path.write_text(text.format("x" * 1001))
        with pytest.raises(InputError, match=r"terms\.path=.*: line 2 has 1,001 characters; a term has at most 1,000"):
            read_terms(TermsConfig(path=str(path)))
