"""`python -m stages`: all commands with a line each, `NAME` runs one; installed as `workbench`.

A command is imported when it is run or asked for its options, and not to be listed: that would load
every library there is.
"""

import ast
import importlib
from pathlib import Path

import click

FOLDER = Path(__file__).parent
NO_COMMANDS = ("__init__", "__main__", "common", "params", "registries")


class Stages(click.Group):
    """The commands of this folder, by the names of their files."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Their names, sorted."""
        return sorted(file.stem for file in FOLDER.glob("*.py") if file.stem not in NO_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of a name, None when there is none."""
        if cmd_name not in self.list_commands(ctx):
            return None
        found: click.Command = importlib.import_module(f"stages.{cmd_name}").main
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """A line each: the first line of the file's docstring."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line_of(name)) for name in self.list_commands(ctx)])


def line_of(name: str) -> str:
    """What a command does, in a line, read without importing it."""
    text = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    return (ast.get_docstring(ast.parse(text)) or "").splitlines()[0]


@click.group(cls=Stages, invoke_without_command=True)
@click.version_option(package_name="vse-workbench")
@click.pass_context
def main(context: click.Context) -> None:
    """Run one command of VSE Workbench, from the repository's root."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


if __name__ == "__main__":
    main(prog_name="python -m stages")
