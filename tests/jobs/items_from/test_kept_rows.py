"""Rows that are kept by their keys, against a plain loop."""

from pathlib import Path
from typing import Any

import pytest

from jobs.items_from import kept_rows
from jobs.items_from.kept_rows import KeptRows, column_keys, value_keys
from jobs.store.hashing import hash_texts
from jobs.store.reading import open_table
from tests.factories import write_units

NODES: list[dict[str, Any]] = [
    {"node_id": f"n{n}", "titles": [("de", f"D{n}"), ("en", f"T{n % 4}")] if n != 3 else []} for n in range(9)
]
WANTED = ["T1", "n1", "n2", "D8", "absent", "n3"]


@pytest.mark.parametrize("at_once", [1, 2, 100])
@pytest.mark.parametrize("wanted", [None, WANTED])
def test_rows_with_a_wanted_key_are_found_by_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int, wanted: list[str] | None
) -> None:
    monkeypatch.setattr(kept_rows, "ROWS", at_once)
    source = open_table(write_units(tmp_path / "nodes", "nodes", [NODES[:5], NODES[5:]]), "nodes")
    keys_of = [column_keys("node_id"), value_keys("titles")]
    hashes = None if wanted is None else hash_texts(wanted)
    kept = KeptRows(tmp_path / "copy", source, ["node_id", "titles"], keys_of=keys_of, wanted=hashes)

    def keys(node: dict[str, Any]) -> list[str]:
        return [node["node_id"], *(title for _, title in node["titles"])]

    copied = [node for node in NODES if wanted is None or set(keys(node)) & set(wanted)]
    assert [row["node_id"] for batch in kept.batches() for row in batch.to_pylist()] == [n["node_id"] for n in copied]
    for asked in (["T1"], WANTED, ["n3"], ["absent"], []):
        expected = sorted((key, node["node_id"]) for node in copied for key in keys(node) if key in asked)
        assert sorted((key, row["node_id"]) for key, row in kept.rows(asked)) == expected
    (number,) = [row["titles"] for key, row in kept.rows(["D8"]) if key == "D8"]
    assert number == NODES[8]["titles"]


def test_rows_that_are_not_chosen_are_not_copied(tmp_path: Path) -> None:
    source = open_table(write_units(tmp_path / "nodes", "nodes", [NODES]), "nodes")
    kept = KeptRows(
        tmp_path / "copy", source, ["node_id"], keys_of=[column_keys("node_id")], choose=lambda rows: rows.slice(7)
    )
    assert kept.rows([node["node_id"] for node in NODES]) == [("n7", {"node_id": "n7"}), ("n8", {"node_id": "n8"})]
