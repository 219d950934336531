"""Generate TSV.gz files that cost a reader what WIT costs it, of any size, from words that wordfreq ships.

What matters to a reader is kept near the real set: 14.6 % of the rows are English, a row is about 2 kB, gzip makes
it about three times smaller, one row in a few hundred has a quote, tab or newline somewhere, and few titles match.
"""

import csv
import gzip
import io
import itertools
import random
import shutil
import urllib.parse
from bisect import bisect
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jobs.tables import WIT_COLUMNS

# share of rows; the rest is spread evenly over OTHERS
SHARES = {
    "en": 0.146, "de": 0.085, "fr": 0.08, "es": 0.06, "ru": 0.05, "it": 0.05, "pl": 0.045, "ja": 0.04, "zh": 0.04,
    "nl": 0.04, "sv": 0.04, "pt": 0.035, "uk": 0.04, "ar": 0.03,
}  # fmt: skip
OTHERS = ("fa", "cs", "tr", "ca", "fi", "he", "ko", "el", "hu", "ro")
UNSPACED = ("ja", "zh")
HIT_SHARE = 1 / 2500  # of all rows: planted titles with a term, 400 in a million
VOCABULARY = 8000
SENTENCES = 4000  # a language; pages are runs of these, which gives gzip the repetition that articles have
ZIPF = 1.05
REPEATED = 0.22  # share of words taken from the sentences just before: articles keep to their subject
RECENT = 60  # words
FLUSH_CHARACTERS = 4_000_000
COMPRESSION = 6
COPY_BYTES = 1 << 20
HEADER_MEMBER = gzip.compress(("\t".join(WIT_COLUMNS) + "\n").encode(), COMPRESSION, mtime=0)
# each of these contains a planted term, so that no reader gets by with bytes, ASCII folding or split("\t")
HIT_TITLES = (
    "{term}", "{term}", "{term}", "Aftermath of the {term}", "{upper}", '"{term}" (song)', 'The "{term}"\tand\nafter',
    "İstanbul and the {term}", "Straße der {upper}", "ÉCOLE {term}",
)  # fmt: skip
TITLES = ("{}", "{} {}", "{} {}", "{} River", "List of {} in {}", "{} railway station", "{} (film)", "{} F.C.")
EXTENSIONS = (("jpg", "image/jpeg"),) * 8 + (("JPG", "image/jpeg"), ("png", "image/png"), ("svg", "image/svg+xml"))


@dataclass(frozen=True, kw_only=True)
class WitLike:
    """The written file: rows, bytes before and after compression, English rows planted to match."""

    rows: int
    raw_bytes: int
    gz_bytes: int
    planted: int


def make_terms(count: int, *, seed: int = 7) -> list[str]:
    """`count` different search terms of two or more words, mixed case, some with letters outside ASCII."""
    rng = random.Random(f"terms {seed}")
    words = [word for word in _vocabulary("en") + _vocabulary("fr") if len(word) > 4]
    shapes = ("{0} strike of {2}", "Siege of {0} {1}", "{0} {1} treaty", "{0} flood of {2}", "Révolte de {0} {1}")
    results: dict[str, None] = {}
    while len(results) < count:
        first, second = rng.choice(words).capitalize(), rng.choice(words).capitalize()
        results[rng.choice(shapes).format(first, second, rng.randint(1500, 2020))] = None
    return list(results)


def write_wit_like(path: Path, *, rows: int, terms: Sequence[str], seed: int = 7) -> WitLike:
    """Write one TSV.gz of `rows` rows to `path`, a few of whose titles hold one of `terms`, in English and elsewhere.

    The same arguments give the same bytes under one version of Python, zlib and wordfreq. The header is a gzip member
    of its own, so that `repeat` can make a larger file of it.
    """
    rng = random.Random(f"wit {seed}")
    shares = SHARES | dict.fromkeys(OTHERS, (1 - sum(SHARES.values())) / len(OTHERS))
    languages, cumulated = list(shares), list(itertools.accumulate(shares.values()))
    prose = {language: _Prose(language, rng) for language in languages}
    raw = planted = 0
    text = io.StringIO()
    writer = csv.writer(text, delimiter="\t", quoting=csv.QUOTE_MINIMAL, lineterminator="\n")
    with path.open("wb") as plain:
        plain.write(HEADER_MEMBER)
    with path.open("ab") as plain, gzip.GzipFile("", "wb", COMPRESSION, plain, mtime=0) as out:
        for number in range(rows):
            language = languages[min(bisect(cumulated, rng.random()), len(languages) - 1)]
            # the first English row always hits: a smoke run has something to find
            if language == "en" and (not planted or rng.random() < HIT_SHARE / SHARES["en"]):
                term = rng.choice(terms)
                title = rng.choice(HIT_TITLES).format(term=term, upper=term.upper())
                planted += 1
            elif language != "en" and rng.random() < HIT_SHARE:
                title = rng.choice(terms)
            else:
                title = prose[language].title()
            writer.writerow(_row(rng, language, title, prose))
            if text.tell() > FLUSH_CHARACTERS or number == rows - 1:
                data = text.getvalue().encode()
                raw += len(data)
                out.write(data)
                text.seek(0)
                text.truncate()
    return WitLike(rows=rows, raw_bytes=raw, gz_bytes=path.stat().st_size, planted=planted)


def repeat(source: Path, path: Path, *, times: int) -> None:
    """Write to `path` the rows of `source`, which `write_wit_like` made, `times` times over, without compressing."""
    with source.open("rb") as read, path.open("wb") as out:
        out.write(HEADER_MEMBER)
        for _ in range(times):
            read.seek(len(HEADER_MEMBER))
            shutil.copyfileobj(read, out, COPY_BYTES)


class _Prose:
    """Running text and titles of one language."""

    def __init__(self, language: str, rng: random.Random) -> None:
        self.rng = rng
        self.gap = "" if language in UNSPACED else " "
        self.words = _vocabulary(language)
        self.english = language == "en"
        weights = list(itertools.accumulate(1 / (rank + 1) ** ZIPF for rank in range(len(self.words))))
        self.recent: list[str] = []
        self.sentences = [self._sentence(weights) for _ in range(SENTENCES)]

    def _sentence(self, weights: list[float]) -> str:
        rng = self.rng
        words = rng.choices(self.words, cum_weights=weights, k=rng.randint(6, 22))
        if self.recent:
            words = [rng.choice(self.recent) if rng.random() < REPEATED else word for word in words]
        self.recent = (self.recent + words)[-RECENT:]
        words[0] = words[0].capitalize()
        draw = rng.random()
        if draw < 0.03:
            words[-1] = f'"{words[-1]}"'
        elif draw < 0.033:
            words[-1] += "\n"
        elif draw < 0.035:
            words[-1] += "\t"
        elif draw < 0.0352:
            words[-1] += "\nen\t"  # what a reader that ignores quotes takes for the start of an English row
        elif draw < 0.3:
            words[len(words) // 2] = str(rng.randint(1000, 2025))
        return self.gap.join(words) + ("。" if not self.gap else ".")

    def run(self, low: int, high: int) -> str:
        """`low` to `high` sentences that follow one another."""
        start = self.rng.randrange(SENTENCES - high)
        return self.gap.join(self.sentences[start : start + self.rng.randint(low, high)])

    def title(self) -> str:
        if self.english:
            shape = self.rng.choice(TITLES)
            return shape.format(*(self.rng.choice(self.words).capitalize() for _ in range(shape.count("{}"))))
        return self.gap.join(self.rng.choices(self.words, k=self.rng.randint(1, 3))).capitalize()


def _vocabulary(language: str) -> list[str]:
    # a peer's extra, needed only to make inputs
    from wordfreq import top_n_list

    return [word for word in top_n_list(language, VOCABULARY) if len(word) > 1 or language in UNSPACED]


def _row(rng: random.Random, language: str, title: str, prose: dict[str, _Prose]) -> list[str]:
    own_values, chance = prose[language], rng.random
    page = urllib.parse.quote("_".join(title.split()), safe="_(),'-.")
    extension, mime = rng.choice(EXTENSIONS)
    shelf = f"{rng.randrange(256):02x}"
    picture = (
        urllib.parse.quote("_".join(rng.choices(own_values.words, k=3))) + f"_{rng.randrange(100_000)}.{extension}"
    )
    section = "" if chance() < 0.35 else own_values.title()
    article = own_values.run(4, 13)
    body = f"{title}, {article}" if chance() < 0.96 else ""
    return [
        language,
        f"https://{language}.wikipedia.example/wiki/{page}",
        f"http{'s' if chance() < 0.8 else ''}://upload.wikimedia.example/wikipedia/commons/{shelf[0]}/{shelf}/{picture}",
        title,
        section,
        f"{title} / {section}" if section else title,
        own_values.run(1, 2) if chance() < 0.45 else "",
        f"English: {prose['en'].run(1, 2)}" if chance() < 0.9 else "",
        own_values.run(1, 1) if chance() < 0.2 else "",
        mime,
        str(rng.randint(80, 6000)),
        str(rng.randint(80, 6000)),
        "true" if chance() < 0.3 else "false",
        "true" if chance() < 0.97 else "false",
        "true" if chance() < 0.95 else "false",
        body,
        # a section that opens its article repeats it, another one does not
        body if not section else article[: rng.randint(100, 900)] if chance() < 0.5 else own_values.run(1, 6),
    ]
