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
INSERT INTO "journal" VALUES(1,1795356999.49757,1,'{"$":"Event","at_s":1795356999.49757,"changes":[{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"a","curve":{"$":"Curve","nodes":[1,2],"per_s":[10.0,20.0]},"min_nodes":1,"max_nodes":2,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}},{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"b","curve":{"$":"Curve","nodes":[1,3],"per_s":[10.0,30.0]},"min_nodes":1,"max_nodes":3,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":120.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}}],"samples_done":[],"losses":[],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0],"wake_at_s":null,"answer":null},"nodes":[{"$set":[]},{"$set":[]}],"memory":0}','[]',4.07109998832311248406e-05);
INSERT INTO "journal" VALUES(2,1.79535699985071396829e+09,1,'{"$":"Event","at_s":1795356999.850714,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#09a241-1","n2#09a241-2","n3#09a241-3"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#09a241-1","n2#09a241-2","n3#09a241-3"]}]]}],"samples_done":[],"losses":[],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,2],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n1#09a241-1"]},{"$set":["n2#09a241-2","n3#09a241-3"]}],"memory":11400714819323198485}','[]',4.80910000533185666427e-05);
INSERT INTO "journal" VALUES(3,1.79535700396867132187e+09,1,'{"$":"Event","at_s":1795357003.9686713,"changes":[{"$":"PoolChanged","joined":{"$set":["n4#09a241-4"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n4#09a241-4"]}]]}],"samples_done":[["a",70.0],["b",70.0]],"losses":[["a",2.979354638400828],["b",2.979354638400828]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,2],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n1#09a241-1","n4#09a241-4"]},{"$set":["n2#09a241-2","n3#09a241-3"]}],"memory":4354685564936845354}','[]',5.60529999802383827045e-05);
INSERT INTO "journal" VALUES(4,1.7953570051082413197e+09,1,'{"$":"Event","at_s":1795357005.1082413,"changes":[{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"c","curve":{"$":"Curve","nodes":[1,4],"per_s":[10.0,40.0]},"min_nodes":1,"max_nodes":4,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}}],"samples_done":[["a",90.0],["b",90.0]],"losses":[["a",2.6189278907132953],["b",2.6189278907132953]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,2,1],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n1#09a241-1"]},{"$set":["n2#09a241-2","n3#09a241-3"]},{"$set":["n4#09a241-4"]}],"memory":8709371129873690708}','[]',6.11719999596971319988e-05);
INSERT INTO "journal" VALUES(5,1.79535700622097635272e+09,1,'{"$":"Event","at_s":1795357006.2209764,"changes":[{"$":"TrainerFinished","trainer_id":"b"}],"samples_done":[["a",110.0],["c",10.0]],"losses":[["a",2.3241323532840554],["c",4.617528300035218]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,2],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n1#09a241-1","n2#09a241-2"]},{"$set":["n3#09a241-3","n4#09a241-4"]}],"memory":1663341875487337577}','[]',6.60079999761364888399e-05);
INSERT INTO "journal" VALUES(6,1.79535700851090097426e+09,1,'{"$":"Event","at_s":1795357008.510901,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n1#09a241-1"]},"classes":[]}],"samples_done":[["a",150.0],["c",50.0]],"losses":[["a",1.8858071489554438],["c",3.4200242685501454]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,1],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n2#09a241-2","n4#09a241-4"]},{"$set":["n3#09a241-3"]}],"memory":13064056694810536062}','[]',4.36560001162433763965e-05);
INSERT INTO "journal" VALUES(7,1795357012.83709,2,'{"$":"Event","at_s":1795357012.83709,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n2#09a241-2","n3#09a241-3","n4#09a241-4"]},"classes":[]}],"samples_done":[["a",206.0],["c",107.0]],"losses":[["a",1.5045568172078847],["c",2.3646642460561695]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0],"wake_at_s":null,"answer":null},"nodes":[{"$set":[]},{"$set":[]}],"memory":13064056694810536062}','[]',6.99539998549880692735e-05);
INSERT INTO "journal" VALUES(8,1.79535701316431903834e+09,2,'{"$":"Event","at_s":1795357013.164319,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#09a241-13001","n3#09a241-13002","n4#09a241-13003","n5#09a241-13004"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#09a241-13001","n3#09a241-13002","n4#09a241-13003","n5#09a241-13004"]}]]}],"samples_done":[["a",206.0],["c",107.0]],"losses":[["a",1.5045568172078847],["c",2.3646642460561695]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,2],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n1#09a241-13001","n3#09a241-13002"]},{"$set":["n4#09a241-13003","n5#09a241-13004"]}],"memory":6018027440424182931}','[]',5.52029998743819305673e-05);
INSERT INTO "journal" VALUES(9,1.79535701656411576269e+09,2,'{"$":"Event","at_s":1795357016.5641158,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n1#09a241-13001"]},"classes":[]}],"samples_done":[["a",260.0],["c",150.0]],"losses":[["a",1.2932314761755528],["c",1.8858071489554438]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,1],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n3#09a241-13002","n5#09a241-13004"]},{"$set":["n4#09a241-13003"]}],"memory":17418742259747381416}','[]',5.51329999325389508157e-05);
INSERT INTO "journal" VALUES(10,1.79535701661694550509e+09,2,'{"$":"Event","at_s":1795357016.6169455,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n3#09a241-13002","n4#09a241-13003"]},"classes":[]}],"samples_done":[["a",260.0],["c",160.0]],"losses":[["a",1.2932314761755528],["c",1.801108107429957]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,1],"wake_at_s":null,"answer":null},"nodes":[{"$set":[]},{"$set":["n5#09a241-13004"]}],"memory":17418742259747381416}','[]',4.33150000844761962071e-05);
INSERT INTO "journal" VALUES(11,1.79535701672269463538e+09,2,'{"$":"Event","at_s":1795357016.7226946,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n5#09a241-13004"]},"classes":[]}],"samples_done":[["a",260.0],["c",160.0]],"losses":[["a",1.2932314761755528],["c",1.801108107429957]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0],"wake_at_s":null,"answer":null},"nodes":[{"$set":[]},{"$set":[]}],"memory":17418742259747381416}','[]',3.25089999932970385998e-05);
INSERT INTO "journal" VALUES(12,1.79535701713009500498e+09,2,'{"$":"Event","at_s":1795357017.130095,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#09a241-13005","n2#09a241-13006","n3#09a241-13007"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#09a241-13005","n2#09a241-13006","n3#09a241-13007"]}]]}],"samples_done":[["a",260.0],["c",160.0]],"losses":[["a",1.2932314761755528],["c",1.801108107429957]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,2],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n1#09a241-13005"]},{"$set":["n2#09a241-13006","n3#09a241-13007"]}],"memory":10372713005361028285}','[]',5.52330000118672614917e-05);
CREATE TABLE last_state (
  only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
  journal INTEGER NOT NULL,
  state TEXT NOT NULL
);
INSERT INTO "last_state" VALUES(1,12,'{"$":"State","max_parallel":3,"at_s":1795357017.130095,"pool":{"$set":["n1#09a241-13005","n2#09a241-13006","n3#09a241-13007"]},"active":[{"$":"Active","trainer":{"$":"Trainer","id":"a","curve":{"$":"Curve","nodes":[1,2],"per_s":[10.0,20.0]},"min_nodes":1,"max_nodes":2,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null},"nodes":{"$set":["n1#09a241-13005"]},"samples_done":260.0,"admitted_s":1795356999.49757,"run_s":16.439002513885498,"node_s":27.6473126411438,"losses":{"$":"Losses","first":2.979354638400828,"latest":1.2932314761755528,"at_samples":260.0,"per_sample":0.00391343224133948},"submitted":null,"sized_s":1795357017.130095},{"$":"Active","trainer":{"$":"Trainer","id":"c","curve":{"$":"Curve","nodes":[1,4],"per_s":[10.0,40.0]},"min_nodes":1,"max_nodes":4,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null},"nodes":{"$set":["n2#09a241-13006","n3#09a241-13007"]},"samples_done":160.0,"admitted_s":1795357005.1082413,"run_s":11.287224292755127,"node_s":16.976945638656616,"losses":{"$":"Losses","first":4.617528300035218,"latest":1.801108107429957,"at_samples":160.0,"per_sample":0.008469904152548668},"submitted":null,"sized_s":1795357017.130095}],"queue":[],"memory":10372713005361028285,"wake_at_s":null,"classes":[["0 cpus",{"$set":["n1#09a241-13005","n2#09a241-13006","n3#09a241-13007"]}]],"window_ends":[],"lessons":[]}');
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
INSERT INTO "settings" VALUES(1,1.79535699948998045925e+09,'0.1.0','afs-p','exact','throughput',120.0,0,3);
INSERT INTO "settings" VALUES(2,1.79535701280754804616e+09,'0.1.0','afs-p','exact','throughput',120.0,0,3);
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
