"""Prompts for text-to-image models from a table of texts or items, and the items that show the pictures.

The pictures that a model draws have units, ids and seeds.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc

from actors import schemas
from actors.diffusion_models import DrawingSettings
from actors.ids import content_id
from actors.status import Status
from actors.untrusted import parse_json
from actors.vlm.generation import sample_seed
from jobs.checkpoints.image_model import ImageModelConfig
from jobs.errors import InputError
from jobs.items_from.items_output import ITEMS, ItemsPlan, UnitRows, rows_of
from jobs.judging.items import ItemTables, open_sources
from jobs.judging.joined_rows import lookup
from jobs.store.files.objects import CompactList
from jobs.store.object_rows import read_unit
from jobs.store.reading import TableSource, open_table
from jobs.store.table_plan import TablePlan
from jobs.store.units import Unit
from jobs.store.writer import UnitTask


@dataclass(frozen=True)
class DrawnPictures:
    """The settings that a run's pictures depend on besides their prompts; rows are one per prompt and sample.

    Attributes:
        role: role of the texts that are prompts.
        samples: pictures per prompt.
        seed: seed of the run, from which each picture's seed is derived.
        model: the model's name in the tables.
        settings: hash of the drawing settings.
    """

    role: str
    samples: int
    seed: int
    model: str
    settings: str

    @classmethod
    def by(cls, model: ImageModelConfig, drawing: DrawingSettings, *, role: str, samples: int) -> Self:
        """Return the pictures that a model draws with these settings."""
        settings = content_id(json.dumps({**drawing.options, "seed": drawing.seed, **model.identity}, sort_keys=True))
        return cls(role, samples, drawing.seed, model.rater, settings)

    def unit(self, prompts: Unit, *, alone: bool) -> Unit:
        """Return the unit of the pictures drawn from a unit of prompts.

        Args:
            alone: whether this is the only model; the unit then has the name of the prompts' unit.
        """
        return replace(
            prompts,
            name=prompts.name if alone else content_id("drawn by", self.model, prompts.name),
            rows=None if prompts.rows is None else prompts.rows * self.samples,
            extra={**prompts.extra, IMAGE_MODEL: self.model, **({} if alone else {"parent": prompts.name})},
        )

    def has(self, unit: Unit) -> bool:
        """Return whether this model draws the pictures of a unit."""
        return model_of(unit) == self.model

    def image_id(self, prompt_id: str, sample: int) -> str:
        """Return the id of a picture, which stays the same after a retry."""
        return content_id("generated", prompt_id, self.model, self.settings, str(sample))

    def requests(self, prompts: Sequence[tuple[str, str]]) -> pa.Table:
        """Return `actors.schemas.IMAGE_PROMPTS` for prompts (id, text)."""
        rows = [
            {
                "image_id": self.image_id(prompt_id, sample),
                "prompt": text,
                "seed": sample_seed(self.seed, prompt_id, sample),
                "status": Status.OK.value,
            }
            for prompt_id, text in prompts
            for sample in range(self.samples)
        ]
        return schemas.to_table(rows, schemas.IMAGE_PROMPTS)

    def items(self, prompts: Sequence[tuple[str, Mapping[str, Any]]]) -> list[dict[str, Any]]:
        """Return a row of `items` per picture, from pairs of a prompt's id and the row of `items` to complete."""
        return [
            {**item, "item_id": image_id, "kind": "image", "image_ids": [image_id], "attributes": [
                *((name, value) for name, value in item["attributes"] if name not in (PROMPT_ID, IMAGE_MODEL, SAMPLE)),
                (PROMPT_ID, prompt_id), (IMAGE_MODEL, self.model), (SAMPLE, str(sample)),
            ]}
            for prompt_id, item in prompts
            for sample in range(self.samples)
            for image_id in (self.image_id(prompt_id, sample),)
        ]  # fmt: skip


@dataclass(frozen=True)
class ImagePromptReader:
    """Reader of a unit's prompts; pickled and sent to the workers.

    Attributes:
        drawn: the settings that the pictures depend on.
        kind: texts or items.
        joined: whether a unit's second input has the items' texts.
    """

    drawn: DrawnPictures
    kind: str

    def __call__(self, task: UnitTask) -> pa.Table:
        """Return a unit's requests (`actors.schemas.IMAGE_PROMPTS`)."""
        inputs = task.unit.inputs
        if self.kind == "texts":
            return self.drawn.requests([(row["text_id"], row["text"]) for row in self._texts(inputs[0].uri)])
        items = read_unit(inputs[0].uri, columns=["item_id", "text_ids"]).to_pylist()
        ids = {text_id for item in items for text_id in item["text_ids"] or ()}
        texts = lookup(inputs[1], "text_id", ids, ["role", "text"])
        prompts = []
        for item in items:
            rows = [texts[text_id] for text_id in item["text_ids"] or () if text_id in texts]
            parts = [row["text"] for row in rows if row["role"] == self.drawn.role and row["text"]]
            prompts.append((item["item_id"], "\n\n".join(parts)))
        return self.drawn.requests(prompts)

    def items(self, unit: Unit) -> UnitRows:
        """Return the items that show a unit's pictures."""
        if self.kind == "texts":
            parents = [(row["text_id"], _item_of_text(row)) for row in self._texts(unit.inputs[0].uri)]
        else:
            rows = read_unit(unit.inputs[0].uri).to_pylist()
            parents = [(row["item_id"], {**row, "attributes": row["attributes"] or []}) for row in rows]
        items = self.drawn.items(parents)[: unit.limit]
        left_out = Counter(unit.extra.get("filtered", {}))
        return UnitRows({ITEMS: rows_of(ITEMS, items)}, rows_in=len(items) + left_out.total(), filtered=left_out)

    def _texts(self, uri: str) -> list[dict[str, Any]]:
        rows = read_unit(uri, columns=["text_id", "role", "source", "text"])
        prompts: list[dict[str, Any]] = rows.filter(_has_role(rows, self.drawn.role)).to_pylist()
        return prompts


@dataclass(frozen=True)
class PromptTables:
    """The tables of prompts.

    Attributes:
        prompts: a table of texts, or of items.
        items: the items with their texts; None for a table of texts.
    """

    prompts: TableSource
    items: ItemTables | None

    @property
    def identity(self) -> dict[str, Any]:
        """Return the inputs' part of a run's identity."""
        return self.items.identity if self.items else {"input": self.prompts.identity}

    def units(self, drawn: Sequence[DrawnPictures]) -> Sequence[Unit]:
        """Return the units of the pictures: the prompts' units, once per model.

        With a single model, they have the names of the prompts' units.

        Raises:
            InputError: there is no prompt.
        """
        of_prompts = CompactList(self.items.units() if self.items else self._of_texts(drawn[0].role))
        if not self.items and not any(unit.rows for unit in of_prompts):
            raise InputError(_no_role("input", self.prompts, drawn[0].role))
        return CompactList(model.unit(unit, alone=len(drawn) == 1) for model in drawn for unit in of_prompts)

    def _of_texts(self, role: str) -> Iterator[Unit]:
        for unit in self.prompts.units():
            rows = read_unit(unit.inputs[0].uri, columns=["role"])
            prompts = int(pc.sum(_has_role(rows, role)).as_py() or 0)
            others = rows.num_rows - prompts
            extra = {"filtered": {"other roles": others}} if others else {}
            yield replace(unit, rows=prompts, extra=extra)


def open_prompts(uri: str, *, texts: str | None, role: str) -> PromptTables:
    """Open the tables of prompts.

    Raises:
        InputError: a table does not exist or does not fit, or no text has the role.
    """
    source = open_table(uri, "texts", "items", key="input")
    if source.name == "texts":
        if texts:
            why = f"allowed only for a table of items, and input={uri} has texts"
            raise InputError(why, key="texts", value=texts, remedy="omit it")
        return PromptTables(source, None)
    if not texts:
        raise InputError("a table of items", key="input", value=uri, remedy="set texts= to the table of their texts")
    items = open_sources(uri, images=None, texts=texts, records=None, fields=[role], pictures=False)
    assert items.texts is not None
    if not any(pc.any(_has_role(rows, role)).as_py() for rows in items.texts.batches(["role"])):
        raise InputError(_no_role("texts", items.texts, role))
    return PromptTables(source, items)


def items_plan(plan: TablePlan, readers: Mapping[str, ImagePromptReader]) -> ItemsPlan:
    """Return the plan of the items written next to the pictures of `plan`: one per picture, with the same units.

    Args:
        readers: the reader of each model's prompts, by the model's name in the tables.
    """

    def read(unit: Unit) -> UnitRows:
        return readers[model_of(unit)].items(unit)

    return ItemsPlan(units=plan.units, identity=plan.identity, read=read, tables=(ITEMS,), derived=True)


def _has_role(rows: pa.Table, role: str) -> Any:
    return pc.fill_null(pc.equal(rows["role"], role), False)


def _no_role(key: str, texts: TableSource, role: str) -> str:
    roles = {name for rows in texts.batches(["role"]) for name in pc.unique(rows["role"]).to_pylist() if name}
    available = f"its roles are {', '.join(sorted(roles))}" if roles else "its texts have none"
    return f"prompt_role={role}: no text of {key}={texts.uri} has this role; {available}"


def _item_of_text(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a prompt's row of `items` without its picture; the values of `jobs.prompts` become attributes."""
    try:
        values = parse_json(row["source"] or "{}").items()
        attributes = [tuple(map(str, pair)) for pair in values]
    except (ValueError, AttributeError):  # texts that remine prompts did not write
        attributes = [("source", row["source"])]
    return {"text_ids": [row["text_id"]], "attributes": attributes}


SAMPLE, IMAGE_MODEL, PROMPT_ID = "sample", "image_model", "prompt_id"  # attributes of the items


def model_of(unit: Unit) -> str:
    """Return the name, in the tables, of the model that draws the pictures of a unit."""
    return str(unit.extra[IMAGE_MODEL])
