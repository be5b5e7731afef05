// Command modelserver runs the scripted model server by itself, beside a codex that a test does not start.
//
//	modelserver [-listen ADDRESS] [-script FILE] [-models NAME,NAME] [STEP …]
//
// Steps on the command line answer every request; the file holds one script or a list of them, as JSON.
// It prints the URL when it listens, and takes more by HTTP: POST /_scripts, GET /_requests,
// POST /_gates/NAME.
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"codex-proxy/test/modelserver"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "modelserver:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	listen := flag.String("listen", "127.0.0.1:18080", "address and port to listen on")
	file := flag.String("script", "", "file of scripts, JSON")
	models := flag.String("models", "test-model", "names that /v1/models lists, by comma")
	flag.Parse()
	s := modelserver.New(strings.Split(*models, ",")...)
	if err := load(s, *file, flag.Args()); err != nil {
		return err
	}
	ln, err := net.Listen("tcp", *listen)
	if err != nil {
		return fmt.Errorf("cannot listen: %w", err)
	}
	fmt.Printf("http://%s\n", ln.Addr())
	return s.Serve(ctx, ln)
}

func load(s *modelserver.Server, file string, steps []string) error {
	if file != "" {
		raw, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("cannot read scripts: %w", err)
		}
		list, err := modelserver.ParseScripts(raw)
		if err != nil {
			return err
		}
		if err := s.Add(list...); err != nil {
			return err
		}
	}
	if len(steps) == 0 {
		return nil
	}
	return s.Always("", steps...)
}
