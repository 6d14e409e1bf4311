import json

import pytest
from commands import refusal
from hypothesis import given
from hypothesis import strategies as st
from reader_cases import options, read_all, save_images

from pipeline.corpus.dataset.folder import list_folder
from pipeline.corpus.dataset.table import read_captions
from pipeline.corpus.dataset.table_form import find_form
from pipeline.corpus.readers import captions_csv
from pipeline.runtime.errors import WorkbenchError

COMMA = """image,caption
a.jpg,A dog runs .
a.jpg,"A dog , a cat and a ""bird"" ."
b.jpg,A dog , unquoted , with commas .
b.jpg,"Hello" says the "sign"
c.jpg,One
"d,e.jpg","Two, three"
"""
BAR = """image_name| comment_number| comment
a.jpg| 0| Two young , White males | outside .
a.jpg| 4   A dog runs across the grass .
b.jpg| 0| One, two
c.jpg| 0| "Quoted"
"""


@pytest.fixture
def raw(tmp_path):
    raw = tmp_path / "raw"
    save_images(raw / "Images", "a.jpg", "b.jpg", "c.jpg", "d,e.jpg")
    return raw


def texts(raw, **changed):
    captions = captions_csv.read(raw, raw, options(**changed)).captions
    return dict(zip(captions["caption_id"], captions["text"], strict=True))


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_flickr8k_with_commas_quoted_and_not(raw, ending, mark):
    content = (mark + COMMA).replace("\n", ending)
    (raw / "captions.txt").write_bytes(content.encode())
    assert texts(raw) == {
        "a.jpg#0": "A dog runs .",
        "a.jpg#1": 'A dog , a cat and a "bird" .',
        "b.jpg#0": "A dog , unquoted , with commas .",
        "b.jpg#1": '"Hello" says the "sign"',
        "c.jpg#0": "One",
        "d,e.jpg#0": "Two, three",
    }


IDS = {
    "no header": "a\tA dog.\nb\tA cat.\nc\tA boat.\n",
    "ImageCLEF": "ID,Caption\na,A dog.\nb,A cat.\nc,A boat.\n",
    "after another": "label;key;text\n1;a;A dog.\n2;b;A cat.\n3;c;A boat.\n",
}


@pytest.mark.parametrize("kind", IDS)
def test_names_without_endings_are_known_by_the_images(raw, kind):
    (raw / "mine.csv").write_text(IDS[kind])
    corpus = read_all("auto", raw)
    found = dict(zip(corpus.captions["image_id"], corpus.captions["text"], strict=True))
    assert found == {
        "Images/a.jpg": "A dog.",
        "Images/b.jpg": "A cat.",
        "Images/c.jpg": "A boat.",
    }
    (raw / "mine.csv").write_text(
        IDS[kind].replace("a\t", "x\t").replace("a,", "x,").replace(";a", ";x")
    )
    with pytest.raises(WorkbenchError):
        read_all("auto", raw)


@pytest.mark.parametrize("row", ["480\t640\tAAAA", "7", "0 0.5 0.5"])
def test_names_beside_something_else_are_no_captions(raw, row):
    """Regions of LXMERT have ten fields, lists of classes a number."""
    (raw / "mine.tsv").write_text("".join(f"{name}\t{row}\n" for name in "abc"))
    assert captions_csv.recognise(list_folder(raw)) == []


@pytest.mark.parametrize(
    ("row", "splits", "own"),
    [
        ("{image}\t{text}\t{split}", True, 1),
        ("{image}|{split}|{text}", True, 1),
        ("{image}\t{number}\t{text}\t0.93", False, 1),
        ("{image}\t{text}\t{text} again", False, 2),
        ("{image}\t{text}\t", False, 1),
        ("{image}\t{text}\tanna\tcc-by", False, 1),
    ],
)
def test_further_columns_without_a_header(raw, row, splits, own):
    """Each is what its cells are: a split, a number, a caption, or nothing that is read."""
    texts = {"a.jpg": "A dog.", "b.jpg": "A cat, grey.", "c.jpg": "A boat."}
    words = dict(zip(texts, ("train", "dev", "test"), strict=True))
    lines = [
        row.format(image=image, text=text, split=words[image], number=number)
        for number, (image, text) in enumerate(texts.items())
    ]
    (raw / "mine.txt").write_text("\n".join(lines))
    corpus = read_all("auto", raw)
    found = dict(zip(corpus.captions["image_id"], corpus.captions["text"], strict=False))
    assert {name: found[name].removesuffix(" again") for name in texts} == texts
    assert len(corpus.captions) == own * len(texts)
    if splits:
        assert corpus.images["image_id"].tolist() == list(texts)
        assert corpus.images["split"].tolist() == ["train", "val", "test"]


def test_without_blanks_the_longest_text_is_the_caption(raw, capsys):
    rows = "".join(f"{name}.jpg\t甲\t一只狗在草地上奔跑\n" for name in "abc")
    (raw / "mine.txt").write_text(rows)
    corpus = read_all("auto", raw)
    assert corpus.captions["text"].tolist() == ["一只狗在草地上奔跑"] * 3
    assert "not read beside image and caption: column 2" in capsys.readouterr().err


def test_judgements_of_captions_are_none(raw):
    """Flickr8k's ExpertAnnotations.txt, beside its captions and alone."""
    rows = "".join(f"{one}.jpg\t{other}.jpg#2\t1\t1\t2\n" for one in "abc" for other in "abc")
    (raw / "ExpertAnnotations.txt").write_text(rows)
    assert captions_csv.recognise(list_folder(raw)) == []


def test_captions_with_the_separator_stay_whole(raw):
    (raw / "mine.txt").write_text("a.jpg|A dog|or two.\nb.jpg|A cat.\nc.jpg|A boat.\n")
    corpus = read_all("auto", raw)
    assert sorted(corpus.captions["text"]) == ["A boat.", "A cat.", "A dog|or two."]


@pytest.mark.parametrize("name", ["fold", "use", "my split"])
def test_a_column_of_words_for_splits_is_one_whatever_its_name(raw, name):
    rows = ["a.jpg,A dog.,train", "b.jpg,A cat.,val", "c.jpg,A boat.,test"]
    (raw / "mine.csv").write_text("\n".join([f"image,caption,{name}", *rows]))
    assert read_all("auto", raw).images["split"].tolist() == ["train", "val", "test"]
    (raw / "mine.csv").write_text(
        "\n".join([f"image,caption,{name}", *rows[:2], "c.jpg,A boat.,x"])
    )
    with pytest.raises(WorkbenchError, match=r"corpus.val_images|none of train"):
        read_all("auto", raw, test_images=3)


ALBUMS = {"2023/summer": ["IMG_1.jpg", "IMG_2.jpg"], "winter": ["IMG_1.jpg", "IMG_3.jpg"]}


@pytest.fixture
def albums(tmp_path):
    save_images(tmp_path / "raw", *(f"{at}/{name}" for at, own in ALBUMS.items() for name in own))
    for place, names in ALBUMS.items():
        rows = "".join(f"{name},{place} {name[:5]}\n" for name in names)
        (tmp_path / "raw" / place / "captions.csv").write_text(f"image,caption\n{rows}")
    return tmp_path / "raw"


def test_albums_with_a_table_each_are_read_together(albums, capsys):
    corpus = read_all("auto", albums)
    found = dict(zip(corpus.captions["image_id"], corpus.captions["text"], strict=True))
    assert found == {
        f"{place}/{name}": f"{place} {name[:5]}"
        for place, names in ALBUMS.items()
        for name in names
    }
    assert "splits drawn by seed" in capsys.readouterr().err


def test_images_without_captions_are_counted(raw, capsys):
    """Those of an album whose table nobody can read, and others."""
    rows = "".join(f"{name}.jpg,A dog.\n" for name in "abc")
    (raw / "captions.csv").write_text("image,caption\n" + rows)
    save_images(raw / "oslo", "1.jpg", "2.jpg")
    (raw / "oslo/captions.csv").write_text("Bild,Text\n1.jpg,Ein Hund.\n2.jpg,Ein Boot.\n")
    read_all("auto", raw)
    said = capsys.readouterr().err
    assert "left out: 3 images without captions: Images/d,e.jpg, oslo/1.jpg, oslo/2.jpg" in said


def test_an_image_that_an_album_lacks_is_not_taken_from_another(albums):
    with open(albums / "winter/captions.csv", "a") as file:
        file.write("IMG_2.jpg,winter IMG_2\n")
    assert "winter/IMG_2.jpg (no such file)" in refusal(read_all, "auto", albums)


def test_tables_of_one_name_whose_images_lie_elsewhere_are_not_joined(tmp_path):
    """Two languages, say."""
    raw = tmp_path / "raw"
    save_images(raw / "images", "a.jpg", "b.jpg", "c.jpg")
    for language in ("de", "fr"):
        (raw / language).mkdir()
        rows = "".join(f"{name}.jpg,{language}\n" for name in "abc")
        (raw / language / "captions.csv").write_text(f"image,caption\n{rows}")
    said = refusal(read_all, "auto", raw)
    assert "several annotation files: de/captions.csv, fr/captions.csv" in said


def test_flickr30k_with_its_broken_line(raw):
    (raw / "results.csv").write_text(BAR)
    assert texts(raw) == {
        "a.jpg#0": "Two young , White males | outside .",
        "a.jpg#4": "A dog runs across the grass .",
        "b.jpg#0": "One, two",
        "c.jpg#0": "Quoted",
    }


def test_lines_that_cannot_be_read_are_named_together(raw):
    (raw / "captions.txt").write_text(COMMA + "no comma here\n\na.jpg,fine\n,no image\n")
    form = r"lines not of the form 'image,caption', numbers \(2\): 8, 11"
    with pytest.raises(WorkbenchError, match=form):
        texts(raw)
    (raw / "captions.txt").write_text("photo,words\na.jpg,A caption\n")
    header = r"line 1: 'photo,words': neither the names of columns"
    with pytest.raises(WorkbenchError, match=header):
        texts(raw)
    (raw / "captions.txt").write_bytes(COMMA.encode() + b"a.jpg,caf\xe9\n")
    assert "line 8: not UTF-8" in refusal(texts, raw)


@pytest.mark.parametrize(
    "names",
    [
        ("train.txt", "val.txt", "test.txt"),
        ("Flickr_8k.trainImages.txt", "Flickr_8k.devImages.txt", "Flickr_8k.testImages.txt"),
    ],
)
def test_split_lists(raw, names, capsys):
    (raw / "captions.txt").write_text(COMMA)
    lists = raw / "lists"
    lists.mkdir()
    for name, entry in zip(names, ("b.jpg\r\n", "a\n", "c.jpg"), strict=True):
        (lists / name).write_text(entry)
    images = read_all("captions_csv", raw, split_files="lists").images
    assert images["image_id"].tolist() == ["b.jpg", "a.jpg", "c.jpg"]
    assert "left out: 1 image in no split (d,e.jpg)" in capsys.readouterr().err


def test_split_lists_that_are_missing_overlap_or_name_the_unknown(raw):
    (raw / "captions.txt").write_text(COMMA)
    lists = raw / "lists"
    with pytest.raises(WorkbenchError, match="split_files = 'lists': no such file or folder"):
        read_all("captions_csv", raw, split_files="lists")
    lists.mkdir()
    for name, entries in {"train": "a.jpg\nb.jpg", "test": "c.jpg", "val": "b.jpg"}.items():
        (lists / f"{name}.txt").write_text(entries)
    with pytest.raises(WorkbenchError, match=r"images in more than one list \(1\): b\.jpg"):
        read_all("captions_csv", raw, split_files="lists")
    (lists / "val.txt").write_text("z.jpg")
    said = refusal(read_all, "captions_csv", raw, split_files="lists")
    assert "none of the 1 image of split val is there, such as z.jpg" in said
    (lists / "valid.txt").write_text("c.jpg")
    with pytest.raises(WorkbenchError, match=r"one list of val images.*found val\.txt, valid\.txt"):
        read_all("captions_csv", raw, split_files="lists")


@given(
    st.sampled_from([COMMA.splitlines(True)[0], BAR.splitlines(True)[0], ""]),
    st.text(st.characters(codec="utf-8") | st.sampled_from('",|\n .0a'), max_size=60),
)
def test_any_text_is_read_or_refused(tmp_path_factory, header, text):
    """Not a line may be lost, unless quotes join several; what is read the tests above say."""
    raw = tmp_path_factory.getbasetemp()
    (raw / "captions.txt").write_text(header + text, encoding="utf-8")
    try:
        captions = read_captions(raw / "captions.txt")
    except WorkbenchError:
        return
    lines = [line for line in text.replace("\r\n", "\n").split("\n") if line.strip()]
    assert len(captions) == len(lines) or '"' in text


def test_an_image_in_the_tables_of_two_splits_is_refused(raw):
    for split, names in {"train": "a.jpg b.jpg", "val": "c.jpg", "test": "b.jpg"}.items():
        lines = [f"{name},A dog" for name in names.split()]
        (raw / f"mine_{split}.csv").write_text("\n".join(["image,caption", *lines]))
    said = refusal(read_all, "captions_csv", raw)
    assert "images in more than one split (1): 'b.jpg'" in said


def test_columns_of_other_names_are_named_by_settings(raw):
    rows = "Bild;caption_en;caption_de\na.jpg;A dog.;Ein Hund.\nb.jpg;A cat.;Eine Katze.\n"
    rows += "c.jpg;One.;Eins.\n"
    (raw / "data.csv").write_text(rows)
    said = refusal(read_all, "auto", raw)
    assert "among Bild, caption_en, caption_de" in said
    assert "set dataset: captions_csv, corpus.annotations: data.csv" in said
    german = {"annotations": "data.csv", "image_field": "Bild", "caption_field": "caption_de"}
    assert texts(raw, **german) == {
        "a.jpg#0": "Ein Hund.",
        "b.jpg#0": "Eine Katze.",
        "c.jpg#0": "Eins.",
    }
    said = refusal(texts, raw, **german | {"caption_field": "caption_fr"})
    assert "one a caption (caption_fr)" in said


@pytest.mark.parametrize(
    "row",
    [
        "{image},{text},{split}",
        '"{image}","{text}, grey","{split}"',
        "{image},{split},{text}, grey",
        "{number},{image},{text},{split}",
        "{text}\t{split}\t{image}",
        "{split}|{text}|{image}|",
        "en;{text};{image};{split}",
    ],
)
def test_columns_in_any_order_without_a_header(raw, row):
    """What a column is its cells say; of commas, where they are not those of captions."""
    words = {"a.jpg": "train", "b.jpg": "dev", "c.jpg": "test"}
    lines = [
        row.format(image=image, text=f"A {split} image", split=split, number=number)
        for number, (image, split) in enumerate(words.items())
    ]
    (raw / "mine.csv").write_text("\n".join(lines))
    corpus = read_all("auto", raw)
    texts = corpus.captions["text"].str.removesuffix(", grey").tolist()
    assert texts == [f"A {split} image" for split in words.values()]
    assert corpus.images["split"].tolist() == ["train", "val", "test"]


@pytest.mark.parametrize("row", ["{n},{image},A dog {n}.", "train|{n}|{image}|A dog {n}."])
def test_names_without_endings_in_any_column(raw, row):
    """What is called as the files there is the image; a number only if nothing else is."""
    save_images(raw, "0.jpg", "1.jpg", "2.jpg")
    lines = (row.format(n=place % 2, image=name) for place, name in enumerate("abc"))
    (raw / "mine.csv").write_text("".join(f"{line}\n" for line in lines))
    corpus = read_all("auto", raw)
    assert corpus.captions.set_index("image_id")["text"].to_dict() == {
        "Images/a.jpg": "A dog 0.",
        "Images/b.jpg": "A dog 1.",
        "Images/c.jpg": "A dog 0.",
    }


def test_a_first_line_with_an_image_names_no_columns(raw):
    (raw / "scores.csv").write_text("a.jpg,0.5\nb.jpg,0.25\n")
    said = refusal(read_all, "auto", raw)
    assert "scores.csv: names images, but what it says of them are single words or codes" in said
    assert "write a first line image,caption" in said


def test_the_last_line_counts_among_few(raw):
    """It is left out where the beginning of a long file may end in it."""
    (raw / "mine.csv").write_text("a.jpg;A dog.;\nb.jpg;A cat.;\nc.jpg;A boat.;It is red.\n")
    texts = read_all("auto", raw).captions["text"].tolist()
    assert sorted(texts) == ["A boat.", "A cat.", "A dog.", "It is red."]


def test_commas_of_captions_are_no_columns(raw):
    lines = ["a.jpg,A dog, grey", "b.jpg,A cat, white", "c.jpg,A boat, red"]
    (raw / "mine.csv").write_text("\n".join(lines))
    texts = read_all("auto", raw).captions["text"].tolist()
    assert sorted(texts) == ["A boat, red", "A cat, white", "A dog, grey"]
    (raw / "mine.csv").write_text("\n".join(line.replace(", ", ",") for line in lines))
    texts = read_all("auto", raw).captions["text"].tolist()
    assert sorted(texts) == ["A boat,red", "A cat,white", "A dog,grey"]
    (raw / "mine.csv").write_text("\n".join(line.replace(", ", ",It is ") for line in lines))
    texts = read_all("auto", raw).captions["text"].tolist()
    assert len(texts) == 6  # words that begin behind a comma, without a blank, in every line


@pytest.mark.parametrize("cell", ["3", "0.5", "http://example.org/{image}", "{image}#0"])
def test_labels_scores_and_names_are_no_captions(raw, cell):
    lines = (f"{image},{cell.format(image=image)}\n" for image in ("a.jpg", "b.jpg", "c.jpg"))
    (raw / "labels.csv").write_text("".join(lines))
    assert "labels.csv" in refusal(read_all, "auto", raw)


def test_tables_of_splits_may_have_other_columns(raw):
    (raw / "mine_train.csv").write_text("image,caption,label\na.jpg,A dog.,1\n")
    (raw / "mine_val.csv").write_text("caption,image\nA cat.,b.jpg\n")
    (raw / "mine_test.csv").write_text("c.jpg,A boat.\n")
    images = read_all("auto", raw).images
    assert images["split"].tolist() == ["train", "val", "test"]


def test_files_of_splits_in_different_forms(raw):
    """One alone would be cut into all splits."""
    records = [{"filename": "a.jpg", "sentences": [{"raw": "A dog."}]}]
    save_images(raw, "d.jpg")
    (raw / "mine_train.json").write_text(json.dumps(records))
    records = [{"image": name, "caption": "A cat."} for name in ("b.jpg", "c.jpg", "d.jpg")]
    (raw / "mine_test.json").write_text(json.dumps(records))
    said = refusal(read_all, "auto", raw)
    assert "mine_train.json (karpathy_json) and mine_test.json (records_json)" in said
    assert "have different forms" in said
    assert len(read_all("auto", raw, annotations="mine_test.json").images) == 3


COUNTED = {
    "a file beside it": ("image,image_path,caption", "{n},photos/{other}.jpg,Of {other}."),
    "a file of an unknown name": ("id,Datei,caption", "{n},{other}.jpg,Of {other}."),
    "a name": ("name,photo file,caption", "{n},photos/{other}.jpg,Of {other}."),
    "an id that says image": ("id,photo_id,caption", "{n},{other},Of {other}."),
    "a number that says image": ("key,image_number,caption", "{n},{other},Of {other}."),
}


def swapped(raw, row):
    """Lines of images 1 to 6, the first as 6, the second as 5, and so on."""
    save_images(raw / "photos", *[f"{number}.jpg" for number in range(1, 7)])
    return [row.format(n=number, other=7 - number) for number in range(1, 7)]


@pytest.mark.parametrize("kind", COUNTED)
def test_numbers_that_count_the_rows_are_no_images(tmp_path, kind):
    header, row = COUNTED[kind]
    (tmp_path / "captions.csv").write_text("\n".join([header, *swapped(tmp_path, row)]) + "\n")
    corpus = read_all("auto", tmp_path)
    told = dict(corpus.captions[["image_id", "text"]].itertuples(index=False))
    assert {name.rpartition("/")[2]: text for name, text in told.items()} == {
        f"{number}.jpg": f"Of {number}." for number in range(1, 7)
    }


def test_two_columns_that_could_be_the_image_are_not_guessed(tmp_path):
    lines = ["id,product,caption", *swapped(tmp_path, "{n},{other},Of {other}.")]
    (tmp_path / "captions.csv").write_text("\n".join(lines) + "\n")
    assert "id, product, caption" in refusal(read_all, "auto", tmp_path)
    for header, row in (
        ("image_before,image_after,caption", "{n}.jpg,{other}.jpg,Of both."),
        ("photo_left,photo_right,caption", "{n},{other},Of both."),
    ):
        pairs = "\n".join([header, *swapped(tmp_path, row)])
        (tmp_path / "captions.csv").write_text(pairs + "\n")
        assert header.replace(",", ", ") in refusal(read_all, "auto", tmp_path)
    (tmp_path / "captions.csv").write_text("\n".join(lines) + "\n")
    corpus = read_all("captions_csv", tmp_path, image_field="product")
    texts = dict(corpus.captions[["image_id", "text"]].itertuples(index=False))
    assert texts["photos/1.jpg"] == "Of 1."


BESIDE = {
    "a price": "{image},19.99,A dog runs in field {n}.",
    "a size": "{image},A dog runs in field {n}.,34 KB",
    "a date": "{image},A dog runs in field {n}.,2024-01-0{n}",
    "a code": "{image},ID000{n},A dog runs in field {n}.",
    "an address": "{image},A dog runs in field {n}.,https://a.org/{image}",
    "a class": "{image},dog,A dog runs in field {n}.",
    "a class behind quotes": '{image},"A dog runs, in field {n}.",race_{n}',
    "a person": "{image},Ann Lee,A dog runs in field {n}.",
    "a person behind a tab": "{image}\tAnn Lee\tA dog runs in field {n}.",
    "a number and a size": "{n};{image};34 KB;A dog runs in field {n}.;2024-01-01",
}


@pytest.mark.parametrize("kind", BESIDE)
def test_what_stands_beside_the_caption_is_none(tmp_path, kind, capsys):
    names = [f"{number}.jpg" for number in range(1, 9)]
    save_images(tmp_path, *names)
    lines = [BESIDE[kind].format(image=name, n=n) for n, name in enumerate(names, 1)]
    (tmp_path / "list.csv").write_text("\n".join(lines) + "\n")
    corpus = read_all("auto", tmp_path)
    told = dict(corpus.captions[["image_id", "text"]].itertuples(index=False))
    assert {name: text.replace("runs,", "runs") for name, text in told.items()} == {
        name: f"A dog runs in field {n}." for n, name in enumerate(names, 1)
    }
    assert "not read beside image and caption: column" in capsys.readouterr().err


@pytest.mark.parametrize("row", ["masks/{n}.png,{n}.jpg,A dog runs.", "{n}.jpg,{m}.jpg,A dog."])
def test_two_columns_of_images_are_not_guessed(tmp_path, row):
    save_images(tmp_path, *[f"{n}.jpg" for n in range(1, 9)])
    save_images(tmp_path, *[f"masks/{n}.png" for n in range(1, 9)])
    lines = [row.format(n=n, m=9 - n) for n in range(1, 9)]
    (tmp_path / "list.csv").write_text("\n".join(lines) + "\n")
    assert "no captions that a reader knows" in refusal(read_all, "auto", tmp_path)
    named = "\n".join(["mask,image,caption", *lines])
    (tmp_path / "list.csv").write_text(named + "\n")
    assert len(read_all("auto", tmp_path).captions) == 8


QUOTES = {
    "backslashes": (r'"a.jpg","A sign says \"stop, now\"","ann"', 'A sign says "stop, now"'),
    "a quote as a letter": ('a.jpg,A 6" pipe,ann', 'A 6" pipe'),
    "a doubled quote": ('a.jpg,"A ""big"" sign, red",ann', 'A "big" sign, red'),
    "a quote too many": ('a.jpg,""Big" sign, red",ann', None),
    "a lost quote": ('a.jpg,"A sign, red,ann', None),
    "a comma too many": ("a.jpg,A sign, red,ann", None),
    "a cut line": ('a.jpg,"A sig', None),
}


@pytest.mark.parametrize("kind", QUOTES)
def test_captions_in_quotes_before_another_column(raw, kind):
    line, text = QUOTES[kind]
    (raw / "captions.csv").write_text(
        f'image,caption,author\nb.jpg,"A dog, grey",ann\nc.jpg,"A cat",ann\n{line}'
    )
    if text is None:
        said = refusal(texts, raw)
        assert "lines not of the form 'image,caption,author', numbers (1): 4" in said
    else:
        assert texts(raw) == {"a.jpg#0": text, "b.jpg#0": "A dog, grey", "c.jpg#0": "A cat"}


def test_backslashes_before_quotes_in_the_last_column(raw):
    rows = [r'"a.jpg","A sign says \"stop, now\""', '"b.jpg","A dog, grey"', '"c.jpg","A cat"']
    (raw / "captions.csv").write_text("\n".join(['"image","caption"', *rows]) + "\n")
    assert texts(raw) == {
        "a.jpg#0": 'A sign says "stop, now"',
        "b.jpg#0": "A dog, grey",
        "c.jpg#0": "A cat",
    }


FOLDER_COLUMNS = {
    "one level": ("day{}", "day{}"),
    "an album": ("Pictures/20{}/Rome", "/20{}/Rome"),
    "of a disk": ("data/c{}", "C:\\Users\\me\\data\\c{}"),
}


@pytest.mark.parametrize("kind", FOLDER_COLUMNS)
@pytest.mark.parametrize("chosen", [None, 1])
@pytest.mark.parametrize("name", ["{}.jpg", "{}"])
def test_a_column_of_folders_tells_files_of_one_name_apart(tmp_path, capsys, kind, chosen, name):
    place, cell = FOLDER_COLUMNS[kind]
    pairs = [(day, number) for day in (1, 2) for number in range(4)]
    save_images(tmp_path, *(f"{place.format(day)}/{number}.jpg" for day, number in pairs))
    lines = [f"{name.format(n)},{cell.format(day)},Dog {n} of day {day}." for day, n in pairs]
    (tmp_path / "captions.csv").write_text("\n".join(["image,album,caption", *lines]) + "\n")
    images = None if chosen is None else place.format(chosen)
    corpus = read_all("auto", tmp_path, images=images)
    start = "" if images is None else f"{images}/"
    paths = (start + corpus.captions["image_id"]).tolist()
    assert dict(zip(paths, corpus.captions["text"], strict=True)) == {
        f"{place.format(day)}/{n}.jpg": f"Dog {n} of day {day}."
        for day, n in pairs
        if day == (chosen or day)
    }
    said = capsys.readouterr().err
    assert "in the folders that column album names" in said
    assert (f"left out: 4 captions of images outside {images}" in said) == (chosen is not None)


@pytest.mark.parametrize("chosen", [None, "day1", "day2"])
@pytest.mark.parametrize("endings", [("csv", "txt"), ("txt", "csv"), ("csv", "csv")])
def test_a_table_beside_images_is_of_these(tmp_path, chosen, endings):
    days = dict(zip(("day1", "day2"), endings, strict=True))
    for day, ending in days.items():
        save_images(tmp_path / day, *(f"{n}.jpg" for n in range(4)))
        lines = [f"{n}.jpg,Dog {n} of {day}." for n in range(4)]
        header = ["image,caption"] if ending == "csv" else []
        (tmp_path / day / f"captions.{ending}").write_text("\n".join([*header, *lines]) + "\n")
    corpus = read_all("auto", tmp_path, images=chosen)
    start = "" if chosen is None else f"{chosen}/"
    found = dict(zip(start + corpus.captions["image_id"], corpus.captions["text"], strict=True))
    assert found == {
        f"{day}/{n}.jpg": f"Dog {n} of {day}."
        for day in days
        for n in range(4)
        if day == (chosen or day)
    }


def test_json_beside_images_of_another_folder_is_not_read_for_the_chosen_one(tmp_path):
    for day in ("day1", "day2"):
        save_images(tmp_path / day, *(f"{n}.jpg" for n in range(4)))
    captions = {f"{n}.jpg": [f"Dog {n} of day1."] for n in range(4)}
    (tmp_path / "day1" / "notes.json").write_text(json.dumps(captions))
    lines = [f"{n}.jpg,Dog {n} of day2." for n in range(4)]
    (tmp_path / "day2" / "captions.txt").write_text("\n".join(["image,caption", *lines]))
    corpus = read_all("auto", tmp_path, images="day1")
    assert corpus.captions["text"].str.contains("of day1").all()


WORDS = ("A dog runs", "Two cats sleep", "An old man reads", "Some boats lie here")
TEXTS = [[f"{words} near house {n}" for words in WORDS[: 2 + n % 3]] for n in range(12)]


@pytest.mark.parametrize("sign", ["|", " | ", "||", " <sep> ", "<sep>"])
@pytest.mark.parametrize("name", ["captions.csv", "metadata.csv"])
def test_several_captions_in_one_cell(tmp_path, capsys, sign, name):
    save_images(tmp_path, *(f"{n}.jpg" for n in range(12)))
    lines = [f"{n}.jpg,{sign.join(texts)}" for n, texts in enumerate(TEXTS)]
    (tmp_path / name).write_text("\n".join(["file_name,captions", *lines]))
    corpus = read_all("auto", tmp_path)
    assert corpus.captions.groupby("image_id")["text"].apply(list).to_dict() == {
        f"{n}.jpg": texts for n, texts in enumerate(TEXTS)
    }
    said = capsys.readouterr().err
    number = sum(map(len, TEXTS))
    assert f"several captions in a cell: 12 rows of {name} have {number}" in said


CELLS = {
    "lines of captions": ([["A dog runs here.", "It is a brown dog."]] * 4, "\n", True),
    "lines without capitals": ([["a dog runs", "one brown dog there"]] * 4, "\n", True),
    "a text of two lines": ([["A dog runs here.", "It is a brown dog."]] * 4, "\n", False),
    "a wrapped text": ([["A dog runs on the", "grass near the house"]] * 4, "\n", False),
    "lines of some length": (
        [["A dog runs."], ["A cat is here.", "It is black."]] * 2,
        "\n",
        False,
    ),
    "the name of a site": ([["A dog runs.", "Free Photos and Art"]] * 4, "|", False),
    "words": ([["A dog", "brown", "grass"]] * 4, "|", False),
    "one cell": ([["A dog runs.", "Two dogs run there."], *[["A cat sleeps."]] * 3], "|", False),
}


@pytest.mark.parametrize("kind", CELLS)
def test_what_is_no_list_of_captions_stays_one(tmp_path, kind):
    cells, sign, are_several = CELLS[kind]
    shown = "the name" in kind or "words" in kind
    rows = [
        [text if shown and place else f"{text[:1]}{text[1:]} {n}" for place, text in enumerate(own)]
        for n, own in enumerate(cells)
    ]
    save_images(tmp_path, *(f"{n}.jpg" for n in range(4)))
    lines = [f'{n}.jpg,"{sign.join(texts)}"' for n, texts in enumerate(rows)]
    column = "caption" if kind == "a text of two lines" else "captions"
    (tmp_path / "captions.csv").write_text("\n".join([f"image,{column}", *lines]))
    number = len(read_all("auto", tmp_path).captions)
    assert number == (sum(map(len, rows)) if are_several else 4)


def test_a_column_of_one_text_is_no_caption(tmp_path):
    save_images(tmp_path, *(f"{n}.jpg" for n in range(4)))
    lines = [f"{n}.jpg,Describe the image.,Dog {n} runs." for n in range(4)]
    path = tmp_path / "captions.csv"
    path.write_text("\n".join(["image,text,title", *lines]))
    assert sorted(read_all("auto", tmp_path).captions["text"])[0] == "Dog 0 runs."
    path.write_text("\n".join(["image,prompt,response", *lines]))
    assert sorted(read_all("auto", tmp_path).captions["text"])[0] == "Dog 0 runs."
    path.write_text("\n".join(["image,prompt,said", *lines]))
    error = refusal(read_all, "auto", tmp_path)
    assert "all texts in column prompt are the same ('Describe the image.')" in error
    assert "those in column said are not" in error
    assert "corpus.caption_field" in error
    corpus = read_all("auto", tmp_path, caption_field="said")
    assert sorted(corpus.captions["text"])[0] == "Dog 0 runs."
    path.write_text("\n".join(["image,text", *(f"{n}.jpg,A brown dog." for n in range(4))]))
    assert read_all("auto", tmp_path).captions["text"].tolist() == ["A brown dog."] * 4


@pytest.mark.parametrize("others", ["a table", "texts"])
def test_titles_come_after_captions(tmp_path, others):
    save_images(tmp_path, *(f"{n}.jpg" for n in range(4)))
    titles = [f"{n}.jpg,Photo {n},40" for n in range(4)]
    (tmp_path / "metadata.csv").write_text("\n".join(["file_name,title,width", *titles]))
    lines = [f"{n}.jpg,Dog {n} runs." for n in range(4)]
    if others == "a table":
        (tmp_path / "captions.csv").write_text("\n".join(["image,caption", *lines]))
    for n in range(4) if others == "texts" else ():
        (tmp_path / f"{n}.txt").write_text(f"Dog {n} runs.\n")
    assert read_all("auto", tmp_path).captions["text"].str.startswith("Dog").all()


@pytest.mark.parametrize("name", ["Image Alt Text", "Alternative Text", "alt_text"])
def test_alternative_texts_come_before_titles(tmp_path, name):
    save_images(tmp_path, *(f"{n}.jpg" for n in range(4)))
    lines = [f"Photo {n},{n}.jpg,Dog {n} runs." for n in range(4)]
    (tmp_path / "products.csv").write_text("\n".join([f"Title,Image,{name}", *lines]))
    assert read_all("auto", tmp_path).captions["text"].str.startswith("Dog").all()


@given(missing=st.sets(st.integers(0, 19), min_size=1, max_size=9), has_header=st.booleans())
def test_images_that_lack_their_files_do_not_hide_a_table_of_ids(missing, has_header):
    names = [f"ROCO_{n:05}" for n in range(20)]
    there = {name.lower() for n, name in enumerate(names) if n not in missing}
    lines = [f"{name}\tThe scan {n} shows a chest." for n, name in enumerate(names)]
    form = find_form("\n".join(["ID\tCaption"] * has_header + lines), there=there)
    assert form is not None
    numbers = [f"{n}\tThe scan {n} shows a chest." for n in range(20)]
    stems = {str(n) for n in range(20) if n not in missing}
    form = find_form("\n".join(["ID\tCaption"] * has_header + numbers), there=stems)
    assert form is None


def test_a_name_of_two_files_is_said(tmp_path):
    save_images(tmp_path / "photos", *(f"p{n}.jpg" for n in range(5)), "p3.png")
    lines = [f"p{n},Dog {n} runs." for n in range(5)]
    (tmp_path / "captions.csv").write_text("\n".join(["image,caption", *lines]))
    error = refusal(read_all, "auto", tmp_path)
    assert "'p3' may be photos/p3.jpg, photos/p3.png" in error
    lines = [f"p{n}.jpg,Dog {n} runs." for n in range(5)]
    (tmp_path / "captions.csv").write_text("\n".join(["image,caption", *lines]))
    assert len(read_all("auto", tmp_path).captions) == 5


HAND = ["{}: {}", "{} - {}", "{} \u2013 {}", "{} -> {}", "{} = {}", "{}) {}", "{}. {}"]


@pytest.mark.parametrize("line", HAND)
@pytest.mark.parametrize("name", ["IMG_{:04}", "{}"])
def test_notes_written_by_hand(tmp_path, line, name):
    names = [name.format(n + 1) for n in range(6)]
    save_images(tmp_path, *(f"{own}.jpg" for own in names))
    lines = [line.format(own, f"Dog {own} - it runs: fast.") for own in names]
    (tmp_path / "captions.txt").write_text("\n".join(lines) + "\n")
    captions = read_all("auto", tmp_path).captions
    assert dict(zip(captions["image_id"], captions["text"], strict=True)) == {
        f"{own}.jpg": f"Dog {own} - it runs: fast." for own in names
    }
    lines[3] = line.format(f"{names[2]}-{names[3]}", "Dogs run.")
    (tmp_path / "captions.txt").write_text("\n".join(lines) + "\n")
    with pytest.raises(WorkbenchError):
        read_all("auto", tmp_path)


@pytest.mark.parametrize("column", ["image", "caption_id"])
def test_the_numbers_of_captions_behind_their_images(tmp_path, column):
    save_images(tmp_path / "Images", "a.jpg", "b.jpg", "c.jpg")
    lines = [f"{own}.jpg#{n},Dog {own} runs {n} times." for own in "abc" for n in range(2)]
    (tmp_path / "captions.csv").write_text("\n".join([f"{column},text_bn", *lines]))
    chosen = {"image_field": column, "caption_field": "text_bn"}
    captions = read_all("captions_csv", tmp_path, **chosen).captions.sort_values("caption_id")
    assert captions["image_id"].tolist() == ["a.jpg", "a.jpg", "b.jpg", "b.jpg", "c.jpg", "c.jpg"]
    assert captions["caption_id"].tolist()[:2] == ["a.jpg#0", "a.jpg#1"]


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
@pytest.mark.parametrize("layout", ["{0}.{1}", "data_{0}.{1}", "{0}/_annotations.{0}.{1}"])
def test_files_of_several_splits_with_other_names_of_columns(tmp_path, ending, layout):
    splits = {"dev": 2, "test": 2, "train": 4}
    for split, number in splits.items():
        names = [f"{split}_{n}.jpg" for n in range(number)]
        save_images(tmp_path / split, *names)
        lines = ["picture_of,words"] * (ending == "csv")
        for name in names:
            record = {"picture_of": name, "words": f"Dog {name} runs."}
            lines.append(json.dumps(record) if ending == "jsonl" else ",".join(record.values()))
        path = tmp_path / layout.format(split, ending)
        path.write_text("\n".join(lines) + "\n")
    error = refusal(read_all, "auto", tmp_path)
    assert all(layout.format(split, ending) in error for split in splits)
    reader = "records_json" if ending == "jsonl" else "captions_csv"
    assert f"set dataset: {reader}, and corpus.image_field" in error
    corpus = read_all(reader, tmp_path, image_field="picture_of", caption_field="words")
    counts = corpus.images["split"].value_counts().to_dict()
    assert counts == {"val": 2, "test": 2, "train": 4}
