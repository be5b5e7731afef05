package remotescli

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"time"

	"codex-proxy/internal/listing"
	"codex-proxy/probes"
	"codex-proxy/remotes"
	"codex-proxy/remotes/remoteapi"
	"codex-proxy/remotes/remoteconfig"
	"codex-proxy/remotes/remotescheck"
	"codex-proxy/remotes/remotewatch"
	"codex-proxy/units"
	"codex-proxy/workers/control"
)

// askBound bounds a question to a manager.
const askBound = 2 * time.Second

// list is the table of `codex-proxy remotes list`.
type list struct {
	Remotes []row `json:"remotes"`
}

// row is one remote: the state of its unit, and the status of its manager.
type row struct {
	Name        string `json:"name"`
	Unit        string `json:"unit"`
	ActiveState string `json:"active_state"`
	SubState    string `json:"sub_state"`
	StatusText  string `json:"status_text,omitempty"`
	// Reason is the word of codex-proxy status and the metrics.
	Reason    probes.RemoteReason `json:"reason"`
	Since     time.Time           `json:"since,omitzero"`
	Restarts  uint32              `json:"restarts"`
	Listening bool                `json:"listening"` // an attach starts it
	AtBoot    bool                `json:"at_boot"`   // and likewise after a boot
	Directory string              `json:"directory,omitempty"`
	User      string              `json:"user,omitempty"`
	remotes.Status
	Error string `json:"error,omitempty"` // the fault of the file, or the reason why the manager's status is unknown
}

// List prints the remotes that have a file.
func (r *Remotes) List(ctx context.Context, _ string) error {
	l := listing.Listing[list]{Stdout: r.Stdout, JSON: r.JSON, Watch: r.Watch, Collect: r.collect, Write: writeList,
		Changes: func(ctx context.Context, changed func()) error {
			return control.NewClient(r.Control).Changes(ctx, []string{"remotes"}, changed)
		}}
	return l.Run(ctx)
}

func (r *Remotes) collect(ctx context.Context) (list, error) {
	names, err := remoteconfig.Names(r.Settings)
	switch {
	case err != nil && len(names) == 0:
		return list{}, err
	case err != nil && !r.warned: // there are more files than systemd gets units for
		r.print("%v", err)
		r.warned = true
	}
	rows, err := listing.Each(ctx, names, r.row)
	return list{Remotes: rows}, err
}

func (r *Remotes) row(ctx context.Context, name string) (row, error) {
	unit, err := r.describe(ctx, units.Remote(name))
	if err != nil {
		return row{}, err
	}
	socket, err := r.describe(ctx, units.RemoteSocket(name))
	if err != nil {
		return row{}, err
	}
	w := row{
		Name: name, Unit: unit.Unit, ActiveState: unit.ActiveState, SubState: unit.SubState,
		StatusText: unit.StatusText, Reason: remotewatch.Judge(unit.State), Since: unit.StateChangedAt,
		Restarts: unit.NRestarts, Listening: socket.Active(), AtBoot: socket.FileState == "enabled",
	}
	s, err := remoteconfig.Load(r.fileOf(name))
	if err != nil {
		w.Error = err.Error()
		return w, nil
	}
	w.Directory, w.User = s.Directory, remotescheck.UserOf(s)
	w.Status, err = r.status(ctx, name, unit.Active())
	if err != nil && !errors.Is(err, fs.ErrPermission) { // a user that may not attach sees the public state of the unit
		w.Error = err.Error()
	}
	return w, nil
}

// status asks the manager of a remote that runs; a question would start one that does not, of which the turn journal
// has all.
func (r *Remotes) status(ctx context.Context, name string, active bool) (remotes.Status, error) {
	if !active {
		return remotes.ReadState(filepath.Join(r.Homes, name, "keeper"))
	}
	ctx, cancel := context.WithTimeout(ctx, askBound)
	defer cancel()
	return remoteapi.AskStatus(ctx, r.Socket(name))
}
