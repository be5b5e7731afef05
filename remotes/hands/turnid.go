package hands

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"time"
)

// newTurnID is an id as codex makes them, a UUIDv7 (RFC 9562): ids grow with time, and are compared.
func newTurnID(now time.Time) string {
	const version, variant = 0x70, 0x80
	var id, ms [16]byte
	_, _ = rand.Read(id[:]) // it cannot fail
	binary.BigEndian.PutUint64(ms[:8], uint64(now.UnixMilli())<<16)
	copy(id[:6], ms[:6])
	id[6], id[8] = version|id[6]&0x0f, variant|id[8]&0x3f
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}
