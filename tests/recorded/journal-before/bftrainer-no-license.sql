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
INSERT INTO "journal" VALUES(1,1.79535745038549280163e+09,1,'{"$":"Event","at_s":1795357450.3854928,"changes":[{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"a","curve":{"$":"Curve","nodes":[1,2],"per_s":[10.0,20.0]},"min_nodes":1,"max_nodes":2,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}},{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"b","curve":{"$":"Curve","nodes":[1,3],"per_s":[10.0,30.0]},"min_nodes":1,"max_nodes":3,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}}],"samples_done":[],"losses":[],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0],"wake_at_s":null,"answer":{"$":"Answer","counts":[0,0],"objective_value":0.0,"solver":"highs","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[{"$":"Fallback","solver":"gurobi","reason":{"$enum":"Reason","name":"NO_LICENCE"},"detail":"error 10009: Unable to open Gurobi license file ''/nonexistent.lic''"}]}},"nodes":[{"$set":[]},{"$set":[]}],"memory":null}','[{"$":"Answer","counts":[0,0],"objective_value":0.0,"solver":"highs","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[{"$":"Fallback","solver":"gurobi","reason":{"$enum":"Reason","name":"NO_LICENCE"},"detail":"error 10009: Unable to open Gurobi license file ''/nonexistent.lic''"}]}]',1.32642439998562622349e-02);
INSERT INTO "journal" VALUES(2,1.79535745072242736812e+09,1,'{"$":"Event","at_s":1795357450.7224274,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#a29ac2-1","n2#a29ac2-2","n3#a29ac2-3"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#a29ac2-1","n2#a29ac2-2","n3#a29ac2-3"]}]]}],"samples_done":[],"losses":[],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,3],"wake_at_s":null,"answer":{"$":"Answer","counts":[0,3],"objective_value":3600.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[{"$":"Fallback","solver":"gurobi","reason":{"$enum":"Reason","name":"NO_LICENCE"},"detail":"error 10009: Unable to open Gurobi license file ''/nonexistent.lic''"},{"$":"Fallback","solver":"highs","reason":{"$enum":"Reason","name":"TIME_LIMIT"},"detail":"relative gap 6e+12"}]}},"nodes":[{"$set":[]},{"$set":["n1#a29ac2-1","n2#a29ac2-2","n3#a29ac2-3"]}],"memory":null}','[{"$":"Answer","counts":[0,3],"objective_value":3600.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[{"$":"Fallback","solver":"gurobi","reason":{"$enum":"Reason","name":"NO_LICENCE"},"detail":"error 10009: Unable to open Gurobi license file ''/nonexistent.lic''"},{"$":"Fallback","solver":"highs","reason":{"$enum":"Reason","name":"TIME_LIMIT"},"detail":"relative gap 6e+12"}]}]',9.17820900031074415892e-03);
INSERT INTO "journal" VALUES(3,1.79535745479076290129e+09,1,'{"$":"Event","at_s":1795357454.790763,"changes":[{"$":"PoolChanged","joined":{"$set":["n4#a29ac2-4"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n4#a29ac2-4"]}]]}],"samples_done":[["b",70.0]],"losses":[["b",2.979354638400828]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,3],"wake_at_s":null,"answer":{"$":"Answer","counts":[1,3],"objective_value":4800.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[{"$":"Fallback","solver":"gurobi","reason":{"$enum":"Reason","name":"NO_LICENCE"},"detail":"error 10009: Unable to open Gurobi license file ''/nonexistent.lic''"},{"$":"Fallback","solver":"highs","reason":{"$enum":"Reason","name":"TIME_LIMIT"},"detail":"relative gap 0.667"}]}},"nodes":[{"$set":["n4#a29ac2-4"]},{"$set":["n1#a29ac2-1","n2#a29ac2-2","n3#a29ac2-3"]}],"memory":null}','[{"$":"Answer","counts":[1,3],"objective_value":4800.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[{"$":"Fallback","solver":"gurobi","reason":{"$enum":"Reason","name":"NO_LICENCE"},"detail":"error 10009: Unable to open Gurobi license file ''/nonexistent.lic''"},{"$":"Fallback","solver":"highs","reason":{"$enum":"Reason","name":"TIME_LIMIT"},"detail":"relative gap 0.667"}]}]',2.06747400034146266989e-03);
INSERT INTO "journal" VALUES(4,1.79535745601918745044e+09,1,'{"$":"Event","at_s":1795357456.0191875,"changes":[{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"c","curve":{"$":"Curve","nodes":[1,4],"per_s":[10.0,40.0]},"min_nodes":1,"max_nodes":4,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}}],"samples_done":[["a",10.0],["b",90.0]],"losses":[["a",4.617528300035218],["b",2.6189278907132953]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,3,0],"wake_at_s":null,"answer":{"$":"Answer","counts":[1,3,0],"objective_value":4800.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[{"$":"Fallback","solver":"gurobi","reason":{"$enum":"Reason","name":"NO_LICENCE"},"detail":"error 10009: Unable to open Gurobi license file ''/nonexistent.lic''"},{"$":"Fallback","solver":"highs","reason":{"$enum":"Reason","name":"TIME_LIMIT"},"detail":"relative gap 1.25"}]}},"nodes":[{"$set":["n4#a29ac2-4"]},{"$set":["n1#a29ac2-1","n2#a29ac2-2","n3#a29ac2-3"]},{"$set":[]}],"memory":null}','[{"$":"Answer","counts":[1,3,0],"objective_value":4800.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[{"$":"Fallback","solver":"gurobi","reason":{"$enum":"Reason","name":"NO_LICENCE"},"detail":"error 10009: Unable to open Gurobi license file ''/nonexistent.lic''"},{"$":"Fallback","solver":"highs","reason":{"$enum":"Reason","name":"TIME_LIMIT"},"detail":"relative gap 1.25"}]}]',3.52353500011304276995e-03);
INSERT INTO "journal" VALUES(5,1.7953574572393126488e+09,1,'{"$":"Event","at_s":1795357457.2393126,"changes":[{"$":"TrainerFinished","trainer_id":"b"}],"samples_done":[["a",41.0]],"losses":[["a",3.649128163935934]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,3],"wake_at_s":null,"answer":{"$":"Answer","counts":[1,3],"objective_value":4800.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[{"$":"Fallback","solver":"gurobi","reason":{"$enum":"Reason","name":"NO_LICENCE"},"detail":"error 10009: Unable to open Gurobi license file ''/nonexistent.lic''"},{"$":"Fallback","solver":"highs","reason":{"$enum":"Reason","name":"TIME_LIMIT"},"detail":"relative gap 5"}]}},"nodes":[{"$set":["n4#a29ac2-4"]},{"$set":["n1#a29ac2-1","n2#a29ac2-2","n3#a29ac2-3"]}],"memory":null}','[{"$":"Answer","counts":[1,3],"objective_value":4800.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[{"$":"Fallback","solver":"gurobi","reason":{"$enum":"Reason","name":"NO_LICENCE"},"detail":"error 10009: Unable to open Gurobi license file ''/nonexistent.lic''"},{"$":"Fallback","solver":"highs","reason":{"$enum":"Reason","name":"TIME_LIMIT"},"detail":"relative gap 5"}]}]',3.08204699967973283492e-03);
INSERT INTO "journal" VALUES(6,1.79535745948558545111e+09,1,'{"$":"Event","at_s":1795357459.4855855,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n1#a29ac2-1"]},"classes":[]}],"samples_done":[["a",81.0],["c",30.0]],"losses":[["a",2.77219192650469],["c",3.958801493553121]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,2],"wake_at_s":null,"answer":{"$":"Answer","counts":[1,2],"objective_value":3600.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[{"$":"Fallback","solver":"gurobi","reason":{"$enum":"Reason","name":"NO_LICENCE"},"detail":"error 10009: Unable to open Gurobi license file ''/nonexistent.lic''"},{"$":"Fallback","solver":"highs","reason":{"$enum":"Reason","name":"TIME_LIMIT"},"detail":"relative gap 0.998"}]}},"nodes":[{"$set":["n4#a29ac2-4"]},{"$set":["n2#a29ac2-2","n3#a29ac2-3"]}],"memory":null}','[{"$":"Answer","counts":[1,2],"objective_value":3600.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[{"$":"Fallback","solver":"gurobi","reason":{"$enum":"Reason","name":"NO_LICENCE"},"detail":"error 10009: Unable to open Gurobi license file ''/nonexistent.lic''"},{"$":"Fallback","solver":"highs","reason":{"$enum":"Reason","name":"TIME_LIMIT"},"detail":"relative gap 0.998"}]}]',1.41674299993610475212e-03);
INSERT INTO "journal" VALUES(7,1.79535746474469470974e+09,2,'{"$":"Event","at_s":1795357464.7446947,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n2#a29ac2-2","n3#a29ac2-3","n4#a29ac2-4"]},"classes":[]}],"samples_done":[["a",145.0],["c",79.0]],"losses":[["a",1.931457851792024],["c",2.808174601065901]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0],"wake_at_s":null,"answer":{"$":"Answer","counts":[0,0],"objective_value":0.0,"solver":"highs","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[{"$":"Fallback","solver":"gurobi","reason":{"$enum":"Reason","name":"NO_LICENCE"},"detail":"error 10009: Unable to open Gurobi license file ''/nonexistent.lic''"}]}},"nodes":[{"$set":[]},{"$set":[]}],"memory":null}','[{"$":"Answer","counts":[0,0],"objective_value":0.0,"solver":"highs","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[{"$":"Fallback","solver":"gurobi","reason":{"$enum":"Reason","name":"NO_LICENCE"},"detail":"error 10009: Unable to open Gurobi license file ''/nonexistent.lic''"}]}]',2.73325759999352158047e-02);
INSERT INTO "journal" VALUES(8,1.7953574651486246586e+09,2,'{"$":"Event","at_s":1795357465.1486247,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#a29ac2-14001","n3#a29ac2-14002","n4#a29ac2-14003","n5#a29ac2-14004"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#a29ac2-14001","n3#a29ac2-14002","n4#a29ac2-14003","n5#a29ac2-14004"]}]]}],"samples_done":[["a",145.0],["c",79.0]],"losses":[["a",1.931457851792024],["c",2.808174601065901]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,4],"wake_at_s":null,"answer":{"$":"Answer","counts":[0,4],"objective_value":4800.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[{"$":"Fallback","solver":"gurobi","reason":{"$enum":"Reason","name":"NO_LICENCE"},"detail":"error 10009: Unable to open Gurobi license file ''/nonexistent.lic''"},{"$":"Fallback","solver":"highs","reason":{"$enum":"Reason","name":"TIME_LIMIT"},"detail":"relative gap 7.2e+12"}]}},"nodes":[{"$set":[]},{"$set":["n1#a29ac2-14001","n3#a29ac2-14002","n4#a29ac2-14003","n5#a29ac2-14004"]}],"memory":null}','[{"$":"Answer","counts":[0,4],"objective_value":4800.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[{"$":"Fallback","solver":"gurobi","reason":{"$enum":"Reason","name":"NO_LICENCE"},"detail":"error 10009: Unable to open Gurobi license file ''/nonexistent.lic''"},{"$":"Fallback","solver":"highs","reason":{"$enum":"Reason","name":"TIME_LIMIT"},"detail":"relative gap 7.2e+12"}]}]',1.94617370002561074215e-02);
INSERT INTO "journal" VALUES(9,1.79535746744821429255e+09,2,'{"$":"Event","at_s":1795357467.4482143,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n1#a29ac2-14001"]},"classes":[]}],"samples_done":[["a",145.0],["c",110.0]],"losses":[["a",1.931457851792024],["c",2.3241323532840554]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,3],"wake_at_s":null,"answer":{"$":"Answer","counts":[0,3],"objective_value":3600.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[{"$":"Fallback","solver":"gurobi","reason":{"$enum":"Reason","name":"NO_LICENCE"},"detail":"error 10009: Unable to open Gurobi license file ''/nonexistent.lic''"},{"$":"Fallback","solver":"highs","reason":{"$enum":"Reason","name":"TIME_LIMIT"},"detail":"relative gap 0.998"}]}},"nodes":[{"$set":[]},{"$set":["n3#a29ac2-14002","n4#a29ac2-14003","n5#a29ac2-14004"]}],"memory":null}','[{"$":"Answer","counts":[0,3],"objective_value":3600.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[{"$":"Fallback","solver":"gurobi","reason":{"$enum":"Reason","name":"NO_LICENCE"},"detail":"error 10009: Unable to open Gurobi license file ''/nonexistent.lic''"},{"$":"Fallback","solver":"highs","reason":{"$enum":"Reason","name":"TIME_LIMIT"},"detail":"relative gap 0.998"}]}]',1.60413200001130462624e-03);
INSERT INTO "journal" VALUES(10,1.7953574676002588272e+09,2,'{"$":"Event","at_s":1795357467.6002588,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n3#a29ac2-14002","n4#a29ac2-14003","n5#a29ac2-14004"]},"classes":[]}],"samples_done":[["a",145.0],["c",110.0]],"losses":[["a",1.931457851792024],["c",2.3241323532840554]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0],"wake_at_s":null,"answer":{"$":"Answer","counts":[0,0],"objective_value":0.0,"solver":"highs","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[{"$":"Fallback","solver":"gurobi","reason":{"$enum":"Reason","name":"NO_LICENCE"},"detail":"error 10009: Unable to open Gurobi license file ''/nonexistent.lic''"}]}},"nodes":[{"$set":[]},{"$set":[]}],"memory":null}','[{"$":"Answer","counts":[0,0],"objective_value":0.0,"solver":"highs","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[{"$":"Fallback","solver":"gurobi","reason":{"$enum":"Reason","name":"NO_LICENCE"},"detail":"error 10009: Unable to open Gurobi license file ''/nonexistent.lic''"}]}]',2.67279000127018662169e-04);
INSERT INTO "journal" VALUES(11,1.79535746802049708372e+09,2,'{"$":"Event","at_s":1795357468.020497,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#a29ac2-14005","n2#a29ac2-14006","n3#a29ac2-14007"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#a29ac2-14005","n2#a29ac2-14006","n3#a29ac2-14007"]}]]}],"samples_done":[["a",145.0],["c",110.0]],"losses":[["a",1.931457851792024],["c",2.3241323532840554]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,3],"wake_at_s":null,"answer":{"$":"Answer","counts":[0,3],"objective_value":3600.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[{"$":"Fallback","solver":"gurobi","reason":{"$enum":"Reason","name":"NO_LICENCE"},"detail":"error 10009: Unable to open Gurobi license file ''/nonexistent.lic''"},{"$":"Fallback","solver":"highs","reason":{"$enum":"Reason","name":"TIME_LIMIT"},"detail":"relative gap 7.2e+12"}]}},"nodes":[{"$set":[]},{"$set":["n1#a29ac2-14005","n2#a29ac2-14006","n3#a29ac2-14007"]}],"memory":null}','[{"$":"Answer","counts":[0,3],"objective_value":3600.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[{"$":"Fallback","solver":"gurobi","reason":{"$enum":"Reason","name":"NO_LICENCE"},"detail":"error 10009: Unable to open Gurobi license file ''/nonexistent.lic''"},{"$":"Fallback","solver":"highs","reason":{"$enum":"Reason","name":"TIME_LIMIT"},"detail":"relative gap 7.2e+12"}]}]',1.34373399987453012727e-03);
CREATE TABLE last_state (
  only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
  journal INTEGER NOT NULL,
  state TEXT NOT NULL
);
INSERT INTO "last_state" VALUES(1,11,'{"$":"State","max_parallel":3,"at_s":1795357468.020497,"pool":{"$set":["n1#a29ac2-14005","n2#a29ac2-14006","n3#a29ac2-14007"]},"active":[{"$":"Active","trainer":{"$":"Trainer","id":"a","curve":{"$":"Curve","nodes":[1,2],"per_s":[10.0,20.0]},"min_nodes":1,"max_nodes":2,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null},"nodes":{"$set":[]},"samples_done":145.0,"admitted_s":1795357450.3854928,"run_s":9.95393180847168,"node_s":9.95393180847168,"losses":{"$":"Losses","first":4.617528300035218,"latest":1.931457851792024,"at_samples":145.0,"per_sample":0.013136469917385409},"submitted":null,"sized_s":1795357464.7446947},{"$":"Active","trainer":{"$":"Trainer","id":"c","curve":{"$":"Curve","nodes":[1,4],"per_s":[10.0,40.0]},"min_nodes":1,"max_nodes":4,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null},"nodes":{"$set":["n1#a29ac2-14005","n2#a29ac2-14006","n3#a29ac2-14007"]},"samples_done":110.0,"admitted_s":1795357456.0191875,"run_s":9.957016229629517,"node_s":26.911529064178467,"losses":{"$":"Losses","first":3.958801493553121,"latest":2.3241323532840554,"at_samples":110.0,"per_sample":0.015614266057478897},"submitted":null,"sized_s":1795357468.020497}],"queue":[],"memory":null,"wake_at_s":null,"classes":[["0 cpus",{"$set":["n1#a29ac2-14005","n2#a29ac2-14006","n3#a29ac2-14007"]}]],"window_ends":[],"lessons":[]}');
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
INSERT INTO "settings" VALUES(1,1.79535745036793065068e+09,'0.1.0','bftrainer','auto','throughput',120.0,0,3);
INSERT INTO "settings" VALUES(2,1.79535746471638894081e+09,'0.1.0','bftrainer','auto','throughput',120.0,0,3);
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
