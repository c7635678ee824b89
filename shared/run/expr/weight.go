package expr

// Memory of decoded JSON in bytes, including the slot in its container.
const (
	weightValue   = 36  // of an element: an interface, and spare capacity of its list
	weightScalar  = 16  // of a string or a number besides its text
	weightList    = 24  // of a list besides its elements
	weightObject  = 48  // of an object without members
	weightMembers = 272 // of eight members of an object, full or not
)

// Weight returns an upper bound of the memory that [Decode] needs for a JSON
// text, estimated from the number of its values. Invalid JSON has a weight,
// too.
func Weight(raw []byte) int64 {
	total, quoted := int64(len(raw)), false
	var members []int // of the open objects and lists; -1: a list
	last := byte(0)   // previous character other than white space
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
