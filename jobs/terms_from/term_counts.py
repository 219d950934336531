"""Counts of a table of terms from a knowledge graph: the paper's tables 6 and 7, printed and as JSON."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from actors.quantities import quantity
from jobs.runtime.planning import summary
from jobs.runtime.process.console import say
from jobs.store.hashing import hash_texts
from jobs.store.reading import open_table
from jobs.store.runs.table_run import TableRun

COUNTS = "term_counts.json"


def keep_counts(run: TableRun, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the counts of a finished run, and keep them in its `_run/term_counts.json`.

    `entities_by_concept` is table 6 and `entities_by_type` table 7; an entity with several concepts counts for each.
    `distinct_terms` regards case as terms do when they are searched.
    """
    tallies = manifest["counts"]["tallies"]
    total = tallies.get("total", {})
    counts = {
        "entities": total.get("entities", 0),
        "rows": manifest["counts"]["rows_out"],
        "distinct_terms": distinct_terms(run.target.out),
        "names_changed_by_punctuation_or_space": total.get("names_changed", 0),
        "entities_by_concept": _sorted(tallies.get("concept", {})),
        "entities_by_type": _sorted(tallies.get("type", {})),
        "entities_by_theme": _sorted(tallies.get("theme", {})),
        "entities_by_period": _sorted(tallies.get("period", {})),
        "entities_by_property": _sorted(tallies.get("linked_by", {})),
        "terms_by_kind_of_name": _sorted(tallies.get("name_kind", {})),
    }
    run.keep(COUNTS, json.dumps(counts, indent=1, ensure_ascii=False).encode())
    return counts


def distinct_terms(uri: str) -> int:
    """Return the number of terms of a table that differ in lower case, of `str.lower` as in a search; 8 B per term."""
    hashes = np.zeros(0, np.uint64)
    for batch in open_table(uri, "terms").batches(["term"]):
        terms = {term.lower() for term in batch["term"].unique().to_pylist()}
        hashes = np.union1d(hashes, hash_texts(list(terms)))
    return len(hashes)


def show_counts(counts: Mapping[str, Any]) -> None:
    """Print the counts."""
    changed = counts["names_changed_by_punctuation_or_space"]
    terms = quantity(counts["distinct_terms"], "distinct term")
    say(f"  {quantity(counts['entities'], 'entity')}, {terms}; {quantity(changed, 'name')} changed")
    for title, key in (
        ("entities by concept (table 6)", "entities_by_concept"),
        ("entities by type (table 7)", "entities_by_type"),
        ("entities by theme", "entities_by_theme"),
        ("entities by property", "entities_by_property"),
        ("terms by kind of name", "terms_by_kind_of_name"),
    ):
        summary.show_tally(title, counts[key])


def _sorted(tally: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(tally.items(), key=lambda entry: (-entry[1], entry[0])))
