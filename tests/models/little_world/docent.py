"""DOCENT's tables for descriptions with planted mistakes and omissions, and two people, one of whom overlooks some."""

import re
from collections.abc import Callable, Mapping, Sequence
from statistics import mean
from typing import NamedTuple

from jobs.testbed.little_world import scene_texts
from jobs.testbed.little_world.scene_texts import Planted
from jobs.testbed.little_world.scenes import Scene
from tests.models.little_world.table_statistics import pearson, ranks
from tests.models.paper_tables import Table, Tables

KINDS = {"mistake": "Mistakes", "omission": "Omissions"}
PEOPLE = "people"
Place = tuple[int, int]


class Described(NamedTuple):
    """A description, its writer, and the places that each person marks in it, by kind."""

    scene: Scene
    writer: str
    planted: Planted
    marks: Mapping[str, Mapping[str, tuple[Place, ...]]]  # places by person and kind


def planted_places(scene: Scene, planted: Planted) -> dict[str, tuple[Place, ...]]:
    """Return the places of the mistakes in the generated description, and of the omissions in the true one."""
    return {
        "mistake": tuple(scene_texts.places(planted.text, planted.described, planted.wrong)),
        "omission": tuple(scene_texts.places(scene_texts.description(scene), scene, planted.omitted)),
    }


def tables(described: Sequence[Described], *, markers: Sequence[str]) -> Tables:
    """Return all tables of the report.

    Args:
        markers: labels of the models that mark spans, none of which makes mistakes.
    """
    marks_of: dict[str, Callable[[Described], list[Mapping[str, tuple[Place, ...]]]]] = {
        PEOPLE: lambda description: list(description.marks.values())
    }
    marks_of |= dict.fromkeys(markers, lambda description: [planted_places(description.scene, description.planted)])
    scores: dict[tuple[str, ...], float | None] = {}
    for writer in [*dict.fromkeys(description.writer for description in described), "all"]:
        chosen = [description for description in described if writer in (description.writer, "all")]
        for label, marks in marks_of.items():
            values = [_scores(description, marks(description)) for description in chosen]
            scores |= {(writer, label, column): mean(v[column] for v in values) for column in values[0]}
    figure = {key: value for key, value in scores.items() if key[0] != "all" and key[-1] in ("Precision", "Coverage")}
    return {
        "docent_scores": scores,
        "docent_scores_figure": figure,
        "docent_spans": _spans(described, markers),
        "docent_measures": _measures(described, marks_of),
    }


def _scores(description: Described, marks: Sequence[Mapping[str, tuple[Place, ...]]]) -> dict[str, float]:
    """Return the means over raters; a planted word is a token of its text."""
    generated, correct = (len(re.findall(r"\w+|[^\w\s]", text)) for text in
                          (description.planted.text, scene_texts.description(description.scene)))  # fmt: skip
    mistakes, omissions = (mean(len(marked[kind]) for marked in marks) for kind in KINDS)
    return {
        "Mistakes": mistakes,
        "Mistakes, share of tokens": mistakes / generated,
        "Precision": 1 - mistakes / generated,
        "Omissions": omissions,
        "Omissions, share of tokens": omissions / correct,
        "Coverage": 1 - omissions / correct,
    }


def _spans(described: Sequence[Described], markers: Sequence[str]) -> Table:
    """Return precision, recall and F1 against people: each text counts for each pair of a rater and another person.

    Marked words are not adjacent, and are marked entirely or not at all.
    """
    sizes: Mapping[str, Callable[[Place], int]] = {
        "Characters": lambda place: place[1] - place[0], "Tokens": lambda _: 1, "Spans": lambda _: 1,
    }  # fmt: skip
    table: dict[tuple[str, ...], float | None] = {}
    for kind, header in KINDS.items():
        pairs: dict[str, list[tuple[set[Place], set[Place]]]] = {label: [] for label in (PEOPLE, *markers)}
        for description in described:
            people = {name: set(marked[kind]) for name, marked in description.marks.items()}
            true = set(planted_places(description.scene, description.planted)[kind])
            pairs[PEOPLE] += [(people[a], people[b]) for a in people for b in people if a != b]
            for marker in markers:
                pairs[marker] += [(true, marked) for marked in people.values()]
        for label, listed in pairs.items():
            for unit, size in sizes.items():
                both, marked, gold = (
                    sum(size(place) for pair in listed for place in chosen(pair))
                    for chosen in (lambda pair: pair[0] & pair[1], lambda pair: pair[0], lambda pair: pair[1])
                )
                key = (header, label, unit)
                table |= {
                    (*key[:2], f"{unit} · Precision"): both / marked,
                    (*key[:2], f"{unit} · Recall"): both / gold,
                    (*key[:2], f"{unit} · F1"): 2 * both / (marked + gold),
                }
    return table


def _measures(
    described: Sequence[Described], marks_of: Mapping[str, Callable[[Described], list[Mapping[str, tuple[Place, ...]]]]]
) -> Table:
    """Return the correlations over descriptions between each model's scores and people's."""
    scores = {
        label: [_scores(description, marks(description)) for description in described]
        for label, marks in marks_of.items()
    }
    columns: Mapping[str, Callable[[Mapping[str, float]], float]] = {
        "Precision": lambda s: s["Precision"],
        "Coverage": lambda s: s["Coverage"],
        "Quality": lambda s: (s["Precision"] + s["Coverage"]) / 2,
    }
    table: dict[tuple[str, ...], float | None] = {}
    for label in marks_of:
        if label == PEOPLE:
            continue
        for header, column in columns.items():
            by_label, by_people = ([column(score) for score in scores[name]] for name in (label, PEOPLE))
            table[label, f"{header} · Pearson"] = pearson(by_label, by_people)
            table[label, f"{header} · Spearman"] = pearson(ranks(by_label), ranks(by_people))
    return table
