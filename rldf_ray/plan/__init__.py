"""A plan: one typed, validated description of a whole run.

A preset or a YAML file is read into a `Plan`; any field can be overridden by its dotted path
(`debate.rounds=5`). Every field carries its unit and its source; `rldf plan fields` prints them.
"paper" names a section of the paper, METHOD one of docs/method.md.
"""

from rldf_ray.plan.counted import RUNTIME_FIELDS as RUNTIME_FIELDS
from rldf_ray.plan.debating import DataSection as DataSection
from rldf_ray.plan.debating import Filter as Filter
from rldf_ray.plan.debating import Topics as Topics
from rldf_ray.plan.endpoint import Endpoint as Endpoint
from rldf_ray.plan.engines import EnginesSection as EnginesSection
from rldf_ray.plan.evaluating import TREE_TOKENS as TREE_TOKENS
from rldf_ray.plan.loading import PlanError as PlanError
from rldf_ray.plan.loading import PlanField as PlanField
from rldf_ray.plan.loading import endpoint_at as endpoint_at
from rldf_ray.plan.loading import load_plan as load_plan
from rldf_ray.plan.loading import plan_fields as plan_fields
from rldf_ray.plan.loading import presets as presets
from rldf_ray.plan.plan import Part as Part
from rldf_ray.plan.plan import Plan as Plan
from rldf_ray.plan.preference import After as After
from rldf_ray.plan.preference import DPOSection as DPOSection
from rldf_ray.plan.preference import KTOSection as KTOSection
from rldf_ray.plan.refereeing import RefereeFitSection as RefereeFitSection
from rldf_ray.plan.speaker import TRAINED as TRAINED
from rldf_ray.plan.speaker import Speaker as Speaker
from rldf_ray.plan.training import LoraSection as LoraSection
from rldf_ray.plan.training import PPOSection as PPOSection
from rldf_ray.plan.training import RewardSection as RewardSection
from rldf_ray.plan.training import TrainSection as TrainSection
