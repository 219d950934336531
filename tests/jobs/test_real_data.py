"""The main job on real data: the counts of a plain csv loop, vectors of plain open_clip, and no picture lost."""

import csv
import hashlib
import html
import json
import re
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from PIL import Image

from jobs.runtime.command_line import cli
from jobs.store.files import locations
from jobs.store.reading import open_table

pytestmark = [pytest.mark.usefixtures("in_process"), pytest.mark.timeout(240)]
STEPS = {"matched": 1331, "is_main_image": 1186, "one_image_a_page": 1064, "https": 948, "one_row_an_image": 904}
BROKEN = {
    "a-text.png": b"This is not a picture.",
    "empty.jpg": b"",
    "page.html": b"<html><body>404</body></html>",
}
A_MODE = 5  # pictures of each mode
QUESTIONS = 8  # of the rubric century_labels


def rows_of(uri: str, columns: list[str] | None = None) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pa.concat_tables(open_table(uri).batches(columns)).to_pylist()
    return rows


def objects(uri: str) -> dict[str, str]:
    """Return every object below `uri`, hidden ones included, and a hash of its bytes."""
    return {o.uri: hashlib.sha256(locations.read_bytes(o.uri)).hexdigest() for o in locations.listing(uri)}


def mined(corpus: str, terms: str, out: str) -> dict[str, Any]:
    manifest = cli.execute("mine", [f"corpus.path={corpus}", f"terms.path={terms}", f"out={out}"])
    assert isinstance(manifest, dict)
    return manifest


@pytest.fixture(scope="module")
def local_records(data: Path, in_process: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("century")
    mined(f"{data}/wit/*.tsv.gz", f"{data}/century/knowledge_graph_search_terms.csv", f"{out}/matches")
    cli.execute("curate", [f"input={out}/matches", f"out={out}/records"])
    return out


def test_each_step_gives_the_counts_of_a_plain_loop(data: Path, local_records: Path) -> None:
    expected = json.loads((data / "wit" / "expected.json").read_text(encoding="utf-8"))
    assert list(expected["steps"].values())[2:] == list(STEPS.values())

    mine = json.loads((local_records / "matches" / "_run" / "manifest.json").read_text())["counts"]
    assert mine["rows_in"] == expected["steps"]["0_all_rows"]
    assert mine["rows_in"] - mine["filtered"]["language"] == expected["steps"]["1_language_en"]
    assert mine["rows_out"] == STEPS["matched"]
    assert not mine["rejected"]

    left, steps = mine["rows_out"], {}
    curate = json.loads((local_records / "records" / "_run" / "manifest.json").read_text())["counts"]
    assert curate["rows_in"] == left
    for rule in list(STEPS)[1:]:
        left -= curate["filtered"][rule]
        steps[rule] = left
    assert steps == {rule: n for rule, n in STEPS.items() if rule != "matched"}

    records = rows_of(f"{local_records}/records", ["page_title", "image_url"])
    assert sorted([r["page_title"], r["image_url"]] for r in records) == sorted(expected["final"])


def test_the_terms_that_hit_are_kept(data: Path, local_records: Path) -> None:
    with (data / "century" / "knowledge_graph_search_terms.csv").open(encoding="utf-8", newline="") as file:
        _, *lines = csv.reader(file)
    terms = {line[0].strip().lower() for line in lines}
    for row in rows_of(f"{local_records}/matches", ["page_title", "terms"]):
        title = row["page_title"].lower()
        assert row["terms"] == sorted(term for term in terms if term in title)


def test_object_storage_gives_the_same_rows(data: Path, local_records: Path, s3: str) -> None:
    base = locations.join(s3, "real")
    for path in [*(data / "wit").glob("*.tsv.gz"), data / "century" / "knowledge_graph_search_terms.csv"]:
        locations.publish(path, locations.join(base, "in", path.name))
    mined(f"{base}/in/*.tsv.gz", f"{base}/in/knowledge_graph_search_terms.csv", f"{base}/matches")
    cli.execute("curate", [f"input={base}/matches", f"out={base}/records"])
    for table in ("matches", "records"):
        here, present = (
            sorted(rows_of(f"{place}/{table}"), key=lambda row: str(row["record_id"]))
            for place in (str(local_records), base)
        )
        assert here == present


@pytest.fixture(scope="module")
def pictures(data: Path, in_process: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some stamps of every mode and files that are no pictures, fetched and embedded: the folder of all that."""
    base = tmp_path_factory.mktemp("stamps")
    folder = base / "in"
    folder.mkdir()
    taken: Counter[tuple[str, str]] = Counter()
    for path in sorted((data / "stamps" / "images").iterdir()):
        with Image.open(path) as picture:
            kind = (picture.mode, "transparent" if "transparency" in picture.info else "")
        taken[kind] += 1
        if taken[kind] <= A_MODE:
            shutil.copyfile(path, folder / path.name)
    for name, content in BROKEN.items():
        (folder / name).write_bytes(content)
    whole = next(path for path in sorted(folder.glob("*.png")) if path.stat().st_size > 10_000).read_bytes()
    (folder / "truncated.png").write_bytes(whole[: len(whole) // 2])
    cli.execute("fetch", ["source=folder", f"source.path={folder}", f"out={base}/images", "unit_rows=10"])
    cli.execute("embed", [f"input={base}/images", "embedder=local-tiny", f"out={base}/embeddings"])
    return base


def names(base: Path) -> dict[str, str]:
    """File name by image_id."""
    rows = rows_of(f"{base}/images", ["image_id", "source_url"])
    return {row["image_id"]: Path(row["source_url"]).name for row in rows}


def test_no_picture_is_lost(pictures: Path) -> None:
    files = {path.name: path.read_bytes() for path in (pictures / "in").iterdir()}
    modes = set()
    by_name = {Path(row["source_url"]).name: row for row in rows_of(f"{pictures}/images")}
    assert set(by_name) == set(files)
    bad = {*BROKEN, "truncated.png"}
    for name, row in by_name.items():
        if name in bad:
            assert (row["status"], row["bytes"]) == ("error", None)
            assert row["error_kind"]
            assert row["error_message"]
        else:
            assert (row["status"], row["bytes"]) == ("ok", files[name])
            with Image.open(pictures / "in" / name) as picture:
                assert (row["width"], row["height"], row["format"]) == (*picture.size, picture.format)
                modes.add(picture.mode)
    assert modes >= {"RGBA", "LA", "P", "RGB"}
    for table in ("images", "embeddings"):
        assert cli.main("verify", [f"input={pictures}/{table}"]) == 0


def test_vectors_are_those_of_plain_open_clip(pictures: Path) -> None:
    import open_clip
    import torch

    from actors import local_models

    where = "local-dir:" + local_models.resolve("local:siglip-tiny")
    model, _, preprocess = open_clip.create_model_and_transforms(where)
    model.eval()
    files = names(pictures)
    rows = rows_of(f"{pictures}/embeddings")
    assert Counter(row["status"] for row in rows) == {"ok": len(files) - 4, "error": 4}
    for row in rows:
        if row["status"] != "ok":
            assert row["embedding"] is None
            assert files[row["item_id"]] in {*BROKEN, "truncated.png"}
            continue
        with Image.open(pictures / "in" / files[row["item_id"]]) as picture:
            coloured = picture.convert("RGBA")
        flat = Image.new("RGBA", coloured.size, "white")
        flat.alpha_composite(coloured)
        with torch.inference_mode():
            plain = model.encode_image(preprocess(flat.convert("RGB")).unsqueeze(0), normalize=True)[0].numpy()
        # float16 has 11 bits: half a unit in the last place of numbers below 1; the rest is the order of float32 sums,
        # and flattening that may differ by one of 255 levels in half-transparent pixels.
        assert np.abs(np.array(row["embedding"], np.float32) - plain).max() < 2**-10


@pytest.mark.torture  # tests/jobs/test_judge.py has two models, on generated pictures
def test_a_second_judge_leaves_the_first_ones_table_alone(pictures: Path, tmp_path: Path) -> None:
    few = tmp_path / "few"  # one picture of each mode is enough for a judge, and a file that is not a picture
    few.mkdir()
    seen = set()
    for path in sorted((pictures / "in").iterdir()):
        kind = "broken"
        if path.name not in {*BROKEN, "truncated.png"}:
            with Image.open(path) as picture:
                kind = picture.mode
        if kind not in seen:
            shutil.copyfile(path, few / path.name)
        seen.add(kind)
    cli.execute("fetch", ["source=folder", f"source.path={few}", f"out={tmp_path}/images", "unit_rows=3"])
    asked = [f"input={tmp_path}/images", "model=local-tiny"]
    cli.execute("judge", [*asked, "layout=fast", f"out={tmp_path}/ratings/first"])
    before = objects(f"{tmp_path}/ratings/first")
    cli.execute("judge", [*asked, "layout=paper", f"out={tmp_path}/ratings/second"])
    assert objects(f"{tmp_path}/ratings/first") == before

    first, second = (rows_of(f"{tmp_path}/ratings/{name}") for name in ("first", "second"))
    for rows, layout in ((first, "fast"), (second, "paper")):
        assert len(rows) == len(seen) * QUESTIONS
        assert Counter(row["status"] for row in rows) == {
            "ok": (len(seen) - 1) * QUESTIONS,
            "missing_input": QUESTIONS,
        }
        assert {row["order"] for row in rows} == {layout}
        for row in rows:
            if row["status"] == "ok":
                assert sum(row["probabilities"]) == pytest.approx(1)
                assert row["value"] == row["answers"][int(np.argmax(row["probabilities"]))]
            else:
                assert row["value"] is None
                assert row["score"] is None
    assert [row["probabilities"] for row in first] != [row["probabilities"] for row in second]
    for name in ("first", "second"):
        assert cli.main("verify", [f"input={tmp_path}/ratings/{name}"]) == 0

    report = [f"ratings=[{tmp_path}/ratings/*]", f"images={tmp_path}/images", f"out={tmp_path}/report"]
    cli.execute("report", report)
    assert objects(f"{tmp_path}/ratings/first") == before
    page = (tmp_path / "report" / "index.html").read_text(encoding="utf-8")
    text = re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]*>", " ", page)))
    pictures_named = f"{len(seen) - 1} pictures (of {len(seen)} requested)"
    assert f"{pictures_named} and {2 * len(first)} ratings by 1 rater." in text
    assert "local:qwen2.5-vl-tiny" in text
    assert "random weights" in text
    assert page.count("data:image/") >= len(seen) - 1
    metrics = pa.concat_tables(open_table(f"{tmp_path}/report/metrics", "metrics").batches())
    assert pc.all(pc.is_valid(metrics["n"])).as_py()
    assert metrics.num_rows > QUESTIONS
