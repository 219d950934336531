"""The key `paper` of `report`: which arrangement to make, what it needs, and the numbers that the paper prints."""

from dataclasses import dataclass, field
from typing import Any

from omegaconf import MISSING


@dataclass
class PrintedTable:
    """Numbers as printed in a table or figure of a paper.

    `rows` maps a row's name to one number per column, null where the paper has none. With `percent: true`, percentages
    are as printed (26.49); `PrintedNumbers` divides them by 100.
    """

    source: str = MISSING  # such as: Century, table 2
    columns: list[str] = field(default_factory=list)
    rows: dict[str, list[Any]] = field(default_factory=dict)
    percent: bool = True


@dataclass
class PaperSettings:
    """Keys of `paper`. The files of conf/paper also set keys of `metrics`; a key on the command line wins over both."""

    name: str | None = None  # the arrangement: a module of jobs.papers
    title: str = ""  # title of the section of the page
    # role in the paper -> rubric of the ratings, such as images: century_labels
    rubrics: dict[str, str] = field(default_factory=dict)
    # group of raters -> its name in the paper, whose printed numbers are next to the group's own
    groups: dict[str, str] = field(default_factory=dict)
    # GLOB=NAME: likewise for the raters, groups and models that a glob matches; these come first
    names: list[str] = field(default_factory=list)
    condition: str | None = None  # of the ratings, if their questions were answered under several
    # added to the keys of these names of metrics if the items have these attributes
    disaggregate: list[str] = field(default_factory=list)
    compare: list[str] = field(default_factory=list)  # added to metrics.compare if the items have these attributes
    contrast: list[str] = field(default_factory=list)  # added to metrics.contrast likewise
    baseline_condition: str | None = None  # metrics.baseline_condition, if the ratings have this condition
    reference_condition: str | None = None  # metrics.reference_condition, if the ratings have this condition
    options: dict[str, str] = field(default_factory=dict)  # of the arrangement, which documents them
    printed: dict[str, PrintedTable] = field(default_factory=dict)  # table or figure -> its numbers
