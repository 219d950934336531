"""`remine report input=FILE` on files of strangers: the released ones, odd ones, wrong ones."""

import csv
import html
import json
import platform
import re
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from jobs.analysis.file_analysis import RatedFile, check_settings
from jobs.errors import InputError
from jobs.metrics.rated_question import MetricSettings
from jobs.runtime.command_line import cli
from jobs.store.reading import open_table
from tests.factories import rows_of


def metrics_in(folder):
    rows = pa.concat_tables(open_table(f"{folder}/metrics", "metrics").batches()).to_pylist()
    return {(r["metric"], *sorted(json.loads(r["dims"]).values())): r for r in rows}


def write(path, lines):
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


RATINGS = [
    "image,who,score",
    *(f"{i:03},{rater_name},{1 + (i + len(rater_name)) % 5}" for i in range(12) for rater_name in ("al", "bea", "c")),
]


def test_agreement_of_a_csv(tmp_path, capsys):
    file = write(tmp_path / "it, é.csv", [*RATINGS, "012,al,"])
    columns = ["columns.item=image", "columns.rater=who", "columns.value=score"]
    cli.execute("report", [f"input={file}", *columns, "title=My & study", f"out={tmp_path}/F"])
    metrics = metrics_in(tmp_path / "F")
    alpha = metrics["alpha", "file", "ordinal", "people", "value"]
    assert alpha["n"] == 12
    assert alpha["coverage"] == 36 / 37
    assert metrics["ratings_excluded", "file", "value"]["value"] == 1
    printed = capsys.readouterr().out.splitlines()
    assert any(line.startswith("alpha ") for line in printed)
    assert printed[-1] == (
        f"report: {tmp_path}/F/index.html, metrics.csv, {len(metrics)} metrics in {tmp_path}/F/metrics"
    )
    with (tmp_path / "F" / "metrics.csv").open(encoding="utf-8", newline="") as output:
        counts = [r for r in csv.DictReader(output) if r["metric"] == "alpha" and r["level"] == "ordinal"]
    assert float(counts[0]["value"]) == pytest.approx(alpha["value"])
    page = html.unescape((tmp_path / "F" / "index.html").read_text(encoding="utf-8"))
    shown = ("Krippendorff’s α (ordinal)", "My & study", "agreement of it, é.csv", f"<code>{file.name}</code>",
             platform.python_version(), "Heat map of Cohen's kappa", "The distribution of each rater’s answers",
             )  # fmt: skip
    assert [text for text in shown if text not in page] == []
    assert str(tmp_path) not in page  # a page that is sent to others does not show a disk


def test_metrics_csv_has_no_two_columns_of_one_name(tmp_path):
    """The ratings' status is a dim, the metric's a column: `status == "ok"` gives all defined metrics."""
    file = write(tmp_path / "r.csv", RATINGS)
    columns = ["columns.item=image", "columns.rater=who", "columns.value=score"]
    cli.execute("report", [f"input={file}", *columns, f"out={tmp_path}/F"])
    with (tmp_path / "F" / "metrics.csv").open(encoding="utf-8", newline="") as output:
        header, *rows = csv.reader(output)
    assert len(set(header)) == len(header)
    lines = [dict(zip(header, row, strict=True)) for row in rows]
    assert {line["status"] for line in lines if line["value"]} == {"ok"}
    shares = {line["dim_status"] for line in lines if line["metric"] == "status_share"}
    assert shares == {"reported", "skipped"}


def test_words_are_categories_and_parquet_and_tsv_are_read(tmp_path):
    words = [("a", "x", "cat"), ("a", "y", "cat"), ("b", "x", "dog"), ("b", "y", "unsure")]
    write(tmp_path / "w.tsv", ["i\tr\tv", *("\t".join(w) for w in words)])
    write(tmp_path / "w.csv", ["i;r;v", *(";".join(w) for w in words)])
    pq.write_table(pa.table({k: [w[p] for w in words] for p, k in enumerate("irv")}), tmp_path / "w.parquet")
    results = []
    for name in ("w.tsv", "w.csv", "w.parquet"):
        columns = ["columns.item=i", "columns.rater=r", "columns.value=v"]
        cli.execute("report", [f"input={tmp_path}/{name}", *columns, f"out={tmp_path}/{name}-F"])
        results.append({k: r["value"] for k, r in metrics_in(tmp_path / f"{name}-F").items()})
    assert results[0] == results[1] == results[2]
    assert results[0]["percent_agreement", "file", "people", "value"] == 1 / 2
    assert results[0]["majority_share", "(no majority)", "file", "people", "value"] == 1 / 2


def test_what_spreadsheets_write(tmp_path):
    """Excel in many countries: UTF-16 or a mark, sep=, semicolons, decimal commas, spaces around cells."""
    columns = ["columns.item=image", "columns.rater=who", "columns.value=score"]
    half = ["image;who;score", *(line.replace(",", ";") + ",5" for line in RATINGS[1:])]
    plain = "\n".join([RATINGS[0], *(f"{line}.5" for line in RATINGS[1:])]) + "\n"
    files = {
        "plain.csv": plain.encode(),
        "decimal.csv": ("\r\n".join(["sep=;", *half]) + "\r\n").encode("utf-8-sig"),
        "wide.csv": plain.replace(",", "\t").encode("utf-16"),
        "spaces.csv": plain.replace(",", " , ").encode(),
        "latin.csv": plain.replace("al", "ál").encode("latin-1"),
    }
    results = []
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
        more = ["encoding=latin-1"] if name == "latin.csv" else []
        cli.execute("report", [f"input={tmp_path}/{name}", *columns, *more, f"out={tmp_path}/{name}-F"])
        metrics = metrics_in(tmp_path / f"{name}-F")
        results.append([r["value"] for key, r in sorted(metrics.items()) if key[0] in ("alpha", "icc1", "mean_score")])
    assert len(results[0]) == 5
    assert all(result == pytest.approx(results[0]) for result in results)


def test_a_word_among_numbers_is_reported_and_can_be_declared_missing(tmp_path, capsys):
    file = write(tmp_path / "r.csv", [*RATINGS, "000,al,n/a", "001,al,4"])
    columns = [f"input={file}", "columns.item=image", "columns.rater=who", "columns.value=score"]
    cli.execute("report", [*columns, f"out={tmp_path}/F"])
    assert "1 of 38 answers are not numbers, such as 'n/a'" in capsys.readouterr().out
    cli.execute("report", [*columns, "missing=[n/a]", f"out={tmp_path}/G"])
    metrics = metrics_in(tmp_path / "G")
    assert metrics["alpha", "file", "ordinal", "people", "value"]["n"] == 12
    assert metrics["ratings_excluded", "file", "value"]["value"] == 1
    assert metrics["ratings_repeated", "file", "value"]["value"] == 2


def test_columns_make_parts_groups_and_gold(tmp_path):
    lines = ["image,who,score,scene,country"]
    for i in range(12):
        for n, (rater_name, land) in enumerate((("al", "PE"), ("bea", "PE"), ("c", "KE"))):
            lines.append(f"{i:03},{rater_name},{1 + (i + n * (i % 2)) % 5},{'indoors' if i % 2 else 'outdoors'},{land}")
        lines.append(f"{i:03},expert,{1 + i % 5},,")
    file = write(tmp_path / "r.csv", lines)
    keys = [f"input={file}", "columns.item=image", "columns.rater=who", "columns.value=score"]
    more = ["metrics.disaggregate=[scene]", "metrics.groups=[country]", "metrics.gold=[expert]"]
    cli.execute("report", [*keys, *more, f"out={tmp_path}/F"])
    metrics = metrics_in(tmp_path / "F")
    # of even images (outdoors) all three give the same
    by_part = {key: row["value"] for key, row in metrics.items() if key[0] == "percent_agreement"}
    assert by_part["percent_agreement", *sorted(["scene", "outdoors", "people", "file", "value"])] == 1
    assert by_part["percent_agreement", *sorted(["scene", "indoors", "people", "file", "value"])] < 1
    assert by_part["percent_agreement", *sorted(["people, country PE", "file", "value"])] is not None
    assert by_part["percent_agreement", *sorted(["people, country KE", "file", "value"])] is None
    assert any(key[0] == "f1" for key in metrics)
    assert not any("expert" in key for key in metrics)


def test_a_question_of_words_makes_no_categories_of_the_others(tmp_path, capsys):
    """And one number written in several ways is one answer."""
    rows = ["a,x,s,3", "a,y,s,3.0", 'b,x,s,"4,0"', "b,y,s,4", "c,x,s,1", "c,y,s,2"]
    rows += ["a,x,k,cat", "a,y,k,cat", "b,x,k,dog", "b,y,k,3"]
    file = write(tmp_path / "r.csv", ["i,r,q,v", *rows])
    keys = [f"input={file}", "columns.item=i", "columns.rater=r", "columns.value=v", "columns.question=q"]
    cli.execute("report", [*keys, f"out={tmp_path}/F"])
    metrics = metrics_in(tmp_path / "F")
    assert metrics["percent_agreement", "file", "people", "s"]["value"] == 2 / 3
    assert metrics["alpha", "file", "ordinal", "people", "s"]["value"] > 0.9
    assert metrics["agreement_with_majority", "file", "people", "s", "x"]["n"] == 2  # 3 is 3.0, 4,0 is 4
    assert metrics["percent_agreement", "file", "k", "people"]["value"] == 1 / 2
    assert "k: 1 of 4" not in (printed := capsys.readouterr().out)
    assert "k: 3 of 4 answers are not numbers, such as 'cat'" in printed


def test_agreement_of_a_single_rater_is_undefined_with_a_reason(tmp_path):
    file = write(tmp_path / "r.csv", ["i,r,v", "a,x,1", "b,x,3", "c,x,2"])
    cli.execute(
        "report", [f"input={file}", "columns.item=i", "columns.rater=r", "columns.value=v", f"out={tmp_path}/F"]
    )
    for key, row in metrics_in(tmp_path / "F").items():
        if key[0] in ("alpha", "percent_agreement", "icc1", "icc2k", "pairwise_pearson"):
            assert (row["value"], row["reason"]) == (None, "one rater")


def test_numbers_that_may_be_misread_are_reported(tmp_path, capsys):
    """A thousands separator looks like a decimal comma; two ratings of one item by one person become one."""
    rows = ['a,x,"1,000"', 'a,y,"2,000"', 'b,x,"1,000"', 'b,y,"1,000"', 'b,y,"3,000"']
    file = write(tmp_path / "r.csv", ["i,r,v", *rows])
    cli.execute(
        "report", [f"input={file}", "columns.item=i", "columns.rater=r", "columns.value=v", f"out={tmp_path}/F"]
    )
    printed = capsys.readouterr().out
    assert "value: answers have a decimal comma; 1,000 is read as 1\n" in printed
    assert "value: 1 duplicate (rater, item) rows" in printed


@pytest.mark.parametrize("word", ["1e400", "-1e999", "1e200", "inf", "NaN"])
def test_numbers_past_all_bounds_are_words(tmp_path, capsys, word):
    file = write(tmp_path / "r.csv", ["i,r,v", f"a,x,{word}", "a,y,1", "b,x,2", "b,y,2"])
    cli.execute(
        "report", [f"input={file}", "columns.item=i", "columns.rater=r", "columns.value=v", f"out={tmp_path}/F"]
    )
    assert f"1 of 4 answers are not numbers, such as {word!r}" in capsys.readouterr().out


def test_crowdtruth_of_mechanical_turk_with_nothing_picked(tmp_path):
    rows = ["HITId,AssignmentId,WorkerId,Answer.tags", "h1,1,a,cat", "h1,2,b,", "h2,3,a,", "h2,4,b,"]
    file = write(tmp_path / "t.csv", rows)
    more = ["columns.value=Answer.tags", "empty=none of these", f"out={tmp_path}/F"]
    cli.execute("report", ["task=crowdtruth", f"input={file}", *more])
    metrics = metrics_in(tmp_path / "F")
    assert metrics["unit_annotation_score", "h2", "none of these"]["value"] == 1 or (
        metrics["unit_annotation_score", "none of these", "h2"]["value"] == 1
    )
    assert metrics["unit_quality", "h1"]["value"] == 0
    assert metrics["unit_quality", "h2"]["value"] == pytest.approx(1)


def test_keys_of_metrics_that_a_task_does_not_use_are_refused():
    used = {"agreement": ("tolerance", "stop"), "crowdtruth": ("stop",), "dsg": ()}
    changed: dict[str, Any] = {"tolerance": 2, "stop": 0.5, "overlap": 0.7, "concept": "x"}
    for task, names in used.items():
        for name, value in changed.items():
            cfg = RatedFile(task=task, metrics=MetricSettings(**{name: value}))
            if name in names:
                check_settings(cfg)
                continue
            with pytest.raises(InputError, match=rf"metrics\.{name}: task={task}"):
                check_settings(cfg)


def test_a_scale_is_its_lowest_and_its_highest_answer():
    check_settings(RatedFile(scale=[1.0, 5.0]))
    for scale in ([1.0], [1.0, 3.0, 5.0], [5.0, 1.0], [3.0, 3.0]):
        with pytest.raises(InputError, match="scale="):
            check_settings(RatedFile(scale=scale))


def test_scene_graphs_of_another_model(tmp_path, capsys):
    """Answers TRUE, 1, Y; parents as a printed list, as 1.0, outside; by hand: 1, 0, 2/2 and 0 with dependencies."""
    lines = ["pic,qid,par,ans"]
    for picture in range(4):
        answers = ["TRUE", "False", "1", "0"][picture], "Y", ["y", "no", "", "maybe"][picture]
        lines += [
            f"p{picture},1,-1,{answers[0]}",
            f'p{picture},2,"[1, 9]",{answers[1]}',
            f"p{picture},3,1.0,{answers[2]}",
        ]
    file = write(tmp_path / "a.csv", lines)
    keys = ["columns.item=pic", "columns.question=qid", "columns.parents=par", "columns.value=ans"]
    cli.execute("report", ["task=dsg", f"input={file}", *keys, f"out={tmp_path}/F"])
    metrics = metrics_in(tmp_path / "F")
    assert metrics["dsg_score", "answered", "with dependencies"]["value"] == pytest.approx((1 + 0 + 2 / 2 + 0) / 4)
    assert metrics["dsg_score", "answered", "without dependencies"]["value"] == pytest.approx(
        (1 + 1 / 3 + 1 + 1 / 3) / 4
    )
    for reading, lost in (("with dependencies", 0), ("without dependencies", 2 / 3)):  # no answer is no
        published = metrics["dsg_score", "published", reading]["value"]
        assert published == pytest.approx((1 + 2 / 3 + lost) / 4)
    assert (metrics["dsg_unclear",]["value"], metrics["dsg_unclear",]["n"]) == (1, 11)
    assert "such as '9'" in capsys.readouterr().out


def test_scene_graphs_with_cycles_invalid_questions_and_decimal_commas(tmp_path):
    """Of each picture 1 is yes, 2 and 3 are parents of each other, 4 is invalid: (1 + 0 + 0) / 3 with, else 2 / 3."""
    lines = ["pic;q;par;ok;ans"]
    for picture in range(4):
        answer = "yes" if picture else "no"
        lines += [f"p{picture};1;;TRUE;{answer}", f"p{picture};2;3;valid;yes", f"p{picture};3;2;;no"]
        lines.append(f"p{picture};4;1;invalid;yes")
    file = write(tmp_path / "a.csv", lines)
    people = write(tmp_path / "p.csv", ["pic;v", *(f"p{n};{n},5" for n in range(4)), "gone;1,0"])
    keys = ["columns.item=pic", "columns.question=q", "columns.parents=par", "columns.value=ans", "columns.valid=ok",
            f"people={people}", "people_columns.item=pic", "people_columns.value=v"]  # fmt: skip
    cli.execute("report", ["task=dsg", f"input={file}", *keys, f"out={tmp_path}/F"])
    metrics = metrics_in(tmp_path / "F")
    assert metrics["dsg_invalid",]["value"] == 4
    assert metrics["dsg_invalid",]["coverage"] == 1
    score = metrics["dsg_score", "answered", "with dependencies"]
    assert (score["value"], score["n"], score["coverage"]) == (pytest.approx((0 + 3 * 1 / 3) / 4), 4, 4 / 5)
    assert metrics["dsg_score", "answered", "without dependencies"]["value"] == pytest.approx((1 / 3 + 3 * 2 / 3) / 4)
    assert metrics["dsg_score", "published", "without dependencies"]["n"] == 5


def test_crowdtruth_of_the_released_file(data, tmp_path):
    folder = data / "crowdtruth"
    cli.execute(
        "report",
        ["task=crowdtruth", f"input={folder}/relex-binary-choice.csv", "columns.value=top_member_employee",
         f"out={tmp_path}/F"],
    )  # fmt: skip
    metrics = metrics_in(tmp_path / "F")
    with (folder / "binary-relex-units.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            assert metrics["unit_quality", row["unit"]]["value"] == pytest.approx(float(row["uqs"]), abs=1e-6)
    with (folder / "binary-relex-workers.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            assert metrics["worker_quality", row["worker"]]["value"] == pytest.approx(float(row["wqs"]), abs=1e-6)


@pytest.mark.parametrize(
    ("task", "metric", "keys"),
    [
        ("crowdtruth", "unit_quality_mean", []),
        ("agreement", "percent_agreement", []),
        ("agreement", "unit_quality_mean", ["metrics.crowdtruth=true", "scale=[0,1]"]),
    ],
    ids=str,
)
def test_columns_of_released_files_are_found_by_their_names(tmp_path, task, metric, keys):
    lines = ["!amt_annotation_ids\t!amt_worker_ids\torig_id\tresponse\tgold"]
    lines += [f"a{unit}{worker}\tw{worker}\t{unit}\t{unit % 2}\t1" for unit in range(4) for worker in range(3)]
    file = write(tmp_path / "rte.standardized.tsv", lines)
    cli.execute("report", [f"task={task}", f"input={file}", f"out={tmp_path}/F", *keys])
    metrics = metrics_in(tmp_path / "F")
    assert [row["value"] for key, row in metrics.items() if key[0] == metric] == [1]


def test_crowdtruth_with_several_annotations_a_cell(tmp_path, capsys):
    lines = ["unit,worker,tags", "1,a,red|blue", "1,b,red", "2,a,blue", "2,b,blue", "3,a,red", "4,b,", "2,b,blue"]
    file = write(tmp_path / "t.csv", lines)
    keys = ["columns.item=unit", "columns.rater=worker", "columns.value=tags", "separator=|"]
    cli.execute("report", ["task=crowdtruth", f"input={file}", *keys, f"out={tmp_path}/F"])
    metrics = metrics_in(tmp_path / "F")
    assert metrics["unit_quality", "2"]["value"] == pytest.approx(1)
    # unit 1 would be 1 / sqrt(2) with equal annotations; blue is picked apart, so red weighs more
    assert 0.7 < metrics["unit_quality", "1"]["value"] < 1
    assert ("unit_quality", "3") not in metrics
    assert "2 of 7 judgements do not count" in capsys.readouterr().out
    assert metrics["unit_quality_mean",]["coverage"] == 4 / 7
    assert (metrics["unit_quality", "2"]["n"], metrics["unit_quality", "2"]["coverage"]) == (2, 2 / 3)
    assert (metrics["worker_quality", "a"]["n"], metrics["worker_quality", "a"]["coverage"]) == (2, 2 / 3)
    assert "depend on each other" in metrics["unit_quality", "2"]["reason"]


def test_scene_graphs_of_the_released_files(data, tmp_path):
    folder = data / "dsg"
    files = [f"input={folder}/mplug_dsg.csv", f"people={folder}/tifa160-likert-anns.csv"]
    cli.execute("report", ["task=dsg", *files, f"out={tmp_path}/F"])
    metrics = metrics_in(tmp_path / "F")
    published = {"with": (0.463, 0.380), "without": (0.464, 0.378)}
    for reading, (spearman, kendall) in published.items():
        for metric, value in (("dsg_spearman", spearman), ("dsg_kendall", kendall)):
            row = metrics[metric, "published", f"{reading} dependencies"]
            assert (round(row["value"], 3), row["n"], row["coverage"]) == (value, 800, 795 / 800)
            assert metrics[metric, "answered", f"{reading} dependencies"]["n"] == 795


WRONG = {
    "no such file": (["input={f}/no.csv"], "does not exist"),
    "no such task": (["input={f}/r.csv", "task=x"], "agreement, crowdtruth, dsg"),
    "no columns": (
        ["input={f}/r.csv"],
        "columns.item= is required, columns.rater= .*, columns.value= .*image, who, score",
    ),
    "some columns by their names": (
        ["input={f}/named.csv"],
        "named.csv: columns.item= is required; the file has the columns picture, rater, value",
    ),
    "several wrong columns": (
        ["input={f}/r.csv", "columns.item=img", "columns.rater=whom", "keep_rows.place=x", "metrics.groups=[country]"],
        "'img' .columns.item=img., .*'whom' .*, columns.value= is required, .*'place' .*'country' .*image",
    ),
    "a wrong column": (
        ["input={f}/r.csv", "columns.item=img", "columns.rater=who", "columns.value=score"],
        "no column 'img' .columns.item=img.; .*image, who, score",
    ),
    "nothing left": (
        ["input={f}/r.csv", "columns.item=image", "columns.rater=who", "columns.value=score", "keep_rows.who=z"],
        "no ratings .*keep_rows=",
    ),
    "no item": (
        ["input={f}/hole.csv", "columns.item=image", "columns.rater=who", "columns.value=score"],
        "columns.item is empty in 1 row",
    ),
    "no question": (
        ["input={f}/gap.csv", "columns.item=i", "columns.rater=r", "columns.value=v", "columns.question=q"],
        "columns.question is empty in 1 row",
    ),
    "not a table": (
        ["input={f}/ragged.csv", "columns.item=a", "columns.rater=a", "columns.value=b"],
        r"ragged\.csv: line 3: 3 fields",
    ),
    "people of another data set": (
        ["input={f}/q.csv", "task=dsg", "people={f}/p.csv", "people_columns.item=i", "people_columns.value=v",
         "columns.item=i", "columns.question=q", "columns.value=v"],
        "people= has 'z', input= has 'a'",
    ),
    "an annotation outside the set": (
        ["input={f}/r.csv", "task=crowdtruth", "columns.item=image", "columns.rater=who", "columns.value=score",
         "annotations=['1','2']"],
        "annotation '3' is not in annotations",
    ),
    "a duplicate column": (
        ["input={f}/twice.csv", "columns.item=a", "columns.rater=a", "columns.value=b"],
        "column b ",
    ),
    "bytes that are not UTF-8": (["input={f}/latin.csv", "columns.item=a"], r"byte 4 .*encoding="),
    "an empty file": (["input={f}/empty.csv"], r"empty\.csv: empty"),
    "a key of another task": (["input={f}/r.csv", "empty=none"], "empty=.*task=crowdtruth"),
    "two models in one file": (
        ["input={f}/two.csv", "task=dsg", "columns.item=i", "columns.question=q", "columns.value=v"],
        "question '1' of picture 'a'",
    ),
    "a part that differs within an item": (
        ["input={f}/r.csv", "columns.item=image", "columns.rater=who", "columns.value=score",
         "metrics.disaggregate=[who]"],
        "column 'who' has two values for item '000'",
    ),
    "a part that is not a column": (
        ["input={f}/r.csv", "columns.item=image", "columns.rater=who", "columns.value=score",
         "metrics.disaggregate=[sceen]"],
        "no column 'sceen'",
    ),
    "a rubric": (["input={f}/r.csv", "metrics.ensembles.two={{r: [a]}}"], "ensembles.two: a file has no rubrics"),
    "a setting for tables": (["input={f}/r.csv", "metrics.group_by=[method]"], "metrics.group_by=.method.: "),
    "a setting for agreement": (
        ["input={f}/r.csv", "task=crowdtruth", "metrics.disaggregate=[who]"],
        "metrics.disaggregate=.who.: task=crowdtruth",
    ),
    "a word that says neither valid nor invalid": (
        ["input={f}/v.csv", "task=dsg", "columns.item=i", "columns.question=q", "columns.value=v", "columns.valid=k"],
        "columns.valid .*'perhaps'",
    ),
    "ratings of people that are words": (
        ["input={f}/q.csv", "task=dsg", "people={f}/w.csv", "people_columns.item=i", "people_columns.value=v",
         "columns.item=i", "columns.question=q", "columns.value=v"],
        "people_columns.value .*'good'",
    ),
    "weights that are none": (["input={f}/r.csv", "metrics.weights.w=[[1,1],[1,1]]"], "0 on the diagonal"),
}  # fmt: skip


def test_wrong_files_and_keys_are_refused_without_output(tmp_path):
    write(tmp_path / "r.csv", RATINGS)
    write(tmp_path / "named.csv", ["picture,rater,value", "a,x,1"])
    write(tmp_path / "hole.csv", ["image,who,score", "a,b,1", ",b,2"])
    write(tmp_path / "ragged.csv", ["a,b", "1,2", "1,2,3"])
    write(tmp_path / "q.csv", ["i,q,v", "a,1,yes"])
    write(tmp_path / "two.csv", ["i,q,v,m", "a,1,yes,x", "a,1.0,no,y"])
    write(tmp_path / "v.csv", ["i,q,v,k", "a,1,yes,perhaps"])
    write(tmp_path / "w.csv", ["i,v", "a,good"])
    write(tmp_path / "gap.csv", ["i,r,q,v", "a,x,,1", "a,y,q,1"])
    write(tmp_path / "twice.csv", ["a,b,b", "1,2,3"])
    (tmp_path / "latin.csv").write_bytes("a,b\né,1\n".encode("latin-1"))
    (tmp_path / "empty.csv").write_bytes(b"")
    write(tmp_path / "p.csv", ["i,v", "z,3"])
    missed = {}
    for name, (keys, message) in WRONG.items():
        with pytest.raises(InputError) as error:
            cli.execute("report", [*(k.format(f=tmp_path) for k in keys), f"out={tmp_path}/F"])
        if not re.search(message, str(error.value)) or (tmp_path / "F").exists():
            missed[name] = str(error.value)
    assert not missed


def test_excluded_items_are_left_out_of_a_file(tmp_path, capsys):
    rows = [f"{item},{rater},{value}" for item, value in (("a", 1), ("b", 2), ("c", 5)) for rater in "xy"]
    (tmp_path / "r.csv").write_text("\n".join(["image,who,score", *rows]))
    (tmp_path / "no.txt").write_text("c\nnobody\n")
    keys = [f"input={tmp_path}/r.csv", "columns.item=image", "columns.rater=who", "columns.value=score"]
    assert cli.main("report", [*keys, f"out={tmp_path}/all"]) == 0
    assert cli.main("report", [*keys, f"exclusions={tmp_path}/no.txt", f"out={tmp_path}/some"]) == 0
    assert "1 of 2 entries match no picture" in capsys.readouterr().out
    largest = {name: max(row["n"] for row in rows_of(f"{tmp_path}/{name}/metrics")) for name in ("all", "some")}
    assert largest["some"] < largest["all"]


def test_keys_of_a_file_and_of_tables_exclude_each_other(tmp_path, capsys):
    file = write(tmp_path / "r.csv", RATINGS)
    columns = ["columns.item=image", "columns.rater=who", "columns.value=score"]
    for keys, why in (
        ([f"input={file}", *columns, "gallery=3"], "gallery=3: is for tables, and input= names a file"),
        ([f"input={file}", *columns, "items=[R]"], "items=[R]: is for tables, and input= names a file"),
        (["ratings=[R]", *columns], "columns: is for a file of ratings; set input="),
        (["ratings=[R]", "task=dsg"], "task=dsg: is for a file of ratings; set input="),
    ):
        assert cli.main("report", [*keys, f"out={tmp_path}/F"]) == 2
        assert why in capsys.readouterr().err
    assert not (tmp_path / "F").exists()
