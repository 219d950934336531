"""wit_base gives the records that the same rows give as TSV, in both encodings, and its own pictures."""

import csv
import io
import random
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from actors.ids import content_id
from actors.titles import TitleMatcher
from jobs.corpora.corpus import MatchedRow, TitleSearch
from jobs.corpora.wit import reader, wit_base
from jobs.errors import InputError
from jobs.runtime.command_line import cli
from jobs.store.counts import Counts
from jobs.store.reading import open_table
from jobs.store.writer import Reject
from jobs.tables import WIT_COLUMNS

ENCODINGS = ("list of structs", "struct of lists", "other names")
BOOLS = ("is_main_image", "attribution_passes_lang_id", "page_changed_recently")
ENTRY = pa.struct([
    *(pa.field(n, pa.bool_() if n in BOOLS else pa.string()) for n in wit_base.OF_ENTRY),
    pa.field("caption_title_and_reference_description", pa.string()),
])  # fmt: skip


def jpeg(number: int) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (30, 20), (number % 256, 7, 9)).save(out, "JPEG")
    return out.getvalue()


def pictures(count: int = 60) -> list[dict[str, Any]]:
    """Return rows of wit_base: pictures with none to four entries, some of them nulls."""
    rng = random.Random(5)
    created = []
    for number in range(count):
        entries = []
        for _ in range(rng.choice((0, 1, 1, 2, 4))):
            title = rng.choice(("Siege of Acre", "the SIEGE OF ACRE\0x", "Nothing", "Straße", 'say "war"\tand\nmore'))
            entry: dict[str, Any] = {n: f"{n} {rng.random()}" if rng.random() < 0.8 else None for n in ENTRY.names}
            entry |= {name: rng.choice((True, False, None)) for name in BOOLS}
            entries.append(entry | {"language": rng.choice(("en", "en", "de", None)), "page_title": title})
        created.append({
            "image": {"bytes": jpeg(number), "path": None},
            "image_url": f"https://i/{number}.jpg",
            "embedding": [0.5] * 4,
            "metadata_url": "m",
            "original_height": 20,
            "original_width": None if number % 7 == 0 else 30,
            "mime_type": "image/jpeg",
            "caption_attribution_description": f"é {number}",
            "wit_features": entries,
        })  # fmt: skip
    return created


def write(path: Path, rows: list[dict[str, Any]], encoding: str = ENCODINGS[0], *, group: int = 7) -> Path:
    columns: dict[str, Any] = {name: [row[name] for row in rows] for name in rows[0] if name != "wit_features"}
    features = [row["wit_features"] for row in rows]
    if encoding == "struct of lists":
        kind: pa.DataType = pa.struct([pa.field(f.name, pa.list_(f.type)) for f in ENTRY])
        listed = [{n: [e[n] for e in entries] for n in ENTRY.names} for entries in features]
        array = pa.array(listed, kind)
    else:
        inner = "array" if encoding == "other names" else "element"
        large = pa.large_list if encoding == "other names" else pa.list_
        if encoding == "other names":
            columns["image_url"] = pa.array(columns["image_url"]).dictionary_encode()
        array = pa.array(features, large(pa.field(inner, ENTRY)))
    table = pa.table({**columns, "wit_features": array})
    pq.write_table(table, path, row_group_size=group, use_compliant_nested_type=False)
    return path


def write_tsv(path: Path, rows: list[dict[str, Any]]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter="\t", lineterminator="\n")
        writer.writerow(WIT_COLUMNS)
        for row in rows:
            for entry in row["wit_features"]:
                both = {**row, **entry}
                writer.writerow([wit_base._text(both[name]) for name in WIT_COLUMNS])
    return path


def scan(path: Path, language: str | None = "en") -> tuple[list[MatchedRow], Counts, list[Reject]]:
    counts, rejects = Counts(), list[Reject]()

    def refuse(reject: Reject) -> None:
        counts.rejected[reject.reason] += 1
        rejects.append(reject)

    corpus: Any = wit_base if path.suffix == ".parquet" else reader
    matcher = TitleMatcher(["siege of acre", "war", "acre"])
    hits = list(corpus.scan_file(str(path), TitleSearch(language, matcher, counts, refuse)))
    counts.rows_out = len(hits)
    assert counts.balances()
    return hits, counts, rejects


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("language", ["en", None])
@pytest.mark.parametrize("at_a_time", [3, 512])
def test_the_same_records_as_from_tsv(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encoding: str, language: str | None, at_a_time: int
) -> None:
    monkeypatch.setattr(wit_base, "ROWS_AT_A_TIME", at_a_time)
    rows = pictures()
    actual = scan(write(tmp_path / "train-00000-of-00001.parquet", rows, encoding), language)
    assert actual == scan(write_tsv(tmp_path / "f.tsv", rows), language)
    assert len(actual[0]) > 10
    assert any(hit.fields["original_width"] == "" for hit in actual[0])


def test_progress_is_the_share_of_the_file_and_the_entries_of_each_row_group(tmp_path: Path) -> None:
    rows = pictures(50)
    path = write(tmp_path / "a.parquet", rows, group=20)
    size, counts = path.stat().st_size, Counts()
    reported, rejects = list[tuple[int, int]](), list[Reject]()
    hits = wit_base.scan_file(
        str(path),
        TitleSearch(
            language=None,
            matcher=TitleMatcher(["acre"]),
            counts=counts,
            reject=rejects.append,
            progress=lambda read, entries: reported.append((read, entries)),
        ),
    )
    assert list(hits)
    assert rejects == []
    entries = [sum(len(row["wit_features"]) for row in rows[first : first + 20]) for first in (0, 20, 40)]
    ends = [size * 2 // 5, size * 4 // 5, size]
    assert reported == list(zip(np.diff([0, *ends]).tolist(), entries, strict=True))


def test_pictures_and_embeddings_are_never_read(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", pictures(), group=100)
    data = bytearray(path.read_bytes())
    meta = pq.read_metadata(path).row_group(0)
    for number in range(meta.num_columns):
        chunk = meta.column(number)
        if chunk.path_in_schema.split(".")[0] in ("image", "embedding", "metadata_url"):
            start = chunk.dictionary_page_offset or chunk.data_page_offset
            data[start : start + chunk.total_compressed_size] = bytes(chunk.total_compressed_size)
    (tmp_path / "b.parquet").write_bytes(data)
    assert scan(tmp_path / "b.parquet") == scan(path)


@pytest.mark.parametrize(("column", "message"), [("language", "row group 1 cannot"), ("page_url", "a matching row")])
def test_a_damaged_row_group_is_rejected_and_the_others_kept(tmp_path: Path, column: str, message: str) -> None:
    path = write(tmp_path / "a.parquet", pictures(), group=20)
    whole, counts, _ = scan(path)
    data = bytearray(path.read_bytes())
    meta = pq.read_metadata(path).row_group(1)
    for number in range(meta.num_columns):
        chunk = meta.column(number)
        if chunk.path_in_schema.split(".")[0] == "wit_features" and chunk.path_in_schema.endswith(column):
            start = chunk.dictionary_page_offset or chunk.data_page_offset
            data[start : start + chunk.total_compressed_size] = b"\xff" * chunk.total_compressed_size
    (tmp_path / "b.parquet").write_bytes(data)
    hits, left, rejects = scan(tmp_path / "b.parquet")
    assert 0 < len(hits) < len(whole)
    assert [hit for hit in whole if hit in hits] == hits
    assert {reject.reason for reject in rejects} == {"corrupt"}
    assert all(message in reject.message and 20 <= reject.position < 40 for reject in rejects)
    if column == "page_url":
        assert left.rows_in == counts.rows_in
        assert len(hits) + len(rejects) == len(whole)


@pytest.mark.parametrize("column", ["language", "original_height"])
def test_a_row_group_is_not_rejected_after_a_lost_connection(
    tmp_path: Path, column: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "a.parquet", pictures(), group=20)
    group = pq.read_metadata(path).row_group(1)
    chunk = next(c for n in range(group.num_columns) if (c := group.column(n)).path_in_schema.endswith(column))
    begin, end = chunk.dictionary_page_offset, chunk.dictionary_page_offset + chunk.total_compressed_size

    class Connection(io.FileIO):
        is_lost = False

        def read(self, size: int | None = -1, /) -> bytes:
            if self.is_lost and self.tell() < end and self.tell() + (size or 0) > begin:
                raise OSError("connection reset")
            return super().read(size)

    @contextmanager
    def opened(uri: str) -> Iterator[tuple[pq.ParquetFile, pa.NativeFile]]:
        connection = Connection(uri)
        with pa.PythonFile(connection, mode="r") as stream, pq.ParquetFile(stream) as file:
            connection.is_lost = True  # the footer was read
            yield file, stream

    monkeypatch.setattr(wit_base, "_opened", opened)
    with pytest.raises(OSError, match="connection reset"):
        scan(path)


def test_lists_that_do_not_belong_together_are_rejected(tmp_path: Path) -> None:
    kind = pa.struct([pa.field(name, pa.list_(pa.string())) for name in wit_base.NEEDED_OF_ENTRY])
    features = pa.array(
        [{"language": ["en"], "page_url": [], "page_title": ["Acre", "Acre"], "is_main_image": []}], kind
    )
    pq.write_table(pa.table({"image_url": ["https://i"], "wit_features": features}), tmp_path / "a.parquet")
    hits, counts, (reject,) = scan(tmp_path / "a.parquet")
    assert (hits, counts.rows_in) == ([], 1)
    assert "differ in length" in reject.message


def test_a_list_that_is_too_short_lacks_the_value(tmp_path: Path) -> None:
    kind = pa.struct([pa.field(name, pa.list_(pa.string())) for name in wit_base.NEEDED_OF_ENTRY])
    features = {"language": ["en", "en"], "page_url": ["p"], "page_title": ["x", "Acre"], "is_main_image": None}
    table = pa.table({"image_url": ["https://i"], "wit_features": pa.array([features], kind)})
    pq.write_table(table, tmp_path / "a.parquet")
    ((hit,), counts, rejects) = scan(tmp_path / "a.parquet")
    assert (hit.fields["page_title"], hit.fields["page_url"], hit.fields["mime_type"]) == ("Acre", "", None)
    assert (counts.rows_in, rejects) == (2, [])


@pytest.mark.parametrize("place", ["page_title", "page_url"])
def test_text_that_is_not_utf8_is_rejected(tmp_path: Path, place: str) -> None:
    entry = dict.fromkeys(wit_base.NEEDED_OF_ENTRY, b"en") | {"page_title": b"Acre"} | {place: b"Acre \xff"}
    plain = pa.array([[entry]], pa.list_(pa.struct([pa.field(name, pa.binary()) for name in entry])))
    kind = pa.list_(pa.struct([pa.field(name, pa.string()) for name in entry]))
    table = pa.table({"image_url": ["https://i"], "wit_features": plain.view(kind)})
    pq.write_table(table, tmp_path / "a.parquet")
    hits, counts, (reject,) = scan(tmp_path / "a.parquet")
    assert (hits, counts.rows_in, reject.reason) == ([], 1, "corrupt")


def test_other_files_than_wit_base_are_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"image_url": ["x"]}), tmp_path / "other.parquet")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 nothing of the kind")
    with pytest.raises(InputError, match=r"other\.parquet: no column wit_features\.language, wit_features\.page_url"):
        wit_base.check_header(str(tmp_path / "other.parquet"))
    with pytest.raises(InputError, match=r"broken\.parquet: not a readable Parquet file"):
        wit_base.check_header(str(tmp_path / "broken.parquet"))
    with pytest.raises(InputError, match=r"none\.parquet: does not exist"):
        wit_base.check_header(str(tmp_path / "none.parquet"))
    assert [o.uri for o in wit_base.find_files(str(tmp_path))] == [
        f"{tmp_path}/{n}.parquet" for n in ("broken", "other")
    ]
    (tmp_path / "sub").mkdir()
    for name, message in (("a.tsv", r"1 file, .* \(corpus=wit reads TSV\)$"), ("b.txt", r"2 files, .* reads TSV\)$")):
        (tmp_path / "sub" / name).write_text("x")
        with pytest.raises(InputError, match=message):
            wit_base.find_files(str(tmp_path / "sub"))
    (tmp_path / "sub" / "a.tsv").unlink()
    with pytest.raises(InputError, match=r"1 file, none of them \.parquet$"):
        wit_base.find_files(str(tmp_path / "sub"))


RIGHT = {"language": "en", "page_url": "p", "page_title": "Acre", "is_main_image": True}


def test_columns_of_other_types_are_refused_by_name(tmp_path: Path) -> None:
    missed = []
    for url, features, message in (
        ("u", [RIGHT | {"page_title": 5}], r"column wit_features\.page_title is int64, not text"),
        ("u", [RIGHT | {"language": b"en"}], r"column wit_features\.language is binary, not text"),
        (b"u", [RIGHT], "column image_url is binary, not text"),
        ("u", RIGHT, "wit_features is struct<.*neither a list of structs nor a struct of lists"),
        ("u", RIGHT | {"page_title": ["Acre"]}, "wit_features is struct<.*neither a list of structs nor a struct"),
        ("u", [[RIGHT]], "wit_features is list<.*neither a list of structs nor a struct of lists"),
    ):
        pq.write_table(pa.table({"image_url": [url], "wit_features": [features]}), tmp_path / "a.parquet")
        with pytest.raises(InputError) as raised:
            wit_base.check_header(str(tmp_path / "a.parquet"))
        if not re.search(rf"a\.parquet: {message}", str(raised.value)):
            missed.append((message, str(raised.value)))
    assert missed == []
    coded = pa.dictionary(pa.int32(), pa.string())
    for column, is_read in (("image_url", True), ("language", False)):
        kinds = {name: coded if name == column else pa.string() for name in ("image_url", *wit_base.NEEDED_OF_ENTRY)}
        entry = pa.struct([(name, kinds[name]) for name in wit_base.NEEDED_OF_ENTRY])
        schema = pa.schema({"image_url": kinds["image_url"], "wit_features": pa.list_(entry)})
        assert (wit_base._misshapen(schema) == "") == is_read, column


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_each_encoding_passes_the_check(tmp_path: Path, encoding: str) -> None:
    wit_base.check_header(str(write(tmp_path / "a.parquet", pictures(), encoding)))
    whole = tmp_path / "cut.parquet"
    whole.write_bytes((tmp_path / "a.parquet").read_bytes()[:-20])
    with pytest.raises(InputError, match=r"cut\.parquet: not a readable Parquet file"):
        wit_base.check_header(str(whole))


@pytest.mark.usefixtures("in_process")
def test_mined_and_fetched(tmp_path: Path) -> None:
    rows = pictures(90)
    spoilt, lost = rows[40], rows[41]
    for row in (spoilt, lost):
        row["wit_features"] = [{**dict.fromkeys(ENTRY.names), "language": "en", "page_title": "Acre", "page_url": "p"}]
    spoilt["image"] = {"bytes": b"no picture", "path": None}
    lost["image"] = {"bytes": None, "path": None}
    for number in range(3):
        write(tmp_path / f"train-{number:05d}-of-00003.parquet", rows[number::3], ENCODINGS[number])
    (tmp_path / "terms.txt").write_text("Acre\nwar\n")
    mined = cli.execute("mine", [
        "corpus=wit_base", f"corpus.path={tmp_path}", f"terms.path={tmp_path}/terms.txt", f"out={tmp_path}/matches",
        "match=word",
    ])  # fmt: skip
    assert isinstance(mined, dict)
    actual = pa.concat_tables(open_table(f"{tmp_path}/matches").batches()).to_pylist()
    entries = [(row, entry) for row in rows for entry in row["wit_features"] if entry["language"] == "en"]
    wanted = Counter(
        row["image_url"] for row, e in entries if "acre" in e["page_title"].lower() or "war" in e["page_title"]
    )
    assert Counter(row["image_url"] for row in actual) == wanted
    assert {row["split"] for row in actual} == {"train"}
    assert mined["identity"]["match"] == "word"

    once = {row["image_url"]: row for row in actual}
    missing = {
        **next(iter(once.values())),
        "image_url": "https://i/none.jpg",
        "image_id": content_id("https://i/none.jpg"),
    }
    kept = [*once.values(), {**missing, "record_id": "none"}]
    _write_records(tmp_path / "records", kept)
    arguments = [f"source.path={tmp_path}/*.parquet", f"out={tmp_path}/images"]
    with pytest.raises(InputError, match="input="):
        cli.execute("fetch", ["source=wit_base", *arguments])
    cli.execute("fetch", ["source=wit_base", *arguments, f"input={tmp_path}/records"])
    images = {r["source_url"]: r for r in pa.concat_tables(open_table(f"{tmp_path}/images").batches()).to_pylist()}
    assert set(images) == {row["image_url"] for row in kept}
    by_url = {row["image_url"]: row["image"]["bytes"] for row in rows}
    for url, image in images.items():
        if url == spoilt["image_url"]:
            assert (image["status"], image["error_kind"]) == ("error", "not_an_image")
        elif url in (lost["image_url"], "https://i/none.jpg"):
            assert image["status"] == "missing"
        else:
            assert (image["status"], image["bytes"], image["rendition"]) == ("ok", by_url[url], "w300")


def _write_records(folder: Path, rows: list[dict[str, Any]]) -> None:
    from jobs.store.runs.table_run import open_run
    from jobs.store.table_plan import TablePlan
    from jobs.store.units import Unit
    from jobs.store.writer import UnitWriter
    from jobs.tables import TABLES

    plan = TablePlan(str(folder), "records", {}, [Unit("u1", ()), Unit("u2", ())], {}, {}, derived=False)
    run = open_run(plan, resume=True, overwrite=False, retry=[])
    for number, task in enumerate(run.todo):
        with UnitWriter(run.target, task) as writer:
            part = rows[number::2]
            writer.counts.rows_in = len(part)
            writer.write(pa.Table.from_pylist(part, schema=TABLES["records"].schema()))
    run.finish()


def test_columns_of_other_structs_are_not_read(tmp_path: Path) -> None:
    """Only a column at the top has its name; those of an entry are found below whatever the writer calls its lists."""
    entry = [{"language": "en", "page_title": "t", "other": 1}]
    rows = [
        {"image_url": "u", "image": {"bytes": b"x", "path": "p"}, "wit_features": entry, "nested": {"image_url": "n"}}
    ]
    path = tmp_path / "a.parquet"
    pq.write_table(pa.Table.from_pylist(rows), path)
    with pq.ParquetFile(path) as file:
        leaves = wit_base._leaves(file)
    assert leaves == {
        ("image_url",): "image_url",
        ("wit_features", "language"): "wit_features.list.element.language",
        ("wit_features", "page_title"): "wit_features.list.element.page_title",
    }


def test_the_first_of_several_rows_of_a_picture_is_fetched(tmp_path: Path) -> None:
    rows = pictures(12)
    write(tmp_path / "a.parquet", [*rows[:9], rows[1], rows[8]])  # groups of 7 rows
    write(tmp_path / "b.parquet", [rows[8], *rows[9:], rows[1]])
    urls = [rows[number]["image_url"] for number in (10, 8, 1)]
    files = wit_base.find_files(str(tmp_path))
    places = wit_base.picture_places(files, pa.array([*urls, "https://i/none.jpg"])).to_pylist()
    assert {row["image_url"]: (Path(row["path"]).name, row["row_group"], row["row"]) for row in places} == dict(
        zip(urls, [("b.parquet", 0, 2), ("a.parquet", 1, 1), ("a.parquet", 0, 1)], strict=True)
    )
    assert len(places) == 3
