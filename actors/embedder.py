"""Embed pictures and texts. Pictures are decoded and resized on CPUs, then encoded on an accelerator."""

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from actors import schemas
from actors.devices import find_device, find_dtype
from actors.encoders.encoder_sources import EncoderSettings
from actors.encoders.towers import PixelRows, find_geometry, load_tower
from actors.errors import SettingError
from actors.fetching.decoders import PictureReader
from actors.pictures import DEFAULT_MAX_PIXELS, PictureError
from actors.status import Status, failed_reason
from actors.uploads import CudaLane, Uploads

if TYPE_CHECKING:
    import torch
    from PIL import Image

# On a GPU the next batch is packed and copied while the current one is computed, but only within a call.
BATCHES_PER_CALL = 8
_OUTCOME = ("status", "error_kind", "error_message")
Outcomes = tuple[list[str], list[str | None], list[str | None]]  # statuses, error kinds and error messages of rows
log = logging.getLogger(__name__)

RECOVERY = 64  # batches that must fit the memory before a halved batch size is doubled again
OUT_OF_MEMORY = ("out_of_memory", "the device's memory does not hold this row alone")


class PictureDecoder:
    """Actor that decodes pictures and resizes them to a model's input size; runs on CPUs and loads no weights."""

    INPUTS = schemas.ENCODED_PICTURES
    OUTPUTS = schemas.DECODED_PICTURES

    def __init__(self, settings: EncoderSettings, *, max_pixels: int = DEFAULT_MAX_PIXELS) -> None:
        """Prepare the geometric part of the model's own preprocessing.

        Args:
            settings: the encoder whose input size is needed.
            max_pixels: larger pictures are not decoded.

        Raises:
            ValueError: see `encoder_facts`.
        """
        self._geometry = find_geometry(settings.checkpoint, settings.pretrained, instruction=settings.instruction)
        self._max_pixels = max_pixels
        self._read = PictureReader(max_pixels=max_pixels)

    def __call__(self, batch: pa.Table) -> pa.Table:
        """Decode one batch.

        Args:
            batch: columns `image_id` (string), `bytes` (large_binary), `status`, `error_kind`, `error_message`
                (string); other columns are ignored.

        Returns:
            `item_id` (the image_id), `kind` ("image"), `pixels` (large_binary: a row for `Tower.rows`, often height
            x width x 3 uint8 of the model's input; null unless ok), `status`, `error_kind`, `error_message`. Rows that
            were not ok keep their status; ok without bytes becomes `missing_input`; a picture that cannot be decoded
            becomes `error` with a kind of `actors.fetching.decoders.PictureReader`.
        """
        outcomes = zip(*(batch[name].to_pylist() for name in _OUTCOME), strict=True)
        rows = [self._decode_row(data, *outcome) for data, outcome in zip(batch["bytes"], outcomes, strict=True)]
        columns = [batch["image_id"].cast(pa.string()), ["image"] * len(rows)]
        columns += [list(column) for column in zip(*rows, strict=True)] if rows else [[]] * 4
        return pa.table(dict(zip(self.OUTPUTS.names, columns, strict=True)), schema=self.OUTPUTS)

    def _decode_row(
        self, data: pa.LargeBinaryScalar, status: str, kind: str | None, message: str | None
    ) -> tuple[bytes | None, str, str | None, str | None]:
        """Return the row's pixels, status, error kind and error message."""
        if status != Status.OK:
            return None, status, kind, message
        if not data.is_valid:
            return None, Status.MISSING_INPUT.value, "no_bytes", "the row is ok but has no bytes"
        try:
            picture = self._read(data.as_py())
            self._check_elongation(picture)
            return self._geometry.prepare(picture).tobytes(), Status.OK.value, None, None
        except PictureError as error:
            return None, Status.ERROR.value, error.kind, str(error)
        except ValueError as error:  # a side that rounds to zero
            return None, Status.ERROR.value, "resize_failed", f"the picture cannot be resized ({error})"

    def _check_elongation(self, picture: "Image.Image") -> None:
        """Refuse a strip: resized by its shorter side before the crop, one of 1 x 100,000 would take 26 GB."""
        if not self._geometry.shortest:
            return
        scale = max(self._geometry.size) / min(picture.size)
        if picture.width * picture.height * scale**2 > self._max_pixels:
            raise PictureError("too_elongated", f"{picture.width} x {picture.height} pixels: one side is too long")


class Embedder:
    """Actor that encodes texts, and the pictures that `PictureDecoder` decoded."""

    INPUTS = schemas.DECODED_PICTURES

    def __init__(self, settings: EncoderSettings, *, batch_size: int = 64, threads: int | None = None) -> None:
        """Load the model, from safetensors wherever they exist; pickled code is never loaded.

        Args:
            settings: the encoder, its device (`auto`: cuda if there is one, else cpu) and its dtype (`auto`: bfloat16
                on a cuda device that supports it, else float32).
            batch_size: pictures or texts encoded at a time.
            threads: torch's threads in this process; None keeps torch's own number.

        Raises:
            ValueError: see `encoder_facts`; also an unknown device or dtype, or a size below 1.
            RuntimeError: the weights cannot be loaded, or open_clip's preprocessing differs from the config's.
        """
        import torch

        for name, number in (("batch_size", batch_size), ("threads", threads)):
            if number is not None and number < 1:
                raise SettingError("must be at least 1", name, number)
        if threads is not None:
            torch.set_num_threads(threads)
        self._device = find_device(settings.device)
        dtype = find_dtype(settings.dtype, self._device)
        self._tower = load_tower(
            settings.checkpoint,
            settings.pretrained,
            device=self._device,
            dtype=dtype,
            instruction=settings.instruction,
        )
        self._pixel_rows = PixelRows(self._tower.row_bytes or 0)
        self._uploads = Uploads(CudaLane(self._device)) if self._device.type == "cuda" else None
        self._batch_size = self._full_batch_size = batch_size
        self._batches_since_halved = 0
        self.dim = self._tower.dim

    @property
    def OUTPUTS(self) -> pa.Schema:  # noqa: N802  # a constant of the class, except for the length of the vectors
        """The columns of the table `embeddings`, with vectors of `dim` numbers."""
        return schemas.embeddings(self.dim)

    def __call__(self, batch: pa.Table) -> pa.Table:
        """Encode one batch of pictures.

        A row that is not ok takes its place in the model's batch as black pixels, so that its neighbours' vectors stay
        the same to the last bit.

        Args:
            batch: a table that `PictureDecoder` returned.

        Returns:
            The columns of the table `embeddings` (jobs/tables.py): `item_id`, `kind`, `embedding` (fixed-size list of
            `dim` float16: normalised to length 1 in float32, then rounded; null unless ok), `status`, `error_kind`,
            `error_message`. Rows that were not ok keep their status; ok without pixels becomes `missing_input`. Pixels
            of another size become `error` (`wrong_size`), as do vectors with NaN, infinity or length zero
            (`not_finite`) and pictures that do not fit the device's memory (`out_of_memory`).
        """
        statuses, kinds, messages = (batch[name].to_pylist() for name in _OUTCOME)
        pixels = batch["pixels"]
        needed = self._tower.row_bytes
        sizes = pc.fill_null(pc.binary_length(pixels), -1).to_numpy()
        good = np.array([status == Status.OK for status in statuses], dtype=bool)
        fits = sizes >= 0 if needed is None else sizes == needed
        for row in np.flatnonzero(good & ~fits).tolist():
            if sizes[row] < 0:
                outcome = (Status.MISSING_INPUT.value, "no_pixels", "the row is ok but has no pixels")
            else:
                message = f"the pixels have {sizes[row]} bytes; {needed} are needed"
                outcome = (Status.ERROR.value, "wrong_size", message)
            statuses[row], kinds[row], messages[row] = outcome
        good &= fits
        if good.any():
            vectors, too_large = self._encode_rows(pixels, good)
            _mark_too_large(too_large, (statuses, kinds, messages))
        else:
            vectors = np.zeros((len(good), self.dim), np.float32)
        return _embeddings(batch["item_id"], batch["kind"], vectors, (statuses, kinds, messages))

    def embed_texts(self, texts: Sequence[str]) -> np.ndarray:
        """Encode texts with the model's own tokenizer.

        Returns:
            [len(texts), dim] float32, each row of length 1.

        Raises:
            RuntimeError: one of the texts does not fit the device's memory.
        """
        vectors, too_large = self.embed_texts_that_fit(texts)
        if too_large:
            raise RuntimeError(f"{OUT_OF_MEMORY[1]}: {texts[too_large[0]][:80]!r}")
        return vectors

    def embed_texts_that_fit(self, texts: Sequence[str]) -> tuple[np.ndarray, list[int]]:
        """Return the vectors of `embed_texts`, and the indices of texts that do not fit the device's memory."""
        return self._in_batches(len(texts), lambda start, end: self._tower.texts(texts[start:end]))

    @property
    def logit_scale(self) -> float | None:
        """The factor that multiplies cosines before the softmax in the model's training; None if it has none."""
        return self._tower.logit_scale

    def _encode_rows(self, pixels: pa.ChunkedArray, good: np.ndarray) -> tuple[np.ndarray, list[int]]:
        """Return vectors [n, dim] float32, arbitrary for rows that are not good; and rows, as `_in_batches` does."""
        import torch

        if self._tower.row_bytes is None:
            return self._encode_parts(pixels, np.flatnonzero(good))

        def encode(start: int, end: int) -> torch.Tensor:
            if not good[start:end].any():
                return torch.zeros((end - start, self.dim), device=self._device)
            rows = self._pixel_rows.join(pixels.slice(start, end - start), good[start:end])
            if self._uploads is not None:  # copied while the previous batch is computed
                rows = self._uploads.send(rows)
            return self._tower.rows(rows)

        return self._in_batches(len(good), encode)

    def _encode_parts(self, pixels: pa.ChunkedArray, rows: np.ndarray) -> tuple[np.ndarray, list[int]]:
        """Encode `rows` alone, whose numbers of bytes differ; see `_encode_rows`."""

        def encode(start: int, end: int) -> "torch.Tensor":
            return self._tower.rows([pixels[int(row)].as_py() for row in rows[start:end]])

        vectors = np.zeros((len(pixels), self.dim), np.float32)
        vectors[rows], too_large = self._in_batches(len(rows), encode)
        return vectors, rows[too_large].tolist()

    def _in_batches(self, count: int, encode: Callable[[int, int], "torch.Tensor"]) -> tuple[np.ndarray, list[int]]:
        """Run `encode(start, end)` over all rows, in smaller batches when the device runs out of memory.

        Returns:
            [count, dim] float32, normalised on the device; and the rows that do not fit its memory even alone, whose
            vectors are 0.
        """
        import torch

        parts, too_large = [], []
        start = 0
        while start < count:
            end = min(start + self._batch_size, count)
            try:
                with torch.inference_mode():
                    part = torch.nn.functional.normalize(encode(start, end).float(), dim=-1)
            except torch.OutOfMemoryError:
                pass  # handled below: inside this clause the traceback would keep the failed batch's memory
            else:
                parts.append(part)  # left on the device: the next batch is packed while this one is computed
                start = end
                self._recover()
                continue
            self._batches_since_halved = 0
            if self._batch_size == 1:
                too_large.append(start)
                parts.append(torch.zeros((1, self.dim), device=self._device))
                start += 1
            else:
                log.warning("out of memory on %s: batch size %d halved", self._device, self._batch_size)
                self._batch_size //= 2
            if self._device.type == "cuda":
                torch.cuda.empty_cache()
        if not parts:
            return np.zeros((0, self.dim), np.float32), []
        vectors: np.ndarray = torch.cat(parts).cpu().numpy()
        return vectors, too_large

    def _recover(self) -> None:
        """Double a halved batch size after `RECOVERY` batches: what took the memory may have ended."""
        if self._batch_size < self._full_batch_size:
            self._batches_since_halved += 1
            if self._batches_since_halved >= RECOVERY:
                self._batch_size = min(2 * self._batch_size, self._full_batch_size)
                self._batches_since_halved = 0


class TextEmbedder:
    """Actor that encodes texts with an encoder's text tower."""

    INPUTS = schemas.TEXTS

    def __init__(self, settings: EncoderSettings, *, batch_size: int = 64, threads: int | None = None) -> None:
        """Load the model; see `Embedder` for the arguments and errors."""
        self._embedder = Embedder(settings, batch_size=batch_size, threads=threads)
        self.dim = self._embedder.dim

    @property
    def OUTPUTS(self) -> pa.Schema:  # noqa: N802
        """See `Embedder.OUTPUTS`."""
        return self._embedder.OUTPUTS

    def __call__(self, batch: pa.Table) -> pa.Table:
        """Encode one batch of texts.

        Args:
            batch: columns `text_id` and `text` (string), and optionally `status`: rows that are not ok keep theirs.

        Returns:
            The columns of the table `embeddings`, as for `Embedder.__call__`, with the kind "text". A text that is null
            or only whitespace becomes `missing_input` (`empty_text`); one that does not fit the device's memory becomes
            `error` (`out_of_memory`).
        """
        rows = batch.num_rows
        texts = [text or "" for text in batch["text"].to_pylist()]
        statuses = batch["status"].to_pylist() if "status" in batch.column_names else [Status.OK.value] * rows
        kinds: list[str | None] = [None] * rows
        messages: list[str | None] = [None] * rows
        for row, text in enumerate(texts):
            if reason := failed_reason(statuses[row]):
                statuses[row], (kinds[row], messages[row]), texts[row] = Status.ERROR.value, reason, ""
            if statuses[row] == Status.OK and not text.strip():
                statuses[row], kinds[row] = Status.MISSING_INPUT.value, "empty_text"
                messages[row] = "the text is empty"
        vectors, too_large = self._embedder.embed_texts_that_fit(texts)
        _mark_too_large(too_large, (statuses, kinds, messages))
        return _embeddings(batch["text_id"], pa.array(["text"] * rows), vectors, (statuses, kinds, messages))


def _mark_too_large(rows: Sequence[int], outcomes: Outcomes) -> None:
    statuses, kinds, messages = outcomes
    for row in rows:
        if statuses[row] == Status.OK:
            statuses[row], (kinds[row], messages[row]) = Status.ERROR.value, OUT_OF_MEMORY


def _embeddings(items: pa.ChunkedArray, kinds: pa.ChunkedArray, vectors: np.ndarray, outcomes: Outcomes) -> pa.Table:
    """Return the columns of the table `embeddings`; a vector [n, dim] without a direction becomes an error."""
    import torch

    statuses, errors, messages = outcomes
    good = np.array([status == Status.OK for status in statuses], dtype=bool)
    tensor = torch.from_numpy(vectors)  # rounds as NumPy does, but in all threads: a GPU waits for this
    usable = (torch.isfinite(tensor).all(dim=1) & tensor.any(dim=1)).numpy()
    for row in np.flatnonzero(good & ~usable).tolist():
        statuses[row], errors[row] = Status.ERROR.value, "not_finite"
        messages[row] = "the model returned a vector that is not finite or has no direction"
    good &= usable
    halves = tensor.half().numpy()
    halves[~good] = 0
    schema = schemas.embeddings(vectors.shape[1])
    embedding = pa.FixedSizeListArray.from_arrays(
        pa.array(halves.reshape(-1), pa.float16()), type=schema.field("embedding").type, mask=pa.array(~good)
    )
    columns = [items.cast(pa.string()), kinds.cast(pa.string()), embedding]
    columns += [pa.array(values, pa.string()) for values in outcomes]
    return pa.table(dict(zip(schema.names, columns, strict=True)), schema=schema)
