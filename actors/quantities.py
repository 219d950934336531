"""Numbers of things, for messages."""


def quantity(count: int, noun: str) -> str:
    """Return a number with its noun, such as `1 row`, `2,000 rows`, `3 entities` or `2 classes`.

    Args:
        noun: in the singular, with a regular plural.
    """
    return f"{count:,} {noun if count == 1 else _plural(noun)}"


def _plural(noun: str) -> str:
    if noun.endswith("y") and noun[-2:-1] not in "aeiou":
        return f"{noun[:-1]}ies"
    return f"{noun}es" if noun.endswith(("s", "x", "ch", "sh")) else f"{noun}s"
