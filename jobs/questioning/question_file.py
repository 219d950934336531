"""The keys of `questions`, and the reader of questions that people wrote, from a file with one question per row."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple, Protocol

from actors.vlm.settings import SamplingSettings
from jobs.checkpoints.vlm import AsksModelConfig, ModelConfig
from jobs.errors import InputError
from jobs.judging.own_questions import set_id_of
from jobs.metrics.dsg import NO, YES, id_of, parents_of
from jobs.questioning.question_graph import CYCLE, MARKED, NO_QUESTION, UNKNOWN_PARENT, GraphQuestion, checked, cycles
from jobs.runtime.configuration.key_types import conf_group
from jobs.store.files.objects import Object
from jobs.store.writer import Reject, Rejects

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
class QuestionsConfig(SamplingSettings, AsksModelConfig):
    """Keys of `questions`: a file of questions, or texts about which a model writes questions."""

    input: str | None = None  # CSV, TSV, JSON lines or Parquet with one question per row
    columns: QuestionColumns = field(default_factory=QuestionColumns)
    faults: str = REFUSE  # of a file: refuse unknown parents, cycles, duplicate ids and empty questions, or mark them
    encoding: str | None = None  # rarely: of CSV; null: by its byte-order mark, else UTF-8
    delimiter: str | None = None  # rarely: of CSV; null: comma, semicolon, tab or bar, whichever fits
    texts: str | None = None  # table of texts about which a model writes questions
    role: str = "prompt"  # the role of these texts
    model: ModelConfig = conf_group("qwen2.5-7b-text", ModelConfig)
    scene_graph: dict[str, Any] = conf_group("dsg")  # instructions and examples of the three steps
    temperature: float = 0.0
    unit_rows: int = 64  # rarely: texts per unit, the granularity of resuming


USUAL = {  # what -> usual names of its column: ours, then those of the released files of DSG
    "set_id": ("set_id", "item_id"),
    "about": ("about", "prompt", "text"),
    "id": ("question_id", "proposition_id"),
    "question": ("question", "question_natural_language"),
    "tuple": ("tuple",),
    "category": ("category", "category_broad"),
    "parents": ("parents", "dependency", "dependency_id"),
    "valid": ("valid",),
}

Row = Mapping[str, str | list[str] | None]


class QuestionFile(Protocol):
    """A user's file, as `jobs.items_from.input_rows.open_file` opens it."""

    @property
    def object(self) -> Object: ...

    @property
    def columns(self) -> tuple[str, ...]: ...

    @property
    def available(self) -> str: ...

    @property
    def rows(self) -> Callable[[Rejects], Iterator[tuple[int, Row]]]: ...

    def at(self, line: int) -> str: ...


def find_columns(file: QuestionFile, columns: QuestionColumns) -> dict[str, str]:
    """Return what -> column of the file: the configured one, else the first of the usual names.

    Raises:
        InputError: a configured column that the file lacks, or no column of the sets, the ids or the questions.
    """
    names: dict[str, str] = {}
    for column in fields(QuestionColumns):
        field_name = column.name
        if configured := getattr(columns, field_name):
            names[field_name] = configured
        elif usual := next((name for name in USUAL[field_name] if name in file.columns), None):
            names[field_name] = usual
    missing = [f"{name} (columns.{field_name}=)" for field_name, name in names.items() if name not in file.columns]
    missing += [f"columns.{field_name}= is required" for field_name in ("id", "question") if field_name not in names]
    if not {"set_id", "about"} & names.keys():
        missing.append("columns.set_id= or columns.about= is required")
    if missing:
        raise InputError(f"no column {', '.join(missing)}; {file.available}", place=file.object.uri)
    return names


class FileQuestions(NamedTuple):
    """The questions of a file.

    Attributes:
        sets: the questions of each set, by set_id, with faults marked.
        about: the text that each set is about, by set_id.
        rejects: questions with the id of an earlier question in the set.
    """

    sets: dict[str, list[GraphQuestion]]
    about: dict[str, str | None]
    rejects: list[Reject]


def read_questions(file: QuestionFile, columns: QuestionColumns, *, faults: str) -> FileQuestions:
    """Return the questions of a file.

    Args:
        faults: `refuse` or `mark` rows without a question, duplicate ids, cycles and unknown parents.

    Raises:
        InputError: a faulty row, or a fault that is refused; names the lines.
    """
    names = find_columns(file, columns)
    sets: dict[str, dict[str, GraphQuestion]] = defaultdict(dict)
    about: dict[str, str | None] = {}
    bad: list[Reject] = []
    rejects: list[Reject] = []
    for line, row in file.rows(bad.append):
        cells = {field_name: _text(row, name) for field_name, name in names.items()}
        question, text = _question(file, line, cells, refuse=faults == REFUSE)
        first = sets[question.set_id].setdefault(question.question_id, question)
        if first is not question:
            message = f"question {question.question_id!r} of set {question.set_id!r} is also in line {first.line}"
            if faults == REFUSE:
                advice = "give the questions of a set distinct ids, or set faults=mark to keep the first"
                raise InputError(f"{message}; {advice}", place=file.at(line))
            rejects.append(Reject(file.object.uri, line, "duplicate_id", message, question.text))
        about.setdefault(question.set_id, text or None)
    if bad:
        raise InputError(f"{bad[0].reason}: {bad[0].message}; correct the row", place=file.at(bad[0].position))
    if not sets:
        raise InputError("no questions", place=file.object.uri)
    graphs = {set_id: list(questions.values()) for set_id, questions in sets.items()}
    if faults == REFUSE:
        for graph in graphs.values():
            _refuse_faults(file, graph)
    return FileQuestions({set_id: checked(graph) for set_id, graph in graphs.items()}, about, rejects)


def _text(row: Row, name: str) -> str:
    value = row.get(name)
    return ",".join(value) if isinstance(value, list) else value or ""


def _question(file: QuestionFile, line: int, cells: dict[str, str], *, refuse: bool) -> tuple[GraphQuestion, str]:
    """Return the question of a row, and the text that its set is about.

    Args:
        refuse: whether to refuse a row without a question, which is invalid otherwise.
    """
    about = cells.get("about", "")
    set_id = cells.get("set_id") or (set_id_of(about) if about else "")
    named = {"set": set_id, "id": cells["id"], **({"question": cells["question"]} if refuse else {})}
    if empty := [name for name, value in named.items() if not value]:
        raise InputError(f"the {empty[0]} is empty; every row is one question of a set", place=file.at(line))
    valid = id_of(cells.get("valid", "") or "yes").casefold()
    if valid not in YES | NO:
        raise InputError(f"valid is {cells['valid']!r}; must be yes or no", place=file.at(line))
    question = GraphQuestion(
        set_id=set_id,
        question_id=id_of(cells["id"]),
        text=cells["question"],
        line=line,
        proposition=cells.get("tuple", ""),
        category=cells.get("category", ""),
        parents=parents_of(cells.get("parents", "")),
    )
    fault = NO_QUESTION if not question.text else MARKED if valid in NO else ""
    return (replace(question, valid=False, fault=fault) if fault else question), about


def _refuse_faults(file: QuestionFile, graph: Sequence[GraphQuestion]) -> None:
    line_of = {question.question_id: question.line for question in graph}
    advice = "correct the parents, or set faults=mark to ignore them"
    for question in graph:
        if unknown := [parent for parent in question.parents if parent not in line_of]:
            raise InputError(
                f"{UNKNOWN_PARENT}: question {question.question_id!r} of set "
                f"{question.set_id!r} has the parent {unknown[0]!r}, and the set has no such question; {advice}",
                place=file.at(question.line),
            )
    if groups := cycles(graph):
        listed = ", ".join(f"{name!r} (line {line_of[name]})" for name in groups[0])
        raise InputError(
            f"{CYCLE}: questions {listed} of set {graph[0].set_id!r} depend on each other; {advice}",
            place=file.at(line_of[groups[0][0]]),
        )
