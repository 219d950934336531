"""Choice of the engine, its behaviour on errors, and answers of one and of several tokens."""

import logging
import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from actors.rubrics.prompts import Prompt
from actors.vlm import attention, families, memory, shared_prefix
from actors.vlm.chat import Chat, ChatEncoder
from actors.vlm.engines import EngineChoice, NaiveEngine, RequestLikelihoods, disagreement
from actors.vlm.errors import EngineError, ScoringError
from actors.vlm.families import language_model
from actors.vlm.loglik import CompletionScorer
from actors.vlm.scoring import ClosedSetScorer
from actors.vlm.scoring_requests import AnswerCodes, Scores, ScoringRequest
from actors.vlm.shared_prefix import tolerance
from tests.actors.vlm.helpers import DIGITS, Load, distance, logprobs, picture, scores_of

REGIONS = ("Northern Africa", "Northern Europe", "Melanesia", "North", "Western Asia")
SHOWN = picture(1)


def requests(codes: tuple[str, ...] = DIGITS, *, start: str = "", n: int = 3) -> list[ScoringRequest]:
    suffixes = [f"Label {i}. {'More of it. ' * i}Which?" for i in range(n)]
    return [ScoringRequest(Prompt((None, "An article.\n\n"), suffix, start), SHOWN, codes) for suffix in suffixes]


def far(one: list[Scores], other: list[Scores]) -> float:
    return distance(logprobs(one), logprobs(other))


@pytest.mark.parametrize("name", ["qwen2.5-vl-tiny", "mllama-tiny", "gemma3-tiny", "smolvlm-tiny", "llama-tiny"])
def test_answers_of_several_tokens(load: Load, name: str) -> None:
    """A trie of answers after each suffix gives the same as teacher forcing of each whole answer."""
    naive, cascade, batched = (
        scores_of(ClosedSetScorer(*load(name), engine=engine).score(requests(REGIONS, n=2)))
        for engine in ("naive", "cascade", "batched")
    )
    assert far(cascade, naive) < 1e-4
    assert far(batched, naive) < 1e-4
    for entry in cascade:
        assert entry.rule == "sequence"
        assert sum(entry.probabilities) == pytest.approx(1)
        assert entry.outside_mass == pytest.approx(1 - sum(map(math.exp, entry.logprobs)))


@pytest.mark.parametrize("engine", ["naive", "cascade"])
def test_passed_tokens_are_those_that_the_model_gets(load: Load, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EngineChoice, "is_settled", lambda *_: True)
    model, processor = load("qwen2.5-vl-tiny")
    counted: list[int] = []
    hook = model.get_input_embeddings().register_forward_hook(lambda _, ids, __: counted.append(ids[0].numel()))
    scores = scores_of(ClosedSetScorer(model, processor, engine=engine).score(requests(REGIONS, n=2)))
    hook.remove()
    assert sum(one.passed_tokens for one in scores) == sum(counted)


def test_sums_with_the_end_of_the_turn(load: Load) -> None:
    """The end of the turn counts: "North" differs from answers that begin with it; and a sum is not a mean."""
    model, processor = load("qwen2.5-vl-tiny")
    chat = Chat(processor, name="tiny")
    answer_nodes = chat.answers(REGIONS)
    assert answer_nodes.rule == "sequence"
    end = processor.tokenizer.convert_tokens_to_ids("<|im_end|>")
    assert {sequence[-1] for sequence in answer_nodes.sequences} == {end}
    assert [processor.tokenizer.decode(list(s[:-1])) for s in answer_nodes.sequences] == list(REGIONS)
    # beginnings are asked for once each: the tokens of all answers without their last ones, shared ones once
    assert len(answer_nodes.inner) == len({s[:cut] for s in answer_nodes.sequences for cut in range(1, len(s))})
    (result,) = scores_of(ClosedSetScorer(model, processor, engine="cascade").score(requests(REGIONS, n=1)))
    lengths = [len(sequence) for sequence in answer_nodes.sequences]
    means = [value / n for value, n in zip(result.logprobs, lengths, strict=True)]
    assert max(range(5), key=result.logprobs.__getitem__) == min(range(5), key=lengths.__getitem__)
    assert means.index(max(means)) != result.logprobs.index(max(result.logprobs))


def test_an_answer_after_the_beginning_of_the_turn(load: Load) -> None:
    """After "Final score:" comes a space, a separate token here: it is part of the prompt and is not scored."""
    model, processor = load("qwen2.5-vl-tiny")
    chat = Chat(processor, name="tiny")
    answer_nodes = chat.answers(DIGITS, start="Final score:")
    assert (answer_nodes.rule, processor.tokenizer.decode(list(answer_nodes.bridge))) == ("code", " ")
    prompt = requests(start="Final score:")[0].prompt
    assert chat.rendered(prompt, SHOWN).endswith("<|im_start|>assistant\nFinal score:")
    opened = [scores_of(ClosedSetScorer(model, processor, engine=e).score(requests(start="Final score:"))) for e in
              ("naive", "cascade")]  # fmt: skip
    assert far(*opened) < 1e-4
    assert far(opened[1], scores_of(ClosedSetScorer(model, processor, engine="cascade").score(requests()))) > 1e-2


@pytest.mark.parametrize(
    ("codes", "message"), [((), "an empty answer"), (("1", ""), "an empty answer"), (("1", "1"), "cannot tell")]
)
def test_invalid_answers_are_refused(load: Load, codes: tuple[str, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ClosedSetScorer(*load("qwen2.5-vl-tiny")).score(requests(codes))


def test_a_word_that_all_answers_begin_with_is_part_of_them(load: Load) -> None:
    chat_answers = Chat(load("qwen2.5-vl-tiny")[1], name="tiny").answers(("Northern Africa", "Northern Europe"))
    assert chat_answers.bridge == ()
    assert chat_answers.sequences[0][0] == chat_answers.sequences[1][0]


def test_a_template_that_leaves_the_picture_out(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    model, processor = load("qwen2.5-vl-tiny")
    template = "{% for m in messages %}{% for p in m.content %}{{ p.text or '' }}{% endfor %}{% endfor %}"
    monkeypatch.setattr(processor, "chat_template", template)
    with pytest.raises(ValueError, match="chat template drops the picture"):
        ClosedSetScorer(model, processor)
    with pytest.raises(ValueError, match="chat template drops the picture"):  # what generates asks no scorer
        ChatEncoder(processor)


def test_groups_of_any_size_give_the_same(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    model, processor = load("gemma3-tiny")
    whole = scores_of(ClosedSetScorer(model, processor, engine="cascade").score(requests(n=6)))
    seen = []
    hidden_states = shared_prefix.hidden_states

    def watched(*arguments: Any, **options: Any) -> Any:
        seen.append(len(arguments[2]))
        return hidden_states(*arguments, **options)

    monkeypatch.setattr(EngineChoice, "is_settled", lambda *_: True)
    monkeypatch.setattr(shared_prefix, "hidden_states", watched)
    monkeypatch.setattr(memory, "LEAST_TOKENS", 8)
    scorer = ClosedSetScorer(model, processor, engine="cascade", memory_budget_gb=4e-4)
    assert far(scores_of(scorer.score(requests(n=6))), whole) < 1e-4
    assert len(seen) > 1
    assert sum(seen) == 6


@pytest.mark.parametrize("name", ["qwen2.5-vl-tiny", "mllama-tiny", "gemma3-tiny"])
def test_the_last_feed_forward_sees_the_answers_tokens_alone(
    load: Load, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing else reads its output; afterwards the module is unchanged, including a `forward` set by accelerate."""
    model, processor = load(name)
    feed = language_model(model).layers[-1].mlp
    seen = []

    def counting(hidden: Any) -> Any:
        seen.append(hidden.shape[1])
        return type(feed).forward(feed, hidden)

    expected = scores_of(ClosedSetScorer(model, processor, engine="naive").score(requests()))
    monkeypatch.setattr(EngineChoice, "is_settled", lambda *_: True)
    feed.forward = counting
    try:
        for engine in ("cascade", "batched"):
            assert far(scores_of(ClosedSetScorer(model, processor, engine=engine).score(requests())), expected) < 1e-4
        assert seen == [1, 3, 1, 3]  # one token of the prefix, and three requests, by either engine
        assert feed.forward is counting
    finally:
        del feed.forward


def test_a_label_before_several_questions_passes_once(load: Load) -> None:
    """Two levels: picture and article for all, then each label for its questions."""
    long = "The culture is one of many that live by the sea and have been there for a long time: "
    suffixes = [f"{long}{label}. {question}" for label in ("Melanesia", "Nordic") for question in ("Is it?", "Was it?")]
    asked = [ScoringRequest(Prompt((None, "An article.\n\n"), suffix), SHOWN, DIGITS) for suffix in suffixes]
    suffixes_apart = [
        ScoringRequest(Prompt((None, "An article.\n\n"), f"{i}{t}"), SHOWN, DIGITS) for i, t in enumerate(suffixes)
    ]
    scorer = ClosedSetScorer(*load("qwen2.5-vl-tiny"), engine="cascade")
    assert (
        far(
            scores_of(scorer.score(asked)),
            scores_of(ClosedSetScorer(*load("qwen2.5-vl-tiny"), engine="naive").score(asked)),
        )
        < 1e-4
    )
    together, apart = (sum(s.passed_tokens for s in scores_of(scorer.score(r))) for r in (asked, suffixes_apart))
    assert together < apart - 50
    assert together < sum(s.prompt_tokens for s in scores_of(scorer.score(asked))) / 2


def test_a_group_without_its_first_request(load: Load) -> None:
    """The processor's output ends in the first request's suffix; the prefix of the others must not contain it."""
    scorer = ClosedSetScorer(*load("qwen2.5-vl-tiny"), engine="cascade")
    group = scorer.prepare(requests(n=3))
    whole = scorer.run(group)
    for chosen in ([1], [2], [1, 2]):
        result = scorer.run(group.subset(chosen))
        assert far(scores_of(list(result.values())), scores_of([whole[i] for i in chosen])) < 1e-4


def test_auto_gives_up_an_engine_that_is_wrong(
    load: Load, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    expected = scores_of(ClosedSetScorer(*load("gemma3-tiny"), engine="naive").score(requests()))
    assert ClosedSetScorer(*load("gemma3-tiny")).engine == "cascade"
    monkeypatch.setattr(
        attention.AttentionPlan, "prefix_mask", lambda *_, **__: None
    )  # a kernel that forgets the window
    long = [
        ScoringRequest(Prompt((None, "An article. " * 60 + "\n\n"), r.prompt.suffix), SHOWN, DIGITS) for r in requests()
    ]
    wrong = ClosedSetScorer(*load("gemma3-tiny"))
    scores_of(wrong.score(long))
    assert wrong.engine == "batched"
    assert "engine cascade is not used" in caplog.text
    monkeypatch.setattr(shared_prefix, "_cascade", lambda *_: 1 / 0)
    monkeypatch.setattr(shared_prefix, "_batched", lambda *_: 1 / 0)
    broken = ClosedSetScorer(*load("gemma3-tiny"))
    assert far(scores_of(broken.score(requests())), expected) < 1e-6
    assert broken.engine == "naive"
    assert "ZeroDivisionError" in caplog.text


def test_a_model_with_unknown_layers_passes_whole_with_one_warning(
    load: Load, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    expected = scores_of(ClosedSetScorer(*load("smolvlm-tiny"), engine="naive").score(requests()))
    monkeypatch.setattr(families, "layout", lambda config: None)
    with caplog.at_level(logging.WARNING):
        scorer = ClosedSetScorer(*load("smolvlm-tiny"))
        for _ in range(2):
            assert far(scores_of(scorer.score(requests())), expected) == 0
    warnings = [record for record in caplog.records if "no other engine supports" in record.getMessage()]
    assert (scorer.engine, len(warnings)) == ("naive", 1)
    with pytest.raises(ValueError, match=r"engine=cascade.*smolvlm"):
        ClosedSetScorer(*load("smolvlm-tiny"), engine="cascade")
    with pytest.raises(ValueError, match="engine=fast"):
        ClosedSetScorer(*load("smolvlm-tiny"), engine="fast")


def test_an_engine_is_compared_again_for_prompts_of_another_kind(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is right for short prompts may be wrong for those that are longer than a window."""
    scorer = ClosedSetScorer(*load("gemma3-tiny"))
    monkeypatch.setattr(attention.AttentionPlan, "prefix_mask", lambda *_, **__: None)
    short = [ScoringRequest(Prompt((None,), str(number)), SHOWN, DIGITS) for number in range(2)]
    long = [ScoringRequest(Prompt((None, "An article. " * 60), r.prompt.suffix), SHOWN, DIGITS) for r in requests()]
    monkeypatch.setattr(scorer.engines, "_shortest", scorer.prepare(short).length(0) + 20)
    expected = scores_of(ClosedSetScorer(*load("gemma3-tiny"), engine="naive").score(long))
    scorer.score(short)
    assert far(scores_of(scorer.score(long)), expected) < 1e-4
    assert scorer.engine == "batched"


def test_an_engine_that_was_asked_for_is_compared(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_prefix, "_offset", lambda model: 0)
    with pytest.raises(EngineError, match=r"engine=cascade: does not support.*differ.*use engine=auto"):
        ClosedSetScorer(*load("qwen2.5-vl-tiny"), engine="cascade").score(requests())


def test_out_of_memory_halves_the_groups_until_they_fit(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    scorer = ClosedSetScorer(*load("qwen2.5-vl-tiny"), engine="cascade")
    expected, budget = scores_of(scorer.score(requests())), scorer.budget
    failures = iter([True, True, True, False])
    hidden_states = shared_prefix.hidden_states

    def scarce(*arguments: Any, **options: Any) -> Any:
        if next(failures, True):
            raise torch.cuda.OutOfMemoryError("CUDA out of memory.")
        return hidden_states(*arguments, **options)

    monkeypatch.setattr(shared_prefix, "hidden_states", scarce)
    assert far(scores_of(scorer.score(requests())), expected) < 1e-5
    assert scorer.budget == budget // 8
    scores = scorer.score(requests())  # and from here on it fails each time: rows, not the run
    assert {score.kind for score in scores if isinstance(score, ScoringError)} == {"out_of_memory"}
    assert len(scores) == 3
    assert scorer.budget == budget // 8


def test_out_of_memory_in_the_first_group_halves_it_and_leaves_the_engine_unproven(
    load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    scorer, expected = ClosedSetScorer(*load("qwen2.5-vl-tiny")), None
    reference = scorer.engines.reference
    budget, compute, failures = scorer.budget, reference.log_likelihoods, iter([True, False])

    def scarce(*arguments: Any, **options: Any) -> Any:
        if next(failures, False):
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 1 bytes")
        return compute(*arguments, **options)

    monkeypatch.setattr(reference, "log_likelihoods", scarce)
    expected = scores_of(scorer.score(requests()))
    assert scorer.budget == budget // 2
    assert (
        far(scores_of(ClosedSetScorer(*load("qwen2.5-vl-tiny"), engine="cascade").score(requests())), expected) < 1e-5
    )
    # where the engine under proof is what does not fit, it is not proven by that
    fresh = ClosedSetScorer(*load("qwen2.5-vl-tiny"))
    with monkeypatch.context() as patch:
        patch.setattr(shared_prefix, "hidden_states", lambda *_, **__: (_ for _ in ()).throw(MemoryError()))
        assert {score.kind for score in fresh.score(requests()) if isinstance(score, ScoringError)} == {"out_of_memory"}
    assert not fresh.engines.is_settled(fresh.prepare(requests()))
    scores_of(fresh.score(requests()))
    assert fresh.engines.is_settled(fresh.prepare(requests()))


def test_a_first_group_without_likelihoods_leaves_the_engine_unproven(
    load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    scorer = ClosedSetScorer(*load("qwen2.5-vl-tiny"))
    group = scorer.prepare(requests())
    for values in ([math.nan] * len(DIGITS), [math.nan, *[-1.0] * (len(DIGITS) - 1)]):
        without = RequestLikelihoods(values, 1)
        with monkeypatch.context() as patch:
            patch.setattr(scorer.engines.reference, "log_likelihoods", lambda *_, without=without, **__: [without])
            scorer.score(requests())
        assert (scorer.engines.is_settled(group), scorer.engines.current.name) == (False, "cascade")
    scores_of(scorer.score(requests()))
    assert (scorer.engines.is_settled(group), scorer.engines.current.name) == (True, "cascade")


def test_likelihoods_are_not_rounded_to_the_precision_of_the_weights() -> None:
    import torch

    logits = 3 * torch.randn(1, 4, 50, generator=torch.Generator().manual_seed(0)).bfloat16()
    expected = logits[0].double().log_softmax(-1)

    class HalfModel:
        def forward(self, logits_to_keep: int = 0) -> None: ...

        def __call__(self, **_: Any) -> Any:
            return SimpleNamespace(logits=logits)

    model: Any = HalfModel()
    rows = NaiveEngine(model).log_probabilities({}, last=3)
    assert torch.allclose(rows, expected[1:], atol=1e-5)
    scorer: Any = object.__new__(CompletionScorer)
    logprobs = scorer._group(torch.zeros(1, 4), logits[:, -1:], {}, [[3], [5]], is_stepwise=False)
    assert logprobs == pytest.approx(expected[-1, [3, 5]].tolist(), abs=1e-5)


def test_answers_behind_ever_new_thoughts_are_not_kept_for_ever(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.vlm.scoring.MAX_CACHED_CODES", 3)
    scorer = ClosedSetScorer(*load("qwen2.5-vl-tiny"))
    for thought in range(7):
        scorer.answers(("1", "2"), start=f"Thought {thought}. Final answer:")
        assert len(scorer._codes) <= 3


def test_the_kernels_agree() -> None:
    """The CPU's kernel and the plain implementation agree, with and without masks."""
    import torch

    torch.manual_seed(0)
    query, key, value = (torch.randn(2, 3, n, 16) for n in (7, 11, 11))
    mask = torch.zeros(2, 1, 7, 11).masked_fill_(torch.rand(2, 1, 7, 11) < 0.4, torch.finfo(torch.float32).min)
    for one_mask in (None, mask):
        one = attention._on_cpu(query, key, value, scale=0.3, mask=one_mask, causal=False)
        other = attention._plain(query, key, value, scale=0.3, mask=one_mask, causal=False)
        assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(one, other, strict=True))
    one = attention._on_cpu(query, key[:, :, :7], value[:, :, :7], scale=0.3, mask=None, causal=True)
    other = attention._plain(query, key[:, :, :7], value[:, :, :7], scale=0.3, mask=None, causal=True)
    assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(one, other, strict=True))


def test_a_kernel_that_does_not_take_a_size_is_replaced(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = scores_of(ClosedSetScorer(*load("gemma3-tiny"), engine="cascade").score(requests()))
    monkeypatch.setattr(attention, "_on_cpu", lambda *_, **__: (_ for _ in ()).throw(RuntimeError("no such size")))
    assert far(scores_of(ClosedSetScorer(*load("gemma3-tiny"), engine="cascade").score(requests())), expected) < 1e-4


def test_memory_bounds_a_pass_and_not_the_labels(load: Load) -> None:
    model, _ = load("qwen2.5-vl-tiny")
    few = memory.tokens_per_pass(model, budget=10**7, prefix=1200, width=20, kind="cascade")
    assert memory.LEAST_TOKENS <= few < memory.MOST_TOKENS["cpu"]
    assert memory.tokens_per_pass(model, budget=10**12, prefix=1200, width=20, kind="cascade") == 4096
    assert memory.tokens_per_pass(model, budget=10**8, prefix=12000, width=20, kind="batched") < few * 10
    # 4 layers x 2 (keys, values) x 2 heads x 64 x 4 bytes
    assert memory.key_bytes(model.config.get_text_config(), 4) == 4096
    assert memory.free_bytes(model.device) > 1 << 20


def test_the_rule_of_one_token_codes() -> None:
    assert AnswerCodes("code", (), ((5,), (6,))).inner == ()


def test_likelihoods_that_are_not_near_enough_are_no_agreement() -> None:
    """A difference of the tolerance is; NaN, and an error, are not; a full memory says nothing."""

    def verdict(*values: float) -> str:
        return disagreement(lambda: values, [-1.0, -2.0], tolerance=0.5)

    assert verdict(-1.0, -2.0) == verdict(-1.5, -2.5) == verdict(-0.5, -2.0) == ""
    assert verdict(-1.0, -2.75) == "its log-likelihoods differ by 0.75"
    assert verdict(-1.75, -2.0) == "its log-likelihoods differ by 0.75"
    assert verdict(math.nan, -2.0) == "its log-likelihoods differ by nan"
    assert verdict(-math.inf, -2.0) == "its log-likelihoods differ by inf"

    def fail(error: Exception) -> str:
        def compute() -> list[float]:
            raise error

        return disagreement(compute, [0.0], tolerance=1)

    assert fail(KeyError("k")) == "KeyError: 'k'"
    with pytest.raises(MemoryError):
        fail(MemoryError())


def test_rounded_numbers_may_differ_by_more() -> None:
    expected = {torch.float32: 0.001, torch.bfloat16: 0.5, torch.float16: 0.5}
    assert {dtype: tolerance(SimpleNamespace(dtype=dtype)) for dtype in expected} == expected
