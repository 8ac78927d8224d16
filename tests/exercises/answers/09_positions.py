import math

import torch
import torch.nn.functional as F


# wrong sinusoids: all sines, then all cosines
# hint: Here they alternate
def sinusoidal_table(num_positions, d_model, base=10000.0):
    i = torch.arange(d_model // 2)
    angles = torch.arange(num_positions)[:, None] / base ** (2 * i / d_model)
    return torch.cat([torch.sin(angles), torch.cos(angles)], dim=1)


# wrong sinusoids: cosine before sine
# hint: The sine of each pair comes first
def sinusoidal_table(num_positions, d_model, base=10000.0):
    table = torch.zeros(num_positions, d_model)
    angles = torch.arange(num_positions)[:, None] / base ** (torch.arange(0, d_model, 2) / d_model)
    table[:, 0::2], table[:, 1::2] = angles.cos(), angles.sin()
    return table


# wrong sinusoids: i in place of 2i
# hint: you have i / d_model
def sinusoidal_table(num_positions, d_model, base=10000.0):
    table = torch.zeros(num_positions, d_model)
    angles = torch.arange(num_positions)[:, None] / base ** (torch.arange(d_model // 2) / d_model)
    table[:, 0::2], table[:, 1::2] = angles.sin(), angles.cos()
    return table


# wrong sinusoids: a speed for every column
# hint: The sine and the cosine of a pair share one
def sinusoidal_table(num_positions, d_model, base=10000.0):
    table = torch.zeros(num_positions, d_model)
    for t in range(num_positions):
        for c in range(d_model):
            angle = t / base ** (c / d_model)
            table[t, c] = math.sin(angle) if c % 2 == 0 else math.cos(angle)
    return table


# wrong sinusoids: counts from one
# hint: The first row is position 0
def sinusoidal_table(num_positions, d_model, base=10000.0):
    table = torch.zeros(num_positions, d_model)
    angles = torch.arange(1, num_positions + 1)[:, None] / base ** (torch.arange(0, d_model, 2) / d_model)
    table[:, 0::2], table[:, 1::2] = angles.sin(), angles.cos()
    return table


# wrong sinusoids: multiplies in place of dividing
# hint: later pairs turn more slowly
def sinusoidal_table(num_positions, d_model, base=10000.0):
    table = torch.zeros(num_positions, d_model)
    angles = torch.arange(num_positions)[:, None] * base ** (torch.arange(0, d_model, 2) / d_model)
    table[:, 0::2], table[:, 1::2] = angles.sin(), angles.cos()
    return table


# wrong sinusoids: the base is written in
# hint: 10 000 is only its default
def sinusoidal_table(num_positions, d_model, base=10000.0):
    table = torch.zeros(num_positions, d_model)
    angles = torch.arange(num_positions)[:, None] / 10000 ** (torch.arange(0, d_model, 2) / d_model)
    table[:, 0::2], table[:, 1::2] = angles.sin(), angles.cos()
    return table


# right sinusoids: in loops, with math
def sinusoidal_table(num_positions, d_model, base=10000.0):
    rows = []
    for t in range(num_positions):
        row = []
        for i in range(d_model // 2):
            angle = t / base ** (2 * i / d_model)
            row += [math.sin(angle), math.cos(angle)]
        rows.append(row)
    return torch.tensor(rows)


# right sinusoids: complex numbers, in float64
def sinusoidal_table(num_positions, d_model, base=10000.0):
    speeds = torch.exp(-math.log(base) * torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    hands = torch.polar(torch.ones(num_positions, d_model // 2).double(), torch.arange(num_positions)[:, None] * speeds)
    return torch.view_as_real(hands).flip(-1).flatten(1)


# right sinusoids: a cosine is a sine a quarter turn on
def sinusoidal_table(num_positions, d_model, base=10000.0):
    column = torch.arange(d_model)
    angles = torch.arange(num_positions)[:, None] / base ** (column // 2 * 2 / d_model)
    return torch.sin(angles + column % 2 * math.pi / 2)


# wrong shift: turns back
# hint: it takes PE(t) to PE(t − k)
def shift_matrix(k, d_model, base=10000.0):
    matrix = torch.zeros(d_model, d_model)
    for i in range(d_model // 2):
        a = k / base ** (2 * i / d_model)
        matrix[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = torch.tensor(
            [[math.cos(a), -math.sin(a)], [math.sin(a), math.cos(a)]]
        )
    return matrix


# wrong shift: one angle for all
# hint: All your blocks turn by the same angle
def shift_matrix(k, d_model, base=10000.0):
    block = torch.tensor([[math.cos(k), math.sin(k)], [-math.sin(k), math.cos(k)]])
    return torch.block_diag(*[block] * (d_model // 2))


# wrong shift: forgets k
# hint: shifts by one step, whatever k is
def shift_matrix(k, d_model, base=10000.0):
    matrix = torch.zeros(d_model, d_model)
    for i in range(d_model // 2):
        a = 1 / base ** (2 * i / d_model)
        matrix[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = torch.tensor(
            [[math.cos(a), math.sin(a)], [-math.sin(a), math.cos(a)]]
        )
    return matrix


# wrong shift: two pluses
# hint: that is no rotation
def shift_matrix(k, d_model, base=10000.0):
    matrix = torch.zeros(d_model, d_model)
    for i in range(d_model // 2):
        a = k / base ** (2 * i / d_model)
        matrix[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = torch.tensor(
            [[math.cos(a), math.sin(a)], [math.sin(a), math.cos(a)]]
        )
    return matrix


# wrong shift: pairs the halves
# hint: the sine and cosine of a pair are neighbours
def shift_matrix(k, d_model, base=10000.0):
    matrix, half = torch.zeros(d_model, d_model), d_model // 2
    for i in range(half):
        a = k / base ** (2 * i / d_model)
        matrix[i, i] = matrix[i + half, i + half] = math.cos(a)
        matrix[i, i + half], matrix[i + half, i] = math.sin(a), -math.sin(a)
    return matrix


# wrong shift: the base is written in
# hint: pass `base` on to the speeds
def shift_matrix(k, d_model, base=10000.0):
    angles = k / 10000 ** (torch.arange(0, d_model, 2) / d_model)
    return torch.block_diag(*[torch.tensor([[a.cos(), a.sin()], [-a.sin(), a.cos()]]) for a in angles])


# wrong shift: drops the sign
# hint: You drop the sign of k
def shift_matrix(k, d_model, base=10_000.0):
    angles = [abs(k) / base ** (2 * i / d_model) for i in range(d_model // 2)]
    turns = [[[math.cos(a), math.sin(a)], [-math.sin(a), math.cos(a)]] for a in angles]
    return torch.block_diag(*map(torch.tensor, turns))


# right shift: two diagonals and two more beside them
def shift_matrix(k, d_model, base=10000.0):
    angles = (k * base ** (-torch.arange(0, d_model, 2) / d_model)).repeat_interleave(2)
    beside = angles.sin()[:-1] * (torch.arange(d_model - 1) % 2 == 0)
    return torch.diag(angles.cos()) + torch.diag(beside, 1) - torch.diag(beside, -1)


# right shift: the matrix exponential of the turning speeds, in float64
def shift_matrix(k, d_model, base=10000.0):
    speed = torch.zeros(d_model, d_model, dtype=torch.float64)
    for i in range(0, d_model, 2):
        speed[i, i + 1], speed[i + 1, i] = base ** (-i / d_model), -(base ** (-i / d_model))
    return torch.matrix_exp(k * speed)


# right shift: solved from the table by least squares
def shift_matrix(k, d_model, base=10000.0):
    def place(t):
        angles = t / base ** (torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
        return torch.stack([angles.sin(), angles.cos()], dim=-1)  # (D / 2, 2)

    blocks = []
    for i in range(d_model // 2):
        step = base ** (2 * i / d_model)  # one radian on, so that the two vectors are far from parallel
        before = torch.stack([place(0)[i], place(step)[i]], dim=1)
        after = torch.stack([place(k)[i], place(k + step)[i]], dim=1)
        blocks.append(after @ torch.linalg.inv(before))
    return torch.block_diag(*blocks)


# wrong bias: query minus key
# hint: it is query minus key
def clipped_index(num_positions, max_distance):
    t = torch.arange(num_positions)
    return (t[:, None] - t[None, :]).clamp(-max_distance, max_distance) + max_distance


# wrong bias: never clips
# hint: Clip the offset
def clipped_index(num_positions, max_distance):
    t = torch.arange(num_positions)
    return t[None, :] - t[:, None] + max_distance


# wrong bias: negative rows
# hint: add max_distance after clipping
def clipped_index(num_positions, max_distance):
    t = torch.arange(num_positions)
    return torch.clamp(t[None, :] - t[:, None], -max_distance, max_distance)


# wrong bias: distance without a sign
# hint: you take the absolute distance
def clipped_index(num_positions, max_distance):
    t = torch.arange(num_positions)
    return (t[None, :] - t[:, None]).abs().clamp(max=max_distance)


# wrong bias: window offsets of the wrong sign
# hint: Swin counts query minus key
def window_index(height, width):
    places = torch.cartesian_prod(torch.arange(height), torch.arange(width)).view(-1, 2)
    offset = places[None, :] - places[:, None]
    return (offset[..., 0] + height - 1) * (2 * width - 1) + offset[..., 1] + width - 1


# wrong bias: rows count as width
# hint: Column offsets are 2·width − 1
def window_index(height, width):
    places = torch.cartesian_prod(torch.arange(height), torch.arange(width)).view(-1, 2)
    offset = places[:, None] - places[None, :]
    return (offset[..., 0] + height - 1) * width + offset[..., 1] + width - 1


# wrong bias: the window as a line
# hint: as if the window were a line
def window_index(height, width):
    t = torch.arange(height * width)
    return t[:, None] - t + len(t) - 1


# wrong bias: columns before rows
# hint: the row offset is the one to multiply
def window_index(height, width):
    places = torch.cartesian_prod(torch.arange(height), torch.arange(width)).view(-1, 2)
    offset = places[:, None] - places[None, :]
    return (offset[..., 1] + width - 1) * (2 * height - 1) + offset[..., 0] + height - 1


# wrong bias: window offsets below zero
# hint: Some of your numbers are negative
def window_index(height, width):
    places = torch.cartesian_prod(torch.arange(height), torch.arange(width)).view(-1, 2)
    offset = places[:, None] - places[None, :]
    return offset[..., 0] * (2 * width - 1) + offset[..., 1]


# wrong bias: heads at the end
# hint: The heads come out last
def gather_bias(table, index):
    return F.embedding(index, table)


# wrong bias: everything transposed
# hint: you reversed all the axes
def gather_bias(table, index):
    return F.embedding(index, table).permute(2, 1, 0)


# wrong bias: heads to the front by a reshape
# hint: A reshape cannot move the heads to the front
def gather_bias(table, index):
    return table[index.flatten()].reshape(table.shape[1], *index.shape)


# right bias: in loops
def clipped_index(num_positions, max_distance):
    index = torch.zeros(num_positions, num_positions, dtype=torch.long)
    for i in range(num_positions):
        for j in range(num_positions):
            index[i, j] = max(-max_distance, min(max_distance, j - i)) + max_distance
    return index


def window_index(height, width):
    patches = [(row, column) for row in range(height) for column in range(width)]
    return torch.tensor(
        [[(r - s + height - 1) * (2 * width - 1) + c - d + width - 1 for s, d in patches] for r, c in patches]
    )


def gather_bias(table, index):
    return torch.stack([table[:, h][index] for h in range(table.shape[1])])


# right bias: meshgrid as in Swin's code, and a one-hot product
def window_index(height, width):
    grid = torch.stack(torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")).flatten(1)
    offset = (grid[:, :, None] - grid[:, None, :]).permute(1, 2, 0)
    return (offset + torch.tensor([height - 1, width - 1])) @ torch.tensor([2 * width - 1, 1])


def gather_bias(table, index):
    return torch.einsum("qkn,nh->hqk", F.one_hot(index, len(table)).to(table.dtype), table)


# right bias: int32, and a view of a flat lookup
def clipped_index(num_positions, max_distance):
    t = torch.arange(num_positions, dtype=torch.int32)
    offset = t.unsqueeze(0) - t.unsqueeze(1)
    return torch.minimum(torch.maximum(offset, torch.tensor(-max_distance)), torch.tensor(max_distance)) + max_distance


def gather_bias(table, index):
    return table.T[:, index.reshape(-1)].reshape(-1, *index.shape)


# wrong rotary: turns the other way
# hint: You turn the other way
def rotate(x, positions, base=10000.0):
    angles = positions[:, None] / base ** (torch.arange(0, x.shape[-1], 2) / x.shape[-1])
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack([a * angles.cos() + b * angles.sin(), b * angles.cos() - a * angles.sin()], -1).flatten(-2)


# wrong rotary: pairs the halves
# hint: as LLaMA's code does
def rotate(x, positions, base=10000.0):
    angles = positions[:, None] / base ** (torch.arange(0, x.shape[-1], 2) / x.shape[-1])
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()], dim=-1)


# wrong rotary: two pluses
# hint: Two plus signs make no rotation
def rotate(x, positions, base=10000.0):
    angles = positions[:, None] / base ** (torch.arange(0, x.shape[-1], 2) / x.shape[-1])
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack([a * angles.cos() + b * angles.sin(), a * angles.sin() + b * angles.cos()], -1).flatten(-2)


# wrong rotary: one speed
# hint: All pairs turn equally fast
def rotate(x, positions, base=10000.0):
    angles = positions[:, None].to(x.dtype)
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack([a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()], -1).flatten(-2)


# wrong rotary: forgets to interleave
# hint: The turned features are in the wrong columns
def rotate(x, positions, base=10000.0):
    angles = positions[:, None] / base ** (torch.arange(0, x.shape[-1], 2) / x.shape[-1])
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.cat([a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()], dim=-1)


# wrong rotary: adds a table
# hint: Rotary positions add nothing
def rotate(x, positions, base=10000.0):
    angles = positions[:, None] / base ** (torch.arange(0, x.shape[-1], 2) / x.shape[-1])
    return x + torch.stack([angles.sin(), angles.cos()], -1).flatten(-2)


# wrong rotary: counts for itself
# hint: Use the positions that are given
def rotate(x, positions, base=10000.0):
    angles = torch.arange(x.shape[-2])[:, None] / base ** (torch.arange(0, x.shape[-1], 2) / x.shape[-1])
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack([a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()], -1).flatten(-2)


# wrong rotary: turns the keys alone
# hint: Turn the queries too
def rotary_weights(query, key, query_positions, key_positions):
    return (query @ rotate(key, key_positions).mT / query.shape[-1] ** 0.5).softmax(-1)


# wrong rotary: no scale
# hint: divide them by √D before the softmax
def rotary_weights(query, key, query_positions, key_positions):
    return (rotate(query, query_positions) @ rotate(key, key_positions).mT).softmax(-1)


# wrong rotary: no softmax
# hint: These are scores
def rotary_weights(query, key, query_positions, key_positions):
    return rotate(query, query_positions) @ rotate(key, key_positions).mT / query.shape[-1] ** 0.5


# wrong rotary: softmax down the queries
# hint: Your softmax runs down the queries
def rotary_weights(query, key, query_positions, key_positions):
    return (rotate(query, query_positions) @ rotate(key, key_positions).mT / query.shape[-1] ** 0.5).softmax(-2)


# wrong rotary: forgets the absolute value
# hint: Differences have signs
def shift_gap(weights, positions, shifts):
    return max((weights(positions + s) - weights(positions)).max().item() for s in shifts)


# wrong rotary: keeps the last shift
# hint: You look at the last shift alone
def shift_gap(weights, positions, shifts):
    before = weights(positions)
    for s in shifts:
        gap = (weights(positions + s) - before).abs().max().item()
    return gap


# wrong rotary: the mean
# hint: the *largest* difference
def shift_gap(weights, positions, shifts):
    return max((weights(positions + s) - weights(positions)).abs().mean().item() for s in shifts)


# wrong rotary: stretches
# hint: A shift is added
def shift_gap(weights, positions, shifts):
    return max((weights(positions * s) - weights(positions)).abs().max().item() for s in shifts)


# wrong rotary: compares neighbours among the shifts
# hint: All are compared with no shift at all
def shift_gap(weights, positions, shifts):
    last, gap = weights(positions), 0.0
    for shift in shifts:
        now = weights(positions + shift)
        last, gap = now, max(gap, float((now - last).abs().max()))
    return gap


# right rotary: complex numbers
def rotate(x, positions, base=10000.0):
    speeds = base ** (-torch.arange(0, x.shape[-1], 2) / x.shape[-1])
    turn = torch.polar(torch.ones(len(positions), len(speeds)), positions[:, None] * speeds)
    return torch.view_as_real(torch.view_as_complex(x.contiguous().unflatten(-1, (-1, 2))) * turn).flatten(-2)


def shift_gap(weights, positions, shifts):
    return torch.stack([weights(positions + s) - weights(positions) for s in shifts]).abs().max()


# right rotary: one matrix for each position, in float64
def rotate(x, positions, base=10000.0):
    d = x.shape[-1]
    speeds = base ** (-torch.arange(0, d, 2, dtype=torch.float64) / d)
    rows = []
    for t, p in enumerate(positions.tolist()):
        blocks = [torch.stack([torch.stack([a.cos(), -a.sin()]), torch.stack([a.sin(), a.cos()])]) for a in p * speeds]
        rows.append(x[..., t, :].double() @ torch.block_diag(*blocks).T)
    return torch.stack(rows, dim=-2)


def rotary_weights(query, key, query_positions, key_positions):
    q, k = rotate(query, query_positions), rotate(key, key_positions)
    return F.softmax(torch.einsum("...qd,...kd->...qk", q, k) / math.sqrt(q.shape[-1]), dim=-1)


# right rotary: by swapping neighbours, and the weights by PyTorch's own attention
def rotate(x, positions, base=10000.0):
    angles = (positions[:, None] * base ** (-torch.arange(0, x.shape[-1], 2) / x.shape[-1])).repeat_interleave(2, -1)
    swapped = torch.stack([-x[..., 1::2], x[..., 0::2]], dim=-1).flatten(-2)
    return x * angles.cos() + swapped * angles.sin()


def rotary_weights(query, key, query_positions, key_positions):
    eye = torch.eye(key.shape[-2]).expand(*key.shape[:-1], -1)
    return F.scaled_dot_product_attention(rotate(query, query_positions), rotate(key, key_positions), eye)


def shift_gap(weights, positions, shifts):
    before, gaps = weights(positions), [0.0]
    for s in shifts:
        gaps.append(torch.linalg.vector_norm(weights(positions + s) - before, ord=float("inf")).item())
    return sorted(gaps)[-1]


# wrong sinusoids: from 1 down to one over the base
# hint: you divide i by the number of pairs minus 1
def sinusoidal_table(num_positions, d_model, base=10_000.0):
    speeds = torch.exp(torch.linspace(0, -math.log(base), d_model // 2))
    angles = torch.arange(num_positions)[:, None] * speeds
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


# wrong rotary: half the exponent
# hint: the exponent is 2i / D, and you have i / D
def rotate(x, positions, base=10_000.0):
    speeds = base ** (-torch.arange(x.shape[-1] // 2) / x.shape[-1])
    angles = positions[:, None] * speeds
    even, odd = x[..., 0::2], x[..., 1::2]
    turned = even * angles.cos() - odd * angles.sin(), even * angles.sin() + odd * angles.cos()
    return torch.stack(turned, dim=-1).flatten(-2)


# wrong rotary: the smallest gap
# hint: the smallest of the gaps
def shift_gap(weights, positions, shifts):
    before = weights(positions)
    return min((weights(positions + shift) - before).abs().max().item() for shift in shifts)


# right sinusoids: each row from the one before, by the sum of two angles
def sinusoidal_table(num_positions, d_model, base=10_000.0):
    speeds = torch.tensor([base ** (-2 * i / d_model) for i in range(d_model // 2)], dtype=torch.float64)
    sine, cosine, rows = torch.zeros_like(speeds), torch.ones_like(speeds), []
    for _ in range(num_positions):
        rows.append(torch.stack([sine, cosine], dim=1).reshape(-1))
        sine, cosine = (
            sine * speeds.cos() + cosine * speeds.sin(),
            cosine * speeds.cos() - sine * speeds.sin(),
        )
    return torch.stack(rows)
