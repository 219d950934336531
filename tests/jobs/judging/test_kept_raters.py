"""Raters that tables keep, and that reports show."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs.analysis.rater_attributes import read_raters
from jobs.errors import InputError
from jobs.judging import kept_raters
from jobs.models.vlm import ModelConfig
from jobs.runtime.command_line import cli
from jobs.store.reading import open_table
from jobs.tables import table
from tests.factories import FIVE, rating, write_file

pytestmark = pytest.mark.usefixtures("without_plots")

JUDGE = ModelConfig(name="seven", checkpoint="me/seven", revision="main", licence="Gemma Terms of Use")
FACTS = "qwen2|abc|bfloat16|cascade, torch 2, cuda"


def put(folder: Path, name: str, rows: list[dict[str, Any]]) -> str:
    """Write ratings by me/seven with `rows` as the kept raters, and return the table's path."""
    path = write_file(
        folder / name, "ratings", [rating(f"{name}{n}", "me/seven@main", "q", "3") for n in range(4)], rubric=FIVE
    )
    raters = pa.Table.from_pylist(rows, schema=table("raters").schema())
    pq.write_table(raters, folder / name / "_run" / "raters.parquet")
    return path


def test_a_row_for_each_kind_of_machine() -> None:
    other = FACTS.replace("cuda", "cpu")
    first, second = kept_raters.of_model(JUDGE, {"rater": {other: 2, FACTS: 5}})
    shared = {
        "kind": "model",
        "model": "me/seven",
        "licence": "Gemma Terms of Use",
        "family": "qwen2",
        "revision": "abc",
    }
    assert shared.items() <= first.items()
    assert (first["rater"], first["engine"]) == ("me/seven@main", "cascade, torch 2, cuda")
    assert (second["rater"], second["engine"]) == ("me/seven@main (2)", "cascade, torch 2, cpu")
    barred = [f"{FACTS} | {build}" for build in "ab"]
    as_many = kept_raters.of_model(JUDGE, {"rater": {barred[1]: 2, barred[0]: 2}})
    assert [row["engine"] for row in as_many] == [f"cascade, torch 2, cuda | {build}" for build in "ab"]
    (configured,) = kept_raters.of_model(JUDGE, {})
    assert (configured["rater"], configured["revision"], configured["dtype"]) == ("me/seven@main", "main", "auto")


def test_the_page_shows_models_and_licences(tmp_path: Path) -> None:
    rows = kept_raters.of_model(JUDGE, {"rater": {FACTS: 5}})
    paths = [put(tmp_path, name, rows) for name in ("a", "b")]
    assert len(kept_raters.read([open_table(path) for path in paths])) == 1
    cli.execute("report", [f"ratings=[{','.join(paths)}]", f"out={tmp_path}/out"])
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    for words in ("Gemma Terms of Use", "bfloat16", "me/seven", "cascade, torch 2, cuda"):
        assert words in page


def test_sources_of_a_raters_kind(tmp_path: Path) -> None:
    """The user's table `raters` takes precedence, then the kept raters, then the method."""
    kept = [{"rater": "x", "kind": "encoder"}, {"rater": "y", "kind": "encoder"}]
    table_of_user = open_table(write_file(tmp_path / "raters", "raters", [{"rater": "y", "kind": "gold"}]))
    methods = {"x": {"closed"}, "y": {"closed"}, "z": {"closed"}}
    raters = read_raters([table_of_user], methods, gold=[], groups=[], kept=kept)
    assert raters.kinds == {"x": "encoder", "y": "gold", "z": "model"}


def test_tables_without_raters_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "old" / "_run").mkdir(parents=True)
    places = [write_file(tmp_path / "old", "ratings", [rating("i", "m", "q", "3")], rubric=FIVE)]
    places += [put(tmp_path, name, [{"rater": "b", "kind": "model"}, {"rater": "a", "kind": "model"}]) for name in "xy"]
    rows = kept_raters.read([open_table(place) for place in places])
    assert [row["rater"] for row in rows] == ["a", "b"]


def test_a_rater_on_two_kinds_of_machines_has_a_row_of_each(tmp_path: Path) -> None:
    row = {"rater": "m", "kind": "model", "dtype": "float32", "engine": "b"}
    rows = [[row], [{**row, "engine": "a"}], [{**row, "dtype": "bfloat16"}], [row]]
    places = [put(tmp_path, name, kept) for name, kept in zip("wxyz", rows, strict=True)]
    kept = kept_raters.read([open_table(place) for place in places])
    assert [(kept_row["dtype"], kept_row["engine"]) for kept_row in kept] == [
        ("bfloat16", "b"), ("float32", "a"), ("float32", "b"),
    ]  # fmt: skip


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    path = put(tmp_path, "a", [])
    file = tmp_path / "a" / "_run" / "raters.parquet"
    for damage in (b"PAR1", None):
        if damage is None:
            pq.write_table(pa.table({"rater": ["x"]}), file)
        else:
            file.write_bytes(damage)
        with pytest.raises(InputError, match=str(file)):
            cli.execute("report", [f"ratings=[{path}]", f"out={tmp_path}/out"])
    assert not (tmp_path / "out").exists()
