"""Reader of Prodigy's `db-out`: JSON lines, one per task that a person answered with accept, reject or ignore."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import pyarrow as pa

from actors.untrusted import cell_text
from jobs.annotation import batch_schemas, tools
from jobs.annotation.questionnaire import ISSUE
from jobs.annotation.tools import COMMENT, REPORT, Done, ToolReading
from jobs.corpora import json_files
from jobs.errors import InputError
from jobs.store.writer import Reject, Rejects

ANSWERS = ("accept", "reject", "ignore")
REPORT_OPTION, ISSUE_OPTION = f"remine:{REPORT}", f"remine:{ISSUE}"  # options besides the rubric's answers
SPAN_KIND = "span_kind"  # field of a task: the kind of spans to mark
FREE_TEXTS = "free_texts"  # field of a task: the names of the fields for free text


def read(uri: str, reading: ToolReading, reject: Rejects) -> Iterator[pa.Table]:
    """Yield the answers, spans or raters in `uri` in batches; anything else goes to `reject` with its line.

    Raises:
        InputError: the file is not output of db-out, or a task has no question.
    """
    yield from tools.batches(_rows(uri, reading, reject), reading.table)


def _rows(uri: str, reading: ToolReading, reject: Rejects) -> Iterator[dict[str, Any]]:
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
        done = _done(uri, line, data, reading, reject)
        if done is None:
            continue
        if reading.table == "raters":
            yield {"rater": done.rater, "position": line}
        elif reading.table == "spans":
            if SPAN_KIND in data or "spans" in data:
                yield from tools.spans(uri, done, _of_task(data, reading), reject)
        elif reading.table == "remarks":
            yield from tools.remarks(done, reading)
        elif _asks_question(data):
            yield from tools.answers(done, reading)


def _done(uri: str, line: int, data: Mapping[str, Any], reading: ToolReading, reject: Rejects) -> Done | None:
    item = cell_text(reading.get(data, "item_id"))
    rater = cell_text(_rater(data, reading)) or reading.default_rater
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
    return Done(
        item_id=str(item),
        rater=str(rater),
        data={**data, "questions": [name]} if name else data,
        chosen={str(name): binary or [_answer(option, str(name), data, reading) for option in selected]},
        marked=_marked(data, reading),
        # Prodigy keeps one option, so "something is wrong with the response" replaces the answer.
        skipped=data["answer"] == "ignore" or (bool(issue) and not selected and SPAN_KIND not in data),
        reported=REPORT_OPTION in chosen,
        issue=issue,
        comment=str(data[COMMENT]) if not batch_schemas.blank(data.get(COMMENT)) else None,
        seconds=None,  # Prodigy records when a task was answered, but not when the person began it
        time=_time(data),
        position=line,
        number=line,
        refused=data["answer"] == "reject" and not binary,
        written=_written(data, reading),
    )


def _binary(uri: str, line: int, data: Mapping[str, Any], question: Any, reading: ToolReading) -> list[str]:
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


def _written(data: Mapping[str, Any], reading: ToolReading) -> dict[str, str | None]:
    """Return the text of each field for free text: the fields that the task lists, else those that it contains."""
    controls = {free_text.name: tools.control_of(free_text.name, reading) for free_text in reading.free_texts}
    named = data.get(FREE_TEXTS)
    named = named if isinstance(named, list) else ()
    return {name: data.get(control) for name, control in controls.items() if name in named or control in data}


def _rater(data: Mapping[str, Any], reading: ToolReading) -> Any:
    """Return who answered: the session in Prodigy's name `<dataset>-<session>`, if the task is assigned to it."""
    assigned = reading.get(data, "assigned_to")
    if reading.rater == "assigned":
        return assigned
    name = data.get("_annotator_id") or data.get("_session_id")
    if isinstance(name, str) and isinstance(assigned, str) and assigned and name.endswith(f"-{assigned}"):
        return assigned
    return name


def _time(data: Mapping[str, Any]) -> float | None:
    try:
        return batch_schemas.seconds_since_1970(data.get("_timestamp"))
    except (TypeError, ValueError):
        return None


def _answer(chosen: Any, question: str, data: Mapping[str, Any], reading: ToolReading) -> str:
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


def _marked(data: Mapping[str, Any], reading: ToolReading) -> dict[str, Sequence[Mapping[str, Any]]]:
    spans = _dicts(data.get("spans"))
    by_kind: dict[str, Sequence[Mapping[str, Any]]] = {}
    for span_kind in reading.span_labels.kinds if reading.span_labels else ():
        if data.get(SPAN_KIND, span_kind.name) == span_kind.name:
            by_kind[span_kind.name] = [{**span, "text": None} for span in spans]
    return by_kind


def _of_task(data: Mapping[str, Any], reading: ToolReading) -> ToolReading:
    """Return `reading` with only the kind of spans that the task asks for; its text is in the field `text`."""
    assert reading.span_labels is not None
    kinds = tuple(
        span_kind for span_kind in reading.span_labels.kinds if data.get(SPAN_KIND, span_kind.name) == span_kind.name
    )
    fields = {**reading.fields}
    for span_kind in kinds:
        fields.setdefault(span_kind.text, "text")
        fields.setdefault(f"{span_kind.text}_id", "text_id")
    return replace(reading, span_labels=replace(reading.span_labels, kinds=kinds), fields=fields)
