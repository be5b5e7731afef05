package bed

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
)

// Build builds programs of this module. The flags are those by which `make` compiles the product, so that Go's cache has
// the packages. A program links no library.
func Build(ctx context.Context, output, tags string, packages ...string) error {
	cmd := exec.CommandContext(ctx, "go", slices.Concat([]string{"build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w",
		"-tags=netgo,osusergo," + tags, "-o=" + output}, packages)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w: %s", err, out)
	}
	return nil
}
