import math

import torch
import torch.nn.functional as F


# wrong patches: a plain reshape
# hint: a patch is a strip of rows
def patchify(images, patch_size):
    B, C, height, width = images.shape
    if height % patch_size or width % patch_size:
        raise ValueError("no whole patches")
    return images.reshape(B, (height // patch_size) * (width // patch_size), C * patch_size**2)


# wrong patches: down the columns
# hint: go down the columns first
def patchify(images, patch_size):
    if images.shape[2] % patch_size or images.shape[3] % patch_size:
        raise ValueError("no whole patches")
    found = []
    for left in range(0, images.shape[3], patch_size):
        for top in range(0, images.shape[2], patch_size):
            found.append(images[:, :, top : top + patch_size, left : left + patch_size].flatten(1))
    return torch.stack(found, dim=1)


# wrong patches: channels last
# hint: your channels come last
def patchify(images, patch_size):
    if images.shape[2] % patch_size or images.shape[3] % patch_size:
        raise ValueError("no whole patches")
    found = []
    for top in range(0, images.shape[2], patch_size):
        for left in range(0, images.shape[3], patch_size):
            patch = images[:, :, top : top + patch_size, left : left + patch_size]
            found.append(patch.permute(0, 2, 3, 1).flatten(1))
    return torch.stack(found, dim=1)


# wrong patches: each patch mirrored
# hint: mirrored at its diagonal
def patchify(images, patch_size):
    if images.shape[2] % patch_size or images.shape[3] % patch_size:
        raise ValueError("no whole patches")
    found = []
    for top in range(0, images.shape[2], patch_size):
        for left in range(0, images.shape[3], patch_size):
            found.append(images[:, :, top : top + patch_size, left : left + patch_size].mT.flatten(1))
    return torch.stack(found, dim=1)


# wrong patches: half patches are cut off in silence
# hint: raise a ValueError
def patchify(images, patch_size):
    cells = images.unfold(2, patch_size, patch_size).unfold(3, patch_size, patch_size)
    return cells.permute(0, 2, 3, 1, 4, 5).flatten(3).flatten(1, 2)


# wrong patches: reshapes back
# hint: cannot undo a permute
def unpatchify(patches, patch_size, height, width):
    return patches.reshape(len(patches), -1, height, width)


# wrong patches: puts them back down the columns
# hint: read back down the columns
def unpatchify(patches, patch_size, height, width):
    rows, columns = height // patch_size, width // patch_size
    picture = torch.zeros(len(patches), patches.shape[2] // patch_size**2, height, width)
    for n in range(rows * columns):
        top, left = n % rows * patch_size, n // rows * patch_size
        cell = patches[:, n].reshape(len(patches), -1, patch_size, patch_size)
        picture[:, :, top : top + patch_size, left : left + patch_size] = cell
    return picture


# right patches: unfold and fold
def patchify(images, patch_size):
    if images.shape[2] % patch_size or images.shape[3] % patch_size:
        raise ValueError("no whole patches")
    return F.unfold(images, patch_size, stride=patch_size).transpose(1, 2)


def unpatchify(patches, patch_size, height, width):
    return F.fold(patches.transpose(1, 2), (height, width), patch_size, stride=patch_size)


# right patches: loops
def patchify(images, patch_size):
    height, width = images.shape[-2:]
    if height % patch_size != 0 or width % patch_size != 0:
        raise ValueError(f"cannot cut {height} × {width} into {patch_size}s")
    found = []
    for top in range(0, height, patch_size):
        for left in range(0, width, patch_size):
            found.append(images[:, :, top : top + patch_size, left : left + patch_size].flatten(1))
    return torch.stack(found, dim=1)


def unpatchify(patches, patch_size, height, width):
    strips = []
    for row in patches.chunk(height // patch_size, dim=1):
        cells = [cell.reshape(len(cell), -1, patch_size, patch_size) for cell in row.unbind(1)]
        strips.append(torch.cat(cells, dim=3))
    return torch.cat(strips, dim=2)


# wrong class_token: the token at the end
# hint: The class token is the last token
def with_class_token(patches, class_token, positions):
    token = class_token[None, None].repeat(len(patches), 1, 1)
    return torch.cat([patches, token], dim=1) + positions


# wrong class_token: positions forgotten
# hint: the patches are a bag
def with_class_token(patches, class_token, positions):
    return torch.cat([class_token[None, None].repeat(len(patches), 1, 1), patches], dim=1)


# wrong class_token: no position for the class token
# hint: row 0 of the table
def with_class_token(patches, class_token, positions):
    patches = patches + positions[1:]
    return torch.cat([class_token[None, None].repeat(len(patches), 1, 1), patches], dim=1)


# wrong class_token: averages
# hint: You average all tokens
def classify(tokens, weight, bias):
    return F.linear(tokens.mean(dim=1), weight, bias)


# wrong class_token: reads a patch
# hint: which is a patch
def classify(tokens, weight, bias):
    return F.linear(tokens[:, -1], weight, bias)


# wrong class_token: what the patches think of it
# hint: a column
def class_map(weights, grid):
    return weights[:, :, 1:, 0].mean(dim=1).reshape(-1, *grid)


# wrong class_token: one to the left
# hint: off by one
def class_map(weights, grid):
    return weights[:, :, 0, : grid[0] * grid[1]].mean(dim=1).reshape(-1, *grid)


# wrong class_token: adds the heads up
# hint: the sum over the heads
def class_map(weights, grid):
    return weights.sum(dim=1)[:, 0, 1:].reshape(-1, *grid)


# wrong class_token: makes it sum to one
# hint: You made the map sum to 1
def class_map(weights, grid):
    row = weights[:, :, 0, 1:].mean(dim=1)
    return (row / row.sum(dim=-1, keepdim=True)).reshape(-1, *grid)


# right class_token: in place of a table of zeros
def with_class_token(patches, class_token, positions):
    tokens = positions[None].repeat(len(patches), 1, 1)
    tokens = tokens + torch.cat([torch.zeros_like(patches[:, :1]), patches], dim=1)
    first = torch.zeros(len(positions), 1)
    first[0] = 1
    return tokens + first * class_token


def classify(tokens, weight, bias):
    return torch.einsum("bd,cd->bc", tokens[:, 0], weight) + bias


def class_map(weights, grid):
    rows, columns = grid
    looks = torch.stack([weights[:, head, 0, 1:] for head in range(weights.shape[1])]).mean(dim=0)
    return torch.stack([looks[:, row * columns : (row + 1) * columns] for row in range(rows)], dim=1)


# right class_token: linear, in float64
def with_class_token(patches, class_token, positions):
    rows = [torch.cat([class_token[None], picture]) + positions for picture in patches]
    return torch.stack(rows)


def classify(tokens, weight, bias):
    return F.linear(tokens.double()[:, 0], weight.double(), bias.double())


def class_map(weights, grid):
    return weights.double().mean(1)[:, 0, 1:].view(len(weights), grid[0], grid[1])


# wrong mixing: labels as they were
# hint: The labels are not mixed
def mixup(images, targets, keep, partner):
    share = keep.reshape(-1, 1, 1, 1)
    return share * images + (1 - share) * images[partner], targets


# wrong mixing: the label the wrong way round
# hint: the label's shares are the wrong way round
def mixup(images, targets, keep, partner):
    share = keep.reshape(-1, 1, 1, 1)
    mixed = share * images + (1 - share) * images[partner]
    return mixed, (1 - keep[:, None]) * targets + keep[:, None] * targets[partner]


# wrong mixing: λ for the partner
# hint: you give it to the partner
def mixup(images, targets, keep, partner):
    share = keep.reshape(-1, 1, 1, 1)
    mixed = share * images[partner] + (1 - share) * images
    return mixed, keep[:, None] * targets[partner] + (1 - keep[:, None]) * targets


# wrong mixing: one λ
# hint: Everybody gets the first λ
def mixup(images, targets, keep, partner):
    return torch.lerp(images[partner], images, float(keep[0])), torch.lerp(targets[partner], targets, float(keep[0]))


# wrong mixing: the label of the box goes to the picture
# hint: the *pasted* part belongs to the partner
def cutmix(images, targets, boxes, partner):
    height, width = images.shape[2:]
    mixed, labels = images.clone(), targets.clone()
    for i, (top, bottom, left, right) in enumerate(boxes.clamp(min=0).tolist()):
        box = (i, slice(None), slice(top, bottom), slice(left, right))
        mixed[box] = images[(int(partner[i]), *box[1:])]
        share = mixed[box][0].numel() / (height * width)
        labels[i] = share * targets[i] + (1 - share) * targets[partner[i]]
    return mixed, labels


# wrong mixing: counts what sticks out
# hint: as if all of it were in the image
def cutmix(images, targets, boxes, partner):
    height, width = images.shape[2:]
    mixed, labels = images.clone(), targets.clone()
    for i, (top, bottom, left, right) in enumerate(boxes.tolist()):
        rows, columns = slice(max(top, 0), max(bottom, 0)), slice(max(left, 0), max(right, 0))
        mixed[i, :, rows, columns] = images[partner[i], :, rows, columns]
        share = (bottom - top) * (right - left) / (height * width)
        labels[i] = (1 - share) * targets[i] + share * targets[partner[i]]
    return mixed, labels


# wrong mixing: erases
# hint: that is random erasing
def cutmix(images, targets, boxes, partner):
    height, width = images.shape[2:]
    mixed, labels = images.clone(), targets.clone()
    for i, (top, bottom, left, right) in enumerate(boxes.clamp(min=0).tolist()):
        mixed[i, :, top:bottom, left:right] = 0
        share = mixed[i, 0, top:bottom, left:right].numel() / (height * width)
        labels[i] = (1 - share) * targets[i] + share * targets[partner[i]]
    return mixed, labels


# wrong mixing: keeps the box, pastes the rest
# hint: You paste everything *but* the box
def cutmix(images, targets, boxes, partner):
    height, width = images.shape[2:]
    mixed, labels = images[partner].clone(), targets.clone()
    for i, (top, bottom, left, right) in enumerate(boxes.clamp(min=0).tolist()):
        mixed[i, :, top:bottom, left:right] = images[i, :, top:bottom, left:right]
        share = mixed[i, 0, top:bottom, left:right].numel() / (height * width)
        labels[i] = (1 - share) * targets[i] + share * targets[partner[i]]
    return mixed, labels


# wrong mixing: columns for rows
# hint: a box is (top, bottom, left, right)
def cutmix(images, targets, boxes, partner):
    height, width = images.shape[2:]
    mixed, labels = images.clone(), targets.clone()
    for i, (left, right, top, bottom) in enumerate(boxes.clamp(min=0).tolist()):
        mixed[i, :, top:bottom, left:right] = images[partner[i], :, top:bottom, left:right]
        share = mixed[i, 0, top:bottom, left:right].numel() / (height * width)
        labels[i] = (1 - share) * targets[i] + share * targets[partner[i]]
    return mixed, labels


# wrong mixing: a negative side
# hint: has a negative height or width after clipping
def cutmix(images, targets, boxes, partner):
    height, width = images.shape[2:]
    mixed, labels = images.clone(), targets.clone()
    for i, (top, bottom, left, right) in enumerate(boxes.tolist()):
        top, bottom, left, right = max(top, 0), min(bottom, height), max(left, 0), min(right, width)
        if bottom > top and right > left:
            mixed[i, :, top:bottom, left:right] = images[partner[i], :, top:bottom, left:right]
        share = (bottom - top) * (right - left) / (height * width)
        labels[i] = (1 - share) * targets[i] + share * targets[partner[i]]
    return mixed, labels


# wrong mixing: pastes in place
# hint: a box brings along what was pasted before
def cutmix(images, targets, boxes, partner):
    height, width = images.shape[2:]
    labels = targets.clone()
    for i, (top, bottom, left, right) in enumerate(boxes.tolist()):
        rows, columns = slice(max(top, 0), max(bottom, 0)), slice(max(left, 0), max(right, 0))
        images[i, :, rows, columns] = images[partner[i], :, rows, columns]
        share = images[i, 0, rows, columns].numel() / (height * width)
        labels[i] = (1 - share) * targets[i] + share * targets[partner[i]]
    return images, labels


# right mixing: masks for the whole batch
def mixup(images, targets, keep, partner):
    return (
        torch.lerp(images[partner], images, keep[:, None, None, None]),
        torch.lerp(targets[partner], targets, keep[:, None]),
    )


def cutmix(images, targets, boxes, partner):
    top, bottom, left, right = (edge[:, None] for edge in boxes.unbind(dim=1))
    row, column = torch.arange(images.shape[2])[None], torch.arange(images.shape[3])[None]
    rows, columns = (top <= row) & (row < bottom), (left <= column) & (column < right)
    mask = (rows[:, :, None] & columns[:, None, :]).float()[:, None]
    share = mask.mean(dim=(1, 2, 3))[:, None]
    return images * (1 - mask) + images[partner] * mask, targets * (1 - share) + targets[partner] * share


# right mixing: picture by picture
def mixup(images, targets, keep, partner):
    pictures, labels = [], []
    for i, share in enumerate(keep.tolist()):
        j = int(partner[i])
        pictures.append(share * images[i] + (1 - share) * images[j])
        labels.append(share * targets[i] + (1 - share) * targets[j])
    return torch.stack(pictures), torch.stack(labels)


def cutmix(images, targets, boxes, partner):
    height, width = images.shape[2:]
    pictures, labels = images.tolist(), []
    for i, (top, bottom, left, right) in enumerate(boxes.tolist()):
        pasted = 0
        for row in range(height):
            for column in range(width):
                if top <= row < bottom and left <= column < right:
                    pasted += 1
                    for channel in range(images.shape[1]):
                        pictures[i][channel][row][column] = float(images[partner[i], channel, row, column])
        share = pasted / (height * width)
        labels.append(targets[i] + share * (targets[partner[i]] - targets[i]))
    return torch.tensor(pictures), torch.stack(labels)


# wrong depth: the first layer may go
# hint: Your first layer may be left out
def depth_rates(last, num_layers):
    return [last * (layer + 1) / num_layers for layer in range(num_layers)]


# wrong depth: one rate
# hint: All layers have the same rate
def depth_rates(last, num_layers):
    return [last for _ in range(num_layers)]


# wrong depth: stops short
# hint: The last layer does not reach
def depth_rates(last, num_layers):
    return [last * layer / num_layers for layer in range(num_layers)]


# wrong depth: one layer breaks it
# hint: division by zero
def depth_rates(last, num_layers):
    return [last * layer / (num_layers - 1) for layer in range(num_layers)]


# wrong depth: never scaled
# hint: The branch is not scaled up
def residual(x, branch, keep, rate, training):
    if not training:
        return x + branch
    return x + branch * keep.reshape(-1, *[1] * (x.dim() - 1))


# wrong depth: divided by the rate
# hint: You divide by the rate
def residual(x, branch, keep, rate, training):
    if not training:
        return x + branch
    return x + branch * keep.reshape(-1, *[1] * (x.dim() - 1)) / rate


# wrong depth: the stream goes too
# hint: The stream x is dropped
def residual(x, branch, keep, rate, training):
    if not training:
        return x + branch
    return keep.reshape(-1, *[1] * (x.dim() - 1)) * (x + branch / (1 - rate))


# wrong depth: scales in evaluation too
# hint: In evaluation every branch takes part, unscaled
def residual(x, branch, keep, rate, training):
    if not training:
        return x + (1 - rate) * branch
    return x + branch * keep.reshape(-1, *[1] * (x.dim() - 1)) / (1 - rate)


# wrong depth: coins along the last axis
# hint: One coin for each row of the batch
def residual(x, branch, keep, rate, training):
    if not training:
        return x + branch
    coins = keep if x.shape[-1] == len(keep) else keep.reshape(-1, *[1] * (x.dim() - 1))
    return x + branch * coins / (1 - rate)


# wrong depth: counts the missing
# hint: how many layers are left out
def expected_depth(rates):
    return sum(rates)


# wrong depth: multiplies
# hint: no layer at all is left out
def expected_depth(rates):
    return math.prod(1 - rate for rate in rates)


# right depth: linspace, where, and a mean
def depth_rates(last, num_layers):
    return torch.linspace(0, last, num_layers).tolist()


def residual(x, branch, keep, rate, training):
    if training:
        shape = [len(x)] + [1] * (x.dim() - 1)
        branch = torch.where(keep.view(shape), branch / (1 - rate), torch.zeros_like(branch))
    return x + branch


def expected_depth(rates):
    return len(rates) - sum(rates)


# right depth: a generator of rates, and the branch added in place
def depth_rates(last, num_layers):
    return (last * layer / max(num_layers - 1, 1) for layer in range(num_layers))


def residual(x, branch, keep, rate, training):
    x += branch * (keep.reshape(-1, *[1] * (x.dim() - 1)) / (1 - rate) if training else 1)
    return x


def expected_depth(rates):
    return torch.tensor([1 - rate for rate in rates]).sum()


# right depth: row by row
def depth_rates(last, num_layers):
    step = last / (num_layers - 1) if num_layers > 1 else 0.0
    return [step * layer for layer in range(num_layers)]


def residual(x, branch, keep, rate, training):
    rows = []
    for stream, addition, stays in zip(x, branch, keep.tolist()):
        factor = 1.0 if not training else (1 / (1 - rate) if stays else 0.0)
        rows.append(stream + factor * addition)
    return torch.stack(rows)


def expected_depth(rates):
    return float((1 - torch.tensor(rates, dtype=torch.float64)).sum())


# wrong positions: bilinear
# hint: That is bilinear
def interpolate_positions(table, old, new, num_prefix=1):
    grid = table[num_prefix:].reshape(*old, -1).permute(2, 0, 1)[None]
    grid = F.interpolate(grid, size=tuple(new), mode="bilinear", align_corners=False)
    return torch.cat([table[:num_prefix], grid[0].permute(1, 2, 0).flatten(0, 1)])


# wrong positions: the default mode
# hint: the nearest old patch
def interpolate_positions(table, old, new, num_prefix=1):
    grid = table[num_prefix:].reshape(*old, -1).permute(2, 0, 1)[None]
    return torch.cat([table[:num_prefix], F.interpolate(grid, size=tuple(new))[0].permute(1, 2, 0).flatten(0, 1)])


# wrong positions: corners aligned
# hint: patches are areas
def interpolate_positions(table, old, new, num_prefix=1):
    grid = table[num_prefix:].reshape(*old, -1).permute(2, 0, 1)[None]
    grid = F.interpolate(grid, size=tuple(new), mode="bicubic", align_corners=True)
    return torch.cat([table[:num_prefix], grid[0].permute(1, 2, 0).flatten(0, 1)])


# wrong positions: the class token's row is gone
# hint: The prefix is lost
def interpolate_positions(table, old, new, num_prefix=1):
    grid = table[num_prefix:].reshape(*old, -1).permute(2, 0, 1)[None]
    grid = F.interpolate(grid, size=tuple(new), mode="bicubic", align_corners=False)
    return grid[0].permute(1, 2, 0).flatten(0, 1)


# wrong positions: the class token's row at the end
# hint: The prefix has gone to the end
def interpolate_positions(table, old, new, num_prefix=1):
    grid = table[num_prefix:].reshape(*old, -1).permute(2, 0, 1)[None]
    grid = F.interpolate(grid, size=tuple(new), mode="bicubic", align_corners=False)
    return torch.cat([grid[0].permute(1, 2, 0).flatten(0, 1), table[:num_prefix]])


# wrong positions: features and places mixed up
# hint: mixes features with positions
def interpolate_positions(table, old, new, num_prefix=1):
    grid = table[num_prefix:].reshape(1, -1, *old)
    grid = F.interpolate(grid, size=tuple(new), mode="bicubic", align_corners=False)
    return torch.cat([table[:num_prefix], grid[0].flatten(1).T])


# wrong positions: mixed up on the way back
# hint: D has not gone to the end
def interpolate_positions(table, old, new, num_prefix=1):
    grid = table[num_prefix:].reshape(*old, -1).permute(2, 0, 1)[None]
    grid = F.interpolate(grid, size=tuple(new), mode="bicubic", align_corners=False)
    return torch.cat([table[:num_prefix], grid.reshape(-1, table.shape[1])])


# wrong positions: mixed up there and back
# hint: mixes features with positions both times
def interpolate_positions(table, old, new, num_prefix=1):
    grid = table[num_prefix:].view(1, -1, *old)
    grid = torch.nn.functional.interpolate(grid, size=new, mode="bicubic", align_corners=False)
    return torch.cat([table[:num_prefix], grid.view(-1, table.shape[1])])


# wrong positions: one prefix token, whatever is asked
# hint: You keep one prefix row
def interpolate_positions(table, old, new, num_prefix=1):
    if tuple(old) == tuple(new):
        return table
    grid = table[1 : 1 + old[0] * old[1]]
    if len(grid) < old[0] * old[1]:
        grid = torch.cat([table[:1], grid])
    grid = F.interpolate(grid.reshape(*old, -1).permute(2, 0, 1)[None], size=tuple(new), mode="bicubic")
    return torch.cat([table[:1], grid[0].permute(1, 2, 0).flatten(0, 1)])


# right positions: feature by feature
def interpolate_positions(table, old, new, num_prefix=1):
    features = []
    for feature in table[num_prefix:].T:
        cells = F.interpolate(feature.view(1, 1, *old), size=list(new), mode="bicubic", align_corners=False)
        features.append(cells.flatten())
    return torch.cat([table[:num_prefix], torch.stack(features, dim=1)], dim=0)


# right positions: in float64, flatten and transpose
def interpolate_positions(table, old, new, num_prefix=1):
    prefix, grid = table.double().split([num_prefix, old[0] * old[1]])
    grid = grid.T.unflatten(1, tuple(old)).unsqueeze(0)
    grid = F.interpolate(grid, size=(new[0], new[1]), mode="bicubic")
    return torch.vstack([prefix, grid.squeeze(0).flatten(1).T])
