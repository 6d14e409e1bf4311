"""DVC in a process that ends at a call: `python killed_dvc.py KILL words of dvc`."""

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from dvc.cli import main  # noqa: E402

from tests.campaign.calls import arm  # noqa: E402
from tests.sequences.kills import Kill  # noqa: E402

del sys.path[0]
kill = Kill(*json.loads(sys.argv[1]))
arm(Path.cwd(), kill.call, is_torn=kill.is_torn, of_group=kill.of_group)
sys.exit(main(sys.argv[2:]))
