"""Tile maps of the answers to questions about regions of the world."""

from collections.abc import Container, Iterator, Mapping, Sequence

from jobs.metrics.distributions import Distribution
from jobs.page.anchors import anchor
from jobs.page.card_orders import answer_anchor
from jobs.page.model import PageFigure, Wording, rater_label
from jobs.page.short_names import not_drawn, short_names
from jobs.plots.figures import plot
from jobs.plots.tiles import TileMap, place_of

LEAST = 3  # answers of a rater that have a tile; fewer make no map
MAX_MAPS = 24  # most raters of a question, each with a map


def region_figures(
    distributions: Sequence[Distribution],
    wording: Mapping[tuple[str, str], Wording],
    places: Container[str],
    single: Container[str] = (),
) -> Iterator[PageFigure]:
    """Yield a figure, with a map per rater, for each question whose answers are mostly sub-regions of the world.

    Args:
        places: anchors of answers that have cards; their tiles are links.
        single: single people and references; their maps come after those of models and of all people.
    """
    for key in dict.fromkeys((d.rubric, d.question) for d in distributions):
        of_question = sorted(
            (d for d in distributions if (d.rubric, d.question) == key), key=lambda d: d.rater in single
        )
        words = wording.get(key, Wording(key[1]))
        codes = list(dict.fromkeys(share.answer for d in of_question for share in d.answers))
        labels = {code: words.labels.get(code) or code for code in codes}
        on_map = [code for code in codes if place_of(labels[code])]
        answered = [code for code in on_map if any(s.count for d in of_question for s in d.answers if s.answer == code)]
        if len(answered) < LEAST or 2 * len(on_map) <= len(codes):
            continue
        names = [rater_label(d.rater, d.extra) for d in of_question]
        short = short_names(names)
        shares = [{share.answer: share.share for share in d.answers} for d in of_question]
        high = max((share for of_rater in shares for code in on_map if (share := of_rater.get(code))), default=1.0)
        links = {
            labels[code]: (name, f"Cards: {labels[code]}")
            for code in on_map
            if (name := answer_anchor(key, code)) in places
        }
        absent = [labels[code] for code in codes if code not in on_map]
        notes = [f"Not on the map: {', '.join(absent)}."] if absent else []
        notes += not_drawn([short[name] for name in names[MAX_MAPS:]])
        yield PageFigure(
            name=anchor("figure", *key, f"map {words.title}"),
            title=f"Map of “{words.title}”",
            about="Each sub-region of the world is a tile near its place on a map; its colour is its share of the "
            "rater’s answers. A tile links to the cards with this answer, if there are any.",
            plots=[
                plot(
                    TileMap({labels[code]: of_rater.get(code) for code in on_map}, high, links),
                    title=f"Map of {words.title}: {short[name]}",
                    description=f"Shares of the answers of {short[name]} by sub-region of the world.",
                    heading=short[name],
                )
                for name, of_rater in list(zip(names, shares, strict=True))[:MAX_MAPS]
            ],
            numbers=[("ratings", question_place(key))],
            notes=notes,
            wide=True,
        )


def question_place(key: tuple[str, str]) -> str:
    """Return the anchor of the distributions of a question."""
    return anchor("ratings", key[0], f"ratings {key[1]}")
