"""A thought is written, and the closed answer is scored behind it."""

from typing import Any

import pyarrow as pa
import pytest

from actors.reasoning_judge import CLOSING_TOKENS, ReasoningJudge, begun
from actors.vlm.generation import Generated
from actors.vlm.requests import Scores
from jobs.tables import conform, table
from tests.actors.vlm.helpers import MODEL, png


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
def judge(rubric: dict[str, Any]) -> ReasoningJudge:
    return ReasoningJudge(model=MODEL, rubric=rubric, dtype="float32", samples=2, max_tokens=5, threads=1)


def batch(pictures: list[list[bytes | None]], status: list[str]) -> pa.Table:
    names = [f"item{place}" for place in range(len(pictures))]
    return pa.table({"item_id": names, "pictures": pa.array(pictures, pa.list_(pa.large_binary())), "status": status})


def test_every_row_once(judge: ReasoningJudge) -> None:
    asked = batch([[png(1)], [b"no"], [], [png(1), png(2)], [png(1)]], ["ok", "ok", "ok", "ok", "reported"])
    made = conform(judge(asked), table("ratings"))
    rows = made.to_pylist()
    assert [(row["item_id"], row["target"], row["sample"]) for row in rows] == [
        (f"item{item}", target, sample) for item in range(5) for target in ("Japan", "Brazil") for sample in (0, 1)
    ]
    assert [(row["status"], row["error_kind"]) for row in rows[::4]] == [
        ("ok", None),
        ("error", "not_an_image"),
        ("missing_input", "no_picture"),
        ("skipped", "several_pictures"),
        ("reported", "excluded"),
    ]
    for row in rows[:4]:
        assert row["method"] == "generate_then_score"
        assert sum(row["probabilities"]) == pytest.approx(1)
        assert row["comment"]
    assert rows[0]["comment"] != rows[1]["comment"]
    assert rows[0]["probabilities"] != rows[1]["probabilities"]
    assert all(row["comment"] is None for row in rows[4:])
    assert judge(asked.slice(0, 1)).to_pylist() == rows[:4]


def test_the_answer_is_scored_behind_the_thought(judge: ReasoningJudge, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(judge, "samples", 1)
    monkeypatch.setattr(
        judge.engine, "generate", lambda prompts, *, seeds, sampling: [[Generated([], "stop")] for _ in prompts]
    )
    monkeypatch.setattr(judge.chat, "decode", lambda _: "It is a castle.\n**Final answer:** 2")
    found: list[Any] = []
    score = judge.scorer.score

    def seen(requests: Any) -> Any:
        found.extend(requests)
        return score(requests)

    monkeypatch.setattr(judge.scorer, "score", seen)
    rows = judge(batch([[png(1)]], ["ok"])).to_pylist()
    assert rows[0]["comment"] == "It is a castle."
    assert found[0].prompt.start == begun("It is a castle.") == "It is a castle.\n\nFinal answer:"
    # the same from one whole pass over the text as it stands
    pieces = [None, found[0].prompt.after + found[0].prompt.suffix]
    inputs = judge.chat.encode(pieces, [found[0].picture], start=found[0].prompt.start + " ")
    judge.engine.model.model.rope_deltas = None
    with torch.inference_mode():
        logits = judge.engine.model(**inputs, use_cache=False).logits[0, -1]
    ids = judge.scorer.check_codes(("1", "2", "3"))
    assert rows[0]["probabilities"] == pytest.approx(logits[ids].double().softmax(-1).tolist(), abs=1e-5)
    assert isinstance(score(found)[0], Scores)
    assert begun("") == "Final answer:"


def test_labels_that_are_given_and_an_items_own(rubric: dict[str, Any]) -> None:
    judge = ReasoningJudge(model=MODEL, rubric=rubric, targets=["Peru"], dtype="float32", max_tokens=2, threads=1)
    asked = batch([[png(1)]] * 2, ["ok"] * 2).append_column("targets", pa.array([None, ["Sahel", "Levant"]]))
    rows = judge(asked).to_pylist()
    assert [(row["target"], row["status"]) for row in rows] == [("Peru", "ok"), ("Sahel", "ok"), ("Levant", "ok")]


def test_a_model_of_text_thinks_about_what_is_said(rubric: dict[str, Any]) -> None:
    parts = {"article": "{{ article }}", **rubric["parts"]}
    told = rubric | {"context": {"fields": ["article"], "cut": ["article"]}, "parts": parts, "targets": ["Peru"]}
    told["layouts"] = {"fast": ["picture", "article", "scale", "question"]}
    given: dict[str, Any] = {"dtype": "float32", "max_tokens": 4, "threads": 1, "empty_context": "skip"}
    judge = ReasoningJudge(model="local:llama-tiny", rubric=told, **given)
    asked = batch([[], [None], []], ["ok", "missing", "ok"]).append_column(
        "article", pa.array(["A war.", "A war.", ""])
    )
    rows = judge(asked).to_pylist()
    assert [(row["status"], row["error_kind"]) for row in rows] == [
        ("ok", None), ("ok", None), ("skipped", "empty_context")
    ]  # fmt: skip
    assert rows[0]["comment"]
    assert rows[0]["probabilities"] != rows[1]["probabilities"]  # each item's thoughts are its own


def test_the_context_gives_way_to_thought_and_answer(rubric: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    told = rubric | {"context": {"fields": ["article"], "cut": ["article"]}, "targets": ["Peru"]}
    told["parts"] = {"article": "{{ article }}", **rubric["parts"]}
    told["layouts"] = {"fast": ["picture", "article", "scale", "question"]}
    judge = ReasoningJudge(model=MODEL, rubric=told, dtype="float32", max_tokens=5, threads=1)
    assert judge.engine.max_positions == 32768 - CLOSING_TOKENS
    lengths: list[int] = []
    generate = judge.engine.generate

    def watched(prompts: Any, **options: Any) -> Any:
        lengths.extend(int(prompt["input_ids"].shape[1]) for prompt in prompts)
        return generate(prompts, **options)

    monkeypatch.setattr(judge.engine, "generate", watched)
    judge(batch([[png(1)]], ["ok"]))
    monkeypatch.setattr(judge.scorer, "token_budget", lambda: lengths[0] + 5 + CLOSING_TOKENS + 10)
    asked = batch([[png(1)]], ["ok"]).append_column("article", pa.array(["word " * 300]))
    (row,) = judge(asked).to_pylist()
    assert (row["status"], row["error_kind"]) == ("truncated", "context_cut")
    assert lengths[0] < lengths[1] <= lengths[0] + 10
