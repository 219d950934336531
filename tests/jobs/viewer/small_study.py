"""A study of four pictures, which each test of the viewer reads."""

import http.client
import io
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from actors.ids import content_id
from jobs.runtime.selection.exclusions import ExclusionFilter, Exclusions, marks_of
from jobs.viewer.application import Viewer
from jobs.viewer.opening import listening, open_viewer, server
from tests.factories import FIVE, embedding_rows, rating, write_table, write_units

COLOURS = ("red", "green", "blue", "gold")
URLS = [f"https://pictures.example/{colour}.png" for colour in COLOURS]
IDS = [content_id(url) for url in URLS]
RED, GREEN, BLUE, GOLD = IDS
SCORES = {"m": "1345", "n": "1145", "p1": "5115"}  # rater -> scores of the pictures in order
VECTORS = np.array([[1, 0, 0, 0], [0.6, 0.8, 0, 0], [0, 1, 0, 0], [0.9, 0.1, 0, 0]], np.float32)


def write_study(folder: Path) -> str:
    """Write the tables to folder/R; return that place."""
    place = folder / "R"
    images = [
        {"image_id": name, "rendition": "original", "source_url": url, "status": "ok", "bytes": png(colour),
         "format": "PNG", "width": 64, "height": 48, "author": f"Author of {colour}", "licence": "CC0"}
        for name, url, colour in zip(IDS, URLS, COLOURS, strict=True)
    ]  # fmt: skip
    images.append({"image_id": content_id("gone"), "rendition": "original", "source_url": "gone", "status": "missing"})
    write_units(place / "images", "images", [images[:2], images[2:]])
    records = [
        {"record_id": f"r{n}", "image_id": name, "image_url": url, "page_title": f"The {colour} <b>house</b>",
         "page_url": f"https://en.example/wiki/{colour}"}
        for n, (name, url, colour) in enumerate(zip(IDS, URLS, COLOURS, strict=True))
    ]  # fmt: skip
    write_table(place / "records", "records", records)
    for rater, scores in SCORES.items():
        rows = [rating(name, rater, "fit", score) for name, score in zip(IDS, scores, strict=True)]
        rows += [rating("about-red", rater, "right", "2", comment="Seen.") for _ in range(rater == "m")]
        rows[0] |= {"answers": list("12345"), "probabilities": [0.6, 0.1, 0.1, 0.1, 0.1]}
        write_table(place / "ratings" / rater, "ratings", rows, rubric=FIVE)
    refused = [rating(GOLD, "q", "fit", None, raw="I would rather not.")]
    write_table(place / "ratings" / "q", "ratings", refused, rubric=FIVE)
    responses = [{"response_id": "s1", "item_id": RED, "model": "w", "prompt": "describe", "condition": "",
                  "sample": 0, "text": "A red door.", "status": "ok"}]  # fmt: skip
    write_table(place / "responses", "responses", responses)
    items: list[dict[str, Any]] = [
        {"item_id": "about-red", "kind": "response", "image_ids": [RED], "response_id": "s1", "text_ids": ["t1"],
         "attributes": []},
        {"item_id": BLUE, "kind": "image", "image_ids": [BLUE], "text_ids": [], "attributes": [("region", "North")]},
    ]  # fmt: skip
    write_table(place / "items", "items", items)
    write_table(place / "texts", "texts", [{"text_id": "t1", "role": "generated", "text": "A red door, not a gate."}])
    spans = [
        {"item_id": "about-red", "rater": "p1", "condition": "", "method": "human", "text_id": "t1",
         "kind": "mistake", "start": 2, "end": 5, "category": "colour", "marked": True, "status": "ok"}
    ]  # fmt: skip
    write_table(place / "spans", "spans", spans)
    write_table(place / "embeddings", "embeddings", embedding_rows(IDS, "image", VECTORS))
    return str(place)


def png(colour: str) -> bytes:
    """Return a picture of one colour."""
    out = io.BytesIO()
    Image.new("RGB", (64, 48), colour).save(out, "PNG")
    return out.getvalue()


def viewer_of(place: str, folder: Path, *, excluded: str = "", rater: str | None = None, **keys: Any) -> Viewer:
    """Open a viewer of the study, whose database is in `folder`."""
    folder.mkdir(exist_ok=True)
    marks = Exclusions((excluded,), (marks_of(excluded),)).marks if excluded else frozenset[str]()
    options = {"out": None, "blur": True, "exclusion_filter": ExclusionFilter(marks), **keys}
    return open_viewer([place], folder, rater=rater, **options)


class Reply(NamedTuple):
    status: int
    headers: Mapping[str, str]
    text: str


class Served:
    """A viewer that is being served."""

    def __init__(self, viewer: Viewer, port: int) -> None:
        self.token, self.port = viewer.token, port
        self.url = f"http://127.0.0.1:{port}/{viewer.token}/"

    def ask(self, path: str, *, host: str = "", method: str = "GET", body: str = "", **headers: str) -> Reply:
        """Send a request, whose path is not normalised."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        sent = {"Host": host or f"127.0.0.1:{self.port}", **{k.replace("_", "-"): v for k, v in headers.items()}}
        connection.request(method, path, body=body or None, headers=sent)
        reply = connection.getresponse()
        text = reply.read().decode("latin-1")
        connection.close()
        return Reply(reply.status, dict(reply.getheaders()), text)

    def page(self, path: str) -> str:
        """Return a page of the viewer."""
        reply = self.ask(f"/{self.token}/{path}")
        assert reply.status == 200, reply
        return reply.text


@contextmanager
def served(viewer: Viewer) -> Iterator[Served]:
    with listening(0) as listener:
        running = server(viewer.application)
        thread = threading.Thread(target=running.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield Served(viewer, listener.getsockname()[1])
        finally:
            running.should_exit = True
            thread.join()
            viewer.close()
