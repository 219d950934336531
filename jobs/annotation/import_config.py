"""The keys of `import_ratings`, and the checks of their combinations."""

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from omegaconf import MISSING

from actors.ids import content_id
from actors.settings import ConditionSettings
from jobs.annotation.columns import RatingColumns
from jobs.annotation.input_files import FORMATS
from jobs.annotation.repeats import RULES
from jobs.errors import InputError
from jobs.runtime.configuration.config import Writing
from jobs.store import table_plan
from jobs.store.files import locations

IMPORTED = ("ratings", "spans", "remarks", "raters")  # tables
RATER_FROM, SCALES = ("annotator", "assigned"), ("ordinal", "nominal")
RATER_KINDS = ("human", "gold", "model")


@dataclass
class ImportRatingsConfig(ConditionSettings, Writing):
    """Keys of `import_ratings`."""

    input: str = MISSING  # file, folder or glob; local or s3://
    format: str | None = (
        None  # csv, parquet, label_studio, prodigy or century (released annotations); null: by the name
    )
    table: str = "ratings"  # the table to write: ratings, spans, remarks or raters
    rubric: dict[str, Any] = field(default_factory=dict)  # the questions that people answered
    span_labels: dict[str, Any] = field(default_factory=dict)  # kinds of spans that people marked (conf/span_labels)
    name: str = "people"  # rarely: without a rubric: value of column `rubric` …
    answers: list[str] = field(default_factory=list)  # rarely: … the allowed answers in their order …
    scale: str = "ordinal"  # rarely: … and whether they are numbers on a scale (ordinal) or categories (nominal)
    columns: RatingColumns = field(default_factory=RatingColumns)
    question: str | None = None  # the question that all rows answer, for a file that names none
    rater: str | None = None  # the rater of all rows of a file that names none, or of a tool's tasks that name none
    rater_kind: str = "human"  # in table raters: human, gold or model
    # rarely: of a tool's export: who answered (annotator), or whose task it was (assigned)
    rater_from: str = "annotator"
    method: str = "human"  # rarely: value of column `method`
    # id: item_id as the file has it; url: it holds URLs of pictures and becomes their image_ids; or a table of items,
    # whose ids, or paths or URLs of pictures, the file has
    items: str = "id"
    encoding: str | None = None  # rarely: of CSV; null: by its byte-order mark, else UTF-8
    delimiter: str | None = None  # rarely: of CSV; null: comma, semicolon, tab or bar, whichever fits
    limit: int | None = None  # read only the first rows or tasks of each file, for a trial run; null: all
    duplicates: str = "last"  # one person, item and question twice: last, first, sample (keep all, numbered) or refuse
    anonymise: bool = False  # replace raters by pseudonyms under a key from $REMINE_RATER_KEY or key_file
    key_file: str | None = None  # rarely: file with the key of the pseudonyms, at least 16 bytes
    reports: str | None = None  # exclusions list to which the job adds reported pictures
    reports_min: int = 1  # rarely: people who must have reported a picture


def check(cfg: ImportRatingsConfig) -> None:
    """Raise InputError for a value that its key does not allow, or for keys that cannot be combined."""
    table_plan.check_limit(cfg.limit)
    choices = {
        "format": (cfg.format, (None, *FORMATS)),
        "table": (cfg.table, IMPORTED),
        "duplicates": (cfg.duplicates, RULES),
        "rater_from": (cfg.rater_from, RATER_FROM),
        "rater_kind": (cfg.rater_kind, RATER_KINDS),
        "scale": (cfg.scale, SCALES),
    }
    for key, (value, allowed) in choices.items():
        if value not in allowed:
            raise InputError(f"{key}={value}: must be one of {', '.join(filter(None, allowed))}")
    if cfg.table == "ratings" and not cfg.rubric and not cfg.answers:
        raise InputError(
            "import_ratings: rubric= is required, or answers= and scale=, such as answers=[1,2,3,4,5] scale=ordinal"
        )
    if cfg.table == "remarks" and not cfg.rubric and not cfg.columns.remarks:
        raise InputError(
            "table=remarks: rubric=NAME with free_texts is required, or columns.remarks={field: column, …} and name="
        )
    if cfg.format == "century" and (cfg.table != "ratings" or cfg.rater):
        wrong = f"table={cfg.table}" if cfg.table != "ratings" else f"rater={cfg.rater}"
        raise InputError(f"{wrong}: format=century has ratings whose raters the file names; remove the key")
    if cfg.table == "raters" and cfg.items != "id":
        raise InputError(f"items={cfg.items}: table=raters has no items; omit it")
    if cfg.rubric and cfg.answers:
        raise InputError(f"answers=[{','.join(map(str, cfg.answers))}]: not allowed with rubric=; omit one of the two")
    if cfg.duplicates == "sample" and (cfg.table != "ratings" or cfg.columns.sample):
        why = (
            "columns.sample= maps the file's own numbers" if cfg.columns.sample else f"table={cfg.table} has no samples"
        )
        raise InputError(f"duplicates=sample: {why}; use last, first or refuse")
    if cfg.reports and cfg.table != "ratings":
        raise InputError(f"reports={cfg.reports}: needs table=ratings, where people report pictures")
    for key, kind in (("questions", "question"), ("remarks", "field")):
        mapping = getattr(cfg.columns, key)
        if mapping is not None and not (
            isinstance(mapping, dict) and mapping and all(isinstance(column, str) for column in mapping.values())
        ):
            raise InputError(f"columns.{key}={mapping}: must be of the form {{{kind}: column, …}}")
    if cfg.reports_min < 1:
        raise InputError(f"reports_min={cfg.reports_min}: must be at least 1")


def identity(cfg: ImportRatingsConfig) -> dict[str, Any]:
    """Return what the rows depend on among the keys: the place of the annotations, and how they are read.

    The annotations themselves are not included: those that arrive later make a new generation of the same table.
    """
    names = ("format", "table", "name", "answers", "scale", "condition", "question", "rater", "rater_kind",
             "rater_from", "method", "items", "encoding", "delimiter", "duplicates")  # fmt: skip
    return {
        "input": locations.absolute(cfg.input),
        "read": {name: getattr(cfg, name) for name in names},
        "columns": asdict(cfg.columns),
        **{
            name: content_id(json.dumps(value, sort_keys=True)) if (value := getattr(cfg, name)) else None
            for name in ("rubric", "span_labels")
        },
    }
