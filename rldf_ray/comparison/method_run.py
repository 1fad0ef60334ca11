"""One method in one repeat, and the hash of what its answers depend on."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from rldf_ray.comparison.method import Method
from rldf_ray.comparison.thinking import Scene
from rldf_ray.evaluate.bbq.prompt import Mode, ask
from rldf_ray.plan import Plan
from rldf_ray.sets.bbq.items import BBQSet
from rldf_ray.storage.digest import digest


@dataclass(frozen=True, kw_only=True)
class MethodRun:
    """One method in one repeat: the model that answers, and the seed.

    Attributes:
        folder: the model that answers, as `resolve_model` takes it.
        weights: what stands for its weights in the hash: a model's name (and revision, where
            other weights stood there before), or a run's stage and when it finished.
        seed: of the repeat.
        revision: of the model that is compared, where other weights stood in its folder before.
    """

    method: Method
    repeat: int
    seed: int
    folder: str
    weights: str
    revision: str | None = None

    @property
    def place(self) -> tuple[str, int]:
        """Method and repeat."""
        return self.method.name, self.repeat

    def described(self) -> str:
        """Whose answers, for a message about them."""
        return f"{self.method.title}, repeat {self.repeat} (seed {self.seed}, {self.folder})"

    def key(self, plan: Plan, items: BBQSet, mode: Mode) -> str:
        """The address of the answers: runs with equal keys have equal answers."""
        # Only letters show the options, in an order that the seed draws.
        drawn = self.seed if mode == "letter" else None
        questions = [asdict(item) for item in items.items]
        scenes = [Scene.of_item(item, ask(item, "rank")) for item in items.items]
        thinking = self.thinking(plan, scenes)
        asked = (self.weights, thinking, mode, drawn, plan.engines.dtype, questions)
        given = self.instructions(plan, scenes)
        rest = filter(None, [plan.chat_template_kwargs, given, self.method.looks_up])
        return digest(*asked, *rest)

    def free_key(self, plan: Plan, scenes: list[Scene], prompts: list[tuple[str, object]]) -> str:
        """The address of its answers to held-out prompts.

        Args:
            prompts: the id and messages of each.
        """
        method = self.method
        how = method.think and method.depends(plan, self.seed, scenes)
        given = self.instructions(plan, scenes) if method.instruct else None
        rest = filter(None, [plan.chat_template_kwargs, given, method.looks_up])
        named = (method.name, self.seed, self.weights)
        most, dtype = plan.evaluate.max_tokens, plan.engines.dtype
        return digest("free", *named, how, most, dtype, prompts, *rest)

    def instructions(self, plan: Plan, scenes: list[Scene]) -> list[str]:
        """What the question about each scene follows; empty where it follows nothing."""
        instruct = self.method.instruct
        if instruct is None:
            return []
        return [instruct(plan, self.seed, scene).content for scene in scenes]

    def thinking(self, plan: Plan, scenes: list[Scene]) -> tuple[object, ...] | None:
        """What its reasoning about scenes depends on; None where it does not reason first."""
        method = self.method
        if method.think is None:
            return None
        return (method.name, self.seed, *method.depends(plan, self.seed, scenes))
