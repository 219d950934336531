"""Click through the viewer of a large table: the seconds of each page over HTTP, and of the first view of a picture."""

import hashlib
import io
import re
import threading
import time
from pathlib import Path

from tests.benchmarks.child import Result
from tests.benchmarks.harness import Benchmark, Contender, Size, Target

PICTURES: dict[Size, int] = {"smoke": 1_000, "default": 100_000, "full": 1_000_000}
RATERS, QUESTIONS, ANSWERS, DIM = 2, 5, 5, 512  # ten ratings of each picture
UNIT = 10_000  # pictures
REGIONS = ("north", "south", "east", "west")
COLUMNS = ("year", "decade", "hall", "maker")  # of the user's file, which filter
CLICKS = {
    "first": "",
    "last page": "?page={last}",
    "words": "?q=picture+77",
    "words of an attribute": "?q=exhibit+77",
    "attributes": "?attribute.year=1977&attribute.hall=1977&sort=title",
    "disagreement": "?sort=disagreement",
    "one question": "?sort=highest&question=bench/q1",
    "an answer": "?rater=model-1&question=bench/q2&value=5",
    "a region": "?region=north&sort=title",
    "similar": "?like={image}",
    "picture": "pictures/{image}?at=500&sort=disagreement",
    "ratings": "ratings?sort=highest&question=bench/q3",
    "ratings of an attribute": "ratings?attribute.year=1977",
    "words in ratings": "ratings?q=picture+77",
    "side by side": "compare?a=model-0&b=model-1&question=bench/q1&differ=1",
    "an example picture": "images/{image}",
}


def prepare(workdir: Path, size: Size) -> None:
    """Tables of pictures, records, items, vectors and ratings, with answers near the picture's own."""
    import numpy as np

    from actors.ids import content_id

    rubric, pictures = _rubric(), _drawn()
    for first in range(0, PICTURES[size], UNIT):
        numbers = np.arange(first, min(first + UNIT, PICTURES[size]))
        urls = [f"https://pictures.example/{number}.jpg" for number in numbers]
        ids = [content_id(url) for url in urls]
        images = [
            {"image_id": name, "rendition": "w300", "status": "ok", "bytes": pictures[n % len(pictures)],
             "format": "JPEG", "width": 96, "height": 96, "source_url": url, "licence": "CC0"}
            for n, (name, url) in enumerate(zip(ids, urls, strict=True))
        ]  # fmt: skip
        records = [
            {"record_id": name, "image_id": name, "image_url": url, "page_title": f"Picture {number} of the fair"}
            for name, url, number in zip(ids, urls, numbers, strict=True)
        ]
        items = [
            {"item_id": name, "kind": "image", "image_ids": [name], "text_ids": [],
             "attributes": [("title", f"Exhibit {number}"), ("region", REGIONS[number % 4]),
                            *((name, str(1950 + number % 40)) for name in COLUMNS)]}
            for name, number in zip(ids, numbers, strict=True)
        ]  # fmt: skip
        _append(workdir, first, "images", images)
        _append(workdir, first, "records", records)
        _append(workdir, first, "items", items)
        vectors = np.random.default_rng(first).normal(size=(len(ids), DIM)).astype(np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        rows = [{"item_id": name, "kind": "image", "embedding": vector, "status": "ok"}
                for name, vector in zip(ids, vectors.astype(np.float16), strict=True)]  # fmt: skip
        _append(workdir, first, "embeddings", rows)
        for rater in range(RATERS):
            _append(workdir, first, f"ratings-{rater}", _ratings(ids, numbers, rater), rubric=rubric)


def _ratings(ids, numbers, rater):
    rows = []
    for name, number in zip(ids, numbers.tolist(), strict=True):
        for question in range(QUESTIONS):
            score = 1 + (number * 7 + question * 3 + ((number * 31 + rater * 17) % 11 == 0)) % ANSWERS
            rows.append({
                "item_id": name, "target": "", "rubric": "bench", "question": f"q{question}", "rater": f"model-{rater}",
                "condition": "", "method": "closed", "order": "", "sample": 0, "value": str(score),
                "score": float(score), "answers": list("12345"), "probabilities": [0.2] * 5, "status": "ok",
            })  # fmt: skip
    return rows


def _rubric():
    from jobs.judging.kept_rubric import of_answers

    return of_answers("bench", list("12345"), ordinal=True)


def _drawn() -> list[bytes]:
    """Return a few dozen pictures of about 3 kB."""
    import numpy as np
    from PIL import Image

    pictures = []
    for seed in range(40):
        out = io.BytesIO()
        noise = np.random.default_rng(seed).integers(0, 255, (24, 24, 3), np.uint8)
        Image.fromarray(noise).resize((96, 96)).save(out, "JPEG")
        pictures.append(out.getvalue())
    return pictures


def _append(workdir: Path, first: int, place: str, rows, *, rubric=None) -> None:
    """Add an object to a table without units, as other programs write them."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from jobs.tables import table

    name = place.partition("-")[0]
    definition = table(name, dim=DIM) if name == "embeddings" else table(name)
    folder = workdir / place
    (folder / "_run").mkdir(parents=True, exist_ok=True)
    for file, data in (rubric.files if rubric else {}).items():
        (folder / "_run" / file).write_bytes(data)
    schema = definition.schema(**(rubric.metadata if rubric else {}))
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), folder / f"{first:09}.parquet", compression="zstd")


def remine(workdir: Path, size: Size) -> Result:
    """Ask for each page once, as a reader clicks; the result is the slowest, apart from reading the tables."""
    import tempfile
    import urllib.request

    from jobs.runtime.selection.exclusions import ExclusionFilter
    from jobs.viewer.opening import ADDRESS, listening, open_viewer, server

    places = [str(path) for path in sorted(workdir.iterdir()) if path.is_dir()]
    with tempfile.TemporaryDirectory() as folder, listening(0) as listener:
        begun = time.perf_counter()
        viewer = open_viewer(
            places, Path(folder), rater=None, out=None, exclusion_filter=ExclusionFilter(frozenset()), blur=True
        )
        seconds = {"reading the tables": time.perf_counter() - begun}
        running = server(viewer.application)
        thread = threading.Thread(target=running.run, kwargs={"sockets": [listener]})
        thread.start()
        base = f"http://{ADDRESS}:{listener.getsockname()[1]}/{viewer.token}/"
        page = urllib.request.urlopen(base).read().decode()
        image = re.findall(r"pictures/([0-9a-f]{32})", page)[7]
        last = str((PICTURES[size] + 23) // 24)
        totals = []
        for click, path in CLICKS.items():
            clicked = time.perf_counter()
            page = urllib.request.urlopen(base + path.format(image=image, last=last)).read().decode("latin-1")
            seconds[click] = time.perf_counter() - clicked
            totals += re.findall(r'role="status">([\d,]+)', page)
        running.should_exit = True
        thread.join()
        viewer.close()
    slowest = max(seconds[click] for click in CLICKS)
    result = Result(rows=len(totals), digest=hashlib.sha256(" ".join(totals).encode()).hexdigest(), wall_s=slowest)
    result.apart.update(seconds)
    return result


BENCHMARK = Benchmark(
    name="view",
    about=__doc__,
    bound="DuckDB's scan of the ratings",
    prepare=prepare,
    contenders=(
        Contender(name="remine", function=f"{__name__}:remine", about="wall seconds are those of the slowest click"),
    ),
    reference="remine",
    targets=(Target(metric="wall_s", contender="remine", at_most=1),),
    packages=("duckdb", "numpy", "pyarrow", "starlette", "uvicorn"),
)
