"""Check and measure everything on a GPU, in less than ten minutes, and write the figures as JSON.

    python -m tests.gpu --out gpu.json                 # on a machine with CUDA; needs torch, transformers and open_clip
    python -m tests.gpu --device cpu --tiny            # the same code in seconds: the figures mean nothing
    python -m tests.gpu --document gpu.json            # puts the figures into tests/benchmarks/RECORDS.md

Exit code 1 if a check failed. What does not fit into the time is left out, and listed.
"""

import argparse
import gc
import json
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.gpu import checks, device, document, speeds

SECONDS = 570  # after these, no further check or measurement is started


def main(arguments: list[str] | None = None) -> int:
    """Run the selected checks and measurements, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.gpu", description=__doc__)
    parser.add_argument("--device", default="cuda", help="cuda, cuda:1 or cpu")
    parser.add_argument("--tiny", action="store_true", help="small models and few rounds")
    parser.add_argument("--out", type=Path, help="file for the figures as JSON")
    parser.add_argument("--only", nargs="*", help="names of checks and measurements")
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, help="after these, no further check or measurement is started"
    )
    parser.add_argument(
        "--document", type=Path, metavar="JSON", help="write its figures into tests/benchmarks/RECORDS.md; no run"
    )
    asked = parser.parse_args(arguments)
    if asked.document:
        document.write(json.loads(asked.document.read_text(encoding="utf-8")))
        return 0

    def save(result: dict[str, Any]) -> None:
        if asked.out:
            asked.out.write_text(json.dumps(result, indent=1), encoding="utf-8")

    result = run(asked.device, tiny=asked.tiny, only=asked.only, limit=asked.seconds, save=save)
    failed = [name for name, results in result["checks"].items() if "error" in results or results.get("ok") is False]
    print(f"{len(result['checks'])} checks, failed: {', '.join(failed) or 'none'}")
    return 1 if failed else 0


def run(
    place: str,
    *,
    tiny: bool,
    only: list[str] | None = None,
    limit: float = SECONDS,
    save: Callable[[dict[str, Any]], None] = lambda _: None,
) -> dict[str, Any]:
    """Return {machine, rates, checks, measurements, seconds}.

    Args:
        place: the device.
        only: beginnings of the names of checks and measurements; None: all.
        limit: seconds after which nothing more is begun.
        save: gets the results so far after each: a machine may be taken away.
    """
    import torch

    from actors.devices import find_device

    start = time.monotonic()
    target = find_device(place)
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False  # the checks compare float32
    dtype = speeds.dtype_of(target)
    side, size = (256, 1 << 20) if tiny else (8192, 2 << 30)
    rates = {
        "matrix": device.matrix_rate(target, dtype, side=side),
        "copy": device.copy_rate(target, size=size),
        "upload": device.upload_rate(target, size=size),
    }
    result: dict[str, Any] = {"machine": machine(target, tiny=tiny), "rates": rates, "checks": {}, "measurements": {}}
    tasks: list[tuple[dict[str, Any], str, Callable[[], Any]]] = [
        (result["checks"], check.__name__, lambda check=check: check(target, tiny=tiny))  # type: ignore[misc]
        for check in checks.CHECKS
    ]
    for kind, measure, name in speeds.MEASUREMENTS:
        tasks.append(
            (
                result["measurements"],
                f"{kind} {name}",
                lambda measure=measure, name=name: measure(name, target, rates, tiny=tiny),  # type: ignore[misc]
            )
        )
    for group, name, work in tasks:
        if only and not any(name.startswith(part) for part in only):
            continue
        begun = time.monotonic()
        group[name] = attempt(work) if begun - start < limit else {"skipped": "no time was left"}
        gc.collect()
        if target.type == "cuda":
            torch.cuda.empty_cache()
        print(f"{time.monotonic() - begun:6.1f} s  {name}: {json.dumps(group[name])}", flush=True)
        save(result | {"seconds": time.monotonic() - start})
    return result | {"seconds": time.monotonic() - start}


def attempt(work: Callable[[], Any]) -> dict[str, Any]:
    """Return the figures of `work`, or why there are none: one failure must not lose the others."""
    try:
        outcome: dict[str, Any] = work()
    except checks.SkippedError as reason:
        return {"skipped": str(reason)}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"[:500]}
    return outcome


def machine(target: Any, *, tiny: bool) -> dict[str, Any]:
    """Return the device and the versions, without anything that names the machine."""
    import torch
    import transformers

    is_cuda = target.type == "cuda"
    return {
        "device": torch.cuda.get_device_name(target) if is_cuda else platform.machine(),
        "devices": torch.cuda.device_count() if is_cuda else 0,
        "tiny": tiny,
        "Python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
    }


if __name__ == "__main__":
    sys.exit(main())
