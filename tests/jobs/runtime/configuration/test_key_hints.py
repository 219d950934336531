"""Hints at what an unknown key or option may stand for, and what is said of values that are not allowed."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from jobs.errors import InputError
from jobs.runtime.command_line import cli
from jobs.runtime.configuration import config, key_hints
from jobs.runtime.configuration.config import Writing, check_plan
from jobs.runtime.configuration.key_types import MISSING
from tests.cases import check_cases


def meant(key: str) -> str:
    return f" (did you mean {key}?)" if key else ""


def test_the_nearest_of_the_allowed_names_is_meant() -> None:
    cases = {
        "a longer name": ("item", ["items", "item_id"], "item_id"),
        "a typing error": ("adress", ["access", "address"], "address"),
        "letters in another order": ("wti", ["wit_base", "wit"], "wit"),
        "one word of several": ("distanse", ["seed", "near_distance"], "near_distance"),
        "nothing like it": ("x", ["address", "seed"], ""),
        "too far": ("lang", ["plan"], ""),
    }

    def check(name: str, allowed: list[str], key: str) -> None:
        assert key_hints.of_name(name, allowed) == meant(key)
        assert key_hints.of_name(name, allowed, prefix="a.b.") == meant(f"a.b.{key}" if key else "")

    check_cases(check, cases)


def test_a_key_below_is_meant_if_no_other_has_its_name() -> None:
    composed: dict[str, Any] = {
        "limit": 1,
        "corpus": {"language": "en", "language_of": "x", "seed": 1, "path": "p"},
        "draw": {"seed": 1, "number": {"least": 0}},
        "resources": {"mine": {"actors": 1, "path_of": 1}},
    }  # fmt: skip
    cases = {
        "language": "corpus.language",  # rather than one that begins with it
        "lang": "",  # two begin with it
        "pa": "corpus.path",  # the other is of resources
        "seed": "corpus.seed or draw.seed",
        "least": "draw.number.least",
        "limit": "",  # not below
        "umber": "",
    }
    assert "did you mean resources.STAGE.actors, where STAGE is one of mine?" in key_hints.of_last_part(
        "actors", composed
    )
    assert {name: key_hints.of_last_part(name, composed) for name in cases} == {
        name: meant(key) for name, key in cases.items()
    }


@dataclass
class Explained:
    """Keys whose explanations begin with the words that users try."""

    rows: int = 1  # number of rows
    overwrite: bool = False  # delete the table
    kept: bool = False  # deletes nothing
    before: str = ""  # picture of the first
    after: str = ""  # picture of the second


def test_the_only_key_whose_explanation_begins_with_the_word_is_meant() -> None:
    cases = {"number": "rows", "delete": "overwrite", "picture": "", "n.mber": "", "rows": "", "first": ""}
    assert {word: key_hints.of_comments(word, Explained) for word in cases} == {
        word: meant(key) for word, key in cases.items()
    }


def test_required_keys_are_those_without_a_value_that_are_not_set() -> None:
    keys = {"out": MISSING, "queries": MISSING, "table": MISSING, "k": 1}
    assert key_hints.of_required(keys, {"table"}) == " (required: queries=)"
    assert key_hints.of_required(keys, set()) == " (required: queries=, table=)"
    assert key_hints.of_required(keys, {"table", "queries"}) == ""


def test_a_file_of_the_user_without_its_ending_is_meant(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").touch()
    (tmp_path / "old.yml").touch()
    (tmp_path / "folder.yaml").mkdir()
    cases = {
        "mine": f" (did you mean {tmp_path}/mine.yaml?)",
        "mine.yml": f" (did you mean {tmp_path}/mine.yaml?)",
        "old.yml": f" (rename {tmp_path}/old.yml to {tmp_path}/old.yaml)",
        "old": f" (rename {tmp_path}/old.yml to {tmp_path}/old.yaml)",
        "folder": "",
        "gone": "",
    }
    assert {name: key_hints.of_file(f"{tmp_path}/{name}") for name in cases} == cases


def test_a_model_of_the_hub_is_a_checkpoint() -> None:
    cases = {
        **{(group, "org/name"): True for group in ("model", "embedder", "image_model")},
        ("model", "local:tiny"): True,
        ("model", "tiny"): False,
        ("rubric", "org/name"): False,
    }
    assert {key: f"{key[0]}.checkpoint={key[1]}" in key_hints.of_option(*key, [], Explained) for key in cases} == cases


def test_keys_of_values_are_dotted_also_in_lists() -> None:
    values = {"a": math.nan, "b": {"c": [1.0, {"d": math.nan}], "e": "nan"}, "f": None, "g": [[math.nan]]}
    assert list(key_hints.keys_with(lambda value: isinstance(value, float) and value != 1, values)) == [
        "a",
        "b.c.1.d",
        "g.0.0",
    ]


def test_a_plan_is_true_false_or_of_jobs_with_units_calibrate() -> None:
    for plan in (True, False, "calibrate"):
        check_plan(plan, calibrates=True)
    for plan, calibrates, message in (
        ("yes", True, "plan=yes: must be one of true, false and calibrate"),
        ("calibrate", False, "plan=calibrate: must be one of true and false; this job has no plan=calibrate"),
        ("yes", False, "plan=yes: must be one of true and false; this job has no plan=calibrate"),
    ):
        with pytest.raises(InputError, match=f"^{message}$"):
            check_plan(plan, calibrates=calibrates)
    for job, message in (("curate", "this job has no plan=calibrate"), ("embed", "false and calibrate")):
        with pytest.raises(InputError, match=f"plan=sometimes: .*{message}"):
            config.load(job, cli.job(job).schema, ["input=i", "out=o", "plan=sometimes"])
    # plan=calibrate does some units, and is not only a plan
    assert [Writing(plan=plan).only_plans for plan in (True, False, "calibrate")] == [True, False, False]


def test_an_option_that_does_not_exist_is_named_as_it_was_typed(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("mine: {actrs: 1}\n", encoding="utf-8")
    hub = "Qwen/Qwen2.5-VL-7B-Instruct"
    cases = [
        (
            "judge",
            [f"model={hub}"],
            f"model={hub}: no such option (a model of the hub or a folder is model.checkpoint=",
        ),
        ("mine", [f"corpus={tmp_path}/mine"], f"corpus={tmp_path}/mine: no such option (did you mean {tmp_path}/mine."),
        ("mine", ["corpus.path=c/wit_bass", "corpus=wit_bass"], "corpus=wit_bass: no such option (did you mean wit_ba"),
        ("mine", [f"resources={tmp_path}/mine.yaml"], "mine.yaml: mine.actrs: no such key (did you mean actors?); "),
        ("retrieve", ["input=x", "queries=q"], "input=x: no such key; allowed: "),
        ("curate", ["resume.x=1"], "resume.x=1: no such key; allowed in resume: no further keys"),
    ]

    def check(job: str, overrides: list[str], message: str) -> None:
        with pytest.raises(InputError) as caught:
            config.compose(job, cli.job(job).schema, overrides)
        assert message in str(caught.value)

    check_cases(check, cases)
