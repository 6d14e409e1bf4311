"""`vse look`: what a folder holds, without anything being read into the project."""

import shlex

from click.testing import CliRunner
from reader_cases import image_bytes, save_images, write_tar

from vse_workbench.commands.look import main


def look(*words):
    return CliRunner().invoke(main, [str(word) for word in words])


def test_what_a_folder_holds(tmp_path):
    names = [f"{number}.jpg" for number in range(10)]
    save_images(tmp_path / "my photos", *names[:9])
    lines = ["image;caption", *(f"{name};un chien noir" for name in names for _ in range(2))]
    (tmp_path / "mine.csv").write_text("\n".join(lines))
    before = sorted(tmp_path.rglob("*"))
    said = look(tmp_path).output.splitlines()
    assert said[0] == "dataset: captions_csv, because of mine.csv"
    assert f"images: 10 (train 8, val 1, test 1) in {tmp_path / 'my photos'}" in said
    assert "not there: 1 image: 9.jpg" in said
    assert "20 captions, 2 an image" in said
    assert "captions: Latin script, 3.0 words each" in said
    assert said.count("  0.jpg | un chien noir") + said.count("  1.jpg | un chien noir") >= 2
    assert said[-1] == f"to read it: vse recipe photographs -S raw={tmp_path}"
    assert sorted(tmp_path.rglob("*")) == before


def test_images_in_shards_are_said_to_be_in_the_folder(tmp_path):
    members = [(f"{n}.{kind}", data) for n in range(9) for kind, data in _sample(n).items()]
    write_tar(tmp_path / "photos.tar", members)
    assert f"images: 9 (train 7, val 1, test 1) in {tmp_path}" in look(tmp_path).output.splitlines()


def _sample(number):
    return {"jpg": image_bytes(number), "txt": b"a dog"}


def test_a_folder_without_captions_is_told_so(tmp_path):
    save_images(tmp_path, "a.jpg")
    done = look(tmp_path)
    assert done.exit_code == 1
    assert "no captions that a reader knows, among 1 image and no other file" in done.output


def test_what_was_named_is_in_the_line_that_reads_the_folder(tmp_path):
    names = [f"{number}.jpg" for number in range(4)]
    save_images(tmp_path / "my photos", *names)
    save_images(tmp_path / "other", *names)
    lines = ["photo id,caption_en,caption_de", *(f"{name},a dog,ein Hund" for name in names)]
    (tmp_path / "mine.csv").write_text("\n".join(lines))
    named = ["--dataset=captions_csv", "--annotations=mine.csv", "--images=my photos"]
    done = look(tmp_path, *named, "--image-field=photo id", "--caption-field=caption_de")
    assert "  0.jpg | ein Hund" in done.output.splitlines()
    (line,) = [line for line in done.output.splitlines() if line.startswith("to read it")]
    settings = [word for word in shlex.split(line) if "=" in word]
    assert settings == [
        f"raw={tmp_path}",
        "dataset=captions_csv",
        "corpus.annotations=mine.csv",
        "corpus.images=my photos",
        "corpus.image_field=photo id",
        "corpus.caption_field=caption_de",
    ]


def test_what_lines_of_texts_are_is_in_the_line_that_reads_the_folder(tmp_path):
    names = [f"{number}.jpg" for number in range(4)]
    save_images(tmp_path, *names)
    for name in names:
        text = f"A dog runs to the mill of {name}\nand back."
        (tmp_path / name).with_suffix(".txt").write_text(text)
    assert "set corpus.text_lines" in look(tmp_path).output
    done = look(tmp_path, "--text-lines=joined")
    assert "  0.jpg | A dog runs to the mill of 0.jpg and back." in done.output.splitlines()
    assert done.output.endswith(f"-S raw={tmp_path} -S corpus.text_lines=joined\n")


def test_rows_are_chosen(tmp_path):
    rows = []
    save_images(tmp_path, *(f"{number}.jpg" for number in range(12)))
    for number in range(12):
        rows += [f"{number}.jpg,en,A dog runs {number}.", f"{number}.jpg,de,Ein Hund {number}."]
    (tmp_path / "x.csv").write_text("\n".join(["image,lang,caption", *rows]))
    assert "vse look --rows lang=en" in look(tmp_path).output
    done = look(tmp_path, "--rows=lang=de")
    assert "  0.jpg | Ein Hund 0." in done.output.splitlines()
    assert done.output.endswith(f"-S raw={tmp_path} -S corpus.rows=lang=de\n")
