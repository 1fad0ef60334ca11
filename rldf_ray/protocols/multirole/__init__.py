"""The multi-role debate of RLDF (METHOD 1; paper section 3.1).

`debate.py` is the protocol, `debater.py` who speaks, `layouts.py` the order of their prompts,
`items.py` which debates a run holds.
"""

from rldf_ray.protocols.multirole.debate import hold as hold
from rldf_ray.protocols.multirole.items import ROLES as ROLES
from rldf_ray.protocols.multirole.items import SEATED as SEATED
from rldf_ray.protocols.multirole.items import items as items
from rldf_ray.protocols.multirole.items import statements_per_item as statements_per_item
