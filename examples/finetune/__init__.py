"""A finetuning run that takes half a minute: GRPO in plain torch on tasks that the service chooses, in several ways.

`python -m examples.finetune` runs it; docs/studies/finetuning.md has the plan and the results.
"""
