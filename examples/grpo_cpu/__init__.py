"""A real finetuning run on a laptop: TRL's GRPOTrainer on tasks selected by BOTS, and on uniformly sampled ones.

`python -m examples.grpo_cpu` runs it; docs/trainers/grpo_cpu.md has the results.
"""
