package remotescli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"codex-proxy/internal/listing"
	"codex-proxy/internal/settingsfile"
	"codex-proxy/notify"
	"codex-proxy/remotes"
	"codex-proxy/remotes/attach"
	"codex-proxy/remotes/remoteapi"
	"codex-proxy/units"
)

// maxMessage bounds a message, in bytes: codex accepts 1 Mi characters.
const maxMessage = 4 << 20

// Message is the message of a command line: its words, or for - the standard input, which no other user of the machine
// sees in the list of processes.
func Message(words []string, in io.Reader) (string, error) {
	if len(words) != 1 || words[0] != "-" {
		return strings.Join(words, " "), nil
	}
	text, err := io.ReadAll(io.LimitReader(in, maxMessage+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("cannot read the message: %w", err)
	case len(text) > maxMessage:
		return "", fmt.Errorf("the message is too long: codex takes less than %d MiB", maxMessage>>20)
	}
	return string(text), nil
}

// Send sends a message to a remote, which starts if it does not run.
func (r *Remotes) Send(ctx context.Context, name, text string) error {
	if err := r.known(name); err != nil {
		return err
	}
	return r.act(ctx, name, func(ctx context.Context, socket string) (string, error) {
		return remoteapi.SendTo(ctx, socket, r.Thread, text)
	})
}

// Continue has a cut turn go on that waits for a person's word, and starts a remote that does not run.
func (r *Remotes) Continue(ctx context.Context, name string) error {
	if err := r.known(name); err != nil {
		return err
	}
	return r.act(ctx, name, func(ctx context.Context, socket string) (string, error) {
		return remoteapi.ProceedTo(ctx, socket, r.Thread)
	})
}

// act asks the manager of a remote for something, and prints the thread.
func (r *Remotes) act(ctx context.Context, name string, ask func(context.Context, string) (string, error)) error {
	ctx, cancel := context.WithTimeout(ctx, jobBound)
	defer cancel()
	thread, err := ask(ctx, r.Socket(name))
	if errors.Is(err, fs.ErrPermission) {
		return attach.Refused(name, r.Socket(name))
	}
	if refused := (*remoteapi.RefusedError)(nil); errors.As(err, &refused) {
		return err
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("nothing listens for the remote %[1]s, as after too many starts that failed (codex-proxy remotes "+
			"check %[1]s has the reason): systemctl reset-failed %[2]s %[3]s && systemctl start %[3]s",
			name, units.Remote(name), units.RemoteSocket(name))
	}
	if err != nil {
		return fmt.Errorf("%w: systemctl status %s", err, units.Remote(name))
	}
	fmt.Fprintln(r.Stdout, listing.Printable(thread))
	return nil
}

// Logs becomes journalctl for the units of the remote.
func (r *Remotes) Logs(name string, options ...string) error {
	if err := r.known(name); err != nil {
		return err
	}
	args := []string{"journalctl"}
	for _, unit := range unitsOf(name) {
		args = append(args, "-u", unit)
	}
	return notify.Become(append(args, options...))
}

// Stop stops a remote. Its sockets stay: an attach starts it again, with its threads.
func (r *Remotes) Stop(ctx context.Context, name string) error {
	if err := r.known(name); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, jobBound)
	defer cancel()
	unit, err := r.describe(ctx, units.Remote(name))
	if err != nil {
		return err
	}
	st, _ := r.status(ctx, name, unit.Active()) // only for the words
	if err := r.Systemd.Stop(ctx, units.Remote(name)); err != nil {
		return err
	}
	r.print("The remote %s is stopped; an attach starts it again.%s", name, cutWords(st))
	return nil
}

// cutWords describe the turns that a stop has cut.
func cutWords(st remotes.Status) string {
	words := ""
	if n := len(st.Turns); n > 0 {
		words = fmt.Sprintf(" Turns that ran: %d; they go on then, as continue in its file says.", n)
	}
	if n := len(st.Attached); n > 0 {
		words += fmt.Sprintf(" People who were attached: %d; their codex starts it again while it tries to reconnect.",
			n)
	}
	return words
}

// Remove stops a remote and removes it. Its home, with the threads, stays without Purge.
func (r *Remotes) Remove(ctx context.Context, name string) error {
	if !settingsfile.Exists(r.fileOf(name)) && (!r.Purge || !r.hasHome(name)) {
		return r.known(name)
	}
	if err := r.takeDown(ctx, name); err != nil {
		return err
	}
	r.print("The remote %s is removed.", name)
	switch session, err := r.closeHands(ctx, name); {
	case err != nil:
		r.print("The session of its hands may still be there (codex-runner sessions): %v", err)
	case session != "":
		r.print("The session of its hands is closed; codex-runner diff %s prints its changes.", session)
	}
	dropIns := r.dropInsOf(name)
	if r.Purge {
		for _, path := range append(r.homesOf(name), dropIns...) {
			if err := os.RemoveAll(path); err != nil {
				return fmt.Errorf("cannot remove what it leaves: %w", err)
			}
		}
		return nil
	}
	if r.hasHome(name) {
		r.print("Its threads stay: %s (--purge removes them)", filepath.Join(r.Homes, name))
	}
	for _, path := range dropIns {
		if settingsfile.Exists(path) {
			r.print("The drop-ins of systemctl edit stay: %s (--purge removes them)", path)
		}
	}
	return nil
}

func (r *Remotes) takeDown(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, jobBound)
	defer cancel()
	// The socket first: a connection would start the service again.
	for _, unit := range []string{units.RemoteSocket(name), units.Remote(name)} {
		if err := r.Systemd.Stop(ctx, unit); err != nil {
			return err
		}
	}
	// systemd leaves the sockets, and attach would take them for the sockets of a remote that does not start.
	left, _ := filepath.Glob(strings.TrimSuffix(r.Socket(name), "sock") + "*sock") // the pattern is valid
	for _, path := range append(left, r.fileOf(name)) {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("cannot remove the remote: %w", err)
		}
	}
	// With a daemon-reload: its generator removes the drop-ins.
	if err := r.Systemd.Disable(ctx, units.RemoteSocket(name)); err != nil {
		return err
	}
	return errors.Join(r.Systemd.ResetFailed(ctx, units.Remote(name)),
		r.Systemd.ResetFailed(ctx, units.RemoteSocket(name)),
		r.Systemd.ResetFailed(ctx, units.RemoteNetworkSocket(name)))
}
