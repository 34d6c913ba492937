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
INSERT INTO "journal" VALUES(1,1.79535702365761327741e+09,1,'{"$":"Event","at_s":1795357023.6576133,"changes":[{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"a","curve":{"$":"Curve","nodes":[1,2],"per_s":[10.0,20.0]},"min_nodes":1,"max_nodes":2,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}},{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"b","curve":{"$":"Curve","nodes":[1,3],"per_s":[10.0,30.0]},"min_nodes":1,"max_nodes":3,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":120.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}}],"samples_done":[],"losses":[],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0],"wake_at_s":null,"answer":null},"nodes":[{"$set":[]},{"$set":[]}],"memory":null}','[]',3.31589999404968693852e-05);
INSERT INTO "journal" VALUES(2,1.79535702409666585925e+09,1,'{"$":"Event","at_s":1795357024.0966659,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#aaa001-1","n2#aaa001-2","n3#aaa001-3"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#aaa001-1","n2#aaa001-2","n3#aaa001-3"]}]]}],"samples_done":[],"losses":[],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,2],"wake_at_s":null,"answer":null},"nodes":[{"$set":[]},{"$set":["n1#aaa001-1","n2#aaa001-2"]}],"memory":null}','[]',2.83219999346329132094e-05);
INSERT INTO "journal" VALUES(3,1.79535702614009714129e+09,1,'{"$":"Event","at_s":1795357026.1400971,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n3#aaa001-3"]},"classes":[]}],"samples_done":[["b",30.0]],"losses":[["b",3.958801493553121]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,2],"wake_at_s":null,"answer":null},"nodes":[{"$set":[]},{"$set":["n1#aaa001-1","n2#aaa001-2"]}],"memory":null}','[]',2.89129998236603569239e-05);
INSERT INTO "journal" VALUES(4,1.79535702901428580288e+09,1,'{"$":"Event","at_s":1795357029.0142858,"changes":[{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"c","curve":{"$":"Curve","nodes":[1,4],"per_s":[10.0,40.0]},"min_nodes":1,"max_nodes":4,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}}],"samples_done":[["b",90.0]],"losses":[["b",2.6189278907132953]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,2,0],"wake_at_s":null,"answer":null},"nodes":[{"$set":[]},{"$set":["n1#aaa001-1","n2#aaa001-2"]},{"$set":[]}],"memory":null}','[]',3.89780000205064425244e-05);
INSERT INTO "journal" VALUES(5,1.79535702908850264549e+09,1,'{"$":"Event","at_s":1795357029.0885026,"changes":[{"$":"PoolChanged","joined":{"$set":["n3#aaa001-4","n4#aaa001-5"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n3#aaa001-4","n4#aaa001-5"]}]]}],"samples_done":[["b",90.0]],"losses":[["b",2.6189278907132953]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,2,0],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n3#aaa001-4","n4#aaa001-5"]},{"$set":["n1#aaa001-1","n2#aaa001-2"]},{"$set":[]}],"memory":null}','[]',2.32649999816203489899e-05);
INSERT INTO "journal" VALUES(6,1.79535703060457348828e+09,1,'{"$":"Event","at_s":1795357030.6045735,"changes":[{"$":"TrainerFinished","trainer_id":"b"}],"samples_done":[["a",21.0]],"losses":[["a",4.238911472885034]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,2],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n3#aaa001-4","n4#aaa001-5"]},{"$set":["n1#aaa001-1","n2#aaa001-2"]}],"memory":null}','[]',2.09219999760534847155e-05);
INSERT INTO "journal" VALUES(7,1.79535703259641456598e+09,1,'{"$":"Event","at_s":1795357032.5964146,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n1#aaa001-1"]},"classes":[]}],"samples_done":[["a",60.0],["c",30.0]],"losses":[["a",3.188626569563045],["c",3.958801493553121]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,0],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n3#aaa001-4","n4#aaa001-5"]},{"$set":[]}],"memory":null}','[]',2.23030001507140696048e-05);
INSERT INTO "journal" VALUES(8,1.79535703497214651101e+09,1,'{"$":"Event","at_s":1795357034.9721465,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n2#aaa001-2"]},"classes":[]}],"samples_done":[["a",101.0],["c",30.0]],"losses":[["a",2.4494880714419875],["c",3.958801493553121]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,0],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n3#aaa001-4","n4#aaa001-5"]},{"$set":[]}],"memory":null}','[]',2.30239998018078040331e-05);
INSERT INTO "journal" VALUES(9,1.79535703687685012819e+09,2,'{"$":"Event","at_s":1795357036.8768501,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n3#aaa001-4","n4#aaa001-5"]},"classes":[]}],"samples_done":[["a",117.0],["c",30.0]],"losses":[["a",2.2341778825386043],["c",3.958801493553121]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0],"wake_at_s":null,"answer":null},"nodes":[{"$set":[]},{"$set":[]}],"memory":null}','[]',3.38600000304722925648e-05);
INSERT INTO "journal" VALUES(10,1.79535703724865221978e+09,2,'{"$":"Event","at_s":1795357037.2486522,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#aaa001-13001","n3#aaa001-13002","n4#aaa001-13003","n5#aaa001-13004"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#aaa001-13001","n3#aaa001-13002","n4#aaa001-13003","n5#aaa001-13004"]}]]}],"samples_done":[["a",117.0],["c",30.0]],"losses":[["a",2.2341778825386043],["c",3.958801493553121]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,2],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n1#aaa001-13001","n3#aaa001-13002"]},{"$set":["n4#aaa001-13003","n5#aaa001-13004"]}],"memory":null}','[]',2.98439999824040569365e-05);
INSERT INTO "journal" VALUES(11,1.79535704053688812253e+09,2,'{"$":"Event","at_s":1795357040.5368881,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n1#aaa001-13001"]},"classes":[]}],"samples_done":[["a",170.0],["c",80.0]],"losses":[["a",1.724507812503881],["c",2.790092855055242]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,0],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n3#aaa001-13002","n4#aaa001-13003"]},{"$set":[]}],"memory":null}','[]',3.15169997975317528471e-05);
INSERT INTO "journal" VALUES(12,1.79535704067215371132e+09,2,'{"$":"Event","at_s":1795357040.6721537,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n3#aaa001-13002","n4#aaa001-13003","n5#aaa001-13004"]},"classes":[]}],"samples_done":[["a",170.0],["c",80.0]],"losses":[["a",1.724507812503881],["c",2.790092855055242]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0],"wake_at_s":null,"answer":null},"nodes":[{"$set":[]},{"$set":[]}],"memory":null}','[]',3.34899998506443807855e-05);
INSERT INTO "journal" VALUES(13,1.79535704112862825394e+09,2,'{"$":"Event","at_s":1795357041.1286283,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#aaa001-13005","n2#aaa001-13006","n3#aaa001-13007"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#aaa001-13005","n2#aaa001-13006","n3#aaa001-13007"]}]]}],"samples_done":[["a",170.0],["c",80.0]],"losses":[["a",1.724507812503881],["c",2.790092855055242]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,0],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n1#aaa001-13005","n2#aaa001-13006"]},{"$set":[]}],"memory":null}','[]',2.38049999552458757534e-05);
INSERT INTO "journal" VALUES(14,1.79535704318812537193e+09,2,'{"$":"Event","at_s":1795357043.1881254,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n3#aaa001-13007"]},"classes":[]}],"samples_done":[["a",200.0],["c",80.0]],"losses":[["a",1.5359186994318468],["c",2.790092855055242]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,0],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n1#aaa001-13005","n2#aaa001-13006"]},{"$set":[]}],"memory":null}','[]',2.12920001558813964948e-05);
CREATE TABLE last_state (
  only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
  journal INTEGER NOT NULL,
  state TEXT NOT NULL
);
INSERT INTO "last_state" VALUES(1,14,'{"$":"State","max_parallel":3,"at_s":1795357043.1881254,"pool":{"$set":["n1#aaa001-13005","n2#aaa001-13006"]},"active":[{"$":"Active","trainer":{"$":"Trainer","id":"a","curve":{"$":"Curve","nodes":[1,2],"per_s":[10.0,20.0]},"min_nodes":1,"max_nodes":2,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null},"nodes":{"$set":["n1#aaa001-13005","n2#aaa001-13006"]},"samples_done":200.0,"admitted_s":1795357023.6576133,"run_s":13.271346092224121,"node_s":26.542692184448242,"losses":{"$":"Losses","first":4.238911472885034,"latest":1.5359186994318468,"at_samples":200.0,"per_sample":0.00628630376906781},"submitted":null,"sized_s":1795357041.1286283},{"$":"Active","trainer":{"$":"Trainer","id":"c","curve":{"$":"Curve","nodes":[1,4],"per_s":[10.0,40.0]},"min_nodes":1,"max_nodes":4,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null},"nodes":{"$set":[]},"samples_done":80.0,"admitted_s":1795357029.0142858,"run_s":5.28007698059082,"node_s":10.56015396118164,"losses":{"$":"Losses","first":3.958801493553121,"latest":2.790092855055242,"at_samples":80.0,"per_sample":0.023374172769957572},"submitted":null,"sized_s":1795357040.5368881}],"queue":[],"memory":null,"wake_at_s":null,"classes":[["0 cpus",{"$set":["n1#aaa001-13005","n2#aaa001-13006"]}]],"window_ends":[],"lessons":[]}');
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
INSERT INTO "settings" VALUES(1,1.79535702355902338032e+09,'0.1.0','srtf','exact','throughput',120.0,0,3);
INSERT INTO "settings" VALUES(2,1.79535703685108160966e+09,'0.1.0','srtf','exact','throughput',120.0,0,3);
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
