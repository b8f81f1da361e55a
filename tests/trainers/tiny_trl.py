"""TRL's trainer with the example's model and tasks."""

from datasets import Dataset
from trl import GRPOConfig

from bots_client.integrations.trl import SelectedGRPOTrainer
from tests.trainers import tiny

GENERATIONS = 4
CHUNK = 2  # tasks of a generation batch


def config(folder, **settings):
    quick = {
        "per_device_train_batch_size": CHUNK * GENERATIONS, "num_generations": GENERATIONS,
        "max_completion_length": 2, "max_steps": 4, "logging_steps": 1, "save_strategy": "no", "report_to": [],
        "use_cpu": True, "bf16": False, "gradient_checkpointing": False, "disable_tqdm": True,
    }  # fmt: skip
    return GRPOConfig(str(folder), **quick | settings)


def trained(folder, selector, reward_funcs=tiny.begins_well, resume=None, dataset=None, success=None, **settings):
    evaluated = Dataset.from_list(tiny.ROWS[:2]) if "eval_strategy" in settings else None
    trainer = SelectedGRPOTrainer(
        tiny.model(),
        reward_funcs,
        config(folder, **settings),
        dataset if dataset is not None else Dataset.from_list(tiny.ROWS),
        evaluated,
        processing_class=tiny.tokenizer(),
        selector=selector,
        success=success,
    )
    trainer.train(resume_from_checkpoint=resume)
    return trainer
