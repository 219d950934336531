"""Changes that mutants make, and the tests that are chosen for them."""

import ast
from pathlib import Path

from tests.cases import check_cases
from tests.mutants.copies import failing_test
from tests.mutants.operators import defaults_of, mutants
from tests.mutants.related_tests import import_graph, related_tests


def test_changes_of_an_expression():
    """One operator at a time, in place; texts stay, and so do arguments that a function must have."""
    cases = [
        ("x < y", ["x <= y"]),
        ("x == y != z", ["x != y != z", "x == y == z"]),
        ("x and y", ["y", "x"]),
        ("x or y or z", ["y or z", "x or z", "x or y"]),
        ("not x", ["x"]),
        ("x if c else y", ["y if c else x"]),
        ("x + 7", ["x - 7", "x + 8"]),
        ("x + 'text'", []),
        ("path / f'{name}.py'", []),
        ("x // y", ["x * y"]),
        ("flag(True)", ["flag(False)"]),
        ("min(x, y)", ["max(x, y)"]),
        ("all(x)", ["any(x)"]),
        ("sorted(x, reverse=r)", ["sorted(x)"]),
        ("zip(x, y, strict=True)", []),
        ("known(a=x, b=y)", ["known(a=x)"]),
        ("f'{x + 1}'", []),
        ("'text'", []),
    ]

    def check(source, after):
        texts = [mutant.text for mutant in mutants(f"value = é({source})\n", {"known": {"b"}})]
        plain = [ast.unparse(ast.parse(text)) for text in texts]
        assert sorted(plain) == sorted(ast.unparse(ast.parse(f"value = é({change})")) for change in after)

    check_cases(check, cases)


def test_changes_of_statements():
    """Conditions are negated, and dropped where they leave early; statements with a side effect are dropped."""
    source = '"""About 1."""\n\ndef f(x: Literal[3]) -> Literal[4]:\n    if x:\n        return y\n    rows.append(x)\n'
    assert [(mutant.line, mutant.after) for mutant in mutants(source, {})] == [
        (4, "if not x:\n        return y"),
        (4, "pass"),
        (6, "pass"),
    ]
    for left in ("self.rows = x", "rows[x] = y", "del x", "x += y"):
        assert [mutant.text for mutant in mutants(left, {})] == ["pass"]


def test_messages_checks_and_decorators_stay():
    sources = [
        "x = y",
        "raise E(1 < 2)",
        "assert x < 1",
        "logger.info(x + 1)",
        "@cached(size=1)\ndef f(): ...",
        "print(1)",
    ]
    assert {source: mutants(source, {}) for source in sources} == {source: [] for source in sources}


def test_defaults_of_functions_and_data_classes():
    source = """
def f(a, b=1, *, c, d=2): ...
class C:
    x: int
    y: int = 3
class D:
    def __init__(self, a, b=1): ...
"""
    assert defaults_of([ast.parse(source)]) == {"f": {"b", "d"}, "C": {"y"}, "D": {"b"}, "__init__": {"b"}}


def test_tests_of_a_module_nearest_first():
    """The mirrored file, then by the number of imports between, then those with the module's name."""
    files = {
        "actors/vlm/chat.py": "",
        "actors/judge.py": "from actors.vlm import chat",
        "tests/actors/vlm/test_chat.py": "",
        "tests/actors/vlm/test_answers.py": "import actors.vlm.chat",
        "tests/actors/vlm/test_own_chat.py": "def f():\n    from actors.vlm.chat import Chat",
        "tests/actors/test_all.py": "from actors.vlm.chat import Chat",
        "tests/actors/vlm/helpers.py": "from actors.vlm.chat import Chat",
        "tests/actors/test_judge.py": "from actors.judge import Judge",
        "tests/actors/test_helped.py": "from tests.actors.vlm.helpers import chat",
        "tests/actors/test_other.py": "import actors",
        "jobs/judge.py": "NAMES = {'judge': 'actors.judge:Judge'}",
        "tests/jobs/test_judge.py": "cli.run('judge')",
    }
    graph = import_graph({Path(name): ast.parse(text) for name, text in files.items()})
    tests = related_tests(Path("actors/vlm/chat.py"), graph, most=9)
    assert [str(path.relative_to("tests")) for path in tests] == [
        "actors/vlm/test_chat.py",
        "actors/vlm/test_own_chat.py",
        "actors/vlm/test_answers.py",
        "actors/test_all.py",
        "actors/test_helped.py",
        "actors/test_judge.py",
        "jobs/test_judge.py",
    ]
    assert related_tests(Path("actors/vlm/chat.py"), graph, most=2) == tests[:2]
    judge = [Path("tests/actors/test_judge.py"), Path("tests/jobs/test_judge.py")]
    assert related_tests(Path("actors/judge.py"), graph, most=9) == judge


def test_the_first_failing_test_of_a_run():
    log = "1 failed in 2 s\nFAILED tests/test_x.py::test_a[any float - 3] - assert x[1] - 2\nERROR tests/test_y.py\n"
    assert failing_test(log) == "tests/test_x.py::test_a[any float - 3]"
    assert failing_test("ERROR tests/test_y.py\n") == "tests/test_y.py"
    assert failing_test("FAILED tests/test_y.py::test_b - x[1]\n") == "tests/test_y.py::test_b"
    assert failing_test("1 passed\n") == ""
