"""`where=…`: a condition on columns, parsed into an Arrow expression; no part of the text is evaluated as code.

    language = en and width >= 300
    not (licence in (cc0, 'cc-by 4.0') or author is null)

A comparison consists of a column, one of = != < <= > >= in, and a value: a number, true, false, a word, or any text in
quotes; or of a column with `is null` or `is not null`. A row whose column is null satisfies neither a comparison nor
its negation, as in SQL. (`pyarrow.parquet.filters_to_expression` has no negation, counts null as not in a list, and its
nested lists need quotes on a command line.)
"""

import re
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from actors.errors import first_line
from jobs.errors import InputError

_TOKEN = re.compile(
    r"""\s*(?:(?P<quoted>'(?:[^']|'')*'|"(?:[^"]|"")*")|(?P<sign><=|>=|!=|==|=|<|>|\(|\)|,)|(?P<word>[^\s()<>=!,'"]+))"""
)
_COMPARE = {"=": "==", "==": "==", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_RESERVED = ("and", "or", "not", "in", "is", "null")
MAX_DEPTH = 50


class Where(NamedTuple):
    """A condition as an Arrow expression, and the columns that it uses."""

    expression: pc.Expression
    columns: tuple[str, ...]


def parse_where(text: str, schema: pa.Schema) -> Where:
    """Parse the condition `text` on the columns of `schema`.

    Raises:
        InputError: a syntax error, an unknown column, or a value that cannot be compared with its column.
    """
    parser = _Parser(text, schema)
    try:
        expression = parser.any_of(0)
        if parser.next_token is not None:
            raise InputError(f"expected `and` or `or` at {parser.next_token[1]!r}")
        passed(schema.empty_table(), expression)
    except InputError as error:
        raise InputError(str(error), key="where", value=text) from None
    except pa.ArrowException as error:
        raise InputError(f"invalid comparison ({first_line(error)})", key="where", value=text) from error
    return Where(expression, tuple(dict.fromkeys(parser.columns)))


def passed(rows: pa.Table, expression: pc.Expression) -> pa.ChunkedArray:
    """Return bool [rows], whether each row satisfies a condition; null where that depends on a null."""
    import pyarrow.dataset as ds  # imports pandas, which would delay a command's help

    return ds.dataset(rows).to_table(columns={"passed": expression})["passed"]


class _Parser:
    def __init__(self, text: str, schema: pa.Schema) -> None:
        self._tokens = list(_tokens(text))
        self._at, self._schema, self.columns = 0, schema, list[str]()

    @property
    def next_token(self) -> tuple[str, str] | None:
        """The kind and text of the next token; None at the end."""
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _take(self) -> tuple[str, str]:
        if self.next_token is None:
            raise InputError("unexpected end")
        self._at += 1
        return self._tokens[self._at - 1]

    def _next_is(self, *words: str) -> bool:
        """Consume the next token if it is one of these words or signs."""
        if self.next_token is None or self.next_token[0] == "quoted" or self.next_token[1].lower() not in words:
            return False
        self._at += 1
        return True

    def _expect(self, sign: str) -> None:
        kind, text = self._take()
        if kind == "quoted" or text.lower() != sign:
            raise InputError(f"expected {sign!r} at {text!r}")

    def any_of(self, depth: int) -> pc.Expression:
        expression = self._all_of(depth)
        while self._next_is("or"):
            expression = expression | self._all_of(depth)
        return expression

    def _all_of(self, depth: int) -> pc.Expression:
        expression = self._negation(depth)
        while self._next_is("and"):
            expression = expression & self._negation(depth)
        return expression

    def _negation(self, depth: int) -> pc.Expression:
        if depth > MAX_DEPTH:
            raise InputError(f"more than {MAX_DEPTH} nested brackets or negations")
        if self._next_is("not"):
            return ~self._negation(depth + 1)
        if self._next_is("("):
            expression = self.any_of(depth + 1)
            self._expect(")")
            return expression
        return self._comparison()

    def _comparison(self) -> pc.Expression:
        name = self._take()[1]
        name = _unquoted(name)
        if name not in self._schema.names:
            raise InputError(f"no column {name!r}; there are {', '.join(self._schema.names)}")
        self.columns.append(name)
        field, kind = pc.field(name), self._schema.field(name).type
        if self._next_is("is"):
            negated = self._next_is("not")
            self._expect("null")
            return field.is_valid() if negated else field.is_null()
        if pa.types.is_float16(kind):  # Arrow does not compare float16
            field = field.cast(pa.float32())
        if self._next_is("in"):
            self._expect("(")
            values = [self._value(name, kind)]
            while self._next_is(","):
                values.append(self._value(name, kind))
            self._expect(")")
            # not isin, which is false for a null instead of null, so that `not` would let the row pass
            return _either([field == value for value in values])
        sign = _COMPARE.get(self._take()[1])
        if sign is None:
            raise InputError(f"expected one of = != < <= > >= in is after {name!r}")
        value = self._value(name, kind)
        return {
            "==": field == value,
            "!=": field != value,
            "<": field < value,
            "<=": field <= value,
            ">": field > value,
            ">=": field >= value,
        }[sign]

    def _value(self, name: str, kind: pa.DataType) -> pa.Scalar:
        form, text = self._take()
        if form == "sign" or (form == "word" and text.lower() in _RESERVED):
            raise InputError(f"expected a value for {name!r} at {text!r}")
        plain = _unquoted(text)
        if pa.types.is_dictionary(kind):
            kind = kind.value_type
        try:
            if pa.types.is_boolean(kind):
                return pa.scalar({"true": True, "false": False}[plain.lower()])
            if pa.types.is_integer(kind) or pa.types.is_floating(kind):
                return pa.scalar(float(plain) if re.search(r"[.eEn]", plain) else int(plain))
            if pa.types.is_nested(kind):
                raise InputError(f"column {name!r} is {kind}, which cannot be compared")
            return pa.scalar(plain).cast(kind)
        except (ValueError, KeyError, OverflowError, pa.ArrowException) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"{plain!r} cannot be compared with column {name!r}, which is {kind}") from None


def _either(choices: list[pc.Expression]) -> pc.Expression:
    expression = choices[0]
    for choice in choices[1:]:
        expression = expression | choice
    return expression


def _unquoted(text: str) -> str:
    return text[1:-1].replace(text[0] * 2, text[0]) if text[:1] in ("'", '"') else text


def _tokens(text: str) -> list[tuple[str, str]]:
    tokens, at = [], 0
    text = text.rstrip()
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None or token.end() == at:
            raise InputError(f"syntax error at {text[at:]!r}", key="where", value=text)
        kind = token.lastgroup or ""
        tokens.append((kind, token.group(kind)))
        at = token.end()
    return tokens
