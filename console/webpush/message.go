package webpush

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
)

const (
	// MaxText bounds the text of a message: a push service has to take messages of 4096 bytes (RFC 8030, 7.2).
	MaxText = maxMessage - headerSize - 1 - tagSize

	maxMessage = 4096
	saltSize   = 16
	tagSize    = 16
	headerSize = saltSize + 4 + 1 + pointSize
	// last marks the end of the text in the last record, which is the only one (RFC 8188, 2).
	last = 2
)

// Encrypt is the message with that text, which the browser of the subscription alone can read (RFC 8291).
func (s Subscription) Encrypt(text []byte) ([]byte, error) {
	sender, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	salt := make([]byte, saltSize)
	rand.Read(salt) // never fails: crypto/rand aborts the program instead
	return s.encrypt(text, sender, salt)
}

func (s Subscription) encrypt(text []byte, sender *ecdh.PrivateKey, salt []byte) ([]byte, error) {
	if len(text) > MaxText {
		return nil, fmt.Errorf("the text of a push has %d bytes, and may have %d", len(text), MaxText)
	}
	browser, secret, err := s.keys()
	if err != nil {
		return nil, err
	}
	shared, err := sender.ECDH(browser)
	if err != nil {
		return nil, err
	}
	key, nonce, err := derive(shared, secret, salt, browser.Bytes(), sender.PublicKey().Bytes())
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	gcm, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	message := append(make([]byte, 0, maxMessage), salt...)
	message = binary.BigEndian.AppendUint32(message, maxMessage)
	message = append(append(message, pointSize), sender.PublicKey().Bytes()...)
	return gcm.Seal(message, nonce, append(text[:len(text):len(text)], last), nil), nil
}

// derive makes the key and the nonce of a message (RFC 8291, 3.4).
func derive(shared, secret, salt, browser, sender []byte) (key, nonce []byte, err error) {
	from, err := hkdf.Key(sha256.New, shared, secret, "WebPush: info\x00"+string(browser)+string(sender), 32)
	if err != nil {
		return nil, nil, err
	}
	key, keyErr := hkdf.Key(sha256.New, from, salt, "Content-Encoding: aes128gcm\x00", 16)
	nonce, nonceErr := hkdf.Key(sha256.New, from, salt, "Content-Encoding: nonce\x00", 12)
	return key, nonce, errors.Join(keyErr, nonceErr)
}
