package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// portFree returns nil if no process listens on the address, else an error that
// names the process.
func portFree(address string) error {
	l, err := net.Listen("tcp", address)
	if err == nil {
		return l.Close()
	}
	if !errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("cannot use %s: %w", address, err)
	}
	_, port, _ := net.SplitHostPort(address)
	switch who := holder(port); who {
	case "":
		return fmt.Errorf("%s is in use (hint: `ss -ltnp 'sport = :%s'` shows the process)", address, port)
	case "systemd (PID 1)":
		return fmt.Errorf(
			"%s is in use by a unit of this host (hint: if it is an installed codex-proxy, `systemctl stop %s`)",
			address, target)
	default:
		return fmt.Errorf("%s is in use by %s (hint: stop it, or another `make run`, first)", address, who)
	}
}

// holder returns name and PID of the process that listens on port, "" if /proc
// does not show it (proc_net_tcp(5)).
func holder(port string) string {
	inodes := listeners(port)
	links, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, link := range links {
		to, err := os.Readlink(link)
		if err == nil && inodes[to] {
			pid := strings.Split(link, "/")[2]
			name, _ := os.ReadFile("/proc/" + pid + "/comm")
			return fmt.Sprintf("%s (PID %s)", strings.TrimSpace(string(name)), pid)
		}
	}
	return ""
}

// listeners returns the sockets that listen on port, as links of /proc/PID/fd
// name them.
func listeners(port string) map[string]bool {
	const listening = "0A" // TCP_LISTEN
	var number int
	_, _ = fmt.Sscan(port, &number)
	suffix := fmt.Sprintf(":%04X", number)
	inodes := map[string]bool{}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		data, _ := os.ReadFile(table)
		for line := range strings.Lines(string(data)) {
			f := strings.Fields(line)
			if len(f) > 9 && strings.HasSuffix(f[1], suffix) && f[3] == listening {
				inodes["socket:["+f[9]+"]"] = true
			}
		}
	}
	return inodes
}
