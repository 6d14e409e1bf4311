import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import pipeline.sentences.wordnet as module
from pipeline.runtime.errors import WorkbenchError
from pipeline.sentences.wordnet import FILES, PARTS_OF_SPEECH, WordNet, find_wordnet

LICENCE = "  1 This software and database is being provided to you, the LICENSEE, by  \n"
TINY = {
    "index.noun": "axis n 2 1 @ 2 1 00000010 00000011\nax n 1 0 1 0 00000012\n"
    "city n 1 0 1 0 00000013\nmen n 1 0 1 0 00000014\nman n 1 0 1 0 00000015\n"
    "glasses n 1 0 1 0 00000016\nglass n 1 0 1 0 00000017\n",
    "index.verb": "hope v 1 0 1 0 00000010\nhop v 1 0 1 0 00000011\ngo v 1 0 1 0 00000012\n",
    "index.adj": "large a 1 2 ! & 1 0 00000010\nill a 1 0 1 0 00000011\n",
    "index.adv": "well r 1 0 1 0 00000010\n",
    "noun.exc": "axes axis ax\nmice mouse\n",
    "verb.exc": "went go\ngoes gone\n",
    "adj.exc": "",
    "adv.exc": "best well\n\n",
}
POS_LETTERS = {"noun": "n", "verb": "v", "adj": "a", "adv": "r"}
ENDINGS = {
    "noun": ["s", "es", "ses", "ves", "ies", "men"],
    "verb": ["s", "es", "ies", "ed", "ing"],
    "adj": ["er", "est", "s"],
    "adv": ["s", "er", "ly"],
}


def folder_of(path, **changes):
    """TINY as files; changes by file name with _ for the dot; None leaves a file out."""
    path.mkdir(parents=True, exist_ok=True)
    for name, text in TINY.items():
        content = changes.get(name.replace(".", "_"), LICENCE * name.startswith("index") + text)
        if content is not None:
            (path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


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
        ("went", "verb", "go"),
        ("goes", "verb", "goes"),  # the exceptions decide alone: the rule es -> "" is not tried
        ("went", "noun", "went"),
        ("larger", "adj", "large"),
        ("best", "adv", "well"),
        ("wells", "adv", "wells"),  # adverbs have no rules
        ("s", "noun", "s"),
        ("", "noun", ""),
        ("zebra", "noun", "zebra"),
    ],
)
def test_lemmas_of_a_tiny_wordnet(tmp_path, word, pos, lemma):
    assert WordNet(folder_of(tmp_path)).lemma(word, pos) == lemma


def test_forms_are_empty_for_a_word_that_is_not_known(tmp_path):
    wordnet = WordNet(folder_of(tmp_path))
    assert wordnet.forms("mice", "noun") == []
    assert wordnet.forms("axes", "noun") == ["axis", "ax"]
    assert wordnet.forms("glasses", "noun") == ["glasses", "glass"]


def test_the_licence_is_not_read_as_entries(tmp_path):
    assert WordNet(folder_of(tmp_path)).forms("1", "noun") == []


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
        ("index_noun", LICENCE + "axis v 1 0 1 0 00000010", 2),
        ("index_verb", "hope v 1 0 1 0 00000010\n\nhop v one 0 1 0 00000011", 3),
        ("index_adv", "well", 1),
        ("index_adj", "large a " + "9" * 5000 + " 0 1 0 00000010", 1),
        ("verb_exc", b"went go\nfianc\xe9ed fianc\xe9", 2),
        ("index_noun", b"\x00\x01", 1),
    ],
)
def test_a_malformed_line_is_named(tmp_path, name, content, line):
    folder = folder_of(tmp_path, **{name: content})
    with pytest.raises(WorkbenchError) as caught:
        WordNet(folder)
    assert f"{name.replace('_', '.')}, line {line}:" in str(caught.value)


def test_an_index_without_entries_is_refused(tmp_path):
    with pytest.raises(WorkbenchError, match=r"index\.verb: has no entries"):
        WordNet(folder_of(tmp_path, index_verb=LICENCE))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(st.sampled_from(FILES), st.binary(max_size=60) | st.text("an 1\n", max_size=40))
def test_any_content_is_read_or_refused(tmp_path, name, content):
    """That lines of the format are read, the next test says."""
    folder = folder_of(tmp_path, **{name.replace(".", "_"): content})
    problem = name
    try:
        WordNet(folder)
    except WorkbenchError as error:
        problem = error.message
    assert name in problem


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(st.data())
def test_any_lines_of_the_format_are_read(tmp_path, data):
    """Some lines of each file, in any order."""
    chosen = {}
    for name in FILES:
        lines = [line for line in TINY[name].splitlines() if line]
        least = 1 if name.startswith("index") else 0
        picked = st.lists(st.sampled_from(lines), min_size=least) if lines else st.just([])
        chosen[name] = data.draw(picked, name)
    texts = {name.replace(".", "_"): "\n".join(lines) for name, lines in chosen.items()}
    wordnet = WordNet(folder_of(tmp_path, **texts))
    for pos in ENDINGS:
        for line in chosen[f"index.{pos}"]:
            assert wordnet.lemma(line.split()[0], pos) is not None
            assert line.split()[0] in wordnet.forms(line.split()[0], pos)


def test_a_given_folder_must_be_complete(tmp_path):
    whole = folder_of(tmp_path / "whole")
    assert find_wordnet(whole) == whole
    partial = folder_of(tmp_path / "partial", noun_exc=None, index_adv=None)
    with pytest.raises(WorkbenchError, match=r"partial lacks noun\.exc, index\.adv") as caught:
        find_wordnet(partial)
    for way in ("wordnet-base", "nltk.downloader wordnet", "lemmatiser=lemminflect"):
        assert way in caught.value.hint
    with pytest.raises(WorkbenchError, match=r"no such folder: .*nowhere"):
        find_wordnet(tmp_path / "nowhere")


def test_nltk_data_is_searched_in_order_for_a_complete_folder(tmp_path, monkeypatch):
    folder_of(tmp_path / "a/corpora/wordnet", verb_exc=None)
    second = folder_of(tmp_path / "b/corpora/wordnet")
    home = folder_of(tmp_path / "home/nltk_data/corpora/wordnet")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("NLTK_DATA", f"{tmp_path / 'a'}:{tmp_path / 'b'}")
    assert find_wordnet(None) == second
    monkeypatch.delenv("NLTK_DATA")
    assert find_wordnet(None) == home


def test_all_places_are_named_when_nothing_is_found(tmp_path, monkeypatch):
    partial, absent = tmp_path / "corpora" / "wordnet", tmp_path / "other"
    folder_of(partial, index_adj=None)
    monkeypatch.setattr(module, "_places", lambda: [partial, absent])
    with pytest.raises(WorkbenchError) as caught:
        find_wordnet(None)
    assert f"{partial} lacks index.adj" in caught.value.message
    assert f"no such folder: {absent}" in caught.value.message


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


def words_to_compare(folder: Path, pos: str) -> list[str]:
    """Every word of the exceptions, a sample of the index, and endings put on both."""
    exceptions = (folder / f"{pos}.exc").read_text().split()
    lines = (folder / f"index.{pos}").read_text().splitlines()
    index = [line.split()[0] for line in lines if not line.startswith(" ")]
    chosen = random.Random(0)
    plain = exceptions + chosen.sample(index, min(len(index), 2000))
    stems = chosen.sample(plain, min(len(plain), 500))
    cut = [stem[:-1] for stem in stems]
    ends = sorted({end for endings in ENDINGS.values() for end in endings})
    return plain + cut + [stem + end for stem in stems + cut for end in ends]


@pytest.mark.parametrize("pos", PARTS_OF_SPEECH)
def test_every_lemma_is_nltks(installed, nltk_lemmatise, pos):
    wordnet = WordNet(installed)
    words = [word for part in PARTS_OF_SPEECH for word in words_to_compare(installed, part)]
    ours = [wordnet.lemma(word, pos) for word in words]
    theirs = [nltk_lemmatise(word, POS_LETTERS[pos]) for word in words]
    assert [row for row in zip(words, ours, theirs, strict=True) if row[1] != row[2]] == []
    changed = sum(word != lemma for word, lemma in zip(words, ours, strict=True))
    assert changed > (100 if pos != "adv" else 5)
