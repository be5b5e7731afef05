package bed

import (
	"fmt"
)

// Listening is the file of a dependency that listens on a port of this machine.
func Listening(port int) string {
	return fmt.Sprintf("command = [\"listener\", \"127.0.0.1:%d\"]\n[probe]\ncheck = \"tcp:127.0.0.1:%[1]d\"\n", port)
}

// Listener is a server: it accepts connections on HOST:PORT, its first argument.
const Listener = `#!/usr/bin/perl
use IO::Socket::INET;
my $socket = IO::Socket::INET->new(LocalAddr => $ARGV[0], Listen => 16, ReuseAddr => 1) or die "cannot listen: $!";
while (1) { my $connection = $socket->accept }
`

// AddAddress gives the machine an address that is not a loopback address: SIOCSIFADDR,
// netdevice(7).
const AddAddress = `socket(S, AF_INET, SOCK_DGRAM, 0) or die $!;
ioctl(S, 0x8916, pack("a16 S n a4 x8", "lo:1", AF_INET, 0, inet_aton("192.0.2.1"))) or die $!`

// StartListener starts a listener that is no dependency, and returns when it accepts
// connections.
func StartListener(b *Bed, address string) {
	b.T.Helper()
	b.MustRun(b.T, "systemd-run", "--property=Type=notify", "codex-proxy", "notify-exec", "--probe",
		"tcp:"+address, "--", "listener", address)
}
