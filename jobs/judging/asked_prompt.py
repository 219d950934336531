"""The prompt of `generate` and `loglik`: its checks, the items that it shows, and the stage that prepares it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from actors.errors import FileError
from actors.preparers import PromptPreparer
from actors.rubrics import instructions
from actors.rubrics.instructions import QUESTIONS_WORD, Instruction, QuestionWords, asked_questions
from actors.rubrics.rubric import Rubric
from actors.rubrics.templates import TARGET_WORD
from actors.vlm.settings import ContextSettings, ModelSettings
from jobs.judging import model_run
from jobs.judging.items import ItemTables, Reader, reading, sources_of
from jobs.judging.model_config import AskingConfig, check_model
from jobs.runtime.stage_contract import Stage


@dataclass(frozen=True)
class AskedPrompt:
    """A checked instruction; build it with `prompt_for_texts` or `prompt_for_labels`.

    Attributes:
        instruction: the checked instruction.
        data: the content of its YAML file.
        questions: the rubric's questions, for an instruction that asks them.
    """

    instruction: Instruction
    data: Mapping[str, Any]
    questions: Sequence[QuestionWords] = ()

    @property
    def identity(self) -> dict[str, str]:
        """Return the part of a run's identity that describes the instruction."""
        return {"name": self.instruction.name, "hash": instructions.identity(self.instruction)}

    @property
    def start(self) -> str:
        """Return the beginning of the model's turn, which is the same for all items."""
        words = {QUESTIONS_WORD: list(self.questions)}
        return self.instruction.begin(**{name: words[name] for name in self.instruction.words & words.keys()})

    def check_model(self, cfg: AskingConfig) -> None:
        """Check that the model exists and accepts what the prompt shows (`jobs.judging.model_config.check_model`)."""
        check_model(cfg, shown_by=f"prompt {self.instruction.name!r}" if self.instruction.shows_picture else "")

    def open_sources(self, cfg: AskingConfig) -> ItemTables:
        """Open the tables of the items and of what the prompt shows.

        Raises:
            InputError: a table does not exist or is incomplete, or the prompt needs a table that is not given.
        """
        return sources_of(cfg, fields=self.instruction.context_fields, pictures=self.instruction.shows_picture)

    def reader(self, sources: ItemTables) -> Reader:
        """Return the reader that the workers use for the items."""
        return reading(sources, fields=self.instruction.context_fields, pictures=self.instruction.shows_picture)

    def expected_tokens(self, cfg: AskingConfig, sources: ItemTables) -> str:
        """Return the tokens per picture as a phrase for the plan; empty without plan=true or without pictures."""
        if not cfg.plan or not self.instruction.shows_picture:
            return ""
        return model_run.expected_tokens(cfg.model, sources.pictures)

    def stage(self, cfg: AskingConfig, *, answer_tokens: int, keeps_pictures: bool = False) -> Stage:
        """Return the stage that prepares the prompts; takes arguments of `actors.preparers.PromptPreparer`."""
        arguments = {
            "settings": ContextSettings.part_of(cfg),
            "model": ModelSettings.part_of(cfg.model),
            "instruction": self.data,
            "questions": self.questions,
            "answer_tokens": answer_tokens,
            "keeps_pictures": keeps_pictures,
        }
        return Stage("decode", PromptPreparer, arguments)


def prompt_for_texts(data: Mapping[str, Any], rubric: Mapping[str, Any]) -> AskedPrompt:
    """Return a prompt to which a model writes texts.

    Args:
        data: the content of the instruction's YAML file.
        rubric: the content of a rubric's file, for an instruction that asks its questions; not read otherwise.

    Raises:
        ValueError: the instruction is invalid or is about a label, or it asks questions and the rubric has no question
            that a JSON answer can hold.
    """
    instruction = Instruction.from_dict(data)
    if TARGET_WORD in instruction.words:
        raise FileError.of("prompt", instruction.name, "uses a label; use it with remine loglik")
    if QUESTIONS_WORD not in instruction.words:
        return AskedPrompt(instruction, data)
    if not rubric:
        raise FileError.of("prompt", instruction.name, "asks a rubric's questions; set rubric=")
    return AskedPrompt(instruction, data, asked_questions(Rubric.from_dict(rubric)))


def prompt_for_labels(data: Mapping[str, Any]) -> AskedPrompt:
    """Return a prompt whose answer is a label.

    Raises:
        ValueError: the instruction is invalid, mentions the label, or asks a rubric's questions.
    """
    instruction = Instruction.from_dict(data)
    if words := {TARGET_WORD, QUESTIONS_WORD} & instruction.words:
        raise FileError.of("prompt", instruction.name, f"must not use {min(words)!r}; the label follows its start")
    return AskedPrompt(instruction, data)
