"""A `python` that runs modules in processes forked from one that has loaded the libraries.

Loading torch takes each of the graph's stages longer than a tiny world does. A forked process has
read nothing of this repository and drawn nothing: it runs the module as `python -m` would.
"""

import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

LIBRARIES = ("torch._dynamo", "torchvision", "h5py", "pandas", "pyarrow.parquet", "pydantic")
LIBRARIES += ("gensim.models", "ruamel.yaml", "safetensors.torch", "sklearn.mixture", "scipy.stats")
# Set before the server loaded the libraries; some read them again when they are first used.
KERNELS = ("OPENBLAS_CORETYPE", "MKL_CBWR", "ONEDNN_MAX_CPU_ISA", "ATEN_CPU_CAPABILITY")
GROUP = "WARM_PYTHON_GROUP"  # of the environment: the group of the process that asks
LARGEST = 1 << 20  # bytes of a request: arguments, folder and environment

CLIENT = """#!{python} -IS
import json, os, signal, socket, sys
signal.signal(signal.SIGUSR1, signal.SIG_IGN)  # for what runs the module, in the same group
with socket.socket(socket.AF_UNIX) as server:
    server.connect({address!r})
    environment = dict(os.environ) | {{{group!r}: str(os.getpgrp())}}
    request = json.dumps([sys.argv[1:], os.getcwd(), environment])
    socket.send_fds(server, [request.encode()], [0, 1, 2])
    sys.exit(int(server.recv(16) or b"1"))
"""


@contextmanager
def warm_python(folder: Path, server: Path = Path(__file__)) -> Iterator[Path]:
    """Write an executable `python` into a folder that works as long as the context is open.

    server: the program that answers it, this one or one that calls `serve`.
    """
    folder.mkdir()
    address = str(folder / "socket")
    client = folder / "python"
    client.write_text(CLIENT.format(python=sys.executable, address=address, group=GROUP))
    client.chmod(0o755)
    command = [sys.executable, str(server), address]
    from pipeline.runtime.kernels import fix_kernels  # not in the server, which this file is, too

    environment = dict(os.environ)
    fix_kernels(environment)  # a stage does so before it loads what the server has loaded already
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout.readline() == b"ready\n"
        try:
            yield folder
        finally:
            process.terminate()


Run = Callable[[list[str], str, dict[str, str], list[int]], int]


def serve(address: str, run_module: Run | None = None) -> None:
    """Answer requests, each in a child of its own, until terminated; they may make others.

    run_module: what runs a module; None: `run`.
    """
    sys.executable = str(Path(address).with_name("python"))
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # children are not waited for
    for name in LIBRARIES:
        importlib.import_module(name)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        print("ready", flush=True)
        while True:
            connection, _ = listener.accept()
            with connection:
                if os.fork() == 0:
                    listener.close()
                    answer(connection, run_module or run)
                    os._exit(0)


def answer(connection: socket.socket, run_module: Run) -> None:
    """Run what one request asks for, in a child that may be killed, and send its exit code."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    request, files, *_ = socket.recv_fds(connection, LARGEST, 3)
    pid = os.fork()
    if pid == 0:
        connection.close()
        os._exit(run_module(*json.loads(request), files))
    for file in files:
        os.close(file)
    ready, _, _ = select.select([connection, os.pidfd_open(pid)], [], [])
    if connection in ready:  # who asked was killed, and what it runs with it
        os.kill(pid, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    with suppress(BrokenPipeError):
        connection.send(str(abs(status)).encode())


def run(arguments: list[str], folder: str, environment: dict[str, str], files: list[int]) -> int:
    """The exit code of `python -m <module> ...`, in this process."""
    for target, file in enumerate(files):
        os.dup2(file, target)
    os.chdir(folder)
    kernels = {name: os.environ[name] for name in KERNELS if name in os.environ}
    os.environ.clear()
    os.environ.update(environment | kernels)
    option, module, *rest = arguments
    assert option == "-m", arguments
    sys.argv, sys.path[0] = [module, *rest], folder
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        return 1
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal, meant for the tests
    serve(sys.argv[1])
