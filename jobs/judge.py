"""Have a vision-language model answer a rubric's closed questions about pictures or items -> table `ratings`.

    remine judge input=R/images records=R/records rubric=century_labels model=qwen2.5-vl-7b out=R/ratings/qwen
    remine judge input=R/images rubric=cultural_relevance targets=cultures.txt \\
        'models=[qwen2.5-vl-7b,pangea-7b]' out=R/ratings
    remine judge input=R/images method=reasoned samples=3 model=qwen2.5-vl-7b out=R/ratings/reasoned

method=closed scores the likelihood of each allowed answer and generates no text. method=reasoned first lets the model
write its reasoning, which takes much longer, and then scores the answers. Each rating has the whole distribution over
the answers and the probability of everything else. There is one row per item, target, question and sample.
"""

import sys
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from jobs.judging.model_config import MethodConfig, ModelsConfig, check_early, run_each
from jobs.runtime.command_line import cli
from jobs.runtime.configuration.key_types import conf_group
from jobs.runtime.outcomes import Manifest, Plan

if TYPE_CHECKING:
    from jobs.judging.rubric_job import CheckedKeys


@dataclass
class JudgeConfig(MethodConfig, ModelsConfig):
    """Keys of `judge`."""

    rubric: dict[str, Any] = conf_group("century_labels")


def execute(cfg: JudgeConfig) -> Plan | Manifest:
    """Run the job and return the last model's manifest, or the plan with plan=true; see the module's docstring.

    Raises:
        InputError: the value of a key is not allowed; nothing was written.
        RunError: the run failed. With several models it is raised after all have run, and names those that failed.
    """
    return run_each("judge", cfg, _check, _judge)


def _check(cfg: JudgeConfig) -> "CheckedKeys":
    from jobs.judging import rubric_job

    return rubric_job.check(cfg)


def _judge(cfg: JudgeConfig, checked: "CheckedKeys") -> Plan | Manifest:
    from jobs.checkpoints.placement import plan_lines
    from jobs.judging import model_run, prompt_trial, rubric_job
    from jobs.judging.model_config import with_condition
    from jobs.judging.model_run import stream_items, tally_lines
    from jobs.runtime import lifecycle
    from jobs.runtime.selection import exclusions

    job = rubric_job.open_job(cfg, checked)
    cfg = with_condition(cfg, job.sources.items)
    items = job.sources.items
    excluded = exclusions.read_exclusions(cfg.exclusions)
    answers = f"{cfg.method} answers" if job.ratings.total is None else f"{job.ratings.total:,} {cfg.method} answers"
    note = f"asks {cfg.model.name} for {answers} about {items.rows:,} {items.name}"
    counted = items.counts().status if items.name == "images" else {}
    if counted and (missing := items.rows - counted.get("ok", 0)):
        note += f", of which {missing:,} are missing and are not asked about"
    if cfg.limit:
        note = f"asks {cfg.model.name} for {cfg.method} answers about the first {cfg.limit:,} {items.name}"
    if cfg.plan:
        note += model_run.expected_tokens(cfg.model, job.sources.pictures)
    engine = rubric_job.choose_engine(cfg, job, excluded)
    cfg = replace(cfg, engine=engine.name)
    plan = rubric_job.plan(cfg, job, excluded, files=engine.files)
    pools, lines = ["decode", "judge"], plan_lines(cfg, cfg.model, fields=job.rubric.context_fields)
    stages = rubric_job.judge_stages(cfg, job.targets, job.ratings)
    prompts = prompt_trial.prompt_counts(plan.units, job.reader, stages[0])
    is_reasoned = cfg.method == "reasoned"
    texts = {"times": cfg.samples, "written": cfg.max_tokens} if is_reasoned else {}
    lines += model_run.engine_lines(cfg, prompts, job="generate" if is_reasoned else "judge", **texts)
    passes = partial(model_run.expected_passes, cfg, prompts, **texts)
    run = lifecycle.begin("judge", cfg, plan, excluded, pools=pools, note=note, lines=lines, passes=passes)
    if isinstance(run, Plan):
        return run + Plan(list(prompt_trial.lines(cfg, plan.units, job.reader, stages)))
    manifest = stream_items(run, cfg, reader=job.reader, stages=stages)
    manifest.lines += tally_lines(manifest["counts"]["tallies"])
    return manifest


JOB = cli.Job("judge", JudgeConfig, execute, check=check_early(_check), pools=("decode", "judge"))

if __name__ == "__main__":
    sys.exit(cli.main("judge"))
