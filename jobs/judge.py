"""Let a vision-language model answer a rubric's closed questions about pictures -> table `ratings`.

    python -m jobs.judge input=R/images records=R/records rubric=century_labels model=qwen2.5-vl-7b out=R/ratings/qwen
    python -m jobs.judge input=R/images rubric=cultural_relevance targets=cultures.txt \\
        'models=[qwen2.5-vl-7b,pangea-7b]' out=R/ratings

Answers are scored, not generated: the likelihood of each allowed answer, the whole distribution, the mass
outside. One row a picture, target and question. With `records`, what the rubric's prompt says about a picture
comes from its record. `input` may be a table of items, with `images` and `texts`. Another judge is another table:
nothing of the first one's is touched; `models` makes one a model, in folders of `out` named after them, and where one
of them fails the others are asked all the same.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from jobs.errors import InputError, RunError
from jobs.judging import kept_raters, rubric_job, settings
from jobs.judging.rubric_job import Checked, RubricConfig
from jobs.models import picture_tokens
from jobs.models.plan import plan_lines
from jobs.runtime import cli, config, exclusions, lifecycle
from jobs.runtime.console import say
from jobs.store import locations


@dataclass
class JudgeConfig(RubricConfig):
    """Keys of `judge`."""

    models: list[str] = field(default_factory=list)  # several of conf/model, one after another, each into out/NAME
    engine: str = "auto"  # auto, cascade, batched or naive (docs/judging.md)
    memory_budget_gb: float | None = (
        None  # for one forward pass; null: half of what is free once the weights are loaded
    )
    rescore_fraction: float = 0.0  # fraction of the rows to score twice, to measure rounding


def execute(cfg: JudgeConfig) -> dict[str, Any] | None:
    """Run the job; see the module's docstring. Returns the last judge's manifest, None with plan=true.

    Raises:
        InputError: what of the configuration is wrong, before anything is written.
        RunError: the run failed; with several judges it names those that failed, once the others are done.
    """
    if not cfg.models:
        return _judge(cfg)
    needed = ["input=i", "out=o"]
    models = [config.load("judge", JudgeConfig, [f"model={name}", *needed]).model for name in cfg.models]
    names = [model.name for model in models]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise InputError(f"judge: models names {twice} twice")
    each = [replace(cfg, model=model, models=[], out=locations.join(cfg.out, model.name)) for model in models]
    for one in each if not cfg.plan else []:
        _checked(one)  # a wrong name is better known before the first model's hours
    manifest, failed = None, {}
    for one in each:
        try:
            manifest = _judge(one)
        except (InputError, RunError) as error:
            failed[one.model.name] = error
            say(f"judge {one.model.name} failed: {error}", err=True)
    if failed:
        wrong = all(isinstance(error, InputError) for error in failed.values()) and len(failed) == len(each)
        said = "; ".join(f"{name} ({error})" for name, error in failed.items())
        raise (InputError if wrong else RunError)(f"{len(failed)} of {len(each)} judges failed: {said}")
    return manifest


def _judge(cfg: JudgeConfig) -> dict[str, Any] | None:
    from actors.judge import Judge

    what = rubric_job.asked(cfg, _checked(cfg))
    rows, kind = what.sources.items.rows, what.sources.items.name
    excluded = exclusions.read_exclusions(cfg.exclusions)
    note = f"asks {what.ratings.asked:,} answers of {cfg.model.name} about {rows:,} {kind}"
    if cfg.plan:
        note += picture_tokens.expected(cfg.model, what.sources.pictures)
    plan = rubric_job.plan(cfg, what, excluded, {})
    run = lifecycle.begin("judge", cfg, plan, pools=["judge"], note=note, lines=plan_lines(cfg, cfg.model))
    if run is None:
        return None
    from jobs.runtime import stages

    asked = (
        "rubric",
        "layout",
        "max_context_tokens",
        "empty_context",
        "engine",
        "memory_budget_gb",
        "rescore_fraction",
    )
    kwargs = {**cfg.model.weights, **cfg.model.pixels, **{key: getattr(cfg, key) for key in asked}}
    kwargs |= {"targets": what.targets, "threads": cfg.resources.judge.threads}
    stages.stream(
        run,
        name="judge",
        read=stages.Read(
            what.reading(), item="item_id", output_item="item_id", excluded=exclusions.keep(run, excluded)
        ),
        stages=[stages.Stage("judge", Judge, kwargs, rows_out=what.ratings.rows_out)],
        resources=cfg.resources,
    )
    manifest = lifecycle.end("judge", run, excluded)
    _show_tallies(manifest["counts"]["tallies"])
    picture_tokens.show_counted(cfg.model, manifest["counts"]["tallies"])
    kept_raters.keep(run, kept_raters.of_model(cfg.model, manifest["counts"]["tallies"]))
    return manifest


def _checked(cfg: JudgeConfig) -> Checked:
    """What of the configuration is right (`rubrics.checked`).

    Raises:
        InputError: what of the configuration is wrong.
    """
    from actors.vlm.engines import ENGINES

    try:
        if cfg.engine not in ENGINES:
            raise ValueError(f"engine={cfg.engine}: one of {', '.join(ENGINES)}")
        if not 0 <= cfg.rescore_fraction <= 1:
            raise ValueError(f"rescore_fraction={cfg.rescore_fraction:g}: must be from 0 to 1")
        settings.check_positive(cfg, ["memory_budget_gb"])
        return rubric_job.checked(cfg)
    except InputError:
        raise
    except ValueError as error:
        raise InputError(f"judge: {error}") from error


def _show_tallies(tallies: Mapping[str, Mapping[str, int]]) -> None:
    tokens = tallies.get("tokens", {})
    if tokens.get("passed"):
        whole = tokens["of whole prompts"]
        fewer = whole / tokens["passed"]
        say(f"  {whole:,} tokens of whole prompts, {tokens['passed']:,} passed ({fewer:.1f} times fewer)")
    spent = tallies.get("milliseconds", {})
    if spent.get("all"):
        busy = spent.get("device", 0) / spent["all"]  # none if every picture was missing
        say(f"  device at work {busy:.0%} of {spent['all'] / 1000:,.1f} s since the first batch")
    if rescored := tallies.get("rescored"):
        largest = max(map(float, tallies.get("rescored difference", {"0": 1})))
        failed = f", {rescored['failed']:,} failed" if rescored.get("failed") else ""
        say(
            f"  rescored {rescored['rows']:,} rows individually: {rescored.get('changed answers', 0):,} "
            f"answers changed, largest difference of a probability {largest:.1e}{failed}"
        )


JOB = cli.Job("judge", JudgeConfig, execute)

if __name__ == "__main__":
    sys.exit(cli.main("judge"))
