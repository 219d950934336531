"""Rendered prompts of one model, their tokens, and the tokens of answers as the model would write them."""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from actors.vlm.answers import AnswerCodes
from actors.vlm.chat_format import ChatFormat
from actors.vlm.picture_size import NO_BOUNDS, PixelBounds
from actors.vlm.prompts import Prompt, as_list
from actors.vlm.token_trees import common

_SUFFIX_MARK = "REMINE7SUFFIX"  # stands for a suffix while a template is rendered; a word that no template touches
WINDOW = 160  # characters before the suffix that are tokenised again with it
IN_STEP = 2  # tokens of the window that must be the same for a suffix to be joined to the prompt before it


class PromptTokens(NamedTuple):
    """Prompts about one picture as tokens.

    Attributes:
        inputs: what the processor makes of the first prompt, the picture included: name -> tensor.
        shared: how many of its tokens all prompts begin with, the picture's among them.
        suffixes: token ids of each prompt after those.
    """

    inputs: dict[str, Any]
    shared: int
    suffixes: list[list[int]]


class Chat(ChatFormat):
    """Prompts that share their beginning, and answers, in the chat format of one model.

    Raises:
        ValueError: as `ChatFormat`.
    """

    def __init__(self, processor: Any, *, name: str, bounds: PixelBounds = NO_BOUNDS, config: Any = None) -> None:
        super().__init__(processor, bounds=bounds, config=config)
        self.name = name
        self.start, self.lead, self.turn_end = self._assistant()
        self._whole = False  # whether suffixes must be tokenised with the whole prompt
        self._proven = False

    def tokens(self, prompts: Sequence[Prompt], picture: Any) -> PromptTokens:
        """Tokens of `prompts`, which differ in their suffixes only, about one picture or several (None: none).

        The tokens of a whole prompt are those of what is shared followed by those of its suffix. Where a
        tokenizer joins what stands on both sides of the cut, the cut moves.
        """
        picture = picture if self.sees_pictures else None
        if any(not p.suffix or p.suffix != p.suffix.strip() for p in prompts):
            # Some templates trim a message, and then what stands before such a suffix is not what is shared.
            rendered = [self.rendered(p, picture) for p in prompts]
            inputs = self.encode(rendered[0], picture)
            return PromptTokens(inputs, *self._tokenised_whole(rendered, inputs["input_ids"][0].tolist()))
        head, end = self._frame(prompts[0], picture)
        inputs = self.encode(head + prompts[0].suffix + end, picture)
        ids: list[int] = inputs["input_ids"][0].tolist()
        found = None if self._whole else self._windowed(head, [p.suffix + end for p in prompts], ids)
        if found is None or not self._proven:
            whole = self._tokenised_whole([head + p.suffix + end for p in prompts], ids)
            if found is not None and _joined(ids, found) != _joined(ids, whole):
                found, self._whole = None, True
            found, self._proven = found or whole, True
        return PromptTokens(inputs, found[0], found[1])

    def encode(self, text: str, picture: Any) -> dict[str, Any]:
        """The inputs of a rendered prompt about a picture, several or none (`ChatFormat.inputs`)."""
        return self.inputs(text, [] if picture is None else as_list(picture))

    def rendered(self, prompt: Prompt, picture: Any) -> str:
        """The prompt as the model's template writes it, up to where the model answers."""
        return self._opened(self.render(prompt.messages(picture if self.sees_pictures else None)), prompt.start)

    def answers(self, codes: Sequence[str], *, start: str = "") -> AnswerCodes:
        """`codes` as tokens at the start of the model's turn (after `start`, if its turn is begun with that).

        Between `start` and an answer stands a space; none where `start` ends in a line and the tokens split there.

        Raises:
            ValueError: no code or an empty one, or two that are the same tokens.
        """
        if not codes or not all(codes):
            raise ValueError(f"{self.name}: an empty answer among {list(codes)!r}")
        found = self._behind(start, codes)
        bridge = 0
        while all(len(s) > bridge + 1 and s[bridge] == found[0][bridge] for s in found):
            if self.tokenizer.decode([found[0][bridge]]).strip():
                break  # a word that all answers begin with is part of them
            bridge += 1
        sequences = tuple(s[bridge:] for s in found)
        if len(set(sequences)) < len(sequences):
            raise ValueError(f"{self.name} cannot tell the answer codes {', '.join(codes)} apart")
        if all(len(s) == 1 for s in sequences):
            return AnswerCodes("code", found[0][:bridge], sequences)
        return AnswerCodes("sequence", found[0][:bridge], tuple((*s, self.turn_end) for s in sequences))

    def _behind(self, start: str, codes: Sequence[str]) -> list[tuple[int, ...]]:
        """Tokens of each of `codes` behind the opened turn, with the white space before them."""
        before = self._opened(self.start, start)
        opened = self.ids(before)
        between = [start[len(start.rstrip(" ")) :] or " "] if start else [self.lead]
        for space in ["", *between] if start and before.endswith("\n") else between:
            found = [self.ids(before + space + code) for code in codes]
            split = [ids[: len(opened)] == opened and len(ids) > len(opened) for ids in found]
            if all(split):
                return [tuple(ids[len(opened) :]) for ids in found]
        code = codes[split.index(False)]
        raise ValueError(f"{self.name} does not write the answer {code!r} as tokens of its own")

    def _frame(self, prompt: Prompt, picture: Any) -> tuple[str, str]:
        """The rendered text before and after the suffix."""
        rendered = self.rendered(Prompt(prompt.before, prompt.after, _SUFFIX_MARK, prompt.start), picture)
        head, mark, end = rendered.rpartition(_SUFFIX_MARK)
        if not mark:
            raise ValueError(f"{self.name}: its chat template leaves the user's text out")
        return head, end

    def _windowed(self, head: str, rests: Sequence[str], ids: list[int]) -> tuple[int, list[list[int]]] | None:
        """Suffixes from the last characters of `head` with each rest; None where the tokenizer gives no sure cut."""
        begin = max(0, len(head) - WINDOW)
        after_line = head.find("\n", begin, len(head) - 40)
        begin = after_line + 1 if after_line >= 0 else begin
        for mark in self.special.finditer(head, max(0, begin - WINDOW)):
            begin = max(begin, mark.end())
        window = head[begin:]
        found: list[list[int]] = self.tokenizer([window + rest for rest in rests], add_special_tokens=False)[
            "input_ids"
        ]
        # The first tokens may differ from those inside the text: some tokenizers put a space before a text.
        for skip in range(min(3, len(found[0]))):
            if ids[-len(found[0]) + skip :] == found[0][skip:]:
                break
        else:
            return None
        needed = skip + (IN_STEP if window else 0)
        if any(common(found[0], tokens) < needed for tokens in found[1:]):
            return None
        return len(ids) - len(found[0]) + skip, [tokens[skip:] for tokens in found]

    def _tokenised_whole(self, texts: Sequence[str], ids: list[int]) -> tuple[int, list[list[int]]]:
        """Suffixes from the tokens of whole prompts, in which a picture is one mark yet."""
        found: list[list[int]] = self.tokenizer(list(texts), add_special_tokens=False)["input_ids"]
        shared = min((common(found[0], tokens) for tokens in found[1:]), default=len(found[0]) - 1)
        shared = min(shared, len(found[0]) - 1)
        rest = found[0][shared:]
        if ids[-len(rest) :] != rest:
            raise ValueError(f"{self.name}: its processor writes prompts otherwise than its tokenizer")
        return len(ids) - len(rest), [tokens[shared:] for tokens in found]

    def _assistant(self) -> tuple[str, str, int]:
        """The text up to the model's turn, the white space its template puts before an answer, the end of a turn."""
        asked = [_turn([_text("Is it?")])]
        answered = [*asked, {"role": "assistant", "content": [_text("A")]}]
        start = self.render(asked)
        whole = self.render(answered, open_turn=False)
        found = re.match(r"(\s*)A", whole.removeprefix(start)) if whole.startswith(start) else None
        end = self.ids(whole.removeprefix(start)[found.end() :]) if found else []
        turn_end = end[0] if end else self.tokenizer.eos_token_id
        return start, found[1] if found else "", int(turn_end)

    def _opened(self, rendered: str, start: str) -> str:
        """`rendered` with the beginning of the model's turn; a space at its end is put before the answer instead."""
        return rendered + self.lead + start.rstrip(" ") if start else rendered


def _joined(ids: list[int], found: tuple[int, list[list[int]]]) -> list[list[int]]:
    return [ids[: found[0]] + suffix for suffix in found[1]]


def _turn(content: list[dict[str, Any]]) -> dict[str, Any]:
    return {"role": "user", "content": content}


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}
