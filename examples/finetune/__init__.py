"""GRPO of many small models in lockstep, in plain torch, on tasks that the service chooses in several ways.

`python -m examples.finetune` runs it; docs/studies/finetuning.md has the results, REGISTRATION.md what was asked.
"""
