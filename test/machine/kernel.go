package machine

import (
	"context"
	"fmt"
	"path/filepath"
)

// kernelHook runs where mmdebstrap has made apt's settings and nothing is installed:
// linux-image-cloud-amd64 only names the newest kernel, whose dependencies (initramfs-tools)
// it does not need.
const kernelHook = `cd "$1" && export APT_CONFIG="$MMDEBSTRAP_APT_CONFIG" && ` +
	`apt-get download "$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/.*Depends: //p' | head -n 1)" && ` +
	`dpkg-deb -x linux-image-*.deb . && rm -rf linux-image-*.deb lib/modules`

// kernel returns the path of Debian's kernel for virtual machines: ext4 and NVMe are
// built in, so that it boots without an initrd and without modules. It is downloaded
// once and kept beside the roots.
func kernel(ctx context.Context) (string, error) {
	dir, err := cached(ctx, "kernel", []string{
		"--variant=extract", "--include=linux-base", "--architectures=amd64", "--format=directory",
		"--extract-hook=" + kernelHook, "bookworm",
	})
	if err != nil {
		return "", fmt.Errorf("%w: cannot download a kernel: %w", ErrUnable, err)
	}
	found, err := filepath.Glob(filepath.Join(dir, "boot", "vmlinuz-*"))
	if err != nil || len(found) != 1 {
		return "", fmt.Errorf("%w: no kernel in %s", ErrUnable, dir)
	}
	return found[0], nil
}
