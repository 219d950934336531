"""Reading of items from several tables, and runs of `generate`, `parse` and `loglik`."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from actors.ids import content_id
from jobs.errors import InputError
from jobs.judging import rating_tables
from jobs.judging.items import Reader, item_units, open_sources
from jobs.judging.kept_rubric import HASH, read_kept
from jobs.runtime.command_line import cli
from jobs.runtime.selection.draws import CompleteDrawConfig
from jobs.runtime.selection.exclusions import ExclusionFilter, read_exclusions, withhold
from jobs.store.reading import open_table
from jobs.store.runs.table_run import open_run
from jobs.store.table_plan import TablePlan
from jobs.store.units import Unit
from jobs.store.writer import UnitTask, UnitWriter
from jobs.tables import table
from tests.actors.vlm.helpers import png
from tests.factories import record, unit_records, write_records

TITLES = ("war", "peace", "truce")


def write(out: Path, name: str, units: Mapping[str, Sequence[Mapping[str, Any]]], **metadata: str) -> str:
    """Write a complete table with one unit per list of rows and return its path; columns that rows lack are null."""
    dim = 4 if name == "embeddings" else None
    parts = [Unit(unit, (), rows=len(rows)) for unit, rows in units.items()]
    plan = TablePlan(str(out), name, {"by": "hand"}, parts, {}, metadata, derived=False, dim=dim)
    run = open_run(plan, resume=True, overwrite=False, retry=[])
    for task in run.todo:
        with UnitWriter(run.target, task) as writer:
            writer.counts.rows_in = len(units[task.unit.name])
            writer.write(pa.Table.from_pylist(list(units[task.unit.name]), schema=table(name, dim=dim).schema()))
    run.finish()
    return str(out)


def image(title: str) -> str:
    """Return the image_id of `tests.factories.record`."""
    return content_id(f"https://i/{title}.jpg")


def picture_row(title: str, *, ok: bool = True) -> dict[str, Any]:
    data, url = png(len(title)) if ok else None, f"https://i/{title}.jpg"
    return {
        "image_id": image(title),
        "source_url": url,
        "rendition": "original",
        "bytes": data,
        "status": "ok" if ok else "missing",
    }


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    """Pictures and records of the same units, texts, and items that point to them."""
    write_records(str(tmp_path / "records"), [[record("war"), record("peace")], [record("truce")]])
    pictures = {"unit0": [picture_row("war"), picture_row("peace", ok=False)], "unit1": [picture_row("truce")]}
    write(tmp_path / "images", "images", pictures)
    write(tmp_path / "other", "records", {"elsewhere": [record("war")]})
    write(tmp_path / "texts", "texts", {"t": [{"text_id": f"t{n}", "text": f"Text {n}."} for n in (1, 2)]})
    items: list[dict[str, Any]] = [
        {"item_id": "both", "image_ids": [image("war"), image("truce")], "text_ids": ["t2", "t1"]},
        {"item_id": "gone", "image_ids": [image("peace")], "attributes": [("page_title", "its own")]},
        {"item_id": "unknown", "image_ids": ["0" * 32]},
        {"item_id": "none", "text_ids": ["t1"]},
    ]
    write(tmp_path / "items", "items", {"i": items})
    return tmp_path


def read(
    tables: Path, name: str, *, fields: tuple[str, ...], exclusions: str | None = None, **joined: str
) -> list[Any]:
    """Return every item of table `name` as the stages get it."""
    exclusion_filter = ExclusionFilter(read_exclusions(exclusions).marks)
    paths: dict[str, Any] = {"images": None, "texts": None, "records": None} | joined
    sources = open_sources(str(tables / name), fields=fields, pictures=True, **paths)
    reader = Reader(name, tuple(sources.joined_tables), fields, True)
    units = [
        withhold(reader(UnitTask(unit)), item="item_id", exclusion_filter=exclusion_filter) for unit in sources.units()
    ]
    return [row for rows in units for row in rows.to_pylist()]


def test_pictures_are_joined_to_their_records(tables: Path) -> None:
    rows = read(tables, "images", fields=("page_title",), records=str(tables / "records"))
    assert {row["page_title"]: (row["status"], len(row["pictures"][0] or b"") > 0) for row in rows} == {
        "war": ("ok", True),
        "peace": ("missing", False),
        "truce": ("ok", True),
    }
    sources = open_sources(
        str(tables / "images"), images=None, texts=None, records=str(tables / "records"), fields=(), pictures=True
    )
    assert [len(unit.inputs) for unit in sources.units()] == [2, 2]
    assert all(unit.inputs[1].uri.endswith(f"{unit.name}.parquet") for unit in sources.units())


def test_items_find_their_pictures_texts_and_records_in_other_units(tables: Path) -> None:
    joined = {name: str(tables / name) for name in ("images", "texts", "records")}
    rows = {row["item_id"]: row for row in read(tables, "items", fields=("page_title", "text"), **joined)}
    assert rows["both"]["pictures"] == [png(3), png(5)]
    assert (rows["both"]["status"], rows["both"]["page_title"], rows["both"]["text"]) == (
        "ok",
        "war",
        "Text 2.\n\nText 1.",
    )
    assert (rows["gone"]["status"], rows["gone"]["page_title"]) == ("missing", "its own")
    assert (rows["unknown"]["status"], rows["unknown"]["pictures"]) == ("missing_input", [None])
    assert (rows["none"]["status"], rows["none"]["pictures"], rows["none"]["text"]) == ("ok", [], "Text 1.")


@pytest.mark.parametrize("entry", [image("truce"), image("truce").upper(), "HTTP://I/truce.jpg?x#y"])
def test_an_excluded_picture_is_withheld_from_every_item(tables: Path, entry: str) -> None:
    file = tables / "exclusions.txt"
    file.write_text(entry)
    joined = {"images": str(tables / "images")}
    rows = {row["item_id"]: row for row in read(tables, "items", fields=(), exclusions=str(file), **joined)}
    assert (rows["both"]["status"], rows["both"]["pictures"]) == ("reported", None)
    assert rows["none"]["status"] == "ok"
    pictures = {row["item_id"]: row for row in read(tables, "images", fields=(), exclusions=str(file))}
    assert (pictures[image("truce")]["status"], pictures[image("truce")]["pictures"]) == ("reported", None)
    assert pictures[image("war")]["status"] == "ok"


def test_a_draw_reads_only_the_drawn_rows_of_each_unit(tmp_path: Path) -> None:
    titles = [f"title {number}" for number in range(12)]
    rows = [picture_row(title, ok=title != "title 3") for title in titles]
    uri = write(tmp_path / "images", "images", {"u0": rows[:5], "u1": rows[5:11], "u2": rows[11:]})
    sources = open_sources(uri, images=None, texts=None, records=None, fields=(), pictures=True)
    reader = Reader("images", (), (), True)

    def draw(*marks: str, **keys: Any) -> tuple[list[Unit], list[str], list[str]]:
        drawn = item_units(sources, CompleteDrawConfig(**keys), frozenset(marks))
        read = [row["item_id"] for unit in drawn.units for row in reader(UnitTask(unit)).to_pylist()]
        assert [unit.name for unit in drawn.units] == ["u0", "u1", "u2"], "joins by the names of units still hold"
        assert (sum(unit.rows or 0 for unit in drawn.units), drawn.rows) == (len(read), len(read))
        return list(drawn.units), read, drawn.lines

    units, read, lines = draw(n=4, seed=1)
    assert lines == ["drew 4 of 11 pictures"]
    assert len(set(read)) == 4
    filtered = [unit.extra["filtered"].get("draw", 0) for unit in units]
    assert sum(filtered) == 8
    assert image("title 3") not in draw(n=11)[1], "a picture that is missing is not drawn"
    assert len(draw(n=11)[1]) == 11
    assert draw()[2] == []
    without, others = draw(read[0], n=4, seed=1)[:2]
    assert set(read) - set(others) == {read[0]}, "another picture takes the place of an excluded one"
    changed = [one.version != other.version for one, other in zip(units, without, strict=True)]
    assert any(changed)
    assert not all(changed), "units whose draw does not change keep their version"


def test_a_changed_joined_table_changes_the_units_version(tables: Path) -> None:
    def version() -> str:
        joined: dict[str, Any] = {"images": str(tables / "images"), "texts": None, "records": None}
        (unit,) = open_sources(str(tables / "items"), fields=(), pictures=True, **joined).units()
        return unit.version

    before = version()
    again = open_run(
        TablePlan(
            str(tables / "images"), "images", {"by": "hand"}, [Unit("unit0", ()), Unit("unit1", ())], {}, {}, False
        ),
        resume=True,
        overwrite=False,
        retry=["missing"],
    )
    assert version() == before
    for task in again.todo:
        with UnitWriter(again.target, task) as writer:
            writer.counts.rows_in = 2
            rows = [picture_row("war"), picture_row("peace")]
            writer.write(pa.Table.from_pylist(rows, schema=table("images").schema()))
    assert version() != before


def test_values_that_are_not_allowed_are_refused(tables: Path) -> None:
    misses = []
    for job, arguments, message in (
        ("generate", "input=R/items prompt=explicit", "name its table with images="),
        ("generate", "input=R/images images=R/images", "allowed only for a table of items"),
        ("generate", "input=R/images prompt=rubric_json", "rubric="),
        ("generate", "input=R/images prompt=nothing", "prompt=nothing: "),
        ("generate", "input=R/images refusals=xx", "refusals=xx: "),
        ("generate", "input=R/images top_p=0", "top_p=0"),
        ("generate", "input=R/images samples=0", "samples=0: "),
        ("generate", "input=R/images empty_context=guess", "empty_context=guess: "),
        ("generate", "input=R/images prompt.order=[]", "prompt=explicit: order: at least one part is required"),
        (
            "generate",
            "input=R/images model.checkpoint=local:no-such",
            "model.checkpoint=local:no-such: no such local model",
        ),
        (
            "generate",
            "input=R/images model=local-text-tiny",
            "does not accept pictures, and prompt 'explicit' shows one",
        ),
        ("generate", "input=R/images model.checkpoint=local:siglip-tiny", "local:siglip-tiny: no model"),
        (
            "loglik",
            "input=R/images targets=[a] model=local-text-tiny",
            "does not accept pictures, and prompt 'relevant_to'",
        ),
        ("judge", "input=R/images method=reasoned rubric=cultural_relevance", "asks about targets; set targets="),
        ("judge", "input=R/images method=reasoned records=R/other", "no unit in common"),
        ("generate", "input=R/images show_prompts=1", "show_prompts=1: only used with plan=true"),
        ("loglik", "input=R/images targets=[a] show_prompts=1", "show_prompts=1: only used with plan=true"),
        ("generate", "input=R/images draw.n=0", "draw.n=0"),
        ("generate", "input=R/images draw.n=1 draw.by=page", "draw.by=page"),
        ("generate", "input=R/nothing", "nothing: no table here"),
        ("generate", "input=R/texts", "is a table 'texts', expected images (written by "),
        ("judge", "input=R/images method=reasoned layout=slow", "layout=slow: "),
        ("judge", "input=R/images method=reasoned max_tokens=0", "max_tokens=0"),
        ("loglik", "input=R/images", "targets="),
        ("loglik", "input=R/images targets=[a,a]", "duplicate label 'a'"),
        ("loglik", "input=R/images targets=[a] lambdas=[-1]", "lambda=-1"),
        ("loglik", "input=R/images targets=[a] prompt=explicit", "has no start"),
        ("loglik", "input=R/images targets=[a] reference=R/texts", "is a table 'texts', expected ratings"),
        ("parse", "input=R/images", "is a table 'images', expected responses"),
    ):
        overrides = [argument.replace("=R/", f"={tables}/") for argument in arguments.split()]
        model = ["model=local-tiny"] if job != "parse" and "model=" not in arguments else []
        try:
            cli.execute(job, [*overrides, f"out={tables / 'out'}", *model])
            misses.append((job, arguments, "accepted"))
        except InputError as error:
            if message not in str(error) or (tables / "out").exists():
                misses.append((job, arguments, str(error)))
    assert misses == []


def test_a_plan_writes_nothing(tables: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cli.execute("generate", [f"input={tables / 'images'}", f"out={tables / 'out'}", "model=local-tiny", "plan=true"])
    output = capsys.readouterr().out
    assert "9 texts (3 items x 3)" in output
    assert "licence Apache-2.0" in output
    assert "memory 2 GB per actor in float32 x 1 = 2 GB" in output
    keys = [f"input={tables / 'images'}", f"out={tables / 'out'}", "model=local-tiny", "plan=true", "limit=2"]
    cli.execute("generate", keys)
    cli.execute("loglik", [*keys, "targets=[a]"])
    output = capsys.readouterr().out
    assert "6 texts (2 items x 3)" in output
    assert " settings of the first 2 images" in output
    assert not (tables / "out").exists()


@pytest.mark.parametrize(
    ("job", "keys"),
    [("judge", []), ("judge", ["method=reasoned"]), ("generate", []), ("loglik", ["targets=[a]"])],
)
def test_a_plan_shows_the_tokens_of_pictures(
    tables: Path, capsys: pytest.CaptureFixture[str], job: str, keys: list[str]
) -> None:
    from actors.local_models import resolve

    def output(*overrides: str) -> str:
        cli.execute(job, [f"input={tables / 'shots'}", f"out={tables / 'out'}", "plan=true", *keys, *overrides])
        return capsys.readouterr().out

    shots = [picture_row(f"shot{n}") | {"width": 80 * n, "height": 60 * n} for n in range(1, 41)]
    write(tables / "shots", "images", {"u": [*shots, picture_row("none", ok=False)]})
    resolve("local:qwen2.5-vl-tiny")
    assert "pictures with max_pixels=1,003,520: about 52 tokens each, up to 54" in output("model=local-tiny")
    assert "max_pixels=20,000: about 20 tokens each, up to 24" in output("model=local-tiny", "model.max_pixels=20000")
    unbounded = output("model.checkpoint=some-one/not-here", "model.name=x", "model.max_pixels=null")
    assert "max_pixels=null: about 3,413 tokens each, up to 9,796" in unbounded
    bounded = output("model.checkpoint=some-one/not-here", "model.name=x")
    assert "about 987 tokens each, up to 1,279" in bounded
    write(tables / "unknown", "images", {"u": [picture_row("nosize")]})
    cli.execute(job, [f"input={tables / 'unknown'}", f"out={tables / 'out'}", "plan=true", "model=local-tiny", *keys])
    assert "pictures with max_pixels=1,003,520" in capsys.readouterr().out
    assert not (tables / "out").exists()


def rubric_and_rater(path: str, question: str = "sensitive") -> tuple[Any, ...]:
    """Return what a table of ratings keeps: the rubric's name, scale and question; the model, its dtype and licence."""
    source = open_table(path, "ratings")
    kept, (rater,) = read_kept(source), rating_tables.read_raters([source])
    assert kept is not None
    assert kept.sha256 == source.metadata[f"remine.{HASH}"]
    kept_question = kept.question(question)
    assert kept_question is not None
    return kept.name, kept_question.bounds, kept_question.name, rater["model"], rater["dtype"], rater["licence"]


def all_rows(path: str) -> list[dict[str, Any]]:
    return [row for batch in open_table(path).batches() for row in batch.to_pylist()]


def test_from_items_to_ratings(tables: Path, in_process: None, capsys: pytest.CaptureFixture[str]) -> None:
    """`generate` about items whose pictures are in other units, then `parse`; the counts add up."""
    out, ratings = str(tables / "responses"), str(tables / "ratings")
    command = [f"input={tables / 'items'}", f"images={tables / 'images'}", f"out={out}", "model=local-tiny"]
    command += ["prompt=rubric_json", "rubric=century_labels", "samples=2", "max_tokens=3", "temperature=0.7"]
    command += ["prompt.order=[introduction,context,pictures,questions,format]"]  # an item has two
    first: Any = cli.execute("generate", command)
    assert first["counts"]["status"] == {"truncated": 2, "missing_input": 6}
    output = capsys.readouterr().out
    assert "refusals  none in 2 texts" in output
    assert "2 pictures shown, 12 tokens each (max_pixels=1,003,520)" in output
    assert first["counts"]["tallies"]["pictures"] == {"shown": 2, "tokens": 24}
    rates = json.loads((Path(out) / "_run" / "refusals.json").read_text())
    assert {(rate["kind"], rate["count"], rate["n"]) for rate in rates if rate["kind"] == "any"} == {("any", 0, 2)}
    parsed: Any = cli.execute("parse", [f"input={out}", f"out={ratings}", "rubric=century_labels"])
    assert parsed["counts"]["status"] == {"truncated": 16, "missing_input": 48}
    assert {row["method"] for row in all_rows(ratings)} == {"json"}
    model = ("local:qwen2.5-vl-tiny", "float32", "Apache-2.0")
    assert rubric_and_rater(ratings) == ("century_labels", (1.0, 5.0), "sensitive", *model)
    with pytest.raises(InputError, match="written with another configuration: temperature"):
        cli.execute("generate", [*command, "temperature=0.8"])
    with pytest.raises(InputError, match=r"written with another configuration: model\.max_pixels"):
        cli.execute("generate", [*command, "model.max_pixels=90000"])


@pytest.mark.torture
@pytest.mark.timeout(900)  # six runs, each of which starts processes that load a model
def test_the_other_ways_to_rate(tables: Path, in_process: None, capsys: pytest.CaptureFixture[str]) -> None:
    """`generate` with a retry, `loglik` with a reference, `zero_shot` and `judge method=reasoned`."""
    common = [f"input={tables / 'images'}", "model=local-tiny"]
    command = [*common, f"out={tables / 'responses'}", "prompt=minimal", "samples=2", "max_tokens=3"]
    cli.execute("generate", command)
    before = all_rows(str(tables / "responses"))
    cli.execute("generate", [*command, "retry=[missing_input,truncated]"])
    assert {unit["generation"] for unit in unit_records(tables / "responses")} == {1}
    assert all_rows(str(tables / "responses")) == before
    people: list[dict[str, Any]] = [
        {
            **dict.fromkeys(("rubric", "question", "rater", "condition", "order"), "x"),
            **{"item_id": image(title), "target": target, "sample": 0, "method": "human"},
            **{"value": "1", "score": score, "status": "ok"},
        }
        for title, target, score in (("war", "Japan", 1.0), ("war", "Brazil", 4.0), ("truce", "Japan", 3.0))
    ]
    write(tables / "people", "ratings", {"p": people})
    loglik: Any = cli.execute(
        "loglik",
        [
            *common,
            f"records={tables / 'records'}",
            f"out={tables / 'loglik'}",
            "targets=[Japan,Brazil]",
            "lambdas=[0,1]",
            "thresholds=[-inf,-20]",
            f"reference={tables / 'people'}",
        ],
    )
    assert loglik["counts"]["status"] == {"ok": 16, "missing_input": 8}
    model = ("local:qwen2.5-vl-tiny", "float32", "Apache-2.0")
    assert rubric_and_rater(str(tables / "loglik"), "relevance") == ("relevant_to", None, "relevance", *model)
    assert "with the reference, 3 pairs" in capsys.readouterr().out
    sweep = json.loads((tables / "loglik" / "_run" / "sweep.json").read_text())
    assert {entry["setting"] for entry in sweep} == {
        f"lambda={weight},T={cap}" for weight in (0, 1) for cap in ("-inf", "-20")
    }
    zero_shot: Any = cli.execute(
        "zero_shot",
        [
            common[0],
            f"out={tables / 'zero_shot'}",
            "embedder=local-tiny",
            "embedder.dtype=float32",
            "targets=[Japan,Brazil]",
        ],
    )
    assert zero_shot["counts"]["status"] == {"ok": 4, "missing": 2}
    encoder = ("local:siglip-tiny", "float32", None)
    assert rubric_and_rater(str(tables / "zero_shot"), "relevance") == (
        "cultural_relevance",
        (1.0, 5.0),
        "relevance",
        *encoder,
    )
    command = [*common, f"out={tables / 'reasoned'}", "rubric=century_labels", "max_tokens=4", "method=reasoned"]
    reasoned: Any = cli.execute("judge", command)
    assert reasoned["counts"]["status"] == {"ok": 16, "missing_input": 8}
    with pytest.raises(InputError, match=r"written with another configuration: .*seed"):
        cli.execute("judge", [*command, "seed=1"])
    assert rubric_and_rater(str(tables / "reasoned")) == ("century_labels", (1.0, 5.0), "sensitive", *model)


def test_zero_shot_refuses_vectors_of_another_encoder(tmp_path: Path) -> None:
    row = {"item_id": "i", "kind": "image", "embedding": [0.5] * 4, "status": "ok"}
    vectors = write(tmp_path / "vectors", "embeddings", {"u": [row]}, encoder="another@1", preprocessing="p")
    with pytest.raises(InputError, match=r"vectors and embedder=local-tiny cannot be compared: .* another@1"):
        cli.execute("zero_shot", [f"input={vectors}", "embedder=local-tiny", "targets=[a]", f"out={tmp_path / 'out'}"])
    assert not (tmp_path / "out").exists()
