"""After a purge the same commands, given the list, continue and make nothing again; as far as they need no Ray."""

import io
from pathlib import Path

import pytest
from PIL import Image

from jobs.runtime.command_line import cli
from jobs.store.reading import open_table
from tests.factories import embedding_rows, picture, record, rows_of, write_records, write_units
from tests.jobs.purged_run import (
    GONE,
    IDS,
    PICTURES,
    VECTORS,
    files_of,
    halves,
    item,
    item_response,
    listed,
    put,
    write,
)


def png(number: int) -> bytes:
    """Return a picture of a colour; a run of pictures that cannot be read would fail."""
    file = io.BytesIO()
    Image.new("RGB", (32, 24), (number * 6, 90, 200)).save(file, "PNG")
    return file.getvalue()


@pytest.mark.usefixtures("in_process")
def test_real_jobs_continue_after_a_purge(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pictures").mkdir()
    for number in range(12):
        Image.new("RGB", (32, 24), (number * 20, 90, 200)).save(tmp_path / "pictures" / f"{number:02}.png")
    root = tmp_path / "R"
    fetch = ["source=folder", f"source.path={tmp_path}/pictures", "unit_rows=4", f"out={root}/images"]
    embed = [f"input={root}/images", "embedder=local-tiny", f"out={root}/embeddings"]
    for job, keys in (("fetch", fetch), ("embed", embed)):
        assert cli.main(job, keys) == 0
    ids = {row["source_url"].rpartition("/")[2]: row["image_id"] for row in rows_of(f"{root}/images")}
    withdrawn = listed(tmp_path, ids["05.png"], f"{tmp_path}/pictures/02.png")
    capsys.readouterr()
    assert cli.main("purge", [f"input={root}", withdrawn]) == 0
    assert "names a picture" not in capsys.readouterr().out
    assert cli.main("verify", [f"input={root}", withdrawn]) == 0
    written_files = [path.read_bytes() for path in root.rglob("*") if path.is_file() and path.name != "exclusions.txt"]
    assert not [data for data in written_files if b"05.png" in data or b"02.png" in data]
    written = {path: path.stat().st_mtime_ns for path in root.glob("*/*.parquet")}
    for job, keys in (("fetch", fetch), ("embed", embed)):
        assert cli.main(job, keys) == 2  # without the list
        assert cli.main(job, [*keys, withdrawn]) == 0
        assert cli.main("verify", [f"input={keys[-1].removeprefix('out=')}"]) == 0
    assert {path: path.stat().st_mtime_ns for path in written} == written
    assert [len(rows_of(f"{root}/{name}")) for name in ("images", "embeddings")] == [10, 10]

    # the pictures leave the folder too, in which those after them would now be in other units
    for name in ("02.png", "05.png"):
        (tmp_path / "pictures" / name).unlink()
    assert cli.main("fetch", [*fetch, withdrawn]) == 0
    assert {path: path.stat().st_mtime_ns for path in written} == written
    (tmp_path / "pictures" / "09.png").unlink()
    capsys.readouterr()
    assert cli.main("fetch", [*fetch, withdrawn]) == 2
    assert "the inputs changed since this run started" in capsys.readouterr().err


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize("done", [0, 1])
def test_an_interrupted_fetch_of_a_folder_continues_after_a_purge(tmp_path: Path, done: int) -> None:
    names = [f"{number:02}.png" for number in range(12)]
    for name in names:
        put(f"{tmp_path}/pictures/{name}", png(int(name.removesuffix(".png"))))
    root = tmp_path / "R"
    fetch = ["source=folder", f"source.path={tmp_path}/pictures", "unit_rows=4", f"out={root}/images"]
    assert cli.main("fetch", fetch) == 0
    for path in sorted((root / "images").glob("*.parquet"))[done:]:
        path.unlink()
    for name in ("manifest.json", "units.jsonl"):
        (root / "images" / "_run" / name).unlink()
    gone = [f"{tmp_path}/pictures/{name}" for name in (names[1], *names[4:8])]  # all of one unit
    withdrawn = listed(tmp_path, *gone)
    assert cli.main("purge", [f"input={root}", withdrawn]) == 0
    for name in gone:
        Path(name).unlink()
    assert cli.main("fetch", [*fetch, withdrawn]) == 0
    assert sorted(row["source_url"].rpartition("/")[2] for row in rows_of(f"{root}/images")) == sorted(
        name for name in names if f"{tmp_path}/pictures/{name}" not in gone
    )
    assert cli.main("verify", [f"input={root}", withdrawn]) == 0


@pytest.mark.parametrize("first", ["without", "with"])
def test_curation_continues_after_a_purge_and_what_follows_it_is_kept(tmp_path: Path, first: str) -> None:
    """Units of `curate` keep their names although records are gone, so that later steps redo what changed, no more."""
    root = tmp_path / "R"
    pictures = [picture(number) for number in range(24)]
    records = [record(row["source_url"], image=row["source_url"]) for row in pictures]
    write_records(f"{root}/records", [records[:14], records[14:]])
    early = listed(tmp_path, pictures[2]["source_url"]) if first == "with" else None
    curate = [f"input={root}/records", f"out={root}/curated", "unit_rows=4", "thumbnails=any"]
    assert cli.main("curate", [*curate, early] if early else curate) == 0
    before = {path: path.stat().st_mtime_ns for path in root.glob("curated/*.parquet")}
    withdrawn = listed(tmp_path, pictures[2]["source_url"], *(pictures[n]["source_url"] for n in (5, 6, 12)))
    assert cli.main("purge", [f"input={root}", withdrawn]) == 0
    assert cli.main("curate", [*curate, withdrawn]) == 0
    after = {path: path.stat().st_mtime_ns for path in root.glob("curated/*.parquet")}
    assert set(after) == set(before)
    unchanged = [path for path in before if after[path] == before[path]]
    assert len(unchanged) >= 3  # those of the other unit of records
    kept = {row["image_url"] for row in rows_of(f"{root}/curated")}
    assert kept == {row["source_url"] for n, row in enumerate(pictures) if n not in (2, 5, 6, 12)}
    assert cli.main("curate", [*curate, withdrawn]) == 0
    assert {path: path.stat().st_mtime_ns for path in after} == after
    assert cli.main("verify", [f"input={root}", withdrawn]) == 0


@pytest.mark.usefixtures("in_process")
@pytest.mark.long
def test_tables_of_pieces_continue_after_a_purge(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A purged unit has fewer rows, but its pieces keep their number and names, so that later tables keep theirs."""
    root = tmp_path / "R"
    names = [f"{number}.png" for number in range(10)]
    for name in names:
        put(f"{tmp_path}/pictures/{name}", png(int(name.removesuffix(".png"))))
    records = [record(name, image=name) for name in names]
    ids = [row["image_id"] for row in records]
    write_records(f"{root}/records", [records])
    items = [item(f"i{n}", [i], []) | {"attributes": [("prompt", str(n % 2))]} for n, i in enumerate(ids)]
    write(f"{root}/items", "items", {"unit": items})
    answers = [item_response(n, ids[n] if n < 10 else f"i{n}") for n in range(600)]
    write(f"{root}/responses", "responses", {"unit": answers})
    links = [{"image_id": i, "method": "m", "rank": 1, "node_id": "n", "lemma": "l", "score": 1.0} for i in ids]
    links = [link | {"rank": rank} for link in links for rank in (1, 2)]
    write(f"{root}/links", "links", {"unit": links})
    texts = [{"text_id": "t", "role": "article", "language": "en", "source": "n", "text": "text"}]
    write(f"{root}/kb/articles", "texts", {"unit": texts})
    write(f"{root}/kb/nodes", "nodes", {"unit": [{"node_id": "n", "article_text_ids": [("en", "t")]}]})
    commands = {
        "images": [
            "fetch",
            "source=folder",
            f"source.path={tmp_path}/pictures",
            f"input={root}/records",
            "unit_rows=3",
        ],
        "ratings": ["parse", f"input={root}/responses", "rubric=century_labels"],
        "pairs": ["pairs", f"input={root}/items", "unit_rows=6"],
        "judged": ["items", f"responses=[{root}/responses]", "unit_rows=199"],
        "linked": ["items", f"links={root}/links", f"kb.path={root}/kb", "unit_rows=3"],
    }
    for name, (job, *keys) in commands.items():
        assert cli.main(job, [*keys, f"out={root}/{name}"]) == 0, capsys.readouterr()
    tables = ("images", "ratings", "pairs/items", "pairs/texts", "judged/items", "linked/items", "linked/texts")
    units = {name: {path.name for path in (root / name).glob("*.parquet")} for name in tables}
    withdrawn = listed(tmp_path, *ids[4:7])
    assert cli.main("purge", [f"input={root}", withdrawn]) == 0
    again = [set[str](), set[str]()]
    for round_of in again:
        for name, (job, *keys) in commands.items():
            capsys.readouterr()
            assert cli.main(job, [*keys, f"out={root}/{name}", withdrawn]) == 0, capsys.readouterr()
            lines = [line for line in capsys.readouterr().out.splitlines() if " units, " in line]
            round_of |= {name for line in lines if "done before" not in line}
    assert again == [set(), set()]
    assert {name: {path.name for path in (root / name).glob("*.parquet")} for name in tables} == units
    assert {name: open_table(f"{root}/{name}").rows for name in tables if name != "pairs/texts"} == {
        "images": 7, "ratings": 597 * 8, "pairs/items": 2 * (3 + 6), "judged/items": 597,
        "linked/items": 7, "linked/texts": 7,
    }  # fmt: skip
    assert cli.main("verify", [f"input={root}", withdrawn]) == 0


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize("gone", [(7,), (1, 2, 3, 6, 7)])
def test_a_trial_is_filled_up_after_a_purge(tmp_path: Path, gone: tuple[int, ...]) -> None:
    """From the unit that it reads a part of, and from one that it did not read before."""
    root = tmp_path / "R"
    pictures = [picture(number) | {"bytes": png(number)} for number in range(18)]
    write(f"{root}/images", "images", {f"unit{n}": pictures[6 * n : 6 * n + 6] for n in range(3)})
    trial = ["embed", f"input={root}/images", "embedder=local-tiny", "limit=8", f"out={root}/trial"]
    assert cli.main(trial[0], trial[1:]) == 0
    withdrawn = listed(tmp_path, *(pictures[number]["image_id"] for number in gone))
    assert cli.main("purge", [f"input={root}", withdrawn]) == 0
    assert len(rows_of(f"{root}/trial")) == 8 - len(gone)
    assert cli.main(trial[0], [*trial[1:], withdrawn]) == 0
    left = [row["image_id"] for number, row in enumerate(pictures) if number not in gone]
    assert [row["item_id"] for row in rows_of(f"{root}/trial")] == left[:8]
    written = files_of(str(root), "*.parquet")
    assert cli.main(trial[0], [*trial[1:], withdrawn]) == 0
    assert files_of(str(root), "*.parquet") == written
    for keys in ([f"input={root}", withdrawn], [f"input={root}/trial"]):
        assert cli.main("verify", keys) == 0


@pytest.mark.usefixtures("in_process")
@pytest.mark.parametrize("left", [0, 3], ids=["no unit", "three units"])
def test_an_interrupted_run_continues_with_a_longer_list(tmp_path: Path, left: int) -> None:
    """Pieces of two purged units, of which some are not written yet."""
    root, pictures = tmp_path / "R", [picture(number) | {"bytes": png(number)} for number in range(40)]
    write(f"{root}/images", "images", halves(pictures))
    embed = [f"input={root}/images", "embedder=local-tiny", "resources.embed.actors=1", f"out={root}/vectors"]
    few = listed(tmp_path, pictures[9]["image_id"])
    assert cli.main("embed", [*embed, "resources.embed.actors=2", few]) == 0
    units = sorted((root / "vectors").glob("*.parquet"))
    expected = rows_of(f"{root}/vectors")
    assert len(units) > 5
    for path in (*units[left:], *(root / "vectors" / "_run" / name for name in ("manifest.json", "units.jsonl"))):
        path.unlink()
    gone = {pictures[number]["image_id"] for number in (1, 9, 18, 30)}
    more = listed(tmp_path, *gone)
    assert cli.main("embed", [*embed, more]) == 2
    assert cli.main("purge", [f"input={root}", more]) == 0
    assert cli.main("verify", [f"input={root}", more]) == 0
    written = files_of(str(root), "*.parquet")
    assert cli.main("embed", [*embed, more]) == 0
    after = files_of(str(root), "*.parquet")
    assert {uri: after[uri] for uri in written} == written
    assert {Path(uri).name for uri in after if "/vectors/" in uri} == {path.name for path in units}
    assert rows_of(f"{root}/vectors") == [row for row in expected if row["item_id"] not in gone]
    for keys in ([f"input={root}", more], [f"input={root}/vectors"]):
        assert cli.main("verify", keys) == 0


@pytest.mark.usefixtures("in_process")
def test_what_an_interrupted_search_needs_after_a_purge(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A purge refuses its incomplete table; the search refuses one that was elsewhere."""
    root = tmp_path / "R"
    vectors = embedding_rows(IDS, "image", VECTORS)
    write_units(f"{root}/vectors", "embeddings", [vectors[:3], vectors[3:]], encoder="e", preprocessing="p")
    withdrawn = listed(tmp_path, IDS[GONE])
    for out in (f"{root}/near", f"{tmp_path}/elsewhere"):
        search = [f"queries={root}/vectors", f"corpus.path={root}/vectors", "k=2", f"out={out}"]
        assert cli.main("retrieve", search) == 0
        for name in ("unit0.parquet", "_run/manifest.json", "_run/units.jsonl"):
            Path(out, name).unlink()
        assert cli.main("purge", [f"input={root}", withdrawn]) == (2 if out.startswith(str(root)) else 0)
        if out.startswith(str(root)):
            assert "1 of 2 units are not done; run the command that writes it again" in capsys.readouterr().err
            assert cli.main("retrieve", search) == 0
            continue
        assert cli.main("retrieve", [*search, withdrawn]) == 2
        assert "overwrite=true" in capsys.readouterr().err
        assert cli.main("retrieve", [*search, withdrawn, "overwrite=true"]) == 0
    assert IDS[GONE] not in str(rows_of(out))
    assert cli.main("verify", [f"input={root}", withdrawn]) == 0


def test_a_study_keeps_its_tasks_after_a_purge(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = tmp_path / "R"
    write(f"{root}/images", "images", halves(PICTURES))
    put(f"{tmp_path}/raters.csv", "rater\nann\nbo\ncy\n")
    keys = [f"input={root}/images", "rubric=century_labels", f"raters={tmp_path}/raters.csv", f"out={root}/tasks"]
    assert cli.main("annotate", [*keys, "per_item=2"]) == 0
    withdrawn = listed(tmp_path, IDS[GONE])
    assert cli.main("purge", [f"input={root}", withdrawn]) == 0
    tasks = rows_of(f"{root}/tasks/assignments")
    assert len(tasks) == 10
    assert cli.main("annotate", [*keys, "per_item=2", withdrawn]) == 0
    message = f"annotate: {root}/tasks/assignments: 10 rows remain after a purge; overwrite=true plans new tasks\n"
    assert message in capsys.readouterr().out
    assert rows_of(f"{root}/tasks/assignments") == tasks
    assert cli.main("annotate", [*keys, "per_item=2"]) == 2  # without the list
    assert cli.main("annotate", [*keys, "per_item=1", withdrawn]) == 2  # another study
    assert cli.main("verify", [f"input={root}", withdrawn]) == 0
