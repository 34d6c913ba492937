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
INSERT INTO "journal" VALUES(1,1.79535695508193206791e+09,1,'{"$":"Event","at_s":1795356955.081932,"changes":[{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"a","curve":{"$":"Curve","nodes":[1,2],"per_s":[10.0,20.0]},"min_nodes":1,"max_nodes":2,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}},{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"b","curve":{"$":"Curve","nodes":[1,3],"per_s":[10.0,30.0]},"min_nodes":1,"max_nodes":3,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":120.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}}],"samples_done":[],"losses":[],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0],"wake_at_s":1795356957.0,"answer":null},"nodes":[{"$set":[]},{"$set":[]}],"memory":1795356957.0}','[]',4.09409999519994e-05);
INSERT INTO "journal" VALUES(2,1.79535695550389051439e+09,1,'{"$":"Event","at_s":1795356955.5038905,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#2c8693-1","n2#2c8693-2","n3#2c8693-3"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#2c8693-1","n2#2c8693-2","n3#2c8693-3"]}]]}],"samples_done":[],"losses":[],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,1],"wake_at_s":1795356957.0,"answer":null},"nodes":[{"$set":["n1#2c8693-1","n2#2c8693-2"]},{"$set":["n3#2c8693-3"]}],"memory":1795356957.0}','[]',3.70850000308564631268e-05);
INSERT INTO "journal" VALUES(3,1.79535695701685118672e+09,1,'{"$":"Event","at_s":1795356957.0168512,"changes":[{"$":"TimerDue"}],"samples_done":[["a",21.0],["b",21.0]],"losses":[["a",4.238911472885034],["b",4.238911472885034]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,1],"wake_at_s":1795356960.0,"answer":null},"nodes":[{"$set":["n1#2c8693-1","n2#2c8693-2"]},{"$set":["n3#2c8693-3"]}],"memory":1795356960.0}','[]',5.22079999427660368382e-05);
INSERT INTO "journal" VALUES(4,1.79535695928071975706e+09,1,'{"$":"Event","at_s":1795356959.2807198,"changes":[{"$":"PoolChanged","joined":{"$set":["n4#2c8693-4"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n4#2c8693-4"]}]]}],"samples_done":[["a",61.0],["b",61.0]],"losses":[["a",3.1667403038674142],["b",3.1667403038674142]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,1],"wake_at_s":1795356960.0,"answer":null},"nodes":[{"$set":["n1#2c8693-1","n2#2c8693-2"]},{"$set":["n3#2c8693-3"]}],"memory":1795356960.0}','[]',3.88779999411781318485e-05);
INSERT INTO "journal" VALUES(5,1.79535696000062537191e+09,1,'{"$":"Event","at_s":1795356960.0006254,"changes":[{"$":"TimerDue"}],"samples_done":[["a",81.0],["b",81.0]],"losses":[["a",2.77219192650469],["b",2.77219192650469]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,2],"wake_at_s":1795356963.0,"answer":null},"nodes":[{"$set":["n1#2c8693-1","n2#2c8693-2"]},{"$set":["n3#2c8693-3","n4#2c8693-4"]}],"memory":1795356963.0}','[]',4.62590001006901729851e-05);
INSERT INTO "journal" VALUES(6,1.79535696027386379239e+09,1,'{"$":"Event","at_s":1795356960.2738638,"changes":[{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"c","curve":{"$":"Curve","nodes":[1,4],"per_s":[10.0,40.0]},"min_nodes":1,"max_nodes":4,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}}],"samples_done":[["a",81.0],["b",86.0]],"losses":[["a",2.77219192650469],["b",2.685336888619072]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,2,0],"wake_at_s":1795356963.0,"answer":null},"nodes":[{"$set":["n1#2c8693-1","n2#2c8693-2"]},{"$set":["n3#2c8693-3","n4#2c8693-4"]},{"$set":[]}],"memory":1795356963.0}','[]',4.17920000472804531455e-05);
INSERT INTO "journal" VALUES(7,1.79535696211094784741e+09,1,'{"$":"Event","at_s":1795356962.1109478,"changes":[{"$":"TrainerFinished","trainer_id":"b"}],"samples_done":[["a",121.0]],"losses":[["a",2.185546349596832]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,2],"wake_at_s":1795356963.0,"answer":null},"nodes":[{"$set":["n1#2c8693-1","n2#2c8693-2"]},{"$set":["n3#2c8693-3","n4#2c8693-4"]}],"memory":1795356963.0}','[]',6.43160001345677301287e-05);
INSERT INTO "journal" VALUES(8,1.79535696301873278621e+09,1,'{"$":"Event","at_s":1795356963.0187328,"changes":[{"$":"TimerDue"}],"samples_done":[["a",141.0],["c",10.0]],"losses":[["a",1.9696665841783207],["c",4.617528300035218]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,2],"wake_at_s":1795356966.0,"answer":null},"nodes":[{"$set":["n1#2c8693-1","n2#2c8693-2"]},{"$set":["n3#2c8693-3","n4#2c8693-4"]}],"memory":1795356966.0}','[]',4.89730000481358729302e-05);
INSERT INTO "journal" VALUES(9,1.79535696403705906862e+09,1,'{"$":"Event","at_s":1795356964.037059,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n1#2c8693-1"]},"classes":[]}],"samples_done":[["a",161.0],["c",30.0]],"losses":[["a",1.7930970263556576],["c",3.958801493553121]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,2],"wake_at_s":1795356966.0,"answer":null},"nodes":[{"$set":["n2#2c8693-2"]},{"$set":["n3#2c8693-3","n4#2c8693-4"]}],"memory":1795356966.0}','[]',3.0586000093535403721e-05);
INSERT INTO "journal" VALUES(10,1.79535696604562616351e+09,1,'{"$":"Event","at_s":1795356966.0456262,"changes":[{"$":"TimerDue"}],"samples_done":[["a",190.0],["c",70.0]],"losses":[["a",1.5925799661903177],["c",2.979354638400828]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,2],"wake_at_s":1795356969.0,"answer":null},"nodes":[{"$set":["n2#2c8693-2"]},{"$set":["n3#2c8693-3","n4#2c8693-4"]}],"memory":1795356969.0}','[]',4.11910000366333406418e-05);
INSERT INTO "journal" VALUES(11,1.79535696753403282164e+09,2,'{"$":"Event","at_s":1795356967.5340328,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n2#2c8693-2","n3#2c8693-3","n4#2c8693-4"]},"classes":[]}],"samples_done":[["a",205.0],["c",85.0]],"losses":[["a",1.5096533507150351],["c",2.702360493554618]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0],"wake_at_s":1795356969.0,"answer":null},"nodes":[{"$set":[]},{"$set":[]}],"memory":1795356969.0}','[]',2.93339999188901856541e-05);
INSERT INTO "journal" VALUES(12,1.79535696799665689471e+09,2,'{"$":"Event","at_s":1795356967.996657,"changes":[{"$":"PoolChanged","joined":{"$set":["n2#2c8693-12001","n3#2c8693-12002","n4#2c8693-12003"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n2#2c8693-12001","n3#2c8693-12002","n4#2c8693-12003"]}]]}],"samples_done":[["a",205.0],["c",85.0]],"losses":[["a",1.5096533507150351],["c",2.702360493554618]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,1],"wake_at_s":1795356969.0,"answer":null},"nodes":[{"$set":["n2#2c8693-12001","n3#2c8693-12002"]},{"$set":["n4#2c8693-12003"]}],"memory":1795356969.0}','[]',4.36149998677137773483e-05);
INSERT INTO "journal" VALUES(13,1.79535696810640478136e+09,2,'{"$":"Event","at_s":1795356968.1064048,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n2#2c8693-12001"]},"classes":[]}],"samples_done":[["a",205.0],["c",85.0]],"losses":[["a",1.5096533507150351],["c",2.702360493554618]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,1],"wake_at_s":1795356969.0,"answer":null},"nodes":[{"$set":["n3#2c8693-12002"]},{"$set":["n4#2c8693-12003"]}],"memory":1795356969.0}','[]',4.26229998993221670389e-05);
INSERT INTO "journal" VALUES(14,1.7953569684523684978e+09,2,'{"$":"Event","at_s":1795356968.4523685,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#2c8693-12004","n5#2c8693-12005"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#2c8693-12004","n5#2c8693-12005"]}]]}],"samples_done":[["a",206.0],["c",86.0]],"losses":[["a",1.5045568172078847],["c",2.685336888619072]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,1],"wake_at_s":1795356969.0,"answer":null},"nodes":[{"$set":["n3#2c8693-12002"]},{"$set":["n4#2c8693-12003"]}],"memory":1795356969.0}','[]',4.08200000947545049712e-05);
INSERT INTO "journal" VALUES(15,1.79535696901985192298e+09,2,'{"$":"Event","at_s":1795356969.019852,"changes":[{"$":"TimerDue"}],"samples_done":[["a",210.0],["c",90.0]],"losses":[["a",1.4846752654281934],["c",2.6189278907132953]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,3],"wake_at_s":1795356972.0,"answer":null},"nodes":[{"$set":["n3#2c8693-12002"]},{"$set":["n1#2c8693-12004","n4#2c8693-12003","n5#2c8693-12005"]}],"memory":1795356972.0}','[]',5.06359999690175754949e-05);
INSERT INTO "journal" VALUES(16,1.79535697201678466801e+09,2,'{"$":"Event","at_s":1795356972.0167847,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n1#2c8693-12004","n3#2c8693-12002","n4#2c8693-12003"]},"classes":[]},{"$":"TimerDue"}],"samples_done":[["a",270.0],["c",150.0]],"losses":[["a",1.2651932908815413],["c",1.8858071489554438]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,1],"wake_at_s":1795356975.0,"answer":null},"nodes":[{"$set":[]},{"$set":["n5#2c8693-12005"]}],"memory":1795356975.0}','[]',4.88729999688075622543e-05);
INSERT INTO "journal" VALUES(17,1.79535697203614974014e+09,2,'{"$":"Event","at_s":1795356972.0361497,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n5#2c8693-12005"]},"classes":[]}],"samples_done":[["a",270.0],["c",150.0]],"losses":[["a",1.2651932908815413],["c",1.8858071489554438]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0],"wake_at_s":1795356975.0,"answer":null},"nodes":[{"$set":[]},{"$set":[]}],"memory":1795356975.0}','[]',3.76460000097722513601e-05);
INSERT INTO "journal" VALUES(18,1.79535697226181745526e+09,2,'{"$":"Event","at_s":1795356972.2618175,"changes":[{"$":"PoolChanged","joined":{"$set":["n2#2c8693-12006"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n2#2c8693-12006"]}]]}],"samples_done":[["a",270.0],["c",150.0]],"losses":[["a",1.2651932908815413],["c",1.8858071489554438]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,0],"wake_at_s":1795356975.0,"answer":null},"nodes":[{"$set":["n2#2c8693-12006"]},{"$set":[]}],"memory":1795356975.0}','[]',4.30249999681109329685e-05);
INSERT INTO "journal" VALUES(19,1.79535697248922562598e+09,2,'{"$":"Event","at_s":1795356972.4892256,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#2c8693-12007","n3#2c8693-12008"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#2c8693-12007","n3#2c8693-12008"]}]]}],"samples_done":[["a",271.0],["c",150.0]],"losses":[["a",1.2625413579727258],["c",1.8858071489554438]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,2],"wake_at_s":1795356975.0,"answer":null},"nodes":[{"$set":["n2#2c8693-12006"]},{"$set":["n1#2c8693-12007","n3#2c8693-12008"]}],"memory":1795356975.0}','[]',3.65749999673425918444e-05);
CREATE TABLE last_state (
  only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
  journal INTEGER NOT NULL,
  state TEXT NOT NULL
);
INSERT INTO "last_state" VALUES(1,19,'{"$":"State","max_parallel":3,"at_s":1795356972.4892256,"pool":{"$set":["n1#2c8693-12007","n2#2c8693-12006","n3#2c8693-12008"]},"active":[{"$":"Active","trainer":{"$":"Trainer","id":"a","curve":{"$":"Curve","nodes":[1,2],"per_s":[10.0,20.0]},"min_nodes":1,"max_nodes":2,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null},"nodes":{"$set":["n2#2c8693-12006"]},"samples_done":271.0,"admitted_s":1795356955.081932,"run_s":16.27767825126648,"node_s":24.920594692230225,"losses":{"$":"Losses","first":4.238911472885034,"latest":1.2625413579727258,"at_samples":271.0,"per_sample":0.002651932908815491},"submitted":null,"sized_s":1795356972.2618175},{"$":"Active","trainer":{"$":"Trainer","id":"c","curve":{"$":"Curve","nodes":[1,4],"per_s":[10.0,40.0]},"min_nodes":1,"max_nodes":4,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null},"nodes":{"$set":["n1#2c8693-12007","n3#2c8693-12008"]},"samples_done":150.0,"admitted_s":1795356960.2738638,"run_s":9.462577819824219,"node_s":20.879528284072876,"losses":{"$":"Losses","first":4.617528300035218,"latest":1.8858071489554438,"at_samples":150.0,"per_sample":0.012218679029297526},"submitted":null,"sized_s":1795356972.4892256}],"queue":[],"memory":1795356975.0,"wake_at_s":1795356975.0,"classes":[["0 cpus",{"$set":["n1#2c8693-12007","n2#2c8693-12006","n3#2c8693-12008"]}]],"window_ends":[],"lessons":[]}');
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
INSERT INTO "settings" VALUES(1,1.79535695501632785791e+09,'0.1.0','modelarts-greedy?interval_s=3','exact','throughput',120.0,0,3);
INSERT INTO "settings" VALUES(2,1.79535696752894139297e+09,'0.1.0','modelarts-greedy?interval_s=3','exact','throughput',120.0,0,3);
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
