"""The list of pictures that must not be used, and what each kind of row becomes under it."""

import itertools
import re
import string
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.fs as pafs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.fetching import wikimedia
from actors.ids import content_id
from actors.stored_pictures import FolderFetcher
from jobs.errors import InputError
from jobs.runtime.command_line import cli
from jobs.runtime.selection import exclusions, picture_urls
from jobs.runtime.selection.exclusions import ExclusionFilter, Exclusions
from jobs.store.counts import Counts
from jobs.store.reading import open_table
from tests.cases import check_cases
from tests.factories import record, write_records

URL = "https://upload.example/a.jpg"


IMAGE_ID = content_id(URL)
UPLOAD = "https://upload.wikimedia.org/wikipedia/commons"
SIT_INS = "2/23/Sit-ins_%281960%29.jpg"


def listed(folder: Path, *entries: str) -> Exclusions:
    file = folder / "withdrawn.txt"
    file.write_text("".join(f"{entry}\n" for entry in entries), encoding="utf-8")
    return exclusions.read_exclusions(str(file))


def exclusion_filter(*marks: str) -> ExclusionFilter:
    return ExclusionFilter(frozenset(marks))


def test_entries_comments_and_repeats_are_read(tmp_path: Path) -> None:
    listed_entries = listed(tmp_path, "# reported in May", URL, "", f"{'0' * 32} # by its owner", URL)
    assert listed_entries.names == (URL, "0" * 32)
    assert {IMAGE_ID, "0" * 32} <= listed_entries.marks


def test_no_file_excludes_nothing_and_leaves_the_identity_alone(tmp_path: Path) -> None:
    assert not exclusions.read_exclusions(None)
    assert exclusions.identity(Exclusions()) == {}
    assert Exclusions().summary(()) == ""
    one, two = listed(tmp_path, URL), listed(tmp_path, "0" * 32)
    assert exclusions.identity(one) != exclusions.identity(two)


def test_a_list_that_is_absent_or_empty_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nowhere"):
        exclusions.read_exclusions(str(tmp_path / "nowhere.txt"))
    (tmp_path / "empty.txt").write_text("# nothing\n")
    with pytest.raises(InputError, match="no entries"):
        exclusions.read_exclusions(str(tmp_path / "empty.txt"))


def test_cells_of_a_sheet_and_other_encodings_are_refused(tmp_path: Path) -> None:
    one, file = "49c9eb9f8e4df80c93bb38434b616050", tmp_path / "list.txt"

    def check(text: str, refused: bool) -> None:
        file.write_text(text, encoding="utf-8")
        if refused:
            with pytest.raises(InputError, match="one per line"):
                exclusions.read_exclusions(str(file))
        else:
            assert len(exclusions.read_exclusions(str(file))) == 1

    cells = [f'"{one}"', f"a\n{one},asked", f"{one.upper()};x", f"{one}\tx", f"{one}# x", "'https://a.example/x.jpg'"]
    names = [f"{one} # x", f"{one}.jpg", "'a' picture.jpg", "https://a.example/x,y.jpg"]
    check_cases(check, [*((text, True) for text in cells), *((text, False) for text in names)])
    file.write_bytes(one.encode("utf-16"))
    with pytest.raises(InputError, match="byte 0 is not UTF-8"):
        exclusions.read_exclusions(str(file))


def test_which_pictures_an_entry_names(tmp_path: Path) -> None:
    cases = [
        (IMAGE_ID.upper(), IMAGE_ID, True),
        (IMAGE_ID, content_id("https://upload.example/b.jpg"), False),
        ("http://upload.example/a.jpg", URL, True),
        ("HTTPS://Upload.Example:443/a.jpg#top", URL, True),
        ("//upload.example/%61.jpg", URL, True),
        ("http://upload.example:80/a.jpg", URL, True),
        ("http://upload.example:81/a.jpg", URL, False),
        ("https://upload.example:8443/a.jpg", URL, False),
        ("https://upload.example/A.jpg", URL, False),
        # queries count where both have one
        (f"{URL}?x=1", URL, True),
        (URL, f"{URL}?x=1", True),
        (f"{URL}?x=1", f"{URL}?x=1", True),
        (f"{URL}?x=1", f"{URL}?x=2", False),
        # one file of Wikimedia
        (f"{UPLOAD}/thumb/{SIT_INS}/300px-Sit-ins_%281960%29.jpg", f"{UPLOAD}/{SIT_INS}", True),
        (f"{UPLOAD}/{SIT_INS}", f"{UPLOAD}/thumb/{SIT_INS}/lossless-page1-1024px-Sit-ins_%281960%29.jpg.jpg", True),
        (f"http://thumb.wikimedia.org/wikipedia/commons/thumb/{SIT_INS}/330px-S.jpg", f"{UPLOAD}/{SIT_INS}", True),
        (f"{UPLOAD}/2/23/Sit-ins_(1960).jpg?download", f"{UPLOAD}/{SIT_INS}", True),
        ("https://commons.wikimedia.org/wiki/Special:FilePath/Sit-ins (1960).jpg", f"{UPLOAD}/{SIT_INS}", True),
        ("https://commons.m.wikimedia.org/wiki/File:Sit-ins_(1960).jpg", f"{UPLOAD}/{SIT_INS}", True),
        ("https://en.wikipedia.org/wiki/File:Sit-ins_(1960).jpg", f"{UPLOAD}/{SIT_INS}", True),
        (
            "https://en.wikipedia.org/wiki/File:Sit-ins_(1960).jpg",
            f"https://upload.wikimedia.org/wikipedia/en/{SIT_INS}",
            True,
        ),
        (
            "https://en.wikipedia.org/wiki/File:Sit-ins_(1960).jpg",
            f"https://upload.wikimedia.org/wikipedia/de/{SIT_INS}",
            False,
        ),
        (f"{UPLOAD}/{SIT_INS}", f"{UPLOAD}/archive/2/23/20200101000000!Sit-ins_%281960%29.jpg", False),
        (f"{UPLOAD}/{SIT_INS}", f"https://upload.wikimedia.org/wikipedia/en/{SIT_INS}", False),
        # not web addresses
        ("pictures/a.jpg", "pictures/a.jpg", True),
        ("s3://b/a.jpg", "s3://b/a.jpg", True),
        ("https://[broken", URL, False),
        ("https://x:99999999/a.jpg", URL, False),
    ]

    def check(entry: str, row: str, same: bool) -> None:
        exclusion_filter = ExclusionFilter(listed(tmp_path, entry).marks)
        assert exclusion_filter.hit(row) is same
        assert ExclusionFilter(exclusion_filter._marks).mask(pa.chunked_array([["x", row, None]])).tolist() == [
            False,
            same,
            False,
        ]

    check_cases(check, cases)


def test_where_only_ids_are_known_the_originals_is_found(tmp_path: Path) -> None:
    entries = [
        f"{UPLOAD}/{SIT_INS}",
        f"http://upload.wikimedia.org/wikipedia/commons/{SIT_INS}?x",
        f"{UPLOAD}/thumb/{SIT_INS}/300px-Sit-ins_%281960%29.jpg",
        "https://commons.wikimedia.org/wiki/File:Sit-ins_(1960).jpg",
    ]
    recorded = [f"{UPLOAD}/{SIT_INS}", f"http://upload.wikimedia.org/wikipedia/commons/{SIT_INS}"]

    def check(entry: str, url: str) -> None:
        assert ExclusionFilter(listed(tmp_path, entry).marks).hit(content_id(url))

    check_cases(check, itertools.product(entries, recorded))
    other = listed(tmp_path, "http://Upload.example/a.jpg?x")
    assert ExclusionFilter(other.marks).hit(IMAGE_ID)


@given(
    st.text(max_size=60), st.sampled_from(["", "https://", "http://h/", "//", f"{UPLOAD}/a/ab/", f"{UPLOAD}/thumb/"])
)
def test_any_entry_matches_itself(text: str, start: str) -> None:
    entry = f"{start}{text}".strip() or "x"
    marks = exclusions.marks_of(entry)
    assert ExclusionFilter(marks).hit(entry)
    assert len(marks) <= 40


ENCODED = st.sampled_from([f"%{byte:02X}" for byte in range(256)])
LETTERS = (
    st.sampled_from(string.ascii_letters + string.digits + "._~-!' ")
    | ENCODED
    | st.characters(exclude_categories=["Cs"]).map(quote)
)


@given(st.lists(LETTERS, min_size=1, max_size=8).map("".join), st.sampled_from(["https", "http"]))
def test_a_plain_url_has_no_other_spelling(name: str, scheme: str) -> None:
    """So that comparing strings is enough."""
    url = f"{scheme}://upload.wikimedia.org/wikipedia/commons/a/ab/{name}.jpg"
    if re.search(picture_urls.PLAIN, url):
        assert wikimedia.parse(url).original_url() == url.replace("http:", "https:")
        assert name[0] == name[0].upper()
        assert url in picture_urls.plain_spellings(url)


def test_most_urls_of_a_corpus_are_plain() -> None:
    assert re.search(picture_urls.PLAIN, f"{UPLOAD}/{SIT_INS}")
    assert not re.search(picture_urls.PLAIN, f"{UPLOAD}/thumb/{SIT_INS}/300px-Sit-ins_%281960%29.jpg")


def test_an_excluded_picture_is_out_of_reach_of_the_stages() -> None:
    rows = pa.table(
        {
            "image_id": ["a", "b", "c"],
            "bytes": pa.array([b"1", b"2", None], pa.large_binary()),
            "status": ["ok", "ok", "missing"],
        }
    )
    results = exclusion_filter("b")
    held = exclusions.withhold(rows, item="image_id", exclusion_filter=results)
    assert held["bytes"].to_pylist() == [b"1", None, None]
    assert held["status"].to_pylist() == ["ok", "reported", "missing"]
    assert held.schema == rows.schema
    assert results.take_matched() == {"b": 1}
    assert results.take_matched() == {}


def test_rows_are_found_by_their_url_and_by_what_they_show(tmp_path: Path) -> None:
    results = ExclusionFilter(listed(tmp_path, "http://upload.example/a.jpg?x").marks)
    rows = pa.table(
        {
            "item_id": ["1", "2", "3"],
            "source_url": ["//upload.example/a.jpg", "https://upload.example/b.jpg", None],
            exclusions.SHOWN: pa.array([None, [None, URL], ["z"]], pa.list_(pa.string())),
            "pictures": pa.array([[b"1"], [b"2", b"3"], []], pa.list_(pa.large_binary())),
        }
    )
    held = exclusions.withhold(rows, item="item_id", exclusion_filter=results)
    assert held["status"].to_pylist() == ["reported", "reported", "ok"]
    assert held["pictures"].to_pylist() == [None, None, []]
    assert exclusions.SHOWN not in held.column_names
    assert (
        exclusions.SHOWN
        not in exclusions.withhold(rows, item="item_id", exclusion_filter=exclusion_filter()).column_names
    )


def test_an_excluded_file_is_not_read(tmp_path: Path) -> None:
    asked = pa.table({"image_id": ["a"], "source_url": [URL], "path": [str(tmp_path / "never-read.jpg")]})
    held = exclusions.withhold(asked, item="image_id", exclusion_filter=exclusion_filter("a"))
    (row,) = FolderFetcher(open_filesystem=pafs.LocalFileSystem)(held).to_pylist()
    assert (row["status"], row["error_kind"], row["attempts"], row["bytes"]) == ("reported", "excluded", 0, None)


def test_entries_that_match_are_counted(tmp_path: Path) -> None:
    listed_entries = listed(tmp_path, f"{URL}?x", "0" * 32, URL)
    assert "3 of 3 entries match no picture" in listed_entries.summary([])
    used = ExclusionFilter(listed_entries.marks)
    used.hit(IMAGE_ID)
    assert "1 of 3 entries match no picture" in listed_entries.summary(used.matched)
    used.hit("0" * 32)
    assert "3 of 3 entries match a picture" in listed_entries.summary(used.matched)


def test_each_row_is_counted_once_for_each_mark_over_all_batches() -> None:
    """A row whose URL is on the list as it is written is not looked up again by its picture."""
    marks = exclusions.marks_of(URL)
    used = ExclusionFilter(marks)
    for _ in range(2):
        assert used.mask(pa.array([URL, None, "https://upload.example/b.jpg", URL])).tolist() == [
            True,
            False,
            False,
            True,
        ]
    assert used.matched == {URL: 4}
    assert used.mask(pa.array(["//upload.example/a.jpg"])).tolist() == [True]
    assert used.take_matched()[URL] == 4
    assert used.take_matched() == {}


def test_where_only_ids_are_known_usual_ports_and_queries_are_found(tmp_path: Path) -> None:
    """The corpus may have the URL with its query and without a usual port, or without either."""
    entry = ExclusionFilter(listed(tmp_path, "http://host.example:80/a.jpg?size=2").marks)
    for url in ("http://host.example/a.jpg?size=2", "https://host.example/a.jpg", "//host.example/a.jpg?size=2"):
        assert entry.hit(content_id(url)), url
    other = ExclusionFilter(listed(tmp_path, "http://host.example:8080/a.jpg").marks)
    assert other.hit(content_id("http://host.example:8080/a.jpg"))
    assert not other.hit(content_id("http://host.example/a.jpg"))


def test_counts_of_units_add_up() -> None:
    counts = Counts()
    exclusions.count(counts, {})
    assert counts.tallies == {}
    exclusions.count(counts, {"a": 1})
    exclusions.count(counts, {"a": 2, "b": 1})
    assert counts.tallies == {exclusions.TALLY: {"a": 3, "b": 1}}


@pytest.mark.parametrize(
    "entry", [IMAGE_ID.upper(), "http://upload.example/a.jpg", f"{URL}?x", "//UPLOAD.example/a.jpg#1"]
)
def test_curate_finds_pictures_in_any_spelling_and_says_how_many(
    tmp_path: Path, entry: str, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [record("a", image=URL), record("c", image="https://upload.example/c.jpg")]
    write_records(str(tmp_path / "m"), [rows])
    listed(tmp_path, entry, "https://upload.example/nowhere.jpg")
    arguments = [f"input={tmp_path}/m", f"exclusions={tmp_path}/withdrawn.txt"]
    for more in ([f"out={tmp_path}/r"], [f"out={tmp_path}/r"], [f"out={tmp_path}/p", "plan=true"]):  # resumed; planned
        capsys.readouterr()
        assert cli.main("curate", [*arguments, *more]) == 0
        assert "exclusions: 1 of 2 entries match no picture here" in capsys.readouterr().out
    assert open_table(f"{tmp_path}/r").counts().filtered == {"excluded": 1}


def test_curate_drops_excluded_pictures_after_its_own_rules(tmp_path: Path) -> None:
    rows = [record("a", image=URL), record("b", image=URL), record("c", image="https://upload.example/c.jpg")]
    write_records(str(tmp_path / "m"), [rows])
    (tmp_path / "withdrawn.txt").write_text(f"{URL}\n{'0' * 32}\n")
    manifest = cli.execute(
        "curate", [f"input={tmp_path}/m", f"out={tmp_path}/r", f"exclusions={tmp_path}/withdrawn.txt"]
    )
    assert isinstance(manifest, dict)
    assert manifest["counts"]["filtered"] == {"one_row_an_image": 1, "excluded": 1}
    assert manifest["identity"]["rules"][-1] == "one_row_an_image"  # the list is another entry, which may grow


def test_the_list_of_a_run_is_read_by_its_workers(tmp_path: Path) -> None:
    listed = exclusions.Exclusions(("a",), (frozenset({"a", "b"}),))
    files: dict[str, bytes] = {}
    run: Any = SimpleNamespace(keep=lambda name, data: files.setdefault(name, data) and f"{tmp_path}/{name}")
    uri = exclusions.keep(run, listed)
    assert files == {"exclusions.txt": b"a\nb"}
    assert uri is not None
    Path(uri).write_bytes(files["exclusions.txt"])
    assert [exclusions.load(uri).hit(name) for name in ("a", "b", "c")] == [True, True, False]
    assert not exclusions.load(None)
    assert exclusions.keep(run, exclusions.Exclusions()) is None
