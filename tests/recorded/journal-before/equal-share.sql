BEGIN TRANSACTION;
CREATE TABLE commands (
  spool_name TEXT PRIMARY KEY,
  at_s REAL NOT NULL
);
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
CREATE TABLE journal (
  number INTEGER PRIMARY KEY,
  at_s REAL NOT NULL,
  settings INTEGER NOT NULL REFERENCES settings (number),
  event TEXT NOT NULL,
  plan TEXT NOT NULL,
  answers TEXT NOT NULL,
  took_s REAL NOT NULL
);
INSERT INTO "journal" VALUES(1,1.79535686176576590538e+09,1,'{"$":"Event","at_s":1795356861.765766,"changes":[{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"a","curve":{"$":"Curve","nodes":[1,2],"per_s":[10.0,20.0]},"min_nodes":1,"max_nodes":2,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}},{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"b","curve":{"$":"Curve","nodes":[1,3],"per_s":[10.0,30.0]},"min_nodes":1,"max_nodes":3,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":120.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}}],"samples_done":[],"losses":[],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0],"wake_at_s":null,"answer":null},"nodes":[{"$set":[]},{"$set":[]}],"memory":null}','[]',1.52229999912378843873e-05);
INSERT INTO "journal" VALUES(2,1.79535686215470623974e+09,1,'{"$":"Event","at_s":1795356862.1547062,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#73392c-1","n2#73392c-2","n3#73392c-3"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#73392c-1","n2#73392c-2","n3#73392c-3"]}]]}],"samples_done":[],"losses":[],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,1],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n1#73392c-1","n2#73392c-2"]},{"$set":["n3#73392c-3"]}],"memory":null}','[]',1.86679999387706629931e-05);
INSERT INTO "journal" VALUES(3,1.79535686620057654376e+09,1,'{"$":"Event","at_s":1795356866.2005765,"changes":[{"$":"PoolChanged","joined":{"$set":["n4#73392c-4"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n4#73392c-4"]}]]}],"samples_done":[["a",70.0],["b",70.0]],"losses":[["a",2.979354638400828],["b",2.979354638400828]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,2],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n1#73392c-1","n2#73392c-2"]},{"$set":["n3#73392c-3","n4#73392c-4"]}],"memory":null}','[]',2.04299999495560768991e-05);
INSERT INTO "journal" VALUES(4,1.79535686748725247388e+09,1,'{"$":"Event","at_s":1795356867.4872525,"changes":[{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"c","curve":{"$":"Curve","nodes":[1,4],"per_s":[10.0,40.0]},"min_nodes":1,"max_nodes":4,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}}],"samples_done":[["a",90.0],["b",90.0]],"losses":[["a",2.6189278907132953],["b",2.6189278907132953]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,1,1],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n1#73392c-1","n2#73392c-2"]},{"$set":["n3#73392c-3"]},{"$set":["n4#73392c-4"]}],"memory":null}','[]',1.51619999542162986472e-05);
INSERT INTO "journal" VALUES(5,1.79535686874836611752e+09,1,'{"$":"Event","at_s":1795356868.748366,"changes":[{"$":"TrainerFinished","trainer_id":"b"}],"samples_done":[["a",121.0],["c",10.0]],"losses":[["a",2.185546349596832],["c",4.617528300035218]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,2],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n1#73392c-1","n2#73392c-2"]},{"$set":["n3#73392c-3","n4#73392c-4"]}],"memory":null}','[]',1.34599999910278711467e-05);
INSERT INTO "journal" VALUES(6,1.79535687083644318585e+09,1,'{"$":"Event","at_s":1795356870.8364432,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n1#73392c-1"]},"classes":[]}],"samples_done":[["a",161.0],["c",50.0]],"losses":[["a",1.7930970263556576],["c",3.4200242685501454]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,1],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n2#73392c-2","n4#73392c-4"]},{"$set":["n3#73392c-3"]}],"memory":null}','[]',1.36710000333550851792e-05);
INSERT INTO "journal" VALUES(7,1.79535687448176646237e+09,2,'{"$":"Event","at_s":1795356874.4817665,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n2#73392c-2","n3#73392c-3","n4#73392c-4"]},"classes":[]}],"samples_done":[["a",210.0],["c",115.0]],"losses":[["a",1.4846752654281934],["c",2.259236692723808]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0],"wake_at_s":null,"answer":null},"nodes":[{"$set":[]},{"$set":[]}],"memory":null}','[]',1.72659999861934920772e-05);
INSERT INTO "journal" VALUES(8,1.79535687479555892943e+09,2,'{"$":"Event","at_s":1795356874.795559,"changes":[{"$":"PoolChanged","joined":{"$set":["n3#73392c-12002","n4#73392c-12003"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n3#73392c-12002","n4#73392c-12003"]}]]}],"samples_done":[["a",210.0],["c",115.0]],"losses":[["a",1.4846752654281934],["c",2.259236692723808]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,1],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n3#73392c-12002"]},{"$set":["n4#73392c-12003"]}],"memory":null}','[]',1.82679998488310957327e-05);
INSERT INTO "journal" VALUES(9,1.79535687522002267843e+09,2,'{"$":"Event","at_s":1795356875.2200227,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#73392c-12004","n5#73392c-12005"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#73392c-12004","n5#73392c-12005"]}]]}],"samples_done":[["a",211.0],["c",116.0]],"losses":[["a",1.4798285127739115],["c",2.24664432579657]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,2],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n1#73392c-12004","n3#73392c-12002"]},{"$set":["n4#73392c-12003","n5#73392c-12005"]}],"memory":null}','[]',2.07509999654575949534e-05);
INSERT INTO "journal" VALUES(10,1.79535687881571316714e+09,2,'{"$":"Event","at_s":1795356878.8157132,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n1#73392c-12004","n3#73392c-12002"]},"classes":[]}],"samples_done":[["a",280.0],["c",185.0]],"losses":[["a",1.2398360586858617],["c",1.623118997146847]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,1],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n5#73392c-12005"]},{"$set":["n4#73392c-12003"]}],"memory":null}','[]',1.93490000128804240375e-05);
INSERT INTO "journal" VALUES(11,1.79535687882637882235e+09,2,'{"$":"Event","at_s":1795356878.8263788,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n4#73392c-12003"]},"classes":[]}],"samples_done":[["a",280.0],["c",185.0]],"losses":[["a",1.2398360586858617],["c",1.623118997146847]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,0],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n5#73392c-12005"]},{"$set":[]}],"memory":null}','[]',1.95000000076106516644e-05);
INSERT INTO "journal" VALUES(12,1.79535687883170080184e+09,2,'{"$":"Event","at_s":1795356878.8317008,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n5#73392c-12005"]},"classes":[]}],"samples_done":[["a",280.0],["c",185.0]],"losses":[["a",1.2398360586858617],["c",1.623118997146847]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0],"wake_at_s":null,"answer":null},"nodes":[{"$set":[]},{"$set":[]}],"memory":null}','[]',1.33000000914762495085e-05);
INSERT INTO "journal" VALUES(13,1.79535687911528682707e+09,2,'{"$":"Event","at_s":1795356879.1152868,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#73392c-12006","n2#73392c-12007"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#73392c-12006","n2#73392c-12007"]}]]}],"samples_done":[["a",280.0],["c",185.0]],"losses":[["a",1.2398360586858617],["c",1.623118997146847]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,1],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n1#73392c-12006"]},{"$set":["n2#73392c-12007"]}],"memory":null}','[]',1.56040000547363888472e-05);
INSERT INTO "journal" VALUES(14,1.79535687941527915007e+09,2,'{"$":"Event","at_s":1795356879.4152792,"changes":[{"$":"PoolChanged","joined":{"$set":["n3#73392c-12008"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n3#73392c-12008"]}]]}],"samples_done":[["a",281.0],["c",181.0]],"losses":[["a",1.2374376980990032],["c",1.6486795600440263]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,1],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n1#73392c-12006","n3#73392c-12008"]},{"$set":["n2#73392c-12007"]}],"memory":null}','[]',1.46919999224337516352e-05);
CREATE TABLE last_state (
  only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
  journal INTEGER NOT NULL,
  state TEXT NOT NULL
);
INSERT INTO "last_state" VALUES(1,14,'{"$":"State","max_parallel":3,"at_s":1795356879.4152792,"pool":{"$set":["n1#73392c-12006","n2#73392c-12007","n3#73392c-12008"]},"active":[{"$":"Active","trainer":{"$":"Trainer","id":"a","curve":{"$":"Curve","nodes":[1,2],"per_s":[10.0,20.0]},"min_nodes":1,"max_nodes":2,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null},"nodes":{"$set":["n1#73392c-12006","n3#73392c-12008"]},"samples_done":281.0,"admitted_s":1795356861.765766,"run_s":16.66319441795349,"node_s":32.58594512939453,"losses":{"$":"Losses","first":2.979354638400828,"latest":1.2374376980990032,"at_samples":281.0,"per_sample":0.0023983605868584945},"submitted":null,"sized_s":1795356879.4152792},{"$":"Active","trainer":{"$":"Trainer","id":"c","curve":{"$":"Curve","nodes":[1,4],"per_s":[10.0,40.0]},"min_nodes":1,"max_nodes":4,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null},"nodes":{"$set":["n2#73392c-12007"]},"samples_done":181.0,"admitted_s":1795356867.4872525,"run_s":11.325326204299927,"node_s":17.009093761444092,"losses":{"$":"Losses","first":4.617528300035218,"latest":1.6486795600440263,"at_samples":181.0,"per_sample":0.009036598965938015},"submitted":null,"sized_s":1795356879.1152868}],"queue":[],"memory":null,"wake_at_s":null,"classes":[["0 cpus",{"$set":["n1#73392c-12006","n2#73392c-12007","n3#73392c-12008"]}]],"window_ends":[],"lessons":[]}');
CREATE TABLE lease (
  only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
  host TEXT NOT NULL,
  pid INTEGER NOT NULL,
  pid_started TEXT NOT NULL,
  job_id TEXT NOT NULL,
  started_s REAL NOT NULL,
  heartbeat_s REAL NOT NULL
);
CREATE TABLE meta (
  only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
  schema_version INTEGER NOT NULL,
  written_by TEXT NOT NULL
);
INSERT INTO "meta" VALUES(1,2,'0.1.0');
CREATE TABLE notes (
  number INTEGER PRIMARY KEY,
  at_s REAL NOT NULL,
  kind TEXT NOT NULL,
  subject TEXT NOT NULL,
  text TEXT NOT NULL
);
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
INSERT INTO "settings" VALUES(1,1.79535686175906229015e+09,'0.1.0','equal-share','exact','throughput',120.0,0,3);
INSERT INTO "settings" VALUES(2,1.79535687447751402855e+09,'0.1.0','equal-share','exact','throughput',120.0,0,3);
CREATE TABLE states (
  journal INTEGER PRIMARY KEY REFERENCES journal (number),
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
  failures INTEGER NOT NULL DEFAULT 0,  -- in a row, without progress
  samples_at_failure REAL,  -- progress is more than this; NULL: it has not failed yet
  not_before_s REAL NOT NULL DEFAULT 0,
  ended_incarnation INTEGER NOT NULL DEFAULT 0,  -- the last one whose end has been dealt with
  held_node_s REAL NOT NULL DEFAULT 0,
  trained_node_s REAL NOT NULL DEFAULT 0,
  stalled_node_s REAL NOT NULL DEFAULT 0
);
CREATE INDEX fragments_open ON fragments (released_s) WHERE released_s IS NULL;
COMMIT;
