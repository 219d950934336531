"""Reader of Label Studio's JSON export, a list of tasks with annotations. It ignores drafts and predictions."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import pyarrow as pa

from actors.untrusted import TooDeepError, cell_text
from jobs.annotation import batch_schemas, tools
from jobs.annotation.questionnaire import ISSUE
from jobs.annotation.tools import COMMENT, REMARK, REPORT, WELFARE, Done, ToolReading
from jobs.corpora import json_files
from jobs.errors import InputError
from jobs.store.writer import Reject, Rejects

# Keys of a result's value: what the person entered, by type of control; and the place of a region in a text or picture.
VALUES = ("choices", "rating", "number", "selected", "taxonomy", "datetime")
PLACE = frozenset(
    """
    start end text globalOffsets startOffset endOffset x y width height rotation points closed radiusX radiusY format
    rle original_width original_height image_rotation duration sequence framesCount
    """.split()
)
CHECKED_AFTER = 1000  # annotations; if none has an expected control by then, the export is another project's


def read(uri: str, reading: ToolReading, reject: Rejects) -> Iterator[pa.Table]:
    """Yield the answers, spans or raters in `uri` in batches; anything else goes to `reject` with its task's number.

    Raises:
        InputError: not Label Studio's JSON export, or an export of another project.
    """
    yield from tools.batches(_Export(uri, reading, reject).rows(), reading.table)


class _Export:
    """Converter of a file's annotations into rows, which counts their controls to detect another project's export."""

    def __init__(self, uri: str, reading: ToolReading, reject: Rejects) -> None:
        self._uri, self._reading, self._reject = uri, reading, reject
        self._uncommon: Counter[str] = Counter()
        self._expected: set[str] = set()
        self._matches = self._annotations = 0

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the rows of all annotations."""
        for number, task in enumerate(islice(json_files.elements(self._uri), self._reading.limit), start=1):
            if not _is_task(task):
                is_deep = isinstance(task, TooDeepError)
                if number == 1 and not is_deep:
                    raise InputError(_mismatch(task), place=self._uri)
                message = f"the element is {task}" if is_deep else "the element has no data or no annotations"
                self._reject(Reject(self._uri, number, "not_a_task", message))
                continue
            for annotation in task.get("annotations", task.get("completions")):
                done = self._done(number, task, annotation)
                if done is None:
                    continue
                self._check(enough=CHECKED_AFTER)
                if self._reading.table == "raters":
                    yield {"rater": done.rater, "position": number}
                elif self._reading.table == "spans":
                    yield from tools.spans(self._uri, done, self._reading, self._reject)
                elif self._reading.table == "remarks":
                    yield from tools.remarks(done, self._reading)
                else:
                    yield from tools.answers(done, self._reading)
        self._check(enough=0)

    def _check(self, *, enough: int) -> None:
        """Raise InputError if no control was expected so far; before `enough` annotations, do nothing."""
        if self._matches or not self._uncommon or self._reading.table == "raters" or self._annotations < enough:
            return
        controls = ", ".join(name for name, _ in self._uncommon.most_common(8))
        raise InputError(
            f"another project's annotations: its controls are {controls}; expected are "
            f"{', '.join(sorted(self._expected)) or 'none'} (map them with columns.questions={{question: control}})",
            place=self._uri,
        )

    def _note(self, names: Iterable[str], of_questions: Iterable[str]) -> None:
        """Count the controls of one annotation; `of_questions` are the controls of the task's questions."""
        span_kinds = self._reading.span_labels.kinds if self._reading.span_labels else ()
        expected = {
            *of_questions,
            *(span_kind.name for span_kind in span_kinds),
            *(tools.control_of(free_text.name, self._reading) for free_text in self._reading.free_texts),
        }
        self._expected |= expected
        self._annotations += 1
        self._matches += sum(name in expected for name in names)
        self._uncommon.update(name for name in names if name not in WELFARE and not name.startswith(REMARK))

    def _done(self, number: int, task: Mapping[str, Any], annotation: Any) -> Done | None:
        """Return the work recorded in one annotation; None if it was rejected."""
        data, reading = task["data"], self._reading
        results = annotation.get("result") if isinstance(annotation, dict) else None
        if not isinstance(results, list):
            message = "the annotation has no list of results"
            self._reject(Reject(self._uri, number, "not_an_annotation", message))
            return None
        item = cell_text(reading.get(data, "item_id"))
        rater = cell_text(_rater(data, annotation, reading)) or reading.default_rater
        for name, value in (("item_id", item), ("rater", rater)):
            if value is None:
                fields = f"; its data has {', '.join(list(data)[:8])}" if name == "item_id" else ""
                message = f"task {task.get('id')} has no {name}{fields}"
                self._reject(Reject(self._uri, number, f"no_{name}", message))
                return None
        by_control: dict[str, list[Mapping[str, Any]]] = {}
        for result in results:
            value = result.get("value") if isinstance(result, dict) else result
            if isinstance(value, dict) and "from_name" in result:
                by_control.setdefault(str(result["from_name"]), []).append(value)
            elif value is not None:  # relations between regions have none
                self._reject(
                    Reject(self._uri, number, "not_a_result", "a result has no control, or no object as value")
                )
        controls = reading.controls_of(data)
        self._note(by_control, controls.values())
        has_issue_box = ISSUE in by_control or bool(data.get("asks_issue"))
        span_kinds = reading.span_labels.kinds if reading.span_labels else ()
        return Done(
            item_id=str(item),
            rater=str(rater),
            data=data,
            chosen={question: self._chosen(number, by_control, control) for question, control in controls.items()},
            marked={
                span_kind.name: [span for value in by_control.get(span_kind.name, ()) for span in _spans(value)]
                for span_kind in span_kinds
            },
            skipped=bool(annotation.get("was_cancelled")),
            reported=bool(self._chosen(number, by_control, REPORT)),
            issue=bool(self._chosen(number, by_control, ISSUE)) if has_issue_box else None,
            comment="\n".join(map(str, self._chosen(number, by_control, COMMENT))) or None,
            seconds=batch_schemas.duration(annotation.get("lead_time")),
            time=_time(annotation),
            position=number,
            number=self._annotations,
            written={
                free_text.name: "\n".join(
                    map(str, self._chosen(number, by_control, tools.control_of(free_text.name, reading)))
                )
                for free_text in reading.free_texts
            },
        )

    def _chosen(self, number: int, by_control: Mapping[str, Sequence[Mapping[str, Any]]], control: str) -> list[Any]:
        """Return what the person entered in a control: choices, a rating, a number, paths of a taxonomy or texts.

        Raises:
            InputError: the control has values of a kind that is not read.
        """
        contents: list[Any] = []
        for value in by_control.get(control, ()):
            content = _content(value)
            if content is None:
                keys = ", ".join(key for key in value if key not in PLACE) or "a region without a label"
                raise InputError(
                    f"task {number}: control {control!r} has answers of a kind that is not read ({keys}); "
                    f"they must be {', '.join(VALUES)}, text or labels; leave it out of columns.questions=",
                    place=self._uri,
                )
            contents += content
        return contents


def _is_task(task: Any) -> bool:
    if not isinstance(task, dict) or not isinstance(task.get("data"), dict):
        return False
    return isinstance(task.get("annotations", task.get("completions")), list)


def _mismatch(task: Any) -> str:
    """Return a description of a file that does not begin with a task of the export."""
    if isinstance(task, dict) and "annotator" in task and "data" not in task:
        return "Label Studio's JSON-MIN export, which lacks required fields; export as JSON"
    if isinstance(task, dict):
        return (
            f"not Label Studio's JSON export: its first element has {', '.join(list(task)[:8])}, not data, annotations"
        )
    return f"not Label Studio's JSON export: its first element is {type(task).__name__}, not a task"


def _rater(data: Mapping[str, Any], annotation: Mapping[str, Any], reading: ToolReading) -> Any:
    if reading.rater == "assigned":
        return reading.get(data, "assigned_to")
    person = annotation.get("completed_by")
    if isinstance(person, dict):
        return next(
            (person[key] for key in ("email", "username", "id") if not batch_schemas.blank(person.get(key))), None
        )
    return person


def _time(annotation: Mapping[str, Any]) -> float | None:
    try:
        return batch_schemas.seconds_since_1970(annotation.get("updated_at") or annotation.get("created_at"))
    except ValueError:
        return None


def _content(value: Mapping[str, Any]) -> list[Any] | None:
    """Return the entries in the value of a result; None if they are of a kind that is not read."""
    key = next((name for name in (*VALUES, *filter(_names_labels, value)) if name in value), None)
    if key is None and value:
        is_typed = "text" in value and (isinstance(value["text"], list) or "start" not in value)  # not a region's text
        if not is_typed or value.keys() - PLACE:
            return None
    content = value.get(key or "text")
    entries = content if isinstance(content, list) else [content]
    if key == "taxonomy":
        entries = ["/".join(map(str, path)) if isinstance(path, list) else path for path in entries]
    if any(isinstance(entry, dict | list) for entry in entries):
        return None
    return [entry for entry in entries if not batch_schemas.blank(entry)]


def _names_labels(key: str) -> bool:
    """Return whether a key of a value has the labels of a region, as `labels` and `hypertextlabels` do."""
    return key.endswith("labels")


def _spans(value: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a region's span with each of its labels; without a label, one span."""
    labels = next((value[key] for key in filter(_names_labels, value) if value[key]), [None])
    span = {"start": value.get("start"), "end": value.get("end"), "text": value.get("text"), "in_browser": True}
    return [{**span, "label": label} for label in (labels if isinstance(labels, list) else [labels])]
