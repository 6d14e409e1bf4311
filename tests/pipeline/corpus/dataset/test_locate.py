"""Images are found by the names that annotations give, wherever their folder is."""

import shutil

import pytest
from commands import refusal
from reader_cases import save_images

from pipeline.corpus.dataset.folder import list_folder
from pipeline.corpus.dataset.locate import locate_images
from pipeline.runtime.text import is_inside


def located(raw, *names, chosen=None):
    """The files that names lead to, as paths inside raw, and the remarks."""
    found = locate_images(list_folder(raw), chosen, names)
    root = found.root.relative_to(raw).as_posix()
    inside = [name if root == "." else f"{root}/{name}" for name in map(found.path, names)]
    return inside, found.remarks


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("Images/1.jpg", "1.jpg"),
        ("flickr30k-images/1.jpg", "1.jpg"),
        ("1.jpg", "1.jpg"),
        ("some/where/1.jpg", "1.jpg"),
        ("flickr30k_images/flickr30k_images/1.jpg", "1.jpg"),
        ("images/1.jpg", "images/1.jpg"),
        ("images/1.jpg", "./images/1.jpg"),
        ("images/1.jpg", "images\\1.jpg"),
        ("images/1.jpg", "C:\\Users\\me\\images\\1.jpg"),
        ("images/1.jpg", "/home/me/data/images/1.jpg"),
        ("photos/1.jpg", "/home/me/data/images/1.jpg"),
        ("images/1.JPG", "1.jpg"),
        ("images/1.jpg", "1"),
        ("images/train/1.jpg", "train/1.jpg"),
        ("val2017/000000000042.jpg", "val2014/COCO_val2014_000000000042.jpg"),
        # macOS writes the mark of a letter as a character of its own
        ("e\u0301te\u0301/cafe\u0301.jpg", "\u00e9t\u00e9/caf\u00e9.jpg"),
        ("caf\u00e9.jpg", "cafe\u0301.jpg"),
        ("images/my photo.jpg", "my%20photo.jpg"),
        ("images/100%.jpg", "100%25.jpg"),
        ("images/100%25.jpg", "100%25.jpg"),
        # a spreadsheet takes the zeros of a number
        ("images/000042.jpg", "42"),
        ("images/000042.jpg", "42.jpg"),
        ("images/000000.png", "0"),
        ("images/42.jpg", "000042.jpg"),
    ],
)
def test_a_name_and_the_file_that_it_means(tmp_path, file, name):
    save_images(tmp_path, file)
    assert located(tmp_path, name)[0] == [file]


def test_a_name_that_is_there_is_not_decoded(tmp_path):
    save_images(tmp_path, "images/my photo.jpg", "images/my%20photo.jpg")
    assert located(tmp_path, "my%20photo.jpg")[0] == ["images/my%20photo.jpg"]


def test_a_number_that_two_files_have_is_of_neither(tmp_path):
    save_images(tmp_path, "images/042.jpg", "images/0042.jpg", "images/7.jpg")
    assert located(tmp_path, "42", "007")[0] == ["42", "images/7.jpg"]


def test_what_was_assumed_is_said(tmp_path):
    save_images(tmp_path, "pictures/1.jpg", "pictures/2.jpg")
    assert located(tmp_path, "1.jpg", "2.jpg")[1] == (
        f"images: 2 of 2 are in {tmp_path / 'pictures'}",
    )
    (remark,) = located(tmp_path, "x\\1.jpg", "x\\2.jpg")[1]
    assert remark.endswith(r"'x\\1.jpg' is pictures/1.jpg")
    save_images(tmp_path / "Images", "1.jpg", "2.jpg")
    assert located(tmp_path, "1.jpg", "2.jpg") == (["Images/1.jpg", "Images/2.jpg"], ())


def test_equal_names_in_folders_of_their_own(tmp_path):
    save_images(tmp_path, "disk/train/0.jpg", "disk/val/0.jpg", "disk/val/1.jpg")
    names = ["/old/train/0.jpg", "/old/val/0.jpg", "/old/val/1.jpg"]
    assert located(tmp_path, *names)[0] == ["disk/train/0.jpg", "disk/val/0.jpg", "disk/val/1.jpg"]
    assert "several folders hold the images: disk/train, disk/val" in refusal(
        located, tmp_path, "0.jpg"
    )
    assert located(tmp_path, "0.jpg", chosen="disk/val")[0] == ["disk/val/0.jpg"]


def test_a_folder_that_is_not_there_is_not_replaced_by_another(tmp_path):
    """val2014/1.jpg is not train2014/1.jpg, although its last part is the same."""
    save_images(tmp_path, "train2014/1.jpg", "train2014/2.jpg")
    names = ["train2014/1.jpg", "train2014/2.jpg", "val2014/1.jpg"]
    assert located(tmp_path, *names)[0] == names


@pytest.mark.parametrize("above", ["images/", "/home/me/images/", "https://a.org/images/"])
@pytest.mark.parametrize(
    "stray", ["cats/3.jpg", "images/old/3.jpg", "rejected/3.JPG", "cats/3.png"]
)
def test_an_image_that_its_folder_lacks_is_not_there(tmp_path, above, stray):
    save_images(tmp_path, "images/1.jpg", "images/2.jpg", stray)
    names = [f"{above}{number}.jpg" for number in (1, 2, 3)]
    found = locate_images(list_folder(tmp_path), None, names)
    assert [found.path(name) for name in names[:2]] == ["images/1.jpg", "images/2.jpg"]
    assert not (found.root / found.path(names[2])).exists()
    assert is_inside(found.path(names[2]))


def test_images_outside_of_the_folder_of_most_are_shown(tmp_path):
    save_images(tmp_path, "images/1.jpg", "images/2.jpg", "cats/3.jpg")
    inside, remarks = located(tmp_path, "1.jpg", "2.jpg", "3.jpg")
    assert inside == ["images/1.jpg", "images/2.jpg", "cats/3.jpg"]
    assert remarks == (
        "images: 3 of 3 are found by the last part of their names, 2 in images, the others in cats:"
        " '3.jpg' is cats/3.jpg",
    )


def test_links_are_followed_and_circles_end(tmp_path):
    raw, disk = tmp_path / "raw", tmp_path / "disk"
    raw.mkdir()
    save_images(disk, "1.jpg", "sub/2.jpg")
    (raw / "images").symlink_to(disk)
    (disk / "again").symlink_to(raw)
    assert located(raw, "1.jpg", "sub/2.jpg")[0] == ["images/1.jpg", "images/sub/2.jpg"]
    assert located(raw, "/x/2.jpg")[0] == ["images/sub/2.jpg"]
    assert set(list_folder(raw)) >= {"images/1.jpg", "images/sub/2.jpg"}


def test_none_is_there(tmp_path):
    raw = tmp_path / "captions"
    raw.mkdir()
    assert "none of the 1 images of the annotations is there" in refusal(located, raw, "1.jpg")
    save_images(tmp_path / "photos", "1.jpg")
    message = refusal(located, raw, "1.jpg")
    assert f"they are in {tmp_path / 'photos'}: set raw: {tmp_path} in params.yaml" in message


@pytest.mark.parametrize("name", ["Images.zip", "sub/images.tar.gz", "photos.7z"])
def test_none_is_there_but_an_archive_is(tmp_path, name):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_bytes(b"PK")
    message = refusal(located, tmp_path, "1.jpg")
    assert f"if they are in {tmp_path / name}, unpack it there" in message


def test_two_names_of_one_file_are_refused(tmp_path):
    save_images(tmp_path, "images/1.jpg")
    message = refusal(located, tmp_path, "/a/images/1.jpg", "/b/images/1.jpg")
    assert "files that several images of the annotations could be (1): images/1.jpg" in message


def test_hidden_files_are_passed_over(tmp_path):
    save_images(tmp_path, ".git/1.jpg", "__MACOSX/1.jpg", "a/1.jpg", "a/._1.jpg")
    assert list(list_folder(tmp_path)) == ["a/1.jpg"]


@pytest.mark.parametrize(
    "place", ["@eaDir/1.jpg", "#recycle", "$RECYCLE.BIN", "System Volume Information", "lost+found"]
)
def test_what_a_system_keeps_for_itself_is_passed_over(tmp_path, place):
    """Synology's thumbnails lie beside each photograph."""
    save_images(tmp_path, f"photos/{place}/SYNOPHOTO_THUMB_XL.jpg", "photos/1.jpg")
    assert list(list_folder(tmp_path)) == ["photos/1.jpg"]


@pytest.mark.parametrize(
    "written", ["ONE TWO THREE FOUR", "01 02 03 04", "1.JPG 2.JPG 3.JPG 4.JPG"]
)
def test_names_without_endings_of_several_folders(tmp_path, written):
    """As ROCO has them: a table for each split, names alone, and a folder for each."""
    places = ("train", "train", "val", "test")
    files = [
        f"{place}/images/{name.lower() if name[0].isalpha() else name.lower().lstrip('0')}"
        for place, name in zip(places, written.split(), strict=True)
    ]
    files = [file if file.endswith(".jpg") else f"{file}.jpg" for file in files]
    save_images(tmp_path, *files)
    assert located(tmp_path, *written.split())[0] == files


def test_a_name_without_an_ending_that_two_files_have_is_of_neither(tmp_path):
    save_images(tmp_path, "train/1.jpg", "train/2.jpg", "val/3.jpg", "test/3.png")
    error = refusal(located, tmp_path, "1", "2", "3")
    assert (
        "1 image of the annotations may be several files: '3' may be test/3.png, val/3.jpg" in error
    )
    inside, _ = located(tmp_path, "1", "2", "val/3.jpg")
    assert inside == ["train/1.jpg", "train/2.jpg", "val/3.jpg"]


def test_images_of_several_folders_that_the_names_leave_out(tmp_path):
    """As VizWiz has them: `VizWiz_val_0.jpg` is in val/."""
    files = {"train": ["one.jpg", "two.jpg", "three.jpg"], "val": ["four.jpg"]}
    files["thumbs"] = ["three.jpg", "four.jpg"]  # a folder that repeats those found is none of them
    for folder, names in files.items():
        save_images(tmp_path / folder, *names)
    names = [*files["train"], *files["val"]]
    inside, _ = located(tmp_path, *names)
    assert inside == ["train/one.jpg", "train/two.jpg", "train/three.jpg", "val/four.jpg"]
    save_images(tmp_path / "test", "four.jpg")  # which of the two it is, nobody can tell
    assert located(tmp_path, *names)[0][-1] == "train/four.jpg"


SHARDS = [f"shards/{number % 2}/{number}.webp" for number in range(6)]


@pytest.mark.parametrize(
    ("others", "names"),
    [
        ("smaller/{}.webp", "{}.webp"),
        ("smaller/{}.webp", "{}"),
        ("smaller/{}.webp", "data/{}.jpg"),
        ("masks/{}.gif", "{}"),
        ("masks/{}.gif", "{}.jpg"),
    ],
)
def test_images_that_may_be_other_files_of_their_names(tmp_path, others, names):
    """A folder that holds all of them may hold smaller ones, or masks."""
    save_images(tmp_path, *SHARDS, *(others.format(number) for number in range(6)))
    wanted = [names.format(number) for number in range(6)]
    said = refusal(located, tmp_path, *wanted)
    folder = others.split("/")[0]
    assert "have several files: '" in said
    assert f"{folder}/0." in said
    assert "shards/0/0.webp" in said
    assert "corpus.images" in said
    found, _ = located(tmp_path, *wanted, chosen="shards")
    assert found == SHARDS
    found, _ = located(tmp_path, *wanted, chosen=folder)
    assert found == [others.format(number) for number in range(6)]


def test_the_ways_out_where_images_have_several_files(tmp_path):
    save_images(tmp_path, *(f"{place}/{n}.jpg" for place in ("a", "b/c") for n in range(4)))
    names = [f"{number}.png" for number in range(4)]
    said = refusal(located, tmp_path, *names)
    assert (
        "4 images of the annotations have several files: '0.png' may be a/0.jpg, b/c/0.jpg" in said
    )
    assert said.endswith("choose with corpus.images in params.yaml: a, b")
    save_images(tmp_path, "d/0.jpg", "d/1.jpg", "d/2.jpg", "e/3.jpg")
    shutil.rmtree(tmp_path / "b")
    said = refusal(located, tmp_path, *names)
    assert said.endswith(
        "if those in a are meant, set corpus.images: a in params.yaml, else move a away"
    )
    assert located(tmp_path, *names, chosen="a")[0] == [f"a/{number}.jpg" for number in range(4)]
    shutil.rmtree(tmp_path / "a")
    assert located(tmp_path, *names)[0] == ["d/0.jpg", "d/1.jpg", "d/2.jpg", "e/3.jpg"]


def test_a_name_with_its_ending_is_that_file(tmp_path):
    save_images(tmp_path, *SHARDS, *(f"masks/{number}.gif" for number in range(6)))
    found, _ = located(tmp_path, *(f"{number}.webp" for number in range(6)))
    assert found == SHARDS
    save_images(tmp_path, *(f"images/{number}.png" for number in range(6)))
    found, _ = located(tmp_path, *map(str, range(6)))
    assert found == [f"images/{number}.png" for number in range(6)]  # a usual name


def test_images_of_other_splits_may_be_numbered_anew(tmp_path):
    """Fewer than half have another file of their name, which is no copy."""
    save_images(tmp_path, *(f"train/{n}.jpg" for n in range(6)), "val/0.jpg", "test/1.jpg")
    said = refusal(located, tmp_path, *(f"{number}.jpg" for number in range(6)))
    assert (
        "2 images of the annotations have several files: '0.jpg' may be train/0.jpg, val/0" in said
    )
    assert "name images with their folders in the annotations" in said
    names = [*(f"train/{number}.jpg" for number in range(6)), "val/0.jpg", "test/1.jpg"]
    assert located(tmp_path, *names)[0] == names


def test_some_copies_are_no_doubt(tmp_path):
    save_images(tmp_path, *(f"photos/{number}.jpg" for number in range(6)))
    save_images(tmp_path, "readme/0.jpg", "readme/1.jpg")
    found, _ = located(tmp_path, *(f"{number}.jpg" for number in range(6)))
    assert found == [f"photos/{number}.jpg" for number in range(6)]


@pytest.mark.parametrize("name", ["http://x.org/photos/{}.jpg", "https://x.org/IMG_{}.png?size=2"])
def test_numbers_of_addresses_are_no_rows(tmp_path, name):
    save_images(tmp_path, *(f"images/{number}.jpg" for number in range(30)))
    save_images(tmp_path, *(f"images/IMG_{number}.jpg" for number in range(30)))
    names = [name.format(7 * number) for number in range(30)]
    error = refusal(located, tmp_path, *names)
    assert "of 30 images named by addresses 5 have a file of the same number" in error
    assert "corpus.image_field" in error
    inside, _ = located(tmp_path, *(name.format(number) for number in range(30)))
    assert len(inside) == 30


def test_ids_in_addresses_are_found_wherever_the_others_are(tmp_path):
    names = [f"http://x.org/{number}_o.jpg" for number in range(4_385_058_960, 4_385_058_980)]
    save_images(tmp_path, *(f"images/{name.rpartition('/')[2]}" for name in names[:3]))
    assert located(tmp_path, *names)[0][:3] == [f"images/{n.rpartition('/')[2]}" for n in names[:3]]
