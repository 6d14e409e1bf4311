"""Who imports whom, read from the sources: what the architecture tests judge."""

import ast
from pathlib import Path

PACKAGES = ("pipeline", "models", "stages")


def module_file(root: Path, module: str) -> Path | None:
    """The file of a dotted first-party module, or None."""
    base = root.joinpath(*module.split("."))
    for path in (base.with_suffix(".py"), base / "__init__.py"):
        if path.is_file():
            return path
    return None


def imported(root: Path, file: Path) -> set[str]:
    """First-party modules that a file imports anywhere, inside functions too."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: relative import; write the package's name"
            assert node.module
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return {name for name in names if name.split(".")[0] in PACKAGES and module_file(root, name)}


def with_parents(module: str) -> list[str]:
    """A module and the packages that are executed when it is imported."""
    parts = module.split(".")
    return [".".join(parts[:depth]) for depth in range(1, len(parts) + 1)]


def is_empty(file: Path) -> bool:
    """Whether a file holds nothing but a docstring."""
    body = ast.parse(file.read_text(encoding="utf-8")).body
    return all(isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) for node in body)


def closure(root: Path, modules: list[str], leave_out: tuple[str, ...] = ()) -> set[str]:
    """Files, relative to root, executed when `modules` are imported, `leave_out` not followed."""
    seen: set[str] = set()
    queue = [part for module in modules for part in with_parents(module)]
    files = set()
    while queue:
        module = queue.pop()
        file = module_file(root, module)
        if module in seen or module in leave_out or file is None:
            continue
        seen.add(module)
        if not is_empty(file):
            files.add(str(file.relative_to(root)))
        for name in imported(root, file):
            queue += with_parents(name)
    return files
