// Command try is `make run`: it boots a throwaway systemd over this host's own
// files, with the host's network, installs there what the Debian package's file
// list names, starts codex.target and follows the journal. Ctrl-C leaves nothing
// behind.
//
//	try -programs DIR [-tree DIR]
//
// Environment: MODEL_ENDPOINT (base URL of a Responses API) and MODEL choose
// where a real codex sends its requests; CODEX is the codex to use in place of
// the one on PATH; CODEX_HOME is where its login is, ~/.codex by default.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	bin := flag.String("programs", "", "the directory of the built programs")
	tree := flag.String("tree", ".", "the top of the source tree")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends at once; the machine dies with us
	if err := try(ctx, *tree, *bin); err != nil {
		fmt.Fprintln(os.Stderr, "make run:", err)
		os.Exit(1)
	}
}

func try(ctx context.Context, tree, bin string) error {
	if bin == "" {
		return errors.New("no programs (hint: -programs DIR, as `make run` gives)")
	}
	if os.Geteuid() != 0 {
		return errors.New("booting systemd in namespaces takes root (hint: sudo -E make run)")
	}
	if err := portFree(address); err != nil {
		return err
	}
	w, err := chooseWorker(ctx, environment(os.Getenv))
	if err != nil {
		return err
	}
	install, err := files(tree, bin)
	if err != nil {
		return err
	}
	return run(ctx, install, w, os.Stdout)
}
