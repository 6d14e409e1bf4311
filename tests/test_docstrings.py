"""A public function of three or more arguments, one of them an array or a tensor, says what each of
them is: in a block `Args:` of its docstring, a name a line, in the order of the signature."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("pipeline", "models", "stages", "vse_workbench")
MANY = 3
ARRAY = re.compile(r"\b(Tensor|ndarray|NDArray)\b")

# An entry is four spaces in; what continues it is further in.
ENTRY = re.compile(r" {4}(\*{0,2}\w+): \S")


def block(docstring, title):
    """The names of the block `title` in their order, None where there is no such block."""
    lines = (docstring or "").splitlines()
    if title not in lines:
        return None
    names = []
    for line in lines[lines.index(title) + 1 :]:
        if not line.startswith("    "):
            break
        if not line.startswith("     "):
            entry = ENTRY.match(line)
            names.append(entry[1] if entry else repr(line.strip()))
    return names


def arguments(function, bound):
    """The names of a signature but its first `bound`, stars included, as a docstring has them."""
    args = function.args
    names = [argument.arg for argument in [*args.posonlyargs, *args.args]][bound:]
    names += [f"*{args.vararg.arg}"] if args.vararg else []
    names += [argument.arg for argument in args.kwonlyargs]
    return names + ([f"**{args.kwarg.arg}"] if args.kwarg else [])


def takes_arrays(function):
    """Whether an argument is an array or a tensor, whose shape a reader must know."""
    return ARRAY.search(ast.unparse(function.args)) is not None


def fields(node):
    """The names that a class body annotates, without those that belong to the class alone."""
    own = (child for child in node.body if isinstance(child, ast.AnnAssign))
    return [line.target.id for line in own if "ClassVar" not in ast.unparse(line.annotation)]


def is_exempt(function):
    """The docstring of a command is its help text; a protocol's stub is described where it is
    filled."""
    decorators = [ast.unparse(decorator) for decorator in function.decorator_list]
    return "command" in decorators or [ast.unparse(line) for line in function.body] == ["..."]


def functions(node, prefix="", bound=0):
    """Name, node with the docstring, names of the arguments and node of the public functions."""
    for child in node.body:
        if isinstance(child, ast.ClassDef) and not child.name.startswith("_"):
            yield from functions(child, f"{child.name}.", 1)
        elif isinstance(child, ast.FunctionDef) and child.name == "__init__":
            yield prefix + child.name, node, arguments(child, bound), child
        elif isinstance(child, ast.FunctionDef) and not child.name.startswith("_"):
            static = "staticmethod" in map(ast.unparse, child.decorator_list)
            if not is_exempt(child):
                yield prefix + child.name, child, arguments(child, 0 if static else bound), child


def offenders(source):
    tree = ast.parse(source)
    for name, node, names, source_of in functions(tree):
        found = block(ast.get_docstring(node), "Args:")
        if found != names and (
            found is not None or (len(names) >= MANY and takes_arrays(source_of))
        ):
            yield f"{name}: Args: has {found}, the signature {names}"
    for node in (child for child in ast.walk(tree) if isinstance(child, ast.ClassDef)):
        found = block(ast.get_docstring(node), "Attributes:")
        if found is not None and found != fields(node):
            yield f"{node.name}: Attributes: has {found}, the class {fields(node)}"


def function(signature, *entries):
    return f"def f({signature}):\n{docstring('Args:', *entries)}"


def dataclass(body, *entries):
    return f"class F:\n{docstring('Attributes:', *entries)}{body}"


def docstring(title, *entries):
    lines = "\n".join(f"        {entry}" for entry in entries)
    return f'    """Adds.\n\n    {title}\n{lines}\n    """\n'


@pytest.mark.parametrize(
    "source",
    [
        "def f(a: Tensor, b, c): return a",
        'def f(a: np.ndarray, b, *, c):\n    """Adds. a: one; b: two; c: three."""',
        'class F:\n    """Adds."""\n    def __init__(self, a: Tensor, b, **c): pass',
        "class F:\n    @staticmethod\n    def f(a, b, c: torch.Tensor): return a",
        function("a, b, c", "a: one.", "b: two."),
        function("a, b, c", "a: one.", "c: three.", "b: two."),
        function("a, b, *c", "a: one.", "b: two.", "c: three."),
        function("a, b, c", "a: one.", "b", "c: three."),
        function("a, b", "a: one.", "c: two."),
        dataclass("    a: int\n    b: int", "a: one."),
        dataclass("    a: int", "a: one.", "b: two."),
    ],
)
def test_a_missing_name_is_seen(source):
    assert len(list(offenders(source))) == 1


@pytest.mark.parametrize(
    "source",
    [
        "def f(a: Tensor, b): return a",
        "def f(a, b, c): return a",
        "def _f(a, b, c): return a",
        "class _F:\n    def f(self, a, b, c): return a",
        "class F:\n    def f(self, a, b): return a",
        "class F(Protocol):\n    def f(self, a, b, c): ...",
        "@command\ndef main(a, b, c): return a",
        function("a, /, b, *, c, **d", "a: one", "  and more.", "b: 2.", "c: 3.", "**d: 4."),
        function("a, *b, c", "a: one.", "*b: two.", "c: three."),
        dataclass("    A: ClassVar[int] = 0\n    a: int = 0", "a: one."),
    ],
)
def test_a_whole_docstring_passes(source):
    assert not list(offenders(source))


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_function_of_arrays_names_its_arguments_in_order(package):
    files = sorted((ROOT / package).rglob("*.py"))
    assert files
    texts = ((path.relative_to(ROOT), path.read_text(encoding="utf-8")) for path in files)
    found = [f"{path} {line}" for path, text in texts for line in offenders(text)]
    assert not found, "\n" + "\n".join(found)
