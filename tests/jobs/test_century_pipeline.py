"""`pipeline=century` from a dump and rows of WIT to the released data set, on S3, with scripted models.

Judge and writer are `tests.scripted_model`: the title of a page and the description decide the judge's answers, the
prompt decides what the writer writes. So each number below can be computed by hand.
"""

import csv
import gzip
import io
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from actors.ids import content_id
from jobs.runtime.command_line import cli
from jobs.store.files import locations
from jobs.tables import WIT_COLUMNS
from tests import scripted_model, secrets_found
from tests.factories import metric_values, rows_of, write_csv, write_pictures
from tests.wikidata import CLASSES, compress, dump, item

pytestmark = pytest.mark.long

CONF = Path(__file__).parents[2] / "conf"
EAST, WEST = "G", "S"  # the codes of Eastern Asia and Western Europe
PICTURES = {  # colour: title, marker, the judge's probabilities of scores, sub-region
    "red": ("Riot in Osaka", "~", {"1": 0.75, "4": 0.25}, EAST),
    "green": ("Riot in Harbin", "$", {"4": 0.75, "2": 0.25}, EAST),
    "blue": ("Battle of X", "%", {"3": 0.75, "2": 0.25}, WEST),
    "white": ("Memorial at Y", "+", {"5": 1.0}, WEST),
}
# A description's marker allows some scores: with the title's marker the one that both allow gets the probability.
PROMPTS = {"explicit": ("x", "^", "345"), "minimal": ("?", "@", "125")}  # letter of the prompt, description, scores
LABELS = {"red": 1, "green": 4, "blue": 3, "white": 5}
RATED = {
    "explicit": {"red": 4, "green": 4, "blue": 3, "white": 5},
    "minimal": {"red": 1, "green": 2, "blue": 2, "white": 5},
}
SAMPLES = 2
PEOPLE = {"ann": 1, "bo": 3, "cy": 3}  # person -> score of each picture; each description gets one more
KEY_OF_PSEUDONYMS = "planted-key-of-pseudonyms"
QUESTIONS = ("identification", "beginner_friendly")  # that people answer about descriptions


def address(name: str) -> str:
    return f"https://upload.wikimedia.org/wikipedia/commons/0/00/{name}.png"


IDS = {content_id(address(colour)): colour for colour in PICTURES}


def wit_rows() -> Iterator[dict[str, str]]:
    """Yield rows of the pictures, and one for each reason to leave a row out."""
    common = {"language": "en", "is_main_image": "true", "mime_type": "image/png"}
    for colour, (title, marker, _, _) in PICTURES.items():
        yield common | {"page_title": f"{title} {marker}", "image_url": address(colour)}
    yield common | {"page_title": "Riot in Osaka", "image_url": address("german"), "language": "de"}
    yield common | {"page_title": "A quiet village", "image_url": address("no_term")}
    yield common | {"page_title": "Riot in Osaka, 2", "image_url": address("side"), "is_main_image": "false"}
    for name in ("first", "second"):  # on one page
        yield common | {"page_title": "After the Battle of X", "image_url": address(name)}
    yield common | {"page_title": "Riot in Harbin, 2", "image_url": address("missing")}


def write_inputs(folder: Path, uri: str) -> list[str]:
    """Write models and profile to `folder`, the data to `uri`; return the pipeline's inputs."""
    text = io.StringIO()
    lines = csv.DictWriter(text, WIT_COLUMNS, delimiter="\t", quoting=csv.QUOTE_MINIMAL, lineterminator="\n")
    lines.writeheader()
    lines.writerows({"page_url": f"https://en.wikipedia.org/wiki/{row['page_title']}"} | row for row in wit_rows())
    locations.create(f"{uri}/wit.val.tsv.gz", gzip.compress(text.getvalue().encode(), mtime=0))
    entities = [
        *CLASSES,
        item(1, "Riot in Osaka", P31=["Q124757"], P585=[("+1918-08-00T00:00:00Z", 10)]),
        item(2, "Riot in Harbin", P31=["Q124757"]),
        item(3, "Battle of X", P31=["Q178561"], P361=["Q198"]),
    ]
    locations.create(f"{uri}/dump.json.bz2", compress(dump(entities), "dump.json.bz2"))
    write_pictures(folder / "photos", PICTURES, size=(360, 240))
    write_csv(folder / "terms.csv", ["term", "source"], [["memorial", "manual"]])
    write_csv(folder / "raters.csv", ["rater"], [[name] for name in PEOPLE])
    scored = ([item_id, name, "sensitive", score] for item_id in IDS for name, score in PEOPLE.items())
    write_csv(folder / "labels.csv", ["item_id", "rater", "question", "value"], scored)
    (folder / "key").write_text(KEY_OF_PSEUDONYMS)
    profile = yaml.safe_load((CONF / "profile" / "debug.yaml").read_text())
    profile["set"] = {"embed": profile["set"]["embed"]}  # judge and writer are scripted
    (folder / "scripted.yaml").write_text(yaml.safe_dump(profile))
    of_titles = {marker: scores | {region: 1.0} for _, marker, scores, region in PICTURES.values()}
    of_descriptions = {marker: dict.fromkeys(scores, 1 / 3) for _, marker, scores in PROMPTS.values()}
    written = {letter: {marker: 1.0} for letter, marker, _ in PROMPTS.values()}
    ends = {marker: {marker: 1.0} for _, marker, _ in PROMPTS.values()}
    inputs = {
        "corpus": f"{uri}/wit.val.tsv.gz",
        "wikidata": f"{uri}/dump.json.bz2",
        "terms": f"{folder}/terms.csv",
        "pictures": f"{folder}/photos",
        "size": 4,
        "downsample_from": "knowledge_graph",
        "judges": f"[{scripted_model.write_with_settings(folder, 'judge', of_titles | of_descriptions)}]",
        "writers": f"[{scripted_model.write_with_settings(folder, 'writer', written | ends)}]",
        "prompts": f"[{','.join(PROMPTS)}]",
        "samples": SAMPLES,
        "max_tokens": 4,
        "raters": f"{folder}/raters.csv",
        "people_described": 3,
        "licence": "cc-by-4.0",
        "key_file": f"{folder}/key",
    }
    return [f"profile={folder}/scripted.yaml", *(f"pipeline.inputs.{name}={value}" for name, value in inputs.items())]


def answers_about_descriptions(folder: Path, out: str) -> str:
    """Write people's ratings of their tasks: one point more than of pictures; the last one notes an error."""
    rows = [
        [item_id, name, question, score + 1, "No such riot." if name == "cy" else ""]
        for item_id in sorted(
            {row["item_id"] for row in rows_of(f"{out}/tasks/descriptions/assignments") if row["role"] != "not_drawn"}
        )
        for name, score in PEOPLE.items()
        for question in QUESTIONS
    ]
    return write_csv(folder / "ratings.csv", ["item_id", "rater", "question", "value", "factual_error"], rows)


def cells(uri: str) -> dict[tuple[str, ...], tuple[float | None, int, float | None]]:
    """Return the headers of row and column -> value, n and printed number of a paper's table."""
    rows = list(csv.reader(locations.read_bytes(uri).decode().splitlines()))
    column, value, n, printed = (rows[0].index(name) for name in ("column", "value", "n", "printed"))
    return {
        (*row[:column], row[column]): (
            float(row[value]) if row[value] else None, int(row[n] or 0), float(row[printed]) if row[printed] else None,
        )
        for row in rows[1:]
    }  # fmt: skip


@pytest.fixture(scope="module")
def run_twice(
    tmp_path_factory: pytest.TempPathFactory, s3: str, in_process: None, without_plots: None
) -> tuple[str, str]:
    """The tables of the pipeline, and what it printed: it was run, and again with the answers of people."""
    folder, out = tmp_path_factory.mktemp("century"), f"{s3}/century"
    with secrets_found.planting() as printed:
        run = ["pipeline=century", "show_printed=true", f"out={out}", *write_inputs(folder, f"{s3}/century-inputs")]
        assert cli.main("run", run) == 0, printed.getvalue()
        people = [f"people_labels={folder}/labels.csv", f"people_ratings={answers_about_descriptions(folder, out)}"]
        again = [*run, *(f"pipeline.inputs.{answers}" for answers in people)]
        assert cli.main("run", again) == 0, printed.getvalue()
    return out, printed.getvalue()


@pytest.fixture(scope="module")
def out(run_twice: tuple[str, str]) -> str:
    """The tables of the pipeline."""
    return run_twice[0]


def test_no_secret_is_written_or_printed(run_twice: tuple[str, str]) -> None:
    out, printed = run_twice
    assert secrets_found.leaks([out], printed, key_of_pseudonyms=KEY_OF_PSEUDONYMS) == []
    assert "[1/" in printed  # something was printed


@pytest.mark.timeout(900)
def test_terms_records_and_pictures(out: str) -> None:
    methods = {IDS[row["image_id"]]: row["methods"] for row in rows_of(f"{out}/records")}
    graph, manual = ["knowledge_graph"], ["manual"]
    assert methods == dict.fromkeys(PICTURES, graph) | {"white": manual}
    for table, width in (("images", 300), ("images_1024", 360)):  # no picture is enlarged
        assert {(row["image_id"], row["width"]) for row in rows_of(f"{out}/{table}")} == {(n, width) for n in IDS}
    paper = f"{out}/report/paper"
    assert cells(f"{paper}/table_6.csv")["Riot", "Entities"] == (2, 2, 496)
    assert cells(f"{paper}/table_7.csv")["Event", "Entities"] == (5, 5, 6980)  # with the classes battle and civil war


def test_labels_of_judges_and_people(out: str) -> None:
    labels = {(row["item_id"], row["question"]): row["value"] for row in rows_of(f"{out}/ratings/labels-judge")}
    assert {IDS[name]: int(labels[name, "sensitive"]) for name in IDS} == LABELS
    assert {IDS[name]: labels[name, "sub_region"] for name in IDS} == {
        "red": "Eastern Asia", "green": "Eastern Asia", "blue": "Western Europe", "white": "Western Europe",
    }  # fmt: skip
    table_2 = cells(f"{out}/report/paper/table_2.csv")
    lowest, mean = "“Not at all” (1) · by mean", "“Somewhat” (3) or higher · by mean"
    assert table_2["Sensitive", "judge", lowest][:2] == (1 / 4, 4)
    assert table_2["Sensitive", "judge", mean][:2] == (3 / 4, 4)
    assert table_2["Sensitive", "People", mean] == (0, 4, 0.558)  # their means are 7/3
    assert table_2["Sensitive", "People", "“Somewhat” (3) or higher · by any rater"] == (1, 4, 0.909)


def test_descriptions_and_their_ratings(out: str) -> None:
    described = rows_of(f"{out}/described/items")
    by_item = {row["item_id"]: (dict(row["attributes"])["prompt"], IDS[row["image_ids"][0]]) for row in described}
    assert len(by_item) == len(PROMPTS) * len(PICTURES) * SAMPLES
    ratings = rows_of(f"{out}/ratings/descriptions-judge")
    assert len(ratings) == 7 * len(by_item)
    assert {(*by_item[row["item_id"]], row["score"]) for row in ratings} == {
        (prompt, colour, score) for prompt, scores in RATED.items() for colour, score in scores.items()
    }
    value = metric_values(f"{out}/report_descriptions/metrics")
    assert value("people_total", rubric="century_contextualisation", question="identification", group="people") == 3
    assert {row["text"] for row in rows_of(f"{out}/remarks")} == {"No such riot."}


def test_tables_and_figures_of_descriptions(out: str) -> None:
    paper = f"{out}/report_descriptions/paper"
    table_3 = cells(f"{paper}/table_3.csv")
    identified, errors = ("Accuracy", "Correct identification"), ("Accuracy", "Factuality errors (inverted)")
    assert table_3[*identified, "Automated", "writer"][:2] == (3 / 4, 8)
    assert table_3[*errors, "Automated", "writer"][:2] == (0, 8)  # 6 - 4, 6 - 4, 6 - 3, 6 - 5
    assert table_3[*identified, "Human", "writer"][:2] == (0, 6)  # means of 10/3
    table_12 = cells(f"{paper}/table_12.csv")
    judges = (*identified, "All models")
    delta = [table_12[*judges, f"writer · {column}"][0] for column in ("Explicit", "Minimal", "Delta")]
    assert delta == [3 / 4, 1 / 4, 1 / 2]
    table_13 = cells(f"{paper}/table_13.csv")
    assert table_13["Ordinal", "Correct identification", "IRR"] == (pytest.approx(1 / 3), 6, 0.3909)
    # The judge agrees about both pictures of one region and one of the other; people, who count as one rater, never do.
    figure_13 = cells(f"{paper}/figure_13.csv")
    assert figure_13["writer", "Eastern Asia", "Correct identification"][0] == pytest.approx(1 / 2)
    assert figure_13["writer", "Western Europe", "Correct identification"][0] == pytest.approx(1 / 4)
    assert all(locations.exists(f"{paper}/figure_{number}.svg") for number in (9, 11, 12, 13))


def test_the_released_data_set(out: str) -> None:
    def released(name: str) -> list[dict[str, str]]:
        text = locations.read_bytes(f"{out}/release/data/{name}.csv").decode()
        return list(csv.DictReader(io.StringIO(text)))

    names = ["Battle", "Battle of X", "Civil war", "Riot in Harbin", "Riot in Osaka", "battle", "civil war", "memorial"]
    assert [row["terms"] for row in released("search_terms")] == names
    assert {row["image_url"] for row in released("pictures")} == {address(colour) for colour in PICTURES}
    annotations = released("annotations")
    assert len(annotations) == len(PICTURES) * (1 + len(PEOPLE))
    assert not {row["rating.rater_id"] for row in annotations} & set(PEOPLE)
    assert not locations.exists(f"{out}/release/data/responses.csv")
