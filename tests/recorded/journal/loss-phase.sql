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
INSERT INTO "journal" VALUES(1,1700000000.0,1,'{"$":"Event","at_s":1700000000.0,"changes":[{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"a","curve":{"$":"Curve","nodes":[1,3],"per_s":[20.0,60.0]},"min_nodes":1,"max_nodes":3,"scale_up_s":1.0,"scale_down_s":0.5,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"","requested_nodes":null,"reports_loss":true,"node_class":null,"learning":{"$":"Learning","key":"","blank":false,"share":0.25,"window_s":20.0,"explore_after_s":120.0},"start_s":null,"from_zero_s":null,"fill":false}},{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"b","curve":{"$":"Curve","nodes":[1,3],"per_s":[10.0,30.0]},"min_nodes":1,"max_nodes":3,"scale_up_s":1.0,"scale_down_s":0.5,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"","requested_nodes":null,"reports_loss":true,"node_class":null,"learning":{"$":"Learning","key":"","blank":false,"share":0.25,"window_s":20.0,"explore_after_s":120.0},"start_s":null,"from_zero_s":null,"fill":false}},{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"c","curve":{"$":"Curve","nodes":[1,3],"per_s":[5.0,15.0]},"min_nodes":1,"max_nodes":3,"scale_up_s":1.0,"scale_down_s":0.5,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"","requested_nodes":null,"reports_loss":true,"node_class":null,"learning":{"$":"Learning","key":"","blank":false,"share":0.25,"window_s":20.0,"explore_after_s":120.0},"start_s":null,"from_zero_s":null,"fill":false}}],"samples_done":[],"losses":[],"window_ends":[],"measured":[],"all_joined":false}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0,0],"wake_at_s":null,"answer":null,"kept":"","blamed":[],"nodes":[]},"nodes":[{"$set":[]},{"$set":[]},{"$set":[]}],"memory":{"$":"bftrainer_papers.policies.loss_phase:TrainingPhase","marks":[],"ages":["a","b","c"]}}','[]',2.59517000131381792016e-04);
INSERT INTO "journal" VALUES(2,1700000000.4,1,'{"$":"Event","at_s":1700000000.4,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#1","n2#2","n3#3"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#1","n2#2","n3#3"]}]]}],"samples_done":[],"losses":[],"window_ends":[],"measured":[],"all_joined":false}','{"$":"Plan","decision":{"$":"Decision","counts":[2,1,0],"wake_at_s":null,"answer":null,"kept":"","blamed":[],"nodes":[]},"nodes":[{"$set":["n1#1","n2#2"]},{"$set":["n3#3"]},{"$set":[]}],"memory":{"$":"bftrainer_papers.policies.loss_phase:TrainingPhase","marks":[],"ages":["a","b","c"]}}','[]',2.24810999952751444652e-04);
INSERT INTO "journal" VALUES(3,1.70000000643961501119e+09,1,'{"$":"Event","at_s":1700000006.439615,"changes":[{"$":"PoolChanged","joined":{"$set":["n4#4","n5#5","n6#6"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n4#4","n5#5","n6#6"]}]]}],"samples_done":[["a",120.0],["b",60.0]],"losses":[["a",0.7692307692307693],["b",1.4285714285714286]],"window_ends":[],"measured":[],"all_joined":false}','{"$":"Plan","decision":{"$":"Decision","counts":[2,1,1],"wake_at_s":1700000007.439615,"answer":null,"kept":"","blamed":[],"nodes":[]},"nodes":[{"$set":["n1#1","n2#2"]},{"$set":["n3#3"]},{"$set":["n4#4"]}],"memory":{"$":"GatheringArrivals","until_s":1700000007.439615,"inner":{"$":"bftrainer_papers.policies.loss_phase:TrainingPhase","marks":[],"ages":["a","b","c"]}}}','[]',4.35516999914398184046e-04);
INSERT INTO "journal" VALUES(4,1.7000000070396151543e+09,1,'{"$":"Event","at_s":1700000007.0396152,"changes":[{"$":"TimerDue"}],"samples_done":[["a",140.0],["b",70.0],["c",10.0]],"losses":[["a",0.6666666666666666],["b",1.25],["c",5.0]],"window_ends":[],"measured":[],"all_joined":true}','{"$":"Plan","decision":{"$":"Decision","counts":[3,2,1],"wake_at_s":null,"answer":null,"kept":"","blamed":[],"nodes":[]},"nodes":[{"$set":["n1#1","n2#2","n5#5"]},{"$set":["n3#3","n6#6"]},{"$set":["n4#4"]}],"memory":{"$":"bftrainer_papers.policies.loss_phase:TrainingPhase","marks":[],"ages":["a","b","c"]}}','[]',1.46846999996341764926e-04);
INSERT INTO "journal" VALUES(5,1.70000001005335688595e+09,1,'{"$":"Event","at_s":1700000010.053357,"changes":[{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"d","curve":{"$":"Curve","nodes":[1,3],"per_s":[8.0,24.0]},"min_nodes":1,"max_nodes":3,"scale_up_s":1.0,"scale_down_s":0.5,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"","requested_nodes":null,"reports_loss":true,"node_class":null,"learning":{"$":"Learning","key":"","blank":false,"share":0.25,"window_s":20.0,"explore_after_s":120.0},"start_s":null,"from_zero_s":null,"fill":false}}],"samples_done":[["a",230.0],["b",130.0],["c",40.0]],"losses":[["a",0.4166666666666667],["b",0.7142857142857143],["c",2.0]],"window_ends":[],"measured":[],"all_joined":true}','{"$":"Plan","decision":{"$":"Decision","counts":[3,2,1],"wake_at_s":null,"answer":null,"kept":"","blamed":[],"nodes":[]},"nodes":[{"$set":["n1#1","n2#2","n5#5"]},{"$set":["n3#3","n6#6"]},{"$set":["n4#4"]}],"memory":{"$":"bftrainer_papers.policies.loss_phase:TrainingPhase","marks":[],"ages":["a","b","c"]}}','[]',1.52563999790800153277e-04);
INSERT INTO "journal" VALUES(6,1.70000001411002349847e+09,1,'{"$":"Event","at_s":1700000014.1100235,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n2#2"]},"classes":[]}],"samples_done":[["a",350.0],["b",210.0],["c",80.0]],"losses":[["a",0.2777777777777778],["b",0.45454545454545453],["c",1.1111111111111112]],"window_ends":[],"measured":[],"all_joined":true}','{"$":"Plan","decision":{"$":"Decision","counts":[3,2,0],"wake_at_s":null,"answer":null,"kept":"","blamed":[],"nodes":[]},"nodes":[{"$set":["n1#1","n4#4","n5#5"]},{"$set":["n3#3","n6#6"]},{"$set":[]}],"memory":{"$":"bftrainer_papers.policies.loss_phase:TrainingPhase","marks":[],"ages":["a","b","c"]}}','[]',1.41514999995706602931e-04);
INSERT INTO "journal" VALUES(7,1.70000001801990842818e+09,1,'{"$":"Event","at_s":1700000018.0199084,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n3#3"]},"classes":[]}],"samples_done":[["a",460.0],["b",290.0],["c",80.0]],"losses":[["a",0.2127659574468085],["b",0.3333333333333333],["c",1.1111111111111112]],"window_ends":[],"measured":[],"all_joined":true}','{"$":"Plan","decision":{"$":"Decision","counts":[2,1,1],"wake_at_s":null,"answer":null,"kept":"","blamed":[],"nodes":[]},"nodes":[{"$set":["n1#1","n4#4"]},{"$set":["n6#6"]},{"$set":["n5#5"]}],"memory":{"$":"bftrainer_papers.policies.loss_phase:TrainingPhase","marks":[],"ages":["a","b","c"]}}','[]',1.38303000085215899161e-04);
INSERT INTO "journal" VALUES(8,1.70000002017950892444e+09,1,'{"$":"Event","at_s":1700000020.179509,"changes":[{"$":"TrainerFinished","trainer_id":"a"}],"samples_done":[["b",310.0],["c",90.0]],"losses":[["b",0.3125],["c",1.0]],"window_ends":[],"measured":[],"all_joined":true}','{"$":"Plan","decision":{"$":"Decision","counts":[2,1,1],"wake_at_s":1700000024.179509,"answer":null,"kept":"","blamed":[],"nodes":[]},"nodes":[{"$set":["n1#1","n6#6"]},{"$set":["n5#5"]},{"$set":["n4#4"]}],"memory":{"$":"bftrainer_papers.policies.loss_phase:TrainingPhase","marks":[{"$":"bftrainer_papers.policies.loss_phase:LossMark","id":"b","samples":310.0,"loss":0.3125},{"$":"bftrainer_papers.policies.loss_phase:LossMark","id":"c","samples":90.0,"loss":1.0},{"$":"bftrainer_papers.policies.loss_phase:LossMark","id":"d","samples":0.0,"loss":null}],"ages":[]}}','[]',2.45338000013362034223e-04);
INSERT INTO "journal" VALUES(9,1.70000002494970560073e+09,2,'{"$":"Event","at_s":1700000024.9497056,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n1#1","n4#4","n5#5","n6#6"]},"classes":[]},{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"e","curve":{"$":"Curve","nodes":[1,3],"per_s":[4.0,12.0]},"min_nodes":1,"max_nodes":3,"scale_up_s":1.0,"scale_down_s":0.5,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"","requested_nodes":null,"reports_loss":true,"node_class":null,"learning":{"$":"Learning","key":"","blank":false,"share":0.25,"window_s":20.0,"explore_after_s":120.0},"start_s":null,"from_zero_s":null,"fill":false}},{"$":"TimerDue"}],"samples_done":[["b",390.0],["c",130.0],["d",40.0]],"losses":[["b",0.25],["c",0.7142857142857143],["d",2.0]],"window_ends":[],"measured":[],"all_joined":false}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0,0],"wake_at_s":null,"answer":null,"kept":"","blamed":[],"nodes":[]},"nodes":[{"$set":[]},{"$set":[]},{"$set":[]}],"memory":{"$":"bftrainer_papers.policies.loss_phase:TrainingPhase","marks":[],"ages":["b","c","d"]}}','[]',1.87310999990586424246e-04);
INSERT INTO "journal" VALUES(10,1.70000002534970569615e+09,2,'{"$":"Event","at_s":1700000025.3497057,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#7","n4#8","n5#9","n6#10"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#7","n4#8","n5#9","n6#10"]}]]}],"samples_done":[["b",390.0],["c",130.0],["d",40.0]],"losses":[["b",0.25],["c",0.7142857142857143],["d",2.0]],"window_ends":[],"measured":[],"all_joined":false}','{"$":"Plan","decision":{"$":"Decision","counts":[2,1,1],"wake_at_s":null,"answer":null,"kept":"","blamed":[],"nodes":[]},"nodes":[{"$set":["n1#7","n4#8"]},{"$set":["n5#9"]},{"$set":["n6#10"]}],"memory":{"$":"bftrainer_papers.policies.loss_phase:TrainingPhase","marks":[],"ages":["b","c","d"]}}','[]',1.58499999997729901224e-04);
INSERT INTO "journal" VALUES(11,1.70000002940607881549e+09,2,'{"$":"Event","at_s":1700000029.4060788,"changes":[{"$":"PoolChanged","joined":{"$set":["n2#11"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n2#11"]}]]}],"samples_done":[["b",470.0],["c",170.0],["d",80.0]],"losses":[["b",0.20833333333333334],["c",0.5555555555555556],["d",1.1111111111111112]],"window_ends":[],"measured":[],"all_joined":false}','{"$":"Plan","decision":{"$":"Decision","counts":[2,1,1],"wake_at_s":1700000030.4060788,"answer":null,"kept":"","blamed":[],"nodes":[]},"nodes":[{"$set":["n1#7","n4#8"]},{"$set":["n5#9"]},{"$set":["n6#10"]}],"memory":{"$":"GatheringArrivals","until_s":1700000030.4060788,"inner":{"$":"bftrainer_papers.policies.loss_phase:TrainingPhase","marks":[],"ages":["b","c","d"]}}}','[]',1.63743000030081020668e-04);
INSERT INTO "journal" VALUES(12,1.70000003000607895851e+09,2,'{"$":"Event","at_s":1700000030.006079,"changes":[{"$":"TimerDue"}],"samples_done":[["b",490.0],["c",180.0],["d",90.0]],"losses":[["b",0.2],["c",0.5263157894736842],["d",1.0]],"window_ends":[],"measured":[],"all_joined":true}','{"$":"Plan","decision":{"$":"Decision","counts":[3,2,0],"wake_at_s":null,"answer":null,"kept":"","blamed":[],"nodes":[]},"nodes":[{"$set":["n1#7","n2#11","n4#8"]},{"$set":["n5#9","n6#10"]},{"$set":[]}],"memory":{"$":"bftrainer_papers.policies.loss_phase:TrainingPhase","marks":[],"ages":["b","c","d"]}}','[]',1.69127000162916374392e-04);
INSERT INTO "journal" VALUES(13,1.70000003198932075499e+09,2,'{"$":"Event","at_s":1700000031.9893208,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n5#9"]},"classes":[]}],"samples_done":[["b",520.0],["c",190.0],["d",90.0]],"losses":[["b",0.18867924528301888],["c",0.5],["d",1.0]],"window_ends":[],"measured":[],"all_joined":true}','{"$":"Plan","decision":{"$":"Decision","counts":[2,1,1],"wake_at_s":null,"answer":null,"kept":"","blamed":[],"nodes":[]},"nodes":[{"$set":["n1#7","n2#11"]},{"$set":["n6#10"]},{"$set":["n4#8"]}],"memory":{"$":"bftrainer_papers.policies.loss_phase:TrainingPhase","marks":[],"ages":["b","c","d"]}}','[]',1.36162999979205778799e-04);
INSERT INTO "journal" VALUES(14,1.70000003400206232072e+09,2,'{"$":"Event","at_s":1700000034.0020623,"changes":[{"$":"TrainerFinished","trainer_id":"b"}],"samples_done":[["c",230.0],["d",100.0]],"losses":[["c",0.4166666666666667],["d",0.9090909090909091]],"window_ends":[],"measured":[],"all_joined":true}','{"$":"Plan","decision":{"$":"Decision","counts":[2,1,1],"wake_at_s":1700000039.0020623,"answer":null,"kept":"","blamed":[],"nodes":[]},"nodes":[{"$set":["n1#7","n6#10"]},{"$set":["n4#8"]},{"$set":["n2#11"]}],"memory":{"$":"bftrainer_papers.policies.loss_phase:TrainingPhase","marks":[{"$":"bftrainer_papers.policies.loss_phase:LossMark","id":"c","samples":230.0,"loss":0.4166666666666667},{"$":"bftrainer_papers.policies.loss_phase:LossMark","id":"d","samples":100.0,"loss":0.9090909090909091},{"$":"bftrainer_papers.policies.loss_phase:LossMark","id":"e","samples":0.0,"loss":null}],"ages":[]}}','[]',2.82359000038923113606e-04);
INSERT INTO "journal" VALUES(15,1.70000003905972909929e+09,2,'{"$":"Event","at_s":1700000039.059729,"changes":[{"$":"TimerDue"}],"samples_done":[["c",330.0],["d",150.0],["e",50.0]],"losses":[["c",0.29411764705882354],["d",0.625],["e",1.6666666666666667]],"window_ends":[],"measured":[],"all_joined":true}','{"$":"Plan","decision":{"$":"Decision","counts":[2,1,1],"wake_at_s":null,"answer":null,"kept":"","blamed":[],"nodes":[]},"nodes":[{"$set":["n1#7","n6#10"]},{"$set":["n4#8"]},{"$set":["n2#11"]}],"memory":{"$":"bftrainer_papers.policies.loss_phase:TrainingPhase","marks":[],"ages":["c","d","e"]}}','[]',3.03164000115430098958e-04);
CREATE TABLE last_state (
  only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
  journal INTEGER NOT NULL,
  state TEXT NOT NULL
);
INSERT INTO "last_state" VALUES(1,15,'{"$":"State","max_parallel":3,"at_s":1700000039.059729,"pool":{"$set":["n1#7","n2#11","n4#8","n6#10"]},"active":[{"$":"Active","trainer":{"$":"Trainer","id":"c","curve":{"$":"Curve","nodes":[1,3],"per_s":[5.0,15.0]},"min_nodes":1,"max_nodes":3,"scale_up_s":1.0,"scale_down_s":0.5,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"","requested_nodes":null,"reports_loss":true,"node_class":null,"learning":{"$":"Learning","key":"","blank":false,"share":0.25,"window_s":20.0,"explore_after_s":120.0},"start_s":null,"from_zero_s":null,"fill":false},"nodes":{"$set":["n1#7","n6#10"]},"samples_done":330.0,"admitted_s":1700000000.0,"run_s":28.310229063034058,"node_s":35.35113763809204,"losses":{"$":"Losses","first":5.0,"latest":0.29411764705882354,"at_samples":330.0,"per_sample":0.0012254901960784314},"submitted":{"$":"Trainer","id":"c","curve":{"$":"Curve","nodes":[1,3],"per_s":[5.0,15.0]},"min_nodes":1,"max_nodes":3,"scale_up_s":1.0,"scale_down_s":0.5,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"","requested_nodes":null,"reports_loss":true,"node_class":null,"learning":{"$":"Learning","key":"","blank":false,"share":0.25,"window_s":20.0,"explore_after_s":120.0},"start_s":null,"from_zero_s":null,"fill":false},"sized_s":1700000034.0020623,"rescaling":null},{"$":"Active","trainer":{"$":"Trainer","id":"d","curve":{"$":"Curve","nodes":[1,3],"per_s":[8.0,24.0]},"min_nodes":1,"max_nodes":3,"scale_up_s":1.0,"scale_down_s":0.5,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"","requested_nodes":null,"reports_loss":true,"node_class":null,"learning":{"$":"Learning","key":"","blank":false,"share":0.25,"window_s":20.0,"explore_after_s":120.0},"start_s":null,"from_zero_s":null,"fill":false},"nodes":{"$set":["n4#8"]},"samples_done":150.0,"admitted_s":1700000020.179509,"run_s":16.496978282928467,"node_s":16.496978282928467,"losses":{"$":"Losses","first":2.0,"latest":0.625,"at_samples":150.0,"per_sample":0.005681818181818181},"submitted":{"$":"Trainer","id":"d","curve":{"$":"Curve","nodes":[1,3],"per_s":[8.0,24.0]},"min_nodes":1,"max_nodes":3,"scale_up_s":1.0,"scale_down_s":0.5,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"","requested_nodes":null,"reports_loss":true,"node_class":null,"learning":{"$":"Learning","key":"","blank":false,"share":0.25,"window_s":20.0,"explore_after_s":120.0},"start_s":null,"from_zero_s":null,"fill":false},"sized_s":1700000031.9893208,"rescaling":null},{"$":"Active","trainer":{"$":"Trainer","id":"e","curve":{"$":"Curve","nodes":[1,3],"per_s":[4.0,12.0]},"min_nodes":1,"max_nodes":3,"scale_up_s":1.0,"scale_down_s":0.5,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"","requested_nodes":null,"reports_loss":true,"node_class":null,"learning":{"$":"Learning","key":"","blank":false,"share":0.25,"window_s":20.0,"explore_after_s":120.0},"start_s":null,"from_zero_s":null,"fill":false},"nodes":{"$set":["n2#11"]},"samples_done":50.0,"admitted_s":1700000034.0020623,"run_s":5.057666778564453,"node_s":5.057666778564453,"losses":{"$":"Losses","first":1.6666666666666667,"latest":1.6666666666666667,"at_samples":50.0,"per_sample":null},"submitted":{"$":"Trainer","id":"e","curve":{"$":"Curve","nodes":[1,3],"per_s":[4.0,12.0]},"min_nodes":1,"max_nodes":3,"scale_up_s":1.0,"scale_down_s":0.5,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"","requested_nodes":null,"reports_loss":true,"node_class":null,"learning":{"$":"Learning","key":"","blank":false,"share":0.25,"window_s":20.0,"explore_after_s":120.0},"start_s":null,"from_zero_s":null,"fill":false},"sized_s":1700000034.0020623,"rescaling":null}],"queue":[],"memory":{"$":"bftrainer_papers.policies.loss_phase:TrainingPhase","marks":[],"ages":["c","d","e"]},"wake_at_s":1700000058.2393208,"classes":[["0 cpus",{"$set":["n1#7","n2#11","n4#8","n6#10"]}]],"window_ends":[],"measurements":[],"kept":"","blamed":[],"grain":{"$enum":"Grain","name":"NODE"}}');
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
INSERT INTO "settings" VALUES(1,1700000000.0,'0.1.0','loss-phase?iterations=20&batch_samples=1','exact','relative-speed',120.0,0,3,1.0);
INSERT INTO "settings" VALUES(2,1.70000002494970560073e+09,'0.1.0','loss-phase?iterations=20&batch_samples=1','exact','relative-speed',120.0,0,3,1.0);
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
