"""The Disk port on real files: all or nothing appends, atomic replacement, one process a folder."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tidelog_runtime.adapters.local_disk import LocalDisk
from tidelog_runtime.disk import AlreadyLocked, Disk, WholeVolumeSync


def test_append_writes_all_parts_and_says_where(tmp_path: Path) -> None:
    disk: Disk = LocalDisk(tmp_path)
    file = disk.open("log", create=True)
    assert file.append([b"abc", memoryview(b"xdefx")[1:4]]) == 0
    assert file.append([b"", bytearray(b"g")]) == 6
    assert file.size == 7
    assert file.read(2, 100) == b"cdefg"
    assert file.read(2, 2) == b"cd"
    file.close()
    file.close()
    assert disk.read_bytes("log") == b"abcdefg"


def test_more_parts_than_one_system_call_takes(tmp_path: Path) -> None:
    file = LocalDisk(tmp_path).open("log", create=True)
    parts = [bytes([index % 251]) * (index % 3) for index in range(5000)]
    file.append(parts)
    assert file.read(0, 1 << 20) == b"".join(parts)
    file.close()


def test_short_write_continues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = LocalDisk(tmp_path).open("log", create=True)
    real = os.pwritev

    def at_most_two_bytes(descriptor: int, parts: list[bytes], position: int) -> int:
        joined = b"".join(parts)[:2]
        return real(descriptor, [joined], position)

    monkeypatch.setattr(os, "pwritev", at_most_two_bytes)
    file.append([b"abc", b"defg", b"h"])
    assert file.read(0, 100) == b"abcdefgh"
    file.close()


def test_failed_append_leaves_the_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = LocalDisk(tmp_path)
    file = disk.open("log", create=True)
    file.append([b"kept"])
    real = os.pwritev

    def full_after_one_byte(descriptor: int, parts: list[bytes], position: int) -> int:
        if position > 4:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(descriptor, [b"".join(parts)[:1]], position)

    monkeypatch.setattr(os, "pwritev", full_after_one_byte)
    with pytest.raises(OSError, match="No space") as raised:
        file.append([b"lost", b"too"])
    assert raised.value.errno == errno.ENOSPC
    assert file.size == 4
    file.close()
    assert disk.read_bytes("log") == b"kept"


def test_short_write_of_one_part_continues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = LocalDisk(tmp_path).open("log", create=True)
    real = os.pwrite

    def at_most_two_bytes(descriptor: int, content: bytes, position: int) -> int:
        return real(descriptor, content[:2], position)

    monkeypatch.setattr(os, "pwrite", at_most_two_bytes)
    assert file.append([b"abcde"]) == 0
    assert file.append([b"fgh"]) == 5
    assert (file.size, file.read(0, 100)) == (8, b"abcdefgh")
    file.close()


def test_truncate_then_append(tmp_path: Path) -> None:
    file = LocalDisk(tmp_path).open("log", create=True)
    file.append([b"abcdef"])
    file.truncate(2)
    file.append([b"Z"])
    file.sync()
    assert file.read(0, 100) == b"abZ"
    file.close()


def test_folders_and_names(tmp_path: Path) -> None:
    disk = LocalDisk(tmp_path / "data")
    disk.make_directory("topics/a")
    disk.make_directory("topics/a")
    disk.replace("topics/a/name", b"one")
    disk.replace("topics/a/name", b"two")
    assert disk.read_bytes("topics/a/name") == b"two"
    assert disk.list_directory("topics/a") == ["name"]
    disk.rename("topics/a", "topics/b")
    disk.sync_directory("topics")
    assert not disk.exists("topics/a")
    disk.remove("topics/b/name")
    with pytest.raises(FileNotFoundError):
        disk.remove("topics/b/name")
    with pytest.raises(FileNotFoundError):
        disk.open("topics/b/name")
    disk.remove_tree("topics/b")
    assert disk.list_directory("topics") == []
    with pytest.raises(FileNotFoundError):
        disk.list_directory("topics/b")


def test_space_and_volume(tmp_path: Path) -> None:
    disk = LocalDisk(tmp_path)
    assert 0 <= disk.free_bytes() <= disk.total_bytes()
    assert isinstance(disk, WholeVolumeSync)
    assert disk.owns_volume() is os.path.ismount(tmp_path)
    disk.sync_volume()


def test_one_process_a_data_directory(tmp_path: Path) -> None:
    disk = LocalDisk(tmp_path)
    lock = disk.acquire_lock("lock")
    other = (
        "import sys\n"
        "from tidelog_runtime.adapters.local_disk import LocalDisk\n"
        "from tidelog_runtime.disk import AlreadyLocked\n"
        "try:\n    LocalDisk(sys.argv[1]).acquire_lock('lock')\n"
        "except AlreadyLocked as error:\n    print(error)\n"
    )
    command = [sys.executable, "-c", other, str(tmp_path)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert f"process {os.getpid()}" in said
    assert "lock" in said
    lock.release()
    lock.release()
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == ""
    again = disk.acquire_lock("lock")
    with pytest.raises(AlreadyLocked):
        disk.acquire_lock("lock")
    again.release()


def test_a_lock_knows_when_its_directory_has_gone(tmp_path: Path) -> None:
    disk = LocalDisk(tmp_path / "data")
    lock = disk.acquire_lock("lock")
    assert lock.is_in_place()
    (tmp_path / "data").rename(tmp_path / "elsewhere")
    assert not lock.is_in_place()
    LocalDisk(tmp_path / "data").acquire_lock("lock").release()
    assert not lock.is_in_place()
    lock.release()
