package machine

import (
	"fmt"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Bridge is an Ethernet switch for machines. It is in a network namespace of its own, which ends with the program that
// made it, so that the network of the host never sees it.
type Bridge struct {
	holder *exec.Cmd // a sleep that has the namespace
	ports  map[*Machine]string
}

// NewBridge makes a bridge for t.
func NewBridge(t testing.TB) *Bridge {
	t.Helper()
	b := &Bridge{holder: exec.Command("sleep", "infinity"), ports: map[*Machine]string{}}
	b.holder.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET, Pdeathsig: unix.SIGKILL}
	started, over, ended := make(chan error), make(chan struct{}), make(chan struct{})
	go func() {
		runtime.LockOSThread() // the signal of Pdeathsig follows the thread, prctl(2)
		defer runtime.UnlockOSThread()
		defer close(ended)
		err := b.holder.Start()
		started <- err
		if err != nil {
			return
		}
		<-over
		_ = b.holder.Process.Kill()
		_ = b.holder.Wait()
	}()
	require.NoError(t, <-started, "a bridge needs root")
	t.Cleanup(func() {
		close(over)
		<-ended
	})
	b.ip(t, "link", "add", "br0", "type", "bridge", "forward_delay", "0")
	b.ip(t, "link", "set", "br0", "up")
	return b
}

// Plug connects a machine, which gets the interface host0 with an address such as 10.0.0.1/24.
func (b *Bridge) Plug(t testing.TB, m *Machine, address string) {
	t.Helper()
	port := fmt.Sprintf("port%d", len(b.ports)+1)
	b.ip(t, "link", "add", port, "type", "veth", "peer", "name", "host0", "netns", strconv.Itoa(m.pid))
	b.ip(t, "link", "set", port, "master", "br0", "up")
	ipIn(t, m.pid, "addr", "add", address, "dev", "host0")
	ipIn(t, m.pid, "link", "set", "host0", "up")
	b.ports[m] = port
}

// Move gives a machine another address: nothing answers at the one before.
func (b *Bridge) Move(t testing.TB, m *Machine, address string) {
	t.Helper()
	ipIn(t, m.pid, "addr", "flush", "dev", "host0")
	ipIn(t, m.pid, "addr", "add", address, "dev", "host0")
}

// Address gives the bridge itself an address.
func (b *Bridge) Address(t testing.TB, address string) {
	t.Helper()
	b.ip(t, "addr", "add", address, "dev", "br0")
}

// Cut parts a machine from the others: its link stays up, and nothing arrives.
func (b *Bridge) Cut(t testing.TB, m *Machine) {
	t.Helper()
	b.ip(t, "link", "set", b.ports[m], "nomaster")
}

// Heal ends a Cut.
func (b *Bridge) Heal(t testing.TB, m *Machine) {
	t.Helper()
	b.ip(t, "link", "set", b.ports[m], "master", "br0")
}

func (b *Bridge) ip(t testing.TB, args ...string) {
	t.Helper()
	ipIn(t, b.holder.Process.Pid, args...)
}

// ipIn runs ip(8) of the host in the network of a process.
func ipIn(t testing.TB, pid int, args ...string) {
	t.Helper()
	network := fmt.Sprintf("--net=/proc/%d/ns/net", pid)
	out, err := exec.Command("nsenter", append([]string{network, "ip"}, args...)...).CombinedOutput()
	require.NoError(t, err, "ip %v: %s", args, out)
}
