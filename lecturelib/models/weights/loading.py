"""The one way in for weights that others have trained."""

from typing import Any, TypeVar

from torch import nn

from lecturelib.models.weights.checkpoint import Source, read_checkpoint
from lecturelib.models.weights.gguf import GGUF_LAYOUTS
from lecturelib.models.weights.huggingface import HUGGINGFACE
from lecturelib.models.weights.layout import Layout, copy_weights
from lecturelib.models.weights.timm import TIMM
from lecturelib.models.weights.torch_nn import TORCH_NN, TorchLayout

Model = TypeVar("Model", bound=nn.Module)

LAYOUTS: dict[type[nn.Module], tuple[Layout, ...]] = {
    model: tuple(table[model] for table in (HUGGINGFACE, TIMM, GGUF_LAYOUTS) if model in table)
    for model in dict.fromkeys((*HUGGINGFACE, *TIMM))
}
"""Which models can be loaded, and the layouts of each; where no name tells, the first is meant."""


def load(model: type[Model] | Model, source: Source, config: Any = None, *, new_head: bool = False) -> Model:
    """Build a model with weights that others have trained, or fill one that is built already.

        load(GPT, "gpt2")                                        # a name on the hub
        load(ViT, "folder/of/vit-base-patch16-224")              # config.json and model.safetensors
        load(Swin, timm_model.state_dict(), SWIN_TINY)           # timm's names; its files hold no sizes
        load(ViT, "folder", replace(VIT_BASE, num_classes=10), new_head=True)  # before fine-tuning on ten classes
        load(Llama, "SmolLM2-135M-Instruct.Q4_1.gguf")           # llama.cpp's file, made into float32
        load(MultiHeadAttention, torch.nn.MultiheadAttention(12, 3))

    Every name must find its place; one that is missing, left over or of the wrong shape is an error, and then nothing
    is copied.

    Args:
        model: a class, or a model to fill, which is returned. GPT, Llama, BERT, BERTPretraining, ViT, DeiT, Swin,
            SwinV2 and DecisionTransformer are read in the layout of the Hugging Face hub; ViT, DeiT, CaiT, Swin and
            SwinV2 in timm's; Llama from GGUF; MultiHeadAttention, Block, DecoderBlock and Recurrent from their
            counterparts in `torch.nn`
        source: a folder, a `.safetensors`, `.gguf` or `.bin` file, a name on the hub, a state dict, or a module
        config: the sizes; read from `config.json` or the GGUF file when left out and they are there
        new_head: let the head start afresh where the checkpoint has none, or one for another number of classes
    """
    kind = model if isinstance(model, type) else type(model)
    if (layer := _find(TORCH_NN, kind)) is not None:
        return _load_layer(model, source, layer, config)
    layouts = _find(LAYOUTS, kind)
    if layouts is None:
        known = ", ".join(sorted(known.__name__ for known in (*LAYOUTS, *TORCH_NN)))
        raise TypeError(f"there is no foreign layout for {kind.__name__}; known are {known}")
    tensors, settings = read_checkpoint(source)
    layout = next((one for one in layouts if one.mark and any(one.mark in name for name in tensors)), layouts[0])
    if isinstance(model, nn.Module):
        if config is not None:
            raise ValueError(f"this {kind.__name__} is built already; give its class to build another with config=")
        ours: Any = model
    else:
        if config is None and (settings is None or layout.config is None):
            raise ValueError(f"the sizes are not in the weights alone; pass config=, such as config={layout.preset}")
        if config is None and layout.config is not None and settings is not None:
            config = layout.config(settings)
        ours = layout.build(model, config, tensors)
    copy_weights(
        ours,
        tensors,
        layout.entries(ours),
        tied=layout.tied,
        ignored=layout.ignored,
        rename=layout.rename,
        head=layout.head,
        new_head=new_head,
    )
    return ours


def _find(table: dict[type[nn.Module], Any], kind: type) -> Any:
    return next((table[base] for base in kind.__mro__ if base in table), None)


def _load_layer(model: type[Model] | Model, source: Source, layout: TorchLayout, config: Any) -> Model:
    kind = model if isinstance(model, type) else type(model)
    if not isinstance(source, layout.theirs):
        needs, got = layout.theirs.__name__, type(source).__name__
        raise TypeError(f"a {kind.__name__} is loaded from a torch.nn.{needs} module, got a {got}")
    if config is not None:
        raise ValueError(f"a {kind.__name__} takes its sizes from the torch module; leave config out")
    ours: Any = layout.build(source) if isinstance(model, type) else model
    copy_weights(ours, layout.tensors(source), layout.entries(ours, source))
    return ours
