package holders

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// listening returns the inodes of the sockets that listen on one of the ports, with the names of their ports. dir
// has the kernel's tables of this network namespace (proc_pid_net(5)).
func listening(dir string, ports []int) (map[uint64]string, error) {
	inodes := map[uint64]string{}
	if len(ports) == 0 {
		return inodes, nil
	}
	for _, table := range []string{"tcp", "tcp6"} {
		f, err := os.Open(filepath.Join(dir, table))
		if errors.Is(err, fs.ErrNotExist) { // a kernel without IPv6
			continue
		}
		if err != nil {
			return inodes, fmt.Errorf("cannot look for listening sockets: %w", err)
		}
		err = listeners(f, ports, inodes)
		_ = f.Close()
		if err != nil {
			return inodes, fmt.Errorf("cannot look for listening sockets in %s: %w", f.Name(), err)
		}
	}
	return inodes, nil
}

// listeners reads one table. local_address is the second field, hexadecimal with the port after the colon, the state
// the fourth, and the inode the tenth. The kernel writes all listening sockets before the others (tcp_seq_start in
// net/ipv4/tcp_ipv4.c), so the first other socket ends the reading.
func listeners(table io.Reader, ports []int, inodes map[uint64]string) error {
	const listen = "0A" // TCP_LISTEN in include/net/tcp_states.h
	lines := bufio.NewScanner(table)
	lines.Scan() // the heading
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 10 {
			continue
		}
		if fields[3] != listen {
			return nil
		}
		_, hex, _ := strings.Cut(fields[1], ":")
		port, err := strconv.ParseUint(hex, 16, 16)
		inode, inodeErr := strconv.ParseUint(fields[9], 10, 64)
		if err == nil && inodeErr == nil && slices.Contains(ports, int(port)) {
			inodes[inode] = portName(int(port))
		}
	}
	return lines.Err()
}
