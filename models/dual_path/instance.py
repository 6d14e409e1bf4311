"""The instance loss: every image with its captions is a class, and both branches must name it.

One classifier serves both branches (Zheng et al. 2020, section 4.2), so that their features share
a space. It grows with the data, to 113,287 x 2,048 on MS-COCO (928 MB), hence one matrix product
for both branches: its gradient, as large again, is made once and not once per branch.
"""

import math

import torch
from torch import nn
from torch.nn import functional

from models.layers.linear import at_least_float32

FORMS = ("separate", "sum")


class InstanceLoss(nn.Module):
    """Softmax over C classes of image and caption features, eq. 5 to 8, or of their sum, eq. 11-12.

    The classifier `weight` (C, K) has no bias, as in eq. 5, and starts from Glorot's uniform
    values.

    Args:
        classes: C.
        dim: K, width of the features.
        instance: separate, one loss per branch, or sum, the paper's ablation.
        sampled: 0 for the full softmax, else how many classes that are not in the batch are drawn
            at every step to stand for all others.
        sparse: whether the classifier's gradient then is sparse (rows of the sample alone), which
            takes an optimiser without momentum, weight decay and clipping.

    Raises:
        ValueError: another form, numbers out of range.
    """

    def __init__(
        self,
        classes: int,
        dim: int,
        instance: str = "separate",
        sampled: int = 0,
        sparse: bool = True,
    ) -> None:
        super().__init__()
        if instance not in FORMS:
            raise ValueError(f"instance {instance!r}: allowed are {', '.join(FORMS)}")
        if classes < 1 or dim < 1 or sampled < 0:
            raise ValueError(
                f"{classes} classes of width {dim}, {sampled} sampled: allowed are 1 and more "
                "classes, 1 and more for the width, 0 and more sampled"
            )
        self.instance, self.sampled, self.sparse = instance, sampled, sparse
        self.weight = nn.Parameter(torch.empty(classes, dim))
        nn.init.xavier_uniform_(self.weight)

    def forward(
        self,
        images: torch.Tensor,
        captions: torch.Tensor,
        labels: torch.Tensor,
        errors: dict[str, torch.Tensor] | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Loss of the images and loss of the captions.

        The paper writes the loss of one sample; here it is the mean over the batch. For
        the form `sum` both scalars are half of eq. 12, so that weights of 1 and 1 give eq. 12.

        Args:
            images: (B, K).
            captions: (B, K), row b of the same class as that of the images.
            labels: (B,) int64 in [0, C).
            errors: gets `image_error` and `text_error`, the shares of the rows whose largest logit
                is another class's (figure 8), as they cost nothing here. It gets nothing where a
                branch is not told from the other, in the form `sum`, and where classes are sampled:
                among few classes errors are rarer.

        Returns:
            Two scalars, at least float32.
        """
        # bf16 would copy the whole classifier to a second type
        with torch.autocast(images.device.type, enabled=False):
            images, captions = at_least_float32(images), at_least_float32(captions)
            if self.instance == "sum":
                half = self.classify(images + captions, labels).mean() / 2
                return half, half
            logits, columns = self.logits(torch.cat([images, captions]), labels.repeat(2))
            if errors is not None and not self.sampled:
                wrong = (logits.detach().argmax(1) != columns).view(2, -1).double().mean(1)
                errors["image_error"], errors["text_error"] = wrong.unbind()
            losses = functional.cross_entropy(logits, columns, reduction="none")
            image_loss, caption_loss = losses.view(2, -1).mean(1)
            return image_loss, caption_loss

    def classify(self, features: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """-log P(label) of each row (F,). features: (F, K); labels: (F,), may repeat."""
        return functional.cross_entropy(*self.logits(features, labels), reduction="none")

    def logits(
        self, features: torch.Tensor, labels: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits of each row among all classes, or the sample of them, and the labels' columns.

        Args:
            features: (F, K).
            labels: (F,), may repeat.

        Returns:
            Logits (F, C), or fewer columns, and columns (F,).
        """
        if not self.sampled:
            return features @ self.weight.T, labels
        own = labels.unique()
        drawn = self.draw(own)
        chosen = torch.cat([own, drawn])
        rows = functional.embedding(chosen, self.weight, sparse=self.sparse)
        logits = features @ rows.T + self.correction(len(own), len(drawn), features)
        return logits, torch.searchsorted(own, labels)

    def correction(self, own: int, drawn: int, like: torch.Tensor) -> torch.Tensor:
        """What is added to the logits: minus the log-probability of being there.

        Classes of the batch are there for certain: 0. Of the others `drawn` of C - own are, all
        equally likely, so each stands for (C - own) / drawn. The constant would vanish in the
        softmax if it were added to every class; it is not, so it matters. With it the sampled sum
        of exponentials has the full one as its expectation.

        Args:
            own: classes of the batch.
            drawn: other classes in the sample.
            like: of the result's type and device.

        Returns:
            (own + drawn,).
        """
        added = like.new_zeros(own + drawn)
        if drawn:
            added[own:] = math.log((len(self.weight) - own) / drawn)
        return added

    def draw(self, own: torch.Tensor) -> torch.Tensor:
        """(min(sampled, C - U),) different classes, none of the U in `own` (U,), which is sorted.

        Drawn uniformly from torch's global CPU generator, on every device, so that a run resumed
        with that generator's state draws the same classes.
        """
        others = len(self.weight) - len(own)
        ranks = distinct_integers(min(self.sampled, others), others).to(own.device)
        # the r-th class that is not in `own`: as many of `own` come before it as lie below it
        before = own - torch.arange(len(own), device=own.device)
        return ranks + torch.searchsorted(before, ranks, right=True)


def distinct_integers(count: int, limit: int) -> torch.Tensor:
    """(count,) different integers of [0, limit), every set equally likely; time as for `count`."""
    if 2 * count > limit:
        return torch.randperm(limit)[:count]
    found = torch.empty(0, dtype=torch.int64)
    while len(found) < count:
        found = torch.cat([found, torch.randint(limit, (2 * (count - len(found)),))]).unique()
    return found[torch.randperm(len(found))[:count]]
