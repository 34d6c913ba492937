-- The state of one pilot. One writer, the pilot that holds the lease; any number of readers.
-- Times are seconds since 1970. A change of a table or column is a new FORMAT (database_checks.py).

CREATE TABLE meta (
  only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
  format INTEGER NOT NULL,
  written_by TEXT NOT NULL
);

-- The pilot of this state directory. A recent heartbeat or a live process keeps other pilots out.
CREATE TABLE lease (
  only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
  host TEXT NOT NULL,
  pid INTEGER NOT NULL,
  pid_started TEXT NOT NULL,
  job_id TEXT NOT NULL,
  started_s REAL NOT NULL,
  heartbeat_s REAL NOT NULL
);

-- The settings that decisions depend on: a new row at each start and each reload.
CREATE TABLE settings (
  number INTEGER PRIMARY KEY,
  at_s REAL NOT NULL,
  version TEXT NOT NULL,
  policy TEXT NOT NULL,
  solver TEXT NOT NULL,
  objective TEXT NOT NULL,
  forward_s REAL NOT NULL,
  seed INTEGER NOT NULL,
  max_parallel INTEGER,  -- NULL: all trainers are admitted
  gather_s REAL NOT NULL
);

-- One row per decision. event, plan and answers are JSON (bftrainer.pilot.persistence.codec).
CREATE TABLE journal (
  number INTEGER PRIMARY KEY,
  at_s REAL NOT NULL,
  settings INTEGER NOT NULL REFERENCES settings (number),
  event TEXT NOT NULL,
  plan TEXT NOT NULL,
  answers TEXT NOT NULL,
  took_s REAL NOT NULL
);

-- Snapshots of the state every so many decisions, from which a past moment is reconstructed.
CREATE TABLE states (
  journal INTEGER PRIMARY KEY REFERENCES journal (number),
  state TEXT NOT NULL
);

-- The state after the last decision, from which a restarted pilot resumes.
CREATE TABLE last_state (
  only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
  journal INTEGER NOT NULL,
  state TEXT NOT NULL
);

CREATE TABLE trainers (
  number INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  spec TEXT NOT NULL,
  owner TEXT NOT NULL,
  spool_name TEXT NOT NULL UNIQUE,
  submitted_s REAL NOT NULL,
  admitted_s REAL,
  started_s REAL,
  finished_s REAL,
  status TEXT NOT NULL,
  reason TEXT NOT NULL DEFAULT '',
  samples_done REAL NOT NULL DEFAULT 0,
  failures INTEGER NOT NULL DEFAULT 0,  -- consecutive, without progress
  samples_at_failure REAL,  -- progress means more samples than this; NULL: no failure yet
  not_before_s REAL NOT NULL DEFAULT 0,
  ended_incarnation INTEGER NOT NULL DEFAULT 0,  -- the last one whose end has been handled
  held_node_s REAL NOT NULL DEFAULT 0,
  trained_node_s REAL NOT NULL DEFAULT 0,
  stalled_node_s REAL NOT NULL DEFAULT 0,
  repeated_samples REAL NOT NULL DEFAULT 0,  -- processed again after restarts
  reported_total REAL  -- samples of the whole training, as its script reports them; NULL: it reports none
);

-- The sizes of a trainer, from least to most nodes, at which its memory did not suffice.
CREATE TABLE unfit (
  trainer TEXT NOT NULL,
  least_nodes INTEGER NOT NULL,
  most_nodes INTEGER NOT NULL,
  PRIMARY KEY (trainer, least_nodes, most_nodes)
) WITHOUT ROWID;

-- The last, smallest and largest value of each metric of a trainer, with the samples at which it was reported first.
CREATE TABLE metrics (
  trainer TEXT NOT NULL,
  name TEXT NOT NULL,
  last REAL NOT NULL,
  least REAL NOT NULL,
  least_samples REAL NOT NULL,
  most REAL NOT NULL,
  most_samples REAL NOT NULL,
  PRIMARY KEY (trainer, name)
) WITHOUT ROWID;

-- What a trainer had reported when it came to a rung of a rule that ends trainers early (decide/domain/stopping.py).
CREATE TABLE rungs (
  of_group TEXT NOT NULL,
  rule TEXT NOT NULL,
  samples REAL NOT NULL,
  trainer TEXT NOT NULL,
  value REAL NOT NULL,
  PRIMARY KEY (of_group, rule, samples, trainer)
) WITHOUT ROWID;

-- The audit of nodes: when each was requested, taken, preempted or given up (asked_back_s) and released, and why.
CREATE TABLE fragments (
  number INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  node TEXT NOT NULL,
  asked_s REAL NOT NULL,
  taken_s REAL,
  asked_back_s REAL,
  released_s REAL,
  reason TEXT NOT NULL DEFAULT ''
);
CREATE INDEX fragments_open ON fragments (released_s) WHERE released_s IS NULL;

-- The instants of a fragment that the audit does not contain (decide/domain/node_stages.py), with the trainer that was meant, if any.
CREATE TABLE stages (
  fragment TEXT NOT NULL,
  stage TEXT NOT NULL,
  at_s REAL NOT NULL,
  trainer TEXT NOT NULL,
  PRIMARY KEY (fragment, stage)
) WITHOUT ROWID;

-- Other events: refusals, failed polls, commands, starts and ends of the pilot.
CREATE TABLE notes (
  number INTEGER PRIMARY KEY,
  at_s REAL NOT NULL,
  kind TEXT NOT NULL,
  subject TEXT NOT NULL,
  text TEXT NOT NULL
);

-- Commands that have been carried out, by spool name, so that none is carried out twice.
CREATE TABLE commands (
  spool_name TEXT PRIMARY KEY,
  at_s REAL NOT NULL
);
