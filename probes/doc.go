// Package probes decides, from one snapshot of all workers, whether the
// service is ready and whether it is alive. The decisions are pure functions
// (Judge, ReadinessOf, LivenessOf); a Tracker adds the only memory there is:
// since when. The package also holds the checks that find out whether a
// program answers (TCP, HTTP, Exec, AppServer).
//
// It imports nothing else of this module: HTTP handlers, sd_notify status,
// metrics and the command line all read the same Report, so they cannot
// disagree.
package probes
