"""Keys and checks that all jobs with a vision-language model share."""

from dataclasses import dataclass, field
from typing import Protocol

from omegaconf import MISSING

from actors.vlm.settings import ContextSettings
from jobs.models.devices import check_dtype
from jobs.models.vlm import ModelConfig, check_bounds
from jobs.runtime.configuration.config import FailingRows


@dataclass
class ModelRunConfig(FailingRows):
    """Keys of every job that runs a model on items."""

    input: str = MISSING  # a table of images, or of items
    images: str | None = None  # for a table of items: their pictures
    texts: str | None = None  # for a table of items: their texts
    model: ModelConfig = field(default_factory=ModelConfig)


@dataclass
class AskingConfig(ContextSettings, ModelRunConfig):
    """Keys of every job whose prompts have a context."""

    records: str | None = None  # records of the pictures, for the prompt's context
    show_prompts: int = 0  # with plan=true: print the prompts about this many items, and answers of a tiny random model


@dataclass
class OwnQuestionsConfig:
    """Keys for the items' own questions."""

    questions: str | None = None  # table of questions, for a rubric that asks each item its own questions, such as dsg
    # rarely: attribute, or role of texts, whose value is the item's set_id or the text of its set
    questions_by: str = "prompt"


class UsesModel(Protocol):
    """The configuration of a job that asks a model about a table."""

    model: ModelConfig

    @property
    def input(self) -> str | None:
        """The table; None if the job reads another table."""

    @property
    def only_plans(self) -> bool:
        """Whether the job stops after it has printed its plan."""


def refuse_thought(cfg: UsesModel, *, start: str = "") -> None:
    """Check that the model answers after its thoughts rather than inside one; reads its chat template.

    With plan=true the template is read only if it is on this machine.

    Args:
        start: the beginning of the model's turn, which may close the thought.

    Raises:
        ValueError: the template opens a thought, inside which the answers would be scored.
    """
    from actors.vlm.chat_format import OPENS_THOUGHT
    from actors.vlm.model_checks import opened_thought

    name = cfg.model.checkpoint
    if mark := opened_thought(name, revision=cfg.model.revision, start=start, local_only=cfg.only_plans):
        raise ValueError(f"model.checkpoint={name}: its chat template {OPENS_THOUGHT.format(mark=mark)}")


def check_model(cfg: UsesModel, *, shown_by: str = "") -> bool | None:
    """Check that the model exists and can be loaded; reads a few small files and no weights.

    Args:
        shown_by: what shows the model a picture ("prompt 'explicit'"); empty if nothing does. If it is not empty, a
            model that accepts only text is refused.

    Returns:
        Whether the model accepts pictures; None with plan=true, which does not look it up.

    Raises:
        ValueError: the model, its dtype or its bounds of pixels cannot be used.
        InputError: `input` is not a table of images or items; raised before a model is looked up or built.
    """
    from actors.vlm.model_checks import check_vlm
    from jobs.store.reading import refuse_early

    check_dtype(cfg.model.dtype, prefix="model.")
    check_bounds(cfg.model)
    if cfg.only_plans:
        return None
    refuse_early(cfg.input, "images", "items")
    sees_pictures = check_vlm(cfg.model.checkpoint, revision=cfg.model.revision)
    if shown_by and not sees_pictures:
        raise ValueError(
            f"model.checkpoint={cfg.model.checkpoint}: does not accept pictures, and {shown_by} shows one; "
            "use a vision-language model, or a prompt whose order has no `picture`"
        )
    return sees_pictures
