"""Ratings from how likely a model is to name a label (CAIRE, appendix B.1); prompts come from `PromptPreparer`."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from actors import schemas
from actors.generator import pad_token
from actors.status import Status
from actors.vlm.debiasing import DebiasSetting, check_settings, debias
from actors.vlm.encoding import ChatEncoder, from_bytes
from actors.vlm.errors import ScoringError
from actors.vlm.instructions import Instruction
from actors.vlm.loading import load_vlm, model_facts
from actors.vlm.loglik import CompletionScorer
from actors.vlm.ratings import rating_table

METHOD = "loglik"
QUESTION = "relevance"


class LoglikRater:
    """Scores every label behind each prepared prompt, under each way to debias.

    A label's base rate is its likelihood behind the same instruction without picture and context; it is computed once
    a model and label, when the first prompt comes.

    Args:
        model, revision, dtype, device_map: as `load_vlm` takes them.
        instruction: as its YAML file reads; it has a `start`, behind which a label stands after a space.
        targets: labels.
        settings: lambda and threshold of each way to debias.
        threads: of torch, on a CPU; torch's own choice if None.

    Raises:
        ValueError: an instruction without a start, a setting that means nothing, or a label whose tokens cannot be
            told from the start's.
    """

    INPUTS = schemas.PREPARED_PROMPTS
    OUTPUTS = schemas.RATINGS

    def __init__(
        self,
        *,
        model: str,
        instruction: Mapping[str, Any],
        targets: Sequence[str],
        settings: Sequence[tuple[float, float]],
        revision: str | None = None,
        dtype: str = "auto",
        device_map: str = "auto",
        threads: int | None = None,
    ) -> None:
        import torch

        self.instruction = Instruction.from_dict(instruction)
        check_start(self.instruction)
        self.settings = [DebiasSetting(*each) for each in settings]
        check_settings(self.settings)
        if threads is not None:
            torch.set_num_threads(threads)
        loaded, processor = load_vlm(model, revision=revision, dtype=dtype, device_map=device_map)
        self.chat = ChatEncoder(processor)
        self.scorer = CompletionScorer(loaded, pad_id=pad_token(self.chat, loaded))
        self.facts = model_facts(loaded, model=model, revision=revision)
        self.rater, self._items = self.facts.rater, 0
        self.targets = tuple(targets)
        self._start = self.instruction.begin()
        self._completions = [self.chat.continuation(self._start, f" {target}") for target in self.targets]
        self._base: np.ndarray | None = None

    def __call__(self, batch: pa.Table) -> pa.Table:
        """Rate a batch.

        Args:
            batch: what `PromptPreparer` returns.

        Returns:
            Table `ratings`: items in the batch's order, targets inside, settings (column `condition`) innermost.

        Raises:
            EngineError: the device failed; nothing of this batch is recorded.
            ValueError: the model gives no base rates.
        """
        rows = []
        for item in batch.to_pylist():
            ended = {name: item[name] for name in ("status", "error_kind", "error_message")}
            scores: list[float] | ScoringError | None = None
            if item["status"] == Status.OK:
                scores = self.scorer.score(from_bytes(item["inputs"]), self._completions)
            if isinstance(scores, ScoringError):
                ended = {"status": Status.ERROR.value, "error_kind": scores.kind, "error_message": scores.message}
                scores = None
            rows += self._rows(item["item_id"], scores, ended)
        self._items += batch.num_rows
        return rating_table(rows)

    def take_tally(self) -> dict[str, int]:
        """Items since the last call, under what ran the model (`RaterFacts.tally`)."""
        items, self._items = self._items, 0
        return {self.facts.tally: items}

    def _rows(self, item: str, scores: list[float] | None, ended: dict[str, Any]) -> list[dict[str, Any]]:
        made = [self._key(item, target, setting) | ended for target in self.targets for setting in self.settings]
        if scores is None:
            return made
        base = self.base_rates()
        debiased = np.stack([debias(np.array(scores), base, setting) for setting in self.settings], axis=1)
        for row, score in zip(made, debiased.ravel().tolist(), strict=True):
            row["score"], row["value"] = score, f"{score:.6g}"
        return made

    def base_rates(self) -> np.ndarray:
        """Log-likelihood of each label where there is nothing to go by, [targets] float64.

        Raises:
            ValueError: the model gives none.
        """
        if self._base is None:
            pieces = [piece for piece in self.instruction.render({}) if piece is not None]
            inputs = self.chat.encode(pieces or [""], [], start=self._start)
            scores = self.scorer.score(inputs, self._completions)
            if isinstance(scores, ScoringError):
                raise ValueError(f"no base rates of the labels: {scores.message}")
            self._base = np.array(scores)
        return self._base

    def _key(self, item: str, target: str, setting: DebiasSetting) -> dict[str, Any]:
        return {
            "item_id": item,
            "target": target,
            "rubric": self.instruction.name,
            "question": QUESTION,
            "rater": self.rater,
            "condition": setting.name,
            "method": METHOD,
            "order": "",
            "sample": 0,
        }


def check_start(instruction: Instruction) -> None:
    """Refuse an instruction that does not begin the model's turn.

    Raises:
        ValueError: naming it.
    """
    if not instruction.start.strip():
        raise ValueError(f"prompt {instruction.name!r} has no start, behind which a label could stand")
    if instruction.start != instruction.start.rstrip():
        raise ValueError(f"prompt {instruction.name!r}: start ends in white space; the label follows after a space")
