"""The supported families: a function for each names its modules and their order (`families.wiring`)."""

from __future__ import annotations

# in the order of the registry: BERT's relatives first
from lrp_companion.families.post_norm import *  # noqa: F403
from lrp_companion.families.pre_norm import *  # noqa: F403
from lrp_companion.families.wiring import FAMILIES as FAMILIES
from lrp_companion.families.wiring import LayerWiring as LayerWiring
from lrp_companion.families.wiring import Wiring as Wiring
from lrp_companion.families.wiring import family as family
from lrp_companion.families.wiring import forget_family as forget_family
