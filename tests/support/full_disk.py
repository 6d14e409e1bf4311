"""Disks that are too small: a limit on the size of files, and a file system of a few kilobytes."""

import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """No file of this process grows beyond `size` bytes: a write past it fails with EFBIG."""
    before, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (before, hard))


def small_disks() -> bool:
    tried = ["unshare", "-rm", "mount", "-t", "tmpfs", "none", "/mnt"]
    try:
        return subprocess.run(tried, capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


def on_small_disk(folder: Path, module: Path) -> tuple[int, str]:
    """Exit code and output of `main(folder)` of a module, where the folder is a disk of its own."""
    script = "import runpy, sys; sys.path[:0] = ['.', 'tests/support']; "
    script += "from pathlib import Path; runpy.run_path(sys.argv[1])['main'](Path(sys.argv[2]))"
    command = 'mount -t tmpfs none "$1" && shift && exec "$@"'
    python = [sys.executable, "-c", script, str(module), str(folder)]
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", command, "sh", str(folder), *python],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    return done.returncode, done.stdout + done.stderr


def resize(folder: Path, size: int) -> None:
    """Let the disk that is mounted on a folder have `size` bytes, a multiple of a page."""
    subprocess.run(["mount", "-o", f"remount,size={size}", str(folder)], check=True)
