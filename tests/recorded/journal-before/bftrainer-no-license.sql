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
INSERT INTO "journal" VALUES(1,1.795357229316570282e+09,1,'{"$":"Event","at_s":1795357229.3165703,"changes":[{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"a","curve":{"$":"Curve","nodes":[1,2],"per_s":[10.0,20.0]},"min_nodes":1,"max_nodes":2,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}},{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"b","curve":{"$":"Curve","nodes":[1,3],"per_s":[10.0,30.0]},"min_nodes":1,"max_nodes":3,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":120.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}}],"samples_done":[],"losses":[],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0],"wake_at_s":null,"answer":{"$":"Answer","counts":[0,0],"objective_value":0.0,"solver":"highs","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[{"$":"Fallback","solver":"gurobi","reason":{"$enum":"Reason","name":"NO_LICENCE"},"detail":"error 10009: Unable to open Gurobi license file ''/nonexistent.lic''"}]}},"nodes":[{"$set":[]},{"$set":[]}],"memory":null}','[{"$":"Answer","counts":[0,0],"objective_value":0.0,"solver":"highs","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[{"$":"Fallback","solver":"gurobi","reason":{"$enum":"Reason","name":"NO_LICENCE"},"detail":"error 10009: Unable to open Gurobi license file ''/nonexistent.lic''"}]}]',0.0464951869998913);
INSERT INTO "journal" VALUES(2,1.79535722970320916177e+09,1,'{"$":"Event","at_s":1795357229.7032092,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#0ea3e4-1","n2#0ea3e4-2","n3#0ea3e4-3"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#0ea3e4-1","n2#0ea3e4-2","n3#0ea3e4-3"]}]]}],"samples_done":[],"losses":[],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,3],"wake_at_s":null,"answer":{"$":"Answer","counts":[0,3],"objective_value":3600.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[{"$":"Fallback","solver":"gurobi","reason":{"$enum":"Reason","name":"NO_LICENCE"},"detail":"error 10009: Unable to open Gurobi license file ''/nonexistent.lic''"},{"$":"Fallback","solver":"highs","reason":{"$enum":"Reason","name":"TIME_LIMIT"},"detail":"relative gap 6e+12"}]}},"nodes":[{"$set":[]},{"$set":["n1#0ea3e4-1","n2#0ea3e4-2","n3#0ea3e4-3"]}],"memory":null}','[{"$":"Answer","counts":[0,3],"objective_value":3600.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[{"$":"Fallback","solver":"gurobi","reason":{"$enum":"Reason","name":"NO_LICENCE"},"detail":"error 10009: Unable to open Gurobi license file ''/nonexistent.lic''"},{"$":"Fallback","solver":"highs","reason":{"$enum":"Reason","name":"TIME_LIMIT"},"detail":"relative gap 6e+12"}]}]',2.41780609999295847956e-02);
INSERT INTO "journal" VALUES(3,1.79535723350182938569e+09,1,'{"$":"Event","at_s":1795357233.5018294,"changes":[{"$":"PoolChanged","joined":{"$set":["n4#0ea3e4-4"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n4#0ea3e4-4"]}]]}],"samples_done":[["b",61.0]],"losses":[["b",3.1667403038674142]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,3],"wake_at_s":null,"answer":{"$":"Answer","counts":[1,3],"objective_value":4800.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[{"$":"Fallback","solver":"gurobi","reason":{"$enum":"Reason","name":"NO_LICENCE"},"detail":"error 10009: Unable to open Gurobi license file ''/nonexistent.lic''"},{"$":"Fallback","solver":"highs","reason":{"$enum":"Reason","name":"TIME_LIMIT"},"detail":"relative gap 0.667"}]}},"nodes":[{"$set":["n4#0ea3e4-4"]},{"$set":["n1#0ea3e4-1","n2#0ea3e4-2","n3#0ea3e4-3"]}],"memory":null}','[{"$":"Answer","counts":[1,3],"objective_value":4800.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[{"$":"Fallback","solver":"gurobi","reason":{"$enum":"Reason","name":"NO_LICENCE"},"detail":"error 10009: Unable to open Gurobi license file ''/nonexistent.lic''"},{"$":"Fallback","solver":"highs","reason":{"$enum":"Reason","name":"TIME_LIMIT"},"detail":"relative gap 0.667"}]}]',1.34241300020221387967e-03);
INSERT INTO "journal" VALUES(4,1.79535723460496950154e+09,1,'{"$":"Event","at_s":1795357234.6049695,"changes":[{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"c","curve":{"$":"Curve","nodes":[1,4],"per_s":[10.0,40.0]},"min_nodes":1,"max_nodes":4,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}}],"samples_done":[["a",10.0],["b",90.0]],"losses":[["a",4.617528300035218],["b",2.6189278907132953]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,3,0],"wake_at_s":null,"answer":{"$":"Answer","counts":[1,3,0],"objective_value":4800.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[{"$":"Fallback","solver":"gurobi","reason":{"$enum":"Reason","name":"NO_LICENCE"},"detail":"error 10009: Unable to open Gurobi license file ''/nonexistent.lic''"},{"$":"Fallback","solver":"highs","reason":{"$enum":"Reason","name":"TIME_LIMIT"},"detail":"relative gap 1.25"}]}},"nodes":[{"$set":["n4#0ea3e4-4"]},{"$set":["n1#0ea3e4-1","n2#0ea3e4-2","n3#0ea3e4-3"]},{"$set":[]}],"memory":null}','[{"$":"Answer","counts":[1,3,0],"objective_value":4800.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[{"$":"Fallback","solver":"gurobi","reason":{"$enum":"Reason","name":"NO_LICENCE"},"detail":"error 10009: Unable to open Gurobi license file ''/nonexistent.lic''"},{"$":"Fallback","solver":"highs","reason":{"$enum":"Reason","name":"TIME_LIMIT"},"detail":"relative gap 1.25"}]}]',1.4702329999636276625e-03);
INSERT INTO "journal" VALUES(5,1.7953572362485351562e+09,1,'{"$":"Event","at_s":1795357236.2485352,"changes":[{"$":"TrainerFinished","trainer_id":"b"}],"samples_done":[["a",41.0]],"losses":[["a",3.649128163935934]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,3],"wake_at_s":null,"answer":{"$":"Answer","counts":[1,3],"objective_value":4800.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[{"$":"Fallback","solver":"gurobi","reason":{"$enum":"Reason","name":"NO_LICENCE"},"detail":"error 10009: Unable to open Gurobi license file ''/nonexistent.lic''"},{"$":"Fallback","solver":"highs","reason":{"$enum":"Reason","name":"TIME_LIMIT"},"detail":"relative gap 5"}]}},"nodes":[{"$set":["n4#0ea3e4-4"]},{"$set":["n1#0ea3e4-1","n2#0ea3e4-2","n3#0ea3e4-3"]}],"memory":null}','[{"$":"Answer","counts":[1,3],"objective_value":4800.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[{"$":"Fallback","solver":"gurobi","reason":{"$enum":"Reason","name":"NO_LICENCE"},"detail":"error 10009: Unable to open Gurobi license file ''/nonexistent.lic''"},{"$":"Fallback","solver":"highs","reason":{"$enum":"Reason","name":"TIME_LIMIT"},"detail":"relative gap 5"}]}]',1.62373200009824358858e-03);
INSERT INTO "journal" VALUES(6,1.79535723823173880581e+09,1,'{"$":"Event","at_s":1795357238.2317388,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n1#0ea3e4-1"]},"classes":[]}],"samples_done":[["a",81.0],["c",30.0]],"losses":[["a",2.77219192650469],["c",3.958801493553121]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,2],"wake_at_s":null,"answer":{"$":"Answer","counts":[1,2],"objective_value":3600.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[{"$":"Fallback","solver":"gurobi","reason":{"$enum":"Reason","name":"NO_LICENCE"},"detail":"error 10009: Unable to open Gurobi license file ''/nonexistent.lic''"},{"$":"Fallback","solver":"highs","reason":{"$enum":"Reason","name":"TIME_LIMIT"},"detail":"relative gap 0.998"}]}},"nodes":[{"$set":["n4#0ea3e4-4"]},{"$set":["n2#0ea3e4-2","n3#0ea3e4-3"]}],"memory":null}','[{"$":"Answer","counts":[1,2],"objective_value":3600.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[{"$":"Fallback","solver":"gurobi","reason":{"$enum":"Reason","name":"NO_LICENCE"},"detail":"error 10009: Unable to open Gurobi license file ''/nonexistent.lic''"},{"$":"Fallback","solver":"highs","reason":{"$enum":"Reason","name":"TIME_LIMIT"},"detail":"relative gap 0.998"}]}]',0.0053229990003274);
INSERT INTO "journal" VALUES(7,1.7953572423889291287e+09,2,'{"$":"Event","at_s":1795357242.3889291,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n2#0ea3e4-2","n3#0ea3e4-3","n4#0ea3e4-4"]},"classes":[]}],"samples_done":[["a",141.0],["c",79.0]],"losses":[["a",1.9696665841783207],["c",2.808174601065901]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0],"wake_at_s":null,"answer":{"$":"Answer","counts":[0,0],"objective_value":0.0,"solver":"highs","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[{"$":"Fallback","solver":"gurobi","reason":{"$enum":"Reason","name":"NO_LICENCE"},"detail":"error 10009: Unable to open Gurobi license file ''/nonexistent.lic''"}]}},"nodes":[{"$set":[]},{"$set":[]}],"memory":null}','[{"$":"Answer","counts":[0,0],"objective_value":0.0,"solver":"highs","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[{"$":"Fallback","solver":"gurobi","reason":{"$enum":"Reason","name":"NO_LICENCE"},"detail":"error 10009: Unable to open Gurobi license file ''/nonexistent.lic''"}]}]',1.91660659997978655155e-02);
INSERT INTO "journal" VALUES(8,1.79535724278714442251e+09,2,'{"$":"Event","at_s":1795357242.7871444,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#0ea3e4-13001","n3#0ea3e4-13002","n4#0ea3e4-13003","n5#0ea3e4-13004"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#0ea3e4-13001","n3#0ea3e4-13002","n4#0ea3e4-13003","n5#0ea3e4-13004"]}]]}],"samples_done":[["a",141.0],["c",79.0]],"losses":[["a",1.9696665841783207],["c",2.808174601065901]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,4],"wake_at_s":null,"answer":{"$":"Answer","counts":[0,4],"objective_value":4800.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[{"$":"Fallback","solver":"gurobi","reason":{"$enum":"Reason","name":"NO_LICENCE"},"detail":"error 10009: Unable to open Gurobi license file ''/nonexistent.lic''"},{"$":"Fallback","solver":"highs","reason":{"$enum":"Reason","name":"TIME_LIMIT"},"detail":"relative gap 7.2e+12"}]}},"nodes":[{"$set":[]},{"$set":["n1#0ea3e4-13001","n3#0ea3e4-13002","n4#0ea3e4-13003","n5#0ea3e4-13004"]}],"memory":null}','[{"$":"Answer","counts":[0,4],"objective_value":4800.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[{"$":"Fallback","solver":"gurobi","reason":{"$enum":"Reason","name":"NO_LICENCE"},"detail":"error 10009: Unable to open Gurobi license file ''/nonexistent.lic''"},{"$":"Fallback","solver":"highs","reason":{"$enum":"Reason","name":"TIME_LIMIT"},"detail":"relative gap 7.2e+12"}]}]',1.876626900002520415e-02);
INSERT INTO "journal" VALUES(9,1.79535724627493166929e+09,2,'{"$":"Event","at_s":1795357246.2749317,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n1#0ea3e4-13001","n3#0ea3e4-13002","n4#0ea3e4-13003"]},"classes":[]}],"samples_done":[["a",141.0],["c",140.0]],"losses":[["a",1.9696665841783207],["c",1.979461196139718]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,1],"wake_at_s":null,"answer":{"$":"Answer","counts":[0,1],"objective_value":1200.0,"solver":"highs","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[{"$":"Fallback","solver":"gurobi","reason":{"$enum":"Reason","name":"NO_LICENCE"},"detail":"error 10009: Unable to open Gurobi license file ''/nonexistent.lic''"}]}},"nodes":[{"$set":[]},{"$set":["n5#0ea3e4-13004"]}],"memory":null}','[{"$":"Answer","counts":[0,1],"objective_value":1200.0,"solver":"highs","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[{"$":"Fallback","solver":"gurobi","reason":{"$enum":"Reason","name":"NO_LICENCE"},"detail":"error 10009: Unable to open Gurobi license file ''/nonexistent.lic''"}]}]',1.28895199986800434999e-03);
INSERT INTO "journal" VALUES(10,1.79535724639208340647e+09,2,'{"$":"Event","at_s":1795357246.3920834,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n5#0ea3e4-13004"]},"classes":[]}],"samples_done":[["a",141.0],["c",140.0]],"losses":[["a",1.9696665841783207],["c",1.979461196139718]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0],"wake_at_s":null,"answer":{"$":"Answer","counts":[0,0],"objective_value":0.0,"solver":"highs","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[{"$":"Fallback","solver":"gurobi","reason":{"$enum":"Reason","name":"NO_LICENCE"},"detail":"error 10009: Unable to open Gurobi license file ''/nonexistent.lic''"}]}},"nodes":[{"$set":[]},{"$set":[]}],"memory":null}','[{"$":"Answer","counts":[0,0],"objective_value":0.0,"solver":"highs","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[{"$":"Fallback","solver":"gurobi","reason":{"$enum":"Reason","name":"NO_LICENCE"},"detail":"error 10009: Unable to open Gurobi license file ''/nonexistent.lic''"}]}]',2.46418000187986763194e-04);
INSERT INTO "journal" VALUES(11,1.79535724662864255903e+09,2,'{"$":"Event","at_s":1795357246.6286426,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#0ea3e4-13005","n2#0ea3e4-13006"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#0ea3e4-13005","n2#0ea3e4-13006"]}]]}],"samples_done":[["a",141.0],["c",140.0]],"losses":[["a",1.9696665841783207],["c",1.979461196139718]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,0],"wake_at_s":null,"answer":{"$":"Answer","counts":[2,0],"objective_value":2400.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[{"$":"Fallback","solver":"gurobi","reason":{"$enum":"Reason","name":"NO_LICENCE"},"detail":"error 10009: Unable to open Gurobi license file ''/nonexistent.lic''"},{"$":"Fallback","solver":"highs","reason":{"$enum":"Reason","name":"TIME_LIMIT"},"detail":"relative gap 7.2e+12"}]}},"nodes":[{"$set":["n1#0ea3e4-13005","n2#0ea3e4-13006"]},{"$set":[]}],"memory":null}','[{"$":"Answer","counts":[2,0],"objective_value":2400.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[{"$":"Fallback","solver":"gurobi","reason":{"$enum":"Reason","name":"NO_LICENCE"},"detail":"error 10009: Unable to open Gurobi license file ''/nonexistent.lic''"},{"$":"Fallback","solver":"highs","reason":{"$enum":"Reason","name":"TIME_LIMIT"},"detail":"relative gap 7.2e+12"}]}]',1.24154199966142186895e-03);
INSERT INTO "journal" VALUES(12,1.7953572468155949115e+09,2,'{"$":"Event","at_s":1795357246.815595,"changes":[{"$":"PoolChanged","joined":{"$set":["n3#0ea3e4-13007"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n3#0ea3e4-13007"]}]]}],"samples_done":[["a",141.0],["c",140.0]],"losses":[["a",1.9696665841783207],["c",1.979461196139718]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,1],"wake_at_s":null,"answer":{"$":"Answer","counts":[2,1],"objective_value":3600.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[{"$":"Fallback","solver":"gurobi","reason":{"$enum":"Reason","name":"NO_LICENCE"},"detail":"error 10009: Unable to open Gurobi license file ''/nonexistent.lic''"},{"$":"Fallback","solver":"highs","reason":{"$enum":"Reason","name":"TIME_LIMIT"},"detail":"relative gap 2"}]}},"nodes":[{"$set":["n1#0ea3e4-13005","n2#0ea3e4-13006"]},{"$set":["n3#0ea3e4-13007"]}],"memory":null}','[{"$":"Answer","counts":[2,1],"objective_value":3600.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[{"$":"Fallback","solver":"gurobi","reason":{"$enum":"Reason","name":"NO_LICENCE"},"detail":"error 10009: Unable to open Gurobi license file ''/nonexistent.lic''"},{"$":"Fallback","solver":"highs","reason":{"$enum":"Reason","name":"TIME_LIMIT"},"detail":"relative gap 2"}]}]',2.23972999992838595062e-03);
CREATE TABLE last_state (
  only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
  journal INTEGER NOT NULL,
  state TEXT NOT NULL
);
INSERT INTO "last_state" VALUES(1,12,'{"$":"State","max_parallel":3,"at_s":1795357246.815595,"pool":{"$set":["n1#0ea3e4-13005","n2#0ea3e4-13006","n3#0ea3e4-13007"]},"active":[{"$":"Active","trainer":{"$":"Trainer","id":"a","curve":{"$":"Curve","nodes":[1,2],"per_s":[10.0,20.0]},"min_nodes":1,"max_nodes":2,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null},"nodes":{"$set":["n1#0ea3e4-13005","n2#0ea3e4-13006"]},"samples_done":141.0,"admitted_s":1795357229.3165703,"run_s":9.074052095413208,"node_s":9.261004447937012,"losses":{"$":"Losses","first":4.617528300035218,"latest":1.9696665841783207,"at_samples":141.0,"per_sample":0.013375422372106156},"submitted":null,"sized_s":1795357246.6286426},{"$":"Active","trainer":{"$":"Trainer","id":"c","curve":{"$":"Curve","nodes":[1,4],"per_s":[10.0,40.0]},"min_nodes":1,"max_nodes":4,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null},"nodes":{"$set":["n3#0ea3e4-13007"]},"samples_done":140.0,"admitted_s":1795357234.6049695,"run_s":9.745332956314087,"node_s":28.332292318344116,"losses":{"$":"Losses","first":3.958801493553121,"latest":1.979461196139718,"at_samples":140.0,"per_sample":0.013585465654527595},"submitted":null,"sized_s":1795357246.815595}],"queue":[],"memory":null,"wake_at_s":null,"classes":[["0 cpus",{"$set":["n1#0ea3e4-13005","n2#0ea3e4-13006","n3#0ea3e4-13007"]}]],"window_ends":[],"lessons":[]}');
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
INSERT INTO "settings" VALUES(1,1.79535722922404789927e+09,'0.1.0','bftrainer','auto','throughput',120.0,0,3);
INSERT INTO "settings" VALUES(2,1.79535724234800648686e+09,'0.1.0','bftrainer','auto','throughput',120.0,0,3);
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
