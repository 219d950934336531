"""Intervals of a report rest on pictures: their targets, samples and responses are drawn together."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jobs.metrics.intervals import student, wilson
from jobs.runtime.command_line import cli
from tests.factories import FIVE, rating, rows_of, write_file

pytestmark = pytest.mark.usefixtures("without_plots")
PICTURES, TARGETS, SAMPLES = 24, ("joy", "fear", "rage"), 3


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """The metrics of a study with three targets per picture, and of three responses about each picture.

    Two pictures share a prompt.
    """
    folder, random = tmp_path_factory.mktemp("units"), np.random.default_rng(3)
    items, of_targets, responses, of_responses = [], [], [], []
    for number in range(PICTURES):
        place = {"region": "East" if number < 10 else "West", "prompt": f"prompt {number // 2}"}
        picture = {"image_ids": [f"p{number}"], "attributes": [*place.items()]}
        items.append({"item_id": f"i{number}", "kind": "image", "targets": [*TARGETS], **picture})
        mood = random.integers(1, 5)
        for shift, target in enumerate(TARGETS):
            answer = min(5, mood + (shift == 2) * random.integers(0, 2))
            of_targets.append(rating(f"i{number}", "m", "shown", str(answer), target=target))
        for sample in range(SAMPLES):
            name = f"r{number}-{sample}"
            responses.append({"response_id": name, "item_id": f"i{number}", "model": "w@1", "prompt": "a",
                              "sample": sample, "text": "w" * (20 + 3 * mood + sample), "status": "ok"})  # fmt: skip
            of_responses.append(rating(name, "m", "shown", str(min(5, mood + random.integers(0, 2)))))
    tables = {
        "items": write_file(folder / "items", "items", items),
        "responses": write_file(folder / "responses", "responses", responses),
    }
    studies = {"targets": of_targets, "responses": of_responses, "prompts": of_targets}
    metrics = {}
    for study, ratings in studies.items():
        table = write_file(folder / f"{study}-ratings", "ratings", ratings, rubric=FIVE)
        keys = [f"ratings=[{table}]", f"items=[{tables['items']}]", f"out={folder}/{study}-report"]
        keys += ["metrics.unit=prompt"] if study == "prompts" else []
        keys += [f"responses=[{tables['responses']}]"] if study == "responses" else ["metrics.disaggregate=[region]"]
        cli.execute("report", keys)
        rows = rows_of(f"{folder}/{study}-report/metrics")
        metrics[study] = [{**row, "dims": json.loads(row["dims"])} for row in rows]
        scores = np.array([row["score"] for row in ratings], float).reshape(PICTURES, -1)
        metrics[f"{study} scores"] = scores  # type: ignore[assignment]
    return metrics


def one(rows: list[dict[str, Any]], metric: str, **dims: str) -> dict[str, Any]:
    (row,) = [r for r in rows if r["metric"] == metric and dims.items() == r["dims"].items()]
    return row


def between_pictures(scores: np.ndarray) -> float:
    """Return half of Student's interval of the mean of float64[pictures, k] scores, from the means of pictures."""
    means = scores.mean(1)
    return student(len(means)) * float(means.std(ddof=1) / np.sqrt(len(means)))


def test_means_and_shares_rest_on_pictures(reports: dict[str, Any]) -> None:
    dims = {"rubric": "r", "question": "shown"}
    for study in ("targets", "responses"):
        rows, scores = reports[study], reports[f"{study} scores"]
        mean = one(rows, "mean_score", rater="m", **dims)
        assert (mean["n"], mean["units"], mean["value"]) == (scores.size, PICTURES, pytest.approx(scores.mean()))
        assert (mean["low"], mean["high"]) == pytest.approx(
            (scores.mean() - between_pictures(scores), scores.mean() + between_pictures(scores))
        )
        share = one(rows, "share", rater="m", answer="4", **dims)
        hit = scores == 4
        p, deviations = hit.mean(), (hit - hit.mean()).sum(1)
        effect = PICTURES / (PICTURES - 1) * (deviations**2).sum() / (p * (1 - p) * scores.size)
        assert (share["low"], share["high"]) == pytest.approx(
            wilson(hit.sum(), scores.size, z=student(PICTURES) * np.sqrt(effect))
        )
        grouped = one(rows, "group_mean_score", group="m", **dims)
        assert grouped["units"] == PICTURES
        assert grouped["interval_method"] == "percentile bootstrap over pictures 95%, 1000 resamples"
        assert grouped["high"] - grouped["low"] == pytest.approx(2 * between_pictures(scores), rel=0.15)


def test_few_counts_pictures_and_the_unit_may_be_an_attribute(reports: dict[str, Any]) -> None:
    dims = {"rubric": "r", "question": "shown", "group": "m", "attribute": "region", "part": "East"}
    east = one(reports["targets"], "group_mean_score", **dims)
    assert (east["n"], east["units"]) == (30, 10)
    assert "fewer than 30" in east["reason"]
    of_prompts = one(reports["prompts"], "group_mean_score", **dims)
    assert (of_prompts["value"], of_prompts["n"], of_prompts["units"]) == (east["value"], 30, 5)
    assert "values of prompt" in of_prompts["interval_method"]


def test_dependence_on_length_rests_on_pictures(reports: dict[str, Any]) -> None:
    for kind in ("pearson", "spearman"):
        bias = one(reports["responses"], "length_bias", rubric="r", question="shown", group="m", kind=kind)
        assert (bias["n"], bias["units"]) == (PICTURES * SAMPLES, PICTURES)
        assert bias["interval_method"].startswith("fisher z of a jackknife over pictures")


def test_every_interval_of_responses_counts_pictures(reports: dict[str, Any]) -> None:
    """Nothing in a report on 72 responses about 24 pictures rests on more than 24 units."""
    with_interval = [row for row in reports["responses"] if row["interval_method"]]
    assert len({row["metric"] for row in with_interval}) > 5
    assert [row["metric"] for row in with_interval if (row["units"] or row["n"]) > PICTURES] == []


def test_the_page_shows_units(reports: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> None:
    page = Path(tmp_path_factory.getbasetemp()).rglob("units0/targets-report/index.html")
    text = next(page).read_text(encoding="utf-8")
    assert f"n 72, {PICTURES} units" in text
    assert "Small numbers are 95% intervals over units: pictures, or what" in text  # of the distributions of answers
