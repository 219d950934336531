"""Console output of all jobs: lines of text, or with `log=json` one JSON object per line."""

import contextlib
import json
import logging
import os
import re
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from actors.fetching.signed_urls import without_secrets
from jobs.errors import InputError

FORMATS = ("text", "json")
LONGEST = 100_000  # characters of a line; a longer line must have a text where a name is expected

# Characters with which a title or a name could steer a terminal or reorder a line: C0 except tab and line break, DEL,
# C1, and the marks of bidirectional text.
_UNSAFE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_format_of_python = warnings.formatwarning


@dataclass
class _Output:
    run: str | None = None  # the run's name in JSON objects; None: lines are text
    fields: dict[str, str] = field(default_factory=dict)  # additional fields of JSON objects
    is_muted: bool = False  # nothing is printed to standard output


_output = _Output()


def show_log_records() -> None:
    """Print warnings of Python's logging as lines of this process, unless the process has handlers already.

    Warnings of Python itself, for example of a character that a plot's font lacks, are printed as safely as other
    lines.
    """
    warnings.formatwarning = _format_warning
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Formatter())
    logging.basicConfig(level=logging.WARNING, handlers=[handler])


def use_format(log: str) -> None:
    """Print JSON objects from now on if `log` is json. Text changes nothing: steps print in the format of their run.

    Raises:
        InputError: `log` is neither text nor json.
    """
    if log not in FORMATS:
        raise InputError(f"no such format; must be one of {', '.join(FORMATS)}", key="log", value=log)
    if log == "json" and not is_json():
        _output.run = uuid4().hex
        logging.captureWarnings(True)
        for handler in logging.getLogger().handlers:
            handler.setFormatter(_Formatter())


def use_text() -> None:
    """Print lines as text from now on, not as JSON objects."""
    _output.run = None
    logging.captureWarnings(False)


def is_json() -> bool:
    """Return whether lines are JSON objects."""
    return _output.run is not None


@contextlib.contextmanager
def fields(**values: str) -> Iterator[None]:
    """Add fields to the JSON objects that are printed within the context."""
    before = _output.fields
    _output.fields = before | values
    try:
        yield
    finally:
        _output.fields = before


@contextlib.contextmanager
def muted() -> Iterator[None]:
    """Print nothing to standard output within the context."""
    before = _output.is_muted
    _output.is_muted = True
    try:
        yield
    finally:
        _output.is_muted = before


def say(text: str, *, err: bool = False, level: str | None = None) -> None:
    """Print a line, to stderr if `err`; characters that steer the terminal are written as \\x1b.

    Args:
        level: of the JSON object; None: error if `err`, else info.
    """
    if _output.is_muted and not err:
        return
    write(sys.stderr if err else sys.stdout, text, level=level or ("error" if err else "info"))


def write(stream: Any, text: str, *, level: str = "info", **facts: Any) -> None:
    """Print a line to `stream`.

    Args:
        level: of the JSON object: info, warning or error.
        facts: additional fields of the JSON object, for programs that read it.
    """
    if is_json():
        if not text.strip():
            return
        line = as_json(text, level=level, **facts) + "\n"
    else:
        line = printable(text.rstrip("\n")) + "\n"
    try:
        try:
            stream.write(line)
        except UnicodeEncodeError:  # a terminal that cannot display a title must not end a run
            stream.write(line.encode(stream.encoding, "replace").decode(stream.encoding))
        stream.flush()
    except BrokenPipeError:  # the reader (head, less) ended; the run continues
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def as_json(text: str, *, level: str, **facts: Any) -> str:
    """Return a line as a JSON object: time (UTC), level, run, fields of the context, message and facts."""
    time = datetime.now(UTC).isoformat(timespec="milliseconds")
    return json.dumps(
        {
            "time": time,
            "level": level,
            "run": _output.run,
            **_output.fields,
            "message": printable(text.strip()),
            **facts,
        }
    )


class _Formatter(logging.Formatter):
    """Formats the records of Python's logging, which libraries write, as lines of this process."""

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        return as_json(text, level=record.levelname.lower(), logger=record.name) if is_json() else printable(text)


def _format_warning(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
) -> str:
    return printable(_format_of_python(message, category, filename, lineno, line))


def printable(text: str) -> str:
    """Return `text` without credentials and signatures in its URLs.

    Characters that steer a terminal, or reorder a line, are written as escapes such as \\x1b and \\u202e. A line of
    more than `LONGEST` characters is cut.
    """
    if len(text) > LONGEST:
        text = "\n".join(line if len(line) <= LONGEST else f"{line[:LONGEST]}…" for line in text.split("\n"))
    return _UNSAFE.sub(lambda match: match[0].encode("unicode_escape").decode(), without_secrets(text))


def confirm(question: str) -> bool | None:
    """Ask a question and return whether the answer is `y` or `yes`; None without a terminal."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return None
    sys.stderr.write(printable(f"{question} [y/N] "))
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")
