package runner

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/environments"
	"codex-proxy/runner/paths"
	"codex-proxy/runner/runs"
	"codex-proxy/runner/sandbox"
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
func (s *Sessions) Create(ctx context.Context, owner wire.Owner, n wire.NewSession) (wire.Session, error) {
	commands, err := s.checks.session(n)
	if err == nil {
		err = s.room()
	}
	if err != nil {
		return wire.Session{}, err
	}
	from, release, err := s.repositories.Resolve(ctx, owner, n)
	if err != nil {
		return wire.Session{}, err
	}
	defer release()
	created := wire.Session{
		ID: newID(), Owner: owner, Created: time.Now().UTC(), Environment: environments.Of(n),
		Repository: from.Repository.Name(), Ref: from.Ref, Commit: from.Commit, Patch: hash(n.Patch),
		Network: n.Network, Secrets: slices.Sorted(maps.Keys(n.Secrets)),
	}
	texts := map[string]string{paths.Patch: n.Patch, paths.SetUp: n.SetUp}
	if err := s.files.Make(created.ID, n.Secrets, texts); err != nil {
		return created, err
	}
	err = s.queue.Admit(owner.UID, created.ID, len(commands), func() (added []store.Live, err error) {
		for i, c := range commands {
			added = append(added, live(created, i+1, c))
		}
		return added, s.store.Sessions.Create(ctx, store.New{
			Session: created, Repository: from.Repository.Key, Hold: time.Duration(n.HoldOnFailure),
			Idle: time.Duration(n.IdleTimeout), Commands: commands,
		})
	})
	if err != nil {
		s.files.Remove(created.ID)
		return created, err
	}
	s.logger.Info("a session was made", "session", created.ID, "owner", owner.Name, "commands", len(commands))
	return s.Session(ctx, store.Viewer{UID: owner.UID}, created.ID)
}

// Add queues the next command of a session.
func (s *Sessions) Add(ctx context.Context, v store.Viewer, id string, n wire.NewCommand) (wire.Command, error) {
	to, err := s.store.Sessions.Find(ctx, v, id)
	if err != nil {
		return wire.Command{}, about(id, err)
	}
	full, err := s.checks.command(n, wire.Limits{})
	if err != nil {
		return wire.Command{}, invalid(0, 1, err)
	}
	if err := s.room(); err != nil {
		return wire.Command{}, err
	}
	var number int
	err = s.queue.Admit(to.Owner.UID, id, 1, func() ([]store.Live, error) {
		if number, err = s.store.Commands.Add(ctx, id, full, time.Now()); err != nil {
			return nil, err
		}
		added, err := s.store.Commands.Find(ctx, id, number)
		return []store.Live{added}, err
	})
	if err != nil {
		return wire.Command{}, about(id, err)
	}
	return s.Command(ctx, v, id, number)
}

func live(s wire.Session, number int, c wire.NewCommand) store.Live {
	l := store.Live{Session: s.ID, Number: number, Owner: s.Owner.UID, Network: s.Network, State: wire.CommandQueued}
	if c.Stdin {
		l.State = wire.CommandAwaitingStdin
	}
	return l
}

// Plan returns how a session would run. To find out the commit, it may fetch the repository; no session is made.
func (s *Sessions) Plan(ctx context.Context, owner wire.Owner, n wire.NewSession) (wire.Plan, error) {
	commands, err := s.checks.session(n)
	if err != nil {
		return wire.Plan{}, err
	}
	from, release, err := s.repositories.Resolve(ctx, owner, n)
	if err != nil {
		return wire.Plan{}, err
	}
	release()
	explained, err := s.environments.Planned(ctx, store.New{Repository: from.Repository.Key, Session: wire.Session{
		Owner: owner, Commit: from.Commit, Patch: hash(n.Patch), Environment: environments.Of(n),
	}}, n.SetUp)
	if err != nil {
		return wire.Plan{}, err
	}
	plan := wire.Plan{
		Unit: runs.UnitOf(store.Live{Network: n.Network}), Properties: []string{}, Network: n.Network,
		Workspace: from.Text(hash(n.Patch)), Commit: from.Commit, Environment: explained, Commands: commands,
		Sandbox: planned(s.sandbox),
	}
	for _, p := range runs.Properties(commands[0].Limits) {
		plan.Properties = append(plan.Properties, fmt.Sprintf("%s=%d", p.Name, p.Value))
	}
	plan.Position = s.queue.NextPosition()
	return plan, nil
}

// planned has the contents of the sandboxes of commands. The daemon is a unit as well: PATH is the same.
func planned(s sandbox.Settings) wire.PlanSandbox {
	usual := sandbox.Programs{Usual: os.Getenv("PATH")}.Path()
	return wire.PlanSandbox{
		Path: s.Path, Usual: filepath.SplitList(usual), Toolchains: s.Toolchains, UserToolchains: s.UserToolchains,
		Variables: slices.Sorted(maps.Keys(s.Env)),
	}
}
