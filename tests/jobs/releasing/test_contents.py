"""The files of a release: which ones, from which tables, and what is left out."""

import csv
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from jobs import release
from jobs.errors import InputError
from jobs.releasing import publishing
from jobs.releasing.contents import Contents, ReleaseTables, check_included, write_contents
from jobs.releasing.released_files import Column, write_csv
from jobs.runtime.selection.exclusions import ExclusionFilter
from jobs.store.reading import open_table
from tests.factories import century_rating, write_table

URL = "https://upload.example/{}.jpg"


def records(*names: str, **columns: Any) -> list[dict[str, Any]]:
    return [{"record_id": f"r-{n}", "image_id": n, "image_url": URL.format(n), **columns} for n in names]


def tables_of(folder: Path, **rows: Any) -> ReleaseTables:
    """Return tables with these rows; without records those of pictures b and a."""

    def tables(name: str, kind: str) -> list[Any]:
        return [open_table(write_table(folder / name, kind, rows[name]))] if name in rows else []

    one = {name: next(iter(tables(name, kind)), None) for name, kind in (("starter", "records"), ("images", "images"))}
    return ReleaseTables(
        records=open_table(write_table(folder / "records", "records", rows.get("records", records("b", "a")))),
        starter=one["starter"],
        images=one["images"],
        terms=tables("terms", "terms"),
        ratings=tables("ratings", "ratings"),
        items=tables("items", "items"),
        responses=tables("responses", "responses"),
        listed_terms=rows.get("listed_terms", ()),
    )


def write(folder: Path, tables: ReleaseTables, *include: str, excluded: frozenset[str] = frozenset()) -> Contents:
    return write_contents(
        tables, folder / "out", include=include, pseudonym=lambda name: f"p-{name}",
        exclusion_filter=ExclusionFilter(excluded),
    )  # fmt: skip


def read(folder: Path, name: str) -> list[dict[str, str]]:
    with (folder / "out" / "data" / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_only_pictures_without_further_tables(tmp_path: Path) -> None:
    tables = tables_of(tmp_path)
    contents = write(tmp_path, tables)
    assert [(file.name, file.rows, file.path) for file in contents.files] == [("pictures", 2, "data/pictures.csv")]
    rows = read(tmp_path, "pictures")
    assert [(row["century_id"], row["is_starter_set"], row["licence"]) for row in rows] == [
        ("a", "", ""),
        ("b", "", ""),
    ]
    facts = contents.facts(tables, ())
    assert (facts.pictures, facts.licences, facts.people, facts.models) == (2, {"": 2}, 0, [])
    assert facts.left_out == [
        "Bytes of pictures.", "Responses of models to the pictures.", "Ratings of these responses.",
        "Comments of people.",
    ]  # fmt: skip
    assert tables.records is not None
    assert facts.sources == [("records", tables.records.identity)]
    every = ("responses", "response_ratings", "comments")
    assert contents.facts(tables, every).left_out == ["Bytes of pictures."]


def test_all_files_in_the_order_of_the_card(tmp_path: Path) -> None:
    """Item x is about a released picture, y about none; z is a response to picture a without an item."""
    person = {"method": "human", "comment": "a remark"}
    ratings = [
        century_rating("a", "sensitive", 5, rater="Ann", **person),
        century_rating("a", "sensitive", 4, rater="n@1"),
        century_rating("a", "sensitive", 4, rater="m@1"),
        century_rating("x", "sensitive", 3, rater="m@1"),
        century_rating("y", "sensitive", 3, rater="m@1"),
    ]
    responses = [{"response_id": f"s-{n}", "item_id": n, "model": "m@1", "status": "ok"} for n in ("x", "y", "a")]
    items = [
        {"item_id": "x", "kind": "response", "image_ids": ["gone", "b"], "response_id": "s"},
        {"item_id": "y", "kind": "response", "image_ids": ["gone"], "response_id": "t"},
    ]
    terms = [{"term": term, "source": "manual", "concept": "", "entity_id": "", "response_id": ""} for term in "dc"]
    tables = tables_of(
        tmp_path, ratings=ratings, responses=responses, items=items, terms=terms, listed_terms=["e", "c"],
        starter=records("b"), images=[{"image_id": "a", "rendition": "original", "status": "ok", "licence": "CC0"}],
    )  # fmt: skip
    contents = write(tmp_path, tables, "responses", "response_ratings")
    assert [(file.name, file.description, file.rows) for file in contents.files] == [
        ("pictures", "a picture", 2),
        ("search_terms", "a search term", 3),
        ("annotations", "the answers of one person or model about one picture", 3),
        ("responses", "a response of a model", 2),
        ("response_ratings", "the answers of one person or model about one response", 1),
    ]
    assert [row["is_starter_set"] for row in read(tmp_path, "pictures")] == ["false", "true"]
    assert [row["terms"] for row in read(tmp_path, "search_terms")] == ["c", "d", "e"]
    assert [(row["response_id"], row["century_id"]) for row in read(tmp_path, "responses")] == [
        ("s-x", "b"),
        ("s-a", "a"),
    ]
    assert contents.responses == {"not about a released picture": 1}
    annotations = read(tmp_path, "annotations")
    assert [(row["image_url"], row["century_id"]) for row in annotations] == [(URL.format("a"), "a")] * 3
    assert "rating.comment" not in annotations[0]
    facts = contents.facts(tables, ("responses", "comments"))
    assert (facts.licences, facts.people, facts.models) == ({"CC0": 1, "": 1}, 1, ["m@1", "n@1"])
    assert facts.left_out == ["Bytes of pictures.", "Ratings of these responses."]
    assert [name for name, _ in facts.sources] == [
        "records", "records", "images", "terms", "ratings", "items", "responses",
    ]  # fmt: skip
    write(tmp_path, tables, "comments")
    assert sorted(row["rating.comment"] for row in read(tmp_path, "annotations")) == ["", "", "a remark"]


def test_excluded_pictures_are_counted(tmp_path: Path) -> None:
    every = [*records(*(f"p{n:04}" for n in range(1203)), "a"), *records("b", image_url="b.png")]
    tables = tables_of(tmp_path, records=every)  # b has no link, and was not withdrawn
    marks = frozenset(f"p{n:04}" for n in range(1203))
    contents = write(tmp_path, tables, excluded=marks)
    assert contents.facts(tables, ()).left_out[-1] == "1,203 pictures that were reported or withdrawn."
    with pytest.raises(InputError, match=r"no picture to release \(1,203 excluded, 1 without a link\)"):
        write(tmp_path, tables_of(tmp_path / "b", records=[*records(*sorted(marks)), *records("a", image_url="a.png")]),
              excluded=marks)  # fmt: skip
    with pytest.raises(InputError, match=r"no picture to release \(it is empty\)"):
        write(tmp_path, tables_of(tmp_path / "c", records=[]))


def test_what_include_needs() -> None:
    full: Mapping[str, list[str]] = {"responses": ["R"], "ratings": ["Q"], "items": ["I"]}
    none: Mapping[str, list[str]] = {"responses": [], "ratings": [], "items": []}
    check_included(["responses", "response_ratings", "comments"], full)
    check_included(["comments"], none)
    check_included(["responses"], {**none, "responses": ["R"]})
    for include, tables, message in (
        (["comments", "bytes"], full, "include=bytes: must be one of responses, response_ratings, comments"),
        (["responses"], none, "include=responses: needs responses=$"),
        (["response_ratings"], none, "include=response_ratings: needs ratings= and items=$"),
        (["response_ratings"], {**full, "items": []}, "include=response_ratings: needs items=$"),
    ):
        with pytest.raises(InputError, match=message):
            check_included(include, tables)


def test_cells_of_a_file(tmp_path: Path) -> None:
    columns = {name: Column("") for name in ("x", "y")}
    rows: list[dict[str, Any]] = [{"x": True, "y": False}, {"x": None, "other": 1}, {"x": 0, "y": '=a,\n"b"'}]
    file = write_csv(tmp_path / "out", "f", "a row", columns, iter(rows))
    data = (tmp_path / "out" / "data" / "f.csv").read_bytes()
    assert data == b'x,y\ntrue,false\n,\n0,"=a,\n""b"""\n'
    assert (file.rows, file.size, len(file.sha256)) == (3, len(data), 64)
    assert write_csv(tmp_path / "out", "g", "a row", columns, []).rows == 0


def test_a_place_with_files_is_used_again_only_if_this_job_wrote_them(tmp_path: Path) -> None:
    out = tmp_path / "release"
    publishing.check_place(str(out), overwrite=False)
    (out / "data").mkdir(parents=True)
    (out / "notes.txt").write_text("of others")
    publishing.check_place(str(out), overwrite=False)
    (out / "data" / "responses.csv").write_text("x")
    with pytest.raises(InputError, match=r"has data/responses\.csv; use another folder or overwrite=true"):
        publishing.check_place(str(out), overwrite=False)
    with pytest.raises(InputError, match=r"this job did not write its data/responses\.csv"):
        publishing.check_place(str(out), overwrite=True)
    (out / "croissant.json").write_text("{}")
    publishing.check_place(str(out), overwrite=True)
    new = tmp_path / "new"
    (new / "data").mkdir(parents=True)
    for name in ("README.md", "croissant.json", "data/pictures.csv"):
        (new / name).write_text("new")
    publishing.publish(new, str(out))
    present = {path.relative_to(out).as_posix(): path.read_text() for path in out.rglob("*") if path.is_file()}
    assert present == {
        "notes.txt": "of others", "README.md": "new", "croissant.json": "new", "data/pictures.csv": "new",
    }  # fmt: skip


def test_what_was_written_and_left_out_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    def printed(images: str | None, **left_out: dict[str, int]) -> list[str]:
        cfg: Any = SimpleNamespace(out="/o", images=images, records="r")
        files = [
            SimpleNamespace(path=f"data/{name}.csv", rows=n) for name, n in (("pictures", 1), ("annotations", 1200))
        ]
        counts = {name: SimpleNamespace(left_out=left_out.get(name, {})) for name in ("pictures", "annotations")}
        contents: Any = SimpleNamespace(files=files, responses=left_out.get("responses", {}), **counts)
        release._show(cfg, contents)
        return capsys.readouterr().out.splitlines()

    files = ["release: /o", "  data/pictures.csv: 1 row", "  data/annotations.csv: 1,200 rows"]
    assert printed("I", pictures={"excluded": 0}) == files
    pictures, ratings = {"excluded": 1203, "without a link": 2}, {"not about a released item": 3}
    assert printed(None, pictures=pictures, annotations=ratings, responses={"not about a picture": 4}) == [
        *files, "  pictures left out: 1,203 excluded, 2 without a link",
        "  ratings left out: 3 not about a released item", "  responses left out: 4 not about a picture",
        "  authors and licences are unknown; set images= to release them",
    ]  # fmt: skip
