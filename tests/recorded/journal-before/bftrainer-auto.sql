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
INSERT INTO "journal" VALUES(1,1.79535673895313453675e+09,1,'{"$":"Event","at_s":1795356738.9531345,"changes":[{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"a","curve":{"$":"Curve","nodes":[1,2],"per_s":[10.0,20.0]},"min_nodes":1,"max_nodes":2,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}},{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"b","curve":{"$":"Curve","nodes":[1,3],"per_s":[10.0,30.0]},"min_nodes":1,"max_nodes":3,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":120.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}}],"samples_done":[],"losses":[],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0],"wake_at_s":null,"answer":{"$":"Answer","counts":[0,0],"objective_value":0.0,"solver":"gurobi","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":[]},{"$set":[]}],"memory":null}','[{"$":"Answer","counts":[0,0],"objective_value":0.0,"solver":"gurobi","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',1.45078380000995821319e-02);
INSERT INTO "journal" VALUES(2,1.79535673936050987247e+09,1,'{"$":"Event","at_s":1795356739.3605099,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#7aa31f-1","n2#7aa31f-2","n3#7aa31f-3"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#7aa31f-1","n2#7aa31f-2","n3#7aa31f-3"]}]]}],"samples_done":[],"losses":[],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,2],"wake_at_s":null,"answer":{"$":"Answer","counts":[1,2],"objective_value":3600.0,"solver":"gurobi","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":["n1#7aa31f-1"]},{"$set":["n2#7aa31f-2","n3#7aa31f-3"]}],"memory":null}','[{"$":"Answer","counts":[1,2],"objective_value":3600.0,"solver":"gurobi","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',3.25736900003903429023e-03);
INSERT INTO "journal" VALUES(3,1.79535674337648153307e+09,1,'{"$":"Event","at_s":1795356743.3764815,"changes":[{"$":"PoolChanged","joined":{"$set":["n4#7aa31f-4"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n4#7aa31f-4"]}]]}],"samples_done":[["a",61.0],["b",61.0]],"losses":[["a",3.1667403038674142],["b",3.1667403038674142]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,2],"wake_at_s":null,"answer":{"$":"Answer","counts":[2,2],"objective_value":4798.0,"solver":"gurobi","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":["n1#7aa31f-1","n4#7aa31f-4"]},{"$set":["n2#7aa31f-2","n3#7aa31f-3"]}],"memory":null}','[{"$":"Answer","counts":[2,2],"objective_value":4798.0,"solver":"gurobi","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',1.81634900013705191668e-03);
INSERT INTO "journal" VALUES(4,1.79535674410992050166e+09,1,'{"$":"Event","at_s":1795356744.1099205,"changes":[{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"c","curve":{"$":"Curve","nodes":[1,4],"per_s":[10.0,40.0]},"min_nodes":1,"max_nodes":4,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}}],"samples_done":[["a",80.0],["b",81.0]],"losses":[["a",2.790092855055242],["b",2.77219192650469]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,2,0],"wake_at_s":null,"answer":{"$":"Answer","counts":[2,2,0],"objective_value":4800.0,"solver":"gurobi","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":["n1#7aa31f-1","n4#7aa31f-4"]},{"$set":["n2#7aa31f-2","n3#7aa31f-3"]},{"$set":[]}],"memory":null}','[{"$":"Answer","counts":[2,2,0],"objective_value":4800.0,"solver":"gurobi","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',1.66519399999742745421e-03);
INSERT INTO "journal" VALUES(5,1.79535674600183725352e+09,1,'{"$":"Event","at_s":1795356746.0018373,"changes":[{"$":"TrainerFinished","trainer_id":"b"}],"samples_done":[["a",114.0]],"losses":[["a",2.271956255276574]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,2],"wake_at_s":null,"answer":{"$":"Answer","counts":[2,2],"objective_value":4800.0,"solver":"gurobi","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":["n1#7aa31f-1","n4#7aa31f-4"]},{"$set":["n2#7aa31f-2","n3#7aa31f-3"]}],"memory":null}','[{"$":"Answer","counts":[2,2],"objective_value":4800.0,"solver":"gurobi","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',3.45668600016324489843e-03);
INSERT INTO "journal" VALUES(6,1.7953567479206030368e+09,1,'{"$":"Event","at_s":1795356747.920603,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n1#7aa31f-1"]},"classes":[]}],"samples_done":[["a",154.0],["c",30.0]],"losses":[["a",1.850902812916075],["c",3.958801493553121]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,2],"wake_at_s":null,"answer":{"$":"Answer","counts":[1,2],"objective_value":3600.0,"solver":"gurobi","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":["n4#7aa31f-4"]},{"$set":["n2#7aa31f-2","n3#7aa31f-3"]}],"memory":null}','[{"$":"Answer","counts":[1,2],"objective_value":3600.0,"solver":"gurobi","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',1.68308100001013372093e-03);
INSERT INTO "journal" VALUES(7,1.79535675148451423638e+09,2,'{"$":"Event","at_s":1795356751.4845142,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n2#7aa31f-2","n3#7aa31f-3","n4#7aa31f-4"]},"classes":[]}],"samples_done":[["a",191.0],["c",81.0]],"losses":[["a",1.5866541665284148],["c",2.77219192650469]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0],"wake_at_s":null,"answer":{"$":"Answer","counts":[0,0],"objective_value":0.0,"solver":"gurobi","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":[]},{"$set":[]}],"memory":null}','[{"$":"Answer","counts":[0,0],"objective_value":0.0,"solver":"gurobi","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',9.82799799999156675767e-03);
INSERT INTO "journal" VALUES(8,1.79535675188106894498e+09,2,'{"$":"Event","at_s":1795356751.881069,"changes":[{"$":"PoolChanged","joined":{"$set":["n2#7aa31f-12001","n3#7aa31f-12002","n4#7aa31f-12003"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n2#7aa31f-12001","n3#7aa31f-12002","n4#7aa31f-12003"]}]]}],"samples_done":[["a",191.0],["c",81.0]],"losses":[["a",1.5866541665284148],["c",2.77219192650469]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,2],"wake_at_s":null,"answer":{"$":"Answer","counts":[1,2],"objective_value":3600.0,"solver":"gurobi","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":["n2#7aa31f-12001"]},{"$set":["n3#7aa31f-12002","n4#7aa31f-12003"]}],"memory":null}','[{"$":"Answer","counts":[1,2],"objective_value":3600.0,"solver":"gurobi","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',1.97074900006555253639e-03);
INSERT INTO "journal" VALUES(9,1.79535675199912166596e+09,2,'{"$":"Event","at_s":1795356751.9991217,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n2#7aa31f-12001"]},"classes":[]}],"samples_done":[["a",191.0],["c",81.0]],"losses":[["a",1.5866541665284148],["c",2.77219192650469]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,2],"wake_at_s":null,"answer":{"$":"Answer","counts":[0,2],"objective_value":2400.0,"solver":"gurobi","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":[]},{"$set":["n3#7aa31f-12002","n4#7aa31f-12003"]}],"memory":null}','[{"$":"Answer","counts":[0,2],"objective_value":2400.0,"solver":"gurobi","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',1.72747600004186097066e-03);
INSERT INTO "journal" VALUES(10,1.79535675231853795053e+09,2,'{"$":"Event","at_s":1795356752.318538,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#7aa31f-12004","n5#7aa31f-12005"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#7aa31f-12004","n5#7aa31f-12005"]}]]}],"samples_done":[["a",191.0],["c",82.0]],"losses":[["a",1.5866541665284148],["c",2.754470007239643]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,2],"wake_at_s":null,"answer":{"$":"Answer","counts":[2,2],"objective_value":4800.0,"solver":"gurobi","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":["n1#7aa31f-12004","n5#7aa31f-12005"]},{"$set":["n3#7aa31f-12002","n4#7aa31f-12003"]}],"memory":null}','[{"$":"Answer","counts":[2,2],"objective_value":4800.0,"solver":"gurobi","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',0.00828775099989798);
INSERT INTO "journal" VALUES(11,1.79535675588404917716e+09,2,'{"$":"Event","at_s":1795356755.8840492,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n1#7aa31f-12004"]},"classes":[]}],"samples_done":[["a",240.0],["c",150.0]],"losses":[["a",1.3585144748092985],["c",1.8858071489554438]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,2],"wake_at_s":null,"answer":{"$":"Answer","counts":[1,2],"objective_value":3600.0,"solver":"gurobi","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":["n5#7aa31f-12005"]},{"$set":["n3#7aa31f-12002","n4#7aa31f-12003"]}],"memory":null}','[{"$":"Answer","counts":[1,2],"objective_value":3600.0,"solver":"gurobi","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',2.14809399994919658638e-03);
INSERT INTO "journal" VALUES(12,1.7953567559304127693e+09,2,'{"$":"Event","at_s":1795356755.9304128,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n3#7aa31f-12002"]},"classes":[]}],"samples_done":[["a",240.0],["c",150.0]],"losses":[["a",1.3585144748092985],["c",1.8858071489554438]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,1],"wake_at_s":null,"answer":{"$":"Answer","counts":[1,1],"objective_value":2400.0,"solver":"gurobi","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":["n5#7aa31f-12005"]},{"$set":["n4#7aa31f-12003"]}],"memory":null}','[{"$":"Answer","counts":[1,1],"objective_value":2400.0,"solver":"gurobi","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',2.92473200011045264545e-03);
INSERT INTO "journal" VALUES(13,1.79535675601210665706e+09,2,'{"$":"Event","at_s":1795356756.0121067,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n4#7aa31f-12003","n5#7aa31f-12005"]},"classes":[]}],"samples_done":[["a",240.0],["c",150.0]],"losses":[["a",1.3585144748092985],["c",1.8858071489554438]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0],"wake_at_s":null,"answer":{"$":"Answer","counts":[0,0],"objective_value":0.0,"solver":"gurobi","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":[]},{"$set":[]}],"memory":null}','[{"$":"Answer","counts":[0,0],"objective_value":0.0,"solver":"gurobi","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',6.93043999945075483992e-04);
INSERT INTO "journal" VALUES(14,1.79535675624560236932e+09,2,'{"$":"Event","at_s":1795356756.2456024,"changes":[{"$":"PoolChanged","joined":{"$set":["n2#7aa31f-12006"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n2#7aa31f-12006"]}]]}],"samples_done":[["a",240.0],["c",150.0]],"losses":[["a",1.3585144748092985],["c",1.8858071489554438]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,0],"wake_at_s":null,"answer":{"$":"Answer","counts":[1,0],"objective_value":1200.0,"solver":"gurobi","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":["n2#7aa31f-12006"]},{"$set":[]}],"memory":null}','[{"$":"Answer","counts":[1,0],"objective_value":1200.0,"solver":"gurobi","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',9.62196000045878463424e-04);
INSERT INTO "journal" VALUES(15,1.79535675647230958933e+09,2,'{"$":"Event","at_s":1795356756.4723096,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#7aa31f-12007","n3#7aa31f-12008"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#7aa31f-12007","n3#7aa31f-12008"]}]]}],"samples_done":[["a",240.0],["c",150.0]],"losses":[["a",1.3585144748092985],["c",1.8858071489554438]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,2],"wake_at_s":null,"answer":{"$":"Answer","counts":[1,2],"objective_value":3600.0,"solver":"gurobi","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":["n2#7aa31f-12006"]},{"$set":["n1#7aa31f-12007","n3#7aa31f-12008"]}],"memory":null}','[{"$":"Answer","counts":[1,2],"objective_value":3600.0,"solver":"gurobi","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',3.31940099999883386772e-03);
CREATE TABLE last_state (
  only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
  journal INTEGER NOT NULL,
  state TEXT NOT NULL
);
INSERT INTO "last_state" VALUES(1,15,'{"$":"State","max_parallel":3,"at_s":1795356756.4723096,"pool":{"$set":["n1#7aa31f-12007","n2#7aa31f-12006","n3#7aa31f-12008"]},"active":[{"$":"Active","trainer":{"$":"Trainer","id":"a","curve":{"$":"Curve","nodes":[1,2],"per_s":[10.0,20.0]},"min_nodes":1,"max_nodes":2,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null},"nodes":{"$set":["n2#7aa31f-12006"]},"samples_done":240.0,"admitted_s":1795356738.9531345,"run_s":16.162333011627197,"node_s":24.271965742111206,"losses":{"$":"Losses","first":3.1667403038674142,"latest":1.3585144748092985,"at_samples":240.0,"per_sample":0.004655912075900333},"submitted":null,"sized_s":1795356756.2456024},{"$":"Active","trainer":{"$":"Trainer","id":"c","curve":{"$":"Curve","nodes":[1,4],"per_s":[10.0,40.0]},"min_nodes":1,"max_nodes":4,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null},"nodes":{"$set":["n1#7aa31f-12007","n3#7aa31f-12008"]},"samples_done":150.0,"admitted_s":1795356744.1099205,"run_s":9.613714694976807,"node_s":19.145735502243042,"losses":{"$":"Losses","first":3.958801493553121,"latest":1.8858071489554438,"at_samples":150.0,"per_sample":0.012774453798297048},"submitted":null,"sized_s":1795356756.4723096}],"queue":[],"memory":null,"wake_at_s":null,"classes":[["0 cpus",{"$set":["n1#7aa31f-12007","n2#7aa31f-12006","n3#7aa31f-12008"]}]],"window_ends":[],"lessons":[]}');
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
INSERT INTO "settings" VALUES(1,1.79535673888230824465e+09,'0.1.0','bftrainer','auto','throughput',120.0,0,3);
INSERT INTO "settings" VALUES(2,1.795356751479821682e+09,'0.1.0','bftrainer','auto','throughput',120.0,0,3);
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
