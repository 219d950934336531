"""Pictures that a file gives by image_id or by URL: which line is refused, and what its message has."""

from pathlib import Path
from typing import Any

import pytest

from actors.ids import content_id
from jobs.items_from.input_rows import UnusableRowError
from jobs.items_from.named_pictures import Ids, Paths, Urls
from tests.factories import TableInMemory, image_row


def ids(*names: str) -> Ids:
    """Return the finder of `names` in a table with the pictures i0 to i9."""
    table: Any = TableInMemory("images", [image_row("", image_id=f"i{number}") for number in range(10)])
    return Ids(table, names)


def test_ids_that_the_table_lacks_are_refused_wherever_they_are() -> None:
    for names in ((), ("i3", "i9", "i3", "i0"), ("i1",) * 5000, ("x", "i3", "y", "i4", "x"), ("i1",) * 5000 + ("x",)):
        finder = ids(*names)
        for name in names:
            if name in ("x", "y"):
                with pytest.raises(UnusableRowError, match=f"no image_id '{name}' in images=") as error:
                    finder.find(name)
                assert error.value.reason == "no_such_picture"
            else:
                assert finder.find(name).image_id == name


def test_only_web_addresses_are_urls() -> None:
    assert Urls().find("HTTPS://i.example/a.jpg?b=c").name == "HTTPS://i.example/a.jpg?b=c"
    for name in ("a.jpg", "ftp://i.example/a.jpg", "https://", "https://i.example/a b.jpg", "http://[", ""):
        with pytest.raises(UnusableRowError):
            Urls().find(name)


def test_paths_are_relative_to_the_folder_or_absolute(tmp_path: Path) -> None:
    composed, decomposed = "M\u00fcnchen.png", "Mu\u0308nchen.png"
    both, either = ("a/\u00c5.png", "a/A\u030a.png"), "Z\u00fcrich.png"
    several = [f"{number}/same.png" for number in range(9)]
    for name in ("a/b.png", "B.JPG", decomposed, *both, either, *several):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    paths = Paths(str(tmp_path))
    cases = {
        "a/b.png": "a/b.png", f"{tmp_path}/a/b.png": "a/b.png", "./a//b.png": "a/b.png", "a/../B.JPG": "B.JPG",
        decomposed: decomposed, composed: decomposed, "Zu\u0308rich.png": either, either: either, both[0]: both[0],
        both[1]: both[1],
    }  # fmt: skip
    for name, path in cases.items():
        picture = paths.find(name)
        assert (picture.image_id, picture.name) == (content_id(path), f"{tmp_path}/{path}"), name
    hints = {
        "b.png": "there is 'a/b.png'", "a\\b.jpg": "there is 'B.JPG'", "x\\b.png": "there is 'a/b.png'",
        "b.jpg": "there is 'B.JPG'", "same.png": "there is '0/same.png'",
        "a/b": "there is 'a/b.png'", "a/b.png;x": "it is a list, set separators.pictures=';'",
        "x; a/b.png": "it is a list, set separators.pictures=';'", "x;y": "", "none": "",
        "x/b%2Epng": "there is 'a/b.png'", "M%C3%BCnchen.PNG": f"there is {decomposed!r}",
        "a/\u212b.png": "there is 'a/\u00c5.png'",  # a third form of two names
    }  # fmt: skip
    for name, hint in hints.items():
        with pytest.raises(UnusableRowError) as error:
            paths.find(name)
        message = str(error.value)
        among = f"among the 15 files of the folder {tmp_path.name}"
        assert message == f"no picture {name!r} {among}" + (f"; {hint}" if hint else "")


def test_a_message_names_no_folder_above_the_pictures(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"x")
    for name in ("/home/ada/a.png", "C:\\photos\\a.png"):
        with pytest.raises(UnusableRowError) as error:
            Paths(str(tmp_path)).find(name)
        assert str(error.value).endswith("; there is 'a.png'"), name
        assert "…/a.png" in str(error.value), name
        assert str(tmp_path.parent) not in str(error.value), name


def test_a_percent_encoded_name_has_a_hint(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    for name in ("sub/a b.png", "c%20d.png"):
        (tmp_path / name).write_bytes(b"x")
    paths = Paths(str(tmp_path))
    for name, hint in {"sub/a%20b.png": "sub/a b.png", "a%20B.png": "sub/a b.png", "c d.png": "c%20d.png"}.items():
        with pytest.raises(UnusableRowError, match=rf"; there is '{hint}'$"):
            paths.find(name)
    assert paths.find("c%20d.png").image_id == content_id("c%20d.png")
