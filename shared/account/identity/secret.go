package identity

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"hash/crc32"
	"math/big"
	"strings"
)

// The prefixes of credentials. Each is that of one kind only.
const (
	KeyPrefix   = "svc_" // of API keys
	TokenPrefix = "mat_" // of access tokens
)

// A credential is its prefix, 256 random bits and a checksum, both in base 62
// so that a double click selects all of it.
const (
	randomDigits   = 43
	checksumDigits = 6
	shownLen       = 12 // characters of an API key shown in lists

	base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
)

// newSecret returns a new credential with a prefix.
func newSecret(prefix string) string {
	var random [32]byte
	_, _ = rand.Read(random[:]) // never fails (crypto/rand)
	body := prefix + encode(new(big.Int).SetBytes(random[:]), randomDigits)
	return body + checksum(body)
}

// validSecret reports whether s has the form and the checksum of a credential
// with a prefix, so that a mistyped or forged one is rejected without a read.
func validSecret(prefix, s string) bool {
	if len(s) != len(prefix)+randomDigits+checksumDigits || !strings.HasPrefix(s, prefix) {
		return false
	}
	body, sum := s[:len(s)-checksumDigits], s[len(s)-checksumDigits:]
	return checksum(body) == sum
}

// hashSecret returns the stored form of a credential.
func hashSecret(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

func checksum(body string) string {
	return encode(new(big.Int).SetUint64(uint64(crc32.ChecksumIEEE([]byte(body)))), checksumDigits)
}

// encode returns n in base 62, padded to a fixed number of digits.
func encode(n *big.Int, digits int) string {
	out := make([]byte, digits)
	base, digit := big.NewInt(int64(len(base62))), new(big.Int)
	for i := digits - 1; i >= 0; i-- {
		n.DivMod(n, base, digit)
		out[i] = base62[digit.Int64()]
	}
	return string(out)
}
