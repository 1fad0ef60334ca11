"""What /metrics tells Prometheus of one API replica. No text of any request is in it."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """Counters of one replica; each in a registry of its own, so that tests do not share them."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "rldf_requests_total",
            "Requests answered",
            ("route", "status"),
            registry=self.registry,
        )
        self.seconds = Histogram(
            "rldf_request_seconds",
            "Time to the end of the answer",
            ("route",),
            buckets=SECONDS,
            registry=self.registry,
        )
        self.first_piece = Histogram(
            "rldf_first_piece_seconds",
            "Time to the first piece of a generated answer",
            ("model",),
            buckets=SECONDS,
            registry=self.registry,
        )
        self.tokens = Counter(
            "rldf_tokens_total",
            "Tokens of prompts and answers",
            ("model", "version", "kind"),
            registry=self.registry,
        )
        self.cancelled = Counter(
            "rldf_cancelled_total",
            "Generations ended early",
            ("reason",),
            registry=self.registry,
        )
        self.in_flight = Gauge("rldf_in_flight", "Requests under way", registry=self.registry)

    def text(self) -> bytes:
        return generate_latest(self.registry)
