"""The options of the pages' filters: the distinct values of each column, with their counts.

Of the attributes of items, such as columns of a user's file, all are searched, and those with few values have a filter.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from jobs.html.formats import REGIONS, in_words
from jobs.judging.kept_rubric import Rubrics
from jobs.viewer.queries import as_number, fetch

if TYPE_CHECKING:
    import duckdb

MOST, MOST_ANSWERS = 1000, 200  # options of a filter, and answers of one question


class FilterOption(NamedTuple):
    """A value of a filter, its label, and how many rows have it."""

    value: str
    label: str
    rows: int


@dataclass(frozen=True)
class Facets:
    """The values of each filter, the most frequent first; questions are in the order of their rubrics.

    Attributes:
        region_label: the name of the attribute that the regions come from, if it is a single one, else `region`.
        attributes: name of an attribute of the items -> its values, in order.
        values: question (`rubric/question`) -> its answers.
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
    )


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
_REGIONS = ", ".join(f"('{name}', {place})" for place, name in enumerate(REGIONS))

# `picture_attributes` has each value of a picture once; `alone` means that the item shows no other picture, so that its
# title can be the picture's. `filters` has the attributes with at least two values, but fewer than half as many as
# items, in the order of the columns. The attribute for the region is left out: it has the filter of regions.
SHOWN_ATTRIBUTES = f"""
CREATE TEMP TABLE item_attributes AS
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
DROP TABLE item_attributes;
"""


def region_label(cursor: "duckdb.DuckDBPyConnection") -> str:
    """Return the name of the filter of regions: the attribute that all regions come from, else `region`."""
    names = [name for (name,) in cursor.execute("SELECT name FROM region_attributes").fetchall()]
    answered = cursor.execute("SELECT count(*) FROM answered_regions").fetchall()[0][0]
    return names[0] if len(names) == 1 and not answered else REGIONS[0]
