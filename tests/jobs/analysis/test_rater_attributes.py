"""Kinds, families and groups of raters."""

from pathlib import Path

import pytest

from jobs.analysis.rater_attributes import family_of, raters_of, read_raters
from jobs.errors import InputError
from jobs.store.reading import open_table
from tests.factories import write_table


def test_kinds_follow_from_methods_and_kept_rows_and_gold_from_names() -> None:
    methods = {
        "p": {"human"}, "e": {"encoder"}, "g": {"gold"}, "m": {"closed"}, "both": {"human", "closed"},
        "kept": {"closed"}, "expert-1": {"human"},
    }  # fmt: skip
    raters = read_raters((), methods, gold=["expert-*"], groups=(), kept=[{"rater": "kept", "kind": "encoder"}])
    assert raters.kinds == {
        "p": "human", "e": "encoder", "g": "gold", "m": "model", "both": "model", "kept": "encoder", "expert-1": "gold",
    }  # fmt: skip
    with pytest.raises(InputError, match="robot"):
        read_raters((), {"m": {"closed"}}, gold=(), groups=(), kept=[{"rater": "m", "kind": "robot"}])


def test_tables_of_raters_come_before_kept_rows_and_group_people_alone(tmp_path: Path) -> None:
    rows = [
        {"rater": "p", "kind": "human", "country": "Fiji"},
        {"rater": "r", "kind": "human", "country": "Fiji", "family": "f"},
        {"rater": "m", "kind": "model", "country": "Fiji"},
        {"rater": "expert", "kind": "human", "country": "Fiji"},
        {"rater": "silent", "kind": "human", "country": "Fiji"},
    ]
    table = open_table(write_table(tmp_path / "raters", "raters", rows))
    methods = {name: {"closed"} for name in ("p", "r", "m", "expert")}
    kept = [{"rater": name, "kind": "encoder"} for name in ("p", "m")]
    raters = read_raters([table], methods, gold=["expert"], groups=["country"], kept=kept)
    assert raters.kinds == {"p": "human", "r": "human", "m": "model", "expert": "gold"}
    assert raters.groups == {"people, country Fiji": ("p", "r")}
    assert raters.families["r"] == "f"
    assert raters.countries == dict.fromkeys(methods, "Fiji")


def test_a_family_is_the_name_up_to_a_digit_or_separator() -> None:
    names = ("qwen2.5-vl-7b@rev", "Org/LLaVA-1.5", "local:gemma_3", "7b")
    assert [family_of(name) for name in names] == ["qwen", "llava", "gemma", "7b"]


def test_people_of_a_file_have_groups_and_gold_has_none() -> None:
    methods = {"a": {"human"}, "b": {"human"}, "gold": {"human"}}
    raters = raters_of(methods, {"country": {"a": "Fiji", "b": "Fiji", "gold": "Fiji", "gone": "Fiji"}}, gold=["gold"])
    assert raters.kinds == {"a": "human", "b": "human", "gold": "gold"}
    assert raters.groups == {"people, country Fiji": ("a", "b")}
