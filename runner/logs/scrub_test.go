package logs

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func secretsOf(t testing.TB, values ...string) *Secrets {
	t.Helper()
	named := map[string][]byte{}
	for i, value := range values {
		named[fmt.Sprintf("S%d", i)] = []byte(value)
	}
	s, err := NewSecrets(named)
	require.NoError(t, err)
	return s
}

// scrub writes the pieces to a scrubber.
func scrub(t testing.TB, s *Secrets, pieces ...[]byte) string {
	t.Helper()
	var out bytes.Buffer
	c := s.scrubber(func(p []byte) error { out.Write(p); return nil })
	for _, piece := range pieces {
		require.NoError(t, c.write(piece))
	}
	require.NoError(t, c.close())
	return out.String()
}

const pem = "-----BEGIN KEY-----\nMC4CAQAwBQYDK2VwBCIEI\nAb=\n-----END KEY-----\n"

func TestSecretsAreHidden(t *testing.T) {
	for name, c := range map[string]struct {
		secrets []string
		in, out string
	}{
		"alone":                        {[]string{"hunter2"}, "hunter2", "***"},
		"in a line":                    {[]string{"hunter2"}, "a hunter2 b\n", "a *** b\n"},
		"nearly":                       {[]string{"hunter2"}, "hunter hunt hunter3 hunte", "hunter hunt hunter3 hunte"},
		"after its own beginning":      {[]string{"aab1"}, "aaaab1", "aa***"},
		"twice":                        {[]string{"hunter2"}, "hunter2 hunter2", "*** ***"},
		"side by side":                 {[]string{"hunter2"}, "hunter2hunter2", "***"},
		"overlapping":                  {[]string{"abcdef", "defghi"}, "-abcdefghi-", "-***-"},
		"one in another":               {[]string{"xabcdx", "abcd"}, "xabcdx xabcd", "*** x***"},
		"a long one that breaks off":   {[]string{"0123456789", "3456"}, "01234567x", "012***7x"},
		"with a line break at its end": {[]string{"hunter2\n"}, "hunter2\nhunter2", "***\n***"},
		"whole, of several lines":      {[]string{pem}, "x\n" + pem + "y", "x\n***\ny"},
		"as a terminal shows it":       {[]string{pem}, strings.ReplaceAll(pem, "\n", "\r\n"), "***\r\n"},
		"one line of several":          {[]string{pem}, "key MC4CAQAwBQYDK2VwBCIEI!", "key ***!"},
		"a short line of several":      {[]string{pem}, "key Ab=", "key Ab="},
		"binary":                       {[]string{"\x00\xff\x00\xfe"}, "\x00\x00\xff\x00\xfe\xfe", "\x00***\xfe"},
	} {
		t.Run(name, func(t *testing.T) {
			s := secretsOf(t, c.secrets...)
			assert.Equal(t, c.out, scrub(t, s, []byte(c.in)))
			var single [][]byte
			for _, b := range []byte(c.in) {
				single = append(single, []byte{b})
			}
			assert.Equal(t, c.out, scrub(t, s, single...), "byte by byte")
		})
	}
}

func TestSecretsThatCannotBeHidden(t *testing.T) {
	s, err := NewSecrets(nil)
	require.NoError(t, err)
	assert.Nil(t, s)
	_, err = NewSecrets(map[string][]byte{"TOKEN": []byte("abc\n")})
	assert.EqualError(t, err, "the secret TOKEN has 3 bytes: hiding a value so short would hide much of the output, "+
		"so use one of at least 4 bytes")
	_, err = NewSecrets(map[string][]byte{"A": make([]byte, mostSecrets), "B": []byte("hunter2")})
	assert.EqualError(t, err, "with the secret B, the secrets have 65543 bytes together: use at most 65536")
}

// hiddenBy is what a scrubber has to do, for values without line breaks, in the plainest way.
func hiddenBy(values []string, in string) string {
	mask := make([]bool, len(in))
	for _, value := range values {
		for i := range in {
			if strings.HasPrefix(in[i:], value) {
				for j := range value {
					mask[i+j] = true
				}
			}
		}
	}
	var out strings.Builder
	for i := range len(in) {
		if !mask[i] {
			out.WriteByte(in[i])
		} else if i == 0 || !mask[i-1] {
			out.WriteString(hidden)
		}
	}
	return out.String()
}

// FuzzScrub compares the scrubber with the plainest one, for any pieces of any input.
func FuzzScrub(f *testing.F) {
	f.Add("abab", "babab", "xababababx", uint64(1))
	f.Add("aaaa", "aaaab", "aaaaaaaaabaaa", uint64(2))
	f.Add("abcd", "bcde", "abcabcdeabcd", uint64(3))
	f.Fuzz(func(t *testing.T, a, b, in string, seed uint64) {
		if min(len(a), len(b)) < shortestSecret || max(len(a), len(b)) > 100 || strings.ContainsAny(a+b, "\r\n") {
			t.Skip()
		}
		random := rand.New(rand.NewPCG(seed, 0))
		var pieces [][]byte
		for rest := []byte(in); len(rest) > 0; {
			n := 1 + random.IntN(len(rest))
			pieces = append(pieces, rest[:n])
			rest = rest[n:]
		}
		assert.Equal(t, hiddenBy([]string{a, b}, in), scrub(t, secretsOf(t, a, b), pieces...))
	})
}

func TestScrubberAgreesWithThePlainestOne(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	text := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = "ab"[random.IntN(2)]
		}
		return string(b)
	}
	for range 2000 {
		values := []string{text(4 + random.IntN(4)), text(4 + random.IntN(8)), text(6)}
		in := text(random.IntN(60))
		cut := random.IntN(len(in) + 1)
		require.Equal(t, hiddenBy(values, in), scrub(t, secretsOf(t, values...), []byte(in[:cut]), []byte(in[cut:])),
			"%q in %q cut at %d", values, in, cut)
	}
}

// BenchmarkScrub is the cost of a stream with secrets: text in which values begin often, and never end.
func BenchmarkScrub(b *testing.B) {
	s := secretsOf(b, "example-token-0123456789", "tell-nobody-about-this", pem)
	text := []byte(strings.Repeat("the quick brown fox jumps over the lazy dog, and tests pass\n", 2000))
	c := s.scrubber(func([]byte) error { return nil })
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		require.NoError(b, c.write(text))
	}
}
