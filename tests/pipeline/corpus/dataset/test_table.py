"""Tables of captions against pandas: any separator, quoting, order of columns, encoding."""

import csv
import io

import pandas as pd
import pytest
from commands import refusal
from hypothesis import example, given
from hypothesis import strategies as st

from pipeline.corpus.dataset.cells import passed_over
from pipeline.corpus.dataset.table import first_images, read_captions
from pipeline.corpus.dataset.table_form import columns_passed_over
from pipeline.runtime.errors import WorkbenchError

WORDS = st.text(st.sampled_from("abc äñ,;|\t\"'#0\n[é"), min_size=1, max_size=12)
ENCODINGS = {"utf-8": b"", "utf-8-sig": b"", "utf-16-le": b"\xff\xfe", "utf-16-be": b"\xfe\xff"}


CELLS = st.text(st.sampled_from("ab 07.-+_eTrue\x1cé\u00a0#\x00,"), max_size=3)


def read(folder, content, name="captions.txt"):
    """Image and text of every caption of a table with some content."""
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return pairs(read_captions(path))


def pairs(rows):
    return list(zip(rows["image"], rows["text"], strict=True))


@given(
    texts=st.lists(WORDS.map(str.strip).filter(bool), min_size=1, max_size=6),
    separator=st.sampled_from("\t|;,"),
    names=st.permutations(["file_name", "comment", "id"]),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]),
    encoding=st.sampled_from(list(ENCODINGS)),
    ending=st.sampled_from(["\n", "\r\n"]),
    index=st.booleans(),
)
def test_what_pandas_writes_is_read_as_pandas_reads_it(
    tmp_path_factory, texts, separator, names, quoting, encoding, ending, index
):
    table = pd.DataFrame(
        {
            "file_name": [f"{number}.jpg" for number in range(len(texts))],
            "comment": texts,
            "id": range(len(texts)),
        }
    )[names]
    how = {"sep": separator, "quoting": quoting, "index": index, "lineterminator": ending}
    content = ENCODINGS[encoding] + table.to_csv(**how).encode(encoding)
    path = tmp_path_factory.getbasetemp() / "table.csv"
    path.write_bytes(content)
    back = pd.read_csv(
        io.StringIO(table.to_csv(**how)), sep=separator, dtype=str, keep_default_na=False
    )
    expected = [
        (image, text.replace("\r\n", "\n").strip())
        for image, text in zip(back["file_name"], back["comment"], strict=True)
    ]
    assert pairs(read_captions(path)) == expected


@st.composite
def lines_of_a_table(draw):
    """A header and rows, of which some have a field too few or too many, or no image."""
    names = draw(
        st.sampled_from(["image;caption", "caption;image;split", "image;comment_number;comment"])
    ).split(";")
    lines = [";".join(names)]
    for _ in range(draw(st.integers(1, 4))):
        cells = [draw(CELLS) for _ in names]
        cells[names.index("image")] = draw(st.sampled_from(["7.jpg", "07", " 7", "TRUE", ""]))
        width = len(names) + draw(st.sampled_from([0, 0, 1, -1]))
        lines.append(";".join([*cells, draw(CELLS)][:width]))
    return lines, ";".join("7" if name != "image" else "7.jpg" for name in names)


@example((["image;caption", "7.jpg;a;b", "8.jpg"], "7.jpg;7"), "")  # pandas drops `b` by itself
@given(lines_of_a_table(), st.sampled_from(["", "\n", " "]))
def test_a_table_without_quotes_is_read_as_its_lines_one_by_one(tmp_path_factory, drawn, blank):
    lines, last = drawn
    path = tmp_path_factory.getbasetemp() / "table.csv"

    def read_with(last):
        path.write_text("\n".join([*lines, blank + last]) + blank, newline="\n")
        try:
            return read_captions(path).astype(str).to_numpy().tolist()
        except WorkbenchError as error:
            return error.message

    quoted = last.replace("7.jpg", '"7.jpg"')  # a quote has each line read by itself
    assert read_with(last) == read_with(quoted)


@pytest.mark.parametrize(
    ("header", "line"),
    [
        ("image,caption", "a.jpg,A dog runs"),
        ("image_name,comment_number,comment", "a.jpg,0,A dog runs"),
        ("image_name| comment_number| comment", "a.jpg| 0| A dog runs ."),
        ("filepath\ttitle", "a.jpg\tA dog runs"),
        ("image;caption", "a.jpg;A dog, runs"),
        ("id,caption,image", "7,A dog runs,a.jpg"),
        (",image,caption", "0,a.jpg,A dog runs"),
        ("Image,Text,", "a.jpg,A dog runs,"),
        ("sep=;\nimage;caption", "a.jpg;A dog runs"),
        ("file_name,split,raw", "a.jpg,train,A dog runs"),
    ],
)
def test_columns_are_known_by_their_names(tmp_path, header, line):
    ((image, text),) = read(tmp_path, f"{header}\n{line}\n")
    assert image == "a.jpg"
    assert text.startswith("A dog")


def test_several_columns_and_cells_that_hold_several(tmp_path):
    columns = "image,caption_0,caption_1\na.jpg,One,Two\nb.jpg,Three,\n"
    assert read(tmp_path, columns) == [("a.jpg", "One"), ("a.jpg", "Two"), ("b.jpg", "Three")]
    cells = 'filename,raw\na.jpg,"[""One"", ""Two, two""]"\nb.jpg,"[\'Three\']"\n'
    assert read(tmp_path, cells) == [("a.jpg", "One"), ("a.jpg", "Two, two"), ("b.jpg", "Three")]
    one_in_brackets = 'filename,raw\na.jpg,"[""One""]"\nb.jpg,[red] car\n'
    assert read(tmp_path, one_in_brackets) == [("a.jpg", '["One"]'), ("b.jpg", "[red] car")]


def test_columns_of_one_name_are_all_captions(tmp_path):
    content = "image,Caption,caption,score\na.jpg,A dog.,It runs.,1\n"
    assert read(tmp_path, content) == [("a.jpg", "A dog."), ("a.jpg", "It runs.")]


@pytest.mark.parametrize("rule", ["|---|---|", "| :--- | ---: |", "|-----|:-:|"])
@pytest.mark.parametrize("quotes", ["", ' and "that"'])
def test_a_table_in_markdown(tmp_path, rule, quotes):
    content = f"| image | caption |\n{rule}\n| a.jpg | A dog{quotes}. |\n| b.jpg | - |\n"
    assert read(tmp_path, content) == [("a.jpg", f"A dog{quotes}."), ("b.jpg", "-")]


def test_columns_that_are_not_read():
    header = "id,image,label,caption,split,Unnamed: 0,\n"
    assert passed_over(columns_passed_over(header)) == ("not read beside image and caption: label",)
    assert passed_over(columns_passed_over("image,caption,split\n")) == ()
    assert columns_passed_over("a dog\n") == []


def test_the_published_files_without_a_header(tmp_path):
    token = "1_a.jpg#0\tA child .\n1_a.jpg#1\tA girl , running .\n"
    assert read(tmp_path, token) == [("1_a.jpg", "A child ."), ("1_a.jpg", "A girl , running .")]
    chinese = "1_a.jpg#zhc#0 一个孩子\n1_a.jpg#zhc#1 一个女孩\n"
    assert read(tmp_path, chinese) == [("1_a.jpg", "一个孩子"), ("1_a.jpg", "一个女孩")]
    assert read(tmp_path, "a.jpg,A dog , runs\n") == [("a.jpg", "A dog , runs")]


@pytest.mark.parametrize(
    "between", [" ", ": ", " : ", " = ", "=", " -> ", " => ", " \u2192 ", " - ", " \u2013 "]
)
def test_lines_of_an_image_and_a_caption(tmp_path, between):
    captions = {"my dog.jpg": "A dog - so small", "b.JPG": "-3 degrees", "c.png": "1 = one"}
    lines = [f"{image}{between}{caption}" for image, caption in captions.items()]
    assert read(tmp_path, "\n".join(lines)) == [*captions.items()]


def test_a_title_is_a_caption_where_nothing_else_is(tmp_path):
    content = "image,title,description\na.jpg,Dog,A dog runs.\n"
    assert read(tmp_path, content) == [("a.jpg", "A dog runs.")]
    assert read(tmp_path, "image,title,width\na.jpg,Dog,7\n") == [("a.jpg", "Dog")]


def test_quotes_that_enclose_no_field(tmp_path):
    content = (
        'image,caption\na.jpg,"Hello" says the "sign"\nb.jpg,"never closed\nc.jpg,A dog\n'
        'd.jpg,"two\nlines"\ne.jpg,5" wide\n'
    )
    assert read(tmp_path, content) == [
        ("a.jpg", '"Hello" says the "sign"'),
        ("b.jpg", '"never closed'),
        ("c.jpg", "A dog"),
        ("d.jpg", "two\nlines"),
        ("e.jpg", '5" wide'),
    ]


@pytest.mark.parametrize("names", ["a.jpg b.jpg c.jpg", "7 8 41", "ROCO_01 ROCO_2 ROCO_33"])
@pytest.mark.parametrize("line", ["{},{}", "{},-,{}", "-,{},{}"])
def test_a_quote_does_not_swallow_the_rows_below_it(tmp_path, names, line):
    header = line.replace("-", "place").format("image", "caption")
    first, second, third = names.split()
    captions = {first: '"open', second: "A dog, running", third: 'A cat"'}
    rows = [line.format(*row) for row in captions.items()]
    assert read(tmp_path, "\n".join([header, *rows])) == [*captions.items()]
    whole = {first: "one\n2, 3 and 4\ntwo", second: "no\n5 dogs", third: "fine"}
    rows = [line.format(image, f'"{caption}"') for image, caption in whole.items()]
    assert read(tmp_path, "\n".join([header, *rows])) == [*whole.items()]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("image,caption,id\na.jpg,A dog, a cat,7\n", "image,caption,id', numbers (1): 2"),
        ("image,caption\na.jpg,fine\nb.jpg\n,no image\n", "numbers (2): 3, 4"),
        ("a.jpg#0\tfine\na.jpg#1\tfine\nno number\n", "image#number TAB text, numbers (1): 3"),
        ("some,words\nof,nothing\n", "line 1: 'some,words': neither the names of columns"),
        ("", "line 1: ''"),
        (b"image,caption\na.jpg,caf\xe9\n", "line 2: not UTF-8"),
    ],
)
def test_what_cannot_be_read_is_named_by_its_line(tmp_path, content, said):
    path = tmp_path / "captions.txt"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert said in refusal(read_captions, path)


@given(st.text(st.characters(codec="utf-8") | st.sampled_from('",|\n\t#.jpg0'), max_size=80))
def test_any_text_is_no_table_or_is_read_or_refused(tmp_path_factory, text):
    path = tmp_path_factory.getbasetemp() / "any.txt"
    path.write_text(text, encoding="utf-8", newline="")
    first_images(text)
    try:
        rows = read_captions(path)
    except WorkbenchError:
        return
    assert all(rows["image"])


@given(
    texts=st.lists(
        st.text("abc ,;:|\"'.", min_size=1, max_size=12)
        .map(str.strip)
        .filter(lambda text: set(text) & set("abc") and text[0] not in ":,;|" and " " in text),
        min_size=1,
        max_size=6,
        unique=True,  # a text that several images have is a label
    ),
    names=st.sampled_from(["{}.jpg", "my photo {}.PNG", "sub/{}.jpeg"]),
    between=st.sampled_from([" ", ": ", " : ", ":", "   "]),
)
def test_an_image_and_a_text_behind_a_blank_or_a_colon(tmp_path_factory, texts, names, between):
    pairs_there = [(names.format(number), text) for number, text in enumerate(texts)]
    lines = [f"{image}{between}{text}\n" for image, text in pairs_there]
    assert read(tmp_path_factory.getbasetemp(), "".join(lines), "spaced.txt") == pairs_there


@pytest.mark.parametrize(
    "text",
    [
        "1.jpg 3\n2.jpg 4\n",
        "1.jpg dog\n2.jpg dog\n",
        "1.jpg,dog\n2.jpg,dog\n",
        "1.jpg 2.jpg\n3.jpg 4.jpg\n",
        "1.jpg 0.5 1 2\n",
        "1.jpg\n2.jpg\n",
    ],
)
def test_lists_of_classes_of_boxes_and_of_pairs_are_no_captions(text):
    assert first_images(text) is None
