"""The experimental condition under which a stage answers, such as with or without a linked article."""

from dataclasses import dataclass

from actors.settings import Settings

LONGEST = 100  # characters


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
        raise ValueError(
            f"condition={condition!r}: must be one line of at most {LONGEST} characters without outer white space"
        )
