"""StableHLO text as functions of statements: what every statement names, in whatever way it is written."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from openane.errors import UnsupportedError
from openane.importers.stablehlo.lexer import StableCursor
from openane.importers.stablehlo.values import StableType, read_dense, read_table, read_type, read_types, read_value
from openane.importers.step import unknown_operator
from openane.record_classes import dataclass

_RETURNS = ("return", "func.return", "stablehlo.return", "mhlo.return")
_CALLS = ("call", "func.call")
MOST_RESULTS = 1 << 10
"""Of one operation."""
_FILE = re.compile(r'"([^"]+)":([0-9]+)')
_ALIAS = re.compile(r"#loc[0-9]*")


@dataclass(slots=True)
class StableStatement:
    """One operation. `op` has no dialect before it but chlo's; `words` are names that stand alone."""

    op: str
    results: tuple[str, ...]
    position: int
    operands: list[str] = field(default_factory=list)
    attributes: dict[str, Any] = field(default_factory=dict)
    words: list[str] = field(default_factory=list)
    regions: list[StableBlock] = field(default_factory=list)
    types: tuple[StableType, ...] = ()
    """Of the results."""
    place: str = ""
    """Where it comes from, as the text has it."""

    @property
    def numbers(self) -> list[Any]:
        """A list that stands alone."""
        found: list[Any] = self.attributes.get("", [])
        return found


@dataclass(slots=True)
class StableBlock:
    """What is between two braces: arguments with their types, statements, and the names that are given back."""

    arguments: list[tuple[str, StableType]]
    statements: list[StableStatement] = field(default_factory=list)
    results: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Function:
    """A function; `arguments` and `results` are what is said about them: a place, or a table of attributes."""

    name: str
    block: StableBlock
    arguments: list[str]
    results: list[dict[str, Any]]
    types: list[StableType]
    """Of the results."""


@dataclass(slots=True)
class Module:
    """The functions of a text by name, and the places it has names for."""

    functions: dict[str, Function]
    places: dict[str, str]
    cursor: StableCursor

    def label(self, statement: StableStatement) -> str:
        """A statement in messages: operation, result, line, and the line of the source it was made from."""
        return (f"StableHLO {statement.op} {' '.join(statement.results[:1])}"
                f" (line {self.cursor.where(statement.position)[0]}{self.source(statement.place)})")

    def source(self, place: str) -> str:
        """The file and line a place names, after a comma."""
        for _ in range(8):
            if found := _FILE.search(place):
                return f", {found.group(1).rpartition('/')[2][:60]}:{found.group(2)[:9]}"
            alias = _ALIAS.search(place)
            if alias is None:
                break
            place = self.places.get(alias.group(), "")
        return ""

    def called(self, place: str) -> str:
        """The name a place has: that of a function's argument."""
        place = self.places.get(place[4:-1], place)
        found = re.match(r'loc\("([A-Za-z_][A-Za-z0-9_.\[\]\']{0,99})"\)\Z', place)
        return found.group(1) if found else ""


def parse(text: str, known: Mapping[str, object]) -> Module:
    """The module of a text. FormatError where it breaks the format; UnsupportedError for an operation that is not
    `known` and written in a way of its own."""
    return _Parser(StableCursor(text), known).module()


class _Parser:
    def __init__(self, cursor: StableCursor, known: Mapping[str, object]) -> None:
        self.cursor, self.known = cursor, known

    def module(self) -> Module:
        cursor, functions, places = self.cursor, dict[str, Function](), dict[str, str]()
        wrapped = False
        while cursor.token.kind != "end":
            if cursor.token.kind == "alias" and cursor.token.text.startswith("#"):
                name = cursor.advance().text
                cursor.expect("=")
                places[name] = self._place() if cursor.at("loc") else str(read_value(cursor))
            elif cursor.at("module") and not wrapped:
                self._head()
                wrapped = True
            elif cursor.accept("func.func"):
                function = self._function()
                if functions.setdefault(function.name, function) is not function:
                    cursor.fail("a function is there twice", found=function.name[:40])
            elif wrapped and cursor.accept("}"):
                self._place()
            else:
                self._refuse_top()
        return Module(functions, places, cursor)

    def _head(self) -> None:
        self.cursor.advance()
        if self.cursor.token.kind == "symbol":
            self.cursor.advance()
        if self.cursor.accept("attributes"):
            read_table(self.cursor)
        self.cursor.expect("{")

    def _refuse_top(self) -> None:
        token = self.cursor.token
        if token.kind == "name" and "." in token.text:
            raise UnsupportedError(self.cursor.source(token.position), "a module consists of functions",
                                   found=token.text[:60], remedy="export for one device, without meshes or globals")
        self.cursor.fail("unexpected token", expected="a function", found=repr(token.text[:40]))

    def _function(self) -> Function:
        cursor = self.cursor
        if cursor.at("public") or cursor.at("private"):
            cursor.advance()
        name = cursor.kind("symbol")
        arguments, places = self._arguments()
        results, types = list[dict[str, Any]](), list[StableType]()
        if cursor.accept("->"):
            bracketed = cursor.accept("(")
            for _ in cursor.separated(")") if bracketed else (None,):
                types.append(read_type(cursor))
                results.append(read_table(cursor) if bracketed and cursor.at("{") else {})
        if cursor.accept("attributes"):
            read_table(cursor)
        block = StableBlock(arguments)
        self._block(block)
        self._place()
        return Function(name, block, places, results, types)

    def _arguments(self) -> tuple[list[tuple[str, StableType]], list[str]]:
        """Names with their types, and where each comes from."""
        arguments, places = [], []
        self.cursor.expect("(")
        for _ in self.cursor.separated(")"):
            name = self.cursor.kind("value")
            self.cursor.expect(":")
            kind = read_type(self.cursor)
            if self.cursor.at("{"):
                read_table(self.cursor)
            arguments.append((name, kind))
            places.append(self._place())
        return arguments, places

    def _block(self, block: StableBlock) -> None:
        """What is between two braces, into the block."""
        cursor = self.cursor
        with cursor.nested():
            cursor.expect("{")
            if cursor.token.kind == "alias" and cursor.token.text.startswith("^"):
                cursor.advance()
                block.arguments += self._arguments()[0] if cursor.at("(") else []
                cursor.expect(":")
            while not cursor.accept("}"):
                statement = self._statement()
                if statement.op in _RETURNS:
                    block.results = statement.operands
                    cursor.expect("}")
                    return
                block.statements.append(statement)

    def _statement(self) -> StableStatement:
        cursor, results = self.cursor, self._names()
        position, quoted = cursor.token.position, cursor.token.kind == "string"
        name = cursor.advance().text.strip('"') if quoted else cursor.name("an operation")
        op = "call" if name in _CALLS else name if name in _RETURNS else name.removeprefix("stablehlo.")
        if not quoted and op not in self.known and op not in _RETURNS:
            raise unknown_operator(f"StableHLO {op[:80]} {' '.join(results[:1])} ({cursor.place(position)})", op[:80],
                                   self.known, "write it with others")
        statement = StableStatement(op, tuple(results), position)
        if op == "while" and not quoted:
            return self._loop(statement)
        self._contents(statement, None)
        if cursor.accept(":"):
            self._types(statement)
        if op == "reduce" and not quoted:
            self._written_in_pairs(statement)
        statement.place = self._place()
        return statement

    def _loop(self, statement: StableStatement) -> StableStatement:
        """`while(%name = %operand, ...) : types cond {...} do {...}`: both regions have the names as arguments."""
        cursor, names = self.cursor, list[str]()
        cursor.expect("(")
        for _ in cursor.separated(")"):
            names.append(cursor.kind("value"))
            cursor.expect("=")
            statement.operands.append(cursor.kind("value"))
        types: tuple[StableType, ...] = read_types(cursor) if cursor.accept(":") else ()
        if len(types) != len(names):
            cursor.fail("a loop states a type for each operand", expected=len(names), found=len(types))
        for word in ("cond", "do"):
            cursor.expect(word)
            statement.regions.append(StableBlock(list(zip(names, types, strict=True))))
            self._block(statement.regions[-1])
        statement.types, statement.place = types, self._place()
        return statement

    def _names(self) -> list[str]:
        """The names of results, up to the sign behind them: `%0, %1 =`, or `%0:2 =` for `%0#0` and `%0#1`."""
        cursor, results = self.cursor, list[str]()
        while cursor.token.kind == "value":
            name = cursor.advance().text
            count = int(cursor.kind("number")[:9]) if cursor.accept(":") else 0
            if count > MOST_RESULTS:
                cursor.fail("too many results", expected=f"at most {MOST_RESULTS}", found=count)
            results += [f"{name}#{number}" for number in range(count)] if count else [name]
            if not cursor.accept(","):
                cursor.expect("=")
                break
        return results

    def _contents(self, statement: StableStatement, closing: str | None) -> None:
        """Operands, attributes and regions, up to the types, or to a bracket."""
        cursor = self.cursor
        while not cursor.at(closing or ":"):
            if self._item(statement):
                continue
            if closing is None:
                return
            if not cursor.accept(":"):
                cursor.fail("unexpected token", expected="an operand, an attribute or a type",
                            found=repr(cursor.token.text[:40]))
        if closing is not None:
            cursor.advance()

    def _item(self, statement: StableStatement) -> bool:
        """Takes one operand, attribute or region; false where none is."""
        cursor, kind, attributes = self.cursor, self.cursor.token.kind, statement.attributes
        if kind == "value":
            statement.operands.append(cursor.advance().text)
        elif kind in ("symbol", "string"):
            attributes["callee" if kind == "symbol" else "name"] = cursor.advance().text.strip('"')
        elif kind == "dense":
            attributes["value"] = dense = read_dense(cursor)
            statement.types = (dense.type,)
            return False
        elif kind == "name" and cursor.next.text == "=":
            name = cursor.advance().text
            cursor.advance()
            attributes[name] = read_value(cursor)
        elif kind == "name" and cursor.token.text not in ("loc", "reducer"):
            statement.words.append(cursor.advance().text)
        elif cursor.at("["):
            attributes[""] = read_value(cursor)
        elif cursor.token.text in ("{", "<"):
            attributes.update(_table(read_value(cursor)))
        elif cursor.at("("):
            self._bracket(statement)
        else:
            return cursor.accept(",")
        return True

    def _bracket(self, statement: StableStatement) -> None:
        self.cursor.advance()
        if not self.cursor.at("{"):
            with self.cursor.nested():
                self._contents(statement, ")")
            return
        for _ in self.cursor.separated(")"):
            statement.regions.append(StableBlock([]))
            self._block(statement.regions[-1])

    def _types(self, statement: StableStatement) -> None:
        """The types of operands and results; where there is one list, its last is that of every result."""
        cursor = self.cursor
        types = read_types(cursor)
        if cursor.accept("->"):
            statement.types = read_types(cursor)
        else:
            statement.types = types[-1:] * len(statement.results)

    def _written_in_pairs(self, statement: StableStatement) -> None:
        """Operands of a reduction, each tensor with what it begins with, and what several are reduced with: a pair of
        arguments for each tensor."""
        statement.operands = statement.operands[::2] + statement.operands[1::2]
        if not self.cursor.accept("reducer"):
            return
        pairs = []
        while self.cursor.at("("):
            pairs.append(self._arguments()[0])
        if any(len(pair) != 2 for pair in pairs):
            self.cursor.fail("a reducer has two arguments for each operand")
        block = StableBlock([pair[0] for pair in pairs] + [pair[1] for pair in pairs])
        self._block(block)
        statement.regions.append(block)

    def _place(self) -> str:
        """Where something comes from, if that is said."""
        if not self.cursor.at("loc") or self.cursor.next.text != "(":
            return ""
        self.cursor.advance()
        return f"loc{self.cursor.skip()}"


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
