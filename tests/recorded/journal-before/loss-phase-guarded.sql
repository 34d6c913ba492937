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
INSERT INTO "journal" VALUES(1,1.79535757908859467508e+09,1,'{"$":"Event","at_s":1795357579.0885947,"changes":[{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"a","curve":{"$":"Curve","nodes":[1,2],"per_s":[10.0,20.0]},"min_nodes":1,"max_nodes":2,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}},{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"b","curve":{"$":"Curve","nodes":[1,3],"per_s":[10.0,30.0]},"min_nodes":1,"max_nodes":3,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}}],"samples_done":[],"losses":[],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0],"wake_at_s":null,"answer":null},"nodes":[{"$set":[]},{"$set":[]}],"memory":{"$":"bftrainer.policies.guard:Patience","inner":{"$":"bftrainer.policies.loss_phase:Phase","marks":[],"ages":["a","b"]},"since":[],"turns":[]}}','[]',1.71416000284807523712e-04);
INSERT INTO "journal" VALUES(2,1.79535757954328727722e+09,1,'{"$":"Event","at_s":1795357579.5432873,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#4300f4-1","n2#4300f4-2","n3#4300f4-3"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#4300f4-1","n2#4300f4-2","n3#4300f4-3"]}]]}],"samples_done":[],"losses":[],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,1],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n1#4300f4-1","n2#4300f4-2"]},{"$set":["n3#4300f4-3"]}],"memory":{"$":"bftrainer.policies.guard:Patience","inner":{"$":"bftrainer.policies.loss_phase:Phase","marks":[],"ages":["a","b"]},"since":[],"turns":[]}}','[]',8.8742000116326380521e-05);
INSERT INTO "journal" VALUES(3,1.79535758328575325007e+09,1,'{"$":"Event","at_s":1795357583.2857533,"changes":[{"$":"PoolChanged","joined":{"$set":["n4#4300f4-4"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n4#4300f4-4"]}]]}],"samples_done":[["a",60.0],["b",56.0]],"losses":[["a",3.188626569563045],["b",3.2784048099086367]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,2],"wake_at_s":null,"answer":null},"nodes":[{"$set":["n1#4300f4-1","n2#4300f4-2"]},{"$set":["n3#4300f4-3","n4#4300f4-4"]}],"memory":{"$":"bftrainer.policies.guard:Patience","inner":{"$":"bftrainer.policies.loss_phase:Phase","marks":[],"ages":["a","b"]},"since":[],"turns":[]}}','[]',9.09349996618402656167e-05);
INSERT INTO "journal" VALUES(4,1.79535758444462895393e+09,1,'{"$":"Event","at_s":1795357584.444629,"changes":[{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"c","curve":{"$":"Curve","nodes":[1,4],"per_s":[10.0,40.0]},"min_nodes":1,"max_nodes":4,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}}],"samples_done":[["a",80.0],["b",70.0]],"losses":[["a",2.790092855055242],["b",2.979354638400828]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,1,1],"wake_at_s":1795357586.444629,"answer":null},"nodes":[{"$set":["n1#4300f4-1","n2#4300f4-2"]},{"$set":["n3#4300f4-3"]},{"$set":["n4#4300f4-4"]}],"memory":{"$":"bftrainer.policies.guard:Patience","inner":{"$":"bftrainer.policies.loss_phase:Phase","marks":[{"$":"bftrainer.policies.loss_phase:Mark","id":"a","samples":80.0,"loss":2.790092855055242},{"$":"bftrainer.policies.loss_phase:Mark","id":"b","samples":70.0,"loss":2.979354638400828},{"$":"bftrainer.policies.loss_phase:Mark","id":"c","samples":0.0,"loss":null}],"ages":[]},"since":[],"turns":[]}}','[]',9.90170001387014e-05);
INSERT INTO "journal" VALUES(5,1.7953575852626280784e+09,1,'{"$":"Event","at_s":1795357585.262628,"changes":[{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"d","curve":{"$":"Curve","nodes":[1,2],"per_s":[10.0,20.0]},"min_nodes":1,"max_nodes":2,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}}],"samples_done":[["a",100.0],["b",84.0]],"losses":[["a",2.4641293650929166],["b",2.719556054095574]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,1,1],"wake_at_s":1795357587.262628,"answer":null},"nodes":[{"$set":["n1#4300f4-1","n2#4300f4-2"]},{"$set":["n3#4300f4-3"]},{"$set":["n4#4300f4-4"]}],"memory":{"$":"bftrainer.policies.guard:Patience","inner":{"$":"bftrainer.policies.loss_phase:Phase","marks":[{"$":"bftrainer.policies.loss_phase:Mark","id":"a","samples":80.0,"loss":2.790092855055242},{"$":"bftrainer.policies.loss_phase:Mark","id":"b","samples":70.0,"loss":2.979354638400828},{"$":"bftrainer.policies.loss_phase:Mark","id":"c","samples":0.0,"loss":null}],"ages":[]},"since":[],"turns":[]}}','[]',7.86169998718833085149e-05);
INSERT INTO "journal" VALUES(6,1.79535758680684018133e+09,1,'{"$":"Event","at_s":1795357586.8068402,"changes":[{"$":"TrainerFinished","trainer_id":"b"}],"samples_done":[["a",130.0],["c",30.0]],"losses":[["a",2.083017038047976],["c",3.958801493553121]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,1,1],"wake_at_s":1795357588.8068402,"answer":null},"nodes":[{"$set":["n1#4300f4-1","n2#4300f4-2"]},{"$set":["n4#4300f4-4"]},{"$set":["n3#4300f4-3"]}],"memory":{"$":"bftrainer.policies.guard:Patience","inner":{"$":"bftrainer.policies.loss_phase:Phase","marks":[{"$":"bftrainer.policies.loss_phase:Mark","id":"a","samples":130.0,"loss":2.083017038047976},{"$":"bftrainer.policies.loss_phase:Mark","id":"c","samples":30.0,"loss":3.958801493553121},{"$":"bftrainer.policies.loss_phase:Mark","id":"d","samples":0.0,"loss":null}],"ages":[]},"since":[],"turns":[]}}','[]',8.72800001161522231996e-05);
INSERT INTO "journal" VALUES(7,1.79535758801316618917e+09,1,'{"$":"Event","at_s":1795357588.0131662,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n1#4300f4-1"]},"classes":[]}],"samples_done":[["a",150.0],["c",50.0],["d",20.0]],"losses":[["a",1.8858071489554438],["c",3.4200242685501454],["d",4.271627750388923]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,1,0],"wake_at_s":1795357589.8131661,"answer":null},"nodes":[{"$set":["n2#4300f4-2","n3#4300f4-3"]},{"$set":["n4#4300f4-4"]},{"$set":[]}],"memory":{"$":"bftrainer.policies.guard:Patience","inner":{"$":"bftrainer.policies.loss_phase:Phase","marks":[],"ages":["a","c","d"]},"since":[["d",1795357588.0131662]],"turns":[]}}','[]',1.22032000035687815397e-04);
INSERT INTO "journal" VALUES(8,1.79535758983133745189e+09,1,'{"$":"Event","at_s":1795357589.8313375,"changes":[{"$":"TimerDue"}],"samples_done":[["a",180.0],["c",90.0],["d",25.0]],"losses":[["a",1.6552318788323497],["c",2.6189278907132953],["d",4.111285437596587]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,1,1],"wake_at_s":1795358489.8313375,"answer":null},"nodes":[{"$set":["n2#4300f4-2"]},{"$set":["n4#4300f4-4"]},{"$set":["n3#4300f4-3"]}],"memory":{"$":"bftrainer.policies.guard:Patience","inner":{"$":"bftrainer.policies.loss_phase:Phase","marks":[],"ages":["a","c","d"]},"since":[],"turns":[["d",1795358489.8313375]]}}','[]',1.69283000104769598692e-04);
INSERT INTO "journal" VALUES(9,1.79535759340608739847e+09,2,'{"$":"Event","at_s":1795357593.4060874,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n2#4300f4-2","n3#4300f4-3","n4#4300f4-4"]},"classes":[]}],"samples_done":[["a",213.0],["c",125.0],["d",54.0]],"losses":[["a",1.4702799253697107],["c",2.138831093092782],["d",3.324665656472438]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0,0],"wake_at_s":null,"answer":null},"nodes":[{"$set":[]},{"$set":[]},{"$set":[]}],"memory":{"$":"bftrainer.policies.guard:Patience","inner":{"$":"bftrainer.policies.loss_phase:Phase","marks":[],"ages":["a","c","d"]},"since":[],"turns":[]}}','[]',1.03553999906580429524e-04);
INSERT INTO "journal" VALUES(10,1.79535759383156919479e+09,2,'{"$":"Event","at_s":1795357593.8315692,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#4300f4-14001","n3#4300f4-14002","n4#4300f4-14003","n5#4300f4-14004"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#4300f4-14001","n3#4300f4-14002","n4#4300f4-14003","n5#4300f4-14004"]}]]}],"samples_done":[["a",213.0],["c",125.0],["d",54.0]],"losses":[["a",1.4702799253697107],["c",2.138831093092782],["d",3.324665656472438]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,2,0],"wake_at_s":1795357595.6315691,"answer":null},"nodes":[{"$set":["n1#4300f4-14001","n3#4300f4-14002"]},{"$set":["n4#4300f4-14003","n5#4300f4-14004"]},{"$set":[]}],"memory":{"$":"bftrainer.policies.guard:Patience","inner":{"$":"bftrainer.policies.loss_phase:Phase","marks":[],"ages":["a","c","d"]},"since":[["d",1795357593.8315692]],"turns":[]}}','[]',9.67940000009548384696e-05);
INSERT INTO "journal" VALUES(11,1.79535759563684868813e+09,2,'{"$":"Event","at_s":1795357595.6368487,"changes":[{"$":"TimerDue"}],"samples_done":[["a",240.0],["c",150.0],["d",54.0]],"losses":[["a",1.3585144748092985],["c",1.8858071489554438],["d",3.324665656472438]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,1,1],"wake_at_s":1795358495.6368487,"answer":null},"nodes":[{"$set":["n1#4300f4-14001","n3#4300f4-14002"]},{"$set":["n4#4300f4-14003"]},{"$set":["n5#4300f4-14004"]}],"memory":{"$":"bftrainer.policies.guard:Patience","inner":{"$":"bftrainer.policies.loss_phase:Phase","marks":[],"ages":["a","c","d"]},"since":[],"turns":[["d",1795358495.6368487]]}}','[]',1.18576999739161692559e-04);
INSERT INTO "journal" VALUES(12,1.7953575959818427563e+09,2,'{"$":"Event","at_s":1795357595.9818428,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n1#4300f4-14001"]},"classes":[]}],"samples_done":[["a",240.0],["c",155.0],["d",54.0]],"losses":[["a",1.3585144748092985],["c",1.842393784786914],["d",3.324665656472438]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,1,1],"wake_at_s":1795358495.6368487,"answer":null},"nodes":[{"$set":["n3#4300f4-14002"]},{"$set":["n4#4300f4-14003"]},{"$set":["n5#4300f4-14004"]}],"memory":{"$":"bftrainer.policies.guard:Patience","inner":{"$":"bftrainer.policies.loss_phase:Phase","marks":[],"ages":["a","c","d"]},"since":[],"turns":[["d",1795358495.6368487]]}}','[]',1.09292999695753678679e-04);
INSERT INTO "journal" VALUES(13,1.79535759602081203462e+09,2,'{"$":"Event","at_s":1795357596.020812,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n3#4300f4-14002"]},"classes":[]}],"samples_done":[["a",240.0],["c",155.0],["d",54.0]],"losses":[["a",1.3585144748092985],["c",1.842393784786914],["d",3.324665656472438]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,0,1],"wake_at_s":1795357597.820812,"answer":null},"nodes":[{"$set":["n4#4300f4-14003"]},{"$set":[]},{"$set":["n5#4300f4-14004"]}],"memory":{"$":"bftrainer.policies.guard:Patience","inner":{"$":"bftrainer.policies.loss_phase:Phase","marks":[],"ages":["a","c","d"]},"since":[["c",1795357596.020812]],"turns":[["d",1795358495.6368487]]}}','[]',1.13800000235642073675e-04);
INSERT INTO "journal" VALUES(14,1.79535759613625383376e+09,2,'{"$":"Event","at_s":1795357596.1362538,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n4#4300f4-14003","n5#4300f4-14004"]},"classes":[]}],"samples_done":[["a",240.0],["c",155.0],["d",54.0]],"losses":[["a",1.3585144748092985],["c",1.842393784786914],["d",3.324665656472438]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0,0],"wake_at_s":null,"answer":null},"nodes":[{"$set":[]},{"$set":[]},{"$set":[]}],"memory":{"$":"bftrainer.policies.guard:Patience","inner":{"$":"bftrainer.policies.loss_phase:Phase","marks":[],"ages":["a","c","d"]},"since":[],"turns":[]}}','[]',1.69351999829814303666e-04);
INSERT INTO "journal" VALUES(15,1.79535759659690618518e+09,2,'{"$":"Event","at_s":1795357596.5969062,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#4300f4-14005","n2#4300f4-14006","n3#4300f4-14007"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#4300f4-14005","n2#4300f4-14006","n3#4300f4-14007"]}]]}],"samples_done":[["a",240.0],["c",155.0],["d",55.0]],"losses":[["a",1.3585144748092985],["c",1.842393784786914],["d",3.301418999907714]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,1,0],"wake_at_s":1795357598.3969061,"answer":null},"nodes":[{"$set":["n1#4300f4-14005","n2#4300f4-14006"]},{"$set":["n3#4300f4-14007"]},{"$set":[]}],"memory":{"$":"bftrainer.policies.guard:Patience","inner":{"$":"bftrainer.policies.loss_phase:Phase","marks":[],"ages":["a","c","d"]},"since":[["d",1795357596.5969062]],"turns":[]}}','[]',7.54930001676257234066e-05);
INSERT INTO "journal" VALUES(16,1.79535759839902257914e+09,2,'{"$":"Event","at_s":1795357598.3990226,"changes":[{"$":"TimerDue"}],"samples_done":[["a",261.0],["c",175.0],["d",55.0]],"losses":[["a",1.2902991614137973],["c",1.6889997207660055],["d",3.301418999907714]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,1,1],"wake_at_s":1795358498.3990226,"answer":null},"nodes":[{"$set":["n1#4300f4-14005"]},{"$set":["n3#4300f4-14007"]},{"$set":["n2#4300f4-14006"]}],"memory":{"$":"bftrainer.policies.guard:Patience","inner":{"$":"bftrainer.policies.loss_phase:Phase","marks":[],"ages":["a","c","d"]},"since":[],"turns":[["d",1795358498.3990226]]}}','[]',1.03785000192146981135e-04);
CREATE TABLE last_state (
  only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
  journal INTEGER NOT NULL,
  state TEXT NOT NULL
);
INSERT INTO "last_state" VALUES(1,16,'{"$":"State","max_parallel":3,"at_s":1795357598.3990226,"pool":{"$set":["n1#4300f4-14005","n2#4300f4-14006","n3#4300f4-14007"]},"active":[{"$":"Active","trainer":{"$":"Trainer","id":"a","curve":{"$":"Curve","nodes":[1,2],"per_s":[10.0,20.0]},"min_nodes":1,"max_nodes":2,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null},"nodes":{"$set":["n1#4300f4-14005"]},"samples_done":261.0,"admitted_s":1795357579.0885947,"run_s":17.969601154327393,"node_s":32.21004128456116,"losses":{"$":"Losses","first":3.188626569563045,"latest":1.2902991614137973,"at_samples":261.0,"per_sample":0.0032483482569286306},"submitted":null,"sized_s":1795357598.3990226},{"$":"Active","trainer":{"$":"Trainer","id":"c","curve":{"$":"Curve","nodes":[1,4],"per_s":[10.0,40.0]},"min_nodes":1,"max_nodes":4,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null},"nodes":{"$set":["n3#4300f4-14007"]},"samples_done":175.0,"admitted_s":1795357584.444629,"run_s":12.952817678451538,"node_s":14.758097171783447,"losses":{"$":"Losses","first":3.958801493553121,"latest":1.6889997207660055,"at_samples":175.0,"per_sample":0.00766970320104543},"submitted":null,"sized_s":1795357596.5969062},{"$":"Active","trainer":{"$":"Trainer","id":"d","curve":{"$":"Curve","nodes":[1,2],"per_s":[10.0,20.0]},"min_nodes":1,"max_nodes":2,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null},"nodes":{"$set":["n2#4300f4-14006"]},"samples_done":55.0,"admitted_s":1795357586.8068402,"run_s":5.2804811000823975,"node_s":5.2804811000823975,"losses":{"$":"Losses","first":4.271627750388923,"latest":3.301418999907714,"at_samples":55.0,"per_sample":0.023246656564724244},"submitted":null,"sized_s":1795357598.3990226}],"queue":[],"memory":{"$":"bftrainer.policies.guard:Patience","inner":{"$":"bftrainer.policies.loss_phase:Phase","marks":[],"ages":["a","c","d"]},"since":[],"turns":[["d",1795358498.3990226]]},"wake_at_s":1795358498.3990226,"classes":[["0 cpus",{"$set":["n1#4300f4-14005","n2#4300f4-14006","n3#4300f4-14007"]}]],"window_ends":[],"lessons":[]}');
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
INSERT INTO "settings" VALUES(1,1.79535757898302388187e+09,'0.1.0','loss-phase?iterations=20&batch_samples=1&guard_hours=0.0005','exact','throughput',120.0,0,3);
INSERT INTO "settings" VALUES(2,1.79535759339185285567e+09,'0.1.0','loss-phase?iterations=20&batch_samples=1&guard_hours=0.0005','exact','throughput',120.0,0,3);
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
