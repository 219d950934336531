"""The keys of `import_ratings`, the checks of their combinations, and the importer that they describe."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from actors.ids import content_id
from actors.rubrics.people import FreeText
from actors.rubrics.rubric import Rubric
from actors.settings import ConditionSettings, Location, RuntimeOnly
from jobs.annotation import century_annotations, imported_rows, importing, tabular
from jobs.annotation.importing import RULES, Importer, ImportSettings
from jobs.annotation.pseudonyms import Pseudonyms
from jobs.annotation.questionnaire import Questionnaire, list_questionnaire, rubric_questionnaire
from jobs.annotation.reading import RatingColumns, Reading
from jobs.annotation.span_labels import SpanLabels
from jobs.annotation.tool import TOOLS, tool_of
from jobs.corpora import delimited
from jobs.errors import InputError, as_input_error, check_choice, check_least
from jobs.runtime.configuration.config import Writing
from jobs.runtime.configuration.key_types import MISSING, conf_group
from jobs.runtime.selection.exclusions import ExclusionFilter
from jobs.store import table_plan
from jobs.store.files import locations
from jobs.store.files.local_files import path_hint
from jobs.store.files.objects import Object
from jobs.store.identity import identity_of
from jobs.store.writer import Rejects

IMPORTED = ("ratings", "spans", "remarks", "raters")  # tables
RATER_FROM, SCALES = ("annotator", "assigned"), ("ordinal", "nominal")
RATER_KINDS = ("human", "gold", "model")


EXPORTS = {name: tool_of(name) for name in TOOLS if tool_of(name).read}  # tools with their own format
FORMATS = {
    "csv": (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz"),
    "parquet": (".parquet",),
    **{name: tool.endings for name, tool in EXPORTS.items()},
    "century": (".csv", ".csv.gz"),
}
IMPLIED = ("csv", "parquet", *EXPORTS)  # formats that a file's name implies


@dataclass
class ImportRatingsConfig(ConditionSettings, Writing):
    """Keys of `import_ratings`."""

    input: str = MISSING  # file, folder or glob; local or s3://
    # csv, parquet, label_studio, prodigy or century (released annotations); null: by the name
    format: str | None = None
    table: str = "ratings"  # the table to write: ratings, spans, remarks or raters
    rubric: dict[str, Any] = conf_group(None)  # the questions that people answered
    span_labels: dict[str, Any] = conf_group(None)  # kinds of spans that people marked (conf/span_labels)
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
    limit: RuntimeOnly[int | None] = None  # read only the first rows or tasks of each file, for a trial run; null: all
    duplicates: str = "last"  # one person, item and question twice: last, first, sample (keep all, numbered) or refuse
    anonymise: bool = False  # replace raters by pseudonyms under a key from $REMINE_RATER_KEY or key_file
    key_file: Location[str | None] = None  # rarely: file with the key of the pseudonyms, at least 16 bytes
    reports: Location[str | None] = None  # exclusions list to which the job adds reported pictures
    reports_min: RuntimeOnly[int] = 1  # rarely: people who must have reported a picture


def check(cfg: ImportRatingsConfig) -> None:
    """Raise InputError for a value that its key does not allow, or for keys that cannot be combined."""
    table_plan.check_limit(cfg.limit)
    if cfg.format is not None:
        check_choice("format", cfg.format, FORMATS)
    check_choice("table", cfg.table, IMPORTED)
    check_choice("duplicates", cfg.duplicates, RULES)
    check_choice("rater_from", cfg.rater_from, RATER_FROM)
    check_choice("rater_kind", cfg.rater_kind, RATER_KINDS)
    check_choice("scale", cfg.scale, SCALES)
    if cfg.table == "ratings" and not cfg.rubric and not cfg.answers:
        raise InputError(
            "required, or answers= and scale=, such as answers=[1,2,3,4,5] scale=ordinal", key="rubric", value=""
        )
    if cfg.table == "remarks" and not cfg.rubric and not cfg.columns.remarks:
        raise InputError(
            "rubric=NAME with free_texts is required, or columns.remarks={field: column, …} and name=",
            key="table",
            value="remarks",
        )
    if cfg.format == "century" and (cfg.table != "ratings" or cfg.rater):
        wrong = f"table={cfg.table}" if cfg.table != "ratings" else f"rater={cfg.rater}"
        raise InputError(f"{wrong}: format=century has ratings whose raters the file names; remove the key")
    if cfg.table == "raters" and cfg.items != "id":
        raise InputError("table=raters has no items", key="items", value=cfg.items, remedy="omit it")
    if cfg.rubric and cfg.answers:
        raise InputError("not allowed with rubric=", key="answers", value=cfg.answers, remedy="omit one of the two")
    if cfg.duplicates == "sample" and (cfg.table != "ratings" or cfg.columns.sample):
        why = (
            "columns.sample= maps the file's own numbers" if cfg.columns.sample else f"table={cfg.table} has no samples"
        )
        raise InputError(why, key="duplicates", value="sample", remedy="use last, first or refuse")
    if cfg.reports and cfg.table != "ratings":
        raise InputError("needs table=ratings, where people report pictures", key="reports", value=cfg.reports)
    for key, kind in (("questions", "question"), ("remarks", "field")):
        mapping = getattr(cfg.columns, key)
        columns = mapping.values() if isinstance(mapping, dict) else [None]
        if key == "questions":  # of several columns, by target
            columns = [name for c in columns for name in ((c.values() or [None]) if isinstance(c, dict) else [c])]
        if mapping is not None and not (columns and all(isinstance(column, str) for column in columns)):
            raise InputError(f"must be of the form {{{kind}: column, …}}", key=f"columns.{key}", value=mapping)
    check_least("reports_min", cfg.reports_min, 1)


def identity(cfg: ImportRatingsConfig) -> dict[str, Any]:
    """Return what the rows depend on among the keys: the place of the annotations, and how they are read.

    The annotations themselves are not included: those that arrive later make a new generation of the same table.
    """
    apart = ["input", "columns", "rubric", "span_labels", "anonymise"]
    return {
        "input": locations.absolute(cfg.input),
        "read": identity_of(cfg, instead_of=apart),
        "columns": identity_of(cfg.columns),
        **{
            name: content_id(json.dumps(value, sort_keys=True)) if (value := getattr(cfg, name)) else None
            for name in ("rubric", "span_labels")
        },
    }


def files_of(uri: str, format_: str | None) -> list[Object]:
    """Return the files at `uri` (a file, folder or glob); if there are several, those whose names fit `format_`.

    Raises:
        InputError: there is no such file.
    """
    base = locations.absolute(uri)
    files = [file for file in locations.find(uri) if file.uri == base or not _is_hidden(file.uri, base)]
    if format_ and len(files) > 1:
        files = [file for file in files if file.uri.lower().endswith(FORMATS[format_])]
    if not files:
        expected = f"no file of format={format_} ({', '.join(FORMATS[format_])})" if format_ else "no file to read"
        raise InputError(expected, key="input", value=uri)
    return files


def _is_hidden(uri: str, base: str) -> bool:
    """Return whether a program wrote a file for its own use (`_run/…`, `.part`), judging by its path below `base`.

    If a glob matched the file, only its name counts.
    """
    below = uri.removeprefix(f"{base}/") if uri.startswith(f"{base}/") else uri.rsplit("/", 1)[-1]
    return any(part[:1] in ("_", ".") for part in below.split("/"))


def format_of(files: Sequence[Object]) -> str:
    """Return the format that the files' names imply.

    Raises:
        InputError: a name implies no format, or the files have several formats.
    """
    formats = {
        file.uri: next((name for name in IMPLIED if file.uri.lower().endswith(FORMATS[name])), None) for file in files
    }
    if unknown := next((uri for uri, format_ in formats.items() if format_ is None), None):
        advice = delimited.workbook_advice(unknown) or f"set format={'|'.join(FORMATS)}{path_hint(unknown)}"
        raise InputError(f"the name does not imply a format; {advice}", place=unknown)
    distinct = sorted({format_ for format_ in formats.values() if format_})
    if len(distinct) > 1:
        raise InputError(f"files of several formats ({', '.join(distinct)}); choose one with format=", key="input")
    return distinct[0]


@dataclass(frozen=True)
class _Asked:
    """The questions, kinds of spans and free texts of a study, and the only question of files without such a column."""

    questionnaire: Questionnaire | None
    span_labels: SpanLabels | None
    free_texts: tuple[FreeText, ...]
    question: str | None


def importer(
    cfg: ImportRatingsConfig,
    files: Sequence[Object],
    exclusion_filter: ExclusionFilter,
    pseudonyms: Pseudonyms | None,
) -> Importer:
    """Return an importer of `files`, with the reader of their format.

    Raises:
        InputError: the files have several formats, a rubric is invalid, or keys do not fit the format.
    """
    format_ = cfg.format or format_of(files)
    asked = _read_asked(cfg)
    reader = _reader(format_)
    if format_ not in ("csv", "parquet") and any(isinstance(c, dict) for c in (cfg.columns.questions or {}).values()):
        why = f"columns by target are of format=csv or parquet, and this is {format_}"
        raise InputError(why, key="columns.questions")
    if cfg.table == "spans" and format_ in EXPORTS and asked.span_labels is None:
        why = f"format={format_} needs span_labels=NAME, the kinds that people marked (conf/span_labels)"
        raise InputError(why, key="table", value="spans")
    reading = Reading(
        table=cfg.table,
        columns=cfg.columns,
        questionnaire=asked.questionnaire,
        question=asked.question,
        rater=cfg.rater,
        rater_from=cfg.rater_from,
        free_texts=asked.free_texts,
        span_labels=asked.span_labels,
        encoding=cfg.encoding,
        delimiter=cfg.delimiter,
        limit=cfg.limit,
        private=pseudonyms is not None,
    )
    settings = ImportSettings(
        table=cfg.table,
        rubric=asked.questionnaire.name if asked.questionnaire else cfg.name,
        questionnaire=asked.questionnaire,
        free_texts=asked.free_texts,
        method=cfg.method,
        condition=cfg.condition,
        rater_kind=cfg.rater_kind,
        urls=cfg.items == "url" or format_ == "century",
        items=importing.open_item_names(cfg.items, private=pseudonyms is not None),
        duplicates=cfg.duplicates,
    )
    return Importer(
        settings,
        files,
        lambda uri, reject: reader(uri, reading, reject),
        exclusion_filter=exclusion_filter,
        pseudonym=pseudonyms,
    )


def _read_asked(cfg: ImportRatingsConfig) -> _Asked:
    try:
        questionnaire = _questionnaire(cfg)
        span_labels = SpanLabels.from_dict(cfg.span_labels) if cfg.span_labels else None
        free_texts = _free_texts(cfg)
    except ValueError as error:
        raise as_input_error(error) from error
    return _Asked(questionnaire, span_labels, free_texts, _question(cfg, questionnaire))


def _questionnaire(cfg: ImportRatingsConfig) -> Questionnaire | None:
    if cfg.answers:
        return list_questionnaire(cfg.name, cfg.answers, ordinal=cfg.scale == "ordinal")
    return rubric_questionnaire(Rubric.from_dict(cfg.rubric)) if cfg.rubric else None


def _free_texts(cfg: ImportRatingsConfig) -> tuple[FreeText, ...]:
    if cfg.table != "remarks":
        return ()
    rubric = Rubric.from_dict(cfg.rubric) if cfg.rubric else None
    return imported_rows.remark_fields(rubric, cfg.columns.remarks or {}, cfg.question)


def _question(cfg: ImportRatingsConfig, questionnaire: Questionnaire | None) -> str | None:
    """Return the name of the question in `question=`, which may be a name or a text."""
    if not cfg.question or questionnaire is None:
        return cfg.question or None
    name = questionnaire.question(cfg.question)
    if questionnaire.names and name is None:
        why = f"rubric {questionnaire.name} has {', '.join(questionnaire.sets)}"
        raise InputError(why, key="question", value=cfg.question)
    return name


def _reader(format_: str) -> Callable[[str, Reading, Rejects], Iterator[pa.Table]]:
    """Return the reader of a format."""
    readers = {"csv": tabular.read_csv, "parquet": tabular.read_parquet, "century": century_annotations.read}
    reader = EXPORTS[format_].read if format_ in EXPORTS else readers[format_]
    assert reader is not None  # `EXPORTS` has only tools with a reader
    return reader
