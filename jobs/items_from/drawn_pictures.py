"""Pictures drawn by a text-to-image model: their units, ids and seeds, and the items that show them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import pyarrow as pa

from actors import schemas
from actors.diffusion.settings import DrawingSettings
from actors.generator import sample_seed
from actors.ids import content_id
from actors.status import Status
from jobs.models.image_model import ImageModelConfig
from jobs.store.units import Unit

SAMPLE, IMAGE_MODEL, PROMPT_ID = "sample", "image_model", "prompt_id"  # attributes of the items


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


def model_of(unit: Unit) -> str:
    """Return the name, in the tables, of the model that draws the pictures of a unit."""
    return str(unit.extra[IMAGE_MODEL])
