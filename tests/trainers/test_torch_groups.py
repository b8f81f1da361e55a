"""A loop that trains with torch, asks for effective groups, and drops the others, as DAPO's filter does."""

import torch
from torch.nn.functional import log_softmax

from bots_client import Client, ResilientClient, Selector
from tests.trainers import tiny

WANTED, ROLLOUTS, STEPS = 6, 8, 12
ROWS = {row["task_id"]: row for row in tiny.ROWS}


def rolled_out(model, tokenizer, task):
    """Return the tokens of some answers to a task, where they begin, and their rewards."""
    row = ROWS[task]
    prompt = tokenizer(row["prompt"], return_tensors="pt").input_ids
    tokens = model.generate(prompt, do_sample=True, max_new_tokens=2, num_return_sequences=ROLLOUTS)
    begin = prompt.shape[1]
    answers = [tokenizer.decode(answer[begin:], skip_special_tokens=True) for answer in tokens]
    return tokens, begin, tiny.begins_well(answers, [row["wanted"]] * ROLLOUTS)


def loss_of(model, tokens, begin, rewards):
    """Return GRPO's loss of one group, of one step on its own policy."""
    rewards = torch.tensor(rewards)
    chosen = log_softmax(model(tokens).logits[:, :-1], -1).gather(2, tokens[:, 1:, None])[:, begin - 1 :, 0]
    return -(((rewards - rewards.mean()) / rewards.std())[:, None] * chosen).mean()


def test_a_loop_that_trains_gets_as_many_effective_groups_as_it_wants(url, tmp_path):
    with Client(url) as direct:
        direct.create_dataset("wanted", tiny.TASKS)
    model, tokenizer = tiny.model(), tiny.tokenizer()
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    expected = 0.0
    with ResilientClient(url, spool=tmp_path / "spool") as client:
        selector = Selector(client, "wanted", ids=tiny.IDS)
        for _ in range(STEPS):
            selection = selector.next(want_effective=WANTED)
            expected += selection.expected_effective or 0.0
            groups = {task: rolled_out(model, tokenizer, task) for task in selection.ids}
            for task, (_, _, rewards) in groups.items():
                selector.observe(task, rewards)
            kept = [group for group in groups.values() if len(set(group[2])) > 1]
            optimizer.zero_grad()
            torch.stack([loss_of(model, *group) for group in kept]).mean().backward()
            optimizer.step()
            selector.step()
        closed = list(client.direct.history("wanted"))
    assert len(closed) == STEPS
    assert sum(step.effective >= WANTED for step in closed) >= STEPS / 4
    assert abs(sum(step.effective for step in closed) / expected - 1) < 0.3
    first, last = (sum(step.mean_pass_rate or 0.0 for step in part) for part in (closed[:4], closed[-4:]))
    assert last > first, "it learned"
