"""The results in a demo's tables, compared with the world's truth, people, chance and a simple loop."""

from collections.abc import Iterator, Mapping
from typing import Any

from actors.ids import content_id
from jobs.store.files import locations
from jobs.store.object_rows import read_unit
from jobs.store.reading import open_table
from jobs.testbed.little_world import comparison
from jobs.testbed.little_world.census import century_labels
from jobs.testbed.little_world.comparison import Compared
from jobs.testbed.little_world.corpus import World
from jobs.testbed.little_world.entities import entities
from jobs.testbed.synthetic import CorpusFacts


def counts(facts: CorpusFacts, counts_by_job: Mapping[str, Mapping[str, int]]) -> dict[str, tuple[int, int]]:
    """Return the numbers of rows from a simple loop and from the jobs."""
    return {
        "rows": (facts.rows, counts_by_job["mine"]["rows_in"]),
        "title contains a term": (facts.matched, counts_by_job["mine"]["rows_out"]),
        "curated records": (facts.unique_images, counts_by_job["curate"]["rows_out"]),
        "pictures requested": (facts.unique_images, counts_by_job["fetch"]["rows_out"]),
    }


def answers(out: str, world: World) -> Iterator[Compared]:
    """Yield how far the answers in the tables below `out` agree with the truth, with people, and with chance."""
    truths = {content_id(url): century_labels(scene) for url, scene in world.scenes.items()}
    judged, people = (_rows(out, "ratings", name) for name in ("judge", "people"))
    shown = [row for row in judged if row["status"] != "missing_input"]
    yield from comparison.accuracies(shown, truths)
    yield comparison.agreement(judged, people)
    for name, chance in (("captions", 1 / len(world.scenes)), ("feasts", 1 / len(list(entities())))):
        (first,) = (row for row in _rows(out, "metrics", name) if row["metric"] == "accuracy@1")
        yield Compared(f"{name} found first", first["value"], chance, first["n"])


def _rows(out: str, *names: str) -> list[dict[str, Any]]:
    footers = open_table(locations.join(out, *names)).footers
    return [row for unit in footers for row in read_unit(unit.object.uri).to_pylist()]
