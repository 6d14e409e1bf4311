"""Conversations about an image, as vision-language models are tuned on them: who says what, and
which images it names.

A conversation is a list of turns (LLaVA, ShareGPT, ms-swift, OpenAI), or a question and its answer
in two fields of a record (LAVIS, PaliGemma, Alpaca).
"""

import re
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any, NamedTuple

# Fields of conversations, of which the only answer is the caption.
CONVERSATIONS = ("conversations", "conversation", "messages")
# Fields of a question and of its answer.
PAIRS = (
    ("query", "response"),
    ("prompt", "response"),
    ("instruction", "output"),
    ("text_input", "text_output"),
    ("prefix", "suffix"),
    ("question", "answer"),
)
IMAGES = "images"  # the field that is given those which the turns name
# The fields of a turn that say who speaks, and what.
_TURNS = (("from", "value"), ("role", "content"))
_ANSWERERS = frozenset({"gpt", "assistant", "model"})
_MARKED = re.compile(r"<img>\s*(.+?)\s*</img>")  # Qwen-VL names images so


class Turn(NamedTuple):
    """What somebody says, None for no text, and the images that it names."""

    speaker: str
    text: str | None
    images: tuple[str, ...] = ()


def turns_of(cell: object) -> list[Turn]:
    """The turns of a conversation.

    Args:
        cell: of a field.

    Returns:
        The turns; empty for what is no conversation.
    """
    turns = cell if isinstance(cell, list) else []
    for who, what in _TURNS:
        if all(isinstance(turn, Mapping) and {who, what} <= turn.keys() for turn in turns):
            return [_turn(turn[who], turn[what]) for turn in turns]
    return []


def answers_of(cell: object) -> list[str]:
    """The answers in a conversation, a list of turns; empty for anything else.

    Args:
        cell: of a field.
    """
    said = (turn.text for turn in turns_of(cell) if turn.speaker in _ANSWERERS)
    return [text for text in said if text is not None]


def question_of(cell: object) -> str:
    """What a conversation says before its first answer; "" for anything else.

    Args:
        cell: of a field, a list of turns.
    """
    turns = takewhile(lambda turn: turn.speaker not in _ANSWERERS, turns_of(cell))
    return " ".join(turn.text for turn in turns if turn.text is not None)


def question_field(record: Mapping[str, Any]) -> str | None:
    """The field of a record that asks, where another one answers.

    Args:
        record: of JSON.

    Returns:
        Its name; None for a record without both.
    """
    for question, answer in PAIRS:
        if isinstance(record.get(question), str) and isinstance(record.get(answer), str):
            return question
    return None


def as_conversation(record: Mapping[str, Any]) -> dict[str, Any]:
    """A record with a question and an answer as one with a conversation; and one whose images the
    turns name as one with images.

    Args:
        record: of JSON.

    Returns:
        The record, as it is where it has neither.
    """
    question = question_field(record)
    if question is not None:
        answer = dict(PAIRS)[question]
        others = {name: own for name, own in record.items() if name not in (question, answer)}
        turns = [
            {"from": "human", "value": record[question]},
            {"from": "gpt", "value": record[answer]},
        ]
        return {**others, CONVERSATIONS[0]: turns}
    images = images_in_turns(record)
    return {**record, IMAGES: images} if images else dict(record)


def images_in_turns(record: Mapping[str, Any]) -> list[str]:
    """The images that the turns of a record's conversation name.

    Args:
        record: of JSON.

    Returns:
        Names of files, or addresses.
    """
    turns = [turn for name in CONVERSATIONS for turn in turns_of(record.get(name))]
    return [image for turn in turns for image in turn.images]


def _turn(speaker: object, said: object) -> Turn:
    """What a turn says: a text, or a list of parts, which are texts and images."""
    if isinstance(said, str):
        return Turn(str(speaker), said, tuple(_MARKED.findall(said)))
    parts = [part for part in said if isinstance(part, Mapping)] if isinstance(said, list) else []
    texts = [part["text"] for part in parts if isinstance(part.get("text"), str)]
    images = [name for part in parts for name in _images_of(part)]
    return Turn(str(speaker), "\n".join(texts) if texts else None, tuple(images))


def _images_of(part: Mapping[str, Any]) -> Sequence[str]:
    """The image that a part of a turn is: {"type": "image", "image": ...} or {"type": "image_url",
    "image_url": {"url": ...}}."""
    for name in ("image", "image_url", "path", "url"):
        own = part.get(name)
        own = own.get("url") if isinstance(own, Mapping) else own
        if isinstance(own, str) and not own.startswith("data:"):
            return [own.removeprefix("file://")]
    return []
