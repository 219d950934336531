"""Tables of ratings that hold the same key are refused; those of other raters, conditions or items are not."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jobs.errors import InputError
from jobs.judging.rating_tables import GROUPS, open_ratings
from jobs.runtime import cli
from jobs.store import keys
from jobs.store.reading import open_table
from jobs.tables import table
from tests.jobs.ratings_rows import rating, write

KEY = table("ratings").key


def put(folder: Path, name: str, items: range, rater: str = "m@1", **more: Any) -> str:
    return write(folder / name, "ratings", [rating(f"i{n}", rater, "q", "3", **more) for n in items])


def test_a_report_refuses_one_rater_in_two_tables(tmp_path: Path) -> None:
    """Two runs of one judge, with and without context: the keys are equal, and were averaged in silence."""
    first, second = put(tmp_path, "with", range(300)), put(tmp_path, "without", range(299, 400))
    with pytest.raises(InputError) as refused:
        cli.execute("report", [f"ratings=[{first},{second}]", f"out={tmp_path}/out"])
    for word in (first, second, "item_id=i299", "rater=m@1"):
        assert word in str(refused.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "other",
    [{"rater": "m@2"}, {"condition": "c"}, {"target": "Japan"}, {"sample": 1}, {"order": "fast"}, {"method": "loglik"}],
)
def test_what_differs_in_the_key_goes_together(tmp_path: Path, other: dict[str, Any]) -> None:
    places = [put(tmp_path, "a", range(70)), put(tmp_path, "b", range(70), **other)]
    assert [source.uri for source in open_ratings(places)] == places


def test_people_of_several_imports_go_together_and_one_person_twice_does_not(tmp_path: Path) -> None:
    places = [put(tmp_path, "a", range(70), "p1"), put(tmp_path, "b", range(70, 140), "p1")]
    assert len(open_ratings(places)) == 2
    with pytest.raises(InputError, match="item_id=i139"):
        open_ratings([*places, put(tmp_path, "c", range(139, 141), "p1")])


def test_a_table_named_twice_is_one(tmp_path: Path) -> None:
    place = put(tmp_path, "a", range(3))
    assert [source.uri for source in open_ratings([place, f"{tmp_path}/*", f"{place}/"])] == [place]


def test_a_part_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "HASHES_PER_PART", 16)
    places = [put(tmp_path, "a", range(200)), put(tmp_path, "b", range(500, 700)), put(tmp_path, "c", range(199, 205))]
    sources = [open_table(place) for place in places]
    found = keys.shared_key(sources, KEY, groups=GROUPS)
    assert found is not None
    assert (found.key["item_id"], found.first.uri, found.second.uri) == ("i199", places[0], places[2])
    assert keys.shared_key(sources[:2], KEY, groups=GROUPS) is None


def test_equal_hashes_of_other_keys_are_no_duplicates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every key gets the same hash: only a comparison of the keys themselves tells."""
    monkeypatch.setattr(keys, "key_hashes", lambda batch, key: np.zeros(batch.num_rows, "u8"))
    sources = [open_table(put(tmp_path, name, items)) for name, items in (("a", range(80)), ("b", range(80, 90)))]
    assert keys.shared_key(sources, KEY, groups=GROUPS) is None


def test_raters_of_one_table_each_need_no_hashes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no(*_: Any) -> Any:
        raise AssertionError("hashed")

    monkeypatch.setattr(keys, "key_hashes", no)
    assert len(open_ratings([put(tmp_path, name, range(70), f"{name}@1") for name in "abc"])) == 3
