package hands

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"codex-proxy/codex/jsonscan"
	"codex-proxy/remotes/codexthread"
)

// settled are the requests of clients with settings of a place or a sandbox, which a remote with hands decides itself:
// its commands run in the workspace of the session, which is the sandbox.
var settled = []string{"thread/start", "thread/resume", "thread/fork", "turn/start", "thread/settings/update",
	"turn/settings/update"}

// dropped are the members of their parameters that codex does not get. Without them the settings of the remote hold.
var dropped = []string{"cwd", "sandbox", "sandboxPolicy", "permissions", "runtimeWorkspaceRoots"}

// droppedSettings are the keys of their member config that codex does not get.
var droppedSettings = []string{"sandbox_mode", "sandbox_workspace_write", "default_permissions"}

// placed are the requests that get the workspace as their directory.
var placed = []string{"thread/start", "thread/resume", "thread/fork", "turn/start"}

// Settle returns the parameters of a request as codex gets them. The error is the refusal of the request. Before a new
// turn, the model and the person learn of a new checkout, and the person as soon as a thread is shown.
func (g *Gate) Settle(ctx context.Context, of Client, method string, params []byte) ([]byte, error) {
	notices{g}.announce(ctx, of, method, params)
	return settledParams(method, params)
}

// notices are for the people and the models of threads.
type notices struct{ *Gate }

func (g notices) announce(ctx context.Context, of Client, method string, params []byte) {
	var p struct {
		Thread string `json:"threadId"`
	}
	if resumed := g.takeResumed(of.Name()); resumed != "" {
		// codex has answered the resume, unless the client did not wait.
		g.show(of, resumed, memory{g.Hands}.origin(resumed))
	}
	switch method {
	case interruptMethod:
		shells(g).interruptShells(params)
	case "thread/resume":
		if jsonscan.Unmarshal(params, &p) == nil {
			g.setResumed(of.Name(), p.Thread)
		}
	case "thread/fork":
		if jsonscan.Unmarshal(params, &p) == nil {
			g.setForked(of.Name(), g.history(of.Name(), p.Thread))
		}
	case "thread/rollback", "thread/revert":
		if jsonscan.Unmarshal(params, &p) == nil {
			memory{g.Hands}.forget(p.Thread)
		}
	case "turn/start", "turn/steer":
		if jsonscan.Unmarshal(params, &p) == nil {
			history := g.history(of.Name(), p.Thread)
			g.show(of, p.Thread, history)
			if g.Inject != nil {
				memory{g.Hands}.announce(ctx, p.Thread, history, g.Inject)
			}
		}
	}
}

// history is the oldest thread that a thread has its history from, by forks of clients: it, or the thread
// itself.
func (g notices) history(client, thread string) string {
	if of := g.takeForked(client, thread); of != thread {
		memory{g.Hands}.descends(thread, of)
	}
	return memory{g.Hands}.origin(thread)
}

// fork is a request of a client for a fork of a thread. The id of the fork is not known yet.
type fork struct {
	of string
	at time.Time
}

// setForked keeps the last fork of a client until its next turn in a thread that is younger than the request.
func (g notices) setForked(client, thread string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.forked == nil {
		g.forked = map[string]fork{}
	}
	g.forked[client] = fork{thread, time.Now().Truncate(time.Millisecond)} // as codexthread.Created has it
}

// takeForked returns the thread that a thread is a fork of, or itself.
func (g notices) takeForked(client, thread string) string {
	created, is := codexthread.Created(thread)
	g.mu.Lock()
	defer g.mu.Unlock()
	one, forked := g.forked[client]
	if !is || !forked || created.Before(one.at) {
		return thread
	}
	delete(g.forked, client)
	return one.of
}

// setResumed keeps a thread until the next request of a client.
func (g notices) setResumed(client, thread string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.resumed == nil {
		g.resumed = map[string]string{}
	}
	g.resumed[client] = thread
}

func (g notices) takeResumed(client string) (thread string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	thread = g.resumed[client]
	delete(g.resumed, client)
	return thread
}

// settledParams are the parameters without settings that a remote with hands decides itself.
func settledParams(method string, params []byte) ([]byte, error) {
	if !slices.Contains(settled, method) {
		return params, nil
	}
	var kept [][]byte
	add := func(name, value []byte) { kept = append(kept, fmt.Appendf(nil, `"%s":%s`, name, value)) }
	members := jsonscan.Open(params)
	for name, value, ok := members.Next(); ok; name, value, ok = members.Next() {
		switch word := string(name); {
		case bytes.IndexByte(name, '\\') >= 0:
			return nil, fmt.Errorf("%q is a name with an escape, which no client writes", word)
		case word == "environments" && string(value) != "null":
			return nil, fmt.Errorf("it sets %q, and a remote with [hands] runs commands there alone", word)
		case word == "environments", slices.Contains(dropped, word):
		case word == "config":
			add(name, settings(value))
		default:
			add(name, value)
		}
	}
	if err := members.Err(); err != nil {
		return nil, err
	}
	if slices.Contains(placed, method) {
		add([]byte("cwd"), []byte(`"`+Directory+`"`))
	}
	return slices.Concat([]byte("{"), bytes.Join(kept, []byte(",")), []byte("}")), nil
}

// settings are the settings of codex that a client may make.
func settings(config []byte) []byte {
	if !bytes.HasPrefix(config, []byte("{")) {
		return config
	}
	var kept [][]byte
	members := jsonscan.Open(config)
	for name, value, ok := members.Next(); ok; name, value, ok = members.Next() {
		root, _, _ := strings.Cut(string(name), ".")
		if !slices.Contains(droppedSettings, root) {
			kept = append(kept, fmt.Appendf(nil, `"%s":%s`, name, value))
		}
	}
	return slices.Concat([]byte("{"), bytes.Join(kept, []byte(",")), []byte("}"))
}
