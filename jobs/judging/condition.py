"""The condition of a run: from its key, or else from the items that it reads."""

from dataclasses import replace
from typing import TypeVar

from actors.conditions import ConditionSettings
from jobs.runtime.process.console import say
from jobs.store.reading import TableSource

METADATA = "remine.condition"  # in the footers of a table of items
Config = TypeVar("Config", bound=ConditionSettings)


def with_condition(cfg: Config, items: TableSource) -> Config:
    """Return `cfg` with the condition of the table `items` if `cfg` has none, and print that condition.

    Use it in each job that writes ratings or responses about items, before the plan is made: the condition is part of
    the run's identity.
    """
    condition = items.metadata.get(METADATA, "")
    if cfg.condition or not condition:
        return cfg
    say(f"condition={condition}: taken from {items.uri}")
    return replace(cfg, condition=condition)
