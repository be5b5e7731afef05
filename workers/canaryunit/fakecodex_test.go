package canaryunit

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/pelletier/go-toml/v2"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
)

// newer is the version of the fake codexes.
const newer = "0.999.0"

// The tests run this program as a codex that is newer than all others, with the fault that its directory names. Where
// it has none, it is the real codex, or for turns the fake app-server, which asks the model as codex does. In a machine
// the resources of its package have the name of the fault and the real codex.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) != "codex" {
		os.Exit(m.Run())
	}
	program, _ := os.Readlink("/proc/self/exe")
	dir := filepath.Dir(program)
	resources := filepath.Join(filepath.Dir(dir), "codex-resources")
	fault, err := os.ReadFile(filepath.Join(resources, "fault"))
	if err != nil {
		fake(filepath.Base(dir), os.Getenv("CODEX_PROXY_TEST_CODEX"), os.Args[1:])
		return
	}
	fake(strings.TrimSpace(string(fault)), filepath.Join(resources, "real/bin/codex"), os.Args[1:])
}

// fakeCodex is the path of a codex with the fault.
func fakeCodex(t *testing.T, fault string) string {
	t.Helper()
	if os.Getenv("CODEX_PROXY_TEST_CODEX") == "" {
		t.Skip("CODEX_PROXY_TEST_CODEX does not name a codex binary")
	}
	self, err := os.Executable()
	require.NoError(t, err)
	program := filepath.Join(t.TempDir(), fault, "codex")
	require.NoError(t, os.Mkdir(filepath.Dir(program), 0o755))
	require.NoError(t, os.Link(self, program))
	return program
}

func fake(fault, codex string, args []string) {
	switch line := strings.Join(args, " "); {
	case fault == "exits":
		fmt.Fprintln(os.Stderr, "fatal: there is no room")
		os.Exit(3)
	case args[0] == "--version":
		fmt.Println("codex-cli", newer)
	case args[0] == "sandbox" && fault != "no sandbox": // the command sees no file of those that it looks for
	case args[0] == "sandbox":
		os.Exit(1)
	case fault == "refuses" && strings.Contains(line, "--print-startup-config"):
		refuse("thread_unload_delay_secs")
	case strings.Contains(line, "--listen"):
		if fault == "exits late" {
			fmt.Fprintln(os.Stderr, "fatal: it cannot listen")
			os.Exit(4)
		}
		if err := serve(fault, strings.TrimPrefix(args[len(args)-1], "unix://")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	default:
		fmt.Fprintln(os.Stderr, syscall.Exec(codex, append([]string{codex}, args...), os.Environ()))
		os.Exit(1)
	}
}

// refuse refuses the configuration for the key.
func refuse(key string) {
	file := filepath.Join(os.Getenv("CODEX_HOME"), "config.toml")
	text, _ := os.ReadFile(file)
	line, _, _ := bytes.Cut(text, []byte("\n"+key))
	reply, _ := json.Marshal(map[string]any{"error": map[string]any{"data": map[string]any{
		"reason": "configLoad", "filePath": file, "line": bytes.Count(line, []byte("\n")) + 2,
		"detail": "unknown configuration field `" + key + "`"}}})
	fmt.Println(string(reply))
	os.Exit(1)
}

func serve(fault, socket string) error {
	l, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	c, err := readConfig()
	if err != nil {
		return err
	}
	m := &model{fault: fault, config: c}
	s := &appservertest.Server{Models: []appservertest.Model{{ID: c.Model}}, Handler: m.turn}
	hung := filepath.Join(os.Getenv("CODEX_HOME"), "hung")
	_, before := os.Stat(hung)
	switch {
	case fault == "hangs once" && before == nil:
	case fault == "hangs", fault == "hangs once":
		if err := os.WriteFile(hung, nil, 0o600); err != nil {
			return err
		}
		s.Faults = map[string]appservertest.Fault{"initialize": appservertest.Silent}
	case fault == "no models":
		s.Models = nil
	}
	return s.Serve(context.Background(), l)
}

// config is codex's, as far as the fake reads it.
type config struct {
	Model     string
	Provider  string `toml:"model_provider"`
	Providers map[string]struct {
		URL string `toml:"base_url"`
	} `toml:"model_providers"`
}

func readConfig() (c config, err error) {
	text, err := os.ReadFile(filepath.Join(os.Getenv("CODEX_HOME"), "config.toml"))
	if err == nil {
		err = toml.Unmarshal(text, &c)
	}
	return c, err
}

// model asks the model of the configuration.
type model struct {
	fault  string
	config config
	turns  atomic.Int64
}

// goodTurns are those before a codex breaks.
const goodTurns = 20

func (m *model) turn(ctx context.Context, t *appservertest.Turn) error {
	if m.turns.Add(1) > goodTurns && m.fault == "breaks" {
		return &appservertest.Failure{Message: "no such table: threads", Info: "other"}
	}
	output, err := m.ask(ctx, t.Request)
	if m.fault == "asks twice" && err == nil {
		output, err = m.ask(ctx, t.Request)
	}
	if err != nil {
		return err
	}
	for _, out := range output {
		switch {
		case out.Type == "function_call" && m.fault == "no tools":
			<-ctx.Done()
		case out.Type == "function_call":
			t.Call(ctx, out.Name, out.Arguments)
		case m.fault == "doubles":
			t.Text(out.Content[0].Text, out.Content[0].Text)
		case m.fault == "fails":
			return &appservertest.Failure{Message: "no such table: threads", Info: "other"}
		default:
			t.Text(out.Content[0].Text)
		}
	}
	return nil
}

type outputItem struct {
	Type, Name, Arguments string
	Content               []struct{ Text string }
}

func (m *model) ask(ctx context.Context, r appservertest.Request) (output []outputItem, err error) {
	body, err := json.Marshal(map[string]any{"model": r.Model, "input": r.Items, "tools": r.DynamicTools, "stream": true})
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost,
		m.config.Providers[m.config.Provider].URL+"/responses",
		bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	reply, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer reply.Body.Close()
	for lines := bufio.NewReader(reply.Body); ; {
		line, err := lines.ReadString('\n')
		if err == io.EOF {
			return output, nil
		}
		if err != nil {
			return nil, err
		}
		var event struct {
			Type string
			Item outputItem
		}
		data, ok := strings.CutPrefix(line, "data: ")
		if ok && json.Unmarshal([]byte(data), &event) == nil && event.Type == "response.output_item.done" {
			output = append(output, event.Item)
		}
	}
}
