package authz

import (
	"encoding/binary"
	"fmt"
)

// Codes of a close frame (RFC 6455, 7.4.1).
const (
	codeProtocol    = 1002
	codeUnsupported = 1003
	codePolicy      = 1008
	codeTooBig      = 1009
)

// closed is the reason why the proxy ends a connection.
type closed struct {
	code   uint16
	reason string
}

func (c *closed) Error() string { return c.reason }

func closeFor(code uint16, format string, args ...any) error {
	return &closed{code: code, reason: fmt.Sprintf(format, args...)}
}

// frame is the close frame with the reason, which the RFC bounds.
func (c *closed) frame() []byte {
	reason := c.reason[:min(len(c.reason), controlLimit-2)]
	b := appendHeader(nil, header{fin: true, op: closing, length: int64(2 + len(reason))})
	return append(binary.BigEndian.AppendUint16(b, c.code), reason...)
}
