"""Console output of all jobs."""

import os
import sys


def say(text: str, *, err: bool = False) -> None:
    """Print a line, to stderr if `err`."""
    stream = sys.stderr if err else sys.stdout
    line = text.rstrip("\n") + "\n"
    try:
        try:
            stream.write(line)
        except UnicodeEncodeError:  # a terminal that cannot display a title must not end a run
            stream.write(line.encode(stream.encoding, "replace").decode(stream.encoding))
        stream.flush()
    except BrokenPipeError:  # the reader (head, less) ended; the run continues
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
