package shim

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strings"

	"codex-proxy/cmd/internal/handshake"
	"codex-proxy/notify"
	"codex-proxy/probes/check"
	"codex-proxy/proxy/appserver"
)

// SetProbe reads the value of --probe, KIND:TARGET.
func (s *Shim) SetProbe(value string) (err error) {
	if s.Command.Ready != nil {
		return errors.New("only one probe is possible: combine several in exec:LINE")
	}
	parse := map[string]func(string) (ready, alive check.Func, err error){
		"appserver": s.appServer,
		"tcp":       once(tcp),
		"http":      once(http),
		"exec":      once(shell),
	}
	kind, target, _ := strings.Cut(value, ":")
	if parse[kind] == nil {
		return fmt.Errorf("unknown kind %q: want appserver:unix:PATH, tcp:HOST:PORT, http:URL or exec:LINE", kind)
	}
	s.Command.Ready, s.Command.Alive, err = parse[kind](target)
	return err
}

// once uses one check for readiness and liveness.
func once(parse func(target string) (check.Func, error)) func(string) (ready, alive check.Func, err error) {
	return func(target string) (ready, alive check.Func, err error) {
		ready, err = parse(target)
		return ready, ready, err
	}
}

// appServer lists models for readiness only. Whether there are any can depend
// on the account and on the network, and neither is mended by killing codex.
func (s *Shim) appServer(target string) (ready, alive check.Func, err error) {
	path, ok := strings.CutPrefix(target, "unix:")
	if !ok || !filepath.IsAbs(path) {
		return nil, nil, errors.New("want appserver:unix:/absolute/path, " +
			"the path that codex app-server --listen was given")
	}
	ready = check.AppServerModels(func(ctx context.Context) (userAgent string, models int, err error) {
		userAgent, err = handshake.With(ctx, path, s.Version, func(conn *appserver.Conn) error {
			list, err := conn.Models(ctx)
			models = len(list)
			return err
		})
		return userAgent, models, err
	})
	alive = check.AppServer(func(ctx context.Context) (string, error) {
		return handshake.With(ctx, path, s.Version, func(*appserver.Conn) error { return nil })
	})
	return ready, alive, nil
}

func tcp(target string) (check.Func, error) {
	if _, port, err := net.SplitHostPort(target); err != nil || port == "" {
		return nil, errors.New("want tcp:HOST:PORT, such as tcp:127.0.0.1:7233 or tcp:[::1]:7233")
	}
	return check.TCP(target), nil
}

func http(target string) (check.Func, error) {
	if socket, ok := strings.CutPrefix(target, "unix:"); ok {
		return httpUnix(socket)
	}
	if strings.HasPrefix(target, "//") { // --probe http://host/path: the kind is the scheme
		target = "http:" + target
	}
	u, err := url.Parse(target)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		return nil, errors.New("want http:URL, such as http:http://127.0.0.1:8080/healthz, " +
			"or http:unix:/absolute/path:/healthz")
	}
	return check.HTTP(target), nil
}

func httpUnix(socket string) (check.Func, error) {
	path, target, _ := strings.Cut(socket, ":")
	if !filepath.IsAbs(path) || (target != "" && target[0] != '/') {
		return nil, errors.New("want http:unix:/absolute/path or http:unix:/absolute/path:/target")
	}
	return check.HTTPUnix(path, target), nil
}

func shell(line string) (check.Func, error) {
	if strings.TrimSpace(line) == "" {
		return nil, errors.New("want exec:LINE, such as exec:pg_isready -q")
	}
	return check.Exec(line, func(ctx context.Context) error { return notify.Shell(ctx, line) }), nil
}
