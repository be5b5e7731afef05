package apitest

import (
	"encoding/base64"
)

// Huge is a WebP of 8000 × 8000 pixels in 30 bytes: lossless, of one colour
// (RFC 9649, section 3.7.2.1.1).
var Huge = "data:image/webp;base64," + base64.StdEncoding.EncodeToString(
	[]byte("RIFF\x16\x00\x00\x00WEBPVP8L\x0a\x00\x00\x00\x2f\x3f\x5f\xcf\x07\x88\x88\x08\x00\x00"))

// TurnsOnWorker is what the worker has, whoever has asked for it.
func (r *Rig) TurnsOnWorker() int { return r.Report().Workers[0].Inflight }
