"""Prompts that share a prefix, and allowed answers, as tokens in a model's chat format."""

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from actors.rubrics.prompts import Prompt
from actors.vlm.answers import AnswerCodes
from actors.vlm.chat_format import ChatFormat
from actors.vlm.picture_size import NO_BOUNDS, PixelBounds
from actors.vlm.token_trees import common

_SUFFIX_MARK = "REMINE7SUFFIX"  # stands for the suffix while a template is rendered; no template changes it
WINDOW = 160  # characters before the suffix that are tokenised again with it
SHARED_IN_WINDOW = 2  # tokens of the window that all suffixes must share for the cut to be safe


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

    inputs: dict[str, Any]
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
        processor: Any,
        *,
        name: str,
        bounds: PixelBounds = NO_BOUNDS,
        config: Any = None,
        keeps_pictures: bool = False,
    ) -> None:
        super().__init__(processor, bounds=bounds, config=config, keeps_pictures=keeps_pictures)
        self.name = name
        self.start, self.lead, self.turn_end = self._assistant_turn()
        self._needs_whole = False  # whether suffixes must be tokenised with the whole prompt
        self._is_checked = False

    def tokens(self, prompts: Sequence[Prompt], picture: Any) -> PromptTokens:
        """Tokenise prompts that differ only in their suffixes.

        tokens(whole prompt) = shared tokens + suffix tokens, for each prompt. If the tokenizer merges text across the
        cut, the cut moves to an earlier token.

        Args:
            picture: PIL image, a sequence of several, or None.
        """
        picture = picture if self.sees_pictures else None
        prompts = self._as_data(prompts)
        shown = prompts[0].pictures(picture)
        if any(not p.suffix or p.suffix != p.suffix.strip() for p in prompts):
            # Some templates trim messages, so that the text before such a suffix differs from the shared text.
            rendered = [self.rendered(p, picture) for p in prompts]
            inputs = self.inputs(rendered[0], shown)
            return PromptTokens(inputs, *self._split_whole(rendered, inputs["input_ids"][0].tolist()))
        head, end = self._frame(prompts[0], picture)
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

    def rendered(self, prompt: Prompt, picture: Any) -> str:
        """Return the prompt as the model's template writes it, up to where the model answers."""
        return self._opened(self.render(prompt.messages(picture if self.sees_pictures else None)), prompt.start)

    def answers(self, codes: Sequence[str], *, start: str = "") -> AnswerCodes:
        """Return `codes` as tokens in the model's turn.

        Args:
            start: the beginning of the model's turn. A space separates it from the answer, unless it ends in a newline
                and the tokens split there.

        Raises:
            ValueError: there is no code, a code is empty, or two codes are the same tokens.
        """
        if not codes or not all(codes):
            raise ValueError(f"{self.name}: an empty answer in {list(codes)!r}")
        tokens = self._tokens_after(start, codes)
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

    def _tokens_after(self, start: str, codes: Sequence[str]) -> list[tuple[int, ...]]:
        """Return the tokens of each code in the opened turn, with the white space before it."""
        before = self._opened(self.start, start)
        opened = self.ids(before)
        spaces = [start[len(start.rstrip(" ")) :] or " "] if start else [self.lead]
        for space in ["", *spaces] if start and before.endswith("\n") else spaces:
            tokens = [self.ids(before + space + self.as_data(code)) for code in codes]
            splits = [ids[: len(opened)] == opened and len(ids) > len(opened) for ids in tokens]
            if all(splits):
                return [tuple(ids[len(opened) :]) for ids in tokens]
        code = codes[splits.index(False)]
        raise ValueError(f"{self.name} does not encode the answer {code!r} as separate tokens; use other codes")

    def _frame(self, prompt: Prompt, picture: Any) -> tuple[str, str]:
        """Return the rendered text before and after the suffix."""
        rendered = self.rendered(replace(prompt, suffix=_SUFFIX_MARK), picture)
        head, mark, end = rendered.rpartition(_SUFFIX_MARK)
        if not mark:
            raise ValueError(f"{self.name}: its chat template drops the user's text; use an instruction-tuned model")
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
            raise ValueError(f"{self.name}: its processor and tokenizer tokenize a prompt differently")
        return SplitTokens(len(ids) - len(rest), [suffix[shared:] for suffix in tokens])

    def _assistant_turn(self) -> tuple[str, str, int]:
        """Return the text up to the model's turn, the white space before an answer, and the token ending the turn."""
        question = [_user_turn([_text("Is it?")])]
        conversation = [*question, {"role": "assistant", "content": [_text("A")]}]
        start = self.render(question)
        whole = self.render(conversation, open_turn=False)
        match = re.match(r"(\s*)A", whole.removeprefix(start)) if whole.startswith(start) else None
        end = self.ids(whole.removeprefix(start)[match.end() :]) if match else []
        turn_end = end[0] if end else self.tokenizer.eos_token_id
        return start, match[1] if match else "", int(turn_end)

    def _opened(self, rendered: str, start: str) -> str:
        """Return `rendered` with the beginning of the model's turn, without trailing space."""
        return rendered + self.lead + start.rstrip(" ") if start else rendered


def _user_turn(content: list[dict[str, Any]]) -> dict[str, Any]:
    return {"role": "user", "content": content}


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}
