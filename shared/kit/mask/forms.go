package mask

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf16"
)

// encodings returns the forms in which a value is searched for in plain text.
func encodings(v string) []string {
	forms := []string{v}
	for shift := range 3 {
		forms = append(forms, base64Core(base64.RawStdEncoding, v, shift), base64Core(base64.RawURLEncoding, v, shift))
	}
	for _, safe := range []string{"-_.~", "-_.~/", "-_.!~*'()", "-_.~$&+,/:;=@"} { // most libraries; Python's quote; JavaScript's; paths
		upper := percent(v, safe)
		forms = append(forms, upper, lowerHex(upper))
	}
	for _, form := range []string{url.QueryEscape(v), url.PathEscape(v)} {
		forms = append(forms, form, lowerHex(form))
	}
	return append(append(forms, jsonForms(v)...), pythonForms(v)...)
}

// pythonForms returns the forms of v in Python's repr of a string that contains
// v, also in ASCII only, in both kinds of quotes.
func pythonForms(v string) []string {
	var forms []string
	for _, printable := range []func(rune) bool{unicode.IsPrint, func(r rune) bool { return r < 0x7f }} {
		var b strings.Builder
		for _, r := range v {
			switch short := strings.IndexRune("\\\n\r\t", r); {
			case short >= 0:
				b.WriteString(`\` + `\nrt`[short:short+1])
			case r >= ' ' && printable(r):
				b.WriteRune(r)
			case r < 0x100:
				fmt.Fprintf(&b, `\x%02x`, r)
			case r < 0x10000:
				fmt.Fprintf(&b, `\u%04x`, r)
			default:
				fmt.Fprintf(&b, `\U%08x`, r)
			}
		}
		forms = append(forms, b.String(), strings.ReplaceAll(b.String(), "'", `\'`))
	}
	return forms
}

// base64Core returns the common part of the base64 of all texts in which v
// follows a prefix whose length is shift modulo three.
func base64Core(enc *base64.Encoding, v string, shift int) string {
	text := enc.EncodeToString(append(make([]byte, shift), v...))
	if (shift+len(v))%3 != 0 {
		text = text[:len(text)-1] // depends on the next byte, too
	}
	return text[[...]int{0, 2, 3}[shift]:]
}

// percent escapes every byte except letters, digits and the safe ones.
func percent(v, safe string) string {
	var b strings.Builder
	for i := range len(v) {
		c := v[i]
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte(safe, c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// lowerHex converts the digits of percent escapes to lower case. The text has
// no other percent signs.
func lowerHex(v string) string {
	b := []byte(v)
	for i := 0; i+2 < len(b); i++ {
		if b[i] == '%' {
			copy(b[i+1:], strings.ToLower(string(b[i+1:i+3])))
			i += 2
		}
	}
	return string(b)
}

// jsonForms returns the ways to write v in a JSON string: unescaped, HTML-safe
// and ASCII-only; with slashes escaped or not.
func jsonForms(v string) []string {
	var plain strings.Builder
	enc := json.NewEncoder(&plain)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // a string always encodes
	text := strings.TrimSuffix(plain.String(), "\n")
	text = text[1 : len(text)-1]
	html, _ := json.Marshal(v)
	forms := []string{text, string(html[1 : len(html)-1]), ascii(text, "%04x"), ascii(text, "%04X")}
	if strings.Contains(v, "\u2028") || strings.Contains(v, "\u2029") { // which only Go escapes
		forms = append(forms, strings.NewReplacer(`\u2028`, "\u2028", `\u2029`, "\u2029").Replace(text))
	}
	if strings.Contains(v, "\x7f") {
		forms = append(forms, strings.ReplaceAll(ascii(text, "%04x"), "\x7f", `\u007f`))
	}
	if strings.Contains(v, "/") {
		for _, f := range forms {
			forms = append(forms, strings.ReplaceAll(f, "/", `\/`))
		}
	}
	return forms
}

// ascii escapes non-ASCII characters of a JSON string.
func ascii(text, hex string) string {
	var b strings.Builder
	for _, r := range text {
		if r < 0x80 {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&b, `\u`+hex, unit)
		}
	}
	return b.String()
}
