"""Tokens that a model spends on pictures: an estimate for the plan, and the counts of a run."""

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from actors.quantities import quantity
from actors.status import Status
from actors.vlm.picture_size import PixelBounds
from jobs.models.vlm import ModelConfig
from jobs.runtime.process.console import say
from jobs.store.object_rows import read_unit
from jobs.store.reading import TableSource

OBJECTS_READ = 8  # data objects of the table that an estimate reads
SIZES_TRIED = 16  # number of sizes, evenly spaced in the order of their areas
PIXELS_PER_TOKEN = 28 * 28  # of Qwen2.5-VL; used if the model's own processor is not available


def expected(model: ModelConfig, images: TableSource | None) -> str:
    """Estimate the tokens per picture, as a phrase for the plan; empty if the model sees no pictures.

    Args:
        images: table of the pictures; the sizes in a few of its objects are read. None: the job shows no pictures.
    """
    if images is None:
        return ""
    if not (sizes := sample(images)):
        return f"; pictures with {_bounds_text(model)}"
    from actors.vlm.encoding import tokens_of_sizes

    bounds = PixelBounds(**model.pixels)
    tokens = tokens_of_sizes(model.checkpoint, sizes, bounds=bounds, revision=model.revision)
    method = ""
    if tokens == []:  # a text model
        return ""
    if tokens is None:
        shown = [bounds.size(*size) for size in sizes]
        tokens = [max(1, -(-width * height // PIXELS_PER_TOKEN)) for width, height in shown]
        method = ", assuming 28 x 28 pixels per token because the model's processor is not on this machine"
    mean = sum(tokens) / len(tokens)
    return f"; pictures with {_bounds_text(model)}: about {mean:,.0f} tokens each, up to {max(tokens):,}{method}"


def sample(images: TableSource) -> list[tuple[int, int]]:
    """Return (width, height) of some pictures of a table, evenly spaced in the order of their areas, largest last."""
    places = sorted({round(i * (len(images.footers) - 1) / max(1, OBJECTS_READ - 1)) for i in range(OBJECTS_READ)})
    tables = [read_unit(images.footers[i].object.uri, columns=["width", "height", "status"]) for i in places]
    rows = pa.concat_tables(tables)
    rows = rows.filter(pc.and_(pc.equal(rows["status"], Status.OK.value), pc.greater(rows["width"], 0)))
    sizes = list(zip(rows["width"].to_pylist(), rows["height"].to_pylist(), strict=True))
    sizes = sorted((size for size in sizes if size[1]), key=lambda size: (size[0] * size[1], size))
    if len(sizes) <= SIZES_TRIED:
        return sizes
    spaced = [sizes[(2 * i + 1) * len(sizes) // (2 * SIZES_TRIED)] for i in range(SIZES_TRIED - 1)]
    return spaced + sizes[-1:]


def show_counted(model: ModelConfig, tallies: Mapping[str, Mapping[str, int]]) -> None:
    """Print how many pictures a run showed its model, and their mean tokens."""
    counts = tallies.get("pictures", {})
    if pictures := counts.get("shown"):
        average = f"{counts['tokens'] / pictures:,.0f} tokens each"
        say(f"  {quantity(pictures, 'picture')} shown, {average} ({_bounds_text(model)})")


def _bounds_text(model: ModelConfig) -> str:
    bounds = [f"{name}={'null' if value is None else f'{value:,}'}" for name, value in model.pixels.items()]
    return ", ".join(bounds if model.min_pixels is not None else bounds[:1])
