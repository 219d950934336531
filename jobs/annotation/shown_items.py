"""A study's items as shown to people, from the tables images, records, items, texts, responses and questions.

Several tables of one kind are read as one (`JoinedTables`): those of all parts of a study. The questions about each
item separately are those of `judge questions=`.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from actors.ids import content_id
from actors.items import JUDGED, RESPONSE_STATUS
from actors.status import Status
from jobs.annotation.form import RESPONSE, OwnSet, ShownItem, check_links, is_web, links_of
from jobs.annotation.judge_uncertainty import JudgeUncertainty
from jobs.errors import InputError, as_input_error
from jobs.judging.model_config import OwnQuestionsConfig
from jobs.judging.own_questions import candidate_sets, is_asked
from jobs.runtime.process.console import say
from jobs.runtime.selection.draws import (
    CompleteDrawConfig,
    Draw,
    DrawConfig,
    Drawn,
    Keys,
    WeightedDrawConfig,
    draw_columns,
    usable,
    with_floor,
)
from jobs.runtime.selection.exclusions import ExclusionFilter
from jobs.store.files import locations
from jobs.store.files.objects import Object
from jobs.store.hashing import hash_texts
from jobs.store.reading import TableSource, open_table, open_tables
from jobs.tables import TABLES


@dataclass(frozen=True)
class JoinedTables:
    """Tables of one name, ordered by address; `limit` is how many rows are read (see `first`), None for all."""

    sources: tuple[TableSource, ...]
    limit: int | None = None

    def first(self, limit: int | None) -> "JoinedTables":
        """Return the tables limited to their first rows, counted over all tables; None: all rows."""
        sources, left = [], limit
        for source in self.sources:
            sources.append(source.first(left))
            left = None if left is None else left - sources[-1].rows
        return JoinedTables(tuple(sources), limit)

    @property
    def rows(self) -> int:
        """The number of rows in all tables."""
        return sum(source.rows for source in self.sources)

    @property
    def name(self) -> str:
        """The tables' name in `jobs.tables`."""
        return self.sources[0].name

    @property
    def uri(self) -> str:
        """The tables' addresses, for messages."""
        return ", ".join(source.uri for source in self.sources)

    @property
    def identity(self) -> str:
        """Hash of everything that the rows depend on."""
        return content_id(*(source.identity for source in self.sources))

    @property
    def objects(self) -> Iterator[Object]:
        """The data objects of all tables."""
        return (footer.object for source in self.sources for footer in source.footers)

    def batches(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Yield the rows of all tables."""
        for source in self.sources:
            yield from source.batches(columns)


EXTENSIONS = {"JPEG": "jpg", "PNG": "png", "GIF": "gif", "WEBP": "webp", "TIFF": "tif", "BMP": "bmp", "SVG": "svg"}
PICTURE_FOLDER = "pictures"
_ITEM = ("item_id", "image_ids", "text_ids", "response_id", "attributes")


@dataclass(frozen=True)
class ShownTables:
    """The tables from which items are shown; `main` is images or items, the others may be absent."""

    main: JoinedTables
    images: JoinedTables | None
    records: JoinedTables | None
    texts: JoinedTables | None
    responses: JoinedTables | None


@dataclass(frozen=True)
class Showing:
    """Settings of how items are shown: columns of records, links, and the pictures' base address (None: their sources).

    Attributes:
        roles: roles of the texts that are shown; None: all.
        own_sets: questions about one item alone, by item_id.
    """

    columns: Sequence[str]
    links: Sequence[Mapping[str, str]]
    base: str | None
    roles: Collection[str] | None = None
    own_sets: Mapping[str, OwnSet] = field(default_factory=dict)


@dataclass(frozen=True)
class ChosenItems:
    """The items to show.

    Attributes:
        rows: ordered by id: item_id, image_ids, text_ids, response_id, attributes, and the item's set: the items of a
            picture, or those with one value of the column or attribute `together`; without `together`, its own id.
        frame: the items that could be drawn, without duplicates: item_id, and the probability with which each was
            drawn; None without a draw.
        description: of the draw; empty without one.
    """

    rows: list[dict[str, Any]]
    frame: pa.Table | None = None
    description: str = ""


def choose(
    sources: ShownTables,
    draw: CompleteDrawConfig,
    together: str | None = None,
    *,
    exclusion_filter: ExclusionFilter,
    left_out: Counter[str] | None = None,
    uncertainty: JudgeUncertainty | None = None,
) -> ChosenItems:
    """Return the items to show.

    Items that are excluded, have no text to judge, or a picture whose status in `images` is not ok, are left out before
    the draw.

    Args:
        uncertainty: of judges about each item, with which the probability of being drawn grows; None: it is equal.
        left_out: counts the items that are left out, by reason, except those that are excluded.

    Raises:
        InputError: two tables have one item with different content, no item is left, the draw is not possible, or no
            item has the column or attribute `together`.
    """
    sets = Draw(DrawConfig(by=together), sources.main.name, by="together") if together else None
    drawn, frame, columns, failed = None, None, [], _failed_pictures(sources)
    if draw.is_set:
        groups = Draw(draw, sources.main.name)
        columns = groups.columns
        usable_rows = _usable(sources.main, columns, exclusion_filter, failed, Counter())
        drawn, frame = _draw(groups, usable_rows, draw, "image_id" if sources.main.name == "images" else "item_id",
                             uncertainty)  # fmt: skip
    items: dict[str, dict[str, Any]] = {}
    columns = [*columns, *(sets.columns if sets else ())]
    left_out = Counter() if left_out is None else left_out
    for batch in _usable(sources.main, columns, exclusion_filter, failed, left_out):
        rows = batch if drawn is None else batch.filter(pa.array(drawn.mask(groups.keys(batch))))
        keys = sets.add(rows) if sets else None
        for number, row in enumerate(rows.to_pylist()):
            item = {name: row.get(name) for name in _ITEM}
            if sources.main.name == "images":
                item |= {"item_id": row["image_id"], "image_ids": [row["image_id"]]}
            item["set"] = item["item_id"] if keys is None else f"{keys[number]:016x}"
            _add(items, item["item_id"], item, sources.main, "item_id")
    if sets:
        sets.drawn()  # raises if no item has the column or attribute
    if not items:
        reasons = ", ".join(f"{reason} {n:,}" for reason, n in sorted(left_out.items()))
        why = f"left out: {reasons}" if reasons else "all are excluded"
        raise InputError(f"no item is left to show; {why}", place=sources.main.uri)
    return ChosenItems([items[item_id] for item_id in sorted(items)], frame, str(drawn or ""))


def _draw(
    groups: Draw,
    batches: Iterable[pa.Table],
    draw: CompleteDrawConfig,
    id_column: str,
    uncertainty: JudgeUncertainty | None,
) -> tuple[Drawn, pa.Table]:
    """Return the drawn groups, and the items that could be drawn with their probabilities (`ChosenItems.frame`).

    A group is as uncertain as its items together.
    """
    parts = [(batch[id_column].cast(pa.string()), groups.add(batch)) for batch in batches]
    ids = pa.chunked_array([chunk for column, _ in parts for chunk in column.chunks], pa.string())
    keys = np.concatenate([np.zeros(0, np.uint64), *(key for _, key in parts)])

    def size(candidates: Keys) -> NDArray[np.float64]:
        assert uncertainty is not None
        assert isinstance(draw, WeightedDrawConfig)
        place = np.searchsorted(candidates, keys)
        inside = np.append(candidates, 0)[place] == keys
        sums = np.bincount(place[inside], uncertainty.of(hash_texts(ids))[inside], len(candidates))
        return with_floor(sums.astype(np.float64), draw.floor)

    drawn = groups.drawn(size=size if uncertainty else None)
    probability = drawn.probabilities(keys)
    frame = pa.table({"item_id": ids, "probability": pa.array(probability, from_pandas=True)})
    return drawn, frame.filter(pc.is_valid(frame["probability"])).group_by("item_id").aggregate([("probability", "max")]
        ).rename_columns(["item_id", "probability"]).sort_by("item_id")  # fmt: skip


def _failed_pictures(sources: ShownTables) -> dict[str, str]:
    """Return the status of each picture of the items that is not ok in any rendition."""
    failed: dict[str, str] = {}
    ok: set[str] = set()
    if sources.main.name == "items" and sources.images:
        for batch in sources.images.batches(["image_id", "status"]):
            for image, status in zip(batch["image_id"].to_pylist(), batch["status"].to_pylist(), strict=True):
                if status == Status.OK:
                    ok.add(image)
                else:
                    failed.setdefault(image, str(status or "unknown"))
    return {image: status for image, status in failed.items() if image not in ok}


def _usable(
    main: JoinedTables,
    columns: Sequence[str],
    exclusion_filter: ExclusionFilter,
    failed: Mapping[str, str],
    left_out: Counter[str],
) -> Iterator[pa.Table]:
    """Yield the rows that can be shown, with `columns` and an item's columns, and count others by reason."""
    always = draw_columns(main.name) if main.name == "images" else _ITEM
    for batch in main.batches(list(dict.fromkeys([*always, *columns]))):
        reasons = [_reason(row, failed) for row in batch.select(list(always)).to_pylist()]
        left_out.update(filter(None, reasons))
        shown = usable(batch, main.name, exclusion_filter) & np.array([reason is None for reason in reasons], bool)
        yield batch.filter(pa.array(shown))


def _reason(row: Mapping[str, Any], failed: Mapping[str, str]) -> str | None:
    """Return why a picture or item cannot be shown, apart from exclusions; None if it can be."""
    if "status" in row:
        return None if row["status"] == Status.OK else f"picture {row['status']}"
    if (status := dict(row["attributes"] or ()).get(RESPONSE_STATUS, Status.OK)) not in JUDGED:
        return f"response {status}"
    return next((f"picture {failed[image]}" for image in row["image_ids"] or () if image in failed), None)


def show_items(chosen: Sequence[Mapping[str, Any]], sources: ShownTables, showing: Showing) -> list[ShownItem]:
    """Return the chosen items with everything that is shown to people.

    Raises:
        InputError: a picture has no address, no table has a text or picture, or a field is unknown.
    """
    pictures = {image for row in chosen for image in row["image_ids"] or []}
    columns = ["image_id", "source_url", "final_url", "format", "status"]
    images = _by_key(sources.images, "image_id", columns, pictures, need=bool(pictures), key="images")
    by_text = texts_of(chosen, sources)
    responses = {
        row["response_id"]
        for row in chosen
        if row["response_id"] and all(by_text[text]["role"] != RESPONSE for text in row["text_ids"] or [])
    }
    by_response = _by_key(
        sources.responses, "response_id", ["response_id", "text"], responses, need=bool(responses), key="responses"
    )
    attributes = {name for row in chosen for name, _ in row["attributes"] or ()}
    facts = _facts(sources.records, pictures, showing, attributes=attributes)
    items = []
    for row in chosen:
        roles = {by_text[text]["role"]: (text, by_text[text]["text"] or "") for text in row["text_ids"] or []}
        if row["response_id"] in by_response:
            roles[RESPONSE] = (row["response_id"], by_response[row["response_id"]]["text"] or "")
        if showing.roles is not None:
            roles = {role: text for role, text in roles.items() if role in showing.roles}
        shown = [(image, images[image]) for image in row["image_ids"] or []]
        record = facts.get(shown[0][0], {}) if shown else {}
        items.append(_shown_item(row, shown, roles, record, showing))
    _check_alike(items)
    return items


def texts_of(chosen: Sequence[Mapping[str, Any]], sources: ShownTables) -> dict[str, dict[str, Any]]:
    """Return role and text of the items' texts, by text_id.

    Raises:
        InputError: no table has one of the texts.
    """
    texts = {text for row in chosen for text in row["text_ids"] or []}
    return _by_key(sources.texts, "text_id", ["text_id", "role", "text"], texts, need=bool(texts), key="texts")


def _check_alike(items: Sequence[ShownItem]) -> None:
    """Raise InputError unless one form can show all items."""
    first = items[0]
    for other in items:
        if len(other.pictures) != len(first.pictures) or list(other.texts) != list(first.texts):
            shown = [f"{len(i.pictures)} pictures and texts {', '.join(i.texts) or 'none'}" for i in (first, other)]
            raise InputError(
                f"items {first.item_id} and {other.item_id} have {shown[0]} and {shown[1]}; "
                "one form cannot show both: run annotate once for each",
                key="input",
            )


def _facts(
    records: JoinedTables | None, pictures: set[str], showing: Showing, *, attributes: set[str]
) -> dict[str, dict[str, Any]]:
    fields = sorted({*showing.columns, "page_title", "page_url"})
    if unknown := [name for name in fields if name not in TABLES["records"].columns]:
        why = f"must be columns of records: {', '.join(TABLES['records'].columns)}"
        raise InputError(why, key="show_columns", value=unknown[0])
    try:
        check_links(showing.links, [*fields, "image_url", "source_url", *sorted(attributes)])
    except ValueError as error:
        raise as_input_error(error) from error
    return _by_key(records, "image_id", ["image_id", *fields], pictures, need=False, key="records")


def _by_key(
    source: JoinedTables | None, name: str, columns: Sequence[str], wanted: Iterable[str], *, need: bool, key: str
) -> dict[str, dict[str, Any]]:
    """Return the rows whose column `name` is wanted.

    If a picture has several records, the first; of several renditions, the first with bytes, as `write_pictures` does.
    """
    if source is None:
        if need:
            raise InputError(f"required: the table of the items' {key}", key=key, value="")
        return {}
    ids = pa.array(sorted(wanted), pa.string())
    rows: dict[str, dict[str, Any]] = {}
    for batch in source.batches(list(columns)):
        for row in batch.filter(pc.is_in(batch[name], ids)).to_pylist():
            if TABLES[source.name].key == (name,):
                _add(rows, row[name], row, source, name)
            elif not _has_bytes(rows.setdefault(row[name], row)) and _has_bytes(row):
                rows[row[name]] = row
    if need and (missing := next((key for key in ids.to_pylist() if key not in rows), None)):
        raise InputError(f"no {name} {missing!r}, which an item names; use the table of these items", place=source.uri)
    return rows


def _has_bytes(row: Mapping[str, Any]) -> bool:
    """Return whether a row of `images` has bytes, from which its format is; False for a row of another table."""
    return row.get("status") == Status.OK and row.get("format") is not None


def _add(rows: dict[str, dict[str, Any]], key: str, row: dict[str, Any], source: JoinedTables, name: str) -> None:
    """Add a row under its key, unless the same row is there already.

    Raises:
        InputError: another table has a different row under this key.
    """
    if (other := rows.setdefault(key, row)) != row:
        column = next(column for column in row if row[column] != other[column])
        raise InputError(
            f"two tables hold {name} {key!r} with different {column}; name one of them, or run annotate once for each",
            place=source.uri,
        )


def _shown_item(
    item: Mapping[str, Any],
    images: Sequence[tuple[str, Mapping[str, Any]]],
    texts: Mapping[str, tuple[str, str]],
    record: Mapping[str, Any],
    showing: Showing,
) -> ShownItem:
    sources = [url for _, image in images[:1] for url in (image["final_url"], image["source_url"]) if is_web(url)]
    web = sources[0] if sources else None
    # search terms and their sources are lists
    facts = {name: ", ".join(value) if isinstance(value, list) else value for name, value in record.items()}
    return ShownItem(
        item_id=item["item_id"],
        image_ids=tuple(image_id for image_id, _ in images),
        pictures=tuple(_address(image_id, image, showing.base) for image_id, image in images),
        facts=tuple((name.replace("_", " "), facts[name]) for name in showing.columns if facts.get(name)),
        texts=dict(sorted(texts.items())),
        links=links_of(showing.links, {**dict(item["attributes"] or ()), **facts, "image_url": web, "source_url": web}),
        own_set=showing.own_sets.get(item["item_id"]),
    )


def _address(image_id: str, image: Mapping[str, Any], base: str | None) -> str:
    if base is not None:
        return base + file_name(image_id, image["format"])
    for url in (image["final_url"], image["source_url"]):
        if is_web(url):
            return str(url)
    raise InputError(
        f"{image_id}: a browser cannot open its source {image['source_url']!r}; "
        "use pictures=files, and picture_base= for the address that will serve them",
        key="pictures",
    )


def file_name(image_id: str, format_: str | None) -> str:
    """Return the name of a picture's file."""
    return f"{image_id}.{EXTENSIONS.get(format_ or '', 'bin')}"


def write_pictures(images: JoinedTables | None, wanted: Iterable[str], folder: str) -> int:
    """Write the wanted pictures' bytes to `folder`, one at a time; return how many were written."""
    if images is None:
        return 0
    ids = pa.array(sorted(wanted), pa.string())
    written: set[str] = set()
    for batch in images.batches(["image_id", "format", "bytes", "status"]):
        for index in pc.indices_nonzero(pc.is_in(batch["image_id"], ids)).to_pylist():
            (row,) = batch.slice(index, 1).to_pylist()
            if row["bytes"] is not None and row["image_id"] not in written:
                locations.replace(locations.join(folder, file_name(row["image_id"], row["format"])), row["bytes"])
                written.add(row["image_id"])
    return len(written)


def open_shown(key: str, value: Any, *expected: str) -> JoinedTables | None:
    """Return the tables in `key=value`: a table, a glob of tables, or a list of both; None if the value is null.

    Raises:
        InputError: the value is none of these, a table does not exist, or tables have different names.
    """
    patterns = [value] if isinstance(value, str) else value
    if value is None or patterns == []:
        return None
    if not isinstance(patterns, list) or not all(isinstance(pattern, str) and pattern for pattern in patterns):
        raise InputError(f"must be a table, a glob of tables, or a list of them: {key}=[A,B]", key=key, value=value)
    sources = sorted(open_tables(patterns, *expected, key=key), key=lambda source: source.uri)
    if len(names := sorted({source.name for source in sources})) > 1:
        raise InputError(f"holds tables of {' and '.join(names)}; run annotate once for each", key=key, value=value)
    return JoinedTables(tuple(sources))


def read_own_sets(
    cfg: OwnQuestionsConfig, items: Sequence[Mapping[str, Any]], texts: Mapping[str, Mapping[str, Any]]
) -> dict[str, OwnSet]:
    """Return the questions about each item, by item_id; print how many items without questions are left out.

    Args:
        items: rows of `items`.
        texts: role and text of each text, by text_id.

    Raises:
        InputError: there is no table of questions, or no item has questions.
    """
    assert cfg.questions is not None
    names = {item["item_id"]: candidate_sets(_own_value(item, texts, cfg.questions_by)) for item in items}
    wanted = {name for of_item in names.values() for name in of_item}
    sets: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for batch in open_table(cfg.questions, "questions", key="questions").batches(
        ["set_id", "question_id", "text", "valid"]
    ):
        for row in batch.to_pylist():
            if row["set_id"] in wanted and is_asked(row):
                sets[row["set_id"]].append((row["question_id"], row["text"]))
    own_sets = {
        item: OwnSet(name, tuple(sets[name]))
        for item, of_item in names.items()
        if (name := next((name for name in of_item if name in sets), None))
    }
    if not own_sets:
        why = (
            f"none of the {len(items):,} items has a set of questions; the set_id of a set must be the "
            f"{cfg.questions_by!r} of an item (questions_by=), or the id that `questions` gives this text"
        )
        raise InputError(why, key="questions", value=cfg.questions)
    if left_out := len(items) - len(own_sets):
        say(f"  {left_out:,} of {len(items):,} items have no questions and are left out")
    return own_sets


def _own_value(item: Mapping[str, Any], texts: Mapping[str, Mapping[str, Any]], by: str) -> str:
    """Return the attribute `by` of an item, else its texts with that role, as for the context fields of prompts."""
    if value := dict(item["attributes"] or ()).get(by):
        return str(value)
    return "\n\n".join(texts[name]["text"] or "" for name in item["text_ids"] or () if texts[name]["role"] == by)
