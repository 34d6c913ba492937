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
INSERT INTO "journal" VALUES(1,1.79535704577822065354e+09,1,'{"$":"Event","at_s":1795357045.7782207,"changes":[{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"a","curve":{"$":"Curve","nodes":[1,2],"per_s":[10.0,20.0]},"min_nodes":1,"max_nodes":2,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}},{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"b","curve":{"$":"Curve","nodes":[1,3],"per_s":[10.0,30.0]},"min_nodes":1,"max_nodes":3,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":120.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}}],"samples_done":[],"losses":[],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0],"wake_at_s":null,"answer":null},"nodes":[{"$set":[]},{"$set":[]}],"memory":["a","b"]}','[]',2.00099998437508475035e-05);
INSERT INTO "journal" VALUES(2,1.79535704612067580215e+09,1,'{"$":"Event","at_s":1795357046.1206758,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#339800-1","n2#339800-2","n3#339800-3"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#339800-1","n2#339800-2","n3#339800-3"]}]]}],"samples_done":[],"losses":[],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,0],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n1#339800-1","n2#339800-2"]},{"$set":[]}],"memory":["a","b"]}','[]',2.62789999396773055195e-05);
INSERT INTO "journal" VALUES(3,1.7953570481410090924e+09,1,'{"$":"Event","at_s":1795357048.141009,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n3#339800-3"]},"classes":[]}],"samples_done":[["a",30.0]],"losses":[["a",3.958801493553121]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,0],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n1#339800-1","n2#339800-2"]},{"$set":[]}],"memory":["a","b"]}','[]',2.52679999448446324095e-05);
INSERT INTO "journal" VALUES(4,1.7953570515681438446e+09,1,'{"$":"Event","at_s":1795357051.5681438,"changes":[{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"c","curve":{"$":"Curve","nodes":[1,4],"per_s":[10.0,40.0]},"min_nodes":1,"max_nodes":4,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}}],"samples_done":[["a",101.0]],"losses":[["a",2.4494880714419875]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,0,0],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n1#339800-1","n2#339800-2"]},{"$set":[]},{"$set":[]}],"memory":["a","b","c"]}','[]',2.61390000559913460165e-05);
INSERT INTO "journal" VALUES(5,1.79535705162459206579e+09,1,'{"$":"Event","at_s":1795357051.624592,"changes":[{"$":"PoolChanged","joined":{"$set":["n3#339800-4","n4#339800-5"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n3#339800-4","n4#339800-5"]}]]}],"samples_done":[["a",101.0]],"losses":[["a",2.4494880714419875]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,2,0],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n1#339800-1","n2#339800-2"]},{"$set":["n3#339800-4","n4#339800-5"]},{"$set":[]}],"memory":["a","b","c"]}','[]',2.08210001346742501482e-05);
INSERT INTO "journal" VALUES(6,1.79535705483727550503e+09,1,'{"$":"Event","at_s":1795357054.8372755,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n1#339800-1"]},"classes":[]}],"samples_done":[["a",161.0],["b",61.0]],"losses":[["a",1.7930970263556576],["b",3.1667403038674142]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,2,0],"wake_at_s":null,"answer":null},"nodes":[{"$set":[]},{"$set":["n3#339800-4","n4#339800-5"]},{"$set":[]}],"memory":["b","c","a"]}','[]',3.51829999090114142745e-05);
INSERT INTO "journal" VALUES(7,1.7953570570853192806e+09,1,'{"$":"Event","at_s":1795357057.0853193,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n2#339800-2"]},"classes":[]}],"samples_done":[["a",161.0],["b",101.0]],"losses":[["a",1.7930970263556576],["b",2.4494880714419875]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,2,0],"wake_at_s":null,"answer":null},"nodes":[{"$set":[]},{"$set":["n3#339800-4","n4#339800-5"]},{"$set":[]}],"memory":["b","c","a"]}','[]',2.33050000133516732603e-05);
INSERT INTO "journal" VALUES(8,1795357058.44166,2,'{"$":"Event","at_s":1795357058.44166,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n3#339800-4","n4#339800-5"]},"classes":[]}],"samples_done":[["a",161.0],["b",117.0]],"losses":[["a",1.7930970263556576],["b",2.2341778825386043]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0,0],"wake_at_s":null,"answer":null},"nodes":[{"$set":[]},{"$set":[]},{"$set":[]}],"memory":["b","c","a"]}','[]',2.19030000607745023444e-05);
INSERT INTO "journal" VALUES(9,1.79535705876497530932e+09,2,'{"$":"Event","at_s":1795357058.7649753,"changes":[{"$":"PoolChanged","joined":{"$set":["n2#339800-12001","n3#339800-12002","n4#339800-12003"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n2#339800-12001","n3#339800-12002","n4#339800-12003"]}]]}],"samples_done":[["a",161.0],["b",117.0]],"losses":[["a",1.7930970263556576],["b",2.2341778825386043]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,2,0],"wake_at_s":null,"answer":null},"nodes":[{"$set":[]},{"$set":["n2#339800-12001","n3#339800-12002"]},{"$set":[]}],"memory":["b","c","a"]}','[]',2.78320001143583795055e-05);
INSERT INTO "journal" VALUES(10,1.79535705880041813846e+09,2,'{"$":"Event","at_s":1795357058.8004181,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n2#339800-12001"]},"classes":[]}],"samples_done":[["a",161.0],["b",117.0]],"losses":[["a",1.7930970263556576],["b",2.2341778825386043]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0,2],"wake_at_s":null,"answer":null},"nodes":[{"$set":[]},{"$set":[]},{"$set":["n3#339800-12002","n4#339800-12003"]}],"memory":["c","a","b"]}','[]',3.61139998403814388439e-05);
INSERT INTO "journal" VALUES(11,1.79535705918793940549e+09,2,'{"$":"Event","at_s":1795357059.1879394,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#339800-12004","n5#339800-12005"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#339800-12004","n5#339800-12005"]}]]}],"samples_done":[["a",161.0],["b",117.0],["c",1.0]],"losses":[["a",1.7930970263556576],["b",2.2341778825386043],["c",4.96]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,0,2],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n1#339800-12004","n5#339800-12005"]},{"$set":[]},{"$set":["n3#339800-12002","n4#339800-12003"]}],"memory":["c","a","b"]}','[]',2.0340999981272034347e-05);
INSERT INTO "journal" VALUES(12,1.79535706280823421478e+09,2,'{"$":"Event","at_s":1795357062.8082342,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n1#339800-12004"]},"classes":[]}],"samples_done":[["a",221.0],["b",117.0],["c",70.0]],"losses":[["a",1.4339483060308587],["b",2.2341778825386043],["c",2.979354638400828]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0,2],"wake_at_s":null,"answer":null},"nodes":[{"$set":[]},{"$set":[]},{"$set":["n3#339800-12002","n4#339800-12003"]}],"memory":["c","b","a"]}','[]',2.41259999711473938077e-05);
INSERT INTO "journal" VALUES(13,1.79535706290813302987e+09,2,'{"$":"Event","at_s":1795357062.908133,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n3#339800-12002","n4#339800-12003","n5#339800-12005"]},"classes":[]}],"samples_done":[["a",221.0],["b",117.0],["c",70.0]],"losses":[["a",1.4339483060308587],["b",2.2341778825386043],["c",2.979354638400828]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0,0],"wake_at_s":null,"answer":null},"nodes":[{"$set":[]},{"$set":[]},{"$set":[]}],"memory":["c","b","a"]}','[]',2.40259998918190831318e-05);
INSERT INTO "journal" VALUES(14,1.7953570631283864975e+09,2,'{"$":"Event","at_s":1795357063.1283865,"changes":[{"$":"PoolChanged","joined":{"$set":["n2#339800-12006"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n2#339800-12006"]}]]}],"samples_done":[["a",221.0],["b",117.0],["c",70.0]],"losses":[["a",1.4339483060308587],["b",2.2341778825386043],["c",2.979354638400828]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0,0],"wake_at_s":null,"answer":null},"nodes":[{"$set":[]},{"$set":[]},{"$set":[]}],"memory":["c","b","a"]}','[]',2.05799999548617051914e-05);
INSERT INTO "journal" VALUES(15,1.79535706341258144381e+09,2,'{"$":"Event","at_s":1795357063.4125814,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#339800-12007","n3#339800-12008"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#339800-12007","n3#339800-12008"]}]]}],"samples_done":[["a",221.0],["b",117.0],["c",70.0]],"losses":[["a",1.4339483060308587],["b",2.2341778825386043],["c",2.979354638400828]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0,2],"wake_at_s":null,"answer":null},"nodes":[{"$set":[]},{"$set":[]},{"$set":["n1#339800-12007","n2#339800-12006"]}],"memory":["c","b","a"]}','[]',2.39149999288201797753e-05);
INSERT INTO "journal" VALUES(16,1.79535706544017171866e+09,2,'{"$":"Event","at_s":1795357065.4401717,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n3#339800-12008"]},"classes":[]}],"samples_done":[["a",221.0],["b",117.0],["c",100.0]],"losses":[["a",1.4339483060308587],["b",2.2341778825386043],["c",2.4641293650929166]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0,2],"wake_at_s":null,"answer":null},"nodes":[{"$set":[]},{"$set":[]},{"$set":["n1#339800-12007","n2#339800-12006"]}],"memory":["c","b","a"]}','[]',2.09009999707632232457e-05);
CREATE TABLE last_state (
  only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
  journal INTEGER NOT NULL,
  state TEXT NOT NULL
);
INSERT INTO "last_state" VALUES(1,16,'{"$":"State","max_parallel":3,"at_s":1795357065.4401717,"pool":{"$set":["n1#339800-12007","n2#339800-12006"]},"active":[{"$":"Active","trainer":{"$":"Trainer","id":"a","curve":{"$":"Curve","nodes":[1,2],"per_s":[10.0,20.0]},"min_nodes":1,"max_nodes":2,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null},"nodes":{"$set":[]},"samples_done":221.0,"admitted_s":1795357045.7782207,"run_s":12.336894512176514,"node_s":24.673789024353027,"losses":{"$":"Losses","first":3.958801493553121,"latest":1.4339483060308587,"at_samples":221.0,"per_sample":0.005985812005413316},"submitted":null,"sized_s":1795357062.8082342},{"$":"Active","trainer":{"$":"Trainer","id":"b","curve":{"$":"Curve","nodes":[1,3],"per_s":[10.0,30.0]},"min_nodes":1,"max_nodes":3,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":120.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null},"nodes":{"$set":[]},"samples_done":117.0,"admitted_s":1795357045.7782207,"run_s":6.852510690689087,"node_s":13.705021381378174,"losses":{"$":"Losses","first":3.1667403038674142,"latest":2.2341778825386043,"at_samples":117.0,"per_sample":0.013456886806461454},"submitted":null,"sized_s":1795357058.8004181},{"$":"Active","trainer":{"$":"Trainer","id":"c","curve":{"$":"Curve","nodes":[1,4],"per_s":[10.0,40.0]},"min_nodes":1,"max_nodes":4,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null},"nodes":{"$set":["n1#339800-12007","n2#339800-12006"]},"samples_done":100.0,"admitted_s":1795357051.5681438,"run_s":6.135305166244507,"node_s":12.270610332489014,"losses":{"$":"Losses","first":4.96,"latest":2.4641293650929166,"at_samples":100.0,"per_sample":0.01717417577693038},"submitted":null,"sized_s":1795357063.4125814}],"queue":[],"memory":["c","b","a"],"wake_at_s":null,"classes":[["0 cpus",{"$set":["n1#339800-12007","n2#339800-12006"]}]],"window_ends":[],"lessons":[]}');
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
INSERT INTO "settings" VALUES(1,1.7953570457685739994e+09,'0.1.0','fcfs-rigid','exact','throughput',120.0,0,3);
INSERT INTO "settings" VALUES(2,1.79535705843686676022e+09,'0.1.0','fcfs-rigid','exact','throughput',120.0,0,3);
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
