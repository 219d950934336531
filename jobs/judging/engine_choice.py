"""The engine of `generate` and `judge`: vLLM if it answers as transformers does about a sample of the items.

With engine=auto, one engine after the other answers on a GPU of the pool. vLLM is chosen if about the first items the
texts are the same and the log-probabilities differ by at most `TOLERANCE`, and if the next items take it less time.
engine=vllm is compared in the same way, and refused where it differs. The comparison is kept in `_run/engine.json`; a
table that has begun keeps its engine, which is part of its identity.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from actors.errors import first_line
from actors.generator import GeneratorSettings, greedy_texts
from actors.status import Status
from actors.vlm.engine_sample import EngineSample
from jobs.errors import InputError, check_least
from jobs.judging import vllm_engine
from jobs.judging.items import ItemReader
from jobs.judging.model_config import EngineConfig
from jobs.judging.prompt_trial import first_items
from jobs.judging.vllm_engine import NAME
from jobs.runtime.cluster import ray_session
from jobs.runtime.configuration.resources import demands
from jobs.runtime.process.console import say
from jobs.runtime.selection.exclusions import ExclusionFilter, Exclusions, withhold
from jobs.runtime.stage_contract import Stage
from jobs.store import run_files
from jobs.store.files import locations
from jobs.store.run_files import IDENTITY, run_uri
from jobs.store.units import Unit

AUTO = "auto"
FILE = "engine.json"
TOLERANCE = {"float32": 1e-4}  # for log-probabilities of tokens or answers
ROUNDED_TOLERANCE = 0.2  # with 16-bit numbers; ours differ by up to 0.16
TOKENS = 16  # of a text that is compared
TIMED = 16  # items whose time decides, after those that are compared
LEAST_ANSWERS = 256  # fewer are given before vLLM has started twice
TRIAL_S = 3600  # longest time to load and run one engine

Sampler = Callable[..., EngineSample]  # of a table of items and arguments, run in a separate process


class ChosenEngine(NamedTuple):
    """The engine of a run.

    Attributes:
        name: a value of `engine=`.
        files: the comparison that led to the choice, as a file of `_run/`; empty without a comparison.
    """

    name: str
    files: Mapping[str, bytes] = {}


def choose(
    cfg: EngineConfig,
    sample: Callable[[str], tuple[Sampler, dict[str, Any]]],
    *,
    fallback: str,
    answers: int,
    units: Iterable[Unit],
    reader: ItemReader,
    excluded: Exclusions,
) -> ChosenEngine:
    """Return the engine of a run, with `engine=auto` resolved.

    Args:
        sample: returns what answers about items with an engine, and its arguments besides the items and `compared`.
        fallback: the engine with transformers, which `auto` stands for without vLLM.
        answers: the number of texts or ratings that the run writes.
        units, reader: the items, the first of which are used for the comparison.

    Raises:
        InputError: engine=vllm does not answer as transformers does; or the cluster does not answer or is too small.
    """
    check_least("engine_sample", cfg.engine_sample, 0)
    if cfg.engine not in (AUTO, NAME):
        return ChosenEngine(cfg.engine)
    if not cfg.overwrite and (begun := _engine_of(cfg.out, fallback)):
        return ChosenEngine(begun if cfg.engine == AUTO else cfg.engine)
    without = ChosenEngine(fallback if cfg.engine == AUTO else cfg.engine)
    is_worth = answers >= LEAST_ANSWERS and cfg.resources.judge.num_gpus and vllm_engine.is_possible(cfg)
    if cfg.only_plans or not cfg.engine_sample or (cfg.engine == AUTO and not is_worth):
        return without
    wanted = cfg.engine_sample + (TIMED if cfg.engine == AUTO else 0)
    rows = withhold(
        first_items(units, reader, 2 * wanted), item="item_id", exclusion_filter=ExclusionFilter(excluded.marks)
    )
    items = rows.filter(pc.equal(rows["status"], Status.OK.value)).slice(0, wanted)
    if not items.num_rows:
        return without
    verdict = _compare(cfg, items, sample, fallback)
    reason = verdict["difference"] or (verdict["slower"] if cfg.engine == AUTO else "")
    if reason and cfg.engine == NAME:
        raise InputError(
            f"not used, because {reason}",
            key="engine",
            value=NAME,
            remedy="use another engine=, or engine_sample=0 to use it without a comparison",
        )
    if verdict["difference"]:
        say(f"warning: engine=auto: {fallback}, not {NAME}: {reason}", err=True, level="warning")
    else:
        compared = len(verdict["items"])
        say(f"  engine={cfg.engine}: {reason or f'{NAME}, which answers as transformers about {compared} items'}")
    name = fallback if reason else NAME
    return ChosenEngine(name, {FILE: json.dumps({"engine": name, **verdict}, indent=1).encode()})


def difference(ours: EngineSample, theirs: EngineSample) -> str:
    """Return how vLLM's texts, and its probabilities of ours or of the answers, differ; empty if they do not."""
    if not any((*ours.texts, *ours.logprobs)):
        return "the sample has no answers to compare"
    number = len(ours.texts)
    for place, (one, other) in enumerate(zip(ours.texts, theirs.texts, strict=True), 1):
        if one != other:
            same = next(
                (n for n, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]),
                min(len(one), len(other)),
            )
            return f"its text {place} of {number} is another after {same} tokens"
    for place, (reason, other_reason) in enumerate(zip(ours.reasons, theirs.reasons, strict=True), 1):
        if reason != other_reason:
            return f"its answer {place} of {number} ends by {other_reason!r}, not by {reason!r}"
    tolerance = TOLERANCE.get(ours.dtype, ROUNDED_TOLERANCE)
    if (largest := _largest(ours, theirs)) <= tolerance:
        return ""
    return f"its log-probabilities differ by {largest:.2g} (allowed in {ours.dtype}: {tolerance:g})"


def _largest(ours: EngineSample, theirs: EngineSample) -> float:
    first, second = (np.array([value for text in answers.logprobs for value in text]) for answers in (ours, theirs))
    if len(first) != len(second):
        return float("inf")
    return float(np.max(np.abs(first - second), initial=0.0))  # there may be no text, or empty ones


def _engine_of(out: str, fallback: str) -> str | None:
    """Return the engine of the table that has begun at `out`; None if there is none."""
    try:
        identity = run_files.read_json(run_uri(locations.absolute(out), IDENTITY))
    except (FileNotFoundError, NotADirectoryError):  # the plan refuses a place below a file
        return None
    return NAME if str(identity.get("engine", "")).startswith(NAME) else fallback


def _compare(
    cfg: EngineConfig, items: pa.Table, sample: Callable[[str], tuple[Sampler, dict[str, Any]]], fallback: str
) -> dict[str, Any]:
    """Return the comparison as JSON values; `difference` is the reason why vLLM is not used, empty if it is used."""
    try:
        function, arguments = sample(fallback)
        ours = on_gpu(cfg, function, items, **arguments, compared=cfg.engine_sample)
        function, arguments = sample(NAME)
        if "texts" in arguments:
            arguments["texts"] = ours.texts
        theirs = on_gpu(cfg, function, items, **arguments, compared=cfg.engine_sample)
    except Exception as error:  # from the libraries, the device or Ray; the run itself reports other errors
        return {"difference": f"the comparison failed ({first_line(error)})", "slower": ""}
    is_slower = theirs.seconds > ours.seconds
    times = f"{theirs.seconds:.1f} s against {ours.seconds:.1f} s"
    return {
        "difference": difference(ours, theirs),
        "slower": f"{fallback}, as {NAME} takes longer ({times} for the sample)" if is_slower else "",
        "items": items["item_id"].to_pylist()[: cfg.engine_sample],
        "tokens": sum(map(len, ours.texts)),
        "largest difference of log-probabilities": _largest(ours, theirs),
        "seconds": [ours.seconds, theirs.seconds],
        "dtype": ours.dtype,
        "engines": [ours.engine, theirs.engine],
    }


def of_texts(cfg: GeneratorSettings, prepare: Stage, engine: str) -> tuple[Sampler, dict[str, Any]]:
    """Return what writes the likeliest texts with an engine, for `choose`; vLLM is asked about those of the other."""
    arguments = {"prepare": prepare.kwargs, "max_tokens": TOKENS, "memory_budget_gb": cfg.memory_budget_gb}
    return greedy_texts, {**arguments, "engine": engine, **({"texts": None} if engine == NAME else {})}


def on_gpu(cfg: EngineConfig, function: Sampler, items: pa.Table, **arguments: Any) -> EngineSample:
    """Return what `function` returns, called in a separate process with the resources of an actor of `judge`."""
    ray_session.start(cfg.ray, cfg.resources, demands(cfg.resources, ["judge"], streamed=False))
    import ray

    pool = cfg.resources.judge
    options: dict[str, Any] = {"num_cpus": pool.num_cpus, "num_gpus": pool.num_gpus, "max_calls": 1, "max_retries": 0}
    if pool.memory_gb:
        options["memory"] = pool.memory_gb * 2**30
    remote: Any = ray.remote(**options)
    answers = remote(function).remote(items, **arguments)
    try:
        result: EngineSample = ray.get(answers, timeout=cfg.resources.wait_s + TRIAL_S)
    except BaseException:
        ray.cancel(answers, force=True)
        raise
    return result
