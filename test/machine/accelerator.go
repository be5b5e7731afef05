package machine

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// accelerator is options of QEMU.
type accelerator []string

var (
	// kvm is the processor's virtualization.
	kvm = accelerator{"-accel", "kvm", "-cpu", "host", "-smp", "2"}
	// tcg is emulation by software. An instruction takes 4 ns of the machine's time, whatever it takes this host: for its
	// programs, the machine is as fast on a busy host as on an idle one, and no bound of theirs passes early. That takes a
	// single thread. With a small cache, QEMU translates code of large programs again and again.
	// Source: https://www.qemu.org/docs/master/devel/tcg-icount.html
	// Without erms, the kernel and the C library copy and clear by words: QEMU emulates their "rep movsb" byte by byte.
	tcg = accelerator{"-accel", "tcg,thread=single,tb-size=512", "-icount", "shift=2", "-cpu", "max,-erms,-fsrm"}
)

// kvmBound bounds the probe of KVM. Where it works, a kernel needs a second.
const kvmBound = 20 * time.Second

// chooseAccelerator takes KVM if it works. /dev/kvm of a virtual machine may exist and run nothing, so a kernel has to
// boot. The verdict is kept in the cache directory, for this boot of the host.
func chooseAccelerator(ctx context.Context, vmlinuz string) (accelerator, error) {
	if unix.Access("/dev/kvm", unix.R_OK|unix.W_OK) != nil {
		return tcg, nil
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return tcg, err
	}
	verdicts := filepath.Join(filepath.Dir(vmlinuz), "..", "..", "..", "kvm")
	unlock, err := lockFile(ctx, verdicts+".lock")
	if err != nil {
		return tcg, err
	}
	defer unlock()
	id := strings.TrimSpace(string(boot))
	known, _ := os.ReadFile(verdicts) // none at first
	verdict, found := strings.CutPrefix(string(known), id+" ")
	if !found {
		verdict = fmt.Sprintln(bootsByKVM(ctx, vmlinuz))
		if err := os.WriteFile(verdicts, []byte(id+" "+verdict), 0o644); err != nil {
			return tcg, err
		}
	}
	if verdict == "true\n" {
		return kvm, nil
	}
	return tcg, nil
}

// bootsByKVM boots a kernel that finds no root: it panics and, without a reboot, QEMU ends.
func bootsByKVM(ctx context.Context, vmlinuz string) bool {
	ctx, cancel := context.WithTimeout(ctx, kvmBound)
	defer cancel()
	cmd := exec.CommandContext(ctx, "qemu-system-x86_64", slices.Concat(kvm, []string{"-machine", "q35", "-m", "256", "-display", "none",
		"-nodefaults", "-no-reboot", "-net", "none", "-kernel", vmlinuz, "-append", "panic=-1"})...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL}
	return cmd.Run() == nil
}
