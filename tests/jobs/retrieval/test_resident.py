"""A corpus in memory is the same whether each process reads it or maps the copy of its machine."""

from pathlib import Path

import numpy as np
import pytest

from jobs.corpora.vectors import VectorLayout
from jobs.retrieval import resident
from jobs.retrieval.resident import ResidentCorpus
from jobs.runtime.selection.exclusions import ExclusionFilter
from jobs.store.reading import open_table
from jobs.store.units import Unit
from tests.factories import DIM, embedding_rows, write_units

TABLE = VectorLayout(table=True)


def corpus_units(out: Path) -> list[Unit]:
    draw = np.random.default_rng(0)
    rows = embedding_rows([f"n{number}" for number in range(50)], "image", draw.normal(size=(50, DIM)))
    rows[7] = {**rows[7], "embedding": None, "status": "error"}
    write_units(out, "embeddings", [rows[:20], rows[20:21], rows[21:]])
    return [
        Unit(f.unit.name, (f.object,), rows=f.rows, extra={"parts": [[0, 0, 0, f.rows]]})
        for f in open_table(str(out)).footers
    ]


def described(corpus: ResidentCorpus) -> list[object]:
    blocks = [(block.vectors.dtype.str, block.vectors.tolist(), block.places.tolist()) for block in corpus.blocks]
    return [blocks, [unit.counts for unit in corpus.units], corpus.matched, corpus.starts.tolist()]


def places(corpus: ResidentCorpus) -> list[int]:
    return [place for block in corpus.blocks for place in block.places.tolist()]


def test_a_shared_corpus_is_that_of_one_process(
    tmp_path: Path, temporary_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resident, "BLOCK_ROWS", 8)
    units = corpus_units(tmp_path / "corpus")
    for marks in (frozenset[str](), frozenset(["n3", "n30"])):
        single = ResidentCorpus(units, TABLE, ExclusionFilter(marks), shared=False)
        first, second = (ResidentCorpus(units, TABLE, ExclusionFilter(marks), shared=True) for _ in range(2))
        assert described(first) == described(second) == described(single)
        # in the whole corpus; n7 has no vector
        assert places(first) == [number for number in range(50) if number != 7 and f"n{number}" not in marks]
        assert sum(single.matched.values()) == len(marks)
        (copy,) = temporary_folder.iterdir()
        del first
        assert copy.is_dir()
        del second
        assert not copy.exists()


def test_a_copy_is_shared_only_with_the_same_units_layout_and_exclusions(
    tmp_path: Path, temporary_folder: Path
) -> None:
    units = corpus_units(tmp_path / "corpus")
    conditional = VectorLayout(table=True, where="item_id = n5 or item_id = n30")
    corpora = [
        ResidentCorpus(part, layout, ExclusionFilter(frozenset(marks)), shared=True)
        for part, layout, marks in (
            (units, TABLE, []), (units, TABLE, ["n3"]), (units, conditional, []), (units[:1], TABLE, [])
        )
    ]  # fmt: skip
    assert [len(places(corpus)) for corpus in corpora] == [49, 48, 2, 19]
    assert len(list(temporary_folder.iterdir())) == 4


def test_a_shared_corpus_may_have_no_row_to_search(tmp_path: Path, temporary_folder: Path) -> None:
    units = corpus_units(tmp_path / "corpus")
    everything = ExclusionFilter(frozenset(f"n{number}" for number in range(50)))
    single, shared = (ResidentCorpus(units, TABLE, everything, shared=shared) for shared in (False, True))
    assert described(shared) == described(single)
    assert (shared.blocks, len(list(temporary_folder.iterdir()))) == ([], 1)


def test_without_room_each_process_reads_it(
    tmp_path: Path, temporary_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    units = corpus_units(tmp_path / "corpus")
    expected = described(ResidentCorpus(units, TABLE, ExclusionFilter(frozenset()), shared=False))
    monkeypatch.setattr(resident, "ROOM", 1e12)
    assert described(ResidentCorpus(units, TABLE, ExclusionFilter(frozenset()), shared=True)) == expected
    assert not list(temporary_folder.iterdir())
