"""A small run folder for the page, and small trained parts for real servers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from rldf_ray.records import STATEMENT_SCHEMA, Statement, table_of
from rldf_ray.storage.run_folder import RunFolder


def write_run(folder: Path) -> Path:
    """Two debates of two roles and two rounds, a report, and answers before and after."""
    run = RunFolder(folder)
    statements = [
        _statement(debate, bias_type, round_, role)
        for debate, bias_type in (("d0", "age"), ("d1", "beauty"))
        for round_ in (1, 2)
        for role in (0, 1)
    ]
    run.write_table("data/transcripts.parquet", table_of(statements, STATEMENT_SCHEMA))
    run.write_table("eval/answers.parquet", pa.Table.from_pylist(_answers()))
    for stage in ("debates", "eval"):
        run.finish(stage, "key", {})
    run.write_json("report.json", {"run": {"name": "small"}})
    style = "<style>h1 { color: rgb(0, 128, 0) }</style>"
    script = "<script>parent.document.title = 'broken out'</script>"
    run.write_text("report.html", f"<!doctype html>{style}<h1>Report of small</h1>{script}")
    return folder


def _statement(debate: str, bias_type: str, round_: int, role: int) -> Statement:
    expected = 1.0 + 2 * role + round_ / 10
    return Statement(
        run_id="r",
        debate_id=debate,
        topic_id=f"{bias_type}-1",
        bias_type=bias_type,
        kind="opinion",
        clue_shown=False,
        context=f"A topic of {bias_type}",
        round=round_,
        role=role,
        identity=("young person", "old person")[role],
        text=f"<b>{debate}</b> says {round_}.{role}",
        finish_reason="stop",
        score=0.0,
        expected_score=expected,
        rank=role + 1,
        label="high" if role else "low",
        label_source="expected",
        failure=None,
        referee_kind="prompted",
        debater_model="m",
        debater_revision="1",
        referee_model="m",
        referee_revision="1",
        prompt_tokens=1,
        cached_tokens=0,
        generated_tokens=1,
        seed=0,
    )


def _answers() -> list[dict[str, Any]]:
    return [
        {
            "model": model,
            "prompt_id": "p1",
            "bias_type": "age",
            "prompt": "What do you think?",
            "answer": f"The {model} thinks.",
            "reward": reward,
        }
        for model, reward in (("base", -1.0), ("sft", 0.5), ("policy", 1.0))
    ]


def write_model_with_tools(folder: Path) -> Path:
    """The embedded model, whose chat template also writes the tools that a request has."""
    from rldf_ray.models.embedded import embedded_model_folder

    folder.mkdir()
    embedded = embedded_model_folder()
    for file in embedded.iterdir():
        (folder / file.name).symlink_to(file)
    template = (embedded / "chat_template.jinja").read_text(encoding="utf-8")
    (folder / "chat_template.jinja").unlink()
    (folder / "chat_template.jinja").write_text(
        "{% if tools %}<|im_start|>system\nCall: {{ tools | tojson }}<|im_end|>\n{% endif %}"
        + template,
        encoding="utf-8",
    )
    return folder


def write_adapter(folder: Path) -> Path:
    """A LoRA adapter on the embedded model that changes what it says."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    from rldf_ray.models.embedded import embedded_model_folder

    torch.manual_seed(0)
    base = AutoModelForCausalLM.from_pretrained(embedded_model_folder())
    config = LoraConfig(r=8, target_modules=["q_proj", "v_proj"], init_lora_weights=False)
    get_peft_model(base, config).save_pretrained(folder)
    return folder


def write_reward_model(folder: Path) -> Path:
    """A reward model of the embedded model's shape; its head is untrained."""
    import torch
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    from rldf_ray.models.embedded import embedded_model_folder

    torch.manual_seed(0)
    source = embedded_model_folder()
    tokenizer = AutoTokenizer.from_pretrained(source)
    model = AutoModelForSequenceClassification.from_pretrained(source, num_labels=1)
    model.config.pad_token_id = tokenizer.pad_token_id
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
