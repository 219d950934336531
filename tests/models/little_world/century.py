"""Century's tables of what pictures show, according to the census and to people whose errors are known."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations
from statistics import mean, stdev

from actors.rubrics.rubric import Rubric
from jobs.html.formats import in_words
from tests.models.paper_tables import Tables

SCALES = ("sensitive", "controversial", "commemorative")
DIVERSITY = ("image_type", "content_type", "concept", "sub_region")
CATEGORIES = ("image_type", "time_period", "concept", "content_type", "sub_region")
NO_MAJORITY, NONE = "(no majority)", "none of the above"
PEOPLE, MODELS = "People", "All models"
LEVELS = ("1", "2", "3", "4", "5")
Cells = dict[tuple[str, ...], float | None]
Answers = Mapping[str, Mapping[str, str]]  # value by item and question


def label_tables(rubric: Rubric, truths: Answers, people: Mapping[str, Answers], *, judge: str) -> Tables:
    """Return the tables and figures of a report on labels.

    Args:
        rubric: `century_labels`.
        truths: the truth about the pictures that the judge saw, which is what it answers.
        people: each person's answers about all pictures.
        judge: the only model, which makes no mistakes.
    """
    values = {q.name: [_pooled(answer.value) for answer in q.answers] for q in rubric.questions}
    of_items = {
        item: {q: [replies[item][q] for replies in people.values()] for q in values}
        for item in next(iter(people.values()))
    }
    judged = {item: {q: [truth[q]] for q in values} for item, truth in truths.items()}
    by_people, by_judge = _majorities(of_items, values), _majorities(judged, values)
    groups = [(judge, by_judge), (MODELS, by_judge), (PEOPLE, by_people)]
    table_1: Cells = {(_titled(q), _titled(a), PEOPLE): share for (q, a), share in by_people.items()}
    table_8: Cells = {(_titled(q), _titled(a), label): s for label, shares in groups for (q, a), s in shares.items()}
    return {
        "table_1": table_1,
        "table_2": _scale_shares(of_items, judged, judge),
        "table_8": table_8,
        "figure_6": _distributions(of_items, judged, judge),
        "table_9": _reliability(of_items),
        "figure_7": _agreement(of_items, list(people)),
        "people": _participation(of_items, people),
    }


def _pooled(value: str) -> str:
    return NONE if value == "unsure" else value


def _titled(name: str) -> str:
    text = "sub-region" if name == "sub_region" else in_words(name)
    return text[:1].upper() + text[1:]


def _majorities(
    replies: Mapping[str, Mapping[str, Sequence[str]]], values: Mapping[str, Sequence[str]]
) -> dict[tuple[str, str], float]:
    """Return the share of items for which more than half of the ratings give an answer, by question and answer."""
    shares = {}
    for question in DIVERSITY:
        chosen = Counter(_majority([_pooled(v) for v in answers[question]]) for answers in replies.values())
        for answer in dict.fromkeys((*values[question], NO_MAJORITY)):
            shares[question, answer] = chosen[answer] / len(replies)
    return shares


def _majority(answers: Sequence[str]) -> str:
    ((answer, count),) = Counter(answers).most_common(1)
    return answer if 2 * count > len(answers) else NO_MAJORITY


def _scale_shares(
    people: Mapping[str, Mapping[str, Sequence[str]]], judged: Mapping[str, Mapping[str, Sequence[str]]], judge: str
) -> Cells:
    table: Cells = {}
    for question in SCALES:
        for label, replies in ((PEOPLE, people), (judge, judged), (MODELS, judged)):
            scores = [[int(value) for value in answers[question]] for answers in replies.values()]
            key = (_titled(question), label)
            table[(*key, "“Not at all” (1) · by mean")] = mean(mean(s) == 1 for s in scores)
            table[(*key, "“Somewhat” (3) or higher · by mean")] = mean(mean(s) >= 3 for s in scores)
            if label == PEOPLE:
                table[(*key, "“Somewhat” (3) or higher · by any rater")] = mean(max(s) >= 3 for s in scores)
    return table


def _distributions(
    people: Mapping[str, Mapping[str, Sequence[str]]], judged: Mapping[str, Mapping[str, Sequence[str]]], judge: str
) -> Cells:
    table: Cells = {}
    for question in SCALES:
        for label, replies in ((judge, judged), (PEOPLE, people)):
            values = [value for answers in replies.values() for value in answers[question]]
            table |= {(_titled(question), label, level): values.count(level) / len(values) for level in LEVELS}
    return table


def _reliability(people: Mapping[str, Mapping[str, Sequence[str]]]) -> Cells:
    table: Cells = {}
    for question in (*SCALES, *CATEGORIES):
        pairs = [pair for answers in people.values() for pair in combinations(answers[question], 2)]
        key = ("Ordinal" if question in SCALES else "Categorical", _titled(question))
        table[(*key, "IRR")] = mean(a == b for a, b in pairs)
        if question in SCALES:
            table[(*key, "IRR ± 1")] = mean(abs(int(a) - int(b)) <= 1 for a, b in pairs)
            table[(*key, "ICC(2,k)")] = icc2k([[int(v) for v in answers[question]] for answers in people.values()])
    return table


def icc2k(scores: Sequence[Sequence[float]]) -> float:
    """Return ICC(2,k) of scores by item and rater (Shrout and Fleiss 1979), computed from the sums of squares."""
    items, raters = len(scores), len(scores[0])
    total = mean(value for row in scores for value in row)
    of_items = [mean(row) for row in scores]
    of_raters = [mean(row[rater] for row in scores) for rater in range(raters)]
    between = raters * sum((value - total) ** 2 for value in of_items) / (items - 1)
    columns = items * sum((value - total) ** 2 for value in of_raters) / (raters - 1)
    rest = sum(
        (scores[i][r] - of_items[i] - of_raters[r] + total) ** 2 for i in range(items) for r in range(raters)
    ) / ((items - 1) * (raters - 1))
    return (between - rest) / (between + (columns - rest) / items)


def _agreement(people: Mapping[str, Mapping[str, Sequence[str]]], names: Sequence[str]) -> Cells:
    """Return how often each person gives the majority's answer on sensitivity, and where all disagree.

    The unit quality is 0 where no two people give the same of the answers no (1, 2), neither (3) and yes (4, 5).
    """
    listed = [answers["sensitive"] for answers in people.values()]
    decided = [(replies, _majority(replies)) for replies in listed if _majority(replies) != NO_MAJORITY]
    table: Cells = {
        (name, "Agreement with majority"): mean(replies[place] == most for replies, most in decided)
        for place, name in enumerate(names)
    }
    split = mean(len({(int(value) > 2) + (int(value) > 3) for value in replies}) == len(replies) for replies in listed)
    return table | {("all: pictures with unit quality 0", "Agreement with majority"): split}


def _participation(people: Mapping[str, Mapping[str, Sequence[str]]], persons: Mapping[str, Answers]) -> Cells:
    counts = [len(replies) for replies in persons.values()]
    key = ("Pictures", "Sensitive")
    return {
        (*key, "People · "): float(len(persons)),
        (*key, "Items per person · mean"): mean(counts),
        (*key, "Items per person · SD"): stdev(counts),
        # the little world's table of answers has no column that says who reported a picture
        **{(*key, f"Reported · of {noun}"): None for noun in ("ratings", "items", "people")},
    }
