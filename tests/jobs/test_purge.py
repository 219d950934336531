"""Pictures that must go leave every table of a run, and the rest stays as it was."""

import csv
import fnmatch
import gzip
import io
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from actors.ids import content_id
from jobs.annotation.reports import REPORTED
from jobs.corpora.wit import wit_base
from jobs.corpora.wit.wit_base import PLACES_FILE
from jobs.curation.config import NEAR_FILE
from jobs.page.choice_sheet import TEMPLATES
from jobs.purging import files, matching, rewriting, tables
from jobs.purging.needles import Needles
from jobs.runtime.command_line import cli
from jobs.runtime.selection.exclusions import marks_of
from jobs.store import lock
from jobs.store.files import locations
from jobs.store.reading import TableSource, open_table
from jobs.store.run import TablePlan, open_run
from jobs.store.units import Unit
from jobs.store.writer import REJECTS, Reject, UnitWriter
from jobs.tables import TABLES, table
from tests.factories import DIM, embedding_rows, picture, record, record_of, rows_of, write_records, write_units

PICTURES = [picture(number) for number in range(6)]
IDS = [row["image_id"] for row in PICTURES]
VECTORS = np.random.default_rng(1).normal(size=(len(IDS), DIM))
GONE, SHOWN_TOO = 1, 4  # the picture on the list, and one that an item shows next to it


def write(out: str, name: str, units: dict[str, list[dict[str, Any]]], parent: str | None = None, **keys: Any) -> str:
    """Write a table; its units are made from those of the table `parent` that have the same names."""
    sources = open_table(parent).by_unit() if parent else {}
    plan_units = [
        Unit(unit, (sources[unit],) if unit in sources else (), rows=len(rows)) for unit, rows in units.items()
    ]
    dim = DIM if name == "embeddings" else None
    identity = {"by": "hand", **({"exclusions": keys["listed"]} if "listed" in keys else {})}
    plan = TablePlan(out, name, identity, plan_units, {"exclusions": None}, {}, derived=True, dim=dim)
    run = open_run(plan, resume=True, overwrite=False, retry=[])
    for task in run.todo:
        rows = units[task.unit.name]
        with UnitWriter(run.target, task) as writer:
            rejects = keys.get("rejects", {}).get(task.unit.name, ())
            writer.counts.rows_in = len(rows) + len(rejects)
            for position, raw in enumerate(rejects):
                writer.reject(Reject("f", position, "malformed", "no row", raw))
            writer.write(pa.Table.from_pylist(rows, schema=table(name, dim=dim).schema()))
    run.finish()
    return out


def halves(rows: list[Any]) -> dict[str, list[Any]]:
    """Two units: the first has the rows of pictures 0 to 2."""
    return {"unit0": rows[: len(rows) // 2], "unit1": rows[len(rows) // 2 :]}


def item(item_id: str, images: list[str], texts: list[str], response: str | None = None) -> dict[str, Any]:
    return {"item_id": item_id, "kind": "image", "image_ids": images, "text_ids": texts, "response_id": response}


def rating(item_id: str, rater: str) -> dict[str, Any]:
    key = {"target": "", "rubric": "r", "question": "q", "condition": "", "method": "human", "order": "", "sample": 0}
    return {"item_id": item_id, "rater": rater, **key, "value": "1", "status": "ok"}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return Path(write_run(str(tmp_path / "R")))


def write_run(root: str) -> str:
    """Write a run with all kinds of tables about pictures, tasks and pages to `root`; return it."""
    urls = [row["source_url"] for row in PICTURES]
    records = write(
        f"{root}/records", "records", halves([record_of(row, f"t{n}") for n, row in enumerate(PICTURES)]),
        rejects={"unit0": [f"en\t{urls[GONE]}\tx", "en\tother"]},
    )  # fmt: skip
    images = write(f"{root}/images", "images", halves(PICTURES), records)
    vectors = embedding_rows(IDS, "image", VECTORS)
    write(f"{root}/embeddings", "embeddings", halves(vectors), images)
    near = [
        {"query_id": IDS[q], "rank": r, "item_id": IDS[(q + r) % 6], "score": 1.0} for q in range(6) for r in (1, 2)
    ]
    write(f"{root}/near", "neighbors", halves(near))
    write(f"{root}/links", "links", halves([
        {"image_id": i, "method": "lemma", "rank": 1, "node_id": "n", "lemma": "l", "score": 1.0} for i in IDS
    ]))  # fmt: skip
    items = [item(f"i{n}", [i], [f"text{n}", "shared"]) for n, i in enumerate(IDS)]
    items[SHOWN_TOO] = item(f"i{SHOWN_TOO}", [IDS[SHOWN_TOO], IDS[GONE]], [f"text{SHOWN_TOO}"])
    items[0]["attributes"] = [("entity_picture_1", urls[GONE]), ("entity_picture_2", urls[2]), ("node", "n")]
    write(f"{root}/set/items", "items", halves(items))
    write(f"{root}/report/metrics", "metrics", halves([
        {"metric": "unit_quality", "dims": json.dumps({"question": "q", "unit": unit}, separators=(",", ":"))}
        for unit in (*IDS[:3], *(f"i{n}" for n in range(6)), "")
    ]))  # fmt: skip
    names = [*(f"text{n}" for n in range(6)), "shared"]
    prompts = [{"text_id": name, "role": "prompt", "text": f"{name}: not {IDS[GONE]}"} for name in names]
    write(f"{root}/set/texts", "texts", halves(prompts))
    responses: list[dict[str, Any]] = [
        {"response_id": f"r{n}", "item_id": f"i{n}", "model": "m", "prompt": "p", "text": "t", "status": "ok"}
        for n in range(6)
    ]
    for row in responses:
        row |= {"condition": "", "sample": 0, "seed": 0}
    write(f"{root}/responses/m", "responses", halves(responses))
    write(f"{root}/judged/items", "items", halves([item(f"r{n}", [], [], f"r{n}") for n in range(6)]))
    write(f"{root}/ratings/m", "ratings", halves([rating(f"r{n}", "m") for n in range(6)]))
    write(f"{root}/ratings/people", "ratings", halves([rating(i, "p") for i in IDS]))
    tasks = f"{root}/tasks"
    write(f"{tasks}/assignments", "assignments", halves([
        {"rater": "p", "place": n, "item_id": i, "target": "", "file": "p"} for n, i in enumerate(IDS)
    ]))  # fmt: skip
    labelled = [{"data": {"item_id": i, "image_ids": [i], "image": url}} for i, url in zip(IDS, urls, strict=True)]
    put(f"{tasks}/label_studio/p.json", json.dumps(labelled))
    sheet = [f"{n},{i},=wording\r\n" for n, i in enumerate(IDS)]
    put(f"{tasks}/spreadsheet/p.csv", "".join(["\ufeffplace,item_id,wording\r\n", *sheet]))
    for i in IDS:
        put(f"{tasks}/pictures/{i}.jpg", "picture")
    put(f"{root}/choose/index.html", '<meta name="generator" content="remine"><img src=\'data:image/webp;base64,xx\'>')
    put(f"{root}/pages/index.html", f'<meta name="generator" content="remine"><a href="{urls[GONE]}">{IDS[GONE]}</a>')
    put(f"{root}/choose/mine.html", "<img src='data:image/webp;base64,xx'>")
    lines = [f"{i},{url}\r\n" for i, url in zip(IDS, urls, strict=True)]
    put(f"{root}/choose/choose.csv", "".join(["item_id,url\r\n", *lines]))
    put(f"{root}/ratings/people/_run/{REPORTED}", json.dumps(dict.fromkeys(IDS, 2)))
    groups = [{"stays": IDS[GONE], "near": {"a": 1}}, {"stays": IDS[0], "near": {IDS[GONE]: 2, IDS[2]: 3}}]
    groups.append({"stays": IDS[3], "near": {IDS[GONE]: 4}})
    put(f"{root}/records/_run/{NEAR_FILE}", "".join(f"{json.dumps(group)}\n" for group in groups))
    places = pa.table({"image_url": urls, "row": list(range(6))})
    put(f"{root}/images/_run/{PLACES_FILE}", wit_base.pack_places(places))
    stale = pa.Table.from_pylist([{"raw": f"en\t{urls[GONE]}\tx"}], schema=REJECTS)
    put(f"{root}/records/_rejects/unit1.0.parquet", wit_base.pack_places(stale))
    return root


def put(uri: str, content: str | bytes) -> None:
    locations.replace(uri, content if isinstance(content, bytes) else content.encode())


def text_of(uri: str) -> str:
    return locations.read_bytes(uri).decode()


def files_of(root: str, pattern: str = "*") -> dict[str, str]:
    """The files whose uris match a glob -> etags."""
    return {file.uri: file.etag for file in locations.listing(root) if fnmatch.fnmatch(file.uri, f"{root}/{pattern}")}


def listed(folder: Path, *entries: str) -> str:
    file = folder / "withdrawn.txt"
    file.write_text("".join(f"{entry}\n" for entry in entries))
    return f"exclusions={file}"


def ids_by_table(root: str | Path) -> dict[str, set[str]]:
    columns = {"records": "image_id", "images": "image_id", "embeddings": "item_id", "near": "query_id",
               "links": "image_id", "set/items": "item_id", "set/texts": "text_id", "responses/m": "response_id",
               "judged/items": "item_id", "ratings/m": "item_id", "ratings/people": "item_id",
               "tasks/assignments": "item_id"}  # fmt: skip
    return {name: {row[column] for row in rows_of(f"{root}/{name}")} for name, column in columns.items()}


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

    assert "stays as it is" not in planned
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
    put(f"{root}/images/_run/units.jsonl", f"2\n{json.dumps(matched)}\n{json.dumps(matched)}\n")
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
    monkeypatch.setattr(files, "LARGEST", 4000)
    put(f"{run}/large.csv", "a,b\n" * 1001)
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


def test_commands_go_on_with_the_longer_list_and_make_nothing_again(run: Path, tmp_path: Path) -> None:
    keys = [f"input={run}", listed(tmp_path, IDS[GONE])]
    assert cli.main("purge", keys) == 0
    digest = json.loads((run / "images" / "_run" / "identity.json").read_text())["exclusions"]
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


def test_what_was_made_from_a_unit_that_is_rewritten_twice_names_the_last_object(run: Path) -> None:
    """A purge that continues may have further pictures."""
    kept = ("hash", b"")
    for root, pictures in ((run / "records", IDS[1:2]), (run, IDS[:2])):
        sources = tables.open_tables_below(str(root))
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
    for entries, counted in (
        (typos, "2 of 2 entries match no picture"),
        ([*typos, IDS[GONE], PICTURES[0]["source_url"]], "2 of 4 entries match no picture"),
    ):
        for keys in (["plan=true"], []):
            assert cli.main("purge", [f"input={run}", listed(tmp_path, *entries), *keys]) == 0
            assert counted in capsys.readouterr().out


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
        assert f"{file}: names a picture and stays" in printed
    assert cli.main("verify", [f"input={run}", listed(tmp_path, IDS[GONE])]) == 1


def test_what_cannot_be_purged_is_refused(tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "R").mkdir()
    assert cli.main("purge", [f"input={tmp_path}/R", listed(tmp_path, content_id("x"))]) == 2
    assert "no table here or below" in capsys.readouterr().err
    assert cli.main("purge", [f"input={tmp_path}/R", f"exclusions={tmp_path}/nowhere.txt"]) == 2


def test_ids_of_items_and_responses_are_no_pictures(run: Path) -> None:
    """Texts lose mentions of pictures only."""
    sources = tables.open_tables_below(str(run))
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
    assert all(files.GENERATOR in path.read_bytes()[: files.HEAD] for path in templates)


def test_every_table_with_pictures_or_items_has_a_column_to_match() -> None:
    from jobs.purging.matching import columns_of

    without = {name for name, definition in TABLES.items() if not columns_of(list(definition.columns))}
    assert without <= {"terms", "nodes", "entities", "class_edges", "questions", "raters", "metrics"}


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
    withdrawn = listed(tmp_path, rows_of(f"{root}/images")[5]["image_id"])
    capsys.readouterr()
    assert cli.main("purge", [f"input={root}", withdrawn]) == 0
    printed = capsys.readouterr().out
    assert f"{root}/images/_run/inputs.jsonl: lists the source files of its units" in printed
    assert "remove it yourself" not in printed
    assert cli.main("verify", [f"input={root}", withdrawn]) == 0
    written = {path: path.stat().st_mtime_ns for path in root.glob("*/*.parquet")}
    for job, keys in (("fetch", fetch), ("embed", embed)):
        assert cli.main(job, keys) == 2  # without the list
        assert cli.main(job, [*keys, withdrawn]) == 0
        assert cli.main("verify", [f"input={keys[-1].removeprefix('out=')}"]) == 0
    assert {path: path.stat().st_mtime_ns for path in written} == written
    assert [len(rows_of(f"{root}/{name}")) for name in ("images", "embeddings")] == [11, 11]


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
def test_tables_of_pieces_continue_after_a_purge(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A purged unit has fewer rows, but its pieces keep their number and names, so that later tables keep theirs."""
    root = tmp_path / "R"
    names = [f"{number}.png" for number in range(10)]
    for name in names:
        put(f"{tmp_path}/pictures/{name}", "no picture")
    records = [record(name, image=name) for name in names]
    ids = [row["image_id"] for row in records]
    write_records(f"{root}/records", [records])
    items = [item(f"i{n}", [i], []) | {"attributes": [("prompt", str(n % 2))]} for n, i in enumerate(ids)]
    write(f"{root}/items", "items", {"unit": items})
    answers = [item_response(n, ids[n] if n < 10 else f"i{n}") for n in range(600)]
    write(f"{root}/responses", "responses", {"unit": answers})
    links = [{"image_id": i, "method": "m", "rank": 1, "node_id": "n", "lemma": "l", "score": 1.0} for i in ids]
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
    assert again == [{"pairs", "linked"}, set()]  # which are no ranges of rows
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
    pictures = [picture(number) for number in range(18)]
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
    root, pictures = tmp_path / "R", [picture(number) for number in range(40)]
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


def test_a_study_keeps_its_tasks_after_a_purge(tmp_path: Path) -> None:
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
    assert rows_of(f"{root}/tasks/assignments") == tasks
    assert cli.main("annotate", [*keys, "per_item=2"]) == 2  # without the list
    assert cli.main("annotate", [*keys, "per_item=1", withdrawn]) == 2  # another study
    assert cli.main("verify", [f"input={root}", withdrawn]) == 0


def item_response(number: int, item_id: str) -> dict[str, Any]:
    key = {"response_id": f"r{number}", "item_id": item_id, "model": "m", "prompt": "p", "condition": ""}
    return {**key, "sample": 0, "seed": 0, "text": "t", "status": "ok"}
