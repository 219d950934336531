"""The keys of `terms`."""

from dataclasses import dataclass, field
from typing import Any

from actors.settings import Location
from jobs.errors import InputError, check_choice
from jobs.runtime.configuration.config import ReadingRows
from jobs.runtime.configuration.key_types import conf_group
from jobs.store import table_plan
from jobs.terms_from.dump import TermsSource

WIKIDATA, LANGUAGE_MODEL = "wikidata", "language_model"
LABEL, ALIAS, TITLE = "label", "alias", "title"  # kinds of names
KEEP, STRIP, DROP = "keep", "strip", "drop"
PREFER, REQUIRE, IGNORE = "prefer", "require", "ignore"


@dataclass
class PeriodConfig:
    """The years of preferred entities."""

    first: int = 1901  # first year of the twentieth century
    last: int = 2100  # last year of the twenty-first century


@dataclass
class GraphKeys:
    """Keys of terms from a knowledge graph."""

    concepts: dict[str, Any] = conf_group("century")  # what the entities are about, by theme
    graph: dict[str, Any] = conf_group("wikidata")  # the graph's properties, types and dates
    entities: Location[str | None] = None  # instead of a dump: the table of entities of an earlier run
    subclass_depth: int | None = None  # steps below a concept at which classes still belong to it; null: any number
    names: list[str] = field(default_factory=lambda: [LABEL, TITLE])  # which names are terms: label, alias, title
    punctuation: str = KEEP  # of terms: keep, or strip the ASCII punctuation as the paper's released terms do
    dates: str = PREFER  # prefer entities of the period, require it, or ignore dates
    period: PeriodConfig = field(default_factory=PeriodConfig)
    entities_per_concept: int | None = None  # entities of a concept to take at most, preferred ones first; null: all


@dataclass
class ResponsesKeys:
    """Keys of terms from language models' responses."""

    responses: list[str] = field(default_factory=list)  # tables of responses, or globs of tables
    topics: dict[str, Any] = conf_group("century")  # the categories, topics and regions that were asked about
    unknown: str = DROP  # lines with a category, topic or region that topics= lacks: drop, or keep them


@dataclass
class TermSourcesConfig(GraphKeys, ResponsesKeys, ReadingRows):
    """Keys of `terms`."""

    source: TermsSource = conf_group("wikidata", TermsSource)

    def check(self) -> None:
        """Raise InputError for a value that is not allowed; nothing is read."""
        table_plan.check_limit(self.limit)
        check_choice("source.name", self.source.name, (WIKIDATA, LANGUAGE_MODEL))
        check_choice("punctuation", self.punctuation, (KEEP, STRIP))
        check_choice("dates", self.dates, (PREFER, REQUIRE, IGNORE))
        check_choice("unknown", self.unknown, (DROP, KEEP))
        for name in self.names:
            check_choice("names", name, (LABEL, ALIAS, TITLE))
        if not self.names or len(set(self.names)) < len(self.names):
            raise InputError("name one or several of label, alias, title, each once", key="names", value=self.names)
        for key, number in (
            ("entities_per_concept", self.entities_per_concept),
            ("subclass_depth", self.subclass_depth),
        ):
            if number is not None and number < 1:
                raise InputError("must be at least 1, or null for no limit", key=key, value=number)
        if self.period.first > self.period.last:
            why = f"must not be after period.last={self.period.last}"
            raise InputError(why, key="period.first", value=self.period.first)
        if self.exclusions is not None:
            why = "terms have no pictures"
            raise InputError(why, key="exclusions", value=self.exclusions, remedy="use the list with remine mine")
        self._check_inputs()

    def _check_inputs(self) -> None:
        inputs = {"source.path": self.source.path, "entities": self.entities}
        if self.source.name == WIKIDATA and self.responses:
            raise InputError("only read with source=language_model; set it, or omit responses=", key="responses")
        if self.source.name == WIKIDATA and len([value for value in inputs.values() if value]) != 1:
            why = "set either source.path=, a dump, or entities=, a table of an earlier run"
            raise InputError(why, key="source", value="wikidata")
        if self.source.name == LANGUAGE_MODEL and not self.responses:
            why = "required with source=language_model: tables that remine generate wrote"
            raise InputError(why, key="responses", value="")
        if self.source.name == LANGUAGE_MODEL and (key := next((key for key, value in inputs.items() if value), None)):
            raise InputError(f"only read with source=wikidata; set it, or omit {key}=", key=key, value=inputs[key])
