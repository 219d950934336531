"""The contract of imports in jobs/ ("Where code goes" in CONTRIBUTING.md), for import-linter."""

from pathlib import Path
from typing import Any

from importlinter.contracts.layers import LayersContract

JOBS = Path(__file__).parents[1] / "jobs"
SHARED = ("tables", "errors")  # modules of jobs/ that are no commands, the upper one first


def layers() -> list[str]:
    """Return the layers of jobs/ from the top: __main__, commands, folders, shared modules.

    In import-linter's notation modules separated by "|" must not import each other, those separated by ":" may.
    """
    commands = {path.stem for path in JOBS.glob("*.py")} - {"__init__", "__main__", *SHARED} | {"steps"}
    folders = {path.parent.name for path in JOBS.glob("*/__init__.py")} - {"steps"}
    return ["__main__", " | ".join(sorted(commands)), " : ".join(sorted(folders)), *SHARED]


class HouseContract(LayersContract):
    """Commands import libraries, never each other; libraries import no command. Every file of jobs/ has a layer."""

    def __init__(
        self, name: str, session_options: dict[str, Any], contract_options: dict[str, Any], **arguments: Any
    ) -> None:
        derived = {"containers": ["jobs"], "layers": layers(), "exhaustive": "true"}
        super().__init__(name, session_options, {**contract_options, **derived}, **arguments)
