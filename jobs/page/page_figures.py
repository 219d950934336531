"""The plots of the data on a page, at most `MAX_BYTES` in all."""

from collections.abc import Container, Iterator, Mapping, Sequence
from itertools import chain
from types import MappingProxyType

from jobs.metrics.kinds import Topic
from jobs.metrics.metric import Metric
from jobs.metrics.observations import Observations
from jobs.metrics.question import MODELS, PEOPLE
from jobs.page.anchors import anchor
from jobs.page.family_figures import RATERS, family_figures
from jobs.page.metric_families import FAMILIES, blocks, each_once, is_shown_by_distributions
from jobs.page.model import FunnelStep, PageFigure, Wording
from jobs.page.observed_figures import observed_figures
from jobs.page.rater_figures import EACH_TWO, rater_figures
from jobs.page.short_names import rater_hues, shortened
from jobs.plots.counts import Steps
from jobs.plots.figures import plot

MAX_BYTES = 6_000_000  # size of all plots of a page together
FUNNEL = 3  # fewest steps of a funnel


def page_figures(
    metrics: Sequence[Metric],
    observations: Observations,
    wording: Mapping[tuple[str, str], Wording],
    places: Container[str] = (),
    letters: Mapping[str, str] = MappingProxyType({}),
) -> tuple[list[PageFigure], list[str]]:
    """Return the plots of ratings and metrics, in the order of the page, and the titles of others, left out for their
    size.

    Args:
        places: anchors of the cells and rows that have cards (`jobs.page.card_links`).
        letters: rater -> its letter on the page; plots that would repeat the distributions of a single rater are left
            out.
    """
    place = {key: number for number, key in enumerate(wording)}

    def order(dims: Mapping[str, str]) -> int:
        return place.get((dims.get("rubric", ""), dims.get("question", "")), len(place))

    metrics = sorted(metrics, key=lambda metric: order(metric.dims))
    observations = Observations(
        sorted(observations.confusions, key=lambda pair: order(pair[0])),
        sorted(observations.pairs, key=lambda pair: order(pair[0])),
    )
    one_rater = len(letters) == 1
    others = sorted(
        {value for m in metrics for dim in RATERS if (value := m.dims.get(dim)) not in (None, PEOPLE, MODELS)}
    )
    hues = rater_hues([*letters, *others])
    metric_blocks = blocks(metrics, list(wording), one_rater=one_rater)
    metrics = [metric for metric in each_once(metrics) if not (one_rater and is_shown_by_distributions(metric))]
    figures: list[PageFigure] = []
    left: list[str] = []
    size = 0
    for figure in chain(
        rater_figures(metrics, metric_blocks, wording, places, letters, hues=hues),
        observed_figures(observations, metric_blocks, wording, places),
        family_figures(metrics, metric_blocks, wording, places, hues),
    ):
        bytes_of = sum(map(len, figure.plots))
        if size + bytes_of > MAX_BYTES:
            left.append(figure.title)
            continue
        size += bytes_of
        figures.append(figure)
    return figures, left


def funnel_figures(steps: Sequence[FunnelStep]) -> Iterator[PageFigure]:
    """Yield the plot of the funnel, if it has at least three steps."""
    if len(steps) < FUNNEL:
        return
    labels = [shortened(f"{step.label}{', ' + step.unit if step.unit else ''}", 44) for step in steps]
    yield PageFigure(
        name=anchor("figure", "funnel"),
        title="Funnel",
        about="",
        plots=(
            plot(
                Steps([step.n for step in steps], labels),
                title="Funnel",
                description="; ".join(f"{step.label}: {step.n:,} {step.unit}".strip() for step in steps) + ".",
            ),
        ),
        numbers=[("steps", "steps")],
    )


def figure_of(figures: Sequence[PageFigure]) -> dict[str, str]:
    """Return the anchor of the plot of each family's numbers, by the family's title."""
    names = {figure.title: figure.name for figure in figures}
    plotted = {str(family.title): names[family.title] for family in FAMILIES if family.title in names}
    return {**plotted, **({str(Topic.TWO_RATERS): names[EACH_TWO]} if EACH_TWO in names else {})}
