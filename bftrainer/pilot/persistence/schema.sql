-- The state of one pilot. One writer, the pilot that holds the lease; any number of readers.
-- Times are seconds since 1970.

CREATE TABLE meta (
  only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
  schema_version INTEGER NOT NULL,
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
  max_parallel INTEGER NOT NULL
);

-- One row per decision. event, plan and answers are JSON (bftrainer.persistence.codec).
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
  stalled_node_s REAL NOT NULL DEFAULT 0
);

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
