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
INSERT INTO "journal" VALUES(1,1.79535767436519956585e+09,1,'{"$":"Event","at_s":1795357674.3651996,"changes":[{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"a","curve":{"$":"Curve","nodes":[1,2],"per_s":[10.0,20.0]},"min_nodes":1,"max_nodes":2,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}},{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"b","curve":{"$":"Curve","nodes":[1,3],"per_s":[10.0,30.0]},"min_nodes":1,"max_nodes":3,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}}],"samples_done":[],"losses":[],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0],"wake_at_s":1795357677.0,"answer":null},"nodes":[{"$set":[]},{"$set":[]}],"memory":1795357677.0}','[]',4.67690001642040442675e-05);
INSERT INTO "journal" VALUES(2,1.79535767472645211217e+09,1,'{"$":"Event","at_s":1795357674.726452,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#ecde87-1","n2#ecde87-2","n3#ecde87-3"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#ecde87-1","n2#ecde87-2","n3#ecde87-3"]}]]}],"samples_done":[],"losses":[],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,1],"wake_at_s":1795357677.0,"answer":null},"nodes":[{"$set":["n1#ecde87-1","n2#ecde87-2"]},{"$set":["n3#ecde87-3"]}],"memory":1795357677.0}','[]',3.60230001206218730658e-05);
INSERT INTO "journal" VALUES(3,1.7953576770237457752e+09,1,'{"$":"Event","at_s":1795357677.0237458,"changes":[{"$":"TimerDue"}],"samples_done":[["a",30.0],["b",30.0]],"losses":[["a",3.958801493553121],["b",3.958801493553121]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,1],"wake_at_s":1795357680.0,"answer":null},"nodes":[{"$set":["n1#ecde87-1","n2#ecde87-2"]},{"$set":["n3#ecde87-3"]}],"memory":1795357680.0}','[]',6.08499999543710146099e-05);
INSERT INTO "journal" VALUES(4,1.79535767881637310988e+09,1,'{"$":"Event","at_s":1795357678.816373,"changes":[{"$":"PoolChanged","joined":{"$set":["n4#ecde87-4"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n4#ecde87-4"]}]]}],"samples_done":[["a",70.0],["b",70.0]],"losses":[["a",2.979354638400828],["b",2.979354638400828]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,1],"wake_at_s":1795357680.0,"answer":null},"nodes":[{"$set":["n1#ecde87-1","n2#ecde87-2"]},{"$set":["n3#ecde87-3"]}],"memory":1795357680.0}','[]',4.37150001744157634675e-05);
INSERT INTO "journal" VALUES(5,1.79535768001277637483e+09,1,'{"$":"Event","at_s":1795357680.0127764,"changes":[{"$":"TimerDue"}],"samples_done":[["a",90.0],["b",90.0]],"losses":[["a",2.6189278907132953],["b",2.6189278907132953]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,2],"wake_at_s":1795357683.0,"answer":null},"nodes":[{"$set":["n1#ecde87-1","n2#ecde87-2"]},{"$set":["n3#ecde87-3","n4#ecde87-4"]}],"memory":1795357683.0}','[]',5.37599999006488360464e-05);
INSERT INTO "journal" VALUES(6,1.79535768025616765015e+09,1,'{"$":"Event","at_s":1795357680.2561677,"changes":[{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"c","curve":{"$":"Curve","nodes":[1,4],"per_s":[10.0,40.0]},"min_nodes":1,"max_nodes":4,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}}],"samples_done":[["a",101.0],["b",101.0]],"losses":[["a",2.4494880714419875],["b",2.4494880714419875]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,2,0],"wake_at_s":1795357683.0,"answer":null},"nodes":[{"$set":["n1#ecde87-1","n2#ecde87-2"]},{"$set":["n3#ecde87-3","n4#ecde87-4"]},{"$set":[]}],"memory":1795357683.0}','[]',4.41560000581375788897e-05);
INSERT INTO "journal" VALUES(7,1.79535768128056859964e+09,1,'{"$":"Event","at_s":1795357681.2805686,"changes":[{"$":"TrainerFinished","trainer_id":"b"}],"samples_done":[["a",121.0]],"losses":[["a",2.185546349596832]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,2],"wake_at_s":1795357683.0,"answer":null},"nodes":[{"$set":["n1#ecde87-1","n2#ecde87-2"]},{"$set":["n3#ecde87-3","n4#ecde87-4"]}],"memory":1795357683.0}','[]',3.91690000469679944217e-05);
INSERT INTO "journal" VALUES(8,1.79535768304995012279e+09,1,'{"$":"Event","at_s":1795357683.0499501,"changes":[{"$":"TimerDue"}],"samples_done":[["a",160.0],["c",30.0]],"losses":[["a",1.801108107429957],["c",3.958801493553121]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,2],"wake_at_s":1795357686.0,"answer":null},"nodes":[{"$set":["n1#ecde87-1","n2#ecde87-2"]},{"$set":["n3#ecde87-3","n4#ecde87-4"]}],"memory":1795357686.0}','[]',5.21080000908114e-05);
INSERT INTO "journal" VALUES(9,1.79535768338670682908e+09,1,'{"$":"Event","at_s":1795357683.3867068,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n1#ecde87-1"]},"classes":[]}],"samples_done":[["a",161.0],["c",30.0]],"losses":[["a",1.7930970263556576],["c",3.958801493553121]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,2],"wake_at_s":1795357686.0,"answer":null},"nodes":[{"$set":["n2#ecde87-2"]},{"$set":["n3#ecde87-3","n4#ecde87-4"]}],"memory":1795357686.0}','[]',3.51519997821014840155e-05);
INSERT INTO "journal" VALUES(10,1.79535768604208970065e+09,1,'{"$":"Event","at_s":1795357686.0420897,"changes":[{"$":"TimerDue"}],"samples_done":[["a",201.0],["c",81.0]],"losses":[["a",1.5305595124375284],["c",2.77219192650469]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,2],"wake_at_s":1795357689.0,"answer":null},"nodes":[{"$set":["n2#ecde87-2"]},{"$set":["n3#ecde87-3","n4#ecde87-4"]}],"memory":1795357689.0}','[]',4.31650000791705679148e-05);
INSERT INTO "journal" VALUES(11,1.79535768849777770039e+09,2,'{"$":"Event","at_s":1795357688.4977777,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n2#ecde87-2","n3#ecde87-3","n4#ecde87-4"]},"classes":[]}],"samples_done":[["a",217.0],["c",101.0]],"losses":[["a",1.4517490198932417],["c",2.4494880714419875]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0],"wake_at_s":1795357689.0,"answer":null},"nodes":[{"$set":[]},{"$set":[]}],"memory":1795357689.0}','[]',4.48160003543307539075e-05);
INSERT INTO "journal" VALUES(12,1.79535768890867280956e+09,2,'{"$":"Event","at_s":1795357688.9086728,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#ecde87-14001","n3#ecde87-14002","n4#ecde87-14003","n5#ecde87-14004"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#ecde87-14001","n3#ecde87-14002","n4#ecde87-14003","n5#ecde87-14004"]}]]}],"samples_done":[["a",217.0],["c",101.0]],"losses":[["a",1.4517490198932417],["c",2.4494880714419875]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,2],"wake_at_s":1795357689.0,"answer":null},"nodes":[{"$set":["n1#ecde87-14001","n3#ecde87-14002"]},{"$set":["n4#ecde87-14003","n5#ecde87-14004"]}],"memory":1795357689.0}','[]',4.83720000374887604266e-05);
INSERT INTO "journal" VALUES(13,1.7953576890198123455e+09,2,'{"$":"Event","at_s":1795357689.0198123,"changes":[{"$":"TimerDue"}],"samples_done":[["a",217.0],["c",101.0]],"losses":[["a",1.4517490198932417],["c",2.4494880714419875]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,2],"wake_at_s":1795357692.0,"answer":null},"nodes":[{"$set":["n1#ecde87-14001","n3#ecde87-14002"]},{"$set":["n4#ecde87-14003","n5#ecde87-14004"]}],"memory":1795357692.0}','[]',8.46759999149071518331e-05);
INSERT INTO "journal" VALUES(14,1.79535769151614189149e+09,2,'{"$":"Event","at_s":1795357691.516142,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n1#ecde87-14001","n3#ecde87-14002","n4#ecde87-14003","n5#ecde87-14004"]},"classes":[]}],"samples_done":[["a",250.0],["c",142.0]],"losses":[["a",1.3242340646487252],["c",1.9599699183365376]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0],"wake_at_s":1795357692.0,"answer":null},"nodes":[{"$set":[]},{"$set":[]}],"memory":1795357692.0}','[]',5.05859998156665824353e-05);
INSERT INTO "journal" VALUES(15,1.79535769191106152537e+09,2,'{"$":"Event","at_s":1795357691.9110615,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#ecde87-14005","n2#ecde87-14006","n3#ecde87-14007"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#ecde87-14005","n2#ecde87-14006","n3#ecde87-14007"]}]]}],"samples_done":[["a",250.0],["c",142.0]],"losses":[["a",1.3242340646487252],["c",1.9599699183365376]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,1],"wake_at_s":1795357692.0,"answer":null},"nodes":[{"$set":["n1#ecde87-14005","n2#ecde87-14006"]},{"$set":["n3#ecde87-14007"]}],"memory":1795357692.0}','[]',5.56120003238902427256e-05);
INSERT INTO "journal" VALUES(16,1.79535769204415750505e+09,2,'{"$":"Event","at_s":1795357692.0441575,"changes":[{"$":"TimerDue"}],"samples_done":[["a",250.0],["c",142.0]],"losses":[["a",1.3242340646487252],["c",1.9599699183365376]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,1],"wake_at_s":1795357695.0,"answer":null},"nodes":[{"$set":["n1#ecde87-14005","n2#ecde87-14006"]},{"$set":["n3#ecde87-14007"]}],"memory":1795357695.0}','[]',5.50220001969137229025e-05);
INSERT INTO "journal" VALUES(17,1.79535769500063419339e+09,2,'{"$":"Event","at_s":1795357695.0006342,"changes":[{"$":"TimerDue"}],"samples_done":[["a",300.0],["c",190.0]],"losses":[["a",1.1961635762851428],["c",1.5925799661903177]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,1],"wake_at_s":1795357698.0,"answer":null},"nodes":[{"$set":["n1#ecde87-14005","n2#ecde87-14006"]},{"$set":["n3#ecde87-14007"]}],"memory":1795357698.0}','[]',4.95939998472749721258e-05);
CREATE TABLE last_state (
  only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
  journal INTEGER NOT NULL,
  state TEXT NOT NULL
);
INSERT INTO "last_state" VALUES(1,17,'{"$":"State","max_parallel":3,"at_s":1795357695.0006342,"pool":{"$set":["n1#ecde87-14005","n2#ecde87-14006","n3#ecde87-14007"]},"active":[{"$":"Active","trainer":{"$":"Trainer","id":"a","curve":{"$":"Curve","nodes":[1,2],"per_s":[10.0,20.0]},"min_nodes":1,"max_nodes":2,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null},"nodes":{"$set":["n1#ecde87-14005","n2#ecde87-14006"]},"samples_done":300.0,"admitted_s":1795357674.3651996,"run_s":19.468367338180542,"node_s":33.825663805007935,"losses":{"$":"Losses","first":3.958801493553121,"latest":1.1961635762851428,"at_samples":300.0,"per_sample":0.0025614097672716474},"submitted":null,"sized_s":1795357691.9110615},{"$":"Active","trainer":{"$":"Trainer","id":"c","curve":{"$":"Curve","nodes":[1,4],"per_s":[10.0,40.0]},"min_nodes":1,"max_nodes":4,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null},"nodes":{"$set":["n3#ecde87-14007"]},"samples_done":190.0,"admitted_s":1795357680.2561677,"run_s":12.91425085067749,"node_s":22.73892903327942,"losses":{"$":"Losses","first":3.958801493553121,"latest":1.5925799661903177,"at_samples":190.0,"per_sample":0.00765395733637958},"submitted":null,"sized_s":1795357691.9110615}],"queue":[],"memory":1795357698.0,"wake_at_s":1795357698.0,"classes":[["0 cpus",{"$set":["n1#ecde87-14005","n2#ecde87-14006","n3#ecde87-14007"]}]],"window_ends":[],"lessons":[]}');
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
INSERT INTO "settings" VALUES(1,1.79535767435701417923e+09,'0.1.0','modelarts-greedy?interval_s=3','exact','throughput',120.0,0,3);
INSERT INTO "settings" VALUES(2,1.79535768845465302468e+09,'0.1.0','modelarts-greedy?interval_s=3','exact','throughput',120.0,0,3);
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
