"""A public function of three or more arguments, arrays among them, gives shapes, and no docstring
describes an argument that the signature lacks."""

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
ENTRY = re.compile(r" {4}(\*{0,2}\w+): \S")


def entries(docstring, title):
    """The names that a block such as `Args:` describes."""
    lines = (docstring or "").splitlines()
    if title not in lines:
        return []
    names = []
    for line in lines[lines.index(title) + 1 :]:
        if line and not line.startswith("    "):
            break
        if match := ENTRY.match(line):
            names.append(match[1].lstrip("*"))
    return names


def names_of(function):
    args = function.args
    every = [*args.posonlyargs, *args.args, *args.kwonlyargs, args.vararg, args.kwarg]
    return [argument.arg for argument in every if argument and argument.arg not in ("self", "cls")]


def fields(node):
    """The names that a class body annotates."""
    return [line.target.id for line in node.body if isinstance(line, ast.AnnAssign)]


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
            if stale := set(entries(text, "Attributes:")) - set(fields(node)):
                yield f"{node.name}: Attributes: describes {stale}, which the class lacks"
        for function in functions:
            names = names_of(function)
            if stale := set(entries(text, "Args:")) - set(names):
                yield f"{node.name}: Args: describes {stale}, which the signature lacks"
            body = [ast.unparse(line) for line in function.body]
            if node.name.startswith("_") or "ctx" in names or body == ["..."] or len(names) < MANY:
                continue
            if takes_arrays(function) and not SHAPE.search((text or "") + around.get(node, "")):
                yield f"{node.name}: takes arrays and gives no shape"


def function(signature, *lines):
    text = "\n".join(f"        {line}" for line in lines)
    return f'def f({signature}):\n    """Adds.\n\n    Args:\n{text}\n    """\n    return 0\n'


@pytest.mark.parametrize(
    "source",
    [
        "def f(a: Tensor, b, c): return a",
        'def f(a: np.ndarray, b, *, c):\n    """Adds a to b (see c)."""\n    return a',
        'class F:\n    """Adds."""\n    def __init__(self, a: Tensor, b, **c): pass',
        function("a: Tensor, b, c", "a: of images."),
        function("a, b", "a: one.", "c: two."),
        'class F:\n    """Adds.\n\n    Attributes:\n        b: one.\n    """\n    a: int',
    ],
)
def test_a_missing_shape_or_a_stale_name_is_seen(source):
    assert len(list(offenders(source))) == 1


@pytest.mark.parametrize(
    "source",
    [
        "def f(a: Tensor, b): return a",
        "def f(a, b, c): return a",
        "def _f(a: Tensor, b, c): return a",
        "class F(Protocol):\n    def f(self, a: Tensor, b, c): ...",
        'def f(a: Tensor, b, c):\n    """Adds b to a, (N, D)."""\n    return a',
        function("a: Tensor, b, **c", "a: (N,), or a scalar.", "**c: more."),
    ],
)
def test_a_docstring_with_shapes_passes(source):
    assert not list(offenders(source))


@pytest.mark.parametrize("package", PACKAGES)
def test_functions_of_arrays_give_shapes_and_describe_what_they_have(package):
    files = sorted((ROOT / package).rglob("*.py"))
    assert files
    texts = ((path.relative_to(ROOT), path.read_text(encoding="utf-8")) for path in files)
    found = [f"{path} {line}" for path, text in texts for line in offenders(text)]
    assert not found, "\n" + "\n".join(found)
