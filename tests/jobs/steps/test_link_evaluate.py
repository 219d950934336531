"""Evaluation of ranked lists: metrics counted by hand, groups, coverage, and gold files that are refused."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs.analysis.gold_answers import GoldAnswers
from jobs.runtime.command_line import cli
from jobs.steps import link_evaluate
from jobs.store.reading import open_table
from tests.factories import TableInMemory, write_table


def listed(image: str, rank: int, node: str) -> dict[str, Any]:
    return {"image_id": image, "method": "lemma", "rank": rank, "node_id": node, "lemma": node, "score": 1 / rank}


@pytest.fixture
def ranked(tmp_path: Path) -> str:
    """q1: b, c, a. q2: c, b, a."""
    lists = {"q1": "bca", "q2": "cba"}
    rows = [listed(image, rank, node) for image, nodes in lists.items() for rank, node in enumerate(nodes, 1)]
    return write_table(f"{tmp_path}/links", "links", rows)


def rows_of(uri: str) -> list[dict[str, Any]]:
    return [row for batch in open_table(uri, "metrics").batches() for row in batch.to_pylist()]


def run_evaluate(ranked: str, gold: Path, *keys: str) -> int:
    return cli.main("link evaluate", [f"ranked={ranked}", f"gold={gold}", f"out={gold.parent}/metrics", *keys])


def test_accuracy_recall_and_mrr_by_group(ranked: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gold = tmp_path / "gold.csv"
    gold.write_text("image_id,node_id,kind\nq1,c,food\nq2,a,food\nq2,z,food\nnobody,a,none\n")
    assert run_evaluate(ranked, gold, "group_by=kind", "k=[1,2]") == 0
    rows = {(row["metric"], row["dims"]): row for row in rows_of(f"{tmp_path}/metrics")}
    # q1: c has rank 2; q2: a has rank 3 and z is not listed
    assert rows["accuracy@1", "{}"]["value"] == 0
    assert rows["accuracy@2", "{}"]["value"] == 0.5
    assert rows["mrr", "{}"]["value"] == pytest.approx((1 / 2 + 1 / 3) / 2)
    assert rows["mrr", "{}"]["coverage"] == pytest.approx(2 / 3)
    assert rows["right_answers", "{}"]["n"] == 3
    assert rows["recall@2", "{}"]["value"] == 0.5
    assert (rows["mrr", '{"kind":"food"}']["n"], rows["mrr", '{"kind":"food"}']["coverage"]) == (2, 1.0)
    assert rows["mrr", '{"kind":"none"}']["value"] is None
    assert rows["mrr", '{"kind":"none"}']["coverage"] == 0
    assert "2 of 3 queries" in capsys.readouterr().out


def test_queries_without_a_list_may_count_as_wrong(ranked: str, tmp_path: Path) -> None:
    gold = tmp_path / "gold.csv"
    gold.write_text("image_id,node_id\nq1,b\nq2,c\nq3,a\nq4,a\n")
    nothing = write_table(f"{tmp_path}/nothing", "links", [])
    for table, value in ((ranked, 0.5), (nothing, 0.0)):
        assert run_evaluate(table, gold, "k=[1]", "unlisted=wrong") == 0
        (accuracy,) = [row for row in rows_of(f"{tmp_path}/metrics") if row["metric"] == "accuracy@1"]
        assert (accuracy["value"], accuracy["n"], accuracy["coverage"]) == (value, 4, 1.0)


def test_gold_in_another_encoding_and_with_another_delimiter(ranked: str, tmp_path: Path) -> None:
    gold = tmp_path / "gold.csv"
    gold.write_bytes("image_id;node_id;köl\nq1;b;ä\nq2;b;ö\n".encode("cp1252"))
    assert run_evaluate(ranked, gold, "k=[1]", "group_by=köl") == 2  # not UTF-8
    assert run_evaluate(ranked, gold, "k=[1]", "group_by=köl", "encoding=cp1252") == 0
    rows = {(row["metric"], row["dims"]): row["value"] for row in rows_of(f"{tmp_path}/metrics")}
    assert rows["mrr", "{}"] == 0.75
    assert rows["mrr", '{"köl":"ä"}'] == 1


def test_ids_of_another_kind_are_reported(ranked: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gold = tmp_path / "gold.csv"
    gold.write_text("image_id,node_id\nq1,bn:a\nq2,bn:b\n")
    assert run_evaluate(ranked, gold) == 0
    out = capsys.readouterr().out
    assert "'b'" in out
    assert "'bn:a'" in out
    gold.write_text("image_id,node_id\nq1,bn:a\nq2, b \n")
    assert run_evaluate(ranked, gold) == 0
    assert "no list contains" not in capsys.readouterr().out


def test_what_is_refused(ranked: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gold = tmp_path / "gold.csv"
    cases = [
        ("q1\nq2,b,x\n", [], "gold.csv"),
        ("q1,,x\nq2,b,x\n", [], "line 2: node_id is empty"),
        ("q1,a,x\n ,b,x\n", [], "line 3: image_id is empty"),
        ('q1,a,"x\ny"\n\nq2,,x\n', [], "line 5: node_id is empty"),
        ('q1,"a,x\n', [], "gold.csv"),
        ("q1,a,x\nq1,b\n", [], "gold.csv"),
        ("q1,a,x\nq1,b,y\n", [], "q1 is in two groups of kind: 'x' and 'y'"),
        ("q9,a,x\n", [], "none of its 1 queries"),
        ("", [], "no rows"),
        ("q1,a,x\n", ["group_by=colour"], "colour"),
        ("q1,a,x\n", ["k=[1,1]"], "k=[1,1]"),
        ("q1,a,x\n", ["k=[0,5]"], "k=[0,5]"),
        ("q1,a,x\n", ["k=[]"], "k=[]"),
        ("q1,a,x\n", ["unlisted=right"], "unlisted=right: must be one of left_out, wrong"),
    ]
    missed = []
    for rows, keys, message in cases:
        gold.write_text("image_id,node_id,kind\n" + rows)
        code = run_evaluate(ranked, gold, *(keys or ["group_by=kind"]))
        if code != 2 or message not in (text := capsys.readouterr().err):
            missed.append((rows, keys, code, message, text))
    assert not missed


def test_an_empty_cell_of_parquet_is_reported_by_row(
    ranked: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gold = tmp_path / "gold.parquet"
    pq.write_table(pa.table({"image_id": ["q1", "q2"], "node_id": ["a", None]}), gold)
    assert run_evaluate(ranked, gold) == 2
    assert "row 2: node_id is empty" in capsys.readouterr().err


def test_excluded_queries_are_not_asked_about(ranked: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gold = tmp_path / "gold.csv"
    gold.write_text("image_id,node_id,kind\nq1,b,food\nq2,a,food\nq3,a,none\n")
    (tmp_path / "list.txt").write_text("q2\nq9\n")
    assert run_evaluate(ranked, gold, "k=[1]", "group_by=kind", f"exclusions={tmp_path}/list.txt") == 0
    printed = capsys.readouterr().out
    assert "link evaluate: 1 of 2 queries of " in printed
    assert "1 of 2 entries match no picture here, for example q9" in printed
    rows = {(row["metric"], row["dims"]): row for row in rows_of(f"{tmp_path}/metrics")}
    for dims, coverage in (("{}", 0.5), ('{"kind":"food"}', 1.0)):
        row = rows["accuracy@1", dims]
        assert (row["value"], row["n"], row["coverage"]) == (1.0, 1, coverage)
    (tmp_path / "list.txt").write_text("q1\nq2\nq3\n")
    assert run_evaluate(ranked, gold, "k=[1]", f"exclusions={tmp_path}/list.txt") == 2
    assert "/list.txt: all queries of gold=" in capsys.readouterr().err


def test_ranked_lists_are_evaluated_over_all_and_by_group() -> None:
    """Recall is given only where a query has several right answers; queries without a list lower the coverage."""
    right = {"a": {"x", "y"}, "b": {"z"}, "c": {"w"}, "d": {"v"}}
    gold = GoldAnswers(right, {"a": "g", "b": "g", "c": "h", "d": "h"})
    ranks = {"c": [2], "a": [1, 3], "b": list[int]()}
    metrics = list(link_evaluate.ranking_metrics(ranks, gold, [1, 2], group_by="kind"))
    groups = list(dict.fromkeys(metric.dims.get("kind", "all") for metric in metrics))
    assert groups == ["all", "g", "h"]
    values = {
        (metric.name, metric.dims.get("k", ""), metric.dims.get("kind", "all")): (
            metric.value,
            metric.n,
            metric.coverage,
        )
        for metric in metrics
    }
    first = {
        group: [values[name] for name in values if name[0].startswith("accuracy") and name[2] == group]
        for group in groups
    }
    assert first == {
        "all": [(1 / 3, 3, 0.75), (2 / 3, 3, 0.75)],
        "g": [(0.5, 2, 1), (0.5, 2, 1)],
        "h": [(0, 1, 0.5), (1, 1, 0.5)],
    }
    assert {name[2] for name in values if name[0].startswith("recall")} == {"all", "g"}
    (reciprocal,) = (values[name] for name in values if name[0] == "mrr" and name[2] == "all")
    assert reciprocal == ((1 + 0 + 0.5) / 3, 3, 0.75)


def test_intervals_do_not_depend_on_the_order_of_the_lists() -> None:
    ranks = {f"q{number:02}": [number * number % 7 + 1] for number in range(40)}
    gold = GoldAnswers({query: {"x"} for query in ranks}, {})
    orders = (ranks, dict(reversed(ranks.items())))
    first, second = (list(link_evaluate.ranking_metrics(order, gold, [1], group_by=None)) for order in orders)
    assert first == second
    assert any(metric.low is not None for metric in first)


def test_ids_of_lists_and_of_gold_are_shown_side_by_side() -> None:
    links: Any = TableInMemory("links", [{"image_id": "i", "rank": 1, "node_id": "n1", "method": "m", "score": 0.0}])
    links.name = "links"
    assert link_evaluate._line_of_ids(links, "gold.csv", GoldAnswers({"i": {"Q5"}}, {}), "i") == (
        "  no list contains a right answer: node_id has ids like 'n1', gold.csv like 'Q5'; use one kind"
    )
