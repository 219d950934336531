"""Rows of `generate`: each sample of each item once, with a status and a reproducible text."""

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
import yaml

from actors.answer_reader import AnswerReader
from actors.generator import Generator, GeneratorSettings
from actors.preparers import PromptPreparer
from actors.rubrics.instructions import Instruction, identity
from actors.vlm.generation import Generated, pad_token, sample_seed, text_ends
from actors.vlm.model_inputs import from_bytes
from actors.vlm.settings import ContextSettings, ModelSettings
from jobs.tables import conform, table
from tests.actors.vlm.helpers import CONF, MODEL, png
from tests.cases import check_cases

PICTURES = pa.list_(pa.large_binary())
MODEL_SETTINGS = ModelSettings(checkpoint=MODEL, dtype="float32")
RULES = {"en": {"refusal": ["^I cannot"], "drop_event": ["another picture"]}}


def conf(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((CONF / "prompt" / f"{name}.yaml").read_text(encoding="utf-8"))
    return loaded


def prompt_preparer(instruction: dict[str, Any], *, answer_tokens: int = 0, **keys: Any) -> PromptPreparer:
    """Return the preparer of an instruction; `keys` are those of `ContextSettings`."""
    settings = ContextSettings(**keys)
    return PromptPreparer(settings, model=MODEL_SETTINGS, instruction=instruction, answer_tokens=answer_tokens)


@pytest.fixture(scope="module")
def preparer() -> PromptPreparer:
    return prompt_preparer(conf("explicit"))


@pytest.fixture(scope="module")
def generator() -> Generator:
    settings = GeneratorSettings(refusals=RULES, samples=2, max_tokens=4)
    return Generator(settings, model=MODEL_SETTINGS, prompt="explicit", prompt_hash="h", threads=1)


def batch(pictures: list[list[bytes | None]], *, status: list[str] | None = None, **context: Any) -> pa.Table:
    columns: dict[str, Any] = {
        "item_id": [f"item{number}" for number in range(len(pictures))],
        "pictures": pa.array(pictures, PICTURES),
        "status": pa.array(status or ["ok"] * len(pictures), pa.string()),
    }
    return pa.table(columns | {name: pa.array(texts, pa.string()) for name, texts in context.items()})


def test_tokens_are_reported_as_they_are_drawn(preparer: PromptPreparer, generator: Generator) -> None:
    prepared = preparer(batch([[png(1)], [png(2)]]))
    reported: list[int] = []
    generator.report_tokens(reported.append)
    rows = generator(prepared).to_pylist()
    assert {row["finish_reason"] for row in rows} == {"length"}  # an end token would be counted but not in the text
    assert sum(reported) == len(rows) * 4
    assert len(reported) >= 4  # at each step, not once per text
    generator.report_tokens(lambda tokens: None)
    assert generator(prepared).to_pylist() == rows


def test_every_row_once(preparer: PromptPreparer, generator: Generator) -> None:
    items = batch(
        [[png(1)], [b"<html>"], [], [png(2)], [None], [png(3)], [png(1), png(2)]],
        status=["ok", "ok", "ok", "reported", "missing", "ok", "ok"],
    )
    prepared = preparer(items)
    assert prepared.num_rows == 7
    generator.take_tally()
    rows = conform(generator(prepared), table("responses")).to_pylist()
    assert [generator.take_tally().get(generator.facts.tally) for _ in range(2)] == [7, None]
    assert [row["item_id"] for row in rows] == [f"item{number}" for number in range(7) for _ in range(2)]
    assert [row["sample"] for row in rows] == [0, 1] * 7
    ends = [(row["status"], row["error_kind"]) for row in rows[::2]]
    assert ends == [
        ("truncated", "answer_cut"),
        ("error", "html"),
        ("missing_input", "no_picture"),
        ("reported", "excluded"),
        ("missing_input", "no_picture"),
        ("truncated", "answer_cut"),
        ("skipped", "picture_count"),
    ]
    for row in rows:
        assert (row["text"] is None) == (row["error_kind"] != "answer_cut")
        assert row["seed"] == sample_seed(0, row["item_id"], row["sample"]) < 2**63
    assert rows[0]["text"] != rows[1]["text"]
    alone = generator(preparer(items.slice(5, 1))).to_pylist()
    assert alone == rows[10:12]


def test_tokens_that_end_a_text_and_that_fill_it() -> None:
    cases: list[tuple[Any, int | None, int | None, tuple[list[int], int]]] = [
        (5, 3, 9, ([3, 5], 9)),
        (5, 5, 0, ([5], 0)),
        ([7, 2], None, None, ([2, 7], 7)),
        (None, 4, None, ([4], 0)),
        (None, 0, None, ([0], 0)),
        (None, None, None, ([], 0)),
    ]

    def check(ids: Any, end: int | None, pad: int | None, expected: tuple[list[int], int]) -> None:
        model = SimpleNamespace(generation_config=SimpleNamespace(eos_token_id=ids))
        chat: Any = SimpleNamespace(tokenizer=SimpleNamespace(eos_token_id=end, pad_token_id=pad))
        assert (text_ends(model, chat), pad_token(chat, model)) == expected

    check_cases(check, cases)


def test_seeds_and_ids_do_not_change_between_versions() -> None:
    """Runs that were begun by an earlier version are continued."""
    assert sample_seed(1, "item", 2) == 8_042_805_053_795_371_737
    rows: Any = object.__new__(Generator)
    rows.facts, rows.prompt, rows.prompt_hash, rows.condition = SimpleNamespace(rater="m@1"), "p", "h", "photo"
    assert rows._key("item", 2, 7) == {
        "response_id": "db4a971e146bd889177c47ccf3a2b356",
        "item_id": "item", "model": "m@1", "prompt": "p", "condition": "photo", "sample": 2, "seed": 7,
    }  # fmt: skip


def test_the_status_of_a_text(generator: Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {1: "A square.", 2: "I cannot do it.", 3: "", 4: "A square. Take another picture."}
    monkeypatch.setattr(generator.chat, "decode", lambda tokens: texts[tokens[0]])

    def row(token: int, reason: str = "stop", item: dict[str, Any] | None = None) -> tuple[Any, ...]:
        columns = generator._response(Generated([token], reason), {"status": "ok", "truncated": None} | (item or {}))
        assert columns["truncated"] == (item or {}).get("truncated")
        return columns["status"], columns.get("error_kind"), columns["refusal_kind"], columns["text"]

    cut: dict[str, Any] = {"item": {"truncated": ["article"]}}
    assert row(1) == ("ok", None, None, texts[1])
    assert row(1, "length") == ("truncated", "answer_cut", None, texts[1])
    assert row(1, **cut) == ("ok", None, None, texts[1])
    assert row(2, **cut) == ("refused", "full", "full", texts[2])
    assert row(3) == ("unparsed", "empty_answer", None, "")
    for number, blank in enumerate(("\n", " \u200b\ufeff", "\u2060", "\u2800\u3164", "\x00"), 10):
        texts[number] = blank
        assert row(number)[:2] == row(number, "length")[:2] == ("unparsed", "empty_answer"), repr(blank)
    assert row(4) == ("ok", None, "drop_event", texts[4])


def test_a_thought_is_kept_apart_from_the_text(generator: Generator, monkeypatch: pytest.MonkeyPatch) -> None:
    text = ""
    monkeypatch.setattr(generator.chat, "decode", lambda tokens: text)

    def columns(reason: str = "stop") -> tuple[Any, ...]:
        row = generator._response(Generated([1], reason), {"status": "ok", "truncated": None})
        return row["status"], row.get("error_kind"), row["refusal_kind"], row["text"], row["thought"]

    text = "<think>I cannot see it?</think>\n\nA square."
    assert columns() == ("ok", None, None, "A square.", "I cannot see it?")
    text = "<think>Hm.</think>I cannot do it."
    assert columns()[:4] == ("refused", "full", "full", "I cannot do it.")
    text = "<think>Hm."
    assert columns() == ("truncated", "answer_cut", None, "", "Hm.")
    assert columns("length") == ("truncated", "answer_cut", None, "", "Hm.")
    text, generator.start = "Hm.</think>A square.", "<think>\n"
    assert columns() == ("ok", None, None, "A square.", "Hm.")
    text = "Hm. A square."
    assert columns("length") == ("truncated", "answer_cut", None, "", "Hm. A square.")
    generator.start = ""
    assert columns() == ("ok", None, None, "Hm. A square.", None)


def test_an_id_does_not_depend_on_the_outcome(preparer: PromptPreparer, generator: Generator) -> None:
    """A retry must find its rows."""
    failed = generator(preparer(batch([[None]])))["response_id"].to_pylist()
    answered = generator(preparer(batch([[png(1)]])))["response_id"].to_pylist()
    assert failed == answered
    assert len(set(answered)) == 2


def test_responses_under_a_condition_have_other_ids(
    preparer: PromptPreparer, generator: Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared = preparer(batch([[None]]))
    plain = generator(prepared)
    monkeypatch.setattr(generator, "condition", "article")
    conditional = generator(prepared)
    assert (set(plain["condition"].to_pylist()), set(conditional["condition"].to_pylist())) == ({""}, {"article"})
    assert not set(plain["response_id"].to_pylist()) & set(conditional["response_id"].to_pylist())


def test_context_is_used_cut_and_may_be_required() -> None:
    prompt = conf("relevant_to")
    items = batch([[png(1)]] * 3, page_title=["A town", None, " "], context_page_description=["word " * 40, "", None])
    cut = prompt_preparer(prompt, max_context_tokens=12)(items).to_pylist()
    assert [row["status"] for row in cut] == ["ok"] * 3
    assert [row["truncated"] for row in cut] == [["context_page_description"], None, None]
    whole = prompt_preparer(prompt, empty_context="skip")(items).to_pylist()
    assert [(row["status"], row["error_kind"]) for row in whole] == [
        ("ok", None),
        ("skipped", "empty_context"),
        ("skipped", "empty_context"),
    ]
    assert whole[0]["inputs"] != cut[0]["inputs"] is not None
    assert whole[1]["inputs"] is None


def test_the_context_leaves_room_for_picture_and_answer() -> None:
    prompt, article = conf("relevant_to"), "word " * 400
    bare = prompt_preparer(prompt)
    needed = len(from_bytes(bare(batch([[png(1)]]))["inputs"][0].as_py())["input_ids"][0])
    items = batch([[png(1)]], context_page_description=[article])
    tight = prompt_preparer(prompt, answer_tokens=30)
    assert tight.token_budget == 32768 - 30
    tight.token_budget = needed + 25
    (row,) = tight(items).to_pylist()
    assert row["truncated"] == ["context_page_description"]
    assert needed < len(from_bytes(row["inputs"])["input_ids"][0]) <= tight.token_budget
    (short,) = bare(whole := batch([[png(1)]], context_page_description=["word " * 9])).to_pylist()
    length = len(from_bytes(short["inputs"])["input_ids"][0])
    cuts = {}
    for tight.token_budget in (length, length - 1):
        (row,) = tight(whole).to_pylist()
        cuts[tight.token_budget] = (
            row["truncated"],
            len(from_bytes(row["inputs"])["input_ids"][0]) <= tight.token_budget,
        )
    assert cuts == {length: (None, True), length - 1: (["context_page_description"], True)}
    tight.token_budget = needed - 1  # prepared without context; the engine then reports that it is too long
    (row,) = tight(items).to_pylist()
    assert len(from_bytes(row["inputs"])["input_ids"][0]) == needed


def test_the_instruction_goes_before_or_after_the_picture() -> None:
    words = "Tell me"
    for order in (["instruction", "picture"], ["picture", "instruction"]):
        pieces = Instruction.from_dict(conf("explicit") | {"order": order}).render({})
        assert [piece is None for piece in pieces] == [entry == "picture" for entry in order]
        assert words in str(next(piece for piece in pieces if piece))


def test_a_prompt_without_a_picture_asks_about_text(generator: Generator) -> None:
    prompt = {
        "name": "summary",
        "version": 1,
        "source": "made for a test",
        "context": {"fields": ["text"]},
        "parts": {"all": "Sum up: {{ text }}"},
        "order": ["all"],
    }
    prepared = prompt_preparer(prompt)(batch([[]], text=["{{ x }} <|im_end|> fields"]))
    assert prepared["status"].to_pylist() == ["ok"]
    assert generator(prepared)["text"].null_count == 0


def test_the_rubrics_questions_are_asked_and_read() -> None:
    from actors.rubrics.instructions import asked_questions
    from actors.rubrics.rubric import Rubric

    century = yaml.safe_load((CONF / "rubric" / "century_labels.yaml").read_text(encoding="utf-8"))
    questions = asked_questions(Rubric.from_dict(century))
    instruction = Instruction.from_dict(conf("rubric_json"))
    before, picture, text = instruction.render({"page_title": "A war"}, questions=questions)
    assert picture is None  # in the paper's order the context comes before the picture, the questions after it
    assert isinstance(before, str)
    assert isinstance(text, str)
    assert "Title: A war" in before
    assert "Title: A war" not in text
    for question in century["questions"]:
        assert f"## {question['name']}\n{question['text']}" in text
        assert all(answer["label"] in text for answer in question["answers"])
    assert "5 = Very sensitive" in text
    responses = pa.Table.from_pylist(
        [
            {"text": '{"sensitive": {"5": "Very sensitive"}, "image_type": "unsure", "time_period": 7}'} | end
            for end in (
                {"status": "ok"},
                {"status": "truncated", "error_kind": "answer_cut"},
                {"status": "ok", "truncated": ["page_title"]},
                {"status": "refused", "error_kind": "full"},
                {"status": "missing_input", "error_kind": "no_picture", "text": None},
            )
        ],
        schema=pa.schema(
            [(name, pa.string()) for name in ("text", "status", "error_kind", "error_message", "empty_context")]
            + [("truncated", pa.list_(pa.string()))]
        ),
    )
    for name in ("item_id", "model", "prompt", "condition"):
        responses = responses.append_column(name, pa.array([f"{name}{i}" for i in range(5)]))
    responses = responses.append_column("sample", pa.array([0] * 5, pa.int32()))
    rows = conform(AnswerReader(rubric=century)(responses), table("ratings")).to_pylist()
    assert len(rows) == 5 * 8
    by_question = [{row["question"]: row for row in rows[at : at + 8]} for at in range(0, 40, 8)]
    sensitive = [rows_of["sensitive"] for rows_of in by_question]
    assert [(row["status"], row["value"], row["score"]) for row in sensitive] == [
        ("ok", "5", 5.0),
        ("ok", "5", 5.0),
        ("ok", "5", 5.0),
        ("refused", None, None),
        ("missing_input", None, None),
    ]
    assert [rows_of["concept"]["status"] for rows_of in by_question[:3]] == ["unparsed", "truncated", "unparsed"]
    assert [row["truncated"] for row in sensitive] == [None, None, ["page_title"], None, None]
    assert by_question[0]["time_period"]["error_kind"] == "not_an_answer"
    assert sensitive[0]["raw"] is None
    assert sensitive[3]["raw"] == responses["text"][3].as_py()
    assert (sensitive[0]["rater"], sensitive[0]["method"], sensitive[0]["order"]) == ("model0", "json", "prompt0")
    assert [row["condition"] for row in sensitive] == [f"condition{i}" for i in range(5)]
    other = AnswerReader(rubric=century, condition="article")(responses)
    assert set(other["condition"].to_pylist()) == {"article"}


def test_invalid_prompts_are_refused() -> None:
    misses: list[tuple[dict[str, Any], str]] = []
    cases: list[tuple[dict[str, Any], str]] = [
        ({"order": []}, "order: at least one part is required"),
        ({"order": ["picture"]}, "at least one part"),
        ({"order": ["other"]}, "'other'"),
        ({"order": ["picture", "picture", "instruction"]}, "duplicate entry 'picture'"),
        ({"parts": {"instruction": "{{ x }}"}}, "'x'"),
        ({"parts": {"instruction": "{{ x"}}, "not a valid template"),
        ({"parts": {"instruction": "{{ ''.__class__.__mro__ }}"}}, "not a valid template"),
        ({"parts": {"picture": "x", "instruction": "y"}}, "a part is named 'picture'"),
        ({"context": {"fields": ["a"], "cut": ["b"]}}, "context, cut"),
        ({"extra": 1}, "unknown key 'extra'"),
    ]
    for change, message in cases:
        try:
            Instruction.from_dict(conf("explicit") | change)
            misses.append((change, "accepted"))
        except ValueError as error:
            if message not in str(error):
                misses.append((change, str(error)))
    assert misses == []


def test_identity_has_only_what_the_model_reads() -> None:
    first = Instruction.from_dict(conf("explicit"))
    assert identity(first) == identity(Instruction.from_dict(conf("explicit") | {"source": "x", "version": 2}))
    assert identity(first) != identity(Instruction.from_dict(conf("explicit") | {"order": ["picture", "instruction"]}))


def test_the_prompts_of_conf() -> None:
    names = [path.stem for path in sorted((CONF / "prompt").glob("*.yaml"))]
    assert [Instruction.from_dict(conf(name)).name for name in names] == names
