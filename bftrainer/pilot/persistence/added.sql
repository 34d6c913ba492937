-- Tables that were added to the schema. A pilot makes those that are missing; readers of an older database do without.

-- The last, smallest and largest value of each metric of a trainer, with the samples at which it was reported first.
CREATE TABLE IF NOT EXISTS metrics (
  trainer TEXT NOT NULL,
  name TEXT NOT NULL,
  last REAL NOT NULL,
  least REAL NOT NULL,
  least_samples REAL NOT NULL,
  most REAL NOT NULL,
  most_samples REAL NOT NULL,
  PRIMARY KEY (trainer, name)
) WITHOUT ROWID;

-- The instants of a fragment that the audit does not contain (domain/node_stages.py), with the trainer that was meant, if any.
CREATE TABLE IF NOT EXISTS stages (
  fragment TEXT NOT NULL,
  stage TEXT NOT NULL,
  at_s REAL NOT NULL,
  trainer TEXT NOT NULL,
  PRIMARY KEY (fragment, stage)
) WITHOUT ROWID;

-- The samples that a trainer processed again after restarts.
CREATE TABLE IF NOT EXISTS repeated (
  trainer TEXT PRIMARY KEY,
  repeated_samples REAL NOT NULL
) WITHOUT ROWID;

-- The samples of its whole training that a trainer's script has reported.
CREATE TABLE IF NOT EXISTS lengths (
  trainer TEXT PRIMARY KEY,
  samples_total REAL NOT NULL
) WITHOUT ROWID;

-- What a trainer had reported when it came to a rung of a rule that ends trainers early (domain/stopping.py).
CREATE TABLE IF NOT EXISTS rungs (
  of_group TEXT NOT NULL,
  rule TEXT NOT NULL,
  samples REAL NOT NULL,
  trainer TEXT NOT NULL,
  value REAL NOT NULL,
  PRIMARY KEY (of_group, rule, samples, trainer)
) WITHOUT ROWID;

-- The sizes of a trainer, from least to most nodes, at which its memory did not suffice.
CREATE TABLE IF NOT EXISTS unfit (
  trainer TEXT NOT NULL,
  least_nodes INTEGER NOT NULL,
  most_nodes INTEGER NOT NULL,
  PRIMARY KEY (trainer, least_nodes, most_nodes)
) WITHOUT ROWID;
