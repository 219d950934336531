"""The side of a search that stays in memory, and the account of the corpus."""

from types import SimpleNamespace
from typing import Any

import pytest

from jobs.errors import InputError, RunError
from jobs.retrieval import search_modes
from jobs.retrieval.neighbor_rows import CORPUS_TALLY


def test_the_smaller_side_stays_in_memory_unless_the_other_is_set() -> None:
    cases = [("auto", 2, 3), ("auto", 3, 3), ("auto", 4, 3), ("queries", 9, 1), ("corpus", 1, 9)]
    sides = [search_modes.resident_side(key, queries=queries, corpus=corpus) for key, queries, corpus in cases]
    assert sides == ["queries", "queries", "corpus", "queries", "corpus"]
    for side in search_modes.SIDES:
        search_modes.check_side(side)
    with pytest.raises(InputError, match="resident=both: must be one of auto, queries, corpus"):
        search_modes.check_side("both")


def test_remaining_units_are_searched_by_the_side_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[str] = []
    unused: Any = None
    monkeypatch.setattr(search_modes, "_scan_corpus", lambda *_, **__: searched.append("corpus scanned"))
    monkeypatch.setattr(search_modes, "_stream_queries", lambda *_, **__: searched.append("queries streamed"))
    for todo in ([], ["unit"]):
        run: Any = SimpleNamespace(todo=todo)
        for side in (search_modes.QUERIES, search_modes.CORPUS):
            search_modes.search(run, unused, unused, side=side, resources=unused, overwrite=False)
        assert searched == (["corpus scanned", "queries streamed"] if todo else [])


def test_every_row_of_the_corpus_is_accounted_for(capsys: pytest.CaptureFixture[str]) -> None:
    corpus: Any = SimpleNamespace(rows=1200)
    counts = {"tallies": {CORPUS_TALLY: {"searched": 1190, "excluded": 10}}}
    search_modes.account_corpus("R", counts, corpus)
    assert capsys.readouterr().out == "  corpus rows: searched 1,190, excluded 10\n"
    for tallies in ({CORPUS_TALLY: {"searched": 1199}}, {}):
        with pytest.raises(RunError, match=r"^R: only (1,199|0) of 1,200 corpus rows are accounted for"):
            search_modes.account_corpus("R", {"tallies": tallies}, corpus)
