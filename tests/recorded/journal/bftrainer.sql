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
INSERT INTO "journal" VALUES(1,1700000000.0,1,'{"$":"Event","at_s":1700000000.0,"changes":[{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"a","curve":{"$":"Curve","nodes":[1,3],"per_s":[20.0,60.0]},"min_nodes":1,"max_nodes":3,"scale_up_s":1.0,"scale_down_s":0.5,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"","requested_nodes":null,"reports_loss":true,"node_class":null,"learning":{"$":"Learning","key":"","blank":false,"share":0.25,"window_s":20.0,"explore_after_s":120.0},"start_s":null,"from_zero_s":null,"fill":false}},{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"b","curve":{"$":"Curve","nodes":[1,3],"per_s":[10.0,30.0]},"min_nodes":1,"max_nodes":3,"scale_up_s":1.0,"scale_down_s":0.5,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"","requested_nodes":null,"reports_loss":true,"node_class":null,"learning":{"$":"Learning","key":"","blank":false,"share":0.25,"window_s":20.0,"explore_after_s":120.0},"start_s":null,"from_zero_s":null,"fill":false}},{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"c","curve":{"$":"Curve","nodes":[1,3],"per_s":[5.0,15.0]},"min_nodes":1,"max_nodes":3,"scale_up_s":1.0,"scale_down_s":0.5,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"","requested_nodes":null,"reports_loss":true,"node_class":null,"learning":{"$":"Learning","key":"","blank":false,"share":0.25,"window_s":20.0,"explore_after_s":120.0},"start_s":null,"from_zero_s":null,"fill":false}}],"samples_done":[],"losses":[],"window_ends":[],"measured":[],"all_joined":false}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0,0],"wake_at_s":null,"answer":{"$":"Answer","counts":[0,0,0],"objective_value":0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]},"kept":"","blamed":[],"nodes":[]},"nodes":[{"$set":[]},{"$set":[]},{"$set":[]}],"memory":null}','[{"$":"Answer","counts":[0,0,0],"objective_value":0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',8.45110999989628908224e-04);
INSERT INTO "journal" VALUES(2,1700000000.4,1,'{"$":"Event","at_s":1700000000.4,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#1","n2#2","n3#3"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#1","n2#2","n3#3"]}]]}],"samples_done":[],"losses":[],"window_ends":[],"measured":[],"all_joined":false}','{"$":"Plan","decision":{"$":"Decision","counts":[3,0,0],"wake_at_s":null,"answer":{"$":"Answer","counts":[3,0,0],"objective_value":7200.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]},"kept":"","blamed":[],"nodes":[]},"nodes":[{"$set":["n1#1","n2#2","n3#3"]},{"$set":[]},{"$set":[]}],"memory":null}','[{"$":"Answer","counts":[3,0,0],"objective_value":7200.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',6.9626799995603505522e-04);
INSERT INTO "journal" VALUES(3,1.70000000643961501119e+09,1,'{"$":"Event","at_s":1700000006.439615,"changes":[{"$":"PoolChanged","joined":{"$set":["n4#4","n5#5","n6#6"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n4#4","n5#5","n6#6"]}]]}],"samples_done":[["a",180.0]],"losses":[["a",0.5263157894736842]],"window_ends":[],"measured":[],"all_joined":false}','{"$":"Plan","decision":{"$":"Decision","counts":[3,3,0],"wake_at_s":null,"answer":{"$":"Answer","counts":[3,3,0],"objective_value":14400.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]},"kept":"","blamed":[],"nodes":[]},"nodes":[{"$set":["n1#1","n2#2","n3#3"]},{"$set":["n4#4","n5#5","n6#6"]},{"$set":[]}],"memory":null}','[{"$":"Answer","counts":[3,3,0],"objective_value":14400.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',7.63044999985140748322e-04);
INSERT INTO "journal" VALUES(4,1.70000001005335688595e+09,1,'{"$":"Event","at_s":1700000010.053357,"changes":[{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"d","curve":{"$":"Curve","nodes":[1,3],"per_s":[8.0,24.0]},"min_nodes":1,"max_nodes":3,"scale_up_s":1.0,"scale_down_s":0.5,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"","requested_nodes":null,"reports_loss":true,"node_class":null,"learning":{"$":"Learning","key":"","blank":false,"share":0.25,"window_s":20.0,"explore_after_s":120.0},"start_s":null,"from_zero_s":null,"fill":false}}],"samples_done":[["a",300.0],["b",120.0]],"losses":[["a",0.3225806451612903],["b",0.7692307692307693]],"window_ends":[],"measured":[],"all_joined":true}','{"$":"Plan","decision":{"$":"Decision","counts":[3,3,0],"wake_at_s":null,"answer":{"$":"Answer","counts":[3,3,0],"objective_value":14400.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]},"kept":"","blamed":[],"nodes":[]},"nodes":[{"$set":["n1#1","n2#2","n3#3"]},{"$set":["n4#4","n5#5","n6#6"]},{"$set":[]}],"memory":null}','[{"$":"Answer","counts":[3,3,0],"objective_value":14400.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',3.06319600008464476559e-03);
INSERT INTO "journal" VALUES(5,1.70000001411002349847e+09,1,'{"$":"Event","at_s":1700000014.1100235,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n2#2"]},"classes":[]}],"samples_done":[["a",420.0],["b",240.0]],"losses":[["a",0.23255813953488372],["b",0.4]],"window_ends":[],"measured":[],"all_joined":true}','{"$":"Plan","decision":{"$":"Decision","counts":[2,3,0],"wake_at_s":null,"answer":{"$":"Answer","counts":[2,3,0],"objective_value":12000.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]},"kept":"","blamed":[],"nodes":[]},"nodes":[{"$set":["n1#1","n3#3"]},{"$set":["n4#4","n5#5","n6#6"]},{"$set":[]}],"memory":null}','[{"$":"Answer","counts":[2,3,0],"objective_value":12000.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',6.06129000061628175899e-04);
INSERT INTO "journal" VALUES(6,1.70000001801990842818e+09,1,'{"$":"Event","at_s":1700000018.0199084,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n3#3"]},"classes":[]}],"samples_done":[["a",500.0],["b",360.0]],"losses":[["a",0.19607843137254902],["b",0.2702702702702703]],"window_ends":[],"measured":[],"all_joined":true}','{"$":"Plan","decision":{"$":"Decision","counts":[1,3,0],"wake_at_s":null,"answer":{"$":"Answer","counts":[1,3,0],"objective_value":9600.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]},"kept":"","blamed":[],"nodes":[]},"nodes":[{"$set":["n1#1"]},{"$set":["n4#4","n5#5","n6#6"]},{"$set":[]}],"memory":null}','[{"$":"Answer","counts":[1,3,0],"objective_value":9600.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',6.08978999935061438009e-04);
INSERT INTO "journal" VALUES(7,1.70000002017950892444e+09,1,'{"$":"Event","at_s":1700000020.179509,"changes":[{"$":"TrainerFinished","trainer_id":"a"}],"samples_done":[["b",420.0]],"losses":[["b",0.23255813953488372]],"window_ends":[],"measured":[],"all_joined":true}','{"$":"Plan","decision":{"$":"Decision","counts":[3,1,0],"wake_at_s":null,"answer":{"$":"Answer","counts":[3,1,0],"objective_value":4800.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]},"kept":"","blamed":[],"nodes":[]},"nodes":[{"$set":["n4#4","n5#5","n6#6"]},{"$set":["n1#1"]},{"$set":[]}],"memory":null}','[{"$":"Answer","counts":[3,1,0],"objective_value":4800.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',6.62776000126541475765e-04);
INSERT INTO "journal" VALUES(8,1.70000002494970560073e+09,2,'{"$":"Event","at_s":1700000024.9497056,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n1#1","n4#4","n5#5","n6#6"]},"classes":[]},{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"e","curve":{"$":"Curve","nodes":[1,3],"per_s":[4.0,12.0]},"min_nodes":1,"max_nodes":3,"scale_up_s":1.0,"scale_down_s":0.5,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"","requested_nodes":null,"reports_loss":true,"node_class":null,"learning":{"$":"Learning","key":"","blank":false,"share":0.25,"window_s":20.0,"explore_after_s":120.0},"start_s":null,"from_zero_s":null,"fill":false}}],"samples_done":[["b",540.0],["c",40.0]],"losses":[["b",0.18181818181818182],["c",2.0]],"window_ends":[],"measured":[],"all_joined":false}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0,0],"wake_at_s":null,"answer":{"$":"Answer","counts":[0,0,0],"objective_value":0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]},"kept":"","blamed":[],"nodes":[]},"nodes":[{"$set":[]},{"$set":[]},{"$set":[]}],"memory":null}','[{"$":"Answer","counts":[0,0,0],"objective_value":0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',5.32757999962996109388e-04);
INSERT INTO "journal" VALUES(9,1.70000002534970569615e+09,2,'{"$":"Event","at_s":1700000025.3497057,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#7","n4#8","n5#9","n6#10"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#7","n4#8","n5#9","n6#10"]}]]}],"samples_done":[["b",540.0],["c",40.0]],"losses":[["b",0.18181818181818182],["c",2.0]],"window_ends":[],"measured":[],"all_joined":false}','{"$":"Plan","decision":{"$":"Decision","counts":[3,1,0],"wake_at_s":null,"answer":{"$":"Answer","counts":[3,1,0],"objective_value":4800.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]},"kept":"","blamed":[],"nodes":[]},"nodes":[{"$set":["n1#7","n4#8","n5#9"]},{"$set":["n6#10"]},{"$set":[]}],"memory":null}','[{"$":"Answer","counts":[3,1,0],"objective_value":4800.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',7.07116000057794735766e-04);
INSERT INTO "journal" VALUES(10,1.70000002940607881549e+09,2,'{"$":"Event","at_s":1700000029.4060788,"changes":[{"$":"PoolChanged","joined":{"$set":["n2#11"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n2#11"]}]]}],"samples_done":[["b",660.0],["c",80.0]],"losses":[["b",0.14925373134328357],["c",1.1111111111111112]],"window_ends":[],"measured":[],"all_joined":false}','{"$":"Plan","decision":{"$":"Decision","counts":[3,1,1],"wake_at_s":null,"answer":{"$":"Answer","counts":[3,1,1],"objective_value":6000.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]},"kept":"","blamed":[],"nodes":[]},"nodes":[{"$set":["n1#7","n4#8","n5#9"]},{"$set":["n6#10"]},{"$set":["n2#11"]}],"memory":null}','[{"$":"Answer","counts":[3,1,1],"objective_value":6000.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',0.00064064900016092);
INSERT INTO "journal" VALUES(11,1.70000003198932075499e+09,2,'{"$":"Event","at_s":1700000031.9893208,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n5#9"]},"classes":[]}],"samples_done":[["b",720.0],["c",100.0],["d",20.0]],"losses":[["b",0.136986301369863],["c",0.9090909090909091],["d",3.3333333333333335]],"window_ends":[],"measured":[],"all_joined":true}','{"$":"Plan","decision":{"$":"Decision","counts":[2,1,1],"wake_at_s":null,"answer":{"$":"Answer","counts":[2,1,1],"objective_value":4800.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]},"kept":"","blamed":[],"nodes":[]},"nodes":[{"$set":["n1#7","n4#8"]},{"$set":["n6#10"]},{"$set":["n2#11"]}],"memory":null}','[{"$":"Answer","counts":[2,1,1],"objective_value":4800.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',8.9632200001688033808e-04);
INSERT INTO "journal" VALUES(12,1.70000003400206232072e+09,2,'{"$":"Event","at_s":1700000034.0020623,"changes":[{"$":"TrainerFinished","trainer_id":"b"}],"samples_done":[["c",130.0],["d",50.0]],"losses":[["c",0.7142857142857143],["d",1.6666666666666667]],"window_ends":[],"measured":[],"all_joined":true}','{"$":"Plan","decision":{"$":"Decision","counts":[1,1,2],"wake_at_s":null,"answer":{"$":"Answer","counts":[1,1,2],"objective_value":3840.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]},"kept":"","blamed":[],"nodes":[]},"nodes":[{"$set":["n6#10"]},{"$set":["n2#11"]},{"$set":["n1#7","n4#8"]}],"memory":null}','[{"$":"Answer","counts":[1,1,2],"objective_value":3840.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',2.39497999996274302247e-03);
CREATE TABLE last_state (
  only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
  journal INTEGER NOT NULL,
  state TEXT NOT NULL
);
INSERT INTO "last_state" VALUES(1,12,'{"$":"State","max_parallel":3,"at_s":1700000034.0020623,"pool":{"$set":["n1#7","n2#11","n4#8","n6#10"]},"active":[{"$":"Active","trainer":{"$":"Trainer","id":"c","curve":{"$":"Curve","nodes":[1,3],"per_s":[5.0,15.0]},"min_nodes":1,"max_nodes":3,"scale_up_s":1.0,"scale_down_s":0.5,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"","requested_nodes":null,"reports_loss":true,"node_class":null,"learning":{"$":"Learning","key":"","blank":false,"share":0.25,"window_s":20.0,"explore_after_s":120.0},"start_s":null,"from_zero_s":null,"fill":false},"nodes":{"$set":["n6#10"]},"samples_done":130.0,"admitted_s":1700000000.0,"run_s":13.422553300857544,"node_s":13.422553300857544,"losses":{"$":"Losses","first":2.0,"latest":0.7142857142857143,"at_samples":130.0,"per_sample":0.006493506493506492},"submitted":{"$":"Trainer","id":"c","curve":{"$":"Curve","nodes":[1,3],"per_s":[5.0,15.0]},"min_nodes":1,"max_nodes":3,"scale_up_s":1.0,"scale_down_s":0.5,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"","requested_nodes":null,"reports_loss":true,"node_class":null,"learning":{"$":"Learning","key":"","blank":false,"share":0.25,"window_s":20.0,"explore_after_s":120.0},"start_s":null,"from_zero_s":null,"fill":false},"sized_s":1700000025.3497057,"rescaling":null},{"$":"Active","trainer":{"$":"Trainer","id":"d","curve":{"$":"Curve","nodes":[1,3],"per_s":[8.0,24.0]},"min_nodes":1,"max_nodes":3,"scale_up_s":1.0,"scale_down_s":0.5,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"","requested_nodes":null,"reports_loss":true,"node_class":null,"learning":{"$":"Learning","key":"","blank":false,"share":0.25,"window_s":20.0,"explore_after_s":120.0},"start_s":null,"from_zero_s":null,"fill":false},"nodes":{"$set":["n2#11"]},"samples_done":50.0,"admitted_s":1700000020.179509,"run_s":4.595983505249023,"node_s":4.595983505249023,"losses":{"$":"Losses","first":3.3333333333333335,"latest":1.6666666666666667,"at_samples":50.0,"per_sample":0.05555555555555556},"submitted":{"$":"Trainer","id":"d","curve":{"$":"Curve","nodes":[1,3],"per_s":[8.0,24.0]},"min_nodes":1,"max_nodes":3,"scale_up_s":1.0,"scale_down_s":0.5,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"","requested_nodes":null,"reports_loss":true,"node_class":null,"learning":{"$":"Learning","key":"","blank":false,"share":0.25,"window_s":20.0,"explore_after_s":120.0},"start_s":null,"from_zero_s":null,"fill":false},"sized_s":1700000029.4060788,"rescaling":null},{"$":"Active","trainer":{"$":"Trainer","id":"e","curve":{"$":"Curve","nodes":[1,3],"per_s":[4.0,12.0]},"min_nodes":1,"max_nodes":3,"scale_up_s":1.0,"scale_down_s":0.5,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"","requested_nodes":null,"reports_loss":true,"node_class":null,"learning":{"$":"Learning","key":"","blank":false,"share":0.25,"window_s":20.0,"explore_after_s":120.0},"start_s":null,"from_zero_s":null,"fill":false},"nodes":{"$set":["n1#7","n4#8"]},"samples_done":0.0,"admitted_s":1700000034.0020623,"run_s":0.0,"node_s":0.0,"losses":null,"submitted":{"$":"Trainer","id":"e","curve":{"$":"Curve","nodes":[1,3],"per_s":[4.0,12.0]},"min_nodes":1,"max_nodes":3,"scale_up_s":1.0,"scale_down_s":0.5,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"","requested_nodes":null,"reports_loss":true,"node_class":null,"learning":{"$":"Learning","key":"","blank":false,"share":0.25,"window_s":20.0,"explore_after_s":120.0},"start_s":null,"from_zero_s":null,"fill":false},"sized_s":1700000034.0020623,"rescaling":{"$":"Rescaling","training":{"$set":[]},"stalled_until_s":1700000035.0020623,"ready_s":1700000035.0020623,"switch_s":null}}],"queue":[],"memory":null,"wake_at_s":1700000051.5997057,"classes":[["0 cpus",{"$set":["n1#7","n2#11","n4#8","n6#10"]}]],"window_ends":[],"measurements":[],"kept":"","blamed":[],"grain":{"$enum":"Grain","name":"NODE"}}');
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
  format INTEGER NOT NULL,
  written_by TEXT NOT NULL
);
INSERT INTO "meta" VALUES(1,1,'0.1.0');
CREATE TABLE metrics (
  trainer TEXT NOT NULL,
  name TEXT NOT NULL,
  last REAL NOT NULL,
  least REAL NOT NULL,
  least_samples REAL NOT NULL,
  most REAL NOT NULL,
  most_samples REAL NOT NULL,
  PRIMARY KEY (trainer, name)
) WITHOUT ROWID;
CREATE TABLE notes (
  number INTEGER PRIMARY KEY,
  at_s REAL NOT NULL,
  kind TEXT NOT NULL,
  subject TEXT NOT NULL,
  text TEXT NOT NULL
);
CREATE TABLE rungs (
  of_group TEXT NOT NULL,
  rule TEXT NOT NULL,
  samples REAL NOT NULL,
  trainer TEXT NOT NULL,
  value REAL NOT NULL,
  PRIMARY KEY (of_group, rule, samples, trainer)
) WITHOUT ROWID;
CREATE TABLE settings (
  number INTEGER PRIMARY KEY,
  at_s REAL NOT NULL,
  version TEXT NOT NULL,
  policy TEXT NOT NULL,
  solver TEXT NOT NULL,
  objective TEXT NOT NULL,
  forward_s REAL NOT NULL,
  seed INTEGER NOT NULL,
  max_parallel INTEGER,  -- NULL: all trainers are admitted
  gather_s REAL NOT NULL
);
INSERT INTO "settings" VALUES(1,1700000000.0,'0.1.0','bftrainer','exact','relative-speed',120.0,0,3,0.0);
INSERT INTO "settings" VALUES(2,1.70000002494970560073e+09,'0.1.0','bftrainer','exact','relative-speed',120.0,0,3,0.0);
CREATE TABLE stages (
  fragment TEXT NOT NULL,
  stage TEXT NOT NULL,
  at_s REAL NOT NULL,
  trainer TEXT NOT NULL,
  PRIMARY KEY (fragment, stage)
) WITHOUT ROWID;
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
  failures INTEGER NOT NULL DEFAULT 0,  -- consecutive, without progress
  samples_at_failure REAL,  -- progress means more samples than this; NULL: no failure yet
  not_before_s REAL NOT NULL DEFAULT 0,
  ended_incarnation INTEGER NOT NULL DEFAULT 0,  -- the last one whose end has been handled
  held_node_s REAL NOT NULL DEFAULT 0,
  trained_node_s REAL NOT NULL DEFAULT 0,
  stalled_node_s REAL NOT NULL DEFAULT 0,
  repeated_samples REAL NOT NULL DEFAULT 0,  -- processed again after restarts
  reported_total REAL  -- samples of the whole training, as its script reports them; NULL: it reports none
);
CREATE TABLE unfit (
  trainer TEXT NOT NULL,
  least_nodes INTEGER NOT NULL,
  most_nodes INTEGER NOT NULL,
  PRIMARY KEY (trainer, least_nodes, most_nodes)
) WITHOUT ROWID;
CREATE INDEX fragments_open ON fragments (released_s) WHERE released_s IS NULL;
COMMIT;
