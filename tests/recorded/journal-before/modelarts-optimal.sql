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
INSERT INTO "journal" VALUES(1,1.79535765257653474801e+09,1,'{"$":"Event","at_s":1795357652.5765347,"changes":[{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"a","curve":{"$":"Curve","nodes":[1,2],"per_s":[10.0,20.0]},"min_nodes":1,"max_nodes":2,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}},{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"b","curve":{"$":"Curve","nodes":[1,3],"per_s":[10.0,30.0]},"min_nodes":1,"max_nodes":3,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}}],"samples_done":[],"losses":[],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0],"wake_at_s":1795357653.0,"answer":null},"nodes":[{"$set":[]},{"$set":[]}],"memory":1795357653.0}','[]',5.62939999326772522181e-05);
INSERT INTO "journal" VALUES(2,1.79535765297261524194e+09,1,'{"$":"Event","at_s":1795357652.9726152,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#00a411-1","n2#00a411-2","n3#00a411-3"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#00a411-1","n2#00a411-2","n3#00a411-3"]}]]}],"samples_done":[],"losses":[],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,1],"wake_at_s":1795357653.0,"answer":null},"nodes":[{"$set":["n1#00a411-1","n2#00a411-2"]},{"$set":["n3#00a411-3"]}],"memory":1795357653.0}','[]',5.1316999815753661096e-05);
INSERT INTO "journal" VALUES(3,1.79535765302994704253e+09,1,'{"$":"Event","at_s":1795357653.029947,"changes":[{"$":"TimerDue"}],"samples_done":[],"losses":[],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,1],"wake_at_s":1795357656.0,"answer":null},"nodes":[{"$set":["n1#00a411-1","n2#00a411-2"]},{"$set":["n3#00a411-3"]}],"memory":1795357656.0}','[]',3.70111909996921895071e-02);
INSERT INTO "journal" VALUES(4,1.79535765603923463821e+09,1,'{"$":"Event","at_s":1795357656.0392346,"changes":[{"$":"TimerDue"}],"samples_done":[["a",50.0],["b",50.0]],"losses":[["a",3.4200242685501454],["b",3.4200242685501454]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,1],"wake_at_s":1795357659.0,"answer":null},"nodes":[{"$set":["n1#00a411-1","n2#00a411-2"]},{"$set":["n3#00a411-3"]}],"memory":1795357659.0}','[]',1.15045600023222505114e-03);
INSERT INTO "journal" VALUES(5,1.79535765706409692764e+09,1,'{"$":"Event","at_s":1795357657.064097,"changes":[{"$":"PoolChanged","joined":{"$set":["n4#00a411-4"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n4#00a411-4"]}]]}],"samples_done":[["a",70.0],["b",70.0]],"losses":[["a",2.979354638400828],["b",2.979354638400828]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,1],"wake_at_s":1795357659.0,"answer":null},"nodes":[{"$set":["n1#00a411-1","n2#00a411-2"]},{"$set":["n3#00a411-3"]}],"memory":1795357659.0}','[]',3.69650001630361657589e-05);
INSERT INTO "journal" VALUES(6,1.79535765770737099642e+09,1,'{"$":"Event","at_s":1795357657.707371,"changes":[{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"c","curve":{"$":"Curve","nodes":[1,4],"per_s":[10.0,40.0]},"min_nodes":1,"max_nodes":4,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}}],"samples_done":[["a",81.0],["b",81.0]],"losses":[["a",2.77219192650469],["b",2.77219192650469]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,1,1],"wake_at_s":1795357659.0,"answer":null},"nodes":[{"$set":["n1#00a411-1","n2#00a411-2"]},{"$set":["n3#00a411-3"]},{"$set":["n4#00a411-4"]}],"memory":1795357659.0}','[]',4.28139996984100434929e-05);
INSERT INTO "journal" VALUES(7,1.79535765903033351894e+09,1,'{"$":"Event","at_s":1795357659.0303335,"changes":[{"$":"TimerDue"}],"samples_done":[["a",101.0],["b",110.0],["c",21.0]],"losses":[["a",2.4494880714419875],["b",2.3241323532840554],["c",4.238911472885034]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,2,1],"wake_at_s":1795357662.0,"answer":null},"nodes":[{"$set":["n1#00a411-1"]},{"$set":["n2#00a411-2","n3#00a411-3"]},{"$set":["n4#00a411-4"]}],"memory":1795357662.0}','[]',8.83321399987835320644e-03);
INSERT INTO "journal" VALUES(8,1.79535765955291724211e+09,1,'{"$":"Event","at_s":1795357659.5529172,"changes":[{"$":"TrainerFinished","trainer_id":"b"}],"samples_done":[["a",118.0],["c",30.0]],"losses":[["a",2.221836103713218],["c",3.958801493553121]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,1],"wake_at_s":1795357662.0,"answer":null},"nodes":[{"$set":["n1#00a411-1"]},{"$set":["n4#00a411-4"]}],"memory":1795357662.0}','[]',3.31599999299214687198e-05);
INSERT INTO "journal" VALUES(9,1.79535766160622358321e+09,1,'{"$":"Event","at_s":1795357661.6062236,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n1#00a411-1","n2#00a411-2","n3#00a411-3"]},"classes":[]}],"samples_done":[["a",160.0],["c",70.0]],"losses":[["a",1.801108107429957],["c",2.979354638400828]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,1],"wake_at_s":1795357662.0,"answer":null},"nodes":[{"$set":[]},{"$set":["n4#00a411-4"]}],"memory":1795357662.0}','[]',3.69249996765574906021e-05);
INSERT INTO "journal" VALUES(10,1.79535766201081395149e+09,1,'{"$":"Event","at_s":1795357662.010814,"changes":[{"$":"TimerDue"}],"samples_done":[["a",160.0],["c",70.0]],"losses":[["a",1.801108107429957],["c",2.979354638400828]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,1],"wake_at_s":1795357665.0,"answer":null},"nodes":[{"$set":[]},{"$set":["n4#00a411-4"]}],"memory":1795357665.0}','[]',1.12219399989044177345e-03);
INSERT INTO "journal" VALUES(11,1.79535766483935284613e+09,2,'{"$":"Event","at_s":1795357664.8393528,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n4#00a411-4"]},"classes":[]}],"samples_done":[["a",160.0],["c",121.0]],"losses":[["a",1.801108107429957],["c",2.185546349596832]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0],"wake_at_s":1795357665.0,"answer":null},"nodes":[{"$set":[]},{"$set":[]}],"memory":1795357665.0}','[]',3.91990001844533253461e-05);
INSERT INTO "journal" VALUES(12,1.79535766504664206499e+09,2,'{"$":"Event","at_s":1795357665.046642,"changes":[{"$":"TimerDue"}],"samples_done":[["a",160.0],["c",121.0]],"losses":[["a",1.801108107429957],["c",2.185546349596832]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0],"wake_at_s":1795357668.0,"answer":null},"nodes":[{"$set":[]},{"$set":[]}],"memory":1795357668.0}','[]',6.40050002402858808636e-05);
INSERT INTO "journal" VALUES(13,1.79535766515925717355e+09,2,'{"$":"Event","at_s":1795357665.1592572,"changes":[{"$":"PoolChanged","joined":{"$set":["n2#00a411-12001","n3#00a411-12002","n4#00a411-12003"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n2#00a411-12001","n3#00a411-12002","n4#00a411-12003"]}]]}],"samples_done":[["a",160.0],["c",121.0]],"losses":[["a",1.801108107429957],["c",2.185546349596832]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,1],"wake_at_s":1795357668.0,"answer":null},"nodes":[{"$set":["n2#00a411-12001","n3#00a411-12002"]},{"$set":["n4#00a411-12003"]}],"memory":1795357668.0}','[]',4.71399998787092044949e-05);
INSERT INTO "journal" VALUES(14,1.79535766551684641831e+09,2,'{"$":"Event","at_s":1795357665.5168464,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n2#00a411-12001"]},"classes":[]}],"samples_done":[["a",161.0],["c",122.0]],"losses":[["a",1.7930970263556576],["c",2.1736908861008635]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,1],"wake_at_s":1795357668.0,"answer":null},"nodes":[{"$set":["n3#00a411-12002"]},{"$set":["n4#00a411-12003"]}],"memory":1795357668.0}','[]',4.46369999735907185822e-05);
INSERT INTO "journal" VALUES(15,1.79535766583082985882e+09,2,'{"$":"Event","at_s":1795357665.8308299,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#00a411-12004","n5#00a411-12005"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#00a411-12004","n5#00a411-12005"]}]]}],"samples_done":[["a",161.0],["c",122.0]],"losses":[["a",1.7930970263556576],["c",2.1736908861008635]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,1],"wake_at_s":1795357668.0,"answer":null},"nodes":[{"$set":["n3#00a411-12002"]},{"$set":["n4#00a411-12003"]}],"memory":1795357668.0}','[]',3.43209999300597701221e-05);
INSERT INTO "journal" VALUES(16,1.79535766787023639678e+09,2,'{"$":"Event","at_s":1795357667.8702364,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n1#00a411-12004","n5#00a411-12005"]},"classes":[]}],"samples_done":[["a",201.0],["c",162.0]],"losses":[["a",1.5305595124375284],["c",1.785166056092101]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,1],"wake_at_s":1795357668.0,"answer":null},"nodes":[{"$set":["n3#00a411-12002"]},{"$set":["n4#00a411-12003"]}],"memory":1795357668.0}','[]',3.91189996662433259189e-05);
INSERT INTO "journal" VALUES(17,1.79535766802803254133e+09,2,'{"$":"Event","at_s":1795357668.0280325,"changes":[{"$":"TimerDue"}],"samples_done":[["a",201.0],["c",170.0]],"losses":[["a",1.5305595124375284],["c",1.724507812503881]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,1],"wake_at_s":1795357671.0,"answer":null},"nodes":[{"$set":["n3#00a411-12002"]},{"$set":["n4#00a411-12003"]}],"memory":1795357671.0}','[]',1.11428390000583021901e-02);
INSERT INTO "journal" VALUES(18,1795357669.52638,2,'{"$":"Event","at_s":1795357669.52638,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n3#00a411-12002"]},"classes":[]}],"samples_done":[["a",230.0],["c",200.0]],"losses":[["a",1.3964192620754987],["c",1.5359186994318468]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,1],"wake_at_s":1795357671.0,"answer":null},"nodes":[{"$set":[]},{"$set":["n4#00a411-12003"]}],"memory":1795357671.0}','[]',4.62090001747128553688e-05);
INSERT INTO "journal" VALUES(19,1.79535766962014842031e+09,2,'{"$":"Event","at_s":1795357669.6201484,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n4#00a411-12003"]},"classes":[]}],"samples_done":[["a",230.0],["c",202.0]],"losses":[["a",1.3964192620754987],["c",1.5252539173131532]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0],"wake_at_s":1795357671.0,"answer":null},"nodes":[{"$set":[]},{"$set":[]}],"memory":1795357671.0}','[]',3.38810000357625540345e-05);
INSERT INTO "journal" VALUES(20,1.79535766967266702653e+09,2,'{"$":"Event","at_s":1795357669.672667,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#00a411-12006"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#00a411-12006"]}]]}],"samples_done":[["a",230.0],["c",202.0]],"losses":[["a",1.3964192620754987],["c",1.5252539173131532]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,0],"wake_at_s":1795357671.0,"answer":null},"nodes":[{"$set":["n1#00a411-12006"]},{"$set":[]}],"memory":1795357671.0}','[]',3.77269998352858237922e-05);
INSERT INTO "journal" VALUES(21,1.79535766992973184587e+09,2,'{"$":"Event","at_s":1795357669.9297318,"changes":[{"$":"PoolChanged","joined":{"$set":["n2#00a411-12007"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n2#00a411-12007"]}]]}],"samples_done":[["a",231.0],["c",202.0]],"losses":[["a",1.3924550694547437],["c",1.5252539173131532]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,1],"wake_at_s":1795357671.0,"answer":null},"nodes":[{"$set":["n1#00a411-12006"]},{"$set":["n2#00a411-12007"]}],"memory":1795357671.0}','[]',3.40800002049945760518e-05);
INSERT INTO "journal" VALUES(22,1.79535767103538298605e+09,2,'{"$":"Event","at_s":1795357671.035383,"changes":[{"$":"TimerDue"}],"samples_done":[["a",250.0],["c",210.0]],"losses":[["a",1.3242340646487252],["c",1.4846752654281934]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,1],"wake_at_s":1795357674.0,"answer":null},"nodes":[{"$set":["n1#00a411-12006"]},{"$set":["n2#00a411-12007"]}],"memory":1795357674.0}','[]',0.00110680100033278);
CREATE TABLE last_state (
  only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
  journal INTEGER NOT NULL,
  state TEXT NOT NULL
);
INSERT INTO "last_state" VALUES(1,22,'{"$":"State","max_parallel":3,"at_s":1795357671.035383,"pool":{"$set":["n1#00a411-12006","n2#00a411-12007"]},"active":[{"$":"Active","trainer":{"$":"Trainer","id":"a","curve":{"$":"Curve","nodes":[1,2],"per_s":[10.0,20.0]},"min_nodes":1,"max_nodes":2,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null},"nodes":{"$set":["n1#00a411-12006"]},"samples_done":250.0,"admitted_s":1795357652.5765347,"run_s":14.363447189331055,"node_s":20.778754711151123,"losses":{"$":"Losses","first":3.4200242685501454,"latest":1.3242340646487252,"at_samples":250.0,"per_sample":0.003590579200316766},"submitted":null,"sized_s":1795357669.672667},{"$":"Active","trainer":{"$":"Trainer","id":"c","curve":{"$":"Curve","nodes":[1,4],"per_s":[10.0,40.0]},"min_nodes":1,"max_nodes":4,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null},"nodes":{"$set":["n2#00a411-12007"]},"samples_done":210.0,"admitted_s":1795357657.707371,"run_s":12.698524236679077,"node_s":12.698524236679077,"losses":{"$":"Losses","first":4.238911472885034,"latest":1.4846752654281934,"at_samples":210.0,"per_sample":0.005072331485619974},"submitted":null,"sized_s":1795357669.9297318}],"queue":[],"memory":1795357674.0,"wake_at_s":1795357674.0,"classes":[["0 cpus",{"$set":["n1#00a411-12006","n2#00a411-12007"]}]],"window_ends":[],"lessons":[]}');
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
INSERT INTO "settings" VALUES(1,1.79535765253283619881e+09,'0.1.0','modelarts-optimal?interval_s=3','exact','throughput',120.0,0,3);
INSERT INTO "settings" VALUES(2,1.79535766483473563197e+09,'0.1.0','modelarts-optimal?interval_s=3','exact','throughput',120.0,0,3);
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
