"""Code that is broken in one place, and the tests that must notice: `python -m tests.mutants`."""
