"""Exercise set 07, captioning: what is asked, how it is tested, and the mistakes it can name."""

import torch
import torch.nn.functional as F

from lecturelib.grading import Rubric, assert_close, draw

rubric = Rubric("07_captioning", title="Captioning")
rubric.exercise("grid", title="Where to look", minutes=20, difficulty=3, defines=("grid_attention",))
rubric.exercise(
    "context", title="What is seen", minutes=15, difficulty=2, defines=("soft_context", "hard_context", "gated")
)
rubric.exercise(
    "object", title="Is it looking at the thing?", minutes=25, difficulty=3, defines=("regions_on", "on_object")
)
rubric.exercise(
    "bias", title="Right for the wrong reasons", minutes=25, difficulty=3, defines=("group_accuracies", "bias_gap")
)


# 1. Weights over a grid


def scores(hidden, features, query_map, key_map, score, activation=torch.tanh):
    regions = features.permute(0, 2, 3, 1)  # (B, rows, columns, D)
    mixed = (hidden @ query_map)[:, None, None] + regions @ key_map  # (B, rows, columns, A)
    return activation(mixed) @ score  # (B, rows, columns)


@rubric.reference
def grid_attention(hidden, features, query_map, key_map, score):
    found = scores(hidden, features, query_map, key_map, score)
    return found.flatten(1).softmax(dim=1).view_as(found)


@rubric.mistake(
    "grid_attention",
    "Each row of the image sums to one in your weights. One softmax runs over all regions of an image together: "
    "flatten rows and columns first.",
)
def softmax_by_row(hidden, features, query_map, key_map, score):
    return scores(hidden, features, query_map, key_map, score).softmax(dim=2)


@rubric.mistake(
    "grid_attention",
    "Each column of the image sums to one in your weights. One softmax runs over all regions of an image together.",
)
def softmax_by_column(hidden, features, query_map, key_map, score):
    return scores(hidden, features, query_map, key_map, score).softmax(dim=1)


@rubric.mistake(
    "grid_attention",
    "Your softmax runs over the whole batch, so images share one budget of attention. Flatten from axis 1 on.",
)
def softmax_over_the_batch(hidden, features, query_map, key_map, score):
    found = scores(hidden, features, query_map, key_map, score)
    return found.flatten().softmax(dim=0).view_as(found)


@rubric.mistake("grid_attention", "These are scores: the softmax over all regions is missing.")
def no_softmax(hidden, features, query_map, key_map, score):
    return scores(hidden, features, query_map, key_map, score)


@rubric.mistake(
    "grid_attention", "The tanh is missing. Without it the state adds the same to every region and changes nothing."
)
def no_tanh(hidden, features, query_map, key_map, score):
    found = scores(hidden, features, query_map, key_map, score, activation=lambda mixed: mixed)
    return found.flatten(1).softmax(dim=1).view_as(found)


@rubric.mistake(
    "grid_attention",
    "Your weights do not depend on the state: h W^Q is missing, or stands outside the tanh, where it shifts all scores "
    "alike.",
)
def no_state(hidden, features, query_map, key_map, score):
    return grid_attention(torch.zeros_like(hidden), features, query_map, key_map, score)


@rubric.mistake(
    "grid_attention",
    "A reshape cannot move the channels to the end: it mixes pixels of different regions. Use permute(0, 2, 3, 1).",
)
def scrambled(hidden, features, query_map, key_map, score):
    batch, width, rows, columns = features.shape
    mixed = features.reshape(batch, rows, columns, width).permute(0, 3, 1, 2)  # (B, D, rows, columns)
    return grid_attention(hidden, mixed, query_map, key_map, score)


@rubric.mistake("grid_attention", "Rows and columns are swapped in your weights.")
def turned(hidden, features, query_map, key_map, score):
    batch, _, rows, columns = features.shape
    return grid_attention(hidden, features, query_map, key_map, score).mT.reshape(batch, rows, columns)


def layer(rng, batch=2, rows=3, columns=4):
    return draw(rng, batch, 5), draw(rng, batch, 6, rows, columns), draw(rng, 5, 7), draw(rng, 6, 7), draw(rng, 7)


@rubric.test("grid", points=2, visible=True, hint="Score each region with h; then one softmax over rows × columns.")
def weighs_every_region(submission, rng):
    given = layer(rng)
    assert_close(submission.grid_attention(*given), grid_attention(*given), what="the weights")


@rubric.test("grid", points=1, visible=False, topic="large scores, gradients", hint="Large scores; then gradients.")
def weighs_other_grids_and_passes_gradients(submission, rng):
    given = layer(rng, batch=3, rows=5, columns=2)
    upstream = draw(rng, 3, 5, 2)
    got = submission.grid_attention.gradients(*given, upstream=upstream)
    want = rubric.solution.grid_attention.gradients(*given, upstream=upstream)
    assert_close(got, want, rtol=1e-3, atol=1e-4)
    *others, score = given
    assert_close(submission.grid_attention(*others, 200 * score), grid_attention(*others, 200 * score))


# 2. The context


@rubric.reference
def soft_context(weights, features):
    return torch.einsum("bij,bdij->bd", weights, features)


@rubric.reference
def hard_context(weights, features):
    best = weights.flatten(1).argmax(dim=1)  # (B,)
    return features.flatten(2)[torch.arange(len(best)), :, best]  # (B, D)


@rubric.reference
def gated(context, hidden, gate_map):
    return torch.sigmoid(hidden @ gate_map)[:, None] * context


@rubric.mistake("soft_context", "The plain average: your weights change nothing. Multiply before you sum.")
def plain_average(weights, features):
    return features.mean(dim=(2, 3))


@rubric.mistake(
    "soft_context", "You average the weighted regions. The weights sum to one already: sum, without dividing."
)
def averaged_twice(weights, features):
    return (weights[:, None] * features).mean(dim=(2, 3))


@rubric.mistake("soft_context", "This is the hard context: the soft one sums over *all* regions, each by its weight.")
def hard_for_soft(weights, features):
    return hard_context(weights, features)


@rubric.mistake(
    "hard_context", "You scale the chosen region by its weight. A hard look takes the region's vector as it is."
)
def scaled_choice(weights, features):
    return hard_context(weights, features) * weights.flatten(1).amax(dim=1, keepdim=True)


@rubric.mistake("hard_context", "This is the soft context: the hard one takes *one* region, the one weighed most.")
def soft_for_hard(weights, features):
    return soft_context(weights, features)


@rubric.mistake(
    "hard_context",
    "You take, channel by channel, the largest feature. Find the one region with the largest *weight*, then take all "
    "its channels.",
)
def largest_features(weights, features):
    return features.amax(dim=(2, 3))


@rubric.mistake(
    "hard_context",
    "Every image uses the region of the first one (or of the whole batch). Each image has its own largest weight.",
)
def one_for_all(weights, features):
    best = weights.flatten(1)[0].argmax()
    return features.flatten(2)[:, :, best]


@rubric.mistake(
    "hard_context",
    "Your regions are mixed up: a reshape to (regions, channels) does not move the channels to the end. Flatten rows "
    "and columns, then transpose or index the last axis.",
)
def reshaped_regions(weights, features):
    best = weights.flatten(1).argmax(dim=1)
    regions = features.reshape(features.shape[0], -1, features.shape[1])
    return regions[torch.arange(features.shape[0]), best]


@rubric.mistake("gated", "The gate is not squashed: it is σ(s w), between 0 and 1.")
def open_ended(context, hidden, gate_map):
    return (hidden @ gate_map)[:, None] * context


@rubric.mistake("gated", "You use tanh, which may turn the context around. The gate is a sigmoid, between 0 and 1.")
def tanh_gate(context, hidden, gate_map):
    return torch.tanh(hidden @ gate_map)[:, None] * context


@rubric.mistake("gated", "You keep what the gate should close: multiply by the gate, not by 1 − gate.")
def closed(context, hidden, gate_map):
    return torch.sigmoid(-(hidden @ gate_map))[:, None] * context


def looks(rng, batch, rows, columns, width):
    weights = draw(rng, batch, rows * columns).softmax(dim=1).view(batch, rows, columns)
    return weights, draw(rng, batch, width, rows, columns)


@rubric.test("context", points=1, visible=True, hint="Multiply every region by its weight and sum over both axes.")
def averages_softly(submission, rng):
    given = looks(rng, 3, 4, 5, 6)
    assert_close(submission.soft_context(*given), soft_context(*given), what="the soft context")


@rubric.test("context", points=1, visible=True, hint="argmax over the flattened grid, then index, image by image.")
def takes_one_region(submission, rng):
    given = looks(rng, 3, 4, 5, 6)
    assert_close(submission.hard_context(*given), hard_context(*given), what="the hard context")


@rubric.test("context", points=0.5, visible=True, hint="One number per image, σ(s w), times the context.")
def gates_the_context(submission, rng):
    given = draw(rng, 3, 6), draw(rng, 3, 5), draw(rng, 5)
    assert_close(submission.gated(*given), gated(*given), what="the gated context")


@rubric.test(
    "context", points=0.5, visible=False, topic="gradients", hint="A hard look passes no gradient to its weights."
)
def contexts_pass_the_right_gradients(submission, rng):
    weights, features = looks(rng, 2, 3, 4, 5)
    upstream = draw(rng, 2, 5)
    got = submission.soft_context.gradients(weights, features, upstream=upstream)
    want = rubric.solution.soft_context.gradients(weights, features, upstream=upstream)
    assert_close(got, want, rtol=1e-3, atol=1e-4)
    sharp = F.one_hot(weights.flatten(1).argmax(dim=1), 12).view_as(weights).float()
    assert_close(submission.hard_context(sharp, features), hard_context(weights, features), what="the hard context")


# 3. On the object


def tiles(mask, rows, columns):
    """Pixels by region: (B, rows, columns, pixels of a region)."""
    batch, height, width = mask.shape
    cut = mask.reshape(batch, rows, height // rows, columns, width // columns)
    return cut.transpose(2, 3).flatten(3)


@rubric.reference
def regions_on(mask, rows, columns):
    return tiles(mask, rows, columns).any(dim=-1)


@rubric.reference
def on_object(weights, mask):
    touched = regions_on(mask, *weights.shape[1:])
    return (weights * touched).sum(dim=(1, 2)), touched.float().mean(dim=(1, 2))


@rubric.mistake(
    "regions_on",
    "You count a region only if most (or all) of it is covered. One pixel of the object is enough: any().",
)
def mostly_covered(mask, rows, columns):
    return tiles(mask, rows, columns).float().mean(dim=-1) >= 0.5


@rubric.mistake("regions_on", "You count a region only if the object covers all of it. One pixel is enough: any().")
def fully_covered(mask, rows, columns):
    return tiles(mask, rows, columns).all(dim=-1)


@rubric.mistake(
    "regions_on",
    "You look at one pixel of each region, so thin objects slip through. Cut the mask into tiles and look at all.",
)
def sampled(mask, rows, columns):
    return tiles(mask, rows, columns)[..., 0]


@rubric.mistake(
    "regions_on",
    "Your tiles are strips: a reshape to (rows, columns, …) alone does not cut squares. First (rows, height, columns, "
    "width), then bring the two small axes together.",
)
def strips(mask, rows, columns):
    return mask.reshape(mask.shape[0], rows, columns, -1).any(dim=-1)


@rubric.mistake(
    "regions_on", "Right places, wrong type: return booleans, True where the region holds a pixel of the object."
)
def how_much(mask, rows, columns):
    return tiles(mask, rows, columns).float().mean(dim=-1)


def with_share(weights, mask, share):
    touched = regions_on(mask, *weights.shape[1:])
    return share(weights, touched), touched.float().mean(dim=(1, 2))


@rubric.mistake(
    "on_object",
    "Your score is the mean weight of a touched region. *Sum* the weight on them: how much of one look lands there.",
)
def mean_weight(weights, mask):
    return with_share(
        weights, mask, lambda found, touched: (found * touched).sum((1, 2)) / touched.sum((1, 2)).clamp(min=1)
    )


@rubric.mistake(
    "on_object",
    "You ask whether the largest weight lies on the object. Another good question; here, sum the weight.",
)
def largest_is_on(weights, mask):
    return with_share(
        weights,
        mask,
        lambda found, touched: (
            touched.flatten(1).gather(1, found.flatten(1).argmax(1, keepdim=True)).squeeze(1).float()
        ),
    )


@rubric.mistake(
    "on_object",
    "Chance is measured in regions, not in pixels: the share of regions that the object touches. An even spread of "
    "attention gets exactly that.",
)
def chance_in_pixels(weights, mask):
    return on_object(weights, mask)[0], mask.float().mean(dim=(1, 2))


@rubric.mistake(
    "on_object", "One chance for the whole batch. Objects differ in size, so each image has a chance of its own."
)
def one_chance(weights, mask):
    score, chance = on_object(weights, mask)
    return score, chance.mean().expand_as(score)


@rubric.mistake("on_object", "Your second number is a count of regions. Divide by how many there are.")
def counted(weights, mask):
    return on_object(weights, mask)[0], regions_on(mask, *weights.shape[1:]).float().sum(dim=(1, 2))


def objects(rng, batch, height, width):
    """Masks of small rectangles, some of them a pixel wide."""
    sides = torch.stack([draw(rng, batch).abs() * 3 + 1, draw(rng, batch).abs() * 3 + 1], dim=1).long()
    down, across = torch.arange(height)[None, :, None], torch.arange(width)[None, None, :]
    top = (draw(rng, batch).abs() * height / 3).long().clamp(max=height - 2)[:, None, None]
    left = (draw(rng, batch).abs() * width / 3).long().clamp(max=width - 2)[:, None, None]
    inside = (down >= top) & (down < top + sides[:, :1, None]) & (across >= left) & (across < left + sides[:, 1:, None])
    return inside


@rubric.test("object", points=1, visible=True, hint="Cut the mask into tiles, one for each region; any pixel counts.")
def finds_the_regions(submission, rng):
    mask = objects(rng, 4, 12, 20)
    mask[0] = False
    mask[1] = (torch.arange(12)[:, None] < 7) & (torch.arange(20) < 13)  # tiles covered wholly, mostly and barely
    assert_close(submission.regions_on(mask, 2, 4), regions_on(mask, 2, 4), what="the regions")


@rubric.test(
    "object", points=2, visible=True, hint="Sum the weight on touched regions; count them.", needs=("regions_on",)
)
def scores_the_look(submission, rng):
    weights, _ = looks(rng, 4, 3, 5, 1)
    mask = objects(rng, 4, 12, 20)
    assert_close(submission.on_object(weights, mask), on_object(weights, mask), what=("the score", "the chance"))


@rubric.test(
    "object",
    points=1,
    visible=False,
    topic="no object, all object",
    hint="An empty mask scores 0 with chance 0; a full one 1 and 1.",
    needs=("regions_on",),
)
def scores_the_corner_cases(submission, rng):
    weights, _ = looks(rng, 2, 2, 4, 1)
    for mask in (torch.zeros(2, 8, 12, dtype=torch.bool), torch.ones(2, 8, 12, dtype=torch.bool)):
        assert_close(submission.on_object(weights, mask), on_object(weights, mask), what=("the score", "the chance"))


# 4. The bias test


@rubric.reference
def group_accuracies(said, truth, ground):
    groups = sorted(set(zip(truth.tolist(), ground.tolist(), strict=True)))
    right = said == truth
    return {(a, g): float(right[(truth == a) & (ground == g)].float().mean()) for a, g in groups}


@rubric.reference
def bias_gap(said, truth, ground, usual):
    is_usual = usual[truth] == ground
    right = (said == truth).float()
    return float(right[is_usual].mean() - right[~is_usual].mean())


@rubric.mistake(
    "group_accuracies",
    "You group by what was *said*. Group by what is in the image: the animal and the ground.",
)
def by_what_was_said(said, truth, ground):
    groups = sorted(set(zip(said.tolist(), ground.tolist(), strict=True)))
    right = said == truth
    return {(a, g): float(right[(said == a) & (ground == g)].float().mean()) for a, g in groups}


@rubric.mistake(
    "group_accuracies",
    "Your keys are (ground, animal). The animal comes first: (truth, ground).",
)
def keys_turned(said, truth, ground):
    return {(g, a): value for (a, g), value in group_accuracies(said, truth, ground).items()}


@rubric.mistake(
    "group_accuracies",
    "You divide by all images, so a small group looks bad however good it is. Divide by the size of the group.",
)
def shares_of_all(said, truth, ground):
    sizes = {key: int(((truth == key[0]) & (ground == key[1])).sum()) for key in group_accuracies(said, truth, ground)}
    return {key: value * sizes[key] / len(said) for key, value in group_accuracies(said, truth, ground).items()}


@rubric.mistake(
    "group_accuracies",
    "These are errors. An accuracy is the share that is *right*.",
)
def errors(said, truth, ground):
    return {key: 1 - value for key, value in group_accuracies(said, truth, ground).items()}


@rubric.mistake("bias_gap", "The sign is turned: usual minus unusual, so that a biased model has a positive gap.")
def gap_turned(said, truth, ground, usual):
    return -bias_gap(said, truth, ground, usual)


@rubric.mistake(
    "bias_gap",
    "You compare grounds with each other. An image is usual when its ground is the usual one *of its animal*: "
    "usual[truth] == ground.",
)
def by_ground(said, truth, ground, usual):
    right = (said == truth).float()
    return float(right[ground == 0].mean() - right[ground != 0].mean())


@rubric.mistake(
    "bias_gap",
    "You ask whether the ground is usual for the animal that was *said*. Ask it of the animal in the image.",
)
def usual_for_what_was_said(said, truth, ground, usual):
    is_usual = usual[said] == ground
    right = (said == truth).float()
    return float(right[is_usual].mean() - right[~is_usual].mean())


@rubric.mistake(
    "bias_gap", "This is the accuracy on all images, the number that hides the bias. Subtract unusual from usual."
)
def overall(said, truth, ground, usual):
    return float((said == truth).float().mean())


def answers(rng, count, animals=2, grounds=2):
    """Answers of a model that errs more where the ground is not the usual one."""
    truth = (draw(rng, count).abs() * 10).long() % animals
    ground = torch.where(draw(rng, count) > -0.6, truth % grounds, (truth + 1) % grounds)
    wrong = draw(rng, count) > torch.where(ground == truth % grounds, 1.2, -0.1)
    said = torch.where(wrong, (truth + 1) % animals, truth)
    first = torch.arange(animals)  # every animal on its usual ground and on another one
    pairs = torch.cat([first, first]), torch.cat([first % grounds, (first + 1) % grounds])
    return torch.cat([said, pairs[0]]), torch.cat([truth, pairs[0]]), torch.cat([ground, pairs[1]])


@rubric.test("bias", points=1.5, visible=True, hint="One accuracy for each pair (animal, ground) that occurs.")
def splits_by_group(submission, rng):
    given = answers(rng, 60)
    assert_close(submission.group_accuracies(*given), group_accuracies(*given), what="the accuracies")


@rubric.test("bias", points=1.5, visible=True, hint="Accuracy on usual grounds minus accuracy on unusual ones.")
def measures_the_gap(submission, rng):
    given, usual = answers(rng, 60), torch.tensor([0, 1])
    assert_close(submission.bias_gap(*given, usual), bias_gap(*given, usual), what="the gap")


@rubric.test(
    "bias",
    points=1,
    visible=False,
    topic="more animals",
    hint="Three animals, two grounds; a pair that never occurs has no key.",
)
def more_animals_than_grounds(submission, rng):
    said, truth, ground = answers(rng, 80, animals=3)
    keep = ~((truth == 2) & (ground == 1))
    given, usual = (said[keep], truth[keep], ground[keep]), torch.tensor([0, 1, 0])
    assert_close(submission.group_accuracies(*given), group_accuracies(*given), what="the accuracies")
    assert_close(submission.bias_gap(*given, usual), bias_gap(*given, usual), what="the gap")
