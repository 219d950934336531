"""Pictures for the synthetic corpus: posters, maps, portraits and the like, drawn with Pillow from a seed."""

import io
import math
import random
from collections.abc import Callable

from PIL import Image, ImageDraw, ImageFilter

Colour = tuple[int, int, int]
Sketch = Callable[[ImageDraw.ImageDraw, int, int, random.Random], None]

# encoding by file extension and mode: decoders often fail on grey photographs and posters with palettes
STYLES = (("jpg", "RGB"), ("png", "RGBA"), ("png", "P"), ("jpg", "L"), ("JPG", "RGB"), ("jpeg", "RGB"), ("png", "L"))
MIN_SIDE, MAX_SIDE = 200, 400


def draw(number: int, *, seed: int) -> tuple[str, bytes]:
    """Return the file extension and encoded bytes of picture `number` of the corpus `seed`.

    The same two integers give the same bytes for one version of Pillow. Sides are 200 to 400 pixels; the subject
    and the encoding (JPEG, PNG with alpha, PNG with a palette, grey) cycle with `number`.
    """
    rng = random.Random(f"picture {seed} {number}")
    width, height = rng.randint(MIN_SIDE, MAX_SIDE), rng.randint(MIN_SIDE, MAX_SIDE)
    image = Image.new("RGB", (width, height), _colour(rng, light=True))
    SKETCHES[number % len(SKETCHES)](ImageDraw.Draw(image), width, height, rng)
    extension, mode = STYLES[number % len(STYLES)]
    return extension, _encode(image, extension, mode)


def _encode(image: Image.Image, extension: str, mode: str) -> bytes:
    out = io.BytesIO()
    if extension != "png":
        image.filter(ImageFilter.GaussianBlur(0.6)).convert(mode).save(out, "JPEG", quality=82)
        return out.getvalue()
    if mode == "RGBA":
        image.putalpha(_vignette(image.size))
    elif mode == "P":
        image = image.quantize(32)
    else:
        image = image.convert(mode)
    image.save(out, "PNG")
    return out.getvalue()


def _vignette(size: tuple[int, int]) -> Image.Image:
    """Return a mask that is opaque in an ellipse and transparent outside it."""
    mask = Image.new("L", size, 0)
    ImageDraw.Draw(mask).ellipse((4, 4, size[0] - 4, size[1] - 4), fill=255)
    return mask


def _colour(rng: random.Random, *, light: bool = False) -> Colour:
    low, high = (170, 250) if light else (10, 190)
    return (rng.randint(low, high), rng.randint(low, high), rng.randint(low, high))


def _poster(pen: ImageDraw.ImageDraw, width: int, height: int, rng: random.Random) -> None:
    centre = (width / 2, height * 0.4)
    rays, reach = rng.randrange(8, 24, 2), width + height
    for ray in range(0, rays, 2):
        at = [2 * math.pi * (ray + step) / rays for step in (0, 1)]
        edge = [(centre[0] + reach * math.cos(a), centre[1] + reach * math.sin(a)) for a in at]
        pen.polygon([centre, *edge], fill=_colour(rng, light=True))
    radius = min(width, height) * rng.uniform(0.15, 0.3)
    pen.ellipse((centre[0] - radius, centre[1] - radius, centre[0] + radius, centre[1] + radius), fill=_colour(rng))
    _lines_of_writing(pen, (0.08 * width, 0.72 * height, 0.92 * width, 0.95 * height), rng)


def _lines_of_writing(pen: ImageDraw.ImageDraw, box: tuple[float, float, float, float], rng: random.Random) -> None:
    """Draw bars instead of words, since with real letters the bytes would depend on a font."""
    left, y, right, bottom = box
    ink, size = _colour(rng), 12
    while y + size < bottom:
        x = left
        while x < right - 10:
            word = min(rng.uniform(10, 50), right - x)
            pen.rectangle((x, y, x + word, y + size * 0.6), fill=ink)
            x += word + 6
        y += size


def _map(pen: ImageDraw.ImageDraw, width: int, height: int, rng: random.Random) -> None:
    pen.rectangle((0, 0, width, height), fill=(170, 200, 225))
    for _ in range(rng.randint(2, 4)):
        x, y = rng.uniform(0.2, 0.8) * width, rng.uniform(0.2, 0.8) * height
        size = min(width, height) * rng.uniform(0.15, 0.4)
        coast = [(size * rng.uniform(0.7, 1.1), 2 * math.pi * step / 28) for step in range(28)]
        shore = [(x + r * math.cos(a), y + r * math.sin(a)) for r, a in coast]
        pen.polygon(shore, fill=_colour(rng, light=True), outline=(60, 60, 60))
    river = [(width * step / 12, height * rng.uniform(0.4, 0.6)) for step in range(13)]
    pen.line(river, fill=(40, 90, 170), width=3, joint="curve")
    for _ in range(rng.randint(4, 12)):
        x, y = rng.uniform(0.1, 0.9) * width, rng.uniform(0.1, 0.9) * height
        pen.ellipse((x - 3, y - 3, x + 3, y + 3), fill=(180, 30, 30))
    for step in range(0, width, 40):
        pen.line((step, 0, step, height), fill=(120, 140, 150))


def _portrait(pen: ImageDraw.ImageDraw, width: int, height: int, rng: random.Random) -> None:
    """Draw a bust of plain shapes, which shows no real person."""
    skin, cloth, hair = _colour(rng), _colour(rng), _colour(rng)
    middle, head = width / 2, min(width, height) * rng.uniform(0.16, 0.22)
    pen.ellipse((middle - 2.2 * head, 0.62 * height, middle + 2.2 * head, 1.4 * height), fill=cloth)
    pen.ellipse((middle - 1.15 * head, 0.4 * height - 1.5 * head, middle + 1.15 * head, 0.4 * height), fill=hair)
    pen.ellipse((middle - head, 0.4 * height - 1.2 * head, middle + head, 0.4 * height + 1.3 * head), fill=skin)
    if rng.random() < 0.5:
        brim = 0.4 * height - 0.8 * head
        pen.rectangle((middle - 1.5 * head, brim - 5, middle + 1.5 * head, brim + 5), fill=cloth)
    pen.rectangle((2, 2, width - 3, height - 3), outline=hair, width=6)


def _landscape(pen: ImageDraw.ImageDraw, width: int, height: int, rng: random.Random) -> None:
    top, low = _colour(rng, light=True), _colour(rng, light=True)
    for y in range(height):
        share = y / height
        pen.line((0, y, width, y), fill=tuple(round(a + (b - a) * share) for a, b in zip(top, low, strict=True)))
    sun = rng.uniform(0.1, 0.8) * width
    pen.ellipse((sun, 0.1 * height, sun + 40, 0.1 * height + 40), fill=(250, 220, 120))
    for layer in range(3):
        ridge, phase = _colour(rng), rng.uniform(0, 6)
        line = [
            (x, height * (0.5 + 0.14 * layer + 0.06 * math.sin(phase + x / (18 + 9 * layer))))
            for x in range(0, width + 8, 8)
        ]
        pen.polygon([(0, height), *line, (width, height)], fill=ridge)


def _crowd(pen: ImageDraw.ImageDraw, width: int, height: int, rng: random.Random) -> None:
    pen.rectangle((0, 0, width, 0.35 * height), fill=_colour(rng, light=True))
    for house in range(0, width, 45):
        pen.rectangle((house, rng.uniform(0.05, 0.2) * height, house + 40, 0.45 * height), fill=_colour(rng))
    for row in range(5):
        y, size = height * (0.5 + 0.1 * row), 6 + 2 * row
        for x in range(-size, width + size, 3 * size):
            at, coat = x + rng.uniform(-3, 3), _colour(rng)
            pen.rectangle((at - size, y + size, at + size, y + 5 * size), fill=coat)
            pen.ellipse((at - size, y - size, at + size, y + size), fill=(205, 175, 150))
            if rng.random() < 0.15:
                pen.line((at, y, at, y - 5 * size), fill=(70, 50, 40), width=2)
                pen.rectangle((at, y - 5 * size, at + 4 * size, y - 3 * size), fill=_colour(rng))


def _document(pen: ImageDraw.ImageDraw, width: int, height: int, rng: random.Random) -> None:
    pen.rectangle((0, 0, width, height), fill=(240, 232, 210))
    _lines_of_writing(pen, (0.1 * width, 0.08 * height, 0.9 * width, 0.7 * height), rng)
    x, y = 0.7 * width, 0.85 * height
    for ring in (24, 18, 10):
        pen.ellipse((x - ring, y - ring, x + ring, y + ring), outline=_colour(rng), width=4)


SKETCHES: tuple[Sketch, ...] = (_poster, _map, _portrait, _landscape, _crowd, _document)
