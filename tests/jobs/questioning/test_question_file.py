"""Questions of a file: which columns, which of two rows, what is refused and what is marked."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from jobs.errors import InputError
from jobs.items_from.input_rows import UserFile
from jobs.judging.own_questions import set_id_of
from jobs.questioning.question_file import FileQuestions, QuestionColumns, find_columns, read_questions
from jobs.store.files.objects import Object
from jobs.store.writer import Reject
from tests.cases import check_cases


def file_of(rows: Sequence[dict[str, Any]], *, columns: Sequence[str] = (), bad: Sequence[Reject] = ()) -> UserFile:
    """Return a file of these rows, whose first one is in line 2."""

    def read(reject: Any) -> Iterator[tuple[int, Any]]:
        for one in bad:
            reject(one)
        yield from enumerate(rows, start=2)

    return UserFile(Object("F", 1, "etag"), tuple(columns or (rows[0] if rows else ("set_id", "id"))), read)


def row(question_id: str, **cells: Any) -> dict[str, Any]:
    return {"set_id": "s", "question_id": question_id, "question": f"{question_id}?", **cells}


def read(*rows: dict[str, Any], faults: str = "refuse", columns: QuestionColumns | None = None) -> FileQuestions:
    return read_questions(file_of(rows), columns or QuestionColumns(), faults=faults)


def test_the_first_usual_name_of_a_column_counts() -> None:
    every = ["text", "prompt", "item_id", "set_id", "question_natural_language", "question", "proposition_id",
             "question_id", "dependency_id", "dependency", "category_broad", "category", "valid"]  # fmt: skip
    assert find_columns(file_of([], columns=every), QuestionColumns()) == {
        "set_id": "set_id", "about": "prompt", "id": "question_id", "question": "question", "category": "category",
        "parents": "dependency", "valid": "valid",
    }  # fmt: skip
    others = ["item_id", "text", "proposition_id", "question_natural_language", "category_broad", "dependency_id"]
    assert list(find_columns(file_of([], columns=others), QuestionColumns()).values()) == others
    chosen = find_columns(
        file_of([], columns=["set_id", "x", "question", "question_id"]), QuestionColumns(question="x")
    )
    assert chosen == {"set_id": "set_id", "id": "question_id", "question": "x"}

    def refused(names: list[str], columns: QuestionColumns, message: str) -> None:
        with pytest.raises(InputError) as error:
            find_columns(file_of([], columns=names), columns)
        assert str(error.value) == f"F: no column {message}; its columns are {', '.join(names)}"

    cases = [
        (["a"], QuestionColumns(), "columns.id= is required, columns.question= is required, columns.set_id= or "
                                   "columns.about= is required"),
        (["prompt", "question", "question_id"], QuestionColumns(id="x"), "x (columns.id=)"),
        (["question", "question_id"], QuestionColumns(), "columns.set_id= or columns.about= is required"),
    ]  # fmt: skip
    check_cases(refused, cases)


def test_sets_are_named_or_identified_by_their_text() -> None:
    rows = [row("1", about="x"), row("2", about="y"), row("1", set_id="", about="z"), row("1", set_id="t", about="")]
    questions = read(*rows)
    assert {name: [q.question_id for q in graph] for name, graph in questions.sets.items()} == {
        "s": ["1", "2"], set_id_of("z"): ["1"], "t": ["1"],
    }  # fmt: skip
    assert questions.about == {"s": "x", set_id_of("z"): "z", "t": None}
    assert questions.rejects == []


def test_of_two_questions_with_one_id_the_first_counts() -> None:
    rows = [row("1"), row("2"), row("1", question="again?"), row("1", set_id="t")]
    marked = read(*rows, faults="mark")
    assert [q.text for q in marked.sets["s"]] == ["1?", "2?"]
    message = "question '1' of set 's' is also in line 2"
    assert marked.rejects == [Reject("F", 4, "duplicate_id", message, "again?")]
    with pytest.raises(InputError, match=f"^F: line 4: {message}; give"):
        read(*rows)


def test_validity_and_parents_of_cells() -> None:
    rows = [
        row("1", valid="Yes", parents=""),
        row("2", valid="NO", parents="1"),
        row("3", valid="", parents=["1", "2"]),
    ]
    first, second, third = read(*rows).sets["s"]
    assert [(q.valid, q.parents) for q in (first, third)] == [(True, ()), (True, ("1", "2"))]
    assert (second.valid, second.parents, bool(second.fault)) == (False, ("1",), True)
    with pytest.raises(InputError, match="F: line 2: valid is 'maybe'; must be yes or no"):
        read(row("1", valid="maybe"))


def test_faults_are_refused_or_marked() -> None:
    cycle = [row("1", parents="2"), row("2", parents="1"), row("3", parents="1")]
    with pytest.raises(
        InputError, match=r"F: line 2: .*'1' \(line 2\), '2' \(line 3\) of set 's' depend on each other"
    ):
        read(*cycle)
    assert [bool(q.fault) for q in read(*cycle, faults="mark").sets["s"]][:2] == [True, True]
    unknown = [row("1", parents=""), row("2", parents="9")]
    with pytest.raises(InputError, match=r"F: line 3: .*question '2' of set 's' has the parent '9'"):
        read(*unknown)
    empty = row("1", question="")
    with pytest.raises(InputError, match="F: line 2: the question is empty"):
        read(empty)
    for valid in ("yes", "no"):
        marked = read(empty | {"valid": valid}, row("2"), faults="mark").sets["s"][0]
        assert (marked.valid, marked.fault) == (False, "no_question")
    for wrong, name in ((row(""), "id"), (row("1", set_id=""), "set")):
        for faults in ("refuse", "mark"):
            with pytest.raises(InputError, match=f"the {name} is empty"):
                read(wrong, faults=faults)


def test_broken_rows_and_files_without_any_are_refused() -> None:
    bad = [Reject("F", 7, "wrong_width", "too many cells"), Reject("F", 9, "other", "x")]
    with pytest.raises(InputError, match=r"^F: line 7: wrong_width: too many cells; correct the row"):
        read_questions(file_of([row("1")], bad=bad), QuestionColumns(), faults="mark")
    nothing = file_of([], columns=["set_id", "question_id", "question"])
    with pytest.raises(InputError, match=r"^F: no questions"):
        read_questions(nothing, QuestionColumns(), faults="mark")
