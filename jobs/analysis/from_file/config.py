"""The keys of `analyze`, and a check of their combinations."""

from dataclasses import dataclass, field, fields

from omegaconf import MISSING

from jobs.errors import InputError
from jobs.metrics.question import MetricSettings

TASKS = ("agreement", "crowdtruth", "dsg")
# Keys of `metrics` that need tables: models, responses, concepts, spans, conditions.
TABLES_ONLY = frozenset({"group_by", "baseline_condition", "leave_out", "concept", "overlap", "text_overlap"})


@dataclass
class Columns:
    """Names of columns; the texts of several columns, separated by commas, are joined."""

    item: str | None = None  # the rated item; for dsg the picture
    rater: str | None = None  # who rated it
    value: str | None = None  # the answer: a number, a category, yes or no
    question: str | None = None  # agreement: compute metrics for each; dsg: the question's id
    parents: str | None = None  # dsg: ids of questions that must be answered yes
    valid: str | None = None  # dsg: no, false, 0 or invalid leaves the question out


@dataclass
class PeopleColumns:
    """Columns of the file `people=`, in which people rate pictures (task=dsg)."""

    item: str = "t2i_model,item_id"  # the picture
    value: str = "answer"  # the person's score of the picture


@dataclass
class AnalyzeConfig:
    """Keys of `analyze`."""

    input: str = MISSING  # a CSV, TSV or Parquet file
    out: str = MISSING  # a folder: index.html, metrics.csv and the table metrics
    task: str = "agreement"  # agreement, crowdtruth or dsg
    columns: Columns = field(default_factory=Columns)
    encoding: str | None = None  # rarely: of CSV; null: by its byte-order mark, else UTF-8
    # agreement: texts in columns.value that mean no answer, such as [n/a, unsure]
    missing: list[str] = field(default_factory=list)
    # agreement: lowest and highest answer of the scale, [1,5]; without it, metrics that depend on it are undefined
    scale: list[float] = field(default_factory=list)
    keep_rows: dict[str, str] = field(default_factory=dict)  # column: text; read only rows with this text
    separator: str | None = None  # rarely: crowdtruth: separates several annotations in a cell
    annotations: list[str] = field(default_factory=list)  # rarely: crowdtruth: the closed set; empty: those in the file
    empty: str | None = None  # rarely: crowdtruth: the annotation of an empty cell; null: empty cells do not count
    people: str | None = None  # dsg: a file of people's ratings
    # rarely: names of columns of people's ratings of pictures (dsg)
    people_columns: PeopleColumns = field(default_factory=PeopleColumns)
    # what is computed, as in `report`; metrics.groups has no default, because a file has no table of raters
    metrics: MetricSettings = field(default_factory=lambda: MetricSettings(groups=[]))
    exclusions: str | None = None  # file of items (image_ids or URLs) whose rows are left out, one per line
    title: str = "Metrics"  # title of the page


def check_settings(cfg: AnalyzeConfig) -> None:
    """Check the scale, and that the task uses all keys that are set.

    Raises:
        InputError: the scale is invalid, or a key is set without effect.
    """
    if cfg.scale and (len(cfg.scale) != 2 or not cfg.scale[0] < cfg.scale[1]):
        raise InputError(f"scale={cfg.scale}: must be the lowest and the highest answer, such as [1,5]")
    if wrong := [name for name, raters in cfg.metrics.ensembles.items() if isinstance(raters, dict)]:
        raise InputError(f"metrics.ensembles.{wrong[0]}: a file has no rubrics; must be a list of raters (globs)")
    default = AnalyzeConfig().metrics
    without = {f.name for f in fields(MetricSettings)} - {"stop"} if cfg.task != "agreement" else TABLES_ONLY
    without = without | {"stop"} if cfg.task == "dsg" else without
    if idle := sorted(name for name in without if getattr(cfg.metrics, name) != getattr(default, name)):
        raise InputError(f"metrics.{idle[0]}: task={cfg.task} does not use it; remove the key")
