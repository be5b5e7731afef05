package shim

import (
	"errors"
	"fmt"

	"codex-proxy/cmd/internal/probe"
)

// SetProbe reads the value of --probe, KIND:TARGET.
func (s *Shim) SetProbe(value string) error {
	if s.probe != "" {
		return errors.New("only one probe is possible: combine several in exec:LINE")
	}
	s.probe = value
	_, err := probe.Parse(value, s.Probe)
	return err
}

// SetStatuses reads the value of --probe-status.
func (s *Shim) SetStatuses(value string) (err error) {
	s.Probe.Statuses, err = probe.ParseStatuses(value)
	return err
}

// setProbes makes the probes of the command, once all options are known.
func (s *Shim) setProbes() error {
	var probes []probe.Probe
	if s.probe != "" {
		p, err := probe.Parse(s.probe, s.Probe)
		if err != nil {
			return err
		}
		probes = append(probes, p)
		s.Command.Ready, s.Command.Alive = p.Ready, p.Alive
	}
	if err := s.Probe.UsedBy(probes...); err != nil {
		return fmt.Errorf("--probe-%w", err)
	}
	return nil
}
