"""How fast and how big, against naive forms and bounds; ratios taken within one run."""

import os

from pipeline.runtime.threads import shorten_waiting

# As in stages: threads of numpy's products that wait actively would slow down what is timed next.
shorten_waiting(os.environ)
