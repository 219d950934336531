"""The prompts about a picture, rendered from the rubric that the ratings keep and the picture's record."""

from pathlib import Path

import yaml

from actors.rubrics.rubric import Rubric
from actors.rubrics.rubric_questions import ANY
from jobs.judging.kept_rubric import KeptRubric, Rubrics, of_rubric
from jobs.judging.sent_prompts import PromptTexts, as_context
from jobs.page.build import prompts as page_prompts
from jobs.store.reading import open_table
from tests.factories import FIVE, write_table

README = Path(__file__).parents[3] / "README.md"
CENTURY = Path(__file__).parents[3] / "conf" / "rubric" / "century_labels.yaml"


def test_a_prompt_has_the_record_the_picture_and_each_question(tmp_path: Path) -> None:
    data = yaml.safe_load(CENTURY.read_text(encoding="utf-8"))
    rubrics = Rubrics({"century_labels": of_rubric(Rubric.from_dict(data), data), "r": FIVE})
    record = {"record_id": "1", "image_id": "a", "page_title": "Siege of Leningrad"}
    prompts = PromptTexts(rubrics, [open_table(write_table(tmp_path / "records", "records", [record]))])
    assert "page_title" in prompts.record_columns
    asked = [("century_labels", "sensitive", ""), ("century_labels", "concept", ""), ("r", "fit", "")]
    (prompt,) = prompts.of_item("a", {}, asked)
    whole = [prompt.shared + text for _, text in prompt.ends]
    assert [name for name, _ in prompt.ends] == ["sensitive", "concept"]
    assert all("Siege of Leningrad" in text and "[picture]" in text for text in whole)
    (pair,) = prompts.of_item("a", {}, asked, pictures=2)
    assert "[all pictures]" in pair.shared + pair.ends[0][1]
    (alone,) = prompts.of_item("missing", {}, [*asked[:1], *asked[:1]])
    assert "Siege" not in alone.shared + alone.ends[0][1]
    assert [name for name, _ in alone.ends] == ["sensitive"]
    (other,) = prompts.of_item("a", {"page_title": "Another title"}, asked)
    assert "Another title" in other.shared + other.ends[0][1]
    assert prompts.of_item("a", {}, [("r", "fit", "")]) == []
    assert prompts.of_item("a", {}, [("century_labels", "none", "")]) == []
    for damaged in ({**data, "layout": "none"}, {**data, "parts": {**data["parts"], "question": "{{ question"}}):
        broken = Rubrics({"century_labels": KeptRubric("rubric", "century_labels", (), damaged)})
        assert PromptTexts(broken, []).of_item("a", {}, asked) == []
    assert as_context({"a": None, "b": ["x", "y"], "c": 3, "d": ""}) == {"b": "x, y", "c": "3", "d": ""}


def test_a_rubrics_prompts_are_those_of_its_own_questions_each_once() -> None:
    data = yaml.safe_load(CENTURY.read_text(encoding="utf-8"))
    other = data | {"name": "other"}
    rubrics = Rubrics({rubric["name"]: of_rubric(Rubric.from_dict(rubric), rubric) for rubric in (data, other)})
    asked = [("other", "concept", ""), ("century_labels", "sensitive", ""), ("other", "concept", "")]
    prompts = PromptTexts(rubrics, []).of_item("a", {}, asked)
    assert {prompt.rubric: [name for name, _ in prompt.ends] for prompt in prompts} == {
        "century_labels": ["sensitive"],
        "other": ["concept"],
    }


def test_the_place_of_an_items_own_questions_is_not_a_question_that_was_asked() -> None:
    """An item without a set of questions has a rating of `*`, for which there was no prompt."""
    data = yaml.safe_load((CENTURY.parent / "dsg.yaml").read_text(encoding="utf-8"))
    rubrics = Rubrics({"dsg": of_rubric(Rubric.from_dict(data), data)})
    assert PromptTexts(rubrics, []).of_item("a", {}, [("dsg", ANY, ""), ("dsg", "q1", "")]) == []


def test_the_readmes_rubric_has_prompts_too() -> None:
    text = README.read_text(encoding="utf-8").split("```yaml\n")[1].split("```")[0]
    data = yaml.safe_load(text)
    rubrics = Rubrics({"mood": of_rubric(Rubric.from_dict(data), data)})
    (prompt,) = PromptTexts(rubrics, []).of_item("a", {}, [("mood", "shown", "joy"), ("mood", "figures", "")])
    shown, figures = (text for _, text in prompt.ends)
    assert "joy" in shown
    assert "1, 2, 3, 4, 5" in shown
    assert "A = yes" in figures
    assert "asked about" not in figures
    assert "{{ question }}" in page_prompts(rubrics)["mood"]
    assert page_prompts(Rubrics({"r": FIVE})) == {}
