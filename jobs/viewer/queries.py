"""The pages' queries to the database: filters from the address, sorted rows, and counts.

The filters are the query parameters of a page, so that an address can be shared and the browser's back button works.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode

from jobs.errors import InputError

if TYPE_CHECKING:
    import duckdb

PICTURES_PER_PAGE, ROWS_PER_PAGE = 24, 50
FEWEST_CORNERS, MOST_CORNERS = 3, 200  # of a polygon on the map
MOST_ON_MAP = 4000  # points of the map
MOST_DIGITS = 100  # of the number of a page or place; Python converts no more than 4,300
SORTS = {  # order of pictures -> its label and its sort key
    "place": ("as stored", "p.place"),
    "disagreement": ("disagreement, widest first", "m.disagreement DESC NULLS LAST, p.place"),
    "highest": ("mean score, highest first", "m.score DESC NULLS LAST, p.place"),
    "lowest": ("mean score, lowest first", "m.score NULLS LAST, p.place"),
    "region": ("region", "p.region = '', p.region, p.place"),
    "title": ("title", "p.title, p.place"),
}
ATTRIBUTE = "attribute."  # prefix of the query parameters for attributes of items
LOWEST, HIGHEST = "from.", "to."  # prefixes of those for the bounds of a number of `picture_numbers`
SIMILAR = "similar"  # the order of a search by vector
EMPTY = "(none)"  # value of a parameter that is to be empty, since an empty parameter does not filter
_RATED = ("rater", "question", "value", "rated", "target", "condition", "method", "order", "by")
# the tags of a picture `p`
TAGS = "(SELECT coalesce(list(t.tag ORDER BY t.tag), []) FROM tags t WHERE t.image_id = p.image_id)"
_METHODS = {"people": "r.method = 'human'", "gold": "r.method = 'gold'", "models": "r.method NOT IN ('human', 'gold')"}
RATING_SORTS = {
    "place": ("as stored", "r.rowid"),
    "highest": ("score, highest first", "r.score DESC NULLS LAST, r.rowid"),
    "lowest": ("score, lowest first", "r.score NULLS LAST, r.rowid"),
    "rater": ("rater", "r.rater, r.rowid"),
    "question": ("question", "r.rubric, r.question, r.target, r.rowid"),
}


Pairs = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class View:
    """The state of a page; every field is a query parameter, empty if it does not filter.

    `attributes` has several parameters, `attribute.NAME=VALUE`, and so has `bounds`, `from.NUMBER=LOWEST` and
    `to.NUMBER=HIGHEST`.

    Attributes:
        q: words in the title, caption, author, address, id or attributes; in other lists also in texts.
        near, like: a text, or the id of a picture, that pictures are sorted by similarity to.
        region, status, tag: of the pictures; within: the corners of a polygon on the map, `x,y` in [0, 1] separated by
            semicolons, that contains them; attributes: name and value, of an item that shows the picture; one of
            several values of the same name suffices.
        bounds: prefixed name of a number of `picture_numbers`, and its bound.
        question: rubric and question, joined by a slash; rater, value, rated: rater, value and status of a rating that
            the picture must have; target, condition, method, order: likewise; by: `people`, `models` or `gold`.
        model, prompt, kind: of responses and spans.
        a, b: the raters to compare; va, vb: their answers; ca, cb: their conditions; qb: the question of b, if another;
            differ: only rows on which they differ.
        colour: what colours the points of the map: an attribute, `region` or `tag`.
        sort, page: the order, and the number of the page from 1; show: whether pictures are shown without blur.
    """

    q: str = ""
    near: str = ""
    like: str = ""
    region: str = ""
    status: str = ""
    tag: str = ""
    within: str = ""
    question: str = ""
    rater: str = ""
    value: str = ""
    rated: str = ""
    target: str = ""
    condition: str = ""
    method: str = ""
    order: str = ""
    by: str = ""
    model: str = ""
    prompt: str = ""
    kind: str = ""
    a: str = ""
    b: str = ""
    va: str = ""
    vb: str = ""
    ca: str = ""
    cb: str = ""
    qb: str = ""
    differ: str = ""
    colour: str = ""
    sort: str = ""
    page: str = ""
    show: str = ""
    attributes: tuple[tuple[str, str], ...] = ()
    bounds: tuple[tuple[str, str], ...] = ()

    @property
    def number(self) -> int:
        """The number of the page, from 1."""
        return max(1, number_in("page", self.page) or 1)

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The query parameters that are not empty."""
        named = [(name, getattr(self, name)) for name in PARAMETERS]
        return [(name, value) for name, value in named if value] + [
            *((ATTRIBUTE + name, value) for name, value in self.attributes),
            *self.bounds,
        ]

    @property
    def filters(self) -> list[tuple[str, str]]:
        """The query parameters that select pictures or ratings, rather than order and show them."""
        return [pair for pair in self.pairs if pair[0] not in ("sort", "page", "show", "near", "like", "colour")]

    def address(self, *, add: Pairs = (), drop: Pairs = (), **changes: str) -> str:
        """Return the query string of this view with other values; any change except of the page goes back to page 1.

        Args:
            add, drop: parameters to append and to leave out.
        """
        if (changes or add or drop) and "page" not in changes:
            changes["page"] = ""
        pairs = [pair for pair in self.pairs if pair not in drop and pair[0] not in changes]
        changed = [(name, changes[name]) for name in PARAMETERS if changes.get(name)]
        order = {name: place for place, name in enumerate(PARAMETERS)}
        pairs = sorted([*pairs, *changed, *add], key=lambda pair: order.get(pair[0], len(order)))
        return "?" + urlencode(pairs)


def number_in(name: str, text: str) -> int | None:
    """Return the number in a query parameter, at most a billion; None if it is not a number.

    Raises:
        InputError: it has more than `MOST_DIGITS` digits.
    """
    if len(text) > MOST_DIGITS and text.isdecimal():
        raise InputError(f"must be a number of at most {MOST_DIGITS} digits", key=name, value=f"{text[:9]}…")
    return min(int(text), 10**9) if text.isdecimal() else None


PARAMETERS = tuple(field.name for field in fields(View) if field.name not in ("attributes", "bounds"))


def view_of(parameters: Mapping[str, str] | Pairs) -> View:
    """Return the view that query parameters describe; unknown parameters are ignored."""
    listed = parameters.items() if isinstance(parameters, Mapping) else parameters
    pairs = [(name, value.strip()) for name, value in listed if value.strip()]
    return View(
        **{name: value for name, value in pairs if name in PARAMETERS},
        attributes=tuple((name.removeprefix(ATTRIBUTE), value) for name, value in pairs if name.startswith(ATTRIBUTE)),
        bounds=tuple(pair for pair in pairs if pair[0].startswith((LOWEST, HIGHEST))),
    )


class ListedRows(NamedTuple):
    """Some rows of a list, as column -> value, and the number of all its rows; `pictures`: that of their pictures."""

    rows: list[dict[str, Any]]
    total: int
    pictures: int = 0


class AnswerPairs(NamedTuple):
    """Counts of the pairs of answers of the raters a (rows) and b (columns): (answer, answer) -> count."""

    values: list[str]
    counts: dict[tuple[str, str], int]

    @property
    def shares(self) -> list[tuple[str, float, float]]:
        """The shares of each answer among those of a and of b, 0 to 1."""
        total = sum(self.counts.values()) or 1
        of_a, of_b = Counter[str](), Counter[str]()
        for (a, b), n in self.counts.items():
            of_a[a] += n
            of_b[b] += n
        return [(value, of_a[value] / total, of_b[value] / total) for value in self.values]


Parameters = list[Any]


def fetch(cursor: "duckdb.DuckDBPyConnection", query: str, parameters: Sequence[Any] = ()) -> list[dict[str, Any]]:
    """Run a query; return its rows as column -> value."""
    result = cursor.execute(query, list(parameters))
    names = [column[0] for column in result.description]
    return [dict(zip(names, row, strict=True)) for row in result.fetchall()]


def pictures(
    cursor: "duckdb.DuckDBPyConnection", view: View, *, similar: bool = False, offset: int | None = None, limit: int = 0
) -> ListedRows:
    """Return the pictures of a page, or `limit` of them from `offset`.

    Args:
        similar: whether to sort them by the relation `ranked` (image_id, similarity) of this cursor.
    """
    where, parameters = picture_conditions(view)
    joins = "JOIN ranked s ON s.image_id = p.image_id" if similar else ""
    order, measure = SORTS.get(view.sort, SORTS["place"])[1], ""
    if similar:
        order = "s.similarity DESC, p.place"
    elif "m." in order:
        condition, values = _question_condition(view, "l")
        joins += f"""
            LEFT JOIN (SELECT u.image_id, avg(l.score) AS score, avg(l.disagreement) AS disagreement
                       FROM lines l JOIN subjects u USING (item_id) {"WHERE " + condition if condition else ""}
                       GROUP BY u.image_id) m ON m.image_id = p.image_id"""
        parameters = [*values, *parameters]
        measure = ", m.score, m.disagreement"
    size = limit or PICTURES_PER_PAGE
    begin = (view.number - 1) * PICTURES_PER_PAGE if offset is None else offset
    source = f"FROM pictures p {joins} WHERE {where}"
    rows = fetch(
        cursor,
        f"SELECT p.image_id, p.title, p.caption, p.status, p.error_kind, p.region, p.width, p.height, p.author,"
        f" p.licence, p.attribution{', s.similarity' if similar else ''}{measure},"
        f" {TAGS} AS tags {source}"
        f" ORDER BY {order} LIMIT {size:d} OFFSET {begin:d}",
        parameters,
    )
    total = fetch(cursor, f"SELECT count(*) AS n {source}", parameters)[0]["n"]
    return ListedRows(rows, total)


def on_map(cursor: "duckdb.DuckDBPyConnection", view: View, colour: str) -> ListedRows:
    """Return the places (x, y) of a view's pictures on the map, at most `MOST_ON_MAP`, drawn by the hash of their ids.

    Args:
        colour: an attribute, `region`, `tag` or empty; the smallest value of a picture is its `group`.
    """
    groups = {"": "NULL", "region": "nullif(p.region, '')",
              "tag": "(SELECT min(t.tag) FROM tags t WHERE t.image_id = p.image_id)"}  # fmt: skip
    group, named = groups.get(colour), []
    if group is None:
        group = "(SELECT min(a.value) FROM picture_attributes a WHERE a.image_id = p.image_id AND a.name = ?)"
        named = [colour]
    where, parameters = picture_conditions(view)
    source = f"FROM map_points m JOIN pictures p USING (image_id) WHERE {where}"
    rows = fetch(
        cursor,
        f'SELECT image_id, p.title, m.x, m.y, {group} AS "group" {source} ORDER BY hash(image_id), image_id'
        f" LIMIT {MOST_ON_MAP}",
        [*named, *parameters],
    )
    return ListedRows(rows, fetch(cursor, f"SELECT count(*) AS n {source}", parameters)[0]["n"])


def picture_ids(cursor: "duckdb.DuckDBPyConnection", view: View | None, image_ids: Sequence[str]) -> list[str]:
    """Return the ids of all pictures of a view or, without one, those of `image_ids` that are pictures."""
    where, parameters = (
        ("list_contains(?, p.image_id)", [list(image_ids)]) if view is None else picture_conditions(view)
    )
    rows = fetch(cursor, f"SELECT p.image_id FROM pictures p WHERE {where} ORDER BY p.place", parameters)
    return [row["image_id"] for row in rows]


def ratings(cursor: "duckdb.DuckDBPyConnection", view: View) -> ListedRows:
    """Return the ratings of a page, each with its first picture."""
    where, parameters = rating_conditions(view)
    if view.q:
        where.append(
            "(contains(lower(concat_ws(' ', r.comment, r.raw, r.target, r.value, r.item_id)), lower(?)) OR r.item_id IN"
            " (SELECT u.item_id FROM subjects u JOIN pictures p USING (image_id) WHERE contains(p.words, lower(?))))"
        )
        parameters += [view.q, view.q]
    columns = (
        "r.rubric, r.question, r.target, r.rater, r.condition, r.method, r.value, r.score, r.status, r.raw, r.comment"
    )
    chance = "list_extract(r.probabilities, list_position(r.answers, r.value)) AS probability"
    source = f"ratings r {_where(where)}"
    listed = _page(cursor, view, source, parameters, columns=f"r.item_id, {columns}, {chance}",
                   order=RATING_SORTS.get(view.sort, RATING_SORTS["place"])[1])  # fmt: skip
    shown = (
        f"SELECT count(DISTINCT u.image_id) AS n FROM subjects u WHERE u.item_id IN (SELECT r.item_id FROM {source})"
    )
    return listed._replace(pictures=fetch(cursor, shown, parameters)[0]["n"])


def responses(cursor: "duckdb.DuckDBPyConnection", view: View) -> ListedRows:
    """Return the responses of a page, each with its first picture."""
    where, parameters = _equal({"model": view.model, "prompt": view.prompt, "status": view.status})
    if view.kind:
        where, parameters = [*where, "r.refusal_kind = ?"], [*parameters, view.kind]
    if view.q:
        where, parameters = [*where, "contains(lower(r.text), lower(?))"], [*parameters, view.q]
    columns = "r.response_id, r.item_id, r.model, r.prompt, r.condition, r.sample, r.text, r.status, r.refusal_kind"
    item = "coalesce((SELECT min(item_id) FROM subjects WHERE item_id = r.response_id), r.item_id)"
    source = f"responses r {_where(where)}"
    return _page(cursor, view, source, parameters, columns=columns, order="r.rowid", item=item)


def spans(cursor: "duckdb.DuckDBPyConnection", view: View) -> ListedRows:
    """Return the marked spans of a page, each with its first picture."""
    where, parameters = _equal({"rater": view.rater, "kind": view.kind, "status": view.status, "category": view.value})
    columns = 'r.item_id, r.rater, r.condition, r.text_id, r.kind, r.start, r."end", r.category, r.score, r.probability'
    where.append("(r.marked OR r.status <> 'ok')")
    return _page(cursor, view, f"spans r {_where(where)}", parameters, columns=f"{columns}, r.status", order="r.rowid")


def numbers(cursor: "duckdb.DuckDBPyConnection", view: View) -> ListedRows:
    """Return the numbers of reports, each with the address of the ratings that it rests on, empty if it has none."""
    where, parameters = (["contains(lower(m.metric || ' ' || m.dims), lower(?))"], [view.q]) if view.q else ([], [])
    source = f"FROM metrics m {_where(where)}"
    begin = (view.number - 1) * ROWS_PER_PAGE
    rows = fetch(cursor, f"SELECT * {source} ORDER BY m.rowid LIMIT {ROWS_PER_PAGE} OFFSET {begin:d}", parameters)
    raters = {row["rater"] for row in fetch(cursor, "SELECT DISTINCT rater FROM ratings")} | _METHODS.keys()
    for row in rows:
        dims = row["dims"] = json.loads(row["dims"] or "{}")
        named = {dims[name] for name in ("rater", "rater_a", "rater_b", "group") if name in dims}
        row["address"] = address_of(dims) if named <= raters else ""  # the ratings may not be among the tables
    return ListedRows(rows, fetch(cursor, f"SELECT count(*) AS n {source}", parameters)[0]["n"])


def address_of(dims: Mapping[str, str]) -> str:
    """Return the list and query of the ratings that a metric with these dims rests on.

    It is empty for a metric that has other dims than a question, its raters, how they were asked, and a subgroup: those
    of spans, gold or an answer rest on a part of the ratings that no query describes.
    """
    question = {"question": f"{dims.get('rubric', '')}/{dims.get('question', '')}"}
    setting = {name: dims[name] or EMPTY for name in ("condition", "method", "order") if name in dims}
    left = dims.keys() - {"rubric", "question", *setting}
    if not dims.get("question"):
        return ""
    if left == {"rater_a", "rater_b"} and not setting:
        return "compare?" + urlencode({"a": dims["rater_a"], "b": dims["rater_b"], **question})
    part: dict[str, str] = {}
    if {"attribute", "part"} <= left and "+" not in dims["attribute"]:
        name = "target" if dims["attribute"] == "target" else ATTRIBUTE + dims["attribute"]
        part, left = {name: dims["part"]}, left - {"attribute", "part"}
    if left == {"group"} and dims["group"] in _METHODS:
        raters = {"by": dims["group"]}
    elif left in ({"rater"}, {"group"}):  # a group of a single rater has its name
        raters = {"rater": dims[next(iter(left))]}
    else:
        return ""
    return "ratings?" + urlencode({**question, **raters, "rated": "ok", **setting, **part})


def side_by_side(cursor: "duckdb.DuckDBPyConnection", view: View) -> tuple[ListedRows, AnswerPairs]:
    """Return the answers of two sides about the same items, the most distant first, and how often each pair occurs.

    A side is a rater, perhaps under a condition (`ca`, `cb`). Both answer the same question, unless `qb` names that of
    the second side, and under the same condition, unless the view names one.
    """
    source, parameters = _sides(view)
    counted = fetch(cursor, f"SELECT a.value AS a, b.value AS b, count(*) AS n {source} GROUP BY ALL", parameters)
    counts = {(row["a"] or "", row["b"] or ""): row["n"] for row in counted}
    for column, value in (("a", view.va), ("b", view.vb)):
        if value:
            source, parameters = f"{source} AND {column}.value = ?", [*parameters, value]
    if view.differ:
        source += " AND a.value IS DISTINCT FROM b.value"
    chances = ", ".join(
        f"list_extract({side}.probabilities, list_position({side}.answers, {side}.value)) AS probability_{side}"
        for side in "ab"
    )
    rows = fetch(
        cursor,
        f"""WITH compared AS (
                SELECT item_id, a.rubric AS rubric, a.question AS question, target, a.condition AS condition,
                       a.value AS a, b.value AS b,
                       a.comment AS comment_a, b.comment AS comment_b, {chances}, {_DISTANCE} AS distance {source}
                ORDER BY distance DESC, item_id, a.question, target
                LIMIT {ROWS_PER_PAGE} OFFSET {(view.number - 1) * ROWS_PER_PAGE:d})
            SELECT c.*, p.image_id, p.title FROM compared c LEFT JOIN {_first_picture("SELECT item_id FROM compared")} p
            USING (item_id) ORDER BY distance DESC, item_id, question, target""",
        parameters,
    )
    total = fetch(cursor, f"SELECT count(*) AS n {source}", parameters)[0]["n"]
    values = sorted({value for pair in counts for value in pair}, key=as_number)
    return ListedRows(rows, total), AnswerPairs(values, counts)


def compared_questions(cursor: "duckdb.DuckDBPyConnection", view: View) -> list[dict[str, Any]]:
    """Return, for each question that both sides answer, n, equal answers, mean scores and mean distance, widest first.

    `difference` is the mean of the second side's score minus the first's. With `qb` there is one row.
    """
    source, parameters = _sides(view if view.qb else replace(view, question=""))
    return fetch(
        cursor,
        f"""SELECT a.rubric || '/' || a.question AS name, a.question AS question, count(*) AS n,
                   count(*) FILTER (a.value IS NOT DISTINCT FROM b.value) AS same, avg(a.score) AS mean_a,
                   avg(b.score) AS mean_b, avg(b.score - a.score) AS difference, avg({_DISTANCE}) AS distance
            {source} GROUP BY a.rubric, a.question ORDER BY distance DESC, name LIMIT {ROWS_PER_PAGE}""",
        parameters,
    )


_DISTANCE = "coalesce(abs(a.score - b.score) / nullif(g.width, 0), (a.value IS DISTINCT FROM b.value)::DOUBLE)"


def _sides(view: View) -> tuple[str, Parameters]:
    """Return the source of the pairs of answers of two sides, a and b, with its parameters."""
    shared = ["item_id", "target", "sample"]
    shared += [] if view.ca or view.cb else ["condition"]
    shared += [] if view.question and view.qb else ["rubric", "question"]
    where, parameters = ["a.status = 'ok'", "b.status = 'ok'"], Parameters()
    for side, rater, condition, question in (
        ("a", view.a, view.ca, view.question),
        ("b", view.b, view.cb, view.question and view.qb),
    ):
        conditions, values = _equal({"rater": rater or EMPTY, "condition": condition}, alias=side)
        of_question, named = _question_condition(replace(view, question=question), side)
        where += [*conditions, *([of_question] if of_question else [])]
        parameters += [*values, *named]
    source = f"""FROM ratings a JOIN ratings b USING ({", ".join(shared)})
        LEFT JOIN ranges g ON g.rubric = a.rubric AND g.question = a.question {_where(where)}"""
    return source, parameters


def _page(
    cursor: "duckdb.DuckDBPyConnection",
    view: View,
    source: str,
    parameters: Parameters,
    *,
    columns: str,
    order: str,
    item: str = "r.item_id",
) -> ListedRows:
    """Return a page of rows of `source`, whose table has the alias r, with their first pictures."""
    begin = (view.number - 1) * ROWS_PER_PAGE
    rows = fetch(
        cursor,
        f"""WITH listed AS (
                SELECT {columns}, {item} AS subject, row_number() OVER (ORDER BY {order}) AS listed_as FROM (
                SELECT *, rowid FROM {source} ORDER BY {order} LIMIT {ROWS_PER_PAGE} OFFSET {begin:d}) r)
            SELECT l.*, p.image_id, p.title FROM listed l LEFT JOIN {_first_picture("SELECT subject FROM listed")} p
            ON p.item_id = l.subject ORDER BY l.listed_as""",
        parameters,
    )
    return ListedRows(rows, fetch(cursor, f"SELECT count(*) AS n FROM {source}", parameters)[0]["n"])


def _first_picture(items: str) -> str:
    return f"""(SELECT u.item_id, arg_min(x.image_id, x.place) AS image_id, arg_min(x.title, x.place) AS title
                FROM subjects u JOIN pictures x USING (image_id) WHERE u.item_id IN ({items}) GROUP BY u.item_id)"""


def picture_conditions(view: View) -> tuple[str, Parameters]:
    """Return the condition, with its parameters, for pictures `p` that the view shows."""
    where, parameters = ["p.status = ?"], [view.status or "ok"]
    if view.q:
        where.append("contains(p.words, lower(?))")
        parameters.append(view.q)
    conditions, values = _about_pictures(view)
    where, parameters = where + conditions, parameters + values
    if any(getattr(view, name) for name in _RATED):
        conditions, values = rating_conditions(replace(view, region="", tag="", within="", bounds=()))
        where.append(
            f"p.image_id IN (SELECT u.image_id FROM ratings r JOIN subjects u USING (item_id) {_where(conditions)})"
        )
        parameters += values
    else:
        for condition, values in _with_attributes(view):
            where.append(f"p.image_id IN (SELECT image_id FROM picture_attributes WHERE {condition})")
            parameters += values
    return " AND ".join(where), parameters


def _about_pictures(view: View) -> tuple[list[str], Parameters]:
    """Return the conditions for pictures `p` by their region, tag, place on the map and numbers."""
    where, parameters = _equal({"region": view.region}, alias="p")
    if view.tag == EMPTY:
        where.append("p.image_id NOT IN (SELECT image_id FROM tags)")
    elif view.tag:
        where.append("p.image_id IN (SELECT image_id FROM tags WHERE tag = ?)")
        parameters.append(view.tag)
    if view.within:
        where.append(_WITHIN)
        parameters += map(list, zip(*_edges(view.within), strict=True))
    for name, bound in view.bounds:
        prefix, sign = (LOWEST, ">=") if name.startswith(LOWEST) else (HIGHEST, "<=")
        where.append(f"p.image_id IN (SELECT image_id FROM picture_numbers WHERE name = ? AND value {sign} ?)")
        parameters += [name.removeprefix(prefix), _float(name, bound)]
    return where, parameters


# A point is inside if a line from it to the right crosses an odd number of edges of the polygon.
_WITHIN = """p.image_id IN (
    SELECT m.image_id FROM map_points m, (SELECT unnest(?) AS ax, unnest(?) AS ay, unnest(?) AS bx, unnest(?) AS b_y)
    WHERE (ay > m.y) <> (b_y > m.y) AND m.x < (bx - ax) * (m.y - ay) / (b_y - ay) + ax
    GROUP BY m.image_id HAVING count(*) % 2 = 1)"""


def _edges(polygon: str) -> list[tuple[float, float, float, float]]:
    """Return the edges of a polygon as (x, y, x, y).

    Raises:
        InputError: it is not a list of three to `MOST_CORNERS` corners.
    """
    texts = [corner.split(",") for corner in polygon.split(";")]
    if not FEWEST_CORNERS <= len(texts) <= MOST_CORNERS or {len(corner) for corner in texts} != {2}:
        raise InputError(
            f"must be {FEWEST_CORNERS} to {MOST_CORNERS} corners x,y separated by semicolons",
            key="within",
            value=polygon[:40],
        )
    corners = [(_float("within", x), _float("within", y)) for x, y in texts]
    return [(*corner, *other) for corner, other in zip(corners, corners[1:] + corners[:1], strict=True)]


def _float(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise InputError("must be a number", key=name, value=text[:40]) from error


def _with_attributes(view: View) -> Iterator[tuple[str, Parameters]]:
    """Yield the condition of each attribute in tables with `name` and `value`."""
    for name in dict.fromkeys(name for name, _ in view.attributes):
        values = [value for other, value in view.attributes if other == name]
        yield f"name = ? AND value IN ({', '.join('?' for _ in values)})", [name, *values]


def rating_conditions(view: View) -> tuple[list[str], Parameters]:
    """Return the conditions, with their parameters, for ratings `r` that the view shows."""
    columns = {"rater": view.rater, "value": view.value, "status": view.rated, "target": view.target,
               "condition": view.condition, "method": view.method, '"order"': view.order}  # fmt: skip
    where, parameters = _equal(columns)
    condition, values = _question_condition(view, "r")
    where, parameters = [*where, *([condition] if condition else [])], [*parameters, *values]
    if view.by:
        where.append(_METHODS.get(view.by, "false"))
    for of_attribute, values in _with_attributes(view):
        where.append(f"r.item_id IN (SELECT item_id FROM item_attributes WHERE {of_attribute})")
        parameters += values
    of_pictures, values = _about_pictures(view)
    if of_pictures:
        where.append(
            f"r.item_id IN (SELECT u.item_id FROM subjects u JOIN pictures p USING (image_id) {_where(of_pictures)})"
        )
        parameters += values
    return where, parameters


def _question_condition(view: View, alias: str) -> tuple[str, Parameters]:
    rubric, slash, question = view.question.partition("/")
    return (f"{alias}.rubric = ? AND {alias}.question = ?", [rubric, question]) if slash else ("", [])


def _equal(values: Mapping[str, str], *, alias: str = "r") -> tuple[list[str], Parameters]:
    present = {name: "" if value == EMPTY else value for name, value in values.items() if value}
    return [f"{alias}.{name} = ?" for name in present], list(present.values())


def _where(conditions: Sequence[str]) -> str:
    return f"WHERE {' AND '.join(conditions)}" if conditions else ""


def as_number(text: str) -> tuple[float, str]:
    """Return a sort key that orders numbers by size, and other texts after them."""
    try:
        return float(text), text
    except ValueError:
        return float("inf"), text
