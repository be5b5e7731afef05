// Package probe is the grammar of probes: the KIND:TARGET of `notify-exec --probe` and of a dependency's file, and the
// options next to it.
package probe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"

	"codex-proxy/codex/appserver"
	"codex-proxy/codex/handshake"
	"codex-proxy/notify"
	"codex-proxy/probes/check"
)

// Probe is one way to find out whether a program works.
type Probe struct {
	Ready, Alive check.Func // Alive may check less than Ready

	http, tls bool // which options the probe has
}

// forms are one line for each kind, in the order of help texts.
var forms = []string{
	"appserver:unix:PATH", "tcp:HOST:PORT", "unix:PATH", "http:URL", "grpc:HOST:PORT[/SERVICE]",
	"grpcs:HOST:PORT[/SERVICE]", "temporal:HOST:PORT[/NAMESPACE]", "exec:LINE",
}

// Kinds returns the beginnings of all values, such as "tcp:".
func Kinds() (kinds []string) {
	for _, form := range forms {
		kind, _, _ := strings.Cut(form, ":")
		kinds = append(kinds, kind+":")
	}
	return kinds
}

// Parse reads KIND:TARGET. It touches neither files nor the network.
func Parse(value string, o Options) (Probe, error) {
	kinds := map[string]func(target string, o Options) (Probe, error){
		"appserver": appServer,
		"tcp":       tcp,
		"unix":      unix,
		"http":      http,
		"https":     https,
		"grpc":      grpc,
		"grpcs":     grpcs,
		"temporal":  temporal,
		"exec":      exec,
	}
	kind, target, _ := strings.Cut(value, ":")
	parse := kinds[kind]
	if parse == nil {
		return Probe{}, fmt.Errorf("unknown kind %q: want %s or %s",
			kind, strings.Join(forms[:len(forms)-1], ", "), forms[len(forms)-1])
	}
	return parse(target, o)
}

// once is a probe with one check for readiness and liveness.
func once(f check.Func) Probe { return Probe{Ready: f, Alive: f} }

// appServer lists models for readiness only. Whether there are any can depend
// on the account and on the network, and neither is mended by killing codex.
func appServer(target string, o Options) (Probe, error) {
	path, ok := strings.CutPrefix(target, "unix:")
	if !ok || !filepath.IsAbs(path) {
		return Probe{}, errors.New("want appserver:unix:/absolute/path, " +
			"the path that codex app-server --listen was given")
	}
	ready := check.AppServerModels(func(ctx context.Context) (userAgent string, models int, err error) {
		userAgent, err = handshake.With(ctx, path, o.Version, func(conn *appserver.Conn) error {
			list, err := conn.Models(ctx)
			models = len(list)
			return err
		})
		return userAgent, models, err
	})
	alive := check.AppServer(func(ctx context.Context) (string, error) {
		return handshake.With(ctx, path, o.Version, func(*appserver.Conn) error { return nil })
	})
	return Probe{Ready: ready, Alive: alive}, nil
}

func tcp(target string, _ Options) (Probe, error) {
	if !isHostPort(target) {
		return Probe{}, errors.New("want tcp:HOST:PORT, such as tcp:127.0.0.1:7233 or tcp:[::1]:7233")
	}
	return once(check.TCP(target)), nil
}

// isHostPort accepts the name of a port, too: /etc/services.
func isHostPort(address string) bool {
	_, port, err := net.SplitHostPort(address)
	if err != nil || port == "" {
		return false
	}
	n, err := strconv.Atoi(port)
	return err != nil || n > 0 && n <= 65535
}

func unix(target string, _ Options) (Probe, error) {
	if !filepath.IsAbs(target) {
		return Probe{}, errors.New("want unix:/absolute/path, such as unix:/run/postgresql/.s.PGSQL.5432")
	}
	return once(check.Unix(target)), nil
}

func http(target string, o Options) (Probe, error) {
	if socket, ok := strings.CutPrefix(target, "unix:"); ok {
		return httpUnix(socket, o)
	}
	if strings.HasPrefix(target, "//") { // --probe http://host/path: the kind is the scheme
		target = "http:" + target
	}
	u, err := url.Parse(target)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return Probe{}, errors.New("want http:URL, such as http:http://127.0.0.1:8080/healthz, " +
			"or http:unix:/absolute/path:/healthz")
	}
	p := once(check.HTTP(target, o.answer()))
	p.http, p.tls = true, u.Scheme == "https"
	return p, nil
}

func https(target string, o Options) (Probe, error) { return http("https:"+target, o) }

func httpUnix(socket string, o Options) (Probe, error) {
	path, target, _ := strings.Cut(socket, ":")
	if !filepath.IsAbs(path) || (target != "" && target[0] != '/') {
		return Probe{}, errors.New("want http:unix:/absolute/path or http:unix:/absolute/path:/target")
	}
	p := once(check.HTTPUnix(path, target, o.answer()))
	p.http = true
	return p, nil
}

func grpc(target string, _ Options) (Probe, error) {
	server, service, ok := grpcServer(target)
	if !ok {
		return Probe{}, errors.New("want grpc:HOST:PORT or grpc:HOST:PORT/SERVICE, such as grpc:127.0.0.1:7233, " +
			"or grpc:unix:/absolute/path or grpc:unix:/absolute/path:/SERVICE")
	}
	return once(check.Health(server, service)), nil
}

func grpcs(target string, o Options) (Probe, error) {
	address, service, _ := strings.Cut(target, "/")
	if !isHostPort(address) {
		return Probe{}, errors.New("want grpcs:HOST:PORT or grpcs:HOST:PORT/SERVICE, such as grpcs:localhost:7233: " +
			"the certificate is of HOST")
	}
	p := once(check.Health(check.GRPC{Network: "tcp", Address: address, TLS: true, Authorities: o.CA}, service))
	p.tls = true
	return p, nil
}

// grpcServer reads HOST:PORT[/NAME] and unix:PATH[:/NAME].
func grpcServer(target string) (server check.GRPC, name string, ok bool) {
	if socket, isUnix := strings.CutPrefix(target, "unix:"); isUnix {
		path, name, named := strings.Cut(socket, ":")
		name, slash := strings.CutPrefix(name, "/")
		return check.GRPC{Network: "unix", Address: path}, name, filepath.IsAbs(path) && named == slash
	}
	address, name, _ := strings.Cut(target, "/")
	return check.GRPC{Network: "tcp", Address: address}, name, isHostPort(address)
}

// defaultNamespace is the namespace that Temporal's own tools take.
const defaultNamespace = "default"

func temporal(target string, _ Options) (Probe, error) {
	server, namespace, ok := grpcServer(target)
	if !ok {
		return Probe{}, errors.New("want temporal:HOST:PORT or temporal:HOST:PORT/NAMESPACE, " +
			"such as temporal:127.0.0.1:7233")
	}
	return once(check.Temporal(server, cmp.Or(namespace, defaultNamespace))), nil
}

func exec(line string, _ Options) (Probe, error) {
	if strings.TrimSpace(line) == "" {
		return Probe{}, errors.New("want exec:LINE, such as exec:pg_isready -q")
	}
	return once(check.Exec(line, func(ctx context.Context) error { return notify.Shell(ctx, line) })), nil
}
