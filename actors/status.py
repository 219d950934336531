"""The status of a row. A row that is not `ok` has no score; it is counted, never averaged."""

import unicodedata
from enum import StrEnum
from typing import NamedTuple


class Status(StrEnum):
    """The outcome of the work on a row."""

    OK = "ok"
    REFUSED = "refused"  # a model or a person declined to answer
    UNPARSED = "unparsed"  # the rubric does not allow the answer
    OUT_OF_RANGE = "out_of_range"  # a number outside the scale
    TRUNCATED = "truncated"  # the answer reached the token limit
    MISSING_INPUT = "missing_input"  # the picture or text to judge or embed was missing
    SKIPPED = "skipped"  # left out by a rule; error_kind says which
    REPORTED = "reported"  # a person reported the picture
    MISSING = "missing"  # the picture does not exist at its source
    BLOCKED = "blocked"  # the source or a safety rule forbids fetching it
    ERROR = "error"  # see error_kind and error_message


# Causes of rows with the status `error`, by `error_kind`: the row's own input, including input that a model does not
# accept; a network or host; or, for every other kind, such as the name of an exception, the run's machines, storage or
# model.
INPUT_KINDS = frozenset(
    """
    bad_answer bad_name bad_url decode_failed empty encoded_body html http json no_questions no_target not_an_image
    picture_count prompt_too_long resize_failed text_count too_elongated too_large too_many_bytes too_many_redirects
    truncated unsupported
    """.split()
)
NETWORK_KINDS = frozenset("busy connection dns host_timeouts incomplete_body server timeout tls".split())

EMPTY_ANSWER = "empty_answer"  # kind of an unparsed row: its text is blank
# Characters that show nothing, but are letters, marks or symbols in Unicode: fillers, a joiner, blank braille.
_SHOW_NOTHING = {*"\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0", *map(chr, range(0xFE00, 0xFE10))}

STATUSES: tuple[str, ...] = tuple(s.value for s in Status)


def is_blank(text: str | None) -> bool:
    """Return whether a text shows nothing: white space, control characters and invisible ones of no width."""
    return not text or all(unicodedata.category(c)[0] in "ZC" or c in _SHOW_NOTHING for c in text)


class Reason(NamedTuple):
    """Why a row is not ok: the columns `error_kind` and `error_message`."""

    kind: str
    message: str


_FAILED = "failed at its stage, "  # begins the status of a failed row where there is no column `error_kind`


def failed_status(reason: Reason) -> str:
    """Return the status that makes a stage return a row without `error_kind` as an error with `reason`."""
    return f"{_FAILED}{reason.kind}: {reason.message}"


def failed_reason(status: str | None) -> Reason | None:
    """Return the reason in a status made by `failed_status`; None for every other status."""
    if status is None or not status.startswith(_FAILED):
        return None
    kind, _, message = status.removeprefix(_FAILED).partition(": ")
    return Reason(kind, message)


PROCESS_DIED = Reason("process_died", "the process ended each time at this row: memory, or a crash of a native library")
TIMED_OUT = Reason("timed_out", "the process was ended at this row: it took longer than row_timeout_s")
