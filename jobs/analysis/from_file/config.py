"""The keys of `metrics`, and which of them go together."""

from dataclasses import dataclass, field, fields

from omegaconf import MISSING

from jobs.errors import InputError
from jobs.metrics.suite import MetricSettings

TASKS = ("agreement", "crowdtruth", "dsg")
# Keys of `metrics` that only tables have something for: models, responses, concepts, spans, conditions.
OF_TABLES = frozenset({"group_by", "leave_out", "concept", "overlap"})


@dataclass
class Columns:
    """Names of columns; with a comma several, whose texts are joined."""

    item: str | None = None  # what was rated; for dsg the picture
    rater: str | None = None  # who answered
    value: str | None = None  # the answer: a number, a category, yes or no
    question: str | None = None  # agreement: metrics for each; dsg: the question's id
    parents: str | None = None  # dsg: ids of questions that must be answered yes
    valid: str | None = None  # dsg: no, false, 0 or invalid leaves the question out


@dataclass
class PeopleColumns:
    """Names of columns of people's ratings of pictures (dsg)."""

    item: str = "t2i_model,item_id"  # the picture
    value: str = "answer"  # its score


@dataclass
class AnalyzeConfig:
    """Keys of `metrics`."""

    input: str = MISSING  # a CSV, TSV or Parquet file
    out: str = MISSING  # a folder: index.html, metrics.csv and the table metrics
    task: str = "agreement"  # agreement, crowdtruth or dsg
    columns: Columns = field(default_factory=Columns)
    encoding: str | None = None  # of CSV; null: by its byte-order mark, else UTF-8
    missing: list[str] = field(
        default_factory=list
    )  # agreement: words in columns.value that are no answer: [n/a, unsure]
    # agreement: lowest and highest answer of the scale, [1,5]; without it shares at its ends are undefined
    scale: list[float] = field(default_factory=list)
    keep_rows: dict[str, str] = field(default_factory=dict)  # column: text; other rows are left out
    separator: str | None = None  # crowdtruth: what parts several annotations in a cell
    annotations: list[str] = field(default_factory=list)  # crowdtruth: the closed set; empty: those that occur
    empty: str | None = None  # crowdtruth: the annotation that an empty cell stands for; null: it does not count
    people: str | None = None  # dsg: a file of people's ratings
    people_columns: PeopleColumns = field(default_factory=PeopleColumns)
    # a file has no table of raters, whose country would be there to tell people apart
    metrics: MetricSettings = field(default_factory=lambda: MetricSettings(groups=[]))
    title: str = "Metrics"  # of the page


def check_settings(cfg: AnalyzeConfig) -> None:
    """Refuse a scale that is not one, and keys of `metrics` that change nothing here."""
    if cfg.scale and (len(cfg.scale) != 2 or not cfg.scale[0] < cfg.scale[1]):
        raise InputError(f"scale={cfg.scale}: two numbers are needed, the lowest and the highest answer, as in [1,5]")
    default = AnalyzeConfig().metrics
    without = {f.name for f in fields(MetricSettings)} - {"stop"} if cfg.task != "agreement" else OF_TABLES
    without = without | {"stop"} if cfg.task == "dsg" else without
    if idle := sorted(name for name in without if getattr(cfg.metrics, name) != getattr(default, name)):
        raise InputError(f"metrics.{idle[0]}: changes nothing in task={cfg.task} of a file")
