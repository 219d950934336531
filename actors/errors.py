"""Errors of models, settings and files that cannot be used, and one-line texts for errors of libraries.

The errors name their parts as `jobs.errors.JobError` does, so that jobs give them to their users as they are.
"""


class SettingError(ValueError):
    """The value of a setting is not allowed; the message is `key=value: why`."""

    def __init__(self, why: str, key: str, value: object) -> None:
        super().__init__(why, key, value)
        self.why, self.key, self.value = why, key, value

    def __str__(self) -> str:
        return f"{self.key}={'null' if self.value is None else self.value}: {self.why}"


class FileError(ValueError):
    """The content of a file of `conf/`, or of a user's file in its place, is wrong.

    Attributes:
        key: the one that chooses such files, such as `rubric`.
        why: what is wrong, without the file.
    """

    def __init__(self, text: str, key: str, why: str) -> None:
        super().__init__(text, key, why)
        self.text, self.key, self.why = text, key, why

    @classmethod
    def of(cls, key: str, name: str, why: str) -> "FileError":
        """Return the error of the file of this name."""
        return cls(f"{key}={name}: {why}", key, why)

    def __str__(self) -> str:
        return self.text


# From errors of transformers and torch about weights that do not match the config.
_OTHER_SHAPES = ("ignore_mismatched_sizes", "size mismatch")


class ModelError(ValueError):
    """A model cannot be used. The message is one line and begins with the model as the configuration names it.

    Attributes:
        why: the message without the model.
        place: the model.
    """

    def __init__(self, why: str, place: str) -> None:
        super().__init__(why, place)
        self.why, self.place = why, place

    def __str__(self) -> str:
        return f"{self.place}: {self.why}"


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
