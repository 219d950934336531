"""The job `questions`: questions from a file, and those that a text model writes."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from actors.rubrics import scene_graphs
from actors.rubrics.scene_graphs import SceneGraphInstructions
from actors.vlm.errors import ScoringError
from jobs.judging.own_questions import set_id_of
from jobs.questioning.question_graph import GraphQuestion, checked, cycles, invalid_kind
from jobs.questioning.question_writer import QuestionWriter
from jobs.runtime.command_line import cli
from jobs.runtime.configuration.config_files import CONF
from jobs.store.reading import open_table
from tests import secrets_found
from tests.cases import check_cases
from tests.factories import rows_of, write_table


@pytest.fixture(scope="module")
def instructions() -> dict[str, Any]:
    data: dict[str, Any] = yaml.safe_load((CONF / "scene_graph" / "dsg.yaml").read_text(encoding="utf-8"))
    return data


def test_the_examples_follow_the_grammar_and_have_no_faults(instructions: dict[str, Any]) -> None:
    read = SceneGraphInstructions.from_dict(instructions)
    assert len(read.examples) == 2
    for example in read.examples:
        parsed = {step: scene_graphs.parse(step, example.answer(step)) for step in scene_graphs.STEPS}
        assert [of_step.faults for of_step in parsed.values()] == [[], [], []]
        assert len({*map(len, (of_step.entries for of_step in parsed.values()))}) == 1
        rows = [
            GraphQuestion("s", str(number), text, line, parents=tuple(filter(None, parents.split(","))))
            for (number, (line, text)), (_, parents) in zip(
                parsed["questions"].entries.items(), parsed["parents"].entries.values(), strict=True
            )
        ]
        assert checked(rows) == rows
        categories = {text.partition(" ")[0] for _, text in parsed["tuples"].entries.values()}
        assert {"entity", "attribute", "relation", "action"} <= categories
    prompt = read.prompt("questions", "Romans\nwalk. {{ x }}", "1 | entity - whole (Romans)")
    assert prompt.endswith("Your turn\nText: Romans walk. {{ x }}\nTuples:\n1 | entity - whole (Romans)\nAnswer:")
    assert "Is there a fishing net?" in prompt
    assert "Is there a fishing net?" not in read.prompt("tuples", "Romans")


def test_grammar() -> None:
    cases = [
        ("tuples", "1 | Entity-Whole( chariot )", "entity - whole (chariot)"),
        ("tuples", " 12 |other - count (men, ==2)", "other - count (men, ==2)"),
        ("tuples", "3 | global - (photo)", "global - (photo)"),
        ("tuples", "3 | action - (men, whip, hold)", "action - (men, whip, hold)"),
        ("tuples", "1 | entity - colour (chariot)", None),
        ("tuples", "1 | thing - whole (chariot)", None),
        ("tuples", "1 | global - mood (dark)", None),
        ("tuples", "1 | entity - whole ()", None),
        ("tuples", "1 | entity - whole (a,)", None),
        ("tuples", "1. entity - whole (chariot)", None),
        ("tuples", "0 | entity - whole (chariot)", None),
        ("questions", "1 | Is there a chariot?", "Is there a chariot?"),
        ("questions", "1 | There is a chariot.", None),
        ("parents", "1 | 0", ""),
        ("parents", "1 | 2, 3,2", "2,3"),
        ("parents", "1 | 0, 2", None),
        ("parents", "1 | none", None),
    ]

    def check(step: str, line: str, message: str | None) -> None:
        parsed = scene_graphs.parse(step, line)
        assert [text for _, text in parsed.entries.values()] == ([] if message is None else [message])
        assert [fault.kind for fault in parsed.faults] == (["unparsed"] if message is None else [])

    check_cases(check, cases)


def test_faults_have_their_lines() -> None:
    answer = "Here you are:\n\n1 | Is it red?\n1 | Is it blue?\n7 | Is it green?"
    parsed = scene_graphs.parse("questions", answer, numbers=[1])
    assert parsed.entries == {1: (3, "Is it red?")}
    assert [(fault.line, fault.kind) for fault in parsed.faults] == [
        (1, "unparsed"), (4, "duplicate_number"), (5, "unknown_number"),
    ]  # fmt: skip


def test_invalid_questions() -> None:
    expected = {
        "Is there an image?": "asks_for_the_picture",
        "Can you visualize a scene?": "asks_for_the_picture",
        "can you picture  the scene of a triumph?": "asks_for_the_picture",
        "Is there a historical image?": "asks_for_the_picture",
        "Is the image created?": "asks_for_the_picture",
        "Is this a scene?": "asks_for_the_picture",
        "Is there a picture frame?": "",
        "Is there a picture? Of a dog?": "",
        "Is there a painting on the wall?": "",
        "Is this a photo?": "",
        "Is the scene set in Rome?": "",
        "Can you see the Palatine Hill?": "",
        "What colour is the tunic?": "not_yes_or_no",
        "Is the tunic what a priest wears?": "",
    }
    assert {text: invalid_kind(text) for text in expected} == expected


def question(name: str, *parents: str, text: str = "") -> GraphQuestion:
    return GraphQuestion("s", name, text or f"Is it {name}?", int(name), parents=parents)


def test_faults_of_a_graph() -> None:
    graph = [
        question("1"),
        question("2", "1", "9"),
        question("3", "4", "1"),
        question("4", "5"),
        question("5", "3"),
        question("6", "6"),
        question("7", "3", text="is it  1?"),
    ]
    assert cycles(graph) == [["3", "4", "5"], ["6"]]
    assert [(q.question_id, q.parents, q.valid, q.fault) for q in checked(graph)] == [
        ("1", (), True, ""),
        ("2", ("1",), True, "unknown_parent"),
        ("3", ("1",), True, "cycle"),
        ("4", (), True, "cycle"),
        ("5", (), True, "cycle"),
        ("6", (), True, "cycle"),
        ("7", ("3",), False, "duplicate"),
    ]


FILE = """set_id,prompt,question_id,question,tuple,category,parents,valid
a,A triumph,1,Is there a chariot?,entity - whole (chariot),entity,0,
a,A triumph,2,Is the chariot golden?,"attribute - color (chariot, golden)",attribute,1,yes
a,A triumph,3,Is there an image?,,,0,
a,A triumph,4,Is the chariot golden?,,,"[1]",
,Another text,1.0,Is it day?,,,,no
"""


def test_from_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "q.csv").write_text(FILE)
    keys = [f"input={tmp_path}/q.csv", f"out={tmp_path}/R"]
    assert cli.main("questions", [*keys, "plan=true"]) == 0
    assert not (tmp_path / "R").exists()
    assert cli.main("questions", keys) == 0
    rows = rows_of(f"{tmp_path}/R")
    seen = [(r["set_id"], r["question_id"], r["parents"], r["valid"], r["fault"], r["line"]) for r in rows]
    assert seen == [
        ("a", "1", [], True, None, 2),
        ("a", "2", ["1"], True, None, 3),
        ("a", "3", [], False, "asks_for_the_picture", 4),
        ("a", "4", ["1"], False, "duplicate", 5),
        (set_id_of("Another text"), "1", [], False, "marked_invalid", 6),
    ]
    assert (rows[1]["tuple"], rows[1]["category"], rows[1]["about"]) == (
        "attribute - color (chariot, golden)", "attribute", "A triumph",
    )  # fmt: skip
    printed = capsys.readouterr().out
    assert f"questions: {tmp_path}/R\n  5 in = 5 out\n" in printed
    assert "5 questions in 2 sets, 2 valid" in printed
    assert "asks_for_the_picture 1" in printed
    (tmp_path / "q.csv").write_bytes("set_id;question_id;question,de\na;1;Café,?\n".encode("cp1252"))
    more = ["encoding=cp1252", "delimiter=';'", "columns.question='question,de'", "overwrite=true"]
    assert cli.main("questions", [*keys, *more]) == 0
    assert [row["text"] for row in rows_of(f"{tmp_path}/R")] == ["Café,?"]


def test_a_plan_of_a_file_counts_its_questions_and_a_limit_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "q.csv").write_text(FILE)
    keys = [f"input={tmp_path}/q.csv", f"out={tmp_path}/R"]
    assert cli.main("questions", [*keys, "plan=true"]) == 0
    assert "would write 5 questions in 2 sets" in capsys.readouterr().out
    for key in ("limit=3", "plan=calibrate"):
        assert cli.main("questions", [*keys, key]) == 2
        assert f"{key}: " in capsys.readouterr().err
    assert not (tmp_path / "R").exists()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"[1]"', '"[7]"', "line 5: unknown_parent: question '4' of set 'a' has the parent '7'"),
        ("chariot),entity,0", "chariot),entity,2", "line 2: cycle: questions '1' (line 2), '2' (line 3) of set 'a'"),
        ("a,A triumph,4", "a,A triumph,2", "question '2' of set 'a' is also in line 3"),
        ("1.0,Is it day?", "1.0,", "line 6: the question is empty"),
        (",Another text", ",", "line 6: the set is empty"),
        (",,no", ",,perhaps", "line 6: valid is 'perhaps'; must be yes or no"),
        ("question_id,question,", "question_id,ask,", "columns.question= is required"),
    ],
)
def test_faults_of_a_file_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, message: str
) -> None:
    (tmp_path / "q.csv").write_text(FILE.replace(old, new, 1))
    keys = [f"input={tmp_path}/q.csv", f"out={tmp_path}/R"]
    assert cli.main("questions", keys) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "R").exists()
    fault = next((kind for kind in ("unknown_parent", "cycle", "no_question") if kind in message), None)
    fault = "no_question" if "question is empty" in message else fault
    if "is also in" in message:
        assert cli.main("questions", [*keys, "faults=mark"]) == 0
        assert [(r.position, r.reason) for r in open_table(f"{tmp_path}/R").rejects()] == [(5, "duplicate_id")]
        return
    assert cli.main("questions", [*keys, "faults=mark"]) == (0 if fault else 2)
    if fault:
        assert any(fault in (row["fault"] or "") for row in rows_of(f"{tmp_path}/R"))


def test_released_files_of_dsg(tmp_path: Path, data: Path) -> None:
    keys = [f"input={data}/dsg/tifa160-dev-anns.csv", f"out={tmp_path}/R"]
    assert cli.main("questions", [*keys, "faults=mark"]) == 0
    rows = rows_of(f"{tmp_path}/R")
    assert (len(rows), len({row["set_id"] for row in rows})) == (917, 160)
    assert Counter(fault for row in rows if row["fault"] for fault in row["fault"].split(", ")) == {
        "no_question": 77, "asks_for_the_picture": 2, "unknown_parent": 2, "duplicate": 1, "not_yes_or_no": 1,
    }  # fmt: skip
    assert open_table(f"{tmp_path}/R").counts().rejected == {"duplicate_id": 3}


ANSWERS = {
    "tuples": "1 | entity - whole (Luperci)\n2 | attribute - state (Luperci, run)\n3 | entity - whole (image)\n"
    "and so on\n4 | entity - whole (hill)",
    "questions": "1 | Are there Luperci?\n2 | Do the Luperci run?\n3 | Is there an image?",
    "parents": "1 | 0\n2 | 1\n3 | 8",
}


@pytest.fixture
def texts(tmp_path: Path) -> list[str]:
    rows = [("p1", "prompt", "Luperci run."), ("p2", "prompt", "Luperci  run. "), ("p3", "prompt", "Nothing"),
            ("d", "document", "A book"), ("e", "prompt", " ")]  # fmt: skip
    table = write_table(
        tmp_path / "texts", "texts", [{"text_id": i, "role": role, "text": text} for i, role, text in rows]
    )
    return [f"texts={table}", "model=local-text-tiny", f"out={tmp_path}/R", "max_tokens=8"]


@pytest.mark.usefixtures("in_process")
def test_written_by_a_model(
    tmp_path: Path, texts: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def scripted(_: Any, step: str, graphs: list[Any]) -> list[str]:
        return ["I cannot." if graph.text == "Nothing" else ANSWERS[step] for graph in graphs]

    monkeypatch.setattr(QuestionWriter, "_answers", scripted)
    assert cli.main("questions", texts) == 0
    set_id = set_id_of("Luperci run.")
    rows = rows_of(f"{tmp_path}/R")
    assert [(r["set_id"], r["question_id"], r["parents"], r["valid"], r["fault"], r["line"]) for r in rows] == [
        (set_id, "1", [], True, None, 1),
        (set_id, "2", ["1"], True, None, 2),
        (set_id, "3", [], False, "asks_for_the_picture, unknown_parent", 3),
    ]
    assert (rows[1]["text"], rows[1]["category"], rows[1]["about"]) == (
        "Do the Luperci run?", "attribute", "Luperci run.",
    )  # fmt: skip
    rejects = [(r.file, r.position, r.reason) for r in open_table(f"{tmp_path}/R").rejects()]
    assert rejects == [
        (f"set {set_id}, tuples", 4, "unparsed"),
        (f"set {set_id}, questions", 5, "no_question"),
        (f"set {set_id_of('Nothing')}, tuples", 1, "unparsed"),
        (f"set {set_id_of('Nothing')}, tuples", 0, "no_questions"),
    ]
    assert "3 questions in 1 set, 2 valid" in capsys.readouterr().out


@pytest.mark.usefixtures("in_process")
def test_an_answer_that_cannot_be_read_costs_no_other_text(
    tmp_path: Path, texts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    parse = scene_graphs.parse

    def cursed(step: str, answer: str, **named: Any) -> Any:
        if answer == "I cannot.":
            raise IndexError("cursed")
        return parse(step, answer, **named)

    def scripted(_: Any, step: str, graphs: list[Any]) -> list[str]:
        return ["I cannot." if graph.text == "Nothing" else ANSWERS[step] for graph in graphs]

    monkeypatch.setattr(QuestionWriter, "_answers", scripted)
    monkeypatch.setattr(scene_graphs, "parse", cursed)
    assert cli.main("questions", texts) == 0
    assert open_table(f"{tmp_path}/R").rows == 3
    (reject,) = (r for r in open_table(f"{tmp_path}/R").rejects() if r.reason == "no_questions")
    assert (reject.file, reject.raw) == (f"set {set_id_of('Nothing')}, tuples", "IndexError: cursed")


@pytest.mark.usefixtures("in_process")
def test_a_text_without_an_answer_names_the_models_error(
    tmp_path: Path, texts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first error of a text is kept: `parse` of what follows it finds nothing."""

    def scripted(_: Any, step: str, graphs: list[Any]) -> list[str | ScoringError]:
        error = ScoringError("out_of_memory", "too little memory")
        return [error if graph.text == "Nothing" else ANSWERS[step] for graph in graphs]

    monkeypatch.setattr(QuestionWriter, "_answers", scripted)
    assert cli.main("questions", texts) == 0
    (reject,) = (r for r in open_table(f"{tmp_path}/R").rejects() if r.reason == "no_questions")
    assert (reject.file, reject.raw) == (f"set {set_id_of('Nothing')}, tuples", "out_of_memory: too little memory")


@pytest.mark.usefixtures("in_process")
def test_a_model_of_random_weights_writes_no_question(tmp_path: Path, texts: list[str]) -> None:
    with secrets_found.planting() as printed:
        assert cli.main("questions", texts) == 0
    assert secrets_found.leaks([f"{tmp_path}/R"], printed.getvalue()) == []
    source = open_table(f"{tmp_path}/R")
    assert source.rows == 0
    assert source.counts().rejected["no_questions"] == 2
    assert source.counts().balances()


def test_refused(tmp_path: Path, texts: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    cases = [
        (["input=q.csv"], "exactly one of input="),
        (["role=nothing"], "role=nothing: no text of"),
        (["samples=2"], "samples=2: must be 1"),
        (["unit_rows=0"], "unit_rows=0: must be at least 1"),
        (["faults=ignore"], "faults=ignore: must be one of refuse, mark"),
        (["scene_graph.steps.tuples=null"], "steps, tuples"),
        (["model.checkpoint=local:no-such"], "model.checkpoint=local:no-such: no such local model"),
    ]

    def check(arguments: list[str], message: str) -> None:
        assert cli.main("questions", [*texts, *arguments]) == 2
        assert message in capsys.readouterr().err
        assert not (tmp_path / "R").exists()

    check_cases(check, cases)
