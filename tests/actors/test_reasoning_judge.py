"""Rows of `judge method=reasoned`: reasoning is generated, and the allowed answers are scored after it."""

import copy
from dataclasses import replace
from itertools import islice
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from actors import reasoning_judge
from actors.reasoning_judge import ANSWER_LINE, Reasoning
from actors.rubrics.prompts import PromptBuilder
from actors.vlm import model_inputs
from actors.vlm.errors import ScoringError
from actors.vlm.generation import Generated
from actors.vlm.scoring_requests import Scores
from actors.vlm.settings import CLOSING_TOKENS, ReasoningSettings
from actors.vlm.token_trees import common
from jobs.tables import conform, table
from tests.actors.rubric_stages import RubricStages, closed, model_settings, reasoned
from tests.actors.vlm.helpers import png


@pytest.fixture(scope="module")
def rubric() -> dict[str, Any]:
    return {
        "name": "relevance",
        "version": 1,
        "source": "made for a test",
        "parts": {"scale": "{{ options }}", "question": "{{ question }} The culture is {{ target }}."},
        "layouts": {"fast": ["picture", "scale", "question"]},
        "layout": "fast",
        "targets": ["Japan", "Brazil"],
        "questions": [
            {
                "name": "relevance",
                "text": "How relevant?",
                "scale": "ordinal",
                "answers": [{"value": str(n), "label": f"level {n}", "score": n} for n in (1, 2, 3)],
            }
        ],
    }


@pytest.fixture(scope="module")
def judge(rubric: dict[str, Any]) -> RubricStages:
    return reasoned(rubric, samples=2, max_tokens=5)


def batch(pictures: list[list[bytes | None]], status: list[str]) -> pa.Table:
    names = [f"item{number}" for number in range(len(pictures))]
    return pa.table({"item_id": names, "pictures": pa.array(pictures, pa.list_(pa.large_binary())), "status": status})


def test_every_row_once(judge: RubricStages) -> None:
    items = batch([[png(1)], [b"no"], [], [png(1), png(2)], [png(1)]], ["ok", "ok", "ok", "ok", "reported"])
    rows = conform(judge(items), table("ratings")).to_pylist()
    assert [(row["item_id"], row["target"], row["sample"]) for row in rows] == [
        (f"item{item}", target, sample) for item in range(5) for target in ("Japan", "Brazil") for sample in (0, 1)
    ]
    assert [(row["status"], row["error_kind"]) for row in rows[::4]] == [
        ("ok", None),
        ("error", "not_an_image"),
        ("missing_input", "no_picture"),
        ("skipped", "picture_count"),
        ("reported", "excluded"),
    ]
    for row in rows[:4]:
        assert row["method"] == "generate_then_score"
        assert sum(row["probabilities"]) == pytest.approx(1)
        assert row["comment"]
    assert rows[0]["comment"] != rows[1]["comment"]
    assert rows[0]["probabilities"] != rows[1]["probabilities"]
    assert all(row["comment"] is None for row in rows[4:])
    assert judge(items.slice(0, 1)).to_pylist() == rows[:4]


def test_the_answer_is_scored_after_the_reasoning(judge: RubricStages, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    rater = judge.rater
    monkeypatch.setattr(rater, "samples", 1)
    prompts: list[Any] = []

    def generate(inputs: Any, *, seeds: Any, sampling: Any) -> Any:
        prompts.extend(inputs)
        return [[Generated([], "stop")] for _ in inputs]

    monkeypatch.setattr(rater.engine, "generate", generate)
    monkeypatch.setattr(rater.chat, "decode", lambda _: "It is a castle.\n**Final answer:** 2")
    rows = judge(batch([[png(1)]], ["ok"])).to_pylist()
    assert rows[0]["comment"] == "It is a castle."
    start = "It is a castle.\n\nFinal answer:"
    # the same from one forward pass over the whole text
    text = rater.processor.tokenizer.decode(prompts[0]["input_ids"][0]) + start + " "
    ids = rater.chat.ids(text)
    inputs = model_inputs.extended(prompts[0], ids[prompts[0]["input_ids"].shape[1] :])
    rater.model.model.rope_deltas = None
    with torch.inference_mode():
        logits = rater.model(**inputs, use_cache=False).logits[0, -1]
    codes = rater.scorer.check_codes(("1", "2", "3"))
    assert rows[0]["probabilities"] == pytest.approx(logits[codes].double().softmax(-1).tolist(), abs=1e-5)


def test_a_reasoning_that_fails_leaves_the_others(judge: RubricStages, monkeypatch: pytest.MonkeyPatch) -> None:
    rater = judge.rater
    texts = [[Generated([number], "stop") for number in (3, 4)], ScoringError("not_finite", "no likelihoods")]
    left = iter([*texts, *reversed(texts)])
    monkeypatch.setattr(rater.engine, "generate", lambda prompts, **_: list(islice(left, len(prompts))))
    monkeypatch.setattr(rater.chat, "decode", lambda tokens: f"Reason {tokens[0]}.")
    rater.take_tally()
    rows = judge(batch([[png(1)], [png(2)]], ["ok"] * 2)).to_pylist()
    outcomes = [(row["item_id"], row["target"], row["sample"], row["error_kind"], row["comment"]) for row in rows]
    assert outcomes == [
        ("item0", "Japan", 0, None, "Reason 3."),
        ("item0", "Japan", 1, None, "Reason 4."),
        ("item0", "Brazil", 0, "not_finite", None),
        ("item0", "Brazil", 1, "not_finite", None),
        ("item1", "Japan", 0, "not_finite", None),
        ("item1", "Japan", 1, "not_finite", None),
        ("item1", "Brazil", 0, None, "Reason 3."),
        ("item1", "Brazil", 1, None, "Reason 4."),
    ]
    assert [row["status"] for row in rows] == ["ok", "ok", *["error"] * 4, "ok", "ok"]
    assert {row["error_message"] for row in rows} == {None, "no likelihoods"}
    assert rater.take_tally()[rater.facts.tally] == 4  # answers that were scored


def test_scores_equal_those_of_each_prompt_by_itself(judge: RubricStages, rubric: dict[str, Any]) -> None:
    """All questions and samples of an item share one encoding of its picture; rounding is all that changes."""
    from actors.pictures import decode_rgb
    from actors.reasoning_judge import REASONING_INSTRUCTION
    from actors.rubrics.rubric import Rubric
    from actors.vlm.scoring_requests import ScoringRequest

    rows = judge(batch([[png(1)]], ["ok"])).to_pylist()
    prompts = PromptBuilder(Rubric.from_dict(rubric)).prompts({}, targets=judge.preparer.targets)
    for row, entry in zip(rows, (entry for entry in prompts for _ in (0, 1)), strict=True):
        suffix = f"{entry.prompt.suffix}\n\n{REASONING_INSTRUCTION}"
        prompt = replace(entry.prompt, suffix=suffix, start=f"{row['comment']}\n\n{ANSWER_LINE}")
        (alone,) = judge.rater.scorer.score([ScoringRequest(prompt, decode_rgb(png(1)), entry.question.codes)])
        assert isinstance(alone, Scores)
        assert row["probabilities"] == pytest.approx(alone.probabilities, abs=1e-5)


def test_each_sample_has_a_seed_by_item_target_and_question(
    judge: RubricStages, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same whichever items are in a batch, so that a text does not change with them."""
    lists: list[list[list[int]]] = []

    def generate(inputs: Any, *, seeds: list[list[int]], sampling: Any) -> Any:
        lists.append(seeds)
        return [[Generated([], "stop")] for _ in inputs]

    def item(name: str, *pairs: tuple[str, str]) -> Any:
        questions = [(target, SimpleNamespace(name=question)) for target, question in pairs]
        return SimpleNamespace(item_id=name, pairs=questions, whole_prompts=lambda: [None] * len(pairs))

    monkeypatch.setattr(judge.rater.engine, "generate", generate)
    items = [item("a", ("Peru", "fit"), ("Chad", "fit"), ("Peru", "like")), item("b", ("Peru", "fit"))]
    judge.rater._reasonings(items)
    judge.rater._reasonings(items[1:])
    together, alone = lists
    assert [len(seeds) for seeds in together] == [2] * 4
    assert len({seed for seeds in together for seed in seeds}) == 8
    assert alone == together[3:]


def test_an_opening_merged_with_the_reasoning_is_replaced(judge: RubricStages, monkeypatch: pytest.MonkeyPatch) -> None:
    chat = judge.rater.scorer.chat
    tokens = {
        chat.open_start: [1, 2, 3],
        chat.open_start + "x": [1, 2, 9],
        chat.open_start + "y": [1, 2, 3, 4],
    }
    monkeypatch.setattr(chat, "ids", tokens.__getitem__)
    assert judge.rater._with_turn([7, 3], "x") == [7, 9]
    assert judge.rater._with_turn([7, 3], "y") == [7, 3, 4]
    with pytest.raises(ValueError, match="merges"):
        judge.rater._with_turn([7, 8], "x")


def test_the_written_answer_is_left_out_of_the_reasoning(judge: RubricStages, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {
        "A castle.\nFINAL SCORE: 3\nas it is old": "A castle.",
        "A castle. **Final answer**\n2": "A castle.",
        " \nfinal answer 2": "",
        "The final answering machine. ": "The final answering machine.",
        "A <|im_end|>": judge.rater.chat.as_data("A <|im_end|>"),
    }
    assert texts["A <|im_end|>"] != "A <|im_end|>"
    monkeypatch.setattr(judge.rater.chat, "decode", lambda tokens: tokens[0])
    written: list[Any] = [[text] for text in texts]
    reasonings = [judge.rater._reasoning(Generated(text, "stop")) for text in written]
    assert reasonings == [
        Reasoning(text, f"{text}\n\n" if text else "", ANSWER_LINE, is_cut=False) for text in texts.values()
    ]


def test_engines_of_closed_answers_write_no_reasoning(rubric: dict[str, Any]) -> None:
    for engine in ("packed", "cascade", "transformers"):
        with pytest.raises(ValueError, match=f"^engine={engine}: must be one of auto, vllm with method=reasoned"):
            reasoned(rubric, engine=engine)


def test_targets_of_the_run_and_of_the_item(rubric: dict[str, Any]) -> None:
    judge = reasoned(rubric, targets=["Peru"], max_tokens=2)
    items = batch([[png(1)]] * 2, ["ok"] * 2).append_column("targets", pa.array([None, ["Sahel", "Levant"]]))
    rows = judge(items).to_pylist()
    assert [(row["target"], row["status"]) for row in rows] == [("Peru", "ok"), ("Sahel", "ok"), ("Levant", "ok")]


def test_a_text_model_reasons_about_the_context(rubric: dict[str, Any]) -> None:
    parts = {"article": "{{ article }}", **rubric["parts"]}
    with_context = rubric | {
        "context": {"fields": ["article"], "cut": ["article"]},
        "parts": parts,
        "targets": ["Peru"],
    }
    with_context["layouts"] = {"fast": ["picture", "article", "scale", "question"]}
    judge = reasoned(with_context, checkpoint="local:llama-tiny", max_tokens=4, empty_context="skip")
    items = batch([[], [None], []], ["ok", "missing", "ok"]).append_column(
        "article", pa.array(["A war.", "A war.", ""])
    )
    rows = judge(items).to_pylist()
    assert [(row["status"], row["error_kind"]) for row in rows] == [
        ("ok", None), ("ok", None), ("skipped", "empty_context")
    ]  # fmt: skip
    assert rows[0]["comment"]
    assert rows[0]["probabilities"] != rows[1]["probabilities"]  # each item has reasoning of its own


def test_the_context_leaves_room_for_reasoning_and_answer(
    rubric: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with_context = rubric | {"context": {"fields": ["article"], "cut": ["article"]}, "targets": ["Peru"]}
    with_context["parts"] = {"article": "{{ article }}", **rubric["parts"]}
    with_context["layouts"] = {"fast": ["picture", "article", "scale", "question"]}
    judge = reasoned(with_context, max_tokens=5)
    assert judge.rater.engine.max_positions == 32768 - CLOSING_TOKENS
    lengths: list[int] = []
    generate = judge.rater.engine.generate

    def watched(prompts: Any, **options: Any) -> Any:
        lengths.extend(int(prompt["input_ids"].shape[1]) for prompt in prompts)
        return generate(prompts, **options)

    monkeypatch.setattr(judge.rater.engine, "generate", watched)
    judge(batch([[png(1)]], ["ok"]))
    monkeypatch.setattr(judge.preparer, "token_budget", lengths[0] + 10)
    items = batch([[png(1)]], ["ok"]).append_column("article", pa.array(["word " * 300]))
    (row,) = judge(items).to_pylist()
    assert (row["status"], row["truncated"]) == ("ok", ["article"])
    assert row["value"] is not None
    assert lengths[0] < lengths[1] <= lengths[0] + 10


def test_settings_are_validated(rubric: dict[str, Any]) -> None:
    for key in ("samples", "max_tokens", "group_rows", "memory_budget_gb"):
        values: dict[str, Any] = {"rubric": rubric, key: 0}
        with pytest.raises(ValueError, match=f"{key}=0: "):
            ReasoningSettings(**values)


def test_the_answer_after_a_reasoning_needs_no_further_room(judge: RubricStages, rubric: dict[str, Any]) -> None:
    """Its tokens are among those reserved for the text; a closed answer reserves its own."""
    assert judge.preparer._answer_tokens == {"relevance": 0}
    assert closed(rubric).preparer._answer_tokens == {"relevance": 1}
    by_label = {**rubric, "questions": [{**rubric["questions"][0], "reply": "label"}]}
    assert closed(by_label).preparer._answer_tokens["relevance"] > 1


def test_the_memory_is_that_of_both_engines(judge: RubricStages, monkeypatch: pytest.MonkeyPatch) -> None:
    budgets: list[tuple[str, Any]] = []

    def keeper(name: str) -> Any:
        return lambda *_, **keys: budgets.append((name, keys["memory_budget_gb"]))

    monkeypatch.setattr(reasoning_judge, "text_generator", keeper("texts"))
    monkeypatch.setattr(reasoning_judge, "ClosedSetScorer", keeper("answers"))
    monkeypatch.setattr(judge.rater.settings, "memory_budget_gb", 0.25)
    loaded = copy.copy(judge.rater)
    loaded._load(model_settings(), None)
    assert budgets == [("texts", 0.25), ("answers", 0.25)]


def test_a_model_thinks_before_its_answer(rubric: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Its prompts open a thought: it is asked as for closed answers, and these follow the end of the thought."""
    import torch

    from actors.vlm import loading

    load_processor, load_model = loading.load_processor, loading.load_model
    processor: Any = load_processor("local:qwen2.5-vl-tiny")
    begin = "'<|im_start|>assistant\n'"
    template = str(processor.chat_template).replace(
        begin.replace("\n", "\\n"), f"{begin[:-1]}<muse>\n'".replace("\n", "\\n")
    )
    assert template != processor.chat_template

    def thinking(processor: Any) -> Any:
        processor.chat_template = template
        return processor

    monkeypatch.setattr(
        "actors.preparers.load_processor", lambda *names, **keys: thinking(load_processor(*names, **keys))
    )
    monkeypatch.setattr(
        "actors.rubric_rater.load_model",
        lambda *names, **keys: (loaded := load_model(*names, **keys))._replace(processor=thinking(loaded.processor)),
    )
    judge = reasoned(rubric | {"answer_start": "My score:"}, samples=3, max_tokens=9, targets=["Peru"])
    rater = judge.rater
    prompts: list[Any] = []
    texts = {0: "A castle. Final answer: 2", 1: "A castle. Final answer: 2\n</muse>\n\nFinal answer: 3", 2: "</muse>2"}

    def generate(inputs: Any, *, seeds: Any, sampling: Any) -> Any:
        prompts.extend(inputs)
        return [[Generated([number], "stop") for number in texts]]

    monkeypatch.setattr(rater.engine, "generate", generate)
    monkeypatch.setattr(rater.chat, "decode", lambda tokens: texts[tokens[0]])
    cut, row, empty = judge(batch([[png(1)]], ["ok"])).to_pylist()
    text = rater.processor.tokenizer.decode(prompts[0]["input_ids"][0])
    assert text.endswith("The culture is Peru.<|im_end|>\n<|im_start|>assistant\n<muse>\n"), "nothing asks it to reason"
    assert (cut["status"], cut["error_kind"], cut["value"], cut["comment"]) == (
        "truncated",
        "answer_cut",
        None,
        texts[0],
    )
    assert (row["status"], row["comment"]) == ("ok", texts[0]), "its own answer is left out"
    assert (empty["status"], empty["comment"]) == ("ok", "")
    for answered, thought in ((row, texts[0]), (empty, "")):  # the same from one pass over the whole text
        ids = rater.chat.ids(f"{text}{thought}\n</muse>\n\nMy score: ")
        kept = common(ids, prompts[0]["input_ids"][0].tolist())  # line ends of the prompt and the thought may merge
        inputs = model_inputs.extended(model_inputs.cut(prompts[0], kept), ids[kept:])
        rater.model.model.rope_deltas = None
        with torch.inference_mode():
            logits = rater.model(**inputs, use_cache=False).logits[0, -1]
        codes = [sequence[0] for sequence in rater.scorer.answers(("1", "2", "3"), start="My score:").sequences]
        assert answered["probabilities"] == pytest.approx(logits[codes].double().softmax(-1).tolist(), abs=1e-5)
