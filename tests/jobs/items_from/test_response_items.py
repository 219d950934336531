"""Items made from responses: rows, labels, draws, units."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from actors.ids import content_id
from actors.items import NO_RESPONSE
from jobs.errors import InputError
from jobs.items_from.response_items import (
    NO_RATING,
    AskedItem,
    QuestionLabels,
    picture_item,
    read_labels,
    response_item,
)
from jobs.judging.items import open_sources, reading
from jobs.metrics.answers import MAX_LEVELS
from jobs.metrics.majority import NO_MAJORITY
from jobs.runtime.command_line import cli
from jobs.store.reading import open_table
from jobs.store.writer import UnitTask
from tests.cases import check_cases
from tests.factories import TableInMemory, century_rating, picture, rating, rows_of, write_table, write_units

PICTURES = [picture(number) for number in range(6)]
IDS = [row["image_id"] for row in PICTURES]


def response(item: str, *, model: str, prompt: str = "explicit", sample: int = 0, **columns: Any) -> dict[str, Any]:
    return {
        "response_id": f"{item[:6]}-{model}-{prompt}-{sample}",
        "item_id": item,
        "model": model,
        "prompt": prompt,
        "sample": sample,
        "text": f"{model} on {item[:4]}",
        "finish_reason": "stop",
        "condition": "",
        "status": "ok",
        **columns,
    }


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    """Six pictures in units of 4 and 2, three responses by each of two models, and labels by three raters."""
    write_units(tmp_path / "images", "images", [PICTURES[:4], PICTURES[4:]])
    for model in ("a", "b"):
        rows = [[response(i, model=model, sample=n) for i in ids for n in range(3)] for ids in (IDS[:4], IDS[4:])]
        if model == "b":
            rows[0][0] |= {"text": "I cannot help.", "status": "refused", "refusal_kind": "full"}
            rows[1][5] |= {"text": None, "status": "error"}
        write_units(tmp_path / "responses" / model, "responses", rows)
    labels = {IDS[0]: "Asia Asia Africa", IDS[1]: "Asia Africa", IDS[2]: "unsure unsure Asia"}
    ratings = [
        century_rating(item, "sub_region", answer, rater=rater, method=method)
        for item, answers in labels.items()
        for (rater, method), answer in zip(
            (("p1", "human"), ("p2", "human"), ("m", "closed")), answers.split(), strict=False
        )
    ]
    write_table(str(tmp_path / "labels"), "ratings", ratings)
    return tmp_path


def items(tables: Path, *keys: str, out: str = "judged", responses: str = "responses/*") -> list[dict[str, Any]]:
    """Run the job; return the rows of its items, attributes as dicts."""
    cli.execute("items", [f"responses=[{tables}/{responses}]", f"out={tables}/{out}", *keys])
    rows = rows_of(f"{tables}/{out}/items")
    return [{**row, "attributes": dict(row["attributes"] or ())} for row in rows]


def judged(tables: Path, out: str = "judged") -> tuple[list[dict[str, Any]], Sequence[Any]]:
    """Return the items as judge reads them, and the units."""
    place = tables / out
    images, texts = str(tables / "images"), str(place / "texts")
    sources = open_sources(
        str(place / "items"), images=images, texts=texts, records=None, fields=("generated",), pictures=True
    )
    reader, units = reading(sources, fields=("generated",), pictures=True), sources.units()
    return [row for unit in units for row in reader(UnitTask(unit)).to_pylist()], units


def test_responses_of_two_models_become_items_of_their_pictures(tables: Path) -> None:
    rows = {row["item_id"]: row for row in items(tables)}
    assert len(rows) == 36
    row = rows[f"{IDS[0][:6]}-a-explicit-2"]
    assert (row["kind"], row["image_ids"], row["response_id"]) == ("response", [IDS[0]], row["item_id"])
    assert row["attributes"] == {
        "picture": IDS[0],
        "model": "a",
        "prompt": "explicit",
        "sample": "2",
        "finish_reason": "stop",
        "response_status": "ok",
    }
    texts = {text["text_id"]: text for text in rows_of(f"{tables}/judged/texts")}
    assert [(texts[t]["role"], texts[t]["text"]) for t in row["text_ids"]] == [("generated", f"a on {IDS[0][:4]}")]
    assert len(texts) == 35, "one response has no text"


def test_a_limit_takes_the_first_responses(tables: Path) -> None:
    whole = [row["item_id"] for row in items(tables, "unit_rows=5")]
    some = [row["item_id"] for row in items(tables, "unit_rows=5", "limit=7", out="some")]
    assert len(set(some)) == 7
    assert set(some) < set(whole)
    counts = open_table(f"{tables}/some/items").counts()
    assert (counts.rows_in, counts.filtered) == (7, {})
    drawn = [row["item_id"] for row in items(tables, "unit_rows=5", "limit=7", "draw.n=1", out="drawn")]
    assert drawn
    assert set(drawn) < set(some)
    with pytest.raises(InputError, match="limit was 7, now not set"):
        items(tables, "unit_rows=5", out="some")


def test_responses_that_are_prompts_of_pictures(tables: Path) -> None:
    """With another role the text is not a response to be judged, and no attribute hides it as a context field."""
    rows = items(tables, "role=prompt")
    assert {row["response_id"] for row in rows} == {None}
    assert all("prompt" not in row["attributes"] and row["attributes"]["model"] in "ab" for row in rows)
    texts = rows_of(f"{tables}/judged/texts")
    assert {text["role"] for text in texts} == {"prompt"}
    assert f"a on {IDS[0][:4]}" in {text["text"] for text in texts}
    with pytest.raises(InputError, match="role"):
        items(tables)


def test_refused_and_empty_responses_stay_and_are_not_judged(tables: Path) -> None:
    rows = {row["item_id"]: row for row in items(tables)}
    refused, empty = f"{IDS[0][:6]}-b-explicit-0", f"{IDS[5][:6]}-b-explicit-2"
    assert rows[refused]["attributes"]["response_status"] == "refused"
    assert rows[refused]["attributes"]["refusal_kind"] == "full"
    assert (rows[empty]["attributes"]["response_status"], rows[empty]["text_ids"]) == ("error", [])
    counts = open_table(f"{tables}/judged/items").counts()
    assert counts.tallies["response_status"] == {"ok": 34, "refused": 1, "error": 1}
    read = {row["item_id"]: row for row in judged(tables)[0]}
    assert {name for name, row in read.items() if row["status"] != "ok"} == {refused, empty}
    assert read[refused]["status"] == NO_RESPONSE


def test_joins_read_the_pictures_unit_only(tables: Path) -> None:
    items(tables, "unit_rows=5")
    rows, units = judged(tables)
    assert [unit.rows for unit in units].count(5) == 6
    assert all(row["pictures"][0] for row in rows)
    for unit in units:
        assert [source.uri.endswith(".parquet") for source in unit.inputs] == [True] * 3, "no whole table"
    assert [row["generated"] for row in rows].count(None) == 1


def test_majority_labels_become_attributes(tables: Path) -> None:
    def labels(by: str, *keys: str) -> list[str]:
        rows = items(tables, f"labels=[{tables}/labels]", f"labels_by={by}", *keys, out=f"by_{by}")
        assert {row["attributes"]["labels_by"] for row in rows} == {by}
        of_picture = {row["attributes"]["picture"]: row["attributes"]["sub_region"] for row in rows}
        return [of_picture[image_id] for image_id in IDS[:4]]

    assert labels("everyone") == ["Asia", "(no majority)", "none of the above", "(no rating)"]
    assert labels("people") == ["Asia", "(no majority)", "none of the above", "(no rating)"]
    assert labels("m", "label_questions=[sub_region]") == ["Africa", "(no rating)", "Asia", "(no rating)"]
    assert open_table(f"{tables}/by_m/items").metadata["remine.labels_by"] == "m"


def test_a_draw_keeps_all_responses_of_a_picture(tables: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = items(tables, "draw.n=2")
    assert "drew 2 of 6 pictures" in capsys.readouterr().out
    assert len(rows) == 12
    assert len({row["attributes"]["picture"] for row in rows}) == 2
    again = items(tables, "draw.n=2", "unit_rows=4", out="again")
    assert {row["item_id"] for row in again} == {row["item_id"] for row in rows}
    complete = items(tables, "draw.complete=[model,sample]", out="complete")
    assert {row["attributes"]["picture"] for row in complete} == set(IDS[1:5])
    counts = open_table(f"{tables}/complete/items").counts()
    assert (counts.filtered, counts.rows_in) == ({"draw": 12}, 36)


def test_items_that_models_were_asked_about_keep_their_texts_and_attributes(tables: Path) -> None:
    asked = [
        {
            "item_id": f"i{n}",
            "kind": "pair",
            "image_ids": IDS[n : n + 2],
            "text_ids": ["shared", f"old{n}"],
            "targets": ["Japan"],
            "attributes": [("scenario", "war"), ("model", "x")],
        }
        for n in range(2)
    ]
    write_table(str(tables / "asked"), "items", asked)
    texts = [{"text_id": "shared", "role": "prompt", "text": "Say."}]
    texts += [{"text_id": f"old{n}", "role": "generated", "text": "before"} for n in range(2)]
    write_table(str(tables / "asked_texts"), "texts", texts)
    rows = [response(item, model="a") for item in ("i0", "i1", "i2")]
    write_table(str(tables / "about_items"), "responses", rows)
    keys = [f"input_items={tables}/asked", f"texts={tables}/asked_texts"]
    first, second = items(tables, *keys, responses="about_items")
    assert (first["image_ids"], first["targets"]) == (IDS[:2], ["Japan"])
    assert (first["attributes"]["scenario"], first["attributes"]["model"]) == ("war", "a")
    assert first["attributes"]["picture"] == " ".join(IDS[:2])
    assert first["text_ids"][0] == second["text_ids"][0], "responses of a unit share the item's texts"
    roles = {text["text_id"]: text["role"] for text in rows_of(f"{tables}/judged/texts")}
    assert [roles[name] for name in first["text_ids"]] == ["prompt", "generated"]
    (reject,) = open_table(f"{tables}/judged/items").rejects()
    assert (reject.reason, reject.position) == ("missing_item", 2)


def test_excluded_pictures_are_left_out(tables: Path) -> None:
    (tables / "excluded.txt").write_text(f"{PICTURES[1]['source_url']}\n")
    rows = items(tables, f"exclusions={tables}/excluded.txt")
    assert {row["attributes"]["picture"] for row in rows} == {*IDS} - {IDS[1]}
    assert open_table(f"{tables}/judged/items").counts().filtered == {"excluded": 6}


def test_new_labels_are_a_new_generation(tables: Path) -> None:
    keys = [f"labels=[{tables}/labels]"]
    items(tables, *keys)
    shutil.rmtree(tables / "labels")
    write_table(tables / "labels", "ratings", [century_rating(IDS[3], "sub_region", "Europe")])
    rows = items(tables, *keys)
    assert {row["attributes"]["sub_region"] for row in rows} == {"Europe", "(no rating)"}


@pytest.mark.parametrize(
    ("more", "refused"),
    [({"rubric": "other"}, True), ({"condition": "c"}, True), ({"target": "Japan", "condition": "c"}, False)],
)
def test_labels_of_two_rubrics_or_conditions_are_refused(tables: Path, more: dict[str, str], *, refused: bool) -> None:
    write_table(tables / "more", "ratings", [century_rating(IDS[3], "sub_region", "Europe") | more])
    keys = [f"labels=[{tables}/labels,{tables}/more]"]
    if refused:
        with pytest.raises(InputError, match="sub_region was asked in several ways"):
            items(tables, *keys)
    else:
        assert "Europe" not in {row["attributes"]["sub_region"] for row in items(tables, *keys)}


def test_people_are_shown_responses_with_a_text(tables: Path) -> None:
    items(tables)
    (tables / "raters.csv").write_text("rater\nr1\nr2\n")
    place = [f"input={tables}/judged/items", f"images={tables}/images", f"texts={tables}/judged/texts"]
    keys = ["rubric=century_labels", f"raters={tables}/raters.csv", "per_item=1", f"out={tables}/tasks"]
    cli.execute("annotate", [*place, *keys, "draw.complete=[model,sample]"])
    shown = {row["item_id"] for row in rows_of(f"{tables}/tasks/assignments")}
    assert len(shown) == 24, "four pictures with all six responses"
    tasks = "".join(file.read_text() for file in (tables / "tasks" / "label_studio").glob("*.json"))
    assert "a on " in tasks
    assert "I cannot help." not in tasks


def test_a_killed_run_resumes_to_the_same_tables(tables: Path) -> None:
    expected = items(tables, "unit_rows=5", "draw.n=3", f"labels=[{tables}/labels]")
    texts = rows_of(f"{tables}/judged/texts")
    (tables / "judged" / "items" / "_run" / "manifest.json").unlink()
    for name in ("items", "texts"):
        for file in sorted((tables / "judged" / name).glob("*.parquet"))[2:]:
            file.unlink()
    assert items(tables, "unit_rows=5", "draw.n=3", f"labels=[{tables}/labels]") == expected
    assert rows_of(f"{tables}/judged/texts") == texts
    with pytest.raises(InputError, match=r"another configuration: draw\.n"):
        items(tables, "unit_rows=5", "draw.n=4", f"labels=[{tables}/labels]")


def test_wrong_keys_are_refused_and_nothing_is_written(tables: Path) -> None:
    cases = [
        (["texts=T/texts"], "texts="),
        (["label_questions=[where]"], "label_questions="),
        (["labels=[T/labels]", "label_questions=[where]"], "where"),
        (["labels=[T/labels]", "labels_by=nobody"], "labels_by=nobody"),
        (["labels=[T/about_models]"], "the question model has the name of another attribute"),
        (["draw.n=0"], "draw.n=0"),
        (["draw.n=2", "draw.by=nothing"], "draw.by=nothing"),
        (["draw.complete=[nothing]"], "draw.complete=nothing"),
        (["input_items=T/images"], "is a table 'images'"),
        (["responses=[T/responses/a,T/copy]"], "same key"),
        (["responses=[T/none/*]"], "none/*"),
        (["unit_rows=0"], "unit_rows=0"),
    ]

    write_table(str(tables / "copy"), "responses", [response(IDS[0], model="a")])
    write_table(str(tables / "about_models"), "ratings", [century_rating(IDS[0], "model", "a")])

    def check(keys: list[str], message: str) -> None:
        arguments = [key.replace("T/", f"{tables}/") for key in keys]
        if not any(key.startswith("responses") for key in keys):
            arguments.append(f"responses=[{tables}/responses/*]")
        with pytest.raises(InputError) as error:
            cli.execute("items", [*arguments, f"out={tables}/out"])
        assert message in str(error.value)
        assert not (tables / "out").exists()

    check_cases(check, cases)


ROWS = [
    rating("a", "p1", "kind", "event"),
    rating("a", "p2", "kind", "event"),
    rating("a", "m", "kind", "person"),
    rating("b", "p1", "kind", "event"),
    rating("b", "m", "kind", "person"),
    rating("b", "g", "kind", "person", method="gold"),
    rating("b", "p2", "kind", "person", target="joy"),
    rating("c", "p1", "kind", None),
    rating("d", "e", "kind", "person", method="encoder"),
    rating("d", "p1", "other", "yes"),
]
ITEMS = ["d", "c", "b", "a", "nowhere"]


def labels(*questions: str, by: str = "everyone") -> dict[str, list[str]]:
    sources: Any = [TableInMemory("ratings", ROWS[:4]), TableInMemory("ratings", ROWS[4:])]
    labels_of = read_labels(sources, questions=questions, by=by)
    return {name: question.of(ITEMS) for name, question in labels_of.items()}


def test_more_than_half_of_those_who_count_without_gold_and_targets() -> None:
    everyone = labels()
    assert everyone["kind"] == ["person", NO_RATING, NO_MAJORITY, "event", NO_RATING]
    assert everyone["other"] == ["yes", *[NO_RATING] * 4]
    assert labels("kind", by="people")["kind"] == [NO_RATING, NO_RATING, "event", "event", NO_RATING]
    assert labels("kind", by="models")["kind"] == [NO_RATING, NO_RATING, "person", "person", NO_RATING]
    assert labels("kind", by="g")["kind"] == [NO_RATING, NO_RATING, "person", NO_RATING, NO_RATING]
    assert list(labels("kind")) == ["kind"]


def test_what_has_no_labels_is_refused() -> None:
    for keys, message in (({"by": "x*"}, "labels_by=x"), ({"by": "models"}, "of other")):
        with pytest.raises(InputError, match=message):
            labels(**keys)
    with pytest.raises(InputError, match=r"no ratings of colour .* there are none of those that are named"):
        labels("colour")
    many: Any = [TableInMemory("ratings", [rating("a", f"p{n}", "title", f"{n}") for n in range(MAX_LEVELS + 2)])]
    with pytest.raises(InputError, match="label_questions: title has too many different answers"):
        read_labels(many, questions=(), by="everyone")
    about_targets: Any = [TableInMemory("ratings", [row for row in ROWS if row["target"]])]
    with pytest.raises(InputError, match="labels: no ratings without a target"):
        read_labels(about_targets, questions=(), by="everyone")
    twice: Any = [TableInMemory("ratings", [ROWS[0], ROWS[1] | {"condition": "x"}])]
    ways = r"kind was asked in several ways \(rubric r, condition none, rubric r, condition x\)"
    with pytest.raises(InputError, match=ways):
        read_labels(twice, questions=(), by="everyone")


def test_a_question_without_an_answer_gives_no_label() -> None:
    source: Any = TableInMemory("ratings", [rating("a", "p1", "kind", None)])
    (of_question,) = read_labels([source], questions=(), by="everyone").values()
    assert of_question.of(["a", "b"]) == [NO_RATING] * 2
    empty = QuestionLabels(np.zeros(0, np.uint64), np.zeros(0, np.int16), ())
    assert empty.of(["a"]) == [NO_RATING]


PROMPT_TEXTS = [{"text_id": "t", "role": "prompt", "source": "s", "text": "A boat."}]
PROMPTED = AskedItem(
    {
        "item_id": "i",
        "image_ids": ["p", "q"],
        "targets": ["joy"],
        "gold": [("shown", "1")],
        "attributes": [("region", "x"), ("model", "of the item"), ("picture", "none"), ("generated", "no")],
    },
    PROMPT_TEXTS,
)


def spoken(**columns: Any) -> dict[str, Any]:
    return {
        "response_id": "r", "model": "m", "prompt": "explicit", "sample": 0, "condition": "", "finish_reason": None,
        "refusal_kind": "hedge", "text": "It is a boat.", "status": "ok", **columns,
    }  # fmt: skip


def test_a_response_has_its_own_texts_and_the_items_pictures() -> None:
    item, texts = response_item(spoken(), PROMPTED, unit="u", labels={})
    of_item, of_text = content_id("items", "u", "t"), content_id("items", "r")
    assert texts == [
        {"text_id": of_item, "role": "prompt", "source": "s", "text": "A boat."},
        {"text_id": of_text, "role": "generated", "source": "r", "text": "It is a boat."},
    ]
    assert (item["text_ids"], item["image_ids"], item["item_id"], item["kind"]) == (
        [of_item, of_text], ["p", "q"], "r", "response"
    )  # fmt: skip
    assert (item["response_id"], item["targets"], item["gold"]) == ("r", ["joy"], [("shown", "1")])
    assert PROMPT_TEXTS[0]["text_id"] == "t"  # that of another unit has another id
    assert response_item(spoken(), PROMPTED, unit="v", labels={})[1][0]["text_id"] == content_id("items", "v", "t")


def test_labels_win_over_the_response_and_it_over_the_item() -> None:
    labels = {"labels_by": "people", "prompt": "by people"}
    attributes = dict(response_item(spoken(), PROMPTED, unit="u", labels=labels)[0]["attributes"])
    assert attributes == {
        "region": "x", "model": "m", "prompt": "by people", "picture": "p q", "sample": "0", "refusal_kind": "hedge",
        "response_status": "ok", "labels_by": "people",
    }  # fmt: skip


def test_the_condition_and_the_end_of_a_response_are_attributes() -> None:
    item, _ = response_item(spoken(condition="c", finish_reason="stop"), PROMPTED, unit="u", labels={})
    assert dict(item["attributes"]).items() >= {"condition": "c", "finish_reason": "stop"}.items()


def test_an_empty_text_counts_as_none() -> None:
    for text in ("", None, "\n", " \u200b"):
        item, texts = response_item(spoken(text=text, status="truncated"), PROMPTED, unit="u", labels={})
        assert [one["role"] for one in texts] == ["prompt"]
        assert (len(item["text_ids"]), dict(item["attributes"])["response_status"]) == (1, "unparsed")
    item, _ = response_item(spoken(text=None, status="refused"), PROMPTED, unit="u", labels={})
    assert dict(item["attributes"])["response_status"] == "refused"


def test_a_text_of_another_role_is_not_judged_as_a_response() -> None:
    item, texts = response_item(spoken(), PROMPTED, unit="u", labels={"caption": "x"}, role="caption")
    assert item["response_id"] is None
    assert texts[-1]["role"] == "caption"
    assert "caption" not in dict(item["attributes"])  # context fields would show it instead of the text
    assert dict(item["attributes"])["generated"] == "no"


def test_a_picture_alone_has_nothing_else() -> None:
    item, texts = response_item(spoken(), picture_item("p"), unit="u", labels={})
    assert (item["image_ids"], len(texts), item["targets"], item["gold"]) == (["p"], 1, None, None)
    assert dict(item["attributes"])["picture"] == "p"
    bare, _ = response_item(spoken(), AskedItem({"item_id": "i", "image_ids": None}), unit="u", labels={})
    assert bare["image_ids"] == []
    assert "picture" not in dict(bare["attributes"])
