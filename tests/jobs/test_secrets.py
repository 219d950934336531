"""Secrets that are planted in the environment, in URLs, in answers of hosts and in wrong keys: where they may not be.

`tests/jobs/test_century_pipeline.py` does the same with a whole pipeline on Ray.
"""

import http.client
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from botocore.exceptions import EndpointConnectionError, HTTPClientError, ProxyConnectionError

from actors.ids import content_id
from actors.rubrics.rubric import Rubric
from jobs.judging.kept_rubric import of_rubric
from jobs.runtime.command_line import cli
from jobs.runtime.configuration.config_files import CONF
from jobs.runtime.selection.exclusions import ExclusionFilter
from jobs.store.files import faults
from jobs.store.files.s3 import forget_settings
from jobs.viewer.opening import listening, open_viewer, server
from jobs.workers import cluster_limiter, fetch_urls
from tests import secrets_found
from tests.factories import century_rating, record, write_csv, write_records, write_table
from tests.https_server import ADDRESS, Answer, HttpsServer
from tests.picture_site import LocalLimiter, Site, jpeg

pytestmark = pytest.mark.usefixtures("in_process")
ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "PlantedAccessKeyId",
    "AWS_SECRET_ACCESS_KEY": "PlantedSecretAccessKey",
    "AWS_SESSION_TOKEN": "PlantedSessionToken",
    "RAY_AUTH_TOKEN": "PlantedTokenOfRay",
    "HF_TOKEN": "hf_PlantedTokenOfTheHub",
    "WANDB_API_KEY": "PlantedKeyOfATracker",
    "HTTP_PROXY": "http://planted-user:PlantedProxyWord@127.0.0.1:9",
    "HTTPS_PROXY": "http://planted-user:PlantedProxyWord@127.0.0.1:9",
}
SECRETS = {name: value for name, value in ENVIRONMENT.items() if "PROXY" not in name} | {
    "word of the proxy": "PlantedProxyWord",
    "cookie": "PlantedCookie",
    "signature of a redirect": "PlantedSignatureOfARedirect",
    "word of a redirect": "PlantedWordOfARedirect",
    "key of pseudonyms": "PlantedKeyOfPseudonyms",
    "word in a key": "PlantedWordInAKey",
}
OWN = {"signature of a record": "PlantedSignatureOfARecord"}
SIGNED = "?X-Amz-Credential=A&X-Amz-Signature=PlantedSignatureOfARecord"
REDIRECT = "?Expires=9&Signature=PlantedSignatureOfARedirect"
LABELS = yaml.safe_load((CONF / "rubric" / "century_labels.yaml").read_text())
CENTURY = of_rubric(Rubric.from_dict(LABELS), LABELS)
COOKIE = ("Set-Cookie", "session=PlantedCookie; Secure")


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("AWS_") or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(fetch_urls, "ClusterLimiter", LocalLimiter)  # which needs no Ray
    monkeypatch.setattr(cluster_limiter, "start", lambda: None)
    monkeypatch.setenv("NO_PROXY", "localhost,127.0.0.1")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    forget_settings()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[HttpsServer]:
    """Pictures with signed URLs, redirects to others, and cookies."""
    site = Site()
    site.default = Answer(200, jpeg(), (COOKIE,))
    with HttpsServer(tmp_path, site) as running:
        to = {
            "signed": running.url(f"/a{REDIRECT}"),
            "broken": running.url(f"/broken{REDIRECT}"),
            "word": f"https://user:PlantedWordOfARedirect@localhost:{running.port}/a",
            "elsewhere": f"https://elsewhere.example/a{REDIRECT}",
            "nonsense": f"https://[localhost/a{REDIRECT}",
            "invalid": f"https://local host/a{REDIRECT}",
        }
        site.script = {f"/{name}{SIGNED}": [Answer(302, b"", (("Location", url), COOKIE))] for name, url in to.items()}
        broken = Answer(200, b"", (COOKIE, ("Content-Length", "PlantedCookie"), ("Bad\0", "PlantedCookie")))
        site.script |= {f"/broken{query}": [broken] for query in (SIGNED, REDIRECT)}
        for status in (404, 403, 500, 503):
            site.script[f"/{status}{SIGNED}"] = [Answer(status, b"PlantedCookie", (COOKIE,))]
        yield running


NAMES = ("ok", "signed", "broken", "word", "elsewhere", "nonsense", "invalid", "404", "403", "500", "503", "redirected")


def run(job: str, *arguments: str) -> int:
    return cli.main(job, list(arguments))


def found(folder: Path, secrets: dict[str, str]) -> list[str]:
    return secrets_found.find(str(folder), secrets)


def test_signatures_cookies_and_tokens_of_pictures(
    tmp_path: Path, planted: None, served: HttpsServer, capfd: pytest.CaptureFixture[str]
) -> None:
    """Signed URLs of records stay in the tables `records` and `images`, and are neither published nor shown."""
    urls = [*(served.url(f"/{name}{SIGNED}") for name in NAMES), served.url("/public.jpg")]
    out = tmp_path / "out"
    units = [[record(f"t{place}", image=url) for place, url in enumerate(urls)]]
    write_records(str(out / "records"), units)
    keys = {
        "contact": "tests@remine.dev",
        "allow_hosts": f"[localhost:{served.port}]",
        "testing.allow_addresses": f"[{ADDRESS}]",
        "ca_file": str(served.ca_file),
        "backoff_s": "0.01",
        "attempts": "2",
        "mbit_s": "null",
    }
    source = ["source=urls", *(f"source.{key}={value}" for key, value in keys.items()), "max_error_share=1"]
    assert run("fetch", *source, f"input={out}/records", f"out={out}/images") == 0
    ratings = [
        century_rating(content_id(url), "sensitive", 1 + place % 5, rater=rater, method="human")
        for place, url in enumerate(urls)
        for rater in ("ann", "bo")
    ]
    write_table(out / "ratings", "ratings", ratings, rubric=CENTURY)
    raters = write_csv(tmp_path / "raters.csv", ["rater"], [["ann"]])
    (tmp_path / "key").write_text(SECRETS["key of pseudonyms"])
    pictures = f"images={out}/images", f"records={out}/records"
    study = f"input={out}/images", "rubric=century_labels", f"raters={raters}", "per_item=1"
    for tool in ("label_studio", "prodigy"):
        assert run("annotate", *study, *pictures, f"tool={tool}", f"out={out}/{tool}") == 0
    shown = f"ratings=[{out}/ratings]", *pictures
    assert run("report", *shown, f"out={out}/report") == 0
    about = "card.licence=cc-by-4.0", "card.title=Test", "card.date=2025-11-23", f"key_file={tmp_path}/key"
    assert run("release", *shown, *about, f"out={out}/release") == 0
    pages = "".join(pages_of_viewer(str(out), tmp_path / "view", [content_id(url) for url in urls]))
    printed = "".join(capfd.readouterr()) + pages
    tables = {f"{out}/{table}/unit0.parquet" for table in ("records", "images")}
    assert found(out, SECRETS) == []
    assert {place.partition(" in ")[2] for place in found(out, OWN)} == tables
    assert [name for name, secret in (SECRETS | OWN).items() if secret in printed] == []
    assert "bad_answer" in printed
    assert not any("cookie" in request.headers for request in served.seen)
    assert len((out / "release" / "data" / "pictures.csv").read_text().splitlines()) == 2


def pages_of_viewer(place: str, folder: Path, ids: list[str]) -> Iterator[str]:
    """Yield the pages that a browser gets, and what the server itself prints to the test's streams."""
    folder.mkdir()
    viewer = open_viewer(
        [place], folder, rater=None, out=None, exclusion_filter=ExclusionFilter(frozenset()), blur=True
    )
    with listening(0) as listener:
        serving = server(viewer.application)
        thread = threading.Thread(target=serving.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            port = listener.getsockname()[1]
            for path in ("", *(f"pictures/{name}" for name in ids), "absent"):
                connection = http.client.HTTPConnection(ADDRESS, port, timeout=30)
                connection.request("GET", f"/{viewer.token}/{path}")
                reply = connection.getresponse()
                yield reply.read().decode().replace(viewer.token, "")
                assert (reply.status == 200) == (path != "absent"), path
                connection.close()
        finally:
            serving.should_exit = True
            thread.join()
            viewer.close()


WORD = SECRETS["word in a key"]
PLACES = (f"s3://KEY:{WORD}@bucket/table", f"https://user:{WORD}@host/table?token={WORD}")


def test_commands_that_are_refused(tmp_path: Path, planted: None, capfd: pytest.CaptureFixture[str]) -> None:
    """Secrets are neither accepted in a key nor repeated in the refusal, in text and in JSON."""
    write_records(str(tmp_path / "records"), [[record("a")]])
    (tmp_path / "terms.csv").write_text("term,source\nwar,manual\n")
    source, out = f"input={tmp_path}/records", f"out={tmp_path}/out"
    terms = f"terms.path={tmp_path}/terms.csv"
    commands = [
        command
        for place in PLACES
        for command in (
            ("curate", f"input={place}", out),
            ("curate", source, f"out={place}"),
            ("curate", source, f"exclusions={place}", out),
            ("mine", f"corpus.path={place}", terms, out, "log=json"),
            ("embed", source, f"embedder={place}", out, "log=json"),
            ("judge", source, f"model={place}", "rubric=century_labels", out, "log=json"),
            ("verify", f"input={place}"),
            ("ls", place),
        )
    ]
    assert [run(*command) for command in commands] == [2] * len(commands)
    printed = "".join(capfd.readouterr())
    assert printed.count("error: ") == len(commands)
    assert [line for line in printed.splitlines() if any(secret in line for secret in SECRETS.values())] == []
    assert found(tmp_path, SECRETS) == []


def test_sentences_about_storage_and_proxies() -> None:
    address = f"http://user:{WORD}@127.0.0.1:9/bucket?X-Amz-Signature={WORD}"
    for error in (
        EndpointConnectionError(endpoint_url=address),
        ProxyConnectionError(proxy_url=address, error=OSError(address)),
        HTTPClientError(error=OSError(f"Cannot connect to {address!r} ({address})")),
        OSError(f"cannot open ({address}): refused"),
    ):
        sentence = faults.sentence(error)
        assert "127.0.0.1:9/bucket" in (sentence or "")
        assert WORD not in (sentence or "")
