"""What jobs that ask a model print about their prompts."""

import pytest

from jobs.judging.judging_summary import show_prompts


def test_cut_contexts_and_a_missing_system_turn_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    show_prompts({"pictures": {"shown": 3}})
    assert capsys.readouterr().out == ""
    cut = {"truncated": {"items": 1200}, "truncated field": {"title": 1, "article": 1200}}
    show_prompts({**cut, "system text": {"in the user's turn": 5}})
    first, second = capsys.readouterr().out.splitlines()
    assert "1,200 items (article 1,200, title 1)" in first
    assert "system turn" in second
