"""The architectures of the installed transformers: those with a small checkpoint, and those without."""

from pathlib import Path

from tests.models.architectures import picture_models, text_models
from tests.models.architectures.picture_parts import WRITERS

UNBUILT = text_models.UNBUILT | picture_models.UNBUILT  # the reason, by `config.model_type`


def mapped() -> list[str]:
    """Return the `config.model_type` of all architectures for pictures and text, then of those for text alone."""
    from transformers.models.auto import modeling_auto as auto

    with_pictures = auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES
    texts = [kind for kind in auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES if kind not in with_pictures]
    return [*with_pictures, *texts]


def architectures() -> list[str]:
    """Return those of `mapped` that have a checkpoint."""
    return [kind for kind in mapped() if kind not in UNBUILT]


def sees_pictures(kind: str) -> bool:
    """Return whether an architecture is one for pictures and text."""
    return kind in WRITERS


def write(kind: str, folder: Path) -> None:
    """Write a checkpoint of `kind` with random weights into `folder`."""
    (picture_models if sees_pictures(kind) else text_models).write(kind, folder)
