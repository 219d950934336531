"""Base of the settings dataclasses of stages, which the configuration of a job extends."""

from dataclasses import dataclass, fields
from typing import TypeVar

Part = TypeVar("Part", bound="Settings")


@dataclass(kw_only=True)
class Settings:
    """Values that a stage is built with, validated on construction.

    A job's configuration inherits from the settings of its stages, so that each key is declared, explained and
    validated once, next to the class that uses it. The dataclasses are not frozen because configuration dataclasses are
    not, and Python does not allow inheritance between the two kinds.
    """

    def __post_init__(self) -> None:
        """Validate the values; a subclass validates its own and calls `super().__post_init__()`.

        Raises:
            ValueError: a value is not allowed; the message begins with `key=value`.
        """

    @classmethod
    def part_of(cls: type[Part], config: Part) -> Part:
        """Return an instance of this class with the values of `config`, an instance of a subclass."""
        return cls(**{field.name: getattr(config, field.name) for field in fields(cls)})


def check_positive(**values: float | None) -> None:
    """Check that numbers are above 0; None, a value that is computed later, passes.

    Raises:
        ValueError: a number is 0 or less; the message names its key.
    """
    for key, value in values.items():
        if value is not None and not value > 0:
            raise ValueError(f"{key}={value:g}: must be above 0")
