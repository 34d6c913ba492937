"""One small log of each format, made by hand after real ones: enough to be recognised, read and
mutated.
"""

from __future__ import annotations

SACCT = (
    b"JobID|Submit|Eligible|Start|End|NNodes|NodeList|State|JobName\n"
    b"1|2026-02-01T00:00:00|2026-02-01T00:00:00|2026-02-01T00:00:00|2026-02-01T01:00:00|1|cn1|COMPLETED|a\n"
    b"2|2026-02-01T00:00:00|2026-02-01T00:00:00|2026-02-01T00:00:00|2026-02-01T02:00:00|2|cn[2-3]|TIMEOUT|b c\n"
    b"3|2026-02-01T00:30:00|Unknown|2026-02-01T02:30:00|Unknown|3|cn[1-3]|RUNNING|d\n"
    b"3.0|2026-02-01T00:30:00|Unknown|2026-02-01T02:30:00|Unknown|3|cn[1-3]|RUNNING|d\n"
)
EXAMPLES: dict[str, bytes] = {
    "sacct": SACCT,
    "sacct-json": b'{"meta": {}, "jobs": [\n{"nodes": "n[1-2]", "allocation_nodes": 2, "state": {"current": ["COMPLETED"]}, '
    b'"time": {"submission": 1600000000, "eligible": 1600000000, "start": 1600000000, "end": {"set": true, "number": '
    b'1600000100}}},\n{"nodes": "n1", "allocation_nodes": 1, "state": {"current": "TIMEOUT"}, "time": {"submission": '
    b'1600000200, "eligible": 1600000200, "start": 1600000200, "end": 1600000300}}\n], "errors": []}\n',
    "jobcomp": b"JobId=1 UserId=u(1) Name=a JobState=COMPLETED Partition=p TimeLimit=6 StartTime=2026-02-01T00:00:00 EndTime="
    b"2026-02-01T01:00:00 NodeList=n[1-2] NodeCnt=2 SubmitTime=2026-02-01T00:00:00 EligibleTime=2026-02-01T00:00:00 \n"
    b"JobId=2 UserId=u(1) Name=a JobState=FAILED Partition=p TimeLimit=6 StartTime=2026-02-01T02:00:00 EndTime="
    b"2026-02-01T03:00:00 NodeList=n1 NodeCnt=1 SubmitTime=2026-02-01T02:00:00 EligibleTime=2026-02-01T02:00:00 \n",
    "lsb.acct": b'"JOB_FINISH" "10.1" 1600000100 17 1000 33554482 4 1600000000 0 0 1600000000 "u" "q" "" "" "" "l" "d" "" "o" '
    b'"e" "1.17" 0 2 "4*h1" "4*h2" 64 60.0 "n" "echo ""a"";#" 1.5 0.5 0 0\n'
    b'"JOB_FINISH" "9.11" 1600000300 18 1000 33554482 4 1600000200 0 0 1600000200 "u" "q" "" "" "" "l" "d" "" "o" '
    b'"e" "1.17" 1 "h1" 1 "h1" 32 60.0 "n" "x" 1.5 0.5 0 0\n"EVENT_ADRSV_FINISH" "10.1" 1600000400 1 2\n',
    "bhist": b"Job <1>, User <u>, Status <DONE>, Queue <q>, Command <x>\nWed Oct 14 20:00:00: Submitted from host <l>, 8 "
    b"Task(s);\nWed Oct 14 20:00:00: Dispatched 8 Task(s) on Host(s) <4*h1> <4*h2>, Allocated 8 Slot(s\n                  ) on "
    b"Host(s) <4*h1> <4*h2>;\nWed Oct 14 20:10:00: Completed <done>.\n\nJob <2>, User <u>, Status <EXIT>, Queue <q>\n"
    b"Wed Oct 14 20:20:00: Submitted from host <l>;\nWed Oct 14 20:21:00: Started on <h1>;\nWed Oct 14 20:30:00: Exited;\n",
    "pbs": b"09/13/2020 12:26:40;Q;1;queue=q\n09/13/2020 12:26:40;S;1;ctime=1600000000 start=1600000000 exec_host=h1/0*8+h2/0-3 "
    b"Resource_List.nodect=2\n09/13/2020 12:28:20;E;1;ctime=1600000000 start=1600000000 exec_host=h1/0*8+h2/0-3 "
    b"Resource_List.nodect=2 end=1600000100\n09/13/2020 12:30:00;E;2;qtime=1600000200 start=1600000200 "
    b"exec_host=h1/0 Resource_List.nodect=1 end=1600000300\n09/13/2020 12:33:20;S;3;ctime=1600000400 start=1600000400 "
    b"exec_host=h1/0+h2/0 Resource_List.nodect=2\n09/13/2020 12:33:30;z;3;\n09/13/2020 12:33:40;r;3;\n09/13/2020 12:33:50;c;3;"
    b"ctime=1600000400 start=1600000400 exec_host=h1/0 Resource_List.nodect=1\n09/13/2020 12:35:00;E;3;ctime=1600000400 "
    b"start=1600000400 exec_host=h1/0+h2/0 Resource_List.nodect=2 end=1600000500\n",
    "alcf": b",job,node_num,submit_time,wait_time,run_time\n0,1,2.0,1600000000,0,100.4\n1,2,1.0,1600000000,0,150\n"
    b"2,3,2.0,1600000050,250,100\n",
    "swf": b"; Version: 2.2\n; UnixStartTime: 1600000000\n; MaxNodes: 4\n; MaxProcs: 8\n1 0 0 100 4 -1 -1 4 9 -1 1 1 1 -1 1 -1 -1 -1"
    b"\n2 0 10 200 3 -1 -1 3 9 -1 1 1 1 -1 1 -1 -1 -1\n3 300 -1 50 2 -1 -1 2 9 -1 1 1 1 -1 1 -1 -1 -1\n",
    "events": b"time,joined,left\n2021-02-10T00:00:00,a b,\n2021-02-10T00:01:00,c,a\n2021-02-10T00:02:00,,b c\n",
}
SACCT_WITH_LINE_BREAKS = (
    b"JobID|JobName|Submit|Eligible|Start|End|NNodes|NodeList|State\n"
    b"1|a|2026-02-01T00:00:00|2026-02-01T00:00:00|2026-02-01T00:00:00|2026-02-01T01:00:00|1|cn1|COMPLETED\n"
    b"2|b\n#c\n\nd|2026-02-01T00:00:00|2026-02-01T00:00:00|2026-02-01T00:00:00|2026-02-01T02:00:00|2|cn[2-3]|RESIZING\n"
    b"2|b\nc|2026-02-01T02:00:00|2026-02-01T02:00:00|2026-02-01T00:00:00|2026-02-01T03:00:00|1|cn2|REQUEUED\n"
)
PBS_ARRAY = (
    b"09/13/2020 12:26:40;S;4[].s;ctime=1600000000 start=1600000000 array_indices=1-2 Resource_List.nodect=1\n"
    b"09/13/2020 12:28:20;E;4[1].s;ctime=1600000000 start=1600000000 exec_host=h1/0 Resource_List.nodect=1 end=1600000100\n"
    b"09/13/2020 12:30:00;E;4[2].s;ctime=1600000000 start=1600000200 exec_host=MIR-00000-7BFF1-0100-32768 "
    b"Resource_List.nodect=32768 end=1600000300\n09/13/2020 12:30:00;E;4[].s;ctime=1600000000 start=0 end=1600000300\n"
)
GPU_EVENTS = (
    b"# unit=gpu a:4 b:8\ntime,joined,left\n2021-01-01T00:00:00,a:3 b:8,\n2021-01-01T00:10:00,,a:1\n2021-01-01T00:20:00,a:2,\n"
    b"2021-01-01T01:00:00,,?\n"
)
RECORDED_EVENTS = (
    b"time,joined,left,nodes,waiting\n2026-01-01T00:00:00,a b,,4,4\n2026-01-01T00:00:20,,b,4,\n2026-01-01T00:01:00,,?,,\n"
    b"2026-01-01T00:10:00,b c,,4,4\n2026-01-01T00:10:20,a,b c,4,?\n"
)
