"""Each table of `kb` from a knowledge base like WordNet (Parquet) and one like BabelNet (TSV, with articles).

Seconds are those of a worker that writes one unit, after the imports.
"""

import csv
import random
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.benchmarks.child import Result
from tests.benchmarks.clock import Clock
from tests.benchmarks.harness import Benchmark, Contender, Size

SYNSETS: dict[Size, int] = {"smoke": 500, "default": 82_000, "full": 82_000}  # WordNet has 82,115 nouns
ARTICLES: dict[Size, int] = {"smoke": 100, "default": 4_000, "full": 20_000}
ARTICLE_WORDS = 600
FILES = {"wordnet": "wordnet.parquet", "babelnet": "babelnet.tsv"}
PARTS = ("nodes", "lemmas", "glosses", "articles", "windows", "node_images")
HEADER = ["synset", "language", "lemmas", "gloss", "title", "article", "images"]
ROW_GROUP = 20_000


def prepare(workdir: Path, size: Size) -> None:
    """Write both knowledge bases."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = random.Random("kb")
    words = ["".join(rng.choices("abcdefghijklmnoprstuvw", k=rng.randint(2, 10))) for _ in range(20_000)]

    def phrase(low: int, high: int) -> str:
        return " ".join(rng.choices(words, k=rng.randint(low, high)))

    synsets = [
        {"synset_id": f"{n:08}-n", "all_lemmas": [phrase(1, 2) for _ in range(rng.randint(1, 3))],
         "definition": phrase(4, 20)}
        for n in range(SYNSETS[size])
    ]  # fmt: skip
    pq.write_table(pa.Table.from_pylist(synsets), workdir / FILES["wordnet"], row_group_size=ROW_GROUP)
    with (workdir / FILES["babelnet"]).open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter="\t")
        writer.writerow(HEADER)
        for n in range(ARTICLES[size]):
            title, lemmas = phrase(1, 3), "|".join(phrase(1, 2) for _ in range(rng.randint(1, 4)))
            images = "|".join(f"https://upload.example/{n}-{k}.jpg" for k in range(rng.randint(0, 3)))
            article = phrase(ARTICLE_WORDS // 2, ARTICLE_WORDS * 3 // 2)
            language, gloss = "EN" if n % 2 else "DE", phrase(5, 20)
            writer.writerow([f"bn:{n // 2:08}n", language, lemmas, gloss, title, article, images])


def reading(workdir: Path, size: Size) -> Result:
    """Read both files and look at nothing."""
    clock = Clock()
    with clock:
        for name in FILES.values():
            (workdir / name).read_bytes()
    return Result(rows=0, digest="", wall_s=clock.wall_s, cpu_s=clock.cpu_s)


def written(workdir: Path, part: str, name: str) -> Result:
    """Write a table from a file, after a smaller unit that imports what a first one imports."""
    from jobs.corpora.knowledge_base import find_files
    from jobs.kb import KbConfig
    from jobs.runtime.board import Reporter
    from jobs.runtime.configuration.config import load
    from jobs.store.runs.table_run import open_run
    from jobs.store.table_plan import TablePlan
    from jobs.store.units import unit_of_file
    from jobs.store.writer import UnitWriter
    from jobs.workers.kb import PARTS as TABLES
    from jobs.workers.kb import KnowledgeBaseUnit

    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder), "smoke")
        for number, source in enumerate((Path(folder), workdir)):
            keys = [f"knowledge_base={name}", f"knowledge_base.path={source / FILES[name]}", "out=x"]
            config = load("kb", KbConfig, keys).knowledge_base
            worker = KnowledgeBaseUnit(part=part, config=config, excluded=None)
            units = [unit_of_file(file) for file in find_files(config)]
            plan = TablePlan(f"{folder}/out{number}", TABLES[part], {}, units, {}, {}, derived=False)
            run = open_run(plan, resume=True, overwrite=False, retry=[])
            with clock if source == workdir else Clock(), UnitWriter(run.target, run.todo[0]) as writer:
                worker(run.todo[0], writer, Reporter(None, "kb"))
                if writer.counts.rejected:
                    raise ValueError(f"rejects in a clean knowledge base: {writer.counts}")
            rows = int(run.finish()["counts"]["rows_out"])
    return Result(rows=rows, digest="", wall_s=clock.wall_s, cpu_s=clock.cpu_s)


def _contenders() -> Iterator[Contender]:
    for name in FILES:
        for part in PARTS:
            function = f"{name}_{part}"
            globals()[function] = _of(part, name)
            about = f"{part} of a knowledge base like {name}"
            yield Contender(name=function, function=f"{__name__}:{function}", compared=False, about=about)


def _of(part: str, name: str) -> Callable[[Path, Size], Any]:
    return lambda workdir, size: written(workdir, part, name)


BENCHMARK = Benchmark(
    name="kb",
    about=__doc__.splitlines()[0],
    bound="parsing and writing in Python, one row at a time",
    prepare=prepare,
    contenders=(
        Contender(name="reading", function=f"{__name__}:reading", compared=False, about="the bytes of both files"),
        *_contenders(),
    ),
    reference="reading",
    packages=("pyarrow",),
)
