"""Construction of a file reader from the keys of `import_ratings`."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from actors.rubrics.people import FreeText
from actors.rubrics.rubric import Rubric
from jobs.annotation import answers, century_annotations, item_names, label_studio, prodigy, remarks, tabular
from jobs.annotation.answers import Questionnaire
from jobs.annotation.columns import Reading
from jobs.annotation.import_config import ImportRatingsConfig
from jobs.annotation.importing import Importer, ImportSettings, Read
from jobs.annotation.input_files import format_of
from jobs.annotation.pseudonyms import Pseudonyms
from jobs.annotation.spans import SpanLabels
from jobs.annotation.tools import ToolReading
from jobs.errors import InputError
from jobs.runtime.selection.exclusions import ExclusionFilter
from jobs.store.files import locations


@dataclass(frozen=True)
class _Asked:
    """The questions, kinds of spans and free texts of a study, and the only question of files without such a column."""

    questionnaire: Questionnaire | None
    span_labels: SpanLabels | None
    free_texts: tuple[FreeText, ...]
    question: str | None


def importer(
    cfg: ImportRatingsConfig,
    files: Sequence[locations.Object],
    exclusion_filter: ExclusionFilter,
    pseudonyms: Pseudonyms | None,
) -> Importer:
    """Return an importer of `files`, with the reader of their format.

    Raises:
        InputError: the files have several formats, a rubric is invalid, or keys do not fit the format.
    """
    format_ = cfg.format or format_of(files)
    asked = _read_asked(cfg)
    of_format = _of_columns if format_ in ("csv", "parquet", "century") else _of_tool
    read = of_format(cfg, format_, asked, private=pseudonyms is not None)
    settings = ImportSettings(
        table=cfg.table,
        rubric=asked.questionnaire.name if asked.questionnaire else cfg.name,
        questionnaire=asked.questionnaire,
        free_texts=asked.free_texts,
        method=cfg.method,
        condition=cfg.condition,
        rater_kind=cfg.rater_kind,
        urls=cfg.items == "url" or format_ == "century",
        items=item_names.opened(cfg.items, private=pseudonyms is not None),
        duplicates=cfg.duplicates,
    )
    return Importer(settings, files, read, exclusion_filter=exclusion_filter, pseudonym=pseudonyms)


def _read_asked(cfg: ImportRatingsConfig) -> _Asked:
    try:
        questionnaire = _questionnaire(cfg)
        span_labels = SpanLabels.from_dict(cfg.span_labels) if cfg.span_labels else None
        free_texts = _free_texts(cfg)
    except ValueError as error:
        raise InputError(f"import_ratings: {error}") from error
    return _Asked(questionnaire, span_labels, free_texts, _question(cfg, questionnaire))


def _questionnaire(cfg: ImportRatingsConfig) -> Questionnaire | None:
    if cfg.answers:
        return answers.of_list(cfg.name, cfg.answers, ordinal=cfg.scale == "ordinal")
    return answers.of_rubric(Rubric.from_dict(cfg.rubric)) if cfg.rubric else None


def _free_texts(cfg: ImportRatingsConfig) -> tuple[FreeText, ...]:
    if cfg.table != "remarks":
        return ()
    rubric = Rubric.from_dict(cfg.rubric) if cfg.rubric else None
    return remarks.fields_of(rubric, cfg.columns.remarks or {}, cfg.question)


def _question(cfg: ImportRatingsConfig, questionnaire: Questionnaire | None) -> str | None:
    """Return the name of the question in `question=`, which may be a name or a text."""
    if not cfg.question or questionnaire is None:
        return cfg.question or None
    name = questionnaire.question(cfg.question)
    if questionnaire.names and name is None:
        raise InputError(f"question={cfg.question}: rubric {questionnaire.name} has {', '.join(questionnaire.sets)}")
    return name


def _of_columns(cfg: ImportRatingsConfig, format_: str, asked: _Asked, *, private: bool) -> Read:
    """Return the reader of CSV, Parquet or released annotations."""
    reading = Reading(
        table=cfg.table,
        columns=cfg.columns,
        questionnaire=asked.questionnaire,
        question=asked.question,
        rater=cfg.rater,
        free_texts=asked.free_texts,
        span_labels=asked.span_labels,
        encoding=cfg.encoding,
        delimiter=cfg.delimiter,
        limit=cfg.limit,
        private=private,
    )
    readers = {"csv": tabular.read_csv, "parquet": tabular.read_parquet, "century": century_annotations.read}
    reader = readers[format_]
    return lambda uri, reject: reader(uri, reading, reject)


def _of_tool(cfg: ImportRatingsConfig, format_: str, asked: _Asked, *, private: bool) -> Read:
    """Return the reader of a tool's export."""
    if cfg.table == "spans" and asked.span_labels is None:
        raise InputError(
            f"table=spans: format={format_} needs span_labels=NAME, the kinds that people marked (conf/span_labels)"
        )
    reading = ToolReading(
        table=cfg.table,
        questionnaire=asked.questionnaire,
        span_labels=asked.span_labels,
        free_texts=asked.free_texts,
        controls=cfg.columns.questions or {},
        text_controls=cfg.columns.remarks or {},
        fields={role: name for role, name in asdict(cfg.columns).items() if isinstance(name, str)},
        question=asked.question,
        rater=cfg.rater_from,
        default_rater=cfg.rater,
        limit=cfg.limit,
        private=private,
    )
    tool = label_studio.read if format_ == "label_studio" else prodigy.read
    return lambda uri, reject: tool(uri, reading, reject)
