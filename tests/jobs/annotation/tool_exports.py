"""Exports of Label Studio and Prodigy for people's work on given tasks, in the form of real exports."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jobs.annotation.tools.prodigy import ISSUE_OPTION, REPORT_OPTION


@dataclass(frozen=True)
class Act:
    """One person's work on one task: question -> chosen option, control -> marked spans, and the rest."""

    rater: str
    chosen: Mapping[str, str] = field(default_factory=dict)
    marked: Mapping[str, Sequence[tuple[int, int, str]]] = field(default_factory=dict)
    skipped: bool = False
    reported: bool = False
    issue: bool = False
    comment: str | None = None
    written: Mapping[str, str] = field(default_factory=dict)  # field for free text -> text
    seconds: float = 10.0


def label_studio(tasks: Sequence[Mapping[str, Any]], acts: Sequence[Sequence[Act]]) -> list[dict[str, Any]]:
    """Return the full JSON export of a project; `acts` has the work of all people on each task."""
    return [
        {
            "id": 100 + number,
            "annotations": [_annotation(task["data"], act, 1000 * number + i) for i, act in enumerate(done)],
            "file_upload": "3f2b1c7d-tasks.json",
            # A draft was never submitted; a prediction is from a model.
            "drafts": [{"id": 1, "result": _results(task["data"], Act("draft", chosen={"sensitive": "5"}))}],
            "predictions": [{"result": _results(task["data"], Act("model", chosen={"sensitive": "5"}))}],
            "data": task["data"],
            "meta": {},
            "created_at": "2026-05-01T09:00:00.000000Z",
            "updated_at": "2026-05-02T09:00:00.000000Z",
            "inner_id": number + 1,
            "total_annotations": len(done),
            "cancelled_annotations": sum(act.skipped for act in done),
            "total_predictions": 1,
            "comment_count": 0,
            "project": 7,
            "updated_by": 1,
            "comment_authors": [],
        }
        for number, (task, done) in enumerate(zip(tasks, acts, strict=True))
    ]


def _annotation(data: Mapping[str, Any], act: Act, number: int) -> dict[str, Any]:
    moment = f"2026-05-02T{number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02}.000000Z"
    return {
        "id": number,
        "completed_by": {"id": 3, "email": act.rater, "first_name": "", "last_name": ""},
        "result": _results(data, act),
        "was_cancelled": act.skipped,
        "ground_truth": False,
        "created_at": moment,
        "updated_at": moment,
        "draft_created_at": None,
        "lead_time": act.seconds,
        "prediction": {},
        "result_count": 0,
        "unique_id": f"{number:08x}-0000-4000-8000-000000000000",
        "import_id": None,
        "last_action": None,
        "task": 100,
        "project": 7,
        "updated_by": 1,
        "parent_prediction": None,
        "parent_annotation": None,
        "last_created_by": None,
    }


def _results(data: Mapping[str, Any], act: Act) -> list[dict[str, Any]]:
    def result(name: str, kind: str, value: dict[str, Any], to: str = "task") -> dict[str, Any]:
        return {"value": value, "id": f"{name}-1", "from_name": name, "to_name": to, "type": kind, "origin": "manual"}

    results = [result("show_picture", "choices", {"choices": ["Show me the picture"]})]
    results += [result(question, "choices", {"choices": [value]}) for question, value in act.chosen.items()]
    results += [
        result(name, "labels", {"start": start, "end": end, "text": data[role][start:end], "labels": [label]}, role)
        for name, spans in act.marked.items()
        for role in ["generated" if name == "mistakes" else "reference"]
        for start, end, label in spans
    ]
    if act.reported:
        results.append(result("report_picture", "choices", {"choices": ["Report this picture"]}))
    if act.issue:
        results.append(result("response_issue", "choices", {"choices": ["Something is wrong with this response"]}))
    if act.comment:
        results.append(result("comment", "textarea", {"text": [act.comment]}))
    results += [result(f"remark_{name}", "textarea", {"text": [text]}) for name, text in act.written.items()]
    return results


def prodigy(task: Mapping[str, Any], act: Act, *, dataset: str, time: int) -> dict[str, Any]:
    """Return one line of `db-out`: the task as sent, with the person's answer."""
    line = dict(task) | {
        "_input_hash": 1,
        "_task_hash": 2,
        "_view_id": "blocks",
        "config": {"choice_style": "single"},
        "answer": "ignore" if act.skipped else "accept",
        "_timestamp": time,
        "_annotator_id": f"{dataset}-{act.rater}",
        "_session_id": f"{dataset}-{act.rater}",
    }
    if "span_kind" in task:
        line["spans"] = [
            {"start": start, "end": end, "token_start": 0, "token_end": 0, "label": label}
            for start, end, label in act.marked.get(task["span_kind"], ())
        ]
        line["accept"] = [REPORT_OPTION] if act.reported else []
    elif "free_texts" in task:
        line |= {f"remark_{name}": text for name, text in act.written.items()}
    else:
        first = any(option["id"] == ISSUE_OPTION for option in task["options"])
        chosen = [act.chosen[task["question"]]] if task["question"] in act.chosen else []
        line["accept"] = [REPORT_OPTION] if act.reported else [ISSUE_OPTION] if act.issue and first else chosen
    if act.comment:
        line["comment"] = act.comment
    return line
