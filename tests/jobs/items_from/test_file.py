"""The plan of items of a user's file: rows of a limit, tables, identity; and of the item that asks for titles."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from jobs.errors import InputError
from jobs.items_from import file as user_file
from jobs.items_from import topics
from jobs.items_from.config import ItemsConfig
from jobs.items_from.output import ItemsPlan
from jobs.runtime.configuration.config import load
from jobs.runtime.selection.exclusions import Exclusions, marks_of
from jobs.terms_from.terms_config import TermSourcesConfig

URL = "https://a.example/{}.jpg"


@contextmanager
def planned(path: Path, *keys: str, excluded: str = "") -> Iterator[ItemsPlan]:
    listed = Exclusions((excluded,), (marks_of(excluded),)) if excluded else Exclusions()
    cfg = load("items", ItemsConfig, [f"input={path}", f"out={path.parent}/R", *keys])
    with user_file.read_plan(cfg, listed) as plan:
        yield plan


def write(folder: Path, *lines: str, name: str = "f.csv") -> Path:
    (folder / name).write_text("\n".join(lines) + "\n")
    return folder / name


def ids(plan: ItemsPlan) -> list[list[str]]:
    return [plan.read(unit).tables["items"].column("item_id").to_pylist() for unit in plan.units]


def test_a_limit_counts_rows_and_those_that_are_rejected(tmp_path: Path) -> None:
    path = write(tmp_path, "id,t", "a,x", ",x", "b,y", "c,z")
    keys = ["columns.id=id", "columns.texts.note=t", "unit_rows=2"]
    with planned(path, *keys) as plan:
        assert (ids(plan), plan.limit) == ([["a", "b"], ["c"]], None)
        assert [len(plan.read(unit).rejects) for unit in plan.units] == [1, 0]
    for limit, expected in ((1, [["a"]]), (2, [["a"]]), (3, [["a", "b"]]), (9, [["a", "b"], ["c"]])):
        with planned(path, *keys, f"limit={limit}") as plan:
            assert ids(plan) == expected
            assert plan.limit is not None
            assert str(plan.limit) == f"limit={limit}: the first {limit} rows"
            assert plan.identity["limit"] == limit
    with pytest.raises(InputError, match="limit=0"), planned(path, *keys, "limit=0"):
        pass


def test_pictures_by_url_have_records(tmp_path: Path) -> None:
    lines = ["url,t", f"{URL.format(1)},x", f"{URL.format(2)},y", f"{URL.format(1)},z"]
    path = write(tmp_path, *lines)
    for size, own_units in ((2, ("records",)), (3, ())):
        with planned(path, "columns.pictures=url", "columns.texts.note=t", f"unit_rows={size}") as plan:
            assert (plan.tables, plan.own_units) == (("records", "texts", "items"), own_units)
            assert plan.identity["pictures"] == "urls"
    with planned(path, "columns.texts.note=t", "condition=c") as plan:
        assert (plan.tables, plan.own_units, plan.condition) == (("texts", "items"), (), "c")
        assert plan.derived is False
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "1.jpg").write_bytes(b"x")
    named = write(tmp_path, "url", "1.jpg", name="g.csv")
    with planned(named, "columns.pictures=url", f"pictures.path={tmp_path}/photos") as plan:
        assert (plan.tables, plan.identity["pictures"]) == (("texts", "items"), "paths")


def test_the_identity_has_the_keys_that_change_rows(tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    path.write_bytes("id;t,u\na;x,é\n".encode("cp1252"))
    keys = ["delimiter=';'", "encoding=cp1252", "language=de", "kind=caption", "unit_rows=7"]
    with planned(path, "columns.texts={note: 't,u'}", *keys, "separators.texts='/'", "item_per=note") as plan:
        identity = plan.identity
        assert plan.read(plan.units[0]).tables["texts"].column("text").to_pylist() == ["x,é"]
    assert set(identity) == {
        "input", "pictures", "columns", "separators", "kind", "item_per", "language", "encoding", "delimiter",
        "unit_rows",
    }  # fmt: skip
    expected = {"delimiter": ";", "encoding": "cp1252", "language": "de", "kind": "caption", "unit_rows": 7}
    assert identity.items() >= {**expected, "item_per": "note"}.items()
    assert identity["columns"]["texts"] == {"note": "t,u"}
    assert identity["separators"]["texts"] == "/"


def test_what_rows_of_one_id_have_in_common(tmp_path: Path) -> None:
    path = write(tmp_path, "id,t", "a,x", "a,x")
    keys = ["columns.id=id", "columns.texts.note=t"]
    with pytest.raises(InputError, match=r"lines 2 and 3 have the same columns\.id=id$"), planned(path, *keys):
        pass
    message = r"have the same pictures and texts; remove one, or set columns\.id="
    with pytest.raises(InputError, match=message), planned(path, keys[1]):
        pass


def test_excluded_pictures_are_counted(tmp_path: Path) -> None:
    path = write(tmp_path, "url", URL.format(1), URL.format(2))
    with planned(path, "columns.pictures=url", excluded=URL.format(2)) as plan:
        read = plan.read(plan.units[0])
    assert (read.rows_in, read.filtered, len(read.tables["records"])) == (2, {"excluded": 1}, 1)


def test_an_item_that_asks_for_titles() -> None:
    listed = load("terms", TermSourcesConfig, ["out=x"]).topics
    cfg = ItemsConfig(out="R", topics=listed, condition="c")
    with topics.read_plan(cfg, Exclusions()) as plan:
        read = plan.read(plan.units[0])
        (item,) = read.tables["items"].to_pylist()
        assert (plan.units[0].name, plan.identity) == (item["item_id"], {"topics": item["item_id"]})
        assert (read.rows_in, plan.units[0].rows, plan.condition) == (1, 1, "c")
        assert plan.lines == ["asks for 40 titles about 59 topics"]
        assert dict(item["attributes"])["topics"] == listed["name"]
        assert (item["kind"], item["image_ids"], read.tables["texts"].num_rows) == ("description", [], 0)
    some = Exclusions(("x",), (marks_of("x"),))
    message = "exclusions=E: topics= makes an item without pictures"
    cfg = ItemsConfig(out="R", topics=listed, exclusions="E")
    with pytest.raises(InputError, match=message), topics.read_plan(cfg, some):
        pass
    with pytest.raises(InputError, match=r"^items: "), topics.read_plan(ItemsConfig(out="R", topics={}), Exclusions()):
        pass
