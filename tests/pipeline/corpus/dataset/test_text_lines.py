"""What the lines of a text beside an image are."""

import pytest
from commands import refusal
from hypothesis import assume, given
from hypothesis import strategies as st

from pipeline.corpus.dataset.text_lines import captions_of_texts, has_words
from pipeline.runtime.errors import WorkbenchError

SCENES = [
    "a brown dog leaps over a fallen log",
    "two children share an umbrella in the rain",
    "an old man sells oranges at the market",
    "the tail of the cat curls around a teapot",
    "a black horse grazes beside a long fence",
    "one parrot sits on the shoulder of a pirate",
    "some empty classroom has many green desks",
    "a violinist plays alone in the subway",
]
CLOSED = [f"{scene}." for scene in SCENES]
LARGE = [scene.capitalize() for scene in SCENES]
SENTENCES = [f"{scene.capitalize()}." for scene in SCENES]
NUMBER = len(SCENES)


def read(texts, chosen=None):
    by_image = {f"{number}.jpg": text for number, text in enumerate(texts)}
    files = {image: image.replace("jpg", "txt") for image in by_image}
    found = captions_of_texts("raw", by_image, files, chosen)
    return [[*lines] for lines in found.of_images.values()], "\n".join(found.remarks)


def several(lines, number):
    """Texts of so many of the lines, a text that begins with each."""
    return [
        [lines[(first + step) % len(lines)] for step in range(number)]
        for first in range(len(lines))
    ]


def different(lines, fewest=1):
    """Texts of different numbers of lines."""
    return [own[: fewest + number % 4] for number, own in enumerate(several(lines, len(lines)))]


ALIKE = {
    "CUB's": several(CLOSED, 5),
    "sentences": several(SENTENCES, 2),
    "with blanks before the stop": several([f"{scene} ." for scene in LARGE], 5),
    "large letters without stops": several(LARGE, 2),
    "small letters without stops, as of MS-COCO": several(SCENES, 5),
    "some without stops": several([*CLOSED[:6], *SCENES[6:]], 5),
    "Chinese": several(
        [f"\u4e00\u53ea\u68d5\u8272\u7684\u72d7\u8dd1{n}\u3002" for n in "abcdefgh"], 3
    ),
    "sentences of different numbers": different(SENTENCES),
}


@pytest.mark.parametrize("lines", ALIKE.values(), ids=ALIKE)
def test_lines_that_are_alike_are_captions_and_it_is_said(lines):
    read_lines, said = read("\n".join(own) + "\n" for own in lines)
    assert read_lines == lines
    assert "every line of a text is a caption: " in said
    assert "if a text is one: corpus.text_lines: joined" in said


NOT_PLAIN = {
    "wrapped": [f"{scene} near\nthe old mill. It is late." for scene in LARGE],
    "some wrapped": [
        f"{scene}." if number % 2 else f"{scene} near\nthe mill."
        for number, scene in enumerate(LARGE)
    ],
    "wrapped, small letters": [f"{scene} near\nthe old mill by the river" for scene in SCENES],
    "paragraphs": [f"{scene}.\n\nIt is {number} o'clock." for number, scene in enumerate(LARGE)],
    "Markdown": [f"# {number}\n{scene}.\n- **Mood:** calm" for number, scene in enumerate(LARGE)],
    "what a model says first": [f"Sure! Here it is:\n{scene}." for scene in LARGE],
    "a post": [f"{scene}.\n.\n.\n#love #day{number}" for number, scene in enumerate(LARGE)],
    "tags": [f"1girl\nsolo\nlong hair\ntag{number}\noutdoors" for number in range(NUMBER)],
    "keys and values": [
        f"Title: Day {number}\nDate: {number}\nCaption: {scene}."
        for number, scene in enumerate(LARGE)
    ],
    "exiftool": [
        f"File Name      : {number}.jpg\nDescription    : {scene}.\nMake   : NIKON"
        for number, scene in enumerate(LARGE)
    ],
    "a licence": [f"{scene}.\nAll rights are reserved." for scene in LARGE],
    "an address": [f"{scene}.\nhttps://x.org/{n}" for n, scene in enumerate(LARGE)],
    "a name": [f"{scene}.\nAnn {name}" for name, scene in zip("abcdefgh", LARGE, strict=True)],
    "a title": [f"Plate {n}\n{scene}." for n, scene in enumerate(LARGE)],
    "a report": [
        f"FINDINGS:\n {scene}.\n IMPRESSION:\n Number {n}." for n, scene in enumerate(LARGE)
    ],
    "verses of different numbers": ["\n".join(own) for own in different(LARGE, fewest=2)],
    "names before a tab": [
        f"{n}.jpg#0\t{scene}.\n{n}.jpg#1\tIt is late." for n, scene in enumerate(LARGE)
    ],
    "a score of some lines": [
        f"{scene}.\t0.{number}\n{scene}." for number, scene in enumerate(LARGE)
    ],
}


@pytest.mark.parametrize("texts", NOT_PLAIN.values(), ids=NOT_PLAIN)
def test_other_lines_are_asked_for_with_an_example(texts):
    said = refusal(read, texts)
    assert "it is not plain whether each is a caption, such as " in said
    assert "joined (a text is one caption), each (a line is one) or first" in said
    lines = [[line for line in text.split("\n") if line.strip()] for text in texts]
    joined = [[" ".join(map(str.strip, own))] for own in lines]
    assert read(texts, "each") == (lines, "")
    assert read(texts, "first") == ([own[:1] for own in lines], "")
    assert read(texts, "joined") == (joined, "")


@pytest.mark.parametrize("chosen", [None, "each", "joined", "first"])
@pytest.mark.parametrize(
    ("text", "form"),
    [
        ('{"caption": "A dog."}', "JSON"),
        ('[{"caption": "A dog."}]', "JSON"),
        ("{'caption': 'A dog.'}", "JSON"),
        ("{\\rtf1\\ansi\n\\f0 A dog.}", "RTF"),
        ("<?xml version='1.0'?>\n<annotation/>", "HTML or XML"),
        ("0 0.5 0.5 0.25 0.125\n", "numbers, as of boxes"),
        ("dog 0.98 12 30 200 180", "numbers, as of boxes"),
        ("gsd:0.15\n2753 2408 2861 2385 2888 2468 2805 2502 plane 0", "numbers, as of boxes"),
        ("377,117,463,117,465,130,378,130,Joy Theatre", "numbers, as of boxes"),
    ],
)
def test_other_forms_are_no_captions(text, form, chosen):
    assert f"texts that hold {form} (1): 1.txt" in refusal(read, ["A dog.", text], chosen)


def test_captions_with_brackets_and_numbers_are_captions():
    texts = ["{{masterpiece}}, [blurry], a dog", "<lora:dog:1> a dog", "Buses 4, 8 and 15 wait"]
    assert all(map(has_words, texts))
    assert read(texts) == ([[text] for text in texts], "")


SETTINGS = (
    "Negative prompt: lowres, bad hands\n"
    "Steps: 20, Sampler: Euler a, CFG scale: 7, Seed: 12, Size: 512x512"
)


@pytest.mark.parametrize(
    "settings", [SETTINGS, SETTINGS.partition("\n")[2], SETTINGS.replace("\n", " ")]
)
def test_a_prompt_is_read_without_its_settings(settings):
    prompts = [f"{scene},\nhighly detailed" for scene in SCENES]
    texts = [f"{prompt}\n{settings}\n" for prompt in prompts]
    said = "of 8 texts the prompt alone is read, not the lines from 'Negative prompt:' or 'Steps:'"
    assert read(texts)[0] == [[f"{scene}, highly detailed"] for scene in SCENES]
    assert said in read(texts)[1]
    assert read(texts, "each")[0] == [[f"{scene},", "highly detailed"] for scene in SCENES]


@pytest.mark.parametrize("begin", ["{n}. ", "{n}) ", "({n}) ", "{n}: "])
@pytest.mark.parametrize("first", [0, 1])
def test_numbers_of_lines_are_not_read(begin, first):
    lines = different(SENTENCES)
    texts = [
        "\n".join(begin.format(n=n) + line for n, line in enumerate(own, first)) for own in lines
    ]
    found, said = read(texts)
    assert found == lines
    assert "not read: the numbers that the lines begin with, as in " in said


@pytest.mark.parametrize("form", ["{}\t0.80", "-1.5\t{}", "{}\t 95% ", "7\t{}"])
def test_a_score_beside_a_tab_is_not_read(form):
    lines = several(SENTENCES, 2)
    found, said = read("\n".join(map(form.format, own)) for own in lines)
    assert found == lines
    assert "not read: the number beside the tab of every line" in said


def test_few_other_lines_are_named():
    lines = [*several(SENTENCES, 3)] * 5
    lines[7] = [*lines[7][:2], "#love"]
    found, said = read("\n".join(own) for own in lines)
    assert found == lines
    assert said.endswith("; other lines in 7.txt")


def test_a_label_of_all_captions_is_said():
    _, said = read([f"Caption: {scene}." for scene in LARGE])
    assert said == "8 of 8 captions begin with 'Caption:', which stays"


LINE = st.text(st.characters(codec="utf-8"), max_size=12)


@given(st.lists(st.lists(LINE, max_size=4).map("\n".join), max_size=6))
def test_texts_of_one_line_are_captions_as_they_are(texts):
    """Whatever is in them, but for other forms and what is said."""
    try:
        found, said = read([" ".join(text.split()) or text for text in texts])
    except WorkbenchError as error:
        assume("texts that hold" not in error.message)
        raise
    assert said or found == [[" ".join(text.split()) or text] for text in texts]
