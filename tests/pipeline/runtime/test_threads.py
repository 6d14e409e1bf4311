"""Threads that wait: what the libraries are told, whatever the shell says."""

import os
import subprocess
import sys

from corpora import ROOT

from pipeline.runtime.threads import WAITING, shorten_waiting


def test_the_shell_does_not_decide():
    environment = {"GOMP_SPINCOUNT": "INFINITE", "HOME": "/root"}
    shorten_waiting(environment)
    assert environment == {"HOME": "/root", **WAITING}


def test_the_library_that_torch_loads_has_read_it():
    shown = subprocess.run(
        [sys.executable, "-c", "import stages, torch"],
        cwd=ROOT,
        env=os.environ | {"OMP_DISPLAY_ENV": "VERBOSE", "OMP_WAIT_POLICY": "ACTIVE"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"GOMP_SPINCOUNT = '{WAITING['GOMP_SPINCOUNT']}'" in shown.stderr
