"""From the keys of `import_ratings` to a reader of its files."""

from collections.abc import Sequence

from actors.vlm.rubric import Rubric
from jobs.annotation import answers, label_studio, prodigy, tabular
from jobs.annotation.answers import Questionnaire
from jobs.annotation.columns import Reading
from jobs.annotation.import_config import ImportRatingsConfig
from jobs.annotation.importing import Importer, ImportSettings, Read
from jobs.annotation.input_files import format_of
from jobs.annotation.pseudonyms import Pseudonyms
from jobs.annotation.spans import SpanLabels
from jobs.annotation.tools import ToolReading
from jobs.errors import InputError
from jobs.runtime.config import plain
from jobs.runtime.exclusions import Barred
from jobs.store import locations


def importer(
    cfg: ImportRatingsConfig, files: Sequence[locations.Object], barred: Barred, pseudonyms: Pseudonyms | None
) -> Importer:
    """Return an importer of `files`, with the reader of their format.

    Raises:
        InputError: several formats, an invalid rubric, or keys that do not fit the format.
    """
    format_ = cfg.format or format_of(files)
    try:
        questionnaire = _questionnaire(cfg)
        span_labels = SpanLabels.from_dict(cfg.span_labels) if cfg.span_labels else None
    except ValueError as error:
        raise InputError(f"import_ratings: {error}") from error
    question = _question(cfg, questionnaire)
    private = pseudonyms is not None
    if format_ in ("csv", "parquet"):
        read = _of_columns(cfg, format_, questionnaire, question, private=private)
    else:
        read = _of_tool(cfg, format_, questionnaire, span_labels, question, private=private)
    settings = ImportSettings(
        table=cfg.table,
        questionnaire=questionnaire,
        method=cfg.method,
        condition=cfg.condition,
        rater_kind=cfg.rater_kind,
        urls=cfg.items == "url",
        duplicates=cfg.duplicates,
    )
    return Importer(settings, files, read, barred=barred, pseudonym=pseudonyms)


def _questionnaire(cfg: ImportRatingsConfig) -> Questionnaire | None:
    if cfg.answers:
        return answers.of_list(cfg.name, cfg.answers, ordinal=cfg.scale == "ordinal")
    return answers.of_rubric(Rubric.from_dict(cfg.rubric)) if cfg.rubric else None


def _question(cfg: ImportRatingsConfig, questionnaire: Questionnaire | None) -> str | None:
    """Return the name of the question that `question=` gives by name or by text."""
    if not cfg.question or questionnaire is None:
        return cfg.question or None
    name = questionnaire.question(cfg.question)
    if questionnaire.names and name is None:
        raise InputError(f"question={cfg.question}: rubric {questionnaire.name} has {', '.join(questionnaire.sets)}")
    return name


def _of_columns(
    cfg: ImportRatingsConfig, format_: str, questionnaire: Questionnaire | None, question: str | None, *, private: bool
) -> Read:
    """Return the reader of CSV or Parquet."""
    reading = Reading(
        table=cfg.table,
        columns=cfg.columns,
        questionnaire=questionnaire,
        question=question,
        rater=cfg.rater,
        encoding=cfg.encoding,
        delimiter=cfg.delimiter,
        private=private,
    )
    reader = tabular.read_csv if format_ == "csv" else tabular.read_parquet
    return lambda uri, reject: reader(uri, reading, reject)


def _of_tool(
    cfg: ImportRatingsConfig,
    format_: str,
    questionnaire: Questionnaire | None,
    span_labels: SpanLabels | None,
    question: str | None,
    *,
    private: bool,
) -> Read:
    """Return the reader of a tool's export."""
    if cfg.table == "spans" and span_labels is None:
        raise InputError(
            f"table=spans: format={format_} needs span_labels=NAME, the kinds that people marked (conf/span_labels)"
        )
    if cfg.rater:
        raise InputError(f"rater={cfg.rater}: format={format_} names who answered; remove the key, or see rater_from=")
    reading = ToolReading(
        table=cfg.table,
        questionnaire=questionnaire,
        span_labels=span_labels,
        controls=cfg.columns.questions or {},
        fields={role: name for role, name in plain(cfg.columns).items() if isinstance(name, str)},
        question=question,
        rater=cfg.rater_from,
        private=private,
    )
    tool = label_studio.read if format_ == "label_studio" else prodigy.read
    return lambda uri, reject: tool(uri, reading, reject)
