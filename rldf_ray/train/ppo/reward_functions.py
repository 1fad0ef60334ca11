"""Rewards that are functions of one's own: read where the run is begun, called where it trains."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from importlib import import_module
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any

from rldf_ray.errors import UserError
from rldf_ray.plan.training import RewardSource
from rldf_ray.storage.home_path import home_path

Row = Mapping[str, Any]
RewardFunction = Callable[[Sequence[Row]], Sequence[float]]
LARGEST = 3.4e38
"""A float32 holds no larger number."""


class RewardError(UserError):
    """A reward is none: it names the source, the row, what was found and what is allowed."""


def reward_texts(sources: Sequence[RewardSource]) -> dict[str, str]:
    """The source of every function that lies in a file, by what the plan says of it.

    It is sent to the workers, which need not have the file.

    Raises:
        RewardError: a file cannot be read, or has no such function.
    """
    texts = {}
    for source in sources:
        where, _, _ = (source.python or "").rpartition(":")
        if where.endswith(".py"):
            try:
                texts[source.python or ""] = home_path(where).read_text(encoding="utf-8")
            except (OSError, UnicodeDecodeError) as error:
                raise RewardError(f"ppo.rewards: python={source.python}: {error}") from error
    for source in sources:
        if source.python is not None:
            reward_function(source.python, texts)
    return texts


def reward_function(named: str, texts: Mapping[str, str]) -> RewardFunction:
    """What `FILE.py:FUNCTION` or `package.module:FUNCTION` names.

    Raises:
        RewardError: it cannot be imported, or is no function of one argument.
    """
    where, _, name = named.rpartition(":")
    try:
        if named in texts:
            module = ModuleType(Path(where).stem)
            module.__file__ = where
            exec(compile(texts[named], where, "exec"), module.__dict__)
        else:
            module = import_module(where)
    except Exception as error:
        raise RewardError(
            f"ppo.rewards: python={named} cannot be imported: {type(error).__name__}: {error}"
        ) from error
    function = getattr(module, name, None)
    if not callable(function):
        known = [n for n, v in vars(module).items() if inspect.isfunction(v)]
        raise RewardError(
            f"ppo.rewards: python={named}: no function {name} in {where}; it has "
            f"{', '.join(known) or 'none'}"
        )
    try:
        inspect.signature(function).bind([])
    except TypeError as error:
        raise RewardError(
            f"ppo.rewards: python={named}: it is called with one argument, a list of rows ({error})"
        ) from error
    found: RewardFunction = function
    return found


def called(name: str, function: RewardFunction, rows: Sequence[Row]) -> Any:
    """What a function returns; what it raises names the row that it was about."""
    try:
        return _returned(function, rows)
    except Exception as error:
        row = _failing(function, rows)
        raise RewardError(
            f"reward {name}{row}: {type(error).__name__}: {error}; a row has {', '.join(rows[0])}"
        ) from error


def _returned(function: RewardFunction, rows: Sequence[Row]) -> Any:
    """What it returns; of a generator what that yields, one more than wanted at most."""
    given = function(rows)
    return list(islice(given, len(rows) + 1)) if isinstance(given, Iterator) else given


def _failing(function: RewardFunction, rows: Sequence[Row]) -> str:
    """The first row that a function fails on by itself."""
    for i, row in enumerate(rows):
        try:
            _returned(function, [row])
        except Exception:  # noqa: BLE001 - which row it is, not what it raises
            return f", row {i} ({row['prompt_id']})"
    return f", on {len(rows)} rows together"


def checked(name: str, given: Any, rows: Sequence[Row]) -> list[float]:
    """A finite number for every row.

    Raises:
        RewardError: there are more or fewer, or one is none.
    """
    try:
        # What these yield is no reward: keys, characters, or numbers in no order.
        found = None if isinstance(given, Mapping | Set | str | bytes) else list(given)
    except Exception:  # noqa: BLE001 - any class may refuse in a way of its own
        found = None
    if found is None:
        raise RewardError(
            f"reward {name} returned {type(given).__name__}; allowed: a list of {len(rows)} numbers"
        )
    if len(found) != len(rows):
        raise RewardError(f"reward {name} returned {len(found)} rewards of {len(rows)} rows")
    numbers = [_number(one) for one in found]
    for i, (number, row) in enumerate(zip(numbers, rows, strict=True)):
        # Sums are taken in float32.
        if not abs(number) <= LARGEST:
            raise RewardError(
                f"reward {name}, row {i} ({row['prompt_id']}, answer {row['answer'][:80]!r}): "
                f"{_shown(found[i])} is no finite number"
            )
    return numbers


def _number(given: Any) -> float:
    """NaN where it is none."""
    try:
        return float(given)
    except Exception:  # noqa: BLE001 - any class may refuse in a way of its own
        return math.nan


def _shown(given: Any) -> str:
    try:
        return repr(given)[:80]
    except Exception:  # noqa: BLE001 - as an integer of too many digits does
        return f"a value of type {type(given).__name__}"
