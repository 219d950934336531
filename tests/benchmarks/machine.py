"""The machine and the software that figures come from, without anything that names the machine."""

import os
import platform
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

import psutil


def describe(packages: Iterable[str]) -> dict[str, str]:
    """CPU, cores, load, memory, operating system, Python and the versions of `packages` (absent ones say so)."""
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    results = {
        "CPU": _cpu_model(),
        "cores": f"{usable} usable of {os.cpu_count()}",
        "load": f"{os.getloadavg()[0]:.1f}",
        "memory": f"{psutil.virtual_memory().total / 2**30:.1f} GiB",
        "system": f"{_system()}, {platform.system()} {platform.release()} {platform.machine()}",
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
    }
    for name in packages:
        try:
            results[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            results[name] = "not installed"
    return results


def _cpu_model() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def _system() -> str:
    try:
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        return platform.system()
