"""A store and a hub behind a certificate authority of one's own and a proxy; the hub's cache without a network."""

import json
import os
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import trustme

from jobs.errors import InputError
from jobs.store.files import locations, s3
from tests.forwarding import connect_proxy, forwarding
from tests.https_server import Answer, HttpsServer, Seen

PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "ALL_PROXY", "all_proxy")
COMMIT = "a" * 40
READ = """
import sys
from actors import hub
print(hub.read("org/model", "config.json"))
"""


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)
    yield monkeypatch
    monkeypatch.undo()
    s3.forget_settings()


def test_a_store_with_a_private_authority_is_reached_through_a_proxy(
    s3: str, tmp_path: Path, environment: pytest.MonkeyPatch
) -> None:
    from jobs.store.files.s3 import forget_settings

    authority, tls = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(tls)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    name = next(key for key in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL") if key in os.environ)
    parts = urlsplit(os.environ[name])
    environment.setattr("jobs.store.files.s3.ARROW_ATTEMPTS", 2)  # pyarrow repeats what fails because of a certificate
    uri = f"{s3}/private/object"
    with forwarding((str(parts.hostname), int(parts.port or 80)), tls=tls) as store, connect_proxy() as proxy:
        environment.setenv(name, f"https://localhost:{store.port}")
        forget_settings()
        with pytest.raises(OSError, match=r"(?i)certificate|ssl"):  # without the authority
            locations.replace(uri, b"data")
        environment.setenv("AWS_CA_BUNDLE", str(tmp_path / "ca.pem"))
        environment.setenv("HTTPS_PROXY", f"http://127.0.0.1:{proxy.port}")
        forget_settings()
        locations.replace(uri, b"data")  # by pyarrow
        assert proxy.targets[("localhost", store.port)] == (written := sum(proxy.targets.values())) > 0
        assert [result.size for result in locations.listing(f"{s3}/private")] == [4]  # by botocore
        assert sum(proxy.targets.values()) > written
        assert locations.read_bytes(uri) == b"data"
        before = sum(proxy.targets.values())
        environment.setenv("NO_PROXY", "localhost")
        forget_settings()
        assert locations.read_bytes(uri) == b"data"
        assert sum(proxy.targets.values()) == before


@pytest.mark.parametrize("endpoint", ["http://store.example:9000", ""], ids=["own store", "Amazon's"])
def test_a_proxy_that_does_not_listen_is_named_after_few_tries(endpoint: str, environment: pytest.MonkeyPatch) -> None:
    tried: list[tuple[str, int]] = []

    def refused(place: tuple[str, int], **_: object) -> None:
        tried.append(place)
        raise ConnectionRefusedError

    for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"):
        environment.setenv(name, endpoint)
    for name in ("HTTP_PROXY", "HTTPS_PROXY"):
        environment.setenv(name, "http://ada:word@proxy.example:3128")
    environment.setattr(socket, "create_connection", refused)
    environment.setattr(s3, "REACH_PAUSE_S", 0.01)
    s3.forget_settings()
    with pytest.raises(InputError, match=r"s3://b/x: the proxy .*proxy\.example:3128.*; check HTTPS_PROXY") as raised:
        locations.find("s3://b/x")
    assert "word" not in str(raised.value)
    assert tried == [("proxy.example", 3128)] * s3.REACH_ATTEMPTS


def hub_answer(seen: Seen) -> Answer:
    """Return the hub's answer about the file `config.json` of `org/model`."""
    body = json.dumps({"model_type": "tiny"}).encode()
    headers = (("X-Repo-Commit", COMMIT), ("ETag", '"b1"'))
    if not seen.path.startswith("/org/model/resolve/") or not seen.path.endswith("/config.json"):
        return Answer(404)
    if seen.method == "HEAD":
        return Answer(200, b"", (*headers, ("Content-Length", str(len(body)))))
    return Answer(200, body, headers)


def test_a_hub_with_a_private_authority_behind_a_proxy_and_its_cache_offline(
    tmp_path: Path, environment: pytest.MonkeyPatch
) -> None:
    def read(**more: str) -> str:
        env = {**os.environ, "HF_HOME": str(tmp_path / "hub"), **more}
        done = subprocess.run(
            [sys.executable, "-c", READ], env=env, capture_output=True, text=True, check=False, timeout=300
        )
        return done.stdout.strip() or done.stderr

    with HttpsServer(tmp_path, hub_answer) as server, connect_proxy() as proxy:
        online = {
            "HF_ENDPOINT": f"https://localhost:{server.port}",
            "HTTPS_PROXY": f"http://127.0.0.1:{proxy.port}",
        }
        assert "ModelError" in read(**online)
        assert '"tiny"' in read(**online, SSL_CERT_FILE=str(server.ca_file))
        assert proxy.targets[("localhost", server.port)] > 0
        asked = len(server.seen)
        assert '"tiny"' in read(**online, HF_HUB_OFFLINE="1")
        assert len(server.seen) == asked
