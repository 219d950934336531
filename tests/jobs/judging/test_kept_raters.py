"""What tables keep of the models that made them, and that reports show it."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs.analysis.attributes import read_raters
from jobs.errors import InputError
from jobs.judging import kept_raters
from jobs.models.vlm import ModelConfig
from jobs.runtime import cli
from jobs.store.reading import open_table
from jobs.tables import table
from tests.jobs.ratings_rows import FIVE, rating, write

JUDGE = ModelConfig(name="seven", checkpoint="me/seven", revision="main", licence="Gemma Terms of Use")
FACTS = "qwen2|abc|bfloat16|cascade, torch 2, cuda"


def put(folder: Path, name: str, rows: list[dict[str, Any]]) -> str:
    """A table of ratings by me/seven that keeps `rows` of its raters."""
    place = write(
        folder / name, "ratings", [rating(f"{name}{n}", "me/seven@main", "q", "3") for n in range(4)], rubric=FIVE
    )
    made = pa.Table.from_pylist(rows, schema=table("raters").schema())
    pq.write_table(made, folder / name / "_run" / "raters.parquet")
    return place


def test_a_row_for_each_kind_of_machine() -> None:
    other = FACTS.replace("cuda", "cpu")
    first, second = kept_raters.of_model(JUDGE, {"rater": {other: 2, FACTS: 5}})
    same = {"kind": "model", "model": "me/seven", "licence": "Gemma Terms of Use", "family": "qwen2", "revision": "abc"}
    assert same.items() <= first.items()
    assert (first["rater"], first["engine"]) == ("me/seven@main", "cascade, torch 2, cuda")
    assert (second["rater"], second["engine"]) == ("me/seven@main (2)", "cascade, torch 2, cpu")
    (asked,) = kept_raters.of_model(JUDGE, {})
    assert (asked["rater"], asked["revision"], asked["dtype"]) == ("me/seven@main", "main", "auto")


def test_the_page_shows_models_and_licences(tmp_path: Path) -> None:
    rows = kept_raters.of_model(JUDGE, {"rater": {FACTS: 5}})
    places = [put(tmp_path, name, rows) for name in ("a", "b")]
    assert len(kept_raters.read([open_table(place) for place in places])) == 1
    cli.execute("report", [f"ratings=[{','.join(places)}]", f"out={tmp_path}/out"])
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    for words in ("Gemma Terms of Use", "bfloat16", "me/seven", "cascade, torch 2, cuda"):
        assert words in page


def test_the_kind_comes_from_the_table_that_the_rater_made(tmp_path: Path) -> None:
    """A table `raters` of the user's comes first, then what is kept, then the method."""
    kept = [{"rater": "x", "kind": "encoder"}, {"rater": "y", "kind": "encoder"}]
    own = open_table(write(tmp_path / "raters", "raters", [{"rater": "y", "kind": "gold"}]))
    methods = {"x": {"closed"}, "y": {"closed"}, "z": {"closed"}}
    found = read_raters([own], methods, gold=[], groups=[], kept=kept)
    assert found.kinds == {"x": "encoder", "y": "gold", "z": "model"}


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    place = put(tmp_path, "a", [])
    file = tmp_path / "a" / "_run" / "raters.parquet"
    for damage in (b"PAR1", None):
        if damage is None:
            pq.write_table(pa.table({"rater": ["x"]}), file)
        else:
            file.write_bytes(damage)
        with pytest.raises(InputError, match=str(file)):
            cli.execute("report", [f"ratings=[{place}]", f"out={tmp_path}/out"])
    assert not (tmp_path / "out").exists()
