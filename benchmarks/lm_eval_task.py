"""Run by benchmarks/eval.py inside the harness's own environment: one local task, timed.

    python lm_eval_task.py FOLDER

FOLDER holds order.json and the task's yaml; answer.json gets the seconds, without loading model and
harness, and the log-likelihood of every answer.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any


def main(folder: Path) -> None:
    import torch
    from lm_eval import simple_evaluate
    from lm_eval.models.huggingface import HFLM
    from lm_eval.tasks import TaskManager

    order = json.loads((folder / "order.json").read_text(encoding="utf-8"))
    torch.set_num_threads(order["threads"])
    model = HFLM(
        pretrained=order["model"], dtype="bfloat16", batch_size=order["batch"], device="cpu"
    )
    spent: list[float] = []
    score = model.loglikelihood

    def timed(requests: Any, *arguments: Any, **options: Any) -> Any:
        began = time.perf_counter()
        try:
            return score(requests, *arguments, **options)
        finally:
            spent.append(time.perf_counter() - began)

    model.loglikelihood = timed
    found = simple_evaluate(
        model=model,
        tasks=[order["task"]],
        task_manager=TaskManager(include_path=str(folder), include_defaults=False),
        bootstrap_iters=0,
        log_samples=True,
    )
    scores = {
        sample["doc"]["place"]: [response[0] for response in sample["filtered_resps"]]
        for sample in found["samples"][order["task"]]
    }
    (folder / "answer.json").write_text(
        json.dumps({"seconds": sum(spent), "scores": scores}), encoding="utf-8"
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
