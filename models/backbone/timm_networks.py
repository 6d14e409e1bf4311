"""timm's networks by name: built, prepared for cutting, and where their published weights lie.

Every one offers the layers `features` (the pooled vector before its classifier) and, where it has
them, `map` (its last feature map; of a vision transformer the patches, in their places), `token`
(its class token) and `joint` (what its classifier gives, which of CLIP's networks is the projection
to the space that images and texts share). timm takes seconds to load: it is imported in functions.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

PREFIX = "timm/"
HUB = "https://huggingface.co"


def is_timm(network: nn.Module) -> bool:
    """Whether a network is one of timm's, told without loading timm."""
    return type(network).__module__.split(".")[0] == "timm"


def known_names() -> list[str]:
    """All networks, as params.yaml names them."""
    from timm import list_models

    return [PREFIX + name for name in list_models()]


def is_known(name: str) -> bool:
    """Whether timm has the network, and with a name such as `timm/resnet18.a1_in1k` its weights."""
    from timm.models import get_pretrained_cfg, is_model

    if not is_model(name.removeprefix(PREFIX)):
        return False
    try:
        get_pretrained_cfg(name.removeprefix(PREFIX))
    except RuntimeError:  # of weights that are not published
        return False
    return True


def build(name: str, weights: str | None = None) -> nn.Module:
    """A whole network.

    Args:
        name: `timm/` and timm's name.
        weights: path of a file of its published weights; None draws them from torch's global
            generator.

    Returns:
        The network with its classifier, in training mode.
    """
    from timm import create_model

    file = {"file": weights} if weights else None
    network: nn.Module = create_model(
        name.removeprefix(PREFIX), pretrained=bool(weights), pretrained_cfg_overlay=file
    )
    return network


def data_config(name: str) -> dict[str, Any]:
    """The network's own preprocessing: input_size, mean, std, crop_pct, interpolation."""
    from timm.data import resolve_data_config
    from timm.models import get_pretrained_cfg

    config = get_pretrained_cfg(name.removeprefix(PREFIX))
    values: dict[str, Any] = resolve_data_config(pretrained_cfg=config.to_dict() if config else {})
    return values


def published_file(name: str) -> tuple[str, str] | None:
    """Address and file name of the published weights as safetensors; None where there are none."""
    from timm.models import get_pretrained_cfg

    config = get_pretrained_cfg(name.removeprefix(PREFIX))
    if config is None or not config.hf_hub_id or config.custom_load:
        return None
    repository, _, revision = config.hf_hub_id.partition("@")
    stem = (config.hf_hub_filename or "model.safetensors").rsplit(".", 1)[0]
    stem = "model" if stem == "pytorch_model" else stem  # the hub's two names of one thing
    file = ".".join(filter(None, (config.architecture, config.tag, "safetensors")))
    return f"{HUB}/{repository}/resolve/{revision or 'main'}/{stem}.safetensors", file


class Whole(nn.Module):
    """A network in one piece, for those that torch.fx cannot look into: images to what
    forward_features gives, and to the vector before the classifier."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network: Any = network

    def forward(self, images: Tensor) -> tuple[Any, Tensor]:
        """(B, 3, H, W) to the maps or tokens, and to (B, D)."""
        features = self.network.forward_features(images)
        return features, self.network.forward_head(features, pre_logits=True)


class Named(nn.Module):
    """A network of timm's with its ends as modules of fixed names, to be cut like any other.

    Args:
        network: changed in place: a batch norm that has its activation in it becomes two modules,
            so that it can be folded into its convolution.
        size: side of the images, pixels.
        whole: take it in one piece, as torch.fx cannot look into it.

    Raises:
        RuntimeError, ValueError, AssertionError: the network does not take such images.
    """

    def __init__(self, network: Any, size: int, whole: bool = False) -> None:
        super().__init__()
        self.whole = whole
        self.network: Any = Whole(network) if whole else split_norms(network)
        self.features = nn.Identity()
        self.to_map = _map_of(network, size)
        if self.to_map is not None:
            self.map = nn.Identity()
        if self.to_map is not None and getattr(network, "cls_token", None) is not None:
            self.token = nn.Identity()
        if isinstance(network.get_classifier(), nn.Linear):
            self.joint = nn.Identity()

    @property
    def ends(self) -> tuple[str, ...]:
        """The layers that it offers beside the network's modules."""
        return tuple(name for name in ("features", "map", "token", "joint") if hasattr(self, name))

    def forward(self, images: Tensor) -> Tensor:
        """(B, 3, H, W) normalised images to (B, D), the vector before the classifier."""
        if self.whole:
            both = self.network(images)  # indexed: torch.fx cannot iterate over what it traces
            features = both[0]
            vector = both[1]
        else:
            features = self.network.forward_features(images)
            vector = self.network.forward_head(features, pre_logits=True)
        if self.to_map is not None:
            self.map(self.to_map(features))
        if hasattr(self, "token"):
            self.token(features[:, 0])
        if hasattr(self, "joint"):
            network = self.network.network if self.whole else self.network
            self.joint(network.get_classifier()(vector))
        named: Tensor = self.features(vector)
        return named


def tracing() -> dict[str, Any]:
    """How torch.fx is to trace a Named: what it need not, and cannot, look into."""
    from timm.layers import get_notrace_functions, get_notrace_modules

    leaves = [Whole, *get_notrace_modules()]
    return {"leaf_modules": leaves, "autowrap_functions": get_notrace_functions()}


def split_norms(network: nn.Module) -> nn.Module:
    """Replace timm's batch norms with activation by two modules in place; returns the network."""
    from timm.layers import BatchNormAct2d

    for name, module in list(network.named_modules()):
        if type(module) is BatchNormAct2d:
            plain = nn.BatchNorm2d(module.num_features, module.eps, module.momentum)
            plain.load_state_dict(module.state_dict())
            parts = nn.Sequential(plain, module.drop, module.act).train(module.training)
            network.set_submodule(name, parts)
    return network


def _map_of(network: Any, size: int) -> Callable[[Tensor], Tensor] | None:
    """From what forward_features gives to (B, C, H, W); None where it has no such map."""
    with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
        features = network.forward_features(torch.zeros(1, 3, size, size))
    if not isinstance(features, Tensor):
        return None
    if features.ndim == 4:
        if features.shape[1] == network.num_features:
            return lambda maps: maps
        last = features.shape[3] == network.num_features
        return (lambda maps: maps.permute(0, 3, 1, 2)) if last else None
    prefix = getattr(network, "num_prefix_tokens", 0)
    rows, columns = getattr(getattr(network, "patch_embed", None), "grid_size", None) or (0, 0)
    if features.ndim != 3 or not rows or rows * columns != features.shape[1] - prefix:
        return None
    return lambda tokens: tokens[:, prefix:].transpose(1, 2).unflatten(2, (rows, columns))
