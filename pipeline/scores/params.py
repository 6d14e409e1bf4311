"""Section of params.yaml: what scoring computes."""

from pipeline.runtime.section import Count, Section


class ScoringConfig(Section):
    """What scoring computes; part of no model."""

    shortlist: Count
