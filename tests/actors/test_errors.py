"""The one line that is shown of a library's error."""

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from actors.errors import first_line, has_other_shapes
from jobs.corpora.where import parse_where
from jobs.errors import InputError

ROOT = Path(__file__).resolve().parents[2]


def test_first_line() -> None:
    expected = {
        "": "ValueError",
        " \n\t\n": "ValueError",
        "one\ntwo": "one",
        "\n  one  \ntwo": "one",
        "what failed:\n  the disk\nmore": "what failed: the disk",
        "what failed:": "what failed:",
    }
    assert {text: first_line(ValueError(text)) for text in expected} == expected


def test_weights_of_other_shapes_are_recognised() -> None:
    expected = {"set ignore_mismatched_sizes=True": True, "size mismatch for head.weight": True, "no such file": False}
    assert {text: has_other_shapes(RuntimeError(text)) for text in expected} == expected


def test_an_error_without_text_is_named_by_its_type(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise pa.ArrowInvalid

    monkeypatch.setattr(ds, "dataset", fail)
    with pytest.raises(InputError, match="ArrowInvalid"):
        parse_where("a = 1", pa.schema({"a": pa.int64()}))


def test_the_first_line_of_an_error_is_taken_in_one_place() -> None:
    pattern = re.compile(r"str\((error|cause)\)[^\n]*splitlines\(\)|def _?first_line\(error")
    sources = [path for folder in ("actors", "jobs") for path in (ROOT / folder).rglob("*.py")]
    assert [str(path.relative_to(ROOT)) for path in sources if pattern.search(path.read_text(encoding="utf-8"))] == [
        "actors/errors.py"
    ]
