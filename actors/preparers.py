"""Prepare prompts about items as a model's inputs, on CPUs and without weights: the first stages of jobs with a model.

`RubricPreparer` prepares the prompts of `judge`, `PromptPreparer` those of `generate` and `loglik`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import pyarrow as pa

from actors import schemas
from actors.errors import SettingError, first_line
from actors.fetching.decoders import PictureReader
from actors.items import (
    EMPTY_CONTEXT,
    NO_QUESTIONS,
    NO_TARGET,
    QUESTIONS,
    TARGETS,
    asked_pairs,
    default_targets,
    item_targets,
    skip_reason,
)
from actors.pictures import PictureError
from actors.rubrics.instructions import Instruction, QuestionWords
from actors.rubrics.prompts import PromptBuilder
from actors.rubrics.rubric import Rubric
from actors.rubrics.rubric_questions import Question
from actors.schemas import PreparedPromptRow, PreparedQuestionsRow, failed
from actors.status import Status
from actors.tallies import TallyingStage
from actors.vlm import context, errors
from actors.vlm.chat import Chat, ChatEncoder, PromptTokens
from actors.vlm.chat_format import ChatFormat
from actors.vlm.errors import ScoringError
from actors.vlm.loading import load_config, load_processor
from actors.vlm.model_inputs import to_bytes
from actors.vlm.settings import ContextSettings, ModelSettings, RubricSettings

PromptsT = TypeVar("PromptsT")


class Preparer(TallyingStage):
    """Base class of stages that prepare items one by one; a subclass implements `_prepared` and `_picture_count`.

    Args:
        settings: limits of the context.
        prompts: the rubric or the instruction, which names the context's fields.
        chat: the model's chat format.
        positions: the model's positions; None: unlimited.
        answer_tokens: positions to reserve for the text after the prompt; at most a quarter of the model's.
    """

    INPUTS = schemas.ITEMS  # also the context fields (strings), and optionally `targets` and `questions`
    OUTPUTS = schemas.PREPARED_PROMPTS
    ROW: type[Any] = PreparedPromptRow

    def __init__(
        self,
        settings: ContextSettings,
        *,
        prompts: Rubric | Instruction,
        chat: ChatFormat,
        positions: int | None,
        answer_tokens: int,
    ) -> None:
        super().__init__()
        self._prompts, self.chat = prompts, chat
        self.required_fields = prompts.context_fields if settings.empty_context == "skip" else ()
        self.context_limit = settings.max_context_tokens
        self.token_budget = context.token_budget(positions, answer_tokens)
        self._read = PictureReader()

    def __call__(self, batch: pa.Table) -> pa.Table:
        """Prepare a batch.

        Args:
            batch: `item_id`; `pictures: list<large_binary>`, encoded, may hold nulls; `status` of the pictures, ok if
                there are none; the context fields as strings, empty if absent or null; `targets: list<string>`, the
                item's labels; `questions` (`actors.schemas.OWN_QUESTIONS`), for a rubric that asks items their own.

        Returns:
            One row per item; its inputs are null unless the status is ok.
        """
        columns = {*schemas.ITEMS.names, TARGETS, QUESTIONS, EMPTY_CONTEXT, *self._prompts.context_fields}
        items = batch.select([name for name in batch.column_names if name in columns])
        rows: list[Mapping[str, Any]] = []
        for number in range(items.num_rows):  # one by one, to hold only one item's pictures in memory
            (item,) = items.slice(number, 1).to_pylist()
            rows.append({**self._row(item), **self._passed_on(item)})
        return schemas.to_table(rows, self.OUTPUTS)

    def _picture_count(self) -> int | None:
        """Return how many pictures the prompts show, as for `skip_reason`."""
        raise NotImplementedError

    def _passed_on(self, item: Mapping[str, Any]) -> dict[str, Any]:
        """Return the columns of an item that the next stage needs."""
        return {name: item.get(name) for name in ("item_id", TARGETS, EMPTY_CONTEXT)}

    def _row(self, item: Mapping[str, Any]) -> Mapping[str, Any]:
        if reason := skip_reason(item, pictures=self._picture_count(), required_fields=self.required_fields):
            return self._failed(*reason)
        try:
            return self._prepared(item)
        except PictureError as error:
            return self._failed(Status.ERROR, ScoringError(error.kind, first_line(error)))
        except Exception as error:
            return self._failed(Status.ERROR, errors.reason(error))

    def _failed(self, status: Status, reason: tuple[str, str]) -> Mapping[str, Any]:
        row: Mapping[str, Any] = failed(self.ROW, status, reason)
        return row

    def _prepared(self, item: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the row of an item that is not skipped."""
        raise NotImplementedError

    def _fitted(
        self, item: Mapping[str, Any], make: Callable[[dict[str, str]], tuple[PromptsT, int]]
    ) -> tuple[PromptsT, list[str] | None]:
        """Return prompts, with the context cut until the longest one fits the model's positions, and the fields cut.

        Args:
            make: returns prompts for a context by field, and the tokens of the longest.
        """

        def excess(texts: dict[str, str]) -> tuple[PromptsT, int]:
            prompts, tokens = make(texts)
            return prompts, 0 if self.token_budget is None else tokens - self.token_budget

        return context.fitted(
            item,
            excess,
            fields=self._prompts.context_fields,
            first=self._prompts.context_cut,
            limit=self.context_limit,
            by=self.chat,
        )

    def _count(
        self, item: Mapping[str, Any], *, pictures: int, inputs: Mapping[str, Any], truncated: list[str] | None
    ) -> None:
        self._count_pictures(pictures, self.chat.picture_tokens(inputs))
        self._count_prompt(
            truncated=truncated, empty_context=item.get(EMPTY_CONTEXT), moves_system=self.chat.moves_system
        )


class PromptPreparer(Preparer):
    """Actor that decodes an item's pictures and tokenises its prompt, the first stage of `generate` and `loglik`.

    Args:
        settings: limits of the context.
        model: the model whose processor is used.
        instruction: the content of its YAML file (`actors.rubrics.instructions`).
        questions: the rubric's questions, for an instruction that asks them.
        answer_tokens: as for `Preparer`.
        keeps_pictures: whether the inputs have the pictures themselves, for vLLM.

    Raises:
        ValueError: the instruction is invalid, the model has no processor, or the instruction shows pictures and the
            model does not accept them.
    """

    chat: ChatEncoder

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
        processor, config, positions = _load(model)
        chat = ChatEncoder(processor, bounds=model.bounds, config=config, keeps_pictures=keeps_pictures)
        if self.instruction.shows_picture and not chat.sees_pictures:
            why = (
                f"does not accept pictures, and prompt {self.instruction.name!r} shows one; use a "
                "vision-language model, or a prompt whose order has no `picture`"
            )
            raise SettingError(why, "model.checkpoint", model.checkpoint)
        words = {"questions": list(questions)}
        self._words = {name: value for name, value in words.items() if name in self.instruction.words}
        super().__init__(
            settings, prompts=self.instruction, chat=chat, positions=positions, answer_tokens=answer_tokens
        )

    def _picture_count(self) -> int | None:
        return self.instruction.picture_count

    def _prepared(self, item: Mapping[str, Any]) -> PreparedPromptRow:
        pictures = [self._read(data) for data in item["pictures"]] if self.instruction.shows_picture else []

        def encode(texts: dict[str, str]) -> tuple[dict[str, Any], int]:
            inputs = self.chat.encode(
                self.instruction.render(texts, **self._words),
                pictures,
                start=self.instruction.begin(**self._words),
                system=self.instruction.render_system(texts, **self._words),
            )
            return inputs, int(inputs["input_ids"].shape[1])

        inputs, truncated = self._fitted(item, encode)
        self._count(item, pictures=len(pictures), inputs=inputs, truncated=truncated)
        return {"status": Status.OK.value, "truncated": truncated, "inputs": to_bytes(inputs)}


class RubricPreparer(Preparer):
    """Actor that decodes an item's pictures and tokenises its prompts, the first stage of `judge`.

    All prompts about an item share their pictures and first tokens, which the result contains only once.

    Args:
        settings: rubric, layout and limits of the context.
        model: the model whose processor is used.
        targets: labels for items without their own; None: the rubric's.
        instruction: text after each question that asks the model to write its reasoning before it answers. A model
            whose prompts open a thought is not asked. The model begins its turn itself, without the rubric's start.
        answer_tokens: as for `Preparer`.
        keeps_pictures: whether the inputs have the pictures themselves, for vLLM.

    Raises:
        ValueError: the model has no processor or no chat template, would answer inside a thought, or its tokens do not
            distinguish the answers.
    """

    OUTPUTS = schemas.PREPARED_QUESTIONS
    ROW = PreparedQuestionsRow

    chat: Chat

    def __init__(
        self,
        settings: RubricSettings,
        *,
        model: ModelSettings,
        targets: Sequence[str] | None = None,
        instruction: str = "",
        answer_tokens: int = 0,
        keeps_pictures: bool = False,
    ) -> None:
        self.rubric = Rubric.from_dict(settings.rubric)
        self.targets = default_targets(self.rubric, targets)
        self.builder = PromptBuilder(self.rubric, layout=settings.layout)
        self.instruction = instruction
        processor, config, positions = _load(model)
        chat = Chat(
            processor,
            name=f"model {model.checkpoint!r}",
            bounds=model.bounds,
            config=config,
            keeps_pictures=keeps_pictures,
        )
        super().__init__(settings, prompts=self.rubric, chat=chat, positions=positions, answer_tokens=answer_tokens)
        self._answer_tokens = {q.name: 0 if instruction else self._longest_answer(q) for q in self.rubric.questions}

    def _picture_count(self) -> int | None:
        return self.rubric.picture_count(self.builder.layout) if self.chat.sees_pictures else 0

    def _passed_on(self, item: Mapping[str, Any]) -> dict[str, Any]:
        return {
            **super()._passed_on(item),
            TARGETS: item_targets(self.rubric, item),
            QUESTIONS: item.get(QUESTIONS),
        }

    def _prepared(self, item: Mapping[str, Any]) -> PreparedQuestionsRow:
        pictures = tuple(map(self._read, item["pictures"])) if self.chat.sees_pictures else ()
        targets = item_targets(self.rubric, item) or self.targets
        if not targets:
            return failed(PreparedQuestionsRow, Status.SKIPPED, NO_TARGET)
        if not (pairs := asked_pairs(self.rubric, item, targets)):
            return failed(PreparedQuestionsRow, Status.SKIPPED, NO_QUESTIONS)

        def tokenise(texts: dict[str, str]) -> tuple[PromptTokens, int]:
            return self._tokenised(texts, pairs, pictures or None)

        (inputs, shared, suffixes), truncated = self._fitted(item, tokenise)
        self._count(item, pictures=len(pictures), inputs=inputs, truncated=truncated)
        return {
            "status": Status.OK.value,
            "truncated": truncated,
            "inputs": to_bytes(inputs),
            "shared": shared,
            "suffixes": suffixes,
        }

    def _tokenised(
        self, texts: dict[str, str], pairs: Sequence[tuple[str, Question]], pictures: tuple[Any, ...] | None
    ) -> tuple[PromptTokens, int]:
        """Return all prompts about an item, and the tokens of the longest one with its answer."""
        questions = self.builder.prompts_about(texts, pairs)
        prompts = [entry.prompt for entry in questions]
        if self.instruction and not self.chat.turn.opened:
            prompts = [replace(p, suffix=f"{p.suffix}\n\n{self.instruction}") for p in prompts]
        tokens = self.chat.tokens(prompts, pictures, thinks=bool(self.instruction))
        lengths = [
            len(suffix) + self._answer_tokens[self.rubric.question(entry.question.name).name]
            for entry, suffix in zip(questions, tokens.suffixes, strict=True)
        ]
        return tokens, tokens.shared + max(lengths)

    def _longest_answer(self, question: Question) -> int:
        """Return the number of tokens of the longest answer.

        The model does not read the last one, but vLLM needs a position for it, and prompts must not depend on the
        engine.
        """
        codes = self.chat.answers(question.codes, start=self.rubric.answer_start)
        return len(codes.bridge) + max(map(len, codes.sequences))


def _load(model: ModelSettings) -> tuple[Any, Any, int | None]:
    """Return a model's processor, its config and its positions (None: unlimited)."""
    processor = load_processor(model.checkpoint, revision=model.revision, variables=model.template)
    config = load_config(model.checkpoint, revision=model.revision)
    return processor, config, getattr(config.get_text_config(), "max_position_embeddings", None)
