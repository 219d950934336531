"""Refusal rates of the models in tables of responses."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from jobs.errors import InputError
from jobs.metrics.refusals import COLUMNS, RefusalRate, RefusalRates
from jobs.runtime.exclusions import ExclusionFilter
from jobs.store.hashing import hash_texts
from jobs.store.object_rows import read_unit
from jobs.store.reading import TableSource


def refusal_rates(
    sources: Sequence[TableSource], *, exclusion_filter: ExclusionFilter | None = None
) -> list[RefusalRate]:
    """Return refusal rates by model, prompt, condition and kind; one unit is in memory at a time.

    Args:
        sources: tables `responses`; a response that several of them hold counts once, at 8 bytes per response.
        exclusion_filter: the exclusions; responses about excluded items do not count.

    Raises:
        InputError: a refusal has an unknown kind.
    """
    rates = RefusalRates()
    counted = np.zeros(0, np.uint64)
    for number, source in enumerate(sources, start=1):
        fresh = [counted]
        for footer in source.footers:
            rows = read_unit(footer.object.uri, columns=["response_id", *COLUMNS])
            if len(sources) > 1:
                hashes = hash_texts(rows["response_id"])
                rows = rows.filter(pa.array(~np.isin(hashes, counted)))
                fresh += [hashes] if number < len(sources) else []
            try:
                rates.add(rows.filter(pa.array(~exclusion_filter.mask(rows["item_id"]))) if exclusion_filter else rows)
            except ValueError as error:
                raise InputError(f"{footer.object.uri}: {error}") from error
        counted = np.unique(np.concatenate(fresh))
    return rates.rates()
