"""What models write before their answers, in the marks of several families."""

from actors.rubrics.parsing import parse_answers
from actors.rubrics.rubric import Rubric
from actors.rubrics.thoughts import ANY, closing
from actors.status import Status
from actors.vlm.refusals import RefusalRules
from tests.cases import check_cases

ANSWER = '{"shown": 4}'
PAIRS = [
    ("<think>", "</think>"),
    ("<thinking>\n", "\n</thinking>\n\n"),
    ("<THINK>", "</THINK>"),
    ("<thought>", "</thought>"),
    ("<seed:think>", "</seed:think>"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<think:open>", "</think:open>"),
    ("[THINK]", "[/THINK]"),
    ("[ THINK]", "[ /THINK]"),
    ("◁think▷", "◁/think▷"),
    ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
    ("<|channel|>analysis<|message|>", "<|end|>"),
    ("<|channel>thought\n", "<channel|>"),
]


def test_a_thought_is_apart_from_the_answer() -> None:
    def check(opening: str, closing: str) -> None:
        thought = 'Maybe {"shown": 2}? I cannot say.'
        assert ANY.split(f"{opening}{thought}{closing}{ANSWER}")[:2] == (thought, ANSWER)
        assert ANY.split(f"{thought}{closing}{ANSWER}", opened=True)[:2] == (thought, ANSWER)
        assert ANY.split(f"{opening}{thought}")[:2] == (thought, "")
        assert ANY.split(f"{opening}\n\n{closing}{ANSWER}")[:2] == ("", ANSWER)
        assert ANY.unclosed(f"turn\n{opening}\n") == opening.strip()
        assert ANY.unclosed(f"turn\n{opening}\n\n{closing}\n\n") == ANY.unclosed(f"turn\n{closing}") == ""

    check_cases(check, PAIRS)


def test_other_texts_have_no_thought() -> None:
    for text in (
        "",
        "I think so.",
        "<thinker>",
        "[think]",
        "a < b > c",
        "<end>",
        "x<|end|>y",
        "Think: {a} </b>",
        "[Thinking]",
    ):
        assert ANY.split(text)[:2] == ("", text)
        assert ANY.unclosed(text) == ""
    assert ANY.split("maybe 2</think>4")[:2] == ("maybe 2", "4"), "the prompt opened it"
    assert ANY.split("<think>a</think>b<think>c</think>d")[:2] == ("a\nc", "b\nd")
    assert ANY.split("cut inside", opened=True)[:2] == ("cut inside", "")


def test_answers_and_refusals_are_not_looked_for_in_thoughts() -> None:
    questions = Rubric.from_dict(
        {"name": "mood", "questions": [{"name": "shown", "text": "?", "answers": [1, 2, 3, 4]}]}
    )
    rules = RefusalRules({"en": {"refusal": ["cannot"]}})

    def check(opening: str, closing: str) -> None:
        text = f'{opening}Maybe {{"shown": 2}}? I cannot say.{closing}'
        parsed = parse_answers(text + ANSWER, questions.questions)["shown"]
        assert (parsed.status, parsed.answer and parsed.answer.value) == (Status.OK, "4")
        assert parse_answers(text, questions.questions)["shown"].kind == "no_object"
        assert rules.find(f"{text}A harbour.") is None
        assert rules.find(f"{text}I cannot.") is not None

    check_cases(check, PAIRS)


def test_special_tokens_that_mark_thoughts_are_known() -> None:
    tokens = ["<|im_end|>", "<think>", "</think>", "[THINK]", "[/THINK]", "<|end|>", "<|message|>", "<|start|>"]
    assert ANY.tokens(tokens) == {"<think>", "</think>", "[THINK]", "[/THINK]"}
    assert ANY.tokens(["<|channel|>", *tokens]) == {"<|channel|>", *tokens} - {"<|im_end|>"}
    assert ANY.tokens(["<|channel>", "<channel|>", "<turn|>"]) == {"<|channel>", "<channel|>"}


def test_what_closes_the_tag_at_the_end_of_a_text() -> None:
    for opening, close in [*PAIRS, ("<reflect>", "</reflect>"), ("[REASON]", "[/REASON]"), ("<|muse|>", "<|/muse|>")]:
        tag = closing(f"<|turn|>model\n{opening}\n")
        if opening == "[ THINK]":
            assert tag is None, "a token that was made text"
        elif close != "<|end|>":
            assert tag == (opening.strip(), close.strip())
    for text in ("", "x", "<|turn|>model\n", "</think>", "a < b >", "2 > 1"):
        assert closing(text) is None


def test_a_text_may_end_inside_a_thought() -> None:
    for text, opened, is_open in (
        ("<think>a", False, True),
        ("<think>a</think>b", False, False),
        ("<think>a</think>b<think>c", False, True),
        ("a", True, True),
        ("a</think>", True, False),
        ("a", False, False),
    ):
        assert ANY.split(text, opened=opened).is_open is is_open
