"""The mutants of a module: its text with one expression or statement replaced."""

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
}
CALLS = {"min": "max", "max": "min", "any": "all", "all": "any"}
LEAVES = (ast.Return, ast.Continue, ast.Break, ast.Raise)
# Without them a call does the same on valid input, or on this machine.
CHECKS = {"encoding", "strict", "stacklevel"}
MESSAGES = {"log", "logger", "logging", "warnings", "print"}

Defaults = Mapping[str, set[str]]  # function or class -> parameters that have a default


@dataclass(frozen=True)
class Mutant:
    """One change of a module.

    Attributes:
        line: of the change, from 1.
        before, after: source of what changes.
        text: the module with the change.
    """

    line: int
    before: str
    after: str
    text: str


def mutants(text: str, defaults: Defaults) -> list[Mutant]:
    """Return all mutants of a module's source `text`, in the order of the source.

    Docstrings, messages, annotations and decorators do not change. A keyword argument is dropped if `defaults` has
    a default for it, or does not know the function.
    """
    lines = text.encode().splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    results = []
    for node in changeable(ast.parse(text)):
        start, end = starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset  # type: ignore[operator]
        before = text.encode()[start:end].decode()
        for change in changes(node, defaults):
            after = change if isinstance(node, ast.stmt) else f"({change})"
            mutated = text.encode()[:start].decode() + after + text.encode()[end:].decode()
            results.append(Mutant(node.lineno, before, change, mutated))
    return sorted(results, key=lambda mutant: mutant.line)


def changeable(node: ast.AST) -> Iterator[ast.expr | ast.stmt]:
    """Yield the expressions and statements below `node` that decide what the code does."""
    if is_message(node):
        return
    if isinstance(node, ast.expr | ast.stmt):
        yield node
    for name, value in ast.iter_fields(node):
        if name in {"annotation", "returns", "decorator_list", "type_params"}:
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from changeable(child)


def is_message(node: ast.AST) -> bool:
    """Return whether `node` is a text or a check for people, or an import for types alone."""
    match node:
        # Positions within an f-string are not those in the file before Python 3.12.
        case ast.JoinedStr() | ast.Raise() | ast.Assert():
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case ast.keyword(arg=str(name)):
            return name in CHECKS
        case ast.Expr(value=ast.Constant()):
            return True
        case ast.Expr(value=ast.Call(func=ast.Name(id=name) | ast.Attribute(value=ast.Name(id=name)))):
            return name in MESSAGES
    return False


def changes(node: ast.expr | ast.stmt, defaults: Defaults) -> Iterator[str]:
    """Yield the sources that replace `node`."""
    yield from (changes_of_statement(node) if isinstance(node, ast.stmt) else changes_of_expression(node, defaults))


def changes_of_statement(node: ast.stmt) -> Iterator[str]:
    """Yield a negated or dropped condition, or `pass` for a statement with a side effect."""
    match node:
        case ast.If(test=test, body=body, orelse=orelse):
            negated = ast.If(test=ast.UnaryOp(ast.Not(), test), body=body, orelse=orelse)
            yield indented(ast.unparse(ast.fix_missing_locations(negated)), node.col_offset)
            if isinstance(body[-1], LEAVES) and not orelse:
                yield "pass"
        case ast.Expr(value=ast.Call()) | ast.AugAssign() | ast.Delete():
            yield "pass"
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield "pass"


def indented(source: str, columns: int) -> str:
    """Return `source` with all lines but the first moved right."""
    return source.replace("\n", "\n" + " " * columns)


def changes_of_expression(node: ast.expr, defaults: Defaults) -> Iterator[str]:
    """Yield sources that replace an expression."""
    match node:
        case ast.Constant() | ast.BinOp():
            yield from changes_of_number(node)
        case ast.Call():
            yield from changes_of_call(node, defaults)
        case ast.Compare(left=left, ops=operators, comparators=others):
            for place, operator in enumerate(operators):
                swapped = [*operators[:place], COMPARISONS[type(operator)](), *operators[place + 1 :]]
                yield ast.unparse(ast.Compare(left, swapped, others))
        case ast.BoolOp(op=operator, values=values):
            for place in range(len(values)):
                kept = values[:place] + values[place + 1 :]
                yield ast.unparse(kept[0] if len(kept) == 1 else ast.BoolOp(operator, kept))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield ast.unparse(operand)
        case ast.IfExp(test=test, body=body, orelse=orelse):
            yield ast.unparse(ast.IfExp(test, orelse, body))


def changes_of_number(node: ast.Constant | ast.BinOp) -> Iterator[str]:
    """Yield another constant, or another operator."""
    match node:
        case ast.Constant(value=bool() as value):
            yield str(not value)
        case ast.Constant(value=int() as value):
            yield str(value + 1)
        # Texts and paths have no other operator.
        case ast.BinOp(left=ast.Constant(value=str()) | ast.JoinedStr()):
            pass
        case ast.BinOp(right=ast.Constant(value=str()) | ast.JoinedStr()):
            pass
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in ARITHMETIC:
            yield ast.unparse(ast.BinOp(left, ARITHMETIC[type(operator)](), right))


def changes_of_call(node: ast.Call, defaults: Defaults) -> Iterator[str]:
    """Yield the opposite function, and the call without each argument that has a default."""
    name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
    if isinstance(node.func, ast.Name) and name in CALLS:
        yield ast.unparse(ast.Call(ast.Name(CALLS[name]), node.args, node.keywords))
    for place, keyword in enumerate(node.keywords):
        optional = name not in defaults or keyword.arg in defaults[name]
        if keyword.arg and keyword.arg not in CHECKS and optional:
            yield ast.unparse(ast.Call(node.func, node.args, node.keywords[:place] + node.keywords[place + 1 :]))


def defaults_of(trees: Iterable[ast.Module]) -> dict[str, set[str]]:
    """Return the parameters with a default of all functions, methods and data classes in `trees`, by name."""
    defaults: dict[str, set[str]] = {}
    for tree in trees:
        for node in ast.walk(tree):
            match node:
                case ast.FunctionDef(name=name, args=args) | ast.AsyncFunctionDef(name=name, args=args):
                    positional = [*args.posonlyargs, *args.args]
                    optional = positional[len(positional) - len(args.defaults) :]
                    optional += [arg for arg, value in zip(args.kwonlyargs, args.kw_defaults, strict=True) if value]
                    defaults.setdefault(name, set()).update(arg.arg for arg in optional)
                case ast.ClassDef(name=name, body=body):
                    fields = {
                        field.target.id
                        for field in body
                        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and field.value
                    }
                    initial = [part for part in body if isinstance(part, ast.FunctionDef) and part.name == "__init__"]
                    for function in initial:
                        fields |= defaults_of([ast.Module([function], [])])["__init__"]
                    defaults.setdefault(name, set()).update(fields)
    return defaults
