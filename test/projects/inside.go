package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

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
	if err := j.inSessions(ctx, dir, &r); err != nil {
		r.fault = err.Error()
		return r
	}
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
	for i := range r.host {
		r.host[i] = j.alice(ctx, dir, env, "sh", "-c", p.command)
	}
	// The next project has the disk.
	_ = os.RemoveAll(dir)
	return r
}

// inSessions runs the command in two sessions, and one that does nothing in a third. They come first: the host's command
// may leave files in the clone.
func (j job) inSessions(ctx context.Context, dir string, r *row) error {
	args := append([]string{"codex-runner", "run", "--repo", ".", "--timeout", "1h"}, trustOptions()...)
	if j.SetUp != "" {
		file := filepath.Join(home, "setup.toml")
		if err := os.WriteFile(file, []byte(j.SetUp), 0o644); err != nil { //nolint:gosec // alice reads it
			return err
		}
		args = append(args, "--setup", file)
	}
	for i := range r.sessions {
		all := slices.Clone(args)
		if i == 0 || !j.Offline {
			all = append(all, "--network")
		}
		r.sessions[i] = j.alice(ctx, dir, nil, append(all, "--", "sh", "-c", r.command)...)
	}
	r.start = j.alice(ctx, dir, nil, append(args, "--network", "--", "true")...)
	return nil
}

func searchPath(script *setup.Script, dir string) (all string) {
	for _, d := range script.SearchPath(dir, home) {
		all += d + ":"
	}
	return all + path
}
