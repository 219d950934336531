"""Write the questions to ask about pictures of a text, as a scene graph after DSG -> table `questions`.

    remine questions texts=R/rome/texts role=prompt model=qwen2.5-7b-text out=R/questions
    remine questions input=questions.csv out=R/questions
    remine judge input=R/rome/items texts=R/rome/texts images=R/images rubric=dsg questions=R/questions \\
        model=qwen2.5-vl-7b out=R/answers/qwen

With texts= a model writes, for each different text, tuples, then a question about each tuple, and then which questions
depend on which. Its answers are read by a closed grammar: lines that do not fit are rejects, with step and line. With
input= the questions come from a file. Duplicates, questions that ask for the picture itself ("Is there an image?") and
questions that are not answered with yes or no are marked invalid; parents that do not exist and cycles are refused or
marked.
"""

import sys
from collections import Counter
from dataclasses import asdict
from functools import partial

from actors.quantities import quantity
from actors.rubrics.scene_graphs import SceneGraphInstructions
from actors.vlm.settings import ModelSettings, SamplingSettings
from jobs.checkpoints.placement import plan_lines
from jobs.errors import InputError, as_input_error, check_choice, check_least
from jobs.items_from.input_rows import open_file
from jobs.judging import rating_tables
from jobs.judging.model_config import check_model
from jobs.questioning.question_file import MARK, REFUSE, QuestionsConfig, read_questions
from jobs.questioning.question_graph import question_row
from jobs.questioning.question_writer import read_units
from jobs.runtime import lifecycle
from jobs.runtime.command_line import cli
from jobs.runtime.configuration.config import check_plan
from jobs.runtime.job_tables import plan_table, write_rows
from jobs.runtime.outcomes import Manifest, Plan
from jobs.runtime.planning.summary import reconciliation, tally_lines
from jobs.runtime.selection import exclusions
from jobs.runtime.stage_contract import Stage
from jobs.store.reading import open_table, refuse_absent

OF_FILES = ("input", "columns", "faults", "encoding", "delimiter")  # keys of input=


def execute(cfg: QuestionsConfig) -> Plan | Manifest:
    """Run the job and return the manifest, or the plan with plan=true; see the module's docstring.

    Raises:
        InputError: the value of a key is not allowed, or the file has a fault; nothing was written.
    """
    if (cfg.input is None) == (cfg.texts is None):
        raise InputError(
            "questions: exactly one of input= (a file of questions) and texts= (texts about which a model writes "
            "questions) is required"
        )
    check_choice("faults", cfg.faults, (REFUSE, MARK))
    check_least("unit_rows", cfg.unit_rows, 1)
    outcome = _from_file(cfg) if cfg.input else _by_model(cfg)
    if isinstance(outcome, Manifest):
        outcome.lines += _lines(cfg.out)
    return outcome


def _from_file(cfg: QuestionsConfig) -> Plan | Manifest:
    assert cfg.input is not None
    if cfg.limit is not None:
        raise InputError("only with texts=; a file of questions is read as a whole", key="limit", remedy="omit limit=")
    file = open_file(cfg.input, encoding=cfg.encoding, delimiter=cfg.delimiter)
    sets, about, rejects = read_questions(file, cfg.columns, faults=cfg.faults)
    rows = [question_row(question, about[set_id]) for set_id, graph in sets.items() for question in graph]
    check_plan(cfg.plan, calibrates=False)
    settings = asdict(cfg)
    identity = {"file": file.object.etag, **{key: settings[key] for key in OF_FILES if key != "input"}}
    write = partial(write_rows, cfg, "questions", rows, identity, rejects=rejects)
    if cfg.plan:
        write(only_checks=True)
        amount = f"{quantity(len(rows), 'question')} in {quantity(len(sets), 'set')}"
        return Plan([f"questions: would write {amount} to {cfg.out}"])
    manifest = write()
    return Manifest(manifest, [f"questions: {manifest['out']}\n{reconciliation(manifest['counts'])}"])


def _by_model(cfg: QuestionsConfig) -> Plan | Manifest:
    assert cfg.texts is not None
    if cfg.samples != 1:
        raise InputError("must be 1, because a text has one set of questions", key="samples", value=cfg.samples)
    refuse_absent(cfg.texts)
    try:
        instructions = SceneGraphInstructions.from_dict(cfg.scene_graph)
        check_model(cfg)
    except ValueError as error:
        raise as_input_error(error) from error
    source = open_table(cfg.texts, "texts", key="texts")
    units = read_units(source, role=cfg.role, unit_rows=cfg.unit_rows)
    plan = plan_table(
        cfg,
        "questions",
        units,
        {
            "texts": source.identity,
            "model": cfg.model.identity,
            "scene_graph": {"name": instructions.name, "hash": instructions.hash},
        },
        instead_of=["samples", *OF_FILES],
        metadata={"model": cfg.model.rater, "scene_graph": instructions.name},
        derived=False,
        models={cfg.model.name: cfg.model.rater},
    )
    sets = sum(unit.rows or 0 for unit in units)
    sets = min(sets, cfg.limit or sets)
    note = f"asks {cfg.model.name} in three steps about {quantity(sets, 'text')} of role {cfg.role}"
    run = lifecycle.begin(
        "questions",
        cfg,
        plan,
        exclusions.read_exclusions(None),
        pools=["judge"],
        note=note,
        lines=plan_lines(cfg, cfg.model),
        streamed=False,
    )
    if isinstance(run, Plan):
        return run
    from jobs.questioning.question_writer import QuestionWriter
    from jobs.runtime import stages

    settings = {"model": ModelSettings.part_of(cfg.model), "settings": SamplingSettings.part_of(cfg)}
    keys = {"instructions": cfg.scene_graph, **settings, "threads": cfg.resources.judge.threads}
    stages.process(
        run.table,
        name="questions",
        stage=Stage("judge", QuestionWriter, keys),
        resources=cfg.resources,
        total=sets,
        counted="texts",
    )
    manifest = run.end()
    rating_tables.keep_raters(run.table, rating_tables.raters_of_model(cfg.model, manifest["counts"]["tallies"]))
    return manifest


def _lines(out: str) -> list[str]:
    """Return the number of questions and of their faults."""
    sets, faults = set[str](), Counter[str]()
    valid = rows = 0
    for batch in open_table(out, "questions").batches(["set_id", "valid", "fault"]):
        for row in batch.to_pylist():
            sets.add(row["set_id"])
            rows += 1
            valid += row["valid"]
            faults.update(filter(None, (row["fault"] or "").split(", ")))
    amount = f"  {quantity(rows, 'question')} in {quantity(len(sets), 'set')}, {valid:,} valid"
    return [amount, *tally_lines("faults", faults)]


JOB = cli.Job("questions", QuestionsConfig, execute, pools=("judge",))

if __name__ == "__main__":
    sys.exit(cli.main("questions"))
