"""A finetuning run that takes half a minute: GRPO in plain torch on tasks that the service chooses, in several ways.

`python -m examples.grpo_fast` runs it; docs/trainers/grpo_fast.md has the plan and the results.
"""
