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
	"syscall"
	"testing"

	"github.com/pelletier/go-toml/v2"
	"github.com/stretchr/testify/require"

	"codex-proxy/codex/appservertest"
)

// newer is the version of the fake codexes.
const newer = "0.999.0"

// The tests run this program as a codex that is newer than all others, with the fault that its directory names. Where
// it has none, it is the real codex, or for turns the fake app-server, which asks the model as codex does.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "codex" {
		program, _ := os.Readlink("/proc/self/exe")
		fake(filepath.Base(filepath.Dir(program)), os.Args[1:])
		return
	}
	os.Exit(m.Run())
}

// fakeCodex is the path of a codex with the fault.
func fakeCodex(t *testing.T, fault string) string {
	t.Helper()
	if os.Getenv("CODEX_PROXY_TEST_CODEX") == "" {
		t.Skip("CODEX_PROXY_TEST_CODEX does not name a codex binary")
	}
	self, err := os.Executable()
	require.NoError(t, err)
	text, err := os.ReadFile(self)
	require.NoError(t, err)
	program := filepath.Join(t.TempDir(), fault, "codex")
	require.NoError(t, os.Mkdir(filepath.Dir(program), 0o755))
	require.NoError(t, os.WriteFile(program, text, 0o755))
	return program
}

func fake(fault string, args []string) {
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
		codex := os.Getenv("CODEX_PROXY_TEST_CODEX")
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
	s := &appservertest.Server{Models: []appservertest.Model{{ID: "canary"}}, Handler: model{fault}.turn}
	switch fault {
	case "hangs":
		s.Faults = map[string]appservertest.Fault{"initialize": appservertest.Silent}
	case "no models":
		s.Models = nil
	}
	return s.Serve(context.Background(), l)
}

// model asks the model of the configuration.
type model struct{ fault string }

func (m model) turn(ctx context.Context, t *appservertest.Turn) error {
	output, err := ask(ctx, t.Request)
	if m.fault == "asks twice" && err == nil {
		output, err = ask(ctx, t.Request)
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

func ask(ctx context.Context, r appservertest.Request) (output []outputItem, err error) {
	text, err := os.ReadFile(filepath.Join(os.Getenv("CODEX_HOME"), "config.toml"))
	if err != nil {
		return nil, err
	}
	var config struct {
		Providers map[string]struct {
			URL string `toml:"base_url"`
		} `toml:"model_providers"`
	}
	if err := toml.Unmarshal(text, &config); err != nil {
		return nil, err
	}
	body, err := json.Marshal(map[string]any{"model": r.Model, "input": r.Items, "tools": r.DynamicTools, "stream": true})
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, config.Providers["canary"].URL+"/responses",
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
