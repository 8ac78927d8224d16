"""Exercise set 15, vision transformers: what is asked, how it is tested, and the mistakes it can name."""

import torch
import torch.nn.functional as F

from lecturelib.grading import Rubric, assert_close, draw, raises
from lecturelib.layers.positions.grid import interpolate_positions as interpolated
from lecturelib.layers.residual import depth_rates as even_rates

rubric = Rubric("15_vision_transformers", title="Vision transformers")
rubric.exercise(
    "patches", title="From an image to patches, and back", minutes=10, difficulty=1, defines=("patchify", "unpatchify")
)
rubric.exercise(
    "class_token",
    title="The class token",
    minutes=15,
    difficulty=2,
    defines=("with_class_token", "classify", "class_map"),
)
rubric.exercise("mixing", title="Labels of mixed images", minutes=25, difficulty=3, defines=("mixup", "cutmix"))
rubric.exercise(
    "depth",
    title="Stochastic depth",
    minutes=20,
    difficulty=3,
    defines=("depth_rates", "residual", "expected_depth"),
)
rubric.exercise(
    "positions", title="Positions for another resolution", minutes=20, difficulty=3, defines=("interpolate_positions",)
)


def draw_targets(rng, count, classes):
    return draw(rng, count, classes).softmax(-1)


# 1. Patches


def cut(images, patch_size):
    rows, columns = images.shape[2] // patch_size, images.shape[3] // patch_size
    return images.unflatten(3, (columns, patch_size)).unflatten(2, (rows, patch_size))  # (B, C, rows, P, columns, P)


@rubric.reference
def patchify(images, patch_size):
    if images.shape[2] % patch_size or images.shape[3] % patch_size:
        raise ValueError("whole patches must cover the image")
    return cut(images, patch_size).permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)  # (B, N, C · P · P)


@rubric.reference
def unpatchify(patches, patch_size, height, width):
    rows, columns = height // patch_size, width // patch_size
    cells = patches.unflatten(2, (-1, patch_size, patch_size)).unflatten(1, (rows, columns))
    return cells.permute(0, 3, 1, 4, 2, 5).flatten(4).flatten(2, 3)  # (B, C, height, width)


@rubric.mistake(
    "patchify",
    "A plain reshape cuts the pixels in the order they lie in memory, so a patch is a strip of rows. Give rows and "
    "columns of patches axes of their own, and permute.",
)
def strips(images, patch_size):
    count = images.shape[2] * images.shape[3] // patch_size**2
    return images.reshape(len(images), count, -1)


@rubric.mistake("patchify", "Your patches go down the columns first. Row by row, as one reads: rows before columns.")
def columns_first(images, patch_size):
    return cut(images, patch_size).permute(0, 4, 2, 1, 3, 5).flatten(3).flatten(1, 2)


@rubric.mistake(
    "patchify", "Inside a patch your channels come last. Keep the order of a kernel: channel, then row, then column."
)
def channels_last(images, patch_size):
    return cut(images, patch_size).permute(0, 2, 4, 3, 5, 1).flatten(3).flatten(1, 2)


@rubric.mistake("patchify", "Each of your patches is mirrored at its diagonal: row and column inside it are swapped.")
def patches_transposed(images, patch_size):
    return cut(images, patch_size).permute(0, 2, 4, 1, 5, 3).flatten(3).flatten(1, 2)


@rubric.mistake("patchify", "Each channel has become a patch of its own: one patch holds all channels of its pixels.")
def channel_patches(images, patch_size):
    return cut(images, patch_size).permute(0, 1, 2, 4, 3, 5).flatten(4).flatten(1, 3)


@rubric.mistake("unpatchify", "A plain reshape cannot undo a permute: put the axes back in their places first.")
def reshaped_back(patches, patch_size, height, width):
    return patches.reshape(len(patches), -1, height, width)


@rubric.mistake("unpatchify", "Patches are read back down the columns; they were written row by row.")
def columns_first_back(patches, patch_size, height, width):
    rows, columns = height // patch_size, width // patch_size
    cells = patches.unflatten(2, (-1, patch_size, patch_size)).unflatten(1, (columns, rows))
    return cells.permute(0, 3, 2, 4, 1, 5).flatten(4).flatten(2, 3)


@rubric.test("patches", points=1, visible=True, hint="One row for each patch, row by row over the image.")
def picture_is_cut(submission, rng):
    images = draw(rng, 5, 3, 8, 6)
    assert_close(submission.patchify(images, 2), patchify(images, 2), what="the patches")


@rubric.test("patches", points=1, visible=True, hint="Undo the steps of patchify in the opposite order.")
def patches_are_put_together(submission, rng):
    images = draw(rng, 5, 3, 8, 6)
    assert_close(submission.unpatchify(patchify(images, 2), 2, 8, 6), images, what="the image")


@rubric.test(
    "patches", points=1, visible=False, topic="other sizes", hint="A tall image of one channel, and larger patches."
)
def tall_picture_is_cut_and_put_together(submission, rng):
    images = draw(rng, 5, 1, 12, 6)
    assert_close(submission.patchify(images, 3), patchify(images, 3), what="the patches")
    assert_close(submission.unpatchify(patchify(images, 3), 3, 12, 6), images, what="the image")


@rubric.test(
    "patches",
    points=1,
    visible=False,
    topic="errors",
    hint="5 rows cannot be cut into patches of 2: raise a ValueError.",
)
def half_patches_are_refused(submission, rng):
    for shape in ((1, 2, 5, 4), (1, 2, 4, 5)):
        with raises(ValueError):
            submission.patchify(draw(rng, *shape), 2)


# 2. The class token


@rubric.reference
def with_class_token(patches, class_token, positions):
    token = class_token.expand(len(patches), 1, -1)
    return torch.cat([token, patches], dim=1) + positions


@rubric.reference
def classify(tokens, weight, bias):
    return tokens[:, 0] @ weight.T + bias


@rubric.reference
def class_map(weights, grid):
    return weights[:, :, 0, 1:].mean(1).unflatten(1, tuple(grid))


@rubric.mistake("with_class_token", "The class token is the last token; it should be the first.")
def token_last(patches, class_token, positions):
    return torch.cat([patches, class_token.expand(len(patches), 1, -1)], dim=1) + positions


@rubric.mistake("with_class_token", "The positions are missing: without them the patches are a bag.")
def no_positions(patches, class_token, positions):
    return torch.cat([class_token.expand(len(patches), 1, -1), patches], dim=1)


@rubric.mistake("with_class_token", "The class token has a position too, row 0 of the table: add after joining.")
def patches_only_have_positions(patches, class_token, positions):
    return torch.cat([class_token.expand(len(patches), 1, -1), patches + positions[1:]], dim=1)


@rubric.mistake("with_class_token", "You add the class token to every patch; it is a token of its own, in front.")
def token_added(patches, class_token, positions):
    return patches + class_token + positions[1:]


@rubric.mistake(
    "classify", "You average all tokens. That works too, but it is not the class token: read token 0 alone."
)
def mean_of_all(tokens, weight, bias):
    return tokens.mean(1) @ weight.T + bias


@rubric.mistake("classify", "You read the last token, which is a patch. The class token is token 0.")
def last_token(tokens, weight, bias):
    return tokens[:, -1] @ weight.T + bias


@rubric.mistake("classify", "The bias is missing.")
def no_bias(tokens, weight, bias):
    return tokens[:, 0] @ weight.T


@rubric.mistake("class_map", "That is what the patches think of the class token: a column. Its own attention is row 0.")
def column_of_class(weights, grid):
    return weights[:, :, 1:, 0].mean(1).unflatten(1, tuple(grid))


@rubric.mistake("class_map", "That is the sum over the heads; the mean stays comparable whatever their number.")
def summed_heads(weights, grid):
    return weights[:, :, 0, 1:].sum(1).unflatten(1, tuple(grid))


@rubric.mistake("class_map", "The map is off by one: column 0 is the class token's weight on itself. Leave it out.")
def shifted_map(weights, grid):
    return weights[:, :, 0, :-1].mean(1).unflatten(1, tuple(grid))


@rubric.mistake("class_map", "That is the first head alone; take the mean over all heads.")
def first_head(weights, grid):
    return weights[:, 0, 0, 1:].unflatten(1, tuple(grid))


@rubric.mistake("class_map", "You made the map sum to 1. Leave the weights as they are: the class token keeps some.")
def normalised_map(weights, grid):
    found = class_map(weights, grid)
    return found / found.sum((1, 2), keepdim=True)


@rubric.test("class_token", points=1, visible=True, hint="Expand, join in front, add the table to all of it.")
def token_stands_in_front(submission, rng):
    given = draw(rng, 2, 6, 4), draw(rng, 4), draw(rng, 7, 4)
    assert_close(submission.with_class_token(*given), with_class_token(*given), what="the tokens")


@rubric.test("class_token", points=1, visible=True, hint="One matrix product on token 0, plus the bias.")
def class_is_read_off_the_token(submission, rng):
    given = draw(rng, 2, 7, 4), draw(rng, 5, 4), draw(rng, 5)
    assert_close(submission.classify(*given), classify(*given), what="the logits")


@rubric.test("class_token", points=1, visible=True, hint="Row 0, without column 0, the mean over heads, in the grid.")
def map_is_what_the_token_sees(submission, rng):
    weights = draw(rng, 2, 5, 7, 7).softmax(-1)
    assert_close(submission.class_map(weights, (2, 3)), class_map(weights, (2, 3)), what="the map")


@rubric.test(
    "class_token",
    points=1,
    visible=False,
    topic="gradients",
    hint="The gradient of the class token adds up over the batch.",
)
def token_gets_its_gradient(submission, rng):
    given = draw(rng, 3, 2, 5), draw(rng, 5), draw(rng, 3, 5)
    got, want = (source.with_class_token.gradients(*given) for source in (submission, rubric.solution))
    assert_close(got, want)


@rubric.test(
    "class_token",
    points=1,
    visible=False,
    topic="other grids",
    hint="A grid need not be square, and there may be one head.",
)
def map_of_a_tall_grid(submission, rng):
    weights = draw(rng, 3, 1, 9, 9).softmax(-1)
    assert_close(submission.class_map(weights, (4, 2)), class_map(weights, (4, 2)), what="the map")


# 3. Mixing


def blend(tensor, keep, partner):
    keep = keep.view(-1, *(1 for _ in tensor.shape[1:]))
    return keep * tensor + (1 - keep) * tensor[partner]


@rubric.reference
def mixup(images, targets, keep, partner):
    return blend(images, keep, partner), blend(targets, keep, partner)


def inside(boxes, height, width):
    top, bottom, left, right = boxes.T[:, :, None]  # (B, 1) each
    row, column = torch.arange(height), torch.arange(width)
    rows, columns = (row >= top) & (row < bottom), (column >= left) & (column < right)
    return rows[:, :, None] & columns[:, None, :]  # (B, height, width)


@rubric.reference
def cutmix(images, targets, boxes, partner):
    pasted = inside(boxes, *images.shape[2:])
    keep = 1 - pasted.to(targets.dtype).mean((1, 2))
    return torch.where(pasted[:, None], images[partner], images), blend(targets, keep, partner)


@rubric.mistake("mixup", "The labels are not mixed: the image is part partner, so part of its label is too.")
def labels_left_alone(images, targets, keep, partner):
    return blend(images, keep, partner), targets


@rubric.mistake("mixup", "Image and label disagree: the label's shares are the wrong way round.")
def shares_swapped(images, targets, keep, partner):
    return blend(images, keep, partner), blend(targets, 1 - keep, partner)


@rubric.mistake("mixup", "`keep` is the share of the image itself; you give it to the partner.")
def keep_is_the_partner_s(images, targets, keep, partner):
    return blend(images, 1 - keep, partner), blend(targets, 1 - keep, partner)


@rubric.mistake("mixup", "Everybody gets the first λ. Each image of the batch has its own.")
def one_share_for_all(images, targets, keep, partner):
    return mixup(images, targets, keep[:1].expand_as(keep), partner)


@rubric.mistake("cutmix", "The label is mixed by the wrong share: the *pasted* part belongs to the partner.")
def area_swapped(images, targets, boxes, partner):
    mixed, _ = cutmix(images, targets, boxes, partner)
    share = inside(boxes, *images.shape[2:]).to(targets.dtype).mean((1, 2))
    return mixed, blend(targets, share, partner)


@rubric.mistake(
    "cutmix",
    "You count the box as if all of it were in the image. Where it sticks out nothing is pasted: clip it first.",
)
def unclipped_area(images, targets, boxes, partner):
    mixed, _ = cutmix(images, targets, boxes, partner)
    area = (boxes[:, 1] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 2])
    keep = 1 - area.to(targets.dtype) / (images.shape[2] * images.shape[3])
    return mixed, blend(targets, keep, partner)


@rubric.mistake(
    "cutmix", "You paste everything *but* the box. Inside the box is the partner, outside the image itself."
)
def box_kept(images, targets, boxes, partner):
    pasted = inside(boxes, *images.shape[2:])
    return torch.where(pasted[:, None], images, images[partner]), cutmix(images, targets, boxes, partner)[1]


@rubric.mistake("cutmix", "The box is filled with zeros: that is random erasing. Paste the partner's pixels there.")
def erased(images, targets, boxes, partner):
    pasted = inside(boxes, *images.shape[2:])
    return images.masked_fill(pasted[:, None], 0.0), cutmix(images, targets, boxes, partner)[1]


@rubric.mistake("cutmix", "Rows and columns are swapped: a box is (top, bottom, left, right).")
def box_transposed(images, targets, boxes, partner):
    return cutmix(images, targets, boxes[:, [2, 3, 0, 1]], partner)


@rubric.mistake(
    "cutmix", "The last row and column of the box are missing or one too many: `bottom` and `right` are excluded."
)
def box_too_large(images, targets, boxes, partner):
    return cutmix(images, targets, boxes + torch.tensor([0, 1, 0, 1]), partner)


@rubric.mistake(
    "cutmix",
    "A box that lies wholly outside has a negative height or width after clipping, and you multiply it. At least 0.",
)
def negative_sides(images, targets, boxes, partner):
    mixed, _ = cutmix(images, targets, boxes, partner)
    height, width = images.shape[2:]
    rows = boxes[:, 1].clamp(max=height) - boxes[:, 0].clamp(min=0)
    columns = boxes[:, 3].clamp(max=width) - boxes[:, 2].clamp(min=0)
    return mixed, blend(targets, 1 - (rows * columns).to(targets.dtype) / (height * width), partner)


@rubric.mistake(
    "cutmix",
    "You paste into the images you are still cutting from, so a box brings along what was pasted before. Paste "
    "into a copy.",
)
def pastes_what_was_pasted(images, targets, boxes, partner):
    mixed = images.clone()
    for i, pasted in enumerate(inside(boxes, *images.shape[2:])):
        mixed[i] = torch.where(pasted, mixed[partner[i]], mixed[i])
    return mixed, cutmix(images, targets, boxes, partner)[1]


def assert_mixed(got, want):
    assert_close(got, want, what=("the images", "the labels"))


@rubric.test("mixing", points=1, visible=True, hint="The same blend for both: keep · mine + (1 − keep) · partner's.")
def pictures_and_labels_are_blended(submission, rng):
    given = (
        draw(rng, 4, 3, 5, 6),
        draw_targets(rng, 4, 7),
        torch.tensor([0.1, 0.3, 0.8, 1.0]),
        torch.tensor([2, 0, 3, 1]),
    )
    assert_mixed(submission.mixup(*given), mixup(*given))


@rubric.test("mixing", points=1, visible=True, hint="Mark the pixels of the box; their share is the partner's.")
def boxes_are_pasted(submission, rng):
    boxes = torch.tensor([[1, 3, 2, 6], [0, 4, 1, 3], [2, 4, 0, 1]])
    given = draw(rng, 3, 2, 5, 7), draw_targets(rng, 3, 4), boxes, torch.tensor([1, 2, 0])
    assert_mixed(submission.cutmix(*given), cutmix(*given))


@rubric.test("mixing", points=1, visible=True, hint="A box may stick out of the image: only what is inside counts.")
def boxes_are_clipped(submission, rng):
    boxes = torch.tensor([[-2, 3, 4, 9], [3, 8, -1, 2], [-3, 9, -3, 9]])
    given = draw(rng, 3, 2, 5, 7), draw_targets(rng, 3, 4), boxes, torch.tensor([2, 0, 1])
    assert_mixed(submission.cutmix(*given), cutmix(*given))


@rubric.test(
    "mixing",
    points=1,
    visible=False,
    topic="borders",
    hint="A box that is empty or lies outside pastes nothing; an image may be its own partner.",
)
def edge_cases_of_boxes(submission, rng):
    boxes = torch.tensor([[2, 2, 1, 4], [0, 1, 0, 1], [1, 3, 6, 11], [0, 2, 8, 9], [5, 7, -9, -2], [6, 9, 1, 3]])
    given = draw(rng, 6, 1, 4, 5), draw_targets(rng, 6, 3), boxes, torch.tensor([5, 2, 1, 0, 2, 3])
    assert_mixed(submission.cutmix(*given), cutmix(*given))


@rubric.test(
    "mixing",
    points=1,
    visible=False,
    topic="borders",
    hint="At λ = 1 nothing changes; at λ = 0 only the partner is left.",
)
def edge_cases_of_shares(submission, rng):
    given = draw(rng, 3, 1, 4, 6), draw_targets(rng, 3, 5), torch.tensor([0.0, 1.0, 0.5]), torch.tensor([2, 2, 0])
    assert_mixed(submission.mixup(*given), mixup(*given))


# 4. Stochastic depth


@rubric.reference
def depth_rates(last, num_layers):
    return even_rates(last, num_layers)


@rubric.reference
def residual(x, branch, keep, rate, training):
    if not training:
        return x + branch
    shape = (-1, *(1 for _ in branch.shape[1:]))
    return x + branch * keep.view(shape).to(branch.dtype) / (1 - rate)


@rubric.reference
def expected_depth(rates):
    return float(sum(1 - rate for rate in rates))


@rubric.mistake(
    "depth_rates", "Your first layer may be left out. The rates start at 0 and reach `last` at the last layer."
)
def starts_above_zero(last, num_layers):
    return [last * (layer + 1) / num_layers for layer in range(num_layers)]


@rubric.mistake("depth_rates", "All layers have the same rate; it grows with depth, because late layers matter less.")
def same_everywhere(last, num_layers):
    return [last] * num_layers


@rubric.mistake("depth_rates", "The last layer does not reach `last`: divide by num_layers − 1, the number of steps.")
def never_arrives(last, num_layers):
    return [last * layer / num_layers for layer in range(num_layers)]


@rubric.mistake("depth_rates", "Your rates fall. The first layers see the image; it is the late ones that may go.")
def falling(last, num_layers):
    return even_rates(last, num_layers)[::-1]


@rubric.mistake("residual", "The branch is not scaled up when it stays, so its mean shrinks: divide by 1 − rate.")
def not_scaled(x, branch, keep, rate, training):
    return x + branch * keep.view(-1, 1, 1) if training else x + branch


@rubric.mistake("residual", "You divide by the rate; a branch stays with probability 1 − rate.")
def divided_by_rate(x, branch, keep, rate, training):
    return x + branch * keep.view(-1, 1, 1) / rate if training else x + branch


@rubric.mistake("residual", "The stream x is dropped with its branch. Only the branch may go; x always passes.")
def drops_the_stream(x, branch, keep, rate, training):
    return (x + branch / (1 - rate)) * keep.view(-1, 1, 1) if training else x + branch


@rubric.mistake("residual", "You leave out the branches that should stay: `keep` is True where the branch stays.")
def keep_upside_down(x, branch, keep, rate, training):
    return residual(x, branch, ~keep, rate, training)


@rubric.mistake("residual", "In evaluation every branch takes part, unscaled: x + branch.")
def scaled_in_evaluation(x, branch, keep, rate, training):
    return residual(x, branch, keep, rate, True) if training else x + branch * (1 - rate)


@rubric.mistake("residual", "You scale x up as well; only the branch needs it.")
def scales_both(x, branch, keep, rate, training):
    return (x + branch * keep.view(-1, 1, 1)) / (1 - rate) if training else x + branch


@rubric.mistake("expected_depth", "That is how many layers are left out. How many stay?")
def expected_loss(rates):
    return float(sum(rates))


@rubric.mistake(
    "expected_depth", "That is the chance that no layer at all is left out: a product. Chances of staying add up."
)
def product_of_chances(rates):
    return float(torch.tensor([1 - rate for rate in rates], dtype=torch.float64).prod())


@rubric.test("depth", points=1, visible=True, hint="Evenly from 0 to last; one layer alone has rate 0.")
def rates_grow_evenly(submission, rng):
    for last, layers in ((0.1, 12), (0.3, 4), (0.2, 2)):
        assert_close(submission.depth_rates(last, layers), depth_rates(last, layers), what="the rates")


@rubric.test("depth", points=1, visible=True, hint="x, plus the branch where it stays, scaled by 1 / (1 − rate).")
def branch_is_left_out(submission, rng):
    given = draw(rng, 4, 3, 5), draw(rng, 4, 3, 5), torch.tensor([True, False, True, False]), 0.3
    assert_close(submission.residual(*given, True), residual(*given, True), what="the new stream")


@rubric.test("depth", points=1, visible=True, hint="In evaluation nothing is random: x + branch.")
def evaluation_is_plain(submission, rng):
    given = draw(rng, 4, 3, 5), draw(rng, 4, 3, 5), torch.tensor([True, False, True, False]), 0.3
    assert_close(submission.residual(*given, False), residual(*given, False), what="the stream in evaluation")


@rubric.test("depth", points=1, visible=True, hint="Layer l stays with probability 1 − rate; expectations add.")
def depth_on_average(submission, rng):
    assert_close(
        submission.expected_depth(depth_rates(0.2, 12)), expected_depth(depth_rates(0.2, 12)), what="the depth"
    )


@rubric.test(
    "depth",
    points=1,
    visible=False,
    topic="other shapes",
    hint="One coin for each row of the batch, however many axes follow.",
)
def any_number_of_axes(submission, rng):
    for shape in ((3, 6), (3, 3, 3), (3, 2, 4, 3)):
        given = draw(rng, *shape), draw(rng, *shape), torch.tensor([False, True, True]), 0.25
        assert_close(submission.residual(*given, True), residual(*given, True), what="the new stream")


@rubric.test(
    "depth",
    points=1,
    visible=False,
    topic="one layer, gradients",
    hint="One layer; and the gradient of a branch that was left out is zero.",
)
def one_layer_and_gradients(submission, rng):
    assert_close(list(submission.depth_rates(0.4, 1)), [0.0], what="the rate of a single layer")
    given = draw(rng, 3, 2, 4), draw(rng, 3, 2, 4), torch.tensor([True, False, True]), 0.5, True
    got, want = (source.residual.gradients(*given) for source in (submission, rubric.solution))
    assert_close(got, want)


# 5. Positions


@rubric.reference
def interpolate_positions(table, old, new, num_prefix=1):
    return interpolated(table[None], tuple(old), tuple(new), num_prefix=num_prefix)[0]


def stretched(grid, old, new, mode="bicubic", align=False):
    """(N, D) -> (N', D)"""
    cells = grid.T.reshape(1, -1, *old)
    cells = F.interpolate(cells, size=tuple(new), mode=mode, **({} if mode == "nearest" else {"align_corners": align}))
    return cells[0].flatten(1).T


@rubric.mistake("interpolate_positions", "That is bilinear. Bicubic keeps the vectors about as long as they were.")
def bilinear(table, old, new, num_prefix=1):
    return torch.cat([table[:num_prefix], stretched(table[num_prefix:], old, new, "bilinear")])


@rubric.mistake("interpolate_positions", "That takes the nearest old patch. Ask for mode='bicubic'.")
def nearest(table, old, new, num_prefix=1):
    return torch.cat([table[:num_prefix], stretched(table[num_prefix:], old, new, "nearest")])


@rubric.mistake("interpolate_positions", "align_corners must be False: patches are areas, and their centres move.")
def aligned_corners(table, old, new, num_prefix=1):
    return torch.cat([table[:num_prefix], stretched(table[num_prefix:], old, new, align=True)])


@rubric.mistake(
    "interpolate_positions", "The prefix is lost: its rows have no place in the grid, but stay in the table."
)
def prefix_lost(table, old, new, num_prefix=1):
    return stretched(table[num_prefix:], old, new)


@rubric.mistake(
    "interpolate_positions", "You keep one prefix row whatever is asked; `num_prefix` says how many there are."
)
def always_one_prefix(table, old, new, num_prefix=1):
    return table if old == new else torch.cat([table[:1], stretched(table[1 : 1 + old[0] * old[1]], old, new)])


@rubric.mistake("interpolate_positions", "The prefix has gone to the end; it stays in front.")
def prefix_last(table, old, new, num_prefix=1):
    return torch.cat([stretched(table[num_prefix:], old, new), table[:num_prefix]])


@rubric.mistake(
    "interpolate_positions",
    "A plain reshape to (D, rows, columns) mixes features with positions. Make the grid first, then move D in front.",
)
def features_scrambled(table, old, new, num_prefix=1):
    cells = table[num_prefix:].reshape(1, table.shape[1], *old)
    cells = F.interpolate(cells, size=tuple(new), mode="bicubic", align_corners=False)
    return torch.cat([table[:num_prefix], cells[0].flatten(1).T])


@rubric.mistake("interpolate_positions", "On the way back, D has not gone to the end before you flatten.")
def features_scrambled_back(table, old, new, num_prefix=1):
    flat = stretched(table[num_prefix:], old, new).T
    return torch.cat([table[:num_prefix], flat.reshape(-1, table.shape[1])])


@rubric.mistake(
    "interpolate_positions",
    "A plain reshape, there and back, mixes features with positions both times. D must move in front before you "
    "interpolate, and to the end after it.",
)
def features_scrambled_both_ways(table, old, new, num_prefix=1):
    cells = table[num_prefix:].reshape(1, table.shape[1], *old)
    cells = F.interpolate(cells, size=tuple(new), mode="bicubic", align_corners=False)
    return torch.cat([table[:num_prefix], cells.reshape(-1, table.shape[1])])


@rubric.mistake("interpolate_positions", "Rows and columns are swapped: the grid is read down the columns.")
def grid_transposed(table, old, new, num_prefix=1):
    cells = table[num_prefix:].T.reshape(1, -1, old[1], old[0]).mT
    cells = F.interpolate(cells, size=tuple(new), mode="bicubic", align_corners=False)
    return torch.cat([table[:num_prefix], cells[0].flatten(1).T])


@rubric.test("positions", points=1, visible=True, hint="Prefix aside, grid of vectors, interpolate, flatten, join.")
def table_is_stretched(submission, rng):
    table = draw(rng, 1 + 6, 5)
    got, want = submission.interpolate_positions(table, (2, 3), (4, 5)), interpolate_positions(table, (2, 3), (4, 5))
    assert_close(got, want, what="the table", atol=1e-4)


@rubric.test("positions", points=1, visible=True, hint="A table for its own grid is itself.")
def same_grid_changes_nothing(submission, rng):
    table = draw(rng, 2 + 6, 5)
    assert_close(submission.interpolate_positions(table, (2, 3), (2, 3), 2), table, what="the table", atol=1e-4)
    got, want = (f(table, (2, 3), (3, 4), 2) for f in (submission.interpolate_positions, interpolate_positions))
    assert_close(got, want, what="the table for a larger grid, two prefix tokens", atol=1e-4)


@rubric.test(
    "positions",
    points=1,
    visible=False,
    topic="other grids, prefixes",
    hint="Two prefix tokens, or none; larger in one way, smaller in the other.",
)
def other_prefixes_and_grids(submission, rng):
    for prefix in (0, 2):
        table = draw(rng, prefix + 12, 3)
        got = submission.interpolate_positions(table, (3, 4), (5, 2), prefix)
        assert_close(got, interpolate_positions(table, (3, 4), (5, 2), prefix), what="the table", atol=1e-4)


@rubric.test(
    "positions", points=1, visible=False, topic="gradients", hint="Fine-tuning needs the gradient of the old table."
)
def gradient_flows_to_the_table(submission, rng):
    given = draw(rng, 1 + 6, 4), (3, 2), (4, 4)
    got, want = (source.interpolate_positions.gradients(*given) for source in (submission, rubric.solution))
    assert_close(got, want, atol=1e-4)
