"""An annotation tool: what its module provides, and how people's work in any tool becomes rows.

A tool is one module of `jobs.annotation.tools`: it writes the files that people work with, and reads what it exports.
`TOOLS` has the names of these modules, so that a new tool needs nothing but its module.
"""

import importlib
import json
import pkgutil
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, islice
from typing import Any, NamedTuple

import pyarrow as pa

from actors.ids import content_id
from actors.status import Status
from actors.untrusted import cell_text
from jobs.annotation import batch_schemas, tools
from jobs.annotation.form import Form, ShownItem
from jobs.annotation.questionnaire import ISSUE
from jobs.annotation.reading import Reading
from jobs.annotation.span_labels import SpanKind
from jobs.store.writer import Reject, Rejects

TOOLS = tuple(sorted(module.name for module in pkgutil.iter_modules(tools.__path__)))
REPORT = "report_picture"  # the control with which a person reports a picture
COMMENT = "comment"
SHOW = "show_picture"  # the control that shows a blurred picture
WELFARE = (REPORT, ISSUE, COMMENT, SHOW)


class PlacedItem(NamedTuple):
    """A task: an item as shown to people, its target, its rater (None: a group's task) and its place in the order."""

    item: ShownItem
    target: str
    assigned_to: str | None
    place: int


@dataclass(frozen=True)
class Tool:
    """An annotation tool, `TOOL` of its module.

    Attributes:
        task_files: returns the texts of the files with some tasks, by file name extension.
        form_files: returns the texts of the files that a study has once, by file name, given the extensions of the
            files of tasks and, if several people share a file, how many of them get each task.
        check: raises ValueError if the tool cannot show the form.
        read: yields batches of an exported file (`jobs.annotation.batch_schemas`), and passes anything that is not an
            annotation to a callback; None: people return a CSV file, which `jobs.annotation.tabular` reads.
        endings: file name extensions of what the tool exports.
        has_answers: whether a file of tasks, given its uri and content, has answers; people work in files only if the
            tool has no `read`.
        one_form: whether all tasks of a project have the same questions, so that tasks with and without a target are
            in folders of their own.
    """

    task_files: Callable[[Form, Sequence[PlacedItem]], Mapping[str, str]]
    form_files: Callable[[Form, Collection[str], int | None], Mapping[str, str]] = lambda *_: {}
    check: Callable[[Form], None] = lambda form: None
    read: Callable[[str, Reading, Rejects], Iterator[pa.Table]] | None = None
    endings: tuple[str, ...] = ()
    has_answers: Callable[[str, bytes], bool] = lambda uri, content: False
    one_form: bool = False


def tool_of(name: str) -> Tool:
    """Return the tool `name`, one of `TOOLS`."""
    tool: Tool = importlib.import_module(f"{tools.__name__}.{name}").TOOL
    return tool


@dataclass(frozen=True)
class FinishedTask:
    """A person's work on a task, independent of the tool.

    Attributes:
        data: the fields of the task.
        chosen: chosen options by question.
        texts: the text to mark and its id (None: none in the task), by role.
        marked: spans with start, end, text and label, by name of the kind; kinds that the task does not ask for are
            missing.
        issue: whether the response is faulty; None: the form had no such box.
        number: number of the annotation in its file.
        written: what the person wrote, by field for free text.
    """

    item_id: str
    rater: str
    data: Mapping[str, Any]
    chosen: Mapping[str, Sequence[Any]]
    texts: Mapping[str, tuple[Any, Any]]
    marked: Mapping[str, Sequence[Mapping[str, Any]]]
    skipped: bool
    reported: bool
    issue: bool | None
    comment: str | None
    seconds: float | None
    time: float | None
    position: int
    number: int
    refused: bool = False
    written: Mapping[str, str | None] = field(default_factory=dict)


def rows_of(uri: str, task: FinishedTask, reading: Reading, reject: Rejects) -> Iterator[dict[str, Any]]:
    """Yield the rows of a task for the table that is read, with a schema of `jobs.annotation.batch_schemas`."""
    common = {
        "item_id": task.item_id,
        "rater": task.rater,
        "condition": cell_text(reading.get(task.data, "condition")),
        "images": _images(task.data),
        "time": task.time,
        "position": task.position,
    }
    if reading.table == "raters":
        rows: Iterator[dict[str, Any]] = iter([{}])
    elif reading.table == "spans":
        rows = _span_rows(uri, task, reading, reject)
    elif reading.table == "remarks":
        rows = _remarks(task, reading)
    else:
        rows = _answers(task, reading)
    yield from (common | row for row in rows)


def _answers(task: FinishedTask, reading: Reading) -> Iterator[dict[str, Any]]:
    """Yield a row per question of the task, and one for the box about a faulty response.

    The rows share the time spent on the task equally; the first row has the comment.
    """
    questions = [*reading.questions(task.data), *([] if task.issue is None else [ISSUE])]
    for number, question in enumerate(questions):
        status, kind = _ended(task)
        chosen = task.chosen.get(question, ())
        if question == ISSUE and task.issue:  # valid even if the person then skips the task
            status, kind, chosen = None, None, ["yes"]
        elif question == ISSUE:
            chosen = [] if status else ["no"]
        yield {
            "target": cell_text(reading.get(task.data, "target")),
            "question": question,
            "answer": _one(chosen),
            "status": status,
            "kind": kind,
            "comment": task.comment if number == 0 else None,
            "seconds": None if task.seconds is None else task.seconds / len(questions),
        }


def _remarks(task: FinishedTask, reading: Reading) -> Iterator[dict[str, Any]]:
    """Yield a row per field for free text; the text is None if the person wrote nothing."""
    for name, text in task.written.items():
        yield {
            "target": cell_text(reading.get(task.data, "target")),
            "field": name,
            "text": None if batch_schemas.blank(text) else str(text).strip(),
            "annotation": task.number,
        }


def _ended(task: FinishedTask) -> tuple[str | None, str | None]:
    """Return status and kind of a task that the person reported, skipped or refused; otherwise None, None."""
    if task.reported:
        return Status.REPORTED.value, "reported"
    if task.skipped:
        return Status.SKIPPED.value, "response_issue" if task.issue else "skipped"
    return (Status.REFUSED.value, "rejected") if task.refused else (None, None)


def _span_rows(uri: str, task: FinishedTask, reading: Reading, reject: Rejects) -> Iterator[dict[str, Any]]:
    """Yield a row per marked range of the task's texts. A text without marks has one row with start = end = 0."""
    assert reading.span_labels is not None
    for span_kind in (kind for kind in reading.span_labels.kinds if kind.name in task.marked):
        text, text_id = task.texts[span_kind.text]
        if not isinstance(text, str):  # the task does not show this text
            for _ in task.marked[span_kind.name]:
                message = f"{span_kind.name}: the task has no text {span_kind.text!r} to mark"
                reject(Reject(uri, task.position, "no_text", message))
            continue
        row = {
            # Without an id in the task, the text has that of the table `texts`.
            "text_id": cell_text(text_id) or content_id(span_kind.text, "", text),
            "kind": span_kind.kind,
            "annotation": task.number,
        }
        status = _ended(task)[0]
        marked = [] if status else task.marked[span_kind.name]
        converted = [_span(span_kind, text, span) for span in marked]
        for fault in (span for span in converted if isinstance(span, _Fault)):
            reject(Reject(uri, task.position, *fault))
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


def _images(data: Mapping[str, Any]) -> list[str] | None:
    """Return the pictures of a task; None if it lists none."""
    image_ids = data.get("image_ids")
    return [str(image_id) for image_id in image_ids] if isinstance(image_ids, list) else None


def _one(chosen: Sequence[Any]) -> str | None:
    """Return the chosen option as text; several options as a JSON list, which is never the value of an answer."""
    texts = [cell_text(option) or str(option) for option in chosen]
    if len(texts) > 1:
        return json.dumps(texts, ensure_ascii=False)
    return texts[0] if texts else None


def batches(rows: Iterable[dict[str, Any]], table: str) -> Iterator[pa.Table]:
    """Yield `rows` as Arrow tables of a bounded size."""
    rows = iter(rows)
    while held := list(islice(rows, batch_schemas.ROWS_AT_A_TIME)):
        yield batch_schemas.table(held, batch_schemas.SCHEMAS[table])
