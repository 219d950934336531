"""Pixels, forms and facts of pictures that are decoded."""

import hashlib
import io
import itertools
import struct
import zlib

import imagehash
import numpy as np
import pytest
from PIL import Image, ImageOps, JpegImagePlugin, features

from actors.pictures import PictureError, decode_rgb, inspect, render
from tests.actors.picture_samples import ENCODINGS, WHITE, encoded, textured
from tests.cases import check_cases


def test_rgb_pixels_are_pillows():
    def check(data):
        with Image.open(io.BytesIO(data)) as plain:
            expected = plain.convert("RGB")
        picture = decode_rgb(data)
        assert picture.mode == "RGB"
        assert np.array_equal(np.asarray(picture), np.asarray(expected))

    check_cases(check, ENCODINGS)


def lossless():
    alpha = textured().convert("RGBA")
    alpha.putalpha(Image.linear_gradient("L").resize(alpha.size))
    frames = [textured(), textured().transpose(Image.Transpose.ROTATE_180)]
    files = {
        "webp": encoded(textured(), "WEBP", lossless=True),
        "webp with transparency": encoded(alpha, "WEBP", lossless=True, exact=True),
        "webp with a profile": encoded(textured(), "WEBP", lossless=True, icc_profile=b"profile"),
        "webp animation": encoded(frames[0], "WEBP", lossless=True, save_all=True, append_images=frames[1:]),
        "png": encoded(textured()),
        "tiff": encoded(textured(), "TIFF"),
    }
    if features.check("jpg_2000"):
        files |= {"jp2": encoded(textured(), "JPEG2000"), "j2k": encoded(textured(), "JPEG2000", no_jp2=True)}
    return files


def lossy():
    frames = [textured(), textured().transpose(Image.Transpose.ROTATE_180)]
    files = {
        "webp": encoded(textured(), "WEBP"),
        "webp with transparency": encoded(textured().convert("RGBA").rotate(10), "WEBP"),
        "webp animation": encoded(frames[0], "WEBP", save_all=True, append_images=frames[1:]),
        "jpeg": encoded(textured(), "JPEG"),
    }
    if features.check("jpg_2000"):
        files["jp2"] = encoded(textured(), "JPEG2000", irreversible=True)
    return files


def test_lossless_input_stays_lossless():
    def check(data):
        expected = decode_rgb(data).resize((20, 14), Image.Resampling.BICUBIC)
        rendered = render(data, width=20)
        assert rendered.data is not None
        assert rendered.facts.format == "PNG"
        assert np.array_equal(np.asarray(decode_rgb(rendered.data)), np.asarray(expected))

    check_cases(check, lossless())


def test_the_height_of_a_resized_picture_is_rounded():
    sizes = [render(encoded(Image.new("RGB", size)), width=2).facts[1:3] for size in ((3, 2), (8, 7), (9, 1))]
    assert sizes == [(2, 1), (2, 2), (2, 1)]  # 1.3, 1.75 and 0.2


def test_lossy_input_becomes_a_jpeg():
    def check(data):
        rendered = render(data, width=20)
        assert rendered.facts.format == "JPEG"
        assert rendered.data is not None
        stored, plain = (
            Image.open(io.BytesIO(jpeg)) for jpeg in (rendered.data, encoded(textured(), "JPEG", quality=95))
        )
        assert JpegImagePlugin.get_sampling(stored) == 0  # full colour resolution
        assert vars(stored)["quantization"] == vars(plain)["quantization"]

    check_cases(check, lossy())


def test_a_hash_is_near_that_of_the_whole_picture():
    """A JPEG whose bytes are kept is decoded in grey and small."""
    y, x = np.mgrid[0:700, 0:900]
    waves = [np.sin(x / scale) * np.cos(y / scale) * 120 + 128 for scale in (40.0, 90.0, 17.0)]
    data = encoded(Image.fromarray(np.stack(waves, -1).astype(np.uint8)), "JPEG", quality=90)
    facts = inspect(data)
    assert (facts.width, facts.height) == (900, 700)
    whole = imagehash.phash(Image.open(io.BytesIO(data)))
    assert imagehash.hex_to_hash(facts.phash) - whole <= 2


def test_hashes_are_those_of_imagehash():
    """Also where frequencies are zero: in pictures of one colour, of stripes, and of two halves."""
    noise = np.random.default_rng(3).integers(0, 256, (90, 120, 3))
    ramp, halves = np.broadcast_to(np.arange(120)[None, :, None] * 2, noise.shape), np.zeros(noise.shape)
    halves[:45] = 255
    for pixels in (noise, noise // 2 + ramp // 2, ramp, halves, np.full(noise.shape, 7)):
        picture = Image.fromarray(pixels.astype(np.uint8))
        assert inspect(encoded(picture, "PNG")).phash == str(imagehash.phash(picture))


def test_orientation():
    def check(form, orientation):
        exif = Image.Exif()
        exif[0x0112] = orientation
        data = encoded(textured(), form, exif=exif)
        with Image.open(io.BytesIO(data)) as plain:
            expected = ImageOps.exif_transpose(plain).convert("RGB")
        assert decode_rgb(data).size == ((56, 40) if orientation < 5 else (40, 56))
        assert np.array_equal(np.asarray(decode_rgb(data)), np.asarray(expected))
        assert inspect(data)[1:3] == expected.size
        hashes = [imagehash.phash(shown) for shown in (expected, ImageOps.flip(expected), ImageOps.mirror(expected))]
        distances = [imagehash.hex_to_hash(inspect(data).phash) - other for other in hashes]
        assert distances[0] <= 4 < min(distances[1:])
        small = render(data, width=20)
        assert small.data is not None
        with Image.open(io.BytesIO(small.data)) as stored:
            shown = stored.convert("RGB")
        assert shown.size == small.facts[1:3] == ((20, 14) if orientation < 5 else (20, 28))
        wanted = np.asarray(expected.resize(shown.size, Image.Resampling.BICUBIC)).astype(int)
        assert np.abs(np.asarray(shown) - wanted).mean() < 12  # another way up it is 40 and more

    check_cases(check, itertools.product(["JPEG", "PNG", "WEBP", "TIFF"], range(1, 9)))


def test_broken_exif_does_not_matter(monkeypatch):
    def unreadable(self):
        raise SyntaxError("not a TIFF file (header invalid)")

    with monkeypatch.context() as patch:
        patch.setattr(Image.Image, "getexif", unreadable)
        assert decode_rgb(ENCODINGS["jpeg"]).size == (56, 40)
    data = encoded(textured(), "JPEG", exif=b"Exif\0\0MM\0*\xff\xff\xff\xff nonsense")
    assert np.array_equal(np.asarray(decode_rgb(data)), np.asarray(Image.open(io.BytesIO(data))))


@pytest.mark.parametrize("mode", ["RGBA", "LA", "PA"])
def test_alpha_is_composited_on_white(mode):
    clear = Image.new("RGBA", (4, 4), (200, 30, 40, 0)).convert(mode)
    assert decode_rgb(encoded(clear, "TIFF")).getpixel((0, 0)) == WHITE


def test_half_transparent_is_mixed_with_white():
    assert decode_rgb(encoded(Image.new("RGBA", (4, 4), (0, 100, 0, 128)))).getpixel((1, 1)) == (127, 177, 127)


def test_palettes_with_transparency():
    palette = Image.new("P", (4, 4), 1)
    palette.putpixel((0, 0), 0)
    palette.putpalette([255, 0, 0, 0, 255, 0])
    one = decode_rgb(encoded(palette, transparency=1))
    assert (one.getpixel((0, 0)), one.getpixel((1, 1))) == ((255, 0, 0), WHITE)
    several = decode_rgb(encoded(palette, transparency=bytes([0, 128])))
    assert (several.getpixel((0, 0)), several.getpixel((1, 1))) == (WHITE, (127, 255, 127))
    gif = decode_rgb(encoded(palette, "GIF", transparency=1))
    assert gif.getpixel((1, 1)) == WHITE


def test_a_transparent_colour_is_composited_on_white():
    cases = {"1": ("1", 1), "L": ("L", 9), "RGB": ("RGB", (1, 2, 3)), "I;16": ("I;16", 300)}

    def check(mode, colour):
        data = encoded(Image.new(mode, (4, 4), colour), transparency=colour)
        assert decode_rgb(data).getpixel((0, 0)) == WHITE
        assert decode_rgb(encoded(Image.new(mode, (4, 4), colour))).getpixel((0, 0)) != WHITE or mode == "1"

    check_cases(check, cases)


RAMP = np.arange(256).reshape(16, 16)


def test_wide_grey_keeps_its_steps():
    cases = {
        "16-bit": ((RAMP * 257).astype(np.uint16), "PNG"),
        "16-bit TIFF": ((RAMP * 257).astype(np.uint16), "TIFF"),
        "32-bit as 16": ((RAMP * 257).astype(np.int32), "TIFF"),
        "32-bit": ((RAMP * 100_000 - 77).astype(np.int32), "TIFF"),
        "0..1": ((RAMP / 255).astype(np.float32), "TIFF"),
        "0..255": (RAMP.astype(np.float32), "TIFF"),
        "any float": ((RAMP / 7 - 3).astype(np.float32), "TIFF"),
        "0..0.5": ((RAMP / 510).astype(np.float32), "TIFF", np.rint((RAMP / 510).astype(np.float32) * 255)),
        "half of 16 bits": ((RAMP * 128).astype(np.int32), "TIFF", np.rint(RAMP * 128 / 257)),
    }

    def check(values, form, expected=RAMP):
        picture = np.asarray(decode_rgb(encoded(Image.fromarray(values), form)))
        assert np.array_equal(picture, np.repeat(expected[..., None], 3, axis=2))

    check_cases(check, cases)


def test_not_a_number_and_flat_pictures():
    values = np.full((4, 4), np.nan, np.float32)
    values[:2] = np.inf
    values[2:, 0] = -np.inf
    values[0, 0] = 1
    assert np.asarray(decode_rgb(encoded(Image.fromarray(values), "TIFF")))[..., 0].sum() == 255
    flat = np.full((4, 4), -5, np.int32)
    assert not np.asarray(decode_rgb(encoded(Image.fromarray(flat), "TIFF"))).any()


def test_other_modes_keep_their_colours():
    cases = [("1", "PNG"), ("L", "JPEG"), ("CMYK", "JPEG"), ("CMYK", "TIFF"), ("YCbCr", "TIFF")]

    def check(mode, form):
        data = encoded(Image.new("RGB", (16, 16), (250, 250, 250)).convert(mode), form)
        assert np.abs(np.asarray(decode_rgb(data)).astype(int) - 250).max() <= 6

    check_cases(check, cases)


def test_first_frame():
    def check(form):
        frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "blue")]
        data = encoded(frames[0], form, save_all=True, append_images=frames[1:])
        red, _, blue = np.asarray(decode_rgb(data))[4, 4]
        assert red > 200
        assert blue < 50

    check_cases(check, ["GIF", "WEBP", "PNG", "TIFF"])


def test_inspect():
    data = ENCODINGS["jpeg"]
    facts = inspect(data)
    assert facts.format == "JPEG"
    assert (facts.width, facts.height) == (56, 40)
    assert facts.sha256 == hashlib.sha256(data).hexdigest()
    assert facts.phash == str(imagehash.phash(Image.open(io.BytesIO(data))))
    assert len(facts.phash) == 16
    with pytest.raises(PictureError):
        inspect(data[:-300])


def test_negatives_of_16_bits_are_inverted():
    """As those of 8 bits, which Pillow inverts itself."""

    def check(bits, value, grey):
        samples = struct.pack(f"<16{'H' if bits == 16 else 'B'}", *[value] * 16)
        entries = {256: 4, 257: 4, 258: bits, 259: 1, 262: 0, 273: 122, 277: 1, 278: 4, 279: len(samples)}
        tags = b"".join(struct.pack("<HHIHH", tag, 3, 1, entry, 0) for tag, entry in entries.items())
        data = b"II*\0" + struct.pack("<IH", 8, len(entries)) + tags + bytes(4)
        picture = np.asarray(decode_rgb(data.ljust(122, b"\0") + samples))
        assert picture.shape == (4, 4, 3)
        assert (picture == grey).all()

    check_cases(check, [(16, 60_000, 22), (16, 0, 255), (16, 65_535, 0), (16, 257, 254), (8, 240, 15), (8, 0, 255)])


def test_a_transparent_colour_of_16_bits_is_white():
    def check(shown, transparent, expected):
        def chunk(kind, data):
            return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

        rows = b"".join(b"\0" + struct.pack(">6H", *shown, *shown) for _ in range(2))
        chunks = [(b"IHDR", struct.pack(">IIBBBBB", 2, 2, 16, 2, 0, 0, 0)), (b"tRNS", struct.pack(">3H", *transparent))]
        chunks += [(b"IDAT", zlib.compress(rows)), (b"IEND", b"")]
        data = b"\x89PNG\r\n\x1a\n" + b"".join(chunk(*part) for part in chunks)
        assert tuple(np.asarray(decode_rgb(data))[0, 0]) == expected

    check_cases(check, [
        ((60_000, 1_000, 30_000), (60_000, 1_000, 30_000), (255, 255, 255)),
        ((60_000, 1_000, 30_000), (60_000, 1_000, 20_000), (234, 3, 117)),
        ((0, 0, 200), (0, 0, 200), (255, 255, 255)),
        ((60_000, 0, 0), (234, 0, 0), (234, 0, 0)),
    ])  # fmt: skip


@pytest.mark.parametrize(("dtype", "white"), [("float32", 1.0), ("float32", 255.0), ("uint16", 65535)])
def test_wide_greys_in_which_0_is_white_are_inverted(dtype: str, white: float) -> None:
    steps = Image.fromarray(np.linspace(0, white, 8).astype(dtype).reshape(1, 8))
    dark_first, light_first = (
        np.asarray(decode_rgb(encoded(steps, "TIFF", tiffinfo={262: zero})))[0, :, 0].tolist() for zero in (1, 0)
    )
    assert dark_first == [round(255 * step / 7) for step in range(8)]
    assert light_first == dark_first[::-1]
