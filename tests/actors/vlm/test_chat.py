"""Division of prompts into shared tokens and suffixes, and of answers into tokens, with a simple tokenizer."""

import re
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from actors.rubrics.prompts import Prompt
from actors.rubrics.thoughts import ANY
from actors.vlm import chat as chat_module
from actors.vlm.chat import Chat, ChatEncoder, PromptText, SplitTokens
from actors.vlm.loading import TextProcessor
from tests.cases import check_cases


class Tokenizer:
    """Words with the space before them, line ends, the end of a turn, and single characters.

    Args:
        begin: a token at the beginning of each text but the processor's, as some tokenizers add a space there.
        after: what the model's turn begins with.
    """

    chat_template = "of this class"
    all_special_tokens = ("<end>",)
    added_tokens_decoder: dict[int, Any] = {}
    bos_token = None
    eos_token_id = 7

    def __init__(self, rules: str = r"<end>| ?\w+|\n+|.", *, begin: str = "", after: str = " ") -> None:
        self.rules, self.begin, self.after = re.compile(rules), begin, after
        self.words: dict[str, int] = {}
        self.longest = 0

    def __call__(self, texts: str | Sequence[str], *, add_special_tokens: bool, return_tensors: str = "") -> Any:
        if return_tensors:  # the processor's call for a whole prompt
            import numpy as np

            return {"input_ids": np.array([self.ids(text) for text in texts])}
        if isinstance(texts, str):
            return {"input_ids": self.ids(texts)}
        self.longest = max(len(text) for text in texts)
        return {"input_ids": [self.ids(self.begin + text) for text in texts]}

    def ids(self, text: str) -> list[int]:
        return [self.words.setdefault(word, 10 + len(self.words)) for word in self.rules.findall(text)]

    def decode(self, ids: Sequence[int]) -> str:
        words = {number: word for word, number in self.words.items()}
        return "".join(words[number] for number in ids)

    def apply_chat_template(
        self, messages: list[dict[str, str]], *, tokenize: bool, add_generation_prompt: bool
    ) -> str:
        turns = [
            f"{turn['role']}:{self.after if turn['role'] == 'assistant' else ' '}{turn['content']}<end>\n"
            for turn in messages
        ]
        return "".join(turns) + ("assistant:" if add_generation_prompt else "")


def chat_of(*rules: str, **options: str) -> Chat:
    return Chat(TextProcessor(Tokenizer(*rules, **options)), name="words")


def prompts(*suffixes: str, shared: str = "The sea.\n\n") -> list[Prompt]:
    return [Prompt((shared,), suffix) for suffix in suffixes]


def split(chat: Chat, asked: Sequence[Prompt]) -> tuple[str, list[str]]:
    """Return the shared text, and the others; all tokens together must be those of the whole prompts."""
    tokens = chat.tokens(asked, None)
    ids = tokens.inputs["input_ids"][0].tolist()
    wholes = SplitTokens(tokens.shared, tokens.suffixes).joined(ids)
    assert wholes == [chat.ids(chat.rendered(prompt, None)) for prompt in asked]
    return chat.tokenizer.decode(ids[: tokens.shared]), [chat.tokenizer.decode(suffix) for suffix in tokens.suffixes]


END = "<end>\nassistant:"


def test_turns_of_the_template() -> None:
    chat = chat_of()
    assert (chat.open_start, chat.lead) == ("user: Is it?<end>\nassistant:", " ")
    assert chat.tokenizer.decode([chat.turn_end]) == "<end>"
    assert chat_of(after="").lead == ""


LINE = "The sea.\n"  # 4 tokens, 9 characters
LINES = LINE * 30


def test_prompts_share_their_beginning() -> None:
    """All but the last 160 characters, from the line after on; the same whether the split was checked before or not."""
    chat = chat_of()
    asked = prompts("Is it blue?", "Is it deep?", shared=LINES + "\n")
    for _ in range(2):
        shared, suffixes = split(chat, asked)
        # Of the 277 characters "user: …\n\n" the window begins at the 118th, the next line at the 124th.
        assert shared == f"user: {LINE * 13}"
        assert suffixes == [f"{LINE * 17}\n{suffix}{END}" for suffix in ("Is it blue?", "Is it deep?")]


def test_a_short_prompt_is_tokenised_again_as_a_whole() -> None:
    shared, suffixes = split(chat_of(), prompts("Is it blue?", "Is it deep?"))
    assert (shared, suffixes[1]) == ("", f"user: The sea.\n\nIs it deep?{END}")


def test_a_text_may_contain_the_mark_of_the_suffix() -> None:
    asked = prompts("Is it blue?", "Is it deep?", shared=f"The {chat_module._SUFFIX_MARK} sea.\n\n")
    assert split(chat_of(), asked)[1][1].endswith(f"The {chat_module._SUFFIX_MARK} sea.\n\nIs it deep?{END}")


def test_only_the_end_of_a_long_prompt_is_tokenised_again() -> None:
    def check(length: int) -> None:
        chat = chat_of()
        asked = prompts("Is it blue?", "Is it deep?", shared="The sea is wide. " * length + "\n\n")
        whole = split(chat, asked)
        chat.tokenizer.longest = 0
        assert split(chat, asked) == whole
        assert 0 < chat.tokenizer.longest <= chat_module.WINDOW + len(f"Is it blue?{END}")

    check_cases(check, [0, 10, 100, 400])


def test_the_window_begins_at_a_line_or_after_a_special_token() -> None:
    """Some tokenizers treat the first word of a text specially, but none the first word of a line."""
    chat = chat_of()
    chat.as_data = str  # type: ignore[assignment]  # the token stands for one that a template writes
    line, marked = "The sea. " * 6, "<end>" + "The sand. " * 5
    for shared, window in ((f"{line}{marked}", "The sand. " * 5), (line, line), (LINES + marked, "The sand. " * 5)):
        asked = prompts("Is it blue?", shared="x " * 100 + "\n" + shared)
        split(chat, asked)
        split(chat, asked)
        assert chat.tokenizer.longest == len(f"{window}Is it blue?{END}")


def test_a_token_across_the_cut_moves_it() -> None:
    """' blue' is one token: the space before it is not shared."""
    chat = chat_of()
    for suffix in ("blue", "blue sky"):
        asked = [Prompt((f"{LINES}The sea is ",), text) for text in (suffix, "deep")]
        assert split(chat, asked)[1] == [f"{LINE * 16}The sea is {text}{END}" for text in (suffix, "deep")]


@pytest.mark.parametrize("third", ["Is it wide?", "99"])
def test_a_prompt_that_shares_less_than_the_others(third: str) -> None:
    """Letters join with the words before the cut: only the first two suffixes share the tokens of the window."""
    chat = chat_of(r"<end>|[\w. ]+|\n+|.")
    chat._is_checked = True
    for suffixes in (("?blue", "?deep", third), ("?blue", third, "?deep")):
        shared, rests = split(chat, prompts(*suffixes, shared="The sea"))
        assert [shared + rest for rest in rests] == [f"user: The sea{suffix}{END}" for suffix in suffixes]


def test_suffixes_with_white_space_are_tokenised_whole() -> None:
    asked = [Prompt(("The sea. ",), suffix) for suffix in ("blue ", "deep")]
    assert split(chat_of(), asked) == ("user: The sea.", [f" blue {END}", f" deep{END}"])
    assert split(chat_of(), [Prompt(("The sea. ",), "")])[0].startswith("user: The sea.")


def test_tokens_that_a_tokenizer_puts_before_each_text() -> None:
    """Up to two of them are recognised and left out; with more, whole prompts are tokenised."""

    def check(begin: str) -> None:
        chat = chat_of(begin=begin)
        asked = prompts("Is it blue?", "Is it deep?", shared=LINES + "\n")
        head, rests, ids = window_of(chat, asked)
        cut = chat._split_in_window(head, rests, ids)
        if len(begin) > 2:
            assert cut is None
        else:
            assert cut is not None
            assert (cut.shared, cut.joined(ids)) == (2 + 13 * 4, [chat.ids(head + rest) for rest in rests])

    check_cases(check, ["", "(", "((", "((("])


def test_a_window_must_share_two_tokens_unless_it_is_empty() -> None:
    """What precedes the window is not tokenised with it, so that its first tokens may differ."""

    def check(begin: str, window: str, shared: int | None) -> None:
        chat = chat_of(begin=begin)
        head = f"user: The sea. <end>{window}"
        for suffixes in (("1?", "2?"), ("1?", "1!", "2?")):
            rests = [suffix + END for suffix in suffixes]
            ids = chat.ids(head + rests[0])
            cut = chat._split_in_window(head, rests, ids)
            if shared is None:
                assert cut is None
            else:
                assert cut is not None
                assert cut.joined(ids) == [chat.ids(head + rest) for rest in rests]
                assert cut.shared == len(chat.ids("user: The sea. <end>"))

    check_cases(check, [
        ("", "", 0), ("", "-", None), ("", "--", 2), ("", "---", 3),
        ("(", "", 0), ("(", "-", None), ("(", "--", 2),
    ])  # fmt: skip


def window_of(chat: Chat, asked: Sequence[Prompt]) -> tuple[str, list[str], list[int]]:
    head = chat.rendered(asked[0], None).removesuffix(asked[0].suffix + END)
    rests = [prompt.suffix + END for prompt in asked]
    return head, rests, chat.ids(head + rests[0])


def test_a_split_that_differs_from_the_whole_prompt_is_not_used_again() -> None:
    """A tokenizer that joins what is more than a window apart: from then on, whole prompts are tokenised."""
    chat = chat_of(r"<end>|(?s:user.*(?=deep))| ?\w+|\n+|.")
    asked = prompts("Is it blue?", "Is it deep?", shared="The sea.\n" * 40 + "It is a sea.\n\n")
    assert split(chat, asked)[0] == ""
    assert chat._needs_whole
    assert split(chat, asked)[0] == ""


def test_answers_of_one_token() -> None:
    chat = chat_of()
    answers = chat.answers(("1", "2"))
    assert (answers.rule, answers.bridge) == ("code", ())
    assert [chat.tokenizer.decode(sequence) for sequence in answers.sequences] == [" 1", " 2"]


def test_white_space_before_all_answers_is_a_bridge() -> None:
    chat = chat_of(r"<end>|\w+|\n+|.", after="\n")
    answers = chat.answers(("1", "2"))
    assert (answers.rule, chat.tokenizer.decode(answers.bridge)) == ("code", "\n")
    assert [chat.tokenizer.decode(sequence) for sequence in answers.sequences] == ["1", "2"]


def test_answers_of_several_tokens_end_the_turn() -> None:
    chat = chat_of(r"<end>|\w+|\n+|.")
    answers = chat.answers(("North Africa", "North", "South"))
    assert (answers.rule, chat.tokenizer.decode(answers.bridge)) == ("sequence", " ")
    texts = [chat.tokenizer.decode(sequence) for sequence in answers.sequences]
    assert texts == ["North Africa<end>", "North<end>", "South<end>"]


def test_a_word_that_all_answers_begin_with_does_not_count_as_a_bridge() -> None:
    chat = chat_of()
    answers = chat.answers(("North Africa", "North Europe"))
    assert answers.bridge == ()
    assert [len(sequence) for sequence in answers.sequences] == [3, 3]


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        ("Score:", ("assistant: Score:", [" 1", " 2"])),
        ("Score: ", ("assistant: Score:", [" 1", " 2"])),
        ("Score:\n", ("assistant: Score:\n", ["1", "2"])),
    ],
)
def test_answers_after_the_beginning_of_the_turn(start: str, expected: tuple[str, list[str]]) -> None:
    chat = chat_of()
    answers = chat.answers(("1", "2"), start=start)
    assert [chat.tokenizer.decode(sequence) for sequence in answers.sequences] == expected[1]
    assert chat.rendered(Prompt(("The sea. ",), "blue", start=start), None).endswith(expected[0])


def test_white_space_of_the_start_comes_before_the_answers() -> None:
    chat = chat_of(r"<end>|\w+| +|\n+|.")
    answers = chat.answers(("1", "2"), start="Score:   ")
    assert chat.tokenizer.decode(answers.bridge) == "   "


def test_answers_that_cannot_be_scored() -> None:
    cases = [((), "empty"), (("1", ""), "empty"), (("1", "1"), "apart"), (("1", "<"), "'<'")]

    def check(codes: tuple[str, ...], message: str) -> None:
        chat = chat_of(r"<end>|assistant: <| ?\w+|\n+|.")
        with pytest.raises(ValueError, match=message):
            chat.answers(codes)

    check_cases(check, cases)
    with pytest.raises(ValueError, match="'~'"):
        chat_of(r"<end>|\w+|\n+|[^~]", after="").answers(("1", "~"))  # no token at all


def test_a_processor_that_disagrees_with_its_tokenizer() -> None:
    chat = chat_of()
    with pytest.raises(ValueError, match="differently"):
        chat._split_whole(["The sea", "The sand"], chat.ids("The sky"))
    for second in ("sand", "sea"):
        assert chat._split_whole(["The sea", f"The {second}"], chat.ids("<end>The sea")) == SplitTokens(
            2, [chat.ids(" sea"), chat.ids(f" {second}")]
        )


def test_a_template_that_leaves_the_text_out(monkeypatch: pytest.MonkeyPatch) -> None:
    chat = chat_of()
    monkeypatch.setattr(chat, "rendered", lambda *_, **__: "user: <end>")
    with pytest.raises(ValueError, match="drops the user's text"):
        chat.tokens(prompts("Is it blue?"), None)


def test_a_template_for_tools_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_tools(self: Any, messages: Any, **options: Any) -> str:
        return "".join(tool for tool in options.get("tools"))  # type: ignore[union-attr]

    monkeypatch.setattr(Tokenizer, "apply_chat_template", without_tools)
    with pytest.raises(ValueError, match=r"does not render a question .*TypeError.* use a template without tools"):
        ChatEncoder(TextProcessor(Tokenizer()))


def test_turns_of_text_models_are_paragraphs() -> None:
    chat = ChatEncoder(TextProcessor(Tokenizer()))
    assert chat.text(["The sea.", "", "Is it blue?"], 0) == f"user: The sea.\n\nIs it blue?{END}"
    assert chat.text(["Is it blue?"], 0, start=" It is") == f"user: Is it blue?{END} It is"


def test_what_is_encoded_and_decoded() -> None:
    """The pictures in the order of the turn, and of generated tokens the text alone."""
    chat: Any = object.__new__(ChatEncoder)
    chat.sees_pictures = True
    chat.text = lambda *turn, **options: (turn, options)
    chat.inputs = lambda text, pictures: (text, pictures)
    turn = [2, "or", 1]
    asked = (turn, 2), {"start": "It", "system": "You compare."}
    assert chat.encode(turn, ["P1", "P2"], start="It", system="You compare.") == (asked, ["P2", "P1"])
    added = {7: Added("[THINK]", special=True), 8: Added("<end>", special=True)}
    chat.tokenizer = SimpleNamespace(decode=lambda ids, **options: f" {ids} {options}\n", added_tokens_decoder=added)
    chat.turn = SimpleNamespace(marks=ANY, mark_texts=())
    skipped = "{'skip_special_tokens': True, 'clean_up_tokenization_spaces': False}"
    assert chat.decode((5, 6)) == f"[5, 6] {skipped}"
    kept = skipped.replace("True", "False")
    assert chat.decode((8, 7, 5)) == f"[8] {skipped}\n [7] {kept}\n [5] {skipped}", "a mark of a thought is kept"


def test_tokens_after_the_start_of_a_turn() -> None:
    chat = ChatEncoder(TextProcessor(Tokenizer()))
    assert chat.tokenizer.decode(chat.continuation(" It is", " blue")) == " blue"
    for start, words in ((" It i", "s blue"), (" It is", "")):
        with pytest.raises(ValueError, match="do not split"):
            chat.continuation(start, words)


def test_special_tokens_in_data_are_broken_up() -> None:
    """The longest of several that begin alike; a token of one letter is none."""
    tokenizer: Any = Tokenizer()
    tokenizer.all_special_tokens = ("<end>", "<end><end>", "|")
    tokens = {1: "<added>", 2: "<plain>"}
    tokenizer.added_tokens_decoder = {number: Added(text, special=number == 1) for number, text in tokens.items()}
    processor: Any = TextProcessor(tokenizer)
    processor.image_token, processor.video_token, processor.boi_token = "<image>", None, "<boi>"
    chat = Chat(processor, name="words")
    assert chat.as_data("<end><end>|<added><plain>") == "< end><end>|< added><plain>"
    assert chat.as_data("<image><video><boi>") == "< image><video>< boi>"
    processor.video_token = "<video>"
    assert Chat(processor, name="words").as_data("a <video> b") == "a < video> b"


class Added(str):
    """An added token of a tokenizer."""

    special: bool

    def __new__(cls, text: str, *, special: bool) -> "Added":
        token = super().__new__(cls, text)
        token.special = special
        return token


class Words:
    """A tokenizer whose tokens are words."""

    def decode(self, ids: Sequence[int], **options: Any) -> str:
        assert options == {"skip_special_tokens": False, "clean_up_tokenization_spaces": False}
        return "".join(["<user>", "<pad>", "Look", ".", " ", "\n", "None"][number] for number in ids)


def test_the_tokens_of_pictures_become_placeholders_with_their_sizes() -> None:
    text = PromptText(SimpleNamespace(tokenizer=Words(), image_token="<pad>"), [(300, 225)])
    assert text([0, 1, 1, 1, 2, 1, 3]) == "<user>[picture 300 x 225: 3 tokens]Look[picture: 1 tokens]."
    assert text([1, 5, 1, 4, 1]) == "[picture: 3 tokens]"  # some models put each row of a picture on a line
    assert PromptText(SimpleNamespace(tokenizer=Words()), [])([0, 2, 3]) == "<user>Look."
    assert PromptText(SimpleNamespace(tokenizer=Words(), image_token=None), [])([0, 6]) == "<user>None"
