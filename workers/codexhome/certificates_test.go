package codexhome

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const providerFile = "mode = %q\nmodel = \"m\"\n[provider]\nname = \"p\"\nbase_url = %q\nca_file = %q\n"

func TestCertificates(t *testing.T) {
	authority := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(authority, selfSigned(t), 0o600))
	for _, c := range []struct{ mode, url, ca, has string }{
		{"plain", "http://127.0.0.1:8000/v1", "", "# none"},
		{"plain", "http://localhost:8000/v1", "", "# none"},
		{"plain", "http://[::1]:8000/v1", "", "# none"},
		{"plain", "http://models.example.com/v1", "", ""},
		{"plain", "https://127.0.0.1/v1", "", ""},
		{"native", "http://127.0.0.1:8000/v1", "", ""},
		{"plain", "https://models.example.com/v1", authority, "BEGIN CERTIFICATE"},
		{"native", "https://models.example.com/v1", authority, "BEGIN CERTIFICATE"},
	} {
		f := newFake(t, fmt.Sprintf(providerFile, c.mode, c.url, c.ca))
		require.NoError(t, os.WriteFile(filepath.Join(f.Runtime, certificatesName), []byte("of before"), 0o600))
		require.NoError(t, f.Prepare(context.Background()))
		b, err := os.ReadFile(filepath.Join(f.Runtime, certificatesName))
		if c.has == "" {
			require.ErrorIs(t, err, os.ErrNotExist, c)
			continue
		}
		require.NoError(t, err, c)
		assert.Contains(t, string(b), c.has, c)
	}
}

func TestBadCertificates(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.pem")
	require.NoError(t, os.WriteFile(empty, []byte("nothing"), 0o600))
	for path, want := range map[string]string{
		"/none.pem": "cannot read provider.ca_file: open /none.pem: no such file or directory",
		empty:       "holds no certificate",
		"here.pem":  "is not an absolute path",
	} {
		f := newFake(t, fmt.Sprintf(providerFile, "plain", "https://models.example.com/v1", path))
		err := f.Prepare(context.Background())
		var problem *Problem
		require.ErrorAs(t, err, &problem)
		assert.Contains(t, err.Error(), want)
		assert.Equal(t, 6, problem.Line)
	}
}

func selfSigned(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
