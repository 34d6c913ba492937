import subprocess,time,os,signal
for s in (signal.SIGTERM,signal.SIGKILL):
    p=subprocess.Popen(["bash","ask.sh","sl.py"],start_new_session=True); time.sleep(1); p.send_signal(s); print(p.wait())
time.sleep(0.2)
