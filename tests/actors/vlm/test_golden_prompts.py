"""Century's prompts, rendered, against golden files; to change them, run with UPDATE_GOLDEN=1 and read them.

A picture is written as [picture], the beginning of the model's turn as [answer].
"""

import os
from pathlib import Path
from typing import Any

import pytest
import yaml

from actors.rubrics.instructions import Instruction, asked_questions
from actors.rubrics.pieces import Piece
from actors.rubrics.prompts import PromptBuilder
from actors.rubrics.rubric import Rubric
from tests.actors.vlm.helpers import CONF

GOLDEN = Path(__file__).parent / "golden"
SECTION = {
    "page_title": "Coal strike of 1922",
    "section_title": "Aftermath",
    "context_section_description": "Six mines stayed closed until spring.",
    "context_page_description": "The coal strike of 1922 was a strike of miners.",
    "caption_reference_description": "Miners in front of a closed gate",
    "caption_attribution_description": "English: Photograph of miners, 1922",
}
LEAD = {  # a main image: WIT repeats the beginning of the article as the text of its section
    **SECTION,
    "section_title": "",
    "context_section_description": SECTION["context_page_description"],
    "caption_reference_description": "",
}
GENERATED = {**SECTION, "generated": "Men stand before a gate. They may be {{ miners }}."}
RENDERED = {
    "century_labels-section": ("century_labels", "paper", SECTION),
    "century_labels-lead": ("century_labels", "fast", LEAD),
    "century_contextualisation": ("century_contextualisation", "paper", GENERATED),
}
WRITTEN = {
    "rubric_json": ("rubric_json", "century_labels", SECTION),
    "rubric_json_response": ("rubric_json_response", "century_contextualisation", GENERATED),
    "explicit": ("explicit", None, {}),
    "minimal": ("minimal", None, {}),
    "explicit_context": ("explicit_context", None, LEAD),
    "page_titles": (
        "page_titles",
        None,
        {"titles": "2", "categories": "- reform: protest", "sub_regions": "Melanesia"},
    ),
}


def load(group: str, name: str) -> Any:
    return yaml.safe_load((CONF / group / f"{name}.yaml").read_text(encoding="utf-8"))


def as_text(pieces: list[Piece]) -> str:
    return "\n\n".join(piece.strip() if isinstance(piece, str) else "[picture]" for piece in pieces) + "\n"


def closed_prompts(rubric: str, layout: str, context: dict[str, str]) -> str:
    """Return what the prompts of one item share, and then the end of each, after a line of dashes."""
    asked = PromptBuilder(Rubric.from_dict(load("rubric", rubric)), layout=layout).prompts(context)
    return "\n---\n\n".join([as_text(list(asked[0].prompt.shared)), *(as_text([a.prompt.suffix]) for a in asked)])


def instruction(prompt: str, rubric: str | None, context: dict[str, str]) -> str:
    questions = asked_questions(Rubric.from_dict(load("rubric", rubric))) if rubric else []
    parts = Instruction.from_dict(load("prompt", prompt))
    start = parts.begin()
    return as_text(parts.render(context, questions=questions)) + (f"\n[answer]\n\n{start}" if start else "")


def rendered(name: str) -> str:
    return closed_prompts(*RENDERED[name]) if name in RENDERED else instruction(*WRITTEN[name])


@pytest.mark.parametrize("name", [*RENDERED, *WRITTEN])
def test_prompt(name: str) -> None:
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(rendered(name), encoding="utf-8")
    assert rendered(name) == path.read_text(encoding="utf-8")


def test_no_text_is_given_twice() -> None:
    for name in ("century_labels-lead", "explicit_context"):
        assert rendered(name).count(LEAD["context_page_description"]) == 1
    same = {**SECTION, "caption_reference_description": SECTION["context_section_description"]}
    for text in (closed_prompts("century_labels", "paper", same), instruction("rubric_json", "century_labels", same)):
        assert text.count(SECTION["context_section_description"]) == 1
        assert "What is said about the picture" not in text


def test_the_context_is_title_one_text_and_one_description() -> None:
    text = closed_prompts("century_labels", "paper", SECTION)
    assert [field for field, value in SECTION.items() if value in text] == [
        "page_title",
        "context_section_description",
        "caption_reference_description",
    ]
    assert LEAD["caption_attribution_description"] in closed_prompts("century_labels", "paper", LEAD)


def test_parts_are_in_the_papers_order() -> None:
    labels = closed_prompts("century_labels", "paper", SECTION)  # figure 5
    places = [labels.index(word) for word in ("You label", "Title:", "Miners in front", "[picture]", "# Question")]
    assert places == sorted(places)
    response = instruction("rubric_json_response", "century_contextualisation", GENERATED)  # figure 10
    parts = ("You assess", "[picture]", "Men stand", "Title:", "## beginner_friendly", "## factual_errors", "JSON")
    places = [response.index(word) for word in parts]
    assert places == sorted(places)
    assert GENERATED["generated"] in response  # data, not a template
