"""Rules of CONTRIBUTING.md about the folders of code; paths, names and links in texts exist."""

import ast
import functools
import graphlib
import re
from collections.abc import Iterable, Iterator, Mapping, Set
from pathlib import Path

import pytest

from jobs.runtime.command_line.job_names import COMMANDS, GROUPS

ROOT = Path(__file__).parents[1]
NO_COMMANDS = {"__init__", "__main__", "api", "errors", "tables"}
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
CONF = [path for folder in ("conf", "deploy") for path in sorted((ROOT / folder).rglob("*.yaml"))]
CODE = sorted([*(ROOT / "jobs").rglob("*.py"), *(ROOT / "actors").rglob("*.py")])
# Files that an instruction has the reader create.
READERS_OWN = {
    "my_model.yaml",
    "my_rubric.yaml",
    "mood.yaml",
    "NAME_study.yaml",
    "mood_study.yaml",
    "my_paper.yaml",
    "my_targets.txt",
    "FILE.yaml",
    "jobs/NAME.py",
    "tests/jobs/test_NAME.py",
    "conf/corpus/NAME.yaml",
    "conf/paper/NAME.yaml",
    "jobs/papers/NAME_tables.py",
}
# Longest chain of imports between files. It may only be lowered.
MOST_LEVELS = {"jobs": 8, "actors": 6}  # of the graph of folders and of files directly in jobs/ and actors/
MOST_MODULE_LEVELS = 15  # of the graph of modules, without imports within functions
MOST_LINES = 165  # of a command, which reads from top to bottom in about 150. It may only be lowered.

DOTTED = re.compile(r"(?<![\w./-])((?:jobs|actors)(?:\.[A-Za-z_]\w*)+)")
FILE = re.compile(r"(?<![\w/.*{-])([\w.][\w./-]*\.(?:py|ya?ml))\b(?![\w*(])")
TEST_MODULE = re.compile(r"^ *(?:from|import) (tests\.(?:\w+\.)*test_\w+)", re.MULTILINE)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def module_name(path: Path) -> str:
    """Dotted name of a module of this repository."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@functools.cache
def modules() -> Mapping[str, ast.Module]:
    """Dotted name -> syntax tree, of all modules of jobs/ and actors/."""
    return {module_name(path): ast.parse(path.read_text()) for path in CODE}


@pytest.fixture(scope="module", autouse=True)
def _trees_forgotten() -> Iterator[None]:
    """Syntax trees are millions of objects, which each search for garbage of the tests after these would visit."""
    yield
    modules.cache_clear()


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the statements of a module, also those in others; not their expressions, which are ten times as many."""
    for block in ("body", "orelse", "finalbody", "handlers", "cases"):
        for node in getattr(tree, block, ()):
            yield node
            yield from statements(node)


def names_of(body: list[ast.stmt]) -> set[str]:
    """Return names that statements bind, also below `if` and `try`."""
    names: set[str] = set()
    for node in body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                names.add(node.name)
            case ast.Import() | ast.ImportFrom():
                names |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
            case ast.Assign():
                names |= {leaf.id for target in node.targets for leaf in ast.walk(target) if isinstance(leaf, ast.Name)}
            case ast.AnnAssign(target=ast.Name(id=name)):
                names.add(name)
            case ast.If() | ast.Try() | ast.With():
                names |= names_of(node.body) | names_of(getattr(node, "orelse", []))
    return names


def resolves(dotted: str) -> bool:
    """Return whether a dotted name is a module, a folder, or a name in one of these, or in a class of one."""
    parts = dotted.split(".")
    if (ROOT / Path(*parts)).is_dir():
        return True
    for length in range(len(parts), 0, -1):
        tree = modules().get(".".join(parts[:length]))
        if tree is None:
            continue
        body = tree.body
        for name in parts[length:]:
            if name not in names_of(body):
                return False
            inner = [node for node in body if isinstance(node, ast.ClassDef) and node.name == name]
            body = inner[0].body if inner else []
        return True
    return False


def docstrings(tree: ast.Module) -> Iterator[str]:
    """Yield all docstrings of a module."""
    for node in (tree, *statements(tree)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""


def header(path: Path) -> str:
    """Return the comment lines at the top of a file of conf/ or deploy/."""
    lines = path.read_text().splitlines()
    end = next((number for number, line in enumerate(lines) if not line.startswith("#")), len(lines))
    return "\n".join(lines[:end])


def texts() -> Iterator[tuple[str, str]]:
    """(file, text) of all that people read: pages, headers of conf/ and deploy/, docstrings."""
    yield from ((page.name, page.read_text()) for page in PAGES)
    yield from ((str(path.relative_to(ROOT)), header(path)) for path in CONF)
    for name, tree in modules().items():
        yield name, "\n".join(docstrings(tree))


@functools.cache
def imports() -> Mapping[str, frozenset[str]]:
    """Module -> modules of this repository that it imports anywhere, but for types alone."""
    return {name: frozenset(imports_of(name, tree, statements(tree))) for name, tree in modules().items()}


def imports_of(name: str, tree: ast.Module, within: Iterable[ast.AST]) -> set[str]:
    """Modules of this repository that statements of a module import."""
    for_types = {
        id(inner)
        for node in statements(tree)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for inner in node.body
    }
    imported: set[str] = set()
    for node in within:
        if id(node) in for_types:
            continue
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            full = {f"{node.module}.{alias.name}" for alias in node.names}
            imported |= full & set(modules()) or {node.module}
    return (imported & set(modules())) - {name}


def folder_imports(root: str) -> dict[str, set[str]]:
    """Folder or file directly in `root` -> those of the same root that it imports."""
    graph: dict[str, set[str]] = {}
    for name, imported in imports().items():
        importing = ".".join(name.split(".")[:2])
        targets = {".".join(module.split(".")[:2]) for module in imported if module.startswith(f"{root}.")}
        if name.startswith(f"{root}."):
            graph.setdefault(importing, set()).update(targets - {importing})
    return graph


def longest_chain(graph: Mapping[str, Set[str]]) -> list[str]:
    """Return the longest chain of imports, from the importing to the imported.

    Raises:
        graphlib.CycleError: modules or folders import each other.
    """
    chains: dict[str, list[str]] = {}
    for name in graphlib.TopologicalSorter(graph).static_order():
        chains[name] = [name, *max((chains[imported] for imported in sorted(graph.get(name, ()))), key=len, default=[])]
    return max(chains.values(), key=len)


def anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub makes of a page's headings."""
    headings = re.findall(r"^#+ +(.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def command_files() -> list[Path]:
    """Return the files of commands and of steps of commands."""
    files = [*(ROOT / "jobs").glob("*.py"), *(ROOT / "jobs" / "steps").glob("*.py")]
    return sorted(path for path in files if path.stem not in NO_COMMANDS)


def test_every_file_directly_in_jobs_is_a_command_of_its_name() -> None:
    for path in command_files():
        jobs = [
            ast.unparse(node.value)
            for node in modules()[module_name(path)].body
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "JOB"
        ]
        name = path.stem.replace("_", " ", 1) if path.parent.name == "steps" else path.stem
        assert [job.split("(")[1].split(",")[0].strip("'\"") for job in jobs] == [name], path
        if path.parent.name == "steps":
            continue
        last = ast.unparse(modules()[f"jobs.{path.stem}"].body[-1])  # of `python -m jobs.NAME`
        assert last == f"if __name__ == '__main__':\n    sys.exit(cli.main('{path.stem}'))", path


def test_commands_read_from_top_to_bottom() -> None:
    lines = {path.stem: len(path.read_text().splitlines()) for path in command_files()}
    assert {name: count for name, count in lines.items() if count > MOST_LINES} == {}


def test_every_file_directly_in_actors_is_a_stage_or_listed() -> None:
    row = next(
        line for line in (ROOT / "CONTRIBUTING.md").read_text().splitlines() if line.startswith("| `actors/` (files)")
    )
    listed = re.findall(r"`(\w+)`", row)
    others = set()
    for name, tree in modules().items():
        if re.fullmatch(r"actors\.\w+", name) and (ROOT / f"{name.replace('.', '/')}.py").exists():
            classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
            stages = (
                node
                for node in classes
                if "OUTPUTS" in names_of(node.body) or "RubricRater" in map(ast.unparse, node.bases)
            )
            others |= {name.removeprefix("actors.")} if not any(stages) else set()
    assert sorted(others) == sorted(listed)


def test_every_folder_of_code_is_listed() -> None:
    rows = [
        line.split("|")[1] for line in (ROOT / "CONTRIBUTING.md").read_text().splitlines() if line.startswith("| `")
    ]
    listed = {path.rstrip("/").rpartition("/")[2] for row in rows for path in re.findall(r"`([\w/]+)/`", row)}
    folders = {path.parent.name for root in ("jobs", "actors") for path in (ROOT / root).glob("*/__init__.py")}
    assert folders - listed == set()


def test_commands_have_a_place_in_the_readme_and_in_the_list_of_remine() -> None:
    readme = (ROOT / "README.md").read_text()
    assert {name for name in COMMANDS if f"`{name}`" not in readme} == set()
    assert sorted(" ".join(GROUPS.values()).split()) == sorted(COMMANDS)


def test_paths_in_texts_exist() -> None:
    everywhere = {
        path.name for folder in ("jobs", "actors", "conf", "deploy", "tests") for path in (ROOT / folder).rglob("*.*")
    }
    missing = []
    for place, text in texts():
        for path in FILE.findall(text):
            exists = (ROOT / path).exists() if "/" in path else path in everywhere or (ROOT / path).exists()
            if not exists and path not in READERS_OWN:
                missing.append(f"{place}: {path}")
    assert missing == []


def test_dotted_names_in_texts_resolve() -> None:
    unknown = [f"{place}: {name}" for place, text in texts() for name in DOTTED.findall(text) if not resolves(name)]
    assert [entry for entry in unknown if "NAME" not in entry] == []


def test_links_between_pages_lead_somewhere() -> None:
    broken = []
    for page in PAGES:
        for target in LINK.findall(page.read_text()):
            if "://" in target:
                continue
            path, _, anchor = target.partition("#")
            linked = (page.parent / path).resolve() if path else page
            if not linked.exists() or (anchor and anchor not in anchors(linked)):
                broken.append(f"{page.name}: {target}")
    assert broken == []


def test_folders_import_one_way_and_through_few_levels() -> None:
    for root, most in MOST_LEVELS.items():
        chain = longest_chain(folder_imports(root))
        assert len(chain) <= most, " -> ".join(chain)


def test_modules_import_one_way_and_through_few_levels() -> None:
    chain = longest_chain({name: imports_of(name, tree, tree.body) for name, tree in modules().items()})
    assert len(chain) <= MOST_MODULE_LEVELS, " -> ".join(chain)


def test_test_modules_import_no_test_modules() -> None:
    importing = []
    for path in sorted((ROOT / "tests").rglob("*.py")):
        for module in TEST_MODULE.findall(path.read_text(encoding="utf-8")):
            if module != module_name(path):  # as the program of a process
                importing.append(f"{path.relative_to(ROOT)}: {module}")
    assert importing == []


def test_class_names_are_unique() -> None:
    places: dict[str, list[str]] = {}
    for name, tree in modules().items():
        for node in statements(tree):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(name)
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def test_one_module_finds_the_root() -> None:
    """A path that counts the folders above its file is wrong, without an error, once the file moves."""
    counted = re.compile(r"__file__.*(?:parents|parent\W*parent)")
    assert [str(path.relative_to(ROOT)) for path in CODE if counted.search(path.read_text())] == ["actors/__init__.py"]


def test_rows_become_tables_in_one_place() -> None:
    """Texts from outside may be none that UTF-8 can encode: `to_table` replaces these."""
    assert [str(path.relative_to(ROOT)) for path in CODE if "Table.from_pylist(" in path.read_text()] == [
        "actors/schemas.py"
    ]
