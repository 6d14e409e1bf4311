"""`python -m vse_workbench`, installed as `vse`: what people call.

At the top only the standard library is imported: a Python without the libraries gets one line.
"""

import sys
from importlib.util import find_spec

LIBRARIES = ("click", "torch")  # where these two are installed, the others are, too


def main() -> None:
    """Run `vse`, or say how to activate the environment."""
    missing = [name for name in LIBRARIES if find_spec(name) is None]
    if missing:
        print(
            f"error: {missing[0]} is not installed for this Python: run `make install` once, then "
            "`source .venv/bin/activate` in every shell",
            file=sys.stderr,
        )
        sys.exit(1)
    from stages import leave_on_interrupt

    leave_on_interrupt()
    from vse_workbench.commands import vse

    vse(prog_name="vse")


def workbench() -> None:
    """Run `vse` by its old name, which goes with the next version."""
    print("workbench is called vse now", file=sys.stderr)
    main()


if __name__ == "__main__":
    main()
