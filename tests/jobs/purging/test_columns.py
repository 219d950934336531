"""No column of any table keeps an id or a URL of a withdrawn picture, or of its items, responses or texts."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from actors.ids import content_id
from jobs.purging.matching import DIMS, NAMED_BY, URLS, columns_of
from jobs.purging.mentions import has_strings
from jobs.runtime.command_line import cli
from jobs.store.reading import open_table
from jobs.tables import TABLES
from tests.factories import picture, record_of, rows_of, write_table

PICTURE = picture(1)
IMAGE, URL = PICTURE["image_id"], PICTURE["source_url"]
ITEM, RESPONSE, JUDGED, TEXT, CORPUS = (content_id(name) for name in ("item", "response", "judged", "text", "corpus"))
NAMES = {"picture": IMAGE, "url": URL, "item": ITEM, "response": RESPONSE, "text": TEXT, "corpus": CORPUS}
OF_JOBS = ("sha256", "phash", "status", "error_kind")  # hashes of bytes, which name no picture, and words of jobs


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A run with the picture, whose record has a corpus' id, its item, a response, and the response's item."""
    run = tmp_path / "R"
    write_table(run / "records", "records", [{**record_of(PICTURE, "title"), "record_id": CORPUS}])
    of_picture = {"item_id": ITEM, "kind": "image", "image_ids": [IMAGE], "text_ids": [TEXT]}
    write_table(run / "items", "items", [of_picture, {"item_id": JUDGED, "kind": "response", "response_id": RESPONSE}])
    write_table(
        run / "responses", "responses", [{**row_of("responses", "r"), "response_id": RESPONSE, "item_id": ITEM}]
    )
    return run


def row_of(table: str, word: str) -> dict[str, Any]:
    """Return a row whose key is `word`."""
    columns = TABLES[table].columns
    return {name: word if pa.types.is_string(columns[name][0]) else 0 for name in TABLES[table].key}


def value_of(kind: pa.DataType, text: str) -> Any:
    if pa.types.is_map(kind):
        return [("other", value_of(kind.item_type, "x")), ("name", value_of(kind.item_type, text))]
    return ["x", text] if pa.types.is_list(kind) else text


def planted(table: str) -> list[dict[str, Any]]:
    """Return a row without mentions, and for each column with strings and each name a row that has it only there.

    Ids by which other tables refer to a row are left out, because the row would be another withdrawn object.
    """
    rows = [row_of(table, "stays")]
    left_out = {*OF_JOBS, *NAMED_BY.get(table, ())}
    for column, (kind, _) in TABLES[table].columns.items():
        is_id = column in columns_of([column]) and column != DIMS
        names = {"url": URL} if column in URLS else NAMES
        for word, name in names.items() if has_strings(kind) and column not in left_out else ():
            text = name if is_id else f"see {name}, please"
            rows.append({**row_of(table, f"{column} {word}"), column: value_of(kind, text)})
    return rows


def test_no_column_keeps_the_name_of_a_withdrawn_picture(root: Path, tmp_path: Path) -> None:
    listed = tmp_path / "withdrawn.txt"
    listed.write_text(f"{URL}\n")
    keys = [f"input={root}", f"exclusions={listed}"]
    for table in TABLES:
        write_table(root / "copies" / table, table, planted(table))
    assert cli.main("purge", keys) == 0
    left = {
        (table, column, word)
        for table in TABLES
        for row in rows_of(f"{root}/copies/{table}")
        for column, value in row.items()
        for word, name in NAMES.items()
        if name in str(value)
    }
    assert left == set()
    for table in TABLES:
        stays = row_of(table, "stays")
        assert stays in [{name: row[name] for name in stays} for row in rows_of(f"{root}/copies/{table}")]
    assert cli.main("verify", keys) == 0


def test_texts_of_items_and_responses_go_also_where_no_item_has_them(root: Path, tmp_path: Path) -> None:
    listed = tmp_path / "withdrawn.txt"
    listed.write_text(f"{IMAGE}\n")
    keys = [f"input={root}", f"exclusions={listed}"]
    sources = {"of the item": ITEM, "of the response": RESPONSE, "of another": content_id("x"), "shared": ITEM}
    texts = [{"text_id": name, "role": "caption", "source": source, "text": "a"} for name, source in sources.items()]
    write_table(root / "texts", "texts", texts)
    write_table(root / "others", "items", [{"item_id": "7", "kind": "image", "text_ids": ["shared"]}])
    vectors = [{"item_id": name, "kind": "text", "status": "ok"} for name in sources]
    write_table(root / "embeddings", "embeddings", vectors)
    assert cli.main("verify", keys) == 1
    assert cli.main("purge", keys) == 0
    left = {row["text_id"]: row["source"] for row in rows_of(f"{root}/texts")}
    assert left == {"of another": content_id("x"), "shared": ""}
    assert {row["item_id"] for row in rows_of(f"{root}/embeddings")} == set(left)


def test_a_search_in_a_corpus_loses_what_its_candidates_show(root: Path, tmp_path: Path) -> None:
    """By its URL, and by the corpus' id, of which the list has either."""
    for entry in (URL, CORPUS):
        run = tmp_path / entry[-4:]
        record = {**record_of(PICTURE, "title"), "record_id": CORPUS}
        write_table(run / "candidates" / "records", "records", [record])
        write_table(run / "neighbors", "neighbors", [
            {"query_id": "q", "rank": 1, "item_id": CORPUS}, {"query_id": "q", "rank": 2, "item_id": "other"}
        ])  # fmt: skip
        write_table(run / "images", "images", [PICTURE])
        listed = tmp_path / "withdrawn.txt"
        listed.write_text(f"{entry}\n")
        assert cli.main("purge", [f"input={run}", f"exclusions={listed}"]) == 0
        assert [row["item_id"] for row in rows_of(f"{run}/neighbors")] == ["other"]
        assert open_table(f"{run}/candidates/records").rows == open_table(f"{run}/images").rows == 0
