package check

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
)

// The test binary also plays the servers of the benchmark.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "servers" {
		playServers()
		return
	}
	os.Exit(m.Run())
}

// playServers prints an address a line, of HTTP and of gRPC, until stdin ends.
func playServers() {
	web := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer web.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	server := grpc.NewServer()
	withHealth(health.NewServer())(server)
	registerDescribe(server, "default")
	defer server.Stop()
	go func() { _ = server.Serve(l) }()
	fmt.Println(web.Listener.Addr())
	fmt.Println(l.Addr())
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// startServers starts the servers as a process that ends with the benchmark.
func startServers(b *testing.B) (web, rpc string) {
	b.Helper()
	self, err := os.Executable()
	require.NoError(b, err)
	cmd := exec.Command(self, "servers")
	stdin, err := cmd.StdinPipe()
	require.NoError(b, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(b, err)
	require.NoError(b, cmd.Start())
	b.Cleanup(func() { stdin.Close(); _ = cmd.Wait() })
	lines := bufio.NewScanner(stdout)
	for _, address := range []*string{&web, &rpc} {
		require.True(b, lines.Scan())
		*address = lines.Text()
	}
	return web, rpc
}

// BenchmarkCost measures what one probe costs the process that probes: the servers are
// another process. cpu-µs/op is the CPU time of the whole process, with the garbage
// collector: an interval of 5 s and 0.05 % of one CPU are 2500 µs.
func BenchmarkCost(b *testing.B) {
	web, rpc := startServers(b)
	server := GRPC{Network: "tcp", Address: rpc}
	for _, c := range []struct {
		name string
		f    Func
	}{
		{"tcp", TCP(web)},
		{"http", HTTP("http://"+web, HTTPAnswer{})},
		{"grpc", Health(server, "")},
		{"temporal", Temporal(server, "default")},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			began := cpuTime(b)
			for b.Loop() {
				_, err := c.f(b.Context())
				require.NoError(b, err)
			}
			b.ReportMetric(float64((cpuTime(b)-began).Microseconds())/float64(b.N), "cpu-µs/op")
		})
	}
}

func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
