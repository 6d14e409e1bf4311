"""Captions whose images are ids of a second table, as databases write them."""

import pytest
from commands import refusal
from reader_cases import read_all, save_images

NAMES = [f"{number}.jpg" for number in range(1, 7)]
IDS = {name: f"{number + 50}" for number, name in enumerate(NAMES)}
SPLITS = dict(zip(NAMES, ["train", "train", "train", "val", "test", "test"], strict=True))


def images(head="id,file_name", form="{id},{name}", names=NAMES):
    lines = [form.format(id=IDS[name], name=name, split=SPLITS[name]) for name in names]
    return "\n".join([head, *lines]) + "\n"


def captions(head="id,image_id,caption", form="9{id},{id},Of {name}.", names=NAMES):
    return images(head, form, names)


@pytest.fixture
def raw(tmp_path):
    save_images(tmp_path / "raw/photos", *NAMES)
    return tmp_path / "raw"


def described(corpus):
    """The image that every image's caption means, by the image."""
    return {
        image.rpartition("/")[2]: text.removeprefix("Of ").removesuffix(".")
        for image, text in corpus.captions[["image_id", "text"]].itertuples(index=False)
    }


OWN = {name: name for name in NAMES}
FORMS = {
    "plain": (images(), captions()),
    "tabs": (
        images("image_id\tpath", "{id}\tphotos/{name}"),
        captions("image_id\ttext", "{id}\tOf {name}."),
    ),
    "other columns": (
        images("id,width,filename,source", "{id},8,{name},web"),
        captions("caption,img_id,lang", "Of {name}.,{id},en"),
    ),
    "row numbers": (
        images("id,image_id,file", "7{id},{id},{name}"),
        captions("image_id,title", '{id},"Of {name}."'),
    ),
    "other order": (images(names=NAMES[::-1]), captions()),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("reader", ["auto", "joined_tables"])
def test_every_caption_is_given_the_image_of_its_id(raw, form, reader, capsys):
    first, second = FORMS[form]
    (raw / "images.csv").write_text(first)
    (raw / "captions.csv").write_text(second)
    assert described(read_all(reader, raw)) == OWN
    said = capsys.readouterr().err
    assert "the ids of captions.csv are those of images.csv" in said
    assert "splits drawn by seed" in said


def of(split):
    return [name for name in NAMES if SPLITS[name] == split]


IN = {split: of(split) for split in ("train", "val", "test")}
WITH_SPLITS = {
    "images": {
        "images.csv": images("id,file,split", "{id},{name},{split}"),
        "captions.csv": captions(),
    },
    "captions": {
        "images.csv": images(),
        "captions.txt": captions("image_id,caption,set", "{id},Of {name}.,{split}"),
    },
    "files of images": {
        **{f"images_{split}.csv": images(names=names) for split, names in IN.items()},
        "captions.csv": captions(),
    },
    "files of captions": {
        "images.csv": images(),
        **{f"told_{split}.csv": captions(names=names) for split, names in IN.items()},
    },
    "a list": {
        "images.csv": images(),
        "captions.csv": captions(),
        "splits.csv": images("image,split", "{name},{split}"),
    },
    "a list of ids": {
        "images.csv": images(),
        "captions.csv": captions(),
        "splits.csv": images("image_id,split", "{id},{split}"),
    },
}


@pytest.mark.parametrize("place", WITH_SPLITS)
def test_splits(raw, place):
    for name, text in WITH_SPLITS[place].items():
        (raw / name).write_text(text)
    corpus = read_all("auto", raw)
    found = zip(corpus.images["image_id"].str[-5:], corpus.images["split"], strict=True)
    assert dict(found) == SPLITS
    assert described(corpus) == OWN


@pytest.mark.parametrize("file", ["captions.csv", "captions.txt", "told.csv"])
@pytest.mark.parametrize("head", ["id,file", "id,file,split"])
def test_ids_that_are_names_of_other_images_are_asked_about(raw, file, head):
    """Alone the table of captions has images, too: others. Whichever is right, nobody can know."""
    other = {IDS[name]: f"{number % 6 + 1}" for number, name in enumerate(NAMES, 1)}
    first = images(head, "{id},{name},{split}" if "split" in head else "{id},{name}")
    second = captions("image_id,caption", "{id},Of {name}.")
    for own, name in other.items():
        first = first.replace(f"{own},", f"{name},")
        second = second.replace(f"{own},", f"{name},")
    (raw / "images.csv").write_text(first)
    (raw / file).write_text(second)
    said = refusal(read_all, "auto", raw)
    assert "could be of several kinds" in said
    assert described(read_all("joined_tables", raw)) == OWN
    assert described(read_all("captions_csv", raw, annotations=file)) != OWN


@pytest.mark.parametrize("head", ["id,caption", "id,image,caption", "img,caption", "9,photo,text"])
def test_the_id_of_an_image_under_any_name(raw, head):
    """Alone, the table of captions has numbers that are names of other images."""
    form = "{id},{id},Of {name}." if head.count(",") == 2 else "{id},Of {name}."
    first, second = images(), captions(head, form)
    for number, own in enumerate(IDS.values(), 1):
        first = first.replace(f"{own},", f"{number % 6 + 1},")
        second = second.replace(f"{own},", f"{number % 6 + 1},")
    (raw / "images.csv").write_text(first)
    (raw / "captions.csv").write_text(second)
    assert "could be of several kinds" in refusal(read_all, "auto", raw)
    assert described(read_all("joined_tables", raw)) == OWN


def test_ids_that_are_the_names_of_the_files_need_no_second_table(raw, capsys):
    (raw / "captions.csv").write_text(captions("image_id,caption", "{name},Of {name}."))
    (raw / "images.csv").write_text(images("image_id,file_name", "{name},{name}"))
    assert described(read_all("auto", raw)) == OWN
    assert "dataset: captions_csv" in capsys.readouterr().err


def test_columns_of_other_names(raw):
    (raw / "images.csv").write_text(images())
    (raw / "told.csv").write_text(
        captions("shot,caption_en,caption_de", "{id},Of {name}.,Von {name}.")
    )
    chosen = {"annotations": "told.csv", "image_field": "shot", "caption_field": "caption_en"}
    assert described(read_all("joined_tables", raw, **chosen)) == OWN
    assert described(
        read_all("joined_tables", raw, **chosen | {"caption_field": "caption_de"})
    ) == {name: f"Von {name}" for name in NAMES}


def test_what_does_not_fit_together_is_refused(raw):
    (raw / "images.csv").write_text(images(names=NAMES[1:]))
    (raw / "captions.csv").write_text(captions())
    said = refusal(read_all, "auto", raw)
    assert "captions.csv: captions of images that have no row, ids (1): 50" in said
    (raw / "images.csv").write_text(images() + "51,6.jpg\n")
    said = refusal(read_all, "auto", raw)
    assert "images.csv: ids of more than one image, or of one in two splits (1): 51" in said
    (raw / "images.csv").write_text(images("id,file,split", "{id},{name},{split}"))
    (raw / "captions.csv").write_text(captions("image_id,caption,split", "{id},Of {name}.,train"))
    said = refusal(read_all, "auto", raw)
    assert "captions in another split than their image, ids (3): 53, 54, 55" in said
    (raw / "images.csv").unlink()
    said = refusal(read_all, "joined_tables", raw, annotations="captions.csv")
    assert "captions.csv alone; looked for a table of images with columns of ids and files" in said
