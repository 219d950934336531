"""Wikimedia's addresses, in every form seen."""

import contextlib
import csv
import gzip
import hashlib
import json
import string
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.fetching.wikimedia import (
    PICTURES,
    SERVED_WIDTHS,
    TITLES_PER_REQUEST,
    UNKNOWN,
    NoAnswerError,
    NoThumbnailError,
    WikimediaFile,
    is_wikimedia,
    parse,
    parse_answer,
    query_form,
    request_url,
    served_width,
    text_of,
    why_no_thumbnail,
    with_capital,
)
from tests.cases import check_cases

UPLOAD = "https://upload.wikimedia.org/wikipedia/commons"
THUMB = "https://thumb.wikimedia.org/wikipedia/commons/thumb"
CAFE = "Caf%C3%A9_%28a%29%2C_1.jpg"
EXAMPLE = "a/a9/Example.jpg/330px-Example.jpg"


def test_thumbnails() -> None:
    cases = [
        # originals: scheme, host, encoding, query, fragment
        (f"{UPLOAD}/a/ab/Name.jpg", "a/ab/Name.jpg/330px-Name.jpg"),
        ("http://upload.wikimedia.org/wikipedia/commons/a/ab/Name.JPG", "a/ab/Name.JPG/330px-Name.JPG"),
        ("//upload.wikimedia.org/wikipedia/commons/a/ab/Name.png", "a/ab/Name.png/330px-Name.png"),
        ("  https://UPLOAD.wikimedia.org./wikipedia/commons//a/ab/Name.gif ", "a/ab/Name.gif/330px-Name.gif"),
        (f"{UPLOAD}/a/ab/Name.jpg?utm_source=x&download#top", "a/ab/Name.jpg/330px-Name.jpg"),
        (f"{UPLOAD}/3/30/Caf%C3%A9_%28a%29%2C_1.jpg", f"3/30/{CAFE}/330px-{CAFE}"),
        (f"{UPLOAD}/3/30/Café_(a),_1.jpg", f"3/30/{CAFE}/330px-{CAFE}"),
        (f"{UPLOAD}/3/30/Cafe\u0301 (a),%201.jpg", f"3/30/{CAFE}/330px-{CAFE}"),
        (f"{UPLOAD}/3/30/Caf%25C3%25A9.jpg", "3/30/Caf%C3%A9.jpg/330px-Caf%C3%A9.jpg"),
        (f"{UPLOAD}/0/0f/100%25_wool.jpg", "0/0f/100%25_wool.jpg/330px-100%25_wool.jpg"),
        (f"{UPLOAD}/a/ab/What%3F.jpg", "a/ab/What%3F.jpg/330px-What%3F.jpg"),
        (f"{UPLOAD}/a/ab/A+B's_&_C%2B.jpg.jpg", "a/ab/A%2BB%27s_%26_C%2B.jpg.jpg/330px-A%2BB%27s_%26_C%2B.jpg.jpg"),
        (f"{UPLOAD}/a/ab/Name.jpg?20230101120000", "a/ab/Name.jpg/330px-Name.jpg"),
        *((f"{UPLOAD}/3/30/{name}rzte.jpg", "3/30/%C4rzte.jpg/330px-%C4rzte.jpg") for name in ("%C4", "%25C4")),
        # formats
        (f"{UPLOAD}/a/ab/D.svg", "a/ab/D.svg/330px-D.svg.png"),
        (f"{UPLOAD}/a/ab/W.webp", "a/ab/W.webp/330px-W.webp.png"),
        (f"{UPLOAD}/a/ab/X.xcf", "a/ab/X.xcf/330px-X.xcf.png"),
        (f"{UPLOAD}/a/ab/T.tif", "a/ab/T.tif/lossy-page1-330px-T.tif.jpg"),
        (f"{UPLOAD}/a/ab/T.TIFF", "a/ab/T.TIFF/lossy-page1-330px-T.TIFF.jpg"),
        (f"{UPLOAD}/a/ab/P.pdf", "a/ab/P.pdf/page1-330px-P.pdf.jpg"),
        (f"{UPLOAD}/a/ab/D.djvu", "a/ab/D.djvu/page1-330px-D.djvu.jpg"),
        (f"{UPLOAD}/a/ab/V.webm", "a/ab/V.webm/330px--V.webm.jpg"),
        *((f"{UPLOAD}/a/ab/N.{kind}", f"a/ab/N.{kind}/330px-N.{kind}.png") for kind in ("bmp", "stl")),
        *((f"{UPLOAD}/a/ab/N.{kind}", f"a/ab/N.{kind}/330px-N.{kind}") for kind in ("jpeg", "jpe", "apng")),
        *((f"{UPLOAD}/a/ab/N.{kind}", f"a/ab/N.{kind}/330px--N.{kind}.jpg") for kind in ("mpg", "mpeg")),
        (f"{UPLOAD}/a/ab/N.djv", "a/ab/N.djv/page1-330px-N.djv.jpg"),
        # thumbnails of every form
        (f"{UPLOAD}/thumb/a/ab/Name.jpg/300px-Name.jpg", "a/ab/Name.jpg/330px-Name.jpg"),
        (f"{THUMB}/a/ab/Name.jpg/1280px-Name.jpg?utm_campaign=imageinfo", "a/ab/Name.jpg/330px-Name.jpg"),
        (f"{UPLOAD}/thumb/a/ab/Name.jpg/qlow-300px-Name.jpg", "a/ab/Name.jpg/330px-Name.jpg"),
        (f"{UPLOAD}/thumb/a/ab/D.svg/langde-300px-D.svg.png", "a/ab/D.svg/langde-330px-D.svg.png"),
        (f"{UPLOAD}/thumb/a/ab/T.tif/lossless-page1-300px-T.tif.png", "a/ab/T.tif/lossy-page1-330px-T.tif.jpg"),
        (f"{UPLOAD}/thumb/a/ab/T.tif/lossy-page3-300px-T.tif.jpg", "a/ab/T.tif/lossy-page3-330px-T.tif.jpg"),
        (f"{UPLOAD}/thumb/a/ab/P.pdf/page12-300px-P.pdf.jpg", "a/ab/P.pdf/page12-330px-P.pdf.jpg"),
        (f"{UPLOAD}/thumb/a/ab/V.ogv/300px--V.ogv.jpg", "a/ab/V.ogv/330px--V.ogv.jpg"),
        (f"{UPLOAD}/thumb/a/ab/V.ogv/300px-seek%3D5.5-V.ogv.jpg", "a/ab/V.ogv/330px-seek%3D5.5-V.ogv.jpg"),
        (f"{UPLOAD}/thumb/a/ab/D.svg/langzh-hans-300px-D.svg.png", "a/ab/D.svg/langzh-hans-330px-D.svg.png"),
        (f"{UPLOAD}/thumb/a/ab/D.djvu/page3-300px-D.djvu.jpg", "a/ab/D.djvu/page3-330px-D.djvu.jpg"),
        (f"{UPLOAD}/thumb/a/ab/D.svg/langde-qlow-300px-D.svg.png", "a/ab/D.svg/langde-330px-D.svg.png"),
        (f"{UPLOAD}/thumb/a/ab/W.webp/langde-300px-W.webp.png", "a/ab/W.webp/330px-W.webp.png"),
        (f"{UPLOAD}/thumb/a/ab/Name.jpg", "a/ab/Name.jpg/330px-Name.jpg"),
        (f"{UPLOAD}/transcoded/a/ab/V.webm/V.webm.480p.webm", "a/ab/V.webm/330px--V.webm.jpg"),
        # pages and redirects of Commons: the hash is computed
        ("https://commons.wikimedia.org/wiki/File:Example.jpg", EXAMPLE),
        ("https://commons.m.wikimedia.org/wiki/Image:example.jpg", EXAMPLE),
        ("https://commons.wikimedia.org/wiki/Special:FilePath/Example.jpg?width=300", EXAMPLE),
        ("http://commons.wikimedia.org/wiki/Special:Redirect/file/File:Example.jpg", EXAMPLE),
        ("https://commons.wikimedia.org/w/index.php?title=File:Example.jpg&action=edit", EXAMPLE),
        ("https://commons.wikimedia.org/w/thumb.php?f=Example.jpg&w=300", EXAMPLE),
        ("https://commons.wikimedia.org/wiki/File%3AExample.jpg?uselang=de#filelinks", EXAMPLE),
        ("https://commons.wikimedia.org/wiki/Category:Cats#/media/File:Example.jpg", EXAMPLE),
        ("https://commons.wikimedia.org/wiki/Special:FilePath?file=Example.jpg", EXAMPLE),
        ("https://commons.wikimedia.org/w/index.php?title=special:filepath&file=Example.jpg&p=2", EXAMPLE),
        ("https://commons.wikimedia.org/wiki/special:filepath/Example.jpg", EXAMPLE),
        ("https://commons.wikimedia.org/wiki/file:Ex\u200eample.jpg", EXAMPLE),
        ("https://commons.wikimedia.org/wiki/Special:FilePath/P.pdf?page=3", "8/8f/P.pdf/page3-330px-P.pdf.jpg"),
        ("https://commons.wikimedia.org/wiki/Special:FilePath?file=P.pdf&page=3", "8/8f/P.pdf/page3-330px-P.pdf.jpg"),
        ("https://commons.wikimedia.org/w/index.php?title=Special:FilePath&file=P.pdf&page=3",
         "8/8f/P.pdf/page3-330px-P.pdf.jpg"),
        ("https://commons.wikimedia.org/wiki/File:P.pdf?page=3", "8/8f/P.pdf/page3-330px-P.pdf.jpg"),
        ("https://commons.wikimedia.org/w/thumb.php?f=P.pdf&w=300&p=3", "8/8f/P.pdf/page3-330px-P.pdf.jpg"),
        ("http://commons.wikimedia.org:80/wiki/File:Example.jpg", EXAMPLE),
        ("https://commons.wikimedia.org:443/wiki/File:_Example.jpg_", EXAMPLE),
        ("https://commons.wikimedia.org/wiki/File:A_%2B_B.jpg", "d/d7/A_%2B_B.jpg/330px-A_%2B_B.jpg"),
        ("https://commons.wikimedia.org/wiki/File:A___%2B_B.jpg", "d/d7/A_%2B_B.jpg/330px-A_%2B_B.jpg"),
        ("https://commons.wikimedia.org/w/thumb.php?f=Example.jpg&f=Other.jpg", EXAMPLE),
    ]  # fmt: skip

    def check(url: str, thumbnail: str) -> None:
        assert parse(url).thumbnail_url(330) == f"{THUMB}/{thumbnail}"
        assert why_no_thumbnail(url) is None
        assert is_wikimedia(url)

    check_cases(check, cases)


def test_other_wikis_and_older_versions() -> None:
    file = parse("https://upload.wikimedia.org/wikipedia/en/thumb/a/ab/Logo.png/220px-Logo.png")
    assert (file.project, file.wiki, file.host) == ("wikipedia", "en", "en.wikipedia.org")
    assert file.thumbnail_url(330).startswith("https://thumb.wikimedia.org/wikipedia/en/thumb/a/ab/Logo.png/330px-")
    assert parse("https://upload.wikimedia.org/wikisource/fr/a/ab/L.pdf").host == "fr.wikisource.org"
    for path, host in {
        "wikipedia/meta": "meta.wikimedia.org",
        **{f"wikipedia/{wiki}": f"{wiki}.wikimedia.org" for wiki in ("commons", "species", "incubator", "foundation")},
        "wikipedia/mediawiki": "www.mediawiki.org",
        "wikimedia/ca": "ca.wikimedia.org",
        "wikipedia/ca": "ca.wikipedia.org",
    }.items():
        assert parse(f"https://upload.wikimedia.org/{path}/a/ab/L.png").host == host
    older = f"{UPLOAD}/archive/a/ab/20120203040506%21Old.jpg"
    file = parse(older)
    assert (file.stamp, file.name, file.original_url()) == ("20120203040506", "Old.jpg", older)
    assert file.thumbnail_url(330) == f"{THUMB}/archive/a/ab/20120203040506%21Old.jpg/330px-Old.jpg"
    assert parse(file.thumbnail_url(330)) == file


NO_THUMBNAIL = {
    **{f"{UPLOAD}/a/ab/S.{kind}": "audio" for kind in "ogg oga opus mp3 wav flac mid midi".split()},
    f"{UPLOAD}/a/ab/Notes.txt": ".txt",
    f"{UPLOAD}/a/ab/Nothing": "without extension",
    f"{UPLOAD}/temp/a/ab/20120203040506!phpX.jpg": "temporary",
    f"{UPLOAD}/thumb/temp/a/ab/x.jpg/300px-x.jpg": "temporary",
    f"{UPLOAD}/archive/a/ab/Name.jpg": "timestamp",
    f"{UPLOAD}/a/bc/Name.jpg": "of a file",
    f"{UPLOAD}/a/ab/Name.jpg/more": "of a file",
    f"{UPLOAD}/a/ab": "of a file",
    f"{UPLOAD}/g/ga/Name.jpg": "of a file",
    f"{UPLOAD}/a/ag/Name.jpg": "of a file",
    f"{UPLOAD}/thumb/a/ab/Name.jpg/300px-Name.jpg/more": "of a file",
    f"{UPLOAD}/transcoded/a/ab/V.webm/V.webm.480p.webm/more": "of a file",
    "https://upload.wikimedia.org/wikipedia/commons": "of a file",
    "https://upload.wikimedia.org/Wikipedia/commons/a/ab/Name.jpg": "of a file",
    "https://upload.wikimedia.org/wikipedia/Commons/a/ab/Name.jpg": "of a file",
    f"{UPLOAD}/math/a/b/c/abc.png": "of a file",
    f"{UPLOAD}/a/ab/.jpg": "of a file",
    "https://upload.wikimedia.org.example/wikipedia/commons/a/ab/N.jpg": "of Wikimedia",
    "https://upload.wikimedia.org/score/a/b/abc.png": "of a file",
    "https://upload.wikimedia.org/": "of a file",
    "https://commons.wikimedia.org/wiki/Category:Cats": "page of Commons",
    **{
        f"https://commons.wikimedia.org/{page}": "page of Commons"
        for page in ("w/thumb.php?w=300", "w/index.php", "w/index.php?p=1", "wiki/Special:FilePath", "")
    },
    **{f"https://commons.wikimedia.org/wiki/File:{name}": "page of Commons" for name in ("", "_", "A/B.jpg", ".jpg")},
    "https://en.wikipedia.org/wiki/File:Example.jpg": "en.wikipedia.org",
    "https://example.org/a/ab/Name.jpg": "of Wikimedia",
    "https://notwikimedia.org/a/ab/Name.jpg": "of Wikimedia",
    "https://upload.wikimedia.org:99999/x": "not a URL",
    "https://upload.wikimedia.org:8443/wikipedia/commons/a/ab/N.jpg": "http or https",
    "ftp://upload.wikimedia.org/wikipedia/commons/a/ab/N.jpg": "http or https",
    "https://[::1/x": "not a URL",
    "": "http or https",
}


def test_what_has_no_thumbnail() -> None:
    misses = {
        url: why_no_thumbnail(url) for url, word in NO_THUMBNAIL.items() if word not in (why_no_thumbnail(url) or "")
    }
    assert misses == {}


def test_hosts_of_wikimedia() -> None:
    names = "wikimedia wikipedia wiktionary wikibooks wikinews wikiquote wikisource wikiversity wikivoyage wikidata"
    domains = [f"{name}.org" for name in (*names.split(), "mediawiki")]
    hosts = [f"{before}{domain}" for domain in domains for before in ("", "en.")]
    assert {host for host in hosts if not is_wikimedia(f"https://{host}/x")} == set()
    assert {host for host in domains if is_wikimedia(f"https://not{host}/x")} == set()


def test_only_files_with_pages_or_frames_keep_those_of_a_thumbnail() -> None:
    file = parse(f"{UPLOAD}/thumb/a/ab/Name.jpg/page3-300px-seek%3D5-Name.jpg")
    assert (file.name, file.page, file.seek) == ("Name.jpg", None, None)
    for place in ("wiki/File:P.jpg?page=3", "wiki/Special:FilePath?file=P.jpg&page=3", "w/thumb.php?f=P.jpg&p=3"):
        file = parse(f"https://commons.wikimedia.org/{place}")
        assert request_url(file, 300, 200) == file.original_url() == f"{UPLOAD}/8/82/P.jpg", place
        assert "/lossless-page1-300px-P.jpg" in request_url(file, 300, 2000, "paper"), place


def test_a_mime_type_may_only_take_away() -> None:
    for kind in ("image/jpeg", "IMAGE/PNG", "", None):
        assert why_no_thumbnail(f"{UPLOAD}/a/ab/N.jpg", kind) is None
    assert why_no_thumbnail(f"{UPLOAD}/a/ab/N.pdf", "application/pdf") is None
    assert why_no_thumbnail(f"{UPLOAD}/a/ab/N.jpg", "audio/ogg") == "audio/ogg is not a picture"
    assert why_no_thumbnail(f"{UPLOAD}/a/ab/N.ogg", "image/jpeg") == "audio"


def test_long_names() -> None:
    edge = "ä" * 78 + ".JPG"  # 160 bytes
    assert parse(f"{UPLOAD}/a/ab/{edge}").thumbnail_url(330).endswith(f"/330px-{quote(edge)}")
    over = "x" + edge
    assert parse(f"{UPLOAD}/a/ab/{over}").thumbnail_url(330).endswith(f"/{quote(over)}/330px-thumbnail.jpg")
    for name, thumb in (("svg", "330px-thumbnail.svg.png"), ("tif", "lossy-page1-330px-thumbnail.tif.jpg")):
        parsed_answer = parse(f"{UPLOAD}/a/ab/{'y' * 170}.{name}").thumbnail_url(330)
        assert parsed_answer.endswith(f"/{thumb}")
        assert parse(parsed_answer).name == f"{'y' * 170}.{name}"


def test_widths() -> None:
    assert [served_width(width) for width in (1, 20, 21, 300, 330, 1024, 3840)] == [20, 20, 40, 330, 330, 1280, 3840]
    after = [served_width(width) for width in (41, 61, 121, 251, 331, 501, 961, 1281, 1921)]
    assert after == [60, 120, 250, 330, 500, 960, 1280, 1920, 3840]
    for width in (0, 3841):
        with pytest.raises(ValueError, match="1 to 3840"):
            served_width(width)
    with pytest.raises(ValueError, match="width=300"):
        parse(f"{UPLOAD}/a/ab/N.jpg").thumbnail_url(300)


def test_what_is_asked_for() -> None:
    cases = [
        ("N.jpg", 300, None, f"{THUMB}/a/ab/N.jpg/330px-N.jpg"),
        ("N.jpg", 1024, 4000, f"{THUMB}/a/ab/N.jpg/1280px-N.jpg"),
        ("N.jpg", 300, 331, f"{THUMB}/a/ab/N.jpg/330px-N.jpg"),
        ("N.jpg", 300, 330, f"{UPLOAD}/a/ab/N.jpg"),
        ("N.tif", 300, 200, f"{UPLOAD}/a/ab/N.tif"),
        ("N.svg", 300, 20, f"{THUMB}/a/ab/N.svg/330px-N.svg.png"),
        ("N.stl", 300, 20, f"{THUMB}/a/ab/N.stl/330px-N.stl.png"),
        ("N.pdf", 300, 290, f"{THUMB}/a/ab/N.pdf/page1-250px-N.pdf.jpg"),
        ("N.pdf", 300, 250, f"{THUMB}/a/ab/N.pdf/page1-250px-N.pdf.jpg"),
        ("N.pdf", 300, 10, f"{THUMB}/a/ab/N.pdf/page1-20px-N.pdf.jpg"),
        ("N.jpg", None, None, f"{UPLOAD}/a/ab/N.jpg"),
    ]

    def check(name: str, width: int | None, original_width: int | None, asked: str) -> None:
        assert request_url(parse(f"{UPLOAD}/a/ab/{name}"), width, original_width) == asked

    check_cases(check, cases)
    pages = [parse(f"{UPLOAD}/thumb/a/ab/N.tif/lossy-page{page}-300px-N.tif.jpg") for page in (1, 3)]
    assert [request_url(file, 300, 200) for file in pages] == [
        f"{UPLOAD}/a/ab/N.tif", f"{THUMB}/a/ab/N.tif/lossy-page3-120px-N.tif.jpg"
    ]  # fmt: skip


def test_the_form_of_the_papers_urls() -> None:
    cases = [
        (  # as printed in Century's figures 5 and 10
            "9/97/Dolores_hidalgo.jpg",
            "9/97/Dolores_hidalgo.jpg/lossless-page1-300px-Dolores_hidalgo.jpg.jpg",
        ),
        (
            "d/d8/Ongan%C3%ADa-Levingston-Lanusse_%28Revoluci%C3%B3n_Argentina%29.jpg",
            "d/d8/Ongan%C3%ADa-Levingston-Lanusse_%28Revoluci%C3%B3n_Argentina%29.jpg/"
            "lossless-page1-300px-Ongan%C3%ADa-Levingston-Lanusse_%28Revoluci%C3%B3n_Argentina%29.jpg.jpg",
        ),
        ("a/ab/N.png", "a/ab/N.png/lossless-page1-300px-N.png.jpg"),
        ("a/ab/N.svg", "a/ab/N.svg/lossless-page1-300px-N.svg.jpg"),
        ("a/ab/N.tif", "a/ab/N.tif/lossless-page1-300px-N.tif.jpg"),
    ]

    def check(original: str, asked: str) -> None:
        file = parse(f"{UPLOAD}/{original}")
        assert request_url(file, 300, 2000, "paper") == f"{UPLOAD}/thumb/{asked}"
        assert parse(f"{UPLOAD}/thumb/{asked}").name == file.name

    check_cases(check, cases)
    page = parse(f"{UPLOAD}/thumb/a/ab/N.tif/lossy-page3-300px-N.tif.jpg")
    assert request_url(page, 300, 2000, "paper") == f"{UPLOAD}/thumb/a/ab/N.tif/lossless-page3-300px-N.tif.jpg"
    narrow, pdf = parse(f"{UPLOAD}/a/ab/N.png"), parse(f"{UPLOAD}/a/ab/N.pdf")
    assert request_url(narrow, 300, 300, "paper") == f"{UPLOAD}/a/ab/N.png"
    assert request_url(pdf, 300, 301, "paper") == f"{UPLOAD}/thumb/a/ab/N.pdf/page1-300px-N.pdf.jpg"


def test_an_svg_without_a_width_is_refused() -> None:
    with pytest.raises(NoThumbnailError):
        request_url(parse(f"{UPLOAD}/a/ab/N.svg"), None, None)


def test_a_page_number_with_thousands_of_digits_is_unknown() -> None:
    many = "9" * 5000
    for url in (
        f"{UPLOAD}/thumb/a/ab/N.tif/lossy-page{many}-330px-N.tif.jpg",
        f"https://commons.wikimedia.org/w/thumb.php?f=N.tif&p={many}",
        f"https://commons.wikimedia.org/wiki/File:N.tif?page={many}",
    ):
        assert parse(url).page is None


NAMES = st.text(
    st.characters(exclude_categories=("Cs", "Cc", "Zl", "Zp", "Zs", "Cf", "Cn"), exclude_characters='#<>[]|{}/\\:?%_"'),
    min_size=1,
    max_size=90,
)
EXTENSIONS = st.sampled_from([*PICTURES, "svg", "pdf", "djvu", "webm", "JPG", "Png"])


@given(NAMES, EXTENSIONS, st.sampled_from(["commons", "en", "zh-min-nan"]), st.sampled_from(SERVED_WIDTHS))
def test_round_trips(stem: str, extension: str, wiki: str, width: int) -> None:
    name = parse(f"{UPLOAD}/0/00/{quote(f'{stem}.{extension}')}").name  # as MediaWiki would have it
    digest = hashlib.md5(name.encode()).hexdigest()
    file = WikimediaFile("wikipedia", wiki, f"{digest[0]}/{digest[:2]}", name)
    original = file.original_url()
    assert set(original) <= set(string.ascii_letters + string.digits + ":/.-_~%")
    assert parse(original) == file
    thumbnail = parse(file.thumbnail_url(width))
    assert (thumbnail.name, thumbnail.hash, thumbnail.wiki) == (file.name, file.hash, file.wiki)
    assert thumbnail.thumbnail_url(width) == file.thumbnail_url(width)
    assert parse(unquote(original)) == file
    assert parse(original.replace("https:", "")) == file


@settings(max_examples=50)
@given(st.text(max_size=60) | st.builds(lambda rest: UPLOAD + "/" + rest, st.text(max_size=40)))
def test_nothing_makes_it_fail(text: str) -> None:
    assert is_wikimedia(text) or why_no_thumbnail(text)


def test_real_addresses(data: Path) -> None:
    urls = set()
    for path in (data / "wit").glob("*.tsv.gz"):
        with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
            urls |= {(row["image_url"], row["mime_type"]) for row in csv.DictReader(file, delimiter="\t")}
    assert len(urls) > 20_000
    for url, mime_type in urls:
        assert why_no_thumbnail(url, mime_type) is None, url
        assert unquote(parse(url).original_url()) == unquote(url).replace("http:", "https:")


def test_the_first_letter_gets_the_capital_that_wikimedia_gives_it() -> None:
    kept = ["", "A", "1", "ßtest.jpg", "ŉ", "ǰ", "ﬁ", "თბ", "ჿ", "ǅ", "ⅰ", "ⓐ", "ᾲ", "東", "\udce9"]
    expected = {name: name for name in kept} | {"alice": "Alice", "århus": "Århus", "ж": "Ж", "ı": "I"}
    expected |= {"ǆ": "Ǆ", "ᾀ": "ᾈ"}
    assert {name: with_capital(name) for name in expected} == expected
    for page, place in (("\u10d7\u10d1\u10d8\u10da\u10d8\u10e1\u10d8.jpg", "8/8a"), ("\u00dftest.jpg", "4/43")):
        file = parse(f"https://commons.wikimedia.org/wiki/File:{page}")
        assert (file.name, file.hash) == (page, place)


FILES = [parse(f"https://upload.wikimedia.org/wikipedia/commons/a/ab/{name}") for name in ("A_b.jpg", "Ü.png")]


def page(title: str, **fields: str) -> dict[str, object]:
    return {"title": title, "imageinfo": [{"extmetadata": {name: {"value": value} for name, value in fields.items()}}]}


def test_the_form_names_the_titles() -> None:
    assert dict(query_form(FILES)) == {
        "action": "query",
        "format": "json",
        "formatversion": "2",
        "prop": "imageinfo",
        "iiprop": "extmetadata",
        "iiextmetadatafilter": "Artist|Attribution|Credit|LicenseShortName|UsageTerms",
        "redirects": "1",
        "maxlag": "5",
        "titles": "File:A b.jpg|File:Ü.png",
    }
    assert TITLES_PER_REQUEST == 50


def test_answers_in_the_order_of_the_files() -> None:
    pages = [
        page("File:Ü.png", Credit="<i>Own</i> work", UsageTerms="Public domain"),
        page("File:A b.jpg", Artist="Ada"),
    ]
    assert parse_answer(FILES, json.dumps({"query": {"pages": pages}}).encode()) == [
        ("Ada", UNKNOWN),
        ("Own work", "Public domain"),
    ]


def test_what_is_missing_is_unknown_and_what_moved_is_found() -> None:
    moved = {
        "normalized": [{"from": "File:A b.jpg", "to": "File:B"}],
        "redirects": [{"from": "File:B", "to": "File:C"}],
    }
    query = {
        **moved,
        "pages": [page("File:C", Artist="Ada", LicenseShortName="CC0"), {"title": "File:Ü.png", "missing": True}],
    }
    assert parse_answer(FILES, json.dumps({"query": query}).encode()) == [("Ada", "CC0"), (UNKNOWN, UNKNOWN)]
    number: Any = 4
    query = {"pages": [page("File:A b.jpg", UsageTerms=number), page("File:Ü.png")]}
    assert parse_answer(FILES, json.dumps({"query": query}).encode()) == [(UNKNOWN, "4"), (UNKNOWN, UNKNOWN)]
    circle = {"redirects": [{"from": "File:A b.jpg", "to": "File:X"}, {"from": "File:X", "to": "File:A b.jpg"}]}
    assert parse_answer(FILES, json.dumps({"query": circle}).encode())[0] == (UNKNOWN, UNKNOWN)


def test_the_author_and_the_short_name_of_the_licence_come_first() -> None:
    names = {
        "Credit": "c",
        "Attribution": "b",
        "Artist": "a",
        "UsageTerms": "Creative Commons",
        "LicenseShortName": "CC",
    }
    credits = []
    while names:
        credits.append(
            parse_answer(FILES[:1], json.dumps({"query": {"pages": [page("File:A b.jpg", **names)]}}).encode())
        )
        names.popitem()
    both, terms_only, *by_author = (credit for (credit,) in credits)
    assert both == ("a", "CC")
    assert terms_only == ("a", "Creative Commons")
    assert by_author == [("a", UNKNOWN), ("b", UNKNOWN), ("c", UNKNOWN)]


def test_no_answer() -> None:
    cases = [b"", b"<html>", b"[]", b'{"error": {"code": "maxlag"}}', b'{"query": {"pages": [1]}}']

    def check(body: bytes) -> None:
        with pytest.raises(NoAnswerError):
            parse_answer(FILES, body)

    check_cases(check, cases)


def test_text_of() -> None:
    assert text_of("<p>A &amp; B<br>C</p><script>x()</script><style>p{}</style>  d") == "A & B C d"
    assert text_of("A<div>B<li>C<td>D<tr>E<p>F<br>G<b>H</b></p>I") == "A B C D E F GHI"
    assert len(text_of("x" * 9999)) == 500
    assert text_of("</style>A<b>B</b>C<li>D") == "ABC D"
    assert text_of("<script>x<style>y</style>z</script>A") == "A"
    assert text_of("a < b <") == "a < b <"


def test_an_answer_of_any_shape_is_credits_or_none() -> None:
    def check(body: bytes) -> None:
        with contextlib.suppress(NoAnswerError):
            credits = parse_answer(FILES, body)
            assert len(credits) == 2
            assert all(isinstance(text, str) and text.encode() for credit in credits for text in credit)

    values: list[Any] = [None, 5, "x", [], {}, [None], [5], [{}], {"x": 1}, True, 10**30]
    bodies = [json.dumps(value) for value in values]
    bodies += [json.dumps({"query": value}) for value in values]
    for key in ("pages", "normalized", "redirects"):
        bodies += [json.dumps({"query": {key: value}}) for value in values]
    for value in values:
        bodies += [json.dumps({"query": {"redirects": [{"from": "File:A b.jpg", "to": value}]}})]
        for fields in (value, {"Artist": value}, {"Artist": {"value": value}}):
            title = {"title": "File:A b.jpg", "imageinfo": [{"extmetadata": fields}]}
            bodies += [json.dumps({"query": {"pages": [title]}})]
        bodies += [json.dumps({"query": {"pages": [{"title": "File:A b.jpg", "imageinfo": value}]}})]
    for html in (
        "<![<![" * 3,
        "<!",
        "<?",
        "&#" + "9" * 5000 + ";",
        "<" * 50_000,
        "<a b='" * 999,
        "\ud83d",
        "<![CDATA[",
    ):
        bodies += [json.dumps({"query": {"pages": [page("File:A b.jpg", Artist=html)]}})]
    bodies += ["[" * 200_000, '{"query":' * 200_000, "", "\ufeff"]
    check_cases(check, [body.encode() for body in bodies])


def test_failures_of_the_parser_count_as_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    body = json.dumps({"query": {"pages": [page("File:A b.jpg", Artist="Ann")]}}).encode()

    def check(error: Exception) -> None:
        def fail(html: str) -> str:
            raise error

        monkeypatch.setattr("actors.fetching.wikimedia.text_of", fail)
        with pytest.raises(NoAnswerError):
            parse_answer(FILES, body)

    check_cases(
        check, [(kind("x"),) for kind in (AssertionError, RuntimeError, RecursionError, OverflowError, OSError)]
    )


def test_half_a_character_in_a_name_is_replaced() -> None:
    body = json.dumps({"query": {"pages": [page("File:A b.jpg", Artist="Ann \ud83d")]}}).encode()
    assert parse_answer(FILES, body)[0] == ("Ann \ufffd", UNKNOWN)
