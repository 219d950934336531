"""Generate dumps that cost a reader what Wikidata's cost it.

What matters to a reader is kept near the real set: one entity per line of about 12 kB, statements with references,
whose ids and hashes do not compress, names in many languages, one item in twenty with an English article, a few per
cent of classes, and one in some hundred that is linked to a concept.
"""

import bz2
import gzip
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CLASSES = 150  # the first items; item n > 1 is a subclass of n // 2
CONCEPT_CLASS = 40  # the concept begins at this class and has three classes below it
EVENT = 1
LANGUAGES = "en de fr es ru it pl ja zh nl sv pt uk ar fa cs tr ca fi he ko el hu ro mul en-gb".split()
PROPERTIES = [f"P{n}" for n in (17, 18, 21, 106, 131, 136, 214, 227, 276, 373, 495, 569, 646, 734, 856, 910, 1705)]
MEMBERS = 4  # of the gzip file, as Wikidata's has one per exporting process
COMPRESSION = 6


def write_dumps(folder: Path, *, entities: int, seed: int = 3) -> int:
    """Write `dump.json.gz` and `dump.json.bz2` with the same entities; return the bytes of their text."""
    lines = [json.dumps(one, separators=(",", ":"), ensure_ascii=False) for one in make_entities(entities, seed)]
    text = ("[\n" + ",\n".join(lines) + "\n]\n").encode()
    size = len(text) // MEMBERS + 1
    with (folder / "dump.json.gz").open("wb") as file:
        for at in range(0, len(text), size):
            file.write(gzip.compress(text[at : at + size], COMPRESSION, mtime=0))
    (folder / "dump.json.bz2").write_bytes(bz2.compress(text))
    return len(text)


def make_entities(count: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yield items, of which the first `CLASSES` (or fewer) are classes."""
    rng = random.Random(f"wikidata {seed}")
    words = ["".join(rng.choices("abcdefghijklmnoprstuvw", k=rng.randint(3, 9))) for _ in range(5000)]
    for number in range(1, count + 1):
        name = " ".join(rng.choices(words, k=rng.randint(1, 4))).capitalize()
        languages = rng.sample(LANGUAGES, rng.randint(3, 20))
        claims = {name: [_statement(rng, name) for _ in range(rng.choice([1, 1, 1, 2, 4]))]
                  for name in rng.sample(PROPERTIES, rng.randint(3, 12))}  # fmt: skip
        if number <= CLASSES:
            claims["P279"] = [_statement(rng, "P279", max(number // 2, 1))]
        claims["P31"] = [_statement(rng, "P31", rng.randint(2, CLASSES))]
        item: dict[str, Any] = {
            "type": "item",
            "id": f"Q{number}",
            "labels": {code: {"language": code, "value": name} for code in languages},
            "descriptions": {c: {"language": c, "value": " ".join(rng.choices(words, k=5))} for c in languages},
            "aliases": {},
            "claims": claims,
            "sitelinks": {},
            "lastrevid": rng.randrange(2**31),
        }
        if number == CONCEPT_CLASS or rng.random() < 0.05:
            title = "Concept" if number == CONCEPT_CLASS else name
            url = f"https://en.wikipedia.org/wiki/{title.replace(' ', '_')}"
            item["sitelinks"]["enwiki"] = {"site": "enwiki", "title": title, "badges": [], "url": url}
        yield item


def _statement(rng: random.Random, name: str, target: int | None = None) -> dict[str, Any]:
    references = [
        {
            "hash": f"{rng.getrandbits(160):040x}",
            "snaks": {"P248": [_snak(rng, "P248", rng.randrange(10**7))], "P813": [_time(rng, "P813")]},
            "snaks-order": ["P248", "P813"],
        }
        for _ in range(rng.choice([0, 1, 1, 2]))
    ]
    guid = f"{rng.getrandbits(128):032X}"
    snak = _time(rng, name) if name == "P569" else _snak(rng, name, target or rng.randrange(10**7, 10**8))
    return {"mainsnak": snak, "type": "statement", "id": f"q1${guid}", "rank": "normal", "references": references}


def _snak(rng: random.Random, name: str, number: int) -> dict[str, Any]:
    value = {"entity-type": "item", "numeric-id": number, "id": f"Q{number}"}
    return {
        "snaktype": "value",
        "property": name,
        "hash": f"{rng.getrandbits(160):040x}",
        "datavalue": {"value": value, "type": "wikibase-entityid"},
        "datatype": "wikibase-item",
    }


def _time(rng: random.Random, name: str) -> dict[str, Any]:
    time = f"+{rng.randint(1500, 2020)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}T00:00:00Z"
    value = {"time": time, "timezone": 0, "before": 0, "after": 0, "precision": 11,
             "calendarmodel": "http://www.wikidata.org/entity/Q1985727"}  # fmt: skip
    return {
        "snaktype": "value",
        "property": name,
        "hash": f"{rng.getrandbits(160):040x}",
        "datavalue": {"value": value, "type": "time"},
        "datatype": "time",
    }
