"""What a model is loaded with: the options of transformers, the place and the dtype of the weights."""

from types import SimpleNamespace
from typing import Any

import pytest
import transformers

from actors.errors import ModelError
from actors.vlm import attention, fused, loading
from actors.vlm.loading import TextProcessor, load_processor, load_vlm


def test_a_model_is_placed_and_prepared_as_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = SimpleNamespace(hf_device_map={"layers.0": 0, "head": "cpu"}, eval=lambda: "in evaluation mode")
    devices: list[str] = []
    prepared: list[Any] = []
    outcome: list[Any] = [loaded]

    def load(source: str, **_: Any) -> Any:
        if isinstance(outcome[0], Exception):
            raise outcome[0]
        return outcome[0]

    def dtype_on(dtype: str, device: Any) -> str:
        devices.append(device.type)
        return dtype

    monkeypatch.setattr(transformers.AutoModelForCausalLM, "from_pretrained", load)
    monkeypatch.setattr(loading, "has_cuda", lambda: True)
    monkeypatch.setattr(loading, "find_dtype", dtype_on)
    monkeypatch.setattr(fused, "fuse", prepared.append)
    monkeypatch.setattr(attention, "use_for_pictures", prepared.append)
    options: dict[str, Any] = {"dtype": "float16", "offload": True}
    assert load_vlm("local:llama-tiny", **options)[0] == "in evaluation mode"
    load_vlm("local:llama-tiny", device_map="cpu", **options)
    assert devices == ["cuda", "cpu"]
    assert prepared == [loaded] * 4
    with pytest.raises(ModelError, match=r"model\.offload=true"):
        load_vlm("local:llama-tiny", dtype="float16")
    for error in (RuntimeError("CUDA out of memory"), MemoryError()):  # says nothing about the model's files
        outcome[0] = error
        with pytest.raises(type(error)) as raised:
            load_vlm("local:llama-tiny", dtype="float16")
        assert raised.value is error


def test_options_that_transformers_gets_for_a_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    processor, asked = SimpleNamespace(image_processor="of pictures"), []
    outcomes: list[Any] = [processor]

    def load(source: str, **options: Any) -> Any:
        asked.append((source, options))
        if isinstance(outcomes[0], Exception):
            raise outcomes[0]
        return outcomes[0]

    for loader in (transformers.AutoProcessor, transformers.AutoConfig):
        monkeypatch.setattr(loader, "from_pretrained", load)
    assert load_processor("me/seeing", revision="r", local_only=True) is processor
    assert load_processor("me/seeing") is processor
    common = {"trust_remote_code": False}
    first, second = ({"revision": "r", "local_files_only": True}, {"revision": "main", "local_files_only": False})
    assert asked == [("me/seeing", common | options) for options in (first, first, second, second)]
    outcomes[0] = "a tokenizer"
    assert isinstance(text := load_processor("me/text"), TextProcessor)
    assert text.tokenizer == "a tokenizer"
    for outcomes[0] in (OSError("no"), ValueError("no"), KeyError("no"), ImportError("no")):
        with pytest.raises(ModelError, match=r"^me/text: cannot load the processor \(.*no"):
            load_processor("me/text")
