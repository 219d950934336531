"""The shared text and the suffix of prompts; context is data."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from actors.rubrics.prompts import Prompt, PromptBuilder
from actors.rubrics.rubric import Rubric
from actors.vlm import context
from tests.actors.vlm.helpers import readme_rubric


def shared_text(prompt: Prompt) -> str:
    return "".join(piece for piece in prompt.shared if isinstance(piece, str))


def test_order_of_the_two_layouts(small: dict[str, Any]) -> None:
    rubric = Rubric.from_dict(small)
    scale = "1 = Not relevant\n2 = Somewhat relevant\n3 = Relevant"
    question = "How relevant is a culture to the picture? The culture is Melanesia."
    context = {"title": "Kula", "article": "Rings."}
    paper = PromptBuilder(rubric, layout="paper").prompts(context, targets=rubric.targets)
    fast = PromptBuilder(rubric).prompts(context, targets=rubric.targets)
    assert [target.target for target in fast] == ["Melanesia", "Northern Africa"]
    assert paper[0].prompt == Prompt((None, "Title: Kula\nRings.\n\n"), f"{question}\n\n{scale}")
    assert fast[0].prompt == Prompt((None, "Title: Kula\nRings.\n\n", f"{scale}\n\n"), question)
    assert fast[1].prompt.suffix.endswith("The culture is Northern Africa.")
    assert fast[0].prompt.messages("P") == [
        {
            "role": "user",
            "content": [
                {"type": "image", "image": "P"},
                {"type": "text", "text": f"Title: Kula\nRings.\n\n{scale}\n\n{question}"},
            ],
        }
    ]


def test_century_puts_the_picture_where_the_layout_says(century: dict[str, Any]) -> None:
    rubric = Rubric.from_dict(century)
    context = {"page_title": "Cry of Dolores", "caption_reference_description": "A statue"}
    paper, fast = (PromptBuilder(rubric, layout=layout).prompts(context) for layout in ("paper", "fast"))
    assert [target.question.name for target in fast] == [question.name for question in rubric.questions]
    for target in paper:
        assert any("Title: Cry of Dolores" in str(piece) for piece in target.prompt.shared)
        assert target.prompt.shared[-1] is None
        assert [piece["type"] for piece in target.prompt.messages("P")[0]["content"]] == ["text", "image", "text"]
    for target in fast:
        assert target.prompt.shared[0] is None
        assert any("A statue" in str(piece) for piece in target.prompt.shared)
    assert [target.prompt.suffix for target in fast] == [target.prompt.suffix for target in paper]
    assert "Note:" not in fast[0].prompt.suffix
    assert "Note:" in fast[5].prompt.suffix


SHORT_SCALES = {
    "shown": "Possible answers: 1, 2, 3, 4, 5\n\nReply with one of these numbers and nothing else.\n\n",
    "figures": "Possible answers:\nA = yes\nB = no\n\nReply with the code of one answer and nothing else.\n\n",
}


def test_a_short_rubric_names_the_target_on_the_next_line() -> None:
    rubric = Rubric.from_dict(readme_rubric())
    assert rubric.context_fields == ()
    shown, figures = rubric.questions
    asked = PromptBuilder(rubric).prompts_about({"page_title": "Kula"}, [("joy", shown), ("", figures)])
    introduction = "Look at the picture and answer a question about it.\n\n"
    for target in asked:
        assert target.prompt.shared == (None, introduction), "no column is sent that the rubric does not name"
    questions = ("How strongly does the picture show this feeling?\nIt is asked about: joy", figures.text)
    assert [target.prompt.suffix for target in asked] == [
        f"{SHORT_SCALES[question.name]}Question: {text}"
        for question, text in zip((shown, figures), questions, strict=True)
    ]


def test_a_short_rubric_without_targets_asks_the_question_alone() -> None:
    rubric = Rubric.from_dict({**readme_rubric(), "targets": None})
    for target in PromptBuilder(rubric).prompts({}):
        assert target.prompt.suffix == f"{SHORT_SCALES[target.question.name]}Question: {target.question.text}"


def test_no_context_leaves_its_parts_out(century: dict[str, Any]) -> None:
    for asked in PromptBuilder(Rubric.from_dict(century)).prompts({}):
        text = shared_text(asked.prompt)
        assert text.startswith("You label pictures")
        assert "# The article" not in text
        assert "# What is said" not in text
        assert "\n\n\n" not in text + asked.prompt.suffix


def test_context_is_data(small: dict[str, Any]) -> None:
    attack = "{{ ''.__class__ }} {% raw %} {{ target }} {# gone #}"
    for asked in PromptBuilder(Rubric.from_dict(small)).prompts({"article": attack}, targets=("Melanesia",)):
        assert attack in shared_text(asked.prompt)


def test_shared_and_suffix_are_cut_between_tokens(century: dict[str, Any], vlm: tuple[Any, Any]) -> None:
    tokenizer = vlm[1].tokenizer
    context = {"page_title": "War...", "context_section_description": "It ended.\n\nThen (", "section_title": "\n"}
    for layout in ("paper", "fast"):
        for asked in PromptBuilder(Rubric.from_dict(century), layout=layout).prompts(context):
            after, suffix = shared_text(asked.prompt), asked.prompt.suffix
            assert not after or after.endswith("\n")
            assert suffix == suffix.strip()
            apart = tokenizer(after)["input_ids"] + tokenizer(suffix)["input_ids"]
            assert tokenizer(after + suffix)["input_ids"] == apart


class Letters:
    """A tokenizer with one token per letter."""

    def as_data(self, text: str) -> str:
        return text

    def token_starts(self, text: str) -> list[int]:
        return list(range(len(text)))


@settings(deadline=None, max_examples=60)
@given(
    article=st.text("ab", max_size=40),
    limit=st.integers(1, 30),
    others=st.integers(0, 30),
    token_budget=st.integers(1, 40),
)
def test_a_context_is_cut_until_the_whole_fits(article: str, limit: int, others: int, token_budget: int) -> None:
    output, cut = context.fitted(
        {"article": article},
        lambda message: (message["article"], others + len(message["article"]) - token_budget),
        fields=("article",),
        first=("article",),
        limit=limit,
        by=Letters(),
    )
    kept = min(len(article), limit, max(0, token_budget - others))
    assert output == article[:kept]
    assert cut == (None if kept == len(article) else ["article"])


def test_the_answer_is_reserved_is_a_quarter_at_the_most() -> None:
    assert context.token_budget(None, 10) is None
    assert context.token_budget(1000, 10) == 990
    assert context.token_budget(1000, 1024) == 750


@settings(deadline=None, max_examples=60)
@given(title=st.text("ab", max_size=6), article=st.text("cd", max_size=9), limit=st.integers(1, 20))
def test_cut_takes_the_articles_end_first(title: str, article: str, limit: int) -> None:
    texts, fields, kept = context.cut(
        {"title": title, "article": article},
        fields=("title", "article"),
        first=("article",),
        limit=limit,
        by=Letters(),
    )
    assert kept == min(limit, len(title + article))
    assert fields == [name for name, whole in (("title", title), ("article", article)) if texts[name] != whole]
    # one letter is one token here: the title is touched only once the article is gone
    assert texts["title"] == title[:limit]
    assert texts["article"] == article[: max(0, limit - len(title))]


def test_white_space_around_a_context_is_left_out_of_the_prompt() -> None:
    rubric = Rubric.from_dict(readme_rubric() | {"context": {"fields": ["page_title"]}})
    shown, _ = rubric.questions
    about = [
        PromptBuilder(rubric).prompts_about({"page_title": title}, [("joy", shown)]) for title in ("Kula", " Kula\n")
    ]
    assert about[0] == about[1]
    blank, missing = (PromptBuilder(rubric).prompts_about(context, [("joy", shown)])[0].prompt.shared
                      for context in ({"page_title": " \n"}, {}))  # fmt: skip
    assert blank == missing
    assert not any("About the picture" in str(part) for part in blank)


def test_a_short_rubric_sends_the_fields_of_its_context() -> None:
    rubric = Rubric.from_dict(readme_rubric() | {"context": {"fields": ["page_title", "year"], "cut": ["year"]}})
    assert (rubric.context_fields, rubric.context_cut) == (("page_title", "year"), ("year",))

    def sent(**context: str) -> list[str]:
        prompt = PromptBuilder(rubric).prompts(context | {"region": "Asia"}, targets=["joy"])[0].prompt
        return [str(piece) for piece in prompt.shared[2:]]

    assert sent() == []
    assert sent(page_title="Kula") == ["About the picture:\npage title: Kula\n\n"]
    assert sent(page_title="Kula", year="1900") == ["About the picture:\npage title: Kula\nyear: 1900\n\n"]
    assert sent(year="1900", page_title=" ") == ["About the picture:\nyear: 1900\n\n"]
