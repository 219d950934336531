"""Keys of a model and of its stage reach what loads it; no model is loaded."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from actors import generator, judge, loglik_rater, reasoning_judge, span_marker
from actors.vlm import loading
from actors.vlm.settings import ClosedSettings, ModelSettings, ReasoningSettings
from tests.actors.vlm.helpers import CONF

KEYS: dict[str, Any] = {"revision": "abc", "dtype": "float16", "device_map": "cuda:0", "offload": True}


class StoppedError(Exception):
    """Raised by a call that is not to be made; `arguments` are its own."""

    def __init__(self, *arguments: Any, **keys: Any) -> None:
        super().__init__()
        self.arguments = (arguments, keys)


def conf(group: str, name: str) -> Any:
    return yaml.safe_load((CONF / group / f"{name}.yaml").read_text(encoding="utf-8"))


def stages(small: dict[str, Any], **keys: Any) -> dict[str, Callable[[], object]]:
    """Return a function that builds each stage."""
    closed = ClosedSettings(rubric=small)
    reasoning = ReasoningSettings(rubric=small)
    texts = generator.GeneratorSettings(refusals={"en": {"refusal": ["^I cannot"], "drop_event": []}})
    likelihoods = loglik_rater.LoglikSettings(prompt=conf("prompt", "relevant_to"))
    spans = span_marker.MarkingSettings(
        method="direct", span_labels=conf("span_labels", "docent"), span_prompts=conf("span_prompts", "docent")
    )
    return {
        "judge": lambda: judge.Judge(closed, **keys),
        "reasoning": lambda: reasoning_judge.ReasoningJudge(reasoning, **keys),
        "generate": lambda: generator.Generator(texts, prompt="p", prompt_hash="h", **keys),
        "loglik": lambda: loglik_rater.LoglikRater(likelihoods, targets=["Japan"], **keys),
        "spans": lambda: span_marker.SpanMarker(spans, **keys),
    }


def test_every_stage_loads_the_model_that_its_settings_name(
    small: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []
    monkeypatch.setattr("torch.set_num_threads", threads.append)

    def fail(*arguments: Any, **keys: Any) -> None:
        raise StoppedError(*arguments, **keys)

    model = ModelSettings(checkpoint="org/name", **KEYS)
    monkeypatch.setattr(loading, "load_vlm", fail)
    for number, name in enumerate(stages(small), start=1):
        with pytest.raises(StoppedError) as loaded:
            stages(small, model=model, threads=number)[name]()
        assert loaded.value.arguments == (("org/name",), KEYS), name
    assert threads == [1, 2, 3, 4, 5]
    for name in stages(small):
        with pytest.raises(StoppedError) as loaded:
            stages(small, model=ModelSettings(checkpoint="m"))[name]()
        keys = {"revision": None, "dtype": "auto", "device_map": "auto", "offload": False}
        assert loaded.value.arguments == (("m",), keys), name
    assert threads == [1, 2, 3, 4, 5]  # None keeps torch's number


def test_every_stage_records_the_revision_of_its_model(small: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: Any, **keys: Any) -> None:
        raise StoppedError(*arguments, **keys)

    monkeypatch.setattr(loading, "load_vlm", lambda *_, **__: ("loaded", SimpleNamespace()))
    monkeypatch.setattr(loading, "model_facts", fail)
    for name, build in stages(small, model=ModelSettings(checkpoint="org/name", revision="abc")).items():
        with pytest.raises(StoppedError) as recorded:
            build()
        assert recorded.value.arguments == (("loaded",), {"model": "org/name", "revision": "abc"}), name
