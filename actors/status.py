"""The one list of status words. Anything but `ok` carries no score and is counted, never averaged."""

from enum import StrEnum


class Status(StrEnum):
    """How the work on a row ended."""

    OK = "ok"
    REFUSED = "refused"  # a model or a person declined to answer
    UNPARSED = "unparsed"  # there was an answer, but not one the rubric allows
    OUT_OF_RANGE = "out_of_range"  # a number outside the scale
    TRUNCATED = "truncated"  # the context or the answer was cut
    MISSING_INPUT = "missing_input"  # what was to be judged or embedded was not there
    SKIPPED = "skipped"  # left out by a rule that is named
    REPORTED = "reported"  # a person reported the picture
    MISSING = "missing"  # the picture does not exist at its source
    BLOCKED = "blocked"  # the source or a safety rule forbids fetching it
    ERROR = "error"  # see error_kind and error_message


STATUSES: tuple[str, ...] = tuple(s.value for s in Status)
