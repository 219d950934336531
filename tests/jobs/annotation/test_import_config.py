"""Combinations of keys that `import_ratings` accepts and refuses."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from omegaconf import OmegaConf

from jobs.annotation import century_annotations, import_config, tabular
from jobs.annotation.import_config import ImportRatingsConfig, check, files_of, format_of
from jobs.annotation.importing import Importer
from jobs.annotation.reading import RatingColumns
from jobs.annotation.tools import label_studio, prodigy
from jobs.errors import InputError
from jobs.runtime.configuration.config_files import CONF
from jobs.runtime.selection.exclusions import ExclusionFilter
from jobs.store.files.objects import Object
from tests.cases import check_cases

RUBRIC = {"rubric": {"name": "r"}}
ANSWERS = {"answers": ["1", "2"]}


def test_accepted_combinations_of_keys() -> None:
    cases = [
        RUBRIC,
        ANSWERS,
        {"table": "spans"},
        {"table": "raters"},
        {"table": "remarks", **RUBRIC},
        {"table": "remarks", "columns": RatingColumns(remarks={"why": "reason"})},
        {**RUBRIC, "format": "century"},
        {**RUBRIC, "rater": "anna"},
        {**RUBRIC, "duplicates": "sample"},
        {**RUBRIC, "reports": "list.csv", "reports_min": 1},
        {**RUBRIC, "columns": RatingColumns(questions={"q": "column"})},
    ]

    def check_case(keys: dict[str, Any]) -> None:
        check(ImportRatingsConfig(input="x", out="y", **keys))  # raises nothing

    check_cases(check_case, cases)


def test_keys_that_do_not_are_refused() -> None:
    cases = [
        ({}, r"rubric=: required, or answers="),
        ({"table": "remarks"}, r"table=remarks: rubric=NAME with free_texts is required"),
        ({**RUBRIC, **ANSWERS}, "not allowed with rubric=; omit one"),
        ({"table": "spans", "format": "century"}, "^table=spans: format=century"),
        ({**RUBRIC, "rater": "anna", "format": "century"}, "^rater=anna: format=century"),
        ({"table": "spans", "duplicates": "sample"}, "duplicates=sample: table=spans has no samples"),
        (
            {**RUBRIC, "duplicates": "sample", "columns": RatingColumns(sample="n")},
            r"duplicates=sample: columns\.sample= maps",
        ),
        ({"table": "raters", "items": "url"}, "items=url: table=raters has no items"),
        ({"table": "spans", "reports": "list.csv"}, r"reports=list\.csv: needs table=ratings"),
        ({**RUBRIC, "reports_min": 0}, "reports_min=0: must be at least 1"),
        ({**RUBRIC, "columns": RatingColumns(questions={})}, r"columns\.questions=\{\}: must be of the form"),
        ({**RUBRIC, "columns": RatingColumns(questions={"q": 3})}, r"columns\.questions=\{'q': 3\}: must be"),
        ({**RUBRIC, "columns": RatingColumns(questions="q")}, r"columns\.questions=q: must be of the form"),
        ({"table": "remarks", **RUBRIC, "columns": RatingColumns(remarks=["q"])}, r"columns\.remarks=\[q\]: must be"),
        *(({**RUBRIC, key: "other"}, f"{key}=other: must be one of") for key in
          ("format", "table", "duplicates", "rater_from", "rater_kind", "scale")),
    ]  # fmt: skip

    def check_case(keys: dict[str, Any], message: str) -> None:
        with pytest.raises(InputError, match=message):
            check(ImportRatingsConfig(input="x", out="y", **keys))

    check_cases(check_case, cases)


def names(folder: Path, uri: str, format_: str | None = None) -> list[str]:
    return sorted(Path(file.uri).relative_to(folder).as_posix() for file in files_of(uri, format_))


def test_files_that_programs_wrote_for_themselves_are_left_out(tmp_path: Path) -> None:
    for name in ("a.csv", "sub/b.CSV", "c.json", "_run/m.json", "sub/_x/d.csv", ".e.csv", "_f.csv", "g.jsonl"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    assert names(tmp_path, str(tmp_path)) == ["a.csv", "c.json", "g.jsonl", "sub/b.CSV"]
    assert names(tmp_path, str(tmp_path), "csv") == ["a.csv", "sub/b.CSV"]
    assert names(tmp_path, str(tmp_path), "label_studio") == ["c.json"]
    assert names(tmp_path, f"{tmp_path}/_f.csv") == ["_f.csv"], "a file that is named"
    assert names(tmp_path, f"{tmp_path}/sub/_x/*.csv") == ["sub/_x/d.csv"], "of a glob the file's name counts"
    assert names(tmp_path, f"{tmp_path}/*.csv") == ["a.csv"]
    assert names(tmp_path, f"{tmp_path}/c.json", "csv") == ["c.json"], "one file has the format that is set"
    with pytest.raises(InputError, match=r"no file of format=parquet \(\.parquet\)"):
        files_of(str(tmp_path), "parquet")
    (tmp_path / "none").mkdir()
    (tmp_path / "none" / ".x").write_text("x")
    with pytest.raises(InputError, match="none: no file to read"):
        files_of(f"{tmp_path}/none", None)


def test_names_imply_a_format() -> None:
    def check(uris: list[str], expected: str) -> None:
        assert format_of([Object(uri, 1, "") for uri in uris]) == expected

    cases = [
        (["a.csv", "b.TSV", "c.txt", "d.csv.gz"], "csv"), (["a.parquet"], "parquet"), (["a.json"], "label_studio"),
        (["a.jsonl", "b.jsonl.gz"], "prodigy"),
    ]  # fmt: skip
    check_cases(check, cases)
    with pytest.raises(InputError, match=r"^b\.XLSX: .*save the sheet as CSV UTF-8$"):
        format_of([Object("b.XLSX", 1, "")])
    with pytest.raises(InputError, match=r"^b\.xml: the name does not imply a format; set format=csv\|parquet"):
        format_of([Object(uri, 1, "") for uri in ("a.csv", "b.xml")])
    with pytest.raises(InputError, match=r"files of several formats \(csv, prodigy\)"):
        format_of([Object(uri, 1, "") for uri in ("b.jsonl", "a.csv")])


Readings = list[tuple[str, Any]]
MOOD = {
    "name": "mood",
    "questions": [
        {"name": "shown", "text": "How strongly?", "answers": [1, 2, 3]},
        {"name": "people", "text": "Are there people?", "answers": ["yes", "no"]},
    ],
}
FILES = {format_: f"/x/a.{ending}" for format_, ending in
         (("csv", "csv"), ("parquet", "parquet"), ("label_studio", "json"), ("prodigy", "jsonl"))}  # fmt: skip


@pytest.fixture
def readings(monkeypatch: pytest.MonkeyPatch) -> Readings:
    """(format, settings of the reader) of each file that an importer looks into."""
    calls: Readings = []

    def recorder(name: str) -> Any:
        def read(uri: str, reading: Any, reject: object) -> Iterator[Any]:
            calls.append((name, reading))
            return iter(())

        return read

    monkeypatch.setattr(import_config, "_reader", recorder)
    return calls


def importer(file: str = "/x/a.csv", *, pseudonyms: Any = None, **keys: Any) -> Importer:
    cfg = ImportRatingsConfig(input="x", out="y", **keys)
    one = import_config.importer(cfg, [Object(file, 1, "e")], ExclusionFilter(frozenset()), pseudonyms)
    one.peek()
    return one


def reading(readings: Readings, file: str = "/x/a.csv", **keys: Any) -> Any:
    importer(file, **keys)
    return readings.pop()[1]


def test_each_format_has_its_reader() -> None:
    readers = {
        "csv": tabular.read_csv, "parquet": tabular.read_parquet, "century": century_annotations.read,
        "label_studio": label_studio.read, "prodigy": prodigy.read,
    }  # fmt: skip
    assert {format_: import_config._reader(format_) for format_ in import_config.FORMATS} == readers


def test_the_format_is_that_of_the_name_or_of_the_key(readings: Readings) -> None:
    for file in FILES.values():
        importer(file, rubric=MOOD)
    importer("/x/a.csv", rubric=MOOD, format="century")
    importer("/x/a.json", rubric=MOOD, format="prodigy")
    assert [name for name, _ in readings] == ["csv", "parquet", "label_studio", "prodigy", "century", "prodigy"]


def test_readers_of_columns_get_the_keys_of_columns(readings: Readings) -> None:
    columns = RatingColumns(item_id="file")
    keys: dict[str, Any] = {"encoding": "latin-1", "delimiter": ";", "limit": 5, "rater": "anna", "columns": columns}
    one = reading(readings, rubric=MOOD, question="How strongly?", **keys)
    assert (one.encoding, one.delimiter, one.limit, one.rater, one.columns) == ("latin-1", ";", 5, "anna", columns)
    assert (one.table, one.question, one.private) == ("ratings", "shown", False)
    assert reading(readings, rubric=MOOD, pseudonyms=lambda name: name).private


def test_readers_of_tools_get_the_keys_of_tools(readings: Readings) -> None:
    columns = RatingColumns(target="label", questions={"shown": "control"}, remarks={"why": "field"})
    one = reading(readings, FILES["prodigy"], rubric=MOOD, columns=columns, rater_from="assigned", limit=5)
    assert one.controls_of({"questions": ["shown", "people"]}) == {"shown": "control", "people": "people"}
    assert (one.text_control("why"), one.text_control("x"), one.fields) == ("field", "remark_x", {"target": "label"})
    assert (one.rater_from, one.limit, one.question, one.private) == ("assigned", 5, None, False)
    bare = reading(readings, FILES["label_studio"], rubric=MOOD, pseudonyms=lambda name: name)
    assert (bare.columns, bare.fields, bare.rater_from, bare.private) == (RatingColumns(), {}, "annotator", True)
    spans: Any = OmegaConf.to_container(OmegaConf.load(next((CONF / "span_labels").glob("*.yaml"))))
    labels = reading(readings, FILES["label_studio"], table="spans", span_labels=spans).span_labels
    assert labels.name == spans["name"]


def test_rows_have_the_keys_of_the_command(readings: Readings, monkeypatch: pytest.MonkeyPatch) -> None:
    settings: list[Any] = []

    def importer_of(one: Any, *_: Any, **__: Any) -> Any:
        settings.append(one)
        return SimpleNamespace(peek=list)

    monkeypatch.setattr(import_config, "Importer", importer_of)
    importer(rubric=MOOD)
    importer(rubric=MOOD, method="gold", condition="fast", rater_kind="model", duplicates="first", items="url")
    importer(rubric=MOOD, format="century")
    importer(table="remarks", name="ours", columns=RatingColumns(remarks={"why": "reason"}))
    names = ("rubric", "method", "condition", "rater_kind", "duplicates", "urls", "items")
    assert [tuple(getattr(one, name) for name in names) for one in settings] == [
        ("mood", "human", "", "human", "last", False, None),
        ("mood", "gold", "fast", "model", "first", True, None),
        ("mood", "human", "", "human", "last", True, None),
        ("ours", "human", "", "human", "last", False, None),
    ]
    assert [one.table for one in settings] == [*["ratings"] * 3, "remarks"]
    assert [text.name for text in settings[3].free_texts] == ["why"]


def test_names_of_items_stay_out_of_rejects_with_pseudonyms(
    readings: Readings, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[tuple[str, bool]] = []
    monkeypatch.setattr(
        import_config.importing, "open_item_names", lambda items, *, private: opened.append((items, private))
    )
    for pseudonyms in (None, lambda name: name):
        importer(rubric=MOOD, items="R/items", pseudonyms=pseudonyms)
    assert opened == [("R/items", False), ("R/items", True)]


def test_questions_by_name_or_text(readings: Readings) -> None:
    cases = {
        "shown": ({"rubric": MOOD, "question": "shown"}, "shown"),
        "text": ({"rubric": MOOD, "question": "are there people?"}, "people"),
        "none": ({"rubric": MOOD}, None),
        "any name, with answers alone": ({"answers": ["1", "2"], "question": "fit"}, "fit"),
        "without questions": ({"table": "raters", "question": "fit"}, "fit"),
        "empty": ({"rubric": MOOD, "question": ""}, None),
    }

    def check(keys: dict[str, Any], question: str | None) -> None:
        assert reading(readings, **keys).question == question

    check_cases(check, cases)


def test_answers_without_a_rubric_are_a_scale_or_categories(readings: Readings) -> None:
    scored = reading(readings, answers=["1", "2"], name="ours", question="q").questionnaire
    named = reading(readings, answers=["1", "2"], scale="nominal", question="q").questionnaire
    assert (scored.name, named.name) == ("ours", "people")
    assert [one.answers("q").scores for one in (scored, named)] == [(1.0, 2.0), (None, None)]


def test_free_texts_are_read_for_remarks_alone(readings: Readings) -> None:
    columns = RatingColumns(remarks={"why": "reason"})
    one = reading(readings, table="remarks", columns=columns, question="q")
    assert [(text.name, text.question) for text in one.free_texts] == [("why", "q")]
    assert reading(readings, rubric=MOOD, columns=columns).free_texts == ()


def test_keys_that_a_format_does_not_take_are_refused(readings: Readings) -> None:
    cases = [
        ({"file": FILES["label_studio"], "table": "spans"}, "format=label_studio needs span_labels=NAME"),
        ({"rubric": MOOD, "question": "nothing"}, "question=nothing: rubric mood has shown, people"),
        ({"rubric": {**MOOD, "questions": []}}, "^rubric: questions: "),
        ({"table": "remarks", "rubric": MOOD}, "^table=remarks: rubric mood has no free_texts"),
        ({"rubric": MOOD, "items": "/nowhere"}, "items=/nowhere: must be id, url or a table"),
    ]

    def check(keys: dict[str, Any], message: str) -> None:
        with pytest.raises(InputError, match=message):
            importer(**keys)

    check_cases(check, cases)
