"""Corrections made in the viewer: ratings of one person, in one table per rubric, which `report` reads."""

import random
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from actors import schemas
from actors.ids import content_id
from actors.status import Status
from jobs.errors import InputError
from jobs.judging.kept_rubric import KeptRubric, Rubrics
from jobs.store.files import locations
from jobs.store.identity import TABLE
from jobs.store.object_rows import read_unit
from jobs.store.run_files import IDENTITY, read_json, run_uri
from jobs.store.runs.lock import HeldError
from jobs.store.runs.table_run import TableRun, open_run
from jobs.store.table_plan import TablePlan
from jobs.store.units import Unit
from jobs.store.writer import UnitWriter
from jobs.tables import HUMAN, TABLES
from jobs.viewer.picture_details import LineKey, line_of

WAIT_S, PAUSE_S = 60.0, (0.02, 0.2)  # for another viewer that writes the same table; bounds of a random pause
GENERATIONS_LISTED = 10  # earlier generations listed in the footer; each correction makes a new one
_SCHEMA = TABLES["ratings"].schema()


@dataclass(frozen=True)
class Correction:
    """The person's answer to a question about an item; without a value, it withdraws an earlier answer."""

    item_id: str
    key: LineKey
    value: str | None
    comment: str = ""


class Corrections:
    """Writes the ratings of one person below `out`, in a table named after each rubric.

    A table has one unit, whose object each call replaces atomically: a process that is killed leaves either the old or
    the new rows. Two viewers that write the same table wait for each other, as any two jobs do.

    Args:
        rater: the name of the person in the ratings.
        rubrics: the rubrics kept in the viewed tables; only their questions can be answered.
    """

    def __init__(self, out: str, rater: str, rubrics: Rubrics) -> None:
        self.rater, self._out, self._rubrics = rater, locations.absolute(out), rubrics
        self._lock = threading.Lock()

    def tables(self) -> list[str]:
        """Return the places of the tables that exist."""
        places = (self._place(name) for name in self._rubrics.by_name)
        return [place for place in places if locations.exists(run_uri(place, IDENTITY))]

    def check(self) -> None:
        """Check that existing tables belong to this rater and rubric, and complete what an interrupted viewer left.

        Raises:
            InputError: a table at the place belongs to another rater, rubric or job.
        """
        for name, kept in self._rubrics.by_name.items():
            place = self._place(name)
            if not locations.exists(run_uri(place, IDENTITY)):
                continue
            identity = dict(read_json(run_uri(place, IDENTITY)))
            if identity != {TABLE: "ratings", **self._identity(kept)}:
                why = f"{place} has ratings of another rater or rubric, or of another job"
                raise InputError(why, key="out", value=self._out, remedy="use another out=")
            self._rewrite(kept, lambda rows: rows)

    def save(self, corrections: Sequence[Correction]) -> list[dict[str, Any]]:
        """Write the corrections; return the resulting rows of `ratings`, without withdrawn ones.

        Raises:
            InputError: an answer is not allowed, no rubric has the question with closed answers, or another process is
                writing the table.
        """
        written = []
        for rubric in dict.fromkeys(correction.key.rubric for correction in corrections):
            of_rubric = [correction for correction in corrections if correction.key.rubric == rubric]
            rows = [self._row(correction) for correction in of_rubric]
            written += [row for row in rows if row["value"] is not None]
            self._rewrite(self._rubrics.by_name[rubric], lambda before, rows=rows: _merged(before, rows))
        return written

    def answers(self, item_id: str) -> dict[LineKey, dict[str, Any]]:
        """Return the person's stored ratings of an item, also those that another viewer wrote, by their lines."""
        with self._lock:
            rows = [row for kept in self._rubrics.by_name.values() for row in _rows(self._place(kept.name), kept)]
        key = LineKey._fields
        return {LineKey(*(row[name] for name in key)): row for row in rows if row["item_id"] == item_id}

    def _place(self, rubric: str) -> str:
        return locations.join(self._out, rubric)

    def _identity(self, kept: KeptRubric) -> dict[str, Any]:
        return {"corrections": {"rater": self.rater, "rubric": kept.sha256}}

    def _row(self, correction: Correction) -> dict[str, Any]:
        key = correction.key
        choices = line_of(key, self._rubrics).choices if key.rubric in self._rubrics.by_name else ()
        choice = next((choice for choice in choices if choice.value == correction.value), None)
        if choice is None and (correction.value is not None or not choices):
            allowed = ", ".join(choice.value for choice in choices) or "none, as no table keeps its rubric"
            raise InputError(f"{key.rubric}/{key.question}={correction.value}: not an answer; must be one of {allowed}")
        return {
            **dict.fromkeys(_SCHEMA.names),
            **key._asdict(),
            "item_id": correction.item_id,
            "rater": self.rater,
            "method": HUMAN,
            "order": "",
            "sample": 0,
            "value": correction.value,
            "score": choice.score if choice else None,
            "answers": [choice.value for choice in choices],
            "status": Status.OK.value,
            "comment": correction.comment or None,
        }

    def _rewrite(self, kept: KeptRubric, change: Any) -> None:
        with self._lock:
            unit = Unit(_unit_name(kept), (), piece=f"saved at {time.time_ns()} ns")
            plan = TablePlan(
                out=self._place(kept.name),
                table="ratings",
                identity=self._identity(kept),
                units=[unit],
                config={"rater": self.rater},
                metadata=kept.metadata,
                derived=True,  # each correction makes a new generation of the unit
                files=kept.files,
            )
            run = _opened(plan)
            rows = change(_rows(run.target.out, kept))
            for task in run.todo:
                with UnitWriter(run.target, replace(task, retired=task.retired[-GENERATIONS_LISTED:])) as writer:
                    writer.counts.rows_in = len(rows)
                    writer.write(schemas.to_table(rows, _SCHEMA))
            run.finish()


def _opened(plan: TablePlan) -> TableRun:
    """Open the table as soon as no other process writes it.

    Raises:
        InputError: another process writes it for longer than `WAIT_S`, or as `open_run`.
    """
    until = time.monotonic() + WAIT_S
    while True:
        try:
            return open_run(plan, resume=True, overwrite=False, retry=[])
        except HeldError:
            if time.monotonic() > until:
                raise
        time.sleep(random.uniform(*PAUSE_S))


def _unit_name(kept: KeptRubric) -> str:
    return content_id("corrections", kept.name)


def _rows(place: str, kept: KeptRubric) -> list[dict[str, Any]]:
    uri = locations.join(place, f"{_unit_name(kept)}.parquet")
    rows: list[dict[str, Any]] = read_unit(uri).to_pylist() if locations.exists(uri) else []
    return rows


def _merged(before: Sequence[Mapping[str, Any]], rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the rows after a change: a new row replaces the row with its key or, without a value, removes it."""
    key = TABLES["ratings"].key
    by_key = {tuple(row[name] for name in key): row for row in (*before, *rows)}
    return [by_key[place] for place in sorted(by_key) if by_key[place]["value"] is not None]
