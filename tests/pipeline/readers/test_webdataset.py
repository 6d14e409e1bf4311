import io
import pickle
import tarfile

import pytest
import webdataset
from hypothesis import example, given, settings
from hypothesis import strategies as st
from reader_cases import files_of, image_bytes, read_all, texts_of, write_tar

from pipeline.dataset.tar import DamagedTar, read_members
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
        ([("1.json", b"{}")], "or report in the .json; set corpus.caption_field"),
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
        assert "shards that cannot be read (1): train-000000.tar (cut short or damaged: " in message
    (raw / "val-000000.tar").write_bytes(b"\x1f\x8b" + bytes(2000))
    assert "cannot be read (2): train-000000.tar (cut " in refusal(raw)


def test_no_shards_and_empty_shards_say_so(tmp_path):
    raw = tmp_path / "raw"
    raw.mkdir()
    with pytest.raises(WorkbenchError, match=r"raw: no file \.tar in it"):
        read_all("webdataset", raw)
    write_tar(raw / "0.tar", [("readme.md", b"hello")])
    assert "no images in 1 shards" in refusal(raw)


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
