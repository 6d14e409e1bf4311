"""DP-RNN: early selection, phases, and the whole model against loops over pairs."""

import copy

import pytest
import torch
from dp_rnn_cases import PAPER, enter
from matching_cases import direction_of, slow_similarity

from models.dp_rnn.model import DPRNN, DPRNNConfig, select_early
from models.losses import PairLoss
from models.ranking import make_loss
from models.scan import SCAN, SCANConfig
from pipeline.features.split import Batch, Regions, Words

LAMBDA = {"word": 4.0, "object": 9.0}


OWN = torch.arange(6)  # groups: all different


def inputs(dtype=torch.float32, size=6, objects=5, words=4):
    generator = torch.Generator().manual_seed(3)
    counts = torch.randint(1, objects + 1, (size,), generator=generator)
    lengths = torch.randint(1, words + 1, (size,), generator=generator)
    counts[0], lengths[0], counts[1], lengths[1] = objects, words, 1, 1
    features = torch.rand(size, objects, 7, generator=generator)
    positions = torch.rand(size, objects, 4, generator=generator)
    tokens = torch.randint(1, 20, (size, words), generator=generator)
    return Regions(features.to(dtype), positions.to(dtype), counts), Words(tokens, lengths)


def build(dtype=torch.float32, **settings):
    torch.manual_seed(3)
    small = {"word_dim": 5, "dim": 6, "candidates": 2} | PAPER
    config = DPRNNConfig(**small | settings)
    model = DPRNN(config, image_dim=7, vocabulary_size=20).to(dtype)
    for name, values in [*model.named_parameters(), *model.named_buffers()]:
        if name.endswith("direction"):
            torch.nn.init.normal_(values, std=3.0)
    return model


def scores_of(model, images, captions, groups=OWN):
    """By network: its scores in training, and what it computed."""
    result = {}
    for name in model.towers:
        network = model.single(name)
        sides = network.embed_images(images), network.embed_captions(captions)
        batch = Batch(images, captions, groups, groups)
        scores, computed = network.pairs(*sides, batch, torch.arange(len(groups)))
        every = torch.ones_like(scores, dtype=torch.bool)
        result[name] = scores, every if computed is None else computed
    return result


def slow_shares(tower, name, caption):
    """Eq. 10 up to a factor, of one caption (n, K)."""
    attention = tower.match.attention if name == "word" else tower.word_attention
    if attention.direction is None:
        return [torch.ones(()) for _ in caption]
    direction = attention.direction.to(caption.dtype)
    return [torch.exp(attention.beta * (direction @ word)) for word in caption]


def slow_pair(tower, name, image, caption, recurrent):
    """One image (k, K) and one caption (n, K), of unit vectors where the tower reads those, through
    eq. 4 to 15."""
    direction = direction_of(tower.match).to(image.dtype)
    beta = tower.match.attention.beta
    if recurrent:
        shares = slow_shares(tower, name, caption)
        nearest = []
        for thing in image:
            related = [(s * (thing @ w)).item() for s, w in zip(shares, caption, strict=True)]
            nearest.append(related.index(max(related)))
        order = sorted(range(len(image)), key=nearest.__getitem__)
        states, _ = tower.recurrent.gru(image[order][None])
        forwards, backwards = states[0].chunk(2, dim=1)
        image = (forwards + backwards) / 2
        image = image if tower.match.raw else torch.nn.functional.normalize(image, dim=1)
    return slow_similarity(image, caption, name, LAMBDA[name], direction, beta)


def slow_scores(tower, name, computed, images, captions, recurrent):
    """Zero where nothing was computed."""
    objects = tower.embed_images(images).vectors
    words = tower.embed_captions(captions).vectors
    counts, lengths = images.counts, captions.lengths
    scores = objects.new_zeros(computed.shape)
    for i, j in computed.nonzero().tolist():
        pair = objects[i, : counts[i]], words[j, : lengths[j]]
        scores[i, j] = slow_pair(tower, name, *pair, recurrent)
    return scores


@pytest.mark.parametrize("matching", ["multi_attention", "scan"])
@pytest.mark.parametrize("vectors", ["raw", "unit"])
@pytest.mark.parametrize("recurrent", [False, True])
# float32 against the loop in float64: an error of some ten roundings, 6e-8 of the largest number,
# where a loop in float32 would bring as many of its own
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-5)])
def test_equals_the_loop_over_pairs(matching, vectors, recurrent, dtype, tolerance):
    """Forwards, and backwards beside the largest gradient of each parameter."""
    model = build(dtype, matching=matching, vectors=vectors)
    enter(model, "all" if recurrent else "matching")
    images, captions = inputs(dtype)
    results = scores_of(model, images, captions, torch.tensor([0, 1, 2, 2, 3, 4]))
    exact = copy.deepcopy(model).double()
    wide = Regions(images.features.double(), images.positions.double(), images.counts)
    for name, (scores, computed) in results.items():
        tower = model.towers[name]
        slow = slow_scores(exact.towers[name], name, computed, wide, captions, recurrent)
        torch.testing.assert_close(scores.double(), slow, rtol=0, atol=tolerance / 10)
        generator = torch.Generator().manual_seed(3)
        upstream = torch.randn(scores.shape, dtype=dtype, generator=generator)
        ours, theirs = (
            torch.autograd.grad(
                (found * upstream.to(found.dtype)).sum(),
                [values for values in owner.parameters() if values.requires_grad],
            )
            for found, owner in ((scores, tower), (slow, exact.towers[name]))
        )
        for left, right in zip(ours, theirs, strict=True):
            close = tolerance * right.abs().max().item()
            torch.testing.assert_close(left.double(), right, rtol=0, atol=close)


@pytest.mark.parametrize("vectors", ["raw", "unit"])
def test_selection_equals_eq_16_as_a_loop(vectors):
    model = build(vectors=vectors)
    enter(model, "all")
    (images, captions), groups = inputs(), torch.tensor([0, 1, 2, 2, 3, 4])
    counts, lengths = images.counts, captions.lengths
    for name, (_, computed) in scores_of(model, images, captions, groups).items():
        tower = model.towers[name]
        objects, words = tower.embed_images(images), tower.embed_captions(captions)
        for caption in range(6):
            raw_shares = slow_shares(tower, name, words.vectors[caption, : lengths[caption]])
            shares = torch.stack(raw_shares) / sum(raw_shares)
            early = {
                image: sum(
                    (shares[j] * (objects.vectors[image, i] @ words.vectors[caption, j])).item()
                    for i in range(counts[image])
                    for j in range(lengths[caption])
                )
                for image in range(6)
                if groups[image] != groups[caption]
            }
            best = sorted(early, key=early.__getitem__)[-2:]
            assert set(computed[:, caption].nonzero()[:, 0].tolist()) == {caption, *best}


def test_too_few_candidates():
    groups = torch.tensor([0, 0, 1])
    same = groups[:, None] == groups
    selected, valid = select_early(torch.rand(3, 3), same, torch.arange(3), 5)
    assert valid.tolist() == [[True, True, False], [True, True, False], [True, True, True]]
    assert selected[:, 0].tolist() == [0, 1, 2]
    assert selected[:2, 1].tolist() == [2, 2]
    model = build(candidates=9)
    enter(model, "all")
    groups = torch.tensor([0, 0, 1, 1, 1, 1])
    for scores, computed in scores_of(model, *inputs(), groups).values():
        expected = (groups[:, None] != groups[None]) | torch.eye(6, dtype=torch.bool)
        assert torch.equal(computed, expected)
        assert not scores[~computed].any()


@pytest.mark.parametrize("order", ["attended", "random"])
@pytest.mark.parametrize("orientation", ["both", "word", "object"])
def test_padding_never_matters(orientation, order):
    model = build(orientation=orientation, order=order)
    enter(model, "all")
    images, captions = inputs()
    counts, lengths = images.counts, captions.lengths
    features, tokens = images.features.clone(), captions.ids.clone()
    for image, caption, count, length in zip(features, tokens, counts, lengths, strict=True):
        image[count:] = 9.0
        caption[length:] = 3
    other = Regions(features, images.positions, counts), Words(tokens, lengths)
    wider = (
        Regions(
            torch.nn.functional.pad(features, (0, 0, 0, 2), value=4.0),
            torch.nn.functional.pad(images.positions, (0, 0, 0, 2), value=0.5),
            counts,
        ),
        Words(torch.nn.functional.pad(tokens, (0, 3), value=2), lengths),
    )
    expected = scores_of(model, images, captions)
    for sides in (other, wider):
        for name, (scores, computed) in scores_of(model, *sides).items():
            torch.testing.assert_close(scores, expected[name][0], rtol=0, atol=1e-6)
            assert torch.equal(computed, expected[name][1])


@pytest.mark.parametrize("phase", ["matching", "recurrent", "all"])
def test_gradients_reach_what_the_phase_trains(phase):
    model = build()
    enter(model, "all")
    enter(model, phase)
    loss = PairLoss(make_loss("sum_margin", margin=0.5))
    found = scores_of(model, *inputs())
    assert found.keys() == {"word", "object"}
    sum(loss(scores, OWN, computed) for scores, computed in found.values()).backward()
    for name, values in model.named_parameters():
        wanted = phase == "all" or (".recurrent." in name) == (phase == "recurrent")
        assert (values.grad is not None and bool(values.grad.any())) == wanted, name


@pytest.mark.parametrize("pooling", ["mean", "lse", "mean_lse"])
@pytest.mark.parametrize(("orientation", "direction"), [("word", "t2i"), ("object", "i2t")])
def test_without_gate_weights_and_recurrence_it_is_scan(orientation, direction, pooling):
    """SCAN-based (table 1), of unit vectors as in SCAN's code; both with the same weights.
    mean_lse: t-i AVG and i-t LSE, the two that SCAN's best figures average."""
    ours = build(
        orientation=orientation,
        matching="scan",
        vectors="unit",
        pooling=pooling,
        recurrent=False,
        position_gate=False,
        temperature_words=9.0,
        temperature_objects=4.0,
        lse=5.0,
    )
    temperature = 9.0 if direction == "t2i" else 4.0
    if pooling == "mean_lse":
        pooling = "mean" if direction == "t2i" else "lse"
    options = {"direction": direction, "pooling": pooling, "temperature": temperature}
    config = SCANConfig(word_dim=5, dim=6, lse=5.0, **options)
    scan = SCAN(config, image_dim=7, vocabulary_size=20)
    (tower,) = ours.networks
    scan.regions.load_state_dict(tower.image.state_dict())
    scan.text.load_state_dict(tower.text.state_dict())
    images, captions = inputs()
    ((scores, computed),) = scores_of(ours, images, captions).values()
    assert computed.all()
    theirs = scan.score(scan.embed_images(images), scan.embed_captions(captions))
    torch.testing.assert_close(scores, theirs, rtol=0, atol=1e-6)


@pytest.mark.parametrize("vectors", ["raw", "unit"])
def test_under_autocast_pairs_are_compared_in_float32(vectors):
    """Sums over regions and words lose digits in bf16."""
    model = build(vectors=vectors)
    images, captions = inputs()
    tower = model.single("word")
    with torch.autocast("cpu", torch.bfloat16):
        sides = *tower.embed_images(images), *tower.embed_captions(captions)
    for side in sides:
        assert side.vectors.dtype == side.sums.dtype == torch.float32
