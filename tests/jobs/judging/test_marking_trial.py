"""The stand-in for a model whose answers are the first words of the text that each prompt asks about."""

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
import torch
from PIL import Image

from actors.marking.model import Kind, Marks
from actors.status import Status
from actors.vlm.errors import ScoringError
from jobs.judging import marking_trial
from jobs.judging.marking_trial import StandIn, _lines, _turn

KINDS = (
    Kind("mistakes", "m", "generated", {"colour": "a colour", "shape": "a shape"}),
    Kind("omissions", "o", "correct", {"missing": "what is missing"}),
)


class Step:
    """A step of `actors.marking.prompts`: its name, and its pieces."""

    def __init__(self, name: str, shared: tuple[object, ...] = (), suffix: str = "") -> None:
        self.name, self._shared, self._suffix = name, shared, suffix

    def turn(self, words: Any) -> list[object]:
        return ["turn", dict(words)]

    def prompt(self, words: Any) -> Any:
        return type("Prompt", (), {"shared": self._shared, "suffix": self._suffix})


class Request:
    def __init__(self, step: Step, codes: tuple[str, ...] = (), **words: str) -> None:
        self.step, self.codes, self.words = step, codes, words


def test_answers_quote_three_words_of_the_text_in_question() -> None:
    texts: dict[str, Any] = {"correct": "  one two\nthree four", "generated": "five", "text": "six seven"}
    requests: list[Any] = [
        Request(Step(name), **texts)
        for name in ("mistakes", "omissions", "mistakes_again", "omissions_again", "cut", "cut_again")
    ]
    model = StandIn(KINDS)
    expected = ["colour: five", "one two\nthree", "colour: five", "one two\nthree", "six seven", "six seven"]
    assert model.write(requests) == expected
    assert model.asked == list(zip(requests, expected, strict=True))
    empty: Any = [Request(Step("mistakes"), generated=" ", correct="x"), Request(Step("cut"), text="")]
    assert model.write(empty) == ["colour: NONE", "NONE"]
    assert len(model.asked) == 8


def test_codes_are_equally_likely_and_named() -> None:
    model = StandIn(KINDS)
    requests: list[Any] = [Request(Step("mistakes"), codes=("A", "B", "C", "D")), Request(Step("category"), ("A",))]
    assert model.score(requests) == [(0.25,) * 4, (1.0,)]
    assert [answer for _, answer in model.asked] == ["one of A, B, C, D", "one of A"]


def test_the_turn_of_a_scored_prompt_joins_its_texts() -> None:
    picture = object()
    scored: Any = Request(Step("mistakes", ("a", "b", picture, "c"), "d"), codes=("A",))
    assert _turn(scored, {}) == ["ab", picture, "cd"]
    alone: Any = Request(Step("mistakes", (picture, picture), "d"), codes=("A",))
    assert _turn(alone, {}) == [picture, picture, "d"]
    written: Any = Request(Step("cut"))
    assert _turn(written, {"text": "x"}) == ["turn", {"text": "x"}]


def test_steps_that_show_no_picture_are_printed_without(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step has its tokens, its text, and what is taken as its answer."""

    class Chat:
        def __init__(self, processor: object, *, bounds: object) -> None:
            assert (processor, bounds) == ("processor", "bounds")

        def as_data(self, text: str) -> str:
            return f"<{text}>"

        def encode(self, turn: list[Any], pictures: list[Any], *, system: str) -> dict[str, Any]:
            return {"input_ids": torch.tensor([[len(pictures), len(turn), *map(ord, turn[1]["text"] + system)]])}

    class Text:
        def __init__(self, _: object, sizes: list[tuple[int, int]]) -> None:
            self._sizes = sizes

        def __call__(self, ids: list[int]) -> str:
            return f"{self._sizes} {ids[:2]} {''.join(map(chr, ids[2:]))}"

    monkeypatch.setattr("actors.vlm.encoding.ChatEncoder", Chat)
    monkeypatch.setattr("actors.vlm.shown_prompts.PromptText", Text)
    asked: list[tuple[Any, str]] = []
    for name, shows in (("mistakes", True), ("cut", False)):
        step = Step(name)
        step.shows_picture, step.system = shows, "!"  # type: ignore[attr-defined]
        asked.append((Request(step, text="x"), f"answer of {name}"))
    description: Any = SimpleNamespace(pictures=[Image.new("RGB", (3, 2))] * 2)
    model: Any = SimpleNamespace(bounds="bounds")
    assert [line.strip(" |") for line in _lines(asked, description, "processor", model)] == [
        "step mistakes: 6 tokens", "[(3, 2), (3, 2)] [2, 2] <x>!", "taken as its answer: answer of mistakes",
        "step cut: 6 tokens", "[] [0, 2] <x>!", "taken as its answer: answer of cut",
    ]  # fmt: skip


def test_items_without_a_prompt_are_printed_with_their_reason(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    described: dict[str, Any] = {
        "a": Marks(status=Status.MISSING_INPUT, reason=ScoringError("missing_input", "no picture")),
        "b": Marks(status=Status.ERROR),
        "c": SimpleNamespace(),
    }

    def mark(stand_in: StandIn, descriptions: list[Any]) -> None:
        assert descriptions == [described["c"]]
        stand_in.asked += [("request", "answer")] * 1200  # type: ignore[list-item]

    items = [pa.table({"item_id": list(described)})]
    loaded: list[tuple[str, str | None]] = []
    monkeypatch.setattr(marking_trial, "items_to_show", lambda *_: items[0] if items else None)
    monkeypatch.setattr(marking_trial, "model_to_show", lambda model: model)
    monkeypatch.setattr(marking_trial, "describe", lambda item, *_, **__: described[item["item_id"]])
    monkeypatch.setattr(marking_trial, "_lines", lambda asked, *_: [f"{len(asked)} lines"])
    monkeypatch.setattr("actors.vlm.encoding.load_processor", lambda name, revision: loaded.append((name, revision)))
    settings: Any = SimpleNamespace(kinds=KINDS, shows_picture=True, marking=SimpleNamespace(mark=mark))
    model: Any = SimpleNamespace(checkpoint="me/seven", revision="abc")

    def printed() -> list[str]:
        nothing: Any = None
        marking_trial.show(nothing, [], nothing, settings=settings, model=model)
        return capsys.readouterr().out.splitlines()

    assert printed()[1:] == [
        "item a: no prompt, status missing_input (no picture)", "item b: no prompt, status error ()",
        "item c: 1,200 prompts", "1200 lines",
    ]  # fmt: skip
    assert loaded == [("me/seven", "abc")]
    items.clear()
    assert (printed(), len(loaded)) == ([], 1)
