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
INSERT INTO "journal" VALUES(1,1795357603.88249,1,'{"$":"Event","at_s":1795357603.88249,"changes":[{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"a","curve":{"$":"Curve","nodes":[1,2],"per_s":[10.0,20.0]},"min_nodes":1,"max_nodes":2,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}},{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"b","curve":{"$":"Curve","nodes":[1,3],"per_s":[10.0,30.0]},"min_nodes":1,"max_nodes":3,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}}],"samples_done":[],"losses":[],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0],"wake_at_s":null,"answer":null},"nodes":[{"$set":[]},{"$set":[]}],"memory":{"$":"bftrainer.policies.loss_phase:Phase","marks":[],"ages":["a","b"]}}','[]',7.40999998924962710589e-05);
INSERT INTO "journal" VALUES(2,1.79535760422638750082e+09,1,'{"$":"Event","at_s":1795357604.2263875,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#52cf5b-1","n2#52cf5b-2","n3#52cf5b-3"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#52cf5b-1","n2#52cf5b-2","n3#52cf5b-3"]}]]}],"samples_done":[],"losses":[],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,1],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n1#52cf5b-1","n2#52cf5b-2"]},{"$set":["n3#52cf5b-3"]}],"memory":{"$":"bftrainer.policies.loss_phase:Phase","marks":[],"ages":["a","b"]}}','[]',6.21330000285524874925e-05);
INSERT INTO "journal" VALUES(3,1795357608.3247,1,'{"$":"Event","at_s":1795357608.3247,"changes":[{"$":"PoolChanged","joined":{"$set":["n4#52cf5b-4"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n4#52cf5b-4"]}]]}],"samples_done":[["a",70.0],["b",70.0]],"losses":[["a",2.979354638400828],["b",2.979354638400828]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,2],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n1#52cf5b-1","n2#52cf5b-2"]},{"$set":["n3#52cf5b-3","n4#52cf5b-4"]}],"memory":{"$":"bftrainer.policies.loss_phase:Phase","marks":[],"ages":["a","b"]}}','[]',5.08650000483612529933e-05);
INSERT INTO "journal" VALUES(4,1.79535760955525851246e+09,1,'{"$":"Event","at_s":1795357609.5552585,"changes":[{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"c","curve":{"$":"Curve","nodes":[1,4],"per_s":[10.0,40.0]},"min_nodes":1,"max_nodes":4,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}}],"samples_done":[["a",90.0],["b",90.0]],"losses":[["a",2.6189278907132953],["b",2.6189278907132953]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,1,1],"wake_at_s":1795357611.5552585,"answer":null},"nodes":[{"$set":["n1#52cf5b-1","n2#52cf5b-2"]},{"$set":["n3#52cf5b-3"]},{"$set":["n4#52cf5b-4"]}],"memory":{"$":"bftrainer.policies.loss_phase:Phase","marks":[{"$":"bftrainer.policies.loss_phase:Mark","id":"a","samples":90.0,"loss":2.6189278907132953},{"$":"bftrainer.policies.loss_phase:Mark","id":"b","samples":90.0,"loss":2.6189278907132953},{"$":"bftrainer.policies.loss_phase:Mark","id":"c","samples":0.0,"loss":null}],"ages":[]}}','[]',5.97089997427247e-05);
INSERT INTO "journal" VALUES(5,1.79535761060250544552e+09,1,'{"$":"Event","at_s":1795357610.6025054,"changes":[{"$":"TrainerFinished","trainer_id":"b"}],"samples_done":[["a",110.0],["c",10.0]],"losses":[["a",2.3241323532840554],["c",4.617528300035218]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,2],"wake_at_s":1795357611.6025054,"answer":null},"nodes":[{"$set":["n1#52cf5b-1","n2#52cf5b-2"]},{"$set":["n3#52cf5b-3","n4#52cf5b-4"]}],"memory":{"$":"bftrainer.policies.loss_phase:Phase","marks":[{"$":"bftrainer.policies.loss_phase:Mark","id":"a","samples":90.0,"loss":2.6189278907132953},{"$":"bftrainer.policies.loss_phase:Mark","id":"c","samples":0.0,"loss":null}],"ages":[]}}','[]',5.31999999111576471477e-05);
INSERT INTO "journal" VALUES(6,1.795357611625310421e+09,1,'{"$":"Event","at_s":1795357611.6253104,"changes":[{"$":"TimerDue"}],"samples_done":[["a",141.0],["c",30.0]],"losses":[["a",1.9696665841783207],["c",3.958801493553121]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,2],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n1#52cf5b-1","n2#52cf5b-2"]},{"$set":["n3#52cf5b-3","n4#52cf5b-4"]}],"memory":{"$":"bftrainer.policies.loss_phase:Phase","marks":[],"ages":["a","c"]}}','[]',8.45959998514445e-05);
INSERT INTO "journal" VALUES(7,1.79535761293640518188e+09,1,'{"$":"Event","at_s":1795357612.9364052,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n1#52cf5b-1"]},"classes":[]}],"samples_done":[["a",161.0],["c",50.0]],"losses":[["a",1.7930970263556576],["c",3.4200242685501454]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,1],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n2#52cf5b-2","n4#52cf5b-4"]},{"$set":["n3#52cf5b-3"]}],"memory":{"$":"bftrainer.policies.loss_phase:Phase","marks":[],"ages":["a","c"]}}','[]',4.83720000374887604266e-05);
INSERT INTO "journal" VALUES(8,1.79535761738495159146e+09,2,'{"$":"Event","at_s":1795357617.3849516,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n2#52cf5b-2","n3#52cf5b-3","n4#52cf5b-4"]},"classes":[]}],"samples_done":[["a",206.0],["c",111.0]],"losses":[["a",1.5045568172078847],["c",2.3108910297512146]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0],"wake_at_s":null,"answer":null},"nodes":[{"$set":[]},{"$set":[]}],"memory":{"$":"bftrainer.policies.loss_phase:Phase","marks":[],"ages":["a","c"]}}','[]',4.73310001325444318354e-05);
INSERT INTO "journal" VALUES(9,1.79535761777032041542e+09,2,'{"$":"Event","at_s":1795357617.7703204,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#52cf5b-13001","n3#52cf5b-13002","n4#52cf5b-13003","n5#52cf5b-13004"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#52cf5b-13001","n3#52cf5b-13002","n4#52cf5b-13003","n5#52cf5b-13004"]}]]}],"samples_done":[["a",206.0],["c",111.0]],"losses":[["a",1.5045568172078847],["c",2.3108910297512146]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,2],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n1#52cf5b-13001","n3#52cf5b-13002"]},{"$set":["n4#52cf5b-13003","n5#52cf5b-13004"]}],"memory":{"$":"bftrainer.policies.loss_phase:Phase","marks":[],"ages":["a","c"]}}','[]',5.72260000808455515652e-05);
INSERT INTO "journal" VALUES(10,1.7953576210722014904e+09,2,'{"$":"Event","at_s":1795357621.0722015,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n1#52cf5b-13001","n3#52cf5b-13002","n4#52cf5b-13003","n5#52cf5b-13004"]},"classes":[]}],"samples_done":[["a",260.0],["c",160.0]],"losses":[["a",1.2932314761755528],["c",1.801108107429957]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0],"wake_at_s":null,"answer":null},"nodes":[{"$set":[]},{"$set":[]}],"memory":{"$":"bftrainer.policies.loss_phase:Phase","marks":[],"ages":["a","c"]}}','[]',5.46010001016838941723e-05);
INSERT INTO "journal" VALUES(11,1.7953576214726278782e+09,2,'{"$":"Event","at_s":1795357621.4726279,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#52cf5b-13005","n2#52cf5b-13006","n3#52cf5b-13007"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#52cf5b-13005","n2#52cf5b-13006","n3#52cf5b-13007"]}]]}],"samples_done":[["a",260.0],["c",160.0]],"losses":[["a",1.2932314761755528],["c",1.801108107429957]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,1],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n1#52cf5b-13005","n2#52cf5b-13006"]},{"$set":["n3#52cf5b-13007"]}],"memory":{"$":"bftrainer.policies.loss_phase:Phase","marks":[],"ages":["a","c"]}}','[]',4.89529998048965353518e-05);
CREATE TABLE last_state (
  only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
  journal INTEGER NOT NULL,
  state TEXT NOT NULL
);
INSERT INTO "last_state" VALUES(1,11,'{"$":"State","max_parallel":3,"at_s":1795357621.4726279,"pool":{"$set":["n1#52cf5b-13005","n2#52cf5b-13006","n3#52cf5b-13007"]},"active":[{"$":"Active","trainer":{"$":"Trainer","id":"a","curve":{"$":"Curve","nodes":[1,2],"per_s":[10.0,20.0]},"min_nodes":1,"max_nodes":2,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null},"nodes":{"$set":["n1#52cf5b-13005","n2#52cf5b-13006"]},"samples_done":260.0,"admitted_s":1795357603.88249,"run_s":16.460445165634155,"node_s":32.92089033126831,"losses":{"$":"Losses","first":2.979354638400828,"latest":1.2932314761755528,"at_samples":260.0,"per_sample":0.00391343224133948},"submitted":null,"sized_s":1795357621.4726279},{"$":"Active","trainer":{"$":"Trainer","id":"c","curve":{"$":"Curve","nodes":[1,4],"per_s":[10.0,40.0]},"min_nodes":1,"max_nodes":4,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null},"nodes":{"$set":["n3#52cf5b-13007"]},"samples_done":160.0,"admitted_s":1795357609.5552585,"run_s":11.131574153900146,"node_s":16.76735496520996,"losses":{"$":"Losses","first":4.617528300035218,"latest":1.801108107429957,"at_samples":160.0,"per_sample":0.010403733108597093},"submitted":null,"sized_s":1795357621.4726279}],"queue":[],"memory":{"$":"bftrainer.policies.loss_phase:Phase","marks":[],"ages":["a","c"]},"wake_at_s":null,"classes":[["0 cpus",{"$set":["n1#52cf5b-13005","n2#52cf5b-13006","n3#52cf5b-13007"]}]],"window_ends":[],"lessons":[]}');
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
INSERT INTO "settings" VALUES(1,1795357603.87419,'0.1.0','loss-phase?iterations=20&batch_samples=1','exact','throughput',120.0,0,3);
INSERT INTO "settings" VALUES(2,1.79535761735450220106e+09,'0.1.0','loss-phase?iterations=20&batch_samples=1','exact','throughput',120.0,0,3);
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
