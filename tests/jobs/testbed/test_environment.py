"""Variables that are set for a while, and what the store makes of them."""

import os

import pytest

from jobs.store.files.s3 import forget_settings, settings
from jobs.testbed import environment


def test_variables_are_restored_and_settings_follow_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "http://mine.example")
    monkeypatch.delenv("AWS_SESSION_TOKEN", raising=False)
    monkeypatch.setenv("AWS_REQUEST_CHECKSUM_CALCULATION", "when_required")
    forget_settings()
    before = dict(os.environ)
    values = {
        "AWS_ENDPOINT_URL_S3": "http://demo.example",
        "AWS_SESSION_TOKEN": "",
        "AWS_REQUEST_CHECKSUM_CALCULATION": None,
    }

    def fail() -> None:
        with environment.variables(values):
            assert {name: os.environ.get(name) for name in values} == values
            assert settings()["endpoint"] == "http://demo.example"
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert dict(os.environ) == before
    assert settings()["endpoint"] == "http://mine.example"
    monkeypatch.undo()
    forget_settings()
