"""In each family, suffixes over a shared prefix give the results of whole forward passes; each trap is tested."""

import inspect
from typing import Any

import pytest

from actors.rubrics.prompts import Prompt
from actors.vlm import shared_prefix
from actors.vlm.chat import Chat, SplitTokens
from actors.vlm.engines import EngineChoice, supporting
from actors.vlm.families import Reach, crossing_layers, layout, packs, reaches, shares_keys
from actors.vlm.model_inputs import cut, extended
from actors.vlm.scoring import ClosedSetScorer
from actors.vlm.scoring_requests import ScoringRequest
from actors.vlm.shared_prefix import PassKind
from actors.vlm.token_trees import rows_of
from tests.actors.vlm.helpers import ARTICLE, DIGITS, LABELS, MODELS, TOLERANCE, Load, distance, logprobs, picture
from tests.cases import check_cases


def requests(seed: int, *, labels: tuple[str, ...] = LABELS, **changes: Any) -> list[ScoringRequest]:
    """Suffixes of different lengths: two share a long beginning, one is longer than the window of the small Gemma."""
    suffixes = [f"How relevant is this culture to the picture: {label}?" for label in labels]
    suffixes += [suffixes[0] + " Say so.", "word and " * 45 + "Melanesia?"]
    shown = picture(seed, width=160 + 20 * seed, height=90)
    fields: dict[str, Any] = {"shared": (None, ARTICLE)} | changes
    return [ScoringRequest(Prompt(suffix=suffix, **fields), shown, DIGITS) for suffix in suffixes]


def scored(load: Load, name: str, engine: str, asked: list[ScoringRequest]) -> list[float]:
    return logprobs(ClosedSetScorer(*load(name), engine=engine).score(asked))


def plain(load: Load, name: str, asked: ScoringRequest) -> list[float]:
    """Log-probabilities of the digits, by direct calls of transformers."""
    import torch

    model, processor = load(name)
    messages = asked.prompt.messages(asked.picture if getattr(processor, "sees_pictures", True) else None)
    inputs = processor.apply_chat_template(
        messages, add_generation_prompt=True, tokenize=True, return_dict=True, return_tensors="pt"
    )
    digits = ClosedSetScorer(model, processor).answers(DIGITS)
    shared_prefix.forget_positions(model)
    with torch.no_grad():
        output = model(**extended(inputs, list(digits.bridge))).logits[0, -1].double().log_softmax(-1)
    return output[[sequence[0] for sequence in digits.sequences]].tolist()


def test_what_sets_the_families_apart(load: Load) -> None:
    configs = {family: load(name)[0].config.get_text_config() for family, name in MODELS.items()}
    assert {layout(config) for config in configs.values()} == {"sequence"}
    assert {family for family, config in configs.items() if packs(config)} == set(configs) - {"mllama", "gemma3"}
    assert {family for family, config in configs.items() if reaches(config)} == {"gemma3"}
    assert {family for family, config in configs.items() if crossing_layers(config)} == {"mllama"}
    assert not any(map(shares_keys, configs.values()))


def test_what_is_read_from_a_config() -> None:
    """Prompts pass as one sequence only if each layer sees all earlier tokens and keeps no state."""
    import transformers

    full, linear, sliding = "full_attention", "linear_attention", "sliding_attention"
    window, chunk = Reach(4), Reach(4, is_chunk=True)
    cases: list[tuple[Any, Any, Any, Any, Any]] = [
        ("qwen2", {"layer_types": [full, sliding], "sliding_window": 4, "use_sliding_window": True}, "sequence",
         {1: window}, ["cascade", "batched"]),
        ("qwen2", {"use_sliding_window": False}, "sequence", {}, ["packed", "cascade", "batched"]),
        ("mistral", {"sliding_window": 4}, "sequence", {0: window, 1: window}, ["cascade", "batched"]),
        ("qwen3_5_text", {"layer_types": [linear, full]}, "rows", {}, ["cascade"]),
        ("lfm2", {"layer_types": ["conv", full]}, "rows", {}, ["cascade"]),
        ("llama4_text", {"layer_types": ["chunked_attention", full], "attention_chunk_size": 4}, "rows", {0: chunk},
         ["cascade"]),
        ("gemma4_text", {"layer_types": [sliding, full], "sliding_window": 4, "num_kv_shared_layers": 0}, "sequence",
         {0: window}, ["cascade", "batched"]),
    ]  # fmt: skip

    def check(kind: str, facts: dict[str, Any], expected: str, limited: dict[int, Reach], engines: list[str]) -> None:
        config = transformers.AutoConfig.for_model(kind, num_hidden_layers=2, **facts)
        assert (layout(config), reaches(config), supporting(config)) == (expected, limited, engines)

    check_cases(check, cases)
    assert [chunk.sees(query, 5) for query in (5, 7, 8)] == [True, True, False]
    assert [window.sees(query, 5) for query in (5, 8, 9)] == [True, True, False]


@pytest.mark.parametrize("name", MODELS.values())
def test_equals_one_whole_pass(load: Load, name: str) -> None:
    asked = requests(1) + requests(2, shared=("Look.\n\n", None, ARTICLE))[:2]
    naive = scored(load, name, "naive", asked)
    assert distance(naive[:5], plain(load, name, asked[0])) < TOLERANCE
    for engine in ("cascade", "batched"):
        assert distance(scored(load, name, engine, asked), naive) < TOLERANCE
    if name != "llama-tiny":  # which does not see it
        assert distance(naive[:5], scored(load, name, "naive", requests(3)[:1])) > 1e-3
    assert distance(naive[:5], naive[10:15]) > 1e-2  # a label matters


@pytest.mark.parametrize("kind", ["qwen2", "qwen3"])
@pytest.mark.parametrize("engine", ["cascade", "batched"])
def test_text_models_without_a_tokenizer(kind: str, engine: PassKind) -> None:
    import torch
    import transformers

    config = transformers.AutoConfig.for_model(
        kind, vocab_size=99, hidden_size=64, intermediate_size=96, num_hidden_layers=3, num_attention_heads=4,
        num_key_value_heads=2, head_dim=16,
    )  # fmt: skip
    torch.manual_seed(1)
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    whole = torch.tensor([[5, 8, 13, 21, 34, 55, 89, 3, 4]])
    inputs = {"input_ids": whole, "attention_mask": torch.ones_like(whole)}
    with torch.no_grad():
        expected = model.model(**inputs).last_hidden_state[0, -1]
    states = shared_prefix.hidden_states(
        model, shared_prefix.encode(model, cut(inputs, 6)), rows_of([[89, 3, 4]], [()])[0], kind=engine
    )
    assert float((states[0, -1] - expected).abs().max()) < TOLERANCE


@pytest.mark.parametrize("name", MODELS.values())
def test_tokens_of_parts_are_those_of_the_whole(load: Load, name: str) -> None:
    """Cut after an empty line, a tokenizer like GPT-2's (SmolVLM's) returns other tokens than for the whole."""
    _, processor = load(name)
    chat = Chat(processor, name=name)
    shown = picture(1)
    for after in (ARTICLE, "", "A line\n", 'He said: "', "…\n \n\n", "x" * 300 + " "):
        prompts = [Prompt((None, after), suffix) for suffix in ("Is it?", "Is it so?", "5 of them\n\nthen", "émigré")]
        for _ in range(2):  # the first group of a chat is checked against whole prompts, the following are not
            token_count = chat.tokens(prompts, shown)
            shared = token_count.inputs["input_ids"][0, : token_count.shared].tolist()
            for prompt, suffix in zip(prompts, token_count.suffixes, strict=True):
                whole = chat.inputs(chat.rendered(prompt, shown), [shown] if chat.sees_pictures else [])
                assert shared + suffix == whole["input_ids"][0].tolist()
    if name == "smolvlm-tiny":
        tokens = chat.ids
        assert tokens("Yes.\n\n") + tokens("Is it?") != tokens("Yes.\n\nIs it?")


def test_a_tokenizer_that_gives_no_sure_cut_gets_whole_prompts(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = requests(1)
    expected = scored(load, "smolvlm-tiny", "naive", asked)
    monkeypatch.setattr(Chat, "_split_in_window", lambda self, head, rests, ids: None)
    assert distance(scored(load, "smolvlm-tiny", "cascade", asked), expected) < TOLERANCE
    monkeypatch.setattr(
        Chat,
        "_split_in_window",
        lambda self, head, rests, ids: SplitTokens(len(ids) - 1, [[ids[-1]]] * len(rests)),
    )  # a wrong cut, which the check of the first group finds
    assert distance(scored(load, "smolvlm-tiny", "cascade", asked), expected) < TOLERANCE


# Each trap: without its remedy the answers are wrong.


@pytest.mark.parametrize("name", ["qwen2.5-vl-tiny", "qwen3-vl-tiny"])
def test_trap_text_positions_continue_after_the_pictures(
    load: Load, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = scored(load, name, "cascade", requests(1))
    monkeypatch.setattr(EngineChoice, "is_settled", lambda *_: True)  # which would find the fault
    monkeypatch.setattr(shared_prefix, "_offset", lambda model: 0)
    assert distance(scored(load, name, "cascade", requests(1)), expected) > 1e-2


def test_trap_the_kind_of_each_token_is_given_to_the_model(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    if "mm_token_type_ids" not in inspect.signature(load("qwen2.5-vl-tiny")[0].forward).parameters:
        pytest.skip("this transformers finds the picture by its tokens")
    asked = requests(1)
    expected = scored(load, "qwen2.5-vl-tiny", "cascade", asked)
    inputs = Chat.inputs

    def without(self: Chat, *arguments: Any) -> dict[str, Any]:
        return {name: value for name, value in inputs(self, *arguments).items() if name != "mm_token_type_ids"}

    monkeypatch.setattr(Chat, "inputs", without)
    assert distance(scored(load, "qwen2.5-vl-tiny", "cascade", asked), expected) > 1e-2


def test_trap_positions_of_the_last_picture_are_forgotten(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    """A text without picture after a picture: the offset that Qwen keeps on the module would shift its positions."""
    model, processor = load("qwen2.5-vl-tiny")
    bare = [ScoringRequest(entry.prompt, None, DIGITS) for entry in requests(1)]
    expected = scored(load, "qwen2.5-vl-tiny", "naive", bare)
    scorer = ClosedSetScorer(model, processor, engine="cascade")
    mixed = logprobs(scorer.score(requests(2) + bare))[-len(expected) :]
    assert distance(mixed, expected) < TOLERANCE
    monkeypatch.setattr(shared_prefix, "forget_positions", lambda model: None)
    mixed = logprobs(scorer.score(requests(2) + bare))[-len(expected) :]
    assert distance(mixed, expected) > 1e-2


def test_trap_suffixes_see_the_tiles_that_the_prefix_sees(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = requests(1)  # wider than high: fewer tiles than the model supports
    expected = scored(load, "mllama-tiny", "cascade", asked)
    monkeypatch.setattr(EngineChoice, "is_settled", lambda *_: True)  # which would find the fault
    monkeypatch.setattr(shared_prefix, "_cross_masks", lambda *_: {})
    assert distance(scored(load, "mllama-tiny", "cascade", asked), expected) > 1e-2


@pytest.mark.parametrize("engine", ["cascade", "batched"])
def test_trap_windows_of_gemma(load: Load, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = requests(1)
    expected = scored(load, "gemma3-tiny", engine, asked)
    monkeypatch.setattr(EngineChoice, "is_settled", lambda *_: True)  # which would find the fault
    monkeypatch.setattr(shared_prefix, "reaches", lambda config: dict.fromkeys(range(5), Reach(1 << 20)))
    assert distance(scored(load, "gemma3-tiny", engine, asked), expected) > 1e-2


def test_trap_the_last_token_of_each_row(load: Load) -> None:
    """Rows are padded to the right: the last column is not every row's last token."""
    model, processor = load("llama-tiny")
    inputs = Chat(processor, name="llama").inputs("An article.\n\n", [])
    encoded = shared_prefix.encode(model, inputs)
    rows, places = rows_of([[7, 8, 9, 10], [11]], [(), ()])
    hidden = shared_prefix.hidden_states(model, encoded, rows, kind="cascade")
    alone = shared_prefix.hidden_states(model, encoded, rows_of([[11]], [()])[0], kind="cascade")
    assert float((hidden[places[1].row, places[1].last] - alone[0, 0]).abs().max()) < TOLERANCE
    assert float((hidden[places[1].row, -1] - alone[0, 0]).abs().max()) > 1e-2


@pytest.mark.parametrize("name", ["mllama-tiny", "gemma3-tiny", "qwen2.5-vl-tiny"])
def test_trap_passes_leave_the_prefix_as_it_was(load: Load, name: str) -> None:
    """A pass writes into its cache, and cropping a cache would cut mllama's picture: each pass gets a new shell."""
    model, processor = load(name)
    inputs = dict(ClosedSetScorer(model, processor).prepare(requests(1)).inputs)
    encoded = shared_prefix.encode(model, inputs)
    before = [tensor.clone() for pairs in (encoded.layers, encoded.cross) for pair in pairs.values() for tensor in pair]
    rows, _ = rows_of([[7, 8, 9, 10], [11]], [(), ()])
    first = [shared_prefix.hidden_states(model, encoded, rows, kind=engine) for engine in ("cascade", "batched")]
    again = [shared_prefix.hidden_states(model, encoded, rows, kind=engine) for engine in ("cascade", "batched")]
    after = [tensor for pairs in (encoded.layers, encoded.cross) for pair in pairs.values() for tensor in pair]
    assert all(one.equal(other) for one, other in zip(before, after, strict=True))
    assert all(one[0].equal(other[0]) for one, other in zip(first, again, strict=True))
    assert bool(encoded.cross) == (name == "mllama-tiny")


def test_bfloat16_moves_likelihoods_and_no_more(load: Load) -> None:
    from actors.vlm.loading import load_vlm

    rounded = ClosedSetScorer(*load_vlm("local:qwen2.5-vl-tiny", dtype="bfloat16", device_map="cpu"))
    far = distance(logprobs(rounded.score(requests(1))), scored(load, "qwen2.5-vl-tiny", "naive", requests(1)))
    assert rounded.engine == "cascade"
    assert 1e-4 < far < 0.5
