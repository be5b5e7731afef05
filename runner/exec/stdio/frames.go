package stdio

import (
	"bufio"
	"encoding/binary"
	"errors"
	"net"
	"os"

	"codex-proxy/runner/api/wire"
)

// Show sends the output of the terminal until its end.
func (p *PTY) Show(conn net.Conn) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := p.Master.Read(buffer)
		if err == nil {
			err = wire.WriteShellFrame(conn, wire.ShellData, buffer[:n])
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			for rest := p.rest(buffer); len(rest) > 0; rest = p.rest(buffer) {
				_ = wire.WriteShellFrame(conn, wire.ShellData, rest)
			}
		}
		if err != nil {
			return // EIO: no process has the terminal
		}
	}
}

// Serve handles the frames of the client until the first mistake or the end.
func (p *PTY) Serve(input *bufio.Reader) {
	for {
		kind, payload, err := wire.ReadShellFrame(input)
		if err == nil {
			switch kind {
			case wire.ShellData:
				_, err = p.Master.Write(payload)
			case wire.ShellSize:
				err = p.window(payload)
			default:
				err = errors.New("a client sends no such frame")
			}
		}
		if err != nil {
			return
		}
	}
}

func (p *PTY) window(payload []byte) error {
	if len(payload) != 4 {
		return errors.New("a size has two numbers of 16 bits")
	}
	return p.Resize(binary.BigEndian.Uint16(payload), binary.BigEndian.Uint16(payload[2:]))
}
