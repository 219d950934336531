"""Prompts that a plan shows, with the answers of a tiny model or, for `mark_spans`, of a stand-in."""

import io
from collections.abc import Generator
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
import torch
from PIL import Image

from actors.marking.span_prompts import Kind, Marks
from actors.status import Status
from actors.vlm.errors import ScoringError
from actors.vlm.settings import ModelSettings
from jobs.errors import InputError
from jobs.judging import prompt_trial
from jobs.judging.prompt_trial import ANSWERS_SHOWN, ENDS_SHOWN, TINY, TOKENS, StandIn, _lines, _turn
from jobs.runtime.stage_contract import Stage
from jobs.store.units import Unit
from jobs.store.writer import UnitTask

OTHER = ModelSettings(checkpoint="local:llama-tiny")


def asked(show_prompts: int, *, only_plans: bool = True) -> Any:
    """Return the keys of a job."""
    return SimpleNamespace(show_prompts=show_prompts, only_plans=only_plans)


@dataclass(frozen=True)
class Settings:
    engine: str = "auto"
    max_tokens: int = 500


class Actor:
    """A stage that keeps its arguments and returns rows of answers."""

    made: list[dict[str, Any]] = []
    rows: list[dict[str, Any]] = []

    def __init__(self, **kwargs: Any) -> None:
        self.made.append(kwargs)

    def __call__(self, rows: pa.Table) -> pa.Table:
        return pa.Table.from_pylist(self.rows) if self.rows else rows


@pytest.fixture
def actor() -> type[Actor]:
    Actor.made, Actor.rows = [], []
    return Actor


class Items:
    """Reads the items of a unit, as many as it says; a plan copies no tables."""

    def __init__(self, *, copies: bool = True) -> None:
        self._copies = copies

    def without_copies(self) -> "Items":
        return Items(copies=False)

    def __call__(self, task: UnitTask, /) -> pa.Table:
        count = int(task.unit.name[1:])
        if self._copies or count > 90:
            raise AssertionError("read")
        return pa.table({"item_id": pa.array([f"{task.unit.name}-{n}" for n in range(count)], pa.string())})


reader = Items()


def units(*names: str) -> list[Unit]:
    return [Unit(name, ()) for name in names]


def shown_items(count: int, *names: str) -> list[str]:
    ids: list[str] = prompt_trial.first_items(units(*names), reader, count)["item_id"].to_pylist()
    return ids


def test_the_first_items_of_the_first_units() -> None:
    assert shown_items(1, "a3", "b99") == ["a3-0"]
    assert shown_items(3, "a3", "b99") == ["a3-0", "a3-1", "a3-2"]
    assert shown_items(4, "a3", "b0", "c2", "d99") == ["a3-0", "a3-1", "a3-2", "c2-0"]
    assert shown_items(9, "a1", "b1") == ["a1-0", "b1-0"]
    assert prompt_trial.first_items([], reader, 1).num_rows == 0


def drained(lines: Generator[str, None, Any]) -> tuple[list[str], Any]:
    """Return the lines of a generator, and what it returns."""
    yielded = []
    while True:
        try:
            yielded.append(next(lines))
        except StopIteration as end:
            return yielded, end.value


def test_the_absence_of_items_is_named() -> None:
    assert drained(prompt_trial.items_to_show(asked(0), units("a99"), reader)) == ([], None)
    absent = drained(prompt_trial.items_to_show(asked(1), units("a0"), reader))
    assert absent == (["prompts: the input has no items"], None)
    lines, items = drained(prompt_trial.items_to_show(asked(1), units("a2"), reader))
    assert (lines, items.num_rows) == ([], 1)


def test_the_key_is_of_plans_and_not_negative() -> None:
    for keys in (asked(0, only_plans=False), asked(0), asked(3)):
        prompt_trial.check(keys)
    with pytest.raises(InputError, match="show_prompts=-1: must be at least 0"):
        prompt_trial.check(asked(-1))
    with pytest.raises(InputError, match="show_prompts: only used with plan=true"):
        prompt_trial.check(asked(1, only_plans=False))


def test_the_tiny_model_gets_the_settings_but_few_tokens_and_no_engine_that_is_slow_to_start(actor: Any) -> None:
    rows = pa.table({"x": [1]})
    kwargs = {"model": ModelSettings(checkpoint="big"), "settings": Settings(engine="naive"), "keeps_pictures": True}
    prompt_trial._called(Stage("s", actor, kwargs), TINY, rows)
    few = Settings(engine="vllm", max_tokens=TOKENS - 1)
    prompt_trial._called(Stage("s", actor, {"model": None, "settings": few, "targets": ["t"]}), TINY, rows)
    first, second = actor.made
    assert first == {"model": TINY, "settings": Settings("naive", TOKENS), "keeps_pictures": False}
    assert second == {"model": TINY, "settings": replace(few, engine="auto"), "targets": ["t"]}
    assert kwargs["settings"] == Settings(engine="naive"), "the run's settings stay"


def test_answers_are_shown_up_to_a_number(actor: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompt_trial, "_prompt_lines", lambda items, prepared, model: ["a prompt"])
    monkeypatch.setattr(prompt_trial, "_without_progress_bars", lambda: None)
    stages = [Stage(name, actor, {"model": TINY, "settings": Settings()}) for name in ("prepare", "answer")]

    def show(answers: int) -> list[str]:
        actor.made.clear()
        actor.rows = [{"item_id": f"i{n}", "sample": 0, "status": "ok", "text": "x"} for n in range(answers)]
        return list(prompt_trial.lines(asked(1), units("a1"), reader, stages))

    exactly = show(ANSWERS_SHOWN)
    assert exactly[0] == "a prompt"
    assert exactly[2:] == [f"  i{n} sample 0: ok 'x'" for n in range(ANSWERS_SHOWN)]
    assert len(actor.made) == 2, "a local model prepares once"
    more = show(ANSWERS_SHOWN + 1234)
    assert (len(more), more[-1]) == (ANSWERS_SHOWN + 3, "  … and 1,234 more")
    stages = [Stage(name, actor, {"model": OTHER, "settings": Settings()}) for name in ("prepare", "answer")]
    assert show(1)[2:] == ["  i0 sample 0: ok 'x'"]
    assert [kwargs["model"] for kwargs in actor.made] == [OTHER, TINY, TINY]


def test_the_tiny_model_renders_the_prompts_of_one_that_is_not_here(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from actors.vlm import loading

    looked_up: list[tuple[str, dict[str, Any]]] = []

    def load_processor(checkpoint: str, **keys: Any) -> object:
        looked_up.append((checkpoint, keys))
        if checkpoint == "me/absent":
            raise ValueError("not here")
        return object()

    monkeypatch.setattr(loading, "load_processor", load_processor)
    here, absent = ModelSettings(checkpoint="me/seven", revision="r"), ModelSettings(checkpoint="me/absent")
    assert [drained(prompt_trial.model_to_show(model)) for model in (here, OTHER)] == [([], here), ([], OTHER)]
    assert looked_up == [("me/seven", {"revision": "r", "local_only": True})]
    (line,), shown = drained(prompt_trial.model_to_show(absent))
    assert shown == TINY
    assert line.startswith("  the processor of me/absent is not on this machine: prompts are formatted for local:")


def test_the_sizes_of_pictures_are_those_of_their_bytes() -> None:
    pictures = []
    for size in ((3, 2), (4, 5)):
        Image.new("RGB", size).save(file := io.BytesIO(), "PNG")
        pictures.append(file.getvalue())
    assert prompt_trial._sizes(pictures) == [(3, 2), (4, 5)]


def test_lines_of_answers() -> None:
    line = prompt_trial._answer_line
    rating = {"item_id": "i", "question": "q", "target": "", "value": "yes", "status": "ok"}
    shares = {"answers": ["yes", "no"], "probabilities": [0.756, 0.244]}
    assert line({**rating, **shares}) == "i q: yes (yes 0.76, no 0.24)"
    assert line({**rating, **shares, "target": "war"}) == "i q of war: yes (yes 0.76, no 0.24)"
    assert line({**rating, "value": None, "status": "refused", "target": "war"}) == "i q of war: refused"
    assert line({**rating, "answers": None, "probabilities": None}) == "i q: yes ()"
    text = line({"item_id": "i", "sample": 2, "status": "ok", "text": "x\n" * 100})
    assert text == "i sample 2: ok " + repr("x\n" * 100)[:80]
    assert line({"item_id": "i", "sample": 2, "status": "error", "text": None}) == "i sample 2: error None"


def test_lines_of_prompts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tokens are printed as numbers; more ends than are shown are counted."""
    import torch

    from actors.vlm import chat, loading, model_inputs

    class Text:
        def __init__(self, processor: object, sizes: list[tuple[int, int]]) -> None:
            assert (processor, sizes) == ("processor", [])

        def __call__(self, ids: list[int]) -> str:
            return " ".join(map(str, ids)) + "\n."

    monkeypatch.setattr(loading, "load_processor", lambda *_, **__: "processor")
    monkeypatch.setattr(model_inputs, "from_bytes", lambda data: {"input_ids": torch.tensor([list(data)])})
    monkeypatch.setattr(chat, "PromptText", Text)
    items: list[dict[str, Any]] = [
        {"item_id": name, "pictures": [], "title": None, "targets": ["x"]} for name in "abcd"
    ]
    items[2] |= {"title": "Kula", "year": "1900"}
    ends = [[n] * n for n in range(1, ENDS_SHOWN + 3)]
    prepared: list[dict[str, Any]] = [
        {"status": "error", "error_message": "why", "inputs": None},
        {"status": "ok", "inputs": b"\x07\x08\x09"},
        {"status": "ok", "inputs": b"\x07\x08\x09", "shared": 2, "suffixes": ends[:ENDS_SHOWN]},
        {"status": "ok", "inputs": b"\x07\x08\x09", "shared": 2, "suffixes": ends},
    ]
    lines = list(prompt_trial._prompt_lines(items, prepared, TINY))
    shared = [
        "  end of prompt 1: 1 tokens", "    | 1\n    | .", "  end of prompt 2: 2 tokens", "    | 2 2\n    | .",
        "  end of prompt 3: 3 tokens", "    | 3 3 3\n    | .",
    ]  # fmt: skip
    assert lines == [
        "item a: no prompt, status error (why)",
        "item b: 3 tokens; columns sent: none", "    | 7 8 9\n    | .",
        "item c: 3 prompts, which share their first 2 tokens; columns sent: title, year", "    | 7 8\n    | .", *shared,
        "item d: 5 prompts, which share their first 2 tokens; columns sent: none", "    | 7 8\n    | .", *shared,
        "  … and 2 more",
    ]  # fmt: skip


KINDS = (
    Kind("mistakes", "m", "generated", {"colour": "a colour", "shape": "a shape"}),
    Kind("omissions", "o", "correct", {"missing": "what is missing"}),
)


class Step:
    """A step of `actors.marking.span_prompts`: its name, and its pieces."""

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

    monkeypatch.setattr("actors.vlm.chat.ChatEncoder", Chat)
    monkeypatch.setattr("actors.vlm.chat.PromptText", Text)
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


def returning(value: Any) -> Generator[str, None, Any]:
    """Yield no line and return a value."""
    yield from ()
    return value


def test_items_without_a_prompt_are_printed_with_their_reason(
    monkeypatch: pytest.MonkeyPatch,
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
    monkeypatch.setattr(prompt_trial, "items_to_show", lambda *_: returning(items[0] if items else None))
    monkeypatch.setattr(prompt_trial, "model_to_show", returning)
    monkeypatch.setattr(prompt_trial, "describe", lambda item, *_, **__: described[item["item_id"]])
    monkeypatch.setattr(prompt_trial, "_lines", lambda asked, *_: [f"{len(asked)} lines"])
    monkeypatch.setattr(
        "actors.vlm.loading.load_processor", lambda name, revision, variables: loaded.append((name, revision))
    )
    settings: Any = SimpleNamespace(kinds=KINDS, shows_picture=True, marking=SimpleNamespace(mark=mark))
    model: Any = SimpleNamespace(checkpoint="me/seven", revision="abc", template={})

    def printed() -> list[str]:
        nothing: Any = None
        return list(prompt_trial.marking_lines(nothing, [], nothing, settings=settings, model=model))

    assert printed()[1:] == [
        "item a: no prompt, status missing_input (no picture)", "item b: no prompt, status error ()",
        "item c: 1,200 prompts", "1200 lines",
    ]  # fmt: skip
    assert loaded == [("me/seven", "abc")]
    items.clear()
    assert (printed(), len(loaded)) == ([], 1)
