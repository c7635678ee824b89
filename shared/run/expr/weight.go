package expr

// Bytes of memory that decoded JSON takes, each with its place in what holds it.
const (
	weightValue   = 36  // of an element: an interface, and what a list has grown past
	weightScalar  = 16  // of what a string or a number points to, beside its text
	weightList    = 24  // of a list beside its elements
	weightObject  = 48  // of an object without members
	weightMembers = 272 // of eight members of an object, full or not
)

// Weight is how many bytes of memory [Decode] takes for a JSON text at most, as far
// as the number of its values tells. What is not JSON has some weight too.
func Weight(raw []byte) int64 {
	total, quoted := int64(len(raw)), false
	var members []int // of the objects and lists that are open; -1: a list
	last := byte(0)   // what came before, white space left out
	for i := 0; i < len(raw); i++ {
		c := raw[i]
		if quoted {
			switch c {
			case '\\':
				i++
			case '"':
				quoted = false
			}
			continue
		}
		switch c {
		case ' ', '\t', '\r', '\n':
			continue
		case '"':
			quoted = true
			total += weightScalar
		case '{':
			total += weightObject
			members = append(members, 0)
		case '[':
			total += weightList
			members = append(members, -1)
		case '}', ']':
			members = members[:max(len(members)-1, 0)]
		case ':':
			if n := len(members) - 1; n >= 0 && members[n] >= 0 {
				if members[n]%8 == 0 {
					total += weightMembers
				}
				members[n]++
			}
		case ',':
		default:
			if last == 0 || last == ',' || last == ':' || last == '[' || last == '{' {
				total += weightScalar // a number, true, false or null begins
			}
		}
		if last == ',' || last == '[' && c != ']' {
			if n := len(members) - 1; n >= 0 {
				total += weightValue
			}
		}
		last = c
	}
	return total + weightValue
}
