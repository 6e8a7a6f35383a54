"""Both twins of the codec, for every contract test that asks for one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.record_twins import TWINS, WHY_NOT_COMPILED, Twin, has_compiled, twin


@pytest.fixture(params=TWINS)
def codec(request: pytest.FixtureRequest) -> Iterator[Twin]:
    """Each twin in turn."""
    if request.param == "compiled" and not has_compiled():
        pytest.skip(WHY_NOT_COMPILED)
    with twin(request.param).in_place() as chosen:
        yield chosen
