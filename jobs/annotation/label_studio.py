"""Reader of Label Studio's JSON export, a list of tasks with annotations. It ignores drafts and predictions."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import pyarrow as pa

from jobs.annotation import model, tools
from jobs.annotation.answers import ISSUE
from jobs.annotation.tools import COMMENT, REMARK, REPORT, WELFARE, Done, ToolReading
from jobs.corpora import json_files
from jobs.errors import InputError
from jobs.store.writer import Reject, Rejects

VALUES = ("choices", "rating", "number", "text", "labels")  # keys of a result's value, by type of control
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
                if number == 1:
                    raise InputError(f"{self._uri}: {_mismatch(task)}")
                self._reject(Reject(self._uri, number, "not_a_task", "the element has no data or no annotations"))
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
            f"{self._uri}: another project's annotations: its controls are {controls}; expected are "
            f"{', '.join(sorted(self._expected)) or 'none'} (map them with columns.questions={{question: control}})"
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
        item, rater = reading.get(data, "item_id"), _rater(data, annotation, reading)
        for name, value in (("item_id", item), ("rater", rater)):
            if model.blank(value):
                fields = f"; its data has {', '.join(list(data)[:8])}" if name == "item_id" else ""
                message = f"task {task.get('id')} has no {name}{fields}"
                self._reject(Reject(self._uri, number, f"no_{name}", message))
                return None
        by_control: dict[str, list[Mapping[str, Any]]] = {}
        for result in results:
            if isinstance(result, dict) and isinstance(result.get("value"), dict) and "from_name" in result:
                by_control.setdefault(str(result["from_name"]), []).append(result["value"])
        controls = reading.controls_of(data)
        self._note(by_control, controls.values())
        has_issue_box = ISSUE in by_control or bool(data.get("asks_issue"))
        span_kinds = reading.span_labels.kinds if reading.span_labels else ()
        return Done(
            item_id=str(item),
            rater=str(rater),
            data=data,
            chosen={question: _chosen(by_control.get(control, ())) for question, control in controls.items()},
            marked={span_kind.name: list(map(_span, by_control.get(span_kind.name, ()))) for span_kind in span_kinds},
            skipped=bool(annotation.get("was_cancelled")),
            reported=bool(_chosen(by_control.get(REPORT, ()))),
            issue=bool(_chosen(by_control.get(ISSUE, ()))) if has_issue_box else None,
            comment="\n".join(map(str, _chosen(by_control.get(COMMENT, ())))) or None,
            seconds=model.duration(annotation.get("lead_time")),
            time=_time(annotation),
            position=number,
            number=self._annotations,
            written={
                free_text.name: "\n".join(
                    map(str, _chosen(by_control.get(tools.control_of(free_text.name, reading), ())))
                )
                for free_text in reading.free_texts
            },
        )


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
        return next((person[key] for key in ("email", "username", "id") if not model.blank(person.get(key))), None)
    return person


def _time(annotation: Mapping[str, Any]) -> float | None:
    try:
        return model.seconds_since_1970(annotation.get("updated_at") or annotation.get("created_at"))
    except ValueError:
        return None


def _chosen(values: Any) -> list[Any]:
    """Return the contents of one control's results: choices, a rating, a number or texts."""
    contents: list[Any] = []
    for value in values:
        for key in VALUES:
            if key in value:
                content = value[key]
                contents += content if isinstance(content, list) else [content]
                break
    return contents


def _span(value: Mapping[str, Any]) -> dict[str, Any]:
    labels = value.get("labels") or value.get("hypertextlabels") or [None]
    label = labels[0] if isinstance(labels, list) else labels
    return {"start": value.get("start"), "end": value.get("end"), "text": value.get("text"), "label": label}
