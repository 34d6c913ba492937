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
INSERT INTO "journal" VALUES(1,1.79535774802789139742e+09,1,'{"$":"Event","at_s":1795357748.0278914,"changes":[{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"a","curve":{"$":"Curve","nodes":[1,2],"per_s":[10.0,20.0]},"min_nodes":1,"max_nodes":2,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}},{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"b","curve":{"$":"Curve","nodes":[1,3],"per_s":[10.0,30.0]},"min_nodes":1,"max_nodes":3,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}}],"samples_done":[],"losses":[],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0],"wake_at_s":null,"answer":null},"nodes":[{"$set":[]},{"$set":[]}],"memory":0}','[]',5.66849998904217500239e-05);
INSERT INTO "journal" VALUES(2,1.79535774845253467556e+09,1,'{"$":"Event","at_s":1795357748.4525347,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#7801b4-1"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#7801b4-1"]}]]}],"samples_done":[],"losses":[],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,0],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n1#7801b4-1"]},{"$set":[]}],"memory":0}','[]',4.28739999733807053416e-05);
INSERT INTO "journal" VALUES(3,1.79535774860489034648e+09,1,'{"$":"Event","at_s":1795357748.6048903,"changes":[{"$":"PoolChanged","joined":{"$set":["n2#7801b4-2","n3#7801b4-3"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n2#7801b4-2","n3#7801b4-3"]}]]}],"samples_done":[],"losses":[],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,2],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n1#7801b4-1"]},{"$set":["n2#7801b4-2","n3#7801b4-3"]}],"memory":11400714819323198485}','[]',5.41509998583933338522e-05);
INSERT INTO "journal" VALUES(4,1.79535775231233620647e+09,1,'{"$":"Event","at_s":1795357752.3123362,"changes":[{"$":"PoolChanged","joined":{"$set":["n4#7801b4-4"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n4#7801b4-4"]}]]}],"samples_done":[["a",61.0],["b",50.0]],"losses":[["a",3.1667403038674142],["b",3.4200242685501454]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,2],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n1#7801b4-1","n4#7801b4-4"]},{"$set":["n2#7801b4-2","n3#7801b4-3"]}],"memory":4354685564936845354}','[]',5.4862000069988425821e-05);
INSERT INTO "journal" VALUES(5,1.79535775363630223269e+09,1,'{"$":"Event","at_s":1795357753.6363022,"changes":[{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"c","curve":{"$":"Curve","nodes":[1,4],"per_s":[10.0,40.0]},"min_nodes":1,"max_nodes":4,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}}],"samples_done":[["a",80.0],["b",81.0]],"losses":[["a",2.790092855055242],["b",2.77219192650469]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,2,1],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n1#7801b4-1"]},{"$set":["n2#7801b4-2","n3#7801b4-3"]},{"$set":["n4#7801b4-4"]}],"memory":8709371129873690708}','[]',6.49769999654381535947e-05);
INSERT INTO "journal" VALUES(6,1.7953577556325962544e+09,1,'{"$":"Event","at_s":1795357755.6325963,"changes":[{"$":"TrainerFinished","trainer_id":"b"}],"samples_done":[["a",111.0],["c",21.0]],"losses":[["a",2.3108910297512146],["c",4.238911472885034]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,2],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n1#7801b4-1","n2#7801b4-2"]},{"$set":["n3#7801b4-3","n4#7801b4-4"]}],"memory":1663341875487337577}','[]',4.29639999310893472284e-05);
INSERT INTO "journal" VALUES(7,1.79535775691612958914e+09,1,'{"$":"Event","at_s":1795357756.9161296,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n1#7801b4-1"]},"classes":[]}],"samples_done":[["a",130.0],["c",40.0]],"losses":[["a",2.083017038047976],["c",3.675887034278721]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,1],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n2#7801b4-2","n4#7801b4-4"]},{"$set":["n3#7801b4-3"]}],"memory":13064056694810536062}','[]',4.36750001426844391971e-05);
INSERT INTO "journal" VALUES(8,1.7953577625687861443e+09,2,'{"$":"Event","at_s":1795357762.5687861,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n2#7801b4-2","n3#7801b4-3","n4#7801b4-4"]},"classes":[]}],"samples_done":[["a",180.0],["c",99.0]],"losses":[["a",1.6552318788323497],["c",2.4789185505989058]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0],"wake_at_s":null,"answer":null},"nodes":[{"$set":[]},{"$set":[]}],"memory":13064056694810536062}','[]',6.14120003774587530642e-05);
INSERT INTO "journal" VALUES(9,1.79535776307296347613e+09,2,'{"$":"Event","at_s":1795357763.0729635,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#7801b4-14001","n3#7801b4-14002","n4#7801b4-14003","n5#7801b4-14004"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#7801b4-14001","n3#7801b4-14002","n4#7801b4-14003","n5#7801b4-14004"]}]]}],"samples_done":[["a",180.0],["c",99.0]],"losses":[["a",1.6552318788323497],["c",2.4789185505989058]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,2],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n1#7801b4-14001","n3#7801b4-14002"]},{"$set":["n4#7801b4-14003","n5#7801b4-14004"]}],"memory":6018027440424182931}','[]',5.52920000700396485626e-05);
INSERT INTO "journal" VALUES(10,1.79535776488263726239e+09,2,'{"$":"Event","at_s":1795357764.8826373,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n1#7801b4-14001"]},"classes":[]}],"samples_done":[["a",201.0],["c",120.0]],"losses":[["a",1.5305595124375284],["c",2.197521565249325]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,1],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n3#7801b4-14002","n5#7801b4-14004"]},{"$set":["n4#7801b4-14003"]}],"memory":17418742259747381416}','[]',5.27789998159278184175e-05);
INSERT INTO "journal" VALUES(11,1.79535776494586372378e+09,2,'{"$":"Event","at_s":1795357764.9458637,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n3#7801b4-14002"]},"classes":[]}],"samples_done":[["a",201.0],["c",124.0]],"losses":[["a",1.5305595124375284],["c",2.1503344374674564]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,1],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n5#7801b4-14004"]},{"$set":["n4#7801b4-14003"]}],"memory":17418742259747381416}','[]',5.03250003021094e-05);
INSERT INTO "journal" VALUES(12,1.79535776499433016775e+09,2,'{"$":"Event","at_s":1795357764.9943302,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n4#7801b4-14003"]},"classes":[]}],"samples_done":[["a",201.0],["c",124.0]],"losses":[["a",1.5305595124375284],["c",2.1503344374674564]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,1],"wake_at_s":null,"answer":null},"nodes":[{"$set":[]},{"$set":["n5#7801b4-14004"]}],"memory":17418742259747381416}','[]',3.40909996339178178459e-05);
INSERT INTO "journal" VALUES(13,1.79535776515160727497e+09,2,'{"$":"Event","at_s":1795357765.1516073,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n5#7801b4-14004"]},"classes":[]}],"samples_done":[["a",201.0],["c",124.0]],"losses":[["a",1.5305595124375284],["c",2.1503344374674564]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0],"wake_at_s":null,"answer":null},"nodes":[{"$set":[]},{"$set":[]}],"memory":17418742259747381416}','[]',3.48620001204835716634e-05);
INSERT INTO "journal" VALUES(14,1.79535776520074129109e+09,2,'{"$":"Event","at_s":1795357765.2007413,"changes":[{"$":"PoolChanged","joined":{"$set":["n2#7801b4-14005"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n2#7801b4-14005"]}]]}],"samples_done":[["a",201.0],["c",124.0]],"losses":[["a",1.5305595124375284],["c",2.1503344374674564]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,1],"wake_at_s":null,"answer":null},"nodes":[{"$set":[]},{"$set":["n2#7801b4-14005"]}],"memory":17418742259747381416}','[]',3.39809998877171892672e-05);
INSERT INTO "journal" VALUES(15,1.7953577654290513992e+09,2,'{"$":"Event","at_s":1795357765.4290514,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#7801b4-14006","n3#7801b4-14007"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#7801b4-14006","n3#7801b4-14007"]}]]}],"samples_done":[["a",201.0],["c",125.0]],"losses":[["a",1.5305595124375284],["c",2.138831093092782]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,2],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n1#7801b4-14006"]},{"$set":["n2#7801b4-14005","n3#7801b4-14007"]}],"memory":10372713005361028285}','[]',4.43660001110401935875e-05);
CREATE TABLE last_state (
  only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
  journal INTEGER NOT NULL,
  state TEXT NOT NULL
);
INSERT INTO "last_state" VALUES(1,15,'{"$":"State","max_parallel":3,"at_s":1795357765.4290514,"pool":{"$set":["n1#7801b4-14006","n2#7801b4-14005","n3#7801b4-14007"]},"active":[{"$":"Active","trainer":{"$":"Trainer","id":"a","curve":{"$":"Curve","nodes":[1,2],"per_s":[10.0,20.0]},"min_nodes":1,"max_nodes":2,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null},"nodes":{"$set":["n1#7801b4-14006"]},"samples_done":201.0,"admitted_s":1795357748.0278914,"run_s":16.037618160247803,"node_s":26.170674324035645,"losses":{"$":"Losses","first":3.1667403038674142,"latest":1.5305595124375284,"at_samples":201.0,"per_sample":0.005936779352134346},"submitted":null,"sized_s":1795357765.4290514},{"$":"Active","trainer":{"$":"Trainer","id":"c","curve":{"$":"Curve","nodes":[1,4],"per_s":[10.0,40.0]},"min_nodes":1,"max_nodes":4,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null},"nodes":{"$set":["n2#7801b4-14005","n3#7801b4-14007"]},"samples_done":125.0,"admitted_s":1795357753.6363022,"run_s":11.239437818527222,"node_s":14.332644939422607,"losses":{"$":"Losses","first":4.238911472885034,"latest":2.138831093092782,"at_samples":125.0,"per_sample":0.011503344374674374},"submitted":null,"sized_s":1795357765.4290514}],"queue":[],"memory":10372713005361028285,"wake_at_s":null,"classes":[["0 cpus",{"$set":["n1#7801b4-14006","n2#7801b4-14005","n3#7801b4-14007"]}]],"window_ends":[],"lessons":[]}');
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
INSERT INTO "settings" VALUES(1,1.79535774790538334849e+09,'0.1.0','afs-p','exact','throughput',120.0,0,3);
INSERT INTO "settings" VALUES(2,1.79535776253546547885e+09,'0.1.0','afs-p','exact','throughput',120.0,0,3);
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
