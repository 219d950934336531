"""What the environment and the profile say about S3, and what the clients get of it; without a server."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.fs as pafs
import pytest
import s3fs

from jobs.errors import InputError
from jobs.store.files import s3


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[pytest.MonkeyPatch]:
    """An environment without any setting of S3, apart from an empty file of profiles."""
    for name in list(os.environ):
        if name.startswith("AWS_") or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    s3.forget_settings()
    yield monkeypatch
    monkeypatch.undo()
    s3.forget_settings()


def settings(environment: pytest.MonkeyPatch, **variables: str) -> tuple[str, str, str]:
    """Return endpoint, region and certificates with these variables of the environment."""
    with environment.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        s3.forget_settings()
        configured = s3.settings()
    return configured["endpoint"], configured["region"], configured["ca_bundle"]


def test_the_environment_wins_over_the_profile(environment: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert settings(environment) == ("", "", "")
    (tmp_path / "config").write_text(
        "[default]\nregion = eu-west-1\nendpoint_url = http://profile:1\nca_bundle = /profile.pem\n"
        "[profile other]\nregion = us-east-2\n"
    )
    assert settings(environment) == ("http://profile:1", "eu-west-1", "/profile.pem")
    assert settings(environment, AWS_PROFILE="other") == ("", "us-east-2", "")
    assert settings(environment, AWS_DEFAULT_REGION="eu-north-1")[1] == "eu-north-1"
    assert settings(environment, AWS_CA_BUNDLE="/mine.pem")[2] == "/mine.pem"
    assert settings(environment, AWS_ENDPOINT_URL="http://all:2")[0] == "http://all:2"
    both = {"AWS_ENDPOINT_URL": "http://all:2", "AWS_ENDPOINT_URL_S3": "http://s3:3"}
    assert settings(environment, **both)[0] == "http://s3:3"


def test_both_clients_have_the_address_and_the_region(monkeypatch: pytest.MonkeyPatch) -> None:
    clients: list[dict[str, Any]] = []
    reached: list[str] = []
    monkeypatch.setattr(pafs, "S3FileSystem", lambda **options: clients.append(options))
    monkeypatch.setattr(s3fs, "S3FileSystem", lambda **options: clients.append(options))
    monkeypatch.setattr(s3, "_check_reachable", reached.append)
    monkeypatch.setattr(s3, "proxy_of", lambda endpoint: None)

    def options(**configured: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the options of pyarrow's and of s3fs's client."""
        clients.clear()
        monkeypatch.setattr(s3, "settings", lambda: {"endpoint": "", "region": "", "ca_bundle": ""} | configured)
        s3.arrow_filesystem.__wrapped__()
        s3.client()
        return clients[0], clients[1]

    names = ("region", "scheme", "endpoint_override", "tls_ca_file_path", "proxy_options")
    arrow, fsspec = options()
    assert not set(names) & arrow.keys()
    assert (fsspec["endpoint_url"], fsspec["client_kwargs"]) == (None, {})
    assert reached == []  # Amazon's hosts depend on the bucket
    arrow, fsspec = options(region="eu-west-1", endpoint="https://store:9000/", ca_bundle="/c.pem")
    assert {name: arrow[name] for name in names if name in arrow} == {
        "region": "eu-west-1", "scheme": "https", "endpoint_override": "store:9000", "tls_ca_file_path": "/c.pem"
    }  # fmt: skip
    assert (fsspec["endpoint_url"], fsspec["client_kwargs"]) == ("https://store:9000/", {"region_name": "eu-west-1"})
    assert fsspec["use_listings_cache"] is False
    assert reached == ["https://store:9000/"]
    monkeypatch.setattr(s3, "proxy_of", lambda endpoint: f"proxy of {endpoint}")
    arrow, _ = options(region="eu-west-1")
    assert arrow["proxy_options"] == "proxy of https://s3.eu-west-1.amazonaws.com"
    assert options()[0]["proxy_options"] == "proxy of https://s3.us-east-1.amazonaws.com"
    assert reached[1:] == ["https://s3.eu-west-1.amazonaws.com", "https://s3.us-east-1.amazonaws.com"]


def test_the_bucket_is_the_first_part_of_a_place() -> None:
    for uri, bucket, path in (
        ("s3://b/a/c", "b", "b/a/c"), ("s3://b", "b", "b"), ("s3://b/", "b", "b/"), ("s3://b/s3://x", "b", "b/s3://x")
    ):  # fmt: skip
        assert (s3.bucket_of(uri), s3.key_path(uri)) == (bucket, path)


def test_an_endpoint_that_is_not_an_address_is_a_sentence(environment: pytest.MonkeyPatch, tmp_path: Path) -> None:
    wrong = (
        "not a url",
        "host:9000",
        "http://",
        "http:// host",
        "http://host:port",
        "http://[::1",
        "ftp://host",
        "://",
    )
    for value in wrong:
        for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
            with pytest.raises(InputError, match=rf"^{name}=.*: must be an address such as https://host:port$"):
                settings(environment, **{name: value})
    (tmp_path / "config").write_text("[default]\nendpoint_url = not a url\n")
    with pytest.raises(InputError, match=r"^endpoint_url in the profile=not a url: must be an address"):
        settings(environment)
    for value in ("http://127.0.0.1:9000", "https://[::1]:9000", "https://s3.example.com/", "http://minio"):
        assert settings(environment, AWS_ENDPOINT_URL=value)[0] == value
