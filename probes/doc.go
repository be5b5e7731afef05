// Package probes decides, from one snapshot of all workers, whether the service
// is ready and whether it is live. The decisions are pure functions (Judge,
// ReadinessOf, LivenessOf); a Tracker adds the only state: since when each
// decision holds.
//
// HTTP handlers, sd_notify status, metrics and the command line all read the same
// Report, so they cannot disagree.
package probes
