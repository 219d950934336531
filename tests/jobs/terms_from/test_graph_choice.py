"""The order of a dump, the rows of a limit, and the printed rule about dates."""

from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs.errors import InputError
from jobs.runtime.configuration.config import load
from jobs.store.files.objects import Object
from jobs.store.units import Unit
from jobs.terms_from import graph_choice
from jobs.terms_from.dump import SPAN
from jobs.terms_from.graph_passes import GraphInput
from jobs.terms_from.graph_terms import Choice
from jobs.terms_from.terms_config import PeriodConfig, TermSourcesConfig


def config(*keys: str) -> TermSourcesConfig:
    return load("terms", TermSourcesConfig, ["out=O", "source=wikidata", "entities=E", *keys])


def rule(*keys: str) -> str:
    nothing = np.zeros(0, np.int64)
    periods = Counter({"outside": 1234, "inside": 2})
    choice = Choice(nothing, nothing.astype(np.int16), nothing.astype(bool), nothing.astype(bool), periods)
    return graph_choice.rule(config("period.first=1901", "period.last=1950", *keys), choice)


def test_the_rule_says_which_entities_are_taken() -> None:
    counts = "period 1901 to 1950: 2 inside, 0 undated, 1,234 outside"
    assert rule() == f"{counts}; all are taken, because entities_per_concept= sets no limit"
    assert rule("dates=ignore") == f"{counts}; all are taken, because entities_per_concept= sets no limit"
    assert rule("dates=require") == f"{counts}; dates=require takes only those inside"
    assert rule("dates=require", "entities_per_concept=1500") == (
        f"{counts}; dates=require takes only those inside, 1,500 per concept"
    )
    most = f"{counts}; at most 1,500 of each concept are taken,"
    assert rule("entities_per_concept=1500") == (
        f"{most} in this order (inside, undated, outside), then those with more articles first"
    )
    assert rule("entities_per_concept=1500", "dates=ignore") == (
        f"{most} whatever their dates, those with more articles first"
    )


class Entities:
    """A table of entities with units of some parts of a dump's files: (file, first byte, rows)."""

    def __init__(self, *parts: tuple[str, int, int], first: int | None = None, metadata: Any = None) -> None:
        units = [
            Unit(f"u{n}", (Object(uri, 1, ""),), rows=rows, extra={SPAN: [start, 99]})
            for n, (uri, start, rows) in enumerate(parts)
        ]
        self.footers = [type("Footer", (), {"unit": unit})() for unit in units]
        self._units, self.uri, self.metadata = units[:first], "E", metadata

    def units(self) -> list[Unit]:
        return self._units


def places(*parts: tuple[str, int, int], first: int | None = None) -> list[int]:
    source: Any = Entities(*parts, first=first)
    numbers: list[int] = graph_choice._places(source).tolist()
    return numbers


def test_a_period_is_two_centuries_by_default_and_may_be_one_year() -> None:
    assert config().period == PeriodConfig(1901, 2100)
    config("period.first=1945", "period.last=1945").check()
    with pytest.raises(InputError, match=r"period\.first=1946: must not be after period\.last=1945"):
        config("period.first=1946", "period.last=1945").check()


def test_places_follow_the_files_and_their_bytes() -> None:
    assert places(("b", 0, 1), ("a", 900, 2), ("a", 1000, 1), ("a", 90, 2)) == [3, 1, 1, 2, 0, 0]
    assert places(("a", 5, 0), ("a", 4, 2)) == [0, 0]
    assert places(("b", 0, 1), ("a", 0, 2), ("a", 9, 4), first=2) == [1, 0, 0], "of the units of a limit"
    assert places() == []


def test_a_limit_ends_within_or_between_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graph_choice, "ROWS_AT_A_TIME", 4)
    pq.write_table(pa.table({"n": range(10)}), tmp_path / "f.parquet", row_group_size=3)

    def batches(limit: int | None) -> list[list[int]]:
        return [[row["n"] for row in rows] for rows in graph_choice._batches(str(tmp_path / "f.parquet"), limit)]

    whole = [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert batches(None) == batches(10) == batches(99) == whole
    assert batches(4) == whole[:1]
    assert batches(5) == [whole[0], [4]]
    assert batches(8) == whole[:2]
    assert batches(1) == [[0]]
    assert batches(0) == []


def test_entities_of_other_concepts_or_another_graph_are_refused() -> None:
    graph = GraphInput.of(config())
    hashes = {f"remine.{key}": value for key, value in graph.hashes.items()}
    same: Any = Entities(metadata=hashes)
    graph_choice._check_same(same, graph)
    for key in ("concepts", "graph"):
        for changed in ({**hashes, f"remine.{key}": "x"}, {k: v for k, v in hashes.items() if not k.endswith(key)}):
            other: Any = Entities(metadata=changed)
            with pytest.raises(InputError, match=f"^{key}=.*: E was collected with other {key}"):
                graph_choice._check_same(other, graph)


def test_entities_are_those_of_the_run_unless_others_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """They must have been collected with the same concepts."""
    opened: list[str] = []

    def open_table(uri: str, *_: str) -> Entities:
        opened.append(uri)
        return Entities(metadata={"remine.concepts": "other"})

    monkeypatch.setattr(graph_choice, "open_table", open_table)
    graph: Any = SimpleNamespace(
        hashes={"concepts": "abc"}, concepts=SimpleNamespace(name="list"), graph=SimpleNamespace(name="wikidata")
    )
    for keys in ([], ["entities=null", "source.path=dump"]):
        with pytest.raises(InputError, match="concepts=list: E was collected with other concepts"):
            graph_choice.write_terms(config(*keys), graph)
    assert opened == ["E", "O/entities"]
