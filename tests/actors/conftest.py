"""Small models, loaded once per session, and rubrics."""

import functools
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from tests.actors.vlm.helpers import CONF, MODEL


@pytest.fixture(scope="session")
def load() -> Callable[[str], tuple[Any, Any]]:
    """Return a function that loads the model and processor of `local:NAME`, float32, once per session."""
    from actors.vlm.loading import load_vlm

    return functools.cache(lambda name: load_vlm(f"local:{name}", dtype="float32", device_map="cpu"))


@pytest.fixture(scope="session")
def vlm(load: Callable[[str], tuple[Any, Any]]) -> tuple[Any, Any]:
    return load(MODEL.removeprefix("local:"))


@pytest.fixture(scope="session")
def century() -> dict[str, Any]:
    return yaml.safe_load((CONF / "rubric" / "century_labels.yaml").read_text(encoding="utf-8"))


@pytest.fixture
def small() -> dict[str, Any]:
    """A rubric with targets and one question, as the culture rubrics have."""
    return {
        "name": "relevance",
        "version": 1,
        "source": "made for a test",
        "context": {"fields": ["title", "article"], "cut": ["article"]},
        "parts": {
            "context": "{% if title %}\nTitle: {{ title }}\n{% endif %}\n{% if article %}\n{{ article }}\n{% endif %}",
            "scale": "{{ options }}",
            "question": "{{ question }} The culture is {{ target }}.",
        },
        "layouts": {
            "paper": ["picture", "context", "question", "scale"],
            "fast": ["picture", "context", "scale", "question"],
        },
        "layout": "fast",
        "targets": ["Melanesia", "Northern Africa"],
        "questions": [
            {
                "name": "relevance",
                "text": "How relevant is a culture to the picture?",
                "scale": "ordinal",
                "answers": [
                    {"value": "low", "label": "Not relevant", "score": 1},
                    {"value": "mid", "label": "Somewhat relevant", "score": 2},
                    {"value": "high", "label": "Relevant", "score": 3},
                ],
            }
        ],
    }
