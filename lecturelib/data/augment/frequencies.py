"""Coarse and fine: pictures split by frequency, and HAT's augmentation, which changes the fine part to mislead."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from lecturelib.data.augment.draws import uniform


class Bands(NamedTuple):
    """The coarse and the fine part of pictures; they add up to them."""

    low: Tensor
    high: Tensor


def split_frequencies(images: Tensor, radius: int) -> Bands:
    """Keep the waves with at most `radius` periods across and down the picture; the rest is the fine part.

    Paper: Bai et al. 2022 [bai2022improving], their frequency analysis.
    Differs: nothing is known to; the authors' released code holds no filter to compare with. Ours keeps a square of
    frequencies, not a disc.

    Args:
        images: (..., height, width)
        radius: 0 keeps the mean alone; half the side keeps everything

    Shapes: -> two of (..., height, width)
    """
    if radius < 0:
        raise ValueError(f"radius must be 0 or more, got {radius}")
    if not images.is_floating_point():
        raise ValueError(f"images must be real numbers, such as Images.scaled() gives, got {images.dtype}")
    if not images.numel():
        return Bands(images.clone(), images.clone())  # the transform takes no empty batch
    height, width = images.shape[-2:]
    down = torch.fft.fftfreq(height, 1 / height, device=images.device).abs() <= radius  # (height,)
    across = torch.fft.rfftfreq(width, 1 / width, device=images.device) <= radius  # (width // 2 + 1,)
    spectrum = torch.fft.rfft2(images.float()) * (down[:, None] & across)
    low = torch.fft.irfft2(spectrum, s=(height, width)).to(images.dtype)
    return Bands(low, images - low)


def high_frequency_adversary(
    images: Tensor,
    loss: Callable[[Tensor], Tensor],
    *,
    radius: int,
    strength: float = 2 / 255,
    steps: int = 3,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Change the fine part of the pictures so that the loss rises: HAT's augmentation for vision transformers.

        harder = high_frequency_adversary(images, lambda x: F.cross_entropy(model(x), targets), radius=8)

    Vision transformers neglect fine detail. Trained on pictures whose fine part works against them, beside the plain
    ones, they learn to read it.

    Paper: Bai et al. 2022 [bai2022improving]; strength and steps are the defaults of the authors' released code.
    Differs: the change is put through the filter, so that no coarse part of it is left (its fine part may exceed
    `strength` a little where the filter rings). The authors' released training code has no filter: it starts from no
    change, steps by the sign of the gradient, raises cross-entropy plus a small symmetric KL term, and trains the
    model on the pictures of every step. strength 0 changes nothing.

    Args:
        images: (B, channels, height, width)
        loss: images -> a number to raise; its gradient is taken with respect to the images alone, not to parameters
        radius: waves up to here are left alone, see `split_frequencies`
        strength: most that a pixel changes, before the filter
        steps: of gradient ascent by sign
        generator: for the same random start again

    Shapes: -> the same
    """
    if strength < 0 or steps < 1:
        raise ValueError(f"strength must be 0 or more and steps at least 1, got {strength} and {steps}")
    if strength == 0:
        return images
    change = (2 * uniform(tuple(images.shape), images, generator) - 1).to(images.dtype) * strength
    for _ in range(steps):
        change = change.detach().requires_grad_()
        with torch.enable_grad():
            raised = loss(images.detach() + split_frequencies(change, radius).high)
            (gradient,) = torch.autograd.grad(raised, change)
        change = (change.detach() + 2 * strength / steps * gradient.sign()).clamp(-strength, strength)
    return images + split_frequencies(change, radius).high
