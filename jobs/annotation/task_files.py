"""The files that an annotation tool imports: the form, and the tasks of each rater or group."""

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from jobs.annotation import assignment, label_studio_form, prodigy_form, spreadsheet_form
from jobs.annotation.annotate_config import LABEL_STUDIO, PRODIGY, SPREADSHEET, AnnotateConfig
from jobs.annotation.form import Form, ShownItem
from jobs.annotation.study_plan import AUDITOR
from jobs.store.files import locations

Placed = tuple[Mapping[str, Any], str | None, int]  # row of `assignments`, rater (None: a group's task), place


def write_task_files(
    cfg: AnnotateConfig,
    folder: str,
    study: Form,
    shown: Mapping[str, ShownItem],
    rows: Sequence[Mapping[str, Any]],
) -> int:
    """Write the form and the tasks to `folder`; return the number of files of tasks.

    Args:
        shown: the items as shown to people, by item_id.
        rows: rows of `assignments`.
    """
    by_file: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        by_file[row["file"]].append(row)
    kinds: set[str] = set()
    written = 0
    for name in sorted(by_file):
        tasks = _placed(cfg, name, by_file[name])
        by_kind = _WRITERS[cfg.tool](study, shown, tasks)
        for kind, text in by_kind.items():
            _put(folder, f"{name}.{kind}", text)
            written += 1
        kinds.update(by_kind)
    if cfg.tool == LABEL_STUDIO:
        _put(folder, "config.xml", label_studio_form.config_xml(study))
    elif cfg.tool == PRODIGY:
        per_task = cfg.raters_per_item if cfg.files == "group" else None
        for kind in kinds:
            of_kind = kind.removesuffix(".jsonl")
            settings = prodigy_form.settings(study, of_kind, per_task=per_task)
            _put(folder, f"prodigy.{of_kind}.json", json.dumps(settings, indent=1))
    return written


def _placed(cfg: AnnotateConfig, name: str, rows: Sequence[Mapping[str, Any]]) -> list[Placed]:
    """Return the tasks of one file; a group's file has each task once, in random order."""
    if cfg.files != "group" or rows[0]["role"] == AUDITOR:
        return [(row, row["rater"], row["place"]) for row in rows]
    distinct = {(row["item_id"], row["target"]): row for row in rows}
    order = assignment.shuffled(sorted(distinct), seed=cfg.seed, name=name)
    return [(distinct[key], None, place) for place, key in enumerate(order, start=1)]


def _label_studio(study: Form, shown: Mapping[str, ShownItem], tasks: Sequence[Placed]) -> dict[str, str]:
    """Return the text of one file, by file name extension."""
    labelled = [
        label_studio_form.task(study, shown[row["item_id"]], target=row["target"], assigned_to=rater, place=place)
        for row, rater, place in tasks
    ]
    return {"json": json.dumps(labelled, ensure_ascii=False, indent=1)}


def _prodigy(study: Form, shown: Mapping[str, ShownItem], tasks: Sequence[Placed]) -> dict[str, str]:
    """Return the texts of one file per kind of task, by file name extension."""
    lines: dict[str, str] = defaultdict(str)
    for row, rater, place in tasks:
        item = shown[row["item_id"]]
        for task in prodigy_form.tasks(study, item, target=row["target"], assigned_to=rater, place=place):
            lines[f"{prodigy_form.kind_of(task)}.jsonl"] += json.dumps(task, ensure_ascii=False) + "\n"
    return lines


def _spreadsheet(study: Form, shown: Mapping[str, ShownItem], tasks: Sequence[Placed]) -> dict[str, str]:
    """Return the text of one file, by file name extension."""
    rows = [
        line
        for row, rater, place in tasks
        for line in spreadsheet_form.rows(
            study, shown[row["item_id"]], target=row["target"], assigned_to=rater, place=place
        )
    ]
    return {"csv": spreadsheet_form.as_csv(study, rows)}


_WRITERS = {LABEL_STUDIO: _label_studio, PRODIGY: _prodigy, SPREADSHEET: _spreadsheet}


def _put(folder: str, name: str, text: str) -> None:
    locations.replace(locations.join(folder, name), text.encode())
