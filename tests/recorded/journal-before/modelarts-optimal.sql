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
INSERT INTO "journal" VALUES(1,1.79535693056461620334e+09,1,'{"$":"Event","at_s":1795356930.5646162,"changes":[{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"a","curve":{"$":"Curve","nodes":[1,2],"per_s":[10.0,20.0]},"min_nodes":1,"max_nodes":2,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}},{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"b","curve":{"$":"Curve","nodes":[1,3],"per_s":[10.0,30.0]},"min_nodes":1,"max_nodes":3,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":120.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}}],"samples_done":[],"losses":[],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0],"wake_at_s":1795356933.0,"answer":null},"nodes":[{"$set":[]},{"$set":[]}],"memory":1795356933.0}','[]',5.21169999956327956169e-05);
INSERT INTO "journal" VALUES(2,1.79535693099671459201e+09,1,'{"$":"Event","at_s":1795356930.9967146,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#361a7f-1","n2#361a7f-2","n3#361a7f-3"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#361a7f-1","n2#361a7f-2","n3#361a7f-3"]}]]}],"samples_done":[],"losses":[],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,1],"wake_at_s":1795356933.0,"answer":null},"nodes":[{"$set":["n1#361a7f-1","n2#361a7f-2"]},{"$set":["n3#361a7f-3"]}],"memory":1795356933.0}','[]',4.55480001164687564596e-05);
INSERT INTO "journal" VALUES(3,1.7953569330501642227e+09,1,'{"$":"Event","at_s":1795356933.0501642,"changes":[{"$":"TimerDue"}],"samples_done":[["a",30.0],["b",30.0]],"losses":[["a",3.958801493553121],["b",3.958801493553121]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,2],"wake_at_s":1795356936.0,"answer":null},"nodes":[{"$set":["n1#361a7f-1"]},{"$set":["n2#361a7f-2","n3#361a7f-3"]}],"memory":1795356936.0}','[]',3.05048530001386097865e-02);
INSERT INTO "journal" VALUES(4,1.79535693479832792274e+09,1,'{"$":"Event","at_s":1795356934.798328,"changes":[{"$":"PoolChanged","joined":{"$set":["n4#361a7f-4"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n4#361a7f-4"]}]]}],"samples_done":[["a",60.0],["b",60.0]],"losses":[["a",3.188626569563045],["b",3.188626569563045]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,2],"wake_at_s":1795356936.0,"answer":null},"nodes":[{"$set":["n1#361a7f-1"]},{"$set":["n2#361a7f-2","n3#361a7f-3"]}],"memory":1795356936.0}','[]',6.76289000011820462532e-04);
INSERT INTO "journal" VALUES(5,1.79535693601695060727e+09,1,'{"$":"Event","at_s":1795356936.0169506,"changes":[{"$":"TimerDue"}],"samples_done":[["a",80.0],["b",80.0]],"losses":[["a",2.790092855055242],["b",2.790092855055242]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,2],"wake_at_s":1795356939.0,"answer":null},"nodes":[{"$set":["n1#361a7f-1","n4#361a7f-4"]},{"$set":["n2#361a7f-2","n3#361a7f-3"]}],"memory":1795356939.0}','[]',1.27525199991396220866e-03);
INSERT INTO "journal" VALUES(6,1.7953569361283767224e+09,1,'{"$":"Event","at_s":1795356936.1283767,"changes":[{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"c","curve":{"$":"Curve","nodes":[1,4],"per_s":[10.0,40.0]},"min_nodes":1,"max_nodes":4,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}}],"samples_done":[["a",90.0],["b",80.0]],"losses":[["a",2.6189278907132953],["b",2.790092855055242]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,2,0],"wake_at_s":1795356939.0,"answer":null},"nodes":[{"$set":["n1#361a7f-1","n4#361a7f-4"]},{"$set":["n2#361a7f-2","n3#361a7f-3"]},{"$set":[]}],"memory":1795356939.0}','[]',4.81210001908039e-05);
INSERT INTO "journal" VALUES(7,1.7953569378685028553e+09,1,'{"$":"Event","at_s":1795356937.8685029,"changes":[{"$":"TrainerFinished","trainer_id":"b"}],"samples_done":[["a",120.0]],"losses":[["a",2.197521565249325]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,2],"wake_at_s":1795356939.0,"answer":null},"nodes":[{"$set":["n1#361a7f-1","n4#361a7f-4"]},{"$set":["n2#361a7f-2","n3#361a7f-3"]}],"memory":1795356939.0}','[]',4.06409999413881450891e-05);
INSERT INTO "journal" VALUES(8,1.79535693903541040418e+09,1,'{"$":"Event","at_s":1795356939.0354104,"changes":[{"$":"TimerDue"}],"samples_done":[["a",140.0],["c",10.0]],"losses":[["a",1.979461196139718],["c",4.617528300035218]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,2],"wake_at_s":1795356942.0,"answer":null},"nodes":[{"$set":["n1#361a7f-1","n4#361a7f-4"]},{"$set":["n2#361a7f-2","n3#361a7f-3"]}],"memory":1795356942.0}','[]',1.19944900006885291077e-03);
INSERT INTO "journal" VALUES(9,1.79535693943213868137e+09,1,'{"$":"Event","at_s":1795356939.4321387,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n1#361a7f-1"]},"classes":[]}],"samples_done":[["a",150.0],["c",21.0]],"losses":[["a",1.8858071489554438],["c",4.238911472885034]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,2],"wake_at_s":1795356942.0,"answer":null},"nodes":[{"$set":["n4#361a7f-4"]},{"$set":["n2#361a7f-2","n3#361a7f-3"]}],"memory":1795356942.0}','[]',3.67150000784022267907e-05);
INSERT INTO "journal" VALUES(10,1.79535694201148843763e+09,1,'{"$":"Event","at_s":1795356942.0114884,"changes":[{"$":"TimerDue"}],"samples_done":[["a",191.0],["c",70.0]],"losses":[["a",1.5866541665284148],["c",2.979354638400828]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,1],"wake_at_s":1795356945.0,"answer":null},"nodes":[{"$set":["n3#361a7f-3","n4#361a7f-4"]},{"$set":["n2#361a7f-2"]}],"memory":1795356945.0}','[]',1.55408800014811276923e-03);
INSERT INTO "journal" VALUES(11,1.79535694421291852e+09,2,'{"$":"Event","at_s":1795356944.2129185,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n2#361a7f-2","n3#361a7f-3","n4#361a7f-4"]},"classes":[]}],"samples_done":[["a",207.0],["c",82.0]],"losses":[["a",1.4995112490358058],["c",2.754470007239643]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0],"wake_at_s":1795356945.0,"answer":null},"nodes":[{"$set":[]},{"$set":[]}],"memory":1795356945.0}','[]',4.39850000475416891276e-05);
INSERT INTO "journal" VALUES(12,1.79535694464069819453e+09,2,'{"$":"Event","at_s":1795356944.6406982,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#361a7f-13001","n3#361a7f-13002","n4#361a7f-13003","n5#361a7f-13004"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#361a7f-13001","n3#361a7f-13002","n4#361a7f-13003","n5#361a7f-13004"]}]]}],"samples_done":[["a",207.0],["c",82.0]],"losses":[["a",1.4995112490358058],["c",2.754470007239643]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,2],"wake_at_s":1795356945.0,"answer":null},"nodes":[{"$set":["n1#361a7f-13001","n3#361a7f-13002"]},{"$set":["n4#361a7f-13003","n5#361a7f-13004"]}],"memory":1795356945.0}','[]',4.1631999920355156064e-05);
INSERT INTO "journal" VALUES(13,1.795356945028588295e+09,2,'{"$":"Event","at_s":1795356945.0285883,"changes":[{"$":"TimerDue"}],"samples_done":[["a",207.0],["c",82.0]],"losses":[["a",1.4995112490358058],["c",2.754470007239643]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,2],"wake_at_s":1795356948.0,"answer":null},"nodes":[{"$set":["n1#361a7f-13001","n3#361a7f-13002"]},{"$set":["n4#361a7f-13003","n5#361a7f-13004"]}],"memory":1795356948.0}','[]',2.26595359999919310212e-02);
INSERT INTO "journal" VALUES(14,1.79535694743776822086e+09,2,'{"$":"Event","at_s":1795356947.4377682,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n1#361a7f-13001"]},"classes":[]}],"samples_done":[["a",250.0],["c",123.0]],"losses":[["a",1.3242340646487252],["c",2.161953977239855]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,2],"wake_at_s":1795356948.0,"answer":null},"nodes":[{"$set":["n3#361a7f-13002"]},{"$set":["n4#361a7f-13003","n5#361a7f-13004"]}],"memory":1795356948.0}','[]',4.78419999581092270091e-05);
INSERT INTO "journal" VALUES(15,1.79535694760979294779e+09,2,'{"$":"Event","at_s":1795356947.609793,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n3#361a7f-13002","n4#361a7f-13003","n5#361a7f-13004"]},"classes":[]}],"samples_done":[["a",250.0],["c",130.0]],"losses":[["a",1.3242340646487252],["c",2.083017038047976]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0],"wake_at_s":1795356948.0,"answer":null},"nodes":[{"$set":[]},{"$set":[]}],"memory":1795356948.0}','[]',3.76059999780409270897e-05);
INSERT INTO "journal" VALUES(16,1.79535694786462402339e+09,2,'{"$":"Event","at_s":1795356947.864624,"changes":[{"$":"PoolChanged","joined":{"$set":["n2#361a7f-13005"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n2#361a7f-13005"]}]]}],"samples_done":[["a",250.0],["c",130.0]],"losses":[["a",1.3242340646487252],["c",2.083017038047976]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,0],"wake_at_s":1795356948.0,"answer":null},"nodes":[{"$set":["n2#361a7f-13005"]},{"$set":[]}],"memory":1795356948.0}','[]',3.93390000681392848491e-05);
INSERT INTO "journal" VALUES(17,1795356948.01635,2,'{"$":"Event","at_s":1795356948.01635,"changes":[{"$":"TimerDue"}],"samples_done":[["a",250.0],["c",130.0]],"losses":[["a",1.3242340646487252],["c",2.083017038047976]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,0],"wake_at_s":1795356951.0,"answer":null},"nodes":[{"$set":["n2#361a7f-13005"]},{"$set":[]}],"memory":1795356951.0}','[]',1.02821299992683634627e-03);
INSERT INTO "journal" VALUES(18,1.79535694808820247645e+09,2,'{"$":"Event","at_s":1795356948.0882025,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#361a7f-13006","n3#361a7f-13007"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#361a7f-13006","n3#361a7f-13007"]}]]}],"samples_done":[["a",250.0],["c",130.0]],"losses":[["a",1.3242340646487252],["c",2.083017038047976]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,2],"wake_at_s":1795356951.0,"answer":null},"nodes":[{"$set":["n2#361a7f-13005"]},{"$set":["n1#361a7f-13006","n3#361a7f-13007"]}],"memory":1795356951.0}','[]',3.79969999357854248955e-05);
INSERT INTO "journal" VALUES(19,1.79535695103685426707e+09,2,'{"$":"Event","at_s":1795356951.0368543,"changes":[{"$":"TimerDue"}],"samples_done":[["a",300.0],["c",180.0]],"losses":[["a",1.1961635762851428],["c",1.6552318788323497]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,1],"wake_at_s":1795356954.0,"answer":null},"nodes":[{"$set":["n2#361a7f-13005","n3#361a7f-13007"]},{"$set":["n1#361a7f-13006"]}],"memory":1795356954.0}','[]',1.22731100009332294575e-03);
CREATE TABLE last_state (
  only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
  journal INTEGER NOT NULL,
  state TEXT NOT NULL
);
INSERT INTO "last_state" VALUES(1,19,'{"$":"State","max_parallel":3,"at_s":1795356951.0368543,"pool":{"$set":["n1#361a7f-13006","n2#361a7f-13005","n3#361a7f-13007"]},"active":[{"$":"Active","trainer":{"$":"Trainer","id":"a","curve":{"$":"Curve","nodes":[1,2],"per_s":[10.0,20.0]},"min_nodes":1,"max_nodes":2,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null},"nodes":{"$set":["n2#361a7f-13005","n3#361a7f-13007"]},"samples_done":300.0,"admitted_s":1795356930.5646162,"run_s":19.357528924942017,"node_s":29.824666738510132,"losses":{"$":"Losses","first":3.958801493553121,"latest":1.1961635762851428,"at_samples":300.0,"per_sample":0.0025614097672716474},"submitted":null,"sized_s":1795356951.0368543},{"$":"Active","trainer":{"$":"Trainer","id":"c","curve":{"$":"Curve","nodes":[1,4],"per_s":[10.0,40.0]},"min_nodes":1,"max_nodes":4,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null},"nodes":{"$set":["n1#361a7f-13006"]},"samples_done":180.0,"admitted_s":1795356936.1283767,"run_s":12.262162208557129,"node_s":22.32289433479309,"losses":{"$":"Losses","first":4.617528300035218,"latest":1.6552318788323497,"at_samples":180.0,"per_sample":0.00855570318431253},"submitted":null,"sized_s":1795356951.0368543}],"queue":[],"memory":1795356954.0,"wake_at_s":1795356954.0,"classes":[["0 cpus",{"$set":["n1#361a7f-13006","n2#361a7f-13005","n3#361a7f-13007"]}]],"window_ends":[],"lessons":[]}');
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
INSERT INTO "settings" VALUES(1,1.79535693046635508535e+09,'0.1.0','modelarts-optimal?interval_s=3','exact','throughput',120.0,0,3);
INSERT INTO "settings" VALUES(2,1.79535694417306566231e+09,'0.1.0','modelarts-optimal?interval_s=3','exact','throughput',120.0,0,3);
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
