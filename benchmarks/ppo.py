"""PPO here and by TRL 1.10's PPOTrainer: episodes and tokens a second, peak memory.

    python -m benchmarks.ppo [--episodes 48] [--skip-peer | --peer FOLDER]

Embedded model, 64-token prompts, answers of at most 48 tokens, batch 8, one PPO epoch, float32.
Ours is the `ppo` stage with everything it needs: Ray, DeepSpeed, a vLLM engine; with all parameters
trained, with adapters on all layers of a shared base, and with adapters on its upper third (the
layers below are then computed once for actor, critic and reference). TRL gets an environment of its
own in FOLDER, or in a temporary one (its package alone; torch and transformers are the ones
installed here). Rates are of the steps after the first, memory is the peak of PSS over all
processes of a side.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import venv
from pathlib import Path
from typing import Any

from benchmarks.goals import goal, write_results
from rldf_ray.cluster.memory import watch_memory
from rldf_ray.plan import LoraSection, Plan, load_plan

# Side: share of the layers that get adapters; none where all parameters are trained.
SIDES = {"full": None, "lora": 1.0, "lora_upper_third": 1 / 3}
PEER = "trl==1.10.0"
PROMPT, ANSWER, BATCH = 64, 48, 8
WORDS = [
    "the",
    "people",
    "of",
    "this",
    "town",
    "met",
    "at",
    "noon",
    "and",
    "talked",
    "about",
    "work",
    "home",
    "school",
    "health",
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=48)
    parser.add_argument("--skip-peer", action="store_true")
    parser.add_argument("--peer", type=Path, help="where TRL is, or is installed to be used again")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    parser.add_argument("--prepare", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--root", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.prepare:
        prepare(given.root, adapters_of(given.side))
    elif given.side:
        ours(given.root, given.side, given.episodes)
    else:
        compare(given.episodes, given.skip_peer, given.peer)


def compare(episodes: int, skip_peer: bool, installed: Path | None) -> None:
    """Both sides one after the other, each in processes of its own."""
    with tempfile.TemporaryDirectory(prefix="rldf-bench-") as folder:
        figures: dict[str, Any] = {}
        for side in SIDES:
            root = Path(folder) / side
            own = [sys.executable, "-m", "benchmarks.ppo", "--root", str(root), "--side", side]
            subprocess.run([*own, "--prepare"], check=True)
            peak = watched([*own, "--episodes", str(episodes)])
            figures[side] = {
                **json.loads((root / f"{side}.json").read_text(encoding="utf-8")),
                "peak_gib": peak,
            }
        if not skip_peer:
            environment = installed or Path(folder) / "peer"
            figures["trl"] = peer(Path(folder) / "full", episodes, environment)
    write_results("ppo", figures, goals_of(figures))


def goals_of(figures: dict[str, Any]) -> list[dict[str, Any]]:
    """Rates and memory against the peer's, or the peer's recorded rate where it was skipped."""
    theirs = figures.get("trl", {"episodes_per_s": 0.32, "peak_gib": 8.4e9 / 2**30})

    def ratio(side: str, name: str) -> float:
        return float(figures[side][name] / theirs[name])

    found = [
        goal("full parameters: episodes/s over TRL's", ratio("full", "episodes_per_s"), least=1.5)
    ]
    for side in ("lora", "lora_upper_third"):
        found += [
            goal(f"{side}: episodes/s over TRL's", ratio(side, "episodes_per_s"), least=2.5),
            goal(f"{side}: peak memory over TRL's", ratio(side, "peak_gib"), most=0.5),
        ]
    return found


def adapters_of(side: str) -> LoraSection:
    share = SIDES[side]
    return LoraSection(rank=16, alpha=32, layers=share) if share else LoraSection(rank=0)


def watched(command: list[str]) -> float:
    """Run it; the peak memory of all its processes, GiB."""
    with watch_memory(4.0) as peak:
        subprocess.run(command, check=True)
    return round(peak.gib, 2)


def prepare(
    root: Path,
    adapters: LoraSection,
    base: Path | None = None,
    dtype: str = "float32",
    prompt: int = PROMPT,
) -> None:
    """Models and prompts; with adapters where the side trains them.

    Args:
        base: folder of the model; None is the embedded one.
        prompt: tokens.
    """
    import torch
    from peft import get_peft_model
    from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification, AutoTokenizer

    from rldf_ray.models.embedded import embedded_model_folder
    from rldf_ray.train.lora import lora_config

    base = base or embedded_model_folder()
    tokenizer = AutoTokenizer.from_pretrained(base)
    torch.manual_seed(0)
    root.mkdir()
    scorer = AutoModelForSequenceClassification.from_pretrained(
        base, num_labels=1, dtype=getattr(torch, dtype)
    )
    scorer.config.pad_token_id = tokenizer.pad_token_id
    scorer.save_pretrained(root / "reward/model")
    if adapters.rank:
        speaker = AutoModelForCausalLM.from_pretrained(base, dtype=getattr(torch, dtype))
        for name, model in {"sft": speaker, "reward": scorer}.items():
            config = lora_config(adapters, model.config.num_hidden_layers, scores=name == "reward")
            get_peft_model(model, config).save_pretrained(root / name / "adapter")
    tokenizer.save_pretrained(root / "reward/model")
    # Links to files: the adapter is looked for beside the folder that a link to it would lead to.
    (root / "sft/model").mkdir(parents=True)
    for file in base.iterdir():
        (root / "sft/model" / file.name).symlink_to(file)
    _write_prompts(root, tokenizer, prompt)


def _write_prompts(root: Path, tokenizer: Any, length: int) -> None:
    """Prompts of so many tokens: as messages for us, as ids for the peer."""
    import random

    import pyarrow as pa
    import pyarrow.parquet as pq

    from rldf_ray.models.chat_template import ChatTemplate

    template = ChatTemplate(tokenizer)
    draw = random.Random(0)
    rows: list[dict[str, Any]] = []
    ids: list[list[int]] = []
    while len(rows) < 64:
        words = draw.choices(WORDS, k=length)
        message = [{"role": "user", "content": " ".join(words)}]
        while len(template.prompt_ids(message)) > length:
            words.pop()
            message = [{"role": "user", "content": " ".join(words)}]
        found = template.prompt_ids(message)
        if len(found) == length:
            name = f"p{len(rows)}"
            row = {"prompt_id": name, "topic_id": name, "split": "ppo", "prompt": message}
            rows.append(row)
            ids.append(found)
    (root / "data").mkdir()
    pq.write_table(pa.Table.from_pylist(rows), root / "data/prompts.parquet")
    (root / "prompts.json").write_text(json.dumps(ids), encoding="utf-8")


def ours(root: Path, side: str, episodes: int) -> None:
    """The `ppo` stage in this process, on a Ray cluster of its own."""
    sizes = (
        f"episodes: {episodes}, rollout_batch: {BATCH}, batch_size: {BATCH}, micro_batch: {BATCH}"
    )
    plan = load_plan(
        "opinions",
        [
            f"ppo={{{sizes}, max_tokens: {ANSWER}, dtype: float32, sample_every: null}}",
            f"train.lora={json.dumps(adapters_of(side).model_dump())}",
            "engines.max_model_len=256",
            "engines.kv_cache_gib=0.1",
            # The peer's memory is one process's, which has nobody to take turns with.
            "engines.sleep=false",
        ],
    )
    (root / f"{side}.json").write_text(json.dumps(rates(staged(root, plan))), encoding="utf-8")


def staged(root: Path, plan: Plan) -> list[dict[str, Any]]:
    """Figures of every step of the `ppo` stage on what `prepare` made."""
    from rldf_ray.cluster.placement import place
    from rldf_ray.cluster.ray_cluster import ray_cluster
    from rldf_ray.console import Progress
    from rldf_ray.engines.speakers import Speakers
    from rldf_ray.stages.ppo import ppo
    from rldf_ray.stages.run import Run
    from rldf_ray.storage.results import recorded
    from rldf_ray.storage.run_folder import RunFolder

    with ray_cluster(root / "logs") as resources:
        placement = place(plan, resources)
        folder, progress = RunFolder(root), Progress()
        speakers = Speakers(plan=plan, folder=folder, placement=placement, progress=progress)
        run = Run(
            plan=plan,
            folder=folder,
            placement=placement,
            progress=progress,
            run_id="benchmark",
            speakers=speakers,
        )
        history: list[dict[str, Any]] = recorded(ppo(run).history, "ppo", "history")
    shutil.rmtree(root / "ppo")
    return history


def rates(history: list[dict[str, Any]], batch: int = BATCH) -> dict[str, Any]:
    """Of the steps after the first, which also warms everything up."""
    parts = ("rollout_seconds", "train_seconds", "sync_seconds")
    later = history[1:]
    seconds = sum(step[part] for step in later for part in parts)
    tokens = sum(step["prompt_tokens"] + step["generated_tokens"] for step in later)
    return {
        "episodes_per_s": round(len(later) * batch / seconds, 3),
        "tokens_per_s": round(tokens / seconds, 1),
        "answer_tokens": round(sum(s["response_tokens"] for s in later) / len(later), 1),
        # Of answers by engines that were sent the policy: what a wrong sync would show in.
        "engine_mismatch_mean": round(
            sum(s["engine_mismatch_mean"] for s in later) / len(later), 7
        ),
        **{part: round(sum(s[part] for s in later) / len(later), 2) for part in parts},
    }


def peer(root: Path, episodes: int, folder: Path) -> dict[str, Any]:
    """TRL's trainer in an environment of its own in `folder`, on the same models and prompts."""
    python = folder / "bin" / "python"
    if not python.exists():
        _install_peer(folder)
    script = Path(__file__).parent / "peers" / "trl_ppo.py"
    out = root / "trl.json"
    read = (root / "sft/model", root / "reward/model", root / "prompts.json")
    command = (python, script, *read, episodes, BATCH, ANSWER, out)
    peak = watched([str(part) for part in command])
    found = json.loads(out.read_text(encoding="utf-8"))
    seconds = found["ended"][-1] - found["ended"][0]
    rate = (len(found["ended"]) - 1) * BATCH / seconds
    return {
        "version": found["version"],
        "episodes_per_s": round(rate, 3),
        "tokens_per_s": round(rate * (PROMPT + ANSWER), 1),
        "peak_gib": peak,
    }


def _install_peer(folder: Path) -> None:
    """A virtual environment with the peer's package before the ones installed here."""
    venv.create(folder, with_pip=False)
    site = next((folder / "lib").glob("python*/site-packages"))
    (site / "here.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
    subprocess.run([*install, "--target", str(site), PEER], check=True)


if __name__ == "__main__":
    main()
