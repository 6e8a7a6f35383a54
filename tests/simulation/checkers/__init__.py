"""Checkers: each reads a history and tells, in words, where a promise was broken.

One module a promise. They are pure functions, tested with histories that were made wrong by hand.
"""

from simulation.checkers.duplicates import check_duplicates
from simulation.checkers.durable import check_durable
from simulation.checkers.offsets import check_offsets
from simulation.checkers.order import check_order
from simulation.checkers.restart import check_restart
from simulation.checkers.verdicts import check_verdicts
from simulation.checkers.visibility import check_visibility

#: Every check by the promise it stands for.
CHECKS = {
    "P1 order": check_order,
    "P2 durable": check_durable,
    "P3 one verdict": check_verdicts,
    "P4 visibility": check_visibility,
    "P5 no duplicates": check_duplicates,
    "P7 offsets": check_offsets,
    "P9 restart": check_restart,
}

__all__ = ["CHECKS"]
