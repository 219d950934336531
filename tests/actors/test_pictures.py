import hashlib
import io
import itertools
import pickle
import re
import struct
import warnings
import zlib

import imagehash
import numpy as np
import pytest
from PIL import Image, ImageOps, JpegImagePlugin, features

from actors.pictures import PictureError, decode_rgb, inspect, render
from tests.cases import check_cases

WHITE = (255, 255, 255)


def encoded(picture, form="PNG", **options):
    stream = io.BytesIO()
    picture.save(stream, form, **options)
    return stream.getvalue()


def textured(width=56, height=40):
    y, x = np.mgrid[0:height, 0:width]
    values = np.stack([x * 4, y * 6, x * y], -1).astype(np.uint8)
    values[::3] = np.random.default_rng(0).integers(0, 255, values[::3].shape)
    return Image.fromarray(values)


def kind_of(data, **options):
    with pytest.raises(PictureError) as caught:
        decode_rgb(data, **options)
    assert str(caught.value)
    return caught.value.kind


def encodings():
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


def test_a_cut_file_is_whole_or_an_error_and_never_half():
    def check(data):
        whole = np.asarray(decode_rgb(data))
        kinds = set()
        for length in {*range(0, len(data), 23), *range(len(data) - 40, len(data))}:
            try:
                picture = np.asarray(decode_rgb(data[:length]))
            except PictureError as error:
                kinds.add(error.kind)
            else:
                assert np.array_equal(picture, whole), f"cut at {length} of {len(data)} gave another picture"
        assert kinds - {"decode_failed"} == {"empty", "truncated"}
        assert kind_of(data[: len(data) // 2]) == "truncated"

    check_cases(check, ENCODINGS)


def test_rgb_pixels_are_pillows():
    def check(data):
        with Image.open(io.BytesIO(data)) as plain:
            expected = plain.convert("RGB")
        picture = decode_rgb(data)
        assert picture.mode == "RGB"
        assert np.array_equal(np.asarray(picture), np.asarray(expected))

    check_cases(check, ENCODINGS)


def test_what_is_no_picture():
    assert kind_of(b"") == "empty"
    assert kind_of(b"\xef\xbb\xbf \n<!DOCTYPE html><html>") == kind_of(b"<HTML>") == "html"
    assert kind_of(b'{"error": 1}') == kind_of(b"[]") == "json"
    for data in (
        b"{not json",
        b"P6 is a road",
        b"x" * 99,
    ):
        assert kind_of(data) == "not_an_image"
    assert kind_of(encoded(textured(), "TGA")) == "not_an_image"


def test_what_is_known_and_not_decoded_is_named():
    cases = [
        (b"<?xml version='1.0'?>\n<!-- drawn -->\n<svg xmlns='http://www.w3.org/2000/svg'/>", "SVG"),
        (b"%PDF-1.4", "PDF"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "PostScript"),
        (encoded(textured(), "EPS"), "PostScript"),
        (b"\0\0\0\x18ftypmif1\0\0\0\0mif1heic\0\0\0\x08mdat", "HEIC"),
        (b"\0\0\0\x18ftypisom\0\0\2\0isomiso2", "a video (MP4)"),
        (b"\xff\x0a\0\0", "JPEG XL"),
        (b"\0\0\0\x0cJXL \r\n\x87\n", "JPEG XL"),
        (b"8BPS\0\1", "Photoshop"),
        (b"AT&TFORM\0\0\0\x10DJVM", "DjVu"),
        (encoded(textured(), "ICO"), "an icon"),
        (b"OggS\0\2", "a video or audio (Ogg)"),
        (b"\x1f\x8b\x08", "a gzip archive"),
    ]

    def check(data, name):
        with pytest.raises(PictureError, match=re.escape(f"{name}, which is not decoded")) as caught:
            decode_rgb(data)
        assert caught.value.kind == "unsupported"

    check_cases(check, cases)


@pytest.mark.skipif(not features.check("avif"), reason="Pillow was built without AVIF")
def test_a_damaged_avif_is_damaged_not_unsupported():
    assert kind_of(b"\0\0\0\x18ftypavif\0\0\0\0mif1avif" + bytes(99)) == "decode_failed"


def test_a_wrong_checksum_in_a_png_is_damage():
    data = encoded(textured())
    body = data.index(b"IDAT") + 4
    for at in (body + 8, body + 200, data.index(b"IDAT") - 6):  # pixels, and the checksum of the header
        damaged = bytearray(data)
        damaged[at] ^= 0x55
        assert kind_of(bytes(damaged)) in ("decode_failed", "truncated")


def png_with_a_bad_checksum(chunk):
    """Return a PNG with a tEXt chunk after its pixels, and a wrong checksum in `chunk`."""
    data = encoded(textured())
    text = b"tEXt" + b"Comment\0hello"
    end = data.index(b"IEND") - 4
    whole = data[:end] + struct.pack(">I", len(text) - 4) + text + struct.pack(">I", zlib.crc32(text)) + data[end:]
    assert np.array_equal(np.asarray(decode_rgb(whole)), np.asarray(decode_rgb(data)))
    at = whole.index(chunk) - 4
    checksum = at + 8 + struct.unpack_from(">I", whole, at)[0]
    return whole[:checksum] + bytes([whole[checksum] ^ 0x55]) + whole[checksum + 1 :]


def test_a_wrong_checksum_matters_only_in_a_critical_chunk():
    """PNG specification, 5.4: a chunk whose type begins with a small letter is ancillary."""
    assert np.array_equal(np.asarray(decode_rgb(png_with_a_bad_checksum(b"tEXt"))), np.asarray(textured()))
    assert kind_of(png_with_a_bad_checksum(b"IDAT")) == "decode_failed"


def tiff(values, *, order="<", sample_format=3, compression=1):
    """Return an uncompressed TIFF of one strip, with its directory at the end; Pillow writes no 64-bit samples."""
    pixels = values.astype(values.dtype.newbyteorder(order)).tobytes()
    height, width = values.shape
    tags = [
        (256, 4, width),
        (257, 4, height),
        (258, 3, values.dtype.itemsize * 8),
        (259, 3, compression),
        (262, 3, 1),
        (273, 4, 8),
        (277, 3, 1),
        (278, 4, height),
        (279, 4, len(pixels)),
        (339, 3, sample_format),
    ]
    entries = [
        struct.pack(f"{order}HHI", tag, kind, 1)
        + struct.pack(f"{order}{'HH' if kind == 3 else 'I'}", value, *[0][: 4 - kind])
        for tag, kind, value in tags
    ]
    head = (b"II" if order == "<" else b"MM") + struct.pack(f"{order}HI", 42, 8 + len(pixels))
    return head + pixels + struct.pack(f"{order}H", len(tags)) + b"".join(entries) + bytes(4)


STEPS = np.linspace(0, 1, 64 * 48).reshape(48, 64)


def test_a_whole_tiff_that_cannot_be_decoded_is_unsupported_and_a_cut_one_truncated():
    contents = {
        "64 bits (floating-point": (STEPS, {}),
        "16 bits (floating-point": (STEPS.astype(np.float16), {}),
        "64 bits (unsigned": ((STEPS * 1000).astype(np.uint64), {"sample_format": 1}),
        "compression 34712": ((STEPS * 255).astype(np.uint8), {"sample_format": 1, "compression": 34712}),  # JPEG 2000
    }

    def check(order, named):
        values, options = contents[named]
        data = tiff(values, order=order, **options)
        for read in (decode_rgb, inspect, lambda data: render(data, width=20)):
            with pytest.raises(PictureError, match=re.escape(named)) as caught:
                read(data)
            assert caught.value.kind == "unsupported"
        kinds = {kind_of(data[:length]) for length in (6, 9, len(data) // 2, len(data) - 40)}
        assert kinds == {"truncated"}
        directory = bytearray(data)
        # The strip lies behind the end.
        directory[-4 - 12 * 5 + 8 : -4 - 12 * 5 + 12] = struct.pack(f"{order}I", len(data))
        assert kind_of(bytes(directory)) == "truncated"

    check_cases(check, itertools.product("<>", contents))


def test_a_plain_tiff_with_its_directory_at_the_end_is_decoded():
    values = (STEPS * 255).astype(np.uint8)
    assert np.array_equal(np.asarray(decode_rgb(tiff(values, sample_format=1)))[..., 0], values)


def outcome(read, data):
    try:
        read(data)
    except PictureError as error:
        return error.kind
    return "ok"


def test_a_resized_form_fails_for_the_same_reason():
    def check(data):
        assert render(data, width=20).facts.width == 20
        for length in (0, len(data) // 3, len(data) // 2, len(data) - 20):
            cut = data[:length]
            assert outcome(decode_rgb, cut) == outcome(lambda cut: render(cut, width=20), cut) == outcome(inspect, cut)

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


def test_damage_in_the_middle():
    data = bytearray(ENCODINGS["png"])
    data[len(data) // 2] ^= 255
    assert kind_of(bytes(data)) == "decode_failed"


def test_bombs_are_refused_from_the_header(monkeypatch):
    data = encoded(Image.new("1", (10_000, 10_000)))  # 100 million pixels in 12 kB
    monkeypatch.setattr(Image.Image, "load", lambda self: pytest.fail("decoded"))
    monkeypatch.setattr(Image.core, "new", lambda *a: pytest.fail("allocated"))
    for bound in (None, 10, 10**12):
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", bound)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert kind_of(data) == "too_large"


def test_the_bound_is_ours_and_not_pillows(monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 10)
    data = ENCODINGS["jpeg"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert decode_rgb(data, max_pixels=56 * 40).size == (56, 40)
    assert kind_of(data, max_pixels=56 * 40 - 1) == "too_large"
    assert decode_rgb(encoded(Image.new("L", (1, 1))), max_pixels=1).size == (1, 1)
    with pytest.raises(ValueError, match="max_pixels=0"):
        decode_rgb(data, max_pixels=0)


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


def test_errors_travel_between_processes():
    error = pickle.loads(pickle.dumps(PictureError("truncated", "it ends")))
    assert (error.kind, str(error)) == ("truncated", "it ends")


def test_a_jpeg_of_very_many_scans_is_refused_before_it_is_decoded():
    data = encoded(Image.effect_noise((64, 48), 60), "JPEG", progressive=True)
    assert data.count(b"\xff\xda") > 1
    assert inspect(data).width == 64
    # The header claims a large picture, and many scans follow.
    frame = data.index(b"\xff\xc2")
    claimed = data[: frame + 5] + (9000).to_bytes(2, "big") * 2 + data[frame + 9 :]
    with pytest.raises(PictureError) as raised:
        inspect(claimed + b"\xff\xda" * 300)
    assert raised.value.kind == "too_large"


def test_the_kind_of_an_error_in_a_whole_file(monkeypatch):
    cases = [
        (MemoryError(), "too_large"),
        (Image.DecompressionBombError("large"), "too_large"),
        (Image.DecompressionBombWarning("large"), "too_large"),
        (EOFError("no more"), "truncated"),
        (OSError("Truncated file"), "truncated"),
        (ValueError("Reached EOF"), "truncated"),
        (ValueError("odd"), "decode_failed"),
    ]

    def check(error, kind):
        def load(*_):
            raise error

        monkeypatch.setattr("actors.pictures._load", load)
        assert kind_of(encoded(Image.new("RGB", (8, 8)))) == kind

    check_cases(check, cases)


def test_a_format_that_this_pillow_cannot_decode_is_not_tried(monkeypatch):
    """Its plugin then returns a text instead of whether it accepts the bytes."""
    factory, _ = Image.OPEN["WEBP"]
    monkeypatch.setitem(Image.OPEN, "WEBP", (factory, lambda start: "WEBP support not installed"))
    assert kind_of(ENCODINGS["webp"]) == "not_an_image"
