"""Cases of whole stages that are killed, cut off, refused room, or run beside another."""

import errno
import os
import random
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.campaign.calls import Call, Calls, aside, change_disk, mount_disk, read_journal
from tests.campaign.power import Disk
from tests.campaign.world import (
    Ended,
    Stage,
    World,
    add,
    files_of,
    finished,
    outputs_of,
    put,
    run,
    start,
)

PLENTY = 1 << 18  # pages
REFUSALS = (errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EFBIG)
BUSY = ("is running already", "another process is writing")


class Disturbed:
    """The sections about stages; folder: scratch, emptied by every case."""

    def __init__(self, folder: Path, world: World) -> None:
        self.folder, self.world, self.calls = folder, world, Calls()
        self._journals: dict[str, tuple[int, list[Call]]] = {}
        self._points: list[tuple[str, int]] = []
        self.sections: dict[str, Callable[[random.Random, int], str]] = {
            "kills of stages at every call": self.kill_at_call,
            "kills of stages at any time": self.kill_at_time,
            "power cuts": self.power_cut,
            "calls that the system refuses": self.refused_call,
            "stages on full disks": self.full_disk,
            "stages that may not write long files": self.short_files,
            "stages on read-only disks": self.read_only,
            "stages with exchanged files": self.exchanged,
            "pairs of one stage": self.pair,
            "pairs of two stages": self.neighbours,
        }

    def kill_at_call(self, draw: random.Random, number: int) -> str:
        """Killed before, or in the middle of, one of the calls that change files; each has its
        turn."""
        name, call = self._point(number)
        is_torn = draw.random() < 0.5
        stage, arm = self.world.stages[name], lambda: self.calls.arm(self.folder, call, is_torn)
        return self._killed(stage, draw, lambda stage: run(stage, self.folder, arm))

    def kill_at_time(self, draw: random.Random, number: int) -> str:
        """Killed at a moment of its run."""
        stage = self._any(draw)
        self.world.before(stage)
        moment = draw.random() * self.world.seconds[stage.name]
        return self._killed(stage, draw, lambda stage: run(stage, self.folder, kill_after=moment))

    def power_cut(self, draw: random.Random, number: int) -> str:
        """The power fails at one of the calls, or after the end, and the stage is run again."""
        stage = self._any(draw)
        _, journal = self._journal(stage)
        disk = Disk(self.world.before(stage))
        cut = draw.choice((len(journal), draw.randrange(len(journal) + 1)))
        disk.take(journal[:cut])
        found = disk.after_cut(draw, draw.choice((0, 0.2, 0.5, 0.8, 1)))
        expected = self.world.after(stage)
        if cut == len(journal):
            lost = [name for name, content in expected.items() if found.get(name) != content]
            if lost:
                return f"lost after success: {stage.name}: {Path(lost[0]).name}"
        put(self.folder, found)
        return self._again(stage, "continued")

    def refused_call(self, draw: random.Random, number: int) -> str:
        """The system refuses one of the calls."""
        name, call = self._point(number)
        stage, error = self.world.stages[name], draw.choice(REFUSALS)
        self._put(stage, draw.random() < 0.5)
        ended = run(stage, self.folder, lambda: self.calls.arm(self.folder, fail=call, error=error))
        if ended.code and not ended.is_refusal:
            return f"{stage.name}: {ended.fault}"
        return self._judged(stage, ended)

    def short_files(self, draw: random.Random, number: int) -> str:
        """Files may have so many bytes."""
        stage = self._any(draw)
        longest = max(map(len, self.world.after(stage).values()))
        limit = draw.choice((draw.randrange(4096), draw.randrange(int(longest * 1.2) + 1)))
        self._put(stage, draw.random() < 0.5)
        bounds = limit, resource.RLIM_INFINITY
        ended = run(stage, self.folder, lambda: resource.setrlimit(resource.RLIMIT_FSIZE, bounds))
        return self._judged(stage, ended)

    def full_disk(self, draw: random.Random, number: int) -> str:
        """On a disk that has from none to more than all of the room, in 20 sizes for each stage."""
        names = list(self.world.stages)
        turn, size = divmod(number, 20)
        stage = self.world.stages[names[turn * 5 % len(names)]]  # from all over the graph

        def change(folder: Path) -> None:
            used = os.statvfs(folder)
            taken = used.f_blocks - used.f_bfree
            pages = sum(-(-len(content) // 4096) for content in self.world.after(stage).values())
            change_disk(folder, max(taken + size * (2 * pages + 8) // 19, 1))

        return self._on_own_disk(stage, draw.random() < 0.5, change)

    def read_only(self, draw: random.Random, number: int) -> str:
        """On a disk that is read-only."""
        stage, with_old = self._any(draw), draw.random() < 0.5
        return self._on_own_disk(stage, with_old, lambda at: change_disk(at, PLENTY, True))

    def exchanged(self, draw: random.Random, number: int) -> str:
        """One of the files that a stage reads is another one of the run."""
        everything = self.world.everything()
        stages = {
            stage: names
            for stage in self.world.stages.values()
            if (names := [name for name in self.world.before(stage) if _is_made(name)])
        }
        stage = draw.choice(list(stages))
        name = draw.choice(sorted(stages[stage]))
        alike = {n: own for n, own in sorted(everything.items()) if n.endswith(Path(name).suffix)}
        others = [n for n, own in alike.items() if _is_made(n) and own != everything[name]]
        self._put(stage, False)
        (self.folder / name).write_bytes(everything[draw.choice(others)])
        ended = run(stage, self.folder)
        if ended.code:
            return "refused" if ended.is_refusal else f"{stage.name}: {ended.fault}"
        same = outputs_of(stage, files_of(self.folder)) == self.world.after(stage)
        return "unchanged" if same else f"silent: {stage.name}: {name}"

    def pair(self, draw: random.Random, number: int) -> str:
        """Two runs of one stage, the second begun at any moment of the first."""
        stage = self._any(draw)
        self._put(stage, draw.random() < 0.5)
        first = start(stage, self.folder)
        waits = draw.choice((0.0, draw.random() * self.world.seconds[stage.name]))
        other = start(stage, self.folder, lambda: time.sleep(waits))
        ended = [finished(first), finished(other)]
        for one in ended:
            busy = any(word in one.said for word in BUSY)
            if one.code and not (one.is_refusal and busy):
                return f"{stage.name}: {one.fault}"
        if all(one.code for one in ended):
            return f"both refused: {stage.name}"
        word = "told to wait" if any(one.code for one in ended) else "both ended"
        return self._again(stage, word)

    def neighbours(self, draw: random.Random, number: int) -> str:
        """Two stages at once, of which one may read what the other writes anew."""
        one, other = draw.sample(list(self.world.stages.values()), 2)
        files = self.world.everything()
        put(self.folder, files)
        first = start(one, self.folder)
        waits = draw.random() * self.world.seconds[one.name]
        second = start(other, self.folder, lambda: time.sleep(waits))
        for stage, ended in ((one, finished(first)), (other, finished(second))):
            if ended.code:
                return f"{one.name} beside {other.name}: {stage.name}: {ended.fault}"
        found = files_of(self.folder)
        changed = [name for name in files.keys() | found if files.get(name) != found.get(name)]
        return f"{one.name} beside {other.name}: {changed[0]}" if changed else "both ended"

    def _killed(self, stage: Stage, draw: random.Random, disturb: Callable[[Stage], Ended]) -> str:
        with_old = draw.random() < 0.5
        self._put(stage, with_old)
        ended = disturb(stage)
        if ended.code not in (0, -9):
            return f"{stage.name}: {ended.fault}"
        return self._judged(stage, ended)

    def _judged(self, stage: Stage, ended: Ended, folder: Path | None = None) -> str:
        """Whether every file is the old one or the new one, and the same command then ends."""
        where = folder or self.folder
        expected = self.world.after(stage)
        found = files_of(where)
        whole = set(stage.outputs)
        for name, content in expected.items():
            there = found.get(name)
            partly = name not in whole and (there is None or ended.code == -9)
            is_whole = there in (content, OLD) or (there is None and ended.code != 0)
            if not is_whole and not partly:
                return f"damaged: {stage.name}: {name}"
        if ended.code == 0 and outputs_of(stage, found) != expected:
            return f"other bytes: {stage.name}"
        if ended.code > 0 and not ended.is_refusal:
            return f"{stage.name}: {ended.fault}"
        if ended.code < 0 and ended.code != -9:
            return f"{stage.name}: {ended.fault}"
        word = {0: "whole", -9: "continued"}.get(ended.code, "refused")
        return self._again(stage, word, where)

    def _again(self, stage: Stage, word: str, folder: Path | None = None) -> str:
        """`word` if the command ends with the same bytes now, and leaves nothing else."""
        where = folder or self.folder
        ended = run(stage, where)
        if ended.code:
            return f"not continued: {stage.name}: {ended.fault}"
        found, expected = files_of(where), self.world.before(stage) | self.world.after(stage)
        for name in sorted(found.keys() | expected.keys()):
            if found.get(name) != expected.get(name):
                kind = "left over" if name not in expected else "other bytes"
                return f"{kind}: {stage.name}: {name}"
        return word

    def _put(self, stage: Stage, with_old: bool) -> None:
        put(self.folder, {})
        self._fill(self.folder, stage, with_old)

    def _fill(self, folder: Path, stage: Stage, with_old: bool) -> None:
        files = dict(self.world.before(stage))
        if with_old:
            files |= dict.fromkeys(self.world.after(stage), OLD)
        add(folder, files)

    def _any(self, draw: random.Random) -> Stage:
        return draw.choice(list(self.world.stages.values()))

    def _point(self, number: int) -> tuple[str, int]:
        """A stage and one of its calls; the numbers from 0 on take every call of every stage."""
        if not self._points:
            for stage in self.world.stages.values():
                calls, _ = self._journal(stage)
                self._points += [(stage.name, call) for call in range(1, calls + 1)]
            random.Random(0).shuffle(self._points)
        return self._points[number % len(self._points)]

    def _journal(self, stage: Stage) -> tuple[int, list[Call]]:
        """How many calls a stage makes, and what those that succeeded did."""
        if stage.name not in self._journals:
            put(self.folder, self.world.before(stage))
            with tempfile.TemporaryFile() as journal:
                log = journal.fileno()
                done = run(stage, self.folder, lambda: self.calls.arm(self.folder, journal=log))
                assert done.code == 0, (stage.name, done.said)
                journal.seek(0)
                calls = list(read_journal(journal.read(), self.folder))
            self._journals[stage.name] = self.calls.counted, calls
        return self._journals[stage.name]

    def _on_own_disk(self, stage: Stage, with_old: bool, change: Callable[[Path], None]) -> str:
        self.world.after(stage)

        def case(folder: Path) -> str:
            mount_disk(folder, PLENTY)
            self._fill(folder, stage, with_old)
            change(folder)
            ended = run(stage, folder)
            change_disk(folder, PLENTY)
            return self._judged(stage, ended, folder)

        with tempfile.TemporaryDirectory() as name:
            return aside(lambda: case(Path(name)))


def _is_made(name: str) -> bool:
    """Whether a stage wrote a file that knows what it is; a curve does not know its model."""
    return Path(name).suffix in (".h5", ".safetensors", ".parquet") or name.startswith("metrics/")


OLD = b"of an earlier run"
