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
INSERT INTO "journal" VALUES(1,1.79535750269064521794e+09,1,'{"$":"Event","at_s":1795357502.6906452,"changes":[{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"a","curve":{"$":"Curve","nodes":[1,2],"per_s":[10.0,20.0]},"min_nodes":1,"max_nodes":2,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":"fast","learning":null}},{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"b","curve":{"$":"Curve","nodes":[1,3],"per_s":[10.0,30.0]},"min_nodes":1,"max_nodes":3,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}}],"samples_done":[],"losses":[],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0],"wake_at_s":null,"answer":{"$":"Answer","counts":[0,0],"objective_value":0.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":[]},{"$set":[]}],"memory":null}','[{"$":"Answer","counts":[0,0],"objective_value":0.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',5.0500299994382658042e-04);
INSERT INTO "journal" VALUES(2,1.79535750310065364836e+09,1,'{"$":"Event","at_s":1795357503.1006536,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#ec3583-1","n2#ec3583-2","n3#ec3583-3"]},"left":{"$set":[]},"classes":[["fast",{"$set":["n1#ec3583-1","n2#ec3583-2"]}],["slow",{"$set":["n3#ec3583-3"]}]]}],"samples_done":[],"losses":[],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,0],"wake_at_s":null,"answer":{"$":"Answer","counts":[2,0],"objective_value":2400.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":["n1#ec3583-1","n2#ec3583-2"]},{"$set":[]}],"memory":{"$":"ClassMemories","by_class":[["fast",null],["slow",null]]}}','[{"$":"Answer","counts":[2,0],"objective_value":2400.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]},{"$":"Answer","counts":[],"objective_value":0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',1.48819999594707041978e-05);
INSERT INTO "journal" VALUES(3,1.79535750515068745613e+09,1,'{"$":"Event","at_s":1795357505.1506875,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n3#ec3583-3"]},"classes":[]}],"samples_done":[["a",30.0]],"losses":[["a",3.958801493553121]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,0],"wake_at_s":null,"answer":{"$":"Answer","counts":[2,0],"objective_value":2400.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":["n1#ec3583-1","n2#ec3583-2"]},{"$set":[]}],"memory":{"$":"ClassMemories","by_class":[["fast",null],["slow",null]]}}','[{"$":"Answer","counts":[2,0],"objective_value":2400.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',4.75490000098943710327e-04);
INSERT INTO "journal" VALUES(4,1795357507.43674,1,'{"$":"Event","at_s":1795357507.43674,"changes":[{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"c","curve":{"$":"Curve","nodes":[1,4],"per_s":[10.0,40.0]},"min_nodes":1,"max_nodes":4,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}}],"samples_done":[["a",70.0]],"losses":[["a",2.979354638400828]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,0,0],"wake_at_s":null,"answer":{"$":"Answer","counts":[2,0,0],"objective_value":2400.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":["n1#ec3583-1","n2#ec3583-2"]},{"$set":[]},{"$set":[]}],"memory":{"$":"ClassMemories","by_class":[["fast",null],["slow",null]]}}','[{"$":"Answer","counts":[2,0,0],"objective_value":2400.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',0.000521718000072724);
INSERT INTO "journal" VALUES(5,1.79535750746420741082e+09,1,'{"$":"Event","at_s":1795357507.4642074,"changes":[{"$":"PoolChanged","joined":{"$set":["n3#ec3583-4","n4#ec3583-5"]},"left":{"$set":[]},"classes":[["slow",{"$set":["n3#ec3583-4","n4#ec3583-5"]}]]}],"samples_done":[["a",70.0]],"losses":[["a",2.979354638400828]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,2,0],"wake_at_s":null,"answer":{"$":"Answer","counts":[2,2,0],"objective_value":4800.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":["n1#ec3583-1","n2#ec3583-2"]},{"$set":["n3#ec3583-4","n4#ec3583-5"]},{"$set":[]}],"memory":{"$":"ClassMemories","by_class":[["fast",null],["slow",null]]}}','[{"$":"Answer","counts":[2,0],"objective_value":2400.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]},{"$":"Answer","counts":[2],"objective_value":2400.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',7.73460001255443785339e-05);
INSERT INTO "journal" VALUES(6,1.79535751170578289034e+09,1,'{"$":"Event","at_s":1795357511.705783,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n1#ec3583-1"]},"classes":[]}],"samples_done":[["a",161.0],["b",70.0]],"losses":[["a",1.7930970263556576],["b",2.979354638400828]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,2,0],"wake_at_s":null,"answer":{"$":"Answer","counts":[1,2,0],"objective_value":3600.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":["n2#ec3583-2"]},{"$set":["n3#ec3583-4","n4#ec3583-5"]},{"$set":[]}],"memory":{"$":"ClassMemories","by_class":[["fast",null],["slow",null]]}}','[{"$":"Answer","counts":[1],"objective_value":1200.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]},{"$":"Answer","counts":[2,0],"objective_value":2400.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',2.51806000051146838814e-04);
INSERT INTO "journal" VALUES(7,1.79535751443394303323e+09,2,'{"$":"Event","at_s":1795357514.433943,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n2#ec3583-2","n3#ec3583-4","n4#ec3583-5"]},"classes":[]}],"samples_done":[["a",197.0],["b",117.0]],"losses":[["a",1.552323252349891],["b",2.2341778825386043]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0,0],"wake_at_s":null,"answer":{"$":"Answer","counts":[0,0,0],"objective_value":0.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":[]},{"$set":[]},{"$set":[]}],"memory":{"$":"ClassMemories","by_class":[["fast",null],["slow",null]]}}','[{"$":"Answer","counts":[0,0,0],"objective_value":0.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',5.72603999899001792073e-04);
INSERT INTO "journal" VALUES(8,1.7953575147481937408e+09,2,'{"$":"Event","at_s":1795357514.7481937,"changes":[{"$":"PoolChanged","joined":{"$set":["n2#ec3583-11001","n3#ec3583-11002","n4#ec3583-11003"]},"left":{"$set":[]},"classes":[["fast",{"$set":["n2#ec3583-11001"]}],["slow",{"$set":["n3#ec3583-11002","n4#ec3583-11003"]}]]}],"samples_done":[["a",197.0],["b",117.0]],"losses":[["a",1.552323252349891],["b",2.2341778825386043]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,2,0],"wake_at_s":null,"answer":{"$":"Answer","counts":[1,2,0],"objective_value":3600.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":["n2#ec3583-11001"]},{"$set":["n3#ec3583-11002","n4#ec3583-11003"]},{"$set":[]}],"memory":{"$":"ClassMemories","by_class":[["fast",null],["slow",null]]}}','[{"$":"Answer","counts":[1,0],"objective_value":1200.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]},{"$":"Answer","counts":[2],"objective_value":2400.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',1.22563000331865623593e-04);
INSERT INTO "journal" VALUES(9,1.7953575152338891029e+09,2,'{"$":"Event","at_s":1795357515.233889,"changes":[{"$":"TrainerFinished","trainer_id":"b"}],"samples_done":[["a",200.0]],"losses":[["a",1.5359186994318468]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,2],"wake_at_s":null,"answer":{"$":"Answer","counts":[1,2],"objective_value":3600.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":["n2#ec3583-11001"]},{"$set":["n3#ec3583-11002","n4#ec3583-11003"]}],"memory":{"$":"ClassMemories","by_class":[["fast",null],["slow",null]]}}','[{"$":"Answer","counts":[1],"objective_value":1200.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]},{"$":"Answer","counts":[2],"objective_value":2400.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',7.3730000167415710166e-05);
INSERT INTO "journal" VALUES(10,1.79535751566557550424e+09,2,'{"$":"Event","at_s":1795357515.6655755,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n2#ec3583-11001"]},"classes":[]}],"samples_done":[["a",210.0],["c",1.0]],"losses":[["a",1.4846752654281934],["c",4.96]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,2],"wake_at_s":null,"answer":{"$":"Answer","counts":[0,2],"objective_value":2400.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":[]},{"$set":["n3#ec3583-11002","n4#ec3583-11003"]}],"memory":{"$":"ClassMemories","by_class":[["fast",null],["slow",null]]}}','[{"$":"Answer","counts":[0],"objective_value":0.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]},{"$":"Answer","counts":[2],"objective_value":2400.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',1.02843000149732688441e-04);
INSERT INTO "journal" VALUES(11,1.79535751614280176158e+09,2,'{"$":"Event","at_s":1795357516.1428018,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#ec3583-11004","n5#ec3583-11005"]},"left":{"$set":[]},"classes":[["fast",{"$set":["n1#ec3583-11004"]}],["slow",{"$set":["n5#ec3583-11005"]}]]}],"samples_done":[["a",210.0],["c",10.0]],"losses":[["a",1.4846752654281934],["c",4.617528300035218]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,3],"wake_at_s":null,"answer":{"$":"Answer","counts":[1,3],"objective_value":4796.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":["n1#ec3583-11004"]},{"$set":["n3#ec3583-11002","n4#ec3583-11003","n5#ec3583-11005"]}],"memory":{"$":"ClassMemories","by_class":[["fast",null],["slow",null]]}}','[{"$":"Answer","counts":[1],"objective_value":1200.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]},{"$":"Answer","counts":[3],"objective_value":3596.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',6.86920002408442087471e-05);
INSERT INTO "journal" VALUES(12,1.79535751964600038526e+09,2,'{"$":"Event","at_s":1795357519.6460004,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n1#ec3583-11004"]},"classes":[]}],"samples_done":[["a",271.0],["c",78.0]],"losses":[["a",1.2625413579727258],["c",2.826438990975658]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,3],"wake_at_s":null,"answer":{"$":"Answer","counts":[0,3],"objective_value":3600.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":[]},{"$set":["n3#ec3583-11002","n4#ec3583-11003","n5#ec3583-11005"]}],"memory":{"$":"ClassMemories","by_class":[["fast",null],["slow",null]]}}','[{"$":"Answer","counts":[0],"objective_value":0.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]},{"$":"Answer","counts":[3],"objective_value":3600.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',1.31877000058011617511e-04);
INSERT INTO "journal" VALUES(13,1.79535751981212544437e+09,2,'{"$":"Event","at_s":1795357519.8121254,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n3#ec3583-11002","n4#ec3583-11003"]},"classes":[]}],"samples_done":[["a",271.0],["c",80.0]],"losses":[["a",1.2625413579727258],["c",2.790092855055242]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,1],"wake_at_s":null,"answer":{"$":"Answer","counts":[0,1],"objective_value":1200.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":[]},{"$set":["n5#ec3583-11005"]}],"memory":{"$":"ClassMemories","by_class":[["fast",null],["slow",null]]}}','[{"$":"Answer","counts":[0],"objective_value":0.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]},{"$":"Answer","counts":[1],"objective_value":1200.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',8.97830000212707091122e-05);
INSERT INTO "journal" VALUES(14,1.79535751991048336028e+09,2,'{"$":"Event","at_s":1795357519.9104834,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n5#ec3583-11005"]},"classes":[]}],"samples_done":[["a",271.0],["c",80.0]],"losses":[["a",1.2625413579727258],["c",2.790092855055242]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0],"wake_at_s":null,"answer":{"$":"Answer","counts":[0,0],"objective_value":0.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":[]},{"$set":[]}],"memory":{"$":"ClassMemories","by_class":[["fast",null],["slow",null]]}}','[{"$":"Answer","counts":[0,0],"objective_value":0.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',4.03292000100918812677e-04);
INSERT INTO "journal" VALUES(15,1.79535752021302556996e+09,2,'{"$":"Event","at_s":1795357520.2130256,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#ec3583-11006","n2#ec3583-11007","n3#ec3583-11008"]},"left":{"$set":[]},"classes":[["fast",{"$set":["n1#ec3583-11006","n2#ec3583-11007"]}],["slow",{"$set":["n3#ec3583-11008"]}]]}],"samples_done":[["a",271.0],["c",80.0]],"losses":[["a",1.2625413579727258],["c",2.790092855055242]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,0],"wake_at_s":null,"answer":{"$":"Answer","counts":[2,0],"objective_value":2400.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":["n1#ec3583-11006","n2#ec3583-11007"]},{"$set":[]}],"memory":{"$":"ClassMemories","by_class":[["fast",null],["slow",null]]}}','[{"$":"Answer","counts":[2,0],"objective_value":2400.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]},{"$":"Answer","counts":[],"objective_value":0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',1.3208999916969332844e-05);
CREATE TABLE last_state (
  only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
  journal INTEGER NOT NULL,
  state TEXT NOT NULL
);
INSERT INTO "last_state" VALUES(1,15,'{"$":"State","max_parallel":3,"at_s":1795357520.2130256,"pool":{"$set":["n1#ec3583-11006","n2#ec3583-11007","n3#ec3583-11008"]},"active":[{"$":"Active","trainer":{"$":"Trainer","id":"a","curve":{"$":"Curve","nodes":[1,2],"per_s":[10.0,20.0]},"min_nodes":1,"max_nodes":2,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":"fast","learning":null},"nodes":{"$set":["n1#ec3583-11006","n2#ec3583-11007"]},"samples_done":271.0,"admitted_s":1795357502.6906452,"run_s":15.753869771957397,"node_s":24.358999013900757,"losses":{"$":"Losses","first":3.958801493553121,"latest":1.2625413579727258,"at_samples":271.0,"per_sample":0.003641539466483075},"submitted":null,"sized_s":1795357520.2130256},{"$":"Active","trainer":{"$":"Trainer","id":"c","curve":{"$":"Curve","nodes":[1,4],"per_s":[10.0,40.0]},"min_nodes":1,"max_nodes":4,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null},"nodes":{"$set":[]},"samples_done":80.0,"admitted_s":1795357507.43674,"run_s":4.676594257354736,"node_s":12.924154281616211,"losses":{"$":"Losses","first":4.96,"latest":2.790092855055242,"at_samples":80.0,"per_sample":0.0181730679602079},"submitted":null,"sized_s":1795357519.9104834}],"queue":[],"memory":{"$":"ClassMemories","by_class":[["fast",null],["slow",null]]},"wake_at_s":null,"classes":[["fast",{"$set":["n1#ec3583-11006","n2#ec3583-11007"]}],["slow",{"$set":["n3#ec3583-11008"]}]],"window_ends":[],"lessons":[]}');
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
INSERT INTO "settings" VALUES(1,1.79535750265576124189e+09,'0.1.0','bftrainer','exact','throughput',120.0,0,3);
INSERT INTO "settings" VALUES(2,1.79535751442970561986e+09,'0.1.0','bftrainer','exact','throughput',120.0,0,3);
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
