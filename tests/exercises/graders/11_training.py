"""Exercise set 11, training: what is asked, how it is tested, and the mistakes it can name."""

import math

import torch

from lecturelib.grading import Rubric, assert_close, draw
from lecturelib.training import Cosine, Noam, rectification

rubric = Rubric("11_training", title="Training transformers")
rubric.exercise("schedule", title="Warm up, then fall", minutes=15, difficulty=2, defines=("noam", "warmup_cosine"))
rubric.exercise(
    "rectify", title="RAdam's rectification", minutes=25, difficulty=3, defines=("effective_length", "rectify", "radam")
)
rubric.exercise(
    "accumulate", title="Small batches that make a large one", minutes=20, difficulty=3, defines=("accumulate",)
)
rubric.exercise(
    "clip", title="Unscale, then clip", minutes=20, difficulty=3, defines=("unscale_and_clip", "next_scale")
)


# 1. Schedules


@rubric.reference
def noam(step, d_model, warmup):
    return Noam(d_model=d_model, warmup=warmup)(step - 1)


@rubric.reference
def warmup_cosine(step, steps, warmup, floor):
    return Cosine(steps=steps, warmup=warmup, floor=floor)(step)


@rubric.mistake("noam", "The larger of the two lines grows without end. The rate is the smaller one: min, not max.")
def noam_takes_the_larger(step, d_model, warmup):
    return d_model**-0.5 * max(step**-0.5, step * warmup**-1.5)


@rubric.mistake("noam", "The width is missing: multiply by d_model to the power −1/2.")
def noam_without_the_width(step, d_model, warmup):
    return min(step**-0.5, step * warmup**-1.5)


@rubric.mistake("noam", "You multiply by √d_model. Wide models get a *smaller* rate: the power is −1/2.")
def noam_grows_with_the_width(step, d_model, warmup):
    return d_model**0.5 * min(step**-0.5, step * warmup**-1.5)


@rubric.mistake(
    "noam",
    "Both lines must meet at step = warmup. With warmup to the power −1 they don't: it is −3/2, for s · w^(−3/2).",
)
def noam_that_jumps(step, d_model, warmup):
    return d_model**-0.5 * min(step**-0.5, step / warmup)


@rubric.mistake("noam", "Steps count from 1 here: the first step is 1 already, so add nothing to it.")
def noam_from_zero(step, d_model, warmup):
    return noam(step + 1, d_model, warmup)


def cosine_by(step, steps, warmup, floor, *, rise, progress):
    if step < warmup:
        return rise
    return floor + (1 - floor) * (1 + math.cos(math.pi * min(1.0, progress))) / 2


@rubric.mistake(
    "warmup_cosine", "Your first step has a rate of 0, so it is wasted. Step 0 has the factor 1 / warmup: (step + 1)."
)
def wasted_first_step(step, steps, warmup, floor):
    done = (step + 1 - warmup) / (steps - warmup)
    return cosine_by(step, steps, warmup, floor, rise=step / max(1, warmup), progress=done)


@rubric.mistake(
    "warmup_cosine", "Your cosine starts at step 0, so there is a jump after the warm-up. Count from its end."
)
def cosine_from_the_start(step, steps, warmup, floor):
    return cosine_by(step, steps, warmup, floor, rise=(step + 1) / max(1, warmup), progress=(step + 1) / steps)


@rubric.mistake("warmup_cosine", "Yours falls to 0. It must end at the floor: floor + (1 − floor) · wave.")
def no_floor(step, steps, warmup, floor):
    return warmup_cosine(step, steps, warmup, 0.0)


@rubric.mistake(
    "warmup_cosine", "You add the floor on top, so the peak is above 1. The wave has only 1 − floor to fall."
)
def floor_on_top(step, steps, warmup, floor):
    if step < warmup:
        return warmup_cosine(step, steps, warmup, floor)
    return floor + warmup_cosine(step, steps, warmup, 0.0)


@rubric.mistake("warmup_cosine", "After the last step your rate rises again. Hold the progress at 1.")
def rises_again(step, steps, warmup, floor):
    if step < steps:
        return warmup_cosine(step, steps, warmup, floor)
    return floor + (1 - floor) * (1 + math.cos(math.pi * (step + 1 - warmup) / (steps - warmup))) / 2


@rubric.test("schedule", points=1, visible=True, hint="Two lines, s^(−1/2) and s · w^(−3/2); the smaller one counts.")
def noam_rises_and_falls(submission, rng):
    for step in (1, 3, 10, 40, 100):
        assert_close(submission.noam(step, 64, 10), noam(step, 64, 10), what=f"the rate at step {step}")


@rubric.test("schedule", points=1, visible=True, hint="(step + 1) / warmup first; then half a cosine from 1 to floor.")
def cosine_rises_and_falls(submission, rng):
    for step in (0, 3, 9, 10, 25, 49):
        want = warmup_cosine(step, 50, 10, 0.1)
        assert_close(submission.warmup_cosine(step, 50, 10, 0.1), want, what=f"the factor at step {step}")


@rubric.test(
    "schedule",
    points=1,
    visible=False,
    topic="the ends",
    hint="Try no warm-up, and a step after the last one.",
)
def schedules_at_their_ends(submission, rng):
    for step in (1, 399, 400, 401, 9000):
        assert_close(1e3 * submission.noam(step, 512, 400), 1e3 * noam(step, 512, 400), what=f"the rate at step {step}")
    for step, steps, warmup, floor in ((0, 20, 0, 0.2), (7, 20, 0, 0.0), (19, 20, 5, 0.3), (25, 20, 5, 0.3)):
        want = warmup_cosine(step, steps, warmup, floor)
        assert_close(submission.warmup_cosine(step, steps, warmup, floor), want, what=f"the factor at step {step}")


# 2. Rectification


@rubric.reference
def effective_length(step, beta2):
    longest = 2 / (1 - beta2) - 1
    return longest - 2 * step * beta2**step / (1 - beta2**step)


@rubric.reference
def rectify(step, beta2):
    return rectification(step, beta2) or 0.0


def radam_by(weight, gradients, lr, beta1, beta2, *, factor=rectify, first=None, eps=1e-8):
    weight, mean, square = weight.clone(), torch.zeros_like(weight), torch.zeros_like(weight)
    for step, gradient in enumerate(gradients, 1):
        mean = beta1 * mean + (1 - beta1) * gradient
        square = beta2 * square + (1 - beta2) * gradient**2
        corrected = mean / (1 - beta1**step)
        if (r := factor(step, beta2)) > 0:
            weight = weight - lr * r * corrected / ((square / (1 - beta2**step)).sqrt() + eps)
        elif first is None:
            weight = weight - lr * corrected
        else:
            weight = first(weight, corrected, square / (1 - beta2**step))
    return weight


@rubric.reference
def radam(weight, gradients, lr, beta1, beta2):
    return radam_by(weight, gradients, lr, beta1, beta2)


@rubric.mistake(
    "effective_length", "You return the longest length, which is only reached in the end. Subtract the rest."
)
def only_the_longest(step, beta2):
    return 2 / (1 - beta2) - 1


@rubric.mistake("effective_length", "A step t is missing: the second term is 2 t β₂ᵗ / (1 − β₂ᵗ).")
def without_the_step(step, beta2):
    return 2 / (1 - beta2) - 1 - 2 * beta2**step / (1 - beta2**step)


@rubric.mistake("effective_length", "The longest length is 2 / (1 − β₂) − 1; you leave out the −1.")
def longest_without_one(step, beta2):
    return effective_length(step, beta2) + 1


@rubric.mistake("rectify", "That is r², the ratio of the variances. The factor is its square root.")
def without_the_root(step, beta2):
    return rectify(step, beta2) ** 2


@rubric.mistake("rectify", "Upside down: the factor is below 1 at the start and *rises* to 1.")
def upside_down(step, beta2):
    factor = rectify(step, beta2)
    return 1 / factor if factor else 0.0


@rubric.mistake("rectify", "Return 0 while the length is 5 or less: there the formula means nothing.")
def never_waits(step, beta2):
    longest, length = 2 / (1 - beta2) - 1, effective_length(step, beta2)
    ratio = (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)
    return max(0.0, ratio) ** 0.5 if length > 4 else (1.0 if length <= 0 else abs(ratio) ** 0.5)


@rubric.mistake("rectify", "You wait until the length is above 4. Here, as in torch, it must be above 5.")
def waits_for_four(step, beta2):
    longest, length = 2 / (1 - beta2) - 1, effective_length(step, beta2)
    if length <= 4:
        return 0.0
    return ((length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)) ** 0.5


@rubric.mistake("radam", "This is Adam: the first steps divide by √v̂ already, and nothing is rectified.")
def plain_adam(weight, gradients, lr, beta1, beta2):
    return radam_by(weight, gradients, lr, beta1, beta2, factor=lambda step, beta2: 1.0)


@rubric.mistake(
    "radam", "You stand still while the factor is 0. In those steps, move by the learning rate times m̂, without √v̂."
)
def stands_still(weight, gradients, lr, beta1, beta2):
    return radam_by(weight, gradients, lr, beta1, beta2, first=lambda weight, mean, square: weight)


@rubric.mistake("radam", "You use m as it is. Divide it by 1 − β₁ᵗ first, or the first steps are too small.")
def biased_mean(weight, gradients, lr, beta1, beta2):
    weight, mean, square = weight.clone(), torch.zeros_like(weight), torch.zeros_like(weight)
    for step, gradient in enumerate(gradients, 1):
        mean = beta1 * mean + (1 - beta1) * gradient
        square = beta2 * square + (1 - beta2) * gradient**2
        factor = rectify(step, beta2)
        root = (square / (1 - beta2**step)).sqrt() + 1e-8 if factor else 1.0
        weight = weight - lr * (factor or 1.0) * mean / root
    return weight


@rubric.mistake("radam", "You write into the weights that you were given. They stay as they are: return new ones.")
def writes_into_the_weights(weight, gradients, lr, beta1, beta2):
    return weight.copy_(radam(weight, gradients, lr, beta1, beta2))


@rubric.mistake("radam", "You walk uphill: subtract the step.")
def uphill(weight, gradients, lr, beta1, beta2):
    return radam(weight, gradients, -lr, beta1, beta2)


@rubric.test(
    "rectify", points=1, visible=True, hint="ρ = longest − 2 t β₂ᵗ / (1 − β₂ᵗ), with longest = 2 / (1 − β₂) − 1."
)
def length_of_the_memory(submission, rng):
    for step, beta2 in ((1, 0.9), (3, 0.99), (50, 0.99)):
        got, want = submission.effective_length(step, beta2), effective_length(step, beta2)
        assert_close(got, want, what=f"the length after {step} steps", rtol=1e-3, atol=1e-3)


@rubric.test(
    "rectify",
    points=1,
    visible=True,
    hint="0 while the length is at most 5, then a square root.",
    needs=("effective_length",),
)
def factor_of_a_step(submission, rng):
    for step in (1, 2, 5, 6, 10, 100):
        got, want = submission.rectify(step, 0.99), rectify(step, 0.99)
        assert_close(got, want, what=f"the factor of step {step}", rtol=1e-3, atol=1e-4)


@rubric.test(
    "rectify",
    points=1,
    visible=True,
    hint="Momentum while the factor is 0, then Adam's step times it.",
    needs=("effective_length", "rectify"),
)
def walks_as_radam(submission, rng):
    weight, gradients = draw(rng, 4), draw(rng, 12, 4)
    got, want = submission.radam(weight, gradients, 0.1, 0.9, 0.99), radam(weight, gradients, 0.1, 0.9, 0.99)
    assert_close(got, want, what="the weights", rtol=1e-3, atol=1e-4)
    left = submission.radam.arguments_after(weight, gradients, 0.1, 0.9, 0.99)
    assert_close(left[0], weight, what="the weights that were given, after the call")


@rubric.test(
    "rectify",
    points=1,
    visible=False,
    topic="other betas, small gradients",
    hint="Try β₂ = 0.95 and 0.999, two steps and thirty, gradients of 10⁻⁴, and a weight whose gradient is always 0.",
    needs=("effective_length", "rectify"),
)
def walks_with_other_betas(submission, rng):
    for beta1, beta2, steps, size in (
        (0.8, 0.95, 30, 1),
        (0.8, 0.95, 20, 1e-4),
        (0.9, 0.999, 2, 1),
        (0.9, 0.999, 8, 1),
    ):
        weight, gradients = draw(rng, 3, 2), size * draw(rng, steps, 3, 2)
        gradients[:, 0, 1] = 0  # a weight that nothing moves
        got, want = (
            submission.radam(weight, gradients, 0.05, beta1, beta2),
            radam(weight, gradients, 0.05, beta1, beta2),
        )
        assert_close(got, want, what="the weights", rtol=1e-3, atol=1e-4)


# 3. Accumulation


def gradient_sums(weight, x, y, lengths, *, real=True):
    """The gradient of the summed squared errors of each small batch: (K, D)."""
    mask = torch.arange(x.shape[1]) < lengths[:, None] if real else torch.ones(x.shape[:2], dtype=torch.bool)
    errors = (x @ weight - y) * mask  # (K, N)
    return 2 * (errors[..., None] * x).sum(dim=1)


@rubric.reference
def accumulate(weight, x, y, lengths):
    return gradient_sums(weight, x, y, lengths).sum(dim=0) / lengths.sum()


@rubric.mistake(
    "accumulate",
    "You average the means of the batches, so an example in a short batch counts for more. Weigh each by its length.",
)
def mean_of_means(weight, x, y, lengths):
    return (gradient_sums(weight, x, y, lengths) / lengths[:, None]).mean(dim=0)


@rubric.mistake("accumulate", "You add the means of the batches: your gradient is about K times too long.")
def sum_of_means(weight, x, y, lengths):
    return (gradient_sums(weight, x, y, lengths) / lengths[:, None]).sum(dim=0)


@rubric.mistake(
    "accumulate", "You never divide: this is the gradient of the sum. Divide by the number of real examples."
)
def never_divides(weight, x, y, lengths):
    return gradient_sums(weight, x, y, lengths).sum(dim=0)


@rubric.mistake("accumulate", "Padding is counted as examples. Only the first lengths[k] rows of batch k are real.")
def counts_padding(weight, x, y, lengths):
    return gradient_sums(weight, x, y, lengths, real=False).sum(dim=0) / (x.shape[0] * x.shape[1])


@rubric.mistake("accumulate", "You leave padding out of the sum, but divide by it: divide by lengths.sum().")
def divides_by_all_rows(weight, x, y, lengths):
    return gradient_sums(weight, x, y, lengths).sum(dim=0) / (x.shape[0] * x.shape[1])


@rubric.mistake("accumulate", "Only the last batch is left: add to the gradient, don't replace it.")
def only_the_last(weight, x, y, lengths):
    return gradient_sums(weight, x, y, lengths)[-1] / lengths[-1]


@rubric.mistake("accumulate", "The factor 2 of the square's derivative is missing.")
def without_the_two(weight, x, y, lengths):
    return accumulate(weight, x, y, lengths) / 2


@rubric.mistake("accumulate", "You divide by the total once more than you should, by the number of batches.")
def divides_twice(weight, x, y, lengths):
    return accumulate(weight, x, y, lengths) / len(lengths)


def small_batches(rng, lengths, d_model):
    count, width = len(lengths), max(lengths)
    return draw(rng, d_model), draw(rng, count, width, d_model), draw(rng, count, width), torch.tensor(lengths)


@rubric.test("accumulate", points=2, visible=True, hint="Add up sums, and divide once, by all real examples.")
def equals_the_large_batch(submission, rng):
    for lengths in ((4, 4, 4), (5, 1, 3)):
        given = small_batches(rng, lengths, 2)
        assert_close(submission.accumulate(*given), accumulate(*given), what="the gradient", rtol=1e-3, atol=1e-4)


@rubric.test(
    "accumulate",
    points=1,
    visible=False,
    topic="an empty batch",
    hint="Try one batch, and one without a real example.",
)
def equals_it_with_an_empty_batch(submission, rng):
    for lengths in ((3,), (2, 0, 6, 1)):
        given = small_batches(rng, lengths, 4)
        assert_close(submission.accumulate(*given), accumulate(*given), what="the gradient", rtol=1e-3, atol=1e-4)


# 4. Clipping under loss scaling


def norm_of(gradients):
    return torch.sqrt(sum((gradient**2).sum() for gradient in gradients))


@rubric.reference
def unscale_and_clip(gradients, scale, max_norm):
    unscaled = [gradient / scale for gradient in gradients]
    norm = norm_of(unscaled)
    factor = (max_norm / norm.clamp(min=1e-12)).clamp(max=1.0)
    return [gradient * factor for gradient in unscaled], norm


@rubric.reference
def next_scale(scale, good_steps, is_finite, interval):
    if not is_finite:
        return scale / 2, 0
    return (scale * 2, 0) if good_steps + 1 == interval else (scale, good_steps + 1)


@rubric.mistake(
    "unscale_and_clip",
    "You clip first and unscale afterwards: the step becomes smaller by the whole scale. Unscale first.",
)
def clips_the_scaled(gradients, scale, max_norm):
    norm = norm_of(gradients)
    return [gradient * (max_norm / norm).clamp(max=1.0) / scale for gradient in gradients], norm


@rubric.mistake("unscale_and_clip", "The scale is still in your gradients: divide by it.")
def never_unscales(gradients, scale, max_norm):
    return unscale_and_clip([gradient * scale for gradient in gradients], scale, max_norm)


@rubric.mistake("unscale_and_clip", "You multiply by the scale; it was multiplied in already. Divide.")
def multiplies(gradients, scale, max_norm):
    return unscale_and_clip([gradient * scale * scale for gradient in gradients], scale, max_norm)


@rubric.mistake("unscale_and_clip", "Each tensor is clipped by its own norm. One norm over all, one factor for all.")
def one_by_one(gradients, scale, max_norm):
    clipped = [unscale_and_clip([gradient], scale, max_norm)[0][0] for gradient in gradients]
    return clipped, norm_of(gradients) / scale


@rubric.mistake("unscale_and_clip", "A short gradient must stay as it is; yours is stretched. The factor is at most 1.")
def stretches(gradients, scale, max_norm):
    norm = norm_of(gradients) / scale
    return [gradient / scale * max_norm / norm for gradient in gradients], norm


@rubric.mistake("unscale_and_clip", "Return the norm from before clipping, without the scale.")
def norm_after(gradients, scale, max_norm):
    clipped, _ = unscale_and_clip(gradients, scale, max_norm)
    return clipped, norm_of(clipped)


@rubric.mistake("next_scale", "The scale grows after *every* good step. Wait for `interval` of them in a row.")
def grows_at_once(scale, good_steps, is_finite, interval):
    return (scale * 2, 0) if is_finite else (scale / 2, 0)


@rubric.mistake("next_scale", "After an overflow the count starts again from 0.")
def keeps_counting(scale, good_steps, is_finite, interval):
    return next_scale(scale, good_steps, is_finite, interval) if is_finite else (scale / 2, good_steps)


@rubric.mistake("next_scale", "Yours grows one step late: this good step counts too.")
def one_step_late(scale, good_steps, is_finite, interval):
    if not is_finite:
        return scale / 2, 0
    return (scale * 2, 0) if good_steps == interval else (scale, good_steps + 1)


@rubric.mistake("next_scale", "Overflow means the scale was too *large*: halve it.")
def wrong_way(scale, good_steps, is_finite, interval):
    return next_scale(scale, good_steps, is_finite, interval) if is_finite else (scale * 2, 0)


@rubric.mistake("next_scale", "Once the scale has grown, the count starts again from 0.")
def goes_on_counting(scale, good_steps, is_finite, interval):
    scale, count = next_scale(scale, good_steps, is_finite, interval)
    return scale, good_steps + 1 if is_finite and not count else count


def assert_clips(submission, gradients, scale, max_norm):
    got, want = (answer.unscale_and_clip(gradients, scale, max_norm) for answer in (submission, rubric.solution))
    assert_close(got, want, what=("the gradients", "the norm"), rtol=1e-3, atol=1e-4)


@rubric.test(
    "clip", points=1, visible=True, hint="Divide all by the scale; then one norm, and one factor of at most 1."
)
def unscales_and_clips(submission, rng):
    assert_clips(submission, [30 * draw(rng, 3, 2), 20 * draw(rng, 4)], 8.0, 1.5)
    assert_clips(submission, [draw(rng, 3, 2), draw(rng, 4)], 8.0, 1.5)


@rubric.test("clip", points=1, visible=True, hint="Halve on overflow; double after `interval` good steps in a row.")
def moves_the_scale(submission, rng):
    for given in ((1024.0, 3, False, 5), (1024.0, 3, True, 5), (1024.0, 4, True, 5), (64.0, 0, True, 1)):
        assert_close(submission.next_scale(*given), next_scale(*given), what=("the scale", "the count"))


@rubric.test(
    "clip",
    points=1,
    visible=False,
    topic="other scales",
    hint="Try gradients of zero, very short ones with a small bound, a scale of 1 and of 65,536.",
)
def clips_at_other_scales(submission, rng):
    assert_clips(submission, [torch.zeros(2, 3), torch.zeros(5)], 4.0, 1.0)
    assert_clips(submission, [draw(rng, 5), draw(rng, 2, 2), draw(rng, 3)], 1.0, 0.5)
    assert_clips(submission, [draw(rng, 5) / 8, draw(rng, 3) / 8], 2.0, 0.01)
    assert_clips(submission, [65536 * draw(rng, 5), 65536 * draw(rng, 2)], 65536.0, 10.0)
    for given in ((2.0, 0, False, 3), (2.0, 1, True, 3), (2.0, 2, True, 3)):
        assert_close(submission.next_scale(*given), next_scale(*given), what=("the scale", "the count"))
