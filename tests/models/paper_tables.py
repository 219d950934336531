"""Compares the tables and figures of a report's paper with those that the little world computes."""

import csv
from collections.abc import Collection, Mapping
from math import isnan
from pathlib import Path

# A value is None if it is undefined, and NaN if it may be anything.
Table = Mapping[tuple[str, ...], float | None]  # value by row headers and column
Tables = Mapping[str, Table]  # by the name of the table

EXACT = 1e-9


def read_tables(report: str) -> dict[str, Table]:
    """Return the tables of a report in its paper's shape, without cells that only the paper has."""
    files = sorted(Path(report, "paper").glob("*.csv"))
    return {path.stem: _read(path) for path in files if path.name != "captions.csv"}  # that is about the plots


def _read(path: Path) -> Table:
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    headers = list(rows[0])[: list(rows[0]).index("column") + 1] if rows else []
    return {tuple(row[name] for name in headers): float(row["value"]) if row["value"] else None
            for row in rows if row["status"]}  # fmt: skip


def assert_tables(
    report: str, expected: Tables, within: Mapping[str, float] | None = None, *, others: Collection[str] = ()
) -> None:
    """Check that the report has these tables, and in each of them these values and no others.

    Args:
        others: tables that are not compared.
        within: how far values may differ, by the name of the table, or by `TABLE/HEADER` of a row or column: the error
            of models; else they are equal.
    """
    errors = within or {}
    written = read_tables(report)
    assert sorted(written) == sorted([*expected, *others])
    different = []
    for name, table in expected.items():
        for key in dict.fromkeys((*table, *written[name])):
            one, other = table.get(key), written[name].get(key)  # None: undefined, or not in the table
            of_headers = (errors[f"{name}/{header}"] for header in key if f"{name}/{header}" in errors)
            error = next(of_headers, errors.get(name, EXACT))
            is_equal = one is other if one is None or other is None else abs(one - other) <= error
            if not is_equal and not (one is not None and isnan(one)):
                different.append((name, key, one, other))
    if different:
        raise AssertionError("\n".join(map(str, different)))
