"""A driver whose executors have nothing of Tidelog installed: it ships with the job.

    python -m spark_kit.shipped_job MASTER BOOTSTRAP TOPIC FOLDER

Prints one line of JSON: from where executors imported the client, and what was read back.
"""

from __future__ import annotations

import json
import os
import sys
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import tidelog
from spark_kit.session import spark_session
from support.tree import ROOT, SOURCE_ROOTS
from tidelog_spark import register

PACKAGES: Final = (("clients/python", "tidelog"), ("spark", "tidelog_spark"))
ROWS: Final = 1_000


def zip_packages(target: Path) -> None:
    """What `--py-files` is given: the client and the connector, as a wheel would hold them."""
    with zipfile.ZipFile(target, "w") as archive:
        for root, package in PACKAGES:
            for path in sorted((ROOT / root / package).rglob("*.py")):
                archive.write(path, path.relative_to(ROOT / root))


def origins(_: Iterable[int]) -> Iterable[str]:
    """From where an executor imports the client."""
    yield str(tidelog.__file__)


def run(master: str, bootstrap: str, topic: str, folder: Path) -> dict[str, object]:
    """Writes rows to the topic and reads them back, on executors that know no Tidelog."""
    shipped = folder / "shipped.zip"
    zip_packages(shipped)
    settings = {
        "spark.cores.max": "2",
        "spark.executor.cores": "1",
        "spark.executor.memory": "512m",
        "spark.executorEnv.SPARK_KIT_HIDDEN": os.pathsep.join(
            str(ROOT / root) for root in SOURCE_ROOTS
        ),
        "spark.submit.pyFiles": str(shipped),
    }
    with spark_session(folder, master=master, settings=settings) as spark:
        register(spark)
        found = spark.sparkContext.range(4, numSlices=4).mapPartitions(origins).collect()
        rows = spark.range(ROWS, numPartitions=2).selectExpr("CAST(id AS STRING) AS value")
        address = {"kafka.bootstrap.servers": bootstrap}
        rows.write.format("tidelog").mode("append").options(**address, topic=topic).save()
        read = spark.read.format("tidelog").options(**address, subscribe=topic).load()
        return {"origins": sorted(set(found)), "read": read.select("value").distinct().count()}


if __name__ == "__main__":
    _, *words, place = sys.argv
    print(json.dumps(run(words[0], words[1], words[2], Path(place))))
