"""Let a model think in writing before each of a rubric's answers is scored -> table `ratings`.

    python -m jobs.think input=R/images records=R/records rubric=century_labels model=qwen2.5-vl-7b out=R/ratings/think

Method generate_then_score: the thought becomes the start of the model's turn, and the allowed answers are scored
behind it, as `python -m jobs.judge` scores them without. Slower by far; the thought is kept in `comment`.
"""

import sys
from dataclasses import dataclass
from typing import Any

from actors.ids import content_id
from jobs.errors import InputError
from jobs.judging import kept_raters, rubric_job, settings
from jobs.judging.rubric_job import Checked, RubricConfig
from jobs.models import picture_tokens
from jobs.models.plan import plan_lines
from jobs.runtime import cli, exclusions, lifecycle


@dataclass
class ThinkConfig(RubricConfig):
    """Keys of `think`."""

    samples: int = 1  # thoughts an item and question
    temperature: float = 1.0  # 0: the likeliest token each time
    top_p: float = 1.0  # share of the likeliest tokens that is drawn from
    max_tokens: int = 1024  # of a thought
    seed: int = 0  # every sample's own seed is derived from it
    memory_budget_gb: float | None = None  # memory for caches; null: half of what is free
    group_rows: int | None = None  # most prompts x samples at a time; null: what the memory allows


SAMPLING = ("samples", "temperature", "top_p", "max_tokens", "seed")
LIMITS = ("max_context_tokens", "empty_context", "memory_budget_gb", "group_rows")


def execute(cfg: ThinkConfig) -> dict[str, Any] | None:
    """Run the job; see the module's docstring. Returns the manifest, None with plan=true."""
    from actors.reasoning_judge import THINK, ReasoningJudge

    what = rubric_job.asked(cfg, _checked(cfg), samples=cfg.samples)
    rows, kind = what.sources.items.rows, what.sources.items.name
    excluded = exclusions.read_exclusions(cfg.exclusions)
    note = f"thinks {what.ratings.asked:,} times about {rows:,} {kind}"
    if cfg.plan:
        note += picture_tokens.expected(cfg.model, what.sources.pictures)
    more = {"think": content_id(THINK), **{name: getattr(cfg, name) for name in SAMPLING}}
    plan = rubric_job.plan(cfg, what, excluded, more)
    run = lifecycle.begin("think", cfg, plan, pools=["judge"], note=note, lines=plan_lines(cfg, cfg.model))
    if run is None:
        return None
    from jobs.runtime import stages

    kwargs = {
        **cfg.model.weights,
        **cfg.model.pixels,
        **{key: getattr(cfg, key) for key in ("rubric", "layout", *SAMPLING, *LIMITS)},
        "targets": what.targets,
        "threads": cfg.resources.judge.threads,
    }
    stages.stream(
        run,
        name="think",
        read=stages.Read(
            what.reading(), item="item_id", output_item="item_id", excluded=exclusions.keep(run, excluded)
        ),
        stages=[stages.Stage("judge", ReasoningJudge, kwargs, rows_out=what.ratings.rows_out)],
        resources=cfg.resources,
    )
    manifest = lifecycle.end("think", run, excluded)
    picture_tokens.show_counted(cfg.model, manifest["counts"]["tallies"])
    kept_raters.keep(run, kept_raters.of_model(cfg.model, manifest["counts"]["tallies"]))
    return manifest


def _checked(cfg: ThinkConfig) -> Checked:
    from actors.vlm.sampling import Sampling

    try:
        Sampling(cfg.temperature, cfg.top_p, cfg.max_tokens)
        settings.check_positive(cfg, ["samples", "group_rows", "memory_budget_gb"])
        return rubric_job.checked(cfg)
    except InputError:
        raise
    except ValueError as error:
        raise InputError(f"think: {error}") from error


JOB = cli.Job("think", ThinkConfig, execute)

if __name__ == "__main__":
    sys.exit(cli.main("think"))
