"""A rubric's questions put to a model about items: what `judge` and `think` share, from their keys to their plans."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from actors.vlm.rubric import Rubric, identity
from jobs.judging import kept_rubric, settings
from jobs.judging.items import ItemTables, Reader, reading, sources_of
from jobs.judging.settings import AskingConfig
from jobs.judging.targets import RatingCounts, ratings_of, read_targets
from jobs.runtime import exclusions
from jobs.runtime.config import plain
from jobs.runtime.exclusions import Exclusions
from jobs.store.run import TablePlan


@dataclass
class RubricConfig(AskingConfig):
    """Keys of every job that asks a rubric's questions."""

    rubric: dict[str, Any] = field(default_factory=dict)  # the questions and their closed answers
    targets: Any = None  # labels to judge against: a file with one a line, [a,b], or a list of conf/target_lists
    layout: str | None = None  # of the rubric; null: its default
    empty_context: str = "answer"  # of items about which nothing is said: answer without, or skip


class Checked(NamedTuple):
    """What of the keys is right whatever the tables hold."""

    rubric: Rubric
    targets: tuple[str, ...] | None
    sees: bool | None  # whether the model sees pictures; None with plan=true


class JudgingJob(NamedTuple):
    """What is asked about which items."""

    rubric: Rubric
    targets: tuple[str, ...] | None
    sources: ItemTables
    pictures: bool  # whether they are read
    ratings: RatingCounts

    def reading(self) -> Reader:
        """How the workers read the items (`jobs.judging.items.reading`)."""
        return reading(self.sources, fields=self.rubric.context_fields, pictures=self.pictures)


def checked(cfg: RubricConfig) -> Checked:
    """The rubric and the labels, if they fit and the model can be had.

    Raises:
        InputError: labels that cannot be read.
        ValueError: whatever else is wrong, in a sentence.
    """
    from actors.judge import judged_targets

    targets = read_targets(cfg.targets)
    rubric = Rubric.from_dict(cfg.rubric)
    if targets:
        judged_targets(rubric, targets)
    rubric.resolve_layout(cfg.layout)
    return Checked(rubric, targets, settings.check(cfg, empty_context=cfg.empty_context))


def asked(cfg: RubricConfig, what: Checked, *, samples: int = 1) -> JudgingJob:
    """What is asked, its tables opened.

    Raises:
        InputError: tables that are not there, or do not bring what the rubric asks about.
    """
    pictures = bool(cfg.images) if what.sees is None else what.sees
    sources = sources_of(cfg, fields=what.rubric.context_fields, pictures=pictures)
    ratings = ratings_of(sources.items, what.rubric, what.targets, samples=samples)
    return JudgingJob(what.rubric, what.targets, sources, pictures, ratings)


def plan(cfg: RubricConfig, what: JudgingJob, excluded: Exclusions, more: dict[str, Any]) -> TablePlan:
    """The plan of a table of ratings, which `more` is part of the identity of."""
    rubric, layout = what.rubric, what.rubric.resolve_layout(cfg.layout)
    kept = kept_rubric.of_rubric(rubric, cfg.rubric)
    return TablePlan(
        out=cfg.out,
        table="ratings",
        identity={
            "model": cfg.model.identity,
            "rubric": {"name": rubric.name, "hash": identity(rubric, layout=layout), "layout": layout},
            "max_context_tokens": cfg.max_context_tokens,
            **more,
            **what.sources.identity,
            **({"targets": list(what.targets)} if what.targets else {}),
            **({"empty_context": cfg.empty_context} if cfg.empty_context != "answer" else {}),
            **exclusions.identity(excluded),
        },
        units=what.sources.units(),
        config=plain(cfg),
        metadata={**kept.metadata, "rater": cfg.model.rater},
        derived=True,
        models={cfg.model.name: cfg.model.rater},
        files=kept.files,
    )
