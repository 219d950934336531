"""Incremental reading of JSON: the elements of a large array, the objects of JSON lines."""

import codecs
import json
import re
from collections.abc import Iterator
from typing import Any

from actors.untrusted import TooDeepError, parse_first_json, parse_json
from jobs.errors import InputError
from jobs.store.files import locations
from jobs.store.writer import RAW_KEPT, Reject, Rejects

CHUNK = 1 << 20
MAX_ELEMENT = 256 << 20  # characters of one element of an array; a task with its annotations has thousands
LINES_TRIED = 1000  # lines of which none is an object, after which the file counts as another kind of file
_SIGNS = re.compile(r'\\.?|["\[\]{}]', re.DOTALL)  # of which the nesting of JSON consists
_SPACE = " \t\r\n"


def elements(uri: str) -> Iterator[Any]:
    """Yield the elements of the JSON array in `uri`, with one element and one chunk in memory.

    An element that is nested too deeply is a `TooDeepError`. Several arrays, as in exports joined into one file, are
    read as one.

    Raises:
        InputError: the file is empty, not an array, not UTF-8, invalid or truncated, or has text after an array.
    """
    text, number = _Ahead(_chunks(uri)), 0
    first = text.after(_SPACE + "\ufeff")
    if not first:
        raise InputError("empty; must be a JSON array of tasks", place=uri)
    if first != "[":
        raise InputError(f"begins with {first!r}; must be a JSON array of tasks", place=uri)
    while first:
        if first != "[":
            raise InputError(
                f"{first!r} after the end of the array, which has {number:,} elements; must be a JSON array of "
                "tasks, or several one after another",
                place=uri,
            )
        text.skip()
        while (first := text.after(_SPACE + ",")) != "]":
            number += 1
            yield _element(uri, text, number)
        text.skip()
        first = text.after(_SPACE + "\ufeff")


def _element(uri: str, text: "_Ahead", number: int) -> Any:
    """Return the next element, which begins where `text` is."""
    while True:
        try:
            element, end = parse_first_json(text.buffer)
            if end == len(text.buffer) and not text.closed:
                raise json.JSONDecodeError("may continue", text.buffer, end)  # a number cut by the chunk's end
        except TooDeepError as error:
            _skip_nested(uri, text, number)
            return error
        except json.JSONDecodeError as error:
            if text.closed or len(text.buffer) > MAX_ELEMENT:
                raise InputError(f"element {number} of the array is not valid JSON ({error.msg})", place=uri) from error
            text.extend()
            continue
        text.skip(end)
        return element


def _skip_nested(uri: str, text: "_Ahead", number: int) -> None:
    """Skip an array or object, which begins where `text` is, without parsing it."""
    depth, is_text, sign = 0, False, ""
    while text.buffer:
        for match in _SIGNS.finditer(text.buffer):
            sign = match[0]
            is_text ^= sign == '"'
            if is_text or sign[0] in '"\\':
                continue
            depth += 1 if sign in "[{" else -1
            if not depth:
                text.skip(match.end())
                return
        is_cut = text.buffer.endswith("\\") and sign == "\\"  # before the character that it escapes
        text.skip(len(text.buffer) - is_cut)
        text.extend()
    raise InputError(f"element {number} of the array is nested too deeply, and the file ends within it", place=uri)


class _Ahead:
    """Text that is read in chunks, of which `buffer` has the beginning of what is left; `closed` if it has all."""

    def __init__(self, chunks: Iterator[str]) -> None:
        self.buffer, self.closed = "", False
        self._chunks = chunks

    def after(self, skipped: str) -> str:
        """Skip the characters `skipped`, and return the next one; empty at the end."""
        while not (rest := self.buffer.lstrip(skipped)) and not self.closed:
            self.buffer = next(self._chunks, "")
            self.closed = not self.buffer
        self.buffer = rest
        return rest[:1]

    def skip(self, characters: int = 1) -> None:
        self.buffer = self.buffer[characters:]

    def extend(self) -> None:
        """Read at least as much as the buffer has."""
        more = [chunk for _ in range(1 + len(self.buffer) // CHUNK) if (chunk := next(self._chunks, ""))]
        self.closed = not more
        self.buffer += "".join(more)


def lines(uri: str, reject: Rejects, *, private: bool = False) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number from 1, object) for a file of JSON lines; blank lines are skipped, other lines go to `reject`.

    Args:
        private: keep the text of lines out of rejects.

    Raises:
        InputError: the file is empty, or none of its first lines is a JSON object.
    """
    held: list[Reject] | None = []  # rejects before the first object; None after it
    with locations.named_errors(uri), locations.opened(uri) as stream:
        for number, raw in enumerate(raw_lines(stream), start=1):
            if not raw.strip():
                continue
            try:
                data, message = parse_json(raw), "the line is not a JSON object"
            except ValueError as error:
                data, message = None, f"the line is not JSON: {error}"
            if isinstance(data, dict):
                for earlier in held or ():
                    reject(earlier)
                held = None
                yield number, data
                continue
            kept = "" if private else raw[:RAW_KEPT].decode("utf-8", "replace")
            entry = Reject(uri, number, "not_json", message, kept)
            if held is None:
                reject(entry)
                continue
            held.append(entry)
            if len(held) == LINES_TRIED:
                break
    if held:
        raise InputError(f"line {held[0].position} is not a JSON object; must be a file of JSON lines", place=uri)
    if held is not None:
        raise InputError("empty; must be a file of JSON lines", place=uri)


def raw_lines(stream: Any) -> Iterator[bytes]:
    """Yield the lines of a byte stream, without their line breaks."""
    rest = b""
    while chunk := stream.read(CHUNK):
        *complete, rest = (rest + chunk).split(b"\n")
        yield from complete
    if rest:
        yield rest


def _chunks(uri: str) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8")()
    with locations.named_errors(uri), locations.opened(uri) as stream:
        try:
            while chunk := stream.read(CHUNK):
                if text := decoder.decode(chunk):
                    yield text
            yield decoder.decode(b"", final=True)
        except UnicodeDecodeError as error:
            raise InputError(f"not UTF-8 ({error.reason}); save the export as UTF-8", place=uri) from error
