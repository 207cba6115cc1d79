"""What the recipes of this folder share: the files of a Hugging Face directory, written without its libraries."""

import json
import pathlib
import sys


def progress(what, done, total):
    """Call it after every piece of work: a line that is rewritten on a terminal, elsewhere one every tenth of the way."""
    on_terminal = sys.stderr.isatty()
    steps = 100 if on_terminal else 10
    if done * steps // total == (done - 1) * steps // total:
        return
    begin, end = ("\r", "\n" if done == total else "") if on_terminal else ("", "\n")
    print(f"{begin}{what}: {done} of {total}", end=end, file=sys.stderr, flush=True)


def write_json(path, value):
    pathlib.Path(path).write_text(json.dumps(value, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")


def byte_alphabet():
    """Byte -> the printable character that stands for it in a byte-level vocabulary (GPT-2's choice)."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    alphabet = {byte: chr(byte) for byte in printable}
    stand_in = 0x100
    for byte in range(0x100):
        if byte not in alphabet:
            alphabet[byte] = chr(stand_in)
            stand_in += 1
    return alphabet


def added_token(token_id, content, special):
    return {
        "id": token_id,
        "content": content,
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
        "special": special,
    }


def byte_level(**options):
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True} | options


def tokenizer_json(*, vocab, merges, added, normalizer, pre_tokenizers):
    """A tokenizer.json: byte-level BPE after the given steps."""
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": sorted(added, key=lambda token: token["id"]),
        "normalizer": normalizer,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": pre_tokenizers},
        "post_processor": None,
        "decoder": byte_level(add_prefix_space=True),
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": vocab,
            "merges": [list(pair) for pair in merges],
        },
    }
