"""The tables of the papers' reports about the little world, computed from its truth alone.

One module per paper. They share no code with `jobs.metrics` and `jobs.papers`, whose tables they check: each number is
counted or averaged here again, from the scenes and from what invented people said.
"""

from collections.abc import Mapping

# A value is None if it is undefined, and NaN if it may be anything.
Table = Mapping[tuple[str, ...], float | None]  # row headers and column -> value
Tables = Mapping[str, Table]  # by the name of the table
