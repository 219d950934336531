"""JSON read a piece at a time: the elements of a large array, the objects of JSON lines."""

import codecs
import json
from collections.abc import Iterator
from typing import Any

from actors.numbers import json_integer
from jobs.errors import InputError
from jobs.store import locations
from jobs.store.writer import RAW_KEPT, Reject, Rejects

CHUNK = 1 << 20
MAX_ELEMENT = 256 << 20  # characters of one element of an array; a task with its annotations has thousands
_SPACE = " \t\r\n"


def elements(uri: str) -> Iterator[Any]:
    """The elements of the JSON array in `uri`; one of them and a chunk are held at a time.

    Raises:
        InputError: empty, no array at the top, not UTF-8, or JSON that is broken or breaks off.
    """
    decoder = json.JSONDecoder(parse_int=json_integer)
    buffer, closed, begun, number = "", False, False, 0
    chunks = _chunks(uri)
    while True:
        if not begun:
            buffer = (buffer + (chunk := next(chunks, ""))).lstrip(_SPACE + "\ufeff")
            if not buffer:
                if not chunk:
                    raise InputError(f"{uri}: empty")
                continue
            if buffer[0] != "[":
                raise InputError(f"{uri}: begins with {buffer[:1]!r}; a JSON array of tasks is needed")
            buffer, begun = buffer[1:], True
        buffer = buffer.lstrip(_SPACE + ",")
        if buffer.startswith("]"):
            return
        try:
            element, end = decoder.raw_decode(buffer)
            if end == len(buffer) and not closed:
                raise json.JSONDecodeError("may go on", buffer, end)  # a number or word cut by the chunk
        except json.JSONDecodeError as error:
            if closed or len(buffer) > MAX_ELEMENT:
                raise InputError(f"{uri}: element {number + 1} of the array is no JSON ({error.msg})") from error
            grown = [chunk for _ in range(1 + len(buffer) // CHUNK) if (chunk := next(chunks, ""))]  # doubles at least
            closed = not grown
            buffer += "".join(grown)
            continue
        yield element
        number += 1
        buffer = buffer[end:]


def lines(uri: str, reject: Rejects, *, private: bool = False) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of a file of JSON lines with their line, from 1; other lines are rejects, blank ones nothing.

    Raises:
        InputError: empty, or the first line is no JSON object.
    """
    fs, path = locations.filesystem(uri)
    seen = False
    with locations.named_errors(uri), fs.open_input_stream(path) as stream:
        for number, raw in enumerate(_lines(stream), start=1):
            if not raw.strip():
                continue
            try:
                data = json.loads(raw.removeprefix(codecs.BOM_UTF8), parse_int=json_integer)
            except ValueError as error:
                data = error
            if isinstance(data, dict):
                seen = True
                yield number, data
            elif not seen:
                raise InputError(f"{uri}: line {number} is no JSON object; a file of JSON lines is needed")
            else:
                kept = "" if private else raw[:RAW_KEPT].decode("utf-8", "replace")
                reject(Reject(uri, number, "not_json", "a line that is no JSON object", kept))
    if not seen:
        raise InputError(f"{uri}: empty")


def _lines(stream: Any) -> Iterator[bytes]:
    rest = b""
    while chunk := stream.read(CHUNK):
        *whole, rest = (rest + chunk).split(b"\n")
        yield from whole
    if rest:
        yield rest


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
            raise InputError(f"{uri}: not UTF-8 ({error.reason})") from error
