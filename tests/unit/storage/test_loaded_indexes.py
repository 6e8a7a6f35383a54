"""The cache of closed segments' indexes: bounded, and never drops what was just asked for."""

from __future__ import annotations

from tidelog_broker.storage.volume import LoadedIndexes


class Segment:
    """Counts how often its index was dropped."""

    def __init__(self) -> None:
        self.drops = 0

    def drop_index(self) -> None:
        """As a real one would."""
        self.drops += 1


def test_the_oldest_lets_go_of_its_index() -> None:
    indexes = LoadedIndexes(2)
    first, second, third = Segment(), Segment(), Segment()
    for segment in (first, second, third):
        indexes.keep(segment)
    assert (first.drops, second.drops, third.drops) == (1, 0, 0)


def test_what_is_read_again_is_the_youngest() -> None:
    indexes = LoadedIndexes(2)
    again, other, third = Segment(), Segment(), Segment()
    for segment in (again, other, again, again, third):
        indexes.keep(segment)
    assert (again.drops, other.drops, third.drops) == (0, 1, 0)
