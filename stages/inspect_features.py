"""What is in a cached HDF5 file, and whether it is what was written."""

from pathlib import Path

import click

from pipeline.inspection import describe_row, neighbours, printable, summary, verify_file
from stages.common import command


@command
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--id", "row", metavar="ID", help="Show the row of one id.")
@click.option("--neighbours", "query", metavar="ID", help="List the nearest ids by cosine.")
@click.option("--count", default=10, type=click.IntRange(min=1), help="How many neighbours.")
@click.option("--verify", is_flag=True, help="Check the SHA-256 of every dataset.")
def main(file: Path, row: str | None, query: str | None, count: int, verify: bool) -> None:
    """Show datasets, attributes, value statistics and first ids of FILE."""
    if verify:
        click.echo(f"{file}: header and {verify_file(file)} datasets match their SHA-256")
    if row is not None:
        click.echo("\n".join(describe_row(file, row)))
    if query is not None:
        for name, cosine in neighbours(file, query, count):
            click.echo(f"{cosine:8.5f}  {printable(name)}")
    if not verify and row is None and query is None:
        for line in summary(file):
            click.echo(line)


if __name__ == "__main__":
    main()
