package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"codex-proxy/runner/setup"
)

// inside runs in the machine.
func inside(ctx context.Context) error {
	var j job
	if err := json.NewDecoder(os.Stdin).Decode(&j); err != nil {
		return err
	}
	list, err := chosen(j.Only)
	if err != nil {
		return err
	}
	var t table
	for _, p := range list {
		r := j.measure(ctx, p)
		fmt.Fprintln(os.Stderr, r.detail())
		if t = append(t, r); ctx.Err() != nil {
			break
		}
	}
	if _, err := fmt.Fprint(os.Stdout, t); err != nil {
		return err
	}
	if failed := len(t) - t.count(row.atOnce); failed > 0 {
		return fmt.Errorf("%d of %d projects did not work at once", failed, len(list))
	}
	return ctx.Err()
}

const (
	home = "/home/alice"
	path = "/usr/local/bin:/usr/bin:/bin"
)

// measure runs a project on the host and in the runner. A project that fails has a row with its fault.
func (j job) measure(ctx context.Context, p project) row {
	r := row{project: p, offline: j.Offline}
	dir := filepath.Join(home, p.name())
	if clone := j.alice(ctx, home, nil, "git", "clone", "--quiet", j.Origins+"/"+p.repository, dir); clone.status != 0 {
		r.fault = "cannot clone: " + clone.last()
		return r
	}
	session, err := j.session(dir)
	if err != nil {
		r.fault = err.Error()
		return r
	}
	r.sessions[0] = session(ctx, true, r.command)
	script, _, err := setup.Find(os.DirFS(dir), j.SetUp)
	if err != nil || script == nil {
		r.fault = fmt.Sprint("no set-up: ", err)
		return r
	}
	env := []string{"PATH=" + searchPath(script, dir)}
	for _, variables := range []map[string]string{script.Env, setup.Order{}.Variables()} {
		for name, value := range variables {
			env = append(env, name+"="+value)
		}
	}
	r.setUp = j.alice(ctx, dir, env, script.Args()...)
	host := func() outcome { return j.alice(ctx, dir, env, "sh", "-c", p.command) }
	r.host[0] = host()
	r.pair(func() outcome { return session(ctx, !j.Offline, r.command) }, host)
	r.start = session(ctx, true, "true")
	if j.Offline && r.atOnce() && !r.workedOffline() {
		r.hostOffline = j.aliceOffline(ctx, dir, env, "sh", "-c", p.command)
	}
	// The next project has the disk.
	_ = os.RemoveAll(dir)
	return r
}

// pair runs the command in a second session, and then on the host. What is short is run again, and the pair in the
// middle counts, or one in which the session failed.
func (r *row) pair(session, host func() outcome) {
	const most, short = 5, 20 * time.Second
	var all []row
	for began := time.Now(); len(all) == 0 || len(all) < most && time.Since(began) < short; {
		one := *r
		one.sessions[1], one.host[1] = session(), host()
		if all = append(all, one); !one.worked(1) {
			*r = one
			return
		}
	}
	slices.SortFunc(all, func(a, b row) int { return cmp.Compare(a.ratio(), b.ratio()) })
	*r = all[len(all)/2]
}

// session returns a function that runs a line in a session, which has the commit of the clone.
func (j job) session(dir string) (func(ctx context.Context, network bool, line string) outcome, error) {
	args := append([]string{"codex-runner", "run", "--repo", ".", "--timeout", "1h"}, trustOptions()...)
	if j.SetUp != "" {
		file := filepath.Join(home, "setup.toml")
		if err := os.WriteFile(file, []byte(j.SetUp), 0o644); err != nil { //nolint:gosec // alice reads it
			return nil, err
		}
		args = append(args, "--setup", file)
	}
	return func(ctx context.Context, network bool, line string) outcome {
		all := slices.Clone(args)
		if network {
			all = append(all, "--network")
		}
		return j.alice(ctx, dir, nil, append(all, "--", "sh", "-c", line)...)
	}, nil
}

func searchPath(script *setup.Script, dir string) (all string) {
	for _, d := range script.SearchPath(dir, home) {
		all += d + ":"
	}
	return all + path
}
