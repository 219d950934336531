"""Kills a process of a job at seeded random moments, runs the command again where it ended, and compares the tables.

Drivers are forked from a server that has imported what they need, so that the moments fall into their work.
"""

import contextlib
import io
import json
import multiprocessing as mp
import os
import random
import shutil
import signal
import tarfile
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from actors.ids import content_id
from jobs.runtime.command_line.job_names import module_of
from jobs.store.counts import Counts
from jobs.store.files import locations
from jobs.store.files.spool import sweep
from jobs.store.reading import open_table
from tests import factories, reliability, wikidata
from tests.jobs.running_job import process_name
from tests.jobs.small_jobs import job_of

IN_A_ROW = 5  # kills before a command may complete its table
WAIT_S = 600.0  # for a command to end
GONE_S = 60.0  # after which no process of a killed driver is left
KILL = (signal.SIGKILL,)
SIGNAL_PAUSE_S = 0.3  # between the signals of a victim that gets several
# Exit codes of a driver by its first signal; before remine listens, Python ends by the signal itself, or with 1.
ENDED = {signal.SIGKILL: (-9,), signal.SIGTERM: (143, -15), signal.SIGINT: (130, -2, 1)}
PRELOADED = """
    jobs.runtime.command_line.cli jobs.runtime.lifecycle jobs.store.runs.table_run pyarrow.parquet s3fs psutil ray
    ray.data
""".split()
Tables = tuple[list[str], list[pa.Table], list[Counts]]
Victims = Callable[[BaseProcess], list[psutil.Process]]


def command(job: str, arguments: list[str], log: str, scratch: str, environment: dict[str, str]) -> None:
    """Run a job as its command does, in a separate process."""
    from jobs.runtime.command_line import cli

    os.setsid()
    os.environ.update(environment)  # the server of forks has that of its start
    tempfile.tempdir = scratch
    stream = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for number in (1, 2):
        os.dup2(stream, number)
    raise SystemExit(cli.main(job, arguments))


def driver(process: BaseProcess) -> list[psutil.Process]:
    """Return the process of the command itself, if it has not ended."""
    assert process.pid is not None
    with contextlib.suppress(psutil.NoSuchProcess):
        return [psutil.Process(process.pid)]
    return []


def actor(_: BaseProcess) -> list[psutil.Process]:
    """Return the processes of pools of several actors, or of clusters of several machines."""
    return [child for child in _family() if _title(child).startswith("ray::MapWorker(")]


def read(_: BaseProcess) -> list[psutil.Process]:
    """Return the processes that read units."""
    return [child for child in _family() if _title(child).startswith("ray::MapBatches(UnitReader)")]


def write(_: BaseProcess) -> list[psutil.Process]:
    """Return the processes that write units."""
    return [child for child in _family() if _title(child).startswith("ray::MapBatches(UnitSink)")]


def warm(_: BaseProcess) -> list[psutil.Process]:
    """Return the process of a pool of one on one machine, which Ray keeps for the next job."""
    others = ("ray::MapBatches(UnitReader)", "ray::MapBatches(UnitSink)")
    titles = ((child, _title(child)) for child in _family())
    return [child for child, title in titles if title.startswith("ray::MapBatches(") and not title.startswith(others)]


def decoders(_: BaseProcess) -> list[psutil.Process]:
    """Return the processes that decode pictures."""
    return [child for child in _family() if "actors.fetching.decode_worker" in _title(child)]


def _family() -> list[psutil.Process]:
    return psutil.Process().children(recursive=True)  # Ray and its workers descend from this process


def _title(process: psutil.Process) -> str:
    with contextlib.suppress(psutil.Error):
        return " ".join(process.cmdline())
    return ""


def left_in(scratch: Path) -> list[Path]:
    """Return what a command left in its folder of temporary files after the next command's sweep, a minute later.

    Without torch's cache of compiled code, which torch keeps.
    """
    for path in scratch.iterdir():
        with contextlib.suppress(FileNotFoundError):
            os.utime(path, (0, 0))
    sweep.__wrapped__(str(scratch))
    return [path for path in scratch.iterdir() if not path.name.startswith("torchinductor_")]


def read_tables(out: str) -> Tables:
    """Names, rows and counts of all tables at and below `out`.

    Without the tallies of stages, some of which depend on how rows met in a batch, and without rejects.
    """
    names = sorted(file.uri.removeprefix(out) for file in locations.listing(out) if file.uri.endswith(".parquet"))
    folders = sorted({name.rpartition("/")[0] for name in names if "/_" not in name})
    tables = [open_table(f"{out}{folder}") for folder in folders]
    rows = [pa.concat_tables(table.batches()) for table in tables if table.rows]
    return names, rows, [replace(table.counts(), tallies={}) for table in tables]


def check_equal(tables: Tables, expected: Tables) -> None:
    """Compare tables with those of an undisturbed run."""
    names, rows, counts = tables
    assert names == expected[0]
    assert all(ours.equals(calm) for ours, calm in zip(rows, expected[1], strict=True))
    assert counts == expected[2]


@dataclass
class Drill:
    """A job whose processes are killed.

    Attributes:
        job: its name, perhaps with a source.
        arguments: of its command, without `out=`.
        folder: for tables and logs; `out` for the tables if they are elsewhere, such as on S3.
        seconds: of an undisturbed run.
        shared: the `TMPDIR` of the Ray that the job joins; None: it is not checked.
        runs: commands that were started.
        completed: tables that were compared.
    """

    job: str
    arguments: list[str]
    folder: Path
    out: str = ""
    expected: Tables | None = None
    seconds: float = 0.0
    shared: Path | None = None
    runs: int = 0
    completed: int = 0

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.log, self.scratch = self.folder / "log", self.folder / "scratch"
        self.scratch.mkdir(exist_ok=True)
        self.out = self.out or str(self.folder)
        self.context = mp.get_context("forkserver")
        self.command = job_of(self.job)
        self.context.set_forkserver_preload([*PRELOADED, module_of(self.command)])

    def start(self, out: str) -> BaseProcess:
        self.runs += 1
        arguments = (self.command, [*self.arguments, f"out={out}"], str(self.log), str(self.scratch), dict(os.environ))
        process = self.context.Process(target=command, args=arguments)
        process.start()
        return process

    def finish(self, process: BaseProcess) -> int:
        process.join(WAIT_S)
        assert process.exitcode is not None, f"{self.job} does not end:\n{self.log.read_text()}"
        return process.exitcode

    def undisturbed(self, *, times: int = 2) -> None:
        """Run the job; of several runs the last one's duration counts, which has no imports."""
        for number in range(times):
            out, begun = f"{self.out}/calm{number}", time.monotonic()
            assert self.finish(self.start(out)) == 0, self.log.read_text()
            self.seconds = time.monotonic() - begun
        self.expected = read_tables(out)
        assert sum(counts.rows_in for counts in self.expected[2]) > 0  # a model of random weights writes no questions

    def disturb(
        self,
        victims: Victims,
        *,
        kills: int,
        seed: int,
        name: str = "",
        signals: Sequence[signal.Signals] = KILL,
        by: Callable[[], None] | None = None,
    ) -> None:
        """Kill `kills` victims in as many runs as it takes; each table that is completed must be the undisturbed one.

        A command whose driver is killed is run again. The others must complete by themselves.

        Args:
            name: of the victims, for the results.
            signals: what a victim is sent.
            by: what to do instead of a kill of one of `victims`; the command may then fail, and is run again.
        """
        draw, done, runs, completed = random.Random(seed), 0, self.runs, self.completed
        name = name or getattr(by or victims, "__name__", "kill")
        while done < kills:
            out = f"{self.out}/{name}{self.completed}".replace(" ", "_")
            hits, code = 0, 1
            while code:
                process = self.start(out)
                hit = done < kills and hits < IN_A_ROW and self._hit(process, victims, draw, signals, by)
                hits, done = hits + hit, done + hit
                code = self.finish(process)
                allowed = ENDED[signals[0]] if victims is driver else ()
                assert code == 0 or (hit and (by is not None or code in allowed)), (
                    f"exit code {code}:\n{self.log.read_text()}"
                )
            self._compare(out)
        tables = {"tables compared": self.completed - completed}
        reliability.record("kills", killed=name, job=self.job, kills=done, commands=self.runs - runs, **tables)

    def _hit(
        self,
        process: BaseProcess,
        victims: Victims,
        draw: random.Random,
        signals: Sequence[signal.Signals],
        by: Callable[[], None] | None,
    ) -> bool:
        """Return whether a victim was sent the signals while the process ran, at a random moment of its time."""
        process.join(draw.uniform(0, self.seconds))
        while process.is_alive():
            if by is not None:
                by()
                return True
            if chosen := victims(process):
                victim = draw.choice(chosen)
                family = victim.children(recursive=True) if victims is driver else []
                with contextlib.suppress(psutil.NoSuchProcess):
                    victim.send_signal(signals[0])
                    for number in signals[1:]:
                        time.sleep(SIGNAL_PAUSE_S)
                        with contextlib.suppress(psutil.NoSuchProcess):  # it needed only the first
                            victim.send_signal(number)
                    self._gone(family)
                    return True
            time.sleep(0.01)
        return False

    def _gone(self, family: list[psutil.Process]) -> None:
        _, alive = psutil.wait_procs(family, timeout=GONE_S)
        assert [process_name(process) for process in alive if process_name(process)] == []

    def _compare(self, out: str) -> None:
        assert self.expected is not None
        check_equal(read_tables(out), self.expected)
        temporary = [file.uri for file in locations.listing(out) if file.uri.endswith(".tmp")]
        assert temporary == []
        scratches = (self.scratch, *([self.shared] if self.shared else []))
        end = time.monotonic() + GONE_S  # workers outlive their driver for moments, and with them what they hold
        while (left := [path for scratch in scratches for path in left_in(scratch)]) and time.monotonic() < end:
            time.sleep(0.5)
        assert left == []
        self.completed += 1
        if not locations.is_s3(out):
            shutil.rmtree(out)


def arguments_of(job: str, inputs: Path) -> list[str]:
    """Return the command of `job`, which may name a source, on the tables below `inputs`, with many small units."""
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
        "judge": [*tiny, "rubric=cultural_relevance", "targets=[Brazil,Japan]"],
        # group_rows: a text of a model of random weights may change with the other prompts of its batch
        "generate": [*tiny, "prompt=minimal", "samples=2", "group_rows=2", "max_tokens=8"],
        "fetch from parquet": ["source=parquet", f"source.path={inputs}/shards", *few],
        "fetch from webdataset": ["source=webdataset", f"source.path={inputs}/shards", *few],
        "kb": ["knowledge_base=table", f"knowledge_base.path={inputs}/kb/*.csv", "knowledge_base.language=en"],
        "parse": [f"input={inputs}/responses", "rubric=century_labels", *few],
        "questions": [f"texts={inputs}/texts", "model=local-text-tiny", "max_tokens=8", "unit_rows=2"],
        "generate_images": [f"input={inputs}/prompts", "image_model=local-tiny", "steps=2", "samples=2", *few],
        "loglik": [*tiny, "prompt=relevant_to", "targets=[Brazil,Japan]"],
        "terms": ["source=wikidata", f"source.path={inputs}/dumps", f"concepts={inputs}/concepts.yaml"],
        "link": [
            *(f"{key}={inputs}/links/{key}" for key in ("neighbors", "pictures")),
            *(f"kb.vectors={inputs}/links/vectors", f"kb.path={inputs}/links/kb", *few),
        ],
        "mark_spans": [
            *(f"input={inputs}/described/items", f"texts={inputs}/described/texts", f"images={inputs}/photos"),
            *("model=local-tiny", "max_tokens=4", "resources.judge.threads=1", *few),
        ],
    }[job]


def write_corpus_files(folder: Path) -> None:
    """Write a corpus of twelve files, with terms and pictures."""
    from jobs.testbed.synthetic import write_corpus

    write_corpus(folder, rows=3000, pictures=60)
    corpus = folder / "corpus"
    corpus.mkdir()
    for part in sorted(folder.glob("*.tsv.gz")):
        for number in range(4):  # every file has another name, hence other records
            shutil.copy(part, corpus / f"{number}-{part.name}")


def write_inputs(folder: Path) -> None:
    """Write a corpus and the tables derived from it."""
    from jobs.runtime.command_line import cli

    write_corpus_files(folder)
    for job, arguments in (
        ("mine", [*arguments_of("mine", folder), f"out={folder}/records"]),
        ("curate", [f"input={folder}/records", f"out={folder}/curated"]),
        ("fetch", [*arguments_of("fetch", folder), f"input={folder}/curated", f"out={folder}/images"]),
        ("embed", [*arguments_of("embed", folder), f"out={folder}/embeddings"]),
    ):
        assert cli.main(job, arguments) == 0, job


def write_further_inputs(folder: Path) -> None:
    """Files of pictures, a knowledge base in many files, texts, prompts and responses."""
    from jobs.runtime.command_line import cli

    for name in ("kb", "shards"):
        (folder / name).mkdir()
    pictures = [path.read_bytes() for path in sorted((folder / "pictures").iterdir()) if path.is_file()]
    for number in range(8):
        lines = [f"n{number}-{node},lemma {node}" for node in range(400)]
        (folder / "kb" / f"{number}.csv").write_text("\n".join(["node,lemmas", *lines]) + "\n", encoding="utf-8")
        some = pictures[number::8]
        pq.write_table(pa.table({"image": some}), folder / "shards" / f"{number}.parquet", row_group_size=2)
        with tarfile.open(folder / "shards" / f"{number}.tar", "w") as tar:
            for place, data in enumerate(some):
                member = tarfile.TarInfo(f"{place}.jpg")
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
    _write_dumps(folder)
    _write_descriptions(folder)
    _write_links(folder / "links")
    texts = [{"text_id": f"t{n}", "role": "prompt", "text": f"Two dogs and {n} cats."} for n in range(16)]
    factories.write_table(folder / "texts", "texts", texts)
    axes = ["axes.concept=[dance,dinner,house,market]", "axes.country=[Brazil,Japan,Mali]"]
    assert cli.main("prompts", [*axes, f"out={folder}/prompts"]) == 0
    assert cli.main("generate", [*arguments_of("generate", folder), f"out={folder}/responses"]) == 0


def _write_dumps(folder: Path) -> None:
    """Eight files of a dump of Wikidata, each with the classes and with entities of its own."""
    (folder / "dumps").mkdir()
    themes = {"name": "drill", "source": "this drill", "themes": wikidata.THEMES}
    (folder / "concepts.yaml").write_text(json.dumps(themes))
    for number in range(8):
        entities = [wikidata.item(10_000 * (number + 1) + n, f"War {number}-{n}", P31=["Q198"]) for n in range(300)]
        name = f"{number}.json.gz"
        dump = wikidata.dump([*(wikidata.CLASSES if number == 0 else ()), *entities])
        (folder / "dumps" / name).write_bytes(wikidata.compress(dump, name))


def _write_links(folder: Path) -> None:
    """Write a knowledge base with pictures and vectors of its lemmas, and twelve units of queries with neighbors."""
    from jobs.runtime.command_line import cli

    folder.mkdir()
    draw, nodes = np.random.default_rng(5), 600
    lines = [f"n{n},lemma {n}|other {n},{n}.jpg|{n * 7 % nodes}.jpg" for n in range(nodes)]
    (folder / "kb.csv").write_text("\n".join(["node,lemmas,images", *lines]) + "\n")
    keys = ["columns.lemmas=lemmas", "columns.gloss=null", "columns.images=images", "separator='|'", "language=en"]
    keys = [f"knowledge_base.{key}" for key in (f"path={folder}/kb.csv", *keys)]
    assert cli.main("kb", ["knowledge_base=table", *keys, f"out={folder}/kb"]) == 0
    lemmas = pa.concat_tables(open_table(f"{folder}/kb/lemmas").batches(["text_id"]))["text_id"].to_pylist()
    queries = [[f"q{unit:02}-{n}" for n in range(20)] for unit in range(12)]
    near = [
        [
            {"query_id": query, "rank": rank, "item_id": content_id(f"{image}.jpg"), "score": 1 - rank / 100}
            for query in of_unit
            for rank, image in enumerate(draw.choice(nodes, 20, replace=False), 1)
        ]
        for of_unit in queries
    ]
    factories.write_units(folder / "neighbors", "neighbors", near)

    def vectors(names: Sequence[str], kind: str) -> list[dict[str, Any]]:
        return factories.embedding_rows(names, kind, draw.normal(size=(len(names), factories.DIM)))

    files = {"encoder": "e", "preprocessing": "p"}
    pictures = [vectors(of_unit, "image") for of_unit in queries]
    factories.write_units(folder / "pictures", "embeddings", pictures, **files)
    factories.write_units(folder / "vectors", "embeddings", [vectors(lemmas, "text")], **files)


def _write_descriptions(folder: Path) -> None:
    """Items of pictures with a correct and a generated description each, and the table of these pictures."""
    from jobs.runtime.command_line import cli

    pictures = sorted(path.name for path in (folder / "pictures").iterdir() if path.is_file())[:24]
    rows = [[name, f"A dog and {n} cats.", f"{n} dogs run."] for n, name in enumerate(pictures)]
    sheet = factories.write_csv(folder / "described.csv", ["picture", "correct", "generated"], rows)
    roles = ["columns.texts.reference=correct", "columns.texts.generated=generated", "item_per=generated"]
    places = ["columns.pictures=picture", f"pictures.path={folder}/pictures", "unit_rows=3"]
    for job, arguments in (
        ("items", [f"input={sheet}", *roles, *places, f"out={folder}/described"]),
        ("fetch", ["source=folder", f"source.path={folder}/pictures", f"out={folder}/photos"]),
    ):
        assert cli.main(job, arguments) == 0, job
