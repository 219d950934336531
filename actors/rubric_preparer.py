"""Prepare a rubric's prompts about items as tensors and tokens, on CPUs and without weights."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import pyarrow as pa

from actors import schemas
from actors.errors import first_line
from actors.fetching.decoders import PictureReader
from actors.items import (
    EMPTY_CONTEXT,
    NO_QUESTIONS,
    NO_TARGET,
    QUESTIONS,
    TARGETS,
    count_pictures,
    count_prompt,
    skip_reason,
)
from actors.pictures import PictureError
from actors.rows import PreparedQuestionsRow, failed
from actors.rubric_rater import asked_pairs, default_targets, item_targets
from actors.rubrics.prompts import PromptBuilder
from actors.rubrics.rubric import Rubric
from actors.rubrics.rubric_questions import Question
from actors.status import Status
from actors.vlm import context, errors
from actors.vlm.chat import Chat, PromptTokens
from actors.vlm.errors import ScoringError
from actors.vlm.loading import load_config, load_processor
from actors.vlm.model_inputs import to_bytes
from actors.vlm.settings import ModelSettings, RubricSettings


class PreparedPrompts(NamedTuple):
    """The tokens of all prompts about one item, and the length in tokens of the longest prompt with its answer."""

    tokens: PromptTokens
    longest: int


class RubricPreparer:
    """Actor that decodes an item's pictures and tokenises its prompts, the first stage of `judge`.

    All prompts about an item share their pictures and first tokens, which the result contains only once.

    Args:
        settings: rubric, layout and limits of the context.
        model: the model whose processor is used.
        targets: labels for items without their own; None: the rubric's.
        instruction: text after each question that asks the model to write freely. The beginning of the model's turn
            that the rubric defines is then omitted.
        answer_tokens: positions to reserve for the generated text; at most a quarter of the model's.
        keeps_pictures: whether the inputs have the pictures themselves, for vLLM.

    Raises:
        ValueError: the model has no processor or no chat template, would answer inside a thought, or its tokens do not
            distinguish the answers.
    """

    INPUTS = schemas.ITEMS  # also the rubric's context fields (strings), and optionally `targets`
    OUTPUTS = schemas.PREPARED_QUESTIONS

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
        self.required_fields = self.rubric.context_fields if settings.empty_context == "skip" else ()
        processor = load_processor(model.checkpoint, revision=model.revision)
        config = load_config(model.checkpoint, revision=model.revision)
        self.chat = Chat(
            processor,
            name=f"model {model.checkpoint!r}",
            bounds=model.bounds,
            config=config,
            keeps_pictures=keeps_pictures,
        )
        self.chat.refuse_thought("" if instruction else self.rubric.answer_start)
        positions = getattr(config.get_text_config(), "max_position_embeddings", None)
        self.context_limit = settings.max_context_tokens
        self.token_budget = context.token_budget(positions, answer_tokens)
        self._answer_tokens = {q.name: 0 if instruction else self._longest_answer(q) for q in self.rubric.questions}
        self._tally: Counter[str] = Counter()
        self._read = PictureReader()

    def __call__(self, batch: pa.Table) -> pa.Table:
        """Prepare a batch.

        Args:
            batch: `item_id`; `pictures: list<large_binary>`, encoded, may hold nulls; `status` of the pictures; the
                rubric's context fields as strings, empty if absent or null; `targets: list<string>`, the item's labels;
                `questions` (`actors.schemas.OWN_QUESTIONS`), for a rubric that asks items their own questions.

        Returns:
            One row per item; `inputs`, `shared` and `suffixes` are null unless the status is ok.
        """
        columns = {*schemas.ITEMS.names, TARGETS, QUESTIONS, EMPTY_CONTEXT, *self.rubric.context_fields}
        items = batch.select([name for name in batch.column_names if name in columns])
        rows: list[PreparedQuestionsRow] = []
        for number in range(items.num_rows):  # one by one, to hold only one item's pictures in memory
            (item,) = items.slice(number, 1).to_pylist()
            row = self._row(item)
            row["item_id"], row["targets"] = item["item_id"], item_targets(self.rubric, item)
            row["questions"], row["empty_context"] = item.get(QUESTIONS), item.get(EMPTY_CONTEXT)
            rows.append(row)
        return schemas.to_table(rows, self.OUTPUTS)

    def take_tally(self) -> dict[str, int]:
        """Return the counts since the last call, `group/key` -> n: pictures, their tokens, items cut."""
        tally, self._tally = dict(self._tally), Counter()
        return tally

    def _row(self, item: Mapping[str, Any]) -> PreparedQuestionsRow:
        pictures = self.rubric.picture_count(self.builder.layout) if self.chat.sees_pictures else 0
        if reason := skip_reason(item, pictures=pictures, required_fields=self.required_fields):
            return failed(PreparedQuestionsRow, *reason)
        try:
            return self._prepared(item)
        except PictureError as error:
            return failed(PreparedQuestionsRow, Status.ERROR, ScoringError(error.kind, first_line(error)))
        except Exception as error:
            return failed(PreparedQuestionsRow, Status.ERROR, errors.reason(error))

    def _prepared(self, item: Mapping[str, Any]) -> PreparedQuestionsRow:
        """Return the prompts' tokens, with the context cut until the longest prompt fits the model's positions."""
        pictures = tuple(map(self._read, item["pictures"])) if self.chat.sees_pictures else ()
        targets = item_targets(self.rubric, item) or self.targets
        if not targets:
            return failed(PreparedQuestionsRow, Status.SKIPPED, NO_TARGET)
        if not (pairs := asked_pairs(self.rubric, item, targets)):
            return failed(PreparedQuestionsRow, Status.SKIPPED, NO_QUESTIONS)

        def tokenise(texts: dict[str, str]) -> tuple[PreparedPrompts, int]:
            prompts = self._tokenised(texts, pairs, pictures or None)
            return prompts, 0 if self.token_budget is None else prompts.longest - self.token_budget

        prompts, truncated = context.fitted(
            item,
            tokenise,
            fields=self.rubric.context_fields,
            first=self.rubric.context_cut,
            limit=self.context_limit,
            by=self.chat,
        )
        inputs, shared, suffixes = prompts.tokens
        count_pictures(self._tally, len(pictures), self.chat.picture_tokens(inputs))
        count_prompt(self._tally, item, truncated=truncated, moves_system=self.chat.moves_system)
        return {
            "status": Status.OK.value,
            "truncated": truncated,
            "inputs": to_bytes(inputs),
            "shared": shared,
            "suffixes": suffixes,
        }

    def _tokenised(
        self, texts: dict[str, str], pairs: Sequence[tuple[str, Question]], pictures: tuple[Any, ...] | None
    ) -> PreparedPrompts:
        questions = self.builder.prompts_about(texts, pairs)
        prompts = [entry.prompt for entry in questions]
        if self.instruction:
            prompts = [replace(p, suffix=f"{p.suffix}\n\n{self.instruction}", start="") for p in prompts]
        tokens = self.chat.tokens(prompts, pictures)
        lengths = [
            len(suffix) + self._answer_tokens[self.rubric.question(entry.question.name).name]
            for entry, suffix in zip(questions, tokens.suffixes, strict=True)
        ]
        return PreparedPrompts(tokens, tokens.shared + max(lengths))

    def _longest_answer(self, question: Question) -> int:
        """Return the number of tokens of the longest answer.

        The model does not read the last one, but vLLM needs a position for it, and prompts must not depend on the
        engine.
        """
        codes = self.chat.answers(question.codes, start=self.rubric.answer_start)
        return len(codes.bridge) + max(map(len, codes.sequences))
