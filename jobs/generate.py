"""Let a model write about pictures or texts, n samples each -> table `responses`.

    python -m jobs.generate input=R/images model=qwen2.5-vl-7b prompt=explicit samples=3 out=R/responses

`input` is a table of images, or of items with their pictures in `images=` and their texts in `texts=`; what the prompt
says about a picture comes from `records=`. A prompt is encoded once for its samples. Each sample has a seed of its
own, derived from the item and its number. Refusals are told apart by the rules of `conf/refusals` and counted.
"""

import json
import sys
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from actors.ids import content_id
from actors.vlm.instructions import QUESTIONS_WORD, Instruction, QuestionWords, asked_questions
from actors.vlm.instructions import identity as instruction_identity
from actors.vlm.refusals import RefusalRules
from actors.vlm.rubric import Rubric
from actors.vlm.templates import TARGET_WORD
from jobs.analysis.responses import refusal_rates
from jobs.errors import InputError
from jobs.judging import kept_raters, settings
from jobs.judging.items import ItemTables, reading, sources_of
from jobs.judging.settings import AskingConfig
from jobs.metrics import refusals
from jobs.models import picture_tokens
from jobs.models.plan import plan_lines
from jobs.runtime import cli, exclusions, lifecycle
from jobs.runtime.config import plain
from jobs.runtime.console import say
from jobs.runtime.exclusions import Exclusions
from jobs.store.reading import open_table
from jobs.store.run import TablePlan, TableRun

if TYPE_CHECKING:
    from jobs.runtime.stages import Stage


@dataclass
class GenerateConfig(AskingConfig):
    """Keys of `generate`."""

    prompt: dict[str, Any] = field(default_factory=dict)  # what the model is asked
    rubric: dict[str, Any] = field(default_factory=dict)  # for prompts that ask a rubric's questions
    refusals: dict[str, Any] = field(default_factory=dict)  # the rules that tell refusals apart, by language
    samples: int = 3  # texts an item
    temperature: float = 1.0  # 0: the likeliest token each time
    top_p: float = 1.0  # share of the likeliest tokens that is drawn from
    max_tokens: int = 1024  # of an answer; a longer one is truncated
    seed: int = 0  # every sample's own seed is derived from it
    empty_context: str = "answer"  # or skip: rows about which nothing is said become skipped
    memory_budget_gb: float | None = None  # memory for caches; null: half of what is free
    group_rows: int | None = None  # most prompts x samples at a time; null: what the memory allows


SAMPLING = ("temperature", "top_p", "max_tokens", "seed")


def execute(cfg: GenerateConfig) -> dict[str, Any] | None:
    """Run the job; see the module's docstring. Returns the manifest, None with plan=true."""
    instruction, questions = _checked(cfg)
    sources = sources_of(cfg, fields=instruction.context_fields, pictures=instruction.shows_picture)
    excluded = exclusions.read_exclusions(cfg.exclusions)
    asked = _asked(cfg, instruction, questions)
    rows = sources.items.rows
    texts = f"{rows * cfg.samples:,} texts ({rows:,} items x {cfg.samples})"
    note = f"writes {texts} of at most {cfg.max_tokens:,} tokens"
    if cfg.plan and instruction.shows_picture:
        note += picture_tokens.expected(cfg.model, sources.pictures)
    plan = _plan(cfg, instruction, asked, sources, excluded)
    run = lifecycle.begin("generate", cfg, plan, pools=["decode", "judge"], note=note, lines=plan_lines(cfg, cfg.model))
    if run is None:
        return None
    from jobs.runtime import stages

    read = reading(sources, fields=instruction.context_fields, pictures=instruction.shows_picture)
    stages.stream(
        run,
        name="generate",
        read=stages.Read(read, item="item_id", output_item="item_id", excluded=exclusions.keep(run, excluded)),
        stages=_stages(cfg, instruction, questions, asked),
        resources=cfg.resources,
    )
    manifest = lifecycle.end("generate", run, excluded)
    picture_tokens.show_counted(cfg.model, manifest["counts"]["tallies"])
    kept_raters.keep(run, kept_raters.of_model(cfg.model, manifest["counts"]["tallies"]))
    show_refusals(run)
    return manifest


def _asked(cfg: GenerateConfig, instruction: Instruction, questions: list[QuestionWords]) -> dict[str, Any]:
    """What a text depends on beside the model, the item and the sample's number."""
    return {
        "prompt": {"name": instruction.name, "hash": instruction_identity(instruction)},
        "questions": content_id(json.dumps(questions, sort_keys=True)) if questions else None,
        "max_context_tokens": cfg.max_context_tokens,
        "empty_context": cfg.empty_context,
        **{name: getattr(cfg, name) for name in SAMPLING},
    }


def _plan(
    cfg: GenerateConfig, instruction: Instruction, asked: dict[str, Any], sources: ItemTables, excluded: Exclusions
) -> TablePlan:
    return TablePlan(
        out=cfg.out,
        table="responses",
        identity={
            "model": cfg.model.identity,
            **asked,
            "samples": cfg.samples,
            "refusals": content_id(json.dumps(cfg.refusals, sort_keys=True)),
            **sources.identity,
            **exclusions.identity(excluded),
        },
        units=sources.units(),
        config=plain(cfg),
        metadata={"model": cfg.model.rater, "prompt": instruction.name},
        derived=True,
        models={cfg.model.name: cfg.model.rater},
    )


def _stages(
    cfg: GenerateConfig, instruction: Instruction, questions: list[QuestionWords], asked: dict[str, Any]
) -> list["Stage"]:
    from actors.generator import Generator, PromptPreparer
    from jobs.runtime.stages import Stage

    prepare = {
        **cfg.model.processor,
        **cfg.model.pixels,
        "instruction": cfg.prompt,
        "questions": questions,
        "max_context_tokens": cfg.max_context_tokens,
        "empty_context": cfg.empty_context,
        "answer_tokens": cfg.max_tokens,
    }
    write = {
        **cfg.model.weights,
        "prompt": instruction.name,
        "asked": content_id(json.dumps(asked | cfg.model.pixels, sort_keys=True)),
        **{name: getattr(cfg, name) for name in ("refusals", "samples", *SAMPLING, "memory_budget_gb", "group_rows")},
        "threads": cfg.resources.judge.threads,
    }
    return [Stage("decode", PromptPreparer, prepare), Stage("judge", Generator, write, rows_out=cfg.samples)]


def show_refusals(run: TableRun) -> None:
    """Count the refusals of a finished run: lines at the terminal, figures and items in `_run/refusals.json`."""
    rates = refusal_rates(open_table(run.target.out, "responses"))
    run.keep("refusals.json", json.dumps([asdict(rate) for rate in rates], ensure_ascii=False, indent=1).encode())
    if texts := max((rate.n for rate in rates), default=0):
        for line in refusals.lines(rates) or [f"none in {texts:,} texts"]:
            say(f"  refusals  {line}")


def _checked(cfg: GenerateConfig) -> tuple[Instruction, list[QuestionWords]]:
    """The instruction and the questions it asks, everything else in the configuration checked as well."""
    from actors.vlm.sampling import Sampling

    try:
        instruction = Instruction.from_dict(cfg.prompt)
        Sampling(cfg.temperature, cfg.top_p, cfg.max_tokens)
        RefusalRules(cfg.refusals)
        settings.check_positive(cfg, ["samples", "group_rows", "memory_budget_gb"])
        if TARGET_WORD in instruction.words:
            raise ValueError(f"prompt {instruction.name!r} speaks of a label; it is for python -m jobs.loglik")
        if QUESTIONS_WORD in instruction.words and not cfg.rubric:
            raise ValueError(f"prompt {instruction.name!r} asks a rubric's questions; say which with rubric=")
        questions: list[QuestionWords] = []
        if QUESTIONS_WORD in instruction.words:
            rubric = Rubric.from_dict(cfg.rubric)
            if rubric.asks_targets:
                raise ValueError(f"rubric {rubric.name!r} asks about targets, which one JSON answer cannot hold")
            questions = asked_questions(rubric)
        shows = f"prompt {instruction.name!r}" if instruction.shows_picture else ""
        settings.check(cfg, empty_context=cfg.empty_context, shows=shows)
    except ValueError as error:
        raise InputError(f"generate: {error}") from error
    return instruction, questions


JOB = cli.Job("generate", GenerateConfig, execute)

if __name__ == "__main__":
    sys.exit(cli.main("generate"))
