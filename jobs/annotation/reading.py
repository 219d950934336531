"""Settings of the readers of people's files: the mapping of columns or fields, and the questions."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

from actors.rubrics.people import FreeText
from jobs.annotation.questionnaire import Questionnaire
from jobs.annotation.span_labels import SpanLabels
from jobs.errors import InputError

REMARK = "remark_"  # prefix of the controls for free text, which keeps their names apart from other fields
OWN = "own_questions"  # field of a task: the item's own questions; the controls of their answers are OWN_0, OWN_1, …


@dataclass
class RatingColumns:
    """The column of each role; null: the column of the same name, if there is one. a+b joins two columns with `/`."""

    item_id: str | None = None  # the picture or item: `items=` says whose ids these are
    rater: str | None = None  # who answered
    value: str | None = None  # long form: the answers
    question: str | None = None  # long form: names or texts of the questions
    # wide form, and tools: {question: its column or control}; of a file, also {question: {target: its column, …}}
    questions: Any = None
    remarks: Any = None  # table=remarks: {field for free text: its column or control}
    target: str | None = None  # the target that the item was rated against
    condition: str | None = None  # experimental condition
    order: str | None = None  # rarely: place of the answer in the rater's task
    sample: str | None = None  # rarely: number of a repeated answer by the same rater
    comment: str | None = None  # rarely: free text next to an answer
    seconds: str | None = None  # rarely: time that the answer took
    time: str | None = None  # rarely: ISO 8601 or seconds since 1970; orders repeated answers
    skipped: str | None = None  # rarely: yes where the person skipped the item
    reported: str | None = None  # rarely: yes where the person reported the picture
    country: str | None = None  # rarely: table=raters: country of the rater
    pool: str | None = None  # rarely: table=raters: where the rater was recruited
    experience: str | None = None  # rarely: table=raters: experience of the rater
    text_id: str | None = None  # rarely: table=spans: the text in which the span is marked
    kind: str | None = None  # rarely: table=spans: kind of the span
    start: str | None = None  # rarely: table=spans: its first character
    end: str | None = None  # rarely: table=spans: the character after its last
    category: str | None = None  # rarely: table=spans: kind of mistake
    score: str | None = None  # rarely: table=spans: severity of the mistake
    # rarely: table=spans: probability that the span is a mistake or omission; below 0.5 it is not marked
    probability: str | None = None


MAPPINGS = ("questions", "remarks")  # fields of RatingColumns that map names to columns


@dataclass(frozen=True)
class Reading:
    """Settings for reading a file of rows, or the tasks in a tool's export.

    Attributes:
        table: ratings, spans, remarks or raters.
        columns: columns of a file; of a tool's export, the fields of a task and the controls of questions.
        question: the question of rows or tasks that name none.
        rater: the rater of rows or tasks that name none.
        rater_from: of a tool's export: `annotator`, the person who answered according to the tool, or `assigned`, the
            person to whom the task was assigned.
        free_texts: the fields to read for table=remarks.
        span_labels: the kinds and labels that table=spans may have; None: any.
        limit: how many rows or tasks of a file are read, from the first one; None: all.
        private: keep cells, and the text of lines, out of rejects.
    """

    table: str
    columns: RatingColumns = field(default_factory=RatingColumns)
    questionnaire: Questionnaire | None = None
    question: str | None = None
    rater: str | None = None
    rater_from: str = "annotator"
    free_texts: Sequence[FreeText] = ()
    span_labels: SpanLabels | None = None
    encoding: str | None = None
    delimiter: str | None = None
    limit: int | None = None
    private: bool = False

    @cached_property
    def fields(self) -> dict[str, str]:
        """The field of a task's data for each role that has another name there."""
        return {role: name for role, name in asdict(self.columns).items() if isinstance(name, str)}

    def questions(self, data: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the questions of a task: its own list, else the mapped ones, else the rubric's.

        Raises:
            InputError: the task is of another rubric, or has a question that the rubric does not have.
        """
        questionnaire = self.questionnaire
        if questionnaire and questionnaire.names and (rubric := data.get("rubric")) and rubric != questionnaire.name:
            raise InputError(f"the tasks are of rubric {rubric!r}; set rubric={rubric}", key="rubric")
        names = data.get("questions")
        if isinstance(names, list) and names:
            questions = tuple(map(str, names))
        else:
            questions = tuple(self.columns.questions or ()) or (questionnaire.asked if questionnaire else ())
        if questionnaire and (
            unknown := next((name for name in questions if questionnaire.question(name) is None), None)
        ):
            raise InputError(f"the tasks ask {unknown!r}; it has {', '.join(questionnaire.sets)}", key="rubric")
        return questions

    def controls_of(self, data: Mapping[str, Any]) -> dict[str, str]:
        """Return the name of each question's control, for the questions of a task.

        Raises:
            InputError: as for `questions`.
        """
        names = self.questions(data)
        if isinstance(entries := data.get(OWN), list):
            places = {str(entry.get("question_id")): n for n, entry in enumerate(entries) if isinstance(entry, Mapping)}
            return {name: f"{OWN}_{places[name]}" if name in places else name for name in names}
        return {name: (self.columns.questions or {}).get(name, name) for name in names}

    def text_control(self, free_text: str) -> str:
        """Return the name of the control, or of the field of a task, that holds a free text."""
        return (self.columns.remarks or {}).get(free_text, f"{REMARK}{free_text}")

    def get(self, data: Mapping[str, Any], name: str) -> Any:
        """Return the field `name` of a task, or the field that replaces it; `a.b` is the field b of the field a."""
        value: Any = data
        for part in self.fields.get(name, name).split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        return value
