"""Several models of one key: names, paths and local checkpoints, in their order and each once."""

import pytest

from jobs.errors import InputError
from jobs.judging.methods import MethodConfig
from jobs.models.several import read_models


def names(*listed: str) -> list[tuple[str, str]]:
    models = read_models("judge", MethodConfig, key="model", listed="models", names=listed)
    return [(model.name, model.checkpoint) for model in models]


def test_models_are_named_in_their_order() -> None:
    local = "local:qwen2.5-vl-tiny"
    listed = names(f"{local}@mine", "qwen2.5-vl-7b", local)
    assert [name for name, _ in listed] == ["mine", "qwen2.5-vl-7b", "qwen2.5-vl-tiny"]
    assert (listed[0][1], listed[2][1]) == (f"{local}@mine", local)
    assert names() == []


def test_a_model_that_occurs_twice_or_nowhere_is_refused() -> None:
    with pytest.raises(
        InputError, match=r"^models=\[qwen2\.5-vl-7b,local:a@b,qwen2\.5-vl-7b\]: duplicate qwen2\.5-vl-7b"
    ):
        names("qwen2.5-vl-7b", "local:a@b", "qwen2.5-vl-7b")
    with pytest.raises(InputError, match=r"^models=nowhere"):
        names("nowhere")
