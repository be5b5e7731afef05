package shim

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"time"

	"codex-proxy/codex/probe"
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

// AddReady reads a value of --ready, KIND:TARGET.
func (s *Shim) AddReady(value string) error {
	s.ready = append(s.ready, value)
	_, err := probe.Parse(value, s.Probe)
	return err
}

// SetPasses reads the value of --probe-passes.
func (s *Shim) SetPasses(value string) (err error) {
	s.Command.Passes, err = strconv.Atoi(value)
	if err != nil || s.Command.Passes < 1 || s.Command.Passes > maxPasses {
		return fmt.Errorf("want a number from 1 to %d", maxPasses)
	}
	return nil
}

// maxPasses take 25 s.
const maxPasses = 100

// SetStatuses reads the value of --probe-status.
func (s *Shim) SetStatuses(value string) (err error) {
	s.Probe.Statuses, err = probe.ParseStatuses(value)
	return err
}

// setProbes makes the probes of the command, once all options are known.
func (s *Shim) setProbes() error {
	if err := s.needProbe(); err != nil {
		return err
	}
	if s.probe == "" {
		return nil
	}
	var probes []probe.Probe
	for _, value := range append([]string{s.probe}, s.ready...) {
		p, err := probe.Parse(value, s.Probe)
		if err != nil {
			return err
		}
		probes = append(probes, p)
		s.Command.Ready = append(s.Command.Ready, p.Ready)
	}
	s.Command.Alive = probes[0].Alive
	if err := s.Probe.UsedBy(probes...); err != nil {
		return fmt.Errorf("--probe-%w", err)
	}
	interval, timeout := s.Command.ProbeInterval, s.Command.ProbeTimeout
	if interval > 0 && timeout > interval {
		return fmt.Errorf("--probe-timeout %v is longer than --probe-interval %v", timeout, interval)
	}
	return nil
}

// needProbe checks that no option is about a probe that is not there.
func (s *Shim) needProbe() error {
	if s.probe != "" {
		return nil
	}
	for option, set := range map[string]bool{
		"ready": len(s.ready) > 0, "probe-passes": s.Command.Passes > 0, "probe-interval": s.Command.ProbeInterval > 0,
		"probe-status": s.Probe.Statuses != nil, "probe-body": s.Probe.Body != "", "probe-ca": s.Probe.CA != "",
	} {
		if set {
			return fmt.Errorf("--%s needs --probe KIND:TARGET", option)
		}
	}
	return nil
}

// fits checks the times of the probes against WatchdogSec=: a ping that is late by
// one whole probe must be in time, and so must the repetition of one that failed.
func (s *Shim) fits(watchdog time.Duration) error {
	interval := s.Command.ProbeInterval
	timeout := cmp.Or(s.Command.ProbeTimeout, min(interval, watchdog/3))
	switch {
	case watchdog == 0:
		return nil
	case s.Command.Alive == nil:
		return errors.New("no --probe although the unit has WatchdogSec=: pings would mean nothing; " +
			"add a probe or drop WatchdogSec=")
	case interval > 0 && interval+timeout >= watchdog:
		return fmt.Errorf("--probe-interval %v and --probe-timeout %v do not fit into WatchdogSec=%v: "+
			"make WatchdogSec= at least twice the interval, and longer than both together", interval, timeout, watchdog)
	default:
		return nil
	}
}
