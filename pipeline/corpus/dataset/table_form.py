"""What a table of captions is like: its separator, and which columns are the image, the captions
and the split.

Its first line names the columns (cells.py), or the lines themselves are of a known form:
`name.jpg#0<TAB>text`, as Flickr8k and Flickr30k were published, an image's file and a caption, or
columns of which the cells say what they are.
"""

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from itertools import islice

from pipeline.corpus.dataset.asked import are_boxes, are_questions, chosen_fields
from pipeline.corpus.dataset.cells import (
    CAPTION_COLUMNS,
    IMAGE_COLUMNS,
    RARE_IMAGE_COLUMNS,
    SPLIT_COLUMNS,
    caption_columns,
    first_of,
    image_columns,
    plain_name,
)
from pipeline.corpus.dataset.folder import IMAGE_ENDINGS
from pipeline.corpus.dataset.locate import is_among
from pipeline.corpus.dataset.no_captions import what_instead
from pipeline.corpus.dataset.splits import split_named, split_of_flag, split_words

SEPARATORS = ("\t", "|", ";", ",")
NUMBER_COLUMNS = ("comment_number", "caption_number", "sentence_number")
# Of images where files are called so, as in ImageCLEF.
ID_COLUMNS = ("id", "key", "name", "uid")
# Columns of tables whose texts are of parts of images: widgets, panels, boxes.
_OF_PARTS = re.compile(r"(?:node|region|object|panel|widget|segment|bbox|box)(?:_?ids?)?")
_OF_IMAGES = re.compile(r"(?:image|img|photo|picture|pic_|foto|bild)")  # photo_id, image_number
LINES_LOOKED_AT = 100
MOST_ABOVE = 8  # lines above the names of columns
FEW_ROWS = 8  # of fewer, equal numbers of commas may be chance
LOOKED_AT = 1 << 20  # characters
SHORTEST_CUT = LOOKED_AT // 4  # of as many bytes, of which a character has up to four
LONGEST_NAME = 30  # characters of a column's name in messages
# Flickr8k.token.txt and results_20130124.token; Flickr8k-CN has the language between, and a blank.
_TOKEN_LINE = re.compile(
    r"(?P<image>[^\t\r\n]+?)#(?:[A-Za-z]+#)?(?P<number>\d{1,9})[\t ](?P<text>.*)"
)
# "1.jpg A dog runs.", "1.jpg: A dog runs.", "1.jpg -> A dog runs.": the text has a letter, and is
# no other image.
_ENDING = "|".join(map(re.escape, IMAGE_ENDINGS))
_IMAGE_AND_TEXT = re.compile(
    rf"(?P<image>[^\t\r\n]+?(?:{_ENDING}))"
    r"(?: *(?::|->|=>|=|\u2192) *| +[-\u2013\u2014] +| +)(?P<text>.*[^\W\d_].*)",
    re.IGNORECASE,
)
# "IMG_1: A dog runs.", "IMG_1 - A dog runs.", "1) A dog runs.", of images that are there.
_STEM_AND_TEXT = re.compile(
    r"(?P<image>[^\t\r\n]+?)(?: *(?::|->|=>|=|\u2192) +| +[-\u2013\u2014] +|[.)] +)"
    r"(?P<text>.*[^\W\d_].*)"
)
_IMAGE = re.compile(rf"\S+(?:{_ENDING})", re.IGNORECASE)
_IMAGE_OR_CAPTION = re.compile(rf"\S+(?:{_ENDING})(?:#\d+)?", re.IGNORECASE)
NUMBER = re.compile(r"\s*[0-9]{1,9}\s*")
_SHAPE_OF_NUMBER = "0"
_QUOTED_FIELDS = re.compile(r'("(?:[^"]|"")*"|[^",]+)(?: *, *"(?:[^"]|"")*")+')
# a field that needs its quotes: commas elsewhere are then between fields
_QUOTED_COMMA = re.compile(r'(?:^|,) *"(?:[^"]|"")*,(?:[^"]|"")*" *(?:,|$)')
SEPARATOR_LINE = re.compile(r"sep=[,;|\t]?")  # what Excel reads and writes above a header


@dataclass(frozen=True)
class Form:
    """How the lines of a table are read.

    separator: between two fields; empty where `line` matches a line and its groups are the fields.
    width: number of fields. image, split, number: the places of these columns, None for one that is
    not there. captions: the places of the columns of captions. has_header: whether the first line
    names the columns. described: the form in words, for messages. names: of the columns, "" for one
    without. above: how many lines stand above the header, but for empty ones. remarks: lines for
    the user about what of the table is no row.
    """

    separator: str
    width: int
    image: int
    captions: tuple[int, ...]
    split: int | None = None
    number: int | None = None
    has_header: bool = True
    described: str = ""
    names: tuple[str, ...] = ()
    line: re.Pattern[str] = _TOKEN_LINE
    doubt: str = ""
    above: int = 0
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Columns:
    """What columns of images and of captions are called, the best first."""

    images: tuple[str, ...] = IMAGE_COLUMNS
    captions: tuple[str, ...] = CAPTION_COLUMNS

    @classmethod
    def chosen(cls, image: str | None, caption: str | None) -> "Columns":
        """Names that somebody has chosen, else the usual ones.

        Args:
            image: corpus.image_field; None for the usual ones.
            caption: corpus.caption_field, likewise.

        Returns:
            The names.
        """
        return cls(
            images=IMAGE_COLUMNS if image is None else (plain_name(image),),
            captions=CAPTION_COLUMNS if caption is None else (plain_name(caption),),
        )


USUAL = Columns()


def find_form(text: str, columns: Columns = USUAL, there: Set[str] = frozenset()) -> Form | None:
    """How a table is to be read, from its beginning.

    Args:
        text: the first lines of a file, or all of it.
        columns: what the first line calls images and captions.
        there: the names of files without endings (`Folder.stems`): what is called so is an image,
            whether or not it has an ending.

    Returns:
        The form; None where it is no table of captions.
    """
    lines = _first_lines(text)
    if not lines:
        return None
    named = [_named_form(lines, separator, columns, there) for separator in SEPARATORS]
    forms = [form for form in named if form is not None]
    if forms:
        return max(forms, key=lambda form: form.width)
    but_last = lines[:-1] or lines  # reading names a last line that is none
    if all(_TOKEN_LINE.fullmatch(line.rstrip("\n")) for line in but_last):
        return Form(
            separator="",
            width=3,
            image=0,
            captions=(2,),
            number=1,
            has_header=False,
            described="image#number TAB text",
        )
    whole = but_last if len(text) >= SHORTEST_CUT else lines
    bare = [_bare_form(whole, separator, there) for separator in SEPARATORS]
    bare += [_spaced_form(whole, pattern, there) for pattern in (_IMAGE_AND_TEXT, _STEM_AND_TEXT)]
    return next((form for form in bare if form is not None), _below_a_title(lines, columns, there))


def _below_a_title(lines: Sequence[str], columns: Columns, there: Set[str]) -> Form | None:
    """The form of a table whose names of columns stand below a title or remarks: lines that begin
    with #, or that have one filled cell; None for others."""
    for above in range(1, min(MOST_ABOVE + 1, len(lines))):
        if not _may_be_above(lines[above - 1]):
            return None
        below = lines[above:]
        forms = (_named_form(below, separator, columns, there) for separator in SEPARATORS)
        found = [form for form in forms if form is not None]
        if found:
            return replace(max(found, key=lambda form: form.width), above=above)
    return None


def _may_be_above(line: str) -> bool:
    """Whether a line may stand above the names of columns: a remark, or one filled cell."""
    cells = max((line.strip().split(separator) for separator in SEPARATORS), key=len)
    return line.startswith("#") or sum(bool(cell.strip(' "')) for cell in cells) <= 1


def _spaced_form(lines: Sequence[str], pattern: re.Pattern[str], there: Set[str]) -> Form | None:
    """The form of lines that are an image and a text, with a blank or a colon between: its file, or
    its name without the ending, where all lines have an image that is there; None for others."""
    matches = [pattern.fullmatch(line.rstrip("\n")) for line in lines]
    pairs = [(match["image"], match["text"]) for match in matches if match is not None]
    if len(pairs) < len(lines) or any(split_named(text) for _, text in pairs):
        return None  # of an image and its split
    if pattern is _STEM_AND_TEXT and not all(is_among(image, there) for image, _ in pairs):
        return None
    texts = [text for _, text in pairs]
    if what_instead(texts) or any(all(map(_IMAGE.fullmatch, text.split())) for text in texts):
        return None
    return Form(
        separator="",
        width=2,
        image=0,
        captions=(1,),
        has_header=False,
        described="image, a blank or a colon, caption",
        line=pattern,
    )


def _first_lines(text: str) -> list[str]:
    """The first lines of a table that are not blank, its header first."""
    lines = [line for line in table_lines(text[:LOOKED_AT])[:LINES_LOOKED_AT] if line.strip()]
    return lines[1:] if lines and SEPARATOR_LINE.fullmatch(lines[0].strip()) else lines


def has_titles(form: Form) -> bool:
    """Whether a table's captions are titles, which may be no more than names.

    Args:
        form: that of the table.
    """
    return form.has_header and form.names[form.captions[0]].rpartition(":")[2] == "title"


def texts_behind_images(text: str) -> list[str]:
    """What the first lines of a table without a header have behind the name of an image's file.

    Args:
        text: the beginning of a file.

    Returns:
        The texts; empty where lines are of any other form.
    """
    lines = [line.strip() for line in _first_lines(text)]
    for separator in (*SEPARATORS, " "):
        pairs = [line.partition(separator) for line in lines]
        if pairs and all(between and _is_image(image) for image, between, _ in pairs):
            return [rest.strip() for _, _, rest in pairs]
    return []


def columns_named(text: str, there: Set[str]) -> list[str]:
    """The names of columns in the first line of a table.

    Args:
        text: the beginning of a file.
        there: as in `find_form`.

    Returns:
        The names; empty where it has one column alone, or where a name is that of an image.
    """
    lines = _first_lines(text)[:1]
    headers = [line.strip().split(separator) for line in lines for separator in SEPARATORS]
    names = max(headers, key=len, default=[])
    short = [name.strip().strip('"') for name in names]
    if any(_is_image(name) or is_among(name, there) for name in short):
        return []
    short = [f"{name[:LONGEST_NAME]}..." if name[LONGEST_NAME:] else name for name in short]
    return short if len(short) > 1 else []


def _named_form(
    lines: Sequence[str], separator: str, columns: Columns, there: Set[str]
) -> Form | None:
    """The form of a table whose first line names an image and a caption."""
    header = lines[0]
    names = [plain_name(name) for name in header.split(separator)]
    image = _place_of(names, columns.images)
    if columns.images == IMAGE_COLUMNS:
        rows = _split_lines(lines[1:], separator)
        whole = [
            row for row in rows if len(row) >= len(names)
        ]  # others end a text of several lines
        image = image_column(names, whole or rows, there)
    captions = caption_columns(tuple(names), columns.captions)
    doubt = ""
    if columns.captions == CAPTION_COLUMNS:
        rows = _split_lines(lines[1:], separator)
        captions = _of_texts(captions, names, rows)
    if columns.captions == CAPTION_COLUMNS and captions:
        chosen = chosen_fields(captions, [dict(zip(names, row, strict=False)) for row in rows])
        captions = [chosen.fields]
        doubt = chosen.doubt
    if image is None or not captions or names.count(names[image]) > 1:
        return None  # tables side by side have each column twice
    split = _place_of(names, SPLIT_COLUMNS)
    if split is None:
        split = _place_of_splits(lines[1:], separator, len(names))
    return Form(
        separator=separator,
        width=len(names),
        image=image,
        captions=tuple(place for place, name in enumerate(names) if name in captions[0]),
        split=split,
        number=_place_of(names, NUMBER_COLUMNS),
        described=repr(header.strip()[:80]),
        names=tuple(names),
        doubt=doubt,
    )


def _of_texts(
    captions: list[list[str]], names: Sequence[str], rows: Sequence[Sequence[str]]
) -> list[list[str]]:
    """The columns of captions without those of which most first cells are names of files, as
    programs write them where nobody wrote a text; all where there is no other."""
    kept = []
    for own in captions:
        places = [names.index(name) for name in own]
        cells = [row[place] for row in rows for place in places if place < len(row)]
        filled = [cell for cell in cells if cell.strip()]
        names_of_files = [cell for cell in filled if _IMAGE.fullmatch(cell.strip())]
        if 2 * len(names_of_files) <= len(filled):
            kept.append(own)
    return kept or captions


def image_column(
    names: Sequence[str], rows: Sequence[Sequence[str]], there: Set[str]
) -> int | None:
    """The column of a table that names the images, by what it is called and what its cells hold.

    Args:
        names: of the columns, as `plain_name` has them.
        rows: the fields of the first lines below the header, as the separator divides them.
        there: as in `find_form`.

    Returns:
        The place of the column that is called so. Where its cells are numbers, which may count the
        rows, or where none is called so: the column of files of images, else one of ids that files
        are called by. None where there is none, or where two could be it.
    """
    cells = [
        [row[place].strip().strip('"') if place < len(row) else "" for row in rows]
        for place in range(len(names))
    ]
    called = next(iter(image_columns(names)), None)
    if called is not None and not _are_numbers(cells[names.index(called)]):
        return names.index(called)
    found = [place for place in range(len(names)) if _are_there(cells[place], there)]
    has_parts = any(map(_OF_PARTS.fullmatch, names))
    rare = [] if has_parts else image_columns(names, RARE_IMAGE_COLUMNS)
    ids = [place for place in found if names[place] in (*ID_COLUMNS, *rare)]
    of_images = [place for place in found if _OF_IMAGES.match(names[place])]
    files = {
        name: place for place, name in enumerate(names) if all(map(_is_image, cells[place] or [""]))
    }
    if called is None and not ids and not of_images:
        only = [place for place in files.values() if place in found]
        return only[0] if len(files) == len(only) == 1 and not has_parts else None
    best = next(iter(image_columns([*files])), None)
    if best is not None:
        return files[best]
    if files:  # of two nobody knows which is meant, as image_before and image_after
        return next(iter(files.values())) if len(files) == 1 else None
    if called is not None:
        return names.index(called)
    if of_images:
        return of_images[0] if len(of_images) == 1 else None
    others = [place for place in found if place not in ids and _are_numbers(cells[place])]
    may_be_others = any(2 * len(set(cells[place])) > len(rows) for place in others)
    return None if may_be_others and _counts_rows(cells[ids[0]]) else ids[0]


def _are_numbers(cells: Sequence[str]) -> bool:
    return all(map(NUMBER.fullmatch, cells))


def _counts_rows(cells: Sequence[str]) -> bool:
    """Whether cells are numbers that count the rows, from any."""
    if not _are_numbers(cells):
        return False
    first = int(cells[0])
    return [*map(int, cells)] == [*range(first, first + len(cells))]


def _place_of_splits(lines: Sequence[str], separator: str, width: int) -> int | None:
    """The place of a column of another name whose first cells are different words for splits."""
    whole = [row for row in _split_lines(lines, separator) if len(row) == width]
    for place in range(width):
        words = {row[place] for row in whole}
        others = split_words(words, is_called=False)
        splits = {others.get(word) or split_named(word) for word in words}
        if len(splits) > 1 and None not in splits:
            return place
    return None


def _split_lines(lines: Sequence[str], separator: str) -> list[list[str]]:
    """The fields of lines, each a row of its own; a quote that is not closed in it is a letter."""
    rows: list[list[str]] = []
    for line in lines:
        if line.count('"') % 2 == 0:
            rows += csv.reader([line], delimiter=separator, skipinitialspace=True)
        else:
            rows.append(line.rstrip("\n").split(separator))
    return rows


def _cells(line: str, separator: str) -> list[str]:
    """The fields of a line with the blanks before them."""
    return next(csv.reader([line.rstrip("\n")], delimiter=separator))


def _are_whole(cells: Sequence[str]) -> bool:
    """Whether the cells of a column stand alone, and are not what follows a comma of a text: some
    words without a blank before them, a split, a value with a digit (a number, a date, a file, an
    address), or nothing. A word alone is a class, where several rows have it."""
    if any(cell.startswith(" ") for cell in cells):
        return False
    words = [cell for cell in cells if not _stands_alone(cell)]
    return not words or (len(cells) >= FEW_ROWS and 2 * len(set(words)) <= len(words))


def _stands_alone(cell: str) -> bool:
    is_code = any(sign.isdigit() or sign == "_" for sign in cell)
    return not cell or is_code or " " in cell.strip() or split_named(cell) is not None


def _are_there(cells: Sequence[str], there: Set[str]) -> bool:
    """Whether the first cells of a column are names of images, most of which are there, and the
    others look like these: all of them where they are numbers, which may count the rows."""
    names = [cell.strip().strip('"') for cell in cells]
    missing = [name for name in names if not is_among(name, there)]
    if not missing or not all(names):
        return names != [] and all(names)
    found = set(names) - {*missing} - {*filter(NUMBER.fullmatch, names)}
    shapes = set(map(shape_of, found))
    lengths = set(map(len, found))  # of codes such as 1a60ec238e29
    are_alike = all(
        _SHAPE_OF_NUMBER in shape_of(name) and (shape_of(name) in shapes or len(name) in lengths)
        for name in missing
    )
    return 2 * len(missing) < len(names) and are_alike


def shape_of(name: str) -> str:
    """A name with `a` for words and `0` for numbers: equal for `ROCO_00012` and `ROCO_7`.

    Args:
        name: of an image.
    """
    return re.sub(r"\d+", _SHAPE_OF_NUMBER, re.sub(r"[^\W\d_]+", "a", name))


def columns_passed_over(
    text: str, columns: Columns = USUAL, there: Set[str] = frozenset()
) -> list[str]:
    """The columns of a table that are not read, but for those that may say splits, such as is_test.

    Args:
        text: the beginning of a file.
        columns: what the first line calls images and captions.
        there: as in `find_form`.

    Returns:
        Their names; empty for what is no table.
    """
    form = find_form(text, columns, there)
    if form is None:
        return []
    read = {form.image, form.split, form.number, *form.captions}
    others = [name for place, name in enumerate(form.names) if place not in read]
    if form.split is not None:
        return others
    return [name for name in others if split_of_flag(plain_name(name)) is None]


def _place_of(names: Sequence[str], wanted: Iterable[str]) -> int | None:
    """The place of the first of some columns that is there."""
    name = first_of(names, wanted)
    return None if name is None else names.index(name)


def _bare_form(lines: Sequence[str], separator: str, there: Set[str]) -> Form | None:
    """The form of lines without a header: an image's file, a separator, a caption; or an image that
    is there by its name without the ending, a tab, and words; or rows with a column of images."""
    pairs = [line.partition(separator) for line in lines]
    if not all(found for _, found, _ in pairs):
        return None
    rows = _split_lines(lines, separator)
    if not all(_is_image(row[0]) for row in rows):
        are_words = all("\t" not in text and _has_letter(text) for _, _, text in pairs)
        are_there = _are_there([image for image, _, _ in pairs], there)
        if separator != "\t" or not are_words or not are_there:
            return _bare_columns(rows, separator, there)
    texts = [text.strip() for _, _, text in pairs]
    if not all(texts) or 2 * sum(map(_may_be_caption, texts)) <= len(texts):
        return None
    if all(map(split_named, texts)):
        return None
    columns = _columns_of(rows, lines, separator)
    if columns:
        return _bare_columns(columns, separator, there)
    if what_instead(texts):
        return None
    described = f"image{separator}caption, without a header".replace("\t", " TAB ")
    return Form(
        separator=separator,
        width=2,
        image=0,
        captions=(1,),
        has_header=False,
        described=described,
    )


def _is_image(cell: str) -> bool:
    """Whether a cell is the name of an image's file."""
    return cell.strip().lower().endswith(IMAGE_ENDINGS)


def _columns_of(
    rows: Sequence[Sequence[str]], lines: Sequence[str], separator: str
) -> Sequence[Sequence[str]]:
    """The fields of lines that begin with an image and have more than a caption; empty where they
    have not, or where a caption that has the separator may be all that looks so.

    Args:
        rows: the fields as the separator divides them.
        lines: the same lines whole.
        separator: between two fields.
    """
    fewest = min(map(len, rows))
    if fewest < 3:
        return []
    if max(map(len, rows)) == fewest:
        are_quoted = all(_QUOTED_FIELDS.fullmatch(line.strip()) for line in lines)
        are_quoted |= any(_QUOTED_COMMA.search(line) for line in lines)
        cells = zip(*(_cells(line, separator) for line in lines), strict=True)
        are_cells = all(map(_are_whole, islice(cells, 1, None)))
        has_splits = all(split_named(row[-1]) for row in rows)
        if separator != "," or are_quoted or are_cells or has_splits:
            return rows
    if all(split_named(row[1]) or NUMBER.fullmatch(row[1]) for row in rows):
        return [[*row[:2], separator.join(row[2:])] for row in rows]
    return []


def _bare_columns(rows: Sequence[Sequence[str]], separator: str, there: Set[str]) -> Form | None:
    """The form of rows without a header: what a column is its first cells say. None where rows have
    different widths, or where no column has images, or none captions."""
    width = len(rows[0])
    if any(len(row) != width for row in rows):
        return None
    columns = [[row[place].strip() for row in rows] for place in range(width)]
    image = _place_of_images(columns, there)
    if image is None:
        return None
    others = [place for place in range(width) if place != image]
    if any(are_boxes(columns[place]) for place in others):
        return None  # the texts are of parts of images
    splits = [place for place in others if all(map(split_named, columns[place]))]
    numbers = [place for place in others if all(map(NUMBER.fullmatch, columns[place]))]
    filled = {place: [*filter(None, columns[place])] for place in others}
    texts = [
        place
        for place, cells in filled.items()
        if place not in splits and sum(map(_may_be_caption, cells)) * 2 > len(cells)
    ]
    if not texts or any(are_questions(filled[place]) for place in texts):
        return None  # of questions the other column has the answers
    # words without blanks may be anything, such as names of people: then the longest is the caption
    several = [
        place
        for place in texts
        if sum(" " in cell for cell in filled[place]) * 2 > len(filled[place])
    ]
    longest = max((_mean_words(filled[place]) for place in several), default=0.0)
    captions = [
        place
        for place in several
        if 2 * _mean_words(filled[place]) >= longest or not _are_values(filled[place])
    ]
    if not captions and not all(map(_is_image, columns[image])):
        return None  # of names without endings the rest may be anything, such as codes
    largest = max(texts, key=lambda place: sum(map(len, columns[place])))
    captions = captions or [largest]
    if what_instead([cell for place in captions for cell in filled[place]]):
        return None
    names = (f"column {place + 1}" for place in range(width))
    return Form(
        separator=separator,
        width=width,
        image=image,
        captions=tuple(captions),
        split=next(iter(splits), None),
        number=next((place for place in numbers if place > image), None),
        has_header=False,
        described=f"image and {width - 1} other columns, without a header",
        names=tuple("image" if place == image else name for place, name in enumerate(names)),
    )


def _place_of_images(columns: Sequence[Sequence[str]], there: Set[str]) -> int | None:
    """The column of names of images; where none has their endings, the one of files that are there,
    and of several the one with the most. None where two could be it, as an image and its mask."""
    files = [
        place
        for place, cells in enumerate(columns)
        if all(map(_is_image, cells)) and not any(map(_is_address, cells))
    ]
    if files:
        present = [place for place in files if _are_there(columns[place], there)]
        fitting = present or files
        return fitting[0] if len(fitting) == 1 else None
    addresses = (place for place, cells in enumerate(columns) if all(map(_is_image, cells)))
    first = next(addresses, None)
    if first is not None:
        return first
    numbers = {
        place: len(set(cells))
        for place, cells in enumerate(columns)
        if not any(map(split_named, cells)) and _are_there(cells, there)
    }
    most = [place for place, number in numbers.items() if number == max(numbers.values())]
    return most[0] if len(most) == 1 else None


def _is_address(cell: str) -> bool:
    return cell.startswith(("http://", "https://"))


def _are_values(cells: Sequence[str]) -> bool:
    """Whether texts of some words are none that describe: each has a digit, as dates and sizes
    have, or words with capitals alone, as names of people; or several rows have the same."""
    have_digits = all(any(map(str.isdigit, cell)) for cell in cells)
    are_names = all(word[0].isupper() for cell in cells for word in cell.split())
    return have_digits or are_names or 2 * len(set(cells)) <= len(cells)


def _mean_words(cells: Sequence[str]) -> float:
    return sum(len(cell.split()) for cell in cells) / len(cells)


def _has_letter(text: str) -> bool:
    return any(map(str.isalpha, text))


def _may_be_caption(cell: str) -> bool:
    """Whether a cell has letters, and is no name of an image or of a caption (`1.jpg#2`), and no
    address."""
    is_name = _IMAGE_OR_CAPTION.fullmatch(cell) is not None
    return _has_letter(cell) and not is_name and not _is_address(cell)


def table_lines(text: str) -> list[str]:
    """The lines of a text.

    Args:
        text: of any system.

    Returns:
        Its lines with `\\n` at their ends.
    """
    return io.StringIO(with_line_ends(text)).readlines()


def separated_rows(
    lines: Sequence[str], separator: str, begin_rows: Callable[[Sequence[str]], bool]
) -> Iterator[tuple[int, int, list[str] | None]]:
    """The rows of a table as RFC 4180 says: a quoted field may hold separators and line ends.

    Args:
        lines: with their ends.
        separator: between two fields.
        begin_rows: whether lines look like rows of their own. A quoted field that reaches over such
            lines was not closed where it should be.

    Yields:
        The place of a row's first line, the place behind its last, and its fields; None for a line
        with a quote that encloses no whole field or is never closed, so that it is a letter.
    """
    place = 0
    while place < len(lines):
        start = place
        following = islice(lines, start, None)
        reader = csv.reader(following, delimiter=separator, skipinitialspace=True, strict=True)
        try:
            for row in reader:
                end = start + reader.line_num
                if end - place > 1 and begin_rows(lines[place + 1 : end]):
                    raise csv.Error("a quote that is not closed in its own row")
                yield place, end, row
                place = end
        except csv.Error:
            yield place, place + 1, None
            place += 1


def with_line_ends(text: str) -> str:
    """A text with `\\n` at the ends of its lines.

    Args:
        text: of any system.
    """
    return text.replace("\r\n", "\n").replace("\r", "\n")
