"""A small invented corpus in WIT's format, for the demo and the tests.

It contains what makes WIT difficult to read: quoted fields with tabs, newlines and quotes, fifteen languages, search
terms in titles of other languages, pages with several pictures, a picture on several pages, plain-http addresses,
pictures that cannot be decoded, and missing pictures. Addresses end in `.example`, which no resolver answers.
"""

import csv
import gzip
import io
import random
import urllib.parse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from jobs.errors import check_least
from jobs.tables import WIT_COLUMNS
from jobs.testbed import synthetic_pictures

ENGLISH_SHARE = 0.5  # 14.6 % in WIT; a small demo needs more for matches
TRAIN_FILES = 2
VAL_SHARE = 0.1
MIN_PICTURES = 8
ROWS_PER_PICTURE = 5  # enough for the planned rows below and for rows unrelated to history
MIME = {"jpg": "image/jpeg", "JPG": "image/jpeg", "jpeg": "image/jpeg", "png": "image/png", "svg": "image/svg+xml"}

CAPTIONS = ("caption_reference_description", "caption_attribution_description", "caption_alt_text_description")
TEXTS = ("context_page_description", "context_section_description")

Row = dict[str, str]


class Subject(NamedTuple):
    """The subject of a planned row: title and text of its page, and its picture as a file with this extension."""

    title: str
    text: str
    extension: str
    picture: bytes


@dataclass(frozen=True, kw_only=True)
class CorpusFacts:
    """The facts about a written corpus, and the numbers that mining and curation must report.

    Attributes:
        files: number of rows of each TSV file, without the header.
        rows: rows of all files.
        english: rows whose language is `en`.
        matched: English rows whose lower-cased title contains a lower-cased term.
        main_image: matched rows that are their page's main image.
        single_image_pages: rows left once pages (page_url) with more than one distinct image_url are dropped.
        https: rows left whose image_url starts with `https://`.
        unique_images: rows left if each image_url keeps only the row with the smallest (page_title, page_url).
        surviving: the image_urls of these rows, sorted.
        planned: the image_urls of the planned rows, in the order of the subjects.
        pictures: number of files in `pictures/` that can be decoded.
        broken: names of files in `pictures/` that cannot be decoded.
        missing: names of files in rows that are not in `pictures/`.
    """

    files: dict[str, int]
    rows: int
    english: int
    matched: int
    main_image: int
    single_image_pages: int
    https: int
    unique_images: int
    surviving: tuple[str, ...]
    planned: tuple[str, ...]
    pictures: int
    broken: tuple[str, ...]
    missing: tuple[str, ...]


def write_corpus(
    folder: Path,
    *,
    rows: int = 6000,
    seed: int = 0,
    pictures: int = 120,
    subjects: Sequence[Subject] = (),
    terms: Sequence[str] = (),
) -> CorpusFacts:
    """Write the corpus into `folder` (created if absent): TSV.gz files, `terms.csv` and `pictures/`.

    `pictures` rows survive curation, each with a different image_url, whose last path segment is the name of its file
    in `pictures/`; two of these files are broken and two are missing. Equal arguments give equal bytes for one version
    of Python, zlib and Pillow. The facts are computed by a simple loop over the written files.

    Args:
        subjects: subjects of the rows that survive; by default invented events with posters, maps and the like.
        terms: search terms besides the invented events; the titles of `subjects` must contain them.

    Raises:
        InputError: fewer than 8 pictures, or fewer than 5 rows per picture.
    """
    check_least("pictures", pictures, MIN_PICTURES)
    check_least("rows", rows, ROWS_PER_PICTURE * pictures)
    folder.mkdir(parents=True, exist_ok=True)
    rng = random.Random(f"corpus {seed}")
    drawn = [(subject.extension, subject.picture) for subject in subjects]
    drawn = drawn or [synthetic_pictures.draw(number, seed=seed) for number in range(pictures)]
    planned = list(_historical_rows(rng, [extension for extension, _ in drawn], subjects))
    everything = planned + list(_filler_rows(rng, rows - len(planned)))
    rng.shuffle(everything)
    files = _write_files(folder, everything)
    _write_terms(folder / "terms.csv", terms)
    steps = _expected(folder, list(files))
    broken, missing = _write_pictures(
        folder / "pictures", [data for _, data in drawn], [r["image_url"] for r in planned]
    )
    return CorpusFacts(
        files=files,
        rows=rows,
        **steps,
        planned=tuple(row["image_url"] for row in planned[: len(drawn)]),
        pictures=pictures - len(broken) - len(missing),
        broken=broken,
        missing=missing,
    )


def _historical_rows(rng: random.Random, extensions: list[str], subjects: Sequence[Subject]) -> Iterator[Row]:
    """Yield one row for each picture, in order, then rows that each step of curation must drop."""
    titles = _titles(rng)
    kept = []
    for number, extension in enumerate(extensions):
        image = _image_url(rng, f"Invented_history_{number:03d}", extension)
        title = subjects[number].title if subjects else next(titles)
        row = _row(rng, "en", title, image=image)
        if subjects:
            row |= dict.fromkeys(CAPTIONS, "")
            row |= dict.fromkeys(TEXTS, subjects[number].text)
        kept.append(row)
        yield row
    share = len(kept) // 6
    for row in rng.sample(kept, share):
        # sorts after the row with the same picture: curation keeps the first title
        yield _row(rng, "en", f"Žarrow and the {next(titles)}", image=row["image_url"])
    for row in rng.sample(kept, share):
        # the same picture again on the same page: still one distinct picture
        yield {**row, "section_title": "Legacy", "caption_alt_text_description": _text(rng, "en", 8)}
    for row in rng.sample(kept, share * 2):
        yield {**row, "image_url": _image_url(rng, "Side_view", "jpg"), "is_main_image": "false"}
    for _ in range(share):
        title = next(titles)
        for _ in range(rng.randint(2, 3)):
            yield _row(rng, "en", title, image=_image_url(rng, "One_of_several", "png"))
    for _ in range(share):
        insecure = _image_url(rng, "Plain_http", "jpg").replace("https://", "http://")
        yield _row(rng, "en", next(titles), image=insecure)
    others = [language for language in WORDS if language != "en"]
    for _ in range(share * 2):
        yield _row(rng, rng.choice(others), next(titles))


def _filler_rows(rng: random.Random, count: int) -> Iterator[Row]:
    others = [language for language in WORDS if language != "en"]
    left = count
    while left:
        language = "en" if rng.random() < ENGLISH_SHARE else rng.choice(others)
        title = _text(rng, language, rng.randint(1, 3)).rstrip(".,。").capitalize()
        if language == "en" and rng.random() < 0.3:
            title = rng.choice(("History of {}", "{} railway station", "List of mills in {}")).format(
                rng.choice(PLACES)
            )
        for number in range(min(left, rng.choice((1, 1, 1, 2, 4)))):
            row = _row(rng, language, title, main=number == 0)
            if rng.random() < 0.05:
                row["image_url"] = row["image_url"].replace("https://", "http://")
            yield row
            left -= 1


def _titles(rng: random.Random) -> Iterator[str]:
    """Yield distinct titles that contain a search term; every eleventh is awkward to parse."""
    seen = set()
    number = 0
    while True:
        event, place = EVENTS[number % len(EVENTS)], rng.choice(PLACES)
        setting = rng.choice(AWKWARD_SETTINGS if number % 11 == 7 else SETTINGS)
        number += 1
        title = setting.format(event=event, place=place, EVENT=event.upper(), PLACE=place.upper())
        if title in seen:
            title = f"{title} ({rng.choice(PLACES)} {number})"
        seen.add(title)
        yield title


def _row(rng: random.Random, language: str, title: str, *, image: str = "", main: bool = True) -> Row:
    image = image or _image_url(rng, "View", rng.choice(("jpg", "png", "svg", "JPG")))
    section = "" if rng.random() < 0.4 else _text(rng, language, 2).rstrip(".,。")
    page = urllib.parse.quote(" ".join(title.split()).replace(" ", "_"), safe="_(),'-")
    body = _text(rng, language, rng.randint(20, 60), awkward=True)
    return {
        "language": language,
        "page_url": f"https://{language}.wikipedia.example/wiki/{page}",
        "image_url": image,
        "page_title": title,
        "section_title": section,
        "hierarchical_section_title": f"{title} / {section}" if section else title,
        "caption_reference_description": _text(rng, language, 9, awkward=True) if rng.random() < 0.5 else "",
        "caption_attribution_description": f"English: {_text(rng, 'en', 8)}" if rng.random() < 0.9 else "",
        "caption_alt_text_description": _text(rng, language, 5) if rng.random() < 0.2 else "",
        "mime_type": MIME[image.rsplit(".", 1)[1]],
        "original_height": str(rng.randint(200, 4000)),
        "original_width": str(rng.randint(200, 4000)),
        "is_main_image": "true" if main else "false",
        "attribution_passes_lang_id": "true" if rng.random() < 0.95 else "false",
        "page_changed_recently": "true" if rng.random() < 0.9 else "false",
        "context_page_description": body,
        "context_section_description": body if not section else _text(rng, language, 15, awkward=True),
    }


def _image_url(rng: random.Random, stem: str, extension: str) -> str:
    place = rng.choice([name for name in PLACES if name.isascii()])
    shelf = f"{rng.randrange(256):02x}"
    # the number makes pictures of the same place distinct
    name = f"{stem}_{place}_{rng.randrange(10**6):06d}.{extension}"
    return f"https://upload.wikimedia.example/wikipedia/commons/{shelf[0]}/{shelf}/{name}"


def _text(rng: random.Random, language: str, words: int, *, awkward: bool = False) -> str:
    """Return a sentence of `words` words; if `awkward`, some contain a quote, a tab or a newline."""
    picked = rng.choices(WORDS[language], k=words)
    if awkward and rng.random() < 0.25:
        at = rng.randrange(words)
        picked[at] = rng.choice(('"{}"', "{}\n\n", "{}\t", 'say "{}', "{},\n\ten\t")).format(picked[at])
    return ("" if language in UNSPACED else " ").join(picked) + ("。" if language in UNSPACED else ".")


def _write_files(folder: Path, rows: list[Row]) -> dict[str, int]:
    in_val = round(len(rows) * VAL_SHARE)
    shards = {"wit_v1.val.all-00000-of-00001.tsv.gz": rows[:in_val]}
    for shard in range(TRAIN_FILES):
        shards[f"wit_v1.train.all-{shard:05d}-of-{TRAIN_FILES:05d}.tsv.gz"] = rows[in_val + shard :: TRAIN_FILES]
    for name, part in shards.items():
        text = io.StringIO()
        writer = csv.DictWriter(text, WIT_COLUMNS, delimiter="\t", quoting=csv.QUOTE_MINIMAL, lineterminator="\n")
        writer.writeheader()
        writer.writerows(part)
        # gzip.compress writes no file name; without mtime it would write the time of day
        (folder / name).write_bytes(gzip.compress(text.getvalue().encode(), 6, mtime=0))
    return {name: len(shards[name]) for name in sorted(shards)}


def _write_terms(path: Path, more: Sequence[str]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["terms"])
        # lists written by people contain duplicates: here one in capitals and one with surrounding spaces
        writer.writerows([term] for term in (*EVENTS, EVENTS[0].upper(), f" {EVENTS[1]} ", *more))


def _write_pictures(
    folder: Path, encoded: list[bytes], image_urls: list[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Write all but two pictures, two of them damaged; return the names of the broken and the missing ones."""
    folder.mkdir(exist_ok=True)
    names = [url.rsplit("/", 1)[1] for url in image_urls[: len(encoded)]]
    missing, truncated, corrupt = names[2:4], names[5], names[6]
    for name, data in zip(names, encoded, strict=True):
        if name == truncated:
            (folder / name).write_bytes(data[: len(data) // 3])
        elif name == corrupt:
            (folder / name).write_bytes(b"<html><body>Not a picture</body></html>")
        elif name not in missing:
            (folder / name).write_bytes(data)
    return (truncated, corrupt), tuple(missing)


def _expected(folder: Path, files: list[str]) -> dict:
    """Return the rows after each step, computed by simple code as the reference for mining and curation."""
    with (folder / "terms.csv").open(encoding="utf-8", newline="") as file:
        terms = {row["terms"].strip().lower() for row in csv.DictReader(file)}
    english, matched = 0, []
    for name in files:
        with gzip.open(folder / name, "rt", encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file, delimiter="\t"):
                if row["language"] != "en":
                    continue
                english += 1
                title = row["page_title"].lower()
                if any(term in title for term in terms):
                    matched.append(row)
    main = [row for row in matched if row["is_main_image"] == "true"]
    page_images: dict[str, set[str]] = {}
    for row in main:
        page_images.setdefault(row["page_url"], set()).add(row["image_url"])
    single = [row for row in main if len(page_images[row["page_url"]]) == 1]
    https = [row for row in single if row["image_url"].startswith("https://")]
    surviving = tuple(sorted({row["image_url"] for row in https}))
    return {
        "english": english,
        "matched": len(matched),
        "main_image": len(main),
        "single_image_pages": len(single),
        "https": len(https),
        "unique_images": len(surviving),
        "surviving": surviving,
    }


# words for the sentences and titles of filler rows, by language
WORDS = {
    "en": "river market garden bridge winter lantern village school orchard mill boat song weaver mountain clock bread "
    "letter island road summer".split(),
    "de": "Fluss Markt Garten Brücke Winter Laterne Dorf Schule Mühle Boot Lied Straße Berg Uhr Brot Brief Insel "
    "Sommer".split(),
    "fr": "rivière marché jardin pont hiver lanterne village école moulin bateau chanson été montagne horloge pain "
    "lettre île forêt".split(),
    "es": "río mercado jardín puente invierno farol pueblo escuela molino barco canción montaña reloj pan carta isla "
    "camino otoño".split(),
    "tr": "nehir çarşı bahçe köprü kış fener köy okul değirmen tekne şarkı dağ saat ekmek mektup ada yol".split(),
    "sw": "mto soko bustani daraja taa kijiji shule kinu mashua wimbo mlima saa mkate barua kisiwa njia".split(),
    "ru": "река рынок сад мост зима фонарь деревня школа мельница лодка песня гора часы хлеб письмо остров".split(),
    "uk": "річка ринок сад міст зима ліхтар село школа млин човен пісня гора годинник хліб лист острів".split(),
    "el": "ποτάμι αγορά κήπος γέφυρα χειμώνας φανάρι χωριό σχολείο μύλος βάρκα τραγούδι βουνό ρολόι ψωμί νησί".split(),
    "ar": "نهر سوق حديقة جسر شتاء فانوس قرية مدرسة طاحونة قارب أغنية جبل ساعة خبز رسالة جزيرة".split(),
    "he": "נהר שוק גינה גשר חורף פנס כפר מטחנה סירה שיר הר שעון לחם מכתב אי".split(),
    "hi": "नदी बाज़ार बगीचा पुल सर्दी दीपक गाँव विद्यालय चक्की नाव गीत पहाड़ घड़ी रोटी पत्र द्वीप".split(),
    "zh": "河流 市场 花园 桥 冬天 灯笼 村庄 学校 磨坊 小船 歌曲 山 钟 面包 信 岛".split(),
    "ja": "川 市場 庭 橋 冬 提灯 村 学校 水車 小舟 歌 山 時計 パン 手紙 島".split(),
    "ko": "강 시장 정원 다리 겨울 등불 마을 학교 방앗간 배 노래 산 시계 빵 편지 섬".split(),
}
UNSPACED = ("zh", "ja")

# Invented towns, one of them with letters whose lower case is not ASCII's.
PLACES = (
    "Marrowby Ilvane Ostrevald Lindmoor Quellan Tarrowick Brenna Sandhaven Évriel Korrin Dunmarsh Vesperley Åsholt "
    "Nerith Calderwyn Puerto-Salvo Ölendorf Thessaly-on-Wold Zimbrel Rookhaven"
).split()
EVENTS = (
    "Harbour strike of 1911", "Flood of 1927", "Tram opening of 1898", "Lantern march of 1936", "Great frost of 1709",
    "Weavers' petition of 1844", "Lighthouse jubilee", "Canal inauguration", "Orchard accord", "Bakers' strike",
    "Railway centenary", "Miners' festival of 1952", "Observatory fire of 1873", "Bridge collapse of 1881",
    "Bread riots of 1795", "Women's suffrage rally", "Schoolteachers' walkout", "Ferry disaster of 1903",
    "Island referendum of 1967", "Fête de la moisson", "Émeute des tisserands", "Old Town earthquake of 1755",
    "Copper treaty", "Peace of the Two Rivers", "Coronation regatta", "World Kite Exhibition", "Northern Salt Route",
    "Dockworkers' union", "First Balloon Crossing", "Siege of the Grey Tower", "Market Hall occupation",
    "Printers' lockout of 1926", "Liberation parade of 1945", "Independence Day procession", "Drought of 1934",
    "Long Night of the Comet", "Fishermen's blockade", "Assembly of the Seven Valleys", "Cholera quarantine of 1832",
    "Students' spring", "Locust summer of 1915", "Postal reform of 1840", "Telegraph jubilee", "Pilgrims' winter",
    "Abolition congress", "Timber rebellion", "Glassmakers' exodus", "Polar relief expedition", "Clock tower vigil",
    "Children's crusade for books", "Rice tax revolt", "Two Harbours armistice", "Marsh reclamation of 1688",
    "Anti-dam movement", "Potters' cooperative", "General strike of Vesperley", "Salt cathedral restoration",
    "Sunflower constitution", "Great Lindmoor fair", "Battle of Quellan Ford",
)  # fmt: skip
SETTINGS = (
    "{event}", "{event} in {place}", "{place} {event}", "Aftermath of the {event} ({place})",
    "{event} memorial, {place}",
)  # fmt: skip
# Titles that are parsed correctly only by a reader of quoted fields and Unicode letters.
AWKWARD_SETTINGS = ('"{event}" (song)', 'The "{event}" at {place}', "{event}\tand\n{place}", "{EVENT}, {PLACE}")
