"""A whole study at a fraction of WIT's size on a local cluster, and what it says about the full size.

    python -m tests.rehearsal --scale 1000

Generates 1/SCALE of WIT's 37.8 M rows and of DataComp's 1.28 G vectors, and takes them through mine, curate, fetch,
embed, retrieve, judge and report: on a head and two workers (`ray.cluster_utils`), with tables on a local S3 server.
While `judge` runs, a worker is killed and another joins. All of it runs three times: with a few rows, which fills the
caches and is not counted, with a quarter of the rows, and with all. The difference of the last two is what a row costs,
without the start of processes and what an idle cluster takes. Prints a table with the full size (docs/cluster.md): by
the committed rates of `conf/measured` where there is one, since the models of the rehearsal are tiny, else by this
difference. Ends with 1 if a table lacks rows, or if `judge` did not name the loss.
"""

import argparse
import json
import re
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import yaml

from actors.rubrics.rubric import Rubric
from jobs.runtime.configuration.config_files import CONF
from jobs.runtime.planning.rate_tables import Prices, read_gpus, read_measurements, read_prices
from jobs.store.files import locations
from jobs.store.runs.table_run import open_run
from jobs.store.table_plan import TablePlan
from jobs.store.units import Unit
from jobs.store.writer import UnitWriter
from jobs.testbed.little_world.corpus import row_counts, write_world
from jobs.testbed.loopback_s3 import LoopbackS3, temporary_environment
from jobs.testbed.synthetic import CorpusFacts
from tests.jobs.runtime.cluster.ray_clusters import ROOT, RunningCluster, environment, running_cluster

WIT_ROWS, PICTURES, VECTORS = 37_800_000, 11_500_000, 1_280_000_000  # of the full corpora
FULL = {"mine": WIT_ROWS, "retrieve": VECTORS}  # rows of the other stages: PICTURES
DIM, QUERIES, NEAREST, UNIT_ROWS = 768, 200, 8, 16_000
# What conf/measured counts of the full corpora: compressed bytes, multiplications. Its other measurements count rows.
FULL_WORK = {"mine": 25_000_000_000, "retrieve": QUERIES * VECTORS * DIM}
ON_GPUS = ("embed", "judge")
ROWS_PER_PICTURE, LEAST_PICTURES = 10, 40
WARMING = 64  # 1/64 of the rows, before those that count
PARTS = (WARMING, 4, 1)
IN_THE_DRIVER = ("curate", "report")  # which take seconds: the shortest of several runs counts
REPEATS = 3
IDLE_S = 10.0
BUCKET = "remine-rehearsal"
SAMPLE_S = 0.5
WIDTHS = (10, 8, 8, 15, 9, 9)  # of the table's columns
PRICES, GPU = "aws-us-east-1", "L40S"
LOSS = "tests.jobs.runtime.cluster.lost_nodes:replace_node"
LOST_AT = "judge"
EACH_ON_A_NODE = ["resources.judge.actors=2", "resources.judge.num_cpus=1.2"]  # of two CPUs


@dataclass(frozen=True)
class Step:
    """A job that ran.

    Attributes:
        rows: rows that its work grows with.
        cpu_s: CPU seconds of all processes.
        counts: of its manifest.
        lost: the machines that it named as lost.
    """

    job: str
    rows: int
    cpu_s: float
    counts: Mapping[str, Any]
    lost: tuple[str, ...] = ()


def commands(world: str, out: str) -> Iterator[tuple[str, str, list[str]]]:
    """Yield job, output and keys of each step."""
    rubric = ["rubric=century_labels", "layout=paper"]
    for job, name, keys in (
        ("mine", "matches", ["corpus=wit", f"corpus.path={world}/*.tsv.gz", f"terms.path={world}/terms.csv"]),
        ("curate", "records", [f"input={out}/matches", "page_rule.by=page_url", "page_rule.methods=null"]),
        ("fetch", "images", ["source=folder", f"source.path={world}/pictures", f"input={out}/records", "width=300"]),
        ("embed", "embeddings", ["embedder=demo-encoder", f"input={out}/images", "resources.embed.threads=1"]),
        ("retrieve", "near", [f"queries={world}/queries", "corpus=embeddings", f"corpus.path={world}/vectors",
                              f"k={NEAREST}"]),
        (LOST_AT, "ratings", ["model=demo-judge", f"input={out}/images", f"records={out}/records", *rubric,
                              "resources.judge.threads=1", *EACH_ON_A_NODE]),
        ("report", "report", [f"ratings=[{out}/ratings]"]),
    ):  # fmt: skip
        yield job, f"{out}/{name}", [*keys, f"out={out}/{name}"]


def write_vectors(out: str, rows: int, *, seed: int) -> None:
    """Write a table of random unit vectors, a unit of `UNIT_ROWS` at a time."""
    draw = np.random.default_rng(seed)
    starts = range(0, rows, UNIT_ROWS)
    units = [Unit(f"u{number:06}", (), rows=min(UNIT_ROWS, rows - start)) for number, start in enumerate(starts)]
    space = {"encoder": "rehearsal", "preprocessing": "none"}
    plan = TablePlan(out, "embeddings", {"rehearsal": seed}, units, {}, space, derived=False, dim=DIM)
    run = open_run(plan, resume=True, overwrite=False, retry=[])
    for task, start in zip(run.todo, starts, strict=True):
        count = task.unit.rows or 0
        vectors = draw.standard_normal((count, DIM), dtype=np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        values = pa.array(vectors.astype(np.float16).reshape(-1))
        with UnitWriter(run.target, task) as writer:
            writer.counts.rows_in = count
            writer.write(pa.table({
                "item_id": [f"{seed}-{start + number}" for number in range(count)], "kind": ["image"] * count,
                "embedding": pa.FixedSizeListArray.from_arrays(values, DIM), "status": ["ok"] * count,
                "error_kind": pa.nulls(count, pa.string()), "error_message": pa.nulls(count, pa.string()),
            }))  # fmt: skip
    run.finish()


@contextmanager
def cpu_seconds(cluster: RunningCluster | None) -> Iterator[list[float]]:
    """Yield a list that has, after the context, the CPU seconds of the cluster's processes and of ended children."""
    spent: dict[tuple[int, float], float] = {}
    ended, result = threading.Event(), list[float]()

    def sample() -> None:
        for process in cluster.processes() if cluster else ():
            try:
                times = process.cpu_times()
                spent[process.pid, process.create_time()] = times.user + times.system
            except psutil.NoSuchProcess:
                continue

    def watch() -> None:
        while not ended.wait(SAMPLE_S):
            sample()

    sample()
    before, children = dict(spent), _of_children()
    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield result
    finally:
        ended.set()
        thread.join()
        sample()
        result.append(sum(s - before.get(p, 0.0) for p, s in spent.items()) + _of_children() - children)


def _of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def idle_share(cluster: RunningCluster) -> float:
    """Return the CPU seconds per second of a cluster without work."""
    with cpu_seconds(cluster) as seconds:
        time.sleep(IDLE_S)
    return seconds[0] / IDLE_S


def run_step(
    cluster: RunningCluster, env: dict[str, str], job: str, out: str, keys: list[str], *, idle: float, loses: bool
) -> Step:
    """Run a job on the cluster; with `loses`, a worker is lost after the first unit, and another joins.

    Args:
        idle: what `idle_share` returns.
    """
    if job in IN_THE_DRIVER:
        again = ["overwrite=true"] if job == "curate" else []
        steps = [_run_once(None, env, job, out, [*keys, *again]) for _ in range(REPEATS)]
        return min(steps, key=lambda step: step.cpu_s)
    begun = time.monotonic()
    step = _run_once(cluster, env, job, out, [*keys, f"ray.address={cluster.address}"], loses=loses)
    return replace(step, cpu_s=step.cpu_s - idle * (time.monotonic() - begun))


def _run_once(
    cluster: RunningCluster | None, env: dict[str, str], job: str, out: str, keys: list[str], *, loses: bool = False
) -> Step:
    begun = time.monotonic()
    command = [sys.executable, "-m", f"jobs.{job}", *keys]
    with cpu_seconds(cluster) as seconds:
        process = subprocess.Popen(
            command, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        lost = threading.Thread(target=_lose_a_worker, args=(cluster, process, out)) if cluster and loses else None
        if lost:
            lost.start()
        printed, _ = process.communicate()
        if lost:
            lost.join()
    if process.returncode:
        raise SystemExit(f"{' '.join(command)}\n{printed}")
    counts: dict[str, Any] = {}
    if job != "report":  # whose folder is not a table
        counts = json.loads(locations.read_bytes(f"{out}/_run/manifest.json"))["counts"]
    print(f"{job}: {seconds[0]:,.1f} CPU s, {time.monotonic() - begun:,.0f} s", file=sys.stderr, flush=True)
    lost_machines = tuple(re.findall(r"lost machine ([^;]+);", printed))
    return Step(job, counts.get("rows_in", 0), seconds[0], counts, lost_machines)


def _lose_a_worker(cluster: RunningCluster, process: "subprocess.Popen[str]", out: str) -> None:
    while process.poll() is None:
        if any(file.uri.endswith(".parquet") for file in locations.listing(out)):
            cluster.call(LOSS, "")
            return
        time.sleep(SAMPLE_S)


def rehearse(folder: Path, *, scale: int) -> tuple[list[list[Step]], list[str]]:
    """Return the steps of the runs that count, and what is wrong with the rows of all tables."""
    rubric = Rubric.from_dict(yaml.safe_load((CONF / "rubric" / "century_labels.yaml").read_text(encoding="utf-8")))
    runs, wrong = [], list[str]()
    with LoopbackS3(folder / "s3") as server, temporary_environment({**server.environment(), "RAY_ADDRESS": None}):
        server.create_bucket(BUCKET)
        env = environment(folder, RAY_AUTH_MODE="disabled", RAY_worker_niceness="0")
        with running_cluster(env, num_cpus=0, nodes=[{"num_cpus": 2}, {"num_cpus": 2}]) as cluster:
            idle = idle_share(cluster)
            for part in PARTS:
                rows, vectors = WIT_ROWS // scale // part, VECTORS // scale // part
                pictures = max(LEAST_PICTURES, rows // ROWS_PER_PICTURE)
                facts = write_world(folder / f"world{part}", rubric, rows=rows, pictures=pictures).facts
                world, out = (f"s3://{BUCKET}/{name}{part}" for name in ("world", "out"))
                locations.publish_folder(folder / f"world{part}", world)
                write_vectors(f"{world}/queries", QUERIES, seed=1)
                write_vectors(f"{world}/vectors", vectors, seed=2)
                sizes = {"retrieve": vectors, "judge": facts.pictures, "report": facts.pictures}
                done = [
                    run_step(cluster, env, job, table, keys, idle=idle, loses=part == PARTS[-1] and job == LOST_AT)
                    for job, table, keys in commands(world, out)
                ]
                if part != WARMING:
                    runs.append([replace(step, rows=sizes.get(step.job, step.rows)) for step in done])
                wrong += differences(facts, done, questions=len(rubric.questions))
                print(f"{rows:,} rows: {wrong or 'as generated'}", file=sys.stderr, flush=True)
    return runs, wrong


def differences(facts: CorpusFacts, steps: Sequence[Step], *, questions: int) -> list[str]:
    """Return a line for each number of rows that is not the generator's."""
    counts = {step.job: step.counts for step in steps}
    pairs = row_counts(facts, counts)
    pairs["neighbours"] = QUERIES * NEAREST, counts["retrieve"]["rows_out"]
    for job, answers in (("fetch", 1), ("embed", 1), ("judge", questions)):
        pairs[f"{job}: rows that are ok"] = answers * facts.pictures, counts[job]["status"].get("ok", 0)
    return [f"{name}: {seen:,} instead of {wanted:,}" for name, (wanted, seen) in pairs.items() if seen != wanted]


def table(runs: Sequence[Sequence[Step]], prices: Prices) -> list[str]:
    """Return the lines of the table: what was measured, and the full size."""
    names = ("rows", "CPU s", "ms/row", "full rows", "hours", prices.currency)
    lines = [_line("stage", names, "from")]
    total = 0.0
    for small, large in zip(*runs, strict=True):
        more = max(large.rows - small.rows, 1)
        full = FULL.get(large.job, PICTURES)
        hours, kind, basis = _full_size(large.job, full, (large.cpu_s - small.cpu_s) / more)
        machine = next(m for m in prices.machines if m.gpu == kind and not m.head)
        hours /= machine.num_gpus or machine.num_cpus
        total += hours * machine.per_hour
        per_row = f"{1000 * (large.cpu_s - small.cpu_s) / more:,.3g}"
        figures = [f"{large.rows:,}", f"{large.cpu_s:,.1f}", per_row, f"{full:,}"]
        figures += [f"{hours:,.3f}", f"{hours * machine.per_hour:,.2f}"] if hours else ["-", "-"]
        lines.append(_line(large.job, figures, f"{basis}, {machine.name}"))
    return [*lines, _line("all", [*[""] * 5, f"{total:,.2f}"], "").rstrip()]


def _line(stage: str, figures: Sequence[str], basis: str) -> str:
    cells = (f"{figure:>{width}}" for figure, width in zip(figures, WIDTHS, strict=True))
    return f"{stage:9}{''.join(cells)}  {basis}"


def _full_size(job: str, rows: int, per_row: float) -> tuple[float, str | None, str]:
    """Return hours of one GPU or core for the full size, the kind of GPU (None: cores), and where they come from."""
    measured = [m for m in read_measurements("rates") if m.job == job and (m.device != "cpu") == (job in ON_GPUS)]
    if not measured:
        basis = "this run" if per_row > 0 else "no difference"
        return rows * max(per_row, 0.0) / 3600, None, basis
    work = FULL_WORK.get(job, rows)
    kind = GPU if job in ON_GPUS else None
    seconds = measured[-1].seconds_per_work(read_gpus()[GPU] if kind else None)[1]
    return work * seconds / 3600, kind, "conf/measured"


def main() -> None:
    """Run the rehearsal and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--scale", type=int, default=1_000, help="1/SCALE of the full corpora (default 1000)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="rehearsal-") as folder:
        runs, wrong = rehearse(Path(folder), scale=arguments.scale)
    print(*table(runs, read_prices(PRICES)), sep="\n")
    lost = [name for step in runs[-1] for name in step.lost]
    print(f"\nlost while {LOST_AT} ran: {', '.join(lost) or 'none'}")
    print(*(wrong or ["all numbers of rows are the generator's"]), sep="\n")
    sys.exit(bool(wrong) or not lost)


if __name__ == "__main__":
    main()
