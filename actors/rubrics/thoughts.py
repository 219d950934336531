"""Thoughts that models write before their answers: where a text has them, and whether a prompt opens one.

The marks differ: `<think>…</think>` (Qwen, DeepSeek, GLM; also `<thinking>`, `<seed:think>`, `<|begin_of_thought|>`),
`[THINK]…[/THINK]` (Magistral), `◁think▷…◁/think▷` (Kimi), `<|START_THINKING|>…<|END_THINKING|>` (Command), and
channels, `<|channel|>analysis<|message|>…<|end|>` (gpt-oss) and `<|channel>thought…<channel|>` (Gemma 4). `ANY` has
these, for texts of which the model is unknown; `ThoughtMarks.of` adds those that a model's chat template writes or its
tokenizer declares (`actors.vlm.model_turn`). A thought considers answers that the model does not give.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

_NAME = r"(?:think(?:ing)?|thoughts?)"
# A space after the first character: special tokens that `ChatFormat.as_data` made text.
_OPEN = (
    rf"(?i:< ?\|?(?:\w+:)?(?:begin_of_|start_of_|start_)?{_NAME}(?::\w+)?\|?>)",
    r"\[ ?THINK\]",
    r"◁ ?think▷",
    r"< ?\|channel\|?>\s*(?:analysis|commentary|thought|thinking)\b(?:\s*<\|message\|>)?",
)
_CLOSE = (
    rf"(?i:< ?\|?/(?:\w+:)?{_NAME}(?::\w+)?\|?>)",
    rf"(?i:< ?\|?end_(?:of_)?{_NAME}\|?>)",
    r"\[ ?/THINK\]",
    r"◁ ?/think▷",
    r"(?:<\|end\|>\s*(?:<\|start\|>assistant\s*)?)?<\|channel\|>\s*final\s*<\|message\|>",
    r"<channel\|>",
)
# It also ends turns of models that have no channels, so that alone it closes nothing.
_END = r"<\|end\|>(?:\s*<\|start\|>assistant)?"
_CHANNEL = re.compile(r"<\|?channel\|?>")
_OPEN_CHANNEL = re.compile(r"(<\|channel\|?>)[^<>]*(?:<\|message\|>)?\s*\Z")
_CLOSED_CHANNELS = {"<|channel|>": "<|end|><|start|>assistant<|channel|>final<|message|>", "<|channel>": "<channel|>"}
_OF_CHANNELS = ("<|start|>", "<|message|>", "<|end|>")
# A tag with which a prompt ends, and how the tag that closes it is written.
_TAG = re.compile(r"(<[^<>\s/]+>|\[[^\[\]\s/]+\]|◁[^◁▷\s/]+▷)\s*\Z")
_ENDS = (("BEGIN_OF_", "END_OF_"), ("begin_of_", "end_of_"), ("START_", "END_"), ("start_", "end_"))


class Written(NamedTuple):
    """A text in two parts, without the marks and the white space around them; empty if it does not have the part.

    Attributes:
        is_open: whether the text ends inside a thought.
    """

    thought: str
    answer: str
    is_open: bool = False


@dataclass(frozen=True)
class ThoughtMarks:
    """How thoughts are marked: a pattern with the groups `open`, `close` and `end` (of a turn, which closes too)."""

    pattern: re.Pattern[str]

    @classmethod
    def of(cls, opens: Iterable[str] = (), closes: Iterable[str] = ()) -> "ThoughtMarks":
        """Return the marks of `ANY` and those of one model.

        Args:
            opens, closes: regular expressions.
        """
        groups = {"open": (*opens, *_OPEN), "close": (*closes, *_CLOSE), "end": (_END,)}
        return cls(re.compile("|".join(f"(?P<{name}>{'|'.join(parts)})" for name, parts in groups.items())))

    def split(self, text: str, *, opened: bool = False) -> Written:
        """Return what a model wrote as its thoughts and its answer.

        A thought that is not closed reaches to the end. If the first mark closes a thought, the text begins with one.

        Args:
            opened: the prompt ended inside a thought.
        """
        thoughts, answers = list[str](), list[str]()
        inside, before = opened, 0
        for mark in self.pattern.finditer(text):
            if mark["end"] and not inside:
                continue
            (thoughts if inside or (mark["close"] and not thoughts) else answers).append(text[before : mark.start()])
            inside, before = bool(mark["open"]), mark.end()
        (thoughts if inside else answers).append(text[before:])
        thought, answer = ("\n".join(filter(None, map(str.strip, part))) for part in (thoughts, answers))
        return Written(thought, answer, is_open=inside)

    def unclosed(self, text: str, *, opened: str = "") -> str:
        """Return the mark with which `text` opens a thought that it does not close; empty if there is none.

        Args:
            opened: the mark of a thought that is open before the text.
        """
        for mark in self.pattern.finditer(text):
            opened = mark["open"] or ""
        return opened.strip()

    def closes(self, text: str) -> bool:
        """Return whether `text` closes a thought and opens no other one after it."""
        marks = [mark for mark in self.pattern.finditer(text) if not mark["end"]]
        return bool(marks) and marks[-1]["close"] is not None

    def tokens(self, special: Iterable[str], *, texts: Sequence[str] = ()) -> set[str]:
        """Return those of a tokenizer's special tokens that mark thoughts, or are parts of such marks.

        Args:
            texts: marks that the model's template writes.
        """
        special = set(special)
        channels = {token for token in special if _CHANNEL.fullmatch(token)}
        return {
            token
            for token in special
            if token in channels
            or (channels and token in _OF_CHANNELS)
            or any(token in text for text in texts)
            or (self.pattern.fullmatch(token) and token != "<|end|>")
        }


ANY = ThoughtMarks.of()


def closing(text: str) -> tuple[str, str] | None:
    """Return the tag at the end of `text` and what closes it; None if `text` does not end in a tag."""
    if (channel := _OPEN_CHANNEL.search(text)) is not None:
        return channel[0].strip(), _CLOSED_CHANNELS[channel[1]]
    if (match := _TAG.search(text)) is None:
        return None
    tag = match[1]
    for begin, end in _ENDS:
        if begin in tag:
            return tag, tag.replace(begin, end, 1)
    head = 2 if tag[1] == "|" else 1
    return tag, f"{tag[:head]}/{tag[head:]}"
