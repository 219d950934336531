"""The cards of a gallery: pictures and the items that show them, with their texts, ratings, marks and prompts."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from actors.quantities import quantity
from actors.status import Status
from jobs.analysis.report_tables import ReportTables
from jobs.analysis.span_tables import MODELS, MarkedText, SpanTables, dims_of
from jobs.html.formats import REGIONS
from jobs.html.thumbnails import Thumbnail, thumbnail
from jobs.judging.sent_prompts import PromptTexts, as_context
from jobs.metrics.rated_question import PEOPLE
from jobs.page.gallery import Gallery
from jobs.page.page_contents import (
    CardMark,
    GalleryPicture,
    MarkedSpan,
    PictureRating,
    Wording,
    rater_label,
    spans_label,
)
from jobs.runtime.selection.exclusions import ExclusionFilter
from jobs.store.object_rows import read_unit
from jobs.store.reading import TableSource
from jobs.tables import HUMAN

Words = Mapping[tuple[str, str], Wording]

ANSWERS_PER_CARD = 40  # lines of question and target
RATINGS_PER_CARD = 400  # ratings on a card, of all raters together
FACTS_PER_CARD = 12
TEXT_LENGTH = 4000  # characters of each of an item's texts on its card
TEXTS_PER_CARD = 6
END_LENGTH = 600  # characters of the end of a prompt
PROMPT_LENGTH = 3000  # characters of the text that all prompts about a card share
GOLD = "gold"  # method of ratings without a prompt
GROUP_OF = {HUMAN: PEOPLE, GOLD: GOLD}  # of kinds of raters that marked spans; all others are models
SPAN_LENGTH = 120  # characters of a marked span
ANSWER_LENGTH = 300  # characters of what a rater wrote instead of an answer, and of a comment
CREDIT_LENGTH = 160  # characters
TITLES = ("page_title", "title")  # attributes of an item that its card's title is taken from, the first that it has
WRITER_ATTRIBUTES = ("model", "prompt", "sample")  # attributes of an item in its card's title


def gallery_cards(
    tables: ReportTables,
    gallery: Gallery,
    rows_of: Mapping[str, Sequence[Mapping[str, Any]]],
    words: Words,
    *,
    extra: Sequence[str],
    exclusion_filter: ExclusionFilter,
    prompts: PromptTexts | None = None,
    marks: Mapping[str, Sequence[CardMark]] = MappingProxyType({}),
) -> list[GalleryPicture]:
    """Return at most `gallery.size` cards: of items, and of pictures that were rated themselves or belong to no item.

    A card whose pictures cannot be decoded has no thumbnails and the status error.

    Args:
        rows_of: id of a picture or an item -> its rows of `ratings`.
        extra: columns that distinguish the ratings of one rater, such as `condition`.
        exclusion_filter: the exclusions; no card shows an excluded picture.
        prompts: renders the prompts that models were sent about a card; None: cards show no prompts.
        marks: item_id -> the spans that raters marked in its texts.
    """
    if not gallery.pictures:
        return []
    several = {image_id for item in gallery.items for image_id in item["image_ids"]}
    fields = prompts.record_columns if prompts else []
    shown = _shown(tables, {*gallery.pictures, *several}, exclusion_filter, fields)
    texts, by_role = _texts(tables, gallery.items)
    items_of = {
        image_id: [item for item in items if all(i in shown for i in item["image_ids"])]
        for image_id, items in gallery.items_of.items()
    }
    in_items = {image_id for items in items_of.values() for item in items for image_id in item["image_ids"]}
    cards: list[GalleryPicture] = []
    for image_id in gallery.pictures:
        items = items_of.get(image_id, [])
        picture_items = [item for item in items if item["item_id"] == image_id]
        if image_id in shown and not picture_items and (rows_of.get(image_id) or image_id not in in_items):
            cards.append(_card([shown[image_id]], _ratings(rows_of.get(image_id, ()), words, extra)))
        for item in items:
            ratings = _ratings(rows_of.get(item["item_id"], ()), words, extra)
            card = _card([shown[i] for i in item["image_ids"]], ratings, item=item, texts=texts[item["item_id"]])
            cards.append(replace(card, marks=marks.get(item["item_id"], ())))
    if prompts:
        sizes = {item["item_id"]: len(item["image_ids"]) for items in gallery.items_of.values() for item in items}
        cards = [
            _prompted(card, prompts, shown[card.image_id].record, by_role, pictures=sizes.get(card.item_id, 1))
            for card in cards[: gallery.size]
        ]
    return sorted(cards[: gallery.size], key=lambda card: gallery.draws.get(card.image_id, card.image_id))


def titled_cards(
    tables: ReportTables, titles: Sequence[tuple[str, str]], exclusion_filter: ExclusionFilter
) -> list[GalleryPicture]:
    """Return a card without ratings for each picture that is in the report and not excluded.

    Args:
        titles: image_id and title of each card.
    """
    if "images" not in tables.corpus:
        return []
    shown = _shown(tables, {image_id for image_id, _ in titles}, exclusion_filter)
    return [
        replace(_card([shown[image_id]], []), title=title, caption="", facts=(), source_url=None)
        for image_id, title in titles
        if image_id in shown
    ]


class _Shown(NamedTuple):
    """A picture: its row of `images` without bytes, its row of `records`, and its thumbnail or the kind of error."""

    image: Mapping[str, Any]
    record: Mapping[str, Any]
    small: Thumbnail | None
    error_kind: str | None


def _shown(
    tables: ReportTables, image_ids: set[str], exclusion_filter: ExclusionFilter, fields: Sequence[str] = ()
) -> dict[str, _Shown]:
    """Return the pictures that are in the table and not excluded, by image_id.

    Args:
        fields: additional columns of their records.
    """
    records = tables.corpus["records"].by_unit() if "records" in tables.corpus else {}
    wanted = pa.array(sorted(image_ids), pa.string())
    shown = {}
    for footer in tables.corpus["images"].footers:
        uri, unit = footer.object.uri, footer.unit
        if not pc.any(pc.is_in(read_unit(uri, columns=["image_id"])["image_id"], wanted)).as_py():
            continue
        images = read_unit(uri)
        parent = records.get(unit.name) or records.get(unit.parent)
        record_of = _records(parent.uri, fields) if parent else {}
        for image in images.filter(pc.is_in(images["image_id"], wanted)).to_pylist():
            image_id, data = image["image_id"], image.pop("bytes")
            if not exclusion_filter.hit(image_id, image["source_url"]):
                small, error_kind = thumbnail(data) if data is not None else (None, image["error_kind"])
                shown[image_id] = _Shown(image, record_of.get(image_id, {}), small, error_kind)
    return shown


def _records(uri: str, fields: Sequence[str]) -> dict[str, dict[str, Any]]:
    columns = [
        "image_id",
        "page_title",
        "caption_attribution_description",
        "page_url",
        "caption_reference_description",
        "terms",
    ]
    rows = read_unit(uri, columns=list(dict.fromkeys([*columns, *fields])))
    return {row["image_id"]: row for row in rows.to_pylist()}


def _texts(
    tables: ReportTables, items: Sequence[Mapping[str, Any]]
) -> tuple[dict[str, list[tuple[str, str]]], dict[str, dict[str, str]]]:
    """Return two dicts by item_id: (role, text) of the item's response or texts, shortened; and its texts by role."""
    responses = _lookup(tables.responses, "response_id", {item["response_id"] or item["item_id"] for item in items})
    texts = _lookup(tables.texts, "text_id", {name for item in items for name in item["text_ids"] or ()}, "role")
    texts_of: dict[str, list[tuple[str, str]]] = {}
    by_role: dict[str, dict[str, str]] = {}
    for item in items:
        item_texts = [row for row in (texts.get(name) for name in item["text_ids"] or ()) if row and row["text"]]
        response = responses.get(item["response_id"] or item["item_id"], {}).get("text")
        with_roles = [("", response)] if response else [(row["role"], row["text"]) for row in item_texts]
        texts_of[item["item_id"]] = _shortened(with_roles)
        roles = by_role.setdefault(item["item_id"], {})
        for row in item_texts:
            roles[row["role"]] = "\n\n".join(filter(None, (roles.get(row["role"]), row["text"])))
    return texts_of, by_role


def _lookup(sources: Sequence[TableSource], key: str, ids: set[str], *columns: str) -> dict[str, dict[str, Any]]:
    """Return column `text` and the other `columns` of the rows that have one of `ids`, by id."""
    row_of: dict[str, dict[str, Any]] = {}
    wanted = pa.array(sorted(ids), pa.string())
    for source in sources if ids else ():
        for batch in source.batches([key, "text", *columns]):
            rows = batch.filter(pc.is_in(batch[key], wanted))
            row_of.update((row[key], row) for row in rows.to_pylist())
    return row_of


def _shortened(texts: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the first (role, text) pairs, with long texts cut; a single text needs no role."""
    first = [(role if len(texts) > 1 else "", _cut(text, TEXT_LENGTH)) for role, text in texts[:TEXTS_PER_CARD]]
    more = len(texts) - len(first)
    return [*first, ("", f"and {quantity(more, 'more text')}")] if more else first


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[:length] + "…"


def _prompted(
    card: GalleryPicture,
    prompts: PromptTexts,
    record: Mapping[str, Any],
    by_role: Mapping[str, Mapping[str, str]],
    *,
    pictures: int,
) -> GalleryPicture:
    """Return the card with the prompts that models were sent about it, shortened."""
    asked = [(r.rubric, r.question, r.target) for r in card.ratings if r.method not in (HUMAN, GOLD)]
    fields = as_context({name: record.get(name) for name in prompts.record_columns})
    context = {**fields, **by_role.get(card.item_id, {}), **{k: v for k, v in card.attributes.items() if v}}
    sent = [
        prompt._replace(
            shared=_cut(prompt.shared, PROMPT_LENGTH), ends=[(name, _cut(e, END_LENGTH)) for name, e in prompt.ends]
        )
        for prompt in prompts.of_item(card.image_id, context, asked, pictures=pictures)
    ]
    return replace(card, prompts=sent)


def _card(
    pictures: Sequence[_Shown],
    ratings: list[PictureRating],
    *,
    item: Mapping[str, Any] | None = None,
    texts: Sequence[tuple[str, str]] = (),
) -> GalleryPicture:
    first = pictures[0]
    image, record = first.image, first.record
    title = record.get("page_title") or (image["source_url"] or "").rsplit("/", 1)[-1]
    facts = [("size", f"{image['width']} x {image['height']} {image['format']}")] if image["width"] else []
    facts += [("terms", ", ".join(record["terms"]))] if record.get("terms") else []
    attributes: dict[str, str] = {}
    if item:
        attributes |= dict(item["attributes"] or ())
        by_lower_name = {name.lower(): value for name, value in attributes.items() if value}
        title = next((by_lower_name[name] for name in TITLES if name in by_lower_name), title)
        writer = " · ".join(attributes[name] for name in WRITER_ATTRIBUTES if attributes.get(name))
        title = " — ".join(filter(None, (title, writer or (item["kind"] if item["kind"] != "image" else ""))))
        facts = [(name, value) for name, value in sorted(attributes.items()) if value][:FACTS_PER_CARD] + facts
    failed = next((picture for picture in pictures if picture.small is None), first)
    credits = [_credit(picture) for picture in pictures]
    return GalleryPicture(
        image_id=image["image_id"],
        title=title,
        caption="" if texts else record.get("caption_reference_description") or "",
        texts=texts,
        thumbnails=[picture.small for picture in pictures if picture.small],
        status=failed.image["status"] if failed.small or failed.image["status"] != Status.OK else Status.ERROR,
        error_kind=failed.error_kind,
        facts=facts,
        ratings=ratings,
        source_url=record.get("page_url") or image["source_url"],
        credit="; ".join(dict.fromkeys(filter(None, credits))),
        region=_region(attributes, ratings),
        attributes=attributes,
        item_id=item["item_id"] if item else image["image_id"],
    )


def _credit(picture: _Shown) -> str:
    author = picture.image["author"] or picture.record.get("caption_attribution_description") or ""
    author = author if len(author) <= CREDIT_LENGTH else author[:CREDIT_LENGTH] + "…"
    return " · ".join(filter(None, (author, picture.image["licence"])))


def _region(attributes: Mapping[str, str], ratings: Sequence[PictureRating]) -> str:
    """Return the item's attribute for a region, else the most frequent answer to a question about it, else "".

    The first of equally frequent answers counts.
    """
    for name in REGIONS:
        if attributes.get(name):
            return attributes[name]
    for name in REGIONS:
        answers = Counter(r.answer for r in ratings if r.question == name and r.status == Status.OK and r.answer)
        if answers:
            return str(answers.most_common(1)[0][0])
    return ""


def _ratings(rows: Iterable[Mapping[str, Any]], words: Words, extra: Sequence[str]) -> list[PictureRating]:
    """Return a card's ratings in the rubric's order, by target, with only the first of several samples."""
    position = {question: number for number, question in enumerate(words)}
    ordered = sorted(rows, key=lambda r: (position.get((r["rubric"], r["question"]), 0), r["target"], r["sample"]))
    ratings: dict[tuple[str, ...], PictureRating] = {}
    for row in ordered:
        of_row = tuple((name, row[name]) for name in extra)
        key = (row["rubric"], row["question"], row["target"], rater_label(row["rater"], of_row))
        if key not in ratings:
            ratings[key] = _rating(row, of_row, words)
    raters = len({rating.rater for rating in ratings.values()})
    most = min(ANSWERS_PER_CARD, max(1, RATINGS_PER_CARD // max(1, raters)))
    lines = list(dict.fromkeys(key[:3] for key in ratings))[:most]
    return [rating for key, rating in ratings.items() if key[:3] in lines]


def _rating(row: Mapping[str, Any], extra: tuple[tuple[str, str], ...], words: Words) -> PictureRating:
    texts = (str(row.get(name) or "") for name in ("raw", "comment"))
    probabilities = dict(zip(row.get("answers") or (), row.get("probabilities") or (), strict=False))
    return PictureRating(
        rater_label(row["rater"], extra),
        row["question"],
        _label(row, row["value"], words),
        row["status"],
        target=row["target"],
        rubric=row["rubric"],
        value=row["value"],
        score=row["score"],
        probability=probabilities.get(row["value"]),
        shares=tuple((_label(row, answer, words) or "", share) for answer, share in probabilities.items()),
        text="\n".join(text[:ANSWER_LENGTH] for text in texts if text),
        name=row["rater"],
        extra=extra,
        method=row["method"],
    )


def _label(rating: Mapping[str, Any], value: str | None, words: Words) -> str | None:
    question = words.get((rating["rubric"], rating["question"]))
    return question.labels.get(value, value) if question and value is not None else value


def card_marks(tables: SpanTables, item_ids: Collection[str]) -> dict[str, list[CardMark]]:
    """Return the marks in the texts of items, by item_id, kind and rater; a text without spans counts as read.

    Spans are in the order of the text, and long ones are shortened. Without `texts=`, their words are unknown, and
    positions are shown instead.
    """
    marks: dict[str, list[CardMark]] = {}
    for kind, by_rater in sorted(tables.marks.items()):
        for rater, read in sorted(by_rater.items()):
            spans_of: dict[str, list[MarkedSpan]] = {}
            for text, marked in read.items():
                if text.item_id in item_ids:
                    words = None if tables.texts is None else tables.texts[text.text_id]
                    spans_of.setdefault(text.item_id, []).extend(_spans(marked, words))
            for item_id, spans in spans_of.items():
                label, group = spans_label(dims_of(rater)), GROUP_OF.get(tables.kinds.get(rater.rater, HUMAN), MODELS)
                marks.setdefault(item_id, []).append(CardMark(label, group, kind, tuple(spans)))
    return marks


def _spans(marked: MarkedText, text: str | None) -> Iterable[MarkedSpan]:
    for (start, end), category in sorted(set(zip(marked.spans, marked.categories, strict=True))):
        words = f"characters {start} to {end}" if text is None else text[start:end]
        yield MarkedSpan(words if len(words) <= SPAN_LENGTH else words[:SPAN_LENGTH] + "…", category.replace("+", ", "))
