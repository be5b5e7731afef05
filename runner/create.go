package runner

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/logs"
	"codex-proxy/runner/session"
	"codex-proxy/runner/store"
)

const (
	maxCommands   = 100 // of one request
	maxSecrets    = 64
	maxSecretSize = 64 << 10
)

// newID returns the ID of a new session: 80 random bits.
func newID() string {
	bits := make([]byte, 10)
	_, _ = rand.Read(bits) // it cannot fail
	return strings.ToLower(base32.StdEncoding.EncodeToString(bits))
}

// Create makes a session and queues its commands. Its errors are *wire.Error about the request, or faults of the
// daemon.
func (r *Runner) Create(ctx context.Context, owner wire.Owner, n wire.NewSession) (wire.Session, error) {
	commands, err := r.check(n)
	if err == nil {
		err = r.roomy()
	}
	if err != nil {
		return wire.Session{}, err
	}
	from, release, err := r.resolve(ctx, owner, n)
	if err != nil {
		return wire.Session{}, err
	}
	defer release()
	created := wire.Session{
		ID: newID(), Owner: owner, Created: time.Now().UTC(), Environment: environmentOf(n),
		Repository: from.repository.Name(), Ref: from.ref, Commit: from.commit, Patch: hash(n.Patch),
		Network: n.Network, Secrets: slices.Sorted(maps.Keys(n.Secrets)),
	}
	err = r.makeSession(created.ID, n.Secrets)
	if err == nil && n.Patch != "" {
		err = r.keepPatch(created.ID, n.Patch)
	}
	if err != nil {
		return created, err
	}
	err = r.admit(owner.UID, len(commands), func() error {
		if err := r.Store.Create(ctx, store.New{
			Session: created, Repository: from.repository.Key, Hold: time.Duration(n.HoldOnFailure), Commands: commands,
		}); err != nil {
			return err
		}
		for i, c := range commands {
			r.state.enqueue(live(created, i+1, c))
		}
		return nil
	})
	if err != nil {
		r.removeSession(created.ID)
		return created, err
	}
	r.recordMade(created.ID, owner.Name, len(commands))
	return r.Session(ctx, store.Viewer{UID: owner.UID}, created.ID)
}

// Add queues the next command of a session.
func (r *Runner) Add(ctx context.Context, v store.Viewer, id string, n wire.NewCommand) (wire.Command, error) {
	s, err := r.Store.Session(ctx, v, id)
	if err != nil {
		return wire.Command{}, about(id, err)
	}
	full, err := r.command(n, wire.Limits{})
	if err != nil {
		return wire.Command{}, invalid(0, 1, err)
	}
	if err := r.roomy(); err != nil {
		return wire.Command{}, err
	}
	var number int
	err = r.admit(s.Owner.UID, 1, func() (err error) {
		if l := r.state.sessions[id]; l != nil && l.closing {
			return store.ErrState
		}
		if number, err = r.Store.Add(ctx, id, full, time.Now()); err != nil {
			return err
		}
		added, err := r.Store.Command(ctx, id, number)
		if err == nil {
			r.state.enqueue(added)
		}
		return err
	})
	if err != nil {
		return wire.Command{}, about(id, err)
	}
	return r.Command(ctx, v, id, number)
}

func live(s wire.Session, number int, c wire.NewCommand) store.Live {
	l := store.Live{Session: s.ID, Number: number, Owner: s.Owner.UID, Network: s.Network, State: wire.CommandQueued}
	if c.Stdin {
		l.State = wire.CommandAwaitingStdin
	}
	return l
}

// admit calls add, which adds n commands of a user, if the queue has room for them.
func (r *Runner) admit(owner uint32, n int, add func() error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.state.waiting+n > r.MaxQueued {
		r.metrics.refused.Inc()
		return refuse(wire.QueueFull, "try again later", "%d commands wait already, of at most %d", r.state.waiting,
			r.MaxQueued)
	}
	if err := r.mayQueue(owner, n); err != nil {
		r.metrics.refused.Inc()
		return err
	}
	if err := add(); err != nil {
		return err
	}
	r.state.change(r.wake)
	return nil
}

// Plan returns how a session would run. To find out the commit, it may fetch the repository; no session is made.
func (r *Runner) Plan(ctx context.Context, owner wire.Owner, n wire.NewSession) (wire.Plan, error) {
	commands, err := r.check(n)
	if err != nil {
		return wire.Plan{}, err
	}
	from, release, err := r.resolve(ctx, owner, n)
	if err != nil {
		return wire.Plan{}, err
	}
	release()
	explained, err := r.plannedEnvironment(ctx, store.New{Repository: from.repository.Key, Session: wire.Session{
		Owner: owner, Commit: from.commit, Patch: hash(n.Patch), Environment: environmentOf(n),
	}})
	if err != nil {
		return wire.Plan{}, err
	}
	plan := wire.Plan{
		Unit: unitOf(store.Live{Session: "%i", Network: n.Network}), Properties: []string{},
		Workspace: from.text(hash(n.Patch)), Commit: from.commit, Environment: explained, Commands: commands,
	}
	for _, p := range properties(commands[0].Limits) {
		plan.Properties = append(plan.Properties, fmt.Sprintf("%s=%d", p.Name, p.Value))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.state.running) >= r.MaxSessions {
		plan.Position = len(r.state.queue.order(nil)) + 1
	}
	return plan, nil
}

// check returns the commands of a request with all their limits.
func (r *Runner) check(n wire.NewSession) ([]wire.NewCommand, error) {
	switch {
	case n.Repository == "" && (n.Ref != "" || n.Patch != ""):
		return nil, refuse(wire.InvalidRequest, "name a repository", "a ref and a patch are of a repository")
	case len(n.Ref) > longestName || len(n.Repository) > longestName:
		return nil, refuse(wire.InvalidRequest, fmt.Sprintf("use at most %d bytes", longestName),
			"the repository or the ref is too long")
	case n.Network && !r.Network:
		return nil, refuse(wire.Forbidden, "leave it out, or have root set network in runner.toml",
			"sessions may not have the network")
	case n.HoldOnFailure < 0 || time.Duration(n.HoldOnFailure) > session.MaxHold:
		return nil, refuse(wire.InvalidRequest, fmt.Sprintf("use a time up to %v", session.MaxHold),
			"hold_on_failure is out of range")
	case len(n.Commands) == 0 || len(n.Commands) > maxCommands:
		return nil, refuse(wire.InvalidRequest, fmt.Sprintf("send 1 to %d", maxCommands), "commands has %d of them",
			len(n.Commands))
	}
	if err := checkEnvironment(n); err != nil {
		return nil, err
	}
	if err := checkSecrets(n.Secrets); err != nil {
		return nil, err
	}
	if err := checkPatch(n.Patch); err != nil {
		return nil, err
	}
	full := make([]wire.NewCommand, len(n.Commands))
	for i, c := range n.Commands {
		var err error
		if full[i], err = r.command(c, n.Limits); err != nil {
			return nil, invalid(i, len(n.Commands), err)
		}
	}
	return full, nil
}

func checkSecrets(secrets map[string]string) error {
	if len(secrets) > maxSecrets {
		return refuse(wire.InvalidRequest, fmt.Sprintf("send at most %d", maxSecrets), "secrets has %d of them",
			len(secrets))
	}
	values := map[string][]byte{}
	for name, value := range secrets {
		if !secretName.MatchString(name) {
			return refuse(wire.InvalidRequest, "use up to 64 letters, digits and _", "secrets has the name %q", name)
		}
		if value == "" || len(value) > maxSecretSize {
			return refuse(wire.InvalidRequest, fmt.Sprintf("use 1 to %d bytes", maxSecretSize),
				"the secret %s has %d bytes",
				name, len(value))
		}
		values[name] = []byte(value)
	}
	if _, err := logs.NewSecrets(values); err != nil { // the session could not hide them
		return refuseAs(wire.InvalidRequest, err)
	}
	return nil
}

// command returns a command with all its limits. An error is "fault: remedy".
func (r *Runner) command(c wire.NewCommand, ofSession wire.Limits) (wire.NewCommand, error) {
	var err error
	if c.Limits, err = r.Limits.fill(c.Limits, ofSession); err != nil {
		return c, err
	}
	return c, specOf(c, 1).Check()
}

// specOf is the specification of a command for its unit.
func specOf(c wire.NewCommand, slot int) *session.Spec {
	spec := &session.Spec{
		Version: session.Version, Args: c.Args, Directory: c.Directory, Env: c.Env, Journal: c.Journal, Slot: slot,
		Timeout: time.Duration(c.Limits.Timeout), Grace: time.Duration(c.Limits.Grace),
		OutputLimit: c.Limits.Output, FileSize: c.Limits.FileSize, Disk: c.Limits.Disk,
	}
	if len(c.Artifacts) > 0 {
		spec.Artifacts = &session.Artifacts{Patterns: c.Artifacts}
	}
	return spec
}
