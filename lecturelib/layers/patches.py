"""From images to tokens: cut into patches, and embed each."""

import torch.nn.functional as F
from torch import Tensor, nn

Size = int | tuple[int, int]


def pair(size: Size) -> tuple[int, int]:
    """A height and a width; one number is both."""
    return (size, size) if isinstance(size, int) else (size[0], size[1])


def check_images(images: Tensor, num_channels: int) -> None:
    """Raise unless `images` is a (batch, num_channels, height, width) tensor of real numbers."""
    if images.dim() != 4 or images.shape[1] != num_channels:
        raise ValueError(f"images must be (batch, {num_channels}, height, width), got {tuple(images.shape)}")
    if not images.is_floating_point():
        raise ValueError(f"images must be real numbers, such as Images.scaled() gives, got {images.dtype}")


def check_divisible(size: Size, patch_size: int, what: str = "images") -> None:
    """Raise unless whole patches cover an image of this height and width."""
    height, width = pair(size)
    if height < 1 or width < 1 or height % patch_size or width % patch_size:
        nearest = " × ".join(str(max(1, round(side / patch_size)) * patch_size) for side in (height, width))
        raise ValueError(
            f"{what} of {height} × {width} pixels cannot be cut into whole patches of {patch_size} × {patch_size}; "
            f"resize, crop or pad them, to {nearest} for instance"
        )


def pad_to_patches(images: Tensor, patch_size: int) -> Tensor:
    """Add black pixels on the right and below until whole patches cover the images.

    Shapes: (B, channels, height, width) -> (B, channels, height + less than a patch, width + less than a patch)
    """
    down, right = -images.shape[-2] % patch_size, -images.shape[-1] % patch_size
    return F.pad(images, (0, right, 0, down)) if down or right else images


class PatchEmbedding(nn.Module):
    """Cut images into square patches and project each with one matrix: a convolution that never overlaps.

    Paper: Dosovitskiy et al. 2021 [dosovitskiy2021image], Equation 1.
    Differs: nothing; the patches stay in their grid, flatten it for a sequence.

    Args:
        num_channels: of the images
        d_model: width of a token
        patch_size: pixels on each side of a patch

    Shapes: images (B, channels, height, width) -> (B, height / patch_size, width / patch_size, D)
    """

    def __init__(self, num_channels: int, d_model: int, patch_size: int) -> None:
        super().__init__()
        self.num_channels, self.patch_size = num_channels, patch_size
        self.project = nn.Conv2d(num_channels, d_model, patch_size, stride=patch_size)

    def forward(self, images: Tensor) -> Tensor:
        """One token for each patch."""
        check_images(images, self.num_channels)
        check_divisible((images.shape[2], images.shape[3]), self.patch_size)
        return self.project(images).permute(0, 2, 3, 1)  # (B, rows, columns, D)
