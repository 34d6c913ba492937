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
INSERT INTO "journal" VALUES(1,1.79535669107689094541e+09,1,'{"$":"Event","at_s":1795356691.076891,"changes":[{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"a","curve":{"$":"Curve","nodes":[1,2],"per_s":[10.0,20.0]},"min_nodes":1,"max_nodes":2,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}},{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"b","curve":{"$":"Curve","nodes":[1,3],"per_s":[10.0,30.0]},"min_nodes":1,"max_nodes":3,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":120.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}}],"samples_done":[],"losses":[],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0],"wake_at_s":null,"answer":{"$":"Answer","counts":[0,0],"objective_value":0.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":[]},{"$set":[]}],"memory":null}','[{"$":"Answer","counts":[0,0],"objective_value":0.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',5.54787000055512180551e-04);
INSERT INTO "journal" VALUES(2,1.79535669150401234629e+09,1,'{"$":"Event","at_s":1795356691.5040123,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#8c394c-1","n2#8c394c-2","n3#8c394c-3"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#8c394c-1","n2#8c394c-2","n3#8c394c-3"]}]]}],"samples_done":[],"losses":[],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,3],"wake_at_s":null,"answer":{"$":"Answer","counts":[0,3],"objective_value":3600.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":[]},{"$set":["n1#8c394c-1","n2#8c394c-2","n3#8c394c-3"]}],"memory":null}','[{"$":"Answer","counts":[0,3],"objective_value":3600.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',5.97911999875577748753e-04);
INSERT INTO "journal" VALUES(3,1.79535669544490218167e+09,1,'{"$":"Event","at_s":1795356695.4449022,"changes":[{"$":"PoolChanged","joined":{"$set":["n4#8c394c-4"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n4#8c394c-4"]}]]}],"samples_done":[["b",70.0]],"losses":[["b",2.979354638400828]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,3],"wake_at_s":null,"answer":{"$":"Answer","counts":[1,3],"objective_value":4800.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":["n4#8c394c-4"]},{"$set":["n1#8c394c-1","n2#8c394c-2","n3#8c394c-3"]}],"memory":null}','[{"$":"Answer","counts":[1,3],"objective_value":4800.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',3.26284700008727668318e-03);
INSERT INTO "journal" VALUES(4,1.79535669667393398291e+09,1,'{"$":"Event","at_s":1795356696.673934,"changes":[{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"c","curve":{"$":"Curve","nodes":[1,4],"per_s":[10.0,40.0]},"min_nodes":1,"max_nodes":4,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}}],"samples_done":[["a",10.0],["b",90.0]],"losses":[["a",4.617528300035218],["b",2.6189278907132953]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,3,0],"wake_at_s":null,"answer":{"$":"Answer","counts":[1,3,0],"objective_value":4800.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":["n4#8c394c-4"]},{"$set":["n1#8c394c-1","n2#8c394c-2","n3#8c394c-3"]},{"$set":[]}],"memory":null}','[{"$":"Answer","counts":[1,3,0],"objective_value":4800.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',5.03351000133989145979e-04);
INSERT INTO "journal" VALUES(5,1.79535669790411973002e+09,1,'{"$":"Event","at_s":1795356697.9041197,"changes":[{"$":"TrainerFinished","trainer_id":"b"}],"samples_done":[["a",41.0]],"losses":[["a",3.649128163935934]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,3],"wake_at_s":null,"answer":{"$":"Answer","counts":[1,3],"objective_value":4800.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":["n4#8c394c-4"]},{"$set":["n1#8c394c-1","n2#8c394c-2","n3#8c394c-3"]}],"memory":null}','[{"$":"Answer","counts":[1,3],"objective_value":4800.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',7.96637999883387237787e-04);
INSERT INTO "journal" VALUES(6,1.79535670000801324849e+09,1,'{"$":"Event","at_s":1795356700.0080132,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n1#8c394c-1"]},"classes":[]}],"samples_done":[["a",81.0],["c",30.0]],"losses":[["a",2.77219192650469],["c",3.958801493553121]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,2],"wake_at_s":null,"answer":{"$":"Answer","counts":[1,2],"objective_value":3600.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":["n4#8c394c-4"]},{"$set":["n2#8c394c-2","n3#8c394c-3"]}],"memory":null}','[{"$":"Answer","counts":[1,2],"objective_value":3600.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',4.51944000133153167553e-04);
INSERT INTO "journal" VALUES(7,1.79535670372144865987e+09,2,'{"$":"Event","at_s":1795356703.7214487,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n2#8c394c-2","n3#8c394c-3","n4#8c394c-4"]},"classes":[]}],"samples_done":[["a",145.0],["c",83.0]],"losses":[["a",1.931457851792024],["c",2.7369253071672466]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0],"wake_at_s":null,"answer":{"$":"Answer","counts":[0,0],"objective_value":0.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":[]},{"$set":[]}],"memory":null}','[{"$":"Answer","counts":[0,0],"objective_value":0.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',5.00176000059582293033e-04);
INSERT INTO "journal" VALUES(8,1.79535670406603074071e+09,2,'{"$":"Event","at_s":1795356704.0660307,"changes":[{"$":"PoolChanged","joined":{"$set":["n3#8c394c-12001","n4#8c394c-12002"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n3#8c394c-12001","n4#8c394c-12002"]}]]}],"samples_done":[["a",145.0],["c",83.0]],"losses":[["a",1.931457851792024],["c",2.7369253071672466]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,0],"wake_at_s":null,"answer":{"$":"Answer","counts":[2,0],"objective_value":2400.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":["n3#8c394c-12001","n4#8c394c-12002"]},{"$set":[]}],"memory":null}','[{"$":"Answer","counts":[2,0],"objective_value":2400.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',4.66434999907505698502e-04);
INSERT INTO "journal" VALUES(9,1.79535670427942824363e+09,2,'{"$":"Event","at_s":1795356704.2794282,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#8c394c-12003","n5#8c394c-12004"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#8c394c-12003","n5#8c394c-12004"]}]]}],"samples_done":[["a",146.0],["c",83.0]],"losses":[["a",1.9221432732741037],["c",2.7369253071672466]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,2],"wake_at_s":null,"answer":{"$":"Answer","counts":[2,2],"objective_value":4800.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":["n3#8c394c-12001","n4#8c394c-12002"]},{"$set":["n1#8c394c-12003","n5#8c394c-12004"]}],"memory":null}','[{"$":"Answer","counts":[2,2],"objective_value":4800.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',5.54276999991998309269e-04);
INSERT INTO "journal" VALUES(10,1.79535670803468823432e+09,2,'{"$":"Event","at_s":1795356708.0346882,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n1#8c394c-12003","n3#8c394c-12001","n4#8c394c-12002","n5#8c394c-12004"]},"classes":[]}],"samples_done":[["a",220.0],["c",150.0]],"losses":[["a",1.4383316222533926],["c",1.8858071489554438]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0],"wake_at_s":null,"answer":{"$":"Answer","counts":[0,0],"objective_value":0.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":[]},{"$set":[]}],"memory":null}','[{"$":"Answer","counts":[0,0],"objective_value":0.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',3.42920999855778063647e-04);
INSERT INTO "journal" VALUES(11,1.79535670831764602659e+09,2,'{"$":"Event","at_s":1795356708.317646,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#8c394c-12005","n2#8c394c-12006","n3#8c394c-12007"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#8c394c-12005","n2#8c394c-12006","n3#8c394c-12007"]}]]}],"samples_done":[["a",220.0],["c",150.0]],"losses":[["a",1.4383316222533926],["c",1.8858071489554438]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,3],"wake_at_s":null,"answer":{"$":"Answer","counts":[0,3],"objective_value":3600.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":[]},{"$set":["n1#8c394c-12005","n2#8c394c-12006","n3#8c394c-12007"]}],"memory":null}','[{"$":"Answer","counts":[0,3],"objective_value":3600.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',4.39464999999472638592e-04);
CREATE TABLE last_state (
  only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
  journal INTEGER NOT NULL,
  state TEXT NOT NULL
);
INSERT INTO "last_state" VALUES(1,11,'{"$":"State","max_parallel":3,"at_s":1795356708.317646,"pool":{"$set":["n1#8c394c-12005","n2#8c394c-12006","n3#8c394c-12007"]},"active":[{"$":"Active","trainer":{"$":"Trainer","id":"a","curve":{"$":"Curve","nodes":[1,2],"per_s":[10.0,20.0]},"min_nodes":1,"max_nodes":2,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null},"nodes":{"$set":[]},"samples_done":220.0,"admitted_s":1795356691.076891,"run_s":12.245203971862793,"node_s":16.2138614654541,"losses":{"$":"Losses","first":4.617528300035218,"latest":1.4383316222533926,"at_samples":220.0,"per_sample":0.006537995284063664},"submitted":null,"sized_s":1795356708.0346882},{"$":"Active","trainer":{"$":"Trainer","id":"c","curve":{"$":"Curve","nodes":[1,4],"per_s":[10.0,40.0]},"min_nodes":1,"max_nodes":4,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null},"nodes":{"$set":["n1#8c394c-12005","n2#8c394c-12006","n3#8c394c-12007"]},"samples_done":150.0,"admitted_s":1795356696.673934,"run_s":9.572588920593262,"node_s":21.2490713596344,"losses":{"$":"Losses","first":3.958801493553121,"latest":1.8858071489554438,"at_samples":150.0,"per_sample":0.012703256092713475},"submitted":null,"sized_s":1795356708.317646}],"queue":[],"memory":null,"wake_at_s":null,"classes":[["0 cpus",{"$set":["n1#8c394c-12005","n2#8c394c-12006","n3#8c394c-12007"]}]],"window_ends":[],"lessons":[]}');
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
INSERT INTO "settings" VALUES(1,1.79535669103175354001e+09,'0.1.0','bftrainer','exact','throughput',120.0,0,3);
INSERT INTO "settings" VALUES(2,1.79535670371770071989e+09,'0.1.0','bftrainer','exact','throughput',120.0,0,3);
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
