"""The plan of items of a user's file: rows of a limit, tables, identity; and of the item that asks for titles."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from actors.ids import content_id
from jobs.errors import InputError
from jobs.items_from import file_items
from jobs.items_from import file_items as user_file
from jobs.items_from.file_items import UnitSpool
from jobs.items_from.input_rows import UserFile
from jobs.items_from.items_config import ItemsConfig
from jobs.items_from.items_output import ItemsPlan
from jobs.items_from.named_pictures import NamedPicture
from jobs.items_from.row_items import ItemRow
from jobs.runtime.configuration.config import load
from jobs.runtime.selection.exclusions import ExclusionFilter, Exclusions, marks_of
from jobs.store.files.objects import Object
from jobs.store.writer import Reject
from jobs.terms_from.terms_config import TermSourcesConfig

URL = "https://a.example/{}.jpg"


@contextmanager
def planned(path: Path, *keys: str, excluded: str = "") -> Iterator[ItemsPlan]:
    listed = Exclusions((excluded,), (marks_of(excluded),)) if excluded else Exclusions()
    cfg = load("items", ItemsConfig, [f"input={path}", f"out={path.parent}/R", *keys])
    with user_file.file_plan(cfg, listed) as plan:
        yield plan


def write(folder: Path, *lines: str, name: str = "f.csv") -> Path:
    (folder / name).write_text("\n".join(lines) + "\n")
    return folder / name


def ids(plan: ItemsPlan) -> list[list[str]]:
    return [plan.read(unit).tables["items"].column("item_id").to_pylist() for unit in plan.units]


def test_a_limit_counts_rows_and_those_that_are_rejected(tmp_path: Path) -> None:
    path = write(tmp_path, "id,t", "a,x", ",x", "b,y", "c,z")
    keys = ["columns.id=id", "columns.texts.note=t", "unit_rows=2", "on_error=reject"]
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


def test_unusable_rows_are_listed_at_once_or_rejected(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "A.JPG").write_bytes(b"x")
    many = [f"m{number},no{number}.jpg" for number in range(12)]
    path = write(tmp_path, "id,file", "a,A.JPG", "a,A.JPG", "b,a.jpg", ",A.JPG", "c,", ",", *many)
    keys = ["columns.id=id", "columns.pictures=file", f"pictures.path={tmp_path}/photos"]
    with pytest.raises(InputError) as error, planned(path, *keys):
        pass
    head, *shown = str(error.value).split("\n")
    assert "16 rows cannot become items (13 no such picture, " in head
    assert [line.split(":")[0].strip() for line in shown[:10]] == [f"line {n}" for n in (3, 4, 5, 6, *range(8, 14))]
    assert "there is 'A.JPG'" in shown[1]
    assert shown[10:] == ["    … and 6 more", shown[-1]]
    assert "on_error=reject" in shown[-1]
    for unit_rows in (1, 2, 100):
        with planned(path, *keys, "on_error=reject", f"unit_rows={unit_rows}") as plan:
            assert [name for of_unit in ids(plan) for name in of_unit] == ["a"]
            assert plan.rejects
            rejects = list(plan.rejects())
            reads = [plan.read(unit) for unit in plan.units]
        assert [reject.position for reject in rejects] == [3, 4, 5, 6, *range(8, 20)]
        assert [reject.reason for reject in rejects[:4]] == ["repeated_id", "no_such_picture", "no_id", "no_picture"]
        assert (rejects[0].message, rejects[0].raw) == ("has the same columns.id=id as line 2", "id=a file=A.JPG")
        assert [read.rows_in for read in reads] == [unit.rows for unit in plan.units]
        assert sum(read.rows_in for read in reads) == 17
        assert [reject for read in reads for reject in read.rejects] == rejects


def test_rows_with_the_same_pictures_and_texts_repeat_each_other(tmp_path: Path) -> None:
    path = write(tmp_path, "id,t", "a,x", "b,x")
    with pytest.raises(InputError, match=r"line 3: has the same pictures and texts as line 2"):
        planned(path, "columns.texts.note=t").__enter__()


def test_excluded_pictures_are_counted(tmp_path: Path) -> None:
    path = write(tmp_path, "url", URL.format(1), URL.format(2))
    with planned(path, "columns.pictures=url", excluded=URL.format(2)) as plan:
        read = plan.read(plan.units[0])
    assert (read.rows_in, read.filtered, len(read.tables["records"])) == (2, {"excluded": 1}, 1)


def test_an_item_that_asks_for_titles() -> None:
    listed = load("terms", TermSourcesConfig, ["out=x"]).topics
    cfg = ItemsConfig(out="R", topics=listed, condition="c")
    with file_items.topic_plan(cfg, Exclusions()) as plan:
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
    with pytest.raises(InputError, match=message), file_items.topic_plan(cfg, some):
        pass
    nothing = ItemsConfig(out="R", topics={})
    with pytest.raises(InputError, match=r"^topics: "), file_items.topic_plan(nothing, Exclusions()):
        pass


FILE = UserFile(Object("F", 1, "etag"), ("a",), lambda _: iter(()))


def item(name: str, *pictures: str) -> ItemRow:
    row: dict[str, Any] = {"item_id": name, "kind": "image", "image_ids": list(pictures), "attributes": [("a", name)]}
    text = {"text_id": f"t-{name}", "role": "note", "text": name}
    return ItemRow({**row, "text_ids": [text["text_id"]]}, [text], [NamedPicture(p, f"u-{p}") for p in pictures])


def reject(position: int) -> Reject:
    return Reject("F", position, "no_text", f"message {position}")


def repeated(line: int, _: Any, first: int) -> Reject:
    return Reject("F", line, "repeated_id", f"as line {first}")


@pytest.fixture
def spools(tmp_path: Path) -> Any:
    """Return a function that makes a spool."""
    number = 0

    def spool(unit_rows: int, *excluded: str, **flags: bool) -> UnitSpool:
        nonlocal number
        number += 1
        folder = tmp_path / str(number)
        folder.mkdir()
        keys = {"records": False, **flags}
        return UnitSpool(folder, unit_rows, ExclusionFilter(frozenset(excluded)), repeated=repeated, **keys)

    return spool


def unit_items(spool: UnitSpool) -> list[list[str]]:
    """Return the ids of the items of each unit, and check the numbers of rows of the units."""
    read = [(unit, spool.rows(unit.extra["number"])) for unit in spool.units(FILE)]
    assert [unit.rows for unit, _ in read] == [rows.rows_in for _, rows in read]
    assert [unit.name for unit, _ in read] == sorted(unit.name for unit, _ in read)
    return [rows.tables["items"].column("item_id").to_pylist() for _, rows in read]


def test_a_unit_ends_with_the_row_that_fills_it(spools: Any) -> None:
    with spools(3) as spool:
        for line, names in enumerate(("ab", "cde", "f", "gh", "i"), start=2):
            spool.add(line, {}, [item(name) for name in names])
        spool.finish(FILE)
        assert unit_items(spool) == [["a", "b", "c", "d", "e"], ["f", "g", "h"], ["i"]]
        assert [unit.piece for unit in spool.units(FILE)] == ["unit 0", "unit 1", "unit 2"]
        assert spool.rows(1).tables["texts"].column("text").to_pylist() == ["f", "g", "h"]
        assert (spool.rows(1).filtered, spool.rows(1).tallies) == ({}, {})
    with spools(2) as spool:
        spool.add(2, {}, [item("a"), item("b")])
        spool.finish(FILE)
        assert unit_items(spool) == [["a", "b"]], "no empty unit follows"
    with spools(1) as spool:
        for line in range(2, 13):
            spool.add(line, {}, [item(f"i{line}")])
        spool.finish(FILE)
        assert unit_items(spool) == [[f"i{line}"] for line in range(2, 13)]


def test_items_are_counted_by_what_is_known_of_their_right_answers(spools: Any) -> None:
    golds: list[list[str] | None] = [["a"], [], None, None, ["a", "b"], None]
    for has_gold in (True, False):
        with spools(3, gold=has_gold) as spool:
            for line, gold in enumerate(golds, start=2):
                row = item(f"i{line}")
                row.item["gold"] = gold
                spool.add(line, {}, [row])
            spool.finish(FILE)
            tallies = [spool.rows(number).tallies for number in range(2)]
        counts = [{"known": 1, "none is right": 1, "unknown": 1}, {"known": 1, "unknown": 2}]
        assert tallies == ([{"gold": of_unit} for of_unit in counts] if has_gold else [{}, {}])


def test_excluded_items_and_rejects_fill_a_unit_too(spools: Any) -> None:
    with spools(3, "x", "u-y") as spool:
        spool.add(2, {}, [item("a", "x"), item("b", "z")])
        spool.add(3, {}, [item("c", "z", "y")])
        spool.add(4, {}, [item("d", "z")])
        for position in range(5, 10):
            spool.reject(reject(position))
        spool.finish(FILE)
        assert unit_items(spool) == [["b"], ["d"], []]
        counts = [spool.rows(number) for number in range(3)]
        assert [(rows.rows_in, rows.filtered, [r.position for r in rows.rejects]) for rows in counts] == [
            (3, {"excluded": 2}, []), (4, {}, [5, 6, 7]), (2, {}, [8, 9]),
        ]  # fmt: skip
        assert [rows.tallies for rows in counts] == [{"exclusions": {"x": 1, "u-y": 1}}, {}, {}]
        assert counts[1].rejects[0] == reject(5)
        assert list(spool.all_rejects()) == [reject(position) for position in range(5, 10)]


def test_a_file_without_items_names_the_first_reject(spools: Any) -> None:
    with spools(1) as spool:
        spool.reject(reject(7))
        spool.reject(reject(8))
        with pytest.raises(
            InputError, match=r"^F: no row can become an item; 2 rows .*\n    line 7: message 7\n    line 8: message 8$"
        ):
            spool.finish(FILE)
    with spools(1) as spool, pytest.raises(InputError, match=r"^F: has no rows;"):
        spool.finish(FILE)
    with spools(5, "x") as spool:
        spool.add(2, {}, [item("a", "x")])
        spool.finish(FILE)
        assert unit_items(spool) == [[]], "all are excluded"


def test_a_repeated_id_is_rejected_with_the_line_of_the_first(spools: Any) -> None:
    def repeats(names: str, unit_rows: int) -> list[tuple[int, str]]:
        with spools(unit_rows) as spool:
            for line, name in enumerate(names, start=2):
                spool.add(line, {}, [item(name)])
            spool.finish(FILE)
            assert [name for names in unit_items(spool) for name in names] == list(dict.fromkeys(names))
            return [(reject.position, reject.message) for reject in spool.all_rejects()]

    for unit_rows in (1, 2, 3, 100):
        for names in ("abcb", "zyxyzz", "aaa", "qwertyuiopqw", "abcdefghij" * 3):
            first = {name: line for line, name in reversed(list(enumerate(names, start=2)))}
            expected = [(line, f"as line {first[n]}") for line, n in enumerate(names, 2) if first[n] != line]
            assert repeats(names, unit_rows) == expected, (names, unit_rows)


def test_a_picture_has_one_record_in_the_unit_of_its_first_row(spools: Any) -> None:
    with spools(2, records=True) as spool:
        for line, (name, pictures) in enumerate((("a", "pq"), ("b", "p"), ("c", "rq"), ("d", "s")), start=2):
            spool.add(line, {}, [item(name, *pictures)])
        spool.finish(FILE)
        records = [spool.rows(number).tables["records"].to_pylist() for number in range(2)]
        assert [[row["image_id"] for row in rows] for rows in records] == [["p", "q"], ["r", "s"]]
        assert records[1][0]["image_url"] == "u-r"
        assert records[0][0]["record_id"] == content_id("item", "a", "p")
        assert spool.shares_pictures
    with spools(2, records=True) as spool:
        for line, (name, pictures) in enumerate((("a", "p"), ("b", "pp"), ("c", "r")), start=2):
            spool.add(line, {}, [item(name, *pictures)])
        spool.finish(FILE)
        assert not spool.shares_pictures, "within a unit only"
        assert len(spool.rows(0).tables["records"]) == 1
