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
INSERT INTO "journal" VALUES(1,1.79535752388059163093e+09,1,'{"$":"Event","at_s":1795357523.8805916,"changes":[{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"a","curve":{"$":"Curve","nodes":[1,2],"per_s":[10.0,20.0]},"min_nodes":1,"max_nodes":2,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}},{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"b","curve":{"$":"Curve","nodes":[1,3],"per_s":[10.0,30.0]},"min_nodes":1,"max_nodes":3,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}}],"samples_done":[],"losses":[],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0],"wake_at_s":null,"answer":{"$":"Answer","counts":[0,0],"objective_value":0.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":[]},{"$set":[]}],"memory":{"$":"bftrainer.policies.guard:Patience","inner":null,"since":[],"turns":[]}}','[{"$":"Answer","counts":[0,0],"objective_value":0.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',6.12893999914376763626e-04);
INSERT INTO "journal" VALUES(2,1.79535752429274725913e+09,1,'{"$":"Event","at_s":1795357524.2927473,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#ab4347-1","n2#ab4347-2","n3#ab4347-3"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#ab4347-1","n2#ab4347-2","n3#ab4347-3"]}]]}],"samples_done":[],"losses":[],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,3],"wake_at_s":1795357526.0927472,"answer":{"$":"Answer","counts":[0,3],"objective_value":3600.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":[]},{"$set":["n1#ab4347-1","n2#ab4347-2","n3#ab4347-3"]}],"memory":{"$":"bftrainer.policies.guard:Patience","inner":null,"since":[["a",1795357524.2927473]],"turns":[]}}','[{"$":"Answer","counts":[0,3],"objective_value":3600.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',5.11994000135018723085e-04);
INSERT INTO "journal" VALUES(3,1.79535752609876632693e+09,1,'{"$":"Event","at_s":1795357526.0987663,"changes":[{"$":"TimerDue"}],"samples_done":[["b",21.0]],"losses":[["b",4.238911472885034]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,2],"wake_at_s":1795358426.0987663,"answer":null},"nodes":[{"$set":["n3#ab4347-3"]},{"$set":["n1#ab4347-1","n2#ab4347-2"]}],"memory":{"$":"bftrainer.policies.guard:Patience","inner":null,"since":[],"turns":[["a",1795358426.0987663]]}}','[{"$":"Answer","counts":[0,3],"objective_value":3600.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',5.67735999993601581081e-04);
INSERT INTO "journal" VALUES(4,1.79535752832134270669e+09,1,'{"$":"Event","at_s":1795357528.3213427,"changes":[{"$":"PoolChanged","joined":{"$set":["n4#ab4347-4"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n4#ab4347-4"]}]]}],"samples_done":[["a",21.0],["b",60.0]],"losses":[["a",4.238911472885034],["b",3.188626569563045]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,2],"wake_at_s":1795358426.0987663,"answer":{"$":"Answer","counts":[2,2],"objective_value":4798.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":["n3#ab4347-3","n4#ab4347-4"]},{"$set":["n1#ab4347-1","n2#ab4347-2"]}],"memory":{"$":"bftrainer.policies.guard:Patience","inner":null,"since":[],"turns":[["a",1795358426.0987663]]}}','[{"$":"Answer","counts":[2,2],"objective_value":4798.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',5.03628199976446921937e-03);
INSERT INTO "journal" VALUES(5,1.7953575301183595657e+09,1,'{"$":"Event","at_s":1795357530.1183596,"changes":[{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"c","curve":{"$":"Curve","nodes":[1,4],"per_s":[10.0,40.0]},"min_nodes":1,"max_nodes":4,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}}],"samples_done":[["a",60.0],["b",100.0]],"losses":[["a",3.188626569563045],["b",2.4641293650929166]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,2,0],"wake_at_s":1795357531.9183595,"answer":{"$":"Answer","counts":[2,2,0],"objective_value":4800.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":["n3#ab4347-3","n4#ab4347-4"]},{"$set":["n1#ab4347-1","n2#ab4347-2"]},{"$set":[]}],"memory":{"$":"bftrainer.policies.guard:Patience","inner":null,"since":[["c",1795357530.1183596]],"turns":[["a",1795358426.0987663]]}}','[{"$":"Answer","counts":[2,2,0],"objective_value":4800.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',5.84591999995609512552e-04);
INSERT INTO "journal" VALUES(6,1.79535753097635316852e+09,1,'{"$":"Event","at_s":1795357530.9763532,"changes":[{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"d","curve":{"$":"Curve","nodes":[1,2],"per_s":[10.0,20.0]},"min_nodes":1,"max_nodes":2,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null}}],"samples_done":[["a",74.0],["b",120.0]],"losses":[["a",2.901360168022828],["b",2.197521565249325]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,2,0],"wake_at_s":1795357531.9183595,"answer":{"$":"Answer","counts":[2,2,0],"objective_value":4800.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":["n3#ab4347-3","n4#ab4347-4"]},{"$set":["n1#ab4347-1","n2#ab4347-2"]},{"$set":[]}],"memory":{"$":"bftrainer.policies.guard:Patience","inner":null,"since":[["c",1795357530.1183596]],"turns":[["a",1795358426.0987663]]}}','[{"$":"Answer","counts":[2,2,0],"objective_value":4800.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',8.58339999922463903203e-04);
INSERT INTO "journal" VALUES(7,1.79535753110370874404e+09,1,'{"$":"Event","at_s":1795357531.1037087,"changes":[{"$":"TrainerFinished","trainer_id":"b"}],"samples_done":[["a",74.0]],"losses":[["a",2.901360168022828]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,2,0],"wake_at_s":1795357532.9037087,"answer":{"$":"Answer","counts":[2,2,0],"objective_value":4800.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":["n3#ab4347-3","n4#ab4347-4"]},{"$set":["n1#ab4347-1","n2#ab4347-2"]},{"$set":[]}],"memory":{"$":"bftrainer.policies.guard:Patience","inner":null,"since":[["d",1795357531.1037087]],"turns":[["a",1795358426.0987663]]}}','[{"$":"Answer","counts":[2,2,0],"objective_value":4800.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',5.86938400010694749653e-03);
INSERT INTO "journal" VALUES(8,1.79535753280815887455e+09,1,'{"$":"Event","at_s":1795357532.8081589,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n1#ab4347-1"]},"classes":[]}],"samples_done":[["a",100.0],["c",21.0]],"losses":[["a",2.4641293650929166],["c",4.238911472885034]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,1,0],"wake_at_s":1795357532.9037087,"answer":{"$":"Answer","counts":[2,1,0],"objective_value":3600.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":["n3#ab4347-3","n4#ab4347-4"]},{"$set":["n2#ab4347-2"]},{"$set":[]}],"memory":{"$":"bftrainer.policies.guard:Patience","inner":null,"since":[["d",1795357531.1037087]],"turns":[["a",1795358426.0987663]]}}','[{"$":"Answer","counts":[2,1,0],"objective_value":3600.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',5.29800000094837741926e-04);
INSERT INTO "journal" VALUES(9,1.79535753290450525278e+09,1,'{"$":"Event","at_s":1795357532.9045053,"changes":[{"$":"TimerDue"}],"samples_done":[["a",114.0],["c",21.0]],"losses":[["a",2.271956255276574],["c",4.238911472885034]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,0,1],"wake_at_s":1795357534.7045052,"answer":null},"nodes":[{"$set":["n3#ab4347-3","n4#ab4347-4"]},{"$set":[]},{"$set":["n2#ab4347-2"]}],"memory":{"$":"bftrainer.policies.guard:Patience","inner":null,"since":[["c",1795357532.9045053]],"turns":[["a",1795358426.0987663],["d",1795358432.9045053]]}}','[{"$":"Answer","counts":[2,1,0],"objective_value":3600.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',3.71303800011446583084e-03);
INSERT INTO "journal" VALUES(10,1.79535753474065399174e+09,1,'{"$":"Event","at_s":1795357534.740654,"changes":[{"$":"TimerDue"}],"samples_done":[["a",140.0],["c",21.0],["d",10.0]],"losses":[["a",1.979461196139718],["c",4.238911472885034],["d",4.617528300035218]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,0,1],"wake_at_s":1795358426.0987663,"answer":{"$":"Answer","counts":[2,0,1],"objective_value":3600.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":["n3#ab4347-3","n4#ab4347-4"]},{"$set":[]},{"$set":["n2#ab4347-2"]}],"memory":{"$":"bftrainer.policies.guard:Patience","inner":null,"since":[["c",1795357532.9045053]],"turns":[["a",1795358426.0987663],["d",1795358432.9045053]]}}','[{"$":"Answer","counts":[2,0,1],"objective_value":3600.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',6.57410000258096260949e-04);
INSERT INTO "journal" VALUES(11,1.79535753681839275359e+09,1,'{"$":"Event","at_s":1795357536.8183928,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n2#ab4347-2"]},"classes":[]}],"samples_done":[["a",180.0],["c",21.0],["d",50.0]],"losses":[["a",1.6552318788323497],["c",4.238911472885034],["d",3.4200242685501454]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,0,0],"wake_at_s":1795357538.6183927,"answer":{"$":"Answer","counts":[2,0,0],"objective_value":2400.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":["n3#ab4347-3","n4#ab4347-4"]},{"$set":[]},{"$set":[]}],"memory":{"$":"bftrainer.policies.guard:Patience","inner":null,"since":[["c",1795357532.9045053],["d",1795357536.8183928]],"turns":[["a",1795358426.0987663]]}}','[{"$":"Answer","counts":[2,0,0],"objective_value":2400.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',4.93286000164516735821e-04);
INSERT INTO "journal" VALUES(12,1.79535754064325976369e+09,2,'{"$":"Event","at_s":1795357540.6432598,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n3#ab4347-3","n4#ab4347-4"]},"classes":[]},{"$":"TimerDue"}],"samples_done":[["a",202.0],["c",21.0],["d",50.0]],"losses":[["a",1.5252539173131532],["c",4.238911472885034],["d",3.4200242685501454]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0,0],"wake_at_s":null,"answer":{"$":"Answer","counts":[0,0,0],"objective_value":0.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":[]},{"$set":[]},{"$set":[]}],"memory":{"$":"bftrainer.policies.guard:Patience","inner":null,"since":[],"turns":[]}}','[{"$":"Answer","counts":[0,0,0],"objective_value":0.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',5.51011999959882814437e-04);
INSERT INTO "journal" VALUES(13,1.79535754101467418669e+09,2,'{"$":"Event","at_s":1795357541.0146742,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#ab4347-16001","n3#ab4347-16002"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#ab4347-16001","n3#ab4347-16002"]}]]}],"samples_done":[["a",202.0],["c",21.0],["d",50.0]],"losses":[["a",1.5252539173131532],["c",4.238911472885034],["d",3.4200242685501454]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,0,0],"wake_at_s":1795357542.8146741,"answer":{"$":"Answer","counts":[2,0,0],"objective_value":2400.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":["n1#ab4347-16001","n3#ab4347-16002"]},{"$set":[]},{"$set":[]}],"memory":{"$":"bftrainer.policies.guard:Patience","inner":null,"since":[["c",1795357541.0146742],["d",1795357541.0146742]],"turns":[]}}','[{"$":"Answer","counts":[2,0,0],"objective_value":2400.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',4.99675000355637166649e-04);
INSERT INTO "journal" VALUES(14,1.79535754119278740878e+09,2,'{"$":"Event","at_s":1795357541.1927874,"changes":[{"$":"PoolChanged","joined":{"$set":["n2#ab4347-16003"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n2#ab4347-16003"]}]]}],"samples_done":[["a",202.0],["c",21.0],["d",50.0]],"losses":[["a",1.5252539173131532],["c",4.238911472885034],["d",3.4200242685501454]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,1,0],"wake_at_s":1795357542.8146741,"answer":{"$":"Answer","counts":[2,1,0],"objective_value":3600.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":["n1#ab4347-16001","n3#ab4347-16002"]},{"$set":["n2#ab4347-16003"]},{"$set":[]}],"memory":{"$":"bftrainer.policies.guard:Patience","inner":null,"since":[["d",1795357541.0146742]],"turns":[]}}','[{"$":"Answer","counts":[2,1,0],"objective_value":3600.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',5.22018000083335209637e-04);
INSERT INTO "journal" VALUES(15,1.7953575428236517906e+09,2,'{"$":"Event","at_s":1795357542.8236518,"changes":[{"$":"TimerDue"}],"samples_done":[["a",230.0],["c",41.0],["d",50.0]],"losses":[["a",1.3964192620754987],["c",3.649128163935934],["d",3.4200242685501454]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[1,1,1],"wake_at_s":1795358442.8236518,"answer":null},"nodes":[{"$set":["n1#ab4347-16001"]},{"$set":["n2#ab4347-16003"]},{"$set":["n3#ab4347-16002"]}],"memory":{"$":"bftrainer.policies.guard:Patience","inner":null,"since":[],"turns":[["d",1795358442.8236518]]}}','[{"$":"Answer","counts":[2,1,0],"objective_value":3600.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',7.29437999780202517285e-04);
INSERT INTO "journal" VALUES(16,1.79535754520555377007e+09,2,'{"$":"Event","at_s":1795357545.2055538,"changes":[{"$":"PoolChanged","joined":{"$set":["n4#ab4347-16004"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n4#ab4347-16004"]}]]}],"samples_done":[["a",260.0],["c",81.0],["d",71.0]],"losses":[["a",1.2932314761755528],["c",2.77219192650469],["d",2.95956109201682]],"window_ends":[],"measured":[]}','{"$":"Plan","decision":{"$":"Decision","counts":[2,1,1],"wake_at_s":1795358442.8236518,"answer":{"$":"Answer","counts":[2,1,1],"objective_value":4798.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}},"nodes":[{"$set":["n1#ab4347-16001","n4#ab4347-16004"]},{"$set":["n2#ab4347-16003"]},{"$set":["n3#ab4347-16002"]}],"memory":{"$":"bftrainer.policies.guard:Patience","inner":null,"since":[],"turns":[["d",1795358442.8236518]]}}','[{"$":"Answer","counts":[2,1,1],"objective_value":4798.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',7.94105000295530771836e-04);
CREATE TABLE last_state (
  only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
  journal INTEGER NOT NULL,
  state TEXT NOT NULL
);
INSERT INTO "last_state" VALUES(1,16,'{"$":"State","max_parallel":3,"at_s":1795357545.2055538,"pool":{"$set":["n1#ab4347-16001","n2#ab4347-16003","n3#ab4347-16002","n4#ab4347-16004"]},"active":[{"$":"Active","trainer":{"$":"Trainer","id":"a","curve":{"$":"Curve","nodes":[1,2],"per_s":[10.0,20.0]},"min_nodes":1,"max_nodes":2,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null},"nodes":{"$set":["n1#ab4347-16001","n4#ab4347-16004"]},"samples_done":260.0,"admitted_s":1795357523.8805916,"run_s":18.73537302017212,"node_s":32.866267681121826,"losses":{"$":"Losses","first":4.238911472885034,"latest":1.2932314761755528,"at_samples":260.0,"per_sample":0.003439592863331531},"submitted":null,"sized_s":1795357545.2055538},{"$":"Active","trainer":{"$":"Trainer","id":"c","curve":{"$":"Curve","nodes":[1,4],"per_s":[10.0,40.0]},"min_nodes":1,"max_nodes":4,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null},"nodes":{"$set":["n2#ab4347-16003"]},"samples_done":81.0,"admitted_s":1795357530.1183596,"run_s":5.813562870025635,"node_s":7.518013000488281,"losses":{"$":"Losses","first":4.238911472885034,"latest":2.77219192650469,"at_samples":81.0,"per_sample":0.02192340593578109},"submitted":null,"sized_s":1795357541.1927874},{"$":"Active","trainer":{"$":"Trainer","id":"d","curve":{"$":"Curve","nodes":[1,2],"per_s":[10.0,20.0]},"min_nodes":1,"max_nodes":2,"scale_up_s":0.2,"scale_down_s":0.1,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"restart","requested_nodes":2,"reports_loss":true,"node_class":null,"learning":null},"nodes":{"$set":["n3#ab4347-16002"]},"samples_done":71.0,"admitted_s":1795357531.1037087,"run_s":6.295789480209351,"node_s":6.295789480209351,"losses":{"$":"Losses","first":4.617528300035218,"latest":2.95956109201682,"at_samples":71.0,"per_sample":0.02192681793015836},"submitted":null,"sized_s":1795357542.8236518}],"queue":[],"memory":{"$":"bftrainer.policies.guard:Patience","inner":null,"since":[],"turns":[["d",1795358442.8236518]]},"wake_at_s":1795358442.8236518,"classes":[["0 cpus",{"$set":["n1#ab4347-16001","n2#ab4347-16003","n3#ab4347-16002","n4#ab4347-16004"]}]],"window_ends":[],"lessons":[]}');
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
INSERT INTO "settings" VALUES(1,1.79535752381185436245e+09,'0.1.0','bftrainer?guard_hours=0.0005','exact','throughput',120.0,0,3);
INSERT INTO "settings" VALUES(2,1.79535754059548139575e+09,'0.1.0','bftrainer?guard_hours=0.0005','exact','throughput',120.0,0,3);
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
