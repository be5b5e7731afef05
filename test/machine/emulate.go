package machine

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Emulation is a machine with a kernel of its own, in QEMU: it has the controllers for
// memory, pids and cpu that the cgroups of this host may lack. Where KVM does not work, it
// takes ten to thirty times as long. It has no network but loopback, and runs one script.
type Emulation struct {
	Packages []string // .deb files of the host, installed before the boot
	Files    []File   // written after that
	Binds    []Bind   // files of the host that are copied to Target; the rest is ignored
	Memory   int      // MiB

	// bash -eux runs Script as root when the machine has booted. The files that it
	// leaves in /results are the results, beside status (its exit status), log (its
	// output) and journal.
	Script string
	// Timeout bounds the script, in the time of the machine.
	Timeout time.Duration
}

// emulationBound bounds all of it, on a host that is busy.
const emulationBound = 40 * time.Minute

const (
	emulationUnit = "emulation.service"
	resultsSize   = 64 << 20
)

// Emulate boots root, runs the script and returns the files of /results by name. It
// fails t if the script does not end with 0, and logs the results if t fails. If no
// machine can be emulated, it skips t with the reason, unless RequireEnv is set.
func Emulate(t testing.TB, root Root, e Emulation) map[string]string {
	t.Helper()
	results, console, err := e.run(t.Context(), root, t.TempDir())
	if errors.Is(err, ErrUnable) && os.Getenv(RequireEnv) != "1" {
		line, _, _ := strings.Cut(err.Error(), "\n")
		t.Skip(line)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("--- console\n%s--- log\n%s--- journal\n%s", console, results["log"],
				withoutKernel(results["journal"]))
		}
	})
	require.NoError(t, err)
	require.Equal(t, "0\n", results["status"], "the script's exit status")
	return results
}

// withoutKernel drops the kernel's messages, except those about kills for lack of memory.
func withoutKernel(journal string) string {
	var kept strings.Builder
	for line := range strings.Lines(journal) {
		if !strings.Contains(line, " kernel: ") || strings.Contains(line, "oom-kill:") {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

func (e Emulation) run(ctx context.Context, root Root, scratch string) (results map[string]string,
	console string, err error) {
	ctx, cancel := context.WithTimeout(ctx, emulationBound)
	defer cancel()
	if err := emulates(); err != nil {
		return nil, "", err
	}
	files, err := root.layout(ctx)
	if err != nil {
		return nil, "", err
	}
	if len(files.Layers) > 0 {
		return nil, "", errors.New("cannot emulate a root with a layer (hint: name the packages in Emulation.Packages)")
	}
	vmlinuz, err := kernel(ctx)
	if err != nil {
		return nil, "", err
	}
	disk, err := makeDisk(ctx, files.Lower, scratch, e)
	if err != nil {
		return nil, "", err
	}
	accel, err := chooseAccelerator(ctx, vmlinuz)
	if err != nil {
		return nil, "", err
	}
	return e.boot(ctx, accel, vmlinuz, disk, filepath.Join(scratch, "results"))
}

// emulates returns why this host can emulate no machine.
func emulates() error {
	if runtime.GOARCH != "amd64" {
		return fmt.Errorf("%w: the kernel is for amd64", ErrUnable)
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("%w: not root", ErrUnable)
	}
	for _, program := range []string{"qemu-system-x86_64", "/usr/sbin/mke2fs"} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("%w: %w (hint: apt install qemu-system-x86 e2fsprogs)", ErrUnable, err)
		}
	}
	return nil
}

// kernelCommandLine has no_timer_check because the check of the timer counts the ticks
// that arrive while the kernel busy-waits. On a loaded host, QEMU delivers them late,
// and the boot ends in "IO-APIC + timer doesn't work!".
const kernelCommandLine = "root=/dev/nvme0n1 rw console=ttyS0 panic=-1 no_timer_check mitigations=off quiet"

// boot runs QEMU until the machine powers itself off. QEMU yields to other tests: its machine has a time of its own.
func (e Emulation) boot(ctx context.Context, accel accelerator, vmlinuz, disk, tape string) (results map[string]string,
	console string, err error) {
	if err := os.WriteFile(tape, nil, 0o600); err != nil {
		return nil, "", err
	}
	if err := os.Truncate(tape, resultsSize); err != nil {
		return nil, "", err
	}
	runtime.LockOSThread() // Pdeathsig follows the thread
	defer runtime.UnlockOSThread()
	// Nothing takes longer from its first to its last step, so it goes before all that runs beside it.
	cmd := exec.CommandContext(ctx, "nice", slices.Concat([]string{"-n", "-5", "qemu-system-x86_64"}, accel, []string{"-machine", "q35",
		"-m", fmt.Sprint(e.Memory), "-nographic", "-nodefaults",
		"-serial", "stdio", "-no-reboot", "-net", "none", "-kernel", vmlinuz,
		"-append", kernelCommandLine,
		"-drive", "file=" + disk + ",if=none,id=disk,format=raw,cache=unsafe", "-device", "nvme,drive=disk,serial=disk",
		"-drive", "file=" + tape + ",if=none,id=tape,format=raw,cache=unsafe", "-device", "nvme,drive=tape,serial=tape"})...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL}
	if err := cmd.Run(); err != nil {
		return nil, out.String(), fmt.Errorf("cannot emulate a machine: %w", errors.Join(err, context.Cause(ctx)))
	}
	results, err = readTape(tape)
	return results, out.String(), err
}

func readTape(tape string) (map[string]string, error) {
	f, err := os.Open(tape)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	results := map[string]string{}
	for entries := tar.NewReader(f); ; {
		entry, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return results, nil
		}
		if err != nil {
			return results, fmt.Errorf("cannot read the results: %w", err)
		}
		content, err := io.ReadAll(entries)
		if err != nil {
			return results, fmt.Errorf("cannot read the results: %w", err)
		}
		results[path.Clean(entry.Name)] = string(content)
	}
}

// preset is the unit that runs the script and writes the results after any end of it.
func (e Emulation) preset() []File {
	unit := fmt.Sprintf(`[Unit]
After=basic.target dbus.socket
[Service]
Type=oneshot
TimeoutStartSec=%d
ExecStart=/bin/bash -eux /results/script
ExecStopPost=/bin/sh -c 'echo $$EXIT_STATUS >/results/status; journalctl --sync; \
	journalctl --no-pager -o short-monotonic >/results/journal; \
	tar -C /results -cf /dev/nvme1n1 .; sync; systemctl poweroff -ff'
StandardOutput=append:/results/log
StandardError=append:/results/log
`, int(e.Timeout.Seconds()))
	return append(preset(),
		File{Path: "/results/script", Data: []byte(e.Script)},
		File{Path: "/etc/systemd/system/" + emulationUnit, Data: []byte(unit)},
		// A kernel of its own, whose lines preset leaves out elsewhere.
		File{Path: "/etc/systemd/journald.conf.d/91-emulation.conf",
			Data: []byte("[Journal]\nReadKMsg=yes\nRuntimeMaxUse=64M\n")},
	)
}
