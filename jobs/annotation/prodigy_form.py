"""Writer of a study for Prodigy's built-in recipe `mark`: tasks as JSON lines, and the settings that show them.

    cp prodigy.choice.json prodigy.json && prodigy mark DATASET anna.choice.jsonl --view-id blocks

Prodigy's interface `choice` stores one answer per task. Therefore each question is a separate task, as is each text in
which people mark spans; the fields for free text together are another one.
"""

import html
import re
from collections.abc import Iterator
from typing import Any

from actors.ids import content_id
from jobs.annotation import form as forms
from jobs.annotation.form import Form, ShownItem
from jobs.annotation.prodigy import FREE_TEXTS, ISSUE_OPTION, REPORT_OPTION, SPAN_KIND
from jobs.annotation.span_labels import SpanKind
from jobs.annotation.tools import COMMENT, REMARK

KINDS = CHOICE, SPANS, TEXTS = "choice", "spans", "texts"
_TOKEN = re.compile(r"\w+|[^\w\s]")
_CSS = """
.remine-show {position: absolute; opacity: 0}
.remine-show + label {cursor: pointer; text-decoration: underline}
.remine-show:focus + label {outline: 2px solid}
.remine-blurred {filter: blur(28px)}
.remine-show:checked ~ .remine-blurred {filter: none}
.remine-picture {max-width: 100%}
.remine-note {opacity: 0.8; font-size: 80%}
"""


def settings(form: Form, kind: str, *, per_task: int | None) -> dict[str, Any]:
    """Return prodigy.json for the tasks of `kind`: choice, spans or texts. People can always skip (space bar).

    per_task: for a file that several people share, the number of people who get each task from Prodigy; None for one
        rater's file.
    """
    blocks: list[dict[str, Any]] = [{"view_id": "html"}]
    common: dict[str, Any] = {
        "global_css": _CSS,
        "buttons": ["accept", "ignore", "undo"],
        "show_stats": False,
        # Prodigy sends one rater's whole file, in the order of the plan.
        **({"feed_overlap": True} if per_task is None else {"feed_overlap": False, "annotations_per_task": per_task}),
        "exclude_by": "task",
        "batch_size": 1,
        "instant_submit": False,
        "choice_style": "single",
        "choice_auto_accept": False,
    }
    if kind == SPANS and form.span_labels:
        labels = [label for span_kind in form.span_labels.kinds for label in span_kind.labels]
        blocks.append({"view_id": "spans_manual", "labels": [label.value for label in labels]})
        common["custom_theme"] = {"labels": {label.value: label.colour for label in labels if label.colour}}
        common["keymap_by_label"] = {label.value: label.hotkey for label in labels if label.hotkey}
    blocks.append({"view_id": "choice", "text": None, "html": None, "image": None})
    for free_text in form.free_texts if kind == TEXTS else ():
        label = " ".join(filter(None, [free_text.label, free_text.guidance]))
        blocks.append(
            {"view_id": "text_input", "field_id": f"{REMARK}{free_text.name}", "field_label": label, "field_rows": 3}
        )
    if form.welfare.comment and kind != TEXTS:
        blocks.append(
            {"view_id": "text_input", "field_id": COMMENT, "field_label": form.welfare.comment, "field_rows": 2}
        )
    return {**common, "blocks": blocks}


def tasks(form: Form, item: ShownItem, *, target: str, assigned_to: str | None, place: int) -> Iterator[dict[str, Any]]:
    """Yield the tasks of one item: one per question, one per text to mark (with a field `span_kind`), and one for all
    free texts (with a field `free_texts`)."""
    base: dict[str, Any] = {
        "item_id": item.item_id,
        "target": target,
        "rubric": form.rubric,
        "image_ids": list(item.image_ids),
        "place": place,
    }
    if assigned_to is not None:
        base["assigned_to"] = assigned_to
    # The box for a faulty response appears once per item, with the first question.
    issue: list[dict[str, Any]] = [{"id": ISSUE_OPTION, "text": form.welfare.issue}] if form.asks_issue else []
    report: list[dict[str, Any]] = [{"id": REPORT_OPTION, "text": form.welfare.report}] if form.asks_report else []
    roles = form.span_labels.in_reading_order(item.texts) if form.span_labels else list(item.texts)
    all_texts = [f"{role}: {item.texts[role][1]}" for role in roles]
    for number, question in enumerate(form.questions_of(item)):
        options: list[dict[str, Any]] = []
        for option in question.options:
            style = {"style": {"borderLeft": f"8px solid {option.colour}"}} if option.colour else {}
            options.append({"id": option.value, "text": option.label, **style})
        title = _texts(all_texts) + f"<h3>{html.escape(question.text)}</h3>"
        title += _notes([question.guidance])
        if question.examples:
            title += f'<details class="remine-note"><summary>Examples</summary>{forms.examples(question)}</details>'
        options += [*report, *(issue if number == 0 else [])]
        yield {**base, "question": question.name, "html": _page(form, item, target, title), "options": options}
    for span_kind in form.span_labels.kinds if form.span_labels else ():
        if span_kind.text not in item.texts:
            continue
        text_id, text = item.texts[span_kind.text]
        others = [f"{role}: {item.texts[role][1]}" for role in roles if role != span_kind.text]
        title = _texts(others) + f"<h3>{html.escape(span_kind.title or span_kind.name)}</h3>"
        title += _notes([span_kind.guidance, *_labels(span_kind)])
        yield {
            **base,
            SPAN_KIND: span_kind.name,
            "text": text,
            "text_id": text_id,
            "tokens": tokens(text),
            "html": _page(form, item, target, title),
            "options": report,
        }
    if form.free_texts:
        names = [free_text.name for free_text in form.free_texts]
        yield {**base, FREE_TEXTS: names, "html": _page(form, item, target, _texts(all_texts)), "options": report}


def kind_of(task: dict[str, Any]) -> str:
    """Return the kind of the settings that show the task."""
    return SPANS if SPAN_KIND in task else TEXTS if FREE_TEXTS in task else CHOICE


def _labels(span_kind: SpanKind) -> list[str]:
    return [f"{label.value}: {label.label}. {label.guidance}" for label in span_kind.labels]


def _page(form: Form, item: ShownItem, target: str, title: str) -> str:
    notes = _notes([form.welfare.notice, form.instructions, form.welfare.skip_help, form.welfare.report_help])
    return notes + forms.instruction(item, target) + _pictures(form, item) + title


def _pictures(form: Form, item: ShownItem) -> str:
    """Return the pictures as HTML without scripts, blurred until the rater clicks the label."""
    if not item.pictures:
        return ""
    blurred = " remine-blurred" if form.welfare.blur else ""
    shown = "".join(
        f'<img class="remine-picture{blurred}" src="{html.escape(address, quote=True)}" alt=""/>'
        for address in item.pictures
    )
    box = f"show-{content_id(item.item_id)[:12]}"
    switch = (
        f'<input type="checkbox" class="remine-show" id="{box}"/>'
        f'<label for="{box}">{html.escape(form.welfare.show)}</label><br/>'
    )
    return f"<div>{switch if blurred else ''}{shown}</div>"


def _texts(texts: list[str]) -> str:
    return "".join(f"<blockquote>{html.escape(text)}</blockquote>" for text in texts)


def _notes(texts: list[str]) -> str:
    return "".join(f'<p class="remine-note">{html.escape(text)}</p>' for text in texts if text)


def tokens(text: str) -> list[dict[str, Any]]:
    """Return the words and signs that people can select, with their positions."""
    return [
        {
            "text": match.group(),
            "start": match.start(),
            "end": match.end(),
            "id": number,
            "ws": match.end() < len(text) and text[match.end()].isspace(),
        }
        for number, match in enumerate(_TOKEN.finditer(text))
    ]
