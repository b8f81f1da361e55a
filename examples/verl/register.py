"""Make the pool of tasks that verl's training files hold.

python examples/verl/register.py gsm8k data/train.parquet --run qwen3-4b
"""

import argparse

from datasets import load_dataset

from bots_client import Client, Task
from bots_client.integrations.verl_data import rows_by_id


def main() -> None:
    """Register the tasks, and the run."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("dataset")
    arguments.add_argument("files", nargs="+", help="as in data.train_files")
    arguments.add_argument("--run", default="default", help="one for each model in training")
    arguments.add_argument("--id-key", default="extra_info.index", help="as in data.bots.id_key")
    given = arguments.parse_args()
    rows = load_dataset("parquet", data_files=given.files, split="train")
    with Client() as bots:
        pool = bots.create_dataset(given.dataset, [Task(task) for task in rows_by_id(rows, given.id_key)])
        bots.create_run(given.dataset, given.run)
    print(f"{pool.tasks} tasks in {pool.name}")


if __name__ == "__main__":
    main()
