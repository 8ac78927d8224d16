import math

import torch


# wrong schedule: the larger line
# hint: min, not max
def noam(step, d_model, warmup):
    lines = [step**-0.5, step * warmup**-1.5]
    return sorted(lines)[-1] / math.sqrt(d_model)


# wrong schedule: forgets the width
# hint: The width is missing
def noam(step, d_model, warmup):
    return step * warmup**-1.5 if step < warmup else 1 / math.sqrt(step)


# wrong schedule: wide models learn faster
# hint: Wide models get a *smaller* rate
def noam(step, d_model, warmup):
    return math.sqrt(d_model) * min(step**-0.5, step * warmup**-1.5)


# wrong schedule: rises with step / warmup
# hint: Both lines must meet
def noam(step, d_model, warmup):
    return min(1 / math.sqrt(step), step / warmup) / math.sqrt(d_model)


# wrong schedule: a first step of zero
# hint: so it is wasted
def warmup_cosine(step, steps, warmup, floor):
    if step < warmup:
        return step / warmup
    done = min(1.0, (step + 1 - warmup) / (steps - warmup))
    return floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * done))


# wrong schedule: the cosine counts from the start
# hint: there is a jump after the warm-up
def warmup_cosine(step, steps, warmup, floor):
    if step < warmup:
        return (step + 1) / warmup
    done = min(1.0, (step + 1) / steps)
    return floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * done))


# wrong schedule: falls to nothing
# hint: It must end at the floor
def warmup_cosine(step, steps, warmup, floor):
    if step < warmup:
        return (step + 1) / warmup
    return 0.5 * (1 + math.cos(math.pi * min(1.0, (step + 1 - warmup) / (steps - warmup))))


# wrong schedule: the floor on top
# hint: so the peak is above 1
def warmup_cosine(step, steps, warmup, floor):
    if step < warmup:
        return (step + 1) / warmup
    return floor + 0.5 * (1 + math.cos(math.pi * min(1.0, (step + 1 - warmup) / (steps - warmup))))


# right schedule: two cases
def noam(step, d_model, warmup):
    rate = step / warmup / math.sqrt(warmup) if step < warmup else 1 / math.sqrt(step)
    return rate / math.sqrt(d_model)


def warmup_cosine(step, steps, warmup, floor):
    if step + 1 <= warmup:
        return (step + 1) / warmup
    if step >= steps:
        return floor
    turn = math.pi * (step + 1 - warmup) / (steps - warmup)
    return (1 + floor) / 2 + (1 - floor) / 2 * math.cos(turn)


# right schedule: in tensors
def noam(step, d_model, warmup):
    step = torch.tensor(float(step))
    return torch.minimum(step.rsqrt(), step * warmup**-1.5) * d_model**-0.5


def warmup_cosine(step, steps, warmup, floor):
    rise = torch.tensor((step + 1) / warmup if warmup else 1.0).clamp(max=1)
    done = torch.tensor((step + 1 - warmup) / (steps - warmup)).clamp(0, 1)
    return torch.minimum(rise, floor + (1 - floor) * (1 + torch.cos(math.pi * done)) / 2)


# wrong rectify: always the longest
# hint: You return the longest length
def effective_length(step, beta2):
    return (1 + beta2) / (1 - beta2)


# wrong rectify: the step is missing
# hint: A step t is missing
def effective_length(step, beta2):
    power = beta2**step
    return 2 / (1 - beta2) - 1 - 2 * power / (1 - power)


# wrong rectify: one too many
# hint: you leave out the −1
def effective_length(step, beta2):
    power = beta2**step
    return 2 / (1 - beta2) - 2 * step * power / (1 - power)


# wrong rectify: no root
# hint: its square root
def rectify(step, beta2):
    longest, length = 2 / (1 - beta2) - 1, effective_length(step, beta2)
    if length <= 5:
        return 0.0
    return (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)


# wrong rectify: the ratio upside down
# hint: Upside down
def rectify(step, beta2):
    longest, length = 2 / (1 - beta2) - 1, effective_length(step, beta2)
    if length <= 5:
        return 0.0
    return math.sqrt((longest - 4) * (longest - 2) * length / ((length - 4) * (length - 2) * longest))


# wrong rectify: plain Adam
# hint: This is Adam
def radam(weight, gradients, lr, beta1, beta2):
    weight = weight.clone().requires_grad_()
    optimizer = torch.optim.Adam([weight], lr=lr, betas=(beta1, beta2))
    for gradient in gradients:
        weight.grad = gradient
        optimizer.step()
    return weight.detach()


# wrong rectify: waits without moving
# hint: You stand still
def radam(weight, gradients, lr, beta1, beta2):
    weight = weight.clone()
    m, v = torch.zeros_like(weight), torch.zeros_like(weight)
    for t, g in enumerate(gradients, 1):
        m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g * g
        weight -= lr * rectify(t, beta2) * (m / (1 - beta1**t)) / ((v / (1 - beta2**t)).sqrt() + 1e-8)
    return weight


# wrong rectify: momentum with its bias
# hint: You use m as it is
def radam(weight, gradients, lr, beta1, beta2):
    weight = weight.clone()
    m, v = torch.zeros_like(weight), torch.zeros_like(weight)
    for t, g in enumerate(gradients, 1):
        m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g * g
        r = rectify(t, beta2)
        weight -= lr * r * m / ((v / (1 - beta2**t)).sqrt() + 1e-8) if r else lr * m
    return weight


# right rectify: torch's own
def effective_length(step, beta2):
    return (1 + beta2) / (1 - beta2) - 2 * step / (beta2**-step - 1)


def rectify(step, beta2):
    a, b = effective_length(step, beta2), (1 + beta2) / (1 - beta2)
    return math.sqrt((a - 4) / (b - 4) * (a - 2) / (b - 2) * b / a) if a > 5 else 0


def radam(weight, gradients, lr, beta1, beta2):
    weight = weight.clone().requires_grad_()
    optimizer = torch.optim.RAdam([weight], lr=lr, betas=(beta1, beta2))
    for gradient in gradients:
        weight.grad = gradient.clone()
        optimizer.step()
    return weight.detach()


# right rectify: moments by their sums
def effective_length(step, beta2):
    shares = torch.tensor([(1 - beta2) * beta2 ** (step - i) / (1 - beta2**step) for i in range(1, step + 1)])
    centre = float(sum(share * (step + 1 - i) for i, share in enumerate(shares.tolist(), 1)))
    return 2 * centre - 1


def rectify(step, beta2):
    longest, length = 2 / (1 - beta2) - 1, effective_length(step, beta2)
    if not length > 5:
        return 0.0
    return ((length - 4) * (length - 2) * longest) ** 0.5 / ((longest - 4) * (longest - 2) * length) ** 0.5


def radam(weight, gradients, lr, beta1, beta2):
    out, m, v = weight.clone(), 0, 0
    for t in range(1, len(gradients) + 1):
        g = gradients[t - 1]
        m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g**2
        r = rectify(t, beta2)
        out = out - lr * (r / (1e-8 + (v / (1 - beta2**t)).sqrt()) if r > 0 else 1.0) * m / (1 - beta1**t)
    return out


# wrong accumulate: the mean of means
# hint: You average the means
def accumulate(weight, x, y, lengths):
    total = torch.zeros_like(weight)
    for rows, wanted, n in zip(x, y, lengths):
        w = weight.clone().requires_grad_()
        (gradient,) = torch.autograd.grad((rows[:n] @ w - wanted[:n]).square().mean(), w)
        total += gradient / len(x)
    return total


# wrong accumulate: adds means
# hint: You add the means
def accumulate(weight, x, y, lengths):
    w = weight.clone().requires_grad_()
    for rows, wanted, n in zip(x, y, lengths):
        (rows[:n] @ w - wanted[:n]).square().mean().backward()
    return w.grad


# wrong accumulate: the sum
# hint: You never divide
def accumulate(weight, x, y, lengths):
    w = weight.clone().requires_grad_()
    for rows, wanted, n in zip(x, y, lengths):
        (rows[:n] @ w - wanted[:n]).square().sum().backward()
    return w.grad


# wrong accumulate: padding learns too
# hint: Padding is counted as examples
def accumulate(weight, x, y, lengths):
    w = weight.clone().requires_grad_()
    (x @ w - y).square().mean().backward()
    return w.grad


# wrong accumulate: divides by padding
# hint: but divide by it
def accumulate(weight, x, y, lengths):
    w = weight.clone().requires_grad_()
    mask = torch.arange(x.shape[1]) < lengths[:, None]
    ((x @ w - y) * mask).square().mean().backward()
    return w.grad


# wrong accumulate: replaces instead of adding
# hint: Only the last batch is left
def accumulate(weight, x, y, lengths):
    for rows, wanted, n in zip(x, y, lengths):
        w = weight.clone().requires_grad_()
        (gradient,) = torch.autograd.grad((rows[:n] @ w - wanted[:n]).square().sum() / n, w)
    return gradient


# right accumulate: by hand
def accumulate(weight, x, y, lengths):
    total, count = torch.zeros_like(weight), 0
    for k in range(len(x)):
        for i in range(int(lengths[k])):
            total = total + 2 * (x[k, i] @ weight - y[k, i]) * x[k, i]
            count += 1
    return total / count


# right accumulate: all at once
def accumulate(weight, x, y, lengths):
    w = weight.clone().requires_grad_()
    mask = torch.arange(x.shape[1]) < lengths[:, None]
    (x[mask] @ w - y[mask]).square().mean().backward()
    return w.grad


# wrong clip: clips what is still scaled
# hint: Unscale first
def unscale_and_clip(gradients, scale, max_norm):
    norm = torch.cat([g.flatten() for g in gradients]).norm()
    factor = min(1.0, float(max_norm / norm)) if norm > 0 else 1.0
    return [g * factor / scale for g in gradients], norm


# wrong clip: forgets the scale
# hint: The scale is still in your gradients
def unscale_and_clip(gradients, scale, max_norm):
    norm = torch.cat([g.flatten() for g in gradients]).norm()
    factor = min(1.0, float(max_norm / norm)) if norm > 0 else 1.0
    return [g * factor for g in gradients], norm


# wrong clip: each by itself
# hint: Each tensor is clipped by its own norm
def unscale_and_clip(gradients, scale, max_norm):
    small = [g / scale for g in gradients]
    norm = torch.cat([g.flatten() for g in small]).norm()
    return [g * min(1.0, max_norm / max(float(g.norm()), 1e-12)) for g in small], norm


# wrong clip: the norm after clipping
# hint: Return the norm from before clipping
def unscale_and_clip(gradients, scale, max_norm):
    small = [g / scale for g in gradients]
    norm = torch.cat([g.flatten() for g in small]).norm()
    factor = min(1.0, max_norm / max(float(norm), 1e-12))
    return [g * factor for g in small], norm * factor


# wrong clip: grows after every good step
# hint: Wait for `interval` of them
def next_scale(scale, good_steps, is_finite, interval):
    return (2 * scale if is_finite else scale / 2), 0


# wrong clip: the count survives an overflow
# hint: After an overflow the count starts again
def next_scale(scale, good_steps, is_finite, interval):
    if not is_finite:
        return scale / 2, good_steps
    good_steps += 1
    return (scale * 2, 0) if good_steps == interval else (scale, good_steps)


# wrong clip: a step late
# hint: one step late
def next_scale(scale, good_steps, is_finite, interval):
    if not is_finite:
        return scale * 0.5, 0
    if good_steps >= interval:
        return scale * 2, 0
    return scale, good_steps + 1


# right clip: torch's own clipping
def unscale_and_clip(gradients, scale, max_norm):
    parameters = [torch.zeros_like(g).requires_grad_() for g in gradients]
    for parameter, gradient in zip(parameters, gradients):
        parameter.grad = gradient / scale
    norm = torch.nn.utils.clip_grad_norm_(parameters, max_norm)
    return [parameter.grad for parameter in parameters], norm


def next_scale(scale, good_steps, is_finite, interval):
    if is_finite:
        good_steps += 1
        return (scale * 2, 0) if good_steps >= interval else (scale, good_steps)
    return scale * 0.5, 0


# right clip: one vector, and a table of cases
def unscale_and_clip(gradients, scale, max_norm):
    vector = torch.cat([g.reshape(-1) for g in gradients]) / scale
    norm = vector.norm()
    if norm > max_norm:
        vector = vector * (max_norm / norm)
    parts = vector.split([g.numel() for g in gradients])
    return tuple(part.reshape(g.shape) for part, g in zip(parts, gradients)), float(norm)


def next_scale(scale, good_steps, is_finite, interval):
    grows = is_finite and good_steps == interval - 1
    factor = 2.0 if grows else 1.0 if is_finite else 0.5
    return scale * factor, good_steps + 1 if is_finite and not grows else 0


# wrong rectify: writes into the weights it was given
# hint: write into the weights
def radam(weight, gradients, lr, beta1, beta2):
    mean, square = torch.zeros_like(weight), torch.zeros_like(weight)
    for step, gradient in enumerate(gradients, 1):
        mean = beta1 * mean + (1 - beta1) * gradient
        square = beta2 * square + (1 - beta2) * gradient**2
        move, factor = mean / (1 - beta1**step), rectify(step, beta2)
        if factor > 0:
            move = factor * move / ((square / (1 - beta2**step)).sqrt() + 1e-8)
        weight -= lr * move
    return weight


# wrong rectify: the small number under the root
# hint: gradients of 10⁻⁴
def radam(weight, gradients, lr, beta1, beta2):
    mean, square = torch.zeros_like(weight), torch.zeros_like(weight)
    for step, gradient in enumerate(gradients, 1):
        mean = beta1 * mean + (1 - beta1) * gradient
        square = beta2 * square + (1 - beta2) * gradient**2
        move, factor = mean / (1 - beta1**step), rectify(step, beta2)
        if factor > 0:
            move = factor * move / (square / (1 - beta2**step) + 1e-8).sqrt()
        weight = weight - lr * move
    return weight


# right accumulate: one matrix of the real examples, in float64
def accumulate(weight, x, y, lengths):
    inputs = torch.cat([x[k, :count] for k, count in enumerate(lengths.tolist())]).double()
    targets = torch.cat([y[k, :count] for k, count in enumerate(lengths.tolist())]).double()
    return 2 * inputs.T @ (inputs @ weight.double() - targets) / len(targets)
