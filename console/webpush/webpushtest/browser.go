// Package webpushtest plays the other two sides of Web Push for tests: a browser, which reads messages, and a push
// service, which verifies who sends them. It is written by the RFCs, and shares no code with package webpush.
package webpushtest

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"
)

// Browser has the keys of one subscription.
type Browser struct {
	private *ecdh.PrivateKey
	auth    []byte
}

// NewBrowser returns a browser with new keys.
func NewBrowser(t *testing.T) *Browser {
	t.Helper()
	private, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	auth := make([]byte, 16)
	rand.Read(auth)
	return &Browser{private, auth}
}

// P256dh is the public key, as a page reads it.
func (b *Browser) P256dh() string {
	return base64.RawURLEncoding.EncodeToString(b.private.PublicKey().Bytes())
}

// Auth is the shared secret, as a page reads it.
func (b *Browser) Auth() string { return base64.RawURLEncoding.EncodeToString(b.auth) }

func mac(key []byte, parts ...[]byte) []byte {
	h := hmac.New(sha256.New, key)
	for _, p := range parts {
		h.Write(p)
	}
	return h.Sum(nil)
}

// Decrypt is the text of a message (RFC 8291, 3.4; RFC 8188, 2).
func (b *Browser) Decrypt(message []byte) ([]byte, error) {
	if len(message) < 86 || message[20] != 65 {
		return nil, errors.New("the message has no header of aes128gcm")
	}
	salt, size, point, sealed := message[:16], binary.BigEndian.Uint32(message[16:20]), message[21:86], message[86:]
	if int(size) < len(sealed) {
		return nil, errors.New("the message has more than one record")
	}
	sender, err := ecdh.P256().NewPublicKey(point)
	if err != nil {
		return nil, err
	}
	shared, err := b.private.ECDH(sender)
	if err != nil {
		return nil, err
	}
	one := []byte{1}
	from := mac(mac(b.auth, shared), []byte("WebPush: info\x00"), b.private.PublicKey().Bytes(), point, one)
	random := mac(salt, from)
	key := mac(random, []byte("Content-Encoding: aes128gcm\x00"), one)[:16]
	nonce := mac(random, []byte("Content-Encoding: nonce\x00"), one)[:12]
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	text, err := gcm.Open(nil, nonce, sealed, nil)
	if err != nil {
		return nil, err
	}
	whole := strings.TrimRight(string(text), "\x00")
	if !strings.HasSuffix(whole, "\x02") {
		return nil, errors.New("the last record has no end")
	}
	return []byte(whole[:len(whole)-1]), nil
}

// Claims are the claims of a sender.
type Claims struct {
	Audience string `json:"aud"`
	Subject  string `json:"sub"`
	Expires  int64  `json:"exp"`
}

// Verify checks the header Authorization of a sender with that public key, and returns its claims.
func Verify(header, public string) (c Claims, err error) {
	token, key, found := strings.Cut(strings.TrimPrefix(header, "vapid t="), ", k=")
	parts := strings.Split(token, ".")
	if !found || key != public || len(parts) != 3 {
		return c, fmt.Errorf("%q is not signed by %s", header, public)
	}
	point, keyErr := base64.RawURLEncoding.DecodeString(key)
	signature, signErr := base64.RawURLEncoding.DecodeString(parts[2])
	claims, claimErr := base64.RawURLEncoding.DecodeString(parts[1])
	if err := errors.Join(keyErr, signErr, claimErr); err != nil || len(signature) != 64 {
		return c, fmt.Errorf("%q is no token: %w", header, err)
	}
	verifier, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), point)
	if err != nil {
		return c, err
	}
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	r, s := new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:])
	if !ecdsa.Verify(verifier, sum[:], r, s) {
		return c, errors.New("the signature is wrong")
	}
	return c, json.Unmarshal(claims, &c)
}
