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
INSERT INTO "journal" VALUES(1,1.79535697688428664206e+09,1,'{"$":"Event","at_s":1795356976.8842866,"changes":[{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"a","curve":{"$":"Curve","nodes":[1,2],"per_s":[10.0,20.0]},"min_nodes":1,"max_nodes":2,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}},{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"b","curve":{"$":"Curve","nodes":[1,3],"per_s":[10.0,30.0]},"min_nodes":1,"max_nodes":3,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":120.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}}],"samples_done":[],"losses":[],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0],"wake_at_s":null,"answer":null},"nodes":[{"$set":[]},{"$set":[]}],"memory":null}','[]',4.48069999947620090097e-05);
INSERT INTO "journal" VALUES(2,1.79535697724063229557e+09,1,'{"$":"Event","at_s":1795356977.2406323,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#e889c5-1","n2#e889c5-2","n3#e889c5-3"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#e889c5-1","n2#e889c5-2","n3#e889c5-3"]}]]}],"samples_done":[],"losses":[],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,2],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n1#e889c5-1"]},{"$set":["n2#e889c5-2","n3#e889c5-3"]}],"memory":null}','[]',4.76010000056703574955e-05);
INSERT INTO "journal" VALUES(3,1.79535698127841639518e+09,1,'{"$":"Event","at_s":1795356981.2784164,"changes":[{"$":"PoolChanged","joined":{"$set":["n4#e889c5-4"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n4#e889c5-4"]}]]}],"samples_done":[["a",70.0],["b",70.0]],"losses":[["a",2.979354638400828],["b",2.979354638400828]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,3],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n1#e889c5-1"]},{"$set":["n2#e889c5-2","n3#e889c5-3","n4#e889c5-4"]}],"memory":null}','[]',5.40099999852827750146e-05);
INSERT INTO "journal" VALUES(4,1.79535698271604251857e+09,1,'{"$":"Event","at_s":1795356982.7160425,"changes":[{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"c","curve":{"$":"Curve","nodes":[1,4],"per_s":[10.0,40.0]},"min_nodes":1,"max_nodes":4,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}}],"samples_done":[["a",90.0],["b",90.0]],"losses":[["a",2.6189278907132953],["b",2.6189278907132953]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,2,1],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n1#e889c5-1"]},{"$set":["n2#e889c5-2","n3#e889c5-3"]},{"$set":["n4#e889c5-4"]}],"memory":null}','[]',6.85620000240305671468e-05);
INSERT INTO "journal" VALUES(5,1.79535698393030405039e+09,1,'{"$":"Event","at_s":1795356983.930304,"changes":[{"$":"TrainerFinished","trainer_id":"b"}],"samples_done":[["a",121.0],["c",10.0]],"losses":[["a",2.185546349596832],["c",4.617528300035218]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,2],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n1#e889c5-1","n2#e889c5-2"]},{"$set":["n3#e889c5-3","n4#e889c5-4"]}],"memory":null}','[]',4.57179999102663714438e-05);
INSERT INTO "journal" VALUES(6,1.79535698593381810189e+09,1,'{"$":"Event","at_s":1795356985.933818,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n1#e889c5-1"]},"classes":[]}],"samples_done":[["a",160.0],["c",50.0]],"losses":[["a",1.801108107429957],["c",3.4200242685501454]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,1],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n2#e889c5-2","n4#e889c5-4"]},{"$set":["n3#e889c5-3"]}],"memory":null}','[]',3.76259999939065892249e-05);
INSERT INTO "journal" VALUES(7,1.7953569895814995766e+09,2,'{"$":"Event","at_s":1795356989.5814996,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n2#e889c5-2","n3#e889c5-3","n4#e889c5-4"]},"classes":[]}],"samples_done":[["a",214.0],["c",111.0]],"losses":[["a",1.4655771261160135],["c",2.3108910297512146]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0],"wake_at_s":null,"answer":null},"nodes":[{"$set":[]},{"$set":[]}],"memory":null}','[]',3.64140000783663708716e-05);
INSERT INTO "journal" VALUES(8,1795356989.89565,2,'{"$":"Event","at_s":1795356989.89565,"changes":[{"$":"PoolChanged","joined":{"$set":["n2#e889c5-12001","n3#e889c5-12002","n4#e889c5-12003"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n2#e889c5-12001","n3#e889c5-12002","n4#e889c5-12003"]}]]}],"samples_done":[["a",214.0],["c",111.0]],"losses":[["a",1.4655771261160135],["c",2.3108910297512146]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,1],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n2#e889c5-12001","n3#e889c5-12002"]},{"$set":["n4#e889c5-12003"]}],"memory":null}','[]',4.38849999682133784517e-05);
INSERT INTO "journal" VALUES(9,1.79535698998012900355e+09,2,'{"$":"Event","at_s":1795356989.980129,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n2#e889c5-12001"]},"classes":[]}],"samples_done":[["a",214.0],["c",111.0]],"losses":[["a",1.4655771261160135],["c",2.3108910297512146]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,1],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n3#e889c5-12002"]},{"$set":["n4#e889c5-12003"]}],"memory":null}','[]',4.88030000269645825028e-05);
INSERT INTO "journal" VALUES(10,1.79535699037714362147e+09,2,'{"$":"Event","at_s":1795356990.3771436,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#e889c5-12004","n5#e889c5-12005"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#e889c5-12004","n5#e889c5-12005"]}]]}],"samples_done":[["a",215.0],["c",112.0]],"losses":[["a",1.4609213548548534],["c",2.2977821194537027]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,2],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n1#e889c5-12004","n3#e889c5-12002"]},{"$set":["n4#e889c5-12003","n5#e889c5-12005"]}],"memory":null}','[]',5.04449999425560235977e-05);
INSERT INTO "journal" VALUES(11,1.79535699395516800879e+09,2,'{"$":"Event","at_s":1795356993.955168,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n1#e889c5-12004","n3#e889c5-12002","n4#e889c5-12003"]},"classes":[]}],"samples_done":[["a",290.0],["c",181.0]],"losses":[["a",1.216903432416253],["c",1.6486795600440263]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,0],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n5#e889c5-12005"]},{"$set":[]}],"memory":null}','[]',3.37100000251666642725e-05);
INSERT INTO "journal" VALUES(12,1.7953569940565881729e+09,2,'{"$":"Event","at_s":1795356994.0565882,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n5#e889c5-12005"]},"classes":[]}],"samples_done":[["a",290.0],["c",181.0]],"losses":[["a",1.216903432416253],["c",1.6486795600440263]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0],"wake_at_s":null,"answer":null},"nodes":[{"$set":[]},{"$set":[]}],"memory":null}','[]',3.22880000567238312214e-05);
INSERT INTO "journal" VALUES(13,1.79535699423954439165e+09,2,'{"$":"Event","at_s":1795356994.2395444,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#e889c5-12006","n2#e889c5-12007","n3#e889c5-12008"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#e889c5-12006","n2#e889c5-12007","n3#e889c5-12008"]}]]}],"samples_done":[["a",290.0],["c",181.0]],"losses":[["a",1.216903432416253],["c",1.6486795600440263]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,1],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n1#e889c5-12006","n2#e889c5-12007"]},{"$set":["n3#e889c5-12008"]}],"memory":null}','[]',3.59440000465838238596e-05);
CREATE TABLE last_state (
  only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
  journal INTEGER NOT NULL,
  state TEXT NOT NULL
);
INSERT INTO "last_state" VALUES(1,13,'{"$":"State","max_parallel":3,"at_s":1795356994.2395444,"pool":{"$set":["n1#e889c5-12006","n2#e889c5-12007","n3#e889c5-12008"]},"active":[{"$":"Active","trainer":{"$":"Trainer","id":"a","curve":{"$":"Curve","nodes":[1,2],"per_s":[10.0,20.0]},"min_nodes":1,"max_nodes":2,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null},"nodes":{"$set":["n1#e889c5-12006","n2#e889c5-12007"]},"samples_done":290.0,"admitted_s":1795356976.8842866,"run_s":16.501805543899536,"node_s":25.815504550933838,"losses":{"$":"Losses","first":2.979354638400828,"latest":1.216903432416253,"at_samples":290.0,"per_sample":0.0032535722991813374},"submitted":null,"sized_s":1795356994.2395444},{"$":"Active","trainer":{"$":"Trainer","id":"c","curve":{"$":"Curve","nodes":[1,4],"per_s":[10.0,40.0]},"min_nodes":1,"max_nodes":4,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null},"nodes":{"$set":["n3#e889c5-12008"]},"samples_done":181.0,"admitted_s":1795356982.7160425,"run_s":10.924975156784058,"node_s":16.506513595581055,"losses":{"$":"Losses","first":4.617528300035218,"latest":1.6486795600440263,"at_samples":181.0,"per_sample":0.009407283469705456},"submitted":null,"sized_s":1795356994.2395444}],"queue":[],"memory":null,"wake_at_s":null,"classes":[["0 cpus",{"$set":["n1#e889c5-12006","n2#e889c5-12007","n3#e889c5-12008"]}]],"window_ends":[],"lessons":[]}');
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
INSERT INTO "settings" VALUES(1,1.79535697687611722943e+09,'0.1.0','afs-l','exact','throughput',120.0,0,3);
INSERT INTO "settings" VALUES(2,1.79535698957721948617e+09,'0.1.0','afs-l','exact','throughput',120.0,0,3);
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
