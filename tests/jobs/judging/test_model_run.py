"""What runs of a model print: the tokens of pictures, before and after, prompts and answers."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from actors import model_files
from actors.vlm import chat
from jobs.checkpoints.vlm import ModelConfig
from jobs.judge import JudgeConfig
from jobs.judging import model_run, prompt_trial, rubric_job
from jobs.judging.model_run import (
    OBJECTS_READ,
    SIZES_TRIED,
    counted_lines,
    expected_passes,
    expected_tokens,
    mark_lines,
    prompt_lines,
    sample_sizes,
    tally_lines,
)
from jobs.runtime.command_line import cli
from jobs.runtime.configuration import config
from jobs.store.reading import TableSource, open_table
from tests.factories import image_row, picture, write_units
from tests.picture_site import jpeg


def test_cut_contexts_and_a_missing_system_turn_are_printed() -> None:
    assert list(prompt_lines({"pictures": {"shown": 3}})) == []
    cut = {"truncated": {"items": 1200}, "truncated field": {"title": 1, "article": 1200}}
    empty = {"empty context": {"no link": 2, "no article": 1000}}
    first, without_text, second = prompt_lines({**cut, **empty, "system text": {"in the user's turn": 5}})
    assert "1,200 items (article 1,200, title 1)" in first
    assert "1,002 items (no article 1,000, no link 2)" in without_text
    assert "system turn" in second


def test_tokens_time_and_rows_scored_twice_are_printed() -> None:
    assert list(tally_lines({"tokens": {"of whole prompts": 12_000, "passed": 0}, "milliseconds": {"device": 5}})) == []
    assert list(mark_lines({"milliseconds": {"marking": 1}})) == []
    tallies = {
        "tokens": {"of whole prompts": 12_000, "passed": 5_000},
        "milliseconds": {"device": 1_500, "all": 2_000},
        "rescored": {"rows": 40, "changed answers": 2},
        "rescored difference": {"1e-07": 30, "0.003": 1, "2e-05": 9},
    }
    assert list(tally_lines(tallies)) == [
        "  prompts have 12,000 tokens, 5,000 were computed (2.4 times fewer)",
        "  device busy 75% of 2.0 s since the first batch",
        "  rescored 40 rows individually: 2 answers changed, largest difference of a probability 3.0e-03",
    ]
    (failed,) = tally_lines({"rescored": {"rows": 1, "failed": 1}})
    assert failed.endswith("0 answers changed, largest difference of a probability 0.0e+00, 1 failed")
    marks = {"prompts": {"written": 2, "scored": 1_000}, "milliseconds": {"marking": 1_500}}
    assert list(mark_lines(marks)) == ["  prompts  1,000 scored, 2 written, in 1.5 s of the model's processes"]


def images(folder: Path, *units: list[tuple[int | None, int | None]], status: str = "ok") -> TableSource:
    rows = [
        [
            {**image_row(f"{number}-{n}", status=status), "width": width, "height": height}
            for n, (width, height) in enumerate(sizes)
        ]
        for number, sizes in enumerate(units)
    ]
    return open_table(write_units(folder, "images", rows))


def test_sizes_are_in_the_order_of_their_areas(tmp_path: Path) -> None:
    sizes: list[tuple[int | None, int | None]] = [(9, 1), (2, 3), (3, 2), (0, 5), (5, 0), (None, None), (1, 1), (1, 1)]
    assert sample_sizes(images(tmp_path / "a", sizes)) == [(1, 1), (1, 1), (2, 3), (3, 2), (9, 1)]
    assert sample_sizes(images(tmp_path / "b", [(4, 4)], status="error")) == []
    exactly: list[tuple[int | None, int | None]] = [(n, 1) for n in range(SIZES_TRIED, 0, -1)]
    assert sample_sizes(images(tmp_path / "c", exactly)) == [(n, 1) for n in range(1, SIZES_TRIED + 1)]
    many: list[tuple[int | None, int | None]] = [(n, 1) for n in range(1, 161)]
    spaced = sample_sizes(images(tmp_path / "d", many))
    assert spaced == [*((10 * n + 6, 1) for n in range(SIZES_TRIED - 1)), (160, 1)]


def test_first_and_last_objects_are_read_and_some_between(tmp_path: Path) -> None:
    """Units are in the order of their names: 0, 1, 10 to 14, 2 to 9; every second one is read."""
    units: list[list[tuple[int | None, int | None]]] = [[(n, 1)] for n in range(1, 16)]
    assert sample_sizes(images(tmp_path / "a", *units)) == [(n + 1, 1) for n in (0, 3, 5, 7, 9, 10, 12, 14)]
    assert len(sample_sizes(images(tmp_path / "b", *units))) == OBJECTS_READ
    assert sample_sizes(images(tmp_path / "c", *units[:3])) == [(1, 1), (2, 1), (3, 1)]


def test_the_phrase_of_a_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = ModelConfig(checkpoint="c", max_pixels=1_000_000)
    table, answers = images(tmp_path / "a", [(56, 28), (280, 280)]), [[1000, 2501], [], None]
    monkeypatch.setattr(chat, "tokens_of_sizes", lambda *_, **__: answers.pop(0))
    assert expected_tokens(model, None) == ""
    nothing = images(tmp_path / "b", [])
    assert expected_tokens(model, nothing) == "; pictures with max_pixels=1,000,000"
    assert expected_tokens(model, table) == "; pictures with max_pixels=1,000,000: about 1,750 tokens each, up to 2,501"
    assert expected_tokens(model, table) == "", "a text model"
    assumed = expected_tokens(ModelConfig(checkpoint="c", max_pixels=None, min_pixels=1), table)
    assert assumed.startswith(
        "; pictures with max_pixels=null, min_pixels=1: about 51 tokens each, up to 100, assuming"
    )


def test_a_picture_has_at_least_one_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat, "tokens_of_sizes", lambda *_, **__: None)
    model = ModelConfig(checkpoint="c", max_pixels=None)
    assert "about 1 tokens each, up to 1," in expected_tokens(model, images(tmp_path / "a", [(1, 1)]))
    assert "about 2 tokens each, up to 2," in expected_tokens(model, images(tmp_path / "b", [(29, 28)]))


def test_what_was_shown() -> None:
    def lines(tallies: dict[str, Any]) -> list[str]:
        return list(counted_lines(ModelConfig(checkpoint="c", max_pixels=5000), tallies))

    assert lines({"pictures": {"shown": 2000, "tokens": 2_500_000}}) == [
        "  2,000 pictures shown, 1,250 tokens each (max_pixels=5,000)"
    ]
    assert lines({"pictures": {"shown": 0, "tokens": 0}}) == lines({}) == []
    assert model_run.PIXELS_PER_TOKEN == 784


def test_passes_are_counted_from_the_prompts_of_the_first_items(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`naive` passes what prompts share with each of them; texts that are written follow a prompt each."""
    (tmp_path / "a.txt").write_text("joy\nfear\nawe\n", encoding="utf-8")
    source = write_units(tmp_path / "images", "images", [[{**picture(n), "bytes": jpeg()} for n in range(6)]])
    keys = [
        f"input={source}",
        "rubric=cultural_relevance",
        f"targets={tmp_path}/a.txt",
        f"out={tmp_path}/R",
        "plan=true",
    ]
    folder = Path(model_files.resolve("local:qwen2.5-vl-tiny"))
    stored = sum(file.stat().st_size for file in folder.glob("*.safetensors"))
    parts = {}
    for name, more in {"shared": [], "naive": ["engine=naive"], "float32": ["model.dtype=float32"]}.items():
        model = ["model=local-tiny", "model.dtype=bfloat16"]
        cfg = config.load("judge", JudgeConfig, [*keys, *model, "resources=cluster", *more])
        job = rubric_job.open_job(cfg, rubric_job.check(cfg))
        (prepare, _), units = rubric_job.judge_stages(cfg, job.targets, job.ratings), rubric_job.units_of(cfg, job)
        parts[name] = expected_passes(cfg, prompt_trial.prompt_counts(units, job.reader, prepare), times=2, written=10)
        if name == "shared":
            items = prompt_trial.first_items(units, job.reader, 1)
            ((prompts, whole, once),), remark = prompt_trial.token_counts(items, prepare)
    shared, naive = parts["shared"], parts["naive"]
    assert parts["float32"] is None
    assert shared is not None
    assert naive is not None
    assert (prompts, remark) == (3, "")
    assert (shared.read, naive.read) == (once, whole)
    assert once < whole < 3 * once
    assert shared.written == 2 * 3 * 10
    assert "the prompts of the first 4 items; engine=naive passes " in shared.basis
    assert shared.gb * 1e9 == pytest.approx(stored / 2, rel=0.02)  # float32 there, bfloat16 on a GPU
    assert shared.parameters == pytest.approx(stored / 4, rel=0.02)
    counts = Mock(wraps=prompt_trial.token_counts)  # by a plan, whose line about the engine has the same prompts, once
    monkeypatch.setattr(prompt_trial, "token_counts", counts)
    assert cli.main("judge", [*keys, "model=local-tiny", "model.dtype=bfloat16", "resources=cluster"]) == 0
    printed = capsys.readouterr().out
    assert ("whole prompts would be" in printed, "upper estimate, not measured" in printed) == (True, True)
    assert counts.call_count == 1
    assert cli.main("judge", [*keys, "model=local-tiny", "method=reasoned", "samples=2"]) == 0
    assert "engine texts about an item follow one pass of their prompt; whole" in capsys.readouterr().out


def test_a_plan_says_what_labels_and_texts_cost_without_a_shared_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten labels of 5 tokens, or 2 texts of 10 tokens, about a prompt of 1,000 tokens."""
    model = SimpleNamespace(checkpoint="local:qwen2.5-vl-tiny", revision=None, architecture="qwen2_5_vl")
    cfg: Any = SimpleNamespace(plan=True, model=model)
    jobs: dict[str, dict[str, int]] = {"loglik": {"times": 10, "appended": 5}, "generate": {"times": 2, "written": 10}}
    texts = {
        "loglik": "9.6 times the tokens of a shared prefix (10 labels per item, 10,050 tokens against 1,050)",
        "generate": "19.7 times the tokens of a shared prefix (2 texts per item, 20,100 tokens against 1,020)",
    }
    begins = {
        True: "engine {} about an item follow one pass of their prompt; whole prompts would be ",
        None: "engine if {} cannot follow one pass of their prompt, which the first ones show: ",
        False: "slow   {}, as qwen2_5_vl passes it with each ",
    }
    for job, amounts in jobs.items():
        for continues, begin in begins.items():
            monkeypatch.setattr(model_run.vlm, "continues_prompts", lambda *_, continues=continues: continues)
            (line,) = model_run.engine_lines(cfg, lambda: ([(1, 1000, 1000)], ""), job=job, **amounts)
            assert line.startswith(begin.format({"loglik": "labels", "generate": "texts"}[job]))
            assert line.endswith(texts[job])


def test_a_plan_says_what_passing_whole_prompts_costs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Known of an architecture that was compared, or shown by the first prompts of the run."""
    (tmp_path / "a.txt").write_text("joy\nfear\nawe\n", encoding="utf-8")
    source = write_units(tmp_path / "images", "images", [[{**picture(n), "bytes": jpeg()} for n in range(2)]])
    keys = [f"input={source}", "rubric=cultural_relevance", f"targets={tmp_path}/a.txt", f"out={tmp_path}/R"]
    begins = {
        "engine prompts about an item share their beginning; whole prompts would be ": (True, ["plan=true"]),
        "slow   engine=naive, as qwen2_5_vl shares no prefixes: ": (False, ["plan=true"]),
        "engine if prompts cannot share their beginning, which the first ones show: ": (None, ["plan=true"]),
        "slow   engine=naive, as asked for: ": (True, ["plan=true", "engine=naive"]),
        "": (True, []),
    }
    for begin, (shares, more) in begins.items():
        monkeypatch.setattr(model_run.vlm, "shares_prefixes", lambda _, shares=shares: shares)
        cfg = config.load("judge", JudgeConfig, [*keys, "model=local-tiny", *more])
        job = rubric_job.open_job(cfg, rubric_job.check(cfg))
        (prepare, _), units = rubric_job.judge_stages(cfg, job.targets, job.ratings), rubric_job.units_of(cfg, job)
        lines = model_run.engine_lines(cfg, prompt_trial.prompt_counts(units, job.reader, prepare))
        assert len(lines) == bool(begin)
        ((prompts, whole, once),), _ = prompt_trial.token_counts(
            prompt_trial.first_items(units, job.reader, 1), prepare
        )
        times = f"{whole / once:.1f} times the tokens of a shared prefix ({prompts} prompts per item, {whole:,} tokens"
        assert all(line.startswith(begin + times) for line in lines), lines
