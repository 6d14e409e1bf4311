"""Canonical correlation analysis (Hotelling 1936), the linear baseline of the two-branch network:
the model is fitted in closed form, and its scores are cosines in the space of normalised CCA (Gong
et al. 2014).

`fit_cca` works on covariances that are gathered in one pass. The larger covariance is eliminated by
its Cholesky factor, so that the one eigendecomposition has the size of the narrower side.
models/phrases has the same model for regions and phrases.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
import torch
from pydantic import PlainValidator
from pydantic_core import PydanticCustomError
from scipy.linalg import LinAlgError, cholesky
from scipy.linalg.blas import dsymv, dsyrk, dtrsm
from torch import Tensor

from models.base import Model, Run, in_blocks
from pipeline.features.data import ImageVectors, Inputs, RetrievalData, SentenceVectors
from pipeline.features.split import Split
from pipeline.features.statistics.covariance import measure, peek
from pipeline.features.statistics.projection import leading_eigenvectors, signs
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.process import say
from pipeline.runtime.section import WRONG_VALUE, Count, NonNegative, Section
from pipeline.training.schedule import BestWeights, Row
from pipeline.training.trainer import TrainingResult

BLOCK = 4096  # pairs per block of the covariances
Blocks = Iterable[tuple[np.ndarray, np.ndarray]]  # of paired rows, (B, Dx) and (B, Dy)


def check_regularisation(value: Any) -> float | tuple[float, ...]:
    """A number from 0 as a float, or a list of such as a tuple; pydantic's error for all else."""
    is_list = isinstance(value, (list, tuple))
    numbers = value if is_list else [value]
    if numbers and all(
        type(number) in (int, float) and math.isfinite(number) and number >= 0 for number in numbers
    ):
        return tuple(map(float, numbers)) if is_list else float(value)
    raise PydanticCustomError(
        WRONG_VALUE, "must be a number from 0, or a list of such numbers to choose from"
    )


class CCAConfig(Section):
    """The section `cca` of params.yaml."""

    dim: Count = 128  # directions, K; fewer where the data allow fewer
    power: NonNegative = 1.0  # of the correlations that scale the directions
    # added to covariances, as a share of their largest eigenvalue; of several the one that
    # validates best
    regularisation: Annotated[float | tuple[float, ...], PlainValidator(check_regularisation)] = (
        0.0001
    )

    @property
    def tried(self) -> tuple[float, ...]:
        """All regularisations."""
        value = self.regularisation
        return value if isinstance(value, tuple) else (value,)


# ---- the model


class CCA(Model):
    """Both sides in the space of normalised CCA (Gong et al. 2014): centred, times canonical
    weights that are scaled by a power of the correlations, divided by their length. All zero at
    first.

    Args:
        config: The section of params.yaml.
        image_dim: Dx, of the image features.
        sentence_dim: Dy, of the sentence vectors.
    """

    Config: ClassVar[type[CCAConfig]] = CCAConfig
    NEEDS: ClassVar = {"features": "data/features/image.h5", "text": "data/features/sentences.h5"}

    image_mean: Tensor  # (Dx,)
    image_weights: Tensor  # (Dx, K)
    sentence_mean: Tensor  # (Dy,)
    sentence_weights: Tensor  # (Dy, K)

    def __init__(self, config: CCAConfig, image_dim: int, sentence_dim: int) -> None:
        super().__init__(config)
        self.register_buffer("image_mean", torch.zeros(image_dim))
        self.register_buffer("image_weights", torch.zeros(image_dim, config.dim))
        self.register_buffer("sentence_mean", torch.zeros(sentence_dim))
        self.register_buffer("sentence_weights", torch.zeros(sentence_dim, config.dim))

    @classmethod
    def open_data(cls, config: CCAConfig, files: Inputs, in_memory: bool = True) -> RetrievalData:
        """Vectors of images and of sentences.

        Args:
            config: The section of params.yaml; not read.
            files: The artefacts of NEEDS.
            in_memory: Whether vectors are read into memory where they fit.

        Returns:
            The opened data.
        """
        images = ImageVectors(files.features, in_memory)
        return RetrievalData(files, images, SentenceVectors(files.text, in_memory))

    @property
    def device(self) -> torch.device:
        """Where the weights are, which are no parameters: nothing is learnt by gradients."""
        return self.image_mean.device

    def embed_images(self, images: Tensor) -> Tensor:  # type: ignore[override]
        """Image features (B, Dx) to vectors (B, K), zero for a row that equals the mean."""
        return (images - self.image_mean) @ self.image_weights

    def embed_captions(self, captions: Tensor) -> Tensor:  # type: ignore[override]
        """Sentence vectors (B, Dy) to vectors (B, K), zero for a row that equals the mean."""
        return (captions - self.sentence_mean) @ self.sentence_weights

    def start(self, data: RetrievalData, run: Run) -> None:
        """Nothing: there are no first weights.

        Args:
            data: Not read.
            run: Not read.
        """

    def used(self, name: str, run: Run) -> dict[str, Any]:
        """What decides the weights: the section alone, neither loss nor seed.

        Args:
            name: Of the model.
            run: Not read.

        Returns:
            The values, which JSON can hold.
        """
        return {name: self.config.model_dump()}

    def architecture(self, sizes: dict[str, Any]) -> dict[str, Any]:
        """What a checkpoint says of the shape of the weights.

        Args:
            sizes: Of the data.

        Returns:
            Dx, Dy and K.
        """
        return sizes | {"dim": self.image_weights.shape[1]}

    def fit(self, data: RetrievalData) -> TrainingResult:
        """Fit the training pairs.

        Args:
            data: Of the run.

        Returns:
            The kept fit, and a row for each regularisation.
        """
        train = data.split("train")
        blocks = paired_blocks(train)
        return self.fit_pairs("cca", blocks, len(train.caption_ids), data.split("val"))

    def fit_pairs(self, name: str, blocks: Blocks, pairs: int, val: Any) -> TrainingResult:
        """Fit with every regularisation in one pass, on the CPU; the weights with the largest
        validation score are kept.

        Args:
            name: Of the model.
            blocks: (B, Dx) and (B, Dy), cut anywhere.
            pairs: Rows of all blocks together.
            val: What `validate` takes.

        Returns:
            The number of the kept fit, from 1, and a row for each regularisation.

        Raises:
            WorkbenchError: As for `fit_each`.
        """
        asked = self.config.dim
        dim = min(asked, len(self.image_mean), len(self.sentence_mean), pairs - 1)
        best = BestWeights()
        rows: list[Row] = []
        fits = fit_each(blocks, dim, self.config.tried, pairs)
        for regularisation, fitted in zip(self.config.tried, fits, strict=True):
            for weights, value in fitted.weights(self.config.power).items():
                setattr(self, weights, value)
            validation = self.validate(val)
            images, texts = fitted.constant
            say(
                f"{name}: {dim} directions ({name}.dim = {asked}) from {pairs:,} pairs, "
                f"correlations {fitted.correlations[0]:.3f} to {fitted.correlations[-1]:.3f}; "
                f"constant columns, which get no weight: {images} of the images, {texts} of the "
                f"texts; validation rsum {validation.score:.1f} with regularisation "
                f"{regularisation:g}"
            )
            row = {"epoch": len(rows) + 1, "phase": "fit", "regularisation": regularisation}
            rows.append(row | validation.columns)
            best.offer(validation.score, len(rows), self)
        best.put_back(self)
        return TrainingResult(best.epoch, rows)


def paired_blocks(split: Split) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Image features (B, Dx) and sentence vectors (B, Dy) of a split, a row per caption."""
    for rows in in_blocks(len(split.caption_ids), BLOCK):
        images: Any = split.images(split.described[rows])
        captions: Any = split.captions(rows)
        yield images.numpy(), captions.numpy()


# ---- the fit


SIDES = ("image features", "sentence vectors")


@dataclass(frozen=True)
class Canonical:
    """Paired directions in descending order of correlation.

    W' (C + r I) W = I on either side, r the regulariser. Directions whose correlation is no more
    than rounding, such as those beyond the rank of the data, have correlation 0 and, like constant
    columns, weights of zero.

    Args:
        image_mean: (Dx,) float32.
        image_weights: (Dx, K) float32.
        sentence_mean: (Dy,) float32.
        sentence_weights: (Dy, K) float32.
        correlations: (K,) float64 in [0, 1].
        constant: How many columns of images and of sentences never vary.
    """

    image_mean: np.ndarray
    image_weights: np.ndarray
    sentence_mean: np.ndarray
    sentence_weights: np.ndarray
    correlations: np.ndarray
    constant: tuple[int, int]

    def weights(self, power: float) -> dict[str, Tensor]:
        """The weights of a CCA: the directions are scaled by the correlations to the power p (p = 4
        in Gong et al. 2014)."""
        scales = (self.correlations**power).astype(np.float32)
        arrays = {
            "image_mean": self.image_mean,
            "image_weights": self.image_weights * scales,
            "sentence_mean": self.sentence_mean,
            "sentence_weights": self.sentence_weights * scales,
        }
        return {name: torch.from_numpy(array) for name, array in arrays.items()}


def fit_cca(blocks: Blocks, dim: int, regularisation: float, rows: int) -> Canonical:
    """Fit K = `dim` pairs of directions in one pass over blocks of paired rows.

    Args:
        blocks: (B, Dx) and (B, Dy), cut anywhere.
        dim: K, 1 to min(Dx, Dy, rows - 1).
        regularisation: eta in C + (eta * (largest eigenvalue of C) + 1e-8) I, at least 0, which
            also makes constant columns solvable.
        rows: Of all blocks together.

    Returns:
        Means, directions and correlations.

    Raises:
        WorkbenchError: As for `fit_each`.
    """
    return next(fit_each(blocks, dim, (regularisation,), rows))


def fit_each(
    blocks: Blocks, dim: int, regularisations: Sequence[float], rows: int
) -> Iterator[Canonical]:
    """Fit with each of some regularisations, in one pass over blocks of paired rows.

    Args:
        blocks: (B, Dx) and (B, Dy), cut anywhere.
        dim: K.
        regularisations: One or more, as for `fit_cca`.
        rows: Of all blocks together.

    Yields:
        What each of them gives, in their order.

    Raises:
        WorkbenchError: dim is not within 1 to min(Dx, Dy, rows - 1); NaN or infinity; another
            number of rows; a side without a column that varies; a covariance that is singular
            because the regularisation is too small.
    """
    widths, parts = peek(blocks)
    allowed = min(*widths, rows - 1)
    if not 1 <= dim <= allowed:
        raise WorkbenchError(
            f"cca.dim = {dim:,}: {rows:,} training pairs of {widths[0]:,} and {widths[1]:,} "
            f"numbers allow 1 to {allowed:,}",
            f"set it to at most {allowed:,} in params.yaml",
        )
    narrow = int(widths[1] < widths[0])
    order = (narrow, 1 - narrow)
    mean, joint = measure(
        "cca",
        names=[SIDES[side] for side in order],
        widths=[widths[side] for side in order],
        blocks=(tuple(block[side] for side in order) for block in parts),
        rows=rows,
    )
    edge = widths[narrow]
    deviations = np.split(np.sqrt(joint.diagonal()), [edge])
    is_constant = [deviation == 0 for deviation in deviations]
    counts = [int(is_constant[place].sum()) for place in order]
    for name, count, width in zip(SIDES, counts, widths, strict=True):
        if count == width:
            text = f"cca: all {width:,} columns of the {name} are constant over {rows:,} rows"
            raise WorkbenchError(text)
    means = (mean[:edge], mean[edge:])
    covariances = [
        np.asfortranarray(joint[part, part]) for part in (slice(edge), slice(edge, None))
    ]
    cross = np.asfortranarray(joint[edge:, :edge])
    del joint
    for number, regularisation in enumerate(regularisations, 1):
        say(f"cca: {dim:,} directions of {widths[0]:,} and {widths[1]:,} columns")
        if number < len(regularisations):  # the last may take the memory of the covariances
            own = [covariance.copy("F") for covariance in covariances]
            own_cross = cross.copy("F")
        else:
            own = covariances
            own_cross = cross
        a = _factor(own[0], regularisation, SIDES[order[0]])
        b = _factor(own[1], regularisation, SIDES[order[1]])
        left, right, correlations = _directions(a, b, own_cross, dim)
        is_noise = correlations <= _rounding(deviations[0], deviations[1], left, right)
        correlations[is_noise] = 0
        weights = (left, right)
        for side in (0, 1):
            weights[side][:, is_noise] = 0
            # rounding gives a constant column a weight, which would scale what new data do there
            weights[side][is_constant[side]] = 0
        image, sentence = order
        flip = signs(weights[image])
        yield Canonical(
            image_mean=means[image].astype(np.float32),
            image_weights=(weights[image] * flip).astype(np.float32),
            sentence_mean=means[sentence].astype(np.float32),
            sentence_weights=(weights[sentence] * flip).astype(np.float32),
            correlations=correlations,
            constant=(counts[0], counts[1]),
        )


def largest_eigenvalue(matrix: np.ndarray, steps: int = 64) -> float:
    """The largest eigenvalue of a symmetric matrix, by Lanczos's method with full
    orthogonalisation.

    It starts from a fixed vector: ARPACK restarts at random where it meets an invariant subspace,
    and the same data must give the same bytes.

    Args:
        matrix: (D, D) in Fortran order, of which the lower triangle is read.
        steps: Dimensions of the Krylov space at most; 64 give all digits of the leading value of a
            covariance.

    Returns:
        The eigenvalue.
    """
    size = len(matrix)
    basis = np.zeros((min(steps, size), size))
    vector = np.random.default_rng(0).standard_normal(size)
    diagonal: list[float] = []
    beside: list[float] = []
    for step in range(len(basis)):
        basis[step] = vector / np.linalg.norm(vector)
        vector = dsymv(1.0, matrix, basis[step], lower=1)
        diagonal.append(float(vector @ basis[step]))
        for _ in range(2):  # once leaves rounding errors that the next steps would amplify
            vector -= (basis[: step + 1] @ vector) @ basis[: step + 1]
        beside.append(float(np.linalg.norm(vector)))
        if beside[-1] <= 1e-12 * max(diagonal):
            break
    tridiagonal = np.diag(diagonal) + np.diag(beside[:-1], 1) + np.diag(beside[:-1], -1)
    return float(np.linalg.eigvalsh(tridiagonal)[-1])


def _factor(covariance: np.ndarray, regularisation: float, name: str) -> np.ndarray:
    """The Cholesky factor of a covariance with the regulariser added, in its memory.

    Args:
        covariance: (D, D) in Fortran order; overwritten.
        regularisation: Share of the largest eigenvalue that is added to the diagonal.
        name: Of the side, for a message.

    Returns:
        The lower factor (D, D).

    Raises:
        WorkbenchError: The covariance is singular.
    """
    diagonal = np.diag_indices_from(covariance)
    covariance[diagonal] += regularisation * largest_eigenvalue(covariance) + 1e-8
    try:
        return cholesky(covariance, lower=True, overwrite_a=True, check_finite=False)
    except LinAlgError:
        raise WorkbenchError(
            f"cca.regularisation = {regularisation:g}: the covariance of the {name} is singular",
            "raise it (1e-4 is the usual value) in params.yaml",
        ) from None


def _directions(
    a: np.ndarray, b: np.ndarray, cross: np.ndarray, dim: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Canonical directions: with M = Lb^-1 C La^-T, the eigenvectors V of M'M give Wa = La^-T V and
    Wb = Lb^-T M V / rho.

    Args:
        a: La, the lower Cholesky factor (Da, Da) of the narrower side.
        b: Lb, likewise (Db, Db).
        cross: C (Db, Da), the covariance of both sides; overwritten.
        dim: K.

    Returns:
        Wa (Da, K), Wb (Db, K) and the correlations rho (K,) in descending order.
    """
    cross = dtrsm(1.0, b, cross, lower=1, overwrite_b=1)
    cross = dtrsm(1.0, a, cross, side=1, lower=1, trans_a=1, overwrite_b=1)
    squares = dsyrk(1.0, cross, trans=1, lower=1)
    _, vectors = leading_eigenvectors(squares, dim)
    left = np.asfortranarray(vectors)
    right = cross @ left
    rho = np.linalg.norm(right, axis=0)
    # M'M holds squares: below this its eigenvectors, and so rho, are rounding errors
    is_real = rho > np.sqrt(len(b) * np.finfo(np.float64).eps)
    left *= is_real
    right *= np.divide(1.0, rho, out=np.zeros_like(rho), where=is_real)
    left = dtrsm(1.0, a, left, lower=1, trans_a=1, overwrite_b=1)
    right = dtrsm(1.0, b, np.asfortranarray(right), lower=1, trans_a=1, overwrite_b=1)
    return left, right, np.where(is_real, np.minimum(rho, 1.0), 0.0)


def _rounding(
    deviations_a: np.ndarray, deviations_b: np.ndarray, weights_a: np.ndarray, weights_b: np.ndarray
) -> np.ndarray:
    """What the float32 products of the covariance may add to each correlation.

    The rounding of an entry of C is of size eps s_i s_j; a matrix E of independent errors of size
    eps has norm eps (sqrt(Da) + sqrt(Db)) (Vershynin 2012, theorem 5.32): of a correlation wb' C wa
    no more than that times |s wb| |s wa| is rounding.

    Args:
        deviations_a: (Da,) standard deviations of the columns of a side.
        deviations_b: (Db,) of the other.
        weights_a: (Da, K) directions.
        weights_b: (Db, K) directions.

    Returns:
        (K,) bounds.
    """
    sizes = np.sqrt(len(deviations_a)) + np.sqrt(len(deviations_b))
    scale_a = np.linalg.norm(deviations_a[:, None] * weights_a, axis=0)
    scale_b = np.linalg.norm(deviations_b[:, None] * weights_b, axis=0)
    return np.finfo(np.float32).eps * sizes * scale_a * scale_b
