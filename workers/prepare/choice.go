package prepare

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"codex-proxy/codex/copies"
	"codex-proxy/internal/paths"
	"codex-proxy/internal/reach"
	"codex-proxy/notify"
	"codex-proxy/workers/codexhome"
)

// Policy reads the policy of config.toml.
type Policy func() (copies.Policy, error)

// Choice is the step of root in a start of a unit that runs codex: it chooses the copy, and makes a missing one. A
// fault never ends the start: the unit then runs the installed program, as it lies there.
type Choice struct {
	Unit      string
	CodexPath string // of the unit's settings
	None      bool   // the unit runs no codex
	Alone     bool   // the unit runs the installed codex, whatever the policy and the other units
	Policy    Policy
	Notifier  *notify.Notifier
	Stderr    io.Writer
}

// choiceLimit bounds a choice: of a program on a slow disk, while another start copies one.
const choiceLimit = 5 * time.Minute

// Make makes the choice, for Chosen in the step of the unit's user.
func (c *Choice) Make(ctx context.Context) {
	if os.Geteuid() != 0 { // a test, or a drop-in without +
		return
	}
	ctx, cancel := context.WithTimeoutCause(ctx, choiceLimit, fmt.Errorf("it took longer than %s", choiceLimit))
	defer cancel()
	var extending sync.WaitGroup
	done := make(chan struct{})
	extending.Go(func() { c.extend(done) })
	c.choose(ctx)
	close(done)
	extending.Wait()
}

func (c *Choice) choose(ctx context.Context) {
	start := copies.Start{Unit: c.Unit, AtOnce: AtOnce()}
	policy, err := c.Policy()
	if err != nil { // the service reports it
		policy = copies.Pinned
	}
	start.Policy = policy
	installed, _ := codexhome.Installed()
	// A missing program is a fault for the next step, if there is no copy of one.
	start.Program, _ = codexhome.FindCodex(c.CodexPath, os.Getenv("PATH"))
	start.Own = c.Alone || start.Program != installed && (c.CodexPath != "" || start.Program != "")
	if c.None {
		start = copies.Start{Unit: c.Unit, Own: true}
	}
	store := Store()
	chosen, err := store.Choose(ctx, start)
	var missing *copies.MissingError
	var place *copies.InPlaceError
	switch {
	case chosen.Name != "" && err != nil:
		c.note(fmt.Sprintf("the choice of codex is not recorded: %v", err))
	case err == nil, errors.As(err, &missing), errors.As(err, &place) && place.Steady:
	default:
		c.note(fmt.Sprintf("codex has no copy, and an installation changes it while it runs: %v", err))
	}
}

func (c *Choice) note(line string) {
	name, _, _ := strings.Cut(c.Unit, ".")
	fmt.Fprintf(c.Stderr, "%s: %s\n", name, strings.Join(strings.Fields(line), " "))
}

// extend asks systemd for more time until done. It says nothing about choices that copy nothing.
func (c *Choice) extend(done <-chan struct{}) {
	tick := time.NewTicker(notify.ExtendEvery)
	defer tick.Stop()
	for first := true; ; first = false {
		select {
		case <-done:
			return
		case <-tick.C:
			if first {
				c.Notifier.Status("Starting: codex is copied, so that an installation changes nothing under it")
			}
			c.Notifier.ExtendTimeout(notify.ExtendBy)
		}
	}
}

// Store is the store of this machine, for root.
func Store() *copies.Store {
	store := copies.Open()
	store.Version = func(ctx context.Context, program string) (string, error) {
		user, err := reach.Lookup(paths.WorkerUser)
		if err != nil {
			return "", err
		}
		return codexhome.VersionAs(ctx, program, codexhome.Account{UID: user.UID, GID: user.GID})
	}
	return store
}

// canaryUnit is the file of the unit that tries a new codex.
const canaryUnit = "/usr/lib/systemd/system/codex-canary@.service"

// AtOnce reports whether a start uses a new codex untried: no unit of this machine tries it.
func AtOnce() bool {
	_, err := os.Stat(canaryUnit)
	return err != nil
}

// Chosen returns the program that Make has chosen for the unit; empty if the unit runs the installed one.
func Chosen(unit string) (string, error) {
	c, _, err := copies.Open().Chosen(unit)
	var missing *copies.MissingError
	if errors.As(err, &missing) {
		return "", &codexhome.Problem{File: paths.Config, Text: err.Error()}
	}
	return c.Program, err
}
