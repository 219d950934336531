"""Prepare an instruction's prompts about items as a model's inputs, on CPUs and without weights."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from actors import schemas
from actors.errors import first_line
from actors.fetching.decoders import PictureReader
from actors.items import EMPTY_CONTEXT, TARGETS, count_pictures, count_prompt, skip_reason
from actors.pictures import PictureError
from actors.rows import PreparedPromptRow, failed
from actors.rubrics.instructions import Instruction, QuestionWords
from actors.status import Status
from actors.vlm import context, errors
from actors.vlm.chat import ChatEncoder
from actors.vlm.errors import ScoringError
from actors.vlm.loading import load_config, load_processor
from actors.vlm.model_inputs import to_bytes
from actors.vlm.settings import ContextSettings, ModelSettings


class PromptPreparer:
    """Actor that decodes an item's pictures and tokenises its prompt, the first stage of `generate` and `loglik`.

    Args:
        settings: limits of the context.
        model: the model whose processor is used.
        instruction: the content of its YAML file (`actors.rubrics.instructions`).
        questions: the rubric's questions, for an instruction that asks them.
        answer_tokens: positions to reserve for the text after the prompt; at most a quarter of the model's.
        keeps_pictures: whether the inputs have the pictures themselves, for vLLM.

    Raises:
        ValueError: the instruction is invalid, the model has no processor, or the instruction shows pictures and the
            model does not accept them.
    """

    INPUTS = schemas.ITEMS  # also the instruction's context fields (strings)
    OUTPUTS = schemas.PREPARED_PROMPTS

    def __init__(
        self,
        settings: ContextSettings,
        *,
        model: ModelSettings,
        instruction: Mapping[str, Any],
        questions: Sequence[QuestionWords] = (),
        answer_tokens: int = 0,
        keeps_pictures: bool = False,
    ) -> None:
        self.instruction = Instruction.from_dict(instruction)
        self.required_fields = self.instruction.context_fields if settings.empty_context == "skip" else ()
        processor = load_processor(model.checkpoint, revision=model.revision)
        config = load_config(model.checkpoint, revision=model.revision)
        self.chat = ChatEncoder(processor, bounds=model.bounds, config=config, keeps_pictures=keeps_pictures)
        if self.instruction.shows_picture and not self.chat.sees_pictures:
            raise ValueError(
                f"model.checkpoint={model.checkpoint}: does not accept pictures, and prompt {self.instruction.name!r} "
                "shows one; use a vision-language model, or a prompt whose order has no `picture`"
            )
        words = {"questions": list(questions)}
        self._words = {name: value for name, value in words.items() if name in self.instruction.words}
        positions = getattr(config.get_text_config(), "max_position_embeddings", None)
        self.context_limit = settings.max_context_tokens
        self.token_budget = context.token_budget(positions, answer_tokens)
        self._tally: Counter[str] = Counter()
        self._read = PictureReader()

    def __call__(self, batch: pa.Table) -> pa.Table:
        """Prepare a batch.

        Args:
            batch: `item_id`; `pictures: list<large_binary>`, encoded; `status` of the pictures, ok if there are none;
                the instruction's context fields as strings, null for empty; `targets: list<string>`, the item's labels,
                which are passed on.

        Returns:
            One row per item; `inputs` is null unless the status is ok.
        """
        rows: list[PreparedPromptRow] = []
        for number in range(batch.num_rows):  # one by one, to hold only one item's pictures in memory
            (item,) = batch.slice(number, 1).to_pylist()
            row = self._row(item)
            row["item_id"], row["targets"] = item["item_id"], item.get(TARGETS)
            row["empty_context"] = item.get(EMPTY_CONTEXT)
            rows.append(row)
        return schemas.to_table(rows, self.OUTPUTS)

    def take_tally(self) -> dict[str, int]:
        """Return the counts since the last call, `group/key` -> n: pictures, their tokens, items cut."""
        tally, self._tally = dict(self._tally), Counter()
        return tally

    def _row(self, item: Mapping[str, Any]) -> PreparedPromptRow:
        pictures = self.instruction.picture_count
        if reason := skip_reason(item, pictures=pictures, required_fields=self.required_fields):
            return failed(PreparedPromptRow, *reason)
        try:
            return self._prepared(item)
        except PictureError as error:
            return failed(PreparedPromptRow, Status.ERROR, ScoringError(error.kind, first_line(error)))
        except Exception as error:
            return failed(PreparedPromptRow, Status.ERROR, errors.reason(error))

    def _prepared(self, item: Mapping[str, Any]) -> PreparedPromptRow:
        """Return the prompt's inputs, with the context truncated until prompt and answer fit the model's positions."""
        pictures = [self._read(data) for data in item["pictures"]] if self.instruction.shows_picture else []

        def encode(texts: dict[str, str]) -> tuple[dict[str, Any], int]:
            inputs = self.chat.encode(
                self.instruction.render(texts, **self._words),
                pictures,
                start=self.instruction.begin(**self._words),
                system=self.instruction.render_system(texts, **self._words),
            )
            return inputs, 0 if self.token_budget is None else int(inputs["input_ids"].shape[1]) - self.token_budget

        inputs, truncated = context.fitted(
            item,
            encode,
            fields=self.instruction.context_fields,
            first=self.instruction.context_cut,
            limit=self.context_limit,
            by=self.chat,
        )
        count_pictures(self._tally, len(pictures), self.chat.picture_tokens(inputs))
        count_prompt(self._tally, item, truncated=truncated, moves_system=self.chat.moves_system)
        return {"status": Status.OK.value, "truncated": truncated, "inputs": to_bytes(inputs)}
