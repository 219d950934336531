"""Pictures, requests and comparisons that tests of the judging engines share."""

import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from PIL import Image

from actors.vlm.errors import ScoringError
from actors.vlm.scoring_requests import Scores

CONF = Path(__file__).parents[3] / "conf"
MODEL = "local:qwen2.5-vl-tiny"
MODELS = {  # family -> its local checkpoint
    "qwen2_5_vl": "qwen2.5-vl-tiny",
    "qwen3_vl": "qwen3-vl-tiny",
    "llava_next": "llava-next-tiny",
    "mllama": "mllama-tiny",
    "gemma3": "gemma3-tiny",
    "smolvlm": "smolvlm-tiny",
    "llama": "llama-tiny",
}
ARTICLE = "The museum holds objects of many peoples.\nIts halls were built in 1911.\n\n" * 9 + "Yes.\n\n"
LABELS = ("Melanesia", "Northern Africa", "the Caribbean and Central America", "Nordic")
DIGITS = ("1", "2", "3", "4", "5")
QUESTION: Callable[[dict[str, Any]], dict[str, Any]] = lambda data: data["questions"][0]  # noqa: E731
ANSWERS: Callable[[dict[str, Any]], list[dict[str, Any]]] = lambda data: QUESTION(data)["answers"]  # noqa: E731
# What a rubric shows to people instead of its answers.
PEOPLE = {
    "questions": {"relevance": {"options": [{"label": "yes", "value": "high"}, {"label": "skip", "value": None}]}}
}
# A rubric that compares two pictures with a text, after a turn of the system.
COMPARISON: dict[str, Any] = {
    "name": "comparison",
    "version": 1,
    "source": "made for a test",
    "context": {"fields": ["prompt", "scenario"]},
    "system": "You compare pictures{% if scenario %} of {{ scenario }}{% endif %}.",
    "parts": {
        "text": "The text: {{ prompt }}",
        "first": "Picture A:",
        "second": "Picture B:",
        "question": "{{ question }}\n{{ options }}",
    },
    "layouts": {
        "paper": ["text", "first", "picture1", "second", "picture2", "question"],
        "fast": ["second", "picture2", "first", "picture1", "text", "question"],
    },
    "layout": "paper",
    "questions": [
        {
            "name": "better",
            "text": "Which picture fits the text better?",
            "scale": "nominal",
            "answers": [{"value": "first", "label": "A"}, {"value": "second", "label": "B"}],
        }
    ],
}
TOLERANCE = 1e-4  # of log-likelihoods, float32
Load = Callable[[str], tuple[Any, Any]]


def readme_rubric() -> dict[str, Any]:
    """Return the rubric that the README shows."""
    text = (CONF.parent / "README.md").read_text()
    rubric: dict[str, Any] = yaml.safe_load(text.partition("```yaml\n")[2].partition("```")[0])
    return rubric


def picture(seed: int, *, width: int = 120, height: int = 90) -> Image.Image:
    """Return noise on a random colour: no two seeds look alike."""
    rng = np.random.default_rng(seed)
    pixels = rng.integers(0, 120, (height, width, 3)) + rng.integers(0, 135, 3)
    return Image.fromarray(pixels.astype(np.uint8))


def png(seed: int, *, width: int = 120, height: int = 90) -> bytes:
    out = io.BytesIO()
    picture(seed, width=width, height=height).save(out, "PNG")
    return out.getvalue()


def scores_of(results: Sequence[Scores | ScoringError]) -> list[Scores]:
    """Return the results, none of which may be an error."""
    scores = [result for result in results if isinstance(result, Scores)]
    assert len(scores) == len(results), results
    return scores


def logprobs(results: Sequence[Scores | ScoringError]) -> list[float]:
    """Return the log-probabilities of all answers to all requests."""
    return [value for scores in scores_of(results) for value in scores.logprobs]


def distance(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the largest absolute difference."""
    return max(abs(a - b) for a, b in zip(first, second, strict=True))
