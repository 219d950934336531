"""Pictures in every format that is decoded, and the kind of an error."""

import io
from typing import Any

import numpy as np
import pytest
from PIL import Image, features

from actors.pictures import PictureError, decode_rgb

WHITE = (255, 255, 255)


def encoded(picture: Image.Image, form: str = "PNG", **options: Any) -> bytes:
    stream = io.BytesIO()
    picture.save(stream, form, **options)
    return stream.getvalue()


def textured(width: int = 56, height: int = 40) -> Image.Image:
    y, x = np.mgrid[0:height, 0:width]
    values = np.stack([x * 4, y * 6, x * y], -1).astype(np.uint8)
    values[::3] = np.random.default_rng(0).integers(0, 255, values[::3].shape)
    return Image.fromarray(values)


def kind_of(data: bytes, **options: Any) -> str:
    with pytest.raises(PictureError) as caught:
        decode_rgb(data, **options)
    assert str(caught.value)
    return caught.value.kind


def encodings() -> dict[str, bytes]:
    picture, palette = textured(), textured().quantize(16)
    files = {
        "jpeg": encoded(picture, "JPEG"),
        "progressive": encoded(picture, "JPEG", progressive=True),
        "png": encoded(picture),
        "png palette": encoded(palette),
        "gif": encoded(palette, "GIF"),
        "gif interlaced": encoded(palette, "GIF", interlace=1),
        "webp": encoded(picture, "WEBP"),
        "webp lossless": encoded(picture, "WEBP", lossless=True),
        "tiff": encoded(picture, "TIFF"),
        "tiff deflate": encoded(picture, "TIFF", compression="tiff_adobe_deflate"),
        "bmp": encoded(picture, "BMP"),
        "ppm": encoded(picture, "PPM"),
    }
    if features.check("avif"):
        files["avif"] = encoded(picture, "AVIF")
    if features.check("jpg_2000"):
        files |= {"jp2": encoded(picture, "JPEG2000"), "j2k": encoded(picture, "JPEG2000", no_jp2=True)}
    return files


ENCODINGS = encodings()
