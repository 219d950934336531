"""Metrics of people's free text, from tables of remarks and ratings."""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from actors.status import Status
from jobs.analysis.item_attributes import Items
from jobs.analysis.item_units import IndependentUnits
from jobs.analysis.rater_attributes import HUMAN
from jobs.metrics.intervals import Units
from jobs.metrics.metric import Metric
from jobs.metrics.model_scores import marked
from jobs.metrics.question import MetricSettings
from jobs.metrics.remarks import remark_share
from jobs.runtime.selection.exclusions import ExclusionFilter
from jobs.store.hashing import Hashes, hash_texts
from jobs.store.reading import TableSource


def remark_metrics(
    remarks: Sequence[TableSource],
    ratings: Sequence[TableSource],
    items: Items,
    settings: MetricSettings,
    exclusion_filter: ExclusionFilter,
    *,
    units: IndependentUnits,
) -> Iterator[Metric]:
    """Yield `remark_share` of each rubric and field, in all and by `metrics.disaggregate` and writer of rated
    responses.

    Memory grows by 8 bytes per rated item.
    """
    written: dict[tuple[str, str], Hashes] = {}
    for source in remarks:
        for batch in source.batches(["item_id", "rubric", "field"]):
            for (rubric, field), hashes in _by_key(batch, ("rubric", "field"), exclusion_filter):
                earlier = written.get((rubric, field), np.zeros(0, np.uint64))
                written[rubric, field] = np.union1d(earlier, hashes)
    rated = dict.fromkeys((rubric for rubric, _ in written), np.zeros(0, np.uint64))
    for source in ratings:
        for batch in source.batches(["item_id", "rubric", "method", "status"]):
            by_people = pc.and_(pc.equal(batch["method"], HUMAN), pc.equal(batch["status"], Status.OK.value))
            for (rubric,), hashes in _by_key(batch.filter(by_people), ("rubric",), exclusion_filter):
                if rubric in rated:
                    rated[rubric] = np.union1d(rated[rubric], hashes)
    attributes = dict.fromkeys(["model", *settings.disaggregate])
    for (rubric, field), noted in sorted(written.items()):
        about = rated[rubric]
        has_text, everything = np.isin(about, noted), np.ones(len(about), bool)
        dims = {"rubric": rubric, "field": field}
        of_items = Units(units.of(about).view(np.int64), units.name_of(about))
        yield remark_share(has_text, everything, of_items).at(**dims)
        for attribute in attributes:
            for value, members in items.subgroups(attribute, about).items():
                metric = marked(remark_share(has_text, members, of_items), settings.minimum)
                yield metric.at(**dims, attribute=attribute, part=value)


def _by_key(
    batch: pa.Table, names: tuple[str, ...], exclusion_filter: ExclusionFilter
) -> Iterator[tuple[tuple[str, ...], Hashes]]:
    """Yield the values of the columns `names` and the hashes of their items, without excluded ones."""
    rows = batch.filter(pa.array(~exclusion_filter.mask(batch["item_id"]))).select(["item_id", *names])
    ids: dict[tuple[str, ...], set[str]] = {}
    for row in rows.unify_dictionaries().group_by(["item_id", *names]).aggregate([]).to_pylist():
        ids.setdefault(tuple(row[name] for name in names), set()).add(row["item_id"])
    for key, members in ids.items():
        yield key, hash_texts(sorted(members))
