"""`purge` removes withdrawn pictures from every table of a run and changes nothing else."""

import csv
import gzip
import io
import json
import os
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from actors.ids import content_id
from jobs import (
    purge,
)
from jobs.annotation.imported_rows import REPORTED
from jobs.corpora.wit import wit_base
from jobs.corpora.wit.wit_base import PLACES_FILE
from jobs.curation.curation_rules import NEAR_FILE
from jobs.page.picture_sheets import TEMPLATES
from jobs.purging import matching, purged_files, rewriting, run_tables
from jobs.purging.needles import Needles
from jobs.runtime.command_line import cli
from jobs.runtime.selection.exclusions import KEPT, marks_of
from jobs.store.files import locations
from jobs.store.reading import TableSource, open_table
from jobs.store.runs import lock
from jobs.store.writer import REJECTS
from jobs.tables import TABLES
from tests.factories import embedding_rows, rows_of
from tests.jobs.purged_run import (
    GONE,
    IDS,
    PICTURES,
    SHOWN_TOO,
    VECTORS,
    files_of,
    halves,
    ids_by_table,
    item,
    listed,
    put,
    rating,
    text_of,
    write,
    write_run,
)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return Path(write_run(str(tmp_path / "R")))


@pytest.mark.parametrize("anywhere", ["local", pytest.param("s3", marks=pytest.mark.long)], indirect=True)
def test_a_picture_leaves_every_table_task_and_page(
    anywhere: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = write_run(anywhere)
    entry = PICTURES[GONE]["source_url"] if locations.is_s3(run) else IDS[GONE].upper()
    before, untouched = ids_by_table(run), files_of(run, "images/unit1.parquet")
    keys = [f"input={run}", listed(tmp_path, entry)]
    assert cli.main("verify", keys) == 1
    assert cli.main("purge", [*keys, "plan=true"]) == 0
    assert ids_by_table(run) == before
    planned = capsys.readouterr().out.split("files removed")[1]

    assert cli.main("purge", keys) == 0

    assert "was not changed" not in planned
    assert all(f"{run}/{page}/index.html" in planned for page in ("choose", "pages"))
    gone = {IDS[GONE], f"i{GONE}", f"i{SHOWN_TOO}", f"r{GONE}", f"r{SHOWN_TOO}", f"text{GONE}", f"text{SHOWN_TOO}"}
    assert ids_by_table(run) == {name: ids - gone for name, ids in before.items()}
    assert files_of(run, "images/unit1.parquet") == untouched  # has no such row
    assert not [row for row in rows_of(f"{run}/near") if IDS[GONE] in (row["query_id"], row["item_id"])]
    (attributes,) = [row["attributes"] for row in rows_of(f"{run}/set/items") if row["attributes"]]
    assert attributes == [("entity_picture_1", ""), ("entity_picture_2", PICTURES[2]["source_url"]), ("node", "n")]
    assert {row["text_id"]: row["text"] for row in rows_of(f"{run}/set/texts")}["shared"] == "shared: not "
    units = [json.loads(row["dims"])["unit"] for row in rows_of(f"{run}/report/metrics")]
    assert units == [IDS[0], IDS[2], "i0", "i2", "i3", "i5", ""]
    counts = open_table(f"{run}/records").counts()
    assert (counts.rows_in, counts.rows_out, counts.filtered, counts.rejected.total()) == (8, 5, {"purged": 2}, 1)
    stay = [i for i in IDS if i != IDS[GONE]]
    tasks = json.loads(text_of(f"{run}/tasks/label_studio/p.json"))
    assert [task["data"]["item_id"] for task in tasks] == stay
    sheet = list(csv.DictReader(io.StringIO(text_of(f"{run}/tasks/spreadsheet/p.csv"))))
    assert [row["item_id"] for row in sheet] == stay
    assert {uri.rsplit("/", 1)[1] for uri in files_of(run, "tasks/pictures/*")} == {f"{i}.jpg" for i in stay}
    assert IDS[GONE] not in text_of(f"{run}/choose/choose.csv")
    assert [uri.rsplit("/", 1)[1] for uri in files_of(run, "choose/*.html")] == ["mine.html"]  # no page of remine
    assert not files_of(run, "pages/*")
    assert not files_of(run, "_purge.json")
    assert json.loads(text_of(f"{run}/ratings/people/_run/{REPORTED}")) == dict.fromkeys(stay, 2)
    groups = text_of(f"{run}/records/_run/{NEAR_FILE}").splitlines()
    assert [json.loads(group) for group in groups] == [{"stays": IDS[0], "near": {IDS[2]: 3}}]
    places = pq.read_table(pa.BufferReader(locations.read_bytes(f"{run}/images/_run/{PLACES_FILE}")))
    assert places["row"].to_pylist() == [n for n in range(6) if n != GONE]
    assert not files_of(run, "records/_rejects/unit1*")
    assert cli.main("verify", keys) == 0
    for name in before:
        assert cli.main("verify", [f"input={run}/{name}"]) == 0
    stored = [locations.read_bytes(uri) for uri in files_of(run) if not uri.endswith("/exclusions.txt")]
    for secret in (IDS[GONE], PICTURES[GONE]["source_url"]):
        assert not [content for content in stored if secret.encode() in content]


def test_all_that_is_removed_is_counted_and_printed(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The plan counts what the purge then removes, rows and rejects."""
    for number in range(12):
        put(f"{run}/notes/{number:02}.txt", IDS[GONE])
    put(f"{run}/weights.bin", b"\x00")
    of_table = {"embeddings": 1, "images": 1, "judged/items": 2, "links": 1, "near": 4, "ratings/m": 2,
                "ratings/people": 1, "records": 2, "report/metrics": 3, "responses/m": 2, "set/items": 2,
                "set/texts": 2, "tasks/assignments": 1}  # fmt: skip
    one = ("embeddings", "images", "links", "ratings/people", "records", "tasks/assignments")
    removed = ["choose/index.html", "pages/index.html", "records/_rejects/unit1.0.parquet",
               f"tasks/pictures/{IDS[GONE]}.jpg"]  # fmt: skip
    rewritten = ["choose/choose.csv", f"images/_run/{PLACES_FILE}", f"ratings/people/_run/{REPORTED}",
                 f"records/_run/{NEAR_FILE}", "tasks/label_studio/p.json", "tasks/spreadsheet/p.csv"]  # fmt: skip
    notes = [f"notes/{number:02}.txt" for number in range(12)]

    def printed(verb: str, units: list[str]) -> list[str]:
        rows = [f"  {run}/{name}: {n} {'row' if n == 1 else 'rows'}" for name, n in of_table.items()]
        mentions = [f"  {run}/set/{name}: {verb} the picture's id or URL from texts or attributes of {n} other rows"
                    for name, n in (("items", 1), ("texts", 5))]  # fmt: skip
        changed = [f"  files {title}: {', '.join(f'{run}/{name}' for name in names)}"
                   for title, names in (("removed", removed), ("without their rows", rewritten))]  # fmt: skip
        left = [f"  {run}/{name}: {purge.REMEDY}" for name in notes[:10]] + ["  2 more files name a picture"]
        unread = f"  files {purged_files.not_checked([f'{run}/weights.bin'])}"
        listed = "  exclusions: 1 of 1 entries match a picture here"
        return [f"purge: {verb} 24 rows of 13 tables", *rows, *mentions, *changed, *left, unread, *units, listed]

    entries = listed(tmp_path, IDS[GONE]).removeprefix("exclusions=")
    rows = {f"{run}/{name}": n for name, n in of_table.items()}
    units = [f"  {run}/{name}: {'1 unit' if name in one else '2 units'} rewritten" for name in of_table]
    assert purge.execute(purge.PurgeConfig(str(run), entries, plan=True)) == {"rows": rows}
    assert capsys.readouterr().out.splitlines() == printed("would remove", [])
    result = purge.execute(purge.PurgeConfig(str(run), entries))
    assert capsys.readouterr().out.splitlines() == printed("removed", units)
    assert result == {"rows": rows, "files": sorted(f"{run}/{name}" for name in [*removed, *rewritten, *notes])}
    assert purge.execute(purge.PurgeConfig(str(run), entries))["rows"] == {}


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("images/_run/manifest.json", json.dumps({"counts": {"failures": {"error/x": {"where": IDS[GONE]}}}})),
        ("images/_run/notes.json", json.dumps([IDS[GONE]])),
        ("notes.gz", gzip.compress(IDS[GONE].encode(), mtime=0)),
        ("figure.svg", f"<svg><title>{IDS[GONE]}</title></svg>"),
        ("study.yaml", f"picture: {IDS[GONE]}"),
        ("without_a_suffix", IDS[GONE]),
        ("images/_rejects/unit0.7.parquet", [{"message": f"{IDS[GONE]}: cut off"}]),
    ],
)
def test_verify_reads_all_files_but_lists(tmp_path: Path, file: str, content: Any) -> None:
    root = tmp_path / "R"
    write(f"{root}/images", "images", halves(PICTURES[2:]))
    keys = [f"input={root}", listed(tmp_path, IDS[GONE])]
    matched = {"counts": {"tallies": {"exclusions": {IDS[GONE]: 3}}}}  # what the list itself matched
    put(f"{root}/images/_run/units.jsonl", f"2\n{json.dumps(matched)}\n{json.dumps({'retired': [matched]})}\n")
    put(f"{root}/images/_run/exclusions.txt", IDS[GONE])
    assert cli.main("verify", keys) == 0
    if isinstance(content, list):
        content = wit_base.pack_places(pa.Table.from_pylist(content, schema=REJECTS))
    put(f"{root}/{file}", content)
    assert cli.main("verify", keys) == 1


@pytest.mark.parametrize("name", ["text", "dims", "attributes", "copy"])
def test_verify_reads_all_columns_with_strings(tmp_path: Path, name: str) -> None:
    """Each column alone, in tables and in other Parquet files."""
    root = tmp_path / "R"
    write(f"{root}/images", "images", halves(PICTURES[2:]))
    shown = {**item("i0", [IDS[2]], []), "attributes": [("p", PICTURES[GONE]["source_url"])]}
    rows: dict[str, tuple[str, dict[str, Any]]] = {
        "text": ("texts", {"text_id": "t", "role": "prompt", "text": f"{IDS[GONE]}: cut off"}),
        "dims": ("metrics", {"metric": "m", "dims": json.dumps({"unit": IDS[GONE]}, separators=(",", ":"))}),
        "attributes": ("items", shown),
    }
    if name == "copy":
        pq.write_table(pa.table({"comment": [["x", f"not {IDS[GONE]}"]]}), root / "copy.parquet")
    else:
        write(f"{root}/{name}", rows[name][0], {"unit0": [rows[name][1]]})
    keys = [f"input={root}", listed(tmp_path, PICTURES[GONE]["source_url"])]
    assert cli.main("verify", keys) == 1
    assert cli.main("purge", keys) == 0
    assert cli.main("verify", keys) == (1 if name == "copy" else 0)


def test_what_was_not_read_is_reported(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(purged_files, "LARGEST", 40_000)
    put(f"{run}/large.csv", "a,b\n" * 10_001)
    put(f"{run}/bomb.gz", gzip.compress(bytes(100_000)))
    put(f"{run}/weights.bin", b"\x00\x01")
    keys = [f"input={run}", listed(tmp_path, IDS[GONE])]
    for command in (["purge", *keys, "plan=true"], ["purge", *keys], ["verify", *keys]):
        assert cli.main(command[0], command[1:]) == 0
        (line,) = [line for line in capsys.readouterr().out.splitlines() if "not checked" in line]
        assert [name for name in ("large.csv", "bomb.gz", "weights.bin", "p.csv") if name in line] == [
            "large.csv", "bomb.gz", "weights.bin"
        ]  # fmt: skip


def test_tables_are_locked_before_they_are_read(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that ends between the reading of its rows and the lock would bring pictures back."""
    locked: list[str] = []

    def acquire(uri: str) -> bool:
        locked.append(uri)
        return True

    monkeypatch.setattr(lock, "acquire", acquire)
    monkeypatch.setattr(lock, "release", locked.remove)
    gather = matching.gather

    def gathered(tables: Sequence[TableSource], marks: frozenset[str]) -> matching.Gone:
        assert sorted(locked) == sorted(table.uri for table in tables)
        return gather(tables, marks)

    monkeypatch.setattr(matching, "gather", gathered)
    assert cli.main("purge", [f"input={run}", listed(tmp_path, IDS[GONE])]) == 0
    assert not locked


def test_commands_continue_with_the_longer_list_and_rewrite_nothing(run: Path, tmp_path: Path) -> None:
    keys = [f"input={run}", listed(tmp_path, IDS[GONE])]
    assert cli.main("purge", keys) == 0
    digest = json.loads((run / "images" / "_run" / "identity.json").read_text())["exclusions"]
    assert (run / "images" / "_run" / KEPT).read_text().splitlines() == [IDS[GONE]]
    written = {path: path.stat().st_mtime_ns for path in run.glob("*/*.parquet")}
    write(f"{run}/images", "images", halves(PICTURES), f"{run}/records", listed=digest)
    vectors = embedding_rows(IDS, "image", VECTORS)
    write(f"{run}/embeddings", "embeddings", halves(vectors), f"{run}/images", listed=digest)
    assert {path: path.stat().st_mtime_ns for path in written} == written
    with pytest.raises(Exception, match="exclusions="):  # without the list a retry would bring the picture back
        write(f"{run}/images", "images", halves(PICTURES), f"{run}/records")
    assert cli.main("purge", keys) == 0  # again: nothing to do
    assert {path: path.stat().st_mtime_ns for path in written} == written


@pytest.mark.parametrize("anywhere", ["local", pytest.param("s3", marks=pytest.mark.torture)], indirect=True)
def test_an_interrupted_purge_is_completed_by_the_same_command(
    anywhere: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = write_run(anywhere)
    keys = [f"input={run}", listed(tmp_path, IDS[GONE])]
    calls, publish = Counter[str](), locations.publish

    def counted(source: Path, uri: str) -> None:
        calls["published"] += 1
        if calls["published"] == calls["stop"]:
            raise KeyboardInterrupt
        publish(source, uri)

    monkeypatch.setattr(locations, "publish", counted)
    calls["stop"] = 3
    while cli.main("purge", keys) == 130:  # each time it gets further before it is interrupted
        assert (f"{run}/_purge.json" in capsys.readouterr().err) == bool(files_of(run, "_purge.json"))
        calls["stop"] += 18 if locations.is_s3(run) else 7
        calls["published"] = 0
    assert calls["stop"] > 20
    assert cli.main("verify", keys) == 0
    for name, ids in ids_by_table(run).items():
        assert cli.main("verify", [f"input={run}/{name}"]) == 0
        assert not ids & {IDS[GONE], f"i{GONE}", f"r{GONE}", f"text{GONE}"}
    assert len(rows_of(f"{run}/images")) == 5
    digest = json.loads(text_of(f"{run}/embeddings/_run/identity.json"))["exclusions"]
    written = files_of(run, "*.parquet")
    vectors = embedding_rows(IDS, "image", VECTORS)
    write(f"{run}/embeddings", "embeddings", halves(vectors), f"{run}/images", listed=digest)
    assert files_of(run, "*.parquet") == written


def test_a_purge_that_was_interrupted_before_its_pages_removes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """When it continues, no row is left to remove; its journal has the entries that matched one."""
    root, remove = tmp_path / "R", locations.remove
    write(f"{root}/images", "images", halves(PICTURES))
    page = root / "choose" / "index.html"
    put(str(page), purged_files.GENERATOR.decode())
    keys = [f"input={root}", listed(root, IDS[GONE])]

    def interrupted(uris: list[str]) -> None:
        if str(page) in uris:
            raise KeyboardInterrupt
        remove(uris)

    with monkeypatch.context() as patched:
        patched.setattr(locations, "remove", interrupted)
        assert cli.main("purge", keys) == 130
    assert len(rows_of(f"{root}/images")) == len(IDS) - 1
    assert page.exists()
    capsys.readouterr()
    for more, verb, are_there in (("plan=true", "would remove", True), ("plan=false", "removed", False)):
        assert cli.main("purge", [*keys, more]) == 0
        printed = capsys.readouterr().out.splitlines()
        assert printed[:2] == [f"purge: {verb} 0 rows of 0 tables", f"  files removed: {page}"]
        assert "was not changed" not in str(printed)  # neither the journal nor the list, which name the picture
        assert [path.exists() for path in (page, root / "_purge.json")] == [are_there] * 2
    assert printed[-1] == "  exclusions: 1 of 1 entries match a picture here"


def test_an_entry_that_only_ratings_have_matches_a_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = tmp_path / "R"
    write(f"{root}/people", "ratings", {"unit0": [rating(name, "p") for name in IDS]})
    for more in ("plan=true", "plan=false"):
        assert cli.main("purge", [f"input={root}", listed(tmp_path, IDS[GONE], content_id("typo")), more]) == 0
        assert "exclusions: 1 of 2 entries match no picture here" in capsys.readouterr().out


def test_what_was_made_from_a_unit_that_is_rewritten_twice_names_the_last_object(run: Path) -> None:
    """A purge that continues may have further pictures."""
    kept = ("hash", b"")
    for root, pictures in ((run / "records", IDS[1:2]), (run, IDS[:2])):
        sources = run_tables.open_tables_below(str(root))
        needles = Needles(matching.gather(sources, frozenset(pictures)))
        rewriting.rewrite_tables(sources, needles, kept, purge="the same")
    objects = {footer.object for footer in open_table(f"{run}/records").footers}
    footers = open_table(f"{run}/images").footers
    assert {source for footer in footers for source in footer.unit.inputs} == objects
    assert sum(footer.rows for footer in footers) == len(IDS) - 2


def test_a_list_without_the_earlier_entries_is_refused(run: Path, tmp_path: Path, capsys: Any) -> None:
    assert cli.main("purge", [f"input={run}", listed(tmp_path, IDS[GONE])]) == 0
    assert cli.main("purge", [f"input={run}", listed(tmp_path, IDS[0])]) == 2
    assert "the list lacks pictures" in capsys.readouterr().err
    assert IDS[0] in ids_by_table(run)["images"]


def test_entries_without_a_picture_are_counted(run: Path, tmp_path: Path, capsys: Any) -> None:
    typos = [content_id("typo"), "https://pictures.example/typo.jpg"]
    (run / "earlier.txt").write_text("\n".join(typos))  # counts no picture
    pages = files_of(str(run), "*.html")
    for entries, counted in (
        (typos, "2 of 2 entries match no picture"),
        ([*typos, IDS[GONE], PICTURES[0]["source_url"]], "2 of 4 entries match no picture"),
    ):
        for keys in (["plan=true"], []):
            assert cli.main("purge", [f"input={run}", listed(tmp_path, *entries), *keys]) == 0
            printed = capsys.readouterr().out
            assert counted in printed
            assert (" other rows" in printed) == ("files removed" in printed) == (IDS[GONE] in entries)
        assert (files_of(str(run), "*.html") == pages) == (IDS[GONE] not in entries)


def test_files_of_others_are_reported_and_kept(run: Path, tmp_path: Path, capsys: Any) -> None:
    notes = run / "notes.txt"
    notes.write_text(f"look at {IDS[GONE]} again\n")
    (run / f"{IDS[GONE]}.jpg").write_bytes(b"mine")
    pq.write_table(pa.table({"image_id": IDS}), run / "release.parquet")
    # Names of files of remine, in places where no job writes them.
    named = [run / "mine" / name for name in ("choose.csv", "rankings.csv", REPORTED, NEAR_FILE, "label_studio/p.json")]
    for file in named:
        put(str(file), json.dumps([IDS[GONE], IDS[0]]))
    assert cli.main("purge", [f"input={run}", listed(tmp_path, IDS[GONE])]) == 0
    printed = capsys.readouterr().out
    assert {file.read_text() for file in named} == {json.dumps([IDS[GONE], IDS[0]])}
    for file in (notes, run / f"{IDS[GONE]}.jpg", run / "release.parquet", *named):
        assert file.exists()
        assert f"{file}: names a picture and was not changed" in printed
    assert cli.main("verify", [f"input={run}", listed(tmp_path, IDS[GONE])]) == 1


def test_what_cannot_be_purged_is_refused(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "R").mkdir()
    assert cli.main("purge", [f"input={tmp_path}/R", listed(tmp_path, content_id("x"))]) == 2
    assert "no table here or below" in capsys.readouterr().err
    assert cli.main("purge", [f"input={tmp_path}/R", f"exclusions={tmp_path}/nowhere.txt"]) == 2


def test_ids_of_items_and_responses_are_no_pictures(run: Path) -> None:
    """Texts lose mentions of pictures only."""
    sources = run_tables.open_tables_below(str(run))
    gone = matching.gather(sources, frozenset({IDS[GONE]}))
    shown = {f"i{GONE}", f"i{SHOWN_TOO}", f"r{GONE}", f"r{SHOWN_TOO}", f"text{GONE}", f"text{SHOWN_TOO}"}
    assert shown < gone.marks
    assert not shown & gone.pictures  # which also has the hashes of the spellings of the address
    assert gone.urls == {PICTURES[GONE]["source_url"]}
    assert gone.marks.intersection([*IDS, "shared"]) == {IDS[GONE]}
    by_address = matching.gather(sources, marks_of(PICTURES[GONE]["source_url"]))
    assert (by_address.pictures, by_address.urls) == (gone.pictures, gone.urls)


def test_pages_say_who_wrote_them() -> None:
    templates = [path for path in TEMPLATES.glob("*.html.j2") if "<head>" in path.read_text("utf-8")]
    assert len(templates) > 2
    assert all(purged_files.GENERATOR in path.read_bytes()[: purged_files.HEAD] for path in templates)


def test_every_table_with_pictures_or_items_has_a_column_to_match() -> None:
    from jobs.purging.matching import columns_of

    without = {name for name, definition in TABLES.items() if not columns_of(list(definition.columns))}
    assert without <= {"terms", "nodes", "entities", "class_edges", "questions", "raters", "metrics"}


def test_what_a_killed_process_left_is_removed(run: Path, tmp_path: Path) -> None:
    keys = [f"input={run}", listed(tmp_path, IDS[GONE])]
    names = ("images/_run/.inputs.jsonl.0.tmp", "images/.unit0.parquet.1.tmp", ".page.html.0.tmp")
    old, young = [run / name for name in names], run / ".other.html.0.tmp"
    for path in (*old, young):
        path.write_text(f'{{"a": "{IDS[GONE]}"}}')
    for path in old:
        os.utime(path, (time.time() - 7200,) * 2)
    assert cli.main("verify", keys) == 1
    assert cli.main("purge", keys) == 0
    assert [path for path in old if path.exists()] == []
    assert young.exists()  # perhaps of a process that writes a page; `verify` reads it
    assert not (run / "_purge.json").exists()
    assert cli.main("verify", keys) == 1
    young.unlink()
    assert cli.main("verify", keys) == 0


def test_damaged_files_that_were_set_aside_are_removed(run: Path, tmp_path: Path, capsys: Any) -> None:
    aside = run / "images" / "_run" / "damaged.unit9.parquet"
    aside.write_bytes(b"PAR1")
    keys = [f"input={run}", listed(tmp_path, IDS[GONE])]
    assert cli.main("verify", keys) == 1
    assert f"not checked, because they are not text, damaged or larger than 1 GiB: {aside}" in capsys.readouterr().err
    assert cli.main("purge", keys) == 0
    assert not aside.exists()


def test_a_file_of_a_job_that_cannot_be_read_keeps_the_journal(run: Path, tmp_path: Path, capsys: Any) -> None:
    sheet = next(path for path in sorted((run).rglob("*.csv")) if path.parent.name == "spreadsheet")
    whole = sheet.read_bytes()
    sheet.write_bytes(whole[:20] + bytes(len(whole) - 20))
    (run / "weights.bin").write_bytes(b"\0")  # of others: reported, and no reason to go on
    keys = [f"input={run}", listed(tmp_path, IDS[GONE])]
    for _ in range(2):
        assert cli.main("purge", keys) == 1
        printed = capsys.readouterr()
        assert f"not read, although a job wrote them: {sheet}; remove them" in printed.err
        assert (run / "_purge.json").exists()
    assert IDS[GONE] not in ids_by_table(run)["images"]
    sheet.write_bytes(whole)
    assert cli.main("purge", keys) == 0
    assert IDS[GONE] not in sheet.read_text()
    assert not (run / "_purge.json").exists()
    assert cli.main("verify", keys) == 0


def test_what_a_purge_did_is_printed_by_table_and_file(capsys: pytest.CaptureFixture[str]) -> None:
    changed = purged_files.ChangedFiles()
    changed.left += [f"R/page{n}.html" for n in range(purged_files.SHOWN + 1)]
    purge._show("removed", {"R/b": 1, "R/a": 1200}, {"R/c": 2}, changed)
    shown = capsys.readouterr().out.splitlines()
    assert shown[:4] == [
        "purge: removed 1,201 rows of 2 tables",
        "  R/a: 1,200 rows",
        "  R/b: 1 row",
        "  R/c: removed the picture's id or URL from texts or attributes of 2 other rows",
    ]
    assert [line.partition(": ")[0] for line in shown[4:6]] == ["  R/page0.html", "  R/page1.html"]
    assert "remove it yourself" in shown[4]
    assert shown[-1] == "  1 more files name a picture"
    assert len(shown) == 4 + purged_files.SHOWN + 1
    changed.left[:] = changed.left[: purged_files.SHOWN]
    purge._show("removed", {}, {}, changed)
    assert len(capsys.readouterr().out.splitlines()) == 1 + purged_files.SHOWN
