"""`calibrate`: settings of likelihoods chosen on one half and applied to the other."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs.errors import InputError
from jobs.judging import rating_tables
from jobs.judging.calibration import half_of, halves
from jobs.judging.kept_rubric import read_kept
from jobs.runtime.command_line import cli
from jobs.runtime.outcomes import Plan
from jobs.store.reading import open_table
from jobs.tables import TABLES
from tests.cases import check_cases
from tests.factories import rows_of, write_table, write_units

LABELS = ("Brazil", "Peru")
ITEMS = [f"i{number}" for number in range(12)]
PLAIN, DEBIASED = "article; lambda=0,T=-inf", "article; lambda=1,T=-inf"


def rating(item: str, target: str, condition: str, score: float | None) -> dict[str, Any]:
    key = {"item_id": item, "target": target, "rubric": "relevant_to", "question": "relevance", "rater": "m@1"}
    status = "missing_input" if score is None else "ok"
    return {
        **key,
        "condition": condition,
        "method": "loglik",
        "order": "",
        "sample": 0,
        "score": score,
        "status": status,
    }


def plain(item: str, target: str) -> float:
    """Log-likelihoods that say nothing: Brazil is always likelier than Peru."""
    return -1.0 if target == "Brazil" else -9.0


def debiased(item: str, target: str) -> float:
    """On half a a right label has -2, another -4; on half b the same, but for one wrong label of -2.5."""
    if target == right(item):
        return -2.0
    return -2.5 if half_of(item, 0) == "b" and item == first("b") else -4.0


def right(item: str) -> str:
    return LABELS[int(item[1:]) % 2]


def first(half: str) -> str:
    return next(item for item in ITEMS if half_of(item, 0) == half)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("calibrate")
    rows = [
        rating(item, target, condition, score(item, target))
        for item in ITEMS
        for target in LABELS
        for condition, score in ((PLAIN, plain), (DEBIASED, debiased))
    ]
    rows.append(rating("broken", "Peru", DEBIASED, None))
    write_units(root / "loglik", "ratings", [rows[:20], rows[20:]])
    raters = pa.Table.from_pylist([{"rater": "m@1", "engine": "torch"}], schema=TABLES["raters"].schema())
    pq.write_table(raters, root / "loglik" / "_run" / rating_tables.RATERS_FILE)
    items = [{"item_id": item, "gold": [right(item)], "attributes": [("prompt", right(item))]} for item in ITEMS]
    write_table(root / "items", "items", items)
    people = [
        {**rating(item, target, "", 5.0 if target == right(item) else 1.0), "rater": "p", "method": "human"}
        for item in ITEMS
        for target in LABELS
    ]
    write_table(root / "people", "ratings", people)
    return root


def run(tables: Path, out: Path, *keys: str) -> Any:
    return cli.execute("calibrate", [f"input={tables}/loglik", f"out={out}", *keys])


def choices(out: Path) -> list[dict[str, Any]]:
    return json.loads((out / "_run" / "choice.json").read_text())


def test_what_was_chosen_on_one_half_rates_the_other(tables: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(tables, out, f"items=[{tables}/items]")
    (choice,) = choices(out)
    n = {half: sum(half_of(item, 0) == half for item in ITEMS) for half in "ab"}
    assert min(n.values()) > 0
    assert (choice["setting"], choice["threshold"], choice["value"]) == (DEBIASED, -3.0, 1.0)
    # on half b each right label is found, and one wrong label of -2.5 is above the threshold of -3
    assert choice["value_of_other"] == pytest.approx(2 * n["b"] / (2 * n["b"] + 1))
    assert (choice["chosen_on"], choice["pairs"], choice["pairs_of_other"]) == ("a", 2 * n["a"], 2 * n["b"])
    rows = rows_of(str(out))
    rated = [row for row in rows if row["item_id"] != "broken"]
    assert {row["item_id"] for row in rated} == {item for item in ITEMS if half_of(item, 0) == "b"}
    assert {(r["rubric"], r["question"], r["method"], r["condition"], r["rater"]) for r in rated} == {
        ("cultural_relevance", "relevance", "loglik_threshold", "article; log-likelihood", "m@1")
    }
    positive = {(row["item_id"], row["target"]) for row in rated if (row["value"], row["score"]) == ("5", 5.0)}
    expected = {(item, right(item)) for item in ITEMS if half_of(item, 0) == "b"}
    wrong = (first("b"), next(label for label in LABELS if label != right(first("b"))))
    assert positive == expected | {wrong}
    assert {row["score"] for row in rated} == {1.0, 5.0}


def test_a_threshold_of_the_user_is_kept(tables: Path, tmp_path: Path) -> None:
    run(tables, tmp_path / "out", f"items=[{tables}/items]", "threshold=-2.25")
    (choice,) = choices(tmp_path / "out")
    assert (choice["setting"], choice["threshold"], choice["value"]) == (DEBIASED, -2.25, 1.0)
    assert choice["value_of_other"] == 1.0  # above the wrong label of -2.5


def test_excluded_items_are_left_out_and_counted(tables: Path, tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text(f"{first('b')}\n")
    manifest = run(tables, tmp_path / "out", f"items=[{tables}/items]", f"exclusions={tmp_path}/list.txt")
    rated = {row["item_id"] for row in rows_of(str(tmp_path / "out"))}
    assert {item for item in ITEMS if half_of(item, 0) == "b"} - rated == {first("b")}
    assert manifest["counts"]["filtered"]["excluded"] == len(LABELS)


def test_a_plan_writes_nothing_and_other_keys_are_another_table(
    tables: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, keys = tmp_path / "out", [f"items=[{tables}/items]", "condition=c"]
    assert isinstance(run(tables, out, *keys, "plan=true"), Plan)
    assert not out.exists()
    assert f"reads  2 units, {4 * len(ITEMS) + 1} rows" in capsys.readouterr().out
    run(tables, out, *keys)

    def check(key: str) -> None:
        with pytest.raises(InputError, match=rf"written with another configuration: {key.partition('=')[0]} "):
            run(tables, out, *keys, key)

    check_cases(check, ["threshold=-2", "choose_on=b", "cross=true", "split_by=prompt", "seed=1", "condition=d"])


def test_both_halves_and_failed_rows(tables: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    manifest = run(tables, out, f"items=[{tables}/items]", "cross=true")
    assert {choice["chosen_on"] for choice in choices(out)} == {"a", "b"}
    rows = rows_of(str(out))
    assert len(rows) == 2 * len(ITEMS) + 1
    (broken,) = (row for row in rows if row["item_id"] == "broken")
    assert (broken["status"], broken["value"], broken["score"]) == ("missing_input", None, None)
    assert manifest["counts"]["filtered"]["other settings and half"] == 2 * len(ITEMS)


def test_the_report_can_name_what_was_chosen(tables: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(tables, out, f"items=[{tables}/items]")
    kept = read_kept(open_table(str(out)))
    assert kept is not None
    assert kept.name == "cultural_relevance"
    stored = open_table(str(out)).metadata
    for name, value in {**kept.metadata, "rater": "m@1"}.items():
        assert stored[f"remine.{name}"] == value
    choice = f"{DEBIASED}, threshold -3, chosen on half a"
    assert {row["comment"] for row in rows_of(str(out)) if row["status"] == "ok"} == {choice}
    (rater,) = rating_tables.read_raters([open_table(str(out))])
    assert (rater["rater"], rater["engine"]) == ("m@1", f"torch; labels by likelihood: {choice}")


def test_lambda_and_t_by_peoples_ratings(tables: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(tables, out, "criterion=pearson", f"reference={tables}/people", "choose_on=b", "condition=mine")
    (choice,) = choices(out)
    assert (choice["setting"], choice["threshold"], choice["chosen_on"]) == (DEBIASED, None, "b")
    pairs = [(item, target) for item in ITEMS if half_of(item, 0) == "b" for target in LABELS]
    expected = np.corrcoef([debiased(*pair) for pair in pairs], [5.0 * (t == right(i)) for i, t in pairs])[0, 1]
    assert choice["value"] == pytest.approx(expected)
    assert choice["value_of_other"] == pytest.approx(1.0)
    rows = [row for row in rows_of(str(out)) if row["status"] == "ok"]
    assert {(row["method"], row["rubric"], row["condition"]) for row in rows} == {("loglik", "relevant_to", "mine")}
    assert {row["score"] for row in rows} == {-2.0, -4.0}


def test_values_of_an_attribute_stay_in_one_half() -> None:
    keys = {item: right(item) for item in ITEMS}
    for seed in range(20):
        parts = halves(ITEMS, seed, keys)
        assert len({parts[item] for item in ITEMS if right(item) == "Peru"}) == 1
    assert len({tuple(halves(ITEMS, seed).values()) for seed in range(20)}) > 10
    with pytest.raises(InputError, match="item i0 does not have the attribute"):
        halves(ITEMS, 0, {})


def test_wrong_values_are_refused_before_anything_is_written(tables: Path, tmp_path: Path) -> None:
    cases = [
        ([], "criterion=f1: items= with gold is required"),
        (["criterion=best"], "criterion=best: must be one of f1, pearson"),
        (["criterion=pearson"], "criterion=pearson: reference= is required"),
        (["items=[{}/items]", "choose_on=c"], "choose_on=c: must be one of a, b"),
        (["items=[{}/items]", "rubric=century_labels"], "rubric=century_labels: must have one question"),
        (["items=[{}/items]", "split_by=prompt", "choose_on=a", "input={}/people"], "must be ratings by remine loglik"),
        (["split_by=prompt"], "split_by=prompt: set items="),
        (["items=[{}/items]", "split_by=nothing"], "item .* does not have the attribute"),
        (["items=[{}/nogold]"], "choose_on=a: f1 is undefined for every setting: no right label"),
    ]
    write_table(tables / "nogold", "items", [{"item_id": item} for item in ITEMS])

    def check(keys: list[str], message: str) -> None:
        with pytest.raises(InputError, match=message):
            run(tables, tmp_path / "out", *(key.format(tables) for key in keys))
        assert not (tmp_path / "out").exists()

    check_cases(check, cases)


def test_a_half_without_gold_has_no_value(tables: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    labelled = [{"item_id": item, "gold": [right(item)]} for item in ITEMS if half_of(item, 0) == "a"]
    write_table(tmp_path / "half", "items", labelled)
    manifest = run(tables, tmp_path / "out", f"items=[{tmp_path}/half]")
    rated = 2 * sum(half_of(item, 0) == "b" for item in ITEMS)
    counts = manifest["counts"]
    assert (counts["rows_in"], counts["rows_out"]) == (4 * len(ITEMS) + 1, counts["rows_out"])
    assert counts["filtered"] == {"other settings and half": counts["rows_in"] - counts["rows_out"]}
    assert counts["rows_out"] - rated in (0, 1), "the failed row belongs to one of the halves"
    printed = capsys.readouterr().out
    values = f"f1 1.000 there (n {2 * len(labelled)}), undefined on the other half (n 0)"
    words = "n counts pairs of item and label with gold"
    assert f"  {DEBIASED}, threshold -3, chosen on half a: {values}; {words}\n" in printed
