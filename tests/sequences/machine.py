"""The steps of a sequence, and how it is judged: whatever the order, the outputs are those of a
fresh clone with the same params, code and data, or a command said in one line why not."""

import itertools
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from hypothesis import HealthCheck, Phase, Verbosity, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from tests.sequences.clones import (
    COMMENT,
    FIRST,
    LAST,
    RAW,
    TABLE,
    Clones,
    Ended,
    Outputs,
    Workbench,
    differences,
    ended,
    write_image,
)
from tests.sequences.kills import Kill
from tests.support.corpora import change_params
from tests.support.full_disk import resize

STEPS = 8
PLENTY = 4 << 30  # bytes of a disk that is not full
PAGE = 4096
TARGETS = ("prepare_corpus", "extract_image_features", "encode_sentences", "train@cca", LAST, LAST)
SETTINGS = (
    ("cca.dim", 3),
    ("cca.dim", 4),
    ("cca.dim", 0),  # refused
    ("evaluation.bootstrap", 10),
    ("evaluation.bootstrap", 20),
    ("image_features.size", 40),
    ("image_features.size", 32),
)
# A file, what stands there, and what an edit puts into its place; the same edit again undoes it.
EDITS = {
    "comment": ("models/cca.py", "", COMMENT),
    "model": ("models/cca.py", "images - self.image_mean", "images - 0.5 * self.image_mean"),
    "pooling": ("models/backbone/poolings/mean.py", "maps.mean(2)", "maps.mean(2).sqrt()"),
    "wrong": ("models/cca.py", "import math\n", "import math(\n"),  # refused
}
# Patterns of what DVC says of its own files, and the commands that docs/troubleshooting.md has.
WAYS_OUT = {
    r"dvc\.lock' is invalid": ("git", "checkout", FIRST, "--", "dvc.lock"),
    r"dvc\.lock' validation failed": ("git", "checkout", FIRST, "--", "dvc.lock"),
    # a file that was cut behind `hash: m`, which is no digest that DVC knows
    r"failed to reproduce '[^']*': *$": ("git", "checkout", FIRST, "--", "dvc.lock"),
    r"Unable to read RWLock-file": ("rm", "-f", ".dvc/tmp/rwlock"),
}
BUSY = "is busy, it is being blocked by:"
MOST_WAITS = 10
SOURCES = ("params.yaml", "models", "pipeline", RAW)  # what steps may make wrong
IMAGES = ("add", "remove", "replace", "lose")  # lose: the file alone, which is refused
MODULES = {  # of stages
    "check_params": "check_params",
    "prepare_corpus": "prepare_corpus",
    "build_vocabulary": "build_vocabulary",
    "extract_image_features": "extract_image_features",
    "encode_sentences": "encode_sentences",
    "train@cca": "train",
    "score@cca": "score",
    LAST: "evaluate",
}
AGAIN = ("dvc", "repro", "--force", "--single-item")
DAMAGED = ("data/corpus/captions.parquet", "data/corpus/images.parquet", "data/features/image.h5")
DAMAGED += ("data/checkpoints/cca.safetensors", "data/scores/cca.h5", "metrics/cca.json")
DAMAGED += ("data/vocabulary/vocabulary.json", "data/features/sentences.h5", "dvc.lock")
HARMS = ("flip", "cut", "remove")


@dataclass
class Play:
    """What all sequences share, and what became of each.

    clones: where they happen; disk: mounted around the clones, which may be made full, None: no
    step does it; report: is told a sequence's number, steps and outcome as soon as it has ended.
    """

    clones: Clones
    disk: Path | None
    report: Callable[[int, list[str], str], None]


class SequenceMachine(RuleBasedStateMachine):
    """One sequence. What is drawn does not depend on what happens, so that the same seed gives the
    same sequences, whichever of them are played."""

    play: ClassVar[Play]
    number: ClassVar[int]
    turns: ClassVar[Iterator[int]]

    def __init__(self) -> None:
        super().__init__()
        self.is_played = next(self.turns) == 1
        self.steps: list[str] = []
        self.outcome = ""

    @cached_property
    def bench(self) -> Workbench:
        """The clone of this sequence."""
        return self.play.clones.copy(f"sequence{self.number}")

    def step(self, name: str, **drawn: Any) -> bool:
        """Whether a step is to be done: not where the sequence is over."""
        if self.outcome or not self.is_played:
            return False
        self.steps.append(f"{name}({', '.join(f'{key}={drawn[key]!r}' for key in drawn)})")
        return True

    def judge(self, done: Ended) -> None:
        """End the sequence if a command neither succeeded nor said why not."""
        self.steps[-1] += f" -> {done.code}"
        if done.code > 0:
            self.steps[-1] += f" ({done.error})"
        if done.fault:
            self.outcome = f"step {len(self.steps)}: {done.fault}"
        self.take_way_out(done)

    def take_way_out(self, done: Ended) -> bool:
        """Do what the documents say after an error of DVC; False where they say nothing."""
        for said, command in WAYS_OUT.items():
            if done.code > 0 and re.search(said, done.said, re.MULTILINE):
                self.steps.append(" ".join(command))
                self.bench.run(*command)
                return True
        return False

    @rule(setting=st.sampled_from(SETTINGS))
    def edit_key(self, setting: tuple[str, int]) -> None:
        """Set a key of params.yaml."""
        if self.step("edit_key", setting=setting):
            change_params(self.bench.folder, **{setting[0].replace(".", "__"): setting[1]})

    @rule(edit=st.sampled_from(sorted(EDITS)))
    def edit_code(self, edit: str) -> None:
        """Edit a file of code, or undo it."""
        if self.step("edit_code", edit=edit):
            name, old, new = EDITS[edit]
            text = (self.bench.folder / name).read_text()
            if new in text:
                text = text.replace(new, old)
            else:
                text = text.replace(old, new) if old else text + new
            (self.bench.folder / name).write_text(text)

    @rule(kind=st.sampled_from(IMAGES), number=st.integers(0, 3))
    def change_images(self, kind: str, number: int) -> None:
        """Add, remove or replace an image, or lose its file alone."""
        if self.step("change_images", kind=kind, number=number):
            table = self.bench.folder / TABLE
            name = f"new{number}.png" if kind == "add" else f"{number:02}.png"
            path = self.bench.folder / RAW / name
            if kind in ("remove", "lose"):
                path.unlink(missing_ok=True)
            if kind == "remove":
                rows = table.read_text().splitlines(keepends=True)
                table.write_text("".join(row for row in rows if not row.startswith(f"{name},")))
            if kind == "add" and not path.exists():
                table.write_text(f"{table.read_text()}{name},a red dog,train\n")
            if kind in ("add", "replace"):
                write_image(path, 100 + number)

    @rule(stage=st.sampled_from(TARGETS))
    def repro(self, stage: str) -> None:
        """`dvc repro`."""
        if self.step("repro", stage=stage):
            self.judge(self.bench.run("dvc", "repro", stage))

    @rule(setting=st.sampled_from(SETTINGS), is_queued=st.sampled_from((False, False, False, True)))
    def experiment(self, setting: tuple[str, int], is_queued: bool) -> None:
        """`dvc exp run`; one in the queue is applied when it is done."""
        if self.step("experiment", setting=setting, is_queued=is_queued):
            words = ("-S", "=".join(map(str, setting)), LAST)
            if not is_queued:
                self.judge(self.bench.run("dvc", "exp", "run", *words))
                return
            name = f"queued{len(self.steps)}"
            done = self.bench.run("dvc", "exp", "run", "--queue", "--name", name, *words)
            self.judge(done)
            if not done.code:
                self.judge(self.bench.run("dvc", "queue", "start"))
                self.judge(self.bench.run("dvc", "exp", "apply", name))

    @rule(
        stage=st.sampled_from(sorted(MODULES)),
        is_dvc=st.booleans(),
        call=st.integers(1, 40),
        is_torn=st.booleans(),
        of_group=st.booleans(),
    )
    def kill(self, stage: str, is_dvc: bool, call: int, is_torn: bool, of_group: bool) -> None:
        """A stage that is run again, killed at one of its calls or of DVC's."""
        drawn = Kill("dvc" if is_dvc else f"stages.{MODULES[stage]}", call, is_torn, of_group)
        if self.step("kill", stage=stage, kill=drawn):
            self.judge(self.bench.run(*AGAIN, stage, kill=drawn))

    @rule(stage=st.sampled_from(sorted(MODULES)), pages=st.integers(0, 200))
    def fill_disk(self, stage: str, pages: int) -> None:
        """A stage that is run again on a disk with little room."""
        if self.step("fill_disk", stage=stage, pages=pages):
            bench = self.bench  # copied before there is no room
            if self.play.disk is None:
                return
            used = os.statvfs(self.play.disk)
            resize(self.play.disk, (used.f_blocks - used.f_bfree + pages) * PAGE)
            done = bench.run(*AGAIN, stage)
            resize(self.play.disk, PLENTY)
            if not done.waits_for_room:  # which DVC does for ever, docs/troubleshooting.md
                self.judge(done)

    @rule(command=st.sampled_from(("commit", ".", "HEAD~1", "main")))
    def git(self, command: str) -> None:
        """Commit all that git does not ignore, or go back to the files of a commit."""
        if self.step("git", command=command):
            if command == "commit":
                self.bench.run("git", "add", "--all")
                self.bench.run("git", "commit", "--quiet", "--message", f"step {len(self.steps)}")
            else:
                force = [] if command == "." else ["--force"]
                self.bench.run("git", "checkout", "--quiet", *force, command)

    @rule(command=st.sampled_from(("checkout", "gc")))
    def dvc(self, command: str) -> None:
        """`dvc checkout` of what is needed; `dvc gc` of all that the workspace does not name."""
        if self.step("dvc", command=command):
            own = {"checkout": ("--with-deps", LAST), "gc": ("--workspace",)}[command]
            self.judge(self.bench.run("dvc", command, "--force", *own))

    @rule(
        output=st.sampled_from(DAMAGED),
        harm=st.sampled_from(HARMS),
        place=st.integers(0, 1_000_000),
    )
    def damage(self, output: str, harm: str, place: int) -> None:
        """Flip a bit of an output, cut its end off, or remove it."""
        if self.step("damage", output=output, harm=harm, place=place):
            path = self.bench.folder / output
            if not path.exists():
                return
            content = path.read_bytes()
            place %= max(1, len(content))
            if harm == "remove":
                path.unlink()
            elif content:
                flipped = bytes([content[place] ^ 1]) + content[place + 1 :]
                path.write_bytes(content[:place] + (flipped if harm == "flip" else b""))

    @rule(first=st.sampled_from(TARGETS), second=st.sampled_from(TARGETS))
    def two_runs(self, first: str, second: str) -> None:
        """Two `dvc repro` at once."""
        if self.step("two_runs", first=first, second=second):
            both = [self.bench.start("dvc", "repro", stage) for stage in (first, second)]
            for process in both:
                done = ended(process)
                if not self.outcome:
                    self.judge(done)

    def teardown(self) -> None:
        """The end: everything is brought up to date, and compared with a fresh clone."""
        if self.steps:
            self.outcome = self.outcome or self.last()
            self.bench.remove()
            self.play.report(self.number, self.steps, self.outcome)

    def last(self) -> str:
        """How a sequence ends: equal; refused as a fresh clone is, and equal after the way out that
        docs/running.md has; or a fault."""
        expected = self.play.clones.expected(self.bench)
        done = self.brought_up_to_date()
        if isinstance(expected, dict):
            return self.compared(done, expected) or "equal"
        if done.fault:
            return f"at the end: {done.fault}"
        if not done.code:
            return f"made what a fresh clone refuses: {expected}"
        (self.bench.folder / "params.yaml").touch()
        self.bench.run("git", "checkout", FIRST, "--", *SOURCES)
        done = self.brought_up_to_date()
        expected = self.play.clones.expected(self.bench)
        assert isinstance(expected, dict), expected
        return self.compared(done, expected) or "refused, as in a fresh clone, then equal"

    def brought_up_to_date(self) -> Ended:
        """`dvc repro`, again where the documents have a way out of what DVC says."""
        done = self.bench.run("dvc", "repro", LAST)
        for _ in range(MOST_WAITS):
            if BUSY not in done.said:
                break
            # a killed process is there until the system has taken note
            done = self.bench.run("dvc", "repro", LAST)
        if self.take_way_out(done):
            done = self.bench.run("dvc", "repro", LAST)
        return done

    def compared(self, done: Ended, expected: Outputs) -> str:
        """What is wrong with the outputs after a run, empty if nothing is."""
        if done.fault:
            return f"at the end: {done.fault}"
        if done.code:
            return f"refused, not in a fresh clone: {done.error}"
        others = differences(self.bench.outputs(), expected)
        if others:
            return f"other bytes: {', '.join(others)}"
        unlike = [name for name, md5 in self.bench.locked().items() if expected[name] != md5]
        return f"dvc.lock has other digests: {', '.join(unlike)}" if unlike else ""


def draw(drawn_from: int, number: int, machine: type[SequenceMachine], play: Play) -> None:
    """Draw one sequence, and play it.

    Args:
        drawn_from: The seed of all.
        number: Of the sequence; the seed and it alone decide what is drawn.
        machine: What plays it.
        play: What all share.
    """
    chosen = settings(
        max_examples=2,  # hypothesis begins with its simplest, which is not played
        stateful_step_count=STEPS,
        phases=[Phase.generate],
        derandomize=False,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        verbosity=Verbosity.quiet,
    )
    made = type("One", (machine,), {"play": play, "number": number, "turns": itertools.count()})
    run_state_machine_as_test(seed(drawn_from * 1_000_003 + number)(made), settings=chosen)
