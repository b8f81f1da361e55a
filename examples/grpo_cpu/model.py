"""A small language model made from scratch, and what it makes of problems."""

from collections.abc import Sequence

import torch
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from examples.grpo_cpu.tasks import DIGITS, Problem, is_solved

FILLING, END = "<pad>", "<end>"
WORDS = (FILLING, END, *"0123456789+=")
ANSWER_TOKENS = DIGITS + 2  # one digit more than the numbers have, and the end
AT_ONCE = 1024  # completions in one call: more would only take memory


def new_tokenizer() -> PreTrainedTokenizerFast:
    """Return a tokenizer with one token per character."""
    numbers = {word: number for number, word in enumerate(WORDS)}
    core = Tokenizer(models.WordLevel(numbers, unk_token=FILLING))
    core.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    core.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(tokenizer_object=core, pad_token=FILLING, eos_token=END, padding_side="left")


def new_model(seed: int) -> LlamaForCausalLM:
    """Return a model of 280,000 random weights."""
    torch.manual_seed(seed)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(WORDS),
            hidden_size=96,
            intermediate_size=192,
            num_hidden_layers=3,
            num_attention_heads=4,
            max_position_embeddings=32,
            tie_word_embeddings=False,
            pad_token_id=WORDS.index(FILLING),
            eos_token_id=WORDS.index(END),
            bos_token_id=None,
        )
    )


def solved(model: LlamaForCausalLM, problems: Sequence[Problem], *, attempts: int, seed: int) -> list[int]:
    """Return how many attempts at each problem succeed, sampled as in training, whose own draws stay as they are."""
    tokenizer = new_tokenizer()
    counts: list[int] = []
    was_training = model.training
    model.eval()
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(seed)
        for first in range(0, len(problems), max(AT_ONCE // attempts, 1)):
            some = problems[first : first + max(AT_ONCE // attempts, 1)]
            texts = completions(model, tokenizer, [problem.prompt for problem in some], attempts)
            for place, problem in enumerate(some):
                own = texts[place * attempts : (place + 1) * attempts]
                counts.append(sum(is_solved(text, problem.answer) for text in own))
    model.train(was_training)
    return counts


def completions(
    model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, prompts: list[str], attempts: int
) -> list[str]:
    """Return so many sampled completions of each prompt, those of one prompt in a row."""
    read = tokenizer(prompts, return_tensors="pt", padding=True)
    written = model.generate(
        input_ids=read["input_ids"],
        attention_mask=read["attention_mask"],
        max_new_tokens=ANSWER_TOKENS,
        do_sample=True,
        top_k=0,
        num_return_sequences=attempts,
    )
    texts: list[str] = tokenizer.batch_decode(written[:, read["input_ids"].shape[1] :], skip_special_tokens=True)
    return texts
