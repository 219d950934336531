"""Agreement of a model's scores with reference ratings, for each setting of `loglik`."""

import json
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from actors.quantities import quantity
from actors.status import Status
from actors.vlm.debiasing import Moments
from jobs.errors import InputError
from jobs.judging.rating_tables import open_ratings
from jobs.runtime.process.console import say
from jobs.store.object_rows import read_unit
from jobs.store.reading import open_table
from jobs.store.runs.table_run import TableRun

Reference = dict[tuple[str, str], float]  # (item_id, target) -> mean score


def read_reference(pattern: str | None) -> Reference:
    """Return the mean score of each item and target over the raters of the tables at `pattern`.

    Raises:
        InputError: there is no such table, or none of its ratings has a score; or as `open_ratings`.
    """
    sums: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0, 0])
    for source in open_ratings([pattern]) if pattern else ():
        for rows in source.batches(["item_id", "target", "score", "status"]):
            for row in rows.to_pylist():
                if row["status"] == Status.OK and row["score"] is not None:
                    entry = sums[row["item_id"], row["target"]]
                    entry[0] += row["score"]
                    entry[1] += 1
    if pattern and not sums:
        raise InputError(f"reference={pattern}: none of its ratings has a score; name ratings on an ordinal scale")
    return {key: total / n for key, (total, n) in sums.items()}


def show_sweep(run: TableRun, reference: Reference, conditions: Sequence[str]) -> None:
    """Print Pearson's r of each condition's scores with the reference, the best first; store it with the run."""
    moments = {condition: Moments() for condition in conditions}
    items = pa.array(sorted({item for item, _ in reference}), pa.string())
    for footer in open_table(run.target.out, "ratings").footers:
        rows = read_unit(footer.object.uri, columns=["item_id", "target", "condition", "score", "status"])
        for condition, (scores, expected) in _pairs(rows.filter(pc.is_in(rows["item_id"], items)), reference).items():
            moments[condition].add(np.array(scores), np.array(expected))
    ranked = sorted(moments.items(), key=lambda entry: (entry[1].pearson is None, -(entry[1].pearson or 0.0)))
    sweep = [{"setting": name, "pearson": moment.pearson, "n": moment.n} for name, moment in ranked]
    run.keep("sweep.json", json.dumps(sweep, indent=1).encode())
    for name, moment in ranked:
        value = "undefined" if moment.pearson is None else f"{moment.pearson:.3f}"
        say(f"  {name:24} Pearson's r {value} with the reference, {quantity(moment.n, 'pair')}")


def _pairs(rows: pa.Table, reference: Reference) -> dict[str, tuple[list[float], list[float]]]:
    """Return the scores of each condition, and the reference's for the same items and targets."""
    pairs: dict[str, tuple[list[float], list[float]]] = defaultdict(lambda: ([], []))
    for row in rows.to_pylist():
        expected = reference.get((row["item_id"], row["target"]))
        if row["status"] == Status.OK and expected is not None:
            scores, references = pairs[row["condition"]]
            scores.append(row["score"])
            references.append(expected)
    return pairs
