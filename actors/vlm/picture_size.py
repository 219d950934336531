"""Bounds of a picture's pixels as a model sees it, with one meaning for all families of models.

A bound limits width x height of the picture, whose aspect ratio is kept, excluding padding and the small overview that
tiling models add. How it is applied depends on the image processor:

- Qwen2.5-VL and Qwen3-VL take the bounds as parameters of their own resize, which resamples the picture once.
- SmolVLM and Idefics3 scale every picture, even a small one, to one longest edge and cut it into square tiles. They get
  the largest longest edge whose tiles stay within the bound, and at least one tile.
- LLaVA-NeXT (Pangea), mllama and Gemma 3 have fixed sizes. If the largest of them is within the bound, they get the
  picture unchanged; else the picture is resampled to the bound first, and the processor scales the result.
- Other image processors get the picture resampled to the bound.

If the processor's own bound is tighter, it is kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from PIL import Image

from actors.errors import SettingError

if TYPE_CHECKING:
    from transformers import BaseImageProcessor

    from actors.vlm.model_types import Processor

# 1,280 tokens of 28 x 28 pixels: the upper end of the range that Qwen's model cards recommend instead of the default.
DEFAULT_MAX_PIXELS = 1280 * 28 * 28


@dataclass(frozen=True)
class PixelBounds:
    """The least and most pixels (width x height) of a picture as a model sees it; None: the processor's own bound.

    Raises:
        ValueError: a bound is not a positive integer, or min_pixels is above max_pixels.
    """

    max_pixels: int | None = None
    min_pixels: int | None = None

    def __post_init__(self) -> None:
        for name in ("max_pixels", "min_pixels"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
                raise SettingError("must be an integer of at least 1, or null", name, value)
        if self.max_pixels is not None and self.min_pixels is not None and self.min_pixels > self.max_pixels:
            raise SettingError(f"must not exceed max_pixels={self.max_pixels}", "min_pixels", self.min_pixels)

    def size(self, width: int, height: int) -> tuple[int, int]:
        """Return the (width, height) of a picture scaled into the bounds, keeping its aspect ratio."""
        pixels = width * height
        if self.max_pixels is not None and pixels > self.max_pixels:
            return _within(self.max_pixels, width, height)
        if self.min_pixels is not None and pixels < self.min_pixels:
            scale = math.sqrt(self.min_pixels / pixels)
            width, height = math.ceil(width * scale), math.ceil(height * scale)
            if self.max_pixels is not None and width * height > self.max_pixels:  # rounding up exceeded the bound
                return _within(self.max_pixels, width, height)
        return width, height


NO_BOUNDS = PixelBounds()


def _within(most: int, width: int, height: int) -> tuple[int, int]:
    # In integers: a floating-point root may exceed the bound by one pixel.
    narrower = max(1, math.isqrt(most * width // height))
    lower = max(1, math.isqrt(most * height // width))
    return min(narrower, most), min(lower, most)


class PictureSizer:
    """Scaler of pictures into bounds for one image processor, which also returns the options to call it with.

    Args:
        processor: a model's processor from transformers; without an image processor, pictures stay unchanged.
        bounds: bounds of the pictures' pixels.
    """

    def __init__(self, processor: Processor, bounds: PixelBounds) -> None:
        self.bounds = bounds
        self._images = getattr(processor, "image_processor", None)
        name = type(self._images).__name__
        self._method = next((method for prefix, method in _METHODS.items() if name.startswith(prefix)), _unknown)

    def __call__(self, pictures: Sequence[Image.Image]) -> tuple[list[Image.Image], dict[str, Any]]:
        """Return (pictures, options of the image processor for a call with all of them).

        Args:
            pictures: the pictures of one prompt, RGB.
        """
        if not pictures or self._images is None or self.bounds == NO_BOUNDS:
            return list(pictures), {}
        sizes, options = self._method(self._images, self.bounds, [picture.size for picture in pictures])
        return [_resized(picture, size) for picture, size in zip(pictures, sizes, strict=True)], options


def _resized(picture: Image.Image, size: tuple[int, int]) -> Image.Image:
    if size == picture.size:
        return picture
    smaller = size[0] * size[1] < picture.width * picture.height
    return picture.resize(size, Image.Resampling.LANCZOS if smaller else Image.Resampling.BICUBIC)


_Size = tuple[int, int]  # width, height
_Sizing = tuple[list[_Size], dict[str, Any]]
# (image processor, bounds, sizes of a prompt's pictures) -> (sizes to resample them to, options of the call)
_Method = Callable[[Any, PixelBounds, Sequence[_Size]], _Sizing]


def _unknown(images: BaseImageProcessor, bounds: PixelBounds, sizes: Sequence[_Size]) -> _Sizing:
    return [bounds.size(*size) for size in sizes], {}


def _by_area(images: BaseImageProcessor, bounds: PixelBounds, sizes: Sequence[_Size]) -> _Sizing:
    """Set the bounds of a processor that has its own; it calls them edges but means areas.

    When enlarging, the processor rounds both edges up to whole cells, which may exceed the upper bound: such pictures
    are scaled to the lower bound first.
    """
    default_least, default_most = int(images.size["shortest_edge"]), int(images.size["longest_edge"])
    most = min(default_most, bounds.max_pixels or default_most)
    least = min(max(default_least, bounds.min_pixels or default_least), most)
    cell = int(images.patch_size) * int(images.merge_size)
    scaled = list(sizes)
    if any(_enlarged(size, cell=cell, least=least) > most for size in sizes):
        scaled, least = [PixelBounds(most, least).size(*size) for size in sizes], 1
    options = {} if (least, most) == (default_least, default_most) else {"shortest_edge": least, "longest_edge": most}
    return scaled, {"size": options} if options else {}


def _enlarged(size: _Size, *, cell: int, least: int) -> int:
    """Return the pixels after transformers' `smart_resize` enlarges to `least` in whole cells; 0 if it does not."""
    if round(size[0] / cell) * round(size[1] / cell) * cell * cell >= least:
        return 0
    scale = math.sqrt(least / (size[0] * size[1]))
    return math.ceil(size[0] * scale / cell) * math.ceil(size[1] * scale / cell) * cell * cell


def _by_edge(images: BaseImageProcessor, bounds: PixelBounds, sizes: Sequence[_Size]) -> _Sizing:
    """Set the longest edge, from which the processor cuts square tiles; pictures of a prompt share the smallest one."""
    tile, default = int(images.max_image_size["longest_edge"]), int(images.size["longest_edge"])
    if bounds.max_pixels is None or not getattr(images, "do_image_splitting", True):
        return _up_to(tile * tile, bounds, sizes), {}
    edge = min(_largest_edge(size, tile=tile, default=default, most=bounds.max_pixels) for size in sizes)
    scaled = _up_to(tile * tile if edge == tile else bounds.max_pixels, bounds, sizes)
    return scaled, {} if edge == default else {"size": {"longest_edge": edge}}


def _largest_edge(size: _Size, *, tile: int, default: int, most: int) -> int:
    """Return a picture's longest edge: the processor's own, or the one with the most tiles within the bound."""
    edges: list[int] = [default, *range(tile * ((default - 1) // tile), tile, -tile)]
    for edge in edges:
        shorter = edge * min(size) // max(size)
        shorter += shorter % 2  # as these processors round
        columns = -(-edge // tile)
        rows = -(-(columns * tile * shorter // edge) // tile)
        if columns * rows * tile * tile <= most:
            return edge
    return tile


def _by_grid(images: BaseImageProcessor, bounds: PixelBounds, sizes: Sequence[_Size]) -> _Sizing:
    grids = [(int(width), int(height)) for height, width in images.image_grid_pinpoints]
    most = bounds.max_pixels
    if most is None or max(width * height for width, height in grids) <= most:
        return _up_to(0, bounds, sizes), {}
    return [_before_grid(bounds.size(*size), grids=grids, most=most) for size in sizes], {}


def _before_grid(size: _Size, *, grids: Sequence[_Size], most: int) -> _Size:
    """Return the largest size that the processor scales to at most `most` pixels; `size` itself if there is none.

    The processor scales a picture to the grid that keeps most of it, so that one slightly smaller than the bound may
    end far above it.
    """
    fits = sorted({_fit(size, grid) for grid in grids}, key=lambda fit: -fit[0] * fit[1])
    for candidate in [size, *(fit for fit in fits if fit[0] * fit[1] <= size[0] * size[1])]:
        width, height = _fit(candidate, _chosen_grid(candidate, grids))
        if width * height <= most:
            return candidate
    return size


def _fit(size: _Size, grid: _Size) -> _Size:
    scale = min(grid[0] / size[0], grid[1] / size[1])
    return max(1, min(grid[0], int(size[0] * scale))), max(1, min(grid[1], int(size[1] * scale)))


def _chosen_grid(size: _Size, grids: Sequence[_Size]) -> _Size:
    """Choose like transformers' `select_best_resolution`: most of the picture kept, then least of the grid unused."""

    def kept(grid: _Size) -> tuple[int, int]:
        width, height = _fit(size, grid)
        pixels = min(width * height, size[0] * size[1])
        return pixels, pixels - grid[0] * grid[1]

    return max(grids, key=kept)


def _by_tiles(images: BaseImageProcessor, bounds: PixelBounds, sizes: Sequence[_Size]) -> _Sizing:
    return _up_to(images.max_image_tiles * images.size["height"] * images.size["width"], bounds, sizes), {}


def _by_square(images: BaseImageProcessor, bounds: PixelBounds, sizes: Sequence[_Size]) -> _Sizing:
    if getattr(images, "do_pan_and_scan", None):  # it also scales crops of the picture
        return _unknown(images, bounds, sizes)
    return _up_to(images.size["height"] * images.size["width"], bounds, sizes), {}


def _up_to(largest: int, bounds: PixelBounds, sizes: Sequence[_Size]) -> list[_Size]:
    """Return the sizes for a processor that itself scales every picture to at most `largest` pixels."""
    if bounds.max_pixels is not None and largest <= bounds.max_pixels:
        bounds = PixelBounds(None, bounds.min_pixels)
    return [bounds.size(*size) for size in sizes]


_METHODS: dict[str, _Method] = {  # by the beginning of the class name of transformers' image processor
    "Qwen2VL": _by_area,
    "SmolVLM": _by_edge,
    "Idefics3": _by_edge,
    "LlavaNext": _by_grid,
    "Mllama": _by_tiles,
    "Gemma3": _by_square,
}
