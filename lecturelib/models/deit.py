"""DeiT: a ViT that learns from ImageNet alone, and from a convolutional teacher through a token of its own."""

from dataclasses import replace
from typing import Self

import torch.nn.functional as F
from torch import Tensor, nn

from lecturelib.layers.initialisation import initialise
from lecturelib.layers.patches import Size
from lecturelib.layers.precision import precise
from lecturelib.models.vit import VIT_BASE, VIT_SMALL, VIT_TINY, ViTConfig, ViTEncoder

DEIT_TINY = replace(VIT_TINY, drop_path=0.1)
DEIT_SMALL = replace(VIT_SMALL, drop_path=0.1)
DEIT_BASE = replace(VIT_BASE, drop_path=0.1)


class DeiT(nn.Module):
    """A ViT that may have a second token, which learns from the teacher what the class token learns from the label.

        DeiT(DEIT_SMALL)            # without a distillation token: a ViT, with stochastic depth
        DeiT.distilled(DEIT_SMALL)  # with one

    Paper: Touvron et al. 2021 [touvron2021training], Section 4.
    Differs: nothing. In evaluation the two heads' logits are averaged; the paper adds their softmax outputs, the
    authors' code averages logits.

    Args:
        config: the sizes
        distillation_head: reads the distillation token, D -> classes; without one there is no such token
    """

    def __init__(self, config: ViTConfig, distillation_head: nn.Linear | None = None) -> None:
        super().__init__()
        self.config = config
        self.encoder = ViTEncoder(config, num_prefix=1 if distillation_head is None else 2)
        self.head = nn.Linear(config.d_model, config.num_classes)
        self.distillation_head = distillation_head
        self.head.apply(initialise)

    @classmethod
    def distilled(cls, config: ViTConfig) -> Self:
        """A DeiT with a distillation token and a head for it."""
        head = nn.Linear(config.d_model, config.num_classes)
        head.apply(initialise)
        return cls(config, head)

    def forward(self, images: Tensor) -> Tensor:
        """Logits of the classes, the mean of both heads where there are two.

        Shapes: images (B, channels, height, width) -> (B, classes)
        """
        if self.distillation_head is None:
            return self.head(self.encoder(images)[:, 0])
        by_label, by_teacher = self.both_heads(images)
        return (by_label + by_teacher) / 2

    def both_heads(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """What training wants: the logits that learn from the label, and those that learn from the teacher.

        Shapes: images (B, channels, height, width) -> two of (B, classes)
        """
        if self.distillation_head is None:
            raise ValueError("this DeiT has no distillation token; build it with DeiT.distilled(config)")
        tokens = self.encoder(images)
        return self.head(tokens[:, 0]), self.distillation_head(tokens[:, 1])

    def set_image_size(self, image_size: Size) -> Self:
        """Interpolate the positions to another size once and for all, for fine-tuning there, and return self."""
        self.config = replace(self.config, image_size=image_size)
        self.encoder.positions.resize_(self.config.grid)
        return self


def hard_distillation_loss(student: tuple[Tensor, Tensor], teacher: Tensor, targets: Tensor) -> Tensor:
    """Half the cross-entropy of the label, half that of the class which the teacher thinks likeliest.

    Paper: Touvron et al. 2021 [touvron2021training], Equation 3.
    Differs: targets may be probabilities, as mixup makes them; a teacher's label is never smoothed.

    Args:
        student: logits by label and by teacher, as `DeiT.both_heads` gives them, (B, classes) each
        teacher: the teacher's logits on the same images, (B, classes)
        targets: (B,) classes, or (B, classes) probabilities
    """
    by_label, by_teacher = _checked(student, teacher)
    return (F.cross_entropy(by_label, targets) + F.cross_entropy(by_teacher, teacher.argmax(dim=-1))) / 2


def soft_distillation_loss(
    student: tuple[Tensor, Tensor], teacher: Tensor, targets: Tensor, *, temperature: float = 3.0, weight: float = 0.1
) -> Tensor:
    """The cross-entropy of the label, and the divergence from the teacher's distribution, both softened.

    Paper: Touvron et al. 2021 [touvron2021training], Equation 2, with its τ and λ as `temperature` and `weight`.
    Differs: nothing. For a student with one head give its logits twice.

    Args:
        student: logits by label and by teacher, as `DeiT.both_heads` gives them, (B, classes) each
        teacher: the teacher's logits on the same images, (B, classes)
        targets: (B,) classes, or (B, classes) probabilities
        temperature: what both logits are divided by; the divergence is multiplied by its square, which keeps the size
            of its gradient
        weight: of the divergence; the label has the rest
    """
    if temperature <= 0 or not 0.0 <= weight <= 1.0:
        raise ValueError(f"temperature must be above 0 and weight in [0, 1], got {temperature} and {weight}")
    by_label, by_teacher = _checked(student, teacher)
    divergence = F.kl_div(
        F.log_softmax(by_teacher / temperature, dim=-1),
        F.log_softmax(precise(teacher.detach()) / temperature, dim=-1),
        reduction="batchmean",
        log_target=True,
    )
    return (1 - weight) * F.cross_entropy(by_label, targets) + weight * temperature**2 * divergence


def _checked(student: tuple[Tensor, Tensor], teacher: Tensor) -> tuple[Tensor, Tensor]:
    by_label, by_teacher = student
    if not by_label.shape == by_teacher.shape == teacher.shape:
        raise ValueError(
            f"the student's two logits and the teacher's must have one shape, got {tuple(by_label.shape)}, "
            f"{tuple(by_teacher.shape)} and {tuple(teacher.shape)}"
        )
    return precise(by_label), precise(by_teacher)
