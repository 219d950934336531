"""Settings of requests: numbers above 0, known forms, and an address of the wikis' interface."""

from typing import Any

import pytest

from actors.fetching.request_settings import RequestSettings
from tests.cases import check_cases


def test_settings_that_are_allowed() -> None:
    settings = RequestSettings()
    assert (settings.connections, settings.form, settings.opt_out) == (2, "served", ["noai", "noimageai"])
    assert RequestSettings(mbit_s=None, form="paper", api="https://wiki.example/api").mbit_s is None
    settings.opt_out.append("nosearch")
    assert RequestSettings().opt_out == ["noai", "noimageai"]


def test_settings_that_are_refused() -> None:
    numbers = ("connections", "mbit_s", "attempts", "backoff_s", "max_timeouts", "max_wait_s")
    cases: list[tuple[str, Any, str]] = [
        *((name, value, f"{value}: must be above 0") for name in numbers for value in (0, -1)),
        ("form", "nice", "nice: must be one of served, paper"),
        *(
            ("api", value, f"{value}: must be an https:// URL, with {{host}} in place")
            for value in ("http://{host}/w/api.php", "https://{wiki}", "https://{host", "https://{}", "")
        ),
    ]

    def check(name: str, value: Any, message: str) -> None:
        with pytest.raises(ValueError) as refused:  # noqa: PT011
            RequestSettings(**{name: value})
        assert str(refused.value).startswith(f"source.{name}={message}")

    check_cases(check, cases)
