import math

import torch


# wrong lstm: the order of the slide
# hint: the order of some other libraries
def lstm_step(x, h, c, W, U, b):
    i, f, o, g = torch.chunk(x @ W.T + h @ U.T + b, 4, dim=1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


# wrong lstm: forget and input exchanged
# hint: f multiplies the old memory
def lstm_step(x, h, c, W, U, b):
    i, f, g, o = torch.chunk(x @ W.T + h @ U.T + b, 4, dim=1)
    c = i.sigmoid() * c + f.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


# wrong lstm: no forget gate
# hint: the cell of 1997
def lstm_step(x, h, c, W, U, b):
    i, _, g, o = torch.chunk(x @ W.T + h @ U.T + b, 4, dim=1)
    c = c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


# wrong lstm: a sigmoid for all four
# hint: is no gate
def lstm_step(x, h, c, W, U, b):
    i, f, g, o = torch.sigmoid(x @ W.T + h @ U.T + b).chunk(4, dim=1)
    c = f * c + i * g
    return o * c.tanh(), c


# wrong lstm: no tanh at the output
# hint: Between the memory and the output
def lstm_step(x, h, c, W, U, b):
    i, f, g, o = torch.chunk(x @ W.T + h @ U.T + b, 4, dim=1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c, c


# wrong lstm: shows the old memory
# hint: You show the old memory
def lstm_step(x, h, c, W, U, b):
    i, f, g, o = torch.chunk(x @ W.T + h @ U.T + b, 4, dim=1)
    return o.sigmoid() * c.tanh(), f.sigmoid() * c + i.sigmoid() * g.tanh()


# wrong lstm: returns the memory first
# hint: the hidden state h' first
def lstm_step(x, h, c, W, U, b):
    i, f, g, o = torch.chunk(x @ W.T + h @ U.T + b, 4, dim=1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return c, o.sigmoid() * c.tanh()


# wrong lstm: leaves out the bias
# hint: The bias b is missing
def lstm_step(x, h, c, W, U, b):
    i, f, g, o = torch.chunk(x @ W.T + h @ U.T, 4, dim=1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    return o.sigmoid() * c.tanh(), c


# wrong lstm: only the memory
# hint: return a pair
def lstm_step(x, h, c, W, U, b):
    i, f, g, _ = torch.chunk(x @ W.T + h @ U.T + b, 4, dim=1)
    return f.sigmoid() * c + i.sigmoid() * g.tanh()


# right lstm: PyTorch's cell
def lstm_step(x, h, c, W, U, b):
    cell = torch.nn.LSTMCell(W.shape[1], U.shape[1], dtype=x.dtype)
    weights = {"weight_ih": W, "weight_hh": U, "bias_ih": b, "bias_hh": torch.zeros_like(b)}
    return torch.func.functional_call(cell, weights, (x, (h, c)))


# right lstm: in float64, a gate at a time
def lstm_step(x, h, c, W, U, b):
    x, h, c, W, U, b = (t.double() for t in (x, h, c, W, U, b))
    H = h.shape[1]

    def part(k):
        rows = slice(k * H, (k + 1) * H)
        return torch.einsum("bd,hd->bh", x, W[rows]) + torch.einsum("bk,hk->bh", h, U[rows]) + b[rows]

    new = c / (1 + torch.exp(-part(1))) + torch.tanh(part(2)) / (1 + torch.exp(-part(0)))
    return torch.tanh(new) / (1 + torch.exp(-part(3))), new


# right lstm: one product of the joined input and state
def lstm_step(x, h, c, W, U, b):
    total = torch.addmm(b, torch.cat([x, h], dim=1), torch.cat([W, U], dim=1).T)
    total = total.view(len(x), 4, -1)
    gates = total[:, [0, 1, 3]].sigmoid()
    c = gates[:, 1] * c + gates[:, 0] * total[:, 2].tanh()
    return [gates[:, 2] * c.tanh(), c]


# wrong gru: z upside down
# hint: the share of the *old* state
def gru_step(x, h, W, U, b_input, b_hidden):
    a, u = (x @ W.T + b_input).chunk(3, 1), (h @ U.T + b_hidden).chunk(3, 1)
    r, z = torch.sigmoid(a[0] + u[0]), torch.sigmoid(a[1] + u[1])
    return z * torch.tanh(a[2] + r * u[2]) + (1 - z) * h


# wrong gru: the paper's reset
# hint: You reset h before the product
def gru_step(x, h, W, U, b_input, b_hidden):
    H = h.shape[1]
    a, u = (x @ W.T + b_input).chunk(3, 1), (h @ U.T + b_hidden).chunk(3, 1)
    r, z = torch.sigmoid(a[0] + u[0]), torch.sigmoid(a[1] + u[1])
    n = torch.tanh(a[2] + (r * h) @ U[2 * H :].T + b_hidden[2 * H :])
    return z * h + (1 - z) * n


# wrong gru: resets the input as well
# hint: also hits the input
def gru_step(x, h, W, U, b_input, b_hidden):
    a, u = (x @ W.T + b_input).chunk(3, 1), (h @ U.T + b_hidden).chunk(3, 1)
    r, z = torch.sigmoid(a[0] + u[0]), torch.sigmoid(a[1] + u[1])
    return z * h + (1 - z) * torch.tanh(r * (a[2] + u[2]))


# wrong gru: no reset
# hint: Your candidate never resets
def gru_step(x, h, W, U, b_input, b_hidden):
    _, z, n = (x @ W.T + b_input + h @ U.T + b_hidden).chunk(3, 1)
    z = torch.sigmoid(z)
    return z * h + (1 - z) * torch.tanh(n)


# wrong gru: update block first
# hint: reset first
def gru_step(x, h, W, U, b_input, b_hidden):
    a, u = (x @ W.T + b_input).chunk(3, 1), (h @ U.T + b_hidden).chunk(3, 1)
    z, r = torch.sigmoid(a[0] + u[0]), torch.sigmoid(a[1] + u[1])
    return z * h + (1 - z) * torch.tanh(a[2] + r * u[2])


# wrong gru: the hidden bias outside the reset
# hint: It belongs inside
def gru_step(x, h, W, U, b_input, b_hidden):
    a, u = (x @ W.T + b_input + b_hidden).chunk(3, 1), (h @ U.T).chunk(3, 1)
    r, z = torch.sigmoid(a[0] + u[0]), torch.sigmoid(a[1] + u[1])
    return z * h + (1 - z) * torch.tanh(a[2] + r * u[2])


# wrong gru: only the candidate
# hint: You return the candidate alone
def gru_step(x, h, W, U, b_input, b_hidden):
    a, u = (x @ W.T + b_input).chunk(3, 1), (h @ U.T + b_hidden).chunk(3, 1)
    return torch.tanh(a[2] + torch.sigmoid(a[0] + u[0]) * u[2])


# right gru: PyTorch's cell
def gru_step(x, h, W, U, b_input, b_hidden):
    cell = torch.nn.GRUCell(W.shape[1], U.shape[1], dtype=x.dtype)
    weights = {"weight_ih": W, "weight_hh": U, "bias_ih": b_input, "bias_hh": b_hidden}
    return torch.func.functional_call(cell, weights, (x, h))


# right gru: block by block, the mix written as a correction
def gru_step(x, h, W, U, b_input, b_hidden):
    H = h.shape[1]
    W_r, W_z, W_n = W.split(H)
    U_r, U_z, U_n = U.split(H)
    b, d = b_input.split(H), b_hidden.split(H)
    reset = torch.sigmoid(x @ W_r.T + h @ U_r.T + b[0] + d[0])
    update = torch.sigmoid(x @ W_z.T + h @ U_z.T + b[1] + d[1])
    candidate = torch.tanh(x @ W_n.T + b[2] + reset * (h @ U_n.T + d[2]))
    return candidate + update * (h - candidate)


# right gru: one row at a time, in float64
def gru_step(x, h, W, U, b_input, b_hidden):
    rows = []
    for one, state in zip(x.double(), h.double()):
        a, u = (W.double() @ one + b_input).view(3, -1), (U.double() @ state + b_hidden).view(3, -1)
        r, z = 1 / (1 + (-a[:2] - u[:2]).exp())
        rows.append(torch.lerp(torch.tanh(a[2] + r * u[2]), state, z))
    return torch.stack(rows)


# wrong forget_bias: the first block
# hint: The forget gate's is the second
def open_forget_gate(b, value):
    b = b.clone()
    b[: len(b) // 4] = value
    return b


# wrong forget_bias: all blocks
# hint: You set all four blocks
def open_forget_gate(b, value):
    return torch.ones_like(b) * value


# wrong forget_bias: adds
# hint: The task is to set it
def open_forget_gate(b, value):
    b = b.clone()
    b[len(b) // 4 : len(b) // 2] += value
    return b


# wrong forget_bias: the third block
# hint: the candidate's
def open_forget_gate(b, value):
    b = b.clone()
    b[len(b) // 2 : 3 * len(b) // 4] = value
    return b


# wrong forget_bias: one step only
# hint: in *one* step
def bias_to_keep(share, gap):
    return torch.logit(torch.tensor(share)).item()


# wrong forget_bias: returns the gate
# hint: That is the forget gate f itself
def bias_to_keep(share, gap):
    return math.exp(math.log(share) / gap)


# wrong forget_bias: the wrong sign
# hint: a positive bias opens the gate
def bias_to_keep(share, gap):
    f = share ** (1 / gap)
    return math.log((1 - f) / f)


# wrong forget_bias: divides the loss by the gap
# hint: instead of taking a root
def bias_to_keep(share, gap):
    lost = (1 - share) / gap
    return math.log((1 - lost) / lost)


# wrong forget_bias: the rule of thumb for everything
# hint: The share must matter
def bias_to_keep(share, gap):
    return float(torch.tensor(gap).float().log())


# wrong forget_bias: right, and then kept in half precision
# hint: compute in float32 at least
def bias_to_keep(share, gap):
    f = share ** (1 / gap)
    return torch.tensor(math.log(f / (1 - f)), dtype=torch.float16)


# wrong forget_bias: computed in half precision
# hint: nearly it, with the few digits
def bias_to_keep(share, gap):
    return torch.logit(torch.tensor(share, dtype=torch.float16) ** (1 / gap))


# wrong forget_bias: rounded
# hint: looks rounded
def bias_to_keep(share, gap):
    f = share ** (1 / gap)
    return round(math.log(f / (1 - f)), 2)


# wrong forget_bias: writes into the old bias
# hint: You write into the bias you were given
def open_forget_gate(b, value):
    hidden = b.shape[0] // 4
    b[hidden : 2 * hidden] = value
    return b


# right forget_bias: by expm1, and the block through a view
def open_forget_gate(b, value):
    new = b.detach().clone().view(4, -1)
    new[1] = value
    return new.flatten()


def bias_to_keep(share, gap):
    return -math.log(math.expm1(-math.log(share) / gap))


# right forget_bias: torch.where and torch.logit in float64
def open_forget_gate(b, value):
    block = torch.arange(len(b)) // (len(b) // 4)
    return torch.where(block == 1, value, b)


def bias_to_keep(share, gap):
    return torch.logit(torch.tensor(share, dtype=torch.float64) ** (1 / gap))


# right forget_bias: all in float32
def bias_to_keep(share, gap):
    f = torch.exp(torch.tensor(share).log() / gap)
    return torch.log(f / (1 - f)).item()


# right forget_bias: bisection
def bias_to_keep(share, gap):
    low, high = -30.0, 30.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if (1 / (1 + math.exp(-middle))) ** gap < share else (low, middle)
    return low


# wrong flow: gradients by the hidden states
# hint: The question is about the memories
def gradient_flow(inputs, h, c, W, U, b, upstream, cut=False):
    h, c = h.clone().requires_grad_(), c.clone().requires_grad_()
    kept = []
    for x in inputs:
        h, c = lstm_step(x, h.detach() if cut else h, c, W, U, b)
        kept.append(h)
    grads = torch.autograd.grad((h * upstream).sum(), kept, allow_unused=True)
    return torch.stack([torch.tensor(0.0) if g is None else g.norm() for g in grads])


# wrong flow: backwards in time
# hint: Your list runs backwards
def gradient_flow(inputs, h, c, W, U, b, upstream, cut=False):
    c = c.clone().requires_grad_()
    kept = []
    for x in inputs:
        h, c = lstm_step(x, h.detach() if cut else h, c, W, U, b)
        kept.insert(0, c)
    return torch.stack([g.norm() for g in torch.autograd.grad((h * upstream).sum(), kept)])


# wrong flow: never cuts
# hint: changes nothing in your run
def gradient_flow(inputs, h, c, W, U, b, upstream, cut=False):
    c = c.clone().requires_grad_()
    kept = []
    for x in inputs:
        h, c = lstm_step(x, h, c, W, U, b)
        kept.append(c)
    return torch.stack([g.norm() for g in torch.autograd.grad((h * upstream).sum(), kept)])


# wrong flow: cuts the memory
# hint: the highway itself
def gradient_flow(inputs, h, c, W, U, b, upstream, cut=False):
    h, c = h.clone().requires_grad_(), c.clone().requires_grad_()
    kept = []
    for x in inputs:
        h, c = lstm_step(x, h, c.detach() if cut else c, W, U, b)
        kept.append(c)
    return torch.stack([g.norm() for g in torch.autograd.grad((h * upstream).sum(), kept)])


# wrong flow: sums the gradients
# hint: take their norm
def gradient_flow(inputs, h, c, W, U, b, upstream, cut=False):
    c = c.clone().requires_grad_()
    kept = []
    for x in inputs:
        h, c = lstm_step(x, h.detach() if cut else h, c, W, U, b)
        kept.append(c)
    return torch.stack([g.sum() for g in torch.autograd.grad((h * upstream).sum(), kept)])


# wrong flow: forgets the upstream
# hint: The loss weighs h_T
def gradient_flow(inputs, h, c, W, U, b, upstream, cut=False):
    c = c.clone().requires_grad_()
    kept = []
    for x in inputs:
        h, c = lstm_step(x, h.detach() if cut else h, c, W, U, b)
        kept.append(c)
    return torch.stack([g.norm() for g in torch.autograd.grad(h.sum(), kept)])


# wrong flow: never says vanishes
# hint: You never answer 'vanishes'
def explain(inputs, h, c, W, U, b, upstream):
    full = gradient_flow(inputs, h, c, W, U, b, upstream)
    cut = gradient_flow(inputs, h, c, W, U, b, upstream, cut=True)
    return "highway" if cut[0] / full[0] > 0.5 else "detour"


# wrong flow: takes every gradient that arrives for the highway's
# hint: need not have come by the highway
def explain(inputs, h, c, W, U, b, upstream):
    flow = gradient_flow(inputs, h, c, W, U, b, upstream)
    return "highway" if flow[0] / flow[-1] >= 1e-3 else "vanishes"


# wrong flow: an absolute threshold
# hint: Small against what
def explain(inputs, h, c, W, U, b, upstream):
    full = gradient_flow(inputs, h, c, W, U, b, upstream)
    cut = gradient_flow(inputs, h, c, W, U, b, upstream, cut=True)
    if full[0] < 1e-3:
        return "vanishes"
    return "highway" if cut[0] > 0.5 * full[0] else "detour"


# wrong flow: names exchanged
# hint: are swapped
def explain(inputs, h, c, W, U, b, upstream):
    full = gradient_flow(inputs, h, c, W, U, b, upstream)
    cut = gradient_flow(inputs, h, c, W, U, b, upstream, cut=True)
    if full[0] < 1e-3 * full[-1]:
        return "vanishes"
    return "detour" if cut[0] > 0.5 * full[0] else "highway"


# wrong flow: asks for the way first
# hint: 'vanishes' comes first
def explain(inputs, h, c, W, U, b, upstream):
    full = gradient_flow(inputs, h, c, W, U, b, upstream)
    if gradient_flow(inputs, h, c, W, U, b, upstream, cut=True)[0] > full[0] / 2:
        return "highway"
    return "vanishes" if full[0] < full[-1] / 1000 else "detour"


# wrong flow: the memories before the steps
# hint: You keep the memory *before* each step
def gradient_flow(inputs, h, c, W, U, b, upstream, cut=False):
    c, kept = c.clone().requires_grad_(), []
    for x in inputs:
        kept.append(c)
        h, c = lstm_step(x, h.detach() if cut else h, c, W, U, b)
    return torch.stack([g.norm() for g in torch.autograd.grad((h * upstream).sum(), kept)])


# right flow: retained gradients and backward
def gradient_flow(inputs, h, c, W, U, b, upstream, cut=False):
    c = c.detach().clone().requires_grad_(True)
    memories = []
    for t in range(inputs.shape[0]):
        if cut:
            h = h.detach()
        h, c = lstm_step(inputs[t], h, c, W, U, b)
        c.retain_grad()
        memories.append(c)
    torch.sum(h * upstream).backward()
    return torch.tensor([m.grad.norm().item() for m in memories])


# right flow: zeros added to each memory, and the ratio in logarithms
def gradient_flow(inputs, h, c, W, U, b, upstream, cut=False):
    nudge = torch.zeros(len(inputs), *c.shape, requires_grad=True)
    for x, zero in zip(inputs, nudge):
        H = c.shape[1]
        i, f, g, o = (x @ W.T + (h.detach() if cut else h) @ U.T + b).split(H, dim=1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh() + zero
        h = o.sigmoid() * c.tanh()
    (gradient,) = torch.autograd.grad((h * upstream).sum(), nudge)
    return gradient.square().sum(dim=(1, 2)).sqrt()


def explain(inputs, h, c, W, U, b, upstream):
    arguments = (inputs, h, c, W, U, b, upstream)
    full, only = gradient_flow(*arguments), gradient_flow(*arguments, cut=True)
    if full[0] == 0 or math.log10(full[0]) - math.log10(full[-1]) < -3:
        return "vanishes"
    return "detour" if 2 * only[0] <= full[0] else "highway"


# right flow: the chain rule by hand when cut, autograd when not
def gradient_flow(inputs, h, c, W, U, b, upstream, cut=False):
    H = c.shape[1]
    c = c.detach().requires_grad_()
    kept, forgets = [], []
    for x in inputs:
        forgets.append((x @ W.T + h @ U.T + b)[:, H : 2 * H].sigmoid())
        last = h
        h, c = lstm_step(x, h, c, W, U, b)
        kept.append(c)
    if not cut:
        return torch.stack([g.norm() for g in torch.autograd.grad((h * upstream).sum(), kept)])
    o = (inputs[-1] @ W.T + last @ U.T + b)[:, 3 * H :].sigmoid()
    gradient = upstream * o * (1 - c.tanh() ** 2)
    norms = [gradient.norm()]
    for f in reversed(forgets[1:]):
        gradient = gradient * f
        norms.insert(0, gradient.norm())
    return torch.stack(norms).detach()


# wrong flow: nine tenths in place of a half
# hint: begins where it carries more than half
def explain(inputs, h, c, W, U, b, upstream):
    full = gradient_flow(inputs, h, c, W, U, b, upstream)
    cut = gradient_flow(inputs, h, c, W, U, b, upstream, cut=True)
    if full[0] < 1e-3 * full[-1]:
        return "vanishes"
    return "highway" if cut[0] > 0.9 * full[0] else "detour"


# wrong flow: a hundredth in place of a thousandth
# hint: where 0.0015 of the gradient is left
def explain(inputs, h, c, W, U, b, upstream):
    full = gradient_flow(inputs, h, c, W, U, b, upstream)
    cut = gradient_flow(inputs, h, c, W, U, b, upstream, cut=True)
    if full[0] < 1e-2 * full[-1]:
        return "vanishes"
    return "highway" if cut[0] > 0.5 * full[0] else "detour"
