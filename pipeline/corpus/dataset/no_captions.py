"""Texts about images that are no captions: paths, addresses, codes, licences and labels.

Files that map images to them look like captions, and a model would be trained on addresses. Texts
of scripts without blanks, such as Chinese, Japanese and Thai, are captions without a blank.
"""

import re
from collections.abc import Collection

from pipeline.corpus.dataset.folder import IMAGE_ENDINGS
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
    r"(?:sudo |nohup )?(?:wget|curl|aria2c|gsutil|aws|rsync|scp|yt-dlp)\s", re.IGNORECASE
)
# `a dog` describes, `golden retriever` names
_ARTICLE = re.compile(r"(?:an?|the)\s", re.IGNORECASE)
FEW = 4  # images to each different text, of labels
LICENCE_WORDS = 12  # that a licence has at most
LABEL_WORDS = 3  # that a label has at most
LABEL_CHARACTERS = 4  # the same of scripts without blanks


def what_instead(texts: Collection[str]) -> str:
    """What the texts of images are, where most of them are no captions.

    Args:
        texts: of different images, all of a file or its first ones.

    Returns:
        In words, such as "paths or addresses"; empty where they may be captions.
    """
    texts = [text.strip() for text in texts if text.strip()]
    kinds = {
        "paths or addresses": _is_path,
        "licences": _is_licence,
        "commands": _is_command,
        "single words or codes": _is_code,
    }
    for name, is_one in kinds.items():
        if 2 * sum(map(is_one, texts)) > len(texts):
            return name
    are_labels = texts != [] and all(map(_may_be_label, texts))
    return "few different labels" if are_labels and FEW * len(set(texts)) <= len(texts) else ""


def no_captions(place: str, texts: Collection[str], way_out: str) -> WorkbenchError:
    """The error for a file that names images and has no captions of them.

    Args:
        place: the file, for the message.
        texts: some of what it says of images, at least one.
        way_out: how it is read nevertheless.

    Returns:
        The error, not raised.
    """
    example = next(iter(texts))
    return WorkbenchError(
        f"{place}: names images, but what it says of them are {what_instead(texts)}, such as "
        f"{example[:60]!r}, and no captions",
        f"put a file of captions there; if these are the captions, {way_out}",
    )


def _is_path(text: str) -> bool:
    """Whether a text is an address, or a path or a name of a file."""
    if any(map(str.isspace, text)):
        return False
    is_file = text.lower().endswith(IMAGE_ENDINGS) or "/" in text or "\\" in text
    return is_file or _ADDRESS.fullmatch(text) is not None


def _may_be_label(text: str) -> bool:
    """Whether a text may be the name of a class: a few words without an article or a full stop."""
    is_sentence = _ARTICLE.match(text) is not None or text.endswith((".", "!", "?"))
    is_short = len(text) <= LABEL_CHARACTERS or _WITHOUT_BLANKS.search(text) is None
    return is_short and len(text.split()) <= LABEL_WORDS and not is_sentence


def _is_licence(text: str) -> bool:
    """Whether a text is a licence: captions of the press end with one, and are longer."""
    return len(text.split()) <= LICENCE_WORDS and _LICENCE.search(text) is not None


def _is_command(text: str) -> bool:
    """Whether a text is a command that downloads a file."""
    return _COMMAND.match(text) is not None


def _is_code(text: str) -> bool:
    """Whether a text is one word of a script with blanks, or has no letters."""
    is_word = len(text.split()) == 1 and _WITHOUT_BLANKS.search(text) is None
    return is_word or not any(map(str.isalpha, text))
