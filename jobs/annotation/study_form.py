"""Construction of a study's form from the keys of `annotate`."""

from collections.abc import Mapping

from actors.rubrics.rubric import Rubric
from jobs.annotation import form as forms
from jobs.annotation import label_studio_form, spreadsheet_form
from jobs.annotation.annotate_config import LABEL_STUDIO, SPREADSHEET, AnnotateConfig
from jobs.annotation.form import Form, ShownItem
from jobs.annotation.own_questions import OwnSet
from jobs.annotation.shown_items import Showing
from jobs.annotation.spans import SpanLabels
from jobs.errors import InputError
from jobs.judging import own_questions

_CHECKS = {LABEL_STUDIO: label_studio_form.check, SPREADSHEET: spreadsheet_form.check}


def read_questions(cfg: AnnotateConfig) -> tuple[Rubric | None, SpanLabels | None]:
    """Return the rubric and the span labels of a study.

    Raises:
        InputError: a file is invalid, or a rubric's targets are missing.
    """
    try:
        rubric = Rubric.from_dict(cfg.rubric) if cfg.rubric else None
        span_labels = SpanLabels.from_dict(cfg.span_labels) if cfg.span_labels else None
    except ValueError as error:
        raise InputError(f"annotate: {error}") from error
    if rubric:
        own_questions.check(cfg, rubric)
    if cfg.questions and not rubric:
        raise InputError(f"questions={cfg.questions}: needs a rubric that asks items their own questions, such as dsg")
    about_targets = rubric is not None and asks_targets(cfg, rubric)
    if cfg.target == "group" and not (about_targets and cfg.group):
        raise InputError("target=group: needs group=, and a rubric that asks about a target")
    if rubric and about_targets and not rubric.targets and cfg.target == "rubric":
        raise InputError(f"rubric={rubric.name}: asks about targets, but has none; add targets, or set target=group")
    return rubric, span_labels


def asks_targets(cfg: AnnotateConfig, rubric: Rubric) -> bool:
    """Return whether people are asked about targets: if so, each task is about one, with all of the study's questions.

    Raises:
        InputError: the study asks some questions about targets and others without.
    """
    asked = [question for question in rubric.questions if not cfg.only_questions or question.name in cfg.only_questions]
    about, once = ([question.name for question in asked if question.targets is is_about] for is_about in (True, False))
    if rubric.asks_targets and about and once:
        raise InputError(
            f"rubric={rubric.name}: asks {', '.join(about)} about targets and {', '.join(once)} without; make two "
            f"studies, with only_questions=[{','.join(about)}] and only_questions=[{','.join(once)}]"
        )
    return rubric.asks_targets and not once


def showing(cfg: AnnotateConfig, rubric: Rubric | None, own_sets: Mapping[str, OwnSet]) -> Showing:
    """Return how items are shown. If people answer an item's own questions, they see what models see, not the text that
    the questions are about."""
    base = cfg.picture_base if cfg.pictures == "files" else None
    roles = rubric.context_fields if rubric and own_sets and not cfg.span_labels else None
    return Showing(cfg.show_columns, cfg.welfare.links, base, roles, own_sets)


def build_form(cfg: AnnotateConfig, rubric: Rubric | None, span_labels: SpanLabels | None, item: ShownItem) -> Form:
    """Return the form of a study, for items with the pictures and texts of `item`.

    Raises:
        InputError: see `jobs.annotation.form.form`.
    """
    try:
        form = forms.form(
            rubric,
            questions=cfg.only_questions,
            span_labels=span_labels,
            welfare=cfg.welfare,
            pictures=len(item.pictures),
            texts=tuple(item.texts),
        )
        if cfg.tool in _CHECKS:
            _CHECKS[cfg.tool](form)
        return form
    except ValueError as error:
        raise InputError(f"annotate: {error}") from error
