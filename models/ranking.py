"""Training by ranking: which losses there are, and the section `ranking` of params.yaml.

A loss is a file of models/losses. It declares its settings as arguments of its constructor, beside
the `margin` that the model gives, with a type of pipeline.runtime.section and a default:
`k: Count = 3` is `ranking.k`. Losses that name the same setting share it. The files are read, not
imported, so that checking params.yaml needs no torch.
"""

import ast
import inspect
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from pydantic import ConfigDict, Field, create_model

from pipeline.runtime import section
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.registry import ONE_CLASS, Registry, relative
from pipeline.runtime.section import Section

if TYPE_CHECKING:  # importing it takes a second, and a loss that is loaded imports it
    from models.losses import RankingLoss

LOSSES = Registry("models.losses", "ranking loss", ONE_CLASS, "one class, a RankingLoss")
GIVEN = ("self", "margin")  # by the model, not by `ranking`
TYPES = {
    **{name: kind for name, kind in vars(section).items() if not name.startswith("_")},
    **{"Annotated": Annotated, "Field": Field, "Literal": Literal},
}


def loss_class(name: str) -> "type[RankingLoss]":
    """The class of a ranking loss, its file alone imported; its arguments are the loss's settings.

    name: sum_margin (Kiros et al. 2015), max_margin (Faghri et al. 2018), knn_margin
    (Sun et al. 2019), random_margin (Zheng et al. 2020), infonce (Radford et al. 2021), or the name
    of a new file. WorkbenchError for any other.
    """
    kind: type[RankingLoss] = LOSSES.load(name)
    return kind


def warms_up(name: str) -> bool:
    """Whether models train by sum_margin before this loss (RankingLoss); its file is only read."""
    return bool(LOSSES.constant(name, "warms_up", False))


def make_loss(name: str, **settings: Any) -> "RankingLoss":
    """A ranking loss with its settings.

    Args:
        name: of a file in models/losses.
        settings: margin, and those of the section `ranking`; the loss takes those that its
            constructor names.

    Returns:
        The loss.

    Raises:
        WorkbenchError: there is no such loss.
    """
    kind = loss_class(name)
    read = inspect.signature(kind).parameters
    return kind(**{key: settings[key] for key in read if key in settings})


class Setting(NamedTuple):
    """A setting that a loss declares; text: type and default as the source has them."""

    loss: str
    text: str
    kind: Any
    default: Any


def settings_of(loss: str) -> dict[str, Setting]:
    """The settings that a loss declares, by name; WorkbenchError for one without type or default,
    or of an unknown type."""
    constructor = next(
        (
            node
            for node in LOSSES.class_of(loss).body
            if isinstance(node, ast.FunctionDef) and node.name == "__init__"
        ),
        None,
    )
    if constructor is None:
        return {}
    signature = constructor.args
    places = [*signature.posonlyargs, *signature.args]
    defaults = [None] * (len(places) - len(signature.defaults)) + list(signature.defaults)
    every = zip([*places, *signature.kwonlyargs], [*defaults, *signature.kw_defaults], strict=True)
    return {
        argument.arg: _setting(loss, argument, default)
        for argument, default in every
        if argument.arg not in GIVEN
    }


def _setting(loss: str, argument: ast.arg, default: ast.expr | None) -> Setting:
    where = f"{relative(LOSSES.file(loss))}, line {argument.lineno}: {argument.arg}"
    if argument.annotation is None or default is None:
        raise WorkbenchError(
            f"{where}: a setting needs a type and a default",
            f"write it as: {argument.arg}: Positive = 1.0",
        )
    kind = ast.unparse(argument.annotation)
    try:
        parsed = eval(compile(kind, str(LOSSES.file(loss)), "eval"), dict(TYPES))
        return Setting(loss, f"{kind} = {ast.unparse(default)}", parsed, ast.literal_eval(default))
    except NameError:
        raise WorkbenchError(
            f"{where}: type {kind}: allowed are int, float, bool, str and the types of "
            "pipeline/runtime/section.py, such as Count, Positive and Share"
        ) from None
    except ValueError:
        raise WorkbenchError(
            f"{where} = {ast.unparse(default)}: the default must be a plain value"
        ) from None


def declared() -> dict[str, Setting]:
    """The settings of all losses, sorted by name; WorkbenchError where two losses declare one name
    with other types or defaults."""
    settings: dict[str, Setting] = {}
    for loss in LOSSES:
        for name, setting in settings_of(loss).items():
            other = settings.setdefault(name, setting)
            if other.text != setting.text:
                raise WorkbenchError(
                    f"ranking.{name}: {relative(LOSSES.file(other.loss))} declares {other.text}, "
                    f"{relative(LOSSES.file(loss))} {setting.text}",
                    "losses share a setting of one name: use the same type and default, or "
                    "another name",
                )
    return dict(sorted(settings.items()))


class _Ranking(Section):
    """Settings of the ranking losses; each reads those that its constructor names."""

    model_config = ConfigDict(validate_default=True)


if TYPE_CHECKING:
    RankingConfig = _Ranking  # a checker of types runs nothing
else:
    RankingConfig = create_model(
        "RankingConfig",
        __base__=_Ranking,
        **{name: (setting.kind, setting.default) for name, setting in declared().items()},
    )
