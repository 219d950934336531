"""The details of a picture: its items, their lines, texts, responses and spans, in order."""

import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from jobs.judging.kept_rubric import KeptQuestion, KeptRubric, Rubrics
from jobs.viewer import loading, picture_details, queries
from jobs.viewer.picture_details import PictureBytes, PicturePlace
from jobs.viewer.queries import View
from tests.factories import image_row, rating
from tests.jobs.viewer.queried import loaded

NOTHING_KEPT: dict[str, Any] = {"rubrics": Rubrics({}), "texts": picture_details.Texts([]), "person": ""}


def test_an_item_shows_60_lines(tmp_path: Path) -> None:
    targets = [f"t{n:02}" for n in range(62)]
    rows = [rating("i", "m", "fit", "1", target=target) for target in targets]
    cursor = loaded(tmp_path, ratings=rows, images=[image_row("", image_id="i")])
    (item,) = picture_details.items_of(cursor, "i", View(), **NOTHING_KEPT)
    assert ([line.key.target for line in item.lines], item.lines_left_out) == (targets[:60], 2)


def test_lines_are_in_the_order_of_their_rubric_and_those_of_other_questions_come_last(tmp_path: Path) -> None:
    questions = ("second", "first", "b", "a")
    rows = [
        rating("i", "m", question, "1", condition=condition) | {"answers": ["2", "1"], "probabilities": [0.25, 0.75]}
        for question in questions
        for condition in "yx"
    ]
    cursor = loaded(tmp_path, ratings=rows, images=[image_row("", image_id="i")])
    asked = tuple(KeptQuestion(name, f"About {name}?", "", "ordinal", ()) for name in ("second", "first"))
    options = NOTHING_KEPT | {"rubrics": Rubrics({"r": KeptRubric("rubric", "r", asked)})}
    (item,) = picture_details.items_of(cursor, "i", View(), **options)
    assert [(line.key.question, line.key.condition) for line in item.lines] == [
        (question, condition) for question in ("second", "first", "a", "b") for condition in "xy"
    ]
    assert [line.text for line in item.lines[::2]] == ["About second?", "About first?", "", ""]
    assert item.lines[0].by_answer["1", "1"][0].probability == 0.75
    (item,) = picture_details.items_of(cursor, "i", View(question="r/a"), **options)
    assert [line.key.question for line in item.lines] == ["a", "a"]


def test_a_picture_shows_40_items(tmp_path: Path) -> None:
    items = [{"item_id": f"a{n:02}", "kind": "pair", "image_ids": ["i"], "attributes": [("n", "1")]} for n in range(42)]
    rows = [rating("i", "m", "fit", "1")]
    cursor = loaded(tmp_path, images=[image_row("", image_id="i")], items=items, ratings=rows)
    shown_items = picture_details.items_of(cursor, "i", View(), **NOTHING_KEPT)
    assert [item.item_id for item in shown_items] == ["i", *(f"a{n:02}" for n in range(39))]


def test_an_item_has_its_texts_by_role_and_the_responses_of_its_models(tmp_path: Path) -> None:
    texts = [{"text_id": f"t{n}", "role": role, "text": f"Text {n}."} for n, role in enumerate(("title", "title", ""))]
    response = {"item_id": "i", "prompt": "describe", "condition": "", "refusal_kind": None, "status": "ok"}
    answers: list[tuple[str, int, dict[str, Any]]] = [
        ("w", 1, {"text": "Second."}),
        ("w", 0, {"text": "First."}),
        ("v", 0, {"text": None, "status": "refused", "refusal_kind": "policy", "condition": "strict"}),
    ]
    responses = [
        {**response, "response_id": f"s{n}", "model": model, "sample": sample, **columns}
        for n, (model, sample, columns) in enumerate(answers)
    ]
    items = [{"item_id": "i", "kind": "", "image_ids": ["i"], "text_ids": ["t2", "t1", "t0", "gone"], "attributes": []}]
    images = [image_row("", image_id="i")]
    cursor = loaded(tmp_path, images=images, items=items, texts=texts, responses=responses)
    kept = picture_details.Texts(loading.open_places([str(tmp_path)]).of("texts"))
    item, *answered = picture_details.items_of(cursor, "i", View(), **NOTHING_KEPT | {"texts": kept})
    assert item.kind == "picture"
    assert item.context == {"text": "Text 2.", "title": "Text 1.\n\nText 0."}
    assert item.texts == [("text", "Text 2."), ("title", "Text 1."), ("title", "Text 0.")]
    assert [(about.item_id, *about.texts) for about in answered] == [
        ("s0", ("w · describe", "Second.")),
        ("s1", ("w · describe", "First.")),
        ("s2", ("v · describe · strict · policy · refused", "")),
    ]


def test_an_item_shows_the_pictures_of_its_row(tmp_path: Path) -> None:
    """An item without pictures of its own counts the one that it is shown with."""
    items: list[dict[str, Any]] = [
        {"item_id": "pair", "kind": "pair", "image_ids": ["p1", "p2"], "text_ids": [],
         "attributes": [("b", "2"), ("a", "1"), ("none", "")], "gold": ["x", "y"]},
        {"item_id": "p1", "kind": "image", "image_ids": [], "text_ids": [], "attributes": []},
    ]  # fmt: skip
    cursor = loaded(
        tmp_path,
        images=[image_row("", image_id=name) for name in ("p1", "p2")],
        items=items,
        ratings=[rating(item, "m", "fit", "1") for item in ("pair", "p1")],
    )
    items_shown = picture_details.items_of(cursor, "p1", View(), **NOTHING_KEPT)
    assert [(item.item_id, item.kind, item.pictures) for item in items_shown] == [
        ("p1", "image", 1),
        ("pair", "pair", 2),
    ]
    listed = {row["item_id"]: row["image_id"] for row in queries.ratings(cursor, View()).rows}
    assert listed == {"pair": "p1", "p1": "p1"}, "each with its first picture"
    assert items_shown[1].facts == [("a", "1"), ("b", "2"), ("correct answers", "x; y")]
    assert items_shown[1].context == {"a": "1", "b": "2"}


def test_spans_of_an_item_are_in_order_of_their_raters_and_places(tmp_path: Path) -> None:
    places = [("q", 3, 5), ("p", 4, 6), ("p", 0, 9), ("p", 0, 2), ("q", 0, 1)]
    common = {"item_id": "i", "condition": "", "method": "human", "kind": "mistake", "category": "c", "status": "ok"}
    spans = [
        {**common, "rater": rater, "text_id": "t", "start": start, "end": end, "marked": True}
        for rater, start, end in places
    ]
    spans.append({**spans[0], "start": 6, "end": 7, "marked": False})
    spans.append({**spans[0], "start": 8, "end": 9, "text_id": "in no table"})
    cursor = loaded(
        tmp_path,
        images=[image_row("", image_id="i")],
        texts=[{"text_id": "t", "role": "generated", "text": "012345678"}],
        spans=spans,
    )
    texts = picture_details.Texts(loading.open_places([str(tmp_path)]).of("texts"))
    (item,) = picture_details.items_of(cursor, "i", View(), rubrics=Rubrics({}), texts=texts, person="")
    assert [(span[0], span[-2]) for span in item.spans] == [
        ("p", "01"), ("p", "012345678"), ("p", "45"), ("q", "0"), ("q", "34"), ("q", "")
    ]  # fmt: skip


def test_a_marked_span_has_the_text_around_it() -> None:
    row = {"rater": "p", "kind": "mistake", "category": None, "score": None, "probability": None}
    around = picture_details.AROUND
    text = "<" + "b" * around + "span" + "a" * around + ">"
    marked = picture_details.marked_text({**row, "start": around + 1, "end": around + 5}, text)
    assert marked[-3:] == ("b" * around, "span", "a" * around)
    near = picture_details.marked_text({**row, "start": 1, "end": 3}, "a " + "b" * 2 * around)
    assert near[-3:] == ("a", " b", "b" * around)


COLOURS = ["red", "lime", "blue", "black"]


def png(colour: str) -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (40, 20), colour).save(out, "PNG")
    return out.getvalue()


@pytest.fixture
def pictures(tmp_path: Path) -> tuple[PictureBytes, list[tuple[int, int]]]:
    """Two objects with two row groups of two rows each, and the row groups that were read."""
    values = [png(colour) for colour in COLOURS]
    files = []
    for number, rows in enumerate(([values[0], None, values[1], b"damaged"], [values[2], values[2], values[3], None])):
        files.append(str(tmp_path / f"{number}.parquet"))
        table = pa.table({"bytes": pa.array(rows, pa.large_binary()), "n": range(4)})
        pq.write_table(table, files[-1], row_group_size=2)
    places = {f"{file}{row}": PicturePlace(file, row // 2, row % 2) for file in range(2) for row in range(4)}
    shown = PictureBytes(files, places.get)
    read: list[tuple[int, int]] = []
    whole = shown._read

    def counted(file: int, row_group: int) -> pa.ChunkedArray:
        read.append((file, row_group))
        return whole(file, row_group)

    shown._read = counted  # type: ignore[method-assign]
    return shown, read


def colour(data: bytes) -> tuple[int, ...]:
    pixel = Image.open(io.BytesIO(data)).convert("RGB").getpixel((2, 2))
    assert isinstance(pixel, tuple)
    return tuple(round(value / 255) for value in pixel)


def test_each_picture_is_that_of_its_place(pictures: tuple[PictureBytes, list[tuple[int, int]]]) -> None:
    shown, _ = pictures
    thumbnails = {name: shown.thumbnail(name, 10) for name in ("00", "02", "10", "12")}
    assert {name: colour(one.data) for name, one in thumbnails.items() if one} == {
        "00": (1, 0, 0), "02": (0, 1, 0), "10": (0, 0, 1), "12": (0, 0, 0)
    }  # fmt: skip
    assert {(one.width, one.height) for one in thumbnails.values() if one} == {(10, 5)}
    assert [shown.thumbnail(name, 10) for name in ("01", "03", "13", "unknown")] == [None] * 4


def test_a_row_group_is_read_once_and_the_oldest_leaves_first(
    pictures: tuple[PictureBytes, list[tuple[int, int]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown, read = pictures
    for name in ("00", "01", "02", "00"):
        shown.thumbnail(name, 10)
    assert read == [(0, 0), (0, 1)]
    shown.thumbnail("00", 20)  # another size, of bytes in memory; the group is the one used last
    assert read == [(0, 0), (0, 1)]
    size = shown._groups[0, 0].nbytes + shown._read(1, 0).nbytes
    monkeypatch.setattr(picture_details, "HELD_BYTES", size)
    shown.thumbnail("10", 10)
    assert list(shown._groups) == [(0, 0), (1, 0)]
    monkeypatch.setattr(picture_details, "HELD_BYTES", 0)
    shown.thumbnail("12", 10)
    assert list(shown._groups) == [(1, 1)]  # at least the one that is needed
