"""Image networks: built by name, cut at layers, pooled to one vector per image, kept in a file.

`classifier` builds a whole network, `cut` makes a `Backbone` of it (images to features), and
`cut_network` adds how pictures become its inputs: an `ImageNetwork`. That is what a file keeps
(`write_network`, `read_network`): the dual path trains this network further and a query image goes
through it, so both need the weights that made the features, whatever params.yaml says by then.
"""

import difflib
import hashlib
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, fx, nn
from torchvision import models as zoo
from torchvision.models.feature_extraction import create_feature_extractor, get_graph_node_names

from models.backbone import timm_networks
from models.backbone.networks import NETWORKS
from models.backbone.params import UNNAMED, ImageNetworkConfig
from models.backbone.poolings import POOLINGS
from models.backbone.preprocessing import Preprocessing, preprocessing_of
from pipeline.features.weights import damaged, read_weights, write_weights
from pipeline.runtime.errors import WorkbenchError, first_line, listing, ran_out_of_memory

KIND = "image network"  # what a file of one is called in messages and metadata
NO_NETWORK: dict[str, Any] = {"source": "file"}  # settings of features that were made elsewhere

Pooling = Callable[[Tensor], Tensor]  # maps (B, C, P) to (B, K)


# Layers of VGG and AlexNet by their names in the literature: the part of the network, the kind of
# module in it, and which of that kind.
ALIASES: dict[str, tuple[str, type[nn.Module], int]] = {
    "fc6": ("classifier", nn.ReLU, 0),
    "fc7": ("classifier", nn.ReLU, 1),
    "pool5": ("features", nn.MaxPool2d, -1),
}


class BackboneError(ValueError):
    """A network, layer or state dict that cannot be used, said so that a user can mend it."""


def classifier(name: str, seed: int = 0) -> nn.Module:
    """A whole network in evaluation mode, with random weights; the global random state stays.

    Args:
        name: of a file in models/backbone/networks, of a torchvision classifier, or `timm/` and a
            name of timm's.
        seed: decides the weights: one seed gives the same ones in every process.

    Returns:
        The network, from normalised images (B, 3, H, W).

    Raises:
        BackboneError: there is no such network; the message names similar ones.
    """
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
        known = timm_networks.known_names()
        whose = "a network of timm, or not with such weights"
    else:
        known = [*NETWORKS, *zoo.list_models(module=zoo)]
        whose = "a torchvision classifier"
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
        """The differences between two state dicts.

        Args:
            expected: the network's own tensors by name.
            state: the tensors that should go into it. Counters of batches seen may be absent:
                files older than PyTorch 0.4.1 have none, and nothing here reads them.

        Returns:
            Names that the state dict lacks or has too many, and those of other shapes; all empty
            where it fits.
        """
        absent = [name for name in expected if name not in state]
        return cls(
            missing=[name for name in absent if not name.endswith("num_batches_tracked")],
            unexpected=[name for name in state if name not in expected],
            ill_shaped={
                name: f"{name} {tuple(state[name].shape)} for {tuple(value.shape)}"
                for name, value in expected.items()
                if name in state and state[name].shape != value.shape
            },
        )

    @property
    def names(self) -> list[str]:
        """All names that do not fit, an empty list where everything does."""
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
    """Load a state dict whose names and shapes are exactly the network's.

    Args:
        network: changed in place.
        state: its tensors by name; counters of batches seen may be absent.

    Raises:
        BackboneError: a name or shape differs from the network's; the message names them.
    """
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
    """A cut network with pooling: images (B, 3, H, W) to features (B, D) float32.

    D is the sum of what the layers' C become by pooling, such as twice of a map's with mean_max.

    Args:
        graph: gives the outputs of the layers by name, vectors (B, C) or maps (B, C, H', W').
        nodes: the names of the layers, in the order in which their features are joined.
        pool: name of the pooling over a map's positions; vectors pass unchanged.
    """

    def __init__(self, graph: fx.GraphModule, nodes: Sequence[str], pool: str) -> None:
        super().__init__()
        self.graph = graph
        self.nodes = tuple(nodes)
        self.pool = pool
        self.pooling: Pooling = POOLINGS.load(pool)

    def forward(self, images: Tensor) -> Tensor:
        """(B, 3, H, W) normalised images to (B, D) float32."""
        outputs = self.graph(images)  # in the order of the network, whatever was asked for
        return torch.cat([pooled(outputs[node], self.pooling) for node in self.nodes], dim=1)


def pooled(output: Tensor, pooling: Pooling) -> Tensor:
    """What a layer gives, as one vector per image.

    Args:
        output: (B, C) or (B, C, H, W), of any float type.
        pooling: from maps (B, C, P) of P = H W positions to (B, K).

    Returns:
        (B, C) as it was, or (B, K) of a map; float32.
    """
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
    """Cut a network at some layers and pool what they give.

    Args:
        network: a whole one, changed in place.
        layers: module names (`layer3`, `features.28`) or fc6, fc7, pool5 as in the literature: what
            is behind the fully connected layers of VGG and AlexNet, their last max-pooling, and the
            average-pooling of ResNet; of timm's networks also `features`, `map`, `token`, `joint`
            (models.backbone.timm_networks).
        pool: a name of models/backbone/poolings.
        size: side of the square images, pixels.

    Returns:
        The cut network, in evaluation mode and without gradients, and its D for such images.

    Raises:
        BackboneError: unknown layers or pooling, layers that give neither a vector nor a
            (B, C, H, W) map, weights that a layer needs and the file lacked, a size that the
            network cannot process.
    """
    if pool not in POOLINGS or not layers:
        problem = f"pool {pool!r} of layers {list(layers)}"
        raise BackboneError(f"{problem}: allowed are {listing(POOLINGS)}")
    traced = _traced(network, size)
    nodes = [layer if layer in traced.ends else _alias(network, layer) for layer in layers]
    _check_names(network, traced, layers=layers, nodes=nodes)
    nodes = [node if node in traced.ends else traced.prefix + node for node in nodes]
    for module in network.modules():
        if getattr(module, "inplace", False):  # would overwrite a layer that was asked for
            module.inplace = False  # type: ignore[assignment]
    extractor = create_feature_extractor(
        traced.network,
        return_nodes={node: node for node in nodes},
        suppress_diff_warning=True,
        tracer_kwargs=traced.tracing,
    ).eval()
    graph = fx.GraphModule(extractor, extractor.eval_graph)
    for node in graph.graph.nodes:
        if node.kwargs.get("inplace"):
            node.update_kwarg("inplace", False)
    graph.recompile()
    backbone = Backbone(graph, nodes, pool).eval().requires_grad_(False)
    check_known(backbone, layers)
    _check_outputs(network, backbone, layers=layers, size=size)
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
        return Traced(named, paths=named.ends, ends=named.ends, tracing=tracing)
    return Traced(named, paths, named.ends, prefix="network.", tracing=tracing)


def _named(network: nn.Module, size: int, whole: bool) -> timm_networks.Named:
    try:
        return timm_networks.Named(network, size, whole).eval()
    except (RuntimeError, ValueError, AssertionError) as error:
        if ran_out_of_memory(error):
            raise
        raise _misfit(size, error) from None


def _paths(network: nn.Module, tracing: dict[str, Any]) -> list[str]:
    return get_graph_node_names(network, tracing, suppress_diff_warning=True)[1]


def _alias(network: nn.Module, layer: str) -> str:
    """The module name behind fc6, fc7 and pool5; other names unchanged."""
    if isinstance(network, zoo.VGG | zoo.AlexNet) and layer in ALIASES:
        part, kind, number = ALIASES[layer]
        modules = enumerate(network.get_submodule(part).children())
        places = [index for index, module in modules if isinstance(module, kind)]
        return f"{part}.{places[number]}"
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
    aliases = [name for name in ALIASES if _alias(network, name) != name]
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
    """Refuse weights that are NaN: models.backbone.weights.load_weights leaves those that a file
    does not have so.

    Args:
        part: the part of a network that computes the layers.
        layers: their names, for the message.

    Raises:
        BackboneError: some weights are NaN; the message names them.
    """
    tensors = part.state_dict().items()  # without values where a network is built to see its sizes
    unknown = [name for name, value in tensors if not value.is_meta and value.isnan().any()]
    if unknown:
        names = listing((name.removeprefix("graph.") for name in unknown), 8)
        raise BackboneError(f"layers {listing(layers, 8)} need {names}, which the weights lack")


def probe(module: nn.Module, size: int) -> Any:
    """What a module gives of one black image.

    Args:
        module: takes images (1, 3, size, size).
        size: side of the image, pixels.

    Returns:
        The module's output, of whatever type it is.

    Raises:
        BackboneError: the module does not take images of this size.
    """
    try:
        with torch.inference_mode():
            return module(torch.zeros(1, 3, size, size))
    except (RuntimeError, ValueError, AssertionError) as error:
        if ran_out_of_memory(error):
            raise
        raise _misfit(size, error) from None


def _misfit(size: int, error: Exception) -> BackboneError:
    return BackboneError(f"images of {size} x {size} pixels do not fit: {first_line(error)}")


@dataclass(frozen=True)
class ImageNetwork:
    """A cut network with all that is needed to make features by it."""

    settings: dict[str, Any]  # what its features depend on
    backbone: Backbone  # images to features
    width: int  # D
    preprocessing: Preprocessing  # from a picture to its inputs


def write_network(path: Path, network: ImageNetwork | None) -> None:
    """Keep a network in a file; the same network gives the same bytes.

    Args:
        path: of the file.
        network: as it was built, before it is accelerated; None where the features were made
            elsewhere: the file then says that there is no network.
    """
    settings = NO_NETWORK if network is None else network.settings
    weights = {} if network is None else network.backbone.state_dict()
    write_weights(path, weights, {"schema_version": 1, "kind": KIND, "settings": settings})


def read_network(path: Path) -> ImageNetwork:
    """The network that `write_network` kept, in evaluation mode; WorkbenchError for a file that is
    missing, damaged or of another kind, and for one that says that there is no network."""
    entry, weights, _ = read_weights(path, KIND, schema_version=1)
    if entry.get("settings") == NO_NETWORK:
        raise WorkbenchError(
            f"{path}: the image features come from a file (image_features.source: file): there is "
            "no network here that makes them from an image",
            "search with a text; a query image, dual_path and two_branch.fine_tuning need the "
            "network, which needs photographs: image_features.source: network, and dvc repro",
        )
    try:
        recorded = dict(entry["settings"])
        # the weights are at hand; the path of a file that they came from is not kept
        fields = recorded | {"weights": "random", "workers": 0}
        settings = ImageNetworkConfig.validate_complete({**UNNAMED, **fields})
        network = cut_network(classifier(settings.model), settings, recorded)
        load_strict(network.backbone, weights)
    except (KeyError, TypeError, ValueError) as error:
        raise damaged(path, first_line(error), KIND) from None
    return network


def cut_network(
    network: nn.Module, settings: ImageNetworkConfig, kept: dict[str, Any]
) -> ImageNetwork:
    """A whole network, cut and pooled as settings say.

    Args:
        network: changed in place.
        settings: layers, pooling, size, views, resizing and normalisation.
        kept: what the features depend on, for its file (models.backbone.params.provenance).

    Returns:
        The backbone, the width D of its features, and the preprocessing of its inputs.

    Raises:
        BackboneError: as `cut`.
    """
    preprocessing = preprocessing_of(
        settings.model,
        settings.size,
        views=settings.views,
        resize=settings.resize,
        normalisation=settings.normalisation,
    )
    backbone, width = cut(network, settings.layers, pool=settings.pool, size=preprocessing.crop)
    return ImageNetwork(kept, backbone, width=width, preprocessing=preprocessing)


def check_size(network: nn.Module, size: int, key: str) -> None:
    """Refuse a size of images that a network cannot process.

    Args:
        network: takes images (B, 3, size, size).
        size: side of the images, pixels.
        key: of params.yaml that sets the size, for the message.

    Raises:
        WorkbenchError: the network does not take such images.
    """
    try:
        probe(network, size)
    except BackboneError as error:
        raise WorkbenchError(
            f"{key} = {size}: the network of image_features does not take such images: {error}",
            f"change {key} in params.yaml",
        ) from None
