package attach

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// From the start of the command to the first picture of the real TUI, beside codex without attach.
func BenchmarkFirstPaint(b *testing.B) {
	bed := newBed(b)
	binary, socket := bed.codex()
	bed.serve(socket)
	bed.person()
	direct := exec.Command(binary, "--remote", "unix://"+filepath.Join(bed.sockets, "build.sock")).Args
	for name, run := range map[string]func(s *screen) func(){
		"codex": func(s *screen) func() {
			cmd := exec.Command(direct[0], direct[1:]...)
			cmd.Stdin, cmd.Stdout, cmd.Stderr = s.terminal, s.terminal, s.terminal
			if err := cmd.Start(); err != nil {
				b.Fatal(err)
			}
			return func() { _ = cmd.Process.Signal(os.Interrupt); _ = cmd.Process.Kill(); _ = cmd.Wait() }
		},
		"attach": func(s *screen) func() {
			a := Attach{Remote: "build", Sockets: bed.sockets, Codex: binary, Stdin: s.terminal, Stdout: s.terminal,
				Stderr: s.terminal}
			ended := make(chan struct{})
			go func() { defer close(ended); _, _ = a.Run(b.Context()) }()
			return func() { s.typed("\x03"); s.typed("\x03"); <-ended }
		},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				s := newScreen(b)
				end := run(s)
				s.wait("OpenAI Codex")
				b.StopTimer()
				end()
				b.StartTimer()
			}
		})
	}
}
