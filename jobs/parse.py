"""Read models' JSON answers to a rubric's questions as ratings -> table `ratings`.

    python -m jobs.parse input=R/responses/json rubric=century_labels out=R/ratings/json

`input` is a table of responses that `python -m jobs.generate prompt=rubric_json rubric=…` wrote. Taken is what is
certain (actors/vlm/parsing.py); anything else is unparsed or out of range, with the text kept and without a value.
"""

import sys
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from omegaconf import MISSING

from actors.answer_reader import AnswerReader
from actors.vlm.rubric import Rubric, identity
from jobs import cli, exclusions, running
from jobs.config import Common, plain
from jobs.errors import InputError
from jobs.store.reading import open_table, read_unit
from jobs.store.run import Plan
from jobs.store.writer import Task

COLUMNS = ["item_id", "model", "prompt", "sample", "text", "status", "error_kind", "error_message"]


@dataclass
class ParseConfig(Common):
    """Keys of `parse`."""

    input: str = MISSING  # a table of responses
    rubric: dict[str, Any] = field(default_factory=dict)  # whose questions were asked


def execute(cfg: ParseConfig) -> dict[str, Any] | None:
    """Run the job; see the module's docstring. Returns the manifest, None with plan=true."""
    try:
        AnswerReader(rubric=cfg.rubric)
    except ValueError as error:
        raise InputError(f"parse: {error}") from error
    rubric = Rubric.from_dict(cfg.rubric)
    responses = open_table(cfg.input, "responses")
    excluded = exclusions.read_exclusions(cfg.exclusions)
    plan = Plan(
        out=cfg.out,
        table="ratings",
        identity={
            "rubric": {"name": rubric.name, "hash": identity(rubric)},
            "input": responses.identity,
            **exclusions.identity(excluded),
        },
        units=responses.units(),
        config=plain(cfg),
        metadata={"rubric": rubric.name, "rater": responses.metadata.get("remine.model", "")},
        derived=True,
    )
    per_response = len(rubric.questions)
    note = f"reads {responses.rows * per_response:,} answers ({responses.rows:,} responses x {per_response})"
    run = running.begin("parse", cfg, plan, pools=["decode"], note=note)
    if run is None:
        return None
    from jobs import flow

    flow.stream(
        run,
        name="parse",
        read=flow.Read(written, item="item_id", output_item="item_id", excluded=exclusions.keep(run, excluded)),
        stages=[flow.Stage("decode", AnswerReader, {"rubric": cfg.rubric}, rows_out=per_response)],
        resources=cfg.resources,
    )
    return running.end("parse", run)


def written(task: Task) -> pa.Table:
    """A unit's responses as the reader takes them."""
    return read_unit(task.unit.inputs[0].uri, columns=COLUMNS)


JOB = cli.Job("parse", ParseConfig, execute)

if __name__ == "__main__":
    sys.exit(cli.main("parse"))
