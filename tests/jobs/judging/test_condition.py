"""The condition of ratings and responses: from the key, the items, or the responses."""

from pathlib import Path
from typing import Any

import pytest

from actors.conditions import check_condition
from jobs.errors import InputError
from jobs.judge import JudgeConfig
from jobs.judging.condition import with_condition
from jobs.runtime.command_line import cli
from jobs.runtime.configuration import config
from jobs.store.reading import open_table
from tests.cases import check_cases
from tests.factories import write_units

JOBS = {
    "judge": ["input=i", "out=o"],
    "generate": ["input=i", "out=o"],
    "loglik": ["input=i", "out=o", "targets=[a]"],
    "zero_shot": ["input=i", "out=o", "targets=[a]", "embedder=local-tiny"],
    "parse": ["input=i", "out=o"],
    "import_ratings": ["input=i", "out=o"],
}


def test_a_condition_is_one_short_line() -> None:
    for text in ("", "article", "20 titles", "x" * 100):
        check_condition(text)
    for text in (" article", "article\n", "a\nb", "x" * 101, "\t"):
        with pytest.raises(ValueError, match=r"^condition="):
            check_condition(text)


def test_every_job_that_writes_ratings_or_responses_has_the_key() -> None:
    def check(job: str) -> None:
        cfg: Any = config.load(job, cli.job(job).schema, [*JOBS[job], "condition=article"])
        assert cfg.condition == "article"
        with pytest.raises(InputError, match="condition="):
            config.load(job, cli.job(job).schema, [*JOBS[job], "condition='two\nlines'"])

    check_cases(check, list(JOBS))


def test_items_name_the_condition_unless_the_key_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    items = [[{"item_id": "a", "kind": "image"}]]
    named = open_table(write_units(tmp_path / "named", "items", items, condition="article"))
    bare = open_table(write_units(tmp_path / "bare", "items", items))
    keys = ["input=i", "out=o", "rubric=century_labels"]
    unset, own_values = (config.load("judge", JudgeConfig, [*keys, *key]) for key in ([], ["condition=own"]))
    assert with_condition(unset, bare).condition == ""
    assert with_condition(own_values, named).condition == "own"
    assert capsys.readouterr().out == ""
    assert with_condition(unset, named).condition == "article"
    assert "condition=article" in capsys.readouterr().out
