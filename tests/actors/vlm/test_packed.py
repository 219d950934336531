"""Several items in one forward pass: each gets the results that it has alone."""

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from actors.rubrics.prompts import Prompt
from actors.vlm import attention, memory, packed, shared_prefix
from actors.vlm.errors import EngineError, ScoringError
from actors.vlm.scoring import ClosedSetScorer
from actors.vlm.scoring_requests import AnswerCodes, RequestGroup, Scores, ScoringRequest
from actors.vlm.token_trees import TokenTree
from tests.actors.vlm.helpers import DIGITS, LABELS, TOLERANCE, Load, distance, logprobs, picture, scores_of

PACKED = ("qwen2.5-vl-tiny", "qwen3-vl-tiny", "llama-tiny", "qwen2-tiny", "qwen3-tiny")
WORDS = ("Northern Africa", "Northern Europe", "North")


def requests(
    *, sees: bool, items: int = 5, codes: tuple[str, ...] = DIGITS, tree: bool = False
) -> list[ScoringRequest]:
    """Requests about items with pictures of several sizes, or some without any, and articles of several lengths."""
    asked = []
    for item in range(items):
        shown = picture(item, width=60 + 30 * item, height=90) if sees and item != 2 else None
        shared = (*((None,) if shown else ()), "An article. " * (1 + 3 * item))
        labels = LABELS[: 1 + item % len(LABELS)]
        for number, label in enumerate(labels):
            text = f"The label of this object is {label}." if not tree else "The label is long and shared by all. "
            asked.append(ScoringRequest(Prompt(shared, f"{text} Question {number}?"), shown, codes))
    return asked


def scores(load: Load, name: str, engine: str, asked: list[ScoringRequest], **options: Any) -> list[Scores]:
    return scores_of(ClosedSetScorer(*load(name), engine=engine, **options).score(asked))


@pytest.mark.parametrize("name", PACKED)
def test_items_of_all_shapes_get_the_likelihoods_of_whole_passes(load: Load, name: str) -> None:
    sees = "-vl-" in name
    for codes, tree in ((DIGITS, False), (WORDS, False), (DIGITS, True)):
        asked = requests(sees=sees, codes=codes, tree=tree)
        naive, together = (scores(load, name, engine, asked) for engine in ("naive", "packed"))
        assert distance(logprobs(naive), logprobs(together)) < TOLERANCE, (codes, tree)
        assert [one.prompt_tokens for one in together] == [one.prompt_tokens for one in naive]


@pytest.mark.parametrize("name", ["qwen2.5-vl-tiny", "llama-tiny"])
def test_the_text_model_runs_twice_for_all_items(load: Load, name: str) -> None:
    model, processor = load(name)
    asked = requests(sees="-vl-" in name)
    scorer = ClosedSetScorer(model, processor, engine="packed")
    scorer.score(asked)  # compares the engine with whole passes
    passed: list[int] = []
    hook = model.get_input_embeddings().register_forward_hook(lambda _, ids, __: passed.append(ids[0].numel()))
    results = scores_of(scorer.score(asked))
    hook.remove()
    assert len(passed) == 2
    assert sum(one.passed_tokens for one in results) == pytest.approx(sum(passed))


def test_a_small_budget_takes_several_passes(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    model, processor = load("qwen2.5-vl-tiny")
    asked = requests(sees=True)
    whole = scores_of(ClosedSetScorer(model, processor, engine="packed").score(asked))
    passed: list[int] = []
    monkeypatch.setattr(memory, "LEAST_TOKENS", 8)
    monkeypatch.setattr(memory, "MOST_TOKENS", {"cpu": 24})
    hook = model.get_input_embeddings().register_forward_hook(lambda _, ids, __: passed.append(ids[0].numel()))
    parts = scores_of(ClosedSetScorer(model, processor, engine="packed").score(asked))
    hook.remove()
    assert distance(logprobs(whole), logprobs(parts)) < TOLERANCE
    assert len(passed) > 10  # each item by itself, its suffixes in several passes


def test_items_share_a_pass_by_the_tokens_that_pass(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    """The common beginning of an item's suffixes belongs to its prefix."""
    model, processor = load("qwen2.5-vl-tiny")
    asked = requests(sees=True, tree=True)
    scorer = ClosedSetScorer(model, processor, engine="packed")
    scorer.score(asked)  # compares the engine with whole passes
    passed: list[int] = []
    hook = model.get_input_embeddings().register_forward_hook(lambda _, ids, __: passed.append(ids[0].numel()))
    scorer.score(asked)
    monkeypatch.setattr(memory, "LEAST_TOKENS", max(passed))
    monkeypatch.setattr(memory, "MOST_TOKENS", {"cpu": max(passed)})
    scorer.score(asked)
    hook.remove()
    assert passed[2:] == passed[:2]


def test_one_item_that_fails_does_not_fail_the_others(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    model, processor = load("qwen2.5-vl-tiny")
    asked = requests(sees=True)
    scorer = ClosedSetScorer(model, processor, engine="packed")
    expected = scores_of(scorer.score(asked))
    launch = packed.launch

    def fails(*arguments: Any, budget: int) -> Any:
        if any("Question 3" in processor.tokenizer.decode(suffix) for item in arguments[1] for suffix in item.suffixes):
            raise RuntimeError("an item that fails")
        return launch(*arguments, budget=budget)

    monkeypatch.setattr(packed, "launch", fails)
    results = scorer.score(asked)
    failed = [result for result in results if isinstance(result, ScoringError)]
    assert {error.message for error in failed} == {"an item that fails"}
    assert len(failed) == 4  # the requests about the item with four labels
    kept = [(one, other) for one, other in zip(expected, results, strict=True) if isinstance(other, Scores)]
    assert distance(logprobs([one for one, _ in kept]), logprobs([other for _, other in kept])) < TOLERANCE


def test_without_memory_for_all_items_each_passes_alone(
    load: Load, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    import torch

    model, processor = load("qwen2.5-vl-tiny")
    asked = requests(sees=True)
    scorer = ClosedSetScorer(model, processor, engine="packed", memory_budget_gb=1)
    expected = scores_of(scorer.score(asked))
    launch, items = packed.launch, []

    def scarce(*arguments: Any, budget: int) -> Any:
        items.append(len(arguments[1]))
        if items[-1] > 1:
            raise torch.OutOfMemoryError("simulated")
        return launch(*arguments, budget=budget)

    monkeypatch.setattr(packed, "launch", scarce)
    with caplog.at_level(logging.WARNING):
        results = scores_of(scorer.score(asked))
    assert distance(logprobs(expected), logprobs(results)) < TOLERANCE
    assert items[0] == 5
    assert items[1:] == [1] * 5
    assert scorer.budget == 10**9 // 2
    assert "memory budget is halved" in caplog.text


def test_a_dead_device_ends_the_stage(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    class DeadItems:
        def result(self) -> Any:
            raise RuntimeError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr(packed, "launch", lambda *_, **__: DeadItems())
    with pytest.raises(EngineError, match="illegal memory access"):
        ClosedSetScorer(*load("qwen2.5-vl-tiny"), engine="packed").score(requests(sees=True))


def test_families_that_cannot_pack(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = r"engine=packed: does not support.*engines that may: cascade, batched, naive"
    for name in ("mllama-tiny", "gemma3-tiny"):
        with pytest.raises(ValueError, match=refused):
            ClosedSetScorer(*load(name), engine="packed")
    # In half precision, pictures of other prompts can change likelihoods by less than the rounding.
    monkeypatch.setattr("actors.vlm.shared_prefix.tolerance", lambda model: shared_prefix.ROUNDED_TOLERANCE)
    for name in ("llava-next-tiny", "smolvlm-tiny"):
        with pytest.raises(ValueError, match=refused):
            ClosedSetScorer(*load(name), engine="packed")
    assert ClosedSetScorer(*load("qwen3-vl-tiny"), engine="packed").engine == "packed"


@pytest.mark.parametrize("name", ["llava-next-tiny", "smolvlm-tiny"])
def test_other_families_pack_where_it_gives_the_same(load: Load, name: str) -> None:
    asked = [entry for entry in requests(sees=True) if entry.picture]
    whole, together = (scores(load, name, engine, asked) for engine in ("naive", "packed"))
    assert distance(logprobs(whole), logprobs(together)) < TOLERANCE


def test_auto_packs_on_gpus_in_half_precision_alone(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    model, processor = load("qwen2.5-vl-tiny")
    asked = requests(sees=True)
    scorer = ClosedSetScorer(model, processor)
    scorer.score(asked)
    assert (scorer.engine, scorer.groups_at_once) == ("cascade", 1)
    monkeypatch.setattr("actors.vlm.engines._wants_packing", lambda _: True)
    scorer = ClosedSetScorer(model, processor)
    assert scorer.groups_at_once == 64
    scorer.score(asked)
    assert scorer.engine == "packed"


def test_auto_falls_back_where_items_would_see_one_another(
    load: Load, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    model, processor = load("qwen2.5-vl-tiny")
    monkeypatch.setattr("actors.vlm.engines._wants_packing", lambda _: True)
    attend = attention.attend_segments

    def mixed(*arguments: Any, queries: attention.Segments, keys: attention.Segments, **options: Any) -> Any:
        whole, seen = attention.Segments((sum(queries.lengths),)), attention.Segments((sum(keys.lengths),))
        return attend(*arguments, queries=whole, keys=seen, **options)

    monkeypatch.setattr(packed, "attend_segments", mixed)
    asked = requests(sees=True, items=1)  # one row: by itself it would see nothing wrong
    scorer = ClosedSetScorer(model, processor)
    with caplog.at_level(logging.WARNING):
        results = scores_of(scorer.score(asked))
    assert scorer.engine == "cascade"
    assert "engine packed is not used" in caplog.text
    expected = scores_of(ClosedSetScorer(model, processor, engine="naive").score(asked))
    assert distance(logprobs(expected), logprobs(results)) < TOLERANCE


@pytest.mark.parametrize("name", ["qwen2.5-vl-tiny", "qwen3-vl-tiny"])
def test_attention_in_pictures_and_their_windows(load: Load, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The vision tower passes the bounds of pictures and windows to the attention that GPUs use."""
    import torch
    from transformers import AttentionInterface

    model, processor = load(name)
    tower = model.model.visual
    inputs = processor.image_processor([picture(1, width=300, height=200), picture(2)], return_tensors="pt")

    def seen() -> Any:
        with torch.inference_mode():
            return tower(inputs["pixel_values"], grid_thw=inputs["image_grid_thw"]).pooler_output

    expected, calls = seen(), []

    def watched(*arguments: Any, **options: Any) -> Any:
        calls.append(len(options["cu_seq_lens_q"]))
        return attention.attend_in_pictures(*arguments, **options)

    AttentionInterface.register(attention.SEGMENT_ATTENTION, watched)
    monkeypatch.setattr(tower.config, "_attn_implementation", attention.SEGMENT_ATTENTION)
    together = seen()
    assert calls
    assert min(calls) > 2
    assert float((expected - together).abs().max()) < 1e-5


def test_which_vision_towers_attend_within_segments(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    def chosen(name: str, place: str, dtype: Any) -> bool:
        weight = SimpleNamespace(device=torch.device(place), dtype=dtype)
        tower = SimpleNamespace(config=SimpleNamespace(_attn_implementation="sdpa"), parameters=lambda: iter([weight]))
        model = SimpleNamespace(config=load(name)[0].config, model=SimpleNamespace(visual=tower))
        attention.use_for_pictures(model)
        return tower.config._attn_implementation == attention.SEGMENT_ATTENTION

    assert chosen("qwen2.5-vl-tiny", "cuda", torch.bfloat16)
    assert chosen("qwen3-vl-tiny", "cuda", torch.float16)
    assert not chosen("qwen2.5-vl-tiny", "cuda", torch.float32)
    assert not chosen("qwen2.5-vl-tiny", "cpu", torch.bfloat16)
    assert not chosen("gemma3-tiny", "cuda", torch.bfloat16)
    monkeypatch.setattr(attention, "_torch_has_kernel", lambda: False)
    assert not chosen("qwen2.5-vl-tiny", "cuda", torch.bfloat16)


def test_chunks_are_bounded_by_prefixes_and_by_suffixes() -> None:
    def item(prefix: int, *suffixes: int) -> RequestGroup:
        tokens = [[number, *range(100, 99 + length)] for number, length in enumerate(suffixes)]
        return RequestGroup([], {}, tokens, prefix, [AnswerCodes("code", (), ((1,), (2,)))] * len(tokens))

    long, short, many = item(9, 1, 1), item(4, 1, 1), item(1, 4, 4)
    assert list(packed.chunks([long, short, short, short], most=8)) == [[0], [1, 2], [3]]
    assert list(packed.chunks([many, short, many, many], most=10)) == [[0, 1], [2], [3]]
    assert list(packed.chunks([short] * 3, most=100)) == [[0, 1, 2]]
    assert list(packed.chunks([], most=8)) == []


def test_chunks_have_about_the_same_size() -> None:
    def item(prefix: int) -> RequestGroup:
        return RequestGroup([], {}, [[1], [2]], prefix, [AnswerCodes("code", (), ((1,), (2,)))] * 2)

    # 26 items fit one pass: three passes are needed for 64, and 26, 26 and 12 would leave a small one
    assert list(map(len, packed.chunks([item(1200)] * 64, most=26 * 1200))) == [22, 22, 20]
    assert list(map(len, packed.chunks([item(4)] * 20, most=20))) == [5, 5, 5, 5]
    assert list(map(len, packed.chunks([item(4)] * 6, most=20))) == [3, 3]
    assert list(packed.chunks([item(4), item(30), item(4), item(4)], most=20)) == [[0], [1], [2, 3]]


def test_rows_that_branch_pass_with_their_padding() -> None:
    def row(*paths: list[int]) -> TokenTree:
        tree = TokenTree()
        for path in paths:
            tree.add(path)
        return tree

    chains = [row([1, 2, 3]), row([4]), row([5])]
    assert list(packed._passes([chains], 5)) == [[(0, 0), (0, 1), (0, 2)]]
    branch = [row([1, 2, 3], [1, 4]), row([4]), row([5])]  # 4 tokens, so that each row takes 4
    assert list(packed._passes([branch[:1], branch[1:]], 8)) == [[(0, 0), (1, 0)], [(1, 1)]]
    assert list(packed._passes([branch], 1)) == [[(0, 0)], [(0, 1)], [(0, 2)]]


def test_segments_without_queries_and_grouped_heads() -> None:
    import torch

    draw = torch.Generator().manual_seed(0)
    query = torch.randn(9, 4, 8, generator=draw)
    key, value = (torch.randn(12, 2, 8, generator=draw) for _ in range(2))
    queries, keys = attention.Segments((4, 0, 5)), attention.Segments((3, 2, 7))
    out, sums = attention.attend_segments(query, key, value, queries=queries, keys=keys, scale=0.3)
    for (first, end), (key_first, key_end) in (((0, 4), (0, 3)), ((4, 9), (5, 12))):
        one = query[first:end].transpose(0, 1)[None]
        seen = [part[key_first:key_end].transpose(0, 1)[None].repeat_interleave(2, 1) for part in (key, value)]
        expected, expected_sums = attention._plain(one, *seen, scale=0.3, mask=None, causal=False)
        assert torch.allclose(out[first:end], expected[0].transpose(0, 1), atol=1e-6)
        assert torch.allclose(sums[:, first:end], expected_sums[0], atol=1e-6)
