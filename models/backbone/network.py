"""Image classifiers, cut at named layers and pooled to one vector per image."""

import difflib
import hashlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, fx, nn
from torchvision import models as zoo
from torchvision.models.feature_extraction import create_feature_extractor, get_graph_node_names

from models.backbone import timm_networks
from models.backbone.networks import NETWORKS
from models.backbone.poolings import POOLINGS
from pipeline.runtime.errors import first_line, listing

Pooling = Callable[[Tensor], Tensor]  # maps (B, C, P) to (B, K)


class BackboneError(ValueError):
    """A network, layer or state dict that cannot be used, said so that a user can mend it."""


def classifier(name: str, seed: int = 0) -> nn.Module:
    """A network of models.backbone.networks, torchvision or timm in evaluation mode, with the same
    weights for a seed in every process; the global random state is untouched."""
    _check_model(name)
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # GoogLeNet and Inception warn of their slow initialisation
        torch.manual_seed(seed)
        if name.startswith(timm_networks.PREFIX):
            return timm_networks.build(name).eval()
        if name in NETWORKS:
            network: nn.Module = NETWORKS.load(name)()
            return network.eval()
        return zoo.get_model(name, weights=None).eval()


def _check_model(name: str) -> None:
    if name.startswith(timm_networks.PREFIX):
        if timm_networks.is_known(name):
            return
        known, whose = timm_networks.known_names(), "a network of timm, or not with such weights"
    else:
        known, whose = [*NETWORKS, *zoo.list_models(module=zoo)], "a torchvision classifier"
        if name in known:
            return
    near = listing(difflib.get_close_matches(name, known, n=5, cutoff=0.4) or known, 8)
    raise BackboneError(f"model {name!r} is not {whose}; similar: {near}")


@dataclass(frozen=True)
class Misfits:
    """How the names and shapes of a state dict differ from a network's."""

    missing: list[str]  # names that only the network has
    unexpected: list[str]  # names that only the state dict has
    ill_shaped: dict[str, str]  # names of both, with what is said of their shapes

    @classmethod
    def of(cls, expected: Mapping[str, Tensor], state: Mapping[str, Tensor]) -> "Misfits":
        """expected: the network's state dict; state: what should go into it."""
        # Counters of batches seen: absent from files older than PyTorch 0.4.1, and not used here.
        missing = [k for k in expected if k not in state and not k.endswith("num_batches_tracked")]
        return cls(
            missing,
            [name for name in state if name not in expected],
            {
                name: f"{name} {tuple(state[name].shape)} for {tuple(value.shape)}"
                for name, value in expected.items()
                if name in state and state[name].shape != value.shape
            },
        )

    @property
    def names(self) -> list[str]:
        return [*self.missing, *self.unexpected, *self.ill_shaped]

    def __str__(self) -> str:
        groups = {
            "missing": self.missing,
            "unexpected": self.unexpected,
            "of another shape": list(self.ill_shaped.values()),
        }
        parts = (
            f"{len(names)} {what}: {listing(names, 8)}" for what, names in groups.items() if names
        )
        return "; ".join(parts)


def load_strict(network: nn.Module, state: Mapping[str, Tensor]) -> None:
    """Load a state dict; BackboneError where a name or shape differs from the network's."""
    expected = network.state_dict()
    misfits = Misfits.of(expected, state)
    if misfits.names:
        raise BackboneError(f"the state dict does not fit the model; {misfits}")
    network.load_state_dict({**expected, **state})


def weights_digest(network: nn.Module) -> str:
    """SHA-256 hex over name, type, shape and bytes of all parameters and buffers, by name."""
    digest = hashlib.sha256()
    for name, value in sorted(network.state_dict().items()):
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}\0".encode())
        digest.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


class Backbone(nn.Module):
    """A cut network with pooling: images (B, 3, H, W) to features (B, D) float32. graph: gives the
    outputs of the layers `nodes` by name, vectors (B, C) or maps (B, C, H', W'). D is the sum of
    what the layers' C become by pooling, such as twice of a map's with mean_max."""

    def __init__(self, graph: fx.GraphModule, nodes: Sequence[str], pool: str) -> None:
        super().__init__()
        self.graph, self.nodes, self.pool = graph, tuple(nodes), pool
        self.pooling: Pooling = POOLINGS.load(pool)

    def forward(self, images: Tensor) -> Tensor:
        """(B, 3, H, W) normalised images to (B, D) float32."""
        outputs = self.graph(images)  # in the order of the network, whatever was asked for
        return torch.cat([pooled(outputs[node], self.pooling) for node in self.nodes], dim=1)


def pooled(output: Tensor, pooling: Pooling) -> Tensor:
    """Vectors (B, C) as they are, maps (B, C, H, W) pooled to (B, K); float32."""
    output = output.float()
    return output if output.ndim == 2 else pooling(output.flatten(2))


@dataclass(frozen=True)
class Traced:
    """A network that torch.fx can follow."""

    network: nn.Module  # it, or what stands around it
    paths: Sequence[str]  # of all that it computes, in order
    ends: Sequence[str] = ()  # layers of fixed names beside the network's modules
    prefix: str = ""  # before the names of the network's modules
    tracing: dict[str, Any] = field(default_factory=dict)  # arguments of torch.fx


def cut(network: nn.Module, layers: Sequence[str], pool: str, size: int) -> tuple[Backbone, int]:
    """Cut a network, which is changed in place, at some layers; its D for images of `size` pixels.

    layers: module names (`layer3`, `features.28`) or fc6, fc7, pool5 as in the literature: what is
    behind the fully connected layers of VGG and AlexNet, their last max-pooling, the
    average-pooling of ResNet; of timm's networks `features`, `map`, `token`, `joint`. BackboneError
    for unknown layers, those that give neither a vector nor a (B, C, H, W) map, and impossible
    sizes.
    """
    if pool not in POOLINGS or not layers:
        problem = f"pool {pool!r} of layers {list(layers)}"
        raise BackboneError(f"{problem}: allowed are {listing(POOLINGS)}")
    traced = _traced(network, size)
    nodes = [layer if layer in traced.ends else _alias(network, layer) for layer in layers]
    _check_names(network, traced, layers, nodes)
    nodes = [node if node in traced.ends else traced.prefix + node for node in nodes]
    for module in network.modules():
        if getattr(module, "inplace", False):  # would overwrite a layer that was asked for
            module.inplace = False  # type: ignore[assignment]
    wanted = {node: node for node in nodes}
    extractor = create_feature_extractor(
        traced.network, wanted, suppress_diff_warning=True, tracer_kwargs=traced.tracing
    ).eval()
    graph = fx.GraphModule(extractor, extractor.eval_graph)
    for node in graph.graph.nodes:
        if node.kwargs.get("inplace"):
            node.update_kwarg("inplace", False)
    graph.recompile()
    backbone = Backbone(graph, nodes, pool).eval().requires_grad_(False)
    check_known(backbone, layers)
    _check_outputs(network, backbone, layers, size)
    return backbone, probe(backbone, size).shape[1]


def _traced(network: nn.Module, size: int) -> Traced:
    """The network as torch.fx sees it; one of timm's that it cannot follow in one piece."""
    if not timm_networks.is_timm(network):
        return Traced(network, _paths(network, {}))
    tracing = timm_networks.tracing()
    named = _named(network, size, whole=False)
    try:
        paths = _paths(named, tracing)
    except (fx.proxy.TraceError, RuntimeError, TypeError, ValueError, AttributeError):
        # what a network does with a stand-in for a tensor: decide by its size, count with it, ...
        named = _named(network, size, whole=True)
        return Traced(named, named.ends, named.ends, "", tracing)
    return Traced(named, paths, named.ends, "network.", tracing)


def _named(network: nn.Module, size: int, whole: bool) -> timm_networks.Named:
    try:
        return timm_networks.Named(network, size, whole).eval()
    except (RuntimeError, ValueError, AssertionError) as error:
        raise _misfit(size, error) from None


def _paths(network: nn.Module, tracing: dict[str, Any]) -> list[str]:
    return get_graph_node_names(network, tracing, suppress_diff_warning=True)[1]


def _alias(network: nn.Module, layer: str) -> str:
    """The module name behind fc6, fc7 and pool5; other names unchanged."""
    aliases = {"pool5": ("features", nn.MaxPool2d, -1), "fc6": ("classifier", nn.ReLU, 0)}
    aliases["fc7"] = ("classifier", nn.ReLU, 1)
    if isinstance(network, zoo.VGG | zoo.AlexNet) and layer in aliases:
        part, kind, number = aliases[layer]
        modules = enumerate(network.get_submodule(part).children())
        return f"{part}.{[index for index, m in modules if isinstance(m, kind)][number]}"
    if isinstance(network, zoo.ResNet) and layer == "pool5":
        return "avgpool"
    return layer


def _check_names(
    network: nn.Module, traced: Traced, layers: Sequence[str], nodes: Sequence[str]
) -> None:
    if len(set(nodes)) != len(nodes):
        raise BackboneError(f"layers {listing(layers, 8)}: the same layer is named twice")
    prefix = traced.prefix
    paths = [path.removeprefix(prefix) for path in traced.paths if path.startswith(prefix)]
    known = {".".join(path.split(".")[: depth + 1]) for path in paths for depth in range(9)}
    known |= set(traced.ends)
    aliases = [name for name in ("fc6", "fc7", "pool5") if _alias(network, name) != name]
    first = 0 if traced.ends else 1  # the images themselves
    modules = [path.split(".")[0] for path in paths[first:]]
    top = [*dict.fromkeys([*traced.ends, *modules]), *aliases]
    for layer, node in zip(layers, nodes, strict=True):
        if node not in known:
            near = difflib.get_close_matches(layer, sorted(known), n=5)
            similar = f"similar: {listing(near)}; " if near else ""
            raise BackboneError(
                f"{type(network).__name__} has no layer {layer!r}; "
                f"{similar}at the top: {listing(top, 20)}"
            )


def _check_outputs(
    network: nn.Module, backbone: Backbone, layers: Sequence[str], size: int
) -> None:
    outputs: dict[str, Any] = probe(backbone.graph, size)
    for layer, node in zip(layers, backbone.nodes, strict=True):
        output = outputs[node]
        if not isinstance(output, Tensor) or output.ndim not in (2, 4):
            shape = tuple(output.shape[1:]) if isinstance(output, Tensor) else type(output).__name__
            behind = "behind the choice of the class token, such as getitem_5"
            where = "at token, map or features" if timm_networks.is_timm(network) else behind
            raise BackboneError(
                f"layer {layer!r} gives {shape} per image, neither a vector nor a feature map; "
                f"cut vision transformers {where}"
            )
        channels_last = isinstance(network, zoo.SwinTransformer)
        if channels_last and output.ndim == 4 and node.split(".")[0] in ("features", "norm"):
            raise BackboneError(
                f"layer {layer!r} of a Swin transformer has its channels last; "
                "cut at permute, avgpool or flatten"
            )


def check_known(part: nn.Module, layers: Sequence[str]) -> None:
    """Refuse weights that are NaN, as models.backbone.weights.load_weights leaves those that a file
    does not have; part: what computes the layers."""
    tensors = part.state_dict()  # without values where a network is built to see its sizes
    unknown = [
        name for name in tensors if not tensors[name].is_meta and tensors[name].isnan().any()
    ]
    if unknown:
        names = listing((name.removeprefix("graph.") for name in unknown), 8)
        raise BackboneError(f"layers {listing(layers, 8)} need {names}, which the weights lack")


def probe(module: nn.Module, size: int) -> Any:
    """What a module gives of one image of size x size pixels; BackboneError if it does not fit."""
    try:
        with torch.inference_mode():
            return module(torch.zeros(1, 3, size, size))
    except (RuntimeError, ValueError, AssertionError) as error:
        raise _misfit(size, error) from None


def _misfit(size: int, error: Exception) -> BackboneError:
    return BackboneError(f"images of {size} x {size} pixels do not fit: {first_line(error)}")
