"""The jobs of remine on a checkpoint: their rows against the likelihoods and texts of plain transformers."""

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import pyarrow as pa

from actors import generator, loglik_rater, preparers, rubric_rater
from actors.generator import Generator, GeneratorSettings
from actors.judge import Judge
from actors.loglik_rater import LoglikRater, LoglikSettings
from actors.preparers import PromptPreparer, RubricPreparer
from actors.reasoning_judge import ANSWER_LINE, REASONING_INSTRUCTION, ReasoningJudge
from actors.vlm import loading
from actors.vlm.generation import TextGenerator
from actors.vlm.scoring_requests import Scores
from actors.vlm.settings import ClosedSettings, ContextSettings, ModelSettings, ReasoningSettings
from jobs.checkpoints import vlm
from tests.actors.vlm.helpers import picture, png
from tests.models.architectures.plain import Plain, draw_gap

TOLERANCE = 1e-4  # of log-likelihoods and of cumulative probabilities, float32
VISIBLE = 50 * TOLERANCE  # by which a wrong position, mask or picture must change a log-likelihood
ENGINES = ("naive", "cascade", "batched", "packed")
TWO_PICTURES = "two pictures"
JOBS = (*ENGINES, TWO_PICTURES, "reasoned", "generate", "loglik")
CODES = ("A", "B", "C")
LABELS = ("Melanesia", "the north of the old town", "sea")
LENGTHS = (45, 42, 47)  # words of the items' articles: near enough for a batch; prompts share most of them
SIZES = ((120, 90), (150, 84), (90, 150))  # pixels
TOKENS = 4  # of a text
JUDGED = 2  # items of a job that writes no texts
START = "It is"  # the beginning of the model's turn that a label completes
SAMPLES = 2
QUESTION = "Does this show"
EQUAL, REFUSED, FAULT, DIFFERS = "equal", "refused", "error", "differs"


class Outcome(NamedTuple):
    """What became of a job on a checkpoint.

    Attributes:
        word: `equal`, `refused` before the run, `error` for rows without a result, or `differs`.
        difference: the largest difference from transformers; None without results.
        reason: the message of a refusal or an error, or what makes an equal job slow.
    """

    word: str
    difference: float | None = None
    reason: str = ""


class RowError(Exception):
    """A row of a job has no result."""


def article(number: int) -> str:
    """Return the text about an item: words that differ, so that each position counts."""
    words = "museum holds objects of many peoples its halls were built in old days and shows them well".split()
    drawn = np.random.default_rng(number).choice(words, LENGTHS[number])
    return " ".join(drawn) + "."


def rubric(pictures: int) -> dict[str, Any]:
    """Return a rubric that shows so many pictures; text models skip the picture that each must have."""
    shown = {0: ["picture"], 1: ["picture"], 2: ["picture1", "between", "picture2"]}[pictures]
    return {
        "name": "shown",
        "version": 1,
        "source": "made for a test",
        "context": {"fields": ["article"]},
        "parts": {
            "between": "or",
            "article": "{{ article }}",
            "question": "{{ question }} {{ target }}?\n{{ options }}",
        },
        "layouts": {"fast": [*shown, "article", "question"]},
        "layout": "fast",
        "targets": list(LABELS),
        "questions": [
            {
                "name": "shown",
                "text": QUESTION,
                "scale": "nominal",
                "answers": [{"value": code.lower(), "label": code} for code in CODES],
                "reply": "label",
            }
        ],
    }


class Comparison:
    """The jobs on one checkpoint.

    Args:
        folder: of the checkpoint.
        jobs: which of `JOBS` to run.
    """

    def __init__(self, folder: Path, *, jobs: Sequence[str] = JOBS) -> None:
        self.plain = Plain(folder)
        self.settings = ModelSettings(
            checkpoint=str(folder), dtype="float32", device_map="cpu", max_pixels=None, min_pixels=None
        )
        self.pictures = int(self.plain.sees)
        self.jobs = [job for job in jobs if self.pictures or job != TWO_PICTURES]
        self._remark = ""  # what makes the job slow that is running

    def outcomes(self) -> dict[str, Outcome]:
        """Return what became of each job."""
        with _loading_once():
            return {job: self._outcome(self._runs(job)) for job in self.jobs}

    def visible(self) -> dict[str, float]:
        """Return by how much log-likelihoods change with the order of some words, masked words, and the picture.

        The smallest of these changes says which faults the comparison can see.
        """
        inputs = self.plain.inputs(self._content(0, LABELS[0], self.pictures))
        expected = self.plain.logprobs(inputs, [])
        ids, end = inputs["input_ids"], inputs["input_ids"].shape[1] - 20
        turned = ids.clone()
        turned[0, end - 12 : end] = ids[0, end - 12 : end].flip(0)
        changed = {"position": inputs | {"input_ids": turned}}
        if "attention_mask" in inputs:
            masked = inputs["attention_mask"].clone()
            masked[0, end - 4 : end] = 0
            changed["mask"] = inputs | {"attention_mask": masked}
        if self.pictures:
            other = [picture(9, width=120, height=90), *self._content(0, LABELS[0], 1)[1:]]
            changed["picture"] = self.plain.inputs(other)
        tokens = [codes[0] for codes in self._codes]
        return {
            name: float((self.plain.logprobs(other, [])[-1] - expected[-1])[tokens].abs().max())
            for name, other in changed.items()
        }

    def _runs(self, job: str) -> Callable[[], float]:
        if job in ENGINES:
            return lambda: self._closed(job, self.pictures)
        runs = {"reasoned": self._reasoned, "generate": self._generate, "loglik": self._loglik}
        return runs[job] if job in runs else lambda: self._closed("auto", 2)

    def _outcome(self, run: Callable[[], float]) -> Outcome:
        self._remark = ""
        try:
            difference = run()
        except RowError as error:
            return Outcome(FAULT, reason=str(error))
        except ValueError as error:
            return Outcome(REFUSED, reason=str(error))
        except Exception as error:
            return Outcome(FAULT, reason=f"{type(error).__name__}: {error}")
        return Outcome(EQUAL, difference, self._remark) if difference <= TOLERANCE else Outcome(DIFFERS, difference)

    def _content(self, number: int, label: str, pictures: int) -> list[Any]:
        """Return the user's turn in a question about an item."""
        shown = _pictures(number)
        before: list[Any] = [[], shown[:1], [shown[0], "or\n\n", shown[1]]][pictures]
        return [*before, f"{article(number)}\n\n{QUESTION} {label}?\n- A\n- B\n- C"]

    @functools.cached_property
    def _codes(self) -> list[list[int]]:
        return [self.plain.answer(code) for code in CODES]

    @functools.lru_cache(maxsize=2)  # noqa: B019 # as long-lived as the instance
    def _expected(self, pictures: int) -> list[list[float]]:
        """Return the log-likelihoods of the codes after each question about each item."""
        return [
            self._of_codes(self.plain.inputs(self._content(number, label, pictures)))
            for number in range(JUDGED)
            for label in LABELS
        ]

    def _of_codes(self, inputs: dict[str, Any]) -> list[float]:
        """Return log-likelihoods of the codes' last tokens; white space before all of them is part of the prompt."""
        (bridge,) = {tuple(tokens[:-1]) for tokens in self._codes}
        after = self.plain.logprobs(inputs, bridge)[-1]
        return [float(after[tokens[-1]]) for tokens in self._codes]

    def _closed(self, engine: str, pictures: int) -> float:
        settings = ClosedSettings(rubric=rubric(pictures), engine=engine, memory_budget_gb=0.3)
        judge = _recording(Judge)(settings, model=self.settings, threads=1)
        prepared = RubricPreparer(settings, model=self.settings)(_items(pictures).slice(0, JUDGED))
        _check(judge(prepared).to_pylist())
        if engine not in ("auto", judge.scorer.engine):
            raise ValueError(f"engine={engine}: {judge.scorer.engine} was used")
        return _farthest([scores.logprobs for scores in judge.scores], self._expected(pictures))

    def _reasoned(self) -> float:
        """Compare the reasonings, and the likelihoods of the answers after them."""
        settings = ReasoningSettings(
            rubric=rubric(self.pictures), samples=1, max_tokens=TOKENS, seed=3, memory_budget_gb=0.3
        )
        prepared = RubricPreparer(
            settings,
            model=self.settings,
            instruction=REASONING_INSTRUCTION,
            answer_tokens=settings.reserved_tokens,
        )(_items(self.pictures).slice(0, 1))
        judge = _recording(ReasoningJudge)(settings, model=self.settings, threads=1)
        rows = judge(prepared).to_pylist()
        _check(rows)
        expected = []
        for row, label in zip(rows, LABELS, strict=True):
            *before, text = self._content(0, label, self.pictures)
            start = f"{row['comment']}\n\n{ANSWER_LINE}" if row["comment"] else ANSWER_LINE
            inputs = self.plain.inputs([*before, f"{text}\n\n{REASONING_INSTRUCTION}"], start)
            after = [self.plain.continuation(self.plain.opened(start), f" {code}") for code in CODES]
            (bridge,) = {tuple(tokens[:-1]) for tokens in after}
            last = self.plain.logprobs(inputs, bridge)[-1]
            expected.append([float(last[tokens[-1]]) for tokens in after])
        return _farthest([scores.logprobs for scores in judge.scores], expected)

    def _generate(self) -> float:
        """Compare greedy texts with `generate`, and the draws of others with the cumulative distribution."""
        order = ["picture", "article", "ask"] if self.pictures else ["article", "ask"]
        instruction = _instruction(order, ask="What is it?")
        prepared = PromptPreparer(
            ContextSettings(), model=self.settings, instruction=instruction, answer_tokens=TOKENS
        )(_items(self.pictures))
        worst = 0.0
        for temperature in (0.0, 1.0):
            settings = GeneratorSettings(
                samples=SAMPLES,
                max_tokens=TOKENS,
                temperature=temperature,
                memory_budget_gb=0.3,
                refusals={"en": {"refusal": ["^I cannot"]}},
            )
            writer = Generator(settings, model=self.settings, prompt="tell", prompt_hash="h", threads=1)
            assert isinstance(writer.engine, TextGenerator)
            writer.engine.ends = []  # all texts have the same length
            texts: list[Any] = []
            generate = writer.engine.generate

            def recorded(*arguments: Any, generate: Any = generate, texts: list[Any] = texts, **options: Any) -> Any:
                texts += (results := generate(*arguments, **options))
                return results

            with patch.object(writer.engine, "generate", recorded):
                rows = writer(prepared).to_pylist()
            _check(rows, {"ok", "truncated", "unparsed"})
            if any(way == "alone" and not fits for (*_, way), fits in writer.engine._ways._verdicts.items()):
                self._remark = vlm.WHOLE
            for number, samples in enumerate(texts):
                inputs = self.plain.inputs([*self._content(number, "", self.pictures)[:-1], _asked(number)])
                drawn = [sample.tokens for sample in samples]
                if temperature == 0:
                    worst = max(worst, *(self._from_greedy(inputs, list(tokens)) for tokens in set(map(tuple, drawn))))
                else:
                    seeds = [row["seed"] for row in rows[SAMPLES * number :][:SAMPLES]]
                    worst = max(worst, *map(functools.partial(self._from_draws, inputs), drawn, seeds))
        return worst

    def _from_greedy(self, inputs: dict[str, Any], tokens: list[int]) -> float:
        """Return 0 for the text of `generate`, else how much less likely the first other token is."""
        expected = self.plain.greedy(inputs, TOKENS)
        if tokens == expected:
            return 0.0
        place = next(i for i, (a, b) in enumerate(zip(tokens, expected, strict=True)) if a != b)
        after = self.plain.logprobs(inputs, expected[:place])[-1]
        return float(after[expected[place]] - after[tokens[place]])

    def _from_draws(self, inputs: dict[str, Any], tokens: list[int], seed: int) -> float:
        numbers = np.random.Generator(np.random.Philox(seed)).random(len(tokens))
        logprobs = self.plain.logprobs(inputs, tokens[:-1])
        return max(map(draw_gap, logprobs, numbers.tolist(), tokens))

    def _loglik(self) -> float:
        """Compare labels' log-likelihoods, and with lambda = 1 what remains of them without picture and text."""
        order = ["picture", "article", "ask"] if self.pictures else ["article", "ask"]
        instruction = _instruction(order, ask="What is it?") | {"start": START}
        settings = LoglikSettings(prompt=instruction, lambdas=[0.0, 1.0])
        prepared = PromptPreparer(ContextSettings(), model=self.settings, instruction=instruction)(
            _items(self.pictures).slice(0, JUDGED)
        )
        rater = LoglikRater(settings, model=self.settings, targets=LABELS, threads=1)
        rows = rater(prepared).to_pylist()
        _check(rows)
        self._remark = vlm.WHOLE if rater.scorer.ways[0] == "whole" else ""
        labels = [self.plain.continuation(self.plain.opened(START), f" {label}") for label in LABELS]
        bare = self.plain.inputs(["What is it?"], START)
        expected = []
        for number in range(JUDGED):
            inputs = self.plain.inputs([*self._content(number, "", self.pictures)[:-1], _asked(number)], START)
            for tokens in labels:
                whole = self._of_tokens(inputs, tokens)
                expected += [whole, whole - self._of_tokens(bare, tokens)]
        return _farthest([[row["score"] for row in rows]], [expected])

    def _of_tokens(self, inputs: dict[str, Any], tokens: list[int]) -> float:
        logprobs = self.plain.logprobs(inputs, tokens[:-1])
        return sum(float(row[token]) for row, token in zip(logprobs, tokens, strict=True))


def _pictures(number: int) -> list[Any]:
    width, height = SIZES[number]
    return [picture(2 * number + second, width=width, height=height) for second in range(2)]


def _items(pictures: int) -> pa.Table:
    """Return all items with so many pictures."""
    rows = [
        {
            "item_id": f"item{number}",
            "pictures": [png(2 * number + second, width=w, height=h) for second in range(pictures)],
            "status": "ok",
            "article": article(number),
        }
        for number, (w, h) in enumerate(SIZES)
    ]
    columns: dict[str, Any] = {name: [row[name] for row in rows] for name in rows[0]}
    return pa.table(columns | {"pictures": pa.array(columns["pictures"], pa.list_(pa.large_binary()))})


def _instruction(order: list[str], *, ask: str) -> dict[str, Any]:
    return {
        "name": "tell",
        "version": 1,
        "source": "made for a test",
        "context": {"fields": ["article"]},
        "parts": {"article": "{{ article }}", "ask": ask},
        "order": order,
    }


def _asked(number: int) -> str:
    return f"{article(number)}\n\nWhat is it?"


def _check(rows: Sequence[dict[str, Any]], allowed: set[str] = {"ok"}) -> None:  # noqa: B006 # not changed
    for row in rows:
        if row["status"] not in allowed:
            raise RowError(f"{row['error_kind']}: {row['error_message']}")


def _farthest(values: Sequence[Sequence[float]], expected: Sequence[Sequence[float]]) -> float:
    return float(np.abs(np.array(values) - np.array(expected)).max())


def _recording(kind: Any) -> Any:
    """Return a subclass of a judge that keeps the scores of each row."""

    class Recording(kind):
        def _count_mass(self, results: Any) -> None:
            results = list(results)
            self.scores = [*getattr(self, "scores", ()), *(r for r in results if isinstance(r, Scores))]
            super()._count_mass(results)

    return Recording


@contextmanager
def _loading_once() -> Iterator[None]:
    """Load a checkpoint and its processor once for all jobs."""
    load, load_processor = loading.load_model, loading.load_processor
    settings: dict[str, Any] = {"dtype": "float32", "device_map": "cpu"}
    model = functools.cache(lambda name: load(ModelSettings(checkpoint=name, **settings), threads=1))
    processor = functools.cache(load_processor)
    with (
        patch.object(rubric_rater, "load_model", lambda named, threads=None: model(named.checkpoint)),
        patch.object(generator, "load_model", lambda named, threads=None: model(named.checkpoint)),
        patch.object(loglik_rater, "load_model", lambda named, threads=None: model(named.checkpoint)),
        patch.object(preparers, "load_processor", lambda name, **_: processor(name)),
    ):
        yield
