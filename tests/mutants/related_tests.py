"""Test files that may notice a change of a module: the mirrored one, and those that import the module."""

import ast
from collections.abc import Iterable, Mapping
from pathlib import Path


def module_name(path: Path) -> str:
    """Return the dotted name of the module at `path`, relative to the repository."""
    return ".".join(path.with_suffix("").parts).removesuffix(".__init__")


def imported_modules(tree: ast.Module, modules: Iterable[str]) -> set[str]:
    """Return those of `modules` that a module imports by absolute names anywhere, or names in a string.

    A string is the name of a module, as for `importlib.import_module`, also with `:function`, or of a command in jobs.
    """
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names |= {node.value.partition(":")[0], f"jobs.{node.value}"}
    return names & set(modules)


def import_graph(trees: Mapping[Path, ast.Module]) -> dict[Path, set[Path]]:
    """Return the files of `trees` that each of them imports."""
    by_name = {module_name(path): path for path in trees}
    return {path: {by_name[name] for name in imported_modules(tree, by_name)} for path, tree in trees.items()}


def related_tests(path: Path, graph: Mapping[Path, set[Path]], most: int) -> list[Path]:
    """Return at most `most` test files for the module `path`, nearest first.

    The mirrored file of tests/ comes first, then files that import the module, then files that import it through
    others, by the number of imports between. Of equally near ones those with the module's name in theirs come first
    (test_rubric_texts.py for rubric.py), then those in near folders.
    """
    mirrored = Path("tests", path.parent, f"test_{path.name}")
    tests = [mirrored] if mirrored in graph else []
    reached, level = {path}, [path]
    while level and len(tests) < most:
        level = sorted(file for file, imported in graph.items() if file not in reached and imported & set(level))
        reached |= set(level)
        nearest = sorted(level, key=lambda file: (path.stem not in file.stem, -_shared_folders(file, mirrored), file))
        tests += [file for file in nearest if file.name.startswith("test_") and file not in tests]
    return tests[:most]


def _shared_folders(first: Path, second: Path) -> int:
    """Return how many folders two paths share at their beginning."""
    pairs = zip(first.parts[:-1], second.parts[:-1], strict=False)
    return next((number for number, (a, b) in enumerate(pairs) if a != b), min(len(first.parts), len(second.parts)) - 1)
