"""A driver: copies one topic into another as a stream, until it is killed or the query fails.

    python -m spark_kit.copy_job '{"master": ..., "bootstrap": ..., ...}'

`kill_run` starts it as a process of its own, so that killing it is what a dying driver is.
"""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from spark_kit.session import spark_session
from spark_kit.traced import TracedSource


@dataclass(frozen=True, slots=True)
class CopyJob:
    """What to copy, and where everything is."""

    master: str
    bootstrap: str
    source: str
    target: str
    folder: str
    rows_per_batch: int

    @property
    def checkpoint(self) -> Path:
        """Where the query keeps what it has done."""
        return Path(self.folder) / "checkpoint"

    def command(self) -> list[str]:
        """What runs it."""
        return [sys.executable, "-m", "spark_kit.copy_job", json.dumps(asdict(self))]


def run(job: CopyJob) -> None:
    """Copies until the end of the process, or of the query."""
    settings = {
        "spark.cores.max": "2",
        "spark.executor.cores": "1",
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": (
            f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Djava.io.tmpdir={tempfile.gettempdir()}"
        ),
        "spark.excludeOnFailure.enabled": "false",
        "spark.network.timeout": "120s",
        "spark.task.maxFailures": "8",
    }
    folder = Path(job.folder)
    with spark_session(folder, master=job.master, settings=settings) as spark:
        spark.dataSource.register(TracedSource)
        rows = (
            spark.readStream.format("traced")
            .option("kafka.bootstrap.servers", job.bootstrap)
            .option("subscribe", job.source)
            .option("startingOffsets", "earliest")
            .option("includeHeaders", "true")
            .option("maxOffsetsPerTrigger", job.rows_per_batch)
            .load()
        )
        query = (
            rows.writeStream.format("traced")
            .option("kafka.bootstrap.servers", job.bootstrap)
            .option("topic", job.target)
            .option("traceFolder", job.folder)
            .option("checkpointLocation", str(job.checkpoint))
            .start()
        )
        query.awaitTermination()


if __name__ == "__main__":
    run(CopyJob(**json.loads(sys.argv[1])))
