"""Small dumps in Wikidata's JSON."""

import bz2
import gzip
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Statement = Mapping[str, Any]


def statement(value: Any, *, rank: str = "normal", snaktype: str = "value") -> dict[str, Any]:
    """Return a statement with the value of an item (Q198), or of a time with its precision ((time, precision))."""
    snak: dict[str, Any] = {"snaktype": snaktype, "property": "P0"}
    if snaktype == "value":
        if isinstance(value, str):
            inner: dict[str, Any] = {"entity-type": "item", "numeric-id": int(value[1:]), "id": value}
            snak["datavalue"] = {"type": "wikibase-entityid", "value": inner}
        else:
            time, precision = value
            snak["datavalue"] = {"type": "time", "value": {"time": time, "precision": precision, "timezone": 0}}
    return {"mainsnak": snak, "type": "statement", "rank": rank}


def item(number: int, label: str | None = None, title: str | None = None, **claims: Sequence[Any]) -> dict[str, Any]:
    """Return an item; a claim is a list of statements, or of what `statement` takes."""
    return {
        "type": "item",
        "id": f"Q{number}",
        "labels": {"en": {"language": "en", "value": label}} if label else [],
        "descriptions": [],
        "aliases": [],
        "claims": {
            name: [value if isinstance(value, dict) else statement(value) for value in values]
            for name, values in claims.items()
        }
        or [],
        "sitelinks": {"enwiki": {"site": "enwiki", "title": title, "badges": []}} if title else [],
    }


def dump(entities: Iterable[Any]) -> bytes:
    """Return the text of a dump: one entity per line between brackets; bytes are copied as lines."""
    lines = [one if isinstance(one, bytes) else json.dumps(one, separators=(",", ":")).encode() for one in entities]
    return b"[\n" + b",\n".join(lines) + b"\n]\n"


def compress(text: bytes, name: str, *, parts: int = 1) -> bytes:
    """Return the text, compressed as the file's name says; several parts are members or streams cut at any byte."""
    size = max(len(text) // parts, 1)
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    if name.endswith(".gz"):
        return b"".join(gzip.compress(piece, mtime=0) for piece in pieces)
    if name.endswith(".bz2"):
        return b"".join(bz2.compress(piece, 1) for piece in pieces)
    return text


CLASSES = [  # a tree of classes with a cycle, and one that the types need
    item(198, "war", "War", P279=["Q180684"]),
    item(180684, "conflict", "Conflict", P279=["Q1190554"]),
    item(8465, "civil war", "Civil war", P279=["Q198"]),
    item(178561, "battle", "Battle", P279=["Q180684"], P361=["Q198"]),
    item(124757, "riot", "Riot", P279=["Q1190554"]),
    item(1190554, "occurrence", "Event (philosophy)", P279=["Q1190554"]),  # a cycle of one
    item(43229, "organization", "Organization", P279=["Q16334295"]),
    item(16334295, "group of humans", None, P279=["Q43229"]),  # a cycle of two
    item(17149090, "armed group", "Armed group", P279=["Q43229"]),
]
THEMES = {"conflict": {"war": ["War"], "civil war": ["Civil war"]}, "reform": {"riot": ["Q124757"], "peace": ["Peace"]}}
