"""A real finetuning run on a laptop: TRL's GRPOTrainer on the tasks that BOTS chooses, beside uniform choice.

`python -m examples.grpo_cpu` runs it; docs/trainers/grpo_cpu.md tells what came of it.
"""
