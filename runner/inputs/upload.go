package inputs

import (
	"io"

	"codex-proxy/runner/api/wire"
	"codex-proxy/runner/queue"
)

// upload is a standard input that is being received. Its bytes count for its user until it is assigned or dropped. One
// goroutine uses it.
type upload struct {
	inputs *Inputs
	to     io.Writer
	user   uint32
	bytes  int64
	of     *queue.Key // the command that has it, once it is assigned
}

func (u *upload) Write(p []byte) (int, error) {
	if !u.inputs.take(u.user, int64(len(p))) {
		return 0, wire.Refuse(wire.TooLarge,
			"try again when some of your commands have ended, or have root raise stdin_bytes of [user] in runner.toml",
			"your standard inputs have more than %d bytes together", u.inputs.bound)
	}
	u.bytes += int64(len(p))
	return u.to.Write(p)
}

// assign counts the bytes for a command: its end releases them.
func (u *upload) assign(k queue.Key) {
	u.inputs.mu.Lock()
	defer u.inputs.mu.Unlock()
	u.inputs.kept[k] += u.bytes
	u.of = &k
}

// drop releases the bytes of the upload, unless the end of its command has done so.
func (u *upload) drop() {
	i := u.inputs
	i.mu.Lock()
	defer i.mu.Unlock()
	if u.of != nil {
		u.bytes = min(u.bytes, i.kept[*u.of])
		if i.kept[*u.of] -= u.bytes; i.kept[*u.of] == 0 {
			delete(i.kept, *u.of)
		}
	}
	i.add(u.user, -u.bytes)
}
