"""Labels and numbers of ratings, by hand."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from actors.items import QUESTIONS, TARGETS
from jobs.errors import InputError
from jobs.judging.calibration import HALVES, half_of, halves, other_half
from jobs.judging.targets import (
    LISTS,
    count_labels,
    count_ratings,
    own_labels,
    questions_per_item,
    ratings_per_item,
    read_targets,
)
from tests.factories import TableInMemory


def test_labels_of_a_list_and_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "labels.txt").write_text("# source\njoy # not sadness\n\n C# \n#x\n", encoding="utf-8-sig")
    assert read_targets(str(tmp_path / "labels.txt")) == ("joy", "C#")
    assert read_targets(["a", 1, "#metoo", "C #", "a # b"]) == ("a", "1", "#metoo", "C #", "a # b")
    assert read_targets(None) is None
    (tmp_path / "comments.txt").write_text("# a\n #b\n")
    for wrong in ([], [" "], ["a", "a "], str(tmp_path / "comments.txt")):
        with pytest.raises(InputError):
            read_targets(wrong)


def test_a_users_file_takes_precedence_over_a_list_of_the_same_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = min(path.stem for path in LISTS.glob("*.txt"))
    monkeypatch.chdir(tmp_path)
    shipped = read_targets(name)
    assert shipped
    assert shipped == read_targets(f"{LISTS}/{name}.txt")
    Path(name).mkdir()
    assert read_targets(name) == shipped
    Path(name).rmdir()
    Path(name).write_text("joy\n")
    assert read_targets(name) == ("joy",)
    Path("labels").write_bytes(b"ok\n\xff\n")
    with pytest.raises(InputError, match=r"targets=labels: must be a text file in UTF-8 \(byte 3\)"):
        read_targets("labels")
    with pytest.raises(InputError, match=rf"targets=nowhere: no such file, and no such list .*{name}"):
        read_targets("nowhere")
    for absent in ("labels.txt", "folder/labels"):
        with pytest.raises(InputError, match=rf"^targets={absent}: does not exist"):
            read_targets(absent)


def test_numbers_of_ratings_by_hand() -> None:
    rows = pa.table({TARGETS: [["a", "b", "c"], [], None]})
    assert ratings_per_item(rows, per_label=2, once=1, labels=5) == [7, 11, 11]
    asked = pa.table({QUESTIONS: [["x", "y"], [], None]})
    assert questions_per_item(asked, samples=3) == [6, 3, 3]


def items(*targets: list[str] | None) -> Any:
    source: Any = TableInMemory("items", [{"item_id": str(n), TARGETS: t} for n, t in enumerate(targets)])
    source.name, source.rows = "items", len(targets)
    return source


def test_labels_of_items_count_instead_of_the_common_ones() -> None:
    source = items(["a", "b"], None, ["c"], [])
    counts = count_labels(source, ["x", "y", "z"], per_label=2, once=1, asker="the rubric")
    assert counts.total == (1 + 4) + (1 + 6) + (1 + 2) + (1 + 6)
    assert list(own_labels(source)) == ["a", "b", "c"]
    with pytest.raises(InputError, match="2 items have no targets"):
        count_labels(source, [], per_label=2, once=1, asker="the rubric")
    assert count_labels(items(["a"]), [], per_label=2, once=1, asker="the rubric").total == 3
    counts = count_labels(items(["a"], ["b", "c"], None), ["x", "y"], per_label=2, asker="the rubric")
    assert counts.total == 2 + 4 + 4
    assert callable(counts.rows_out)
    assert counts.rows_out(pa.table({TARGETS: [["a", "b", "c"], None]})) == [6, 4]


def test_pictures_need_common_labels() -> None:
    source = items(None, None)
    source.name = "images"
    counts = count_labels(source, ["x", "y"], per_label=2, once=1, asker="the rubric")
    assert (counts.rows_out, counts.total) == (5, 10)
    assert list(own_labels(source)) == []
    with pytest.raises(InputError, match="targets=null"):
        count_labels(source, [], per_label=2, asker="the rubric")


def test_labels_of_the_job_count_instead_of_the_rubrics() -> None:
    questions = [SimpleNamespace(targets=True), SimpleNamespace(targets=True), SimpleNamespace(targets=False)]
    rubric: Any = SimpleNamespace(
        name="r", questions=questions, targets=("a", "b", "c"), asks_targets=True, asks_own_questions=False
    )
    source = items(["p", "q", "r", "s"], None)
    assert count_ratings(source, rubric, ("x",), samples=2).total == (2 + 4 * 4) + (2 + 4)
    assert count_ratings(source, rubric, None, samples=2).total == (2 + 4 * 4) + (2 + 4 * 3)
    source.name = "images"
    assert count_ratings(source, rubric, ("x", "y")) == (1 + 2 * 2, 2 * (1 + 2 * 2))
    rubric.asks_targets = False
    assert count_ratings(source, rubric, None, samples=3) == (9, 18)


def test_halves_are_disjoint_and_keep_values_together() -> None:
    names = [f"item {n}" for n in range(200)]
    parts = halves(names, 1)
    assert 70 < sum(part == "a" for part in parts.values()) < 130
    assert parts == {name: half_of(name, 1) for name in names}
    assert parts != halves(names, 2)
    assert [other_half(half) for half in HALVES] == ["b", "a"]
    together = halves(names, 1, {name: name[-1] for name in names})
    assert all(part == half_of(name[-1], 1) for name, part in together.items())
    with pytest.raises(InputError, match="item 1"):
        halves(names, 1, {"item 0": "x"})
