"""Texts about images that are no captions: paths, addresses, codes, licences, labels, questions.

Files that map images to them look like captions, and a model would be trained on addresses. Texts
of scripts without blanks, such as Chinese, Japanese and Thai, are captions without a blank.
`what_instead` is strict, for files in which nothing is called a caption; `what_of_images` is asked
of what any reader has read.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress

from pipeline.corpus.dataset.asked import NEARLY_ALL, are_questions, are_requests, has_article
from pipeline.corpus.dataset.folder import IMAGE_ENDINGS, composed
from pipeline.runtime.errors import WorkbenchError

_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]*://\S+|data:\S+", re.IGNORECASE)
_WITHOUT_BLANKS = re.compile(
    "[\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
    "\U00020000-\U0003ffff]"
)
_LICENCE = re.compile(
    r"\b(?:CC[ -]?BY|CC0|creative commons|all rights reserved|public domain)\b"
    r"|^(?:copyright|photo by)\b|^©",
    re.IGNORECASE,
)
_COMMAND = re.compile(
    r"(?:sudo |nohup )?"
    r"(?:wget|curl|git|python3?|cp|mv|mkdir|ffmpeg|aria2c|gsutil|aws|rsync|scp|unzip|tar|yt-dlp)"
    r" (?:-{1,2}\w|\S*[/:.]\S)"
)
_SIZE = re.compile(
    r"[\d.,]+ ?(?:bytes?|[kmgt]i?b|px|pixels?)|\d+ ?[x\u00d7] ?\d+(?: ?(?:px|pixels?))?",
    re.IGNORECASE,
)
_CAMERA = re.compile(
    r"\bf/\d|\b1/\d+ ?s(?:ec)?\b|\bISO[ :-]?\d+|\b\d+(?:\.\d+)? ?mm\b", re.IGNORECASE
)
_SETTINGS_OF_CAMERA = 2  # different ones in a text
_SCORED = re.compile(r"[^.!?]{1,40}?[ :=,;(]+(?:0?\.\d+|1\.0+|\d{1,2}\.\d+ ?%)\)?")
_HASH = re.compile(r"[0-9a-fA-F-]{8,}")
# What cameras and telephones call their files.
_CAMERA_FILE = re.compile(
    r"(?:_?(?:IMG|DSC[NF]?|DJI|GOPR|MVIMG|PXL|SAM|VID|WA)|P)[ _-]?\d[\w-]*", re.IGNORECASE
)
_DIGITS = re.compile(r"\d+")
# Danbooru's counts of persons, which people never write, and words joined by underscores.
_BOORU = re.compile(r"(?:^|[\s,])\d\+?(?:girl|boy|other)s?(?=$|[\s,])|\w[a-z]_[a-z]\w*[\s,]+\w+_\w")
FEW = 4  # images to each different text, of labels
FEWEST = 8  # texts of which all may be one by mistake
COMMON = 4  # texts of which one may be, so that it is said
LICENCE_WORDS = 12  # that a licence has at most
LABEL_WORDS = 3  # that a label has at most
LABEL_CHARACTERS = 4  # the same of scripts without blanks
COMPARED = 20  # letters and digits of two names: systems cut long ones
SAMPLE = 2000  # texts that are looked at


def what_instead(texts: Collection[str]) -> str:
    """What the texts of images are, where most of them are no captions.

    Args:
        texts: of different images, all of a file or its first ones.

    Returns:
        In words, such as "paths or addresses"; empty where they may be captions.
    """
    texts = [text.strip() for text in texts if text.strip()]
    return _most_are(texts, {**_KINDS, "single words or codes": _is_code}) or _all_are(texts)


def what_of_images(texts: Sequence[str], images: Sequence[str]) -> str:
    """What the texts that a reader has read are, where most of them are no captions.

    Args:
        texts: all of them.
        images: the path of the image of each.

    Returns:
        As `what_instead`; single words may be captions here.
    """
    step = max(1, len(texts) // SAMPLE)
    pairs = [
        (text.strip(), image)
        for text, image in zip(texts[::step], images[::step], strict=True)
        if text.strip()
    ]
    names = [text for text, image in pairs if is_own_name(text, image)]
    if 2 * len(names) > len(pairs):
        return "names of files"
    said = [text for text, _ in pairs]
    if len(said) >= FEWEST and len(set(said)) == 1 and not has_article(said[0]):
        return "one and the same text"
    return _most_are(said, {**_KINDS, "numbers or codes": _is_number_or_code}) or (
        _all_are(said) if len(said) >= FEWEST else ""
    )


def common_text(texts: Sequence[str]) -> tuple[str, ...]:
    """A line about a text that many images have, none where no text is so common.

    Args:
        texts: of all images.
    """
    if len(texts) < FEWEST:
        return ()
    text, number = Counter(texts).most_common(1)[0]
    if COMMON * number < len(texts):
        return ()
    return (f"one text: {number:,} of {len(texts):,} captions are {text.strip()[:60]!r}",)


def _most_are(texts: Sequence[str], kinds: dict[str, Callable[[str], bool]]) -> str:
    """The first of some kinds that most texts are of, "" for none."""
    for name, is_one in kinds.items():
        if 2 * sum(map(is_one, texts)) > len(texts):
            return name
    return ""


def _all_are(texts: Sequence[str]) -> str:
    """What all texts together are, "" where they may be captions."""
    if are_questions(texts):
        return "questions"
    if are_requests(texts):
        return "prompts"
    if len(texts) > 2 and sum(map(_has_booru, texts)) >= NEARLY_ALL * len(texts):
        return "lists of tags"
    are_labels = texts != [] and all(map(_may_be_label, texts))
    return "few different labels" if are_labels and FEW * len(set(texts)) <= len(texts) else ""


def no_captions(place: str, texts: Collection[str], way_out: str, what: str = "") -> WorkbenchError:
    """The error for a file that names images and has no captions of them.

    Args:
        place: the file, for the message.
        texts: some of what it says of images, at least one.
        way_out: how it is read nevertheless.
        what: they are; "" for what `what_instead` says.

    Returns:
        The error, not raised.
    """
    example = next(iter(texts))
    what = what or what_instead(texts)
    return WorkbenchError(
        f"{place}: names images, but what it says of them are {what}, such as "
        f"{example[:60]!r}, and no captions",
        f"put a file of captions there; if these are the captions, {way_out}",
    )


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


def is_name_of_file(text: str, image: str) -> bool:
    """Whether a text is the name of an image's file, or of any other one.

    Args:
        text: of its record.
        image: its path.

    Returns:
        Whether it ends as those of images do, or `is_own_name` says so.
    """
    return _ends_as_image(text) or is_own_name(text, image)


def _ends_as_image(text: str) -> bool:
    return text.strip().lower().endswith(IMAGE_ENDINGS)


def _without_ending(name: str) -> str:
    return name.rpartition(".")[0] or name


def _letters(name: str) -> str:
    """The letters and digits of a name: systems replace other characters."""
    return "".join(filter(str.isalnum, composed(name).lower()))


def _is_path(text: str) -> bool:
    """Whether a text is an address, or a path or a name of a file."""
    if any(map(str.isspace, text)):
        return False
    is_file = text.lower().endswith(IMAGE_ENDINGS) or "/" in text or "\\" in text
    return is_file or _ADDRESS.fullmatch(text) is not None


def _may_be_label(text: str) -> bool:
    """Whether a text may be the name of a class: a few words without an article or a full stop."""
    is_sentence = has_article(text) or text.endswith((".", "!", "?"))
    is_short = len(text) <= LABEL_CHARACTERS or _WITHOUT_BLANKS.search(text) is None
    return is_short and len(text.split()) <= LABEL_WORDS and not is_sentence


def _is_licence(text: str) -> bool:
    """Whether a text is a licence: captions of the press end with one, and are longer."""
    return len(text.split()) <= LICENCE_WORDS and _LICENCE.search(text) is not None


def _is_code(text: str) -> bool:
    """Whether a text is one word of a script with blanks, or has no letters."""
    is_word = len(text.split()) == 1 and _WITHOUT_BLANKS.search(text) is None
    return is_word or not any(map(str.isalpha, text))


def _is_number_or_code(text: str) -> bool:
    """Whether a text has no letters, or is one word that is a number, a hash or an id."""
    if not any(map(str.isalpha, text)) or _CAMERA_FILE.fullmatch(text):
        return True
    is_word = len(text.split()) == 1 and _WITHOUT_BLANKS.search(text) is None
    digits = sum(map(str.isdigit, text))
    return is_word and digits > 0 and (2 * digits >= len(text) or _HASH.fullmatch(text) is not None)


def _is_json(text: str) -> bool:
    if not (text.startswith("{") and text.endswith("}")):
        return False
    with suppress(ValueError, RecursionError):
        return isinstance(json.loads(text), dict)
    return False


def _is_command(text: str) -> bool:
    return _COMMAND.match(text) is not None


def _is_size(text: str) -> bool:
    return _SIZE.fullmatch(text) is not None


def _is_of_camera(text: str) -> bool:
    found = {_DIGITS.sub("", match).lower() for match in _CAMERA.findall(text)}
    return len(found) >= _SETTINGS_OF_CAMERA


def _is_scored(text: str) -> bool:
    return _SCORED.fullmatch(text) is not None


def _has_booru(text: str) -> bool:
    """Whether a text is a list of tags as Danbooru has them, which people do not write."""
    return len(re.split(r"[,\s]+", text)) > 2 and _BOORU.search(text) is not None


# Kinds of which a few words in a text say that it is one.
_KINDS: dict[str, Callable[[str], bool]] = {
    "paths or addresses": _is_path,
    "licences": _is_licence,
    "commands": _is_command,
    "sizes": _is_size,
    "settings of a camera": _is_of_camera,
    "labels with scores": _is_scored,
    "records of JSON": _is_json,
}
