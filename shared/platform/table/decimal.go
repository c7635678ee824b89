package table

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"
)

// Decimal returns the exact Number of a decimal in any form ("7", "-0.50",
// "1e3"). It returns ErrInvalid for anything else, and ErrLimit if the decimal
// has more than 38 digits or is out of DynamoDB's range.
func Decimal(s string) (Value, error) {
	if isSmallInt(s) {
		return Value{kind: Number, str: s}, nil
	}
	negative, digits, exponent, ok := parseDecimal(s)
	if !ok {
		return Value{}, fmt.Errorf("%w: %q is not a number", ErrInvalid, s)
	}
	str := formatDecimal(negative, digits, exponent)
	if err := checkDecimal(str); err != nil {
		return Value{}, err
	}
	return Value{kind: Number, str: str}, nil
}

// isSmallInt reports whether s is the canonical form of an integer whose sums
// fit an int64: the fast path of all arithmetic.
func isSmallInt(s string) bool {
	digits := strings.TrimPrefix(s, "-")
	if digits == "" || len(digits) > 18 || digits[0] == '0' && s != "0" {
		return false
	}
	for i := range len(digits) {
		if digits[i] < '0' || digits[i] > '9' {
			return false
		}
	}
	return true
}

// parseDecimal splits a decimal into its significant digits (none for zero) and
// the power of ten of the last one.
func parseDecimal(s string) (negative bool, digits string, exponent int, ok bool) {
	mantissa, exp, hasExp := strings.Cut(strings.ToLower(s), "e")
	if hasExp {
		n, err := strconv.ParseInt(exp, 10, 16)
		if err != nil {
			return false, "", 0, false
		}
		exponent = int(n)
	}
	if mantissa != "" && (mantissa[0] == '-' || mantissa[0] == '+') {
		negative, mantissa = mantissa[0] == '-', mantissa[1:]
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits = whole + fraction
	if digits == "" || strings.Trim(digits, "0123456789") != "" {
		return false, "", 0, false
	}
	exponent -= len(fraction)
	digits = strings.TrimLeft(digits, "0")
	trimmed := strings.TrimRight(digits, "0")
	exponent += len(digits) - len(trimmed)
	if trimmed == "" {
		return false, "", 0, true
	}
	return negative, trimmed, exponent, true
}

// formatDecimal returns the canonical form: plain digits, no exponent, no
// redundant zeros.
func formatDecimal(negative bool, digits string, exponent int) string {
	if digits == "" {
		return "0"
	}
	var b strings.Builder
	if negative {
		b.WriteByte('-')
	}
	switch point := len(digits) + exponent; {
	case exponent >= 0:
		b.WriteString(digits)
		b.WriteString(strings.Repeat("0", exponent))
	case point > 0:
		b.WriteString(digits[:point])
		b.WriteByte('.')
		b.WriteString(digits[point:])
	default:
		b.WriteString("0.")
		b.WriteString(strings.Repeat("0", -point))
		b.WriteString(digits)
	}
	return b.String()
}

// checkDecimal checks a canonical decimal against DynamoDB's precision and
// range.
func checkDecimal(s string) error {
	if isSmallInt(s) {
		return nil
	}
	_, digits, exponent, ok := parseDecimal(s)
	switch {
	case !ok:
		return fmt.Errorf("%w: %q is not a number", ErrInvalid, s)
	case len(digits) > MaxDigits:
		return fmt.Errorf("%w: number of %d digits, at most %d", ErrLimit, len(digits), MaxDigits)
	case digits != "" && (len(digits)+exponent > 126 || len(digits)+exponent < -129):
		return fmt.Errorf("%w: number out of range", ErrLimit)
	}
	return nil
}

// compareDecimals orders canonical decimals by value.
func compareDecimals(a, b string) int {
	if a == b {
		return 0
	}
	if isSmallInt(a) && isSmallInt(b) {
		x, _ := strconv.ParseInt(a, 10, 64)
		y, _ := strconv.ParseInt(b, 10, 64)
		if x < y {
			return -1
		}
		return 1
	}
	x, y, _ := align(a, b)
	return x.Cmp(y)
}

// addDecimals adds two canonical decimals exactly.
func addDecimals(a, b string) (Value, error) {
	if isSmallInt(a) && isSmallInt(b) {
		x, _ := strconv.ParseInt(a, 10, 64)
		y, _ := strconv.ParseInt(b, 10, 64)
		return Value{kind: Number, str: strconv.FormatInt(x+y, 10)}, nil
	}
	x, y, exponent := align(a, b)
	return Decimal(x.Add(x, y).String() + "e" + strconv.Itoa(exponent))
}

// align converts two decimals to integers with a common power of ten.
func align(a, b string) (x, y *big.Int, exponent int) {
	nx, dx, ex, _ := parseDecimal(a)
	ny, dy, ey, _ := parseDecimal(b)
	exponent = min(ex, ey)
	return scaled(nx, dx, ex-exponent), scaled(ny, dy, ey-exponent), exponent
}

func scaled(negative bool, digits string, zeros int) *big.Int {
	n := new(big.Int)
	if digits == "" {
		return n
	}
	n.SetString(digits+strings.Repeat("0", zeros), 10)
	if negative {
		n.Neg(n)
	}
	return n
}
