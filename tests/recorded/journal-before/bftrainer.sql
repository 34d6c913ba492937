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
INSERT INTO "journal" VALUES(1,1.79535737742089724537e+09,1,'{"$":"Event","at_s":1795357377.4208972,"changes":[{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"a","curve":{"$":"Curve","nodes":[1,2],"per_s":[10.0,20.0]},"min_nodes":1,"max_nodes":2,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}},{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"b","curve":{"$":"Curve","nodes":[1,3],"per_s":[10.0,30.0]},"min_nodes":1,"max_nodes":3,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}}],"samples_done":[],"losses":[],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0],"wake_at_s":null,"answer":{"$":"Answer","counts":[0,0],"objective_value":0.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":[]},{"$set":[]}],"memory":null}','[{"$":"Answer","counts":[0,0],"objective_value":0.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',5.06224999753612792119e-04);
INSERT INTO "journal" VALUES(2,1.79535737779944157602e+09,1,'{"$":"Event","at_s":1795357377.7994416,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#5aa479-1","n2#5aa479-2","n3#5aa479-3"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#5aa479-1","n2#5aa479-2","n3#5aa479-3"]}]]}],"samples_done":[],"losses":[],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,3],"wake_at_s":null,"answer":{"$":"Answer","counts":[0,3],"objective_value":3600.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":[]},{"$set":["n1#5aa479-1","n2#5aa479-2","n3#5aa479-3"]}],"memory":null}','[{"$":"Answer","counts":[0,3],"objective_value":3600.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',4.52815999778977129608e-04);
INSERT INTO "journal" VALUES(3,1.79535738172862076754e+09,1,'{"$":"Event","at_s":1795357381.7286208,"changes":[{"$":"PoolChanged","joined":{"$set":["n4#5aa479-4"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n4#5aa479-4"]}]]}],"samples_done":[["b",61.0]],"losses":[["b",3.1667403038674142]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,3],"wake_at_s":null,"answer":{"$":"Answer","counts":[1,3],"objective_value":4800.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":["n4#5aa479-4"]},{"$set":["n1#5aa479-1","n2#5aa479-2","n3#5aa479-3"]}],"memory":null}','[{"$":"Answer","counts":[1,3],"objective_value":4800.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',5.49920000139536568894e-04);
INSERT INTO "journal" VALUES(4,1.79535738266628336909e+09,1,'{"$":"Event","at_s":1795357382.6662834,"changes":[{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"c","curve":{"$":"Curve","nodes":[1,4],"per_s":[10.0,40.0]},"min_nodes":1,"max_nodes":4,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}}],"samples_done":[["a",1.0],["b",81.0]],"losses":[["a",4.96],["b",2.77219192650469]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,3,0],"wake_at_s":null,"answer":{"$":"Answer","counts":[1,3,0],"objective_value":4800.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":["n4#5aa479-4"]},{"$set":["n1#5aa479-1","n2#5aa479-2","n3#5aa479-3"]},{"$set":[]}],"memory":null}','[{"$":"Answer","counts":[1,3,0],"objective_value":4800.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',4.98374000017065554857e-04);
INSERT INTO "journal" VALUES(5,1.79535738449260091776e+09,1,'{"$":"Event","at_s":1795357384.492601,"changes":[{"$":"TrainerFinished","trainer_id":"b"}],"samples_done":[["a",40.0]],"losses":[["a",3.675887034278721]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,3],"wake_at_s":null,"answer":{"$":"Answer","counts":[1,3],"objective_value":4800.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":["n4#5aa479-4"]},{"$set":["n1#5aa479-1","n2#5aa479-2","n3#5aa479-3"]}],"memory":null}','[{"$":"Answer","counts":[1,3],"objective_value":4800.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',4.68970000383706064894e-04);
INSERT INTO "journal" VALUES(6,1.79535738646018028265e+09,1,'{"$":"Event","at_s":1795357386.4601803,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n1#5aa479-1"]},"classes":[]}],"samples_done":[["a",81.0],["c",30.0]],"losses":[["a",2.77219192650469],["c",3.958801493553121]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,2],"wake_at_s":null,"answer":{"$":"Answer","counts":[1,2],"objective_value":3600.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":["n4#5aa479-4"]},{"$set":["n2#5aa479-2","n3#5aa479-3"]}],"memory":null}','[{"$":"Answer","counts":[1,2],"objective_value":3600.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',4.39966000158165115863e-04);
INSERT INTO "journal" VALUES(7,1.79535739164894914631e+09,2,'{"$":"Event","at_s":1795357391.6489491,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n2#5aa479-2","n3#5aa479-3","n4#5aa479-4"]},"classes":[]}],"samples_done":[["a",133.0],["c",75.0]],"losses":[["a",2.050850349000913],["c",2.8823465663425996]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0],"wake_at_s":null,"answer":{"$":"Answer","counts":[0,0],"objective_value":0.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":[]},{"$set":[]}],"memory":null}','[{"$":"Answer","counts":[0,0],"objective_value":0.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',5.73225000152888242155e-04);
INSERT INTO "journal" VALUES(8,1.79535739205750012395e+09,2,'{"$":"Event","at_s":1795357392.0575001,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#5aa479-14001","n3#5aa479-14002","n4#5aa479-14003","n5#5aa479-14004"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#5aa479-14001","n3#5aa479-14002","n4#5aa479-14003","n5#5aa479-14004"]}]]}],"samples_done":[["a",133.0],["c",75.0]],"losses":[["a",2.050850349000913],["c",2.8823465663425996]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,4],"wake_at_s":null,"answer":{"$":"Answer","counts":[0,4],"objective_value":4800.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":[]},{"$set":["n1#5aa479-14001","n3#5aa479-14002","n4#5aa479-14003","n5#5aa479-14004"]}],"memory":null}','[{"$":"Answer","counts":[0,4],"objective_value":4800.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',4.38413999745534965768e-04);
INSERT INTO "journal" VALUES(9,1.79535739442810821529e+09,2,'{"$":"Event","at_s":1795357394.4281082,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n1#5aa479-14001"]},"classes":[]}],"samples_done":[["a",133.0],["c",110.0]],"losses":[["a",2.050850349000913],["c",2.3241323532840554]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,3],"wake_at_s":null,"answer":{"$":"Answer","counts":[0,3],"objective_value":3600.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":[]},{"$set":["n3#5aa479-14002","n4#5aa479-14003","n5#5aa479-14004"]}],"memory":null}','[{"$":"Answer","counts":[0,3],"objective_value":3600.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',8.25130000066565116867e-04);
INSERT INTO "journal" VALUES(10,1.79535739456606793403e+09,2,'{"$":"Event","at_s":1795357394.566068,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n3#5aa479-14002","n4#5aa479-14003","n5#5aa479-14004"]},"classes":[]}],"samples_done":[["a",133.0],["c",110.0]],"losses":[["a",2.050850349000913],["c",2.3241323532840554]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0],"wake_at_s":null,"answer":{"$":"Answer","counts":[0,0],"objective_value":0.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":[]},{"$set":[]}],"memory":null}','[{"$":"Answer","counts":[0,0],"objective_value":0.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',3.5713199986275867559e-04);
INSERT INTO "journal" VALUES(11,1.79535739487356400486e+09,2,'{"$":"Event","at_s":1795357394.873564,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#5aa479-14005","n2#5aa479-14006","n3#5aa479-14007"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#5aa479-14005","n2#5aa479-14006","n3#5aa479-14007"]}]]}],"samples_done":[["a",133.0],["c",110.0]],"losses":[["a",2.050850349000913],["c",2.3241323532840554]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,3],"wake_at_s":null,"answer":{"$":"Answer","counts":[0,3],"objective_value":3600.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":[]},{"$set":["n1#5aa479-14005","n2#5aa479-14006","n3#5aa479-14007"]}],"memory":null}','[{"$":"Answer","counts":[0,3],"objective_value":3600.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',3.91043000036006560549e-04);
CREATE TABLE last_state (
  only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
  journal INTEGER NOT NULL,
  state TEXT NOT NULL
);
INSERT INTO "last_state" VALUES(1,11,'{"$":"State","max_parallel":3,"at_s":1795357394.873564,"pool":{"$set":["n1#5aa479-14005","n2#5aa479-14006","n3#5aa479-14007"]},"active":[{"$":"Active","trainer":{"$":"Trainer","id":"a","curve":{"$":"Curve","nodes":[1,2],"per_s":[10.0,20.0]},"min_nodes":1,"max_nodes":2,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null},"nodes":{"$set":[]},"samples_done":133.0,"admitted_s":1795357377.4208972,"run_s":9.920328378677368,"node_s":9.920328378677368,"losses":{"$":"Losses","first":4.96,"latest":2.050850349000913,"at_samples":133.0,"per_sample":0.013871953413534173},"submitted":null,"sized_s":1795357391.6489491},{"$":"Active","trainer":{"$":"Trainer","id":"c","curve":{"$":"Curve","nodes":[1,4],"per_s":[10.0,40.0]},"min_nodes":1,"max_nodes":4,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null},"nodes":{"$set":["n1#5aa479-14005","n2#5aa479-14006","n3#5aa479-14007"]},"samples_done":110.0,"admitted_s":1795357382.6662834,"run_s":9.664916038513184,"node_s":26.176587343215942,"losses":{"$":"Losses","first":3.958801493553121,"latest":2.3241323532840554,"at_samples":110.0,"per_sample":0.015948977515958404},"submitted":null,"sized_s":1795357394.873564}],"queue":[],"memory":null,"wake_at_s":null,"classes":[["0 cpus",{"$set":["n1#5aa479-14005","n2#5aa479-14006","n3#5aa479-14007"]}]],"window_ends":[],"lessons":[]}');
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
INSERT INTO "settings" VALUES(1,1.79535737739129590989e+09,'0.1.0','bftrainer','exact','throughput',120.0,0,3);
INSERT INTO "settings" VALUES(2,1.79535739160452914239e+09,'0.1.0','bftrainer','exact','throughput',120.0,0,3);
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
