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
INSERT INTO "journal" VALUES(1,1.79535772269302558901e+09,1,'{"$":"Event","at_s":1795357722.6930256,"changes":[{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"a","curve":{"$":"Curve","nodes":[1,2],"per_s":[10.0,20.0]},"min_nodes":1,"max_nodes":2,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}},{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"b","curve":{"$":"Curve","nodes":[1,3],"per_s":[10.0,30.0]},"min_nodes":1,"max_nodes":3,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}}],"samples_done":[],"losses":[],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0],"wake_at_s":null,"answer":null},"nodes":[{"$set":[]},{"$set":[]}],"memory":null}','[]',5.99600002715305890887e-05);
INSERT INTO "journal" VALUES(2,1.79535772312031459809e+09,1,'{"$":"Event","at_s":1795357723.1203146,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#542a19-1","n2#542a19-2","n3#542a19-3"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#542a19-1","n2#542a19-2","n3#542a19-3"]}]]}],"samples_done":[],"losses":[],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,1],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n1#542a19-1","n2#542a19-2"]},{"$set":["n3#542a19-3"]}],"memory":null}','[]',5.89769997532130219042e-05);
INSERT INTO "journal" VALUES(3,1.79535772694428825383e+09,1,'{"$":"Event","at_s":1795357726.9442883,"changes":[{"$":"PoolChanged","joined":{"$set":["n4#542a19-4"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n4#542a19-4"]}]]}],"samples_done":[["a",61.0],["b",61.0]],"losses":[["a",3.1667403038674142],["b",3.1667403038674142]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,2],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n1#542a19-1","n2#542a19-2"]},{"$set":["n3#542a19-3","n4#542a19-4"]}],"memory":null}','[]',5.70649999644956551492e-05);
INSERT INTO "journal" VALUES(4,1.79535772812033557889e+09,1,'{"$":"Event","at_s":1795357728.1203356,"changes":[{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"c","curve":{"$":"Curve","nodes":[1,4],"per_s":[10.0,40.0]},"min_nodes":1,"max_nodes":4,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}}],"samples_done":[["a",81.0],["b",80.0]],"losses":[["a",2.77219192650469],["b",2.790092855055242]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,1,1],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n1#542a19-1","n2#542a19-2"]},{"$set":["n3#542a19-3"]},{"$set":["n4#542a19-4"]}],"memory":null}','[]',6.96539996170031372457e-05);
INSERT INTO "journal" VALUES(5,1.79535773020509028434e+09,1,'{"$":"Event","at_s":1795357730.2050903,"changes":[{"$":"TrainerFinished","trainer_id":"b"}],"samples_done":[["a",121.0],["c",30.0]],"losses":[["a",2.185546349596832],["c",3.958801493553121]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,2],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n1#542a19-1","n2#542a19-2"]},{"$set":["n3#542a19-3","n4#542a19-4"]}],"memory":null}','[]',4.07009997616114560514e-05);
INSERT INTO "journal" VALUES(6,1.79535773164494943617e+09,1,'{"$":"Event","at_s":1795357731.6449494,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n1#542a19-1"]},"classes":[]}],"samples_done":[["a",150.0],["c",50.0]],"losses":[["a",1.8858071489554438],["c",3.4200242685501454]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,1],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n2#542a19-2","n4#542a19-4"]},{"$set":["n3#542a19-3"]}],"memory":null}','[]',4.18829999944136943668e-05);
INSERT INTO "journal" VALUES(7,1.79535773655188465123e+09,2,'{"$":"Event","at_s":1795357736.5518847,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n2#542a19-2","n3#542a19-3","n4#542a19-4"]},"classes":[]}],"samples_done":[["a",200.0],["c",111.0]],"losses":[["a",1.5359186994318468],["c",2.3108910297512146]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0],"wake_at_s":null,"answer":null},"nodes":[{"$set":[]},{"$set":[]}],"memory":null}','[]',5.78560002395533956587e-05);
INSERT INTO "journal" VALUES(8,1.79535773701696228983e+09,2,'{"$":"Event","at_s":1795357737.0169623,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#542a19-13001","n3#542a19-13002","n4#542a19-13003","n5#542a19-13004"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#542a19-13001","n3#542a19-13002","n4#542a19-13003","n5#542a19-13004"]}]]}],"samples_done":[["a",200.0],["c",111.0]],"losses":[["a",1.5359186994318468],["c",2.3108910297512146]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,2],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n1#542a19-13001","n3#542a19-13002"]},{"$set":["n4#542a19-13003","n5#542a19-13004"]}],"memory":null}','[]',5.24580000273999758064e-05);
INSERT INTO "journal" VALUES(9,1.7953577396469445229e+09,2,'{"$":"Event","at_s":1795357739.6469445,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n1#542a19-13001"]},"classes":[]}],"samples_done":[["a",241.0],["c",150.0]],"losses":[["a",1.3549293300612055],["c",1.8858071489554438]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,1],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n3#542a19-13002","n5#542a19-13004"]},{"$set":["n4#542a19-13003"]}],"memory":null}','[]',5.99190002503746654838e-05);
INSERT INTO "journal" VALUES(10,1.79535773980323576926e+09,2,'{"$":"Event","at_s":1795357739.8032358,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n3#542a19-13002","n4#542a19-13003","n5#542a19-13004"]},"classes":[]}],"samples_done":[["a",241.0],["c",152.0]],"losses":[["a",1.3549293300612055],["c",1.8681795866912303]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0],"wake_at_s":null,"answer":null},"nodes":[{"$set":[]},{"$set":[]}],"memory":null}','[]',4.69799997517839074134e-05);
INSERT INTO "journal" VALUES(11,1.79535774026465582853e+09,2,'{"$":"Event","at_s":1795357740.2646558,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#542a19-13005","n2#542a19-13006","n3#542a19-13007"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#542a19-13005","n2#542a19-13006","n3#542a19-13007"]}]]}],"samples_done":[["a",241.0],["c",152.0]],"losses":[["a",1.3549293300612055],["c",1.8681795866912303]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,1],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n1#542a19-13005","n2#542a19-13006"]},{"$set":["n3#542a19-13007"]}],"memory":null}','[]',4.69609999527165200561e-05);
CREATE TABLE last_state (
  only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
  journal INTEGER NOT NULL,
  state TEXT NOT NULL
);
INSERT INTO "last_state" VALUES(1,11,'{"$":"State","max_parallel":3,"at_s":1795357740.2646558,"pool":{"$set":["n1#542a19-13005","n2#542a19-13006","n3#542a19-13007"]},"active":[{"$":"Active","trainer":{"$":"Trainer","id":"a","curve":{"$":"Curve","nodes":[1,2],"per_s":[10.0,20.0]},"min_nodes":1,"max_nodes":2,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null},"nodes":{"$set":["n1#542a19-13005","n2#542a19-13006"]},"samples_done":241.0,"admitted_s":1795357722.6930256,"run_s":16.217843532562256,"node_s":32.43568706512451,"losses":{"$":"Losses","first":3.1667403038674142,"latest":1.3549293300612055,"at_samples":241.0,"per_sample":0.0044143748626985675},"submitted":null,"sized_s":1795357740.2646558},{"$":"Active","trainer":{"$":"Trainer","id":"c","curve":{"$":"Curve","nodes":[1,4],"per_s":[10.0,40.0]},"min_nodes":1,"max_nodes":4,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null},"nodes":{"$set":["n3#542a19-13007"]},"samples_done":152.0,"admitted_s":1795357728.1203356,"run_s":11.217822551727295,"node_s":15.28766393661499,"losses":{"$":"Losses","first":3.958801493553121,"latest":1.8681795866912303,"at_samples":152.0,"per_sample":0.008813781132106735},"submitted":null,"sized_s":1795357740.2646558}],"queue":[],"memory":null,"wake_at_s":null,"classes":[["0 cpus",{"$set":["n1#542a19-13005","n2#542a19-13006","n3#542a19-13007"]}]],"window_ends":[],"lessons":[]}');
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
INSERT INTO "settings" VALUES(1,1.79535772260985589023e+09,'0.1.0','afs-l','exact','throughput',120.0,0,3);
INSERT INTO "settings" VALUES(2,1.79535773651759147646e+09,'0.1.0','afs-l','exact','throughput',120.0,0,3);
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
