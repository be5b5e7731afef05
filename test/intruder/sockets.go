package main

import (
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// sockets are those of another session, of the service and of the host.
func sockets(v victim) []attempt {
	var all []attempt
	for _, path := range []string{
		"@mark", "/tmp/mark.sock", "/workspace/mark.sock", fmt.Sprintf("/var/lib/codex-workspace/%d/tree/mark.sock", v.Slot),
		fmt.Sprintf("/proc/%d/root/workspace/mark.sock", v.PID), "/run/codex-runner/api.sock", "/run/codex-runner/daemon/sessions/" + v.ID + "/control.sock",
		"/run/codex-runner/daemon/sessions/*/control.sock", "/run/dbus/system_bus_socket", "/var/run/dbus/system_bus_socket",
		"/run/systemd/private", "/run/codex-proxy/*", "/run/codex-worker/*/*", "/run/udev/control", "/run/user/*/bus", "@host",
		"/run/systemd/io.system.ManagedOOM", "/run/systemd/io.systemd.Manager", "/run/systemd/oom/io.system.ManagedOOM", "/run/systemd/coredump",
		"/run/docker.sock", "/run/containerd/containerd.sock", "/run/podman/podman.sock",
	} {
		all = append(all, attempt{"connect to " + path, func() error {
			if path[0] == '@' {
				return connect("unix", path)
			}
			matches, err := filepath.Glob(path)
			if err != nil {
				return err
			}
			err = errNothing
			for _, match := range matches {
				if err = connect("unix", match); err == nil {
					return nil
				}
				if err = connect("unixgram", match); err == nil {
					return nil
				}
			}
			return err
		}})
	}
	all = append(all, attempt{"connect to any other socket", anySocket})
	for _, address := range []string{"127.0.0.1:" + port, "[::1]:" + port, v.Remote, "127.0.0.1:8787"} {
		all = append(all, attempt{"connect to " + address, func() error { return connect("tcp", address) }})
	}
	all = append(all, attempt{"send out of the host", func() error {
		conn, err := net.Dial("udp", "192.0.2.1:53")
		if err != nil {
			return err
		}
		defer conn.Close()
		_, err = conn.Write([]byte("x"))
		return err
	}}, attempt{"an interface of the host", func() error {
		list, err := net.Interfaces()
		for _, i := range list {
			if i.Flags&net.FlagLoopback == 0 && i.Flags&net.FlagUp != 0 {
				return nil
			}
		}
		return orNothing(err)
	}})
	for name, s := range map[string][3]int{
		"packets": {unix.AF_PACKET, unix.SOCK_RAW, 0x300}, "raw IP": {unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP},
		"raw IPv6": {unix.AF_INET6, unix.SOCK_RAW, unix.IPPROTO_ICMPV6}, "virtual machines": {unix.AF_VSOCK, unix.SOCK_STREAM, 0},
		"the kernel's ciphers": {unix.AF_ALG, unix.SOCK_SEQPACKET, 0}, "Bluetooth": {unix.AF_BLUETOOTH, unix.SOCK_RAW, 1},
		"express data path": {unix.AF_XDP, unix.SOCK_RAW, 0},
	} {
		all = append(all, attempt{"a socket for " + name, func() error {
			fd, err := unix.Socket(s[0], s[1], s[2])
			if err == nil {
				_ = unix.Close(fd)
			}
			return err
		}})
	}
	return append(all, attempt{"change the network", addInterface})
}

// common are the sockets that every program has: each request to them is limited to what the user may do.
var common = []string{
	"/run/systemd/notify", "/run/systemd/userdb/io.systemd.DynamicUser",
}

// anySocket connects to every socket of the file system that it finds, but to those of its own and common.
func anySocket() error {
	err := errNothing
	for _, top := range []string{"/run", "/var", "/dev", "/srv", "/opt", "/etc"} {
		_ = filepath.WalkDir(top, func(path string, entry fs.DirEntry, walk error) error {
			if walk != nil || entry.Type() != fs.ModeSocket || slices.Contains(common, path) {
				return nil // it may not look there
			}
			if connect("unix", path) == nil || connect("unixgram", path) == nil {
				fmt.Fprintln(os.Stdout, "socket", path)
				err = nil
			}
			return nil
		})
	}
	return err
}

// orNothing is the error, or errNothing if there is none.
func orNothing(err error) error {
	if err == nil {
		return errNothing
	}
	return err
}

func connect(network, address string) error {
	conn, err := net.DialTimeout(network, address, 5*time.Second)
	if err != nil {
		return err
	}
	return conn.Close()
}

// addInterface asks the kernel by rtnetlink(7) to make the interface "intruder".
func addInterface() error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	// RTM_NEWLINK of lo: down.
	message := make([]byte, unix.NLMSG_HDRLEN+unix.SizeofIfInfomsg)
	message[0] = byte(len(message))
	message[4] = unix.RTM_NEWLINK
	message[6] = unix.NLM_F_REQUEST | unix.NLM_F_ACK
	message[unix.NLMSG_HDRLEN+4] = 1  // ifi_index
	message[unix.NLMSG_HDRLEN+12] = 1 // ifi_change: IFF_UP
	if err := unix.Sendto(fd, message, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	answer := make([]byte, 4096)
	n, _, err := unix.Recvfrom(fd, answer, 0)
	if err != nil {
		return err
	}
	if n < unix.NLMSG_HDRLEN+4 {
		return unix.EINVAL
	}
	if code := int32(uint32(answer[16]) | uint32(answer[17])<<8 | uint32(answer[18])<<16 | uint32(answer[19])<<24); code != 0 {
		return unix.Errno(-code)
	}
	return nil
}
