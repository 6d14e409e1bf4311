"""The one exception a user is meant to read, in one or two lines; any other is a bug."""

import errno
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

LESS_MEMORY = (
    "free memory, or lower batch_size or workers of the stage's section, or runtime.threads "
    "(docs/scale.md, What grows)"
)
# what libraries say that raise no MemoryError: torch, CUDA, Arrow, Python's and Arrow's threads
RAN_OUT = (
    "can't allocate memory",
    "Cannot allocate memory",
    "out of memory",
    "malloc of size",
    "Failed to launch worker thread",
    "can't start new thread",
)
OUT_OF_STEP = "bring both up to date with: dvc repro"  # the hint for two files of different runs


class WorkbenchError(Exception):
    """A problem the user can mend.

    Args:
        message: what is wrong and what is allowed, without a full stop.
        hint: the way out, as one sentence or command; "" when the message says it all.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n{self.hint}" if self.hint else self.message


def other_version(path: object, found: object, read: int, hint: str) -> WorkbenchError:
    """The error for a whole file in a form that another version of the workbench writes.

    Args:
        path: of the file, with which the message begins.
        found: the version of the form that the file names.
        read: the one that is read here.
        hint: the way out.

    Returns:
        The error, to be raised.
    """
    return WorkbenchError(f"{path}: schema_version {found}; this version reads {read}", hint)


def listing(names: Iterable[object], limit: int = 10) -> str:
    """Names joined for a message.

    Args:
        names: of anything; each is shown by `str`.
        limit: how many are shown; the number of the others follows.

    Returns:
        `a, b and 3 more`; "" for no names.
    """
    items = [str(name) for name in names]
    more = f" and {len(items) - limit} more" if len(items) > limit else ""
    return ", ".join(items[:limit]) + more


def counted(number: int, noun: str, plural: str = "") -> str:
    """A number with its noun: `1 image`, `2,400 images`.

    Args:
        number: how many.
        noun: for one.
        plural: for another number, where it is more than the noun with an s.

    Returns:
        Both as text, thousands set apart.
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def first_line(error: BaseException) -> str:
    """What a library's exception says, for one line of ours; its type where it says nothing."""
    lines = str(error).strip("'\" \n").splitlines()
    return lines[0] if lines else type(error).__name__


def ran_out_of_memory(error: BaseException) -> bool:
    """Whether an exception says that the system gave no more memory, or no room for a thread."""
    if isinstance(error, MemoryError):
        return True
    if isinstance(error, OSError) and error.errno == errno.ENOMEM:
        return True
    return any(words in str(error) for words in RAN_OUT)


@contextmanager
def damage_named(place: str, hint: str = "") -> Iterator[None]:
    """Turn what a library raises for a damaged file into one plain error, in a `with` statement.

    Args:
        place: file and name of what is read, with which the message begins.
        hint: what to do about it.

    Yields:
        Once, for the body of the statement.

    Raises:
        WorkbenchError: in place of a library's error; what the system refuses stays an OSError.
    """
    try:
        yield
    except WorkbenchError:
        raise
    except Exception as error:
        # EINVAL: a part of a zip file that is said to begin before the file
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            raise
        first = " ".join(str(error).split())[:200] or type(error).__name__
        if ran_out_of_memory(error):  # or a damaged length asked for too much
            message = f"{place}: memory ran out while it was read, or it is damaged: {first}"
            raise WorkbenchError(message, LESS_MEMORY) from None
        raise WorkbenchError(f"{place}: damaged, or of another format: {first}", hint) from None
