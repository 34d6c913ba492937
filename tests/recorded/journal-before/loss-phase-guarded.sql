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
INSERT INTO "journal" VALUES(1,1.79535707000187849994e+09,1,'{"$":"Event","at_s":1795357070.0018785,"changes":[{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"a","curve":{"$":"Curve","nodes":[1,2],"per_s":[10.0,20.0]},"min_nodes":1,"max_nodes":2,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}},{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"b","curve":{"$":"Curve","nodes":[1,3],"per_s":[10.0,30.0]},"min_nodes":1,"max_nodes":3,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":120.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}}],"samples_done":[],"losses":[],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0],"wake_at_s":null,"answer":null},"nodes":[{"$set":[]},{"$set":[]}],"memory":{"$":"bftrainer.policies.guard:Patience","inner":{"$":"bftrainer.policies.loss_phase:Phase","marks":[],"ages":["a","b"]},"since":[],"turns":[]}}','[]',1.39127000011285417713e-04);
INSERT INTO "journal" VALUES(2,1.79535707045397305487e+09,1,'{"$":"Event","at_s":1795357070.453973,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#250b7d-1","n2#250b7d-2","n3#250b7d-3"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#250b7d-1","n2#250b7d-2","n3#250b7d-3"]}]]}],"samples_done":[],"losses":[],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,1],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n1#250b7d-1","n2#250b7d-2"]},{"$set":["n3#250b7d-3"]}],"memory":{"$":"bftrainer.policies.guard:Patience","inner":{"$":"bftrainer.policies.loss_phase:Phase","marks":[],"ages":["a","b"]},"since":[],"turns":[]}}','[]',1.16233999960968503728e-04);
INSERT INTO "journal" VALUES(3,1.79535707428970122334e+09,1,'{"$":"Event","at_s":1795357074.2897012,"changes":[{"$":"PoolChanged","joined":{"$set":["n4#250b7d-4"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n4#250b7d-4"]}]]}],"samples_done":[["a",61.0],["b",70.0]],"losses":[["a",3.1667403038674142],["b",2.979354638400828]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,2],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n1#250b7d-1","n2#250b7d-2"]},{"$set":["n3#250b7d-3","n4#250b7d-4"]}],"memory":{"$":"bftrainer.policies.guard:Patience","inner":{"$":"bftrainer.policies.loss_phase:Phase","marks":[],"ages":["a","b"]},"since":[],"turns":[]}}','[]',9.07149999420653330162e-05);
INSERT INTO "journal" VALUES(4,1.79535707542108488076e+09,1,'{"$":"Event","at_s":1795357075.421085,"changes":[{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"c","curve":{"$":"Curve","nodes":[1,4],"per_s":[10.0,40.0]},"min_nodes":1,"max_nodes":4,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}}],"samples_done":[["a",81.0],["b",80.0]],"losses":[["a",2.77219192650469],["b",2.790092855055242]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,1,1],"wake_at_s":1795357077.421085,"answer":null},"nodes":[{"$set":["n1#250b7d-1","n2#250b7d-2"]},{"$set":["n3#250b7d-3"]},{"$set":["n4#250b7d-4"]}],"memory":{"$":"bftrainer.policies.guard:Patience","inner":{"$":"bftrainer.policies.loss_phase:Phase","marks":[{"$":"bftrainer.policies.loss_phase:Mark","id":"a","samples":81.0,"loss":2.77219192650469},{"$":"bftrainer.policies.loss_phase:Mark","id":"b","samples":80.0,"loss":2.790092855055242},{"$":"bftrainer.policies.loss_phase:Mark","id":"c","samples":0.0,"loss":null}],"ages":[]},"since":[],"turns":[]}}','[]',1.00750000001426087692e-04);
INSERT INTO "journal" VALUES(5,1.79535707633244228363e+09,1,'{"$":"Event","at_s":1795357076.3324423,"changes":[{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"d","curve":{"$":"Curve","nodes":[1,2],"per_s":[10.0,20.0]},"min_nodes":1,"max_nodes":2,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}}],"samples_done":[["a",101.0],["b",91.0],["c",1.0]],"losses":[["a",2.4494880714419875],["b",2.602738611806162],["c",4.96]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,1,1],"wake_at_s":1795357078.2324424,"answer":null},"nodes":[{"$set":["n1#250b7d-1","n2#250b7d-2"]},{"$set":["n3#250b7d-3"]},{"$set":["n4#250b7d-4"]}],"memory":{"$":"bftrainer.policies.guard:Patience","inner":{"$":"bftrainer.policies.loss_phase:Phase","marks":[{"$":"bftrainer.policies.loss_phase:Mark","id":"a","samples":81.0,"loss":2.77219192650469},{"$":"bftrainer.policies.loss_phase:Mark","id":"b","samples":80.0,"loss":2.790092855055242},{"$":"bftrainer.policies.loss_phase:Mark","id":"c","samples":0.0,"loss":null}],"ages":[]},"since":[],"turns":[]}}','[]',1.50313999938589404337e-04);
INSERT INTO "journal" VALUES(6,1.79535707743719077107e+09,1,'{"$":"Event","at_s":1795357077.4371908,"changes":[{"$":"TrainerFinished","trainer_id":"b"}],"samples_done":[["a",121.0],["c",21.0]],"losses":[["a",2.185546349596832],["c",4.238911472885034]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,1,1],"wake_at_s":1795357079.4371908,"answer":null},"nodes":[{"$set":["n1#250b7d-1","n2#250b7d-2"]},{"$set":["n4#250b7d-4"]},{"$set":["n3#250b7d-3"]}],"memory":{"$":"bftrainer.policies.guard:Patience","inner":{"$":"bftrainer.policies.loss_phase:Phase","marks":[{"$":"bftrainer.policies.loss_phase:Mark","id":"a","samples":121.0,"loss":2.185546349596832},{"$":"bftrainer.policies.loss_phase:Mark","id":"c","samples":21.0,"loss":4.238911472885034},{"$":"bftrainer.policies.loss_phase:Mark","id":"d","samples":0.0,"loss":null}],"ages":[]},"since":[],"turns":[]}}','[]',7.78660000833042431622e-05);
INSERT INTO "journal" VALUES(7,1.79535707893574309349e+09,1,'{"$":"Event","at_s":1795357078.935743,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n1#250b7d-1"]},"classes":[]}],"samples_done":[["a",150.0],["c",50.0],["d",21.0]],"losses":[["a",1.8858071489554438],["c",3.4200242685501454],["d",4.238911472885034]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,1,0],"wake_at_s":1795357080.735743,"answer":null},"nodes":[{"$set":["n2#250b7d-2","n3#250b7d-3"]},{"$set":["n4#250b7d-4"]},{"$set":[]}],"memory":{"$":"bftrainer.policies.guard:Patience","inner":{"$":"bftrainer.policies.loss_phase:Phase","marks":[],"ages":["a","c","d"]},"since":[["d",1795357078.935743]],"turns":[]}}','[]',2.03592999923785100691e-04);
INSERT INTO "journal" VALUES(8,1.79535708075424957274e+09,1,'{"$":"Event","at_s":1795357080.7542496,"changes":[{"$":"TimerDue"}],"samples_done":[["a",170.0],["c",90.0],["d",29.0]],"losses":[["a",1.724507812503881],["c",2.6189278907132953],["d",3.9886883773263846]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,1,1],"wake_at_s":1795357980.7542496,"answer":null},"nodes":[{"$set":["n2#250b7d-2"]},{"$set":["n4#250b7d-4"]},{"$set":["n3#250b7d-3"]}],"memory":{"$":"bftrainer.policies.guard:Patience","inner":{"$":"bftrainer.policies.loss_phase:Phase","marks":[],"ages":["a","c","d"]},"since":[],"turns":[["d",1795357980.7542496]]}}','[]',1.01942999890525243245e-04);
INSERT INTO "journal" VALUES(9,1.79535708418500542645e+09,2,'{"$":"Event","at_s":1795357084.1850054,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n2#250b7d-2","n3#250b7d-3","n4#250b7d-4"]},"classes":[]}],"samples_done":[["a",209.0],["c",129.0],["d",50.0]],"losses":[["a",1.4895709751799933],["c",2.0939566040888646],["d",3.4200242685501454]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0,0],"wake_at_s":null,"answer":null},"nodes":[{"$set":[]},{"$set":[]},{"$set":[]}],"memory":{"$":"bftrainer.policies.guard:Patience","inner":{"$":"bftrainer.policies.loss_phase:Phase","marks":[],"ages":["a","c","d"]},"since":[],"turns":[]}}','[]',9.91479998901923e-05);
INSERT INTO "journal" VALUES(10,1.79535708450321269038e+09,2,'{"$":"Event","at_s":1795357084.5032127,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#250b7d-14001","n3#250b7d-14002","n4#250b7d-14003","n5#250b7d-14004"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#250b7d-14001","n3#250b7d-14002","n4#250b7d-14003","n5#250b7d-14004"]}]]}],"samples_done":[["a",209.0],["c",129.0],["d",50.0]],"losses":[["a",1.4895709751799933],["c",2.0939566040888646],["d",3.4200242685501454]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,2,0],"wake_at_s":1795357086.3032126,"answer":null},"nodes":[{"$set":["n1#250b7d-14001","n3#250b7d-14002"]},{"$set":["n4#250b7d-14003","n5#250b7d-14004"]},{"$set":[]}],"memory":{"$":"bftrainer.policies.guard:Patience","inner":{"$":"bftrainer.policies.loss_phase:Phase","marks":[],"ages":["a","c","d"]},"since":[["d",1795357084.5032127]],"turns":[]}}','[]',1.35291999868059065192e-04);
INSERT INTO "journal" VALUES(11,1.79535708631731510164e+09,2,'{"$":"Event","at_s":1795357086.317315,"changes":[{"$":"TimerDue"}],"samples_done":[["a",230.0],["c",150.0],["d",50.0]],"losses":[["a",1.3964192620754987],["c",1.8858071489554438],["d",3.4200242685501454]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,1,1],"wake_at_s":1795357986.317315,"answer":null},"nodes":[{"$set":["n1#250b7d-14001","n3#250b7d-14002"]},{"$set":["n4#250b7d-14003"]},{"$set":["n5#250b7d-14004"]}],"memory":{"$":"bftrainer.policies.guard:Patience","inner":{"$":"bftrainer.policies.loss_phase:Phase","marks":[],"ages":["a","c","d"]},"since":[],"turns":[["d",1795357986.317315]]}}','[]',1.21532000093793612904e-04);
INSERT INTO "journal" VALUES(12,1.79535708695604944232e+09,2,'{"$":"Event","at_s":1795357086.9560494,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n1#250b7d-14001","n3#250b7d-14002","n4#250b7d-14003"]},"classes":[]}],"samples_done":[["a",240.0],["c",163.0],["d",51.0]],"losses":[["a",1.3585144748092985],["c",1.77731439553118],["d",3.395824025864644]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0,1],"wake_at_s":1795357088.7560494,"answer":null},"nodes":[{"$set":[]},{"$set":[]},{"$set":["n5#250b7d-14004"]}],"memory":{"$":"bftrainer.policies.guard:Patience","inner":{"$":"bftrainer.policies.loss_phase:Phase","marks":[],"ages":["a","c","d"]},"since":[["a",1795357086.9560494],["c",1795357086.9560494]],"turns":[["d",1795357986.317315]]}}','[]',9.69849998000427149236e-05);
INSERT INTO "journal" VALUES(13,1.79535708710377764699e+09,2,'{"$":"Event","at_s":1795357087.1037776,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n5#250b7d-14004"]},"classes":[]}],"samples_done":[["a",240.0],["c",163.0],["d",51.0]],"losses":[["a",1.3585144748092985],["c",1.77731439553118],["d",3.395824025864644]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0,0],"wake_at_s":null,"answer":null},"nodes":[{"$set":[]},{"$set":[]},{"$set":[]}],"memory":{"$":"bftrainer.policies.guard:Patience","inner":{"$":"bftrainer.policies.loss_phase:Phase","marks":[],"ages":["a","c","d"]},"since":[],"turns":[]}}','[]',9.04749999790510628372e-05);
INSERT INTO "journal" VALUES(14,1.79535708730067515375e+09,2,'{"$":"Event","at_s":1795357087.3006752,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#250b7d-14005","n2#250b7d-14006"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#250b7d-14005","n2#250b7d-14006"]}]]}],"samples_done":[["a",240.0],["c",163.0],["d",51.0]],"losses":[["a",1.3585144748092985],["c",1.77731439553118],["d",3.395824025864644]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,1,0],"wake_at_s":1795357089.100675,"answer":null},"nodes":[{"$set":["n1#250b7d-14005"]},{"$set":["n2#250b7d-14006"]},{"$set":[]}],"memory":{"$":"bftrainer.policies.guard:Patience","inner":{"$":"bftrainer.policies.loss_phase:Phase","marks":[],"ages":["a","c","d"]},"since":[["d",1795357087.3006752]],"turns":[]}}','[]',8.12709999991057e-05);
INSERT INTO "journal" VALUES(15,1.79535708754883050917e+09,2,'{"$":"Event","at_s":1795357087.5488305,"changes":[{"$":"PoolChanged","joined":{"$set":["n3#250b7d-14007"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n3#250b7d-14007"]}]]}],"samples_done":[["a",240.0],["c",163.0],["d",51.0]],"losses":[["a",1.3585144748092985],["c",1.77731439553118],["d",3.395824025864644]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,1,0],"wake_at_s":1795357089.100675,"answer":null},"nodes":[{"$set":["n1#250b7d-14005","n3#250b7d-14007"]},{"$set":["n2#250b7d-14006"]},{"$set":[]}],"memory":{"$":"bftrainer.policies.guard:Patience","inner":{"$":"bftrainer.policies.loss_phase:Phase","marks":[],"ages":["a","c","d"]},"since":[["d",1795357087.3006752]],"turns":[]}}','[]',7.93579999935900559648e-05);
INSERT INTO "journal" VALUES(16,1.79535708911658787719e+09,2,'{"$":"Event","at_s":1795357089.1165879,"changes":[{"$":"TimerDue"}],"samples_done":[["a",262.0],["c",183.0],["d",51.0]],"losses":[["a",1.2873961697996594],["c",1.63577083679915],["d",3.395824025864644]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,1,1],"wake_at_s":1795357989.1165879,"answer":null},"nodes":[{"$set":["n1#250b7d-14005"]},{"$set":["n2#250b7d-14006"]},{"$set":["n3#250b7d-14007"]}],"memory":{"$":"bftrainer.policies.guard:Patience","inner":{"$":"bftrainer.policies.loss_phase:Phase","marks":[],"ages":["a","c","d"]},"since":[],"turns":[["d",1795357989.1165879]]}}','[]',1.00500000144165824167e-04);
CREATE TABLE last_state (
  only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
  journal INTEGER NOT NULL,
  state TEXT NOT NULL
);
INSERT INTO "last_state" VALUES(1,16,'{"$":"State","max_parallel":3,"at_s":1795357089.1165879,"pool":{"$set":["n1#250b7d-14005","n2#250b7d-14006","n3#250b7d-14007"]},"active":[{"$":"Active","trainer":{"$":"Trainer","id":"a","curve":{"$":"Curve","nodes":[1,2],"per_s":[10.0,20.0]},"min_nodes":1,"max_nodes":2,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null},"nodes":{"$set":["n1#250b7d-14005"]},"samples_done":262.0,"admitted_s":1795357070.0018785,"run_s":17.999781847000122,"node_s":32.3206524848938,"losses":{"$":"Losses","first":3.1667403038674142,"latest":1.2873961697996594,"at_samples":262.0,"per_sample":0.003232650227710869},"submitted":null,"sized_s":1795357089.1165879},{"$":"Active","trainer":{"$":"Trainer","id":"c","curve":{"$":"Curve","nodes":[1,4],"per_s":[10.0,40.0]},"min_nodes":1,"max_nodes":4,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null},"nodes":{"$set":["n2#250b7d-14006"]},"samples_done":183.0,"admitted_s":1795357075.421085,"run_s":13.032670021057129,"node_s":14.84677243232727,"losses":{"$":"Losses","first":4.96,"latest":1.63577083679915,"at_samples":183.0,"per_sample":0.007077177936601509},"submitted":null,"sized_s":1795357087.3006752},{"$":"Active","trainer":{"$":"Trainer","id":"d","curve":{"$":"Curve","nodes":[1,2],"per_s":[10.0,20.0]},"min_nodes":1,"max_nodes":2,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null},"nodes":{"$set":["n3#250b7d-14007"]},"samples_done":51.0,"admitted_s":1795357077.4371908,"run_s":5.715770721435547,"node_s":5.715770721435547,"losses":{"$":"Losses","first":4.238911472885034,"latest":3.395824025864644,"at_samples":51.0,"per_sample":0.024200242685501472},"submitted":null,"sized_s":1795357089.1165879}],"queue":[],"memory":{"$":"bftrainer.policies.guard:Patience","inner":{"$":"bftrainer.policies.loss_phase:Phase","marks":[],"ages":["a","c","d"]},"since":[],"turns":[["d",1795357989.1165879]]},"wake_at_s":1795357989.1165879,"classes":[["0 cpus",{"$set":["n1#250b7d-14005","n2#250b7d-14006","n3#250b7d-14007"]}]],"window_ends":[],"lessons":[]}');
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
INSERT INTO "settings" VALUES(1,1.79535706992210626598e+09,'0.1.0','loss-phase?iterations=20&batch_samples=1&guard_hours=0.0005','exact','throughput',120.0,0,3);
INSERT INTO "settings" VALUES(2,1.79535708414472842215e+09,'0.1.0','loss-phase?iterations=20&batch_samples=1&guard_hours=0.0005','exact','throughput',120.0,0,3);
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
