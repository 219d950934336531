"""Lines that jobs with a model print about their prompts."""

import pytest

from jobs.judging.judging_summary import show_marks, show_prompts, show_tallies


def test_cut_contexts_and_a_missing_system_turn_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    show_prompts({"pictures": {"shown": 3}})
    assert capsys.readouterr().out == ""
    cut = {"truncated": {"items": 1200}, "truncated field": {"title": 1, "article": 1200}}
    empty = {"empty context": {"no link": 2, "no article": 1000}}
    show_prompts({**cut, **empty, "system text": {"in the user's turn": 5}})
    first, without_text, second = capsys.readouterr().out.splitlines()
    assert "1,200 items (article 1,200, title 1)" in first
    assert "1,002 items (no article 1,000, no link 2)" in without_text
    assert "system turn" in second


def test_tokens_time_and_rows_scored_twice_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    show_tallies({"tokens": {"of whole prompts": 12_000, "passed": 0}, "milliseconds": {"device": 5}})
    show_marks({"milliseconds": {"marking": 1}})
    assert capsys.readouterr().out == ""
    tallies = {
        "tokens": {"of whole prompts": 12_000, "passed": 5_000},
        "milliseconds": {"device": 1_500, "all": 2_000},
        "rescored": {"rows": 40, "changed answers": 2},
        "rescored difference": {"1e-07": 30, "0.003": 1, "2e-05": 9},
    }
    show_tallies(tallies)
    assert capsys.readouterr().out.splitlines() == [
        "  prompts have 12,000 tokens, 5,000 were computed (2.4 times fewer)",
        "  device busy 75% of 2.0 s since the first batch",
        "  rescored 40 rows individually: 2 answers changed, largest difference of a probability 3.0e-03",
    ]
    show_tallies({"rescored": {"rows": 1, "failed": 1}})
    assert capsys.readouterr().out.endswith(
        "0 answers changed, largest difference of a probability 0.0e+00, 1 failed\n"
    )
    show_marks({"prompts": {"written": 2, "scored": 1_000}, "milliseconds": {"marking": 1_500}})
    assert capsys.readouterr().out == "  prompts  1,000 scored, 2 written, in 1.5 s of the model's processes\n"
