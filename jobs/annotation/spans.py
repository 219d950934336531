"""Kinds of stretches that people mark in texts: data, as a rubric is.

name: mistakes_omissions
source: where the kinds come from
instructions: …              # what people read before everything else
texts: [reference, generated]  # roles in the order in which people read them
marks:                       # in the order in which people mark them
  - name: mistakes           # of the control in the annotation tool
    kind: mistake            # as in table `spans`
    text: generated          # role of the text in which it is marked
    title: …                 # what people read
    guidance: …
    labels:
      - {value: added_detail, label: Added detail, colour: "#d62728", hotkey: "1", guidance: …}
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from actors.vlm.people import COLOUR
from jobs.annotation.answers import fold

_REQUIRED = {"spans": ("name", "marks"), "mark": ("name", "kind", "text", "labels"), "label": ("value", "label")}
_OPTIONAL = {
    "spans": ("source", "instructions", "texts"),
    "mark": ("title", "guidance"),
    "label": ("colour", "hotkey", "guidance"),
}


@dataclass(frozen=True)
class Label:
    """One category: its value in table `spans`, and how it looks in a tool."""

    value: str
    label: str
    colour: str = ""
    hotkey: str = ""
    guidance: str = ""


@dataclass(frozen=True)
class Mark:
    """A kind of stretch and the text it is marked in."""

    name: str
    kind: str
    text: str
    labels: tuple[Label, ...]
    title: str = ""
    guidance: str = ""

    def category(self, said: str) -> str | None:
        """The category that `said` names by its value or label; None if it is unknown."""
        word = fold(said)
        return next((label.value for label in self.labels if word in (fold(label.value), fold(label.label))), None)


@dataclass(frozen=True)
class SpanLabels:
    """All kinds that people are asked to mark."""

    name: str
    marks: tuple[Mark, ...]
    instructions: str = ""
    texts: tuple[str, ...] = ()

    def in_reading_order(self, roles: Iterable[str]) -> list[str]:
        """`roles` of texts in the order in which people read them; those that `texts` does not name come last."""
        place = {role: number for number, role in enumerate(self.texts)}
        return sorted(roles, key=lambda role: place.get(role, len(place)))

    def named(self, name: str) -> Mark | None:
        """The kind whose control is called `name`."""
        return next((mark for mark in self.marks if mark.name == name), None)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "SpanLabels":
        """Check what a YAML file reads.

        Raises:
            ValueError: naming the place and what is allowed there.
        """
        _keys("spans", data, "spans")
        where = f"spans {data['name']!r}"
        marks = tuple(_mark(entry, where) for entry in _entries(data["marks"], f"{where}, marks"))
        for what in ("name", "kind"):
            values = [getattr(mark, what) for mark in marks]
            if len(set(values)) < len(values):
                raise ValueError(f"{where}: two marks have one {what}: {', '.join(values)}")
        texts = data.get("texts") or ()
        roles = {mark.text for mark in marks}
        if not isinstance(texts, list | tuple) or set(texts) - roles or len(set(texts)) < len(texts):
            raise ValueError(f"{where}, texts is {texts!r}; a list of {', '.join(sorted(roles))} is needed, each once")
        return cls(str(data["name"]), marks, str(data.get("instructions") or ""), tuple(texts))


def _mark(data: Any, where: str) -> Mark:
    _keys("mark", data, where)
    place = f"{where}, mark {data['name']!r}"
    labels = []
    for entry in _entries(data["labels"], f"{place}, labels"):
        _keys("label", entry, place)
        label = Label(**{key: str(value) for key, value in entry.items() if value is not None})
        if label.colour and not COLOUR.fullmatch(label.colour):
            raise ValueError(f"{place}, label {label.value!r}: colour {label.colour!r} is not of the form #1f77b4")
        labels.append(label)
    words = [word for label in labels for word in {fold(label.value), fold(label.label)}]
    if len(set(words)) < len(words):
        raise ValueError(f"{place}: two labels share a word: {', '.join(sorted(words))}")
    texts = {key: str(data[key]) for key in ("name", "kind", "text", "title", "guidance") if data.get(key)}
    return Mark(labels=tuple(labels), **texts)


def _entries(data: Any, where: str) -> list[Any]:
    if not isinstance(data, list) or not data:
        raise ValueError(f"{where} is {data!r}; a list with at least one entry is needed")
    return data


def _keys(what: str, data: Any, where: str) -> None:
    allowed = [*_REQUIRED[what], *_OPTIONAL[what]]
    if not isinstance(data, Mapping):
        raise ValueError(f"{where}: {data!r} must be a mapping with {', '.join(allowed)}")
    if unknown := [str(key) for key in data if key not in allowed]:
        raise ValueError(f"{where} has unknown key {unknown[0]!r}; allowed are {', '.join(allowed)}")
    if missing := [key for key in _REQUIRED[what] if not data.get(key)]:
        raise ValueError(f"{where} lacks {missing[0]!r}; needed are {', '.join(_REQUIRED[what])}")
