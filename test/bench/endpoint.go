package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
)

const (
	endpointAddress = "127.0.0.1:8700"
	nginxAddress    = "127.0.0.1:8701"
)

// serveEndpoint answers as codex-proxy with its fake does, frame by frame and
// byte for byte as long.
func serveEndpoint(ctx context.Context) error {
	l, err := net.Listen("tcp", endpointAddress)
	if err != nil {
		return err
	}
	//nolint:gosec // the only client is the load generator
	server := &http.Server{Handler: http.HandlerFunc(answerHTTP)}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.Serve(l); ctx.Err() == nil {
		return err
	}
	return nil
}

func answerHTTP(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Stream   bool
		Messages []struct{ Content string }
	}
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil || len(q.Messages) == 0 {
		http.Error(w, "no messages", http.StatusBadRequest)
		return
	}
	prompt := q.Messages[len(q.Messages)-1].Content
	if !q.Stream {
		answerWhole(w, r, prompt)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	send := func(delta, finish string) error {
		_, err := fmt.Fprintf(w,
			`data: {"id":"chatcmpl-0123456789abcdef01234567","object":"chat.completion.chunk",`+
				`"created":1790000000,"model":"demo","choices":[{"index":0,"delta":%s,"finish_reason":%s}]}`+"\n\n", delta, finish)
		w.(http.Flusher).Flush()
		return err
	}
	if send(`{"role":"assistant","content":""}`, "null") != nil {
		return
	}
	if play(r.Context(), prompt, func(text string) error {
		return send(fmt.Sprintf(`{"content":%q}`, text), "null")
	}) != nil {
		return
	}
	_ = send("{}", `"stop"`)
	_, _ = fmt.Fprint(w, "data: [DONE]\n\n")
}

func answerWhole(w http.ResponseWriter, r *http.Request, prompt string) {
	var text strings.Builder
	if play(r.Context(), prompt, func(s string) error { text.WriteString(s); return nil }) != nil {
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, `{"id":"chatcmpl-0123456789abcdef01234567","object":"chat.completion",`+
		`"created":1790000000,"model":"demo","choices":[{"index":0,"message":{"role":"assistant","content":%q,"refusal":null},"finish_reason":"stop"}],`+
		`"usage":{"prompt_tokens":100,"completion_tokens":20,"total_tokens":120}}`, text.String())
}

// nginxConfig is an unbuffered reverse proxy in one process.
const nginxConfig = `daemon off;
master_process off;
pid %[1]s/nginx.pid;
error_log stderr error;
events { worker_connections 15000; }
http {
	access_log %[1]s/access.log;
	client_body_temp_path %[1]s/body;
	proxy_temp_path %[1]s/proxy;
	fastcgi_temp_path %[1]s/fastcgi;
	uwsgi_temp_path %[1]s/uwsgi;
	scgi_temp_path %[1]s/scgi;
	client_max_body_size 16m;
	keepalive_requests 10000000;
	upstream endpoint { server ` + endpointAddress + `; keepalive 256; keepalive_requests 10000000; }
	server {
		listen ` + nginxAddress + `;
		location / {
			proxy_pass http://endpoint;
			proxy_http_version 1.1;
			proxy_set_header Connection "";
			proxy_buffering off;
			proxy_request_buffering off;
		}
	}
}
`
