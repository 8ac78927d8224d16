"""Exercise set 13, scaling: what is asked, how it is tested, and the mistakes it can name."""

import math

import torch

from lecturelib.evaluation import decoder_parameters, fit_power_law, iso_flop_minimum, kv_cache_bytes
from lecturelib.grading import Rubric, assert_close, draw

rubric = Rubric("13_scaling", title="Scaling laws and costs")
rubric.exercise(
    "count", title="Parameters and cache", minutes=20, difficulty=2, defines=("gpt_parameters", "cache_bytes")
)
rubric.exercise("compute", title="Six N D", minutes=10, difficulty=1, defines=("training_flops", "training_days"))
rubric.exercise("law", title="Fit a law", minutes=25, difficulty=3, defines=("fit_law", "best_floor"))
rubric.exercise("valley", title="The best size of a budget", minutes=20, difficulty=3, defines=("best_size",))
rubric.exercise("spend", title="Spend a budget", minutes=20, difficulty=3, defines=("spend",))
rubric.exercise("route", title="Room in the experts", minutes=25, difficulty=4, defines=("route", "balance"))

SMALL = (100, 16, 12, 3)  # vocabulary, positions, width, layers
DAY = 24 * 3600


# 1. Parameters and cache


@rubric.reference
def gpt_parameters(vocab_size, max_len, d_model, num_layers):
    return decoder_parameters(vocab_size=vocab_size, max_len=max_len, d_model=d_model, num_layers=num_layers)


@rubric.reference
def cache_bytes(num_layers, num_kv_heads, head_dim, batch, length, number_bytes):
    sizes = {"num_layers": num_layers, "num_heads": num_kv_heads, "head_dim": head_dim}
    return kv_cache_bytes(**sizes, batch=batch, length=length, dtype=torch.int8) * number_bytes


@rubric.mistake(
    "gpt_parameters", "The biases are missing: four of width D in attention, one of 4D and one of D after it."
)
def without_biases(vocab_size, max_len, d_model, num_layers):
    return gpt_parameters(vocab_size, max_len, d_model, num_layers) - num_layers * 9 * d_model


@rubric.mistake("gpt_parameters", "You count a head of its own. The head is the embedding matrix: count it once.")
def with_a_head(vocab_size, max_len, d_model, num_layers):
    return gpt_parameters(vocab_size, max_len, d_model, num_layers) + vocab_size * d_model


@rubric.mistake("gpt_parameters", "The table of positions, one vector for each of max_len positions, is missing.")
def without_positions(vocab_size, max_len, d_model, num_layers):
    return gpt_parameters(vocab_size, max_len, d_model, num_layers) - max_len * d_model


@rubric.mistake("gpt_parameters", "The norm after the last block is missing: a gain and a bias, 2D in all.")
def without_the_last_norm(vocab_size, max_len, d_model, num_layers):
    return gpt_parameters(vocab_size, max_len, d_model, num_layers) - 2 * d_model


@rubric.mistake(
    "gpt_parameters",
    "You miss 4D a block. So many numbers are in its two norms, each with a gain and a bias, and so many are in the "
    "bias of the wide layer.",
)
def without_the_norms_of_blocks(vocab_size, max_len, d_model, num_layers):
    return gpt_parameters(vocab_size, max_len, d_model, num_layers) - num_layers * 4 * d_model


@rubric.mistake(
    "gpt_parameters", "Attention has four matrices: queries, keys, values, and the one that joins the heads."
)
def three_matrices(vocab_size, max_len, d_model, num_layers):
    return gpt_parameters(vocab_size, max_len, d_model, num_layers) - num_layers * (d_model**2 + d_model)


@rubric.mistake("cache_bytes", "Keys *and* values are kept: twice as many numbers.")
def keys_alone(num_layers, num_kv_heads, head_dim, batch, length, number_bytes):
    return cache_bytes(num_layers, num_kv_heads, head_dim, batch, length, number_bytes) // 2


@rubric.mistake("cache_bytes", "You count one layer. Every layer keeps its own keys and values.")
def one_layer(num_layers, num_kv_heads, head_dim, batch, length, number_bytes):
    return cache_bytes(1, num_kv_heads, head_dim, batch, length, number_bytes)


@rubric.mistake("cache_bytes", "Those are numbers, not bytes: multiply by number_bytes.")
def numbers_not_bytes(num_layers, num_kv_heads, head_dim, batch, length, number_bytes):
    return cache_bytes(num_layers, num_kv_heads, head_dim, batch, length, 1)


@rubric.mistake("cache_bytes", "The cache does not hold the T × T map. It grows with the length, not with its square.")
def the_square(num_layers, num_kv_heads, head_dim, batch, length, number_bytes):
    return cache_bytes(num_layers, num_kv_heads, head_dim, batch, length, number_bytes) * length


@rubric.test(
    "count",
    points=1,
    visible=True,
    hint="Embedding, positions, then for each block: attention, feed-forward net, two norms.",
)
def a_small_gpt(submission, rng):
    assert_close(submission.gpt_parameters(*SMALL), gpt_parameters(*SMALL), what="the number of parameters")


@rubric.test("count", points=1, visible=True, hint="Keys and values, for every layer, head, text and token.")
def a_small_cache(submission, rng):
    sizes = (3, 5, 8, 7, 11, 4)  # no two alike, and no 2: a factor that is missing shows which it is
    assert_close(submission.cache_bytes(*sizes), cache_bytes(*sizes), what="the number of bytes")


@rubric.test(
    "count",
    points=1,
    visible=False,
    topic="real models",
    hint="GPT-2 has 124,439,808, 354,823,168, …",
    noise=1e-7,  # counts are exact
)
def real_models(submission, rng):
    for d_model, num_layers in ((768, 12), (1024, 24), (1600, 48)):
        sizes = (50_257, 1024, d_model, num_layers)
        assert_close(
            submission.gpt_parameters(*sizes), gpt_parameters(*sizes), what="the number of parameters", rtol=1e-7
        )
    for sizes in ((30, 3, 64, 1, 2048, 4), (1, 1, 1, 1, 1, 1), (12, 12, 64, 2, 0, 2), (2, 3, 16, 5, 9, 4)):
        assert_close(submission.cache_bytes(*sizes), cache_bytes(*sizes), what="the number of bytes")


# 2. Six N D


@rubric.reference
def training_flops(parameters, tokens):
    return 6 * parameters * tokens


@rubric.reference
def training_days(parameters, tokens, gpus, peak, utilisation):
    return 6 * parameters * tokens / (gpus * peak * utilisation) / DAY


@rubric.mistake("training_flops", "2 N D is the forward pass alone. The backward pass costs twice as much again.")
def forward_alone(parameters, tokens):
    return 2 * parameters * tokens


@rubric.mistake("training_flops", "4 N D is the backward pass alone. Add the forward pass, 2 N D.")
def backward_alone(parameters, tokens):
    return 4 * parameters * tokens


@rubric.mistake("training_flops", "3 N D counts a multiplication and its addition as one operation. They are two.")
def macs(parameters, tokens):
    return 3 * parameters * tokens


@rubric.mistake("training_days", "Those are hours. A day has 24 of them.")
def hours(parameters, tokens, gpus, peak, utilisation):
    return 24 * training_days(parameters, tokens, gpus, peak, utilisation)


@rubric.mistake("training_days", "Those are seconds. A day has 86,400 of them.")
def seconds(parameters, tokens, gpus, peak, utilisation):
    return DAY * training_days(parameters, tokens, gpus, peak, utilisation)


@rubric.mistake("training_days", "No GPU reaches its peak: multiply the peak by the utilisation.")
def at_the_peak(parameters, tokens, gpus, peak, utilisation):
    return training_days(parameters, tokens, gpus, peak, 1.0)


@rubric.mistake("training_days", "A utilisation of 0.4 makes the training *longer*: divide by it.")
def shorter_when_idle(parameters, tokens, gpus, peak, utilisation):
    return training_days(parameters, tokens, gpus, peak, 1 / utilisation)


@rubric.test("compute", points=1, visible=True, hint="2 N a token forward, 4 N backward.")
def flops_of_a_training(submission, rng):
    assert_close(submission.training_flops(1000, 50), 300_000, what="the number of operations")


@rubric.test(
    "compute",
    points=1,
    visible=True,
    hint="Operations, divided by those a second, divided by 86,400.",
    needs=("training_flops",),
)
def days_of_a_training(submission, rng):
    given = (1e9, 2e10, 8, 3e14, 0.4)
    assert_close(submission.training_days(*given), training_days(*given), what="the number of days")


@rubric.test(
    "compute", points=1, visible=False, topic="other machines", hint="Try one GPU, and many.", needs=("training_flops",)
)
def other_machines(submission, rng):
    for given in ((1.3e9, 2.6e10, 512, 3.12e14, 0.35), (7e10, 1.4e12, 2048, 1e15, 0.5), (1e6, 1e7, 1, 5e10, 0.9)):
        assert_close(submission.training_days(*given), training_days(*given), what="the number of days")


@rubric.test("compute", points=1, visible=False, topic="other trainings", hint="Six operations, whatever the sizes.")
def other_trainings(submission, rng):
    for parameters, tokens in ((7, 11), (1.3e9, 2.6e10), (175e9, 300e9)):
        assert_close(
            submission.training_flops(parameters, tokens), 6 * parameters * tokens, what="the number of operations"
        )


# 3. Fit a law


@rubric.reference
def fit_law(sizes, losses, floor):
    factor, exponent = fit_power_law(sizes.tolist(), (losses - floor).tolist())
    return factor, -exponent


def error_of(sizes, losses, floor):
    factor, exponent = fit_law(sizes, losses, floor)
    return float((torch.log(losses - floor) - torch.log(factor * sizes**-exponent)).square().sum())


@rubric.reference
def best_floor(sizes, losses, floors):
    errors = [error_of(sizes, losses, float(floor)) for floor in floors]
    return float(floors[errors.index(min(errors))])


@rubric.mistake("fit_law", "The floor is still in your losses. Take it away before the logarithm.")
def ignores_the_floor(sizes, losses, floor):
    return fit_law(sizes, losses, 0.0)


@rubric.mistake("fit_law", "Your exponent has the wrong sign: the loss falls as A / N^α, with α above 0.")
def negative_exponent(sizes, losses, floor):
    factor, exponent = fit_law(sizes, losses, floor)
    return factor, -exponent


@rubric.mistake("fit_law", "You return log A. The factor is A itself: take the exponential.")
def factor_as_a_logarithm(sizes, losses, floor):
    factor, exponent = fit_law(sizes, losses, floor)
    return math.log(factor), exponent


@rubric.mistake("fit_law", "The order is (A, α): the factor first, the exponent second.")
def exponent_first(sizes, losses, floor):
    return fit_law(sizes, losses, floor)[::-1]


@rubric.mistake("fit_law", "You fit a line through sizes and losses. Take the logarithm of both first.")
def a_straight_line(sizes, losses, floor):
    columns = torch.stack((torch.ones_like(sizes), sizes), dim=1)
    start, slope = torch.linalg.lstsq(columns, (losses - floor)[:, None]).solution[:, 0]
    return float(start), -float(slope)


@rubric.mistake("fit_law", "Only the first and the last point count in yours. Least squares uses them all.")
def two_points(sizes, losses, floor):
    return fit_law(sizes[[0, -1]], losses[[0, -1]], floor)


@rubric.mistake("best_floor", "That is the floor with the *largest* error. Take the smallest.")
def worst_floor(sizes, losses, floors):
    errors = [error_of(sizes, losses, float(floor)) for floor in floors]
    return float(floors[errors.index(max(errors))])


@rubric.mistake("best_floor", "That is only the largest floor offered. Fit with each, and compare the errors.")
def largest_floor(sizes, losses, floors):
    return float(floors.max())


@rubric.mistake("best_floor", "That is only the first floor offered. Fit with each, and compare the errors.")
def first_floor(sizes, losses, floors):
    return float(floors[0])


def points(rng, *, count, floor, factor, exponent, noise=0.0):
    sizes = torch.logspace(3, 6, count, dtype=torch.float64)
    bend = 1 + noise * draw(rng, count).double()
    return sizes, floor + factor * sizes**-exponent * bend


def floors_around(floor, losses):
    """Four floors below all losses; the third is the right one, the fourth the largest."""
    room = float(losses.min()) - floor
    return torch.tensor([0.9 * floor, 0.4 * floor, floor, floor + 0.4 * room], dtype=torch.float64)


@rubric.test("law", points=2, visible=True, hint="log(L − E) = log A − α log N is a straight line.")
def a_law_with_noise(submission, rng):
    sizes, losses = points(rng, count=7, floor=0.7, factor=9.0, exponent=0.3, noise=0.05)
    assert_close(submission.fit_law(sizes, losses, 0.6), fit_law(sizes, losses, 0.6), what=("A", "α"))


@rubric.test(
    "law",
    points=1,
    visible=True,
    hint="The sum of the squared distances in logarithms, for each floor.",
    needs=("fit_law",),
)
def the_floor_is_found(submission, rng):
    sizes, losses = points(rng, count=6, floor=0.7, factor=9.0, exponent=0.3)
    floors = floors_around(0.7, losses)
    assert_close(submission.best_floor(sizes, losses, floors), 0.7, what="the floor")


LAWS = ((0.5, 40.0, 0.5), (0.2, 2.0, 0.1), (0.9, 300.0, 0.8))


@rubric.test("law", points=1, visible=False, topic="other laws", hint="Other factors and exponents.")
def other_laws(submission, rng):
    for floor, factor, exponent in LAWS:
        sizes, losses = points(rng, count=5, floor=floor, factor=factor, exponent=exponent, noise=0.01)
        assert_close(submission.fit_law(sizes, losses, 0.1), fit_law(sizes, losses, 0.1), what=("A", "α"))


@rubric.test("law", points=1, visible=False, topic="other floors", hint="Floors in another order.", needs=("fit_law",))
def other_floors(submission, rng):
    for floor, factor, exponent in LAWS:
        sizes, losses = points(rng, count=8, floor=floor, factor=factor, exponent=exponent)
        floors = floors_around(floor, losses)[[2, 0, 3, 1]]
        assert_close(submission.best_floor(sizes, losses, floors), floor, what="the floor")


# 4. The best size of a budget


@rubric.reference
def best_size(sizes, losses):
    return iso_flop_minimum(sizes.tolist(), losses.tolist())


def by_parabola(x, losses):
    return torch.linalg.lstsq(torch.stack((x**2, x, torch.ones_like(x)), dim=1), losses[:, None]).solution[:, 0]


@rubric.mistake(
    "best_size", "That is the best of the sizes you tried. The lowest point of the parabola lies between them."
)
def best_of_those_tried(sizes, losses):
    place = losses.argmin()
    return float(sizes[place]), float(losses[place])


@rubric.mistake("best_size", "Your parabola is in N. It must be in log N, in which the sizes are evenly spread.")
def parabola_in_the_size(sizes, losses):
    a, b, c = by_parabola(sizes / sizes.mean(), losses)
    return float(-b / (2 * a) * sizes.mean()), float(c - b**2 / (4 * a))


@rubric.mistake("best_size", "You return log N. Take the exponential.")
def logarithm_of_the_size(sizes, losses):
    size, loss = best_size(sizes, losses)
    return math.log(size), loss


@rubric.mistake("best_size", "The lowest point of a x² + b x + c is at −b / (2a): you leave out the 2.")
def without_the_two(sizes, losses):
    a, b, c = by_parabola(sizes.log(), losses)
    x = -b / a
    return float(x.exp()), float(a * x**2 + b * x + c)


def valley(rng, count, *, noise=0.0):
    sizes = 10 ** (3 + 3 * torch.linspace(0, 1, count, dtype=torch.float64))
    middle = 4 + float(torch.rand((), generator=rng))
    losses = 1.4 + 0.3 * (sizes.log10() - middle) ** 2 + noise * draw(rng, count).double()
    return sizes, losses


@rubric.test("valley", points=2, visible=True, hint="Least squares with columns x², x and 1, where x is log N.")
def a_valley(submission, rng):
    sizes, losses = valley(rng, 6, noise=0.01)
    assert_close(submission.best_size(sizes, losses), best_size(sizes, losses), what=("the size", "the loss"))


@rubric.test("valley", points=1, visible=False, topic="few sizes", hint="Three sizes are enough, in any order.")
def few_sizes(submission, rng):
    for count in (3, 4, 9):
        sizes, losses = valley(rng, count)
        order = torch.randperm(count, generator=rng)
        got = submission.best_size(sizes[order], losses[order])
        assert_close(got, best_size(sizes, losses), what=("the size", "the loss"))


# 5. Spend a budget


@rubric.reference
def spend(flops, A, alpha, B, beta):
    size = (alpha * A / (beta * B)) ** (1 / (alpha + beta)) * (flops / 6) ** (beta / (alpha + beta))
    return size, flops / 6 / size


@rubric.mistake("spend", "N grows with the exponent of the *data*: a = β / (α + β). Yours has α above.")
def exponents_swapped(flops, A, alpha, B, beta):
    size = (alpha * A / (beta * B)) ** (1 / (alpha + beta)) * (flops / 6) ** (alpha / (alpha + beta))
    return size, flops / 6 / size


@rubric.mistake("spend", "Your N and D use up C = N D. A parameter and a token cost six operations: C = 6 N D.")
def without_the_six(flops, A, alpha, B, beta):
    return spend(6 * flops, A, alpha, B, beta)


@rubric.mistake("spend", "You split the budget evenly, N = D. The better split depends on A, B, α and β.")
def an_even_split(flops, A, alpha, B, beta):
    return (flops / 6) ** 0.5, (flops / 6) ** 0.5


@rubric.mistake("spend", "The order is (N, D): parameters first, tokens second.")
def tokens_first(flops, A, alpha, B, beta):
    return spend(flops, A, alpha, B, beta)[::-1]


@rubric.mistake(
    "spend", "Setting the two parts equal is not enough: their *slopes* must be, so α and β stand in the factor."
)
def equal_parts(flops, A, alpha, B, beta):
    size = (A / B) ** (1 / (alpha + beta)) * (flops / 6) ** (beta / (alpha + beta))
    return size, flops / 6 / size


@rubric.test("spend", points=2, visible=True, hint="Put D = C / (6N) into the law and set its derivative to zero.")
def a_budget(submission, rng):
    given = (6e12, 12.0, 0.31, 90.0, 0.36)
    assert_close(submission.spend(*given), spend(*given), what=("N", "D"))


@rubric.test("spend", points=1, visible=False, topic="published laws", hint="Try the constants of Chinchilla.")
def published_laws(submission, rng):
    for flops in (1e18, 5.76e23):
        for law in ((406.4, 0.34, 410.7, 0.28), (482.01, 0.3478, 2085.43, 0.3658)):
            assert_close(submission.spend(flops, *law), spend(flops, *law), what=("N", "D"))


# 6. Room in the experts


@rubric.reference
def route(probabilities, capacity):
    chosen = probabilities.argmax(dim=-1)
    place = torch.nn.functional.one_hot(chosen, probabilities.shape[-1]).cumsum(dim=0)
    kept = place.gather(1, chosen[:, None]).squeeze(1) <= capacity
    return chosen, kept


@rubric.reference
def balance(probabilities):
    experts = probabilities.shape[-1]
    share = torch.nn.functional.one_hot(probabilities.argmax(dim=-1), experts).float().mean(dim=0)
    return experts * (share * probabilities.mean(dim=0)).sum()


@rubric.mistake("route", "You keep the tokens with the largest probability. Room is given to the first that come.")
def the_best_first(probabilities, capacity):
    chosen = probabilities.argmax(dim=-1)
    order = probabilities.amax(dim=-1).argsort(descending=True)
    kept = torch.zeros(len(chosen), dtype=torch.bool)
    kept[order] = route(probabilities[order], capacity)[1]
    return chosen, kept


@rubric.mistake("route", "Each expert has room for `capacity` tokens; yours take one fewer: count from 1, and use ≤.")
def one_too_few(probabilities, capacity):
    return route(probabilities, capacity - 1)


@rubric.mistake("route", "Each expert has room for `capacity` tokens; yours take one more.")
def one_too_many(probabilities, capacity):
    return route(probabilities, capacity + 1)


@rubric.mistake("route", "You count all tokens together. Every expert has its own room.")
def one_queue(probabilities, capacity):
    chosen = probabilities.argmax(dim=-1)
    return chosen, torch.arange(len(chosen)) < capacity


@rubric.mistake("route", "You keep every token. An expert that is full takes no more.")
def all_are_kept(probabilities, capacity):
    return route(probabilities, len(probabilities))


@rubric.mistake("balance", "The factor E is missing: an even spread must give 1.")
def without_the_factor(probabilities):
    return balance(probabilities) / probabilities.shape[-1]


@rubric.mistake(
    "balance", "You multiply the shares with themselves. One of the two is the mean probability, which has a gradient."
)
def shares_twice(probabilities):
    experts = probabilities.shape[-1]
    share = torch.nn.functional.one_hot(probabilities.argmax(dim=-1), experts).float().mean(dim=0)
    return experts * share.square().sum()


@rubric.mistake(
    "balance", "You multiply the mean probabilities with themselves. One of the two is the share of tokens sent."
)
def means_twice(probabilities):
    return probabilities.shape[-1] * probabilities.mean(dim=0).square().sum()


def some_probabilities(rng, tokens, experts):
    return (2 * draw(rng, tokens, experts)).softmax(dim=-1)


@rubric.test("route", points=2, visible=True, hint="Count, for each token, how many before it chose the same expert.")
def tokens_find_room(submission, rng):
    probabilities = some_probabilities(rng, 14, 3)
    want = route(probabilities, 3)
    assert_close(submission.route(probabilities, 3), want, what=("the chosen experts", "which tokens are kept"))


@rubric.test("route", points=1, visible=True, hint="E Σ fᵢ Pᵢ: shares of tokens, times mean probabilities.")
def an_uneven_spread(submission, rng):
    probabilities = some_probabilities(rng, 14, 3)
    got, want = (module.balance.gradients(probabilities) for module in (submission, rubric.solution))
    assert_close(got, want, what="the loss")


@rubric.test(
    "route",
    points=1,
    visible=False,
    topic="full and empty",
    hint="All tokens to one expert; room for none; an expert that nobody chose.",
)
def full_and_empty(submission, rng):
    crowded = torch.eye(4)[torch.tensor([2, 2, 2, 0, 2])] * 0.8 + 0.05
    for capacity in (0, 1, 2, 5):
        want = route(crowded, capacity)
        assert_close(submission.route(crowded, capacity), want, what=("the chosen experts", "which tokens are kept"))
    assert_close(submission.balance(crowded), balance(crowded), what="the loss")
    for tokens, experts in ((40, 5), (3, 7)):
        probabilities = some_probabilities(rng, tokens, experts)
        assert_close(submission.balance(probabilities), balance(probabilities), what="the loss")
        want = route(probabilities, 6)
        assert_close(submission.route(probabilities, 6), want, what=("the chosen experts", "which tokens are kept"))
