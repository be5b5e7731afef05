package apitest

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"strings"

	"codex-proxy/runner/api/wire"
)

// shell is one that answers each input with itself, each size with ROWSxCOLUMNS, and ends at "exit STATUS\r".
func (d *Daemon) shell(w http.ResponseWriter, r *http.Request) {
	conn, stream := d.upgrade(w, r)
	if conn == nil {
		return
	}
	defer conn.Close()
	_ = wire.WriteShellFrame(conn, wire.ShellData, // a client that is gone is found by the next read
		fmt.Appendf(nil, "%s %sx%s\r\n", r.FormValue("term"), r.FormValue("rows"), r.FormValue("columns")))
	serveShell(stream, conn)
}

func serveShell(from *bufio.Reader, to io.Writer) {
	var line strings.Builder
	for {
		kind, payload, err := wire.ReadShellFrame(from)
		if err != nil {
			return
		}
		if kind == wire.ShellSize {
			payload = fmt.Appendf(nil, "%dx%d\r\n", binary.BigEndian.Uint16(payload), binary.BigEndian.Uint16(payload[2:]))
		} else {
			line.Write(payload)
		}
		if err := wire.WriteShellFrame(to, wire.ShellData, payload); err != nil {
			return
		}
		var status uint32
		if n, _ := fmt.Sscanf(line.String(), "exit %d\r", &status); n == 1 && strings.HasSuffix(line.String(), "\r") {
			_ = wire.WriteShellFrame(to, wire.ShellExit, binary.BigEndian.AppendUint32(nil, status))
			return
		}
	}
}
