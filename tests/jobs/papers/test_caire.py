"""CAIRE's tables of small ratings, against loops over the ratings that follow the paper's words."""

import csv
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jobs.analysis.metrics_output import metrics_table
from jobs.metrics import ranking
from jobs.runtime.command_line import cli
from jobs.runtime.job_tables import write_small
from tests.factories import rating, write_file

pytestmark = pytest.mark.usefixtures("without_plots")
COUNTRIES = ("Brazil", "India", "Kenya")
CONCEPTS, SOURCES = ("dance", "lunch"), ("natural", "generated")
ITEMS = [(s, c, k) for s in SOURCES for c in COUNTRIES for k in CONCEPTS]  # source, country of the prompt, concept
PEOPLE = {f"p{country}{n}": country for country in COUNTRIES for n in range(2)}
SHOWN = {"no context": "none", "linked article": "article", "right article": "gold"}
LINKED = ("article", "titles")
JUDGE = "Qwen/Qwen2.5-VL-7B-Instruct@1"


def drawn() -> dict[str, np.ndarray]:
    """Scores [items, countries] of the judge by condition, and of each person."""
    draw = np.random.default_rng(5)
    names = ["none", "article", "gold", *PEOPLE, "titles"]
    return {name: draw.integers(1, 6, (len(ITEMS), len(COUNTRIES))) for name in names}


@pytest.fixture(scope="module")
def scores() -> dict[str, np.ndarray]:
    return drawn()


@pytest.fixture(scope="module")
def right() -> np.ndarray:
    """Return the right countries by item: that of the prompt, and for every third item also Kenya."""
    labels = np.array([[country == target for target in COUNTRIES] for _, country, _ in ITEMS])
    labels[::3, 2] = True
    return labels


@pytest.fixture(scope="module")
def paper(
    tmp_path_factory: pytest.TempPathFactory, scores: dict[str, np.ndarray], right: np.ndarray
) -> dict[str, list[dict[str, str]]]:
    """Name of a table -> the rows of its CSV."""
    folder: Path = tmp_path_factory.mktemp("caire")
    items = [
        {"item_id": f"i{n}", "kind": "image", "targets": list(COUNTRIES),
         "gold": [target for target, holds in zip(COUNTRIES, right[n], strict=True) if holds],
         "attributes": [("source", source), ("country", country), ("concept", concept)]}
        for n, (source, country, concept) in enumerate(ITEMS)
    ]  # fmt: skip
    rows: list[dict[str, Any]] = []
    for n, (c, country) in itertools.product(range(len(ITEMS)), enumerate(COUNTRIES)):
        for shown in ("none", *LINKED, "gold"):
            rows.append(relevance(n, JUDGE, scores[shown][n, c], country, condition=shown))
        calibrated = 5 if scores["gold"][n, c] >= 3 else 1
        rows.append(relevance(n, JUDGE, calibrated, country, condition="article; log-likelihood"))
        rows.append(relevance(n, "ViT-B-32-quickgelu@openai", 1 + n % 2, country, method="encoder"))
        rows += [relevance(n, p, scores[p][n, c], country) for p, own_values in PEOPLE.items() if own_values == country]
    tables = {
        "items": items,
        "ratings": rows,
        "raters": [{"rater": p, "kind": "human", "country": c} for p, c in PEOPLE.items()],
    }
    keys = [f"{name}=[{write_file(folder / name, name, of_item)}]" for name, of_item in tables.items()]
    for method, ranks in (("lemma_vision", [1, 2, 7]), ("frequency_vision", [0, 1, 1])):
        metrics = [ranking.accuracy_at(ranks, k).at(dataset="IN-Food") for k in (1, 5)]
        metrics.append(ranking.right_answers([{"a"}, {"b"}, {"a"}]).at(dataset="IN-Food"))
        write_small(f"{folder}/linking/{method}", metrics_table(metrics), table="metrics", identity={}, config={})
    keys += [
        f"computed=[{folder}/linking/*]",
        "paper=caire",
        "paper.show_printed=true",
        "metrics.people=1",
        f"out={folder}/out",
    ]
    cli.execute("report", keys)
    files = (folder / "out" / "paper").glob("*.csv")
    return {file.stem: list(csv.DictReader(file.open(encoding="utf-8"))) for file in files}


def relevance(item: int, rater: str, score: int, target: str, **columns: Any) -> dict[str, Any]:
    row = rating(f"i{item}", rater, "relevance", str(score), target=target, **columns)
    return row | {"rubric": "cultural_relevance"}


def cell(rows: list[dict[str, str]], column: str, **headers: str) -> dict[str, str]:
    (result,) = [r for r in rows if r["column"] == column and all(r[name] == v for name, v in headers.items())]
    return result


def f1(predicted: np.ndarray, right: np.ndarray) -> float:
    hits = (predicted & right).sum()
    return float(2 * hits / (predicted.sum() + right.sum()))


def by_image(model: np.ndarray, people: np.ndarray, chosen: list[int]) -> float:
    """Mean over pictures of the correlation over countries, of those in which both scores vary."""
    varied = [n for n in chosen if np.ptp(model[n]) and np.ptp(people[n])]
    return float(np.mean([np.corrcoef(model[n], people[n])[0, 1] for n in varied]))


@pytest.fixture(scope="module")
def people(scores: dict[str, np.ndarray]) -> np.ndarray:
    """Mean score [items, countries] of the people of each country."""
    columns = [
        [scores[p][:, c] for p, own_values in PEOPLE.items() if own_values == country]
        for c, country in enumerate(COUNTRIES)
    ]
    return np.stack([np.mean(column, axis=0) for column in columns], axis=1)


def where(**values: str) -> list[int]:
    names = ("source", "country", "concept")
    return [n for n, item in enumerate(ITEMS) if all(item[names.index(k)] == v for k, v in values.items())]


def test_all_tables_are_there(paper: dict[str, list[dict[str, str]]]) -> None:
    assert set(paper) == {"captions", *(f"table_{n}" for n in (1, 2, 3, 4, 8, 10, 11, 14, 15, 16, 17))}


def test_tables_1_10_and_11(paper: dict[str, Any], scores: dict[str, np.ndarray], right: np.ndarray) -> None:
    own_values = {shown: f1(scores[condition] >= 4, right) for shown, condition in SHOWN.items()}
    for shown in ("no context", "linked article"):
        row = cell(paper["table_1"], "F1", Model=JUDGE, Shown=shown)
        assert float(row["value"]) == pytest.approx(own_values[shown])
        assert float(row["printed"]) == {"no context": 0.41, "linked article": 0.655}[shown]
    assert "right article" not in {row["Shown"] for row in paper["table_1"]}
    change = cell(paper["table_1"], "Change from 'none'", Model=JUDGE, Shown="linked article")
    assert float(change["value"]) == pytest.approx(own_values["linked article"] - own_values["no context"])
    assert (float(change["printed"]), change["n"]) == (0.245, "36")
    assert float(cell(paper["table_10"], "F1", Model=JUDGE)["value"]) == pytest.approx(own_values["right article"])
    ratio = cell(paper["table_11"], "Ratio", Model=JUDGE, Shown="linked article")
    assert float(ratio["value"]) == pytest.approx(own_values["linked article"] / own_values["right article"])
    assert float(ratio["printed"]) == 0.843
    encoder = cell(paper["table_1"], "F1", Model="ViT-B-32-quickgelu@openai", Shown="encoder")
    assert (encoder["value"], encoder["printed"]) == ("0.0", "0.033")
    printed = cell(paper["table_1"], "F1", Model="Pangea-7B", Shown="titles of linked articles")
    assert (printed["value"], printed["printed"]) == ("", "0.29")
    assert cell(paper["table_8"], "F1", Model="Pangea-7B")["printed"] == "0.56"
    likely = cell(paper["table_8"], "F1", Model=JUDGE)
    assert (float(likely["value"]), likely["printed"]) == (pytest.approx(f1(scores["gold"] >= 3, right)), "0.436")


def test_tables_2_and_15(paper: dict[str, Any], scores: dict[str, np.ndarray], people: np.ndarray) -> None:
    for shown, source, country in itertools.product(("no context", "linked article"), SOURCES, COUNTRIES):
        row = cell(paper["table_2"], f"{country} · {source}", Model=JUDGE, Shown=shown)
        chosen = where(source=source, country=country)
        assert float(row["value"]) == pytest.approx(by_image(scores[SHOWN[shown]], people, chosen))
    row = cell(paper["table_2"], "All · generated", Model=JUDGE, Shown="linked article")
    assert float(row["value"]) == pytest.approx(by_image(scores["article"], people, where(source="generated")))
    assert row["printed"] == "0.56"
    assert cell(paper["table_2"], "India · natural", Model=JUDGE, Shown="no context")["printed"] == "0.76"
    row = cell(paper["table_15"], f"{JUDGE}, linked article · natural", Concept="lunch")
    assert float(row["value"]) == pytest.approx(
        by_image(scores["article"], people, where(source="natural", concept="lunch"))
    )
    assert row["printed"] == "0.61"


def test_tables_16_and_17(paper: dict[str, Any], scores: dict[str, np.ndarray], people: np.ndarray) -> None:
    chosen = where(source="natural")
    row = cell(paper["table_16"], "Averaged over all · natural", Model=JUDGE, Shown="linked article")
    means = scores["article"][chosen].mean(0), people[chosen].mean(0)
    assert float(row["value"]) == pytest.approx(np.corrcoef(*means)[0, 1])
    concepts = [[n for n in chosen if ITEMS[n][2] == concept] for concept in CONCEPTS]
    groups_of_rows = [np.corrcoef(scores["article"][part].mean(0), people[part].mean(0))[0, 1] for part in concepts]
    row = cell(paper["table_16"], "Averaged by concept · natural", Model=JUDGE, Shown="linked article")
    assert float(row["value"]) == pytest.approx(np.mean(groups_of_rows))
    best = max(LINKED, key=lambda shown: by_image(scores[shown], people, where()))
    single = [
        np.corrcoef(scores[best][chosen, 1], scores[p][chosen, 1])[0, 1] for p, c in PEOPLE.items() if c == "India"
    ]
    expected = {"Mean": np.mean(single), "Maximum": max(single), "SD": np.std(single, ddof=1)}
    for label, value in expected.items():
        assert float(cell(paper["table_17"], f"{label} · natural", Country="India")["value"]) == pytest.approx(value)
    average = np.corrcoef(scores[best][chosen, 1], people[chosen, 1])[0, 1]
    row = cell(paper["table_17"], "With the average · natural", Country="India")
    assert (float(row["value"]), row["printed"]) == (pytest.approx(average), "0.63")


def test_table_14(paper: dict[str, Any], scores: dict[str, np.ndarray]) -> None:
    chosen = where(source="generated")
    first, second = (scores[p][chosen, 0] for p in PEOPLE if PEOPLE[p] == "Brazil")
    row = cell(paper["table_14"], "Brazil · generated", Measure="Pearson, mean over pairs")
    assert float(row["value"]) == pytest.approx(np.corrcoef(first, second)[0, 1])
    assert row["printed"] == "0.42"
    pooled = np.concatenate([first, second])  # Krippendorff's alpha of two raters without gaps, squared differences
    expected = np.mean([(a - b) ** 2 for a, b in itertools.permutations(pooled, 2)])
    row = cell(paper["table_14"], "Brazil · generated", Measure="Krippendorff's alpha, interval")
    assert float(row["value"]) == pytest.approx(1 - np.mean((first - second) ** 2) / expected)


def test_tables_3_and_4(paper: dict[str, Any]) -> None:
    row = cell(paper["table_3"], "IN-Food · @5", Method="Nodes of the nearest pictures, by lemma")
    assert (float(row["value"]), float(row["printed"])) == (pytest.approx(2 / 3), 0.5065)
    row = cell(paper["table_3"], "IN-Food · @1", Method="Nodes of the nearest pictures, by frequency")
    assert (float(row["value"]), float(row["printed"])) == (pytest.approx(2 / 3), 0.2271)
    assert cell(paper["table_3"], "IN-Plant · @20", Method="All articles")["printed"] == "0.2783"
    row = cell(paper["table_4"], "Entities", Dataset="IN-Food")
    assert (row["value"], row["n"], row["printed"]) == ("2.0", "3", "563.0")
