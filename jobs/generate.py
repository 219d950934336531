"""Let a model write about pictures or texts, n samples each -> table `responses`.

    python -m jobs.generate input=R/images judge=qwen2.5-vl-7b prompt=explicit samples=3 out=R/responses

`input` is a table of images, or of items with their pictures in `images=` and their texts in `texts=`; what the prompt
says about a picture comes from `records=`. A prompt is encoded once for its samples. Each sample has a seed of its
own, derived from the item and its number. Refusals are told apart by the rules of `conf/refusals` and counted.
"""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from omegaconf import MISSING

from actors.ids import content_id
from actors.vlm.instructions import QUESTIONS_WORD, Instruction, asked_questions
from actors.vlm.instructions import identity as instruction_identity
from actors.vlm.refusals import RefusalRules
from actors.vlm.rubric import TARGET_WORD, Rubric
from jobs import cli, exclusions, screen
from jobs.config import Common, plain
from jobs.errors import InputError
from jobs.items import Reader, Sources, open_sources
from jobs.judge import JudgeModelConfig
from jobs.metrics import refusals
from jobs.store.reading import open_table, read_unit
from jobs.store.run import Plan, TableRun, open_run


@dataclass
class GenerateConfig(Common):
    """Keys of `generate`."""

    input: str = MISSING  # a table of images, or of items
    images: str | None = None  # beside a table of items: their pictures
    texts: str | None = None  # beside a table of items: their texts
    records: str | None = None  # what is known about pictures, for the prompt's context
    judge: JudgeModelConfig = field(default_factory=JudgeModelConfig)
    prompt: dict[str, Any] = field(default_factory=dict)  # what the model is asked
    rubric: dict[str, Any] = field(default_factory=dict)  # for prompts that ask a rubric's questions
    refusals: dict[str, Any] = field(default_factory=dict)  # the rules that tell refusals apart, by language
    samples: int = 3  # texts an item
    temperature: float = 1.0  # 0: the likeliest token each time
    top_p: float = 1.0  # share of the likeliest tokens that is drawn from
    max_tokens: int = 1024  # of an answer; a longer one is truncated
    seed: int = 0  # every sample's own seed is derived from it
    max_context_tokens: int = 8192  # a longer context is cut and its rows are truncated
    empty_context: str = "answer"  # or skip: rows about which nothing is said become skipped
    cache_gb: float | None = None  # memory for caches; null: half of what is free
    group_rows: int | None = None  # most prompts x samples at a time; null: what the memory allows


def execute(cfg: GenerateConfig) -> dict[str, Any] | None:
    """Run the job; see the module's docstring. Returns the manifest, None with plan=true."""
    from actors.generator import Generator, PromptPreparer
    from actors.vlm.loading import rater_name

    instruction, questions = _checked(cfg)
    rater = rater_name(cfg.judge.model, revision=cfg.judge.revision)
    sources = open_sources(
        cfg.input,
        images=cfg.images,
        texts=cfg.texts,
        records=cfg.records,
        fields=instruction.context_fields,
        pictures=instruction.shows_picture,
    )
    excluded = exclusions.read_exclusions(cfg.exclusions)
    asked = {
        "prompt": {"name": instruction.name, "hash": instruction_identity(instruction)},
        "questions": content_id(json.dumps(questions, sort_keys=True)) if questions else None,
        "max_context_tokens": cfg.max_context_tokens,
        "empty_context": cfg.empty_context,
        **{name: getattr(cfg, name) for name in ("temperature", "top_p", "max_tokens", "seed")},
    }
    plan = Plan(
        out=cfg.out,
        table="responses",
        identity={
            "judge": {"model": cfg.judge.model, "revision": cfg.judge.revision, "dtype": cfg.judge.dtype},
            **asked,
            "samples": cfg.samples,
            "refusals": content_id(json.dumps(cfg.refusals, sort_keys=True)),
            **sources.identity,
            **exclusions.identity(excluded),
        },
        units=sources.units(),
        config=plain(cfg),
        metadata={"model": rater, "prompt": instruction.name},
        derived=True,
        models={cfg.judge.name: rater},
    )
    if cfg.plan:
        rows = sources.items.rows
        note = f"writes {rows * cfg.samples:,} texts ({rows:,} items x {cfg.samples})"
        screen.show_plan("generate", plan, cfg.resources, ["decode", "judge"], note=note)
        return None
    from jobs import flow, session

    session.start(cfg.ray, cfg.resources)
    flow.check(cfg.resources, ["decode", "judge"])
    run = open_run(plan, resume=cfg.resume, overwrite=cfg.overwrite, retry=cfg.retry)
    model = {"model": cfg.judge.model, "revision": cfg.judge.revision}
    prepare = {
        **model,
        "instruction": cfg.prompt,
        "questions": questions,
        "max_context_tokens": cfg.max_context_tokens,
        "empty_context": cfg.empty_context,
    }
    write = {
        **model,
        "dtype": cfg.judge.dtype,
        "device_map": cfg.judge.device_map,
        "prompt": instruction.name,
        "asked": content_id(json.dumps(asked, sort_keys=True)),
        "refusals": cfg.refusals,
        **{name: getattr(cfg, name) for name in ("samples", "temperature", "top_p", "max_tokens", "seed")},
        **{name: getattr(cfg, name) for name in ("cache_gb", "group_rows")},
        "threads": cfg.resources.judge.threads,
    }
    stages = [flow.Stage("decode", PromptPreparer, prepare)]
    stages.append(flow.Stage("judge", Generator, write, rows_out=cfg.samples))
    read = reading(run, sources, fields=instruction.context_fields, pictures=instruction.shows_picture, held=excluded)
    flow.stream(
        run,
        name="generate",
        read=flow.Read(read, item="item_id", output_item="item_id", excluded=read.excluded),
        stages=stages,
        resources=cfg.resources,
    )
    manifest = run.finish()
    screen.show_result("generate", manifest, run)
    show_refusals(run)
    return manifest


def reading(run: TableRun, sources: Sources, *, fields: Sequence[str], pictures: bool, held: frozenset[str]) -> Reader:
    """How the workers read the items of `sources`; keeps the list of pictures that must not be used with the run."""
    return Reader(
        kind=sources.items.name,
        sides=tuple(sources.sides),
        fields=tuple(fields),
        pictures=pictures,
        excluded=exclusions.keep(run, held),
    )


def show_refusals(run: TableRun) -> None:
    """Count the refusals of a finished run: lines at the terminal, figures and items in `_run/refusals.json`."""
    counted = refusals.RefusalRates()
    for footer in open_table(run.target.out, "responses").footers:
        counted.add(read_unit(footer.object.uri, columns=refusals.COLUMNS))
    rates = counted.rates()
    run.keep("refusals.json", json.dumps([asdict(rate) for rate in rates], ensure_ascii=False, indent=1).encode())
    if texts := max((rate.n for rate in rates), default=0):
        for line in refusals.lines(rates) or [f"none in {texts:,} texts"]:
            cli.say(f"  refusals  {line}")


def _checked(cfg: GenerateConfig) -> tuple[Instruction, list[dict[str, Any]]]:
    """The instruction and the questions it asks, everything else in the configuration checked as well."""
    from actors.generator import check_context_options
    from actors.vlm.generation import Sampling
    from actors.vlm.loading import check_vlm

    try:
        instruction = Instruction.from_dict(cfg.prompt)
        Sampling(cfg.temperature, cfg.top_p, cfg.max_tokens)
        check_context_options(cfg.max_context_tokens, cfg.empty_context)
        RefusalRules(cfg.refusals)
        for name in ("samples", "group_rows", "cache_gb"):
            if (value := getattr(cfg, name)) is not None and not value > 0:
                raise ValueError(f"{name} is {value}; it must be more than 0")
        if TARGET_WORD in instruction.words:
            raise ValueError(f"prompt {instruction.name!r} speaks of a label; it is for python -m jobs.loglik")
        if QUESTIONS_WORD in instruction.words and not cfg.rubric:
            raise ValueError(f"prompt {instruction.name!r} asks a rubric's questions; say which with rubric=")
        questions = []
        if QUESTIONS_WORD in instruction.words:
            rubric = Rubric.from_dict(cfg.rubric)
            if rubric.asks_targets:
                raise ValueError(f"rubric {rubric.name!r} asks about targets, which one JSON answer cannot hold")
            questions = asked_questions(rubric)
        if not cfg.plan:
            check_vlm(cfg.judge.model, revision=cfg.judge.revision)
    except ValueError as error:
        raise InputError(f"generate: {error}") from error
    return instruction, questions


JOB = cli.Job("generate", GenerateConfig, execute)

if __name__ == "__main__":
    sys.exit(cli.main("generate"))
