"""What the lines of texts of images are: captions, or parts of one caption.

Wrapped sentences, paragraphs, posts, reports and tags have several lines, too. Lines are captions
where all are whole sentences, or where nearly all texts have the same number of lines that are
alike; the run says so. Of all others the user says it by corpus.text_lines.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from statistics import median
from typing import NamedTuple

from pipeline.runtime.errors import WorkbenchError, counted, listing
from pipeline.runtime.text import Problems

NEARLY_ALL = 0.95
FEWEST_WORDS = 5  # of lines without a full stop that may be captions; tags and names have less
SURE_NUMBER = 4  # lines of lower case without full stops: wrapped texts have not all so many
LONGEST_EXAMPLE = 120  # characters
LONGEST_LABEL = 40  # characters before a colon
NUMBERS_OF_BOX = 4
_OTHER_FORMS = {
    "JSON": re.compile(r"\s*(?:\[\s*)?[\[{]\s*[\"']"),
    "RTF": re.compile(r"\s*\{\\rtf"),
    "HTML or XML": re.compile(r"\s*<(?:\?xml|!doctype|html|svg)\b", re.IGNORECASE),
}
_NUMBER = re.compile(r"[-+]?\d*\.?\d+(?:e[-+]?\d+)?", re.IGNORECASE)
# AUTOMATIC1111's Stable Diffusion web UI writes this below the prompt
_SETTINGS = re.compile(
    r"^[ \t]*Negative prompt:|\bNegative prompt:(?=.*\bSteps: \d+, )"
    r"|\bSteps: \d+, (?=.*\bSampler: )",
    re.MULTILINE | re.DOTALL,
)
_SCORE = re.compile(r"^\s*[-+]?\d*\.?\d+%?[ \t]*\t\s*(?=\S)|\t[ \t]*[-+]?\d*\.?\d+%?\s*$")
_COUNTED = re.compile(r"\s*[(\[]?(\d{1,3})[.:)\]]+\s+(?=\S)")
_LABEL = re.compile(r"\s*([^\W\d][\w -]*):\s")
_SENTENCE_END = re.compile(
    r"[.!?\u2026\u3002\uff01\uff1f\u0964\u061f][\"'\u201c\u201d\u2019\u00bb)\]]*$"
)
_MARKED = re.compile(r"[#@*>\u2022-]|https?:|www\.")
JOINED = "corpus.text_lines: joined"
WAY_OUT = (
    "set corpus.text_lines in params.yaml: joined (a text is one caption), each (a line is one) or "
    "first (its first line alone is)"
)


class Captions(NamedTuple):
    """The captions of every image, and lines for the user."""

    of_images: Mapping[str, Sequence[str]]
    remarks: Sequence[str]


def has_words(text: str) -> bool:
    """Whether a text may hold captions: it has a letter, and does not end with numbers of boxes."""
    return any(map(str.isalpha, text)) and not _ends_with_box(text)


def captions_of_texts(
    place: str, texts: Mapping[str, str], files: Mapping[str, str], chosen: str | None
) -> Captions:
    """The captions in the texts of images.

    Args:
        place: the user's folder, for messages.
        texts: by image.
        files: the name of every text, by image.
        chosen: corpus.text_lines: each, joined, first; None where the texts say it themselves.

    Returns:
        The captions, with remarks on what was taken for captions, and what was left out. A text
        without a word is one caption.

    Raises:
        WorkbenchError: texts in another form (JSON, RTF, numbers of boxes), or lines that may be
            captions or parts of one where `chosen` is None.
    """
    _refuse_other_forms(place, {files[image]: text for image, text in texts.items()})
    remarks: list[str] = []
    prompts = _without_settings(texts, chosen, remarks)
    lines = {image: lines_in(text) for image, text in prompts.items()}
    lines = _without_scores(lines, remarks)
    lines = _without_numbers(lines, remarks)
    if chosen is None:
        remarks += said_of_lines(place, lines, prompts, files)
    captions = {image: captions_of_lines(own, chosen) for image, own in lines.items()}
    return Captions(captions, remarks)


def captions_of_lines(lines: Sequence[str], chosen: str | None) -> list[str]:
    """The captions that the lines of a text are.

    Args:
        lines: those that are not blank.
        chosen: corpus.text_lines; None: as for each.

    Returns:
        Every line, or all as one, or the first.
    """
    if chosen == "joined":
        return [" ".join(map(str.strip, lines))]
    return [*lines[:1]] if chosen == "first" else [*lines]


def lines_in(text: str) -> list[str]:
    """The lines of a text that are not blank.

    Args:
        text: of an image.

    Returns:
        Its lines as they are; the text alone where all are blank.
    """
    return [line for line in text.split("\n") if line.strip()] or [text]


def _refuse_other_forms(place: str, texts: Mapping[str, str]) -> None:
    """Raise WorkbenchError for texts that are captions in no way of reading."""
    problems = Problems(place)
    for form, pattern in _OTHER_FORMS.items():
        found = [file for file, text in texts.items() if pattern.match(text)]
        problems.add(f"texts that hold {form}", found)
    boxes = [file for file, text in texts.items() if _ends_with_box(text)]
    problems.add("texts that hold numbers, as of boxes", boxes)
    problems.raise_if_any(
        "leave the captions alone in the texts, as plain lines, or move the texts away; records in "
        'JSON {"caption": "..."} are read from files that end in .json'
    )


def _ends_with_box(text: str) -> bool:
    """Whether the last line is numbers but for a few words, such as a detector's box and class."""
    fields = lines_in(text)[-1].replace(",", " ").split()
    numbers = sum(_NUMBER.fullmatch(field) is not None for field in fields)
    return numbers >= NUMBERS_OF_BOX and 2 * numbers > len(fields)


def _without_settings(
    texts: Mapping[str, str], chosen: str | None, remarks: list[str]
) -> dict[str, str]:
    """The texts without what a program that draws images writes below their prompt. A prompt is one
    caption where nothing else is said."""
    prompts = dict(texts)
    for image, text in texts.items():
        match = _SETTINGS.search(text)
        if match is not None:
            prompt = text[: match.start()]
            is_one = chosen is None
            prompts[image] = " ".join(map(str.strip, lines_in(prompt))) if is_one else prompt
    number = sum(prompts[image] != text for image, text in texts.items())
    if number:
        remarks.append(
            f"of {counted(number, 'text')} the prompt alone is read, not the lines from "
            "'Negative prompt:' or 'Steps:' on"
        )
    return prompts


def _without_scores(lines: dict[str, list[str]], remarks: list[str]) -> dict[str, list[str]]:
    """The lines without a number before or behind a tab, where every line has one."""
    matches = {image: [_SCORE.search(line) for line in own] for image, own in lines.items()}
    if not matches or not all(chain.from_iterable(matches.values())):
        return lines
    first = next(chain.from_iterable(lines.values()))
    remarks.append(f"not read: the number beside the tab of every line, as in {_shown([first])}")
    return {image: [_SCORE.sub("", line) for line in own] for image, own in lines.items()}


def _without_numbers(lines: dict[str, list[str]], remarks: list[str]) -> dict[str, list[str]]:
    """The lines without their numbers, where those of every text are counted from 0 or 1."""
    most = max(map(len, lines.values()), default=0)
    if most < 2 or not all(map(_are_counted, lines.values())):
        return lines
    first = next(own for own in lines.values() if len(own) == most)
    remarks.append(f"not read: the numbers that the lines begin with, as in {_shown(first)}")
    return {
        image: [_COUNTED.sub("", line, count=1) for line in own] for image, own in lines.items()
    }


def _are_counted(lines: Sequence[str]) -> bool:
    """Whether lines begin with 1, 2, 3 or 0, 1, 2."""
    matches = [_COUNTED.match(line) for line in lines]
    numbers = [int(match[1]) for match in matches if match is not None]
    return numbers in ([*range(len(lines))], [*range(1, len(lines) + 1)])


def said_of_lines(
    place: str,
    lines: Mapping[str, Sequence[str]],
    texts: Mapping[str, str],
    files: Mapping[str, str],
) -> list[str]:
    """Say what the lines of texts are taken for where the user does not say it.

    Args:
        place: the user's folder, for messages.
        lines: those of every text that are not blank, by image.
        texts: the texts, by image.
        files: their names, by image.

    Returns:
        A remark that lines are captions, or that texts of one line have the same label, if any.

    Raises:
        WorkbenchError: lines may be captions or parts of one.
    """
    several = {image: own for image, own in lines.items() if len(own) > 1}
    if not several:
        return _said_of_label([own[0] for own in lines.values()])
    odd = [image for image, own in several.items() if _is_odd(texts[image], own)]
    few = _are_few(len(odd), len(several))
    if few and not _have_shared([*several.values()]) and _are_alike([*lines.values()]):
        shown = _shown(next(iter(several.values())))
        others = f"; other lines in {listing((files[image] for image in odd), 3)}" if odd else ""
        return [f"every line of a text is a caption: {shown}; if a text is one: {JOINED}{others}"]
    image = next(iter(odd or several))
    raise WorkbenchError(
        f"{place}: texts of images have several lines ({len(several):,} of {len(lines):,}), "
        f"and it is not plain whether each is a caption, such as {files[image]}: "
        f"{_shown(several[image])}",
        WAY_OUT,
    )


def _said_of_label(captions: Sequence[str]) -> list[str]:
    """A line about what nearly all texts of one line have before a colon."""
    labels = Counter(match[1] for match in map(_LABEL.match, captions) if match is not None)
    (label, number), *_ = labels.most_common(1) or [("", 0)]
    if number < 2 or not _are_few(len(captions) - number, len(captions)):
        return []
    return [f"{number:,} of {counted(len(captions), 'caption')} begin with '{label}:', which stays"]


def _are_few(number: int, of_all: int) -> bool:
    """Whether nearly all others are otherwise."""
    return number <= (1 - NEARLY_ALL) * of_all


def _is_odd(text: str, lines: Sequence[str]) -> bool:
    """Whether a text has paragraphs, headings, marks of lists, tags, addresses, columns or lines
    without a word: not all its lines are captions."""
    has_paragraphs = re.search(r"\n[ \t]*\n", text.strip()) is not None
    plain = [*map(str.strip, lines)]
    return has_paragraphs or any(
        not any(map(str.isalpha, line)) or _MARKED.match(line) or line[-1] == ":" or "\t" in line
        for line in plain
    )


def _have_shared(texts: Sequence[Sequence[str]]) -> bool:
    """Whether most of the different texts have a line, or what stands before its colon, at the same
    place from their beginning or their end."""
    different = {*map(tuple, texts)}
    numbers: Counter[tuple[int, str]] = Counter()
    for lines in different:
        parts = [*map(_part, lines)]
        numbers.update(enumerate(parts))
        numbers.update(enumerate(reversed(parts), -len(parts)))
    ((_, number), *_) = numbers.most_common(1)
    return number > 1 and 2 * number > len(different)


def _part(line: str) -> str:
    """What stands before the colon of a line, if that is short; else the line."""
    label, colon, _ = line.strip().partition(":")
    return label.strip() if colon and len(label) <= LONGEST_LABEL else line.strip()


def _are_alike(texts: Sequence[Sequence[str]]) -> bool:
    """Whether lines are captions: nearly all end as sentences do; or nearly all texts have the same
    number of lines, of which most end so at each place, or which are alike without it."""
    of_several = [line for lines in texts if len(lines) > 1 for line in lines]
    without_end = sum(not _is_ended(line) for line in of_several)
    if _are_few(without_end, len(of_several)):
        return True
    (number, most), *_ = Counter(map(len, texts)).most_common(1)
    if number == 1 or not _are_few(len(texts) - most, len(texts)):
        return False
    places = [*zip(*(lines for lines in texts if len(lines) == number), strict=True)]
    ended = [sum(map(_is_ended, place)) / len(place) for place in places]
    if min(ended) > 1 / 2:
        return True
    words = [median(map(_words, place)) for place in places]
    if max(ended) > 1 - NEARLY_ALL or min(words) < FEWEST_WORDS or max(words) > 2 * min(words):
        return False
    return _begin_alike([*chain.from_iterable(places)], number)


def _begin_alike(lines: Sequence[str], number: int) -> bool:
    """Whether lines begin with large letters, or all with small ones where texts have many."""
    large = sum(line.strip()[0].isupper() for line in lines)
    are_large = _are_few(len(lines) - large, len(lines))
    return are_large or (number >= SURE_NUMBER and _are_few(large, len(lines)))


def _is_ended(line: str) -> bool:
    """Whether a line ends as a sentence does."""
    return _SENTENCE_END.search(line.strip()) is not None


def _words(line: str) -> int:
    """About how many words a line has; scripts without large letters often have no blanks."""
    plain = sum(one.isalpha() and not one.isupper() and not one.islower() for one in line)
    return max(len(line.split()), plain // 2)


def _shown(lines: Sequence[str]) -> str:
    """Lines as one, for a message, cut where they are long."""
    shown = " / ".join(map(str.strip, lines))
    is_long = len(shown) > LONGEST_EXAMPLE
    return repr(shown[:LONGEST_EXAMPLE] + "..." if is_long else shown)
