"""Combinations of keys that `import_ratings` accepts and refuses."""

from pathlib import Path
from typing import Any

import pytest

from jobs.annotation.import_config import ImportRatingsConfig, check, files_of, format_of
from jobs.annotation.reading import RatingColumns
from jobs.errors import InputError
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
        ({}, r"rubric= is required, or answers="),
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
        ({"table": "remarks", **RUBRIC, "columns": RatingColumns(remarks=["q"])}, r"columns\.remarks=\['q'\]: must be"),
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
