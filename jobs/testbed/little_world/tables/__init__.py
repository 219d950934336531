"""The tables of the papers' reports about the little world, computed from its truth alone.

There is one module per paper. They share no code with `jobs.metrics` and `jobs.papers`, whose tables they check: each
number is counted or averaged again here, from the scenes and the answers of invented people.
"""

from collections.abc import Mapping

# A value is None if it is undefined, and NaN if it may be anything.
Table = Mapping[tuple[str, ...], float | None]  # value by row headers and column
Tables = Mapping[str, Table]  # by the name of the table
