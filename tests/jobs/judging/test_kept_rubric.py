"""Ratings keep their rubric; reports read it from there only."""

import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml

from actors.rubrics.instructions import Instruction
from actors.rubrics.rubric import Rubric
from jobs.errors import InputError
from jobs.judging.kept_rubric import (
    HASH,
    KeptQuestion,
    KeptRubric,
    Rubrics,
    full_data,
    of_answers,
    of_levels,
    of_prompt,
    of_rubric,
    read_kept,
    read_rubrics,
)
from jobs.runtime.command_line import cli
from jobs.store.reading import open_table
from tests.factories import rating, write_file

pytestmark = pytest.mark.usefixtures("without_plots")
LABELS = ("not at all", "a little", "somewhat", "very", "extremely")


def rubric(name: str = "mine", **changes: Any) -> dict[str, Any]:
    """Return a rubric of one question, `eerie`, on a scale from 1 to 5."""
    answers = [{"value": str(n), "label": label, "score": n} for n, label in enumerate(LABELS, 1)]
    question = {"name": "eerie", "text": "How eerie is the scene?", "scale": "ordinal", "answers": answers}
    parts = {"introduction": "Look.", "scale": "{{ options }}", "question": "{{ question }}"}
    layout = ["introduction", "picture", "scale", "question"]
    content = {"name": name, "version": 1, "source": "a test", "parts": parts, "layouts": {"fast": layout}}
    return content | {"layout": "fast", "questions": [question]} | changes


def import_ratings(folder: Path, values: list[int], *keys: str, rater: str = "p", out: str = "people") -> str:
    """Import ratings of three people from a CSV file and return the table's path."""
    file = folder / f"{out}.csv"
    with file.open("w", newline="") as text:
        rows = csv.writer(text)
        rows.writerow(["item_id", "rater", "value"])
        rows.writerows((f"i{n // 3}", f"{rater}{n % 3}", value) for n, value in enumerate(values))
    cli.execute("import_ratings", [f"input={file}", "question=eerie", *keys, f"out={folder}/{out}"])
    return f"{folder}/{out}"


def metrics(folder: Path, tables: list[str], *keys: str) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of a report's metrics by metric, with dims as dictionaries."""
    cli.execute("report", [f"ratings=[{','.join(tables)}]", *keys, f"out={folder}/report"])
    by_metric: dict[str, list[dict[str, Any]]] = {}
    for row in pa.concat_tables(open_table(f"{folder}/report/metrics", "metrics").batches()).to_pylist():
        by_metric.setdefault(row["metric"], []).append(row | {"dims": json.loads(row["dims"])})
    return by_metric


def test_the_scale_is_that_of_the_users_rubric(tmp_path: Path) -> None:
    """36 ratings of 12 items from 2 to 5: four items whose mean is 2, which is not the lowest of 1 to 5."""
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(rubric()))
    values = [value for n in range(12) for value in [2 + n % 3 + (n % 3 == 2)] * 3]
    table = import_ratings(tmp_path, values, f"rubric={tmp_path}/mine.yaml")
    (share,) = metrics(tmp_path, [table])["share_lowest"]
    assert (share["value"], share["n"], share["status"]) == (0.0, 12, "ok")


def test_the_kept_file_and_the_tables_metadata(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(rubric()))
    table = open_table(import_ratings(tmp_path, [2, 3, 4], f"rubric={tmp_path}/mine.yaml"))
    content = json.loads((tmp_path / "people" / "_run" / "rubric.json").read_text())
    assert content["data"] == rubric()
    assert [(a["value"], a["score"]) for a in content["questions"][0]["answers"]][::4] == [("1", 1.0), ("5", 5.0)]
    manifest = json.loads((tmp_path / "people" / "_run" / "manifest.json").read_text())
    kept = read_kept(table)
    assert kept is not None
    assert {kept.sha256} == {content["sha256"], table.metadata["remine.rubric_sha256"], manifest["metadata"][HASH]}
    assert kept.question("eerie").bounds == (1.0, 5.0)  # type: ignore[union-attr]


def test_the_page_has_the_words_of_the_users_question(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(rubric()))
    table = import_ratings(tmp_path, [2, 3, 4], f"rubric={tmp_path}/mine.yaml")
    (tmp_path / "mine.yaml").unlink()
    metrics(tmp_path, [table])
    page = (tmp_path / "report" / "index.html").read_text(encoding="utf-8")
    for words in ("How eerie is the scene?", "not at all", "extremely"):
        assert words in page


def test_answers_without_a_rubric_have_a_scale(tmp_path: Path) -> None:
    table = import_ratings(tmp_path, [2] * 3 + [5] * 3, "answers=[1,2,3,4,5]")
    by_metric = metrics(tmp_path, [table])
    assert [row["value"] for row in by_metric["share_lowest"]] == [0.0]
    assert {
        row["dims"]["threshold"]: row["value"] for row in by_metric["share_at_least"] if row["dims"]["rule"] == "mean"
    } == {
        "3": 0.5,
        "4": 0.5,
    }


def test_the_hash_depends_only_on_what_ratings_mean() -> None:
    question = rubric()["questions"][0]
    same: list[dict[str, Any]] = [
        {"version": 2, "source": "another"},
        {"parts": rubric()["parts"] | {"introduction": "Look closely."}},
        {"people": {"questions": {"eerie": {"options": [{"label": "no", "value": "1"}]}}}},
    ]
    different: list[dict[str, Any]] = [
        {"name": "other"},
        {"questions": [question | {"text": "How strange?"}]},
        {"questions": [question | {"note": "Think of fog."}]},
        {"questions": [question | {"answers": question["answers"][:4]}]},
    ]

    def sha256(data: dict[str, Any]) -> str:
        return of_rubric(Rubric.from_dict(data), data).sha256

    assert [changes for changes in same if sha256(rubric() | changes) != sha256(rubric())] == []
    assert [changes for changes in different if sha256(rubric() | changes) == sha256(rubric())] == []


def test_two_rubrics_of_one_name_are_refused_by_both_tables(tmp_path: Path) -> None:
    question = rubric()["questions"][0]
    other = rubric(questions=[question | {"answers": question["answers"][1:]}])
    tables = []
    for number, data in enumerate((rubric(), other)):
        (tmp_path / "mine.yaml").write_text(yaml.safe_dump(data))
        key = f"rubric={tmp_path}/mine.yaml"
        tables.append(import_ratings(tmp_path, [2, 3, 4], key, rater=f"p{number}", out=f"people{number}"))
    with pytest.raises(InputError, match="'mine'") as refused:
        metrics(tmp_path, tables)
    assert all(table in str(refused.value) for table in tables)
    assert not (tmp_path / "report").exists()


def test_people_and_models_with_one_rubric_are_reported_together(tmp_path: Path) -> None:
    """A model's table also keeps the prompts; the hashes are equal."""
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(rubric()))
    people = import_ratings(tmp_path, [2, 3, 4], f"rubric={tmp_path}/mine.yaml")
    kept = of_rubric(Rubric.from_dict(rubric(parts=rubric()["parts"] | {"introduction": "Look!"})), {})
    rows = [rating(f"i{n}", "m@1", "eerie", "3", rubric="mine") for n in range(3)]
    model = write_file(tmp_path / "model", "ratings", rows, rubric=kept)
    assert {row["status"] for row in metrics(tmp_path, [people, model])["share_lowest"]} == {"ok"}


def test_encoders_and_likelihoods_share_a_rubric_with_people(tmp_path: Path) -> None:
    """The rubric has the scale and the words; likelihoods are correlated with people and are in no group."""
    kept = of_rubric(Rubric.from_dict(rubric()), {})
    levels = [(str(n), f"{label} eerie", float(n)) for n, label in enumerate(LABELS, 1)]
    template = of_levels("mine", "eerie", "This picture is …", levels, {})
    prompt = KeptRubric("prompt", "mine", (KeptQuestion("eerie", "An eerie picture:", "", "continuous", ()),))

    def table(name: str, kept: KeptRubric, rater: str, **columns: Any) -> str:
        rows = [rating(f"i{n}", rater, "eerie", str(1 + n % 5), rubric="mine", **columns) for n in range(10)]
        if columns.get("method") == "loglik":
            rows = [row | {"value": "", "score": row["score"] - 9.5} for row in rows]
        return write_file(tmp_path / name, "ratings", rows, rubric=kept)

    likelihoods = {"method": "loglik"}
    tables = [table("l", prompt, "m@1", condition="lambda=0", **likelihoods), table("z", template, "siglip"),
              table("p", kept, "p1"), table("j", kept, "m@1")]  # fmt: skip
    by_metric = metrics(tmp_path, tables)
    assert {row["status"] for row in by_metric["share_lowest"]} == {"ok"}
    by_key = {
        (row["dims"]["rater"], row["dims"]["condition"]): row["value"] for row in by_metric["pearson_with_people"]
    }
    assert by_key == pytest.approx({("m@1", "lambda=0"): 1, ("siglip", ""): 1, ("m@1", ""): 1})
    groups = {row["dims"]["group"] for row in by_metric["group_mean_score"] if row["dims"]["condition"] == "lambda=0"}
    assert groups == {"people"}
    assert {row["dims"]["condition"] for row in by_metric["deviation_share"]} == {""}

    with pytest.raises(InputError, match=r"mine/eerie by loglik and by closed under the condition ''"):
        metrics(tmp_path, [table("l2", prompt, "m@1", **likelihoods), *tables[1:]])
    other = of_levels("mine", "eerie", "This picture is …", levels[:4], {})
    with pytest.raises(InputError, match="'mine'"):
        metrics(tmp_path, [tables[2], table("z2", other, "clip")])


def test_a_changed_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(rubric()))
    table = import_ratings(tmp_path, [2, 3, 4], f"rubric={tmp_path}/mine.yaml")
    file = tmp_path / "people" / "_run" / "rubric.json"
    for text in (file.read_text().replace('"score": 1.0', '"score": 0.0'), "[]", '{"questions": 3}'):
        file.write_text(text)
        with pytest.raises(InputError, match=str(file)):
            metrics(tmp_path, [table])


def test_without_a_rubric_metrics_that_need_the_scale_are_undefined(tmp_path: Path) -> None:
    """Means and agreement are defined; shares, thresholds, bins and inverted questions are not."""
    rows = [rating(f"i{n}", p, q, str(2 + (n + k) % 4)) for n in range(12) for k, p in enumerate(("p1", "p2", "m@1"))
            for q in ("eerie", "factual_errors")]  # fmt: skip
    items = [{"item_id": f"i{n}", "kind": "image", "attributes": [("region", "EW"[n % 2])]} for n in range(12)]
    keys = [f"items=[{write_file(tmp_path / 'items', 'items', items)}]", "metrics.disaggregate=[region]"]
    keys += ["metrics.contrast=['region:E-W']", "metrics.crowdtruth=true"]
    by_metric = metrics(tmp_path, [write_file(tmp_path / "R", "ratings", rows)], *keys)
    for metric in ("share_lowest", "share_at_least", "share_difference", "average_of_shares", "unit_quality_mean"):
        assert by_metric[metric], metric
        for row in by_metric[metric]:
            assert (row["value"], row["status"]) == (None, "skipped"), row
            assert "scale is not known" in row["reason"], row
    assert "unit_quality" not in by_metric
    means = {(row["dims"]["question"], row["status"]) for row in by_metric["group_mean_score"]}
    assert means == {("eerie", "ok"), ("factual_errors", "skipped")}
    assert {row["status"] for row in by_metric["percent_agreement"]} == {
        "ok",
        "skipped",
    }  # one model agrees with nobody
    page = (tmp_path / "report" / "index.html").read_text(encoding="utf-8")
    assert page.count("keeps no rubric") == 1


def test_a_file_declares_its_scale(tmp_path: Path) -> None:
    file = tmp_path / "r.csv"
    file.write_text("image,who,score\n" + "".join(f"i{n},p{k},{2 + n % 3}\n" for n in range(9) for k in range(2)))
    command = [f"input={file}", "columns.item=image", "columns.rater=who", "columns.value=score"]
    shares = {}
    for scale in ("", "[1,5]", "[2,4]"):
        out = tmp_path / f"F{scale}"
        cli.execute("report", [*command, *([f"scale={scale}"] if scale else []), f"out={out}"])
        rows = pa.concat_tables(open_table(f"{out}/metrics", "metrics").batches()).to_pylist()
        (shares[scale],) = [row["value"] for row in rows if row["metric"] == "share_lowest"]
    assert shares == {"": None, "[1,5]": 0.0, "[2,4]": 3 / 9}
    for wrong in ("[1,3]", "[5,1]", "[1]", "[1,2,3]"):
        with pytest.raises(InputError, match="scale="):
            cli.execute("report", [*command, f"scale={wrong}", f"out={tmp_path}/F"])


def test_verify_finds_a_missing_or_changed_rubric(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(rubric()))
    table = import_ratings(tmp_path, [2, 3, 4], f"rubric={tmp_path}/mine.yaml")
    assert cli.main("verify", [f"input={table}"]) == 0
    file = tmp_path / "people" / "_run" / "rubric.json"
    file.write_text(file.read_text().replace('"score": 1.0', '"score": 0.0'))
    assert cli.main("verify", [f"input={table}"]) == 1
    file.unlink()
    assert cli.main("verify", [f"input={table}"]) == 1
    assert capsys.readouterr().err.count("fault: ") == 2


def test_only_overwriting_the_table_replaces_the_file(tmp_path: Path) -> None:
    """Rerunning the command keeps it; another rubric is another configuration; overwrite=true replaces it."""
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(rubric()))
    import_ratings(tmp_path, [2, 3, 4], f"rubric={tmp_path}/mine.yaml")
    file = tmp_path / "people" / "_run" / "rubric.json"
    first = file.read_bytes()
    import_ratings(tmp_path, [2, 3, 5], f"rubric={tmp_path}/mine.yaml")
    assert file.read_bytes() == first
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(rubric(source="another test")))
    with pytest.raises(InputError, match="rubric"):
        import_ratings(tmp_path, [2, 3, 5], f"rubric={tmp_path}/mine.yaml")
    assert file.read_bytes() == first
    import_ratings(tmp_path, [2, 3, 5], f"rubric={tmp_path}/mine.yaml", "overwrite=true")
    assert json.loads(file.read_text())["data"]["source"] == "another test"


def test_the_bounds_of_a_question_or_why_there_are_none() -> None:
    kinds = rubric()["questions"][0] | {"name": "kind", "scale": "nominal"}
    kinds |= {"answers": [{"value": "a", "label": "a"}, {"value": "b", "label": "b"}]}
    prompt = KeptRubric("prompt", "p", (KeptQuestion("eerie", "An eerie picture:", "", "continuous", ()),))
    two = Rubric.from_dict(rubric(questions=[*rubric()["questions"], kinds]))
    kept = [of_rubric(two, {}), prompt, of_answers("numbers", ["2", "1", "3"], ordinal=True),
            of_answers("words", ["a", "b"], ordinal=False)]  # fmt: skip
    rubrics = Rubrics({one.name: one for one in kept})
    assert [rubrics.scale(*names)[0] for names in (("mine", "eerie"), ("numbers", "any"), ("numbers", "other"))] == [
        (1.0, 5.0), (1.0, 3.0), (1.0, 3.0)
    ]  # fmt: skip
    reasons = {
        ("none", "eerie"): "no table of ratings keeps its rubric 'none'",
        ("mine", "other"): "rubric 'mine' has no question 'other'",
        ("p", "eerie"): "unbounded",
        ("mine", "kind"): "in rubric 'mine' the answers to 'kind' have no scores",
        ("words", "any"): "in rubric 'words' the answers to 'any' have no scores",
    }
    for (name, question), reason in reasons.items():
        bounds, why = rubrics.scale(name, question)
        assert (bounds, reason in why) == (None, True), why


def test_a_prompt_keeps_its_parts_in_order_before_the_start_of_the_answer() -> None:
    data = {"name": "p", "version": 1, "source": "a test", "start": "It is", "order": ["picture", "b", "a"],
            "parts": {"a": "First.\n", "b": " Second.", "unused": "Third."}}  # fmt: skip
    kept = of_prompt(Instruction.from_dict(data), "relevance", data)
    assert kept == KeptRubric(
        "prompt", "p", (KeptQuestion("relevance", "Second.\n\nFirst.\n\nIt is", "", "continuous", ()),), data
    )
    assert full_data(kept) == data


def test_a_short_rubric_is_shown_with_the_parts_that_it_leaves_out() -> None:
    short = {"name": "mood", "questions": [{"name": "shown", "text": "Joy?", "answers": ["yes", "no"]}]}
    parts = full_data(of_rubric(Rubric.from_dict(short), short))["parts"]
    assert parts["question"].startswith("Question: {{ question }}")
    assert full_data(of_answers("numbers", ["1"], ordinal=True)) == {}
    assert full_data(KeptRubric("rubric", "people", (), {"name": "people"})) == {"name": "people"}


def test_a_table_without_the_hash_has_the_rubric_of_its_file(tmp_path: Path) -> None:
    kept = of_rubric(Rubric.from_dict(rubric()), rubric())
    source = open_table(write_file(tmp_path / "R", "ratings", [rating("i", "m@1", "eerie", "3")], rubric=kept))
    bare = replace(source, metadata={})
    assert read_kept(bare) == read_kept(source) == kept
    assert read_rubrics([bare]).by_name == {"mine": kept}


def test_the_order_of_questions_does_not_change_the_hash() -> None:
    questions = [KeptQuestion(name, "?", "", "nominal", ()) for name in "ab"]
    turned = [KeptRubric("rubric", "r", tuple(part)) for part in (questions, questions[::-1])]
    assert turned[0].sha256 == turned[1].sha256
    assert turned[0].sha256 == "02c0680d668aea3c0867ba10afe05dde1e899be7d5f648e72f57e9b61e692caa", (
        "tables of earlier versions are compared with it"
    )


def test_a_rubric_counts_before_a_template_and_a_prompt_whatever_the_order_of_tables(tmp_path: Path) -> None:
    kept = of_rubric(Rubric.from_dict(rubric()), {})
    template = of_levels("mine", "eerie", "It is …", [(str(n), f"{n}", float(n)) for n in range(1, 6)], {})
    prompt = KeptRubric("prompt", "mine", (KeptQuestion("eerie", "An eerie picture:", "", "continuous", ()),))
    elsewhere = KeptRubric("prompt", "mine", (KeptQuestion("gloom", "A picture:", "", "continuous", ()),))
    rows = [rating("i", "m@1", "eerie", "3", rubric="mine")]
    tables = {
        name: open_table(write_file(tmp_path / name, "ratings", rows, rubric=one))
        for name, one in (("r", kept), ("t", template), ("p", prompt), ("e", elsewhere))
    }
    bare = open_table(write_file(tmp_path / "bare", "ratings", rows))
    for order in ("ptr", "rtp", "tp"):
        rubrics = read_rubrics([bare, *(tables[name] for name in order)])
        assert rubrics.by_name["mine"].kind == ("rubric" if "r" in order else "zero_shot_template"), order
        assert rubrics.without == (bare.uri,)
    for order in ("re", "te", "pe"):
        with pytest.raises(InputError, match="different rubrics called 'mine'"):
            read_rubrics([tables[name] for name in order])
    (tmp_path / "r" / "_run" / "rubric.json").write_text(
        (tmp_path / "r" / "_run" / "rubric.json").read_text().replace("ordinal", "other")
    )
    with pytest.raises(InputError, match=r"rubric\.json: damaged.*scale 'other'"):
        read_kept(tables["r"])
