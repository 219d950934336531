"""Incremental reading of JSON: the elements of a large array, the objects of JSON lines."""

import codecs
import json
import re
from collections.abc import Iterator
from typing import Any

from actors.numbers import json_integer
from jobs.errors import InputError
from jobs.store.files import locations
from jobs.store.writer import RAW_KEPT, Reject, Rejects

CHUNK = 1 << 20
MAX_ELEMENT = 256 << 20  # characters of one element of an array; a task with its annotations has thousands
_SPACE = " \t\r\n"
_ESCAPED = re.compile(r"\\u[dD][89a-fA-F]")  # a surrogate; two such escapes encode one character beyond U+FFFF


def elements(uri: str) -> Iterator[Any]:
    """Yield the elements of the JSON array in `uri`, with one element and one chunk in memory.

    Raises:
        InputError: the file is empty, not an array, not UTF-8, invalid or truncated.
    """
    decoder = json.JSONDecoder(parse_int=json_integer)
    buffer, closed, begun, number = "", False, False, 0
    chunks = _chunks(uri)
    while True:
        if not begun:
            buffer = (buffer + (chunk := next(chunks, ""))).lstrip(_SPACE + "\ufeff")
            if not buffer:
                if not chunk:
                    raise InputError(f"{uri}: empty; must be a JSON array of tasks")
                continue
            if buffer[0] != "[":
                raise InputError(f"{uri}: begins with {buffer[:1]!r}; must be a JSON array of tasks")
            buffer, begun = buffer[1:], True
        buffer = buffer.lstrip(_SPACE + ",")
        if buffer.startswith("]"):
            return
        try:
            element, end = decoder.raw_decode(buffer)
            if end == len(buffer) and not closed:
                raise json.JSONDecodeError("may continue", buffer, end)  # a number or word cut by the chunk's end
        except RecursionError as error:
            raise InputError(f"{uri}: element {number + 1} of the array is nested too deeply") from error
        except json.JSONDecodeError as error:
            if closed or len(buffer) > MAX_ELEMENT:
                raise InputError(f"{uri}: element {number + 1} of the array is not valid JSON ({error.msg})") from error
            more = [chunk for _ in range(1 + len(buffer) // CHUNK) if (chunk := next(chunks, ""))]  # at least doubles
            closed = not more
            buffer += "".join(more)
            continue
        yield _storable(element) if _ESCAPED.search(buffer, 0, end) else element
        number += 1
        buffer = buffer[end:]


def lines(uri: str, reject: Rejects, *, private: bool = False) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number from 1, object) for a file of JSON lines; blank lines are skipped, other lines go to `reject`.

    Args:
        private: keep the text of lines out of rejects.

    Raises:
        InputError: the file is empty, or its first line is not a JSON object.
    """
    fs, path = locations.filesystem(uri)
    seen = False
    with locations.named_errors(uri), fs.open_input_stream(path) as stream:
        for number, raw in enumerate(raw_lines(stream), start=1):
            if not raw.strip():
                continue
            try:
                text = raw.removeprefix(codecs.BOM_UTF8).decode()  # json would also decode the bytes of half characters
                data = json.loads(text, parse_int=json_integer)
                data = _storable(data) if _ESCAPED.search(text) else data
            except (ValueError, RecursionError) as error:
                data = error
            if isinstance(data, dict):
                seen = True
                yield number, data
            elif not seen:
                raise InputError(f"{uri}: line {number} is not a JSON object; must be a file of JSON lines")
            else:
                kept = "" if private else raw[:RAW_KEPT].decode("utf-8", "replace")
                reject(Reject(uri, number, "not_json", "the line is not a JSON object", kept))
    if not seen:
        raise InputError(f"{uri}: empty; must be a file of JSON lines")


def raw_lines(stream: Any) -> Iterator[bytes]:
    """Yield the lines of a byte stream, without their line breaks."""
    rest = b""
    while chunk := stream.read(CHUNK):
        *complete, rest = (rest + chunk).split(b"\n")
        yield from complete
    if rest:
        yield rest


def _storable(value: Any) -> Any:
    """Return `value` with question marks in place of lone surrogates, which UTF-8 cannot encode.

    Tools leave them where they cut a text.
    """
    return json.loads(json.dumps(value, ensure_ascii=False).encode(errors="replace"))


def _chunks(uri: str) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8")()
    fs, path = locations.filesystem(uri)
    with locations.named_errors(uri), fs.open_input_stream(path) as stream:
        try:
            while chunk := stream.read(CHUNK):
                if text := decoder.decode(chunk):
                    yield text
            yield decoder.decode(b"", final=True)
        except UnicodeDecodeError as error:
            raise InputError(f"{uri}: not UTF-8 ({error.reason}); save the export as UTF-8") from error
