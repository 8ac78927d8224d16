"""Exercise set 16, Swin: what is asked, how it is tested, and the mistakes it can name."""

import torch
import torch.nn.functional as F

from lecturelib.grading import Rubric, assert_close, draw
from lecturelib.layers import join_neighbours, merge_windows, partition_windows, shift_regions
from lecturelib.layers import relative_index as index_of
from lecturelib.layers import shift_mask as mask_of
from lecturelib.models.swin_v2 import log_offsets

rubric = Rubric("16_swin", title="Swin")
rubric.exercise("windows", title="Cut and put back", minutes=10, difficulty=2, defines=("partition", "reverse"))
rubric.exercise("merging", title="Four patches into one", minutes=10, difficulty=2, defines=("merge_patches",))
rubric.exercise("bias", title="A bias for any window", minutes=20, difficulty=3, defines=("log_spaced", "smooth_bias"))
rubric.exercise("shift", title="Shift, and mask", minutes=30, difficulty=4, defines=("shifted_windows", "shift_mask"))
rubric.exercise("cost", title="What it costs", minutes=30, difficulty=3, defines=("attention_cost", "stage_costs"))


# 1. Windows


@rubric.reference
def partition(x, size):
    return partition_windows(x, (size, size))


@rubric.reference
def reverse(windows, size, rows, columns):
    return merge_windows(windows, (size, size), (rows, columns))


@rubric.mistake(
    "partition",
    "Right shape, wrong patches: a reshape cuts strips. View rows and columns as (down, M, across, M) first.",
)
def strips(x, size):
    return x.reshape(-1, size * size, x.shape[-1])  # (B · windows, M · M, D)


@rubric.mistake("partition", "Your windows run down the columns of windows first. Count them row by row, as you read.")
def windows_by_column(x, size):
    batch, rows, columns, d_model = x.shape
    x = x.view(batch, rows // size, size, columns // size, size, d_model)
    return x.permute(0, 3, 1, 2, 4, 5).reshape(-1, size * size, d_model)  # (B · windows, M · M, D)


@rubric.mistake("partition", "Inside a window your patches run down the columns. Row by row, as you read.")
def patches_by_column(x, size):
    batch, rows, columns, d_model = x.shape
    x = x.view(batch, rows // size, size, columns // size, size, d_model)
    return x.permute(0, 1, 3, 4, 2, 5).reshape(-1, size * size, d_model)  # (B · windows, M · M, D)


@rubric.mistake(
    "partition",
    "This dilates: a window takes every so many-th patch. Neighbours belong together: the *inner* axis has length M.",
)
def dilated(x, size):
    batch, rows, columns, d_model = x.shape
    x = x.view(batch, size, rows // size, size, columns // size, d_model)
    return x.permute(0, 2, 4, 1, 3, 5).reshape(-1, size * size, d_model)  # (B · windows, M · M, D)


@rubric.mistake(
    "partition",
    "Your batch comes after the windows. All windows of the first image come before those of the second: B stays in "
    "front.",
)
def windows_before_the_batch(x, size):
    batch, rows, columns, d_model = x.shape
    x = x.view(batch, rows // size, size, columns // size, size, d_model)
    return x.permute(1, 3, 0, 2, 4, 5).reshape(-1, size * size, d_model)  # (windows · B, M · M, D)


@rubric.mistake(
    "reverse", "A reshape alone lays the windows out as strips. Undo each step of `partition`, last one first."
)
def strips_back(windows, size, rows, columns):
    return windows.reshape(-1, rows, columns, windows.shape[-1])  # (B, rows, columns, D)


@rubric.mistake("reverse", "Rows and columns are swapped: `down` is rows // M and `across` is columns // M.")
def swapped_sides(windows, size, rows, columns):
    return merge_windows(windows, (size, size), (columns, rows)).reshape(-1, rows, columns, windows.shape[-1])


@rubric.test("windows", points=1, visible=True, hint="Number the patches of a 4 × 6 grid and cut it by hand, M = 2.")
def cuts_windows_row_by_row(submission, rng):
    for rows, columns, size in ((6, 8, 2), (6, 15, 3)):
        x = draw(rng, 7, rows, columns, 5)
        assert_close(submission.partition(x, size), partition(x, size), what="the windows")


@rubric.test("windows", points=1, visible=True, hint="Cutting and putting back must change nothing.")
def puts_windows_back(submission, rng):
    windows = draw(rng, 7 * 3 * 4, 4, 5)
    assert_close(submission.reverse(windows, 2, 6, 8), reverse(windows, 2, 6, 8), what="the grid")


@rubric.test(
    "windows",
    points=1,
    visible=False,
    topic="other sizes, gradients",
    hint="Try one window, windows of one patch, and gradients.",
)
def windows_of_every_size_pass_gradients(submission, rng):
    for rows, columns, size in ((4, 4, 4), (3, 5, 1), (8, 4, 4)):
        x, upstream = draw(rng, 2, rows, columns, 3), draw(rng, 2 * rows * columns // size**2, size * size, 3)
        got = submission.partition.gradients(x, size, upstream=upstream)
        assert_close(got, rubric.solution.partition.gradients(x, size, upstream=upstream))
        assert_close(submission.reverse(upstream, size, rows, columns), reverse(upstream, size, rows, columns))


# 2. Merging


def merged(joined, weight):
    return F.layer_norm(joined, joined.shape[-1:]) @ weight.T


@rubric.reference
def merge_patches(x, weight):
    return merged(join_neighbours(x), weight)


def in_order(x, order):
    four = {(i, j): x[:, i::2, j::2] for i in (0, 1) for j in (0, 1)}
    return torch.cat([four[place] for place in order], dim=-1)  # (B, rows / 2, columns / 2, 4 · D)


@rubric.mistake(
    "merge_patches",
    "The right four patches, in another order. Swin's is top left, *bottom left*, top right, bottom right.",
)
def reading_order(x, weight):
    return merged(in_order(x, ((0, 0), (0, 1), (1, 0), (1, 1))), weight)


@rubric.mistake(
    "merge_patches",
    "You join a patch with one half an image away. Neighbours: every other row, x[:, 0::2] and x[:, 1::2].",
)
def halves(x, weight):
    up, left = x.shape[1] // 2, x.shape[2] // 2
    four = (x[:, :up, :left], x[:, up:, :left], x[:, :up, left:], x[:, up:, left:])
    return merged(torch.cat(four, dim=-1), weight)


@rubric.mistake("merge_patches", "The matrix comes after the norm here; the other way round is Swin V2.")
def norm_last(x, weight):
    out = join_neighbours(x) @ weight.T
    return F.layer_norm(out, out.shape[-1:])


@rubric.mistake(
    "merge_patches", "You normalise each patch by itself. Join first: the norm is over all 4 · D numbers together."
)
def norm_first(x, weight):
    return join_neighbours(F.layer_norm(x, x.shape[-1:])) @ weight.T


def normalised(joined, spread):
    return (joined - joined.mean(-1, keepdim=True)) / spread(joined.var(-1, keepdim=True, correction=0))


@rubric.mistake(
    "merge_patches", "Your variance divides by n − 1, as torch.var and torch.std do by themselves. A layer norm's by n."
)
def variance_of_a_sample(x, weight):
    numbers = 4 * x.shape[-1]
    joined = join_neighbours(x)
    return normalised(joined, lambda variance: (variance * numbers / (numbers - 1) + 1e-5).sqrt()) @ weight.T


@rubric.mistake(
    "merge_patches", "Is your ε inside the square root? It is √(variance + ε), which shows where the numbers are small."
)
def epsilon_outside(x, weight):
    return normalised(join_neighbours(x), lambda variance: variance.sqrt() + 1e-5) @ weight.T


@rubric.mistake("merge_patches", "The ε is missing: √(variance + 10⁻⁵). It shows where the numbers are small.")
def no_epsilon(x, weight):
    return normalised(join_neighbours(x), torch.sqrt) @ weight.T


@rubric.mistake("merge_patches", "The norm is missing.")
def no_norm(x, weight):
    return join_neighbours(x) @ weight.T


@rubric.mistake(
    "merge_patches",
    "You average the four patches and copy the mean. Merging keeps all 4 · D numbers and lets the matrix choose.",
)
def averaged(x, weight):
    mean = sum(x[:, i::2, j::2] for i in (0, 1) for j in (0, 1)) / 4
    return merged(torch.cat([mean] * 4, dim=-1), weight)


@rubric.test("merging", points=1, visible=True, hint="Four slices with step 2, joined; then the norm; then the matrix.")
def merges_two_by_two(submission, rng):
    x, weight = draw(rng, 2, 4, 6, 3), draw(rng, 6, 12)
    assert_close(submission.merge_patches(x, weight), merge_patches(x, weight), what="the merged grid")


@rubric.test(
    "merging", points=1, visible=False, topic="gradients", hint="Try another grid, small numbers, and gradients."
)
def merging_passes_gradients(submission, rng):
    x, weight, upstream = draw(rng, 3, 2, 8, 5), draw(rng, 10, 20), draw(rng, 3, 1, 4, 10)
    got = submission.merge_patches.gradients(x, weight, upstream=upstream)
    want = rubric.solution.merge_patches.gradients(x, weight, upstream=upstream)
    assert_close(got, want, rtol=1e-3, atol=1e-4)
    x = 0.003 * x  # so small that ε shows
    assert_close(submission.merge_patches(x, weight), merge_patches(x, weight), what="the merged grid of small numbers")


# 3. A bias for any window


@rubric.reference
def log_spaced(size, trained):
    return log_offsets((size, size), trained)[index_of((size, size))]  # (T, T, 2)


@rubric.reference
def smooth_bias(weight_1, bias_1, weight_2, size, trained):
    return bias_of(log_spaced(size, trained), weight_1, bias_1, weight_2)


def bias_of(offsets, weight_1, bias_1, weight_2, *, bend=torch.relu, squash=lambda score: 16 * torch.sigmoid(score)):
    return squash(bend(offsets @ weight_1.T + bias_1) @ weight_2.T).permute(2, 0, 1)  # (H, T, T)


def offsets(size):
    place = torch.cartesian_prod(torch.arange(size), torch.arange(size))  # (T, 2)
    return (place[:, None] - place).float()  # (T, T, 2), query minus key


def squeezed(apart):
    return apart.sign() * torch.log2(1 + apart.abs())


@rubric.mistake("log_spaced", "Your offsets are key minus query. Row i is the query: take query minus key.")
def key_minus_query(size, trained):
    return -log_spaced(size, trained)


@rubric.mistake("log_spaced", "Your columns stand before your rows. The rows apart come first in each pair of numbers.")
def columns_first(size, trained):
    return log_spaced(size, trained).flip(-1)


@rubric.mistake(
    "log_spaced", "You squeeze distances, so left and right are alike. Put the sign of the offset back after the log."
)
def distances(size, trained):
    return log_spaced(size, trained).abs()


@rubric.mistake("log_spaced", "These are the offsets scaled to ±8 at the edge. The logarithm is missing.")
def linear(size, trained):
    return 8 * offsets(size) / (trained - 1)


@rubric.mistake(
    "log_spaced",
    "You measure in the new window, where each offset gets another number than in training. Divide by `trained` − 1.",
)
def measured_in_the_new_window(size, trained):
    return squeezed(8 * offsets(size) / (size - 1)) / 3


@rubric.mistake(
    "log_spaced",
    "You divide by the side of the training window. Its largest offset is one less, and that is what becomes 8.",
)
def measured_in_sides(size, trained):
    return squeezed(8 * offsets(size) / trained) / 3


@rubric.mistake(
    "log_spaced",
    "This is sign(Δ) log₂(1 + |Δ|) of the offset as it is. Scale it first: the edge of the training window is 8.",
)
def unscaled(size, trained):
    return squeezed(offsets(size))


@rubric.mistake("log_spaced", "Three times too large: divide by log₂ 8, so that the edge of the window is near ±1.")
def not_divided(size, trained):
    return 3 * log_spaced(size, trained)


@rubric.mistake("log_spaced", "That is the natural logarithm over 3. Both are to base 2 here: log₂ 8 = 3.")
def natural_logarithm(size, trained):
    return log_spaced(size, trained) / torch.log2(torch.tensor(2.718281828459045))


@rubric.mistake("smooth_bias", "Right numbers, heads in the wrong place: move them to the front, (H, m², m²).")
def heads_last(weight_1, bias_1, weight_2, size, trained):
    return smooth_bias(weight_1, bias_1, weight_2, size, trained).permute(1, 2, 0)  # (T, T, H)


@rubric.mistake("smooth_bias", "A view cannot move the heads to the front: it scrambles the numbers. Use permute.")
def heads_by_view(weight_1, bias_1, weight_2, size, trained):
    return heads_last(weight_1, bias_1, weight_2, size, trained).reshape(-1, size**2, size**2)


@rubric.mistake("smooth_bias", "Queries and keys are swapped: the query's row comes before the key's column.")
def transposed(weight_1, bias_1, weight_2, size, trained):
    return smooth_bias(weight_1, bias_1, weight_2, size, trained).mT


@rubric.mistake("smooth_bias", "Those are the net's own numbers. The last step is missing: 16 times the sigmoid.")
def no_sigmoid(weight_1, bias_1, weight_2, size, trained):
    return bias_of(log_spaced(size, trained), weight_1, bias_1, weight_2, squash=lambda score: score)


@rubric.mistake("smooth_bias", "Your bias lies between 0 and 1. Between 0 and 16: multiply the sigmoid.")
def up_to_one(weight_1, bias_1, weight_2, size, trained):
    return smooth_bias(weight_1, bias_1, weight_2, size, trained) / 16


@rubric.mistake(
    "smooth_bias", "You multiply by 16 before the sigmoid. After it, so that the bias lies between 0 and 16."
)
def sixteen_inside(weight_1, bias_1, weight_2, size, trained):
    return bias_of(log_spaced(size, trained), weight_1, bias_1, 16 * weight_2, squash=torch.sigmoid)


@rubric.mistake("smooth_bias", "No ReLU between your two matrices: a net without it cannot bend.")
def no_relu(weight_1, bias_1, weight_2, size, trained):
    return bias_of(log_spaced(size, trained), weight_1, bias_1, weight_2, bend=lambda hidden: hidden)


@rubric.mistake("smooth_bias", "`bias_1` is missing: it is added before the ReLU.")
def no_first_bias(weight_1, bias_1, weight_2, size, trained):
    return smooth_bias(weight_1, 0 * bias_1, weight_2, size, trained)


@rubric.mistake("smooth_bias", "`size` and `trained` change places somewhere: the bias is for a window of `size`.")
def sizes_swapped(weight_1, bias_1, weight_2, size, trained):
    return smooth_bias(weight_1, bias_1, weight_2, trained, size)


def small_net(rng, heads, hidden):
    return 2 * draw(rng, hidden, 2), draw(rng, hidden), draw(rng, heads, hidden)


@rubric.test(
    "bias", points=2, visible=True, hint="Query minus key, times 8 / (trained − 1); then sign, log₂ and a third of it."
)
def spaces_the_offsets(submission, rng):
    for size, trained in ((2, 4), (5, 3)):
        want = log_spaced(size, trained)
        assert_close(submission.log_spaced(size, trained), want, what=f"the offsets of a window of {size}")


@rubric.test(
    "bias",
    points=1,
    visible=True,
    hint="Two matrices with a ReLU between them, for each pair; 16 · sigmoid; heads to the front.",
    needs=("log_spaced",),
)
def computes_the_bias(submission, rng):
    net = small_net(rng, 3, 6)
    assert_close(submission.smooth_bias(*net, 4, 3), smooth_bias(*net, 4, 3), what="the bias")


@rubric.test("bias", points=0.5, visible=False, topic="gradients", hint="The net must learn.", needs=("log_spaced",))
def bias_passes_gradients_to_the_net(submission, rng):
    net, upstream = small_net(rng, 5, 7), draw(rng, 5, 9, 9)
    got = submission.smooth_bias.gradients(*net, 3, 4, upstream=upstream)
    assert_close(got, rubric.solution.smooth_bias.gradients(*net, 3, 4, upstream=upstream), rtol=1e-3, atol=1e-4)


@rubric.test("bias", points=0.5, visible=False, topic="other sizes", hint="Larger windows, and one of a single patch.")
def spaces_the_offsets_of_other_windows(submission, rng):
    for size, trained in ((7, 2), (3, 12), (1, 5)):
        assert_close(submission.log_spaced(size, trained), log_spaced(size, trained), what="the offsets")


# 4. The shift


def rolled(x, by, dims=(1, 2)):
    return x.roll(by, dims=dims)


@rubric.reference
def shifted_windows(x, size, shift):
    return partition(rolled(x, (-shift, -shift)), size)


@rubric.reference
def shift_mask(rows, columns, size, shift):
    return mask_of((rows, columns), (size, size), (shift, shift))


def mask_from(region, size):
    of_window = partition_windows(region[None, :, :, None], (size, size)).squeeze(-1)  # (windows, T)
    return of_window[:, :, None] == of_window[:, None, :]


@rubric.mistake(
    "shifted_windows",
    "You roll down and to the right. Moving the windows down means moving the image *up*: roll by −shift.",
)
def rolled_down(x, size, shift):
    return partition(rolled(x, (shift, shift)), size)


@rubric.mistake("shifted_windows", "You roll the batch as well: the grid's axes are 1 and 2.")
def rolled_the_batch(x, size, shift):
    return partition(rolled(x, (-shift, -shift), dims=(0, 1)), size)


@rubric.mistake("shifted_windows", "Only the rows are rolled. The columns move as well.")
def rolled_rows_only(x, size, shift):
    return partition(rolled(x, (-shift,), dims=(1,)), size)


@rubric.mistake("shifted_windows", "You cut first and roll inside each window. Roll the whole grid, then cut.")
def rolled_inside(x, size, shift):
    d_model = x.shape[-1]
    inside = partition(x, size).view(-1, size, size, d_model)
    return rolled(inside, (-shift, -shift)).reshape(-1, size * size, d_model)  # (B · windows, T, D)


@rubric.mistake("shift_mask", "Your mask is upside down: True means *may* attend.")
def upside_down(rows, columns, size, shift):
    return ~shift_mask(rows, columns, size, shift)


@rubric.mistake(
    "shift_mask",
    "Everything may attend to everything in your windows. Patches that came round never touched those they lie beside.",
)
def nothing_hidden(rows, columns, size, shift):
    return torch.ones_like(shift_mask(rows, columns, size, shift))


@rubric.mistake(
    "shift_mask",
    "You mark the first rows and columns. In the *rolled* grid those that came round lie in the last ones.",
)
def marks_the_first(rows, columns, size, shift):
    down, across = torch.arange(rows) < shift, torch.arange(columns) < shift
    return mask_from(2 * down[:, None].long() + across.long(), size)


@rubric.mistake("shift_mask", "Only the rows are told apart. Columns came round too, in the windows on the right.")
def masks_rows_only(rows, columns, size, shift):
    return mask_of((rows, columns), (size, size), (shift, 0))


@rubric.mistake(
    "shift_mask", "Your mask is for a shift of M // 2. Use `shift`, whatever it is; without one, hide nothing."
)
def always_half_a_window(rows, columns, size, shift):
    return shift_mask(rows, columns, size, size // 2)


@rubric.mistake(
    "shift_mask",
    "Two of your four pieces have the same number: you add the row's and the column's. Multiply one of them first.",
)
def added_numbers(rows, columns, size, shift):
    down, across = torch.arange(rows) >= rows - shift, torch.arange(columns) >= columns - shift
    return mask_from(down[:, None].long() + across.long(), size)


@rubric.mistake(
    "shift_mask",
    "You hide what came round from everybody, itself included. Compare numbers: pieces are hidden from *each other*.",
)
def hides_what_came_round(rows, columns, size, shift):
    stayed = shift_regions((rows, columns), (size, size), (shift, shift))
    last = (torch.arange(rows) >= rows - shift)[:, None] | (torch.arange(columns) >= columns - shift)
    real = partition_windows((~last)[None, :, :, None], (size, size)).squeeze(-1)  # (windows, T)
    return mask_from(stayed, size) & real[:, :, None] & real[:, None, :]


@rubric.test(
    "shift", points=1, visible=True, hint="torch.roll with two shifts and two dims; then cut.", needs=("partition",)
)
def rolls_and_cuts(submission, rng):
    x = draw(rng, 2, 6, 9, 4)
    assert_close(submission.shifted_windows(x, 3, 1), shifted_windows(x, 3, 1), what="the windows")


@rubric.test(
    "shift",
    points=2,
    visible=True,
    hint="Number the pieces of the rolled grid, cut the numbers into windows, and compare them pair by pair.",
    needs=("partition",),
)
def hides_the_pieces_from_each_other(submission, rng):
    for rows, columns, size, shift in ((4, 6, 2, 1), (6, 9, 3, 1)):
        got = submission.shift_mask(rows, columns, size, shift)
        assert_close(got, shift_mask(rows, columns, size, shift), what=f"the mask of a {rows} × {columns} grid")


@rubric.test(
    "shift",
    points=1,
    visible=False,
    topic="other shifts",
    hint="Other sizes, and no shift at all: then nothing is hidden.",
    needs=("partition",),
)
def mask_follows_the_shift(submission, rng):
    for rows, columns, size, shift in ((8, 8, 4, 2), (8, 12, 4, 3), (6, 6, 3, 0), (14, 21, 7, 3)):
        got = submission.shift_mask(rows, columns, size, shift)
        assert_close(got, shift_mask(rows, columns, size, shift), what="the mask")
    x = draw(rng, 1, 8, 4, 3)
    assert_close(submission.shifted_windows(x, 4, 0), shifted_windows(x, 4, 0), what="windows without a shift")


# 5. Cost


@rubric.reference
def attention_cost(rows, columns, d_model, size=None):
    patches = rows * columns
    keys = patches if size is None else size * size
    return 4 * patches * d_model**2 + 2 * patches * keys * d_model


@rubric.reference
def stage_costs(side, d_model, num_layers, size):
    return stages(side, d_model, num_layers, size)


def stages(side, d_model, num_layers, size, *, shrink=2, widen=2, feed_forward=8, cost=attention_cost):
    costs = []
    for layers in num_layers:
        costs.append(layers * (cost(side, side, d_model, size) + feed_forward * side * side * d_model**2))
        side, d_model = side // shrink, d_model * widen
    return costs


@rubric.mistake("attention_cost", "The four projections are missing: 4 N D² multiplications.")
def no_projections(rows, columns, d_model, size=None):
    return attention_cost(rows, columns, d_model, size) - 4 * rows * columns * d_model**2


@rubric.mistake(
    "attention_cost", "You count the scores and forget the average of the values, which costs the same again."
)
def half_the_pairs(rows, columns, d_model, size=None):
    projections = 4 * rows * columns * d_model**2
    return projections + (attention_cost(rows, columns, d_model, size) - projections) // 2


@rubric.mistake("attention_cost", "A window of side M holds M² keys, not M.")
def keys_on_one_side(rows, columns, d_model, size=None):
    keys = rows * columns if size is None else size
    return 4 * rows * columns * d_model**2 + 2 * rows * columns * keys * d_model


@rubric.mistake("attention_cost", "You count additions too. Here one multiplication counts one, as in the paper.")
def with_additions(rows, columns, d_model, size=None):
    return 2 * attention_cost(rows, columns, d_model, size)


@rubric.mistake("attention_cost", "That is the cost of one window. There are N / M² of them.")
def one_window(rows, columns, d_model, size=None):
    return attention_cost(rows, columns, d_model) if size is None else attention_cost(size, size, d_model)


@rubric.mistake("attention_cost", "You ignore the window: with `size`, each patch has size² keys, not N.")
def always_global(rows, columns, d_model, size=None):
    return attention_cost(rows, columns, d_model)


@rubric.mistake("stage_costs", "The width stays the same in your stages. It doubles with every merging.")
def same_width(side, d_model, num_layers, size):
    return stages(side, d_model, num_layers, size, widen=1)


@rubric.mistake("stage_costs", "The grid stays the same in your stages. Merging halves both of its sides.")
def same_grid(side, d_model, num_layers, size):
    return stages(side, d_model, num_layers, size, shrink=1)


@rubric.mistake("stage_costs", "The feed-forward nets are missing: two matrices, D × 4D and 4D × D, for each patch.")
def no_feed_forward(side, d_model, num_layers, size):
    return stages(side, d_model, num_layers, size, feed_forward=0)


@rubric.mistake("stage_costs", "You count one layer for each stage. `num_layers` says how many there are.")
def one_layer_each(side, d_model, num_layers, size):
    return stages(side, d_model, [1] * len(num_layers), size)


@rubric.test(
    "cost", points=1, visible=True, hint="Per patch: four D × D matrices, then scores and values, D each a key."
)
def counts_attention(submission, rng):
    for rows, columns, d_model in ((4, 8, 10), (6, 10, 12)):
        got = submission.attention_cost(rows, columns, d_model)
        assert_close(got, attention_cost(rows, columns, d_model), what="global attention")
        got = submission.attention_cost(rows, columns, d_model, size=2)
        assert_close(got, attention_cost(rows, columns, d_model, size=2), what="attention in windows of 2 × 2")


@rubric.test(
    "cost",
    points=2,
    visible=True,
    hint="Stage by stage: side / 2, width · 2. A layer is attention and a feed-forward net of 8 N D².",
    needs=("attention_cost",),
)
def counts_stages(submission, rng):
    got = submission.stage_costs(24, 8, (2, 2, 4), 3)
    assert_close(got, stage_costs(24, 8, (2, 2, 4), 3), what="the stages")


@rubric.test("cost", points=0.5, visible=False, topic="other sizes", hint="Other sizes.", needs=("attention_cost",))
def counts_other_sizes(submission, rng):
    got = submission.stage_costs(56, 96, (2, 2, 6, 2), 7)
    assert_close(got, stage_costs(56, 96, (2, 2, 6, 2), 7), what="the stages of Swin-T")


@rubric.test("cost", points=0.5, visible=False, topic="other windows", hint="Large windows, and a single patch.")
def counts_other_windows(submission, rng):
    assert_close(submission.attention_cost(7, 21, 5, 7), attention_cost(7, 21, 5, 7), what="windows of 7 × 7")
    assert_close(submission.attention_cost(1, 1, 3), attention_cost(1, 1, 3), what="one patch")
