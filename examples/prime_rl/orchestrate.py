"""Start prime-rl's orchestrator with tasks that the service chooses.

BOTS_URL=http://bots.example.com:8765 BOTS_DATASET=math BOTS_TASKS_PER_STEP=32 python orchestrate.py @ orchestrator.toml

It takes the place of the command `orchestrator`; inference and trainer are started as ever.
"""

from prime_rl.orchestrator import orchestrator

from bots_client.integrations.prime_rl import ServiceTrainSource

if __name__ == "__main__":
    orchestrator.TrainSource = ServiceTrainSource  # the configuration knows prime-rl's own samplers alone
    orchestrator.main()
