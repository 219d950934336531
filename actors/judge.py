"""The stage that judges: a batch of pictures in, their ratings under one rubric by one model out."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from actors.pictures import PictureError, decode_rgb
from actors.status import Status
from actors.vlm.loading import load_vlm, model_facts
from actors.vlm.prompts import Asked, PromptBuilder, cut_context
from actors.vlm.ratings import METHOD, distribution, failed, rating_table, scored
from actors.vlm.rubric import Rubric
from actors.vlm.scoring import ClosedSetScorer, EngineError, Request, Scores, ScoringError

# An encyclopaedia's section is seldom longer than 2,000 tokens, so that a cut stays rare.
MAX_CONTEXT_TOKENS = 8192
# Of the positions a model has, the context may take half: pictures of some models take thousands themselves.
CONTEXT_SHARE = 2
COLUMNS = ("item_id", "bytes", "status")


class Judge:
    """Asks one model every question of a rubric about every picture of a batch, against every target.

    Args:
        model: hub name, folder or `local:NAME`, with `revision`, `dtype`, `device_map` as `load_vlm` takes them.
        rubric: a rubric as its YAML file reads (`actors.vlm.rubric`).
        layout: one of the rubric's layouts; its default if None.
        rater: name in column `rater`; `model@revision` if None.
        max_context_tokens: a longer context is cut at the article's end and its rows become `truncated`;
            never more than half of the positions that the model has.
        threads: of torch, on a CPU; torch's own choice if None.

    Raises:
        ValueError: a rubric, layout or model that cannot be used, or an answer code the model does not write as
            one token.
    """

    def __init__(
        self,
        *,
        model: str,
        rubric: Mapping[str, Any],
        revision: str | None = None,
        dtype: str = "auto",
        device_map: str = "auto",
        layout: str | None = None,
        rater: str | None = None,
        max_context_tokens: int = MAX_CONTEXT_TOKENS,
        threads: int | None = None,
    ) -> None:
        import torch

        self.rubric = Rubric.from_dict(rubric)
        self.targets = _targets(self.rubric)
        self.builder = PromptBuilder(self.rubric, layout=layout)
        if max_context_tokens < 1:
            raise ValueError(f"max_context_tokens is {max_context_tokens}; it must be at least 1")
        if threads is not None:
            torch.set_num_threads(threads)
        loaded, processor = load_vlm(model, revision=revision, dtype=dtype, device_map=device_map)
        facts = model_facts(loaded, model=model, revision=revision)
        self.facts = facts._replace(rater=rater or facts.rater)
        self.scorer = ClosedSetScorer(loaded, processor)
        for question in self.rubric.questions:
            self.scorer.check_codes(question.codes)
        positions = self.scorer.max_tokens
        self.context_limit = min(max_context_tokens, positions // CONTEXT_SHARE if positions else max_context_tokens)

    @staticmethod
    def rows_per_item(rubric: Mapping[str, Any]) -> int:
        """Rows that one picture becomes under `rubric`: questions x targets; no model is loaded.

        Raises:
            ValueError: a rubric that is not valid.
        """
        checked = Rubric.from_dict(rubric)
        return len(checked.questions) * len(_targets(checked))

    def __call__(self, batch: pa.Table) -> pa.Table:
        """Judge a batch.

        Args:
            batch: `item_id: string`, `bytes: large_binary` (an encoded picture, may be null), `status: string` (of the
                picture), and any of the rubric's context fields as strings; a field that is absent or null is empty.

        Returns:
            Table `ratings`: items in the batch's order; for each, targets outside and questions inside.

        Raises:
            ValueError: a column that is not there.
            EngineError: the device failed; nothing of this batch is recorded.
        """
        if missing := [name for name in COLUMNS if name not in batch.column_names]:
            raise ValueError(f"no column {missing[0]!r} in the batch; needed are {', '.join(COLUMNS)}")
        wanted = [name for name in batch.column_names if name in {*COLUMNS, *self.rubric.context_fields}]
        rows: list[dict[str, Any]] = []
        for start in range(batch.num_rows):  # one by one, so that one picture is in memory at a time
            (item,) = batch.slice(start, 1).select(wanted).to_pylist()
            rows += self._item(item)
        return rating_table(rows)

    def _item(self, item: dict[str, Any]) -> list[dict[str, Any]]:
        if item["status"] != Status.OK or item["bytes"] is None:
            if item["status"] == Status.REPORTED:
                return self._all_failed(item, Status.REPORTED, ScoringError("excluded", "the picture may not be used"))
            reason = ScoringError("no_picture", f"the picture's status is {item['status']}")
            if item["status"] == Status.OK:
                reason = ScoringError("no_picture", "the picture has no bytes")
            return self._all_failed(item, Status.MISSING_INPUT, reason)
        try:
            return self._judged(item)
        except EngineError:
            raise
        except PictureError as error:
            return self._all_failed(item, Status.ERROR, ScoringError(error.kind, _first_line(error)))
        except Exception as error:
            return self._all_failed(item, Status.ERROR, ScoringError(type(error).__name__, _first_line(error)))

    def _judged(self, item: dict[str, Any]) -> list[dict[str, Any]]:
        picture = decode_rgb(item["bytes"])
        texts = {field: self.scorer.as_data(item.get(field) or "") for field in self.rubric.context_fields}
        context, given, kept = cut_context(
            texts, rubric=self.rubric, limit=self.context_limit, count=self.scorer.token_starts
        )
        asked = self.builder.prompts(context, targets=self.targets)
        results = self.scorer.score([Request(each.prompt, picture, each.question.codes) for each in asked])
        cut = ScoringError("context_cut", f"{kept} of {given} tokens of context kept") if kept < given else None
        return [
            self._key(item, target=each.target, question=each.question.name) | _columns(each, result, cut=cut)
            for each, result in zip(asked, results, strict=True)
        ]

    def _all_failed(self, item: dict[str, Any], status: Status, reason: ScoringError) -> list[dict[str, Any]]:
        return [
            self._key(item, target=target, question=question.name) | failed(status, reason)
            for target in self.targets
            for question in self.rubric.questions
        ]

    def _key(self, item: dict[str, Any], *, target: str, question: str) -> dict[str, Any]:
        return {
            "item_id": item["item_id"],
            "target": target,
            "rubric": self.rubric.name,
            "question": question,
            "rater": self.facts.rater,
            "condition": "",
            "method": METHOD,
            "order": self.builder.layout,
            "sample": 0,
        }


def _columns(asked: Asked, result: Scores | ScoringError, *, cut: ScoringError | None) -> dict[str, Any]:
    if isinstance(result, ScoringError):
        return failed(Status.ERROR, result)
    if cut:
        return distribution(asked.question, result) | failed(Status.TRUNCATED, cut)
    return scored(asked.question, result)


def _targets(rubric: Rubric) -> tuple[str, ...]:
    if rubric.asks_targets and not rubric.targets:
        raise ValueError(f"rubric {rubric.name!r} asks about targets and names none; give it `targets`")
    return rubric.targets or ("",)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [""])[0]
