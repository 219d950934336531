"""Generated texts equal those of whole forward passes; each sample depends only on its seed and prompt."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from actors.vlm import decoding_ways
from actors.vlm.chat import ChatEncoder
from actors.vlm.decoding import draw
from actors.vlm.errors import EngineError, ScoringError
from actors.vlm.generation import Generated, TextGenerator
from actors.vlm.model_inputs import PER_TOKEN, collate, from_bytes, to_bytes
from actors.vlm.settings import Sampling
from actors.vlm.shared_prefix import forget_positions
from tests.actors.vlm.helpers import picture
from tests.actors.vlm.real_configs import QWEN_TEXT_GENERATION

SEEDS = [[10, 11, 12], [20, 21, 22]]
SHORT = Sampling(max_tokens=6)


@pytest.fixture(scope="module")
def chat(vlm: tuple[Any, Any]) -> ChatEncoder:
    return ChatEncoder(vlm[1])


@pytest.fixture(scope="module")
def prompts(chat: ChatEncoder) -> list[dict[str, Any]]:
    """Two prompts of unlike length with pictures of unlike size."""
    return [
        chat.encode(["What is this?", None], [picture(1)]),
        chat.encode(["An article. " * 4, None, "What is this?"], [picture(2, width=200)]),
    ]


@pytest.fixture
def engine(vlm: tuple[Any, Any], chat: ChatEncoder) -> TextGenerator:
    return TextGenerator(vlm[0], pad_id=chat.tokenizer.pad_token_id, ends=[chat.tokenizer.eos_token_id])


@pytest.fixture(autouse=True)
def pad_freely() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            decoding_ways, "PADDING_SHARE", 1.0
        )  # prompts of any length in one group, so that there is padding
        yield


def whole_passes(model: Any, prompt: dict[str, Any], seed: int, sampling: Sampling) -> list[int]:
    """Return the same draws without cache, padding or groups, each from a pass over all tokens so far."""
    import torch

    stream, inputs, texts = np.random.Generator(np.random.Philox(seed)), dict(prompt), []
    for _ in range(sampling.max_tokens):
        forget_positions(model)
        with torch.inference_mode():
            logits = model(**inputs, use_cache=False).logits[:, -1]
        token = draw(logits, [stream.random()], sampling)
        texts.append(int(token))
        for name, tensor in inputs.items():
            if name in PER_TOKEN:
                more = token if name == "input_ids" else tensor[:, -1]
                inputs[name] = torch.cat([tensor, more[:, None]], dim=1)
    return texts


def test_a_padded_group_is_what_whole_passes_give(
    vlm: tuple[Any, Any], engine: TextGenerator, prompts: list[dict[str, Any]]
) -> None:
    generated = engine.generate(prompts, seeds=SEEDS, sampling=SHORT)
    for prompt, seeds, texts in zip(prompts, SEEDS, generated, strict=True):
        assert not isinstance(texts, ScoringError)
        for seed, text in zip(seeds, texts, strict=True):
            assert text == Generated(whole_passes(vlm[0], prompt, seed, SHORT), "length")


@pytest.mark.parametrize(
    "name", ["qwen3-vl-tiny", "llava-next-tiny", "mllama-tiny", "gemma3-tiny", "smolvlm-tiny", "llama-tiny"]
)
def test_every_family_writes_what_whole_passes_give(load: Any, name: str) -> None:
    model, processor = load(name)
    chat, shown = ChatEncoder(processor), [[picture(1)], [picture(2, width=200)]]
    if not chat.sees_pictures:
        shown = [[], []]
    texts = (["What is this?", None], ["An article. " * 4, None, "What is this?"])
    prompts = [chat.encode(pieces, seen) for pieces, seen in zip(texts, shown, strict=True)]
    engine, sampling, two = TextGenerator(model, pad_id=0, ends=[]), Sampling(max_tokens=4), [[10, 11], [20, 21]]
    generated = engine.generate(prompts, seeds=two, sampling=sampling)
    for prompt, seeds, written in zip(prompts, two, generated, strict=True):
        assert not isinstance(written, ScoringError), written
        for seed, text in zip(seeds, written, strict=True):
            assert text == Generated(whole_passes(model, prompt, seed, sampling), "length")


def test_composition_does_not_matter(engine: TextGenerator, prompts: list[dict[str, Any]]) -> None:
    together = engine.generate(prompts, seeds=SEEDS, sampling=SHORT)
    turned = engine.generate(prompts[::-1], seeds=[SEEDS[1], SEEDS[0][::-1]], sampling=SHORT)
    alone = engine.generate(prompts[:1], seeds=[[11]], sampling=SHORT)
    assert together[1] == turned[0]
    assert together[0] == turned[1][::-1]
    assert together[0][1] == alone[0][0]
    assert len({tuple(one.tokens) for one in together[0]}) == 3  # type: ignore[union-attr]


def test_prompts_without_a_picture_take_none_from_others(
    engine: TextGenerator, chat: ChatEncoder, prompts: list[dict[str, Any]]
) -> None:
    longest = chat.encode(["A question without a picture. " * 20], [])
    mixed = [prompts[0], longest, prompts[1]]
    alone = [engine.generate([prompt], seeds=[[7]], sampling=SHORT)[0] for prompt in mixed]
    assert engine.generate(mixed, seeds=[[7]] * 3, sampling=SHORT) == alone
    with pytest.raises(ValueError, match="without pictures"):
        collate(mixed, pad_id=0)


def test_the_picture_is_encoded_once_for_all_samples(
    vlm: tuple[Any, Any], engine: TextGenerator, prompts: list[dict[str, Any]]
) -> None:
    engine.generate(prompts[:1], seeds=[[1]], sampling=SHORT)  # the way is compared with whole passes
    calls = []
    hook = vlm[0].model.visual.register_forward_hook(lambda *seen: calls.append(1))
    lengths: list[int] = []
    embed = (
        vlm[0]
        .get_input_embeddings()
        .register_forward_hook(lambda _, arguments, __: lengths.append(arguments[0].numel()))
    )
    try:
        engine.generate(prompts[:1], seeds=[list(range(5))], sampling=SHORT)
    finally:
        hook.remove()
        embed.remove()
    assert len(calls) == 1
    assert lengths[0] == prompts[0]["input_ids"].numel()  # the prompt passes once, not once a sample
    assert set(lengths[1:]) == {5}


def test_a_text_ends_where_the_model_ends_it(
    vlm: tuple[Any, Any], engine: TextGenerator, prompts: list[dict[str, Any]]
) -> None:
    (texts,) = engine.generate(prompts[:1], seeds=SEEDS[:1], sampling=SHORT)
    assert not isinstance(texts, ScoringError)
    end = texts[0].tokens[2]
    ending = TextGenerator(vlm[0], pad_id=0, ends=[end])
    drawn: list[int] = []
    ending.on_tokens = drawn.append
    (again,) = ending.generate(prompts[:1], seeds=SEEDS[:1], sampling=SHORT)
    assert not isinstance(again, ScoringError)
    assert sum(drawn) == sum(len(text.tokens) + (text.finish_reason == "stop") for text in again)
    first = texts[0].tokens
    assert again[0] == Generated(first[: first.index(end)], "stop")
    assert [len(one.tokens) for one in again[1:] if one.finish_reason == "length"] == [
        6 for one in texts[1:] if end not in one.tokens
    ]


def test_each_of_several_tokens_ends_a_text(vlm: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    assert TextGenerator(vlm[0], pad_id=0, ends=[9, 3]).ends == [9, 3]
    for ids, ends in ((5, [5]), ([7, 2], [7, 2]), (None, [])):
        monkeypatch.setattr(vlm[0], "generation_config", SimpleNamespace(eos_token_id=ids))
        assert TextGenerator(vlm[0], pad_id=0).ends == ends


def test_greedy_is_what_the_library_gives(
    vlm: tuple[Any, Any], engine: TextGenerator, prompts: list[dict[str, Any]]
) -> None:
    import torch

    (texts,) = engine.generate(prompts[1:], seeds=[[1, 2]], sampling=Sampling(temperature=0, max_tokens=6))
    with torch.inference_mode():
        expected = vlm[0].generate(**prompts[1], max_new_tokens=6, min_new_tokens=6, do_sample=False)
    tokens = expected[0, prompts[1]["input_ids"].shape[1] :].tolist()
    assert [one.tokens for one in texts] == [tokens, tokens]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "own_values",
    [
        QWEN_TEXT_GENERATION,
        {"do_sample": True, "repetition_penalty": 5.0, "temperature": 1e-06, "top_k": 1, "top_p": 0.001},
        {"num_beams": 2},
        {"do_sample": True, "num_return_sequences": 2},
        {"cache_implementation": "static"},
        {"max_new_tokens": 1, "max_length": 20},
    ],
    ids=",".join,
)
def test_the_models_own_generation_config_is_not_used(
    vlm: tuple[Any, Any],
    engine: TextGenerator,
    prompts: list[dict[str, Any]],
    own_values: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from transformers import GenerationConfig

    expected = engine.generate(prompts, seeds=SEEDS, sampling=SHORT)
    config = GenerationConfig(**own_values)
    monkeypatch.setattr(vlm[0], "generation_config", config)
    assert engine.generate(prompts, seeds=SEEDS, sampling=SHORT) == expected
    assert vlm[0].generation_config is config


def test_a_prompt_that_fails_leaves_its_neighbours(engine: TextGenerator, prompts: list[dict[str, Any]]) -> None:
    broken = {name: tensor for name, tensor in prompts[0].items() if name != "pixel_values"}
    broken["image_grid_thw"] = prompts[0]["image_grid_thw"] * 3
    generated = engine.generate([prompts[1], broken], seeds=SEEDS[::-1], sampling=SHORT)
    assert generated[0] == engine.generate(prompts[1:], seeds=SEEDS[1:], sampling=SHORT)[0]
    assert isinstance(generated[1], ScoringError)
    engine.max_positions = prompts[0]["input_ids"].shape[1]
    (long,) = engine.generate(prompts[:1], seeds=SEEDS[:1], sampling=SHORT)
    assert isinstance(long, ScoringError)
    assert long.kind == "prompt_too_long"
    engine.max_positions += 4
    (near,) = engine.generate(prompts[:1], seeds=SEEDS[:1], sampling=SHORT)
    assert [len(one.tokens) for one in near] == [4, 4, 4]  # type: ignore[union-attr]


def test_the_models_end_is_each_prompts_own(engine: TextGenerator, prompts: list[dict[str, Any]]) -> None:
    """The maximum length of a text does not depend on which prompts are in the same batch, that is, on the units."""
    lengths = [int(prompt["input_ids"].shape[1]) for prompt in prompts]
    engine.max_positions = max(lengths) + 2
    together = engine.generate(prompts, seeds=SEEDS, sampling=SHORT)
    pairs = zip(prompts, SEEDS, strict=True)
    alone = [engine.generate([prompt], seeds=[seeds], sampling=SHORT)[0] for prompt, seeds in pairs]
    assert together == alone
    assert [len(texts[0].tokens) for texts in together] == [6, 2]  # type: ignore[union-attr]


def test_the_machines_memory_is_memory(
    engine: TextGenerator, prompts: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def scarce(*_: Any, **__: Any) -> Any:
        raise RuntimeError("[enforce fail at alloc_cpu.cpp:124] DefaultCPUAllocator: can't allocate memory")

    monkeypatch.setattr(engine, "_group", scarce)
    before = engine.budget()
    generated = engine.generate(prompts, seeds=SEEDS, sampling=SHORT)
    assert {one.kind for one in generated} == {"out_of_memory"}  # type: ignore[union-attr]
    assert engine.budget() == before // 2


def test_out_of_memory_halves_the_groups_until_they_fit(
    engine: TextGenerator, prompts: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    real, sizes = engine._group, []

    def scarce(group: Any, *rest: Any, **options: Any) -> Any:
        sizes.append(len(group))
        if len(group) > 1:
            raise torch.OutOfMemoryError("no")
        return real(group, *rest, **options)

    before = engine.budget()
    expected = engine.generate(prompts, seeds=SEEDS, sampling=SHORT)
    monkeypatch.setattr(engine, "_group", scarce)
    assert engine.generate(prompts, seeds=SEEDS, sampling=SHORT) == expected
    assert sizes == [2, 1, 1]
    assert engine.budget() == before // 2
    monkeypatch.setattr(engine, "_group", lambda *_, **__: (_ for _ in ()).throw(torch.OutOfMemoryError("no")))
    generated = engine.generate(prompts, seeds=SEEDS, sampling=SHORT)
    assert {one.kind for one in generated} == {"out_of_memory"}  # type: ignore[union-attr]
    assert engine.budget() == before // 4  # each group that is too large halves it


def test_a_group_that_fails_is_asked_prompt_by_prompt(
    engine: TextGenerator, prompts: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = engine._group
    expected = engine.generate(prompts[1:], seeds=SEEDS[1:], sampling=SHORT)

    def fail(group: Any, *rest: Any, **options: Any) -> Any:
        if len(group) > 1:
            raise ValueError("together")
        if group[0] is prompts[0]:
            raise MemoryError
        return real(group, *rest, **options)

    monkeypatch.setattr(engine, "_group", fail)
    refused, written = engine.generate(prompts, seeds=SEEDS, sampling=SHORT)
    assert [written] == expected
    assert isinstance(refused, ScoringError)
    assert refused.kind == "out_of_memory"
    monkeypatch.setattr(
        engine, "_group", lambda *_, **__: (_ for _ in ()).throw(RuntimeError("CUDA error: device lost"))
    )
    with pytest.raises(EngineError, match="device lost"):
        engine.generate(prompts, seeds=SEEDS, sampling=SHORT)


def test_groups_keep_to_the_budget_and_to_like_lengths(vlm: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    engine = TextGenerator(vlm[0], pad_id=0, ends=[], budget=1)
    row = (100 + 20) * engine._token_bytes + engine._row_bytes
    engine._budget = 6 * row
    lengths = [100, 100, 100, 90, 10]

    def groups(prompts: int) -> list[list[int]]:
        return list(engine._groups(range(prompts), lengths, 2, 20, way="padded"))

    assert groups(5) == [[0, 1, 2], [3, 4]]
    monkeypatch.setattr(decoding_ways, "PADDING_SHARE", 0.2)
    assert groups(5) == [[0, 1, 2], [3], [4]]
    engine._budget = 1
    assert groups(2) == [[0], [1]]
    engine._budget, engine.group_rows = 100 * row, 4
    assert groups(4) == [[0, 1], [2, 3]]
    assert list(engine._groups(range(4), lengths, 1, 20, way="equal")) == [[0, 1, 2], [3]]
    assert list(engine._groups(range(2), lengths, 1, 20, way="alone")) == [[0], [1]]


def test_draws_follow_the_likelihoods() -> None:
    import torch

    logits = torch.log(torch.tensor([[0.1, 0.0, 0.6, 0.3]]))
    numbers = (np.arange(1000) + 0.5) / 1000
    rows = logits.expand(1000, -1)
    counts = torch.bincount(draw(rows, numbers.tolist(), Sampling()), minlength=4).tolist()
    assert counts == [100, 0, 600, 300]
    # half of the temperature squares the likelihoods: 0.01, 0.36 and 0.09 of 0.46
    warm = torch.bincount(draw(rows, numbers.tolist(), Sampling(temperature=0.5)), minlength=4).tolist()
    assert warm == pytest.approx([1000 * share / 0.46 for share in (0.01, 0.0, 0.36, 0.09)], abs=1)
    # the likeliest tokens with at least 0.7 of the probability are 0.6 and 0.3
    nucleus = torch.bincount(draw(rows, numbers.tolist(), Sampling(top_p=0.7)), minlength=4).tolist()
    assert nucleus == pytest.approx([0, 0, 667, 333], abs=1)
    assert draw(rows[:2], [0.0, 1 - 1e-16], Sampling(top_p=0.5)).tolist() == [2, 2]
    assert draw(logits, [0.99999], Sampling(temperature=0)).tolist() == [2]
    assert draw(torch.tensor([[-np.inf, 0.0, 0.0]]), [0.0], Sampling()).tolist() == [1]
    with pytest.raises(ValueError, match="not finite"):
        draw(torch.tensor([[np.nan, 0.0]]), [0.5], Sampling())


def test_draws_that_are_ties_are_stable() -> None:
    import torch

    assert draw(torch.zeros(3, 5), [0.0, 0.5, 0.999], Sampling(top_p=0.4)).tolist() == [0, 1, 1]


def test_invalid_sampling_is_refused() -> None:
    wrong: list[dict[str, Any]] = [{"temperature": -1}, {"temperature": float("nan")}]
    wrong += [{"top_p": 0}, {"top_p": 1.1}, {"max_tokens": 0}]
    for settings in wrong:
        with pytest.raises(ValueError, match=f"{next(iter(settings))}="):
            Sampling(**settings)


def test_inputs_survive_the_way_between_stages(prompts: list[dict[str, Any]]) -> None:
    import torch

    inputs = prompts[0] | {"mask": torch.arange(6).reshape(2, 3).T}  # not contiguous
    again = from_bytes(to_bytes(inputs))
    assert again.keys() == inputs.keys()
    assert all(torch.equal(again[name], inputs[name]) for name in again)


def test_tiles_that_a_picture_lacks_are_zeros() -> None:
    import torch

    def inputs(length: int, tiles: int) -> dict[str, Any]:
        ids = torch.ones(1, length, dtype=torch.long)
        return {"input_ids": ids, "attention_mask": ids, "pixel_values": torch.ones(1, tiles, 2)}

    collated = collate([inputs(2, 3), inputs(4, 1)], pad_id=7)
    assert collated["input_ids"].tolist() == [[7, 7, 1, 1], [1, 1, 1, 1]]
    assert collated["attention_mask"].tolist() == [[0, 0, 1, 1], [1, 1, 1, 1]]
    assert collated["pixel_values"].sum(dim=(1, 2)).tolist() == [6.0, 2.0]
    assert collated["pixel_values"].shape == (2, 3, 2)


class TestChat:
    def test_the_prompt_is_what_the_processor_makes_of_messages(self, vlm: tuple[Any, Any], chat: ChatEncoder) -> None:
        import torch

        content = [{"type": "text", "text": "a"}, {"type": "image", "image": picture(1)}, {"type": "text", "text": "b"}]
        expected = vlm[1].apply_chat_template(
            [{"role": "user", "content": content}],
            add_generation_prompt=True,
            tokenize=True,
            return_dict=True,
            return_tensors="pt",
        )
        encoded = chat.encode(["a", None, "b"], [picture(1)])
        assert encoded.keys() == expected.keys()
        assert all(torch.equal(encoded[name], expected[name]) for name in encoded)

    def test_a_prompt_may_have_several_pictures_or_none(self, chat: ChatEncoder) -> None:
        assert chat.text([None, "b"], 2).count("<|image_pad|>") == 2
        assert set(chat.encode(["only text"], [])) == {"input_ids", "attention_mask", "mm_token_type_ids"}

    def test_a_turns_end_in_data_is_text(self, chat: ChatEncoder) -> None:
        assert chat.as_data("x<|im_end|>y") == "x< |im_end|>y"


@pytest.fixture(scope="module")
def text_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model without pictures: Qwen2's architecture, the tokenizer of the local vision-language model."""
    import torch
    from transformers import AutoTokenizer, Qwen2Config, Qwen2ForCausalLM

    from actors.local_models import resolve

    folder = tmp_path_factory.mktemp("text") / "only-text"
    tokenizer = AutoTokenizer.from_pretrained(resolve("local:qwen2.5-vl-tiny"))
    sizes: dict[str, Any] = {
        "hidden_size": 64,
        "intermediate_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
    }
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = Qwen2ForCausalLM(
            Qwen2Config(vocab_size=4096, num_key_value_heads=2, eos_token_id=tokenizer.eos_token_id, **sizes)
        )
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def test_a_model_of_text_alone_writes_too(text_model: Path) -> None:
    from actors.vlm.generation import text_generator
    from actors.vlm.loading import load_vlm

    model, processor = load_vlm(str(text_model), dtype="float32")
    chat = ChatEncoder(processor)
    assert not chat.sees_pictures
    with pytest.raises(ValueError, match="cannot see pictures"):
        chat.encode(["x", None], [picture(1)])
    prompts = [chat.encode([text], []) for text in ("Who?", "What is the history of this town by the sea?")]
    engine = text_generator(model, chat)
    together = engine.generate(prompts, seeds=SEEDS, sampling=SHORT)
    assert together == [engine.generate([p], seeds=[s], sampling=SHORT)[0] for p, s in zip(prompts, SEEDS, strict=True)]
    assert all(isinstance(texts, list) for texts in together)
