#!/usr/bin/env bash
# GRPO on GSM8K with verl 0.7 to 0.9, tasks chosen by BOTS. The lines with "bots", and the reward function, are added to an
# ordinary verl command; data.dataloader_num_workers must be as here.
#   DATA: folder of train.parquet and test.parquet. BOTS_URL, BOTS_API_KEY: of the service, as every node sees it.
set -euo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"  # reward workers may stand elsewhere
BOTS_URL="${BOTS_URL:?the address of the service, as every node sees it}"

python -m verl.trainer.main_ppo \
    algorithm.adv_estimator=grpo \
    data.train_files="$DATA/train.parquet" \
    data.val_files="$DATA/test.parquet" \
    data.train_batch_size=512 \
    data.max_prompt_length=512 \
    data.max_response_length=1024 \
    data.shuffle=false \
    data.dataloader_num_workers=0 \
    data.custom_cls.path=pkg://bots_client.integrations.verl \
    data.custom_cls.name=BotsDataset \
    +data.bots="{dataset: gsm8k, run: qwen3-4b, id_key: extra_info.index, url: '$BOTS_URL'}" \
    reward.custom_reward_function.path="$here/reward.py" \
    actor_rollout_ref.model.path="${MODEL:-Qwen/Qwen3-4B}" \
    actor_rollout_ref.rollout.name=vllm \
    actor_rollout_ref.rollout.n=16 \
    trainer.n_gpus_per_node=8 \
    trainer.total_epochs=4 \
    trainer.save_freq=20 \
    "$@"
