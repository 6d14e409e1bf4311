"""Code is explained and written one statement a line: what nobody must remember, because it fails.

A public function, method or class with two parameters or more says in its docstring, in the style
of Google, what each of them is (`Args:`) and what comes back (`Returns:` or `Yields:`); a class
explains those of its `__init__`. A command is left out: the help of its options explains them.
"""

import ast
import re
from collections.abc import Iterator

import pytest
from clone import ROOT

PACKAGES = ("pipeline", "models", "stages", "vse_workbench")
MANY = 2  # parameters from which on they are explained
POINTING = re.compile(r"(As|The same|Like)\b")  # how a docstring begins that explains nothing
SKIP = re.compile(r"# fmt: (skip|off)")
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
Owner = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
Function = ast.FunctionDef | ast.AsyncFunctionDef

# Files that are not written so yet. The list can only shrink: a file that is done must leave it.
NOT_YET = """
"""


def complaints(source: str) -> list[str]:
    """What a source breaks of the rules, each with its line; [] for one that is done."""
    tree = ast.parse(source)
    lines = [
        f"{n}: fmt: skip" for n, line in enumerate(source.splitlines(), 1) if SKIP.search(line)
    ]
    nodes = list(ast.walk(tree))
    filters = {id(part) for node in nodes for part in places_of_walrus(node)}
    for node in nodes:
        if isinstance(node, ast.Assign) and is_packed(node):
            lines.append(f"{node.lineno}: several assignments in one")
        if isinstance(node, ast.NamedExpr) and id(node) not in filters:
            lines.append(f"{node.lineno}: := outside while and filters")
        if isinstance(node, Owner) and POINTING.match(ast.get_docstring(node) or ""):
            lines.append(f"{getattr(node, 'lineno', 1)}: a docstring that points elsewhere")
    for owner in [tree, *(node for node in tree.body if isinstance(node, ast.ClassDef))]:
        if isinstance(owner, ast.ClassDef) and owner.name.startswith("_"):
            continue
        bases = {base.id for base in getattr(owner, "bases", []) if isinstance(base, ast.Name)}
        for function in owner.body:
            # what a base class of the same file explains
            is_override = isinstance(function, Function) and any(
                is_explained_in(tree, base, function.name) for base in bases
            )
            if isinstance(function, Function) and not (
                is_override and ast.get_docstring(function) is None
            ):
                lines += [f"{function.lineno}: {text}" for text in unexplained(function, owner)]
    return lines


def is_explained_in(tree: ast.Module, base: str, method: str) -> bool:
    """Whether a class of the file, or one that it derives from there, has a docstring for a
    method."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == base:
            own = [part for part in node.body if getattr(part, "name", "") == method]
            if any(ast.get_docstring(part) for part in own if isinstance(part, Function)):
                return True
            names = [part.id for part in node.bases if isinstance(part, ast.Name)]
            return any(is_explained_in(tree, name, method) for name in names)
    return False


def unexplained(function: Function, owner: Owner) -> Iterator[str]:
    """What the docstring of a function lacks."""
    is_init = function.name == "__init__"
    arguments = function.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    every += [one for one in (arguments.vararg, arguments.kwarg) if one]
    names = [argument.arg for argument in every if argument.arg not in ("self", "cls")]
    hidden = function.name.startswith("_") and not is_init
    if hidden or len(names) < MANY or is_command(function) or "ctx" in names:
        return
    text = ast.get_docstring(function) or ""
    if is_init:
        text = f"{ast.get_docstring(owner) or ''}\n{text}"
    sections = sections_of(text)
    if "Args" not in sections:
        yield f"{function.name} has no Args"
    else:
        explained = set(re.findall(r"^ +\*{0,2}(\w+):", sections["Args"], re.M))
        lost = [name for name in names if name not in explained]
        if lost:
            yield f"Args of {function.name} lack {', '.join(lost)}"
    returns = ast.unparse(function.returns) if function.returns else "None"
    if returns not in ("None", "NoReturn") and not {"Returns", "Yields"} & sections.keys():
        yield f"{function.name} has no Returns"


def sections_of(text: str) -> dict[str, str]:
    """The indented text below each heading of a docstring."""
    parts = re.split(r"^(Args|Returns|Yields|Raises):\n", text, flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def is_command(function: Function) -> bool:
    """Whether click makes a command of a function: its docstring is the command's help."""
    return any(ast.unparse(decorator) == "command" for decorator in function.decorator_list)


def is_packed(node: ast.Assign) -> bool:
    """Whether one statement assigns several values to several names; one may swap two."""
    target = node.targets[0]
    if not (isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple)):
        return False
    given, taken = ({ast.unparse(part) for part in side.elts} for side in (target, node.value))
    return given != taken


def places_of_walrus(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes of a node in which := is allowed: the test of a while, a comprehension's filter."""
    if isinstance(node, ast.While):
        yield from ast.walk(node.test)
    elif isinstance(node, COMPREHENSIONS):
        yield from (
            part for loop in node.generators for test in loop.ifs for part in ast.walk(test)
        )


@pytest.mark.parametrize("package", PACKAGES)
def test_files_are_explained_and_written_one_statement_a_line(package):
    waiting = set(NOT_YET.split())
    broken = []
    for path in sorted((ROOT / package).rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        found = complaints(path.read_text(encoding="utf-8"))
        if name in waiting and not found:
            broken.append(f"{name}: is done: take it off NOT_YET")
        if name not in waiting:
            broken += [f"{name}:{line}" for line in found]
    gone = [
        name for name in waiting if name.startswith(f"{package}/") and not (ROOT / name).exists()
    ]
    broken += [f"{name}: no such file: take it off NOT_YET" for name in gone]
    assert not broken, "\n" + "\n".join(broken)


EXPLAINED = '''
def area(width: int, height: int) -> int:
    """Pixels of a box.

    Args:
        width: pixels.
        height: pixels.

    Returns:
        Their product.
    """
'''


@pytest.mark.parametrize(
    ("source", "found"),
    [
        (EXPLAINED, []),
        (EXPLAINED.replace("        height: pixels.\n", ""), ["Args of area lack height"]),
        (EXPLAINED.replace("Returns:", "It is"), ["area has no Returns"]),
        (EXPLAINED.replace("Args:", "They are"), ["area has no Args"]),
        (EXPLAINED.replace("Returns:", "Yields:"), []),
        (EXPLAINED.replace("area", "_area").replace("Args:", ""), []),
        (EXPLAINED.replace("Pixels of", "As of"), ["a docstring that points elsewhere"]),
        (
            'class Box:\n    """A box."""\n    def __init__(self, a, b): ...',
            ["__init__ has no Args"],
        ),
        ("class Box:\n    def grow(self, a, *b): ...", ["grow has no Args"]),
        ("@command\ndef main(a, b): ...", []),
        ("a, b = 1, 2", ["several assignments in one"]),
        ("a, b = b, a", []),
        ("a, b = pair", []),
        ("a = 1  # fmt: skip", ["fmt: skip"]),
        ("if a := 1: ...", [":= outside while and filters"]),
        ("while a := next(b): ...", []),
        ("c = [a for b in d if (a := b)]", []),
        ("c = [(a := b) for b in d]", [":= outside while and filters"]),
    ],
)
def test_the_rules_find_what_breaks_them(source, found):
    assert [line.partition(": ")[2] for line in complaints(source)] == found
