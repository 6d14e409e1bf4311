"""CUDA pretended on the CPU: real values that are said to lie on a GPU.

An operation that a GPU would refuse, because its tensors lie on different devices or because it
reads a GPU's memory from the CPU, is refused here, too; all others compute on the CPU what they
compute there without this module. Unlike torch's fake tensors these have values, so that whole
stages run on them and their files can be compared with those of the CPU.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from corpora import change_params
from torch import Tensor
from torch._C import DispatchKey, DispatchKeySet
from torch.autograd.graph import _engine_run_backward
from torch.optim import Optimizer
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map_only

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)
# what C++ takes the device for: autograd starts threads for a GPU, and there is none
INSIDE = torch.device("meta")
AUTOCAST = DispatchKeySet(DispatchKey.AutocastCUDA)
COMPOSED = "CompositeImplicitAutograd"
aten = torch.ops.aten
# copies between devices, and positions, which CUDA takes from the CPU, too
COPIES = {aten._to_copy.default, aten.copy_.default}
PACKING = {aten._pack_padded_sequence.default, aten._pack_padded_sequence_backward.default}
BY_POSITION = {
    aten.index.Tensor,
    aten.index_put_.default,
    aten.index_put.default,
    aten._index_put_impl_.default,
}
FROM_DATA = (torch.tensor, torch.as_tensor, torch.asarray)


class OnGpu(Tensor):
    """A tensor on the pretended GPU."""

    values: Tensor

    @staticmethod
    def __new__(cls, values: Tensor) -> "OnGpu":
        made = torch.Tensor._make_wrapper_subclass(
            cls,
            values.size(),
            strides=values.stride(),
            storage_offset=values.storage_offset(),
            dtype=values.dtype,
            layout=values.layout,
            device=INSIDE,
            _extra_dispatch_keys=AUTOCAST,
        )
        made.values = values
        return made

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return GPU

    @property
    def is_cuda(self) -> bool:  # type: ignore[override]
        return True

    @property
    def is_meta(self) -> bool:  # type: ignore[override]
        return False

    def tolist(self) -> list[object]:
        return self.values.tolist()  # which torch refuses for classes of tensors

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["values"], None  # with these two modules are moved as wrappers are

    @staticmethod
    def __tensor_unflatten__(inner: dict[str, Tensor], *_: object) -> "OnGpu":
        return OnGpu(inner["values"])

    def __reduce_ex__(self, protocol: int) -> object:
        return self.values.__reduce_ex__(protocol)  # as files are read on the CPU

    def __repr__(self) -> str:  # type: ignore[override]
        return f"OnGpu({self.values!r})"

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        with _PretendedGpu():  # in a thread of its own, which has not entered it
            return func(*args, **(kwargs or {}))


class _PretendedGpu(TorchDispatchMode):
    """Every operation, with values on the CPU."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        kwargs = kwargs or {}
        if torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), COMPOSED):
            with self:  # of operations that there are; in inference mode nobody took it apart
                return func._op_dk(DispatchKey.CompositeImplicitAutograd, *args, **kwargs)
        where = _place(func, args, kwargs)
        given = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, OnGpu)]
        plain = tree_map_only(OnGpu, lambda tensor: tensor.values, (args, kwargs))
        if plain[1].get("device") is not None:
            plain[1]["device"] = CPU
        plain[1].pop("pin_memory", None)
        found = func(*plain[0], **plain[1])
        for tensor in given:
            assert tensor.shape == tensor.values.shape, f"{func} changes a shape in place"
        if where == CPU:
            return found
        if func is aten._pack_padded_sequence.default:
            return OnGpu(found[0]), found[1]  # the lengths stay on the CPU
        known = {id(tensor.values): tensor for tensor in given}  # written in place
        # a view of a tensor from outside an inference mode belongs outside, too
        inside = torch.is_inference_mode_enabled()
        outside = func.is_view and not given[0].is_inference()
        with torch.inference_mode(inside and not outside):
            return tree_map_only(Tensor, lambda made: known.get(id(made), OnGpu(made)), found)


def _place(func, args, kwargs) -> torch.device:  # type: ignore[no-untyped-def]
    """Where the results are; RuntimeError, as CUDA's, for arguments of different devices."""
    tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
    assert all(isinstance(tensor, OnGpu) or not tensor.is_meta for tensor in tensors), func
    named = kwargs.get("device")
    if func not in COPIES | PACKING and tensors:
        first = tensors[:1] if func in BY_POSITION and isinstance(tensors[0], OnGpu) else tensors
        large = [tensor for tensor in first if tensor.ndim or isinstance(tensor, OnGpu)]
        if len({isinstance(tensor, OnGpu) for tensor in large}) > 1:
            raise RuntimeError(f"{func}: expected all tensors to be on the same device")
    if named is not None:
        return CPU if torch.device(named).type == CPU.type else GPU
    if func in COPIES | PACKING:
        tensors = tensors[:1]
    return GPU if any(isinstance(tensor, OnGpu) for tensor in tensors) else CPU


class _SaysMeta(TorchFunctionMode):
    """Every call, with the device by which C++ knows the pretended GPU."""

    def __torch_function__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        args, kwargs = tree_map_only(torch.device, _inside, (args, kwargs or {}))
        if func is Tensor.to or isinstance(kwargs.get("device"), str):
            args, kwargs = tree_map_only(str, _inside, (args, kwargs))
        if func in FROM_DATA and not isinstance(args[0], Tensor):
            device = kwargs.pop("device", None)
            with _disable_current_modes():  # a storage is read in no mode
                made = func(*args, **kwargs)
            return made if device is None else made.to(device)
        if func in (Tensor.__getitem__, Tensor.__setitem__):  # likewise, of a list of positions
            args = args[0], _as_tensors(args[1]), *args[2:]
        if func is Tensor.new_tensor:
            return torch.tensor(*args[1:], dtype=args[0].dtype).to(_inside(args[0].device))
        if func is Tensor.backward:  # which calls this again for the backward of our own functions
            loss, ones = args[:1], (torch.ones_like(args[0]),)
            with self:
                return _engine_run_backward(loss, ones, False, False, (), True, True)
        if func is torch.gru:
            return _gru(args, kwargs)
        return func(*args, **kwargs)


def _as_tensors(index: Any) -> Any:
    if isinstance(index, tuple):
        return tuple(map(_as_tensors, index))
    return torch.tensor(index) if isinstance(index, list) else index


def _gru(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """On the CPU and back: a GPU has a kernel of its own, with the roundings of neither."""
    moved = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, OnGpu)]
    if moved:  # lengths of packed sequences are the only ones that stay on the CPU
        others = [leaf for leaf in tree_leaves(args) if type(leaf) is Tensor]
        assert all(leaf.dtype == torch.int64 for leaf in others), "nn.GRU: on different devices"
        args, kwargs = tree_map_only(OnGpu, lambda tensor: tensor.to(CPU), (args, kwargs))
    found = torch.gru(*args, **kwargs)
    return tree_map_only(Tensor, lambda made: made.to(INSIDE), found) if moved else found


def _inside(given: str | torch.device) -> str | torch.device:
    return INSIDE if str(given).startswith(GPU.type) else given


@contextmanager
def pretended_cuda() -> Iterator[None]:
    available = patch.object(torch.cuda, "is_available", lambda: True)
    named = patch.object(torch.cuda, "get_device_name", lambda device: "pretended")
    # it asks the driver whether a graph of its work is being recorded
    recorded = patch.object(Optimizer, "_accelerator_graph_capture_health_check", lambda _: None)
    reduced = patch.object(torch.cuda, "is_bf16_supported", lambda: True)
    compiled = patch("torch._dynamo.utils.has_triton", lambda: False)
    own = torch.backends.cudnn.flags(enabled=False)
    with available, named, recorded, reduced, compiled, own, _PretendedGpu(), _SaysMeta():
        yield


@contextmanager
def on_pretended_gpu(folder: Path) -> Iterator[None]:
    """Within it stages run there by the params.yaml of a folder, which is put back."""
    params = (folder / "params.yaml").read_bytes()
    change_params(folder, runtime__device="cuda")
    try:
        with pretended_cuda():
            yield
    finally:
        (folder / "params.yaml").write_bytes(params)
