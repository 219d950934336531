"""The requests to S3 that a plan announces are those that a unit makes, counted in front of a real server."""

import random
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs.corpora.knowledge_base import ROW_SPAN, KnowledgeBaseConfig, NodeColumns, entries, node_units
from jobs.runtime.planning.estimates import GETS_PER_FOOTER, GETS_PER_INPUT, PUTS_PER_UNIT
from jobs.store.files import locations, read_ahead
from jobs.store.files.objects import Object
from jobs.store.footers import read_footers
from jobs.store.object_rows import read_unit
from jobs.store.reading import open_table
from jobs.store.units import Unit
from jobs.terms_from import dump
from jobs.terms_from.dump import TermsSource
from tests.forwarding import counted_s3
from tests.jobs.store.small_runs import begin, plan, write
from tests.wikidata import compress, item
from tests.wikidata import dump as text_of


@pytest.fixture(scope="module")
def out(s3: str) -> str:
    return f"{s3}/requests/table"


def test_a_unit_is_written_with_one_put_and_read_with_few_gets(out: str) -> None:
    with counted_s3() as front:
        counts = front.requests
        run = begin(plan(out))
        counts.clear()
        for task in run.todo:
            write(run, task)
        units = len(run.todo)
        assert counts["PUT"] == units * PUTS_PER_UNIT
        assert counts["GET"] + counts["HEAD"] + counts["POST"] == 0
        run.finish()

        objects = [Object(f.uri, f.size, f.etag) for f in locations.find(f"{out}/*.parquet")]
        counts.clear()
        assert all(read_footers(objects, remote=True))
        assert counts["GET"] + counts["HEAD"] == units * GETS_PER_FOOTER
        source = open_table(out)
        counts.clear()
        listed = [one._replace(size=one.size + more) for one, more in zip(objects, (1, -1, 10**6), strict=True)]
        footers = list(read_footers(listed, remote=True))
        assert [footer.rows for footer in footers if footer] == [footer.rows for footer in source.footers]  # by asking
        assert list(read_footers([Object(f"{out}/absent.parquet", 500, "")], remote=True)) == [None]
        counts.clear()
        for footer in source.footers:
            assert read_unit(footer.object.uri).num_rows
        assert units < counts["GET"] + counts["HEAD"] <= units * GETS_PER_INPUT


def put(uri: str, data: bytes) -> Object:
    fs, path = locations.filesystem(uri)
    with fs.open_output_stream(path) as stream:
        stream.write(data)
    (file,) = locations.find(uri)
    return file


def gets(requests: Counter[str]) -> int:
    return requests["GET"] + requests["HEAD"]


@pytest.mark.parametrize("name", ["dump.json", "dump.json.gz", "dump.json.bz2"])
def test_a_dump_is_read_with_the_requests_that_a_plan_announces(
    out: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_ahead, "BLOCK", 512 << 10)  # as in files of 16 times their size
    draw = random.Random(0)
    entities = [item(number, draw.randbytes(1500).hex(), P31=["Q5"]) for number in range(2_000)]
    uri = f"{out}-{name}/{name}"
    size = put(uri, compress(text_of(entities), name, parts=4)).size
    units = dump.units(TermsSource("wikidata", uri, unit_mb=2))
    assert len(units) > 1
    assert sum(unit.bytes for unit in units) == size
    with counted_s3() as front:
        lines = sum(1 for unit in units for _ in dump.lines(unit))
        counted = gets(front.requests)
    expected = len(units) * GETS_PER_INPUT + size / read_ahead.BLOCK
    assert lines >= len(entities)
    assert expected / 2 < counted <= 2 * expected  # a unit of gzip begins and ends with some short reads


def test_a_unit_of_a_knowledge_base_is_read_with_few_requests(out: str) -> None:
    rows = [{"node": f"n{number}", "lemmas": f"name {number}"} for number in range(400)]
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows), sink, row_group_size=100)
    file = put(f"{out}-kb/kb.parquet", sink.getvalue().to_pybytes())
    config = KnowledgeBaseConfig(name="k", path=file.uri, columns=NodeColumns(lemmas="lemmas"))
    units: list[Unit] = list(node_units([file], node="node", unit_rows=100))
    with counted_s3() as front:
        for unit in units:
            assert len(list(entries(file.uri, config, span=tuple(unit.extra[ROW_SPAN])))) == unit.rows
        assert len(units) < gets(front.requests) <= len(units) * GETS_PER_INPUT
