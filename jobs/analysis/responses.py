"""Refusal rates of the models in a table of responses."""

import pyarrow as pa

from jobs.errors import InputError
from jobs.metrics.refusals import COLUMNS, RefusalRate, RefusalRates
from jobs.runtime.exclusions import Barred
from jobs.store.reading import TableSource, read_unit


def refusal_rates(source: TableSource, *, barred: Barred | None = None) -> list[RefusalRate]:
    """Return refusal rates by model, prompt and kind; one unit is in memory at a time.

    Args:
        source: a table `responses`.
        barred: the exclusions; responses about excluded items do not count.

    Raises:
        InputError: a refusal has an unknown kind.
    """
    rates = RefusalRates()
    for footer in source.footers:
        rows = read_unit(footer.object.uri, columns=COLUMNS)
        try:
            rates.add(rows.filter(pa.array(~barred.mask(rows["item_id"]))) if barred else rows)
        except ValueError as error:
            raise InputError(f"{footer.object.uri}: {error}") from error
    return rates.rates()
