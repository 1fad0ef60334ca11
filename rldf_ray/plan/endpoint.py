"""The section about an OpenAI-compatible endpoint: address, limits, budgets, prices."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from pydantic import ValidationInfo, model_validator

from rldf_ray.plan.request_fields import ExtraBody, TemplateValues, unset
from rldf_ray.plan.section import Section, described

SECRET = re.compile(r"key|token|secret|passw|credential|signature|^sig$", re.IGNORECASE)
"""Names of an address's parameters that hold a secret."""


class Endpoint(Section):
    base_url: str | None = described(None, "OpenAI-compatible URL; null is the package's default")
    api_key_env: str = described("OPENAI_API_KEY", "environment variable that holds the key")
    timeout_s: float = described(60.0, "limit of one request", unit="s", gt=0)
    retries: int = described(6, "tries after a 429, 5xx or dropped connection", ge=0)
    in_flight: int = described(
        64, "most requests under way at once; the number adapts below that", ge=1
    )
    requests_per_minute: float | None = described(
        None, "rate limit; null is none", unit="requests a minute", gt=0
    )
    tokens_per_minute: float | None = described(
        None, "rate limit, prompt and answer together; null is none", unit="tokens a minute", gt=0
    )
    budget_usd: float | None = described(
        None, "the run stops before its calls cost more (needs both prices)", unit="USD", gt=0
    )
    budget_tokens: int | None = described(
        None, "the run stops before its calls take more, prompt and answer", unit="tokens", ge=1
    )
    prompt_price: float | None = described(
        None, "price of prompt tokens; null leaves the cost unknown", unit="USD a million", ge=0
    )
    generated_price: float | None = described(
        None, "price of generated tokens", unit="USD a million", ge=0
    )
    reasoning_effort: str | None = described(
        None,
        "how long a reasoning model may think, as the server names it (low, medium, high); null "
        "leaves it to the server",
        min_length=1,
        exclude_if=unset,
    )
    chat_template_kwargs: TemplateValues = described(
        None,
        "values for the chat template of the endpoint's model, as vLLM's server takes them",
        exclude_if=unset,
    )
    extra_body: ExtraBody = described(
        None, "further fields of every request, as {top_k: 20}", exclude_if=unset
    )

    @model_validator(mode="after")
    def _a_budget_in_money_knows_the_prices(self) -> Endpoint:
        if self.budget_usd is not None and None in (self.prompt_price, self.generated_price):
            raise ValueError("budget_usd needs prompt_price and generated_price")
        return self

    @model_validator(mode="after")
    def _the_address_is_a_servers_and_holds_no_secret(self, info: ValidationInfo) -> Endpoint:
        # Of the model and not of the field, so that no message repeats what was given.
        if self.base_url is None:
            return self
        try:
            secret = holds_secret(self.base_url)
        except ValueError as error:
            raise ValueError(f"base_url: no URL ({error})") from None
        if secret:
            raise ValueError(
                "base_url holds a password or a key, which would stand in plan.yaml and in every "
                "report: leave it out, and put the key into the environment variable that "
                f"api_key_env names ({self.api_key_env})"
            )
        url = urlsplit(self.base_url)
        # A run is read whatever its endpoint was.
        saved = (info.context or {}).get("saved")
        if not saved and not (url.scheme in ("http", "https") and url.hostname):
            raise ValueError(
                "base_url: a server's URL begins with http:// or https://, as in "
                f"http://localhost:8000/v1 (found {self.base_url})"
            )
        return self

    def request_fields(self) -> dict[str, Any]:
        """What every request has besides what it is about."""
        named = {
            "reasoning_effort": self.reasoning_effort,
            "chat_template_kwargs": self.chat_template_kwargs,
        }
        return {
            **(self.extra_body or {}),
            **{name: value for name, value in named.items() if value is not None},
        }

    def usd(self, prompt: float, generated: float) -> float | None:
        """What tokens cost: 0 where there are none, None where a price is not known."""
        if not prompt and not generated:
            return 0.0
        if self.prompt_price is None or self.generated_price is None:
            return None
        return (prompt * self.prompt_price + generated * self.generated_price) / 1e6


def holds_secret(url: str) -> bool:
    """Whether an address names a user or a password, or has a parameter that is a secret."""
    parts = urlsplit(url)
    names = (name for name, _ in parse_qsl(parts.query, keep_blank_values=True))
    return "@" in parts.netloc or any(SECRET.search(name) for name in names)
