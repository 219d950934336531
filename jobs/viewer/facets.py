"""The options of the pages' filters: the distinct values of each column, with their counts, and histograms of numbers.

Of the attributes of items, such as columns of a user's file, all are searched, those with few values have a filter with
a bar for each value, and those of numbers a histogram. The counts of the side bar follow all other filters.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from jobs.html.formats import REGIONS, in_words
from jobs.judging.kept_rubric import Rubrics
from jobs.viewer.queries import ATTRIBUTE, EMPTY, HIGHEST, LOWEST, View, as_number, fetch, picture_conditions

if TYPE_CHECKING:
    import duckdb

MOST, MOST_ANSWERS = 1000, 200  # options of a filter, and answers of one question
MOST_NUMBERS = 24  # histograms of the side bar
BINS = 24  # of a histogram
SCORE, PROBABILITY, DISAGREEMENT = "score.", "probability.", "disagreement"  # names of numbers that come from ratings
MAP = "map."  # prefix of the coordinates on the map


class FilterOption(NamedTuple):
    """A value of a filter, its label, and how many rows have it."""

    value: str
    label: str
    rows: int


class NumberRange(NamedTuple):
    """The label and the range of a number of pictures, and the heading that it is below."""

    label: str
    low: float
    high: float
    group: str

    @property
    def step(self) -> float:
        """The step of a slider: 1 for whole numbers, else about a hundredth of the range, as a power of ten."""
        width = self.high - self.low
        if self.low % 1 == self.high % 1 == 0 and width >= BINS:
            return 1.0
        return float(10.0 ** math.floor(math.log10(width / 50)))

    @property
    def decimals(self) -> int:
        """The decimals of its slider's values."""
        return max(0, -round(math.log10(self.step)))

    @property
    def ends(self) -> tuple[float, float]:
        """The ends of the slider: multiples of its step that contain the range."""
        return math.floor(self.low / self.step) * self.step, math.ceil(self.high / self.step) * self.step


@dataclass(frozen=True)
class SideBar:
    """How many pictures have each value, among those that all other filters leave.

    Attributes:
        regions: region -> pictures; tags: tag -> pictures, `EMPTY` -> those without one; attributes: name -> value ->
            pictures.
        histograms: name of a number -> pictures in each of `BINS` bins of its range.
    """

    regions: Mapping[str, int]
    tags: Mapping[str, int]
    attributes: Mapping[str, Mapping[str, int]]
    histograms: Mapping[str, Sequence[int]]


@dataclass(frozen=True)
class Facets:
    """The values of each filter, the most frequent first; questions are in the order of their rubrics.

    Attributes:
        region_label: the name of the attribute that the regions come from, if it is a single one, else `region`.
        attributes: name of an attribute of the items -> its values, in order.
        values: question (`rubric/question`) -> its answers.
        numbers: name of a number of pictures -> its range.
    """

    statuses: Sequence[FilterOption]
    regions: Sequence[FilterOption]
    region_label: str
    attributes: dict[str, Sequence[FilterOption]]
    raters: Sequence[FilterOption]
    questions: Sequence[FilterOption]
    values: dict[str, Sequence[FilterOption]]
    rated: Sequence[FilterOption]
    targets: Sequence[FilterOption]
    models: Sequence[FilterOption]
    prompts: Sequence[FilterOption]
    refusals: Sequence[FilterOption]
    span_raters: Sequence[FilterOption]
    span_kinds: Sequence[FilterOption]
    categories: Sequence[FilterOption]
    response_statuses: Sequence[FilterOption]
    numbers: dict[str, NumberRange]
    metrics: Sequence[FilterOption]
    conditions: Sequence[FilterOption]
    tags: Sequence[FilterOption]
    has_map: bool


def read_facets(cursor: "duckdb.DuckDBPyConnection", rubrics: Rubrics) -> Facets:
    """Return the values of all filters."""

    def options(column: str, table: str, where: str = "true") -> list[FilterOption]:
        rows = fetch(
            cursor,
            f"SELECT {column} AS value, count(*) AS n FROM {table} WHERE {where} AND {column} <> '' GROUP BY ALL "
            f"ORDER BY n DESC, value LIMIT {MOST}",
        )
        return [FilterOption(row["value"], row["value"], row["n"]) for row in rows]

    return Facets(
        statuses=options("status", "pictures"),
        regions=sorted(options("region", "pictures"), key=lambda option: option.value),
        region_label=region_label(cursor),
        attributes=_attributes(cursor),
        raters=options("rater", "ratings"),
        questions=_questions(cursor, rubrics),
        values=_values(cursor, rubrics),
        rated=options("status", "ratings"),
        targets=options("target", "ratings"),
        models=options("model", "responses"),
        prompts=options("prompt", "responses"),
        refusals=options("refusal_kind", "responses"),
        span_raters=options("rater", "spans"),
        span_kinds=options("kind", "spans"),
        categories=options("category", "spans"),
        response_statuses=options("status", "responses"),
        numbers=_numbers(cursor),
        metrics=options("metric", "metrics"),
        conditions=_conditions(cursor),
        tags=_tags(options("tag", "tags SEMI JOIN pictures USING (image_id)")),
        has_map=bool(fetch(cursor, "SELECT 1 FROM map_points LIMIT 1")),
    )


def _conditions(cursor: "duckdb.DuckDBPyConnection") -> list[FilterOption]:
    """Return the conditions of the ratings; none if all have the same."""
    rows = fetch(cursor, "SELECT condition, count(*) AS n FROM ratings GROUP BY ALL ORDER BY condition")
    return [FilterOption(row["condition"] or EMPTY, row["condition"] or "none", row["n"]) for row in rows[:MOST]
            if len(rows) > 1]  # fmt: skip


def _tags(tags: Sequence[FilterOption]) -> list[FilterOption]:
    """Return the tags in alphabetical order and, after them, the option for pictures without one."""
    ordered = sorted(tags, key=lambda option: option.value.casefold())
    return [*ordered, FilterOption(EMPTY, "untagged", 0)] if ordered else []


def _numbers(cursor: "duckdb.DuckDBPyConnection") -> dict[str, NumberRange]:
    """Return the range of each number that differs between pictures: attributes first, then scores of questions."""
    rows = fetch(
        cursor,
        "SELECT name, min(value) AS low, max(value) AS high FROM picture_numbers GROUP BY name"
        " HAVING min(value) < max(value)",
    )
    groups = {ATTRIBUTE: "Numbers", SCORE: "Mean score", PROBABILITY: "Probability of the answers",
              DISAGREEMENT: "Raters", MAP: "Place on the map"}  # fmt: skip
    ranges: dict[str, NumberRange] = {}
    for row in sorted(rows, key=lambda row: row["name"]):
        prefix = next(prefix for prefix in groups if row["name"].startswith(prefix))
        label = row["name"].removeprefix(prefix) or row["name"]
        ranges[row["name"]] = NumberRange(label, row["low"], row["high"], groups[prefix])
    questions = {name.removeprefix(SCORE).partition("/")[0] for name in ranges if name.startswith(SCORE)}
    if len(questions) == 1:  # of a single rubric, whose name says nothing
        ranges = {name: kept._replace(label=kept.label.removeprefix(f"{next(iter(questions))}/"))
                  for name, kept in ranges.items()}  # fmt: skip
    order = list(groups.values())
    by_group = sorted(ranges, key=lambda name: order.index(ranges[name].group))
    return {name: ranges[name] for name in by_group[:MOST_NUMBERS]}


def side_bar(cursor: "duckdb.DuckDBPyConnection", view: View, facets: Facets) -> SideBar:
    """Return the counts of the side bar. Each filter counts among the pictures that all other filters leave."""
    of_one: dict[str, dict[str, int]] = {"region": {}, "tag": {}}
    attributes: dict[str, dict[str, int]] = {}
    histograms: dict[str, list[int]] = {}
    none: set[str] = set()
    of_attributes = {name for name, _ in view.attributes} & facets.attributes.keys()
    of_numbers = {name.removeprefix(LOWEST).removeprefix(HIGHEST) for name, _ in view.bounds} & facets.numbers.keys()
    free = {name for name in of_one if not getattr(view, name)}
    views = [(view, free, facets.attributes.keys() - of_attributes, facets.numbers.keys() - of_numbers)]
    without: dict[str, View] = {"region": replace(view, region=""), "tag": replace(view, tag="")}
    views += [(without[name], {name}, none, none) for name in of_one.keys() - free]
    for name in of_attributes:
        attributes_left = tuple(pair for pair in view.attributes if pair[0] != name)
        views.append((replace(view, attributes=attributes_left), none, {name}, none))
    for name in of_numbers:
        bounds_left = tuple(bound for bound in view.bounds if bound[0] not in (LOWEST + name, HIGHEST + name))
        views.append((replace(view, bounds=bounds_left), none, none, {name}))
    for other, single, names, numbers in views:
        where, parameters = picture_conditions(other)
        cursor.execute(
            f"CREATE OR REPLACE TEMP TABLE matched AS SELECT p.image_id, p.region FROM pictures p WHERE {where}",
            parameters,
        )
        if "region" in single and facets.regions:
            rows = fetch(cursor, "SELECT region, count(*) AS n FROM matched GROUP BY region")
            of_one["region"] = {row["region"]: row["n"] for row in rows}
        if "tag" in single and facets.tags:
            of_one["tag"] = {row["tag"]: row["n"] for row in fetch(cursor, _COUNTED_TAGS)}
        if names:
            for row in fetch(cursor, _COUNTED_VALUES, [list(names)]):
                attributes.setdefault(row["name"], {})[row["value"]] = row["n"]
        if numbers:
            for row in fetch(cursor, _COUNTED_BINS, [list(numbers)]):
                histograms.setdefault(row["name"], [0] * BINS)[row["bin"]] = row["n"]
    return SideBar(of_one["region"], of_one["tag"], attributes, histograms)


_COUNTED_TAGS = f"""
    SELECT coalesce(t.tag, '{EMPTY}') AS tag, count(*) AS n
    FROM matched m LEFT JOIN tags t ON t.image_id = m.image_id GROUP BY ALL
"""
_COUNTED_VALUES = """
    SELECT a.name, a.value, count(*) AS n FROM picture_attributes a SEMI JOIN matched m ON m.image_id = a.image_id
    WHERE list_contains(?, a.name) GROUP BY a.name, a.value
"""
_COUNTED_BINS = f"""
    WITH ranges AS (SELECT name, min(value) AS low, max(value) AS high FROM picture_numbers GROUP BY name)
    SELECT n.name, least(floor((n.value - g.low) / (g.high - g.low) * {BINS}), {BINS - 1})::INTEGER AS bin,
           count(*) AS n
    FROM picture_numbers n SEMI JOIN matched m ON m.image_id = n.image_id JOIN ranges g USING (name)
    WHERE list_contains(?, n.name) GROUP BY ALL
"""


def _attributes(cursor: "duckdb.DuckDBPyConnection") -> dict[str, Sequence[FilterOption]]:
    """Return the values of each attribute that has a filter, with the number of pictures that have them."""
    rows = fetch(
        cursor,
        "SELECT a.name, a.value, count(DISTINCT a.image_id) AS n FROM picture_attributes a SEMI JOIN pictures p"
        " ON a.image_id = p.image_id JOIN filters f USING (name)"
        " GROUP BY a.name, a.value, f.place ORDER BY f.place, a.name",
    )
    values: dict[str, list[FilterOption]] = {}
    for row in rows:
        values.setdefault(row["name"], []).append(FilterOption(row["value"], row["value"], row["n"]))
    return {name: sorted(options, key=lambda option: as_number(option.value)) for name, options in values.items()}


def _questions(cursor: "duckdb.DuckDBPyConnection", rubrics: Rubrics) -> list[FilterOption]:
    rows = fetch(cursor, "SELECT rubric, question, count(*) AS n FROM ratings GROUP BY ALL ORDER BY rubric, question")
    several = len({row["rubric"] for row in rows}) > 1
    place = {
        (kept.name, asked.name): number
        for kept in rubrics.by_name.values()
        for number, asked in enumerate(kept.questions)
    }
    rows.sort(key=lambda row: (row["rubric"], place.get((row["rubric"], row["question"]), len(place)), row["question"]))
    return [
        FilterOption(
            f"{row['rubric']}/{row['question']}",
            f"{row['rubric']}: {row['question']}" if several else in_words(row["question"]),
            row["n"],
        )
        for row in rows[:MOST]
    ]


def _values(cursor: "duckdb.DuckDBPyConnection", rubrics: Rubrics) -> dict[str, Sequence[FilterOption]]:
    """Return the answers that were given to each question, in the order of the rubric."""
    rows = fetch(
        cursor,
        f"""SELECT rubric, question, value, count(*) AS n FROM ratings WHERE value IS NOT NULL
            GROUP BY rubric, question, value
            QUALIFY row_number() OVER (PARTITION BY rubric, question ORDER BY count(*) DESC, value) <= {MOST_ANSWERS}
            ORDER BY n DESC, value""",
    )
    values: dict[str, list[FilterOption]] = {}
    for row in rows:
        kept = rubrics.question(row["rubric"], row["question"])
        labels = {answer.value: answer.label for answer in kept.answers} if kept else {}
        label = labels.get(row["value"]) or row["value"]
        shown = label if label == row["value"] else f"{row['value']} — {label}"
        values.setdefault(f"{row['rubric']}/{row['question']}", []).append(FilterOption(row["value"], shown, row["n"]))
    for question, options in values.items():
        rubric, _, name = question.partition("/")
        kept = rubrics.question(rubric, name)
        listed = [answer.value for answer in kept.answers] if kept else []
        options.sort(key=lambda option: listed.index(option.value) if option.value in listed else len(listed))
    return dict(values)


MOST_FILTERS, MOST_VALUES = 8, 50  # attributes with a filter, and values of each
FEWEST_NUMBERS, LEAST_NUMBERS = 8, 0.9  # distinct values of an attribute with a histogram, and share of its numbers
_REGIONS = ", ".join(f"('{name}', {place})" for place, name in enumerate(REGIONS))

# `picture_attributes` has each value of a picture once; `alone` means that the item shows no other picture, so that its
# title can be the picture's. A rated item without an attribute has those of its pictures in `item_attributes`.
# `filters` has the attributes with at least two values, but fewer than half as many as items, in the order of the
# columns. The attribute for the region is left out: it has the filter of regions.
SHOWN_ATTRIBUTES = f"""
CREATE TABLE item_attributes AS
    SELECT item_id, len(image_ids) = 1 AS alone, unnest(map_keys(attributes)) AS name,
           unnest(map_values(attributes)) AS value, generate_subscripts(map_keys(attributes), 1) AS place
    FROM items;
DELETE FROM item_attributes WHERE value IS NULL OR value = '';
CREATE TABLE region_attributes AS
    SELECT n.name FROM (VALUES {_REGIONS}) n(name, place) SEMI JOIN item_attributes a ON a.name = n.name
    ORDER BY n.place;
CREATE TABLE filters AS
    SELECT name, min(place) AS place FROM item_attributes
    WHERE name NOT IN (SELECT name FROM region_attributes LIMIT 1)
    GROUP BY name
    HAVING count(DISTINCT value) BETWEEN 2 AND {MOST_VALUES} AND 2 * count(DISTINCT value) < count(DISTINCT item_id)
    ORDER BY place, name LIMIT {MOST_FILTERS};
CREATE TABLE picture_attributes AS
    SELECT s.image_id, a.name, a.value, bool_or(a.alone) AS alone
    FROM item_attributes a JOIN subjects s USING (item_id) GROUP BY ALL;
INSERT INTO item_attributes
    SELECT DISTINCT s.item_id, false, a.name, a.value, 0
    FROM subjects s SEMI JOIN ratings r ON r.item_id = s.item_id
    JOIN picture_attributes a ON a.image_id = s.image_id
    ANTI JOIN item_attributes o ON o.item_id = s.item_id AND o.name = a.name;
CREATE TABLE picture_numbers AS
    SELECT image_id, '{ATTRIBUTE}' || name AS name, avg(try_cast(value AS DOUBLE)) AS value
    FROM picture_attributes WHERE name IN (
        SELECT name FROM picture_attributes GROUP BY name
        HAVING count(DISTINCT value) >= {FEWEST_NUMBERS}
            AND count(*) FILTER (isfinite(try_cast(value AS DOUBLE))) >= {LEAST_NUMBERS} * count(*)
    ) AND isfinite(try_cast(value AS DOUBLE)) GROUP BY ALL;
"""

# The means over the lines of ratings about a picture and the items that show it; `lines` has one line per question,
# target and condition. The probabilities are those of the answers that were given.
RATED_NUMBERS = f"""
    SELECT u.image_id, '{SCORE}' || l.rubric || '/' || l.question AS name, avg(l.score) AS value
    FROM lines l JOIN subjects u USING (item_id) WHERE l.has_scores {{where}} GROUP BY ALL
    UNION ALL
    SELECT u.image_id, '{DISAGREEMENT}', avg(l.disagreement)
    FROM lines l JOIN subjects u USING (item_id) WHERE l.disagreement IS NOT NULL {{where}} GROUP BY ALL
    UNION ALL
    SELECT u.image_id, '{PROBABILITY}' || r.rubric || '/' || r.question,
           avg(list_extract(r.probabilities, list_position(r.answers, r.value)))
    FROM ratings r JOIN subjects u USING (item_id)
    WHERE r.status = 'ok' AND r.probabilities IS NOT NULL AND list_contains(r.answers, r.value) {{where}} GROUP BY ALL
"""


def region_label(cursor: "duckdb.DuckDBPyConnection") -> str:
    """Return the name of the filter of regions: the attribute that all regions come from, else `region`."""
    names = [name for (name,) in cursor.execute("SELECT name FROM region_attributes").fetchall()]
    answered = cursor.execute("SELECT count(*) FROM answered_regions").fetchall()[0][0]
    return names[0] if len(names) == 1 and not answered else REGIONS[0]
