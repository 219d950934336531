"""Parse models' JSON answers to a rubric's questions -> table `ratings`.

    remine parse input=R/responses/json rubric=century_labels out=R/ratings/json

`input` is a table of responses that `remine generate prompt=rubric_json rubric=…` wrote. Only unambiguous
answers become values (actors/rubrics/parsing.py); all others have the status `unparsed` or `out_of_range`, and keep
their text.
"""

import sys
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from actors.answer_reader import AnswerReader
from actors.quantities import quantity
from actors.rubrics.rubric import Rubric, identity
from actors.settings import ConditionSettings
from jobs.errors import as_input_error
from jobs.judging import kept_rubric, rating_tables
from jobs.runtime import lifecycle
from jobs.runtime.command_line import cli
from jobs.runtime.configuration.config import ReadingRows
from jobs.runtime.configuration.key_types import MISSING, conf_group
from jobs.runtime.job_tables import plan_table
from jobs.runtime.outcomes import Manifest, Plan
from jobs.runtime.selection import exclusions
from jobs.store.files.objects import CompactList
from jobs.store.pieces import cut_of, in_pieces, read_piece
from jobs.store.reading import open_table
from jobs.store.writer import UnitTask

COLUMNS = AnswerReader.INPUTS.names


@dataclass
class ParseConfig(ConditionSettings, ReadingRows):
    """Keys of `parse`."""

    input: str = MISSING  # a table of responses
    rubric: dict[str, Any] = conf_group("century_labels")  # the rubric whose questions the responses answer


def execute(cfg: ParseConfig) -> Plan | Manifest:
    """Run the job and return the manifest, or the plan with plan=true; see the module's docstring."""
    try:
        AnswerReader(rubric=cfg.rubric)
    except ValueError as error:
        raise as_input_error(error) from error
    rubric = Rubric.from_dict(cfg.rubric)
    responses = open_table(cfg.input, "responses", key="input")
    excluded = exclusions.read_exclusions(cfg.exclusions)
    kept = kept_rubric.of_rubric(rubric, cfg.rubric)
    plan = plan_table(
        cfg,
        "ratings",
        CompactList(in_pieces(responses.units(), cut_of(cfg.out, actors=None, overwrite=cfg.overwrite))),
        {"rubric": {"name": rubric.name, "hash": identity(rubric)}, "input": responses.identity},
        excluded=excluded,
        metadata={**kept.metadata, "rater": responses.metadata.get("remine.model", "")},
        files=kept.files,
    )
    per_response = len(rubric.questions)
    rows = min(responses.rows, cfg.limit or responses.rows)
    note = f"reads {rows * per_response:,} answers ({quantity(rows, 'response')} x {per_response})"
    run = lifecycle.begin("parse", cfg, plan, excluded, pools=["decode"], note=note)
    if isinstance(run, Plan):
        return run
    from jobs.runtime import stages

    stages.stream(
        run.table,
        name="parse",
        read=stages.Read(read_responses, item="item_id", output_item="item_id", excluded=run.excluded),
        stages=[
            stages.Stage(
                "decode", AnswerReader, {"rubric": cfg.rubric, "condition": cfg.condition}, rows_out=per_response
            )
        ],
        resources=cfg.resources,
    )
    manifest = run.end()
    rating_tables.keep_raters(run.table, rating_tables.read_raters([responses]))  # the models that wrote the answers
    return manifest


def read_responses(task: UnitTask) -> pa.Table:
    """Return the responses of a unit, with the columns that `AnswerReader` needs."""
    return read_piece(task.unit, COLUMNS)


JOB = cli.Job("parse", ParseConfig, execute, pools=("decode",))

if __name__ == "__main__":
    sys.exit(cli.main("parse"))
