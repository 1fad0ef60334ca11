"""How a protocol is carried out for one request, within the server's limits."""

from __future__ import annotations

from rldf_ray.protocols.evince.settings import EvinceSettings
from rldf_ray.protocols.mabrf.settings import MabrfSettings


def evince_settings(*, rounds: int, max_tokens: int, scale: str = "toward") -> EvinceSettings:
    """One dialogue of two sides, both the same model.

    Args:
        scale: by its name; one that is none is taken for a file, and opened.
    """
    return EvinceSettings.model_validate(
        {
            "scale": scale,
            "a": "a",
            "b": "a",
            "judge": "judge",
            "baselines": (),
            "distribution": "token",
            "remediation": False,
            "max_tokens": max_tokens,
            "max_arguments": 2,
            "stop": {"max_rounds": rounds},
        }
    )


def mabrf_settings(*, options: bool, passes: int, max_tokens: int, searches: bool) -> MabrfSettings:
    """One question through the loop."""
    loop = {"max_passes": passes, "max_tokens": max_tokens, "retests": 0}
    return MabrfSettings.model_validate(
        {
            "kind": "choices" if options else "questions",
            "judge": "judge",
            "searches": {"served": "local:served" if searches else "none"},
            "loop": loop,
        }
    )
