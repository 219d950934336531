"""Rows of the table `neighbors`, made from the hits of a search."""

import math
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from actors.search.top_k import Hits
from jobs import tables
from jobs.store.reading import TableSource

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
