"""Generate n samples of text about each picture or item with a model -> table `responses`.

    remine generate input=R/images model=qwen2.5-vl-7b prompt=explicit samples=3 out=R/responses/qwen
    remine generate input=R/images 'models=[qwen2.5-vl-7b,pangea-7b]' prompt=explicit out=R/responses

`input` is a table of images, or of items with their pictures in `images=` and their texts in `texts=`; context about a
picture comes from `records=`. Each prompt is encoded once for all its samples. Each sample has its own seed, derived
from the item and the sample's number. `draw.n=500` asks about 500 of the pictures. Refusals are recognised by the
rules of `conf/refusals` and counted.
"""

import json
import sys
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from actors.generator import Generator, GeneratorSettings
from actors.ids import content_id
from actors.quantities import quantity
from actors.vlm.settings import ModelSettings
from jobs.analysis.responses import keep_refusals
from jobs.checkpoints.placement import plan_lines
from jobs.errors import as_input_error
from jobs.judging import engine_choice, prompt_trial, vllm_engine
from jobs.judging.asked_prompt import AskedPrompt, prompt_for_texts
from jobs.judging.items import item_units
from jobs.judging.model_config import EngineConfig, ModelsConfig, check_early, run_each, with_condition
from jobs.judging.model_run import engine_lines, expected_passes, model_plan, prompt_lines, stream_items
from jobs.runtime import lifecycle
from jobs.runtime.command_line import cli
from jobs.runtime.configuration.key_types import conf_group
from jobs.runtime.outcomes import Manifest, Plan
from jobs.runtime.planning.expected_pace import cut_for
from jobs.runtime.process.console import say
from jobs.runtime.selection import exclusions
from jobs.runtime.selection.draws import CompleteDrawConfig
from jobs.runtime.stage_contract import Stage


@dataclass
class GenerateConfig(GeneratorSettings, EngineConfig, ModelsConfig):
    """Keys of `generate`."""

    prompt: dict[str, Any] = conf_group("explicit")  # the instruction to the model
    refusals: dict[str, Any] = conf_group("all")
    samples: int = 3
    rubric: dict[str, Any] = conf_group(None)  # for prompts that ask a rubric's questions
    draw: CompleteDrawConfig = field(default_factory=CompleteDrawConfig)  # which of the items to ask about


def execute(cfg: GenerateConfig) -> Plan | Manifest:
    """Run the job and return the last model's manifest, or the plan with plan=true; see the module's docstring.

    Raises:
        InputError: the value of a key is not allowed; nothing was written.
        RunError: the run failed. With several models it is raised after all have run, and names those that failed.
    """
    return run_each("generate", cfg, _checked, _generate)


def _generate(cfg: GenerateConfig, prompt: AskedPrompt) -> Plan | Manifest:
    sources = prompt.open_sources(cfg)
    cfg = with_condition(cfg, sources.items)
    excluded = exclusions.read_exclusions(cfg.exclusions)
    cut = cut_for("generate", cfg, ("decode", "judge"))
    drawn = item_units(sources, cfg.draw, excluded.marks, cut)
    rows = min(drawn.rows, cfg.limit or drawn.rows)
    texts = rows * cfg.samples
    amount = f"{texts:,} texts ({quantity(rows, 'item')} x {cfg.samples})"
    note = f"writes {amount} of at most {cfg.max_tokens:,} tokens{prompt.expected_tokens(cfg, sources)}"
    reader = prompt.reader(sources)
    engine = engine_choice.choose(
        cfg,
        lambda engine: engine_choice.of_texts(cfg, _prepare(cfg, prompt), engine),
        fallback="transformers",
        answers=texts,
        units=drawn.units,
        reader=reader,
        excluded=excluded,
    )
    cfg = replace(cfg, engine=engine.name)
    dependencies = _dependencies(cfg, prompt)
    entries = {
        **dependencies,
        "refusals": content_id(json.dumps(cfg.refusals, sort_keys=True)),
        **sources.identity,
        **cfg.draw.identity,
    }
    metadata = {"model": cfg.model.rater, "prompt": prompt.instruction.name}
    plan = model_plan(
        cfg,
        "responses",
        entries,
        instead_of=["rubric", "engine", "draw"],
        excluded=excluded,
        units=drawn.units,
        metadata=metadata,
        files=engine.files,
    )
    lines = [*plan_lines(cfg, cfg.model, fields=prompt.instruction.context_fields), *drawn.lines]
    stages = [_prepare(cfg, prompt), _write(cfg, prompt, dependencies)]
    counted = prompt_trial.prompt_counts(drawn.units, reader, stages[0])
    lines += engine_lines(cfg, counted, job="generate", times=cfg.samples, written=cfg.max_tokens)
    passes = partial(expected_passes, cfg, counted, times=cfg.samples, written=cfg.max_tokens)
    pools = ["decode", "judge"]
    run = lifecycle.begin("generate", cfg, plan, excluded, pools=pools, note=note, lines=lines, passes=passes)
    if isinstance(run, Plan):
        return run + Plan(list(prompt_trial.lines(cfg, plan.units, reader, stages)))
    for line in drawn.lines:
        say(f"  {line}")
    manifest = stream_items(run, cfg, reader=reader, stages=stages)
    manifest.lines += [*prompt_lines(manifest["counts"]["tallies"]), *keep_refusals(run.table)]
    return manifest


def _dependencies(cfg: GenerateConfig, prompt: AskedPrompt) -> dict[str, Any]:
    """Return the settings on which a text depends, besides model, item and sample number."""
    return {
        "prompt": prompt.identity,
        "questions": content_id(json.dumps(prompt.questions, sort_keys=True)) if prompt.questions else None,
        "max_context_tokens": cfg.max_context_tokens,
        "empty_context": cfg.empty_context,
        **cfg.drawing,
        **vllm_engine.identity(cfg.engine),
    }


def _prepare(cfg: GenerateConfig, prompt: AskedPrompt) -> Stage:
    return prompt.stage(cfg, answer_tokens=cfg.max_tokens, keeps_pictures=cfg.engine == vllm_engine.NAME)


def _write(cfg: GenerateConfig, prompt: AskedPrompt, dependencies: dict[str, Any]) -> Stage:
    arguments = {
        "settings": GeneratorSettings.part_of(cfg),
        "model": ModelSettings.part_of(cfg.model),
        "prompt": prompt.instruction.name,
        "start": prompt.start,
        "prompt_hash": content_id(json.dumps(dependencies | cfg.model.pixels, sort_keys=True)),
        "threads": cfg.resources.judge.threads,
    }
    return Stage("judge", Generator, arguments, rows_out=cfg.samples, batches=vllm_engine.batches(cfg.engine))


def _checked(cfg: GenerateConfig) -> AskedPrompt:
    """Return the prompt, after validating all other keys.

    Raises:
        InputError: the value of a key is not allowed.
    """
    try:
        prompt = prompt_for_texts(cfg.prompt, cfg.rubric)
        cfg.draw.check()
        prompt_trial.check(cfg)
        vllm_engine.check(cfg)
        prompt.check_model(cfg)
    except ValueError as error:
        raise as_input_error(error) from error
    return prompt


JOB = cli.Job("generate", GenerateConfig, execute, check=check_early(_checked), pools=("decode", "judge"))

if __name__ == "__main__":
    sys.exit(cli.main("generate"))
