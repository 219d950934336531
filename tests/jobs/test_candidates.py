"""From a search to a choice: winners become records, their pictures are fetched from a server, a person sees them."""

import csv
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from actors.ids import content_id
from jobs.errors import InputError
from jobs.page import picture_sheets
from jobs.runtime.command_line import cli
from jobs.store.reading import open_table
from tests.factories import picture, rows_of, trials_below, write_table, write_units
from tests.https_server import HttpsServer
from tests.jobs.fetch_alone import fetch_alone
from tests.picture_site import Site

ROOT = Path(__file__).parents[2]
IDS = [content_id("uid", str(number)) for number in range(8)]  # uids of a corpus


@pytest.fixture
def server(tmp_path: Path) -> Iterator[HttpsServer]:
    with HttpsServer(tmp_path, Site()) as running:
        yield running


def write_corpus(folder: Path, rows: list[dict[str, Any]]) -> str:
    """Write the metadata of a corpus as two Parquet files of several row groups."""
    folder.mkdir()
    for number in (0, 1):
        pq.write_table(pa.Table.from_pylist(rows[number::2]), folder / f"{number}.parquet", row_group_size=2)
    return str(folder)


def world(folder: Path, url: Any) -> list[str]:
    """Write a search of two prompts and its corpus; return the keys of the job."""
    assert cli.main("prompts", [f"out={folder}/p", "axes.concept=[bread]", "axes.country=[Peru,Chad]"]) == 0
    prompts = [row["text_id"] for row in rows_of(f"{folder}/p")]
    # Ids 0 and 1 have one URL; 5 has none; 6 is not in the corpus; 7 is in no search.
    ranked = {prompts[0]: [0, 1, 2, 5], prompts[1]: [3, 1, 6, 4]}
    near = [
        {"query_id": query, "rank": rank, "item_id": IDS[number], "score": 1 / rank}
        for query, numbers in ranked.items()
        for rank, number in enumerate(numbers, 1)
    ]
    write_units(folder / "near", "neighbors", [near[:4], near[4:]])
    urls = {number: url(f"/{max(number, 1)}.jpg") for number in (0, 1, 2, 3, 4, 7)} | {5: None}
    corpus = [{"uid": IDS[number], "url": urls[number], "text": f"caption {number}"} for number in urls]
    return [f"neighbors={folder}/near", f"corpus.path={write_corpus(folder / 'corpus', corpus)}"]


def test_winners_are_fetched_and_shown(tmp_path: Path, server: HttpsServer, capsys) -> None:
    keys = world(tmp_path, server.url)
    out = tmp_path / "candidates"
    assert cli.main("candidates", [*keys, f"out={out}"]) == 0
    printed = capsys.readouterr().out
    assert "8 neighbors = 5 kept + 1 no_url + 1 not_in_corpus + 1 same_picture" in printed
    records = {row["record_id"]: row for row in rows_of(f"{out}/records")}
    urls = {IDS[number]: server.url(f"/{max(number, 1)}.jpg") for number in range(8)}
    assert {uid: row["image_url"] for uid, row in records.items()} in (
        {IDS[number]: urls[IDS[number]] for number in (first, 2, 3, 4)} for first in (0, 1)
    )  # each distinct picture once, under an id of the corpus that was found
    assert {row["caption_alt_text_description"] for row in records.values()} >= {"caption 2", "caption 3", "caption 4"}

    port, ca_file = server.port, str(server.ca_file)
    fetch_alone(f"{out}/records", f"{tmp_path}/images", port=port, ca_file=ca_file)
    assert {row["status"] for row in rows_of(f"{tmp_path}/images")} == {"ok"}
    tables = [f"neighbors={out}/neighbors", f"prompts={tmp_path}/p", f"images={tmp_path}/images"]
    assert cli.main("choose", [*tables, f"out={tmp_path}/choose"]) == 0
    with (tmp_path / "choose" / "choose.csv").open(encoding="utf-8-sig", newline="") as stream:
        rows = list(csv.DictReader(stream))
    shown = {(row["query_id"], int(row["rank"])): row["url"] for row in rows}
    searched = {(row["query_id"], row["rank"]): row["item_id"] for row in rows_of(f"{tmp_path}/near")}
    assert len(shown) == 5
    assert all(url == urls[searched[key]] for key, url in shown.items())  # query and rank lead back to the search
    page = (tmp_path / "choose" / "index.html").read_text(encoding="utf-8")
    assert page.count("data:image/") == 5


def test_a_killed_run_is_completed(tmp_path: Path) -> None:
    arguments = [*world(tmp_path, lambda path: f"https://pictures.example{path}"), f"out={tmp_path}/c"]
    # The driver kills itself when it has written the records, and not yet the neighbors.
    program = (
        "import os, signal, sys\nfrom jobs import candidates\nfrom jobs.runtime.command_line import cli\n"
        "write, calls = candidates.write_rows, []\n"
        "def dying(*arguments, **keys):\n    write(*arguments, **keys)\n    os.kill(os.getpid(), signal.SIGKILL)\n"
        "candidates.write_rows = dying\ncli.main('candidates', sys.argv[1:])\n"
    )
    killed = subprocess.run([sys.executable, "-c", program, *arguments], cwd=ROOT, check=False, capture_output=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert [path.name for path in (tmp_path / "c").iterdir()] == ["records"]
    assert cli.main("candidates", arguments) == 0
    assert cli.main("candidates", [*arguments[:-1], f"out={tmp_path}/calm"]) == 0
    for name in ("records", "neighbors"):
        assert rows_of(f"{tmp_path}/c/{name}") == rows_of(f"{tmp_path}/calm/{name}")
        assert cli.main("verify", [f"input={tmp_path}/c/{name}"]) == 0


def test_ranks_exclusions_and_what_is_refused(tmp_path: Path, capsys) -> None:
    keys = world(tmp_path, lambda path: f"https://pictures.example{path}")
    out = [f"out={tmp_path}/c"]
    assert cli.main("candidates", [*keys, *out, "k=1", "corpus.caption=null"]) == 0
    assert [row["rank"] for row in rows_of(f"{tmp_path}/c/neighbors")] == [1, 1]
    assert {row["caption_alt_text_description"] for row in rows_of(f"{tmp_path}/c/records")} == {None}
    (tmp_path / "no.txt").write_text(f"{IDS[0]}\nhttps://pictures.example/3.jpg\n")
    capsys.readouterr()
    assert cli.main("candidates", [*keys, *out, f"exclusions={tmp_path}/no.txt"]) == 0
    assert "2 excluded" in capsys.readouterr().out
    assert IDS[3] not in {row["record_id"] for row in rows_of(f"{tmp_path}/c/records")}

    pq.write_table(pa.table({"uid": [7], "url": ["u"], "text": ["t"]}), tmp_path / "numbers.parquet")
    write_corpus(tmp_path / "other", [{"uid": "x", "url": "u", "text": "t"}] * 2)
    for changed, message in (
        (["k=0"], "k=0: "),
        (["corpus.url=link"], "no column link"),
        ([f"corpus.path={tmp_path}/numbers.parquet"], "column uid is int64"),
        ([f"corpus.path={tmp_path}/other"], f"corpus.path={tmp_path}/other"),
        ([f"corpus.path={tmp_path}/no.txt"], "no .parquet file"),
    ):
        assert cli.main("candidates", [*keys, f"out={tmp_path}/never", *changed]) == 2
        assert message in capsys.readouterr().err
    assert not (tmp_path / "never").exists()


def test_the_sheet_reads_no_bytes_of_other_pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images = [picture(number) for number in range(6)]
    table = open_table(write_units(tmp_path / "images", "images", [images[:2], images[2:4], images[4:]]))
    groups_with_bytes = []
    read = pq.ParquetFile.read_row_group

    def spy(self: Any, group: int, columns: list[str]) -> pa.Table:
        if "bytes" in columns:
            groups_with_bytes.append(group)
        return read(self, group, columns=columns)

    monkeypatch.setattr(pq.ParquetFile, "read_row_group", spy)
    pictures = picture_sheets.read_pictures(table, {images[2]["image_id"]})
    assert list(pictures) == [images[2]["image_id"]]
    assert len(groups_with_bytes) == 1


def test_a_limit_takes_the_neighbours_of_the_first_queries(tmp_path: Path, capsys) -> None:
    keys = world(tmp_path, lambda path: f"https://pictures.example{path}")
    for out, more in (("whole", []), ("first", ["limit=1"])):
        assert cli.main("candidates", [*keys, f"out={tmp_path}/{out}", *more]) == 0
    assert "limit=1: the first 1 queries; the tables have no more" in capsys.readouterr().out
    first, whole = (rows_of(f"{tmp_path}/{out}/neighbors") for out in ("first", "whole"))
    (query,) = {row["query_id"] for row in first}
    assert query == rows_of(f"{tmp_path}/near")[0]["query_id"]
    assert first == [row for row in whole if row["query_id"] == query]
    pictures = {row["image_id"] for row in rows_of(f"{tmp_path}/first/records")}
    assert pictures == {row["item_id"] for row in first}
    assert trials_below(tmp_path) == {f"first/{name}": f"whole/{name}" for name in ("neighbors", "records")}
    assert cli.main("candidates", [*keys, f"out={tmp_path}/none", "limit=0"]) == 2


def test_candidates_that_the_corpus_lacks_are_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:

    corpus = pa.table({"uid": ["u1", "u2"], "url": ["https://x/1.jpg", "https://x/1.jpg"], "text": ["a", "b"]})
    pq.write_table(corpus, tmp_path / "c.parquet")

    def candidates(name: str, *items: str, **keys: Any) -> tuple[dict[str, Any], str]:
        near = [{"query_id": f"q{n}", "rank": 1, "item_id": item, "score": 0.5} for n, item in enumerate(items)]
        write_table(tmp_path / name, "neighbors", near)
        more = [f"{key}={value}" for key, value in keys.items()]
        place = [f"neighbors={tmp_path}/{name}", f"corpus.path={tmp_path}/c.parquet", f"out={tmp_path}/out-{name}"]
        return cli.execute("candidates", [*place, *more]), capsys.readouterr().out  # type: ignore[return-value]

    _, printed = candidates("some", "u1", "u2", "u3")
    assert "  3 neighbors = 2 kept + 1 not_in_corpus\n  1 distinct pictures\n" in printed
    assert "does not have all pictures of the search" in printed
    manifests, printed = candidates("all", "u1", limit=3)
    assert "  1 neighbors = 1 kept\n  1 distinct pictures\n  limit=3: the first 1 queries;" in printed
    assert "does not have all pictures" not in printed
    assert [manifest["limit"]["rows"] for manifest in manifests.values()] == [1, 1]
    manifests, printed = candidates("none")
    assert "  0 neighbors = 0 kept\n" in printed
    with pytest.raises(InputError, match=r"has none of the 1 pictures of .*such as u3; name the files"):
        candidates("other", "u3")
