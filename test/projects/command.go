package main

import (
	"bytes"
	"context"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

// outcome is how a command ended.
type outcome struct {
	status int // -1 if it was ended for its time
	took   time.Duration
	output string
}

// trust has programs with a list of authorities of their own take the machine's.
var trust = []string{"SSL_CERT_FILE=" + bundle, "NODE_EXTRA_CA_CERTS=" + bundle}

func trustOptions() (all []string) {
	for _, variable := range trust {
		all = append(all, "--setenv", variable)
	}
	return all
}

// alice runs a command as alice, in a directory, with variables beside the usual ones.
func (j job) alice(ctx context.Context, dir string, env []string, args ...string) outcome {
	return j.run(ctx, []string{"runuser"}, dir, env, args...)
}

// aliceOffline is alice without the network, but for the loopback.
func (j job) aliceOffline(ctx context.Context, dir string, env []string, args ...string) outcome {
	return j.run(ctx, []string{"systemd-run", "--quiet", "--wait", "--pipe", "--collect", "--property=PrivateNetwork=yes",
		"--property=RuntimeMaxSec=" + j.Bound.String(), "runuser"}, dir, env, args...)
}

// run runs a command of alice by runuser, which is the end of how.
func (j job) run(ctx context.Context, how []string, dir string, env []string, args ...string) outcome {
	ctx, cancel := context.WithTimeout(ctx, j.Bound)
	defer cancel()
	all := slices.Concat(how[1:], []string{"--user", "alice", "--", "env", "-i", "-C", dir, "HOME=" + home, "USER=alice",
		"LOGNAME=alice", "LANG=C.UTF-8", "PATH=" + path}, trust, env, args)
	cmd := exec.CommandContext(ctx, how[0], all...) //nolint:gosec // of the list
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	began := time.Now()
	_ = cmd.Run() // the status says it
	o := outcome{cmd.ProcessState.ExitCode(), time.Since(began), out.String()}
	if ctx.Err() != nil {
		o.status = -1
	}
	return o
}

// last is the last line of the output.
func (o outcome) last() string {
	lines := strings.Split(strings.TrimSpace(o.output), "\n")
	return lines[len(lines)-1]
}

// results are the lines by which test programs end: pytest and those of npm, Go, Cargo, Maven, automake and Node, and
// hiredis.
var results = regexp.MustCompile(`(?m)(` + strings.Join([]string{
	`\b\d+ (?:passed|failed|passing|failing|pending|skipped|errors?|tests? (?:passed|failed))\b`,
	`^(?:ok|FAIL|---\sFAIL:?)\s+\S+`,
	`^test result: \w+\. \d+ passed; \d+ failed`,
	`Tests run: \d+, Failures: \d+, Errors: \d+`,
	`^(?:#|ℹ) (?:TOTAL|PASS|FAIL|pass|fail):? *\d+`,
	`ALL TESTS PASSED`,
}, "|") + `)`)

// result is what the tests of a project came to, without times.
func (o outcome) result() string {
	found := results.FindAllString(o.output, -1)
	for i, line := range found {
		found[i] = strings.Join(strings.Fields(line), " ")
	}
	slices.Sort(found)
	return strings.Join(slices.Compact(found), ", ")
}
