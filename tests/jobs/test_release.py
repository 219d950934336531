"""`release`: what it writes by default and by name, pseudonyms, exclusions, the readers of others, and the way back."""

import csv
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from actors.ids import content_id
from actors.rubrics.rubric import Rubric
from actors.status import STATUSES
from jobs.errors import InputError
from jobs.judging.kept_rubric import of_rubric
from jobs.runtime.command_line import cli
from tests.factories import century_rating, rows_of, write_csv, write_file, write_pictures

KEY = "a key of at least sixteen bytes"
URL = "https://upload.example/{}.jpg"
IDS = [content_id(URL.format(n)) for n in range(4)]
LABELS = Path(__file__).parents[2] / "conf" / "rubric" / "century_labels.yaml"
REMARK = "This man is my neighbour"


@pytest.fixture
def tables(tmp_path: Path) -> dict[str, str]:
    data = yaml.safe_load(LABELS.read_text())
    rubric = of_rubric(Rubric.from_dict(data), data)
    records = [
        {"record_id": f"r{n}", "image_id": IDS[n], "image_url": URL.format(n), "page_title": f"Page, “{n}”",
         "page_url": f"https://en.wikipedia.org/wiki/{n}", "split": "val", "methods": ["knowledge_graph"],
         "credited_method": "knowledge_graph"}
        for n in range(4)
    ]  # fmt: skip
    records.append({"record_id": "r9", "image_id": "folder", "image_url": "photos/1.jpg", "page_title": "t"})
    ratings: list[dict[str, Any]] = []
    for n in range(3):
        for person, score in (("Ann Smith", 1 + n), ("Bo Li", 5)):
            for question, answer in (("sensitive", score), ("concept", "conflict")):
                ratings.append(century_rating(IDS[n], question, answer, rater=person, method="human", comment=REMARK))
        ratings.append(century_rating(IDS[n], "sensitive", 3, rater="qwen@1"))
    ratings.append(century_rating(IDS[3], "sensitive", None, rater="Ann Smith", method="human", status="reported"))
    ratings.append(century_rating("x0", "sensitive", 5, rater="qwen@1"))
    images = [{"image_id": IDS[n], "rendition": "original", "author": "A. Author", "status": "ok",
               "licence": "CC BY-SA 4.0" if n else "unknown"} for n in range(4)]  # fmt: skip
    responses = [
        {"response_id": "s0", "item_id": IDS[0], "model": "qwen@1", "text": "Secret, text", "status": "ok"},
        {"response_id": "s9", "item_id": "elsewhere", "model": "qwen@1", "text": "x", "status": "ok"},
    ]
    items = [{"item_id": "x0", "kind": "response", "image_ids": [IDS[0]], "response_id": "s0"}]
    terms = [{"term": t, "source": "manual", "concept": c, "entity_id": "", "response_id": ""}
             for t, c in (("riot, 1905", "a"), ("riot, 1905", "b"), ("war", "a"))]  # fmt: skip
    listed = write_csv(tmp_path / "terms.csv", ["Term", "source"], [["War, 1914 ", "manual"], ["war", "manual"]])
    (tmp_path / "key").write_text(KEY)
    return {
        "records": write_file(tmp_path / "records", "records", records),
        "starter": write_file(tmp_path / "starter", "records", records[:1]),
        "images": write_file(tmp_path / "images", "images", images),
        "ratings": f"[{write_file(tmp_path / 'ratings', 'ratings', ratings, rubric=rubric)}]",
        "responses": f"[{write_file(tmp_path / 'responses', 'responses', responses)}]",
        "items": f"[{write_file(tmp_path / 'items', 'items', items)}]",
        "terms": f"[{write_file(tmp_path / 'terms', 'terms', terms)},{listed}]",
        "key_file": f"{tmp_path}/key",
        "card.licence": "cc-by-4.0",
        "card.title": "Test: pictures",
        "card.date": "2025-11-23",
        "out": f"{tmp_path}/out",
    }


def release(tables: dict[str, str], **more: str) -> Path:
    cli.execute("release", [f"{key}={value}" for key, value in (tables | more).items()])
    return Path(tables["out"])


def read(out: Path, name: str) -> list[dict[str, str]]:
    with (out / "data" / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def everything(out: Path) -> str:
    return "".join(path.read_text("utf-8") for path in out.rglob("*") if path.is_file())


def test_by_default_what_the_paper_released(tables):
    out = release(tables)
    assert {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()} == {
        "README.md", "croissant.json", "data/pictures.csv", "data/search_terms.csv", "data/annotations.csv",
    }  # fmt: skip
    by_id = {row["century_id"]: row for row in read(out, "pictures")}
    assert set(by_id) == set(IDS)  # the picture of a folder has no link
    first, second = by_id[IDS[0]], by_id[IDS[1]]
    assert (first["image_url"], first["wikipedia_url"]) == (URL.format(0), "https://en.wikipedia.org/wiki/0")
    assert (first["wit_split"], first["century_method"]) == ("validation", "with_knowledge_graph")
    assert (first["is_starter_set"], second["is_starter_set"]) == ("true", "false")
    assert (first["licence"], second["licence"], first["author"]) == ("", "CC BY-SA 4.0", "A. Author")
    assert [row["terms"] for row in read(out, "search_terms")] == ["War, 1914", "riot, 1905", "war"]
    annotations = read(out, "annotations")
    assert len(annotations) == 3 * 3 + 1  # also the incomplete one of a report
    of_model = next(r for r in annotations if r["rating.src"] == "qwen@1" and r["century_id"] == IDS[1])
    assert (of_model["rating.sensitive"], of_model["rating.concept"], of_model["rating.rater_id"]) == ("3", "", "")
    report = next(r for r in annotations if r["rating.status"] == "reported")
    assert (report["century_id"], report["rating.sensitive"]) == (IDS[3], "")


def test_no_names_comments_or_responses_unless_asked_for(tables):
    out = release(tables)
    text = everything(out)
    for secret in ("Ann Smith", "Bo Li", REMARK, "Secret", "x0", KEY):
        assert secret not in text
    people = {row["rating.rater_id"] for row in read(out, "annotations") if row["rating.method"] == "human"}
    assert len(people) == 2
    assert all(name.startswith("p-") for name in people)
    again = release(tables, overwrite="true", include="[responses,response_ratings,comments]")
    assert {row["rating.rater_id"] for row in read(again, "annotations") if row["rating.rater_id"]} == people
    assert [row["response.text"] for row in read(again, "responses")] == ["Secret, text"]
    (rated,) = read(again, "response_ratings")
    assert (rated["response_id"], rated["century_id"], rated["rating.sensitive"]) == ("s0", IDS[0], "5")
    left_out = ("Responses of models", "Ratings of these responses", "Comments of people")
    assert [words for words in left_out if words in (again / "README.md").read_text()] == []
    assert REMARK in everything(again)
    assert "Ann Smith" not in everything(again)
    # a later release with less removes what it does not have
    fewer = release(tables, overwrite="true")
    assert not (fewer / "data" / "responses.csv").exists()
    assert [words for words in left_out if words in (fewer / "README.md").read_text()] == [*left_out]


def test_excluded_pictures_are_nowhere(tables, tmp_path, capsys):
    (tmp_path / "excluded.txt").write_text(f"{URL.format(0)}\n{IDS[1]}\n")
    out = release(tables, exclusions=f"{tmp_path}/excluded.txt", include="[responses,response_ratings]")
    assert "exclusions: 2 of 2 entries match a picture here" in capsys.readouterr().out
    text = everything(out)
    assert URL.format(0) not in text
    assert IDS[0] not in text
    assert IDS[1] not in text
    assert {row["century_id"] for row in read(out, "annotations")} == {IDS[2], IDS[3]}
    assert "2 pictures that were reported or withdrawn" in (out / "README.md").read_text()


def test_the_same_tables_give_the_same_bytes(tables, tmp_path):
    release(tables)
    release(tables | {"out": f"{tmp_path}/again"})
    assert {p.name: p.read_bytes() for p in (tmp_path / "out").rglob("*") if p.is_file()} == {
        p.name: p.read_bytes() for p in (tmp_path / "again").rglob("*") if p.is_file()
    }


def test_wrong_keys_are_refused_and_nothing_is_written(tables, tmp_path, monkeypatch):
    monkeypatch.delenv("REMINE_RATER_KEY", raising=False)
    for changed, message in (
        ({"include": "[bytes]"}, "include=bytes: must be one of responses"),
        ({"card.licence": "CC BY"}, "card.licence=CC BY"),
        ({"include": "[responses]", "responses": "[]"}, "needs responses="),
        ({"key_file": "null"}, "key"),
    ):
        with pytest.raises(InputError, match=message):
            release(tables | changed)
    without = {key: value for key, value in tables.items() if key != "card.licence"}
    with pytest.raises(InputError, match=r"card\.licence=: required"):
        release(without)
    assert not (tmp_path / "out").exists()
    release(tables)
    with pytest.raises(InputError, match="overwrite=true"):
        release(tables)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "README.md").write_text("mine")
    with pytest.raises(InputError, match="did not write"):
        release(tables | {"out": f"{tmp_path}/other"}, overwrite="true")


def test_the_hubs_card_has_metadata_and_configurations(tables):
    cards = pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed")
    loaded = cards.DatasetCard.load(release(tables) / "README.md")
    assert loaded.data.license == "cc-by-4.0"
    assert loaded.data.pretty_name == "Test: pictures"
    assert loaded.data.size_categories == ["n<1K"]
    assert [entry["config_name"] for entry in loaded.data.configs] == ["pictures", "search_terms", "annotations"]
    assert yaml.safe_load(loaded.data.to_yaml())["language"] == ["en"]


def test_datasets_reads_each_configuration(tables, tmp_path, monkeypatch):
    datasets = pytest.importorskip("datasets", reason="datasets is not installed (extra cards)")
    out = release(tables)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_OFFLINE", True, raising=False)
    for name, rows in (("pictures", 4), ("search_terms", 3), ("annotations", 10)):
        loaded = datasets.load_dataset(str(out), name, split="train", cache_dir=str(tmp_path / "cache"))
        assert loaded.num_rows == rows
    assert set(loaded["rating.sensitive"]) >= {1, 3, 5}


def test_croissants_own_reader_finds_no_error(tables):
    mlcroissant = pytest.importorskip("mlcroissant", reason="mlcroissant is not installed (extra cards)")
    out = release(tables)
    metadata = mlcroissant.Dataset(jsonld=str(out / "croissant.json"))
    assert metadata.metadata.ctx.issues.errors == set()
    rows = list(metadata.records("search_terms"))
    assert [next(iter(row.values())) for row in rows] == [b"War, 1914", b"riot, 1905", b"war"]
    assert len(list(metadata.records("pictures"))) == 4
    described = json.loads((out / "croissant.json").read_text())
    columns = {field["name"] for field in described["recordSet"][2]["field"]}
    assert columns == set(read(out, "annotations")[0])


def test_duckdb_reads_the_files(tables):
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed (extra bench)")
    out = release(tables)
    query = f"""SELECT count(*), avg("rating.sensitive") FROM '{out}/data/annotations.csv'
                JOIN '{out}/data/pictures.csv' USING (century_id) WHERE "rating.method" = 'human'"""
    assert duckdb.sql(query).fetchall()[0] == (7, pytest.approx((1 + 2 + 3 + 5 * 3) / 6))


def test_the_way_back(tables, tmp_path):
    out = release(tables)
    keys = [f"input={out}/data/annotations.csv", "format=century", "rubric=century_labels", f"out={tmp_path}/back"]
    cli.execute("import_ratings", keys)
    before = [row for uri in [tables["ratings"].strip("[]")] for row in rows_of(uri) if row["item_id"] != "x0"]
    after = rows_of(f"{tmp_path}/back")

    def answers(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
        return sorted((r["item_id"], r["method"], r["question"], r["value"], r["score"]) for r in rows if r["value"])

    assert answers(after) == answers(before)
    assert {row["item_id"] for row in after if row["status"] == "reported"} == {IDS[3]}
    assert len(after) == len(before)  # the model and the report have no rating of the question that they were not asked


def test_every_status_survives_the_way_back(tables, tmp_path):
    """Alone and next to an answer, of a person, a model and gold; nobody is counted as a person who is none."""
    asked: dict[tuple[str, str, str], str] = {}
    rows = []
    for method, rater in (("human", "ann"), ("closed", "m@1"), ("gold", "boss")):
        for number, status in enumerate(STATUSES):
            for sample, words in enumerate(((status, status), ("ok", status))):
                for question, word in zip(("sensitive", "controversial"), words, strict=True):
                    value = "3" if word == "ok" else None
                    columns = {"method": method, "status": word, "sample": sample}
                    rows.append(century_rating(IDS[0], question, value, rater=f"{rater}{number}", **columns))
                    asked[method, f"{number} {sample}", question] = word
    out = release(tables, ratings=f"[{write_file(tmp_path / 'statuses', 'ratings', rows)}]")
    keys = [f"input={out}/data/annotations.csv", "format=century", "rubric=century_labels", f"out={tmp_path}/back"]
    manifest: Any = cli.execute("import_ratings", keys)
    back = [row for row in rows_of(f"{tmp_path}/back") if row["question"] in ("sensitive", "controversial")]
    by_person = Counter((row["method"], row["sample"], row["question"], row["status"]) for row in back)
    expected = Counter((method, int(key.split()[1]), question, word) for (method, key, question), word in asked.items())
    assert by_person == expected
    assert manifest["counts"]["tallies"]["reports"]["of_people"] == 2 * len(STATUSES)  # people's and gold's


@pytest.mark.usefixtures("in_process")
def test_the_released_pictures_are_fetched_judged_and_annotated(tables, tmp_path):
    out = release(tables)
    back = tmp_path / "back"
    cli.execute("items", [f"input={out}/data/pictures.csv", "columns.pictures=image_url", f"out={back}/pictures"])
    columns = ("image_id", "image_url", "page_url", "page_title", "split", "methods", "credited_method")
    records = [{name: row[name] for name in columns} for row in rows_of(f"{back}/pictures/records")]
    before = rows_of(tables["records"])[:4]
    assert records == [{name: row[name] for name in columns} for row in sorted(before, key=lambda r: r["image_id"])]
    write_pictures(tmp_path / "photos", ("red", "green", "blue", "white"))
    for number, path in enumerate(sorted((tmp_path / "photos").iterdir())):
        path.rename(path.with_name(f"{number}.jpg"))
    with_records = [f"input={back}/images", f"records={back}/pictures/records", "rubric=century_labels"]
    raters = write_csv(tmp_path / "raters.csv", ["rater"], [["ann"]])
    for job, keys in {
        "fetch": ["source=folder", f"source.path={tmp_path}/photos", f"input={back}/pictures/records", "width=32",
                  f"out={back}/images"],
        "judge": [*with_records, "model=local-text-tiny", f"out={back}/judged"],
        "annotate": [*with_records, f"raters={raters}", "per_item=1", "welfare=century", f"out={back}/tasks"],
    }.items():  # fmt: skip
        cli.execute(job, keys)
    assert {(row["item_id"], row["status"]) for row in rows_of(f"{back}/judged")} == {(name, "ok") for name in IDS}
    tasks = (back / "tasks" / "label_studio" / "ann.json").read_text()
    assert all(f"https://en.wikipedia.org/wiki/{number}" in tasks for number in range(4))


def test_the_files_are_published_on_request(tables, monkeypatch, capsys):
    published = {}

    def push(settings, folder):
        files = (path for path in folder.rglob("*") if path.is_file())
        published[settings.repo] = {path.relative_to(folder).as_posix() for path in files}
        return "https://hub.example/commit/1"

    monkeypatch.setattr("jobs.releasing.publishing.check_push", lambda settings: None)
    monkeypatch.setattr("jobs.releasing.publishing.push", push)
    out = release(tables, **{"push.repo": "lab/pictures"})
    written = {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()}
    assert published == {"lab/pictures": written}
    assert "https://hub.example/commit/1" in capsys.readouterr().out


def own_pictures(tables: dict[str, str], tmp_path: Path, **more: str) -> dict[str, str]:
    """Return the keys of a release of three own pictures, which two people and a model rated, without records."""
    of_item = [("a.jpg", "Asia", None), ("b é?.jpg", "Asia", "https://h.example/b.jpg"),
               ("c.jpg", "Peru", "https://h.example/c.jpg?X-Amz-Signature=1")]  # fmt: skip
    items, images, ratings = [], [], []
    for name, region, link in of_item:
        picture = content_id(f"/home/ada/photos/{name}")
        attributes = {"region": region, "licence": "CC0", "note": "private"} | ({"image_url": link} if link else {})
        items.append({"item_id": name, "kind": "image", "image_ids": [picture], "attributes": list(attributes.items())})
        images.append({"image_id": picture, "rendition": "original", "status": "ok", "author": "Ada",
                       "licence": "unknown", "source_url": f"/home/ada/photos/{name}"})  # fmt: skip
        ratings += [century_rating(name, "sensitive", 3, rater="Ann Smith", method="human"),
                    century_rating(name, "sensitive", 2, rater="qwen@1")]  # fmt: skip
    ratings.append(century_rating("elsewhere.jpg", "sensitive", 2, rater="qwen@1"))
    folder = tmp_path / "own"
    kept = {key: tables[key] for key in ("key_file", "card.licence", "card.title", "card.date", "out")}
    return kept | {
        "items": f"[{write_file(folder / 'items', 'items', items)}]",
        "images": write_file(folder / "images", "images", images),
        "ratings": f"[{write_file(folder / 'ratings', 'ratings', ratings)}]",
    } | more  # fmt: skip


def test_own_pictures_without_links_and_without_the_researchers_disk(tables, tmp_path, capsys):
    out = release(own_pictures(tables, tmp_path, columns="[region]"))
    rows = {row["file"]: row for row in read(out, "pictures")}
    assert {name: (row["image_url"], row["region"], row["licence"], row["author"]) for name, row in rows.items()} == {
        "a.jpg": ("", "Asia", "CC0", "Ada"),
        "b é?.jpg": ("https://h.example/b.jpg", "Asia", "CC0", "Ada"),
        "c.jpg": ("", "Peru", "CC0", "Ada"),  # its link is signed
    }
    annotations = read(out, "annotations")
    assert len(annotations) == 6
    assert {(row["item_id"], row["file"]) for row in annotations} == {(name, name) for name in rows}
    assert {row["century_id"] for row in annotations} == {row["century_id"] for row in rows.values()}
    whole = everything(out)
    assert [
        word for word in ("/home", "ada/photos", "private", "Ann Smith", "Signature", str(tmp_path)) if word in whole
    ] == []
    assert "The 3 pictures are not included: 1 are links" in whole
    printed = capsys.readouterr().out
    assert "1 not about a released item" in printed
    assert "unknown" not in printed  # every picture has an author and a licence


def test_unknown_authors_are_counted(tables, tmp_path, capsys):
    release(own_pictures(tables, tmp_path) | {"images": "null"})
    assert "unknown: author of 3 pictures; columns author and licence of the table" in capsys.readouterr().out


def test_what_a_release_of_own_pictures_refuses(tables, tmp_path):
    keys = own_pictures(tables, tmp_path)
    cases = [
        ({"items": "[]"}, "records= or items= is required"),
        ({"columns": "[regoin]"}, "no item has an attribute regoin; must be of image_url, licence, note, region"),
        ({"columns": "[file]"}, "file is already a column"),
        ({"columns": "[region]", "records": tables["records"]}, "only without records="),
    ]
    for more, message in cases:
        with pytest.raises(InputError, match=re.escape(message)):
            release(keys, **more)
        assert not Path(keys["out"]).exists()
    (tmp_path / "gone.txt").write_text(f"/home/ada/photos/a.jpg\n{content_id('/home/ada/photos/c.jpg')}\n")
    out = release(keys, exclusions=str(tmp_path / "gone.txt"))
    assert [row["file"] for row in read(out, "pictures")] == ["b é?.jpg"]
    assert {row["item_id"] for row in read(out, "annotations")} == {"b é?.jpg"}
