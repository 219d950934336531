"""Score pictures by the answers to the questions about their text -> table `ratings`.

    remine judge input=R/rome/items texts=R/rome/texts images=R/images rubric=dsg questions=R/questions \\
        model=qwen2.5-vl-7b out=R/answers/qwen
    remine question_scores input=R/answers/qwen questions=R/questions out=R/scores/qwen

A picture's score is the share of yes among the answers to the valid questions of its set (DSG), with dependencies (a
question counts as no if a parent is answered no) and without. A question without an answer, which a person skipped or
which failed, does not count; with convention=published it counts as no, as in DSG's evaluation. The scores are ratings
of the rubric `dsg_score`, so that report shows their histogram, compares parts of the items by Welch's t-test, and
computes agreement.
"""

import sys
from collections import Counter
from dataclasses import dataclass
from typing import Any

from actors.quantities import quantity
from actors.settings import Location, RuntimeOnly
from jobs.analysis import scene_graph_scores
from jobs.errors import InputError, check_choice
from jobs.judging import rating_tables
from jobs.metrics import dsg
from jobs.runtime.command_line import cli
from jobs.runtime.configuration.config import Writing
from jobs.runtime.configuration.key_types import MISSING
from jobs.runtime.job_tables import plan_table
from jobs.runtime.outcomes import Manifest, Plan
from jobs.runtime.planning import summary
from jobs.runtime.selection import exclusions
from jobs.store.object_rows import distinct_values, first_values, read_unit
from jobs.store.reading import open_table
from jobs.store.runs.table_run import open_run
from jobs.store.table_plan import limited
from jobs.store.writer import UnitWriter


@dataclass
class QuestionScoresConfig(Writing):
    """Keys of `question_scores`."""

    input: Location[str] = MISSING  # a table of ratings: answers to questions of the items (judge questions=)
    questions: str = MISSING  # the table of these questions
    questions_rubric: str = "dsg"  # rubric of the answers
    # a question without an answer does not count (answered), or counts as no (published, as in DSG's evaluation)
    convention: str = dsg.ANSWERED
    # the scores of the first items only, for a trial run in a separate table; null: all
    limit: RuntimeOnly[int | None] = None


def execute(cfg: QuestionScoresConfig) -> Plan | Manifest:
    """Run the job and return the manifest, or the plan with plan=true; see the module's docstring.

    Raises:
        InputError: a table cannot be used, or no answer is about a set of `questions=`; nothing was written.
    """
    check_choice("convention", cfg.convention, dsg.CONVENTIONS)
    ratings, questions = (
        open_table(cfg.input, "ratings", key="input"),
        open_table(cfg.questions, "questions", key="questions"),
    )
    sets = scene_graph_scores.read_sets(questions)
    if ratings.rows and not _has_answers(cfg, sets):
        why = f"no rating of rubric {cfg.questions_rubric!r} is about a set of {cfg.questions}"
        raise InputError(why, key="input", remedy="name the table that judge questions= wrote with these questions")
    excluded = exclusions.read_exclusions(cfg.exclusions)
    kept = scene_graph_scores.kept_rubric()
    plan = plan_table(
        cfg,
        "ratings",
        ratings.units(),
        {"ratings": ratings.identity, "questions": questions.identity, "rubric": cfg.questions_rubric},
        instead_of=["questions_rubric"],
        excluded=excluded,
        metadata={**kept.metadata, "rater": ratings.metadata.get("remine.rater", "")},
        files=kept.files,
    )
    plan = limited(plan, cfg.limit, noun="items", count=lambda unit: distinct_values(unit.inputs[0].uri, "item_id"))
    if cfg.plan:
        return summary.plan_of("question_scores", plan)
    run = open_run(plan, resume=cfg.resume, overwrite=cfg.overwrite, retry=cfg.retry)
    exclusion_filter = exclusions.ExclusionFilter(excluded.marks)
    for task in run.todo:
        answers = read_unit(task.unit.inputs[0].uri, columns=scene_graph_scores.COLUMNS)
        answers = first_values(answers, "item_id", task.unit.limit)
        answers = answers.filter(~exclusion_filter.mask(answers["item_id"]))
        tally: Counter[str] = Counter()
        scores = scene_graph_scores.score_rows(
            answers, sets, rubric=cfg.questions_rubric, convention=cfg.convention, tally=tally
        )
        rows = list(scores)
        with UnitWriter(run.target, task) as writer:
            writer.counts.rows_in = len(rows)
            writer.counts.tallies["answers"] = dict(tally)
            writer.write(scene_graph_scores.rating_table(rows))
    manifest = summary.closed("question_scores", run)
    counts = Counter(manifest["counts"]["tallies"].get("answers", {}))
    if counts["partial"]:
        rest = "do not count" if cfg.convention == dsg.ANSWERED else "count as no"
        manifest.lines.append(
            f"  {counts['answered']:,} of {quantity(counts['questions'], 'question')} are answered; "
            f"{counts['partial']:,} of {quantity(counts['scores'], 'picture')} lack some, which {rest}"
        )
    manifest.lines += summary.exclusion_lines(excluded, exclusion_filter.take_matched())
    rating_tables.keep_raters(run, rating_tables.read_raters([ratings]))
    return manifest


def _has_answers(cfg: QuestionScoresConfig, sets: Any) -> bool:
    """Return whether any rating of the rubric is about one of the sets, or all are about none: no item has a set."""
    targets: set[str] = set()
    for batch in open_table(cfg.input, "ratings", key="input").batches(["target", "rubric"]):
        targets.update(row["target"] for row in batch.to_pylist() if row["rubric"] == cfg.questions_rubric)
        if any(target in sets for target in targets):
            return True
    return targets == {""}


JOB = cli.Job("question_scores", QuestionScoresConfig, execute)

if __name__ == "__main__":
    sys.exit(cli.main("question_scores"))
