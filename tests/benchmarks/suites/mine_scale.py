"""Scaling of mining: a 7 GB file, up to a million terms, two files on two cores, and through Ray."""

import csv
import hashlib
import multiprocessing
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.benchmarks.child import Result
from tests.benchmarks.harness import Benchmark, Contender, Size, Target
from tests.benchmarks.suites import mine

if TYPE_CHECKING:
    from actors.titles import TitleMatcher
    from jobs.store.counts import Counts

LARGE = "wit_v1.train.all-00001-of-00002.tsv.gz"
TIMES = 4  # rows of the large file over those of the other: 7.6 GB at size full
MANY_FILES = "files"  # a folder of links to the large file, so that a run through Ray is long against its start
FILES: dict[Size, int] = {"smoke": 2, "default": 20, "full": 4}
WORKERS = 2
PASSES = 5
MANY, MOST = "terms-100k.csv", "terms-1m.csv"
TERMS: dict[Size, tuple[int, int]] = {
    "smoke": (20_000, 50_000), "default": (100_000, 1_000_000), "full": (100_000, 1_000_000),
}  # fmt: skip
SAMPLE_SECONDS = 0.1


def prepare(workdir: Path, size: Size) -> None:
    """Write the corpus of `mine`, one of four times its rows, and terms without end."""
    from tests.benchmarks.wit_like import make_terms, repeat

    mine.prepare(workdir, size)
    repeat(workdir / mine.CORPUS, workdir / LARGE, times=TIMES)
    (workdir / MANY_FILES).mkdir()
    for number in range(FILES[size]):
        (workdir / MANY_FILES / f"wit_v1.train.all-{number:05}-of-{FILES[size]:05}.tsv.gz").hardlink_to(workdir / LARGE)
    for name, count in zip((MANY, MOST), TERMS[size], strict=True):
        with (workdir / name).open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["terms"])
            writer.writerows([term] for term in make_terms(count))


def isal_large(workdir: Path, size: Size) -> Result:
    """Decompress the large file."""
    return mine.decompressed(workdir / LARGE)


def remine_large(workdir: Path, size: Size) -> Result:
    """Mine the large file, everything counted."""
    return mine.scanned(workdir / LARGE, _matcher(workdir, mine.TERM_FILE), rows=TIMES * mine.ROWS[size])


def terms_7k(workdir: Path, size: Size) -> Result:
    """Scan with as many terms as Century released; the automaton's making is not counted, here and below."""
    return _scan_alone(workdir, size, mine.TERM_FILE)


def terms_100k(workdir: Path, size: Size) -> Result:
    """The same with 100,000 terms."""
    return _scan_alone(workdir, size, MANY)


def terms_1m(workdir: Path, size: Size) -> Result:
    """The same with 1,000,000 terms."""
    return _scan_alone(workdir, size, MOST)


def build_1m(workdir: Path, size: Size) -> Result:
    """The making of the automaton of 1,000,000 terms, once a worker."""
    begun, cpu = time.perf_counter(), time.process_time()
    _matcher(workdir, MOST)
    return Result(rows=0, digest="", wall_s=time.perf_counter() - begun, cpu_s=time.process_time() - cpu)


def one_file(workdir: Path, size: Size) -> Result:
    """The large file in a separate process."""
    return _in_processes(workdir, size, 1)


def two_files(workdir: Path, size: Size) -> Result:
    """Two files of that size in two processes at once."""
    return _in_processes(workdir, size, 2)


def plain(workdir: Path, size: Size) -> Result:
    """Units of `mine` in two processes, without Ray; the processes' start and the automaton are not counted."""
    return _plain(workdir, workers=WORKERS)


def plain_alone(workdir: Path, size: Size) -> Result:
    """The same in one process."""
    return _plain(workdir, workers=1)


def through_ray(workdir: Path, size: Size) -> Result:
    """`python -m jobs.mine` on the same files with two actors, less the same on files of no rows; peak: a worker's."""
    return _through_ray(workdir, size, workers=WORKERS)


def through_ray_alone(workdir: Path, size: Size) -> Result:
    """The same with one actor."""
    return _through_ray(workdir, size, workers=1)


def _plain(workdir: Path, *, workers: int) -> Result:
    shares = [sorted(map(str, (workdir / MANY_FILES).iterdir()))[n::workers] for n in range(workers)]
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        results = list(pool.map(_units, [str(workdir / mine.TERM_FILE)] * workers, shares))
    counts = _sum(counts for counts, _, _ in results)
    return _of_counts(counts, wall_s=max(wall for _, wall, _ in results), cpu_s=sum(cpu for _, _, cpu in results))


def _through_ray(workdir: Path, size: Size, *, workers: int) -> Result:
    from jobs.runtime.cluster import ray_session
    from jobs.runtime.command_line import cli
    from jobs.runtime.configuration.resources import RayConfig, Resources
    from jobs.store.counts import Counts
    from tests.benchmarks.wit_like import HEADER_MEMBER

    with tempfile.TemporaryDirectory() as folder, _Sampler() as sampler:
        empty = Path(folder) / "headers"
        empty.mkdir()
        for number in range(FILES[size]):
            (empty / f"{number}.tsv.gz").write_bytes(HEADER_MEMBER)
        ray_session.start(RayConfig(), Resources())

        def mined(corpus: Path, out: str) -> tuple[Any, float, float]:
            begun, cpu = time.perf_counter(), sampler.cpu_s
            keys = [f"corpus.path={corpus}", f"terms.path={workdir / mine.TERM_FILE}", f"out={folder}/{out}"]
            manifest: Any = cli.execute("mine", [*keys, f"resources.mine.actors={workers}"])
            time.sleep(2 * SAMPLE_SECONDS)
            return manifest, time.perf_counter() - begun, sampler.cpu_s - cpu

        mined(empty, "warm")  # the first job of a Ray also starts what later ones find started
        _, start_wall, start_cpu = mined(empty, "start")
        manifest, wall, cpu = mined(workdir / MANY_FILES, "matches")
        peak = sampler.worker_peak_mb
    counts = Counts.from_json(manifest["counts"])
    return _of_counts(counts, wall_s=wall - start_wall, cpu_s=cpu - start_cpu, peak_mb=peak)


def _matcher(workdir: Path, terms: str) -> "TitleMatcher":
    from actors.titles import TitleMatcher

    with (workdir / terms).open(encoding="utf-8", newline="") as file:
        return TitleMatcher(row["terms"] for row in csv.DictReader(file))


def _scan_alone(workdir: Path, size: Size, terms: str) -> Result:
    """The least of some passes: what other programs do to a processor's caches only ever adds."""
    matcher = _matcher(workdir, terms)
    passes = []
    for _ in range(PASSES):
        begun, cpu = time.perf_counter(), time.process_time()
        hits = mine.scanned(workdir / mine.CORPUS, matcher, rows=mine.ROWS[size])
        passes.append((time.process_time() - cpu, time.perf_counter() - begun))
    cpu, wall = min(passes)
    return Result(rows=hits.rows, digest=hits.digest, wall_s=wall, cpu_s=cpu)


def _in_processes(workdir: Path, size: Size, count: int) -> Result:
    context = multiprocessing.get_context("spawn")
    begun = time.perf_counter()
    processes = [context.Process(target=remine_large, args=(workdir, size)) for _ in range(count)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    if failed := [process.exitcode for process in processes if process.exitcode]:
        raise RuntimeError(f"a process ended with {failed[0]}")
    return Result(rows=0, digest="", wall_s=time.perf_counter() - begun)


def _units(terms: str, files: Sequence[str]) -> tuple["Counts", float, float]:
    """Return the counts of `mine` in `files`, read one after the other in this process, with wall and CPU seconds."""
    from actors.titles import Fold
    from jobs.corpora.terms import TermsConfig, pack, read_terms
    from jobs.runtime.board import Reporter
    from jobs.store.files import locations
    from jobs.store.runs.table_run import open_run
    from jobs.store.table_plan import TablePlan
    from jobs.store.units import unit_of_file
    from jobs.store.writer import UnitWriter
    from jobs.workers.mine import MineUnit

    with tempfile.TemporaryDirectory() as folder:
        units = [unit_of_file(result) for file in files for result in locations.find(file)]
        plan = TablePlan(f"{folder}/out", "records", {}, units, {}, {}, derived=False)
        run = open_run(plan, resume=True, overwrite=False, retry=[])
        kept = run.keep("terms.json", pack(read_terms(TermsConfig(path=terms))))
        same: dict[str, Any] = {"excluded": None, "match": "substring", "fold": Fold()}
        unit = MineUnit(terms=kept, **same, corpus="wit", language="en", step=10**6)
        done = []
        begun, cpu = time.perf_counter(), time.process_time()
        for task in run.todo:
            with UnitWriter(run.target, task) as writer:
                unit(task, writer, Reporter(None, "mine"))
            done.append(writer.counts)
        return _sum(done), time.perf_counter() - begun, time.process_time() - cpu


def _sum(entry: Iterable["Counts"]) -> "Counts":
    """Return all of them together."""
    from jobs.store.counts import Counts

    total = Counts()
    for counts in entry:
        total += counts
    return total


def _of_counts(counts: Any, **measured: float) -> Result:
    """Rows found and what became of the others: equal for two that did the same."""
    digest = f"{counts.rows_in} {sorted(counts.filtered.items())} {sorted(counts.tallies['term'].items())}"
    return Result(rows=counts.rows_out, digest=hashlib.sha256(digest.encode()).hexdigest(), **measured)


class _Sampler:
    """CPU seconds of this process and its descendants, those that ended included, and the peak of a mining worker.

    What the looking itself costs is left out.
    """

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._seen: dict[tuple[int, float], float] = {}
        self._looking = 0.0
        self.worker_peak_mb = 0.0

    @property
    def cpu_s(self) -> float:
        return sum(self._seen.values()) - self._looking

    def __enter__(self) -> "_Sampler":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        import psutil

        own_values = psutil.Process(os.getpid())
        while not self._stop.wait(SAMPLE_SECONDS):
            for process in (own_values, *own_values.children(recursive=True)):
                try:
                    times = process.cpu_times()
                    self._seen[process.pid, process.create_time()] = times.user + times.system
                    if "MineUnit" in " ".join(process.cmdline()):
                        self.worker_peak_mb = max(self.worker_peak_mb, process.memory_info().rss / 1e6)
                except psutil.Error:
                    continue
            self._looking = time.thread_time()


def _contender(function: Callable[[Path, Size], Result], *, compared: bool = False) -> Contender:
    about = (function.__doc__ or "").splitlines()[0].rstrip(".")
    name = function.__name__
    return Contender(name=name, function=f"{__name__}:{name}", compared=compared, about=about)


BENCHMARK = Benchmark(
    name="mine_scale",
    about=__doc__,
    bound="decompression; through Ray, also its processes on the same two cores",
    prepare=prepare,
    contenders=(
        *map(_contender, (isal_large, remine_large, terms_7k, terms_100k, terms_1m, build_1m, one_file, two_files)),
        _contender(plain, compared=True),
        _contender(through_ray, compared=True),
        _contender(plain_alone, compared=True),
        _contender(through_ray_alone, compared=True),
    ),
    reference="isal_large",
    input_version=2,
    targets=(
        Target(metric="cpu_s", contender="remine_large", against="isal_large", at_most=1.2),
        Target(metric="cpu_s", contender="terms_100k", against="terms_7k", at_most=1.05),
        Target(metric="cpu_s", contender="terms_1m", against="terms_7k", at_most=1.2),
        Target(metric="wall_s", contender="two_files", against="one_file", at_most=2 / 1.7),
        Target(metric="cpu_s", contender="through_ray_alone", against="plain_alone", at_most=1.05),
        Target(metric="wall_s", contender="through_ray_alone", against="plain_alone", at_most=1.05),
        Target(metric="cpu_s", contender="through_ray", against="plain", at_most=1.05),
        Target(metric="wall_s", contender="through_ray", against="plain", at_most=1.05),
        Target(metric="peak_mb", contender="remine_large", at_most=250),
        Target(metric="peak_mb", contender="through_ray", at_most=250),
    ),
    repeats={"smoke": 1, "default": 3, "full": 3},
    packages=("ahocorasick_rs", "isal", "numpy", "pyarrow", "ray"),
)
