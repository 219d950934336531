"""Checks of data from YAML; each raises a ValueError that gives the place, the value and what is allowed.

The form of a mapping is declared once, as its keys with the function that reads each value:

    OPTION = {"label": REQUIRED_TEXT, "value": Key(or_null(text), required=True), "hotkey": OPTIONAL_TEXT}
    read_keys({"label": "Low", "value": 1}, OPTION, "option 1")  # {"label": "Low", "value": "1", "hotkey": ""}
"""

import difflib
import functools
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, ParamSpec, TypeVar

from actors.errors import FileError

T = TypeVar("T")
P = ParamSpec("P")
Reader = Callable[[Any, str], Any]  # (value, its place in the file) -> the checked value


def named(noun: str, data: Any) -> str:
    """Return the beginning of messages about a file: `rubric 'mood'`, or `rubric` if it has no name."""
    return f"{noun} {data['name']!r}" if isinstance(data, Mapping) and data.get("name") else noun


def of_file(kind: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Return a decorator for functions whose last argument is the content of a file: its errors become a FileError.

    Args:
        kind: the key that chooses such files, such as `rubric`.
    """

    def decorate(read: Callable[P, T]) -> Callable[P, T]:
        @functools.wraps(read)
        def reading(*arguments: P.args, **named_arguments: P.kwargs) -> T:
            try:
                return read(*arguments, **named_arguments)
            except ValueError as error:
                text, where = str(error), named(kind, arguments[-1])
                if isinstance(error, FileError) or not text.startswith(where):
                    raise
                raise FileError(text, kind, text.removeprefix(where).lstrip(":, ")) from error

        return reading

    return decorate


class Mistakes:
    """Collector of the mistakes of independent checks, so that all are reported at once.

    Args:
        where: the beginning of the checks' messages, which only the first message keeps.
    """

    def __init__(self, where: str) -> None:
        self._where = where
        self._messages: list[str] = []

    def add(self, message: str) -> None:
        """Keep the message of a mistake."""
        self._messages.append(message)

    def of(self, check: Callable[..., T], *arguments: Any, instead: Any, **named: Any) -> T:
        """Return what `check` returns; if it raises a ValueError, keep the message and return `instead`."""
        try:
            return check(*arguments, **named)
        except ValueError as error:
            self.add(str(error))
            result: T = instead
            return result

    def refuse(self) -> None:
        """Raise a ValueError with all mistakes so far, if any."""
        if self._messages:
            others = (message.removeprefix(self._where).lstrip(":, ") for message in self._messages[1:])
            also = "".join(f"; also: {message}" for message in others)
            raise ValueError(f"{self._messages[0]}{also}")


class Key(NamedTuple):
    """A key of a mapping.

    Attributes:
        read: checks and returns its value.
        default: the value of a missing key, and of one with a mistake.
        required: whether the key must be there.
        nullable: whether null counts as a missing key.
    """

    read: Reader
    default: Any = None
    required: bool = False
    nullable: bool = False


def read_keys(
    data: Any, keys: Mapping[str, Key], where: str, *, mistakes: Mistakes | None = None, required: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the checked values of all `keys` of a mapping, which has no others.

    Args:
        where: the place in the file, for messages.
        mistakes: collects the mistakes of all keys; None: the first is raised.
        required: further required keys.
    """
    needed = [name for name, key in keys.items() if key.required or name in required]
    entries = data.items() if isinstance(data, Mapping) else ()
    stated = {n: value for n, value in entries if value is not None or n not in keys or not keys[n].nullable}
    if mistakes is None:
        check_keys(data, where=where, required=needed, optional=tuple(keys))
        return {n: key.read(stated[n], f"{where}, {n}") if n in stated else key.default for n, key in keys.items()}
    mistakes.of(check_keys, data, where=where, required=needed, optional=tuple(keys), instead=None)
    return {
        n: mistakes.of(key.read, stated[n], f"{where}, {n}", instead=key.default) if n in stated else key.default
        for n, key in keys.items()
    }


def check_keys(data: Any, *, where: str, required: Sequence[str], optional: Sequence[str] = ()) -> None:
    """Check that `data` is a mapping with all required keys and no unknown keys.

    Args:
        where: the place in the file, for messages.
    """
    allowed = list(dict.fromkeys([*required, *optional]))
    if not isinstance(data, Mapping):
        raise ValueError(f"{where}: {data!r} must be a mapping with {', '.join(allowed)}")
    messages = []
    if unknown := [repr(str(key)) for key in data if key not in allowed]:
        near = [key for name in unknown for key in difflib.get_close_matches(name.strip("'"), allowed, n=1)]
        hint = f" (did you mean {', '.join(near)}?)" if near else ""
        messages.append(f"unknown key {', '.join(unknown)}{hint}; must be one of {', '.join(allowed)}")
    if missing := [repr(key) for key in required if key not in data]:
        messages.append(f"missing key {', '.join(missing)}; required are {', '.join(required)}")
    if messages:
        raise ValueError(f"{where}: {'; '.join(messages)}")


def mapping(data: Any, where: str) -> dict[str, Any]:
    """Return a mapping of names as a dict."""
    if not isinstance(data, Mapping):
        raise ValueError(f"{where}: {data!r} must be a mapping of names")
    return {str(name): entry for name, entry in data.items()}


def entries(data: Any, where: str) -> Sequence[Any]:
    """Return a list; a string is not accepted."""
    if isinstance(data, str) or not isinstance(data, Sequence):
        raise ValueError(f"{where}: {data!r} must be a list")
    return data


def text(data: Any, where: str) -> str:
    """Return a string or number as stripped, non-empty text."""
    if isinstance(data, bool):  # YAML reads yes, no, on and off as booleans
        raise ValueError(f"{where}: {data!r} is a boolean; put the word in quotes")
    if not isinstance(data, str | int | float) or not str(data).strip():
        raise ValueError(f"{where}: {data!r} must be a text that is not empty")
    return str(data).strip()


def texts(data: Any, where: str) -> tuple[str, ...]:
    """Return a list of distinct texts; empty for None."""
    result = tuple(text(entry, where) for entry in entries(data or [], where))
    check_unique(result, where=where, kind="entry")
    return result


def or_null(read: Reader) -> Reader:
    """Return a reader that also accepts null."""
    return lambda data, where: None if data is None else read(data, where)


def or_empty(read: Reader) -> Reader:
    """Return a reader of a text that may be empty."""
    return lambda data, where: read(data, where) if data else ""


def one_of(allowed: Sequence[str]) -> Reader:
    """Return a reader of one of several words."""

    def read(data: Any, where: str) -> str:
        if data not in allowed:
            raise ValueError(f"{where}: {data!r} must be one of {', '.join(allowed)}")
        return str(data)

    return read


def boolean(description: str = "true or false") -> Reader:
    """Return a reader of true or false; `description` says in messages what they mean."""

    def read(data: Any, where: str) -> bool:
        if not isinstance(data, bool):
            raise ValueError(f"{where}: {data!r} must be {description}")
        return data

    return read


def matching(pattern: re.Pattern[str], description: str) -> Reader:
    """Return a reader of a text with a form; `description` says in messages what it must be or have."""

    def read(data: Any, where: str) -> str:
        value = text(data, where)
        if not pattern.fullmatch(value):
            raise ValueError(f"{where}: {value!r} must {description}")
        return value

    return read


def list_of(read: Reader) -> Reader:
    """Return a reader of a list, as a tuple."""
    return lambda data, where: tuple(
        read(entry, f"{where}, entry {n}") for n, entry in enumerate(entries(data, where), 1)
    )


def map_of(read: Reader) -> Reader:
    """Return a reader of a mapping of names."""
    return lambda data, where: {n: read(entry, f"{where}, {n!r}") for n, entry in mapping(data, where).items()}


def instance_of(kind: Callable[..., T], keys: Mapping[str, Key]) -> Callable[[Any, str], T]:
    """Return a reader of a mapping as an instance of a dataclass whose fields are the keys."""
    return lambda data, where: kind(**read_keys(data, keys, where))


def as_string(data: Any, where: str) -> str:
    """Return any value as it prints, empty for null."""
    return "" if data is None else str(data)


def check_unique(values: Iterable[Any], *, where: str, kind: str) -> None:
    """Check that no value occurs twice.

    Args:
        kind: what a value is called in the message.
    """
    if twice := [repr(value) for value, count in Counter(values).items() if count > 1]:
        raise ValueError(f"{where}: duplicate {kind} {', '.join(twice)}")


REQUIRED_TEXT = Key(text, "", required=True)
OPTIONAL_TEXT = Key(or_empty(text), "")
TEXTS = Key(texts, ())
AS_IS = Key(lambda data, _: data)  # read elsewhere
