"""Loaded by each Python process that Spark starts: they import the installed pyspark.

Spark puts a zip of the same modules before it, and whatever comes from a zip is compiled anew in
every process: most of a second of work for each of the six kinds there are.
"""

import sys

sys.path[:] = [path for path in sys.path if not path.endswith("pyspark.zip")]
