"""Which items `annotate` gave to people, from the tables `assignments`: joined to answers by the hash of the item."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from jobs.errors import InputError
from jobs.metrics import dsg
from jobs.metrics.rated_question import AssignedItems
from jobs.runtime.selection.draws import UNCERTAIN
from jobs.store import run_files
from jobs.store.files import locations
from jobs.store.hashing import Hashes, hash_texts, places_in
from jobs.store.reading import TableSource
from jobs.tables import AUDITOR, NOT_DRAWN

TASKS = pa.schema(
    [("item_id", pa.string()), ("rater", pa.string()), ("role", pa.string()), ("probability", pa.float64())]
)


@dataclass(frozen=True)
class ItemAssignment:
    """The assignment of a study.

    Attributes:
        uri: of its table.
        hashes: uint64[items], ascending, of all items that could be drawn.
        assigned: bool[items], whether somebody was given the item; `probability`: float64[items], with which it was
            drawn, NaN without a draw.
        raters: number of people with tasks, without the auditor.
    """

    uri: str
    hashes: Hashes
    assigned: NDArray[np.bool_]
    probability: NDArray[np.float64]
    raters: int

    @classmethod
    def read(cls, source: TableSource) -> "ItemAssignment":
        """Return the assignment in a table."""
        rows = pa.concat_tables([TASKS.empty_table(), *source.batches(TASKS.names)], promote_options="default")
        hashes, first, place = np.unique(hash_texts(rows["item_id"]), return_index=True, return_inverse=True)
        has_task = pc.not_equal(rows["role"], NOT_DRAWN)
        probability = rows["probability"].to_numpy(zero_copy_only=False).astype(np.float64)
        raters = pc.unique(rows["rater"].filter(pc.and_(has_task, pc.not_equal(rows["role"], AUDITOR))))
        assigned = np.bincount(place, has_task.to_numpy(zero_copy_only=False).astype(np.float64)) > 0
        return cls(source.uri, hashes, assigned, probability[first], len(raters))

    def contains(self, other: "ItemAssignment") -> bool:
        """Return whether each item with tasks in the other assignment has tasks in this one."""
        return bool(np.isin(other.hashes[other.assigned], self.hashes[self.assigned]).all())

    def of(self, items: Hashes) -> AssignedItems:
        """Return the assignment of the items of a question, uint64[items]."""
        place = places_in(self.hashes, items)
        is_known = place >= 0
        assigned, probability = np.zeros(len(items), bool), np.full(len(items), np.nan)
        assigned[is_known] = self.assigned[place[is_known]]
        probability[is_known] = self.probability[place[is_known]]
        return AssignedItems(is_known, assigned, probability, self.raters)


@dataclass(frozen=True)
class Assignments:
    """The assignments of a report, by the rubric of their questions, and that of tasks in which people mark spans."""

    by_rubric: Mapping[str, ItemAssignment] = field(default_factory=dict)
    of_spans: ItemAssignment | None = None

    def of(self, rubric: str, items: Hashes) -> AssignedItems | None:
        """Return the assignment of the items of a rubric's question; None if it is unknown.

        Scores of scene graphs are those of the answers to the graphs' questions.
        """
        rubric = dsg.ANSWERS if rubric == dsg.SCORES else rubric
        return self.by_rubric[rubric].of(items) if rubric in self.by_rubric else None


def read_assignments(sources: Sequence[TableSource]) -> Assignments:
    """Return the assignments in tables, of several batches the last, which contains the others.

    Raises:
        InputError: two assignments of one rubric, or of spans, were drawn separately, or a table says neither.
    """
    last: dict[tuple[str, str], ItemAssignment] = {}
    for source in sources:
        rubric, assignment = source.metadata.get("remine.rubric"), ItemAssignment.read(source)
        asked = [("rubric ", rubric)] if rubric else []
        asked += [("spans", "")] if source.metadata.get("remine.span_labels") else []
        if not asked:
            raise InputError("its tasks have no rubric and no span labels, so that no answer can belong to them",
                             key="assignments", value=source.uri)  # fmt: skip
        for about in asked:
            other = last.get(about)
            if other and not (other.contains(assignment) or assignment.contains(other)):
                raise InputError(
                    f"two assignments of {''.join(about)} were drawn separately: {other.uri} and {source.uri}",
                    key="assignments",
                    remedy="name one of them, or draw batches with annotate earlier=",
                )
            if other is None or assignment.contains(other):
                last[about] = assignment
    of_spans = last.pop(("spans", ""), None)
    return Assignments({rubric: assignment for (_, rubric), assignment in last.items()}, of_spans)


def unequal_draws(ratings: Sequence[TableSource]) -> Iterator[str]:
    """Yield a warning for each table of answers to tasks of an uncertain draw, whose assignments were not named.

    The tasks are found by the folder that `import_ratings` read, which is next to the assignments.
    """
    for source in ratings:
        config = run_files.kept_manifest(source.uri).get("config")
        read = config.get("input") if isinstance(config, Mapping) else None
        folder = str(read or "").rpartition("/")[0]
        for place in (folder, folder.rpartition("/")[0]):
            assignments = locations.join(place, "assignments")
            drawn = run_files.kept_manifest(assignments).get("config") if place else None
            if isinstance(drawn, Mapping) and (drawn.get("draw") or {}).get("method") == UNCERTAIN:
                yield (
                    f"{source.uri}: people's pictures were drawn by the judges' uncertainty, so that their answers "
                    f"must be weighted; without assignments={assignments} all estimates from them are biased."
                )
                break
