"""The list of frozen units is read as it is taken, wherever its text is cut."""

import io
import json
from collections.abc import Iterator

import pytest

from jobs.store import units
from jobs.store.locations import Object
from jobs.store.run import _json, _with_units
from jobs.store.units import Unit, frozen_units

UNITS = [
    Unit("one", (), rows=0),
    Unit(
        'zwö \\ " ] }', tuple(Object(f"/corpus/[{n}],{{", n, "e") for n in range(5)), "[1]", None, {"parts": [[0, 1]]}
    ),
    Unit("three", (Object("s3://b/ключ", 1, ""),), rows=7),
]


def document(made: list[Unit]) -> str:
    return b"".join(_with_units({}, (unit.to_json() for unit in made))).decode()


@pytest.mark.parametrize("made", [[], UNITS[:1], UNITS], ids=len)
def test_a_list_written_a_unit_at_a_time_is_the_text_of_the_whole(made: list[Unit]) -> None:
    for head in ({}, {"config": {"units": []}, "unit_seconds": 1.5, "versions": {}}):
        whole = {**head, "units": [unit.to_json() for unit in made]}
        written = b"".join(_with_units(head, (unit.to_json() for unit in made)))
        assert written == _json(whole) == json.dumps(whole, indent=1, sort_keys=True, ensure_ascii=False).encode()


@pytest.mark.parametrize("read", [1, 7, 64, 10_000])
@pytest.mark.parametrize("made", [[], UNITS[:1], UNITS], ids=len)
def test_units_are_read_wherever_the_text_is_cut(made: list[Unit], read: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(units, "_READ", read)
    for text in (document(made), json.dumps(json.loads(document(made)))):  # ours, and any other way of writing it
        found = list(frozen_units(io.StringIO(text)))
        assert [(unit, unit.extra) for unit in found] == [(unit, unit.extra) for unit in made]


@pytest.mark.parametrize("read", [7, 10_000])
def test_a_list_that_is_cut_off_is_no_list(read: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(units, "_READ", read)
    whole = document(UNITS)
    for end in range(0, whole.rindex("]"), 11):
        with pytest.raises(ValueError, match=r".+"):
            list(frozen_units(io.StringIO(whole[:end])))


def test_no_more_is_read_than_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(units, "_READ", 300)
    text = io.StringIO(document([Unit(f"{n:032}", ()) for n in range(1000)]))
    made: Iterator[Unit] = frozen_units(text)
    assert next(made).name == "0" * 32
    assert text.tell() <= 600
