"""Ratings joined with their items and pictures: one flat row per rating, for a data frame or a spreadsheet."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jobs.judging.kept_rubric import Rubrics
from jobs.runtime.selection.exclusions import ExclusionFilter
from jobs.store.object_rows import SharedLookup
from jobs.store.reading import TableSource

RECORD = ("page_title", "page_url", "image_url")
IMAGE = ("source_url", "author", "licence")
ITEM = ("kind", "response_id", "gold")
IDS = ("item_id", "image_id")
ASKED = ("rubric", "question", "question_text", "target", "rater", "condition", "method", "order", "sample")
ANSWER = (
    "value",
    "label",
    "score",
    "expected",
    "outside_mass",
    "truncated",
    "empty_context",
    "status",
    "error_kind",
    "comment",
    "seconds",
)
WORDS = ("question_text", "label")  # from the rubric kept with the table of ratings
NUMBERS = {"sample": pa.int32()} | dict.fromkeys(("score", "expected", "outside_mass", "seconds"), pa.float64())
PROBABILITY = "p_"  # before an answer: the column of its probability
SEPARATOR = "; "  # between several correct answers
NONE_RIGHT = "[]"  # as `items columns.gold=` reads it; an empty cell is unknown


class FlatTable:
    """Joins ratings with items, records and images, each of which may be absent.

    A rating of a picture has the picture's id as item_id; any other rating has the pictures of its item. An item with
    several pictures has the record and the source of the first one. The picture is unknown if no table of items,
    records or images has the id.

    Args:
        items: tables of items; the first one is used for an item in several tables.
        records, images: tables of the pictures; the first of several rows of a picture is used.
        rubrics: the rubrics kept with the tables of ratings.
        exclusion_filter: the exclusions; ratings of excluded pictures are left out.
        answers: answers whose probabilities become columns; `answers_with_probabilities` finds them.
    """

    def __init__(
        self,
        *,
        items: Sequence[TableSource],
        records: TableSource | None,
        images: TableSource | None,
        rubrics: Rubrics,
        exclusion_filter: ExclusionFilter,
        answers: Sequence[str] = (),
    ) -> None:
        self._items = [_lookup(source, "item_id", (*ITEM, "image_ids", "attributes")) for source in items]
        self._records = _lookup(records, "image_id", RECORD) if records else None
        self._images = _lookup(images, "image_id", IMAGE) if images else None
        self._rubrics, self._exclusion_filter = rubrics, exclusion_filter
        self._answers = {f"{PROBABILITY}{answer}": answer for answer in answers}
        taken = {*IDS, *RECORD, *IMAGE, *ITEM, *ASKED, *ANSWER, *self._answers}
        self._attributes: dict[str, str] = {}
        for name in sorted({name for source in items for name in _attributes(source)}):
            column = name
            while column in taken:
                column = f"item_{column}"
            self._attributes[name] = column
            taken.add(column)

    @property
    def schema(self) -> pa.Schema:
        """The columns of `rows`: ids, record, picture, item with its attributes, question, answer."""
        names = [*IDS, *(RECORD if self._records else ()), *(IMAGE if self._images else ())]
        names += [*ITEM, *sorted(self._attributes.values())] if self._items else []
        columns = [(name, NUMBERS.get(name, pa.string())) for name in [*names, *ASKED, *ANSWER]]
        return pa.schema([*columns, *((name, pa.float64()) for name in self._answers)])

    def rows(self, source: TableSource) -> Iterator[pa.Table]:
        """Yield the rows of a table of ratings, one row group at a time."""
        rating_columns = [name for name in (*ASKED, *ANSWER) if name not in WORDS]
        lists = ["answers", "probabilities"] if self._answers else []
        for ratings in source.batches(["item_id", *rating_columns, *lists]):
            ids = pc.unique(ratings["item_id"])
            facts, excluded = self._facts(ids)
            at = pc.index_in(ratings["item_id"], value_set=ids)
            columns = {name: ratings[name] for name in rating_columns} | self._words(ratings)
            columns["truncated"] = pc.binary_join(columns["truncated"], " ")
            columns |= {name: facts[name].take(at) for name in facts.column_names}
            columns |= self._probabilities(ratings) if self._answers else {}
            rows = pa.table([columns[field.name].cast(field.type) for field in self.schema], schema=self.schema)
            yield rows.filter(pc.invert(excluded.take(at)))

    def _facts(self, ids: pa.Array) -> tuple[pa.Table, pa.Array]:
        """Return a row per item, and whether its pictures are excluded."""
        rows: dict[str, dict[str, Any]] = {name: {"item_id": name} for name in ids.to_pylist()}
        pictures = {name: [name] for name in rows}
        described = set[str]()  # items with pictures in a table
        for items in reversed(self._items):
            for item in items.rows(ids).to_pylist():
                attributes = {self._attributes[name]: value for name, value in item["attributes"] or ()}
                gold = None if item["gold"] is None else SEPARATOR.join(item["gold"]) or NONE_RIGHT
                facts = {name: item[name] for name in ITEM} | {"gold": gold}
                # Replace the entire row, so that no attribute of another table's row remains.
                rows[item["item_id"]] = {"item_id": item["item_id"], **facts, **attributes}
                pictures[item["item_id"]] = item["image_ids"] or []
                described.add(item["item_id"])
        first = pa.array([next(iter(pictures[name]), None) for name in rows], pa.string())
        for lookup in (self._records, self._images):
            by_picture: dict[str, dict[str, Any]] = {}
            for fact in lookup.rows(first).to_pylist() if lookup else ():
                by_picture.setdefault(fact.pop("image_id"), fact)
            for row, picture in zip(rows.values(), first.to_pylist(), strict=True):
                row.update(by_picture.get(picture, {}))
            described |= by_picture.keys()
        hit = self._exclusion_filter.hit
        excluded = [
            hit(name, *pictures[name], row.get("image_url"), row.get("source_url")) for name, row in rows.items()
        ]
        for name, row in rows.items():
            if (source := row.get("source_url")) and source.startswith("/"):
                row["source_url"] = source.rpartition("/")[2]  # the file is published without its owner's folders
            row["image_id"] = (" ".join(pictures[name]) or None) if name in described else None
        names = [field.name for field in self.schema if field.name not in (*ASKED, *ANSWER, *self._answers)]
        table = pa.table({name: pa.array([row.get(name) for row in rows.values()], pa.string()) for name in names})
        return table, pa.array(excluded, pa.bool_())

    def _words(self, ratings: pa.Table) -> dict[str, pa.Array]:
        """Return the text of each question and the label of each answer, null where the rubric is unknown."""
        texts, labels = [], []
        for name, question, value in zip(
            *(ratings[c].to_pylist() for c in ("rubric", "question", "value")), strict=True
        ):
            kept = self._rubrics.question(name, question)
            texts.append((kept.text or None) if kept else None)
            labels.append(next((a.label for a in kept.answers if a.value == value), None) if kept else None)
        return {"question_text": pa.array(texts, pa.string()), "label": pa.array(labels, pa.string())}

    def _probabilities(self, ratings: pa.Table) -> dict[str, pa.Array]:
        """Return the probability of each answer, null where the rating has none or the question another answer."""
        rated = ratings.select(["answers", "probabilities"]).combine_chunks()
        has_both = pc.equal(pc.list_value_length(rated["answers"]), pc.list_value_length(rated["probabilities"]))
        rows = np.flatnonzero(pc.fill_null(has_both, False).to_numpy(zero_copy_only=False))
        rated = rated.take(pa.array(rows))
        at = rows[pc.list_parent_indices(rated["answers"]).to_numpy()]
        names = pc.list_flatten(rated["answers"])
        values = pc.list_flatten(rated["probabilities"]).to_numpy(zero_copy_only=False).astype(np.float64)
        columns = {}
        for column, answer in self._answers.items():
            is_answer = pc.equal(names, answer).to_numpy(zero_copy_only=False).astype(bool)
            of_rows = np.full(ratings.num_rows, np.nan)
            of_rows[at[is_answer]] = values[is_answer]
            columns[column] = pa.array(of_rows, pa.float64(), from_pandas=True)
        return columns


def answers_with_probabilities(sources: Iterable[TableSource]) -> list[str]:
    """Return the answers that have a probability in some row of the tables of ratings, in order of appearance."""
    answers: dict[str, None] = {}
    for source in sources:
        for batch in source.batches(["answers", "probabilities"]):
            rated = batch.filter(pc.is_valid(batch["probabilities"]))
            answers |= dict.fromkeys(pc.unique(pc.list_flatten(rated["answers"])).to_pylist())
    return list(answers)


def _lookup(source: TableSource, key: str, columns: Iterable[str]) -> SharedLookup:
    return SharedLookup([footer.object for footer in source.footers], key=key, columns=list(columns))


def _attributes(source: TableSource) -> set[str]:
    """Return the names of the attributes of a table of items."""
    names: set[str] = set()
    for batch in source.batches(["attributes"]):
        for chunk in batch["attributes"].chunks:
            names.update(pc.unique(chunk.keys).to_pylist())
    return names
