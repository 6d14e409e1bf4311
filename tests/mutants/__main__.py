"""Break the code in one place at a time, and see whether the tests of its package notice.

`python -m tests.mutants --seed 1 --count 100` draws as many mutants, from every package in turn,
and prints each as it ends, then a table. `--only PACKAGE` draws from one. Each outcome is a line in
`data/.work/mutants/seed-1.tsv` at once, so a run that was stopped goes on where it was.
A mutant meets the tests that were seen to call the broken function, or all of its package if none
was. `--again` tries those that survived against all tests of the package, such as those that call
it in another process, or that are new. `--table` counts what was tried so far.
A mutant lives in a copy of the tree. docs/notes/mutants.md says what was found.
"""

import argparse
import hashlib
import importlib
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import stages  # noqa: F401 - chooses the kernels before numpy is loaded, as every stage does
from tests.mutants.changes import Change, changes_of
from tests.mutants.runs import copy_tree, noticed, record
from tests.support.warm_python import LIBRARIES

ROOT = Path(__file__).resolve().parents[2]
MODELS = ("cca", "dp_rnn", "dual_path", "scan", "two_branch", "vse", "vse_infinity")
OWN = [
    *(f"tests/models/{name}" for name in ("attention", "cca", "dp_rnn", "dual_path")),
    "tests/models/two_branch",
    *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests/models").glob("test_*.py")),
    "tests/stages/test_cluster_pseudo_classes.py",  # of the dual path's classes
]
# Folders and files that a package has, and the tests that must notice.
PACKAGES: dict[str, tuple[list[str], list[str]]] = {
    name: ([f"{name}/"], [f"tests/{name}"])
    for name in (
        "pipeline/evaluation",
        "pipeline/training",
        "pipeline/corpus",
        "models/losses",
        "models/layers",
    )
}
# of features the files that store them
STORAGE = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "pipeline/features").glob("*.py"))
# with those of the model that reads the states of tokens, which are stored there
PACKAGES["pipeline/features"] = (
    STORAGE,
    ["tests/pipeline/features", "tests/models/test_token_states.py"],
)
PACKAGES["models"] = (
    [
        f"models/{name}.py" if (ROOT / f"models/{name}.py").is_file() else f"models/{name}/"
        for name in MODELS
    ],
    OWN,
)
SURVIVED = "SURVIVED"
KINDS = ("comparison", "operator", "constant", "statement", "arguments", "condition")


@dataclass(frozen=True)
class Mutant:
    """A change of one file of a package."""

    package: str
    file: str
    change: Change

    @property
    def name(self) -> str:
        """It among all mutants; another one if the line moves."""
        place = f"{self.file}:{self.change.line}:{self.change.column}"
        return f"{place} {self.change.kind}: {self.shown}"

    @property
    def shown(self) -> str:
        before, after = (" ".join(text.split()) for text in (self.change.before, self.change.after))
        return f"{before} -> {after}"


def drawn(seed: int, package: str) -> Iterator[Mutant]:
    """The mutants of a package in the order of a seed, each kind of change as often as others."""
    by_kind: dict[str, list[Mutant]] = {kind: [] for kind in KINDS}
    for file in sources_of(package):
        for change in changes_of((ROOT / file).read_bytes()):
            by_kind[change.kind].append(Mutant(package, file, change))
    draw = random.Random(f"{seed} {package}")
    while any(by_kind.values()):
        kind = draw.choice([kind for kind, left in by_kind.items() if left])
        left = by_kind[kind]
        yield left.pop(draw.randrange(len(left)))


def sources_of(package: str) -> list[str]:
    """Python files of a package."""
    return python_files(PACKAGES[package][0])


def python_files(places_in_root: list[str]) -> list[str]:
    """Files of Python in some folders, and those that are named themselves."""
    places = [ROOT / path for path in places_in_root]
    found = [
        path
        for place in places
        for path in ([place] if place.is_file() else sorted(place.rglob("*.py")))
    ]
    return [str(path.relative_to(ROOT)) for path in found]


def in_turn(seed: int, packages: list[str], count: int) -> list[Mutant]:
    """As many mutants, one of each package after the other."""
    sequences = [drawn(seed, package) for package in packages]
    found: list[Mutant] = []
    while len(found) < count and sequences:
        for sequence in [*sequences]:
            mutant = next(sequence, None)
            if mutant is None:
                sequences.remove(sequence)
            else:
                found.append(mutant)
    return found[:count]


class Trials:
    """Mutants tried in copies of the tree below a folder."""

    def __init__(self, folder: Path, kept: Path, limit: int) -> None:
        self.clean = folder / "clean"
        self.broken = folder / "broken"
        self.kept = kept
        self.limit = limit
        self.recorded: dict[str, dict[str, Any]] = {}
        copy_tree(ROOT, self.clean)

    def calls(self, package: str) -> dict[str, Any]:
        """Of the tests of a package, recorded once."""
        if package not in self.recorded:
            folders, tests = PACKAGES[package]
            read = [*sources_of(package), *python_files(tests)]  # lines, or tests, would be others
            content = [(self.clean / path).read_bytes() for path in read]
            digest = hashlib.sha256(b"".join(content)).hexdigest()[:8]
            kept = self.kept / f"calls-{package.replace('/', '-')}-{digest}.json"
            found = record(self.clean, folders, tests, kept)
            self.recorded[package] = found
            for name in found["failed"]:
                print(f"fails without a mutant, left out: {name}", file=sys.stderr)
        return self.recorded[package]

    def noticed(self, mutant: Mutant, whole: bool) -> str:
        """The test that fails; "" for a mutant that survives. whole: all tests of the package."""
        calls = self.calls(mutant.package)
        source = (self.clean / mutant.file).read_bytes()
        shutil.rmtree(self.broken, ignore_errors=True)
        shutil.copytree(self.clean, self.broken, symlinks=True)
        (self.broken / mutant.file).write_bytes(mutant.change.made_in(source))
        function = f"{mutant.file}:{mutant.change.first_line}"
        first = calls["calls"].get(function, [])
        files = by_seconds(first, calls["seconds"])
        found = ""
        if first:
            found = noticed(self.broken, files, first, calls["failed"], self.limit)
        if not found and (whole or not first):
            _, folders = PACKAGES[mutant.package]
            left_out = [*calls["failed"], *first]
            found = noticed(self.broken, folders, None, left_out, self.limit)
        return found


def by_seconds(tests: list[str], seconds: dict[str, float]) -> list[str]:
    """The files of tests, those first whose tests take least."""
    taken: Counter[str] = Counter()
    for test in tests:
        taken[test.split("::")[0]] += seconds.get(test, 0.0)
    return [file for file, _ in sorted(taken.items(), key=lambda item: item[1])]


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.mutants")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--only", choices=PACKAGES, action="append", help="instead of all packages")
    parser.add_argument("--again", action="store_true", help="try survivors once more")
    parser.add_argument("--limit", type=int, default=60, help="seconds for one test")
    parser.add_argument("--table", action="store_true", help="count what was tried, try nothing")
    parser.add_argument("--results", type=Path, default=Path("data/.work/mutants"))
    options = parser.parse_args()
    chosen = in_turn(options.seed, options.only or list(PACKAGES), options.count)
    options.results.mkdir(parents=True, exist_ok=True)
    results = Results(options.results / f"seed-{options.seed}.tsv")
    if not options.table:
        print(f"seed {options.seed}, {len(chosen)} mutants", flush=True)
        try_all(chosen, results, options)
    tried = [mutant for mutant in chosen if mutant.name in results.outcomes]
    print("\n".join(table(tried, results.outcomes)))
    return 0


def try_all(chosen: list[Mutant], results: "Results", options: argparse.Namespace) -> None:
    """Try the mutants that have no outcome yet; with `again` also those that survived."""
    for name in LIBRARIES:
        importlib.import_module(name)
    with tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None) as at:
        trials = Trials(Path(at).resolve(), options.results.resolve(), options.limit)
        for number, mutant in enumerate(chosen, start=1):
            known = results.outcomes.get(mutant.name)
            if known is None or (options.again and known == SURVIVED):
                begun = time.monotonic()
                outcome = trials.noticed(mutant, options.again) or SURVIVED
                seconds = time.monotonic() - begun
                results.add(mutant.name, outcome, seconds)
                print(f"{number} {mutant.name}\n    {seconds:.0f} s: {outcome}", flush=True)


class Results:
    """A table of outcomes in a file that only grows: the last line of a mutant counts."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.outcomes: dict[str, str] = {}
        text = path.read_text() if path.is_file() else ""
        whole = text[: text.rfind("\n") + 1]  # without a line that was cut
        if whole != text:
            path.write_text(whole)
        for line in whole.splitlines():
            name, outcome, _ = line.split("\t")
            self.outcomes[name] = outcome

    def add(self, name: str, outcome: str, seconds: float) -> None:
        """Append the outcome of a mutant: the test that fails, or how the run ended."""
        self.outcomes[name] = outcome
        with self.path.open("a") as file:
            file.write(f"{name}\t{outcome}\t{seconds:.1f}\n")


def table(mutants: list[Mutant], results: dict[str, str]) -> list[str]:
    """Of each package: mutants, and those that no test noticed."""
    lines = ["| package | mutants | noticed | survived |", "|---|---:|---:|---:|"]
    for package in PACKAGES:
        own = [mutant for mutant in mutants if mutant.package == package]
        survived = [mutant for mutant in own if results[mutant.name] == SURVIVED]
        counts = f"{len(own)} | {len(own) - len(survived)} | {len(survived)}"
        if own:
            lines.append(f"| {package} | {counts} |")
    survivors = [f"- {mutant.name}" for mutant in mutants if results[mutant.name] == SURVIVED]
    return [*lines, "", *survivors]


if __name__ == "__main__":
    sys.exit(main())
