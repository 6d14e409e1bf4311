"""What all commands share: a decorator that turns errors into plain lines."""

import functools
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any, TypeVar

import click

from models.registry import UNCALLED
from pipeline.runtime.code import SOURCES, Imports, check_listed, check_loaded
from pipeline.runtime.disk import to_workbench_error
from pipeline.runtime.edits import EDITS
from pipeline.runtime.errors import (
    LESS_MEMORY,
    WorkbenchError,
    first_line,
    ran_out_of_memory,
)
from pipeline.runtime.kernels import kernel_notes
from pipeline.runtime.lock import command_lock
from pipeline.runtime.named import check_named
from pipeline.runtime.process import Progress, keep_freed_memory, owns_work, process_note, say
from pipeline.runtime.text import safe_lines
from stages import HELP_OPTIONS, KERNELS, NOT_USED, catch_interrupts

WORK = Path("data/.work")  # resumable work: outside DVC's outputs, which are deleted before a run
CODE = Path("data/.checks/code")  # the files of code that each stage may load
NAMED = Path("data/named")  # links to the files outside that params.yaml names
DIGESTS = Path("data/.checks/named.json")  # what check_params has read of them
existing = click.Path(exists=True, path_type=Path)
target = click.Path(path_type=Path)
to_folder = click.Path(file_okay=False, path_type=Path)
model_name = click.argument("name", metavar="MODEL")
shard_rows = click.option(
    "--rows", type=int, nargs=2, help="First row and end of a shard, for --output."
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead.")
Main = TypeVar("Main", bound=Callable[..., Any])


def command(function: Callable[..., None]) -> click.Command:
    """A click command that prints WorkbenchError and OSError as plain lines and exits with 1. It
    runs alone under its name. Its help is the docstring, `Example: ...` the last paragraph."""
    program = Path(function.__code__.co_filename).stem
    text, _, example = (inspect.getdoc(function) or "").partition("\n\nExample: ")

    @functools.wraps(function)
    def guarded(**options: Any) -> None:
        context = click.get_current_context()
        name = context.command_path if context.parent else program  # `vse export model`, or `train`
        try:
            catch_interrupts()
            keep_freed_memory()
            for line in kernel_notes(NOT_USED, KERNELS) if owns_work() else ():
                say(line)
            spec = getattr(sys.modules.get("__main__"), "__spec__", None)
            is_stage = spec is not None and spec.name == f"stages.{program}"  # no `vse`, no test
            own = CODE / f"{program}@{options.get('name')}"  # where each item has a list
            listing = own if own.is_file() else CODE / program
            recorded = as_recorded(listing) if is_stage else nullcontext()
            with recorded, command_lock(WORK, name, options):
                function(**options)
        except WorkbenchError as error:
            fail(str(error))
        except OSError as error:
            fail(str(to_workbench_error(error)))
        except KeyboardInterrupt:
            fail("interrupted; run the same command to continue")
        except Exception as error:
            if not ran_out_of_memory(error):
                raise
            fail(str(WorkbenchError(f"memory ran out: {first_line(error)}", LESS_MEMORY)))

    versioned = click.version_option(package_name="vse-workbench")(guarded)
    epilog = f"\b\nExample: {example}" if example else None  # \b: click does not wrap it
    context = HELP_OPTIONS | {"show_default": True}
    return click.command(help=text, epilog=epilog, context_settings=context)(versioned)


@contextmanager
def as_recorded(listing: Path) -> Iterator[None]:
    """Run a stage on what DVC will record for it. DVC looks at params.yaml behind the stage, and
    knows code and named files by the list that check_params has written before.

    Args:
        listing: The stage's list.

    Yields:
        Nothing.

    Raises:
        WorkbenchError: Code, a named file or a key of params.yaml is another than DVC takes it for,
            or was while the stage ran.
    """
    imports = Imports()
    check_listed(listing, SOURCES, UNCALLED)
    check_named(listing, NAMED, DIGESTS)
    Progress.watches.append(EDITS.say_new)
    yield
    check_loaded(listing, SOURCES)
    check_listed(listing, SOURCES, UNCALLED, files=imports.of_present_code())
    check_named(listing, NAMED, DIGESTS)
    EDITS.check()


def paths(
    *names: str, exist: bool = False, required: bool = True, multiple: bool = False
) -> Callable[[Main], Main]:
    """Options of a command that name files or folders.

    Args:
        *names: what the options are called, without the dashes; help shows them in this order.
        exist: whether click refuses a path where nothing is.
        required: whether the command is refused without them.
        multiple: whether each may be given several times; its value is then a tuple.

    Returns:
        The decorator that adds the options to a command's function.
    """

    def decorated(function: Main) -> Main:
        kind = existing if exist else target
        for name in reversed(names):
            option = click.option(f"--{name}", type=kind, required=required, multiple=multiple)
            function = option(function)
        return function

    return decorated


def model_and_inputs(function: Main) -> Main:
    """The argument MODEL and the files a model may read, for the stages that run one."""
    optional = paths("network", "classes", "states", exist=True, required=False)(function)
    inputs = paths("images", "captions", "features", "text", exist=True)(optional)
    return model_name(inputs)


def sizes_line(sizes: Mapping[str, tuple[int, ...]]) -> str:
    """Numbers of images and captions by split, for a line."""
    parts = (f"{split} {images:,} x {captions:,}" for split, (images, captions) in sizes.items())
    return f"{', '.join(parts)} (images x captions)"


def fail(text: str) -> None:
    """Print an error and leave with exit code 1."""
    print(f"error{process_note()}: {safe_lines(text)}", file=sys.stderr, flush=True)
    sys.exit(1)
