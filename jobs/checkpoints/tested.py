"""What small checkpoints of each architecture have shown in comparison with transformers alone.

`python -m tests.models.architectures` writes conf/architectures.yaml, and docs/models.md from it.
"""

import functools
import json
from typing import Any

from jobs.runtime.configuration.config_files import CONF

FILE = CONF / "architectures.yaml"
EQUAL = "equal"
WHOLE = "each label, or each token of a text, passes the whole prompt again"  # reason of an equal outcome
SHARING = ("cascade", "batched")  # engines of `judge` that pass a shared prefix once on any device


@functools.lru_cache(maxsize=1)
def records() -> dict[str, dict[str, Any]]:
    """Return, by architecture (`model_type`) and job, the outcome, the difference and the reason."""
    lines = FILE.read_text(encoding="utf-8").splitlines()
    entries = [json.loads(line.removeprefix("- ")) for line in lines if line.startswith("- ")]
    return {entry["architecture"]: entry["jobs"] for entry in entries}


def shares_prefixes(architecture: str | None) -> bool | None:
    """Return whether an engine of `judge` passes prefixes once; None for an architecture without a comparison."""
    if (jobs := records().get(architecture or "")) is None:
        return None
    return any(jobs[engine][0] == EQUAL for engine in SHARING)


def continues_prompts(architecture: str | None, job: str) -> bool | None:
    """Return whether labels (`loglik`) or texts (`generate`) continue from one pass of their prompt.

    Returns None for an architecture without a comparison.
    """
    if (jobs := records().get(architecture or "")) is None:
        return None
    return bool(jobs[job][2] != WHOLE)


def summary(architecture: str | None) -> str:
    """Return what the comparison showed in a few words; empty without one."""
    if (jobs := records().get(architecture or "")) is None:
        return ""
    results = {"judge": jobs["naive"][0], "generate": jobs["generate"][0], "loglik": jobs["loglik"][0]}
    words = [f"{job}: {word}" for job, word in results.items() if word != EQUAL] or ["equal"]
    return ", ".join([*words, *([] if shares_prefixes(architecture) else ["naive"])])
