"""What models write before their answers, in the marks of several families."""

from actors.rubrics import thoughts
from actors.rubrics.parsing import parse_answers
from actors.rubrics.rubric import Rubric
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
        assert thoughts.split(f"{opening}{thought}{closing}{ANSWER}") == (thought, ANSWER)
        assert thoughts.split(f"{thought}{closing}{ANSWER}", opened=True) == (thought, ANSWER)
        assert thoughts.split(f"{opening}{thought}") == (thought, "")
        assert thoughts.split(f"{opening}\n\n{closing}{ANSWER}") == ("", ANSWER)
        assert thoughts.unclosed(f"turn\n{opening}\n") == opening.strip()
        assert thoughts.unclosed(f"turn\n{opening}\n\n{closing}\n\n") == thoughts.unclosed(f"turn\n{closing}") == ""

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
        assert thoughts.split(text) == ("", text)
        assert thoughts.unclosed(text) == ""
    assert thoughts.split("maybe 2</think>4") == ("maybe 2", "4"), "the prompt opened it"
    assert thoughts.split("<think>a</think>b<think>c</think>d") == ("a\nc", "b\nd")
    assert thoughts.split("cut inside", opened=True) == ("cut inside", "")


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
    assert thoughts.marks(tokens) == {"<think>", "</think>", "[THINK]", "[/THINK]"}
    assert thoughts.marks(["<|channel|>", *tokens]) == {"<|channel|>", *tokens} - {"<|im_end|>"}
    assert thoughts.marks(["<|channel>", "<channel|>", "<turn|>"]) == {"<|channel>", "<channel|>"}
