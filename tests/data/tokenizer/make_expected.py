"""Writes notebook_expected.json, features.json and classes.json beside this file: what the tokenizers library does.

Run: see README.md. Nothing of the engine takes part.
"""

import copy
import json
import pathlib
import sys

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

here = pathlib.Path(__file__).parent
notebook = here / "../../../examples/qwen3/models/notebook/tokenizer.json"

AWKWARD = [
    "it'\u017f 'LL 'l\u017f",  # long s: another case of s
    "a\u180eb \u180e",  # not a space any more
    "a\u0085b\u2028c\u205fd\u3000e\ufefff",
    "x\U00031350y \U0002ebf0z \u1c89\u1c8a \U00011f50\U00011f51",  # letters and digits newer than PCRE2 10.42
    "\u0663\u0664\u2167\u00bd\u3007\u4e00",
    "tabs\t\tand \t mixed \n \n\tlines\r\n\r\n  end  ",
    "e\u0301\u0323 \u0323\u0301 \u1100\u1161\u11a8 \u0344 \u2126 \ufb1d",
    "a\x00b\x00\x00 \x7f\x1c\x1d",
    "<|im_end|>\u0338 <|im_start|><|im_start|> <|im_<|im_end|>",
    "\U0001f469\u200d\U0001f4bb\ufe0f \U0001f1e9\U0001f1ea\U0001f1eb",
    "don't_do.this(at)home[1234,5]={}; //~ \\",
]

LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
O200K = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
CL100K = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
)
DEEPSEEK = [r"\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+", r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"]

CORPUS = [
    "the cat sat on the mat and the dog sat on the other mat; 1234 cats and 567 dogs don't say that they're there",
    "def add(a, b):\n    return a + b\n\n\tfor i in range(100):\n        total += add(i, 1)\n",
    "na\u00efve caf\u00e9 \u4f60\u597d\u4e16\u754c \u043f\u0440\u0438\u0432\u0435\u0442 the other there then them",
]


def split(*patterns):
    steps = [pre_tokenizers.Split(p if isinstance(p, str) else Regex(p[0]), "isolated") for p in patterns]
    return pre_tokenizers.Sequence([*steps, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])


def trained(pre_tokenizer, normalizer=None, added=(), post_processor=None, edit=None):
    t = Tokenizer(models.BPE())
    t.pre_tokenizer = pre_tokenizer
    if normalizer:
        t.normalizer = normalizer
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    t.train_from_iterator(CORPUS * 3, trainers.BpeTrainer(vocab_size=340, show_progress=False, initial_alphabet=alphabet))
    t.decoder = decoders.ByteLevel()
    for token in added:
        (t.add_special_tokens if token.special else t.add_tokens)([token])
    if post_processor:
        t.post_processor = post_processor(t)
    description = json.loads(t.to_str())
    if edit:
        edit(description["model"])
    return description


def ignoring_merges(model):
    model["ignore_merges"] = True


def every_split(model):
    """All the ways to make a token are merges, in a bad order: two pairs then make one token."""
    vocab, merges = model["vocab"], []
    for word in sorted(vocab, key=vocab.get):
        merges += [[word[:i], word[i:]] for i in range(1, len(word)) if word[:i] in vocab and word[i:] in vocab]
    for i in range(0, len(merges) - 3, 2):
        merges[i], merges[i + 3] = merges[i + 3], merges[i]
    model["merges"] = merges


def as_lines(model):
    model["merges"] = ["#version: 0.2"] + [" ".join(pair) for pair in model["merges"]]


def template(t):
    tokens = [(name, t.token_to_id(name)) for name in ("<|begin|>", "<|end|>")]
    return processors.Sequence(
        [
            processors.ByteLevel(trim_offsets=False),
            processors.TemplateProcessing(single="<|begin|> $A <|end|>", pair="$A $B", special_tokens=tokens),
        ]
    )


def special(text, **options):
    return AddedToken(text, special=True, normalized=False, **options)


ADDED = [
    special("<|left|>", lstrip=True),
    special("<|right|>", rstrip=True),
    AddedToken("<|", normalized=False),
    AddedToken("e\u0301", normalized=True),
    AddedToken("o\u0302x", normalized=False),
    AddedToken("the cat", normalized=True, lstrip=True, rstrip=True),
    AddedToken("'s", normalized=True),
]
byte_level = pre_tokenizers.ByteLevel
FEATURES = {
    "gpt2": trained(byte_level(add_prefix_space=False)),
    "gpt2, a space before": trained(byte_level(add_prefix_space=True)),
    "digits one by one": trained(pre_tokenizers.Sequence([pre_tokenizers.Digits(True), byte_level(add_prefix_space=False)])),
    "digits together": trained(pre_tokenizers.Sequence([pre_tokenizers.Digits(False), byte_level(add_prefix_space=True)])),
    "llama3": trained(split([LLAMA3]), added=[special("<|begin|>"), special("<|end|>")], post_processor=template, edit=ignoring_merges),
    "cl100k": trained(split([CL100K]), normalizer=normalizers.NFC()),
    "o200k": trained(split([O200K]), normalizer=normalizers.Sequence([normalizers.NFC()])),
    "deepseek": trained(split(*[[p] for p in DEEPSEEK]), edit=as_lines),
    "literals": trained(split("at", " ", "."), edit=as_lines),
    "empty matches": trained(split([r"a*"])),
    "several ways": trained(split([LLAMA3]), edit=every_split),
    "several ways, merges ignored": trained(split([LLAMA3]), edit=lambda m: (every_split(m), ignoring_merges(m))),
    "added": trained(split([LLAMA3]), normalizer=normalizers.NFC(), added=ADDED),
}
EXTRA = [
    "the cat's mat,the  cat  's dogs\u2028the cat",
    "a <|left|> b<|right|> \t c<|left|><|right|><|<|left",
    "e\u0301 \u00e9 cafe\u0301x o\u0302x \u00f4x o\u0302\u0323x",
    "aaab aa baaa a",
    "there then them other others thethethe ththth",
]


def ranges(codes):
    result = []
    for code in codes:
        if result and result[-1][1] == code - 1:
            result[-1][1] = code
        else:
            result.append([code, code])
    return result


def members(pattern):
    whole = pre_tokenizers.Split(Regex(pattern), "removed")
    scalars = (code for code in range(0x110000) if not 0xD800 <= code < 0xE000)
    return ranges([code for code in scalars if not whole.pre_tokenize_str(chr(code))])


def rows(t, texts):
    return [{"text": text, "ids": t.encode(text).ids} for text in texts]


texts = [row["text"] for row in json.loads((here / "qwen_expected.json").read_text())] + AWKWARD
t = Tokenizer.from_file(str(notebook))
expected = [row | {"decoded": t.decode(row["ids"], skip_special_tokens=False)} for row in rows(t, texts)]
(here / "notebook_expected.json").write_text(json.dumps(expected, indent=0) + "\n")
features = [
    {"name": name, "tokenizer": d, "rows": rows(Tokenizer.from_str(json.dumps(d)), texts + EXTRA)}
    for name, d in FEATURES.items()
]
(here / "features.json").write_text(json.dumps(features, separators=(",", ":")).replace('{"name"', '\n{"name"') + "\n")
classes = {pattern: members(pattern) for pattern in (r"\s", r"\d", r"\p{L}", r"\p{N}", r"\p{M}", r"\p{P}", r"\p{S}")}
(here / "classes.json").write_text(json.dumps(classes, separators=(",", ":")) + "\n")
print(len(expected), "rows,", len(features), "features,", {k: len(v) for k, v in classes.items()}, file=sys.stderr)
