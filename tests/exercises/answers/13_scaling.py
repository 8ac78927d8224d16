import math

import numpy as np
import torch


# wrong count: no biases
# hint: The biases are missing
def gpt_parameters(vocab_size, max_len, d_model, num_layers):
    block = 12 * d_model**2 + 4 * d_model
    return (vocab_size + max_len) * d_model + num_layers * block + 2 * d_model


# wrong count: a head of its own
# hint: You count a head of its own
def gpt_parameters(vocab_size, max_len, d_model, num_layers):
    block = 12 * d_model**2 + 13 * d_model
    return (2 * vocab_size + max_len) * d_model + num_layers * block + 2 * d_model


# wrong count: stops before the last norm
# hint: The norm after the last block
def gpt_parameters(vocab_size, max_len, d_model, num_layers):
    return (vocab_size + max_len) * d_model + num_layers * (12 * d_model**2 + 13 * d_model)


# wrong count: keys without values
# hint: Keys *and* values are kept
def cache_bytes(num_layers, num_kv_heads, head_dim, batch, length, number_bytes):
    return num_layers * num_kv_heads * head_dim * batch * length * number_bytes


# wrong count: the cache of one layer
# hint: You count one layer
def cache_bytes(num_layers, num_kv_heads, head_dim, batch, length, number_bytes):
    return 2 * num_kv_heads * head_dim * batch * length * number_bytes


# right count: in one line
def gpt_parameters(vocab_size, max_len, d_model, num_layers):
    return d_model * (vocab_size + max_len + 2 + num_layers * (12 * d_model + 13))


def cache_bytes(num_layers, num_kv_heads, head_dim, batch, length, number_bytes):
    return math.prod((2, num_layers, num_kv_heads, head_dim, batch, length, number_bytes))


# right count: layer by layer, and from tensors that are never filled
def gpt_parameters(vocab_size, max_len, d_model, num_layers):
    def linear(rows, columns):
        return (rows + 1) * columns

    total = vocab_size * d_model + max_len * d_model
    for _ in range(num_layers):
        total += 4 * linear(d_model, d_model)
        total += linear(d_model, 4 * d_model) + linear(4 * d_model, d_model)
        total += 2 * d_model + 2 * d_model
    return total + 2 * d_model


def cache_bytes(num_layers, num_kv_heads, head_dim, batch, length, number_bytes):
    keys = torch.empty(batch, num_kv_heads, length, head_dim, device="meta")
    return num_layers * (keys.numel() + keys.numel()) * number_bytes


# wrong compute: the forward pass alone
# hint: the forward pass alone
def training_flops(parameters, tokens):
    return 2 * parameters * tokens


# wrong compute: a multiplication and an addition as one
# hint: as one operation
def training_flops(parameters, tokens):
    return 3 * parameters * tokens


# wrong compute: hours
# hint: Those are hours
def training_days(parameters, tokens, gpus, peak, utilisation):
    return 6 * parameters * tokens / (gpus * peak * utilisation) / 3600


# wrong compute: never idle
# hint: No GPU reaches its peak
def training_days(parameters, tokens, gpus, peak, utilisation):
    return 6 * parameters * tokens / (gpus * peak) / 86_400


# wrong compute: faster when idle
# hint: makes the training *longer*
def training_days(parameters, tokens, gpus, peak, utilisation):
    return 6 * parameters * tokens * utilisation / (gpus * peak) / 86_400


# right compute: passes apart
def training_flops(parameters, tokens):
    forward = 2 * parameters
    backward = 2 * forward
    return tokens * (forward + backward)


def training_days(parameters, tokens, gpus, peak, utilisation):
    seconds = training_flops(parameters, tokens) / gpus / peak / utilisation
    return seconds / 60 / 60 / 24


# right compute: days of one GPU first
def training_flops(parameters, tokens):
    return parameters * tokens * 6.0


def training_days(parameters, tokens, gpus, peak, utilisation):
    in_a_day = peak * utilisation * 86_400
    return 6 * parameters * tokens / in_a_day / gpus


# wrong law: the floor is left in
# hint: The floor is still in your losses
def fit_law(sizes, losses, floor):
    slope, start = np.polyfit(np.log(sizes.numpy()), np.log(losses.numpy()), 1)
    return math.exp(start), -slope


# wrong law: rises
# hint: Your exponent has the wrong sign
def fit_law(sizes, losses, floor):
    slope, start = np.polyfit(np.log(sizes.numpy()), np.log(losses.numpy() - floor), 1)
    return math.exp(start), slope


# wrong law: the logarithm of the factor
# hint: You return log A
def fit_law(sizes, losses, floor):
    slope, start = np.polyfit(np.log(sizes.numpy()), np.log(losses.numpy() - floor), 1)
    return start, -slope


# wrong law: through two points
# hint: Only the first and the last point
def fit_law(sizes, losses, floor):
    x, y = sizes.log(), (losses - floor).log()
    slope = (y[-1] - y[0]) / (x[-1] - x[0])
    return math.exp(y[0] - slope * x[0]), -float(slope)


# wrong law: the floor that fits worst
# hint: with the *largest* error
def best_floor(sizes, losses, floors):
    def error(floor):
        factor, exponent = fit_law(sizes, losses, floor)
        return float(((losses - floor).log() - (factor * sizes**-exponent).log()).square().sum())

    return max(floors.tolist(), key=error)


# right law: with numpy
def fit_law(sizes, losses, floor):
    slope, start = np.polyfit(np.log(sizes.double().numpy()), np.log(losses.double().numpy() - floor), 1)
    return np.exp(start), -slope


def best_floor(sizes, losses, floors):
    x = np.log(sizes.double().numpy())

    def error(floor):
        y = np.log(losses.double().numpy() - floor)
        return np.square(y - np.polyval(np.polyfit(x, y, 1), x)).sum()

    return min(floors.tolist(), key=error)


# right law: by least squares of a matrix
def fit_law(sizes, losses, floor):
    x, y = sizes.double().log(), (losses.double() - floor).log()
    columns = torch.stack((torch.ones_like(x), -x), dim=1)
    start, exponent = torch.linalg.lstsq(columns, y[:, None]).solution[:, 0]
    return start.exp(), exponent


def best_floor(sizes, losses, floors):
    best = None
    for floor in floors:
        A, alpha = fit_law(sizes, losses, floor)
        error = ((losses - floor).log() - A.log() + alpha * sizes.log()).square().sum()
        if best is None or error < best[0]:
            best = (error, floor)
    return best[1]


# wrong valley: the best of those tried
# hint: the best of the sizes you tried
def best_size(sizes, losses):
    place = int(losses.argmin())
    return float(sizes[place]), float(losses[place])


# wrong valley: the logarithm
# hint: You return log N
def best_size(sizes, losses):
    a, b, c = np.polyfit(np.log(sizes.numpy()), losses.numpy(), 2)
    return -b / (2 * a), c - b**2 / (4 * a)


# wrong valley: half the way is forgotten
# hint: you leave out the 2
def best_size(sizes, losses):
    a, b, c = np.polyfit(np.log(sizes.numpy()), losses.numpy(), 2)
    x = -b / a
    return math.exp(x), a * x**2 + b * x + c


# right valley: with numpy, in powers of ten
def best_size(sizes, losses):
    a, b, c = np.polyfit(np.log10(sizes.numpy()), losses.numpy(), 2)
    return 10 ** (-b / (2 * a)), c - b**2 / (4 * a)


# right valley: from the normal equations
def best_size(sizes, losses):
    x = sizes.log2()
    x0 = x.mean()
    rows = torch.stack((torch.ones_like(x), x - x0, (x - x0) ** 2))
    c, b, a = torch.linalg.solve(rows @ rows.mT, rows @ losses)
    lowest = -b / (2 * a)
    return 2 ** (lowest + x0), c + b * lowest + a * lowest**2


# wrong spend: exponents swapped
# hint: N grows with the exponent of the *data*
def spend(flops, A, alpha, B, beta):
    N = (alpha * A / (beta * B)) ** (1 / (alpha + beta)) * (flops / 6) ** (alpha / (alpha + beta))
    return N, flops / 6 / N


# wrong spend: an operation for each
# hint: A parameter and a token cost six operations
def spend(flops, A, alpha, B, beta):
    N = (alpha * A / (beta * B) * flops**beta) ** (1 / (alpha + beta))
    return N, flops / N


# wrong spend: tokens first
# hint: The order is (N, D)
def spend(flops, A, alpha, B, beta):
    N = (alpha * A / (beta * B) * (flops / 6) ** beta) ** (1 / (alpha + beta))
    return flops / 6 / N, N


# wrong spend: half and half
# hint: You split the budget evenly
def spend(flops, A, alpha, B, beta):
    N = math.sqrt(flops / 6)
    return N, N


# right spend: by halving
def spend(flops, A, alpha, B, beta):
    low, high = 0.0, math.log(flops / 6)
    for _ in range(200):
        middle = (low + high) / 2
        N = math.exp(middle)
        D = flops / 6 / N
        if alpha * A * N**-alpha > beta * B * D**-beta:
            low = middle
        else:
            high = middle
    return N, flops / 6 / N


# right spend: from the tokens
def spend(flops, A, alpha, B, beta):
    D = (beta * B / (alpha * A)) ** (1 / (alpha + beta)) * (flops / 6) ** (alpha / (alpha + beta))
    return flops / (6 * D), D


# wrong route: the surest first
# hint: Room is given to the first that come
def route(probabilities, capacity):
    chosen = probabilities.argmax(dim=1)
    kept = torch.zeros(len(chosen), dtype=torch.bool)
    for expert in range(probabilities.shape[1]):
        mine = (chosen == expert).nonzero()[:, 0]
        order = probabilities[mine, expert].argsort(descending=True)
        kept[mine[order[:capacity]]] = True
    return chosen, kept


# wrong route: counts from zero
# hint: yours take one more
def route(probabilities, capacity):
    chosen = probabilities.argmax(dim=1)
    before = [int((chosen[:t] == chosen[t]).sum()) for t in range(len(chosen))]
    return chosen, torch.tensor(before) <= capacity


# wrong route: one queue for all
# hint: Every expert has its own room
def route(probabilities, capacity):
    chosen = probabilities.argmax(dim=1)
    return chosen, torch.arange(len(chosen)) < capacity


# wrong route: without the number of experts
# hint: The factor E is missing
def balance(probabilities):
    chosen = probabilities.argmax(dim=1)
    shares = torch.stack([(chosen == i).float().mean() for i in range(probabilities.shape[1])])
    return (shares * probabilities.mean(dim=0)).sum()


# wrong route: shares with themselves
# hint: You multiply the shares with themselves
def balance(probabilities):
    experts = probabilities.shape[1]
    shares = torch.bincount(probabilities.argmax(dim=1), minlength=experts) / len(probabilities)
    return experts * (shares * shares).sum()


# right route: in a loop
def route(probabilities, capacity):
    room = [capacity] * probabilities.shape[1]
    chosen, kept = [], []
    for row in probabilities.tolist():
        expert = max(range(len(row)), key=lambda i: row[i])
        chosen.append(expert)
        kept.append(room[expert] > 0)
        room[expert] -= 1
    return torch.tensor(chosen), torch.tensor(kept)


def balance(probabilities):
    tokens, experts = probabilities.shape
    total = torch.zeros(())
    for i in range(experts):
        f = sum(int(row.argmax()) == i for row in probabilities) / tokens
        total = total + f * probabilities[:, i].mean()
    return experts * total


# right route: by comparing all pairs
def route(probabilities, capacity):
    _, chosen = probabilities.max(dim=1)
    same = chosen[:, None] == chosen[None, :]
    return chosen, same.tril().sum(dim=1) <= capacity


def balance(probabilities):
    experts = probabilities.shape[1]
    shares = torch.bincount(probabilities.argmax(dim=1), minlength=experts) / len(probabilities)
    return experts * shares.to(probabilities.dtype) @ probabilities.mean(dim=0)


# wrong route: a balance that is a plain number
# hint: no gradient flows through a number
def balance(probabilities):
    experts = probabilities.shape[-1]
    share = torch.nn.functional.one_hot(probabilities.argmax(dim=-1), experts).float().mean(dim=0)
    return (experts * (share * probabilities.mean(dim=0)).sum()).item()


# wrong count: the bias of the wide layer is missing
# hint: so many are in the bias of the wide layer
def gpt_parameters(vocab_size, max_len, d_model, num_layers):
    block = 12 * d_model**2 + 9 * d_model
    return (vocab_size + max_len + 2) * d_model + num_layers * block


# wrong law: the exponent first
# hint: The order is (A, α)
def fit_law(sizes, losses, floor):
    x, y = sizes.log(), (losses - floor).log()
    slope = ((x - x.mean()) * (y - y.mean())).sum() / (x - x.mean()).square().sum()
    return -float(slope), float((y.mean() - slope * x.mean()).exp())
