"""What all commands share: a decorator that turns errors into plain lines."""

import functools
import inspect
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from pipeline.runtime.code import MEMORY, check_loaded, is_program
from pipeline.runtime.disk import explained
from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.runtime.kernels import notes
from pipeline.runtime.lock import alone
from pipeline.runtime.process import keep_freed_memory, owns_work, say, where
from pipeline.runtime.text import safe_lines
from stages import HELP_OPTIONS, KERNELS, NOT_USED, catch_interrupts

WORK = Path("data/.work")  # resumable work: outside DVC's outputs, which are deleted before a run
CODE = Path("data/.checks/code")  # the files of code that each stage may load
existing = click.Path(exists=True, path_type=Path)
target = click.Path(path_type=Path)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead.")
Item = TypeVar("Item")


def command(function: Callable[..., None]) -> click.Command:
    """A click command that prints a WorkbenchError as plain lines and exits with 1.

    So is what the operating system refuses. What writes results runs alone, before it reads.
    The help is the docstring; its last paragraph, where that is `Example: ...`, ends the help.
    """
    program = Path(function.__code__.co_filename).stem
    text, _, example = (inspect.getdoc(function) or "").partition("\n\nExample: ")

    @functools.wraps(function)
    def guarded(**options: Any) -> None:
        context = click.get_current_context()
        name = context.command_path if context.parent else program  # `vse export model`, or `train`
        try:
            catch_interrupts()
            keep_freed_memory()
            for line in notes(NOT_USED, KERNELS) if owns_work() else ():
                say(line)
            with alone(WORK, name, options):
                function(**options)
            if is_program(f"stages.{program}"):
                check_loaded(_list_of(program, options), MEMORY)
        except WorkbenchError as error:
            fail(str(error))
        except OSError as error:
            fail(str(explained(error)))
        except KeyboardInterrupt:
            fail("interrupted; run the same command to continue")

    versioned = click.version_option(package_name="vse-workbench")(guarded)
    epilog = f"\b\nExample: {example}" if example else None  # \b: click does not wrap it
    return click.command(help=text, epilog=epilog, context_settings=HELP_OPTIONS)(versioned)


def _list_of(program: str, options: Mapping[str, Any]) -> Path:
    """The list of code of a stage: of its item, where each has a list of its own."""
    own = CODE / f"{program}@{options.get('name')}"
    return own if own.is_file() else CODE / program


def model_inputs(function: Callable[..., None]) -> Callable[..., None]:
    """The artefacts a model may read, as options."""
    for option in (
        click.option("--classes", type=existing, help="Pseudo classes; for dual_path."),
        click.option("--network", type=existing, help="Network behind the image features."),
        click.option("--text", type=existing, required=True, help="Vocabulary or sentence file."),
        click.option("--features", type=existing, required=True, help="Features of the images."),
        click.option("--captions", type=existing, required=True, help="Captions of the corpus."),
        click.option("--images", type=existing, required=True, help="Images of the corpus."),
    ):
        function = option(function)
    return function


def model_and_inputs(function: Callable[..., None]) -> Callable[..., None]:
    """The argument MODEL and the artefacts a model may read, for the stages that run one."""
    return click.argument("name", metavar="MODEL")(model_inputs(function))


def named(section: str, items: Mapping[str, Item], name: str) -> Item:
    """An item of a section of params.yaml whose keys the user chose.

    Args:
        section: its name.
        items: what it has.
        name: of the item.

    Raises:
        WorkbenchError: no such item, naming those there are.
    """
    if name not in items:
        there = listing(items) or "none"
        raise WorkbenchError(f"{section} {name!r}: params.yaml has {there}", f"see {section} there")
    return items[name]


def fail(text: str) -> None:
    """Print an error and leave with exit code 1."""
    print(f"error{where()}: {safe_lines(text)}", file=sys.stderr, flush=True)
    sys.exit(1)
