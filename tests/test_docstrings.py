"""A public function of three or more arguments, arrays among them, gives shapes."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("pipeline", "models", "stages", "vse_workbench")
MANY = 3
ARRAY = re.compile(r"\b(Tensor|ndarray|NDArray)\b")
# "(N, D)", "(N,)", "(..., 4)", or in words.
SHAPE = re.compile(
    r"\([^()]*\w,[^()]*\)|\(\.\.\.,|\bscalar|\bone (value|number|row|vector)? ?per\b|shape"
)


def names_of(function):
    args = function.args
    every = [*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg]
    return [argument.arg for argument in every if argument and argument.arg not in ("self", "cls")]


def takes_arrays(function):
    """Whether an argument is an array or a tensor; weights by name have all kinds of shapes."""
    types = [
        ast.unparse(n.annotation) for n in ast.walk(function.args) if getattr(n, "annotation", 0)
    ]
    return any(ARRAY.search(kind) and not re.match("dict|Mapping", kind) for kind in types)


def offenders(source):
    tree = ast.parse(source)
    around = {
        child: ast.get_docstring(node) or ""
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for child in node.body
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.ClassDef | ast.FunctionDef):
            continue
        text = ast.get_docstring(node)
        functions = [node] if isinstance(node, ast.FunctionDef) else []
        if isinstance(node, ast.ClassDef):
            functions = [f for f in node.body if getattr(f, "name", "") == "__init__"]
        for function in functions:
            names = names_of(function)
            body = [ast.unparse(line) for line in function.body]
            if node.name.startswith("_") or "ctx" in names or body == ["..."] or len(names) < MANY:
                continue
            if takes_arrays(function) and not SHAPE.search((text or "") + around.get(node, "")):
                yield f"{node.name}: takes arrays and gives no shape"


@pytest.mark.parametrize("package", PACKAGES)
def test_functions_of_arrays_give_shapes(package):
    files = sorted((ROOT / package).rglob("*.py"))
    assert files
    texts = ((path.relative_to(ROOT), path.read_text(encoding="utf-8")) for path in files)
    found = [f"{path} {line}" for path, text in texts for line in offenders(text)]
    assert not found, "\n" + "\n".join(found)
