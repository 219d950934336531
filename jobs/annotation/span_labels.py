"""Kinds of spans that people mark in texts, read from a file of `conf/span_labels/`.

name: mistakes_omissions
source: …                    # publication that defines the kinds
instructions: …              # text above the form
texts: [reference, generated]  # roles in the order in which people read them
kinds:                       # in the order in which people mark them
  - name: mistakes           # of the control in the annotation tool
    kind: mistake            # as in table `spans`
    text: generated          # role of the text in which it is marked
    title: …                 # heading above the text
    guidance: …
    labels:
      - {value: added_detail, label: Added detail, colour: "#d62728", hotkey: "1", guidance: …}
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from actors.rubrics import checks
from actors.rubrics.people import COLOUR
from jobs.annotation.questionnaire import fold

_REQUIRED = {
    "span_labels": ("name", "kinds"),
    "kind": ("name", "kind", "text", "labels"),
    "label": ("value", "label"),
}
_OPTIONAL = {
    "span_labels": ("source", "instructions", "texts"),
    "kind": ("title", "guidance"),
    "label": ("colour", "hotkey", "guidance"),
}


@dataclass(frozen=True)
class Label:
    """A category of a kind: its value in the table `spans`, and how a tool shows it."""

    value: str
    label: str
    colour: str = ""
    hotkey: str = ""
    guidance: str = ""


@dataclass(frozen=True)
class SpanKind:
    """A kind of span, and the role of the text in which it is marked."""

    name: str
    kind: str
    text: str
    labels: tuple[Label, ...]
    title: str = ""
    guidance: str = ""

    def category(self, name: str) -> str | None:
        """Return the category whose value or label is `name`; None if there is none."""
        word = fold(name)
        return next((label.value for label in self.labels if word in (fold(label.value), fold(label.label))), None)


@dataclass(frozen=True)
class SpanLabels:
    """All kinds of spans that people are asked to mark."""

    name: str
    kinds: tuple[SpanKind, ...]
    instructions: str = ""
    texts: tuple[str, ...] = ()

    def in_reading_order(self, roles: Iterable[str]) -> list[str]:
        """Return `roles` in the order in which people read their texts; roles missing from `texts` come last."""
        position = {role: number for number, role in enumerate(self.texts)}
        return sorted(roles, key=lambda role: position.get(role, len(position)))

    def named(self, name: str) -> SpanKind | None:
        """Return the kind whose control is called `name`; None if there is none."""
        return next((span_kind for span_kind in self.kinds if span_kind.name == name), None)

    @classmethod
    @checks.of_file("span_labels")
    def from_dict(cls, data: Mapping[str, Any]) -> "SpanLabels":
        """Return the span labels in a YAML file's content.

        Raises:
            ValueError: the content is invalid; the message has the location and what is allowed there.
        """
        where = checks.named("span_labels", data)
        _check_keys("span_labels", data, where)
        kinds = tuple(_span_kind(entry, where) for entry in _entries(data["kinds"], f"{where}, kinds"))
        for attribute, values in (("name", [k.name for k in kinds]), ("kind", [k.kind for k in kinds])):
            if len(set(values)) < len(values):
                raise ValueError(f"{where}: duplicate {attribute} among {', '.join(values)}; give each kind its own")
        texts = data.get("texts") or ()
        roles = {span_kind.text for span_kind in kinds}
        are_texts = isinstance(texts, list | tuple) and all(isinstance(text, str) and text in roles for text in texts)
        if not are_texts or len(set(texts)) < len(texts):
            raise ValueError(f"{where}, texts: {texts!r} must be a list of {', '.join(sorted(roles))}, each once")
        return cls(str(data["name"]), kinds, str(data.get("instructions") or ""), tuple(texts))


def _span_kind(data: Any, where: str) -> SpanKind:
    _check_keys("kind", data, where)
    where = f"{where}, kind {data['name']!r}"
    labels = []
    for entry in _entries(data["labels"], f"{where}, labels"):
        _check_keys("label", entry, where)
        label = Label(**{key: str(value) for key, value in entry.items() if value is not None})
        if label.colour and not COLOUR.fullmatch(label.colour):
            raise ValueError(f"{where}, label {label.value!r}: colour {label.colour!r} must have the form #1f77b4")
        labels.append(label)
    words = [word for label in labels for word in {fold(label.value), fold(label.label)}]
    if len(set(words)) < len(words):
        raise ValueError(f"{where}: two labels share a word: {', '.join(sorted(words))}; rename one")
    texts = {key: str(data[key]) for key in ("name", "kind", "text", "title", "guidance") if data.get(key)}
    return SpanKind(labels=tuple(labels), **texts)


def _entries(data: Any, where: str) -> list[Any]:
    if not isinstance(data, list) or not data:
        raise ValueError(f"{where}: {data!r} must be a list with at least one entry")
    return data


def _check_keys(part: str, data: Any, where: str) -> None:
    allowed = [*_REQUIRED[part], *_OPTIONAL[part]]
    if not isinstance(data, Mapping):
        raise ValueError(f"{where}: {data!r} must be a mapping with {', '.join(allowed)}")
    if unknown := [str(key) for key in data if key not in allowed]:
        raise ValueError(f"{where}: unknown key {unknown[0]!r}; must be one of {', '.join(allowed)}")
    if missing := [key for key in _REQUIRED[part] if not data.get(key)]:
        raise ValueError(f"{where}: missing key {missing[0]!r}; required are {', '.join(_REQUIRED[part])}")
