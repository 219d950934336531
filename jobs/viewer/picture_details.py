"""The details of one picture: its facts and, for each item, texts, responses, spans and ratings.

Small copies of the pictures are read from their tables when a page shows them.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from actors.status import Status
from jobs.html.formats import in_words
from jobs.html.thumbnails import Thumbnail, thumbnail
from jobs.judging.kept_rubric import Rubrics
from jobs.store.object_rows import SharedLookup, opened_rows
from jobs.store.reading import TableSource
from jobs.viewer.queries import TAGS, fetch

if TYPE_CHECKING:
    import duckdb

    from jobs.viewer.queries import TAGS, View

MOST_ITEMS, MOST_LINES = 40, 60  # of a picture, and of one of its items
AROUND = 90  # characters of a text on each side of a marked span


class LineKey(NamedTuple):
    """The question, target and condition that all ratings of a line share."""

    rubric: str
    question: str
    target: str
    condition: str


class GivenAnswer(NamedTuple):
    """One rater's rating in a line."""

    rater: str
    status: str
    probability: float | None
    text: str


class AllowedAnswer(NamedTuple):
    """An allowed answer: its code, its label and its score."""

    value: str
    label: str
    score: float | None


@dataclass
class RatedLine:
    """One question about an item and target, and the answers of its raters.

    Attributes:
        title, text: the question's title and wording.
        choices: the allowed answers; empty if they are unknown or unbounded numbers.
        by_answer: (code, label) -> its raters, the most frequent first.
        failed: ratings without an answer.
        correction: the code that the viewer's person chose; None without one.
    """

    key: LineKey
    title: str
    text: str
    choices: tuple[AllowedAnswer, ...]
    by_answer: dict[tuple[str, str], list[GivenAnswer]] = field(default_factory=dict)
    failed: list[GivenAnswer] = field(default_factory=list)
    correction: str | None = None


class SpanInText(NamedTuple):
    """A marked span with the text around it; `inside` is empty for an omission."""

    rater: str
    kind: str
    category: str | None
    score: float | None
    probability: float | None
    before: str
    inside: str
    after: str


@dataclass
class ItemDetails:
    """An item that shows the picture.

    Attributes:
        facts: (name, value) of its attributes and correct answers.
        texts: (role or model, text).
        lines, lines_left_out: the lines shown, and how many more there are.
        pictures: the number of pictures that the item shows.
        context: the fields of prompts: texts by role, and attributes.
    """

    item_id: str
    kind: str
    facts: list[tuple[str, str]] = field(default_factory=list)
    texts: list[tuple[str, str]] = field(default_factory=list)
    spans: list[SpanInText] = field(default_factory=list)
    lines: list[RatedLine] = field(default_factory=list)
    lines_left_out: int = 0
    pictures: int = 1
    context: dict[str, str] = field(default_factory=dict)


class Texts:
    """Looks up texts by id in tables `texts`, which are copied once to a memory-mapped file."""

    def __init__(self, sources: Sequence[TableSource]) -> None:
        self._lookups = [
            SharedLookup([footer.object for footer in source.footers], key="text_id", columns=["role", "text"])
            for source in sources
        ]

    def rows(self, text_ids: Sequence[str]) -> dict[str, tuple[str, str]]:
        """Return role and text of each text, by text_id."""
        wanted = pa.array(sorted(set(text_ids)), pa.string())
        lists = [lookup.rows(wanted).to_pylist() for lookup in self._lookups] if len(wanted) else []
        return {row["text_id"]: (row["role"] or "text", row["text"] or "") for rows in lists for row in rows}


def find_picture(cursor: "duckdb.DuckDBPyConnection", image_id: str) -> dict[str, Any] | None:
    """Return the picture's row of `pictures` with its tags; None if it is missing or excluded."""
    return next(iter(fetch(cursor, f"SELECT p.*, {TAGS} AS tags FROM pictures p WHERE image_id = ?", [image_id])), None)


def items_of(
    cursor: "duckdb.DuckDBPyConnection", image_id: str, view: "View", *, rubrics: Rubrics, texts: Texts, person: str
) -> list[ItemDetails]:
    """Return the questions and answers about a picture and the items that show it, the picture itself first.

    Args:
        view: if it has a question, only that question's lines are returned.
        person: the rater whose ratings are corrections; empty: the viewer is read-only.
    """
    subjects = fetch(
        cursor,
        "SELECT item_id FROM subjects WHERE image_id = ? ORDER BY item_id <> image_id, item_id LIMIT ?",
        [image_id, MOST_ITEMS],
    )
    ids = [row["item_id"] for row in subjects]
    items = {item_id: ItemDetails(item_id, "picture" if item_id == image_id else "item") for item_id in ids}
    _add_items(cursor, items, texts)
    _add_spans(cursor, items, texts)
    _add_lines(cursor, items, view, rubrics, person)
    return [item for item in items.values() if item.lines or item.texts or item.spans or item.facts]


def _add_items(cursor: "duckdb.DuckDBPyConnection", items: dict[str, ItemDetails], texts: Texts) -> None:
    rows = fetch(cursor, "SELECT * FROM items WHERE list_contains(?, item_id)", [list(items)])
    response_of = {row["response_id"]: row["item_id"] for row in rows if row["response_id"]}
    shown_texts = texts.rows([name for row in rows for name in row["text_ids"] or ()])
    for row in rows:
        item = items[row["item_id"]]
        attributes = dict(row["attributes"] or {})
        item.kind = row["kind"] or item.kind
        item.pictures = len(row["image_ids"] or ()) or item.pictures
        by_role: dict[str, list[str]] = {}
        for role, text in (shown_texts[name] for name in row["text_ids"] or () if name in shown_texts):
            by_role.setdefault(role, []).append(text)
        joined = {role: "\n\n".join(texts_of_role) for role, texts_of_role in by_role.items()}
        item.context = {**joined, **{name: value for name, value in attributes.items() if value}}
        item.facts = [(name, value) for name, value in sorted(attributes.items()) if value]
        item.facts += [("correct answers", "; ".join(row["gold"]) or "none")] if row["gold"] is not None else []
        item.texts = [shown_texts[name] for name in row["text_ids"] or () if name in shown_texts]
    responses = fetch(
        cursor,
        "SELECT * FROM responses WHERE list_contains(?, response_id) OR list_contains(?, item_id) "
        "ORDER BY model, sample",
        [[*response_of, *items], list(items)],
    )
    for row in responses:
        about = response_of.get(row["response_id"], row["response_id"])
        if answered := items.get(about) or items.get(row["item_id"]):
            parts = (row["model"], row["prompt"], row["condition"], row["refusal_kind"])
            status = row["status"] if row["status"] != Status.OK else ""
            answered.texts.append((" · ".join(filter(None, (*parts, status))), row["text"] or ""))


def _add_spans(cursor: "duckdb.DuckDBPyConnection", items: Mapping[str, ItemDetails], texts: Texts) -> None:
    rows = fetch(
        cursor,
        'SELECT * FROM spans WHERE list_contains(?, item_id) AND marked ORDER BY item_id, rater, start, "end"',
        [list(items)],
    )
    around = texts.rows([row["text_id"] for row in rows])
    for row in rows:
        items[row["item_id"]].spans.append(marked_text(row, around.get(row["text_id"], ("", ""))[1]))


def marked_text(row: Mapping[str, Any], text: str) -> SpanInText:
    """Return a row of `spans` with the text around it; the text is empty if no table has it."""
    start, end = row["start"], row["end"]
    parts = text[max(0, start - AROUND) : start], text[start:end], text[end : end + AROUND]
    return SpanInText(row["rater"], row["kind"], row["category"], row["score"], row["probability"], *parts)


def _add_lines(
    cursor: "duckdb.DuckDBPyConnection", items: Mapping[str, ItemDetails], view: "View", rubrics: Rubrics, person: str
) -> None:
    rubric, slash, question = view.question.partition("/")
    rows = fetch(
        cursor,
        f"""SELECT item_id, rubric, question, target, condition, rater, value, status, raw, comment, sample,
                list_extract(probabilities, list_position(answers, value)) AS probability
            FROM ratings WHERE list_contains(?, item_id) {"AND rubric = ? AND question = ?" if slash else ""}
            ORDER BY item_id, sample, rater""",
        [list(items), *((rubric, question) if slash else ())],
    )
    lines: dict[tuple[str, LineKey], RatedLine] = {}
    raters: dict[tuple[str, LineKey], set[str]] = {}
    for row in rows:
        key = LineKey(row["rubric"], row["question"], row["target"], row["condition"])
        place = row["item_id"], key
        line = lines.setdefault(place, line_of(key, rubrics))
        if row["rater"] in raters.setdefault(place, set()):
            continue  # only the first sample is shown
        raters[place].add(row["rater"])
        _add_rating(line, row, person)
    order = {
        (kept.name, asked.name): number
        for kept in rubrics.by_name.values()
        for number, asked in enumerate(kept.questions)
    }
    for (item_id, _), line in sorted(lines.items(), key=lambda pair: _line_order(pair[0][1], order)):
        item = items[item_id]
        if len(item.lines) == MOST_LINES:
            item.lines_left_out += 1
            continue
        line.by_answer = dict(sorted(line.by_answer.items(), key=lambda pair: -len(pair[1])))
        item.lines.append(line)


def _line_order(key: LineKey, order: Mapping[tuple[str, str], int]) -> tuple[Any, ...]:
    return key.rubric, order.get((key.rubric, key.question), len(order)), key.question, key.target, key.condition


def line_of(key: LineKey, rubrics: Rubrics) -> RatedLine:
    """Return the line of a question, without ratings, with the texts and answers of its rubric."""
    kept = rubrics.question(key.rubric, key.question)
    title = in_words(key.question)
    if kept is None:
        return RatedLine(key, title, "", ())
    return RatedLine(
        key, title, kept.text, tuple(AllowedAnswer(a.value, a.label or a.value, a.score) for a in kept.answers)
    )


def _add_rating(line: RatedLine, row: Mapping[str, Any], person: str) -> None:
    text = "\n".join(row[name] for name in ("raw", "comment") if row[name])
    rating = GivenAnswer(row["rater"], row["status"], row["probability"], text)
    if row["status"] != Status.OK or row["value"] is None:
        line.failed.append(rating)
        return
    label = next((choice.label for choice in line.choices if choice.value == row["value"]), row["value"])
    line.by_answer.setdefault((row["value"], label), []).append(rating)
    if row["rater"] == person:
        line.correction = row["value"]


HELD_BYTES = 256 << 20  # of row groups, each of at most about 64 MB
THUMBNAILS_HELD = 4096
LARGE = 1280  # pixels, on the page of one picture


class PicturePlace(NamedTuple):
    """The location of a picture's bytes: number of the data object, row group, and row in the group."""

    file: int
    row_group: int
    row: int


class PictureBytes:
    """Reads encoded pictures, and keeps the row groups read last, because most pictures of a page are in the same one.

    Args:
        files: the data objects of the tables of images.
        place_of: returns the place of an image_id; None without a picture that may be shown.
    """

    def __init__(self, files: Sequence[str], place_of: Callable[[str], PicturePlace | None]) -> None:
        self._files, self._place_of = files, place_of
        self._groups: OrderedDict[tuple[int, int], pa.ChunkedArray] = OrderedDict()
        self._lock = threading.Lock()
        self.thumbnail = lru_cache(THUMBNAILS_HELD)(self._thumbnail)

    def _thumbnail(self, image_id: str, side: int) -> Thumbnail | None:
        """Return a copy of at most `side` pixels without metadata; None if there is no picture, or it is damaged."""
        place = self._place_of(image_id)
        if place is None:
            return None
        data = self._group(place.file, place.row_group)[place.row].as_py()
        return thumbnail(data, side=side)[0] if data is not None else None

    def _group(self, file: int, row_group: int) -> pa.ChunkedArray:
        with self._lock:  # one thread reads a group, and the others reuse it
            key = file, row_group
            if key not in self._groups:
                self._groups[key] = self._read(*key)
                while len(self._groups) > 1 and sum(column.nbytes for column in self._groups.values()) > HELD_BYTES:
                    self._groups.popitem(last=False)
            self._groups.move_to_end(key)
            return self._groups[key]

    def _read(self, file: int, row_group: int) -> pa.ChunkedArray:
        uri = self._files[file]
        with opened_rows(uri) as parquet:
            return parquet.read_row_group(row_group, columns=["bytes"])["bytes"]
