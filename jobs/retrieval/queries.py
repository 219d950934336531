"""The queries of a search: tables of embeddings, the rows to search for, and why others are left out."""

import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from actors.search_queries import Hits
from actors.status import Status
from jobs import tables
from jobs.corpora.embeddings import VectorsConfig, open_tables
from jobs.corpora.vectors import matrix_of
from jobs.errors import InputError
from jobs.runtime.selection import exclusions
from jobs.runtime.selection.exclusions import ExclusionFilter
from jobs.store.counts import Counts
from jobs.store.object_rows import read_unit
from jobs.store.reading import TableSource, open_table, tables_in
from jobs.store.units import Unit

NOT_FINITE, ZERO, OUT_OF_RANGE = "not_finite", "zero_vector", "length_out_of_range"
MOST_COMPARED = 5_000_000  # queries; with more, ids are not compared before the search but by remine verify afterwards


class QueryUnit(NamedTuple):
    """An object of the queries' table: the ids to search for, in order, and why other rows are left out."""

    ids: pa.StringArray
    absent: Counter[str]  # number of rows by status or reason
    excluded: dict[str, int]  # number of rows matched by each mark of the list of exclusions

    @property
    def rows(self) -> int:
        """The number of rows in the object, searched or not."""
        return len(self.ids) + self.absent.total()

    def account(self, counts: Counts, k: int, neighbors: int) -> None:
        """Count the unit, with the number of its neighbours, in `counts`.

        Each row asks for k neighbours; it gets fewer if the corpus is smaller, and none without a vector.
        """
        exclusions.count(counts, self.excluded)
        for reason, n in self.absent.items():
            counts.filtered[f"query_{reason}"] += n * k
        if missing := len(self.ids) * k - neighbors:
            counts.filtered["fewer_than_k"] += missing
        counts.rows_in = self.rows * k + counts.rejected.total()


def open_queries(pattern: str, corpus: VectorsConfig) -> list[TableSource]:
    """Open the tables of embeddings that match `pattern`.

    Raises:
        InputError: no such table; tables with different encoders; a table of texts (with the command to embed them).
    """
    first = open_table(tables_in(pattern)[0], "embeddings", "texts", key="queries")
    if first.name == "texts":
        embedder = corpus.embedder.name if corpus.embedder else "…"
        why = (
            "a table of texts; embed them first, with the encoder of the corpus: remine embed "
            f"input={pattern} embedder={embedder} out=…"
        )
        raise InputError(why, key="queries", value=pattern)
    return open_tables(pattern, key="queries")


def check_distinct(pattern: str, sources: Sequence[TableSource]) -> None:
    """Check that no two queries have the same item_id, since their neighbours would be mixed.

    Raises:
        InputError: an item_id occurs twice; the message has the first one.
    """
    if sum(source.rows for source in sources) > MOST_COMPARED:
        return
    batches = (batch for source in sources for batch in source.batches(["item_id", "status"]))
    searched = (batch.filter(pc.equal(batch["status"], Status.OK.value))["item_id"] for batch in batches)
    counts = pc.value_counts(pa.chunked_array([chunk for ids in searched for chunk in ids.chunks], pa.string()))
    if duplicates := counts.filter(pc.greater(counts.field("counts"), 1)).field("values").to_pylist():
        more = f" (and {len(duplicates) - 1:,} others)" if len(duplicates) > 1 else ""
        why = f"duplicate item_id {duplicates[0]}{more}; query ids must be unique"
        raise InputError(why, key="queries", value=pattern)


def read_queries(unit: Unit, exclusion_filter: ExclusionFilter) -> tuple[QueryUnit, np.ndarray]:
    """Read one unit of a table `embeddings`; return its queries and their vectors [n, dim] float16."""
    rows = read_unit(unit.inputs[0].uri, columns=["item_id", "embedding", "status"]).slice(0, unit.limit)
    rows = exclusions.withhold(rows, item="item_id", exclusion_filter=exclusion_filter)
    reasons = np.array(rows["status"].to_pylist(), object)
    chunks = [matrix_of(chunk) for chunk in rows["embedding"].chunks]
    vectors = np.concatenate(chunks) if chunks else np.zeros((0, rows.schema.field("embedding").type.list_size))
    ok = reasons == Status.OK.value
    reasons[ok & ~np.isfinite(vectors).all(axis=1)] = NOT_FINITE
    reasons[ok & ~vectors.any(axis=1)] = ZERO
    ok = reasons == Status.OK.value
    ids = pa.array(rows["item_id"].filter(pa.array(ok, pa.bool_())).to_pylist(), pa.string())
    return QueryUnit(ids, Counter(reasons[~ok].tolist()), exclusion_filter.take_matched()), vectors[ok]


CORPUS_TALLY = "corpus rows"  # tally of a unit: how many rows of the corpus were searched, or why not
_SCHEMA = tables.TABLES["neighbors"].schema()


class Calibration(NamedTuple):
    """SigLIP's calibration: the probability of a pair is the logistic function of exp(scale) * cosine + bias.

    Zhai et al. 2023, Sigmoid Loss for Language Image Pre-Training, section 3.2.
    """

    scale: float
    bias: float

    def probability(self, cosine: np.ndarray) -> np.ndarray:
        """Return the probabilities [n] float64 of pairs with these cosines [n]."""
        return 1 / (1 + np.exp(-(math.exp(self.scale) * cosine + self.bias)))


def kept_calibration(source: TableSource) -> Calibration | None:
    """Return the calibration in an embedding table's metadata; None if its encoder has none."""
    scale, bias = (source.metadata.get(f"remine.{name}") for name in ("logit_scale", "logit_bias"))
    return None if scale is None or bias is None else Calibration(float(scale), float(bias))


def neighbors(ids: pa.Array, hits: Hits, calibration: Calibration | None) -> pa.Table:
    """Return the table's rows for `hits` of the queries `ids`; without a calibration, probability is null."""
    rank = np.arange(len(hits.query)) - np.searchsorted(hits.query, hits.query) + 1
    probability = calibration.probability(hits.score) if calibration else np.full(len(hits.score), np.nan)
    columns = [
        ids.take(pa.array(hits.query)),
        pa.array(rank, pa.int32()),
        pa.array(hits.item_id, pa.string()),
        pa.array(hits.score),
        pa.array(probability, from_pandas=True),  # NaN becomes null
    ]
    return pa.table(dict(zip(_SCHEMA.names, columns, strict=True)))
