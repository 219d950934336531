"""The plans of jobs that write several tables one after the other, next to what a run of them does."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs.runtime.command_line import cli
from jobs.runtime.configuration.resources import Resources
from jobs.runtime.planning import prospects
from jobs.runtime.planning.estimates import GETS_PER_INPUT, Cluster, Forecast, Pace, Requests, Spread
from jobs.runtime.planning.rate_tables import expected_gpu, read_prices
from jobs.runtime.planning.spending import Spending
from jobs.store.files.objects import Object
from jobs.store.runs.run_units import Amounts
from jobs.store.runs.table_run import TableRun
from jobs.store.units import Unit
from jobs.workers.kb import PARTS
from tests.factories import write_table
from tests.jobs.store import small_runs
from tests.wikidata import CLASSES, THEMES, compress, dump, item

NODES, UNIT_ROWS = 6_000, 2_000  # units large enough that the driver hands them out faster than they are done
PRICES = "resources.prices=aws-us-east-1"


@pytest.fixture
def wordnet(tmp_path: Path) -> list[str]:
    """The keys of `kb` for a knowledge base like WordNet."""
    rows = [{"synset_id": f"n{n:03}", "all_lemmas": [f"name {n}", "b"], "definition": f"g {n}"} for n in range(NODES)]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "wordnet.parquet")
    return [
        "knowledge_base=wordnet",
        f"knowledge_base.path={tmp_path}/wordnet.parquet",
        f"unit_rows={UNIT_ROWS}",
        f"out={tmp_path}/kb",
        PRICES,
    ]


@pytest.fixture
def wikidata(tmp_path: Path) -> list[str]:
    """The keys of `terms` for a dump."""
    entities = [*CLASSES, *(item(n, f"Battle {n}", P31=["Q178561"]) for n in range(1000, 1040))]
    (tmp_path / "dump.json.bz2").write_bytes(compress(dump(entities), "dump.json.bz2", parts=2))
    (tmp_path / "concepts.yaml").write_text(json.dumps({"name": "c", "source": "me", "themes": THEMES}))
    return [
        "source=wikidata",
        f"source.path={tmp_path}/dump.json.bz2",
        f"concepts={tmp_path}/concepts.yaml",
        f"out={tmp_path}/graph",
        PRICES,
    ]


def manifest(folder: Path) -> dict[str, Any]:
    kept: dict[str, Any] = json.loads((folder / "_run/manifest.json").read_text())
    return kept


def plan(capsys: pytest.CaptureFixture[str], job: str, keys: list[str]) -> list[str]:
    assert cli.main(job, [*keys, "plan=true"]) == 0
    return capsys.readouterr().out.splitlines()


@pytest.mark.usefixtures("in_process")
def test_a_plan_of_a_knowledge_base_has_the_counts_of_its_run(
    wordnet: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = plan(capsys, "kb", wordnet)
    assert not (tmp_path / "kb").exists()
    size = (tmp_path / "wordnet.parquet").stat().st_size
    assert lines.count(f"  reads  3 units, {NODES:,} rows, {size / 1e6:,.1f} MB") == len(PARTS)
    paces = [line for line in lines if line.startswith("  pace   ")]
    assert len(set(paces)) == len(paces) == len(PARTS)  # a rate for each part
    assert all("python -m tests.benchmarks kb default" in line for line in paces)
    sums = lines[lines.index(f"kb: these {len(PARTS)} tables") :]
    assert [line.split()[0] for line in sums[1:]] == ["time", "CPUs", "money"]
    assert cli.main("kb", wordnet) == 0
    for part in PARTS:
        kept = manifest(tmp_path / "kb" / part)
        estimate, actual = kept["estimate"], kept["actual"]
        assert (estimate["left"], estimate["counted"]) == (NODES, "rows") == (actual["done"], actual["counted"])
        assert estimate["seconds"]["low"] < estimate["seconds"]["value"] < estimate["seconds"]["high"]
        assert actual["seconds"] > 0
    capsys.readouterr()
    assert plan(capsys, "kb", wordnet).count("  done   3 of 3 units") == len(PARTS)


@pytest.mark.usefixtures("in_process")
def test_text_files_are_counted_in_bytes_and_a_killed_run_has_what_is_left(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.csv").write_text("node,lemmas\n" + "".join(f"{name}{n},x\n" for n in range(50)))
    keys = [f"knowledge_base.path={tmp_path}/*.csv", f"out={tmp_path}/kb"]
    assert cli.main("kb", keys) == 0
    sizes = {file.name: file.stat().st_size for file in tmp_path.glob("*.csv")}
    kept = manifest(tmp_path / "kb/windows")
    assert kept["estimate"]["left"] == kept["actual"]["done"] == sum(sizes.values())
    next(iter(sorted((tmp_path / "kb/windows").glob("*.parquet")))).unlink()
    capsys.readouterr()
    lines = plan(capsys, "kb", keys)
    assert lines.count("  done   1 of 2 units") == 1
    left = [int(line.split()[-2]) for line in lines if line.startswith("  time   0:01 h") and line.endswith(" bytes")]
    assert left in [[size] for size in sizes.values()]


@pytest.mark.usefixtures("in_process")
def test_a_plan_of_terms_has_both_passes_and_later_the_terms(
    wikidata: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    size = (tmp_path / "dump.json.bz2").stat().st_size
    lines = plan(capsys, "terms", wikidata)
    assert len([line for line in lines if line.startswith("  pace   ")]) == 2
    assert len([line for line in lines if line.endswith(f" for {size:,} bytes")]) == 2
    assert "terms: these 2 tables" in lines
    assert cli.main("terms", wikidata) == 0
    for part in ("class_edges", "entities"):
        kept = manifest(tmp_path / "graph" / part)
        assert kept["estimate"]["left"] == kept["actual"]["done"] == size
    entities = manifest(tmp_path / "graph/entities")["counts"]["rows_out"]
    kept = manifest(tmp_path / "graph/terms")
    assert kept["estimate"]["left"] == kept["actual"]["done"] == entities
    assert kept["actual"]["devices"] == 1.0  # the driver
    keys = [key for key in wikidata if not key.startswith(("source.path", "out="))]
    capsys.readouterr()
    lines = plan(capsys, "terms", [*keys, f"entities={tmp_path}/graph/entities", f"out={tmp_path}/again"])
    assert f"  reads  1 unit, {entities:,} rows" in "\n".join(lines)
    (money,) = (line for line in lines if line.startswith("  money  "))
    assert "per hour for 1 x m6i.xlarge, and requests (" in money  # the head
    assert [line for line in lines if line.startswith("  CPUs   ") and line.endswith(" CPU-hours on 1")]


def test_a_plan_of_listed_titles_has_the_responses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    columns = {"item_id": "i", "model": "m", "prompt": "p", "condition": "", "text": "", "status": "ok"}
    rows = [{"response_id": f"r{n}", "sample": n, **columns} for n in range(30)]
    write_table(tmp_path / "responses", "responses", rows)
    keys = ["source=language_model", f"responses=[{tmp_path}/responses]", f"out={tmp_path}/models"]
    lines = plan(capsys, "terms", keys)
    assert [line for line in lines if line.startswith("  time   ") and line.endswith(" for 30 rows")]
    assert cli.main("terms", keys) == 0
    kept = manifest(tmp_path / "models/terms")
    assert kept["estimate"]["left"] == kept["actual"]["done"] == 30


@pytest.mark.parametrize("key", ["resources.measured=mars", "resources.prices=mars", "plan=calibrate"])
def test_wrong_keys_of_a_plan_are_refused(
    wordnet: list[str], wikidata: list[str], tmp_path: Path, key: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for job, keys in (("kb", wordnet), ("terms", wikidata)):
        assert cli.main(job, [*keys, key]) == 2
        assert key.partition("=")[0] in capsys.readouterr().err
    assert cli.main("kb", [*wordnet, "unit_rows=0"]) == 2
    assert "unit_rows=0: must be at least 1" in capsys.readouterr().err
    assert not (tmp_path / "kb").exists()
    assert not (tmp_path / "graph").exists()


def test_without_a_measurement_the_sums_name_what_they_lack(
    wordnet: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = plan(capsys, "kb", [*wordnet, "resources.measured=null"])
    unknown = [line for line in lines if line.startswith(f"  time   unknown for {NODES:,} rows: ")]
    assert len(unknown) == len(PARTS)
    assert all(line.endswith("only a run shows it") for line in unknown)
    assert len([line for line in lines if line.startswith(f"  time   of {tmp_path}/kb/")]) == len(PARTS)


def test_only_a_run_of_all_that_was_left_has_its_estimate_in_the_manifest(tmp_path: Path) -> None:
    estimated = Forecast(30, "bytes", Pace(Spread(2.0, 1.0, 3.0), 0), Requests(), Cluster(0, cpus=4.0))

    def account(run: TableRun, expected: Forecast = estimated) -> dict[str, Any]:
        spending = Spending(expected.cluster, None)
        spending.lost_machines.append("10.0.0.7")
        return prospects._account(run, 3600.0, estimated=expected, spending=spending, devices=2.0)

    planned = small_runs.plan(str(tmp_path / "t"))
    whole = account(small_runs.begin(planned))
    assert whole["estimate"]["seconds"] == Spread(15.0, 10.0, 30.0).to_json()
    assert (whole["actual"]["done"], whole["actual"]["counted"], whole["actual"]["devices"]) == (30, "bytes", 2.0)
    assert whole["actual"]["lost_machines"] == ["10.0.0.7"]
    assert (whole["actual"]["cpu_hours"], whole["actual"]["gpu_hours"]) == (4.0, 0.0)
    assert account(small_runs.begin(planned), replace(estimated, pace=None))["estimate"] is None
    run = small_runs.begin(planned)
    run.try_some(2)
    some = account(run)
    assert (some["estimate"], some["actual"]["done"]) == (None, 20)  # the estimate was that of three units
    for task in run.todo:
        small_runs.write(run, task)
    run.account = lambda *_: some
    run.finish()
    assert account(small_runs.begin(planned))["actual"]["done"] == 10
    run = small_runs.begin(planned)
    for task in run.todo:
        small_runs.write(run, task)
    assert account(small_runs.begin(planned)) == some  # nothing to do: what the manifest says stays


def test_the_devices_of_a_run_are_those_that_its_remaining_units_keep_busy(tmp_path: Path) -> None:
    planned = small_runs.plan(str(tmp_path / "t"))
    run = small_runs.begin(planned)
    small_runs.write(run, next(iter(run.todo)))
    del run
    keys: Any = SimpleNamespace(resume=True, overwrite=False, retry=[])
    asked: list[dict[str, Any]] = []

    def pace(_: Any, **of_run: Any) -> tuple[None, str]:
        asked.append(of_run)
        return None, "it is a test"

    expectation: Any = SimpleNamespace(devices=float, pace=pace)
    opened = prospects.Prospect("t", keys, planned, [], expectation, Spending(Cluster(0), None)).open()
    assert (len(opened.units), len(opened.todo)) == (3, 2)
    assert opened.account is not None
    account = opened.account(opened, 5.0)
    assert account["actual"]["devices"] == 2.0
    for task in opened.todo:
        small_runs.write(opened, task)
    opened.account = lambda *_: account
    opened.finish()
    del opened
    prospects.Prospect("t", keys, planned, [], expectation, Spending(Cluster(0), None)).open()
    # The pace of the units that are done is that of the devices which did them.
    assert [of_run["last"] for of_run in asked] == [{}, account["actual"]]
    assert [of_run["files"] for of_run in asked] == [[f"/corpus/{small_runs.FILES[0]}"]] * 2


def test_a_plan_has_its_note_its_lines_and_what_is_left(tmp_path: Path) -> None:
    planned = small_runs.plan(str(tmp_path / "t"), config={"overwrite": True})
    run = small_runs.begin(planned)
    small_runs.write(run, next(iter(run.todo)))
    keys: Any = SimpleNamespace(only_plans=False)
    expectation: Any = SimpleNamespace(pace=lambda *_, **__: (None, "it is a test"))
    expected = prospects.Prospect("t", keys, planned, [], expectation, Spending(Cluster(0), None), get_bytes=7)
    first, reads, done, *others = expected.describe(note="a note", lines=["more"], overwrite=False).lines
    assert (first, reads[-8:], done) == (
        f"t: would write table node_images to {tmp_path}/t", "; a note", "  done   1 of 3 units"
    )  # fmt: skip
    assert others == ["  time   unknown for 20 bytes: it is a test", "  more"]
    assert "  done   0 of 3 units" in expected.describe().lines  # it would be deleted
    remote = Amounts([Unit("u", (Object("s3://b/a", 10, "e"),), rows=1)])
    assert expected.estimate(remote).requests == Requests(get=GETS_PER_INPUT + 2)  # of seven bytes


def test_the_kind_of_gpu_is_unknown_without_prices_and_without_gpus() -> None:
    machines = read_prices("aws-us-east-1")
    assert expected_gpu(Resources(), None, 1.0) is None
    assert expected_gpu(Resources(), machines, 0.0) is None
    assert expected_gpu(Resources(), machines, 1.0) is not None
