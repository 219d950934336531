"""`python -m jobs.figures` on files of strangers: the released ones, odd ones, wrong ones."""

import csv
import json
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs import cli
from jobs.errors import InputError
from jobs.store.reading import open_table


def figures_in(folder):
    rows = pa.concat_tables(open_table(f"{folder}/metrics", "metrics").batches()).to_pylist()
    return {(r["metric"], *sorted(json.loads(r["dims"]).values())): r for r in rows}


def write(path, lines):
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


RATINGS = [
    "image,who,score",
    *(f"{i:03},{who},{1 + (i + len(who)) % 5}" for i in range(12) for who in ("al", "bea", "c")),
]


def test_agreement_of_a_csv(tmp_path, capsys):
    file = write(tmp_path / "it, é.csv", [*RATINGS, "012,al,"])
    columns = ["columns.item=image", "columns.rater=who", "columns.value=score"]
    cli.execute("figures", [f"input={file}", *columns, f"out={tmp_path}/F"])
    found = figures_in(tmp_path / "F")
    alpha = found["alpha", "file", "ordinal", "people", "value"]
    assert alpha["n"] == 12
    assert alpha["coverage"] == 36 / 37
    assert found["ratings_excluded", "file", "value"]["value"] == 1
    assert "alpha" in capsys.readouterr().out
    with (tmp_path / "F" / "figures.csv").open(encoding="utf-8", newline="") as made:
        told = [r for r in csv.DictReader(made) if r["metric"] == "alpha" and r["level"] == "ordinal"]
    assert float(told[0]["value"]) == pytest.approx(alpha["value"])
    page = (tmp_path / "F" / "index.html").read_text(encoding="utf-8")
    assert "Krippendorff’s α · ordinal" in page


def test_words_are_categories_and_parquet_and_tsv_are_read(tmp_path):
    words = [("a", "x", "cat"), ("a", "y", "cat"), ("b", "x", "dog"), ("b", "y", "unsure")]
    write(tmp_path / "w.tsv", ["i\tr\tv", *("\t".join(w) for w in words)])
    write(tmp_path / "w.csv", ["i;r;v", *(";".join(w) for w in words)])
    pq.write_table(pa.table({k: [w[p] for w in words] for p, k in enumerate("irv")}), tmp_path / "w.parquet")
    results = []
    for name in ("w.tsv", "w.csv", "w.parquet"):
        columns = ["columns.item=i", "columns.rater=r", "columns.value=v"]
        cli.execute("figures", [f"input={tmp_path}/{name}", *columns, f"out={tmp_path}/{name}-F"])
        results.append({k: r["value"] for k, r in figures_in(tmp_path / f"{name}-F").items()})
    assert results[0] == results[1] == results[2]
    assert results[0]["percent_agreement", "file", "people", "value"] == 1 / 2
    assert results[0]["majority_share", "(no majority)", "file", "people", "value"] == 1 / 2


def test_crowdtruth_of_the_released_file(data, tmp_path):
    folder = data / "crowdtruth"
    cli.execute(
        "figures",
        ["task=crowdtruth", f"input={folder}/relex-binary-choice.csv", "columns.value=top_member_employee",
         f"out={tmp_path}/F"],
    )  # fmt: skip
    found = figures_in(tmp_path / "F")
    with (folder / "binary-relex-units.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            assert found["unit_quality", row["unit"]]["value"] == pytest.approx(float(row["uqs"]), abs=1e-6)
    with (folder / "binary-relex-workers.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            assert found["worker_quality", row["worker"]]["value"] == pytest.approx(float(row["wqs"]), abs=1e-6)


def test_crowdtruth_with_several_annotations_a_cell(tmp_path, capsys):
    lines = ["unit,worker,tags", "1,a,red|blue", "1,b,red", "2,a,blue", "2,b,blue", "3,a,red", "4,b,", "2,b,blue"]
    file = write(tmp_path / "t.csv", lines)
    keys = ["columns.item=unit", "columns.rater=worker", "columns.value=tags", "separator=|"]
    cli.execute("figures", ["task=crowdtruth", f"input={file}", *keys, f"out={tmp_path}/F"])
    found = figures_in(tmp_path / "F")
    assert found["unit_quality", "2"]["value"] == pytest.approx(1)
    # unit 1 would be 1 / sqrt(2) with equal annotations; blue is picked apart, so red weighs more
    assert 0.7 < found["unit_quality", "1"]["value"] < 1
    assert ("unit_quality", "3") not in found
    assert "2 of 7 judgements are empty or given again" in capsys.readouterr().out
    assert found["unit_quality_mean",]["coverage"] == 4 / 7


def test_scene_graphs_of_the_released_files(data, tmp_path):
    folder = data / "dsg"
    files = [f"input={folder}/mplug_dsg.csv", f"people={folder}/tifa160-likert-anns.csv"]
    cli.execute("figures", ["task=dsg", *files, f"out={tmp_path}/F"])
    found = figures_in(tmp_path / "F")
    published = {"with": (0.463, 0.380), "without": (0.464, 0.378)}
    for reading, (spearman, kendall) in published.items():
        for metric, value in (("dsg_spearman", spearman), ("dsg_kendall", kendall)):
            row = found[metric, "published", f"{reading} dependencies"]
            assert (round(row["value"], 3), row["n"], row["coverage"]) == (value, 800, 795 / 800)
            assert found[metric, "answered", f"{reading} dependencies"]["n"] == 795


WRONG = {
    "no such file": (["input={f}/no.csv"], "does not exist"),
    "no such task": (["input={f}/r.csv", "task=x"], "agreement, crowdtruth, dsg"),
    "no columns": (["input={f}/r.csv"], "columns.item= is needed; .* has the columns image, who, score"),
    "a wrong column": (
        ["input={f}/r.csv", "columns.item=img", "columns.rater=who", "columns.value=score"],
        "no column 'img'; there are image, who, score",
    ),
    "nothing left": (
        ["input={f}/r.csv", "columns.item=image", "columns.rater=who", "columns.value=score", "where.who=z"],
        "no row to rate .where= leaves none",
    ),
    "no item": (
        ["input={f}/hole.csv", "columns.item=image", "columns.rater=who", "columns.value=score"],
        "1 rows without item",
    ),
    "not a table": (["input={f}/ragged.csv", "columns.item=a"], "not a readable file"),
    "people of another data set": (
        ["input={f}/q.csv", "task=dsg", "people={f}/p.csv", "people_columns.item=i", "people_columns.value=v",
         "columns.item=i", "columns.question=q", "columns.value=v"],
        "share no picture, as in 'z' and 'a'",
    ),
    "an annotation outside the set": (
        ["input={f}/r.csv", "task=crowdtruth", "columns.item=image", "columns.rater=who", "columns.value=score",
         "annotations=['1','2']"],
        "annotation '3' is not in annotations",
    ),
    "weights that are none": (["input={f}/r.csv", "figures.weights.w=[[1,1],[1,1]]"], "0 on the diagonal"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_said_in_a_sentence_and_nothing_is_written(tmp_path, name):
    write(tmp_path / "r.csv", RATINGS)
    write(tmp_path / "hole.csv", ["image,who,score", "a,b,1", ",b,2"])
    write(tmp_path / "ragged.csv", ["a,b", "1,2", "1,2,3"])
    write(tmp_path / "q.csv", ["i,q,v", "a,1,yes"])
    write(tmp_path / "p.csv", ["i,v", "z,3"])
    keys, sentence = WRONG[name]
    with pytest.raises(InputError) as error:
        cli.execute("figures", [*(k.format(f=tmp_path) for k in keys), f"out={tmp_path}/F"])
    assert re.search(sentence, str(error.value)), str(error.value)
    assert not (tmp_path / "F").exists()
