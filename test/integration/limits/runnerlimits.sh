# What TestLimits runs in an emulated machine, first in the place of codex-runner.service.
state=/var/lib/codex-runner run=/run/codex-runner/daemon
systemctl stop codex-runner.socket codex-runner.service
install -d -o codex-runner -g codex-runner -m 0700 $state $state/sessions $run/sessions $run/secrets
chmod 0755 $run

make() { # the session NAME with its one command; NAME is the beginning of its ID
	id=$(printf '%-16s' "$1" | tr ' ' 2)
	unit=codex-session@$id.service
	mkdir -p $state/sessions/$id/1 $run/secrets/$id
	cp /srv/$1.json $state/sessions/$id/1/spec.json
	printf 1 >$state/sessions/$id/current
	chown -R codex-runner:codex-runner $state/sessions/$id
}
keep() { # what the session NAME has left
	id=$(printf '%-16s' "$1" | tr ' ' 2)
	cp $state/sessions/$id/1/result.json /results/$1.result
	cp $state/sessions/$id/1/ended.json /results/$1.ended
}
phase() { # what the neighbour runs beside from now on
	echo "$1 $(date +%s.%N)" >>/results/phases
}

make neighbour
neighbour=$unit
systemctl start $neighbour
phase alone
sleep 1

make memory
phase memory
systemctl set-property --runtime $unit MemoryMax=48M
systemctl start --wait $unit
keep memory

make tasks
phase tasks
systemctl set-property --runtime $unit TasksMax=24
systemctl start --wait $unit
keep tasks

make bomb
phase bomb
systemctl set-property --runtime $unit TasksMax=100
systemctl start --wait $unit
keep bomb
ps -e -o comm= | grep -c '^bomb$' >/results/left || :

for name in disk output; do
	make $name
	phase $name
	systemctl start --wait $unit
	keep $name
done
phase end

systemctl is-active $neighbour
systemctl stop $neighbour
keep neighbour
cp $state/sessions/neighbour2222222/1/output /results/neighbour.output

: the daemon, while a command runs that it has started
systemctl start codex-runner.socket
id=$(codex-runner run --detach -- sleep 4321)
until systemctl is-active codex-session@$id.service; do sleep 1; done
systemctl set-property --runtime codex-runner.service MemoryMax=4M
until journalctl --quiet --unit=codex-runner.service --grep="Failed with result 'oom-kill'"; do sleep 1; done
systemctl set-property --runtime codex-runner.service MemoryMax=512M

: the clock is set, while the command runs
for step in +3day -5day; do
	date --set=$step
	codex-runner run -- true
	systemctl is-active codex-session@$id.service
done
codex-runner cancel "$id"
codex-runner logs --follow "$id"
codex-runner show --json "$id" >/results/lived
systemctl show codex-runner.service --property=NRestarts --value >/results/restarts-runner
