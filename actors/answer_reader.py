"""Read ratings from models' JSON answers, without running a model."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from actors import schemas
from actors.errors import FileError
from actors.rubrics.parsing import ParsedAnswer, parse_answers
from actors.rubrics.rubric import Rubric
from actors.schemas import RatingRow, ended, failed
from actors.status import Status
from actors.vlm.errors import ScoringError
from actors.vlm.ratings import rating_key, rating_table

METHOD = "json"


class AnswerReader:
    """Actor that parses the JSON answers to a rubric's questions.

    Args:
        rubric: the content of its YAML file (`actors.rubrics.rubric`).
        condition: experimental condition of the ratings; if empty, the condition of the responses.

    Raises:
        ValueError: the rubric is invalid, or asks about targets (a JSON answer holds one value per question).
    """

    INPUTS = schemas.WRITTEN_ANSWERS
    OUTPUTS = schemas.RATINGS

    def __init__(self, *, rubric: Mapping[str, Any], condition: str = "") -> None:
        self.condition = condition
        self.rubric = Rubric.from_dict(rubric)
        if self.rubric.asks_own_questions:
            raise FileError.of("rubric", self.rubric.name, "asks each item its own questions; use another rubric")
        if self.rubric.asks_targets:
            raise FileError.of(
                "rubric", self.rubric.name, "asks about targets, but a JSON answer holds one value per question"
            )

    def __call__(self, batch: pa.Table) -> pa.Table:
        """Parse a batch.

        Args:
            batch: rows of table `responses`: `item_id`, `model`, `prompt`, `condition`, `sample`, `text`, `truncated`,
                `empty_context`, `status`, `error_kind`, `error_message`.

        Returns:
            The table `ratings`: responses in the batch's order, one row per question. If an answer cannot be
            determined, its row has the response's text in `raw`.
        """
        return rating_table([row for response in batch.to_pylist() for row in self._rows(response)])

    def _rows(self, response: Mapping[str, Any]) -> list[RatingRow]:
        status = Status(response["status"])
        is_readable = status in (Status.OK, Status.TRUNCATED)  # a truncated text may still contain a complete object
        parsed: dict[str, ParsedAnswer] = {}
        if is_readable:
            parsed = parse_answers(response["text"], self.rubric.questions)
        rows: list[RatingRow] = []
        for question in self.rubric.questions:
            key = rating_key(
                item_id=response["item_id"],
                rubric=self.rubric.name,
                question=question.name,
                rater=response["model"],
                condition=self.condition or response["condition"] or "",
                method=METHOD,
                order=response["prompt"] or "",
                sample=response["sample"],
            )
            result = parsed.get(question.name)
            columns: RatingRow = ended(RatingRow, response)
            if result is not None and result.answer is not None:
                columns = {
                    "value": result.answer.value,
                    "score": result.answer.score,
                    "truncated": response["truncated"],
                    "status": Status.OK.value,
                }
            elif result is not None and status is Status.OK:
                columns = failed(RatingRow, result.status, ScoringError(result.kind or "", result.message or ""))
            raw = None if columns["status"] == Status.OK else response["text"]
            values = [answer.value for answer in question.answers]
            more: RatingRow = {"answers": values, "raw": raw, "empty_context": response["empty_context"]}
            rows.append({**key, **columns, **more})
        return rows
