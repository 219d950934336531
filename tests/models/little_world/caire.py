"""CAIRE's tables about pictures of feasts, which a judge and two people rate for their relevance to countries."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import compress
from statistics import mean, median, stdev

from jobs.testbed.little_world import census
from jobs.testbed.little_world.census import Entity
from jobs.testbed.little_world.scenes import COUNTRIES, Scene
from tests.models.little_world import knowledge_base, studies
from tests.models.little_world.table_statistics import krippendorff, pearson, ranks
from tests.models.paper_tables import Tables

SHOWN = {
    "none": "no context",
    "article": "linked article",
    "titles": "titles of linked articles",
    "gold": "right article",
}
ROWS = {  # rows of table 3, by linking method
    "lemma_vision": "Nodes of the nearest pictures, by lemma",
    "gloss_vision": "Nodes of the nearest pictures, by gloss",
    "frequency_vision": "Nodes of the nearest pictures, by frequency",
    "lemma": "All lemmas",
    "gloss": "All glosses",
    "article": "All articles",
}
DATASETS = (knowledge_base.NAMED, knowledge_base.CATALOGUED)
RELEVANT = 4  # the lowest grade of a label that counts as predicted
LEAST_PAIRS = 3  # fewest pairs for a correlation
TARGETS = tuple(country.name for country in COUNTRIES)
Cells = dict[tuple[str, ...], float | None]
Grades = Mapping[str, float]  # by country


def linking_tables(scenes: Sequence[Scene], ranks_by_method: Mapping[str, Sequence[int | None]]) -> Tables:
    """Return tables 3 and 4.

    Args:
        ranks_by_method: rank of the correct entity in the links of each scene, by method; None: not in the links.
    """
    feasts = [census.entity_of(scene) for scene in scenes]
    parts = {"All queries": [True] * len(feasts)}
    for dataset in DATASETS:
        parts[dataset] = [knowledge_base.dataset(feast) == dataset for feast in feasts]
    table_3: Cells = {}
    for method, places in ranks_by_method.items():
        for name, is_part in parts.items():
            for k in (1, 5):
                hits = [rank is not None and rank <= k for rank in compress(places, is_part)]
                table_3[ROWS[method], f"{name} · @{k}"] = mean(hits)
    sizes = {name: len(set(compress(feasts, is_part))) for name, is_part in parts.items()}
    return {"table_3": table_3, "table_4": {(name, "Entities"): float(size) for name, size in sizes.items()}}


def first_links() -> Cells:
    """Return the cells of table 3 for the first links of each data set, by an encoder that sees all and never errs."""
    return {
        (header, f"{dataset} · @1"): float(knowledge_base.is_found(dataset, method))
        for method, header in ROWS.items()
        for dataset in DATASETS
    }


def relevance_tables(scenes: Sequence[Scene], linked: Sequence[Entity | None], *, judge: str) -> Tables:
    """Return tables 1, 2, 8, 10, 11 and 14 to 17 for a judge that sees pictures and reads articles without mistakes.

    Args:
        linked: the entity that each scene's picture is linked to, whose article the judge sees; None: an entity whose
            article mentions no guests.
        judge: the judge's name.
    """
    graded = {
        condition: [_grades(scene, condition, entity) for scene, entity in zip(scenes, linked, strict=True)]
        for condition in SHOWN
    }
    people = [
        {target: _mean_of(studies.relevance_to_people(scene, target).values()) for target in TARGETS}
        for scene in scenes
    ]
    f1 = {condition: _f1(scenes, grades) for condition, grades in graded.items()}
    with_context = ("article", "titles")
    table_1: Cells = {(judge, SHOWN[condition], "F1"): f1[condition] for condition in ("none", *with_context)}
    table_1 |= {(judge, SHOWN[c], "Change from 'none'"): f1[c] - f1["none"] for c in with_context}
    table_2, table_16 = _by_country(scenes, graded, people, judge), _averaged(scenes, graded, people, judge)
    return {
        "table_1": table_1,
        "table_2": table_2,
        "table_8": {},  # likelihoods are left out
        "table_10": {(judge, SHOWN["gold"], "F1"): f1["gold"]},
        "table_11": {(judge, SHOWN[c], "Ratio"): f1[c] / f1["gold"] for c in with_context},
        "table_14": _agreement(scenes),
        "table_15": _by_concept(scenes, graded["article"], people, judge),
        "table_16": table_16,
        "table_17": _of_single_people(scenes, graded["article"]),
    }


def _grades(scene: Scene, condition: str, linked: Entity | None) -> Grades:
    """Return the grades, given what is known: the picture alone, or also an entity's article."""
    article = {"article": linked, "gold": census.entity_of(scene)}.get(condition)
    grades = census.cultural_relevance(scene, guests=article.guests if article else "")
    return {target: float(grade) for target, grade in grades.items()}


def _mean_of(grades: Iterable[str]) -> float:
    return mean(float(grade) for grade in grades)


def _f1(scenes: Sequence[Scene], graded: Sequence[Grades]) -> float:
    right, errors = 0, 0  # errors: labels that are either predicted or correct, but not both
    for scene, grades in zip(scenes, graded, strict=True):
        gold = {scene.country_name, census.entity_of(scene).guests}
        predicted = {target for target, grade in grades.items() if grade >= RELEVANT}
        right, errors = right + len(gold & predicted), errors + len(gold ^ predicted)
    return 2 * right / (2 * right + errors)


def _correlation(first: Sequence[float], second: Sequence[float]) -> float | None:
    if len(first) < LEAST_PAIRS or len(set(first)) == 1 or len(set(second)) == 1:
        return None
    return pearson(first, second)


def _mean_correlation(graded: Sequence[Grades], people: Sequence[Grades]) -> float | None:
    """Return the mean over pictures of the correlation over countries."""
    values = [
        value
        for grades, answers in zip(graded, people, strict=True)
        if (value := _correlation([grades[t] for t in TARGETS], [answers[t] for t in TARGETS])) is not None
    ]
    return mean(values) if values else None


def _chosen(values: Sequence[Grades], scenes: Sequence[Scene], is_chosen: Callable[[Scene], bool]) -> list[Grades]:
    return [value for value, scene in zip(values, scenes, strict=True) if is_chosen(scene)]


def _by_country(
    scenes: Sequence[Scene], graded: Mapping[str, Sequence[Grades]], people: Sequence[Grades], judge: str
) -> Cells:
    table: Cells = {}
    for condition, grades in graded.items():
        table[judge, SHOWN[condition], "All · "] = _mean_correlation(grades, people)
        for country in {scene.country_name for scene in scenes}:

            def is_there(scene: Scene, country: str = country) -> bool:
                return scene.country_name == country

            parts = (_chosen(values, scenes, is_there) for values in (grades, people))
            table[judge, SHOWN[condition], f"{country} · "] = _mean_correlation(*parts)
    return table


def _by_concept(scenes: Sequence[Scene], grades: Sequence[Grades], people: Sequence[Grades], judge: str) -> Cells:
    table: Cells = {}
    for shape in {scene.shape for scene in scenes}:

        def is_shown(scene: Scene, shape: str = shape) -> bool:
            return scene.shape == shape

        parts = (_chosen(values, scenes, is_shown) for values in (grades, people))
        table[shape, f"{judge}, {SHOWN['article']} · "] = _mean_correlation(*parts)
    return table


def _averaged(
    scenes: Sequence[Scene], graded: Mapping[str, Sequence[Grades]], people: Sequence[Grades], judge: str
) -> Cells:
    table: Cells = {}
    for condition, grades in graded.items():
        by_concept = []
        for shape in {scene.shape for scene in scenes}:

            def is_shown(scene: Scene, shape: str = shape) -> bool:
                return scene.shape == shape

            parts = [_average(_chosen(values, scenes, is_shown)) for values in (grades, people)]
            by_concept.append(_correlation(*parts))
        defined = [value for value in by_concept if value is not None]
        table[judge, SHOWN[condition], "Averaged by concept · "] = mean(defined) if defined else None
        table[judge, SHOWN[condition], "Averaged over all · "] = _correlation(_average(grades), _average(people))
    return table


def _average(values: Sequence[Grades]) -> list[float]:
    return [mean(value[target] for value in values) for target in TARGETS]


def _of_each_person(scenes: Sequence[Scene], target: str) -> dict[str, list[float]]:
    replies = [studies.relevance_to_people(scene, target) for scene in scenes]
    return {person: [float(reply[person]) for reply in replies] for person in replies[0]}


def _agreement(scenes: Sequence[Scene]) -> Cells:
    table: Cells = {}
    for target in TARGETS:
        ada, bela = _of_each_person(scenes, target).values()
        rows = [*zip(ada, bela, strict=True)]
        is_constant = len({*ada, *bela}) == 1
        for level in ("ordinal", "interval"):
            alpha = None if is_constant else krippendorff(rows, level)
            table[f"Krippendorff's alpha, {level}", f"{target} · "] = alpha
        table["Spearman, mean over pairs", f"{target} · "] = _correlation(ranks(ada), ranks(bela))
        table["Pearson, mean over pairs", f"{target} · "] = _correlation(ada, bela)
    for measure in dict.fromkeys(row[0] for row in table):
        values = [value for (name, _), value in table.items() if name == measure and value is not None]
        table[measure, "Avg. · "] = mean(values) if values else None
    return table


def _of_single_people(scenes: Sequence[Scene], graded: Sequence[Grades]) -> Cells:
    statistics: Mapping[str, Callable[[Sequence[float]], float]] = {
        "Mean": mean, "Maximum": max, "Minimum": min, "Median": median,
    }  # fmt: skip
    table: Cells = {}
    for target in TARGETS:
        scores = [grades[target] for grades in graded]
        of_people = _of_each_person(scenes, target)
        correlations = [value for replies in of_people.values() if (value := _correlation(scores, replies)) is not None]
        for header, statistic in statistics.items():
            table[target, f"{header} · "] = statistic(correlations) if correlations else None
        table[target, "SD · "] = stdev(correlations) if len(correlations) > 1 else None
        averages = [mean(pair) for pair in zip(*of_people.values(), strict=True)]
        table[target, "With the average · "] = _correlation(scores, averages)
    return table
