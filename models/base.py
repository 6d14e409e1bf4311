"""What a model of image-text retrieval is, how it is trained, and how a split is scored.

A model embeds images and captions row by row, and a caption's scores need only that caption and all
images. Both are promises: training lets several processes take a share of the rows each
(pipeline/training), and scoring takes a block of them at a time. A model knows of neither.

`Model` is the whole contract. A model must embed both sides; whatever else it does differently, it
overrides. Every other method here is right for vectors that are compared by their cosine.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize
from torch.utils._pytree import tree_map

from models.layers.linear import Standardise, l2_normalise, length_mask
from models.losses import PairLoss
from models.ranking import loss_class, make_loss, warms_up
from pipeline.corpus.vocabulary import load_word_vectors
from pipeline.evaluation.score_file import SplitScores
from pipeline.evaluation.scores import Products
from pipeline.features.checkpoint import Checkpoint
from pipeline.features.data import Inputs, RetrievalData
from pipeline.features.split import Batch, Captions, Images, PairBatches, Split, Words, to_device
from pipeline.runtime.process import Progress, say
from pipeline.runtime.section import Section
from pipeline.training.curve import validate_retrieval
from pipeline.training.process_group import ProcessGroup
from pipeline.training.resume import ResumeFile
from pipeline.training.schedule import (
    Row,
    Schedule,
    Weights,
    build_optimiser,
    give_own_rate,
)
from pipeline.training.trainer import (
    NOT_FINITE,
    Batches,
    Loss,
    Phase,
    Trainable,
    Trainer,
    TrainingResult,
    Validation,
)

TOGETHER = "together"  # in the column `part` of a curve: the kept weights of all parts
WARM_UP = "sum_margin"  # never collapses: all negatives push
VECTOR_BLOCK = 256  # images or captions embedded at once where vectors are compared
IMAGE_BLOCK = 64  # images embedded at once where pairs are compared
CAPTION_BLOCK = 256  # captions embedded and scored at once where pairs are compared
PROGRESS_FROM = 1 << 20  # pairs from which on progress is shown

Rows = Any  # what a model embeds: a tensor of B rows, or a tuple of such


@dataclass(frozen=True)
class Run:
    """What all models of a run share.

    Args:
        loss: Name of the ranking loss, a file of models/losses.
        ranking: Settings of the ranking losses, the section `ranking` of params.yaml.
        seed: Of the run.
    """

    loss: str
    ranking: dict[str, Any]
    seed: int

    def __post_init__(self) -> None:
        # Losses are imported by name. The digest of the code that may continue a training counts
        # what is loaded when the training begins.
        for name in (self.loss, WARM_UP):
            loss_class(name)

    def used(self, name: str, config: Any, unread: Any = None) -> dict[str, Any]:
        """What decides the weights of a model, for its checkpoint.

        Args:
            name: Of the model.
            config: Its section of params.yaml.
            unread: Keys of the section that decide no result, as pydantic's `exclude`.

        Returns:
            The values, which JSON can hold.
        """
        section = config.model_dump(mode="json", exclude=unread)
        return {"loss": self.loss, "seed": self.seed, "ranking": self.ranking, name: section}

    def pair_loss(self, name: str, margin: float, reduction: str) -> PairLoss:
        """A ranking loss for both directions of a batch of pairs.

        Args:
            name: A file of models/losses.
            margin: On the scale of the model's scores.
            reduction: sum over the queries, or mean.

        Returns:
            The loss.
        """
        return PairLoss(make_loss(name, margin=margin, **self.ranking), reduction)


class Pairs(NamedTuple):
    """Scores of a batch in training."""

    scores: Tensor  # (I, C), 0 where not computed
    computed: Tensor | None = None  # (I, C) bool, None where all are


class AttentionView(NamedTuple):
    """What a model attended to in an image of R regions and a caption of T words.

    Weights sum to 1 over the regions where words attend to regions, else over the words.
    """

    score: float
    weights: Tensor  # (T, R)
    word_weights: Tensor | None = None  # (T,) shares in the score, None where all are equal
    region_weights: Tensor | None = None  # (R,) likewise
    order: Tensor | None = None  # (R,) in which regions were read, if in any


class OwnRate(NamedTuple):
    """Weights that are trained with a learning rate of their own."""

    weights: list[nn.Parameter]
    share: float  # the rate, as a share of that of the training
    key: str  # of the model's section, such as train_words.lr


class Model(Trainable):
    """A model of image-text retrieval, constructed from its section of params.yaml and the sizes of
    its data: `Kind(config, **data.sizes)`.

    Args:
        config: Its section of params.yaml.
    """

    Config: ClassVar[type[Section]]  # its section of params.yaml
    NEEDS: ClassVar[dict[str, str]]  # options of its stages and their files, as in dvc.yaml
    VECTORS: ClassVar[bool] = True  # whether a score is the cosine of two `index` vectors
    # Keys of the section that the training reads; the others decide the network, and stand in a
    # checkpoint's architecture.
    TRAINING_KEYS: ClassVar[set[str]] = {
        "words",
        "word_vectors",
        "standardise_images",
        "margin",
        "training",
    }
    # The model that these weights are before their first step; tables say how far they are ahead.
    BEGINS_AS: ClassVar[str | None] = None
    SHORTLISTS: ClassVar[bool] = False  # whether `score` may leave images out (--shortlist)
    shortlist: int | None = None  # images per caption that are scored in full, None for all
    criterion: nn.ModuleDict  # trained with the model, in no checkpoint

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config = config

    @classmethod
    def open_data(cls, config: Any, files: Inputs, in_memory: bool = True) -> RetrievalData:
        """Open what this model reads.

        Args:
            config: Its section of params.yaml.
            files: The artefacts, as NEEDS names them.
            in_memory: Whether features are read into memory where they fit.

        Returns:
            The opened data, of which nothing is read yet but what shapes need.
        """
        raise NotImplementedError

    # ---- embedding and scores

    def embed_images(self, images: Images) -> Rows:
        """What of B images is compared: a tensor of B rows, or a tuple of such."""
        raise NotImplementedError

    def embed_captions(self, captions: Captions) -> Rows:
        """What of B captions is compared."""
        raise NotImplementedError

    def index(self, side: Rows) -> Tensor:
        """Unit rows (B, K) of an embedded side, for search and export."""
        return l2_normalise(side)

    def score(self, images: Rows, captions: Rows) -> Tensor:
        """Similarities in evaluation; a column needs its caption and all images.

        Args:
            images: N embedded images.
            captions: M embedded captions.

        Returns:
            (N, M), at least float32.
        """
        # bf16 keeps 3 digits of a cosine: too few beside a margin of 0.2
        with torch.autocast(self.device.type, enabled=False):
            return self.index(images) @ self.index(captions).T

    # ---- training

    def start(self, data: RetrievalData, run: Run) -> None:
        """Take first weights from the data, and make the losses that are trained along.

        Args:
            data: Whose training split gives the moments of image features, and whose vocabulary the
                word vectors.
            run: Names the ranking loss.
        """
        config = self.config
        if getattr(config, "word_vectors", "random") == "pretrained":
            vectors = torch.from_numpy(load_word_vectors(data.files.text, config.word_dim))
            vectors[0] = 0  # padding
            for name, part in self.named_modules():
                if isinstance(part, nn.Embedding) and name.endswith("words"):
                    part.weight.data.copy_(vectors)
        of_images = [
            part
            for name, part in self.named_modules()
            if isinstance(part, Standardise) and not name.startswith("sentence")
        ]
        if of_images and getattr(config, "standardise_images", True):
            moments = data.train_moments()
            for part in of_images:
                part.fit(*moments)
        self.criterion = nn.ModuleDict()
        self.criterion["ranking"] = self.ranking_loss(run, run.loss)

    def ranking_loss(self, run: Run, name: str) -> nn.Module:
        """A ranking loss of a batch, of the model's margin and reduction.

        Args:
            run: Has the settings of all ranking losses.
            name: A file of models/losses.

        Returns:
            A module whose own weights, if any, are trained with the model.
        """
        return run.pair_loss(name, self.config.margin, self.config.training.reduction)

    def phases(self, data: RetrievalData, run: Run) -> list[Phase]:
        """The epochs: those of the warm-up, where the loss needs one, then those of the loss.

        Args:
            data: What they are trained and validated on.
            run: Names the ranking loss.

        Returns:
            One phase, or two, each of at least one epoch.
        """
        size = self.config.training.batch_size
        batches = PairBatches(data.split("train"), size, run.seed)
        return self.ranking_phases(batches, data.split("val"), run)

    def ranking_phases(self, batches: Batches, val: Any, run: Run) -> list[Phase]:
        """The epochs of the ranking loss, after those of a warm-up where it needs one.

        Args:
            batches: What they are trained on.
            val: What they are validated on.
            run: Names the ranking loss.

        Returns:
            One phase, or two, each of at least one epoch.
        """
        training = self.config.training
        warm_up = training.warmup_epochs if warms_up(run.loss) else 0
        phases = []
        if warm_up:
            first = self.ranking_loss(run, WARM_UP)
            phases.append(Phase(WARM_UP, warm_up, batches, val, ranking=first))
        ranking = self.criterion["ranking"]
        epochs = training.epochs - warm_up
        phases.append(Phase(run.loss, epochs, batches, val, ranking=ranking))
        return phases

    def pairs(self, images: Rows, captions: Rows, batch: Batch, rows: Tensor) -> Pairs | None:
        """Scores in training, of all images and some captions of a batch: a process may be asked
        for a share of them. By default every pair is scored.

        Args:
            images: I embedded images.
            captions: m embedded captions.
            batch: The whole batch.
            rows: (m,) which of its captions these are.

        Returns:
            Scores (I, m); None for a model whose loss makes its own.
        """
        return Pairs(self.score(images, captions))

    def loss(
        self, images: Rows, captions: Rows, pairs: Pairs | None, batch: Batch, phase: Phase
    ) -> Loss:
        """The loss of a whole batch, which is embedded and compared already.

        Args:
            images: I embedded images.
            captions: C embedded captions.
            pairs: Their scores.
            batch: Says which pairs are no negatives.
            phase: Has the ranking loss.

        Returns:
            The loss, and what is shown beside it.
        """
        assert pairs is not None
        assert phase.ranking is not None
        value = phase.ranking(pairs.scores, batch.image_groups, pairs.computed, batch.related)
        return Loss({"": value})

    def own_rate(self) -> OwnRate | None:
        """Weights with a learning rate of their own; None by default."""
        return None

    def parts(self) -> dict[str, "Model"]:
        """Models that share weights with this one and are trained in turn, each as if alone."""
        return {"": self}

    def fit(self, data: RetrievalData) -> TrainingResult | None:
        """Fit in closed form; None for a model that has phases."""
        return None

    def validate(self, val: Split) -> Validation:
        """What the weights are worth: by default the recalls of retrieval."""
        return validate_retrieval(self.score_split(val))

    def score_split(self, split: Split) -> SplitScores:
        """Scores of all images of a split with all its captions, as they are evaluated."""
        return score_vectors(self, split) if self.VECTORS else score_pairs(self, split)

    def scored_split(self, data: RetrievalData, name: str) -> Split:
        """A split as evaluation reads it, perhaps from pixels: val or test.

        Args:
            data: What the model reads.
            name: val or test.

        Returns:
            The split.
        """
        return data.split(name)

    def unread(self) -> Any:
        """Keys of the section that decide no result, as pydantic's `exclude`; None for none."""
        return None

    def uses_shortlist(self) -> bool:
        """Whether these weights score some images of a caption in another way than the others."""
        return False

    def used(self, name: str, run: Run) -> dict[str, Any]:
        """What decides the weights, for the checkpoint.

        Args:
            name: Of the model.
            run: What all models of the run share.

        Returns:
            The values, which JSON can hold.
        """
        return run.used(name, self.config, self.unread())

    @classmethod
    def read_settings(cls, section: dict[str, Any], architecture: dict[str, Any]) -> dict[str, Any]:
        """Settings of a checkpoint, of which those of Config make the section that the model is
        built by.

        Args:
            section: What the checkpoint keeps of the section of params.yaml.
            architecture: What it says of the network's shape, which counts where both speak.

        Returns:
            Settings by name.
        """
        return section | architecture

    # ---- pictures

    def attention(self, images: Images, captions: Captions) -> AttentionView:
        """What it attended to in one image and one caption; only models that attend have it.

        Args:
            images: One image, without padding.
            captions: One caption, without padding.

        Returns:
            What a picture shows of them.
        """
        raise NotImplementedError

    # ---- what no model overrides

    @classmethod
    def attends(cls) -> bool:
        """Whether the model can show what it attended to."""
        return cls.attention is not Model.attention

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.parameters()).device

    @property
    def precision(self) -> str:
        """fp32, or bf16 for autocast in training and while pairs are compared."""
        training = getattr(self.config, "training", None)
        return getattr(training, "precision", "fp32")

    def weights(self) -> Weights:
        """What a checkpoint keeps: all but the criterion."""
        state = self.state_dict()
        return {name: value for name, value in state.items() if not name.startswith("criterion.")}

    def architecture(self, sizes: dict[str, Any]) -> dict[str, Any]:
        """What a checkpoint says of the network's shape.

        Args:
            sizes: Of the data, by the names of the constructor's arguments.
        """
        settings = self.config.model_dump(exclude=self.TRAINING_KEYS)
        return sizes | settings

    @classmethod
    def from_checkpoint(cls, checkpoint: Checkpoint, name: str) -> Self:
        """The trained model, on the CPU, in evaluation mode.

        Args:
            checkpoint: Of a model of this class.
            name: The model's, whose section of params.yaml the checkpoint holds.

        Returns:
            The model.

        Raises:
            WorkbenchError: The file is damaged.
        """

        def build(**architecture: Any) -> Any:
            section = checkpoint.description.params.get(name, {})
            settings = cls.read_settings(section, architecture)
            keys = cls.Config.model_fields
            own = {key: value for key, value in settings.items() if key in keys}
            config = cls.Config.model_validate(own)
            sizes = {key: value for key, value in architecture.items() if key not in keys}
            return cls(config, **sizes)

        model: Self = checkpoint.build(build)
        return model

    def batch_loss(self, batch: Batch, phase: Phase, processes: ProcessGroup) -> Loss:
        """The loss of a batch, the whole of which every process has; each embeds and compares its
        share of the rows.

        Args:
            batch: On the model's device.
            phase: The running phase.
            processes: Who shares the rows.

        Returns:
            The loss of the whole batch, the same in every process.
        """
        images = processes.shard(self.embed_images, batch.images)
        captions = processes.shard(self.embed_captions, batch.captions)
        numbers = torch.arange(len(batch), device=self.device)

        def compare(some: Rows, rows: Tensor) -> Pairs | None:
            return self.pairs(images, some, batch, rows)

        pairs = processes.shard(compare, captions, numbers, axis=1)
        return self.loss(images, captions, pairs, batch, phase)


# ---- training


def train_model(
    model: Model,
    data: RetrievalData,
    run: Run,
    open_resume: Callable[[str], ResumeFile],
    processes: ProcessGroup,
    name: str,
) -> TrainingResult:
    """Train a model, or one after the other the parts that it is made of.

    Args:
        model: Started, on its device; it is left with the weights that are kept.
        data: What it is trained on.
        run: What all models of the run share.
        open_resume: From the name of a part to where its training keeps its state.
        processes: Who shares every batch.
        name: Of the model, for advice.

    Returns:
        The kept epoch and the curve; of several parts those of `join_parts`.
    """
    fitted = processes.on_rank_zero(lambda: model.fit(data))
    if fitted is not None:
        return fitted
    results = {}
    for part, network in model.parts().items():
        if part:
            say(f"{name}: training its {part} network")
        trainer = build_trainer(model, name, run, open_resume(part), processes)
        results[part] = trainer.fit(network, network.phases(data, run))
    if set(results) == {""}:
        return results[""]
    together = processes.on_rank_zero(lambda: model.validate(data.split("val")))
    return join_parts(results, together.columns)


def join_parts(results: Mapping[str, TrainingResult], together: Row) -> TrainingResult:
    """The trainings of several parts as one.

    Args:
        results: By the name of the part.
        together: Columns of the validation of the kept weights of all parts.

    Returns:
        The largest of the kept epochs, which are counted in each part anew. The curve has the
        rows of the parts one after the other with their names in the column `part`, and a last one,
        `together`, for the weights that are kept: its loss is the sum of those of their epochs.
    """
    history = [
        {"epoch": row["epoch"], "part": part} | row
        for part, result in results.items()
        for row in result.history
    ]
    epoch = max(result.epoch for result in results.values())
    history.append(
        {
            "epoch": epoch,
            "part": TOGETHER,
            "phase": history[-1]["phase"],
            "loss": sum(result.kept["loss"] for result in results.values()),
            **together,
            "best": epoch,
        }
    )
    return TrainingResult(epoch, history, together)


def build_trainer(
    model: Model, name: str, run: Run, resume: ResumeFile, processes: ProcessGroup
) -> Trainer:
    """The trainer of a model by its section `training`.

    Args:
        model: Its config has the section.
        name: Of the model, for advice.
        run: Names the ranking loss.
        resume: Where an interrupted training keeps its state.
        processes: Who shares every batch.

    Returns:
        The trainer.
    """
    training = model.config.training
    names = {field.name for field in fields(Schedule)}
    lr = getattr(training, "lr", 1.0)  # without a rate of its own it has phases with theirs
    own = model.own_rate()

    def optimiser_of(weights: Any) -> torch.optim.Optimizer:
        optimiser = build_optimiser(
            training.optimiser,
            weights,
            lr=lr,
            momentum=training.momentum,
            weight_decay=training.weight_decay,
        )
        if own is not None:
            give_own_rate(optimiser, own.weights, own.share)
        return optimiser

    return Trainer(
        schedule=Schedule(**training.model_dump(include=names)),
        build_optimiser=optimiser_of,
        resume=resume,
        processes=processes,
        advice=collapse_advice(training, name, run.loss),
        not_finite=NOT_FINITE if own is None else f"lower {name}.{own.key}, or {NOT_FINITE}",
    )


def collapse_advice(training: Any, name: str, loss: str) -> str:
    """What may help a training that has collapsed.

    Args:
        training: Its section.
        name: Of the model.
        loss: Of the run.

    Returns:
        The end of a message: what to try.
    """
    rates = "training.lr" if hasattr(training, "lr") else "phases.lr"
    words = [f"lower {name}.{rates}", "train with another loss"]
    if warms_up(loss) and hasattr(training, "warmup_epochs"):
        words.insert(0, f"raise {name}.training.warmup_epochs")
    return ", ".join(words[:-1]) + " or " + words[-1]


# ---- scoring


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """A module in evaluation mode and without gradients, afterwards in the mode it was in."""
    mode = module.training
    module.train(False)
    with torch.inference_mode():
        yield
    module.train(mode)


def score_vectors(model: Model, split: Split) -> SplitScores:
    """Score a split by a model whose scores are cosines of vectors.

    Args:
        model: On its device; left in the mode it was in.
        split: N images and M captions.

    Returns:
        Inner products (N, M), made when they are asked for, and the vectors.
    """
    images = []
    captions = []
    with evaluating(model):
        for rows in in_blocks(len(split.image_ids), VECTOR_BLOCK):
            side = model.embed_images(to_device(split.images(rows), model.device))
            images.append(model.index(side))
        for rows in in_blocks(len(split.caption_ids), VECTOR_BLOCK):
            side = model.embed_captions(to_device(split.captions(rows), model.device))
            captions.append(model.index(side))
        image_vectors = torch.cat(images).cpu().numpy()
        caption_vectors = torch.cat(captions).cpu().numpy()
    products = Products(image_vectors, caption_vectors)
    return scores_of(split, products, image_vectors, caption_vectors)


def score_pairs(model: Model, split: Split) -> SplitScores:
    """Score a split by a model that compares every image with every caption.

    Beside the scores memory holds all embedded images and one block of captions. Captions of one
    length are scored together, so that none is padded.

    Args:
        model: On its device; left in the mode it was in. Its precision bf16 is used while pairs are
            compared.
        split: N images and M captions.

    Returns:
        Scores (N, M) float32, and the `index` vectors of both sides for a shortlist.
    """
    is_reduced = model.precision == "bf16"
    with evaluating(model):
        images = embed_all_images(model, split)
        image_vectors = model.index(images).cpu().numpy()
        shape = (len(split.image_ids), len(split.caption_ids))
        scores = np.empty(shape, np.float32)
        caption_vectors = np.empty((shape[1], image_vectors.shape[1]), np.float32)
        for rows in with_progress(caption_blocks(split, CAPTION_BLOCK), scores.size, shape[1]):
            captions = model.embed_captions(to_device(split.captions(rows), model.device))
            caption_vectors[rows] = model.index(captions).cpu().numpy()
            with torch.autocast(model.device.type, torch.bfloat16, enabled=is_reduced):
                block = model.score(images, captions)
            scores[:, rows] = block.cpu().numpy()
    return scores_of(split, scores, image_vectors, caption_vectors)


def scores_of(split: Split, scores: Any, images: np.ndarray, captions: np.ndarray) -> SplitScores:
    """Scores with the ids of their split.

    Args:
        split: N images and M captions.
        scores: (N, M).
        images: (N, K) vectors.
        captions: (M, K) vectors.

    Returns:
        What is evaluated and written.
    """
    return SplitScores(
        scores=scores,
        image_ids=split.image_ids,
        caption_ids=split.caption_ids,
        caption_image_ids=[split.image_ids[row] for row in split.described],
        image_groups=split.image_groups,
        image_embeddings=images,
        caption_embeddings=captions,
    )


def embed_all_images(model: Model, split: Split) -> Rows:
    """All images of a split, embedded IMAGE_BLOCK at a time.

    Args:
        model: On its device, in evaluation mode.
        split: N images.

    Returns:
        N embedded images.
    """
    blocks = [
        model.embed_images(to_device(split.images(rows), model.device))
        for rows in in_blocks(len(split.image_ids), IMAGE_BLOCK)
    ]
    return tree_map(lambda *parts: torch.cat(parts), *blocks)


def caption_blocks(split: Split, size: int) -> Iterator[np.ndarray]:
    """Rows of all captions in blocks of one length, the shortest first.

    Args:
        split: M captions; where they are no Words they come in their order.
        size: Captions of a block at most.

    Yields:
        Row numbers (B,), each of the M once.
    """
    count = len(split.caption_ids)
    found = []
    for rows in in_blocks(count, VECTOR_BLOCK):
        captions = split.captions(rows)
        if not isinstance(captions, Words):
            yield from in_blocks(count, size)
            return
        found.append(captions.lengths.numpy())
    lengths = np.concatenate(found)
    order = np.argsort(lengths, kind="stable")
    changes = np.flatnonzero(np.diff(lengths[order])) + 1
    for same in np.split(order, changes):
        for rows in in_blocks(len(same), size):
            yield same[rows]


def in_blocks(count: int, size: int) -> Iterator[np.ndarray]:
    """Row numbers 0 to count - 1 in runs of at most `size`.

    Args:
        count: How many rows there are.
        size: Rows of a run.

    Yields:
        Row numbers (B,).
    """
    for start in range(0, count, size):
        yield np.arange(start, min(start + size, count))


def part_of(side: Rows, rows: slice | Tensor) -> Rows:
    """Some rows of an embedded side.

    Args:
        side: B embedded images or captions.
        rows: Which of them.

    Returns:
        Those rows, in the form of the side.
    """
    return tree_map(lambda tensor: tensor[rows], side)


def with_progress(blocks: Iterator[np.ndarray], pairs: int, total: int) -> Iterator[np.ndarray]:
    """Blocks of captions, with a progress bar where scoring them takes long.

    Args:
        blocks: (b,) numbers of captions each, perhaps of different b.
        pairs: Scored in all; below PROGRESS_FROM there is no bar.
        total: Captions of all blocks.

    Yields:
        The blocks.
    """
    if pairs < PROGRESS_FROM:
        yield from blocks
        return
    with Progress("scoring", total, "captions") as progress:
        for rows in blocks:
            yield rows
            progress.update(len(rows))


def mean_vectors(vectors: Tensor, counts: Tensor) -> Tensor:
    """One unit row per set: the direction of the mean of its unit vectors.

    Args:
        vectors: (B, L, K), of which the first `counts` exist.
        counts: (B,).

    Returns:
        (B, K); zeros for a set of none.
    """
    exists = length_mask(counts, vectors.shape[1], vectors.device)
    units = normalize(vectors.float(), dim=2).where(exists[..., None], 0.0)
    return normalize(units.sum(1), dim=1)
