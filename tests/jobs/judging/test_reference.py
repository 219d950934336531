"""Reference ratings for the settings of `loglik`."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from jobs.errors import InputError
from jobs.judging.reference import read_reference, show_sweep
from tests.factories import rating, write_table


def test_the_mean_of_the_scores_there_are(tmp_path: Path) -> None:
    write_table(tmp_path / "people", "ratings", [
        rating("i", "anna", "q", "4"),
        rating("i", "bo", "q", "1"),
        rating("i", "cy", "q", None),
        rating("i", "dora", "q", "yes"),
        rating("j", "anna", "q", "5", status="truncated"),
        rating("k", "anna", "q", "3", target="Peru"),
    ])  # fmt: skip
    assert read_reference(f"{tmp_path}/people") == {("i", ""): 2.5, ("k", "Peru"): 3.0}
    assert read_reference(None) == {}


def test_ratings_without_a_score_are_refused(tmp_path: Path) -> None:
    write_table(tmp_path / "people", "ratings", [rating("i", "anna", "q", "yes")])
    with pytest.raises(InputError, match=r"reference=.*: none of its ratings has a score"):
        read_reference(f"{tmp_path}/people")


def test_the_settings_are_sorted_by_their_agreement(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Scores of items without a reference, of other labels and of failed ratings do not count."""
    reference = {("a", "Peru"): 1.0, ("b", "Peru"): 2.0, ("c", "Peru"): 3.0, ("d", "Peru"): 3.0}
    scores = {"against": "3214", "with": "1234", "equal": "2222", "partly": "1424"}
    rows = [
        rating(item, "m", "q", score, target="Peru", condition=condition)
        for condition, of_items in scores.items()
        for item, score in zip("abcd", of_items, strict=True)
    ]
    rows += [
        rating("e", "m", "q", "5", target="Peru", condition="with"),
        rating("a", "m", "q", "5", target="Mali", condition="with"),
        rating("a", "n", "q", "5", target="Peru", condition="with", status="refused"),
    ]
    kept: dict[str, bytes] = {}
    out = write_table(tmp_path / "loglik", "ratings", rows)
    run: Any = SimpleNamespace(target=SimpleNamespace(out=out), keep=kept.__setitem__)
    show_sweep(run, reference, list(scores))
    sweep = json.loads(kept["sweep.json"])
    assert [entry["setting"] for entry in sweep] == ["with", "partly", "against", "equal"]
    assert [entry["n"] for entry in sweep] == [4, 4, 4, 4]
    assert sweep[0]["pearson"] == pytest.approx(0.9438798)
    assert sweep[2]["pearson"] < 0
    assert sweep[3]["pearson"] is None
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["with", "partly", "against", "equal"]
