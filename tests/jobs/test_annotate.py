"""The command `annotate`: the plan as a table, files by rater or group, welfare by default, refused input."""

import csv
import io
import json
import re
from collections import Counter, defaultdict
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from omegaconf import OmegaConf

from actors.ids import content_id
from jobs import annotate
from jobs.annotate import execute
from jobs.annotation import study as studies
from jobs.annotation.shown_items import ShownTables, write_pictures
from jobs.annotation.study import AnnotateConfig
from jobs.errors import InputError
from jobs.judging import kept_rubric
from jobs.runtime.command_line import cli
from jobs.runtime.configuration.config_files import CONF
from jobs.runtime.outcomes import show
from jobs.runtime.selection.draws import CompleteDrawConfig
from jobs.store.files.objects import Object
from jobs.store.reading import open_table
from jobs.store.run_files import limit_of
from tests.factories import century_rating, picture, rating, record_of, rows_of, write_file, write_table, write_units
from tests.jobs.annotation import tool_exports
from tests.jobs.annotation.tool_exports import Act

PICTURES = [picture(number) for number in range(12)]


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tables of pictures, records, items with two texts each, and a list of raters."""
    folder = tmp_path_factory.mktemp("study")
    broken = picture(99, status="error")
    write_table(str(folder / "images"), "images", [*PICTURES, broken])
    write_table(
        str(folder / "records"), "records", [record_of(image, f"Title {n}") for n, image in enumerate(PICTURES)]
    )
    texts, items, responses = [], [], []
    for number, image in enumerate(PICTURES[:4]):
        reference, response = content_id("reference", str(number)), content_id("response", str(number))
        texts.append({"text_id": reference, "role": "reference", "language": "en", "text": "A dog on a sandy beach."})
        responses.append({"response_id": response, "item_id": "x", "text": "An otter.", "status": "ok"})
        more = {"image_ids": [image["image_id"]], "text_ids": [reference], "response_id": response}
        items.append({"item_id": content_id("item", str(number)), "kind": "response", **more})
    for table, rows in (("texts", texts), ("items", items), ("responses", responses)):
        write_table(str(folder / table), table, rows)
    people = "".join(f"r{n}@example.org,{'China' if n % 2 else 'India'}\n" for n in range(6))
    (folder / "raters.csv").write_text(f"rater,country\n{people}")
    return folder


@lru_cache
def read_yaml(name: str) -> Any:
    """Return a file of conf/, read once because reading takes longer than a run."""
    return OmegaConf.load(CONF / name)


def write_ratings(folder: Path, listed: list[dict[str, Any]]) -> None:
    """Write ratings by a rubric of scores from 1 to 5."""
    kept = kept_rubric.of_answers("century_labels", list("12345"), ordinal=True)
    write_file(folder, "ratings", listed, rubric=kept)


def run_annotate(study: Path, *overrides: str) -> Any:
    """Run the job with overrides, without Hydra, which takes longer than the job."""
    groups = {"welfare": "century"} | dict(
        o.split("=", 1) for o in overrides if o.startswith(("rubric=", "span_labels="))
    )
    keys = [f"raters={study / 'raters.csv'}", *(o for o in overrides if o.partition("=")[0] not in groups)]
    read = {group: read_yaml(f"{group}/{name}.yaml") for group, name in groups.items()}
    merged = OmegaConf.merge(OmegaConf.structured(AnnotateConfig), read, OmegaConf.from_dotlist(keys))
    show(outcome := execute(OmegaConf.to_object(merged)))  # type: ignore[arg-type]
    return outcome


def pictures(study: Path) -> list[str]:
    return [f"input={study / 'images'}", f"records={study / 'records'}", "rubric=century_labels"]


def described(study: Path) -> list[str]:
    named = [f"{table}={study / table}" for table in ("images", "texts", "responses")]
    return [f"input={study / 'items'}", *named, "span_labels=mistakes_omissions"]


def all_rows(out: Path) -> list[dict[str, Any]]:
    return pa.concat_tables(list(open_table(str(out), "assignments").batches())).to_pylist()


def rows(out: Path) -> list[dict[str, Any]]:
    """Return the tasks of an assignment."""
    return [row for row in all_rows(out) if row["role"] != "not_drawn"]


def test_the_files_have_the_tasks_of_the_plan(study: Path, tmp_path: Path) -> None:
    run_annotate(study, *pictures(study), "per_item=3", "audit=0.2", "auditor=checker", f"out={tmp_path / 'T'}")
    plan = rows(tmp_path / "T" / "assignments")
    assigned = [row for row in plan if row["role"] == "quota"]
    assert set(Counter(row["item_id"] for row in assigned).values()) == {3}
    assert {row["item_id"] for row in plan} == {image["image_id"] for image in PICTURES}  # and no broken picture
    audited = {row["item_id"] for row in assigned if row["audited"]}
    assert {row["item_id"] for row in plan if row["role"] == "auditor"} == audited
    by_file = defaultdict(list)
    for row in sorted(plan, key=lambda row: row["place"]):
        by_file[row["file"]].append(row["item_id"])
    folder = tmp_path / "T" / "label_studio"
    assert {path.stem for path in folder.glob("*.json")} == set(by_file)
    for name, items in by_file.items():
        tasks = [task["data"] for task in json.loads((folder / f"{name}.json").read_text())]
        assert [task["item_id"] for task in tasks] == items
        assert {task["assigned_to"] for task in tasks} == {name}
        assert all(task["image"].startswith("https://upload.example/") for task in tasks)
        assert "search=Title" in tasks[0]["instruction_html"]
    assert "remine-blurred" in (folder / "config.xml").read_text()


@pytest.mark.parametrize("tool", ["spreadsheet", "prodigy", "label_studio"])
def test_nobody_is_asked_about_an_item_whose_picture_was_not_fetched(
    study: Path, tmp_path: Path, tool: str, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = picture(99)["image_id"]
    items = [{"item_id": f"i{n}", "kind": "image", "image_ids": [image["image_id"]], "text_ids": []}
             for n, image in enumerate([*PICTURES[:3], {"image_id": broken}])]  # fmt: skip
    write_table(str(tmp_path / "shown"), "items", items)
    keys = [f"input={tmp_path / 'shown'}", f"images={study / 'images'}", "rubric=century_labels", f"tool={tool}"]
    manifest = run_annotate(study, *keys, "per_item=2", "pictures=files", f"out={tmp_path / 'T'}")
    assert {row["item_id"] for row in rows(tmp_path / "T" / "assignments")} == {"i0", "i1", "i2"}
    assert "1 item left out (picture error 1)" in capsys.readouterr().out
    assert manifest["counts"]["tallies"]["left out"] == {"picture error": 1}
    files = list((tmp_path / "T" / tool).iterdir())
    assert not any(broken in file.read_text("utf-8") for file in files if file.is_file())


def test_the_same_seed_gives_the_same_files_and_another_is_refused_in_place(study: Path, tmp_path: Path) -> None:
    for name in ("A", "B"):
        run_annotate(study, *pictures(study), "per_item=2", "tool=prodigy", "seed=5", f"out={tmp_path / name}")
    for file in (tmp_path / "A" / "prodigy").iterdir():
        assert file.read_bytes() == (tmp_path / "B" / "prodigy" / file.name).read_bytes()
    with pytest.raises(InputError, match="another configuration"):
        run_annotate(study, *pictures(study), "per_item=2", "tool=prodigy", "seed=6", f"out={tmp_path / 'A'}")
    (tmp_path / "A" / "prodigy" / "earlier.jsonl").touch()
    for overwrite, is_kept in (("false", True), ("true", False)):  # nobody must annotate the files of another plan
        keys = ["per_item=2", "tool=prodigy", "seed=5", f"overwrite={overwrite}", f"out={tmp_path / 'A'}"]
        run_annotate(study, *pictures(study), *keys)
        assert (tmp_path / "A" / "prodigy" / "earlier.jsonl").exists() == is_kept
    for file in (tmp_path / "B" / "prodigy").iterdir():
        assert file.read_bytes() == (tmp_path / "A" / "prodigy" / file.name).read_bytes()


def test_a_draw_of_pictures(study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for seed in (0, 0, 1):
        run_annotate(
            study, *pictures(study), "per_item=1", "draw.n=4", f"draw.seed={seed}", f"out={tmp_path / str(seed)}"
        )
    assert "drew 4 of " in capsys.readouterr().out
    drawn = [{row["item_id"] for row in rows(tmp_path / name / "assignments")} for name in ("0", "1")]
    assert [len(items) for items in drawn] == [4, 4]
    assert drawn[0] != drawn[1]


def test_the_assignment_keeps_all_items_that_could_be_drawn_and_their_probability(study: Path, tmp_path: Path) -> None:
    run_annotate(study, *pictures(study), "per_item=2", "draw.n=4", f"out={tmp_path / 'T'}")
    kept = all_rows(tmp_path / "T" / "assignments")
    assert {row["item_id"] for row in kept} == {image["image_id"] for image in PICTURES}  # and not the broken one
    assert {row["probability"] for row in kept} == {4 / 12}
    assert Counter(row["role"] for row in kept) == {"quota": 8, "not_drawn": 8}
    assert {(row["rater"], row["file"]) for row in kept if row["role"] == "not_drawn"} == {("", "")}
    run_annotate(study, *pictures(study), "per_item=1", f"out={tmp_path / 'all'}")
    assert {row["probability"] for row in all_rows(tmp_path / "all" / "assignments")} == {None}


def test_batches_continue_a_draw_without_asking_again(study: Path, tmp_path: Path) -> None:
    keys = [*pictures(study), "per_item=1", "tool=spreadsheet", "raters_encoding=utf-8"]
    first, second = tmp_path / "first", tmp_path / "second"
    run_annotate(study, *keys, "draw.n=4", f"out={first}")
    earlier = f"earlier={first / 'assignments'}"
    (tmp_path / "gone.txt").write_text(rows(first / "assignments")[0]["item_id"])
    run_annotate(study, *keys, "draw.n=9", earlier, f"out={second}")
    before, after = rows(first / "assignments"), rows(second / "assignments")
    assert Counter(row["batch"] for row in after) == {1: 4, 2: 5}
    place = {(row["rater"], row["place"]): row["item_id"] for row in after}
    assert len(place) == 9
    assert all(place[row["rater"], row["place"]] == row["item_id"] for row in before)
    assert {row["probability"] for row in all_rows(second / "assignments")} == {9 / 12}
    asked = "".join(path.read_text() for path in (second / "spreadsheet").glob("*.csv"))
    assert all((row["item_id"] in asked) == (row["batch"] == 2) for row in after)
    excluded = [*keys, f"exclusions={tmp_path / 'gone.txt'}", earlier]
    run_annotate(study, *excluded, "draw.n=8", f"out={tmp_path / 'less'}")
    less = all_rows(tmp_path / "less" / "assignments")
    assert Counter(row["batch"] for row in less) == {1: 3, 2: 5, None: 3}
    for wrong in (["draw.n=5", "draw.seed=5"], ["draw.n=3"], ["draw.n=4"]):
        with pytest.raises(InputError, match="earlier"):
            run_annotate(study, *keys, *wrong, earlier, f"out={tmp_path / 'no'}")


def test_a_plan_says_what_more_ratings_would_bring(
    study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keys = [*pictures(study), "per_item=1"]
    run_annotate(study, *keys, "draw.n=6", f"out={tmp_path / 'T'}")
    asked = sorted(row["item_id"] for row in rows(tmp_path / "T" / "assignments"))
    write_ratings(tmp_path / "people", [
        rating(item, "ann", "sensitive", str(1 + place % 5), rubric="century_labels", method="human",
               score=float(1 + place % 5))
        for place, item in enumerate(asked)
    ])  # fmt: skip
    write_ratings(tmp_path / "m", [
        rating(image["image_id"], "m", "sensitive", str(1 + place % 5), rubric="century_labels",
               score=float(1 + place % 5))
        for place, image in enumerate(PICTURES)
    ])  # fmt: skip
    later = [
        *keys,
        "draw.n=9",
        f"earlier={tmp_path / 'T' / 'assignments'}",
        f"ratings=[{tmp_path}/m,{tmp_path}/people]",
    ]
    capsys.readouterr()
    run_annotate(study, *later, "plan=true", f"out={tmp_path / 'U'}")
    shown = capsys.readouterr().out
    assert re.search(r"sensitive, all 12 items: [\d.]+ ± [\d.]+; from the 6 that people rated", shown)
    assert re.search(r"\d more rated: ± [\d.]+", shown)
    with pytest.raises(InputError, match="only for plan=true"):
        run_annotate(study, *later, f"out={tmp_path / 'U'}")


def test_a_plan_of_items_says_it_for_the_subgroups_of_their_attributes(
    study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = [picture(number) for number in range(60)]
    items = [
        {"item_id": image["image_id"], "kind": "image", "image_ids": [image["image_id"]],
         "attributes": {"region": ("East", "West")[place % 2], "name": f"n{place}"}}
        for place, image in enumerate(shown)
    ]  # fmt: skip
    write_table(str(tmp_path / "images"), "images", shown)
    write_table(str(tmp_path / "items"), "items", items)
    keys = [f"input={tmp_path / 'items'}", f"images={tmp_path / 'images'}", "rubric=century_labels", "per_item=1"]
    run_annotate(study, *keys, "draw.n=24", f"out={tmp_path / 'T'}")
    asked = {row["item_id"] for row in rows(tmp_path / "T" / "assignments")}
    for rater, method in (("m", "closed"), ("ann", "human")):
        write_ratings(tmp_path / rater, [
            rating(item["item_id"], rater, "sensitive", str(1 + place % 5), rubric="century_labels", method=method,
                   score=float(1 + place % 5))
            for place, item in enumerate(items) if rater == "m" or item["item_id"] in asked
        ])  # fmt: skip
    capsys.readouterr()
    earlier = [f"earlier={tmp_path / 'T' / 'assignments'}", f"ratings=[{tmp_path}/m,{tmp_path}/ann]"]
    run_annotate(study, *keys, "draw.n=30", *earlier, "plan=true", f"out={tmp_path / 'U'}")
    printed = capsys.readouterr().out
    assert re.search(r"if people rate so many items: 24: ± [\d.]+ \(people alone ± [\d.]+\); 36: ±", printed)
    assert re.search(r"more ratings by people: East \d+ more rated: ± [\d.]+ .*; West \d+ more rated: ±", printed)
    assert "two values of region" in printed
    assert "n1 " not in printed


def test_sheets_of_a_drawn_part_give_the_papers_tables_of_all_pictures(tmp_path: Path, without_plots: None) -> None:
    """As `pipeline=century people_pictures=80`: a draw, sheets, answers, and tables 1 and 2 of all 200 pictures."""
    truth = {picture(n)["image_id"]: {"sensitive": 1 + n % 5, "content_type": ("event", "person")[n % 3 > 0]}
             for n in range(200)}  # fmt: skip
    write_table(str(tmp_path / "images"), "images", [picture(number) for number in range(200)])
    write_file(tmp_path / "judge", "ratings", [
        century_rating(item, question, min(5, answer + number % 2) if isinstance(answer, int) else answer)
        for number, (item, answers) in enumerate(truth.items()) for question, answer in answers.items()
    ])  # fmt: skip
    tasks = tmp_path / "tasks"
    keys = [f"input={tmp_path / 'images'}", "rubric=century_labels", "raters=3", "per_item=1", "tool=spreadsheet"]
    cli.execute("annotate", [*keys, "draw.n=80", f"out={tasks}"])
    for sheet in (tasks / "spreadsheet").glob("*.csv"):
        head, *asked = csv.reader(io.StringIO(sheet.read_text(encoding="utf-8-sig")))
        for row in asked:
            row[head.index("value")] = str(truth[row[head.index("item_id")]].get(row[head.index("question")], ""))
        with sheet.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([head, *asked])
    sheets = f"input={tasks}/spreadsheet/*.csv"
    cli.execute("import_ratings", [sheets, "rubric=century_labels", f"out={tmp_path / 'people'}"])
    named = [f"ratings=[{tmp_path}/judge,{tmp_path}/people]", f"assignments=[{tasks}/assignments]"]
    cli.execute("report", [*named, "paper=century", f"out={tmp_path / 'R'}"])
    cells = list(csv.DictReader((tmp_path / "R/paper/tables_1_2_estimates.csv").open(encoding="utf-8")))
    of_both = {row["Answer"]: row for row in cells if row["column"] == "People and models"}
    expected = {"“Somewhat” (3) or higher": 0.6, "Event": 67 / 200, "Person": 133 / 200}
    assert {name: row["n"] for name, row in of_both.items() if name in expected} == dict.fromkeys(expected, "80")
    for name, share in expected.items():
        assert float(of_both[name]["low"]) < share < float(of_both[name]["high"]), name


def test_pictures_of_which_judges_are_uncertain_are_drawn_more_often(study: Path, tmp_path: Path) -> None:
    half = {image["image_id"] for image in PICTURES[:6]}
    ratings = [
        rating(image["image_id"], judge, "sensitive", "1", rubric="century_labels", answers=["1", "5"],
               probabilities=[0.5, 0.5] if image["image_id"] in half else [0.99, 0.01])
        for image in PICTURES[:-1] for judge in ("m", "n")
    ]  # fmt: skip
    write_table(tmp_path / "m", "ratings", ratings)
    keys = [*pictures(study), "per_item=1", f"ratings=[{tmp_path / 'm'}]", "draw.method=uncertain", "draw.n=4"]
    run_annotate(study, *keys, f"out={tmp_path / 'T'}")
    kept = {row["item_id"]: row["probability"] for row in all_rows(tmp_path / "T" / "assignments")}
    assert sum(kept.values()) == pytest.approx(4)
    unsure, sure = {kept[name] for name in half}, {kept[image["image_id"]] for image in PICTURES[6:-1]}
    assert max(map(len, (unsure, sure))) == 1
    assert max(unsure) > 2 * max(sure) > 2 * 0.2 * 4 / 12
    assert max(sure) < kept[PICTURES[-1]["image_id"]] < max(unsure)  # that no judge rated
    for wrong in (keys[:-2], [*keys[:-1]], [*keys, "draw.floor=0"], [*keys, "only_questions=[controversial]"]):
        with pytest.raises(InputError, match=r"draw\.|ratings"):
            run_annotate(study, *wrong, f"out={tmp_path / 'no'}")


def test_several_tables_are_one_study(study: Path, tmp_path: Path) -> None:
    def part(name: str, numbers: range, model: str) -> None:
        images = [PICTURES[number] for number in numbers]
        rows = [
            {"item_id": name, "kind": "image", "image_ids": [name], "attributes": [("m", model)]}
            for name in (image["image_id"] for image in images)
        ]
        write_table(str(tmp_path / name / "items"), "items", rows)
        write_table(str(tmp_path / name / "images"), "images", images)

    part("a", range(3), "x")
    part("b", range(2, 6), "x")
    part("c", range(1), "y")
    keys = ["rubric=century_labels", "per_item=1"]
    two = [f"{table}=[{tmp_path / 'a' / table},{tmp_path / 'b' / table}]" for table in ("items", "images")]
    run_annotate(study, *keys, two[0].replace("items=", "input="), two[1], f"out={tmp_path / 'T'}")
    plan = rows(tmp_path / "T" / "assignments")
    assert sorted(row["item_id"] for row in plan) == sorted(image["image_id"] for image in PICTURES[:6])
    with pytest.raises(InputError, match=f"{PICTURES[0]['image_id']}.* different attributes"):
        run_annotate(study, *keys, f"input={tmp_path}/*/items", f"images={tmp_path}/*/images", f"out={tmp_path / 'U'}")
    with pytest.raises(InputError, match="input=5: "):
        run_annotate(study, *keys, "input=5", f"out={tmp_path / 'U'}")
    assert not (tmp_path / "U").exists()


def test_items_of_a_set_stay_together_for_raters_and_auditor(study: Path, tmp_path: Path) -> None:
    items = [
        {"item_id": content_id("item", str(n), model), "kind": "image", "image_ids": [image["image_id"]],
         "attributes": [("model", model)]}
        for n, image in enumerate(PICTURES[:8]) for model in "abcd"
    ]  # fmt: skip
    write_table(str(tmp_path / "items"), "items", items)
    keys = [f"input={tmp_path / 'items'}", f"images={study / 'images'}", "rubric=century_labels", "per_item=2"]
    run_annotate(study, *keys, "together=picture", "draw.n=6", "audit=0.5", "auditor=checker", f"out={tmp_path / 'T'}")
    pictures_of = {item["item_id"]: item["image_ids"][0] for item in items}
    by_rater = defaultdict(list)
    for row in sorted(rows(tmp_path / "T" / "assignments"), key=lambda row: row["place"]):
        by_rater[row["rater"]].append(row["item_id"])
    assert "checker" in by_rater
    for order in by_rater.values():
        shown = [pictures_of[item] for item in order]
        assert len(set(order)) == len(order) == 4 * len(set(shown))
        assert all(len(set(shown[start : start + 4])) == 1 for start in range(0, len(shown), 4))
    with pytest.raises(InputError, match="together=colour: "):
        run_annotate(study, *keys, "together=colour", f"out={tmp_path / 'U'}")


def test_groups_and_their_quotas_share_a_file(study: Path, tmp_path: Path) -> None:
    more = ["group=country", "quotas={China: 2, India: 1}", "files=group", f"out={tmp_path / 'T'}"]
    run_annotate(study, *pictures(study), *more)
    plan = rows(tmp_path / "T" / "assignments")
    assert Counter(row["group"] for row in plan) == {"China": 24, "India": 12}
    tasks = json.loads((tmp_path / "T" / "label_studio" / "China.json").read_text())
    assert len(tasks) == 12
    assert all("assigned_to" not in task["data"] for task in tasks)


def test_work_on_the_tasks_comes_back_through_the_command(study: Path, tmp_path: Path) -> None:
    raters_key = f"raters={study / 'raters.csv'}"
    cli.execute("annotate", [raters_key, *described(study), "per_item=1", f"out={tmp_path / 'T'}"])
    for path in (tmp_path / "T" / "label_studio").glob("*.json"):
        tasks = json.loads(path.read_text())
        act = Act(path.stem, marked={"mistakes": [(3, 8, "Wrong object")], "omissions": [(11, 16, "Missing")]})
        done = tool_exports.label_studio(tasks, [[act]] * len(tasks))
        (tmp_path / "export").mkdir(exist_ok=True)
        (tmp_path / "export" / path.name).write_text(json.dumps(done))
    more = ["format=label_studio", "table=spans", "span_labels=mistakes_omissions"]
    cli.execute("import_ratings", [f"input={tmp_path / 'export'}", *more, f"out={tmp_path / 'spans'}"])
    spans = pa.concat_tables(list(open_table(str(tmp_path / "spans"), "spans").batches())).to_pylist()
    assert len(spans) == 8
    assert {(row["kind"], row["category"], row["start"], row["end"]) for row in spans} == {
        ("mistake", "noun", 3, 8),
        ("omission", "missing", 11, 16),
    }
    planned = {(row["rater"], row["item_id"]) for row in rows(tmp_path / "T" / "assignments")}
    assert {(row["rater"], row["item_id"]) for row in spans} == planned


def test_pictures_as_files_and_exclusions(study: Path, tmp_path: Path) -> None:
    (tmp_path / "excluded.txt").write_text(PICTURES[0]["source_url"])
    more = ["pictures=files", "picture_base=/data/local-files/?d=", f"exclusions={tmp_path / 'excluded.txt'}"]
    run_annotate(study, *pictures(study), "per_item=1", *more, f"out={tmp_path / 'T'}")
    names = {path.name for path in (tmp_path / "T" / "pictures").iterdir()}
    assert names == {f"{image['image_id']}.jpg" for image in PICTURES[1:]}
    task = json.loads(next((tmp_path / "T" / "label_studio").glob("*.json")).read_text())[0]["data"]
    assert task["image"] == f"/data/local-files/?d={task['item_id']}.jpg"


INVALID_KEYS = [
    ([], "per_item=, per_group= or quotas= is required"),
    (["per_item=7"], "per_item=7: each item needs 7 different raters; there are 6"),
    (
        ["per_item=3", "per_rater=5"],
        "per_item=3: 12 items x 3 raters = 36 tasks, but 6 raters can take only 30",
    ),
    (["per_group=2"], "group=: required with per_group="),
    (["group=city", "per_group=2"], "no column city; .* rater, country"),
    (["group=country", "quotas={Peru: 2}"], "quotas.Peru=2: .* country; must be one of China, India"),
    (["per_item=1", "only_questions=[beauty]"], "only_questions=beauty: .* image_type"),
    (["per_item=1", "span_labels=mistakes_omissions"], "span_labels: .* 'generated'"),
    (["per_item=1", "audit=0.1"], "audit= and auditor= go together"),
    (["per_item=1", "input=[]"], r"input=\[\]: no table there"),
    (["per_item=1", "tool=excel"], "tool=excel: .* label_studio, prodigy"),
    (["per_item=1", "show_columns=[colour]"], "show_columns=colour: "),
]


def test_invalid_keys_are_refused_in_one_line(study: Path, tmp_path: Path) -> None:
    misses = []
    for more, pattern in INVALID_KEYS:
        try:
            run_annotate(study, *pictures(study), *more, f"out={tmp_path / 'T'}")
        except InputError as error:
            if not re.search(pattern, str(error)) or "\n" in str(error):
                misses.append((pattern, str(error)))
        else:
            misses.append((pattern, "no error"))
    assert misses == []
    assert not (tmp_path / "T").exists()


def test_a_limit_takes_the_first_rows_of_all_tables(study: Path, tmp_path: Path) -> None:
    run_annotate(study, *pictures(study), "per_item=2", "limit=3", f"out={tmp_path / 'T'}")
    assert {row["item_id"] for row in rows(tmp_path / "T" / "assignments")} == {
        row["image_id"] for row in rows_of(f"{study}/images")[:3]
    }
    assert limit_of(f"{tmp_path}/T/assignments") == 3
    with pytest.raises(InputError, match="limit"):
        run_annotate(study, *pictures(study), "per_item=2", f"out={tmp_path / 'T'}")
    with pytest.raises(InputError, match="limit=0: must be at least 1"):
        run_annotate(study, *pictures(study), "per_item=2", "limit=0", f"out={tmp_path / 'U'}")

    for name, images in (("a", PICTURES[:2]), ("b", PICTURES[2:6]), ("c", PICTURES[6:8])):
        write_table(str(tmp_path / "parts" / name), "images", images)
    parts = [f"input={tmp_path}/parts/*", "rubric=century_labels", "per_item=1", "show_columns=[]", "limit=3"]
    manifest = run_annotate(study, *parts, f"out={tmp_path / 'V'}")
    assigned = {row["item_id"] for row in rows(tmp_path / "V" / "assignments")}
    assert len(assigned) == 3
    assert {image["image_id"] for image in PICTURES[:2]} < assigned
    assert (manifest["limit"]["rows"], manifest["limit"]["of"]) == (3, 8)


def shown(name: str, *objects: str, limit: int | None = None) -> Any:
    facts = {"identity": f"id of {name}", "uri": name, "name": name, "limit": limit, "rows": limit or 5}
    whole = SimpleNamespace(rows=5)
    return SimpleNamespace(**facts, objects=[Object(uri, 1, "e") for uri in objects], first=lambda _: whole)


def test_a_plan_of_tasks_is_identified_by_all_that_people_see(tmp_path: Path) -> None:
    def plan(limit: int | None = None, rubric: str = "", asked: dict[str, Any] | None = None, **keys: Any) -> Any:
        cfg = AnnotateConfig(input="i", raters="r", out="/T", seed=3, limit=limit, rubric=asked or {}, **keys)
        main, texts = shown("items", "a", limit=limit), shown("texts", "c")
        tables = ShownTables(main, shown("images", "b", "a"), None, texts, shown("responses", "d"))
        return annotate._plan(cfg, tables, [{"rater": "ann", "item_id": "i"}], rubric, {"exclusions": "x"})

    usual = plan()
    keys = ("tool", "files", "pictures", "picture_base", "show_columns", "welfare", "only_questions")
    assert usual.identity == {
        "input": "id of items", "plan": content_id('[{"item_id": "i", "rater": "ann"}]'), "seed": 3,
        "rubric": None, "span_labels": None, "exclusions": "x", "shown": {key: usual.config[key] for key in keys},
    }  # fmt: skip
    (unit,) = usual.units
    assert ([o.uri for o in unit.inputs], unit.rows) == (["a", "b", "c", "d"], 1)
    assert (usual.out, usual.table, usual.metadata, usual.limit) == ("/T/assignments", "assignments", {}, None)
    limited = plan(limit=2, rubric="r")
    assert limited.identity == usual.identity | {"limit": 2}
    assert (limited.metadata, str(limited.limit)) == ({"rubric": "r"}, "limit=2: the first 2 of 5 items")
    draw = CompleteDrawConfig(n=4, seed=1)
    assert plan(draw=draw).identity == usual.identity | draw.identity != usual.identity
    labelled = plan(span_labels={"b": 1, "a": 2})
    assert labelled.identity == usual.identity | {"span_labels": content_id('{"a": 2, "b": 1}')}
    assert plan(asked={"b": 1, "a": 2}).identity == usual.identity | {"rubric": content_id('{"a": 2, "b": 1}')}
    questions = write_table(tmp_path / "q", "questions", [{"set_id": "s", "question_id": "1", "text": "Is it?"}])
    asked = plan(questions=questions, questions_by="texts").identity["shown"]
    assert asked == usual.identity["shown"] | {"questions": open_table(questions).identity, "questions_by": "texts"}


def test_pictures_are_items_or_belong_to_items(tmp_path: Path) -> None:
    rows = [picture(number) for number in range(3)]
    names = [row["image_id"] for row in rows]
    images = write_units(tmp_path / "images", "images", [rows[:1], rows[1:]])
    items = write_table(tmp_path / "items", "items", [{"item_id": "i", "image_ids": names[:1]}])

    def sources(**keys: Any) -> ShownTables:
        return studies.open_sources(AnnotateConfig(raters="r", out="/T", **keys))

    of_images, of_items = sources(input=images, limit=2), sources(input=items, images=images)
    assert (of_images.main.rows, of_images.images and of_images.images.rows) == (2, 3)
    assert (of_items.main.name, of_items.images and of_items.images.uri) == ("items", images)
    assert sources(input=items).images is None
    with pytest.raises(InputError, match=r"^input: no table there"):
        sources(input=None)
    folder = tmp_path / "pictures"
    assert write_pictures(of_images.images, names[1:], str(folder)) == 2
    assert {path.stem for path in folder.iterdir()} == set(names[1:])
    assert write_pictures(sources(input=items).images, names, "F") == 0


def test_a_number_of_people_and_their_filled_sheets_stay(study: Path, tmp_path: Path) -> None:
    """Running the command again must never replace a sheet in which people have worked."""
    command = [*pictures(study), "raters=2", "tool=spreadsheet", f"out={tmp_path / 'S'}"]
    run_annotate(study, *command)
    per_item = Counter(row["item_id"] for row in rows(tmp_path / "S" / "assignments"))
    assert {row["rater"] for row in rows(tmp_path / "S" / "assignments")} == {"person_1", "person_2"}
    assert set(per_item.values()) == {2}
    sheet = tmp_path / "S" / "spreadsheet" / "person_2.csv"
    empty = sheet.read_text(encoding="utf-8")
    run_annotate(study, *command, "overwrite=true")  # nobody has answered: the sheets may be replaced
    head, first, *rest = csv.reader(io.StringIO(empty.removeprefix("\ufeff")))
    first[head.index("value")] = "3"
    for delimiter in ",;":  # as programs write it
        filled = io.StringIO()
        csv.writer(filled, delimiter=delimiter).writerows([head, first, *rest])
        sheet.write_text(filled.getvalue(), encoding="utf-8")
        run_annotate(study, *command)
        assert sheet.read_text(encoding="utf-8").splitlines() == filled.getvalue().splitlines()
        with pytest.raises(InputError, match=r"person_2.csv has people's answers"):
            run_annotate(study, *command, "overwrite=true")
        assert sheet.read_text(encoding="utf-8").splitlines() == filled.getvalue().splitlines()
    for number in ("0", "100000"):
        with pytest.raises(InputError, match="a number of people is from 1 to"):
            run_annotate(study, *pictures(study), f"raters={number}", f"out={tmp_path / 'T'}")
    with pytest.raises(InputError, match="no column country"):
        run_annotate(study, *pictures(study), "raters=3", "group=country", "per_group=1", f"out={tmp_path / 'T'}")
