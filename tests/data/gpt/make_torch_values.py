#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Writes torch_values.txt: losses and gradients of small GPTs as PyTorch computes them, in fp64.

The first weights are made by the documented generator, written again here. On Debian: apt-get install python3-torch
python3-numpy; /usr/bin/python3 make_torch_values.py > torch_values.txt
"""
import math

import numpy
import torch
from torch.nn import functional

SEED = 5
CASES = {
    "tied, two heads to a key": dict(
        layers=2, hidden=8, ffn=12, heads=4, groups=2, channels=4, sequence=6, batch=2, vocabulary=11,
        multiple=4, rotary_base=100, deviation=0.3, tied=1),
    "untied, a key for each head": dict(
        layers=2, hidden=12, ffn=8, heads=2, groups=2, channels=6, sequence=5, batch=3, vocabulary=13,
        multiple=8, rotary_base=10000, deviation=0.25, tied=0),
    "a sequence of several blocks, one key for all heads": dict(
        layers=1, hidden=8, ffn=12, heads=4, groups=1, channels=4, sequence=150, batch=1, vocabulary=11,
        multiple=4, rotary_base=10000, deviation=0.5, tied=1),
}
EPSILON = 1e-5


def philox(counter, key):
    """Philox 4x32 with ten rounds."""
    c, k = list(counter), list(key)
    for _ in range(10):
        first, second = c[0] * 0xD2511F53, c[2] * 0xCD9E8D57
        c = [(second >> 32) ^ c[1] ^ k[0], second & 0xFFFFFFFF, (first >> 32) ^ c[3] ^ k[1], first & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return c


def normals(name, count, deviation):
    """The first numbers of the stream of this name."""
    digest = 0xCBF29CE484222325
    for byte in SEED.to_bytes(8, "little") + name.encode():
        digest = (digest ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    key = digest & 0xFFFFFFFF, digest >> 32
    values = []
    for block in range((count + 3) // 4):
        words = philox((block, 0, 0, 0), key)
        for pair in (words[:2], words[2:]):
            radius = math.sqrt(-2 * math.log((pair[0] + 0.5) / 2**32))
            angle = 2 * math.pi * (pair[1] + 0.5) / 2**32
            values += [radius * math.cos(angle), radius * math.sin(angle)]
    return numpy.array([deviation * v for v in values[:count]], dtype=numpy.float32)


def weights(case):
    """Parameters by name, in the order of the forward; the vocabulary is padded with rows of zeros."""
    hidden, ffn, channels = case["hidden"], case["ffn"], case["channels"]
    padded = -(-case["vocabulary"] // case["multiple"]) * case["multiple"]
    small = numpy.float64(numpy.float32(case["deviation"])) / math.sqrt(2 * case["layers"])
    usual = numpy.float64(numpy.float32(case["deviation"]))

    def norm(name):
        return name, numpy.float32(1) + normals(name, hidden, 0.25)

    def matrix(name, outputs, inputs, deviation):
        return name, normals(name, outputs * inputs, deviation).reshape(outputs, inputs)

    def table(name):
        filled = normals(name, case["vocabulary"] * hidden, usual).reshape(-1, hidden)
        return name, numpy.concatenate([filled, numpy.zeros((padded - len(filled), hidden), numpy.float32)])

    named = [table("embedding")]
    for i in range(case["layers"]):
        layer = f"layers.{i}."
        named += [
            norm(layer + "attention.norm"),
            matrix(layer + "attention.qkv", (case["heads"] + 2 * case["groups"]) * channels, hidden, usual),
            matrix(layer + "attention.output", hidden, case["heads"] * channels, small),
            norm(layer + "mlp.norm"),
            matrix(layer + "mlp.gate_up", 2 * ffn, hidden, usual),
            matrix(layer + "mlp.down", hidden, ffn, small),
        ]
    named.append(norm("final_norm"))
    if not case["tied"]:
        named.append(table("output"))
    return {name: torch.tensor(value, dtype=torch.float64, requires_grad=True) for name, value in named}


def rms_norm(x, weight):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + EPSILON) * weight


def rotate(x, base):
    """x: [sequence, batch, heads, channels]; channel i and i + half are the parts of one complex number."""
    half = x.shape[-1] // 2
    angles = torch.outer(torch.arange(len(x), dtype=torch.float64),
                         base ** (-torch.arange(half, dtype=torch.float64) / half))
    turned = torch.complex(x[..., :half], x[..., half:]) * torch.polar(torch.ones_like(angles), angles)[:, None, None]
    return torch.cat([turned.real, turned.imag], -1)


def attention(case, x, qkv_weight, output_weight):
    groups, each, channels = case["groups"], case["heads"] // case["groups"], case["channels"]
    qkv = functional.linear(x, qkv_weight).view(case["sequence"], case["batch"], groups, each + 2, channels)
    query = rotate(qkv[..., :each, :].flatten(2, 3), case["rotary_base"])
    key = rotate(qkv[..., each, :], case["rotary_base"]).repeat_interleave(each, 2)
    value = qkv[..., each + 1, :].repeat_interleave(each, 2)
    scores = torch.einsum("sbhc,tbhc->bhst", query, key) / math.sqrt(channels)
    hidden = torch.ones(case["sequence"], case["sequence"]).triu(1).bool()
    context = torch.einsum("bhst,tbhc->sbhc", scores.masked_fill(hidden, -math.inf).softmax(-1), value)
    return functional.linear(context.flatten(2), output_weight)


def loss_of(case, w, tokens, targets):
    x = functional.embedding(tokens, w["embedding"])
    for i in range(case["layers"]):
        layer = f"layers.{i}."
        normed = rms_norm(x, w[layer + "attention.norm"])
        x = x + attention(case, normed, w[layer + "attention.qkv"], w[layer + "attention.output"])
        gate, up = functional.linear(rms_norm(x, w[layer + "mlp.norm"]), w[layer + "mlp.gate_up"]).chunk(2, -1)
        x = x + functional.linear(functional.silu(gate) * up, w[layer + "mlp.down"])
    table = w["embedding" if case["tied"] else "output"][: case["vocabulary"]]
    logits = functional.linear(rms_norm(x, w["final_norm"]), table)
    return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def main():
    for name, case in CASES.items():
        w = weights(case)
        n = torch.arange(case["sequence"] * case["batch"]).view(case["sequence"], case["batch"])
        loss = loss_of(case, w, (7 * n * n + 3 * n + 5) % case["vocabulary"], (5 * n * n + n + 2) % case["vocabulary"])
        loss.backward()
        print("case", name)
        for key, value in case.items():
            print("shape", key, value)
        print("loss", f"{loss.item():.10f}")
        for key, value in w.items():
            # The values themselves come from the generator: their sums are enough to know them by.
            print("param", key, value.numel(), f"{value.sum().item():.9g}", f"{value.square().sum().item():.9g}")
            print(" ".join(f"{v:.7g}" for v in value.grad.flatten().tolist()))


main()
