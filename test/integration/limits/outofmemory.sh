# What TestLimits runs in an emulated machine, as its second part. The worker "small" is a real codex, "default" a demo.
await() { # the Nth entry of the journal that matches
	[ "$(timeout 240 head -n "$1" < <(exec journalctl --quiet --follow --lines=all --output=cat "${@:2}") | wc -l)" = "$1" ]
}
ask() { curl -sS -m 300 -D "/results/$1.head" -o "/results/$1" -H 'Content-Type: application/json' --data-binary "@$2" http://127.0.0.1:8787/v1/chat/completions; }
small=codex-worker@small.service
slice=/sys/fs/cgroup/system.slice/system-codex.slice

systemd-run --unit=modelserver /usr/local/bin/modelserver
# A program of another user than root runs where it is: making its copy would take half of this emulation's time. Its
# pages are read here, or they would be charged to the worker.
chown nobody /usr/local/bin/codex
cat /usr/local/bin/codex >/dev/null
systemctl set-property $small MemoryMax=250M
systemctl start $small
await 1 CODEX_EVENT=worker-ready CODEX_WORKER=default
await 1 CODEX_EVENT=worker-ready CODEX_WORKER=small

sed -n 's/MemTotal: *//p' /proc/meminfo >/results/total
cat $slice/codex-worker@default.service/memory.max $slice/memory.max >/results/limits
cat /sys/fs/cgroup/system.slice/codex-proxy.service/memory.{high,max} >>/results/limits
cat $slice/codex-worker@default.service/memory.swap.max /sys/fs/cgroup/system.slice/codex-proxy.service/memory.swap.max >>/results/limits

: a tool that takes what there is
sh -c "echo \$\$ >$slice/$small/cgroup.procs; exec tail /dev/zero" && exit 1
await 1 CODEX_EVENT=shim-outlived-out-of-memory _SYSTEMD_UNIT=$small
codex-proxy status --json >/results/tool

: a request that takes codex past its limit, and is answered by the next one
systemctl set-property $small MemoryMax=40M
{
	printf '{"model":"small-model","messages":[{"role":"user","content":"'
	head -c 8000000 /dev/zero | tr '\0' a
	printf '"}]}'
} >/tmp/large
echo '{"model":"small-model","messages":[{"role":"user","content":"a"}]}' >/tmp/small
ask large /tmp/large &
asking=$!
await 1 CODEX_EVENT=worker-out-of-memory CODEX_WORKER=small
systemctl set-property $small MemoryMax=250M
codex-proxy status >/results/down
await 2 CODEX_EVENT=worker-ready CODEX_WORKER=small
wait $asking
codex-proxy status >/results/up
curl -sS http://127.0.0.1:8787/readyz >/results/readyz
curl -sS http://127.0.0.1:8787/metrics >/results/metrics
systemctl show codex-proxy.service --property=NRestarts --value >/results/restarts

: all workers together, of which the kernel takes that codex first
systemctl set-property --runtime system-codex.slice MemoryMax=200M
for pid in $(cat $slice/$small/cgroup.procs); do
	[ "$(cat /proc/"$pid"/comm)" != codex ] || echo 1000 >/proc/"$pid"/oom_score_adj
done
sh -c "echo \$\$ >$slice/codex-worker@default.service/cgroup.procs; exec tail /dev/zero" && exit 1
await 2 CODEX_EVENT=worker-out-of-memory CODEX_WORKER=small
systemctl set-property --runtime system-codex.slice MemoryMax=60%

: the daemon
systemctl set-property --runtime codex-proxy.service MemoryMax=4M
await 1 --unit=codex-proxy.service --grep="Failed with result 'oom-kill'"
systemctl set-property --runtime codex-proxy.service MemoryMax=35%
curl -sS -m 180 http://127.0.0.1:8787/livez >/results/again

: the clock is set
systemctl show codex-proxy.service --property=NRestarts --value >/results/steps
for step in +3day -5day; do
	date --set=$step
	ask stepped$step /tmp/small
	systemctl show codex-proxy.service --property=NRestarts --value >>/results/steps
done
