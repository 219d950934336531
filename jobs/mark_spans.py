"""Have a vision-language model mark mistakes and omissions in descriptions of pictures -> table `spans`.

    remine mark_spans input=R/docent/items images=R/images texts=R/docent/texts model=qwen2.5-vl-7b \\
        out=R/spans/direct
    remine mark_spans input=R/docent/items images=R/images texts=R/docent/texts method=claims \\
        'models=[qwen2.5-vl-7b,pangea-7b]' out=R/spans/claims

An item has a picture, a correct description and a generated one. method=direct has the model list the wrong words of
the generated description, and then the words of the correct one that are missing from it. method=claims has it cut both
texts into their smallest pieces and scores closed answers about each, so that every piece has a probability. The
question about omissions shows the mistakes that the model marked, so that nothing counts twice.
"""

import json
import sys
from dataclasses import dataclass, field
from typing import Any

from actors.ids import content_id
from actors.marking.span_prompts import SpanPrompts
from actors.span_marker import MarkingSettings, SpanMarker
from actors.vlm.settings import ModelSettings
from jobs.annotation.span_labels import SpanLabels
from jobs.checkpoints.placement import plan_lines
from jobs.errors import InputError, as_input_error
from jobs.judging import model_run, prompt_trial
from jobs.judging.items import ItemTables, Reader, item_units, open_sources
from jobs.judging.model_config import SeveralModelsConfig, check_early, check_model, run_each, with_condition
from jobs.judging.model_run import mark_lines, model_plan, stream_items
from jobs.runtime import lifecycle
from jobs.runtime.command_line import cli
from jobs.runtime.configuration.key_types import conf_group
from jobs.runtime.outcomes import Manifest, Plan
from jobs.runtime.planning.expected_pace import cut_for
from jobs.runtime.process.console import say
from jobs.runtime.selection import exclusions
from jobs.runtime.selection.draws import CompleteDrawConfig
from jobs.runtime.stage_contract import Stage
from jobs.store.reading import open_table


@dataclass
class MarkSpansConfig(MarkingSettings, SeveralModelsConfig):
    """Keys of `mark_spans`."""

    span_labels: dict[str, Any] = conf_group("docent")
    span_prompts: dict[str, Any] = conf_group("docent")
    draw: CompleteDrawConfig = field(default_factory=CompleteDrawConfig)  # which of the items to mark


def execute(cfg: MarkSpansConfig) -> Plan | Manifest:
    """Run the job and return the last model's manifest, or the plan with plan=true; see the module's docstring.

    Raises:
        InputError: the value of a key is not allowed; nothing was written.
        RunError: the run failed. With several models it is raised after all have run, and names those that failed.
    """
    return run_each("mark_spans", cfg, _check, _mark_spans)


def _mark_spans(cfg: MarkSpansConfig, _: None) -> Plan | Manifest:
    sources = _sources(cfg)
    cfg = with_condition(cfg, sources.items)
    excluded = exclusions.read_exclusions(cfg.exclusions)
    cut = cut_for("mark_spans", cfg, ("judge",))
    drawn = item_units(sources, cfg.draw, excluded.marks, cut)
    rows = min(drawn.rows, cfg.limit or drawn.rows)
    note = f"asks {cfg.model.name} to mark {2 * rows:,} texts of {rows:,} items ({cfg.method})"
    if cfg.plan and cfg.shows_picture:
        note += model_run.expected_tokens(cfg.model, sources.pictures)
    metadata = {"rater": cfg.model.rater, "method": cfg.method}
    plan = model_plan(
        cfg,
        "spans",
        _identity_entries(cfg, sources),
        instead_of=["span_prompts", "span_labels", "threshold", "draw"],
        excluded=excluded,
        units=drawn.units,
        metadata=metadata,
    )
    lines = [*plan_lines(cfg, cfg.model), *drawn.lines]
    run = lifecycle.begin("mark_spans", cfg, plan, excluded, pools=["judge"], note=note, lines=lines)
    reader = Reader("items", tuple(sources.joined_tables), (), cfg.shows_picture, whole_texts=True)
    settings, model = MarkingSettings.part_of(cfg), ModelSettings.part_of(cfg.model)
    if isinstance(run, Plan):
        return run + Plan(list(prompt_trial.marking_lines(cfg, plan.units, reader, settings=settings, model=model)))
    for line in drawn.lines:
        say(f"  {line}")
    marker = {"settings": settings, "model": model, "threads": cfg.resources.judge.threads}
    stages = [Stage("judge", SpanMarker, marker, rows_out=None)]
    manifest = stream_items(run, cfg, reader=reader, stages=stages)
    manifest.lines += mark_lines(manifest["counts"]["tallies"])
    return manifest


def _sources(cfg: MarkSpansConfig) -> ItemTables:
    """Open the tables of items, texts and pictures.

    Raises:
        InputError: a table does not exist, is incomplete, or is not a table of items with texts.
    """
    if not cfg.texts:
        why = f"required: the table of the texts to mark, which belong to the items of input={cfg.input}"
        raise InputError(why, key="texts", value="")
    open_table(cfg.input, "items", key="input")
    return open_sources(
        cfg.input, images=cfg.images, texts=cfg.texts, records=None, fields=(), pictures=cfg.shows_picture
    )


def _identity_entries(cfg: MarkSpansConfig, sources: ItemTables) -> dict[str, Any]:
    """Return what the rows depend on besides the model and the other keys."""
    labels = [[kind.name, kind.kind, kind.role, list(kind.labels.items())] for kind in cfg.kinds]
    return {
        "prompts": {
            "name": cfg.span_prompts["name"],
            "hash": SpanPrompts.from_dict(cfg.span_prompts).identity(cfg.method),
        },
        "labels": {"name": cfg.span_labels["name"], "hash": content_id(json.dumps(labels, sort_keys=True))},
        **({"threshold": cfg.threshold} if cfg.method == "claims" else {}),
        **sources.identity,
        **cfg.draw.identity,
    }


def _check(cfg: MarkSpansConfig) -> None:
    """Validate the keys without reading any table.

    Raises:
        InputError: the value of a key is not allowed.
    """
    try:
        prompt_trial.check(cfg)
        SpanLabels.from_dict(cfg.span_labels)
        cfg.draw.check()
        check_model(cfg, shown_by=f"span_prompts {cfg.span_prompts['name']!r}" if cfg.shows_picture else "")
    except ValueError as error:
        raise as_input_error(error) from error


JOB = cli.Job("mark_spans", MarkSpansConfig, execute, check=check_early(_check), pools=("judge",))

if __name__ == "__main__":
    sys.exit(cli.main("mark_spans"))
