import torch


# wrong returns: sums forward
# hint: earned *so far*
def returns_to_go(rewards, lengths):
    real = torch.arange(rewards.shape[1])[None] < lengths[:, None]
    return rewards.masked_fill(~real, 0.0).cumsum(dim=1) * real


# wrong returns: begins after its own reward
# hint: begin one step too late
def returns_to_go(rewards, lengths):
    out = torch.zeros_like(rewards)
    for b, n in enumerate(lengths.tolist()):
        for t in range(n):
            out[b, t] = rewards[b, t + 1 : n].sum()
    return out


# wrong returns: the whole return everywhere
# hint: the return of the whole episode
def returns_to_go(rewards, lengths):
    out = torch.zeros_like(rewards)
    for b, n in enumerate(lengths.tolist()):
        out[b, :n] = rewards[b, :n].sum()
    return out


# wrong returns: padding in the sums
# hint: Padding is counted
def returns_to_go(rewards, lengths):
    real = torch.arange(rewards.shape[1])[None] < lengths[:, None]
    return rewards.flip([1]).cumsum(1).flip([1]) * real


# wrong returns: padding left in the answer
# hint: not zero after an episode's end
def returns_to_go(rewards, lengths):
    out = rewards.clone()
    for b, n in enumerate(lengths.tolist()):
        out[b, :n] = rewards[b, :n].flip(0).cumsum(0).flip(0)
    return out


# wrong returns: takes the padding off again
# hint: An episode of no steps has only zeros
def returns_to_go(rewards, lengths):
    real = torch.arange(rewards.shape[1])[None] < lengths[:, None]
    everything = rewards.sum(1, keepdim=True) - rewards.cumsum(1) + rewards
    padding = (rewards * ~real).sum(1, keepdim=True)
    return (everything - padding) * real


# right returns: from the end, step by step
def returns_to_go(rewards, lengths):
    out = torch.zeros_like(rewards)
    for b, n in enumerate(lengths.tolist()):
        total = 0.0
        for t in reversed(range(n)):
            total = total + rewards[b, t]
            out[b, t] = total
    return out


# right returns: an upper triangle
def returns_to_go(rewards, lengths):
    real = torch.arange(rewards.shape[1])[None] < lengths[:, None]
    rewards = rewards.masked_fill(~real, 0)
    later = torch.ones(rewards.shape[1], rewards.shape[1]).triu()
    return (rewards @ later.T).masked_fill(~real, 0)


# wrong tokens: three blocks
# hint: All returns stand first
def interleave(returns, states, actions):
    return torch.cat([returns, states, actions], 1)


# wrong tokens: state first
# hint: The state stands before its return-to-go
def interleave(returns, states, actions):
    return torch.cat([states, returns, actions], -1).reshape(len(states), -1, states.shape[-1])


# wrong tokens: action before state
# hint: The action stands before its state
def interleave(returns, states, actions):
    out = returns.repeat_interleave(3, dim=1)
    out[:, 1::3], out[:, 2::3] = actions, states
    return out


# wrong tokens: torn apart
# hint: Your vectors are torn
def interleave(returns, states, actions):
    return torch.stack([returns, states, actions], -1).flatten(2).reshape(len(states), -1, states.shape[2])


# wrong tokens: reads at the actions
# hint: at the *actions*
def at_states(features):
    return features.unflatten(1, (-1, 3))[:, :, 2]


# wrong tokens: reads at the returns
# hint: at the returns-to-go
def at_states(features):
    return features.unflatten(1, (-1, 3))[:, :, 0]


# wrong tokens: reads a block
# hint: a block of neighbours
def at_states(features):
    return features.chunk(3, dim=1)[1]


# wrong tokens: padding in sight
# hint: Padding may be attended
def token_mask(real):
    T = 3 * real.shape[1]
    return (torch.arange(T) <= torch.arange(T)[:, None]).repeat(len(real), 1, 1)


# wrong tokens: the future in sight
# hint: Later tokens may be attended
def token_mask(real):
    tokens = torch.stack([real, real, real], -1).flatten(1)
    return tokens[:, None].repeat(1, tokens.shape[1], 1)


# wrong tokens: causal in steps
# hint: causal in *steps*
def token_mask(real):
    step = torch.arange(3 * real.shape[1]) // 3
    tokens = torch.stack([real, real, real], -1).flatten(1)
    return (step <= step[:, None]) & tokens[:, None]


# wrong tokens: copies one after the other
# hint: repeat the whole mask three times
def token_mask(real):
    tokens = torch.cat([real, real, real], 1)
    T = tokens.shape[1]
    return torch.ones(T, T).tril().bool() & tokens[:, None]


# wrong tokens: turned
# hint: The mask is turned
def token_mask(real):
    tokens = torch.stack([real, real, real], -1).flatten(1)
    T = tokens.shape[1]
    return torch.ones(T, T).triu(1).bool() | ~tokens[:, None]


# right tokens: by assignment
def interleave(returns, states, actions):
    B, K, D = returns.shape
    out = returns.new_zeros(B, 3 * K, D)
    out[:, 0::3] = returns
    out[:, 1::3] = states
    out[:, 2::3] = actions
    return out


def at_states(features):
    return torch.stack([features[:, t] for t in range(1, features.shape[1], 3)], dim=1)


def token_mask(real):
    tokens = torch.stack([real, real, real], -1).flatten(1)
    T = tokens.shape[1]
    return (torch.arange(T) <= torch.arange(T)[:, None]) & tokens[:, None]


# right tokens: side by side in width
def interleave(returns, states, actions):
    return torch.cat([returns, states, actions], dim=-1).reshape(len(returns), -1, returns.shape[-1])


def at_states(features):
    return features.unflatten(1, (-1, 3))[:, :, 1]


def token_mask(real):
    B, K = real.shape
    out = torch.zeros(B, 3 * K, 3 * K, dtype=torch.bool)
    for b in range(B):
        for i in range(3 * K):
            for j in range(i + 1):
                out[b, i, j] = real[b, j // 3]
    return out


# wrong window: the first steps
# hint: You keep the *first* steps
def last_steps(values, context):
    kept = values[:context]
    n = context - len(kept)
    return torch.cat([torch.zeros(n, values.shape[1]), kept]), torch.tensor([False] * n + [True] * len(kept))


# wrong window: padded behind
# hint: The padding stands after the steps
def last_steps(values, context):
    kept = values[-context:]
    n = context - len(kept)
    return torch.cat([kept, torch.zeros(n, values.shape[1])]), torch.tensor([True] * len(kept) + [False] * n)


# wrong window: marks the padding
# hint: Your second answer is turned
def last_steps(values, context):
    kept = values[-context:]
    n = context - len(kept)
    return torch.cat([torch.zeros(n, values.shape[1]), kept]), torch.tensor([True] * n + [False] * len(kept))


# wrong window: repeats the first step
# hint: The padding must be zeros
def last_steps(values, context):
    kept = values[-context:]
    n = context - len(kept)
    return torch.cat([kept[:1].expand(n, -1), kept]), torch.arange(context) >= n


# right window: an index for each row
def last_steps(values, context):
    where = torch.arange(len(values) - context, len(values))
    real = where >= 0
    return values[where.clamp(min=0)] * real[:, None], real


# right window: written into zeros
def last_steps(values, context):
    out = torch.zeros(context, values.shape[1])
    real = torch.zeros(context, dtype=torch.bool)
    n = min(context, len(values))
    out[context - n :] = values[len(values) - n :]
    real[context - n :] = True
    return out, real


# wrong pursue: asks the same again
# hint: the same return at every step
def pursue(model, move, start, asked, context, max_steps):
    R, S, A, earned = [asked], [start], [], 0.0
    while len(A) < max_steps:
        A.append(model(R[-context:], S[-context:], A[max(0, len(S) - context) :]))
        s, r, over = move(S[-1], A[-1])
        earned += r
        if over:
            break
        S.append(s)
        R.append(asked)
    return A, R[: len(A)], earned


# wrong pursue: adds the reward
# hint: You *add* each reward
def pursue(model, move, start, asked, context, max_steps):
    R, S, A, earned = [asked], [start], [], 0.0
    while len(A) < max_steps:
        A.append(model(R[-context:], S[-context:], A[max(0, len(S) - context) :]))
        s, r, over = move(S[-1], A[-1])
        earned += r
        if over:
            break
        S.append(s)
        R.append(R[-1] + r)
    return A, R[: len(A)], earned


# wrong pursue: shows everything
# hint: shown the whole episode
def pursue(model, move, start, asked, context, max_steps):
    R, S, A, earned = [asked], [start], [], 0.0
    while len(A) < max_steps:
        A.append(model(list(R), list(S), list(A)))
        s, r, over = move(S[-1], A[-1])
        earned += r
        if over:
            break
        S.append(s)
        R.append(R[-1] - r)
    return A, R[: len(A)], earned


# wrong pursue: one action too many
# hint: as many actions as states
def pursue(model, move, start, asked, context, max_steps):
    R, S, A, earned = [asked], [start], [], 0.0
    while len(A) < max_steps:
        A.append(model(R[-context:], S[-context:], A[-context:]))
        s, r, over = move(S[-1], A[-1])
        earned += r
        if over:
            break
        S.append(s)
        R.append(R[-1] - r)
    return A, R[: len(A)], earned


# wrong pursue: does not stop
# hint: after the episode is over
def pursue(model, move, start, asked, context, max_steps):
    R, S, A, earned = [asked], [start], [], 0.0
    for _ in range(max_steps):
        A.append(model(R[-context:], S[-context:], A[max(0, len(S) - context) :]))
        s, r, _ = move(S[-1], A[-1])
        earned += r
        S.append(s)
        R.append(R[-1] - r)
    return A, R[:-1], earned


# wrong pursue: loses the last reward
# hint: The last reward is missing
def pursue(model, move, start, asked, context, max_steps):
    R, S, A, earned = [asked], [start], [], 0.0
    for _ in range(max_steps):
        A.append(model(R[-context:], S[-context:], A[max(0, len(S) - context) :]))
        s, r, over = move(S[-1], A[-1])
        if over:
            break
        earned += r
        S.append(s)
        R.append(R[-1] - r)
    return A, R[: len(A)], earned


# right pursue: asked minus all that was earned
def pursue(model, move, start, asked, context, max_steps):
    states, actions, rewards, over = [start], [], [], False
    shown = []
    while not over and len(actions) < max_steps:
        shown.append(asked - sum(rewards))
        first = max(0, len(states) - context)
        action = model(shown[first:], states[first:], actions[first:])
        state, reward, over = move(states[-1], action)
        actions.append(action)
        rewards.append(reward)
        states.append(state)
    return actions, shown, sum(rewards)


# right pursue: a window that forgets
def pursue(model, move, start, asked, context, max_steps):
    actions, asks, earned = [], [], 0
    window = [(asked, start)]
    done = []
    for _ in range(max_steps):
        R, s = window[-1]
        a = model([r for r, _ in window], [x for _, x in window], list(done))
        asks.append(R)
        actions.append(a)
        s, r, over = move(s, a)
        earned += r
        if over:
            return actions, asks, earned
        window, done = [*window, (R - r, s)][-context:], [*done, a]
        done = done[len(done) - len(window) + 1 :]
    return actions, asks, earned
