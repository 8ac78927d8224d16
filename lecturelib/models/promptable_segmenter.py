"""Segmentation by prompt: click on an image or draw a box, and get masks of what may be meant, each with a guess of its
quality.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lecturelib.layers.attention import MultiHeadAttention
from lecturelib.layers.block import FeedForward, PostNorm
from lecturelib.layers.checks import check_config, check_heads, ends
from lecturelib.models.conv_encoder import ConvEncoder, ConvEncoderConfig
from lecturelib.models.mlp import MLP, MLPConfig

NOTHING, BACKGROUND, FOREGROUND, CORNER, OPPOSITE = -1, 0, 1, 2, 3  # the kinds of points in a prompt


@dataclass(frozen=True, kw_only=True)
class PromptableSegmenterConfig:
    """Sizes of a `PromptableSegmenter`; attention between tokens and image is `d_model // narrowing` wide.

    Of several masks the first is for prompts of several points; a single click is answered by the others.
    """

    image: ConvEncoderConfig = field(default_factory=ConvEncoderConfig)
    d_model: int = 48
    num_heads: int = 2
    num_layers: int = 2
    d_ff: int = 96
    num_masks: int = 4
    narrowing: int = 2

    def __post_init__(self) -> None:
        check_config(self, sizes=("num_layers", "d_ff", "num_masks", "narrowing"), dropout=())
        check_heads(self.d_model, self.num_heads, "PromptableSegmenterConfig")
        if self.d_model % 8 or self.d_model % (self.narrowing * self.num_heads):
            raise ValueError(
                "PromptableSegmenterConfig: d_model must be a multiple of 8 and of narrowing · num_heads, "
                f"got d_model={self.d_model}, narrowing={self.narrowing} and num_heads={self.num_heads}"
            )


SAM = PromptableSegmenterConfig(d_model=256, num_heads=8, d_ff=2048)


class Masks(NamedTuple):
    """Candidates for what was meant: logits (B, M, height, width), and how good each claims to be: quality (B, M)."""

    logits: Tensor
    quality: Tensor


class FourierPositions(nn.Module):
    """Write a point of the plane as sines and cosines of its distances along D / 2 random directions.

    Paper: Tancik et al. 2020 [tancik2020fourier], Equation 5; Kirillov et al. 2023 [kirillov2023segment], Appendix A.
    Differs: nothing; the directions are drawn once, with standard deviation 1, and never trained.

    Shapes: points (..., 2), x before y, from 0 to 1 -> (..., D)
    """

    directions: Tensor

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.register_buffer("directions", torch.randn(2, d_model // 2))

    def forward(self, points: Tensor) -> Tensor:
        """One vector for each point."""
        angles = 2 * torch.pi * ((2 * points.to(self.directions.dtype) - 1) @ self.directions)  # (..., D / 2)
        return torch.cat((angles.sin(), angles.cos()), dim=-1)  # (..., D)

    def grid(self, rows: int, columns: int) -> Tensor:
        """The centres of the regions of an image, row by row: (rows · columns, D)."""
        down, across = (
            (torch.arange(side, device=self.directions.device, dtype=self.directions.dtype) + 0.5) / side
            for side in (rows, columns)
        )
        y, x = torch.meshgrid(down, across, indexing="ij")
        return self.forward(torch.stack((x, y), dim=-1).flatten(0, 1))  # (rows · columns, D)


class PromptEncoder(nn.Module):
    """Turn points into tokens: where each lies, and of which kind it is; a box is two points, its corners.

    The kinds are FOREGROUND, BACKGROUND, CORNER (top left), OPPOSITE (bottom right), and NOTHING, which fills up: a
    prompt of clicks alone ends with one NOTHING.

    Paper: Kirillov et al. 2023 [kirillov2023segment], Section 3 and Appendix A.
    Differs: no masks and no texts as prompts; the authors' code adds the NOTHING by itself.

    Shapes: points (B, P, 2) in pixels, x before y; kinds (B, P) -> (B, P, D)
    """

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.positions = FourierPositions(d_model)
        self.kinds = nn.Embedding(5, d_model)  # NOTHING first

    def forward(self, points: Tensor, kinds: Tensor, height: int, width: int) -> Tensor:
        """One token for each point of a prompt for images of this height and width."""
        if points.dim() != 3 or points.shape[2] != 2 or kinds.shape != points.shape[:2]:
            raise ValueError(
                "points must be (batch, points, 2) and kinds (batch, points), "
                f"got {tuple(points.shape)} and {tuple(kinds.shape)}"
            )
        found = ends(kinds)
        if found and (found[0] < NOTHING or found[1] > OPPOSITE):
            raise ValueError(f"kinds must be from {NOTHING} (nothing) to {OPPOSITE} (corner), got {kinds.tolist()}")
        sides = points.new_tensor((width, height))
        where = self.positions((points + 0.5) / sides)  # (B, P, D), from the middle of the pixel
        return self.kinds(kinds + 1) + where * (kinds != NOTHING).unsqueeze(-1)


class NarrowAttention(MultiHeadAttention):
    """Attention whose heads together are narrower than the model: cheaper where there are many tokens.

    Paper: Kirillov et al. 2023 [kirillov2023segment], Appendix A.
    Differs: nothing.

    Args:
        d_model: width of queries, keys, values and output
        num_heads: must divide `inner_dim`
        inner_dim: width of all heads together
    """

    def __init__(self, d_model: int, num_heads: int, *, inner_dim: int) -> None:
        super().__init__(d_model, num_heads)
        check_heads(inner_dim, num_heads, "NarrowAttention")
        self.head_dim = inner_dim // num_heads
        self.query_proj, self.key_proj, self.value_proj = (nn.Linear(d_model, inner_dim) for _ in range(3))
        self.out_proj = nn.Linear(inner_dim, d_model)


class TwoWayBlock(nn.Module):
    """Tokens look at each other, then at the image, think, and then the image looks at the tokens.

    Wherever something is compared, positions are added to queries and keys: to tokens what they were at the start, to
    regions their `FourierPositions`. Values go without.

    Paper: Kirillov et al. 2023 [kirillov2023segment], Appendix A, Figure 14.
    Differs: nothing.

    Shapes: tokens (B, T, D), image (B, N, D), origin (B, T, D), places (N, D) -> tokens and image
    """

    def __init__(self, config: PromptableSegmenterConfig) -> None:
        super().__init__()
        d_model, inner_dim = config.d_model, config.d_model // config.narrowing
        self.among, self.among_wiring = MultiHeadAttention(d_model, config.num_heads), PostNorm(d_model)
        self.look = NarrowAttention(d_model, config.num_heads, inner_dim=inner_dim)
        self.look_wiring = PostNorm(d_model)
        self.feed_forward, self.feed_forward_wiring = FeedForward(d_model, config.d_ff), PostNorm(d_model)
        self.answer = NarrowAttention(d_model, config.num_heads, inner_dim=inner_dim)
        self.answer_wiring = PostNorm(d_model)

    def forward(self, tokens: Tensor, image: Tensor, origin: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
        """Tokens and image, each after reading the other."""
        tokens = self.talk(tokens, origin)
        tokens = self.look_wiring.join(tokens, self.look(tokens + origin, image + places, image))
        tokens = self.feed_forward_wiring.join(tokens, self.feed_forward(tokens))
        return tokens, self.answer_wiring.join(image, self.answer(image + places, tokens + origin, tokens))

    def talk(self, tokens: Tensor, origin: Tensor) -> Tensor:
        """The tokens after attending to each other: (B, T, D)."""
        marked = tokens + origin
        return self.among_wiring.join(tokens, self.among(marked, marked, tokens))


class FirstTwoWayBlock(TwoWayBlock):
    """The first block, whose tokens are still what they were at the start: nothing is added before they talk or after.

    Paper: as `TwoWayBlock`; the authors' code, not the text, has this exception.
    Differs: nothing.
    """

    def talk(self, tokens: Tensor, origin: Tensor) -> Tensor:
        """What the tokens say to each other takes their place."""
        return self.among_wiring.norm(self.among(tokens))


class MaskDecoder(nn.Module):
    """Read an image with a prompt and answer with several masks, and with a guess of the IoU of each.

    Each mask token becomes the weights of a linear classifier of pixels, by an MLP of its own: a hypernetwork. The
    image's regions are widened to 4 × 4 pixels each by two transposed convolutions.

    Paper: Kirillov et al. 2023 [kirillov2023segment], Section 3 and Appendix A, Figure 14.
    Differs: all masks are returned; `PromptableSegmenter.offered` says which of them answer a prompt.

    Shapes: image (B, D, rows, columns), places (rows · columns, D), prompt (B, P, D) -> logits (B, M, 4 rows, 4
    columns), quality (B, M)
    """

    def __init__(self, config: PromptableSegmenterConfig) -> None:
        super().__init__()
        d_model = config.d_model
        self.quality_token = nn.Parameter(torch.randn(1, d_model))
        self.mask_tokens = nn.Parameter(torch.randn(config.num_masks, d_model))
        blocks = [FirstTwoWayBlock(config), *(TwoWayBlock(config) for _ in range(config.num_layers - 1))]
        self.blocks = nn.ModuleList(blocks)
        self.last_look = NarrowAttention(d_model, config.num_heads, inner_dim=d_model // config.narrowing)
        self.last_wiring = PostNorm(d_model)
        self.widen = nn.ConvTranspose2d(d_model, d_model // 4, kernel_size=2, stride=2)
        self.widen_norm = nn.LayerNorm(d_model // 4, eps=1e-6)
        self.widen_again = nn.ConvTranspose2d(d_model // 4, d_model // 8, kernel_size=2, stride=2)
        sizes = {"input_dim": d_model, "hidden_dim": d_model, "num_layers": 2}
        self.hypernetworks = nn.ModuleList(
            MLP(MLPConfig(**sizes, output_dim=d_model // 8)) for _ in range(config.num_masks)
        )
        self.quality_head = MLP(MLPConfig(**sizes, output_dim=config.num_masks))

    def forward(self, image: Tensor, places: Tensor, prompt: Tensor) -> Masks:
        """The masks of one prompt for each image."""
        rows, columns = image.shape[2:]
        own = torch.cat((self.quality_token, self.mask_tokens)).expand(len(prompt), -1, -1)  # (B, 1 + M, D)
        origin = torch.cat((own, prompt), dim=1)  # (B, T, D)
        tokens, regions = origin, image.flatten(2).transpose(1, 2)  # (B, N, D)
        for block in self.blocks:
            tokens, regions = block(tokens, regions, origin, places)
        looked = self.last_look(tokens + origin, regions + places, regions)
        quality, *answers = self.last_wiring.join(tokens, looked).unbind(1)[: 1 + len(self.mask_tokens)]  # (B, D) each
        pixels = self.pixels(regions.transpose(1, 2).unflatten(2, (rows, columns)))  # (B, D / 8, 4 rows, 4 columns)
        pairs = zip(self.hypernetworks, answers, strict=True)
        weights = torch.stack([network(answer) for network, answer in pairs], dim=1)  # (B, M, D / 8)
        return Masks(torch.einsum("bmd,bdhw->bmhw", weights, pixels), self.quality_head(quality))

    def pixels(self, image: Tensor) -> Tensor:
        """A short vector for every pixel: (B, D, rows, columns) -> (B, D / 8, 4 rows, 4 columns)."""
        wider = self.widen(image).permute(0, 2, 3, 1)  # (B, 2 rows, 2 columns, D / 4)
        wider = F.gelu(self.widen_norm(wider)).permute(0, 3, 1, 2)  # (B, D / 4, 2 rows, 2 columns)
        return F.gelu(self.widen_again(wider))


class PromptableSegmenter(nn.Module):
    """Segment what a prompt of points or a box asks for; the image is read once, however many prompts follow.

    Paper: Kirillov et al. 2023 [kirillov2023segment].
    Differs: the image encoder is a small convolutional network with one linear map after it, trained along; theirs is
    a ViT-H, pre-trained as a masked autoencoder, with two convolutions after it. Masks are as large as the image if
    its encoder's stride is 4; theirs are a quarter of it. A box counts as several points, theirs as one prompt.

    Shapes: images (B, channels, height, width), points (B, P, 2), kinds (B, P) -> logits (B, M, height, width), where
    the stride is 4, and quality (B, M)
    """

    def __init__(self, config: PromptableSegmenterConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = ConvEncoder(config.image)
        self.neck = nn.Sequential(nn.Linear(config.image.d_model, config.d_model), nn.LayerNorm(config.d_model))
        self.prompt = PromptEncoder(config.d_model)
        self.decoder = MaskDecoder(config)

    def forward(self, images: Tensor, points: Tensor, kinds: Tensor) -> Masks:
        """The masks of one prompt for each image."""
        return self.decode(self.encode(images), points, kinds)

    def encode(self, images: Tensor) -> Tensor:
        """Read images, the slow half: (B, channels, height, width) -> (B, D, rows, columns)."""
        regions = self.neck(self.encoder(images))  # (B, N, D)
        rows, columns = (side // self.config.image.stride for side in images.shape[2:])
        return regions.transpose(1, 2).unflatten(2, (rows, columns))

    def decode(self, image: Tensor, points: Tensor, kinds: Tensor) -> Masks:
        """Answer a prompt, the quick half: image (B, D, rows, columns) as `encode` gives it -> masks."""
        if len(points) != len(image):
            raise ValueError(
                f"there must be one prompt for each image, got {len(points)} for {len(image)}; repeat the image"
            )
        rows, columns = image.shape[2:]
        stride = self.config.image.stride
        prompt = self.prompt(points, kinds, rows * stride, columns * stride)  # (B, P, D)
        return self.decoder(image, self.prompt.positions.grid(rows, columns), prompt)

    def offered(self, kinds: Tensor) -> Tensor:
        """Which masks answer a prompt: of one click all but the first, of several points the first alone.

        Shapes: kinds (B, P) -> boolean (B, M); a model of one mask always offers it
        """
        first = torch.arange(self.config.num_masks, device=kinds.device) == 0  # (M,)
        if self.config.num_masks == 1:
            return first.expand(len(kinds), 1)
        is_click = (kinds != NOTHING).sum(dim=1, keepdim=True) == 1  # (B, 1)
        return is_click ^ first
