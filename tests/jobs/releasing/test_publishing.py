"""A release on the Hub, of which a local server stands for the API."""

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from jobs.errors import InputError, RunError
from jobs.releasing.publishing import PushSettings, check_push, push

REPO = "lab/pictures"


class Hub(ThreadingHTTPServer):
    """Answers the requests of `HfApi` about one data set; keeps what it was sent."""

    created: dict[str, Any]
    files: dict[str, str]
    tokens: set[str | None]
    revision = ""
    committed_to = ""
    refuses = False


class Handler(BaseHTTPRequestHandler):
    """Creates the data set, says how to upload each file, and takes one commit."""

    server: Hub

    def _reply(self, content: Any, status: int = 200) -> None:
        data = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") == "chunked":
            parts = []
            while size := int(self.rfile.readline(), 16):
                parts.append(self.rfile.read(size))
                self.rfile.readline()
            self.rfile.readline()
            return b"".join(parts)
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def do_GET(self) -> None:
        tree = [{"type": "file", "path": path, "size": 1, "oid": "0"} for path in self.server.files]
        info = {"id": REPO, "sha": "0" * 40, "siblings": [{"rfilename": path} for path in self.server.files]}
        self._reply(tree if "/tree/" in self.path else info)

    def do_POST(self) -> None:
        body = self._body()
        self.server.tokens.add(self.headers.get("Authorization"))
        if self.server.refuses:
            self._reply({"error": "You are not allowed to write to this data set"}, 403)
        elif self.path == "/api/repos/create":
            self.server.created = json.loads(body)
            self._reply({"url": f"http://127.0.0.1/datasets/{REPO}", "name": REPO})
        elif self.path.startswith("/api/validate-yaml"):
            self._reply({"errors": [], "warnings": []})
        elif "/preupload/" in self.path:
            files = json.loads(body)["files"]
            self._reply({"files": [{"path": f["path"], "uploadMode": "regular", "shouldIgnore": False} for f in files]})
        else:
            self._commit(body)

    def _commit(self, body: bytes) -> None:
        self.server.committed_to, _, self.server.revision = self.path.rpartition("/")
        for line in map(json.loads, body.splitlines()):
            if line["key"] == "file":
                self.server.files[line["value"]["path"]] = base64.b64decode(line["value"]["content"]).decode()
            elif line["key"] == "deletedFile":
                del self.server.files[line["value"]["path"]]
        self._reply({"commitUrl": f"http://127.0.0.1/datasets/{REPO}/commit/1", "commitOid": "1", "success": True})

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with Hub(("127.0.0.1", 0), Handler) as server:
        server.created, server.files, server.tokens = {}, {"data/old.csv": "old", "notes.txt": "mine"}, set()
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("HF_TOKEN", "hf_secret")
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "pictures.csv").write_text("image_url\n")
    (tmp_path / "README.md").write_text("---\nlicense: cc-by-4.0\n---\n")
    return tmp_path


def test_a_release_is_one_commit_that_replaces_the_earlier_files(hub: Hub, folder: Path) -> None:
    settings = PushSettings(repo=REPO)
    check_push(settings)
    assert push(settings, folder).endswith("/commit/1")
    assert (hub.created["organization"], hub.created["name"], hub.created["type"]) == ("lab", "pictures", "dataset")
    assert hub.created.get("private") or hub.created.get("visibility") == "private"
    assert set(hub.files) == {"data/pictures.csv", "README.md", "notes.txt"}
    assert hub.files["data/pictures.csv"] == "image_url\n"
    assert hub.tokens == {"Bearer hf_secret"}
    assert (hub.committed_to, hub.revision) == (f"/api/datasets/{REPO}/commit", "main")


def test_a_data_set_is_public_and_on_another_branch_on_request(hub: Hub, folder: Path) -> None:
    push(PushSettings(repo=REPO, private=False, revision="next"), folder)
    assert not hub.created.get("private")
    assert hub.created.get("visibility") != "private"
    assert hub.revision == "next"


def test_a_refusal_names_the_data_set_and_not_the_token(hub: Hub, folder: Path) -> None:
    hub.refuses = True
    with pytest.raises(RunError, match=f"push.repo={REPO}: not published") as refusal:
        push(PushSettings(repo=REPO), folder)
    assert "hf_secret" not in str(refusal.value)


def test_names_and_tokens_are_checked_first(monkeypatch: pytest.MonkeyPatch) -> None:
    check_push(PushSettings())
    monkeypatch.setattr("huggingface_hub.get_token", lambda: None)
    for repo, message in (("a b/c", "push.repo=a b/c"), ("pictures", "must be ORGANISATION/NAME"), (REPO, "no token")):
        with pytest.raises(InputError, match=message):
            check_push(PushSettings(repo=repo))
