"""What the readers of annotation tools' exports share: fields of a task, answers and spans from one annotation."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from actors.ids import content_id
from actors.status import Status
from jobs.annotation import model
from jobs.annotation.answers import ISSUE, Questionnaire
from jobs.annotation.spans import SpanKind, SpanLabels
from jobs.errors import InputError
from jobs.store.writer import Reject, Rejects

REPORT = "report_picture"  # the control by which a person reports a picture
COMMENT = "comment"
SHOW = "show_picture"  # a picture is blurred until it is asked for
WELFARE = (REPORT, ISSUE, COMMENT, SHOW)


@dataclass(frozen=True)
class ToolReading:
    """What is read from a tool's export.

    `controls` gives the tool's own name of a question where it differs; `fields` the fields of a task's data that
    hold item_id, rater, text_id and the like where they are called otherwise; `rater` whether the person is who the
    tool says (`annotator`) or whom the task was made for (`assigned`).
    """

    table: str
    asked: Questionnaire | None = None
    span_labels: SpanLabels | None = None
    controls: Mapping[str, str] = field(default_factory=dict)
    fields: Mapping[str, str] = field(default_factory=dict)
    question: str | None = None
    rater: str = "annotator"
    private: bool = False

    def questions(self, data: Mapping[str, Any]) -> tuple[str, ...]:
        """The questions a task asked: those it names, else the mapped ones, else the rubric's.

        Raises:
            InputError: tasks of another rubric, or a question that the rubric does not have.
        """
        if self.asked and self.asked.names and (of := data.get("rubric")) and of != self.asked.name:
            raise InputError(f"the tasks are of rubric {of!r}, not {self.asked.name}")
        named = data.get("questions")
        if isinstance(named, list) and named:
            asked = tuple(map(str, named))
        else:
            asked = tuple(self.controls) or (self.asked.asked if self.asked else ())
        if self.asked and (unknown := next((each for each in asked if self.asked.question(each) is None), None)):
            there = ", ".join(self.asked.sets)
            raise InputError(f"the tasks ask {unknown!r}; rubric {self.asked.name} has {there}, so they are another's")
        return asked

    def get(self, data: Mapping[str, Any], name: str) -> Any:
        """Field `name` of a task, under the name it has there; `a.b` is field b of field a."""
        found: Any = data
        for part in self.fields.get(name, name).split("."):
            found = found.get(part) if isinstance(found, Mapping) else None
        return found


@dataclass(frozen=True)
class Done:
    """One person's work on one task, as any tool has it."""

    item_id: str
    rater: str
    data: Mapping[str, Any]
    given: Mapping[str, Sequence[Any]]  # question -> what was chosen
    marked: Mapping[str, Sequence[Mapping[str, Any]]]  # name of the span kind -> spans with start, end, text, label
    skipped: bool
    reported: bool
    issue: bool | None  # None: the form had no such box
    comment: str | None
    seconds: float | None
    time: float | None
    position: int
    number: int  # of the annotation in its file
    refused: bool = False


def answers(done: Done, reading: ToolReading) -> Iterator[dict[str, Any]]:
    """Rows under `model.ANSWERS`: one a question that was asked, and one for the box of response issues.

    The time spent on the task is shared equally among them; the comment stands with the first.
    """
    asked = [*reading.questions(done.data), *([] if done.issue is None else [ISSUE])]
    for place, question in enumerate(asked):
        status, kind = _ended(done)
        given = done.given.get(question, ())
        if question == ISSUE and done.issue:  # said even by who then skips
            status, kind, given = None, None, ["yes"]
        elif question == ISSUE:
            given = [] if status else ["no"]
        yield {
            "item_id": done.item_id,
            "target": _text(reading.get(done.data, "target")),
            "question": question,
            "rater": done.rater,
            "condition": _text(reading.get(done.data, "condition")),
            "given": one(given),
            "status": status,
            "kind": kind,
            "images": images(done.data),
            "comment": done.comment if place == 0 else None,
            "seconds": None if done.seconds is None else done.seconds / len(asked),
            "time": done.time,
            "position": done.position,
        }


def _ended(done: Done) -> tuple[str | None, str | None]:
    if done.reported:
        return Status.REPORTED.value, "reported"
    if done.skipped:
        return Status.SKIPPED.value, "response_issue" if done.issue else "skipped"
    return (Status.REFUSED.value, "rejected") if done.refused else (None, None)


def spans(uri: str, done: Done, reading: ToolReading, reject: Rejects) -> Iterator[dict[str, Any]]:
    """Rows under `model.SPANS`. A text in which nothing was marked has one row with start = end = 0."""
    assert reading.span_labels is not None
    for span_kind in reading.span_labels.kinds:
        text = reading.get(done.data, span_kind.text)
        if not isinstance(text, str):  # the task does not show this text
            for _ in done.marked.get(span_kind.name, ()):
                message = f"{span_kind.name}: marked in a text {span_kind.text!r} that the task lacks"
                reject(Reject(uri, done.position, "no_text", message))
            continue
        row = {
            "item_id": done.item_id,
            "rater": done.rater,
            "text_id": text_id(span_kind, done.data, reading, text),
            "kind": span_kind.kind,
            "time": done.time,
            "annotation": done.number,
            "position": done.position,
        }
        status = _ended(done)[0]
        said = [] if status else done.marked.get(span_kind.name, ())
        found = [_span(span_kind, text, each) for each in said]
        for fault in (each for each in found if isinstance(each, _Fault)):
            reject(Reject(uri, done.position, *fault))
        kept = [each for each in found if not isinstance(each, _Fault)]
        whole = {(each["start"], each["end"]): each for each in kept}  # one key, one row: several labels are joined
        for key, first in whole.items():
            labels = dict.fromkeys(each["category"] for each in kept if (each["start"], each["end"]) == key)
            yield {**row, **first, "category": "+".join(filter(None, labels)) or None, "status": Status.OK.value}
        if not said:
            yield {**row, "start": 0, "end": 0, "status": status or Status.OK.value}


class _Fault(NamedTuple):
    reason: str
    message: str


def _span(span_kind: SpanKind, text: str, said: Mapping[str, Any]) -> dict[str, Any] | _Fault:
    """Start, end and category of one span in characters (code points), or what is wrong with it."""
    start, end, label = said.get("start"), said.get("end"), said.get("label")
    if not isinstance(start, int) or not isinstance(end, int):
        return _Fault("bad_span", f"{span_kind.name}: {start!r} to {end!r} are no whole numbers")
    in_points = _points(text, start, end) if said.get("text") and text[start:end] != said["text"] else None
    if in_points and text[slice(*in_points)] == said["text"]:
        start, end = in_points  # the tool counted UTF-16 units
    if not 0 <= start < end <= len(text):
        message = f"{span_kind.name}: {start} to {end} does not lie in its text of {len(text)} characters"
        return _Fault("span_outside_text", message)
    category = span_kind.category(str(label)) if label is not None else None
    if label is not None and category is None:
        known = ", ".join(each.value for each in span_kind.labels)
        return _Fault("unknown_label", f"{span_kind.name}: label {label!r} is none of {known}")
    return {"start": start, "end": end, "category": category}


def _points(text: str, start: int, end: int) -> tuple[int, int] | None:
    """Offsets in UTF-16 units as code points, None if they cut a character."""
    units = text.encode("utf-16-le")
    try:
        return tuple(len(units[: 2 * place].decode("utf-16-le")) for place in (start, end))  # type: ignore[return-value]
    except UnicodeDecodeError:
        return None


def text_id(span_kind: SpanKind, data: Mapping[str, Any], reading: ToolReading, text: str) -> str:
    """The id of the text: the task's field `<role>_id`, else a hash of role and text as in table `texts`."""
    return _text(reading.get(data, f"{span_kind.text}_id")) or content_id(span_kind.text, "", text)


def images(data: Mapping[str, Any]) -> list[str] | None:
    """The pictures of a task, where it names them."""
    named = data.get("image_ids")
    return [str(each) for each in named] if isinstance(named, list) else None


def one(chosen: Sequence[Any]) -> str | None:
    """What was chosen as one text; several choices as a JSON list, which no closed answer is."""
    texts = [str(each) for each in chosen]
    if len(texts) > 1:
        return json.dumps(texts, ensure_ascii=False)
    return texts[0] if texts else None


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def batches(rows: Iterable[dict[str, Any]], table: str) -> Iterator[Any]:
    """`rows` as Arrow tables of a bounded size."""
    held: list[dict[str, Any]] = []
    for row in rows:
        held.append(row)
        if len(held) >= model.ROWS_AT_A_TIME:
            yield model.table(held, model.SCHEMAS[table])
            held = []
    if held:
        yield model.table(held, model.SCHEMAS[table])
