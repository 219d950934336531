"""Work of the driver of `terms`: the choice among a table of entities, and the lines of models' responses."""

import json
import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.benchmarks.child import Result
from tests.benchmarks.clock import Clock
from tests.benchmarks.harness import Benchmark, Contender, Size

ENTITIES: dict[Size, int] = {"smoke": 200, "default": 40_000, "full": 400_000}
RESPONSES: dict[Size, int] = {"smoke": 20, "default": 2_000, "full": 20_000}
UNITS, TITLES = 4, 40
WARM = "warm"  # folder of small tables, of which the first run imports what is needed


def prepare(workdir: Path, size: Size) -> None:
    """Write both tables, and small ones."""
    folders: tuple[tuple[Path, Size], ...] = ((workdir / WARM, "smoke"), (workdir, size))
    for folder, of_size in folders:
        _write_entities(folder, ENTITIES[of_size])
        _write_responses(folder, RESPONSES[of_size])


def _write_entities(folder: Path, count: int) -> None:
    import pyarrow as pa

    from jobs.store.files.objects import Object
    from jobs.store.runs.table_run import open_run
    from jobs.store.table_plan import TablePlan
    from jobs.store.units import Unit
    from jobs.store.writer import UnitWriter
    from jobs.tables import TABLES
    from jobs.terms_from.dump import SPAN
    from jobs.terms_from.graph_passes import GraphInput

    graph = GraphInput.of(_config(["source.path=x"]))
    names, rng = [concept.name for concept in graph.concepts.concepts], random.Random("entities")
    instance = graph.graph.instance_property
    share = count // UNITS
    units = [Unit(f"u{n}", (Object("dump", 1, ""),), rows=share, extra={SPAN: [n, n + 1]}) for n in range(UNITS)]
    plan = TablePlan(f"{folder}/entities", "entities", {}, units, {}, graph.hashes, derived=False)
    run = open_run(plan, resume=True, overwrite=False, retry=[])
    for number, task in enumerate(run.todo):
        rows = [
            {
                "entity_id": f"Q{1 + number * share + n}",
                "label": f"Battle of place {n}",
                "aliases": [f"{n} battle", f"Fight at {n}"],
                "title": f"Battle of place {n} ({rng.randint(1000, 2020)})",
                "entity_type": "event",
                "entity_date": "1914-07-28",
                "first_year": (year := rng.randint(1500, 2020)),
                "last_year": year,
                "links": [f"{instance}={name}" for name in rng.sample(names, rng.randint(1, 2))],
                "neighbors": [],
                "sites": rng.randint(1, 80),
            }
            for n in range(share)
        ]
        with UnitWriter(run.target, task) as writer:
            writer.write(pa.Table.from_pylist(rows, schema=TABLES["entities"].schema()))
            writer.counts.rows_in = len(rows)
    run.finish()


def _write_responses(folder: Path, count: int) -> None:
    from tests.factories import write_units

    rng = random.Random("responses")
    topics = _config(["source=language_model", "responses=[x]"]).topics
    categories = [(name, topic) for name, entries in topics["categories"].items() for topic in entries]

    def line(title: str) -> str:
        category, topic = rng.choice(categories)
        region = rng.choice(topics["sub_regions"])
        return json.dumps({"sub_region": region, "category": category, "topic": topic, "page_title": title})

    def response(number: int) -> dict[str, Any]:
        text = "\n".join(line(f"Page {rng.randrange(10**6)} of history") for _ in range(TITLES))
        columns = {"item_id": "request", "model": "m", "prompt": "page_titles", "condition": "", "status": "ok"}
        return {"response_id": f"{number:032x}", "sample": number, "text": text, **columns}

    rows = [response(number) for number in range(count)]
    write_units(f"{folder}/responses", "responses", [rows[n::UNITS] for n in range(UNITS)])


def _config(keys: list[str]) -> Any:
    from jobs.runtime.configuration.config import load
    from jobs.terms_from.terms_config import TermSourcesConfig

    return load("terms", TermSourcesConfig, [*keys, "out=x"])


def choice(workdir: Path, size: Size) -> Result:
    """Entities to terms, with all counts."""
    return _timed(workdir, lambda folder: ["source=wikidata", f"entities={folder}/entities"])


def titles(workdir: Path, size: Size) -> Result:
    """Responses with 40 titles each to terms, with all counts."""
    return _timed(workdir, lambda folder: ["source=language_model", f"responses=[{folder}/responses]"])


def _timed(workdir: Path, keys: Callable[[Path], list[str]]) -> Result:
    from jobs.runtime.command_line import cli

    clock = Clock()
    with tempfile.TemporaryDirectory() as out:
        cli.execute("terms", [*keys(workdir / WARM), f"out={out}/warm"])
        with clock:
            manifest = cli.execute("terms", [*keys(workdir), f"out={out}/terms"])
    assert isinstance(manifest, dict)
    return Result(rows=manifest["counts"]["rows_out"], digest="", wall_s=clock.wall_s, cpu_s=clock.cpu_s)


BENCHMARK = Benchmark(
    name="terms_driver",
    about=__doc__,
    bound="Python, one entity or line at a time",
    prepare=prepare,
    contenders=(
        Contender(name="choice", function=f"{__name__}:choice", compared=False, about="source=wikidata entities="),
        Contender(name="titles", function=f"{__name__}:titles", compared=False, about="source=language_model"),
    ),
    reference="choice",
    packages=("pyarrow",),
)
