package herecli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"text/tabwriter"
	"time"

	"codex-proxy/internal/listing"
	"codex-proxy/remotes"
	"codex-proxy/remotes/here"
	"codex-proxy/remotes/remoteapi"
	"codex-proxy/units"
)

// askBound bounds the question to the unit.
const askBound = 5 * time.Second

// State is the state of the own codex of one user.
type State struct {
	User      string `json:"user"`
	Unit      string `json:"unit"`
	State     string `json:"active_state"`
	Words     string `json:"status_text,omitempty"`
	Listening bool   `json:"listening"`
	Linked    bool   `json:"linked"`
	Instead   string `json:"instead,omitempty"` // lies where the link should be
	Daemons   int    `json:"daemons"`           // processes of codex's own daemon
	remotes.Status
	Error string `json:"error,omitempty"`
}

// Of returns the state. It starts nothing.
func (h *Here) Of(ctx context.Context, r here.Record) (s State, err error) {
	s = State{User: r.User, Unit: units.Here(r.User)}
	unit, err := h.Systemd.Describe(ctx, s.Unit)
	if err != nil {
		return s, err
	}
	listener, err := h.Systemd.Describe(ctx, units.HereSocket(r.User))
	if err != nil {
		return s, err
	}
	s.State, s.Words, s.Listening = unit.ActiveState, unit.StatusText, listener.Active()
	s.Linked, s.Instead = r.In().Linked(socket(r.User))
	if s.Linked {
		s.Instead = ""
	}
	s.Daemons = len(here.Daemons(h.Proc, r.UID))
	if unit.Active() {
		ctx, cancel := context.WithTimeout(ctx, askBound)
		defer cancel()
		if s.Status, err = remoteapi.AskStatus(ctx, socket(r.User)); err != nil {
			s.Error = err.Error()
		}
		if !r.Lends() { // it is the one of the last loan
			s.Account, s.NoAccount = "", ""
		}
	}
	return s, nil
}

// Status prints the state of one user, or of all for an empty name.
func (h *Here) Status(ctx context.Context, name string) error {
	var list []here.Record
	if name == "" {
		all, err := h.Records.All()
		if err != nil {
			return err
		}
		list = all
	} else {
		r, err := h.Records.Get(name)
		if errors.Is(err, fs.ErrNotExist) {
			return notEnabled(name)
		}
		if err != nil {
			return err
		}
		list = []here.Record{r}
	}
	states := []State{}
	for _, r := range list {
		s, err := h.Of(ctx, r)
		if err != nil {
			return err
		}
		states = append(states, s)
	}
	if h.JSON {
		return json.NewEncoder(h.Stdout).Encode(map[string]any{"users": states})
	}
	return h.write(states)
}

// write prints the states. Programs of the users have made their texts.
func (h *Here) write(states []State) error {
	if len(states) == 0 {
		h.print("No user has a unit for the own codex: sudo codex-proxy here enable NAME")
	}
	out := tabwriter.NewWriter(h.Stdout, 0, 0, 2, ' ', 0)
	for _, s := range states {
		fmt.Fprintf(out, "%s\t%s\n", s.User, listing.Printable(s.words()))
		if s.NoAccount != "" {
			fmt.Fprintf(out, "\tno account: %s\n", listing.Printable(s.NoAccount))
		} else if s.Account != "" {
			fmt.Fprintf(out, "\taccount: %s\n", listing.Printable(s.Account))
		}
		for _, c := range s.Attached {
			fmt.Fprintf(out, "\tattached: %s since %s\n", listing.Printable(c.Program),
				c.Since.Local().Format(time.DateTime))
		}
		for _, t := range s.Turns {
			fmt.Fprintf(out, "\tturn in %s since %s\n", listing.Printable(t.Thread),
				t.Since.Local().Format(time.DateTime))
		}
		for _, fault := range s.Faults() {
			fmt.Fprintf(out, "\tfault: %s\n", listing.Printable(fault))
		}
	}
	return out.Flush()
}

func (s State) words() string {
	switch {
	case s.Codex != "":
		return "runs: " + s.Codex
	case s.State == "inactive":
		return "asleep: the next codex starts it"
	case s.Words != "":
		return s.State + ": " + s.Words
	}
	return s.State
}

// Faults are the reasons why a bare codex does not get to the unit, each with its remedy.
func (s State) Faults() (list []string) {
	again := "sudo codex-proxy here enable " + s.User
	if !s.Linked {
		list = append(list,
			fmt.Sprintf("codex's control socket is no link to the unit's, but %s: %s", s.Instead, again))
	}
	if !s.Listening {
		list = append(list, fmt.Sprintf("the socket does not listen: systemctl reset-failed %[1]s %[2]s; "+
			"systemctl start %[1]s", units.HereSocket(s.User), units.Here(s.User)))
	}
	if s.Daemons > 0 {
		list = append(list, fmt.Sprintf("codex's own daemon runs too (%d processes): %s", s.Daemons, again))
	}
	if s.Error != "" {
		list = append(list, s.Error)
	}
	return list
}
