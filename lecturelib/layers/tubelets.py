"""From videos to tokens: cut into tubelets, and embed each."""

from torch import Tensor, nn

from lecturelib.layers.patches import check_divisible


def check_videos(videos: Tensor, num_channels: int) -> None:
    """Raise unless `videos` is a (batch, frames, num_channels, height, width) tensor of real numbers."""
    if videos.dim() != 5 or videos.shape[2] != num_channels:
        raise ValueError(f"videos must be (batch, frames, {num_channels}, height, width), got {tuple(videos.shape)}")
    if not videos.is_floating_point():
        raise ValueError(f"videos must be real numbers, got {videos.dtype}; divide bytes by 255")


class TubeletEmbedding(nn.Module):
    """Cut videos into boxes of a few frames and a square of pixels, and project each with one matrix.

    Paper: Arnab et al. 2021 [arnab2021vivit], Section 3.2.
    Differs: frames and pixels must be covered by whole tubelets; the paper drops what is left over. It starts like any
    matrix here, not from the weights of an image model. Tubelets of one frame are the paper's uniform frame sampling.

    Args:
        num_channels: of the frames
        d_model: width of a token
        patch_size: pixels on each side of a tubelet
        num_frames: of a tubelet

    Shapes: videos (B, frames, channels, height, width) -> (B, times, rows, columns, D)
    """

    def __init__(self, num_channels: int, d_model: int, patch_size: int, num_frames: int) -> None:
        super().__init__()
        self.num_channels, self.patch_size, self.num_frames = num_channels, patch_size, num_frames
        size = (num_frames, patch_size, patch_size)
        self.project = nn.Conv3d(num_channels, d_model, size, stride=size)

    def forward(self, videos: Tensor) -> Tensor:
        """One token for each tubelet."""
        check_videos(videos, self.num_channels)
        check_divisible((videos.shape[3], videos.shape[4]), self.patch_size, "frames")
        if videos.shape[1] == 0 or videos.shape[1] % self.num_frames:
            raise ValueError(
                f"{videos.shape[1]} frames cannot be cut into whole tubelets of {self.num_frames}; drop or repeat some"
            )
        return self.project(videos.transpose(1, 2)).permute(0, 2, 3, 4, 1)  # (B, times, rows, columns, D)
