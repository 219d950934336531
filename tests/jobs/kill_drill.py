"""Kills a process of a job at seeded random moments, runs the command again where it ended, and compares the tables.

Drivers are forked from a server that has imported what they need, so that the moments fall into their work.
"""

import contextlib
import multiprocessing as mp
import os
import random
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from multiprocessing.process import BaseProcess
from pathlib import Path

import psutil
import pyarrow as pa

from jobs.store import locations
from jobs.store.counts import Counts
from jobs.store.reading import open_table
from jobs.store.spool import sweep
from tests.jobs.running_job import process_name

IN_A_ROW = 5  # kills before a command may complete its table
WAIT_S = 600.0  # for a command to end
GONE_S = 60.0  # after which no process of a killed driver is left
IDLE = ("ray::IDLE", "ray::DashboardAgent", "ray::RuntimeEnvAgent", "ray::JobSupervisor")
PRELOADED = ["jobs.runtime.cli", "jobs.runtime.lifecycle", "jobs.store.run", "pyarrow.parquet", "s3fs", "psutil"]
Table = tuple[list[str], pa.Table, Counts]
Victims = Callable[[BaseProcess], list[psutil.Process]]


def command(job: str, arguments: list[str], log: str, scratch: str, environment: dict[str, str]) -> None:
    """Run a job as its command does, in a separate process."""
    from jobs.runtime import cli

    os.setsid()
    os.environ.update(environment)  # the server of forks has that of its start
    tempfile.tempdir = scratch
    stream = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for number in (1, 2):
        os.dup2(stream, number)
    raise SystemExit(cli.main(job, arguments))


def driver(process: BaseProcess) -> list[psutil.Process]:
    """The process of the command itself."""
    assert process.pid is not None
    return [psutil.Process(process.pid)]


def workers(_: BaseProcess) -> list[psutil.Process]:
    """The processes in which Ray runs stages, reads or writes."""
    return [child for child in _family() if _title(child).startswith("ray::") and not _title(child).startswith(IDLE)]


def decoders(_: BaseProcess) -> list[psutil.Process]:
    """The processes that decode pictures."""
    return [child for child in _family() if "actors.fetching.decode_worker" in _title(child)]


def _family() -> list[psutil.Process]:
    return psutil.Process().children(recursive=True)  # Ray and its workers descend from this process


def _title(process: psutil.Process) -> str:
    with contextlib.suppress(psutil.Error):
        return " ".join(process.cmdline())
    return ""


@dataclass
class Drill:
    """A job whose processes are killed.

    Attributes:
        job, arguments: the command, without `out=`.
        folder: for tables and logs; `out` for the tables if they are elsewhere, such as on S3.
        seconds: of an undisturbed run.
        kills: of each kind of victim.
        runs: commands that were started.
        completed: tables that were compared.
    """

    job: str
    arguments: list[str]
    folder: Path
    out: str = ""
    expected: Table | None = None
    seconds: float = 0.0
    kills: Counter[str] = field(default_factory=Counter)
    runs: int = 0
    completed: int = 0

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.log, self.scratch = self.folder / "log", self.folder / "scratch"
        self.scratch.mkdir(exist_ok=True)
        self.out = self.out or str(self.folder)
        self.context = mp.get_context("forkserver")
        self.context.set_forkserver_preload([*PRELOADED, f"jobs.{self.job}"])

    def start(self, out: str) -> BaseProcess:
        self.runs += 1
        arguments = (self.job, [*self.arguments, f"out={out}"], str(self.log), str(self.scratch), dict(os.environ))
        process = self.context.Process(target=command, args=arguments)
        process.start()
        return process

    def finish(self, process: BaseProcess) -> int:
        process.join(WAIT_S)
        assert process.exitcode is not None, f"{self.job} does not end:\n{self.log.read_text()}"
        return process.exitcode

    def undisturbed(self) -> None:
        """Run the job as often as it takes to know its duration, which the first run's imports are not part of."""
        for number in range(2):
            out, begun = f"{self.out}/calm{number}", time.monotonic()
            assert self.finish(self.start(out)) == 0, self.log.read_text()
            self.seconds = time.monotonic() - begun
        self.expected = self.table(out)
        assert self.expected[1].num_rows > 0

    def table(self, out: str) -> Table:
        """Names, rows and counts; without the tallies of stages, some of which depend on how rows met in a batch."""
        table = open_table(out)
        names = [file.uri.removeprefix(out) for file in locations.listing(out) if file.uri.endswith(".parquet")]
        return names, pa.concat_tables(table.batches()), replace(table.counts(), tallies={})

    def disturb(self, victims: Victims, *, kills: int, seed: int, by: Callable[[], None] | None = None) -> None:
        """Kill `kills` victims in as many runs as it takes; each table that is completed must be the undisturbed one.

        A command whose driver is killed is run again. The others must complete by themselves.

        Args:
            by: what to do instead of a kill of one of `victims`; the command may then fail, and is run again.
        """
        draw, name, done = random.Random(seed), getattr(by or victims, "__name__", "kill"), 0
        while done < kills:
            out = f"{self.out}/{name}{self.completed}"
            hits, code = 0, 1
            while code:
                process = self.start(out)
                hit = done < kills and hits < IN_A_ROW and self._hit(process, victims, draw, by)
                hits, done = hits + hit, done + hit
                code = self.finish(process)
                may_fail = hit and (victims is driver or by is not None)
                assert code == 0 or may_fail, f"exit code {code}:\n{self.log.read_text()}"
            self.kills[name] += hits
            self._compare(out)

    def _hit(self, process: BaseProcess, victims: Victims, draw: random.Random, by: Callable[[], None] | None) -> bool:
        """Whether a victim was killed while the process ran, at a random moment of its time."""
        process.join(draw.uniform(0, self.seconds))
        while process.is_alive():
            if by is not None:
                by()
                return True
            if chosen := victims(process):
                victim = draw.choice(chosen)
                family = victim.children(recursive=True) if victims is driver else []
                with contextlib.suppress(psutil.NoSuchProcess):
                    victim.kill()
                    self._gone(family)
                    return True
            time.sleep(0.01)
        return False

    def _gone(self, family: list[psutil.Process]) -> None:
        _, alive = psutil.wait_procs(family, timeout=GONE_S)
        assert [process_name(process) for process in alive if process_name(process)] == []

    def _compare(self, out: str) -> None:
        assert self.expected is not None
        names, rows, counts = self.table(out)
        assert names == self.expected[0]
        assert rows.equals(self.expected[1])
        assert counts == self.expected[2]
        left = [file.uri for file in locations.listing(out) if file.uri.endswith(".tmp")]
        assert left == []
        for path in self.scratch.iterdir():  # a minute later, when the next command sweeps
            os.utime(path, (0, 0))
        sweep.__wrapped__(str(self.scratch))
        assert [path for folder in self.scratch.iterdir() for path in (folder, *folder.rglob("*"))] == []
        self.completed += 1
        if not locations.is_s3(out):
            shutil.rmtree(out)

    def __str__(self) -> str:
        kills = ", ".join(f"{n} of {name}" for name, n in self.kills.items())
        return (
            f"{self.job}: {kills}; {self.runs} commands, {self.completed} tables equal to the undisturbed one "
            f"({self.seconds:.1f} s)"
        )


def arguments_of(job: str, inputs: Path) -> list[str]:
    """The command of `job` on the tables below `inputs`, with many small units."""
    few = ["resources.read.num_cpus=0.3", "resources.write.num_cpus=0.3"]
    tiny = [f"input={inputs}/images", "model=local-tiny", "resources.judge.threads=1", *few]
    vectors = [f"{inputs}/embeddings", *few]
    return {
        "mine": [f"corpus.path={inputs}/corpus/*.tsv.gz", f"terms.path={inputs}/terms.csv", *few],
        "curate": [f"input={inputs}/records", "unit_rows=2"],
        "fetch": ["source=folder", f"source.path={inputs}/pictures", "unit_rows=4", *few],
        "embed": [f"input={inputs}/images", "embedder=local-tiny", "resources.embed.threads=1", *few],
        "retrieve": [f"queries={vectors[0]}", f"corpus.path={vectors[0]}", "k=3", *few],
        "zero_shot": [f"input={vectors[0]}", "embedder=local-tiny", "targets=[war,peace]", *few],
        "judge": [*tiny, "rubric=century_labels", f"records={inputs}/curated"],
        "generate": [*tiny, "prompt=minimal", "samples=2", "max_tokens=8"],
    }[job]


def write_inputs(folder: Path) -> None:
    """A corpus with pictures, and the tables made of it."""
    from jobs.runtime import cli
    from jobs.testbed.synthetic import write_corpus

    write_corpus(folder, rows=3000, pictures=60)
    corpus = folder / "corpus"
    corpus.mkdir()
    for part in sorted(folder.glob("*.tsv.gz")):
        for number in range(4):  # every file has another name, hence other records
            shutil.copy(part, corpus / f"{number}-{part.name}")
    for job, arguments in (
        ("mine", [*arguments_of("mine", folder), f"out={folder}/records"]),
        ("curate", [f"input={folder}/records", f"out={folder}/curated"]),
        ("fetch", [*arguments_of("fetch", folder), f"input={folder}/curated", f"out={folder}/images"]),
        ("embed", [*arguments_of("embed", folder), f"out={folder}/embeddings"]),
    ):
        assert cli.main(job, arguments) == 0, job
