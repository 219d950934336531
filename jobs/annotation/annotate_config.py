"""The keys of `annotate`, and the checks of their combinations."""

from dataclasses import dataclass, field
from typing import Any

from omegaconf import MISSING

from jobs.annotation.form import WelfareConfig
from jobs.errors import InputError
from jobs.judging.model_config import OwnQuestionsConfig
from jobs.runtime.configuration.config import Writing
from jobs.runtime.selection.draws import CompleteDrawConfig
from jobs.store import table_plan

TOOLS = LABEL_STUDIO, PRODIGY, SPREADSHEET = ("label_studio", "prodigy", "spreadsheet")
FILES, PICTURES, TARGETS = ("rater", "group"), ("url", "files"), ("rubric", "group")


@dataclass
class AnnotateConfig(OwnQuestionsConfig, Writing):
    """Keys of `annotate`."""

    # Each of these is a table, a glob of tables, or a list of them
    input: Any = MISSING  # images or items
    images: Any = None  # the pictures of items
    records: Any = None  # facts shown with the pictures, and values for the fields of links
    texts: Any = None  # the texts of items
    responses: Any = None  # the responses of items
    rubric: dict[str, Any] = field(default_factory=dict)  # the questions that people are asked
    only_questions: list[str] = field(default_factory=list)  # names of the rubric's questions to ask; empty: all
    span_labels: dict[str, Any] = field(default_factory=dict)  # kinds of spans that people mark (conf/span_labels)
    welfare: WelfareConfig = field(default_factory=WelfareConfig)  # notice, blur, skipping and reporting
    show_columns: list[str] = field(default_factory=lambda: ["page_title"])  # columns of records that the form shows
    tool: str = LABEL_STUDIO  # prodigy, or spreadsheet: a CSV per rater
    raters: str = MISSING  # CSV or Parquet with a column rater, or a table of raters
    raters_encoding: str | None = None  # rarely: encoding of the CSV; null: by its byte-order mark, else UTF-8
    group: str | None = None  # column of raters: country, pool, …
    per_item: int | None = None  # different raters per item, from all groups together
    per_group: int | None = None  # different raters per item of each group …
    quotas: Any = None  # rarely: … or of these groups: {China: 20, India: 10}
    target: str = "rubric"  # rate each item against the rubric's targets; or group: against the rater's own group
    shared: int = 0  # items (sets, with together) that every rater (of a group) sees
    # items of one picture, or with one value of this column or attribute, go to the same raters, one after another
    together: str | None = None
    per_rater: int | None = None  # most tasks per rater; a column limit of raters takes precedence
    audit: float = 0.0  # rarely: share of each rater's tasks that the auditor repeats
    auditor: str | None = None  # rarely: the person who repeats them; not one of the raters
    draw: CompleteDrawConfig = field(default_factory=CompleteDrawConfig)  # which of the items to show
    seed: int = 0  # the same seed, items and raters give the same plan
    limit: int | None = None  # read only the first rows of input=, for a trial run in a separate folder; null: all
    files: str = "rater"  # one file of tasks per rater; or group: one file per group
    pictures: str = "url"  # link to their sources; or files: write their bytes to OUT/pictures
    picture_base: str = "pictures/"  # rarely: for pictures=files: prepended to a file's name, so that the tool finds it

    @property
    def raters_per_item(self) -> int:
        """The number of raters of a group who rate an item; with several quotas, the largest number."""
        return self.per_item or self.per_group or max((self.quotas or {}).values())


def check(cfg: AnnotateConfig) -> None:
    """Raise InputError for a value that its key does not allow, or for keys that cannot be combined."""
    choices = {
        "tool": (cfg.tool, TOOLS),
        "files": (cfg.files, FILES),
        "pictures": (cfg.pictures, PICTURES),
        "target": (cfg.target, TARGETS),
    }
    for key, (value, allowed) in choices.items():
        if value not in allowed:
            raise InputError(f"{key}={value}: must be one of {', '.join(allowed)}")
    if not cfg.rubric and not cfg.span_labels:
        raise InputError("annotate: rubric= or span_labels= is required, or both: what people are asked")
    plans = {"per_item": cfg.per_item is not None, "per_group": cfg.per_group is not None, "quotas": bool(cfg.quotas)}
    if sum(plans.values()) != 1:
        present = ", ".join(key for key, is_set in plans.items() if is_set) or "none"
        raise InputError(f"annotate: per_item=, per_group= or quotas= is required: exactly one ({present} is given)")
    if cfg.quotas and not (isinstance(cfg.quotas, dict) and all(type(n) is int for n in cfg.quotas.values())):
        raise InputError(f"quotas={cfg.quotas}: must be of the form {{group: raters per item, …}}")
    if cfg.per_item is None and cfg.group is None:
        raise InputError(
            "annotate: group= is required with per_group= and quotas=: the column of raters that names the group"
        )
    cfg.draw.check()
    table_plan.check_limit(cfg.limit)
    if bool(cfg.audit) != bool(cfg.auditor):
        raise InputError(
            "annotate: audit= and auditor= go together: the share of tasks, and the person who repeats them"
        )
