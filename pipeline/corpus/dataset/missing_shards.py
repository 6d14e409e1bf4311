"""Shards that are not there: others count or number them, or a file beside them names them."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence

from pipeline.corpus.dataset.folder import Folder
from pipeline.corpus.dataset.recognise import few_files, head
from pipeline.runtime.errors import counted, listing

# A shard that says how many there are.
_ONE_OF = re.compile(r"(?P<name>.*)-(?P<number>\d{5})-of-(?P<all>\d{5})(?:[-.].*)?")
_LAST_NUMBER = re.compile(r"(?P<before>.*?)(?P<number>\d+)(?P<behind>\D*)", re.DOTALL)
_STATS = "_stats.json"  # which img2dataset writes for every shard
MOST_NUMBERS = 100_000  # between the first shard and the last; more are dates or ids


def missing_shards(
    folder: Folder, names: Sequence[str], ending: str, are_chosen: bool
) -> tuple[str, ...]:
    """A line about shards that are not there, none where all are, or nothing tells.

    Args:
        folder: the files of the user's folder.
        names: the shards that are read, as paths inside it without their ending.
        ending: of their files.
        are_chosen: whether the user named these: others are then not missed.

    Returns:
        The line: a part of a dataset is often downloaded, and is read as it is.
    """
    found = [*_counted(names)]
    if not are_chosen:
        found += [*_between(names), *_named(folder, names, ending)]
    missing = [*dict.fromkeys(found)]
    if not missing:
        return ()
    shown = f"{counted(len(missing), 'shard')}: {listing(missing, 3)}"
    return (f"not there: {shown}; those that are there are read",)


def _counted(names: Collection[str]) -> Iterator[str]:
    """Shards that the names of others count: `train-00000-of-00003`."""
    counted_in: dict[tuple[str, str], set[int]] = defaultdict(set)
    for match in filter(None, map(_ONE_OF.fullmatch, names)):
        counted_in[match["name"], match["all"]].add(int(match["number"]))
    for (name, total), there in counted_in.items():
        for number in range(int(total)):
            if number not in there:
                yield f"{name}-{number:0{len(total)}}-of-{total}"


def _between(names: Collection[str]) -> Iterator[str]:
    """Shards whose numbers lie between those of others: `00001` of `00000` and `00002`."""
    numbers: dict[tuple[str, str, int], set[int]] = defaultdict(set)
    for name in names:
        match = _LAST_NUMBER.fullmatch(name)
        if match is not None and not _ONE_OF.fullmatch(name):
            width = len(match["number"])
            numbers[match["before"], match["behind"], width].add(int(match["number"]))
    for (before, behind, width), there in numbers.items():
        first = min(there)
        is_counter = first < max(2, 10 ** (width - 1))  # 2019 and 2021 are years
        if is_counter and max(there) - first < MOST_NUMBERS:
            for number in range(first, max(there)):
                if number not in there:
                    yield f"{before}{number:0{width}}{behind}"


def _named(folder: Folder, names: Collection[str], ending: str) -> Iterator[str]:
    """Shards that JSON beside others names, such as sizes.json, `_info.json` and an index, or that
    have a file of numbers about them."""
    places = {name.rpartition("/")[0] for name in names}
    there = {name.rpartition("/")[2] for name in names}
    of_shard = re.compile(rf'"(?:[^"\n]*/)?([^"/\n]+){re.escape(ending)}"')
    for file in few_files(folder, "*.json"):
        place, _, name = file.rpartition("/")
        if place not in places and not any(own.startswith(f"{place}/") for own in places):
            continue
        if name.endswith(_STATS):
            said = [name.removesuffix(_STATS)]
        else:
            said = of_shard.findall(head(folder, file))
        for own in said:
            if own not in there:
                yield f"{place}/{own}".lstrip("/")
