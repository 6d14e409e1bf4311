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


def changed(path, change):
    values = copy.deepcopy(DEFAULTS)
    node = values
    for key in path[:-1]:
        node = node[key]
    change(node, path[-1])
    return values


def problems(values):
    return "\n".join(find_problems(values))


def test_default_params_are_valid():
    params = load_params()
    assert params.loss == DEFAULTS["loss"]
    assert params.image_features.layers == tuple(DEFAULTS["image_features"]["layers"])


@given(st.sampled_from([path for path in LEAVES + SECTIONS if path[0] not in NAMED]))
def test_missing_key_has_its_default_or_is_named(path):
    values = changed(path, lambda node, key: node.pop(key))
    key = ".".join(path)
    if len(path) == 1 or key in TRACKED:
        assert f" {key} is missing; add it with: vse complete" in problems(values)
    else:
        assert problems(values) == ""
        assert filled(values) == filled(DEFAULTS)


@given(st.sampled_from(LEAVES), st.sampled_from([{}, [{}], b"x", float("nan"), -1]))
def test_wrong_value_is_named(path, value):
    # -1 is wrong for every number here and of the wrong type for everything else.
    text = problems(changed(path, lambda node, key: node.__setitem__(key, value)))
    assert any(line.startswith(".".join(path)) for line in text.splitlines())
    assert repr(value) in text or isinstance(value, list)


@given(
    st.sampled_from([(), *(section for section in SECTIONS if section not in OPEN)]),
    st.text("abcxyz_", min_size=3, max_size=8),
)
def test_unknown_key_is_named(section, name):
    path = (*section, "zz" + name)
    text = problems(changed(path, lambda node, key: node.__setitem__(key, 1)))
    assert f"{'.'.join(path)} = 1: unknown key" in text


@given(st.lists(st.sampled_from(LEAVES), unique=True, min_size=2, max_size=6))
def test_all_problems_are_reported_at_once(paths):
    values = copy.deepcopy(DEFAULTS)
    for path in paths:
        node = values
        for key in path[:-1]:
            node = node[key]
        node[path[-1]] = {"not": "a value"}
    text = problems(values)
    assert all(f"{'.'.join(path)} =" in text for path in paths)


def test_near_key_is_suggested():
    values = changed(("los",), lambda node, key: node.__setitem__(key, 1))
    assert problems(values) == "los = 1: unknown key; did you mean loss?"


def test_no_implicit_conversion():
    for path, value in [
        (("seed",), True),
        (("seed",), 1.0),
        (("vse", "margin"), "0.2"),
        (("corpus", "skip_bad_images"), 1),
        (("vse", "training", "lr"), float("inf")),
    ]:
        bad = changed(path, lambda node, key, value=value: node.__setitem__(key, value))
        assert ".".join(path) in problems(bad)


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (("raw",), "no/such/folder", "no such file or folder"),
        (("vocabulary", "source"), "word2vec_bin", "needs the path of a vector file"),
        (("vocabulary", "source"), "gensim", r"if you trust the file, convert it: python -c"),
        (("vocabulary", "vectors"), "x.bin", "must be null when source is 'train'"),
        (("vocabulary", "known_words_only"), True, "needs a source of vectors"),
        (("image_features", "weights"), "no.pth", "no such file"),
        (("vocabulary", "other_cases"), True, "needs a source of vectors"),
        (("vocabulary", "background"), 9, "needs a source of vectors"),
        (("vocabulary", "words"), "all_captions", "needs a source of vectors other than 'train'"),
        (("vocabulary", "words"), "test", "allowed are training, all_captions"),
        (
            ("vse", "training", "epochs"),
            1,
            "vse.training.warmup_epochs = 1: must be below epochs = 1",
        ),
        (
            ("two_branch", "training", "epochs"),
            1,
            "two_branch.training.warmup_epochs = 1: must be below epochs = 1",
        ),
        (
            ("scan", "training", "epochs"),
            1,
            "scan.training.warmup_epochs = 1: must be below epochs = 1",
        ),
        (("detector", "weights"), "no.pth", "no such file"),
        (("detector", "names"), "no/folder", "no such folder"),
        (("detector", "anchors"), [[1.0]] * 5, "detector.anchors"),
        (("dataset",), "captions_csv", "has no boxes to learn from"),
        (("regions", "path"), "x.tsv", "must be null when source is 'detector'"),
        (("regions", "source"), "butd_h5", "needs the path of its files"),
        (("regions", "min"), 101, "must not exceed regions.max = 100"),
        (("sentences", "tfidf", "stop_words"), "no.txt", "no such file"),
        (("sentences", "tfidf", "wordnet"), "no/folder", "no such folder"),
        (("sentences", "fisher", "ica"), 101, "must not exceed 100, that is vocabulary.dim"),
        (("inference", "criteria"), "csls", "must be a list, such as [csls]"),
        (("inference", "criteria"), [], "must not be empty"),
        (("inference", "criteria"), ["csls", "naive", "csls"], "csls stands there twice"),
        (("sentences", "fisher", "centres"), 1, "must not exceed 64, that is 2 x centres x"),
    ],
)
def test_bad_combinations(path, value, words):
    text = problems(changed(path, lambda node, key: node.__setitem__(key, value)))
    assert words in text
    assert len(text.splitlines()) == 1
    key = tuple(text.split(":")[0].split(" = ")[0].split("."))
    assert key in LEAVES + SECTIONS


def test_a_subset_stands_not_beside_folds():
    values = changed(("evaluation", "folds"), lambda node, key: node.update(folds=5, subset=1000))
    assert problems(values) == (
        "evaluation.subset = 1000: must be 0 with folds = 5: the first images are ranked at once, "
        "or all images by folds"
    )
    for one in ({"folds": 5, "subset": 0}, {"folds": 1, "subset": 1000}):
        values = changed(("evaluation", "folds"), lambda node, key, one=one: node.update(one))
        assert problems(values) == ""


def test_embeddings_are_kept_without_the_criterion_that_needs_the_matrix():
    values = read_yaml(ROOT / "params.yaml")
    values["scoring"]["keep"] = "embeddings"
    assert list(find_problems(values)) == []
    values["inference"]["criteria"] = ["csls", "hungarian"]
    (problem,) = find_problems(values)
    assert problem.startswith("scoring.keep = 'embeddings': inference.criteria names hungarian")


def test_all_contradictions_of_a_section_are_named():
    values = changed(("vocabulary", "vectors"), lambda node, key: node.__setitem__(key, "x.bin"))
    values["vocabulary"] |= {"other_cases": True, "background": 9}
    values["regions"] |= {"path": "x", "min": 101}
    assert problems(values).splitlines() == [
        "vocabulary.vectors = 'x.bin': must be null when source is 'train'",
        "vocabulary.other_cases = True: needs a source of vectors other than 'train'",
        "vocabulary.background = 9: needs a source of vectors other than 'train'",
        "regions.path = 'x': must be null when source is 'detector'",
        "regions.min = 101: must not exceed regions.max = 100",
    ]


@pytest.mark.parametrize(
    ("encoding", "pca", "words"),
    [
        ("mean_vector", 101, "must not exceed 100, that is vocabulary.dim"),
        ("tfidf", 3001, "must not exceed 3000, that is sentences.tfidf.terms"),
    ],
)
def test_components_beyond_the_width(encoding, pca, words):
    values = changed(("sentences", encoding, "pca"), lambda node, key: node.__setitem__(key, pca))
    assert problems(values) == ""  # another encoding is chosen
    values["sentences"]["encoding"] = encoding
    assert words in problems(values)


@pytest.mark.parametrize("value", ["gmm", "lmm+gmm", "gmm+lmm+hglmm"])
def test_mixtures_are_joined_by_a_plus(value):
    values = changed(
        ("sentences", "fisher", "mixture"), lambda node, key: node.update({key: value})
    )
    values["sentences"]["fisher"]["pca"] = "none"
    assert problems(values) == ""
    values["sentences"]["fisher"]["pca"] = 9999
    count = value.count("+") + 1
    message = f"must not exceed {512 * count}, that is 2 x centres x width of a word vector"
    assert message + (f" x {count} mixtures" if count > 1 else "") in problems(values)


@pytest.mark.parametrize(
    "value", ["", "+", "gmm+", "gmm+gmm", "gmm + lmm", "tmm", ["gmm"], None, 3]
)
def test_mixtures_that_are_none(value):
    key = ("sentences", "fisher", "mixture")
    text = problems(changed(key, lambda node, key: node.__setitem__(key, value)))
    allowed = "allowed are gmm, lmm, hglmm or several, as gmm+lmm"
    assert text == f"sentences.fisher.mixture = {value!r}: {allowed}"


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "None", "all", None])
def test_number_of_components_is_a_count_or_none(value):
    key = ("sentences", "fisher", "pca")
    text = problems(changed(key, lambda node, key: node.__setitem__(key, value)))
    assert text == f"sentences.fisher.pca = {value!r}: must be a whole number from 1, or none"


def test_none_switches_a_projection_off():
    assert load_params().sentences.tfidf.pca is None


@pytest.mark.parametrize("model", ["vse", "scan", "dp_rnn"])
def test_pretrained_words_need_the_vocabulary_width(model):
    values = changed((model, "word_dim"), lambda node, key: node.__setitem__(key, 7))
    values[model]["word_vectors"] = "pretrained"
    assert f"{model}.word_dim = 7: must equal vocabulary.dim = 100" in problems(values)
    values[model]["word_vectors"] = "random"
    assert problems(values) == ""


def test_bottom_up_detector_comes_from_a_file(tmp_path):
    values = changed(
        ("detector", "architecture"), lambda node, key: node.__setitem__(key, "c4_resnet101")
    )
    values["image_features"]["weights"] = "random"
    assert "the c4_resnet101 is not trained here" in problems(values)
    (tmp_path / "c4.pth").touch()
    values["detector"]["weights"] = str(tmp_path / "c4.pth")
    assert problems(values) == ""
    values["image_features"]["weights"] = "detector"
    assert "a 'c4_resnet101' does not hold a 'resnet18'" in problems(values)


def test_image_features_of_another_network_than_the_detectors():
    values = changed(("image_features", "model"), lambda node, key: node.__setitem__(key, "vgg19"))
    assert "a 'fpn_resnet18' does not hold a 'vgg19'" in problems(values)
    values["detector"]["architecture"] = "fpn_resnet50"
    values["image_features"]["model"] = "resnet50"
    assert problems(values) == ""


@pytest.mark.parametrize("source", ["tsv", "scan_npy", "butd_h5"])
def test_regions_of_others_come_from_a_path(tmp_path, source):
    values = changed(("regions", "source"), lambda node, key: node.__setitem__(key, source))
    values["regions"]["path"] = str(tmp_path / "gone")
    assert problems(values) == f"regions.path = '{tmp_path / 'gone'}': no such file or folder"
    values["regions"]["path"] = str(tmp_path)
    assert problems(values) == ""


@pytest.mark.parametrize(
    ("recurrent", "epochs", "words"),
    [
        (True, (4, 0, 0), "recurrent and all are 0, but dp_rnn.recurrent = True"),
        (True, (0, 0, 0), "recurrent and all are 0, but dp_rnn.recurrent = True"),
        (True, (0, 1, 0), ""),
        (True, (0, 0, 1), ""),
        (False, (0, 3, 0), "matching and all are 0; one of them must have epochs"),
        (False, (1, 0, 0), ""),
        (False, (0, 0, 1), ""),
    ],
)
def test_dp_rnn_trains_what_it_uses(recurrent, epochs, words):
    values = changed(("dp_rnn", "recurrent"), lambda node, key: node.__setitem__(key, recurrent))
    names = ("matching", "recurrent", "all")
    values["dp_rnn"]["training"]["epochs"] = dict(zip(names, epochs, strict=True))
    text = problems(values)
    assert words in text
    assert len(text.splitlines()) == bool(words)


@pytest.mark.parametrize(("matching", "refused"), [("multi_attention", True), ("scan", False)])
def test_log_sum_exp_has_no_weights_of_words(matching, refused):
    values = changed(("dp_rnn", "matching"), lambda node, key: node.__setitem__(key, matching))
    values["dp_rnn"]["pooling"] = "lse"
    text = problems(values)
    assert ("dp_rnn.pooling = 'lse': dp_rnn.matching = 'multi_attention'" in text) == refused
    assert len(text.splitlines()) == refused


def test_bad_combination_is_found_beside_a_bad_value():
    values = changed(("raw",), lambda node, key: node.__setitem__(key, "nowhere"))
    values["loss"] = "bogus"
    text = problems(values)
    assert f"loss = 'bogus': allowed are {', '.join(LOSSES)}" in text
    assert "raw = 'nowhere'" in text


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"- a list",
        b"loss: [unclosed",
        b"loss: a\nloss: b\n",
        b"\xff\xfe\x00",
        b"a: &x [*x]\nb: !!python/object:os.system {}",
        b"a:\t- b",
        b"\x00",
        b"[" * 5000,
    ],
)
def test_broken_yaml_is_a_plain_error(tmp_path, content):
    file = tmp_path / "params.yaml"
    file.write_bytes(content)
    with pytest.raises(WorkbenchError) as caught:
        load_params(file)
    assert "git checkout params.yaml" in str(caught.value)
    assert len(str(caught.value).splitlines()) <= 60


@given(st.binary(max_size=200))
def test_arbitrary_bytes_never_escape(tmp_path_factory, content):
    file = tmp_path_factory.mktemp("yaml") / "params.yaml"
    file.write_bytes(content)
    with pytest.raises(WorkbenchError):
        load_params(file)


def test_aliases_that_multiply_give_a_short_message(tmp_path):
    file = tmp_path / "params.yaml"
    lines = ["a: &a [x, x, x, x, x, x, x, x, x, x]"]
    lines += [
        f"{b}: &{b} [{', '.join(['*' + a] * 10)}]"
        for a, b in zip("abcdefgh", "bcdefghi", strict=True)
    ]
    file.write_text("\n".join(lines))
    with pytest.raises(WorkbenchError) as caught:
        load_params(file)
    assert "more than 20,000 keys and values, aliases unfolded" in str(caught.value)
    assert len(str(caught.value)) < 20_000


@pytest.mark.parametrize("name", ["x" * 5000, "a\0b", "~nobody/x"])
def test_impossible_paths_are_named(name):
    for path in (("raw",), ("image_features", "weights")):
        text = problems(changed(path, lambda node, key: node.__setitem__(key, name)))
        assert text.startswith(".".join(path))


def test_scientific_numbers_as_dvc_writes_them(tmp_path):
    file = tmp_path / "params.yaml"
    text = (ROOT / "params.yaml").read_text()
    file.write_text(text.replace("lr: 0.001", "lr: 1e-05"))
    assert load_params(file).vse.training.lr == 1e-5


def with_phases(change):
    values = copy.deepcopy(DEFAULTS)
    change(values["dual_path"]["phases"])
    return problems(values)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda p: p.pop(0), "'stage_2' comes first and trains image_cnn while the other parts"),
        (lambda p: p[0].update(epochs=0), "'stage_2' comes first and trains image_cnn"),
        (lambda p: [x.update(epochs=0) for x in p], "dual_path.phases: none has epochs"),
        (lambda p: p[1].update(images="features"), "phases.1.train: image_cnn can be trained on"),
        (lambda p: p[0]["weights"].update(dict.fromkeys(p[0]["weights"], 0.0)), "0.weights: all"),
    ],
)
def test_phases_of_the_dual_path_that_cannot_be_meant(change, words):
    text = with_phases(change)
    assert words in text
    assert len(text.splitlines()) == 1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda p: p[0].update(train=["images"]), "dual_path.phases.0.train.0 = 'images'"),
        (lambda p: p[0].update(train=[]), "dual_path.phases.0.train"),
        (lambda p: p[1].pop("lr"), "dual_path.phases.1.lr: missing; an item of a list has all"),
        (lambda p: p[1].update(epoch=3), "dual_path.phases.1.epoch = 3: unknown key"),
        (lambda p: p[1].update(stop_below=2.0), "dual_path.phases.1.stop_below = 2.0"),
        (lambda p: p.clear(), "dual_path.phases"),
        (lambda p: p.append(3), "dual_path.phases.2 = 3"),
    ],
)
def test_phases_of_the_dual_path_are_checked_one_by_one(change, words):
    assert words in with_phases(change)


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (
            ("dual_path", "crop"),
            129,
            "dual_path.crop = 129: must not exceed dual_path.resize = 128",
        ),
        (("dual_path", "resize"), 64, "dual_path.crop = 112: must not exceed dual_path.resize"),
        (("image_features", "model"), "resnet34", "a 'fpn_resnet18' does not hold a 'resnet34'"),
        (("image_features", "weights"), "", "image_features.weights"),
        (("image_features", "resize"), "crop", "image_features.resize = 'crop': allowed are short"),
        (
            ("image_features", "normalisation"),
            "caffe",
            "image_features.normalisation = 'caffe': image_features.weights = 'detector' learnt",
        ),
        (("pseudo_classes", "k"), 0, "pseudo_classes.k = 0"),
        (("pseudo_classes", "source"), "persons", "pseudo_classes.source = 'persons'"),
    ],
)
def test_dual_path_and_what_it_reads(path, value, words):
    text = problems(changed(path, lambda node, key: node.__setitem__(key, value)))
    assert words in text
    assert len(text.splitlines()) == 1


def test_pretrained_words_of_the_dual_path_have_the_vocabularys_width():
    values = changed(("dual_path", "word_dim"), lambda node, key: node.__setitem__(key, 99))
    assert problems(values) == ""  # words are drawn at random
    values["dual_path"]["word_vectors"] = "pretrained"
    assert "dual_path.word_dim = 99: must equal vocabulary.dim = 100" in problems(values)


AVERAGE = {"members": ["cca", "vse"], "weights": None, "normalise": "none"}


@pytest.mark.parametrize(
    "average",
    [
        {},
        {"weights": [2, 1]},
        {"members": ["scan", "scan_i2t-2"], "normalise": "z"},
        {"members": ["a", "b", "c", "d"], "weights": [1, 2, 3.5, 4]},
    ],
)
def test_averages_have_names_that_the_user_chooses(average):
    values = DEFAULTS | {"average_scores": {"mine": AVERAGE | average, "cca-2": AVERAGE}}
    assert problems(values) == ""
    assert problems(DEFAULTS | {"average_scores": {}}) == ""


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
    text = problems(DEFAULTS | {"average_scores": {"mine": AVERAGE | average}})
    assert text.startswith("average_scores.mine.")
    assert words in text
    assert "\n" not in text


def test_wrong_names_of_averages():
    for name in ("vse", "detector", "loss"):
        text = problems(DEFAULTS | {"average_scores": {name: AVERAGE}})
        assert text.startswith(f"average_scores.{name}: {name} is a section of params.yaml")
    for name in ("a b", "../x", "", "-S", "a@b"):
        text = problems(DEFAULTS | {"average_scores": {name: AVERAGE}})
        assert text == f"average_scores: {name!r}: a name has letters, digits, _ and - alone"
    text = problems(DEFAULTS | {"average_scores": {"mine": 3}})
    assert (
        text == "average_scores.mine = 3: must be a section with keys members, weights, normalise"
    )


@pytest.mark.parametrize(
    "external",
    [
        {"folder": ".", "scores": "params.yaml"},
        {"folder": ".", "scores": "params.yaml", "val_scores": "dvc.yaml"},
        {"folder": ".", "images": "params.yaml", "captions": "dvc.yaml"},
        {"folder": ".", "images": "params.yaml", "captions": "dvc.yaml", "similarity": "dot"},
    ],
)
def test_an_external_item_has_the_keys_of_one_kind(external):
    assert problems(DEFAULTS | {"external": {"mine": external, "cca-2": external}}) == ""


KINDS = (
    "expected are either scores, with or without val_scores, or images and captions, with or "
    "without similarity"
)


@pytest.mark.parametrize(
    ("external", "words"),
    [
        ({"folder": "."}, f": has no key but folder; {KINDS}"),
        ({"folder": ".", "scores": None}, f": has no key but folder; {KINDS}"),
        ({"folder": ".", "images": "params.yaml"}, f": has images; {KINDS}"),
        ({"folder": ".", "val_scores": "params.yaml"}, f": has val_scores; {KINDS}"),
        (
            {"folder": ".", "scores": "params.yaml", "similarity": "dot"},
            f": has scores, similarity; {KINDS}",
        ),
        (
            {"folder": ".", **dict.fromkeys(("scores", "images", "captions"), "params.yaml")},
            f": has scores, images, captions; {KINDS}",
        ),
        ({"folder": ".", "scores": "nowhere.npy"}, ".scores = 'nowhere.npy': no such file in ."),
        (
            {"folder": "docs", "scores": "../params.yaml"},
            ".scores = '../params.yaml': must be the name of a file in docs",
        ),
        ({"folder": "gone", "scores": "a.npy"}, ".folder = 'gone': no such file or folder"),
        ({"scores": "params.yaml"}, ".folder"),
        (
            {"folder": ".", "scores": ["params.yaml"]},
            ".scores = ['params.yaml']: must be a valid string",
        ),
        (
            {"folder": ".", "score": "params.yaml"},
            ".score = 'params.yaml': unknown key; did you mean scores?",
        ),
        ({"folder": ".", "similarity": "l2"}, ".similarity = 'l2': allowed are cosine, dot"),
    ],
)
def test_wrong_external_items_are_named(external, words):
    text = problems(DEFAULTS | {"external": {"mine": external}})
    assert text.startswith(f"external.mine{words}")
    assert "\n" not in text


def test_wrong_names_of_external_items():
    item = {"folder": ".", "scores": "params.yaml"}
    text = problems(DEFAULTS | {"external": {"vse": item}})
    assert text == (
        "external.vse: vse is a section of params.yaml; choose another name"
    )
    text = problems(DEFAULTS | {"external": {"a b": item}})
    assert text == "external: 'a b': a name has letters, digits, _ and - alone"
    name = next(iter(DEFAULTS["average_scores"]))
    text = problems(DEFAULTS | {"external": {name: item}})
    assert text == f"external.{name}: an average of average_scores has this name"


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
    found = problems(DEFAULTS | {"search": DEFAULTS["search"] | changes})
    assert text in found
    assert bool(text) == bool(found)
    assert "\n" not in found


@pytest.mark.parametrize("value", [0, -1, 1.0, 0.0, 1.5, "0.1", True, None])
def test_held_out_images_are_a_number_or_a_share(value):
    def told(number):
        change = ("corpus", "val_images"), lambda node, key: node.update({key: number})
        return problems(changed(*change))

    assert [told(good) for good in (1, 1000, 0.1, 0.999)] == [""] * 4
    assert "corpus.val_images" in told(value)
    assert "must be a whole number from 1, or a share between 0 and 1" in told(value)


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
