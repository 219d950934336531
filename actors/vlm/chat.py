"""Prompts and answers as tokens in a model's chat format.

`Chat` has prompts that share a prefix, and allowed answers; `ChatEncoder` one prompt at a time, and what a model wrote.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from actors import hub
from actors.errors import ModelError
from actors.local_models import is_local, is_ready
from actors.model_files import is_s3
from actors.rubrics import pieces
from actors.rubrics.pieces import Piece
from actors.rubrics.prompts import Prompt
from actors.rubrics.thoughts import Written
from actors.vlm.chat_format import ChatFormat
from actors.vlm.loading import load_config, load_processor
from actors.vlm.model_turn import QUESTION
from actors.vlm.picture_size import NO_BOUNDS, PixelBounds
from actors.vlm.scoring_requests import AnswerCodes
from actors.vlm.token_trees import common

if TYPE_CHECKING:
    from PIL import Image
    from transformers import PretrainedConfig

    from actors.vlm.model_types import Pictures, Processor, Tensors


_SUFFIX_MARK = "REMINE7SUFFIX"  # stands for the suffix while a template is rendered; no template changes it
WINDOW = 160  # characters before the suffix that are tokenised again with it
SHARED_IN_WINDOW = 2  # tokens of the window that all suffixes must share for the cut to be safe
LARGEST_TRIED = 2**24  # pixels, more than any model's bound


class SplitTokens(NamedTuple):
    """The tokens of several prompts: how many of them all prompts share, and the remaining ones of each."""

    shared: int
    suffixes: list[list[int]]

    def joined(self, ids: list[int]) -> list[list[int]]:
        """Return the tokens of the whole prompts, which begin like `ids`."""
        return [ids[: self.shared] + suffix for suffix in self.suffixes]


class PromptTokens(NamedTuple):
    """Prompts about one picture as tokens.

    Attributes:
        inputs: the processor's tensors for the first prompt and the picture, by name, batch 1.
        shared: the number of tokens with which all prompts begin, including the picture's.
        suffixes: token ids of each prompt after the shared ones.
    """

    inputs: Tensors
    shared: int
    suffixes: list[list[int]]


class Chat(ChatFormat):
    """Tokenizer of prompts with a shared prefix, and of answers, in the chat format of one model.

    Args:
        name: the model's name, for messages.
        bounds, config, keeps_pictures: as for `ChatFormat`.

    Raises:
        ValueError: as for `ChatFormat`.
    """

    def __init__(
        self,
        processor: Processor,
        *,
        name: str,
        bounds: PixelBounds = NO_BOUNDS,
        config: PretrainedConfig | None = None,
        keeps_pictures: bool = False,
    ) -> None:
        super().__init__(processor, bounds=bounds, config=config, keeps_pictures=keeps_pictures)
        self.name = name
        question = [_user_turn([_text(QUESTION)])]
        self.open_start = self.render(question)  # a question, up to where the model's turn begins
        answer = self.turn.answer  # None: a start has to close the thought
        self.lead = answer.lead if answer else ""  # the white space before its answer
        at_once = answer is not None and self.answering(question) == self.open_start
        self.open_lead = self.lead if at_once else ""  # the white space before what it writes
        end = self.ids(self.turn.end or "")
        turn_end: Any = end[0] if end else self.tokenizer.eos_token_id
        self.turn_end = int(turn_end)
        self._needs_whole = False  # whether suffixes must be tokenised with the whole prompt
        self._is_checked = False

    def tokens(self, prompts: Sequence[Prompt], picture: Pictures, *, thinks: bool = False) -> PromptTokens:
        """Tokenise prompts that differ only in their suffixes.

        tokens(whole prompt) = shared tokens + suffix tokens, for each prompt. If the tokenizer merges text across the
        cut, the cut moves to an earlier token.

        Args:
            picture: PIL image, a sequence of several, or None.
            thinks: whether the model may think before it answers.
        """
        picture = picture if self.sees_pictures else None
        prompts = self._as_data(prompts)
        shown = prompts[0].pictures(picture)
        if any(not p.suffix or p.suffix != p.suffix.strip() for p in prompts):
            # Some templates trim messages, so that the text before such a suffix differs from the shared text.
            rendered = [self.rendered(p, picture, thinks=thinks) for p in prompts]
            inputs = self.inputs(rendered[0], shown)
            return PromptTokens(inputs, *self._split_whole(rendered, inputs["input_ids"][0].tolist()))
        head, end = self._frame(prompts[0], picture, thinks=thinks)
        inputs = self.inputs(head + prompts[0].suffix + end, shown)
        ids: list[int] = inputs["input_ids"][0].tolist()
        split = None if self._needs_whole else self._split_in_window(head, [p.suffix + end for p in prompts], ids)
        if split is None or not self._is_checked:
            whole = self._split_whole([head + p.suffix + end for p in prompts], ids)
            if split is not None and split.joined(ids) != whole.joined(ids):
                split, self._needs_whole = None, True
            split, self._is_checked = split or whole, True
        return PromptTokens(inputs, split.shared, split.suffixes)

    def _as_data(self, prompts: Sequence[Prompt]) -> list[Prompt]:
        """Return prompts in whose texts special tokens are ordinary text: targets, questions and titles are data."""
        first = prompts[0]
        shared = tuple(self.as_data(piece) if isinstance(piece, str) else piece for piece in first.shared)
        system = self.as_data(first.system)
        return [replace(p, shared=shared, suffix=self.as_data(p.suffix), system=system) for p in prompts]

    def rendered(self, prompt: Prompt, picture: Pictures, *, thinks: bool = False) -> str:
        """Return the prompt as the model's template writes it, up to where the model answers, or begins to think."""
        messages = prompt.messages(picture if self.sees_pictures else None)
        return self.render(messages) if thinks else self._answering(messages, prompt.start)

    def _answering(self, messages: list[dict[str, Any]], start: str) -> str:
        """Return a prompt with the beginning of the model's turn, without trailing space."""
        if not start:
            return self.answering(messages)
        if self.opens_thought(start):
            raise ModelError(f"the start {start!r} leaves a thought open, in which answers would be scored", self.name)
        return self.begun(messages, start.rstrip(" "), lead=self.lead)

    def answers(self, codes: Sequence[str], *, start: str = "", written: str | None = None) -> AnswerCodes:
        """Return `codes` as tokens in the model's turn.

        Args:
            start: the beginning of the model's turn. A space separates it from the answer, unless it ends in a newline
                and the tokens split there.
            written: what the model wrote in its turn before `start`, such as its thought; None: it answers at once.

        Raises:
            ValueError: there is no code, a code is empty, or two codes are the same tokens.
        """
        if not codes or not all(codes):
            raise ModelError(f"an empty answer in {list(codes)!r}", self.name)
        tokens = self._tokens_after(start, codes, written)
        bridge = 0
        while all(len(s) > bridge + 1 and s[bridge] == tokens[0][bridge] for s in tokens):
            if self.tokenizer.decode([tokens[0][bridge]]).strip():
                break  # a word at the beginning of all answers is part of them
            bridge += 1
        sequences = tuple(s[bridge:] for s in tokens)
        if len(set(sequences)) < len(sequences):
            raise ValueError(f"{self.name} cannot tell the answer codes {', '.join(codes)} apart; use other codes")
        if all(len(s) == 1 for s in sequences):
            return AnswerCodes("code", tokens[0][:bridge], sequences)
        return AnswerCodes("sequence", tokens[0][:bridge], tuple((*s, self.turn_end) for s in sequences))

    def _tokens_after(self, start: str, codes: Sequence[str], written: str | None) -> list[tuple[int, ...]]:
        """Return the tokens of each code in the opened turn, with the white space before it."""
        if written is not None:
            before = (self.open_start + written + start).rstrip(" ")
        else:
            before = self._answering([_user_turn([_text(QUESTION)])], start)
        opened = self.ids(before)
        lead = self.lead if written is None else written[len(written.rstrip(" ")) :]
        spaces = [start[len(start.rstrip(" ")) :] or " "] if start else [lead]
        for space in ["", *spaces] if start and before.endswith("\n") else spaces:
            tokens = [self.ids(before + space + self.as_data(code)) for code in codes]
            splits = [ids[: len(opened)] == opened and len(ids) > len(opened) for ids in tokens]
            if all(splits):
                return [tuple(ids[len(opened) :]) for ids in tokens]
        code = codes[splits.index(False)]
        raise ValueError(f"{self.name} does not encode the answer {code!r} as separate tokens; use other codes")

    def _frame(self, prompt: Prompt, picture: Pictures, *, thinks: bool) -> tuple[str, str]:
        """Return the rendered text before and after the suffix."""
        rendered = self.rendered(replace(prompt, suffix=_SUFFIX_MARK), picture, thinks=thinks)
        head, mark, end = rendered.rpartition(_SUFFIX_MARK)
        if not mark:
            raise ModelError("its chat template drops the user's text; use an instruction-tuned model", self.name)
        return head, end

    def _split_in_window(self, head: str, rests: Sequence[str], ids: list[int]) -> SplitTokens | None:
        """Tokenise the last characters of `head` with each of `rests`; None if the tokenizer allows no safe cut.

        Args:
            ids: tokens of `head` with the first of `rests`.
        """
        begin = max(0, len(head) - WINDOW)
        newline = head.find("\n", begin, len(head) - 40)
        begin = newline + 1 if newline >= 0 else begin
        for match in self.special.finditer(head, max(0, begin - WINDOW)):
            begin = max(begin, match.end())
        window = head[begin:]
        texts = [window + rest for rest in rests]
        tokens: list[list[int]] = self.tokenizer(texts, add_special_tokens=False)["input_ids"]
        # The first tokens may differ from those within the text: some tokenizers prepend a space to a text.
        for skip in range(min(3, len(tokens[0]))):
            if ids[-len(tokens[0]) + skip :] == tokens[0][skip:]:
                break
        else:
            return None
        needed = skip + (SHARED_IN_WINDOW if window else 0)
        if any(common(tokens[0], other) < needed for other in tokens[1:]):
            return None
        return SplitTokens(len(ids) - len(tokens[0]) + skip, [suffix[skip:] for suffix in tokens])

    def _split_whole(self, texts: Sequence[str], ids: list[int]) -> SplitTokens:
        """Tokenise whole prompts, in which each picture is a single mark.

        Args:
            ids: tokens of the first prompt, including its picture's.
        """
        tokens: list[list[int]] = self.tokenizer(list(texts), add_special_tokens=False)["input_ids"]
        shared = min((common(tokens[0], other) for other in tokens[1:]), default=len(tokens[0]) - 1)
        shared = min(shared, len(tokens[0]) - 1)
        rest = tokens[0][shared:]
        if ids[-len(rest) :] != rest:
            raise ModelError("its processor and tokenizer tokenize a prompt differently", self.name)
        return SplitTokens(len(ids) - len(rest), [suffix[shared:] for suffix in tokens])


def _user_turn(content: list[dict[str, Any]]) -> dict[str, Any]:
    return {"role": "user", "content": content}


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


class ChatEncoder(ChatFormat):
    """Encoder of user turns as the inputs of one model."""

    def encode(
        self, turn: Sequence[Piece], pictures: Sequence[Image.Image], *, start: str = "", system: str = ""
    ) -> Tensors:
        """Return the inputs of one prompt: the system's turn, if any, the user's, and the beginning of the model's.

        Args:
            turn: the pieces of the user's turn, in order.
            pictures: PIL images, RGB, in the item's order.
            start: the beginning of the model's turn.
            system: text of the system's turn; if empty, the template's own, if any.

        Returns:
            tensors from the processor by name, batch 1: `input_ids`, `attention_mask` and those of the family.

        Raises:
            ValueError: a text model is shown pictures.
        """
        if pictures and not self.sees_pictures:
            raise ValueError(
                "a text model cannot see pictures; use a vision-language model or a prompt without `picture`"
            )
        text = self.text(turn, len(pictures), start=start, system=system)
        return self.inputs(text, pieces.in_order(turn, pictures))

    def text(self, turn: Sequence[Piece], pictures: int, *, start: str = "", system: str = "") -> str:
        """Return the prompt from the chat template, with one placeholder per picture.

        Special tokens in the texts of both turns are ordinary text.
        """
        turn = [self.as_data(piece) if isinstance(piece, str) else piece for piece in turn]
        content: str | list[dict[str, Any]] = pieces.content(turn, [None] * pictures)
        if not self.sees_pictures:  # templates of text models accept only strings
            content = "\n\n".join(piece for piece in turn if isinstance(piece, str) and piece)
        return self.begun(pieces.messages(content, self.as_data(system)), start)

    def continuation(self, start: str, words: str) -> list[int]:
        """Return the token ids of `words` after `start` in the model's turn.

        Raises:
            ValueError: the tokens of `start` change when `words` follow.
        """
        head = self.text([QUESTION], 0, start=start)  # which does not change the tokens of the model's turn
        before, whole = self.ids(head), self.ids(head + self.as_data(words))
        if whole[: len(before)] != before or len(whole) == len(before):
            raise ValueError(
                f"the model's tokens do not split between {start!r} and {words!r}; end the start elsewhere"
            )
        return whole[len(before) :]

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text of generated tokens, without outer white space and special tokens.

        Those that mark thoughts are kept.
        """
        options = {"clean_up_tokenization_spaces": False}
        parts = (
            self.tokenizer.decode(list(part), skip_special_tokens=not is_mark, **options)
            for is_mark, part in groupby(ids, key=self._thought_tokens.__contains__)
        )
        return "".join(parts).strip()

    def written(self, ids: Sequence[int], *, start: str = "") -> Written:
        """Return the thought and the answer in generated tokens.

        Args:
            start: the beginning of the model's turn.
        """
        return self.turn.marks.split(self.decode(ids), opened=self.opens_thought(start))

    @cached_property
    def _thought_tokens(self) -> frozenset[int]:
        special = {str(token): number for number, token in self.tokenizer.added_tokens_decoder.items() if token.special}
        return frozenset(special[token] for token in self.turn.marks.tokens(special, texts=self.turn.mark_texts))


def tokens_of_sizes(
    model: str, sizes: Sequence[tuple[int, int]], *, bounds: PixelBounds, revision: str | None = None
) -> list[int] | None:
    """Return how many tokens a picture of each size takes, by passing blank pictures to the model's own processor.

    Loads no weights and downloads or builds nothing.

    Args:
        sizes: (width, height).

    Returns:
        the numbers; empty for a text model; None if the processor is not on this machine or the tokens are unknown.
    """
    if is_s3(model) or (not is_ready(model) if is_local(model) else not hub.is_cached(model, "config.json", revision)):
        return None
    from PIL import Image

    try:
        processor = load_processor(model, revision=revision, local_only=True)
        config = load_config(model, revision=revision, local_only=True)
        chat = ChatEncoder(processor, bounds=bounds, config=config)
    except (ValueError, OSError):
        return None
    if not chat.sees_pictures:
        return []
    # Above the bound only the aspect ratio matters, and a full-size photo would take a second.
    tried = PixelBounds(4 * bounds.max_pixels if bounds.max_pixels else LARGEST_TRIED)
    counts = []
    for size in sizes:
        tokens = chat.picture_tokens(chat.encode([None, "x"], [Image.new("RGB", tried.size(*size))]))
        if tokens is None:
            return None
        counts.append(tokens)
    return counts


class PromptText:
    """Converter of token ids back to text.

    Args:
        processor: the model's processor, or a `TextProcessor`.
        sizes: (width, height) of the prompt's pictures, in order.
    """

    def __init__(self, processor: Processor, sizes: Sequence[tuple[int, int]]) -> None:
        self._tokenizer, self._sizes = processor.tokenizer, list(sizes)
        mark = str(getattr(processor, "image_token", None) or "")
        self._marks = re.compile(rf"{re.escape(mark)}(?:\s*{re.escape(mark)})*") if mark else None
        self._mark = mark

    def __call__(self, ids: Sequence[int]) -> str:
        """Return the text of `ids` with special tokens; a picture's become `[picture 300 x 225: 88 tokens]`."""
        text: str = self._tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False)
        return self._marks.sub(self._placeholder, text) if self._marks else text

    def _placeholder(self, run: re.Match[str]) -> str:
        width_height = " {} x {}".format(*self._sizes.pop(0)) if self._sizes else ""
        return f"[picture{width_height}: {run[0].count(self._mark)} tokens]"
