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
INSERT INTO "journal" VALUES(1,1700000000.0,1,'{"$":"Event","at_s":1700000000.0,"changes":[{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"a","curve":{"$":"Curve","nodes":[1,3],"per_s":[20.0,60.0]},"min_nodes":1,"max_nodes":3,"scale_up_s":1.0,"scale_down_s":0.5,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"","requested_nodes":null,"reports_loss":true,"node_class":null,"learning":{"$":"Learning","key":"","blank":false,"share":0.25,"window_s":2.0,"explore_after_s":120.0},"start_s":null,"from_zero_s":null,"fill":false}},{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"b","curve":{"$":"Curve","nodes":[1,3],"per_s":[10.0,30.0]},"min_nodes":1,"max_nodes":3,"scale_up_s":1.0,"scale_down_s":0.5,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"","requested_nodes":null,"reports_loss":true,"node_class":null,"learning":{"$":"Learning","key":"","blank":false,"share":0.25,"window_s":2.0,"explore_after_s":120.0},"start_s":null,"from_zero_s":null,"fill":false}},{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"c","curve":{"$":"Curve","nodes":[1,3],"per_s":[5.0,15.0]},"min_nodes":1,"max_nodes":3,"scale_up_s":1.0,"scale_down_s":0.5,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"","requested_nodes":null,"reports_loss":true,"node_class":null,"learning":{"$":"Learning","key":"","blank":false,"share":0.25,"window_s":2.0,"explore_after_s":120.0},"start_s":null,"from_zero_s":null,"fill":false}}],"samples_done":[],"losses":[],"window_ends":[],"measured":[],"all_joined":false}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0,0],"wake_at_s":null,"answer":{"$":"Answer","counts":[],"objective_value":0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]},"kept":"","blamed":[],"nodes":[]},"nodes":[{"$set":[]},{"$set":[]},{"$set":[]}],"memory":3}','[{"$":"Answer","counts":[],"objective_value":0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',3.72855000023264437913e-04);
INSERT INTO "journal" VALUES(2,1700000000.4,1,'{"$":"Event","at_s":1700000000.4,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#1","n2#2","n3#3"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#1","n2#2","n3#3"]}]]}],"samples_done":[],"losses":[],"window_ends":[],"measured":[],"all_joined":false}','{"$":"Plan","decision":{"$":"Decision","counts":[3,0,0],"wake_at_s":null,"answer":{"$":"Answer","counts":[3,0,0],"objective_value":720.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]},"kept":"","blamed":[],"nodes":[]},"nodes":[{"$set":["n1#1","n2#2","n3#3"]},{"$set":[]},{"$set":[]}],"memory":3}','[{"$":"Answer","counts":[3,0,0],"objective_value":720.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',0.00112736699998095);
INSERT INTO "journal" VALUES(3,1.70000000330458974837e+09,1,'{"$":"Event","at_s":1700000003.3045897,"changes":[{"$":"TimerDue"}],"samples_done":[["a",90.0]],"losses":[["a",1.0]],"window_ends":[],"measured":[],"all_joined":true}','{"$":"Plan","decision":{"$":"Decision","counts":[3,0,0],"wake_at_s":null,"answer":{"$":"Answer","counts":[3,0,0],"objective_value":720.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]},"kept":"","blamed":[],"nodes":[]},"nodes":[{"$set":["n1#1","n2#2","n3#3"]},{"$set":[]},{"$set":[]}],"memory":3}','[{"$":"Answer","counts":[3,0,0],"objective_value":720.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',7.19058999948174459859e-04);
INSERT INTO "journal" VALUES(4,1.70000000425637316702e+09,1,'{"$":"Event","at_s":1700000004.2563732,"changes":[{"$":"TimerDue"}],"samples_done":[["a",120.0]],"losses":[["a",0.7692307692307693]],"window_ends":[],"measured":[],"all_joined":true}','{"$":"Plan","decision":{"$":"Decision","counts":[3,0,0],"wake_at_s":null,"answer":{"$":"Answer","counts":[3,0,0],"objective_value":720.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]},"kept":"","blamed":[],"nodes":[]},"nodes":[{"$set":["n1#1","n2#2","n3#3"]},{"$set":[]},{"$set":[]}],"memory":3}','[{"$":"Answer","counts":[3,0,0],"objective_value":720.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',2.225969999471999472e-04);
INSERT INTO "journal" VALUES(5,1.70000000643961501119e+09,1,'{"$":"Event","at_s":1700000006.439615,"changes":[{"$":"PoolChanged","joined":{"$set":["n4#4","n5#5","n6#6"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n4#4","n5#5","n6#6"]}]]}],"samples_done":[["a",180.0]],"losses":[["a",0.5263157894736842]],"window_ends":[],"measured":[{"$":"RateSeen","trainer_id":"a","nodes":3,"samples_per_s":30.125636490222686,"seconds":2.9874887466430664}],"all_joined":false}','{"$":"Plan","decision":{"$":"Decision","counts":[3,3,0],"wake_at_s":null,"answer":{"$":"Answer","counts":[3,3,0],"objective_value":1302.857142857143,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]},"kept":"","blamed":[],"nodes":[]},"nodes":[{"$set":["n1#1","n2#2","n3#3"]},{"$set":["n4#4","n5#5","n6#6"]},{"$set":[]}],"memory":3}','[{"$":"Answer","counts":[3,3,0],"objective_value":1302.857142857143,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',1.30720500010284013114e-03);
INSERT INTO "journal" VALUES(6,1.7000000092533566952e+09,1,'{"$":"Event","at_s":1700000009.2533567,"changes":[{"$":"TimerDue"}],"samples_done":[["a",270.0],["b",90.0]],"losses":[["a",0.35714285714285715],["b",1.0]],"window_ends":[],"measured":[{"$":"RateSeen","trainer_id":"a","nodes":3,"samples_per_s":29.993361511881304,"seconds":3.000663995742798}],"all_joined":true}','{"$":"Plan","decision":{"$":"Decision","counts":[3,3,0],"wake_at_s":null,"answer":{"$":"Answer","counts":[3,3,0],"objective_value":1302.857142857143,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]},"kept":"","blamed":[],"nodes":[]},"nodes":[{"$set":["n1#1","n2#2","n3#3"]},{"$set":["n4#4","n5#5","n6#6"]},{"$set":[]}],"memory":3}','[{"$":"Answer","counts":[3,3,0],"objective_value":1302.857142857143,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',6.19047999862232245504e-04);
INSERT INTO "journal" VALUES(7,1.70000001005335688595e+09,1,'{"$":"Event","at_s":1700000010.053357,"changes":[{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"d","curve":{"$":"Curve","nodes":[1,3],"per_s":[8.0,24.0]},"min_nodes":1,"max_nodes":3,"scale_up_s":1.0,"scale_down_s":0.5,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"","requested_nodes":null,"reports_loss":true,"node_class":null,"learning":{"$":"Learning","key":"","blank":false,"share":0.25,"window_s":2.0,"explore_after_s":120.0},"start_s":null,"from_zero_s":null,"fill":false}}],"samples_done":[["a",300.0],["b",120.0]],"losses":[["a",0.3225806451612903],["b",0.7692307692307693]],"window_ends":[],"measured":[],"all_joined":true}','{"$":"Plan","decision":{"$":"Decision","counts":[3,3,0,0],"wake_at_s":null,"answer":{"$":"Answer","counts":[3,3,0,0],"objective_value":1337.142857142857,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]},"kept":"","blamed":[],"nodes":[]},"nodes":[{"$set":["n1#1","n2#2","n3#3"]},{"$set":["n4#4","n5#5","n6#6"]},{"$set":[]},{"$set":[]}],"memory":4}','[{"$":"Answer","counts":[3,3,0,0],"objective_value":1337.142857142857,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',9.03204999985973699949e-04);
INSERT INTO "journal" VALUES(8,1.70000001027003312106e+09,1,'{"$":"Event","at_s":1700000010.2700331,"changes":[{"$":"TimerDue"}],"samples_done":[["a",300.0],["b",120.0]],"losses":[["a",0.3225806451612903],["b",0.7692307692307693]],"window_ends":[],"measured":[],"all_joined":true}','{"$":"Plan","decision":{"$":"Decision","counts":[3,3,0,0],"wake_at_s":null,"answer":{"$":"Answer","counts":[3,3,0,0],"objective_value":1337.142857142857,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]},"kept":"","blamed":[],"nodes":[]},"nodes":[{"$set":["n1#1","n2#2","n3#3"]},{"$set":["n4#4","n5#5","n6#6"]},{"$set":[]},{"$set":[]}],"memory":4}','[{"$":"Answer","counts":[3,3,0,0],"objective_value":1337.142857142857,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',2.24377999984426423907e-04);
INSERT INTO "journal" VALUES(9,1.70000001411002349847e+09,1,'{"$":"Event","at_s":1700000014.1100235,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n2#2"]},"classes":[]},{"$":"TimerDue"}],"samples_done":[["a",420.0],["b",240.0]],"losses":[["a",0.23255813953488372],["b",0.4]],"window_ends":[],"measured":[{"$":"RateSeen","trainer_id":"a","nodes":3,"samples_per_s":29.870600971511514,"seconds":3.012995958328247},{"$":"RateSeen","trainer_id":"b","nodes":3,"samples_per_s":29.870600971511514,"seconds":3.012995958328247},{"$":"RateSeen","trainer_id":"b","nodes":3,"samples_per_s":29.426333326473454,"seconds":2.038990020751953},{"$":"RateSeen","trainer_id":"a","nodes":3,"samples_per_s":29.605358725830534,"seconds":3.039990186691284}],"all_joined":true}','{"$":"Plan","decision":{"$":"Decision","counts":[3,2,0,0],"wake_at_s":null,"answer":{"$":"Answer","counts":[3,2,0,0],"objective_value":1128.142857142857,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]},"kept":"","blamed":[],"nodes":[]},"nodes":[{"$set":["n1#1","n3#3","n6#6"]},{"$set":["n4#4","n5#5"]},{"$set":[]},{"$set":[]}],"memory":4}','[{"$":"Answer","counts":[3,2,0,0],"objective_value":1128.142857142857,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',7.49523999957091291435e-04);
INSERT INTO "journal" VALUES(10,1.70000001801990842818e+09,1,'{"$":"Event","at_s":1700000018.0199084,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n3#3"]},"classes":[]},{"$":"TimerDue"}],"samples_done":[["a",530.0],["b",320.0]],"losses":[["a",0.18518518518518517],["b",0.30303030303030304]],"window_ends":[],"measured":[],"all_joined":true}','{"$":"Plan","decision":{"$":"Decision","counts":[3,1,0,0],"wake_at_s":null,"answer":{"$":"Answer","counts":[3,1,0,0],"objective_value":922.8571428571429,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]},"kept":"","blamed":[],"nodes":[]},"nodes":[{"$set":["n1#1","n5#5","n6#6"]},{"$set":["n4#4"]},{"$set":[]},{"$set":[]}],"memory":4}','[{"$":"Answer","counts":[3,1,0,0],"objective_value":922.8571428571429,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',9.62573999913729494437e-04);
INSERT INTO "journal" VALUES(11,1.70000002017950892444e+09,1,'{"$":"Event","at_s":1700000020.179509,"changes":[{"$":"TrainerFinished","trainer_id":"a"}],"samples_done":[["b",340.0]],"losses":[["b",0.2857142857142857]],"window_ends":[],"measured":[],"all_joined":true}','{"$":"Plan","decision":{"$":"Decision","counts":[3,0,1],"wake_at_s":null,"answer":{"$":"Answer","counts":[3,0,1],"objective_value":919.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]},"kept":"","blamed":[],"nodes":[]},"nodes":[{"$set":["n1#1","n4#4","n5#5"]},{"$set":[]},{"$set":["n6#6"]}],"memory":4}','[{"$":"Answer","counts":[3,0,1],"objective_value":919.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',7.38508000040383194573e-04);
INSERT INTO "journal" VALUES(12,1.7000000239497053623e+09,1,'{"$":"Event","at_s":1700000023.9497054,"changes":[{"$":"TimerDue"}],"samples_done":[["b",430.0],["d",30.0]],"losses":[["b",0.22727272727272727],["d",2.5]],"window_ends":[],"measured":[],"all_joined":true}','{"$":"Plan","decision":{"$":"Decision","counts":[3,0,1],"wake_at_s":null,"answer":{"$":"Answer","counts":[3,0,1],"objective_value":920.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]},"kept":"","blamed":[],"nodes":[]},"nodes":[{"$set":["n1#1","n4#4","n5#5"]},{"$set":[]},{"$set":["n6#6"]}],"memory":4}','[{"$":"Answer","counts":[3,0,1],"objective_value":920.0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',7.19319000154428067617e-04);
INSERT INTO "journal" VALUES(13,1.70000002494970560073e+09,2,'{"$":"Event","at_s":1700000024.9497056,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n1#1","n4#4","n5#5","n6#6"]},"classes":[]},{"$":"TrainerSubmitted","trainer":{"$":"Trainer","id":"e","curve":{"$":"Curve","nodes":[1,3],"per_s":[4.0,12.0]},"min_nodes":1,"max_nodes":3,"scale_up_s":1.0,"scale_down_s":0.5,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"","requested_nodes":null,"reports_loss":true,"node_class":null,"learning":{"$":"Learning","key":"","blank":false,"share":0.25,"window_s":2.0,"explore_after_s":120.0},"start_s":null,"from_zero_s":null,"fill":false}}],"samples_done":[["b",460.0],["d",40.0]],"losses":[["b",0.2127659574468085],["d",2.0]],"window_ends":[],"measured":[],"all_joined":false}','{"$":"Plan","decision":{"$":"Decision","counts":[0,0,0,0],"wake_at_s":null,"answer":{"$":"Answer","counts":[],"objective_value":0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]},"kept":"","blamed":[],"nodes":[]},"nodes":[{"$set":[]},{"$set":[]},{"$set":[]},{"$set":[]}],"memory":4}','[{"$":"Answer","counts":[],"objective_value":0,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',6.30004999948141630738e-04);
INSERT INTO "journal" VALUES(14,1.70000002534970569615e+09,2,'{"$":"Event","at_s":1700000025.3497057,"changes":[{"$":"PoolChanged","joined":{"$set":["n1#7","n4#8","n5#9","n6#10"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n1#7","n4#8","n5#9","n6#10"]}]]}],"samples_done":[["b",460.0],["d",40.0]],"losses":[["b",0.2127659574468085],["d",2.0]],"window_ends":[],"measured":[],"all_joined":false}','{"$":"Plan","decision":{"$":"Decision","counts":[3,0,1,0],"wake_at_s":null,"answer":{"$":"Answer","counts":[3,0,1,0],"objective_value":925.7142857142857,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]},"kept":"","blamed":[],"nodes":[]},"nodes":[{"$set":["n1#7","n4#8","n5#9"]},{"$set":[]},{"$set":["n6#10"]},{"$set":[]}],"memory":4}','[{"$":"Answer","counts":[3,0,1,0],"objective_value":925.7142857142857,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',8.31584000025031855329e-04);
INSERT INTO "journal" VALUES(15,1.70000002825429534915e+09,2,'{"$":"Event","at_s":1700000028.2542953,"changes":[{"$":"TimerDue"}],"samples_done":[["b",550.0],["d",70.0]],"losses":[["b",0.17857142857142858],["d",1.25]],"window_ends":[],"measured":[],"all_joined":true}','{"$":"Plan","decision":{"$":"Decision","counts":[3,0,1,0],"wake_at_s":null,"answer":{"$":"Answer","counts":[3,0,1,0],"objective_value":925.7142857142857,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]},"kept":"","blamed":[],"nodes":[]},"nodes":[{"$set":["n1#7","n4#8","n5#9"]},{"$set":[]},{"$set":["n6#10"]},{"$set":[]}],"memory":4}','[{"$":"Answer","counts":[3,0,1,0],"objective_value":925.7142857142857,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',6.96165000135806621983e-04);
INSERT INTO "journal" VALUES(16,1.70000002920607876772e+09,2,'{"$":"Event","at_s":1700000029.2060788,"changes":[{"$":"TimerDue"}],"samples_done":[["b",580.0],["d",80.0]],"losses":[["b",0.1694915254237288],["d",1.1111111111111112]],"window_ends":[],"measured":[],"all_joined":false}','{"$":"Plan","decision":{"$":"Decision","counts":[3,0,1,0],"wake_at_s":null,"answer":{"$":"Answer","counts":[3,0,1,0],"objective_value":925.7142857142857,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]},"kept":"","blamed":[],"nodes":[]},"nodes":[{"$set":["n1#7","n4#8","n5#9"]},{"$set":[]},{"$set":["n6#10"]},{"$set":[]}],"memory":4}','[{"$":"Answer","counts":[3,0,1,0],"objective_value":925.7142857142857,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',1.88705000027766800485e-04);
INSERT INTO "journal" VALUES(17,1.70000002940607881549e+09,2,'{"$":"Event","at_s":1700000029.4060788,"changes":[{"$":"PoolChanged","joined":{"$set":["n2#11"]},"left":{"$set":[]},"classes":[["0 cpus",{"$set":["n2#11"]}]]}],"samples_done":[["b",580.0],["d",80.0]],"losses":[["b",0.1694915254237288],["d",1.1111111111111112]],"window_ends":[],"measured":[],"all_joined":false}','{"$":"Plan","decision":{"$":"Decision","counts":[3,0,1,0],"wake_at_s":1700000030.4060788,"answer":null,"kept":"","blamed":[],"nodes":[]},"nodes":[{"$set":["n1#7","n4#8","n5#9"]},{"$set":[]},{"$set":["n6#10"]},{"$set":[]}],"memory":{"$":"GatheringArrivals","until_s":1700000030.4060788,"inner":4}}','[{"$":"Answer","counts":[3,0,2,0],"objective_value":1130.5714285714284,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',8.45546999926227726973e-04);
INSERT INTO "journal" VALUES(18,1.70000003000607895851e+09,2,'{"$":"Event","at_s":1700000030.006079,"changes":[{"$":"TimerDue"}],"samples_done":[["b",610.0],["d",90.0]],"losses":[["b",0.16129032258064516],["d",1.0]],"window_ends":[],"measured":[{"$":"RateSeen","trainer_id":"b","nodes":3,"samples_per_s":30.125636490222686,"seconds":2.9874887466430664},{"$":"RateSeen","trainer_id":"d","nodes":1,"samples_per_s":10.041878830074229,"seconds":2.9874887466430664}],"all_joined":true}','{"$":"Plan","decision":{"$":"Decision","counts":[3,0,2,0],"wake_at_s":null,"answer":{"$":"Answer","counts":[3,0,2,0],"objective_value":1130.5714285714284,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]},"kept":"","blamed":[],"nodes":[]},"nodes":[{"$set":["n1#7","n4#8","n5#9"]},{"$set":[]},{"$set":["n2#11","n6#10"]},{"$set":[]}],"memory":4}','[{"$":"Answer","counts":[3,0,2,0],"objective_value":1130.5714285714284,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',7.40282000151637475937e-04);
INSERT INTO "journal" VALUES(19,1.70000003198932075499e+09,2,'{"$":"Event","at_s":1700000031.9893208,"changes":[{"$":"PoolChanged","joined":{"$set":[]},"left":{"$set":["n5#9"]},"classes":[]}],"samples_done":[["b",640.0],["d",110.0]],"losses":[["b",0.15384615384615385],["d",0.8333333333333334]],"window_ends":[],"measured":[],"all_joined":true}','{"$":"Plan","decision":{"$":"Decision","counts":[3,0,1,0],"wake_at_s":null,"answer":{"$":"Answer","counts":[3,0,1,0],"objective_value":922.8571428571429,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]},"kept":"","blamed":[],"nodes":[]},"nodes":[{"$set":["n1#7","n4#8","n6#10"]},{"$set":[]},{"$set":["n2#11"]},{"$set":[]}],"memory":4}','[{"$":"Answer","counts":[3,0,1,0],"objective_value":922.8571428571429,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',7.45004999998855055309e-04);
INSERT INTO "journal" VALUES(20,1.70000003400206232072e+09,2,'{"$":"Event","at_s":1700000034.0020623,"changes":[{"$":"TrainerFinished","trainer_id":"b"}],"samples_done":[["d",150.0]],"losses":[["d",0.625]],"window_ends":[],"measured":[],"all_joined":true}','{"$":"Plan","decision":{"$":"Decision","counts":[1,3,0],"wake_at_s":null,"answer":{"$":"Answer","counts":[1,3,0],"objective_value":918.9999999999999,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]},"kept":"","blamed":[],"nodes":[]},"nodes":[{"$set":["n1#7"]},{"$set":["n2#11","n4#8","n6#10"]},{"$set":[]}],"memory":4}','[{"$":"Answer","counts":[1,3,0],"objective_value":918.9999999999999,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',7.43228999908751575276e-04);
INSERT INTO "journal" VALUES(21,1.70000003790236163137e+09,2,'{"$":"Event","at_s":1700000037.9023616,"changes":[{"$":"TimerDue"}],"samples_done":[["c",30.0],["d",240.0]],"losses":[["c",2.5],["d",0.4]],"window_ends":[],"measured":[],"all_joined":true}','{"$":"Plan","decision":{"$":"Decision","counts":[1,3,0],"wake_at_s":null,"answer":{"$":"Answer","counts":[1,3,0],"objective_value":919.9999999999999,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]},"kept":"","blamed":[],"nodes":[]},"nodes":[{"$set":["n1#7"]},{"$set":["n2#11","n4#8","n6#10"]},{"$set":[]}],"memory":4}','[{"$":"Answer","counts":[1,3,0],"objective_value":919.9999999999999,"solver":"exact","status":{"$enum":"Status","name":"OPTIMAL"},"gap":0.0,"fallbacks":[]}]',8.0347099992650328204e-04);
CREATE TABLE last_state (
  only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
  journal INTEGER NOT NULL,
  state TEXT NOT NULL
);
INSERT INTO "last_state" VALUES(1,21,'{"$":"State","max_parallel":null,"at_s":1700000037.9023616,"pool":{"$set":["n1#7","n2#11","n4#8","n6#10"]},"active":[{"$":"Active","trainer":{"$":"Trainer","id":"c","curve":{"$":"Curve","nodes":[1,3],"per_s":[5.0,15.0]},"min_nodes":1,"max_nodes":3,"scale_up_s":1.0,"scale_down_s":0.5,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"","requested_nodes":null,"reports_loss":true,"node_class":null,"learning":{"$":"Learning","key":"","blank":false,"share":0.25,"window_s":2.0,"explore_after_s":120.0},"start_s":null,"from_zero_s":null,"fill":false},"nodes":{"$set":["n1#7"]},"samples_done":30.0,"admitted_s":1700000000.0,"run_s":3.900299310684204,"node_s":3.900299310684204,"losses":{"$":"Losses","first":2.5,"latest":2.5,"at_samples":30.0,"per_sample":null},"submitted":{"$":"Trainer","id":"c","curve":{"$":"Curve","nodes":[1,3],"per_s":[5.0,15.0]},"min_nodes":1,"max_nodes":3,"scale_up_s":1.0,"scale_down_s":0.5,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"","requested_nodes":null,"reports_loss":true,"node_class":null,"learning":{"$":"Learning","key":"","blank":false,"share":0.25,"window_s":2.0,"explore_after_s":120.0},"start_s":null,"from_zero_s":null,"fill":false},"sized_s":1700000034.0020623,"rescaling":null},{"$":"Active","trainer":{"$":"Trainer","id":"d","curve":{"$":"Curve","nodes":[1,3],"per_s":[10.041878830074229,30.125636490222682]},"min_nodes":1,"max_nodes":3,"scale_up_s":1.0,"scale_down_s":0.5,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"","requested_nodes":null,"reports_loss":true,"node_class":null,"learning":{"$":"Learning","key":"","blank":false,"share":0.25,"window_s":2.0,"explore_after_s":120.0},"start_s":null,"from_zero_s":null,"fill":false},"nodes":{"$set":["n2#11","n4#8","n6#10"]},"samples_done":240.0,"admitted_s":1700000010.053357,"run_s":17.322852611541748,"node_s":27.106693029403687,"losses":{"$":"Losses","first":2.5,"latest":0.4,"at_samples":240.0,"per_sample":0.0024999999999999996},"submitted":{"$":"Trainer","id":"d","curve":{"$":"Curve","nodes":[1,3],"per_s":[8.0,24.0]},"min_nodes":1,"max_nodes":3,"scale_up_s":1.0,"scale_down_s":0.5,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"","requested_nodes":null,"reports_loss":true,"node_class":null,"learning":{"$":"Learning","key":"","blank":false,"share":0.25,"window_s":2.0,"explore_after_s":120.0},"start_s":null,"from_zero_s":null,"fill":false},"sized_s":1700000034.0020623,"rescaling":null},{"$":"Active","trainer":{"$":"Trainer","id":"e","curve":{"$":"Curve","nodes":[1,3],"per_s":[4.0,12.0]},"min_nodes":1,"max_nodes":3,"scale_up_s":1.0,"scale_down_s":0.5,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"","requested_nodes":null,"reports_loss":true,"node_class":null,"learning":{"$":"Learning","key":"","blank":false,"share":0.25,"window_s":2.0,"explore_after_s":120.0},"start_s":null,"from_zero_s":null,"fill":false},"nodes":{"$set":[]},"samples_done":0.0,"admitted_s":1700000024.9497056,"run_s":0.0,"node_s":0.0,"losses":null,"submitted":{"$":"Trainer","id":"e","curve":{"$":"Curve","nodes":[1,3],"per_s":[4.0,12.0]},"min_nodes":1,"max_nodes":3,"scale_up_s":1.0,"scale_down_s":0.5,"samples_total":100000.0,"priority":1.0,"sizes":null,"model":"","requested_nodes":null,"reports_loss":true,"node_class":null,"learning":{"$":"Learning","key":"","blank":false,"share":0.25,"window_s":2.0,"explore_after_s":120.0},"start_s":null,"from_zero_s":null,"fill":false},"sized_s":0.0,"rescaling":null}],"queue":[],"memory":4,"wake_at_s":1700000041.5020623,"classes":[["0 cpus",{"$set":["n1#7","n2#11","n4#8","n6#10"]}]],"window_ends":[],"measurements":[["trainer a",{"$":"Measurements","points":[{"$":"RatePoint","nodes":3,"windows":[30.125636490222686,29.993361511881304,29.870600971511514,29.605358725830534],"seconds":12.041138887405396,"rate":29.93198124169641,"squares":0.00016441093973889567}],"ups":[],"downs":[],"starts":[],"from_zero":[]}],["trainer b",{"$":"Measurements","points":[{"$":"RatePoint","nodes":3,"windows":[29.870600971511514,29.426333326473454,30.125636490222686],"seconds":8.039474725723267,"rate":29.870600971511514,"squares":0.0002807282753053097}],"ups":[],"downs":[],"starts":[],"from_zero":[]}],["trainer d",{"$":"Measurements","points":[{"$":"RatePoint","nodes":1,"windows":[10.041878830074229],"seconds":2.9874887466430664,"rate":10.041878830074229,"squares":0.0}],"ups":[],"downs":[],"starts":[],"from_zero":[]}]],"kept":"","blamed":[],"grain":{"$enum":"Grain","name":"NODE"}}');
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
INSERT INTO "settings" VALUES(1,1700000000.0,'0.1.0','bftrainer','exact','fair',240.0,0,NULL,1.0);
INSERT INTO "settings" VALUES(2,1.70000002494970560073e+09,'0.1.0','bftrainer','exact','fair',240.0,0,NULL,1.0);
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
