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
INSERT INTO "journal" VALUES(1,1700000000.0,1,'{"$":"Event","at_s":1700000000.0,"changes":[{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"a","curve":{"$":"Curve","nodes":[1,3],"per_s":[20.0,60.0]},"min_nodes":1,"max_nodes":3,"scale_up_s":1.0,"scale_down_s":0.5,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"","requested_nodes":null,"reports_loss":true,"node_class":null,"learning":{"$":"Learning","key":"","blank":false,"share":0.25,"window_s":20.0,"explore_after_s":120.0},"start_s":null,"from_zero_s":null,"fill":false}},{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"b","curve":{"$":"Curve","nodes":[1,3],"per_s":[10.0,30.0]},"min_nodes":1,"max_nodes":3,"scale_up_s":1.0,"scale_down_s":0.5,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"","requested_nodes":null,"reports_loss":true,"node_class":null,"learning":{"$":"Learning","key":"","blank":false,"share":0.25,"window_s":20.0,"explore_after_s":120.0},"start_s":null,"from_zero_s":null,"fill":false}},{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"c","curve":{"$":"Curve","nodes":[1,3],"per_s":[5.0,15.0]},"min_nodes":1,"max_nodes":3,"scale_up_s":1.0,"scale_down_s":0.5,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"","requested_nodes":null,"reports_loss":true,"node_class":null,"learning":{"$":"Learning","key":"","blank":false,"share":0.25,"window_s":20.0,"explore_after_s":120.0},"start_s":null,"from_zero_s":null,"fill":false}}],"samples_done":[],"losses":[],"window_ends":[],"measured":[],"all_joined":false}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0,0],"wake_at_s":null,"answer":null,"kept":"","blamed":[],"nodes":[]},"nodes":[{"$set":[]},{"$set":[]},{"$set":[]}],"memory":{"$":"Cohorts","joined":[]}}','[]',1.89280999848051578737e-04);
INSERT INTO "journal" VALUES(2,1700000000.4,1,'{"$":"Event","at_s":1700000000.4,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#1","n2#2","n3#3"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#1","n2#2","n3#3"]}]]}],"samples_done":[],"losses":[],"window_ends":[],"measured":[],"all_joined":false}','{"$":"Plan","decision":{"$":"Decision","counts":[1,1,1],"wake_at_s":null,"answer":null,"kept":"","blamed":[],"nodes":[["a",{"$set":["n1#1"]}],["b",{"$set":["n2#2"]}],["c",{"$set":["n3#3"]}]]},"nodes":[{"$set":["n1#1"]},{"$set":["n2#2"]},{"$set":["n3#3"]}],"memory":{"$":"Cohorts","joined":[[1700000000.4,{"$set":["n1#1","n2#2","n3#3"]}]]}}','[]',1.0022900000876688864e-03);
INSERT INTO "journal" VALUES(3,1.70000000643961501119e+09,1,'{"$":"Event","at_s":1700000006.439615,"changes":[{"$":"PoolChanged","joined":{"$set":["n4#4","n5#5","n6#6"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n4#4","n5#5","n6#6"]}]]}],"samples_done":[["a",60.0],["b",60.0],["c",60.0]],"losses":[["a",1.4285714285714286],["b",1.4285714285714286],["c",1.4285714285714286]],"window_ends":[],"measured":[],"all_joined":false}','{"$":"Plan","decision":{"$":"Decision","counts":[1,1,1],"wake_at_s":1700000007.439615,"answer":null,"kept":"","blamed":[],"nodes":[]},"nodes":[{"$set":["n1#1"]},{"$set":["n2#2"]},{"$set":["n3#3"]}],"memory":{"$":"GatheringArrivals","until_s":1700000007.439615,"inner":{"$":"Cohorts","joined":[[1700000000.4,{"$set":["n1#1","n2#2","n3#3"]}]]}}}','[]',1.13378800006103119812e-03);
INSERT INTO "journal" VALUES(4,1.7000000070396151543e+09,1,'{"$":"Event","at_s":1700000007.0396152,"changes":[{"$":"TimerDue"}],"samples_done":[["a",70.0],["b",70.0],["c",70.0]],"losses":[["a",1.25],["b",1.25],["c",1.25]],"window_ends":[],"measured":[],"all_joined":true}','{"$":"Plan","decision":{"$":"Decision","counts":[1,2,3],"wake_at_s":null,"answer":null,"kept":"","blamed":[],"nodes":[["b",{"$set":["n2#2","n4#4"]}],["c",{"$set":["n3#3","n5#5","n6#6"]}]]},"nodes":[{"$set":["n1#1"]},{"$set":["n2#2","n4#4"]},{"$set":["n3#3","n5#5","n6#6"]}],"memory":{"$":"Cohorts","joined":[[1700000000.4,{"$set":["n1#1","n2#2","n3#3"]}],[1700000007.0396152,{"$set":["n4#4","n5#5","n6#6"]}]]}}','[]',1.35576800016679044347e-03);
INSERT INTO "journal" VALUES(5,1.70000001005335688595e+09,1,'{"$":"Event","at_s":1700000010.053357,"changes":[{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"d","curve":{"$":"Curve","nodes":[1,3],"per_s":[8.0,24.0]},"min_nodes":1,"max_nodes":3,"scale_up_s":1.0,"scale_down_s":0.5,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"","requested_nodes":null,"reports_loss":true,"node_class":null,"learning":{"$":"Learning","key":"","blank":false,"share":0.25,"window_s":20.0,"explore_after_s":120.0},"start_s":null,"from_zero_s":null,"fill":false}}],"samples_done":[["a",100.0],["b",130.0],["c",160.0]],"losses":[["a",0.9090909090909091],["b",0.7142857142857143],["c",0.5882352941176471]],"window_ends":[],"measured":[],"all_joined":true}','{"$":"Plan","decision":{"$":"Decision","counts":[1,2,3,0],"wake_at_s":null,"answer":null,"kept":"","blamed":[],"nodes":[]},"nodes":[{"$set":["n1#1"]},{"$set":["n2#2","n4#4"]},{"$set":["n3#3","n5#5","n6#6"]},{"$set":[]}],"memory":{"$":"Cohorts","joined":[[1700000000.4,{"$set":["n1#1","n2#2","n3#3"]}],[1700000007.0396152,{"$set":["n4#4","n5#5","n6#6"]}]]}}','[]',1.13368000029367976821e-04);
INSERT INTO "journal" VALUES(6,1.70000001411002349847e+09,1,'{"$":"Event","at_s":1700000014.1100235,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n2#2"]},"classes":[]}],"samples_done":[["a",140.0],["b",210.0],["c",280.0]],"losses":[["a",0.6666666666666666],["b",0.45454545454545453],["c",0.3448275862068966]],"window_ends":[],"measured":[],"all_joined":true}','{"$":"Plan","decision":{"$":"Decision","counts":[1,1,3,0],"wake_at_s":null,"answer":null,"kept":"","blamed":[],"nodes":[]},"nodes":[{"$set":["n1#1"]},{"$set":["n4#4"]},{"$set":["n3#3","n5#5","n6#6"]},{"$set":[]}],"memory":{"$":"Cohorts","joined":[[1700000000.4,{"$set":["n1#1","n3#3"]}],[1700000007.0396152,{"$set":["n4#4","n5#5","n6#6"]}]]}}','[]',1.46722999943449394777e-04);
INSERT INTO "journal" VALUES(7,1.70000001801990842818e+09,1,'{"$":"Event","at_s":1700000018.0199084,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n3#3"]},"classes":[]}],"samples_done":[["a",180.0],["b",250.0],["c",400.0]],"losses":[["a",0.5263157894736842],["b",0.38461538461538464],["c",0.24390243902439024]],"window_ends":[],"measured":[],"all_joined":true}','{"$":"Plan","decision":{"$":"Decision","counts":[1,1,2,0],"wake_at_s":null,"answer":null,"kept":"","blamed":[],"nodes":[]},"nodes":[{"$set":["n1#1"]},{"$set":["n4#4"]},{"$set":["n5#5","n6#6"]},{"$set":[]}],"memory":{"$":"Cohorts","joined":[[1700000000.4,{"$set":["n1#1"]}],[1700000007.0396152,{"$set":["n4#4","n5#5","n6#6"]}]]}}','[]',1.93932999991375254467e-04);
INSERT INTO "journal" VALUES(8,1.70000002017950892444e+09,1,'{"$":"Event","at_s":1700000020.179509,"changes":[{"$":"TrainerFinished","trainer_id":"a"}],"samples_done":[["b",270.0],["c",440.0]],"losses":[["b",0.35714285714285715],["c",0.2222222222222222]],"window_ends":[],"measured":[],"all_joined":true}','{"$":"Plan","decision":{"$":"Decision","counts":[1,2,1],"wake_at_s":null,"answer":null,"kept":"","blamed":[],"nodes":[["d",{"$set":["n1#1"]}]]},"nodes":[{"$set":["n4#4"]},{"$set":["n5#5","n6#6"]},{"$set":["n1#1"]}],"memory":{"$":"Cohorts","joined":[[1700000000.4,{"$set":["n1#1"]}],[1700000007.0396152,{"$set":["n4#4","n5#5","n6#6"]}]]}}','[]',8.43980999889026861637e-04);
INSERT INTO "journal" VALUES(9,1.70000002494970560073e+09,2,'{"$":"Event","at_s":1700000024.9497056,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n1#1","n4#4","n5#5","n6#6"]},"classes":[]},{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"e","curve":{"$":"Curve","nodes":[1,3],"per_s":[4.0,12.0]},"min_nodes":1,"max_nodes":3,"scale_up_s":1.0,"scale_down_s":0.5,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"","requested_nodes":null,"reports_loss":true,"node_class":null,"learning":{"$":"Learning","key":"","blank":false,"share":0.25,"window_s":20.0,"explore_after_s":120.0},"start_s":null,"from_zero_s":null,"fill":false}}],"samples_done":[["b",310.0],["c",520.0],["d",40.0]],"losses":[["b",0.3125],["c",0.18867924528301888],["d",2.0]],"window_ends":[],"measured":[],"all_joined":false}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0,0,0],"wake_at_s":null,"answer":null,"kept":"","blamed":[],"nodes":[]},"nodes":[{"$set":[]},{"$set":[]},{"$set":[]},{"$set":[]}],"memory":{"$":"Cohorts","joined":[]}}','[]',1.39445000058913137763e-04);
INSERT INTO "journal" VALUES(10,1.70000002534970569615e+09,2,'{"$":"Event","at_s":1700000025.3497057,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#7","n4#8","n5#9","n6#10"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#7","n4#8","n5#9","n6#10"]}]]}],"samples_done":[["b",310.0],["c",520.0],["d",40.0]],"losses":[["b",0.3125],["c",0.18867924528301888],["d",2.0]],"window_ends":[],"measured":[],"all_joined":false}','{"$":"Plan","decision":{"$":"Decision","counts":[1,1,1,1],"wake_at_s":null,"answer":null,"kept":"","blamed":[],"nodes":[["b",{"$set":["n1#7"]}],["c",{"$set":["n4#8"]}],["d",{"$set":["n5#9"]}],["e",{"$set":["n6#10"]}]]},"nodes":[{"$set":["n1#7"]},{"$set":["n4#8"]},{"$set":["n5#9"]},{"$set":["n6#10"]}],"memory":{"$":"Cohorts","joined":[[1700000025.3497057,{"$set":["n1#7","n4#8","n5#9","n6#10"]}]]}}','[]',9.07596999923043767921e-04);
INSERT INTO "journal" VALUES(11,1.70000002940607881549e+09,2,'{"$":"Event","at_s":1700000029.4060788,"changes":[{"$":"PoolChanged","joined":{"$set":["n2#11"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n2#11"]}]]}],"samples_done":[["b",350.0],["c",560.0],["d",80.0],["e",40.0]],"losses":[["b",0.2777777777777778],["c",0.17543859649122806],["d",1.1111111111111112],["e",2.0]],"window_ends":[],"measured":[],"all_joined":false}','{"$":"Plan","decision":{"$":"Decision","counts":[1,1,1,1],"wake_at_s":1700000030.4060788,"answer":null,"kept":"","blamed":[],"nodes":[]},"nodes":[{"$set":["n1#7"]},{"$set":["n4#8"]},{"$set":["n5#9"]},{"$set":["n6#10"]}],"memory":{"$":"GatheringArrivals","until_s":1700000030.4060788,"inner":{"$":"Cohorts","joined":[[1700000025.3497057,{"$set":["n1#7","n4#8","n5#9","n6#10"]}]]}}}','[]',1.05003899989242199808e-03);
INSERT INTO "journal" VALUES(12,1.70000003000607895851e+09,2,'{"$":"Event","at_s":1700000030.006079,"changes":[{"$":"TimerDue"}],"samples_done":[["b",360.0],["c",570.0],["d",90.0],["e",50.0]],"losses":[["b",0.2702702702702703],["c",0.1724137931034483],["d",1.0],["e",1.6666666666666667]],"window_ends":[],"measured":[],"all_joined":true}','{"$":"Plan","decision":{"$":"Decision","counts":[1,1,1,2],"wake_at_s":null,"answer":null,"kept":"","blamed":[],"nodes":[["e",{"$set":["n2#11","n6#10"]}]]},"nodes":[{"$set":["n1#7"]},{"$set":["n4#8"]},{"$set":["n5#9"]},{"$set":["n2#11","n6#10"]}],"memory":{"$":"Cohorts","joined":[[1700000025.3497057,{"$set":["n1#7","n2#11","n4#8","n5#9","n6#10"]}]]}}','[]',1.34016699985295417718e-03);
INSERT INTO "journal" VALUES(13,1.70000003198932075499e+09,2,'{"$":"Event","at_s":1700000031.9893208,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n5#9"]},"classes":[]}],"samples_done":[["b",370.0],["c",580.0],["d",100.0],["e",70.0]],"losses":[["b",0.2631578947368421],["c",0.1694915254237288],["d",0.9090909090909091],["e",1.25]],"window_ends":[],"measured":[],"all_joined":true}','{"$":"Plan","decision":{"$":"Decision","counts":[1,1,0,2],"wake_at_s":null,"answer":null,"kept":"","blamed":[],"nodes":[]},"nodes":[{"$set":["n1#7"]},{"$set":["n4#8"]},{"$set":[]},{"$set":["n2#11","n6#10"]}],"memory":{"$":"Cohorts","joined":[[1700000025.3497057,{"$set":["n1#7","n2#11","n4#8","n6#10"]}]]}}','[]',1.0023799995906301774e-04);
INSERT INTO "journal" VALUES(14,1.70000003400206232072e+09,2,'{"$":"Event","at_s":1700000034.0020623,"changes":[{"$":"TrainerFinished","trainer_id":"b"}],"samples_done":[["c",610.0],["d",110.0],["e",130.0]],"losses":[["c",0.16129032258064516],["d",0.8333333333333334],["e",0.7142857142857143]],"window_ends":[],"measured":[],"all_joined":true}','{"$":"Plan","decision":{"$":"Decision","counts":[1,1,2],"wake_at_s":null,"answer":null,"kept":"","blamed":[],"nodes":[["d",{"$set":["n1#7"]}]]},"nodes":[{"$set":["n4#8"]},{"$set":["n1#7"]},{"$set":["n2#11","n6#10"]}],"memory":{"$":"Cohorts","joined":[[1700000025.3497057,{"$set":["n1#7","n2#11","n4#8","n6#10"]}]]}}','[]',0.000710737999952471);
CREATE TABLE last_state (
  only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
  journal INTEGER NOT NULL,
  state TEXT NOT NULL
);
INSERT INTO "last_state" VALUES(1,14,'{"$":"State","max_parallel":10,"at_s":1700000034.0020623,"pool":{"$set":["n1#7","n2#11","n4#8","n6#10"]},"active":[{"$":"Active","trainer":{"$":"Trainer","id":"c","curve":{"$":"Curve","nodes":[1,3],"per_s":[5.0,15.0]},"min_nodes":1,"max_nodes":3,"scale_up_s":1.0,"scale_down_s":0.5,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"","requested_nodes":null,"reports_loss":true,"node_class":null,"learning":{"$":"Learning","key":"","blank":false,"share":0.25,"window_s":20.0,"explore_after_s":120.0},"start_s":null,"from_zero_s":null,"fill":false},"nodes":{"$set":["n4#8"]},"samples_done":610.0,"admitted_s":1700000000.0,"run_s":33.202062129974365,"node_s":62.092445850372314,"losses":{"$":"Losses","first":1.4285714285714286,"latest":0.16129032258064516,"at_samples":610.0,"per_sample":0.0002733734281027883},"submitted":{"$":"Trainer","id":"c","curve":{"$":"Curve","nodes":[1,3],"per_s":[5.0,15.0]},"min_nodes":1,"max_nodes":3,"scale_up_s":1.0,"scale_down_s":0.5,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"","requested_nodes":null,"reports_loss":true,"node_class":null,"learning":{"$":"Learning","key":"","blank":false,"share":0.25,"window_s":20.0,"explore_after_s":120.0},"start_s":null,"from_zero_s":null,"fill":false},"sized_s":1700000025.3497057,"rescaling":null},{"$":"Active","trainer":{"$":"Trainer","id":"d","curve":{"$":"Curve","nodes":[1,3],"per_s":[8.0,24.0]},"min_nodes":1,"max_nodes":3,"scale_up_s":1.0,"scale_down_s":0.5,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"","requested_nodes":null,"reports_loss":true,"node_class":null,"learning":{"$":"Learning","key":"","blank":false,"share":0.25,"window_s":20.0,"explore_after_s":120.0},"start_s":null,"from_zero_s":null,"fill":false},"nodes":{"$set":["n1#7"]},"samples_done":110.0,"admitted_s":1700000010.053357,"run_s":11.409811735153198,"node_s":11.409811735153198,"losses":{"$":"Losses","first":2.0,"latest":0.8333333333333334,"at_samples":110.0,"per_sample":0.007575757575757569},"submitted":{"$":"Trainer","id":"d","curve":{"$":"Curve","nodes":[1,3],"per_s":[8.0,24.0]},"min_nodes":1,"max_nodes":3,"scale_up_s":1.0,"scale_down_s":0.5,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"","requested_nodes":null,"reports_loss":true,"node_class":null,"learning":{"$":"Learning","key":"","blank":false,"share":0.25,"window_s":20.0,"explore_after_s":120.0},"start_s":null,"from_zero_s":null,"fill":false},"sized_s":1700000034.0020623,"rescaling":{"$":"Rescaling","training":{"$set":[]},"stalled_until_s":1700000035.0020623,"ready_s":1700000035.0020623,"switch_s":null}},{"$":"Active","trainer":{"$":"Trainer","id":"e","curve":{"$":"Curve","nodes":[1,3],"per_s":[4.0,12.0]},"min_nodes":1,"max_nodes":3,"scale_up_s":1.0,"scale_down_s":0.5,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"","requested_nodes":null,"reports_loss":true,"node_class":null,"learning":{"$":"Learning","key":"","blank":false,"share":0.25,"window_s":20.0,"explore_after_s":120.0},"start_s":null,"from_zero_s":null,"fill":false},"nodes":{"$set":["n2#11","n6#10"]},"samples_done":130.0,"admitted_s":1700000024.9497056,"run_s":8.652356624603271,"node_s":12.648339986801147,"losses":{"$":"Losses","first":2.0,"latest":0.7142857142857143,"at_samples":130.0,"per_sample":0.008928571428571428},"submitted":{"$":"Trainer","id":"e","curve":{"$":"Curve","nodes":[1,3],"per_s":[4.0,12.0]},"min_nodes":1,"max_nodes":3,"scale_up_s":1.0,"scale_down_s":0.5,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"","requested_nodes":null,"reports_loss":true,"node_class":null,"learning":{"$":"Learning","key":"","blank":false,"share":0.25,"window_s":20.0,"explore_after_s":120.0},"start_s":null,"from_zero_s":null,"fill":false},"sized_s":1700000030.006079,"rescaling":null}],"queue":[],"memory":{"$":"Cohorts","joined":[[1700000025.3497057,{"$set":["n1#7","n2#11","n4#8","n6#10"]}]]},"wake_at_s":1700000051.5997057,"classes":[["0 cpus",{"$set":["n1#7","n2#11","n4#8","n6#10"]}]],"window_ends":[],"measurements":[],"kept":"","blamed":[],"grain":{"$enum":"Grain","name":"NODE"}}');
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
INSERT INTO "settings" VALUES(1,1700000000.0,'0.1.0','cohort','exact','relative-speed',120.0,0,10,1.0);
INSERT INTO "settings" VALUES(2,1.70000002494970560073e+09,'0.1.0','cohort','exact','relative-speed',120.0,0,10,1.0);
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
