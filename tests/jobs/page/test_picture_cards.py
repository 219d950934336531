"""One card by itself: its title, facts, region, ratings and prompts, without tables."""

from typing import Any

from jobs.html.thumbnails import Thumbnail
from jobs.judging.sent_prompts import SentPrompt
from jobs.page import picture_cards
from jobs.page.page_contents import GalleryPicture, PictureRating, Wording
from jobs.page.picture_cards import ANSWERS_PER_CARD, RATINGS_PER_CARD
from tests.factories import image_row, rating


def shown(record: dict[str, Any] | None = None, **image: Any) -> picture_cards._Shown:
    row = {"author": None, "licence": None, "width": None, **image_row("https://x.example/a/b.jpg", image_id="p")}
    return picture_cards._Shown(row | image, record or {}, None, None)


def item(*attributes: tuple[str, str], kind: str = "image") -> dict[str, Any]:
    return {"item_id": "i", "kind": kind, "attributes": list(attributes), "image_ids": ["p"]}


def test_a_title_is_that_of_the_item_of_the_page_or_of_the_file() -> None:
    page, writer = {"page_title": "Page"}, [("prompt", "short"), ("model", "m"), ("sample", "")]
    cases: list[tuple[picture_cards._Shown, dict[str, Any] | None, str]] = [
        (shown(), None, "b.jpg"),
        (shown(source_url=None), None, ""),
        (shown(page), None, "Page"),
        (shown(page), item(), "Page"),
        (shown(page), item(("Title", "Own"), ("page_title", "")), "Own"),
        (shown(page), item(("title", "Own"), ("PAGE_TITLE", "First")), "First"),
        (shown(page), item(*writer, kind="response"), "Page — m · short"),
        (shown(page), item(kind="pair"), "Page — pair"),
        (shown(source_url=None), item(kind="pair"), "pair"),
    ]
    assert [picture_cards._card([picture], [], item=of_item).title for picture, of_item, _ in cases] == [
        title for _, _, title in cases
    ]


def test_facts_are_attributes_by_name_and_then_what_is_known_of_the_picture() -> None:
    of_terms = shown({"terms": ["siege", "war"]}, width=4, height=3, format="PNG")
    size, terms = ("size", "4 x 3 PNG"), ("terms", "siege, war")
    assert picture_cards._card([of_terms], []).facts == [size, terms]
    assert picture_cards._card([shown({"terms": []})], []).facts == []
    card = picture_cards._card([of_terms], [], item=item(("b", "2"), ("none", ""), ("a", "1")))
    assert card.facts == [("a", "1"), ("b", "2"), size, terms]
    many = [(f"a{n:02}", "x") for n in range(picture_cards.FACTS_PER_CARD + 2)]
    assert picture_cards._card([of_terms], [], item=item(*many)).facts == [
        *many[: picture_cards.FACTS_PER_CARD],
        size,
        terms,
    ]


def test_a_card_has_all_pictures_of_its_item_and_the_error_of_the_one_that_cannot_be_shown() -> None:
    small = Thumbnail(b"RIFF", "image/webp", 3, 2)
    first = shown({"page_url": "https://x.example/page"}, author="Ada")._replace(small=small)
    damaged = shown(image_id="q", licence="CC0")._replace(error_kind="truncated")
    missing = shown(image_id="q", status="missing")
    of_pair, ratings = item(("region", "North"), ("n", "")), [PictureRating("m", "q", "1")]
    whole = GalleryPicture(
        title="b.jpg", texts=[("", "A text.")], thumbnails=[small], status="error", error_kind="truncated",
        facts=[("region", "North")], ratings=ratings, source_url="https://x.example/page", credit="Ada; CC0",
        region="North", image_id="p", item_id="i", attributes={"region": "North", "n": ""},
    )  # fmt: skip
    assert picture_cards._card([first, damaged], ratings, item=of_pair, texts=[("", "A text.")]) == whole
    cards = [picture_cards._card(pictures, []) for pictures in ([first], [first, first], [first, missing], [missing])]
    assert [(card.status, card.error_kind, len(card.thumbnails)) for card in cards] == [
        ("ok", None, 1), ("ok", None, 2), ("missing", None, 1), ("missing", None, 0)
    ]  # fmt: skip
    assert [(card.image_id, card.item_id) for card in cards] == [*[("p", "p")] * 3, ("q", "q")]


def test_a_caption_is_shown_without_texts_and_the_page_before_the_file() -> None:
    described = {"caption_reference_description": "A siege.", "page_url": "https://x.example/page"}
    alone = picture_cards._card([shown(described)], [])
    assert (alone.caption, alone.source_url) == ("A siege.", "https://x.example/page")
    with_text = picture_cards._card([shown(described)], [], item=item(), texts=[("", "A text.")])
    assert (with_text.caption, with_text.texts) == ("", [("", "A text.")])
    bare = picture_cards._card([shown()], [])
    assert (bare.caption, bare.source_url) == ("", "https://x.example/a/b.jpg")


def test_a_region_is_an_attribute_or_the_most_frequent_answer() -> None:
    def answers(question: str, *of_raters: tuple[str | None, str]) -> list[PictureRating]:
        return [PictureRating(f"r{n}", question, answer, status) for n, (answer, status) in enumerate(of_raters)]

    where = answers("sub_region", ("East", "ok"), ("West", "ok"), ("West", "ok"))
    unanswered = answers("region", (None, "ok"), (None, "ok"), ("North", "refused"))
    assert picture_cards._region({"region": "", "country": "Mali"}, where) == "Mali"
    assert picture_cards._region({}, [*unanswered, *where]) == "West"
    assert picture_cards._region({}, where[:2]) == "East"  # the first of equally frequent ones
    attributes = {name: f"by {name}" for name in ("category", "target", "country", "sub_region", "region")}
    for name in reversed(list(attributes)):
        assert picture_cards._region(attributes, []) == f"by {name}"
        attributes[name] = ""
    assert picture_cards._region({}, unanswered) == picture_cards._region({}, answers("mood", ("calm", "ok"))) == ""


def test_ratings_are_in_the_order_of_the_rubric_with_what_their_raters_wrote() -> None:
    words = {("r", name): Wording(name, labels={"1": "low"}) for name in ("second", "first")}
    rows = [
        rating("i", "m", "first", "1", target="b", raw="x" * 400), rating("i", "m", "first", "2", target="a"),
        rating("i", "m", "second", "1"), rating("i", "m", "first", None, target="c", comment="Hm."),
    ]  # fmt: skip
    listed = picture_cards._ratings(rows, words, [])
    assert [(r.question, r.target, r.answer, r.text) for r in listed] == [
        ("second", "", "low", ""), ("first", "a", "2", ""), ("first", "b", "low", "x" * picture_cards.ANSWER_LENGTH),
        ("first", "c", None, "Hm."),
    ]  # fmt: skip


def test_a_card_has_40_lines_and_400_ratings_but_at_least_one_line() -> None:
    def sizes(raters: int, targets: int) -> tuple[int, int]:
        rows = [rating("i", f"m{r:03}", "q", "1", target=f"t{t:02}") for t in range(targets) for r in range(raters)]
        listed = picture_cards._ratings(rows, {}, [])
        return len({r.target for r in listed}), len(listed)

    assert sizes(1, ANSWERS_PER_CARD + 1) == (ANSWERS_PER_CARD, ANSWERS_PER_CARD)
    assert sizes(RATINGS_PER_CARD // 4, 5) == (4, RATINGS_PER_CARD)
    assert sizes(RATINGS_PER_CARD + 1, 2) == (1, RATINGS_PER_CARD + 1)


def test_prompts_are_about_the_questions_of_models_with_all_that_is_known_of_the_item() -> None:
    """Attributes come before texts, and texts before the record."""
    asked: list[Any] = []

    class Prompts:
        record_columns = ("page_title", "mood", "scene", "terms")

        def of_item(self, *arguments: Any, pictures: int) -> list[SentPrompt]:
            asked.append((*arguments, pictures))
            shared, end = "s" * (picture_cards.PROMPT_LENGTH + 1), "e" * (picture_cards.END_LENGTH + 1)
            return [SentPrompt("r", "", shared, [("q", end)]), SentPrompt("r", "", shared[1:], [("q", end[1:])])]

    ratings = [
        PictureRating("m", "q", "1", rubric="r", target="t", method="closed"),
        *(PictureRating(method, "q", "1", rubric="r", target=method, method=method) for method in ("human", "gold")),
    ]
    attributes = [("mood", "calm"), ("empty", "")]
    card = picture_cards._card([shown()], ratings, item=item(*attributes))
    record = {"page_title": "Page", "mood": "bright", "scene": "market", "terms": None}
    prompts: Any = Prompts()
    of_card = picture_cards._prompted(card, prompts, record, {"i": {"scene": "harbour", "mood": "grey"}}, pictures=2)
    context = {"page_title": "Page", "mood": "calm", "scene": "harbour"}
    assert asked == [("p", context, [("r", "q", "t")], 2)]
    assert [(len(sent.shared), len(sent.ends[0][1])) for sent in of_card.prompts] == [
        (picture_cards.PROMPT_LENGTH + 1, picture_cards.END_LENGTH + 1),
        (picture_cards.PROMPT_LENGTH, picture_cards.END_LENGTH),
    ]  # fmt: skip
    assert [sent.shared[-1] for sent in of_card.prompts] == ["…", "s"]


def test_texts_past_the_limit_are_counted() -> None:
    texts = [("note", str(n)) for n in range(picture_cards.TEXTS_PER_CARD + 2)]
    ends = [
        picture_cards._shortened(texts[:count])[-1] for count in range(picture_cards.TEXTS_PER_CARD, len(texts) + 1)
    ]
    assert ends == [("note", "5"), ("", "and 1 more text"), ("", "and 2 more texts")]
