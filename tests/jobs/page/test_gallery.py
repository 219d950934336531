"""The report's gallery: cards of pictures and items, with their pictures, targets and conditions."""

import html
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from actors.rubrics.rubric import Rubric
from jobs.analysis.report_tables import ReportTables
from jobs.analysis.standings import Standings
from jobs.judging.kept_rubric import Rubrics, of_rubric
from jobs.judging.sent_prompts import PromptTexts
from jobs.page import gallery, picture_cards
from jobs.page.gallery import Best, in_turn, picture_values
from jobs.page.page_contents import FOLDED_TEXT, GalleryPicture, Page
from jobs.page.picture_cards import gallery_cards
from jobs.page.render import render
from jobs.runtime.command_line import cli
from jobs.runtime.selection.exclusions import ExclusionFilter
from jobs.store.hashing import hash_texts
from jobs.store.reading import open_table
from tests.factories import picture, rating, write_file, write_table
from tests.jobs.page.sample import drawn


def image(number):
    return picture(number) | {"bytes": drawn(number), "width": 480, "height": 320}


IMAGES = sorted((image(n) for n in range(4)), key=lambda row: row["image_id"])
IDS = [row["image_id"] for row in IMAGES]


def item(name, *images, kind="response", response=None, **attributes):
    return {"item_id": name, "kind": kind, "image_ids": list(images), "text_ids": [], "response_id": response,
            "attributes": list(attributes.items())}  # fmt: skip


@pytest.fixture
def tables(tmp_path):
    """Picture 0 in two items, one of them with picture 1; picture 2 rated itself; picture 3 an item with its id."""
    items = [item("a", IDS[0], response="s", model="m@1", prompt="short"), item("b", IDS[1], IDS[0], kind="pair"),
             item(IDS[3], IDS[3], kind="image", scenario="market")]  # fmt: skip
    return ReportTables(
        corpus={"images": open_table(write_file(tmp_path / "images", "images", IMAGES))},
        items=[open_table(write_file(tmp_path / "items", "items", items))],
        responses=[open_table(write_file(tmp_path / "r", "responses", [{"response_id": "s", "text": "A cat."}]))],
    )


def cards(tables, rows, *, size=48, extra=(), exclusion_filter=frozenset()):
    excluded = ExclusionFilter(exclusion_filter)
    chosen = gallery.choose(tables, size, excluded)
    rows_of = {name: [row for row in rows if row["item_id"] == name] for name in chosen.ids}
    return gallery_cards(tables, chosen, rows_of, {}, extra=extra, exclusion_filter=excluded)


def test_texts_of_an_item_have_their_roles(tables, tmp_path):
    names = [("reference", "A dog."), ("generated", "x" * 5000), *(("note", str(n)) for n in range(6)), ("empty", "")]
    texts = [{"text_id": f"t{n}", "role": role, "text": text} for n, (role, text) in enumerate(names)]
    rows = [
        item("a", IDS[0]) | {"text_ids": [row["text_id"] for row in texts]},
        item("b", IDS[1]) | {"text_ids": ["t0"]},
    ]
    written = {
        "items": write_file(tmp_path / "described", "items", rows),
        "texts": write_file(tmp_path / "texts", "texts", texts),
    }
    described = replace(tables, **{name: [open_table(uri)] for name, uri in written.items()}, responses=[])
    several, single = cards(described, [])[:2]
    assert single.texts == [("", "A dog.")]
    assert several.texts == [
        ("reference", "A dog."), ("generated", "x" * picture_cards.TEXT_LENGTH + "…"),
        *(("note", str(n)) for n in range(4)), ("", "and 2 more texts"),
    ]  # fmt: skip


def test_cards_of_items_have_their_pictures_and_ratings(tables):
    rows = [rating(name, "m", "q", value) for name, value in (("a", "1"), ("b", "2"), (IDS[2], "3"), (IDS[3], "4"))]
    outputs = cards(tables, rows)
    assert [(len(card.thumbnails), [r.answer for r in card.ratings]) for card in outputs] == [
        (1, ["1"]), (2, ["2"]), (1, ["3"]), (1, ["4"]),
    ]  # fmt: skip
    assert [card.title.partition(" — ")[2] for card in outputs] == ["m@1 · short", "pair", "", ""]
    assert (outputs[0].texts, dict(outputs[3].facts)["scenario"]) == ([("", "A cat.")], "market")
    # a picture that items show has a separate card if it was rated itself
    assert len(cards(tables, [*rows, rating(IDS[0], "m", "q", "5")])) == 5
    assert len(cards(tables, [*rows, rating(IDS[1], "m", "q", "5")])) == 5
    assert len(cards(tables, rows, size=2)) == 2
    assert cards(tables, rows, size=0) == []


def test_excluded_pictures_are_on_no_card(tables):
    outputs = cards(tables, [], exclusion_filter=frozenset([IDS[1], "https://upload.example/9.jpg"]))
    assert [len(card.thumbnails) for card in outputs] == [1, 1, 1]
    assert not [card for card in outputs if card.title.endswith("pair")]


def test_pictures_of_a_pair_have_no_card_of_their_own(tmp_path, tables):
    items = [item("of-two", IDS[0], IDS[1], kind="pair"), item("of-three", IDS[2], IDS[1], IDS[3], kind="set")]
    tables = replace(tables, items=[open_table(write_file(tmp_path / "pairs", "items", items))], responses=[])
    assert [len(card.thumbnails) for card in cards(tables, [])] == [2, 3]
    assert [len(card.thumbnails) for card in cards(tables, [rating(IDS[1], "m", "q", "5")])] == [2, 1, 3]
    alone = cards(tables, [], exclusion_filter=frozenset([IDS[3]]))
    assert [(card.image_id, len(card.thumbnails)) for card in alone] == [(IDS[0], 2), (IDS[2], 1)]


def test_a_picture_with_an_excluded_address_is_on_no_card(tmp_path):
    images = [image(n) | {"image_id": name} for n, name in enumerate("abc")]
    tables = ReportTables(
        corpus={"images": open_table(write_file(tmp_path / "images", "images", images))},
        items=[open_table(write_file(tmp_path / "items", "items", [item("pair", "a", "b", kind="pair")]))],
    )
    excluded = ExclusionFilter(frozenset({images[1]["source_url"]}))
    chosen = gallery.choose(tables, 48, excluded)
    assert chosen.pictures == ("a", "c")
    cards = gallery_cards(tables, chosen, {}, {}, extra=(), exclusion_filter=excluded)
    assert [card.image_id for card in cards] == ["a", "c"]
    assert [len(card.thumbnails) for card in cards] == [1, 1]


def test_one_picture_does_not_take_all_cards(tmp_path, tables):
    items = [item(f"r{n:02}", IDS[0], model=f"m{n}") for n in range(20)] + [item("z", IDS[1])]
    tables = ReportTables(
        corpus=tables.corpus, items=[open_table(write_file(tmp_path / "many", "items", items))], responses=[]
    )
    outputs = cards(tables, [])
    assert [card.title.partition(" — ")[2] for card in outputs[:5]] == ["m0", "m1", "m2", "m3", "response"]
    assert len(outputs) == 7


def test_each_target_and_condition_is_labelled(tables):
    asked = [("1", "Mali", "x"), ("2", "Peru", "x"), ("3", "Mali", "y")]
    rows = [rating("a", "m", "q", value, target=target, condition=condition) for value, target, condition in asked]
    rows.append(rating("a", "m", "q", "5", target="Mali", condition="x", sample=1))
    (card,) = (card for card in cards(tables, rows, extra=["condition"]) if card.ratings)
    assert [(r.rater, r.target, r.answer) for r in card.ratings] == [
        ("m · condition x", "Mali", "1"), ("m · condition y", "Mali", "3"), ("m · condition x", "Peru", "2"),
    ]  # fmt: skip


def test_a_card_has_the_first_sample_whatever_the_order_of_the_rows(tables):
    rows = [rating(IDS[2], "m", "q", value, sample=sample) for value, sample in (("5", 2), ("3", 0), ("4", 1))]
    (card,) = (card for card in cards(tables, rows) if card.ratings)
    assert [r.answer for r in card.ratings] == ["3"]


def test_a_card_has_the_prompts_that_models_were_sent(tmp_path, tables):
    """The prompt has the item's attributes and texts and the picture's record, and only questions that models had."""
    data = {
        "name": "mood",
        "version": 1,
        "source": "this test",
        "context": {"fields": ["page_title", "scenario", "generated"]},
        "parts": {
            "about": "{{ page_title }}: {{ scenario }} {{ generated }}",
            "question": "{{ question }} {{ options }}",
        },
        "layouts": {name: ["picture", "about", "question"] for name in ("paper", "fast")},
        "layout": "fast",
        "questions": [
            {
                "name": name,
                "text": f"How {name}?",
                "scale": "ordinal",
                "answers": [{"value": value, "label": str(value), "score": value} for value in (1, 2)],
            }
            for name in ("calm", "bright")
        ],
    }
    rubrics = Rubrics({"mood": of_rubric(Rubric.from_dict(data), data)})
    record = {"record_id": "1", "image_id": IDS[3], "page_title": "Siege"}
    records = open_table(write_table(tmp_path / "records", "records", [record]))
    texts = open_table(
        write_file(tmp_path / "texts", "texts", [{"text_id": "t", "role": "generated", "text": "x" * 5000}])
    )
    items = [item(IDS[3], IDS[3], kind="image", scenario="market") | {"text_ids": ["t"]}]
    tables = replace(
        tables,
        corpus={"images": open_table(write_table(tmp_path / "units", "images", IMAGES)), "records": records},
        items=[open_table(write_file(tmp_path / "asked", "items", items))],
        texts=[texts],
    )
    rows = [rating(IDS[3], "m", "calm", "1", rubric="mood"), rating(IDS[3], "p", "bright", "2", rubric="mood")]
    rows[1]["method"] = "human"
    chosen = gallery.choose(tables, 48, ExclusionFilter(frozenset()))
    rows_of = {IDS[3]: rows}
    cards = gallery_cards(
        tables, chosen, rows_of, {}, extra=(), exclusion_filter=ExclusionFilter(frozenset()),
        prompts=PromptTexts(rubrics, []),
    )  # fmt: skip
    assert [len(card.prompts) for card in cards] == [0, 0, 0, 1]
    (sent,) = cards[3].prompts
    assert "Siege: market xxx" in sent.shared
    assert len(sent.shared) == picture_cards.PROMPT_LENGTH + 1
    assert [name for name, _ in sent.ends] == ["calm"]
    page = render(Page("t", pictures=cards))
    assert "Siege: market xxx" in page
    assert "How calm?" in page


def test_the_page_of_a_report_with_items(tmp_path):
    """CAIRE: one picture, rated for several countries; every country is on the card."""
    rows = [rating("a", "m@1", "relevance", str(n), target=country) for n, country in ((1, "Mali"), (5, "Peru"))]
    keys = [f"ratings=[{write_file(tmp_path / 'ratings', 'ratings', rows)}]",
            f"items=[{write_file(tmp_path / 'items', 'items', [item('a', IDS[0], kind='image', Title='Siege')])}]",
            f"images={write_file(tmp_path / 'images', 'images', IMAGES[:1])}"]  # fmt: skip
    assert cli.main("report", [*keys, f"out={tmp_path}/out"]) == 0
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    section = page[page.index('id="pictures"') :]
    text = re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]*>", " ", section)))
    assert "relevance Mali 1 relevance Peru 5" in text
    assert re.search(r"<h3[^>]*>\s*Siege\b", section)


def test_missing_pictures_are_counted_and_leave_room_for_others(tmp_path):
    rows = [image(n) if n % 2 else picture(n, status="missing") for n in range(8)]
    rows.append(image(8) | {"bytes": b"no picture"})
    tables = ReportTables(corpus={"images": open_table(write_file(tmp_path / "images", "images", rows))})
    chosen = gallery.choose(tables, 48, ExclusionFilter(frozenset()))
    assert (len(chosen.pictures), chosen.missing) == (5, {"missing": 4})
    cards = gallery_cards(tables, chosen, {}, {}, extra=(), exclusion_filter=ExclusionFilter(frozenset()))
    assert sorted(card.status for card in cards if not card.thumbnails) == ["error"]
    excluded = ExclusionFilter(frozenset(row["image_id"] for row in rows if row["status"] == "missing"))
    assert gallery.choose(tables, 48, excluded).missing == {}


def test_without_pictures_or_room_there_is_no_gallery(tables):
    nothing = ExclusionFilter(frozenset())
    assert gallery.choose(ReportTables(), 48, nothing) == gallery.choose(tables, 0, nothing) == gallery.Gallery()
    assert picture_cards.titled_cards(ReportTables(), [(IDS[0], "t")], nothing) == []


def test_titled_cards_have_the_picture_and_nothing_of_its_record(tmp_path):
    records = [{"record_id": name, "image_id": name, "caption_reference_description": "A market.", "page_title": "Page"}
               for name in IDS]  # fmt: skip
    rows_of = {"images": IMAGES, "records": records}
    corpus = {name: open_table(write_table(tmp_path / name, name, rows)) for name, rows in rows_of.items()}
    titles = [(IDS[2], "second"), ("absent", "x"), (IDS[0], "first"), (IDS[1], "excluded")]
    titled = picture_cards.titled_cards(ReportTables(corpus=corpus), titles, ExclusionFilter(frozenset([IDS[1]])))
    assert [(card.image_id, card.title, len(card.thumbnails)) for card in titled] == [
        (IDS[2], "second", 1), (IDS[0], "first", 1)
    ]  # fmt: skip
    assert {(card.caption, card.facts, card.source_url) for card in titled} == {("", (), None)}


def test_a_card_with_any_long_text_is_folded():
    short, long = ("", "x" * FOLDED_TEXT), ("", "x" * (FOLDED_TEXT + 1))
    cases = {(): False, (short,): False, (short, long): True, (long, long): True}
    assert {texts: GalleryPicture("t", texts=texts).is_folded for texts in cases} == cases


def test_another_seed_is_another_sample(tables):
    drawn_by = [gallery.choose(tables, 2, ExclusionFilter(frozenset()), seed=seed).pictures for seed in range(8)]
    assert drawn_by[0] == tuple(IDS[:2])
    assert len(set(drawn_by)) > 2
    assert drawn_by == [
        gallery.choose(tables, 2, ExclusionFilter(frozenset()), seed=seed).pictures for seed in range(8)
    ]


def test_a_card_has_probabilities_texts_credit_and_region(tables):
    rows = [
        rating(IDS[2], "m", "q", "2", answers=["1", "2"], probabilities=[0.25, 0.75]),
        rating(IDS[2], "p", "q", None, status="refused", raw="No.", comment="Too dark."),
        rating(IDS[2], "m", "region", "Asia"),
    ]
    (card,) = (card for card in cards(tables, rows) if card.ratings)
    by_rater = {(r.rater, r.question): r for r in card.ratings}
    assert (by_rater["m", "q"].probability, by_rater["m", "q"].value) == (0.75, "2")
    assert by_rater["p", "q"].text == "No.\nToo dark."
    assert card.region == "Asia"
    items = cards(tables, [])
    assert {c.credit for c in items} == {""}


def test_the_top_of_each_order_is_drawn_from_all_pictures(tmp_path):
    images = sorted((image(n) for n in range(40)), key=lambda row: row["image_id"])
    ids = [row["image_id"] for row in images]
    items = [item(f"of-{name}", name, region="South" if n == 39 else "North") for n, name in enumerate(ids)]
    tables = ReportTables(
        corpus={"images": open_table(write_file(tmp_path / "images", "images", images))},
        items=[open_table(write_file(tmp_path / "items", "items", items))],
    )
    hashes = hash_texts(pa.array([*ids, *(f"of-{name}" for name in ids)]))
    order = np.argsort(hashes)
    disagreement, score = np.full(80, np.nan), np.full(80, np.nan)
    disagreement[[30, 31, 72]] = 0.9, 0.8, 1.0  # two pictures, and an item of a third
    score[[35, 36]] = 5, 4
    standings = Standings(hashes[order], disagreement[order], score[order], ("r", "q"))
    chosen = gallery.choose(tables, 8, ExclusionFilter(frozenset()), standings=lambda: standings)
    tops = {name: [ids.index(image_id) for image_id in of_order] for name, of_order in chosen.tops.items()}
    assert tops == {"disagreement": [32, 30], "score": [35, 36], "region": [0, 39]}
    assert set(chosen.pictures) == {ids[n] for n in (32, 30, 35, 36, 0, 39, 1, 2)}
    excluded = gallery.choose(tables, 8, ExclusionFilter(frozenset({ids[32]})), standings=lambda: standings)
    assert {ids[30], ids[31]} <= set(excluded.pictures)
    most = gallery.choose(tables, 39, ExclusionFilter(frozenset()), standings=lambda: standings)
    assert len(most.tops["region"]) == 9
    everything = gallery.choose(tables, 40, ExclusionFilter(frozenset()), standings=lambda: pytest.fail("not needed"))
    assert (everything.pictures, everything.tops) == (tuple(ids), {})
    cards = gallery_cards(tables, chosen, {}, {}, extra=(), exclusion_filter=ExclusionFilter(frozenset()))
    assert [card.image_id for card in cards] == sorted(chosen.pictures)


def test_a_card_credits_the_author_of_each_picture_once(tmp_path):
    """The author of the picture comes before the attribution of its record."""
    images = [image(n) | {"image_id": name} for n, name in enumerate("abcd")]
    images[0] |= {"author": "Ada", "licence": "CC0"}
    images[1] |= {"author": "Ada", "licence": "CC0"}
    images[2] |= {"licence": "CC BY 4.0"}
    attributions = {"a": "Museum", "c": "By Bo", "d": "x" * (picture_cards.CREDIT_LENGTH + 1)}
    records = [
        {"record_id": name, "image_id": name, "caption_attribution_description": text}
        for name, text in attributions.items()
    ]
    items = [item("all", *"abcd", kind="set")]
    tables = ReportTables(
        corpus={
            "images": open_table(write_table(tmp_path / "images", "images", images)),
            "records": open_table(write_table(tmp_path / "records", "records", records)),
        },
        items=[open_table(write_file(tmp_path / "items", "items", items))],
    )
    (card,) = cards(tables, [])
    assert card.credit == f"Ada · CC0; By Bo · CC BY 4.0; {'x' * picture_cards.CREDIT_LENGTH}…"


NAN = float("nan")


def test_the_best_are_those_of_all_that_were_added() -> None:
    best = Best(2)
    best.add(np.array([3.0, NAN, 2.0]), ["c", "a", "b"], ["x", "nothing", "y"])
    best.add(np.array([2.0, 9.0]), ["a", "b"], ["z", "far"])
    assert best.ids == ["z", "y"]  # equal values by their draws
    assert in_turn([["a", "b"], ["c"], ["a", "d", "e"]]) == ["a", "c", "b", "d", "e"]


def test_a_picture_has_the_largest_values_of_itself_and_of_its_items(tmp_path: Path) -> None:
    values = {"p": (NAN, 2), "i1": (0.5, 4), "i2": (0.25, 5), "i3": (NAN, NAN), "q": (0.75, 3), "i4": (0.5, 1)}
    hashes = hash_texts(pa.array(list(values)))
    order = np.argsort(hashes)
    disagreement, score = np.array(list(values.values())).T[:, order]
    rated = Standings(hashes[order], disagreement, score, ("r", "q"))
    rows = [
        {"item_id": item, "kind": "image", "image_ids": images, "text_ids": [], "attributes": attributes}
        for item, images, attributes in (
            ("i1", ["p"], [("region", "")]),
            ("i2", ["p", "q"], []),  # about its first picture
            ("i3", ["p"], [("region", "North")]),
            ("i4", ["q"], []),
            ("i5", [], [("region", "South")]),
        )
    ]
    items = open_table(write_table(tmp_path / "items", "items", rows), "items")
    for sources in ([items], [items, items]):
        disagreements, scores, regions = picture_values(sources, rated).at(hash_texts(pa.array(["p", "q", "z"])))
        assert disagreements.tolist() == pytest.approx([0.5, 0.75, NAN], nan_ok=True)
        assert scores.tolist() == pytest.approx([5.0, 3.0, NAN], nan_ok=True)
        assert regions == ["North", "", ""]
    unknown = hash_texts(pa.array([f"unknown {n}" for n in range(40)]))  # also such as are after all known ones
    assert unknown.max() > hash_texts(pa.array(["p", "q"])).max()
    assert set(picture_values([items], rated).at(unknown)[2]) == {""}
    disagreements, scores, regions = picture_values([], rated).at(hash_texts(pa.array(["q", "z"])))
    assert (scores.tolist(), regions) == (pytest.approx([3.0, NAN], nan_ok=True), ["", ""])
