package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"codex-proxy/test/bench/figures"
)

// beginning makes a repository of 1 000 files of about 4 KB.
const beginning = `set -e; export HOME=/root; mkdir -p /srv/repository; cd /srv/repository; git init -q -b main
git config user.name bench; git config user.email bench@example.org
for i in $(seq 1000); do d=d$((i % 40))/e$((i % 7)); mkdir -p $d; seq $i $((i + 800)) >$d/f$i; done
git add .; git commit -qm first`

// starts is how long `true` takes, beside systemd-run with the same sandbox.
func (b *bench) starts(ctx context.Context, t *bed) error {
	sandbox, err := b.sandbox()
	if err != nil {
		return err
	}
	commands := [][]string{
		{"codex-runner", "run", "--", "true"},
		append(append([]string{"systemd-run", "--quiet", "--wait", "--pipe"}, sandbox...), "true"),
	}
	var times [][]float64
	if err := t.inside(ctx, "times", question{Rounds: b.rounds, Commands: commands}, &times); err != nil {
		return err
	}
	added := make([]float64, b.rounds)
	for i := range added {
		added[i] = times[0][i] - times[1][i]
	}
	on := ", systemd " + t.systemd
	b.result.Add(figures.Row{What: "run -- true, p50, beside systemd-run with the same sandbox" + on, Unit: "ms", Limit: 100,
		Quiet: true, Values: map[string]float64{ours: median(times[0]), "beside": median(times[1])}})
	b.result.Add(figures.Row{What: "likewise, longer by, p50" + on, Unit: "ms", Limit: 40, Quiet: true,
		Values: map[string]float64{ours: median(added)}})

	return nil
}

// reuses is `true` in a workspace that is a checkout of the repository already.
func (b *bench) reuses(ctx context.Context, t *bed) error {
	if _, _, err := t.Run(ctx, "sh", "-c", beginning); err != nil {
		return err
	}
	commands := [][]string{{"codex-runner", "run", "--env", "none", "--repo", "/srv/repository", "--", "true"}}
	var times [][]float64
	if err := t.inside(ctx, "times", question{Rounds: b.rounds, Commands: commands}, &times); err != nil {
		return err
	}
	b.result.Add(figures.Row{What: "run --repo with 1 000 files, reused, -- true, p50, systemd " + t.systemd, Unit: "ms",
		Limit: 220, Quiet: true, Values: map[string]float64{ours: median(times[0])}})
	return nil
}

// sandbox returns the options of systemd-run for a unit with the sandbox of a session.
func (b *bench) sandbox() ([]string, error) {
	text, err := os.ReadFile(b.unit)
	if err != nil {
		return nil, err
	}
	_, sandbox, found := strings.Cut(string(text), "LimitCORE=0\n")
	if !found {
		return nil, fmt.Errorf("cannot find the sandbox in %s: it begins behind LimitCORE=0", b.unit)
	}
	options := []string{"--property=DynamicUser=yes", "--property=Slice=codex-sessions.slice"}
	for line := range strings.Lines(sandbox) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			options = append(options, "--property="+line)
		}
	}
	return options, nil
}

// output is 100 MB of output, through to a follower.
func (b *bench) output(ctx context.Context, t *bed) error {
	var got followed
	if err := t.inside(ctx, "output", question{Rounds: max(b.rounds/5, 3)}, &got); err != nil {
		return err
	}
	b.result.Add(figures.Row{What: "100 MB of output, through to a follower, p50 (150 MB/s)", Unit: "ms", Limit: 1000. / 1.5,
		Quiet: true, Values: map[string]float64{ours: median(got.Took)}})
	b.result.Add(figures.Row{What: "CPU of that, beside cat from a pipe to a file", Unit: "ms", Limit: 1.3 * median(got.Cat),
		Values: map[string]float64{ours: median(got.CPU), "beside": median(got.Cat)}})
	b.result.One("RSS of the daemon, added by that at most", "MiB", 16, slices.Max(got.Added))
	return nil
}

// many is 200 sessions at once, with 10 000 in the store.
func (b *bench) many(ctx context.Context, t *bed) error {
	var got crowd
	if err := t.inside(ctx, "many", question{Rounds: b.rounds}, &got); err != nil {
		return err
	}
	b.result.Add(figures.Row{What: "sessions, the newest 100 of 10 000, 200 of them at work, p50", Unit: "ms", Limit: 50,
		Quiet: true, Values: map[string]float64{ours: median(got.List)}})
	b.result.One("RSS of the daemon with these", "MiB", 40, got.Daemon)
	b.result.One("private memory of a session's main process, at most", "MiB", 8, slices.Max(got.Shims))
	return nil
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
