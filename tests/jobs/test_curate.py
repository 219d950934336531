"""The job as a whole: tables in, tables out, counts in the footers, one sentence for what is wrong."""

import hashlib
import json
import random
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from actors.ids import content_id
from jobs import (
    curate,
)
from jobs.corpora.corpus import TitleSearch
from jobs.corpora.terms import TermsConfig, read_terms
from jobs.corpora.wit.reader import scan_file
from jobs.curation import apply_rules, curated_units, record_arrays
from jobs.curation.apply_rules import CurationTables
from jobs.curation.curation_rules import ALONE
from jobs.curation.curation_steps import CurationStep, steps_of
from jobs.errors import InputError
from jobs.inventory.found import find_tables
from jobs.page.build import funnel
from jobs.runtime import tasks
from jobs.runtime.command_line import cli
from jobs.runtime.outcomes import Manifest, Plan
from jobs.runtime.selection.draws import DrawConfig
from jobs.store.counts import Counts
from jobs.store.identity import identity_of
from jobs.store.reading import open_table
from tests.cases import check_cases
from tests.factories import century_rating, image_row, record, write_records, write_table


def run_curate(tmp_path: Path, *more: str) -> dict[str, Any]:
    manifest = cli.execute("curate", [f"input={tmp_path}/m", f"out={tmp_path}/r", *more])
    assert isinstance(manifest, dict)
    return manifest


def titles(out: Path) -> list[str]:
    return [
        t for batch in open_table(str(out), "records").batches(["page_title"]) for t in batch["page_title"].to_pylist()
    ]


def test_a_table_that_is_overwritten_is_cut_again(tmp_path: Path) -> None:
    """A run that continues keeps the number of pieces; one with overwrite=true forgets it."""
    write_records(str(tmp_path / "m"), [[record(f"a{i}") for i in range(6)]])
    assert run_curate(tmp_path, "unit_rows=2")["counts"]["rows_out"] == 6
    units = []
    for keys in (["unit_rows=2"], ["unit_rows=3", "overwrite=true"]):
        run_curate(tmp_path, *keys)
        units.append(len(open_table(f"{tmp_path}/r", "records").footers))
    assert units == [3, 2]
    assert titles(tmp_path / "r") == [f"a{i}" for i in range(6)]


def test_a_limit_takes_the_first_records_before_the_rules(tmp_path: Path) -> None:
    units = [[record(f"{u}{i}", main="true" if i else "false") for i in range(3)] for u in "ab"]
    write_records(str(tmp_path / "m"), units)
    rows = [row["record_id"] for batch in open_table(f"{tmp_path}/m").batches() for row in batch.to_pylist()]
    main = {row["record_id"] for unit in units for row in unit if row["is_main_image"] == "true"}
    manifest = run_curate(tmp_path, "limit=5", "unit_rows=1")
    kept = [i for batch in open_table(f"{tmp_path}/r").batches() for i in batch["record_id"].to_pylist()]
    assert set(kept) == main & set(rows[:5])
    assert (manifest["counts"]["rows_in"], manifest["limit"]["rows"], manifest["limit"]["of"]) == (5, 5, 6)
    with pytest.raises(InputError, match="limit was 5, now not set"):
        run_curate(tmp_path, "unit_rows=1")


def test_a_table_is_curated_unit_by_unit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    units = [
        [record("keep"), record("aside", main="false"), record("unknown", main=None), record("Main", main="TRUE")],
        [record("two", page="P", image="https://1"), record("two", page="P", image="https://2")],
        [record("plain", image="http://x"), record("b", image="https://same"), record("a", image="https://same")],
    ]
    write_records(str(tmp_path / "m"), units)
    manifest = run_curate(tmp_path, "unit_rows=1")
    assert sorted(titles(tmp_path / "r")) == ["Main", "a", "keep"]
    counts = manifest["counts"]
    assert (counts["rows_in"], counts["rows_out"]) == (9, 3)
    assert counts["filtered"] == {"is_main_image": 2, "one_image_a_page": 2, "https": 1, "one_row_an_image": 1}
    assert "9 in = 3 out" in capsys.readouterr().out
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "r").glob("*.parquet")}
    assert run_curate(tmp_path, "unit_rows=1")["counts"] == counts
    assert {p: p.stat().st_mtime_ns for p in (tmp_path / "r").glob("*.parquet")} == before


def test_a_table_without_rows_is_curated_to_one(tmp_path: Path) -> None:
    write_records(str(tmp_path / "m"), [[], []])
    assert run_curate(tmp_path)["counts"]["rows_out"] == 0
    assert len(open_table(str(tmp_path / "r")).footers) == 2


def test_plan_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_records(str(tmp_path / "m"), [[record("a")]])
    (tmp_path / "gone.txt").write_text("https://i/a.jpg\nhttps://i/b.jpg\n")
    keys = [f"input={tmp_path}/m", f"out={tmp_path}/r", f"exclusions={tmp_path}/gone.txt"]
    assert isinstance(cli.execute("curate", [*keys, "plan=true"]), Plan)
    assert not (tmp_path / "r").exists()
    message = capsys.readouterr().out
    assert f"would write table records to {tmp_path}/r" in message
    counts = ("  unknown: 1 record matched (1 unknown)", "exclusions: 1 of 2 entries")
    assert all(line in message for line in counts)
    manifest = cli.execute("curate", keys)
    assert isinstance(manifest, dict)
    assert (manifest["counts"]["filtered"], manifest["config"]["out"]) == ({"excluded": 1}, f"{tmp_path}/r")
    message = capsys.readouterr().out
    assert all(line in message for line in counts)


def test_invalid_records_are_refused(tmp_path: Path) -> None:
    ids = ["x", "y", "x", "x", "y", "z"]
    write_records(str(tmp_path / "m"), [[record(f"{n}", record_id=name)] for n, name in enumerate(ids)])
    with pytest.raises(InputError, match="3 duplicate record_ids"):
        run_curate(tmp_path)
    with pytest.raises(InputError, match="unit_rows=0"):
        run_curate(tmp_path, "unit_rows=0")
    assert not (tmp_path / "r").exists()


def test_the_real_files_give_the_expected_list(data: Path, tmp_path: Path) -> None:
    from actors.titles import TitleMatcher

    expected = json.loads((data / "wit" / "expected.json").read_text())
    matcher = TitleMatcher(read_terms(TermsConfig(path=str(data / "century" / "knowledge_graph_search_terms.csv"))))
    units: list[list[dict[str, Any]]] = []
    for name in expected["files"]:
        uri = str(data / "wit" / name)
        hits = scan_file(uri, TitleSearch("en", matcher, Counts(), lambda reject: None))
        units.append([
            {**hit.fields, "record_id": f"{name}{i}", "image_id": content_id(hit.fields["image_url"] or "")}
            for i, hit in enumerate(hits)
        ])  # fmt: skip
    write_records(str(tmp_path / "m"), units)
    manifest = run_curate(tmp_path, "unit_rows=100")
    counts = manifest["counts"]
    lost = [counts["filtered"][rule] for rule in ("is_main_image", "one_image_a_page", "https", "one_row_an_image")]
    steps = list(expected["steps"].values())[2:]
    assert [counts["rows_in"], *(counts["rows_in"] - sum(lost[: i + 1]) for i in range(4))] == steps
    final = open_table(str(tmp_path / "r"))
    actual = [
        [row["page_title"], row["image_url"]]
        for batch in final.batches(["page_title", "image_url"])
        for row in batch.to_pylist()
    ]
    assert sorted(actual) == sorted(expected["final"])


METHODS = ("knowledge_graph", "language_model", "manual")


def matches(out: Path, *, many: int = 60, units: int = 3) -> list[dict[str, Any]]:
    """Write records of three methods to `out`/m: half are the knowledge graph's, and two methods found one in six."""
    rng = random.Random(5)
    rows = []
    for n in range(many):
        methods = [METHODS[0]] if n % 2 else [METHODS[1 + n % 3 % 2]]
        methods += [METHODS[2]] if n % 6 == 1 else []
        rows.append({**record(f"t{n:03}"), "methods": methods, "split": rng.choice(["train", "val"])})
    write_records(str(out / "m"), [rows[i::units] for i in range(units)])
    return rows


def digests(out: Path) -> dict[str, str]:
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in out.glob("*.parquet")}


def test_the_knowledge_graph_makes_room(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = matches(tmp_path)
    credited = {METHODS[0] if METHODS[0] in row["methods"] else "other" for row in rows}
    assert credited == {METHODS[0], "other"}
    manifest = run_curate(tmp_path, "draw.n=40", "draw.seed=3", "downsample_from=knowledge_graph")
    kept = set(titles(tmp_path / "r"))
    assert manifest["counts"]["filtered"] == {"draw": 20}
    assert {row["page_title"] for row in rows if METHODS[0] not in row["methods"]} <= kept, "the others all stay"
    assert manifest["identity"]["draw"] == {"n": 40, "seed": 3, "by": "picture"}
    assert manifest["identity"]["downsample_from"] == "knowledge_graph"
    message = capsys.readouterr().out
    assert "drew 40 of 60 pictures, with all 30 of other methods than knowledge_graph" in message
    assert "manual: 20 records matched" in message

    shuffled = random.Random(1).sample(rows, len(rows))
    write_records(str(tmp_path / "again" / "m"), [shuffled])
    again = "downsample_from=knowledge_graph"
    run_curate(tmp_path / "again", "draw.n=40", "draw.seed=3", again, "unit_rows=7")
    assert set(titles(tmp_path / "again" / "r")) == kept, "neither order nor units change the draw"
    cli.execute("curate", [f"input={tmp_path}/m", f"out={tmp_path}/s4", "draw.n=40", "draw.seed=4", again])
    assert set(titles(tmp_path / "s4")) != kept
    cli.execute("curate", [f"input={tmp_path}/m", f"out={tmp_path}/large", "draw.n=50", "draw.seed=3", again])
    assert kept < set(titles(tmp_path / "large")), "a larger set contains the smaller one"
    cli.execute("curate", [f"input={tmp_path}/m", f"out={tmp_path}/none", "draw.n=30", again])
    assert set(titles(tmp_path / "none")) == {row["page_title"] for row in rows if METHODS[0] not in row["methods"]}


def test_more_asked_for_than_there_is_keeps_all_and_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    matches(tmp_path)
    assert run_curate(tmp_path, "draw.n=1500")["counts"]["rows_out"] == 60
    assert "drew 60 of 60 pictures; there are fewer than draw.n=1500" in capsys.readouterr().out


def test_a_draw_is_from_all_methods_and_keeps_pages_together(tmp_path: Path) -> None:
    rows = matches(tmp_path)
    run_curate(tmp_path, "draw.n=40", "draw.by=split")
    assert len(titles(tmp_path / "r")) == 60, "there are two splits"
    run_curate(tmp_path, "draw.n=1", "draw.by=split", "overwrite=true")
    splits = {row["split"] for row in rows if row["page_title"] in titles(tmp_path / "r")}
    assert len(splits) == 1
    run_curate(tmp_path, "draw.n=20", "overwrite=true")
    methods = {row["methods"][0] for row in rows if row["page_title"] in titles(tmp_path / "r")}
    assert methods == set(METHODS)


def test_pictures_that_are_gone_and_near_duplicates(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = matches(tmp_path, many=12)
    urls = [row["image_url"] for row in rows]
    hashes = {0: "00000000000000ff", 1: "00000000000000fe", 2: "00000000000000ff", 5: "ffffffffffffffff"}
    images = [image_row(url, phash=hashes.get(n)) for n, url in enumerate(urls)]
    images[3] = image_row(urls[3], status="missing")
    images[4] = image_row(urls[4], status="error")
    write_table(str(tmp_path / "i"), "images", images)
    with_images = f"images={tmp_path}/i"
    counts = run_curate(tmp_path, with_images)["counts"]
    assert counts["filtered"] == {"picture_exists": 1}
    assert "pictures by the table of images: 10 existing, 1 gone, 1 unknown, 0 of others" in capsys.readouterr().out

    def near(*more: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        out = tmp_path / "-".join(more)
        manifest = cli.execute("curate", [f"input={tmp_path}/m", f"out={out}", with_images, *more])
        assert isinstance(manifest, dict)
        listed = (out / "_run" / "near_duplicates.jsonl").read_text().splitlines()
        return manifest["counts"]["filtered"], [json.loads(line) for line in listed]

    ids = [row["image_id"] for row in rows]
    # t001 is the knowledge graph's, which comes before the others: it stays, though t000 is before it by title
    group = [{"stays": ids[1], "near": dict(sorted({ids[0]: 1, ids[2]: 1}.items()))}]
    assert near("near_duplicates=report") == ({"picture_exists": 1}, group)
    assert near("near_duplicates=drop") == ({"picture_exists": 1, "near_duplicate": 2}, group)
    assert (
        "2 pictures near one of 1 that are kept (bits apart: 2 at 1; dropped); 4 of 11 pictures have"
        in capsys.readouterr().out
    )
    near("near_duplicates=report")
    lists = tmp_path / "near_duplicates=report" / "_run" / "near_duplicates.jsonl"
    assert f"near-duplicates are listed in {lists}" in capsys.readouterr().out
    assert near("near_duplicates=drop", "near_distance=0")[1] == [{"stays": ids[0], "near": {ids[2]: 0}}]


def test_neither_parts_nor_tasks_of_ray_change_what_is_selected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = matches(tmp_path, many=60)
    images = [
        image_row(row["image_url"], phash=f"{n // 4:016x}", rendition=r) for n, row in enumerate(rows) for r in "ab"
    ]
    images[3]["status"] = images[2]["status"] = "missing"
    write_table(str(tmp_path / "i"), "images", images)
    (tmp_path / "excluded.txt").write_text(f"{rows[9]['image_id']}\n{rows[11]['image_url']}\n")
    keys = [f"images={tmp_path}/i", "near_duplicates=drop", "near_distance=1", f"exclusions={tmp_path}/excluded.txt"]

    def outcome(name: str) -> tuple[list[dict[str, Any]], dict[str, Any], list[str]]:
        out = tmp_path / name
        manifest = cli.execute("curate", [f"input={tmp_path}/m", f"out={out}", "unit_rows=2", *keys])
        assert isinstance(manifest, Manifest)
        rows_of = [row for batch in open_table(str(out)).batches() for row in batch.to_pylist()]
        lines = [line.replace(str(out), "OUT") for line in manifest.lines if not line.endswith(" s")]
        return rows_of, manifest["counts"], lines

    once = outcome("once")
    for module in (record_arrays, apply_rules, curated_units):
        monkeypatch.setattr(module, "PART", 9)
    assert outcome("parts") == once
    monkeypatch.setattr(tasks, "IN_PROCESS", 0)
    assert outcome("tasks") == once
    assert once[1]["filtered"].keys() == {"picture_exists", "excluded", "near_duplicate"}


def ratings_of(rows: list[dict[str, Any]], out: Path) -> None:
    """Two tables: a model finds all but the first six sensitive, people say where most of them are."""
    model, people = [], []
    for n, row in enumerate(rows):
        item = row["image_id"]
        model.append(century_rating(item, "sensitive", 3 if n < 6 else 5))
        where = ["Caribbean", "Polynesia", "Western Asia"][n % 3]
        people += [century_rating(item, "sub_region", where, rater=f"p{p}", method="human") for p in range(3)]
    people[-3:] = [{**r, "value": "unsure"} for r in people[-3:]]
    write_table(str(out / "ratings" / "model"), "ratings", model)
    write_table(str(out / "ratings" / "people"), "ratings", people)


STARTER = ("select=starter", "ratings=[{}/ratings/*]")


def test_the_starter_set(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = matches(tmp_path)
    ratings_of(rows, tmp_path)
    asked = [entry.format(tmp_path) for entry in STARTER]
    counts = run_curate(tmp_path, *asked, "unit_rows=4")["counts"]
    assert counts["filtered"] == {"starter_mean": 6, "starter_region": 1, "starter_per_region": 35}
    assert counts["tallies"]["starter_chosen"] == {"Caribbean": 6, "Polynesia": 6, "Western Asia": 6}
    assert counts["tallies"]["starter_eligible"] == {"Caribbean": 18, "Polynesia": 18, "Western Asia": 17}
    message = capsys.readouterr().out
    assert "starter set: 18 of 53 pictures that are sensitive enough" in message
    assert "ratings of sensitive: 60 ok" in message

    kept = set(titles(tmp_path / "r"))
    write_records(str(tmp_path / "again" / "m"), [rows[::-1]])
    run_curate(tmp_path / "again", *asked)
    assert set(titles(tmp_path / "again" / "r")) == kept
    for other in ("starter.per_region=99", "draw.seed=1"):
        with pytest.raises(InputError, match="starter"):
            run_curate(tmp_path / "again", *asked, other)
    unsure = run_curate(tmp_path / "again", *asked, "starter.unsure=region", "starter.per_region=99", "overwrite=true")
    assert unsure["counts"]["tallies"]["starter_chosen"]["unsure"] == 1


def test_only_units_with_changed_decisions_are_rewritten(tmp_path: Path) -> None:
    """Another unit's picture turns out to be gone: the pieces that lose nothing stay as they are."""
    rows = matches(tmp_path, many=12)
    images = [image_row(row["image_url"]) for row in rows]
    write_table(str(tmp_path / "i"), "images", images)
    run_curate(tmp_path, f"images={tmp_path}/i", "unit_rows=100")
    before = digests(tmp_path / "r")
    images[0]["status"] = "missing"
    shutil.rmtree(tmp_path / "i")
    write_table(str(tmp_path / "i"), "images", images)
    counts = run_curate(tmp_path, f"images={tmp_path}/i", "unit_rows=100")["counts"]
    after = digests(tmp_path / "r")
    assert counts["filtered"] == {"picture_exists": 1}
    assert before.keys() == after.keys()
    assert sum(before[name] != after[name] for name in before) == 1


def test_a_killed_run_resumes_to_the_same_table(tmp_path: Path) -> None:
    matches(tmp_path)
    counts = run_curate(tmp_path, "draw.n=40", "unit_rows=5")["counts"]
    kept, before = titles(tmp_path / "r"), digests(tmp_path / "r")
    (tmp_path / "r" / "_run" / "manifest.json").unlink()
    for name in sorted(before)[2:]:
        (tmp_path / "r" / name).unlink()
    assert run_curate(tmp_path, "draw.n=40", "unit_rows=5")["counts"] == counts
    assert titles(tmp_path / "r") == kept
    after = digests(tmp_path / "r")
    assert {name: after[name] for name in sorted(before)[:2]} == {name: before[name] for name in sorted(before)[:2]}
    with pytest.raises(InputError, match="a table exists and resume=false"):
        run_curate(tmp_path, "draw.n=40", "unit_rows=5", "resume=false")
    with pytest.raises(InputError, match=r"another configuration: draw\.seed was 0, now 1"):
        run_curate(tmp_path, "draw.n=40", "unit_rows=5", "draw.seed=1")


def test_the_report_shows_the_steps_that_were_asked_for(tmp_path: Path) -> None:
    matches(tmp_path)
    run_curate(tmp_path, "draw.n=40")
    steps = [(step.label, step.n) for step in funnel({"records": open_table(str(tmp_path / "r"))})]
    assert steps[-2:] == [("one record per picture", 60), ("drawn at random", 40)]
    assert "picture still at its source" not in dict(steps)


def test_two_selections_credit_and_count_as_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A record that the graph's page rule removed stays the language model's: it is alone on its page afterwards."""
    rng, rows = random.Random(3), []
    for n in range(240):
        image = f"{'https' if rng.random() < 0.9 else 'http'}://i/{rng.randrange(200)}.jpg"
        row = record(f"t{n % 90}", page=f"https://p/{n % 120}", image=image, main=rng.choice(["true"] * 5 + ["false"]))
        methods = sorted(rng.sample(METHODS, rng.choice([1, 1, 2, 3])))
        rows.append({**row, "record_id": f"{n}", "methods": methods, "split": rng.choice(["train", "val"])})
    write_records(str(tmp_path / "m"), [rows[i::3] for i in range(3)])
    urls = sorted({row["image_url"] for row in rows})
    images = [image_row(url, status="ok" if n % 7 else "missing") for n, url in enumerate(urls)]
    write_table(str(tmp_path / "i"), "images", images)
    rules = ["page_rule.by=page_title", "page_rule.methods=[knowledge_graph]", "unit_rows=8"]
    second = [*rules, f"images={tmp_path}/i", "draw.n=80", "downsample_from=knowledge_graph"]
    run_curate(tmp_path, *rules)
    for source, out in (("m", "at_once"), ("r", "after")):
        cli.execute("curate", [f"input={tmp_path}/{source}", f"out={tmp_path}/{out}", *second])
    printed = capsys.readouterr().out

    def credits(out: str) -> dict[str, str]:
        table = open_table(str(tmp_path / out))
        return {row["record_id"]: row["credited_method"] for batch in table.batches() for row in batch.to_pylist()}

    def steps(out: str) -> list[CurationStep]:
        return steps_of(open_table(str(tmp_path / out)).counts().tallies)

    assert credits("after") == credits("at_once")
    assert set(credits("after").values()) == set(METHODS)
    *first, exists, drawn = steps("after")
    assert (first, exists.name, drawn.name) == (steps("r"), "picture_exists", "draw")
    assert (drawn.n, drawn.by_method) == (steps("at_once")[-1].n, steps("at_once")[-1].by_method)
    assert first[-1].n - exists.n == sum(url in {images[n]["source_url"] for n in range(0, len(urls), 7)} for url in [
        row["image_url"] for row in rows if row["record_id"] in credits("r")
    ])  # fmt: skip
    alone = next(step for step in first if step.ends_own_rules)
    of_graph = f"  knowledge_graph: {alone.of('knowledge_graph'):,} after its own filters"
    assert printed.count(of_graph) == 2, "of the first selection, and of the one that continues it"
    counts = open_table(str(tmp_path / "after")).counts()
    assert counts.filtered == {"picture_exists": first[-1].n - exists.n, "draw": exists.n - 80}
    (tmp_path / "after" / "_run" / "manifest.json").unlink()
    again = cli.execute("curate", [f"input={tmp_path}/r", f"out={tmp_path}/after", *second])
    assert isinstance(again, dict)
    assert again["counts"]["tallies"] == counts.tallies


def test_a_run_that_is_interrupted_leaves_no_old_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of six pictures are gone by the second run, which stops after the first of two units."""
    units = [[record(f"{unit}{n}") for n in range(3)] for unit in "ab"]
    write_records(str(tmp_path / "m"), units)
    images = [image_row(row["image_url"]) for unit in units for row in unit]
    write_table(str(tmp_path / "i"), "images", images)
    run_curate(tmp_path, f"images={tmp_path}/i")
    (before,) = find_tables(str(tmp_path / "r"))
    shutil.rmtree(tmp_path / "i")
    write_table(str(tmp_path / "i"), "images", [row | {"status": "missing"} if n in (0, 3) else row
                                                for n, row in enumerate(images)])  # fmt: skip
    selected, calls = curated_units.ParentRows.selected, []

    def stopping(*keys: Any) -> Any:
        calls.append(keys)
        if len(calls) > 1:
            raise KeyboardInterrupt
        return selected(*keys)

    monkeypatch.setattr(curated_units.ParentRows, "selected", stopping)
    with pytest.raises(KeyboardInterrupt):
        run_curate(tmp_path, f"images={tmp_path}/i")
    (stopped,) = find_tables(str(tmp_path / "r"))
    monkeypatch.undo()
    run_curate(tmp_path, f"images={tmp_path}/i")
    (after,) = find_tables(str(tmp_path / "r"))
    assert [(table.rows, table.state) for table in (before, stopped, after)] == [
        (6, "complete"), (5, "1 of 2 units"), (4, "complete")
    ]  # fmt: skip


def test_a_list_of_exclusions_may_come_after_some_units(tmp_path: Path) -> None:
    """A unit without excluded pictures stays as it is, and counts in the step of the list nevertheless."""
    write_records(str(tmp_path / "m"), [[record(f"{unit}{n}") for n in range(3)] for unit in "ab"])
    run_curate(tmp_path)
    (tmp_path / "gone.txt").write_text("https://i/a1.jpg\n")
    exclusions = f"exclusions={tmp_path}/gone.txt"
    cli.execute("purge", [f"input={tmp_path}", exclusions])
    run_curate(tmp_path, exclusions)
    steps = steps_of(open_table(str(tmp_path / "r")).counts().tallies)
    assert [step.name for step in steps] == [
        "matched", *(rule for rule in ALONE if rule != "picture_exists"), "one_row_an_image"
    ]  # fmt: skip
    assert {step.n for step in steps} == {5}


def test_precedence_decides_the_credit(tmp_path: Path) -> None:
    rows = [{**record("a"), "methods": [*METHODS]}, {**record("b"), "methods": []}]
    write_records(str(tmp_path / "m"), [rows])
    run_curate(tmp_path, "precedence=[manual]")
    later = cli.execute("curate", [f"input={tmp_path}/r", f"out={tmp_path}/later"])  # the graph is first by default
    assert isinstance(later, dict)
    for out in ("r", "later"):
        (batch,) = open_table(str(tmp_path / out)).batches(["page_title", "methods", "credited_method"])
        assert batch.to_pylist() == [
            {"page_title": "a", "methods": [*METHODS], "credited_method": "manual"},
            {"page_title": "b", "methods": [], "credited_method": None},
        ]


def test_wrong_keys_are_named_in_one_line(wrong: Path, capsys: pytest.CaptureFixture[str]) -> None:
    f = str(wrong)
    ratings = f"ratings=[{f}/ratings/*]"
    cases = [
        ("draw.n=0", ["draw.n=0"]),
        ("draw.n=-5", ["draw.n=-5"]),
        ("draw.by=methods", ["draw.n=5", "draw.by=methods"]),
        ("downsample_from=manual: only read with draw.n=", ["downsample_from=manual"]),
        ("unit_rows=0", ["unit_rows=0"]),
        (
            "downsample_from=knowledge_graph are removed, and the others form 30",
            ["draw.n=5", "downsample_from=knowledge_graph"],
        ),
        ("downsample_from=kg are removed, and the others form 60 groups (30 of", ["draw.n=5", "downsample_from=kg"]),
        ("thumbnails=yes", ["thumbnails=yes"]),
        ("near_duplicates=true", ["near_duplicates=true"]),
        ("near_distance=11", ["near_distance=11"]),
        ("near_distance=-1", ["near_distance=-1"]),
        ("near_duplicates=drop: needs images=", ["near_duplicates=drop"]),
        (f"images={f}/i: no phash", ["near_duplicates=drop", f"images={f}/i"]),
        (f"images={f}/others: none of its 1 pictures", [f"images={f}/others"]),
        (f"{f}/m", [f"images={f}/m"]),
        (f"{f}/none", [f"images={f}/none"]),
        ("select=best", ["select=best"]),
        ("select=starter: needs ratings=", ["select=starter"]),
        (f"{ratings}: only read with select=starter", [ratings]),
        (f"{f}/none/*", ["select=starter", f"ratings=[{f}/none/*]"]),
        ("none of the 1 ratings of sensitive", ["select=starter", f"ratings=[{f}/strange]"]),
        ("starter.region_question=where", ["select=starter", ratings, "starter.region_question=where"]),
        ("precedence=[a,b,a]: duplicate a", ["precedence=[a,b,a]"]),
    ]
    missed = []
    for expected, keys in cases:
        code, error = cli.main("curate", [f"input={f}/m", f"out={f}/out", *keys]), capsys.readouterr().err
        if code != 2 or expected not in error or error.count("\n") != 1:
            missed.append((keys, code, error))
    assert not missed
    assert not (wrong / "out").exists()


@pytest.fixture(scope="module")
def wrong(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wrong")
    rows = matches(folder)
    ratings_of(rows, folder)
    write_table(str(folder / "i"), "images", [image_row(rows[0]["image_url"])])
    write_table(str(folder / "others"), "images", [image_row("https://elsewhere")])
    stranger = [century_rating("x", "sensitive", 5), century_rating("x", "sub_region", "Caribbean")]
    write_table(str(folder / "strange"), "ratings", stranger)
    return folder


def source(name: str) -> Any:
    return SimpleNamespace(identity=name, uri=name)


def test_the_identity_of_a_curation_has_the_keys_of_the_rules_that_are_applied() -> None:
    def identity(images: bool = False, **keys: Any) -> dict[str, Any]:
        cfg = curate.CurateConfig(input="i", out="o", **keys)
        tables = CurationTables(source("records"), source("images") if images else None, [source("a"), source("b")])
        selection: Any = SimpleNamespace(decision=SimpleNamespace(applied=("https", curate.EXCLUDED, "draw")))
        entries = curate.identity_entries(cfg, tables, selection)
        return identity_of(cfg, entries, instead_of=curate.OF_SOME_RULES)

    usual = identity()
    assert usual == {
        "input": "records", "rules": ["https", "draw"], "unit_rows": curate.CurateConfig.unit_rows,
        "thumbnails": "wikimedia", "page_rule": {"by": "page_url", "methods": None},
        "precedence": ["knowledge_graph", "language_model", "manual"],
    }  # fmt: skip
    assert identity(limit=3) == usual | {"limit": 3}
    assert identity(images=True) == usual | {"images": "images"}
    near = identity(near_duplicates="drop", near_distance=2)
    assert near == usual | {"near_duplicates": {"mode": "drop", "distance": 2}}
    drawn = identity(draw=DrawConfig(n=5), downsample_from="manual")
    assert drawn == usual | {"draw": {"n": 5, "seed": 0, "by": "picture"}, "downsample_from": "manual"}
    starter = identity(select="starter", draw=DrawConfig(seed=4))["starter"]
    assert (starter["seed"], starter["ratings"], starter["per_region"]) == (4, ["a", "b"], 6)


def test_tables_of_ratings_are_opened_in_the_order_of_their_addresses(tmp_path: Path) -> None:
    records = write_table(tmp_path / "m", "records", [record(title) for title in "abc"])
    uris = [write_table(tmp_path / name, "ratings", [century_rating(name, "sensitive", 3)]) for name in "pqr"]
    for order in (uris, uris[::-1]):
        tables = curate.open_tables(curate.CurateConfig(input=records, out="o", ratings=order, limit=2))
        assert [table.uri for table in tables.ratings] == uris
        assert (tables.records.rows, tables.images) == (2, None)


def test_keys_of_a_curation_that_need_other_tables_are_refused_without_them() -> None:
    def check(keys: dict[str, Any], message: str | None) -> None:
        cfg = curate.CurateConfig(input="i", out="o", **keys)
        if message is None:
            curate.check(cfg)
            return
        with pytest.raises(InputError, match=message):
            curate.check(cfg)

    check_cases(check, [
        ({}, None), ({"unit_rows": 1}, None), ({"limit": 1}, None),
        ({"near_duplicates": "report", "images": "I"}, None), ({"images": "I"}, None),
        ({"select": "starter", "ratings": ["r"]}, None),
        ({"unit_rows": 0}, "^unit_rows=0: must be at least 1"), ({"limit": 0}, "^limit=0"),
        ({"near_duplicates": "report"}, "^near_duplicates=report: needs images="),
        ({"select": "starter"}, "^select=starter: needs ratings="),
        ({"ratings": ["r", "s"]}, r"^ratings=\[r,s\]: only read with select=starter"),
    ])  # fmt: skip
