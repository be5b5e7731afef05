package main

import (
	"context"
	"fmt"
	"io"
	"time"
)

// greet prints what runs and how to try it.
func greet(ctx context.Context, out io.Writer, w worker, took time.Duration) {
	fmt.Fprintf(out, "\ncodex-proxy is ready after %.1f s on http://%s\n", took.Seconds(), address)
	fmt.Fprintf(out, "  worker   %s\n", w.is)
	if w.hint != "" {
		fmt.Fprintf(out, "  real one %s\n", w.hint)
	}
	model, err := firstModel(ctx, "http://"+address+"/v1")
	if err != nil {
		model = "MODEL"
	}
	fmt.Fprintf(out, "  try      curl -sN http://%s/v1/chat/completions -H 'Content-Type: application/json' \\\n"+
		"             -d '{\"model\":%q,\"stream\":true,\"messages\":[{\"role\":\"user\",\"content\":\"Hello\"}]}'\n",
		address, model)
	fmt.Fprint(out, "  stop     Ctrl-C; nothing stays behind\n\n")
}
