"""The model as transformers knows it: its weights as those of a LlamaForCausalLM, and back; its tokens.

Filling is no token there: a completion is filled with ends, which the trainer masks after the first one. All other
tokens have numbers smaller by one.
"""

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from examples.finetune.model import ANSWER_TOKENS, EPSILON, FILLING, PROMPT_TOKENS, Model

END = "<end>"
KEPT = FILLING + 1  # the first token that transformers knows
NORMS = {"before_attention": "input_layernorm", "before_network": "post_attention_layernorm"}
# Ours that are one matrix: what transformers has in their place, from top to bottom.
FUSED = {
    "to_heads": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "from_heads": ("self_attn.o_proj",),
    "widen": ("mlp.gate_proj", "mlp.up_proj"),
    "narrow": ("mlp.down_proj",),
}


def as_llama(model: Model) -> LlamaForCausalLM:
    """Return a model of transformers with the same weights, and so the same probabilities of every text."""
    config = model.config
    llama = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=model.vocabulary - KEPT,
            hidden_size=config.width,
            intermediate_size=config.inner,
            num_hidden_layers=config.layers,
            num_attention_heads=config.heads,
            max_position_embeddings=PROMPT_TOKENS + ANSWER_TOKENS,
            rms_norm_eps=EPSILON,
            tie_word_embeddings=False,
            pad_token_id=0,
            eos_token_id=0,
            bos_token_id=None,
        )
    )
    llama.load_state_dict(llama_weights(model))
    return llama


def llama_weights(model: Model) -> dict[str, Tensor]:
    """Return a model's weights under the names of transformers."""
    weights = model.state_dict()
    found = {
        "model.embed_tokens.weight": weights["embedding.weight"][KEPT:],
        "model.norm.weight": weights["norm.weight"],
        "lm_head.weight": weights["head.weight"][KEPT:],
    }
    for number in range(model.config.layers):
        own, other = f"layers.{number}", f"model.layers.{number}"
        for name, theirs in NORMS.items():
            found[f"{other}.{theirs}.weight"] = weights[f"{own}.{name}.weight"]
        for name, parts in FUSED.items():
            split = weights[f"{own}.{name}.weight"].chunk(len(parts))
            found.update({f"{other}.{theirs}.weight": part for theirs, part in zip(parts, split, strict=True)})
    return found


@torch.no_grad()
def copy_back(llama: LlamaForCausalLM, model: Model) -> None:
    """Give a model the weights of one of transformers: the exact evaluation needs the plain one."""
    learned = llama.state_dict()
    # A slice of a weight is that weight's own memory.
    for name, weight in llama_weights(model).items():
        weight.copy_(learned[name])


def tokenizer_of(model: Model) -> PreTrainedTokenizerFast:
    """Return a tokenizer with the model's tokens, one for each character."""
    numbers = {END: 0} | {character: number - KEPT for character, number in model.tokens.items()}
    core = Tokenizer(models.WordLevel(numbers, unk_token=END))
    core.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    core.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(tokenizer_object=core, pad_token=END, eos_token=END, padding_side="left")
