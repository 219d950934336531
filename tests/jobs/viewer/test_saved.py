"""Saved views and tags: the files, two viewers at once, and what a person does with them on the pages."""

import re
import threading
from pathlib import Path
from urllib.parse import urlencode

import pyarrow as pa
import pytest

from jobs.errors import InputError
from jobs.judging.kept_rubric import Rubrics
from jobs.runtime.command_line import cli
from jobs.runtime.selection.exclusions import read_exclusions
from jobs.viewer import queries
from jobs.viewer.facets import read_facets, side_bar
from jobs.viewer.loading import load_map, load_tags
from jobs.viewer.queries import EMPTY, view_of
from jobs.viewer.saved import MOST_CHARACTERS, Saved, check_name, folder_of
from tests.cases import check_cases
from tests.factories import image_row, rating, rows_of
from tests.jobs.viewer.queried import loaded, shown
from tests.jobs.viewer.small_study import BLUE, GOLD, GREEN, RED, Served, served, viewer_of, write_study


def test_tags_are_files_of_ids_that_people_may_edit(tmp_path: Path) -> None:
    saved = Saved(str(tmp_path / "saved"))
    assert (saved.tags(), saved.views()) == ({}, {})
    saved.tag("two words", [RED, BLUE, RED], add=True)
    file = Path(saved.tag_file("two words"))
    assert file == tmp_path / "saved" / "tags" / "two words.txt"
    file.write_text(f"# of the first round\r\n{file.read_text()}\n{GREEN} # green")
    saved.tag("two words", [GREEN, GOLD], add=True)
    assert saved.tags() == {"two words": [RED, BLUE, GREEN, GOLD]}
    saved.tag("two words", [RED, GREEN], add=False)
    assert file.read_text() == f"# of the first round\n{BLUE}\n{GOLD}\n"
    assert saved.spelling("Two Words") == "two words"
    assert saved.spelling("other") == "other"
    saved.tag("two words", [BLUE, GOLD], add=False)
    saved.tag("never given", [BLUE], add=False)
    assert not any((tmp_path / "saved" / "tags").iterdir())


def test_a_tag_is_a_list_of_exclusions_and_of_pictures_for_items(tmp_path: Path) -> None:
    place = write_study(tmp_path)
    saved = Saved(folder_of(place))
    saved.tag("look", [RED, GOLD], add=True)
    assert read_exclusions(saved.tag_file("look")).names == (RED, GOLD)
    cli.execute("items", [f"input={saved.tag_file('look')}", f"images={place}/images", f"out={tmp_path}/tagged"])
    assert [row["image_ids"] for row in rows_of(f"{tmp_path}/tagged/items")] == [[RED], [GOLD]]


def test_views_are_a_file_of_names_and_addresses(tmp_path: Path) -> None:
    saved = Saved(str(tmp_path))
    saved.save_view("Ärger im Süden", "?region=South&page=3&show=1&other=x")
    saved.save_view("b", "ratings?rater=m&rated=ok")
    saved.save_view("b", "compare?a=m&b=n")
    assert (tmp_path / "views.json").read_text(encoding="utf-8") == (
        '{\n "b": "compare?a=m&b=n",\n "Ärger im Süden": "?region=South"\n}\n'
    )
    saved.save_view("b", None)
    assert saved.views() == {"Ärger im Süden": "?region=South"}
    for address in ("https://elsewhere.example/?a=m", "//elsewhere.example", "pictures/x", "javascript:alert(1)"):
        with pytest.raises(InputError):
            saved.save_view("c", address)
    for content in ("{", "[]", '{"a": 1}', '{"a": "//elsewhere.example"}'):
        (tmp_path / "views.json").write_text(content)
        with pytest.raises(InputError):
            saved.save_view("c", "?region=South")
        assert (tmp_path / "views.json").read_text() == content


def test_names_are_names_of_files() -> None:
    def refused(name: str) -> None:
        with pytest.raises(InputError):
            check_name("tag", name)

    check_cases(
        refused, ["", " ", ".", "..", "a/b", "../x", "a\\b", "a:b", "-a", "a.", "a\0", "x" * (MOST_CHARACTERS + 1)]
    )
    assert [check_name("tag", name) for name in (" a  b\n", "Süd (2)", "x" * MOST_CHARACTERS, "v1.2", "雨")] == [
        "a b", "Süd (2)", "x" * MOST_CHARACTERS, "v1.2", "雨",
    ]  # fmt: skip


def test_the_folder_is_in_the_study_or_next_to_a_table(tmp_path: Path) -> None:
    place = Path(write_study(tmp_path))
    assert {folder_of(str(at)) for at in (place, place / "images", place / "one.parquet")} == {f"{place}/saved"}


def test_two_viewers_at_once_lose_nothing(anywhere: str) -> None:
    """Each of two viewers, of which each has two threads, adds pictures to the same tag and views to the same file."""
    viewers, many = [Saved(anywhere), Saved(anywhere)], 12 if anywhere.startswith("/") else 2

    def use(number: int) -> None:
        for k in range(many):
            viewers[number % 2].tag("t", [f"{number}-{k}"], add=True)
            viewers[number % 2].save_view(f"{number}-{k}", f"?q={number}-{k}")

    threads = [threading.Thread(target=use, args=(number,)) for number in range(4 if many > 2 else 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    names = {f"{number}-{k}" for number in range(len(threads)) for k in range(many)}
    assert set(viewers[0].tags()["t"]) == names
    assert viewers[1].views() == {name: f"?q={name}" for name in sorted(names)}


def test_a_tag_filters_pictures_and_ratings_and_has_counts(tmp_path: Path) -> None:
    items = [{"item_id": "pair", "kind": "pair", "image_ids": ["b", "c"], "attributes": []}]
    rows = [rating("pair", "m", "fit", "1"), rating("a", "m", "fit", "2")]
    cursor = loaded(tmp_path, images=[image_row("", image_id=name) for name in "abcd"], items=items, ratings=rows)
    load_tags(cursor, {"late": ["a"], "blurry": ["b", "a", "b", "gone"]})
    assert shown(cursor, tag="blurry") == ["a", "b"]
    assert shown(cursor, tag="blurry", rater="m", value="1") == ["b"]  # not the other picture of the pair
    assert shown(cursor, tag=EMPTY) == ["c", "d"]
    assert shown(cursor, tag="none") == []
    assert [row["tags"] for row in queries.pictures(cursor, view_of({})).rows] == [
        ["blurry", "late"],
        ["blurry"],
        [],
        [],
    ]
    assert [row["item_id"] for row in queries.ratings(cursor, view_of({"tag": "late"})).rows] == ["a"]
    facets = read_facets(cursor, Rubrics({}))
    assert [(option.value, option.rows) for option in facets.tags] == [("blurry", 2), ("late", 1), (EMPTY, 0)]
    assert side_bar(cursor, view_of({"tag": "late"}), facets).tags == {"blurry": 2, "late": 1, EMPTY: 2}
    assert side_bar(cursor, view_of({"rater": "m", "value": "2"}), facets).tags == {"blurry": 1, "late": 1}
    load_tags(cursor, {})
    assert read_facets(cursor, Rubrics({})).tags == []


def test_a_lasso_selects_the_pictures_inside(tmp_path: Path) -> None:
    cursor = loaded(tmp_path, images=[image_row("", image_id=name) for name in "abcd"],
                    ratings=[rating(name, "m", "fit", "1") for name in "ad"])  # fmt: skip
    places = {"a": (0.2, 0.2), "b": (0.8, 0.2), "c": (0.5, 0.9), "d": (0.5, 0.45), "gone": (0.1, 0.1)}
    load_map(
        cursor,
        pa.table({"image_id": [*places], **{axis: [at[k] for at in places.values()] for k, axis in enumerate("xy")}}),
    )
    horseshoe = "0,0;1,0;1,0.5;0.6,0.5;0.6,0.3;0.4,0.3;0.4,0.5;0,0.5"  # around d, which it leaves out
    assert shown(cursor, within=horseshoe) == ["a", "b"]
    assert shown(cursor, within=";".join(reversed(horseshoe.split(";")))) == ["a", "b"]
    assert shown(cursor, within="0,0;1,0;1,1;0,1") == ["a", "b", "c", "d"]
    assert shown(cursor, within="0.4,0.4;0.6,0.4;0.5,1", rater="m") == ["d"]
    assert [row["item_id"] for row in queries.ratings(cursor, view_of({"within": horseshoe})).rows] == ["a"]
    assert shown(cursor, **{"to.map.y": "0.5", "from.map.x": "0.4"}) == ["b", "d"]  # by the keyboard

    def refused(within: str) -> None:
        with pytest.raises(InputError):
            shown(cursor, within=within)

    check_cases(refused, ["x", "0,0;1,1", "0,0;1,1;2", "0,0;1,1;2,3,4", "0,0;1,1;a,b", ";".join(["0,0"] * 201), "nan"])
    listed = queries.on_map(cursor, view_of({"rater": "m"}), "")
    assert {row["image_id"]: (row["x"], row["y"]) for row in listed.rows} == {name: places[name] for name in "ad"}


def post(site: Served, path: str, *fields: tuple[str, str], **headers: str) -> str:
    """Send a form; return the address below the viewer's that it leads to, or the status and text of a refusal."""
    reply = site.ask(f"/{site.token}/{path}", method="POST", body=urlencode(fields), **headers)
    if reply.status != 303:
        return f"{reply.status} {reply.text}"
    return reply.headers["location"].removeprefix(f"/{site.token}/")


def test_a_person_tags_pictures_and_saves_views(tmp_path: Path) -> None:
    place = write_study(tmp_path)
    saved = Saved(folder_of(place))
    with served(viewer_of(place, tmp_path / "db")) as site, served(viewer_of(place, tmp_path / "db2")) as other:
        assert post(site, "tags?value=1&page=2", ("tag", "look "), ("image_id", RED), ("image_id", GOLD)) == (
            "?value=1&page=2"
        )
        assert post(site, "tags?rater=p1&value=1", ("tag", "Look"), ("all", "1")) == "?rater=p1&value=1"
        assert saved.tags() == {"look": [RED, GOLD, GREEN, BLUE]}
        page = site.page("?tag=look")
        assert "4 pictures" in page
        assert re.findall(r'class="tag"[^>]*>(\w+)', page) == ["look"] * 4
        back = post(
            site, "tags?value=1", ("tag", "look"), ("image_id", RED), ("picture", "1"), ("at", "0"), ("remove", "1")
        )
        assert back == f"pictures/{RED}?value=1&at=0"
        assert 'aria-label="Remove the tag look"' in site.page(f"pictures/{GREEN}")
        assert 'aria-label="Remove the tag look"' not in site.page(f"pictures/{RED}")
        post(other, "tags?", ("tag", "new"), ("image_id", RED))  # another viewer
        assert re.findall(r"tag=(\w+)", site.page("saved")) == ["look", "new"]
        refused = [post(site, "tags?", *fields) for fields in (
            [("tag", "x")], [("tag", "x"), ("image_id", "gone")], [("tag", "../x"), ("image_id", RED)],
            [("image_id", RED)],
        )]  # fmt: skip
        assert [text[:3] for text in refused] == ["400"] * len(refused)
        assert post(site, "tags?", ("tag", "x"), ("image_id", RED), Sec_Fetch_Site="cross-site")[:3] == "403"
        assert post(site, "saved", ("name", "x"), ("address", "?q=x"), Sec_Fetch_Site="cross-site")[:3] == "403"
        assert post(site, "saved", ("name", "The <b>one</b>"), ("address", "?q=x"))[:3] == "400"
        assert post(site, "saved", ("name", "reds"), ("address", "ratings?q=red")) == "saved"
        assert "ratings?q=red" in other.page("saved")
        assert post(other, "saved", ("name", "reds"), ("remove", "1")) == "saved"
        assert "ratings?q=red" not in site.page("saved")
        assert "Save view" in site.page("ratings?q=red")
        assert "Save view" not in site.page("ratings")
    assert saved.tags() == {"look": [GOLD, GREEN, BLUE], "new": [RED]}


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    place = write_study(tmp_path)
    Path(place, "saved").write_text("a file")
    with pytest.raises(InputError, match="saved"):
        Saved(folder_of(place)).tag("x", [RED], add=True)
