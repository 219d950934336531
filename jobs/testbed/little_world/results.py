"""The results in a demo's tables, compared with the world's truth, people, chance and a simple loop."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from actors.ids import content_id
from jobs.errors import RunError
from jobs.store.files import locations
from jobs.store.object_rows import read_unit
from jobs.store.reading import open_table
from jobs.testbed.little_world.census import century_labels
from jobs.testbed.little_world.corpus import World
from jobs.testbed.little_world.entities import entities
from jobs.testbed.synthetic import CorpusFacts


class Compared(NamedTuple):
    """A share of correct answers, the share expected from guessing, and the number of answers."""

    name: str
    share: float
    chance: float
    n: int

    @property
    def least(self) -> float:
        """The share that models must reach to count as working: halfway between chance and 1."""
        return (1 + self.chance) / 2

    def __str__(self) -> str:
        return f"{self.name:24}{self.share:12.2f}{self.chance:12.2f}"


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
    yield from accuracies(shown, truths)
    yield agreement(judged, people)
    for name, chance in (("captions", 1 / len(world.scenes)), ("feasts", 1 / len(list(entities())))):
        (first,) = (row for row in _rows(out, "metrics", name) if row["metric"] == "accuracy@1")
        yield Compared(f"{name} found first", first["value"], chance, first["n"])


def _rows(out: str, *names: str) -> list[dict[str, Any]]:
    footers = open_table(locations.join(out, *names)).footers
    return [row for unit in footers for row in read_unit(unit.object.uri).to_pylist()]


def accuracies(ratings: Iterable[Mapping[str, Any]], truths: Mapping[str, Mapping[str, str]]) -> list[Compared]:
    """Return the share of correct answers to each question.

    Args:
        ratings: rows of the table `ratings`; rows that are not ok count as wrong.
        truths: the true value of each question, by item.
    """
    right: dict[str, list[bool]] = defaultdict(list)
    options: dict[str, int] = {}
    for row in ratings:
        truth = truths[row["item_id"]][row["question"]]
        right[row["question"]].append(row["status"] == "ok" and row["value"] == truth)
        options[row["question"]] = max(options.get(row["question"], 1), len(row["answers"] or ()))
    return [Compared(name, sum(hits) / len(hits), 1 / options[name], len(hits)) for name, hits in right.items()]


def agreement(ratings: Iterable[Mapping[str, Any]], people: Iterable[Mapping[str, Any]]) -> Compared:
    """Return how often a judge gives a person's answer, and how often it would without looking at the picture.

    Chance is the share of equal answers among all pairs of a judge's and a person's answer to the same question.
    """
    judge_answers = {(row["item_id"], row["question"]): row["value"] for row in ratings if row["status"] == "ok"}
    judged: dict[str, list[str]] = defaultdict(list)
    for (_, question), value in judge_answers.items():
        judged[question].append(value)
    equal, expected = [], []
    for row in people:
        if (row["item_id"], row["question"]) in judge_answers:
            equal.append(judge_answers[row["item_id"], row["question"]] == row["value"])
            answers = judged[row["question"]]
            expected.append(answers.count(row["value"]) / len(answers))
    if not equal:
        return Compared("agreement with people", 0.0, 0.0, 0)
    return Compared("agreement with people", sum(equal) / len(equal), sum(expected) / len(expected), len(equal))


def check(answers: Sequence[Compared]) -> None:
    """Check that the models' answers depend on the pictures.

    Raises:
        RunError: a share is closer to chance than to 1.
    """
    if low := [f"{a.name} ({a.share:.2f}; at least {a.least:.2f})" for a in answers if a.share < a.least]:
        raise RunError(
            f"demo: {', '.join(low)}: too few right answers; the installed torch or transformers may compute other "
            "values than the versions in constraints.txt; install those"
        )
