"""`pipeline=tric` from a split on object storage to the re-ranked captions, compared with loops over its tables."""

import json
from pathlib import Path

import numpy as np
import pytest

from actors.ids import content_id
from jobs.runtime.command_line import cli
from jobs.steps.tric_rerank import answer_uri
from jobs.store.files import locations
from tests import secrets_found
from tests.factories import copy_folder, rows_of, write_pictures

pytestmark = pytest.mark.long

CAPTIONS = {"1": "A DOG", "2": "A cat\\nsleeps", "3": "Bread, 5 cents", "4": "Shoes"}
PICTURES = {"red": ("1894-07-13", "1"), "green": ("1899-01-02", "3"), "blue": ("1921-08-19", "4")}
K = 3


def write_split(folder: Path, uri: str) -> None:
    """Write the split to `folder` and copy it to `uri`."""
    write_pictures(folder / "pictures", PICTURES, size=(40, 30))
    files = {
        "in": [f"{colour}.png\t{day}" for colour, (day, _) in PICTURES.items()],
        "captions": [f"{index}\t{text}" for index, text in CAPTIONS.items()],
        "expected": [right for _, right in PICTURES.values()],
    }
    for name, rows in files.items():
        (folder / f"{name}.tsv").write_text("\n".join(rows) + "\n")
    copy_folder(folder, uri)


def brute_force(out: str) -> list[list[str]]:
    """Return the captions of each picture by the stored vectors in float64."""
    vectors = {row["item_id"]: np.array(row["embedding"], np.float64) for row in rows_of(f"{out}/pictures/clip-b32")}
    texts = {row["text_id"]: row["source"] for row in rows_of(f"{out}/captions") if row["revision"] == "none"}
    captions = {
        texts[row["item_id"]]: np.array(row["embedding"], np.float64)
        for row in rows_of(f"{out}/caption_vectors/clip-b32")
        if row["item_id"] in texts
    }
    queries = [vectors[content_id(f"{colour}.png")] for colour in PICTURES]
    return [sorted(captions, key=lambda index: (-float(captions[index] @ query), index)) for query in queries]


def lines(uri: str) -> list[list[str]]:
    return [line.split("\t") for line in locations.read_bytes(uri).decode().splitlines()]


@pytest.fixture(scope="module")
def run_once(
    tmp_path_factory: pytest.TempPathFactory, s3: str, in_process: None, without_plots: None
) -> tuple[str, str]:
    """The pipeline's outputs on the object storage, and what it printed."""
    split, out = f"{s3}/tric-split", f"{s3}/tric"
    write_split(tmp_path_factory.mktemp("tric") / "split", split)
    keys = ["pipeline=tric", "profile=debug", f"out={out}", f"pipeline.inputs.split={split}"]
    keys += ["pipeline.inputs.encoders=[clip-b32]", "pipeline.inputs.reranked=clip-b32", f"pipeline.inputs.k={K}"]
    with secrets_found.planting() as printed:
        assert cli.main("run", keys) == 0, printed.getvalue()
    return out, printed.getvalue()


@pytest.fixture(scope="module")
def out(run_once: tuple[str, str]) -> str:
    """The pipeline's outputs on the object storage."""
    return run_once[0]


def test_no_secret_is_written_or_printed(run_once: tuple[str, str]) -> None:
    out, printed = run_once
    assert secrets_found.leaks([out], printed) == []
    assert "[1/" in printed  # something was printed


def mrr(orders: list[list[str]]) -> float:
    right = [answer for _, answer in PICTURES.values()]
    return float(np.mean([1 / (1 + order.index(a)) for order, a in zip(orders, right, strict=True)]))


def metrics(out: str) -> dict[tuple[str, str], float]:
    return {(row["metric"], row["dims"]): row["value"] for row in rows_of(f"{out}/reranked/metrics")}


def test_captions_are_ranked_as_by_a_loop_in_float64(out: str) -> None:
    before = brute_force(out)
    assert lines(f"{out}/ranked/clip-b32/out.tsv") == before
    assert metrics(out)["mrr@100", '{"ranking":"encoder"}'] == pytest.approx(mrr(before))


def test_the_judge_reranks_the_best_captions_under_each_wording_of_the_date(out: str) -> None:
    before, values = brute_force(out), metrics(out)
    caption = {index: text.replace("\\n", "\n") for index, text in CAPTIONS.items()}
    for dates in ("none", "day"):
        ratings = rows_of(f"{out}/ratings/{dates}")
        yes = {(row["item_id"], row["target"]): row["expected"] for row in ratings}
        ((rater, condition),) = {(row["rater"], row["condition"]) for row in ratings}
        assert (len(yes), condition) == (K * len(PICTURES), dates)
        after = [
            sorted(order[:K], key=lambda index: -yes[content_id(f"{colour}.png"), caption[index]]) + order[K:]
            for colour, order in zip(PICTURES, before, strict=True)
        ]
        assert lines(answer_uri(f"{out}/reranked", (rater, dates))) == after
        key = json.dumps({"first": "encoder", "rater": rater, "second": dates}, separators=(",", ":"))
        assert values["mrr_change@100", key] == pytest.approx(mrr(after) - mrr(before))


def test_the_report_has_the_papers_tables_of_this_split(out: str) -> None:
    names = {file.uri.rsplit("/", 1)[-1] for file in locations.listing(f"{out}/report/paper")}
    assert {"table_1.csv", "section_6.csv", "table_2.csv", "reranking.csv"} <= names
    assert b"tric-split" in locations.read_bytes(f"{out}/report/paper/table_1.csv")
    assert b"clip-b32" in locations.read_bytes(f"{out}/report/paper/table_2.csv")
