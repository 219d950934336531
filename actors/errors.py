"""The error of a model that cannot be loaded, and one-line texts for errors raised by libraries."""

# From errors of transformers and torch about weights that do not match the config.
_OTHER_SHAPES = ("ignore_mismatched_sizes", "size mismatch")


class ModelError(ValueError):
    """A model cannot be loaded. The message is one line and begins with the model as the configuration names it."""


def has_other_shapes(error: BaseException) -> bool:
    """Return whether a library refused weights because their shapes differ from those of the model's config."""
    return any(words in str(error) for words in _OTHER_SHAPES)


def first_line(error: BaseException) -> str:
    """Return the first line of an error's text, or the name of its type if it has no text.

    If the first line ends with a colon, the second one is appended.
    """
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not lines:
        return type(error).__name__
    return " ".join(lines[:2]) if lines[0].endswith(":") else lines[0]
