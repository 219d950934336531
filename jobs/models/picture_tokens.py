"""What pictures cost a model in tokens: an estimate for the plan, and what was counted for the end of a run."""

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from actors.status import Status
from actors.vlm.picture_size import PixelBounds
from jobs.judging.settings import ModelConfig
from jobs.runtime.console import say
from jobs.store.reading import TableSource, read_unit

OBJECTS = 8  # data objects that are read for an estimate
SIZES = 16  # sizes that are tried, evenly spaced in the order of their areas
CELL = 28 * 28  # pixels a token in Qwen2.5-VL, where the model's own processor cannot be asked


def expected(model: ModelConfig, images: TableSource | None) -> str:
    """The tokens of pictures in a few words, for a plan; empty where the model is shown none.

    Args:
        images: the table of the pictures; a few of its objects are read, and of them only the sizes.
    """
    if images is None:
        return ""
    if not (sizes := sample(images)):
        return f"; pictures with {_bound(model)}"
    from actors.vlm.encoding import tokens_of_sizes

    bounds = PixelBounds(**model.pixels)
    tokens = tokens_of_sizes(model.checkpoint, sizes, bounds=bounds, revision=model.revision)
    how = ""
    if tokens == []:  # a model of text
        return ""
    if tokens is None:
        shown = [bounds.size(*size) for size in sizes]
        tokens = [max(1, -(-width * height // CELL)) for width, height in shown]
        how = " at 28 x 28 pixels a token, since the model's processor is not on this machine"
    mean = sum(tokens) / len(tokens)
    return f"; pictures with {_bound(model)}: about {mean:,.0f} tokens each, up to {max(tokens):,}{how}"


def sample(images: TableSource) -> list[tuple[int, int]]:
    """Sizes (width, height) of pictures of a table, evenly spaced in the order of their areas, the largest last."""
    places = sorted({round(i * (len(images.footers) - 1) / max(1, OBJECTS - 1)) for i in range(OBJECTS)})
    read = [read_unit(images.footers[i].object.uri, columns=["width", "height", "status"]) for i in places]
    rows = pa.concat_tables(read)
    rows = rows.filter(pc.and_(pc.equal(rows["status"], Status.OK.value), pc.greater(rows["width"], 0)))
    sizes = list(zip(rows["width"].to_pylist(), rows["height"].to_pylist(), strict=True))
    sizes = sorted((size for size in sizes if size[1]), key=lambda size: (size[0] * size[1], size))
    if len(sizes) <= SIZES:
        return sizes
    return [sizes[(2 * i + 1) * len(sizes) // (2 * SIZES)] for i in range(SIZES - 1)] + sizes[-1:]


def show_counted(model: ModelConfig, tallies: Mapping[str, Mapping[str, int]]) -> None:
    """Print the tokens of the pictures that a run showed its model."""
    counted = tallies.get("pictures", {})
    if pictures := counted.get("shown"):
        say(f"  {pictures:,} pictures shown, {counted['tokens'] / pictures:,.0f} tokens each ({_bound(model)})")


def _bound(model: ModelConfig) -> str:
    said = [f"{name}={'null' if value is None else f'{value:,}'}" for name, value in model.pixels.items()]
    return ", ".join(said if model.min_pixels is not None else said[:1])
