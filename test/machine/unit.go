package machine

import (
	"context"
	"strings"
)

// Systemctl runs systemctl(1) and returns its stdout.
func (m *Machine) Systemctl(ctx context.Context, args ...string) (string, error) {
	stdout, _, err := m.Run(ctx, append([]string{"systemctl", "--no-pager"}, args...)...)
	return stdout, err
}

// Journal runs journalctl(1) over this boot and returns its stdout; args are
// its options, "--unit=codex-proxy.service", "--output=json". All that was logged
// before is in it: journald itself may be behind.
func (m *Machine) Journal(ctx context.Context, args ...string) (string, error) {
	const synced = `journalctl --sync && exec journalctl --boot --no-pager --quiet "$@"`
	stdout, _, err := m.Run(ctx, append([]string{"sh", "-c", synced, "sh"}, args...)...)
	return stdout, err
}

// Show returns properties of a unit by name, as `systemctl show` writes them;
// all of them if none is named.
func (m *Machine) Show(ctx context.Context, unit string, properties ...string) (map[string]string, error) {
	if values, ok := m.ask(ctx, unit, properties); ok {
		return values, nil
	}
	args := []string{"show", unit}
	if len(properties) > 0 {
		args = append(args, "--property="+strings.Join(properties, ","))
	}
	out, err := m.Systemctl(ctx, args...)
	if err != nil {
		return nil, err
	}
	values := map[string]string{}
	for line := range strings.Lines(out) {
		if key, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "="); ok {
			values[key] = value
		}
	}
	return values, nil
}
