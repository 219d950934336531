"""Lines of a dump with their progress, and rows of entities, which are written some at a time, each once."""

import bz2
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
import yaml

from jobs.runtime.configuration.config_files import CONF
from jobs.store.counts import Counts
from jobs.store.writer import UnitTask
from jobs.terms_from import compressed_pieces, dump, entity
from jobs.terms_from.class_tree import REDIRECT, SUBCLASS, TITLE
from jobs.terms_from.dump import SPAN, TermsSource
from jobs.workers import wikidata
from tests.wikidata import dump as dump_of
from tests.wikidata import item


class Writer:
    """Stands for a unit's writer; keeps the ids of each table."""

    def __init__(self) -> None:
        self.written: list[list[str]] = []

    def write(self, rows: pa.Table) -> None:
        self.written.append(rows["entity_id"].to_pylist())


class Report:
    """Keeps the numbers of rows that were reported."""

    def __init__(self) -> None:
        self.matched: list[int] = []

    def add(self, steps: int, *, matched: int) -> None:
        assert steps == 0
        self.matched.append(matched)


def test_rows_are_written_when_there_are_enough_and_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wikidata, "ROWS_AT_A_TIME", 2)
    writer, report = Writer(), Report()
    arguments: Any = (writer, "entities", report)
    rows = wikidata._BatchedRows(*arguments)
    assert [rows.add({"entity_id": name}) for name in ("a", "a", "b", "c", "c", "c")] == [
        True, False, True, True, False, False
    ]  # fmt: skip
    assert writer.written == [["a", "b"]]
    rows.flush()
    rows.flush()
    assert (writer.written, report.matched) == ([["a", "b"], ["c"]], [2, 1])
    assert rows.add({"entity_id": "a"})  # only rows that are not written yet are compared


class LinesRead:
    """Reads the lines of a unit, and keeps their texts, the rejects and the progress."""

    def __init__(self, path: Path, *, step: int, span: tuple[int, int] | None = None, limit: int | None = None) -> None:
        (unit,) = dump.units(TermsSource("wikidata", str(path), unit_mb=1000))
        extra = {**unit.extra, **({SPAN: list(span)} if span else {}), **({"limit": limit} if limit else {})}
        self.texts: list[bytes] = []
        self.rejects: list[Any] = []
        self.progress: list[tuple[int, int]] = []
        self.counts = Counts()
        writer: Any = SimpleNamespace(counts=self.counts, reject=self.rejects.append)
        report: Any = SimpleNamespace(add=lambda steps, *, rows: self.progress.append((steps, rows)))
        wikidata.read_lines(replace(unit, extra=extra), writer, report, step, self._keep)

    def _keep(self, text: bytes) -> None:
        self.texts.append(text)
        if text == b'"text"':
            raise entity.NotAnEntityError("no object")
        if not text.endswith(b"}"):
            raise ValueError("cut")


def test_progress_is_in_steps_of_the_bytes_of_the_unit(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b"[\n" + b",\n".join(b'{"n": %04d}' % n for n in range(100)) + b"\n]\n")  # 13 bytes a line
    size = path.stat().st_size
    for step, span in ((100, (0, size)), (1, (0, size)), (10**6, (0, size)), (100, (650, size)), (100, (0, 650))):
        read = LinesRead(path, step=step, span=span)
        lines = read.counts.tallies["dump"]["lines"]
        assert len(read.texts) == lines == sum(rows for _, rows in read.progress)
        assert sum(steps for steps, _ in read.progress) == (span[1] - span[0]) // step
        assert all(steps >= 1 for steps, _ in read.progress[:-1])
        assert read.rejects == []
    parts = [LinesRead(path, step=9, span=span) for span in ((0, 300), (300, 900), (900, size))]
    assert [text for part in parts for text in part.texts] == [b'{"n": %04d}' % n for n in range(100)]


def test_progress_is_reported_while_a_unit_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.json.bz2"
    lines = [b'{"n": %04d}\n' % n for n in range(60)]
    streams = [bz2.compress(b"".join(lines[first : first + 10])) for first in range(0, 60, 10)]
    path.write_bytes(b"".join(streams))
    step = len(streams[0]) * 3 // 4
    read = LinesRead(path, step=step)
    assert len(read.progress) > 3
    assert sum(rows for _, rows in read.progress) == 60
    assert sum(steps for steps, _ in read.progress) == path.stat().st_size // step
    assert max(rows for _, rows in read.progress) <= 20


def test_a_limit_counts_lines_of_entities(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b'[\n{"n": 1},\n\n"text",\n{"n": 2},\n{"n": 3}\n]\n')
    for limit, texts in ((1, 1), (2, 2), (3, 3), (9, 4)):
        read = LinesRead(path, step=1, limit=limit)
        assert len(read.texts) == read.counts.tallies["dump"]["lines"] == texts
        assert sum(steps for steps, _ in read.progress) == path.stat().st_size


def test_lines_that_are_not_an_entity_are_rejected_with_their_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dump, "LONGEST_LINE", 50)
    monkeypatch.setattr(compressed_pieces, "READ", 32)
    path = tmp_path / "a.json"
    path.write_bytes(b'{"n": 1}\n"text"\n{"cut\n' + b'{"n": "' + b"x" * 100 + b'"}\n{"n": 2}\n')
    read = LinesRead(path, step=10)
    assert [(reject.reason, reject.raw[:6]) for reject in read.rejects] == [
        (entity.NOT_AN_ENTITY, '"text"'), ("malformed", '{"cut'), ("too_long", '{"n": ')
    ]  # fmt: skip
    assert {reject.file for reject in read.rejects} == {str(path)}
    assert [reject.message for reject in read.rejects] == ["no object", "not JSON: cut", "longer than 50 bytes"]
    assert read.counts.tallies == {"dump": {"lines": 4}}
    damaged = tmp_path / "b.json.bz2"
    damaged.write_bytes(bz2.compress(b'{"n": 1}\n') + bz2.compress(b'{"n": 2}\n')[:-8])
    (reject,) = LinesRead(damaged, step=10).rejects
    assert (reject.reason, reject.position) == ("truncated", len(bz2.compress(b'{"n": 1}\n')) + len(b"BZh9"))


@pytest.fixture
def classes() -> wikidata.ClassUnit:
    graph = yaml.safe_load((CONF / "graph" / "wikidata.yaml").read_text(encoding="utf-8"))
    return wikidata.ClassUnit(graph=graph, titles=frozenset({"War"}), step=10)


def test_entities_are_parsed_if_they_may_have_a_wanted_title(classes: wikidata.ClassUnit) -> None:
    def link(title: str, site: str = "enwiki") -> str:
        return f'"sitelinks": {{"{site}": {{"site": "{site}", "title": "{title}"}}}}'

    expected = {
        link("War"): True, link("W\\u0061r"): True, link("Peace"): False, link("War", "dewiki"): False,
        '"sitelinks": {"enwiki": {"badges": [{}], "title": "Peace"}}': True, '"enwiki"': True, "{}": False,
    }  # fmt: skip
    assert {text: classes._has_title(text.encode()) for text in expected} == expected
    classes._titles = frozenset()
    assert not any(classes._has_title(text.encode()) for text in expected)


def test_every_row_and_reject_of_a_unit_of_classes_is_counted(classes: wikidata.ClassUnit, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    items = [item(3, title="War"), item(4, title="Peace"), item(5, P279=["Q6"])]
    redirect = {"entity": "Q1", "redirect": "Q2"}
    path.write_bytes(dump_of([redirect, b'"redirect"', b'{"redirect"', *items]))
    (unit,) = dump.units(TermsSource("wikidata", str(path), unit_mb=1000))
    counts, rows = Counts(), list[dict[str, Any]]()

    def write(table: pa.Table) -> None:
        rows.extend(table.to_pylist())
        counts.rows_out += table.num_rows

    def reject(of_line: Any) -> None:
        counts.rejected[of_line.reason] += 1

    writer: Any = SimpleNamespace(counts=counts, write=write, reject=reject)
    report: Any = SimpleNamespace(add=lambda *_, **__: None)
    classes(UnitTask(unit), writer, report)
    assert [tuple(row.values()) for row in rows] == [
        ("Q1", REDIRECT, "Q2"), ("Q3", TITLE, "War"), ("Q5", SUBCLASS, "Q6")
    ]  # fmt: skip
    assert counts.rejected == {entity.NOT_AN_ENTITY: 1, "malformed": 1}
    assert counts.rows_in == 5
