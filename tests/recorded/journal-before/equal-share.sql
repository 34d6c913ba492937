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
INSERT INTO "journal" VALUES(1,1.79535769882580399517e+09,1,'{"$":"Event","at_s":1795357698.825804,"changes":[{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"a","curve":{"$":"Curve","nodes":[1,2],"per_s":[10.0,20.0]},"min_nodes":1,"max_nodes":2,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}},{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"b","curve":{"$":"Curve","nodes":[1,3],"per_s":[10.0,30.0]},"min_nodes":1,"max_nodes":3,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}}],"samples_done":[],"losses":[],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0],"wake_at_s":null,"answer":null},"nodes":[{"$set":[]},{"$set":[]}],"memory":null}','[]',1.80070001079002395272e-05);
INSERT INTO "journal" VALUES(2,1.7953576992206733226e+09,1,'{"$":"Event","at_s":1795357699.2206733,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#36326c-1"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#36326c-1"]}]]}],"samples_done":[],"losses":[],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,0],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n1#36326c-1"]},{"$set":[]}],"memory":null}','[]',2.0309999854362104088e-05);
INSERT INTO "journal" VALUES(3,1.79535769930288696292e+09,1,'{"$":"Event","at_s":1795357699.302887,"changes":[{"$":"PoolChanged","joined":{"$set":["n2#36326c-2","n3#36326c-3"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n2#36326c-2","n3#36326c-3"]}]]}],"samples_done":[],"losses":[],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,1],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n1#36326c-1","n2#36326c-2"]},{"$set":["n3#36326c-3"]}],"memory":null}','[]',1.88080002772039733827e-05);
INSERT INTO "journal" VALUES(4,1.79535770323652815816e+09,1,'{"$":"Event","at_s":1795357703.2365282,"changes":[{"$":"PoolChanged","joined":{"$set":["n4#36326c-4"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n4#36326c-4"]}]]}],"samples_done":[["a",70.0],["b",61.0]],"losses":[["a",2.979354638400828],["b",3.1667403038674142]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,2],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n1#36326c-1","n2#36326c-2"]},{"$set":["n3#36326c-3","n4#36326c-4"]}],"memory":null}','[]',2.17330002669768873602e-05);
INSERT INTO "journal" VALUES(5,1.7953577041250729561e+09,1,'{"$":"Event","at_s":1795357704.125073,"changes":[{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"c","curve":{"$":"Curve","nodes":[1,4],"per_s":[10.0,40.0]},"min_nodes":1,"max_nodes":4,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}}],"samples_done":[["a",90.0],["b",80.0]],"losses":[["a",2.6189278907132953],["b",2.790092855055242]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,1,1],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n1#36326c-1","n2#36326c-2"]},{"$set":["n3#36326c-3"]},{"$set":["n4#36326c-4"]}],"memory":null}','[]',1.51620001815899740904e-05);
INSERT INTO "journal" VALUES(6,1.79535770606051707271e+09,1,'{"$":"Event","at_s":1795357706.060517,"changes":[{"$":"TrainerFinished","trainer_id":"b"}],"samples_done":[["a",121.0],["c",21.0]],"losses":[["a",2.185546349596832],["c",4.238911472885034]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,2],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n1#36326c-1","n2#36326c-2"]},{"$set":["n3#36326c-3","n4#36326c-4"]}],"memory":null}','[]',1.96890000552230048924e-05);
INSERT INTO "journal" VALUES(7,1795357707.81063,1,'{"$":"Event","at_s":1795357707.81063,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n1#36326c-1"]},"classes":[]}],"samples_done":[["a",161.0],["c",54.0]],"losses":[["a",1.7930970263556576],["c",3.324665656472438]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,1],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n2#36326c-2","n4#36326c-4"]},{"$set":["n3#36326c-3"]}],"memory":null}','[]',1.512200014985864982e-05);
INSERT INTO "journal" VALUES(8,1.79535771161724472047e+09,2,'{"$":"Event","at_s":1795357711.6172447,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n2#36326c-2","n3#36326c-3","n4#36326c-4"]},"classes":[]}],"samples_done":[["a",206.0],["c",111.0]],"losses":[["a",1.5045568172078847],["c",2.3108910297512146]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0],"wake_at_s":null,"answer":null},"nodes":[{"$set":[]},{"$set":[]}],"memory":null}','[]',1.84570003511908e-05);
INSERT INTO "journal" VALUES(9,1.79535771195864868156e+09,2,'{"$":"Event","at_s":1795357711.9586487,"changes":[{"$":"PoolChanged","joined":{"$set":["n3#36326c-12001","n4#36326c-12002"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n3#36326c-12001","n4#36326c-12002"]}]]}],"samples_done":[["a",206.0],["c",111.0]],"losses":[["a",1.5045568172078847],["c",2.3108910297512146]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,1],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n3#36326c-12001"]},{"$set":["n4#36326c-12002"]}],"memory":null}','[]',1.93089999811491e-05);
INSERT INTO "journal" VALUES(10,1.79535771231275677675e+09,2,'{"$":"Event","at_s":1795357712.3127568,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#36326c-12003","n5#36326c-12004"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#36326c-12003","n5#36326c-12004"]}]]}],"samples_done":[["a",206.0],["c",111.0]],"losses":[["a",1.5045568172078847],["c",2.3108910297512146]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,2],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n1#36326c-12003","n3#36326c-12001"]},{"$set":["n4#36326c-12002","n5#36326c-12004"]}],"memory":null}','[]',1.82069998118095099925e-05);
INSERT INTO "journal" VALUES(11,1.79535771587172961237e+09,2,'{"$":"Event","at_s":1795357715.8717296,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n1#36326c-12003","n3#36326c-12001","n4#36326c-12002"]},"classes":[]}],"samples_done":[["a",272.0],["c",170.0]],"losses":[["a",1.2599159443929986],["c",1.724507812503881]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,0],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n5#36326c-12004"]},{"$set":[]}],"memory":null}','[]',5.41909998901246581226e-05);
INSERT INTO "journal" VALUES(12,1.7953577160125639439e+09,2,'{"$":"Event","at_s":1795357716.012564,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n5#36326c-12004"]},"classes":[]}],"samples_done":[["a",272.0],["c",170.0]],"losses":[["a",1.2599159443929986],["c",1.724507812503881]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0],"wake_at_s":null,"answer":null},"nodes":[{"$set":[]},{"$set":[]}],"memory":null}','[]',1.60839999807649292051e-05);
INSERT INTO "journal" VALUES(13,1.79535771643271827697e+09,2,'{"$":"Event","at_s":1795357716.4327183,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#36326c-12005","n2#36326c-12006","n3#36326c-12007"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#36326c-12005","n2#36326c-12006","n3#36326c-12007"]}]]}],"samples_done":[["a",272.0],["c",170.0]],"losses":[["a",1.2599159443929986],["c",1.724507812503881]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,1],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n1#36326c-12005","n2#36326c-12006"]},{"$set":["n3#36326c-12007"]}],"memory":null}','[]',1.52229999912378843873e-05);
CREATE TABLE last_state (
  only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
  journal INTEGER NOT NULL,
  state TEXT NOT NULL
);
INSERT INTO "last_state" VALUES(1,13,'{"$":"State","max_parallel":3,"at_s":1795357716.4327183,"pool":{"$set":["n1#36326c-12005","n2#36326c-12006","n3#36326c-12007"]},"active":[{"$":"Active","trainer":{"$":"Trainer","id":"a","curve":{"$":"Curve","nodes":[1,2],"per_s":[10.0,20.0]},"min_nodes":1,"max_nodes":2,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null},"nodes":{"$set":["n1#36326c-12005","n2#36326c-12006"]},"samples_done":272.0,"admitted_s":1795357698.825804,"run_s":16.450486660003662,"node_s":32.32381725311279,"losses":{"$":"Losses","first":2.979354638400828,"latest":1.2599159443929986,"at_samples":272.0,"per_sample":0.003706679891134638},"submitted":null,"sized_s":1795357716.4327183},{"$":"Active","trainer":{"$":"Trainer","id":"c","curve":{"$":"Curve","nodes":[1,4],"per_s":[10.0,40.0]},"min_nodes":1,"max_nodes":4,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null},"nodes":{"$set":["n3#36326c-12007"]},"samples_done":170.0,"admitted_s":1795357704.125073,"run_s":11.405252695083618,"node_s":16.714338541030884,"losses":{"$":"Losses","first":4.238911472885034,"latest":1.724507812503881,"at_samples":170.0,"per_sample":0.009938698597412433},"submitted":null,"sized_s":1795357716.4327183}],"queue":[],"memory":null,"wake_at_s":null,"classes":[["0 cpus",{"$set":["n1#36326c-12005","n2#36326c-12006","n3#36326c-12007"]}]],"window_ends":[],"lessons":[]}');
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
INSERT INTO "settings" VALUES(1,1.79535769878386592865e+09,'0.1.0','equal-share','exact','throughput',120.0,0,3);
INSERT INTO "settings" VALUES(2,1.79535771159694933891e+09,'0.1.0','equal-share','exact','throughput',120.0,0,3);
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
