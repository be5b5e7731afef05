package recent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"codex-proxy/notify/handoff"
)

// maxLeft bounds the file that a process leaves to its successor, in bytes.
const maxLeft = 4 << 20

// left is the state that a process leaves to its successor.
type left struct {
	Requests []Request `json:"requests"`
	Points   []sample  `json:"points"`
}

// Leave passes everything on to the successor: now, and later each request that ends. A file carries it, as a message
// is too small.
func (r *Recent) Leave(pass func(kind handoff.Kind, body any, fds ...int) error) error {
	r.sample()
	r.mu.Lock()
	defer r.mu.Unlock()
	text, err := json.Marshal(left{Requests: r.requests.since(0), Points: r.points})
	if err != nil {
		return err
	}
	file, err := memory(text)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := pass(handoff.Recent, nil, int(file.Fd())); err != nil {
		return err
	}
	r.forward = func(req Request) { _ = pass(handoff.Ended, req) } // a successor that has ended needs none
	return nil
}

// memory is a file without a name.
func memory(text []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate("recent", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("cannot make a file in memory: %w", err)
	}
	file := os.NewFile(uintptr(fd), "recent")
	if _, err := file.WriteAt(text, 0); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// Adopt takes over a message of the predecessor: everything that it has, or one request that has ended there. It closes
// the files of the message.
func (r *Recent) Adopt(m handoff.Message) error {
	defer func() {
		for _, f := range m.Files {
			f.Close()
		}
	}()
	if m.Kind == handoff.Ended {
		var req Request
		if err := json.Unmarshal(m.Body, &req); err != nil {
			return err
		}
		r.Add(req)
		return nil
	}
	if len(m.Files) != 1 {
		return fmt.Errorf("the message has %d files in place of one", len(m.Files))
	}
	text, err := io.ReadAll(io.NewSectionReader(m.Files[0], 0, maxLeft))
	if err != nil {
		return err
	}
	var l left
	if err := json.Unmarshal(text, &l); err != nil {
		return err
	}
	r.adopt(l)
	r.settings.Changed()
	return nil
}

// adopt puts the requests and points of the predecessor before those of this process.
func (r *Recent) adopt(l left) {
	r.mu.Lock()
	defer r.mu.Unlock()
	own, ours := r.requests.since(0), r.points
	r.requests, r.points, r.number = newRings(), nil, 0
	r.epoch++
	for _, p := range l.Points {
		*r.point(p.At) = p
	}
	for i := range ours {
		r.point(ours[i].At).plus(ours[i])
	}
	for _, req := range slices.Concat(l.Requests, own) {
		r.number++
		req.Number = r.number
		r.requests.add(req)
	}
}
