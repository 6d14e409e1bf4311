import copy
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.ranking import LOSSES
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.yaml_text import read_yaml
from stages.params import NAMED, TRACKED, filled, find_problems, load_params

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _in_root(monkeypatch):
    monkeypatch.chdir(ROOT)  # `raw` is relative to the repository


DEFAULTS = read_yaml(ROOT / "params.yaml")


def leaves(node, prefix=()):
    for key, value in node.items():
        if isinstance(value, dict):
            yield from leaves(value, (*prefix, key))
        else:
            yield (*prefix, key)


LEAVES = sorted(leaves(DEFAULTS))
SECTIONS = sorted({leaf[:depth] for leaf in LEAVES for depth in range(1, len(leaf))})
OPEN = [(name,) for name in NAMED]  # any key is right there


def holder(values, path):
    for key in path[:-1]:
        values = values[key]
    return values


def changed(**changes):
    """The default values with keys set, `__` for a dot."""
    values = copy.deepcopy(DEFAULTS)
    for key, value in changes.items():
        path = key.split("__")
        holder(values, path)[path[-1]] = value
    return values


def problems(values):
    return "\n".join(find_problems(values))


@given(st.sampled_from([path for path in LEAVES + SECTIONS if path[0] not in NAMED]))
def test_missing_key_has_its_default_or_is_named(path):
    values = changed()
    del holder(values, path)[path[-1]]
    key = ".".join(path)
    if len(path) == 1 or key in TRACKED:
        assert f" {key} is missing; add it with: vse complete" in problems(values)
    else:
        assert problems(values) == ""
        assert filled(values) == filled(DEFAULTS)


@given(st.sampled_from(LEAVES), st.sampled_from([{}, [{}], b"x", float("nan"), -1]))
def test_wrong_value_is_named(path, value):
    # -1 is wrong for every number here and of the wrong type for everything else.
    text = problems(changed(**{"__".join(path): value}))
    assert any(line.startswith(".".join(path)) for line in text.splitlines())
    assert repr(value) in text or isinstance(value, list)


@given(
    st.sampled_from([(), *(section for section in SECTIONS if section not in OPEN)]),
    st.text("abcxyz", min_size=3, max_size=8),
)
def test_unknown_key_is_named(section, name):
    path = (*section, "zz" + name)
    text = problems(changed(**{"__".join(path): 1}))
    assert f"{'.'.join(path)} = 1: unknown key" in text


@given(st.lists(st.sampled_from(LEAVES), unique=True, min_size=2, max_size=6))
def test_all_problems_are_reported_at_once(paths):
    text = problems(changed(**{"__".join(path): {"not": "a value"} for path in paths}))
    assert all(f"{'.'.join(path)} =" in text for path in paths)


def test_near_key_is_suggested():
    assert problems(changed(los=1)) == "los = 1: unknown key; did you mean loss?"


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("raw", "no/such/folder", "no such file or folder"),
        ("seed", True, "must be"),  # no conversions
        ("seed", 1.0, "must be"),
        ("vse__margin", "0.2", "must be"),
        ("vse__training__lr", float("inf"), "must be"),
        ("vocabulary__source", "word2vec_bin", "needs the path of a vector file"),
        ("vocabulary__source", "gensim", r"if you trust the file, convert it: python -c"),
        ("vocabulary__vectors", "x.bin", "must be null when source is 'train'"),
        ("vocabulary__known_words_only", True, "needs a source of vectors"),
        ("vocabulary__other_cases", True, "needs a source of vectors"),
        ("vocabulary__background", 9, "needs a source of vectors"),
        ("vocabulary__words", "all_captions", "needs a source of vectors other than 'train'"),
        ("vocabulary__words", "test", "allowed are training, all_captions"),
        *(
            (f"{model}__training__epochs", 1, "warmup_epochs = 1: must be below epochs = 1")
            for model in ("vse", "two_branch", "scan")
        ),
        ("detector__weights", "no.pth", "no such file"),
        ("detector__names", "no/folder", "no such folder"),
        ("detector__anchors", [[1.0]] * 5, "detector.anchors"),
        ("dataset", "captions_csv", "has no boxes to learn from"),
        ("regions__path", "x.tsv", "must be null when source is 'detector'"),
        ("regions__source", "butd_h5", "needs the path of its files"),
        ("regions__min", 101, "must not exceed regions.max = 100"),
        ("sentences__tfidf__stop_words", "no.txt", "no such file"),
        ("sentences__tfidf__wordnet", "no/folder", "no such folder"),
        ("sentences__fisher__ica", 101, "must not exceed 100, that is vocabulary.dim"),
        ("sentences__fisher__centres", 1, "must not exceed 64, that is 2 x centres x"),
        ("inference__criteria", "csls", "must be a list, such as [csls]"),
        ("inference__criteria", [], "must not be empty"),
        ("dual_path__crop", 129, "must not exceed dual_path.resize = 128"),
        ("dual_path__resize", 64, "dual_path.crop = 112: must not exceed dual_path.resize"),
        ("image_features__model", "resnet34", "a 'fpn_resnet18' does not hold a 'resnet34'"),
        ("image_features__weights", "no.pth", "no such file"),
        ("image_features__weights", "", "image_features.weights"),
        ("image_features__resize", "crop", "image_features.resize = 'crop': allowed are short"),
        ("image_features__normalisation", "caffe", "weights = 'detector' learnt"),
        ("pseudo_classes__k", 0, "pseudo_classes.k = 0"),
        ("pseudo_classes__source", "persons", "pseudo_classes.source = 'persons'"),
    ],
)
def test_one_wrong_value_is_one_line(key, value, words):
    text = problems(changed(**{key: value}))
    assert words in text
    assert len(text.splitlines()) == 1
    assert tuple(text.split(":")[0].split(" = ")[0].split(".")) in LEAVES + SECTIONS


def test_a_bad_combination_is_found_beside_a_bad_value():
    text = problems(changed(raw="nowhere", loss="bogus", vocabulary__vectors="x.bin"))
    assert f"loss = 'bogus': allowed are {', '.join(LOSSES)}" in text
    assert "raw = 'nowhere'" in text
    assert "vocabulary.vectors = 'x.bin': must be null" in text


@pytest.mark.parametrize(("folds", "subset"), [(5, 1000), (5, 0), (1, 1000)])
def test_a_subset_stands_not_beside_folds(folds, subset):
    text = problems(changed(evaluation__folds=folds, evaluation__subset=subset))
    both = "evaluation.subset = 1000: must be 0 with folds = 5: the first images are ranked at once"
    assert text.startswith(both) if folds > 1 and subset else text == ""


def test_embeddings_are_kept_without_the_criterion_that_needs_the_matrix():
    assert problems(changed(scoring__keep="embeddings")) == ""
    values = changed(scoring__keep="embeddings", inference__criteria=["csls", "hungarian"])
    (problem,) = find_problems(values)
    assert problem.startswith("scoring.keep = 'embeddings': inference.criteria names hungarian")


@pytest.mark.parametrize(
    ("encoding", "pca", "words"),
    [
        ("mean_vector", 101, "must not exceed 100, that is vocabulary.dim"),
        ("tfidf", 3001, "must not exceed 3000, that is sentences.tfidf.terms"),
    ],
)
def test_components_beyond_the_width(encoding, pca, words):
    change = {f"sentences__{encoding}__pca": pca}
    assert problems(changed(**change)) == ""  # another encoding is chosen
    assert words in problems(changed(**change, sentences__encoding=encoding))


@pytest.mark.parametrize("value", ["gmm", "gmm+lmm+hglmm"])
def test_mixtures_are_joined_by_a_plus(value):
    fisher = {"sentences__fisher__mixture": value}
    assert problems(changed(**fisher, sentences__fisher__pca="none")) == ""
    count = value.count("+") + 1
    message = f"must not exceed {512 * count}, that is 2 x centres x width of a word vector"
    assert message in problems(changed(**fisher, sentences__fisher__pca=9999))


@pytest.mark.parametrize("value", ["", "gmm+", "gmm+gmm", "gmm + lmm", "tmm", ["gmm"], None])
def test_mixtures_that_are_none(value):
    allowed = "allowed are gmm, lmm, hglmm or several, as gmm+lmm"
    text = problems(changed(sentences__fisher__mixture=value))
    assert text == f"sentences.fisher.mixture = {value!r}: {allowed}"


@pytest.mark.parametrize("value", [0, 1.5, True, "None", None])
def test_number_of_components_is_a_count_or_none(value):
    text = problems(changed(sentences__fisher__pca=value))
    assert text == f"sentences.fisher.pca = {value!r}: must be a whole number from 1, or none"


@pytest.mark.parametrize("model", ["vse", "scan", "dp_rnn", "dual_path"])
def test_pretrained_words_need_the_vocabulary_width(model):
    change = {f"{model}__word_dim": 7}
    text = problems(changed(**change, **{f"{model}__word_vectors": "pretrained"}))
    assert f"{model}.word_dim = 7: must equal vocabulary.dim = 100" in text
    assert problems(changed(**change, **{f"{model}__word_vectors": "random"})) == ""


def test_bottom_up_detector_comes_from_a_file(tmp_path):
    bottom_up = {"detector__architecture": "c4_resnet101", "image_features__weights": "random"}
    assert "the c4_resnet101 is not trained here" in problems(changed(**bottom_up))
    (tmp_path / "c4.pth").touch()
    bottom_up["detector__weights"] = str(tmp_path / "c4.pth")
    assert problems(changed(**bottom_up)) == ""
    text = problems(changed(**bottom_up | {"image_features__weights": "detector"}))
    assert "a 'c4_resnet101' does not hold a 'resnet18'" in text


@pytest.mark.parametrize("source", ["tsv", "scan_npy", "butd_h5"])
def test_regions_of_others_come_from_a_path(tmp_path, source):
    gone = tmp_path / "gone"
    text = problems(changed(regions__source=source, regions__path=str(gone)))
    assert text == f"regions.path = '{gone}': no such file or folder"
    assert problems(changed(regions__source=source, regions__path=str(tmp_path))) == ""


@pytest.mark.parametrize(
    ("recurrent", "epochs", "words"),
    [
        (True, (4, 0, 0), "recurrent and all are 0, but dp_rnn.recurrent = True"),
        (True, (0, 1, 0), ""),
        (True, (0, 0, 1), ""),
        (False, (0, 3, 0), "matching and all are 0; one of them must have epochs"),
        (False, (1, 0, 0), ""),
    ],
)
def test_dp_rnn_trains_what_it_uses(recurrent, epochs, words):
    epochs = dict(zip(("matching", "recurrent", "all"), epochs, strict=True))
    text = problems(changed(dp_rnn__recurrent=recurrent, dp_rnn__training__epochs=epochs))
    assert words in text
    assert len(text.splitlines()) == bool(words)


@pytest.mark.parametrize(("matching", "refused"), [("multi_attention", True), ("scan", False)])
def test_log_sum_exp_has_no_weights_of_words(matching, refused):
    text = problems(changed(dp_rnn__matching=matching, dp_rnn__pooling="lse"))
    assert ("dp_rnn.pooling = 'lse': dp_rnn.matching = 'multi_attention'" in text) == refused
    assert len(text.splitlines()) == refused


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"- a list",
        b"loss: [unclosed",
        b"loss: a\nloss: b\n",
        b"\xff\xfe\x00",
        b"a: &x [*x]\nb: !!python/object:os.system {}",
        b"[" * 5000,
    ],
)
def test_broken_yaml_is_a_plain_error(tmp_path, content):
    (tmp_path / "params.yaml").write_bytes(content)
    with pytest.raises(WorkbenchError) as caught:
        load_params(tmp_path / "params.yaml")
    assert "git checkout params.yaml" in str(caught.value)
    assert len(str(caught.value).splitlines()) <= 60


@given(st.binary(max_size=200))
def test_arbitrary_bytes_never_escape(tmp_path_factory, content):
    file = tmp_path_factory.mktemp("yaml") / "params.yaml"
    file.write_bytes(content)
    with pytest.raises(WorkbenchError):
        load_params(file)


def test_aliases_that_multiply_give_a_short_message(tmp_path):
    lines = ["a: &a [x, x, x, x, x, x, x, x, x, x]"]
    for a, b in zip("abcdefgh", "bcdefghi", strict=True):
        lines.append(f"{b}: &{b} [{', '.join(['*' + a] * 10)}]")
    (tmp_path / "params.yaml").write_text("\n".join(lines))
    with pytest.raises(WorkbenchError) as caught:
        load_params(tmp_path / "params.yaml")
    assert "more than 20,000 keys and values, aliases unfolded" in str(caught.value)
    assert len(str(caught.value)) < 20_000


@pytest.mark.parametrize("name", ["x" * 5000, "a\0b", "~nobody/x"])
def test_impossible_paths_are_named(name):
    assert problems(changed(raw=name)).startswith("raw")
    assert problems(changed(image_features__weights=name)).startswith("image_features.weights")


def test_scientific_numbers_as_dvc_writes_them(tmp_path):
    text = (ROOT / "params.yaml").read_text()
    (tmp_path / "params.yaml").write_text(text.replace("lr: 0.001", "lr: 1e-05"))
    assert load_params(tmp_path / "params.yaml").vse.training.lr == 1e-5


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda p: p.pop(0), "'stage_2' comes first and trains image_cnn while the other parts"),
        (lambda p: p[0].update(epochs=0), "'stage_2' comes first and trains image_cnn"),
        (lambda p: [x.update(epochs=0) for x in p], "dual_path.phases: none has epochs"),
        (lambda p: p[1].update(images="features"), "phases.1.train: image_cnn can be trained on"),
        (lambda p: p[0]["weights"].update(dict.fromkeys(p[0]["weights"], 0.0)), "0.weights: all"),
        (lambda p: p[1].pop("lr"), "dual_path.phases.1.lr: missing; an item of a list has all"),
        (lambda p: p[1].update(epoch=3), "dual_path.phases.1.epoch = 3: unknown key"),
        (lambda p: p[1].update(stop_below=2.0), "dual_path.phases.1.stop_below = 2.0"),
        (lambda p: p.clear(), "dual_path.phases"),
        (lambda p: p.append(3), "dual_path.phases.2 = 3"),
    ],
)
def test_phases_of_the_dual_path_that_cannot_be_meant(change, words):
    values = changed()
    change(values["dual_path"]["phases"])
    text = problems(values)
    assert words in text
    assert len(text.splitlines()) == 1


AVERAGE = {"members": ["cca", "vse"], "weights": None, "normalise": "none"}


@pytest.mark.parametrize(
    "average",
    [
        {"weights": [2, 1]},
        {"members": ["scan", "scan_i2t-2"], "normalise": "z"},
        {"members": ["a", "b", "c", "d"], "weights": [1, 2, 3.5, 4]},
    ],
)
def test_averages_have_names_that_the_user_chooses(average):
    assert problems(changed(average_scores={"mine": AVERAGE | average, "cca-2": AVERAGE})) == ""
    assert problems(changed(average_scores={})) == ""


@pytest.mark.parametrize(
    ("average", "words"),
    [
        ({"members": ["cca"]}, "members = ['cca']: must be 2 to 4 names"),
        ({"members": list("abcde")}, "must be 2 to 4 names"),
        ({"members": ["cca", "cca"]}, "members = ['cca', 'cca']: cca twice; use weights"),
        ({"members": ["cca", "../x"]}, "'../x': a name has letters, digits, _ and - alone"),
        ({"members": ["cca", "mine"]}, "an average cannot be a member of itself"),
        ({"members": ["cca", 3]}, "members.1 = 3: must be a valid string"),
        ({"weights": [1]}, "weights = [1.0]: must be 2 numbers, one for each member, or null"),
        ({"weights": [1, 0]}, "weights.1 = 0: must be greater than 0"),
        ({"normalise": "Z"}, "normalise = 'Z': allowed are none, z"),
        ({"normalize": "z"}, "unknown key; did you mean normalise?"),
    ],
)
def test_wrong_averages_are_named(average, words):
    text = problems(changed(average_scores={"mine": AVERAGE | average}))
    assert text.startswith("average_scores.mine.")
    assert words in text
    assert "\n" not in text


def test_an_average_that_is_no_section():
    text = problems(changed(average_scores={"mine": 3}))
    assert text == (
        "average_scores.mine = 3: must be a section with keys members, weights, normalise"
    )


SCORES = {"folder": ".", "scores": "params.yaml"}
PAIR = {"folder": ".", "images": "params.yaml", "captions": "dvc.yaml"}


@pytest.mark.parametrize(
    "external", [SCORES, SCORES | {"val_scores": "dvc.yaml"}, PAIR, PAIR | {"similarity": "dot"}]
)
def test_an_external_item_has_the_keys_of_one_kind(external):
    assert problems(changed(external={"mine": external, "cca-2": external})) == ""


KINDS = (
    "expected are either scores, with or without val_scores, or images and captions, with or "
    "without similarity"
)


@pytest.mark.parametrize(
    ("external", "words"),
    [
        ({"folder": "."}, f": has no key but folder; {KINDS}"),
        ({"folder": ".", "images": "params.yaml"}, f": has images; {KINDS}"),
        (SCORES | {"similarity": "dot"}, f": has scores, similarity; {KINDS}"),
        (SCORES | PAIR, f": has scores, images, captions; {KINDS}"),
        (SCORES | {"scores": "nowhere.npy"}, ".scores = 'nowhere.npy': no such file in ."),
        (
            {"folder": "docs", "scores": "../params.yaml"},
            ".scores = '../params.yaml': must be the name of a file in docs",
        ),
        ({"folder": "gone", "scores": "a.npy"}, ".folder = 'gone': no such file or folder"),
        ({"scores": "params.yaml"}, ".folder"),
        (SCORES | {"scores": ["a"]}, ".scores = ['a']: must be a valid string"),
        ({"folder": ".", "score": "a"}, ".score = 'a': unknown key; did you mean scores?"),
        ({"folder": ".", "similarity": "l2"}, ".similarity = 'l2': allowed are cosine, dot"),
    ],
)
def test_wrong_external_items_are_named(external, words):
    text = problems(changed(external={"mine": external}))
    assert text.startswith(f"external.mine{words}")
    assert "\n" not in text


@pytest.mark.parametrize(("section", "item"), [("average_scores", AVERAGE), ("external", SCORES)])
def test_wrong_names_of_score_files(section, item):
    for name in ("scan", "detector", "loss"):
        text = problems(changed(**{section: {name: item}}))
        own = f"{name} is a section of params.yaml; choose another name"
        assert text == f"{section}.{name}: {own}"
    for name in ("a b", "../x", "", "-S", "a@b"):
        text = problems(changed(**{section: {name: item}}))
        assert text == f"{section}: {name!r}: a name has letters, digits, _ and - alone"
    text = problems(changed(average_scores={"both": AVERAGE}, external={"both": SCORES}))
    assert text == "external.both: an average of average_scores has this name"


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"index": "hnsw", "models": ["vse", "scan"]}, ""),
        ({"models": ["vse"]}, "search.models = ['vse']: must be [] when search.index is 'flat'"),
        ({"index": "ivf_pq"}, "search.models = []: name the models to index"),
        ({"index": "hnsw", "models": ["vse", "vse"]}, "a model is named twice"),
        ({"index": "hnsw", "models": ["gpt"]}, "'gpt' is no model; allowed are cca, dp_rnn"),
        ({"index": "ivf"}, "search.index = 'ivf': allowed are flat, hnsw, ivf_pq"),
    ],
)
def test_models_are_named_where_an_index_is_asked_for(changes, text):
    found = problems(changed(search=DEFAULTS["search"] | changes))
    assert text in found
    assert bool(text) == bool(found)
    assert "\n" not in found


@pytest.mark.parametrize("value", [0, 1.0, 0.0, 1.5, "0.1", True, None])
def test_held_out_images_are_a_number_or_a_share(value):
    assert [problems(changed(corpus__val_images=n)) for n in (1, 1000, 0.1, 0.999)] == [""] * 4
    text = problems(changed(corpus__val_images=value))
    assert "corpus.val_images" in text
    assert "must be a whole number from 1, or a share between 0 and 1" in text


def test_a_corpus_is_called_by_its_folder_where_files_choose_the_reader():
    assert load_params().corpus_name == "shapes"
    automatic = load_params().model_copy(update={"dataset": "auto", "raw": "../raw/flickr8k/"})
    assert automatic.corpus_name == "flickr8k"


def test_thousands_of_unknown_keys_are_counted(tmp_path):
    (tmp_path / "params.yaml").write_text("".join(f"k{n}: 1\n" for n in range(3000)))
    with pytest.raises(
        WorkbenchError, match=r"(?s)3\d\d\d problems.*and [23],\d\d\d more"
    ) as error:
        load_params(tmp_path / "params.yaml")
    assert len(str(error.value).splitlines()) < 110
