"""Let a model think in writing before each of a rubric's answers is scored -> table `ratings`.

    python -m jobs.think input=R/images records=R/records rubric=century_labels judge=qwen2.5-vl-7b out=R/ratings/think

Method generate_then_score: the thought becomes the start of the model's turn, and the allowed answers are scored
behind it, as `python -m jobs.judge` scores them without. Slower by far; the thought is kept in `comment`.
"""

import sys
from dataclasses import dataclass, field
from typing import Any

from actors.ids import content_id
from actors.vlm.rubric import Rubric, identity
from jobs import asking, cli, exclusions, running
from jobs.asking import AskingConfig
from jobs.config import plain
from jobs.errors import InputError
from jobs.items import Sources, reading, sources_of
from jobs.store.run import Plan


@dataclass
class ThinkConfig(AskingConfig):
    """Keys of `think`."""

    rubric: dict[str, Any] = field(default_factory=dict)  # the questions and their closed answers
    layout: str | None = None  # of the rubric; null: its default
    samples: int = 1  # thoughts an item and question
    temperature: float = 1.0  # 0: the likeliest token each time
    top_p: float = 1.0  # share of the likeliest tokens that is drawn from
    max_tokens: int = 1024  # of a thought
    seed: int = 0  # every sample's own seed is derived from it
    cache_gb: float | None = None  # memory for caches; null: half of what is free
    group_rows: int | None = None  # most prompts x samples at a time; null: what the memory allows


SAMPLING = ("samples", "temperature", "top_p", "max_tokens", "seed")
LIMITS = ("max_context_tokens", "cache_gb", "group_rows")


def execute(cfg: ThinkConfig) -> dict[str, Any] | None:
    """Run the job; see the module's docstring. Returns the manifest, None with plan=true."""
    from actors.thinking_judge import ThinkingJudge

    rubric = _checked(cfg)
    sources = sources_of(cfg, fields=rubric.context_fields, pictures=True)
    excluded = exclusions.read_exclusions(cfg.exclusions)
    rows_out = len(rubric.questions) * len(rubric.targets or ("",)) * cfg.samples
    note = f"thinks {sources.items.rows * rows_out:,} times ({sources.items.rows:,} items x {rows_out})"
    run = running.begin("think", cfg, _plan(cfg, rubric, sources, excluded), pools=["judge"], note=note)
    if run is None:
        return None
    from jobs import flow

    kwargs = {
        **cfg.judge.weights,
        **{key: getattr(cfg, key) for key in ("rubric", "layout", *SAMPLING, *LIMITS)},
        "threads": cfg.resources.judge.threads,
    }
    read = reading(run, sources, fields=rubric.context_fields, pictures=True, held=excluded)
    flow.stream(
        run,
        name="think",
        read=flow.Read(read, item="item_id", output_item="item_id", excluded=read.excluded),
        stages=[flow.Stage("judge", ThinkingJudge, kwargs, rows_out=rows_out)],
        resources=cfg.resources,
    )
    return running.end("think", run)


def _plan(cfg: ThinkConfig, rubric: Rubric, sources: Sources, excluded: frozenset[str]) -> Plan:
    from actors.thinking_judge import THINK

    layout = rubric.resolve_layout(cfg.layout)
    return Plan(
        out=cfg.out,
        table="ratings",
        identity={
            "judge": cfg.judge.identity,
            "rubric": {"name": rubric.name, "hash": identity(rubric, layout=layout), "layout": layout},
            "think": content_id(THINK),
            **{name: getattr(cfg, name) for name in (*SAMPLING, "max_context_tokens")},
            **sources.identity,
            **exclusions.identity(excluded),
        },
        units=sources.units(),
        config=plain(cfg),
        metadata={"rubric": rubric.name, "rater": cfg.judge.rater},
        derived=True,
        models={cfg.judge.name: cfg.judge.rater},
    )


def _checked(cfg: ThinkConfig) -> Rubric:
    from actors.judge import Judge
    from actors.vlm.generation import Sampling

    try:
        rubric = Rubric.from_dict(cfg.rubric)
        Judge.rows_per_item(cfg.rubric)
        rubric.resolve_layout(cfg.layout)
        Sampling(cfg.temperature, cfg.top_p, cfg.max_tokens)
        asking.check_positive(cfg, ["samples", "group_rows", "cache_gb"])
        asking.check(cfg)
    except ValueError as error:
        raise InputError(f"think: {error}") from error
    return rubric


JOB = cli.Job("think", ThinkConfig, execute)

if __name__ == "__main__":
    sys.exit(cli.main("think"))
