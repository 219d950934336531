"""Rows of CSV and Parquet as the readers give them: what each column becomes, and which rows are rejected."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from actors.rubrics.people import FreeText
from actors.rubrics.rubric import Rubric
from jobs.annotation import tabular
from jobs.annotation.questionnaire import list_questionnaire, rubric_questionnaire
from jobs.annotation.reading import RatingColumns, Reading
from jobs.annotation.span_labels import SpanLabels
from jobs.annotation.tabular import map_columns
from jobs.errors import InputError
from jobs.store.writer import RAW_KEPT, Reject
from tests.cases import check_cases


def read(
    path: Path, table: str, *, columns: RatingColumns | None = None, **reading: Any
) -> tuple[list[Any], list[Any]]:
    """Return the rows, and (position, reason) of the rejects."""
    rejects: list[Reject] = []
    asked = Reading(table, columns or RatingColumns(), **{"questionnaire": None, **reading})
    reader = tabular.read_parquet if path.suffix == ".parquet" else tabular.read_csv
    rows = [row for batch in reader(str(path), asked, rejects.append) for row in batch.to_pylist()]
    return rows, [(reject.position, reject.reason) for reject in rejects]


def test_samples_and_durations_of_the_long_form(tmp_path: Path) -> None:
    """An empty cell of a sample stays null: `rows.ratings` makes it 0, as without the column."""
    path = tmp_path / "a.csv"
    path.write_text(
        "item_id,rater,value,question,sample,seconds\n"
        "i,a,4,q,0,1.5\ni,a,3,q,2147483647,-1\ni,a,2,q,1.0,nan\ni,a,1,q,-1,2\ni,a,1,q,2147483648,2\ni,a,1,q,1.5,2\n"
        "i,a,1,q, ,2\ni,a,1,q,first,2\n"
    )
    rows, rejects = read(path, "ratings")
    kept = [(row["answer"], row["question"], row["sample"], row["seconds"]) for row in rows]
    assert kept == [("4", "q", 0, 1.5), ("3", "q", 2**31 - 1, None), ("2", "q", 1, None), ("1", "q", None, 2.0)]
    assert rejects == [(line, "bad_sample") for line in (5, 6, 7, 9)]


@pytest.mark.parametrize("file", ["a.csv", "a.parquet"])
def test_free_texts_have_their_field_time_and_sample(tmp_path: Path, file: str) -> None:
    cells = {
        "model": ["m", "m", " "],
        "item": ["1", "2", "3"],
        "why": ["because", None, "lost"],
        "else": ["x", "y", "z"],
        "sample": ["3", None, "5"],
        "time": ["10", None, "30"],
    }
    path = tmp_path / file
    if path.suffix == ".csv":
        lines = [",".join(cell or "" for cell in line) for line in zip(*cells.values(), strict=True)]
        path.write_text("\n".join([",".join(cells), *lines]) + "\n")
    else:
        pq.write_table(pa.table(cells), path)
    columns = RatingColumns(item_id="model+item", remarks={"reason": "why", "other": "else"})
    rows, rejects = read(path, "remarks", columns=columns, rater="anna")
    first = 2 if path.suffix == ".csv" else 1  # a line of the file, or a row from 1
    names = ("item_id", "rater", "field", "text", "sample", "time", "annotation")
    assert [tuple(row[name] for name in names) for row in rows] == [
        ("m/1", "anna", "reason", "because", 3, 10.0, first),
        ("m/2", "anna", "reason", None, None, None, first + 1),
        ("m/1", "anna", "other", "x", 3, 10.0, first),
        ("m/2", "anna", "other", "y", None, None, first + 1),
    ]
    assert rejects == [(first + 2, "no_item_id")]


def test_spans_have_whole_numbers_in_order_and_probabilities(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    spans = ["0,5,0.5", "5,5,1", "6,5,1", "0,x,1", ",5,1", "0,5,1.01", "0,5,-0.01", "0,5,0", "0,5,", "0,5,word"]
    lines = "".join(f"i,a,t,mistake,{span}\n" for span in spans)
    path.write_text(f"item_id,rater,text_id,kind,start,end,probability\n{lines}")
    rows, rejects = read(path, "spans")
    assert [(row["start"], row["end"], row["probability"]) for row in rows] == [
        (0, 5, 0.5), (5, 5, 1.0), (0, 5, 0.0), (0, 5, None), (0, 5, None)
    ]  # fmt: skip
    assert rejects == [(6, "no_start"), (5, "bad_end"), (4, "bad_end"), (7, "bad_probability"), (8, "bad_probability")]


def test_an_invalid_time_and_a_column_without_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("item_id,rater,value,time\ni,a,4,noon\n")
    with pytest.raises(InputError, match=r"columns\.time holds 'noon', neither ISO 8601 nor seconds since 1970"):
        read(path, "ratings", question="q")
    table = tmp_path / "a.parquet"
    pq.write_table(pa.table({"item_id": ["i"], "rater": ["a"], "value": [[4]]}), table)
    with pytest.raises(InputError, match=r"column value holds list<.*>, not text or numbers"):
        read(table, "ratings", question="q")
    pq.write_table(pa.table({"item_id": pa.array([], pa.string()), "rater": [], "value": []}), table)
    with pytest.raises(InputError, match="no rows"):
        read(table, "ratings", question="q")
    table.write_bytes(table.read_bytes()[:-9])
    with pytest.raises(InputError, match=r"a\.parquet: not a readable Parquet file"):
        read(table, "ratings", question="q")


@pytest.mark.parametrize(
    ("private", "raw"), [(False, ["i,a,4,more", "item_id=i value=4 position=2"]), (True, ["", ""])]
)
def test_private_cells_stay_out_of_rejects(tmp_path: Path, private: bool, raw: list[str]) -> None:
    path = tmp_path / "a.csv"
    path.write_text("item_id,rater,value\ni,,4\ni,a,4,more\n")
    rejects: list[Reject] = []
    asked = Reading("ratings", RatingColumns(), None, question="q", private=private)
    assert [batch.num_rows for batch in tabular.read_csv(str(path), asked, rejects.append)] == [0]
    assert [reject.reason for reject in rejects] == ["wrong_width", "no_rater"]
    assert [reject.raw for reject in rejects] == raw
    path.write_text(f"item_id,rater,value\n{'i' * 300},,4\n")
    assert list(tabular.read_csv(str(path), asked, rejects.append))
    assert rejects[-1].raw == ("" if private else f"item_id={'i' * 300}"[:RAW_KEPT])


def test_one_rater_of_all_rows_needs_a_file_without_raters(tmp_path: Path) -> None:
    """Otherwise the answers of several people would become repeated ones of one person, of which the last stays."""
    (tmp_path / "one.csv").write_text("item_id,value,question,who\ni,1,q,\nj,2,q,bo\n")
    rows, rejects = read(tmp_path / "one.csv", "ratings", rater="anna")
    assert ([(row["item_id"], row["rater"]) for row in rows], rejects) == ([("i", "anna"), ("j", "anna")], [])
    (tmp_path / "two.csv").write_text("item_id,rater,value,question\ni,bo,1,q\ni,cy,2,q\n")
    for file, columns in (("two.csv", RatingColumns()), ("one.csv", RatingColumns(rater="who"))):
        with pytest.raises(InputError, match=r"rater=anna: .* names the raters in its column (rater|who); omit rater="):
            read(tmp_path / file, "ratings", columns=columns, rater="anna")


@pytest.mark.parametrize("file", ["a.csv", "a.parquet"])
def test_a_limit_counts_the_rows_of_all_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str) -> None:
    path, first = tmp_path / file, 2 if file == "a.csv" else 1
    names = [f"i{number}" for number in range(5)]
    if file == "a.csv":
        header = "item_id|rater|value|a,b,c,d,e,f\n"  # without the key, the comma would divide it
        path.write_text(header + "".join(f"{name}|a;b,c|1|x,x,x,x,x\n" for name in names))
    else:
        table = pa.table({"item_id": names, "rater": ["a;b,c"] * 5, "value": [1] * 5, "unread": [[1]] * 5})
        pq.write_table(table, path)
    monkeypatch.setattr(tabular, "ROWS_AT_A_TIME", 2)
    for limit in (None, 1, 2, 3, 4, 5, 9):
        rows, rejects = read(path, "ratings", question="q", limit=limit, delimiter="|")
        assert ([row["item_id"] for row in rows], rejects) == (names[:limit], []), limit
        assert [row["position"] for row in rows] == list(range(first, first + len(rows)))
        assert {row["rater"] for row in rows} == {"a;b,c"}


def test_skipped_and_reported_rows_have_a_status(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    flags = ["yes,no", "no,yes", "1,TRUE", ",", "0,maybe", "maybe,yes"]
    header = "item_id,rater,value,kind,skipped,reported\n"  # kind is a column of spans
    path.write_text(header + "".join(f"i,a,4,image,{flag}\n" for flag in flags))
    rows, rejects = read(path, "ratings", question="q")
    assert [row["status"] for row in rows] == ["skipped", "reported", "reported", None]
    assert [row["kind"] for row in rows] == [None] * 4
    assert sorted(rejects) == [(6, "unreadable_flag"), (7, "unreadable_flag")]


def test_spans_without_a_column_of_categories_have_none(tmp_path: Path) -> None:
    kind = {"name": "slips", "kind": "slip", "text": "t", "labels": [{"value": "swap", "label": "Mix-up"}]}
    labels = SpanLabels.from_dict({"name": "s", "kinds": [kind]})
    (tmp_path / "a.csv").write_text("item_id,rater,text_id,kind,start,end\ni,a,t,SLIPS,0,1\ni,a,t,other,0,1\n")
    rows, rejects = read(tmp_path / "a.csv", "spans", span_labels=labels)
    assert [(row["kind"], row["category"]) for row in rows] == [("slip", None)]
    assert rejects == [(3, "unknown_kind")]


def test_categories_are_given_by_value_or_label_of_their_kind(tmp_path: Path) -> None:
    labels = [{"value": "swap", "label": "Mix-up"}, {"value": "drop", "label": "Left out"}]
    kinds = [
        {"name": "slips", "kind": "slip", "text": "t", "labels": labels},
        {"name": "gaps", "kind": "gap", "text": "t", "labels": [{"value": "hole", "label": "Hole"}]},
    ]
    cells = [("slip", "SWAP"), ("Slips", "mix-up+drop"), ("slip", ""), ("slip", "nope"), ("slip", "swap+nope"),
             ("gap", "swap"), ("gaps", "hole")]  # fmt: skip
    lines = "".join(f"i,a,t,{kind},0,1,{category}\n" for kind, category in cells)
    (tmp_path / "a.csv").write_text(f"item_id,rater,text_id,kind,start,end,category\n{lines}")
    span_labels = SpanLabels.from_dict({"name": "s", "kinds": kinds})
    rows, rejects = read(tmp_path / "a.csv", "spans", span_labels=span_labels)
    assert [(row["kind"], row["category"]) for row in rows] == [
        ("slip", "swap"), ("slip", "swap+drop"), ("slip", None), ("gap", "hole")
    ]  # fmt: skip
    assert rejects == [(line, "unknown_label") for line in (5, 6, 7)]
    kinds[1]["kind"] = "gap/hole"
    (tmp_path / "a.csv").write_text("item_id,rater,text_id,kind,start,end,category\ni,a,t,gaps,0,1,Hole\n")
    rows, _ = read(tmp_path / "a.csv", "spans", span_labels=SpanLabels.from_dict({"name": "s", "kinds": kinds}))
    assert [(row["kind"], row["category"]) for row in rows] == [("gap/hole", "hole")]


def test_spans_have_the_condition_of_their_row(tmp_path: Path) -> None:
    header = "item_id,rater,text_id,kind,start,end"
    (tmp_path / "a.csv").write_text(f"{header},condition\ni,a,t,mistake,0,1,fast\ni,a,t,mistake,0,1,\n")
    assert [row["condition"] for row in read(tmp_path / "a.csv", "spans")[0]] == ["fast", None]
    (tmp_path / "b.csv").write_text(f"{header}\ni,a,t,mistake,0,1\n")
    assert [row["condition"] for row in read(tmp_path / "b.csv", "spans")[0]] == [None]


def test_scores_that_are_no_finite_numbers_are_left_out(tmp_path: Path) -> None:
    cells = ["2.5", "1e3", "inf", "-inf", "nan", "word", ""]
    lines = "".join(f"i,a,t,mistake,0,1,{cell}\n" for cell in cells)
    (tmp_path / "a.csv").write_text(f"item_id,rater,text_id,kind,start,end,score\n{lines}")
    rows, rejects = read(tmp_path / "a.csv", "spans")
    assert ([row["score"] for row in rows], rejects) == ([2.5, 1000.0, None, None, None, None, None], [])


def test_questions_of_the_long_form_are_those_of_the_rubric(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("item_id,rater,value,question\ni,a,b,TONE\ni,a,b,nope\ni,a,b,\ni,a,a,clear\n")
    rows, rejects = read(tmp_path / "a.csv", "ratings", questionnaire=rubric_questionnaire(RUBRIC))
    assert [(row["question"], row["answer"]) for row in rows] == [("tone", "b"), ("clear", "a")]
    assert rejects == [(3, "unknown_question"), (4, "unknown_question")]
    rows, rejects = read(tmp_path / "a.csv", "ratings")
    assert ([row["question"] for row in rows], rejects) == (["TONE", "nope", "clear"], [(4, "unknown_question")])


RUBRIC = Rubric.from_dict({"name": "mood", "questions": [
    {"name": "tone", "text": "Tone?", "scale": "nominal", "answers": ["a", "b"]},
    {"name": "clear", "text": "Clear?", "scale": "nominal", "answers": ["a", "b"]},
]})  # fmt: skip
SHARED = ["item_id", "rater"]


def test_columns_of_a_header_by_key_and_by_name() -> None:
    mood = rubric_questionnaire(RUBRIC)
    why = [FreeText("why", "Why?"), FreeText("sources", "Sources")]
    cases: dict[str, tuple[list[str], Reading, dict[str, tuple[str, ...]], dict[str, str]]] = {
        "long form": (
            ["value", "question"], Reading("ratings", RatingColumns(), mood),
            {"value": ("value",), "question": ("question",)}, {},
        ),
        "wide form": (["TONE", "x"], Reading("ratings", RatingColumns(), mood), {}, {"tone": "TONE"}),
        "mapped": (
            ["x", "tone"], Reading("ratings", RatingColumns(questions={"tone": "x", "clear": "tone"}), mood),
            {}, {"tone": "x", "clear": "tone"},
        ),
        "mapped, in two cases": (
            ["TONE", "tone"], Reading("ratings", RatingColumns(questions={"tone": "TONE"}), mood), {}, {"tone": "TONE"},
        ),
        "mapped, any name": (["x"], Reading("ratings", RatingColumns(questions={"q": "x"}), None), {}, {"q": "x"}),
        "mapped, without questions of a rubric": (
            ["x"],
            Reading("ratings", RatingColumns(questions={"q": "x"}), list_questionnaire("r", ["a", "b"], ordinal=False)),
            {}, {"q": "x"},
        ),
        "rater of all rows": (
            [], Reading("remarks", RatingColumns(remarks={"f": "item_id"}), None), {}, {"f": "item_id"},
        ),
        "joined": (
            ["a", "b", "value"], Reading("ratings", RatingColumns(target="a+b"), None, question="q"),
            {"target": ("a", "b"), "value": ("value",)}, {},
        ),
        "a plus in a name": (
            ["a+b", "a", "b", "value"], Reading("ratings", RatingColumns(target="a+b"), None, question="q"),
            {"target": ("a+b",), "value": ("value",)}, {},
        ),
        "free texts": (["Why"], Reading("remarks", RatingColumns(), None, free_texts=why), {}, {"why": "Why"}),
        "mapped free texts": (
            ["Why", "x"], Reading("remarks", RatingColumns(remarks={"why": "x"}), None, free_texts=why),
            {}, {"why": "x"},
        ),
    }  # fmt: skip

    def check(more: list[str], reading: Reading, roles: dict[str, tuple[str, ...]], wide: dict[str, str]) -> None:
        mapping = map_columns([*SHARED, *more], reading, uri="f.csv")
        assert mapping.roles == {**{name: (name,) for name in SHARED}, **roles}
        assert mapping.wide == wide
        assert set(mapping.read) == {*SHARED, *(name for names in roles.values() for name in names), *wide.values()}

    check_cases(check, cases)


FEELINGS = Rubric.from_dict({"name": "mood", "targets": ["joy", "great sorrow"], "questions": [
    {"name": "shown", "text": "How strong is it?", "answers": [1, 2, 3]},
    {"name": "anyone", "text": "Is anyone there?", "answers": ["yes", "no"], "targets": False},
]})  # fmt: skip
TWO = Rubric.from_dict({"name": "mood", "targets": ["joy", "fear"], "questions": [
    {"name": name, "text": f"{name}?", "answers": [1, 2]} for name in ("shown", "felt")
]})  # fmt: skip


def test_a_column_per_target_is_found_by_its_name_or_mapped() -> None:
    joy, sorrow = ("shown", "joy"), ("shown", "great sorrow")
    mapped = RatingColumns(questions={"shown": {"joy": "a"}, "anyone": "b"})
    cases: dict[str, tuple[list[str], Rubric, RatingColumns, dict[tuple[str, str], str], dict[str, str]]] = {
        "targets": (["Joy", "great_sorrow"], FEELINGS, RatingColumns(), {joy: "Joy", sorrow: "great_sorrow"}, {}),
        "and a question without": (
            ["joy", "great sorrow", "Anyone"], FEELINGS, RatingColumns(),
            {joy: "joy", sorrow: "great sorrow"}, {"anyone": "Anyone"},
        ),
        "a form's grid": (
            ["How strong is it? [joy]", "How strong is it? [great sorrow]"], FEELINGS, RatingColumns(),
            {joy: "How strong is it? [joy]", sorrow: "How strong is it? [great sorrow]"}, {},
        ),
        "mapped": (["a", "b"], FEELINGS, mapped, {joy: "a"}, {"anyone": "b"}),
        "two questions": (
            ["shown.joy", "shown.fear", "joy_felt", "fear_felt"], TWO, RatingColumns(),
            {(q, t): c.format(q, t) for q, c in (("shown", "{0}.{1}"), ("felt", "{1}_{0}")) for t in ("joy", "fear")},
            {},
        ),
        "a column of targets": (["target", "shown"], FEELINGS, RatingColumns(), {}, {"shown": "shown"}),
    }  # fmt: skip

    def check(
        more: list[str], rubric: Rubric, columns: RatingColumns, by_target: dict[tuple[str, str], str],
        wide: dict[str, str],
    ) -> None:  # fmt: skip
        reading = Reading("ratings", columns, rubric_questionnaire(rubric))
        mapping = map_columns([*SHARED, *more], reading, uri="f.csv")
        assert (mapping.by_target, mapping.wide) == (by_target, wide)
        assert set(more) <= {*mapping.read}

    check_cases(check, cases)
    refusals: dict[str, tuple[list[str], Rubric, RatingColumns, str]] = {
        "a misspelt target": (["joy", "great sorow"], FEELINGS, RatingColumns(), "no column for target great sorrow"),
        "one column twice": (["joy", "Joy", "great sorrow"], FEELINGS, RatingColumns(), "columns joy and Joy are both"),
        "which question": (["joy", "fear"], TWO, RatingColumns(), "no column of answers"),
        "no such target": (
            ["a"], FEELINGS, RatingColumns(questions={"shown": {"hope": "a"}}),
            r"columns\.questions\.shown\.hope: no such target; must be one of joy, great sorrow",
        ),
        "no such column": (["b"], FEELINGS, mapped, r"no column a \(columns\.questions\.shown\.joy=\)"),
    }  # fmt: skip

    def refuse(more: list[str], rubric: Rubric, columns: RatingColumns, message: str) -> None:
        with pytest.raises(InputError, match=message):
            map_columns([*SHARED, *more], Reading("ratings", columns, rubric_questionnaire(rubric)), uri="f.csv")

    check_cases(refuse, refusals)


def test_answers_about_targets_in_columns_are_those_of_a_long_file(tmp_path: Path) -> None:
    wide = "item_id,rater,joy,great sorrow,anyone\ni,a,1,3,yes\nj,a,,2,no\n"
    long = "item_id,rater,question,target,value\n" + "".join(
        f"{item},a,{question},{target},{value}\n"
        for question, target, answers in (
            ("anyone", "", ("yes", "no")), ("shown", "joy", ("1", "")), ("shown", "great sorrow", ("3", "2"))
        )
        for item, value in zip("ij", answers, strict=True)
    )  # fmt: skip
    read_rows = []
    for name, text in (("wide", wide), ("long", long)):
        (tmp_path / f"{name}.csv").write_text(text)
        rows, rejects = read(tmp_path / f"{name}.csv", "ratings", questionnaire=rubric_questionnaire(FEELINGS))
        assert rejects == []
        keys = ("item_id", "rater", "question", "target", "answer")
        read_rows.append([tuple(row[key] or None for key in keys) for row in rows])
    assert read_rows[0] == read_rows[1]
    assert len(read_rows[0]) == 6


def test_headers_without_the_columns_of_a_table_are_refused() -> None:
    mood = rubric_questionnaire(RUBRIC)
    why = [FreeText("why", "Why?")]
    ratings: dict[str, tuple[list[str], Reading, str]] = {
        "all that is missing": (
            ["item_id"],
            Reading("ratings", RatingColumns(item_id="x+item_id", questions={"tone": "y"}, comment="z"), mood),
            r"f\.csv: no column x \(columns\.item_id=x\+item_id\), z \(columns\.comment=z\), rater "
            r"\(columns\.rater=\), y \(columns\.questions\.tone=\); its columns are item_id$",
        ),
        "spans": (
            SHARED, Reading("spans", RatingColumns(), None),
            r"no column start \(.*\), end \(.*\), text_id \(.*\), kind \(.*\); its columns are item_id, rater",
        ),
        "raters": (["name"], Reading("raters", RatingColumns(), None), r"no column rater \(columns\.rater=\); "),
        "no such question": (
            [*SHARED, "x"], Reading("ratings", RatingColumns(questions={"other": "x"}), mood),
            r"columns\.questions\.other: rubric mood has no such question; must be one of tone, clear",
        ),
        "no question": (
            [*SHARED, "value"], Reading("ratings", RatingColumns(), mood), r"columns\.question= .*rater, value",
        ),
        "no answers": ([*SHARED, "x"], Reading("ratings", RatingColumns(), mood), "no column of answers; .*, x "),
        "no free text": (
            [*SHARED, "x"], Reading("remarks", RatingColumns(), None, free_texts=why),
            r"no column of free text \(why\); its columns are item_id, rater, x ",
        ),
        "no mapped free text": (
            SHARED, Reading("remarks", RatingColumns(remarks={"why": "x"}), None, free_texts=why),
            r"no column x \(columns\.remarks\.why=\)",
        ),
        "twice": ([*SHARED, "value", "value"], Reading("ratings", RatingColumns(), None, question="q"), "value"),
        "questions in two cases": (
            [*SHARED, "Tone", "clear", "TONE"], Reading("ratings", RatingColumns(), mood),
            r"f\.csv: columns Tone and TONE differ only in case, and only one can be read; rename the others, or "
            r"choose one with columns\.questions=\{tone: column\}$",
        ),
        "free texts in two cases": (
            [*SHARED, "why", "Why"], Reading("remarks", RatingColumns(), None, free_texts=why),
            r"columns why and Why differ only in case, .* columns\.remarks=\{why: column\}$",
        ),
    }  # fmt: skip

    def check(header: list[str], reading: Reading, message: str) -> None:
        with pytest.raises(InputError, match=message):
            map_columns(header, reading, uri="f.csv")

    check_cases(check, ratings)
