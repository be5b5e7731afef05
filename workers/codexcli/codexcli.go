// Package codexcli shows the copies of codex to an operator, and takes the orders about them.
package codexcli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"codex-proxy/codex/copies"
	"codex-proxy/workers/codexhome"
	"codex-proxy/workers/prepare"
)

// Orders are the commands of `codex-proxy codex`.
type Orders struct {
	Store   *copies.Store
	Policy  copies.Policy
	Program string // the installed one; empty: none is
	AtOnce  bool   // nothing tries a new codex
	// Start starts a unit and waits for the end of the start.
	Start func(ctx context.Context, unit string) error
	Out   io.Writer
	JSON  bool
}

// Here are the orders of this machine.
func Here(policy copies.Policy) *Orders {
	program, _ := codexhome.Installed() // without one there are copies
	return &Orders{Store: prepare.Store(), Policy: policy, Program: program, AtOnce: prepare.AtOnce()}
}

// Report is the report on this machine.
func (o *Orders) Report() copies.Report { return o.Store.Report(o.Policy, o.Program, o.AtOnce) }

// listed is one copy as JSON.
type listed struct {
	copies.Copy
	Name    string `json:"name"`
	Program string `json:"program"`
}

// List shows the copies, and the codex that is installed.
func (o *Orders) List() error {
	r := o.Report()
	if o.JSON {
		list := []listed{}
		for _, c := range r.Copies {
			list = append(list, listed{c, c.Name, c.Program})
		}
		return json.NewEncoder(o.Out).Encode(struct {
			copies.Report
			Copies []listed `json:"copies"`
		}{r, list})
	}
	if r.Fault != nil {
		return r.Fault
	}
	return write(o.Out, r)
}

// Try has the canary try a version, and puts it into use if it passes.
func (o *Orders) Try(ctx context.Context, version string) error {
	if o.AtOnce {
		return errors.New("this installation has no codex-canary@.service, which tries a codex: " +
			"codex-proxy codex use VERSION")
	}
	if err := o.permitted(version); err != nil {
		return err
	}
	c, err := o.find(ctx, version)
	if err != nil {
		return err
	}
	state, err := o.Store.State()
	if err == nil && state.Pinned != "" && state.Pinned != c.Name {
		err = fmt.Errorf("%s stays in use by order of an operator: codex-proxy codex follow, and then try", state.Pinned)
	}
	unit := copies.CanaryUnit(c.Name)
	if err == nil {
		err = o.Store.Assign(ctx, unit, c.Name) // or a start of a worker would remove it as unused
	}
	if err != nil {
		return err
	}
	failed := o.Start(ctx, unit)
	_ = o.Store.Assign(ctx, unit, "")
	if state, err = o.Store.State(); err != nil {
		return err
	}
	switch held, ok, inUse := state.FateOf(c.Name); {
	case ok:
		return fmt.Errorf("codex %s is held back: %s", c.Version, held.Reason)
	case failed != nil:
		return fmt.Errorf("codex %s was not tried: %w", c.Version, failed)
	case inUse:
		c, _ = o.Store.Get(state.InUse)
	}
	return o.print("codex %s has passed all tries, and is in use", c.Version)
}

// Use puts a version into use, and keeps it there.
func (o *Orders) Use(ctx context.Context, version string) error {
	if err := o.permitted(version); err != nil {
		return err
	}
	c, err := o.find(ctx, version)
	if err == nil {
		err = c.Check()
	}
	if err == nil {
		err = o.Store.Pin(ctx, c.Name)
	}
	if err != nil {
		return err
	}
	return o.stays(c.Version)
}

// Hold keeps the copy in use.
func (o *Orders) Hold(ctx context.Context) error {
	state, err := o.Store.State()
	if err != nil {
		return err
	}
	c, err := o.Store.Get(state.InUse)
	if state.InUse == "" {
		return errors.New("no copy of codex is in use: the first start of a worker or remote makes one")
	}
	if err == nil {
		err = o.Store.Pin(ctx, c.Name)
	}
	if err != nil {
		return err
	}
	return o.stays(c.Version)
}

func (o *Orders) stays(version string) error {
	return o.print("codex %s is in use, and stays so until `codex-proxy codex follow`", version)
}

// Follow ends Use and Hold.
func (o *Orders) Follow(ctx context.Context) error {
	if err := o.Store.Follow(ctx); err != nil {
		return err
	}
	return o.print("codex is in use as config.toml says: codex = %q", o.Policy)
}

// permitted is the objection of the settings to another version.
func (o *Orders) permitted(version string) error {
	if only := o.Policy.Version(); only != "" && version != only && !strings.HasPrefix(version, only+"-") {
		return fmt.Errorf("config.toml allows no other codex than %s: change codex = %[1]q there", only)
	}
	return nil
}

// find returns the copy with that version, which it makes if that is the installed one.
func (o *Orders) find(ctx context.Context, version string) (copies.Copy, error) {
	if c, ok := o.Store.Find(version); ok {
		return c, nil
	}
	have := "nothing"
	if o.Program != "" {
		c, err := o.Store.Take(ctx, o.Program)
		if err != nil || c.Version == version || c.Name == version {
			return c, err
		}
		have = c.Version
	}
	return copies.Copy{}, fmt.Errorf("there is no copy of codex %s, and %s is installed: npm install -g @openai/codex@%[1]s",
		version, have)
}

func (o *Orders) print(format string, args ...any) error {
	_, err := fmt.Fprintf(o.Out, format+"\n", args...)
	return err
}
