"""tunix 0.1.7, `GRPOLearner` and whatever else derives from `RLLearner`: the iterable for its `train`.

    selector = Selector(None, "guru", ids=rows)
    reward_fns = reports_groups(selector, tasks_per_step=size)(reward)  # of bots_client.integrations.rewards
    learner.train(batches(selector, rows, size), eval_ds)

Rows of `eval_ds` have no `selection_id`, so they are not reported. To resume from training step 400, pass `trained=400`
(whole batches), and before that take the run there: `selector.client.direct.rewind("guru", 400)`. It is for one
controller process.
"""

import itertools

import numpy as np


def batches(selector, rows, size, *, trained=0):
    """Yield batches forever. A resuming learner draws and drops what it `trained` on: that asks for nothing.

    rows: the values of the columns for each task, by its id; one of the columns is "prompts".
    """
    for step in itertools.count():
        selection = None if step < trained else selector.next(size)
        ids = selector.ids[:size] if selection is None else selection.ids
        columns = {name: np.array([rows[task][name] for task in ids]) for name in rows[ids[0]]}
        chosen_by = "" if selection is None else selection.selection_id
        yield {**columns, "task_id": np.array(ids), "selection_id": np.array([chosen_by] * size)}
