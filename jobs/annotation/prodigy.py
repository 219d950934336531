"""Prodigy's `db-out`: JSON lines, one a task that a person answered with accept, reject or ignore."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from jobs.annotation import json_files, model, tools
from jobs.annotation.answers import ISSUE
from jobs.annotation.tools import COMMENT, REPORT, Done, ToolReading
from jobs.errors import InputError
from jobs.store.writer import Reject, Rejects

ANSWERS = ("accept", "reject", "ignore")
REPORT_OPTION, ISSUE_OPTION = f"remine:{REPORT}", f"remine:{ISSUE}"  # options beside the rubric's answers
SPAN_KIND = "span_kind"  # a task that asks for spans names its kind here


def read(uri: str, reading: ToolReading, reject: Rejects) -> Iterator[pa.Table]:
    """The answers, spans or people in `uri`, in batches; `reject` gets what is no annotation, by line.

    Raises:
        InputError: not such a file, or no question named anywhere.
    """
    yield from tools.batches(_rows(uri, reading, reject), reading.table)


def _rows(uri: str, reading: ToolReading, reject: Rejects) -> Iterator[dict[str, Any]]:
    first = True
    for line, data in json_files.lines(uri, reject, private=reading.private):
        if first and "answer" not in data:
            raise InputError(
                f"{uri}: not what `prodigy db-out` writes: line {line} has {', '.join(list(data)[:8])}, no answer"
            )
        first = False
        if data.get("answer") not in ANSWERS:
            reject(Reject(uri, line, "no_answer", f"answer is {data.get('answer')!r}, not {', '.join(ANSWERS)}"))
            continue
        done = _done(uri, line, data, reading, reject)
        if done is None:
            continue
        if reading.table == "raters":
            yield {"rater": done.rater, "position": line}
        elif reading.table == "spans":
            if SPAN_KIND in data or "spans" in data:
                yield from tools.spans(uri, done, _of_task(data, reading), reject)
        elif SPAN_KIND not in data:
            yield from tools.answers(done, reading)


def _done(uri: str, line: int, data: Mapping[str, Any], reading: ToolReading, reject: Rejects) -> Done | None:
    item, rater = reading.get(data, "item_id"), _rater(data, reading)
    for name, value in (("item_id", item), ("rater", rater)):
        if model.blank(value):
            reject(Reject(uri, line, f"no_{name}", f"names no {name}; it has {', '.join(list(data)[:8])}"))
            return None
    said = data.get("accept") or []
    chosen = list(said) if isinstance(said, list) else [said]
    question = reading.get(data, "question") or reading.question
    if reading.table == "ratings" and SPAN_KIND not in data and model.blank(question):
        raise InputError(f"{uri}: line {line} names no question; give question=NAME or columns.question=FIELD")
    own = [each for each in chosen if each not in (REPORT_OPTION, ISSUE_OPTION)]
    offered = {str(option.get("id")) for option in data.get("options") or [] if isinstance(option, dict)}
    issue = ISSUE_OPTION in chosen if ISSUE_OPTION in offered or ISSUE_OPTION in chosen else None
    known = reading.asked.question(str(question)) if reading.asked and question else question
    if reading.table == "ratings" and SPAN_KIND not in data and known is None:
        reject(Reject(uri, line, "unknown_question", f"{question!r} is no question of the rubric"))
        return None
    return Done(
        item_id=str(item),
        rater=str(rater),
        data={**data, "questions": [known]} if known else data,
        given={str(known): [_known(each, str(known), data, reading) for each in own]},
        marked=_marked(data, reading),
        # Who ticks "something is wrong with the response" chooses that instead of an answer.
        skipped=data["answer"] == "ignore" or (bool(issue) and not own and SPAN_KIND not in data),
        reported=REPORT_OPTION in chosen,
        issue=issue,
        comment=str(data[COMMENT]) if not model.blank(data.get(COMMENT)) else None,
        seconds=None,  # Prodigy notes when a task was answered, not when it was begun
        time=_time(data),
        position=line,
        number=line,
        refused=data["answer"] == "reject",
    )


def _rater(data: Mapping[str, Any], reading: ToolReading) -> Any:
    """Who answered. Prodigy calls a person `<dataset>-<session>`; the session is the name where the task knows it."""
    assigned = reading.get(data, "assigned_to")
    if reading.rater == "assigned":
        return assigned
    name = data.get("_annotator_id") or data.get("_session_id")
    if isinstance(name, str) and isinstance(assigned, str) and assigned and name.endswith(f"-{assigned}"):
        return assigned
    return name


def _time(data: Mapping[str, Any]) -> float | None:
    try:
        return model.seconds_since_1970(data.get("_timestamp"))
    except (TypeError, ValueError):
        return None


def _known(chosen: Any, question: str, data: Mapping[str, Any], reading: ToolReading) -> str:
    """The option's id, or its text where the rubric knows only that."""
    if reading.asked is None:
        return str(chosen)
    answers = reading.asked.answers(question)
    texts = {str(option.get("id")): str(option.get("text")) for option in data.get("options") or [] if "text" in option}
    text = texts.get(str(chosen))
    unknown = answers.meaning(str(chosen)).kind == "unknown_answer"
    return text if text is not None and unknown and answers.meaning(text).kind != "unknown_answer" else str(chosen)


def _marked(data: Mapping[str, Any], reading: ToolReading) -> dict[str, Sequence[Mapping[str, Any]]]:
    spans = [span for span in data.get("spans") or [] if isinstance(span, dict)]
    found: dict[str, list[Mapping[str, Any]]] = {}
    for span_kind in reading.span_labels.kinds if reading.span_labels else ():
        if data.get(SPAN_KIND, span_kind.name) == span_kind.name:
            found[span_kind.name] = [{**span, "text": None} for span in spans]
    return dict(found)


def _of_task(data: Mapping[str, Any], reading: ToolReading) -> ToolReading:
    """The reading with the one kind that the task asks for, whose text is the task's `text`."""
    assert reading.span_labels is not None
    kinds = tuple(
        span_kind for span_kind in reading.span_labels.kinds if data.get(SPAN_KIND, span_kind.name) == span_kind.name
    )
    fields = {**reading.fields}
    for span_kind in kinds:
        fields.setdefault(span_kind.text, "text")
        fields.setdefault(f"{span_kind.text}_id", "text_id")
    return replace(reading, span_labels=replace(reading.span_labels, kinds=kinds), fields=fields)
