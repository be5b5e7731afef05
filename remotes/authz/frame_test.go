package authz

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestHeader(t *testing.T) {
	for _, h := range []header{
		{fin: true, op: text, length: 0},
		{fin: true, op: text, masked: true, length: 125},
		{fin: false, op: continuation, length: 126},
		{fin: true, op: binaryData, masked: true, length: 65535},
		{fin: true, op: text, length: 65536},
		{fin: true, op: text, masked: true, length: 1 << 40},
		{fin: true, op: ping, length: 125},
	} {
		b := appendHeader(nil, h)
		got, size, err := parseHeader(b)
		require.NoError(t, err)
		assert.Equal(t, h, got)
		assert.Equal(t, len(b), size)
		for n := range len(b) {
			_, size, err := parseHeader(b[:n])
			assert.NoError(t, err)
			assert.Zero(t, size, "of %d bytes of %d", n, len(b))
		}
	}
}

func TestHeaderRefusesWhatTheRFCForbids(t *testing.T) {
	for name, b := range map[string][]byte{
		"an extension":               {0xC1, 0x00},
		"an unknown opcode":          {0x83, 0x00},
		"a ping in fragments":        {0x09, 0x00},
		"a long close":               {0x88, 0x7E, 0x01, 0x00},
		"a short length in two":      {0x81, 0x7E, 0x00, 0x7D},
		"a short length in eight":    {0x81, 0x7F, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF},
		"a length with its sign bit": {0x81, 0x7F, 0x80, 0, 0, 0, 0, 0, 0, 0},
	} {
		_, _, err := parseHeader(b)
		assert.ErrorIs(t, err, errProtocol, name)
	}
}

func TestUnmask(t *testing.T) {
	mask := [4]byte{1, 2, 3, 4}
	for size := range 100 {
		for offset := range int64(9) {
			b := make([]byte, size)
			unmask(b, mask, offset)
			want := make([]byte, size)
			for i := range want {
				want[i] = mask[(int64(i)+offset)%4]
			}
			require.True(t, bytes.Equal(want, b), "%d bytes at %d", size, offset)
		}
	}
}

func FuzzHeader(f *testing.F) {
	f.Add([]byte{0x81, 0xFE, 0x01, 0x00, 1, 2, 3, 4})
	f.Add([]byte{0x88, 0x02, 3, 0xE8})
	f.Fuzz(func(t *testing.T, b []byte) {
		h, size, err := parseHeader(b)
		if err != nil || size == 0 {
			return
		}
		if size > headerLimit || size > len(b) || h.length < 0 || h.op.control() && (h.length > controlLimit || !h.fin) {
			t.Fatalf("%+v of %d bytes", h, size)
		}
		again := appendHeader(nil, h)
		h.mask = [4]byte{}
		if back, n, err := parseHeader(again); err != nil || n != size || back != h {
			t.Fatalf("%+v is written as %x", h, again)
		}
	})
}
