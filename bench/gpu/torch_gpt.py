#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains the GPT of `weft gpt` with PyTorch on one GPU, as its users do: bf16 by autocast over fp32 weights, fused
attention and AdamW, compiled where it can be. Prints one object of JSON. Started by check."""
import argparse
import json
import time

import torch
from torch import nn
from torch.nn import functional as F


class Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-5).to(x.dtype) * self.weight


def rotate(x, cosines, sines):
    a, b = x.chunk(2, -1)
    return torch.cat((a * cosines - b * sines, b * cosines + a * sines), -1)


class Layer(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.heads, self.groups, self.width = o.heads, o.groups, o.hidden // o.heads
        self.attention_norm, self.mlp_norm = Norm(o.hidden), Norm(o.hidden)
        self.qkv = nn.Linear(o.hidden, (o.heads + 2 * o.groups) * self.width, bias=False)
        self.output = nn.Linear(o.hidden, o.hidden, bias=False)
        self.gate_up = nn.Linear(o.hidden, 2 * o.ffn, bias=False)
        self.down = nn.Linear(o.ffn, o.hidden, bias=False)

    def forward(self, x, cosines, sines):
        samples, sequence, hidden = x.shape
        qkv = self.qkv(self.attention_norm(x)).view(samples, sequence, -1, self.width).transpose(1, 2)
        q, k, v = qkv.split((self.heads, self.groups, self.groups), 1)
        q, k = rotate(q, cosines, sines), rotate(k, cosines, sines)
        k, v = (t.repeat_interleave(self.heads // self.groups, 1) for t in (k, v))
        context = F.scaled_dot_product_attention(q, k, v.to(q.dtype), is_causal=True)
        x = x + self.output(context.transpose(1, 2).reshape(samples, sequence, hidden))
        gate, up = self.gate_up(self.mlp_norm(x)).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


class Gpt(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.embedding = nn.Embedding(o.vocab, o.hidden)
        self.layers = nn.ModuleList(Layer(o) for _ in range(o.layers))
        self.norm = Norm(o.hidden)
        nn.init.normal_(self.embedding.weight, std=0.02)

    def forward(self, tokens, targets, cosines, sines):
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x, cosines, sines)
        return F.cross_entropy(F.linear(self.norm(x), self.embedding.weight).flatten(0, 1).float(), targets.flatten())


def main():
    p = argparse.ArgumentParser(description=__doc__)
    for name in "layers hidden ffn heads groups vocab seq micro batch steps".split():
        p.add_argument("--" + name, type=int, required=True)
    p.add_argument("--device", default="cuda")
    o = p.parse_args()
    gpu = o.device == "cuda"
    torch.manual_seed(1234)
    torch.backends.cuda.matmul.allow_tf32 = True
    model = Gpt(o).to(o.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=gpu)
    run = torch.compile(model) if gpu else model
    angles = torch.arange(o.seq)[:, None] * 10000 ** -(torch.arange(0, o.hidden // o.heads, 2) / (o.hidden // o.heads))
    type_of = torch.bfloat16
    cosines, sines = (f(angles).to(o.device, type_of) for f in (torch.cos, torch.sin))
    times = []
    for _ in range(o.steps + 2):
        began = time.perf_counter()
        for _ in range(o.batch // o.micro):
            tokens = torch.randint(256, (o.micro, o.seq + 1), device=o.device)
            with torch.autocast(o.device, type_of):
                loss = run(tokens[:, :-1], tokens[:, 1:], cosines, sines) / (o.batch // o.micro)
            loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if gpu:
            torch.cuda.synchronize()
        times.append(time.perf_counter() - began)
    times = sorted(times[2:])  # the first two warm up, and compile
    print(json.dumps({"tokens_per_s": o.batch * o.seq / times[len(times) // 2], "torch": torch.__version__}))


main()
