"""The keys of `questions`."""

from dataclasses import dataclass, field
from typing import Any

from actors.vlm.settings import SamplingSettings
from jobs.models.vlm import ModelConfig
from jobs.runtime.configuration.config import ReadingRows

REFUSE, MARK = "refuse", "mark"


@dataclass
class QuestionColumns:
    """The roles of the file's columns; null: the first of the usual names that the file has."""

    set_id: str | None = None  # ids of the sets; null: set_id or item_id, else a hash of columns.about
    about: str | None = None  # the texts that the sets are about; null: about, prompt or text
    id: str | None = None  # numbers of the questions in their set; null: question_id or proposition_id
    question: str | None = None  # null: question or question_natural_language
    tuple: str | None = None  # null: tuple
    category: str | None = None  # null: category or category_broad
    parents: str | None = None  # null: parents, dependency or dependency_id
    valid: str | None = None  # yes or no; null: valid


@dataclass
class QuestionsConfig(SamplingSettings, ReadingRows):
    """Keys of `questions`: a file of questions, or texts about which a model writes questions."""

    input: str | None = None  # CSV, TSV, JSON lines or Parquet with one question per row
    columns: QuestionColumns = field(default_factory=QuestionColumns)
    faults: str = REFUSE  # of a file: refuse unknown parents, cycles, duplicate ids and empty questions, or mark them
    encoding: str | None = None  # rarely: of CSV; null: by its byte-order mark, else UTF-8
    delimiter: str | None = None  # rarely: of CSV; null: comma, semicolon, tab or bar, whichever fits
    texts: str | None = None  # table of texts about which a model writes questions
    role: str = "prompt"  # the role of these texts
    model: ModelConfig = field(default_factory=ModelConfig)
    scene_graph: dict[str, Any] = field(default_factory=dict)  # instructions and examples of the three steps
    unit_rows: int = 64  # rarely: texts per unit, the granularity of resuming
