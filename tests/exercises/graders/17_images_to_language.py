"""Exercise set 17, images and language: what is asked, how it is tested, and the mistakes it can name."""

import itertools
import math

import torch
import torch.nn.functional as F

from lecturelib.grading import Rubric, assert_close, draw

rubric = Rubric("17_images_to_language", title="Images and language")
rubric.exercise("look", title="Words look at regions", minutes=20, difficulty=2, defines=("look",))
rubric.exercise("overlap", title="How well do two boxes agree?", minutes=25, difficulty=3, defines=("box_overlap",))
rubric.exercise("matching", title="A loss for a set", minutes=35, difficulty=4, defines=("match", "set_loss"))
rubric.exercise("co_attention", title="Each reads the other", minutes=25, difficulty=3, defines=("co_attention",))
rubric.exercise(
    "prompt", title="From a click to a mask", minutes=30, difficulty=3, defines=("click_token", "masks", "best_of")
)


# 1. Words look at regions


def attended(words, regions, maps, there, *, scale=True, axis=1, keep=None):
    w_query, w_key, w_value = maps
    scores = (words @ w_query) @ (regions @ w_key).T  # (T, N)
    scores = scores / w_query.shape[1] ** 0.5 if scale else scores
    weights = scores.masked_fill(~(there if keep is None else keep), -torch.inf).softmax(dim=axis)
    return weights @ (regions @ w_value), weights


@rubric.reference
def look(words, regions, maps, there):
    return attended(words, regions, maps, there)


@rubric.mistake("look", "The scores are not divided by √d, the square root of the width of queries and keys.")
def look_unscaled(words, regions, maps, there):
    return attended(words, regions, maps, there, scale=False)


@rubric.mistake("look", "Padding is looked at: regions where `there` is False get a weight of zero.")
def look_at_padding(words, regions, maps, there):
    return attended(words, regions, maps, torch.ones_like(there))


@rubric.mistake("look", "Your mask is upside down: True in `there` means that the region exists.")
def look_at_padding_only(words, regions, maps, there):
    return attended(words, regions, maps, ~there)


@rubric.mistake(
    "look",
    "You set weights to zero after the softmax, so they no longer sum to one. Mask the scores, before the softmax.",
)
def masked_too_late(words, regions, maps, there):
    _, weights = attended(words, regions, maps, torch.ones_like(there))
    weights = weights * there
    return weights @ (regions @ maps[2]), weights


@rubric.mistake("look", "You average the regions as they are. Values are regions times the third map.")
def values_not_mapped(words, regions, maps, there):
    _, weights = attended(words, regions, maps, there)
    return weights @ regions, weights


@rubric.mistake("look", "You average the keys. Values have a map of their own, the third one.")
def keys_as_values(words, regions, maps, there):
    _, weights = attended(words, regions, maps, there)
    return weights @ (regions @ maps[1]), weights


@rubric.mistake(
    "look", "Your softmax runs over the words: each region's column sums to one. A word spreads one look over regions."
)
def softmax_over_words(words, regions, maps, there):
    scores = (words @ maps[0]) @ (regions @ maps[1]).T / maps[0].shape[1] ** 0.5
    weights = scores.softmax(dim=0) * there
    return weights @ (regions @ maps[2]), weights


def scene(rng, words=5, regions=7, d_text=4, d_image=6, d=3, d_value=2):
    maps = (draw(rng, d_text, d), draw(rng, d_image, d), draw(rng, d_image, d_value))
    return draw(rng, words, d_text), draw(rng, regions, d_image), maps


LOOKED = ("what the words see", "the weights")


def some_there(rng, regions):
    there = torch.rand(regions, generator=rng) < 0.6
    there[int(torch.randint(regions, (1,), generator=rng))] = True
    return there


@rubric.test(
    "look", points=1, visible=True, hint="Queries from words; keys and values from regions; softmax over regions."
)
def looks_at_all_regions(submission, rng):
    words, regions, maps = scene(rng)
    there = torch.ones(7, dtype=torch.bool)
    assert_close(submission.look(words, regions, maps, there), look(words, regions, maps, there), what=LOOKED)


@rubric.test("look", points=1, visible=True, hint="Scores of regions that are not there become −∞ before the softmax.")
def looks_past_padding(submission, rng):
    words, regions, maps = scene(rng)
    there = torch.tensor([True, True, False, True, False, True, False])
    assert_close(submission.look(words, regions, maps, there), look(words, regions, maps, there), what=LOOKED)


@rubric.test(
    "look", points=1, visible=False, topic="other sizes", hint="One word, one region, other widths, gradients."
)
def looks_at_other_sizes(submission, rng):
    for sizes in ((1, 4, 5, 3, 2, 6), (6, 1, 3, 4, 5, 2), (3, 8, 2, 5, 4, 7)):
        words, regions, maps = scene(rng, *sizes)
        there = some_there(rng, sizes[1])
        assert_close(submission.look(words, regions, maps, there), look(words, regions, maps, there), what=LOOKED)


# 2. Boxes


def overlap_of(a, b, *, hull=True, clamp=True, subtract=True, of_union=False):
    top = torch.maximum(a[:, None, :2], b[None, :, :2])  # (N, M, 2)
    bottom = torch.minimum(a[:, None, 2:], b[None, :, 2:])
    sides = (bottom - top).clamp(min=0) if clamp else bottom - top
    common = sides.prod(dim=2)  # (N, M)
    areas_a, areas_b = (x[:, 2:] - x[:, :2] for x in (a, b))
    union = areas_a.prod(dim=1)[:, None] + areas_b.prod(dim=1) - (common if subtract else 0)
    around = torch.maximum(a[:, None, 2:], b[None, :, 2:]) - torch.minimum(a[:, None, :2], b[None, :, :2])
    around = around.prod(dim=2)
    waste = (around - union) / (union if of_union else around)
    return common / union - (waste if hull else 0)


@rubric.reference
def box_overlap(a, b):
    return overlap_of(a, b)


@rubric.mistake(
    "box_overlap", "This is the plain IoU. Subtract the part of the smallest box around both that neither covers."
)
def plain_iou(a, b):
    return overlap_of(a, b, hull=False)


@rubric.mistake(
    "box_overlap",
    "Boxes that do not touch have an intersection of zero. Yours multiplies two negative sides: clamp each side at 0.",
)
def negative_sides(a, b):
    return overlap_of(a, b, clamp=False)


@rubric.mistake("box_overlap", "The union counts the intersection once: area + area − intersection.")
def union_too_large(a, b):
    return overlap_of(a, b, subtract=False)


@rubric.mistake("box_overlap", "Divide what is wasted by the area of the box around both, not by the union.")
def waste_over_union(a, b):
    return overlap_of(a, b, of_union=True)


@rubric.mistake("box_overlap", "Your boxes are read as centre, width and height. They are x₁, y₁, x₂, y₂: two corners.")
def as_centres(a, b):
    a, b = (torch.cat((x[:, :2] - x[:, 2:] / 2, x[:, :2] + x[:, 2:] / 2), dim=1) for x in (a, b))
    return overlap_of(a, b)


@rubric.mistake("box_overlap", "Rows and columns are exchanged: row i belongs to box i of a, column j to box j of b.")
def transposed(a, b):
    return overlap_of(b, a) if len(a) == len(b) else overlap_of(a, b).T


def boxes(rng, count):
    corner, size = 4 * torch.rand(count, 2, generator=rng), 0.5 + 3 * torch.rand(count, 2, generator=rng)
    return torch.cat((corner, corner + size), dim=1)


@rubric.test("overlap", points=1, visible=True, hint="Intersection over union first; then the box around both.")
def measures_pairs(submission, rng):
    a = torch.tensor([[0.0, 0.0, 2.0, 2.0], [1.0, 1.0, 4.0, 3.0], [0.0, 1.0, 3.0, 2.0]])
    b = torch.tensor([[1.0, 0.0, 3.0, 2.0], [0.0, 0.0, 4.0, 4.0], [1.5, 0.5, 2.0, 2.5], [0.5, 0.5, 2.5, 3.5]])
    assert_close(submission.box_overlap(a, b), box_overlap(a, b), what="the overlap")


@rubric.test("overlap", points=1, visible=True, hint="Far apart, the value is negative: −(waste / area around both).")
def measures_boxes_apart(submission, rng):
    a = torch.tensor([[0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 3.0]])
    b = torch.tensor([[2.0, 2.0, 3.0, 4.0], [5.0, 0.0, 6.0, 1.0], [1.5, 0.0, 2.0, 2.0]])
    assert_close(submission.box_overlap(a, b), box_overlap(a, b), what="the overlap")


@rubric.test(
    "overlap",
    points=1,
    visible=False,
    topic="random boxes, gradients",
    hint="Random boxes, and a gradient for each corner.",
)
def measures_random_boxes(submission, rng):
    a, b = boxes(rng, 5), boxes(rng, 8)
    assert_close(submission.box_overlap(a, b), box_overlap(a, b), what="the overlap")
    upstream = draw(rng, 5, 8)
    got = submission.box_overlap.gradients(a, b, upstream=upstream)
    assert_close(got, rubric.solution.box_overlap.gradients(a, b, upstream=upstream), rtol=1e-3, atol=1e-5)


# 3. Matching


@rubric.reference
def match(cost):
    targets = range(cost.shape[1])
    best = min(
        itertools.permutations(range(cost.shape[0]), cost.shape[1]),
        key=lambda chosen: sum(float(cost[query, target]) for query, target in zip(chosen, targets, strict=True)),
    )
    return torch.tensor(best, dtype=torch.long)


@rubric.reference
def set_loss(logits, boxes, matched, labels, target_boxes):
    return loss_of(logits, boxes, matched, labels, target_boxes)


def loss_of(logits, boxes, matched, labels, target_boxes, *, weight=0.1, of_boxes=5.0, per=None, others=True):
    nothing = logits.shape[1] - 1
    wanted = torch.full((len(logits),), nothing).index_put((matched,), labels)
    weights = torch.ones(len(logits)).masked_fill(wanted == nothing, weight if others else 0.0)
    each = F.cross_entropy(logits, wanted, reduction="none")  # (Q,)
    classes = (weights * each).sum() / weights.sum()
    apart = (boxes[matched] - target_boxes).abs().sum() / (per or len(labels))
    return classes + of_boxes * apart


@rubric.mistake(
    "match",
    "Each target takes its cheapest query, so one query can serve two. No query may be used twice.",
)
def cheapest_each(cost):
    return cost.argmin(dim=0)


@rubric.mistake(
    "match",
    "Your targets get their queries one after the other, and one takes what another needs. Compare the sums of whole "
    "assignments.",
)
def greedy(cost):
    left, chosen = cost.clone(), []
    for target in range(cost.shape[1]):
        chosen.append(int(left[:, target].argmin()))
        left[chosen[-1]] = torch.inf
    return torch.tensor(chosen)


@rubric.mistake("match", "You look for the most expensive assignment. The sum of the costs should be smallest.")
def dearest(cost):
    return match(-cost)


@rubric.mistake("match", "These are the targets of the queries. Return, for each target, the number of its query.")
def the_other_way(cost):
    chosen = match(cost)
    return chosen.argsort()


@rubric.mistake("set_loss", "“No object” counts fully. Queries without a target have a weight of 0.1.")
def nothing_counts_fully(logits, boxes, matched, labels, target_boxes):
    return loss_of(logits, boxes, matched, labels, target_boxes, weight=1.0)


@rubric.mistake(
    "set_loss", "Queries without a target are left out. They should say “no object”, the last class, with weight 0.1."
)
def others_left_out(logits, boxes, matched, labels, target_boxes):
    return loss_of(logits, boxes, matched, labels, target_boxes, others=False)


@rubric.mistake("set_loss", "The boxes are missing from your loss.")
def without_boxes(logits, boxes, matched, labels, target_boxes):
    return loss_of(logits, boxes, matched, labels, target_boxes, of_boxes=0.0)


@rubric.mistake("set_loss", "The box part should count five times.")
def boxes_once(logits, boxes, matched, labels, target_boxes):
    return loss_of(logits, boxes, matched, labels, target_boxes, of_boxes=1.0)


@rubric.mistake("set_loss", "Divide the sum of box errors by the number of targets, not by the number of queries.")
def per_query(logits, boxes, matched, labels, target_boxes):
    return loss_of(logits, boxes, matched, labels, target_boxes, per=len(logits))


@rubric.mistake("set_loss", "You average over the four numbers of a box as well. Sum them; divide by the targets only.")
def per_number(logits, boxes, matched, labels, target_boxes):
    return loss_of(logits, boxes, matched, labels, target_boxes, per=4 * len(labels))


@rubric.mistake(
    "set_loss", "The boxes are compared in the order they stand in. Take the box of each target's own query."
)
def boxes_in_order(logits, boxes, matched, labels, target_boxes):
    right = loss_of(logits, boxes, matched, labels, target_boxes, of_boxes=0.0)
    return right + 5 * (boxes[: len(labels)] - target_boxes).abs().sum() / len(labels)


@rubric.mistake(
    "set_loss",
    "The class part is a weighted mean: divide the weighted sum by the sum of the weights, not by the number of "
    "queries.",
)
def mean_over_queries(logits, boxes, matched, labels, target_boxes):
    nothing = logits.shape[1] - 1
    wanted = torch.full((len(logits),), nothing).index_put((matched,), labels)
    weights = torch.ones(len(logits)).masked_fill(wanted == nothing, 0.1)
    each = F.cross_entropy(logits, wanted, reduction="none")
    whole = loss_of(logits, boxes, matched, labels, target_boxes)
    return whole - (weights * each).sum() / weights.sum() + (weights * each).mean()


CONFLICT = [[1.0, 2.0, 9.0], [2.0, 8.0, 3.0], [7.0, 6.0, 4.0], [9.0, 5.0, 8.0]]  # the cheapest each collide


@rubric.test("matching", points=1, visible=True, hint="Try every way to give each target a query of its own.")
def matches_without_conflict(submission, rng):
    assert_close(submission.match(torch.tensor(CONFLICT)), match(torch.tensor(CONFLICT)), what="the queries")


@rubric.test(
    "matching", points=2, visible=True, hint="A weighted cross-entropy over all queries, and 5 × the box part."
)
def adds_up_the_set_loss(submission, rng):
    logits, found, targets = draw(rng, 5, 4), draw(rng, 5, 4), draw(rng, 2, 4)
    matched, labels = torch.tensor([3, 1]), torch.tensor([2, 0])
    given = (logits, found, matched, labels, targets)
    got, want = (module.set_loss.gradients(*given) for module in (submission, rubric.solution))
    assert_close(got, want, what="the loss", rtol=1e-3)


@rubric.test("matching", points=1, visible=False, topic="other costs", hint="Other sizes, negative costs, one target.")
def matches_other_costs(submission, rng):
    for queries, targets in ((5, 3), (4, 4), (6, 2), (3, 1)):
        cost = draw(rng, queries, targets)
        assert_close(submission.match(cost), match(cost), what="the queries")
    tempting = torch.tensor([[0.0, 0.1], [0.2, 5.0], [4.0, 4.0]])  # who chooses first must not take the best
    assert_close(submission.match(tempting), match(tempting), what="the queries")


@rubric.test(
    "matching", points=1, visible=False, topic="other sizes, gradients", hint="Logits and boxes get gradients."
)
def set_loss_passes_gradients(submission, rng):
    logits, found, targets = draw(rng, 6, 3), draw(rng, 6, 4), draw(rng, 3, 4)
    matched, labels = torch.tensor([4, 0, 5]), torch.tensor([1, 1, 0])
    got = submission.set_loss.gradients(logits, found, matched, labels, targets)
    want = rubric.solution.set_loss.gradients(logits, found, matched, labels, targets)
    assert_close(got, want, rtol=1e-3, atol=1e-5)


# 4. Co-attention


def reading(asking, read, query_maps, maps, *, scale=True):
    scores = (asking @ query_maps[0]) @ (read @ maps[1]).T
    scores = scores / query_maps[0].shape[1] ** 0.5 if scale else scores
    return scores.softmax(dim=1) @ (read @ maps[2])


@rubric.reference
def co_attention(words, regions, word_maps, region_maps):
    return (
        words + reading(words, regions, word_maps, region_maps),
        regions + reading(regions, words, region_maps, word_maps),
    )


@rubric.mistake(
    "co_attention", "Each stream reads itself. The keys and values of words come from the regions, and the other way."
)
def self_attention(words, regions, word_maps, region_maps):
    return (
        words + reading(words, words, word_maps, word_maps),
        regions + reading(regions, regions, region_maps, region_maps),
    )


@rubric.mistake(
    "co_attention",
    "Your regions read words that have already read the regions. Both streams read what the other was at the "
    "beginning.",
)
def one_after_the_other(words, regions, word_maps, region_maps):
    words = words + reading(words, regions, word_maps, region_maps)
    return words, regions + reading(regions, words, region_maps, word_maps)


@rubric.mistake("co_attention", "What was read should be added to the stream: the residual is missing.")
def no_residual(words, regions, word_maps, region_maps):
    return (
        reading(words, regions, word_maps, region_maps),
        reading(regions, words, region_maps, word_maps),
    )


@rubric.mistake(
    "co_attention",
    "Keys and values are made with the asking stream's maps. Each stream's tokens go through that stream's own maps.",
)
def maps_of_the_asking(words, regions, word_maps, region_maps):
    return (
        words + reading(words, regions, word_maps, word_maps),
        regions + reading(regions, words, region_maps, region_maps),
    )


@rubric.mistake("co_attention", "The scores are not divided by √d.")
def co_unscaled(words, regions, word_maps, region_maps):
    return (
        words + reading(words, regions, word_maps, region_maps, scale=False),
        regions + reading(regions, words, region_maps, word_maps, scale=False),
    )


@rubric.mistake("co_attention", "Only the words read. The regions read the words too.")
def one_way(words, regions, word_maps, region_maps):
    return words + reading(words, regions, word_maps, region_maps), regions


def streams(rng, words, regions, width, d):
    maps = [(draw(rng, width, d), draw(rng, width, d), draw(rng, width, width)) for _ in range(2)]
    return draw(rng, words, width), draw(rng, regions, width), *maps


@rubric.test("co_attention", points=2, visible=True, hint="Queries of one stream, keys and values of the other, twice.")
def reads_both_ways(submission, rng):
    given = streams(rng, 5, 7, 4, 3)
    assert_close(submission.co_attention(*given), co_attention(*given), what=("the words", "the regions"))


@rubric.test("co_attention", points=1, visible=False, topic="other sizes", hint="One word, many regions, other widths.")
def reads_other_sizes(submission, rng):
    for sizes in ((1, 6, 3, 5), (4, 1, 5, 2), (3, 3, 2, 4)):
        given = streams(rng, *sizes)
        assert_close(submission.co_attention(*given), co_attention(*given), what=("the words", "the regions"))


# 5. From a click to a mask


@rubric.reference
def click_token(point, frequencies, kind):
    return token_of(point, frequencies, kind)


def token_of(point, frequencies, kind, *, centred=True, turn=2 * math.pi, label=True, sine_first=True):
    angles = turn * ((2 * point - 1 if centred else point) @ frequencies)  # (m,)
    parts = (angles.sin(), angles.cos()) if sine_first else (angles.cos(), angles.sin())
    return torch.cat(parts) + (kind if label else 0)


@rubric.reference
def masks(tokens, pixels):
    return torch.einsum("kd,dhw->khw", tokens, pixels)


@rubric.reference
def best_of(logits, truth):
    return losses(logits, truth).min()


def losses(logits, truth):
    wanted = truth.to(logits.dtype).expand_as(logits)
    return F.binary_cross_entropy_with_logits(logits, wanted, reduction="none").mean(dim=(1, 2))  # (K,)


@rubric.mistake("click_token", "The point runs from 0 to 1. Bring it to −1 … 1 first: 2 · point − 1.")
def not_centred(point, frequencies, kind):
    return token_of(point, frequencies, kind, centred=False)


@rubric.mistake("click_token", "The factor 2π is missing before sine and cosine.")
def no_turn(point, frequencies, kind):
    return token_of(point, frequencies, kind, turn=1.0)


@rubric.mistake("click_token", "The kind of the click is missing: add its vector.")
def no_kind(point, frequencies, kind):
    return token_of(point, frequencies, kind, label=False)


@rubric.mistake("click_token", "Sines come first, then cosines.")
def cosine_first(point, frequencies, kind):
    return token_of(point, frequencies, kind, sine_first=False)


@rubric.mistake("click_token", "Your sines and cosines alternate. All sines come first, then all cosines.")
def interleaved(point, frequencies, kind):
    angles = 2 * math.pi * ((2 * point - 1) @ frequencies)
    return torch.stack((angles.sin(), angles.cos()), dim=1).flatten() + kind


@rubric.mistake("masks", "These are probabilities. Return logits: the products themselves.")
def probabilities(tokens, pixels):
    return masks(tokens, pixels).sigmoid()


@rubric.mistake("masks", "The products are divided by something. A logit is the plain dot product.")
def divided(tokens, pixels):
    return masks(tokens, pixels) / tokens.shape[1] ** 0.5


@rubric.mistake("masks", "Rows and columns of the image are exchanged.")
def turned(tokens, pixels):
    return masks(tokens, pixels).transpose(1, 2)


@rubric.mistake(
    "best_of", "You average over the masks. Only the best one is trained, so that the others can mean something else."
)
def mean_of_all(logits, truth):
    return losses(logits, truth).mean()


@rubric.mistake("best_of", "This is the loss of the worst mask. Take the smallest.")
def worst_of(logits, truth):
    return losses(logits, truth).max()


@rubric.mistake(
    "best_of",
    "You choose the best mask anew for every pixel. Average each mask's loss over its pixels first, then choose one "
    "mask.",
)
def best_pixel_by_pixel(logits, truth):
    wanted = truth.to(logits.dtype).expand_as(logits)
    return F.binary_cross_entropy_with_logits(logits, wanted, reduction="none").min(dim=0).values.mean()


@rubric.mistake("best_of", "You sum over the pixels. Take the mean, so that larger images do not count more.")
def sum_over_pixels(logits, truth):
    return best_of(logits, truth) * truth.numel()


@rubric.mistake("best_of", "Your loss is of the mask turned inside out: truth is 1 where the thing is.")
def inside_out(logits, truth):
    return losses(-logits, truth).min()


@rubric.test(
    "prompt", points=1, visible=True, hint="2 · point − 1, times the frequencies, times 2π; sines, then cosines."
)
def makes_a_token(submission, rng):
    point, frequencies, kind = torch.rand(2, generator=rng), draw(rng, 2, 3), draw(rng, 6)
    got = submission.click_token(point, frequencies, kind)
    assert_close(got, click_token(point, frequencies, kind), what="the token", atol=1e-4)


@rubric.test("prompt", points=1, visible=True, hint="One dot product for every token and pixel.")
def makes_masks(submission, rng):
    tokens, pixels = draw(rng, 3, 5), draw(rng, 5, 4, 6)
    assert_close(submission.masks(tokens, pixels), masks(tokens, pixels), what="the logits")


@rubric.test(
    "prompt", points=1, visible=True, hint="A loss for each mask, the mean over its pixels; then the smallest."
)
def trains_the_best(submission, rng):
    logits, truth = 2 * draw(rng, 3, 4, 5), torch.rand(4, 5, generator=rng) < 0.4
    got, want = (module.best_of.gradients(logits, truth) for module in (submission, rubric.solution))
    assert_close(got, want, what="the loss", rtol=1e-3, atol=1e-6)


@rubric.test(
    "prompt",
    points=1,
    visible=False,
    topic="other inputs, gradients",
    hint="Only the best mask gets a gradient; other sizes.",
)
def only_the_best_learns(submission, rng):
    logits, truth = 3 * draw(rng, 4, 3, 7), torch.rand(3, 7, generator=rng) < 0.5
    got, want = (module.best_of.gradients(logits, truth) for module in (submission, rubric.solution))
    assert_close(got, want, rtol=1e-3, atol=1e-6)
    tokens, pixels = draw(rng, 1, 2), draw(rng, 2, 5, 3)
    assert_close(submission.masks(tokens, pixels), masks(tokens, pixels), what="one mask")
    corner, frequencies, kind = torch.zeros(2), draw(rng, 2, 4), draw(rng, 8)
    got = submission.click_token(corner, frequencies, kind)
    assert_close(got, click_token(corner, frequencies, kind), what="a click in the corner", atol=1e-4)
