"""`where=…`: a condition on columns, read into an Arrow expression. Nothing of it is ever evaluated as code.

    language = en and width >= 300
    not (licence in (cc0, 'cc-by 4.0') or author is null)

A comparison is a column, one of = != < <= > >=, in (…), is null, is not null; and a value: a number, true, false, a
word, or anything in quotes. A row whose column is null satisfies no comparison, nor its negation, as in SQL.
"""

import re
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from actors.errors import first_line
from jobs.errors import InputError

_TOKEN = re.compile(
    r"""\s*(?:(?P<quoted>'(?:[^']|'')*'|"(?:[^"]|"")*")|(?P<sign><=|>=|!=|==|=|<|>|\(|\)|,)|(?P<word>[^\s()<>=!,'"]+))"""
)
_COMPARE = {"=": "==", "==": "==", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_RESERVED = ("and", "or", "not", "in", "is", "null")
_DEEPEST = 50


class Where(NamedTuple):
    """A condition: as Arrow takes it, and the columns it looks at."""

    expression: pc.Expression
    columns: tuple[str, ...]


def parse_where(text: str, schema: pa.Schema) -> Where:
    """Read the condition `text` about the columns of `schema`.

    Raises:
        InputError: not such a condition, an unknown column, or a value that its column's type cannot be compared with.
    """
    parser = _Parser(text, schema)
    try:
        expression = parser.any_of(0)
        if parser.here is not None:
            raise InputError(f"`and` or `or` is expected at {parser.here[1]!r}")
        ds.dataset(schema.empty_table()).to_table(columns={"passed": expression})
    except InputError as error:
        raise InputError(f"where={text!r}: {error}") from None
    except pa.ArrowException as error:
        raise InputError(f"where={text!r}: Arrow does not compare so ({first_line(error)})") from error
    return Where(expression, tuple(dict.fromkeys(parser.columns)))


class _Parser:
    def __init__(self, text: str, schema: pa.Schema) -> None:
        self._tokens = list(_tokens(text))
        self._at, self._schema, self.columns = 0, schema, list[str]()

    @property
    def here(self) -> tuple[str, str] | None:
        """Kind and text of the next token."""
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _take(self) -> tuple[str, str]:
        if self.here is None:
            raise InputError("it ends too early")
        self._at += 1
        return self._tokens[self._at - 1]

    def _next_is(self, *words: str) -> bool:
        """Take the next token if it is one of these words or signs."""
        if self.here is None or self.here[0] == "quoted" or self.here[1].lower() not in words:
            return False
        self._at += 1
        return True

    def _expect(self, sign: str) -> None:
        kind, text = self._take()
        if kind == "quoted" or text.lower() != sign:
            raise InputError(f"{sign!r} is expected at {text!r}")

    def any_of(self, depth: int) -> pc.Expression:
        made = self._all_of(depth)
        while self._next_is("or"):
            made = made | self._all_of(depth)
        return made

    def _all_of(self, depth: int) -> pc.Expression:
        made = self._one(depth)
        while self._next_is("and"):
            made = made & self._one(depth)
        return made

    def _one(self, depth: int) -> pc.Expression:
        if depth > _DEEPEST:
            raise InputError("too many brackets")
        if self._next_is("not"):
            return ~self._one(depth + 1)
        if self._next_is("("):
            made = self.any_of(depth + 1)
            self._expect(")")
            return made
        return self._comparison()

    def _comparison(self) -> pc.Expression:
        name = self._take()[1]
        name = _unquoted(name)
        if name not in self._schema.names:
            raise InputError(f"there is no column {name!r}; there are {', '.join(self._schema.names)}")
        self.columns.append(name)
        field, kind = pc.field(name), self._schema.field(name).type
        if self._next_is("is"):
            negated = self._next_is("not")
            self._expect("null")
            return field.is_valid() if negated else field.is_null()
        if pa.types.is_float16(kind):  # Arrow compares none
            field = field.cast(pa.float32())
        if self._next_is("in"):
            self._expect("(")
            values = [self._value(name, kind)]
            while self._next_is(","):
                values.append(self._value(name, kind))
            self._expect(")")
            # not isin: it would call a null a value that is not among these, and `not` would let it pass
            return _either([field == value for value in values])
        sign = _COMPARE.get(self._take()[1])
        if sign is None:
            raise InputError(f"after {name!r} one of = != < <= > >= in, is is expected")
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
            raise InputError(f"a value for {name!r} is expected at {text!r}")
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
    made = choices[0]
    for choice in choices[1:]:
        made = made | choice
    return made


def _unquoted(text: str) -> str:
    return text[1:-1].replace(text[0] * 2, text[0]) if text[:1] in ("'", '"') else text


def _tokens(text: str) -> list[tuple[str, str]]:
    found, at = [], 0
    text = text.rstrip()
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None or token.end() == at:
            raise InputError(f"where={text!r}: not understood at {text[at:]!r}")
        kind = token.lastgroup or ""
        found.append((kind, token.group(kind)))
        at = token.end()
    return found
