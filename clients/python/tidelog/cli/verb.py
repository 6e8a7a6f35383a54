"""A verb of the `tidelog` command, as the client and the services offer it.

Services add theirs through the entry-point group `tidelog.verbs`, so that the client imports none
of them. Loading a verb must be cheap: its work is imported when it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

VERB_GROUP: Final = "tidelog.verbs"


@dataclass(frozen=True, slots=True)
class Verb:
    """What stands in `tidelog --help`, and what runs; `run` gets the arguments after the verb."""

    name: str
    summary: str
    run: Callable[[Sequence[str]], int]
    #: What has to be installed for it.
    needs: str = "tidelog[server]"
