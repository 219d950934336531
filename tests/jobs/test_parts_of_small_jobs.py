"""Parts of jobs that the driver does alone, on rows written by hand: what is read, kept, and left out."""

import csv
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from actors.ids import content_id
from jobs import annotate, choose, prompts, tric_items
from jobs.annotation.shown_items import ShownTables
from jobs.annotation.study import AnnotateConfig
from jobs.corpora.tric import read_split
from jobs.errors import InputError
from jobs.judging import rating_tables
from jobs.page.picture_sheets import COLUMNS
from jobs.runtime.command_line import cli
from jobs.runtime.selection.draws import CompleteDrawConfig
from jobs.store.files.objects import Object
from jobs.store.reading import open_table
from jobs.tables import TABLES
from tests.cases import check_cases
from tests.factories import picture, rating, rows_of, write_csv, write_table, write_units
from tests.jobs.small_jobs import response

Printed = pytest.CaptureFixture[str]


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


def test_pictures_are_items_or_belong_to_items(tmp_path: Path, capsys: Printed) -> None:
    rows = [picture(number) for number in range(3)]
    names = [row["image_id"] for row in rows]
    images = write_units(tmp_path / "images", "images", [rows[:1], rows[1:]])
    items = write_table(tmp_path / "items", "items", [{"item_id": "i", "image_ids": names[:1]}])

    def sources(**keys: Any) -> ShownTables:
        return annotate._sources(AnnotateConfig(raters="r", out="/T", **keys))

    of_images, of_items = sources(input=images, limit=2), sources(input=items, images=images)
    assert (of_images.main.rows, of_images.images and of_images.images.rows) == (2, 3)
    assert (of_items.main.name, of_items.images and of_items.images.uri) == ("items", images)
    assert sources(input=items).images is None
    with pytest.raises(InputError, match=r"^input=None: no table there"):
        sources(input=None)
    folder = tmp_path / "pictures"
    annotate._write_pictures(of_images, [{"image_ids": names[1:]}, {"image_ids": names[1:2]}], str(folder))
    assert {path.stem for path in folder.iterdir()} == set(names[1:])
    assert capsys.readouterr().out == f"  2 pictures in {folder}\n"
    annotate._write_pictures(sources(input=items), [{"image_ids": names}], "F")
    assert capsys.readouterr().out == "  0 pictures in F\n"


def test_names_of_earlier_samples_and_lines_come_first(tmp_path: Path) -> None:
    nodes = [{"node_id": f"n{n}", "lemmas": [("en", [name])]} for n, name in enumerate(("egg", "drum", "old drum"))]
    write_table(tmp_path / "kb" / "nodes", "nodes", nodes)
    texts = [response("a", "an old drum", 1), response("a", "egg\ndrum", 0), response("b", "", 0)]
    write_table(tmp_path / "names", "responses", [*texts, response("c", "drum") | {"status": "error"}])
    keys = [f"responses={tmp_path}/names", f"kb.path={tmp_path}/kb"]

    def linked(*more: str) -> list[tuple[str, int, str]]:
        out = tmp_path / "-".join(more).replace("=", "") / "out"
        manifest: Any = cli.execute("link_names", [*keys, *more, f"out={out}"])
        assert manifest["counts"]["filtered"] == {"no response": 2}
        assert open_table(str(out)).metadata["remine.method"] == "named"
        return [(row["image_id"], row["rank"], row["node_id"]) for row in rows_of(str(out))]

    assert linked("k=9") == [("a", 1, "n0"), ("a", 2, "n1"), ("a", 3, "n2")]
    assert linked("k=2") == [("a", 1, "n0"), ("a", 2, "n1")]
    assert linked("names=1") == [("a", 1, "n0"), ("a", 2, "n2")]
    assert linked("names=1", "longest=1") == [("a", 1, "n0"), ("a", 2, "n1")]
    with pytest.raises(InputError, match="names=0: must be at least 1"):
        cli.execute("link_names", [*keys, "names=0", f"out={tmp_path}/never"])


def test_values_of_an_axis_are_texts_without_blanks(tmp_path: Path) -> None:
    (tmp_path / "a.TXT").write_text("  tea \n\n rice\n", encoding="utf-8-sig")
    assert prompts._values("a", f"{tmp_path}/a.TXT") == ["tea", "rice"]
    assert prompts._values("a", [1, 2.5, " x ", ""]) == ["1", "2.5", "x"]
    with pytest.raises(InputError, match=r"^axes\.a: duplicate 'x'"):
        prompts._values("a", ["x ", " x"])
    with pytest.raises(InputError, match=r"^axes\.a=\[' '\]: has no values"):
        prompts._values("a", [" "])


def test_rows_of_prompts_vary_their_last_axis_fastest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompts, "MAX_PROMPTS", 4)
    rows = prompts.prompts("{b}: {a} {b}", {"a": ["x", "ä"], "b": ["1", "2"]}, "de")
    assert [row["text"] for row in rows] == ["1: x 1", "2: x 2", "1: ä 1", "2: ä 2"]
    assert rows[2] == {
        "text_id": content_id("prompt", "de", "1: ä 1"), "role": "prompt", "language": "de", "date": None,
        "source": '{"a":"ä","b":"1"}', "revision": None, "text": "1: ä 1",
    }  # fmt: skip
    cfg = prompts.PromptsConfig(template="{a} {b}", axes={"b": ["1"]}, default_axes={"a": ["x"], "b": ["2"], "c": []})
    assert prompts._axes(cfg) == {"a": ["x"], "b": ["1"]}


def test_scores_keep_the_rater_and_need_an_answer_about_a_set(tmp_path: Path) -> None:
    questions = [{"set_id": "s", "question_id": "1", "text": "Is it?", "valid": True}]
    table = write_table(tmp_path / "questions", "questions", questions)

    def scores(name: str, *targets: str) -> str:
        rows = [rating(f"i{n}", "m", "1", "yes", rubric="dsg", target=name) for n, name in enumerate(targets)]
        answers = write_units(tmp_path / name, "ratings", [rows[:1], rows[1:]], rater="m@1")
        kept = pa.Table.from_pylist([{"rater": "m", "kind": "model"}], schema=TABLES["raters"].schema())
        pq.write_table(kept, f"{answers}/_run/raters.parquet")
        cli.execute("question_scores", [f"input={answers}", f"questions={table}", f"out={tmp_path}/scores-{name}"])
        return f"{tmp_path}/scores-{name}"

    late = open_table(scores("late", "other", "s"))
    assert late.metadata["remine.rater"] == "m@1"
    assert [(row["rater"], row["kind"]) for row in rating_tables.read_raters([late])] == [("m", "model")]
    for targets in (("other", ""), ("", "other"), ("other",)):
        with pytest.raises(InputError, match="no rating of rubric 'dsg' is about a set"):
            scores("none", *targets)


def test_choices_of_spreadsheet_programs_become_items(tmp_path: Path, capsys: Printed) -> None:
    """Blank entries are none; a picture may be excluded by its URL; a prompt that is a formula has no mark."""
    cells = [("q1", "'=tea", "a", "u/a", "x"), ("q1", "'=tea", "b", "u/b", " "), ("q2", "Thé", "c", "https://u/c", "1")]
    rows = [[query, prompt, "", "1", item, "0.5", url, mark] for query, prompt, item, url, mark in cells]
    (tmp_path / "c.csv").write_bytes(Path(write_csv(tmp_path / "u.csv", COLUMNS, rows)).read_text().encode("cp1252"))
    (tmp_path / "list.txt").write_text("https://u/c\n")
    keys = [f"chosen={tmp_path}/c.csv", "encoding=cp1252"]
    assert cli.main("choose", [*keys, f"out={tmp_path}/both"]) == 0
    assert capsys.readouterr().out == f"choose: {tmp_path}/both\n  2 items of 2 prompts\n"
    attributes = [dict(row["attributes"]) for row in rows_of(f"{tmp_path}/both")]
    assert attributes == [{"prompt": "=tea"}, {"prompt": "Thé"}]
    assert cli.main("choose", [*keys, f"exclusions={tmp_path}/list.txt", f"out={tmp_path}/first"]) == 0
    printed = capsys.readouterr().out
    assert "  1 item of 2 prompts\n  0 prompts with more than one, 1 with none\n" in printed
    assert "1 of 1 entries match a picture here" in printed
    assert [row["image_ids"] for row in rows_of(f"{tmp_path}/first")] == [["a"]]


def test_a_sheet_has_the_addresses_of_its_pictures_and_their_number(
    tmp_path: Path, capsys: Printed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(choose, "MAX_ROWS", 3)  # as many as there are
    images = [picture(1), picture(2)]
    near = [{"query_id": "q", "rank": n, "item_id": name, "score": 0.5}
            for n, name in enumerate(("gone", images[0]["image_id"], images[1]["image_id"]), 1)]  # fmt: skip
    write_table(tmp_path / "near", "neighbors", near)
    write_table(tmp_path / "prompts", "texts", [{"text_id": "q", "role": "prompt", "text": "t"}])
    write_table(tmp_path / "images", "images", images)
    keys = [f"{name}={tmp_path}/{name}" for name in ("prompts", "images")]
    (tmp_path / "list.txt").write_text(f"{images[1]['image_id']}\n")
    listed = f"exclusions={tmp_path}/list.txt"
    assert cli.main("choose", [*keys, f"neighbors={tmp_path}/near", listed, f"out={tmp_path}/out"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("choose: 2 rows for 1 prompt\n")
    assert f"  {tmp_path}/out/choose.csv: put an x into " in printed
    assert "the same rows with 1 picture\n" in printed
    assert "1 of 1 entries match a picture here" in printed
    with (tmp_path / "out" / "choose.csv").open(encoding="utf-8-sig", newline="") as file:
        assert [row["url"] for row in csv.DictReader(file)] == ["", images[0]["source_url"]]


def test_candidates_that_the_corpus_lacks_are_explained(tmp_path: Path, capsys: Printed) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    corpus = pa.table({"uid": ["u1", "u2"], "url": ["https://x/1.jpg", "https://x/1.jpg"], "text": ["a", "b"]})
    pq.write_table(corpus, tmp_path / "c.parquet")

    def candidates(name: str, *items: str, **keys: Any) -> tuple[dict[str, Any], str]:
        near = [{"query_id": f"q{n}", "rank": 1, "item_id": item, "score": 0.5} for n, item in enumerate(items)]
        write_table(tmp_path / name, "neighbors", near)
        more = [f"{key}={value}" for key, value in keys.items()]
        place = [f"neighbors={tmp_path}/{name}", f"corpus.path={tmp_path}/c.parquet", f"out={tmp_path}/out-{name}"]
        return cli.execute("candidates", [*place, *more]), capsys.readouterr().out  # type: ignore[return-value]

    _, printed = candidates("some", "u1", "u2", "u3")
    assert "  3 neighbors = 2 kept + 1 not_in_corpus\n  1 distinct pictures\n" in printed
    assert "does not have all pictures of the search" in printed
    manifests, printed = candidates("all", "u1", limit=3)
    assert "  1 neighbors = 1 kept\n  1 distinct pictures\n  limit=3: the first 1 queries;" in printed
    assert "does not have all pictures" not in printed
    assert [manifest["limit"]["rows"] for manifest in manifests.values()] == [1, 1]
    manifests, printed = candidates("none")
    assert "  0 neighbors = 0 kept\n" in printed
    with pytest.raises(InputError, match=r"has none of the 1 pictures of .*such as u3; name the files"):
        candidates("other", "u3")


def test_items_of_a_split_have_its_best_captions_once(tmp_path: Path) -> None:
    (tmp_path / "in.tsv").write_text("a.png\t1899-07-13\nb.png\t1900-01-01\n")
    (tmp_path / "captions.tsv").write_text("1\tA\n2\tA\n3\tB\n4\tC\n")
    split = read_split(str(tmp_path))
    rows = tric_items.items(split, {1: ["4", "3"], 0: ["1", "2", "3", "4"]}, k=3, dates="none")
    assert [(row["item_id"], row["targets"], row["gold"], row["attributes"]) for row in rows] == [
        (content_id("a.png"), ["A", "B"], None, [("decade", "1890s")]),
        (content_id("b.png"), ["C", "B"], None, [("decade", "1900s")]),
    ]
    (tmp_path / "expected.tsv").write_text("2\n1\n")
    rows = tric_items.items(read_split(str(tmp_path)), {0: ["3", "1"], 1: ["3"]}, k=2, dates="year")
    assert [row["gold"] for row in rows] == [["A"], None]
    assert dict(rows[0]["attributes"]) == {"decade": "1890s", "date": "1899"}
    check_cases(lambda k, message: _refused(tmp_path, k, message), [(0, "k=0: "), (101, "k=101: must be 1 to 100")])


def _refused(folder: Path, k: int, message: str) -> None:
    cfg = tric_items.TricItemsConfig(split=str(folder), neighbors="n", captions="c", out="o", k=k)
    with pytest.raises(InputError, match=f"^{message}"):
        tric_items.execute(cfg)
