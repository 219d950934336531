"""Bounds of a picture's pixels mean the same in every family, with local and with published settings."""

import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from PIL import Image

from actors.errors import ModelError
from actors.vlm import chat
from actors.vlm.chat import ChatEncoder, tokens_of_sizes
from actors.vlm.loading import completed
from actors.vlm.model_inputs import picture_tokens
from actors.vlm.picture_size import DEFAULT_MAX_PIXELS, NO_BOUNDS, PictureSizer, PixelBounds, _fit, _resized
from tests.actors.vlm.helpers import picture

Load = Callable[[str], tuple[Any, Any]]
LOCAL = {
    "qwen2_5_vl": "qwen2.5-vl-tiny",
    "qwen3_vl": "qwen3-vl-tiny",
    "llava_next": "llava-next-tiny",
    "mllama": "mllama-tiny",
    "gemma3": "gemma3-tiny",
    "smolvlm": "smolvlm-tiny",
}
CAMERA = (4000, 3000)
# The image processors of the published models, by the values in their preprocessor_config.json.
PINPOINTS = [[336, 672], [672, 336], [672, 672], [1008, 336], [336, 1008]]
PUBLISHED: dict[str, tuple[str, dict[str, Any]]] = {
    "qwen2_5_vl": ("Qwen2VLImageProcessor", {"min_pixels": 3136, "max_pixels": 12_845_056}),
    "qwen3_vl": (
        "Qwen2VLImageProcessor",
        {"size": {"shortest_edge": 65_536, "longest_edge": 16_777_216}, "patch_size": 16},
    ),
    "llava_next": (
        "LlavaNextImageProcessor",
        {"size": {"shortest_edge": 336}, "crop_size": {"height": 336, "width": 336}, "image_grid_pinpoints": PINPOINTS},
    ),
    "mllama": ("MllamaImageProcessor", {"size": {"height": 560, "width": 560}, "max_image_tiles": 4}),
    "gemma3": ("Gemma3ImageProcessor", {"size": {"height": 896, "width": 896}}),
    "smolvlm": (
        "SmolVLMImageProcessor",
        {"size": {"longest_edge": 1536}, "max_image_size": {"longest_edge": 384}},
    ),
}
# Tokens of pictures of 300 x 225, 1024 x 768 and 4000 x 3000, by the bound: the table of docs/judging.md.
SHAPES = ((300, 225), (1024, 768), CAMERA)
COSTS: dict[str, dict[int | None, list[int]]] = {
    "qwen2_5_vl": {
        None: [88, 999, 15301],
        DEFAULT_MAX_PIXELS: [88, 999, 1230],
        300_000: [88, 352, 352],
        90_000: [88, 108, 108],
    },
    "qwen3_vl": {
        None: [70, 768, 11750],
        DEFAULT_MAX_PIXELS: [70, 768, 972],
        300_000: [70, 266, 266],
        90_000: [70, 80, 80],
    },
    "llava_next": {
        None: [1368, 2340, 2340],
        DEFAULT_MAX_PIXELS: [1368, 2340, 2340],
        300_000: [1368, 1368, 1368],
        90_000: [1368, 1368, 1368],
    },
    "mllama": {
        None: [1601, 6404, 6404],
        DEFAULT_MAX_PIXELS: [1601, 6404, 6404],
        300_000: [1601, 3202, 3202],
        90_000: [1601, 1601, 1601],
    },
    "gemma3": {
        None: [256, 256, 256],
        DEFAULT_MAX_PIXELS: [256, 256, 256],
        300_000: [256, 256, 256],
        90_000: [256, 256, 256],
    },
    "smolvlm": {
        None: [1053, 1053, 1053],
        DEFAULT_MAX_PIXELS: [405, 405, 405],
        300_000: [81, 81, 81],
        90_000: [81, 81, 81],
    },
}


def published(family: str, load: Load) -> tuple[Any, Any]:
    """Return the local processor with the published settings, and a config for counting tokens."""
    import copy

    import transformers

    model, processor = load(LOCAL[family])
    name, values = PUBLISHED[family]
    resized = copy.copy(processor)
    resized.image_processor = getattr(transformers, name)(**values)
    config = SimpleNamespace(
        image_token_id=getattr(model.config, "image_token_id", None) or model.config.image_token_index,
        vision_config=SimpleNamespace(image_size=560, patch_size=14),
    )
    if family == "gemma3":
        resized.image_seq_length = 256
        tokenizer = resized.tokenizer
        resized.full_image_sequence = f"\n\n{tokenizer.boi_token}{tokenizer.image_token * 256}{tokenizer.eoi_token}\n\n"
    if family == "smolvlm":
        resized.image_seq_len = 81
    return resized, config


def tokens(processor: Any, config: Any, size: tuple[int, int], most: int | None, least: int | None = None) -> int:
    chat = ChatEncoder(processor, bounds=PixelBounds(most, least), config=config)
    token_counts = chat.picture_tokens(chat.encode([None, "x"], [Image.new("RGB", size)]))
    assert token_counts is not None
    return token_counts


def implied(family: str, most: int, *, tile: int, cell: int, overview: int) -> int:
    """Return the most tokens of a picture of `most` pixels; for tiling models, with their overview and newlines."""
    if family in ("qwen2_5_vl", "qwen3_vl"):
        return most // cell**2
    if family == "llava_next":  # no less than the smallest grid of two tiles; a newline after each row
        return max(most, 2 * tile * tile) // cell**2 + 3 * tile // cell + overview
    if family == "smolvlm":
        return overview * (max(1, most // tile**2) + (most // tile**2 > 1))
    return 4 * ((tile // cell) ** 2 + 1) if family == "mllama" else overview


def test_bounds_keep_the_aspect_ratio_and_never_pass_the_bound() -> None:
    draw = random.Random(1)
    for _ in range(2000):
        width, height = draw.randint(1, 9000), draw.randint(1, 9000)
        most = draw.randint(1, 2_000_000)
        least = draw.randint(1, most)
        wide, high = PixelBounds(most, least).size(width, height)
        assert 1 <= wide * high <= most
        if least <= width * height <= most:
            assert (wide, high) == (width, height)
        if min(wide, high) >= 30:
            assert wide / high == pytest.approx(width / height, rel=0.05)
    assert PixelBounds(None, 10_000).size(10, 40) == (50, 200)
    assert PixelBounds(10_000).size(100, 100) == (100, 100)
    assert PixelBounds(1000, 1000).size(10, 10) == (31, 31)
    assert NO_BOUNDS.size(9, 7) == (9, 7)
    assert (PixelBounds(100).size(1, 9000), PixelBounds(100).size(9000, 1)) == ((1, 100), (100, 1))
    # 7 x 7 / 16 = 3.06, whose root is 1: with 2, the picture would have 8 pixels.
    assert (PixelBounds(7).size(7, 16), PixelBounds(7).size(16, 7)) == ((1, 4), (4, 1))


def test_invalid_bounds_are_refused() -> None:
    wrong: list[tuple[Any, Any, str]] = [
        (0, None, "max_pixels=0"),
        (-5, None, "max_pixels=-5"),
        (1.5, None, "max_pixels=1.5"),
        (True, None, "max_pixels=True"),
        (None, 0, "min_pixels=0"),
        (100, 101, "min_pixels=101"),
    ]
    for most, least, key in wrong:
        with pytest.raises(ValueError, match=key):
            PixelBounds(most, least)


@pytest.mark.long
@pytest.mark.parametrize("family", LOCAL)
def test_a_cameras_picture_costs_what_the_bound_implies(load: Load, family: str) -> None:
    model, processor = load(LOCAL[family])
    vision = model.config.vision_config
    tile = {"smolvlm": 128}.get(family, 112)
    cell = {"qwen2_5_vl": 28, "qwen3_vl": 32}.get(family) or vision.patch_size
    unbounded = tokens(processor, model.config, CAMERA, None)
    for most in (5000, 13_000, 33_000):
        token_count = tokens(processor, model.config, CAMERA, most)
        overview = {"llava_next": 64}.get(family, 16)
        assert token_count <= min(unbounded, implied(family, most, tile=tile, cell=cell, overview=overview))
    if family not in ("gemma3", "mllama"):  # whose numbers of tokens are few
        assert tokens(processor, model.config, CAMERA, 13_000) < unbounded


@pytest.mark.long
@pytest.mark.parametrize("family", LOCAL)
def test_the_published_values_are_bounded_too(load: Load, family: str) -> None:
    processor, config = published(family, load)
    tile = {"smolvlm": 384, "llava_next": 336}.get(family, 560)
    cell = {"qwen2_5_vl": 28, "qwen3_vl": 32}.get(family, 14)
    overview = {"smolvlm": 81, "llava_next": 576, "gemma3": 256}.get(family, 0)
    costs = {most: [tokens(processor, config, size, most) for size in SHAPES] for most in COSTS[family]}
    assert costs == COSTS[family]
    for most in (90_000, 300_000, DEFAULT_MAX_PIXELS):
        bound = implied(family, most, tile=tile, cell=cell, overview=overview)
        assert max(costs[most]) <= bound
        assert max(tokens(processor, config, size, most) for size in ((450, 1400), (1500, 500))) <= bound


@pytest.mark.parametrize("family", LOCAL)
def test_smaller_pictures_are_as_without_a_bound(load: Load, family: str) -> None:
    shown = [picture(1, width=300, height=200)]
    for processor in (load(LOCAL[family])[1], published(family, load)[0]):
        free, bounded = (
            ChatEncoder(processor, bounds=bounds).encode([None, "x"], shown)
            for bounds in (NO_BOUNDS, PixelBounds(1_800_000))
        )
        assert free.keys() == bounded.keys()
        assert all(torch.equal(free[name], bounded[name]) for name in free)


@pytest.mark.parametrize("family", LOCAL)
def test_one_value_means_the_same_everywhere(load: Load, family: str) -> None:
    """What reaches the processor, or the size that it resizes to, has as many pixels as the bound allows."""
    processor, _ = published(family, load)
    (sized,), options = PictureSizer(processor, PixelBounds(90_000))([Image.new("RGB", CAMERA)])
    if family in ("qwen2_5_vl", "qwen3_vl"):
        assert options["size"]["longest_edge"] == 90_000
        assert options["size"]["shortest_edge"] <= 90_000
        assert sized.size == CAMERA
    else:
        assert sized.size == (346, 259)
    (sized,), options = PictureSizer(processor, PixelBounds(DEFAULT_MAX_PIXELS))([Image.new("RGB", (700, 500))])
    assert sized.size == (700, 500)


@pytest.mark.parametrize("family", LOCAL)
def test_small_pictures_are_enlarged(load: Load, family: str) -> None:
    processor, config = published(family, load)
    (sized,), options = PictureSizer(processor, PixelBounds(None, 300_000))([Image.new("RGB", (40, 30))])
    if family in ("qwen2_5_vl", "qwen3_vl"):
        assert options["size"]["shortest_edge"] == 300_000
        assert tokens(processor, config, (40, 30), None, 300_000) >= 300_000 // 32**2
    else:
        assert sized.width * sized.height >= 300_000


def test_the_lower_bound_of_a_model_gives_way_to_the_upper_bound(load: Load) -> None:
    processor, config = published("qwen3_vl", load)
    assert tokens(processor, config, (100, 100), None) == 64  # 65,536 pixels, its own lower bound
    for size in ((100, 100), (300, 30), (60, 400)):
        for most in (20_000, 66_000, 70_000):
            token_count = tokens(processor, config, size, most)
            assert 0.5 * most <= token_count * 32**2 <= most
            assert 0.5 * most <= tokens(processor, config, size, most, most) * 32**2 <= most


def test_a_grid_is_not_filled_beyond_the_bound(load: Load) -> None:
    """LLaVA-NeXT scales a picture up to its grid: one just within the bound would come out far above it."""
    processor, _ = published("llava_next", load)
    draw = random.Random(2)
    for _ in range(60):
        size = draw.randint(50, 1200), draw.randint(50, 1200)
        if max(size) > 5 * min(size):
            continue
        most = draw.randint(230_000, 440_000)
        (sized,), _ = PictureSizer(processor, PixelBounds(most))([Image.new("RGB", size)])
        count = processor._get_number_of_features(sized.height, sized.width, 336, 336) - 1 - 576
        rows = 72  # newlines, and rows of half a patch
        assert count * 14 * 14 <= most + rows * 14 * 14 + 14 * 1008


@pytest.mark.parametrize(
    ("name", "tile", "longest"),
    [
        ("SmolVLMImageProcessor", 384, 1536),
        ("SmolVLMImageProcessor", 512, 2048),
        ("Idefics3ImageProcessor", 364, 1456),
    ],
)
def test_tiles_stay_within_the_bound(name: str, tile: int, longest: int) -> None:
    import transformers

    images = getattr(transformers, name)(size={"longest_edge": longest}, max_image_size={"longest_edge": tile})
    processor = SimpleNamespace(image_processor=images)
    draw = random.Random(3)
    for _ in range(8):
        size = draw.randint(20, 700), draw.randint(20, 700)
        most = draw.randint(tile * tile, 16 * tile * tile)
        (sized,), options = PictureSizer(processor, PixelBounds(most))([Image.new("RGB", size)])
        frames = images(images=[[sized]], return_tensors="pt", **options)["pixel_values"].shape[1]
        tiles = max(1, frames - 1)
        assert sized.size == size
        assert tiles * tile * tile <= most
        if options:  # the next longer edge would not be
            edge = options["size"]["longest_edge"] + tile
            more = images(images=[[sized]], return_tensors="pt", size={"longest_edge": edge})["pixel_values"].shape[1]
            assert (more - 1) * tile * tile > most


def test_edges_that_are_no_multiple_of_a_tile_are_rounded_as_the_processor_does() -> None:
    """Its shorter edge is made even before it counts the rows of tiles: 597 x 448 has 4 x 4 of them."""
    import transformers

    images = transformers.SmolVLMImageProcessor(size={"longest_edge": 1500}, max_image_size={"longest_edge": 384})
    shown = Image.new("RGB", (597, 448))
    assert images(images=[[shown]], return_tensors="pt")["pixel_values"].shape[1] == 4 * 4 + 1
    for tiles, edge in ((16, None), (15, 1152), (13, 1152)):
        sizer = PictureSizer(SimpleNamespace(image_processor=images), PixelBounds(tiles * 384 * 384))
        assert sizer([shown])[1] == ({"size": {"longest_edge": edge}} if edge else {}), tiles


def test_a_line_of_pixels_keeps_one_in_a_grid() -> None:
    assert [_fit(size, (336, 672)) for size in ((9000, 1), (1, 9000), (300, 300))] == [(336, 1), (1, 672), (336, 336)]


def test_several_pictures_of_one_prompt(load: Load) -> None:
    for name in LOCAL.values():
        model, processor = load(name)
        chat = ChatEncoder(processor, bounds=PixelBounds(20_000), config=model.config)
        shown = [picture(1, width=900, height=300), picture(2, width=200, height=640)]
        token_counts = chat.picture_tokens(chat.encode([None, "x"], shown))
        alone = [chat.picture_tokens(chat.encode([None, "x"], [entry])) for entry in shown]
        assert token_counts == sum(entry or 0 for entry in alone)


def test_pictures_of_one_prompt_share_the_smallest_longest_edge() -> None:
    """Of at most six tiles, a wide picture alone has four in a row, and a square one two in each of two rows."""
    import transformers

    images = transformers.SmolVLMImageProcessor(size={"longest_edge": 1536}, max_image_size={"longest_edge": 384})
    sizer = PictureSizer(SimpleNamespace(image_processor=images), PixelBounds(6 * 384 * 384))
    wide, square = Image.new("RGB", (800, 200)), Image.new("RGB", (400, 400))
    assert sizer([wide])[1] == {}
    for shown in ([square], [wide, square], [square, wide]):
        assert sizer(shown)[1] == {"size": {"longest_edge": 768}}


def test_a_processor_whose_largest_size_is_the_bound_gets_pictures_unchanged() -> None:
    class Gemma3ImageProcessor:
        size = {"height": 100, "width": 90}

    sizer = PictureSizer(SimpleNamespace(image_processor=Gemma3ImageProcessor()), PixelBounds(9000))
    large = Image.new("RGB", (400, 300))
    assert sizer([large]) == ([large], {})
    tighter = PictureSizer(SimpleNamespace(image_processor=Gemma3ImageProcessor()), PixelBounds(8999))
    assert tighter([large])[0][0].size == (109, 82)


def test_an_unknown_image_processor_gets_smaller_pictures() -> None:
    processor = SimpleNamespace(image_processor=SimpleNamespace(size={"height": 448, "width": 448}))
    sized, options = PictureSizer(processor, PixelBounds(10_000))([picture(1, width=400, height=100), picture(2)])
    assert ([entry.size for entry in sized], options) == ([(200, 50), (115, 86)], {})
    assert PictureSizer(SimpleNamespace(), PixelBounds(10_000))([picture(1)])[0][0].size == (120, 90)


def test_tokens_without_weights(load: Load) -> None:
    load("qwen2.5-vl-tiny")  # built before, since nothing builds it here
    token_counts = tokens_of_sizes("local:qwen2.5-vl-tiny", [CAMERA, (56, 56)], bounds=PixelBounds(20_000))
    assert token_counts == [20, 4]
    load("llama-tiny")
    assert tokens_of_sizes("local:llama-tiny", [CAMERA], bounds=NO_BOUNDS) == []


def test_nothing_is_built_or_downloaded_to_count_tokens(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REMINE_CACHE", str(tmp_path))
    assert tokens_of_sizes("local:qwen2.5-vl-tiny", [CAMERA], bounds=NO_BOUNDS) is None
    assert tokens_of_sizes("no-one/nothing-of-that-name", [CAMERA], bounds=NO_BOUNDS) is None
    assert list(tmp_path.iterdir()) == []


def test_a_processor_that_is_not_cached_is_not_asked_from_the_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    absent: list[Exception] = []

    def load(model: str, *, revision: str | None = None, local_only: bool = False) -> Any:
        asked.append((model, revision, local_only))
        raise absent[0]

    def is_cached(*place: Any) -> bool:
        asked.append(place)
        return True

    monkeypatch.setattr(chat, "load_processor", load)
    monkeypatch.setattr("actors.hub.is_cached", is_cached)
    for absent[:] in ([OSError("not in the cache")], [ModelError("not in the cache", "m")]):
        assert tokens_of_sizes("org/half-cached", [CAMERA], bounds=NO_BOUNDS, revision="r") is None
        assert asked == [("org/half-cached", "config.json", "r"), ("org/half-cached", "r", True)]
        asked.clear()
    assert tokens_of_sizes("s3://bucket/model", [CAMERA], bounds=NO_BOUNDS) is None
    assert asked == []


def test_a_model_without_picture_tokens() -> None:
    assert picture_tokens(SimpleNamespace(), {"input_ids": torch.tensor([[1, 2]])}) is None


@pytest.mark.parametrize("tower", ["clip_vision_model", "siglip_vision_model"])
def test_a_processor_that_leaves_its_patches_to_the_model(load: Load, tower: str) -> None:
    """neulab/Pangea-7B-hf: processor_config.json with patch_size and vision_feature_select_strategy null."""
    import copy

    model, processor = load("llava-next-tiny")
    expected = tokens(processor, model.config, CAMERA, None)
    old = copy.copy(processor)
    old.patch_size = old.vision_feature_select_strategy = None
    old.num_additional_image_tokens = 0
    strategy = "default" if tower == "clip_vision_model" else "full"
    config = SimpleNamespace(
        vision_config=SimpleNamespace(patch_size=14, model_type=tower), vision_feature_select_strategy=strategy
    )
    assert tokens(completed(old, config), model.config, CAMERA, None) == expected
    assert completed(processor, model.config).num_additional_image_tokens == 1


@pytest.mark.parametrize(
    ("size", "variant"), [((30, 90), Image.Resampling.LANCZOS), ((70, 91), Image.Resampling.BICUBIC)]
)
def test_pictures_are_made_smaller_and_larger_by_different_filters(
    size: tuple[int, int], variant: Image.Resampling
) -> None:
    shown = picture(1, width=60, height=80)
    assert _resized(shown, size).tobytes() == shown.resize(size, variant).tobytes()
    assert _resized(shown, shown.size) is shown
