package wire

import (
	"encoding/binary"
	"fmt"
	"io"
)

// ShellProtocol is the value of Upgrade in POST /v1/sessions/{id}/shell and in its answer 101. Frames follow in both
// directions.
const ShellProtocol = "codex-runner-shell"

// ShellFrame is the kind of a frame of a shell.
type ShellFrame byte

// The kinds of frames: terminal input of the client and output of the server; the size of the client's terminal, rows
// and columns as two big-endian uint16; and, last of all, the shell's exit status as a big-endian uint32.
const (
	ShellData ShellFrame = iota
	ShellSize
	ShellExit
)

// maxShellFrame bounds the payload of a frame, in bytes.
const maxShellFrame = 64 << 10

// WriteShellFrame writes a frame in one call of w.Write: its kind, the length of its payload as a big-endian uint32,
// and the payload, which has at most 64 KiB.
func WriteShellFrame(w io.Writer, kind ShellFrame, payload []byte) error {
	if len(payload) > maxShellFrame {
		return fmt.Errorf("a frame of %d bytes is longer than %d", len(payload), maxShellFrame)
	}
	frame := binary.BigEndian.AppendUint32([]byte{byte(kind)}, uint32(len(payload)))
	_, err := w.Write(append(frame, payload...))
	return err
}

// ReadShellFrame reads a frame. The error is io.EOF at the end between two frames.
func ReadShellFrame(r io.Reader) (ShellFrame, []byte, error) {
	head := make([]byte, 5)
	if _, err := io.ReadFull(r, head); err != nil {
		return 0, nil, err
	}
	size := binary.BigEndian.Uint32(head[1:])
	if ShellFrame(head[0]) > ShellExit || size > maxShellFrame {
		return 0, nil, fmt.Errorf("the peer sent a frame of kind %d and %d bytes, which this program does not know",
			head[0], size)
	}
	payload := make([]byte, size)
	if _, err := io.ReadFull(r, payload); err != nil {
		return 0, nil, fmt.Errorf("a frame ends early: %w", io.ErrUnexpectedEOF)
	}
	return ShellFrame(head[0]), payload, nil
}
