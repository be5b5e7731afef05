package prepare

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"codex-proxy/notify"
	"codex-proxy/runner/paths"
	"codex-proxy/runner/session"
	"codex-proxy/runner/workspace"
)

// barrierBound bounds the wait for systemd. It answers at once unless it is stuck.
const barrierBound = 10 * time.Second

// Prepare prepares the start of the session's unit: it opens the files of its current command and passes them to the
// main process through systemd, makes the control socket, gives the session its slot, and links it for BindPaths= of
// the unit. The reason of an error is kept for End. A command that has run before is an error.
func (h Host) Prepare(ctx context.Context, id string, notifier *notify.Notifier) error {
	s, err := h.session(id)
	if err != nil {
		return err
	}
	state, number, err := s.current()
	if err != nil {
		return err
	}
	defer state.Close()
	if err := s.begin(number); err != nil {
		return fmt.Errorf("cannot make the directory of the session: %w", err)
	}
	if err := s.prepare(ctx, number, state, notifier); err != nil {
		refusal := filepath.Join(s.dir(), paths.Refusal)
		return errors.Join(err, os.WriteFile(refusal, []byte(err.Error()), 0o600))
	}
	return nil
}

func (s sessionUnit) prepare(ctx context.Context, number int, state dir, notifier *notify.Notifier) error {
	files := inheritance{}
	defer files.close()
	spec, err := s.openFiles(files, state, paths.CommandDir(s.id, number))
	if err != nil {
		return err
	}
	if files[paths.ControlFile], err = s.listen(); err != nil {
		return fmt.Errorf("cannot make the control socket: %w", err)
	}
	if err := s.lease(files, spec); err != nil {
		return fmt.Errorf("cannot give slot %d to the session: %w", spec.Slot, err)
	}
	if err := s.lendSecrets(); err != nil {
		return fmt.Errorf("cannot give its secrets to the session: %w", err)
	}
	if err := s.lendAccount(spec.Owner); err != nil {
		return fmt.Errorf("cannot name the user of the session: %w", err)
	}
	if spec.Repository != "" {
		// The unit of the session hides its target from this process (DynamicUser= in systemd.exec(5)).
		link := filepath.Join(s.dir(), paths.RepositoryLink)
		if err := os.Symlink(filepath.Join(paths.RepositoryStates, spec.Repository), link); err != nil {
			return err
		}
	}
	if err := s.lendEnvironments(spec.Environment); err != nil {
		return fmt.Errorf("cannot give the environments to the session: %w", err)
	}
	if err := (lender{s.Host}).lendToolchains(s.id, int(spec.Owner)); err != nil {
		return fmt.Errorf("cannot give the toolchains to the session: %w", err)
	}
	s.openCounters(files)
	return files.pass(ctx, notifier)
}

// openFiles opens and makes the files of the command, and reads its specification.
func (s sessionUnit) openFiles(files inheritance, state dir, path string) (*session.Spec, error) {
	daemon, err := ownerOf(state.File)
	if err != nil {
		return nil, err
	}
	command, err := state.sub(path)
	if err != nil {
		return nil, fmt.Errorf("cannot find the command: %w", err)
	}
	defer command.Close()
	if files[paths.SpecFile], err = command.open(paths.Spec); err != nil {
		return nil, fmt.Errorf("cannot find the specification of the command: %w", err)
	}
	spec, err := session.ReadSpec(files[paths.SpecFile])
	if err != nil {
		return nil, err
	}
	optional := map[string]string{paths.StdinFile: filepath.Join(path, paths.Stdin)}
	if spec.Workspace != nil || session.IsDiff(spec.Args) {
		optional[paths.PatchFile] = filepath.Join(filepath.Dir(path), paths.Patch)
	}
	for name, file := range optional {
		if files[name], err = state.open(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("cannot open the %s of the command: %w", filepath.Base(file), err)
		}
	}
	made := map[string]string{
		paths.OutputFile: paths.Output, paths.IndexFile: paths.Index, paths.ResultFile: paths.Result,
	}
	if spec.Artifacts != nil {
		made[paths.ArtifactsFile] = paths.Artifacts
	}
	for name, file := range made {
		if files[name], err = command.create(file, daemon); err != nil {
			return nil, fmt.Errorf("cannot make a file of the command, which runs once: %w", err)
		}
	}
	return spec, nil
}

// listen makes the control socket, which the daemon alone may connect to.
func (s sessionUnit) listen() (*os.File, error) {
	runtime, err := openDir(s.RuntimeDir)
	if err != nil {
		return nil, err
	}
	defer runtime.Close()
	daemon, err := ownerOf(runtime.File)
	if err != nil {
		return nil, err
	}
	sessions, err := runtime.make(filepath.Dir(paths.ControlDir(s.id)), daemon)
	if err != nil {
		return nil, err
	}
	defer sessions.Close()
	place, err := sessions.make(s.id, daemon)
	if err != nil {
		return nil, err
	}
	defer place.Close()
	if err := place.remove(paths.ControlSocket); err != nil {
		return nil, err
	}
	address := fmt.Sprintf("/proc/self/fd/%d/%s", place.Fd(), paths.ControlSocket)
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: address})
	if err != nil {
		return nil, err
	}
	defer func() { _ = listener.Close() }() // File has a copy
	listener.SetUnlinkOnClose(false)
	if err := chownAt(place, paths.ControlSocket, daemon); err != nil {
		return nil, err
	}
	return listener.File()
}

// openCounters opens the files in which the kernel counts its refusals and the memory of the unit. The sandbox of the
// session hides them.
func (s sessionUnit) openCounters(files inheritance) {
	for name, file := range map[string]string{
		paths.MemoryFile: "memory.events", paths.TasksFile: "pids.events", paths.PeakFile: "memory.peak",
	} {
		if counter, err := os.Open(filepath.Join(s.Cgroup, file)); err == nil { // else the kernel does not count
			files[name] = counter
		}
	}
}

// lease gives the slot to the user of the session, links its tree, and opens its files.
func (s sessionUnit) lease(files inheritance, spec *session.Spec) error {
	user, err := userOf(filepath.Join(s.SessionStates, s.id))
	if err != nil {
		return err
	}
	slot := filepath.Join(s.Workspaces, paths.Slot(spec.Slot))
	tree := filepath.Join(slot, paths.Tree)
	if spec.Workspace != nil && spec.Workspace.Keep && onDisk(slot, s.id) {
		spec.Workspace = nil
		if !session.IsDiff(spec.Args) { // the workspace has the patch
			files.drop(paths.PatchFile)
		}
	}
	err = sessionFiles{s}.forgetMounts(slot)
	if err == nil && spec.Workspace != nil {
		files[paths.PreviousFile], err = renew(slot, s.id, spec.Repository)
	}
	if err == nil {
		err = makeTree(slot, s.id)
	}
	if err != nil {
		return err
	}
	if files[paths.TenantFile], err = occupy(slot, s.id, spec.Workspace != nil); err != nil {
		return err
	}
	d, err := openDir(tree)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := give(d, user); err != nil {
		return err
	}
	if err := (sessionFiles{s}).lendFiles(files, spec, slot, user); err != nil {
		return err
	}
	files[paths.RecordFile], err = os.OpenFile(filepath.Join(slot, paths.Record), os.O_RDWR|os.O_CREATE, 0o600)
	return err
}

// renew moves the tree of a slot aside, unless this session had the slot last: an earlier session may have passed open
// files and directories to other processes (unix(7)), which could go on to read and write them. So no session gets a
// file that another one had. It returns the previous tree if it is of the same repository: its files can be copied.
func renew(slot, id, repository string) (previous *os.File, err error) {
	if last, err := os.ReadFile(filepath.Join(slot, paths.Tenant)); err == nil &&
		tenantIn(last) == id {
		return nil, nil
	}
	note, old := filepath.Join(slot, paths.SlotRepository), filepath.Join(slot, paths.Previous)
	was, err := os.ReadFile(note)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		err = workspace.Remove(old)
	}
	if err == nil {
		err = os.MkdirAll(slot, 0o700)
	}
	if err == nil {
		err = os.Rename(filepath.Join(slot, paths.Tree), old)
	}
	if err == nil && repository != "" && string(was) == repository {
		d, err := openDir(old)
		return d.File, err
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		err = os.WriteFile(note, []byte(repository), 0o600)
	}
	return nil, err
}

// onDisk reports whether the workspace in a slot was made for a session, with files that a stop of the host has left,
// and no other session has had the slot since.
func onDisk(slot, id string) bool {
	last, err := os.ReadFile(filepath.Join(slot, paths.Tenant))
	return err == nil && string(last) == id+paths.OnDisk
}

// tenantIn is the session of a note.
func tenantIn(note []byte) string { return strings.TrimRight(string(note), paths.Settled) }

// settled reports whether a note has the workspace made for a session.
func settled(note []byte, id string) bool {
	return string(note) == id+paths.Settled || string(note) == id+paths.OnDisk
}

// occupy notes the session in the slot, and returns the file of that note, which the main process completes when it has
// made the workspace. Only then may a command of the session take the workspace as it is: before, it has the files of
// another session. The owner of the files is no proof, as systemd reuses its dynamic users.
func occupy(slot, id string, anew bool) (*os.File, error) {
	tenant := filepath.Join(slot, paths.Tenant)
	if !anew {
		last, err := os.ReadFile(tenant)
		if err == nil && !settled(last, id) || errors.Is(err, fs.ErrNotExist) {
			err = errors.New(session.NoWorkspace + ": its first command needs one, also if a command before it failed " +
				"to make one")
		}
		return nil, err
	}
	file, err := os.OpenFile(tenant, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, err
	}
	if _, err := file.WriteString(id); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// userOf returns the dynamic user of a unit by its state directory. systemd has given it that before this runs; no file
// names the user, and asking nss-systemd needs libc.
func userOf(state string) (owner, error) {
	var st unix.Stat_t
	if err := unix.Stat(state, &st); err != nil {
		return owner{}, fmt.Errorf("cannot find the user of the unit: %s: %w", state, err)
	}
	return owner{int(st.Uid), int(st.Gid)}, nil
}

// inheritance are the files of the main process by their names.
type inheritance map[string]*os.File

// inheritable are the names of all files that a main process may inherit.
var inheritable = []string{
	paths.SpecFile, paths.StdinFile, paths.OutputFile, paths.IndexFile, paths.ResultFile, paths.ControlFile,
	paths.PatchFile, paths.RecordFile, paths.TenantFile, paths.PreviousFile, paths.SnapshotFile, paths.ChangesFile,
	paths.HomeFile, paths.MemoryFile, paths.TasksFile, paths.PeakFile,
	paths.ArtifactsFile, paths.OrderFile, paths.BundleFile,
}

// pass returns when systemd has all files.
func (f inheritance) pass(ctx context.Context, notifier *notify.Notifier) error {
	if err := notifier.Forget(inheritable...); err != nil {
		return err
	}
	for name, file := range f {
		if file == nil {
			continue
		}
		if err := notifier.Store(name, file); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, barrierBound)
	defer cancel()
	return notifier.Barrier(ctx)
}

func (f inheritance) drop(name string) {
	if file := f[name]; file != nil {
		_ = file.Close() // it was only read
		delete(f, name)
	}
}

func (f inheritance) close() {
	for _, file := range f {
		if file != nil {
			_ = file.Close()
		}
	}
}
