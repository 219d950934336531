"""Loading tables into a DuckDB database on disk for the viewer's pages; memory does not grow with the tables."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from actors.loglik_rater import METHOD as LIKELIHOOD
from jobs.errors import InputError
from jobs.html.formats import REGIONS
from jobs.inventory.found import files_by_table, find_tables
from jobs.judging.rating_tables import GROUPS
from jobs.runtime.selection.exclusions import ExclusionFilter
from jobs.store.files import locations
from jobs.store.keys import refuse_shared_keys, shared_key
from jobs.store.object_rows import row_groups
from jobs.store.reading import TableSource, open_table, refuse_absent
from jobs.store.run_files import WHOLE, limit_of, trials
from jobs.tables import TABLES
from jobs.viewer.facets import MAP, RATED_NUMBERS, SHOWN_ATTRIBUTES
from jobs.viewer.queries import ATTRIBUTE

if TYPE_CHECKING:
    import duckdb

SHOWN = ("images", "records", "items", "ratings", "responses", "spans", "texts", "embeddings", "metrics")
COLUMNS = {  # table -> columns that pages show or search
    "images": "image_id status error_kind format width height source_url author licence".split(),
    "records": (
        "image_id page_title page_url image_url caption_reference_description caption_attribution_description"
    ).split(),
    "items": "item_id kind image_ids text_ids response_id attributes gold".split(),
    "ratings": (
        "item_id target rubric question rater condition method order "
        "sample value score answers probabilities status raw comment"
    ).split(),
    "responses": "response_id item_id model prompt condition sample text status refusal_kind".split(),
    "spans": "item_id rater condition method text_id kind start end category score marked probability status".split(),
    "metrics": "metric dims value low high n units".split(),
}
NAMES_OF = {  # table -> columns with ids or URLs that may be excluded
    "images": ("image_id", "source_url"),
    "records": ("image_id", "image_url"),
    "items": ("item_id",),
    "ratings": ("item_id",),
    "responses": ("item_id",),
    "spans": ("item_id",),
    "metrics": (),
}
_TAGS = pa.schema([("tag", pa.string()), ("image_id", pa.string())])
_REGION = "coalesce({})".format(", ".join(f"nullif(attributes['{name}'], '')" for name in REGIONS))
_REGION_QUESTIONS = ", ".join(f"'{name}'" for name in REGIONS)

# A picture may be in several tables or renditions: the first one that is ok is used, with its first record. An item
# shows its pictures; a picture is an item of itself; a rating of a response is about its item's pictures.
SCHEMA = f"""
INSERT INTO excluded
    SELECT item_id FROM items WHERE list_has_any(image_ids, (SELECT coalesce(list(id), []) FROM excluded));
INSERT INTO excluded SELECT response_id FROM responses WHERE item_id IN (SELECT id FROM excluded);
DELETE FROM images WHERE image_id IN (SELECT id FROM excluded);
DELETE FROM items WHERE item_id IN (SELECT id FROM excluded) OR response_id IN (SELECT id FROM excluded);
DELETE FROM responses WHERE response_id IN (SELECT id FROM excluded);
DELETE FROM ratings WHERE item_id IN (SELECT id FROM excluded);
DELETE FROM spans WHERE item_id IN (SELECT id FROM excluded);
CREATE TABLE subjects AS
    SELECT DISTINCT image_id AS item_id, image_id FROM images
    UNION SELECT item_id, unnest(image_ids) FROM items
    UNION SELECT response_id, r.item_id FROM responses r SEMI JOIN images i ON r.item_id = i.image_id
    UNION SELECT r.response_id, unnest(i.image_ids) FROM responses r JOIN items i USING (item_id);
{SHOWN_ATTRIBUTES}
CREATE TABLE item_regions AS SELECT item_id, any_value({_REGION}) AS region FROM items GROUP BY item_id;
CREATE TABLE answered_regions AS
    SELECT s.image_id, mode(r.value) AS region FROM ratings r JOIN subjects s USING (item_id)
    WHERE r.question IN ({_REGION_QUESTIONS}) AND r.status = 'ok' GROUP BY s.image_id;
CREATE TABLE pictures AS
    WITH chosen AS (
        SELECT *, row_number() OVER (PARTITION BY image_id ORDER BY status <> 'ok', place) AS n FROM images
    ), described AS (
        SELECT image_id, first(page_title) AS title, first(page_url) AS page_url,
               first(caption_reference_description) AS caption,
               first(caption_attribution_description) AS attribution
        FROM records GROUP BY image_id
    ), attributed AS (
        SELECT image_id, coalesce(min(value) FILTER (lower(name) = 'page_title' AND alone),
                                  min(value) FILTER (lower(name) = 'title' AND alone)) AS own_title,
               string_agg(value, ' ') AS words
        FROM picture_attributes GROUP BY image_id
    ), regions AS (
        SELECT s.image_id, min(i.region) AS region FROM item_regions i JOIN subjects s USING (item_id)
        WHERE i.region IS NOT NULL GROUP BY s.image_id
    )
    SELECT c.image_id, c.place, c.status, c.error_kind, c.format, c.width, c.height, c.source_url, c.author, c.licence,
           c.file, c.row_group, c.row, d.page_url, d.caption, d.attribution,
           coalesce(nullif(d.title, ''), t.own_title, nullif(regexp_extract(c.source_url, '[^/]*$'), ''),
                    c.image_id) AS title,
           coalesce(g.region, a.region, '') AS region,
           lower(concat_ws(' ', title, d.caption, c.source_url, c.image_id, c.author, d.attribution,
                           t.words)) AS words
    FROM chosen c LEFT JOIN described d USING (image_id) LEFT JOIN regions g USING (image_id)
        LEFT JOIN answered_regions a USING (image_id) LEFT JOIN attributed t USING (image_id)
    WHERE n = 1 ORDER BY c.place;
DROP TABLE images;
DROP TABLE records;
CREATE TABLE tags (tag VARCHAR, image_id VARCHAR);
CREATE TABLE map_points (image_id VARCHAR, x DOUBLE, y DOUBLE);
CREATE TABLE ranges AS
    SELECT rubric, question, only_likelihoods, min(score) AS lowest, max(score) AS highest, highest - lowest AS width
    FROM (
        SELECT *, bool_and(method = '{LIKELIHOOD}') OVER (PARTITION BY rubric, question) AS only_likelihoods
        FROM ratings WHERE status = 'ok')
    WHERE only_likelihoods OR method <> '{LIKELIHOOD}' GROUP BY ALL;
"""

# The mean distance between two raters' answers to one question: for n sorted scores x_k, the distances of all pairs add
# up to sum (2 k - n - 1) x_k; for categories, n (n - 1) / 2 - sum c (c - 1) / 2 pairs differ, where c counts equal
# answers. Likelihoods count only for questions without other ratings, whose scale they do not share.
LINES = """
    WITH answers AS (
        SELECT r.item_id, r.rubric, r.question, r.target, r.condition, r.value, r.score, g.width,
               row_number() OVER line_by_score AS k, count(*) OVER line AS n,
               count(*) OVER (PARTITION BY r.item_id, r.rubric, r.question, r.target, r.condition, r.value) AS equal
        FROM ratings r LEFT JOIN ranges g USING (rubric, question)
        WHERE r.status = 'ok' AND r.sample = 0 AND (r.answers IS NULL OR list_contains(r.answers, r.value))
            AND (r.method <> '{likelihood}' OR g.only_likelihoods) {where}
        WINDOW line AS (PARTITION BY r.item_id, r.rubric, r.question, r.target, r.condition),
               line_by_score AS (PARTITION BY r.item_id, r.rubric, r.question, r.target, r.condition ORDER BY r.score)
    )
    SELECT item_id, rubric, question, target, condition, count(*) AS n, avg(score) AS score,
           count(score) = count(*) AND any_value(width) > 0 AS has_scores,
           CASE WHEN count(*) < 2 THEN NULL
                WHEN has_scores
                    THEN 2 * sum((2 * k - n - 1) * score) / (count(*) * (count(*) - 1) * any_value(width))
                ELSE 1 - sum(equal - 1) / (count(*) * (count(*) - 1)) END AS disagreement
    FROM answers GROUP BY ALL
"""


@dataclass(frozen=True)
class ViewedTables:
    """The tables that the viewer shows, by name, and the places of the tables that it leaves out, with reasons.

    `runs` has the place of each table of ratings with a rating that another table has as well -> the name of its run,
    which is added to the names of its raters.
    """

    by_name: dict[str, list[TableSource]] = field(default_factory=dict)
    runs: dict[str, str] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)

    def of(self, name: str) -> list[TableSource]:
        """Return the tables of this name."""
        return self.by_name.get(name, [])


def open_places(places: Sequence[str]) -> ViewedTables:
    """Open the tables at or below each place, except trial runs of other tables below it.

    Raises:
        InputError: a place has no table, no table has something to show, or two hold the same rating.
    """
    refuse_absent(*places)
    tables = ViewedTables()
    named, searched = _tables_at(places)
    for trial, whole in trials(searched).items():
        if trial in named:
            tables.left_out[trial] = _trial_left_out(trial, whole)
    for uri, name in named.items():
        if uri in tables.left_out:
            continue
        try:
            source = open_table(uri, *([name] if name else SHOWN))
        except InputError as error:  # an incomplete run or a damaged file must not prevent showing the others
            tables.left_out[uri] = str(error)
        else:
            tables.by_name.setdefault(source.name, []).append(source)
    if not any(tables.of(name) for name in COLUMNS):
        reasons = "".join(f"; {reason}" for reason in tables.left_out.values())
        raise InputError(f"no table of {', '.join(COLUMNS)} to view{reasons}", key="inputs", value=",".join(places))
    _leave_out_trials(tables, searched)
    tables.runs.update(_runs(tables.of("ratings"), [locations.absolute(place) for place in places]))
    return tables


def _runs(sources: Sequence[TableSource], places: Sequence[str]) -> dict[str, str]:
    """Return the tables that have the same rating as another one, with the names of the runs that wrote them.

    A run is named after its place among `places` or, if tables of one place share ratings, the part of their uris in
    which these differ.

    Raises:
        InputError: one of them is a trial run of another.
    """
    left, pairs = list(sources), list[tuple[str, str]]()
    while len(left) > 1 and (shared := shared_key(left, TABLES["ratings"].key, groups=GROUPS)):
        if shared.trial is not None:
            refuse_shared_keys(left, groups=GROUPS, row="rating")
        pairs.append((shared.first.uri, shared.second.uri))
        left.remove(shared.second)
    parts_of = {uri: uri.split("/") for pair in pairs for uri in pair}
    of_place = {
        uri: place.rsplit("/", 1)[-1] for uri in parts_of for place in places if f"{uri}/".startswith(f"{place}/")
    }
    if all(of_place.get(first, "") != of_place.get(second, "") for first, second in pairs):
        return of_place
    while len({parts[0] for parts in parts_of.values()}) == 1 < min(map(len, parts_of.values())):
        parts_of = {uri: parts[1:] for uri, parts in parts_of.items()}
    while len({parts[-1] for parts in parts_of.values()}) == 1 < min(map(len, parts_of.values())):
        parts_of = {uri: parts[:-1] for uri, parts in parts_of.items()}
    return {uri: "/".join(parts) for uri, parts in parts_of.items()}


def _leave_out_trials(tables: ViewedTables, searched: Mapping[str, Mapping[str, Any]]) -> None:
    """Leave out trial runs whose ratings are also in another table, that of the whole run."""
    ratings = tables.of("ratings")
    limited = {source.uri for source in ratings if source.uri in searched and limit_of(source.uri) < WHOLE}
    while limited and (shared := shared_key(ratings, TABLES["ratings"].key, groups=GROUPS)):
        if shared.trial is None or shared.trial.uri not in limited:
            return
        trial = shared.trial
        whole = shared.second if trial is shared.first else shared.first
        tables.left_out[trial.uri] = _trial_left_out(trial.uri, whole.uri)
        ratings.remove(trial)
        limited.remove(trial.uri)


def _trial_left_out(trial: str, whole: str) -> str:
    limit = f" (limit={limit:.0f})" if (limit := limit_of(trial)) < WHOLE else ""
    return f"{trial}: a trial run{limit}; {whole} has its rows too"


def _tables_at(places: Sequence[str]) -> tuple[dict[str, str], dict[str, Mapping[str, Any]]]:
    """Return the names of the tables to show, by uri, and the identities of all complete tables below a place, by uri.

    A place without run files may be a table nevertheless.
    """
    if not places:
        why = "name at least one table, or a folder of tables, as in remine view R"
        raise InputError(why, key="inputs", value="[]")
    named: dict[str, str] = {}
    searched: dict[str, Mapping[str, Any]] = {}
    listed = dict.fromkeys(locations.absolute(place) for place in places)
    for uri in listed:
        if not files_by_table(locations.listing(uri)):
            named[uri] = ""
        else:
            below = find_tables(uri)
            named.update((table.uri, table.name) for table in below if table.name in SHOWN)
            searched.update((table.uri, table.identity) for table in below if table.uri != uri and table.is_complete)
    return named, {place: identity for place, identity in searched.items() if place not in listed}


def load(connection: "duckdb.DuckDBPyConnection", tables: ViewedTables, exclusion_filter: ExclusionFilter) -> list[str]:
    """Write the rows of the tables, except those of excluded pictures, to the database, without image bytes and
    vectors.

    Returns:
        The data objects of the images; the column `pictures.file` is an index into them.
    """
    files = [footer.object.uri for source in tables.of("images") for footer in source.footers]
    connection.execute("CREATE TABLE excluded (id VARCHAR)")
    numbers = {file: number for number, file in enumerate(files)}
    for name, columns in COLUMNS.items():
        _create(connection, name)
        place = 0
        for source in tables.of(name):
            for file, group, rows in _row_groups(source, columns):
                placed = _placed(rows, numbers[file], group, place) if name == "images" else rows
                if name == "ratings" and (run := tables.runs.get(source.uri)):
                    named = pc.binary_join_element_wise(rows["rater"].cast(pa.string()), f"({run})", " ")
                    placed = rows.set_column(rows.schema.get_field_index("rater"), "rater", named)
                place += rows.num_rows
                kept = _without_excluded(connection, name, placed, exclusion_filter)
                connection.register("batch", kept)
                connection.execute(f"INSERT INTO {name} SELECT * FROM batch")
                connection.unregister("batch")
    connection.execute(SCHEMA)
    connection.execute("CREATE TABLE lines AS" + LINES.format(where="", likelihood=LIKELIHOOD))
    connection.execute("INSERT INTO picture_numbers" + RATED_NUMBERS.format(where=""))
    return files


def without_pictures(connection: "duckdb.DuckDBPyConnection") -> list[str]:
    """Return a sentence for each rater without any rating of an item or picture of the tables."""
    if not connection.execute("SELECT count(*) FROM subjects").fetchall()[0][0]:
        return []
    lost = connection.execute("""
        SELECT r.rater, count(*), min(r.item_id), (SELECT min(item_id) FROM subjects)
        FROM ratings r LEFT JOIN (SELECT DISTINCT item_id FROM subjects) s USING (item_id)
        GROUP BY r.rater HAVING count(s.item_id) = 0 ORDER BY r.rater
    """).fetchall()
    return [
        f"{rater}: none of the {count:,} ratings is about one of these pictures: item ids of the ratings look like "
        f"{item!r}, those of the pictures like {other!r}"
        for rater, count, item, other in lost
    ]


def refresh_lines(connection: "duckdb.DuckDBPyConnection", item_id: str) -> None:
    """Recompute the means and disagreements of an item after a correction.

    A score beyond all others makes the scale of its question wider, and the disagreements of all items smaller. The
    scale does not become narrower again before the tables are loaded again.
    """
    wider = connection.execute(
        """
        SELECT rubric, question, least(any_value(g.lowest), min(r.score)), greatest(any_value(g.highest), max(r.score)),
               any_value(g.width)
        FROM ratings r JOIN ranges g USING (rubric, question)
        WHERE r.item_id = ? AND r.status = 'ok' AND (r.method <> ? OR g.only_likelihoods)
        GROUP BY rubric, question HAVING min(r.score) < any_value(g.lowest) OR max(r.score) > any_value(g.highest)
        """,
        [item_id, LIKELIHOOD],
    ).fetchall()
    for rubric, question, lowest, highest, width in wider:
        question_of = "rubric = ? AND question = ?"
        connection.execute(
            f"UPDATE ranges SET lowest = ?, highest = ?, width = ? WHERE {question_of}",
            [lowest, highest, highest - lowest, rubric, question],
        )
        connection.execute(
            f"UPDATE lines SET disagreement = disagreement * ? WHERE has_scores AND {question_of}",
            [width / (highest - lowest), rubric, question],
        )
    connection.execute("DELETE FROM lines WHERE item_id = ?", [item_id])
    connection.execute("INSERT INTO lines" + LINES.format(where="AND r.item_id = ?", likelihood=LIKELIHOOD), [item_id])
    of_item = "image_id IN (SELECT image_id FROM subjects WHERE item_id = ?)"
    connection.execute(
        f"DELETE FROM picture_numbers WHERE {of_item} AND NOT starts_with(name, ?) AND NOT starts_with(name, ?)",
        [item_id, ATTRIBUTE, MAP],
    )
    numbers = RATED_NUMBERS.format(where=f"AND u.{of_item}")
    connection.execute("INSERT INTO picture_numbers" + numbers, [item_id] * 3)


def load_map(connection: "duckdb.DuckDBPyConnection", places: pa.Table) -> None:
    """Add the map's places (image_id, x, y) to the database; the coordinates are also numbers of the pictures."""
    connection.register("batch", places)
    connection.execute("INSERT INTO map_points SELECT b.* FROM batch b SEMI JOIN pictures p ON b.image_id = p.image_id")
    connection.unregister("batch")
    for axis in "xy":
        connection.execute(f"INSERT INTO picture_numbers SELECT image_id, '{MAP}{axis}', {axis} FROM map_points")


def load_tags(cursor: "duckdb.DuckDBPyConnection", tags: Mapping[str, Sequence[str]]) -> None:
    """Replace the tags of the database by tag -> ids of its pictures."""
    rows = [(tag, image_id) for tag, ids in tags.items() for image_id in dict.fromkeys(ids)]
    cursor.register("batch", pa.table([*map(pa.array, zip(*rows, strict=True))] if rows else [[], []], _TAGS))
    cursor.begin()
    cursor.execute("DELETE FROM tags")
    cursor.execute("INSERT INTO tags SELECT * FROM batch")
    cursor.commit()
    cursor.unregister("batch")


def _create(connection: "duckdb.DuckDBPyConnection", name: str) -> None:
    schema = TABLES[name].schema()
    empty = pa.schema([schema.field(column) for column in COLUMNS[name]]).empty_table()
    if name == "images":
        empty = _placed(empty, 0, 0, 0)
    connection.register("batch", empty)
    connection.execute(f"CREATE TABLE {name} AS SELECT * FROM batch")
    connection.unregister("batch")


def _row_groups(source: TableSource, columns: Sequence[str]) -> Iterator[tuple[str, int, pa.Table]]:
    """Yield the data object, the number and the rows of each row group."""
    for footer in source.footers:
        for group, rows in enumerate(row_groups(footer.object.uri, columns=columns)):
            yield footer.object.uri, group, rows.select(columns)


def _placed(rows: pa.Table, file: int, group: int, first: int) -> pa.Table:
    """Add the location of each picture: data object, row group and row, and its place among all pictures."""
    row = np.arange(rows.num_rows, dtype=np.int64)
    for name, values in (
        ("file", row * 0 + file),
        ("row_group", row * 0 + group),
        ("row", row),
        ("place", row + first),
    ):
        rows = rows.append_column(name, pa.array(values))
    return rows


def _without_excluded(
    connection: "duckdb.DuckDBPyConnection", name: str, rows: pa.Table, exclusion_filter: ExclusionFilter
) -> pa.Table:
    """Return the rows whose ids and URLs are not excluded, and add the ids of the others to the table `excluded`."""
    if not exclusion_filter:
        return rows
    hit = np.zeros(rows.num_rows, bool)
    for column in NAMES_OF[name]:
        hit |= exclusion_filter.mask(rows[column])
    if hit.any():
        connection.register("batch", pa.table({"id": rows[NAMES_OF[name][0]].filter(pa.array(hit))}))
        connection.execute("INSERT INTO excluded SELECT id FROM batch")
        connection.unregister("batch")
    return rows.filter(pa.array(~hit))
