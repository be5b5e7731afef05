package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/environment"
	"codex-proxy/runner/exec"
	"codex-proxy/runner/job"
	"codex-proxy/runner/paths"
	"codex-proxy/runner/session"
	"codex-proxy/runner/store"
)

// Environments are the settings of the environments of sessions.
type Environments struct {
	Shared   bool          // among the sessions of all users
	MaxBytes int64         // of all on the disk; those that commands use stay
	Timeout  time.Duration // of a build
	Store    string        // the directory with the packages of all builds; "" is the network
	Network  BuildNetwork  // of builds without a store
}

// BuildNetwork selects the sessions that get environments with a build that needs the network.
type BuildNetwork string

// The values of a BuildNetwork.
const (
	BuildsForAll    BuildNetwork = "all"
	BuildsForOnline BuildNetwork = "online" // sessions that have the network
	BuildsForNone   BuildNetwork = "none"
)

// maxFacts bounds the facts that are kept for a user, in bytes.
const maxFacts = 64 << 10

// noEnvironment is the environment of a session that uses the packages of the host.
const noEnvironment = "none"

// environmentOf is the environment that a request asks for.
func environmentOf(n wire.NewSession) string {
	switch {
	case n.Environment != "":
		return n.Environment
	case n.Repository != "":
		return environment.Auto
	}
	return noEnvironment
}

func checkEnvironment(n wire.NewSession) error {
	name := environmentOf(n)
	if name == environment.Auto {
		return nil
	}
	if _, err := environment.Find(name); err != nil {
		return refuseAs(wire.EnvironmentUnknown, err)
	}
	return nil
}

// plannedEnvironment explains the environment of a session that would be made. Its key depends on the files of the
// workspace, which only a session can read, and on the tools of the host, so it is taken from the last such session.
func (r *Runner) plannedEnvironment(ctx context.Context, like store.New) (string, error) {
	name := like.Session.Environment
	if name == noEnvironment {
		return name, nil
	}
	last, err := r.Store.LastEnvironment(ctx, like)
	if err != nil {
		return "", err
	}
	if last == "" {
		return name + ": the manifests in the workspace decide on the key", nil
	}
	return name + ": " + last + ", unless the tools of the host have changed since the last session of this commit", nil
}

// environment returns the environment for the specification of a command.
func (r *Runner) environment(ctx context.Context, c store.Live) (*session.Environment, error) {
	if c.Environment == noEnvironment {
		return nil, nil //nolint:nilnil // as Spec.Environment has it
	}
	facts, err := r.Store.Facts(ctx, c.Owner)
	if err != nil {
		return nil, err
	}
	return &session.Environment{
		Owner: r.Environments.ownerOf(c.Owner), Name: c.Environment, Store: r.Environments.Store, Facts: facts,
		Wait: min(r.Environments.Timeout+waitSlack, session.MaxWait),
	}, nil
}

// ownerOf returns the owner of the environments that the sessions of a user use.
func (e Environments) ownerOf(user uint32) string {
	if e.Shared {
		return paths.Shared
	}
	return strconv.FormatUint(uint64(user), 10)
}

// waitSlack is how much longer a command waits than a build may take.
const waitSlack = time.Minute

// provide obtains the environment that a command waits for, and answers the command. It returns when that is done, or
// at the end of ctx; a build goes on then.
func (r *Runner) provide(ctx context.Context, c *run, need *exec.Need) {
	err := r.obtain(ctx, c, need)
	if ctx.Err() != nil {
		return
	}
	answer := exec.Request{Version: session.Version, Do: exec.Provide, Key: need.Key}
	if err != nil {
		answer.Fault = err.Error()
	}
	if err := r.request(ctx, c.Session, answer); err != nil && ctx.Err() == nil {
		r.Logger.Debug("the session does not answer", "session", c.Session, "error", err)
	}
}

// obtain returns when the environment is there, and leased until the end of the command. A sandbox sends the need: its
// key is computed anew, so that no session names the environment of another.
func (r *Runner) obtain(ctx context.Context, c *run, need *exec.Need) error {
	key := need.Order.Key()
	if key != need.Key {
		return fmt.Errorf("the session asks for the environment %.40q, but its order is that of %s", need.Key, key)
	}
	if need.Order.Store.Dir != r.Environments.Store || need.Order.Owner != r.Environments.ownerOf(c.Owner) {
		return errors.New("store or shared of [environments] has been changed meanwhile: run the command again")
	}
	if err := r.keepFacts(ctx, c.Owner, need.Facts); err != nil {
		return err
	}
	built := false
	for missing := need.Missing; ; {
		state, err := r.Store.LeaseEnvironment(ctx, c.Session, c.Number, key, time.Now())
		if err != nil {
			return err
		}
		if state == store.EnvironmentReady && !missing {
			if !built {
				r.recordHit()
			}
			return nil
		}
		j, err := r.join(ctx, c, key, need.Order)
		if err != nil {
			return err
		}
		select {
		case <-j.done:
		case <-ctx.Done():
			return ctx.Err()
		}
		if j.err != nil {
			return j.err
		}
		missing, built = false, !j.removes
	}
}

// keepFacts keeps the reports of tools for the next commands of the user.
func (r *Runner) keepFacts(ctx context.Context, owner uint32, facts environment.Facts) error {
	text, err := json.Marshal(facts)
	if err != nil || len(facts) == 0 || len(text) > maxFacts {
		return err
	}
	return r.Store.KeepFacts(ctx, owner, text)
}

// environmentJob builds or removes an environment, for all that wait for it.
type environmentJob struct {
	key, provider string
	unit          string
	order         *environment.Order // to build; nil for a build that an earlier daemon has started
	removes       bool
	bytes         int64 // that a removal frees

	done chan struct{}
	err  error // of a build; set before done is closed
}

// join returns the job of the environment that has not ended, or else a new one that builds it.
func (r *Runner) join(ctx context.Context, c *run, key string, order environment.Order) (*environmentJob, error) {
	written, err := r.writtenByCommand(ctx, c, key)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if j := r.state.environments[key]; j != nil {
		return j, nil
	}
	unit := paths.EnvironmentUnit(key)
	if order.Store.Dir == "" {
		unit = paths.OnlineEnvironmentUnit(key)
		if n := r.Environments.Network; n == BuildsForNone || n == BuildsForOnline && !c.Network {
			return nil, fmt.Errorf("the environment %s is not there, and may not be built with the network for this session: "+
				"network and store of [environments] in runner.toml decide", order.Provider)
		}
		if written && !c.Network {
			return nil, fmt.Errorf("the environment %s is not there, and is not built with the network, which this session does not "+
				"have, as a command may have written its manifests: commit them or send them as a patch, and make a new session",
				order.Provider)
		}
	}
	j := &environmentJob{key: key, provider: order.Provider, unit: unit, order: &order}
	r.state.begin(j)
	r.state.change(r.wake)
	return j, nil
}

// writtenByCommand reports whether a command of the session may have written the manifests of an environment: whether
// its key is another one than when the workspace was made.
func (r *Runner) writtenByCommand(ctx context.Context, c *run, key string) (bool, error) {
	made := c.Number
	for made > 1 && r.settled(c.Session, made) {
		made--
	}
	if made == c.Number {
		return false, nil
	}
	first, err := r.Store.EnvironmentOf(ctx, c.Session, made)
	return first != key, err
}

// begin has Run start a job. The environment must have no other job.
func (s *state) begin(j *environmentJob) {
	j.done = make(chan struct{})
	s.environments[j.key] = j
	s.environmentJobs = append(s.environmentJobs, j)
}

// newEnvironmentJobs takes the jobs that are to be started.
func (r *Runner) newEnvironmentJobs() []*environmentJob {
	r.mu.Lock()
	defer r.mu.Unlock()
	jobs := r.state.environmentJobs
	r.state.environmentJobs = nil
	return jobs
}

// work does a job. If ctx ends before, a unit that has started goes on, and the next daemon finds it.
func (r *Runner) work(ctx context.Context, j *environmentJob) {
	if j.removes {
		r.evict(ctx, j)
	} else {
		j.err = r.build(ctx, j)
	}
	if ctx.Err() != nil {
		return
	}
	r.mu.Lock()
	delete(r.state.environments, j.key)
	close(j.done)
	r.mu.Unlock()
	if !j.removes {
		r.makeRoom(ctx)
	}
}

// jobFile is the path of a file of the last build of an environment.
func (r *Runner) jobFile(key, name string) string {
	return filepath.Join(r.StateDir, paths.EnvironmentDir(key), name)
}

// writeOrder writes the files of a build that is about to start.
func (r *Runner) writeOrder(j *environmentJob) error {
	text, err := json.Marshal(job.Build{Version: job.Version, Order: *j.order, Bytes: r.Environments.MaxBytes})
	if err == nil {
		err = os.MkdirAll(filepath.Join(r.StateDir, paths.EnvironmentDir(j.key)), 0o700)
	}
	if err == nil {
		err = os.RemoveAll(r.jobFile(j.key, paths.Result)) // of an earlier build
	}
	if err == nil {
		err = replace(r.jobFile(j.key, paths.Order), text)
	}
	if err != nil {
		return fmt.Errorf("cannot write the order of an environment: %w", err)
	}
	return nil
}
