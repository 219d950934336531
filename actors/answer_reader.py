"""Responses that were to be JSON, read as ratings; no model is asked."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from actors import schemas
from actors.status import Status
from actors.vlm.parsing import ParsedAnswer, parse_answers
from actors.vlm.ratings import rating_table
from actors.vlm.rubric import Rubric

METHOD = "json"
READ = (Status.OK, Status.TRUNCATED)  # of the texts that are there, those in which an answer is looked for
ANSWER_CUT = "answer_cut"


class AnswerReader:
    """Reads what models wrote under a rubric's questions.

    Args:
        rubric: as its YAML file reads (`actors.vlm.rubric`).

    Raises:
        ValueError: a rubric that cannot be used, or one about targets, which one answer a question cannot hold.
    """

    INPUTS = schemas.WRITTEN_ANSWERS
    OUTPUTS = schemas.RATINGS

    def __init__(self, *, rubric: Mapping[str, Any]) -> None:
        self.rubric = Rubric.from_dict(rubric)
        if self.rubric.asks_targets:
            raise ValueError(f"rubric {self.rubric.name!r} asks about targets; a JSON answer holds one a question")

    def __call__(self, batch: pa.Table) -> pa.Table:
        """Read a batch.

        Args:
            batch: of table `responses`: `item_id`, `model`, `prompt`, `sample`, `text`, `status`, `error_kind`,
                `error_message`.

        Returns:
            Table `ratings`: responses in the batch's order, questions inside.
        """
        return rating_table([row for response in batch.to_pylist() for row in self._rows(response)])

    def _rows(self, response: Mapping[str, Any]) -> list[dict[str, Any]]:
        status = Status(response["status"])
        cut = {"status": status.value, "error_kind": response["error_kind"], "error_message": response["error_message"]}
        found: dict[str, ParsedAnswer] = {}
        # A context that was cut makes every answer truncated; an answer that was cut only those behind the cut.
        if status in READ and (status is Status.OK or response["error_kind"] == ANSWER_CUT):
            found = parse_answers(response["text"], self.rubric.questions)
        rows = []
        for question in self.rubric.questions:
            key = {
                "item_id": response["item_id"],
                "target": "",
                "rubric": self.rubric.name,
                "question": question.name,
                "rater": response["model"],
                "condition": "",
                "method": METHOD,
                "order": response["prompt"] or "",
                "sample": response["sample"],
                "answers": [answer.value for answer in question.answers],
            }
            parsed = found.get(question.name)
            if parsed is not None and parsed.answer is not None:
                made = {"value": parsed.answer.value, "score": parsed.answer.score, "status": Status.OK.value}
            elif parsed is not None and status is Status.OK:
                kind, message = parsed.kind, parsed.message
                made = {"status": parsed.status.value, "error_kind": kind, "error_message": message}
            else:
                made = cut
            raw = None if made["status"] == Status.OK else response["text"]
            rows.append(key | made | {"raw": raw})
        return rows
