"""A data directory that is removed, or replaced, while it is in use."""

from __future__ import annotations

from pathlib import Path

import pytest
from storage_kit.directories import append, open_directory, open_log

from tidelog.errors import StorageError
from tidelog_runtime.adapters.local_disk import LocalDisk


def test_nothing_is_written_to_a_directory_that_came_in_place_of_ours(tmp_path: Path) -> None:
    directory = open_directory(LocalDisk(tmp_path / "data"))
    log = open_log(directory)
    append(log)
    (tmp_path / "data").rename(tmp_path / "elsewhere")
    (tmp_path / "data").mkdir()
    with pytest.raises(StorageError, match="another was put in its place"):
        directory.check_place()
    with pytest.raises(StorageError, match="takes no more writes"):
        append(log)
    with pytest.raises(StorageError, match="could not be closed cleanly"):
        directory.close()
    assert list((tmp_path / "data").iterdir()) == []
