"""DP-RNN: early selection, phases, and the whole model against loops over pairs."""

import copy

import pytest
import torch
from matching_cases import direction_of, slow_similarity
from models.scan.network import SCAN

from models.dp_rnn.loss import NetworksLoss
from models.dp_rnn.network import DPRNN
from models.dp_rnn.tower import select_early
from models.ranking import make_loss

LAMBDA = {"word": 4.0, "object": 9.0}


def inputs(dtype=torch.float32, size=6, objects=5, words=4):
    generator = torch.Generator().manual_seed(3)
    counts = torch.randint(1, objects + 1, (size,), generator=generator)
    lengths = torch.randint(1, words + 1, (size,), generator=generator)
    counts[0], lengths[0], counts[1], lengths[1] = objects, words, 1, 1
    features = torch.rand(size, objects, 7, generator=generator)
    positions = torch.rand(size, objects, 4, generator=generator)
    tokens = torch.randint(1, 20, (size, words), generator=generator)
    return features.to(dtype), positions.to(dtype), counts, tokens, lengths


def build(dtype=torch.float32, **settings):
    torch.manual_seed(3)
    model = DPRNN(7, 20, 5, 6, **({"candidates": 2} | settings)).to(dtype)
    for name, values in [*model.named_parameters(), *model.named_buffers()]:
        if name.endswith("direction"):
            torch.nn.init.normal_(values, std=3.0)
    return model


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
        image = image if tower.raw else torch.nn.functional.normalize(image, dim=1)
    return slow_similarity(image, caption, name, LAMBDA[name], direction, beta)


def slow_scores(tower, name, computed, data, recurrent):
    """Zero where nothing was computed."""
    objects, words = tower.embed_images(*data[:3]).vectors, tower.embed_captions(*data[3:]).vectors
    counts, lengths = data[2], data[4]
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
    model.enter_phase("all" if recurrent else "matching")
    data, groups = inputs(dtype), torch.tensor([0, 1, 2, 2, 3, 4])
    results = model(*data, groups)
    exact = copy.deepcopy(model).double()
    wide = [values.double() if values.is_floating_point() else values for values in data]
    for (name, tower), (scores, computed) in zip(model.towers.items(), results, strict=True):
        slow = slow_scores(exact.towers[name], name, computed, wide, recurrent)
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
    model.enter_phase("all")
    data, groups = inputs(), torch.tensor([0, 1, 2, 2, 3, 4])
    found = zip(model.towers.items(), model(*data, groups), strict=True)
    for (name, tower), (_, computed) in found:
        objects, words = tower.embed_images(*data[:3]), tower.embed_captions(*data[3:])
        for caption in range(6):
            raw_shares = slow_shares(tower, name, words.vectors[caption, : data[4][caption]])
            shares = torch.stack(raw_shares) / sum(raw_shares)
            early = {
                image: sum(
                    (shares[j] * (objects.vectors[image, i] @ words.vectors[caption, j])).item()
                    for i in range(data[2][image])
                    for j in range(data[4][caption])
                )
                for image in range(6)
                if groups[image] != groups[caption]
            }
            best = sorted(early, key=early.__getitem__)[-2:]
            assert set(computed[:, caption].nonzero()[:, 0].tolist()) == {caption, *best}


def test_too_few_candidates():
    selected, valid = select_early(torch.rand(3, 3), torch.tensor([0, 0, 1]), 5)
    assert valid.tolist() == [[True, True, False], [True, True, False], [True, True, True]]
    assert selected[:, 0].tolist() == [0, 1, 2]
    assert selected[:2, 1].tolist() == [2, 2]
    model = build(candidates=9)
    model.enter_phase("all")
    groups = torch.tensor([0, 0, 1, 1, 1, 1])
    for scores, computed in model(*inputs(), groups):
        expected = (groups[:, None] != groups[None]) | torch.eye(6, dtype=torch.bool)
        assert torch.equal(computed, expected)
        assert not scores[~computed].any()


@pytest.mark.parametrize("order", ["attended", "random"])
@pytest.mark.parametrize("orientation", ["both", "word", "object"])
def test_padding_never_matters(orientation, order):
    model = build(orientation=orientation, order=order)
    model.enter_phase("all")
    features, positions, counts, tokens, lengths = inputs()
    other = features.clone(), positions.clone(), counts, tokens.clone(), lengths
    for image, caption, count, length in zip(other[0], other[3], counts, lengths, strict=True):
        image[count:] = 9.0
        caption[length:] = 3
    wider = (
        torch.nn.functional.pad(other[0], (0, 0, 0, 2), value=4.0),
        torch.nn.functional.pad(other[1], (0, 0, 0, 2), value=0.5),
        counts,
        torch.nn.functional.pad(other[3], (0, 3), value=2),
        lengths,
    )
    groups = torch.arange(6)
    expected = model(features, positions, counts, tokens, lengths, groups)
    for data in (other, wider):
        for left, right in zip(model(*data, groups), expected, strict=True):
            torch.testing.assert_close(left.scores, right.scores, rtol=0, atol=1e-6)
            assert torch.equal(left.computed, right.computed)


@pytest.mark.parametrize("phase", ["matching", "recurrent", "all"])
def test_gradients_reach_what_the_phase_trains(phase):
    model = build()
    model.enter_phase("all")
    model.enter_phase(phase)
    loss = NetworksLoss({name: make_loss("sum_margin", margin=0.5) for name in model.towers})
    losses = loss(model(*inputs(), torch.arange(6)), torch.arange(6))
    assert losses.keys() == {"word", "object"}
    sum(losses.values()).backward()
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
    scan = SCAN(7, 20, 5, 6, direction, pooling, temperature, lse=5.0)
    (tower,) = ours.networks()
    scan.regions.load_state_dict(tower.image.state_dict())
    scan.text.load_state_dict(tower.text.state_dict())
    ((scores, computed),) = ours(*inputs(), torch.arange(6))
    assert computed.all()
    torch.testing.assert_close(scores, scan(*inputs()), rtol=0, atol=1e-6)
