"""Draw pictures from prompts with a text-to-image model of diffusers."""

import inspect
import io
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from actors import pictures, schemas
from actors.diffusion_models import DrawingSettings, ImageModelSettings, load_pipeline
from actors.errors import ModelError, first_line
from actors.fetching import image_rows
from actors.schemas import ImageRow
from actors.special_tokens import DataTexts, special_tokens
from actors.status import Status
from actors.vlm import errors
from actors.vlm.errors import EngineError

log = logging.getLogger(__name__)
RENDITION = image_rows.rendition_name(None)


class ImageGenerator:
    """Actor that draws one picture per row.

    A picture depends only on its prompt and seed, not on the other prompts of its batch: the noise comes from a CPU
    generator with that seed. In another batch it differs at most by the rounding of the device's kernels.

    Args:
        settings: size, steps and guidance.
        model: which model to load.
        author: value of the column `author`.
        licence: licence of the weights, for the column `licence`.
        threads: torch's threads on a CPU; None: torch's default.

    Raises:
        ValueError: the model cannot be loaded, is not a text-to-image model, or does not accept one of the settings.
    """

    INPUTS = schemas.IMAGE_PROMPTS
    OUTPUTS = schemas.IMAGES

    def __init__(
        self,
        settings: DrawingSettings,
        *,
        model: ImageModelSettings,
        author: str,
        licence: str | None = None,
        threads: int | None = None,
    ) -> None:
        import torch

        if threads is not None:
            torch.set_num_threads(threads)
        self._pipeline = load_pipeline(model)
        # Prompts may come from models or documents.
        parts = (getattr(self._pipeline, name, None) for name in ("tokenizer", "tokenizer_2", "tokenizer_3"))
        self._as_data = DataTexts(token for part in parts if part is not None for token in special_tokens(part))
        self._options = settings.options
        self._facts: ImageRow = {"author": author, "licence": licence}
        self._most: int | None = None  # largest batch, once one did not fit the memory
        allowed = inspect.signature(self._pipeline.__call__).parameters
        if "prompt" not in allowed or "strength" in allowed:  # `strength` is how much an input picture is changed
            raise ModelError(
                f"{type(self._pipeline).__name__} does not draw pictures from texts; use a text-to-image pipeline",
                model.checkpoint,
            )
        if unknown := [name for name in self._options if name not in allowed]:
            raise ModelError(
                f"{type(self._pipeline).__name__} does not take {unknown[0]}; set that key to null", model.checkpoint
            )

    def __call__(self, batch: pa.Table) -> pa.Table:
        """Draw the pictures of a batch.

        Args:
            batch: `actors.schemas.IMAGE_PROMPTS`. A row without a prompt becomes `missing_input`; a row with the status
                `reported` keeps it.

        Returns:
            Table `images`: PNG bytes and facts, status `ok`; `refused` (`safety_checker`) if the model's own checker
            withheld the picture; `error` (`out_of_memory` or the kind of error) if it could not be drawn.

        Raises:
            EngineError: the device failed; no row of this batch is returned.
        """
        rows = batch.to_pylist()
        ready = [row for row in rows if row["prompt"] and row["status"] == Status.OK]
        outcomes = dict(zip((row["image_id"] for row in ready), self._drawn(ready), strict=True))
        drawn = [self._row(row, outcomes.get(row["image_id"])) for row in rows]
        return schemas.to_table(drawn, self.OUTPUTS)

    def _row(self, row: Mapping[str, Any], outcome: ImageRow | None) -> ImageRow:
        shared: ImageRow = {
            "image_id": row["image_id"],
            "rendition": RENDITION,
            "attempts": 0 if outcome is None else 1,
        }
        if outcome is not None:
            return shared | self._facts | outcome
        if withheld := image_rows.withheld(row["status"]):
            return shared | withheld
        return shared | image_rows.failed(Status.MISSING_INPUT, "no_prompt", "the item has no text of prompt_role=")

    def _drawn(self, rows: Sequence[Mapping[str, Any]]) -> list[ImageRow]:
        """Return the outcome of each row; a batch that does not fit the memory is halved."""
        size = min(len(rows), self._most or len(rows))
        outcomes: list[ImageRow] = []
        while len(outcomes) < len(rows):
            group = rows[len(outcomes) : len(outcomes) + size]
            try:
                outcomes += self._group(group)
                continue
            except Exception as error:
                if errors.is_fatal(error):
                    raise EngineError(f"{type(self._pipeline).__name__}: {error}") from error
                if not errors.is_out_of_memory(error):
                    if size == 1:
                        outcomes.append(image_rows.failed(Status.ERROR, type(error).__name__, first_line(error)))
                    size = 1  # find the row that fails
                    continue
                if size == 1:
                    outcomes.append(image_rows.failed(Status.ERROR, "out_of_memory", first_line(error)))
                    continue
            # outside of the except clause, whose traceback would keep the failed pass's memory alive
            self._most = size = max(1, size // 2)
            log.warning("out of memory: %d pictures at a time", size)
            self._free()
        return outcomes

    def _free(self) -> None:
        import torch

        if torch.cuda.is_available():
            torch.cuda.empty_cache()

    def _group(self, rows: Sequence[Mapping[str, Any]]) -> list[ImageRow]:
        import torch

        options: dict[str, Any] = dict(self._options)
        if "negative_prompt" in options:
            options["negative_prompt"] = [options["negative_prompt"]] * len(rows)
        with torch.inference_mode():
            output = self._pipeline(
                prompt=[self._as_data(row["prompt"]) for row in rows],
                generator=[torch.Generator("cpu").manual_seed(row["seed"]) for row in rows],
                **options,
            )
        withheld = getattr(output, "nsfw_content_detected", None) or [False] * len(rows)
        return [_outcome(picture, bool(hidden)) for picture, hidden in zip(output.images, withheld, strict=True)]


def _outcome(picture: Any, is_withheld: bool) -> ImageRow:
    if is_withheld:
        return image_rows.failed(Status.REFUSED, "safety_checker", "the model's safety checker withheld the picture")
    out = io.BytesIO()
    picture.save(out, "PNG")
    data = out.getvalue()
    return image_rows.stored_picture(data, pictures.inspect(data))
