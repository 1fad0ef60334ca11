"""Run by benchmarks/eval.py in a process of its own: the same answers ranked by a vLLM engine.

    python -m benchmarks.engine_ranking FOLDER

FOLDER holds order.json (model, threads, and of every item its prompt and answers as token ids);
answer.json gets the seconds of each pass, without starting the engine, and the mean log-likelihood
of every answer. An engine does not take prompts whose log-probabilities it is to tell from its
cache of prefixes, so every prompt is read as often as it has answers.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from rldf_ray.engines.vllm_actor import EngineSettings, engine_arguments, set_environment

TIMES = 3
MOST = 2048  # tokens of an answer and its prompt


def main(folder: Path) -> None:
    order = json.loads((folder / "order.json").read_text(encoding="utf-8"))
    settings = EngineSettings(
        model=order["model"],
        revision="base",
        max_model_len=MOST,
        kv_cache_gib=1.0,
        threads=order["threads"],
    )
    set_environment(settings)
    from vllm import LLM, SamplingParams

    engine: Any = LLM(**engine_arguments(settings))
    # The likeliest token of each place comes with the prompt's own, which 0 asks for alone.
    asked = SamplingParams(max_tokens=1, temperature=0.0, prompt_logprobs=0, detokenize=False)
    texts = [(item["prompt"], answer) for item in order["items"] for answer in item["answers"]]
    prompts = [{"prompt_token_ids": prompt + answer} for prompt, answer in texts]
    engine.generate(prompts[:8], asked, use_tqdm=False)
    seconds, said = [], []
    for _ in range(TIMES):
        began = time.perf_counter()
        said = engine.generate(prompts, asked, use_tqdm=False)
        seconds.append(time.perf_counter() - began)
    means = [
        sum(found[token].logprob for found, token in zip(tail, answer, strict=True)) / len(answer)
        for (_, answer), one in zip(texts, said, strict=True)
        for tail in [one.prompt_logprobs[-len(answer) :]]
    ]
    each = iter(means)
    scores = {
        place: [next(each) for _ in item["answers"]] for place, item in enumerate(order["items"])
    }
    (folder / "answer.json").write_text(
        json.dumps({"seconds": seconds, "scores": scores}), encoding="utf-8"
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
