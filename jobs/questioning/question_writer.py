"""Questions about texts by a model: the units of texts, and the worker that has it write graphs in three steps."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from actors import schemas
from actors.errors import first_line
from actors.generator import load_in_transformers
from actors.ids import content_id
from actors.rubrics import scene_graphs
from actors.rubrics.scene_graphs import PARENTS, QUESTIONS, STEPS, TUPLES, LineFault, Parsed, SceneGraphInstructions
from actors.status import Status
from actors.vlm.errors import ScoringError
from actors.vlm.generation import sample_seed
from actors.vlm.settings import ModelSettings, SamplingSettings
from jobs.errors import InputError
from jobs.judging.own_questions import set_id_of
from jobs.questioning.question_graph import GraphQuestion, from_answers, question_row
from jobs.runtime.board import Reporter
from jobs.store.files.objects import CompactList
from jobs.store.reading import TableSource
from jobs.store.units import Unit
from jobs.store.writer import RAW_KEPT, Reject, UnitTask, UnitWriter
from jobs.tables import TABLES

NO_QUESTIONS = "no_questions"  # reason of the reject of a text
TEXTS = "texts"  # `Unit.extra`: [set_id, text] of each set


@dataclass
class _Graph:
    """The answers about one text so far."""

    set_id: str
    text: str
    parsed: dict[str, Parsed] = field(default_factory=dict)
    error: str = ""

    @property
    def tuples(self) -> str:
        """The lines of the tuples."""
        entries = self.parsed[TUPLES].entries
        return "\n".join(scene_graphs.tuple_line(number, text) for number, (_, text) in entries.items())


class QuestionWriter:
    """Worker that writes the questions about the texts of a unit.

    Args:
        instructions: the content of a file of `conf/scene_graph`.
        model: which model to load.
        settings: how the answers are drawn.
        threads: torch's threads on a CPU; None: torch's default.

    Raises:
        ValueError: the model cannot be loaded.
    """

    def __init__(
        self,
        *,
        instructions: Mapping[str, Any],
        model: ModelSettings,
        settings: SamplingSettings,
        threads: int | None = None,
    ) -> None:
        self.instructions = SceneGraphInstructions.from_dict(instructions)
        self.engine, self.chat, self.facts = load_in_transformers(settings, model, threads)
        self.settings = settings

    def __call__(self, task: UnitTask, writer: UnitWriter, report: Reporter) -> None:
        """Write the rows of the unit; faulty lines, and texts without a question, become rejects."""
        self.engine.on_tokens = lambda tokens: report.add(0, tokens=tokens)
        graphs = [_Graph(set_id, text) for set_id, text in task.unit.extra[TEXTS][: task.unit.limit]]
        rows = []
        self.write(graphs)
        for graph in graphs:
            questions, faults = self.questions(graph)
            rows += [question_row(question, graph.text) for question in questions]
            for fault in faults:
                where = f"set {graph.set_id}, {fault.step}"
                writer.reject(Reject(where, fault.line, fault.kind, _SAYS[fault.kind], fault.text[:RAW_KEPT]))
            report.add(1)
        writer.write(schemas.to_table(rows, TABLES["questions"].schema()))
        counts = writer.counts
        counts.rows_in = counts.rows_out + counts.rejected.total()
        counts.tallies["sets"] = {"asked": len(graphs), "without questions": counts.rejected[NO_QUESTIONS]}
        group, _, key = self.facts.tally.partition("/")
        counts.tallies[group] = {key: len(rows)}

    def write(self, graphs: Sequence[_Graph]) -> None:
        """Have the model answer each step for the texts that have tuples."""
        waiting = list(graphs)
        for step in STEPS:
            for graph, answer in zip(waiting, self._answers(step, waiting), strict=True):
                if isinstance(answer, ScoringError):
                    graph.error = graph.error or f"{answer.kind}: {answer.message}"
                    answer = ""  # noqa: PLW2901
                numbers = None if step == TUPLES else list(graph.parsed[TUPLES].entries)
                try:
                    graph.parsed[step] = scene_graphs.parse(step, answer, numbers=numbers)
                except Exception as error:
                    graph.error = graph.error or f"{type(error).__name__}: {first_line(error)}"
                    graph.parsed[step] = scene_graphs.parse(step, "", numbers=numbers)
            waiting = [graph for graph in waiting if graph.parsed[TUPLES].entries]

    def questions(self, graph: _Graph) -> tuple[list[GraphQuestion], list[LineFault]]:
        """Return the questions about a text, and the faulty lines of the answers."""
        entries = {step: graph.parsed[step].entries if step in graph.parsed else {} for step in STEPS}
        questions, missing = from_answers(graph.set_id, entries[TUPLES], entries[QUESTIONS], entries[PARENTS])
        faults = [fault for parsed in graph.parsed.values() for fault in parsed.faults] + missing
        if not questions:
            faults.append(LineFault(TUPLES, 0, NO_QUESTIONS, graph.error or graph.text))
        return questions, faults

    def _answers(self, step: str, graphs: Iterable[_Graph]) -> list[str | ScoringError]:
        """Return the model's answers; one that reached the token limit loses its last line."""
        asked = list(graphs)
        prompts = [
            self.chat.encode([self._prompt(step, graph)], [], system=self.instructions.system) for graph in asked
        ]
        seeds = [[sample_seed(self.settings.seed, f"{step}\x1f{graph.set_id}", 0)] for graph in asked]
        answers: list[str | ScoringError] = []
        for result in self.engine.generate(prompts, seeds=seeds, sampling=self.settings.sampling) if asked else ():
            if isinstance(result, ScoringError):
                answers.append(result)
                continue
            text = self.chat.written(result[0].tokens).answer
            is_cut = result[0].finish_reason == "length"
            answers.append(text.rpartition("\n")[0] if is_cut else text)
        return answers

    def _prompt(self, step: str, graph: _Graph) -> str:
        tuples = "" if step == TUPLES else graph.tuples
        return self.instructions.prompt(step, self.chat.as_data(graph.text), self.chat.as_data(tuples))


_SAYS = {
    "unparsed": "not a line of this step's form",
    "duplicate_number": "an earlier line has this number",
    "unknown_number": "no tuple has this number",
    "no_question": "the model wrote no question about this tuple",
    NO_QUESTIONS: f"no question could be read from the answers; status {Status.UNPARSED.value}",
}


def read_units(source: TableSource, *, role: str, unit_rows: int) -> CompactList[Unit]:
    """Return units of at most `unit_rows` distinct texts with a role, in the table's order; holds their hashes.

    Raises:
        InputError: no text has the role.
    """
    units = CompactList(_units(source, role, unit_rows))
    if not len(units):
        why = f"no text of {source.uri} has this role"
        raise InputError(why, key="role", value=role, remedy="name the role of the texts to ask about")
    return units


def _units(source: TableSource, role: str, unit_rows: int) -> Iterator[Unit]:
    seen: set[str] = set()
    texts: list[tuple[str, str]] = []
    for batch in source.batches(["role", "text"]):
        for row in batch.to_pylist():
            if row["role"] != role or not (row["text"] or "").strip():
                continue
            set_id = set_id_of(row["text"])
            if set_id not in seen:
                seen.add(set_id)
                texts.append((set_id, row["text"]))
            if len(texts) == unit_rows:
                yield _unit(source, texts)
                texts = []
    if texts:
        yield _unit(source, texts)


def _unit(source: TableSource, texts: list[tuple[str, str]]) -> Unit:
    name = content_id("questions", *(set_id for set_id, _ in texts))
    return Unit(name, (source.whole(),), rows=len(texts), extra={TEXTS: texts})
