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
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from actors.generator import Generator, GeneratorSettings
from actors.ids import content_id
from actors.prompt_preparer import PromptPreparer
from actors.vlm.instructions import QUESTIONS_WORD, Instruction, QuestionWords, asked_questions
from actors.vlm.instructions import identity as instruction_identity
from actors.vlm.rubric import Rubric
from actors.vlm.settings import ContextSettings, ModelSettings
from actors.vlm.templates import TARGET_WORD
from jobs.analysis.responses import refusal_rates
from jobs.errors import InputError
from jobs.judging import engine_choice, prompt_trial, vllm_engine
from jobs.judging.condition import with_condition
from jobs.judging.drawn_items import item_units
from jobs.judging.items import ItemTables, reading, sources_of
from jobs.judging.judging_summary import show_prompts
from jobs.judging.model_run import stream_items
from jobs.judging.settings import check_model
from jobs.judging.several_models import ModelsConfig, run_each
from jobs.metrics import refusals
from jobs.models import picture_tokens
from jobs.models.plan import plan_lines
from jobs.runtime import cli, exclusions, lifecycle
from jobs.runtime.console import say
from jobs.runtime.draws import CompleteDrawConfig
from jobs.runtime.exclusions import Exclusions
from jobs.runtime.stage_contract import Stage
from jobs.store.pieces import cut_of
from jobs.store.reading import open_table
from jobs.store.run import TablePlan, TableRun
from jobs.store.units import Unit


@dataclass
class GenerateConfig(GeneratorSettings, ModelsConfig):
    """Keys of `generate`."""

    prompt: dict[str, Any] = field(default_factory=dict)  # the instruction to the model
    rubric: dict[str, Any] = field(default_factory=dict)  # for prompts that ask a rubric's questions
    draw: CompleteDrawConfig = field(default_factory=CompleteDrawConfig)  # which of the items to ask about


def execute(cfg: GenerateConfig) -> dict[str, Any] | None:
    """Run the job; see the module's docstring. Returns the last model's manifest, None with plan=true.

    Raises:
        InputError: the value of a key is not allowed; nothing was written.
        RunError: the run failed. With several models it is raised after all have run, and names those that failed.
    """
    return run_each("generate", cfg, _generate, check=_checked)


def _generate(cfg: GenerateConfig) -> dict[str, Any] | None:
    instruction, questions = _checked(cfg)
    fields, pictures = instruction.context_fields, instruction.shows_picture
    sources = sources_of(cfg, fields=fields, pictures=pictures)
    cfg = with_condition(cfg, sources.items)
    excluded = exclusions.read_exclusions(cfg.exclusions)
    cut = cut_of(cfg.out, actors=cfg.resources.judge.most_actors, overwrite=cfg.overwrite)
    drawn = item_units(sources, cfg.draw, excluded.marks, cut)
    rows = drawn.rows
    texts = f"{rows * cfg.samples:,} texts ({rows:,} items x {cfg.samples})"
    note = f"writes {texts} of at most {cfg.max_tokens:,} tokens"
    if cfg.plan and pictures:
        note += picture_tokens.expected(cfg.model, sources.pictures)
    reader = reading(sources, fields=fields, pictures=pictures)
    engine = engine_choice.choose(
        cfg,
        _prepare(cfg, questions),
        texts=min(rows, cfg.limit or rows) * cfg.samples,
        units=drawn.units,
        reader=reader,
        excluded=excluded,
    )
    cfg = replace(cfg, engine=engine.name)
    dependencies = _dependencies(cfg, instruction, questions)
    plan = _plan(cfg, instruction, dependencies, sources, excluded, units=drawn.units, files=engine.files)
    pools, lines = ["decode", "judge"], [*plan_lines(cfg, cfg.model), *drawn.lines]
    run = lifecycle.begin("generate", cfg, plan, pools=pools, note=note, lines=lines)
    stages = _stages(cfg, instruction, questions, dependencies)
    if run is None:
        prompt_trial.show(cfg, plan.units, reader, stages)
        return None
    for line in drawn.lines:
        say(f"  {line}")
    manifest = stream_items(run, cfg, job="generate", reader=reader, stages=stages, excluded=excluded)
    show_prompts(manifest["counts"]["tallies"])
    show_refusals(run)
    return manifest


def _dependencies(cfg: GenerateConfig, instruction: Instruction, questions: list[QuestionWords]) -> dict[str, Any]:
    """Return the settings on which a text depends, besides model, item and sample number."""
    return {
        "prompt": {"name": instruction.name, "hash": instruction_identity(instruction)},
        "questions": content_id(json.dumps(questions, sort_keys=True)) if questions else None,
        "max_context_tokens": cfg.max_context_tokens,
        "empty_context": cfg.empty_context,
        **cfg.drawing,
        **vllm_engine.identity(cfg.engine),
    }


def _plan(
    cfg: GenerateConfig,
    instruction: Instruction,
    dependencies: dict[str, Any],
    sources: ItemTables,
    excluded: Exclusions,
    *,
    units: Sequence[Unit],
    files: Mapping[str, bytes],
) -> TablePlan:
    return TablePlan(
        out=cfg.out,
        table="responses",
        identity={
            "model": cfg.model.identity,
            **dependencies,
            "samples": cfg.samples,
            "condition": cfg.condition,
            "refusals": content_id(json.dumps(cfg.refusals, sort_keys=True)),
            **sources.identity,
            **cfg.draw.identity,
            **exclusions.identity(excluded),
        },
        units=units,
        config=asdict(cfg),
        metadata={"model": cfg.model.rater, "prompt": instruction.name},
        derived=True,
        models={cfg.model.name: cfg.model.rater},
        files=files,
    )


def _prepare(cfg: GenerateConfig, questions: list[QuestionWords]) -> dict[str, Any]:
    """Return the arguments of the stage that prepares prompts."""
    return {
        "settings": ContextSettings.part_of(cfg),
        "model": ModelSettings.part_of(cfg.model),
        "instruction": cfg.prompt,
        "questions": questions,
        "answer_tokens": cfg.max_tokens,
        "keeps_pictures": cfg.engine == vllm_engine.NAME,
    }


def _stages(
    cfg: GenerateConfig, instruction: Instruction, questions: list[QuestionWords], dependencies: dict[str, Any]
) -> list[Stage]:
    write = {
        "settings": GeneratorSettings.part_of(cfg),
        "model": ModelSettings.part_of(cfg.model),
        "prompt": instruction.name,
        "prompt_hash": content_id(json.dumps(dependencies | cfg.model.pixels, sort_keys=True)),
        "threads": cfg.resources.judge.threads,
    }
    return [
        Stage("decode", PromptPreparer, _prepare(cfg, questions)),
        Stage("judge", Generator, write, rows_out=cfg.samples, batches=vllm_engine.batches(cfg.engine)),
    ]


def show_refusals(run: TableRun) -> None:
    """Print the refusal rates of a finished run, and store rates and items in `_run/refusals.json`."""
    rates = refusal_rates([open_table(run.target.out, "responses")])
    run.keep("refusals.json", json.dumps([asdict(rate) for rate in rates], ensure_ascii=False, indent=1).encode())
    if texts := max((rate.n for rate in rates), default=0):
        for line in refusals.lines(rates) or [f"none in {texts:,} texts"]:
            say(f"  refusals  {line}")


def _checked(cfg: GenerateConfig) -> tuple[Instruction, list[QuestionWords]]:
    """Return the instruction and the rubric's questions that it asks, after validating all other keys.

    Raises:
        InputError: the value of a key is not allowed.
    """
    try:
        instruction = Instruction.from_dict(cfg.prompt)
        if TARGET_WORD in instruction.words:
            raise ValueError(f"prompt={instruction.name}: uses a label; use it with remine loglik")
        if QUESTIONS_WORD in instruction.words and not cfg.rubric:
            raise ValueError(f"prompt={instruction.name}: asks a rubric's questions; set rubric=")
        questions: list[QuestionWords] = []
        if QUESTIONS_WORD in instruction.words:
            rubric = Rubric.from_dict(cfg.rubric)
            if rubric.asks_targets:
                raise ValueError(
                    f"rubric={rubric.name}: asks about targets, and a JSON answer has no targets; use another rubric"
                )
            questions = asked_questions(rubric)
        cfg.draw.check()
        prompt_trial.check(cfg)
        vllm_engine.check(cfg)
        check_model(cfg, shown_by=f"prompt {instruction.name!r}" if instruction.shows_picture else "")
    except ValueError as error:
        raise InputError(f"generate: {error}") from error
    return instruction, questions


JOB = cli.Job("generate", GenerateConfig, execute, pools=("decode", "judge"))

if __name__ == "__main__":
    sys.exit(cli.main("generate"))
