"""The job `items` with a user's file, through its command line."""

import csv
import json
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from actors.ids import content_id
from jobs.judging.items import open_sources, reading
from jobs.runtime.command_line import cli
from jobs.sources.picture_sources import requests_of_files
from jobs.store.files.locations import find, publish
from jobs.store.reading import open_table
from jobs.store.units import Unit
from jobs.store.writer import UnitTask
from tests.cases import check_cases
from tests.factories import picture, rows_of, write_table
from tests.https_server import HttpsServer
from tests.jobs.fetch_alone import fetch_alone
from tests.picture_site import Site

ROOT = Path(__file__).parents[2]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def write_csv(path: Path, rows: list[dict[str, Any]], *, delimiter: str = ",") -> str:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter=delimiter)
        writer.writeheader()
        writer.writerows(rows)
    return f"input={path}"


def make_pictures(folder: Path, names: list[str]) -> str:
    """Write files of these names; return the key that names their folder."""
    for name in names:
        path = folder / "photos" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"a picture")
    return f"pictures.path={folder / 'photos'}"


def run(folder: Path, *arguments: str) -> list[dict[str, Any]]:
    """Run the job and return the items."""
    assert cli.main("items", [*arguments, f"out={folder}/R"]) == 0
    return rows_of(f"{folder}/R/items")


def refused(folder: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """Run the job, which must refuse its input with one message and write nothing; return the message."""
    assert cli.main("items", [*arguments, f"out={folder}/R"]) == 2
    assert not (folder / "R").exists()
    message = capsys.readouterr().err
    assert len(re.findall(r"(?m)^error", message)) == 1
    return message


def rejects(table: str) -> list[tuple[int, str]]:
    """Return position and reason of the rejects of a table."""
    files = sorted(Path(table).glob("_rejects/*.parquet"))
    return [(row["position"], row["reason"]) for file in files for row in pq.read_table(file).to_pylist()]


def texts_of(folder: Path, item: dict[str, Any]) -> list[tuple[str, str]]:
    rows = {row["text_id"]: row for row in rows_of(f"{folder}/R/texts")}
    return [(rows[text_id]["role"], rows[text_id]["text"]) for text_id in item["text_ids"]]


def test_rome_pictures_with_prompt_document_and_scenario(folder: Path) -> None:
    names = [f"scenario_1/prompt_{prompt}/{number}.png" for prompt in (1, 2) for number in range(6)]
    rows = [
        {"file": name, "prompt": f"p{name.split('_')[2][0]}", "document": "A long\ntext, with commas", "scenario": "s1"}
        for name in names
    ]
    keys = [write_csv(folder / "rome.csv", rows), make_pictures(folder, names), "columns.pictures=file"]
    items = run(folder, *keys, "columns.texts={prompt: prompt, document: document}", "unit_rows=5")
    assert [item["image_ids"] for item in items] == [[content_id(name)] for name in names]
    assert [dict(item["attributes"]) for item in items] == [{"scenario": "s1"}] * 12
    assert texts_of(folder, items[6]) == [("prompt", "p2"), ("document", "A long\ntext, with commas")]
    tables = [open_table(f"{folder}/R/{name}") for name in ("items", "texts")]
    assert [footer.rows for footer in tables[0].footers] == [5, 5, 2]
    assert set(tables[0].by_unit()) == set(tables[1].by_unit())
    for name in ("items", "texts"):  # a text that several items share has a row for each
        assert cli.main("verify", [f"input={folder}/R/{name}"]) == 0
    assert not (folder / "R" / "records").exists()


def test_a_limit_reads_the_first_rows_of_the_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = ["a.jpg", "b.jpg", "c.jpg"]
    keys = [make_pictures(folder, names), write_csv(folder / "set.csv", [{"file": name} for name in names])]
    keys += ["columns.pictures=file", f"out={folder}/R"]
    assert cli.main("items", [*keys, "limit=2"]) == 0
    assert len(rows_of(f"{folder}/R/items")) == 2
    assert cli.main("items", keys) == 2
    assert "limit was 2, now not set" in capsys.readouterr().err


def test_paths_have_the_ids_that_fetch_gives(folder: Path) -> None:
    names = ["a.png", "sub/b c.png", "sub/ü.png"]
    arguments = ["./a.png", str(folder / "photos" / "sub" / "b c.png"), "sub//ü.png"]
    keys = [write_csv(folder / "f.csv", [{"file": name} for name in arguments]), make_pictures(folder, names)]
    items = run(folder, *keys, "columns.pictures=file")
    photos = str(folder / "photos")
    fetched = requests_of_files(UnitTask(Unit("u", tuple(find(photos)))), folder=photos)
    assert sorted(item["image_ids"][0] for item in items) == sorted(fetched["image_id"].to_pylist())


def test_caire_concepts_with_several_gold_labels(folder: Path) -> None:
    rows = [
        {"url": f"https://a.example/{n}.jpg", "concept": f"c{n}", "labels": "Ghana; Mali;Togo", "gold": "Ghana;Togo"}
        for n in range(68)
    ]
    key = write_csv(folder / "caire.tsv", rows, delimiter="\t")
    items = run(folder, key, "columns.pictures=url", "columns.targets=labels", "columns.gold=gold", "language=en")
    assert len(items) == 68
    assert items[3]["targets"] == ["Ghana", "Mali", "Togo"]
    assert items[3]["gold"] == ["Ghana", "Togo"]
    assert items[3]["attributes"] == [("concept", "c3")]
    assert items[3]["item_id"] == content_id("https://a.example/3.jpg")  # that of the picture as an image
    assert items[3]["kind"] == "image"


def test_docent_descriptions_become_an_item_each(folder: Path) -> None:
    row = {"picture": "a.png", "correct": "right", "m1": "one", "m2": "two", "m3": "two", "m4": "four", "artist": "x"}
    keys = [write_csv(folder / "d.csv", [row]), make_pictures(folder, ["a.png"]), "columns.pictures=picture"]
    texts = "columns.texts={correct: correct, generated: [m1, m2, m3, m4]}"
    items = run(folder, *keys, texts, "item_per=generated", "kind=description")
    assert [texts_of(folder, item) for item in items] == [
        [("correct", "right"), ("generated", text)] for text in ("one", "two", "two", "four")
    ]
    assert len({item["item_id"] for item in items}) == 4  # although two models wrote the same
    attributes = [dict(item["attributes"]) for item in items]
    assert [entry["text_column"] for entry in attributes] == ["m1", "m2", "m3", "m4"]
    assert len({entry["set"] for entry in attributes}) == 1
    assert {(entry["artist"], item["kind"]) for entry, item in zip(attributes, items, strict=True)} == {
        ("x", "description")
    }


def test_a_list_of_urls_becomes_items_and_records(folder: Path) -> None:
    urls = [f"https://a.example/{n}.jpg" for n in range(5)]
    (folder / "urls.txt").write_text("\ufeff" + "\r\n\r\n".join(urls) + "\nno url\n", encoding="utf-8")
    items = run(folder, f"input={folder}/urls.txt", "unit_rows=2", "on_error=reject")
    records = rows_of(f"{folder}/R/records")
    assert [item["image_ids"] for item in items] == [[content_id(url)] for url in urls]
    assert [(record["image_id"], record["image_url"]) for record in records] == [(content_id(u), u) for u in urls]
    assert {(record["page_title"], record["split"], *record["terms"], *record["methods"]) for record in records} == {
        (None, "")
    }
    assert rejects(f"{folder}/R/items") == [(10, "not_a_url")]
    tables = [open_table(f"{folder}/R/{name}") for name in ("items", "texts", "records")]
    assert set(tables[0].by_unit()) == set(tables[1].by_unit()) == set(tables[2].by_unit())


@pytest.mark.parametrize("repeated", [False, True])
def test_each_unit_finds_its_fetched_pictures(folder: Path, repeated: bool) -> None:
    site = Site()
    with HttpsServer(folder, site) as server:
        urls = [server.url(f"/{n % 3 if repeated else n}.jpg") for n in range(4)]
        rows = [{"url": url, "page_title": "T", "caption": f"c{n}"} for n, url in enumerate(urls)]
        key = write_csv(folder / "f.csv", rows)
        run(folder, key, "columns.pictures=url", "columns.texts.caption=caption", "unit_rows=2")
        records, images = f"{folder}/R/records", f"{folder}/R/images"
        fetch_alone(records, images, port=server.port, ca_file=str(server.ca_file))
    assert [(record["page_title"], record["image_url"]) for record in rows_of(records)] == [
        ("T", url) for url in dict.fromkeys(urls)
    ]
    fields = ["caption", "page_title"]
    sources = open_sources(
        f"{folder}/R/items", images=images, texts=f"{folder}/R/texts", records=None, fields=fields, pictures=True
    )
    read, asked = reading(sources, fields=fields, pictures=True), list[dict[str, Any]]()
    for unit in sources.units():
        pictures, texts = (source.uri for source in unit.inputs[1:])
        assert texts.endswith(f"{unit.name}.parquet")
        # Only if units share a picture is it searched in the whole table.
        assert pictures.endswith("/images" if repeated else f"{unit.name}.parquet")
        asked += read(UnitTask(unit)).to_pylist()
    assert [(row["status"], row["caption"], row["page_title"]) for row in asked] == [
        ("ok", f"c{n}", "T") for n in range(4)
    ]
    assert all(row["pictures"][0] for row in asked)


def test_json_lines_and_parquet_with_lists_and_numbers(folder: Path) -> None:
    rows = [{"image": ["u", "v"], "labels": ["a", "b"], "year": 1900, "ok": True, "n": None, "raw": b"x"}]
    ids = [content_id("u"), content_id("v")]
    images = write_table(folder / "images", "images", [picture(0) | {"image_id": i} for i in ids])
    pq.write_table(pa.Table.from_pylist([rows[0] | {"image": ids}]), folder / "f.parquet")
    (folder / "f.jsonl").write_text(
        json.dumps({k: v for k, v in rows[0].items() if k != "raw"} | {"image": ids}) + "\n[]\n"
    )
    keys = [f"images={images}", "columns.pictures=image", "columns.targets=labels"]
    (one,) = run(folder, f"input={folder}/f.parquet", *keys)
    (other,) = run(folder, f"input={folder}/f.jsonl", *keys, "overwrite=true", "on_error=reject")
    assert one == other
    assert (one["image_ids"], one["targets"], one["kind"]) == (ids, ["a", "b"], "pair")
    assert one["attributes"] == [("year", "1900"), ("ok", "true")]
    assert rejects(f"{folder}/R/items") == [(2, "not_json")]


def test_ids_of_the_file_are_kept_and_attributes_can_be_chosen(folder: Path) -> None:
    rows = [{"id": f"q{n}", "question": f"why {n}", "mail": "x@y", "topic": "t"} for n in range(2)]
    key = write_csv(folder / "f.csv", rows)
    keys = ["columns.id=id", "columns.texts.question=question", "columns.attributes=[topic,question]"]
    items = run(folder, key, *keys, "condition=two titles")
    assert [item["item_id"] for item in items] == ["q0", "q1"]
    assert dict(items[1]["attributes"]) == {"topic": "t", "question": "why 1"}
    assert open_table(f"{folder}/R/items").metadata["remine.condition"] == "two titles"


def test_a_column_that_json_lines_name_late_is_an_attribute(folder: Path) -> None:
    objects = [{"text": f"t{n}"} for n in range(1200)] + [{"text": "last", "late": "yes"}]
    (folder / "f.jsonl").write_text("\n".join(map(json.dumps, objects)))
    items = run(folder, f"input={folder}/f.jsonl", "columns.texts.text=text", "unit_rows=2000")
    assert items[-1]["attributes"] == [("late", "yes")]


def test_separators_are_configurable_and_null_keeps_a_cell(folder: Path) -> None:
    key = write_csv(folder / "f.csv", [{"text": "t", "labels": "Ghana, Mali", "gold": "Korea, Republic of"}])
    keys = ["columns.texts.text=text", "columns.targets=labels", "separators.targets=','", "separators.gold=null"]
    (item,) = run(folder, key, *keys)
    assert (item["targets"], item["attributes"]) == (["Ghana", "Mali"], [("gold", "Korea, Republic of")])
    (item,) = run(folder, key, *keys[:1], "columns.gold=gold", "separators.gold=null", "overwrite=true")
    assert (item["gold"], item["kind"]) == (["Korea, Republic of"], "description")


def test_items_on_s3(folder: Path, s3: str) -> None:
    make_pictures(folder, ["a.png", "sub/b.png"])
    for name in ("a.png", "sub/b.png"):
        publish(folder / "photos" / name, f"{s3}/items-test/photos/{name}")
    write_csv(folder / "f.csv", [{"file": "a.png"}, {"file": "sub/b.png"}])
    publish(folder / "f.csv", f"{s3}/items-test/f.csv")
    keys = [f"input={s3}/items-test/f.csv", f"pictures.path={s3}/items-test/photos", "columns.pictures=file"]
    assert cli.main("items", [*keys, f"out={s3}/items-test/R"]) == 0
    items = rows_of(f"{s3}/items-test/R/items")
    assert [item["image_ids"] for item in items] == [[content_id("a.png")], [content_id("sub/b.png")]]


def test_faulty_rows_are_rejects_with_their_lines(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "f.csv").write_text("id,file,x\n1,a.png,\n,a.png,\n3,,\n4,a.png\n5,a.png,y\n")
    keys = [f"input={folder}/f.csv", make_pictures(folder, ["a.png"]), "columns.id=id", "columns.pictures=file"]
    expected = [(3, "no_id"), (4, "no_picture"), (5, "wrong_width")]
    message = refused(folder, capsys, *keys)
    assert [int(line) for line in re.findall(r"(?m)^ +line (\d+): ", message)] == [line for line, _ in expected]
    items = run(folder, *keys, "on_error=reject")
    assert [item["item_id"] for item in items] == ["1", "5"]
    assert sorted(rejects(f"{folder}/R/items")) == expected
    with (folder / "R" / "rejects.csv").open(encoding="utf-8-sig", newline="") as file:
        assert [(int(row["line"]), row["reason"]) for row in csv.DictReader(file)] == expected
    assert "rejects.csv" in capsys.readouterr().out
    (folder / "f.csv").write_text("id,file,x\n1,a.png,\n")
    assert len(run(folder, *keys, "overwrite=true")) == 1
    assert not (folder / "R" / "rejects.csv").exists()


def test_excluded_pictures_are_left_out(folder: Path) -> None:
    (folder / "urls.txt").write_text("https://a.example/1.jpg\nhttps://a.example/2.jpg\n")
    (folder / "not.txt").write_text("http://a.example/2.jpg\n")
    items = run(folder, f"input={folder}/urls.txt", f"exclusions={folder}/not.txt")
    assert [item["image_ids"] for item in items] == [[content_id("https://a.example/1.jpg")]]
    assert [record["image_url"] for record in rows_of(f"{folder}/R/records")] == ["https://a.example/1.jpg"]
    assert open_table(f"{folder}/R/items").counts().filtered == {"excluded": 1}


def test_wrong_input_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cases: dict[str, tuple[dict[str, str], list[str], list[str]]] = {
        "nowhere": ({"file": "b.png"}, [], ["line 2", "column file: no picture 'b.png'", "folder photos"]),
        "other folder": ({"file": "x/a.png"}, [], ["line 2", "there is 'a.png'"]),
        "outside": ({"file": "../photos/a.png"}, [], ["line 2"]),
        "list of pictures": ({"file": "a.png|c.png"}, [], ["line 2", "separators.pictures='|'"]),
        "no column": ({}, ["columns.gold=answer"], ["answer", "columns.gold", "file, labels, gold"]),
        "gold": ({"gold": "Togo"}, [], ["line 2", "'Togo'", "Ghana, Mali", "separators.gold"]),
        "gold's list": ({"gold": "Ghana|Mali"}, [], ["line 2", "set separators.gold='|'"]),
        "list of targets": ({"labels": "Ghana,Mali", "gold": ""}, [], ["line 2", "separators.targets=','"]),
        "kind": ({}, ["kind=photo"], ["kind=photo", "image, pair"]),
        "role": ({}, ["item_per=generated"], ["item_per=generated"]),
        "two kinds of names": ({}, ["images=T"], ["pictures.path=", "images="]),
        "case": ({"file": "A.PNG"}, [], ["line 2", "there is 'a.png'"]),
        "empty separator": ({}, ["separators.gold=''"], ["separators.gold=", "null"]),
        "no name of a column": ({}, ["columns.gold={a: b}"], ["columns.gold="]),
        "a column named by a number": ({}, ["columns.gold=3"], ["no column 3"]),
        "condition": ({}, ["condition=' x'"], ["condition=", "100"]),
        "unit_rows": ({}, ["unit_rows=0"], ["unit_rows=0"]),
    }

    def check(cells: dict[str, str], arguments: list[str], parts: list[str]) -> None:
        row = {"file": "a.png", "labels": "Ghana;Mali", "gold": "Ghana"} | cells
        keys = [write_csv(folder / "f.csv", [row]), make_pictures(folder, ["a.png", "c.png"])]
        lists = ["columns.pictures=file", "columns.targets=labels", "columns.gold=gold"]
        message = refused(folder, capsys, *keys, *lists, *arguments)
        assert [part for part in parts if part not in message] == []

    check_cases(check, cases)


def test_names_in_another_unicode_form_are_found(folder: Path) -> None:
    composed, decomposed = "M\u00fcnchen.png", "Mu\u0308nchen.png"
    for on_disk, in_file in ((composed, decomposed), (decomposed, composed)):
        shutil.rmtree(folder / "photos", ignore_errors=True)
        keys = [write_csv(folder / "f.csv", [{"file": in_file}]), make_pictures(folder, [on_disk]), "overwrite=true"]
        (item,) = run(folder, *keys, "columns.pictures=file")
        assert item["image_ids"] == [content_id(on_disk)]


def test_rows_of_one_id_are_refused_with_both_lines(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"id": name, "text": f"t{name}"} for name in "abcb"]
    keys = [write_csv(folder / "f.csv", rows), "columns.id=id", "columns.texts.text=text", "unit_rows=1"]
    assert "line 5: has the same columns.id=id as line 3" in refused(folder, capsys, *keys)
    key = write_csv(folder / "g.csv", [{"text": "same", "n": n} for n in range(2)])
    message = refused(folder, capsys, key, "columns.texts.text=text")
    assert "line 3: has the same pictures and texts as line 2" in message
    assert "columns.id=" in message


def test_an_unknown_image_id_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    images = write_table(folder / "images", "images", [picture(0)])
    key = write_csv(folder / "f.csv", [{"image": picture(0)["image_id"]}, {"image": content_id("other")}])
    assert "line 3" in refused(folder, capsys, key, f"images={images}", "columns.pictures=image")


def test_unusable_files_are_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cases = [
        ("f.txt", "a\nb\n", "pictures.path=FOLDER"),
        ("f.csv", "a,b\n", "has no rows"),
        ("f.csv", "a,a\n1,2\n", "duplicate column a"),
        ("f.xlsx", "a", "save the sheet as CSV UTF-8"),
        ("f.jsonl", "1\n", "line 1"),
    ]

    def check(name: str, text: str, part: str) -> None:
        (folder / name).write_text(text)
        columns = [] if name.endswith(".txt") else ["columns.texts.text=a"]
        assert part in refused(folder, capsys, f"input={folder / name}", *columns)

    check_cases(check, cases)


def test_a_mode_is_required(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "input=, responses=, links=, topics=: exactly one" in refused(folder, capsys)
    assert "input=, links=: cannot be set together" in refused(folder, capsys, "input=f.csv", "links=L")


def test_keys_of_another_mode_are_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def check(key: str) -> None:
        assert re.match(f"error: {re.split('[.=]', key)[0]}[=:]", refused(folder, capsys, "input=f.csv", key))

    check_cases(check, ["context=gold", "input_items=T", "draw.n=3", "labels=[T]"])


def test_a_killed_run_is_completed_and_a_changed_file_refused(folder: Path) -> None:
    urls = [f"https://a.example/{n}.jpg" for n in range(10)]
    (folder / "urls.txt").write_text("\n".join(urls))
    arguments = [f"input={folder}/urls.txt", "unit_rows=1", f"out={folder}/R"]
    # The driver kills itself when it has written the records and texts of the fifth unit, and not yet its items.
    program = (
        "import os, signal, sys\nfrom jobs.items_from import items_output\nfrom jobs.runtime.command_line import cli\n"
        "fill, calls = items_output._fill, []\n"
        "def dying(*arguments):\n    calls.append(1)\n    fill(*arguments)\n"
        "    len(calls) == 15 and os.kill(os.getpid(), signal.SIGKILL)\n"
        "items_output._fill = dying\ncli.main('items', sys.argv[1:])\n"
    )
    killed = subprocess.run([sys.executable, "-c", program, *arguments], cwd=ROOT, check=False, capture_output=True)
    assert killed.returncode == -signal.SIGKILL
    done = {path: path.stat().st_mtime_ns for path in (folder / "R").glob("*/*.parquet")}
    assert [len(list((folder / "R" / name).glob("*.parquet"))) for name in ("records", "texts", "items")] == [5, 5, 4]
    assert cli.main("items", arguments) == 0
    assert {path: path.stat().st_mtime_ns for path in done} == done
    assert [item["image_ids"] for item in rows_of(f"{folder}/R/items")] == [[content_id(url)] for url in urls]
    assert len(rows_of(f"{folder}/R/records")) == 10
    (folder / "urls.txt").write_text("\n".join(reversed(urls)))
    assert cli.main("items", arguments) == 2
    assert cli.main("items", [*arguments, "overwrite=true"]) == 0


def test_a_plan_checks_the_file_and_writes_nothing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "urls.txt").write_text("https://a.example/1.jpg\n")
    assert cli.main("items", [f"input={folder}/urls.txt", f"out={folder}/R", "plan=true"]) == 0
    assert not (folder / "R").exists()
    assert "would write table records" in capsys.readouterr().out
