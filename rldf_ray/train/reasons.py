"""Why a training job failed, in one message: whoever reports it speaks to developers."""

from __future__ import annotations

import re

from rldf_ray.plan.saved import another_run

# What Ray's memory monitor says of a host; the line after it is advice about Ray's settings.
OUT_OF_MEMORY = re.compile(r"Memory on the node \(IP: ([^,]+),[^)]*\) was (\S+) used / (\S+) limit")

# The class of an error whose message is the whole story.
OWN_ERROR = re.compile(r"^rldf_ray\.[\w.]+: ")

# How Python, safetensors and torch say that a disk is full.
FULL = re.compile(r"No space left on device|Disk quota exceeded|PytorchStreamWriter failed writing")


def reason_of(error: BaseException, out: str) -> str:
    """The worker's last word, without Ray's stack, and what to do where that is known.

    Args:
        out: the folder that the job writes to, or its address.
    """
    text = str(error).strip()
    if match := OUT_OF_MEMORY.search(text):
        host, used, limit = match.groups()
        return (
            f"host {host} ran out of memory ({used} of {limit} used), so Ray killed a worker. What "
            "was finished is kept. Run it where there is more, or with a smaller "
            "engines.kv_cache_gib; or "
            + another_run("a smaller micro_batch or max_length of the stage, or with train.lora")
        )
    lines = [line for line in text.splitlines() if line.strip()]
    word = OWN_ERROR.sub("", lines[-1].strip()) if lines else type(error).__name__
    # Who writes tensors says neither that the disk is full nor which file it was.
    full = f" (while writing to {out}): make room; the same command continues"
    return word + full if FULL.search(text) else word
