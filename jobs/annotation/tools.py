"""Code shared by the readers of annotation tools: fields of a task, and the answers and spans of an annotation."""

import json
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, NamedTuple

from actors.ids import content_id
from actors.rubrics.people import FreeText
from actors.status import Status
from actors.untrusted import cell_text
from jobs.annotation import batch_schemas
from jobs.annotation.questionnaire import ISSUE, Questionnaire
from jobs.annotation.span_labels import SpanKind, SpanLabels
from jobs.errors import InputError
from jobs.store.writer import Reject, Rejects

REPORT = "report_picture"  # the control with which a person reports a picture
COMMENT = "comment"
REMARK = "remark_"  # prefix of the controls for free text, which keeps their names apart from other fields
SHOW = "show_picture"  # the control that shows a blurred picture
OWN = "own_questions"  # field of a task: the item's own questions; the controls of their answers are OWN_0, OWN_1, …
WELFARE = (REPORT, ISSUE, COMMENT, SHOW)


@dataclass(frozen=True)
class ToolReading:
    """Settings for reading a tool's export.

    Attributes:
        table: ratings, spans, remarks or raters.
        free_texts: the rubric's fields for free text.
        controls: name of each question's control in the tool, if it differs.
        text_controls: name of each free text's control in the tool, if it differs.
        fields: field of a task's data for item_id, target, text_id, …, if it differs.
        question: the question of tasks without one.
        default_rater: the rater of tasks for which the tool names none.
        rater: `annotator`, the person who answered according to the tool, or `assigned`, the person to whom the task
            was assigned.
        limit: how many tasks of a file are read, from the first one; None: all.
        private: keep the text of lines out of rejects.
    """

    table: str
    questionnaire: Questionnaire | None = None
    span_labels: SpanLabels | None = None
    free_texts: Sequence[FreeText] = ()
    controls: Mapping[str, str] = field(default_factory=dict)
    text_controls: Mapping[str, str] = field(default_factory=dict)
    fields: Mapping[str, str] = field(default_factory=dict)
    question: str | None = None
    rater: str = "annotator"
    default_rater: str | None = None
    limit: int | None = None
    private: bool = False

    def questions(self, data: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the questions of a task: its own list, else the mapped ones, else the rubric's.

        Raises:
            InputError: the task is of another rubric, or has a question that the rubric does not have.
        """
        questionnaire = self.questionnaire
        if questionnaire and questionnaire.names and (rubric := data.get("rubric")) and rubric != questionnaire.name:
            raise InputError(f"rubric={questionnaire.name}: the tasks are of rubric {rubric!r}; set rubric={rubric}")
        names = data.get("questions")
        if isinstance(names, list) and names:
            questions = tuple(map(str, names))
        else:
            questions = tuple(self.controls) or (questionnaire.asked if questionnaire else ())
        if questionnaire and (
            unknown := next((name for name in questions if questionnaire.question(name) is None), None)
        ):
            raise InputError(
                f"rubric={questionnaire.name}: the tasks ask {unknown!r}; it has {', '.join(questionnaire.sets)}"
            )
        return questions

    def controls_of(self, data: Mapping[str, Any]) -> dict[str, str]:
        """Return the name of each question's control, for the questions of a task.

        Raises:
            InputError: as for `questions`.
        """
        names = self.questions(data)
        if isinstance(entries := data.get(OWN), list):
            places = {str(entry.get("question_id")): n for n, entry in enumerate(entries) if isinstance(entry, Mapping)}
            return {name: f"{OWN}_{places[name]}" if name in places else name for name in names}
        return {name: self.controls.get(name, name) for name in names}

    def get(self, data: Mapping[str, Any], name: str) -> Any:
        """Return the field `name` of a task, or the field that replaces it; `a.b` is the field b of the field a."""
        value: Any = data
        for part in self.fields.get(name, name).split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        return value


@dataclass(frozen=True)
class Done:
    """A person's work on a task, independent of the tool."""

    item_id: str
    rater: str
    data: Mapping[str, Any]
    chosen: Mapping[str, Sequence[Any]]  # chosen options by question
    marked: Mapping[str, Sequence[Mapping[str, Any]]]  # spans with start, end, text, label, by name of the kind
    skipped: bool
    reported: bool
    issue: bool | None  # whether the response is faulty; None: the form had no such box
    comment: str | None
    seconds: float | None
    time: float | None
    position: int
    number: int  # number of the annotation in its file
    refused: bool = False
    written: Mapping[str, str | None] = field(default_factory=dict)  # what the person wrote, by field for free text


def answers(done: Done, reading: ToolReading) -> Iterator[dict[str, Any]]:
    """Yield rows of `batch_schemas.ANSWERS`: one per question of the task, and one for the box about a faulty response.

    The rows share the time spent on the task equally; the first row has the comment.
    """
    questions = [*reading.questions(done.data), *([] if done.issue is None else [ISSUE])]
    for number, question in enumerate(questions):
        status, kind = _ended(done)
        chosen = done.chosen.get(question, ())
        if question == ISSUE and done.issue:  # valid even if the person then skips the task
            status, kind, chosen = None, None, ["yes"]
        elif question == ISSUE:
            chosen = [] if status else ["no"]
        yield {
            "item_id": done.item_id,
            "target": cell_text(reading.get(done.data, "target")),
            "question": question,
            "rater": done.rater,
            "condition": cell_text(reading.get(done.data, "condition")),
            "answer": one(chosen),
            "status": status,
            "kind": kind,
            "images": images(done.data),
            "comment": done.comment if number == 0 else None,
            "seconds": None if done.seconds is None else done.seconds / len(questions),
            "time": done.time,
            "position": done.position,
        }


def remarks(done: Done, reading: ToolReading) -> Iterator[dict[str, Any]]:
    """Yield rows of `batch_schemas.REMARKS`, one per field of the task; text is None if the person wrote nothing."""
    for name, text in done.written.items():
        yield {
            "item_id": done.item_id,
            "target": cell_text(reading.get(done.data, "target")),
            "field": name,
            "rater": done.rater,
            "condition": cell_text(reading.get(done.data, "condition")),
            "text": None if batch_schemas.blank(text) else str(text).strip(),
            "images": images(done.data),
            "time": done.time,
            "annotation": done.number,
            "position": done.position,
        }


def control_of(field_name: str, reading: ToolReading) -> str:
    """Return the name of the control, or of the field of a task, that holds a free text."""
    return reading.text_controls.get(field_name, f"{REMARK}{field_name}")


def _ended(done: Done) -> tuple[str | None, str | None]:
    """Return status and kind of a task that the person reported, skipped or refused; otherwise None, None."""
    if done.reported:
        return Status.REPORTED.value, "reported"
    if done.skipped:
        return Status.SKIPPED.value, "response_issue" if done.issue else "skipped"
    return (Status.REFUSED.value, "rejected") if done.refused else (None, None)


def spans(uri: str, done: Done, reading: ToolReading, reject: Rejects) -> Iterator[dict[str, Any]]:
    """Yield rows of `batch_schemas.SPANS`. A text without marks has one row with start = end = 0."""
    assert reading.span_labels is not None
    for span_kind in reading.span_labels.kinds:
        text = reading.get(done.data, span_kind.text)
        if not isinstance(text, str):  # the task does not show this text
            for _ in done.marked.get(span_kind.name, ()):
                message = f"{span_kind.name}: the task has no text {span_kind.text!r} to mark"
                reject(Reject(uri, done.position, "no_text", message))
            continue
        row = {
            "item_id": done.item_id,
            "rater": done.rater,
            "condition": cell_text(reading.get(done.data, "condition")),
            "text_id": text_id(span_kind, done.data, reading, text),
            "kind": span_kind.kind,
            "images": images(done.data),
            "time": done.time,
            "annotation": done.number,
            "position": done.position,
        }
        status = _ended(done)[0]
        marked = [] if status else done.marked.get(span_kind.name, ())
        converted = [_span(span_kind, text, span) for span in marked]
        for fault in (span for span in converted if isinstance(span, _Fault)):
            reject(Reject(uri, done.position, *fault))
        valid = [span for span in converted if not isinstance(span, _Fault)]
        by_range = {(span["start"], span["end"]): span for span in valid}  # one row per range joins its labels
        for key, first in by_range.items():
            labels = dict.fromkeys(span["category"] for span in valid if (span["start"], span["end"]) == key)
            yield {**row, **first, "category": "+".join(filter(None, labels)) or None, "status": Status.OK.value}
        if not marked:
            yield {**row, "start": 0, "end": 0, "status": status or Status.OK.value}


class _Fault(NamedTuple):
    reason: str
    message: str


def _span(span_kind: SpanKind, text: str, span: Mapping[str, Any]) -> dict[str, Any] | _Fault:
    """Return a span in characters (code points), its category and whether it was shifted; or its fault."""
    start, end, label = span.get("start"), span.get("end"), span.get("label")
    if not isinstance(start, int) or not isinstance(end, int):
        return _Fault("bad_span", f"{span_kind.name}: {start!r} to {end!r} are not whole numbers")
    stored, place = span.get("text"), (start, end)
    if isinstance(stored, str) and stored and not (start >= 0 and text[start:end] == stored):
        nearest = _BrowserText(text).find(stored, start)
        if nearest is None:
            message = f"{span_kind.name}: the marked text {stored[:40]!r} is not in the task's text near {start}"
            return _Fault("text_differs", message)
        place = nearest
    elif not stored and span.get("in_browser") and _BrowserText(text).counts_differently(end):
        message = (
            f"{span_kind.name}: {start} to {end} is unclear: the export lacks the marked text, and browsers count line "
            "ends and emoji differently"
        )
        return _Fault("unclear_offsets", message)
    is_shifted = place != (start, end)
    start, end = place
    if not 0 <= start < end <= len(text):
        message = f"{span_kind.name}: {start} to {end} is outside of the text of {len(text)} characters"
        return _Fault("span_outside_text", message)
    category = span_kind.category(str(label)) if label is not None else None
    if label is not None and category is None:
        allowed = ", ".join(category.value for category in span_kind.labels)
        return _Fault("unknown_label", f"{span_kind.name}: label {label!r} is not one of {allowed}")
    return {"start": start, "end": end, "category": category, "shifted": is_shifted}


class _BrowserText:
    """A text as browsers count it, where a line end is one character, and an emoji two (UTF-16)."""

    def __init__(self, text: str) -> None:
        is_end = [text[at : at + 2] == "\r\n" for at in range(len(text))]
        self._indices = [at for at, starts in enumerate(is_end) if not starts]
        self._text = "".join(text[at] for at in self._indices).replace("\r", "\n")
        sizes = (1 + (character > "\uffff") for character in self._text)
        self._units = [0, *accumulate(sizes)]  # UTF-16 units before each character
        self._length = len(text)

    def counts_differently(self, end: int) -> bool:
        """Return whether the browser's number of a place may differ from the text's, up to index `end`."""
        return any(
            unit != index
            for unit, index in zip(self._units, [*self._indices, self._length], strict=True)
            if min(unit, index) <= end
        )

    def find(self, marked: str, start: int) -> tuple[int, int] | None:
        """Return start and end, in the original text, of the occurrence of `marked` that is nearest to `start`.

        Args:
            marked: the marked text as the tool stored it; line ends may be written as a backslash and n.
            start: its first character as the browser counts.
        """
        near = bisect_left(self._units, start)
        for wanted in dict.fromkeys((_with_line_feeds(marked), _with_line_feeds(marked.replace("\\n", "\n")))):
            places = self._places(wanted)
            if places:
                at = min(places, key=lambda place: abs(place - near))
                return self._indices[at], self._indices[at + len(wanted) - 1] + 1
        return None

    def _places(self, wanted: str) -> list[int]:
        places = []
        at = self._text.find(wanted)
        while at >= 0:
            places.append(at)
            at = self._text.find(wanted, at + 1)
        return places


def _with_line_feeds(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def text_id(span_kind: SpanKind, data: Mapping[str, Any], reading: ToolReading, text: str) -> str:
    """Return the text's id: the task's field `<role>_id`, else a hash of role and text as in the table `texts`."""
    return cell_text(reading.get(data, f"{span_kind.text}_id")) or content_id(span_kind.text, "", text)


def images(data: Mapping[str, Any]) -> list[str] | None:
    """Return the pictures of a task; None if it lists none."""
    image_ids = data.get("image_ids")
    return [str(image_id) for image_id in image_ids] if isinstance(image_ids, list) else None


def one(chosen: Sequence[Any]) -> str | None:
    """Return the chosen option as text; several options as a JSON list, which is never the value of an answer."""
    texts = [cell_text(option) or str(option) for option in chosen]
    if len(texts) > 1:
        return json.dumps(texts, ensure_ascii=False)
    return texts[0] if texts else None


def batches(rows: Iterable[dict[str, Any]], table: str) -> Iterator[Any]:
    """Yield `rows` as Arrow tables of a bounded size."""
    held: list[dict[str, Any]] = []
    for row in rows:
        held.append(row)
        if len(held) >= batch_schemas.ROWS_AT_A_TIME:
            yield batch_schemas.table(held, batch_schemas.SCHEMAS[table])
            held = []
    if held:
        yield batch_schemas.table(held, batch_schemas.SCHEMAS[table])
