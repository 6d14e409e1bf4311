"""The colours of models: the same in every chart of the page and of `dvc plots`."""

from collections.abc import Sequence

# on white; style.css has the same as --series-0 and so on, and others for dark pages
COLOURS = (
    "#1f6fb2",
    "#c4610a",
    "#7d4bb8",
    "#0f8585",
    "#b83a78",
    "#6f6a12",
    "#5b6470",
    "#23262b",
    "#3a7d2c",
)


def numbers_of(known: Sequence[str], names: Sequence[str] = ()) -> dict[str, int]:
    """The number of each model, which decides its colour everywhere.

    Args:
        known: all that dvc.yaml evaluates, in its order.
        names: those that are shown; what is not known comes last.

    Returns:
        Numbers from 0 by name.
    """
    return {name: number for number, name in enumerate(dict.fromkeys([*known, *names]))}


def shade(number: int) -> str:
    """The colour of a model as CSS; no two are equal, later ones are paler."""
    turn, index = divmod(number, len(COLOURS))
    return COLOURS[index] + (f"{max(0x40, 0xFF - 0x50 * turn - turn):02x}" if turn else "")
