"""From text to integers and back: vocabularies, characters, byte-pair encoding, padding."""
