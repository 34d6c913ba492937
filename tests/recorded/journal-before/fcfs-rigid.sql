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
INSERT INTO "journal" VALUES(1,1.79535779804790925984e+09,1,'{"$":"Event","at_s":1795357798.0479093,"changes":[{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"a","curve":{"$":"Curve","nodes":[1,2],"per_s":[10.0,20.0]},"min_nodes":1,"max_nodes":2,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}},{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"b","curve":{"$":"Curve","nodes":[1,3],"per_s":[10.0,30.0]},"min_nodes":1,"max_nodes":3,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}}],"samples_done":[],"losses":[],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0],"wake_at_s":null,"answer":null},"nodes":[{"$set":[]},{"$set":[]}],"memory":["a","b"]}','[]',2.1922000087215565145e-05);
INSERT INTO "journal" VALUES(2,1.7953577984227602482e+09,1,'{"$":"Event","at_s":1795357798.4227602,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#03bf1d-1","n2#03bf1d-2","n3#03bf1d-3"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#03bf1d-1","n2#03bf1d-2","n3#03bf1d-3"]}]]}],"samples_done":[],"losses":[],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,0],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n1#03bf1d-1","n2#03bf1d-2"]},{"$set":[]}],"memory":["a","b"]}','[]',2.69499996647937223315e-05);
INSERT INTO "journal" VALUES(3,1.79535780048714089388e+09,1,'{"$":"Event","at_s":1795357800.487141,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n3#03bf1d-3"]},"classes":[]}],"samples_done":[["a",30.0]],"losses":[["a",3.958801493553121]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,0],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n1#03bf1d-1","n2#03bf1d-2"]},{"$set":[]}],"memory":["a","b"]}','[]',3.00440001410606782883e-05);
INSERT INTO "journal" VALUES(4,1.79535780360576939585e+09,1,'{"$":"Event","at_s":1795357803.6057694,"changes":[{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"c","curve":{"$":"Curve","nodes":[1,4],"per_s":[10.0,40.0]},"min_nodes":1,"max_nodes":4,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}}],"samples_done":[["a",90.0]],"losses":[["a",2.6189278907132953]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,0,0],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n1#03bf1d-1","n2#03bf1d-2"]},{"$set":[]},{"$set":[]}],"memory":["a","b","c"]}','[]',2.7080000108981039375e-05);
INSERT INTO "journal" VALUES(5,1.79535780366954326632e+09,1,'{"$":"Event","at_s":1795357803.6695433,"changes":[{"$":"PoolChanged","joined":{"$set":["n3#03bf1d-4","n4#03bf1d-5"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n3#03bf1d-4","n4#03bf1d-5"]}]]}],"samples_done":[["a",100.0]],"losses":[["a",2.4641293650929166]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,2,0],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n1#03bf1d-1","n2#03bf1d-2"]},{"$set":["n3#03bf1d-4","n4#03bf1d-5"]},{"$set":[]}],"memory":["a","b","c"]}','[]',2.33040000239270739257e-05);
INSERT INTO "journal" VALUES(6,1.79535780709645605094e+09,1,'{"$":"Event","at_s":1795357807.096456,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n1#03bf1d-1"]},"classes":[]}],"samples_done":[["a",161.0],["b",61.0]],"losses":[["a",1.7930970263556576],["b",3.1667403038674142]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,2,0],"wake_at_s":null,"answer":null},"nodes":[{"$set":[]},{"$set":["n3#03bf1d-4","n4#03bf1d-5"]},{"$set":[]}],"memory":["b","c","a"]}','[]',2.46369995693385135382e-05);
INSERT INTO "journal" VALUES(7,1.79535780934158873561e+09,1,'{"$":"Event","at_s":1795357809.3415887,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n2#03bf1d-2"]},"classes":[]}],"samples_done":[["a",161.0],["b",101.0]],"losses":[["a",1.7930970263556576],["b",2.4494880714419875]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,2,0],"wake_at_s":null,"answer":null},"nodes":[{"$set":[]},{"$set":["n3#03bf1d-4","n4#03bf1d-5"]},{"$set":[]}],"memory":["b","c","a"]}','[]',2.47869998020178172737e-05);
INSERT INTO "journal" VALUES(8,1.79535781145103120809e+09,2,'{"$":"Event","at_s":1795357811.4510312,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n3#03bf1d-4","n4#03bf1d-5"]},"classes":[]}],"samples_done":[["a",161.0],["b",117.0]],"losses":[["a",1.7930970263556576],["b",2.2341778825386043]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0,0],"wake_at_s":null,"answer":null},"nodes":[{"$set":[]},{"$set":[]},{"$set":[]}],"memory":["b","c","a"]}','[]',3.13559999085555318742e-05);
INSERT INTO "journal" VALUES(9,1.79535781186482858661e+09,2,'{"$":"Event","at_s":1795357811.8648286,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#03bf1d-13001","n3#03bf1d-13002","n4#03bf1d-13003","n5#03bf1d-13004"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#03bf1d-13001","n3#03bf1d-13002","n4#03bf1d-13003","n5#03bf1d-13004"]}]]}],"samples_done":[["a",161.0],["b",117.0]],"losses":[["a",1.7930970263556576],["b",2.2341778825386043]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,2,2],"wake_at_s":null,"answer":null},"nodes":[{"$set":[]},{"$set":["n1#03bf1d-13001","n3#03bf1d-13002"]},{"$set":["n4#03bf1d-13003","n5#03bf1d-13004"]}],"memory":["b","c","a"]}','[]',2.15219997699023224413e-05);
INSERT INTO "journal" VALUES(10,1.79535781259634733206e+09,2,'{"$":"Event","at_s":1795357812.5963473,"changes":[{"$":"TrainerFinished","trainer_id":"b"}],"samples_done":[["a",161.0],["c",1.0]],"losses":[["a",1.7930970263556576],["c",4.96]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,2],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n1#03bf1d-13001","n3#03bf1d-13002"]},{"$set":["n4#03bf1d-13003","n5#03bf1d-13004"]}],"memory":["c","a"]}','[]',2.7270999908068915829e-05);
INSERT INTO "journal" VALUES(11,1.79535781517614173889e+09,2,'{"$":"Event","at_s":1795357815.1761417,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n1#03bf1d-13001","n3#03bf1d-13002","n4#03bf1d-13003","n5#03bf1d-13004"]},"classes":[]}],"samples_done":[["a",201.0],["c",50.0]],"losses":[["a",1.5305595124375284],["c",3.4200242685501454]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0],"wake_at_s":null,"answer":null},"nodes":[{"$set":[]},{"$set":[]}],"memory":["c","a"]}','[]',2.36850000874255783855e-05);
INSERT INTO "journal" VALUES(12,1.79535781551154661182e+09,2,'{"$":"Event","at_s":1795357815.5115466,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#03bf1d-13005","n2#03bf1d-13006","n3#03bf1d-13007"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#03bf1d-13005","n2#03bf1d-13006","n3#03bf1d-13007"]}]]}],"samples_done":[["a",201.0],["c",50.0]],"losses":[["a",1.5305595124375284],["c",3.4200242685501454]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,2],"wake_at_s":null,"answer":null},"nodes":[{"$set":[]},{"$set":["n1#03bf1d-13005","n2#03bf1d-13006"]}],"memory":["c","a"]}','[]',2.20430001718341372907e-05);
INSERT INTO "journal" VALUES(13,1.7953578175321290493e+09,2,'{"$":"Event","at_s":1795357817.532129,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n3#03bf1d-13007"]},"classes":[]}],"samples_done":[["a",201.0],["c",80.0]],"losses":[["a",1.5305595124375284],["c",2.790092855055242]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,2],"wake_at_s":null,"answer":null},"nodes":[{"$set":[]},{"$set":["n1#03bf1d-13005","n2#03bf1d-13006"]}],"memory":["c","a"]}','[]',2.43160002355580218136e-05);
CREATE TABLE last_state (
  only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
  journal INTEGER NOT NULL,
  state TEXT NOT NULL
);
INSERT INTO "last_state" VALUES(1,13,'{"$":"State","max_parallel":3,"at_s":1795357817.532129,"pool":{"$set":["n1#03bf1d-13005","n2#03bf1d-13006"]},"active":[{"$":"Active","trainer":{"$":"Trainer","id":"a","curve":{"$":"Curve","nodes":[1,2],"per_s":[10.0,20.0]},"min_nodes":1,"max_nodes":2,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null},"nodes":{"$set":[]},"samples_done":201.0,"admitted_s":1795357798.0479093,"run_s":11.253490209579468,"node_s":22.506980419158936,"losses":{"$":"Losses","first":3.958801493553121,"latest":1.5305595124375284,"at_samples":201.0,"per_sample":0.006563437847953229},"submitted":null,"sized_s":1795357815.1761417},{"$":"Active","trainer":{"$":"Trainer","id":"c","curve":{"$":"Curve","nodes":[1,4],"per_s":[10.0,40.0]},"min_nodes":1,"max_nodes":4,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null},"nodes":{"$set":["n1#03bf1d-13005","n2#03bf1d-13006"]},"samples_done":80.0,"admitted_s":1795357803.6057694,"run_s":5.331895589828491,"node_s":10.663791179656982,"losses":{"$":"Losses","first":4.96,"latest":2.790092855055242,"at_samples":80.0,"per_sample":0.02099771378316344},"submitted":null,"sized_s":1795357815.5115466}],"queue":[],"memory":["c","a"],"wake_at_s":null,"classes":[["0 cpus",{"$set":["n1#03bf1d-13005","n2#03bf1d-13006"]}]],"window_ends":[],"lessons":[]}');
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
INSERT INTO "settings" VALUES(1,1.79535779803802704812e+09,'0.1.0','fcfs-rigid','exact','throughput',120.0,0,3);
INSERT INTO "settings" VALUES(2,1.79535781142831659317e+09,'0.1.0','fcfs-rigid','exact','throughput',120.0,0,3);
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
