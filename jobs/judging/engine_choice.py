"""`generate engine=auto`: uses vLLM on GPUs if it writes the same as transformers about a sample of the items.

Both engines write the likeliest texts about two items, one engine after the other on a GPU of the pool. vLLM is chosen
if the tokens are the same and their log-probabilities differ by at most `TOLERANCE`. The comparison is kept in
`_run/engine.json`; a table that has begun keeps its engine, which is part of its identity.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from actors.errors import first_line
from actors.generator import GreedyTexts, greedy_texts
from actors.status import Status
from jobs.judging import vllm_engine
from jobs.judging.items import ItemReader
from jobs.judging.prompt_trial import first_items
from jobs.judging.vllm_engine import EngineKeys
from jobs.runtime.cluster import ray_session
from jobs.runtime.configuration.config import RayConfig
from jobs.runtime.configuration.resources import demands
from jobs.runtime.process.console import say
from jobs.runtime.selection.exclusions import ExclusionFilter, Exclusions, withhold
from jobs.store import run_files
from jobs.store.files import locations
from jobs.store.run_files import IDENTITY, run_uri
from jobs.store.units import Unit

AUTO, DEFAULT = "auto", "transformers"
FILE = "engine.json"
TOLERANCE = {"float32": 1e-4}  # for log-probabilities of tokens
ROUNDED_TOLERANCE = 0.2  # with 16-bit numbers; our own engines differ by up to 0.16
SAMPLE, TOKENS = 2, 16
LEAST_TEXTS = 256  # fewer texts are written before vLLM has started twice
TRIAL_S = 3600  # longest time to load and run one engine


class AutoKeys(EngineKeys, Protocol):
    """The configuration of a job whose engine may be `auto`."""

    out: str
    overwrite: bool
    memory_budget_gb: float | None
    ray: RayConfig


class ChosenEngine(NamedTuple):
    """The engine of a run.

    Attributes:
        name: `transformers` or `vllm`.
        files: the comparison that led to the choice, as a file of `_run/`; empty without a comparison.
    """

    name: str
    files: Mapping[str, bytes] = {}


def choose(
    cfg: AutoKeys,
    prepare: Mapping[str, Any],
    *,
    texts: int,
    units: Iterable[Unit],
    reader: ItemReader,
    excluded: Exclusions,
) -> ChosenEngine:
    """Return the engine of a run, with `engine=auto` resolved.

    Args:
        prepare: arguments of `actors.preparers.PromptPreparer`.
        texts: the number of texts that the run writes.
        units, reader: the items, the first of which are used for the comparison.

    Raises:
        InputError: the cluster does not answer or is too small.
    """
    if cfg.engine != AUTO:
        return ChosenEngine(cfg.engine)
    if not cfg.overwrite and (begun := _engine_of(cfg.out)):
        return ChosenEngine(begun)
    if cfg.only_plans or texts < LEAST_TEXTS or not cfg.resources.judge.num_gpus or not vllm_engine.is_possible(cfg):
        return ChosenEngine(DEFAULT)
    rows = withhold(
        first_items(units, reader, 10 * SAMPLE), item="item_id", exclusion_filter=ExclusionFilter(excluded.marks)
    )
    items = rows.filter(pc.equal(rows["status"], Status.OK.value)).slice(0, SAMPLE)
    if not items.num_rows:
        return ChosenEngine(DEFAULT)
    verdict = _compare(cfg, items, prepare)
    if reason := verdict["difference"]:
        say(f"warning: engine=auto: {DEFAULT}, not {vllm_engine.NAME}: {reason}", err=True, level="warning")
    else:
        say(f"  engine=auto: {vllm_engine.NAME}, with the texts of {DEFAULT} on a sample of {items.num_rows}")
    name = DEFAULT if reason else vllm_engine.NAME
    return ChosenEngine(name, {FILE: json.dumps({"engine": name, **verdict}, indent=1).encode()})


def difference(ours: GreedyTexts, theirs: GreedyTexts) -> str:
    """Return how vLLM's texts, and its probabilities of the tokens of ours, differ; empty if they do not."""
    if not any(ours.texts):
        return "the sample has no texts to compare"
    for number, (one, other) in enumerate(zip(ours.texts, theirs.texts, strict=True), 1):
        if one != other:
            same = next(
                (n for n, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]),
                min(len(one), len(other)),
            )
            return f"its text {number} of {len(ours.texts)} is another after {same} tokens"
    for number, (reason, other_reason) in enumerate(zip(ours.reasons, theirs.reasons, strict=True), 1):
        if reason != other_reason:
            return f"its text {number} of {len(ours.texts)} ends by {other_reason!r}, not by {reason!r}"
    tolerance = TOLERANCE.get(ours.dtype, ROUNDED_TOLERANCE)
    if (largest := _largest(ours, theirs)) <= tolerance:
        return ""
    return f"its log-probabilities differ by {largest:.2g} (allowed in {ours.dtype}: {tolerance:g})"


def _largest(ours: GreedyTexts, theirs: GreedyTexts) -> float:
    first, second = (np.array([value for text in texts.logprobs for value in text]) for texts in (ours, theirs))
    return float(np.max(np.abs(first - second), initial=0.0))  # there may be no text, or empty ones


def _engine_of(out: str) -> str | None:
    """Return the engine of the table that has begun at `out`; None if there is none."""
    try:
        identity = run_files.read_json(run_uri(locations.absolute(out), IDENTITY))
    except FileNotFoundError:
        return None
    return vllm_engine.NAME if str(identity.get("engine", "")).startswith(vllm_engine.NAME) else DEFAULT


def _compare(cfg: AutoKeys, items: pa.Table, prepare: Mapping[str, Any]) -> dict[str, Any]:
    """Return the comparison as JSON values; `difference` is the reason why vLLM is not used, empty if it is used."""
    arguments = {"prepare": dict(prepare), "max_tokens": TOKENS, "memory_budget_gb": cfg.memory_budget_gb}
    try:
        ours = on_gpu(cfg, items, **arguments, engine=DEFAULT)
        theirs = on_gpu(cfg, items, **arguments, engine=vllm_engine.NAME, texts=ours.texts)
    except Exception as error:  # from the libraries, the device or Ray; the run itself reports other errors
        return {"difference": f"the comparison failed ({first_line(error)})"}
    return {
        "difference": difference(ours, theirs),
        "items": items["item_id"].to_pylist(),
        "tokens": sum(map(len, ours.texts)),
        "largest difference of log-probabilities": _largest(ours, theirs),
        "dtype": ours.dtype,
        "engines": [ours.engine, theirs.engine],
    }


def on_gpu(cfg: AutoKeys, items: pa.Table, **arguments: Any) -> GreedyTexts:
    """Return the result of `greedy_texts`, computed in a separate process with the resources of an actor of `judge`."""
    ray_session.start(cfg.ray, cfg.resources, demands(cfg.resources, ["judge"], streamed=False))
    import ray

    pool = cfg.resources.judge
    options: dict[str, Any] = {"num_cpus": pool.num_cpus, "num_gpus": pool.num_gpus, "max_calls": 1, "max_retries": 0}
    if pool.memory_gb:
        options["memory"] = pool.memory_gb * 2**30
    remote: Any = ray.remote(**options)
    texts = remote(greedy_texts).remote(items, **arguments)
    try:
        result: GreedyTexts = ray.get(texts, timeout=cfg.resources.wait_s + TRIAL_S)
    except BaseException:
        ray.cancel(texts, force=True)
        raise
    return result
