"""The worker that has a model write questions: what it asks in each step, and what it makes of the answers."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
import yaml

from actors.rubrics.scene_graphs import STEPS, SceneGraphInstructions
from actors.rubrics.thoughts import Written
from actors.vlm.errors import ScoringError
from actors.vlm.generation import Generated, sample_seed
from actors.vlm.settings import ModelSettings, SamplingSettings
from jobs.errors import InputError
from jobs.judging.own_questions import set_id_of
from jobs.questioning import question_writer as writer_module
from jobs.questioning.question_writer import TEXTS, QuestionWriter, read_units
from jobs.runtime.configuration.config_files import CONF
from jobs.store.counts import Counts
from jobs.store.reading import open_table
from jobs.store.units import Unit
from jobs.store.writer import RAW_KEPT, Reject, UnitTask
from tests.factories import write_units

INSTRUCTIONS = yaml.safe_load((CONF / "scene_graph" / "dsg.yaml").read_text(encoding="utf-8")) | {"system": "Be brief."}
SETTINGS = SamplingSettings(seed=3, temperature=0.5, memory_budget_gb=2.0, group_rows=4)
MODEL = ModelSettings(checkpoint="me/seven", revision="r", dtype="float32", device_map="cpu", offload=True)


class LetterChat:
    """Tokens are characters, and data is in angle brackets."""

    def as_data(self, text: str) -> str:
        return f"<{text}>"

    def encode(self, turn: list[str], pictures: list[Any], *, system: str) -> tuple[str, str]:
        assert pictures == []
        return turn[0], system

    def written(self, tokens: list[int]) -> Written:
        return Written("a thought", "".join(map(chr, tokens)))


class ScriptedEngine:
    """Answers each call with the next entry of `script`, and keeps what it was asked."""

    def __init__(self) -> None:
        self.script: list[list[str | ScoringError]] = []
        self.asked: list[dict[str, Any]] = []
        self.on_tokens: Any = None

    def generate(self, prompts: Sequence[Any], **keys: Any) -> Iterator[Any]:
        self.asked.append({"prompts": prompts, **keys})
        self.on_tokens(len(prompts))
        for answer in self.script.pop(0):
            if isinstance(answer, str):
                text, cut, _ = answer.partition("#")
                yield [Generated(list(map(ord, text)), "length" if cut else "stop")]
            else:
                yield answer


class Rows:
    """Stands for a unit's writer."""

    def __init__(self) -> None:
        self.counts, self.rows, self.rejects = Counts(), list[dict[str, Any]](), list[Reject]()

    def write(self, rows: pa.Table) -> None:
        self.rows += rows.to_pylist()
        self.counts.rows_out += rows.num_rows

    def reject(self, reject: Reject) -> None:
        self.rejects.append(reject)
        self.counts.rejected[reject.reason] += 1


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> QuestionWriter:
    def load(settings: object, model: object, threads: object) -> tuple[ScriptedEngine, LetterChat, SimpleNamespace]:
        assert (settings, model, threads) == (SETTINGS, MODEL, None)
        return ScriptedEngine(), LetterChat(), SimpleNamespace(tally="rater/qwen2|abc|float32|torch 2/cpu")

    monkeypatch.setattr(writer_module, "load_in_transformers", load)
    return QuestionWriter(instructions=INSTRUCTIONS, model=MODEL, settings=SETTINGS)


def run(worker: Any, script: list[list[str | ScoringError]], texts: list[str], **extra: Any) -> tuple[Rows, list[Any]]:
    """Return what is written about texts with the ids s0, s1, … and what is reported."""
    worker.engine.script = script
    rows, reported = Rows(), list[Any]()
    report = SimpleNamespace(add=lambda done, **notes: reported.append((done, notes)))
    unit = Unit("u", (), extra={TEXTS: [(f"s{n}", text) for n, text in enumerate(texts)], **extra})
    worker(UnitTask(unit), rows, report)
    return rows, reported


def test_each_step_asks_about_the_texts_that_have_tuples(worker: Any) -> None:
    """An answer that was cut loses its last line; a text without tuples is not asked about again."""
    script: list[list[str | ScoringError]] = [
        ["1 | entity - whole (dog)\n2 | entity - whole (cat)\n3 | entity - who#", ScoringError("oom", "too large")],
        ["2 | Is there a cat?\n1 | Is there a dog?\n7 | No?"],
        ["1 | 2#\n2 | 1"],
    ]
    rows, reported = run(worker, script, ["A dog\nand a cat.", "Nothing."])
    about = {row["about"] for row in rows.rows}
    assert [(row["set_id"], row["question_id"], row["text"], row["parents"]) for row in rows.rows] == [
        ("s0", "1", "Is there a dog?", []), ("s0", "2", "Is there a cat?", []),
    ]  # fmt: skip
    assert about == {"A dog\nand a cat."}
    assert [(reject.file, reject.position, reject.reason, reject.raw) for reject in rows.rejects] == [
        ("set s0, questions", 3, "unknown_number", "7 | No?"),
        ("set s1, tuples", 0, "no_questions", "oom: too large"),
    ]
    assert rows.rejects[0].message == "no tuple has this number"
    assert rows.counts.rows_in == 4
    assert rows.counts.tallies == {
        "sets": {"asked": 2, "without questions": 1}, "rater": {"qwen2|abc|float32|torch 2/cpu": 2}
    }  # fmt: skip
    assert reported == [(0, {"tokens": 2}), (0, {"tokens": 1}), (0, {"tokens": 1}), (1, {}), (1, {})]
    instructions = SceneGraphInstructions.from_dict(INSTRUCTIONS)
    tuples = "<1 | entity - whole (dog)\n2 | entity - whole (cat)>"
    texts = {"tuples": ["<A dog\nand a cat.>", "<Nothing.>"], "questions": ["<A dog\nand a cat.>"]}
    for step, asked in zip(STEPS, worker.engine.asked, strict=True):
        prompts = [
            instructions.prompt(step, text, "<>" if step == "tuples" else tuples)
            for text in texts.get(step, texts["questions"])
        ]
        assert asked["prompts"] == [(prompt, "Be brief.") for prompt in prompts]
        assert asked["seeds"] == [[sample_seed(3, f"{step}\x1fs{n}", 0)] for n in range(len(prompts))]
        assert asked["sampling"] == SETTINGS.sampling


def test_a_limit_and_texts_without_tuples_cost_no_further_step(worker: Any) -> None:
    rows, reported = run(worker, [["I cannot say. " + "x" * RAW_KEPT]], ["one", "two"], limit=1)
    assert (rows.rows, len(worker.engine.asked), reported[1:]) == ([], 1, [(1, {})])
    assert [(reject.reason, reject.raw) for reject in rows.rejects] == [
        ("unparsed", ("I cannot say. " + "x" * RAW_KEPT)[:RAW_KEPT]), ("no_questions", "one"),
    ]  # fmt: skip
    assert rows.counts.tallies["sets"] == {"asked": 1, "without questions": 1}


def test_a_failure_of_a_later_step_leaves_the_reason(worker: Any) -> None:
    """A tuple without parents has none; without questions, the first error is that of the text."""
    tuples = "1 | entity - whole (dog)"
    first, second = ScoringError("oom", "too large"), ScoringError("nan", "not a number")
    (reject, missing) = reversed(run(worker, [[tuples], [first], [second]], ["A dog."])[0].rejects)
    assert (reject.raw, missing.reason, missing.raw) == ("oom: too large", "no_question", "1 | entity - whole (dog)")
    rows, _ = run(worker, [[tuples], ["1 | Is there a dog?"], [second]], ["A dog."])
    assert ([row["parents"] for row in rows.rows], rows.rejects) == ([[]], [])


def test_the_model_is_loaded_with_the_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_module, "load_in_transformers", lambda *arguments: (arguments, None, None))
    for number in (None, 3):
        worker: Any = QuestionWriter(instructions=INSTRUCTIONS, model=MODEL, settings=SETTINGS, threads=number)
        assert worker.engine == (SETTINGS, MODEL, number)


def test_each_text_of_the_role_is_in_one_unit(tmp_path: Path) -> None:
    rows: list[list[tuple[str, str | None]]] = [
        [("prompt", "a"), ("caption", "x"), ("prompt", "b"), ("prompt", " "), ("prompt", None)],
        [("prompt", " a "), ("prompt", "c"), ("prompt", "d d"), ("prompt", "d\n d"), ("prompt", "e")],
    ]
    units = [[{"text_id": f"{n}{role}{text}", "role": role, "text": text} for role, text in of_unit]
             for n, of_unit in enumerate(rows)]  # fmt: skip
    source = open_table(write_units(tmp_path / "texts", "texts", units))

    def texts(size: int, role: str = "prompt") -> list[list[str]]:
        read = read_units(source, role=role, unit_rows=size)
        assert [unit.rows for unit in read] == [len(unit.extra[TEXTS]) for unit in read]
        assert all(set_id == set_id_of(text) for unit in read for set_id, text in unit.extra[TEXTS])
        assert len({unit.name for unit in read}) == len(read)
        return [[text for _, text in unit.extra[TEXTS]] for unit in read]

    assert texts(2) == [["a", "b"], ["c", "d d"], ["e"]]
    assert texts(5) == [["a", "b", "c", "d d", "e"]]
    assert texts(9) == [["a", "b", "c", "d d", "e"]]
    assert texts(1, "caption") == [["x"]]
    with pytest.raises(InputError, match="role=title: no text"):
        texts(2, "title")
