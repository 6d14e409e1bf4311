"""The section `ranking` of params.yaml: the settings that ranking losses declare in their files.

A loss declares a setting as an argument of its constructor, beside the `margin` that the model
gives, with a type of pipeline.runtime.section and a default: `k: Count = 3` is `ranking.k`. Losses
that name the same setting share it. The sources are read, not imported.
"""

import ast
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from pydantic import ConfigDict, Field, create_model

from models.ranking import LOSSES
from pipeline.runtime import section
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.registry import relative
from pipeline.runtime.section import Section

GIVEN = ("self", "margin")  # by the model, not by `ranking`
TYPES = {
    **{name: kind for name, kind in vars(section).items() if not name.startswith("_")},
    **{"Annotated": Annotated, "Field": Field, "Literal": Literal},
}


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
