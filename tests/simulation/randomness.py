"""One seed, many independent streams of chance: every part of a simulation draws from its own.

The loop, the network, each disk and each scenario ask for a stream by name. Because a stream
depends on the seed and its name alone, one more draw in the network does not reshuffle the
workload, and a failing seed stays recognisable while the code around it changes.
"""

from __future__ import annotations

from random import Random


class Randomness:
    """Named sub-streams of one seed; the same name always gives the same stream object."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._streams: dict[str, Random] = {}

    def stream(self, name: str) -> Random:
        """The stream of this name. (A text seeds by SHA-512, so no hash seed can move it.)"""
        stream = self._streams.get(name)
        if stream is None:
            stream = self._streams[name] = Random(f"{self.seed}/{name}")
        return stream
