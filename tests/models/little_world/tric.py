"""TRIC's tables for a split of the little world, in which each picture has a twin that differs only in its year."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from statistics import mean, median, stdev

from jobs.testbed.little_world.scenes import Scene
from tests.models.little_world import questions
from tests.models.little_world.studies import twin
from tests.models.paper_tables import Table, Tables

LABELS = {"year": "Year", "words": "Words per caption", "characters": "Characters per caption"}
WIDTHS = {"year": 1, "words": 1, "characters": 10}
TWINS = 0.75  # mean of 1 and 1/2, since the captions of two equal pictures are equally likely to be first
ANSWERS = 100  # ranks that count


def split_tables(split: str, scenes: Sequence[Scene]) -> Tables:
    """Return table I, section VI.B and the histograms of figures 4 to 7, which do not depend on a model."""
    numbers = _numbers(scenes)
    described: Mapping[str, Callable[[Sequence[int]], float]] = {
        "mean": mean, "median": median, "deviation": stdev, "min": min, "max": max,
    }  # fmt: skip
    statistics: dict[tuple[str, ...], float] = {
        (split, f"{LABELS[column]} · {header}"): float(statistic(values))
        for column, values in numbers.items()
        for header, statistic in described.items()
    }
    histogram: dict[tuple[str, ...], float] = {}
    for column, values in numbers.items():
        bins = Counter(value // WIDTHS[column] for value in values)
        for place in range(min(bins), max(bins) + 1):
            histogram[LABELS[column], str(place * WIDTHS[column]), "Count"] = float(bins[place])
    count = float(len(numbers["year"]))
    return {
        "table_1": {(split, "Pictures"): count, (split, "Share"): 1.0},
        "section_6": statistics,
        f"figure_{split}": histogram,
    }


def ranking_tables(scenes: Sequence[Scene], *, encoder: str, rankings: str, judge: str) -> Tables:
    """Return table II and the table of re-ranking, for models that see pictures and read dates without mistakes.

    Args:
        encoder: the encoder's name; `rankings`: the name of the table of re-rankings; `judge`: the rater.
    """
    captions = 2 * len(scenes)
    random = sum(1 / rank for rank in range(1, captions + 1)) / captions
    table_2: dict[tuple[str, ...], float] = {("random order", "", "This split · MRR"): random}
    for date in ("no date", "year", "decade"):  # an encoder does not know when a picture was taken
        table_2[encoder, date, "This split · MRR"] = TWINS
        if date != "no date":
            table_2[encoder, date, "This split · change from no date"] = 0.0
    reranking: Table = {
        ("encoder", "", "", "MRR"): TWINS,
        (rankings, judge, "no date", "MRR"): TWINS,
        (rankings, judge, "no date", "change from the encoder"): 0.0,
        (rankings, judge, "day", "MRR"): 1.0,
        (rankings, judge, "day", "change from the encoder"): 1 - TWINS,
        (rankings, judge, "day", "change from no date"): 1 - TWINS,
    }
    return {"table_2": table_2, "reranking": reranking}


def _numbers(scenes: Sequence[Scene]) -> dict[str, list[int]]:
    shown = [scene for first in scenes for scene in (first, twin(first))]
    captions = [questions.dated_caption(scene, scene.year) for scene in shown]
    return {
        "year": [scene.year for scene in shown],
        "words": [len(caption.split()) for caption in captions],
        "characters": [len(caption) for caption in captions],
    }
