"""Log-likelihoods of labels equal those of whole forward passes; debiasing follows the paper."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import yaml

from actors.loglik_rater import LoglikRater, LoglikSettings, condition_of
from actors.preparers import PromptPreparer
from actors.vlm import decoding, families, loglik, memory, shared_prefix
from actors.vlm.chat import ChatEncoder
from actors.vlm.errors import ScoringError
from actors.vlm.loglik import WAYS, CompletionScorer, DebiasSetting, Way, check_settings, debias
from actors.vlm.settings import ContextSettings, ModelSettings
from actors.vlm.shared_prefix import forget_positions
from jobs.judging.calibration import Moments
from jobs.tables import conform, table
from tests.actors.vlm.helpers import CONF, MODEL, picture, png
from tests.cases import check_cases

LABELS = ["Japan", "Northern Africa", "the United Kingdom of Great Britain", "I"]


@pytest.fixture(scope="module")
def prompt() -> dict[str, Any]:
    return yaml.safe_load((CONF / "prompt" / "relevant_to.yaml").read_text(encoding="utf-8"))


def scorer_of(model: Any, way: Way) -> CompletionScorer:
    """Return a scorer whose way of passing labels is settled."""
    scorer = CompletionScorer(model, pad_id=0)
    assert scorer.ways == list(WAYS)
    scorer.ways = [way]
    scorer._settled = {(sees, is_long) for sees in (False, True) for is_long in (False, True)}
    return scorer


@pytest.mark.parametrize("way", WAYS)
def test_likelihoods_are_those_of_whole_passes(vlm: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch, way: Way) -> None:
    import torch

    model, chat = vlm[0], ChatEncoder(vlm[1])
    start, pieces = "It matters to", [None, "An article."]
    inputs = chat.encode(pieces, [picture(1)], start=start)
    completions = [chat.continuation(start, f" {label}") for label in LABELS]
    assert len({len(tokens) for tokens in completions}) > 2  # so that there is padding
    monkeypatch.setattr(loglik, "LABELS_AT_ONCE", 3)  # a second group behind the same cache
    encoded = []
    hook = model.model.visual.register_forward_hook(lambda *_: encoded.append(1))
    result = scorer_of(model, way).score(inputs, completions)
    hook.remove()
    assert len(encoded) == (len(LABELS) if way == "whole" else 1)
    assert not isinstance(result, ScoringError)
    for label, tokens, value in zip(LABELS, completions, result, strict=True):
        whole = chat.encode(pieces, [picture(1)], start=f"{start} {label}")
        assert whole["input_ids"][0, -len(tokens) :].tolist() == tokens
        model.model.rope_deltas = None
        with torch.inference_mode():
            logprobs = model(**whole, use_cache=False).logits[0].double().log_softmax(-1)
        before = range(-len(tokens) - 1, -1)
        expected = sum(float(logprobs[place, token]) for place, token in zip(before, tokens, strict=True))
        assert value == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize(
    "name", ["qwen3-vl-tiny", "llava-next-tiny", "mllama-tiny", "gemma3-tiny", "smolvlm-tiny", "llama-tiny"]
)
def test_every_family(load: Any, name: str) -> None:
    import torch

    model, processor = load(name)
    chat, start = ChatEncoder(processor), "It matters to"
    pieces, shown = ([None, "An article."], [picture(1)]) if chat.sees_pictures else (["An article."], [])
    completions = [chat.continuation(start, f" {label}") for label in LABELS]
    expected = []
    for label, tokens in zip(LABELS, completions, strict=True):
        forget_positions(model)
        with torch.inference_mode():
            whole = model(**chat.encode(pieces, shown, start=f"{start} {label}"), use_cache=False).logits[0]
        logprobs = whole.double().log_softmax(-1)[-len(tokens) - 1 : -1]
        expected.append(float(logprobs.gather(-1, torch.tensor(tokens)[:, None]).sum()))
    inputs = chat.encode(pieces, shown, start=start)
    for way in WAYS:
        assert scorer_of(model, way).score(inputs, completions) == pytest.approx(expected, abs=1e-4)


def test_labels_pass_as_many_at_a_time_as_the_memory_holds(
    vlm: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    chat = ChatEncoder(vlm[1])
    inputs = chat.encode(["x"], [])
    completions = [chat.continuation("", f" {label}") for label in LABELS]
    scorer, sizes = scorer_of(vlm[0], "rows"), []
    expected, some = scorer.score(inputs, completions), scorer._group
    length, longest = int(inputs["input_ids"].shape[1]), max(map(len, completions))
    assert scorer._rows(length, longest) == loglik.LABELS_AT_ONCE  # however much there is
    needed = (length + longest) * scorer._token_bytes + longest * scorer._logit_bytes
    for scorer.budget, rows in ((3 * needed, 3), (3 * needed - 1, 2), (needed - 1, 1)):
        assert scorer._rows(length, longest) == rows
    scorer.budget, scorer._logit_bytes = 3 * (length + longest) * scorer._token_bytes, 0
    with monkeypatch.context() as patch:

        def watched(*arguments: Any, **options: Any) -> list[float]:
            sizes.append(len(arguments[-1]))
            return some(*arguments, **options)

        patch.setattr(scorer, "_group", watched)
        assert scorer.score(inputs, completions) == pytest.approx(expected, abs=1e-5)
    assert sizes == [3, 1]  # each has a copy of the prompt's cache
    sizes.clear()
    scorer._logit_bytes = (needed - (length + longest) * scorer._token_bytes) // longest

    def scarce(input_ids: Any, logits: Any, state: Any, chosen: Any, **options: Any) -> Any:
        sizes.append(len(chosen))
        if len(chosen) > 2:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory")
        return some(input_ids, logits, state, chosen, **options)

    monkeypatch.setattr(scorer, "_group", scarce)
    scorer.budget = 4 * needed
    assert scorer.score(inputs, completions) == pytest.approx(expected, abs=1e-5)
    assert sizes == [4, 2, 2]
    monkeypatch.setattr(scorer, "_group", lambda *_, **__: (_ for _ in ()).throw(MemoryError()))
    failed = scorer.score(inputs, completions)
    assert isinstance(failed, ScoringError)
    assert failed.kind == "out_of_memory"
    assert scorer.budget == 2 * needed


def test_packed_labels_too_many_for_the_memory_pass_in_smaller_groups(
    vlm: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    inputs = ChatEncoder(vlm[1]).encode(["x"], [])
    completions = [[100 + n, 200 + n % 5, 300 + n] for n in range(400)]
    scorer, sizes = scorer_of(vlm[0], "cascade"), []
    expected, once = scorer.score(inputs, completions), shared_prefix.hidden_states

    def scarce(model: Any, prefix: Any, rows: Any, **options: Any) -> Any:
        sizes.append(sum(len(row.tokens) for row in rows))
        if len(rows) > 1:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory")
        return once(model, prefix, rows, **options)

    monkeypatch.setattr(shared_prefix, "hidden_states", scarce)
    scorer.budget = memory.pass_bytes(vlm[0].config.get_text_config(), 4) * 1100
    assert scorer.score(inputs, completions) == pytest.approx(expected, abs=1e-5)
    assert sizes[0] > 512
    assert max(sizes[1:]) <= 512 + 2


@pytest.mark.parametrize("fault", [ValueError("another release"), 0.5])
def test_a_packed_way_that_gives_something_else_is_given_up(
    vlm: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, fault: Any
) -> None:
    chat, scorer = ChatEncoder(vlm[1]), CompletionScorer(vlm[0], pad_id=0)
    inputs = chat.encode(["x"], [])
    completions = [chat.continuation("", f" {label}") for label in LABELS]
    expected = scorer_of(vlm[0], "rows").score(inputs, completions)
    right = shared_prefix.suffix_likelihoods

    def wrong(*arguments: Any, **options: Any) -> shared_prefix.SuffixLikelihoods:
        if isinstance(fault, Exception):
            raise fault
        likelihoods = right(*arguments, **options)
        return likelihoods._replace(logprobs=[[value + fault for value in one] for one in likelihoods.logprobs])

    monkeypatch.setattr(shared_prefix, "suffix_likelihoods", wrong)
    assert scorer.score(inputs, completions) == expected
    assert "labels do not pass as one sequence" in caplog.text
    assert scorer.ways[0] == "rows"


def test_the_packed_way_is_taken_once_it_is_settled(vlm: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    chat, scorer = ChatEncoder(vlm[1]), CompletionScorer(vlm[0], pad_id=0)
    completions = [chat.continuation("", f" {label}") for label in LABELS]
    scorer.score(chat.encode(["x"], []), completions)
    monkeypatch.setattr(scorer, "_whole", None)
    monkeypatch.setattr(scorer, "_repeated", None)
    assert not isinstance(scorer.score(chat.encode(["y"], []), completions), ScoringError)


@pytest.mark.parametrize(("fault", "way"), [("", "rows"), ("forgets", "steps"), ("no cache", "whole")])
def test_models_that_the_engines_do_not_know(
    vlm: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, fault: str, way: Way
) -> None:
    """Several tokens after Jamba's cache forget the prompt; RWKV returns no cache."""
    chat, model = ChatEncoder(vlm[1]), vlm[0]
    completions = [chat.continuation("", f" {label}") for label in LABELS]
    prompts = [chat.encode([text], []) for text in ("x", "y")]
    packed = CompletionScorer(model, pad_id=0)
    expected = [packed.score(prompt, completions) for prompt in prompts]
    advance = decoding.advance

    def faulty(model: Any, input_ids: Any, state: Any, *, tokens: int) -> Any:
        if fault == "no cache":
            raise AttributeError("past_key_values")
        logits, state = advance(model, input_ids, state, tokens=tokens)
        return (logits.flip(-1) if fault and tokens > 1 else logits), state

    monkeypatch.setattr(families, "layout", lambda config: None)
    monkeypatch.setattr(loglik, "advance", faulty)
    scorer = CompletionScorer(model, pad_id=0)
    short = [tokens[:2] for tokens in completions]
    assert not isinstance(scorer.score(prompts[0], short), ScoringError)
    assert scorer.ways[0] == ("whole" if fault == "no cache" else "rows")  # of two tokens, one is passed
    for prompt, of_prompt in zip(prompts, expected, strict=True):
        assert scorer.score(prompt, completions) == pytest.approx(of_prompt, abs=1e-4)
    assert scorer.ways[0] == way
    assert bool(caplog.text) is bool(fault)


def test_a_prompt_too_long_is_a_row(vlm: tuple[Any, Any]) -> None:
    chat = ChatEncoder(vlm[1])
    scorer = CompletionScorer(vlm[0], pad_id=0)
    scorer.max_positions = 10
    scores = scorer.score(chat.encode(["x"], []), [[1, 2]])
    assert isinstance(scores, ScoringError)
    assert scores.kind == "prompt_too_long"


def test_higher_is_more_relevant_and_unlikely_labels_are_not_favoured() -> None:
    # Two labels that the text makes e times likelier than they are by themselves: debiased in full, they are equal.
    base = np.array([-2.0, -10.0])
    assert debias(base + 1, base, DebiasSetting(1.0)).tolist() == [1.0, 1.0]
    # More likely with the context is always a higher score.
    assert debias(base + 2, base, DebiasSetting(1.0))[0] > debias(base + 1, base, DebiasSetting(1.0))[0]
    # Half of the base rate: -1 + 1 and -9 + 5
    assert debias(base + 1, base, DebiasSetting(0.5)).tolist() == [0.0, -4.0]
    # T = -4 caps the correction of the unlikely label: -9 + 4, where all of its base rate would have given 1.
    assert debias(base + 1, base, DebiasSetting(1.0, -4.0)).tolist() == [1.0, -5.0]
    assert debias(base, np.array([-np.inf, -1.0]), DebiasSetting(0.0)).tolist() == base.tolist()


def test_invalid_settings_are_refused() -> None:
    for settings, message in (
        ([], "at least one of each"),
        ([DebiasSetting(-1)], "lambda=-1"),
        ([DebiasSetting(float("nan"))], "lambda=nan"),
        ([DebiasSetting(float("inf"))], "lambda=inf"),
        ([DebiasSetting(1, 0.5)], "threshold=0.5"),
        ([DebiasSetting(1, float("nan"))], "threshold=nan"),
        ([DebiasSetting(1), DebiasSetting(1.0)], "duplicate"),
    ):
        with pytest.raises(ValueError, match=message):
            check_settings(settings)


def test_lambda_and_threshold_may_be_zero() -> None:
    check_settings([DebiasSetting(0), DebiasSetting(1, 0.0), DebiasSetting(1)])
    assert debias(np.array([-3.0]), np.array([-2.0]), DebiasSetting(1, 0.0)).tolist() == [-3.0]
    broadcast = debias(np.array([[-3.0], [-1.0]]), np.array([-2.0, -4.0]), DebiasSetting(0))
    assert broadcast.tolist() == [[-3.0, -3.0], [-1.0, -1.0]]


def test_moments_give_pearson() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=50)
    y = 0.5 * x + rng.normal(size=50)
    moments = Moments()
    for part in (slice(0, 7), slice(7, 50)):
        moments.add(x[part], y[part])
    assert moments.n == 50
    assert moments.pearson == pytest.approx(np.corrcoef(x, y)[0, 1], abs=1e-12)
    assert Moments().pearson is None
    level = Moments()
    level.add(np.full(5, 3.3), np.arange(5.0))
    assert level.pearson is None


def test_ratings_by_likelihood(prompt: dict[str, Any]) -> None:
    settings = LoglikSettings(prompt=prompt, lambdas=[0.0, 1.0], thresholds=[float("-inf"), -30.0])
    model = ModelSettings(checkpoint=MODEL, dtype="float32")
    preparer = PromptPreparer(ContextSettings(max_context_tokens=20), model=model, instruction=prompt)
    rater = LoglikRater(settings, model=model, targets=LABELS[:2], threads=1)
    calls: list[int] = []
    score = rater.scorer.score
    rater.scorer.score = lambda *arguments: (calls.append(1), score(*arguments))[1]  # type: ignore[method-assign,func-returns-value]
    batch = pa.table(
        {
            "item_id": ["a", "b", "c"],
            "pictures": pa.array([[png(1)], [None], [png(1)]], pa.list_(pa.large_binary())),
            "status": ["ok", "missing", "ok"],
            "page_title": ["A town", "x", "word " * 50],
        }
    )
    ratings = conform(rater(preparer(batch)), table("ratings"))
    assert ratings.num_rows == 3 * 2 * 4
    rows = ratings.to_pylist()
    assert [row["condition"] for row in rows[:4]] == [
        "lambda=0,T=-inf", "lambda=0,T=-30", "lambda=1,T=-inf", "lambda=1,T=-30"
    ]  # fmt: skip
    plain, same, full, capped = (np.array([rows[at + i]["score"] for at in (0, 4)]) for i in range(4))
    assert (plain == same).all()
    assert (plain < 0).all()
    base_rates = rater.base_rates(LABELS[:2])
    assert full == pytest.approx(plain - base_rates)
    assert capped == pytest.approx(plain - np.maximum(base_rates, -30))
    assert [row["value"] for row in rows[:8]] == [f"{row['score']:.6g}" for row in rows[:8]]
    assert {row["status"] for row in rows[8:16]} == {"missing_input"}
    assert all(row["score"] is row["value"] is None for row in rows[8:16])
    assert [row["truncated"] for row in rows[::8]] == [None, None, ["page_title"]]
    assert all(row["status"] == "ok" and row["score"] < 0 for row in rows[16:18])
    assert len(calls) == 3  # two items, and the base rates
    assert [condition_of(pair, "article") for pair in settings.pairs[:1]] == ["article; lambda=0,T=-inf"]
    rater(preparer(batch.slice(0, 1)))
    assert len(calls) == 4  # the base rates are there
    own_labels = [[LABELS[1], LABELS[2]], None]
    both = batch.take(pa.array([0, 2])).append_column("targets", pa.array(own_labels, pa.list_(pa.string())))
    labelled = rater(preparer(both)).to_pylist()
    assert [row["target"] for row in labelled[::4]] == [LABELS[1], LABELS[2], LABELS[0], LABELS[1]]
    assert labelled[0]["score"] == pytest.approx(rows[4]["score"], abs=1e-4)  # the same label among others
    assert labelled[6]["score"] == pytest.approx(labelled[4]["score"] - rater.base_rates([LABELS[2]])[0])
    assert len(calls) == 7  # two items, and the base rate of the label that is new
    assert [rater.take_tally().get(rater.facts.tally) for _ in range(2)] == [3 + 1 + 2, None]
    rater.scorer.score = lambda *_: ScoringError("too_long", "no room")  # type: ignore[method-assign]
    refused = rater(preparer(batch.slice(0, 2))).to_pylist()
    assert [(row["status"], row["error_kind"], row["score"]) for row in refused] == [
        *[("error", "too_long", None)] * 8, *[("missing_input", "no_picture", None)] * 8
    ]  # fmt: skip
    with pytest.raises(ValueError, match="base rates: no room"):
        rater.base_rates(["Mars"])


def test_every_pair_of_weight_and_threshold_is_a_condition(prompt: dict[str, Any]) -> None:
    names = [pair.name for pair in LoglikSettings(prompt=prompt).pairs]
    assert names == [f"lambda={weight},T=-inf" for weight in ("0", "0.25", "0.5", "0.75", "1")]
    pairs = LoglikSettings(prompt=prompt, lambdas=[1.0, 0.5], thresholds=[-3.0, -2.0]).pairs
    assert pairs == [(1.0, -3.0), (1.0, -2.0), (0.5, -3.0), (0.5, -2.0)]
    for key in ("lambdas", "thresholds"):
        empty: Any = {key: []}
        with pytest.raises(ValueError, match="at least one of each"):
            LoglikSettings(prompt=prompt, **empty)


def test_a_start_is_needed(prompt: dict[str, Any], tmp_path: Path) -> None:
    for start, message in (("", "has no start"), ("To ", "ends in white space")):
        with pytest.raises(ValueError, match=message):
            LoglikSettings(prompt=prompt | {"start": start})


def test_pearson_needs_three_pairs() -> None:
    moments = Moments()
    moments.add(np.array([1.0, 2.0]), np.array([5.0, 3.0]))
    assert moments.pearson is None
    moments.add(np.array([3.0]), np.array([1.0]))
    assert moments.pearson == pytest.approx(-1)


def test_a_prompt_that_just_fits_is_scored(vlm: tuple[Any, Any]) -> None:
    inputs, completions = ChatEncoder(vlm[1]).encode(["x"], []), [[1, 2], [3]]
    scorer = CompletionScorer(vlm[0], pad_id=0)
    scorer.max_positions = int(inputs["input_ids"].shape[1]) + 2
    assert not isinstance(scorer.score(inputs, completions), ScoringError)
    scorer.max_positions -= 1
    scores = scorer.score(inputs, completions)
    assert isinstance(scores, ScoringError)
    assert scores.kind == "prompt_too_long"


def test_a_prompt_without_finite_likelihoods_does_not_settle_the_way(
    vlm: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    scorer = CompletionScorer(vlm[0], pad_id=0)
    inputs = ChatEncoder(vlm[1]).encode(["x"], [])
    with monkeypatch.context() as patch:
        patch.setattr(scorer, "_whole", lambda *_: [float("nan"), -1.0])
        scorer.score(inputs, [[1], [2]])
    assert (scorer.ways[0], scorer._settled) == ("cascade", set())
    scorer.score(inputs, [[1], [2]])
    assert (scorer.ways[0], scorer._settled) == ("cascade", {(False, False)})


WITH, WITHOUT = np.array([-2.0, -3.0, -4.0]), np.array([-1.0, -10.0, -np.inf])


def test_scores() -> None:
    cases = [
        (DebiasSetting(0.0), [-2, -3, -4]),
        (DebiasSetting(0.5), [-1.5, 2, np.inf]),
        (DebiasSetting(0.5, -6.0), [-1.5, 0, -1]),
        (DebiasSetting(1.0, 0.0), [-2, -3, -4]),
    ]

    def check(setting: DebiasSetting, scores: list[float]) -> None:
        assert debias(WITH, WITHOUT, setting).tolist() == scores

    check_cases(check, cases)


def test_scores_of_pictures_and_labels() -> None:
    """[pictures, labels] minus [labels], also without weight."""
    for weight, expected in ((0.0, [[-2, -3], [-4, -5]]), (1.0, [[-1, -1], [-3, -3]])):
        scores = debias(np.array([[-2.0, -3], [-4, -5]]), np.array([-1.0, -2]), DebiasSetting(weight))
        assert scores.tolist() == expected


def test_settings() -> None:
    check_settings([DebiasSetting(0.0), DebiasSetting(0.5, 0.0), DebiasSetting(0.5)])
    assert DebiasSetting(0.5, -12.0).name == "lambda=0.5,T=-12"
    for settings, message in (
        ([], "at least one"),
        ([DebiasSetting(-0.1)], "lambda=-0.1"),
        ([DebiasSetting(float("inf"))], "lambda=inf"),
        ([DebiasSetting(1, 0.1)], "threshold=0.1"),
        ([DebiasSetting(1, float("nan"))], "threshold=nan"),
        ([DebiasSetting(1), DebiasSetting(1)], "duplicate"),
    ):
        with pytest.raises(ValueError, match=message):
            check_settings(settings)


def test_correlation_of_pairs_that_are_added_in_parts() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=30)
    y = x + rng.normal(size=30)
    moments = Moments()
    for part in (slice(0, 7), slice(7, 30)):
        moments.add(x[part], y[part])
    assert (moments.n, moments.x) == (30, pytest.approx(x.sum()))
    assert moments.pearson == pytest.approx(np.corrcoef(x, y)[0, 1])


def test_correlation() -> None:
    cases = [
        ([1, 2], [1, 2], None),
        ([1, 2, 3], [2, 4, 6], 1),
        ([1, 2, 3], [6, 4, 2], -1),
        ([1, 1, 1], [1, 2, 3], None),
        ([1, 2, 3], [5, 5, 5], None),
        ([0, 0, 0], [0, 0, 0], None),
        ([1, 2, 3, 4], [1, 2, 1, 2], 1 / 5**0.5),
    ]

    def check(x: list[float], y: list[float], pearson: float | None) -> None:
        moments = Moments()
        moments.add(np.array(x, float), np.array(y, float))
        assert moments.pearson == (None if pearson is None else pytest.approx(pearson))

    check_cases(check, cases)
