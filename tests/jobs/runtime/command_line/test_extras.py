"""Jobs whose packages are not installed name the extra that has them."""

import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

from jobs.runtime.command_line import cli, extras

ROOT = Path(__file__).parents[4]


def packages(requirements: list[str]) -> set[str]:
    return {re.split(r"[\[<>=!~ ]", line)[0].lower().replace("_", "-") for line in requirements}


def test_modules_are_those_of_the_packages_of_each_extra() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    distributions = metadata.packages_distributions()
    for extra, modules in extras.MODULES.items():
        # A package without a module to import is listed under its own name.
        names = {name for module in modules for name in distributions.get(module, [module])}
        owners = {name.lower().replace("_", "-") for name in names}
        assert packages(project["optional-dependencies"][extra]) == owners, extra


def test_a_missing_package_names_its_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def execute(name: str, overrides: list[str]) -> None:
        import torch  # noqa: F401

    monkeypatch.setattr(cli, "execute", execute)
    monkeypatch.setitem(sys.modules, "torch", None)
    assert cli.main("judge", [f"out={tmp_path}/r"]) == 2
    printed = capsys.readouterr().err
    assert "the package torch is not installed" in printed
    assert "'.[models]'" in printed
    assert "'.[mining]'" not in printed


def test_a_module_of_no_extra_is_a_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    def execute(name: str, overrides: list[str]) -> None:
        import jobs.no_such_module  # noqa: F401

    monkeypatch.setattr(cli, "execute", execute)
    with pytest.raises(ModuleNotFoundError):
        cli.main("judge", [])


def test_a_module_of_several_extras_names_all_of_them() -> None:
    hint = extras.hint(ModuleNotFoundError("no", name="duckdb.sub"))
    assert hint is not None
    assert hint.partition("install it with ")[2] == (
        "pip install -c constraints.txt -e '.[diff]' or pip install -c constraints.txt -e '.[view]'"
    )
    assert str(extras.hint(ModuleNotFoundError("no", name="vllm"))).endswith(
        "'.[models,vllm]' in a separate environment"
    )
    assert extras.hint(ModuleNotFoundError("no", name="nothing")) is extras.hint(ModuleNotFoundError("no")) is None
