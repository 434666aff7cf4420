"""How far the difference between two methods depends on the choices that the paper leaves open. From records; no torch, no model.

The choices are where relevance is read (site), which tokens count, how a map is scaled, how LOO removes a token, which
output is explained (target), and which correlation is taken (statistic). A *cell* is one combination of them. In each
cell an *effect* is the mean over examples of the paired difference of r, `a - b`, CP-LRP minus AttnLRP by default.

All intervals are 95 % percentile bootstrap intervals over examples: 10,000 draws of n examples with replacement, the same draws for
every cell, so that cells can be subtracted and averaged draw by draw. A mean is over the examples where r is defined;
the others are counted. Dividing a map by sum |R| leaves r as it is, so "absolute-sum" repeats "raw"; whatever weighs
cells against each other (`Grid.curve`, `counts`, `anova`) leaves it out.
"""

from lrp_companion.experiments.audit.boards import digit_board, switchboard
from lrp_companion.experiments.audit.cells import (
    CHOICES,
    DATA_NAMES,
    DISTINCT,
    LABELS,
    NAMES,
    OPTIONS,
    Grid,
    anova,
    choice_effects,
    counts,
    grid,
    largest_flip,
    nearest_to_paper,
    paper_values,
    presets,
    side_of_zero,
    title,
    variance_shares,
)
from lrp_companion.experiments.audit.examples import FEATURES, features, holm, subgroups, tag_effects
from lrp_companion.experiments.audit.reasons import findings, late_counts, layer_gains, signs, special_shares
from lrp_companion.experiments.audit.trainings import (
    Trainings,
    training_counts,
    training_effects,
    training_gains,
    training_likeness,
    training_shares,
    training_turns,
    trainings,
)
from lrp_companion.experiments.draws import resampled

__all__ = [
    "CHOICES",
    "DATA_NAMES",
    "DISTINCT",
    "FEATURES",
    "Grid",
    "LABELS",
    "NAMES",
    "OPTIONS",
    "Trainings",
    "anova",
    "choice_effects",
    "counts",
    "digit_board",
    "features",
    "findings",
    "grid",
    "holm",
    "largest_flip",
    "late_counts",
    "layer_gains",
    "nearest_to_paper",
    "paper_values",
    "presets",
    "resampled",
    "side_of_zero",
    "signs",
    "special_shares",
    "subgroups",
    "switchboard",
    "tag_effects",
    "title",
    "training_counts",
    "training_effects",
    "training_gains",
    "training_likeness",
    "training_shares",
    "training_turns",
    "trainings",
    "variance_shares",
]
