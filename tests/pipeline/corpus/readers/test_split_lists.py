"""Lists that divide the images of a folder, whichever reader reads their captions."""

import json

import pytest
from commands import refusal
from hypothesis import given
from hypothesis import strategies as st
from reader_cases import read_all, record, save_images

from pipeline.corpus.dataset.folder import list_folder
from pipeline.corpus.dataset.split_forms import images_in_table
from pipeline.corpus.dataset.split_lists import find_split_lists
from pipeline.corpus.dataset.split_names import Known
from pipeline.corpus.dataset.splits import flags_of_splits

NAMES = [f"{letter}.jpg" for letter in "abcdef"]
SPLITS = {"train": ["a.jpg", "b.jpg"], "val": ["c.jpg"], "test": ["d.jpg", "e.jpg"]}
DIVIDED = {name: split for split, names in SPLITS.items() for name in names}


def write_table(raw):
    (raw / "captions.csv").write_text("image,caption\n" + "".join(f"{n},A dog.\n" for n in NAMES))


def write_mapping(raw):
    (raw / "mine.json").write_text(json.dumps({name: ["A dog."] for name in NAMES}))


def write_coco(raw):
    images = [{"id": place, "file_name": name} for place, name in enumerate(NAMES)]
    captions = [{"id": own["id"], "image_id": own["id"], "caption": "A dog."} for own in images]
    (raw / "mine.json").write_text(json.dumps({"images": images, "annotations": captions}))


def write_karpathy(raw):
    records = [record(name, None, "A dog.", first=place) for place, name in enumerate(NAMES)]
    for own in records:
        del own["split"]
    (raw / "dataset_mine.json").write_text(json.dumps({"images": records}))


def write_beside(raw):
    for name in NAMES:
        (raw / "images" / name).with_suffix(".txt").write_text("A dog.")


def write_image_folder(raw):
    lines = "".join(f"images/{name},A dog.\n" for name in NAMES)
    (raw / "metadata.csv").write_text("file_name,caption\n" + lines)


WRITERS = [write_table, write_mapping, write_coco, write_karpathy, write_beside, write_image_folder]


@pytest.fixture(params=WRITERS, ids=lambda write: write.__name__)
def raw(request, tmp_path):
    raw = tmp_path / "raw"
    save_images(raw / "images", *NAMES)
    request.param(raw)
    return raw


def splits_of(corpus):
    images = corpus.images
    names = (image.rpartition("/")[2] for image in images["image_id"])
    return dict(zip(names, images["split"], strict=True))


def write_lists(place, ending=""):
    place.mkdir(exist_ok=True)
    for split, names in SPLITS.items():
        lines = [name.removesuffix(ending) for name in names]
        (place / f"{split}.txt").write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize("ending", ["", ".jpg"])
def test_lists_beside_the_captions(raw, ending, capsys):
    write_lists(raw, ending)
    assert splits_of(read_all("auto", raw)) == DIVIDED
    said = capsys.readouterr().err
    assert "splits: of the lists train.txt, val.txt, test.txt" in said
    assert "left out: 1 image in no split" in said


CALLED = ["{}_images.txt", "{}_list.txt", "{}_ids.txt", "{}list.txt", "{}set.txt", "{}-files.txt"]
CALLED += ["{}_filenames.txt", "{}.list", "{}", "{}list01.txt", "{}_1.txt", "list_{}.txt"]
CALLED += ["images{}.lst", "My.{}Images.txt", "ImageSets/Main/{}.txt", "{}.json", "{}_ids.json"]


@pytest.mark.parametrize("called", CALLED)
def test_lists_are_called_in_many_ways(tmp_path, called):
    raw = tmp_path / "raw"
    save_images(raw / "images", *NAMES)
    write_table(raw)
    for split, names in SPLITS.items():
        path = raw / called.format(split)
        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [name[0] for name in names] if "ids" in called else names
        path.write_text(json.dumps(lines) if path.suffix == ".json" else "\n".join(lines))
    assert splits_of(read_all("auto", raw)) == DIVIDED


@pytest.mark.parametrize("name", ["trainval.txt", "train_val.txt", "all.txt"])
def test_a_list_of_several_splits_is_none(raw, name, capsys):
    write_lists(raw)
    (raw / name).write_text("".join(f"{own}\n" for own in (*SPLITS["train"], *SPLITS["val"])))
    assert splits_of(read_all("auto", raw)) == DIVIDED
    assert "not read, for" not in capsys.readouterr().err


def test_a_list_that_says_no_split_is_named_or_refused(raw, capsys):
    (raw / "holdout.txt").write_text("d.jpg\ne.jpg\n")
    read_all("auto", raw)
    said = capsys.readouterr().err
    assert "lists of a part of the images, not called like train.txt (holdout.txt)" in said
    (raw / "train.txt").write_text("a.jpg\nb.jpg\nc.jpg\n")
    said = refusal(read_all, "auto", raw)
    assert "holdout.txt: a list of other images than train.txt, and no name of a split" in said
    (raw / "holdout.txt").rename(raw / "test.txt")
    splits = splits_of(read_all("auto", raw))
    assert {name for name, split in splits.items() if split == "test"} == {"d.jpg", "e.jpg"}


def test_numbers_without_their_zeros(tmp_path):
    raw = tmp_path / "raw"
    names = [f"{number:06}.jpg" for number in (7, 8, 10, 11, 300)]
    save_images(raw / "images", *names, "7.jpg")
    (raw / "captions.csv").write_text("image,caption\n" + "".join(f"{n},A dog.\n" for n in names))
    (raw / "splits.json").write_text(json.dumps({"train": [8, 10], "val": [11], "test": [300, 7]}))
    expected = dict(zip(names, ["test", "train", "train", "val", "test"], strict=True))
    assert splits_of(read_all("auto", raw)) == expected
    with (raw / "captions.csv").open("a") as table:
        table.write("7.jpg,A dog.\n")
    splits = splits_of(read_all("auto", raw))  # what is called so comes first
    assert (splits["7.jpg"], "000007.jpg" in splits) == ("test", False)
    (raw / "splits.json").write_text(json.dumps({"train": [8, 10], "test": ["00007"]}))
    assert "entries that could be several images (1): 00007" in refusal(read_all, "auto", raw)


def test_a_list_of_other_images_beside_all_others_is_named(raw, capsys):
    write_lists(raw)
    (raw / "restval.txt").write_text("f.jpg\n")
    (raw / "a.txt").write_text("b\n")  # a caption, or what else stands beside an image
    assert splits_of(read_all("auto", raw)) == DIVIDED
    said = capsys.readouterr().err
    assert "lists of a part of the images, not called like train.txt (restval.txt)" in said
    assert "left out: 1 image in no split (" in said


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        (("test",), ("train", "train", "train", "test", "test", "train")),
        (("train",), ("train", "train", "test", "test", "test", "test")),
        (("val", "test"), ("train", "train", "val", "test", "test", "train")),
        (("train", "test"), ("train", "train", None, "test", "test", None)),
        (("train", "val", "test"), ("train", "train", "val", "test", "test", None)),
    ],
)
@pytest.mark.parametrize(("yes", "no"), [("True", "False"), ("1", "0"), ("yes", "")])
def test_an_image_without_a_flag(tmp_path, flags, expected, yes, no):
    lines = [["image", *(f"Is {flag}" for flag in flags)]]
    words = DIVIDED | {"f.jpg": ""}
    lines += [[name, *(yes if flag == words[name] else no for flag in flags)] for name in NAMES]
    (tmp_path / "about.csv").write_text("\n".join(map(",".join, lines)))
    found = images_in_table(tmp_path / "about.csv", Known(NAMES))
    splits = {name: split for split, names in found.items() for name in names}
    assert [splits.get(name) for name in NAMES] == list(expected)


@pytest.mark.parametrize("above", ["", "images/", "photos/of mine/"])
def test_the_folders_of_the_images(tmp_path, above, capsys):
    raw = tmp_path / "raw"
    save_images(raw, *(f"{above}{split}/{name}" for name, split in DIVIDED.items()))
    lines = "".join(f"{name},A dog.\n" for name in DIVIDED)
    (raw / "captions.csv").write_text("image,caption\n" + lines)
    assert splits_of(read_all("auto", raw)) == DIVIDED
    shown = ", ".join(f"{above}{split}" for split in ("test", "train", "val"))
    assert f"splits: of the folders {shown}" in capsys.readouterr().err
    (raw / "splits.json").write_text(json.dumps({"train": ["a", "b", "d"], "test": ["c", "e"]}))
    splits = splits_of(read_all("auto", raw))  # lists come first
    assert {name for name, split in splits.items() if split == "test"} == {"c.jpg", "e.jpg"}


@pytest.mark.parametrize("ending", [".txt", ".png", ".jpg"])
def test_folders_with_a_file_for_each_image(tmp_path, ending):
    """Of labels, masks, or links."""
    raw = tmp_path / "raw"
    save_images(raw / "images", *NAMES)
    write_table(raw)
    for name, split in DIVIDED.items():
        path = raw / "more" / split / f"{name[0]}{ending}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(raw / "images" / name)
    assert splits_of(read_all("auto", raw)) == DIVIDED


@pytest.mark.parametrize(
    ("places", "line"),
    [
        (6 * ["train"], ""),
        (["train", "test", *4 * ["bus"]], "test, train, with 2 of 6 images"),
        (["train", "bus", "car", "car", "bus", "train"], "train, with 2 of 6 images"),
        ([*5 * ["photos"], "test"], "test, with 1 of 6 images"),
    ],
)
def test_folders_that_divide_nothing(tmp_path, places, line, capsys):
    raw = tmp_path / "raw"
    save_images(raw, *(f"{place}/{name}" for name, place in zip(NAMES, places, strict=True)))
    (raw / "captions.csv").write_text("image,caption\n" + "".join(f"{n},A dog.\n" for n in NAMES))
    assert len(splits_of(read_all("auto", raw))) == len(NAMES)
    said = capsys.readouterr().err
    assert "splits drawn by seed" in said
    assert ("not taken for splits: " in said) == bool(line)
    assert line in said


def test_lists_at_the_top_and_beside_captions_further_down(raw, tmp_path):
    below = tmp_path / "above/dataset"
    below.parent.mkdir()
    raw.rename(below)
    write_lists(below.parent)
    assert splits_of(read_all("auto", below.parent)) == DIVIDED


@pytest.mark.parametrize("write", WRITERS[:4], ids=lambda write: write.__name__)
def test_lists_beside_captions_further_down(tmp_path, write):
    raw = tmp_path / "raw"
    save_images(raw / "images", *NAMES)
    (raw / "annotations").mkdir()
    write(raw / "annotations")
    write_lists(raw / "annotations")
    assert splits_of(read_all("auto", raw)) == DIVIDED


@pytest.mark.parametrize(
    "value", [SPLITS, DIVIDED, {"training": SPLITS["train"], "dev": ["c"], "test": ["d", "e"]}]
)
def test_one_json_file_of_all_lists(raw, value, capsys):
    (raw / "my_splits.json").write_text(json.dumps(value))
    assert splits_of(read_all("auto", raw)) == DIVIDED
    assert "splits: of the lists my_splits.json" in capsys.readouterr().err


def test_numbers_of_images_as_cub_has_them(raw, capsys):
    lines = [f"{number} x/{name}\n" for number, name in enumerate(NAMES, 1)]
    (raw / "images.txt").write_text("".join(lines) + "7\n")
    (raw / "train_test_split.txt").write_text("1 1\n2 1\n3 0\n4 0\n5 0\n6 1\n")
    splits = splits_of(read_all("auto", raw))
    assert {name for name, split in splits.items() if split == "test"} == set(NAMES[2:5])
    assert "splits: of the lists train_test_split.txt" in capsys.readouterr().err


def test_lists_that_somebody_names(raw):
    write_lists(raw / "lists")
    assert splits_of(read_all("auto", raw, split_files="lists")) == DIVIDED


@pytest.mark.parametrize(
    "value",
    [
        {"train": ["x.jpg", "y.jpg"], "test": ["z.jpg"]},  # other images
        {"train": NAMES},  # all of them
        {"train": 3, "test": [4]},
        [],
        "train",
    ],
)
def test_json_that_divides_nothing_is_no_list(raw, value, capsys):
    (raw / "splits.json").write_text(json.dumps(value))
    assert len(splits_of(read_all("auto", raw))) == len(NAMES)
    said = capsys.readouterr().err
    assert "splits drawn by seed: 1 val, 1 test" in said
    assert "of the lists" not in said


def test_lists_do_not_outrank_what_the_captions_say(tmp_path):
    raw = tmp_path / "raw"
    save_images(raw / "images", *NAMES)
    words = ["test", "train", "train", "val", "val", "test"]
    lines = [f"{name},A dog.,{word}\n" for name, word in zip(NAMES, words, strict=True)]
    (raw / "captions.csv").write_text("image,caption,split\n" + "".join(lines))
    write_lists(raw)
    assert splits_of(read_all("auto", raw)) == dict(zip(NAMES, words, strict=True))


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
@pytest.mark.parametrize("words", [("train", "val", "test"), ("training", "validation", "testing")])
def test_lists_of_other_names_and_encodings(tmp_path, words, encoding):
    """As Windows writes them; one name alone in a list is half of what it is known by."""
    raw = tmp_path / "raw"
    save_images(raw / "images", *NAMES)
    write_table(raw)
    for word, names in zip(words, SPLITS.values(), strict=True):
        text = "".join(f"{name}\n" for name in names)
        (raw / f"{word}.txt").write_text(text, encoding=encoding)
    images = read_all("auto", raw).images
    assert dict(zip(images["image_id"], images["split"], strict=True)) == DIVIDED


@pytest.mark.parametrize("named", ["images\\{}", "C:\\data\\{}", "https://example.org/x/{}"])
@pytest.mark.parametrize("listed", ["my photo {}", "my photo {}.jpg", "images/my photo {}.jpg"])
def test_lists_name_images_in_another_way_than_the_captions(tmp_path, named, listed):
    raw = tmp_path / "raw"
    save_images(raw / "images", *(f"my photo {number}.jpg" for number in range(5)))
    blank = "%20" if "https" in named else " "
    names = [named.format(f"my{blank}photo{blank}{number}.jpg") for number in range(5)]
    (raw / "captions.csv").write_text("image,caption\n" + "".join(f"{n},A dog.\n" for n in names))
    for split, numbers in {"train": (0, 1), "val": (2,), "test": (3, 4)}.items():
        (raw / f"{split}.txt").write_text("".join(f"{listed.format(n)}\n" for n in numbers))
    images = read_all("auto", raw).images
    assert images["split"].tolist() == ["train", "train", "val", "test", "test"]
    assert images["image_id"].str[-5].tolist() == ["0", "1", "2", "3", "4"]


def rows(form, words=DIVIDED):
    return "".join(form.format(name=name, stem=name[0], split=words[name]) for name in words)


UPPER = {name: {"val": "Dev"}.get(split, split.title()) for name, split in DIVIDED.items()}
RECORDS = [{"file_name": name, "width": 8, "split": split} for name, split in DIVIDED.items()]
TABLES = {
    "splits.csv": "image,split\n" + rows("{name},{split}\n"),
    "about.csv": "id,file_name,width,partition\n" + rows("1,images/{name},640,{split}\n", UPPER),
    "notes.tsv": "name\tkind\n" + rows("{stem}\t{split}\n"),
    "listed.csv": "split,image,note\n" + rows("{split},{name},a note, with commas, {stem}\n"),
    "quoted.csv": '"image","split","note"\n' + rows('"{name}","{split}","two\nlines"\n'),
    "split.txt": rows("{name} {split}\n"),
    "partition.txt": rows("{name},{split}\n"),
    "bars.txt": "image | split\n" + rows("{name} | {split}\n"),
    "wide.csv": "train,val,test\na.jpg,c,d.jpg\nb.jpg,,e.jpg\n",
    "flags.csv": "image,is_val,is_test\n"
    + rows("{name},{split},{split}\n")
    .replace("train,train", "False,False")
    .replace("val,val", "True,False")
    .replace("test,test", "False,True"),
    "list_eval_partition.csv": "image_id,partition\n"
    + rows("{name},{split}\n").replace("train", "0").replace("val", "1").replace("test", "2"),
    "list_eval_partition.txt": "a.jpg 0\nb.jpg 0\nc.jpg 1\nd.jpg 2\ne.jpg 2\n",
    "splits.txt": "[train]\na.jpg\nb.jpg\n\n[val]\nc.jpg\n\n[test]\nd.jpg\ne.jpg\n",
    "my_split.txt": "train: a.jpg, b.jpg\nval: c\ntest: d.jpg e.jpg\n",
    "splits.yaml": "train: [a.jpg, b.jpg]\nval: [c]\ntest:\n- d.jpg\n- e\n",
    "partition.json": json.dumps(
        {"of": "us", "splits": {f"{s}_ids": n for s, n in SPLITS.items()}}
    ),
    "subsets.json": json.dumps({s: [{"file_name": o} for o in n] for s, n in SPLITS.items()}),
    "images.json": json.dumps(RECORDS),
    "images.jsonl": "".join(f"{json.dumps(own)}\n" for own in RECORDS),
}


@pytest.mark.parametrize("name", TABLES)
def test_a_table_of_images_and_splits(raw, name, capsys):
    (raw / name).write_text(TABLES[name])
    assert splits_of(read_all("auto", raw)) == DIVIDED
    said = capsys.readouterr().err
    assert f"splits: of the lists {name}" in said
    assert "left out: 1 image in no split" in said


@pytest.mark.parametrize("form", ["image\n{}", "id,image\n1,{}", "{}", "7,{}\n", '"{}"\n'])
def test_lists_that_are_tables(raw, form):
    for split, names in SPLITS.items():
        header, _, line = form.rpartition("\n") if form.startswith("i") else ("", "", form.strip())
        text = "".join(f"{line.format(name)}\n" for name in names)
        (raw / f"{split}.csv").write_text(f"{header}\n{text}" if header else text)
    assert splits_of(read_all("auto", raw)) == DIVIDED


def test_a_list_for_test_alone_leaves_all_others_for_training(raw, capsys):
    (raw / "test.txt").write_text("d\ne.jpg\n")
    splits = splits_of(read_all("auto", raw))
    assert {name for name, split in splits.items() if split == "test"} == {"d.jpg", "e.jpg"}
    said = capsys.readouterr().err
    assert "of the lists test.txt; images that they lack are for training" in said
    assert "drawn from train by seed: 1 val" in said


@pytest.mark.parametrize("place", ["lists", "x/y/z"])
def test_lists_in_any_folder(raw, place, capsys):
    (raw / place).mkdir(parents=True)
    (raw / place / "splits.csv").write_text(TABLES["splits.csv"])
    assert splits_of(read_all("auto", raw)) == DIVIDED
    (raw / "other").mkdir()
    write_lists(raw / "other")
    said = refusal(read_all, "auto", raw)
    assert "several folders have lists of splits: " in said
    assert f"{place}/splits.csv" in said
    assert "other/train.txt" in said
    assert splits_of(read_all("auto", raw, split_files="other")) == DIVIDED
    write_lists(raw)  # what lies nearer comes first
    assert splits_of(read_all("auto", raw)) == DIVIDED


def test_tables_that_differ_are_refused_and_equal_ones_are_one(raw):
    (raw / "a.csv").write_text(TABLES["splits.csv"])
    (raw / "b.tsv").write_text(TABLES["splits.csv"].replace(",", "\t"))
    assert splits_of(read_all("auto", raw)) == DIVIDED
    (raw / "c.csv").write_text(TABLES["splits.csv"].replace("e.jpg,test", "e.jpg,train"))
    said = refusal(read_all, "auto", raw)
    assert "several tables with splits of the images: a.csv, b.tsv, c.csv" in said
    assert splits_of(read_all("auto", raw, split_files="a.csv")) == DIVIDED


def test_several_lists_of_one_split(raw):
    write_lists(raw)
    (raw / "old_train.txt").write_text("f.jpg\n")  # beside it is one called train
    assert splits_of(read_all("auto", raw)) == DIVIDED
    (raw / "train.txt").rename(raw / "new_train.txt")
    assert "several lists of train images: new_train.txt, old_train.txt" in refusal(
        read_all, "auto", raw
    )


def test_equal_lists_are_one(raw):
    write_lists(raw)
    for name in ("train", "test"):
        (raw / f"{name}.txt").rename(raw / f"{name}_list.txt")
        text = "".join(f"{own}\n" for own in reversed(SPLITS[name]))
        (raw / f"{name}_images.txt").write_text(text)
    assert splits_of(read_all("auto", raw)) == DIVIDED


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("split_notes.txt", "caf\xe9: train and test".encode("latin-1")),
        ("split.yaml", b"model: !include other.yaml\ntrain: [1, 2"),
        ("subsets.lst", b"\xff\xfe\x00"),
    ],
)
def test_other_files_that_are_called_like_splits(raw, name, content):
    (raw / name).write_bytes(content)
    write_lists(raw / "lists")
    assert splits_of(read_all("auto", raw)) == DIVIDED


def test_names_with_blanks_below_the_words_for_splits(tmp_path):
    raw = tmp_path / "raw"
    names = [f"my photo {number}.jpg" for number in range(3)]
    save_images(raw / "images", *names)
    (raw / "captions.csv").write_text("image,caption\n" + "".join(f"{n},A dog.\n" for n in names))
    lines = (f"[{split}]\n{name}\n" for split, name in zip(SPLITS, names, strict=True))
    (raw / "splits.txt").write_text("".join(lines))
    assert splits_of(read_all("auto", raw)) == dict(zip(names, SPLITS, strict=True))


def test_words_that_are_no_split(raw, capsys):
    (raw / "splits.csv").write_text(TABLES["splits.csv"] + "f.jpg,qual_dev\n")
    assert splits_of(read_all("auto", raw)) == DIVIDED
    assert "none of train, val and test: 1 of 'qual_dev'" in capsys.readouterr().err
    (raw / "splits.csv").write_text(TABLES["splits.csv"] + "f.jpg,restval\n")
    assert splits_of(read_all("auto", raw)) == DIVIDED | {"f.jpg": "train"}
    assert splits_of(read_all("auto", raw, restval="drop")) == DIVIDED


@pytest.mark.parametrize(
    "text",
    [
        "image,split\n" + "".join(f"{name},train\n" for name in NAMES),  # of one split
        "image,label\na.jpg,train\nb.jpg,bus\nc.jpg,test\n",  # of other words
        "image,split\nx.jpg,train\ny.jpg,test\n",  # of other images
        "split\ntrain\ntest\n",
        "",
        '"a.jpg,train\n',
    ],
)
def test_a_table_that_divides_nothing(raw, text, capsys):
    (raw / "about.csv").write_text(text)
    assert len(splits_of(read_all("auto", raw))) == len(NAMES)
    assert "of the lists" not in capsys.readouterr().err


def test_numbers_for_splits_are_asked_about(raw):
    lines = "".join(f"{name},{place % 2}\n" for place, name in enumerate(NAMES))
    (raw / "about.csv").write_text("image,split\n" + lines)
    said = refusal(read_all, "auto", raw)
    assert "about.csv: column split has numbers, and which are for training is not said" in said
    write_lists(raw / "lists")
    assert splits_of(read_all("auto", raw, split_files="lists")) == DIVIDED


def test_a_named_file_without_splits_and_damaged_records(raw):
    (raw / "about.csv").write_text("image,width\na.jpg,8\n")
    said = refusal(read_all, "auto", raw, split_files="about.csv")
    assert "about.csv: no splits of images; looked for a table" in said
    (raw / "about.csv").unlink()
    (raw / "images.jsonl").write_text(TABLES["images.jsonl"] + '{"file_name": "f')
    assert "images.jsonl, line 6: no JSON" in refusal(read_all, "auto", raw)


def test_an_image_in_two_splits_of_a_table(raw):
    (raw / "splits.csv").write_text(TABLES["splits.csv"] + "a,test\n")
    assert "images in more than one list (1): " in refusal(read_all, "auto", raw)


def test_lists_are_known_by_what_they_name(tmp_path):
    (tmp_path / "train.txt").write_text("a.jpg\nb\n")
    (tmp_path / "Flickr_8k.devImages.txt").write_text("c.jpg\n")
    (tmp_path / "test.txt").write_text("A caption\nAnother one\n")
    lists = find_split_lists(list_folder(tmp_path), "", ["a.jpg", "b.jpg", "c.jpg"])
    assert lists.images == {"train": ["a.jpg", "b"], "val": ["c.jpg"]}
    assert str(lists) == "train.txt, Flickr_8k.devImages.txt"
    assert find_split_lists(list_folder(tmp_path), "", ["z.jpg"]) is None


MANY = [f"more{number}.jpg" for number in range(50)]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("splits.csv", TABLES["splits.csv"] + "".join(f"{name},train\n" for name in MANY)),
        ("train.txt", "\n".join([*SPLITS["train"], *MANY])),
        ("train.csv", "\n".join(["image", *SPLITS["train"], *MANY])),
    ],
)
def test_lists_of_many_other_images_are_asked_about(raw, name, text):
    (raw / name).write_text(text)
    said = refusal(read_all, "auto", raw)
    assert f"{name}: of the first images that it lists, fewer than half have captions" in said
    (raw / name).unlink()
    read_all("auto", raw)


def test_images_of_lists_without_captions_are_counted(raw, capsys):
    (raw / "splits.csv").write_text(TABLES["splits.csv"] + "more.jpg,train\n")
    assert splits_of(read_all("auto", raw)) == DIVIDED
    assert "of the images of the lists 1 have no captions" in capsys.readouterr().err


def test_images_of_one_name_are_listed_with_their_folders(tmp_path):
    raw = tmp_path / "raw"
    places = {"x/1.jpg": "train", "y/1.jpg": "test", "x/2.jpg": "train", "y/3.jpg": "val"}
    save_images(raw, *places)
    lines = "".join(f"C:\\photos\\{name},A dog.\n".replace("/", "\\") for name in places)
    (raw / "captions.csv").write_text("image,caption\n" + lines)
    listed = "".join(f"{name},{split}\n" for name, split in places.items())
    (raw / "splits.csv").write_text("image,split\n" + listed)
    images = read_all("auto", raw).images
    assert dict(zip(images["image_id"], images["split"], strict=True)) == places
    (raw / "splits.csv").write_text("image,split\n1.jpg,train\n2,train\n3,val\n")
    assert "entries that could be several images (1): 1.jpg" in refusal(read_all, "auto", raw)


@pytest.mark.parametrize("title", ['"', 'a "', '"a', '"a, \n b"', '"a ""quote"'])
@pytest.mark.parametrize("place", range(5))
def test_a_quote_that_is_not_closed_loses_no_row(tmp_path, title, place):
    """In a list of one split, in a table of all, as the first field and as the last."""
    raw = tmp_path / "raw"
    save_images(raw / "images", *NAMES)
    write_table(raw)
    titles = [title if number == place else "none" for number in range(6)]
    rows = [f"{name},{own}" for name, own in zip(NAMES, titles, strict=True)]
    for split, names in SPLITS.items():
        own = (row for row in rows if row[:5] in names)
        (raw / f"{split}.csv").write_text("file_name,place\n" + "\n".join(own))
    assert splits_of(read_all("auto", raw)) == DIVIDED
    for split in SPLITS:
        (raw / f"{split}.csv").unlink()
    for line in ("{0},{1},{2}", "{1},{0},{2}", "{0},{2},{1}"):
        own = (
            line.format(name, t, DIVIDED.get(name, ""))
            for name, t in zip(NAMES, titles, strict=True)
        )
        (raw / "splits.csv").write_text(
            line.format("file_name", "place", "split") + "\n" + "\n".join(own)
        )
        assert splits_of(read_all("auto", raw)) == DIVIDED


def test_a_long_field_at_the_end_of_a_table(raw):
    long = "".join(f"{name},{split}\n" for name, split in DIVIDED.items()) * 2000
    (raw / "splits.csv").write_text(f'image,split\n{long}"{"x" * 140_000}')
    assert splits_of(read_all("auto", raw)) == DIVIDED


COUNTED_LISTS = {
    "as pandas writes them": (",image,class", "{n},{other}.jpg,dog"),
    "ids": ("id,image,label", "{n},{other}.jpg,1"),
    "padded": ("image_id,image", "{n},{other:06}.jpg"),
    "no endings": (",image_name,class", "{n},{other},dog"),
}


@pytest.mark.parametrize("kind", COUNTED_LISTS)
@pytest.mark.parametrize("form", ["lists", "one table", "flags"])
def test_numbers_that_count_the_rows_divide_nothing(tmp_path, kind, form):
    """Image 12 stands in row 1, 11 in row 2, and so on: the numbers are names of other images."""
    header, row = COUNTED_LISTS[kind]
    own = [row.format(n=n, other=13 - n) for n in range(1, 13)]
    save_images(tmp_path, *[f"{n:06}.jpg" if "06" in row else f"{n}.jpg" for n in range(1, 13)])
    wanted = {13 - n: "train" if n < 7 else "val" if n < 10 else "test" for n in range(1, 13)}
    names = [line.split(",")[1].removesuffix(".jpg") + ".jpg" for line in own]
    lines = "".join(f"{name},A dog.\n" for name in names)
    (tmp_path / "captions.csv").write_text("image,caption\n" + lines)
    if form == "lists":
        for split in ("train", "val", "test"):
            rows = [line for n, line in enumerate(own, 1) if wanted[13 - n] == split]
            (tmp_path / f"{split}.csv").write_text("\n".join([header, *rows]) + "\n")
    elif form == "one table":
        rows = [f"{line},{wanted[13 - n]}" for n, line in enumerate(own, 1)]
        (tmp_path / "splits.csv").write_text("\n".join([f"{header},split", *rows]) + "\n")
    else:
        flags = [
            f"{line},{wanted[13 - n] == 'val'},{wanted[13 - n] == 'test'}"
            for n, line in enumerate(own, 1)
        ]
        head = f"{header},is_val,is_test"
        (tmp_path / "splits.csv").write_text("\n".join([head, *flags]) + "\n")
    images = read_all("auto", tmp_path).images
    found = zip(images["image_id"], images["split"], strict=True)
    assert {int(name.removesuffix(".jpg")): split for name, split in found} == wanted


@pytest.mark.parametrize("name", ["{}.txt", "{}_labels.txt", "lists/{}_list.txt"])
@pytest.mark.parametrize("label", [" 0", " dog", "\tdog", ",dog", " 0 0 3"])
def test_lists_of_images_with_labels(tmp_path, name, label):
    save_images(tmp_path, *[f"{n}.jpg" for n in range(1, 13)])
    lines = "".join(f"{n}.jpg,A dog is number {n}.\n" for n in range(1, 13))
    (tmp_path / "captions.csv").write_text("image,caption\n" + lines)
    for split, numbers in {"train": range(1, 7), "val": range(7, 10), "test": (10, 11, 12)}.items():
        file = tmp_path / name.format(split)
        file.parent.mkdir(exist_ok=True)
        file.write_text("".join(f"{n}.jpg{label}\n" for n in numbers))
    corpus = read_all("auto", tmp_path)
    splits = corpus.images.set_index("image_id")["split"]
    assert splits.tolist() == ["train"] * 6 + ["val"] * 3 + ["test"] * 3
    assert splits["10.jpg"] == "test"
    assert corpus.captions["text"].str.startswith("A dog is number").all()


def test_names_with_commas_and_blanks_in_sections(tmp_path):
    save_images(tmp_path, *[f"a,b {n}.jpg" for n in range(6)])
    rows = "".join(f'"a,b {n}.jpg",A dog.\n' for n in range(6))
    (tmp_path / "captions.csv").write_text("image,caption\n" + rows)
    names = [f"a,b {n}" for n in range(6)]
    lists = ["[train]", *names[2:], "[val]", names[0], "[test]", names[1]]
    (tmp_path / "splits.txt").write_text("\n".join(lists) + "\n")
    splits = read_all("auto", tmp_path).images.set_index("image_id")["split"]
    assert splits["a,b 0.jpg"] == "val"
    assert splits["a,b 1.jpg"] == "test"


@given(
    name=st.sampled_from(["valid", "is_valid", "train", "test", "Is Test", "is_train", "is_val"]),
    others=st.booleans(),
    flags=st.lists(st.booleans(), min_size=20, max_size=20),
)
def test_a_column_of_flags_that_is_no_split(name, others, flags):
    columns = {"image": [f"{n}.jpg" for n in range(20)], name: [str(flag) for flag in flags]}
    if others:
        columns["person"] = ["1", "0"] * 10
    taken, left = flags_of_splits(columns)
    share = sum(flags) / len(flags)
    says_more = name in ("Is Test", "is_train", "is_val")
    may_be = 0.5 <= share <= 0.95 if name == "train" else share < 0.5
    is_taken = 0 < share < 1 and (says_more or (may_be and not others))
    assert list(taken) == ([name] if is_taken else [])
    assert left == ([] if is_taken else [name])


def test_images_with_two_flags_are_of_no_split():
    cells = {"train": ["1", "1", "0"], "test": ["0", "1", "1"]}
    assert flags_of_splits(cells) == ({}, ["train", "test"])
    cells = {"valid": ["1", "1", "0"], "is_test": ["0", "1", "0"]}
    assert flags_of_splits(cells) == ({"is_test": "test"}, ["valid"])


@pytest.mark.parametrize(("name", "is_split"), [("valid", False), ("is_test", True)])
def test_a_column_of_flags_is_named(tmp_path, name, is_split, capsys):
    save_images(tmp_path / "images", *(f"{n}.jpg" for n in range(10)))
    flags = ["1" if (n < 3) == is_split else "0" for n in range(10)]
    lines = [f"{n}.jpg,Dog number {n} runs.,{flags[n]}" for n in range(10)]
    (tmp_path / "captions.csv").write_text("\n".join([f"image,caption,{name}", *lines]))
    corpus = read_all("auto", tmp_path)
    said = capsys.readouterr().err
    assert ("of the lists captions.csv, column is_test" in said) == is_split
    assert ("not taken for splits: column valid in captions.csv" in said) != is_split
    assert (corpus.images["split"] == "test").sum() == (3 if is_split else 1)
