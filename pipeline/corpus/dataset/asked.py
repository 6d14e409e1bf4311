"""What somebody asked about an image, and which field has what was answered.

Programs that describe images write their prompt beside the answer, under names that captions have,
too: {"prompt": "Describe the image.", "response": "A dog runs."}. And conversations ask for
anything: colours, numbers, boxes. All readers of records and tables ask here.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from pipeline.corpus.dataset.cells import (
    CAPTION_COLUMNS,
    FEWEST_WORDS,
    plain_name,
    plain_texts,
)
from pipeline.corpus.dataset.conversations import answers_of, question_of
from pipeline.runtime.errors import WorkbenchError, listing

NEARLY_ALL = 0.9
LOOKED_AT = 100  # records
# Fields of what was asked, where others have an answer; and those of answers.
_MAY_ASK = frozenset({"prompt", "text", "texts"})
_ASKED = frozenset({"prompt", "question", "query", "instruction"})
ANSWERS = frozenset(
    {"response", "responses", "answer", "answers", "output", "outputs", "reply", "completion"}
    | {"result", "results", "generation", "generated", "generated_text", "generated_caption"}
    | {"model_output", "model_response", "model_answer", "prediction", "predicted", "recaption"}
    | {"output_text", "response_text", "answer_text", "text_output", "gpt_response", "llm_response"}
)
_OF_QUESTIONS = frozenset({"question_id", "questionid", "choices", "options", "answer_choices"})
_RIGHT_ONE = frozenset(
    {"correct", "correct_idx", "correct_index", "correct_answer", "correct_option", "answer_idx"}
    | {"answer_index", "answer_id", "gt_idx", "label_idx", "true_idx"}
)
_BOXES = frozenset(
    {"bbox", "box", "bndbox", "bounding_box", "bbox_xywh", "bbox_xyxy", "region", "roi", "rect"}
)
_CORNERS = (
    frozenset({"xmin", "ymin"}),
    frozenset({"x_min", "y_min"}),
    frozenset({"x1", "y1", "x2", "y2"}),
    frozenset({"x", "y", "width", "height"}),
    frozenset({"x", "y", "w", "h"}),
    frozenset({"ann_id", "category_id"}),
)
_OF_REGIONS = frozenset({"ref_id", "region_id"})
# All names that say what the captions beside them are.
BESIDE = ANSWERS.union(_ASKED, _OF_QUESTIONS, _RIGHT_ONE, _BOXES, _OF_REGIONS, *_CORNERS)
_NUMBER = re.compile(r"[-+]?\d*\.?\d+(?:e[-+]?\d+)?", re.IGNORECASE)
_NUMBERS_OF_BOX = 4
_BOX_AS_TEXT = re.compile(r"[\s\d.,;:+\-e\[\](){}<>]+")
_MARK = re.compile(r"<img>.*?</img>|<[^<>\s]{1,30}>|\[\w{1,20}\]", re.IGNORECASE)
_QUESTION_END = ("?", "\uff1f", "\u061f")
_PICTURE = r"(?:image|picture|photo\w*|scene|snapshot|figure|x-?ray|scan|frame|painting|visual)"
# What asks for a description, in the languages in which such prompts are common.
_DESCRIBE = re.compile(
    r"\bdescri\w+|\bcaption\w*|\bdepict\w*|\bportray\w*|\bnarrat\w*|\bcharacteri[sz]e|\brundown"
    rf"|\b(?:summar\w+|explain|explanation|analy[sz]e|analysis|illustrate|interpret\w*|clarify"
    rf"|break ?down|walk (?:me )?through|elaborate|examine|point out|tell me)\b.*\b{_PICTURE}"
    r"|\bwhat (?:do|can|could|did) you (?:see|observe|notice)"
    r"|\bwhat(?:'s| is| are)? ?(?:happening|going on|taking place)"
    rf"|\bwhat(?:'s| is| are) (?:there |shown |displayed |depicted |visible |seen )?"
    rf"(?:in|on) (?:the|this|that) {_PICTURE}"
    rf"|\bwhat does (?:the|this|that) {_PICTURE} (?:show|contain|illustrate)"
    r"|\bwhat(?:'s| is) (?:this|it)\W*$"
    r"|beschreib|bildunterschrift|was (?:ist|siehst|zeigt|sieht) .*\bbild"
    r"|d\u00e9cri|l\u00e9gende|que (?:vois|voyez|montre)"
    r"|leyenda|qu\u00e9 (?:hay|ves|se ve|muestra)|descrev|legenda|didascalia|cosa (?:c'\u00e8|vedi)"
    r"|beschrijf|beschrijv|bijschrift|beskriv|opisz|popi\u0161|a\u00e7\u0131kla|betimle|jelaskan"
    r"|deskripsi|gambarkan|m\u00f4 t\u1ea3|ch\u00fa th\u00edch|\u043e\u043f\u0438[\u0448\u0441]"
    r"|\u0438\u0437\u043e\u0431\u0440\u0430\u0436\u0435\u043d\u043e"
    "|\u63cf\u8ff0|\u63cf\u5199|\u8bf4\u660e|\u4ecb\u7ecd|\u6982\u62ec|\u603b\u7ed3|\u6807\u9898"
    "|\u770b\u5230\u4e86?\u4ec0\u4e48|\u6709\u4ec0\u4e48|\u53d1\u751f\u4e86?\u4ec0\u4e48"
    "|\u8aac\u660e|\u63cf\u5beb|\u30ad\u30e3\u30d7\u30b7\u30e7\u30f3|\u4f55\u304c\u5199"
    "|\uc124\uba85|\ubb18\uc0ac|\ucea1\uc158|\u0648\u0635\u0641|\u0635\u0641|\u0935\u0930\u094d\u0923\u0928",
    re.IGNORECASE | re.DOTALL,
)
# What asks for something else, whatever else it says.
_OTHERWISE = re.compile(
    r"\bbounding\b|\bbox(?:es)?\b|\bregions?\b|\bcoordinat|[\[({<]\s*\d+\.?\d*\s*[,>]|\bchoose\b"
    r"|\bselect\b|\boptions?\s*:|\bocr\b|\btranscri|\btext (?:in|on|from|shown|visible)\b"
    r"|\b(?:all|any) (?:the )?text\b|\bhow many\b|\bcount\b|\bwhy\b|\bjson\b|\byes or no\b"
    r"|\bsingle word\b|\bclassif|\bcategor|\bthis sentence\b",
    re.IGNORECASE,
)
# Languages of which the words above are known, so that what has none of them asks otherwise.
_KNOWN = re.compile(
    r"\b(?:what|which|is|are|does|do|did|how|who|whose|where|when|why|can|could|would|will|has"
    r"|have|was|were|please|based|extract|identify|name|list|provide|give|read|answer|choose"
    r"|select|count|find|locate|detect|classify|tell|the)\b"
    "|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]",
    re.IGNORECASE,
)
_ARTICLE = re.compile(
    r"(?:an?|the|une?|des|les?|la|einen?|eine|der|die|das|el|los|las|unos?|unas?|uma?|il|een|het|en|ett)\s",
    re.IGNORECASE,
)
_LETTERS_WITHOUT_BLANKS = 6  # of a short answer in Chinese


class Chosen(NamedTuple):
    """The fields of the captions; doubt: why they cannot be told, "" where they can."""

    fields: list[str]
    doubt: str = ""


def chosen_fields(
    finds: Sequence[Sequence[str]], records: Sequence[Mapping[str, Any]], inner: str = ""
) -> Chosen:
    """Which fields hold captions, of those that are called so, by what the first records say.

    A field that says one and the same of all, or that asks for a description, gives way to the
    field of the answers, or to another one of captions. `A dog.` of all images describes them.

    Args:
        finds: fields that are called as captions are, the best first (`caption_columns`), at least
            one.
        records: the first ones, or the first rows of a table.
        inner: the name of a record inside them that has a caption, "" for none.

    Returns:
        The fields, with a doubt where they may be questions, phrases of boxes, or right and wrong
        captions.
    """
    records = records[:LOOKED_AT]
    names = [*dict.fromkeys(name for record in records for name in record)]
    own = [*finds[0]]

    def said(name: str) -> list[str]:
        return [text.strip() for record in records for text in _texts(record.get(name))]

    box = _field_of_boxes(names, records)
    if box:
        return Chosen(own, f"{box} says that {listing(own)} are of parts of the images")
    right = [name for name in names if plain_name(name) in _RIGHT_ONE]
    are_several = len(own) > 1 or any(_number(record.get(own[0])) > 1 for record in records)
    if right and are_several:
        return Chosen(own, f"{right[0]} says that only some texts in {listing(own)} are true")
    if len(own) > 1:
        return Chosen(own)
    answers = _answers(names, said)
    texts = said(own[0])
    if are_the_same(texts) or are_requests(texts):
        if len(answers) > 1:
            return Chosen(own, f"{own[0]} asks, and {listing(answers)} may be the captions")
        if answers or has_article(texts[0]):
            return Chosen(answers or own)
        finds = [find for find in finds[1:] if len(find) > 1 or _tell(said(find[0]))]
        filled = [find for find in finds if 2 * len(said(find[0])) > len(texts)]
        return Chosen([*filled[0]] if filled else own)
    return Chosen(own, _doubt_of_asked(own[0], names, answers=answers, inner=inner))


def doubted(place: str, doubt: str) -> WorkbenchError:
    """The error for fields of which it cannot be told whether they hold captions.

    Args:
        place: their file or folder, for the message.
        doubt: as `chosen_fields` says it.

    Returns:
        The error, not raised.
    """
    return WorkbenchError(
        f"{place}: {doubt}",
        "name the field that has the captions by corpus.caption_field in params.yaml",
    )


def inner_caption(record: Mapping[str, Any]) -> str:
    """The name of a caption in a record inside a record, such as `Task2.Caption`; "" for none.

    Args:
        record: of an image.
    """
    for name, value in record.items():
        for own in value if isinstance(value, Mapping) else ():
            if plain_name(str(own)) in CAPTION_COLUMNS:
                return f"{name}.{own}"
    return ""


def are_the_same(cells: Sequence[str]) -> bool:
    """Whether some cells, three at least, have one and the same text.

    Args:
        cells: of one column.
    """
    return len(cells) > 2 and cells[0].strip() != "" and len(set(cells)) == 1


def has_article(text: str) -> bool:
    """Whether a text begins as a description does: `a dog`, where a name is `golden retriever`.

    Args:
        text: of an image.
    """
    return _ARTICLE.match(text) is not None


def are_requests(texts: Sequence[str]) -> bool:
    """Whether nearly all texts ask for a description, and several are the same.

    Args:
        texts: of different images.
    """
    few = len(texts) > 2 and 2 * len(set(texts)) <= len(texts)
    return few and sum(map(asks_for_description, texts)) >= NEARLY_ALL * len(texts)


def are_questions(texts: Sequence[str]) -> bool:
    """Whether nearly all texts are questions.

    Args:
        texts: of different images.
    """
    lines = (text.strip().partition("\n")[0].rstrip() for text in texts)
    return len(texts) > 2 and sum(map(_ends_as_question, lines)) >= NEARLY_ALL * len(texts)


def check_questions(place: str, conversations: Iterable[object]) -> None:
    """Refuse conversations that ask for something else than a description of the image. Where no
    word of a question is known, long answers are descriptions.

    Args:
        place: their file or folder, for the message.
        conversations: one of each image, with one answer.

    Raises:
        WorkbenchError: not nearly all questions ask to describe an image.
    """
    cells = [cell for cell in conversations if len(answers_of(cell)) == 1]
    pairs = [(_MARK.sub(" ", question_of(cell)).strip(), answers_of(cell)[0]) for cell in cells]
    others = [pair for pair in pairs if not _is_described(*pair)]
    if len(others) > (1 - NEARLY_ALL) * len(pairs):
        question, answer = others[0]
        raise WorkbenchError(
            f"{place}: {len(others):,} of {len(pairs):,} conversations ask for something else than "
            f"a description of the image, such as {question[:60]!r}, answered by {answer[:40]!r}",
            "take these out; corpus.caption_field: conversations (or messages, as the field is "
            "called) reads all answers as captions",
        )


def _is_described(question: str, answer: str) -> bool:
    """Whether a question asks for a description, and the answer is no single word; or, where nobody
    knows what is asked, whether the answer is as long as a description."""
    if question and (asks_for_description(question) or _KNOWN.search(question)):
        is_word = answer.isascii() and " " not in answer.strip()
        return asks_for_description(question) and not is_word
    if " " not in answer:
        return len(answer) > _LETTERS_WITHOUT_BLANKS and not answer.isascii()
    return len(answer.split()) > FEWEST_WORDS and _BOX_AS_TEXT.fullmatch(answer) is None


def asks_for_description(text: str) -> bool:
    """Whether a text asks for a description of an image.

    Args:
        text: what somebody asked.
    """
    return _DESCRIBE.search(text) is not None and _OTHERWISE.search(text) is None


def _ends_as_question(line: str) -> bool:
    return line.endswith(_QUESTION_END)


def _answers(names: Sequence[str], said: Callable[[str], list[str]]) -> list[str]:
    """The fields of answers that differ and are sentences."""
    called = [name for name in names if plain_name(name) in ANSWERS]
    return [name for name in called if _tell(said(name)) and _are_sentences(said(name))]


def _tell(texts: Sequence[str]) -> bool:
    """Whether texts differ and ask nothing."""
    return texts != [] and not are_the_same(texts) and not are_requests(texts)


def _are_sentences(texts: Sequence[str]) -> bool:
    """Whether most texts have the words or, in scripts without blanks, the letters of one."""
    long = [
        text
        for text in texts
        if len(text.split()) >= FEWEST_WORDS
        or (not text.isascii() and len(text) > _LETTERS_WITHOUT_BLANKS)
    ]
    return 2 * len(long) > len(texts)


def _doubt_of_asked(name: str, names: Sequence[str], answers: Sequence[str], inner: str) -> str:
    """Why a field may have what was asked, "" where nothing beside it says so."""
    plain = plain_name(name)
    others = {plain_name(own): own for own in names if own != name}
    if plain not in _MAY_ASK or (plain != "prompt" and not _ASKED.isdisjoint(others)):
        return ""  # beside a prompt or a question, a text is the answer
    beside = [*answers, *([inner] if inner and plain == "prompt" else [])]
    beside += [own for plain_own, own in others.items() if plain_own in _OF_QUESTIONS]
    return f"{name} may be what was asked, for {listing(beside)} is beside it" if beside else ""


def _field_of_boxes(names: Sequence[str], records: Sequence[Mapping[str, Any]]) -> str:
    """The field that says that a record is of one box, "" for none."""
    called = {plain_name(name): name for name in names}
    for plain, name in called.items():
        values = [record.get(name) for record in records]
        if plain in _BOXES and all(map(_is_box, values)):
            return name
        if plain in _OF_REGIONS and all(map(_is_number, values)):
            return name
    for corners in _CORNERS:
        own = [called[plain] for plain in sorted(corners & called.keys())]
        are_all = len(own) == len(corners)
        if are_all and all(_is_number(record.get(name)) for record in records for name in own):
            return listing(own)
    return ""


def _is_box(value: object) -> bool:
    """Whether a value is four numbers, in a list, under names, or as text."""
    if isinstance(value, Mapping):
        value = [*value.values()]
    if isinstance(value, str):
        is_list = _BOX_AS_TEXT.fullmatch(value) is not None
        return is_list and len(_NUMBER.findall(value)) == _NUMBERS_OF_BOX
    return (
        isinstance(value, Sequence)
        and len(value) == _NUMBERS_OF_BOX
        and all(map(_is_number, value))
    )


def are_boxes(cells: Collection[str]) -> bool:
    """Whether all cells of a column are the four numbers of a box.

    Args:
        cells: of a column without a name.
    """
    return len(cells) > 0 and all(map(_is_box, cells))


def _is_number(value: object) -> bool:
    if isinstance(value, str):
        return _NUMBER.fullmatch(value.strip()) is not None
    return isinstance(value, int | float) and not isinstance(value, bool)


def _number(value: object) -> int:
    """How many texts a value has."""
    return len(value) if isinstance(value, list) else 1


def _texts(value: object) -> list[str]:
    """The texts of a value that is one or a list of them."""
    texts = value if isinstance(value, list) else [value]
    return plain_texts([text for text in texts if isinstance(text, str)])
