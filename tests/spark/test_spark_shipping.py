"""The connector goes to executors by `--py-files`: they have nothing of it installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from spark_kit.session import spark_environment
from spark_kit.shipped_job import ROWS
from spark_kit.standalone import StandaloneCluster
from spark_kit.topics import Topics


def test_executors_need_nothing_installed(
    standalone: StandaloneCluster, topics: Topics, tmp_path: Path
) -> None:
    topic = topics.create()
    arguments = [standalone.master, topics.bootstrap, topic, str(tmp_path)]
    job = subprocess.run(
        [sys.executable, "-m", "spark_kit.shipped_job", *arguments],
        env={**os.environ, **spark_environment()},
        capture_output=True,
        text=True,
        check=False,
    )
    assert job.returncode == 0, job.stderr[-4_000:]
    told = json.loads(job.stdout.splitlines()[-1])
    assert told["read"] == ROWS
    assert all("shipped.zip" in origin for origin in told["origins"]), told
    assert sorted(map(int, topics.values(topic))) == list(range(ROWS))
