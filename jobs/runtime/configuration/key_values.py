"""Values of keys: read from `key=value`, converted to the key's type, and put in the place of others.

A value on the command line is literal: a path with a comma is a text. Only `[a,b]` for a list, `{a: b}` for a mapping,
`null`, `true`, `false` and numbers have a meaning, and only where the key's type allows them. Quotes around a value are
removed. `${key}` in a text refers to the value of another key, `${oc.env:NAME}` to a variable of the environment.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from types import NoneType
from typing import Any, TypeVar, get_args, get_origin

from jobs.errors import InputError
from jobs.runtime.configuration.key_types import MISSING, alternatives, defaults, hints, nested_dataclass

_INTEGER = re.compile(r"[+-]?(?:0|[1-9]\d*(?:_\d+)*)")
_NUMBER = re.compile(
    r"[+-]?(?:(?:\d+(?:_\d+)*)?\.\d+|\d+(?:_\d+)*\.?)(?:e[+-]?\d+)?|[+-]?\.?(?:inf|nan)", re.IGNORECASE
)
_POINT_FREE = re.compile(r"\.(?=inf|nan)", re.IGNORECASE)  # YAML writes .inf
_QUOTED = re.compile(  # a backslash escapes only before a quote
    r"""'(?P<single>(?:[^'\\]|\\+[^'\\]|(?:\\\\)*\\')*(?:\\\\)*)'|"(?P<double>(?:[^"\\]|\\+[^"\\]|(?:\\\\)*\\")*(?:\\\\)*)\""""
)
_PLAIN = re.compile(r"(?:\$\{(?:[^{}]|\{[^{}]*\})*\}|[^\[\]{},])+")  # up to a separator, which may be inside ${…}
_NAME = re.compile(r"\s*([^\[\]{},:'\"]+?)\s*:")
_WORDS = {"null": None, "true": True, "false": False}
_BOOLEANS = {"yes": True, "y": True, "on": True, "no": False, "n": False, "off": False, "true": True, "false": False}
DEEPEST = 32  # levels of lists and mappings in a value or a file
TOO_DEEP = f"is nested too deeply; at most {DEEPEST} levels"
T = TypeVar("T")


class UnknownKeyError(Exception):
    """The dotted `key` does not exist; `allowed` are the keys that exist next to it."""

    def __init__(self, key: str, allowed: Sequence[str]) -> None:
        super().__init__(key)
        self.key, self.allowed = key, sorted(allowed)


class Unquoted(str):
    """A text of the command line without quotes: a number, a Boolean or null where the key's type is open."""

    __slots__ = ()

    @property
    def meaning(self) -> Any:
        """The value that the text has if nothing is known about its type."""
        if self.lower() in _WORDS:
            return _WORDS[self.lower()]
        if _INTEGER.fullmatch(self):
            return int(self)
        return float(_POINT_FREE.sub("", self)) if _NUMBER.fullmatch(self) and not self.isdigit() else str(self)


def check_depth(value: Any) -> None:
    """Raise ValueError if lists and mappings are nested more deeply than any key needs, and functions can follow."""
    level = [value]
    for _ in range(DEEPEST):
        parts = (part.values() if isinstance(part, Mapping) else part for part in level)
        inner = (entry for part in parts if not isinstance(part, str) for entry in part)
        level = list({id(entry): entry for entry in inner if isinstance(entry, Mapping | list)}.values())
        if not level:
            return
    raise ValueError(TOO_DEEP)


def read(text: str, kind: Any) -> Any:
    """Return the value that `text`, typed after `key=`, has for a key of type `kind`; `convert` checks it.

    Raises:
        ValueError: it is nested too deeply.
    """
    kinds = set(alternatives(kind))
    if match := _QUOTED.fullmatch(text):
        return _unquoted(match)
    if str in kinds:
        is_word = text == "null" if NoneType in kinds else bool in kinds and text.lower() in ("true", "false")
        return _WORDS[text.lower()] if is_word else text
    if text[:1] not in ("[", "{"):
        return text if "," in text else Unquoted(text)
    reader = _Reader(text)
    try:
        value = reader.value()
    except RecursionError as error:
        raise ValueError(TOO_DEEP) from error
    except ValueError:
        value = None
    if value is not None and reader.at == len(text):
        check_depth(value)
        return value
    is_list = text[:1] == "[" and text[-1:] == "]" and any(get_origin(member) is list for member in kinds)
    return [element.strip() for element in text[1:-1].split(",")] if is_list else text


class _Reader:
    """Reads nested lists and mappings, whose parts need no quotes, from a text; `at` is where it has arrived."""

    def __init__(self, text: str) -> None:
        self._text, self.at = text, 0

    def value(self) -> Any:
        """Return the value here. Raises ValueError if there is none."""
        self._skip_spaces()
        result: Any
        if match := _QUOTED.match(self._text, self.at):
            self.at, result = match.end(), _unquoted(match)
        elif self._text.startswith("[", self.at):
            result = self._parts("]", self.value)
        elif self._text.startswith("{", self.at):
            result = dict(self._parts("}", self._pair))
        elif match := _PLAIN.match(self._text, self.at):
            self.at, result = match.end(), Unquoted(match[0].strip())
        else:
            raise ValueError
        self._skip_spaces()
        return result

    def _parts(self, end: str, part: Callable[[], T]) -> list[T]:
        self.at += 1
        self._skip_spaces()
        parts = [] if self._text.startswith(end, self.at) else [part()]
        while self._text.startswith(",", self.at):
            self.at += 1
            parts.append(part())
        if not self._text.startswith(end, self.at):
            raise ValueError
        self.at += 1
        return parts

    def _pair(self) -> tuple[str, Any]:
        if (match := _NAME.match(self._text, self.at)) is None:
            raise ValueError
        self.at = match.end()
        return match[1], self.value()

    def _skip_spaces(self) -> None:
        while self._text.startswith(" ", self.at):
            self.at += 1


def _unquoted(match: re.Match[str]) -> str:
    text = match["single"] if match["double"] is None else match["double"]
    return re.sub(r"(\\+)(['\"]|$)", lambda m: "\\" * (len(m[1]) // 2) + m[2], text)


def quoted(value: str) -> str:
    """Return `value` in single quotes; a backslash escapes only before a quote."""
    escaped = re.sub(r"(\\*)('|$)", lambda m: m.group(1) * 2 + ("\\'" if m.group(2) else ""), value)
    return f"'{escaped}'"


def literal(value: Any) -> str:
    """Return a value of a configuration file as it is typed after `key=`.

    Raises:
        InputError: a value that no key can have, such as a date, or a mapping with a name that cannot be typed.
    """
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{','.join(literal(element) for element in value)}]"
    if isinstance(value, Mapping) and all(_NAME.fullmatch(f"{name}:") for name in value):
        return f"{{{', '.join(f'{name}: {literal(element)}' for name, element in value.items())}}}"
    if isinstance(value, int | float):
        return str(value)
    if isinstance(value, str):
        return quoted(value)
    raise InputError(f"{value!r}: expected text, a number, true, false, null, a list or a mapping")


def convert(kind: Any, value: Any, key: str) -> Any:
    """Return `value` as a value of a key of type `kind`; a text with `${` and a missing value stay as they are.

    Raises:
        InputError: the type does not allow the value; the error has the key and the value.
        UnknownKeyError: a mapping has a key that its dataclass does not have.
    """
    if isinstance(value, str) and ("${" in value or value == MISSING):
        return str(value)
    if kind is Any:
        return _meaning(value)
    kinds = list(alternatives(kind))
    if value is None or (isinstance(value, Unquoted) and value.meaning is None and str not in kinds):
        if NoneType not in kinds:
            raise InputError("this key cannot be null", key=key, value="null")
        return None
    is_text = str in kinds and not isinstance(value, bool)
    member = next(member for member in kinds if member is not NoneType and not (member is bool and is_text))
    if member in _CONVERSIONS:
        return _CONVERSIONS[member](value, key)
    if get_origin(member) is list:
        if not isinstance(value, list | tuple):
            raise InputError("must be a list", key=key, value=value)
        return [convert(get_args(member)[0], element, f"{key}[{place}]") for place, element in enumerate(value)]
    if not isinstance(value, Mapping):
        raise InputError("must be a mapping of keys", key=key, value=value)
    inner = nested_dataclass(member)
    return merge(member, defaults(inner) if inner else {}, value, key)


def _meaning(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _meaning(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_meaning(inner) for inner in value]
    return value.meaning if isinstance(value, Unquoted) else value


def _to_bool(value: Any, key: str) -> bool:
    if isinstance(value, int):
        return bool(value)
    if isinstance(value, str) and _INTEGER.fullmatch(value):
        return int(value) != 0
    if isinstance(value, str) and value.lower() in _BOOLEANS:
        return _BOOLEANS[value.lower()]
    raise InputError("must be true or false", key=key, value=value)


def _to_int(value: Any, key: str) -> int:
    try:
        if isinstance(value, str | int) and not isinstance(value, bool):
            return int(value)
    except ValueError:
        pass
    raise InputError("must be a whole number", key=key, value=value, remedy=_without_marks(value, key))


def _to_float(value: Any, key: str) -> float:
    try:
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            return float(_POINT_FREE.sub("", value) if isinstance(value, str) else value)
    except ValueError:
        pass
    raise InputError("must be a number", key=key, value=value, remedy=_without_marks(value, key))


def _without_marks(value: Any, key: str) -> str | None:
    """Return how to write a number that has a unit or separators, such as 300px or 1,000."""
    number = re.sub(r"(?<=\d)[,' ](?=\d{3}\b)|\s*[A-Za-z%]+$", "", str(value))
    return f"use {key}={number}" if number != str(value) and _NUMBER.fullmatch(number) else None


def _to_text(value: Any, key: str) -> str:
    if isinstance(value, Mapping | list | tuple):
        raise InputError("must be text", key=key, value=value)
    return str(value)


_CONVERSIONS: Mapping[Any, Callable[[Any, str], Any]] = {
    bool: _to_bool, int: _to_int, float: _to_float, str: _to_text
}  # fmt: skip


def merge(kind: Any, current: Any, new: Any, key: str) -> Any:
    """Return `new`, converted; the keys of a mapping replace those of the mapping `current`, which is not modified.

    Raises:
        InputError, UnknownKeyError: as `convert`.
    """
    if not isinstance(new, Mapping):
        return convert(kind, new, key)
    inner = nested_dataclass(kind)
    if inner is None and not (isinstance(current, dict) and _holds_any_name(kind)):
        return convert(kind, new, key)
    base = current if isinstance(current, dict) else defaults(inner) if inner else {}
    merged = dict(base)
    for name, value in new.items() if kind is Any else ((str(name), value) for name, value in new.items()):
        if (below := _kind_of(kind, name)) is None:
            raise UnknownKeyError(_below(key, name), list(base))
        if value != MISSING or name not in base:
            merged[name] = merge(below, base.get(name), value, _below(key, name))
    return merged


def replaced(kind: Any, current: Any, path: Sequence[str], value: Any, *, key: str = "", adds: bool) -> Any:
    """Return `current` with `value` at the key `path` below it.

    Args:
        adds: a mapping of texts, lists or anything else takes new names as well.

    Raises:
        InputError: as `convert`.
        UnknownKeyError: the key does not exist.
    """
    if not path:
        return merge(kind, current, value, key)
    name, inner = path[0], nested_dataclass(kind)
    if inner is None and not _holds_any_name(kind):
        raise UnknownKeyError(_below(key, name), [])
    base = current if isinstance(current, dict) else defaults(inner) if inner else {}
    below = _kind_of(kind, name)
    if below is None or not (inner or adds or below is not Any or name in base):
        raise UnknownKeyError(_below(key, name), list(base))
    return base | {name: replaced(below, base.get(name), path[1:], value, key=_below(key, name), adds=adds)}


def _holds_any_name(kind: Any) -> bool:
    """Return whether a key of this type may hold keys of any names."""
    return kind is Any or any(get_origin(member) is dict for member in alternatives(kind))


def _kind_of(kind: Any, name: str) -> Any:
    """Return the type of the key `name` below a key of type `kind`; None if there is no such key."""
    if (inner := nested_dataclass(kind)) is not None:
        return hints(inner).get(name)
    return next((get_args(member)[1] for member in alternatives(kind) if get_origin(member) is dict), Any)


def _below(key: str, name: Any) -> str:
    return f"{key}.{name}" if key else str(name)
