import math
from itertools import permutations

import torch
import torch.nn.functional as F


# wrong look: not scaled
# hint: not divided by √d
def look(words, regions, maps, there):
    q, k, v = words @ maps[0], regions @ maps[1], regions @ maps[2]
    scores = q @ k.T
    scores[:, ~there] = -math.inf
    weights = torch.softmax(scores, dim=-1)
    return weights @ v, weights


# wrong look: padding is read
# hint: Padding is looked at
def look(words, regions, maps, there):
    q, k, v = words @ maps[0], regions @ maps[1], regions @ maps[2]
    weights = torch.softmax(q @ k.T / math.sqrt(q.shape[-1]), dim=-1)
    return weights @ v, weights


# wrong look: masked after the softmax
# hint: no longer sum to one
def look(words, regions, maps, there):
    q, k, v = words @ maps[0], regions @ maps[1], regions @ maps[2]
    weights = torch.softmax(q @ k.T / math.sqrt(q.shape[-1]), dim=-1)
    weights = weights.masked_fill(~there, 0.0)
    return weights @ v, weights


# wrong look: mask upside down
# hint: upside down
def look(words, regions, maps, there):
    q, k, v = words @ maps[0], regions @ maps[1], regions @ maps[2]
    scores = (q @ k.T / math.sqrt(q.shape[-1])).masked_fill(there, -math.inf)
    weights = torch.softmax(scores, dim=-1)
    return weights @ v, weights


# wrong look: keys as values
# hint: average the keys
def look(words, regions, maps, there):
    q, k = words @ maps[0], regions @ maps[1]
    scores = (q @ k.T / math.sqrt(q.shape[-1])).masked_fill(~there, -math.inf)
    weights = torch.softmax(scores, dim=-1)
    return weights @ k, weights


# wrong look: softmax over the words
# hint: softmax runs over the words
def look(words, regions, maps, there):
    q, k, v = words @ maps[0], regions @ maps[1], regions @ maps[2]
    weights = torch.softmax(q @ k.T / math.sqrt(q.shape[-1]), dim=0) * there
    return weights @ v, weights


# right look: only the regions that are there
def look(words, regions, maps, there):
    real = regions[there]
    q, k, v = words @ maps[0], real @ maps[1], real @ maps[2]
    some = torch.softmax(q @ k.T / math.sqrt(q.shape[-1]), dim=-1)
    weights = torch.zeros(len(words), len(regions))
    weights[:, there] = some
    return some @ v, weights


# right look: word by word
def look(words, regions, maps, there):
    seen, weights = [], []
    for word in words:
        query = word @ maps[0]
        exponentials = torch.stack(
            [
                torch.exp(query @ (region @ maps[1]) / len(query) ** 0.5) if real else torch.zeros(())
                for region, real in zip(regions, there)
            ]
        )
        weights.append(exponentials / exponentials.sum())
        seen.append(weights[-1] @ (regions @ maps[2]))
    return torch.stack(seen), torch.stack(weights)


# wrong overlap: the plain IoU
# hint: This is the plain IoU
def box_overlap(a, b):
    rows = []
    for one in a:
        row = []
        for other in b:
            w = (torch.minimum(one[2], other[2]) - torch.maximum(one[0], other[0])).clamp(min=0)
            h = (torch.minimum(one[3], other[3]) - torch.maximum(one[1], other[1])).clamp(min=0)
            areas = [(x[2] - x[0]) * (x[3] - x[1]) for x in (one, other)]
            row.append(w * h / (sum(areas) - w * h))
        rows.append(torch.stack(row))
    return torch.stack(rows)


# wrong overlap: negative sides
# hint: clamp each side at 0
def box_overlap(a, b):
    a, b = a[:, None], b[None]
    w = torch.minimum(a[..., 2], b[..., 2]) - torch.maximum(a[..., 0], b[..., 0])
    h = torch.minimum(a[..., 3], b[..., 3]) - torch.maximum(a[..., 1], b[..., 1])
    union = (
        (a[..., 2] - a[..., 0]) * (a[..., 3] - a[..., 1]) + (b[..., 2] - b[..., 0]) * (b[..., 3] - b[..., 1]) - w * h
    )
    around = (torch.maximum(a[..., 2], b[..., 2]) - torch.minimum(a[..., 0], b[..., 0])) * (
        torch.maximum(a[..., 3], b[..., 3]) - torch.minimum(a[..., 1], b[..., 1])
    )
    return w * h / union - (around - union) / around


# wrong overlap: union too large
# hint: counts the intersection once
def box_overlap(a, b):
    a, b = a[:, None], b[None]
    w = (torch.minimum(a[..., 2], b[..., 2]) - torch.maximum(a[..., 0], b[..., 0])).clamp(min=0)
    h = (torch.minimum(a[..., 3], b[..., 3]) - torch.maximum(a[..., 1], b[..., 1])).clamp(min=0)
    union = (a[..., 2] - a[..., 0]) * (a[..., 3] - a[..., 1]) + (b[..., 2] - b[..., 0]) * (b[..., 3] - b[..., 1])
    around = (torch.maximum(a[..., 2], b[..., 2]) - torch.minimum(a[..., 0], b[..., 0])) * (
        torch.maximum(a[..., 3], b[..., 3]) - torch.minimum(a[..., 1], b[..., 1])
    )
    return w * h / union - (around - union) / around


# wrong overlap: divided by the union
# hint: not by the union
def box_overlap(a, b):
    a, b = a[:, None], b[None]
    w = (torch.minimum(a[..., 2], b[..., 2]) - torch.maximum(a[..., 0], b[..., 0])).clamp(min=0)
    h = (torch.minimum(a[..., 3], b[..., 3]) - torch.maximum(a[..., 1], b[..., 1])).clamp(min=0)
    union = (
        (a[..., 2] - a[..., 0]) * (a[..., 3] - a[..., 1]) + (b[..., 2] - b[..., 0]) * (b[..., 3] - b[..., 1]) - w * h
    )
    around = (torch.maximum(a[..., 2], b[..., 2]) - torch.minimum(a[..., 0], b[..., 0])) * (
        torch.maximum(a[..., 3], b[..., 3]) - torch.minimum(a[..., 1], b[..., 1])
    )
    return w * h / union - (around - union) / union


# right overlap: pair by pair
def box_overlap(a, b):
    def area(box):
        return (box[2] - box[0]) * (box[3] - box[1])

    rows = []
    for one in a:
        row = []
        for other in b:
            w = torch.relu(torch.minimum(one[2], other[2]) - torch.maximum(one[0], other[0]))
            h = torch.relu(torch.minimum(one[3], other[3]) - torch.maximum(one[1], other[1]))
            union = area(one) + area(other) - w * h
            hull = area(
                torch.stack(
                    [
                        torch.minimum(one[0], other[0]),
                        torch.minimum(one[1], other[1]),
                        torch.maximum(one[2], other[2]),
                        torch.maximum(one[3], other[3]),
                    ]
                )
            )
            row.append(w * h / union - 1 + union / hull)
        rows.append(torch.stack(row))
    return torch.stack(rows)


# right overlap: sides in a broadcast
def box_overlap(a, b):
    ax1, ay1, ax2, ay2 = a.T[:, :, None]
    bx1, by1, bx2, by2 = b.T[:, None, :]
    w = F.relu(torch.min(ax2, bx2) - torch.max(ax1, bx1))
    h = F.relu(torch.min(ay2, by2) - torch.max(ay1, by1))
    union = (ax2 - ax1) * (ay2 - ay1) + (bx2 - bx1) * (by2 - by1) - w * h
    hull = (torch.max(ax2, bx2) - torch.min(ax1, bx1)) * (torch.max(ay2, by2) - torch.min(ay1, by1))
    return w * h / union - (hull - union) / hull


# wrong matching: the cheapest for each
# hint: No query may be used twice
def match(cost):
    return torch.stack([column.argmin() for column in cost.T])


# wrong matching: in turn
# hint: one takes what another needs
def match(cost):
    taken = []
    for column in cost.T:
        free = [q for q in range(len(column)) if q not in taken]
        taken.append(min(free, key=lambda q: float(column[q])))
    return torch.tensor(taken)


# wrong matching: the most expensive
# hint: most expensive assignment
def match(cost):
    n, t = cost.shape
    best = max(permutations(range(n), t), key=lambda way: float(sum(cost[q, j] for j, q in enumerate(way))))
    return torch.tensor(best)


# wrong matching: no object counts fully
# hint: weight of 0.1
def set_loss(logits, boxes, matched, labels, target_boxes):
    wanted = torch.full((len(logits),), logits.shape[1] - 1)
    wanted[matched] = labels
    return F.cross_entropy(logits, wanted) + 5 * (boxes[matched] - target_boxes).abs().sum() / len(matched)


# wrong matching: unmatched queries left out
# hint: left out
def set_loss(logits, boxes, matched, labels, target_boxes):
    return F.cross_entropy(logits[matched], labels) + 5 * (boxes[matched] - target_boxes).abs().sum() / len(matched)


# wrong matching: the mean over all numbers of the boxes
# hint: average over the four numbers
def set_loss(logits, boxes, matched, labels, target_boxes):
    wanted = torch.full((len(logits),), logits.shape[1] - 1)
    wanted[matched] = labels
    weights = torch.tensor([1.0] * (logits.shape[1] - 1) + [0.1])
    return F.cross_entropy(logits, wanted, weight=weights) + 5 * F.l1_loss(boxes[matched], target_boxes)


# wrong matching: divided by the number of queries
# hint: weighted mean
def set_loss(logits, boxes, matched, labels, target_boxes):
    wanted = torch.full((len(logits),), logits.shape[1] - 1)
    wanted[matched] = labels
    weights = torch.tensor([1.0] * (logits.shape[1] - 1) + [0.1])
    classes = F.cross_entropy(logits, wanted, weight=weights, reduction="sum") / len(logits)
    return classes + 5 * (boxes[matched] - target_boxes).abs().sum() / len(matched)


# right matching: a search that goes back
def match(cost):
    best = [math.inf, None]

    def search(target, taken, total):
        if target == cost.shape[1]:
            if total < best[0]:
                best[:] = [total, list(taken)]
            return
        for query in range(cost.shape[0]):
            if query not in taken:
                search(target + 1, [*taken, query], total + cost[query, target].item())

    search(0, [], 0.0)
    return torch.tensor(best[1])


def set_loss(logits, boxes, matched, labels, target_boxes):
    chances = logits.log_softmax(dim=1)
    total, weight = 0.0, 0.0
    partner = {int(query): target for target, query in enumerate(matched)}
    error = 0.0
    for query in range(len(logits)):
        if query in partner:
            total, weight = total - chances[query, labels[partner[query]]], weight + 1
            error = error + (boxes[query] - target_boxes[partner[query]]).abs().sum()
        else:
            total, weight = total - 0.1 * chances[query, -1], weight + 0.1
    return total / weight + 5 * error / len(labels)


# right matching: by permutations of the rows
def match(cost):
    queries, targets = cost.shape
    sums = {way: cost[list(way), range(targets)].sum().item() for way in permutations(range(queries), targets)}
    return torch.tensor(min(sums, key=sums.get))


# wrong co_attention: self-attention
# hint: Each stream reads itself
def co_attention(words, regions, word_maps, region_maps):
    out = []
    for x, (q, k, v) in ((words, word_maps), (regions, region_maps)):
        out.append(x + torch.softmax((x @ q) @ (x @ k).T / math.sqrt(q.shape[1]), dim=1) @ (x @ v))
    return tuple(out)


# wrong co_attention: one after the other
# hint: already read the regions
def co_attention(words, regions, word_maps, region_maps):
    def read(x, y, query_map, key_map, value_map):
        weights = ((x @ query_map) @ (y @ key_map).T / math.sqrt(query_map.shape[1])).softmax(1)
        return x + weights @ (y @ value_map)

    words = read(words, regions, word_maps[0], region_maps[1], region_maps[2])
    regions = read(regions, words, region_maps[0], word_maps[1], word_maps[2])
    return words, regions


# wrong co_attention: no residual
# hint: residual is missing
def co_attention(words, regions, word_maps, region_maps):
    root = math.sqrt(word_maps[0].shape[1])
    a = ((words @ word_maps[0]) @ (regions @ region_maps[1]).T / root).softmax(1) @ (regions @ region_maps[2])
    b = ((regions @ region_maps[0]) @ (words @ word_maps[1]).T / root).softmax(1) @ (words @ word_maps[2])
    return a, b


# wrong co_attention: maps of the asking stream
# hint: go through that stream's own maps
def co_attention(words, regions, word_maps, region_maps):
    def read(x, y, maps):
        return x + ((x @ maps[0]) @ (y @ maps[1]).T / math.sqrt(maps[0].shape[1])).softmax(1) @ (y @ maps[2])

    return read(words, regions, word_maps), read(regions, words, region_maps)


# right co_attention: one function for both
def co_attention(words, regions, word_maps, region_maps):
    def read(x, q, y, k, v):
        weights = torch.softmax((x @ q) @ (y @ k).T / q.shape[1] ** 0.5, dim=-1)
        return x + weights @ (y @ v)

    return (
        read(words, word_maps[0], regions, *region_maps[1:]),
        read(regions, region_maps[0], words, *word_maps[1:]),
    )


# right co_attention: torch's own attention
def co_attention(words, regions, word_maps, region_maps):
    q, k, v = (words @ m for m in word_maps)
    rq, rk, rv = (regions @ m for m in region_maps)
    attend = F.scaled_dot_product_attention
    return words + attend(q[None], rk[None], rv[None])[0], regions + attend(rq[None], k[None], v[None])[0]


# wrong prompt: not centred
# hint: Bring it to −1
def click_token(point, frequencies, kind):
    angles = 2 * math.pi * point @ frequencies
    return torch.cat([torch.sin(angles), torch.cos(angles)]) + kind


# wrong prompt: no turn
# hint: factor 2π is missing
def click_token(point, frequencies, kind):
    angles = (2 * point - 1) @ frequencies
    return torch.cat([torch.sin(angles), torch.cos(angles)]) + kind


# wrong prompt: cosines first
# hint: Sines come first
def click_token(point, frequencies, kind):
    angles = 2 * math.pi * (2 * point - 1) @ frequencies
    return torch.cat([torch.cos(angles), torch.sin(angles)]) + kind


# wrong prompt: probabilities
# hint: These are probabilities
def masks(tokens, pixels):
    return torch.sigmoid((tokens @ pixels.flatten(1)).view(-1, *pixels.shape[1:]))


# wrong prompt: the mean of all masks
# hint: average over the masks
def best_of(logits, truth):
    return F.binary_cross_entropy_with_logits(logits, truth.float().expand_as(logits))


# wrong prompt: pixel by pixel
# hint: anew for every pixel
def best_of(logits, truth):
    each = F.binary_cross_entropy_with_logits(logits, truth.float().expand_as(logits), reduction="none")
    return each.amin(dim=0).mean()


# right prompt: by hand
def click_token(point, frequencies, kind):
    x, y = 2 * point[0] - 1, 2 * point[1] - 1
    angles = [2 * math.pi * (x * fx + y * fy) for fx, fy in frequencies.T]
    return torch.stack([a.sin() for a in angles] + [a.cos() for a in angles]) + kind


def masks(tokens, pixels):
    return torch.stack([(token[:, None, None] * pixels).sum(dim=0) for token in tokens])


def best_of(logits, truth):
    signs = truth.float() * 2 - 1
    return min((F.softplus(-signs * mask).mean() for mask in logits), key=float)


# right prompt: matrices
def masks(tokens, pixels):
    depth, height, width = pixels.shape
    return (tokens @ pixels.reshape(depth, -1)).reshape(len(tokens), height, width)


def best_of(logits, truth):
    loss = torch.stack([F.binary_cross_entropy(torch.sigmoid(one), truth.float()) for one in logits])
    return loss[loss.argmin()]


# wrong matching: a loss that is a plain number
# hint: the loss is a plain number, and no gradient flows through a number
def set_loss(logits, boxes, matched, labels, target_boxes):
    wanted = torch.full((len(logits),), logits.shape[1] - 1)
    wanted[matched] = labels
    weights = torch.ones(logits.shape[1])
    weights[-1] = 0.1
    classes = torch.nn.functional.cross_entropy(logits, wanted, weight=weights)
    return float(classes + 5 * (boxes[matched] - target_boxes).abs().sum() / len(labels))


# wrong prompt: weights taken out of the graph
# hint: no gradient reaches input 0
def best_of(logits, truth):
    wanted = truth.float().expand_as(logits)
    each = torch.nn.functional.binary_cross_entropy_with_logits(logits.detach(), wanted, reduction="none")
    return each.mean(dim=(1, 2)).min()


# wrong look: the weights alone
# hint: return a pair, what the words see and the weights
def look(words, regions, maps, there):
    scores = (words @ maps[0]) @ (regions @ maps[1]).T / maps[0].shape[1] ** 0.5
    return scores.masked_fill(~there, -torch.inf).softmax(dim=1)
