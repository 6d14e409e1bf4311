import gzip
import io
import json
import pickle
import shlex
import shutil
import subprocess
import tarfile
from dataclasses import replace

import pytest
import webdataset
from hypothesis import example, given, settings
from hypothesis import strategies as st
from reader_cases import files_of, image_bytes, options, read_all, texts_of, write_tar

from pipeline.corpus.dataset.folder import list_folder
from pipeline.corpus.readers import webdataset as webdataset_reader
from pipeline.corpus.readers.webdataset import DamagedTar, read_members
from pipeline.runtime.errors import WorkbenchError

JPG = [image_bytes(n) for n in range(6)]


@pytest.fixture
def raw(tmp_path):
    raw = tmp_path / "raw"
    raw.mkdir()
    shards = {
        "train-000000.tar": [
            {"__key__": "0001", "jpg": JPG[0], "txt": "A dog.\nA brown dog.\n"},
            {"__key__": "0002", "png": image_bytes(1, "PNG"), "json": {"caption": "Two cats."}},
        ],
        "train-000001.tar": [{"__key__": "0001", "jpeg": JPG[2], "txt": "A horse.", "cls": 3}],
        "val-000000.tar": [
            {"__key__": "a/0", "webp": image_bytes(3, "WEBP"), "json": {"captions": ["x", "y"]}}
        ],
        "test-000000.tar": [{"__key__": "0", "jpg": JPG[4], "txt": "A bird.", "json": {"k": 1}}],
    }
    for name, samples in shards.items():
        with webdataset.TarWriter(str(raw / name)) as writer:
            for sample in samples:
                writer.write(sample)
    return raw


def refusal(raw, **changed):
    with pytest.raises(WorkbenchError) as caught:
        read_all("webdataset", raw, **changed)
    assert not (raw.parent / "out" / "images").exists()  # nothing half read stays
    return caught.value.message


@pytest.mark.parametrize(
    ("others", "missing"),
    [
        ({"train-000004.tar": None}, "2 shards: train-000002, train-000003"),
        ({"sizes.json": {"train-000000.tar": 2, "val-000001.tar": 2}}, "1 shard: val-000001"),
        ({"_info.json": {"files": ["https://x.org/a/dev-0.tar"]}}, "1 shard: dev-0"),
        ({"val-000007_stats.json": {"count": 9}}, "1 shard: val-000007"),
        ({"2019.tar": None, "2021.tar": None}, ""),
    ],
)
def test_shards_that_are_not_there_are_named(raw, others, missing, capsys):
    for number, (name, value) in enumerate(others.items()):
        if value is None:
            image = image_bytes(20 + number)
            name = name if name.startswith("train") else f"train/{name}"
            write_tar(raw / name, [("1.jpg", image), ("1.txt", b"A cow.")])
        else:
            (raw / name).write_text(json.dumps(value))
    read_all("webdataset", raw)
    said = capsys.readouterr().err
    line = f"not there: {missing}; those that are there are read"
    assert line in said if missing else "not there" not in said


def test_the_same_samples_as_webdataset_reads(raw, capsys):
    corpus = read_all("webdataset", raw)
    assert corpus.images["split"].tolist() == ["train", "train", "train", "val", "test"]
    expected = {}
    for shard in sorted(raw.glob("*.tar")):
        for sample in webdataset.WebDataset(str(shard), shardshuffle=False, empty_check=False):
            ending = next(kind for kind in ("jpg", "jpeg", "png", "webp") if kind in sample)
            expected[f"{shard.stem}/{sample['__key__']}.{ending}"] = sample[ending]
    assert files_of(corpus) == expected
    assert texts_of(corpus) == {
        "train-000000/0001.jpg": ["A dog.", "A brown dog."],
        "train-000000/0002.png": ["Two cats."],
        "train-000001/0001.jpeg": ["A horse."],
        "val-000000/a/0.webp": ["x", "y"],
        "test-000000/0.jpg": ["A bird."],
    }
    first = [f"train-000000/0001.jpg#{n}" for n in range(2)]
    assert corpus.captions["caption_id"].tolist()[:2] == first
    assert "left out, members of other kinds: 1 'cls'" in capsys.readouterr().err


def test_images_lie_in_the_corpus_which_is_not_written_over(raw):
    corpus = read_all("webdataset", raw)
    root = raw.parent / "out" / "images"
    assert corpus.images["path"][0] == (root / "train-000000" / "0001.jpg").as_posix()
    before = files_of(corpus)
    with pytest.raises(WorkbenchError, match="out/images: is there already"):
        read_all("webdataset", raw)
    assert files_of(corpus) == before


def test_shards_without_a_split_are_split_by_seed_and_folders_name_one(tmp_path):
    raw = tmp_path / "raw"
    write_tar(raw / "0.tar", [(f"{n}.jpg", JPG[n]) for n in range(4)])
    write_tar(raw / "1.tar", [(f"{n}.txt", b"A dog.") for n in range(4)])
    assert "(8)" in refusal(raw)  # captions do not find images of another shard
    members = [m for n in range(4) for m in [(f"./{n}.jpg", JPG[n]), (f"./{n}.txt", b"A dog.")]]
    write_tar(raw / "0.tar", members)
    (raw / "1.tar").unlink()
    corpus = read_all("webdataset", raw)
    assert corpus.images["split"].tolist() == ["train", "train", "val", "test"]
    assert set(corpus.images["image_id"]) == {f"0/{n}.jpg" for n in range(4)}
    write_tar(raw / "train" / "0.tar", members)
    with pytest.raises(WorkbenchError, match=r"name no split beside others that do \(1\): 0"):
        read_all("webdataset", raw)


def test_the_images_of_the_rest_of_val_do_not_stay(tmp_path):
    raw = tmp_path / "raw"
    for split, numbers in {"train": [0], "val": range(1, 6)}.items():
        rows = [[(f"{n}.jpg", JPG[n]), (f"{n}.txt", b"x")] for n in numbers]
        write_tar(raw / f"{split}-0.tar", [member for row in rows for member in row])
    corpus = read_all("webdataset", raw)
    files = [path for path in (tmp_path / "out" / "images").rglob("*") if path.is_file()]
    assert len(files) == len(corpus.images) == 3


def test_fields_are_chosen_by_option(tmp_path):
    raw = tmp_path / "raw"
    members = []
    for n in range(3):
        members += [(f"{n}.left.jpg", JPG[n]), (f"{n}.right.jpg", JPG[n + 3])]
        members += [(f"{n}.txt", b"x"), (f"{n}.json", b'{"long": "from the json %d"}' % n)]
    write_tar(raw / "0.tar", members)
    corpus = read_all("webdataset", raw, image_field="right.jpg", caption_field="long")
    assert files_of(corpus)["0/1.right.jpg"] == JPG[4]
    assert texts_of(corpus)["0/1.right.jpg"] == ["from the json 1"]


def broken(raw, *members):
    write_tar(raw / "train-000002.tar", members)
    return raw


def test_captions_whose_image_is_missing_are_named_and_may_be_left_out(raw):
    broken(raw, ("7.txt", b"A ghost."), ("8.jpg", JPG[5]), ("8.txt", b"A dog."), ("9.jpg", b""))
    message = refusal(raw)
    assert "cannot be used (2): train-000002/7 (no image in the shard)" in message
    assert "train-000002/9.jpg (empty file)" in message
    corpus = read_all("webdataset", raw, skip_bad_images=True)
    assert len(corpus.images) == 6
    assert corpus.rejects["file"].tolist() == ["train-000002/7", "train-000002/9.jpg"]


def link(name, kind):
    header = tarfile.TarInfo(name)
    header.type, header.linkname = kind, "/etc/passwd"
    return header


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ([("../../out.jpg", JPG[0]), ("../../out.txt", b"x")], "names that lead out"),
        ([link("1.jpg", tarfile.SYMTYPE)], r"links and devices (1): '1.jpg'"),
        ([link("1.jpg", tarfile.FIFOTYPE)], r"links and devices (1): '1.jpg'"),
        ([("1.pyd", pickle.dumps(1)), ("2.x.pkl", b"")], "pickles, which can run code and are not"),
        ([("1.jpg", JPG[0]), ("1.jpg", JPG[1])], "names more than once (1): '1.jpg'"),
        ([("1.jpg", JPG[0]), ("1.png", JPG[1])], "/1': 2 images, jpg, png; set corpus.image_field"),
        ([("1.jpg", JPG[0]), ("1.txt", b"caf\xe9")], "'1': 'utf-8' codec can't decode"),
        ([("1.json", b"[" * 100_000)], "'1': maximum recursion depth"),
        ([("1.json", b"{}")], "or title in the .json; set corpus.caption_field"),
        ([("1.json", b'{"text": [1]}')], "text in the .json is neither text nor a list of texts"),
        ([("1.txt", b"x" * 1_048_577)], "'1': a text of more than 1,048,576 bytes"),
        ([("caf\udce9.jpg", JPG[0])], "names that are not UTF-8 (1): 'caf\\udce9.jpg'"),
        ([("a.jpg/b.jpg", JPG[0]), ("a.jpg", JPG[1])], "where another image's does"),
        ([("1.jpg", b"\0" * 9_048_577)], "9,048,577 bytes, allowed are 9,048,576 for corpus.max"),
    ],
)
def test_what_is_hostile_or_does_not_fit_is_refused_in_one_message(raw, members, message):
    assert message in refusal(broken(raw, *members))
    assert not list(raw.parent.rglob("out.jpg"))


def test_every_cut_of_a_shard_is_noticed(raw):
    path = raw / "train-000000.tar"
    whole = path.read_bytes()
    data = whole.rstrip(b"\0")
    for length in [0, 100, 512, 600, 1024, len(data) // 2, len(data) - 1, len(data) + 511 & ~511]:
        path.write_bytes(whole[:length])
        message = refusal(raw, skip_bad_images=True)
        fault = "cut short or damaged: " if length else "an empty file"
        assert f"shards that cannot be read (1): train-000000.tar ({fault}" in message
    (raw / "val-000000.tar").write_bytes(b"\x1f\x8b" + bytes(2000))
    assert "cannot be read (2): train-000000.tar (cut " in refusal(raw)


def test_no_shards_and_empty_shards_say_so(tmp_path):
    raw = tmp_path / "raw"
    raw.mkdir()
    with pytest.raises(WorkbenchError, match=r"raw: no file \.tar in it"):
        read_all("webdataset", raw)
    write_tar(raw / "0.tar", [("readme.md", b"hello")])
    assert "no images in 1 shards" in refusal(raw)


def sample(key, **members):
    """Members of a sample: endings with `_` for their dots."""
    return [(f"{key}.{ending.replace('_', '.')}", data) for ending, data in members.items()]


def several(raw, make):
    """A shard of four samples."""
    write_tar(raw / "0.tar", [member for n in range(4) for member in make(n)])
    return raw


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"image_field": "input.jpg"},
        {"caption_field": "outputs.txt"},
        {"image_field": "INPUT.jpg", "caption_field": "Outputs.txt"},
    ],
)
def test_the_last_part_of_an_ending_decides(tmp_path, changed):
    raw = several(
        tmp_path / "raw", lambda n: sample(n, input_jpg=JPG[n], outputs_txt=b"A dog.\nA cat.")
    )
    corpus = read_all("webdataset", raw, **changed)
    assert texts_of(corpus)["0/1.input.jpg"] == ["A dog.", "A cat."]
    assert files_of(corpus)["0/1.input.jpg"] == JPG[1]


@pytest.mark.parametrize(
    ("value", "captions"),
    [
        ("joined", ["A dog leaps over log 1 in the forest."]),
        ("each", ["A dog leaps over log 1 in", "the forest."]),
        ("first", ["A dog leaps over log 1 in"]),
    ],
)
def test_wrapped_lines_are_asked_for(tmp_path, value, captions):
    raw = several(
        tmp_path / "raw",
        lambda n: sample(n, jpg=JPG[n], txt=f"A dog leaps over log {n} in\nthe forest.".encode()),
    )
    said = refusal(raw)
    assert "texts of images have several lines (4 of 4)" in said
    assert texts_of(read_all("webdataset", raw, text_lines=value))["0/1.jpg"] == captions


def test_a_whole_ending_outranks_a_longer_one(tmp_path, capsys):
    def make(n):
        masks = {"seg_png": image_bytes(n, "PNG"), "tif": b"depth"}
        return sample(n, **masks, jpg=JPG[n], ocr_txt=b"STOP", txt=b"x", json=b"{}")

    corpus = read_all("webdataset", several(tmp_path / "raw", make))
    assert files_of(corpus)["0/1.jpg"] == JPG[1]
    assert texts_of(corpus)["0/1.jpg"] == ["x"]
    said = capsys.readouterr().err
    assert "members of other kinds: 4 'ocr.txt', 4 'seg.png', 4 'tif'" in said


@pytest.mark.parametrize("kind", ["gif", "bmp", "tif", "ppm"])
def test_other_kinds_of_images_are_read(tmp_path, kind):
    name = {"tif": "TIFF"}.get(kind, kind.upper())
    raw = several(tmp_path / "raw", lambda n: sample(n, **{kind: image_bytes(n, name)}, txt=b"x"))
    assert len(read_all("webdataset", raw).images) == 4


def test_several_images_or_texts_are_named_with_the_settings(tmp_path):
    def make(n):
        images = {"input_jpg": JPG[n], "target_jpg": JPG[n + 1]}
        return sample(n, **images, before_txt=b"x", after_txt=b"y %d" % n)

    raw = several(tmp_path / "raw", make)
    message = refusal(raw)
    assert "'0/0': 2 images, input.jpg, target.jpg; set corpus.image_field to one" in message
    message = refusal(raw, image_field="target.jpg")
    assert "'0/0': 2 texts, before.txt, after.txt; set corpus.caption_field to one" in message
    fields = {"image_field": "target.jpg", "caption_field": "after.txt"}
    corpus = read_all("webdataset", raw, **fields)
    assert texts_of(corpus)["0/1.target.jpg"] == ["y 1"]
    assert files_of(corpus)["0/1.target.jpg"] == JPG[2]


def test_a_text_of_any_ending_can_be_chosen(tmp_path):
    raw = several(tmp_path / "raw", lambda n: sample(n, jpg=JPG[n], cap=b"A dog."))
    message = refusal(raw)
    assert "no captions in 1 shards with 4 images; other members: 4 'cap'" in message
    assert (
        read_all("webdataset", raw, caption_field="cap").captions["text"].tolist() == ["A dog."] * 4
    )


def test_members_without_images_are_named_with_the_setting(tmp_path):
    raw = several(tmp_path / "raw", lambda n: sample(n, npy=b"x", txt=b"A dog."))
    with pytest.raises(WorkbenchError, match=r"other members: 4 'npy'") as caught:
        read_all("webdataset", raw, image_field="jpg", caption_field="none.txt")
    assert "corpus.image_field" in caught.value.hint


def test_names_with_dots_of_their_own_are_cut_at_the_last(tmp_path):
    raw = several(tmp_path / "raw", lambda n: sample(f"a/photo.{n}", jpg=JPG[n], txt=b"%d" % n))
    corpus = read_all("webdataset", raw)
    assert texts_of(corpus) == {
        f"0/a/photo.{n}.jpg": [str(n)] for n in corpus.images["image_id"].str[-5].astype(int)
    }
    assert len(corpus.images) == 4


def test_endings_that_differ_in_their_case_alone_do_not_hide_each_other(tmp_path, capsys):
    raw = several(tmp_path / "raw", lambda n: [(f"{n}.JPG", JPG[n]), (f"{n}.TXT", b"x")])
    assert set(read_all("webdataset", raw).images["image_id"]) == {f"0/{n}.JPG" for n in range(4)}
    shutil.rmtree(tmp_path / "out")
    write_tar(
        raw / "0.tar",
        [m for n in range(4) for m in (*sample(n, jpg=JPG[n], txt=b"x"), (f"{n}.JPG", b""))],
    )
    assert files_of(read_all("webdataset", raw))["0/1.jpg"] == JPG[1]
    assert "members of other kinds: 4 'JPG'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("value", "texts"),
    [
        ({"sentences": [{"raw": "x"}, {"raw": "y"}]}, ["x", "y"]),
        ({"title": "x"}, ["x"]),
        ({"caption": '["x", "y"]'}, ["x", "y"]),
    ],
)
def test_captions_in_json_as_in_cells(tmp_path, value, texts):
    raw = several(
        tmp_path / "raw", lambda n: sample(n, jpg=JPG[n], json=json.dumps(value).encode())
    )
    assert list(texts_of(read_all("webdataset", raw)).values()) == [texts] * 4


def test_shards_are_known_by_images_and_texts_in_them(raw):
    """A tar of images alone lies beside many a captions.txt; img2dataset writes parquet, too."""
    (found,) = webdataset_reader.recognise(list_folder(raw))
    assert (len(found.files), found.has_splits) == (4, True)
    write_tar(raw / "images" / "all.tar", [(f"{n}.jpg", JPG[n]) for n in range(3)])
    (raw / "images" / "no.tar").write_bytes(b"no tar")
    assert webdataset_reader.recognise(list_folder(raw)) == [found]
    (raw / "more").mkdir()
    (raw / "more" / "0.tar").write_bytes(b"version https://git-lfs.github.com/spec/v1\n")
    assert "more/0.tar" in webdataset_reader.recognise(list_folder(raw))[0].files
    (alone,) = webdataset_reader.recognise(list_folder(raw / "images"))
    assert alone.is_damaged
    assert "pointer of git-lfs" in refusal(raw, annotations="more")


def test_a_compressed_shard_without_its_ending_is_named_with_a_way_out(raw):
    path = raw / "test-000000.tar"
    path.write_bytes(gzip.compress(path.read_bytes()))
    with pytest.raises(WorkbenchError, match="packed by gzip") as caught:
        read_all("webdataset", raw)
    subprocess.run(caught.value.hint.removeprefix("unpack it: "), shell=True, check=True)
    assert len(read_all("webdataset", raw).images) == 5


def test_compressed_shards_are_named_and_can_be_unpacked(raw):
    path = raw / "test-000000.tar"
    with gzip.open(f"{path}.gz", "wb") as stream:
        stream.write(path.read_bytes())
    path.unlink()
    assert "test-000000.tar.gz" in webdataset_reader.recognise(list_folder(raw))[0].files
    with pytest.raises(WorkbenchError, match=r"not read: test-000000\.tar\.gz") as caught:
        read_all("webdataset", raw)
    command = shlex.split(caught.value.hint.removeprefix("unpack them: "))
    assert command == ["gunzip", str(raw / "test-000000.tar.gz")]
    subprocess.run(command, check=True)
    assert len(read_all("webdataset", raw).images) == 5


def test_equal_photographs_of_a_split_are_one_group(raw):
    broken(raw, ("1.jpg", JPG[0]), ("1.txt", b"x"))
    groups = read_all("webdataset", raw).images.set_index("image_id")["group"]
    assert groups["train-000002/1.jpg"] == groups["train-000000/0001.jpg"]


def test_a_look_writes_no_image(raw):
    before = sorted(raw.parent.rglob("*"))
    source = webdataset_reader.read(raw, raw.parent / "out", replace(options(), look=True))
    assert len(source.images) == 5
    assert sorted(raw.parent.rglob("*")) == before


NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=150)


@settings(max_examples=60)
@example([("/", b""), ("a/", b"b")], tarfile.USTAR_FORMAT, None)
@example([("n" * 120 + "/", b"b")], tarfile.PAX_FORMAT, None)
@given(
    st.lists(st.tuples(NAMES, st.binary(max_size=1500)), max_size=5),
    st.sampled_from([tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]),
    st.none() | st.tuples(st.integers(0, 4000), st.integers(0, 255)),
)
def test_members_as_tarfile_reads_them_or_damage(tmp_path_factory, members, kind, damage):
    path = tmp_path_factory.getbasetemp() / "any.tar"
    try:
        write_tar(path, members, format=kind)
    except ValueError:  # ustar has no room for some names
        return
    data = bytearray(path.read_bytes())
    if damage:
        data[damage[0] % len(data)] ^= damage[1]
        path.write_bytes(data)
    try:
        with open(path, "rb") as stream:
            parts = [(m.name, m.offset_data, m.size) for m in read_members(stream) if m.isreg()]
    except DamagedTar:
        assert damage
        return
    if not damage:
        found = [(name.rstrip("/"), bytes(data[at : at + size])) for name, at, size in parts]
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            regular = [member for member in archive if member.isreg()]
            # Slashes at the end: tarfile drops them from names in extended headers, not from others
            wanted = [(m.name.rstrip("/"), archive.extractfile(m).read()) for m in regular]
        assert found == wanted


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ({"size": -512}, "member at byte 0: cut short"),
        ({"size": -512, "type": b"x"}, None),
        ({"size": 10**15}, "member at byte 0: cut short"),
        ({"type": tarfile.GNUTYPE_SPARSE}, "sparse, which is not read"),
    ],
)
def test_headers_that_lie_are_refused(tmp_path, header, message):
    """tarfile goes back and forth for ever on the first."""
    info = tarfile.TarInfo("1.jpg")
    for key, value in header.items():
        setattr(info, key, value)
    (tmp_path / "x.tar").write_bytes(info.tobuf(tarfile.GNU_FORMAT) + bytes(2048))
    with open(tmp_path / "x.tar", "rb") as stream, pytest.raises(DamagedTar, match=message):
        list(read_members(stream))
