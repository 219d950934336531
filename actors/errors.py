"""One-line texts of errors that libraries raise."""


def first_line(error: BaseException) -> str:
    """The first line of an error's text, or the name of its type if it has no text.

    A first line that ends with a colon announces the second one, which is joined to it.
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    return " ".join(lines[:2]) if lines[0].endswith(":") else lines[0]
