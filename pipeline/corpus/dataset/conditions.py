"""corpus.rows: conditions of rows, as `lang=en,status=approved`.

Each is a column or field and a value; rows have to meet all of them. Of several values of one
column a row has any: `lang=en,lang=de`. A column without a value, `deleted_at=`, is an empty cell.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from pipeline.corpus.dataset import READERS
from pipeline.corpus.dataset.cells import NOTHING, plain_name
from pipeline.runtime.errors import WorkbenchError, counted, listing

EXAMPLE = "lang=en, or lang=en,status=approved"
SHOWN = 8  # values of a column in a message


def require_rows(dataset: str, rows: str | None) -> None:
    """Refuse corpus.rows for a reader whose files have no rows with columns or fields.

    Args:
        dataset: the reader's name.
        rows: corpus.rows.

    Raises:
        WorkbenchError: names the reader, and those that have rows.
    """
    if rows is not None and not READERS.constant(dataset, "HAS_ROWS", False):
        having = (name for name in READERS if READERS.constant(name, "HAS_ROWS", False))
        raise WorkbenchError(
            f"corpus.rows = {rows!r}: what {dataset} reads has no rows with columns",
            f"set corpus.rows: null; readers of rows are {listing(having, 20)}",
        )


@dataclass(frozen=True)
class Conditions:
    """What rows have to say. text: as corpus.rows has it, "" for no conditions. values: by the
    plain name of a column, those of which its cell has one, in lower case."""

    text: str
    values: Mapping[str, frozenset[str]]

    @classmethod
    def of(cls, text: str | None) -> "Conditions":
        """The conditions of a setting.

        Args:
            text: corpus.rows; None for no conditions.

        Returns:
            The conditions.

        Raises:
            WorkbenchError: a part without `=`, or without a name before it.
        """
        values: dict[str, set[str]] = {}
        for part in (text or "").split(",") if text is not None else ():
            name, sign, value = part.partition("=")
            if not sign or not name.strip():
                raise WorkbenchError(
                    f"corpus.rows = {text!r}: {part.strip()!r} is no column, = and a value",
                    f"write it as {EXAMPLE}",
                )
            values.setdefault(plain_name(name), set()).add(value.strip().lower())
        return cls(text or "", {name: frozenset(own) for name, own in values.items()})

    def __bool__(self) -> bool:
        return bool(self.values)

    def have(self, name: str) -> bool:
        """Whether a column or field is asked about.

        Args:
            name: as its file writes it.
        """
        return plain_name(name) in self.values

    def check_names(self, place: str, names: Iterable[str]) -> None:
        """Refuse conditions on a column or field that is not there.

        Args:
            place: the files, for the message.
            names: those that are there.

        Raises:
            WorkbenchError: names the ones that are missing, and those that are there.
        """
        there = list(dict.fromkeys(names))
        missing = self.values.keys() - set(map(plain_name, there))
        if missing:
            raise WorkbenchError(
                f"{place}: corpus.rows = {self.text!r}: no column or field "
                f"{listing(sorted(missing))}; there are {listing(there, 20) or 'none'}",
                "name one of these, or set corpus.rows: null",
            )

    def check_values(self, place: str, found: Mapping[str, Mapping[str, int]]) -> None:
        """Refuse values that no row has.

        Args:
            place: the files, for the message.
            found: by the plain name of a column, how many rows have each of its values.

        Raises:
            WorkbenchError: names the value, and those that are there.
        """
        for name, values in self.values.items():
            own = found.get(name, {})
            missing = values - {value.lower() for value in own}
            if missing:
                shown = listing(map(repr, sorted(missing)))
                raise WorkbenchError(
                    f"{place}: corpus.rows = {self.text!r}: no row has {name} = {shown}; there "
                    f"{'are' if len(own) > 1 else 'is'} {counted_values(own)}",
                    "name one of these values",
                )

    def hold(self, cells: Mapping[str, str]) -> bool:
        """Whether a row meets all conditions.

        Args:
            cells: by plain names, as texts, at least those that are asked about.
        """
        return all(cells[name].lower() in values for name, values in self.values.items())

    def with_value(self, name: str, value: str) -> str:
        """The setting with one more condition, for messages.

        Args:
            name: of a column or field.
            value: its value.

        Returns:
            What corpus.rows would be.
        """
        own = f"{name}={value}"
        return f"{self.text},{own}" if self.text else own

    def left_out(self, number: int) -> tuple[str, ...]:
        """A line about the rows that were left out, none without conditions.

        Args:
            number: of these rows.
        """
        if not self:
            return ()
        return (f"left out: {counted(number, 'row')}, for corpus.rows keeps {self.text}",)


def counted_values(values: Mapping[str, int]) -> str:
    """Values with the numbers of their rows, as `en (12), de (12)`.

    Args:
        values: how many rows have each.
    """
    most = Counter(values).most_common()
    return listing([f"{value or 'nothing'} ({number:,})" for value, number in most], SHOWN)


def cell_text(value: object) -> str:
    """What a cell or a field says, as conditions compare it.

    Args:
        value: of a table, of JSON or of parquet.

    Returns:
        A text; true or false for a flag, "" for nothing.
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    text = str(value).strip()
    return "" if text in NOTHING else text


def cell_texts(values: Iterable[object]) -> Sequence[str]:
    """What the cells of a column say.

    Args:
        values: as `cell_text` takes them.

    Returns:
        A text of each.
    """
    return [cell_text(value) for value in values]
