"""Console output of all jobs."""

import os
import re
import sys

# By these characters a title or a name could steer a terminal or reorder a line: C0 but tab and line break, DEL, C1,
# and the marks of bidirectional text.
_UNSAFE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def say(text: str, *, err: bool = False) -> None:
    """Print a line, to stderr if `err`; characters that steer the terminal are written as \\x1b."""
    stream = sys.stderr if err else sys.stdout
    line = printable(text.rstrip("\n")) + "\n"
    try:
        try:
            stream.write(line)
        except UnicodeEncodeError:  # a terminal that cannot display a title must not end a run
            stream.write(line.encode(stream.encoding, "replace").decode(stream.encoding))
        stream.flush()
    except BrokenPipeError:  # the reader (head, less) ended; the run continues
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def printable(text: str) -> str:
    """`text` with characters that steer a terminal, or reorder a line, as escapes such as \\x1b and \\u202e."""
    return _UNSAFE.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def confirm(question: str) -> bool | None:
    """Ask a question that `y` or `yes` affirms; None without a terminal."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return None
    sys.stderr.write(printable(f"{question} [y/N] "))
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")
