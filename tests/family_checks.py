"""Which tests check which family: what the table in the book's page on other models is made of.

    python tests/family_checks.py > book/family_checks.json

Each row is a test by its name; the families are those that pytest collects for it, so that a family which a
test does not run is not in the table. The tests themselves pass, or nothing lands.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FAMILIES = (
    "bert", "roberta", "xlm-roberta", "camembert", "mpnet", "electra", "distilbert", "albert",
    "deberta-v2", "modernbert", "gpt2", "gpt_neox", "llama", "mistral", "phi3", "qwen2", "qwen3",
    "gemma2", "gemma3_text", "gemma3", "vit", "deit",
)  # fmt: skip
CLASSES, PAIRS, IMAGES = "classes of a text", "classes of a pair", "classes of an image"
NEXT, MASKED, PLACE, ONE = "next token", "masked token", "classes of a token", "one output"
LRP, EVERY = "AttnLRP, CP-LRP, layers bypassed", "every method"
CHECKS: tuple[tuple[str, str, str, tuple[str, ...]], ...] = (
    (CLASSES, "the forward pass", "logits of `transformers`, padded",
     ("encoder::logits_equal_the_hugging_face_model", "pre_norm::logits_equal_the_transformers_network")),
    (CLASSES, LRP, "the gradient of the network with factors detached",
     ("propagation::equals_the_modified_gradient",
      "pre_norm::relevance_equals_the_gradient_of_the_network_with_detached_parts")),
    (CLASSES, LRP, "Eq. (1) to (5) on relevance, with epsilon",
     ("propagation::equals_the_equations_on_relevance_itself",
      "pre_norm::relevance_equals_the_equations_contribution_by_contribution")),
    (CLASSES, LRP, "where relevance is lost, level by level",
     ("model_check::from_the_logit_down_every_loss_is_accounted_for",)),
    (CLASSES, "all masks of the layers", "runs one by one",
     ("texts::the_lattice_and_its_ends_read_the_pair", "pre_norm::all_masks_equal_runs_one_by_one")),
    (CLASSES, "PA-LRP on rotations", "a network whose angles are leaves",
     ("pre_norm::positions_get_their_half_of_every_rotation",)),
    (CLASSES, "LOO", "one call of the network per token",
     ("text_methods::loo_equals_one_call_of_the_model_per_token",
      "pre_norm::loo_equals_one_call_of_the_network_per_token")),
    (CLASSES, "LOO, four removals", "each text alone, whatever is run together",
     ("packed::the_same_whatever_is_run_together",
      "pre_norm::removals_do_not_depend_on_what_is_run_together")),
    (CLASSES, "LOO", "captum's feature ablation",
     ("text_methods::loo_equals_captums_feature_ablation_of_the_mask",)),
    (CLASSES, "mask gradient", "finite differences of the soft mask",
     ("mask_gradient::it_is_the_derivative_of_the_function_of_the_mask",
      "pre_norm::the_mask_gradient_is_the_derivative")),
    (CLASSES, "mask gradient with groups", "LOO, with a group per token and many nodes",
     ("mask_gradient::a_group_for_each_token_and_many_nodes_give_loo",)),
    (CLASSES, "hybrid", "LOO, with every token exact", ("hybrid::with_every_token_exact_it_is_loo",)),
    (CLASSES, "Shapley values", "their definition over all orders",
     ("shapley::the_definition_in_every_family",)),
    (CLASSES, "gradient x input", "autograd of a second forward pass",
     ("text_methods::gradient_x_input_equals_autograd_of_an_independent_forward",)),
    (CLASSES, "every method", "batches, padding and order change nothing",
     ("encoder::logits_of_a_batch_equal_those_of_each_text_alone",
      "pre_norm::batches_padding_and_order_change_nothing")),
    (CLASSES, EVERY, "objects in memory as on disk",
     ("reading::objects_in_memory_are_what_they_are_on_disk",)),
    (PAIRS, EVERY, "runs, and LOO is the network's",
     ("texts::every_method_explains_the_pair", "texts::loo_of_a_pair_is_the_networks")),
    (CLASSES, LRP, "nothing at tokens after the one that is read",
     ("pre_norm::nothing_is_given_to_later_tokens",)),
    (NEXT, "a contrast of two tokens", "the difference of two explanations",
     ("contrast::the_contrast_is_the_difference_of_two_explanations",)),
    (NEXT, EVERY, "the target by its text", ("contrast::the_next_token_by_its_text",)),
    (MASKED, EVERY, "logits and LOO at the place", ("tasks::a_masked_token",)),
    (PLACE, EVERY, "logits and LOO at the place", ("tasks::the_classes_of_one_token",)),
    (ONE, EVERY, "the output of the network, and its fall",
     ("regression::every_method_explains_the_one_output", "regression::loo_is_the_fall_of_the_output")),
    (CLASSES, "`recompute=True`", "the scores with the whole tape", ("recompute::scores_are_the_same",)),
    (IMAGES, "the forward pass", "logits of `transformers`, a patch masked",
     ("vision::logits_equal_the_transformers_network",)),
    (IMAGES, LRP, "the gradient of the network with factors detached",
     ("vision::relevance_equals_the_gradient_of_the_network_with_detached_parts",)),
    (IMAGES, LRP, "Eq. (1) to (5) on relevance, with epsilon",
     ("vision::relevance_equals_the_equations_contribution_by_contribution",)),
    (IMAGES, LRP, "where relevance is lost, level by level",
     ("vision::relevance_between_layers_ends_at_the_patches",)),
    (IMAGES, "all masks of the layers", "runs one by one", ("vision::all_masks_equal_runs_one_by_one",)),
    (IMAGES, "LOO", "one call of the network per token",
     ("vision::loo_equals_one_call_of_the_network_per_token",)),
    (IMAGES, "LOO", "each image alone, whatever is run together",
     ("vision::removals_do_not_depend_on_what_is_run_together",)),
    (IMAGES, "mask gradient", "finite differences of the soft mask",
     ("vision::the_mask_gradient_is_the_derivative",)),
    (IMAGES, "mask gradient with groups", "LOO, with a group per token and many nodes",
     ("vision::a_group_for_each_token_and_many_nodes_give_loo",)),
    (IMAGES, "hybrid", "LOO, with every token exact",
     ("vision::with_every_token_exact_hybrid_and_samples_are_loo",)),
    (IMAGES, "Shapley values", "their definition over all orders", ("shapley::the_definition_on_patches",)),
    (IMAGES, "gradient x input, IG", "gradients at the pixels",
     ("vision::gradient_x_input_and_ig_equal_gradients_at_the_pixels",)),
    (IMAGES, "rollout", "the attention maps of `transformers`",
     ("vision::rollout_is_the_product_of_the_networks_attention_maps",)),
    (IMAGES, EVERY, "batches and order change nothing",
     ("vision::every_method_explains_images_alone_as_in_a_batch",)),
    (IMAGES, EVERY, "objects in memory as on disk",
     ("vision::a_folder_is_read_as_the_network_in_memory",)),
    (IMAGES, "`recompute=True`", "the scores with the whole tape",
     ("vision::recomputed_layers_give_the_same_scores",)),
)  # fmt: skip


LEFT_OUT = {"PA-LRP on rotations": {"bert", "gpt2", "deberta-v2"}}
"""Families that a test runs only to see them refused."""


def collected() -> Iterator[str]:
    """The cases of these tests, by their names for pytest."""
    files = sorted({f"tests/test_{test.split('::')[0]}.py" for *_, tests in CHECKS for test in tests})
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    yield from done.stdout.splitlines()


def cases_of(names: Iterable[str]) -> dict[str, list[str]]:
    """Test as "file::name" without the prefix test_, to the parameters of its cases."""
    cases: dict[str, list[str]] = {}
    for line in names:
        if match := re.fullmatch(r"tests/test_(\w+)\.py::(?:\w+::)?test_(\w+)(?:\[(.*)\])?", line):
            cases.setdefault(f"{match[1]}::{match[2]}", []).append(match[3] or "")
    return cases


def family_of(case: str) -> str | None:
    """The family in the parameters of a case; the longest, as "roberta" is in "xlm-roberta"."""
    for name in sorted(FAMILIES, key=len, reverse=True):
        if re.search(rf"(?<![\w]){re.escape(name)}(?![\w])", case):
            return name
    return None


def rows(names: Iterable[str]) -> list[dict[str, Any]]:
    """A row per check: task, method, what it is compared with, families in order, tests."""
    cases, out = cases_of(names), []
    for task, method, check, tests in CHECKS:
        known = [(family_of(case), case) for test in tests for case in cases.get(test, ())]
        families = {name for name, _ in known if name}
        families -= LEFT_OUT.get(method, set())
        row: dict[str, Any] = {"task": task, "method": method, "check": check}
        row["families"] = [name for name in FAMILIES if name in families]
        out.append({**row, "tests": list(tests)})
    return out


if __name__ == "__main__":
    print(json.dumps(rows(collected()), indent=1))
