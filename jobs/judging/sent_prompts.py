"""The prompts about an item, rendered again from the rubric that is kept with its ratings."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jinja2
import pyarrow as pa

from actors.rubrics.pieces import Piece
from actors.rubrics.prompts import Prompt, PromptBuilder
from actors.rubrics.rubric import Rubric
from actors.rubrics.rubric_questions import ANY
from jobs.judging.kept_rubric import KeptRubric, Rubrics
from jobs.store.object_rows import SharedLookup
from jobs.store.reading import TableSource
from jobs.tables import TABLES


class SentPrompt(NamedTuple):
    """The text that all prompts of a rubric about an item share, and the end of each: (question and target, text)."""

    rubric: str
    system: str
    shared: str
    ends: list[tuple[str, str]]


class PromptTexts:
    """Renders prompts with the fields of records, texts and attributes, as `judge` does with its default layout.

    A rubric from which no prompt can be rendered (answers without a rubric, templates of encoders) has no prompts.
    """

    def __init__(self, rubrics: Rubrics, records: Sequence[TableSource]) -> None:
        self._builders = {
            kept.name: builder for kept in rubrics.by_name.values() if (builder := _builder(kept)) is not None
        }
        fields = {field for builder in self._builders.values() for field in builder.rubric.context_fields}
        columns = sorted(fields & set(TABLES["records"].columns))
        self.record_columns = columns  # columns that the prompts show
        self._records = [
            SharedLookup([footer.object for footer in source.footers], key="image_id", columns=columns)
            for source in (records if columns else ())
        ]

    def of_item(
        self, image_id: str, context: Mapping[str, str], asked: Sequence[tuple[str, str, str]], *, pictures: int = 1
    ) -> list[SentPrompt]:
        """Return the prompts of each rubric.

        Args:
            context: texts by role and attributes of the item, which take precedence over the record's columns.
            asked: the rubric, question and target of each prompt.
            pictures: how many the item shows.
        """
        record = self._record(image_id) if self._builders else {}
        prompts = []
        for name, builder in self._builders.items():
            names = {question.name for question in builder.rubric.questions} - {ANY}
            lines = dict.fromkeys((question, target) for rubric, question, target in asked
                                  if rubric == name and question in names)  # fmt: skip
            pairs = [(target, builder.rubric.question(question)) for question, target in lines]
            if not pairs:
                continue
            try:
                rendered = builder.prompts_about({**record, **context}, pairs)
            except jinja2.TemplateError:
                continue
            first = rendered[0].prompt
            shared = "".join(_piece_text(piece, pictures) for piece in first.shared)
            ends = [
                (f"{request.question.name} {request.target}".strip(), _end_text(request.prompt)) for request in rendered
            ]
            prompts.append(SentPrompt(name, first.system, shared.strip(), ends))
        return prompts

    def _record(self, image_id: str) -> dict[str, str]:
        for lookup in self._records:
            for row in lookup.rows(pa.array([image_id], pa.string())).to_pylist():
                return as_context(row)
        return {}


def as_context(row: Mapping[str, Any]) -> dict[str, str]:
    """Return the fields of a record as texts, without fields that it lacks."""
    return {name: _text(value) for name, value in row.items() if value is not None}


def _end_text(prompt: Prompt) -> str:
    """Return the text that differs between the prompts of a request: the suffix, and the start of the answer."""
    return f"{prompt.suffix}\n{prompt.start}".strip()


def _piece_text(piece: Piece, pictures: int) -> str:
    if isinstance(piece, str):
        return piece
    if pictures == 1:
        return "[picture]\n\n"
    return "[all pictures]\n\n" if piece is None else f"[picture {piece}]\n\n"


def _text(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _builder(kept: KeptRubric) -> PromptBuilder | None:
    if kept.kind != "rubric" or not kept.data.get("questions"):
        return None
    try:
        return PromptBuilder(Rubric.from_dict(dict(kept.data)))
    except (ValueError, jinja2.TemplateError):  # written by another version
        return None
