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
INSERT INTO "journal" VALUES(1,1.79535742590703630448e+09,1,'{"$":"Event","at_s":1795357425.9070363,"changes":[{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"a","curve":{"$":"Curve","nodes":[1,2],"per_s":[10.0,20.0]},"min_nodes":1,"max_nodes":2,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}},{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"b","curve":{"$":"Curve","nodes":[1,3],"per_s":[10.0,30.0]},"min_nodes":1,"max_nodes":3,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}}],"samples_done":[],"losses":[],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0],"wake_at_s":null,"answer":{"$":"Answer","counts":[0,0],"objective_value":0.0,"solver":"gurobi","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":[]},{"$set":[]}],"memory":null}','[{"$":"Answer","counts":[0,0],"objective_value":0.0,"solver":"gurobi","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',0.00924594000025536);
INSERT INTO "journal" VALUES(2,1.79535742626082897186e+09,1,'{"$":"Event","at_s":1795357426.260829,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#c9d840-1","n2#c9d840-2","n3#c9d840-3"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#c9d840-1","n2#c9d840-2","n3#c9d840-3"]}]]}],"samples_done":[],"losses":[],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,2],"wake_at_s":null,"answer":{"$":"Answer","counts":[1,2],"objective_value":3600.0,"solver":"gurobi","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":["n1#c9d840-1"]},{"$set":["n2#c9d840-2","n3#c9d840-3"]}],"memory":null}','[{"$":"Answer","counts":[1,2],"objective_value":3600.0,"solver":"gurobi","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',2.10912500006088521331e-03);
INSERT INTO "journal" VALUES(3,1.79535743030418515203e+09,1,'{"$":"Event","at_s":1795357430.3041852,"changes":[{"$":"PoolChanged","joined":{"$set":["n4#c9d840-4"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n4#c9d840-4"]}]]}],"samples_done":[["a",70.0],["b",70.0]],"losses":[["a",2.979354638400828],["b",2.979354638400828]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,2],"wake_at_s":null,"answer":{"$":"Answer","counts":[2,2],"objective_value":4798.0,"solver":"gurobi","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":["n1#c9d840-1","n4#c9d840-4"]},{"$set":["n2#c9d840-2","n3#c9d840-3"]}],"memory":null}','[{"$":"Answer","counts":[2,2],"objective_value":4798.0,"solver":"gurobi","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',1.8830489998435950838e-03);
INSERT INTO "journal" VALUES(4,1.79535743180284571647e+09,1,'{"$":"Event","at_s":1795357431.8028457,"changes":[{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"c","curve":{"$":"Curve","nodes":[1,4],"per_s":[10.0,40.0]},"min_nodes":1,"max_nodes":4,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}}],"samples_done":[["a",90.0],["b",90.0]],"losses":[["a",2.6189278907132953],["b",2.6189278907132953]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,2,0],"wake_at_s":null,"answer":{"$":"Answer","counts":[2,2,0],"objective_value":4800.0,"solver":"gurobi","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":["n1#c9d840-1","n4#c9d840-4"]},{"$set":["n2#c9d840-2","n3#c9d840-3"]},{"$set":[]}],"memory":null}','[{"$":"Answer","counts":[2,2,0],"objective_value":4800.0,"solver":"gurobi","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',9.96394100002362392842e-03);
INSERT INTO "journal" VALUES(5,1.79535743272050976756e+09,1,'{"$":"Event","at_s":1795357432.7205098,"changes":[{"$":"TrainerFinished","trainer_id":"b"}],"samples_done":[["a",110.0]],"losses":[["a",2.3241323532840554]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,2],"wake_at_s":null,"answer":{"$":"Answer","counts":[2,2],"objective_value":4800.0,"solver":"gurobi","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":["n1#c9d840-1","n4#c9d840-4"]},{"$set":["n2#c9d840-2","n3#c9d840-3"]}],"memory":null}','[{"$":"Answer","counts":[2,2],"objective_value":4800.0,"solver":"gurobi","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',1.56370200011224369518e-03);
INSERT INTO "journal" VALUES(6,1.79535743500895261758e+09,1,'{"$":"Event","at_s":1795357435.0089526,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n1#c9d840-1"]},"classes":[]}],"samples_done":[["a",160.0],["c",21.0]],"losses":[["a",1.801108107429957],["c",4.238911472885034]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,2],"wake_at_s":null,"answer":{"$":"Answer","counts":[1,2],"objective_value":3600.0,"solver":"gurobi","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":["n4#c9d840-4"]},{"$set":["n2#c9d840-2","n3#c9d840-3"]}],"memory":null}','[{"$":"Answer","counts":[1,2],"objective_value":3600.0,"solver":"gurobi","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',2.72263319998273800592e-02);
INSERT INTO "journal" VALUES(7,1.79535743971017146105e+09,2,'{"$":"Event","at_s":1795357439.7101715,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n2#c9d840-2","n3#c9d840-3","n4#c9d840-4"]},"classes":[]}],"samples_done":[["a",213.0],["c",93.0]],"losses":[["a",1.4702799253697107],["c",2.570844113431219]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0],"wake_at_s":null,"answer":{"$":"Answer","counts":[0,0],"objective_value":0.0,"solver":"gurobi","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":[]},{"$set":[]}],"memory":null}','[{"$":"Answer","counts":[0,0],"objective_value":0.0,"solver":"gurobi","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',2.52919429999565181788e-02);
INSERT INTO "journal" VALUES(8,1.79535744014868497847e+09,2,'{"$":"Event","at_s":1795357440.148685,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#c9d840-13001","n3#c9d840-13002","n4#c9d840-13003","n5#c9d840-13004"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#c9d840-13001","n3#c9d840-13002","n4#c9d840-13003","n5#c9d840-13004"]}]]}],"samples_done":[["a",213.0],["c",93.0]],"losses":[["a",1.4702799253697107],["c",2.570844113431219]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,3],"wake_at_s":null,"answer":{"$":"Answer","counts":[1,3],"objective_value":4800.0,"solver":"gurobi","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":["n1#c9d840-13001"]},{"$set":["n3#c9d840-13002","n4#c9d840-13003","n5#c9d840-13004"]}],"memory":null}','[{"$":"Answer","counts":[1,3],"objective_value":4800.0,"solver":"gurobi","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',2.35183800032245926558e-03);
INSERT INTO "journal" VALUES(9,1.79535744300018382073e+09,2,'{"$":"Event","at_s":1795357443.0001838,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n1#c9d840-13001"]},"classes":[]}],"samples_done":[["a",260.0],["c",140.0]],"losses":[["a",1.2932314761755528],["c",1.979461196139718]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,3],"wake_at_s":null,"answer":{"$":"Answer","counts":[0,3],"objective_value":3600.0,"solver":"gurobi","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":[]},{"$set":["n3#c9d840-13002","n4#c9d840-13003","n5#c9d840-13004"]}],"memory":null}','[{"$":"Answer","counts":[0,3],"objective_value":3600.0,"solver":"gurobi","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',8.43666299988399259746e-03);
INSERT INTO "journal" VALUES(10,1.79535744320415472981e+09,2,'{"$":"Event","at_s":1795357443.2041547,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n3#c9d840-13002","n4#c9d840-13003"]},"classes":[]}],"samples_done":[["a",260.0],["c",140.0]],"losses":[["a",1.2932314761755528],["c",1.979461196139718]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,1],"wake_at_s":null,"answer":{"$":"Answer","counts":[0,1],"objective_value":1200.0,"solver":"gurobi","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":[]},{"$set":["n5#c9d840-13004"]}],"memory":null}','[{"$":"Answer","counts":[0,1],"objective_value":1200.0,"solver":"gurobi","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',1.1582980000639508944e-03);
INSERT INTO "journal" VALUES(11,1.7953574434047875404e+09,2,'{"$":"Event","at_s":1795357443.4047875,"changes":[{"$":"PoolChanged","joined":{"$set":["n2#c9d840-13005"]},"left":{"$set":["n5#c9d840-13004"]},"classes":[["0 cpus",{"$set":["n2#c9d840-13005"]}]]}],"samples_done":[["a",260.0],["c",141.0]],"losses":[["a",1.2932314761755528],["c",1.9696665841783207]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,0],"wake_at_s":null,"answer":{"$":"Answer","counts":[1,0],"objective_value":1200.0,"solver":"gurobi","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":["n2#c9d840-13005"]},{"$set":[]}],"memory":null}','[{"$":"Answer","counts":[1,0],"objective_value":1200.0,"solver":"gurobi","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',1.11419199993179063312e-03);
INSERT INTO "journal" VALUES(12,1.79535744351256012921e+09,2,'{"$":"Event","at_s":1795357443.5125601,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#c9d840-13006","n3#c9d840-13007"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#c9d840-13006","n3#c9d840-13007"]}]]}],"samples_done":[["a",260.0],["c",141.0]],"losses":[["a",1.2932314761755528],["c",1.9696665841783207]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,2],"wake_at_s":null,"answer":{"$":"Answer","counts":[1,2],"objective_value":3600.0,"solver":"gurobi","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":["n2#c9d840-13005"]},{"$set":["n1#c9d840-13006","n3#c9d840-13007"]}],"memory":null}','[{"$":"Answer","counts":[1,2],"objective_value":3600.0,"solver":"gurobi","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',1.5970720000950677786e-03);
CREATE TABLE last_state (
  only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
  journal INTEGER NOT NULL,
  state TEXT NOT NULL
);
INSERT INTO "last_state" VALUES(1,12,'{"$":"State","max_parallel":3,"at_s":1795357443.5125601,"pool":{"$set":["n1#c9d840-13006","n2#c9d840-13005","n3#c9d840-13007"]},"active":[{"$":"Active","trainer":{"$":"Trainer","id":"a","curve":{"$":"Curve","nodes":[1,2],"per_s":[10.0,20.0]},"min_nodes":1,"max_nodes":2,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null},"nodes":{"$set":["n2#c9d840-13005"]},"samples_done":260.0,"admitted_s":1795357425.9070363,"run_s":16.408613920211792,"node_s":21.113381385803223,"losses":{"$":"Losses","first":2.979354638400828,"latest":1.2932314761755528,"at_samples":260.0,"per_sample":0.0037669882807267654},"submitted":null,"sized_s":1795357443.4047875},{"$":"Active","trainer":{"$":"Trainer","id":"c","curve":{"$":"Curve","nodes":[1,4],"per_s":[10.0,40.0]},"min_nodes":1,"max_nodes":4,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null},"nodes":{"$set":["n1#c9d840-13006","n3#c9d840-13007"]},"samples_done":141.0,"admitted_s":1795357431.8028457,"run_s":10.245764255523682,"node_s":23.346365451812744,"losses":{"$":"Losses","first":4.238911472885034,"latest":1.9696665841783207,"at_samples":141.0,"per_sample":0.009794611961397193},"submitted":null,"sized_s":1795357443.5125601}],"queue":[],"memory":null,"wake_at_s":null,"classes":[["0 cpus",{"$set":["n1#c9d840-13006","n2#c9d840-13005","n3#c9d840-13007"]}]],"window_ends":[],"lessons":[]}');
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
INSERT INTO "settings" VALUES(1,1.79535742589889240261e+09,'0.1.0','bftrainer','auto','throughput',120.0,0,3);
INSERT INTO "settings" VALUES(2,1.79535743967577576633e+09,'0.1.0','bftrainer','auto','throughput',120.0,0,3);
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
