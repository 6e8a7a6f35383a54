"""What can go wrong with the metadata store: five verdicts, the same for every implementation.

They stay inside the services: whoever answers a client translates them into an error with a code
of its own. The line that matters is between "certainly not written" and "may have been written".
"""

from __future__ import annotations

from tidelog.errors import TidelogError


class MetadataStoreError(TidelogError):
    """The metadata store could not do what it was asked."""


class StoreUnavailable(MetadataStoreError):
    """The store cannot serve at the moment; what was asked was certainly not written."""

    retriable = True


class StoreOutcomeUnknown(MetadataStoreError):
    """The write may have happened or not: read back and compare, never repeat it on hope."""

    outcome_unknown = True


class LeaseLost(MetadataStoreError):
    """The lease ran out or was revoked, and the keys that hung on it are gone."""


class StoreCorrupt(MetadataStoreError):
    """What the store kept is damaged where it must not be."""


class CompactedError(MetadataStoreError):
    """The events that a watch asked for are no longer kept: read the range anew, then watch."""

    def __init__(self, compacted_revision: int) -> None:
        super().__init__(
            f"Events up to revision {compacted_revision} are no longer kept",
            hint="Read the range again and watch from the revision after it",
        )
        self.compacted_revision = compacted_revision
