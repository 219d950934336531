"""The encoder of a job: the keys that its errors name, and the numbers that its vectors keep."""

from collections.abc import Callable

import pytest

from actors.encoders import calibration, facts
from actors.encoders.calibration import LogitScalars
from jobs.errors import InputError
from jobs.models.encoder import EmbedderConfig, check_available, encoder_facts, logit_scalars

EMBEDDER = EmbedderConfig(name="seven", checkpoint="me/seven", pretrained="tag")


def test_an_error_names_the_key_of_the_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    def raises(error: Exception) -> Callable[..., None]:
        def call(*_: object, **__: object) -> None:
            raise error

        return call

    expected = {
        "pretrained=tag: unknown": "embedder.pretrained=tag: unknown",
        "me/seven: no such model\nmore": "embedder.checkpoint=me/seven: no such model",
        "no such model": "embedder.checkpoint=me/seven: no such model",
    }
    wrong = []
    for text, message in expected.items():
        for error in (ValueError(text), OSError(text)):
            monkeypatch.setattr(facts, "encoder_facts", raises(error))
            monkeypatch.setattr(facts, "check_weights", raises(error))
            for check in (encoder_facts, check_available):
                with pytest.raises(InputError) as raised:
                    check(EMBEDDER)
                wrong += [str(raised.value)] if str(raised.value) != message else []
    assert wrong == []


def test_scale_and_bias_are_kept_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    scalars = LogitScalars(4.765625, -16.763517379760742)
    asked = []

    def read(checkpoint: str, *, pretrained: str | None) -> LogitScalars | None:
        asked.append((checkpoint, pretrained))
        return scalars if len(asked) == 1 else None

    monkeypatch.setattr(calibration, "logit_scalars", read)
    kept = logit_scalars(EMBEDDER)
    assert {name: float(text) for name, text in kept.items()} == {
        "logit_scale": scalars.scale,
        "logit_bias": scalars.bias,
    }
    assert logit_scalars(EMBEDDER) == {}  # an encoder without them
    assert asked == [("me/seven", "tag")] * 2
