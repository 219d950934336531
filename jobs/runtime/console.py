"""What a job writes to the terminal."""

import os
import sys


def say(text: str, *, err: bool = False) -> None:
    """Write a line for the person at the terminal."""
    stream = sys.stderr if err else sys.stdout
    line = text.rstrip("\n") + "\n"
    try:
        try:
            stream.write(line)
        except UnicodeEncodeError:  # a terminal that has no letters for a title must not end a run
            stream.write(line.encode(stream.encoding, "replace").decode(stream.encoding))
        stream.flush()
    except BrokenPipeError:  # whoever read along (head, less) has gone; the run has not
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
