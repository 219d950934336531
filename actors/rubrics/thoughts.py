"""Thoughts that models write before their answers: where a text has them, and whether a prompt opens one.

The marks differ: `<think>…</think>` (Qwen, DeepSeek, GLM; also `<thinking>`, `<seed:think>`, `<|begin_of_thought|>`),
`[THINK]…[/THINK]` (Magistral), `◁think▷…◁/think▷` (Kimi), and channels, `<|channel|>analysis<|message|>…<|end|>`
(gpt-oss) and `<|channel>thought…<channel|>` (Gemma 4). A thought considers answers that
the model does not give.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

_NAME = r"(?:think(?:ing)?|thoughts?)"
# A space after the first character: special tokens that `ChatFormat.as_data` made text.
_OPEN = (
    rf"(?i:< ?\|?(?:\w+:)?(?:begin_of_|start_of_)?{_NAME}\|?>)",
    r"\[ ?THINK\]",
    r"◁ ?think▷",
    r"< ?\|channel\|?>\s*(?:analysis|commentary|thought|thinking)\b(?:\s*<\|message\|>)?",
)
_CLOSE = (
    rf"(?i:< ?\|?/(?:\w+:)?{_NAME}\|?>)",
    rf"(?i:< ?\|?end_of_{_NAME}\|?>)",
    r"\[ ?/THINK\]",
    r"◁ ?/think▷",
    r"(?:<\|end\|>\s*(?:<\|start\|>assistant\s*)?)?<\|channel\|>\s*final\s*<\|message\|>",
    r"<channel\|>",
)
# It also ends turns of models that have no channels, so that alone it closes nothing.
_END = r"<\|end\|>(?:\s*<\|start\|>assistant)?"
MARKS = re.compile(f"(?P<open>{'|'.join(_OPEN)})|(?P<close>{'|'.join(_CLOSE)})|(?P<end>{_END})")
_CHANNEL = re.compile(r"<\|?channel\|?>")
_OF_CHANNELS = ("<|start|>", "<|message|>", "<|end|>")


class Written(NamedTuple):
    """A text in two parts, without the marks and the white space around them; empty if it does not have the part."""

    thought: str
    answer: str


def split(text: str, *, opened: bool = False) -> Written:
    """Return what a model wrote as its thoughts and its answer.

    A thought that is not closed reaches to the end. If the first mark closes a thought, the text begins with one.

    Args:
        opened: the prompt ended inside a thought.
    """
    thoughts, answers = list[str](), list[str]()
    inside, before = opened, 0
    for mark in MARKS.finditer(text):
        if mark["end"] and not inside:
            continue
        (thoughts if inside or (mark["close"] and not thoughts) else answers).append(text[before : mark.start()])
        inside, before = bool(mark["open"]), mark.end()
    (thoughts if inside else answers).append(text[before:])
    return Written(*("\n".join(filter(None, map(str.strip, parts))) for parts in (thoughts, answers)))


def unclosed(text: str) -> str:
    """Return the mark with which `text` opens a thought that it does not close; empty if there is none."""
    opening = ""
    for mark in MARKS.finditer(text):
        opening = mark["open"] or ""
    return opening.strip()


def marks(tokens: Iterable[str]) -> set[str]:
    """Return those of a tokenizer's special tokens that mark thoughts, or are parts of such marks."""
    special = set(tokens)
    channels = {token for token in special if _CHANNEL.fullmatch(token)}
    return {
        token
        for token in special
        if token in channels or (channels and token in _OF_CHANNELS) or (MARKS.fullmatch(token) and token != "<|end|>")
    }
