"""The name of the condition under which items are rated: the key `condition=` of several jobs."""

from jobs.errors import InputError

MAX_LENGTH = 100  # characters


def check(condition: str) -> None:
    """Raise InputError unless `condition` is one line of at most `MAX_LENGTH` characters without spaces around it."""
    if condition != condition.strip() or len(condition.splitlines()) > 1 or len(condition) > MAX_LENGTH:
        shown = condition if len(condition) <= MAX_LENGTH else f"{condition[:MAX_LENGTH]}…"
        raise InputError(
            f"condition={shown!r}: must be one line of at most {MAX_LENGTH} characters, without spaces around it"
        )
