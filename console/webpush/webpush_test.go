package webpush

import (
	"crypto/ecdh"
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"codex-proxy/console/webpush/webpushtest"
)

func decoded(t *testing.T, text string) []byte {
	t.Helper()
	b, err := base64.RawURLEncoding.DecodeString(text)
	require.NoError(t, err)
	return b
}

// The example of RFC 8291, 5 and appendix A.
func TestExampleOfTheStandard(t *testing.T) {
	s := Subscription{
		Endpoint: "https://push.example.net/push/JzLQ3raZJfFBR0aqvOMsLrt54w4rJUsV",
		P256dh:   "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4",
		Auth:     "BTBZMqHH6r4Tts7J_aSIgg",
	}
	require.NoError(t, s.Check())
	sender, err := ecdh.P256().NewPrivateKey(decoded(t, "yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw"))
	require.NoError(t, err)
	got, err := s.encrypt([]byte("When I grow up, I want to be a watermelon"), sender, decoded(t, "DGv6ra1nlYgDCS1FRnbzlw"))
	require.NoError(t, err)
	assert.Equal(t, "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6Tlz"+
		"AC8wEqKK6PBru3jl7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN",
		base64.RawURLEncoding.EncodeToString(got))
}

// A browser reads what was encrypted for it, up to the bound, and no other browser does.
func TestMessages(t *testing.T) {
	browser, other := webpushtest.NewBrowser(t), webpushtest.NewBrowser(t)
	s := Subscription{"https://push.example.com/1", browser.P256dh(), browser.Auth()}
	require.NoError(t, s.Check())
	for _, text := range []string{"", "a", strings.Repeat("x", MaxText)} {
		message, err := s.Encrypt([]byte(text))
		require.NoError(t, err)
		assert.LessOrEqual(t, len(message), maxMessage)
		got, err := browser.Decrypt(message)
		require.NoError(t, err)
		assert.Equal(t, text, string(got))
		_, err = other.Decrypt(message)
		require.Error(t, err)
	}
	_, err := s.Encrypt(make([]byte, MaxText+1))
	require.ErrorContains(t, err, "may have 3993")
}

func TestSubscriptionsThatAreRefused(t *testing.T) {
	b := webpushtest.NewBrowser(t)
	for name, s := range map[string]Subscription{
		"http":               {"http://push.example.com/1", b.P256dh(), b.Auth()},
		"no host":            {"https:///1", b.P256dh(), b.Auth()},
		"a user":             {"https://a:b@push.example.com/1", b.P256dh(), b.Auth()},
		"a file":             {"file:///etc/passwd", b.P256dh(), b.Auth()},
		"too long":           {"https://push.example.com/" + strings.Repeat("x", maxEndpoint), b.P256dh(), b.Auth()},
		"a short key":        {"https://push.example.com/1", b.P256dh()[:40], b.Auth()},
		"no point":           {"https://push.example.com/1", "BA" + strings.Repeat("A", 85), b.Auth()},
		"a long secret":      {"https://push.example.com/1", b.P256dh(), b.P256dh()},
		"an empty secret":    {"https://push.example.com/1", b.P256dh(), ""},
		"a secret with junk": {"https://push.example.com/1", b.P256dh(), b.Auth() + "\n\x00"},
	} {
		require.Error(t, s.Check(), name)
		_, err := s.Encrypt([]byte("x"))
		if s.P256dh != b.P256dh() || s.Auth != b.Auth() {
			assert.Error(t, err, name)
		}
	}
}

// A push service verifies the signature with the public key; another one does not take it.
func TestSignature(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	k, err := LoadKey(file)
	require.NoError(t, err)
	info, err := os.Stat(file)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode())
	again, err := LoadKey(file)
	require.NoError(t, err)
	assert.Equal(t, k.Public(), again.Public())
	now := time.Now()
	header, err := again.Authorization(Subscription{Endpoint: "https://push.example.com:8443/a/b?c"}, "https://codex.example.com", now)
	require.NoError(t, err)
	claims, err := webpushtest.Verify(header, k.Public())
	require.NoError(t, err)
	assert.Equal(t, webpushtest.Claims{Audience: "https://push.example.com:8443", Subject: "https://codex.example.com",
		Expires: now.Add(tokenLife).Unix()}, claims)
	_, err = webpushtest.Verify(header[:30]+"A"+header[31:], k.Public())
	require.Error(t, err, "changed on its way")
	_, err = again.Authorization(Subscription{Endpoint: "ftp://push.example.com"}, "", now)
	require.Error(t, err)

	require.NoError(t, os.WriteFile(file, []byte("damaged"), 0o600))
	_, err = LoadKey(file)
	require.ErrorContains(t, err, "remove it")
	require.NoError(t, os.Remove(file))
	k, err = LoadKey(file)
	require.NoError(t, err)
	assert.NotEqual(t, again.Public(), k.Public())
}
