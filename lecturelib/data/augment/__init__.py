"""Changes to batches of images, for training: flips and crops, RandAugment, mixup and CutMix, frequencies."""
