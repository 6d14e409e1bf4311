"""Records of images that have a JSON file each: which field is the caption and which the split.

One field is the caption of all images, as one column is in a table: a record that lacks it has no
caption, whatever else it says. Programs write the names of files into such records, and no name is
a caption.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from pipeline.corpus.dataset.annotations import one_split_each
from pipeline.corpus.dataset.cells import (
    CAPTION_COLUMNS,
    CONVERSATIONS,
    SPLIT_COLUMNS,
    are_captions,
    caption_columns,
    plain_name,
    texts_of,
)
from pipeline.corpus.dataset.folder import IMAGE_ENDINGS, composed
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
from pipeline.runtime.errors import listing

CAPTION_FIELDS = (*CAPTION_COLUMNS, *CONVERSATIONS)
COMPARED = 20  # letters and digits of two names: systems cut long ones


class Splits(NamedTuple):
    """The split of every image, None for one without; the fields that say them; and lines for the
    user."""

    of_images: dict[str, str | None]
    fields: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()


@dataclass
class Records:
    """The records of images.

    caption_field: the name of the captions that somebody has chosen; None for the usual ones.
    names: of all fields, and whether each may be read. cells: by image, the fields that may.
    """

    caption_field: str | None = None
    names: dict[str, bool] = field(default_factory=dict)
    cells: dict[str, dict[str, Any]] = field(default_factory=dict)

    def add(self, image: str, value: object) -> None:
        """Keep what a record may say of an image.

        Args:
            image: its path.
            value: of its JSON file; anything but a record says nothing.
        """
        record = value if isinstance(value, Mapping) else {}
        for name in record:
            if name not in self.names:
                self.names[name] = self._may_be_read(name)
        self.cells[image] = {name: cell for name, cell in record.items() if self.names[name]}

    def caption_fields(self) -> Sequence[str]:
        """The field of the captions, or the numbered ones: the best name that has texts, most of
        them no names of files. Empty where there is none."""
        for fields in caption_columns(tuple(self.names), self._wanted):
            said = [
                (text, image)
                for image, cells in self.cells.items()
                for text in _texts(cells, fields)
            ]
            names = [text for text, image in said if _is_name_of_file(text, image)]
            if len(names) * 2 < len(said) or (said and self.caption_field is not None):
                return fields
        return []

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
        return is_split or bool(caption_columns((name,), self._wanted))

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


def is_own_name(text: str, image: str) -> bool:
    """Whether a text is the name of an image's file.

    Args:
        text: of its record, such as `What? 0.HEIC`.
        image: its path, such as `2019/What_ 0.jpg`.

    Returns:
        Whether both have the same letters and digits up to their endings or up to COMPARED, as far
        as the text is a name: it ends as those of images do, or is one word with a digit.
    """
    file = _letters(_without_ending(image.rpartition("/")[2]))
    if _ends_as_image(text):
        name = _letters(_without_ending(text))
        return name == file or (file[COMPARED:] != "" and name[:COMPARED] == file[:COMPARED])
    is_word = len(text.split()) == 1 and any(map(str.isdigit, text))
    return is_word and file in (_letters(text), _letters(_without_ending(text)))


def _is_name_of_file(text: str, image: str) -> bool:
    """Whether a text is the name of an image's file, or of any other one."""
    return _ends_as_image(text) or is_own_name(text, image)


def _ends_as_image(text: str) -> bool:
    return text.strip().lower().endswith(IMAGE_ENDINGS)


def _without_ending(name: str) -> str:
    return name.rpartition(".")[0] or name


def _letters(name: str) -> str:
    """The letters and digits of a name: systems replace other characters."""
    return "".join(filter(str.isalnum, composed(name).lower()))


def _texts(cells: Mapping[str, Any], fields: Sequence[str]) -> list[str]:
    """The texts that a record has in some fields, without blank ones."""
    texts = [text for name in fields for text in _texts_in(cells.get(name))]
    return [text for text in texts if text.strip()]


def _texts_in(cell: object) -> list[str]:
    """The texts of a value: itself, those of a list, or of records in one."""
    texts = [text for text in (cell if isinstance(cell, list) else [cell]) if isinstance(text, str)]
    if not texts and are_captions(cell):
        return [own.text for own in texts_of(cell)]
    return texts


def _word(cell: object) -> str:
    """A value as a word; "" for nothing."""
    return "" if cell is None else str(cell).strip()
