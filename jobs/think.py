"""Let a model think in writing before each of a rubric's answers is scored -> table `ratings`.

    python -m jobs.think input=R/images records=R/records rubric=century_labels judge=qwen2.5-vl-7b out=R/ratings/think

Method generate_then_score: the thought becomes the start of the model's turn, and the allowed answers are scored
behind it, as `python -m jobs.judge` scores them without. Slower by far; the thought is kept in `comment`.
"""

import sys
from dataclasses import dataclass, field
from typing import Any

from omegaconf import MISSING

from actors.ids import content_id
from actors.vlm.rubric import Rubric, identity
from jobs import cli, exclusions, screen
from jobs.config import Common, plain
from jobs.errors import InputError
from jobs.generate import reading
from jobs.items import open_sources
from jobs.judge import JudgeModelConfig
from jobs.store.run import Plan, open_run


@dataclass
class ThinkConfig(Common):
    """Keys of `think`."""

    input: str = MISSING  # a table of images, or of items
    images: str | None = None  # beside a table of items: their pictures
    texts: str | None = None  # beside a table of items: their texts
    records: str | None = None  # what is known about pictures, for the prompt's context
    rubric: dict[str, Any] = field(default_factory=dict)  # the questions and their closed answers
    judge: JudgeModelConfig = field(default_factory=JudgeModelConfig)
    layout: str | None = None  # of the rubric; null: its default
    samples: int = 1  # thoughts an item and question
    temperature: float = 1.0  # 0: the likeliest token each time
    top_p: float = 1.0  # share of the likeliest tokens that is drawn from
    max_tokens: int = 1024  # of a thought
    seed: int = 0  # every sample's own seed is derived from it
    max_context_tokens: int = 8192  # a longer context is cut and its rows are truncated
    cache_gb: float | None = None  # memory for caches; null: half of what is free
    group_rows: int | None = None  # most prompts x samples at a time; null: what the memory allows


SAMPLING = ("samples", "temperature", "top_p", "max_tokens", "seed")


def execute(cfg: ThinkConfig) -> dict[str, Any] | None:
    """Run the job; see the module's docstring. Returns the manifest, None with plan=true."""
    from actors.thinking_judge import THINK, ThinkingJudge
    from actors.vlm.loading import rater_name

    rubric = _checked(cfg)
    layout = rubric.resolve_layout(cfg.layout)
    sources = open_sources(
        cfg.input,
        images=cfg.images,
        texts=cfg.texts,
        records=cfg.records,
        fields=rubric.context_fields,
        pictures=True,
    )
    excluded = exclusions.read_exclusions(cfg.exclusions)
    rater = rater_name(cfg.judge.model, revision=cfg.judge.revision)
    plan = Plan(
        out=cfg.out,
        table="ratings",
        identity={
            "judge": {"model": cfg.judge.model, "revision": cfg.judge.revision, "dtype": cfg.judge.dtype},
            "rubric": {"name": rubric.name, "hash": identity(rubric, layout=layout), "layout": layout},
            "think": content_id(THINK),
            **{name: getattr(cfg, name) for name in (*SAMPLING, "max_context_tokens")},
            **sources.identity,
            **exclusions.identity(excluded),
        },
        units=sources.units(),
        config=plain(cfg),
        metadata={"rubric": rubric.name, "rater": rater},
        derived=True,
        models={cfg.judge.name: rater},
    )
    rows_out = len(rubric.questions) * len(rubric.targets or ("",)) * cfg.samples
    if cfg.plan:
        note = f"thinks {sources.items.rows * rows_out:,} times ({sources.items.rows:,} items x {rows_out})"
        screen.show_plan("think", plan, cfg.resources, ["judge"], note=note)
        return None
    from jobs import flow, session

    session.start(cfg.ray, cfg.resources)
    flow.check(cfg.resources, ["judge"])
    run = open_run(plan, resume=cfg.resume, overwrite=cfg.overwrite, retry=cfg.retry)
    kwargs = {
        "model": cfg.judge.model,
        "revision": cfg.judge.revision,
        "dtype": cfg.judge.dtype,
        "device_map": cfg.judge.device_map,
        "rubric": cfg.rubric,
        "layout": cfg.layout,
        **{name: getattr(cfg, name) for name in (*SAMPLING, "max_context_tokens", "cache_gb", "group_rows")},
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
    manifest = run.finish()
    screen.show_result("think", manifest, run)
    return manifest


def _checked(cfg: ThinkConfig) -> Rubric:
    from actors.generator import check_context_options
    from actors.judge import Judge
    from actors.vlm.generation import Sampling
    from actors.vlm.loading import check_vlm

    try:
        rubric = Rubric.from_dict(cfg.rubric)
        Judge.rows_per_item(cfg.rubric)
        rubric.resolve_layout(cfg.layout)
        Sampling(cfg.temperature, cfg.top_p, cfg.max_tokens)
        check_context_options(cfg.max_context_tokens, "answer")
        for name in ("samples", "group_rows", "cache_gb"):
            if (value := getattr(cfg, name)) is not None and not value > 0:
                raise ValueError(f"{name} is {value}; it must be more than 0")
        if not cfg.plan:
            check_vlm(cfg.judge.model, revision=cfg.judge.revision)
    except ValueError as error:
        raise InputError(f"think: {error}") from error
    return rubric


JOB = cli.Job("think", ThinkConfig, execute)

if __name__ == "__main__":
    sys.exit(cli.main("think"))
