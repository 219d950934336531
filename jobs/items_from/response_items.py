"""Mode `responses=` of `items`: responses of several models, prompts and samples become items.

From tables of ratings, the majority label of each picture for each question can become an attribute.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from actors.ids import content_id
from actors.items import JUDGED, RESPONSE_STATUS
from actors.status import Status, is_blank
from jobs.analysis.attributes import read_raters
from jobs.analysis.rating_codes import Reduction
from jobs.analysis.reduced_question import Reduced
from jobs.errors import InputError
from jobs.items_from.items_config import ItemsConfig, ResponseKeys
from jobs.items_from.items_output import ITEMS, ItemsPlan, UnitRows, rows_of
from jobs.judging.joined_rows import lookup
from jobs.judging.rating_tables import open_ratings
from jobs.metrics.majority import NO_MAJORITY, majority, pooled_counts
from jobs.metrics.rated_question import matching
from jobs.runtime.selection import exclusions
from jobs.runtime.selection.draws import Draw, usable
from jobs.runtime.selection.exclusions import ExclusionFilter, Exclusions
from jobs.store import table_plan
from jobs.store.files import locations
from jobs.store.files.objects import CompactList, Object
from jobs.store.hashing import Hashes, hash_texts
from jobs.store.identity import identity_of
from jobs.store.keys import refuse_shared_keys
from jobs.store.object_rows import read_unit
from jobs.store.pieces import FROM, NUMBER, PIECES, TO, UNCUT, UnitPieces, begun_cuts, piece_of, ranges
from jobs.store.reading import TableSource, open_table, open_tables
from jobs.store.table_plan import first_rows
from jobs.store.units import Unit
from jobs.store.writer import Reject
from jobs.tables import HUMAN

GENERATED = "generated"  # role of a response's text
KIND = "response"
# Columns that become attributes.
OF_RESPONSE = ("model", "prompt", "sample", "condition", "finish_reason", "refusal_kind")
LABELS_BY = "labels_by"  # attribute: the raters whose majority gave the labels
TAKEN = frozenset({*OF_RESPONSE, "picture", RESPONSE_STATUS, LABELS_BY})
EVERYONE, PEOPLE, MODELS = "everyone", "people", "models"
NO_RATING = "(no rating)"
_NO_RATING, _NO_MAJORITY = -2, -1
MISSING_ITEM = "missing_item"  # reason of rejects
_ITEM_COLUMNS = ("kind", "image_ids", "text_ids", "targets", "gold", "attributes")
_TEXT_COLUMNS = ("role", "language", "date", "source", "revision", "text")


@dataclass(frozen=True)
class QuestionLabels:
    """The labels for one question.

    Attributes:
        items: uint64[n], hashes of the rated items' ids, ascending.
        codes: int16[n], index in `names`; -1 without a majority, -2 without a rating.
        names: the answers; those that mean "none" are pooled (`jobs.metrics.majority.pooled`).
    """

    items: Hashes
    codes: NDArray[np.int16]
    names: tuple[str, ...]

    def of(self, ids: Sequence[str]) -> list[str]:
        """Return the label of each item, `(no majority)` or `(no rating)`."""
        if not len(self.items):
            return [NO_RATING] * len(ids)
        hashes = hash_texts(ids)
        row = np.minimum(np.searchsorted(self.items, hashes), len(self.items) - 1)
        codes = np.where(self.items[row] == hashes, self.codes[row], _NO_RATING)
        special = {_NO_MAJORITY: NO_MAJORITY, _NO_RATING: NO_RATING}
        return [special.get(code) or self.names[code] for code in codes.tolist()]


Labels = Mapping[str, QuestionLabels]  # by question


@dataclass(frozen=True)
class AskedItem:
    """The item that a model was asked about.

    Attributes:
        item: its row of `items`.
        texts: its rows of `texts`, except those with the role of a response.
    """

    item: Mapping[str, Any]
    texts: Sequence[Mapping[str, Any]] = ()


@dataclass(frozen=True)
class ResponseTables:
    """The input tables; `asked` and `texts` are the items that the models were asked about, and their texts."""

    responses: Sequence[TableSource]
    asked: TableSource | None
    texts: TableSource | None
    labels: Sequence[TableSource]

    @property
    def identity(self) -> dict[str, Any]:
        """Return the inputs' part of a run's identity."""
        single = {"items": self.asked, "texts": self.texts}
        return {
            "responses": sorted(table.identity for table in self.responses),
            **{name: table.identity for name, table in single.items() if table},
            **({"labels": sorted(table.identity for table in self.labels)} if self.labels else {}),
        }


@contextmanager
def response_plan(cfg: ItemsConfig, excluded: Exclusions) -> Iterator[ItemsPlan]:
    """Yield the plan of items made from responses.

    Raises:
        InputError: a table cannot be used, two tables hold the same response, or the labels or the draw are not
            possible.
    """
    cfg.draw.check()
    table_plan.check_limit(cfg.limit)
    tables = open_response_tables(cfg)
    labels: Labels = {}
    if tables.labels:
        labels = read_labels(tables.labels, questions=cfg.label_questions, by=cfg.labels_by)
        if taken := sorted(TAKEN & set(labels)):
            raise InputError(
                f"the question {taken[0]} has the name of another attribute; set label_questions=", key="labels"
            )
    reader = ResponseUnitReader(tables, labels, cfg.labels_by, excluded.marks, cfg.role)
    begun = begun_cuts(locations.join(cfg.out, ITEMS), overwrite=cfg.overwrite)
    units, lines = CompactList(response_units(tables, cfg.unit_rows, begun)), list[str]()
    limit = None
    if cfg.limit is not None:
        whole = sum(table.rows for table in tables.responses)
        units = first_rows(units, cfg.limit)
        limit = table_plan.RowLimit(cfg.limit, min(cfg.limit, whole), whole, per_input=False, noun="responses")
    if cfg.draw.is_set:
        reader.draw = Draw(cfg.draw, ITEMS)
        units, lines = _drawn(units, reader, reader.draw)
    yield ItemsPlan(
        units=units,
        identity={
            **identity_of(
                cfg,
                {
                    **tables.identity,
                    **({"label_questions": sorted(labels), "labels_by": cfg.labels_by} if labels else {}),
                    **cfg.draw.identity,
                    "unit_rows": cfg.unit_rows,
                    **({"role": cfg.role} if cfg.role != GENERATED else {}),
                },
                base=ResponseKeys,
                instead_of=["label_questions", "labels_by", "draw", "role"],
            ),
            **({"limit": cfg.limit} if cfg.limit is not None else {}),
        },
        read=reader.read,
        derived=True,
        condition=cfg.condition,
        metadata={"labels_by": cfg.labels_by} if labels else {},
        lines=lines,
        limit=limit,
    )


def open_response_tables(cfg: ItemsConfig) -> ResponseTables:
    """Open the input tables.

    Raises:
        InputError: a table does not exist, is incomplete or of another kind, or two tables have the same response.
    """
    for key, value, needed in (("texts", cfg.texts, "input_items"), ("label_questions", cfg.label_questions, "labels")):
        if value and not getattr(cfg, needed):
            raise InputError(f"only read with {needed}=", key=key, value=value, remedy=f"set {needed}=, or omit {key}=")
    responses = sorted(open_tables(cfg.responses, "responses", key="responses"), key=lambda table: table.uri)
    refuse_shared_keys(responses, groups=("model", "prompt"), row="response")
    asked = open_table(cfg.input_items, "items", key="input_items") if cfg.input_items else None
    texts = open_table(cfg.texts, "texts", key="texts") if cfg.texts else None
    return ResponseTables(
        responses, asked, texts, sorted(open_ratings(cfg.labels, key="labels"), key=lambda table: table.uri)
    )


def response_units(tables: ResponseTables, unit_rows: int, begun: Mapping[str, UnitPieces]) -> Iterator[Unit]:
    """Yield units of at most `unit_rows` responses of one unit of the pictures.

    Tables that were made from the same pictures have the same names of units. Their objects are put together, so that
    all responses about a picture are in units with that parent, and joins with the pictures stay local. In a table that
    has begun (`begun`: its cuts) they keep their names.
    """
    objects: dict[str, list[tuple[Object, int]]] = {}
    whole_units: dict[str, str] = {}  # by unit: the unit itself, or the unit that it is a piece of
    for table in tables.responses:
        for footer in table.footers:
            unit = footer.unit
            whole_units[unit.name] = unit.parent
            objects.setdefault(unit.name, []).append((footer.object, footer.rows))
    joined = [(table.by_unit(), table.whole()) for table in (tables.asked, tables.texts) if table]
    labels = [table.whole() for table in tables.labels]
    for parent, sources in sorted(objects.items()):
        others = [of_unit.get(parent) or of_unit.get(whole_units[parent]) or whole for of_unit, whole in joined]
        inputs = (*(source for source, _ in sources), *others, *labels)
        sizes = [rows for _, rows in sources]
        before = begun.get(parent, UNCUT)
        pieces = list(ranges(sum(sizes), unit_rows, before))
        for number, (first, last) in enumerate(pieces):
            piece = piece_of(first, last)
            of_rows = {PIECES: len(pieces), NUMBER: number} if len(sources) == 1 else {}
            extra = {"parent": parent, FROM: first, TO: last, **of_rows, "sizes": sizes}
            name = before.name(number, content_id("responses", parent, piece), rows=last - first)
            yield Unit(name, inputs, piece, last - first, extra)


@dataclass
class ResponseUnitReader:
    """Reader of the items of a unit.

    Attributes:
        role: role of the responses' texts.
        draw: the draw, if there is one; `drawn`: unit -> bool[items], which of the unit's items are drawn.
    """

    tables: ResponseTables
    labels: Labels
    labels_by: str
    marks: frozenset[str]
    role: str = GENERATED
    draw: Draw | None = None
    drawn: dict[str, np.ndarray] = field(default_factory=dict)

    def read(self, unit: Unit) -> UnitRows:
        """Return the rows of a unit."""
        exclusion_filter = ExclusionFilter(self.marks)
        responses = _responses(unit)
        rows, texts, filtered, rejects = self.rows(unit, responses, exclusion_filter)
        if self.draw is not None:
            is_drawn = self.drawn[unit.name]
            filtered["draw"] += int((~is_drawn).sum())
            rows = [row for row, keep in zip(rows, is_drawn.tolist(), strict=True) if keep]
        wanted = {text for row in rows for text in row["text_ids"]}
        matched = exclusion_filter.take_matched()
        return UnitRows(
            {ITEMS: rows_of(ITEMS, rows), "texts": rows_of("texts", [texts[name] for name in texts if name in wanted])},
            rows_in=len(responses),
            filtered=+filtered,
            rejects=rejects,
            tallies={
                "response_status": Counter(dict(row["attributes"])["response_status"] for row in rows),
                **({exclusions.TALLY: matched} if matched else {}),
            },
        )

    def rows(
        self, unit: Unit, responses: Sequence[Mapping[str, Any]], exclusion_filter: ExclusionFilter
    ) -> tuple[list[dict[str, Any]], dict[str, dict[str, Any]], Counter[str], list[Reject]]:
        """Return the rows of `items` before the draw, those of `texts` by id, and the responses that were left out."""
        asked = self._asked(unit, {response["item_id"] for response in responses})
        items: list[dict[str, Any]] = []
        texts: dict[str, dict[str, Any]] = {}
        filtered, rejects = Counter[str](), list[Reject]()
        labels = self._labels(asked)
        for number, response in enumerate(responses, start=unit.extra[FROM]):
            item = asked.get(response["item_id"])
            if item is None:
                message = f"input_items= has no item {response['item_id']}, which the response is about"
                rejects.append(Reject(unit.inputs[0].uri, number, MISSING_ITEM, message, response["response_id"]))
                continue
            if exclusion_filter.hit(response["item_id"], response["response_id"], *(item.item.get("image_ids") or ())):
                filtered["excluded"] += 1
                continue
            row, rows = response_item(
                response, item, unit=unit.name, labels=labels[response["item_id"]], role=self.role
            )
            items.append(row)
            texts.update((text["text_id"], text) for text in rows)
        return items, texts, filtered, rejects

    def _asked(self, unit: Unit, ids: set[str]) -> dict[str, AskedItem]:
        """Return the items that the models were asked about, by id."""
        if self.tables.asked is None:
            return {name: picture_item(name) for name in ids}
        others = list(unit.inputs[len(unit.extra["sizes"]) :])
        rows = lookup(others[0], "item_id", ids, _ITEM_COLUMNS)
        text_ids = {text for row in rows.values() for text in row["text_ids"] or ()}
        texts = lookup(others[1], "text_id", text_ids, _TEXT_COLUMNS) if self.tables.texts else {}
        return {
            name: AskedItem(
                row,
                [
                    {"text_id": text, **texts[text]}
                    for text in row["text_ids"] or ()
                    if text in texts and texts[text]["role"] != self.role
                ],
            )
            for name, row in rows.items()
        }

    def _labels(self, asked: Mapping[str, AskedItem]) -> dict[str, dict[str, str]]:
        """Return the labels of each item: its own, else those of its picture if it has exactly one."""
        labels: dict[str, dict[str, str]] = {name: {} for name in asked}
        if not self.labels:
            return labels
        pictures = [list(item.item.get("image_ids") or ()) for item in asked.values()]
        single = [ids[0] if len(ids) == 1 else name for name, ids in zip(asked, pictures, strict=True)]
        for question, of_question in self.labels.items():
            of_items, of_picture = of_question.of(list(asked)), of_question.of(single)
            for name, label, other in zip(asked, of_items, of_picture, strict=True):
                labels[name][question] = other if label == NO_RATING else label
        return {name: {**of_item, LABELS_BY: self.labels_by} for name, of_item in labels.items()}


def _responses(unit: Unit) -> list[dict[str, Any]]:
    """Return the responses of a unit in the order of the tables, reading only objects that contain some."""
    first, last = unit.extra[FROM], unit.extra[TO]
    rows: list[dict[str, Any]] = []
    for source, count in zip(unit.inputs, unit.extra["sizes"], strict=False):
        if first < count and last > 0:
            begin = max(first, 0)
            rows += read_unit(source.uri).slice(begin, last - begin).to_pylist()
        first, last = first - count, last - count
    return rows[: unit.limit]


def _drawn(units: Sequence[Unit], reader: ResponseUnitReader, draw: Draw) -> tuple[CompactList[Unit], list[str]]:
    """Return the units, whose versions cover the drawn items, and a description of the draw; holds 9 B per item."""
    keys: dict[str, np.ndarray] = {}
    for unit in units:
        exclusion_filter = ExclusionFilter(reader.marks)
        rows = rows_of(ITEMS, reader.rows(unit, _responses(unit), exclusion_filter)[0])
        keys[unit.name] = draw.add(rows, usable(rows, ITEMS, exclusion_filter))
    drawn = draw.drawn()
    reader.drawn = {name: drawn.mask(of_unit) for name, of_unit in keys.items()}
    versions = {name: content_id(mask.tobytes().hex()) for name, mask in reader.drawn.items()}
    return CompactList(replace(unit, piece=f"{unit.piece}, draw {versions[unit.name]}") for unit in units), [str(drawn)]


def picture_item(image_id: str) -> AskedItem:
    """Return the item for a response about a picture in a table of images."""
    return AskedItem({"item_id": image_id, "image_ids": [image_id]})


def response_item(
    response: Mapping[str, Any], asked: AskedItem, *, unit: str, labels: Mapping[str, str], role: str = GENERATED
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return a response's row of `items`, and its rows of `texts`.

    Args:
        response: a row of `responses`.
        asked: the item that the model was asked about.
        unit: name of the unit. It is part of the ids of the item's own texts: responses about one item share them
            within a unit but never across units, so that joins read one unit.
        labels: attributes that come from ratings.
        role: role of the response's text.

    A response that should have a text, but is blank, gets the status `unparsed`. Its attributes take precedence over
    the item's, and its labels over both. No attribute is named `role`, since context fields would show it instead of
    the text.
    """
    response_id = response["response_id"]
    texts = [{**text, "text_id": content_id("items", unit, text["text_id"])} for text in asked.texts]
    status = Status(response["status"])
    if is_blank(response["text"]):
        status = Status.UNPARSED if status in JUDGED else status
    else:
        text_id = content_id("items", response_id)
        texts.append({"text_id": text_id, "role": role, "source": response_id, "text": response["text"]})
    image_ids = list(asked.item.get("image_ids") or ())
    attributes = dict(asked.item.get("attributes") or ())
    attributes |= {"picture": " ".join(image_ids)} if image_ids else {}
    attributes |= {name: str(value) for name in OF_RESPONSE if (value := response[name]) not in (None, "")}
    attributes |= {RESPONSE_STATUS: status.value, **labels}
    item = {
        "item_id": response_id,
        "kind": KIND,
        "image_ids": image_ids,
        "text_ids": [text["text_id"] for text in texts],
        "response_id": response_id if role == GENERATED else None,  # otherwise the text is not a response to be judged
        "targets": asked.item.get("targets"),
        "gold": asked.item.get("gold"),
        "attributes": [(name, value) for name, value in attributes.items() if name != role],
    }
    return item, texts


def read_labels(sources: Sequence[TableSource], *, questions: Sequence[str], by: str) -> Labels:
    """Return the majority label of each rated item, for each question.

    A majority is more than half of an item's ratings, where several by one rater (samples, layouts) count as one
    (`jobs.metrics.majority`). Ratings against a target do not count. Memory: one question's ratings
    (`jobs.analysis.rating_codes`), then 10 B per rated item and question.

    Args:
        sources: tables of ratings.
        questions: the questions to read; empty: all.
        by: whose ratings count: everyone, people, models, or a glob of raters. Gold counts only if a glob matches it.

    Raises:
        InputError: a question does not exist, is asked by several rubrics or under several conditions, has too many
            answers, or has no ratings by the chosen raters.
    """
    asked: dict[str, set[tuple[str, str]]] = {}  # (rubric, condition) by question
    with Reduction() as reduction:
        for source in sources:
            for batch in source.batches(list(dict.fromkeys([*reduction.coder.columns, "condition"]))):
                rows = batch.filter(pc.equal(batch["target"], ""))
                if questions:
                    rows = rows.filter(pc.is_in(rows["question"], pa.array(list(questions), pa.string())))
                for question, *variant in _groups(rows):
                    asked.setdefault(question, set()).add((variant[0], variant[1]))
                reduction.add(rows)
        _check_asked(asked, questions)
        kinds = read_raters((), reduction.methods, gold=(), groups=()).kinds
        return {key[1]: _labels(reduction.question(key), kinds, by) for key in reduction.keys}


def _labels(reduced: Reduced, kinds: Mapping[str, str], by: str) -> QuestionLabels:
    question = reduced.key[1]
    raters = {
        EVERYONE: [name for name in reduced.answers.raters if kinds[name] != "gold"],
        PEOPLE: [name for name in reduced.answers.raters if kinds[name] == HUMAN],
        MODELS: [name for name in reduced.answers.raters if kinds[name] == "model"],
    }.get(by) or matching(reduced.answers.raters, by)
    if not raters:
        available = ", ".join(reduced.answers.raters)
        why = f"no such rater of {question}; there are {available}, and {EVERYONE}, {PEOPLE}, {MODELS}"
        raise InputError(why, key="labels_by", value=by)
    answers = reduced.answers.of_raters(raters)
    if not answers.values and answers.n:
        raise InputError(f"{question} has too many different answers; name questions with a few", key="label_questions")
    names, counts = pooled_counts(answers)
    codes = np.where(counts.sum(1) > 0, majority(counts), _NO_RATING).astype(np.int16)
    order = np.argsort(reduced.item, kind="stable")
    return QuestionLabels(reduced.item[order], codes[order], names)


def _check_asked(asked: Mapping[str, set[tuple[str, str]]], questions: Sequence[str]) -> None:
    if missing := next((name for name in questions if name not in asked), None):
        raise InputError(
            f"no ratings of {missing} without a target in labels=; there are "
            f"{', '.join(sorted(asked)) or 'none of those that are named'}",
            key="label_questions",
        )
    if not asked:
        raise InputError("no ratings without a target; a label is an answer about the picture alone", key="labels")
    for question, variants in sorted(asked.items()):
        if len(variants) > 1:
            ways = ", ".join(
                f"rubric {rubric}, condition {condition or 'none'}" for rubric, condition in sorted(variants)
            )
            raise InputError(f"{question} was asked in several ways ({ways}); name tables of one of them", key="labels")


def _groups(rows: pa.Table) -> set[tuple[str, str, str]]:
    """Return the distinct (question, rubric, condition)."""
    columns = ["question", "rubric", "condition"]
    groups = rows.group_by(columns).aggregate([])
    return set(zip(*(groups[name].to_pylist() for name in columns), strict=True))
