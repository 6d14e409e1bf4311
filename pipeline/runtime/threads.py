"""How long a thread that has nothing to do keeps its processor.

The threads of a parallel operation wait for each other at its end, and for the next one. By default
they wait actively, for milliseconds: the processor counts, and nothing else can use it. Alone on a
machine that saves some waking up. Beside other work it is ruinous: the thread that is waited for
does not get the processor that the other one burns. So threads here wait actively for some
microseconds and then sleep. This changes no result.
"""

from collections.abc import MutableMapping

# Read by the libraries when they are loaded. GNU's OpenMP, which torch's operators, MKL and oneDNN
# use: rounds of its waiting loop. Intel's OpenMP: milliseconds. OpenBLAS: 2 to this power of the
# processor's cycles. Measured in docs/benchmarks.md.
WAITING = {
    "GOMP_SPINCOUNT": "2000",
    "KMP_BLOCKTIME": "0",
    "OPENBLAS_THREAD_TIMEOUT": "16",
}


def shorten_waiting(environment: MutableMapping[str, str]) -> None:
    """Let waiting threads sleep soon, before the libraries are loaded, whatever the shell says."""
    environment.update(WAITING)
