"""The finetuning example in small: its stacked models, runs in lockstep, and the command with a service of its own."""

import math
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from bots_client import Client
from examples.finetune.course import Course, Record
from examples.finetune.families import Families
from examples.finetune.lockstep import Groups, Run, Trainer, train
from examples.finetune.model import ANSWER_TOKENS, END, FILLING, PROMPT_TOKENS, AdamW, Stack, encoded
from examples.finetune.notes import Notes
from examples.finetune.plan import ARMS, COMPARISONS, FAMILIES, Job, ModelConfig, Plan
from tests.serving import ServiceProcess, running_service

ROOT = Path(__file__).parents[2]
KIND = Families()
SMALL = replace(FAMILIES.made_small(), effective_groups=1)  # one digit is guessed now and then: there is a gradient
TINY = ModelConfig(width=8, inner=12, layers=2, heads=2, spread=0.5)
RUN_S = 600.0  # a busy machine
SEED = 40


@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


# --- the models -------------------------------------------------------------------------------------------------------


def all_completions(letters: int) -> torch.Tensor:
    """Every completion that a model of so many letters can write, [completions, ANSWER_TOKENS]."""
    characters = range(2, 2 + letters)
    rows = [
        [*written, END, *[FILLING] * (ANSWER_TOKENS - 1 - length)]
        for length in range(ANSWER_TOKENS)
        for written in product(characters, repeat=length)
    ]
    return torch.tensor([*rows, *map(list, product(characters, repeat=ANSWER_TOKENS))])


@torch.no_grad()
def enumerated(model: Stack, prompt: torch.Tensor, completions: torch.Tensor) -> torch.Tensor:
    """The probability of each completion, token by token, by transformers' own Llama."""
    llama, total = llama_of(model), torch.ones(len(completions), dtype=torch.float64)
    texts = torch.cat([prompt.expand(len(completions), -1), completions], dim=1)
    logits = llama(input_ids=texts).logits.double()
    logits[..., FILLING] = -torch.inf
    chances = logits.softmax(dim=-1)
    for place in range(ANSWER_TOKENS):
        token = completions[:, place]
        own = chances[torch.arange(len(texts)), PROMPT_TOKENS + place - 1, token]
        total *= torch.where(token == FILLING, 1.0, own)
    return total


def llama_of(stack: Stack) -> LlamaForCausalLM:
    """The first model of a stack as transformers knows it."""
    config, weights = stack.config, {name: weight[0] for name, weight in stack.weights.items()}
    llama = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=stack.vocabulary,
            hidden_size=config.width,
            intermediate_size=config.inner,
            num_hidden_layers=config.layers,
            num_attention_heads=config.heads,
            rms_norm_eps=1e-6,
            tie_word_embeddings=False,
        )
    )
    found = {"model.embed_tokens": weights["embedding"], "model.norm": weights["norm"], "lm_head": weights["head"]}
    fused = {
        "to_heads": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
        "from_heads": ("self_attn.o_proj",),
        "widen": ("mlp.gate_proj", "mlp.up_proj"),
        "narrow": ("mlp.down_proj",),
        "before_attention": ("input_layernorm",),
        "before_network": ("post_attention_layernorm",),
    }
    for layer, (name, theirs) in product(range(config.layers), fused.items()):
        split = weights[f"{name}.{layer}"].chunk(len(theirs))
        found |= {f"model.layers.{layer}.{other}": part for other, part in zip(theirs, split, strict=True)}
    llama.load_state_dict({f"{name}.weight": weight for name, weight in found.items()})
    return llama


def test_success_probabilities_and_samples_are_those_of_all_completions_enumerated():
    letters, seeds = 2, [1, 2]
    models = Stack.random(TINY, letters + 2, seeds, "cpu")
    prompts = torch.randint(2, 2 + letters, (1, PROMPT_TOKENS), generator=torch.Generator().manual_seed(5))
    completions = all_completions(letters)
    own = models.success_probabilities(
        prompts.expand(2, len(completions), -1), completions.expand(2, *completions.shape)
    )
    draws = 20_000
    noise = torch.empty(2, draws, ANSWER_TOKENS, letters + 2).exponential_(generator=torch.Generator().manual_seed(6))
    sampled = models.sample(prompts.expand(2, 1, -1), noise)
    for place in range(2):
        chances = enumerated(models.of([place]), prompts, completions)
        assert chances.sum() == pytest.approx(1)
        assert own[place] == pytest.approx(chances.numpy(), abs=1e-6)
        common = chances > 0.01
        assert common.sum() > 2
        for completion, chance in zip(completions[common], chances[common].tolist(), strict=True):
            share = float((sampled[place] == completion).all(dim=1).double().mean())
            assert share == pytest.approx(chance, abs=5 * math.sqrt(chance * (1 - chance) / draws))


def test_a_stack_learns_as_separate_models_do():
    """The slow obvious way: a model alone, torch's own clipping and AdamW."""
    seeds, rates = [1, 2, 3], [1e-3, 2e-3, 3e-3]
    rng = random.Random(4)
    problems = [[KIND.drawn(rng, group) for group in KIND.groups] for _ in seeds]
    pairs = [encoded(one, KIND.alphabet, "cpu") for one in problems]
    prompts, answers = (torch.stack(each) for each in zip(*pairs, strict=True))
    config, vocabulary = replace(TINY, width=16), len(KIND.alphabet) + 2
    optimizer = AdamW(Stack.random(config, vocabulary, seeds, "cpu"))
    alone = [Stack.random(config, vocabulary, [seed], "cpu") for seed in seeds]
    optimizers = []
    for one in alone:
        for weight in one.weights.values():
            weight.requires_grad_()
        optimizers.append(torch.optim.AdamW(one.weights.values(), weight_decay=0.0))
    for step in range(4):
        learns = torch.tensor([1.0, float(step != 1), 1.0])
        loss = lambda part, at=slice(None): -part.log_probabilities(prompts[at], answers[at]).sum(dim=(1, 2))  # noqa: E731
        optimizer.update(slice(0, 3), loss, torch.tensor(rates), learns)
        for place, one in enumerate(alone):
            if not learns[place]:
                continue
            optimizers[place].param_groups[0]["lr"] = rates[place]
            optimizers[place].zero_grad()
            loss(one, slice(place, place + 1)).sum().backward()
            torch.nn.utils.clip_grad_norm_(one.weights.values(), 1.0)
            optimizers[place].step()
    start = Stack.random(config, vocabulary, seeds, "cpu")
    for name, weight in optimizer.stack.weights.items():
        separate = torch.cat([one.weights[name].detach() for one in alone])
        torch.testing.assert_close(weight, separate, atol=2e-5, rtol=0)
        assert (weight - start.weights[name]).abs().max() > 1e-3


# --- runs in lockstep -------------------------------------------------------------------------------------------------

TRIED = ("shuffle", "pass", "pass-tags", "refill", "pass-wanted", "oracle")
JOBS = [*(Job(SEED, arm) for arm in TRIED), Job(41, "pass")]


def test_an_arm_that_refills_learns_once_it_has_enough_groups_and_drops_more():
    plan = replace(SMALL, effective_groups=3)
    refills, other = (Run(Job(SEED, arm), "", Notes(plan, SEED, arm), None) for arm in ("refill", "shuffle"))
    learned: dict[str, list[tuple[list[int], int]]] = {"refill": [], "shuffle": []}
    for first, count in ((0, 2), (2, 0), (2, 2), (4, 1)):
        groups = Groups(*(torch.arange(first, first + count) for _ in range(3)))
        for run in (refills, other):
            run.take(groups, tokens=10)
            lesson, tokens = run.lesson()
            learned[run.job.arm].append((lesson.prompts.tolist(), tokens))
    assert learned["shuffle"] == [([0, 1], 10), ([], 10), ([2, 3], 10), ([4], 10)]
    assert learned["refill"] == [([], 1), ([], 1), ([0, 1, 2], 30), ([], 1)]


def trained(service: ServiceProcess, folder: Path, jobs: list[Job] = JOBS, **options: Any) -> list[Course] | None:
    given: dict[str, Any] = {
        "budget_s": float("inf"),
        "checkpoint_every_s": float("inf"),
        "on_step": lambda _trainer: None,
        **options,
    }
    with Client(service.url, deadline_s=RUN_S) as client:
        return train(SMALL, jobs, client=client, folder=folder, **given)


def without_times(courses: list[Course] | None) -> list[Course]:
    assert courses is not None
    return [replace(one, seconds=0.0, cpu_seconds=0.0, service_seconds=0.0) for one in courses]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    with running_service(tmp_path_factory.mktemp("service")) as running:
        yield running


@pytest.fixture(scope="module")
def straight(service: ServiceProcess, tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Course], Path]:
    """All runs together, without a stop; the folder has their warm-ups."""
    folder = tmp_path_factory.mktemp("straight")
    return without_times(trained(service, folder)), folder


def test_every_run_has_the_rollouts_of_the_plan_and_some_learn(straight: tuple[list[Course], Path]):
    courses, folder = straight
    for job, course in zip(JOBS, courses, strict=True):
        assert (course.seed, course.arm) == job
        assert sum(course.visits) == SMALL.steps * SMALL.tasks_per_step
        assert len(course.accuracies) == SMALL.evaluations
        arrays = np.load(folder / "runs" / f"{job.seed}-{job.arm}.npz")
        assert (arrays["chosen"] >= 0).sum() == sum(course.visits)
        assert arrays["believed"].shape == arrays["pool"].shape == (SMALL.evaluations, sum(SMALL.pool))
    assert any(len(set(course.accuracies)) == SMALL.evaluations for course in courses)
    batches = {course.arm: len(course.solved) for course in courses}
    assert batches["refill"] == SMALL.steps != batches["pass-wanted"]


@pytest.mark.parametrize("job", [JOBS[1], JOBS[3], JOBS[5]])
def test_a_run_comes_out_the_same_alone(
    service: ServiceProcess, straight: tuple[list[Course], Path], tmp_path: Path, job: Job
):
    together, folder = straight
    (tmp_path / "warm-ups").symlink_to(folder / "warm-ups")
    (alone,) = without_times(trained(service, tmp_path, [job]))
    other = together[JOBS.index(job)]
    assert alone.visits == other.visits
    assert alone.accuracies == pytest.approx(other.accuracies, abs=1e-5)


def test_runs_stopped_at_every_step_come_out_the_same(
    service: ServiceProcess, straight: tuple[list[Course], Path], tmp_path: Path
):
    (tmp_path / "warm-ups").symlink_to(straight[1] / "warm-ups")
    while (courses := trained(service, tmp_path, budget_s=0.0)) is None:
        pass
    assert without_times(courses) == straight[0]


def test_runs_lose_nothing_when_the_service_is_killed_and_started_again(
    straight: tuple[list[Course], Path], tmp_path: Path
):
    with running_service(tmp_path / "service") as service:
        (tmp_path / "warm-ups").symlink_to(straight[1] / "warm-ups")

        def restart(trainer: Trainer) -> None:
            if trainer.runs[0].notes.steps == SMALL.steps // 2:
                service.kill()
                service.start()

        assert without_times(trained(service, tmp_path, on_step=restart)) == straight[0]


# --- the command ------------------------------------------------------------------------------------------------------

ARGUMENTS = ("--plan", "large", "--dry-run", "--arms", "shuffle,pass-r2,pass-tags,oracle")


def test_the_dry_run_is_killed_goes_on_and_reports_every_step_once(service: ServiceProcess, tmp_path: Path):
    done = subprocess.run(
        [sys.executable, "-m", "examples.finetune", *ARGUMENTS, "--url", service.url, "--output", tmp_path / "out"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=RUN_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert "Killed it after 2 checkpoints" in done.stdout
    assert (tmp_path / "out" / "chart.svg").exists()
    records = [Record.from_line(line) for line in (tmp_path / "out" / "results.jsonl").read_text("utf-8").splitlines()]
    plan = COMPARISONS["large"].plan.made_small()
    assert {record.plan for record in records} == {plan}
    assert len(records) == 8
    with Client(service.url) as client:
        for record in records:
            if record.course.arm != "oracle":
                check_journal(client, record.course, plan)


def check_journal(client: Client, course: Course, plan: Plan) -> None:
    """The newest pool of a run knows what its arm may know, and has every batch once."""
    start = f"additions-{course.seed}-{course.arm}-"
    (dataset,) = (one for one in client.datasets() if one.name.startswith(start))
    assert bool(dataset.reference_models) is ARMS[course.arm].references is (course.reference_rollouts > 0)
    assert bool(dataset.tags) is ARMS[course.arm].tags
    entries = client.journal(dataset.name, run=course.arm)
    reports = [entry for entry in entries if entry.kind == "report" and not entry.hidden]
    assert len(reports) == plan.steps
    assert sum(entry.rollouts or 0 for entry in reports) == plan.steps * plan.tasks_per_step * plan.rollouts
