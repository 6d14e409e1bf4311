"""The papers' claims, what was measured for them, and the rule that decides."""
