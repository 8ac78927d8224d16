import torch
import torch.nn.functional as F
from torch import nn


# wrong step: U the wrong way round
# hint: multiplied by its transpose
def rnn_step(x, h, W, U, b):
    return torch.tanh(F.linear(x, W, b) + torch.matmul(h, U))


# wrong step: no tanh
# hint: where is the tanh
def rnn_step(x, h, W, U, b):
    return F.linear(x, W, b) + F.linear(h, U)


# wrong step: a layer without memory
# hint: Your step has no memory
def rnn_step(x, h, W, U, b):
    return F.linear(x, W, b).tanh()


# wrong step: no bias
# hint: The bias is missing
def rnn_step(x, h, W, U, b):
    return (F.linear(x, W) + F.linear(h, U)).tanh()


# wrong step: the logistic function
# hint: squash with the logistic function
def rnn_step(x, h, W, U, b):
    return (F.linear(x, W, b) + F.linear(h, U)).sigmoid()


# wrong step: tanh of the input alone
# hint: Add up everything first
def rnn_step(x, h, W, U, b):
    return F.linear(x, W, b).tanh() + F.linear(h, U)


# wrong step: ignores the state it is given
# hint: You start from zeros
def run_rnn(x, h, W, U, b):
    states, h = [], torch.zeros(x.size(0), U.size(0))
    for x_t in x.unbind(1):
        h = rnn_step(x_t, h, W, U, b)
        states.append(h)
    return torch.stack(states, 1)


# wrong step: every step from the first state
# hint: hand the *new* state on
def run_rnn(x, h, W, U, b):
    return torch.stack([rnn_step(x_t, h, W, U, b) for x_t in x.unbind(1)], 1)


# wrong step: the last state
# hint: You return the last state only
def run_rnn(x, h, W, U, b):
    for x_t in x.unbind(1):
        h = rnn_step(x_t, h, W, U, b)
    return h


# wrong step: stacks along the first axis
# hint: so that the batch stays first
def run_rnn(x, h, W, U, b):
    states = []
    for x_t in x.unbind(1):
        h = rnn_step(x_t, h, W, U, b)
        states.append(h)
    return torch.stack(states)


# wrong step: one step late
# hint: one step late
def run_rnn(x, h, W, U, b):
    states = []
    for x_t in x.unbind(1):
        states.append(h)
        h = rnn_step(x_t, h, W, U, b)
    return torch.stack(states, 1)


# right step: one matrix for the input and the state side by side
def rnn_step(x, h, W, U, b):
    return torch.tanh(torch.cat([x, h], dim=-1) @ torch.cat([W, U], dim=-1).T + b)


# right step: a run that projects all inputs at once
def run_rnn(x, h, W, U, b):
    projected = F.linear(x, W, b)
    states = []
    for t in range(x.size(1)):
        h = torch.tanh(projected[:, t] + h @ U.T)
        states.append(h)
    return torch.stack(states, dim=1)


# right step: einsum in float64, filled into a list
def rnn_step(x, h, W, U, b):
    x, h, W, U, b = (value.double() for value in (x, h, W, U, b))
    return (torch.einsum("bd,hd->bh", x, W) + torch.einsum("bg,hg->bh", h, U) + b).tanh()


def run_rnn(x, h, W, U, b):
    states = [h]
    for t in range(x.shape[1]):
        states += [rnn_step(x[:, t], states[-1], W, U, b)]
    return torch.stack(states[1:], dim=1)


# wrong clipping: every tensor by its own norm
# hint: One norm over all, one factor
def clip_by_norm(gradients, max_norm):
    norm = torch.cat([g.flatten() for g in gradients]).norm()
    return [g * min(1.0, max_norm / (float(g.norm()) + 1e-12)) for g in gradients], norm


# wrong clipping: the entries
# hint: You clip the entries
def clip_by_norm(gradients, max_norm):
    norm = torch.cat([g.flatten() for g in gradients]).norm()
    return [torch.clip(g, -max_norm, max_norm) for g in gradients], norm


# wrong clipping: stretches short gradients
# hint: The factor is at most 1
def clip_by_norm(gradients, max_norm):
    norm = torch.cat([g.flatten() for g in gradients]).norm()
    return [g / norm * max_norm for g in gradients], norm


# wrong clipping: the norm after
# hint: from *before* clipping
def clip_by_norm(gradients, max_norm):
    norm = torch.cat([g.flatten() for g in gradients]).norm().item() + 1e-12
    clipped = [g * min(1.0, max_norm / norm) for g in gradients]
    return clipped, torch.cat([g.flatten() for g in clipped]).norm()


# wrong clipping: adds up norms
# hint: The norms of the parts do not add
def clip_by_norm(gradients, max_norm):
    norm = sum(float(g.norm()) for g in gradients)
    return [g * min(1.0, max_norm / (norm + 1e-12)) for g in gradients], norm


# wrong clipping: the squared norm
# hint: the root is missing
def clip_by_norm(gradients, max_norm):
    norm = sum(g.square().sum() for g in gradients)
    return [g * torch.clamp(max_norm / norm, max=1) for g in gradients], norm


# wrong clipping: the largest entry
# hint: You take the largest entry
def clip_by_norm(gradients, max_norm):
    norm = max(float(g.abs().max()) for g in gradients)
    return [g * min(1.0, max_norm / (norm + 1e-12)) for g in gradients], norm


# right clipping: one long vector
def clip_by_norm(gradients, max_norm):
    norm = torch.cat([g.reshape(-1) for g in gradients]).norm()
    return [g if norm <= max_norm else g / norm * max_norm for g in gradients], norm


# right clipping: torch's own, on parameters
def clip_by_norm(gradients, max_norm):
    parameters = [nn.Parameter(torch.zeros_like(g)) for g in gradients]
    for parameter, gradient in zip(parameters, gradients):
        parameter.grad = gradient.clone()
    norm = nn.utils.clip_grad_norm_(parameters, max_norm)
    return [parameter.grad for parameter in parameters], norm


# right clipping: plain Python numbers, in a tuple
def clip_by_norm(gradients, max_norm):
    norm = sum(g.double().pow(2).sum().item() for g in gradients) ** 0.5
    factor = max_norm / max(norm, max_norm)
    return tuple(g.double() * factor for g in gradients), norm


# wrong jacobian: slopes on the columns
# hint: so they multiply its rows
def step_jacobian(h, U):
    return U @ torch.diag(1 - h.square())


# wrong jacobian: no slopes
# hint: The slope of tanh is missing
def step_jacobian(h, U):
    return U + 0.0


# wrong jacobian: 1 − h
# hint: is 1 − h², not 1 − h
def step_jacobian(h, U):
    return torch.diag(1 - h) @ U


# wrong jacobian: tanh twice
# hint: without another tanh
def step_jacobian(h, U):
    return torch.diag(1 - torch.tanh(h) ** 2) @ U


# wrong jacobian: the transpose
# hint: That is the transpose
def step_jacobian(h, U):
    return U.T @ torch.diag(1 - h * h)


# wrong jacobian: multiplies the norms
# hint: only an upper bound
def gradient_reach(states, U):
    reach = [torch.tensor(1.0)]
    for h in reversed(states[1:]):
        reach.append(reach[-1] * torch.linalg.svdvals(step_jacobian(h, U))[0])
    return torch.stack(reach[::-1])


# wrong jacobian: the product in the wrong order
# hint: in the wrong order
def gradient_reach(states, U):
    product, reach = torch.eye(len(U)), [torch.tensor(1.0)]
    for h in reversed(states[1:]):
        product = step_jacobian(h, U) @ product
        reach.append(torch.linalg.svdvals(product)[0])
    return torch.stack(reach[::-1])


# wrong jacobian: the Frobenius norm
# hint: the Frobenius norm
def gradient_reach(states, U):
    product = torch.eye(len(U))
    reach = [product.norm()]
    for h in reversed(states[1:]):
        product = product @ step_jacobian(h, U)
        reach.append(product.norm())
    return torch.stack(reach[::-1])


# wrong jacobian: a step too many
# hint: One step too many
def gradient_reach(states, U):
    product, reach = torch.eye(len(U)), []
    for h in reversed(states):
        product = product @ step_jacobian(h, U)
        reach.append(torch.linalg.svdvals(product)[0])
    return torch.stack(reach[::-1])


# wrong jacobian: from the end
# hint: so the 1 comes last
def gradient_reach(states, U):
    product, reach = torch.eye(len(U)), [torch.tensor(1.0)]
    for h in reversed(states[1:]):
        product = product @ step_jacobian(h, U)
        reach.append(torch.linalg.svdvals(product)[0])
    return torch.stack(reach)


# wrong jacobian: eigenvalues
# hint: That is the spectral radius
def gradient_reach(states, U):
    product, reach = torch.eye(len(U)), [torch.tensor(1.0)]
    for h in reversed(states[1:]):
        product = product @ step_jacobian(h, U)
        reach.append(torch.linalg.eigvals(product).abs().max())
    return torch.stack(reach[::-1])


# right jacobian: by autograd, through the inverse of tanh
def step_jacobian(h, U):
    before = torch.atanh(h)
    slopes = torch.autograd.functional.jacobian(torch.tanh, before)
    return slopes @ U


# right jacobian: transposes of row-vector products, spectral norm by eigenvalues
def gradient_reach(states, U):
    back = torch.eye(len(U), dtype=torch.float64)
    reach = [1.0]
    for h in states.double()[1:].flip(0):
        back = U.double().T @ torch.diag(1 - h**2) @ back
        reach.insert(0, torch.linalg.eigvalsh(back.T @ back)[-1].clamp(min=0).sqrt().item())
    return torch.tensor(reach)


# right jacobian: every product afresh
def gradient_reach(states, U):
    T = len(states)
    factors = [torch.einsum("i,ij->ij", 1 - states[t] ** 2, U) for t in range(T)]
    reach = []
    for t in range(T):
        product = torch.eye(len(U))
        for k in range(t + 1, T):
            product = factors[k] @ product
        reach.append(torch.linalg.norm(product, 2))
    return torch.stack(reach)


# wrong bidirectional: flips the whole batch
# hint: You turn the padding to the front
def reverse_padded(x, lengths):
    return torch.flip(x, dims=[1])


# wrong bidirectional: flips the batch axis
# hint: You reverse the batch
def reverse_padded(x, lengths):
    return torch.flip(x, dims=[0])


# wrong bidirectional: flips the features as well
# hint: You reverse the features too
def reverse_padded(x, lengths):
    out = x.clone()
    for b, n in enumerate(lengths.tolist()):
        out[b, :n] = x[b, :n].flip(0, 1)
        out[b, n:] = x[b, n:].flip(1)
    return out


# wrong bidirectional: one length for all
# hint: turned within the longest length
def reverse_padded(x, lengths):
    n = int(lengths.max())
    return torch.cat([x[:, :n].flip(1), x[:, n:]], dim=1)


# wrong bidirectional: loses the padding
# hint: The padding is gone
def reverse_padded(x, lengths):
    out = torch.zeros_like(x)
    for b, n in enumerate(lengths.tolist()):
        out[b, :n] = x[b, :n].flip(0)
    return out


# wrong bidirectional: the backward network starts in the padding
# hint: reads the padding first
def run_both_ways(x, lengths, forward, backward):
    B, T, _ = x.shape
    zero = torch.zeros(B, len(forward[2]))
    real = (torch.arange(T) < lengths[:, None])[..., None]
    ahead = run_rnn(x, zero, *forward) * real
    back = (run_rnn(x.flip(1), zero, *backward) * real).flip(1)
    last = ahead[torch.arange(B), lengths - 1]
    return torch.cat([ahead, back], -1), torch.cat([last, back[:, 0]], -1)


# wrong bidirectional: forgets to turn the outputs back
# hint: still in reading order from the end
def run_both_ways(x, lengths, forward, backward):
    B, T, _ = x.shape
    zero = torch.zeros(B, len(forward[2]))
    real = (torch.arange(T) < lengths[:, None])[..., None]
    ahead = run_rnn(x, zero, *forward) * real
    back = run_rnn(reverse_padded(x, lengths), zero, *backward) * real
    rows = torch.arange(B)
    return torch.cat([ahead, back], -1), torch.cat([ahead[rows, lengths - 1], back[rows, lengths - 1]], -1)


# wrong bidirectional: leaves the padding running
# hint: multiply by the mask of real steps
def run_both_ways(x, lengths, forward, backward):
    zero = torch.zeros(len(x), len(forward[2]))
    ahead = run_rnn(x, zero, *forward)
    back = reverse_padded(run_rnn(reverse_padded(x, lengths), zero, *backward), lengths)
    last = ahead[torch.arange(len(x)), lengths - 1]
    return torch.cat([ahead, back], -1), torch.cat([last, back[:, 0]], -1)


# wrong bidirectional: the forward state at the last column
# hint: which is padding in short rows
def run_both_ways(x, lengths, forward, backward):
    zero = torch.zeros(len(x), len(forward[2]))
    real = (torch.arange(x.shape[1]) < lengths[:, None])[..., None]
    ahead = run_rnn(x, zero, *forward) * real
    back = reverse_padded(run_rnn(reverse_padded(x, lengths), zero, *backward), lengths) * real
    return torch.cat([ahead, back], -1), torch.cat([ahead[:, -1], back[:, 0]], -1)


# wrong bidirectional: the backward state where it starts
# hint: where that network *starts*
def run_both_ways(x, lengths, forward, backward):
    zero = torch.zeros(len(x), len(forward[2]))
    real = (torch.arange(x.shape[1]) < lengths[:, None])[..., None]
    ahead = run_rnn(x, zero, *forward) * real
    back = reverse_padded(run_rnn(reverse_padded(x, lengths), zero, *backward), lengths) * real
    outputs = torch.cat([ahead, back], -1)
    return outputs, outputs[torch.arange(len(x)), lengths - 1]


# wrong bidirectional: one set of weights
# hint: The backward network has its own
def run_both_ways(x, lengths, forward, backward):
    zero = torch.zeros(len(x), len(forward[2]))
    real = (torch.arange(x.shape[1]) < lengths[:, None])[..., None]
    ahead = run_rnn(x, zero, *forward) * real
    back = reverse_padded(run_rnn(reverse_padded(x, lengths), zero, *forward), lengths) * real
    return torch.cat([ahead, back], -1), torch.cat([ahead[torch.arange(len(x)), lengths - 1], back[:, 0]], -1)


# wrong bidirectional: backward first
# hint: The halves are swapped
def run_both_ways(x, lengths, forward, backward):
    zero = torch.zeros(len(x), len(forward[2]))
    real = (torch.arange(x.shape[1]) < lengths[:, None])[..., None]
    ahead = run_rnn(x, zero, *forward) * real
    back = reverse_padded(run_rnn(reverse_padded(x, lengths), zero, *backward), lengths) * real
    return torch.cat([back, ahead], -1), torch.cat([back[:, 0], ahead[torch.arange(len(x)), lengths - 1]], -1)


# right bidirectional: one sequence at a time
def reverse_padded(x, lengths):
    rows = [torch.cat([row[:n].flip(0), row[n:]]) for row, n in zip(x, lengths.tolist())]
    return torch.stack(rows)


def run_both_ways(x, lengths, forward, backward):
    H = len(forward[2])
    outputs = torch.zeros(x.size(0), x.size(1), 2 * H)
    last = torch.zeros(x.size(0), 2 * H)
    for b, n in enumerate(lengths.tolist()):
        row = x[b : b + 1, :n]
        ahead = run_rnn(row, torch.zeros(1, H), *forward)[0]
        back = run_rnn(row.flip(1), torch.zeros(1, H), *backward)[0].flip(0)
        outputs[b, :n] = torch.cat([ahead, back], dim=-1)
        last[b] = torch.cat([ahead[-1], back[0]])
    return outputs, last


# right bidirectional: indices by arithmetic
def reverse_padded(x, lengths):
    t = torch.arange(x.size(1))[None]
    index = torch.where(t < lengths[:, None], lengths[:, None] - 1 - t, t)
    return x[torch.arange(x.size(0))[:, None], index]


# right bidirectional: torch's own network on packed sequences
def run_both_ways(x, lengths, forward, backward):
    B, T, D = x.shape
    H = len(forward[2])
    network = nn.RNN(D, H, batch_first=True, bidirectional=True)
    with torch.no_grad():
        for suffix, (W, U, b) in (("_l0", forward), ("_l0_reverse", backward)):
            getattr(network, "weight_ih" + suffix).copy_(W)
            getattr(network, "weight_hh" + suffix).copy_(U)
            getattr(network, "bias_ih" + suffix).copy_(b)
            getattr(network, "bias_hh" + suffix).zero_()
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        outputs, last = network(packed)
        outputs, _ = nn.utils.rnn.pad_packed_sequence(outputs, batch_first=True, total_length=T)
    return outputs, last.transpose(0, 1).reshape(B, 2 * H)


# right bidirectional: a backward loop that holds its state over the padding
def run_both_ways(x, lengths, forward, backward):
    B, T, _ = x.shape
    H = len(forward[2])
    ahead, back = torch.zeros(B, T, H), torch.zeros(B, T, H)
    h, g = torch.zeros(B, H), torch.zeros(B, H)
    for t in range(T):
        real = (t < lengths)[:, None]
        h = torch.where(real, rnn_step(x[:, t], h, *forward), h)
        ahead[:, t] = torch.where(real, h, torch.zeros_like(h))
    for t in range(T - 1, -1, -1):
        real = (t < lengths)[:, None]
        g = torch.where(real, rnn_step(x[:, t], g, *backward), g)
        back[:, t] = torch.where(real, g, torch.zeros_like(g))
    return torch.cat([ahead, back], dim=-1), torch.cat([h, g], dim=-1)


# wrong bptt: every step for itself
# hint: Nothing comes back from later steps
def bptt(x, h0, W, U, b, upstream):
    states = run_rnn(x, h0, W, U, b)
    before = torch.cat([h0[:, None], states[:, :-1]], 1)
    delta = upstream * (1 - states**2)
    return torch.einsum("bth,btd->hd", delta, x), torch.einsum("bth,btg->hg", delta, before), delta.sum((0, 1))


# wrong bptt: carries through U, not its transpose
# hint: Going back, you use U.T
def bptt(x, h0, W, U, b, upstream):
    states = torch.cat([h0[:, None], run_rnn(x, h0, W, U, b)], 1)
    dW, dU, db, back = 0, 0, 0, torch.zeros_like(h0)
    for t in range(x.size(1) - 1, -1, -1):
        delta = (1 - states[:, t + 1] ** 2) * (upstream[:, t] + back)
        dW, dU, db = dW + delta.T @ x[:, t], dU + delta.T @ states[:, t], db + delta.sum(0)
        back = delta @ U.T
    return dW, dU, db


# wrong bptt: no slope
# hint: is missing on the way back
def bptt(x, h0, W, U, b, upstream):
    states = torch.cat([h0[:, None], run_rnn(x, h0, W, U, b)], 1)
    dW, dU, db, back = 0, 0, 0, torch.zeros_like(h0)
    for t in range(x.size(1) - 1, -1, -1):
        delta = upstream[:, t] + back
        dW, dU, db = dW + delta.T @ x[:, t], dU + delta.T @ states[:, t], db + delta.sum(0)
        back = delta @ U
    return dW, dU, db


# wrong bptt: the state after the step
# hint: pair δ_t with the state *before* the step
def bptt(x, h0, W, U, b, upstream):
    states = torch.cat([h0[:, None], run_rnn(x, h0, W, U, b)], 1)
    dW, dU, db, back = 0, 0, 0, torch.zeros_like(h0)
    for t in range(x.size(1) - 1, -1, -1):
        delta = (1 - states[:, t + 1] ** 2) * (upstream[:, t] + back)
        dW, dU, db = dW + delta.T @ x[:, t], dU + delta.T @ states[:, t + 1], db + delta.sum(0)
        back = delta @ U
    return dW, dU, db


# wrong bptt: stops before the first step
# hint: The first step is left out
def bptt(x, h0, W, U, b, upstream):
    states = torch.cat([h0[:, None], run_rnn(x, h0, W, U, b)], 1)
    dW, dU, db, back = torch.zeros_like(W), torch.zeros_like(U), torch.zeros_like(b), torch.zeros_like(h0)
    for t in range(x.size(1) - 1, 0, -1):
        delta = (1 - states[:, t + 1] ** 2) * (upstream[:, t] + back)
        dW, dU, db = dW + delta.T @ x[:, t], dU + delta.T @ states[:, t], db + delta.sum(0)
        back = delta @ U
    return dW, dU, db


# wrong bptt: only the last upstream gradient
# hint: The loss may depend on every state directly
def bptt(x, h0, W, U, b, upstream):
    states = torch.cat([h0[:, None], run_rnn(x, h0, W, U, b)], 1)
    dW, dU, db, back = 0, 0, 0, upstream[:, -1]
    for t in range(x.size(1) - 1, -1, -1):
        delta = (1 - states[:, t + 1] ** 2) * back
        dW, dU, db = dW + delta.T @ x[:, t], dU + delta.T @ states[:, t], db + delta.sum(0)
        back = delta @ U
    return dW, dU, db


# wrong bptt: averages over the batch
# hint: You average over the batch
def bptt(x, h0, W, U, b, upstream):
    weights = [w.clone().requires_grad_() for w in (W, U, b)]
    loss = (run_rnn(x, h0, *weights) * upstream).sum((1, 2)).mean()
    return torch.autograd.grad(loss, weights)


# wrong bptt: averages over time
# hint: You average over time
def bptt(x, h0, W, U, b, upstream):
    weights = [w.clone().requires_grad_() for w in (W, U, b)]
    loss = (run_rnn(x, h0, *weights) * upstream).sum((0, 2)).mean()
    return torch.autograd.grad(loss, weights)


# wrong bptt: starts from zeros
# hint: Your run starts from zeros
def bptt(x, h0, W, U, b, upstream):
    weights = [w.clone().requires_grad_() for w in (W, U, b)]
    return torch.autograd.grad(run_rnn(x, 0 * h0, *weights), weights, upstream)


# wrong bptt: the order of the results
# hint: in that order
def bptt(x, h0, W, U, b, upstream):
    weights = [w.clone().requires_grad_() for w in (U, W, b)]
    return torch.autograd.grad(run_rnn(x, h0, weights[1], weights[0], weights[2]), weights, upstream)


# wrong bptt: zeros before the first step
# hint: you put zeros there
def bptt(x, h0, W, U, b, upstream):
    h = run_rnn(x, h0, W, U, b)
    before = torch.nn.functional.pad(h[:, :-1], (0, 0, 1, 0))
    delta, deltas = torch.zeros_like(h0), []
    for t in reversed(range(x.shape[1])):
        delta = (1 - h[:, t] ** 2) * (upstream[:, t] + delta @ U)
        deltas.insert(0, delta)
    d = torch.stack(deltas, dim=1)
    return torch.einsum("bth,btd->hd", d, x), torch.einsum("bth,btk->hk", d, before), d.sum(dim=(0, 1))


# right bptt: all δ first, then the sums over time at once
def bptt(x, h0, W, U, b, upstream):
    states = run_rnn(x, h0, W, U, b)
    before = torch.cat([h0[:, None], states[:, :-1]], dim=1)
    deltas, back = [], torch.zeros_like(h0)
    for t in reversed(range(x.size(1))):
        deltas.insert(0, (upstream[:, t] + back) * (1 - states[:, t].square()))
        back = deltas[0] @ U
    delta = torch.stack(deltas, dim=1)
    return (
        torch.einsum("bth,btd->hd", delta, x),
        torch.einsum("bth,btg->hg", delta, before),
        delta.sum(dim=(0, 1)),
    )


# right bptt: forward-mode sensitivities, the other way round
def bptt(x, h0, W, U, b, upstream):
    B, T, D = x.shape
    H = len(b)
    h, by_W, by_U, by_b = h0, torch.zeros(B, H, H, D), torch.zeros(B, H, H, H), torch.zeros(B, H, H)
    dW, dU, db = torch.zeros_like(W), torch.zeros_like(U), torch.zeros_like(b)
    eye = torch.eye(H)
    for t in range(T):
        new = rnn_step(x[:, t], h, W, U, b)
        slope = 1 - new**2
        by_W = torch.einsum(
            "bi,bijd->bijd",
            slope,
            torch.einsum("ik,bkjd->bijd", U, by_W) + eye[None, :, :, None] * x[:, t, None, None, :],
        )
        by_U = torch.einsum(
            "bi,bijd->bijd", slope, torch.einsum("ik,bkjd->bijd", U, by_U) + eye[None, :, :, None] * h[:, None, None, :]
        )
        by_b = torch.einsum("bi,bij->bij", slope, torch.einsum("ik,bkj->bij", U, by_b) + eye)
        h = new
        dW += torch.einsum("bi,bijd->jd", upstream[:, t], by_W)
        dU += torch.einsum("bi,bijd->jd", upstream[:, t], by_U)
        db += torch.einsum("bi,bij->j", upstream[:, t], by_b)
    return dW, dU, db


# right bptt: asks autograd
def bptt(x, h0, W, U, b, upstream):
    weights = [w.double().clone().requires_grad_() for w in (W, U, b)]
    states = []
    h = h0.double()
    for t in range(x.shape[1]):
        h = torch.tanh(x[:, t].double() @ weights[0].T + h @ weights[1].T + weights[2])
        states.append(h)
    (torch.stack(states, 1) * upstream).sum().backward()
    return [w.grad for w in weights]


# wrong clipping: the list alone
# hint: return a pair, the clipped gradients and the norm; you return 3 things
def clip_by_norm(gradients, max_norm):
    norm = torch.cat([g.flatten() for g in gradients]).norm()
    return [g * min(1.0, max_norm / (float(norm) + 1e-12)) for g in gradients]


# wrong step: no return
# hint: is a `return` missing?
def rnn_step(x, h, W, U, b):
    h += torch.tanh(F.linear(x, W, b) + F.linear(h, U)) - h
