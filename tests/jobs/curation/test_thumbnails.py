"""Which URLs Wikimedia can be asked for at another width."""

import csv
import gzip
from pathlib import Path

import pytest

from jobs.curation.thumbnails import has_thumbnail

HOST = "https://upload.wikimedia.org"


@pytest.mark.parametrize(
    "path",
    [
        "/wikipedia/commons/d/de/stamp_21186.png",
        "/wikipedia/en/0/0a/A_b%2C_c_%281932%29.JPG",
        "/wikipedia/commons/thumb/9/97/Dolores.jpg/300px-Dolores.jpg",
        "/wikipedia/zh-min-nan/a/ab/x.svg",
        "/wiktionary/fr/a/ab/x.webp",
        "/wikipedia/commons/a/ab/Book.djvu",
        "/wikipedia/commons/a/ab/Leaflet.pdf",
        "/wikipedia/commons/a/ab/x.y.tiff",
        "/wikipedia/commons/a/ab/%D0%9C%D0%BE.png",
        "/wikipedia/commons/a/ab/x.jpg?20200101",
    ],
)
def test_a_still_picture_has_one(path: str) -> None:
    assert has_thumbnail(HOST + path)


@pytest.mark.parametrize(
    "url",
    [
        f"{HOST}/wikipedia/commons/a/ab/Speech.ogg",
        f"{HOST}/wikipedia/commons/a/ab/Film.webm",
        f"{HOST}/wikipedia/commons/a/ab/Model.stl",
        f"{HOST}/wikipedia/commons/a/ab/no_extension",
        f"{HOST}/wikipedia/commons/a/ab/.jpg",
        f"{HOST}/wikipedia/commons/a/bb/x.jpg",
        f"{HOST}/wikipedia/commons/x.jpg",
        f"{HOST}/wikipedia/commons/archive/a/ab/20050101!x.jpg",
        f"{HOST}/math/a/b/c/abc.png",
        f"{HOST}/wikipedia/commons/a/ab/",
        f"{HOST}",
    ],
)
def test_anything_else_of_theirs_has_none(url: str) -> None:
    assert has_thumbnail(url) is False


@pytest.mark.parametrize(
    "url",
    [
        "https://upload.wikimedia.org.example/wikipedia/commons/a/ab/x.jpg",
        "https://example.org/wikipedia/commons/a/ab/x.jpg",
        "https://[half/wikipedia/commons/a/ab/x.jpg",
        "upload.wikimedia.org/wikipedia/commons/a/ab/x.jpg",
        "x.jpg",
        "",
    ],
)
def test_of_others_nothing_is_said(url: str) -> None:
    assert has_thumbnail(url) is None


def test_a_mime_type_may_only_take_away() -> None:
    url = f"{HOST}/wikipedia/commons/a/ab/x.jpg"
    assert has_thumbnail(url, "image/jpeg")
    assert has_thumbnail(url, "")
    assert not has_thumbnail(url, "audio/ogg")
    assert has_thumbnail(url.replace("jpg", "pdf"), "application/pdf")
    assert not has_thumbnail(url.replace("jpg", "ogg"), "image/jpeg")


def test_the_host_is_known_whatever_the_scheme() -> None:
    assert has_thumbnail("http://UPLOAD.wikimedia.org/wikipedia/commons/a/ab/x.jpg")


def test_all_addresses_of_the_real_files_have_one(data: Path) -> None:
    with gzip.open(data / "wit" / "wit_v1.val.all-00000-of-00001.tsv.gz", "rt", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    assert len(rows) == 3190
    assert all(has_thumbnail(row["image_url"], row["mime_type"]) for row in rows)
