"""Break the package on purpose, one small change at a time, and see that a test fails.

`[WORKERS=4] python tests/mutations.py [part of a name, or 2/3]` makes each mutation in a temporary copy of
the package, never in the tree, and runs only the named tests on it. The table says which test caught which
mutant. The exit code is 1 if a mutant survives, if a text to change is no longer in its file exactly once, or
if a test that caught a mutant fails on the unchanged package too.
"""

from __future__ import annotations

import compileall
import contextlib
import gc
import io
import multiprocessing
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
WORKERS = int(os.environ.get("WORKERS", min(4, os.cpu_count() or 1)))
FAMILIES = (
    "albert", "bert", "camembert", "deberta_v2", "deit", "distilbert", "electra", "gemma", "gemma2",
    "gemma3", "gpt2", "gpt_neox", "llama", "mistral", "modernbert", "mpnet", "phi3", "qwen2", "qwen3",
    "roberta", "vit", "xlm_roberta",
)  # fmt: skip
WARM = [  # imported once, before anything of the package; each mutant then runs in a fork
    "_hypothesis_pytestplugin",
    "anywidget",
    "captum.attr",
    "hypothesis.strategies",
    "http.server",
    "pytest",
    "scipy.stats",
    "torch.nn.functional",
    "torch.nn.utils.prune",
    "transformers.models.auto.modeling_auto",
    *(f"transformers.models.{name}.modeling_{name}" for name in FAMILIES),
    "transformers.models.bert.tokenization_bert",
    "transformers.models.roberta.tokenization_roberta",
]
PLAIN = [  # pytest without what a mutant does not need: one search for garbage costs more than most tests
    *("-x", "-q", "--tb=line", "--assert=plain", "-c", os.devnull, "--hypothesis-profile=mutations"),
    *("-p", "no:cacheprovider", "-p", "no:unraisableexception", "-p", "_hypothesis_pytestplugin"),
]


@dataclass(frozen=True)
class Mutation:
    """`old` becomes `new` in `file`; one of `tests` (pytest arguments, relative to tests/) must fail."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


def places(text: str, old: str) -> list[re.Match[str]]:
    """Where a piece of code stands in a text, whatever its line breaks, indents and trailing commas are.

    >>> [found.group() for found in places("f(\\n    a,\\n    b,\\n)", "f(a, b)")]
    ['f(\\n    a,\\n    b,\\n)']
    """
    tokens = re.findall(r"\w+|[^\w\s]", old)
    joined = r"\s*".join((r",?\s*" if token in ")]}" else "") + re.escape(token) for token in tokens)
    return list(re.finditer(joined, text))


def home(file: str) -> str:
    """A mutation's file as the checkout has it: those of the library are named from its folder."""
    return file if file.startswith("book/") else f"lrp_companion/{file}"


def changed(text: str, old: str, new: str) -> str:
    """The text with its one place of `old` replaced."""
    (match,) = places(text, old)
    return text[: match.start()] + new + text[match.end() :]


def of(usual: str, *tests: str, title: str = "") -> Callable[..., Mutation]:
    """Shorthand: mutations of one file, unless another is named, that share their tests."""

    def make(name: str, old: str, new: str, *more: str, file: str = usual) -> Mutation:
        return Mutation(f"{title or Path(file).stem}: {name}", file, old, new, more or tests)

    return make


rule = of("rules.py", "test_rules.py")
block = of("tape/encoder.py", "test_propagation.py")
layer_block = of("tape/layer.py", "test_propagation.py")
layer_order = of("tape/layer.py", "test_pre_norm.py")
tokenwise = of("tape/steps.py", "test_propagation.py")
attention = of("tape/attention.py", "test_propagation.py")
order = of("tape/encoder.py", "test_pre_norm.py")
heads = of("tape/attention.py", "test_pre_norm.py")
relative = of("tape/attention.py", "test_deberta.py")
gates = of("tape/steps.py", "test_pre_norm.py")
pa_lrp = of("methods/lrp.py", "test_pre_norm.py")
parts = of("families/wiring.py", "test_pre_norm.py")
wired = of("families/wiring.py", "test_encoder.py")
families = of("families/pre_norm.py", "test_pre_norm.py")
packed_order = of("tape/packed.py", "test_pre_norm.py")
rows_order = of("tape/packed.py", "test_pre_norm.py")
mean_read = of("families/sentences.py", "test_pre_norm.py")
meter = of("methods/lrp.py", "test_model_check.py")
read_place = of("tape/encoder.py", "test_tasks.py")
removed_place = of("methods/perturbation.py", "test_tasks.py")
read_mask = of("loading/texts.py", "test_tasks.py")
model_check = of("model_check.py", "test_model_check.py")
walk = of("tape/encoder.py", "test_propagation.py", title="walk")
image = of("toys/linear_attention.py", "test_linear_attention.py")
product = of("toys/__init__.py", "test_product.py")
faith = of("metrics/faithfulness.py", "test_metrics.py")
axiom = of("metrics/__init__.py", "test_metrics.py")
statistic = of("metrics/statistics.py", "test_metrics.py")
loo = of("methods/perturbation.py", "test_text_methods.py")
words = of("words.py", "test_words.py")
attribution = of("attribution.py", "test_attribution.py")
resampled = of("metrics/statistics.py", "test_boards.py")
masks = of("schema.py", "test_masks.py")
levels = of("methods/lrp.py", "test_levels.py")
ENGINE_MAPS = "test_browser_engine.py::test_every_map_is_pythons_on_the_same_weights"
ENGINE_MASKS = "test_browser_engine.py::test_masks_and_half_open_layers_are_the_lattices"
AT_SITES = "test_text_methods.py::test_lrp_equals_the_modified_gradient_at_every_site"
PRE_NORM = "test_pre_norm.py::test_"
LOGITS = f"{PRE_NORM}logits_equal_the_transformers_network"
GRADIENT = f"{PRE_NORM}relevance_equals_the_gradient_of_the_network_with_detached_parts"
EQUATIONS = f"{PRE_NORM}relevance_equals_the_equations_contribution_by_contribution"
HALF = "test_half_precision.py::test_"
page_rule, page_walk, page_layer, page_method, page_slope = (
    of(f"widgets/static/engine/{name}.js", ENGINE_MAPS)
    for name in ("rules", "propagation", "encoder", "explain", "activations")
)
special = of(
    "widgets/static/engine/tokenizer.js",
    "test_browser_engine.py::test_what_cannot_be_explained_is_refused_in_one_line",
)
NONSENSE = "test_errors.py::test_what_attribute_refuses"
session = of("book/lrp_book/sessions.py", "test_sessions.py")
graded = of("book/lrp_exercises/checking.py", "test_exercises.py")
trained = of("metrics/statistics.py", "test_report.py::test_a_claim_is_as_good_as_its_weakest_effect")


SAME_SCORES = "layers_on_two_devices_give_the_same_scores"


def spread(name: str, file: str, old: str, new: str, test: str = SAME_SCORES) -> Mutation:
    """A mutation of what moves between devices."""
    return of(file, f"test_devices.py::test_{test}")(f"devices, {name}", old, new)


edges = of("methods/edges.py", "test_edges.py")
cuts = of("tape/attention.py", "test_edges.py::TestCuts")
cut_texts = of("methods/lrp.py", "test_edges.py::TestKeyCut")
judged = of("lab/paper/primary.py", "test_report.py::test_an_interval_is_compared_with_the_margin")


def same_logit(name: str, old: str, new: str, test: str, *, file: str = "loading/classifier.py") -> Mutation:
    """A mutation of what makes the explained logit the network's own."""
    return Mutation(f"own logits: {name}", file, old, new, (f"test_own_logits.py::test_{test}",))


followed = of("loading/classifier.py", "test_changed_network.py", title="changed network")
OTHERWISE = "test_changed_network.py::test_a_change_that_the_way_back_does_not_know_is_refused"
soft = of("methods/gradient.py", "test_mask_gradient.py", title="mask_gradient")
kept = of("tape/attention.py", "test_mask_gradient.py")
hybrid = of("methods/gradient.py", "test_hybrid.py", title="hybrid")
shapley = of("methods/perturbation.py", "test_shapley.py")
symmetry = of("families/symmetries.py", "test_symmetries.py")
moves = of("model_check.py", "test_symmetries.py")
counts = of("schema.py", "test_grid.py")
names = of("methods/__init__.py", "test_method_options.py::TestNames")
packed = of("tape/packed.py", "test_packed.py")
beginning = of("methods/perturbation.py", "test_packed.py")
answer = of("methods/completion.py", "test_completion.py")
ANSWERS = "test_completion.py::test_"
answers = of("methods/perturbation.py", "test_completion.py")
together = of("methods/common.py", "test_completion.py")
step = of("toys/__init__.py", "test_softmax_step.py")
lattice = of("schema.py", "test_propagation.py", "test_text_methods.py")
text = of("methods/lrp.py", "test_text_methods.py")
rollout = of("methods/gradient.py", "test_text_methods.py")
gradient = of("methods/gradient.py", "test_text_methods.py")
output = of("methods/common.py", "test_text_methods.py")
batch = of("tape/encoder.py", "test_encoder.py")
grid = of("metrics/faithfulness.py", "test_grid.py")
folder = of("lab/folder.py", "test_run_folder.py")
own = classes = of("sources/dataset.py", "test_own_data.py")
terminal = of("terminal.py", "test_terminal.py")
compute = of("tape/encoder.py", "test_compute.py")
answer_jobs = of("lab/review_jobs.py", "test_answer_runs.py")
answer_run = of("lab/load.py", "test_answer_runs.py")
own_rule = of("tape/steps.py", "test_own_rules.py")
word_table = of("lab/word_table.py", "test_word_table.py")

# fmt: off

pairs = of("loading/texts.py", "test_texts.py")
half = of("families/wiring.py", "test_half_precision.py")
several = of("methods/common.py", "test_review_jobs.py")
def seen(name: str, file: str, old: str, new: str, test: str = "") -> Mutation:
    """A mutation that the tests of families that read images must see."""
    return Mutation(f"images: {name}", file, old, new, (f"test_vision.py{test}",))


READ_AS = "::test_a_folder_is_read_as_the_network_in_memory"
loaded = of("loading/classifier.py", "test_reading.py")
MUTATIONS: list[Mutation] = [
    # half precision
    half("half, one is added rounded", "return precise(self.module.weight) + self.offset if self.offset",
         "return self.module.weight + self.offset if self.offset",
         f"{HALF}half_precision_is_near_float32[gemma3_text-bfloat16]"),
    half("half, Gemma's norm is rounded early", "(normalised if self.offset else normalised.to(x.dtype))",
         "normalised.to(x.dtype)",
         f"{HALF}root_mean_squares_are_those_of_the_family_in_half_precision[gemma2-bfloat16]"),
    # every rule: a sign, a half, a stabiliser, an axis
    rule("stabiliser left out", "return size / (size + eps)", "return size / size"),
    rule("stabiliser unsigned", "size = z.abs()", "size = z"),
    rule("stabiliser not 1 without epsilon", "        return 1.0", "        return 0.999"),
    rule("linear: no stabiliser", "return (stabiliser(z, eps) * g_z if eps else g_z) @ weight",
         "return g_z @ weight"),
    rule("linear: sign", "g_z if eps else g_z) @ weight", "-g_z if eps else -g_z) @ weight"),
    rule("linear: all contributions positive", "if eps else g_z) @ weight",
         "if eps else g_z) @ weight.abs()"),
    rule("add: no stabiliser", "return stabiliser(z, eps) * g_z if eps else g_z\n\n\n@rule",
         "return g_z\n\n\n@rule"),
    rule("matmul: first factor not halved", "g @ (shares[0] * b.mT)", "g @ (2 * shares[0] * b.mT)"),
    rule("matmul: second factor not halved", "_transposed_product(a, g).mul_(shares[1])",
         "_transposed_product(a, g).mul_(2 * shares[1])"),
    rule("matmul: shares swapped",
          "g @ (shares[0] * b.mT), _transposed_product(a, g).mul_(shares[1])",
          "g @ (shares[1] * b.mT), _transposed_product(a, g).mul_(shares[0])"),
    rule("matmul: epsilon where the paper has half of it", "g = stabiliser(o, eps / 2)",
         "g = stabiliser(o, eps)"),
    rule("matmul: no stabiliser", "g = stabiliser(o, eps / 2) *", "g ="),
    rule("attention values: halved (a known trap)", "return _transposed_product(a, stab",
         "return 0.5 * _transposed_product(a, stab"),
    rule("attention values: half of epsilon", "(a, stabiliser(o, eps)", "(a, stabiliser(o, eps / 2)"),
    rule("softmax: sum forgotten", "return r_a.addcmul_(a, r_a.sum(-1, keepdim=True), value=-1)",
         "return r_a"),
    rule("softmax: sum unweighted", "a, r_a.sum(-1, keepdim=True)", "a, g_a.sum(-1, keepdim=True)"),
    rule("softmax: wrong axis", "a, r_a.sum(-1, keepdim=True)", "a, r_a.sum(-2, keepdim=True)"),
    rule("layer norm: mean forgotten", "return h.sub_(h.mean(-1, keepdim=True))", "return h"),
    rule("layer norm: gamma forgotten", "* (gamma / sd)", "* (1 / sd)"),
    rule("layer norm: sd forgotten", "* (gamma / sd)", "* gamma"),
    rule("layer norm: no stabiliser", "h = (stabiliser(y, eps) * g_y if eps else g_y) *", "h = g_y *"),
    rule("elementwise: no limit at zero", "masked_fill_(z == 0, at_zero)", "masked_fill_(z == 0, 0.0)"),
    # the wiring of one layer
    layer_block("bypass the other way round", "if bypass:", "if not bypass:"),
    layer_block("children swapped",
          "return self._entering(both, around, eps), self._entering(values, around, eps)",
          "return self._entering(values, around, eps), self._entering(both, around, eps)"),
    layer_block("value path not halved in the tree", "both = queries_and_keys.add_(half)",
          "both = queries_and_keys.add_(2 * half)"),
    layer_block("children with epsilon alike",
          "return self._entering(both, around, eps), self._entering(values, around, eps)",
          "return self._entering(values, around, eps), self._entering(values, around, eps)"),
    layer_block("residual around the feed-forward forgotten", "eps).add_(g)", "eps)"),
    layer_block("residual around the attention forgotten",
          "return self._entering(self.attend.values_only(g_read, eps), around, eps)",
          "return self._entering(self.attend.values_only(g_read, eps), (0 * around[0], None), eps)"),
    attention("scale of the scores forgotten on the way back", "g_query.mul_(self.scale)", "g_query"),
    attention("query path forgotten", "self.context.add(at_key, at_query)", "at_key"),
    layer_block("first sum not stabilised",
          "rules.add(through(self.attention_norm, around, eps), self.first_sum, eps=eps)",
          "through(self.attention_norm, around, eps)"),
    layer_block("second sum not stabilised",
          "g = rules.add(through(self.output_norm, g, eps), self.second_sum, eps=eps)",
          "g = through(self.output_norm, g, eps)"),
    block("sum of embeddings not stabilised",
          "return rules.add(g, self.total, eps=eps) if len(self.parts) > 1 else g", "return g"),
    tokenwise("LayerNorm's small constant forgotten", "norm.bias, norm.eps)", "norm.bias, 0.0)"),
    tokenwise("sd with n - 1", "inverse.detach().reciprocal().to(x.dtype))", "x.std(-1, keepdim=True))"),
    block("padding attended to", "mask[:, None, None, :] == 0", "mask[:, None, None, :] < 0",
          "test_encoder.py"),
    block("RoBERTa's positions from 0", "unsqueeze(0) + self.wiring.first_position", "unsqueeze(0)",
          "test_encoder.py"),
    attention("bias on scores not in the stabiliser", "return sum(self.bias, self.queries @ self.keys.mT)",
              "return self.queries @ self.keys.mT"),
    attention("bias on scores forgotten", "scores = sum(bias, queries", "scores = sum([], queries",
              "test_encoder.py"),
    wired("keys and queries of a bias exchanged", "keys.unsqueeze(-2) - queries.unsqueeze(-1)",
          "queries.unsqueeze(-1) - keys.unsqueeze(-2)"),
    tokenwise("activations pass everything", "g = rules.elementwise(g, self.slope)", "g = g * 1"),
    tokenwise("slope at zero always 1", "autograd.grad(activation(zero.clone()), zero)[0].item()",
          "autograd.grad(zero * 1.0, zero)[0].item()"),
    # families with norms before their branches
    rule("RMSNorm: gamma forgotten", "(gamma / rms)", "(1 / rms)"),
    rule("RMSNorm: no stabiliser",
         "return (stabiliser(y, eps) * g_y if eps else g_y) * (gamma / rms)", "return g_y * (gamma / rms)"),
    rule("rotation: turned the same way back",
         "return g * cos - turn(g * sin)", "return g * cos + turn(g * sin)"),
    rule("rotation: no stabiliser",
         "g = stabiliser(y, eps) * g_y if eps else g_y\n    return g * cos", "g = g_y\n    return g * cos"),
    rule("gated: factors swapped", "return (u * g).mul_(shares[0]), (a * g).mul_(shares[1])",
         "return (a * g).mul_(shares[0]), (u * g).mul_(shares[1])"),
    rule("gated: not halved", "return (u * g).mul_(shares[0]), (a * g).mul_(shares[1])",
         "return u * g, a * g"),
    rule("gated: epsilon not halved", "g = stabiliser(h, eps / 2) * g_h if eps else g_h\n    return (u",
         "g = stabiliser(h, eps) * g_h if eps else g_h\n    return (u"),
    rule("gated from the right: the inner product keeps all", "(g + 0.5 * inner), 0.25 * a * inner",
         "(g + inner), 0.5 * a * inner"),
    rule("gated flat: the gate gets a third", "return 2 / 3 * u * g, a * g / 3",
         "return u * g / 3, a * g / 3"),
    rule("gate held: halved",
         "return a * (stabiliser(h, eps)", "return 0.5 * a * (stabiliser(h, eps)"),
    layer_order("norm before the attention forgotten on the way back",
          "g = through(self.before, g, eps) if self.before else g", "g = g * 1"),
    layer_order("norm before the MLP forgotten on the way back",
          "mlp: list[Step] = [*first, inner, *last]", "mlp: list[Step] = [inner, *last]"),
    layer_order("norm at the end of the attention forgotten",
          "through(self.attention_out, g, eps)", "through(self.attention_out[:1], g, eps)",
         f"{GRADIENT}[gemma2-()-uniform]"),
    layer_order("norm at the end of the MLP forgotten",
          "[*first, inner, *last]", "[*first, inner, *last[:1]]",
         f"{GRADIENT}[gemma2-()-uniform]"),
    order("final norm forgotten", "return through(self.final_norm, self.readout.backward(g), eps)",
          "return self.readout.backward(g)"),
    order("mean not stabilised", "g = rules.add(g, self.pooled, eps=eps)", "g = g * 1",
         f"{EQUATIONS}[modernbert, mean-()-uniform-0.05]"),
    order("a causal query sees what follows", "closed = ahead > 0 if", "closed = ahead > 1 if"),
    order("window one too wide", "(ahead.abs() > window)", "(ahead.abs() > window + 1)"),
    heads("heads that share keys not summed", "g.unflatten(-3, (heads, -1)).sum(-3)",
          "g.unflatten(-3, (heads, -1))[..., 0, :, :]", f"{GRADIENT}[llama-()-uniform]"),
    heads("keys repeated in another order", "x.repeat_interleave(heads // x.shape[-3], dim=-3)",
          "torch.cat([x] * (heads // x.shape[-3]), dim=-3)", f"{LOGITS}[llama-left]"),
    heads("soft cap passes the true slope", "g_scores = rules.elementwise(g_scores, self._cap_slope)",
          "g_scores = g_scores * 1",
         f"{GRADIENT}[gemma2-()-uniform]"),
    heads("rotation forgotten on the way back", "g = rules.rotation(g, cos, sin, y, eps=eps)", "g = g * 1"),
    rule("rotation factors: position not halved", "straight, g_cos = gated(g, x, cos, x * cos, eps=eps)",
         "straight, g_cos = gated(g, x, cos, x * cos, eps=eps, shares=(0.5, 1.0))"),
    heads("positions of keys forgotten", "self.context.add(one[..., None],",
          "self.context.add(0 * one[..., None],"),
    heads("angles of all queries where one asks", "angles and angles.at(context.rows)", "angles"),
    heads("what queries of the last layer give is at the first tokens",
          "-2, _rows_of(self.asking, 3)", "-2, 0 * _rows_of(self.asking, 3)"),
    pa_lrp("positions never absolute", 'signed.abs() if positions == "absolute" else signed', "signed"),
    heads("norm of heads forgotten", "g = through(self.norm, g, eps) if self.norm else g", "g = g * 1",
         f"{GRADIENT}[qwen3-()-uniform]"),
    heads("a query that reads nothing divides by zero", "total.masked_fill_(total == 0, torch.inf)", "total"),
    gates("gate always halved", 'if self.treatment == "constant":', "if False:"),
    gates("groupings of a gate confused", 'if self.treatment == "right":', 'if self.treatment == "flat":'),
    mean_read("the mean counts padding", "return (x * mask).sum(1) / mask.sum(1)", "return x.mean(1)",
         f"{LOGITS}[bert, mean-left]"),
    gates("gate's own way forgotten",
          "self.up.backward(g_up, eps=eps).add_(self.gate.backward(g_gate, eps=eps))",
          "self.up.backward(g_up, eps=eps)"),
    parts("Gemma's 1 + gamma forgotten",
          "precise(self.module.weight) + self.offset if self.offset else self.module.weight",
          "self.module.weight",
         f"{LOGITS}[gemma2-left]"),
    families("gate and value of ModernBERT swapped", "up=LinearPart(layer.mlp.Wi, inner),",
             "up=LinearPart(layer.mlp.Wi, None, inner),"),
    families("window of Mistral one wider", "window=None if window is None else window - 1", "window=window",
         f"{LOGITS}[mistral-left]"),
    packed_order("removed last token is read",
                 "values = torch.where(mask.any(-1, keepdim=True), values, nothing)", "values = values",
                 f"{PRE_NORM}a_last_token_whose_window_is_removed_reads_nothing"),
    rows_order("first token of a causal network read", 'reads_one = wiring.readout in ("place", "last")',
                 'reads_one = wiring.readout == "place"'),
    # DeBERTa: three products in a score, a convolution, a mask that closes tokens whole
    relative("content gets all of its product with positions", "(to_query * self.keys)", "self.keys"),
    relative("the sum of products not stabilised",
             "g_scores = rules.stabiliser(scores, eps / 2) * g_scores", "pass"),
    relative("positions keep the content's share", "zip(reversed(of_scores), self.bias, strict=True)",
             "zip((0.0, 0.0), self.bias, strict=True)",
             "test_deberta.py::test_half_of_what_positions_enter_stays_there"),
    relative("distances the other way round", "queries.unsqueeze(-1) - keys.unsqueeze(-2)",
             "keys.unsqueeze(-2) - queries.unsqueeze(-1)", file="families/wiring.py"),
    relative("what the convolution reads gets nothing", "return g if beside is None else g + beside",
             "return g", file="tape/layer.py"),
    relative("a closed token keeps its embedding",
             "place.masked_fill(torch.as_tensor(left_out, device=device), len(x))", "place",
             file="tape/packed.py"),
    relative("a closed query reads nothing",
             "v.mean(-2, keepdim=True) if wiring.masks_whole else 0.0", "0.0", file="tape/packed.py"),
    order("a closed query reads padding", "(mask.flip(-1).cummax(-1).values.flip(-1) > 0).to(heard)",
          "torch.ones_like(heard)", f"{PRE_NORM}batches_padding_and_order_change_nothing[deberta-v2]"),
    # GPT-NeoX: attention and MLP side by side, rotations of a part of each head
    layer_order("the MLP reads what attention gave", "into = asked if w.parallel else middle",
         "into = middle",
                f"{LOGITS}[gpt_neox-left]"),
    layer_order("two sums where there is one", "if not self.attend.wiring.parallel:", "if True:", EQUATIONS),
    heads("what is not rotated carries nothing back",
          "g = torch.cat([g, rest], -1) if rest.shape[-1] else g",
          "g = torch.cat([g, 0 * rest], -1) if rest.shape[-1] else g", f"{GRADIENT}[gpt_neox-()-uniform]"),
    parts("queries, keys and values of all heads in turn",
          "x.unflatten(0, (self.heads, self.parts, -1))[:, self.part].flatten(0, 1)",
          "x.chunk(self.parts)[self.part]", f"{LOGITS}[gpt_neox-left]"),
    meter("positions taken for words", 'scores.append(parts.pop("word"))',
          'scores.append(sum(parts.values())); parts.pop("word")'),
    read_place("the first token read for all", "cls(tokens, place=first if place is None else place)",
               "cls(tokens, place=first)"),
    answer_jobs("special tokens of a prompt count", "one.scores[~one.special], other.scores[~one.special]",
            "one.scores, other.scores"),
    answer_run("r of the sum among the tokens", "r[:, :-1]", "r"),
    word_table("occurrences are texts", 'rows.groupby(["word", "text"]).mean()',
               'rows.set_index(["word", "text"])'),
    word_table("maps as they are", "units.sums(of[k])[words], map)", 'units.sums(of[k])[words], "raw")'),
    word_table("special tokens are words", "words = ~units.special", "words = units.special | True"),
    word_table("words of other texts", "if known != now:", "if False:"),
    word_table("words of all classes", "if kept[k] and", "if"),
    word_table("other numbers of tokens", "if not np.array_equal(text.special, special):", "if False:"),
    Mutation("rules: a run forgets the shares", "lab/review_jobs.py", "np.asarray(rules.shares, dtype=float)",
             "np.zeros(4)", ("test_own_rules.py::test_a_run_knows_the_shares_of_a_rule_set",)),
    own_rule("keys that are closed get relevance", "z=z, closed=closed)", "z=z)", file="tape/attention.py"),
    own_rule("what is returned is added to in place", "one.to(g.dtype, copy=True)", "one"),
    own_rule("arguments may be changed", "before != [one._version for one in tensors]", "False"),
    own_rule("other rules pass as the same", "outside = _read(one.__code__, one.__globals__)", "outside = 0",
             file="registry.py"),
    Mutation("dots: a word is a method", "show/figures.py", " if plain else styles(rows)",
             " if [] else styles(rows)",
             ("test_word_table.py::test_a_word_that_is_a_methods_name_stays_a_word",)),
    removed_place("a place read without the tokens taken out", "int(keep[: place[0]].sum())",
                  "int(place[0])"),
    read_mask("two masked tokens read as one", "mask_token_id) != 1", "mask_token_id) < 1"),
    model_check("nothing is broken", "Figure(name, value, says, value <= most, most)",
                "Figure(name, value, says, True, most)"),
    # the walk over layers and masks
    walk("mask off by one", "(depth in m) == bypass", "(depth - 1 in m) == bypass"),
    walk("sides swapped", "walk(g, depth - 1, kept)", "walk(bypassed, depth - 1, kept)"),
    walk("the other treatment where all masks agree", "bypass=bool(bypassing)", "bypass=bool(kept)"),
    walk("relevance without its activation", "(value * g).sum(-1)", "g.expand_as(value).sum(-1)"),
    lattice("mixture in the other order of bits", "for amount in amounts:", "for amount in amounts[::-1]:"),
    masks("layers counted from 0", "sum(1 << (layer - 1) for", "sum(1 << layer for"),
    masks("bits read from 0", "frozenset(bit + 1 for", "frozenset(bit for"),
    masks("a gap named as a run", "- min(mask) == len(mask) - 1", "- min(mask) <= len(mask)"),
    masks("back to front from the front", "for k in reversed(numbers)", "for k in numbers"),
    masks("AttnLRP last", "[NONE, *on_paths]", "[*on_paths, NONE]"),
    # all masks at once, and what follows from them
    layer_block("half of the value path lost", "half.div_(share)", "half"),
    attention("scores not scaled", "queries = scale * queries", "queries = 1.0 * queries", "test_encoder.py"),
    rule("small epsilon taken for none", "if eps == 0:", "if eps < 1:"),
    walk("masks numbered from the other end", "numbers + 2 ** (depth - 1)",
         "numbers + 2 ** (len(layers) - depth)"),
    levels("a level without its activation", "(layer.output * g).sum(-1)", "g.sum(-1)"),
    levels("paths are not cut", ", cuts=cut_paths(cuts, [encoded], [0], attended)", ""),
    levels("the other layers bypassed", "bypass=number in mask", "bypass=number not in mask"),
    resampled("undefined examples counted in draws",
              "draws[rows, holes] /= weights @ known[:, holes].astype(np.float64)",
              "draws[rows, holes] /= len(given)",
              "test_boards.py::test_draws_are_those_of_bootstrap_mean_and_undefined_values_are_counted"),
    # methods on text
    output("a word counts as yes", "isinstance(value, (bool, np.bool_))", "value is not None", NONSENSE),
    gradient("any number of steps", "n_steps, most=MOST_STEPS,", "n_steps,",
             "test_errors.py::test_what_attribute_refuses"),
    soft("weights that multiply rounding", "np.abs(weights).sum()) <= LARGEST", "0.0) <= LARGEST",
         "test_mask_gradient.py::test_nodes_whose_weights_multiply_rounding_are_refused"),
    text("CP-LRP spares the last layer", "bypass=lambda layers: range(1, layers + 1)",
         "bypass=lambda layers: range(1, layers)", AT_SITES),
    text("a rule set forgets its layers", "self.bypass(layers) if callable(self.bypass)",
         "() if callable(self.bypass)", "test_registry.py::test_a_rule_set_is_lrp_with_its_layers"),
    text("PA-LRP without positions", '"pa-lrp", site="word+position"', '"pa-lrp", site="word"',
         "test_text_methods.py::test_methods_that_differ_by_entries"),
    attribution("site forgets positions", '"word+position": ("word", "position")',
                '"word+position": ("word",)', AT_SITES, file="checks.py"),
    words("a unit loses its first token only", "kept[self.members[unit]] = False",
          "kept[self.members[unit][:1]] = False"),
    words("a token joins any unit before it", "last >= reached[k][0]", "last >= 0"),
    words("bytes shown as they are spelt", "out.append(text[max(start, shown) : end] or FURTHER)",
          "out.append(token)"),
    words("a letter shown with its space's token, too", "elif start == end or not token.strip(SPACES):",
          "elif start == end:"),
    loo("sign of LOO", "values[0] - values[1:]", "values[1:] - values[0]"),
    output("[MASK] and [PAD] swapped", '{"mask-token": clf.mask_id}', '{"mask-token": clf.pad_id}'),
    loo("kept tokens move up", "Row(ids[stay], places[stay], unread,",
        "Row(ids[stay], places[: stay.sum()], unread,"),
    loo("the token that is read is attended to", "Row(ids[stay], places[stay], unread,",
        "Row(ids[stay], places[stay], (),"),
    packed("every key is read", "return self.open if closed is None else ~closed", "return None"),
    packed("tokens of one position share their queries", "triples * count + ids", "triples * 0 + ids"),
    packed("the last layer reads another token", "x, at = (x[read], at[read]) if last else (x, at)",
           "x, at = (x[read + 1], at[read]) if last else (x, at)"),
    packed("rows of one length only", "slice(token, next_token), slice(asked",
           "slice(0, len(members) * length), slice(asked"),
    packed("a closed key of the beginning", "[k, ..., before + place]", "[k, ..., place]"),
    packed("later tokens forget the beginning", "[: self.before].trans", "[-self.before :].trans"),
    beginning("a beginning beyond the first change", "*rows[k].read) for k", "*rows[k].read) + 1 for k"),
    together("one place for all tokens", "torch.tensor(place, device=device)",
             "torch.tensor(place[:1] * len(place), device=device)"),
    answers("LOO reads one place for all tokens", "n % len(places)", "0"),
    answer("a contrast is added", "record.scores - other.scores", "record.scores + other.scores"),
    answer("a completion without its first token", "return ids[start:], [(", "return ids[start + 1 :], [(",
           f"{ANSWERS}drawn_answers_are_the_tokens_of_the_whole_text"),
    answer("the prompt's tokens change silently", "kept = ids[:start] == old and bool(spans)",
           "kept = bool(spans)", f"{ANSWERS}drawn_answers_are_the_tokens_of_the_whole_text"),
    answer("an unknown character is explained", "joined[a:b] == tokenizer.unk_token", "True",
           f"{ANSWERS}an_answer_that_would_be_another_text_is_refused"),
    answer("a closing token stands before the answer", "if text.bare: return text", "if True: return text",
           f"{ANSWERS}what_closes_a_prompt_does_not_stand_before_its_answer"),
    answer("the tokenizer's end alone", "config, config.get_text_config(), clf.tokenizer)", "clf.tokenizer)",
           f"{ANSWERS}an_answer_ends_where_generate_ends_it"),
    answer("words of what stands there so far", "follows=joined[stop:closed]", 'follows=""',
           f"{ANSWERS}words_grow_together_while_an_answer_goes_on"),
    pairs("a text that another thread cut", "if whole and all(all(one.attention_mask) for one in parts):",
          "if True:", "test_texts.py::test_threads_read_what_one_thread_reads"),
    answer("all places have one class", "read=place, along=text", "read=1, along=text",
           "test_completion.py::test_all_places_of_a_tagger"),
    packed("LayerNorm without its residual", "(layer.mlp_branch_norm, layer.down(inner)).add_(x)",
           "(layer.mlp_branch_norm, layer.down(inner))"),
    rollout("product in the other order", "state = fused @ state", "state = state @ fused"),
    rollout("residual forgotten", "0.5 * (fused + torch.eye(", "1.0 * (fused + 0 * torch.eye("),
    gradient("no baseline", "torch.where(special[None, :, None], word, start)", "torch.zeros_like(word)",
             "test_text_methods.py::test_integrated_gradients"),
    output("a margin with the wrong sign", "return chosen - others.amax(-1)",
           "return chosen + others.amax(-1)"),
    batch("padding counted as text", "< lengths[:, None]).long()", "<= lengths[:, None]).long()"),
    # own models and data
    pairs("a special token's text is read as one", "if i in reserved and not mark]", "if i < 0]",
          "test_texts.py::test_a_special_token_that_is_typed_is_refused"),
    pairs("a tuple is two texts", "isinstance(given, tuple) and given and not isinstance(given, Texts)",
          "False"),
    Mutation("pairs: removals forget token types", "tape/packed.py",
             "positions * kinds + torch.as_tensor(np.concatenate(types), device=device)",
             "positions * kinds", ("test_texts.py",)),
    Mutation("pairs: the tape forgets token types", "tape/encoder.py",
             "many.to(word.device).expand_as(first)", "first", ("test_texts.py",)),
    several("a softmax over labels", "return chosen.sigmoid()",
            "return logits.softmax(-1).gather(-1, targets[:, None])[:, 0]"),
    several("a margin of labels", 'if output == "margin" and clf.multi_label:',
            'if output == "" and clf.multi_label:'),
    loaded("the forward is not compared", "if float(gaps.max()) <= most:", "if True:",
           file="loading/comparison.py"),
    loaded("NaN at load", "if not (theirs.isfinite().all() and ours.isfinite().all()):", "if False:",
           file="loading/comparison.py"),
    same_logit("a cut text by hand", "bare=bare, max_length=most", "bare=bare",
               "a_text_is_cut_as_its_tokenizer_cuts_it", file="loading/texts.py"),
    same_logit("padding at the end is read", "read = others[-1] if others else 0", "read = None",
               "a_removed_last_word_moves_the_place_that_is_read", file="loading/texts.py"),
    same_logit("a target by its name in the vocabulary", "ids[0] != self.tokenizer.unk_token_id", "False",
               "a_target_given_as_text_is_what_the_tokenizer_makes_of_it"),
    same_logit("the longest text turns all", "positions.clamp(max=length - 1), last", "positions, last",
               "rotations_do_not_depend_on_the_company", file="families/wiring.py"),
    same_logit("removals of all lengths at once", "len(distinct := np.unique(lengths)) > 1",
               "len(distinct := np.unique(lengths)) > 99", "rotations_do_not_depend_on_the_company",
               file="tape/packed.py"),
    same_logit("frequencies rounded", "if value is not None and value.dtype == torch.float32:", "if False:",
               "frequencies_stay_in_float32"),
    same_logit("no text is compared again", "for text in texts:", "for text in ():",
               "all_texts_are_compared_if_asked"),
    followed("a changed module is not seen", "type(module) is kind and kind.forward is forward", "True",
             OTHERWISE),
    followed("another module is not seen", "now == then and module._modules == children", "now == then"),
    followed("a hook is not seen", "if hook not in known", "if False", OTHERWISE),
    followed("a change in place is not seen", "(id(p), p._version, p.dtype, p.device)",
             "(id(p), p.dtype, p.device)"),
    followed("a network is not read again", "if changed is not None:", "if False:"),
    Mutation("encoder: a slope at 0 from a leaf", "tape/steps.py", "activation(zero.clone())",
             "activation(zero)", ("test_encoder.py::test_slope_at_zero",)),
    Mutation("modules: a linear map is called", "tape/steps.py",
             "nn.functional.linear(x, linear.weight, linear.bias)", "linear(x)",
             ("test_modules.py::test_what_computes_something_else_is_refused_in_one_line",)),
    Mutation("modules: any activation function", "families/tasks.py", "if not is_elementwise(activation)",
             "if False", ("test_modules.py::test_what_computes_something_else_is_refused_in_one_line",)),
    Mutation("modules: texts of odd heads are compared once", "loading/classifier.py",
             "or clf.identity.foreign", "",
             ("test_modules.py::test_with_a_module_of_ones_own_every_text_is_compared",)),
    same_logit("a begun answer is closed", '"continue_final_message" if begun else', '"no" if begun else',
               "a_talk_is_what_the_chat_template_makes_of_it", file="loading/texts.py"),
    same_logit("messages without the answer's start", '"add_generation_prompt": self.prompts',
               '"add_generation_prompt": False',
               "a_talk_is_what_the_chat_template_makes_of_it", file="loading/texts.py"),
    Mutation("sentences: another length", "families/wiring.py", "new_full((width,), width**-0.5)",
             "new_full((width,), 1.0)",
             ("test_sentences.py::test_embeddings_similarities_and_loo_are_the_librarys_own",)),
    Mutation("sentences: a maximum of all", "tape/encoder.py", "argmax(1, keepdim=True)",
             "argmin(1, keepdim=True)", ("test_sentences.py::test_relevance_is_that_of_the_equations",)),
    Mutation("sentences: a maximum is a sum", "tape/encoder.py", "(weights if self.largest else",
             "(weights.abs() / 2 if self.largest else",
             ("test_sentences.py::test_relevance_is_that_of_the_equations",)),
    Mutation("sentences: texts are embedded once", "loading/classifier.py",
             "return self if whole.identity is self.identity else", "return self or",
             ("test_sentences.py::test_several_targets_a_contrast_and_a_target_that_is_missing",)),
    Mutation("sentences: any head", "loading/formats.py", "if not np.allclose(",
             "if False and np.allclose(",
             ("test_sentences.py::test_a_head_whose_probabilities_are_no_softmax_is_refused",)),
    Mutation("sentences, chat: an option without effect", "loading/texts.py", "if unused:", "if False:",
             ("test_chats.py::test_an_option_without_effect_is_refused",)),
    Mutation("sentences, chat: a message in other words", "loading/texts.py",
             "made[slice(*span)] not in (said, str(said).strip())", "False",
             ("test_chats.py::test_a_message_that_is_not_once_in_the_text_is_named",)),
    Mutation("sentences, units: no sums", "methods/common.py", "return [record.over(of, named)",
             "return [record",
             ("test_chats.py::test_sums_over_words_are_those_of_the_record",)),
    same_logit("token types that GPT-2 adds", "wiring.types > 1 or _adds_types(clf, text)",
               "wiring.types > 1", "token_types_that_gpt2_adds_as_words_are_refused",
               file="loading/comparison.py"),
    loaded("NaN in scores", "if np.isfinite(values).all():", "if values.size >= 0:",
           file="methods/common.py"),
    Mutation("regression: one output is a class", "loading/reading.py",
             "not wiring.of_vocabulary and config.num_labels == 1", "False", ("test_regression.py",)),
    Mutation("regression: margin", "methods/common.py", 'output != "logit" and clf.regression', "False",
             ("test_regression.py",)),
    seen("rows of patches before columns", "families/patches.py", "x.permute(0, 2, 4, 1, 3, 5).flatten(3)",
         "x.permute(0, 4, 2, 1, 3, 5).flatten(3)"),
    seen("channels behind rows", "families/patches.py", "x.permute(0, 2, 4, 1, 3, 5)",
         "x.permute(0, 2, 4, 3, 1, 5)"),
    seen("no bias of a patch", "families/patches.py",
         "linear(patches[:, len(self.special) :], self.weight, self.projection.bias)",
         "linear(patches[:, len(self.special) :], self.weight)"),
    seen("special tokens behind patches", "families/patches.py", "torch.cat([*before, of_patches], dim=1)",
         "torch.cat([of_patches, *before], dim=1)"),
    seen("images come back transposed", "families/patches.py", "permute(0, 3, 1, 4, 2, 5)",
         "permute(0, 3, 2, 4, 1, 5)"),
    seen("norms swapped", "families/pre_norm.py",
         "attention_input_norm=norm_of(layer.layernorm_before)",
         "attention_input_norm=norm_of(layer.layernorm_after)"),
    seen("keys for queries", "families/pre_norm.py", "attention.k_proj, value=attention.v_proj, "
         "attention_out=attention.o_proj, up=mlp.fc1", "attention.q_proj,\n        value=attention.v_proj,\n"
         "        attention_out=attention.o_proj,\n        up=mlp.fc1"),
    seen("no final norm", "families/pre_norm.py", "final_norm=norm_of(base.layernorm),", ""),
    seen("DeiT's second token forgotten", "families/pre_norm.py", '("cls_token", "distillation_token")',
         '("cls_token", "cls_token")'),
    seen("two heads added up", "families/wiring.py", "[self.first.weight, self.second.weight], dim=1) / 2",
         "[self.first.weight, self.second.weight], dim=1)"),
    seen("the second head reads the third token", "tape/packed.py", "x[read], x[read + 1]",
         "x[read], x[read + 2]"),
    seen("two tokens back in the wrong order", "tape/encoder.py",
         "nn.functional.pad(g.unflatten(-1, (2, -1)), (0, 0, 0, self.tokens - 2))",
         "nn.functional.pad(g.unflatten(-1, (2, -1)).flip(-2), (0, 0, 0, self.tokens - 2))"),
    seen("a removed head token is read by others", "methods/perturbation.py",
         "unread = tuple(np.flatnonzero(~keep[stay]).tolist())", "unread = ()"),
    seen("ids of two images are one", "loading/classifier.py", "tuple(range(start, start + len(text)))",
         "tuple(range(len(text)))"),
    seen("pixels as they are", "loading/images.py", "return out[GIVEN][0].astype(np.float64)",
         "return pixels.astype(np.float64)", READ_AS),
    seen("floats as they are", "loading/images.py", "if named or (floats and self.processor is None):",
         "if named or floats:", READ_AS),
    seen("floats are rescaled once more", "loading/images.py",
         '({"do_rescale": False} if floats else {})', "{}", READ_AS),
    seen("floats that a processor shifts", "loading/images.py", "floats and getattr(", "False and getattr(",
         "::test_a_processor_that_shifts_reads_no_floats"),
    seen("a baseline of zero vectors", "methods/gradient.py",
         "start = clf.encoder.embed(torch.zeros_like(ids))", "start = torch.zeros_like(word)"),
    spread("a layer where the one before it is", "tape/layer.py", "x, context = x.to(place),",
           "x, context = x,"),
    spread("a mask that stays", "tape/layer.py", "context if context.home == place else context.to(place)",
         "context"),
    spread("relevance that stays", "tape/layer.py", "g = g.to(self.output.device)", "g = g * 1"),
    spread("masks gathered elsewhere", "tape/encoder.py", "g.to(home), weight", "g, weight",
           "every_method_and_the_check[electra-False]"),
    spread("removals where words are", "tape/packed.py", "if x.device != layer.device:", "if False:"),
    spread("attention that stays", "methods/gradient.py", "layer.to(ids.device) for layer",
           "layer for layer"),
    spread("a level elsewhere", "methods/lrp.py", "g = g.to(layer.output.device)", "g = g * 1",
           "every_method_and_the_check[electra-False]"),
    edges("edges: no divisor", "cls(a / (1 - a).scatter(-1, largest, 1.0)", "cls(a / (1 - 0 * a)"),
    edges("edges: nothing is masked above", "[None if k <= number else masked for k", "[None for k"),
    edges("secant: own queries count", "(effects * ~own if", "(effects if", "test_edges.py::TestSecant"),
    edges("secant: special tokens keep the formula", 'if special == "exact":', "if False:",
          "test_edges.py::TestSecant"),
    cuts("a cut carries half", "else tokens, 0)", "else tokens, 0) + g / 2"),
    cuts("shares of the products are exchanged", "of_read, of_scores = self.shares",
         "of_scores, of_read = self.shares"),
    cuts("padding draws attention, too", "queries = self.attended.to(attention)",
         "queries = torch.ones_like(self.attended).to(attention)"),
    cut_texts("cut at all tokens, not at the special ones", '{"special": special,',
              '{"special": attended.bool(),'),
    Mutation("two data sets: trainings are left out", "lab/paper/claims.py",
             "_smaller_gain(len(out) + 1, [*known, *trained_again])", "_smaller_gain(len(out) + 1, known)",
             ("test_report.py::test_a_smaller_gain_is_a_difference_of_two_means",)),
    Mutation("load: weights left over", "loading/reading.py", "if not _of_another_task(key, network)",
             "if False", ("test_model_folders.py",)),
    Mutation("GGUF: keys that nobody reads", "loading/formats.py",
             "if taken.get(key) is None and not same:", "if False:", ("test_gguf.py",)),
    Mutation("GGUF: tensors that nobody reads", "loading/formats.py",
             "unread = sorted(set(tensors) - set(get_gguf_hf_weights_map(network, TensorProcessor())))",
             "unread = []", ("test_gguf.py",)),
    loaded("the caller's network is changed", "copy.deepcopy(self.given).cpu()", "self.given.cpu()",
           file="loading/reading.py"),
    Mutation("places: any word is a hub id", "sources/__init__.py", 'text.count("/") != 1 or', "False or",
             ("test_places.py",)),
    # products and linear attention: the shares
    image("left's shares", '"left": (0.25, 0.25, 0.5)', '"left": (0.5, 0.25, 0.25)'),
    image("flat shares", '"flat": (1 / 3, 1 / 3, 1 / 3)', '"flat": (0.25, 0.25, 0.5)'),
    image("values only", '"values": (0.0, 0.0, 1.0)', '"values": (1.0, 0.0, 0.0)'),
    image("first split of the left order", "(a_q + a_k, a_v), epsilon)", "(a_v, a_q + a_k), epsilon)"),
    image("second split of the right order", "_within(a_k, a_v), epsilon)", "_within(a_v, a_k), epsilon)"),
    image("scale of the keys forgotten on the way back", "rules.linear(g_scaled * self.scale,",
          "rules.linear(g_scaled,"),
    image("an embedding forgotten on the way back",
          "g_pixel = g_sum\n        if self.embed is not None:",
          "g_pixel = g_sum\n        if self.embed is not None and not len(g_sum):"),
    image("mean not divided", 'tape["pooled"], eps=epsilon) / self.tokens', 'tape["pooled"], eps=epsilon)'),
    image("training without the positions of the keys", "+ n @ (others @ a_v)", ""),
    image("training scales the keys' pixels only", "c_k = a_k * self.scale, c_k * self.scale",
          "c_k = a_k * self.scale, c_k"),
    image("position's part lost", "(self.position * g_sum).sum(-1)", "(0 * self.position * g_sum).sum(-1)"),
    product("halves instead of equal parts", "_divide(amount, len(node))", "_divide(amount, 2)"),
    product("LOO without its sign", "tuple(self.value - Product(values,",
            "tuple(-self.value - Product(values,"),
    product("integrated gradients not divided", "if j != i), n) for i, x", "if j != i), 1) for i, x"),
    # metrics
    faith("Pearson without centring", "    a = a - a.mean(-1, keepdims=True)\n", ""),
    faith("ranks without ties", "rankdata(a, axis=-1)", 'rankdata(a, "ordinal", axis=-1)'),
    faith("Kendall without ties", 'variant="b"', 'variant="c"'),
    faith("special tokens the other way round", 'if protocol.tokens == "no-special"',
          'if protocol.tokens != "no-special"'),
    faith("sum to one by absolute sum", 'total = size if map == "absolute-sum" else given.sum()',
          "total = size"),
    faith("MoRF and LeRF swapped", 'sums if order == "morf" else -sums',
          '-sums if order == "morf" else sums'),
    of("checks.py", "test_metrics.py::test_chunks_that_only_rounding_tells_apart_leave_in_reading_order",
       "test_hybrid.py::test_of_two_equal_gradients_the_first_is_exact_in_any_company")(
        "rounding ranks", "> tied * np.maximum(sizes[order[:-1]], sizes[order[1:]])", "> 0"),
    attribution("another model's logit is like", "if not math.isclose(one.logit, other.logit,",
                "if False and not math.isclose(one.logit, other.logit,",
                "test_metrics.py::test_records_that_explain_other_numbers_are_compared_only_where_asked"),
    attribution("another output is like", 'for choice in ("output", "contrast") if of_output',
                "for choice in () if of_output",
                "test_metrics.py::test_records_that_explain_other_numbers_are_compared_only_where_asked"),
    faith("chunks overlap", "places[start : start + chunk]", "places[start : start + chunk + 1]"),
    faith("whole input in the mean", "return float(self.logits[1:].mean())",
          "return float(self.logits.mean())"),
    faith("area with the wrong sign", "(self.logits[0] - self.logits).mean()",
          "(self.logits - self.logits[0]).mean()"),
    faith("removed tokens come back", "keep[k] = keep[k - 1]", "keep[k] = keep[0]"),
    axiom("conservation gap's sign", "absolute = float(given.sum() - explained)",
          "absolute = float(explained - given.sum())"),
    axiom("invariance gap not halved", "np.linalg.norm(right)) / 2", "np.linalg.norm(right))"),
    statistic("interval too narrow", "[(1 - level) / 2, (1 + level) / 2]", "[(1 - level), level]"),
    statistic("undefined values dropped in silence", "undefined = len(defined), len(given) - len(defined)",
              "undefined = len(defined), 0"),
    statistic("unpaired difference", "bootstrap_mean(left - right,", "bootstrap_mean(left - np.mean(right),"),
    # the remedy
    kept("kept softmax: not normalised", "u = u.div_(total.masked_fill_(total == 0, torch.inf))", "pass"),
    kept("kept softmax: mean without the mask", "h @ column, u, value=-1",
         "h.sum(-1, keepdim=True), u, value=-1"),
    kept("kept softmax: mean forgotten", "h.addcmul_(h @ column, u, value=-1)", "pass"),
    kept("kept softmax: the scores' gradient without the mask", "return h.mul_(column.mT) if", "return h if"),
    kept("kept softmax: one head's gradient", "h.sum((1, 2)) if", "h[:, 0].sum(1) if"),
    soft("the low node also for few groups", "MANY, LOW = 8, (0.2, 1)", "MANY, LOW = 2, (0.2, 1)"),
    hybrid("the smallest are exact", "ranking(np.abs(record.scores), tied",
           "ranking(-np.abs(record.scores), tied"),
    hybrid("the value of another output", 'gradient.details["value"] - left', "gradient.logit - left"),
    hybrid("a scale of the wrong side", "estimates @ exact / (estimates @ estimates)",
           "estimates @ exact / (exact @ exact)"),
    hybrid("exact passes are not counted", "passes = (forwards + len(places), backwards)",
           "passes = (forwards, backwards)"),
    hybrid("one draw for all texts", "default_rng([seed, *text.key])", "default_rng([*text.key])"),
    shapley("one weight for all sizes", "comb(m, size))", "comb(m, 0))"),
    shapley("special tokens are players", "np.flatnonzero(~units.special)", "np.arange(len(units))"),
    shapley("orders count as independent of their reverses", "/ len(pairs) ** 0.5", "/ len(gains) ** 0.5",
            "test_shapley.py::test_standard_errors_cover_what_they_promise"),
    shapley("an interaction adds one part", "both - left - right + neither", "both - left + right - neither",
            "test_shapley.py::test_the_axioms"),
    symmetry("a bias of values counts twice", "out.bias.sub_(", "out.bias.add_("),
    symmetry("the words alone are shifted", "other.weight.sub_(shift)", "pass"),
    symmetry("keys are turned as queries are", "torch.linalg.inv(turns).mT)", "turns)"),
    moves("every site is the word's", "record.scores_at(site) for", "record.scores for"),
    moves("the model itself is changed", "exact_copy(first)", "first"),
    resampled("undefined examples are forgotten", "int((~known).sum())", "0",
              "test_report.py::test_columns_are_drawn_as_one_column_is"),
    resampled("columns with gaps share draws with others", "np.isnan(values).tobytes(), []", "bytes(1), []",
              "test_report.py::test_columns_are_drawn_as_one_column_is"),
    soft("low nodes for few groups", 'groups == "all" or groups >= MANY', "True", "test_mask_gradient.py"),
    faith("error relative to the map", ".sum(-1) / np.abs(loo).sum()", ".sum(-1) / np.abs(maps).sum(-1)",
          "test_anytime.py::test_r_and_error_are_of_the_map_at_that_step"),
    names("an option twice", "or not value or key in options", "or not value",
          "test_errors.py::test_a_method_that_is_named_with_its_options"),
    names("one bypassed layer is a number", 'if len(values) > 1 or key == "bypass" else values[0]',
          "if len(values) > 1 else values[0]"),
    # beside means, and what is said of the paper's claims
    trained("the power is forgotten", "(1.959964 + 0.841621) / 1.959964", "1.0"),
    judged("no margin", "if directed and -margin < value.low and value.high < margin:", "if False:"),
    judged("a mean within the margin decides", "(directed and abs(value.mean) < margin)", "False"),
    Mutation("claims: the strongest effect decides", "lab/paper/claims.py",
             "(CONTRADICTED, LEVEL, UNDECIDED, REPRODUCED)", "(REPRODUCED, UNDECIDED, LEVEL, CONTRADICTED)",
             ("test_report.py::test_a_claim_is_as_good_as_its_weakest_effect",)),
    Mutation("primary: a training is an encoder", "lab/paper/primary.py", 'means.groupby("encoder").mean()',
             "means", ("test_report.py::test_trainings_are_nested_in_encoders_which_have_one_weight_each",)),
    # one softmax step
    step("LOO without renormalisation", "self.attention * self._gain()",
         "self.attention * (self.values - self.output[..., None])"),
    step("softmax rule: not halved", "return 0.5 * self.logits * self.mask_gradient()",
         "return self.logits * self.mask_gradient()"),
    # records: agreement under every choice, the folder of a run, the runner, its rows, and how they are read
    counts("special tokens the other way round", "return ~special if tokens ==",
           "return special if tokens =="),
    grid("every target against the logit's LOO", "loo[:, o, kept]", "loo[:, 0, kept]"),
    grid("signs of sums forgotten", "np.sign(total), np.nan)", "1.0, np.nan)"),
    grid("cancelled sums have a sign", "np.abs(total) > CANCELLED * size", "np.abs(total) > 0 * size"),
    faith("Kendall of many maps without ties", "signs / np.sqrt(np.abs(signs).sum(-1, keepdims=True))",
          "signs / np.sqrt(signs.shape[-1])", "test_grid.py"),
    grid("rows with a NaN are ranked", "np.isfinite(rows).all(-1)", "np.isfinite(rows).any(-1)"),
    folder("written in place", 'part = file.with_name(f"{file.name}.part")', "part = file"),
    folder("a job in two files counts twice", 'if int(file.stem.rpartition("-")[2]) not in seen]', "]"),
    folder("half written files stay", "half.unlink()", "half.exists()"),
    folder("two runs in one folder", "lock.acquire()", "pass"),
    folder("rows of another run are taken", "if owner != key:", "if not owner:"),
    folder("another configuration goes on", "return [] if known == now else", "return [] if 1 else"),
    folder("a run killed at its start is another's folder", "name != SHARDS and not", "not"),
    folder("files of others are run over", "if others or any(", "if any("),
    folder("summaries are taken for jobs", 'if "_" not in file.stem', "if file.stem"),
    own("two spellings are one label", "all_numbers = len(known) == len(numbers)",
        "all_numbers = None not in numbers.values()"),
    classes("two labels are one class", "if len(names) > 1", "if False"),
    classes("digits of any script are numbers", "[1-9][0-9]{0,39}", r"[1-9]\d{0,39}|\d+"),
    folder("checksums are not read", "page_checksum_verification=True", "page_checksum_verification=False"),
    folder("rows in the order of the files", 'sort_keys=[(JOB, "ascending")]',
           'sort_keys=[(JOB, "descending")]'),
    # what is refused, and how commands end
    terminal("a fault is bad input", "str(error)) code = FAULT", "str(error)); code = BAD_INPUT"),
    terminal("control characters are printed", '("Cc", "Cf", "Cs", "Zl", "Zp")', '("Cf", "Cs", "Zl", "Zp")'),
    terminal(
        "SIGTERM kills", "signal.signal(signal.SIGTERM, signal.default_int_handler)", "pass",
        "test_run_execute.py::TestStopped::test_ctrl_c_says_what_is_kept_and_the_run_goes_on[sigterm]",
    ),
    terminal("C1 controls stay in JSON", "0x7F <= ord(c) <= 0x9F", "0x7F <= ord(c) < 0x9B"),
    compute("a default device stays", 'if torch.get_default_device().type == "cpu" else', "if True else",
            "test_compute.py::test_images_under_a_default_device"),
    levels("autocast stays on", "with as_recorded(clf.device, clf.network), metered()", "with metered()",
           "test_compute.py::test_lattices_removals_and_digits_too"),
    compute("autocast stays on", "enabled=False", "enabled=torch.is_autocast_enabled(device.type)"),
    compute("dropout stays on", "module.training = False", "module.training = True"),
    of("checks.py", "test_arrays.py")("text is numbers", 'given.dtype.kind in "biuf" and not', "not"),
    soft("LOO where groups cost less", "size + 1 < 3 * (1 + len", "0 * size < 3 * (1 + len"),
    page_rule("the page's softmax keeps the mean", "f[weights + i] * (f[from + i] - mean)",
              "f[weights + i] * f[from + i]"),
    page_rule("the page's LayerNorm keeps the mean", "f[from + i] -= sum / n +", "f[from + i] -="),
    page_method("the page's levels by one method", "const amount of [0, 1]", "const amount of [0, 0]",
                "test_browser_engine.py::test_every_level_is_pythons"),
    page_method("the page's levels one too low", "meet?.(depth, g);", "meet?.(depth - 1, g);",
                "test_browser_engine.py::test_every_level_is_pythons"),
    page_walk("the page's values receive all", "(1 + amount) / 2", "1"),
    page_walk("the page's queries receive one half", "(1 - amount) / 4", "(1 - amount) / 2"),
    page_walk("the page's bypassed child keeps the half", "around + 2 * half", "around + half", ENGINE_MASKS),
    page_layer("in the page the first token is attended to", "width ** -0.5, firstUnread ? 1 : 0",
               "width ** -0.5, 0"),
    page_method("sign of LOO in the page", "logits[target] - row[target]", "row[target] - logits[target]"),
    page_slope("the page's GELU loses its density", "slope + z * density(z)", "slope"),
    special("a special token in a text is read", "this.reserved.has(id)", "false"),
    session("a break has the slide before it", "(int(own[1]), len(slides)) if own",
            "(int(own[1]), len(slides) - 1) if own"),
    graded("a function gets the inputs that are kept", "cases = copy.deepcopy(drawn)", "cases = drawn"),
    graded("no matrix is a row", "row = isinstance(got, np.matrix) and", "row = False and"),
    graded("single precision is refused", "SINGLE if narrow else TOLERANCE", "TOLERANCE"),
    session("a deck's time runs backwards", "if later < minute:", "if later < 0:"),
]
# fmt: on


def prepare(base: Path) -> None:
    """Copy the packages, and compile them and the tests: a mutant then compiles its one changed file."""
    for package in ("lrp_companion", "book/lrp_book", "book/lrp_exercises"):
        ignored = shutil.ignore_patterns("__pycache__", "embedded")
        shutil.copytree(ROOT / package, base / package, ignore=ignored)
    (base / "lrp_companion" / "embedded").symlink_to(ROOT / "lrp_companion" / "embedded")
    for folder in (base, ROOT / "tests"):
        compileall.compile_dir(folder, quiet=2)


class FirstFailure:
    """What pytest is told to remember."""

    test = ""

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.test = self.test or report.nodeid

    pytest_collectreport = pytest_runtest_logreport


def try_tests(job: tuple[str, Mutation | None, tuple[str, ...], str]) -> tuple[str, int, str, float]:
    """In a fork: change one file of a hard-linked copy of the packages and run the tests on it.

    Returns the name, pytest's exit code, the first test that failed, and CPU seconds.
    """
    name, mutation, tests, base = job
    start, first = time.process_time(), FirstFailure()
    gc.freeze()  # what the fork shares with its parent is never searched for garbage
    with tempfile.TemporaryDirectory(prefix="mutant-", dir=Path(base).parent) as folder:
        shutil.copytree(base, folder, symlinks=True, copy_function=os.link, dirs_exist_ok=True)
        if mutation is not None:
            path = Path(folder, home(mutation.file))
            text = changed(path.read_text(encoding="utf-8"), mutation.old, mutation.new)
            for stale in (path, *path.parent.glob(f"__pycache__/{path.stem}.*.pyc")):
                stale.unlink()
            path.write_text(text, encoding="utf-8")
        os.chdir(folder)
        sys.path[:] = [
            folder,
            str(Path(folder, "book")),
            str(ROOT / "tests"),
            *(entry for entry in sys.path if entry and Path(entry).resolve() not in (ROOT, ROOT / "book")),
        ]
        import pytest

        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            where = [str(ROOT / "tests" / test) for test in tests]
            code = int(pytest.main([*PLAIN, f"--rootdir={ROOT / 'tests'}", *where], plugins=[first]))
        imported = getattr(sys.modules.get("lrp_companion"), "__file__", None) or "nothing"
        what = first.test or (said.getvalue().strip().splitlines() or [""])[-1]
        if not imported.startswith(folder):
            code, what = 4, f"tests imported {imported}"
        return name, code, what, time.process_time() - start


def controls(caught_by: set[str]) -> Iterator[tuple[str, None, tuple[str, ...]]]:
    """The tests that caught a mutant, file by file: they must pass on the unchanged package."""
    for file in sorted({test.split("::")[0] for test in caught_by}):
        yield f"no change: {file}", None, tuple(sorted(t for t in caught_by if t.split("::")[0] == file))


def main(only: str = "") -> int:
    """Try the mutations whose name contains `only`, or of "2/3" each third from the second; the exit code."""
    part = re.fullmatch(r"([0-9]+)/([0-9]+)", only)
    every = slice(int(part[1]) - 1, None, int(part[2])) if part else slice(None)
    chosen = [m for m in MUTATIONS if part or only in m.name][every]
    lost = [m for m in chosen if len(places((ROOT / home(m.file)).read_text(encoding="utf-8"), m.old)) != 1]
    bad = [f"{m.name}: the text to change is not in {m.file} exactly once" for m in lost]
    context = multiprocessing.get_context(
        "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
    )
    if context.get_start_method() == "forkserver":
        context.set_forkserver_preload(WARM)
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    start, caught_by = time.perf_counter(), set()
    verdicts = {0: "SURVIVES", 1: "caught"}
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        base = Path(folder, "unchanged")
        prepare(base)
        with context.Pool(WORKERS, maxtasksperchild=1) as pool:

            def run(jobs: Iterable[tuple[str, Mutation | None, tuple[str, ...]]], fine: int) -> None:
                tried = pool.imap(try_tests, [(*job, str(base)) for job in jobs], chunksize=1)
                for name, code, what, seconds in tried:
                    verdict = verdicts.get(code, f"BROKEN (exit {code})")
                    print(f"{verdict:16} {seconds:5.1f} s  {name:62} {what if code else ''}", flush=True)
                    if code == 1:
                        caught_by.add(what)
                    if code != fine:
                        bad.append(f"{name}: {verdict.lower()} {what}")

            run([(m.name, m, m.tests) for m in chosen if m not in lost], 1)
            caught = len(chosen) - len(bad)
            verdicts = {0: "passes", 1: "FAILS"}
            run(list(controls(set(caught_by))), 0)
    print(f"\n{len(chosen)} mutations, {caught} caught, in {time.perf_counter() - start:.0f} s")
    for line in bad:
        print(f"PROBLEM  {line}")
    return 1 if bad or not chosen else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
