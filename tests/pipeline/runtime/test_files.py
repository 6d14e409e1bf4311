import hashlib
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.runtime.files import (
    atomic_path,
    fingerprint,
    sha256_file,
    source_digest,
    write_json,
    write_text,
)

ROOT = Path(__file__).resolve().parents[3]


def test_failed_write_leaves_the_old_file_and_no_litter(tmp_path):
    target = tmp_path / "table.tsv"
    write_text(target, "old")

    def stop_half_way():
        with atomic_path(target) as temporary:
            temporary.write_text("new, but only ha")
            raise RuntimeError("half way")

    with pytest.raises(RuntimeError, match="half way"):
        stop_half_way()
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_kill_during_a_write_leaves_the_old_file(tmp_path):
    target = tmp_path / "table.tsv"
    write_text(target, "old")
    code = (
        "import os, signal, sys; from pipeline.runtime.files import atomic_path\n"
        "with atomic_path(sys.argv[1]) as temporary:\n"
        "    temporary.write_text('half')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    process = subprocess.run([sys.executable, "-c", code, str(target)], cwd=ROOT)
    assert process.returncode == -signal.SIGKILL
    assert target.read_text() == "old"


def test_write_json_refuses_nan(tmp_path):
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "m.json", {"r1": float("nan")})
    assert not (tmp_path / "m.json").exists()


@given(st.dictionaries(st.text(), st.integers() | st.text() | st.lists(st.floats(0, 1))))
def test_fingerprint_depends_on_values_not_on_order(parts):
    turned = dict(reversed(list(parts.items())))
    assert fingerprint(parts=parts) == fingerprint(parts=turned)
    assert fingerprint(parts=parts) != fingerprint(parts=parts | {"\0new": 1})
    text = json.dumps({"parts": parts}, sort_keys=True)
    assert fingerprint(parts=parts) == hashlib.sha256(text.encode()).hexdigest()


def test_sha256_file(tmp_path):
    (tmp_path / "a").write_bytes(b"abc")
    assert sha256_file(tmp_path / "a") == hashlib.sha256(b"abc").hexdigest()


def test_source_digest_changes_with_the_sources_loaded():
    code = "{}; from pipeline.runtime.files import source_digest; print(source_digest())"
    outputs = [
        subprocess.run(
            [sys.executable, "-c", code.format(line)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for line in ("pass", "import pipeline.runtime.section", "import pipeline.runtime.recipes")
    ]
    assert outputs[0] == outputs[1]  # types of parameters are infrastructure
    assert outputs[0] != outputs[2]
    assert len(source_digest()) == 64
