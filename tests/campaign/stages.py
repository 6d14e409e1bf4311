"""Cases of whole stages: killed, cut off, refused room, run beside another, given other files."""

import errno
import os
import random
import re
import time
from collections.abc import Callable
from pathlib import Path

from tests.campaign.calls import Call, arm, read_journal
from tests.campaign.power import Disk
from tests.campaign.world import Ended, Files, Stage, World, files_of, outputs_of, put, run, start
from tests.support.full_disk import resize

PLENTY = 1 << 30  # bytes
PAGE = 4096
REFUSALS = (errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EFBIG)
BUSY = "is running already"
OLD = b"of an earlier run"
PICTURE = "data/corpus/images/train_00000.jpg"


class Stages:
    def __init__(self, folder: Path, world: World) -> None:
        self.folder, self.world = folder, world
        self._journals: dict[str, list[Call]] = {}
        self._points: list[tuple[str, int]] = []

    def kill(self, draw: random.Random, number: int) -> str:
        """Killed before, or in the middle of, one of the calls that change files; each has its
        turn."""
        stage, call = self._point(number)
        is_torn = draw.random() < 0.5
        self._put(stage, draw)
        ended = run(stage, self.folder, lambda: arm(self.folder, call, is_torn=is_torn))
        return self._judged(stage, ended)

    def power_cut(self, draw: random.Random, number: int) -> str:
        """The power fails at one of the calls, or after the end, and the stage is run again."""
        stage = self._any(draw)
        journal, expected = self._journal(stage), self.world.after(stage)
        cut = draw.choice((len(journal), draw.randrange(len(journal) + 1)))
        disk = Disk(self.world.before(stage), journal[:cut])
        found = disk.after_cut(draw, draw.choice((0, 0.2, 0.5, 0.8, 1)))
        lost = [name for name, content in expected.items() if found.get(name) != content]
        if cut == len(journal) and lost:
            return f"lost after success: {stage.name}: {lost[0]}"
        put(self.folder, found)
        return self._again(stage, "continued")

    def refused_call(self, draw: random.Random, number: int) -> str:
        """The system refuses one of the calls."""
        stage, call = self._point(number)
        error = draw.choice(REFUSALS)
        self._put(stage, draw)
        return self._judged(stage, run(stage, self.folder, lambda: arm(self.folder, call, error)))

    def full_disk(self, draw: random.Random, number: int) -> str:
        """On a disk, which is mounted on the folder around, that has from none to more than all of
        the room, in 20 sizes for each stage."""
        disk = self.folder.parent
        resize(disk, PLENTY)
        names = list(self.world.stages)
        turn, size = divmod(number, 20)
        stage = self.world.stages[names[turn * 5 % len(names)]]  # from all over the graph
        pages = sum(-(-len(content) // PAGE) for content in self.world.after(stage).values())
        self._put(stage, draw)
        used = os.statvfs(disk)
        taken = used.f_blocks - used.f_bfree
        resize(disk, max(taken + size * (2 * pages + 8) // 19, 1) * PAGE)
        ended = run(stage, self.folder)
        resize(disk, PLENTY)
        return self._judged(stage, ended)

    def pair(self, draw: random.Random, number: int) -> str:
        """Two runs of one stage, the second begun at any moment of the first."""
        stage = self._any(draw)
        self._put(stage, draw)
        first = start(stage, self.folder)
        waits = draw.choice((0.0, draw.random() * self.world.seconds[stage.name]))
        other = start(stage, self.folder, lambda: time.sleep(waits))
        ended = [Ended(*first.end()), Ended(*other.end())]
        for one in ended:
            busy = BUSY in one.said
            if one.code and not (one.is_refusal and busy):
                return f"{stage.name}: {one.fault}"
        if all(one.code for one in ended):
            return f"both refused: {stage.name}"
        word = "told to wait" if any(one.code for one in ended) else "both ended"
        return self._again(stage, word)

    def exchanged(self, draw: random.Random, number: int) -> str:
        """One of the files that a stage reads is another one of the run."""

        def other(name: str, content: bytes) -> bytes:
            everything = self.world.everything()
            alike = [
                own
                for n, own in sorted(everything.items())
                if n.endswith(Path(name).suffix) and _knows_itself(n)
            ]
            return draw.choice([own for own in alike if own != content])

        return self._given(draw, _knows_itself, other)

    def flipped(self, draw: random.Random, number: int) -> str:
        """One of the files that a stage reads has a flipped bit."""

        def flip(name: str, content: bytes) -> bytes:
            place = draw.randrange(len(content))
            flipped = bytes((content[place] ^ 1 << draw.randrange(8),))
            return content[:place] + flipped + content[place + 1 :]

        return self._given(draw, _is_made, flip)

    def cut(self, draw: random.Random, number: int) -> str:
        """One of the files that a stage reads lost its end."""
        return self._given(
            draw, _is_made, lambda name, content: content[: draw.randrange(len(content))]
        )

    def _given(
        self,
        draw: random.Random,
        fits: Callable[[str], bool],
        change: Callable[[str, bytes], bytes],
    ) -> str:
        """What a stage makes of one of its files, of a fitting name, that was changed."""
        self.world.everything()  # first, or what there is to draw from would grow
        inputs = {
            stage: names
            for stage in self.world.stages.values()
            if (
                names := [
                    n for n, own in sorted(self.world.before(stage).items()) if own and fits(n)
                ]
            )
        }
        stage = draw.choice(list(inputs))
        name, files = draw.choice(inputs[stage]), self.world.before(stage)
        put(self.folder, files | {name: change(name, files[name])})
        ended = run(stage, self.folder)
        if ended.code:
            return "refused" if ended.is_refusal else f"{stage.name}: {ended.fault}"
        found = outputs_of(stage, files_of(self.folder))
        same = _without_digests(found) == _without_digests(self.world.after(stage))
        return "unchanged" if same else f"silent: {stage.name}: {name}"

    def _judged(self, stage: Stage, ended: Ended) -> str:
        """Whether every file is the old one or the new one, and the same command then ends."""
        expected, found = self.world.after(stage), files_of(self.folder)
        for name, content in expected.items():
            there = found.get(name)
            partly = name not in stage.outputs and (there is None or ended.code == -9)
            is_whole = there in (content, OLD) or (there is None and ended.code != 0)
            if not is_whole and not partly:
                return f"damaged: {stage.name}: {name}"
        if ended.code == 0 and outputs_of(stage, found) != expected:
            return f"other bytes: {stage.name}"
        if ended.code not in (0, -9) and not ended.is_refusal:
            return f"{stage.name}: {ended.fault}"
        word = {0: "whole", -9: "continued"}.get(ended.code, "refused")
        return self._again(stage, word)

    def _again(self, stage: Stage, word: str) -> str:
        """`word` if the command ends with the same bytes now, and leaves nothing else."""
        ended = run(stage, self.folder)
        if ended.code:
            return f"not continued: {stage.name}: {ended.fault}"
        found, expected = files_of(self.folder), self.world.before(stage) | self.world.after(stage)
        for name in sorted(found.keys() | expected.keys()):
            if found.get(name) != expected.get(name):
                kind = "left over" if name not in expected else "other bytes"
                return f"{kind}: {stage.name}: {name}"
        return word

    def _put(self, stage: Stage, draw: random.Random) -> None:
        """What a stage reads and, in half of the cases, outputs of an earlier run."""
        old = dict.fromkeys(self.world.after(stage), OLD) if draw.random() < 0.5 else {}
        put(self.folder, self.world.before(stage) | old)

    def _any(self, draw: random.Random) -> Stage:
        return draw.choice(list(self.world.stages.values()))

    def _point(self, number: int) -> tuple[Stage, int]:
        """A stage and one of its calls; the numbers from 0 on take every call of every stage."""
        if not self._points:
            for stage in self.world.stages.values():
                calls = len(self._journal(stage))
                self._points += [(stage.name, call) for call in range(1, calls + 1)]
            random.Random(0).shuffle(self._points)
        name, call = self._points[number % len(self._points)]
        return self.world.stages[name], call

    def _journal(self, stage: Stage) -> list[Call]:
        """The calls of a stage. Whatever they leave out would be missing when they are done
        again."""
        if stage.name not in self._journals:
            before, after = self.world.before(stage), self.world.after(stage)
            put(self.folder, before)
            journal = self.folder.with_name("journal")
            done = run(stage, self.folder, lambda: arm(self.folder, journal=journal))
            assert done.code == 0, (stage.name, done.said)
            calls = read_journal(journal)
            found = Disk(before, calls).after_cut(random.Random(0), 1)
            lost = [name for name, content in after.items() if found.get(name) != content]
            assert not lost, f"{stage.name} wrote {lost} past the calls that are counted"
            self._journals[stage.name] = calls
        return self._journals[stage.name]


def _without_digests(files: Files) -> Files:
    """Files whose digests, of SHA-256 or MD5, do not count: outputs record those of what was read,
    in which a bit may change that no value comes from."""
    digest = rb"[0-9a-f]{32}(?:[0-9a-f]{32})?"
    return {name: re.sub(digest, b"", content) for name, content in files.items()}


def _is_made(name: str) -> bool:
    """Whether a stage wrote a file that others read; of the images one is enough."""
    folders = ("metrics", "data/corpus/", "data/vocabulary", "data/phrases", "data/features")
    folders += ("data/checkpoints", "data/scores", "data/ranks", "data/phrase_ranks")
    folders += ("data/attention", "data/curves")
    is_picture = name.startswith("data/corpus/images/")
    return name == PICTURE or (name.startswith(folders) and not is_picture)


def _knows_itself(name: str) -> bool:
    """Whether a stage wrote a file that knows what it is; a curve does not know its model."""
    return Path(name).suffix in (".h5", ".safetensors", ".parquet") or name.startswith("metrics/")
