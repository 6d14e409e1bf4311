"""Sequences with steps that happen while stages run: keys, code and images are edited, and stages
run side by side. They are of a class of their own, so that the seeds of the others still draw what
they drew."""

import sys
from collections.abc import Callable

from hypothesis import strategies as st
from hypothesis.stateful import rule

from tests.sequences.clones import LAST, Ended
from tests.sequences.machine import AGAIN, EDITS, IMAGES, MODULES, SETTINGS, SequenceMachine

# Lines that a stage prints before something is edited; not the last ones: what happens in the
# hundredths of a second between a stage's last look and DVC's own is seen by neither.
AFTER = st.integers(0, 2)
STAGES = st.sampled_from(sorted(MODULES))


class MidwayMachine(SequenceMachine):
    """One sequence with such steps."""

    def meanwhile(self, stage: str, after: int, change: Callable[[], None]) -> None:
        """Run a stage again, and change something while it runs, or when it has ended before."""
        said: list[str] = []
        left = None
        with self.bench.start(*AGAIN, stage) as process:
            assert process.stdout is not None
            for line in process.stdout:
                said.append(line)
                if line.startswith("Running stage"):
                    left = after + 1
                if left is not None:
                    left -= 1
                if left == 0:
                    change()
        if left is None or left > 0:
            change()
        self.judge(Ended(process.returncode, "".join(said)))

    @rule(stage=STAGES, after=AFTER, setting=st.sampled_from(SETTINGS))
    def edit_key_meanwhile(self, stage: str, after: int, setting: tuple[str, int]) -> None:
        """A key of params.yaml is set while a stage runs."""
        if self.step("edit_key_meanwhile", stage=stage, after=after):
            self.meanwhile(stage, after, lambda: self.edit_key(setting))

    @rule(stage=STAGES, after=AFTER, edit=st.sampled_from(sorted(EDITS)))
    def edit_code_meanwhile(self, stage: str, after: int, edit: str) -> None:
        """Code is edited while a stage runs."""
        if self.step("edit_code_meanwhile", stage=stage, after=after):
            self.meanwhile(stage, after, lambda: self.edit_code(edit))

    @rule(after=AFTER, kind=st.sampled_from(IMAGES), number=st.integers(0, 3))
    def change_images_meanwhile(self, after: int, kind: str, number: int) -> None:
        """Images come, go or change while the corpus is read."""
        if self.step("change_images_meanwhile", after=after):
            change = lambda: self.change_images(kind, number)  # noqa: E731
            self.meanwhile("prepare_corpus", after, change)

    @rule(setting=st.sampled_from(SETTINGS))
    def side_by_side(self, setting: tuple[str, int]) -> None:
        """`vse repro` after a key was set."""
        if self.step("side_by_side", setting=setting):
            self.edit_key(setting)
            command = [sys.executable, "-m", "vse_workbench", "repro", LAST]
            self.judge(self.bench.run(*command))

    @rule(lines=st.integers(1, 30), setting=st.sampled_from(SETTINGS))
    def killed_side_by_side(self, lines: int, setting: tuple[str, int]) -> None:
        """`vse repro` is killed when it has printed some lines."""
        if self.step("killed_side_by_side", lines=lines, setting=setting):
            self.edit_key(setting)
            command = [sys.executable, "-m", "vse_workbench", "repro", LAST]
            said: list[str] = []
            with self.bench.start(*command) as process:
                assert process.stdout is not None
                for line in process.stdout:
                    said.append(line)
                    if len(said) == lines:
                        process.kill()
            self.judge(Ended(process.returncode, "".join(said)))
