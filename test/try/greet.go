package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"codex-proxy/test/machine"
)

// greet prints what runs and how to try it.
func greet(ctx context.Context, out io.Writer, w worker, m *machine.Machine, took time.Duration) {
	fmt.Fprintf(out, "\ncodex-proxy is ready after %.1f s on http://%s\n", took.Seconds(), address)
	fmt.Fprintf(out, "  worker   %s\n", w.is)
	if w.hint != "" {
		fmt.Fprintf(out, "  real one %s\n", w.hint)
	}
	fmt.Fprintf(out, "  look     sudo nsenter -t %d -m -p -n codex-proxy console   # prints the link of a page\n", m.PID())
	model, err := firstModel(ctx, "http://"+address+"/v1")
	if err != nil {
		model = "MODEL"
	}
	fmt.Fprintf(out, "  try      curl -sN http://%s/v1/chat/completions -H 'Content-Type: application/json' \\\n"+
		"             -d '{\"model\":%q,\"stream\":true,\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}]}'\n",
		address, model)
	fmt.Fprint(out, "  stop     Ctrl-C; nothing stays behind\n\n")
}

// showRunner starts codex-runner and prints one of its commands with its output. The
// journal has the rest.
func showRunner(ctx context.Context, m *machine.Machine, out io.Writer) error {
	if _, err := m.Systemctl(ctx, "start", runner); err != nil {
		return fmt.Errorf("cannot start %s: %w", runner, err)
	}
	const script = `echo "hello from $USER, a user of this session alone"`
	stdout, stderr, err := m.Run(ctx, "codex-runner", "run", "--", "sh", "-c", script)
	if err != nil {
		return fmt.Errorf("codex-runner run: %w\n%s", err, stderr)
	}
	fmt.Fprintf(out, "codex-runner run -- sh -c '%s'\n  %s\n", script, stdout)
	return nil
}
