import math

import torch
import torch.nn.functional as F


# wrong windows: a reshape
# hint: a reshape cuts strips
def partition(x, size):
    B, R, C, D = x.shape
    return x.reshape(B * (R // size) * (C // size), size * size, D)


# wrong windows: counts windows down the columns
# hint: run down the columns of windows first
def partition(x, size):
    B, R, C, D = x.shape
    found = []
    for b in range(B):
        for left in range(0, C, size):
            for top in range(0, R, size):
                found.append(x[b, top : top + size, left : left + size].reshape(-1, D))
    return torch.stack(found)


# wrong windows: the batch behind the windows
# hint: B stays in front
def partition(x, size):
    batch, rows, columns, d_model = x.shape
    x = x.reshape(batch, rows // size, size, columns // size, size, d_model)
    return torch.einsum("brmcnd->rcbmnd", x).reshape(-1, size * size, d_model)


# wrong windows: transposed inside
# hint: Inside a window your patches run down the columns
def partition(x, size):
    B, R, C, D = x.shape
    x = x.reshape(B, R // size, size, C // size, size, D)
    return torch.einsum("bihjwd->bijwhd", x).reshape(-1, size * size, D)


# wrong windows: dilated
# hint: This dilates
def partition(x, size):
    B, R, C, D = x.shape
    down, across = R // size, C // size
    found = [x[:, i::down, j::across].reshape(B, size * size, D) for i in range(down) for j in range(across)]
    return torch.stack(found, dim=1).reshape(-1, size * size, D)


# wrong windows: back by a reshape
# hint: lays the windows out as strips
def reverse(windows, size, rows, columns):
    return windows.reshape(-1, rows, columns, windows.shape[-1])


# wrong windows: sides swapped on the way back
# hint: Rows and columns are swapped
def reverse(windows, size, rows, columns):
    D = windows.shape[-1]
    x = windows.reshape(-1, columns // size, rows // size, size, size, D)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, rows, columns, D)


# right windows: unfold, and a loop back
def partition(x, size):
    D = x.shape[-1]
    x = x.unfold(1, size, size).unfold(2, size, size)  # (B, down, across, D, M, M)
    return x.permute(0, 1, 2, 4, 5, 3).reshape(-1, size * size, D)


def reverse(windows, size, rows, columns):
    D, across = windows.shape[-1], columns // size
    count = (rows // size) * across
    grid = windows.new_zeros(windows.shape[0] // count, rows, columns, D)
    for number in range(count):
        top, left = number // across * size, number % across * size
        grid[:, top : top + size, left : left + size] = windows[number::count].reshape(-1, size, size, D)
    return grid


# right windows: lists of slices
def partition(x, size):
    _, R, C, _ = x.shape
    found = [x[:, i : i + size, j : j + size].flatten(1, 2) for i in range(0, R, size) for j in range(0, C, size)]
    return torch.stack(found, dim=1).flatten(0, 1)


def reverse(windows, size, rows, columns):
    x = windows.unflatten(1, (size, size)).unflatten(0, (-1, rows // size, columns // size))
    return torch.einsum("bijhwd->bihjwd", x).flatten(1, 2).flatten(2, 3)


# wrong merging: in reading order
# hint: in another order
def merge_patches(x, weight):
    four = [x[:, 0::2, 0::2], x[:, 0::2, 1::2], x[:, 1::2, 0::2], x[:, 1::2, 1::2]]
    x = torch.cat(four, dim=-1)
    return F.linear(F.layer_norm(x, x.shape[-1:]), weight)


# wrong merging: joins halves of the picture
# hint: one half an image away
def merge_patches(x, weight):
    top, bottom = x.chunk(2, dim=1)
    four = [half for pair in zip(*(p.chunk(2, dim=2) for p in (top, bottom))) for half in pair]
    x = torch.cat(four, dim=-1)
    return F.linear(F.layer_norm(x, x.shape[-1:]), weight)


# wrong merging: norm after the matrix
# hint: the other way round is Swin V2
def merge_patches(x, weight):
    x = torch.cat([x[:, i::2, j::2] for j in (0, 1) for i in (0, 1)], dim=-1)
    x = F.linear(x, weight)
    return F.layer_norm(x, x.shape[-1:])


# wrong merging: norms each patch
# hint: You normalise each patch by itself
def merge_patches(x, weight):
    x = F.layer_norm(x, x.shape[-1:])
    x = torch.cat([x[:, i::2, j::2] for j in (0, 1) for i in (0, 1)], dim=-1)
    return F.linear(x, weight)


# wrong merging: the variance of a sample
# hint: Your variance divides by n − 1
def merge_patches(x, weight):
    y = torch.cat([x[:, ::2, ::2], x[:, 1::2, ::2], x[:, ::2, 1::2], x[:, 1::2, 1::2]], dim=-1)
    return (y - y.mean(-1, keepdim=True)) / (y.var(-1, keepdim=True) + 1e-5).sqrt() @ weight.T


# wrong merging: ε beside the square root
# hint: Is your ε inside the square root?
def merge_patches(x, weight):
    y = torch.cat([x[:, ::2, ::2], x[:, 1::2, ::2], x[:, ::2, 1::2], x[:, 1::2, 1::2]], dim=-1)
    return (y - y.mean(-1, keepdim=True)) / (y.std(-1, keepdim=True, correction=0) + 1e-5) @ weight.T


# wrong merging: no ε
# hint: The ε is missing
def merge_patches(x, weight):
    y = torch.cat([x[:, ::2, ::2], x[:, 1::2, ::2], x[:, ::2, 1::2], x[:, 1::2, 1::2]], dim=-1)
    return (y - y.mean(-1, keepdim=True)) / y.var(-1, keepdim=True, correction=0) ** 0.5 @ weight.T


# wrong merging: no norm
# hint: The norm is missing
def merge_patches(x, weight):
    return torch.cat([x[:, i::2, j::2] for j in (0, 1) for i in (0, 1)], dim=-1) @ weight.T


# right merging: by reshape and permute, norm by hand
def merge_patches(x, weight):
    B, R, C, D = x.shape
    x = x.reshape(B, R // 2, 2, C // 2, 2, D).permute(0, 1, 3, 4, 2, 5).reshape(B, R // 2, C // 2, 4 * D)
    centred = x - x.mean(dim=-1, keepdim=True)
    variance = centred.pow(2).mean(dim=-1, keepdim=True)
    return (centred / torch.sqrt(variance + 1e-5)) @ weight.T


# right merging: with torch's own module
def merge_patches(x, weight):
    x0, x1 = x[:, 0::2, 0::2, :], x[:, 1::2, 0::2, :]
    x2, x3 = x[:, 0::2, 1::2, :], x[:, 1::2, 1::2, :]
    joined = torch.cat([x0, x1, x2, x3], -1)
    return F.linear(torch.nn.LayerNorm(joined.shape[-1])(joined), weight)


# wrong bias: key minus query
# hint: take query minus key
def log_spaced(size, trained):
    places = torch.stack(torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij"), -1).flatten(0, 1)
    apart = 8 * (places[None] - places[:, None]) / (trained - 1)
    return apart.sign() * torch.log2(1 + apart.abs()) / 3


# wrong bias: columns first
# hint: columns stand before your rows
def log_spaced(size, trained):
    rows, columns = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="xy")
    places = torch.stack([rows, columns], -1).flatten(0, 1)
    apart = 8 * (places[:, None] - places) / (trained - 1)
    return apart.sign() * torch.log2(1 + apart.abs()) / 3


# wrong bias: distances
# hint: You squeeze distances
def log_spaced(size, trained):
    places = torch.cartesian_prod(torch.arange(size), torch.arange(size))
    return torch.log2(1 + 8 * (places[:, None] - places).abs() / (trained - 1)) / 3


# wrong bias: no logarithm
# hint: The logarithm is missing
def log_spaced(size, trained):
    places = torch.cartesian_prod(torch.arange(size), torch.arange(size))
    return (places[:, None] - places) * 8 / (trained - 1)


# wrong bias: measured in the new window
# hint: You measure in the new window
def log_spaced(size, trained):
    places = torch.cartesian_prod(torch.arange(size), torch.arange(size))
    apart = (places[:, None] - places) * 8 / (size - 1)
    return apart.sign() * torch.log2(1 + apart.abs()) / 3


# wrong bias: measured in sides
# hint: Its largest offset is one less
def log_spaced(size, trained):
    places = torch.cartesian_prod(torch.arange(size), torch.arange(size))
    apart = (places[:, None] - places) * 8 / trained
    return apart.sign() * torch.log2(1 + apart.abs()) / 3


# wrong bias: the chapter's equation as it stands
# hint: of the offset as it is
def log_spaced(size, trained):
    places = torch.cartesian_prod(torch.arange(size), torch.arange(size))
    apart = places[:, None] - places
    return apart.sign() * torch.log2(1 + apart.abs())


# wrong bias: not divided by the logarithm of 8
# hint: Three times too large
def log_spaced(size, trained):
    places = torch.cartesian_prod(torch.arange(size), torch.arange(size))
    apart = (places[:, None] - places) * 8 / (trained - 1)
    return apart.sign() * (1 + apart.abs()).log2()


# wrong bias: the natural logarithm
# hint: That is the natural logarithm over 3
def log_spaced(size, trained):
    places = torch.cartesian_prod(torch.arange(size), torch.arange(size))
    apart = (places[:, None] - places) * 8 / (trained - 1)
    return apart.sign() * torch.log1p(apart.abs()) / 3


# wrong bias: heads last
# hint: move them to the front
def smooth_bias(weight_1, bias_1, weight_2, size, trained):
    hidden = F.relu(F.linear(log_spaced(size, trained), weight_1, bias_1))
    return 16 * torch.sigmoid(F.linear(hidden, weight_2))


# wrong bias: heads by view
# hint: A view cannot move the heads
def smooth_bias(weight_1, bias_1, weight_2, size, trained):
    hidden = F.relu(F.linear(log_spaced(size, trained), weight_1, bias_1))
    return 16 * torch.sigmoid(F.linear(hidden, weight_2)).view(len(weight_2), size**2, size**2)


# wrong bias: queries and keys swapped
# hint: Queries and keys are swapped
def smooth_bias(weight_1, bias_1, weight_2, size, trained):
    hidden = F.relu(F.linear(log_spaced(size, trained), weight_1, bias_1))
    return 16 * torch.sigmoid(hidden @ weight_2.T).T


# wrong bias: no sigmoid
# hint: The last step is missing
def smooth_bias(weight_1, bias_1, weight_2, size, trained):
    hidden = F.relu(F.linear(log_spaced(size, trained), weight_1, bias_1))
    return F.linear(hidden, weight_2).permute(2, 0, 1)


# wrong bias: a sigmoid and no 16
# hint: Your bias lies between 0 and 1
def smooth_bias(weight_1, bias_1, weight_2, size, trained):
    hidden = F.relu(F.linear(log_spaced(size, trained), weight_1, bias_1))
    return F.linear(hidden, weight_2).permute(2, 0, 1).sigmoid()


# wrong bias: 16 inside the sigmoid
# hint: You multiply by 16 before the sigmoid
def smooth_bias(weight_1, bias_1, weight_2, size, trained):
    hidden = F.relu(F.linear(log_spaced(size, trained), weight_1, bias_1))
    return (16 * F.linear(hidden, weight_2).permute(2, 0, 1)).sigmoid()


# wrong bias: no ReLU
# hint: No ReLU between
def smooth_bias(weight_1, bias_1, weight_2, size, trained):
    hidden = F.linear(log_spaced(size, trained), weight_1, bias_1)
    return 16 * F.linear(hidden, weight_2).permute(2, 0, 1).sigmoid()


# wrong bias: the first bias forgotten
# hint: `bias_1` is missing
def smooth_bias(weight_1, bias_1, weight_2, size, trained):
    hidden = F.relu(log_spaced(size, trained) @ weight_1.T)
    return 16 * F.linear(hidden, weight_2).permute(2, 0, 1).sigmoid()


# wrong bias: the two sizes swapped
# hint: change places somewhere
def smooth_bias(weight_1, bias_1, weight_2, size, trained):
    hidden = F.relu(F.linear(log_spaced(trained, size), weight_1, bias_1))
    return 16 * torch.sigmoid(F.linear(hidden, weight_2)).permute(2, 0, 1)


# right bias: loops, and one head at a time
def log_spaced(size, trained):
    def squeeze(apart):
        amount = math.log(1 + 8 * abs(apart) / (trained - 1), 8)
        return amount if apart > 0 else -amount

    T = size * size
    out = torch.zeros(T, T, 2)
    for i in range(T):
        for j in range(T):
            out[i, j, 0] = squeeze(i // size - j // size)
            out[i, j, 1] = squeeze(i % size - j % size)
    return out


def smooth_bias(weight_1, bias_1, weight_2, size, trained):
    hidden = (log_spaced(size, trained) @ weight_1.T + bias_1).clamp(min=0)
    return torch.stack([16 / (1 + torch.exp(-(hidden * head).sum(-1))) for head in weight_2])


# right bias: a table of all offsets and a look-up, as in the authors' code
def log_spaced(size, trained):
    one = torch.arange(1 - size, size, dtype=torch.float64) * 8 / (trained - 1)
    one = torch.copysign(torch.log1p(one.abs()), one) / math.log(8)
    row = torch.arange(size).repeat_interleave(size)
    column = torch.arange(size).repeat(size)
    rows, columns = row[:, None] - row + size - 1, column[:, None] - column + size - 1
    return torch.stack((one[rows], one[columns]), dim=-1).float()


def smooth_bias(weight_1, bias_1, weight_2, size, trained):
    scores = torch.einsum("ijc,fc->ijf", log_spaced(size, trained), weight_1) + bias_1
    return 8 * (1 + torch.tanh(torch.einsum("ijf,hf->hij", scores.relu(), weight_2) / 2))


# wrong shift: rolls the wrong way
# hint: roll by −shift
def shifted_windows(x, size, shift):
    return partition(torch.roll(x, shifts=(shift, shift), dims=(1, 2)), size)


# wrong shift: rolls the batch
# hint: You roll the batch as well
def shifted_windows(x, size, shift):
    return partition(torch.roll(x, shifts=(-shift, -shift), dims=(0, 1)), size)


# wrong shift: rolls rows only
# hint: Only the rows are rolled
def shifted_windows(x, size, shift):
    return partition(torch.roll(x, -shift, 1), size)


# wrong shift: rolls inside the windows
# hint: You cut first and roll inside each window
def shifted_windows(x, size, shift):
    windows = partition(x, size).unflatten(1, (size, size))
    return torch.roll(windows, (-shift, -shift), (1, 2)).flatten(1, 2)


# wrong shift: upside down
# hint: Your mask is upside down
def shift_mask(rows, columns, size, shift):
    region = torch.zeros(rows, columns)
    region[rows - shift :] += 1
    region[:, columns - shift :] += 2
    windows = partition(region[None, ..., None], size)[..., 0]
    return windows[:, None, :] != windows[:, :, None]


# wrong shift: hides nothing
# hint: Everything may attend to everything
def shift_mask(rows, columns, size, shift):
    return torch.ones(rows * columns // size**2, size**2, size**2, dtype=torch.bool)


# wrong shift: marks the first rows
# hint: You mark the first rows and columns
def shift_mask(rows, columns, size, shift):
    region = torch.zeros(rows, columns)
    region[:shift] += 1
    region[:, :shift] += 2
    windows = partition(region[None, ..., None], size)[..., 0]
    return windows[:, None, :] == windows[:, :, None]


# wrong shift: rows only
# hint: Only the rows are told apart
def shift_mask(rows, columns, size, shift):
    region = (torch.arange(rows) >= rows - shift)[:, None].expand(rows, columns)
    windows = partition(region[None, ..., None], size)[..., 0]
    return windows[:, None, :] == windows[:, :, None]


# wrong shift: always half a window
# hint: Your mask is for a shift of M // 2
def shift_mask(rows, columns, size, shift):
    down, across = torch.arange(rows) >= rows - size // 2, torch.arange(columns) >= columns - size // 2
    piece = partition((2 * down[:, None].int() + across.int())[None, ..., None], size).squeeze(-1)
    return piece[:, :, None] == piece[:, None, :]


# wrong shift: adds the numbers
# hint: Two of your four pieces have the same number
def shift_mask(rows, columns, size, shift):
    region = torch.zeros(rows, columns)
    region[rows - shift :] += 1
    region[:, columns - shift :] += 1
    windows = partition(region[None, ..., None], size)[..., 0]
    return windows[:, None, :] == windows[:, :, None]


# wrong shift: hides what came round
# hint: itself included
def shift_mask(rows, columns, size, shift):
    stayed = torch.ones(rows, columns, dtype=torch.bool)
    stayed[rows - shift :] = False
    stayed[:, columns - shift :] = False
    windows = partition(stayed[None, ..., None], size)[..., 0]
    return windows[:, None, :] & windows[:, :, None]


# right shift: nine regions by slices, as in the authors' code
def shifted_windows(x, size, shift):
    x = torch.cat([x[:, shift:], x[:, :shift]], dim=1)
    return partition(torch.cat([x[:, :, shift:], x[:, :, :shift]], dim=2), size)


def shift_mask(rows, columns, size, shift):
    def parts(n):
        return (slice(0, n - size), slice(n - size, n - shift), slice(n - shift, n))

    region = torch.zeros(1, rows, columns, 1)
    for i, down in enumerate(parts(rows)):
        for j, across in enumerate(parts(columns)):
            region[:, down, across] = 3 * i + j
    windows = partition(region, size).squeeze(-1)
    return windows.unsqueeze(1) - windows.unsqueeze(2) == 0


# right shift: by where each patch came from
def shifted_windows(x, size, shift):
    rows = (torch.arange(x.shape[1]) + shift) % x.shape[1]
    columns = (torch.arange(x.shape[2]) + shift) % x.shape[2]
    return partition(x[:, rows][:, :, columns], size)


def shift_mask(rows, columns, size, shift):
    places = torch.cartesian_prod(torch.arange(rows), torch.arange(columns)).view(1, rows, columns, 2)
    moved = shifted_windows(places, size, shift)  # (windows, T, 2): where each patch came from
    close = (moved[:, :, None] - moved[:, None]).abs() < size
    return close.all(dim=-1)


# wrong cost: no projections
# hint: The four projections are missing
def attention_cost(rows, columns, d_model, size=None):
    n = rows * columns
    return 2 * n * (n if size is None else size**2) * d_model


# wrong cost: the scores only
# hint: forget the average of the values
def attention_cost(rows, columns, d_model, size=None):
    n = rows * columns
    return 4 * n * d_model**2 + n * (n if size is None else size**2) * d_model


# wrong cost: M keys
# hint: holds M² keys
def attention_cost(rows, columns, d_model, size=None):
    n = rows * columns
    return 4 * n * d_model**2 + 2 * n * (n if size is None else size) * d_model


# wrong cost: counts additions
# hint: You count additions too
def attention_cost(rows, columns, d_model, size=None):
    n = rows * columns
    return 8 * n * d_model**2 + 4 * n * (n if size is None else size**2) * d_model


# wrong cost: one window
# hint: That is the cost of one window
def attention_cost(rows, columns, d_model, size=None):
    n = rows * columns if size is None else size**2
    return 4 * n * d_model**2 + 2 * n * n * d_model


# wrong cost: the same width
# hint: The width stays the same
def stage_costs(side, d_model, num_layers, size):
    costs = []
    for depth in num_layers:
        costs.append(depth * (attention_cost(side, side, d_model, size) + 8 * side**2 * d_model**2))
        side //= 2
    return costs


# wrong cost: the same grid
# hint: The grid stays the same
def stage_costs(side, d_model, num_layers, size):
    costs = []
    for depth in num_layers:
        costs.append(depth * (attention_cost(side, side, d_model, size) + 8 * side**2 * d_model**2))
        d_model *= 2
    return costs


# wrong cost: no feed-forward nets
# hint: The feed-forward nets are missing
def stage_costs(side, d_model, num_layers, size):
    return [n * attention_cost(side >> s, side >> s, d_model << s, size) for s, n in enumerate(num_layers)]


# wrong cost: one layer a stage
# hint: You count one layer for each stage
def stage_costs(side, d_model, num_layers, size):
    return [
        attention_cost(side >> s, side >> s, d_model << s, size) + 8 * (side >> s) ** 2 * (d_model << s) ** 2
        for s in range(len(num_layers))
    ]


# right cost: per window, then times the windows
def attention_cost(rows, columns, d_model, size=None):
    tokens = rows * columns if size is None else size * size
    windows = rows * columns // tokens
    projections = 4 * tokens * d_model * d_model
    scores = tokens * tokens * d_model
    return windows * (projections + scores + scores)


def stage_costs(side, d_model, num_layers, size):
    result = []
    for stage, depth in enumerate(num_layers):
        s, d = side // 2**stage, d_model * 2**stage
        feed_forward = s * s * (d * 4 * d + 4 * d * d)
        result.append(depth * (attention_cost(s, s, d, size) + feed_forward))
    return result


# right cost: tensors of one number, and the stages from a generator
def attention_cost(rows, columns, d_model, size=None):
    n = torch.tensor(rows * columns, dtype=torch.float64)
    return 4 * n * d_model**2 + 2 * n * d_model * (n if size is None else size**2)


def stage_costs(side, d_model, num_layers, size):
    for layers in num_layers:
        yield layers * (attention_cost(side, side, d_model, size) + 8 * side**2 * d_model**2)
        side, d_model = side // 2, 2 * d_model


# right cost: as one formula, in floats
def attention_cost(rows, columns, d_model, size=None):
    keys = size**2 if size else rows * columns
    return float(rows * columns * d_model * (4 * d_model + 2 * keys))


def stage_costs(side, d_model, num_layers, size):
    return [
        float(depth * (side / 2**s) ** 2 * (12 * (d_model * 2**s) ** 2 + 2 * size**2 * d_model * 2**s))
        for s, depth in enumerate(num_layers)
    ]
