"""ViT-S/16 and Swin-T against their peers, reading and learning from a batch of 8: `python benchmarks/vision.py`."""

import argparse
from collections.abc import Callable

import torch
import torch.nn.functional as F
from measure import Comparison, compare, report
from timm import create_model
from torch import Tensor, nn
from torchvision.models.swin_transformer import SwinTransformer
from transformers import SwinConfig as TheirSwinConfig
from transformers import SwinForImageClassification, ViTForImageClassification
from transformers import ViTConfig as TheirViTConfig
from vit_pytorch import ViT as OtherViT

from lecturelib.fast import fast
from lecturelib.models import load
from lecturelib.models.swin import SWIN_TINY, Swin, SwinConfig
from lecturelib.models.vit import VIT_SMALL, ViT

CLASSES = 1000


def vits() -> dict[str, nn.Module]:
    """ViT-S/16 in four libraries; ours has timm's weights. No dropout and no stochastic depth anywhere."""
    theirs = create_model("vit_small_patch16_224", num_classes=CLASSES)
    sizes = {"hidden_size": 384, "num_attention_heads": 6, "num_hidden_layers": 12, "intermediate_size": 1536}
    other = OtherViT(
        image_size=224, patch_size=16, num_classes=CLASSES, dim=384, depth=12, heads=6, dim_head=64, mlp_dim=1536
    )
    return {
        "lecturelib": load(ViT, theirs.state_dict(), VIT_SMALL),
        "timm": theirs,
        "transformers": Logits(ViTForImageClassification(TheirViTConfig(**sizes, num_labels=CLASSES))),
        "vit-pytorch": other,
    }


def swins() -> dict[str, nn.Module]:
    """Swin-T in four libraries; ours has timm's weights. No stochastic depth anywhere."""
    theirs = create_model("swin_tiny_patch4_window7_224", num_classes=CLASSES, drop_path_rate=0.0)
    config = SwinConfig(d_model=96, num_layers=SWIN_TINY.num_layers, num_heads=SWIN_TINY.num_heads)
    return {
        "lecturelib": load(Swin, theirs.state_dict(), config),
        "timm": theirs,
        "transformers": Logits(SwinForImageClassification(TheirSwinConfig(num_labels=CLASSES, drop_path_rate=0.0))),
        "torchvision": SwinTransformer(
            patch_size=[4, 4],
            embed_dim=96,
            depths=[2, 2, 6, 2],
            num_heads=[3, 6, 12, 24],
            window_size=[7, 7],
            stochastic_depth_prob=0.0,
            num_classes=CLASSES,
        ),
    }


class Logits(nn.Module):
    """What is left of a Hugging Face model's output."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Tensor) -> Tensor:
        return self.model(images).logits


def reading(name: str, models: dict[str, nn.Module], images: Tensor, rounds: int) -> Comparison:
    """One forward pass in evaluation, ours through the door that every user has."""

    def run(model: nn.Module) -> Callable[[], Tensor]:
        model.eval()
        model = fast(model) if isinstance(model, ViT | Swin) else model

        def once() -> Tensor:
            with torch.inference_mode():
                return model(images)

        return once

    ways = {way: run(model) for way, model in models.items()}
    torch.testing.assert_close(ways["lecturelib"](), ways["timm"](), atol=1e-3, rtol=1e-3)
    return compare(f"{name} forward, batch {len(images)}", ways, baseline="lecturelib", rounds=rounds, warmup=1)


def learning(name: str, models: dict[str, nn.Module], images: Tensor, rounds: int) -> Comparison:
    """One training step: forward, loss, backward, fused AdamW."""
    targets = torch.arange(len(images)) % CLASSES

    def run(model: nn.Module) -> Callable[[], None]:
        model.train()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

        def once() -> None:
            loss = F.cross_entropy(model(images), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()

        return once

    ways = {way: run(model) for way, model in models.items()}
    return compare(f"{name} training step, batch {len(images)}", ways, baseline="lecturelib", rounds=rounds, warmup=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=11, help="turns each way gets (default 11)")
    parser.add_argument("--batch", type=int, default=8, help="pictures in a batch (default 8)")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    images = torch.randn(arguments.batch, 3, 224, 224)
    comparisons = []
    for name, build in (("ViT-S/16", vits), ("Swin-T", swins)):
        models = build()
        comparisons.append(reading(name, models, images, arguments.rounds))
        comparisons.append(learning(name, models, images, arguments.rounds))
    print(report("vision", comparisons))


if __name__ == "__main__":
    main()
