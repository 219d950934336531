"""Pictures that a file gives by image_id or by URL: which line is refused, and what its message has."""

from types import SimpleNamespace
from typing import Any

import pytest

from jobs.errors import InputError
from jobs.items_from.pictures import Ids, NoPictureError, Urls
from tests.factories import TableInMemory, image_row

FILE: Any = SimpleNamespace(at=lambda line: f"f.csv, line {line}")


def checked(*names: str) -> None:
    """Look up the pictures in lines 2, 3, … in a table with the pictures i0 to i9."""
    table: Any = TableInMemory("images", [image_row("", image_id=f"i{number}") for number in range(10)])
    ids = Ids(table, FILE)
    for line, name in enumerate(names, 2):
        assert ids.find(name, line).image_id == name
    ids.finish()


def test_the_first_line_with_an_unknown_id_is_refused() -> None:
    checked()
    checked("i3", "i9", "i3", "i0")
    for absent in (["x", "y"], ["y", "x"], [f"x{number}" for number in range(9)]):
        with pytest.raises(InputError) as error:
            checked("i3", "i4", *absent, "i5", *absent)
        assert str(error.value).startswith("f.csv, line 4: ")
        assert f"({len(absent)} such ids)" in str(error.value)


def test_ids_are_compared_in_any_number() -> None:
    many = ["i1"] * 5000
    checked(*many)
    with pytest.raises(InputError, match="line 5002: "):
        checked(*many, "x", "i1")


def test_only_web_addresses_are_urls() -> None:
    assert Urls().find("HTTPS://i.example/a.jpg?b=c", 2).name == "HTTPS://i.example/a.jpg?b=c"
    for name in ("a.jpg", "ftp://i.example/a.jpg", "https://", "https://i.example/a b.jpg", "http://[", ""):
        with pytest.raises(NoPictureError):
            Urls().find(name, 2)
