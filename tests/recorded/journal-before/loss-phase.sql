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
INSERT INTO "journal" VALUES(1,1.79535688385205340379e+09,1,'{"$":"Event","at_s":1795356883.8520534,"changes":[{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"a","curve":{"$":"Curve","nodes":[1,2],"per_s":[10.0,20.0]},"min_nodes":1,"max_nodes":2,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}},{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"b","curve":{"$":"Curve","nodes":[1,3],"per_s":[10.0,30.0]},"min_nodes":1,"max_nodes":3,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":120.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}}],"samples_done":[],"losses":[],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0],"wake_at_s":null,"answer":null},"nodes":[{"$set":[]},{"$set":[]}],"memory":{"$":"bftrainer.policies.loss_phase:Phase","marks":[],"ages":["a","b"]}}','[]',7.6093999950899160467e-05);
INSERT INTO "journal" VALUES(2,1.79535688418194746968e+09,1,'{"$":"Event","at_s":1795356884.1819475,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#4d11d0-1","n2#4d11d0-2","n3#4d11d0-3"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#4d11d0-1","n2#4d11d0-2","n3#4d11d0-3"]}]]}],"samples_done":[],"losses":[],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,1],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n1#4d11d0-1","n2#4d11d0-2"]},{"$set":["n3#4d11d0-3"]}],"memory":{"$":"bftrainer.policies.loss_phase:Phase","marks":[],"ages":["a","b"]}}','[]',5.22479999744973611086e-05);
INSERT INTO "journal" VALUES(3,1.79535688822273969654e+09,1,'{"$":"Event","at_s":1795356888.2227397,"changes":[{"$":"PoolChanged","joined":{"$set":["n4#4d11d0-4"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n4#4d11d0-4"]}]]}],"samples_done":[["a",70.0],["b",70.0]],"losses":[["a",2.979354638400828],["b",2.979354638400828]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,2],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n1#4d11d0-1","n2#4d11d0-2"]},{"$set":["n3#4d11d0-3","n4#4d11d0-4"]}],"memory":{"$":"bftrainer.policies.loss_phase:Phase","marks":[],"ages":["a","b"]}}','[]',6.37749999441439285874e-05);
INSERT INTO "journal" VALUES(4,1.79535688960852026939e+09,1,'{"$":"Event","at_s":1795356889.6085203,"changes":[{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"c","curve":{"$":"Curve","nodes":[1,4],"per_s":[10.0,40.0]},"min_nodes":1,"max_nodes":4,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}}],"samples_done":[["a",101.0],["b",102.0]],"losses":[["a",2.4494880714419875],["b",2.4349931907275675]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,1,1],"wake_at_s":1795356891.6085203,"answer":null},"nodes":[{"$set":["n1#4d11d0-1","n2#4d11d0-2"]},{"$set":["n3#4d11d0-3"]},{"$set":["n4#4d11d0-4"]}],"memory":{"$":"bftrainer.policies.loss_phase:Phase","marks":[{"$":"bftrainer.policies.loss_phase:Mark","id":"a","samples":101.0,"loss":2.4494880714419875},{"$":"bftrainer.policies.loss_phase:Mark","id":"b","samples":102.0,"loss":2.4349931907275675},{"$":"bftrainer.policies.loss_phase:Mark","id":"c","samples":0.0,"loss":null}],"ages":[]}}','[]',5.84470001285808393731e-05);
INSERT INTO "journal" VALUES(5,1.79535689065734100342e+09,1,'{"$":"Event","at_s":1795356890.657341,"changes":[{"$":"TrainerFinished","trainer_id":"b"}],"samples_done":[["a",121.0],["c",10.0]],"losses":[["a",2.185546349596832],["c",4.617528300035218]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,2],"wake_at_s":1795356891.657341,"answer":null},"nodes":[{"$set":["n1#4d11d0-1","n2#4d11d0-2"]},{"$set":["n3#4d11d0-3","n4#4d11d0-4"]}],"memory":{"$":"bftrainer.policies.loss_phase:Phase","marks":[{"$":"bftrainer.policies.loss_phase:Mark","id":"a","samples":101.0,"loss":2.4494880714419875},{"$":"bftrainer.policies.loss_phase:Mark","id":"c","samples":0.0,"loss":null}],"ages":[]}}','[]',4.87120000798313412815e-05);
INSERT INTO "journal" VALUES(6,1.79535689168058800692e+09,1,'{"$":"Event","at_s":1795356891.680588,"changes":[{"$":"TimerDue"}],"samples_done":[["a",141.0],["c",30.0]],"losses":[["a",1.9696665841783207],["c",3.958801493553121]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,2],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n1#4d11d0-1","n2#4d11d0-2"]},{"$set":["n3#4d11d0-3","n4#4d11d0-4"]}],"memory":{"$":"bftrainer.policies.loss_phase:Phase","marks":[],"ages":["a","c"]}}','[]',9.05649999367597e-05);
INSERT INTO "journal" VALUES(7,1.79535689286049914359e+09,1,'{"$":"Event","at_s":1795356892.8604991,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n1#4d11d0-1"]},"classes":[]}],"samples_done":[["a",161.0],["c",50.0]],"losses":[["a",1.7930970263556576],["c",3.4200242685501454]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,1],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n2#4d11d0-2","n4#4d11d0-4"]},{"$set":["n3#4d11d0-3"]}],"memory":{"$":"bftrainer.policies.loss_phase:Phase","marks":[],"ages":["a","c"]}}','[]',6.07110000601096544414e-05);
INSERT INTO "journal" VALUES(8,1.79535689661559772489e+09,2,'{"$":"Event","at_s":1795356896.6155977,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n2#4d11d0-2","n3#4d11d0-3","n4#4d11d0-4"]},"classes":[]}],"samples_done":[["a",210.0],["c",111.0]],"losses":[["a",1.4846752654281934],["c",2.3108910297512146]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0],"wake_at_s":null,"answer":null},"nodes":[{"$set":[]},{"$set":[]}],"memory":{"$":"bftrainer.policies.loss_phase:Phase","marks":[],"ages":["a","c"]}}','[]',3.12869999561371514573e-05);
INSERT INTO "journal" VALUES(9,1.79535689692789459225e+09,2,'{"$":"Event","at_s":1795356896.9278946,"changes":[{"$":"PoolChanged","joined":{"$set":["n3#4d11d0-12001","n4#4d11d0-12002"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n3#4d11d0-12001","n4#4d11d0-12002"]}]]}],"samples_done":[["a",210.0],["c",111.0]],"losses":[["a",1.4846752654281934],["c",2.3108910297512146]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,0],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n3#4d11d0-12001","n4#4d11d0-12002"]},{"$set":[]}],"memory":{"$":"bftrainer.policies.loss_phase:Phase","marks":[],"ages":["a","c"]}}','[]',5.04150000324443681165e-05);
INSERT INTO "journal" VALUES(10,1.79535689716477775577e+09,2,'{"$":"Event","at_s":1795356897.1647778,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#4d11d0-12003","n5#4d11d0-12004"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#4d11d0-12003","n5#4d11d0-12004"]}]]}],"samples_done":[["a",211.0],["c",111.0]],"losses":[["a",1.4798285127739115],["c",2.3108910297512146]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,2],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n3#4d11d0-12001","n4#4d11d0-12002"]},{"$set":["n1#4d11d0-12003","n5#4d11d0-12004"]}],"memory":{"$":"bftrainer.policies.loss_phase:Phase","marks":[],"ages":["a","c"]}}','[]',4.89829999423818662762e-05);
INSERT INTO "journal" VALUES(11,1.79535690097856974597e+09,2,'{"$":"Event","at_s":1795356900.9785697,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n1#4d11d0-12003","n3#4d11d0-12001","n4#4d11d0-12002","n5#4d11d0-12004"]},"classes":[]}],"samples_done":[["a",280.0],["c",180.0]],"losses":[["a",1.2398360586858617],["c",1.6552318788323497]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0],"wake_at_s":null,"answer":null},"nodes":[{"$set":[]},{"$set":[]}],"memory":{"$":"bftrainer.policies.loss_phase:Phase","marks":[],"ages":["a","c"]}}','[]',4.46869998995680361986e-05);
INSERT INTO "journal" VALUES(12,1.79535690134858059887e+09,2,'{"$":"Event","at_s":1795356901.3485806,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#4d11d0-12005","n2#4d11d0-12006","n3#4d11d0-12007"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#4d11d0-12005","n2#4d11d0-12006","n3#4d11d0-12007"]}]]}],"samples_done":[["a",280.0],["c",180.0]],"losses":[["a",1.2398360586858617],["c",1.6552318788323497]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,1],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n1#4d11d0-12005","n2#4d11d0-12006"]},{"$set":["n3#4d11d0-12007"]}],"memory":{"$":"bftrainer.policies.loss_phase:Phase","marks":[],"ages":["a","c"]}}','[]',5.23880000855569960549e-05);
CREATE TABLE last_state (
  only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
  journal INTEGER NOT NULL,
  state TEXT NOT NULL
);
INSERT INTO "last_state" VALUES(1,12,'{"$":"State","max_parallel":3,"at_s":1795356901.3485806,"pool":{"$set":["n1#4d11d0-12005","n2#4d11d0-12006","n3#4d11d0-12007"]},"active":[{"$":"Active","trainer":{"$":"Trainer","id":"a","curve":{"$":"Curve","nodes":[1,2],"per_s":[10.0,20.0]},"min_nodes":1,"max_nodes":2,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null},"nodes":{"$set":["n1#4d11d0-12005","n2#4d11d0-12006"]},"samples_done":280.0,"admitted_s":1795356883.8520534,"run_s":16.484325408935547,"node_s":32.968650817871094,"losses":{"$":"Losses","first":2.979354638400828,"latest":1.2398360586858617,"at_samples":280.0,"per_sample":0.003478151508522461},"submitted":null,"sized_s":1795356901.3485806},{"$":"Active","trainer":{"$":"Trainer","id":"c","curve":{"$":"Curve","nodes":[1,4],"per_s":[10.0,40.0]},"min_nodes":1,"max_nodes":4,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null},"nodes":{"$set":["n3#4d11d0-12007"]},"samples_done":180.0,"admitted_s":1795356889.6085203,"run_s":10.820869445800781,"node_s":16.837819576263428,"losses":{"$":"Losses","first":4.617528300035218,"latest":1.6552318788323497,"at_samples":180.0,"per_sample":0.009502306535056014},"submitted":null,"sized_s":1795356901.3485806}],"queue":[],"memory":{"$":"bftrainer.policies.loss_phase:Phase","marks":[],"ages":["a","c"]},"wake_at_s":null,"classes":[["0 cpus",{"$set":["n1#4d11d0-12005","n2#4d11d0-12006","n3#4d11d0-12007"]}]],"window_ends":[],"lessons":[]}');
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
INSERT INTO "settings" VALUES(1,1.79535688384529685968e+09,'0.1.0','loss-phase?iterations=20&batch_samples=1','exact','throughput',120.0,0,3);
INSERT INTO "settings" VALUES(2,1.79535689661140251158e+09,'0.1.0','loss-phase?iterations=20&batch_samples=1','exact','throughput',120.0,0,3);
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
