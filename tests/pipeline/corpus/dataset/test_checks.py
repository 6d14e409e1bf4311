import pandas as pd
import pytest
from PIL import Image
from reader_cases import options, save_images

from pipeline.corpus.dataset import processes
from pipeline.corpus.dataset.read import checked_corpus, with_characters
from pipeline.corpus.dataset.source import Source
from pipeline.runtime.errors import WorkbenchError

SPLIT_OF = {"a.jpg": "train", "b.jpg": "train", "c.jpg": "val", "d.jpg": "test"}


def make(root, images=SPLIT_OF, captions=None, **more):
    """A source with one caption per image unless captions (id, image, text) are given."""
    captions = captions or [(f"{name}#0", name, "A dog.") for name in images]
    return Source(
        root=root,
        images=pd.DataFrame(images.items(), columns=["image_id", "split"]),
        captions=pd.DataFrame(captions, columns=["caption_id", "image_id", "text"]),
        **more,
    )


@pytest.fixture
def root(tmp_path):
    root = tmp_path / "images"
    save_images(root, *SPLIT_OF)
    return root


def checked(source, **changed):
    return checked_corpus(source, source.root.parent / "out", options(**changed))


def refusal(source, **changed):
    with pytest.raises(WorkbenchError) as caught:
        checked(source, **changed)
    return caught.value


def test_rows_follow_the_splits_and_captions_their_images(root):
    images = {"d.jpg": "test", "b.jpg": "train", "c.jpg": "val", "a.jpg": "train"}
    captions = [("4", "a.jpg", "x"), ("3", "d.jpg", "x"), ("2", "b.jpg", "x"), ("1", "a.jpg", "x")]
    captions += [("0", "c.jpg", "x")]
    boxes = pd.DataFrame(
        {"image_id": ["d.jpg", "a.jpg", "b.jpg", "d.jpg"], "x1": [1.0, 2, 3, 4], "object": "dog"}
    ).assign(x2=9.0, y1=0.0, y2=9.0, attributes=[[]] * 4)
    corpus = checked(make(root, images, captions, boxes=boxes))
    assert corpus.images["image_id"].tolist() == ["b.jpg", "a.jpg", "c.jpg", "d.jpg"]
    assert corpus.captions["caption_id"].tolist() == ["2", "4", "1", "0", "3"]
    assert corpus.captions["split"].tolist() == ["train", "train", "train", "val", "test"]
    assert corpus.boxes["x1"].tolist() == [3, 2, 1, 4]


def test_repeated_and_dangling_ids_are_named_together(root):
    images = pd.DataFrame(
        [*SPLIT_OF.items(), ("a.jpg", "val"), ("e.jpg", "dev")], columns=["image_id", "split"]
    )
    captions = pd.DataFrame(
        [("1", "a.jpg", "x"), ("1", "b.jpg", "x"), ("2", "z.jpg", "x"), ("3\t", "c.jpg", "x")],
        columns=["caption_id", "image_id", "text"],
    )
    message = refusal(Source(root, images, captions), skip_bad_images=True).message
    for problem in [
        "images more than once (1): a.jpg",
        "caption ids more than once (1): 1",
        "captions of images that are not in the corpus (1): 2",
        "images of a split other than train, val, test (1): e.jpg ('dev')",
        "caption ids with control codes (1): '3\\t'",
    ]:
        assert problem in message


NAMES = ["../secret.jpg", "/etc/passwd", "x/../../s.jpg", "x\\..\\s.jpg", "a//b.jpg", "", "a\0.jpg"]


@pytest.mark.parametrize("name", NAMES)
def test_names_that_leave_the_folder_are_refused_even_when_skipping(root, name):
    (root.parent / "secret.jpg").write_bytes((root / "a.jpg").read_bytes())
    error = refusal(make(root, SPLIT_OF | {name: "train"}), skip_bad_images=True)
    assert f"names that lead out of the image folder (1): {name!a}" in error.message


def test_links_in_the_users_own_folder_are_followed(root, tmp_path):
    """A dataset may be kept as links to a shared disk; only what a name itself says is refused."""
    save_images(tmp_path / "disk", "b.jpg")
    (root / "b.jpg").unlink()
    (root / "b.jpg").symlink_to(tmp_path / "disk" / "b.jpg")
    assert len(checked(make(root)).images) == 4


def test_the_image_folder_itself_may_be_a_link(root, tmp_path):
    (tmp_path / "link").symlink_to(root)
    corpus = checked(make(tmp_path / "link"))
    assert corpus.images["path"][0] == (tmp_path / "link" / "a.jpg").as_posix()


@pytest.fixture
def damaged(root):
    save_images(root, "1.jpg", "2.png", "3.jpg", "4.jpg", "5.jpg", "6.jpg")
    (root / "1.jpg").write_bytes(b"")
    Image.new("1", (2000, 1000)).save(root / "2.png")
    (root / "3.jpg").write_bytes((root / "3.jpg").read_bytes()[:-30])
    (root / "4.jpg").unlink()
    names = [*SPLIT_OF, "1.jpg", "2.png", "3.jpg", "4.jpg", "6.jpg"]
    captions = [(f"{name}#0", name, "A dog.") for name in names]
    captions += [("a.jpg#1", "a.jpg", " ... "), ("5.jpg#0", "5.jpg", "")]
    images = SPLIT_OF | {f"{n}.{'png' if n == 2 else 'jpg'}": "train" for n in range(1, 7)}
    return make(root, images, [caption for caption in captions if caption[1] != "6.jpg"])


TROUBLE = [
    ("a.jpg", "caption a.jpg#1 without a word"),
    ("1.jpg", "empty file"),
    ("2.png", "2000 x 1000 pixels, allowed are 1 million"),
    ("3.jpg", "cannot be decoded: Truncated File Read"),
    ("4.jpg", "no such file"),
    ("5.jpg", "caption 5.jpg#0 without a word"),
    ("5.jpg", "no caption"),
    ("6.jpg", "no caption"),
]


def test_all_trouble_is_reported_at_once(damaged):
    error = refusal(damaged)
    assert ": images and captions that cannot be used (8): a.jpg (" in error.message
    for name, reason in TROUBLE:
        assert f"{name} ({reason.split(' (')[0]}" in error.message
    assert "corpus.skip_bad_images: true" in error.hint


def test_skipping_drops_images_with_their_captions_and_lists_them(damaged):
    corpus = checked(damaged, skip_bad_images=True)
    assert corpus.images["image_id"].tolist() == list(SPLIT_OF)
    assert corpus.captions["caption_id"].tolist() == [f"{name}#0" for name in SPLIT_OF]
    rejects = list(corpus.rejects.itertuples(index=False, name=None))
    assert [name for name, _ in rejects] == [name for name, _ in TROUBLE]
    for (_, reason), (_, expected) in zip(rejects, TROUBLE, strict=True):
        assert reason.split(" (")[0] == expected.split(" (")[0]


def test_a_split_emptied_by_skipping_is_named(root):
    (root / "c.jpg").write_bytes(b"")
    assert "no images in split val" in refusal(make(root), skip_bad_images=True).message


def test_a_dying_process_is_an_error_not_a_hang(monkeypatch):
    monkeypatch.setattr(processes, "WORTH_IT", 1)
    with pytest.raises(WorkbenchError, match="checking: a process died after 0 of 40 images"):
        processes.ordered_map(_die, list(range(40)), 2, "checking")


def _die(number):
    import os

    os._exit(9)


def test_captions_of_too_many_words_are_counted_and_named(root):
    captions = [(name, name, "x") for name in SPLIT_OF]
    captions += [("long", "a.jpg", "word " * 1501), ("wide", "a.jpg", "w" * 30_001)]
    captions += [("right", "a.jpg", "word " * 300)]
    message = refusal(make(root, SPLIT_OF, captions)).message
    assert "images and captions that cannot be used (2): " in message
    assert "caption long of 1,501 words, allowed are 300 (corpus.max_words)" in message
    assert "caption wide of 30,001 characters, allowed are 30,000" in message
    corpus = checked(make(root, SPLIT_OF, captions), skip_bad_images=True)
    assert set(corpus.captions["caption_id"]) == {*SPLIT_OF, "right"}
    assert len(corpus.rejects) == 2


@pytest.mark.parametrize("word", ["nan", "None", "NULL", "<NA>", "N/A"])
def test_what_programs_write_for_nothing_is_no_caption(root, word):
    captions = [(f"{name}#0", name, "A dog.") for name in SPLIT_OF]
    captions += [("a.jpg#1", "a.jpg", f" {word} "), ("b.jpg#1", "b.jpg", f"{word} is here")]
    message = refusal(make(root, SPLIT_OF, captions)).message
    assert f"(1): a.jpg (caption a.jpg#1 is {word!r}, which programs write for nothing)" in message
    corpus = checked(make(root, SPLIT_OF, captions), skip_bad_images=True)
    assert corpus.captions["text"].tolist().count("A dog.") == 4
    assert f"{word} is here" in corpus.captions["text"].tolist()


NAMED = [
    ("a dog &amp; a cat", "a dog & a cat"),
    ("&quot;Stop&quot; it&#39;s caf&eacute; &#x2603;", '"Stop" it\'s caf\u00e9 \u2603'),
    ("&amp;lt; once", "&lt; once"),
    ("R&D, AT&T; &copyright &nothing;", "R&D, AT&T; &copyright &nothing;"),
]


@pytest.mark.parametrize(("written", "meant"), NAMED)
def test_names_that_html_has_for_characters(root, written, meant):
    source = with_characters(make(root, captions=[("1", "a.jpg", written), ("2", "b.jpg", "x")]))
    assert source.captions["text"].tolist() == [meant, "x"]
    assert len(source.remarks) == (written != meant)


def test_each_name_of_a_character_is_said_once(root):
    texts = ["&amp; &amp; &nothing;", "plain", "&gt; &amp;"]
    captions = [(str(number), "a.jpg", text) for number, text in enumerate(texts)]
    (remark,) = with_characters(make(root, captions=captions)).remarks
    assert remark.startswith("2 captions with HTML's names of characters")
    assert remark.endswith(": &amp;, &gt;")


def test_images_that_extraction_would_stop_at_are_named_here(root):
    Image.new("RGB", (102, 2)).save(root / "a.jpg")
    message = refusal(make(root)).message
    assert "a.jpg (102 x 2 pixels, more than 50 times as long as wide)" in message
    Image.new("RGB", (100, 2)).save(root / "a.jpg")
    assert len(checked(make(root)).images) == len(SPLIT_OF)


def test_why_everything_was_left_out_is_said_and_listed(root, tmp_path):
    """With skip_bad_images all images of a split may be gone: the commonest reason is said."""
    (root / "a.jpg").write_bytes(b"no image")
    (root / "b.jpg").write_bytes(b"no image")
    (root / "d.jpg").unlink()
    error = refusal(make(root), skip_bad_images=True)
    assert "no images in split train, test: 3 of 4 images were left out, 2 of them" in error.message
    assert "such as a.jpg" in error.message
    listed = (tmp_path / "out" / "rejects.tsv").read_text().splitlines()
    assert [line.split("\t")[0] for line in listed] == ["file", "a.jpg", "b.jpg", "d.jpg"]
    assert str(tmp_path / "out" / "rejects.tsv") in error.hint
