"""`diff` finds what was changed by hand, and nothing else."""

import csv
import math
from pathlib import Path

import numpy as np
import pytest

from jobs.diff import configuration_line
from jobs.inventory.differences import NOT_SET, ColumnDifference, compare
from jobs.runtime.command_line import cli
from jobs.tables import TABLES
from tests.factories import embedding_rows, picture, rating, write_table, write_units

SAME = [rating(f"i{n}", "ann", "sensitive", "yes", score=1.0) for n in range(50)]


def two(tmp_path: Path) -> tuple[str, str]:
    changed = [
        rating("x", "ann", "sensitive", "yes", score=1.0, comment="=1+1"),
        rating("y", "ann", "sensitive", "no", score=0.5),
    ]
    other = [
        rating("x", "ann", "sensitive", "no", score=0.75, comment="=1+1"),
        rating("y", "ann", "sensitive", "no", score=0.5 + 1e-9),
    ]
    a = write_units(tmp_path / "a", "ratings", [SAME, [*changed, rating("only a", "ann", "sensitive", "no")]])
    b = write_units(
        tmp_path / "b", "ratings", [[*other, rating("only b", "bob", "sensitive", "no")], SAME], prompt="other"
    )
    return a, b


def test_rows_are_matched_by_key_and_compared_by_value(tmp_path: Path) -> None:
    a, b = two(tmp_path)
    differences = compare(a, b)
    assert (differences.name, differences.rows, differences.only, differences.changed) == (
        "ratings",
        (53, 53),
        (1, 1),
        2,
    )
    assert {name: column.rows for name, column in differences.columns.items()} == {"value": 1, "score": 2}
    assert differences.columns["score"].largest == 0.25
    assert compare(b, a).columns["score"].largest == 0.25  # whichever is greater
    assert differences.columns["value"].largest is None
    rows = {row["item_id"]: row for row in differences.examples.to_pylist()}
    assert {item: row["in"] for item, row in rows.items()} == {"only a": "a", "only b": "b", "x": "both", "y": "both"}
    assert (rows["x"]["value (a)"], rows["x"]["value (b)"]) == ("yes", "no")
    assert (rows["x"]["score (a)"], rows["x"]["score (b)"]) == (1.0, 0.75)

    assert list(rows) == ["only a", "only b", "x", "y"]  # in order of their keys
    for most in (0, 3):
        assert compare(a, b, examples=most).examples["item_id"].to_pylist() == ["only a", "only b", "x"][:most]
    assert not compare(a, b, ignored=["value", "score"]).is_equal  # a key is only in one

    near = compare(a, b, tolerance=1e-6, ignored=["value"])
    assert (near.changed, list(near.columns), near.columns["score"].rows) == (1, ["score"], 1)
    assert not near.is_equal
    assert compare(a, a).is_equal


def test_twenty_examples_are_kept_by_default(tmp_path: Path) -> None:
    rows = [[rating(f"i{n:02}", "ann", "q", value) for n in range(30)] for value in ("yes", "no")]
    a, b = (write_table(tmp_path / name, "ratings", of_table) for name, of_table in zip("ab", rows, strict=True))
    differences = compare(a, b)
    assert (differences.changed, differences.examples.num_rows) == (30, 20)


def test_a_table_that_lost_its_identity_is_compared(tmp_path: Path) -> None:
    a, b = two(tmp_path)
    (tmp_path / "a" / "_run" / "identity.json").unlink()
    differences = compare(a, b)
    assert (differences.only, differences.changed) == ((1, 1), 2)
    assert differences.configuration == {"by": ("(not set)", "hand"), "table": ("(not set)", "ratings")}


def test_null_and_not_a_number_are_values(tmp_path: Path) -> None:
    rows = {"a": [None, float("nan"), 1.0], "b": [None, float("nan"), None]}
    a, b = (
        write_table(
            tmp_path / side, "ratings", [rating(f"i{n}", "r", "q", "v", score=score) for n, score in enumerate(scores)]
        )
        for side, scores in rows.items()
    )
    differences = compare(a, b, tolerance=0.5)
    assert (differences.changed, differences.columns["score"].rows) == (1, 1)


def test_a_tolerance_applies_to_whole_numbers(tmp_path: Path) -> None:
    a, b = (
        write_table(
            tmp_path / side, "images", [picture(number) | {"width": width} for number, width in enumerate(all_widths)]
        )
        for side, all_widths in {"a": [10, 10, 10], "b": [10, 11, 12, 13, 14]}.items()
    )
    assert [compare(a, b, tolerance=value).changed for value in (0.0, 1.0, 2.0, math.inf)] == [2, 1, 0, 0]
    for first, second, only in ((a, b, (0, 2)), (b, a, (2, 0))):
        differences = compare(first, second)
        assert differences.columns == {"width": ColumnDifference(2, 2.0)}
        assert (differences.rows, differences.only) == ((3 + only[0], 3 + only[1]), only)


def test_whole_numbers_too_large_for_a_double_are_compared_exactly(tmp_path: Path) -> None:
    a, b = (
        write_table(tmp_path / side, "metrics", [{"metric": "m", "dims": "{}", "n": n}])
        for side, n in {"a": 2**53, "b": 2**53 + 1}.items()
    )
    assert compare(a, b).columns == {"n": ColumnDifference(1, 0.0)}


def test_keys_of_either_configuration_are_compared(tmp_path: Path) -> None:
    rows = [rating("i", "r", "q", "v")]
    a = write_table(tmp_path / "a", "ratings", rows, prompt={"name": "x", "text": "t"}, encoding="cp1252")
    b = write_table(tmp_path / "b", "ratings", rows, prompt={"name": "y", "text": "t"}, limit=2)
    differences = compare(a, b)
    assert differences.configuration == {
        "encoding": ("cp1252", NOT_SET), "limit": (NOT_SET, 2), "prompt.name": ("x", "y")
    }  # fmt: skip
    assert differences.is_equal  # whatever the configuration


def test_vectors_are_compared(tmp_path: Path) -> None:
    vectors = np.eye(3, 4, dtype=np.float16)
    other = vectors + np.array([[0], [0.5], [0]], np.float16)
    a, b = (
        write_units(tmp_path / side, "embeddings", [embedding_rows(["x", "y", "z"], "image", rows)])
        for side, rows in (("a", vectors), ("b", other))
    )
    differences = compare(a, b)
    assert (differences.changed, list(differences.columns), differences.columns["embedding"].rows) == (
        1,
        ["embedding"],
        1,
    )


def test_every_table_can_be_compared(tmp_path: Path) -> None:
    for name in TABLES:
        table = write_units(tmp_path / name, name, [[]])
        assert compare(table, table).is_equal, name


def test_reports_are_compared_by_their_metrics(tmp_path: Path) -> None:
    for report in ("first", "second"):
        write_units(tmp_path / report / "metrics", "metrics", [[]])
        (tmp_path / report / "index.html").touch()
    assert compare(str(tmp_path / "first"), str(tmp_path / "second")).name == "metrics"


def test_the_command_prints_the_configuration_and_writes_all_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = two(tmp_path)
    out = tmp_path / "rows.csv"
    assert cli.main("diff", [a, b, "examples=1", f"out={out}"]) == 0
    printed = capsys.readouterr().out
    assert "1 only in a, 1 only in b, 2 with other values" in printed
    assert "score: differs in 2 rows, by at most 0.25" in printed
    with out.open(newline="") as file:
        assert len(list(csv.DictReader(file))) == 4
    assert cli.main("diff", [a, b, "strict=true"]) == 1
    assert cli.main("diff", [a, a, "strict=true"]) == 0
    assert "the rows are equal" in capsys.readouterr().out


def test_the_differing_rows_are_printed_in_columns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = two(tmp_path)
    assert cli.main("diff", [a, b, "examples=1", "ignore=[score]"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "diff: table ratings, 53 rows in a and 53 in b",
        "  1 only in a, 1 only in b, 1 with other values",
        "  value: differs in 1 row",
        "    in  item_id  target  rubric  question   rater  condition  method  order  sample  value (a)  value (b)",
        "    a   only a           r       sensitive  ann               closed         0       no",
    ]
    assert cli.main("diff", [a, b, "examples=0"]) == 0
    assert not [line for line in capsys.readouterr().out.splitlines() if line.startswith("    ")]
    long = {side: write_table(tmp_path / f"{side} long", "ratings", [rating("i", "ann", "q", "v", comment=comment)])
            for side, comment in (("a", "x" * 40), ("b", f"a\n b{'x' * 40}"))}  # fmt: skip
    assert cli.main("diff", [long["a"], long["b"]]) == 0
    *_, cells = capsys.readouterr().out.splitlines()
    assert cells.endswith(f"{'x' * 40}  a b{'x' * 36}…")


def test_a_key_that_only_one_configuration_has_is_not_set_in_the_other() -> None:
    assert configuration_line("encoding", "cp1252", None) == "configuration: encoding is cp1252 in a, not set in b"
    assert configuration_line("limit", None, 3) == "configuration: limit is not set in a, 3 in b"


def test_what_cannot_be_compared_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = two(tmp_path)
    images = write_table(tmp_path / "images", "images", [])
    existing = tmp_path / "there.csv"
    existing.write_text("")
    for arguments, words in (
        ([a, images], "both must be of the same kind"),
        ([a, str(tmp_path / "nothing")], "nothing"),
        ([a, b, "ignore=[item_id]"], "ignore=item_id: not a column to compare"),
        ([a, b, "tolerance=-1"], "tolerance=-1"),
        ([a, b, f"out={existing}"], "exists"),
        ([a, b, f"out={existing}/rows.csv"], "is a file, where a folder is needed"),
        ([a], "b="),
        ([a, b, "third"], "not key=value"),
    ):
        assert cli.main("diff", arguments) == 2
        assert words in capsys.readouterr().err, arguments
