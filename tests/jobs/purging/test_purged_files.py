"""Files next to tables: which a purge rewrites, removes, reports or cannot read, and that looking changes none."""

import gzip
import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from actors.ids import content_id
from jobs.errors import InputError
from jobs.purging import purged_files
from jobs.purging.matching import Gone
from jobs.purging.needles import Needles
from jobs.purging.purged_files import GENERATOR, ChangedFiles, other_files, pages_with_pictures, purge_files
from jobs.runtime.selection.exclusions import KEPT as LIST
from jobs.runtime.selection.exclusions import TALLY, marks_of
from jobs.store.files.objects import Object
from jobs.store.reading import open_table
from tests.factories import write_table

URL = "https://h.example/p.jpg"
GONE, KEPT = content_id(URL), content_id("https://h.example/kept.jpg")


def parquet(**columns: Any) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out, row_group_size=1)
    return out.getvalue()


def lines(*names: str) -> bytes:
    return "".join(json.dumps({"item_id": name}) + "\n" for name in names).encode()


CONTENT: dict[str, bytes] = {
    "study/prodigy/anna.jsonl": lines(GONE, KEPT),
    "study/prodigy/bo.jsonl": lines(KEPT),
    "study/prodigy/cut.jsonl": lines(KEPT, GONE)[:-2],
    "study/label_studio/cut.json": json.dumps([{"item_id": GONE}])[:-1].encode(),
    "study/label_studio/odd.json": json.dumps([{"item_id": KEPT}])[:-1].encode(),
    "study/label_studio/urls.json": json.dumps([{"image": URL}, {"image": "https://h.example/kept.jpg"}]).encode(),
    "study/label_studio/deep.json": b"[" * 100_000 + json.dumps(GONE).encode(),
    "study/label_studio/marked.json": json.dumps([GONE]).encode("utf-8-sig"),
    "study/spreadsheet/long.csv": f"item_id,text\n{KEPT},{'x' * 200_000}\n{GONE},y\n".encode(),
    "study/pictures/" + GONE + ".jpg": b"bytes",
    "study/pictures/" + KEPT + ".jpg": b"bytes",
    # Ids that users chose, which may be words of any text: 7 and "red car".
    "study/spreadsheet/ids.csv": b"place,item_id,text\n7,8,7 dogs\n8,7,x\n9,red car,x\n10,10,a red car\n",
    "study/prodigy/places.jsonl": json.dumps({"place": 7, "item_id": "8", "text": "a red car"}).encode(),
    "images/_rejects/lines.parquet": parquet(message=["line 7"], raw=["red car"]),
    "others/dogs.txt": b"7 dogs, a red car",
    "mine/prodigy/anna.jsonl": lines(GONE),  # without assignments, or a page, next to it
    "mine/choose.csv": f"item_id\n{GONE}\n".encode(),
    "study/mine/anna.jsonl": lines(GONE),
    f"study/mine/{GONE}.jpg": b"bytes",
    "images/_run/places.parquet": parquet(image_url=[URL, "https://h.example/kept.jpg"], row=[0, 1]),
    "images/_run/reported.json": json.dumps({GONE: 2, KEPT: 1, "7": 3}).encode(),
    "images/notes.txt": GONE.encode(),
    "images/_rejects/old.parquet": parquet(file=["f"], position=[1], reason=["r"], message=[f"no {GONE}"], raw=[""]),
    "images/_rejects/kept.parquet": parquet(file=["f", "f"], reason=["r", "r"], message=[KEPT, "m"], raw=[None, "x"]),
    "images/_rejects/second.parquet": parquet(file=["f", f"{GONE}.gz"], message=["m", "m"], raw=[None, "x"]),
    "images/_rejects/bytes.parquet": parquet(message=pa.array([b"\xff"]).view(pa.string())),
    "search/corpus.faiss": b"\0index",
    "search/ids.parquet": parquet(item_id=[KEPT, GONE]),
    "search/mine.parquet": parquet(item_id=[GONE]),
    "innocent search/corpus.faiss": b"\0index",
    "innocent search/ids.parquet": parquet(item_id=[KEPT, "a"]),
    "damaged search/corpus.faiss": b"\0index",
    "damaged search/ids.parquet": parquet(item_id=[GONE])[:-1],
    "foreign search/corpus.faiss": b"\0index",
    "foreign search/ids.parquet": parquet(image_id=[GONE]),
    "others/counts.json": json.dumps({TALLY: {GONE: 1}}).encode(),  # no run file of a table
    "others/reported.json": json.dumps({GONE: 2}).encode(),
    "others/ids.parquet": parquet(item_id=[GONE]),  # without an index next to it: not ours
    "others/mine.jsonl": lines(GONE),
    "others/notes.txt.gz": gzip.compress(f"see {URL}".encode()),
    "others/plain.txt": b"nothing",
    "others/page.txt": GENERATOR + GONE.encode(),
    "others/OLD.PARQUET": parquet(note=[f"see {URL}"]),
    "others/KEPT.JPG": b"\0picture",  # not read
    "others/binary.gz": gzip.compress(b"\0" + GONE.encode()),
    "others/cut.parquet": parquet(item_id=[GONE])[:-1],
    "others/page.parquet": b"PAR1" + b"\xff" * 20 + parquet(item_id=[GONE])[24:],
    "others/cut.gz": gzip.compress(GONE.encode())[:-9],
    "others/damaged.gz": gzip.compress(b"")[:10] + b"\xff" * 9,
    "others/binary.dat": b"\0" + GONE.encode(),
    f"others/{GONE}.png": b"bytes",
    "page/index.html": b"<head>" + GENERATOR + b"</head>" + GONE.encode(),
    "page/choose.csv": f"item_id,chosen\n{GONE},yes\n{KEPT},".encode() + b"\xe9\n",  # saved as Latin-1
    "page/mine.csv": f"item_id\n{GONE}\n".encode(),
    "page/rankings.csv": f"item_id\n{GONE}\n".encode(),
    "other page/index.html": GONE.encode(),
}
CHANGED: dict[str, list[str]] = {
    "rewritten": ["images/_run/places.parquet", "images/_run/reported.json", "page/choose.csv",
                  "page/rankings.csv", "study/label_studio/urls.json", "study/prodigy/anna.jsonl",
                  "study/spreadsheet/ids.csv", "study/spreadsheet/long.csv"],
    "removed": ["images/_rejects/old.parquet", "images/_rejects/second.parquet", "page/index.html",
                "search/corpus.faiss", "search/ids.parquet",
                f"study/pictures/{GONE}.jpg"],
    "left": ["foreign search/ids.parquet", "images/notes.txt", "mine/choose.csv", "mine/prodigy/anna.jsonl",
             "other page/index.html", "others/OLD.PARQUET", "others/counts.json", f"others/{GONE}.png",
             "others/ids.parquet", "others/mine.jsonl", "others/notes.txt.gz", "others/page.txt",
             "others/reported.json", "page/mine.csv", "search/mine.parquet",
             "study/label_studio/cut.json", "study/label_studio/deep.json", "study/label_studio/marked.json",
             "study/mine/anna.jsonl", f"study/mine/{GONE}.jpg", "study/prodigy/cut.jsonl"],
    "unchecked": ["damaged search/ids.parquet", "images/_rejects/bytes.parquet", "others/binary.dat",
                  "others/binary.gz", "others/cut.gz", "others/cut.parquet", "others/damaged.gz",
                  "others/page.parquet"],
}  # fmt: skip


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_table(tmp_path / "images", "images", [{"image_id": KEPT, "rendition": "w", "status": "ok"}])
    write_table(tmp_path / "study" / "assignments", "assignments", [])
    for name, data in CONTENT.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(data)
    return tmp_path


def purge(root: Path, *, act: bool) -> tuple[dict[str, list[str]], ChangedFiles]:
    """Return the names of the files of each kind."""
    tables = [open_table(str(root / name)) for name in ("images", "study/assignments")]
    others = other_files(str(root), tables)
    needles = Needles(Gone({*marks_of(GONE), *marks_of(URL), "7", "red car"}, {URL}, {GONE}))
    changed = purge_files(others.to_purge(), others, needles, act=act)
    kinds = {kind: sorted(uri.removeprefix(f"{root}/") for uri in getattr(changed, kind)) for kind in CHANGED}
    return kinds, changed


def contents(root: Path) -> dict[str, bytes]:
    return {name: (root / name).read_bytes() for name in CONTENT if (root / name).exists()}


def test_looking_changes_nothing(root: Path) -> None:
    kinds, changed = purge(root, act=False)
    assert kinds == CHANGED
    assert contents(root) == CONTENT
    expected = [*CHANGED["rewritten"], *CHANGED["removed"], *CHANGED["left"]]
    assert changed.found == sorted(f"{root}/{name}" for name in expected)


def test_a_purge_rewrites_and_removes_and_a_second_one_has_only_others_files_to_report(root: Path) -> None:
    kinds, _ = purge(root, act=True)
    assert kinds == CHANGED
    after = contents(root)
    assert set(CONTENT) - set(after) == set(CHANGED["removed"])
    assert {name for name in after if after[name] != CONTENT[name]} == set(CHANGED["rewritten"])
    assert after["study/prodigy/anna.jsonl"] == lines(KEPT)
    assert after["page/choose.csv"].split() == [b"item_id,chosen", f"{KEPT},".encode() + b"\xe9"]
    assert json.loads(after["images/_run/reported.json"]) == {KEPT: 1}
    assert after["study/spreadsheet/ids.csv"] == b"place,item_id,text\n7,8,7 dogs\n10,10,a red car\n"
    places = pq.read_table(io.BytesIO(after["images/_run/places.parquet"]))
    assert places.to_pylist() == [{"image_url": "https://h.example/kept.jpg", "row": 1}]
    assert purge(root, act=True)[0] == {**CHANGED, "rewritten": [], "removed": []}


def test_a_file_that_the_store_refuses_is_not_taken_for_a_damaged_one(root: Path) -> None:
    others, needles = other_files(str(root), [open_table(str(root / "images"))]), Needles(Gone({GONE}))
    for name in ("absent.parquet", "absent.txt"):
        with pytest.raises((InputError, FileNotFoundError), match=name):
            purge_files([Object(f"{root}/{name}", 9, "")], others, needles, act=False)


def test_a_file_is_read_up_to_the_largest_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(purged_files, "LARGEST", 64)
    for name in ("x.gz", "x.txt"):
        texts = {}
        for size in (0, 64, 65):
            data = b"x" * size
            data = gzip.compress(data) if name == "x.gz" else data
            (tmp_path / name).write_bytes(data)
            texts[size] = purged_files._text(Object(str(tmp_path / name), len(data), ""))
        assert texts == {0: "", 64: "x" * 64, 65: None}


def test_pages_have_the_head_of_ours(root: Path) -> None:
    tables = [open_table(str(root / "images"))]
    assert pages_with_pictures(other_files(str(root), tables)) == [f"{root}/page/index.html"]
    without = other_files(str(root), tables, without=[f"{root}/page/index.html"])
    assert pages_with_pictures(without) == []
    derived = {Path(file.uri).name for file in without.derived()}
    assert {"identity.json", "manifest.json"} <= derived
    assert not derived & {"places.parquet", "reported.json"}


def test_files_of_a_table_without_a_unit_are_those_of_a_table(root: Path) -> None:
    """Its list of exclusions names pictures, and its run files are derived."""
    begun = root / "begun" / "_run"
    begun.mkdir(parents=True)
    for name in ("identity.json", "inputs.jsonl", LIST, "lease.json"):
        (begun / name).write_text(GONE)
    others = other_files(str(root), [open_table(str(root / "images"))])
    inside = {Path(file.uri).name for file in others.files if "begun" in file.uri}
    assert inside & {"identity.json", "inputs.jsonl", LIST} == {"identity.json", "inputs.jsonl"}
    assert not any("begun" in file.uri for file in others.to_purge() if Path(file.uri).name != "lease.json")
    assert {"begun", "images"} <= {Path(uri).name for uri in others.tables}


def test_counts_of_matched_exclusions_in_run_files_name_no_picture(root: Path) -> None:
    matched = {"a": 1, "tallies": {TALLY: {GONE: 3}}}
    texts = {
        json.dumps(matched, indent=1): False,
        f"2\n{json.dumps(matched)}\n{json.dumps([[matched]])}\nno JSON\n": False,
        f"{json.dumps(matched)}\n{json.dumps({'a': [GONE]})}\n": True,
        json.dumps(matched | {"where": f"é{GONE}"}, indent=1): True,
        f"{json.dumps(matched)}\nno JSON, {GONE}\n": True,
    }
    for text, names_it in texts.items():
        (root / "images" / "_run" / "units.jsonl").write_text(text)
        others = other_files(str(root), [open_table(str(root / "images"), complete=False)])
        needles = Needles(Gone(set(marks_of(GONE)), set(), {GONE}))
        assert bool(purge_files(others.derived(), others, needles, act=False).found) == names_it


def test_the_first_names_are_sorted_and_the_others_counted() -> None:
    names = [f"f{number}" for number in reversed(range(10))]
    assert purged_files.first_names(names[-2:]) == "f0, f1"
    assert purged_files.first_names(names) == ", ".join(reversed(names))
    assert purged_files.first_names([*names, "z", *["y"] * 1999]) == f"{', '.join(reversed(names))} and 2,000 more"
