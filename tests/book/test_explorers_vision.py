"""The explorers of pictures in a real browser: patch attention, augmentations, mixing, against lecturelib's numbers."""

import pytest
import torch

from lecturelib.data import ImageBatch, Images, mixup, rand_augment, random_erasing, smooth_labels
from lecturelib.data.augment.rand_augment import apply_operation
from lecturelib.figures import AugmentationExplorer, MixingExplorer, PatchAttentionExplorer
from lecturelib.figures.explorers.mixing.explorer import STEPS
from lecturelib.layers import attention_weights
from lecturelib.models.vit import ViT, ViTConfig

CLASSES = ("shirt", "boot", "bag")


@pytest.fixture(scope="module")
def pictures():
    generator = torch.Generator().manual_seed(4)
    pixels = torch.randint(0, 256, (5, 1, 12, 8), generator=generator).to(torch.uint8)
    return Images(pixels, torch.tensor([2, 0, 1, 1, 0]), CLASSES)


@pytest.fixture(scope="module")
def attention(pictures):
    torch.manual_seed(0)
    config = ViTConfig(
        image_size=(12, 8), patch_size=4, num_channels=1, num_classes=3, d_model=12, num_heads=3, num_layers=2
    )
    model = ViT(config).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.8)
    with torch.no_grad(), attention_weights(model) as seen:
        model(pictures.scaled()[:2])
    return torch.stack(list(seen.values()), dim=1)  # (pictures, layers, heads, 1 + N, 1 + N)


@pytest.fixture
def patch_explorer(pictures, attention):
    return PatchAttentionExplorer(pictures.scaled()[:2], attention, (3, 2), ["bag", "shirt"])


def shown_patches(page):
    titles = page.locator(".stack rect title").all_text_contents()
    return [float(title.split(": ")[1]) for title in titles]


def canvas_grey(page, selector, index=0):
    """The red channel of a canvas, as it is on the screen."""
    data = "c.getContext('2d').getImageData(0, 0, c.width, c.height).data"
    return page.locator(selector).nth(index).evaluate(f"c => Array.from({data}).filter((_, i) => i % 4 === 0)")


def levels(picture):
    return (picture.clamp(0, 1) * 255).round().flatten().int().tolist()


def choose(page, group, name):
    page.get_by_role("radiogroup", name=group).get_by_role("radio", name=name, exact=True).click()


def test_patch_explorer_shows_the_model_s_attention_by_mouse(open_page, patch_explorer, attention, pictures):
    page = open_page(patch_explorer)
    assert shown_patches(page) == pytest.approx(attention[0, 0, 0, 0, 1:].tolist(), abs=6e-4)
    assert canvas_grey(page, ".stack canvas") == pictures.pixels[0].flatten().tolist()
    choose(page, "Picture", "shirt")
    choose(page, "Layer", "2")
    choose(page, "Head", "3")
    assert shown_patches(page) == pytest.approx(attention[1, 1, 2, 0, 1:].tolist(), abs=6e-4)
    assert canvas_grey(page, ".stack canvas") == pictures.pixels[1].flatten().tolist()
    page.locator(".stack rect").nth(3).click()  # row 2, column 2
    row = attention[1, 1, 2, 4]
    assert shown_patches(page) == pytest.approx(row[1:].tolist(), abs=6e-4)
    facts = [float(text) for text in page.locator("dd").all_inner_texts()]
    assert facts == pytest.approx([float(row[0]), float(row[1:].max()), 1 / 7, float(row[4])], abs=6e-4)
    best = int(row[1:].argmax())
    place = f"row {best // 2 + 1}, column {best % 2 + 1}"
    said = page.locator("p.live").inner_text()
    assert f"the patch in row 2, column 2 attends most to the patch in {place}" in said


def test_patch_explorer_walks_the_patches_by_keyboard(open_page, patch_explorer, attention):
    page = open_page(patch_explorer)
    page.get_by_role("slider", name="Row").focus()
    page.keyboard.press("End")
    page.get_by_role("slider", name="Column").focus()
    page.keyboard.press("Home")
    assert shown_patches(page) == pytest.approx(attention[0, 0, 0, 5, 1:].tolist(), abs=6e-4)
    assert page.get_by_role("radio", name="a patch").get_attribute("aria-checked") == "true"
    choose(page, "Query", "class token")
    assert shown_patches(page) == pytest.approx(attention[0, 0, 0, 0, 1:].tolist(), abs=6e-4)


def test_patch_explorer_works_by_touch_on_a_phone(open_on_phone, patch_explorer, attention, tap):
    page = open_on_phone(patch_explorer)
    tap(page.locator(".stack rect").nth(5))
    assert shown_patches(page) == pytest.approx(attention[0, 0, 0, 6, 1:].tolist(), abs=6e-4)


def test_patch_explorer_says_its_finding_without_scripts(open_page, patch_explorer, attention):
    page = open_page(patch_explorer, java_script_enabled=False)
    assert patch_explorer.text() in page.locator("body").inner_text()
    assert f"({float(attention[0, 0, 0, 0, 1:].max()):.3f})" in patch_explorer.text()
    assert patch_explorer._repr_html_() == patch_explorer._repr_html_()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"grid": (2, 2)}, "5 queries, 5 keys"),
        ({"names": ["bag"]}, "a name for each picture"),
        ({"start": (2, 0)}, "outside"),
        ({"weights": torch.full((2, 2, 3, 7, 7), 0.5)}, "must be a softmax"),
    ],
)
def test_patch_explorer_refuses_what_it_cannot_show(pictures, attention, change, message):
    given = {"weights": attention, "grid": (3, 2), "names": ["bag", "shirt"], **change}
    with pytest.raises(ValueError, match=message):
        PatchAttentionExplorer(pictures.scaled()[:2], **given)


@pytest.fixture
def mixing(pictures):
    return MixingExplorer(pictures, centre=(0.2, 0.9))


def assert_mixed(page, explorer, step, kind, smoothing=0.0):
    mass = [float(text) for text in page.locator("table.bars td.number").all_inner_texts()]
    assert mass == pytest.approx(explorer.mass(step, kind, smoothing).tolist(), abs=6e-4)
    difference = torch.tensor(canvas_grey(page, "canvas.mixed")) - torch.tensor(levels(explorer.mixed(step, kind)))
    assert difference.abs().max() <= 1  # halves may round either way


def test_mixing_explorer_mixes_as_lecturelib_does(open_page, mixing):
    page = open_page(mixing)
    assert_mixed(page, mixing, 14, "mixup")
    slider = page.get_by_role("slider", name="λ")
    slider.focus()
    for _ in range(5):
        page.keyboard.press("ArrowLeft")
    assert slider.get_attribute("aria-valuetext") == "λ = 0.45"
    assert_mixed(page, mixing, 9, "mixup")
    choose(page, "Mix by", "CutMix")
    assert_mixed(page, mixing, 9, "CutMix")
    choose(page, "Label smoothing", "0.1")
    assert_mixed(page, mixing, 9, "CutMix", 0.1)
    assert f"{mixing.kept(9, 'CutMix'):.3f} bag" in page.locator("p.live").inner_text()
    for key, step in (("Home", 0), ("End", STEPS)):
        slider.focus()
        page.keyboard.press(key)
        assert_mixed(page, mixing, step, "CutMix", 0.1)


def test_mixing_explorer_works_by_touch_on_a_phone(open_on_phone, mixing, tap):
    page = open_on_phone(mixing)
    tap(page.get_by_role("radio", name="CutMix"))
    assert_mixed(page, mixing, 14, "CutMix")


def test_mixing_explorer_agrees_with_the_mixup_of_the_batch(pictures, mixing):
    """One λ drawn by mixup, read off its labels, gives the explorer's picture."""
    two = pictures[:2]
    batch = ImageBatch(two.scaled(), smooth_labels(two.labels, 3))
    for seed in range(20):
        mixed = mixup(batch, alpha=1.0, generator=torch.Generator().manual_seed(seed))
        keep = float(mixed.targets[0, 2])
        if keep < 1:
            break
    blend = keep * two.scaled()[0] + (1 - keep) * two.scaled()[1]
    torch.testing.assert_close(mixed.images[0], blend)
    assert mixing.kept(7, "mixup") == 7 / STEPS
    torch.testing.assert_close(mixing.mixed(7, "mixup"), 0.35 * two.scaled()[0] + 0.65 * two.scaled()[1])


def test_mixing_explorer_refuses_one_picture(pictures):
    with pytest.raises(ValueError, match="two pictures"):
        MixingExplorer(pictures[:1])


@pytest.fixture(scope="module")
def augmentations(pictures):
    return AugmentationExplorer(pictures, loss=lambda x: (x**2).sum(), radius=1, seed=3)


def test_augmentation_explorer_shows_what_lecturelib_draws(open_page, augmentations, pictures):
    page = open_page(augmentations)
    copies = pictures.scaled()[:1].expand(4, -1, -1, -1)
    choose(page, "Augmentation", "RandAugment")
    choose(page, "Strength", "magnitude 6")
    expected = rand_augment(copies, magnitude=6, generator=torch.Generator().manual_seed(3))
    for draw in range(4):
        assert canvas_grey(page, "figure.after canvas", draw) == levels(expected[draw])
    choose(page, "Augmentation", "random erasing")
    expected = random_erasing(copies, probability=1.0, area=(0.02, 0.6), generator=torch.Generator().manual_seed(3))
    assert canvas_grey(page, "figure.after canvas", 2) == levels(expected[2])
    change = (torch.tensor(levels(expected[2])) - torch.tensor(levels(copies[2]))).abs().float().mean() / 255
    caption = page.locator("figure.after figcaption").nth(2).inner_text()
    assert caption == f"change {float(change):.3f}"
    choose(page, "Augmentation", "rotate")
    choose(page, "Strength", "level -0.5")
    turned = apply_operation(copies[:1], "rotate", torch.tensor([-0.5]))
    assert canvas_grey(page, "figure.after canvas") == levels(turned[0])
    assert page.locator("figure.after:visible").count() == 1


def test_augmentation_explorer_changes_nothing_at_strength_zero(augmentations, pictures):
    for view in augmentations.views:
        if view.name in ("auto_contrast", "equalize"):  # these have no strength
            continue
        zero = next(i for i, name in enumerate(view.strengths) if name.split()[-1] in ("0", "0/255"))
        torch.testing.assert_close(view.pictures[zero], pictures.scaled()[:1].expand_as(view.pictures[zero]))


def test_augmentation_explorer_has_every_augmentation_of_the_recipe(augmentations):
    names = [view.name for view in augmentations.views]
    assert names[:7] == ["flip", "shift", "RandAugment", "random erasing", "mixup", "CutMix", "HAT"]
    assert len(names) == 7 + 12
    assert all(view.name != "HAT" for view in AugmentationExplorer(augmentations.pictures).views)


def test_augmentation_explorer_works_by_touch_and_keyboard(open_on_phone, augmentations, tap):
    page = open_on_phone(augmentations)
    tap(page.get_by_role("radio", name="HAT"))
    assert "HAT, strength 32/255" in page.locator("p.live").inner_text()
    page.get_by_role("radio", name="strength 32/255").focus()
    page.keyboard.press("Home")
    assert "pixels change by 0.000" in page.locator("p.live").inner_text()


def test_augmentation_explorer_says_its_finding_without_scripts(open_page, augmentations):
    page = open_page(augmentations, java_script_enabled=False)
    assert augmentations.text() in page.locator("body").inner_text()
