"""Import of annotations from spreadsheets and tools: ratings, statuses, rejects and counts."""

import json
import re
from collections import Counter
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from omegaconf import OmegaConf

from actors.ids import content_id
from jobs import (
    import_ratings,
)
from jobs.annotation import import_config
from jobs.annotation.import_config import ImportRatingsConfig
from jobs.annotation.reading import RatingColumns
from jobs.errors import InputError, NotAnsweredError
from jobs.import_ratings import execute
from jobs.runtime.command_line import cli
from jobs.runtime.configuration.config_files import CONF
from jobs.runtime.outcomes import Manifest, show
from jobs.runtime.selection import exclusions
from jobs.runtime.selection.exclusions import Exclusions
from jobs.store.files.objects import Object
from jobs.store.reading import open_table
from tests.factories import unit_records

LIKERT = ["question=sensitive", "rubric=century_labels"]
KEY = "a key of more than sixteen bytes"


@lru_cache
def read_yaml(name: str) -> Any:
    """Return a file of conf/, read once because reading takes longer than a run."""
    return OmegaConf.load(CONF / name)


def ratings(*overrides: str) -> dict[str, Any]:
    """Run the job with overrides, without Hydra, which takes longer than the job, and print its result."""
    groups = dict(o.split("=", 1) for o in overrides if o.startswith(("rubric=", "span_labels=")))
    keys = [o for o in overrides if o.partition("=")[0] not in groups]
    read = {group: read_yaml(f"{group}/{name}.yaml") for group, name in groups.items()}
    merged = OmegaConf.merge(OmegaConf.structured(ImportRatingsConfig), read, OmegaConf.from_dotlist(keys))
    manifest = execute(OmegaConf.to_object(merged))  # type: ignore[arg-type]
    assert isinstance(manifest, Manifest)
    show(manifest)
    return manifest


def rows(out: Path | str) -> list[dict[str, Any]]:
    return pa.concat_tables(list(open_table(str(out)).batches())).to_pylist()


def write(path: Path, text: str, *, encoding: str = "utf-8") -> str:
    path.write_bytes(text.encode(encoding))
    return f"input={path}"


def refused(sentence: str, *overrides: str) -> None:
    with pytest.raises(InputError, match=sentence) as caught:
        ratings(*overrides)
    assert "\n" not in str(caught.value)


def test_cells_become_the_rubrics_answers_and_nothing_is_guessed(tmp_path: Path) -> None:
    cells = ["4", "4.0", "(4) Sensitive", "  vERY  sensitive", "quite sensitive", "7", ""]
    text = "item_id,rater,value\n" + "".join(f'i{n},anna,"{word}"\n' for n, word in enumerate(cells))
    manifest = ratings(write(tmp_path / "p.csv", text), *LIKERT, f"out={tmp_path / 'R'}")
    by_item = {row["item_id"]: row for row in rows(tmp_path / "R")}
    assert [by_item[f"i{n}"]["score"] for n in range(7)] == [4, 4, 4, 5, None, None, None]
    assert [by_item[f"i{n}"]["status"] for n in range(4, 7)] == ["out_of_range", "out_of_range", "skipped"]
    assert [by_item[f"i{n}"]["raw"] for n in range(7)] == [None] * 4 + ["quite sensitive", "7", None]
    assert by_item["i0"]["answers"] == ["1", "2", "3", "4", "5"]
    assert (by_item["i0"]["method"], by_item["i0"]["rubric"]) == ("human", "century_labels")
    assert manifest["counts"]["status"] == {"ok": 4, "out_of_range": 2, "skipped": 1}


def test_tables_of_different_files_have_different_identities(tmp_path: Path) -> None:
    """The same file in another place to write has the same one; later answers in it are a new generation."""
    texts = {"a": "item_id,rater,value\ni,anna,4\n", "b": "item_id,rater,value\ni,anna,5\n"}
    for name, text in texts.items():
        ratings(write(tmp_path / f"{name}.csv", text), *LIKERT, f"out={tmp_path / name}")
    ratings(f"input={tmp_path / 'a.csv'}", *LIKERT, f"out={tmp_path / 'again'}")
    identity = {name: open_table(str(tmp_path / name)).identity for name in ("a", "b", "again")}
    assert identity["a"] == identity["again"] != identity["b"]
    with pytest.raises(InputError, match=r"input"):
        ratings(f"input={tmp_path / 'b.csv'}", *LIKERT, f"out={tmp_path / 'a'}")
    ratings(write(tmp_path / "a.csv", texts["a"] + "j,anna,2\n"), *LIKERT, f"out={tmp_path / 'a'}")
    assert (open_table(str(tmp_path / "a")).identity, len(rows(tmp_path / "a"))) == (identity["a"], 2)


def test_long_and_wide_forms_of_csv_and_parquet_give_the_same_rows(tmp_path: Path) -> None:
    long = "item_id,rater,question,value\ni1,a,sensitive,1\ni1,a,How controversial is the picture?,5\n"
    wide = "item_id;rater;Sensitive;contro\ni1;a;1;5\n"
    mapped = "columns.questions={sensitive: Sensitive, controversial: contro}"
    ratings(write(tmp_path / "long.csv", long), "rubric=century_labels", f"out={tmp_path / 'long'}")
    source = write(tmp_path / "wide.csv", wide)
    cli.execute("import_ratings", [source, "rubric=century_labels", mapped, f"out={tmp_path / 'wide'}"])
    pq.write_table(
        pa.table({"item_id": ["i1"], "rater": ["a"], "sensitive": [1], "controversial": [5.0]}), tmp_path / "w.parquet"
    )
    ratings(f"input={tmp_path / 'w.parquet'}", "rubric=century_labels", f"out={tmp_path / 'parquet'}")
    assert rows(tmp_path / "long") == rows(tmp_path / "wide") == rows(tmp_path / "parquet")
    assert [(row["question"], row["value"]) for row in rows(tmp_path / "long")] == [
        ("sensitive", "1"),
        ("controversial", "5"),
    ]


def test_a_limit_reads_the_first_rows_or_tasks_of_each_file(tmp_path: Path) -> None:
    text = "item_id,rater,value\n" + "".join(f"i{n},anna,{n}\n" for n in range(1, 5)) + ",anna,3\n"
    files = tmp_path / "files"
    files.mkdir()
    for name in ("a", "b"):
        (files / f"{name}.csv").write_text(text.replace("anna", name))
    manifest = ratings(f"input={files}", *LIKERT, "limit=2", f"out={tmp_path / 'csv'}")
    assert [(row["rater"], row["item_id"]) for row in rows(tmp_path / "csv")] == [
        ("a", "i1"), ("a", "i2"), ("b", "i1"), ("b", "i2")
    ]  # fmt: skip
    assert (manifest["counts"]["rows_in"], manifest["counts"]["rejected"]) == (4, {})
    with pytest.raises(InputError, match="limit was 2, now not set"):
        ratings(f"input={files}", *LIKERT, f"out={tmp_path / 'csv'}")

    table = pa.table({"item_id": [f"i{n}" for n in range(5)], "rater": ["r"] * 5, "value": ["3"] * 5})
    pq.write_table(table, tmp_path / "p.parquet", row_group_size=2)
    ratings(f"input={tmp_path / 'p.parquet'}", *LIKERT, "limit=3", f"out={tmp_path / 'parquet'}")
    assert [row["item_id"] for row in rows(tmp_path / "parquet")] == ["i0", "i1", "i2"]

    tasks = [
        {
            "id": number,
            "data": {"item_id": f"i{number}"},
            "annotations": [
                {
                    "completed_by": 7,
                    "result": [{"from_name": "sensitive", "type": "rating", "value": {"rating": 4}}],
                }
            ],
        }
        for number in range(3)
    ]
    (tmp_path / "export.json").write_text(json.dumps(tasks))
    keys = ["format=label_studio", *LIKERT, "limit=1", f"out={tmp_path / 'tool'}"]
    ratings(f"input={tmp_path / 'export.json'}", *keys)
    assert {row["item_id"] for row in rows(tmp_path / "tool")} == {"i0"}


@pytest.mark.parametrize(
    ("encoding", "delimiter"), [("utf-8", ","), ("utf-8-sig", ";"), ("utf-16", "\t"), ("utf-32", "|")]
)
def test_encodings_delimiters_and_quoted_newlines(tmp_path: Path, encoding: str, delimiter: str) -> None:
    lines = [["item_id", "rater", "value", "comment"], ["i1", "Zoë", "1", '"first\r\nsecond, ; | "']]
    text = "".join(delimiter.join(line) + "\r\n" for line in lines)
    ratings(write(tmp_path / "p.csv", text, encoding=encoding), *LIKERT, f"out={tmp_path / 'R'}")
    (row,) = rows(tmp_path / "R")
    assert (row["rater"], row["value"], row["comment"]) == ("Zoë", "1", "first\r\nsecond, ; |")


def test_bad_rows_are_rejects_with_their_line(tmp_path: Path) -> None:
    text = b'item_id,rater,value,comment\ni1,a,1,"two\nlines"\ni2,a,1\n\ni3,,1,\n,a,1,\ni4,a,1,\xff\ni5,a,2,\n'
    (tmp_path / "p.csv").write_bytes(text)
    manifest = ratings(f"input={tmp_path / 'p.csv'}", *LIKERT, "encoding=utf-8", f"out={tmp_path / 'R'}")
    assert [row["item_id"] for row in rows(tmp_path / "R")] == ["i1", "i5"]
    counts = manifest["counts"]
    assert counts["rejected"] == {"wrong_width": 1, "no_rater": 1, "no_item_id": 1, "bad_encoding": 1}
    assert counts["rows_in"] == 6
    (kept,) = (tmp_path / "R" / "_rejects").glob("*.parquet")
    rejects = pq.read_table(kept).to_pylist()
    assert {row["reason"]: row["position"] for row in rejects} == {
        "wrong_width": 4,
        "no_rater": 6,
        "no_item_id": 7,
        "bad_encoding": 8,
    }


def test_skips_reports_times_and_comments(tmp_path: Path) -> None:
    text = (
        "item_id,rater,value,skipped,reported,seconds,comment\n"
        "i1,a,3,no,no,12.5,good\ni1,b,,yes,,4,\ni2,a,5,,TRUE,soon,\ni2,b,2,maybe,,1,\n"
    )
    listed = tmp_path / "excluded.txt"
    listed.write_text("https://x/known.jpg # withdrawn")
    out = f"out={tmp_path / 'R'}"
    manifest = ratings(write(tmp_path / "p.csv", text), *LIKERT, out, f"reports={listed}")
    answers = [
        (r["item_id"], r["rater"], r["status"], r["value"], r["raw"], r["seconds"]) for r in rows(tmp_path / "R")
    ]
    assert answers == [
        ("i1", "a", "ok", "3", None, 12.5),
        ("i1", "b", "skipped", None, None, 4.0),
        ("i2", "a", "reported", None, "5", None),
    ]
    assert manifest["counts"]["rejected"] == {"unreadable_flag": 1}
    tallies = manifest["counts"]["tallies"]
    assert tallies["reports"] == {"tasks": 1, "of_tasks": 3, "items": 1, "of_items": 2, "people": 1, "of_people": 2}
    assert tallies["skips"]["tasks"] == 1
    excluded = exclusions.read_exclusions(str(listed))
    assert excluded.names == ("https://x/known.jpg", "i2")
    assert {content_id("https://x/known.jpg"), "i2"} <= excluded.marks  # the item's id is not a hash
    before = listed.read_text()
    ratings(f"input={tmp_path / 'p.csv'}", *LIKERT, out, f"reports={listed}")  # resumed: the list does not grow
    assert listed.read_text() == before


@pytest.mark.parametrize(
    ("rule", "kept"),
    [("last", [("1", 0), ("4", 0)]), ("first", [("2", 0), ("4", 0)]), ("sample", [("1", 1), ("2", 0), ("4", 0)])],
)
def test_repeated_answers_are_counted_under_a_rule(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], rule: str, kept: list[tuple[str, int]]
) -> None:
    text = "item_id,rater,value,time\ni1,a,1,2026-05-02T10:00:00Z\ni1,a,2,2026-05-01\ni2,a,4,\n"
    manifest = ratings(write(tmp_path / "p.csv", text), *LIKERT, f"duplicates={rule}", f"out={tmp_path / 'R'}")
    assert sorted((row["value"], row["sample"]) for row in rows(tmp_path / "R")) == kept
    assert manifest["counts"]["filtered"] == ({} if rule == "sample" else {"repeated": 1})
    assert f"repeated (duplicates={rule}), the first at {tmp_path}/p.csv" in capsys.readouterr().out
    ratings(write(tmp_path / "once.csv", "item_id,rater,value\ni1,a,1\n"), *LIKERT, f"out={tmp_path / 'once'}")
    assert "duplicates=" not in capsys.readouterr().out
    sentence = r"duplicates=refuse: .*p\.csv, position 3 .* item_id, "
    refused(sentence, f"input={tmp_path / 'p.csv'}", *LIKERT, "duplicates=refuse", f"out={tmp_path / 'S'}")
    assert not (tmp_path / "S").exists()


def test_raters_become_pseudonyms_and_the_key_is_written_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = write(tmp_path / "p.csv", "item_id,rater,value\ni1,anna@x.org,1\ni2,anna@x.org,2\ni3,bo,2,3\n")
    monkeypatch.delenv("REMINE_RATER_KEY", raising=False)
    refused("replaced by pseudonyms .*REMINE_RATER_KEY", source, *LIKERT, "anonymise=true", f"out={tmp_path / 'R'}")
    monkeypatch.setenv("REMINE_RATER_KEY", "short")
    refused("has 5 bytes; .* 16", source, *LIKERT, "anonymise=true", f"out={tmp_path / 'R'}")
    monkeypatch.setenv("REMINE_RATER_KEY", KEY)
    ratings(source, *LIKERT, "anonymise=true", f"out={tmp_path / 'R'}")
    (tmp_path / "key").write_text(KEY + "\n")
    ratings(source, *LIKERT, "anonymise=true", f"key_file={tmp_path / 'key'}", f"out={tmp_path / 'again'}")
    (pseudonym,) = {row["rater"] for row in rows(tmp_path / "R")}
    assert pseudonym.startswith("p-")
    assert [row["rater"] for row in rows(tmp_path / "again")] == [pseudonym] * 2
    for file in (tmp_path / "R").rglob("*"):
        data = file.read_bytes() if file.is_file() else b""
        assert KEY.encode() not in data
        assert b"anna" not in data
        assert b"bo,2,3" not in data  # nor in the rejects
    monkeypatch.setenv("REMINE_RATER_KEY", KEY[::-1])
    refused(
        "another configuration: anonymised has other content",
        source,
        *LIKERT,
        "anonymise=true",
        f"out={tmp_path / 'R'}",
    )


def test_raters_once_each_with_attributes_that_agree(tmp_path: Path) -> None:
    text = "rater,country,pool\na,DE,x\na,DE,\nb,FR,x\nb,IT,x\n"
    manifest = ratings(write(tmp_path / "p.csv", text), "table=raters", f"out={tmp_path / 'R'}")
    raters = [(row["rater"], row["kind"], row["country"], row["pool"]) for row in rows(tmp_path / "R")]
    assert raters == [("a", "human", "DE", "x"), ("b", "human", None, "x")]
    assert manifest["counts"]["tallies"]["conflicts"] == {"country": 1}


def test_the_same_command_reads_answers_that_arrived_later(tmp_path: Path) -> None:
    command = [write(tmp_path / "p.csv", "item_id,rater,value\ni1,a,1\n"), *LIKERT, f"out={tmp_path / 'R'}"]
    ratings(*command)
    write(tmp_path / "p.csv", "item_id,rater,value\ni1,a,1\ni2,a,2\n")
    ratings(*command)
    assert [record["generation"] for record in unit_records(tmp_path / "R")] == [1]
    assert [row["item_id"] for row in rows(tmp_path / "R")] == ["i1", "i2"]
    ratings(*command, "retry=[ok]")  # the file is the same: it is read again
    assert [row["item_id"] for row in rows(tmp_path / "R")] == ["i1", "i2"]


@pytest.mark.parametrize(
    "entry", ["https://x/2.jpg", "http://X:80/2.jpg?big#top", content_id("https://x/2.jpg").upper()]
)
def test_excluded_pictures_and_urls_as_items(tmp_path: Path, entry: str) -> None:
    (tmp_path / "excluded.txt").write_text(entry)
    source = write(tmp_path / "p.csv", "url,rater,value\nhttps://x/1.jpg,a,1\nhttps://x/2.jpg,a,2\n")
    more = ["columns.item_id=url", "items=url", f"exclusions={tmp_path / 'excluded.txt'}"]
    manifest = ratings(source, *LIKERT, *more, f"out={tmp_path / 'R'}")
    assert [row["item_id"] for row in rows(tmp_path / "R")] == [content_id("https://x/1.jpg")]
    assert manifest["counts"]["filtered"] == {"excluded": 1}
    assert manifest["counts"]["tallies"][exclusions.TALLY]


INVALID_CSV = [
    ("", [], "empty"),
    ("picture,rater,value\n", [], r"no column item_id \(columns.item_id=\); .* picture, rater, value"),
    ("item_id,value\ni,1\n", [], r"no column rater \(columns.rater=\); .* item_id, value"),
    ("a,b\n1,2\n", ["columns.value=c"], r"no column c \(.*value=c\), item_id \(.*\), rater \(.*\); .* a, b"),
    ("item_id,rater\n1,2\n", ["columns.questions={sensitive: q, controversial: r}"], r"no column q .*, r \(.*"),
    ("item_id,rater,a\ni,r,1\n", [], r"no column of answers; .* item_id, rater, a"),
    ("item_id,rater,value\ni,r,1\n", ["question=null"], "columns.question= .* question="),
    ("item_id,rater,value\n", [], r"nothing to import for table ratings \(no rows\)"),
    ("item_id,rater,value\ni,,1\n", [], r"nothing to import .* column rater is empty"),
    ("item_id,rater,value\ni,r,1\n", ["columns.value=answer"], r"no column answer \(columns.value=answer\)"),
    ("item_id,rater,value\ni,r,1\n", ["format=xls"], "format=xls: .*csv, parquet, label_studio, prodigy"),
    ("item_id,rater,value\ni,r,1\n", ["question=beauty"], "question=beauty: rubric century_labels has image_type"),
    ("item_id,rater,value\ni,r,1\n", ["encoding=latin-9000"], "encoding=latin-9000"),
    ("item_id,rater,value\ni,r,1\n", ["delimiter=;;"], "one character is needed"),
    ("item_id,rater,value,value\ni,r,1,2\n", [], "duplicate column value"),
    ("item_id,rater,value,time\ni,r,1,noon\n", [], "'noon', neither ISO 8601 nor seconds"),
]


def message_of(*overrides: str) -> str:
    """Return the job's error message."""
    try:
        ratings(*overrides)
    except InputError as error:
        return str(error)
    return "no error"


def test_errors_are_one_line_and_nothing_is_written(tmp_path: Path) -> None:
    misses = []
    for number, (text, more, pattern) in enumerate(INVALID_CSV):
        out = tmp_path / f"R{number}"
        message = message_of(write(tmp_path / f"{number}.csv", text), *LIKERT, *more, f"out={out}")
        if not re.search(pattern, message) or "\n" in message or out.exists():
            misses.append((pattern, message))
    assert misses == []


def test_a_table_outlives_an_attempt_to_overwrite_it_with_files_that_are_refused(tmp_path: Path) -> None:
    text = "item_id,rater,value\ni,r,1\n"
    command = [write(tmp_path / "p.csv", text), *LIKERT, "duplicates=refuse", f"out={tmp_path / 'R'}"]
    ratings(*command)
    before = rows(tmp_path / "R")
    write(tmp_path / "p.csv", text + "i,r,2\n")
    refused("duplicates=refuse", *command, "overwrite=true")
    assert rows(tmp_path / "R") == before
    ratings(*command, "overwrite=true", "duplicates=last")
    assert [record["generation"] for record in unit_records(tmp_path / "R")] == [0]
    assert [row["value"] for row in rows(tmp_path / "R")] == ["2"]


INVALID_EXPORTS = [
    ("p.json", "", "empty"),
    ("p.json", "{}", r"begins with '\{'; .*JSON array"),
    ("p.json", "[[1]]", "its first element is list, not a task"),
    ("p.json", '[{"image": "x", "annotator": 1}]', "JSON-MIN export"),
    ("p.json", '[{"data": {"item_id": "i"}, "annotations": [', "element 1 of the array"),
    ("p.jsonl", "", "empty"),
    ("p.jsonl", "hello\n", "line 1 .* JSON object"),
    ("p.jsonl", '{"text": "x"}\n', "not what `prodigy db-out` writes: line 1 has text"),
    ("p.jsonl", '{"item_id": "i", "answer": "accept", "_session_id": "s"}\n', "line 1 .* question=NAME"),
]


def test_files_of_another_shape_are_refused(tmp_path: Path) -> None:
    misses = []
    for number, (name, data, pattern) in enumerate(INVALID_EXPORTS):
        out = tmp_path / f"R{number}"
        message = message_of(write(tmp_path / f"{number}{name}", data), "rubric=century_labels", f"out={out}")
        if not re.search(pattern, message) or "\n" in message or out.exists():
            misses.append((pattern, message))
    assert misses == []


def test_a_file_that_is_not_utf_8_needs_an_encoding(tmp_path: Path) -> None:
    source = write(tmp_path / "p.csv", "item_id,rater,value\ni1,José,1\n", encoding="cp1252")
    refused(r"byte 26 is not UTF-8.*encoding=cp1252", source, *LIKERT, f"out={tmp_path}/R")
    ratings(source, *LIKERT, "encoding=cp1252", f"out={tmp_path}/R")
    assert rows(tmp_path / "R")[0]["rater"] == "José"


def annotation(result: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
    return {"completed_by": 1, "result": result, "was_cancelled": False, "lead_time": 4.0, **more}


def result(name: str, **value: Any) -> dict[str, Any]:
    return {"from_name": name, "to_name": "x", "type": next(iter(value)), "value": value}


def export(path: Path, *annotations: dict[str, Any], **data: Any) -> str:
    tasks = [{"id": 1, "data": {"item_id": "i1", **data}, "annotations": list(annotations)}]
    return write(path, json.dumps(tasks))


def test_another_projects_export_is_detected_by_its_controls(tmp_path: Path) -> None:
    source = export(tmp_path / "p.json", annotation([result("beauty", rating=4)]))
    sentence = r"controls are beauty; .*sensitive"
    refused(sentence, source, "rubric=century_labels", f"out={tmp_path / 'R'}")
    refused(
        "rubric: .* 'beauty'",
        export(tmp_path / "q.json", annotation([]), questions=["beauty"]),
        "rubric=century_labels",
        f"out={tmp_path / 'R'}",
    )
    refused(
        "rubric: .* 'other'",
        export(tmp_path / "r.json", annotation([]), questions=["sensitive"], rubric="other"),
        "rubric=century_labels",
        f"out={tmp_path / 'R'}",
    )
    # With a mapping, the export is read; stars and people are numbers.
    likert = ["answers=[1,2,3,4,5]", "columns.questions={looks: beauty}"]
    ratings(source, *likert, f"out={tmp_path / 'R'}")
    (row,) = rows(tmp_path / "R")
    assert (row["question"], row["rater"], row["score"], row["seconds"]) == ("looks", "1", 4.0, 4.0)


def test_annotations_without_person_and_several_choices(tmp_path: Path) -> None:
    several = annotation([result("sensitive", choices=["1", "2"])], completed_by=2)
    nobody = annotation([result("sensitive", choices=["1"])], completed_by=None)
    source = export(tmp_path / "p.json", several, nobody, questions=["sensitive"])
    manifest = ratings(source, "rubric=century_labels", f"out={tmp_path / 'R'}")
    (row,) = rows(tmp_path / "R")
    assert (row["status"], row["raw"]) == ("out_of_range", '["1", "2"]')
    assert manifest["counts"]["rejected"] == {"no_rater": 1}


def test_spans_outside_of_their_text_are_rejects(tmp_path: Path) -> None:
    marked = [result("mistakes", start=2, end=400, labels=["Wrong object"])]
    marked += [result("mistakes", start=2, end=5, text="dog", labels=["Wrong object"])]
    marked += [result("mistakes", start=0, end=1, text="A", labels=["Nonsense"])]
    source = export(tmp_path / "p.json", annotation(marked), generated="A dog.", generated_id="t1")
    more = ["table=spans", "span_labels=mistakes_omissions"]
    manifest = ratings(source, *more, f"out={tmp_path / 'R'}")
    (row,) = rows(tmp_path / "R")
    assert (row["text_id"], row["kind"], row["start"], row["end"], row["category"]) == ("t1", "mistake", 2, 5, "noun")
    assert manifest["counts"]["rejected"] == {"span_outside_text": 1, "unknown_label": 1}
    refused("table=spans: .* span_labels=NAME", source, "table=spans", f"out={tmp_path / 'S'}")


def test_shifted_spans_are_counted_and_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def imported(name: str, *spans: tuple[int, int, str]) -> Any:
        marked = [result("mistakes", start=a, end=b, text=text, labels=["Wrong object"]) for a, b, text in spans]
        source = export(tmp_path / f"{name}.json", annotation(marked), generated="\U0001f415 A dog. A cat.")
        more = ["table=spans", "span_labels=mistakes_omissions"]
        return ratings(source, *more, f"out={tmp_path / name}")["counts"]["tallies"].get("spans")

    right, of_browser = (4, 7, "dog"), (12, 15, "cat")  # where the emoji counts two
    assert imported("whole", right) is imported("none") is None
    assert "were shifted" not in capsys.readouterr().out
    assert imported("shifted", right, of_browser, (99, 100, "nowhere")) == {"shifted": 1, "of_spans": 2}
    assert "  spans: 1 of 2 were shifted to the place of their stored text" in capsys.readouterr().out


def test_spans_of_a_spreadsheet_have_the_kinds_and_labels_of_the_study(tmp_path: Path) -> None:
    lines = ["mistake,2,5,noun", "Mistakes,6,9,Wrong object", "omission,0,2,", "mistake,0,1,missing", "slip,0,1,noun"]
    lines += ["mistake,9,4,noun", "mistake,9,12,noun+descriptor"]
    text = "item_id,rater,text_id,kind,start,end,category\n" + "".join(f"i,anna,t,{line}\n" for line in lines)
    (tmp_path / "spans.csv").write_text(text)
    more = ["table=spans", "span_labels=mistakes_omissions"]
    manifest = ratings(f"input={tmp_path / 'spans.csv'}", *more, f"out={tmp_path / 'R'}")
    assert [(row["kind"], row["start"], row["category"]) for row in rows(tmp_path / "R")] == [
        ("mistake", 2, "noun"),
        ("mistake", 6, "noun"),
        ("omission", 0, None),
        ("mistake", 9, "noun+descriptor"),
    ]
    assert manifest["counts"]["rejected"] == {"unknown_label": 1, "unknown_kind": 1, "bad_end": 1}


def test_of_two_annotations_of_a_text_one_is_kept(tmp_path: Path) -> None:
    first = annotation([result("mistakes", start=0, end=1, labels=["noun"])], updated_at="2026-05-01T00:00:00Z")
    second = annotation(
        [result("mistakes", start=2, end=5, labels=["noun"]), result("mistakes", start=5, end=6, labels=["noun"])],
        updated_at="2026-05-02T00:00:00Z",
    )
    source = export(tmp_path / "p.json", second, first, generated="A dog.")
    ratings(source, "table=spans", "span_labels=mistakes_omissions", f"out={tmp_path / 'R'}")
    assert [(row["start"], row["end"]) for row in rows(tmp_path / "R")] == [(2, 5), (5, 6)]


def test_real_judgements_are_read_completely(tmp_path: Path, data: Path) -> None:
    likert = data / "dsg" / "tifa160-likert-anns.csv"
    columns = ["columns.item_id=t2i_model+item_id", "columns.rater=worker_id", "columns.value=answer"]
    more = ["question=consistency", "answers=[1,2,3,4,5]"]
    cli.execute("import_ratings", [f"input={likert}", *columns, *more, f"out={tmp_path / 'dsg'}"])
    judgements = rows(tmp_path / "dsg")
    assert len(judgements) == 3995
    assert len({row["item_id"] for row in judgements}) == 800
    assert {row["status"] for row in judgements} == {"ok"}
    relex = data / "crowdtruth" / "relex-binary-choice.csv"
    columns = ["columns.item_id=_unit_id", "columns.rater=_worker_id", "columns.value=top_member_employee"]
    more = ["question=employee", "answers=[true,false]", "scale=nominal"]
    cli.execute("import_ratings", [f"input={relex}", *columns, *more, f"out={tmp_path / 'relex'}"])
    assert len(rows(tmp_path / "relex")) == 150


def test_the_identity_of_imported_ratings_changes_with_how_they_are_read() -> None:
    def identity(**keys: Any) -> dict[str, Any]:
        return import_config.identity(import_ratings.ImportRatingsConfig(**{"input": "/i", "out": "o", **keys}))

    def plan(*arguments: Any) -> Any:
        cfg = import_ratings.ImportRatingsConfig(input="/i", out="o", table="spans")
        return import_ratings._plan(cfg, *arguments, knows_reports=True)

    usual = identity()
    assert (usual["rubric"], usual["span_labels"]) == (None, None)
    changes: list[dict[str, Any]] = [
        {"input": "/other"},
        {"table": "spans"}, {"answers": ["1", "2"]}, {"scale": "nominal"}, {"condition": "c"}, {"question": "q"},
        {"rater": "r"}, {"items": "url"}, {"encoding": "cp1252"}, {"delimiter": ";"}, {"duplicates": "first"},
        {"format": "prodigy"}, {"name": "n"}, {"method": "m"}, {"rubric": {"a": 1}}, {"span_labels": {"a": 1}},
        {"rater_kind": "gold"}, {"rater_from": "assigned"}, {"columns": RatingColumns(item_id="x")},
        {"columns": RatingColumns(questions={"q": "x"})},
    ]  # fmt: skip
    identities = [usual, *(identity(**change) for change in changes)]
    assert all(one != other for n, one in enumerate(identities) for other in identities[:n])
    for key in ("rubric", "span_labels"):
        assert identity(**{key: {"a": 1, "b": 2}}) == identity(**{key: {"b": 2, "a": 1}})
    items: Any = SimpleNamespace(identity="of items")
    excluded = Exclusions(("p",), (frozenset({"p"}),))
    whole = plan([Object("/i", 1, "e")], SimpleNamespace(fingerprint="f"), excluded, items)
    added = {"items": "of items", "anonymised": "f"} | exclusions.identity(excluded)
    assert whole.identity == identity(table="spans") | added
    assert len(exclusions.identity(excluded)) == 1
    bare = plan([], None, Exclusions(), None).identity
    assert ("items" in bare, bare["anonymised"]) == (False, None)
    assert ([file.uri for file in whole.units[0].inputs], whole.metadata, whole.files) == (["/i"], {}, {})


def test_sheets_that_nobody_has_begun_are_left_out_until_somebody_does(tmp_path: Path) -> None:
    """A person whose sheet is empty is not a rater who answered nothing; marks and wrong answers are a beginning."""
    head, out = "item_id,rater,question,value,skipped\n", tmp_path / "out"
    command = [f"input={tmp_path}/*.csv", "rubric=century_labels", f"out={out}"]
    for name in ("ann", "bo"):
        write(tmp_path / f"{name}.csv", f"{head}a,{name},sensitive,,\nb,{name},sensitive,,\n")
    with pytest.raises(NotAnsweredError, match="no answer yet"):
        ratings(*command)
    assert not out.exists()
    for begun, expected in (
        ("3,", ("ok", "skipped")),
        (",x", ("skipped", "skipped")),
        ("9,", ("out_of_range", "skipped")),
    ):
        write(tmp_path / "bo.csv", f"{head}a,bo,sensitive,{begun}\nb,bo,sensitive,,\n")
        manifest = ratings(*command)
        assert manifest["counts"]["filtered"] == {"not_begun": 2}
        assert {row["rater"] for row in rows(out)} == {"bo"}
        assert [row["status"] for row in rows(out)] == [*expected]
    write(tmp_path / "ann.csv", f"{head}a,ann,sensitive,2,\nb,ann,sensitive,,\n")
    assert ratings(*command)["counts"]["filtered"] == {}
    assert Counter(row["rater"] for row in rows(out)) == {"ann": 2, "bo": 2}
