"""Writes chat.json beside this file: chat templates and the prompts that Jinja2 makes of them. Run: see README.md."""

import json
import pathlib

from jinja2.sandbox import ImmutableSandboxedEnvironment

TEMPLATES = {
    # As the model's tokenizer_config.json has it.
    "smollm2": "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
    # The shape of Qwen3's: no system message of its own, tools in a branch that a plain question does not take.
    "no system message": r"""{%- if tools %}
    {{- '<|im_start|>system\n' }}
    {%- if messages[0].role == 'system' %}{{- messages[0].content + '\n\n' }}{%- endif %}
    {{- "# Tools\n\n<tools>" }}{%- for tool in tools %}{{- "\n" }}{{- tool | tojson }}{%- endfor %}
    {{- "\n</tools><|im_end|>\n" }}
{%- else %}
    {%- if messages[0].role == 'system' %}
        {{- '<|im_start|>system\n' + messages[0].content + '<|im_end|>\n' }}
    {%- endif %}
{%- endif %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>' + '\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\n\n</think>\n\n' }}
    {%- endif %}
{%- endif %}""",
    # The shape of Qwen2.5's: a system message of its own.
    "own system message": r"""{%- if tools %}
    {{- '<|im_start|>system\n' }}{{- 'You are Helper, who knows it\'s "late".' }}{{- "<|im_end|>\n" }}
{%- else %}
    {%- if messages[0]['role'] == 'system' %}
        {{- '<|im_start|>system\n' + messages[0]['content'] + '<|im_end|>\n' }}
    {%- else %}
        {{- '<|im_start|>system\nYou are Helper, who knows it\'s "late".<|im_end|>\n' }}
    {%- endif %}
{%- endif %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>' + '\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
{%- endif %}
""",
    # A model that always thinks first.
    "opens a thought": r"""{%- for message in messages %}{{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}{%- endfor %}{%- if add_generation_prompt %}{{- "<|im_start|>assistant\n<think>\n" }}{%- endif %}""",
}

environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
result = []
for name, template in TEMPLATES.items():
    for user, system in [("What is 2+2?", ""), ("  two\nlines \n", ""), ("Why?", "You answer in verse.")]:
        messages = [{"role": "system", "content": system}] if system else []
        messages.append({"role": "user", "content": user})
        prompt = environment.from_string(template).render(messages=messages, add_generation_prompt=True)
        result.append({"name": name, "template": template, "user": user, "system": system, "prompt": prompt})
path = pathlib.Path(__file__).parent / "chat.json"
path.write_text(json.dumps(result, indent=1) + "\n")
