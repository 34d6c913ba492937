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
INSERT INTO "journal" VALUES(1,1.79535777480862331393e+09,1,'{"$":"Event","at_s":1795357774.8086233,"changes":[{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"a","curve":{"$":"Curve","nodes":[1,2],"per_s":[10.0,20.0]},"min_nodes":1,"max_nodes":2,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}},{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"b","curve":{"$":"Curve","nodes":[1,3],"per_s":[10.0,30.0]},"min_nodes":1,"max_nodes":3,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}}],"samples_done":[],"losses":[],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0],"wake_at_s":null,"answer":null},"nodes":[{"$set":[]},{"$set":[]}],"memory":null}','[]',3.01950003631645813584e-05);
INSERT INTO "journal" VALUES(2,1.79535777535251688964e+09,1,'{"$":"Event","at_s":1795357775.352517,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#2db00b-1","n2#2db00b-2","n3#2db00b-3"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#2db00b-1","n2#2db00b-2","n3#2db00b-3"]}]]}],"samples_done":[],"losses":[],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,0],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n1#2db00b-1","n2#2db00b-2"]},{"$set":[]}],"memory":null}','[]',2.85020000774238724261e-05);
INSERT INTO "journal" VALUES(3,1.79535777738258719438e+09,1,'{"$":"Event","at_s":1795357777.3825872,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n3#2db00b-3"]},"classes":[]}],"samples_done":[["a",30.0]],"losses":[["a",3.958801493553121]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,0],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n1#2db00b-1","n2#2db00b-2"]},{"$set":[]}],"memory":null}','[]',3.40010001309565268456e-05);
INSERT INTO "journal" VALUES(4,1.79535777903733777998e+09,1,'{"$":"Event","at_s":1795357779.0373378,"changes":[{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"c","curve":{"$":"Curve","nodes":[1,4],"per_s":[10.0,40.0]},"min_nodes":1,"max_nodes":4,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}}],"samples_done":[["a",61.0]],"losses":[["a",3.1667403038674142]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,0,0],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n1#2db00b-1","n2#2db00b-2"]},{"$set":[]},{"$set":[]}],"memory":null}','[]',4.27539998781867325305e-05);
INSERT INTO "journal" VALUES(5,1.79535777908209204676e+09,1,'{"$":"Event","at_s":1795357779.082092,"changes":[{"$":"PoolChanged","joined":{"$set":["n3#2db00b-4","n4#2db00b-5"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n3#2db00b-4","n4#2db00b-5"]}]]}],"samples_done":[["a",61.0]],"losses":[["a",3.1667403038674142]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,2,0],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n1#2db00b-1","n2#2db00b-2"]},{"$set":["n3#2db00b-4","n4#2db00b-5"]},{"$set":[]}],"memory":null}','[]',2.2753999928681878373e-05);
INSERT INTO "journal" VALUES(6,1.79535778364556193346e+09,1,'{"$":"Event","at_s":1795357783.645562,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n1#2db00b-1"]},"classes":[]}],"samples_done":[["a",150.0],["b",81.0]],"losses":[["a",1.8858071489554438],["b",2.77219192650469]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,0,0],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n2#2db00b-2","n3#2db00b-4"]},{"$set":[]},{"$set":[]}],"memory":null}','[]',2.75509996754408348351e-05);
INSERT INTO "journal" VALUES(7,1.79535778625049114226e+09,2,'{"$":"Event","at_s":1795357786.2504911,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n2#2db00b-2","n3#2db00b-4","n4#2db00b-5"]},"classes":[]}],"samples_done":[["a",176.0],["b",89.0]],"losses":[["a",1.6821097235583453],["b",2.635280697690197]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0,0],"wake_at_s":null,"answer":null},"nodes":[{"$set":[]},{"$set":[]},{"$set":[]}],"memory":null}','[]',3.21980000990151893347e-05);
INSERT INTO "journal" VALUES(8,1.79535778656830191614e+09,2,'{"$":"Event","at_s":1795357786.568302,"changes":[{"$":"PoolChanged","joined":{"$set":["n2#2db00b-11001","n3#2db00b-11002","n4#2db00b-11003"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n2#2db00b-11001","n3#2db00b-11002","n4#2db00b-11003"]}]]}],"samples_done":[["a",176.0],["b",89.0]],"losses":[["a",1.6821097235583453],["b",2.635280697690197]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,0,0],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n2#2db00b-11001","n3#2db00b-11002"]},{"$set":[]},{"$set":[]}],"memory":null}','[]',2.81220000033499673008e-05);
INSERT INTO "journal" VALUES(9,1.79535778768251776688e+09,2,'{"$":"Event","at_s":1795357787.6825178,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n2#2db00b-11001"]},"classes":[]}],"samples_done":[["a",190.0],["b",89.0]],"losses":[["a",1.5925799661903177],["b",2.635280697690197]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,0,0],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n3#2db00b-11002","n4#2db00b-11003"]},{"$set":[]},{"$set":[]}],"memory":null}','[]',2.92539998554275371134e-05);
INSERT INTO "journal" VALUES(10,1.79535778806085538866e+09,2,'{"$":"Event","at_s":1795357788.0608554,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#2db00b-11004","n5#2db00b-11005"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#2db00b-11004","n5#2db00b-11005"]}]]}],"samples_done":[["a",191.0],["b",89.0]],"losses":[["a",1.5866541665284148],["b",2.635280697690197]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,2,0],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n3#2db00b-11002","n4#2db00b-11003"]},{"$set":["n1#2db00b-11004","n5#2db00b-11005"]},{"$set":[]}],"memory":null}','[]',2.50980001510470174252e-05);
INSERT INTO "journal" VALUES(11,1.79535778996332550045e+09,2,'{"$":"Event","at_s":1795357789.9633255,"changes":[{"$":"TrainerFinished","trainer_id":"b"}],"samples_done":[["a",231.0]],"losses":[["a",1.3924550694547437]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,2],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n3#2db00b-11002","n4#2db00b-11003"]},{"$set":["n1#2db00b-11004","n5#2db00b-11005"]}],"memory":null}','[]',2.4706999738555168733e-05);
INSERT INTO "journal" VALUES(12,1.79535779167611885074e+09,2,'{"$":"Event","at_s":1795357791.6761189,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n1#2db00b-11004"]},"classes":[]}],"samples_done":[["a",260.0],["c",30.0]],"losses":[["a",1.2932314761755528],["c",3.958801493553121]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,0],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n3#2db00b-11002","n4#2db00b-11003"]},{"$set":[]}],"memory":null}','[]',2.48569999712344724684e-05);
INSERT INTO "journal" VALUES(13,1.79535779178783941271e+09,2,'{"$":"Event","at_s":1795357791.7878394,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n3#2db00b-11002","n4#2db00b-11003","n5#2db00b-11005"]},"classes":[]}],"samples_done":[["a",260.0],["c",30.0]],"losses":[["a",1.2932314761755528],["c",3.958801493553121]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0],"wake_at_s":null,"answer":null},"nodes":[{"$set":[]},{"$set":[]}],"memory":null}','[]',2.79820001196640077978e-05);
INSERT INTO "journal" VALUES(14,1.79535779215189242362e+09,2,'{"$":"Event","at_s":1795357792.1518924,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#2db00b-11006","n2#2db00b-11007","n3#2db00b-11008"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#2db00b-11006","n2#2db00b-11007","n3#2db00b-11008"]}]]}],"samples_done":[["a",260.0],["c",30.0]],"losses":[["a",1.2932314761755528],["c",3.958801493553121]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,0],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n1#2db00b-11006","n2#2db00b-11007"]},{"$set":[]}],"memory":null}','[]',2.67099999291531275957e-05);
CREATE TABLE last_state (
  only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
  journal INTEGER NOT NULL,
  state TEXT NOT NULL
);
INSERT INTO "last_state" VALUES(1,14,'{"$":"State","max_parallel":3,"at_s":1795357792.1518924,"pool":{"$set":["n1#2db00b-11006","n2#2db00b-11007","n3#2db00b-11008"]},"active":[{"$":"Active","trainer":{"$":"Trainer","id":"a","curve":{"$":"Curve","nodes":[1,2],"per_s":[10.0,20.0]},"min_nodes":1,"max_nodes":2,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null},"nodes":{"$set":["n1#2db00b-11006","n2#2db00b-11007"]},"samples_done":260.0,"admitted_s":1795357774.8086233,"run_s":16.117511749267578,"node_s":32.235023498535156,"losses":{"$":"Losses","first":3.958801493553121,"latest":1.2932314761755528,"at_samples":260.0,"per_sample":0.0034215032165238256},"submitted":null,"sized_s":1795357792.1518924},{"$":"Active","trainer":{"$":"Trainer","id":"c","curve":{"$":"Curve","nodes":[1,4],"per_s":[10.0,40.0]},"min_nodes":1,"max_nodes":4,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null},"nodes":{"$set":[]},"samples_done":30.0,"admitted_s":1795357779.0373378,"run_s":1.7127933502197266,"node_s":3.425586700439453,"losses":{"$":"Losses","first":3.958801493553121,"latest":3.958801493553121,"at_samples":30.0,"per_sample":null},"submitted":null,"sized_s":1795357791.6761189}],"queue":[],"memory":null,"wake_at_s":null,"classes":[["0 cpus",{"$set":["n1#2db00b-11006","n2#2db00b-11007","n3#2db00b-11008"]}]],"window_ends":[],"lessons":[]}');
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
INSERT INTO "settings" VALUES(1,1.79535777470146656041e+09,'0.1.0','srtf','exact','throughput',120.0,0,3);
INSERT INTO "settings" VALUES(2,1.79535778624562430386e+09,'0.1.0','srtf','exact','throughput',120.0,0,3);
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
