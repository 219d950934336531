"""Bounds of pictures by hand, for image processors with small sizes; `test_picture_size` has those of transformers."""

from types import SimpleNamespace
from typing import Any

from PIL import Image

from actors.vlm.picture_size import PictureSizer, PixelBounds
from tests.cases import check_cases

Sizes = list[tuple[int, int]]


def sized(kind: str, facts: dict[str, Any], bounds: PixelBounds, sizes: Sizes) -> tuple[Sizes, Any]:
    """Return the sizes of pictures before an image processor of this class, and its options."""
    images = type(kind, (), facts)()
    pictures, options = PictureSizer(SimpleNamespace(image_processor=images), bounds)(
        [Image.new("RGB", size) for size in sizes]
    )
    return [picture.size for picture in pictures], options.get("size", options)


def test_bounds_by_area() -> None:
    facts = {"size": {"shortest_edge": 4000, "longest_edge": 50_000}, "patch_size": 14, "merge_size": 2}
    one, two = [(100, 100)], [(100, 100), (300, 300)]
    cases: list[tuple[int | None, int | None, Sizes, Sizes, Any]] = [
        (60_000, 3000, one, one, {}),  # the processor's own bounds are tighter
        (None, 5000, one, one, {"shortest_edge": 5000, "longest_edge": 50_000}),
        # 100 x 100 pixels are rounded to 4 x 4 cells of 28 x 28, which are 12,544 pixels, and enlarged to 5 x 5
        (12_000, 10_000, one, one, {"shortest_edge": 10_000, "longest_edge": 12_000}),
        (13_000, 12_600, two, [(113, 113), (114, 114)], {"shortest_edge": 1, "longest_edge": 13_000}),
    ]

    def check(most: int | None, least: int | None, shown: Sizes, expected: Sizes, options: Any) -> None:
        assert sized("Qwen2VLImageProcessor", facts, PixelBounds(most, least), shown) == (expected, options)

    check_cases(check, cases)


def test_bounds_by_the_longest_edge() -> None:
    """At 450 pixels, five tiles of 100 pixels in a row, to whose width a picture is enlarged before it is cut."""
    facts = {"size": {"longest_edge": 450}, "max_image_size": {"longest_edge": 100}}
    cases: list[tuple[dict[str, Any], int, tuple[int, int], Any]] = [
        ({}, 25, (300, 300), {}),
        ({}, 24, (300, 300), {"longest_edge": 400}),
        ({}, 16, (300, 300), {"longest_edge": 400}),
        ({}, 15, (300, 300), {"longest_edge": 300}),
        ({}, 16, (450, 271), {"longest_edge": 400}),  # 272 of 450 pixels are 302 of 500: four rows
        ({"do_image_splitting": False}, 16, (300, 300), {}),
    ]

    def check(more: dict[str, Any], tiles: int, size: tuple[int, int], options: Any) -> None:
        bounds = PixelBounds(tiles * 10_000)
        assert sized("SmolVLMImageProcessor", facts | more, bounds, [size]) == ([size], options)

    check_cases(check, cases)


def test_bounds_of_processors_with_fixed_sizes() -> None:
    """One whose largest size is within the bound gets the picture as it is, or enlarged to the lower bound."""
    grid = {"image_grid_pinpoints": [[200, 100], [100, 200], [200, 200]]}
    published = {"image_grid_pinpoints": [[336, 672], [672, 336], [672, 672], [1008, 336], [336, 1008]]}
    tiles = {"size": {"height": 50, "width": 50}, "max_image_tiles": 4}
    square = {"size": {"height": 100, "width": 100}}
    large, smaller = (400, 300), (115, 86)
    cases: list[tuple[str, dict[str, Any], PixelBounds, tuple[int, int], tuple[int, int]]] = [
        ("LlavaNextImageProcessor", grid, PixelBounds(40_000), large, large),
        ("LlavaNextImageProcessor", grid, PixelBounds(20_000), (400, 400), (100, 100)),  # 141 would become 200
        ("LlavaNextImageProcessor", published, PixelBounds(146_086), (325, 1215), (179, 672)),  # 89 x 336 fits too
        ("MllamaImageProcessor", tiles, PixelBounds(10_000), large, large),
        ("MllamaImageProcessor", tiles, PixelBounds(9_999), large, smaller),
        ("Gemma3ImageProcessor", square, PixelBounds(10_000), large, large),
        ("Gemma3ImageProcessor", square | {"do_pan_and_scan": True}, PixelBounds(10_000), large, smaller),
        ("Gemma3ImageProcessor", square, PixelBounds(10_000, 4000), (40, 30), (74, 55)),
    ]

    def check(
        kind: str, facts: dict[str, Any], bounds: PixelBounds, size: tuple[int, int], expected: tuple[int, int]
    ) -> None:
        assert sized(kind, facts, bounds, [size]) == ([expected], {})

    check_cases(check, cases)
