"""The section of params.yaml of canonical correlation analysis."""

from pipeline.runtime.section import Count, NonNegative, Section


class CCAConfig(Section):
    """Canonical correlation analysis."""

    dim: Count
    power: NonNegative
    regularisation: NonNegative


CONFIG = CCAConfig
