"""The example's model and tasks, for trainers to be tried with on a CPU."""

import torch

from bots_client import Task
from examples.letters import LETTERS, begins_well, rows
from examples.trl_grpo import model, tokenizer

__all__ = ["IDS", "LETTERS", "ROWS", "TASKS", "begins_well", "model", "tokenizer"]

ROWS = [row for row in rows() if row["wanted"].islower()]  # those that the model can solve
IDS = [row["task_id"] for row in ROWS]
TASKS = [Task(task) for task in IDS]

torch.set_num_threads(1)  # more would only wait for each other over matrices this small
