"""Solutions of the exercises in code, as the book prints them: what a near miss is a change of."""

from __future__ import annotations

SOLUTIONS: dict[str, str] = {
    "agreement": """\
def agreement(scores, loo, special):
    return np.corrcoef(scores[~special], loo[~special])[0, 1]
""",
    "morf-order": """\
def morf_order(scores, special):
    words = np.flatnonzero(~special)
    return words[np.argsort(-scores[words], kind="stable")]
""",
    "mean-logit": """\
def mean_logit(logits):
    return logits[1:].mean()
""",
    "sum-to-one": """\
def sum_to_one(maps):
    return maps / maps.sum(axis=1, keepdims=True)
""",
    "partial-agreement": """\
def partial_agreement(scores, loo, other):
    ab = np.corrcoef(scores, loo)[0, 1]
    ac = np.corrcoef(scores, other)[0, 1]
    bc = np.corrcoef(loo, other)[0, 1]
    return (ab - ac * bc) / np.sqrt((1 - ac**2) * (1 - bc**2))
""",
    "mean-pair-r": """\
def mean_pair_r(maps):
    above = np.triu_indices(len(maps), 1)
    return np.corrcoef(maps)[above].mean()
""",
    "product-rule": """\
def product_rule(a, b, relevance):
    return relevance / 2, relevance / 2
""",
    "grouped-product": """\
def shares(grouping):
    found = {}

    def descend(node, share):
        if isinstance(node, int):
            found[node] = share
        else:
            for part in node:
                descend(part, share / len(node))

    descend(grouping, 1.0)
    return [found[k] for k in sorted(found)]
""",
    "product-loo": """\
def loo(values):
    return [values.prod() for _ in values]
""",
    "epsilon-rule": """\
def epsilon_rule(relevance, x, weight, bias, eps):
    z = weight @ x + bias
    return x * (weight.T @ (relevance / (z + eps * np.sign(z))))
""",
    "residual-rule": """\
def residual_rule(relevance, x, branch, eps):
    z = x + branch
    part = relevance / (z + eps * np.sign(z))
    return x * part, branch * part
""",
    "layer-norm-rule": """\
def layer_norm_rule(g_y, x, gamma, small):
    h = gamma * g_y / np.sqrt(x.var(-1, keepdims=True) + small)
    return h - h.mean(-1, keepdims=True)
""",
    "matmul-rule": """\
def matmul_rule(g_o, a, v, eps):
    o = a @ v
    g = np.abs(o) / (np.abs(o) + eps / 2) * g_o
    return g @ v.T / 2, a.T @ g / 2
""",
    "rms-norm-rule": """\
def rms_norm_rule(g_y, x, gamma, small):
    root = np.sqrt((x**2).mean(-1, keepdims=True) + small)
    return gamma * g_y / root
""",
    "gated-rule": """\
def gated_rule(g_y, z, u):
    sigma = 1 / (1 + np.exp(-z))
    return sigma * u * g_y / 2, z * sigma * g_y / 2
""",
    "shifted-words": """\
def shifted_words(word, g, c):
    return ((word + c) * g).sum(-1)
""",
    "least-shift": """\
def least_shift(relevance, g):
    return -relevance * g / (g @ g)
""",
    "softmax-rule": """\
def softmax_rule(g_a, z):
    e = np.exp(z - z.max(-1, keepdims=True))
    a = e / e.sum(-1, keepdims=True)
    return a * (g_a - (a * g_a).sum(-1, keepdims=True))
""",
    "attention-values": """\
def attention_values(g_o, z, v):
    e = np.exp(z - z.max(-1, keepdims=True))
    a = e / e.sum(-1, keepdims=True)
    return a.T @ g_o
""",
    "attention-loo": """\
def attention_loo(z, v):
    e = np.exp(z - z.max())
    a = e / e.sum()
    return a * (v - a @ v) / (1 - a)
""",
    "detached-attention": """\
def detached_attention(z, v):
    return z.softmax(-1).detach() @ v
""",
}
"""Name of an exercise to the source of a function that passes."""
