"""The commands of `vse`, one file each: `export_model.py` is `vse export model`.

A file has a docstring, whose first line `vse --help` shows, a constant GROUP, the title it stands
under there, and the command `main`. It is imported only when run: all would load every library.
"""

import re
from importlib import import_module
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from stages import HELP_OPTIONS  # stages fixes the kernels, before a command loads numpy

FOLDER = Path(__file__).parent
GROUPS = (
    "run",
    "look",
    "compare",
    "bring in",
    "take out",
    "settings",
)  # in the order of `vse --help`
# First words that several commands share, with the help of `vse WORD --help`.
FIRST_WORDS = {
    "claims": "Test what the papers claim: what lacks, run it, judge.",
    "export": "Write what the pipeline has made in a form for other programs.",
    "import": "Bring in what other programs have made.",
}


def files() -> dict[str, Path]:
    """The file of every command by its name, `export image-network` of export_image_network.py."""
    first = re.compile(f"({'|'.join(FIRST_WORDS)})_")
    by_stem = {file.stem: file for file in sorted(FOLDER.glob("[!_]*.py"))}
    return {first.sub(r"\1 ", stem, 1).replace("_", "-"): file for stem, file in by_stem.items()}


def group_and_line(file: Path) -> tuple[str, str]:
    """GROUP and the first line of the docstring of a command's file, read without importing it."""
    text = file.read_text(encoding="utf-8")
    (group,) = re.findall(r'^GROUP = "(.*)"$', text, re.M)
    return group, text.splitlines()[0].strip('"')


@click.pass_context
def show_help(context: click.Context) -> None:
    """Print the help where no command is given."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


class Commands(click.Group):
    """The commands whose names begin with one word, or all.

    Args:
        first: the word; "" for all.
        text: the help.
        settings: of click.Group.
    """

    def __init__(self, first: str, text: str, **settings: Any) -> None:
        super().__init__(
            name=first or "vse",
            help=text,
            callback=show_help,
            invoke_without_command=True,
            context_settings=HELP_OPTIONS,
            **settings,
        )
        self.prefix = f"{first} " if first else ""
        self.commands = dict.fromkeys(self.names(), click.Command(""))  # click suggests the nearest

    def names(self) -> list[str]:
        """The names of the commands without the word that they share."""
        return [name.removeprefix(self.prefix) for name in files() if name.startswith(self.prefix)]

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({name.split()[0] for name in self.names()})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if not self.prefix and cmd_name in FIRST_WORDS:
            return Commands(cmd_name, FIRST_WORDS[cmd_name])
        file = files().get(self.prefix + cmd_name)
        if file is None:
            return None
        command: click.Command = import_module(f"{__name__}.{file.stem}").main
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """A line for each command, under the title of its group."""
        by_name = files()
        rows = [(name, *group_and_line(by_name[self.prefix + name])) for name in self.names()]
        for title in GROUPS:
            lines = [(name, line) for name, group, line in rows if group == title]
            if lines:
                with formatter.section(title.capitalize()):
                    formatter.write_dl(lines)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The words that begin so; click would import every command for its help."""
        words = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        options = click.Command.shell_complete(self, ctx, incomplete)
        return [*map(CompletionItem, words), *options]


vse = Commands(
    "",
    "Look at, compare and take out what the pipeline has made; from the repository's root.",
    epilog="`dvc repro` runs the pipeline; its programs are `python -m stages.NAME`.",
)
click.version_option(package_name="vse-workbench")(vse)
