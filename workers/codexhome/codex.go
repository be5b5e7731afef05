package codexhome

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"codex-proxy/codex/versions"
	"codex-proxy/internal/lazyregexp"
)

// stopped is the error of a run that was cut short. It is no evidence about the home.
type stopped struct{ error }

func (s stopped) Unwrap() error { return s.error }

func wasStopped(err error) bool { return errors.As(err, &stopped{}) }

// codex runs the program on one home.
type codex struct {
	path  string
	home  string
	dir   string              // working directory: codex reads settings of the project there
	limit time.Duration       // of each run; 0: the context bounds it
	as    *syscall.Credential // nil: our own user, and environment
	env   []string            // of the unit; for another user
}

// outputDelay bounds the reading of codex's output after its end. Only a program that codex has left behind takes so
// long.
const outputDelay = 10 * time.Second

// run returns the output of codex. err is codex's exit status, or stopped if codex was too slow or ctx ended.
func (c codex) run(ctx context.Context, args ...string) (stdout, stderr string, err error) {
	began := time.Now()
	limited, cancel := c.limited(ctx)
	defer cancel()
	cmd := exec.CommandContext(limited, c.path, args...)
	cmd.Env = c.environ()
	cmd.Dir = c.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: c.as}
	cmd.WaitDelay = outputDelay
	var out, talk bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &talk
	err = cmd.Run()
	switch {
	case ctx.Err() != nil:
		err = stopped{fmt.Errorf("`codex %s` was stopped after %s: %w", strings.Join(args, " "),
			time.Since(began).Round(100*time.Millisecond), context.Cause(ctx))}
	case limited.Err() != nil:
		err = stopped{fmt.Errorf("`codex %s` did not finish within %s: %w", strings.Join(args, " "), c.limit, ErrRetry)}
	}
	return out.String(), talk.String(), err
}

func (c codex) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	if c.limit == 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, c.limit)
}

// environ is our environment without the variables of sd_notify(3) and without Rust's stack traces. For another
// user it is the unit's Environment= alone: codex may need an HTTP proxy or a certificate from it.
func (c codex) environ() []string {
	if c.as != nil {
		env := append([]string{"PATH=" + systemdPath, "LANG=C.UTF-8"}, c.env...)
		return append(env, "HOME="+c.home, "RUST_BACKTRACE=0", "CODEX_HOME="+c.home)
	}
	env := []string{}
	for _, kv := range os.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		switch name {
		case "NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC", "RUST_BACKTRACE", "CODEX_HOME":
		default:
			env = append(env, kv)
		}
	}
	return append(env, "RUST_BACKTRACE=0", "CODEX_HOME="+c.home)
}

var versionNumber = lazyregexp.New(`(\d+)\.(\d+)\.\d+\S*`)

// version is codex's, if it is 0.oldest or later.
func (c codex) version(ctx context.Context, oldest int) (string, error) {
	out, talk, err := c.run(ctx, "--version")
	if wasStopped(err) {
		return "", err
	}
	m := versionNumber.FindStringSubmatch(out)
	if err != nil || m == nil {
		return "", &Problem{File: c.path, Text: fmt.Sprintf("codex does not run (%v): %s", err, lastLine(talk)),
			Hint: installHint}
	}
	major, _ := strconv.Atoi(m[1])
	minor, _ := strconv.Atoi(m[2])
	if major == 0 && minor < oldest {
		return "", &Problem{File: c.path, Text: fmt.Sprintf("codex %s is too old", m[0]),
			Hint: fmt.Sprintf("install 0.%d or later, `npm install -g @openai/codex@latest`", oldest)}
	}
	return m[0], nil
}

// models is the catalogue built into codex. Asking for the server's takes 3 s without a network, and a start
// must not depend on it.
func (c codex) models(ctx context.Context) ([]byte, error) {
	out, talk, err := c.run(ctx, "debug", "models", "--bundled")
	if err != nil && !wasStopped(err) {
		return nil, fmt.Errorf("cannot list the models of codex (%w): %s", err, lastLine(talk))
	}
	return []byte(out), err
}

// refusal is codex's error about its configuration.
type refusal struct {
	Reason string `json:"reason"`
	File   string `json:"filePath"` // empty if codex names none
	Line   int    `json:"line"`
	Detail string `json:"detail"`
}

// check makes codex read its configuration strictly; a nil refusal means that codex accepts it.
func (c codex) check(ctx context.Context) (*refusal, error) {
	out, talk, err := c.run(ctx, "app-server", "--print-startup-config", "--strict-config")
	if strings.Contains(talk, "unexpected argument '--print-startup-config'") {
		// Before that option (0.140) the server itself checks, and ends with its standard input.
		out, talk, err = c.run(ctx, "app-server", "--strict-config")
	}
	if err == nil || wasStopped(err) {
		return nil, err
	}
	var reply struct {
		Error struct{ Data refusal }
	}
	if json.Unmarshal([]byte(out), &reply) == nil && reply.Error.Data.Detail != "" {
		return reply.Error.Data.trimmed(), nil
	}
	return parseRefusal(talk), nil
}

var place = lazyregexp.New(`^(/[^:]*):(\d+):\d+: `)

// trimmed drops the place from the detail; File and Line have it.
func (r refusal) trimmed() *refusal {
	r.Detail = place.ReplaceAllString(r.Detail, "")
	return &r
}

// parseRefusal reads the line that codex prints when it has no JSON for it: "Error: PATH:LINE:COLUMN: WHY".
func parseRefusal(talk string) *refusal {
	r := refusal{Reason: "configLoad", Detail: lastLine(talk)}
	for line := range strings.Lines(talk) {
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), "Error: "); ok {
			r.Detail = text
			break
		}
	}
	if strings.Contains(r.Detail, "cloud config bundle") {
		r.Reason = "cloudConfigBundle"
	}
	if m := place.FindStringSubmatch(r.Detail); m != nil {
		r.File = m[1]
		r.Line, _ = strconv.Atoi(m[2])
	}
	return r.trimmed()
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}

// VersionOf asks a codex for its version, which is an accepted one. home is an empty directory, or a home of codex.
func VersionOf(ctx context.Context, program, home string) (string, error) {
	return codex{path: program, home: home, dir: home}.version(ctx, versions.Oldest)
}

// schemaBound bounds the run of WriteSchema, which takes 0.3 s.
const schemaBound = 20 * time.Second

// WriteSchema has the codex at program write the schema of its protocol into the directory out. home is as that of
// VersionOf.
func WriteSchema(ctx context.Context, program, home, out string) error {
	c := codex{path: program, home: home, dir: home, limit: schemaBound}
	_, talk, err := c.run(ctx, "app-server", "generate-json-schema", "--experimental", "--out", out)
	if err != nil && !wasStopped(err) {
		return fmt.Errorf("%w: %s", err, lastLine(talk))
	}
	return err
}
