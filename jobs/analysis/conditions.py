"""The conditions under which each question was answered, and the ratings that count under each.

A question of a report may be answered under several conditions, such as with and without a linked article, and then has
metrics for each. People and gold usually answer it once, without a condition: their ratings count under every
condition, so that models can be compared with them.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from jobs.analysis.rating_codes import Reduction
from jobs.analysis.reduced_question import Key
from jobs.errors import InputError
from jobs.tables import CONDITION

LIKELIHOOD = "loglik"  # method whose scores are log-likelihoods instead of points of a scale
UNCONDITIONAL = ("human", "gold")  # kinds whose ratings without a condition count under every condition
SEPARATOR = "; "  # between a context and the way of answering, as in "article; log-likelihood"


@dataclass(frozen=True)
class ConditionGroup:
    """One question under one condition.

    Attributes:
        question: rubric, question and the values of the other columns that separate questions.
        condition: empty if the ratings have none.
        key: key of the ratings under this condition in the `Reduction`.
        shared: key -> raters whose ratings without a condition count as well.
        unscaled: raters whose scores are not on the question's scale.
    """

    question: Key
    condition: str
    key: Key
    shared: Mapping[Key, Collection[str]]
    unscaled: frozenset[str] = frozenset()


def condition_groups(reduction: Reduction, kinds: Mapping[str, str]) -> dict[Key, list[ConditionGroup]]:
    """Return the conditions of each question, sorted by name.

    A person or gold rater who answered a question only without a condition counts under every condition of the others.
    All other ratings count under their own condition.

    Args:
        kinds: rater -> human, model, encoder or gold.

    Raises:
        InputError: a rater has likelihoods and scores on the scale for one question under one condition.
    """
    by_condition: dict[Key, dict[str, Key]] = {}
    for key in reduction.keys:
        question, condition = _split(key, reduction.by)
        by_condition.setdefault(question, {})[condition] = key
    groups = {}
    for question, key_of in by_condition.items():
        raters_of = {condition: set(reduction.methods_of(key)) for condition, key in key_of.items()}
        under_one = set[str]().union(*(raters for condition, raters in raters_of.items() if condition))
        everywhere = {
            name for name in raters_of.get("", set()) - under_one if kinds.get(name, "model") in UNCONDITIONAL
        }
        conditions = sorted(condition for condition, raters in raters_of.items() if raters - everywhere) or [""]
        groups[question] = [
            ConditionGroup(
                question,
                condition,
                key_of[condition],
                {key_of[""]: sorted(everywhere)} if condition and everywhere else {},
                _unscaled(question, condition, reduction.methods_of(key_of[condition])),
            )
            for condition in conditions
        ]
    return groups


def reference_for(condition: str, reference: str, present: Collection[str]) -> str:
    """Return the condition to compare `condition` with: `reference`, if possible with the same way of answering.

    Likelihoods with a linked article, "article; log-likelihood", are compared with those with the right one, "gold;
    log-likelihood", if the ratings have them (CAIRE, table 11).

    Args:
        present: the conditions of the ratings.
    """
    _, separator, way = condition.partition(SEPARATOR)
    alike = f"{reference}{separator}{way}"
    return alike if alike in present else reference


def are_separate(groups: Mapping[Key, Sequence[ConditionGroup]]) -> bool:
    """Return whether a question has several conditions; metrics then have the dim `condition`."""
    return any(len(of_question) > 1 for of_question in groups.values())


def _unscaled(question: Key, condition: str, methods: Mapping[str, set[str]]) -> frozenset[str]:
    """Return the raters whose scores are log-likelihoods."""
    unscaled = frozenset(rater for rater, used in methods.items() if LIKELIHOOD in used)
    if mixed := sorted(rater for rater in unscaled if methods[rater] != {LIKELIHOOD}):
        others = ", ".join(sorted(methods[mixed[0]] - {LIKELIHOOD}))
        raise InputError(
            f"{mixed[0]} answered {question[0]}/{question[1]} by {LIKELIHOOD} and by {others} under the "
            f"condition {condition!r}, and their scores cannot be averaged; give one of the runs another "
            "condition= or report them separately",
            key="ratings",
        )
    return unscaled


def _split(key: Key, by: Sequence[str]) -> tuple[Key, str]:
    """Return a key of the reduction without its condition, and the condition."""
    if CONDITION not in by:
        return key, ""
    position = 2 + by.index(CONDITION)
    return key[:position] + key[position + 1 :], key[position]
