"""A clone of the repository in which commands are run as a user would."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Two plain objects of one size a scene: what six models can learn from 200 images in seconds.
PLAIN_WORLD = {
    "objects": [2, 2],
    "counts": ["two"],
    "sizes": {"large": {"radius": [0.18, 0.22], "words": ["large", "big"]}},
    "textures": {"plain": {"pattern": "none", "weight": 1, "words": ["plain"]}},
}


class Clone:
    """Copies of the files that git knows, in a folder with a DVC cache of its own; or a copy of
    another clone with all that is in it."""

    def __init__(self, folder: Path, another: Path | None = None) -> None:
        self.folder = folder
        self.path = [str(Path(sys.executable).parent), os.environ["PATH"]]
        if another is not None:
            shutil.copytree(another, folder, symlinks=True)
            return
        listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(listed, cwd=ROOT, check=True, capture_output=True, text=True).stdout
        for name in filter(None, names.split("\0")):
            if (ROOT / name).is_file() or (ROOT / name).is_symlink():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, folder / name, follow_symlinks=False)

    def run(self, *command: str, check: bool = True) -> str:
        """What a command printed, which must succeed, or fail where `check` is False."""
        environment = {"PATH": os.pathsep.join(self.path), "DVC_NO_ANALYTICS": "1"}
        process = subprocess.run(
            command,
            cwd=self.folder,
            env=os.environ | environment | {"PYTHONPATH": str(self.folder)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert (process.returncode == 0) == check, process.stdout
        return process.stdout

    def commit(self, message: str) -> None:
        if not (self.folder / ".git").exists():
            self.run("git", "init", "--quiet", "--initial-branch=main")
            self.run("git", "config", "user.email", "test@example.org")
            self.run("git", "config", "user.name", "test")
        self.run("git", "add", "--all")
        self.run("git", "commit", "--quiet", "--message", message)
