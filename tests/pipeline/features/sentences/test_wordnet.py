import pytest
from commands import refusal
from tiny_wordnet import LICENCE, folder_of

from pipeline.features.sentences.wordnet import FILES, PARTS_OF_SPEECH, WordNet, find_wordnet
from pipeline.runtime.errors import WorkbenchError

POS_LETTERS = {"noun": "n", "verb": "v", "adj": "a", "adv": "r"}
ENDINGS = ["s", "es", "ses", "ves", "ies", "men", "ed", "ing", "er", "est", "ly"]


@pytest.fixture(scope="module")
def installed():
    try:
        return find_wordnet(None)
    except WorkbenchError:
        pytest.skip("WordNet's files are not installed")


@pytest.mark.parametrize(
    ("word", "pos", "lemma"),
    [
        ("axes", "noun", "ax"),  # the shortest of two irregular ones
        ("cities", "noun", "city"),
        ("men", "noun", "men"),  # itself is a lemma, and "man" is no shorter
        ("glasses", "noun", "glass"),
        ("mice", "noun", "mice"),  # an irregular form of a lemma that the index does not have
        ("hoping", "verb", "hop"),  # the shortest of hope and hop
        ("hopping", "verb", "hopping"),  # one pass: doubled letters are not undone
        ("1", "noun", "1"),  # the licence's lines are no entries
        ("went", "verb", "go"),
        ("goes", "verb", "goes"),  # the exceptions decide alone: the rule es -> "" is not tried
        ("went", "noun", "went"),
        ("larger", "adj", "large"),
        ("best", "adv", "well"),
        ("wells", "adv", "wells"),  # adverbs have no rules
        ("", "noun", ""),
    ],
)
def test_lemmas_of_a_tiny_wordnet(tmp_path, word, pos, lemma):
    assert WordNet(folder_of(tmp_path)).lemma(word, pos) == lemma


def test_digest_tells_contents_apart_and_not_folders(tmp_path):
    first = WordNet(folder_of(tmp_path / "first"))
    assert WordNet(folder_of(tmp_path / "second")).digest == first.digest
    for name in FILES:
        changed = folder_of(tmp_path / name)
        with open(changed / name, "a") as handle:
            handle.write("\n")
        assert WordNet(changed).digest != first.digest, name


@pytest.mark.parametrize(
    ("name", "content", "line"),
    [
        ("index_noun", LICENCE + "axis n 2 1 @ 2 1 00000010", 2),  # cut off
        ("index_verb", LICENCE, 0),
        ("index_noun", LICENCE + "axis v 1 0 1 0 00000010", 2),
        ("index_verb", "hope v 1 0 1 0 00000010\n\nhop v one 0 1 0 00000011", 3),
        ("index_adv", "well", 1),
        ("verb_exc", b"went go\nfianc\xe9ed fianc\xe9", 2),
    ],
)
def test_a_malformed_line_is_named(tmp_path, name, content, line):
    folder = folder_of(tmp_path, **{name: content})
    place = f", line {line}: not " if line else ": has no entries"
    assert name.replace("_", ".") + place in refusal(WordNet, folder)


def test_a_given_folder_must_be_complete(tmp_path):
    whole = folder_of(tmp_path / "whole")
    assert find_wordnet(whole) == whole
    partial = folder_of(tmp_path / "partial", noun_exc=None, index_adv=None)
    with pytest.raises(WorkbenchError, match=r"partial lacks noun\.exc, index\.adv") as caught:
        find_wordnet(partial)
    for way in ("wordnet-base", "nltk.downloader wordnet", "lemmatiser=lemminflect"):
        assert way in caught.value.hint
    with pytest.raises(WorkbenchError, match=r"no .*nowhere"):
        find_wordnet(tmp_path / "nowhere")


def test_nltk_data_is_searched_in_order_for_a_complete_folder(tmp_path, monkeypatch):
    folder_of(tmp_path / "a/corpora/wordnet", verb_exc=None)
    second = folder_of(tmp_path / "b/corpora/wordnet")
    monkeypatch.setenv("NLTK_DATA", f"{tmp_path / 'a'}:{tmp_path / 'b'}")
    assert find_wordnet(None) == second


@pytest.fixture(scope="module")
def nltk_lemmatise(installed, tmp_path_factory):
    """nltk's WordNetLemmatizer().lemmatize over the installed files."""
    pytest.importorskip("nltk")
    import nltk.data
    from nltk.stem import WordNetLemmatizer

    data = tmp_path_factory.mktemp("nltk_data")
    folder = data / "corpora" / "wordnet"
    folder.mkdir(parents=True)
    names = [*FILES, *(f"data.{pos}" for pos in PARTS_OF_SPEECH)]
    if missing := [name for name in names if not (installed / name).is_file()]:
        pytest.skip(f"nltk's reader needs {missing}")
    for name in names:
        (folder / name).write_bytes((installed / name).read_bytes())
    for name in ("lexnames", "index.sense", "cntlist.rev"):  # looked for, without use here
        (folder / name).touch()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nltk.data, "path", [str(data)])  # it reads nothing outside, nor over links
        yield WordNetLemmatizer().lemmatize


def words_to_compare(folder, pos):
    """Every word of the exceptions, a sample of the index, and endings put on both."""
    lines = (folder / f"index.{pos}").read_text().splitlines()
    plain = [line.split()[0] for line in lines[::50] if not line.startswith(" ")]
    plain += (folder / f"{pos}.exc").read_text().split()
    stems = plain[::10] + [stem[:-1] for stem in plain[::10]]
    return plain + [stem + end for stem in stems for end in ENDINGS]


@pytest.mark.parametrize("pos", PARTS_OF_SPEECH)
def test_every_lemma_is_nltks(installed, nltk_lemmatise, pos):
    wordnet = WordNet(installed)
    words = [word for part in PARTS_OF_SPEECH for word in words_to_compare(installed, part)]
    ours = [wordnet.lemma(word, pos) for word in words]
    theirs = [nltk_lemmatise(word, POS_LETTERS[pos]) for word in words]
    assert [row for row in zip(words, ours, theirs, strict=True) if row[1] != row[2]] == []
    changed = sum(word != lemma for word, lemma in zip(words, ours, strict=True))
    assert changed > (100 if pos != "adv" else 5)
