"""Text and JSON as the world sends them: no input from outside stops a run, and each costs at most its own row."""

import io
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from actors.schemas import to_table
from jobs.runtime.command_line import cli
from jobs.store.reading import open_table
from jobs.tables import TABLES, table
from tests.cases import check_cases
from tests.factories import record, rows_of, write_records
from tests.https_server import Answer, HttpsServer
from tests.jobs.fetch_alone import fetch_alone
from tests.picture_site import Site, jpeg
from tests.wikidata import dump, item

HALF = "x\ud83d"  # half a character
KEPT = "x\ufffd"


@pytest.fixture
def site() -> Site:
    return Site()


@pytest.fixture
def server(tmp_path: Path, site: Site) -> Iterator[HttpsServer]:
    with HttpsServer(tmp_path, site) as running:
        yield running


def value_of(kind: pa.DataType, text: str) -> Any:
    """Return a value of an Arrow type with `text` wherever it has text; None for other types."""
    if pa.types.is_string(kind):
        return text
    if pa.types.is_map(kind):
        return [(value_of(kind.key_type, text), value_of(kind.item_type, text))]
    if pa.types.is_list(kind):
        return [value_of(kind.value_type, text)]
    if pa.types.is_struct(kind):
        return {field.name: value_of(field.type, text) for field in kind}
    return None


def test_every_text_column_of_every_table_takes_half_a_character() -> None:
    def check(name: str) -> None:
        schema = table(name, dim=2).schema() if name == "embeddings" else TABLES[name].schema()
        rows, expected = ([{f.name: value_of(f.type, text) for f in schema}] for text in (HALF, KEPT))
        assert to_table(rows, schema).to_pylist() == expected

    check_cases(check, list(TABLES))


def test_redirects_in_any_encoding_cost_at_most_their_own_row(server: HttpsServer, site: Site, tmp_path: Path) -> None:
    site.script |= {
        "/latin1": [Answer(302, b"", (("Location", "/up/caf\xe9.jpg"),))],
        "/sjis": [Answer(302, b"", (("Location", "\x83e\x83X\x83g.jpg"),))],
        "/scheme": [Answer(302, b"", (("Location", "caf\xe9://x/y"),))],
        "/caf%E9://x/y": [Answer(404)],
        "/broken": [Answer(302, b"", (("Location", "https://[x"),))],
        "/later": [Answer(200, jpeg(), (("Retry-After", "Mon, 01 Jan 2026 00:00:00 +" + "9" * 4000),))],
        "/robots": [Answer(200, jpeg(), (("X-Robots-Tag", "\xe9: noai"), ("X-Robots-Tag", "\xe9" * 4000)))],
    }
    paths = ["/latin1", "/sjis", "/scheme", "/broken", "/later", "/robots", "/a%2Cb.jpg?s=%2F"]
    write_records(str(tmp_path / "records"), [[record(path, image=server.url(path)) for path in paths]])
    out = str(tmp_path / "images")
    fetch_alone(str(tmp_path / "records"), out, port=server.port, ca_file=str(server.ca_file), backoff_s=0.01)
    rows = {row["source_url"].removeprefix(server.url("")): row for row in rows_of(out)}
    assert {path: (row["status"], row["error_kind"]) for path, row in rows.items()} == {
        "/latin1": ("ok", None),
        "/sjis": ("ok", None),
        "/scheme": ("missing", "gone"),
        "/broken": ("error", "bad_url"),
        "/later": ("ok", None),
        "/robots": ("ok", None),
        "/a%2Cb.jpg?s=%2F": ("ok", None),
    }
    assert rows["/latin1"]["final_url"] == server.url("/up/caf%E9.jpg")
    seen = {request.path for request in server.seen}
    assert {"/up/caf%E9.jpg", "/%83e%83X%83g.jpg", "/a%2Cb.jpg?s=%2F"} <= seen


@pytest.mark.usefixtures("in_process")
def test_members_of_tars_with_names_in_any_encoding(tmp_path: Path) -> None:
    names = ["a.jpg", "caf\xe9.jpg", "\u30c6\u30b9\u30c8.jpg", "z.jpg"]
    encodings = ["ascii", "latin-1", "shift_jis", "utf-8"]
    with tarfile.open(tmp_path / "a.tar", "w", format=tarfile.USTAR_FORMAT) as file:
        for name, encoding in zip(names, encodings, strict=True):
            file.encoding = encoding
            member = tarfile.TarInfo(name)
            member.size = len(jpeg())
            file.addfile(member, io.BytesIO(jpeg()))
    out = str(tmp_path / "out")
    keys = ["source=webdataset", f"source.path={tmp_path}/a.tar", f"out={out}", "resources.fetch.threads=1"]
    assert cli.main("fetch", keys) == 0
    rows = rows_of(out)
    assert [row["status"] for row in rows] == ["ok"] * 4
    assert len({row["image_id"] for row in rows}) == 4


@pytest.mark.usefixtures("in_process")
def test_lines_of_a_knowledge_base_that_are_not_json_are_rejected(tmp_path: Path) -> None:
    lines = [
        '{"node": "n1", "title": "Bread", "lemmas": ["bread"]}',
        '{"node": "n2", "title": "Smile \\ud83d", "lemmas": ["\\udc00"]}',
        '{"node": "n3", "title": "Ri',
        "[" * 100_000,
        "null",
        f'{{"node": "n4", "title": "Rice", "n": {"9" * 5000}}}',
        '{"node": "n5", "title": "\udc80"}',
    ]
    source = tmp_path / "kb.jsonl"
    for first in (lines, lines[::-1]):
        source.write_bytes("\n".join(first).encode("utf-8", "surrogateescape"))
        out = str(tmp_path / f"out{first[0][:14][-3:-1]}")
        keys = [f"knowledge_base.path={source}", "knowledge_base=table", "knowledge_base.columns.title=title"]
        assert cli.main("kb", [*keys, "knowledge_base.columns.lemmas=lemmas", f"out={out}"]) == 0
        nodes = {row["node_id"]: dict(row["titles"])[""] for row in rows_of(f"{out}/nodes")}
        assert nodes == {"n1": "Bread", "n2": "Smile \ufffd", "n4": "Rice"}
        assert open_table(f"{out}/nodes").counts().rejected == {"not_json": 4}


@pytest.mark.usefixtures("in_process")
def test_an_entity_that_cannot_be_parsed_is_rejected(tmp_path: Path) -> None:
    good = [item(198, "war", "War"), item(1, "battle of A", "Battle of A", P31=["Q198"], P279=["Q198"])]
    bad = [
        json.dumps({**item(7, "bad", "Bad"), "n": "N"}).replace('"N"', value).encode()
        for value in ("9" * 30, f"-{'9' * 20}", "[" * 1100 + "]" * 1100, "1e999", "NaN", r'"\ud83d"', "[")
    ]
    source = tmp_path / "dump.json"
    source.write_bytes(dump([*good[:1], *bad, *good[1:]]))
    out = str(tmp_path / "out")
    concepts = tmp_path / "concepts.yaml"
    concepts.write_text(json.dumps({"name": "mine", "source": "me", "themes": {"conflict": {"war": ["Q198"]}}}))
    keys = ["source=wikidata", f"source.path={source}", f"concepts={concepts}", f"out={out}"]
    assert cli.main("terms", keys) == 0
    counts = open_table(f"{out}/entities").counts()
    assert counts.rejected["malformed"] == len(bad)
    assert counts.rows_in == len(good) + len(bad)
