"""The settings with which pictures are requested, from the keys of `fetch`."""

from typing import Any

import pytest

from jobs.errors import InputError
from jobs.runtime.configuration.config import load
from jobs.sources.source_config import FetchConfig
from jobs.sources.url_source import fetcher_settings
from tests.cases import check_cases

CONTACT = "source.contact=ada@uni-somewhere.edu"


def settings(*keys: str) -> Any:
    return fetcher_settings(load("fetch", FetchConfig, ["source=urls", "input=R", "out=O", CONTACT, *keys]))


def test_keys_become_rules_and_bounds() -> None:
    fetcher = settings(
        "source.allow_hosts=[a.example,'*.b.example:8443','*',10.0.0.1]", "source.max_bytes=5", "source.connect_s=1",
        "source.read_s=2", "source.total_s=3", "verify_only=true", "width=320",
        "source.testing.allow_addresses=[127.0.0.1]", "source.testing.resolve=['a.example:127.0.0.1:80','b:[::1]:81']",
    )  # fmt: skip
    assert fetcher.rules.hosts == ("a.example", "*.b.example:8443", "*", "10.0.0.1")
    assert fetcher.rules.private == {"127.0.0.1"}
    assert fetcher.rules.fixed == (("a.example", "127.0.0.1", 80), ("b", "::1", 81))
    bounds = fetcher.bounds
    assert (bounds.max_bytes, bounds.connect_s, bounds.read_s, bounds.total_s) == (5, 1, 2, 3)
    assert (fetcher.verify_only, fetcher.width) == (True, 320)
    assert "ada@uni-somewhere.edu" in fetcher.agent
    plain = settings()
    assert (plain.width, plain.verify_only, plain.rules.fixed, plain.rules.private) == (None, False, (), frozenset())


def test_keys_that_are_refused() -> None:
    def refused(key: str, message: str) -> None:
        with pytest.raises(InputError) as error:
            settings(key)
        assert message in str(error.value)

    cases = [
        ("source.contact=null", "source.contact= is required"),
        ("source.contact=''", "source.contact= is required"),
        ("source.contact=nobody", "source.contact=nobody: "),
        ("source.allow_hosts=[]", "source.allow_hosts=[]: at least one host"),
        ("source.allow_hosts=[a.example,'https://b']", "source.allow_hosts: 'https://b' must be a host name"),
        ("source.allow_hosts=['a.*']", "'a.*' must be"),
        ("source.allow_hosts=['**']", "'**' must be"),
        ("source.allow_hosts=['a:123456']", "'a:123456' must be"),
        ("source.allow_hosts=['a.example/x']", "'a.example/x' must be"),
        ("source.testing.resolve=['a.example:localhost:80']", "source.testing.resolve: must be a list"),
        ("source.max_bytes=0", "source.max_bytes=0: must be greater than 0"),
        ("source.read_s=-1", "source.read_s=-1"),
        ("source.ca_file=/absent.pem", "source.ca_file=/absent.pem: not a readable PEM file"),
    ]
    check_cases(refused, cases)


def test_a_width_must_be_one_that_wikimedia_serves() -> None:
    for width in (0, 10_000_000):
        with pytest.raises(InputError, match=f"width={width}: must be from 1 to"):
            settings(f"width={width}", "source.form=served")
    assert settings("width=321", "source.form=served").width == 321
    assert settings("width=10000000", "source.form=paper").width == 10_000_000
