"""A public function of three or more arguments, arrays among them, gives shapes."""

import ast
import re

import pytest
from clone import ROOT

PACKAGES = ("pipeline", "models", "stages", "vse_workbench")
MANY = 3
ARRAY = re.compile(r"\b(Tensor|ndarray|NDArray)\b")
# "(N, D)", "(N,)", "(..., 4)", or in words.
SHAPE = re.compile(
    r"\([^()]*\w,[^()]*\)|\(\.\.\.,|\bscalar|\bone (value|number|row|vector)? ?per\b|shape"
)


def is_judged(function):
    """Public, with enough arguments, and neither a backward pass nor an interface."""
    args = function.args
    every = [*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg]
    names = {argument.arg for argument in every if argument} - {"self", "cls"}
    hidden = function.name.startswith("_") and function.name != "__init__"
    is_empty = [ast.unparse(line) for line in function.body] == ["..."]
    return not (hidden or is_empty or "ctx" in names or len(names) < MANY)


def takes_arrays(function):
    """Whether an argument is an array or a tensor; weights by name have all kinds of shapes."""
    types = [
        ast.unparse(n.annotation) for n in ast.walk(function.args) if getattr(n, "annotation", 0)
    ]
    return any(ARRAY.search(kind) and not re.match("dict|Mapping", kind) for kind in types)


def offenders(source):
    """A method may leave the shapes to its class."""
    tree = ast.parse(source)
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    around = {child: one for one in classes for child in one.body}
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef) or not is_judged(node) or not takes_arrays(node):
            continue
        owner = around.get(node)
        if owner and owner.name.startswith("_") and node.name == "__init__":
            continue
        texts = [ast.get_docstring(one) or "" for one in (node, owner) if one]
        if not SHAPE.search(" ".join(texts)):
            yield f"{node.name}: takes arrays and gives no shape"


@pytest.mark.parametrize("package", PACKAGES)
def test_functions_of_arrays_give_shapes(package):
    files = sorted((ROOT / package).rglob("*.py"))
    assert files
    texts = ((path.relative_to(ROOT), path.read_text(encoding="utf-8")) for path in files)
    found = [f"{path} {line}" for path, text in texts for line in offenders(text)]
    assert not found, "\n" + "\n".join(found)
