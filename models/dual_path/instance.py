"""The instance loss: every image with its captions is a class, and both branches must name it.

One classifier serves both branches (Zheng et al. 2020, section 4.2), so that their features share
a space. It grows with the data, to 113,287 x 2,048 on MS-COCO (928 MB), hence one matrix product
for both branches: its gradient, as large again, is made once and not once per branch.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from models.layers.linear import at_least_float32


class InstanceLoss(nn.Module):
    """Softmax over C classes of image and caption features, eq. 5 to 8, or of their sum, eq. 11-12.

    The classifier `weight` (C, K) has no bias, as in eq. 5, and starts from Glorot's uniform
    values.

    Args:
        classes: C.
        dim: K, width of the features.
        instance: separate, one loss per branch; or sum, the paper's ablation.
        sampled: How many classes are drawn at every step to stand for all that are not in the
            batch; 0 for all classes.

    Raises:
        ValueError: Another value of `instance`.
    """

    def __init__(
        self, classes: int, dim: int, instance: str = "separate", sampled: int = 0
    ) -> None:
        super().__init__()
        if instance not in ("separate", "sum"):
            raise ValueError(f"instance {instance!r}: allowed are separate and sum")
        self.instance = instance
        self.sampled = sampled
        self.weight = nn.Parameter(torch.empty(classes, dim))
        nn.init.xavier_uniform_(self.weight)

    def forward(
        self,
        images: Tensor,
        captions: Tensor,
        labels: Tensor,
        errors: dict[str, Tensor] | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Loss of the images and loss of the captions, each the mean over the batch.

        Args:
            images: (B, K), as they are: not normalised.
            captions: (B, K), row b of the same class as the image in it.
            labels: (B,) int64 in [0, C).
            errors: Gets `image_error` and `text_error`, the shares of the rows whose largest logit
                is another class's (figure 8). It gets nothing in the form `sum`, where no branch
                classifies by itself, and where classes are sampled, as errors among few are rarer.

        Returns:
            Two scalars, at least float32. In the form `sum` both are half of eq. 12, so that
            weights of 1 and 1 give eq. 12.
        """
        # bf16 would copy the whole classifier to a second type
        with torch.autocast(images.device.type, enabled=False):
            images = at_least_float32(images)
            captions = at_least_float32(captions)
            if self.instance == "sum":
                logits, columns = self.logits(images + captions, labels)
                half = functional.cross_entropy(logits, columns, reduction="none").mean() / 2
                return half, half
            logits, columns = self.logits(torch.cat([images, captions]), labels.repeat(2))
            if errors is not None and not self.sampled:
                is_wrong = (logits.detach().argmax(1) != columns).view(2, -1)
                image_error, text_error = is_wrong.double().mean(1)
                errors["image_error"] = image_error
                errors["text_error"] = text_error
            losses = functional.cross_entropy(logits, columns, reduction="none")
            image_loss, caption_loss = losses.view(2, -1).mean(1)
            return image_loss, caption_loss

    def logits(self, features: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Logits among all classes, or among a sample of them.

        The U classes of the batch are certain to be in a sample; of the C - U others each is drawn
        with the same probability p. Less log p in its logit, the sum of exponentials has the full
        one as its expectation.

        Args:
            features: (F, K).
            labels: (F,) classes, which may repeat.

        Returns:
            Logits (F, classes that take part), and the columns (F,) of the labels in them.
        """
        if not self.sampled:
            return features @ self.weight.T, labels
        present = labels.unique()
        drawn = self.draw(present)
        chosen = torch.cat([present, drawn])
        added = features.new_zeros(len(chosen))
        if len(drawn):
            added[len(present) :] = math.log((len(self.weight) - len(present)) / len(drawn))
        logits = features @ functional.embedding(chosen, self.weight).T + added
        return logits, torch.searchsorted(present, labels)

    def draw(self, own: Tensor) -> Tensor:
        """(min(sampled, C - U),) different classes, none of the U in `own` (U,), which is sorted.

        Drawn uniformly from torch's global CPU generator, on every device, so that a resumed run
        draws the same classes.
        """
        others = len(self.weight) - len(own)
        ranks = distinct_integers(min(self.sampled, others), others).to(own.device)
        # maps rank r to the r-th class that is not in `own`
        before = own - torch.arange(len(own), device=own.device)
        return ranks + torch.searchsorted(before, ranks, right=True)


def distinct_integers(count: int, limit: int) -> Tensor:
    """Different integers, every set of which is equally likely; takes time as for `count`.

    Args:
        count: How many, at most `limit`.
        limit: They are drawn from 0 to limit - 1.

    Returns:
        (count,) int64, in random order.
    """
    if 2 * count > limit:
        return torch.randperm(limit)[:count]
    drawn = torch.empty(0, dtype=torch.int64)
    while len(drawn) < count:
        drawn = torch.cat([drawn, torch.randint(limit, (2 * (count - len(drawn)),))]).unique()
    return drawn[torch.randperm(len(drawn))[:count]]
