"""Loaded by each Python process that Spark starts: says which modules these may see.

Spark puts a zip of pyspark before the installed one, and whatever comes from a zip is compiled anew
in every process: most of a second of work for each of the six kinds there are. So the zip is left
out. Where a test ships the connector, what is installed of it is hidden.
"""

import os
import sys

#: Folders that the processes must not import from, separated as in PYTHONPATH.
HIDDEN = "SPARK_KIT_HIDDEN"

_hidden = os.environ.get(HIDDEN, "").split(os.pathsep)
sys.path[:] = [
    path for path in sys.path if not path.endswith("pyspark.zip") and path not in _hidden
]
