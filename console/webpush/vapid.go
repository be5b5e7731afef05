package webpush

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"codex-proxy/internal/statefile"
)

// tokenLife is how long a push service takes a signature; the RFC allows 24 hours.
const tokenLife = 12 * time.Hour

// maxFile bounds the file of the key, in bytes.
const maxFile = 1 << 10

// scalarSize is the size of a private key, and of each half of a signature, in bytes.
const scalarSize = 32

// Key is the key by which push services know the sender. A browser takes messages of the key that it has subscribed
// with alone.
type Key struct{ private *ecdsa.PrivateKey }

// LoadKey reads the key from a file, and makes the file first if it is missing.
func LoadKey(file string) (Key, error) {
	var raw []byte
	err := statefile.Read(file, "the key of notifications", maxFile, &raw)
	if errors.Is(err, fs.ErrNotExist) {
		return makeKey(file)
	}
	var private *ecdsa.PrivateKey
	if err == nil {
		private, err = ecdsa.ParseRawPrivateKey(elliptic.P256(), raw)
	}
	if err != nil {
		return Key{}, fmt.Errorf("%s is damaged (%w): remove it; each person turns notifications on again then", file, err)
	}
	return Key{private}, nil
}

func makeKey(file string) (Key, error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Key{}, err
	}
	raw, err := private.Bytes()
	if err != nil {
		return Key{}, err
	}
	return Key{private}, statefile.Write(file, raw)
}

// Public is the public key, as pages hand it to browsers.
func (k Key) Public() string {
	point, err := k.private.PublicKey.Bytes()
	if err != nil {
		panic(err) // it is a point of the curve
	}
	return base64.RawURLEncoding.EncodeToString(point)
}

// Authorization is the header of that name for a message to the subscription. contact is a URL, by which the push
// service reaches the sender; it may be empty.
func (k Key) Authorization(s Subscription, contact string, now time.Time) (string, error) {
	audience, err := Origin(s.Endpoint)
	if err != nil {
		return "", err
	}
	head, err := part(map[string]string{"typ": "JWT", "alg": "ES256"})
	if err != nil {
		return "", err
	}
	claims, err := part(struct {
		Audience string `json:"aud"`
		Expires  int64  `json:"exp"`
		Subject  string `json:"sub,omitempty"`
	}{audience, now.Add(tokenLife).Unix(), contact})
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(head + "." + claims))
	r, s2, err := ecdsa.Sign(rand.Reader, k.private, sum[:])
	if err != nil {
		return "", err
	}
	signature := make([]byte, 2*scalarSize) // not in ASN.1 (RFC 7518, 3.4)
	r.FillBytes(signature[:scalarSize])
	s2.FillBytes(signature[scalarSize:])
	return "vapid t=" + head + "." + claims + "." + base64.RawURLEncoding.EncodeToString(signature) +
		", k=" + k.Public(), nil
}

// part is one part of a JSON Web Token.
func part(v any) (string, error) {
	text, err := json.Marshal(v)
	return base64.RawURLEncoding.EncodeToString(text), err
}
