"""What to tell the user of a failed request: which model and host, what happened, what to do."""

from __future__ import annotations

from dataclasses import dataclass

from openai import APIStatusError, APITimeoutError
from tenacity import Future

from rldf_ray.models.openai_checked import ForeignReplyError, MalformedReplyError
from rldf_ray.models.openai_connection import Connection
from rldf_ray.models.openai_refusal import is_out_of_credit, reason_of
from rldf_ray.models.openai_retry import is_passing, retry_after_s, was_never_sent
from rldf_ray.plan import Endpoint

MOST_REASON = 300

_ADVICE = {
    400: "the server says the request itself is wrong; no retry can help",
    403: "this key may not use the model: name another model or ask for access to it",
    404: "the server knows no such model or path: check the model's name and endpoint.base_url",
}


@dataclass(frozen=True)
class Failures:
    """Words for the failures of one model; none has the key in it."""

    model: str
    endpoint: Endpoint
    connection: Connection

    @property
    def where(self) -> str:
        return f"model {self.model} at {self.connection.url}"

    def gave_up(self, last: Future) -> str:
        """After the last of several tries."""
        tries, error = last.attempt_number, last.exception()
        advice = "run the same command again later, or raise endpoint.retries or endpoint.timeout_s"
        if isinstance(error, MalformedReplyError):
            advice = "no such reply is used; check that the server is an OpenAI-compatible API"
        return self.connection.without_key(
            f"{self.where} gave no answer in {tries} {'try' if tries == 1 else 'tries'}; the "
            f"last one: {self.what(error)}; {advice}"
        )

    def refused(self, error: APIStatusError) -> str:
        """At once, for good."""
        advice = _ADVICE.get(error.status_code, "no retry can help")
        asked_s = retry_after_s(error)
        if error.response.is_redirect:
            other = error.response.headers.get("location", "nowhere")
            advice = (
                f"it sends requests on to {other}, where none is sent: set endpoint.base_url to "
                "that address if it is to be trusted"
            )
        elif error.status_code == 401:
            advice = f"check the key in the environment variable {self.endpoint.api_key_env}"
        elif is_out_of_credit(error):
            advice = "the account has no credit left: add some, and the same command goes on"
        elif asked_s is not None and is_passing(error.status_code):
            advice = f"it asks for a wait of {asked_s:.0f} s: run the same command again after that"
        return self.connection.without_key(f"{self.where} refused: {self.what(error)}; {advice}")

    def foreign(self, error: ForeignReplyError) -> str:
        """Of a server of another kind."""
        return (
            f"{self.where} answered with something that is no chat completion "
            f"({self._cut(error)}): check that endpoint.base_url is an OpenAI-compatible API (it "
            "often ends in /v1)"
        )

    def too_many(self, samples: int, requested: int) -> str:
        return (
            f"{self.where} returned {samples} samples where {requested} were requested: this is "
            "no OpenAI-compatible server; name another one"
        )

    def what(self, error: BaseException | None) -> str:
        """What happened, in a few words."""
        if isinstance(error, APIStatusError):
            reason = self._cut(reason_of(error))
            return f"status {error.status_code}" + (f" ({reason})" if reason else "")
        if isinstance(error, MalformedReplyError):
            return f"a reply in which {self._cut(error)}"
        unsent = error is not None and was_never_sent(error)
        if isinstance(error, TimeoutError | APITimeoutError) and not unsent:
            return f"timeout after {self.endpoint.timeout_s:g} s (endpoint.timeout_s)"
        cause = (error and error.__cause__) or error
        said = f": {cause}" if str(cause) else ""
        return f"no connection ({type(cause).__name__}{said})"

    def _cut(self, text: object) -> str:
        # Only once the key is gone: a part of it would no longer match.
        return self.connection.without_key(str(text))[:MOST_REASON]
