"""Painting of scenes with Pillow: a ground in a style, a flag in the upper row, and figures on one side below it.

A picture is a square of 256 pixels with 4 x 4 cells. The flag is in a cell of the upper row; each figure fills a cell
of the other three. Every picture has grain, like film: resampling that averages removes most of it, resampling that
picks single pixels keeps it.
"""

import io
import math
import random
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageDraw

from jobs.testbed.little_world.scenes import COLOURS, RGB, Scene

SIDE = 256
CELL = SIDE // 4
FLAG = (60, 48)  # width, height
GRAIN = 34.0  # standard deviation in levels of 0 to 255
SPACING = 22  # pixels between the lines of a ground
INK: RGB = (150, 160, 178)
PNG_LEVEL = 1  # compression level: takes a quarter of the default's time, and files with grain are smaller


class Placed(NamedTuple):
    """The place of a figure: its column and row in the grid, its centre, and its radius in pixels."""

    column: int
    row: int
    centre: tuple[float, float]
    radius: float


class Composition(NamedTuple):
    """The parts of a picture besides its scene: shades, lines, places, and the seed of its grain."""

    shade: int
    tint: int
    start: int  # first position of the ground's lines
    flag_column: int
    figures: tuple[Placed, ...]
    grain_seed: int


def compose(scene: Scene, *, seed: int = 0) -> Composition:
    """Return the composition of a scene's picture."""
    rng = random.Random(f"picture {seed} {scene.number}")
    shade = rng.randint(196, 222)
    tint, start, flag_column = rng.randint(-8, 8), rng.randrange(SPACING), rng.randrange(4)
    columns = (0, 1) if scene.side == "left" else (2, 3)
    cells = rng.sample([(column, row) for column in columns for row in (1, 2, 3)], scene.count)
    figures = []
    for column, row in cells:
        centre = (column + 0.5) * CELL + rng.uniform(-3, 3), (row + 0.5) * CELL + rng.uniform(-3, 3)
        figures.append(Placed(column, row, centre, rng.uniform(23, 28)))
    return Composition(shade, tint, start, flag_column, tuple(figures), rng.getrandbits(32))


def paint(scene: Scene, *, seed: int = 0) -> Image.Image:
    """Return the picture of a scene, RGB; equal arguments give equal pixels for one version of Pillow and NumPy."""
    composition = compose(scene, seed=seed)
    image = _ground(scene.style, composition)
    pen = ImageDraw.Draw(image)
    _flag(pen, scene.country.bands, composition.flag_column * CELL + 2, upright=scene.country.upright)
    for figure in composition.figures:
        _figure(pen, scene.shape, figure.centre, figure.radius, COLOURS[scene.colour])
    noise = GRAIN * np.random.default_rng(composition.grain_seed).standard_normal((SIDE, SIDE, 1), np.float32)
    pixels = np.clip(np.asarray(image, np.float32) + noise, 0, 255)
    return Image.fromarray(pixels.astype(np.uint8))


def encoded(scene: Scene, extension: str, *, seed: int = 0) -> bytes:
    """Return the picture as a file: PNG, or JPEG for every other extension."""
    out = io.BytesIO()
    image = paint(scene, seed=seed)
    if extension == "png":
        image.save(out, "PNG", compress_level=PNG_LEVEL)
    else:
        image.save(out, "JPEG", quality=92)
    return out.getvalue()


def _ground(style: str, composition: Composition) -> Image.Image:
    shade, start = composition.shade, composition.start
    image = Image.new("RGB", (SIDE, SIDE), (shade, shade, shade + composition.tint))
    pen = ImageDraw.Draw(image)
    if style in ("ruled", "gridded"):
        for at in range(start, SIDE, SPACING):
            pen.line((0, at, SIDE, at), fill=INK, width=6)
    if style == "gridded":
        for at in range(start, SIDE, SPACING):
            pen.line((at, 0, at, SIDE), fill=INK, width=6)
    if style == "brushed":
        for at in range(start - SIDE, SIDE, SPACING + 8):
            pen.line((at, SIDE, at + SIDE, 0), fill=INK, width=9)
    if style == "shaded":
        return _shaded(image)
    return image


def _shaded(image: Image.Image) -> Image.Image:
    """Darken towards the corners, as a lens does."""
    steps = np.linspace(-1, 1, SIDE)
    distance = np.sqrt(steps[:, None] ** 2 + steps[None, :] ** 2)
    pixels = np.asarray(image, np.float32) * (1 - 0.42 * np.clip(distance, 0, 1.35))[..., None]
    return Image.fromarray(pixels.astype(np.uint8))


def _flag(pen: ImageDraw.ImageDraw, bands: tuple[str, str, str], left: int, *, upright: bool) -> None:
    width, height = FLAG
    top = 7
    for number, band in enumerate(bands):
        begin, end = number / 3, (number + 1) / 3
        across = (left + width * begin, left + width * end) if upright else (left, left + width)
        down = (top, top + height) if upright else (top + height * begin, top + height * end)
        pen.rectangle((across[0], down[0], across[1], down[1]), fill=COLOURS[band])
    pen.rectangle((left, top, left + width, top + height), outline=(70, 70, 70), width=2)


def _figure(pen: ImageDraw.ImageDraw, shape: str, centre: tuple[float, float], radius: float, colour: RGB) -> None:
    x, y = centre
    edge = (60, 60, 60)
    if shape == "circle":
        pen.ellipse((x - radius, y - radius, x + radius, y + radius), fill=colour, outline=edge, width=2)
        return
    pen.polygon([(x + radius * u, y + radius * v) for u, v in OUTLINES[shape]], fill=colour, outline=edge, width=2)


def _star() -> list[tuple[float, float]]:
    corners = []
    for number in range(10):
        length, angle = (1.1, 0.42)[number % 2], math.pi * (number / 5 - 0.5)
        corners.append((length * math.cos(angle), length * math.sin(angle)))
    return corners


def _heart() -> list[tuple[float, float]]:
    corners = []
    for number in range(24):
        angle = 2 * math.pi * number / 24
        across = math.sin(angle) ** 3
        down = -(13 * math.cos(angle) - 5 * math.cos(2 * angle) - 2 * math.cos(3 * angle) - math.cos(4 * angle)) / 16
        corners.append((across, down))
    return corners


_ARM = 0.36
OUTLINES = {
    "square": [(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)],
    "triangle": [(0, -1.05), (1.05, 0.9), (-1.05, 0.9)],
    "cross": [
        (-_ARM, -1), (_ARM, -1), (_ARM, -_ARM), (1, -_ARM), (1, _ARM), (_ARM, _ARM),
        (_ARM, 1), (-_ARM, 1), (-_ARM, _ARM), (-1, _ARM), (-1, -_ARM), (-_ARM, -_ARM),
    ],
    "star": _star(),
    "heart": _heart(),
}  # fmt: skip
