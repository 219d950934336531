"""Small files of a model: its architecture, its attention heads, and what it lacks."""

import json
from pathlib import Path
from typing import Any

import pytest

from actors.vlm.model_checks import HeadCounts, check_vlm, head_counts, model_type
from tests.cases import check_cases


def folder(place: Path, config: Any, **files: str) -> str:
    """Write a folder with a config, as text or to become JSON, and empty or given other files."""
    place.mkdir()
    (place / "config.json").write_text(config if isinstance(config, str) else json.dumps(config))
    for name, text in files.items():
        (place / name.replace("__", ".")).write_text(text)
    return str(place)


def test_a_config_without_a_model_type_is_refused(tmp_path: Path) -> None:
    untyped = ["", "[]", "null", '"qwen2"', "3", "{}", '{"model": "qwen2"}', '{"model_type": 3}']

    def check(config: str, message: str) -> None:
        name = folder(tmp_path / f"m{[*untyped, '{'].index(config)}", config)
        with pytest.raises(ValueError, match=message):
            model_type(name)

    check_cases(check, [*((config, "config.json has no model_type; use the") for config in untyped), ("{", "damaged")])
    assert model_type(folder(tmp_path / "whole", {"model_type": "qwen2"})) == "qwen2"
    for missing in (tmp_path / "nowhere", "./nowhere", "~/nowhere"):
        with pytest.raises(ValueError, match="no such folder"):
            model_type(str(missing))


def test_heads_are_of_the_text_model_and_of_pictures(tmp_path: Path) -> None:
    heads = {"num_attention_heads": 8}
    cases: list[tuple[dict[str, Any], HeadCounts]] = [
        (heads, HeadCounts(8, 8, None)),
        ({**heads, "num_key_value_heads": 2}, HeadCounts(8, 2, None)),
        ({"text_config": {**heads, "num_key_value_heads": 4}, "num_attention_heads": 99}, HeadCounts(8, 4, None)),
        ({"text_config": {"x": 1}, **heads, "vision_config": {"num_heads": 16}}, HeadCounts(8, 8, 16)),
        ({**heads, "vision_config": {"num_attention_heads": 12}}, HeadCounts(8, 8, 12)),
    ]

    def check(number: int, config: dict[str, Any], expected: HeadCounts) -> None:
        assert head_counts(folder(tmp_path / f"m{number}", {"model_type": "x", **config})) == expected

    check_cases(check, [(number, *case) for number, case in enumerate(cases)])
    with pytest.raises(ValueError, match="has no num_attention_heads"):
        head_counts(folder(tmp_path / "none", {"model_type": "x"}))


def test_heads_fit_gpus_that_have_equal_parts() -> None:
    cases = [
        (HeadCounts(8, 8, None), [1, 2, 4, 8]),
        (HeadCounts(8, 2, None), [1, 2, 4, 8]),  # a key on several GPUs
        (HeadCounts(12, 4, 16), [1, 2, 4]),
        (HeadCounts(12, 3, None), [1, 3, 6, 12]),
        (HeadCounts(8, 8, 6), [1, 2]),
    ]
    assert [[n for n in range(1, 13) if heads.fit(n)] for heads, _ in cases] == [fitting for _, fitting in cases]


def test_what_a_model_lacks_is_named(tmp_path: Path) -> None:
    config = {"model_type": "qwen2", "architectures": ["Qwen2ForCausalLM"]}
    template = {"chat_template__jinja": "{{ messages }}"}
    cases: list[tuple[dict[str, Any], dict[str, str], str]] = [
        ({"model_type": "vit"}, {}, "model_type 'vit' is neither"),
        ({**config, "architectures": ["Qwen2Model"]}, {}, "Qwen2Model does not generate text"),
        (config, template, r"no weights in the folder"),
    ]

    def check(number: int, config: dict[str, Any], files: dict[str, str], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            check_vlm(folder(tmp_path / f"m{number}", config, **files))

    check_cases(check, [(number, *case) for number, case in enumerate(cases)])


TEMPLATED = {"chat_template.jinja": "x"}
TEXT, PICTURES = {"model_type": "qwen2"}, {"model_type": "qwen2_5_vl", "architectures": ["XForConditionalGeneration"]}


def weighted(place: Path, config: dict[str, Any], files: dict[str, str]) -> str:
    """Write a folder as `folder` does, with a file of weights that has no tensors."""
    name = folder(place, config, **files)
    (place / "model.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")
    return name


def test_which_files_of_each_kind_are_enough(tmp_path: Path) -> None:
    tokenizers = ["tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "spiece.model", "tekken.json"]
    templates: list[dict[str, str]] = [
        *({name: "x"} for name in ("chat_template.jinja", "chat_template.json")),
        *({name: '{"chat_template": "x"}'} for name in ("tokenizer_config.json", "processor_config.json")),
    ]
    cases: list[tuple[dict[str, Any], dict[str, str], bool]] = [
        *((TEXT, TEMPLATED | {name: "{}"}, False) for name in tokenizers),
        *((TEXT, template | {"vocab.txt": ""}, False) for template in templates),
        *((PICTURES, TEMPLATED | {"vocab.txt": "", name: "{}"}, True)
          for name in ("preprocessor_config.json", "processor_config.json")),
        *(({**TEXT, "architectures": ["Other", name]}, TEMPLATED | {"vocab.txt": ""}, False)
          for name in ("XForCausalLM", "XForConditionalGeneration", "GPT2LMHeadModel")),
    ]  # fmt: skip

    def check(number: int, config: dict[str, Any], files: dict[str, str], sees_pictures: bool) -> None:
        assert check_vlm(weighted(tmp_path / f"m{number}", config, files)) == sees_pictures

    check_cases(check, [(number, *case) for number, case in enumerate(cases)])


def test_files_without_which_a_model_cannot_answer(tmp_path: Path) -> None:
    cases: list[tuple[dict[str, Any], dict[str, str], str]] = [
        (TEXT, {"vocab.txt": "", "tokenizer_config.json": "{}"}, "no chat template in the folder; use an instruction"),
        (TEXT, {"vocab.txt": "", "chat_template.jinja": ""}, "no chat template in the folder; use an instruction"),
        (TEXT, TEMPLATED | {"tokenizer_config.json": "{}"}, "no tokenizer in the folder .none of tokenizer.json, "),
        (PICTURES, TEMPLATED | {"vocab.txt": ""}, "no processor of pictures in the folder .none of preprocessor"),
    ]

    def check(number: int, config: dict[str, Any], files: dict[str, str], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            check_vlm(weighted(tmp_path / f"m{number}", config, files))

    check_cases(check, [(number, *case) for number, case in enumerate(cases)])
