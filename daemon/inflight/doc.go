// Package inflight counts the load of the processes of a row of reloads. Together
// they hold max_inflight of a worker and the limits of an API key, by these rules:
//
//   - The new process gets the load of the old ones with take, so that it counts them
//     before it serves, and gets every later change. When the socket closes, nothing is
//     left of that load.
//   - The process without a successor takes a place at once. Any other process counts the
//     place first, sends it as a claim with a number, and waits until its successor has
//     confirmed that claim. The confirmation has the successor's own load. If that
//     leaves no room, the claimer gives the place back. So two processes that take the last
//     place at the same time never both keep it.
//   - A process forwards a claim of its predecessor to its successor as one of its own.
//   - A predecessor in which requests wait gets every change, too.
//
// codex-proxy 0.1.0 sends no load. As a predecessor it answers every change of the drains
// with its turns: its successor sends empty changes, and counts its turns against
// max_inflight, but against no limit of a key. As a successor it confirms no claim:
// claimBound ends the first wait and all later ones, and each of the two counts alone.
package inflight
