"""What every model of models/ promises: training shares rows among processes, scoring takes blocks
of them, search and export use vectors alone, and none of these knows a model.

A new file in models/ is tested by it as it stands. The last parameters are variants of models whose
other settings take other ways.
"""

from contextlib import chdir
from dataclasses import replace

import pytest
import torch
from dual_path_runs import stage_1, stage_2
from promised import SEED, leaves, make, train, write_needed
from torch import nn
from torch.testing import assert_close

from models.base import evaluating, part_of
from models.registry import model_names
from pipeline.runtime.errors import WorkbenchError

VARIANTS = {
    "scan-i2t": {"direction": "i2t", "pooling": "lse", "position_gate": True},
    "vse-gpo": {"text_encoder": "lstm", "text_pool": "gpo", "word_vectors": "pretrained"},
    "two_branch-linear": {"branches": "linear", "standardise_sentences": True},
    "two_branch-tuned": {
        "dropout": 0.0,
        "batch_norm": False,
        "weights": {
            "image_to_sentence": 1.0,
            "sentence_to_image": 2.0,
            "image_image": 0.1,
            "sentence_sentence": 0.2,
        },
        "fine_tuning": {"epochs": 1, "batch_size": 4, "resize": 32, "crop": 28},
    },
    "vse_infinity-states": {"words": "transformer"},
    "vse_infinity-trained": {"words": "transformer", "train_words": {"epochs": 1, "lr": 0.001}},
    # the image network runs while it is frozen, and then is trained
    "dual_path-pixels": {"dropout": 0.0, "phases": [stage_1(1, "pixels"), stage_2(1)]},
    "dp_rnn-word": {"orientation": "word"},
    "dp_rnn-plain": {"recurrent": False, "matching": "scan", "pooling": "lse"},
}
CASES = [*model_names(), *VARIANTS]
EXACT = {"rtol": 0, "atol": 0}
CLOSE = {"rtol": 1e-5, "atol": 2e-6}  # float32 sums in another order
NORMS = (nn.modules.batchnorm._BatchNorm, nn.modules.dropout._DropoutNd)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Work in it: paths of images in the tables are relative."""
    folder = tmp_path_factory.mktemp("promises")
    write_needed(folder)
    with chdir(folder):
        yield folder


@pytest.fixture(scope="module", params=CASES)
def case(request):
    """The name of a model, and changes of its section."""
    if request.param.endswith("-trained"):
        pytest.importorskip("sentence_transformers", reason="the extra `text` is not installed")
    return request.param.split("-")[0], VARIANTS.get(request.param, {})


@pytest.fixture(scope="module")
def trained(case, folder):
    """A model after some steps of every phase, or its fit, and what the steps did."""
    name, changes = case
    made = make(name, folder, **changes)
    made.records = train(made)
    made.model.eval()
    return made


def embedded(made, split="test"):
    """All images and captions of a split, each side at once."""
    rows = made.split(split)
    images = rows.images(torch.arange(len(rows.image_ids)).numpy())
    captions = rows.captions(torch.arange(len(rows.caption_ids)).numpy())
    with evaluating(made.model):
        return made.model.embed_images(images), made.model.embed_captions(captions)


def assert_rows_alone(embed, source, count):
    """Rows of a batch are those of each row alone, but for padding at the end."""
    everyone = torch.arange(count).numpy()
    with torch.no_grad():
        together = leaves(embed(source(everyone)))
        for row in range(count):
            for whole, alone in zip(together, leaves(embed(source(everyone[[row]]))), strict=True):
                own = whole[row][tuple(slice(size) for size in alone.shape[1:])]
                assert_close(own, alone[0], **CLOSE)
                padding = whole[row].clone()
                padding[tuple(slice(size) for size in alone.shape[1:])] = 0
                assert not padding.any()


@pytest.mark.parametrize("mode", ["evaluation", "training"])
def test_embedding_is_row_by_row(trained, mode):
    """So that processes may take a share of the rows each."""
    model, split = trained.model, trained.split("test")
    if mode == "training":
        if any(isinstance(module, NORMS) for module in model.modules()):
            pytest.skip("batch norm and dropout see the batch")
        model.train()
    try:
        assert_rows_alone(model.embed_images, split.images, len(split.image_ids))
        assert_rows_alone(model.embed_captions, split.captions, len(split.caption_ids))
    finally:
        model.eval()
    images, captions = embedded(trained)
    for side, count in ((images, split.image_ids), (captions, split.caption_ids)):
        assert {len(leaf) for leaf in leaves(side)} == {len(count)}


def test_a_column_of_scores_needs_its_caption_and_all_images_only(trained):
    """Captions in any blocks and any order, padded or not."""
    model, split = trained.model, trained.split("test")
    images, captions = embedded(trained)
    count = len(split.caption_ids)
    order = torch.randperm(count, generator=torch.Generator().manual_seed(0))
    with evaluating(model):
        whole = model.score(images, captions)
        assert whole.shape == (len(split.image_ids), count)
        assert whole.dtype in (torch.float32, torch.float64)
        assert whole.isfinite().all()
        assert whole.std() > 1e-4  # of weights that tell inputs apart
        for size in (1, 3):
            for rows in order.split(size):
                some = model.embed_captions(split.captions(rows.numpy()))
                assert_close(model.score(images, some), whole[:, rows], **CLOSE)
                assert_close(model.score(images, part_of(captions, rows)), whole[:, rows], **CLOSE)
    found = model.score_split(split)
    assert_close(torch.from_numpy(found.matrix), whole.float(), **CLOSE)
    assert list(found.image_ids) == split.image_ids
    assert list(found.caption_ids) == split.caption_ids


def test_pairs_of_some_captions_are_columns_of_those_of_all(trained):
    """In training, where processes share the columns. An image that is in the batch twice counts
    once: which of two equal candidates is scored in full hangs on the last bit of early scores."""
    if not trained.records:
        pytest.skip("it is fitted")
    batch = trained.batch()
    copies = batch.image_groups.unique(return_inverse=True)[1]

    def of_images(values):
        sums = values.new_zeros(int(copies.max()) + 1, values.shape[1], dtype=torch.float64)
        return sums.index_add(0, copies, values.double())

    part = list(trained.model.parts().values())[-1]
    with torch.no_grad():
        images = part.embed_images(batch.images)
        captions = part.embed_captions(batch.captions)
        everyone = torch.arange(len(batch))
        whole = part.pairs(images, captions, batch, everyone)
        for rows in (*everyone.split(1), *everyone.split(3)):
            some = part.pairs(images, part_of(captions, rows), batch, rows)
            assert (some is None) == (whole is None)
            if some is not None:
                assert_close(of_images(some.scores), of_images(whole.scores[:, rows]), **CLOSE)
                assert (some.computed is None) == (whole.computed is None)
                if some.computed is not None:
                    found = of_images(some.computed)
                    assert torch.equal(found, of_images(whole.computed[:, rows]))


def test_index_gives_unit_rows_whose_products_are_the_scores_of_vectors(trained):
    model = trained.model
    images, captions = embedded(trained)
    with evaluating(model):
        left, right = model.index(images), model.index(captions)
        scores = model.score(images, captions)
    assert left.shape[1] == right.shape[1]
    for vectors, side in ((left, images), (right, captions)):
        assert len(vectors) == len(leaves(side)[0])
        assert_close(vectors.norm(dim=1), torch.ones(len(vectors)), rtol=0, atol=1e-5)
    found = model.score_split(trained.split("test"))
    assert_close(torch.from_numpy(found.image_embeddings), left, **CLOSE)
    assert_close(torch.from_numpy(found.caption_embeddings), right, **CLOSE)
    if model.VECTORS:
        assert_close(scores, left @ right.T, **CLOSE)


def test_a_checkpoint_has_all_that_scoring_needs(trained, tmp_path):
    """Its architecture and its weights: neither params.yaml nor the criterion."""
    checkpoint = trained.checkpoint(tmp_path / "weights.safetensors")
    torch.manual_seed(SEED + 1)
    again = trained.kind.from_checkpoint(checkpoint, trained.name)
    assert not again.training
    split = trained.split("test")
    shown = again.scored_split(trained.data, "test")
    expected, found = trained.model.score_split(split), again.score_split(shown)
    assert_close(torch.from_numpy(found.matrix), torch.from_numpy(expected.matrix), **CLOSE)
    assert_close(again.weights(), trained.model.weights(), **EXACT)
    assert again.architecture(trained.data.sizes) == checkpoint.description.architecture
    assert again.used(trained.name, trained.run) == checkpoint.description.params


def test_architecture_and_weights_suffice_to_score(trained, tmp_path):
    """Keys of the section that they leave out decide the training alone."""
    checkpoint = trained.checkpoint(tmp_path / "weights.safetensors")
    bare = replace(checkpoint, description=checkpoint.description.model_copy(update={"params": {}}))
    again = trained.kind.from_checkpoint(bare, trained.name)
    split = trained.split("test")
    expected, found = trained.model.score_split(split), again.score_split(split)
    assert_close(torch.from_numpy(found.matrix), torch.from_numpy(expected.matrix), **CLOSE)


def test_an_architecture_that_is_damaged_is_refused(trained, tmp_path):
    """Or built, where the weights do not depend on it: never a traceback."""
    checkpoint = trained.checkpoint(tmp_path / "weights.safetensors")
    whole = checkpoint.description.architecture
    said = []
    for key in whole:
        for value in (None, -1, 10**9, "x"):
            changed = {name: own for name, own in whole.items() if name != key}
            if value is not None:
                changed[key] = value
            for params in (checkpoint.description.params, {}):
                update = {"architecture": changed, "params": params}
                described = checkpoint.description.model_copy(update=update)
                try:
                    trained.kind.from_checkpoint(
                        replace(checkpoint, description=described), trained.name
                    )
                except WorkbenchError as error:
                    said.append(error.message)
    assert len(said) > len(whole)
    assert all(message.startswith(f"{checkpoint.path}: damaged") for message in said)


def test_weights_are_those_of_the_network_and_none_of_the_criterion(case, folder):
    """Even where the loss has learnt weights of its own."""
    name, changes = case
    model = make(name, folder, loss="infonce", **changes).model
    criterion = getattr(model, "criterion", nn.ModuleDict())
    own = {value.data_ptr() for value in criterion.state_dict().values()}
    kept = {value.data_ptr() for value in model.weights().values()}
    assert not own & kept
    assert {value.data_ptr() for value in model.state_dict().values()} == own | kept
    if "ranking" in criterion:
        assert own  # the temperature


def test_what_it_needs_is_what_it_opens(trained):
    """With these files alone; sizes are the arguments of the constructor."""
    data = trained.data
    assert data.sizes
    assert all(isinstance(value, str) and value for value in data.identity.values())
    assert data.identity
    for name in ("train", "val", "test"):
        split = data.split(name)
        assert len(split.image_ids) == len(split.image_groups) > 0
        assert len(split.caption_ids) == len(split.described) > 0
        assert {len(leaf) for leaf in leaves(split.images(split.described[:3]))} == {3}
        assert {len(leaf) for leaf in leaves(split.captions(split.described[:3]))} == {3}


def samplers(made):
    """Every order of batches of all phases, once."""
    parts = made.model.parts().values()
    phases = [phase for part in parts for phase in part.phases(made.data, made.run)]
    return list({id(phase.batches): phase.batches for phase in phases}.values())


def assert_same(found, expected):
    assert len(found) == len(expected)
    for batch, other in zip(found, expected, strict=True):
        assert_close(leaves(batch), leaves(other), **EXACT)


def test_an_epoch_follows_from_seed_epoch_and_first_step_alone(case, folder):
    """A training that was killed goes on with the batches that it would have had."""
    name, changes = case
    made, again = make(name, folder, **changes), make(name, folder, **changes)
    other = make(name, folder, **changes)
    other.run = type(made.run)(made.run.loss, made.run.ranking, SEED + 1)
    if made.model.fit(made.data) is not None:
        pytest.skip("it is fitted")
    triples = list(zip(samplers(made), samplers(again), samplers(other), strict=True))
    assert triples
    for batches, same, drawn_otherwise in triples:
        assert batches.steps > 1
        expected = list(batches.epoch(1))
        assert len(expected) == batches.steps
        torch.manual_seed(99)
        for first in (0, 1, batches.steps - 1, batches.steps):
            assert_same(list(same.epoch(1, first)), expected[first:])
        for differing in (batches.epoch(0), drawn_otherwise.epoch(1)):
            pairs = zip(leaves(next(iter(differing))), leaves(expected[0]), strict=True)
            assert any(a.shape != b.shape or not torch.equal(a, b) for a, b in pairs)


def test_phases_train_every_weight_and_freeze_the_others(trained):
    """Losses are numbers, a frozen weight gets no gradient and keeps its bits, and over all phases
    every weight is reached."""
    if not trained.records:
        assert not list(trained.model.parameters())
        return
    reached = {}
    for record in trained.records:
        assert record.losses
        assert torch.tensor(record.losses).isfinite().all()
        assert not record.leaked
        assert not record.moved
        names = reached.setdefault(record.part, set())
        names |= {name for name, count in record.reached.items() if count}
        assert record.reached, record.phase.name
        assert record.phase.epochs > 0
    assert any(record.phase.selects for record in trained.records)
    for part, model in trained.model.parts().items():
        assert {name for name, _ in model.named_parameters()} == reached[part], part


def test_every_phase_can_be_entered_again_after_any_other(trained):
    """A resumed training enters its phase with a network that has seen no other."""
    for part in trained.model.parts().values():
        phases = part.phases(trained.data, trained.run) if trained.records else []
        state = {}
        for phase in (*phases, *reversed(phases)):
            part.train()
            part.enter(phase)
            frozen = [not weight.requires_grad for weight in part.parameters()]
            modes = [module.training for module in part.modules()]
            assert state.setdefault(phase.name, (frozen, modes)) == (frozen, modes)
        if phases:
            part.enter(phases[-1])
    trained.model.eval()


def test_attention_of_a_pair_sums_to_one_and_has_its_score(trained):
    model, split = trained.model, trained.split("test")
    if not trained.kind.attends():
        pytest.skip("it shows no attention")
    for caption in range(3):
        image = split.described[[caption]]
        regions, words = split.images(image), split.captions(torch.tensor([caption]).numpy())
        view = model.attention(regions, words)
        with evaluating(model):
            score = model.score(model.embed_images(regions), model.embed_captions(words))
        assert view.score == pytest.approx(score.item(), abs=1e-6)
        assert view.weights.shape == (int(words.lengths[0]), int(regions.counts[0]))
        sums = [view.weights.sum(axis) for axis in (0, 1)]
        assert any((one - 1).abs().max() < 1e-5 for one in sums)
        assert (view.weights >= 0).all()
        for shares, axis in ((view.word_weights, 0), (view.region_weights, 1)):
            if shares is not None:
                assert shares.shape == (view.weights.shape[axis],)
                assert shares.sum().item() == pytest.approx(1, abs=1e-5)
        if view.order is not None:
            assert sorted(view.order.tolist()) == list(range(view.weights.shape[1]))
