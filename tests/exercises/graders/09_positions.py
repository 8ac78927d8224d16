"""Exercise set 09, positions: what is asked, how it is tested, and the mistakes it can name."""

import itertools
import math

import torch

from lecturelib.grading import Rubric, assert_close, draw
from lecturelib.layers import RotaryPositions, SinusoidalPositions, relative_index
from lecturelib.layers.positions import frequencies

rubric = Rubric("09_positions", title="Positions")
rubric.exercise("sinusoids", title="The sinusoidal table", minutes=5, difficulty=1, defines=("sinusoidal_table",))
rubric.exercise("shift", title="A shift is a rotation", minutes=15, difficulty=2, defines=("shift_matrix",))
rubric.exercise(
    "bias",
    title="The index of a relative bias",
    minutes=25,
    difficulty=3,
    defines=("clipped_index", "window_index", "gather_bias"),
)
rubric.exercise(
    "rotary",
    title="Rotary positions, and a proof that they are relative",
    minutes=40,
    difficulty=4,
    defines=("rotate", "rotary_weights", "shift_gap"),
)


# 1. The sinusoidal table


@rubric.reference
def sinusoidal_table(num_positions, d_model, base=10_000.0):
    return SinusoidalPositions(d_model, base=base)(torch.arange(num_positions))


def waves(positions, speeds):
    """Sines and cosines that alternate. Shapes: (T,), (D / 2,) -> (T, D)"""
    angles = positions[:, None] * speeds
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)


@rubric.mistake(
    "sinusoidal_table",
    "All your sines stand before all your cosines. Here they alternate: sine 0, cosine 0, sine 1, cosine 1, …",
)
def sines_then_cosines(num_positions, d_model, base=10_000.0):
    table = sinusoidal_table(num_positions, d_model, base)
    return torch.cat((table[:, 0::2], table[:, 1::2]), dim=-1)


@rubric.mistake("sinusoidal_table", "Your cosines stand in the even columns. The sine of each pair comes first.")
def cosine_first(num_positions, d_model, base=10_000.0):
    return sinusoidal_table(num_positions, d_model, base).unflatten(-1, (-1, 2)).flip(-1).flatten(-2)


@rubric.mistake(
    "sinusoidal_table",
    "Your clocks slow down too little: the exponent is 2i / d_model, and you have i / d_model.",
)
def half_exponent(num_positions, d_model, base=10_000.0):
    return waves(torch.arange(num_positions), frequencies(d_model, base).sqrt())


@rubric.mistake(
    "sinusoidal_table",
    "Your slowest pair has the speed 1 / base: you divide i by the number of pairs minus 1. Divide 2i by d_model.",
)
def reaches_the_base(num_positions, d_model, base=10_000.0):
    pairs = torch.arange(d_model // 2)
    return waves(torch.arange(num_positions), base ** (-pairs / max(1, d_model // 2 - 1)))


@rubric.mistake(
    "sinusoidal_table",
    "Each column has a speed of its own. The sine and the cosine of a pair share one, or they are no clock hand.",
)
def speed_for_every_column(num_positions, d_model, base=10_000.0):
    column = torch.arange(d_model)
    angles = torch.arange(num_positions)[:, None] * base ** (-column / d_model)
    return torch.where(column % 2 == 0, angles.sin(), angles.cos())


@rubric.mistake("sinusoidal_table", "You count positions from 1. The first row is position 0: sines 0, cosines 1.")
def counts_from_one(num_positions, d_model, base=10_000.0):
    return waves(torch.arange(1, num_positions + 1), frequencies(d_model, base))


@rubric.mistake(
    "sinusoidal_table",
    "You multiply t by base^(2i / d_model) and should divide: later pairs turn more slowly, not faster.",
)
def ever_faster(num_positions, d_model, base=10_000.0):
    return waves(torch.arange(num_positions), 1 / frequencies(d_model, base))


@rubric.mistake("sinusoidal_table", "You never use `base`: 10 000 is only its default.")
def fixed_base(num_positions, d_model, base=10_000.0):
    return sinusoidal_table(num_positions, d_model)


@rubric.test(
    "sinusoids", points=1, visible=True, hint="Row t, columns 2i and 2i + 1: sin and cos of t / base^(2i / D)."
)
def table_is_the_papers(submission, rng):
    d_model = 2 * int(torch.randint(3, 6, (), generator=rng))
    got, want = submission.sinusoidal_table(7, d_model), sinusoidal_table(7, d_model)
    assert_close(got, want, what=f"sinusoidal_table(7, {d_model})", atol=1e-4)


@rubric.test("sinusoids", points=1, visible=True, hint="The base is an argument.")
def table_follows_the_base(submission, rng):
    base = float(torch.randint(20, 90, (), generator=rng))
    got, want = submission.sinusoidal_table(5, 6, base), sinusoidal_table(5, 6, base)
    assert_close(got, want, what=f"sinusoidal_table(5, 6, {base})", atol=1e-4)


@rubric.test(
    "sinusoids",
    points=1,
    visible=False,
    topic="long tables",
    hint="Nothing ends at some longest position, and width 2 is a width.",
)
def table_has_no_longest_position(submission, rng):
    for num_positions, d_model in ((300, 12), (1, 4), (9, 2)):
        got, want = submission.sinusoidal_table(num_positions, d_model), sinusoidal_table(num_positions, d_model)
        assert_close(got, want, what=f"sinusoidal_table({num_positions}, {d_model})", atol=1e-3)


# 2. A shift is a rotation


def blocks(angles, corner=-1.0):
    """A block-diagonal matrix of [[cos, sin], [corner · sin, cos]] for each angle."""
    pairs = [torch.stack((angle.cos(), angle.sin(), corner * angle.sin(), angle.cos())) for angle in angles]
    return torch.block_diag(*[pair.view(2, 2) for pair in pairs])  # (D, D)


@rubric.reference
def shift_matrix(k, d_model, base=10_000.0):
    return blocks(k * frequencies(d_model, base))


@rubric.mistake("shift_matrix", "You drop the sign of k: a negative shift turns the clocks the other way.")
def forgets_the_sign(k, d_model, base=10_000.0):
    return shift_matrix(abs(k), d_model, base)


@rubric.mistake(
    "shift_matrix",
    "Your matrix turns the clocks back: it takes PE(t) to PE(t − k). Each block is [[cos, sin], [−sin, cos]].",
)
def turns_back(k, d_model, base=10_000.0):
    return shift_matrix(k, d_model, base).T


@rubric.mistake("shift_matrix", "All your blocks turn by the same angle. Pair i turns by k / base^(2i / d_model).")
def one_angle(k, d_model, base=10_000.0):
    return blocks(k * torch.ones(d_model // 2))


@rubric.mistake(
    "shift_matrix", "Your matrix shifts by one step, whatever k is. The angle of pair i is k times its speed."
)
def single_step(k, d_model, base=10_000.0):
    return shift_matrix(1, d_model, base)


@rubric.mistake(
    "shift_matrix",
    "Your blocks have two plus signs: that is no rotation. cos(a + b) = cos a cos b − sin a sin b has a minus.",
)
def two_pluses(k, d_model, base=10_000.0):
    return blocks(k * frequencies(d_model, base), corner=1.0)


@rubric.mistake(
    "shift_matrix",
    "You turn feature i with feature i + d_model / 2. In this table the sine and cosine of a pair are neighbours.",
)
def turns_halves(k, d_model, base=10_000.0):
    angles = k * frequencies(d_model, base)
    cos, sin = angles.cos().diag(), angles.sin().diag()
    return torch.cat((torch.cat((cos, sin), dim=1), torch.cat((-sin, cos), dim=1)))


@rubric.mistake(
    "shift_matrix", "Your matrix depends on the default base alone: pass `base` on to the speeds of the pairs."
)
def shift_with_fixed_base(k, d_model, base=10_000.0):
    return shift_matrix(k, d_model)


@rubric.test(
    "shift", points=2, visible=True, hint="Expand sin(a + b) and cos(a + b); b = k times the speed of the pair."
)
def matrix_is_the_rotation(submission, rng):
    k = int(torch.randint(2, 9, (), generator=rng))
    assert_close(submission.shift_matrix(k, 8), shift_matrix(k, 8), what=f"shift_matrix({k}, 8)", atol=1e-4)


@rubric.test("shift", points=1, visible=True, hint="One matrix for all t: shift_matrix(k) @ PE(t) = PE(t + k).")
def matrix_takes_every_position_k_further(submission, rng):
    k, base = int(torch.randint(2, 9, (), generator=rng)), 50.0
    matrix = submission.shift_matrix(k, 6, base)
    assert_close(matrix, shift_matrix(k, 6, base), what=f"shift_matrix({k}, 6, {base:g})", atol=1e-4)


@rubric.test(
    "shift",
    points=1,
    visible=False,
    topic="zero and negative shifts",
    hint="Shifts may be zero, negative and long, and they add up.",
)
def shifts_add_up(submission, rng):
    for k, d_model in ((0, 4), (-5, 6), (60, 10), (1, 2)):
        got, want = submission.shift_matrix(k, d_model), shift_matrix(k, d_model)
        assert_close(got, want, what=f"shift_matrix({k}, {d_model})", atol=1e-3)


# 3. The index of a relative bias


@rubric.reference
def clipped_index(num_positions, max_distance):
    places = torch.arange(num_positions)
    return (places - places[:, None]).clamp(-max_distance, max_distance) + max_distance


@rubric.reference
def window_index(height, width):
    return relative_index((height, width))


@rubric.reference
def gather_bias(table, index):
    return table[index].permute(2, 0, 1)  # (H, T, T)


@rubric.mistake(
    "clipped_index", "Your index has the wrong sign: it is query minus key. Here it is key minus query, j − i."
)
def query_minus_key(num_positions, max_distance):
    return clipped_index(num_positions, max_distance).T


@rubric.mistake(
    "clipped_index", "Far keys have rows of their own, which the table does not hold. Clip the offset to ±max_distance."
)
def never_clipped(num_positions, max_distance):
    places = torch.arange(num_positions)
    return places - places[:, None] + max_distance


@rubric.mistake(
    "clipped_index",
    "Your rows start at −max_distance. A table has no negative rows: add max_distance after clipping.",
)
def starts_below_zero(num_positions, max_distance):
    return clipped_index(num_positions, max_distance) - max_distance


@rubric.mistake(
    "clipped_index",
    "Before and after look alike in your index: you take the absolute distance. Keep the sign of j − i.",
)
def without_sign(num_positions, max_distance):
    return (clipped_index(num_positions, max_distance) - max_distance).abs()


@rubric.mistake(
    "window_index", "Your offsets are key minus query. Swin counts query minus key, rows and columns alike."
)
def window_key_minus_query(height, width):
    return window_index(height, width).T


def offsets(height, width):
    """Rows and columns between each pair of patches. Shapes: -> (T, T), (T, T)"""
    patch = torch.arange(height * width)
    row, column = patch // width, patch % width
    return row[:, None] - row, column[:, None] - column


@rubric.mistake(
    "window_index",
    "Two offsets share a number, as if the window were a line. Column offsets are 2·width − 1: a row counts that much.",
)
def rows_too_short(height, width):
    down, across = offsets(height, width)
    return (down + height - 1) * width + across + width - 1


@rubric.mistake("window_index", "Your columns count before your rows: the row offset is the one to multiply.")
def columns_first(height, width):
    down, across = offsets(height, width)
    return (across + width - 1) * (2 * height - 1) + down + height - 1


@rubric.mistake(
    "window_index", "Some of your numbers are negative: the most negative offset, one corner to the other, is number 0."
)
def window_below_zero(height, width):
    down, across = offsets(height, width)
    return down * (2 * width - 1) + across


@rubric.mistake("gather_bias", "A reshape cannot move the heads to the front: it scrambles the numbers. Use permute.")
def heads_by_reshape(table, index):
    return table[index].reshape(-1, *index.shape)


@rubric.mistake("gather_bias", "The heads come out last, (T, T, H). Scores are (H, T, T): move that axis to the front.")
def heads_last(table, index):
    return table[index]


@rubric.mistake(
    "gather_bias", "Queries and keys have changed places: you reversed all the axes. Only the heads' axis should move."
)
def reversed_axes(table, index):
    return table[index].permute(2, 1, 0)


@rubric.test("bias", points=1, visible=True, hint="Row i, column j: clip j − i, then move it so that it starts at 0.")
def index_counts_clipped_offsets(submission, rng):
    reach = int(torch.randint(1, 4, (), generator=rng))
    got, want = submission.clipped_index(6, reach), clipped_index(6, reach)
    assert_close(got, want, what=f"clipped_index(6, {reach})")


@rubric.test(
    "bias", points=2, visible=True, hint="Two offsets, rows and columns, each moved to start at 0; then one number."
)
def window_numbers_every_offset(submission, rng):
    height = int(torch.randint(2, 4, (), generator=rng))
    got, want = submission.window_index(height, 4), window_index(height, 4)
    assert_close(got, want, what=f"window_index({height}, 4)")


@rubric.test("bias", points=1, visible=True, hint="One number for each head, query and key: (H, T, T).")
def bias_is_one_map_a_head(submission, rng):
    table, index = draw(rng, 7, 2), clipped_index(5, 3)
    assert_close(submission.gather_bias(table, index), gather_bias(table, index), what="the bias")


@rubric.test(
    "bias",
    points=1,
    visible=False,
    topic="other sizes",
    hint="Other sizes: one position, one row of patches, no reach at all.",
)
def indices_hold_for_other_sizes(submission, rng):
    for num_positions, reach in ((1, 2), (9, 20), (4, 0), (7, 3)):
        got, want = submission.clipped_index(num_positions, reach), clipped_index(num_positions, reach)
        assert_close(got, want, what=f"clipped_index({num_positions}, {reach})")
    for height, width in ((1, 5), (5, 1), (4, 3), (7, 7)):
        got, want = submission.window_index(height, width), window_index(height, width)
        assert_close(got, want, what=f"window_index({height}, {width})")


@rubric.test(
    "bias",
    points=1,
    visible=False,
    topic="gradients",
    hint="The table must learn: each row gets the sum of its places.",
)
def bias_passes_gradients_to_the_table(submission, rng):
    table, index, upstream = draw(rng, 15, 3), window_index(2, 3), draw(rng, 3, 6, 6)
    got = submission.gather_bias.gradients(table, index, upstream=upstream)
    assert_close(got, rubric.solution.gather_bias.gradients(table, index, upstream=upstream), atol=1e-4)


# 4. Rotary positions


@rubric.reference
def rotate(x, positions, base=10_000.0):
    heads = x.reshape(1, -1, *x.shape[-2:])  # (1, H, T, D)
    return RotaryPositions(x.shape[-1], base=base).turn(heads, positions).reshape(x.shape)


@rubric.reference
def rotary_weights(query, key, query_positions, key_positions):
    scores = rotate(query, query_positions) @ rotate(key, key_positions).mT / math.sqrt(query.shape[-1])
    return scores.softmax(dim=-1)


@rubric.reference
def shift_gap(weights, positions, shifts):
    before = weights(positions)
    return max((weights(positions + shift) - before).abs().max().item() for shift in shifts)


def turn_pairs(x, positions, speeds):
    """The two turned features of each pair. Shapes: (..., T, D) -> (..., T, D / 2), (..., T, D / 2)"""
    angles = positions[:, None] * speeds
    even, odd = x[..., 0::2], x[..., 1::2]
    return even * angles.cos() - odd * angles.sin(), even * angles.sin() + odd * angles.cos()


@rubric.mistake("rotate", "You turn the other way: the first feature of a pair becomes a·cos − b·sin.")
def rotates_back(x, positions, base=10_000.0):
    return rotate(x, -positions, base)


@rubric.mistake(
    "rotate",
    "You pair feature i with feature i + D / 2, as LLaMA's code does. Here neighbours are a pair: 0 with 1, 2 with 3.",
)
def rotates_halves(x, positions, base=10_000.0):
    half = x.shape[-1] // 2
    neighbours = torch.stack((x[..., :half], x[..., half:]), dim=-1).flatten(-2)
    turned = rotate(neighbours, positions, base)
    return torch.cat((turned[..., 0::2], turned[..., 1::2]), dim=-1)


@rubric.mistake(
    "rotate", "Two plus signs make no rotation: lengths change. The pair becomes a·cos − b·sin, a·sin + b·cos."
)
def rotates_without_minus(x, positions, base=10_000.0):
    angles = positions[:, None] * frequencies(x.shape[-1], base)
    even, odd = x[..., 0::2], x[..., 1::2]
    first, second = even * angles.cos() + odd * angles.sin(), even * angles.sin() + odd * angles.cos()
    return torch.stack((first, second), dim=-1).flatten(-2)


@rubric.mistake("rotate", "All pairs turn equally fast. Pair i turns by position / base^(2i / D).")
def rotates_at_one_speed(x, positions, base=10_000.0):
    return torch.stack(turn_pairs(x, positions, torch.ones(x.shape[-1] // 2)), dim=-1).flatten(-2)


@rubric.mistake("rotate", "Your pairs slow down too little: the exponent is 2i / D, and you have i / D.")
def rotates_with_half_the_exponent(x, positions, base=10_000.0):
    return rotate(x, positions, math.sqrt(base))


@rubric.mistake(
    "rotate",
    "The turned features are in the wrong columns: you put all first ones before all second ones. Interleave them.",
)
def rotates_and_sorts(x, positions, base=10_000.0):
    return torch.cat(turn_pairs(x, positions, frequencies(x.shape[-1], base)), dim=-1)


@rubric.mistake("rotate", "You add sines and cosines to the features. Rotary positions add nothing; they turn.")
def adds_waves(x, positions, base=10_000.0):
    return x + waves(positions, frequencies(x.shape[-1], base))


@rubric.mistake("rotate", "You count the rows yourself, 0, 1, 2, … Use the positions that are given.")
def ignores_positions(x, positions, base=10_000.0):
    return rotate(x, torch.arange(x.shape[-2]), base)


@rubric.mistake(
    "rotary_weights",
    "Only the keys are turned, so a score depends on where the key is, not on how far off. Turn the queries too.",
)
def turns_keys_only(query, key, query_positions, key_positions):
    return rotary_weights(query, key, torch.zeros_like(query_positions), key_positions)


@rubric.mistake("rotary_weights", "The scores are not scaled: divide them by √D before the softmax.")
def unscaled_rotary(query, key, query_positions, key_positions):
    return rotary_weights(query * math.sqrt(query.shape[-1]), key, query_positions, key_positions)


@rubric.mistake("rotary_weights", "These are scores. Weights are their softmax over the keys, dim=-1.")
def rotary_scores(query, key, query_positions, key_positions):
    return rotate(query, query_positions) @ rotate(key, key_positions).mT / math.sqrt(query.shape[-1])


@rubric.mistake(
    "rotary_weights", "Your softmax runs down the queries. Each query shares itself out over the keys: dim=-1."
)
def rotary_softmax_over_queries(query, key, query_positions, key_positions):
    return rotary_scores(query, key, query_positions, key_positions).softmax(dim=-2)


@rubric.mistake("shift_gap", "Differences have signs: take .abs() before the maximum.")
def signed_shift_gap(weights, positions, shifts):
    before = weights(positions)
    return max((weights(positions + shift) - before).max().item() for shift in shifts)


@rubric.mistake("shift_gap", "You look at the last shift alone. The gap is the largest over all of them.")
def last_shift_only(weights, positions, shifts):
    return shift_gap(weights, positions, shifts[-1:])


@rubric.mistake(
    "shift_gap", "You return the smallest of the gaps. One shift that changes the weights is enough: the largest."
)
def smallest_shift_gap(weights, positions, shifts):
    return min(shift_gap(weights, positions, (shift,)) for shift in shifts)


@rubric.mistake("shift_gap", "You compare each shift with the one before it. All are compared with no shift at all.")
def one_after_the_other(weights, positions, shifts):
    found = [weights(positions + shift) for shift in (0, *shifts)]
    return max((after - before).abs().max().item() for before, after in itertools.pairwise(found))


@rubric.mistake("shift_gap", "The gap is the *largest* difference, not the mean.")
def mean_shift_gap(weights, positions, shifts):
    before = weights(positions)
    return max((weights(positions + shift) - before).abs().mean().item() for shift in shifts)


@rubric.mistake(
    "shift_gap", "You multiply the positions by the shift, which stretches all distances. A shift is added."
)
def stretches(weights, positions, shifts):
    before = weights(positions)
    return max((weights(positions * shift) - before).abs().max().item() for shift in shifts)


@rubric.test("rotary", points=2, visible=True, hint="Pair (a, b) becomes (a·cos − b·sin, a·sin + b·cos).")
def every_pair_is_turned(submission, rng):
    x, positions = draw(rng, 5, 8), torch.tensor([2, 0, 7, 3, 11])
    assert_close(submission.rotate(x, positions), rotate(x, positions), what="rotate(x, positions)", atol=1e-4)


@rubric.test("rotary", points=1, visible=True, hint="Turn both sides, each by its own positions.", needs=("rotate",))
def weights_come_from_turned_vectors(submission, rng):
    query, key = draw(rng, 3, 6), draw(rng, 5, 6)
    places = torch.tensor([9, 4, 6]), torch.tensor([1, 3, 2, 8, 5])
    got, want = submission.rotary_weights(query, key, *places), rotary_weights(query, key, *places)
    assert_close(got, want, what="the weights", atol=1e-4)


@rubric.given
class Weights:
    """Functions from positions to attention weights: one that knows distances only, and two that know more."""

    def __init__(self, rng):
        self.query, self.key, self.strength = draw(rng, 6, 4), draw(rng, 6, 4), draw(rng, 4)

    def relative(self, positions):
        distances = positions[:, None] - positions  # (T, T)
        return (self.query @ self.key.T - 0.3 * distances.abs()).softmax(-1)

    def added(self, positions):
        extra = torch.tanh(0.1 * positions[:, None] * self.strength)  # (T, 4)
        return ((self.query + extra) @ (self.key + extra).T).softmax(-1)

    def falling(self, positions):
        """Its numbers only ever fall as positions grow."""
        return -positions[:, None] * self.strength.abs()


@rubric.test(
    "rotary", points=2, visible=True, hint="weights(positions + shift) against weights(positions), for every shift."
)
def gap_is_the_largest_change(submission, rng):
    zoo, positions = Weights(rng), torch.arange(6)
    for weights, shifts in ((zoo.added, (1, 40, 2)), (zoo.falling, (5, 3)), (zoo.falling, (2, 3))):
        got, want = submission.shift_gap(weights, positions, shifts), shift_gap(weights, positions, shifts)
        assert_close(got, want, what="the gap of weights that are not relative", rtol=1e-3, atol=1e-4)


@rubric.test("rotary", points=1, visible=True, hint="Weights that depend on distances only have no gap.")
def gap_of_relative_weights_is_rounding(submission, rng):
    zoo, positions, shifts = Weights(rng), torch.arange(6), (1, 13, 50)
    want = shift_gap(zoo.added, positions, shifts)
    assert_close(submission.shift_gap(zoo.added, positions, shifts), want, what="the gap of added positions", rtol=1e-3)
    got = submission.shift_gap(zoo.relative, positions, shifts)
    assert_close(got, 0.0, what="the gap of weights that know distances only", atol=1e-4)


@rubric.test(
    "rotary",
    points=1,
    visible=False,
    topic="batches, base, gradients",
    hint="Leading axes, another base, and gradients.",
)
def rotation_takes_batches_and_gives_gradients(submission, rng):
    x, upstream = draw(rng, 2, 3, 5, 6), draw(rng, 2, 3, 5, 6)
    positions = torch.randint(0, 60, (5,), generator=rng)
    got = submission.rotate.gradients(x, positions, 70.0, upstream=upstream)
    want = rubric.solution.rotate.gradients(x, positions, 70.0, upstream=upstream)
    assert_close(got, want, rtol=1e-3, atol=1e-3)


@rubric.test(
    "rotary", points=1, visible=False, topic="batches", hint="Queries and keys in batches and heads.", needs=("rotate",)
)
def weights_take_batches(submission, rng):
    query, key = draw(rng, 2, 3, 4, 6), draw(rng, 2, 3, 5, 6)
    places = torch.arange(10, 14), torch.arange(5)
    got, want = submission.rotary_weights(query, key, *places), rotary_weights(query, key, *places)
    assert_close(got, want, what="the weights", atol=1e-4)
