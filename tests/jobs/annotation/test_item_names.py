"""`import_ratings items=TABLE`: items by id and by picture."""

from typing import Any

import pyarrow as pa
import pytest

from actors.ids import content_id
from jobs.annotation.item_names import ItemNames
from jobs.errors import InputError
from jobs.runtime.command_line import cli
from jobs.store.reading import open_table
from tests.factories import rows_of, write_csv, write_table

KEYS = ["question=fit", "answers=[1,2]", "columns.item_id=file"]


@pytest.fixture
def items(tmp_path):
    pictures = {"i0": ["00.png"], "i1": ["https://x/1.png"], "i2": ["sub/2.png"], "i3": ["sub/2.png", "3.png"]}
    rows: list[dict[str, Any]] = [{"item_id": name, "image_ids": [content_id(picture) for picture in of_item]}
            for name, of_item in pictures.items()]  # fmt: skip
    rows.append({"item_id": "text", "image_ids": None})
    return write_table(tmp_path / "items", "items", rows)


def imported(tmp_path, names, *more):
    source = write_csv(tmp_path / "people.csv", ["file", "rater", "value"], [[name, "p", "1"] for name in names])
    out = tmp_path / "R"
    manifest: Any = cli.execute("import_ratings", [f"input={source}", *KEYS, *more, f"out={out}", "overwrite=true"])
    return [row["item_id"] for row in rows_of(str(out))], manifest["counts"]["rejected"]


def test_ids_paths_and_urls_become_items(tmp_path, items):
    names = ["00.png", "https://x/1.png", "3.png", content_id("00.png"), "i1", "nothing.png", "sub/2.png", "text"]
    resolved, rejects = imported(tmp_path, names, f"items={items}", "duplicates=sample")
    assert resolved == ["i0", "i1", "i3", "i0", "i1", "text"]
    assert rejects == {"unknown_item": 1, "several_items": 1}


def test_a_file_without_any_item_is_refused_with_its_first_name(tmp_path, items):
    with pytest.raises(InputError, match=r"'x\.png'"):
        imported(tmp_path, ["x.png"], f"items={items}")
    with pytest.raises(InputError, match=r"nowhere: .*must be id, url or a table of items"):
        imported(tmp_path, ["x.png"], f"items={tmp_path}/nowhere")


def test_excluded_pictures_stay_excluded(tmp_path, items):
    (tmp_path / "excluded.txt").write_text(content_id("00.png"))
    assert imported(tmp_path, ["00.png", "3.png"], f"items={items}", f"exclusions={tmp_path}/excluded.txt")[0] == ["i3"]


@pytest.mark.parametrize("private", [False, True])
def test_rejects_of_private_files_have_no_names(items, private):
    names = ItemNames(open_table(items), private=private)
    rejects: list[Any] = []
    rows = pa.table({"item_id": ["i1", "secret", "00.png", "sub/2.png"], "position": [2, 3, 4, 5]})
    resolved = names.resolve(rows, file="people.csv", reject=rejects.append)
    assert resolved.to_pydict() == {"item_id": ["i1", "i0"], "position": [2, 4]}
    assert [(reject.file, reject.position, reject.reason) for reject in rejects] == [
        ("people.csv", 3, "unknown_item"), ("people.csv", 5, "several_items")
    ]  # fmt: skip
    problems = ["no", "more than one"]
    shown = ["the row's name"] * 2 if private else ["'secret'", "'sub/2.png'"]
    assert [reject.message.partition(" as its id")[0] for reject in rejects] == [
        f"{problem} item of items={items} has {name}" for problem, name in zip(problems, shown, strict=True)
    ]
    assert [reject.raw for reject in rejects] == (["", ""] if private else ["secret", "sub/2.png"])
