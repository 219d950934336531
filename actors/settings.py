"""Bases of the settings dataclasses of stages, which the configuration of a job extends.

Every key of a configuration is part of the identity of the table that the job writes, unless its type says otherwise:
`RuntimeOnly[int]` is a key that changes no rows, and `Location[str]` the place of data, whose content the job adds to
the identity or to the units (`jobs.store.identity.identity_of`).
"""

from dataclasses import dataclass, fields
from typing import Annotated, TypeVar

from actors.errors import SettingError

Part = TypeVar("Part", bound="Settings")
LONGEST = 100  # characters
NOT_IDENTIFYING = "not part of a table's identity"
Kind = TypeVar("Kind")
RuntimeOnly = Annotated[Kind, NOT_IDENTIFYING]
Location = Annotated[Kind, NOT_IDENTIFYING]


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
            raise SettingError("must be above 0", key, value)


@dataclass(kw_only=True)
class ConditionSettings(Settings):
    """The condition of a run's rows."""

    # rarely: experimental condition, a column of the rows; if empty, the condition of the table of items, if any
    condition: str = ""

    def __post_init__(self) -> None:
        check_condition(self.condition)
        super().__post_init__()


def check_condition(condition: str) -> None:
    """Check the text of a condition.

    Raises:
        ValueError: it has several lines, leading or trailing white space, or more than 100 characters.
    """
    if condition != condition.strip() or not condition.isprintable() or len(condition) > LONGEST:
        why = f"must be one line of at most {LONGEST} characters without outer white space"
        raise SettingError(why, "condition", condition)
