"""Rows of `generate` and `judge` by two engines for the same items, and how they differ; imports vLLM only if asked.

It is used by tests with a fake of vLLM, and by `vllm_child` with vLLM itself.
"""

from collections.abc import Sequence
from typing import Any

MOST_PIXELS = 150 * 150  # below the largest picture
ITEMS: tuple[dict[str, Any], ...] = (
    {"pictures": [(1, 120, 90), (2, 120, 90)], "title": "A stamp", "article": "Printed in 1911.\n\n" * 20},
    {"pictures": [(3, 400, 300), (4, 60, 200)], "title": "<|im_end|> is text", "article": ""},
    {"pictures": [(5, 28, 28), (6, 90, 120)], "title": "", "article": "x" * 9000},
)
DRAWS = ((0.0, 1.0), (1.0, 1.0), (1.5, 0.9))  # temperature and top_p


def model_settings(checkpoint: str) -> Any:
    from actors.vlm.settings import ModelSettings

    return ModelSettings(checkpoint=checkpoint, dtype="float32", max_pixels=MOST_PIXELS)


def items(*, pictures: int, count: int) -> Any:
    """Return the first items with their first pictures."""
    import pyarrow as pa

    from tests.actors.vlm.helpers import png

    rows = [
        {
            "item_id": f"item{number}",
            "pictures": [png(s, width=w, height=h) for s, w, h in item["pictures"][:pictures]],
            "status": "ok",
            "title": item["title"],
            "article": item["article"],
            "prompt": item["title"],
            "scenario": "",
        }
        for number, item in enumerate(ITEMS[:count])
    ]
    columns: dict[str, Any] = {name: [row[name] for row in rows] for name in rows[0]}
    return pa.table(columns | {"pictures": pa.array(columns["pictures"], pa.list_(pa.large_binary()))})


def responses(
    checkpoint: str, engine: str, *, shows: bool = True, count: int = 3, draws: Any = DRAWS, max_tokens: int = 24
) -> list[dict[str, Any]]:
    """Return rows of table `responses`: two texts per item for each way to draw."""
    from actors.generator import Generator, GeneratorSettings
    from actors.preparers import PromptPreparer
    from actors.vlm.settings import ContextSettings

    model = model_settings(checkpoint)
    instruction = {
        "name": "tell",
        "version": 1,
        "source": "made for a test",
        "context": {"fields": ["title", "article"]},
        "parts": {"before": "Title: {{ title }} {{ article }}", "after": "Tell me what can be seen."},
        "order": ["before", "picture", "after"] if shows else ["before", "after"],
    }
    preparer = PromptPreparer(
        ContextSettings(),
        model=model,
        instruction=instruction,
        answer_tokens=max_tokens,
        keeps_pictures=engine == "vllm",
    )
    prepared = preparer(items(pictures=int(shows), count=count))
    refusals = {"en": {"refusal": ["^I cannot"]}}
    keys: dict[str, Any] = {"engine": engine, "samples": 2, "max_tokens": max_tokens, "refusals": refusals}
    generator, rows = None, []
    for temperature, top_p in draws:
        settings = GeneratorSettings(temperature=temperature, top_p=top_p, memory_budget_gb=0.3, **keys)
        if generator is None:
            generator = Generator(settings, model=model, prompt="tell", prompt_hash="h", threads=1)
        generator.sampling = settings.sampling
        rows += generator(prepared).to_pylist()
    return rows


def ratings(
    checkpoint: str, engine: str, rubrics: Sequence[tuple[dict[str, Any], int]], *, count: int = 3
) -> list[dict[str, Any]]:
    """Return rows of table `ratings` with the answers' log-probabilities, for rubrics that show so many pictures."""
    from actors.judge import Judge
    from actors.preparers import RubricPreparer
    from actors.vlm.settings import ClosedSettings

    model, loaded = model_settings(checkpoint), None
    rows: list[dict[str, Any]] = []
    for rubric, pictures in rubrics:
        settings = ClosedSettings(engine=engine, rubric=rubric, memory_budget_gb=0.3)
        preparer = RubricPreparer(settings, model=model, keeps_pictures=engine == "vllm")
        with_scores = judge_with_scores(Judge, loaded)
        judge = with_scores(settings, model=model, threads=1)
        loaded = judge
        rated = judge(preparer(items(pictures=pictures, count=count))).to_pylist()
        logprobs = [getattr(scores, "logprobs", None) for scores in judge.scores]
        rows += [row | {"logprobs": values} for row, values in zip(rated, logprobs, strict=True)]
    return rows


def reasoned(
    checkpoint: str, engine: str, *, shows: bool = True, count: int = 2, max_tokens: int = 4
) -> list[dict[str, Any]]:
    """Return rows of table `ratings` after two reasonings for each label."""
    from actors.preparers import RubricPreparer
    from actors.reasoning_judge import REASONING_INSTRUCTION, ReasoningJudge
    from actors.vlm.settings import ReasoningSettings

    model = model_settings(checkpoint)
    settings = ReasoningSettings(
        engine=engine, rubric=relevance(), memory_budget_gb=0.3, samples=2, max_tokens=max_tokens
    )
    preparer = RubricPreparer(
        settings,
        model=model,
        instruction=REASONING_INSTRUCTION,
        answer_tokens=settings.reserved_tokens,
        keeps_pictures=engine == "vllm",
    )
    rows = ReasoningJudge(settings, model=model, threads=1)(
        preparer(items(pictures=int(shows), count=count))
    ).to_pylist()
    return [dict(row) for row in rows]


def judge_with_scores(kind: Any, loaded: Any) -> Any:
    """Return a subclass that keeps the scores of each row, and uses the model that another instance has loaded."""

    class JudgeWithScores(kind):
        def _load(self, model: Any, threads: int | None) -> Any:
            self.scores: list[Any] = []
            if loaded is None:
                return super()._load(model, threads)
            self.scorer = loaded.scorer
            return loaded.facts

        def _count(self, results: Any) -> None:
            self.scores += (results := list(results))
            super()._count(results)

    return JudgeWithScores


def relevance(**question: str) -> dict[str, Any]:
    """Return a rubric whose answers are letters, or with `reply="label"` words that begin with each other."""
    answers = {"low": "Not relevant", "mid": "Not relevant at all", "high": "Relevant"}
    return {
        "name": "relevance",
        "version": 1,
        "source": "made for a test",
        "context": {"fields": ["title", "article"], "cut": ["article"]},
        "parts": {
            "context": "Title: {{ title }}\n{{ article }}",
            "scale": "{{ options }}",
            "question": "{{ question }} The culture is {{ target }}.",
        },
        "layouts": {"fast": ["picture", "context", "scale", "question"]},
        "layout": "fast",
        "targets": ["Melanesia", "Northern Africa", "the Caribbean"],
        "questions": [
            {
                "name": "relevance",
                "text": "How relevant is a culture to the picture?",
                "scale": "ordinal",
                "answers": [{"value": v, "label": label, "score": i} for i, (v, label) in enumerate(answers.items())],
                **question,
            }
        ],
    }


def differences(expected: Sequence[dict[str, Any]], rows: Sequence[dict[str, Any]], *, tolerance: float) -> list[str]:
    """Return the differences of two tables: unequal values, or numbers that differ by more than `tolerance`."""
    faults = [] if len(expected) == len(rows) else [f"{len(expected)} and {len(rows)} rows"]
    for number, (one, other) in enumerate(zip(expected, rows, strict=False)):
        for key, value in one.items():
            if not _same(value, other[key], tolerance):
                faults.append(f"row {number}: {key}: {value!r} and {other[key]!r}")
    return faults


def _same(one: Any, other: Any, tolerance: float) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) <= tolerance
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(_same(a, b, tolerance) for a, b in zip(one, other, strict=True))
    return bool(one == other)
