"""The form of a study, from the keys of `annotate`."""

from actors.vlm.rubric import Rubric
from jobs.annotation import form as forms
from jobs.annotation.annotate_config import AnnotateConfig
from jobs.annotation.form import Form, ShownItem
from jobs.annotation.spans import SpanLabels
from jobs.errors import InputError


def read_questions(cfg: AnnotateConfig) -> tuple[Rubric | None, SpanLabels | None]:
    """Return the rubric and the span labels of a study.

    Raises:
        InputError: an invalid file, or a rubric whose targets are missing.
    """
    try:
        rubric = Rubric.from_dict(cfg.rubric) if cfg.rubric else None
        span_labels = SpanLabels.from_dict(cfg.span_labels) if cfg.span_labels else None
    except ValueError as error:
        raise InputError(f"annotate: {error}") from error
    if rubric and rubric.asks_own_questions:
        raise InputError(
            f"rubric={rubric.name}: asks each item questions of its own, which the form of a study cannot show; ask "
            "people in a spreadsheet, and read it with import_ratings columns.question="
        )
    if cfg.target == "group" and not (rubric and rubric.asks_targets and cfg.group):
        raise InputError("target=group: needs group=, and a rubric that asks about a target")
    if rubric and rubric.asks_targets and not rubric.targets and cfg.target == "rubric":
        raise InputError(f"rubric={rubric.name}: asks about targets, but has none; give it targets, or target=group")
    return rubric, span_labels


def build_form(cfg: AnnotateConfig, rubric: Rubric | None, span_labels: SpanLabels | None, item: ShownItem) -> Form:
    """Return the form of a study, for items with the pictures and texts of `item`.

    Raises:
        InputError: see `jobs.annotation.form.form`.
    """
    try:
        return forms.form(
            rubric,
            questions=cfg.questions,
            span_labels=span_labels,
            welfare=cfg.welfare,
            pictures=len(item.pictures),
            texts=tuple(item.texts),
        )
    except ValueError as error:
        raise InputError(f"annotate: {error}") from error
