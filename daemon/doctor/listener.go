package doctor

import (
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// listener names the process with a socket that excludes one on host:port.
func (s *service) listener(host, port string) (who string, taken bool) {
	inode, taken := s.listeningInode(net.ParseIP(host), port)
	if !taken {
		return "", false
	}
	fds, _ := filepath.Glob(s.Path("/proc/[0-9]*/fd/*")) // the pattern is good
	for _, fd := range fds {
		if link, err := os.Readlink(fd); err != nil || link != "socket:["+inode+"]" {
			continue
		}
		dir := filepath.Dir(filepath.Dir(fd))
		name, _ := os.ReadFile(filepath.Join(dir, "comm"))
		return fmt.Sprintf("%s (process %s)", strings.TrimSpace(string(name)), filepath.Base(dir)), true
	}
	return "a process that cannot be seen from here", true
}

// listeningInode reads the kernel's tables of TCP sockets (proc_pid_net(5)):
// local_address is the second field, the state the fourth, 0A is LISTEN, and the
// inode the tenth.
func (s *service) listeningInode(wanted net.IP, port string) (string, bool) {
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return "", false
	}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, err := os.ReadFile(s.Path(table))
		if err != nil {
			continue // no IPv6 here
		}
		for line := range strings.Lines(string(text)) {
			f := strings.Fields(line)
			if len(f) < 10 || f[3] != "0A" {
				continue
			}
			address, p, _ := strings.Cut(f[1], ":")
			if p == fmt.Sprintf("%04X", number) && inTheWay(kernelIP(address), wanted) {
				return f[9], true
			}
		}
	}
	return "", false
}

// inTheWay reports whether two sockets with one port exclude each other.
func inTheWay(there, wanted net.IP) bool {
	return wanted == nil || wanted.IsUnspecified() || there.IsUnspecified() || there.Equal(wanted)
}

// kernelIP reads an address as the kernel prints it: hexadecimal, each 32-bit
// word in the byte order of the machine, which is little on all that we run on.
func kernelIP(text string) net.IP {
	ip, err := hex.DecodeString(text)
	if err != nil || len(ip)%4 != 0 {
		return nil
	}
	for word := range slices.Chunk(ip, 4) {
		slices.Reverse(word)
	}
	return ip
}
