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
INSERT INTO "journal" VALUES(1,1.79535740419358730312e+09,1,'{"$":"Event","at_s":1795357404.1935873,"changes":[{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"a","curve":{"$":"Curve","nodes":[1,2],"per_s":[10.0,20.0]},"min_nodes":1,"max_nodes":2,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}},{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"b","curve":{"$":"Curve","nodes":[1,3],"per_s":[10.0,30.0]},"min_nodes":1,"max_nodes":3,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}}],"samples_done":[],"losses":[],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0],"wake_at_s":null,"answer":{"$":"Answer","counts":[0,0],"objective_value":0.0,"solver":"highs","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":[]},{"$set":[]}],"memory":null}','[{"$":"Answer","counts":[0,0],"objective_value":0.0,"solver":"highs","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',3.27708999975584447383e-04);
INSERT INTO "journal" VALUES(2,1.79535740469255876536e+09,1,'{"$":"Event","at_s":1795357404.6925588,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#c5f82b-1","n2#c5f82b-2","n3#c5f82b-3"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#c5f82b-1","n2#c5f82b-2","n3#c5f82b-3"]}]]}],"samples_done":[],"losses":[],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,3],"wake_at_s":null,"answer":{"$":"Answer","counts":[0,3],"objective_value":3600.0,"solver":"highs","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":[]},{"$set":["n1#c5f82b-1","n2#c5f82b-2","n3#c5f82b-3"]}],"memory":null}','[{"$":"Answer","counts":[0,3],"objective_value":3600.0,"solver":"highs","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',1.05413796999982878332e-01);
INSERT INTO "journal" VALUES(3,1.79535740847806286812e+09,1,'{"$":"Event","at_s":1795357408.4780629,"changes":[{"$":"PoolChanged","joined":{"$set":["n4#c5f82b-4"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n4#c5f82b-4"]}]]}],"samples_done":[["b",60.0]],"losses":[["b",3.188626569563045]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,3],"wake_at_s":null,"answer":{"$":"Answer","counts":[1,3],"objective_value":4800.0,"solver":"highs","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":["n4#c5f82b-4"]},{"$set":["n1#c5f82b-1","n2#c5f82b-2","n3#c5f82b-3"]}],"memory":null}','[{"$":"Answer","counts":[1,3],"objective_value":4800.0,"solver":"highs","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',5.58962700006304658018e-03);
INSERT INTO "journal" VALUES(4,1.79535740885846638683e+09,1,'{"$":"Event","at_s":1795357408.8584664,"changes":[{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"c","curve":{"$":"Curve","nodes":[1,4],"per_s":[10.0,40.0]},"min_nodes":1,"max_nodes":4,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}}],"samples_done":[["b",61.0]],"losses":[["b",3.1667403038674142]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,3,0],"wake_at_s":null,"answer":{"$":"Answer","counts":[1,3,0],"objective_value":4800.0,"solver":"highs","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":["n4#c5f82b-4"]},{"$set":["n1#c5f82b-1","n2#c5f82b-2","n3#c5f82b-3"]},{"$set":[]}],"memory":null}','[{"$":"Answer","counts":[1,3,0],"objective_value":4800.0,"solver":"highs","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',5.20728960000269580632e-02);
INSERT INTO "journal" VALUES(5,1.79535741180793166158e+09,1,'{"$":"Event","at_s":1795357411.8079317,"changes":[{"$":"TrainerFinished","trainer_id":"b"}],"samples_done":[["a",50.0]],"losses":[["a",3.4200242685501454]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,3],"wake_at_s":null,"answer":{"$":"Answer","counts":[1,3],"objective_value":4800.0,"solver":"highs","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":["n4#c5f82b-4"]},{"$set":["n1#c5f82b-1","n2#c5f82b-2","n3#c5f82b-3"]}],"memory":null}','[{"$":"Answer","counts":[1,3],"objective_value":4800.0,"solver":"highs","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',1.81700410003031720407e-02);
INSERT INTO "journal" VALUES(6,1.79535741308083748816e+09,1,'{"$":"Event","at_s":1795357413.0808375,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n1#c5f82b-1"]},"classes":[]}],"samples_done":[["a",70.0],["c",10.0]],"losses":[["a",2.979354638400828],["c",4.617528300035218]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,2],"wake_at_s":null,"answer":{"$":"Answer","counts":[1,2],"objective_value":3600.0,"solver":"highs","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":["n4#c5f82b-4"]},{"$set":["n2#c5f82b-2","n3#c5f82b-3"]}],"memory":null}','[{"$":"Answer","counts":[1,2],"objective_value":3600.0,"solver":"highs","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',1.84088860000883869361e-02);
INSERT INTO "journal" VALUES(7,1.79535741625925564764e+09,2,'{"$":"Event","at_s":1795357416.2592556,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n2#c5f82b-2","n3#c5f82b-3","n4#c5f82b-4"]},"classes":[]}],"samples_done":[["a",117.0],["c",43.0]],"losses":[["a",2.2341778825386043],["c",3.5964105134736086]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0],"wake_at_s":null,"answer":{"$":"Answer","counts":[0,0],"objective_value":0.0,"solver":"highs","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":[]},{"$set":[]}],"memory":null}','[{"$":"Answer","counts":[0,0],"objective_value":0.0,"solver":"highs","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',3.12176000079489313066e-04);
INSERT INTO "journal" VALUES(8,1.79535741662964558598e+09,2,'{"$":"Event","at_s":1795357416.6296456,"changes":[{"$":"PoolChanged","joined":{"$set":["n2#c5f82b-12001","n3#c5f82b-12002","n4#c5f82b-12003"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n2#c5f82b-12001","n3#c5f82b-12002","n4#c5f82b-12003"]}]]}],"samples_done":[["a",117.0],["c",43.0]],"losses":[["a",2.2341778825386043],["c",3.5964105134736086]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,3],"wake_at_s":null,"answer":{"$":"Answer","counts":[0,3],"objective_value":3600.0,"solver":"highs","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":[]},{"$set":["n2#c5f82b-12001","n3#c5f82b-12002","n4#c5f82b-12003"]}],"memory":null}','[{"$":"Answer","counts":[0,3],"objective_value":3600.0,"solver":"highs","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',3.22110429997337632812e-02);
INSERT INTO "journal" VALUES(9,1.79535741703139948839e+09,2,'{"$":"Event","at_s":1795357417.0313995,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n2#c5f82b-12001"]},"classes":[]}],"samples_done":[["a",117.0],["c",43.0]],"losses":[["a",2.2341778825386043],["c",3.5964105134736086]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,2],"wake_at_s":null,"answer":{"$":"Answer","counts":[0,2],"objective_value":2400.0,"solver":"highs","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":[]},{"$set":["n3#c5f82b-12002","n4#c5f82b-12003"]}],"memory":null}','[{"$":"Answer","counts":[0,2],"objective_value":2400.0,"solver":"highs","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',6.86422799981301068328e-03);
INSERT INTO "journal" VALUES(10,1.79535741728088760376e+09,2,'{"$":"Event","at_s":1795357417.2808876,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#c5f82b-12004","n5#c5f82b-12005"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#c5f82b-12004","n5#c5f82b-12005"]}]]}],"samples_done":[["a",117.0],["c",43.0]],"losses":[["a",2.2341778825386043],["c",3.5964105134736086]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,2],"wake_at_s":null,"answer":{"$":"Answer","counts":[2,2],"objective_value":4800.0,"solver":"highs","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":["n1#c5f82b-12004","n5#c5f82b-12005"]},{"$set":["n3#c5f82b-12002","n4#c5f82b-12003"]}],"memory":null}','[{"$":"Answer","counts":[2,2],"objective_value":4800.0,"solver":"highs","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',1.26949039999999513383e-02);
INSERT INTO "journal" VALUES(11,1.7953574210480697155e+09,2,'{"$":"Event","at_s":1795357421.0480697,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n1#c5f82b-12004"]},"classes":[]}],"samples_done":[["a",180.0],["c",110.0]],"losses":[["a",1.6552318788323497],["c",2.3241323532840554]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,2],"wake_at_s":null,"answer":{"$":"Answer","counts":[1,2],"objective_value":3600.0,"solver":"highs","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":["n5#c5f82b-12005"]},{"$set":["n3#c5f82b-12002","n4#c5f82b-12003"]}],"memory":null}','[{"$":"Answer","counts":[1,2],"objective_value":3600.0,"solver":"highs","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',1.80767719998584652785e-02);
INSERT INTO "journal" VALUES(12,1.79535742123614859575e+09,2,'{"$":"Event","at_s":1795357421.2361486,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n3#c5f82b-12002","n4#c5f82b-12003","n5#c5f82b-12005"]},"classes":[]}],"samples_done":[["a",180.0],["c",110.0]],"losses":[["a",1.6552318788323497],["c",2.3241323532840554]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0],"wake_at_s":null,"answer":{"$":"Answer","counts":[0,0],"objective_value":0.0,"solver":"highs","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":[]},{"$set":[]}],"memory":null}','[{"$":"Answer","counts":[0,0],"objective_value":0.0,"solver":"highs","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',2.51966000178072135895e-04);
INSERT INTO "journal" VALUES(13,1.7953574214502315521e+09,2,'{"$":"Event","at_s":1795357421.4502316,"changes":[{"$":"PoolChanged","joined":{"$set":["n2#c5f82b-12006"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n2#c5f82b-12006"]}]]}],"samples_done":[["a",180.0],["c",110.0]],"losses":[["a",1.6552318788323497],["c",2.3241323532840554]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,0],"wake_at_s":null,"answer":{"$":"Answer","counts":[1,0],"objective_value":1200.0,"solver":"highs","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":["n2#c5f82b-12006"]},{"$set":[]}],"memory":null}','[{"$":"Answer","counts":[1,0],"objective_value":1200.0,"solver":"highs","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',9.84257999789406312629e-04);
INSERT INTO "journal" VALUES(14,1.79535742171992659561e+09,2,'{"$":"Event","at_s":1795357421.7199266,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#c5f82b-12007","n3#c5f82b-12008"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#c5f82b-12007","n3#c5f82b-12008"]}]]}],"samples_done":[["a",181.0],["c",110.0]],"losses":[["a",1.6486795600440263],["c",2.3241323532840554]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,2],"wake_at_s":null,"answer":{"$":"Answer","counts":[1,2],"objective_value":3600.0,"solver":"highs","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":["n2#c5f82b-12006"]},{"$set":["n1#c5f82b-12007","n3#c5f82b-12008"]}],"memory":null}','[{"$":"Answer","counts":[1,2],"objective_value":3600.0,"solver":"highs","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',1.36840289997053332626e-02);
CREATE TABLE last_state (
  only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
  journal INTEGER NOT NULL,
  state TEXT NOT NULL
);
INSERT INTO "last_state" VALUES(1,14,'{"$":"State","max_parallel":3,"at_s":1795357421.7199266,"pool":{"$set":["n1#c5f82b-12007","n2#c5f82b-12006","n3#c5f82b-12008"]},"active":[{"$":"Active","trainer":{"$":"Trainer","id":"a","curve":{"$":"Curve","nodes":[1,2],"per_s":[10.0,20.0]},"min_nodes":1,"max_nodes":2,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null},"nodes":{"$set":["n2#c5f82b-12006"]},"samples_done":181.0,"admitted_s":1795357404.1935873,"run_s":12.00614881515503,"node_s":15.773330926895142,"losses":{"$":"Losses","first":3.4200242685501454,"latest":1.6486795600440263,"at_samples":181.0,"per_sample":0.006552318788323408},"submitted":null,"sized_s":1795357421.4502316},{"$":"Active","trainer":{"$":"Trainer","id":"c","curve":{"$":"Curve","nodes":[1,4],"per_s":[10.0,40.0]},"min_nodes":1,"max_nodes":4,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null},"nodes":{"$set":["n1#c5f82b-12007","n3#c5f82b-12008"]},"samples_done":110.0,"admitted_s":1795357408.8584664,"run_s":9.05782699584961,"node_s":19.790313720703125,"losses":{"$":"Losses","first":4.617528300035218,"latest":2.3241323532840554,"at_samples":110.0,"per_sample":0.01898922627148587},"submitted":null,"sized_s":1795357421.7199266}],"queue":[],"memory":null,"wake_at_s":null,"classes":[["0 cpus",{"$set":["n1#c5f82b-12007","n2#c5f82b-12006","n3#c5f82b-12008"]}]],"window_ends":[],"lessons":[]}');
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
INSERT INTO "settings" VALUES(1,1.7953574040396916866e+09,'0.1.0','bftrainer','highs','throughput',120.0,0,3);
INSERT INTO "settings" VALUES(2,1.79535741624513840676e+09,'0.1.0','bftrainer','highs','throughput',120.0,0,3);
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
