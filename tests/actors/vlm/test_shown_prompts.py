"""Prompts as text, with placeholders for pictures."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from actors.vlm.shown_prompts import PromptText


class Words:
    """A tokenizer whose tokens are words."""

    def decode(self, ids: Sequence[int], **options: Any) -> str:
        assert options == {"skip_special_tokens": False, "clean_up_tokenization_spaces": False}
        return "".join(["<user>", "<pad>", "Look", ".", " ", "\n", "None"][number] for number in ids)


def test_the_tokens_of_pictures_become_placeholders_with_their_sizes() -> None:
    text = PromptText(SimpleNamespace(tokenizer=Words(), image_token="<pad>"), [(300, 225)])
    assert text([0, 1, 1, 1, 2, 1, 3]) == "<user>[picture 300 x 225: 3 tokens]Look[picture: 1 tokens]."
    assert text([1, 5, 1, 4, 1]) == "[picture: 3 tokens]"  # some models put each row of a picture on a line
    assert PromptText(SimpleNamespace(tokenizer=Words()), [])([0, 2, 3]) == "<user>Look."
    assert PromptText(SimpleNamespace(tokenizer=Words(), image_token=None), [])([0, 6]) == "<user>None"
