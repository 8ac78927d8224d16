"""A tokenizer of images: convolutions, then the nearest code of a codebook. An image becomes a grid of ids."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lecturelib.layers.checks import check_config, check_ids
from lecturelib.layers.patches import check_divisible, check_images
from lecturelib.layers.precision import precise


@dataclass(frozen=True, kw_only=True)
class VQTokenizerConfig:
    """The sizes of a tokenizer of images.

    Args:
        num_codes: vectors in the codebook, K
        d_code: width of a code
        d_model: channels between the convolutions
        d_ff: channels inside a residual block
        num_halvings: strided convolutions; a code stands for 2 ** num_halvings pixels on each side
        num_blocks: residual blocks in the encoder, and as many in the decoder
        commitment: beta, the weight of the commitment loss
    """

    num_channels: int = 3
    num_codes: int = 512
    d_code: int = 64
    d_model: int = 256
    d_ff: int = 256
    num_halvings: int = 2
    num_blocks: int = 2
    commitment: float = 0.25

    def __post_init__(self) -> None:
        check_config(
            self,
            sizes=("num_channels", "num_codes", "d_code", "d_model", "d_ff", "num_halvings", "num_blocks"),
            dropout=(),
        )
        if self.commitment < 0:
            raise ValueError(f"VQTokenizerConfig: commitment must be 0 or more, got {self.commitment}")

    @property
    def stride(self) -> int:
        """Pixels along the side of the region that a code stands for."""
        return 2**self.num_halvings


class Quantized(NamedTuple):
    """Vectors (..., d_code) as codes: the codes themselves, with a gradient; their ids (...); both losses (...)."""

    codes: Tensor
    ids: Tensor
    codebook_loss: Tensor
    commitment_loss: Tensor


class VectorQuantizer(nn.Module):
    """Replace each vector by the nearest of K codes, and pass gradients as if nothing had been replaced.

    The nearest code is a choice, which has no gradient. Straight-through: the gradient of the code is copied to the
    vector. The codes learn from a loss of their own, which draws each to the vectors that chose it; a second loss, the
    commitment, draws the vectors to their codes. Neither is weighted here.

    Paper: van den Oord et al. 2017 [oord2017neural], Section 3.1 and 3.2, Equations 1 to 3; Bengio et al. 2013
    [bengio2013estimating] for the gradient.
    Differs: squared distances are means over the width of a code, where the paper sums. The codebook learns by the loss
    of Equation 3, not by the moving averages of Appendix A.1. A tie goes to the code with the lowest id.

    Args:
        num_codes: vectors in the codebook, K
        d_code: their width

    Shapes: (..., d_code) -> codes (..., d_code), ids (...), losses (...)
    """

    def __init__(self, num_codes: int, d_code: int) -> None:
        super().__init__()
        self.codebook = nn.Parameter(torch.empty(num_codes, d_code))
        nn.init.uniform_(self.codebook, -1 / num_codes, 1 / num_codes)

    def forward(self, vectors: Tensor) -> Quantized:
        """Each vector's nearest code."""
        vectors = vectors.to(self.codebook.dtype)
        ids = self.nearest(vectors)
        codes = self.look_up(ids)
        codebook_loss = (codes - vectors.detach()).square().mean(dim=-1)
        commitment_loss = (vectors - codes.detach()).square().mean(dim=-1)
        through = vectors + (codes - vectors).detach()  # the code's value, the vector's gradient
        return Quantized(through, ids, codebook_loss, commitment_loss)

    def nearest(self, vectors: Tensor) -> Tensor:
        """The id of the code at the least distance: (..., d_code) -> (...)."""
        crossed = torch.einsum("...d,kd->...k", vectors.to(self.codebook.dtype), self.codebook).to(self.codebook.dtype)
        return (self.codebook.square().sum(dim=-1) - 2 * crossed).argmin(dim=-1)  # |z|² is the same for all codes

    def look_up(self, ids: Tensor) -> Tensor:
        """The codes with these ids: (...) -> (..., d_code)."""
        return F.embedding(ids, self.codebook)

    @torch.no_grad()
    def restart(self, vectors: Tensor, generator: torch.Generator | None = None) -> int:
        """Move codes that none of these vectors (..., d_code) chose onto some of the vectors; how many were moved.

        Paper: Dhariwal et al. 2020 [dhariwal2020jukebox], Section 3, random restarts.
        Differs: a code is unused if no vector of one call chose it; the paper watches its mean use fall below a bound.
        """
        vectors = vectors.flatten(0, -2)  # (M, d_code)
        used = torch.bincount(self.nearest(vectors), minlength=len(self.codebook))
        unused = (used == 0).nonzero().squeeze(1)
        drawn = torch.randint(len(vectors), (len(unused),), generator=generator).to(vectors.device)
        self.codebook[unused] = vectors[drawn].to(self.codebook.dtype)
        return len(unused)


class ConvResidual(nn.Module):
    """A 3 × 3 and a 1 × 1 convolution, each after a ReLU, added to what came in.

    Paper: van den Oord et al. 2017 [oord2017neural], Section 4.1.
    Differs: nothing; the channels between the two are a setting, as in the authors' example.

    Shapes: (B, D, height, width) -> the same
    """

    def __init__(self, d_model: int, d_ff: int) -> None:
        super().__init__()
        self.wide = nn.Conv2d(d_model, d_ff, 3, padding=1)
        self.narrow = nn.Conv2d(d_ff, d_model, 1)

    def forward(self, x: Tensor) -> Tensor:
        """What came in, plus what the two convolutions make of it."""
        return x + self.narrow(F.relu(self.wide(F.relu(x))))


class Reconstructed(NamedTuple):
    """Images as the codes give them back, (B, channels, height, width); ids (B, N); the losses of both kinds, (B,)."""

    images: Tensor
    ids: Tensor
    codebook_loss: Tensor
    commitment_loss: Tensor


class VQTokenizer(nn.Module):
    """Write an image as a sentence of ids, region by region in reading order, and paint it again from them.

    Paper: van den Oord et al. 2017 [oord2017neural], Section 4.1: strided 4 × 4 convolutions and two residual blocks;
    the decoder mirrors them.
    Differs: a 1 × 1 convolution goes from the channels to the width of a code, as in the authors' example. The decoder
    opens with a 3 × 3 convolution from the codes. The likelihood of an image is a Gaussian of fixed width, so its loss
    is the squared error. The prior over the ids is not here: it is a `TextToImage`, or any language model.
    """

    def __init__(self, config: VQTokenizerConfig) -> None:
        super().__init__()
        self.config = config
        d_model = config.d_model
        shrink: list[nn.Module] = []
        grow: list[nn.Module] = []
        for number in range(config.num_halvings):
            d_in = d_model if number else config.num_channels
            last = number == config.num_halvings - 1
            shrink += [*([nn.ReLU()] if number else []), nn.Conv2d(d_in, d_model, 4, stride=2, padding=1)]
            d_out = config.num_channels if last else d_model
            grow += [nn.ReLU(), nn.ConvTranspose2d(d_model, d_out, 4, stride=2, padding=1)]
        self.shrink, self.grow = nn.Sequential(*shrink), nn.Sequential(*grow)
        self.read = nn.Sequential(*(ConvResidual(d_model, config.d_ff) for _ in range(config.num_blocks)))
        self.to_code = nn.Conv2d(d_model, config.d_code, 1)
        self.quantizer = VectorQuantizer(config.num_codes, config.d_code)
        self.from_code = nn.Conv2d(config.d_code, d_model, 3, padding=1)
        self.paint = nn.Sequential(*(ConvResidual(d_model, config.d_ff) for _ in range(config.num_blocks)))

    def forward(self, images: Tensor) -> Reconstructed:
        """Images through the codes and back; sides must be multiples of `config.stride`.

        Shapes: images (B, channels, height, width) -> the same, ids (B, N), losses (B,)
        """
        grid = self.features(images)  # (B, rows, columns, d_code)
        found = self.quantizer(grid)
        losses = found.codebook_loss.mean(dim=(1, 2)), found.commitment_loss.mean(dim=(1, 2))
        return Reconstructed(self._decode(found.codes), found.ids.flatten(1), *losses)

    def features(self, images: Tensor) -> Tensor:
        """What the encoder says of each region, before a code is chosen: -> (B, rows, columns, d_code)."""
        check_images(images, self.config.num_channels)
        check_divisible((images.shape[2], images.shape[3]), self.config.stride)
        return self.to_code(F.relu(self.read(self.shrink(images)))).permute(0, 2, 3, 1)

    @torch.no_grad()
    def encode(self, images: Tensor) -> Tensor:
        """The ids of images, row by row: (B, channels, height, width) -> (B, N)."""
        return self.quantizer.nearest(self.features(images)).flatten(1)

    @torch.no_grad()
    def decode(self, ids: Tensor, *, rows: int | None = None) -> Tensor:
        """Paint ids; the grid is square when `rows` is left out: (B, N) -> (B, channels, height, width)."""
        if ids.dim() != 2:
            raise ValueError(f"ids must be (batch, N) codes, got {tuple(ids.shape)}")
        check_ids(ids, self.config.num_codes, "ids")
        length = ids.shape[1]
        rows = round(length**0.5) if rows is None else rows
        if rows < 1 or length % rows or length < rows:
            raise ValueError(f"{length} ids do not fill {rows} rows; give the number of rows of the image")
        return self._decode(self.quantizer.look_up(ids.view(len(ids), rows, length // rows)))

    def _decode(self, codes: Tensor) -> Tensor:
        """Codes in their grid (B, rows, columns, d_code) -> images (B, channels, height, width)."""
        return self.grow(self.paint(self.from_code(codes.permute(0, 3, 1, 2))))


def tokenizer_loss(model: nn.Module, images: Tensor, commitment: float) -> Tensor:
    """What a tokenizer learns from: squared error of the pixels, plus the codebook's and `commitment` times the other.

    Paper: van den Oord et al. 2017 [oord2017neural], Equation 3, with commitment 0.25.
    Differs: means in place of sums, over pixels and over the width of a code.
    """
    seen = model(images)
    error = (precise(seen.images) - images).square().mean()
    return error + seen.codebook_loss.mean() + commitment * seen.commitment_loss.mean()
