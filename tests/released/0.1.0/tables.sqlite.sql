CREATE TABLE answers (
    scope TEXT NOT NULL, 
    "key" TEXT NOT NULL, 
    fingerprint TEXT NOT NULL, 
    result TEXT NOT NULL, 
    created_at DOUBLE NOT NULL, 
    CONSTRAINT pk_answers PRIMARY KEY (scope, "key")
);

CREATE TABLE datasets (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
    name TEXT, 
    version INTEGER NOT NULL, 
    retired INTEGER NOT NULL, 
    facts TEXT, 
    created_at DOUBLE NOT NULL, 
    CONSTRAINT uq_datasets_name UNIQUE (name)
);

CREATE TABLE retired_tasks (
    dataset_id INTEGER NOT NULL, 
    tasks BLOB NOT NULL, 
    CONSTRAINT pk_retired_tasks PRIMARY KEY (dataset_id), 
    CONSTRAINT fk_retired_tasks_dataset_id_datasets FOREIGN KEY(dataset_id) REFERENCES datasets (id) ON DELETE CASCADE
);

CREATE TABLE predictions (
    dataset_id INTEGER NOT NULL, 
    digest TEXT NOT NULL, 
    content BLOB NOT NULL, 
    CONSTRAINT pk_predictions PRIMARY KEY (dataset_id, digest), 
    CONSTRAINT fk_predictions_dataset_id_datasets FOREIGN KEY(dataset_id) REFERENCES datasets (id) ON DELETE CASCADE
);

CREATE TABLE runs (
    id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
    uid TEXT NOT NULL, 
    dataset_id INTEGER NOT NULL, 
    name TEXT NOT NULL, 
    settings TEXT NOT NULL, 
    head BIGINT NOT NULL, 
    epoch INTEGER NOT NULL, 
    parent_run TEXT, 
    parent_step INTEGER, 
    parent_seq BIGINT, 
    parent_how TEXT, 
    parent_discount DOUBLE, 
    created_at DOUBLE NOT NULL, 
    pruned BIGINT DEFAULT 0 NOT NULL, 
    predictions TEXT DEFAULT '[]' NOT NULL, 
    CONSTRAINT fk_runs_dataset_id_datasets FOREIGN KEY(dataset_id) REFERENCES datasets (id) ON DELETE CASCADE, 
    CONSTRAINT uq_runs_dataset_id_name UNIQUE (dataset_id, name)
);

CREATE TABLE task_blocks (
    dataset_id INTEGER NOT NULL, 
    position INTEGER NOT NULL, 
    first INTEGER NOT NULL, 
    count INTEGER NOT NULL, 
    body BLOB NOT NULL, 
    checksum BIGINT NOT NULL, 
    CONSTRAINT pk_task_blocks PRIMARY KEY (dataset_id, position), 
    CONSTRAINT fk_task_blocks_dataset_id_datasets FOREIGN KEY(dataset_id) REFERENCES datasets (id) ON DELETE CASCADE
);

CREATE TABLE journal (
    run_id INTEGER NOT NULL, 
    seq BIGINT NOT NULL, 
    epoch INTEGER NOT NULL, 
    kind TEXT NOT NULL, 
    profiles INTEGER NOT NULL, 
    body TEXT NOT NULL, 
    "key" TEXT, 
    fingerprint TEXT, 
    created_at DOUBLE NOT NULL, 
    CONSTRAINT pk_journal PRIMARY KEY (run_id, seq), 
    CONSTRAINT fk_journal_run_id_runs FOREIGN KEY(run_id) REFERENCES runs (id) ON DELETE CASCADE, 
    CONSTRAINT uq_journal_run_id_key UNIQUE (run_id, "key")
);

CREATE INDEX ix_journal_marks ON journal (run_id, seq) WHERE kind <> 'report';

CREATE INDEX ix_journal_settings ON journal (run_id, seq) WHERE kind = 'settings';

CREATE TABLE receipts (
    run_id INTEGER NOT NULL, 
    seq BIGINT NOT NULL, 
    epoch INTEGER NOT NULL, 
    step INTEGER NOT NULL, 
    closed BOOLEAN NOT NULL, 
    reported INTEGER NOT NULL, 
    effective INTEGER NOT NULL, 
    all_solved INTEGER NOT NULL, 
    none_solved INTEGER NOT NULL, 
    rollouts DOUBLE NOT NULL, 
    successes DOUBLE NOT NULL, 
    mean_pass_rate DOUBLE, 
    capability DOUBLE, 
    late INTEGER NOT NULL, 
    expired INTEGER NOT NULL, 
    brier DOUBLE, 
    log_loss DOUBLE, 
    created_at DOUBLE, 
    new_tasks INTEGER NOT NULL, 
    distinct_tasks INTEGER NOT NULL, 
    calibration BLOB, 
    tokens DOUBLE, 
    tokens_rollouts DOUBLE, 
    tokens_effective INTEGER, 
    seconds DOUBLE, 
    seconds_rollouts DOUBLE, 
    seconds_effective INTEGER, 
    CONSTRAINT pk_receipts PRIMARY KEY (run_id, seq), 
    CONSTRAINT fk_receipts_run_id_runs FOREIGN KEY(run_id) REFERENCES runs (id) ON DELETE CASCADE
);

CREATE INDEX ix_receipts_step ON receipts (run_id, step, seq);

CREATE TABLE snapshots (
    run_id INTEGER NOT NULL, 
    seq BIGINT NOT NULL, 
    epoch INTEGER NOT NULL, 
    step INTEGER NOT NULL, 
    bytes BIGINT NOT NULL, 
    checksum TEXT NOT NULL, 
    created_at DOUBLE NOT NULL, 
    wanted BOOLEAN NOT NULL, 
    blob BLOB NOT NULL, 
    CONSTRAINT pk_snapshots PRIMARY KEY (run_id, seq), 
    CONSTRAINT fk_snapshots_run_id_runs FOREIGN KEY(run_id) REFERENCES runs (id) ON DELETE CASCADE
);

CREATE TABLE outlooks (
    run_id INTEGER NOT NULL, 
    seq BIGINT NOT NULL, 
    step INTEGER NOT NULL, 
    uniform_effective_task_ratio DOUBLE NOT NULL, 
    distribution BLOB NOT NULL, 
    coverage TEXT NOT NULL, 
    created_at DOUBLE NOT NULL, 
    CONSTRAINT pk_outlooks PRIMARY KEY (run_id, seq), 
    CONSTRAINT fk_outlooks_run_id_runs FOREIGN KEY(run_id) REFERENCES runs (id) ON DELETE CASCADE
);

CREATE TABLE api_keys (
    id TEXT NOT NULL, 
    name TEXT NOT NULL, 
    digest TEXT NOT NULL, 
    scopes TEXT NOT NULL, 
    datasets TEXT NOT NULL, 
    rate_per_second DOUBLE, 
    burst INTEGER, 
    created_at DOUBLE NOT NULL, 
    expires_at DOUBLE, 
    revoked_at DOUBLE, 
    CONSTRAINT pk_api_keys PRIMARY KEY (id)
);

CREATE TABLE write_probe (
    id INTEGER NOT NULL, 
    written_at DOUBLE NOT NULL, 
    CONSTRAINT pk_write_probe PRIMARY KEY (id)
);

