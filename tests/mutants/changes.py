"""What may be broken in a source: one comparison, operator, constant, statement, call or condition.

A change is found in the syntax tree and made in the text, so that all else stays as it is. What a
user or a developer reads is left alone: docstrings, annotations, messages, what is printed.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

FLIPPED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.GtE,
    ast.GtE: ast.Lt,
    ast.Gt: ast.LtE,
    ast.LtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
MOVED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
# Calls that say something, or make the error that says it.
SAYING = {"WorkbenchError", "counted", "damaged", "listing", "note", "print", "say"}
SAYING |= {"to_workbench_error", "warn"}
# The slow forms that the tests compare losses, criteria and metrics with.
UNTOUCHED = {"__repr__", "__str__", "reference", "slow_hinge_loss"}
TYPES = {"bool", "bytes", "dict", "float", "int", "list", "set", "str", "tuple"}
UNREAD = ("annotation", "decorator_list", "returns", "type_comment")  # parts that compute nothing
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Change:
    """One change of a source.

    kind: of the change; line, column: where it begins, from 1 and from 0 (bytes); size: bytes that
    are replaced; before, after: the code in its place; function: the name and the first line of
    the function that it is in, "" and 0 outside of all.
    """

    kind: str
    line: int
    column: int
    size: int
    before: str
    after: str
    function: str
    first_line: int

    def made_in(self, source: bytes) -> bytes:
        """The source with this change."""
        start = sum(len(line) for line in lines_of(source)[: self.line - 1]) + self.column
        return source[:start] + self.after.encode() + source[start + self.size :]


def lines_of(source: bytes) -> list[bytes]:
    """Lines with their ends, as Python counts them."""
    return source.splitlines(keepends=True)


def changes_of(source: bytes) -> list[Change]:
    """All changes of a source, in its order."""
    return list(_Finder(source).changes(ast.parse(source), "", 0))


class _Finder:
    def __init__(self, source: bytes) -> None:
        self.source = source
        self.starts = [0]
        for line in lines_of(source):
            self.starts.append(self.starts[-1] + len(line))

    def changes(self, node: ast.AST, name: str, first: int) -> Iterator[Change]:
        """Those in a node and below; name, first: the function around it."""
        if isinstance(node, Function):
            if node.name in UNTOUCHED:
                return
            decorators = [decorator.lineno for decorator in node.decorator_list]
            name = node.name
            first = min([node.lineno, *decorators])
        found = list(self.own(node))
        if isinstance(node, Function):
            found += [("statement", part, "pass") for part in _set_again(node)]
        for kind, part, after in found:
            start = self.starts[part.lineno - 1] + part.col_offset
            end = self.starts[part.end_lineno - 1] + part.end_col_offset
            yield Change(
                kind=kind,
                line=part.lineno,
                column=part.col_offset,
                size=end - start,
                before=self.source[start:end].decode(),
                after=after,
                function=name,
                first_line=first,
            )
        for child in self.children(node):
            yield from self.changes(child, name, first)

    def children(self, node: ast.AST) -> Iterator[ast.AST]:
        """What is below a node and computes something."""
        for field, value in ast.iter_fields(node):
            if field in UNREAD:
                continue
            for child in value if isinstance(value, list) else [value]:
                if not isinstance(child, ast.AST) or isinstance(child, ast.JoinedStr):
                    continue
                if isinstance(node, ast.Raise) or _says(child) or _asks_for_checker(child):
                    continue
                yield child

    def own(self, node: ast.AST) -> Iterator[tuple[str, ast.AST, str]]:
        """Changes of a node itself: kind, what is replaced, the code in its place."""
        if isinstance(node, ast.Compare):
            yield from self.comparisons(node)
        if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS and not _is_text(node):
            other = ast.BinOp(node.left, OPERATORS[type(node.op)](), node.right)
            yield "operator", node, f"({ast.unparse(other)})"
        if isinstance(node, ast.AugAssign) and type(node.op) in OPERATORS:
            other = ast.AugAssign(node.target, OPERATORS[type(node.op)](), node.value)
            if not _is_text(ast.BinOp(node.target, node.op, node.value)):
                yield "operator", node, ast.unparse(other)
        if isinstance(node, ast.Constant):
            yield from self.constants(node)
        if isinstance(node, ast.Call):
            yield from self.swapped(node)
        if isinstance(node, ast.BoolOp):
            other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            yield "condition", node, f"({ast.unparse(ast.BoolOp(other, node.values))})"
        if isinstance(node, ast.If | ast.While | ast.IfExp) and not _asks_for_checker(node):
            yield "condition", node.test, f"(not ({ast.unparse(node.test)}))"
        if isinstance(node, ast.comprehension):
            for test in node.ifs:
                yield "condition", test, f"(not ({ast.unparse(test)}))"
        if _can_be_dropped(node):
            yield "statement", node, "pass"

    def comparisons(self, node: ast.Compare) -> Iterator[tuple[str, ast.AST, str]]:
        for place, operator in enumerate(node.ops):
            for others in (FLIPPED, MOVED):
                if type(operator) in others:
                    operators = [*node.ops]
                    operators[place] = others[type(operator)]()
                    other = ast.Compare(node.left, operators, node.comparators)
                    yield "comparison", node, f"({ast.unparse(other)})"

    def constants(self, node: ast.Constant) -> Iterator[tuple[str, ast.AST, str]]:
        if isinstance(node.value, bool):
            yield "constant", node, str(not node.value)
        elif isinstance(node.value, int):
            yield "constant", node, f"{node.value + 1}"
            yield "constant", node, f"({node.value - 1})"
        elif isinstance(node.value, float):
            yield "constant", node, repr(node.value + 1)
            if node.value:
                yield "constant", node, "0.0"

    def swapped(self, node: ast.Call) -> Iterator[tuple[str, ast.AST, str]]:
        """Two neighbours among the arguments, by position and by keyword."""
        for place in range(len(node.args) - 1):
            pair = node.args[place : place + 2]
            if not any(isinstance(one, ast.Starred) for one in pair) and _differ(*pair):
                args = [*node.args]
                args[place : place + 2] = pair[::-1]
                yield "arguments", node, ast.unparse(ast.Call(node.func, args, node.keywords))
        for place in range(len(node.keywords) - 1):
            one, other = node.keywords[place : place + 2]
            if one.arg and other.arg and _differ(one.value, other.value):
                keywords = [*node.keywords]
                keywords[place] = ast.keyword(one.arg, other.value)
                keywords[place + 1] = ast.keyword(other.arg, one.value)
                yield "arguments", node, ast.unparse(ast.Call(node.func, node.args, keywords))


def _set_again(function: Function) -> list[ast.Assign]:
    """Assignments to a name that has a value already, a parameter's or an earlier one."""
    given = function.args
    known = {one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs)}
    assignments = [node for node in ast.walk(function) if isinstance(node, ast.Assign)]
    found = []
    for node in sorted(assignments, key=lambda one: one.lineno):
        names = {target.id for target in node.targets if isinstance(target, ast.Name)}
        if len(node.targets) == 1 and names & known and not _says(node.value):
            found.append(node)
        known |= names
    return found


def _says(node: ast.AST) -> bool:
    """Whether a node is a call that says something."""
    if isinstance(node, ast.Expr):
        return _says(node.value)
    if not isinstance(node, ast.Call):
        return False
    name = node.func.attr if isinstance(node.func, ast.Attribute) else ast.unparse(node.func)
    return name in SAYING


def _asks_for_checker(node: ast.AST) -> bool:
    """Whether a node is `if TYPE_CHECKING:`."""
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def _is_text(node: ast.BinOp) -> bool:
    """Whether an operator joins or formats texts, or lists types."""
    sides = (node.left, node.right)
    texts = [
        isinstance(side, ast.JoinedStr)
        or (isinstance(side, ast.Constant) and isinstance(side.value, str | None))
        for side in sides
    ]
    types = [isinstance(side, ast.Name) and side.id in TYPES for side in sides]
    return any(texts) or any(types)


def _differ(one: ast.expr, other: ast.expr) -> bool:
    return ast.unparse(one) != ast.unparse(other)


def _can_be_dropped(node: ast.AST) -> bool:
    """Whether the code still has all of its names without a statement."""
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Call) and not _says(node)
    if isinstance(node, ast.Assign):
        return all(isinstance(target, ast.Attribute | ast.Subscript) for target in node.targets)
    return isinstance(node, ast.Raise | ast.Continue | ast.Break | ast.AugAssign | ast.Delete)
