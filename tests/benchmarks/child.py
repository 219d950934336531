"""Code in a contender's process. It imports next to nothing, because its own cost is part of every result."""

import importlib
import json
import resource
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Result:
    """The result of a contender: the number of rows, and a digest that does not depend on their order.

    A contender of which a part is to be measured (what is read, not what is built before) measures it itself and says
    so in the other attributes; those that are None are measured from outside, over the whole process. `apart` are
    figures of its own that are no part of these (the CPU seconds of a server that it asks), by name.
    """

    rows: int
    digest: str
    wall_s: float | None = None
    cpu_s: float | None = None
    peak_mb: float | None = None
    apart: dict[str, float] = field(default_factory=dict, init=False)


class SkippedError(Exception):
    """Raised by a contender that cannot run here; the message is the reason shown."""


def main(function: str, workdir: str, size: str, answer: str) -> None:
    """Call `module:function` with (workdir, size) and write its result, or why it was skipped, to the file `answer`."""
    module, _, name = function.partition(":")
    content: dict[str, object]
    try:
        content = asdict(getattr(importlib.import_module(module), name)(Path(workdir), size))
    except SkippedError as reason:
        content = {"skipped": str(reason)}
    content["peak_bytes"] = own_peak_bytes()
    Path(answer).write_text(json.dumps(content))


def own_peak_bytes() -> int:
    """Peak resident memory of this process alone, moments between the parent's samples included."""
    status = Path("/proc/self/status")
    if status.exists():
        # ru_maxrss would do, but on Linux it starts from the peak of whoever started this process
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
