"""Prodigy: tasks for its built-in recipe `mark` and the settings that show them, and what `db-out` writes.

    cp prodigy.choice.json prodigy.json && prodigy mark DATASET anna.choice.jsonl --view-id blocks

Prodigy's interface `choice` stores one answer per task. Therefore each question is a separate task, as is each text in
which people mark spans; the fields for free text together are another one. `db-out` writes JSON lines, one per task
that a person answered with accept, reject or ignore.
"""

import html
import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import pyarrow as pa

from actors.untrusted import cell_text
from jobs.annotation import batch_schemas
from jobs.annotation import form as forms
from jobs.annotation.form import Form, ShownItem
from jobs.annotation.questionnaire import ISSUE
from jobs.annotation.reading import REMARK, Reading
from jobs.annotation.span_labels import SpanKind
from jobs.annotation.tool import COMMENT, REPORT, FinishedTask, PlacedItem, Tool, batches, rows_of
from jobs.corpora import json_files
from jobs.errors import InputError
from jobs.store.writer import Reject, Rejects

KINDS = CHOICE, SPANS, TEXTS = "choice", "spans", "texts"


ANSWERS = ("accept", "reject", "ignore")
REPORT_OPTION, ISSUE_OPTION = f"remine:{REPORT}", f"remine:{ISSUE}"  # options besides the rubric's answers
SPAN_KIND = "span_kind"  # field of a task: the kind of spans to mark
FREE_TEXTS = "free_texts"  # field of a task: the names of the fields for free text


_TOKEN = re.compile(r"\w+|[^\w\s]")
_CSS = f"{forms.PICTURE_CSS}.remine-note {{opacity: 0.8; font-size: 80%}}\n"


def task_files(form: Form, placed: Sequence[PlacedItem]) -> dict[str, str]:
    """Return the files of some tasks, one per kind of task."""
    lines: dict[str, str] = defaultdict(str)
    for item, target, rater, place in placed:
        for task in tasks(form, item, target=target, assigned_to=rater, place=place):
            lines[f"{kind_of(task)}.jsonl"] += json.dumps(task, ensure_ascii=False) + "\n"
    return lines


def form_files(form: Form, kinds: Collection[str], per_task: int | None) -> dict[str, str]:
    """Return the settings for each kind of task."""
    names = [kind.removesuffix(".jsonl") for kind in kinds]
    return {f"prodigy.{kind}.json": json.dumps(settings(form, kind, per_task=per_task), indent=1) for kind in names}


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
    form = form.of_task(target)
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
    return notes + forms.instruction(item, target) + forms.pictures_html(form, item) + title


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


def read(uri: str, reading: Reading, reject: Rejects) -> Iterator[pa.Table]:
    """Yield the answers, spans or raters in `uri` in batches; anything else goes to `reject` with its line.

    Raises:
        InputError: the file is not output of db-out, or a task has no question.
    """
    yield from batches(_rows(uri, reading, reject), reading.table)


def _rows(uri: str, reading: Reading, reject: Rejects) -> Iterator[dict[str, Any]]:
    first = True
    for line, data in islice(json_files.lines(uri, reject, private=reading.private), reading.limit):
        if first and "answer" not in data:
            raise InputError(
                f"not what `prodigy db-out` writes: line {line} has {', '.join(list(data)[:8])}, but no answer",
                place=uri,
            )
        first = False
        if data.get("answer") not in ANSWERS:
            reject(Reject(uri, line, "no_answer", f"answer is {data.get('answer')!r}, not {', '.join(ANSWERS)}"))
            continue
        task = _finished(uri, line, data, reading, reject)
        asks = {"ratings": _asks_question(data), "spans": SPAN_KIND in data or "spans" in data}
        if task is not None and asks.get(reading.table, True):
            yield from rows_of(uri, task, reading, reject)


def _finished(uri: str, line: int, data: Mapping[str, Any], reading: Reading, reject: Rejects) -> FinishedTask | None:
    item = cell_text(reading.get(data, "item_id"))
    rater = cell_text(_rater(data, reading)) or reading.rater
    for field, value in (("item_id", item), ("rater", rater)):
        if value is None:
            reject(
                Reject(uri, line, f"no_{field}", f"the task has no {field}; its fields are {', '.join(list(data)[:8])}")
            )
            return None
    accepted = data.get("accept") or []
    chosen = list(accepted) if isinstance(accepted, list) else [accepted]
    question = reading.get(data, "question") or reading.question
    if reading.table == "ratings" and _asks_question(data) and batch_schemas.blank(question):
        raise InputError(f"line {line} has no question; set question=NAME or columns.question=FIELD", place=uri)
    selected = [option for option in chosen if option not in (REPORT_OPTION, ISSUE_OPTION)]
    offered = {str(option.get("id")) for option in _dicts(data.get("options"))}
    issue = ISSUE_OPTION in chosen if ISSUE_OPTION in offered or ISSUE_OPTION in chosen else None
    name = reading.questionnaire.question(str(question)) if reading.questionnaire and question else question
    binary = _binary(uri, line, data, name, reading)
    if reading.table == "ratings" and _asks_question(data) and name is None:
        reject(Reject(uri, line, "unknown_question", f"{question!r} is not a question of the rubric"))
        return None
    return FinishedTask(
        item_id=str(item),
        rater=str(rater),
        data={**data, "questions": [name]} if name else data,
        chosen={str(name): binary or [_answer(option, str(name), data, reading) for option in selected]},
        texts=_texts_to_mark(data, reading),
        marked=_marked(data, reading),
        # Prodigy keeps one option, so "something is wrong with the response" replaces the answer.
        skipped=data["answer"] == "ignore" or (bool(issue) and not selected and SPAN_KIND not in data),
        reported=REPORT_OPTION in chosen,
        issue=issue,
        comment=str(data[COMMENT]) if not batch_schemas.blank(data.get(COMMENT)) else None,
        seconds=None,  # Prodigy records when a task was answered, but not when the person began it
        time=batch_schemas.moment(data.get("_timestamp")),
        position=line,
        number=line,
        refused=data["answer"] == "reject" and not binary,
        written=_written(data, reading),
    )


def _binary(uri: str, line: int, data: Mapping[str, Any], question: Any, reading: Reading) -> list[str]:
    """Return the answer in a task without options, where accept means yes and reject no; empty for other tasks.

    Raises:
        InputError: the question's answers are not yes and no.
    """
    is_binary = data["answer"] != "ignore" and "options" not in data and "accept" not in data
    if not is_binary or reading.table != "ratings" or not _asks_question(data) or reading.questionnaire is None:
        return []
    if question is None:
        return []
    values = reading.questionnaire.answers(str(question)).values
    meant = [value for value in values if batch_schemas.flag(value) is (data["answer"] == "accept")]
    if len(values) != 2 or len(meant) != 1:
        raise InputError(
            f"line {line} has no options, so that {data['answer']} must mean yes or no, but the answers to "
            f"{question!r} are {', '.join(values)}; choose a question whose answers are yes and no with question=",
            place=uri,
        )
    return meant


def _asks_question(data: Mapping[str, Any]) -> bool:
    """Return whether a task asks one of the rubric's questions, not for spans or free text."""
    return SPAN_KIND not in data and FREE_TEXTS not in data


def _written(data: Mapping[str, Any], reading: Reading) -> dict[str, str | None]:
    """Return the text of each field for free text: the fields that the task lists, else those that it contains."""
    controls = {free_text.name: reading.text_control(free_text.name) for free_text in reading.free_texts}
    named = data.get(FREE_TEXTS)
    named = named if isinstance(named, list) else ()
    return {name: data.get(control) for name, control in controls.items() if name in named or control in data}


def _rater(data: Mapping[str, Any], reading: Reading) -> Any:
    """Return who answered: the session in Prodigy's name `<dataset>-<session>`, if the task is assigned to it."""
    assigned = reading.get(data, "assigned_to")
    if reading.rater_from == "assigned":
        return assigned
    name = data.get("_annotator_id") or data.get("_session_id")
    if isinstance(name, str) and isinstance(assigned, str) and assigned and name.endswith(f"-{assigned}"):
        return assigned
    return name


def _answer(chosen: Any, question: str, data: Mapping[str, Any], reading: Reading) -> str:
    """Return the option's id, or its text if only the text is an answer in the rubric."""
    if reading.questionnaire is None:
        return str(chosen)
    answers = reading.questionnaire.answers(question)
    texts = {str(option.get("id")): str(option["text"]) for option in _dicts(data.get("options")) if "text" in option}
    text = texts.get(str(chosen))
    unknown = answers.meaning(str(chosen)).kind == "unknown_answer"
    return text if text is not None and unknown and answers.meaning(text).kind != "unknown_answer" else str(chosen)


def _dicts(entries: Any) -> list[Mapping[str, Any]]:
    """Return the objects in a list; empty for any other value."""
    return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []


def _marked(data: Mapping[str, Any], reading: Reading) -> dict[str, Sequence[Mapping[str, Any]]]:
    spans = _dicts(data.get("spans"))
    by_kind: dict[str, Sequence[Mapping[str, Any]]] = {}
    for span_kind in reading.span_labels.kinds if reading.span_labels else ():
        if data.get(SPAN_KIND, span_kind.name) == span_kind.name:
            by_kind[span_kind.name] = [{**span, "text": None} for span in spans]
    return by_kind


def _texts_to_mark(data: Mapping[str, Any], reading: Reading) -> dict[str, tuple[Any, Any]]:
    """Return the text to mark and its id, by role: the fields `text` and `text_id`, unless the role has its own."""

    def field(name: str, of_task: str) -> Any:
        return reading.get(data, name) if name in reading.fields else data.get(of_task)

    roles = [span_kind.text for span_kind in reading.span_labels.kinds] if reading.span_labels else []
    return {role: (field(role, "text"), field(f"{role}_id", "text_id")) for role in roles}


TOOL = Tool(task_files=task_files, form_files=form_files, read=read, endings=(".jsonl", ".jsonl.gz"))
