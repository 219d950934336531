"""Refusal rates of the models in tables of responses."""

import json
from collections.abc import Sequence
from dataclasses import asdict

import numpy as np
import pyarrow as pa

from actors.quantities import quantity
from jobs.errors import InputError
from jobs.metrics.refused_texts import COLUMNS, RefusalRate, RefusalRates, lines
from jobs.runtime.selection.exclusions import ExclusionFilter
from jobs.store.hashing import hash_texts
from jobs.store.object_rows import read_unit
from jobs.store.reading import TableSource, open_table
from jobs.store.runs.table_run import TableRun


def refusal_rates(
    sources: Sequence[TableSource], *, exclusion_filter: ExclusionFilter | None = None
) -> list[RefusalRate]:
    """Return refusal rates by model, prompt, condition and kind; one unit is in memory at a time.

    Args:
        sources: tables `responses`; a response in several of them counts once, which takes 8 bytes per response.
        exclusion_filter: the exclusions; responses about excluded items are left out.

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
                raise InputError(str(error), place=footer.object.uri) from error
        counted = np.unique(np.concatenate(fresh))
    return rates.rates()


def keep_refusals(run: TableRun) -> list[str]:
    """Store the refusal rates of a finished run and the items in `_run/refusals.json`; return lines about them."""
    rates = refusal_rates([open_table(run.target.out, "responses")])
    run.keep("refusals.json", json.dumps([asdict(rate) for rate in rates], ensure_ascii=False, indent=1).encode())
    texts = max((rate.n for rate in rates), default=0)
    listed = lines(rates) or [f"none in {quantity(texts, 'text')}"]
    return [f"  refusals  {line}" for line in listed] if texts else []
