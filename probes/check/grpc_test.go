package check

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// patience bounds checks.
const patience = time.Minute

// due is a context whose deadline comes when come is closed.
type due struct {
	context.Context
	come <-chan struct{}
}

func (d due) Done() <-chan struct{} { return d.come }

func (d due) Err() error {
	select {
	case <-d.come:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// whenAsked is due as soon as a server that says nothing has received the first bytes of a connection.
func whenAsked(t testing.TB, l net.Listener) context.Context {
	t.Helper()
	come := make(chan struct{})
	var conn net.Conn
	go func() {
		defer close(come)
		var err error
		if conn, err = l.Accept(); assert.NoError(t, err) {
			_, err = conn.Read(make([]byte, 1))
			assert.NoError(t, err)
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-come
		if conn != nil {
			conn.Close()
		}
	})
	return due{context.Background(), come}
}

func listen(t testing.TB, network, address string) net.Listener {
	t.Helper()
	l, err := net.Listen(network, address)
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	return l
}

// serveGRPC serves until the end of the test, and awaits the end of the server: goleak
// is a clean-up, too, and runs later.
func serveGRPC(t testing.TB, l net.Listener, register func(*grpc.Server), options ...grpc.ServerOption) GRPC {
	t.Helper()
	server := grpc.NewServer(options...)
	register(server)
	ended := make(chan struct{})
	go func() { defer close(ended); _ = server.Serve(l) }()
	t.Cleanup(func() { server.Stop(); <-ended })
	return GRPC{Network: l.Addr().Network(), Address: l.Addr().String()}
}

func withHealth(states *health.Server) func(*grpc.Server) {
	return func(s *grpc.Server) { grpc_health_v1.RegisterHealthServer(s, states) }
}

func run(t testing.TB, f Func) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	return f(ctx)
}

func TestHealth(t *testing.T) {
	t.Cleanup(func() { goleak.VerifyNone(t) })
	states := health.NewServer()
	states.SetServingStatus("a.Known", grpc_health_v1.HealthCheckResponse_SERVING)
	for _, l := range []net.Listener{
		listen(t, "tcp", "127.0.0.1:0"), listen(t, "unix", filepath.Join(t.TempDir(), "s")),
	} {
		server := serveGRPC(t, l, withHealth(states))
		for _, service := range []string{"", "a.Known"} {
			states.SetServingStatus(service, grpc_health_v1.HealthCheckResponse_SERVING)
			detail, err := run(t, Health(server, service))
			require.NoError(t, err)
			assert.Equal(t, "grpc "+l.Addr().String()+" SERVING", detail)
		}
		_, err := run(t, Health(server, "an.Other"))
		require.EqualError(t, err, `service "an.Other" is unknown (NOT_FOUND)`)
		states.SetServingStatus("", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
		_, err = run(t, Health(server, ""))
		require.EqualError(t, err, "grpc.health.v1: NOT_SERVING")
		states.SetServingStatus("a.Known", grpc_health_v1.HealthCheckResponse_UNKNOWN)
		_, err = run(t, Health(server, "a.Known"))
		require.EqualError(t, err, `grpc.health.v1: service "a.Known": UNKNOWN`)
	}
}

// A server may lack the service, and may refuse the call.
func TestHealthStatus(t *testing.T) {
	t.Cleanup(func() { goleak.VerifyNone(t) })
	none := serveGRPC(t, listen(t, "tcp", "127.0.0.1:0"), func(*grpc.Server) {})
	_, err := run(t, Health(none, ""))
	require.EqualError(t, err, "no health service (UNIMPLEMENTED)")
	_, err = run(t, Temporal(none, "default"))
	require.EqualError(t, err, "no Temporal service (UNIMPLEMENTED)")

	refused := status.Error(codes.PermissionDenied, "no key: 100 % sure\n")
	refuse := func(context.Context, any, *grpc.UnaryServerInfo, grpc.UnaryHandler) (any, error) { return nil, refused }
	server := serveGRPC(t, listen(t, "tcp", "127.0.0.1:0"), withHealth(health.NewServer()),
		grpc.UnaryInterceptor(refuse))
	_, err = run(t, Health(server, ""))
	require.EqualError(t, err, "grpc.health.v1: PERMISSION_DENIED: no key: 100 % sure\n")
	var s *Status
	require.ErrorAs(t, err, &s)
	refused = status.Error(codes.Code(99), "")
	_, err = run(t, Health(server, "x"))
	assert.EqualError(t, err, `grpc.health.v1: service "x": status "99"`)
}

func TestCodeNames(t *testing.T) {
	for code, name := range codeNames {
		var c codes.Code
		require.NoError(t, c.UnmarshalJSON([]byte(`"`+name+`"`)))
		assert.Equal(t, code, int(c))
	}
	assert.Len(t, codeNames, int(codes.Unauthenticated)+1)
	for state, name := range healthStates {
		assert.Equal(t, name, grpc_health_v1.HealthCheckResponse_ServingStatus(state).String())
	}
	assert.Len(t, healthStates, len(grpc_health_v1.HealthCheckResponse_ServingStatus_name))
}

// describe plays the method of Temporal that knows one namespace. Its request has the
// shape of a StringValue: the name is field 1.
func describe(known string) func(any, grpc.ServerStream) error {
	return func(_ any, stream grpc.ServerStream) error {
		var request wrapperspb.StringValue
		if err := stream.RecvMsg(&request); err != nil {
			return err
		}
		switch request.Value {
		case known:
			return stream.SendMsg(&emptypb.Empty{})
		case "":
			return status.Error(codes.InvalidArgument, "no namespace")
		default:
			return status.Error(codes.NotFound, "Namespace "+request.Value+" is not found.")
		}
	}
}

// find plays the method of Temporal that looks for a workflow, and fails with what found returns. Its request has the
// namespace as field 1 and the workflow as field 2, which has the shape of a StringValue, too.
func find(found func(id string) error) func(any, grpc.ServerStream) error {
	return func(_ any, stream grpc.ServerStream) error {
		var request emptypb.Empty // all fields are unknown to it
		if err := stream.RecvMsg(&request); err != nil {
			return err
		}
		var workflow wrapperspb.StringValue
		for raw := []byte(request.ProtoReflect().GetUnknown()); len(raw) > 0; {
			number, _, tag := protowire.ConsumeTag(raw)
			text, size := protowire.ConsumeBytes(raw[tag:])
			if number == 2 {
				if err := proto.Unmarshal(text, &workflow); err != nil {
					return err
				}
			}
			raw = raw[tag+size:]
		}
		return found(workflow.Value)
	}
}

func registerDescribe(server *grpc.Server, known string) {
	registerTemporal(server, known, func(id string) error {
		return status.Error(codes.NotFound, "workflow not found for ID: "+id)
	})
}

func registerTemporal(server *grpc.Server, known string, found func(id string) error) {
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "temporal.api.workflowservice.v1.WorkflowService", HandlerType: (*any)(nil),
		Streams: []grpc.StreamDesc{
			{StreamName: "DescribeNamespace", Handler: describe(known)},
			{StreamName: "DescribeWorkflowExecution", Handler: find(found)},
		},
	}, nil)
}

func TestTemporal(t *testing.T) {
	t.Cleanup(func() { goleak.VerifyNone(t) })
	long := strings.Repeat("n", 300) // a length of two bytes
	server := serveGRPC(t, listen(t, "tcp", "127.0.0.1:0"), func(s *grpc.Server) { registerDescribe(s, long) })
	detail, err := run(t, Temporal(server, long))
	require.NoError(t, err)
	assert.Equal(t, "temporal "+server.Address+", namespace "+long, detail)
	_, err = run(t, Temporal(server, "orders"))
	assert.EqualError(t, err, `namespace "orders" is unknown (NOT_FOUND)`)
	_, err = run(t, Temporal(server, ""))
	assert.EqualError(t, err, `namespace "": INVALID_ARGUMENT: no namespace`)
}

// A server whose frontend answers and whose parts do not reach each other starts no workflow.
func TestTemporalWithoutHistory(t *testing.T) {
	t.Cleanup(func() { goleak.VerifyNone(t) })
	var asked string
	server := serveGRPC(t, listen(t, "tcp", "127.0.0.1:0"), func(s *grpc.Server) {
		registerTemporal(s, "default", func(id string) error {
			asked = id
			return status.Error(codes.Unavailable, "dial tcp 127.0.0.1:1: connection refused")
		})
	})
	_, err := run(t, Temporal(server, "default"))
	require.EqualError(t, err, `no workflow can start in namespace "default": UNAVAILABLE: dial tcp 127.0.0.1:1: connection refused`)
	assert.Equal(t, probeWorkflow, asked)
}

// certificate is one of localhost and 127.0.0.1, and the path of its authority.
func certificate(t testing.TB) (certificate tls.Certificate, authorities string) {
	t.Helper()
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.StartTLS()
	defer server.Close()
	return server.TLS.Certificates[0], writePEM(t, server.Certificate())
}

func TestHealthTLS(t *testing.T) {
	t.Cleanup(func() { goleak.VerifyNone(t) })
	pair, authorities := certificate(t)
	server := serveGRPC(t, listen(t, "tcp", "127.0.0.1:0"), withHealth(health.NewServer()),
		grpc.Creds(credentials.NewServerTLSFromCert(&pair)))
	_, err := run(t, Health(server, ""))
	require.ErrorContains(t, err, "no gRPC answer: ") // the rest depends on the order of FIN and RST

	server.TLS, server.Authorities = true, authorities
	detail, err := run(t, Health(server, ""))
	require.NoError(t, err)
	assert.Equal(t, "grpcs "+server.Address+" SERVING", detail)
	for path, want := range map[string]string{
		"":                        "certificate signed by unknown authority",
		authorities + ".":         "cannot read the certificate authorities: open ",
		"/etc/passwd":             "has no certificate in PEM",
		"/dev/zero":               "/dev/zero has more than 4194304 bytes",
		filepath.Dir(authorities): "is a directory",
	} {
		server.Authorities = path
		_, err = run(t, Health(server, ""))
		assert.ErrorContains(t, err, want)
		assert.ErrorContains(t, err, "grpcs "+server.Address+": ")
	}
	web := httptest.NewTLSServer(http.NotFoundHandler())
	defer web.Close()
	_, err = run(t, Health(GRPC{"tcp", web.Listener.Addr().String(), true, writePEM(t, web.Certificate())}, ""))
	require.ErrorContains(t, err, "no application protocol")
	plain := serveGRPC(t, listen(t, "tcp", "127.0.0.1:0"), withHealth(health.NewServer()))
	plain.TLS, plain.Authorities = true, authorities
	_, err = run(t, Health(plain, ""))
	assert.ErrorContains(t, err, "first record does not look like a TLS handshake")
}

// Servers that accept connections and speak something else, or nothing.
func TestHealthOtherServers(t *testing.T) {
	t.Cleanup(func() { goleak.VerifyNone(t) })
	web := func(h http.HandlerFunc) GRPC {
		server := httptest.NewUnstartedServer(h)
		server.Config.Protocols = new(http.Protocols)
		server.Config.Protocols.SetUnencryptedHTTP2(true)
		server.Start()
		t.Cleanup(server.Close)
		return GRPC{Network: "tcp", Address: strings.TrimPrefix(server.URL, "http://")}
	}
	grpcAnswer := func(code string, body ...byte) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/grpc+proto")
			w.Header().Set("Trailer", "Grpc-Status")
			_, _ = w.Write(body)
			if code != "" {
				w.Header().Set("Grpc-Status", code)
			}
		}
	}
	http1 := httptest.NewServer(http.NotFoundHandler())
	defer http1.Close()
	for want, server := range map[string]GRPC{
		"the server speaks HTTP/1, not gRPC":                {"tcp", http1.Listener.Addr().String(), false, ""},
		"not gRPC: the status is 404 Not Found":             web(http.NotFound),
		"not gRPC: the content type is \"text/plain":        web(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "ok") }),
		"not gRPC: the answer has no grpc-status":           web(grpcAnswer("", 0, 0, 0, 0, 0)),
		"the gRPC answer has 4 bytes and no message":        web(grpcAnswer("0", 0, 0, 0, 0)),
		"the gRPC answer is compressed":                     web(grpcAnswer("0", 1, 0, 0, 0, 0)),
		"the gRPC answer has 1 bytes, and its length is 9":  web(grpcAnswer("0", 0, 0, 0, 0, 9, 8)),
		"grpc.health.v1: the answer is no protobuf message": web(grpcAnswer("0", 0, 0, 0, 0, 1, 8)),
		"grpc.health.v1: UNKNOWN":                           web(grpcAnswer("0", 0, 0, 0, 0, 0)),
		"grpc.health.v1: state 7":                           web(grpcAnswer("0", 0, 0, 0, 0, 2, 8, 7)),
		"grpc.health.v1: UNAVAILABLE":                       web(grpcAnswer("14")),
		"no gRPC answer: ":                                  answering(t, ""),
		"the server speaks TLS: check it with grpcs":        answering(t, "\x15\x03\x01\x00\x02\x02\x46"),
	} {
		_, err := run(t, Health(server, ""))
		assert.ErrorContains(t, err, want)
	}
}

// answering is a server that reads a little from each connection, sends bytes and
// closes it.
func answering(t testing.TB, bytes string) GRPC {
	t.Helper()
	l := listen(t, "tcp", "127.0.0.1:0")
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 4096))
			_, _ = conn.Write([]byte(bytes))
			conn.Close()
		}
	}()
	return GRPC{Network: "tcp", Address: l.Addr().String()}
}

// A server that sends without end delays no check, and is named.
func TestHealthHugeAnswers(t *testing.T) {
	t.Cleanup(func() { goleak.VerifyNone(t) })
	huge := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/grpc")
		if r.Header.Get("Te") == "trailers" {
			for r.Context().Err() == nil {
				_, _ = w.Write(make([]byte, 4096))
			}
		}
	}
	header := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X", strings.Repeat("x", 2*answerLimit))
	}
	for _, handler := range []http.HandlerFunc{huge, header} {
		server := httptest.NewUnstartedServer(handler)
		server.Config.Protocols = new(http.Protocols)
		server.Config.Protocols.SetUnencryptedHTTP2(true)
		server.Start()
		_, err := run(t, Health(GRPC{Network: "tcp", Address: strings.TrimPrefix(server.URL, "http://")}, ""))
		require.Error(t, err)
		assert.NotErrorIs(t, err, context.DeadlineExceeded)
		t.Log(err)
		server.Close()
	}
}

// A server that hangs passes TCP: the kernel accepts. The check finds it, within its
// bound.
func TestHangingServer(t *testing.T) {
	t.Cleanup(func() { goleak.VerifyNone(t) })
	hanging := listen(t, "tcp", "127.0.0.1:0") // nobody accepts
	_, err := run(t, TCP(hanging.Addr().String()))
	require.NoError(t, err)
	l := listen(t, "tcp", "127.0.0.1:0")
	server := GRPC{Network: "tcp", Address: l.Addr().String()}
	silent := "accepts the connection and does not answer: "
	for _, f := range []Func{Health(server, ""), Temporal(server, "default")} {
		_, err = f(whenAsked(t, l))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.ErrorContains(t, err, "grpc "+server.Address+" "+silent)
	}
	server.TLS = true
	_, err = Health(server, "")(whenAsked(t, l))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = Health(server, "")(short)
	require.ErrorIs(t, err, context.DeadlineExceeded)

	cause := errors.New("the probing has ended")
	over, end := context.WithCancelCause(t.Context())
	end(cause)
	_, err = Health(server, "")(over)
	assert.Error(t, err)
}

func TestUnix(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l := listen(t, "unix", path)
	detail, err := run(t, Unix(path))
	require.NoError(t, err)
	assert.Equal(t, "unix "+path, detail)
	l.Close()
	_, err = run(t, Unix(path))
	assert.ErrorContains(t, err, "no such file or directory")
}

// The decoder agrees with protobuf's own, and survives all input.
func FuzzEnumField(f *testing.F) {
	f.Add([]byte{8, 1})
	f.Add([]byte{18, 2, 'h', 'i', 8, 2, 8, 1})
	f.Add([]byte{9, 1, 2, 3, 4, 5, 6, 7, 8, 13, 1, 2, 3, 4, 8, 3})
	f.Add([]byte{18, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, message []byte) {
		got, err := enumField(message)
		var want grpc_health_v1.HealthCheckResponse
		if proto.Unmarshal(message, &want) == nil && err == nil {
			assert.Equal(t, int32(want.Status), int32(got))
		}
	})
}
