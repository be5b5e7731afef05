package runner

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/paths"
	"codex-proxy/runner/store"
)

// Share bounds the part of the service that one user has at the same time, so that no user takes it from all others. 0
// is no bound. Root has no bounds.
type Share struct {
	Sessions int   // commands that run
	Queued   int   // commands that wait
	Stdin    int64 // bytes of the standard inputs of commands that have not ended
}

// exempt reports that a user has no bounds of its own.
func exempt(user uint32) bool { return user == 0 }

// mayRun reports whether a user may have one more command run.
func (r *Runner) mayRun(user uint32) bool {
	return r.Share.Sessions == 0 || exempt(user) || r.state.perUser[user] < r.Share.Sessions
}

// mayQueue returns an error if a user may not have n more commands wait.
func (r *Runner) mayQueue(user uint32, n int) error {
	if r.Share.Queued == 0 || exempt(user) {
		return nil
	}
	waiting := 0
	for _, l := range r.state.sessions {
		if l.owner == user {
			waiting += len(l.waiting)
		}
	}
	if waiting+n <= r.Share.Queued {
		return nil
	}
	return refuse(wire.QueueFull,
		"try again when some have ended, cancel some, or have root raise max_queued of [user] in runner.toml",
		"%d of your commands wait already, of at most %d", waiting, r.Share.Queued)
}

// inputs counts the bytes of the standard inputs of each user. It is guarded by Runner.mu.
type inputs struct {
	users map[uint32]int64
	kept  map[key]int64 // of commands that have not ended
}

// upload is a standard input that is being received. Its bytes count for its user until it is settled or dropped.
type upload struct {
	runner *Runner
	to     io.Writer
	user   uint32
	bytes  int64
	of     *key // the command that has it, once it is settled
}

func (u *upload) Write(p []byte) (int, error) {
	r := u.runner
	r.mu.Lock()
	has := r.state.inputs.users[u.user]
	full := r.Share.Stdin != 0 && !exempt(u.user) && has+int64(len(p)) > r.Share.Stdin
	if !full {
		r.state.inputs.add(u.user, int64(len(p)))
		u.bytes += int64(len(p))
	}
	r.mu.Unlock()
	if full {
		return 0, refuse(wire.TooLarge,
			"try again when some of your commands have ended, or have root raise stdin_bytes of [user] in runner.toml",
			"your standard inputs have more than %d bytes together", r.Share.Stdin)
	}
	return u.to.Write(p)
}

// settle assigns the bytes to a command: its end releases them.
func (u *upload) settle(k key) {
	u.runner.mu.Lock()
	defer u.runner.mu.Unlock()
	u.runner.state.inputs.kept[k] += u.bytes
	u.of = &k
}

// drop releases the bytes of the upload, unless the end of its command has done so.
func (u *upload) drop() {
	u.runner.mu.Lock()
	defer u.runner.mu.Unlock()
	all := &u.runner.state.inputs
	if u.of != nil {
		u.bytes = min(u.bytes, all.kept[*u.of])
		if all.kept[*u.of] -= u.bytes; all.kept[*u.of] == 0 {
			delete(all.kept, *u.of)
		}
	}
	all.add(u.user, -u.bytes)
}

func (i *inputs) add(user uint32, bytes int64) {
	if i.users[user] += bytes; i.users[user] == 0 {
		delete(i.users, user)
	}
}

// recoverInput counts the standard input of a command of an earlier daemon.
func (r *Runner) recoverInput(c store.Live) {
	info, err := os.Stat(r.file(c.Session, c.Number, paths.Stdin))
	if err != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state.inputs.add(c.Owner, info.Size())
	r.state.inputs.kept[key{c.Session, c.Number}] = info.Size()
}

// removeInput removes the standard input of a command that has ended, and the parts that interrupted uploads have left.
// An upload that ends meanwhile has stored its file before, or finds the command ended.
func (r *Runner) removeInput(owner uint32, k key) {
	r.stdin.Lock()
	defer r.stdin.Unlock()
	for _, pattern := range []string{paths.Stdin, paths.Stdin + ".part-*"} {
		files, _ := filepath.Glob(r.file(k.session, k.number, pattern))
		for _, file := range files {
			os.Remove(file)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state.inputs.add(owner, -r.state.inputs.kept[k])
	delete(r.state.inputs.kept, k)
}

// receiveStdin writes a possible standard input of a command, at most limit bytes, and returns its path, which no other
// request has.
func (r *Runner) receiveStdin(owner uint32, k key, from io.Reader, limit int64) (path string, u *upload, err error) {
	dir := r.dir(k.session, k.number)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", nil, err
	}
	file, err := os.CreateTemp(dir, paths.Stdin+".part-")
	if err != nil {
		return "", nil, err
	}
	u = &upload{runner: r, to: file, user: owner}
	size, err := io.Copy(u, io.LimitReader(from, limit+1))
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err == nil && size > limit {
		err = refuse(wire.TooLarge, fmt.Sprintf("send at most %d", limit),
			"the standard input has more bytes than it may")
	}
	if err != nil {
		os.Remove(file.Name())
		u.drop()
	}
	return file.Name(), u, err
}
