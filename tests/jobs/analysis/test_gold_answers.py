"""The right answers in a file, and their ranks, by hand."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs.analysis.gold_answers import GoldAnswers, GoldColumns, ranks_of, read_gold
from jobs.errors import InputError
from tests.factories import TableInMemory


def test_ranks_ascend_whatever_the_order_of_the_rows() -> None:
    rows = [("q", 3, "a"), ("q", 1, "b"), ("none", 1, "x"), ("q", 2, "x"), ("other", 1, "a"), ("q", 4, "c")]
    links = [
        {"image_id": query, "rank": rank, "node_id": node, "method": "lemma", "score": 0.0}
        for query, rank, node in rows
    ]
    source: Any = TableInMemory("links", links)
    source.name = "links"
    right = {"q": {"a", "b", "c"}, "none": {"y"}, "unlisted": {"a"}}
    assert ranks_of(source, right) == {"q": [1, 3, 4], "none": []}


def test_answers_of_a_query_are_put_together_with_its_group(tmp_path: Path) -> None:
    file = tmp_path / "gold.csv"
    file.write_text("q,a,g\nq1,x,A\nq2,y,\nq1,z,A\nq2,x,\nq1,x,A\n")
    right = {"q1": {"x", "z"}, "q2": {"x", "y"}}
    assert read_gold(str(file), GoldColumns("q", "a"), "g") == GoldAnswers(right, {"q1": "A", "q2": ""})
    assert read_gold(str(file), GoldColumns("q", "a"), None) == GoldAnswers(right, {})


def test_gold_that_is_not_clear_is_refused_with_its_place(tmp_path: Path) -> None:
    columns = GoldColumns("q", "a")
    file = tmp_path / "gold.csv"
    for text, message in (
        ("q,a\n", "the file has no rows"),
        ('q,a\nq1,"two\nlines"\n\nq2,\n', "line 5: a is empty"),
        ("q,a\nq1,x\n,y\n", "line 3: q is empty"),
        ("q,a,g\nq1,x,\nq1,y,B\n", "q1 is in two groups of g: '' and 'B'"),
    ):
        file.write_text(text)
        with pytest.raises(InputError, match=message):
            read_gold(str(file), columns, "g" if ",g" in text else None)
    table = tmp_path / "gold.parquet"
    for queries, answers, message in (
        (["q1", "q2"], ["x", None], "row 2: a is empty"),
        (["q1", None, "q2"], ["x", "y", None], "row 2: q is empty"),
    ):
        pq.write_table(pa.table({"q": queries, "a": answers}), table)
        with pytest.raises(InputError, match=message):
            read_gold(str(table), columns, None)
