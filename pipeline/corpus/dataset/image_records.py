"""Records of images that have a JSON file each: which field is the caption and which the split.

One field is the caption of all images, as one column is in a table: a record that lacks it has no
caption, whatever else it says. Programs write the names of files into such records, and no name is
a caption.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from pipeline.corpus.dataset.annotations import one_split_each
from pipeline.corpus.dataset.asked import BESIDE, Chosen, chosen_fields
from pipeline.corpus.dataset.cells import (
    CAPTION_COLUMNS,
    SPLIT_COLUMNS,
    are_captions,
    caption_columns,
    plain_name,
    plain_texts,
    texts_of,
)
from pipeline.corpus.dataset.conversations import CONVERSATIONS
from pipeline.corpus.dataset.counted_rows import Rows, counted_rows, may_tell
from pipeline.corpus.dataset.no_captions import is_name_of_file, is_own_name
from pipeline.corpus.dataset.splits import (
    check_other_splits,
    flags_of_splits,
    is_flagged,
    is_rest,
    split_named,
    split_of_flag,
    split_or_rest,
    split_without_flag,
)
from pipeline.corpus.params import CorpusConfig
from pipeline.runtime.errors import listing

CAPTION_FIELDS = (*CAPTION_COLUMNS, *CONVERSATIONS)


class Splits(NamedTuple):
    """The split of every image, None for one without; the fields that say them; and lines for the
    user."""

    of_images: dict[str, str | None]
    fields: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()


@dataclass
class Records:
    """The records of images.

    config: corpus.caption_field, the name of the captions that somebody has chosen, and
    corpus.rows, which records count. names: of all fields, and whether each may be read, says what
    the captions are, or tells whether its record counts. cells: by
    image, the fields that may.
    """

    config: CorpusConfig = field(default_factory=CorpusConfig)
    names: dict[str, bool] = field(default_factory=dict)
    cells: dict[str, dict[str, Any]] = field(default_factory=dict)

    def add(self, image: str, value: object) -> None:
        """Keep what a record may say of an image.

        Args:
            image: its path.
            value: of its JSON file; anything but a record, or a list of one as exiftool writes it,
                says nothing.
        """
        if isinstance(value, list) and len(value) == 1:
            value = value[0]
        record = value if isinstance(value, Mapping) else {}
        for name in record:
            if name not in self.names:
                self.names[name] = self._may_be_read(name)
        self.cells[image] = {name: cell for name, cell in record.items() if self.names[name]}

    @property
    def caption_field(self) -> str | None:
        """The name of the captions that somebody has chosen."""
        return self.config.caption_field

    def count(self, place: str, fields: Sequence[str], read: Collection[str]) -> tuple[str, ...]:
        """Leave out the records that do not count (`counted_rows`).

        Args:
            place: of the records, for messages.
            fields: those of the captions.
            read: all fields that are read.

        Returns:
            Lines for the user.

        Raises:
            WorkbenchError: as `counted_rows`.
        """
        images = list(self.cells)
        firsts = [self.captions(image, fields)[:1] for image in images]
        rows = Rows(
            images=images,
            texts=[text for texts in firsts for text in texts or [""]],
            caption=fields[0],
            cells={
                name: [cells.get(name) for cells in self.cells.values()]
                for name in self.names
                if may_tell(name, self.config)
            },
            names=self.names,
            unread=[name for name in self.names if name not in read],
        )
        counting = counted_rows(place, [rows], self.config)
        kept = dict(zip(images, counting.kept[0], strict=True))
        self.cells = {image: cells for image, cells in self.cells.items() if kept[image]}
        return counting.remarks

    def caption_fields(self) -> Chosen:
        """The field of the captions, or the numbered ones: of the names that have texts, most of
        them no names of files, the best one that does not ask. Empty where there is none; with a
        doubt where it may have none."""
        finds = []
        for fields in caption_columns(tuple(self.names), self._wanted):
            said = [
                (text, image)
                for image, cells in self.cells.items()
                for text in _texts(cells, fields)
            ]
            names = [text for text, image in said if is_name_of_file(text, image)]
            if len(names) * 2 < len(said) or (said and self.caption_field is not None):
                finds.append(fields)
        if not finds or self.caption_field is not None:
            return Chosen(finds[0] if finds else [])
        return chosen_fields(finds, [*self.cells.values()])

    def captions(self, image: str, fields: Sequence[str]) -> list[str]:
        """The captions of an image.

        Args:
            image: its path, as it was added.
            fields: those of the captions.

        Returns:
            Its texts, without its own name; empty for an image without a caption.
        """
        texts = _texts(self.cells[image], fields)
        if self.caption_field is not None:
            return texts
        return [text for text in texts if not is_own_name(text, image)]

    def split_fields(self) -> list[str]:
        """The field that says splits in words, or those that are flags of splits."""
        name = self._split_field()
        return [*self._flags()] if name is None else [name]

    def splits(self, images: Sequence[str], restval: str, place: str) -> Splits:
        """The splits that the records name, by a word or by flags such as is_test.

        Args:
            images: those that have captions, as they were added.
            restval: corpus.restval, what Karpathy's split of this name becomes.
            place: of the records, for messages.

        Returns:
            The splits.

        Raises:
            WorkbenchError: a word that may be a split miswritten, or an image in two.
        """
        name = self._split_field()
        if name is not None:
            words = {image: _word(self.cells[image].get(name)) for image in images}
            others = check_other_splits(Counter(words.values()), place)
            splits = {image: split_or_rest(word, restval) for image, word in words.items()}
            return Splits(splits, (name,), others)
        flags = self._flags()
        if not flags:
            return Splits(dict.fromkeys(images))
        rest = split_without_flag(flags.values()) or None
        named: list[tuple[str, str | None]] = []
        for image in images:
            own = self._flagged(image, flags)
            named += [(image, split) for split in own or (rest,)]
        line = f"splits: of the flags {listing(flags)}"
        return Splits(one_split_each(Path(place), named), tuple(flags), (line,))

    @property
    def _wanted(self) -> tuple[str, ...]:
        """What fields of captions are called, the best first."""
        return CAPTION_FIELDS if self.caption_field is None else (self.caption_field,)

    def _may_be_read(self, name: str) -> bool:
        """Whether a field may have captions or say a split."""
        is_split = name in SPLIT_COLUMNS or split_of_flag(plain_name(name)) is not None
        is_beside = plain_name(name) in BESIDE and self.caption_field is None
        is_read = is_split or is_beside or bool(caption_columns((name,), self._wanted))
        return is_read or may_tell(name, self.config)

    def _words(self, name: str) -> list[str]:
        """What all records have in a field, as text."""
        return [_word(cells.get(name)) for cells in self.cells.values()]

    def _split_field(self) -> str | None:
        """The field of splits: `split` always means that, others, such as `set`, where most of
        their words are splits."""
        for name in SPLIT_COLUMNS:
            words = [word for word in self._words(name) if word]
            splits = [word for word in words if split_named(word) is not None or is_rest(word)]
            if words and (name == SPLIT_COLUMNS[0] or 2 * len(splits) > len(words)):
                return name
        return None

    def _flags(self) -> dict[str, str]:
        """The split of every field that is a flag of one."""
        called = [name for name in self.names if split_of_flag(plain_name(name)) is not None]
        return flags_of_splits({name: self._words(name) for name in called})[0]

    def _flagged(self, image: str, flags: Mapping[str, str]) -> list[str]:
        """The splits whose flags an image has."""
        cells = self.cells[image]
        return [split for name, split in flags.items() if is_flagged(_word(cells.get(name)))]


def _texts(cells: Mapping[str, Any], fields: Sequence[str]) -> list[str]:
    """The texts that a record has in some fields, without blank ones."""
    texts = [text for name in fields for text in _texts_in(cells.get(name))]
    return [text for text in texts if text.strip()]


def _texts_in(cell: object) -> list[str]:
    """The texts of a value: itself, those of a list (also of one that is written as text), or of
    records in one."""
    if isinstance(cell, str):
        return plain_texts(cell)
    texts = [text for text in (cell if isinstance(cell, list) else [cell]) if isinstance(text, str)]
    if not texts and are_captions(cell):
        return [own.text for own in texts_of(cell)]
    return texts


def _word(cell: object) -> str:
    """A value as a word; "" for nothing."""
    return "" if cell is None else str(cell).strip()
