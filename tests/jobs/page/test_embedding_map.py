"""The map of the gallery's pictures: principal components, the same for the same vectors, without excluded pictures."""

import numpy as np
import pytest

from jobs.html.thumbnails import thumbnail
from jobs.page.embedding_map import SIDE, embedding_map, principal_axes
from jobs.page.model import GalleryPicture, Page
from jobs.page.render import render
from jobs.runtime.selection.exclusions import ExclusionFilter
from jobs.store.reading import open_table
from tests.factories import embedding_rows, write_table
from tests.jobs.page.sample import drawn

NONE = ExclusionFilter(frozenset())


def test_axes_are_those_of_the_widest_differences() -> None:
    draw = np.random.default_rng(1)
    points = (draw.normal(size=(400, 2)) * (5, 2)) @ np.array([[0.6, 0.8, 0], [-0.8, 0.6, 0]]) + 0.1
    mean, axes, shares = principal_axes(points.astype(np.float32))
    assert mean == pytest.approx(points.mean(axis=0), abs=1e-4)
    assert np.abs(axes @ np.array([[0.6, 0.8, 0], [-0.8, 0.6, 0]]).T) == pytest.approx(np.eye(2), abs=0.05)
    assert (axes.max(axis=1) == np.abs(axes).max(axis=1)).all()
    assert shares == pytest.approx((25 / 29, 4 / 29), abs=0.05)
    assert principal_axes(points.astype(np.float32) / 100)[2] == pytest.approx(shares, abs=1e-4)
    assert principal_axes(np.ones((3, 2), np.float32))[2] == (0, 0)


def test_the_map_has_the_cards_that_have_vectors_and_links_to_them(tmp_path) -> None:
    vectors = np.array([[1, 0, 0, 0.1], [0, 1, 0, 0.1], [0.9, 0.1, 0, 0.1], [0, 0, 1, 0.1]], np.float32)
    source = open_table(write_table(tmp_path / "e", "embeddings", embedding_rows(list("abcd"), "image", vectors)))
    small, _ = thumbnail(drawn(1))
    assert small is not None
    cards = [GalleryPicture(name.upper(), image_id=name, thumbnails=[small]) for name in ("c", "x", "a", "b", "a")]
    shown = embedding_map(source, cards, NONE)
    assert shown is not None
    assert ([point.image_id for point in shown.points], shown.fitted) == (["a", "b", "c"], 4)
    assert {max(point.small.width, point.small.height) for point in shown.points} == {SIDE}
    assert max(small.width, small.height) > SIDE
    assert {round(value, 6) for point in shown.points for value in (point.x, point.y)} >= {0, 1}
    a, b, c = ((point.x, point.y) for point in shown.points)
    assert np.hypot(a[0] - c[0], a[1] - c[1]) < np.hypot(a[0] - b[0], a[1] - b[1])
    assert shown == embedding_map(source, cards, NONE)
    html = render(Page("t", pictures=cards, map=shown))
    section = html[html.index('<ul class="map">') :]
    assert [f'<a href="#picture-{number}"' in section for number in (1, 2, 3, 4, 5)] == [True, False, True, True, False]
    assert embedding_map(source, cards[:3], NONE) is None
    assert embedding_map(source, [*cards, GalleryPicture("D", image_id="d")], NONE) == shown  # without a picture
    without = embedding_map(source, [*cards, GalleryPicture("D", image_id="d", thumbnails=[small])],
                            ExclusionFilter(frozenset("b")))  # fmt: skip
    assert without is not None
    assert ([point.image_id for point in without.points], without.fitted) == (["a", "c", "d"], 3)
