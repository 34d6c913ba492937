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
INSERT INTO "journal" VALUES(1,1.79535671374847173695e+09,1,'{"$":"Event","at_s":1795356713.7484717,"changes":[{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"a","curve":{"$":"Curve","nodes":[1,2],"per_s":[10.0,20.0]},"min_nodes":1,"max_nodes":2,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}},{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"b","curve":{"$":"Curve","nodes":[1,3],"per_s":[10.0,30.0]},"min_nodes":1,"max_nodes":3,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":120.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}}],"samples_done":[],"losses":[],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0],"wake_at_s":null,"answer":{"$":"Answer","counts":[0,0],"objective_value":0.0,"solver":"highs","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":[]},{"$set":[]}],"memory":null}','[{"$":"Answer","counts":[0,0],"objective_value":0.0,"solver":"highs","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',3.17233000032501877285e-04);
INSERT INTO "journal" VALUES(2,1.7953567141018667221e+09,1,'{"$":"Event","at_s":1795356714.1018667,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#66a907-1","n2#66a907-2","n3#66a907-3"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#66a907-1","n2#66a907-2","n3#66a907-3"]}]]}],"samples_done":[],"losses":[],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,3],"wake_at_s":null,"answer":{"$":"Answer","counts":[0,3],"objective_value":3600.0,"solver":"highs","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":[]},{"$set":["n1#66a907-1","n2#66a907-2","n3#66a907-3"]}],"memory":null}','[{"$":"Answer","counts":[0,3],"objective_value":3600.0,"solver":"highs","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',1.61342040000818087719e-02);
INSERT INTO "journal" VALUES(3,1.79535671795378851895e+09,1,'{"$":"Event","at_s":1795356717.9537885,"changes":[{"$":"PoolChanged","joined":{"$set":["n4#66a907-4"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n4#66a907-4"]}]]}],"samples_done":[["b",70.0]],"losses":[["b",2.979354638400828]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,3],"wake_at_s":null,"answer":{"$":"Answer","counts":[1,3],"objective_value":4800.0,"solver":"highs","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":["n4#66a907-4"]},{"$set":["n1#66a907-1","n2#66a907-2","n3#66a907-3"]}],"memory":null}','[{"$":"Answer","counts":[1,3],"objective_value":4800.0,"solver":"highs","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',1.24909399999069137265e-02);
INSERT INTO "journal" VALUES(4,1.79535671934852099416e+09,1,'{"$":"Event","at_s":1795356719.348521,"changes":[{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"c","curve":{"$":"Curve","nodes":[1,4],"per_s":[10.0,40.0]},"min_nodes":1,"max_nodes":4,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}}],"samples_done":[["a",20.0],["b",90.0]],"losses":[["a",4.271627750388923],["b",2.6189278907132953]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,3,0],"wake_at_s":null,"answer":{"$":"Answer","counts":[1,3,0],"objective_value":4800.0,"solver":"highs","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":["n4#66a907-4"]},{"$set":["n1#66a907-1","n2#66a907-2","n3#66a907-3"]},{"$set":[]}],"memory":null}','[{"$":"Answer","counts":[1,3,0],"objective_value":4800.0,"solver":"highs","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',1.40507569999499537516e-02);
INSERT INTO "journal" VALUES(5,1.79535672054680633547e+09,1,'{"$":"Event","at_s":1795356720.5468063,"changes":[{"$":"TrainerFinished","trainer_id":"b"}],"samples_done":[["a",41.0]],"losses":[["a",3.649128163935934]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,3],"wake_at_s":null,"answer":{"$":"Answer","counts":[1,3],"objective_value":4800.0,"solver":"highs","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":["n4#66a907-4"]},{"$set":["n1#66a907-1","n2#66a907-2","n3#66a907-3"]}],"memory":null}','[{"$":"Answer","counts":[1,3],"objective_value":4800.0,"solver":"highs","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',1.1600240999996458413e-02);
INSERT INTO "journal" VALUES(6,1.79535672266709423069e+09,1,'{"$":"Event","at_s":1795356722.6670942,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n1#66a907-1"]},"classes":[]}],"samples_done":[["a",81.0],["c",30.0]],"losses":[["a",2.77219192650469],["c",3.958801493553121]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,2],"wake_at_s":null,"answer":{"$":"Answer","counts":[1,2],"objective_value":3600.0,"solver":"highs","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":["n4#66a907-4"]},{"$set":["n2#66a907-2","n3#66a907-3"]}],"memory":null}','[{"$":"Answer","counts":[1,2],"objective_value":3600.0,"solver":"highs","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',2.9863310999871828244e-02);
INSERT INTO "journal" VALUES(7,1.79535672666906785969e+09,2,'{"$":"Event","at_s":1795356726.6690679,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n2#66a907-2","n3#66a907-3","n4#66a907-4"]},"classes":[]}],"samples_done":[["a",149.0],["c",83.0]],"losses":[["a",1.8947546959145896],["c",2.7369253071672466]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0],"wake_at_s":null,"answer":{"$":"Answer","counts":[0,0],"objective_value":0.0,"solver":"highs","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":[]},{"$set":[]}],"memory":null}','[{"$":"Answer","counts":[0,0],"objective_value":0.0,"solver":"highs","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',2.92405999971379060298e-04);
INSERT INTO "journal" VALUES(8,1.79535672698888564111e+09,2,'{"$":"Event","at_s":1795356726.9888856,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#66a907-13001","n3#66a907-13002","n4#66a907-13003","n5#66a907-13004"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#66a907-13001","n3#66a907-13002","n4#66a907-13003","n5#66a907-13004"]}]]}],"samples_done":[["a",149.0],["c",83.0]],"losses":[["a",1.8947546959145896],["c",2.7369253071672466]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,4],"wake_at_s":null,"answer":{"$":"Answer","counts":[0,4],"objective_value":4800.0,"solver":"highs","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":[]},{"$set":["n1#66a907-13001","n3#66a907-13002","n4#66a907-13003","n5#66a907-13004"]}],"memory":null}','[{"$":"Answer","counts":[0,4],"objective_value":4800.0,"solver":"highs","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',1.69741469999280525371e-02);
INSERT INTO "journal" VALUES(9,1.79535673065284705164e+09,2,'{"$":"Event","at_s":1795356730.652847,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n1#66a907-13001"]},"classes":[]}],"samples_done":[["a",149.0],["c",144.0]],"losses":[["a",1.8947546959145896],["c",1.9408665169616404]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,3],"wake_at_s":null,"answer":{"$":"Answer","counts":[0,3],"objective_value":3600.0,"solver":"highs","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":[]},{"$set":["n3#66a907-13002","n4#66a907-13003","n5#66a907-13004"]}],"memory":null}','[{"$":"Answer","counts":[0,3],"objective_value":3600.0,"solver":"highs","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',1.75242669999988720519e-02);
INSERT INTO "journal" VALUES(10,1.79535673082815790176e+09,2,'{"$":"Event","at_s":1795356730.828158,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n3#66a907-13002","n4#66a907-13003","n5#66a907-13004"]},"classes":[]}],"samples_done":[["a",149.0],["c",144.0]],"losses":[["a",1.8947546959145896],["c",1.9408665169616404]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0],"wake_at_s":null,"answer":{"$":"Answer","counts":[0,0],"objective_value":0.0,"solver":"highs","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":[]},{"$set":[]}],"memory":null}','[{"$":"Answer","counts":[0,0],"objective_value":0.0,"solver":"highs","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',2.65306000073906034231e-04);
INSERT INTO "journal" VALUES(11,1.79535673122064018251e+09,2,'{"$":"Event","at_s":1795356731.2206402,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#66a907-13005","n2#66a907-13006","n3#66a907-13007"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#66a907-13005","n2#66a907-13006","n3#66a907-13007"]}]]}],"samples_done":[["a",149.0],["c",144.0]],"losses":[["a",1.8947546959145896],["c",1.9408665169616404]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,3],"wake_at_s":null,"answer":{"$":"Answer","counts":[0,3],"objective_value":3600.0,"solver":"highs","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":[]},{"$set":["n1#66a907-13005","n2#66a907-13006","n3#66a907-13007"]}],"memory":null}','[{"$":"Answer","counts":[0,3],"objective_value":3600.0,"solver":"highs","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',9.73552000004929141141e-03);
CREATE TABLE last_state (
  only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
  journal INTEGER NOT NULL,
  state TEXT NOT NULL
);
INSERT INTO "last_state" VALUES(1,11,'{"$":"State","max_parallel":3,"at_s":1795356731.2206402,"pool":{"$set":["n1#66a907-13005","n2#66a907-13006","n3#66a907-13007"]},"active":[{"$":"Active","trainer":{"$":"Trainer","id":"a","curve":{"$":"Curve","nodes":[1,2],"per_s":[10.0,20.0]},"min_nodes":1,"max_nodes":2,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null},"nodes":{"$set":[]},"samples_done":149.0,"admitted_s":1795356713.7484717,"run_s":8.715279340744019,"node_s":8.715279340744019,"losses":{"$":"Losses","first":4.271627750388923,"latest":1.8947546959145896,"at_samples":149.0,"per_sample":0.012903488685148538},"submitted":null,"sized_s":1795356726.6690679},{"$":"Active","trainer":{"$":"Trainer","id":"c","curve":{"$":"Curve","nodes":[1,4],"per_s":[10.0,40.0]},"min_nodes":1,"max_nodes":4,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null},"nodes":{"$set":["n1#66a907-13005","n2#66a907-13006","n3#66a907-13007"]},"samples_done":144.0,"admitted_s":1795356719.348521,"run_s":9.961533784866333,"node_s":29.546589136123657,"losses":{"$":"Losses","first":3.958801493553121,"latest":1.9408665169616404,"at_samples":144.0,"per_sample":0.01305014410173125},"submitted":null,"sized_s":1795356731.2206402}],"queue":[],"memory":null,"wake_at_s":null,"classes":[["0 cpus",{"$set":["n1#66a907-13005","n2#66a907-13006","n3#66a907-13007"]}]],"window_ends":[],"lessons":[]}');
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
INSERT INTO "settings" VALUES(1,1.79535671366476202006e+09,'0.1.0','bftrainer','highs','throughput',120.0,0,3);
INSERT INTO "settings" VALUES(2,1.79535672665634727478e+09,'0.1.0','bftrainer','highs','throughput',120.0,0,3);
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
