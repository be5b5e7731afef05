package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"codex-proxy/test/bench/figures"
)

// setUp adds a set-up to the repository, which leaves 1 GB in 60 000 files: half of them in the workspace.
const setUp = `cat >.codex-runner.toml <<'END'
inputs = ["set-up.py"]
run = "python3 set-up.py"
END
cat >set-up.py <<'END'
import os
for top in "node_modules", os.environ["HOME"] + "/.cache":
    for d in range(3000):
        name = f"{top}/{d % 60}/{d}"
        os.makedirs(name)
        for f in range(10):
            with open(f"{name}/{f}", "w") as file:
                file.write(str(f) * 17000)
END
echo /node_modules >.gitignore; git add .; git commit -qm set-up`

// few sessions at once keep few workspaces: each has 1 GB where overlays do not work.
const few = "max_sessions = 10\nworkspaces = 12\n[environments]\nnetwork = \"none\"\nmax_bytes = \"20G\"\n"

// quiet waits until nothing of a session runs.
var quiet = []string{"sh", "-c",
	"while systemctl list-units --all --no-legend --plain 'codex-session@*' 'codex-sweep@*' | grep -q .; do sleep 0.02; done"}

// snapshots measures sessions that begin with a snapshot, beside ones without: in the machine, whose file system cannot
// have the changes of an overlay, so that each file is copied, and then with overlays, on a file system in memory.
func (b *bench) snapshots(ctx context.Context, t *bed) error {
	script := beginning + "\ncp -r . /srv/plain\n" + setUp + "\nsystemctl stop codex-runner.socket codex-runner.service\ncat >/etc/codex-runner/runner.toml <<'END'\n" +
		few + "END\nsystemctl start codex-runner.socket"
	if err := t.script(ctx, script); err != nil {
		return err
	}
	if err := b.snapshot(ctx, t, "each file copied", 1500, max(b.rounds/5, 3)); err != nil {
		return err
	}
	move := "systemctl stop codex-runner.socket codex-runner.service\n" + quiet[2] + `
rm -rf /var/lib/codex-runner /var/lib/private/codex-* /var/lib/codex-environment /var/lib/codex-workspace/*
mount -t tmpfs -o size=8g tmpfs /mnt; cp -a /var/lib/. /mnt; mount --bind /mnt /var/lib; systemctl start codex-runner.socket`
	if err := t.script(ctx, move); err != nil {
		return err
	}
	if err := b.snapshot(ctx, t, "overlays", 60, b.rounds); err != nil {
		return err
	}
	return b.shared(ctx, t)
}

// snapshot measures how much longer `true` takes with a snapshot than in a workspace of the same files without one.
func (b *bench) snapshot(ctx context.Context, t *bed, how string, limit float64, rounds int) error {
	without := []string{"codex-runner", "run", "--env", "none", "--repo", "/srv/plain", "--", "true"}
	with := []string{"codex-runner", "run", "--env", "setup", "--repo", "/srv/repository", "--", "true"}
	var times [][]float64
	if err := t.inside(ctx, "times", question{Rounds: rounds, Commands: [][]string{without, with}, Between: quiet}, &times); err != nil {
		return err
	}
	added := make([]float64, rounds)
	for i := range added {
		added[i] = times[1][i] - times[0][i]
	}
	b.result.Add(figures.Row{What: "run -- true with a snapshot of 1 GB in 60 000 files, beside none, p50, " + how, Unit: "ms", Quiet: true,
		Values: map[string]float64{ours: median(times[1]), "beside": median(times[0])}})
	b.result.Add(figures.Row{What: "likewise, longer by, p50, " + how, Unit: "ms", Limit: limit, Quiet: true,
		Values: map[string]float64{ours: median(added)}})
	return nil
}

// shared measures the disk of ten sessions of one snapshot.
func (b *bench) shared(ctx context.Context, t *bed) error {
	const du = "du --summarize --one-file-system --block-size=1 --total "
	snapshot, err := t.number(ctx, du+"/var/lib/codex-environment | tail -n 1 | cut -f 1")
	if err != nil {
		return err
	}
	const ten = `for i in 1 2 3 4 5 6 7 8 9 10; do
codex-runner run --keep --env setup --repo /srv/repository -- sh -c 'echo own >own; echo own >$HOME/own; echo more >>node_modules/0/0/0'; done; `
	all, err := t.number(ctx, ten+strings.Join(quiet[2:], "")+"; "+du+
		"/var/lib/codex-environment /var/lib/codex-workspace /var/lib/private/codex-session | tail -n 1 | cut -f 1")
	if err != nil {
		return err
	}
	b.result.One("disk of a snapshot and ten sessions with it, of the snapshot's", "times", 1.2, all/snapshot)
	return nil
}

// script runs a script in the machine.
func (t *bed) script(ctx context.Context, text string) error {
	_, errOut, err := t.Run(ctx, "sh", "-ec", text)
	if err != nil {
		return fmt.Errorf("%w: %s", err, errOut)
	}
	return nil
}

// number is what a script prints.
func (t *bed) number(ctx context.Context, script string) (float64, error) {
	out, errOut, err := t.Run(ctx, "sh", "-ec", script)
	if err != nil {
		return 0, fmt.Errorf("%w: %s", err, errOut)
	}
	return strconv.ParseFloat(strings.TrimSpace(out), 64)
}
